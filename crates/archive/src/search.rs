//! A search at one start: loads at rates that were chosen while it went on.

use serde::{Deserialize, Serialize};

use crate::LoadRecord;

/// Loads of the search for the highest rate that keeps the objective, after a closed-loop trial and
/// over as many connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    pub trial: usize,
    /// In order of time.
    pub loads: Vec<SearchLoad>,
    /// Why it ended before its end, as a sentence; `None`: it did not.
    pub failure: Option<String>,
}

/// One load of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchLoad {
    /// Offered, requests per second.
    pub rate: f64,
    pub load: LoadRecord,
    /// It is longer than the others, to confirm what they found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirms: bool,
}
