//! `dyno load URL --find OBJECTIVE`: the highest rate that keeps it.

use std::sync::Arc;

use dyno_analysis::capacity::{CapacityResult, CapacityTrial, Next, Objective, Search, Tried, Width};
use dyno_analysis::load::Config;
use dyno_analysis::verdict::{self, Context};
use dyno_archive::plan::Arrivals;
use dyno_launch::supervision::Interrupts;
use dyno_runner::load::{Reason, Spec, Watch};
use dyno_workload::units;

use super::{ENDING_EARLY, Ready, spec};
use crate::cli::{ArrivalArg, LoadArgs, LoadFormat, Ns};
use crate::exit::{Exit, bad};
use crate::terminal::{self, Third};

/// Length of each load of a search, and of the load before it that is not measured, unless given.
const DURATION_NS: u64 = 2_000_000_000;
const WARMUP_NS: u64 = 500_000_000;

/// Rate that a search begins at unless given, requests per second.
const START: &str = "1000";

pub fn run(mut args: LoadArgs, objective: &str) -> anyhow::Result<Exit> {
    let objective =
        Objective::parse(objective, &units::duration).map_err(|why| bad(format!("--find: {why}")))?;
    let start_rps = check(&args)?;
    args.rate.get_or_insert_with(|| START.into());
    args.duration.get_or_insert(Ns(DURATION_NS));
    if args.warmup.0 == 0 {
        args.warmup = Ns(WARMUP_NS);
    }
    let ready = Ready::new(args)?;
    dyno_runner::load::preflight(&ready.spec).map_err(|mismatch| anyhow::anyhow!(mismatch.words))?;
    let interrupts = terminal::catch_interrupts(ENDING_EARLY, Third::LeavesTimeForTheResult)?;
    let result = search(&ready, &objective, start_rps, &interrupts)?;
    write(&ready.args, &result)?;
    Ok(match result.kept_rps {
        _ if interrupts.count() > 0 => Exit::Failed,
        Some(_) if result.settled => Exit::Valid,
        _ => Exit::Invalid,
    })
}

/// The rate to begin at.
fn check(args: &LoadArgs) -> anyhow::Result<f64> {
    let given = [
        ("-n", args.requests.is_some()),
        ("--save", args.save.is_some()),
        ("--stream", args.stream.is_some()),
        ("--hgrm", args.hgrm.is_some()),
        ("--hlog", args.hlog.is_some()),
        ("--trace", args.trace.is_some()),
        ("--resource", !args.resources.is_empty()),
        ("--format csv", args.format == LoadFormat::Csv),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
        return Err(bad(format!("--find makes many loads, and {option} is for one; leave one of them out")));
    }
    let rate = args.rate.as_deref().unwrap_or(START);
    let rate = units::count(rate).map_err(|_| {
        bad(format!("--rate: with --find it is the rate to begin at, one number; {rate:?} is not"))
    })?;
    if rate > 0.0 { Ok(rate) } else { Err(bad("--rate: a search begins above 0")) }
}

fn search(
    ready: &Ready,
    objective: &Objective,
    start_rps: f64,
    interrupts: &Arc<Interrupts>,
) -> anyhow::Result<CapacityResult> {
    let width = ready.args.width.unwrap_or(DEFAULT_WIDTH) / 100.0;
    let mut search = Search::new(start_rps, Width(width));
    let mut trials = Vec::new();
    let found = loop {
        match search.next() {
            Next::Done(found) => break found,
            Next::Try(_) if interrupts.count() > 0 => break search.so_far(),
            Next::Try(rate) => {
                let trial = tried(ready, objective, rate, interrupts)?;
                // A load that was cut short says nothing.
                if interrupts.count() > 0 {
                    break search.so_far();
                }
                search.tell(rate, if trial.kept { Tried::Kept } else { Tried::Missed });
                say(&trial);
                trials.push(trial);
            }
        }
    };
    Ok(CapacityResult::new(objective, found, trials))
}

/// How far apart the bounds may lie unless told, in per cent.
const DEFAULT_WIDTH: f64 = 2.0;

/// One load at a rate.
fn tried(
    ready: &Ready,
    objective: &Objective,
    rate: f64,
    interrupts: &Interrupts,
) -> anyhow::Result<CapacityTrial> {
    let arrivals = match ready.args.arrival {
        ArrivalArg::Constant => Arrivals::Constant { rate },
        ArrivalArg::Poisson => Arrivals::Poisson { rate },
    };
    let spec =
        Spec { step: dyno_archive::plan::Step { arrivals, ..ready.spec.step.clone() }, ..ready.spec.clone() };
    let config: Config = spec::config(&spec, &ready.url, &ready.workload);
    let record = dyno_runner::load::run(&spec, &mut Interrupted(interrupts));
    let record = record.map_err(|message| anyhow::anyhow!(message))?;
    let result = verdict::load(&record, config, &Context::default());
    Ok(CapacityTrial::new(rate, &result, objective.judge(&result, rate)))
}

/// A line for whoever waits.
fn say(trial: &CapacityTrial) {
    terminal::say(&dyno_report::capacity::line(trial));
}

fn write(args: &LoadArgs, result: &CapacityResult) -> anyhow::Result<()> {
    let output = args.output.as_deref();
    match args.format {
        LoadFormat::Json => {
            let json = serde_json::to_string_pretty(result)? + "\n";
            crate::cmd::report::write_out(output, &crate::cmd::report::for_reader(output, &json))
        }
        LoadFormat::Text | LoadFormat::Csv => {
            crate::cmd::report::write_out(output, &dyno_report::capacity::text(result))
        }
    }
}

/// Ends a load when the user wants it.
struct Interrupted<'a>(&'a Interrupts);

impl Watch for Interrupted<'_> {
    fn stop(&mut self) -> Option<Reason> {
        (self.0.count() > 0).then_some(Reason::Stopped)
    }
}
