//! The record of one trial: its load, its checks and the ceiling of the generator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load::LoadRecord;
use crate::protocol::Protocol;

/// A check of responses: before the load, sampled during it, or after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    /// Protocol of the check.
    pub protocol: Protocol,
    pub ok: bool,
    /// Whether a failure is the server's fault, and not only a late response: it arrived in time
    /// and is incorrect, or the server was idle and did not respond to two tries. False also if the
    /// required end of a response, such as the end of the connection, was late.
    #[serde(rename = "answered")]
    pub has_response: bool,
    /// Whether the subject is known to fail the check, and takes part nevertheless.
    pub waived: bool,
    /// Whether it is a lifecycle check, which has a separate start and counts for every protocol.
    #[serde(rename = "of_life")]
    pub is_lifecycle: bool,
    /// Empty in older archives, which do not record it.
    pub asked: String,
    /// Empty in older archives, which do not record it.
    pub expected: String,
    /// The observed response, or its difference from the expected one.
    pub got: String,
}

impl CheckResult {
    /// Whether the server responded and failed a check that is not waived.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        !self.ok && self.has_response && !self.waived
    }

    /// Returns the protocols for which the check counts.
    #[must_use]
    pub fn counted_protocols(&self) -> &[Protocol] {
        if self.is_lifecycle { &Protocol::OF_SERVERS } else { std::slice::from_ref(&self.protocol) }
    }

    /// Returns the observation; for a failed check, with the expectation.
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

/// All observations of one trial. The file is written when the trial ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Index in the plan's list of trials.
    pub trial: usize,
    /// The start of the subject (see [`crate::start::StartRecord`]) that served it.
    pub start: usize,
    pub load: LoadRecord,
    /// Checks made while the load ran.
    pub checks: Vec<CheckResult>,
    /// The generator's calibrated ceiling for a similar load. `None`: not measured, or a suite,
    /// whose controls show it.
    pub ceiling: Option<Ceiling>,
}
