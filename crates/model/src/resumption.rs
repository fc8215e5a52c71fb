//! Resumption of an interrupted run: the measurements of each part, and the differences between the
//! parts.

use serde::{Deserialize, Serialize};

use crate::Facts;
use crate::plan::Subject;

/// One `dyno run --resume`. The run's own record describes the machine and subjects of its first
/// part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumption {
    /// Date of the resumption, RFC 3339 in UTC.
    pub started: String,
    pub command: Vec<String>,
    /// Number of the first server start after this resumption. Later starts and their trials belong
    /// to this part of the run, or to a later part.
    pub from_start: usize,
    /// Differences from the first part. The user resumed despite them.
    pub differences: Vec<ResumptionDifference>,
    /// Environment variables whose values could not be compared with the first part, because
    /// archives withhold them: `OWNER: NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncompared: Vec<String>,
    pub facts: Facts,
    /// The plan's subjects, as built for this part.
    pub subjects: Vec<Subject>,
}

/// A difference between the first and a later part of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumptionDifference {
    #[serde(rename = "what")]
    pub name: String,
    pub before: String,
    pub now: String,
}
