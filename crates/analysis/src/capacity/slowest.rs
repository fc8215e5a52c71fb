//! Finds the slowest subject of each workload in closed loops.
//!
//! `dyno run` derives its rates from this subject's throughput, so that all subjects are compared
//! at rates that each of them can serve.

use std::collections::BTreeSet;

use dyno_model::plan::{Capacity, CapacityFailures, Plan};

use crate::caveat::{Caveat, Severity};
use crate::cell::CellKey;
use crate::grid::{Cell, Grid};
use crate::peak::{NEAR_PEAK, lower_bounds};
use crate::report::Report;
use crate::stats::median;
use crate::subject::SubjectFailure;
use crate::trial::TrialResult;

/// A subject whose capacity with a workload is unknown, so that the slowest subject of that
/// workload is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingCapacity {
    pub workload: String,
    /// Name of the arm.
    pub subject: String,
    /// Why the subject has no valid step, or may reach more than at its best valid step.
    pub reason: String,
    pub cause: MissingCause,
}

/// Why the capacity of a subject is unknown, the worst cause first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingCause {
    /// The subject has no valid closed loop, because of the server.
    NoValidStep,
    /// The generator limited the subject's best step.
    GeneratorLimit,
    /// Repeats of a step that may be the subject's best are excluded for another reason outside of
    /// the server, or did not run. The subject may have no valid closed loop.
    Excluded,
}

/// Returns the slowest subject of each workload with closed loops, and its peak throughput: the
/// median over its starts. Controls are excluded.
///
/// Only subjects with a known capacity are compared. [`missing_capacities`] returns the others.
#[must_use]
pub fn slowest_subjects(plan: &Plan, report: &Report) -> Vec<Capacity> {
    let grid = Grid::new(&report.trials);
    let slowest = |workload: usize| slowest_subject((plan, report), &grid, workload);
    (0..plan.workloads.len()).filter_map(slowest).collect()
}

/// Returns the slowest subject of one workload. `None`: no subject has a known capacity.
fn slowest_subject(
    (plan, report): (&Plan, &Report),
    grid: &Grid<'_>,
    workload: usize,
) -> Option<Capacity> {
    let capacity = |arm: usize| {
        let peak = peak_throughput((plan, report), grid, (arm, workload));
        Some(Capacity {
            workload: plan.workloads[workload].name.clone(),
            rps: peak.rps.filter(|_| peak.unknown.is_none())?,
            subject: plan.arms[arm].name.clone(),
        })
    };
    let capacities = loaded_arms(plan, workload).into_iter().filter_map(capacity);
    capacities.min_by(|a, b| a.rps.total_cmp(&b.rps))
}

/// Returns the subjects whose capacity is unknown and which may be the slowest, by workload. Such a
/// subject has planned closed loops, but no valid one, or its best one is only a lower bound. A
/// lower bound above the throughput of the slowest subject with a known capacity does not matter.
#[must_use]
pub fn missing_capacities(plan: &Plan, report: &Report) -> Vec<MissingCapacity> {
    let grid = Grid::new(&report.trials);
    let missing = |workload: usize| {
        let slowest_rps =
            slowest_subject((plan, report), &grid, workload).map(|slowest| slowest.rps);
        let missing_arm = |arm: usize| {
            let peak = peak_throughput((plan, report), &grid, (arm, workload));
            let (cause, reason) = peak.unknown?;
            let is_slowest = peak.rps.zip(slowest_rps).is_none_or(|(rps, slowest)| rps < slowest);
            is_slowest.then(|| MissingCapacity {
                workload: plan.workloads[workload].name.clone(),
                subject: plan.arms[arm].name.clone(),
                cause,
                reason,
            })
        };
        loaded_arms(plan, workload).into_iter().filter_map(missing_arm).collect::<Vec<_>>()
    };
    (0..plan.workloads.len()).flat_map(missing).collect()
}

/// Returns the subjects that failed in some repeats of the closed loops. Their capacities exclude
/// these repeats.
#[must_use]
pub fn capacity_failures(plan: &Plan, report: &Report) -> Vec<CapacityFailures> {
    let arms: BTreeSet<usize> =
        (0..plan.workloads.len()).flat_map(|workload| loaded_arms(plan, workload)).collect();
    let failures = |arm: usize| {
        let failures = report.subjects[arm].failures.iter();
        let failed_starts = failures
            .filter(|failure| failure.is_servers_fault() && failure.repeat > 0)
            .map(|failure| failure.repeat);
        let failed_loads = report
            .trials
            .iter()
            .filter(|trial| trial.cell.arm == arm && !trial.valid && trial.is_servers_fault());
        let repeats: BTreeSet<u32> =
            failed_starts.chain(failed_loads.map(|trial| trial.block)).collect();
        (!repeats.is_empty()).then(|| CapacityFailures {
            subject: plan.arms[arm].name.clone(),
            failed: repeats.len(),
            repeats: plan.repeats,
        })
    };
    arms.into_iter().filter_map(failures).collect()
}

