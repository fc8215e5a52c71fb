//! Finds the work that is left in a run: the trials and searches that a launch still has to make.

use std::collections::{BTreeMap, BTreeSet};

use dyno_analysis::{capacity, stopping};
use dyno_model::plan::{Arm, Plan};
use dyno_model::run::Run;
use dyno_model::{StartRecord, TrialRecord};

use super::closed_trial::ClosedTrial;
use super::memory::RunMemory;

/// The part of a resumed run that is already in its archive.
pub(super) struct CompletedPart<'a> {
    plan: &'a Plan,
    run: &'a Run,
    /// Trials that were measured.
    measured: BTreeSet<usize>,
    /// Measured trials that are measured again.
    unchecked: BTreeSet<usize>,
    /// Measured trials without a final check, also those that are kept.
    without_final_check: BTreeSet<usize>,
    /// Launches whose subject failed, which is a result. Interrupts, and failures of a back end or
    /// of the machine, are not results.
    failed: BTreeSet<usize>,
}

impl<'a> CompletedPart<'a> {
    pub(super) fn new(plan: &'a Plan, run: &'a Run) -> CompletedPart<'a> {
        let has_failed = |s: &&StartRecord| {
            s.failure.as_ref().is_some_and(|failure| failure.kind.is_caused_by_subject())
        };
        CompletedPart {
            plan,
            run,
            measured: run.trials.iter().map(|t| t.trial).collect(),
            unchecked: stopping::unchecked_trials(run).into_iter().collect(),
            without_final_check: run.unchecked_trials().into_iter().collect(),
            failed: run.starts.iter().filter(has_failed).map(|s| s.launch).collect(),
        }
    }

    /// Whether a run that has its answer may end before `block`, which follows `previous`. Only
    /// between blocks (passes over all arms) do all arms have equally many repeats. A resumed run
    /// first completes the blocks that it has begun.
    pub(super) fn may_end_before(&self, block: u32, previous: u32) -> bool {
        block != previous && !self.has_block(block)
    }

    /// Whether a trial of this block, or of a later one, was measured.
    fn has_block(&self, block: u32) -> bool {
        let block_of = |trial: usize| self.plan.launches[self.plan.trials[trial].launch].block;
        self.measured.iter().any(|trial| block_of(*trial) >= block)
    }

    /// Returns the remaining work of launches whose servers run at the same time. Trials of the
    /// same point (a workload with a step) are measured together: if one launch still has to
    /// measure a point, all launches measure the point. Otherwise a trial that was measured alone
    /// would replace a trial that was measured together with others.
    ///
    /// A trial that shows failures of its server is the exception, because a repetition would hide
    /// them. The other launches measure the point without it.
    pub(super) fn remaining_work(
        &self,
        launches: &[usize],
        is_built: impl Fn(&Arm) -> bool,
    ) -> Vec<RemainingWork> {
        let is_open = |launch: &usize| {
            !self.failed.contains(launch) && self.plan.arms_of(*launch).all(&is_built)
        };
        let open: Vec<usize> = launches.iter().copied().filter(is_open).collect();
        let is_remaining =
            |trial: &usize| !self.measured.contains(trial) || self.unchecked.contains(trial);
        let points: BTreeSet<(usize, usize)> = open
            .iter()
            .flat_map(|launch| self.accepted_trials(*launch))
            .filter(is_remaining)
            .map(|trial| point(self.plan, trial))
            .collect();
        let work_of_launch = |launch: usize| {
            let mut pending = self.accepted_trials(launch);
            pending.retain(|trial| points.contains(&point(self.plan, *trial)));
            pending.retain(|trial| !self.shows_fault(*trial));
            // A search must load the same process as its trial, so the search of a pending trial is
            // made even if an earlier start has made it.
            let has_search = |trial: &&usize| {
                self.plan.search.is_some() && capacity::has_search(self.plan, **trial)
            };
            let searches_of_pending = pending.iter().filter(has_search).copied();
            let unfinished = capacity::remaining_searches(self.plan, self.run, launch);
            let to_search: BTreeSet<usize> = searches_of_pending.chain(unfinished).collect();
            let resumed = self.run.starts.iter().any(|start| start.launch == launch);
            let has_work = !pending.is_empty() || !to_search.is_empty();
            has_work.then(|| RemainingWork {
                launch,
                resumed,
                closed: self.closed_trials(&to_search, &pending),
                pending,
                to_search: to_search.into_iter().collect(),
            })
        };
        open.into_iter().filter_map(work_of_launch).collect()
    }

    /// Whether a trial was measured and a repetition would hide a fault of its server. A valid
    /// trial with a few failed requests is repeated with its partners: without it they would not
    /// be comparable.
    fn shows_fault(&self, trial: usize) -> bool {
        match self.without_final_check.contains(&trial) {
            true => stopping::shows_server_failures(self.run, trial),
            false => stopping::is_servers_fault(self.run, trial),
        }
    }

    /// Returns the measured trials that these searches follow, without those that are measured
    /// again (`pending`).
    fn closed_trials(&self, to_search: &BTreeSet<usize>, pending: &[usize]) -> Vec<ClosedTrial> {
        let is_used = |record: &&TrialRecord| {
            to_search.contains(&record.trial) && !pending.contains(&record.trial)
        };
        let used = self.run.trials.iter().filter(is_used);
        used.map(|record| ClosedTrial::new(record, self.run.start_of(record))).collect()
    }

    /// Returns the trials of a launch, without the trials over protocols whose checks failed.
    fn accepted_trials(&self, launch: usize) -> Vec<usize> {
        let refused = capacity::refused_protocols(self.run, launch);
        let is_accepted = |trial: &usize| {
            let planned = &self.plan.trials[*trial];
            let protocol = self.plan.workloads[planned.workload].protocol;
            planned.launch == launch && !refused.contains(&protocol)
        };
        (0..self.plan.trials.len()).filter(is_accepted).collect()
    }
}

