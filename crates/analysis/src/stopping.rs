//! Decides whether a run may end early, and whether trials are measured again.
//!
//! A run ends early when its question is answered (`[stop]`). Trials are re-run if other programs
//! disturbed them. A resumed run repeats trials after which the contract was not checked.

use dyno_model::plan::Plan;
use dyno_model::run::Run;
use dyno_model::{Facts, StartRecord, TrialRecord};

use crate::caveat::{Code, CodeProperty};
use crate::compare::{self, ArmComparison, ComparisonRow, Verdict};
use crate::design::Design;
use crate::experiment;
use crate::results::{self, KnownTrials, Results};
use crate::stats::Looks;
use crate::trial::{RecordedTrial, TrialResult};

impl Looks {
    /// Returns when a run checks its results: after each repeat if it may end early, otherwise at
    /// the end.
    #[must_use]
    pub fn from_plan(plan: &Plan) -> Looks {
        if plan.stop.is_some() { Looks::AfterEach } else { Looks::AtTheEnd }
    }
}

/// Whether a run that may stop early ([`Plan::stop`]) has answered its question.
///
/// The question is whether arms differ in the named metrics, or are the same within a margin, for
/// each compared pair of arms at each common step. Verdicts are corrected for all pairs and for a
/// check after each repeat, so a run may end as soon as one check is positive.
pub(crate) fn is_answered(run: &Run, results: Results<'_>) -> bool {
    let plan = &run.header.plan;
    let Some(stop) = &plan.stop else { return false };
    // With a fixed order, a drift of the machine biases each difference.
    if Design::new(plan).is_fixed() {
        return false;
    }
    let pairs = compare::compare_arms(run, results, &compared_pairs(plan));
    let has_stop_metric =
        |row: &&ComparisonRow| stop.metrics.iter().any(|metric| metric == row.metric);
    let is_known = |row: &ComparisonRow| {
        matches!(row.verdict, Verdict::Higher | Verdict::Lower | Verdict::Same)
    };
    // A pair without a common step has no rows, and its question is never answered. As long as a
    // planned step has no trial (`unmeasured`), the question of its pair is not answered either.
    let is_pair_known = |pair: &ArmComparison| {
        let mut rows = pair.rows.iter().filter(has_stop_metric).peekable();
        pair.unmeasured == 0 && rows.peek().is_some() && rows.all(is_known)
    };
    !pairs.is_empty() && pairs.iter().all(is_pair_known)
}

/// Whether a run that has not ended has answered its question, so that it may stop early. `false`
/// for a run that may not stop early ([`Plan::stop`]). `known`: results of earlier trials, to which
/// those of later trials are added.
#[must_use]
pub fn has_answer(run: &Run, known: &mut KnownTrials) -> bool {
    if run.header.plan.stop.is_none() {
        return false;
    }
    let trials = known.update(run);
    let subjects = results::subjects(run, trials);
    is_answered(run, Results { trials, subjects: &subjects, answered_after: None })
}

/// Whether a plan compares any arms, so that its `[stop]` can end the run early. Identical arms
/// (*twins*) are not compared, because their difference is noise.
#[must_use]
pub fn has_question(plan: &Plan) -> bool {
    !compared_pairs(plan).is_empty()
}

/// Returns the pairs of compared arms: the pairs of the experiment, or otherwise all pairs without
/// controls and twins.
pub(crate) fn compared_pairs(plan: &Plan) -> Vec<(usize, usize)> {
    let pairs = match &plan.experiment {
        Some(experiment) => experiment::pairs(plan, experiment),
        None => {
            let arms: Vec<usize> =
                (0..plan.arms.len()).filter(|arm| !plan.subject_of(*arm).control).collect();
            let all =
                arms.iter().enumerate().flat_map(|(i, a)| arms[i + 1..].iter().map(|b| (*a, *b)));
            all.filter(|(a, b)| !experiment::are_twins(plan, *a, *b)).collect()
        }
    };
    pairs.into_iter().filter(|(a, b)| plan.takes_part(*a) && plan.takes_part(*b)).collect()
}

