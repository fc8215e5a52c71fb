//! `dyno plan SUITE --budget TIME`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyno_analysis::budget::{Budget, PILOT, budget};
use dyno_archive::{Plan, RunDir};
use dyno_report::budget::text;

use super::super::report::for_reader;
use crate::cli::{PlanArgs, PlanFormat};
use crate::exit::{Exit, bad};
use crate::terminal::{self, print};

pub(super) fn run(args: &PlanArgs, plan: &Plan, time: Duration) -> anyhow::Result<Exit> {
    let pilot = match &args.pilot {
        Some(pilot) => pilot.clone(),
        None => latest(&args.runs, plan).ok_or_else(|| none(args))?,
    };
    let run = RunDir::open(&pilot)?.read()?;
    check(&run.header.plan, plan, &pilot)?;
    let report = dyno_analysis::report::report(&run);
    let planned: Budget = budget(&run, &report, time.as_secs_f64()).map_err(bad)?;
    match args.format {
        PlanFormat::Json => {
            let json = serde_json::to_string_pretty(&planned)? + "\n";
            print(&for_reader(None, &json))?;
        }
        PlanFormat::Text => print(&dyno_report::terminal::shown(&text(&planned)))?,
    }
    Ok(Exit::Valid)
}

/// The latest run of a suite that can be a pilot.
fn latest(runs: &Path, plan: &Plan) -> Option<PathBuf> {
    let entries = std::fs::read_dir(runs).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let of_suite = entries.filter_map(|path| {
        let run = RunDir::open(&path).ok()?.read().ok()?;
        let blocks = run.trials.iter().map(|trial| {
            let plan = &run.header.plan;
            plan.launches[plan.trials[trial.trial].launch].block as usize + 1
        });
        let is_pilot = run.header.plan.suite.name == plan.suite.name && blocks.max().unwrap_or(0) >= PILOT;
        is_pilot.then_some((run.header.started, path))
    });
    of_suite.max().map(|(_, path)| path)
}

fn none(args: &PlanArgs) -> anyhow::Error {
    let suite = terminal::quoted(&args.suite.display().to_string());
    bad(format!(
        "{} has no run of this suite with {PILOT} repeats or more, that would show what varies: make one, with `dyno run {suite} --repeats {PILOT}`, or name one with --pilot",
        args.runs.display()
    ))
}

/// Checks that a pilot measures what is planned.
fn check(pilot: &Plan, plan: &Plan, path: &Path) -> anyhow::Result<()> {
    let names = |plan: &Plan| plan.arms.iter().map(|arm| arm.name.clone()).collect::<Vec<String>>();
    let what = if names(pilot) != names(plan) {
        "subjects"
    } else if pilot.slice_ns.is_some() != plan.slice_ns.is_some() {
        "an order of subjects"
    } else if pilot.load.steps != plan.load.steps || pilot.load.duration_ns != plan.load.duration_ns {
        "a load"
    } else {
        return Ok(());
    };
    Err(bad(format!(
        "{} has {what} other than those of this suite: what varied in it says nothing of that; make a pilot of the suite as it is",
        path.display()
    )))
}
