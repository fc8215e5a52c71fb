//! Resumption of an interrupted run: the measurements of each part, and the differences between the
//! parts.

use serde::{Deserialize, Serialize};

use crate::Facts;
use crate::plan::Subject;

/// One `dyno run --resume`. The run's own record describes the machine and subjects of its first
/// part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumption {
    /// When, RFC 3339 in UTC.
    pub started: String,
    pub command: Vec<String>,
    /// Starts of this number and above are of this part, or of a later one, and their trials with
    /// them.
    pub from_start: usize,
    /// In what it differs from the first part; with any, the user wanted it all the same.
    pub differences: Vec<ResumptionDifference>,
    pub facts: Facts,
    /// The plan's subjects as they were built for this part.
    pub subjects: Vec<Subject>,
}

/// Something that was otherwise in a later part of a run than in the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumptionDifference {
    pub what: String,
    pub before: String,
    pub now: String,
}
