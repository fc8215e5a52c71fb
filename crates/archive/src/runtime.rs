//! What a server's runtime says of itself while a load runs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Values of a runtime at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeReading {
    /// When the values had come, nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// From the question to the values.
    pub took_ns: u64,
    /// Processes that told; values are sums over them.
    pub processes: u32,
    /// The ends of the names of their sockets, which are their numbers. Empty in older archives
    /// and for a JVM.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sockets: BTreeSet<String>,
    /// By name. One that ends in `_total` only grows; what ends in `_seconds_total` is a length of
    /// time, `_bytes` an amount of memory (as in OpenMetrics).
    pub values: BTreeMap<String, f64>,
}
