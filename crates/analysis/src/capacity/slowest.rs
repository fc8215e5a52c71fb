//! Finds the slowest subject of each workload in closed loops.
//!
//! `dyno run` derives its rates from it, so that all subjects are compared at rates that each of
//! them can serve.

use std::collections::BTreeSet;

use dyno_archive::plan::{Capacity, CapacityFailures, Plan};

use crate::caveat::Severity;
use crate::grid::{Cell, Grid};
use crate::peak::{NEAR_PEAK, lower_bounds};
use crate::report::Report;
use crate::trial::TrialResult;

/// A subject whose capacity with a workload is unknown, so that the slowest subject of that
/// workload is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingCapacity {
    pub workload: String,
    /// Name of the arm.
    pub subject: String,
    /// Why it has no valid step, or why it may do more than its best one.
    pub reason: String,
    /// Whether the subject's best step shows only what the generator could do.
    pub is_limited: bool,
}

/// Returns the slowest subject of each workload with closed loops, and its peak throughput: the
/// median over its starts. Controls are left out.
///
/// It is the slowest only of the subjects that have a capacity. [`missing_capacities`] has the
/// others.
#[must_use]
pub fn slowest_subjects(plan: &Plan, report: &Report) -> Vec<Capacity> {
    let grid = Grid::new(&report.trials);
    let slowest = |workload: usize| slowest_subject(plan, &grid, workload);
    (0..plan.workloads.len()).filter_map(slowest).collect()
}

fn slowest_subject(plan: &Plan, grid: &Grid<'_>, workload: usize) -> Option<Capacity> {
    let capacity = |arm: usize| match peak_throughput(plan, grid, (arm, workload))? {
        PeakThroughput { is_lower_bound: true, .. } => None,
        PeakThroughput { rps, .. } => Some(Capacity {
            workload: plan.workloads[workload].name.clone(),
            rps,
            subject: plan.arms[arm].name.clone(),
        }),
    };
    let capacities = loaded_arms(plan, workload).into_iter().filter_map(capacity);
    capacities.min_by(|a, b| a.rps.total_cmp(&b.rps))
}

/// Returns the subjects that were to be loaded in closed loops and whose capacity is unknown, by
/// workload: they have no valid closed loop, or the generator limited them below the slowest
/// subject. A generator's limit above it does not matter.
#[must_use]
pub fn missing_capacities(plan: &Plan, report: &Report) -> Vec<MissingCapacity> {
    let grid = Grid::new(&report.trials);
    let missing = |workload: usize| {
        let slowest_rps = slowest_subject(plan, &grid, workload).map(|slowest| slowest.rps);
        let missing_arm = |arm: usize| {
            let limited = match peak_throughput(plan, &grid, (arm, workload)) {
                Some(peak) if !peak.is_lower_bound => return None,
                Some(peak) if slowest_rps.is_some_and(|slowest| peak.rps >= slowest) => {
                    return None;
                }
                peak => peak.and_then(|_| limit_reason(report, (arm, workload))),
            };
            Some(MissingCapacity {
                workload: plan.workloads[workload].name.clone(),
                subject: plan.arms[arm].name.clone(),
                is_limited: limited.is_some(),
                reason: limited.unwrap_or_else(|| missing_reason(plan, report, (arm, workload))),
            })
        };
        loaded_arms(plan, workload).into_iter().filter_map(missing_arm).collect::<Vec<_>>()
    };
    (0..plan.workloads.len()).flat_map(missing).collect()
}

/// Returns the subjects that failed in some repeats of the closed loops. These repeats are not in
/// their capacities.
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

/// Returns the arms that were to be loaded with a workload in closed loops, without controls, and
/// without the subjects that this machine lacks the means to run.
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
    /// count with what they reached at least.
    rps: f64,
    /// Whether the generator was the limit of half of the repeats or more of this step, or of
    /// another one that may be higher.
    is_lower_bound: bool,
}

