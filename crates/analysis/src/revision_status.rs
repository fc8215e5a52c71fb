//! Decides whether a run that measured two revisions of a server is complete and valid. The exit
//! status of `dyno compare --rev` follows from this and from the gates.

use dyno_model::run::Run;
use dyno_model::start::FailureKind;

use crate::compare::{ComparisonResult, GateOutcome, RunProblem};
use crate::report::Report;
use crate::run_status::{RunCompleteness, RunStatus};
use crate::subject::{SubjectFailure, SubjectResult};

/// State of a run of two revisions at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionsEnd {
    /// Whether the run was interrupted before the last step.
    is_cut_short: bool,
    /// Whether everything planned was measured.
    is_complete: bool,
    /// The part at fault for failed starts. `None`: no start failed.
    failed_part: Option<&'static str>,
    /// Why a revision is not valid. `None`: both are valid.
    invalid_reason: Option<String>,
}

impl RevisionsEnd {
    /// Returns the state of a run with this report. `is_interrupted`: whether the user interrupted
    /// the run. An interrupt after the last step does not shorten the run.
    #[must_use]
    pub fn new(run: &Run, report: &Report, is_interrupted: bool) -> RevisionsEnd {
        let is_complete = RunCompleteness::new(run, report) == RunCompleteness::Complete;
        let failures = report.subjects.iter().flat_map(|subject| &subject.failures);
        RevisionsEnd {
            is_cut_short: is_interrupted && !is_complete,
            is_complete,
            failed_part: failed_part(failures.map(|failure| failure.failure.kind)),
            invalid_reason: invalid_reason(report),
        }
    }

    /// Returns the sentences about an invalid comparison, an incomplete run and failed starts.
    #[must_use]
    pub fn problems(&self) -> Vec<RunProblem> {
        let incomplete =
            |sentence: &str| RunProblem { sentence: sentence.into(), is_invalid: false };
        // After an interrupt, a revision may have no valid result because the run did not reach it.
        // Such a revision is not reported as invalid.
        let invalid_reason = self.invalid_reason.as_ref().filter(|_| !self.is_cut_short);
        let invalid =
            invalid_reason.map(|reason| RunProblem { sentence: reason.clone(), is_invalid: true });
        let gap: Option<String> = if self.is_cut_short {
            Some("The run is incomplete: it was interrupted".into())
        } else if !self.is_complete {
            let part = self.failed_part.unwrap_or("a revision");
            Some(format!("The run is incomplete: {part} failed"))
        } else if self.invalid_reason.is_none() {
            self.failed_part.map(|part| format!("In some starts, {part} failed"))
        } else {
            None
        };
        invalid.into_iter().chain(gap.as_deref().map(incomplete)).collect()
    }

    /// Returns the status of the comparison. `None`: the gates decide.
    #[must_use]
    pub fn status(&self, compared: &ComparisonResult) -> Option<RunStatus> {
        let is_gate_missed = compared.outcome() == GateOutcome::Missed;
        self.status_with(is_gate_missed, compared.rows.is_empty())
    }

    /// Returns the status of a comparison. `is_empty`: whether the comparison has no rows.
    fn status_with(&self, is_gate_missed: bool, is_empty: bool) -> Option<RunStatus> {
        if self.is_cut_short {
            return Some(RunStatus::Failed);
        }
        // This precedes the test of completeness. A server that never starts also makes the run
        // incomplete, but its comparison must have the status of an invalid result.
        if self.invalid_reason.is_some() || is_gate_missed {
            return Some(RunStatus::Invalid);
        }
        let is_complete = self.is_complete && !is_empty && self.failed_part.is_none();
        (!is_complete).then_some(RunStatus::Failed)
    }
}

/// Names the part at fault: a revision, if it caused any of the failures. `None`: no failure.
fn failed_part(kinds: impl Iterator<Item = FailureKind>) -> Option<&'static str> {
    let kinds: Vec<FailureKind> = kinds.collect();
    if kinds.is_empty() {
        return None;
    }
    let is_caused_by_revision = kinds.iter().any(|kind| kind.is_caused_by_subject());
    Some(if is_caused_by_revision { "a revision" } else { "a back end or the machine" })
}

/// Returns the reason why the comparison is invalid regardless of gates. `None`: the comparison is
/// valid.
fn invalid_reason(report: &Report) -> Option<String> {
    let invalid_trial = report.trials.iter().find(|trial| trial.has_wrong_responses());
    if let Some(trial) = invalid_trial {
        return Some(format!(
            "{}: returned incorrect responses, or failed a check of its contract",
            trial.subject_id
        ));
    }
    // If a contract is broken before the first load or after the last load, all steps stay valid.
    // Only the failures of the subject show such a break.
    let breaks = |subject: &SubjectResult| {
        let kind =
            |failure: &&SubjectFailure| failure.failure.kind == FailureKind::IncorrectResponses;
        subject
            .failures
            .iter()
            .find(kind)
            .map(|failure| format!("{}: {}", subject.id, failure.failure.in_words()))
    };
    if let Some(broken) = report.subjects.iter().find_map(breaks) {
        return Some(broken);
    }
    let is_valid =
        |id: &str| report.trials.iter().any(|trial| trial.subject_id == id && trial.valid);
    let subject = report.subjects.iter().find(|subject| !is_valid(&subject.id))?;
    Some(format!("{}: has no valid result, so the revisions cannot be compared", subject.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(is_complete: bool, kinds: &[FailureKind]) -> RevisionsEnd {
        RevisionsEnd {
            is_cut_short: false,
            is_complete,
            failed_part: failed_part(kinds.iter().copied()),
            invalid_reason: None,
        }
    }

    #[test]
    fn run_problem_names_part_at_fault() {
        let sentence = |is_complete, kinds: &[FailureKind]| {
            end(is_complete, kinds).problems().first().map(|p| p.sentence.clone())
        };
        let backend = FailureKind::BackendFailed;
        assert_eq!(
            sentence(false, &[backend]).unwrap(),
            "The run is incomplete: a back end or the machine failed"
        );
        assert_eq!(
            sentence(true, &[backend, FailureKind::Crashed]).unwrap(),
            "In some starts, a revision failed"
        );
        assert_eq!(sentence(true, &[]), None);
    }

    #[test]
    fn comparison_with_broken_revision_is_invalid() {
        use RunStatus::{Failed, Invalid};
        let status = |is_cut_short, is_complete, is_invalid: bool, is_gate_missed| {
            let invalid_reason = is_invalid.then(|| "it never started".into());
            RevisionsEnd { is_cut_short, invalid_reason, ..end(is_complete, &[]) }
                .status_with(is_gate_missed, false)
        };
        assert_eq!(status(false, true, false, false), None, "the gates decide");
        assert_eq!(status(false, false, false, false), Some(Failed), "steps are missing");
        assert_eq!(status(false, false, true, false), Some(Invalid), "its server did not start");
        let missed = status(false, false, false, true);
        assert_eq!(missed, Some(Invalid), "it did not start in most repeats");
        assert_eq!(status(false, true, true, false), Some(Invalid), "its responses were wrong");
        assert_eq!(status(true, false, true, true), Some(Failed), "interrupted");
    }

    #[test]
    fn failed_start_or_empty_comparison_fails() {
        let crashed = end(true, &[FailureKind::Crashed]);
        assert_eq!(crashed.status_with(false, false), Some(RunStatus::Failed));
        assert_eq!(end(true, &[]).status_with(false, true), Some(RunStatus::Failed));
    }
}
