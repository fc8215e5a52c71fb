//! What one trial left behind: its load, and what was seen around it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load::LoadRecord;
use crate::protocol::Protocol;

/// A check of answers: before the load, sampled during it, or after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    /// Over which it was asked.
    pub protocol: Protocol,
    pub ok: bool,
    /// A whole answer came, right or wrong. False where it came late or not at all, or was not
    /// followed in time by what belongs to it.
    pub answered: bool,
    /// The subject is known to fail it, and takes part all the same.
    pub waived: bool,
    /// It is about the server's life, and was asked of a start of its own: it counts over every
    /// protocol.
    pub of_life: bool,
    /// Empty where the archive is older than that it is kept.
    pub asked: String,
    /// Empty where the archive is older than that it is kept.
    pub expected: String,
    /// What was seen, or what came instead of what was expected, with the answer shown.
    pub got: String,
}

impl CheckResult {
    /// Whether the server broke a promise of its contract that it was not let off.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        !self.ok && self.answered && !self.waived
    }

    /// The protocols over which it counts.
    #[must_use]
    pub fn counts_over(&self) -> &[Protocol] {
        if self.of_life { &Protocol::OF_SERVERS } else { std::slice::from_ref(&self.protocol) }
    }

    /// What was seen; of a check that failed, with what was expected.
    #[must_use]
    pub fn detail(&self) -> String {
        if self.ok || self.expected.is_empty() {
            return self.got.clone();
        }
        format!("asked {}; expected {}; got: {}", self.asked, self.expected, self.got)
    }
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
    /// What the generator had reached before with a load like it. `None`: nobody had measured that;
    /// and in suites, whose controls show it.
    pub ceiling: Option<Ceiling>,
}