/// Returns the best closed loop of an arm with a workload. `None`: it has no valid one.
fn peak_throughput(
    plan: &Plan,
    grid: &Grid<'_>,
    (arm, workload): (usize, usize),
) -> Option<PeakThroughput> {
    let throughput = |cell: &Cell<'_>| {
        let rps = lower_bounds(cell).repeated().median?;
        let valid = cell.valid().count();
        let limited = cell.trials().iter().filter(|t| t.is_limited_by_generator()).count();
        Some((rps, limited >= valid))
    };
    let steps: Vec<(f64, bool)> = grid
        .steps(arm, workload)
        .filter(|(key, _)| plan.load.steps[key.step].arrivals.is_closed())
        .filter_map(|(_, cell)| throughput(cell))
        .filter(|(rps, _)| *rps > 0.0)
        .collect();
    let rps = steps.iter().map(|(rps, _)| *rps).reduce(f64::max)?;
    let may_be_higher =
        |(limited_rps, is_limited): &(f64, bool)| *is_limited && *limited_rps >= NEAR_PEAK * rps;
    Some(PeakThroughput { rps, is_lower_bound: steps.iter().any(may_be_higher) })
}

/// Returns why the generator was the limit of an arm's load with a workload. `None`: it was not.
fn limit_reason(report: &Report, (arm, workload): (usize, usize)) -> Option<String> {
    let trials = report.trials.iter().filter(|trial| {
        (trial.cell.arm, trial.cell.workload) == (arm, workload) && trial.is_limited_by_generator()
    });
    let mut caveats = trials.flat_map(|trial| &trial.caveats);
    let limit = caveats.find(|caveat| caveat.code.is_generator_limit())?;
    Some(format!("{}: {}", limit.code.name(), limit.message))
}

/// Returns why an arm has no valid closed loop of a workload.
fn missing_reason(plan: &Plan, report: &Report, (arm, workload): (usize, usize)) -> String {
    let protocol = plan.workloads[workload].protocol;
    let failure = report.subjects[arm]
        .failures
        .iter()
        .find(|failure| failure.protocol.is_none_or(|failed| failed == protocol));
    if let Some(failure) = failure {
        return format!("{}: {}", failure.failure.kind.name(), failure.failure.message);
    }
    let is_own = |trial: &&TrialResult| (trial.cell.arm, trial.cell.workload) == (arm, workload);
    let caveats = report.trials.iter().filter(is_own).flat_map(|trial| &trial.caveats);
    let mut refusals = caveats.filter(|caveat| caveat.severity == Severity::Invalid);
    refusals.next().map_or_else(
        || "none of its steps ran".into(),
        |caveat| format!("{}: {}", caveat.code.name(), caveat.message),
    )
}

#[cfg(test)]
mod tests {
    use dyno_archive::TrialRecord;
    use dyno_archive::run::Run;
    use dyno_archive::sample::ThreadUse;

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

    /// The subject in whose steps of a workload the server crashed is not left out silently.
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

    /// The generator limits all repeats of a subject, or the first ones of it.
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
        assert!(missing.iter().all(|m| m.is_limited && m.reason.starts_with("generator_busy: ")));
        // Two of five repeats leave the median to valid ones.
        assert_eq!(results(0, 2), (vec![], vec!["slow".into(), "slow".into()]));
        // A faster subject may be faster still.
        assert_eq!(results(1, 5), (vec![], vec!["slow".into(), "slow".into()]));
    }

    /// A start that dyno or the machine failed is not a failure of the subject.
    #[test]
    fn failures_of_harness_are_not_those_of_subject() {
        let fail = |kind| {
            let mut run = fixture::five_blocks();
            let failure = dyno_archive::start::Failure { kind, message: "it failed".into() };
            let start = dyno_archive::StartRecord { failure: Some(failure), ..Default::default() };
            run.starts.push(start);
            let failures = capacity_failures(&run.header.plan, &crate::report::report(&run));
            failures.iter().find(|f| f.subject == "slow").map(|f| f.failed)
        };
        assert_eq!(fail(dyno_archive::start::FailureKind::Crashed), Some(1));
        assert_eq!(fail(dyno_archive::start::FailureKind::Harness), None);
    }

    /// A subject whose starts all failed has no trials at all.
    #[test]
    fn subject_without_trials_has_missing_capacity() {
        let mut run = fixture::five_blocks();
        let plan = run.header.plan.clone();
        run.trials.retain(|record| plan.trials[record.trial].arm != 0);
        let missing = missing_capacities(&plan, &crate::report::report(&run));
        let names: Vec<_> = missing.iter().map(|m| (&*m.workload, &*m.subject)).collect();
        assert_eq!(names, [("w", "slow"), ("v", "slow")]);
        assert_eq!(missing[0].reason, "none of its steps ran");
        let whole = fixture::five_blocks();
        let report = crate::report::report(&whole);
        assert_eq!(missing_capacities(&whole.header.plan, &report), []);
    }
}
