//! Records the statistics of a server's runtime during a load, such as garbage collections of a
//! JVM. The statistics explain where CPU time and pauses come from.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Values of a runtime at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeReading {
    /// Instant at which the values arrived, nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// Time from the query to the values.
    pub took_ns: u64,
    /// Number of processes that responded; values are sums over them.
    pub processes: u32,
    /// Numbers at the end of the names of these processes' sockets. Empty for a JVM.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sockets: BTreeSet<String>,
    /// Values by name, as in OpenMetrics: `…_total` is a counter, `…_seconds_total` a length of
    /// time, and `…_bytes` an amount of memory.
    pub values: BTreeMap<String, f64>,
}
