//! Explains why a row of the overview lacks numbers.

use dyno_model::Protocol;
use dyno_model::plan::Plan;

use crate::subject::{SubjectFailure, SubjectResult};

/// Returns why a subject lacks all or some of its numbers; `None`: no failure is known.
/// `no_numbers`: whether all are missing.
pub(super) fn missing_reason(
    subject: &SubjectResult,
    protocol: Protocol,
    no_numbers: bool,
) -> Option<String> {
    if let Some(reason) = &subject.skipped {
        return Some(format!("skipped: {reason}"));
    }
    let concerns = |failure: &&SubjectFailure| failure.protocol.is_none_or(|only| only == protocol);
    let failure = subject.failures.iter().find(concerns)?;
    let message = failure.failure.message.lines().next().unwrap_or_default();
    let text = format!("{}: {message}", failure.failure.kind.name());
    Some(if no_numbers { text } else { format!("in some repeats: {text}") })
}

/// Returns why the first workload was not planned for a subject; `None`: the plan gives no reason.
pub(super) fn not_served_reason(plan: &Plan, subject: usize) -> Option<String> {
    let entry = plan.not_served.iter().find(|n| (n.workload, n.subject) == (0, subject))?;
    Some(format!("not loaded with {}: {}", plan.workloads[0].name, entry.reason))
}
