//! Decides whether a run is complete and valid. The exit status of a command follows from this.

use std::collections::BTreeSet;

use dyno_model::TrialRecord;
use dyno_model::run::Run;
use dyno_model::start::FailureKind;

use crate::capacity::CapacityResult;
use crate::report::Report;

/// Whether a run measured everything that was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunCompleteness {
    /// Everything, except subjects that cannot run on this machine.
    Complete,
    Incomplete,
}

impl RunCompleteness {
    /// Returns whether a run measured everything that was planned. `report`: the report of the run.
    #[must_use]
    pub fn new(run: &Run, report: &Report) -> RunCompleteness {
        if is_complete(run, report) {
            RunCompleteness::Complete
        } else {
            RunCompleteness::Incomplete
        }
    }
}

fn is_complete(run: &Run, report: &Report) -> bool {
    let plan = &run.header.plan;
    if report.run.searches_missing + report.run.trials_unchecked > 0 {
        return false;
    }
    // If a back end could not be built, the subjects that need the back end were not measured.
    if plan.backends.iter().any(|backend| backend.build_failed.is_some()) {
        return false;
    }
    // A run that the suite's stop rule ended early is complete, because its comparisons were
    // decided.
    if report.run.answered_after.is_some() {
        return true;
    }
    let is_finished = |record: &&TrialRecord| !was_interrupted(run, record);
    let finished: BTreeSet<usize> =
        run.trials.iter().filter(is_finished).map(|record| record.trial).collect();
    let takes_part = |launch: usize| {
        plan.arms_of(launch).all(|arm| plan.subjects[arm.subject].skipped.is_none())
    };
    let mut required = plan.trials.iter().enumerate().filter(|(_, trial)| takes_part(trial.launch));
    required.all(|(i, _)| finished.contains(&i))
}

/// Whether the user interrupted the trial of a load without a suite (`--save`). The run of a suite
/// records such a trial only if it shows a fault of the server, and does not repeat it.
fn was_interrupted(run: &Run, record: &TrialRecord) -> bool {
    if run.header.plan.suite.is_from_file() {
        return false;
    }
    let start = run.starts.iter().find(|start| start.start == record.start);
    let failure = start.and_then(|start| start.failure.as_ref());
    record.load.cut_short && failure.is_some_and(|failure| failure.kind == FailureKind::Interrupted)
}

/// Whether a run has a valid result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    Valid,
    /// A step is not valid.
    Invalid,
    /// The run is incomplete, or a server or the machine failed.
    Failed,
}

impl RunStatus {
    /// Returns the status of a run with this report.
    #[must_use]
    pub fn new(report: &Report, completeness: RunCompleteness) -> RunStatus {
        let has_failed = report.subjects.iter().any(|s| !s.failures.is_empty())
            || report.run.measured_first.as_ref().is_some_and(|first| !first.failures.is_empty());
        if report.trials.is_empty() || has_failed || completeness == RunCompleteness::Incomplete {
            RunStatus::Failed
        } else if report.run.trials_invalid == 0 {
            RunStatus::Valid
        } else {
            RunStatus::Invalid
        }
    }

    /// Returns the status of a search for a capacity. `is_interrupted`: whether the user ended it.
    #[must_use]
    pub const fn from_search(result: &CapacityResult, is_interrupted: bool) -> RunStatus {
        if is_interrupted || result.ended.is_some() {
            return RunStatus::Failed;
        }
        let is_valid = result.kept_rps.is_some()
            && result.settled
            && result.confirmed
            && !result.limited_by_generator;
        if is_valid { RunStatus::Valid } else { RunStatus::Invalid }
    }
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::{MeasuredFirst, Subject};
    use dyno_model::start::{Failure, StartRecord};

    use super::*;
    use crate::fixture;
    use crate::report::report;

    fn run() -> Run {
        let named =
            |name: &str| Subject { name: name.into(), title: name.into(), ..Subject::default() };
        fixture::blocks_of(vec![named("a"), named("b")], 2, |_, _| 10_000)
    }

    fn status(run: &Run) -> (RunCompleteness, RunStatus) {
        let report = report(run);
        let completeness = RunCompleteness::new(run, &report);
        (completeness, RunStatus::new(&report, completeness))
    }

    use RunCompleteness::{Complete, Incomplete};

    #[test]
    fn missing_trial_fails_run() {
        let mut run = run();
        assert_eq!(status(&run).0, Complete);
        run.trials.pop();
        assert_eq!(status(&run), (Incomplete, RunStatus::Failed));
    }

    #[test]
    fn skipped_subject_is_not_missing() {
        let mut run = run();
        run.header.plan.subjects[1].skipped = Some("unobtainium is missing".into());
        let launches = run.header.plan.launches.clone();
        let trials = run.header.plan.trials.clone();
        run.trials.retain(|record| launches[trials[record.trial].launch].arms == [0]);
        assert_eq!(status(&run).0, Complete);
        run.trials.pop();
        assert_eq!(status(&run), (Incomplete, RunStatus::Failed));
    }

    #[test]
    fn failed_start_fails_complete_run() {
        let mut run = run();
        let failure = Failure { kind: FailureKind::Crashed, message: "it ended".into() };
        let start = StartRecord { start: 99, failure: Some(failure), ..StartRecord::default() };
        run.starts.push(start);
        assert_eq!(status(&run), (Complete, RunStatus::Failed));
    }

    /// The first run measured the capacity from which the rates are derived.
    #[test]
    fn failure_in_capacity_run_fails_run() {
        let mut run = run();
        let first = |failed: u32| {
            let failure = serde_json::json!({"subject": "a", "failed": failed, "repeats": 3});
            let failures = if failed > 0 { vec![failure] } else { Vec::new() };
            let first = serde_json::json!({
                "run": "first", "shares": [0.1], "capacities": [], "failures": failures,
            });
            serde_json::from_value::<MeasuredFirst>(first).unwrap()
        };
        run.header.plan.measured_first = Some(first(0));
        let without_failure = status(&run).1;
        assert_ne!(without_failure, RunStatus::Failed);
        run.header.plan.measured_first = Some(first(1));
        assert_eq!(status(&run), (Complete, RunStatus::Failed));
    }
}
