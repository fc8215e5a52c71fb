//! Records a search for the highest rate that meets the objective. The loads of the search are not
//! in the plan, because each rate depends on the result before it.

use serde::{Deserialize, Serialize};

use crate::LoadRecord;

/// Loads of the search for the highest rate that meets the objective, after a closed-loop trial and
/// over as many connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    pub trial: usize,
    /// In order of time.
    pub loads: Vec<SearchLoad>,
    /// Reason why the search ended early, as a sentence. `None`: the search was completed.
    pub failure: Option<String>,
}

/// One load of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchLoad {
    /// Offered rate, requests per second.
    pub rate: f64,
    pub load: LoadRecord,
    /// Whether this is a longer load, which confirms the result of the other loads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirms: bool,
}
