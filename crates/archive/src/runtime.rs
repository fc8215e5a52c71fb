//! Statistics of a server's runtime while a load runs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Values of a runtime at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeReading {
    /// When the values had come, nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// From the question to the values.
    pub took_ns: u64,
    /// Number of processes that answered; values are sums over them.
    pub processes: u32,
    /// The ends of the names of their sockets, which are their numbers. Empty in older archives
    /// and for a JVM.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sockets: BTreeSet<String>,
    /// Values by name. A name in `_total` is a counter; one in `_seconds_total` is a length of
    /// time, and one in `_bytes` an amount of memory (as in OpenMetrics).
    pub values: BTreeMap<String, f64>,
}