/// Returns the arms with planned closed loops of a workload. Controls are excluded, and subjects
/// that this machine cannot run.
fn loaded_arms(plan: &Plan, workload: usize) -> BTreeSet<usize> {
    let is_loaded = |arm: &usize| {
        let subject = plan.subject_of(*arm);
        !subject.control && subject.skipped.is_none()
    };
    plan.trials
        .iter()
        .filter(|trial| {
            trial.workload == workload && plan.load.steps[trial.step].arrivals.is_closed()
        })
        .map(|trial| trial.arm)
        .filter(is_loaded)
        .collect()
}

/// The best closed loop of an arm with a workload.
struct PeakThroughput {
    /// Median over the starts, responses per second. Starts in which the generator was the limit
    /// are included with the throughput that they reached. `None`: no closed loop has a start with
    /// a throughput.
    rps: Option<f64>,
    /// Why the capacity is unknown, or may be higher than `rps`. `None`: the capacity is `rps`.
    unknown: Option<(MissingCause, String)>,
}

/// Returns the best closed loop of an arm with a workload, and why its capacity is unknown. If
/// no closed loop has a throughput, a failure of the server is named before other reasons.
fn peak_throughput(
    (plan, report): (&Plan, &Report),
    grid: &Grid<'_>,
    (arm, workload): (usize, usize),
) -> PeakThroughput {
    let planned = plan.trials.iter().filter(|trial| {
        (trial.arm, trial.workload) == (arm, workload)
            && plan.load.steps[trial.step].arrivals.is_closed()
    });
    let steps: BTreeSet<usize> = planned.map(|trial| trial.step).collect();
    let closed_loop =
        |step: usize| ClosedLoop::new((plan, report), grid, CellKey { arm, workload, step });
    let loops: Vec<ClosedLoop<'_>> = steps.into_iter().map(closed_loop).collect();
    let with_rates = loops.iter().filter_map(|closed| Some((closed, closed.rps?)));
    let Some((peak, rps)) = with_rates.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        let fault = loops.iter().find_map(ClosedLoop::servers_fault);
        let unknown = fault
            .map(|reason| (MissingCause::NoValidStep, reason))
            .or_else(|| loops.iter().find_map(ClosedLoop::exclusion))
            .unwrap_or_else(|| (MissingCause::NoValidStep, "it had no correct responses".into()));
        return PeakThroughput { rps: None, unknown: Some(unknown) };
    };
    let unknown = loops
        .iter()
        .filter(|closed| closed.may_exceed((peak, rps)))
        .find_map(ClosedLoop::exclusion);
    PeakThroughput { rps: Some(rps), unknown }
}

/// The planned repeats of a closed loop.
struct ClosedLoop<'a> {
    /// Requests in flight.
    in_flight: u64,
    /// Median over the valid repeats and those that only the generator limited, responses per
    /// second.
    rps: Option<f64>,
    valid: usize,
    /// Repeats that are not valid for reasons outside of the server.
    excluded: Vec<&'a TrialResult>,
    /// Repeats that are not valid because of the server.
    failed: Vec<&'a TrialResult>,
    /// Blocks whose repeat did not run although the server did not fail.
    missing: Vec<u32>,
    /// Failures of the subject's build and starts that concern this loop's protocol.
    start_failures: Vec<&'a SubjectFailure>,
}