/// Whether trials that ran at the same time must be re-run: other guests of the hypervisor or other
/// processes used the machine, or a CPU was throttled because of heat.
///
/// The decision does not depend on the measured values, so it does not bias them. Trials in which
/// the server failed are not re-run, because a re-run would hide the failure.
#[must_use]
pub fn are_contaminated<'a>(
    plan: &Plan,
    facts: &Facts,
    side_by_side: impl Iterator<Item = (&'a StartRecord, &'a TrialRecord)>,
) -> bool {
    let results: Vec<(usize, TrialResult)> = side_by_side
        .map(|(start, record)| {
            let measured = RecordedTrial { plan, facts, start: Some(start), record };
            (start.launch, measured.result())
        })
        .collect();
    let has_failed = |result: &TrialResult| result.has_failure() || result.has_failed_warmup();
    results.iter().any(|(launch, result)| is_contaminated(plan, *launch, result))
        && !results.iter().any(|(_, result)| has_failed(result))
}

/// Returns the trials that a resumed run measures again ([`Run::unchecked_trials`]). A trial that
/// shows failures of its server is kept, because a repetition would hide them.
#[must_use]
pub fn unchecked_trials(run: &Run) -> Vec<usize> {
    let mut unchecked = run.unchecked_trials();
    unchecked.retain(|trial| !shows_server_failures(run, *trial));
    unchecked
}

/// Whether a trial was measured and a repetition would hide failures of its server.
#[must_use]
pub fn shows_server_failures(run: &Run, trial: usize) -> bool {
    results_of(run, trial).any(|result| result.shows_server_failures())
}

/// Whether a trial was measured and is not valid because of its server.
#[must_use]
pub fn is_servers_fault(run: &Run, trial: usize) -> bool {
    results_of(run, trial).any(|result| result.is_servers_fault())
}

/// Returns the result of a trial; empty: it was not measured.
fn results_of(run: &Run, trial: usize) -> impl Iterator<Item = TrialResult> {
    let records = run.trials.iter().filter(move |record| record.trial == trial);
    records.map(|record| RecordedTrial::new(run, record).result())
}

/// Whether a trial has a caveat of a disturbance from outside of the run.
fn is_contaminated(plan: &Plan, launch: usize, result: &TrialResult) -> bool {
    let has = |property| result.caveats.iter().any(|caveat| caveat.code.has(property));
    let shares_cpus =
        plan.launches[launch].arms.iter().any(|arm| !plan.has_separate_generator_cpus(*arm));
    // In turns, several generators share a CPU and wait for each other.
    let has_own_cpus =
        !shares_cpus && plan.sharing.slice_ns().is_none() && !has(CodeProperty::OwnCpuWait);
    let is_starved = || result.caveats.iter().any(|caveat| caveat.code == Code::GENERATOR_STARVED);
    has(CodeProperty::CausesRerun) || has_own_cpus && is_starved()
}

#[cfg(test)]
mod tests {
    use dyno_model::machine::{MachineUse, OtherUse};
    use dyno_model::outcome::Outcome;
    use dyno_model::plan::{Step, StopRule, Subject, Trial};
    use dyno_model::start::{Failure, FailureKind, WarmUpEnd};
    use dyno_model::times::Recording;

    use super::*;
    use crate::fixture;
    use crate::stats::draws::Normal;

    /// Returns a run of two servers. The throughput of the second is `ratio` times the throughput
    /// of the first, with a spread of 2 %.
    fn run(blocks: u32, ratio: f64, same_within: Option<f64>) -> Run {
        let named =
            |name: &str| Subject { name: name.into(), title: name.into(), ..Subject::default() };
        let mut run = fixture::blocks_of(vec![named("a"), named("b")], blocks, |arm, block| {
            let mut normal = Normal(u64::from(block) * 2 + arm as u64);
            let noise = normal.values(1, 1.0, 0.02)[0];
            (100_000.0 * noise * if arm == 1 { ratio } else { 1.0 }) as u64
        });
        run.header.plan.stop =
            Some(StopRule { metrics: vec!["throughput_rps".into()], same_within });
        run
    }

    #[test]
    fn plan_of_twins_only_has_no_question() {
        let mut plan = run(1, 1.0, None).header.plan;
        assert!(has_question(&plan));
        plan.arms[1].subject = plan.arms[0].subject;
        assert!(!has_question(&plan));
    }

