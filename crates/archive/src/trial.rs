//! What one trial left behind: its load, and what was seen around it.

use schemars::JsonSchema;
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

/// The most that the generator reached on this machine, as `dyno calibrate` measured it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    pub throughput_rps: f64,
    /// When it was measured, as a date.
    pub measured: String,
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
    /// What the generator had reached before with a load like it. `None`: nobody had measured that; and in suites, whose controls
    /// show it.
    pub ceiling: Option<Ceiling>,
}