impl<'a> ClosedLoop<'a> {
    fn new((plan, report): (&Plan, &'a Report), grid: &Grid<'a>, key: CellKey) -> ClosedLoop<'a> {
        let cell = grid.get(key);
        let trials = cell.map_or(&[][..], Cell::trials);
        let protocol = plan.workloads[key.workload].protocol;
        let start_failures: Vec<&SubjectFailure> = report.subjects[key.arm]
            .failures
            .iter()
            .filter(|failure| failure.protocol.is_none_or(|failed| failed == protocol))
            .collect();
        let has_failed = |block: u32| {
            let mut failures = start_failures.iter().filter(|failure| failure.is_servers_fault());
            failures.any(|failure| failure.is_of_build() || failure.repeat == block)
        };
        let planned = plan.trials.iter().filter(|trial| CellKey::from_trial(trial) == key);
        let blocks: BTreeSet<u32> =
            planned.map(|trial| plan.launches[trial.launch].block + 1).collect();
        let has_trial = |block: u32| trials.iter().any(|trial| trial.block == block);
        let is_missing = |block: &u32| !has_trial(*block) && !has_failed(*block);
        let missing = blocks.into_iter().filter(is_missing).collect();
        let invalid = trials.iter().copied().filter(|trial| !trial.valid);
        let (excluded, failed) = invalid.partition(|trial| trial.is_inconclusive());
        ClosedLoop {
            in_flight: plan.load.steps[key.step].in_flight(),
            rps: cell
                .and_then(|cell| lower_bounds(cell).repeated().median)
                .filter(|rps| *rps > 0.0),
            valid: trials.iter().filter(|trial| trial.valid).count(),
            excluded,
            failed,
            missing,
            start_failures,
        }
    }

    /// Whether half of the repeats or more are excluded or missing, and the server may reach more
    /// in this loop than at its best step (the peak). The server may reach more in two cases:
    ///
    /// - The excluded repeats came near the peak.
    /// - The loop has at least as many requests in flight as the peak, and the generator was not
    ///   the only reason for the exclusion.
    fn may_exceed(&self, (peak, peak_rps): (&ClosedLoop<'_>, f64)) -> bool {
        let unknown = self.excluded.len() + self.missing.len();
        if unknown == 0 || unknown < self.valid {
            return false;
        }
        let rates: Vec<f64> = self.excluded.iter().map(|trial| trial.load.throughput_rps).collect();
        let is_near = median(&rates).is_some_and(|rps| rps >= NEAR_PEAK * peak_rps);
        let is_only_limited = self.missing.is_empty()
            && self.excluded.iter().all(|trial| trial.is_limited_by_generator());
        is_near || !is_only_limited && self.in_flight >= peak.in_flight
    }

    /// Returns how the server failed. `None`: it did not fail.
    fn servers_fault(&self) -> Option<String> {
        let failed_start = self.start_failures.iter().find(|failure| failure.is_servers_fault());
        let text = failed_start.map(|failure| failure.failure.in_words());
        text.or_else(|| invalid_caveats(&self.failed).next().map(caveat_text))
    }

    /// Returns why repeats are excluded or missing. `None`: no repeat is excluded or missing.
    fn exclusion(&self) -> Option<(MissingCause, String)> {
        let mut caveats = invalid_caveats(&self.excluded);
        if let Some(limit) = caveats.find(|caveat| caveat.code.is_generator_limit()) {
            return Some((MissingCause::GeneratorLimit, caveat_text(limit)));
        }
        let other = invalid_caveats(&self.excluded).next().map(caveat_text);
        let is_missing = |failure: &&&SubjectFailure| self.missing.contains(&failure.repeat);
        let not_run = || match self.start_failures.iter().find(is_missing) {
            Some(failure) => Some(failure.failure.in_words()),
            None if self.missing.is_empty() => None,
            None => Some(format!("{} of its repeats did not run", self.missing.len())),
        };
        Some((MissingCause::Excluded, other.or_else(not_run)?))
    }
}

/// Returns the caveats that make trials invalid.
fn invalid_caveats<'a>(trials: &[&'a TrialResult]) -> impl Iterator<Item = &'a Caveat> {
    let caveats = trials.iter().flat_map(|trial| &trial.caveats);
    caveats.filter(|caveat| caveat.severity == Severity::Invalid)
}

/// Formats a caveat as its name and message.
fn caveat_text(caveat: &Caveat) -> String {
    format!("{}: {}", caveat.code.name(), caveat.message)
}

#[cfg(test)]
mod tests {
    use dyno_model::TrialRecord;
    use dyno_model::run::Run;
    use dyno_model::sample::ThreadUse;
    use dyno_model::times::Recording;

    use super::*;
    use crate::fixture;

    #[test]
    fn slowest_subject_of_each_workload_is_not_control() {
        let run = fixture::five_blocks();
        let report = crate::report::report(&run);
        let subjects: Vec<(String, String)> = slowest_subjects(&run.header.plan, &report)
            .into_iter()
            .map(|c| (c.workload, c.subject))
            .collect();
        assert_eq!(
            subjects,
            [("w", "slow"), ("v", "slow")].map(|(w, s)| (w.to_string(), s.to_string()))
        );
        // The better of its two steps, as the median of five starts.
        let rps = slowest_subjects(&run.header.plan, &report)[0].rps;
        let best = report.overview.iter().find(|row| row.subject == "slow").unwrap();
        assert_eq!(Some(rps), best.peak_rps.as_ref().unwrap().median);
    }

