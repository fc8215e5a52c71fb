//! The record of one trial: its load, its checks and the ceiling of the generator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load::LoadRecord;
use crate::protocol::Protocol;

/// Name of the full check of one response to each request before a load. It is always made, and
/// recorded only if it fails.
pub const EXPECTATIONS: &str = "expectations";

/// A check of responses: before the load, sampled during it, or after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    /// Protocol of the check.
    pub protocol: Protocol,
    pub ok: bool,
    /// Whether the check has a definite result. True if the check passed, if a response was
    /// incorrect, or if an idle server did not respond to two tries. False if a response or its
    /// required end (such as the end of the connection) was late. Also false if a loaded server
    /// closed the connection, or if dyno could not send a request.
    #[serde(rename = "answered")]
    pub has_response: bool,
    /// Whether the subject is known to fail the check, and is measured nevertheless.
    pub waived: bool,
    /// Whether this is a lifecycle check, which has a separate start and applies to every protocol.
    #[serde(rename = "of_life")]
    pub is_lifecycle: bool,
    pub asked: String,
    pub expected: String,
    /// The observed response, or its difference from the expected response.
    pub got: String,
}

impl CheckResult {
    /// Whether the server definitely failed the check (see `has_response`), and the check is not
    /// waived.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        !self.ok && self.has_response && !self.waived
    }

    /// Returns the protocols to which the check applies.
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

/// Highest throughput of the generator on this machine, as `dyno calibrate` measured it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    pub throughput_rps: f64,
    /// Date of the measurement.
    pub measured: String,
}

/// All observations of one trial. The file is written when the trial ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Index in the plan's list of trials.
    pub trial: usize,
    /// Number of the start (see [`crate::start::StartRecord`]) whose server was loaded.
    pub start: usize,
    pub load: LoadRecord,
    /// Checks made while the load ran.
    pub checks: Vec<CheckResult>,
    /// The generator's calibrated ceiling for a similar load. `None`: not measured, or a suite,
    /// whose controls show the ceiling.
    pub ceiling: Option<Ceiling>,
}