    /// The run was interrupted after the first server of its third repeat.
    #[test]
    fn interrupted_repeat_is_no_pair() {
        let pairs = |run: &Run| {
            let mut known = KnownTrials::default();
            let trials = known.update(run);
            let subjects = results::subjects(run, trials);
            let results = Results { trials, subjects: &subjects, answered_after: None };
            compare::compare_arms(run, results, &[(0, 1)])[0].rows[0].pairs.len()
        };
        let mut run = run(6, 1.0, None);
        for (start, trial) in run.trials.iter_mut().enumerate() {
            trial.start = start;
        }
        assert_eq!(pairs(&run), 6);
        run.header.resumptions = vec![fixture::resumption(&run, 5, Vec::new())];
        assert_eq!(pairs(&run), 5);
        // Between repeats.
        run.header.resumptions[0].from_start = 6;
        assert_eq!(pairs(&run), 6);
    }

    fn first_answering_repeat(ratio: f64, same_within: Option<f64>) -> Option<u32> {
        let is_answered = |blocks: &u32| {
            let run = run(*blocks, ratio, same_within);
            has_answer(&run, &mut KnownTrials::default())
        };
        (1..=30).find(is_answered)
    }

    #[test]
    fn run_is_answered_by_difference_or_agreement() {
        let large = first_answering_repeat(1.2, None).unwrap();
        let small = first_answering_repeat(1.04, None).unwrap();
        assert!(large >= 5 && small > large, "{large} {small}");
        assert_eq!(first_answering_repeat(1.0, None), None, "no margin for equal results");
        let same = first_answering_repeat(1.0, Some(0.03)).unwrap();
        assert!(same > 5, "{same}");
        let mut other = run(10, 1.2, None);
        other.header.plan.stop =
            Some(StopRule { metrics: vec!["server_cpu_us_per_request".into()], same_within: None });
        assert!(!has_answer(&other, &mut KnownTrials::default()), "of that nothing is known");
        other.header.plan.stop = None;
        assert!(!has_answer(&other, &mut KnownTrials::default()));
    }

    /// The run continues after a failed start, and ends at the next block.
    #[test]
    fn run_is_answered_after_block_with_failed_start() {
        let answered_after = |failure: Option<FailureKind>| {
            let mut run = run(20, 1.2, None);
            let block =
                |trial: usize| run.header.plan.launches[run.header.plan.trials[trial].launch].block;
            run.trials.retain(|record| block(record.trial) < 15);
            let lost = run.trials.pop().expect("a record").trial;
            let launch = run.header.plan.trials[lost].launch;
            run.starts.extend(failure.map(|kind| StartRecord {
                start: 1000,
                launch,
                failure: Some(Failure { kind, message: "it ended".into() }),
                ..StartRecord::default()
            }));
            crate::report::report(&run).run.answered_after
        };
        assert_eq!(answered_after(Some(FailureKind::Crashed)), Some(15));
        assert_eq!(answered_after(Some(FailureKind::Harness)), Some(15));
        assert_eq!(answered_after(Some(FailureKind::Interrupted)), None);
        assert_eq!(answered_after(None), None, "the run was killed");
    }

    /// A second step of both servers was planned, and no trial of it is recorded.
    #[test]
    fn step_without_trials_leaves_run_unanswered() {
        let mut run = run(20, 1.2, None);
        assert!(has_answer(&run, &mut KnownTrials::default()));
        let plan = &mut run.header.plan;
        let step =
            Step { connections: 2 * plan.load.steps[0].connections, ..plan.load.steps[0].clone() };
        plan.load.steps.push(step);
        let second: Vec<Trial> =
            plan.trials.iter().map(|trial| Trial { step: 1, ..*trial }).collect();
        plan.trials.extend(second);
        assert!(!has_answer(&run, &mut KnownTrials::default()));
    }

    /// The records of a complete step are removed, or its launch failed.
    #[test]
    fn missing_trial_of_any_block_leaves_run_unfinished() {
        for block in [0, 3, 14] {
            let mut run = run(20, 1.2, None);
            let plan = &run.header.plan;
            let block_of = |trial: usize| plan.launches[plan.trials[trial].launch].block;
            run.trials.retain(|record| block_of(record.trial) < 15);
            let lost = run.trials.iter().position(|record| block_of(record.trial) == block);
            let launch = plan.trials[run.trials[lost.unwrap()].trial].launch;
            assert_eq!(crate::report::report(&run).run.answered_after, Some(15));
            run.trials.remove(lost.unwrap());
            assert_eq!(crate::report::report(&run).run.answered_after, None, "block {block}");
            let failure = Failure { kind: FailureKind::Crashed, message: "it ended".into() };
            let failed = StartRecord { launch, failure: Some(failure), ..StartRecord::default() };
            run.starts.push(failed);
            assert_eq!(crate::report::report(&run).run.answered_after, Some(15), "block {block}");
        }
    }

