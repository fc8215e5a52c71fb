//! `dyno plan SUITE --budget TIME`: finds the repeats and the load duration that fit a time budget.

use std::path::Path;
use std::time::Duration;

use dyno_analysis::budget::{Budget, MIN_PILOT_REPEATS, budget};
use dyno_archive::RunDir;
use dyno_model::Plan;
use dyno_model::run::Run;
use dyno_report::budget::text;
use dyno_report::json;
use dyno_report::redact::RedactedPlan;
use dyno_suite::file::SuiteFile;
use dyno_suite::limits::MAX_CAPACITY_REPEATS;
use dyno_suite::plan::{expected_ns, keeps_turns};

use super::super::report::escape_for_terminal;
use crate::cli::PlanArgs;
use crate::exit::{Exit, usage_error};
use crate::terminal::{self, print, print_text_about};

/// A function that plans a suite as it would be run.
pub(super) type PlanOf<'a> = dyn Fn(SuiteFile) -> anyhow::Result<Plan> + 'a;

/// Prints the repeats and the load duration that fit `time`.
pub(super) fn run(
    args: &PlanArgs,
    suite: &SuiteFile,
    plan_of: &PlanOf<'_>,
    time: Duration,
) -> anyhow::Result<Exit> {
    let (run, plan) = pilot(args, suite, plan_of)?;
    let report = dyno_analysis::report::report(&run);
    let fits = |seconds: f64| keeps_turns(&plan, (seconds * 1e9) as u64);
    let capacity_s = capacity_run_s(suite, plan_of)?;
    let planned: Budget =
        budget(&run, &report, (time.as_secs_f64(), capacity_s), &fits).map_err(usage_error)?;
    if args.format.is_text() {
        print_text_about(&plan, &text(&planned))?;
    } else {
        let mut json = serde_json::to_value(&planned)?;
        RedactedPlan::new(&plan)?.erase_from_json(&mut json);
        print(&escape_for_terminal(None, &json::lines(&json)))?;
    }
    Ok(Exit::Valid)
}

/// Returns the expected length of the run that measures capacities first, seconds. Returns 0 if no
/// rates are shares of a capacity.
fn capacity_run_s(suite: &SuiteFile, plan_of: &PlanOf<'_>) -> anyhow::Result<f64> {
    if suite.shares.is_empty() {
        return Ok(0.0);
    }
    let plan = plan_of(suite.clone())?;
    let repeats = plan.repeats.min(MAX_CAPACITY_REPEATS);
    Ok(expected_ns(&plan) as f64 / 1e9 * f64::from(repeats) / f64::from(plan.repeats.max(1)))
}

/// Returns the pilot run, and the plan of the suite at its rates. The pilot is the run that the
/// command line names, or the latest one of the unchanged suite.
pub(super) fn pilot(
    args: &PlanArgs,
    suite: &SuiteFile,
    plan_of: &PlanOf<'_>,
) -> anyhow::Result<(Run, Plan)> {
    if let Some(path) = &args.pilot {
        let run = super::super::open_run(path)?.read()?;
        return match plan_as(&run, suite, plan_of)? {
            Ok(plan) => Ok((run, plan)),
            Err(part) => Err(usage_error(format!(
                "{}: cannot be used as the pilot run, because its {part} differ from those of this \
                 suite\nhint: run this suite, and name that run with --pilot",
                path.display()
            ))),
        };
    }
    latest(&args.runs, suite, plan_of)?.map_err(|difference| {
        let path = terminal::quote(&args.suite.display().to_string());
        usage_error(format!(
            "{}: has no run of this suite, in its present form, with {MIN_PILOT_REPEATS} repeats \
             or more{}\nhint: measure a pilot run with `dyno run {path} --repeats \
             {MIN_PILOT_REPEATS}`, or name an earlier run with --pilot",
            args.runs.display(),
            difference.unwrap_or_default()
        ))
    })
}

/// The latest run of the unchanged suite with enough repeats. `Err`: the difference of the latest
/// run of a changed suite, if there is one.
type LatestPilot = Result<(Run, Plan), Option<String>>;

/// Finds the latest run in a folder.
pub(super) fn latest(
    runs: &Path,
    suite: &SuiteFile,
    plan_of: &PlanOf<'_>,
) -> anyhow::Result<LatestPilot> {
    let entries = std::fs::read_dir(runs).into_iter().flatten();
    let headers = entries.filter_map(|entry| {
        let dir = RunDir::open(entry.ok()?.path()).ok()?;
        let header = dir.header().ok()?;
        (header.plan.suite.name == suite.suite.name).then_some((header.started, dir))
    });
    let mut runs_by_start: Vec<(String, RunDir)> = headers.collect();
    runs_by_start.sort_by(|(a, _), (b, _)| b.cmp(a));
    let mut latest_difference = None;
    for (_, dir) in runs_by_start {
        let Ok(run) = dir.read() else { continue };
        if measured_repeats(&run) < MIN_PILOT_REPEATS {
            continue;
        }
        match plan_as(&run, suite, plan_of)? {
            Ok(plan) => return Ok(Ok((run, plan))),
            Err(part) => {
                let difference = format!(" (the {part} of {} differ)", run.header.id);
                latest_difference.get_or_insert(difference);
            }
        }
    }
    Ok(Err(latest_difference))
}

/// Returns the number of repeats (blocks) of a run, up to the last one with a trial.
fn measured_repeats(run: &Run) -> usize {
    let plan = &run.header.plan;
    let repeats = run
        .trials
        .iter()
        .map(|trial| plan.launches[plan.trials[trial.trial].launch].block as usize + 1);
    repeats.max().unwrap_or(0)
}

/// Returns the suite's plan at the rates of a run. `Err`: the part of the plan that differs.
fn plan_as(
    run: &Run,
    suite: &SuiteFile,
    plan_of: &PlanOf<'_>,
) -> anyhow::Result<Result<Plan, &'static str>> {
    let pilot = &run.header.plan;
    let plan = match (suite.shares.is_empty(), &pilot.measured_first) {
        (true, _) => plan_of(suite.clone())?,
        (false, Some(first)) if first.shares == suite.shares => {
            plan_of(suite.with_capacities(&first.capacities)?)?
        }
        (false, _) => return Ok(Err("rates")),
    };
    let arms = |plan: &Plan| {
        plan.arms.clone().into_iter().map(|arm| (arm.name, arm.conditions)).collect::<Vec<_>>()
    };
    let names = |plan: &Plan| plan.arms.iter().map(|arm| arm.name.clone()).collect::<Vec<_>>();
    let backends =
        |plan: &Plan| plan.backends.iter().map(|backend| backend.name.clone()).collect::<Vec<_>>();
    let parts = [
        (names(pilot) != names(&plan), "subjects"),
        (pilot.workloads != plan.workloads, "requests"),
        (pilot.sharing != plan.sharing, "turns"),
        (pilot.swaps_cpus != plan.swaps_cpus, "CPUs"),
        (pilot.load != plan.load, "loads"),
        (pilot.search != plan.search, "searches"),
        (arms(pilot) != arms(&plan), "subject conditions"),
        (backends(pilot) != backends(&plan), "back ends"),
        (pilot.stop.is_some() != plan.stop.is_some(), "stop rules"),
    ];
    let different_part = parts.into_iter().find(|(differs, _)| *differs);
    Ok(match different_part {
        Some((_, part)) => Err(part),
        None => Ok(plan),
    })
}
