//! The results that comparisons of arms are made of: those of trials and subjects.

use dyno_archive::TrialRecord;
use dyno_archive::run::Run;

use crate::subject::{SubjectResult, subject};
use crate::trial::{OtherRecords, TrialResult, trial};
use crate::verdict;

/// Results of a run's trials and subjects.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    pub trials: &'a [TrialResult],
    /// One entry per arm of the plan.
    pub subjects: &'a [SubjectResult],
    /// Repeats after which the run ended because its question was answered; `None`: all repeats
    /// were to run. Repeats that an early end left out are not missing.
    pub answered_after: Option<u32>,
}

/// Returns the results of all trials, in the order in which reports show them: each start has its
/// own order of workloads and steps.
pub(crate) fn trials(run: &Run) -> Vec<TrialResult> {
    let plan = &run.header.plan;
    let mut others = OtherRecords::new(run);
    let mut records: Vec<&TrialRecord> = run.trials.iter().collect();
    records.sort_by_key(|t| plan.trials[t.trial].display_order());
    let results = |others: &OtherRecords| -> Vec<TrialResult> {
        let result = |record: &&TrialRecord| {
            trial(plan, &run.header.facts, run.start_of(record), record, others)
        };
        records.iter().map(result).collect()
    };
    let mut trials = results(&others);
    if others.forget_idle_use(&verdict::resting_arms(&trials)) {
        trials = results(&others);
    }
    verdict::revise_limiters(&mut trials);
    trials
}

/// Returns the results of all arms of the plan. `trials`: all trials of the run.
pub(crate) fn subjects(run: &Run, trials: &[TrialResult]) -> Vec<SubjectResult> {
    (0..run.header.plan.arms.len()).map(|arm| subject(run, arm, trials)).collect()
}
