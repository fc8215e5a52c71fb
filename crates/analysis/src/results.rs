//! The results that comparisons of arms are made of: those of trials and subjects.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::run::Run;
use dyno_model::{StartRecord, TrialRecord};

use crate::subject::{SubjectResult, subject};
use crate::trial::{OtherRecords, RecordedTrial, TrialResult, trial};
use crate::verdict::{self, Limiter};

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
    let mut known = KnownTrials::default();
    known.update(run);
    known.trials
}

/// Results of the trials of a run that continues. The result of a trial is computed once.
#[derive(Debug, Default)]
pub struct KnownTrials {
    /// In the order in which reports show them.
    trials: Vec<TrialResult>,
    /// By index of the trial.
    sources: BTreeMap<usize, Source>,
    /// Arms whose server does not poll, as one of the trials shows.
    resting: BTreeSet<usize>,
}

/// What a known result was made from.
#[derive(Debug)]
struct Source {
    /// Number of the start, and the instant at which the load began. A repetition of the trial has
    /// others.
    start: usize,
    began_ns: u64,
    /// The limiter by the trial alone. Other trials of its curve revise the limiter.
    limiter: Limiter,
}

impl KnownTrials {
    /// Adds the results of trials that are not known yet, and returns all results, in the order in
    /// which reports show them.
    pub(crate) fn update(&mut self, run: &Run) -> &[TrialResult] {
        let plan = &run.header.plan;
        // The result of a trial that shared the machine depends on the trials of later repeats.
        if plan.sharing.slice_ns().is_some() || !plan.sharing.duet().is_empty() {
            *self = KnownTrials::default();
        }
        let sources = &mut self.sources;
        let is_new = |record: &&TrialRecord| {
            let source = sources.get(&record.trial);
            source.is_none_or(|s| (s.start, s.began_ns) != (record.start, record.load.began_ns))
        };
        let new: Vec<&TrialRecord> = run.trials.iter().filter(is_new).collect();
        let replaced: BTreeSet<usize> = new.iter().map(|record| record.trial + 1).collect();
        self.trials.retain(|trial| !replaced.contains(&trial.place));
        for trial in &mut self.trials {
            trial.limiter = sources[&(trial.place - 1)].limiter.clone();
        }
        let mut others = OtherRecords::new(run);
        others.note_sleep(&self.resting);
        let starts: BTreeMap<usize, &StartRecord> =
            run.starts.iter().map(|start| (start.start, start)).collect();
        for record in new {
            let start = starts.get(&record.start).copied();
            let facts = run.facts_at(record.start);
            let result = trial(RecordedTrial { plan, facts, start, record }, &others);
            let (start, began_ns) = (record.start, record.load.began_ns);
            let source = Source { start, began_ns, limiter: result.limiter.clone() };
            sources.insert(record.trial, source);
            self.trials.push(result);
        }
        let resting = verdict::resting_arms(&self.trials);
        if others.note_sleep(&resting) {
            // The results so far took the use of CPU time before the load for polling.
            *self = KnownTrials { resting, ..KnownTrials::default() };
            return self.update(run);
        }
        self.trials.sort_by_key(|trial| plan.trials[trial.place - 1].display_order());
        verdict::revise_limiters(&mut self.trials);
        &self.trials
    }
}

/// Returns the results of all arms of the plan. `trials`: all trials of the run.
pub(crate) fn subjects(run: &Run, trials: &[TrialResult]) -> Vec<SubjectResult> {
    (0..run.header.plan.arms.len()).map(|arm| subject(run, arm, trials)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::five_blocks;

    #[test]
    fn known_trials_are_those_of_whole_run() {
        let run = five_blocks();
        let mut known = KnownTrials::default();
        for count in [0, 1, 7, 30, 30, run.trials.len()] {
            let mut part = run.clone();
            part.trials.truncate(count);
            assert_eq!(known.update(&part), trials(&part), "{count}");
        }
    }

    #[test]
    fn repeated_trial_replaces_known_result() {
        let mut run = five_blocks();
        let mut known = KnownTrials::default();
        known.update(&run);
        let replaced = run.trials[4].load.clone();
        let began_ns = run.trials[3].load.began_ns + 1;
        run.trials[3].load = dyno_model::LoadRecord { began_ns, ..replaced };
        assert_eq!(known.update(&run), trials(&run));
    }

    #[test]
    fn known_result_is_not_computed_again() {
        let mut run = five_blocks();
        let mut known = KnownTrials::default();
        let before = known.update(&run).to_vec();
        run.trials[0].load.server_failure = Some("crashed: it left".into());
        assert_eq!(known.update(&run), before, "the record is not read again");
        assert_ne!(trials(&run), before);
    }
}
