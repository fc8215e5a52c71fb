//! What a walk remembers of its run, so that it reads the archive only once.

use dyno_analysis::results::KnownTrials;
use dyno_analysis::{capacity, stopping};
use dyno_model::run::Run;
use dyno_model::search::SearchRecord;
use dyno_model::{Facts, StartRecord, TrialRecord};

/// Memory of a walk. It begins empty, and the walk fills it from the archive.
#[derive(Debug, Default)]
pub struct RunMemory {
    /// Facts of the machine, as in the run's header.
    pub(super) facts: Facts,
    /// Trials that were queued for a re-run, each with the instant at which its first load began,
    /// nanoseconds of the monotonic clock.
    pub(super) reruns: Vec<(usize, u64)>,
    /// The records of the run; `None`: the run cannot end early, so no decision needs them.
    records: Option<Run>,
    /// Results of the trials in these records.
    results: KnownTrials,
}

impl RunMemory {
    /// Remembers a run as it was read from the archive.
    pub(super) fn new(run: &Run) -> RunMemory {
        // The walk measures on this machine, in the last part of the run.
        let facts = run.facts_at(usize::MAX).clone();
        let reruns = run.contaminated.iter().map(|record| (record.trial, record.load.began_ns));
        let may_end_early = run.header.plan.stop.is_some();
        let records = || Run {
            header: run.header.clone(),
            starts: run.starts.clone(),
            trials: run.trials.clone(),
            contaminated: run.contaminated.clone(),
            // No comparison uses profiles, which are large.
            profiles: Vec::new(),
            searches: run.searches.clone(),
        };
        RunMemory {
            facts,
            reruns: reruns.collect(),
            records: may_end_early.then(records),
            results: KnownTrials::default(),
        }
    }

    /// Whether the measurements decide the run's comparison.
    pub(super) fn has_answer(&mut self) -> bool {
        // An interrupted search or check is completed first, even if the trials decide the
        // comparison.
        let is_open = |run: &Run| {
            capacity::missing_searches(run) > 0 || !stopping::unchecked_trials(run).is_empty()
        };
        let results = &mut self.results;
        let has_answer = |run: &Run| !is_open(run) && stopping::has_answer(run, results);
        self.records.as_ref().is_some_and(has_answer)
    }

    pub(super) fn add_start(&mut self, start: &StartRecord) {
        if let Some(run) = &mut self.records {
            put(&mut run.starts, start, |start| start.start);
        }
    }

    pub(super) fn add_trial(&mut self, trial: &TrialRecord) {
        if let Some(run) = &mut self.records {
            put(&mut run.trials, trial, |trial| trial.trial);
        }
    }

    /// Forgets the search that followed an earlier measurement of a trial.
    pub(super) fn remove_search(&mut self, trial: usize) {
        if let Some(run) = &mut self.records {
            run.searches.retain(|search| search.trial != trial);
        }
    }

    pub(super) fn add_search(&mut self, search: &SearchRecord) {
        if let Some(run) = &mut self.records {
            put(&mut run.searches, search, |search| search.trial);
        }
    }

    /// Remembers the first measurement of a trial that is measured again.
    pub(super) fn add_contaminated(&mut self, trial: &TrialRecord) {
        self.reruns.push((trial.trial, trial.load.began_ns));
        if let Some(run) = &mut self.records {
            put(&mut run.contaminated, trial, |trial| trial.trial);
        }
    }
}

/// Inserts a record at its place in the order of numbers, or replaces the record with its number.
fn put<T: Clone>(records: &mut Vec<T>, record: &T, number: fn(&T) -> usize) {
    match records.binary_search_by_key(&number(record), number) {
        Ok(at) => records[at] = record.clone(),
        Err(at) => records.insert(at, record.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_in_order_and_replaced() {
        let mut records = Vec::new();
        for (number, launch) in [(2, 20), (0, 0), (1, 10), (2, 21)] {
            let start = StartRecord { start: number, launch, ..StartRecord::default() };
            put(&mut records, &start, |start| start.start);
        }
        let launches: Vec<usize> = records.iter().map(|start| start.launch).collect();
        assert_eq!(launches, [0, 10, 21]);
    }
}