    /// A subject whose server crashed in all steps of a workload is reported as missing.
    #[test]
    fn subject_without_valid_step_has_missing_capacity() {
        let mut run = fixture::five_blocks();
        let plan = run.header.plan.clone();
        let crash = |record: &mut TrialRecord| {
            let planned = &plan.trials[record.trial];
            if (planned.arm, planned.workload) == (0, 1) {
                record.load.server_failure = Some("it ended".into());
            }
        };
        run.trials.iter_mut().for_each(crash);
        let report = crate::report::report(&run);
        let missing = missing_capacities(&plan, &report);
        let [only] = missing.as_slice() else { panic!("{missing:?}") };
        assert_eq!((&*only.workload, &*only.subject), ("v", "slow"));
        assert!(only.reason.contains("it ended"), "{}", only.reason);
        let failed = capacity_failures(&plan, &report);
        let counts: Vec<_> = failed.iter().map(|f| (&*f.subject, f.failed, f.repeats)).collect();
        assert_eq!(counts, [("slow", 5, 5), ("fast", 2, 5)]);
    }

    /// The generator limits all repeats of a subject, or the first of them.
    fn run_with_limited(arm: usize, limited: usize) -> Run {
        let mut run = fixture::five_blocks();
        let plan = run.header.plan.clone();
        let mut left = [limited; 4];
        for record in &mut run.trials {
            let planned = &plan.trials[record.trial];
            let cell = 2 * planned.workload + planned.step;
            if planned.arm == arm && left[cell] > 0 {
                left[cell] -= 1;
                let thread = ThreadUse { run_ns: 900 * fixture::MS, ..ThreadUse::default() };
                record.load.client.threads = vec![thread];
            }
        }
        run
    }

    #[test]
    fn slowest_subject_limited_by_generator_has_missing_capacity() {
        let results = |arm, limited| {
            let run = run_with_limited(arm, limited);
            let plan = &run.header.plan;
            let report = crate::report::report(&run);
            let missing = missing_capacities(plan, &report);
            let slowest = slowest_subjects(plan, &report);
            (missing, slowest.into_iter().map(|c| c.subject).collect::<Vec<_>>())
        };
        let (missing, slowest) = results(0, 5);
        assert_eq!(slowest, ["fast", "fast"], "of those with a capacity");
        let names: Vec<_> = missing.iter().map(|m| (&*m.workload, &*m.subject)).collect();
        assert_eq!(names, [("w", "slow"), ("v", "slow")]);
        assert!(missing[0].reason.starts_with("generator_busy: "), "{}", missing[0].reason);
        let (missing, _) = results(0, 3);
        let is_limited = |m: &MissingCapacity| {
            m.cause == MissingCause::GeneratorLimit && m.reason.starts_with("generator_busy: ")
        };
        assert!(missing.iter().all(is_limited), "{missing:?}");
        // Two of five repeats leave the median to valid ones.
        assert_eq!(results(0, 2), (vec![], vec!["slow".into(), "slow".into()]));
        // A faster subject may be even faster than measured.
        assert_eq!(results(1, 5), (vec![], vec!["slow".into(), "slow".into()]));
    }

    /// The repeats of the better step of a subject are excluded, or did not run.
    #[test]
    fn slowest_subject_without_its_best_step_has_missing_capacity() {
        let whole = fixture::five_blocks();
        let plan = &whole.header.plan;
        let of_step = |record: &TrialRecord, step| {
            let planned = &plan.trials[record.trial];
            (planned.arm, planned.workload, planned.step) == (0, 0, step)
        };
        let rps = |step| fixture::response_count(200, 1, 0, step);
        let best = usize::from(rps(1) > rps(0));
        let missing = |run: &Run| missing_capacities(plan, &crate::report::report(run));
        let mut stopped = whole.clone();
        for record in stopped.trials.iter_mut().filter(|record| of_step(record, best)) {
            let mut lags = Recording::new();
            lags.record(500_000_000);
            record.load.intervals[0].loop_lag = lags.seal();
        }
        let mut removed = whole.clone();
        removed.trials.retain(|record| !of_step(record, best));
        for (run, reason) in [(stopped, "generator_stopped: "), (removed, "5 of its repeats did")] {
            let missing = missing(&run);
            let [only] = missing.as_slice() else { panic!("{missing:?}") };
            assert_eq!((&*only.subject, only.cause), ("slow", MissingCause::Excluded));
            assert!(only.reason.starts_with(reason), "{}", only.reason);
        }
        // A failure of the server in these starts is no sign of a higher capacity.
        let mut crashed = whole.clone();
        crashed.trials.retain(|record| !of_step(record, best));
        crashed.starts.extend(plan.launches.iter().enumerate().filter_map(|(launch, planned)| {
            let failure = dyno_model::start::Failure {
                kind: dyno_model::start::FailureKind::Crashed,
                message: "it ended".into(),
            };
            planned.arms.contains(&0).then(|| dyno_model::StartRecord {
                start: launch,
                launch,
                failure: Some(failure),
                ..Default::default()
            })
        }));
        assert_eq!(missing(&crashed), []);
    }

