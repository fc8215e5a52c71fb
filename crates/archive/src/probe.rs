//! What probes cost a server: a load during which they were attached and taken off in turn.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::plan::Probe;

/// A load with probes on and off in turn, in the order off, on, on, off, off, …: two neighbours are a pair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbePrice {
    pub probes: BTreeSet<Probe>,
    pub slices: Vec<PriceSlice>,
    /// Why there is no price, as a sentence; `None`: there is.
    pub failure: Option<String>,
}

/// A stretch of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceSlice {
    /// Whether the probes looked.
    pub attached: bool,
    pub length_ns: u64,
    /// Complete answers, right or wrong.
    pub answers: u64,
    /// CPU time of the server; `None`: not known.
    pub cpu_ns: Option<u64>,
}
