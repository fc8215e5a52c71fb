//! The head of an archive.

use serde::{Deserialize, Serialize};

use crate::Facts;
use crate::plan::Plan;
use crate::resumption::Resumption;

/// What is known when the run begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub schema: String,
    /// Name of the run, unique on this machine.
    pub id: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The command that made it.
    pub command: Vec<String>,
    pub plan: Plan,
    pub facts: Facts,
    /// Each time that it was interrupted and gone on with.
    pub resumptions: Vec<Resumption>,
}