    /// Without a valid step, only the server's failures are to be fixed in the subject.
    #[test]
    fn subject_excluded_at_all_steps_has_outside_cause() {
        let fail_starts = |kind| {
            let mut run = fixture::five_blocks();
            let plan = run.header.plan.clone();
            run.trials.retain(|record| plan.trials[record.trial].arm != 0);
            let launches = plan.launches.iter().enumerate();
            run.starts.extend(launches.filter(|(_, planned)| planned.arms == [0]).map(
                |(launch, _)| dyno_model::StartRecord {
                    start: launch,
                    launch,
                    failure: Some(dyno_model::start::Failure { kind, message: "no".into() }),
                    ..Default::default()
                },
            ));
            run
        };
        let mut stopped = fixture::five_blocks();
        let plan = stopped.header.plan.clone();
        for record in &mut stopped.trials {
            if plan.trials[record.trial].arm == 0 {
                let mut lags = Recording::new();
                lags.record(500_000_000);
                record.load.intervals[0].loop_lag = lags.seal();
            }
        }
        let mut broken = stopped.clone();
        let fail = |record: &mut TrialRecord| record.load.server_failure = Some("it ended".into());
        fail(broken.trials.iter_mut().find(|r| plan.trials[r.trial].arm == 0).unwrap());
        use dyno_model::start::FailureKind::{Crashed, Harness};
        for (run, cause, reason) in [
            (stopped, MissingCause::Excluded, "generator_stopped: "),
            (fail_starts(Harness), MissingCause::Excluded, "could not be measured: no"),
            (fail_starts(Crashed), MissingCause::NoValidStep, "crashed: no"),
            (broken, MissingCause::NoValidStep, "subject_failed: "),
        ] {
            let missing = missing_capacities(&plan, &crate::report::report(&run));
            assert_eq!((&*missing[0].subject, missing[0].cause), ("slow", cause), "{reason}");
            assert!(missing[0].reason.starts_with(reason), "{}", missing[0].reason);
        }
    }

    /// A start that dyno or the machine failed is not a failure of the subject.
    #[test]
    fn failures_of_harness_are_not_those_of_subject() {
        let fail = |kind| {
            let mut run = fixture::five_blocks();
            let failure = dyno_model::start::Failure { kind, message: "it failed".into() };
            let start = dyno_model::StartRecord { failure: Some(failure), ..Default::default() };
            run.starts.push(start);
            let failures = capacity_failures(&run.header.plan, &crate::report::report(&run));
            failures.iter().find(|f| f.subject == "slow").map(|f| f.failed)
        };
        assert_eq!(fail(dyno_model::start::FailureKind::Crashed), Some(1));
        assert_eq!(fail(dyno_model::start::FailureKind::Harness), None);
    }

    /// A subject whose starts all failed has no trials.
    #[test]
    fn subject_without_trials_has_missing_capacity() {
        let mut run = fixture::five_blocks();
        let plan = run.header.plan.clone();
        run.trials.retain(|record| plan.trials[record.trial].arm != 0);
        let missing = missing_capacities(&plan, &crate::report::report(&run));
        let names: Vec<_> = missing.iter().map(|m| (&*m.workload, &*m.subject)).collect();
        assert_eq!(names, [("w", "slow"), ("v", "slow")]);
        let (cause, reason) = (missing[0].cause, &*missing[0].reason);
        assert_eq!((cause, reason), (MissingCause::Excluded, "5 of its repeats did not run"));
        let whole = fixture::five_blocks();
        let report = crate::report::report(&whole);
        assert_eq!(missing_capacities(&whole.header.plan, &report), []);
    }
}