/// Whether a walk of the plan would make another start. `run`: the content of the archive.
/// `is_built`: whether the subject of an arm is built.
#[must_use]
pub fn has_remaining_work(plan: &Plan, run: &Run, is_built: impl Fn(&Arm) -> bool) -> bool {
    let completed = CompletedPart::new(plan, run);
    groups_before_answer(plan, &completed)
        .iter()
        .any(|launches| !completed.remaining_work(launches, &is_built).is_empty())
}

/// Returns the subjects whose remaining steps cannot be measured, because they are not built, each
/// by its index with the number of these steps. `run`: the content of the archive. `is_built`:
/// whether the subject of an arm is built.
#[must_use]
pub fn unbuilt_steps(
    plan: &Plan,
    run: &Run,
    is_built: impl Fn(&Arm) -> bool,
) -> BTreeMap<usize, usize> {
    let mut steps = BTreeMap::new();
    if plan.arms.iter().all(&is_built) {
        return steps;
    }
    let completed = CompletedPart::new(plan, run);
    for launches in groups_before_answer(plan, &completed) {
        for work in completed.remaining_work(&launches, |_| true) {
            // A launch may lack only searches.
            let pending = !work.pending.is_empty();
            for arm in plan.arms_of(work.launch).filter(|arm| pending && !is_built(arm)) {
                *steps.entry(arm.subject).or_default() += work.pending.len();
            }
        }
    }
    steps
}

/// Returns the launches of a plan in groups whose servers run at the same time, up to the answer of
/// the run.
fn groups_before_answer(plan: &Plan, completed: &CompletedPart<'_>) -> Vec<Vec<usize>> {
    // The answer is computed at most once, before the first block without a record.
    let mut has_answer = None;
    let mut answer =
        || *has_answer.get_or_insert_with(|| RunMemory::new(completed.run).has_answer());
    let mut block = 0;
    let is_before_answer = |launches: &Vec<usize>| {
        let previous = std::mem::replace(&mut block, plan.launches[launches[0]].block);
        !(completed.may_end_before(block, previous) && answer())
    };
    plan.concurrent_launches().into_iter().take_while(is_before_answer).collect()
}

/// Remaining work of a launch.
pub(super) struct RemainingWork {
    pub(super) launch: usize,
    /// Whether the launch was started before.
    pub(super) resumed: bool,
    pub(super) pending: Vec<usize>,
    pub(super) to_search: Vec<usize>,
    /// The measured trials that these searches follow.
    pub(super) closed: Vec<ClosedTrial>,
}

