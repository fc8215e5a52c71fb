//! What one trial left behind: its load, and what was seen around it.

use serde::{Deserialize, Serialize};

use crate::load::LoadRecord;

/// A check of answers: before the load, sampled during it, or after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    pub ok: bool,
    /// A whole answer came, right or wrong. False where it came late or not at all, or was not followed in time by what
    /// belongs to it.
    pub answered: bool,
    /// What was seen, or what was wanted and what came instead, with the answer shown.
    pub detail: String,
}

/// Everything one trial left behind. Written whole when the trial ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Index in the plan's list of trials.
    pub trial: usize,
    /// The start of the subject (see [`crate::start::StartRecord`]) that served it.
    pub start: usize,
    pub load: LoadRecord,
    /// Checks made while the load ran.
    pub checks: Vec<CheckResult>,
}