    #[test]
    fn servers_failures_are_not_those_of_its_back_end() {
        let mut run = run(1, 1.0, None);
        run.starts = vec![StartRecord::default()];
        let shows_fault =
            |run: &Run| run.trials.iter().any(|record| shows_server_failures(run, record.trial));
        assert!(!shows_fault(&run));
        for outcome in [Outcome::UnexpectedBody, Outcome::Timeout, Outcome::Reset] {
            let mut failed = run.clone();
            let load = &mut failed.trials[0].load;
            // The trial remains valid with a single timeout or reset.
            let n = 1;
            (0..n).for_each(|_| load.intervals[0].outcomes.count(outcome));
            load.books.scheduled += n;
            load.books.started += n;
            load.books.failed += n;
            assert!(shows_fault(&failed), "{}", outcome.name());
        }
        let mut ended = run.clone();
        ended.trials[0].load.server_failure = Some("crashed: it left".into());
        assert!(shows_fault(&ended));
        let mut unsolicited = run.clone();
        unsolicited.trials[0].load.connections.unsolicited = 1;
        assert!(shows_fault(&unsolicited));
        run.trials[0].load.server_failure = Some("lost a back end: db ended".into());
        for outcome in [Outcome::UnexpectedBody, Outcome::Reset] {
            run.trials[0].load.intervals[0].outcomes.count(outcome);
        }
        run.trials[0].load.books.failed += 1;
        assert!(!shows_fault(&run), "the back end explains it");
        assert_eq!(unchecked_trials(&run), [0]);
    }

    #[test]
    fn skipped_server_leaves_run_unanswered() {
        let mut run = run(8, 1.2, None);
        run.header.plan.subjects[1].skipped = Some("no".into());
        assert!(!has_answer(&run, &mut KnownTrials::default()), "nothing is left to compare");
    }

    /// A compiler uses half a CPU next to two servers.
    #[test]
    fn contaminated_trials_with_failures_are_not_rerun() {
        let mut run = run(1, 1.0, None);
        for record in &mut run.trials {
            record.load = fixture::record_with_threads(&[(500, 0)]);
        }
        let are_rerun = |run: &Run| {
            let start = fixture::warm_up(WarmUpEnd::Steady, 0, None);
            let side_by_side = run.trials.iter().map(|record| (&start, record));
            are_contaminated(&run.header.plan, &run.header.facts, side_by_side)
        };
        assert!(!are_rerun(&run), "nothing else ran");
        let mut stopped = run.clone();
        let mut lags = Recording::new();
        lags.record(500_000_000);
        stopped.trials[1].load.intervals[0].loop_lag = lags.seal();
        assert!(are_rerun(&stopped), "the generator did not run for half a second");
        let compiler = OtherUse { pid: 77, name: "cc1".into(), run_ns: 500_000_000 };
        run.trials[1].load.client.machine = Some(MachineUse {
            everywhere: Some(vec![compiler]),
            everywhere_ns: Some(1_000_000_000),
            ..MachineUse::default()
        });
        assert!(are_rerun(&run));
        let failures =
            [Outcome::UnexpectedBody, Outcome::UnexpectedStatus, Outcome::Timeout, Outcome::Reset];
        for outcome in failures {
            let mut failed = run.clone();
            failed.trials[0].load.intervals[0].outcomes.count(outcome);
            assert!(!are_rerun(&failed), "{} of a server would be lost", outcome.name());
        }
        let mut failed = run.clone();
        failed.trials[0].load.intervals[0].carried.count(Outcome::UnexpectedStatus);
        assert!(!are_rerun(&failed), "a failure of the warm-up would be lost");
        let mut failed = run.clone();
        failed.trials[1].load.connections.unsolicited = 1;
        assert!(!are_rerun(&failed), "responses to no request would be lost");
        failed.trials[1].load.connections.unsolicited = 0;
        failed.trials[1].load.server_failure = Some("it left".into());
        assert!(!are_rerun(&failed), "a failure would be lost");
    }
}