/// Returns the workload and the step of a trial.
pub(super) fn point(plan: &Plan, trial: usize) -> (usize, usize) {
    (plan.trials[trial].workload, plan.trials[trial].step)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dyno_archive::RunDir;
    use dyno_model::outcome::Outcome;
    use dyno_model::start::{Failure, FailureKind};
    use dyno_model::{Party, TrialRecord};

    use super::*;

    /// Returns a complete run of two servers with a contract. Each launch has two trials.
    fn golden_run() -> Run {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
        RunDir::open(golden).unwrap().read().unwrap()
    }

    fn trial(run: &mut Run, trial: usize) -> &mut TrialRecord {
        run.trials.iter_mut().find(|record| record.trial == trial).unwrap()
    }

    /// Makes one response of a trial's window incorrect.
    fn make_incorrect(run: &mut Run, index: usize) {
        let interval = trial(run, index).load.intervals.last_mut().unwrap();
        interval.outcomes.count(Outcome::UnexpectedBody);
    }

    /// Ends a load because a back end failed.
    fn lose_backend(run: &mut Run, index: usize) {
        trial(run, index).load.server_failure = Some("lost a back end: db ended".into());
    }

    /// Ends a start without its final checks. `None`: dyno was killed.
    fn skip_final_check(start: &mut StartRecord, kind: Option<FailureKind>) {
        start.failure = kind.map(|kind| Failure { kind, message: String::new() });
        (start.began_ns, start.ended_ns) = (Some(1), None);
        let mut parts = start.parts.iter_mut();
        parts.find(|part| part.party == Party::SUBJECT).unwrap().checks_after.clear();
    }

    /// Returns the trials that are pending in launches whose servers run at the same time.
    fn pending(run: &Run, launches: &[usize]) -> Vec<usize> {
        let completed = CompletedPart::new(&run.header.plan, run);
        let work = completed.remaining_work(launches, |_| true);
        work.into_iter().flat_map(|work| work.pending).collect()
    }

    /// Trials 2 and 6 are of one step, and trials 3 and 7 of the next.
    #[test]
    fn faulty_trial_is_kept_if_its_partner_is_repeated() {
        let mut run = golden_run();
        assert_eq!(pending(&run, &[1, 4]), [0; 0]);
        lose_backend(&mut run, 6);
        lose_backend(&mut run, 7);
        assert_eq!(pending(&run, &[1, 4]), [2, 3, 6, 7], "without a fault all are repeated");
        make_incorrect(&mut run, 2);
        assert_eq!(pending(&run, &[1, 4]), [3, 6, 7]);
        // The back end explains the incorrect responses of its own server.
        make_incorrect(&mut run, 6);
        assert_eq!(pending(&run, &[1, 4]), [3, 6, 7]);
        run.trials.retain(|record| record.trial != 2);
        assert_eq!(pending(&run, &[1, 4]), [2, 3, 6, 7], "it has no record");
    }

    #[test]
    fn faulty_trial_is_kept_if_final_check_is_missing() {
        for kind in [Some(FailureKind::BackendFailed), Some(FailureKind::Interrupted), None] {
            let mut run = golden_run();
            let start = run.starts.iter_mut().find(|start| start.launch == 1).unwrap();
            skip_final_check(start, kind);
            assert_eq!(pending(&run, &[1]), [2, 3], "{kind:?}");
            make_incorrect(&mut run, 2);
            assert_eq!(pending(&run, &[1]), [3], "{kind:?}");
            assert_eq!(stopping::unchecked_trials(&run), [3], "{kind:?}");
        }
    }

    /// A valid trial with a failed request is repeated with its partner.
    #[test]
    fn valid_trial_is_repeated_with_its_partner() {
        let mut run = golden_run();
        lose_backend(&mut run, 6);
        let load = &mut run.trials.iter_mut().find(|record| record.trial == 2).unwrap().load;
        load.intervals.last_mut().unwrap().outcomes.count(Outcome::Reset);
        (load.books.scheduled, load.books.started) =
            (load.books.scheduled + 1, load.books.started + 1);
        load.books.failed += 1;
        assert!(stopping::shows_server_failures(&run, 2) && !stopping::is_servers_fault(&run, 2));
        assert_eq!(pending(&run, &[1, 4]), [2, 6]);
    }

    /// The trial remains valid with a single failed request of many.
    #[test]
    fn trial_with_failed_request_is_kept_if_final_check_is_missing() {
        let mut run = golden_run();
        let start = run.starts.iter_mut().find(|start| start.launch == 1).unwrap();
        skip_final_check(start, Some(FailureKind::Interrupted));
        assert_eq!(pending(&run, &[1]), [2, 3]);
        let load = &mut trial(&mut run, 2).load;
        load.intervals.last_mut().unwrap().outcomes.count(Outcome::Reset);
        load.books.failed += 1;
        assert_eq!(pending(&run, &[1]), [3]);
        assert_eq!(stopping::unchecked_trials(&run), [3]);
    }

    #[test]
    fn last_begun_block_and_earlier_ones_are_in_completed_part() {
        let mut run = golden_run();
        let plan = run.header.plan.clone();
        run.trials.retain(|record| record.trial > 1 && record.trial < 5);
        let completed = CompletedPart::new(&plan, &run);
        assert_eq!([0, 1, 2].map(|block| completed.has_block(block)), [true, true, false]);
        run.trials.clear();
        assert!(!CompletedPart::new(&plan, &run).has_block(0), "a new run");
    }
}
