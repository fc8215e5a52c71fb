//! `dyno load URL --find OBJECTIVE`: searches the highest rate that meets an objective.

use std::sync::Arc;

use dyno_analysis::capacity::{
    self, CapacityResult, CapacitySearch, CapacityTrial, RateSearch, SearchStep, Width,
};
use dyno_analysis::load::LoadConfig;
use dyno_analysis::verdict::{self, Context};
use dyno_analysis::{Code, LoadResult};
use dyno_archive::LoadRecord;
use dyno_archive::plan::{Arrival, Arrivals, Load, Objective};
use dyno_launch::supervision::Interrupts;
use dyno_runner::limits::SEARCH_WARMUP_NS;
use dyno_runner::load::{LoadSpec, LoadStopReason, SingleResponse, Watch};
use dyno_workload::units;

use super::{Beginning, PreparedLoad, spec};
use crate::cli::{ArrivalArg, LoadArgs, LoadFormat, Ns};
use crate::exit::{Exit, usage_error};
use crate::terminal;

/// Default length of each load of a search.
const DURATION_NS: u64 = 2_000_000_000;

/// Default rate at which a search begins, requests per second.
const START_RPS: f64 = 1000.0;

pub fn run(mut args: LoadArgs, objective: &str, beginning: Beginning) -> anyhow::Result<Exit> {
    let objective = capacity::parse_objective(objective, &units::duration)
        .map_err(|error| usage_error(format!("--find: {error}")))?;
    let Ns(duration_ns) = *args.duration.get_or_insert(Ns(DURATION_NS));
    let arrival = match args.arrival {
        ArrivalArg::Constant => Arrival::Constant,
        ArrivalArg::Poisson => Arrival::Poisson,
    };
    let least_rps = capacity::least_rps(&objective, duration_ns, arrival);
    let start_rps = start_rate(&args, least_rps)?;
    args.rate = Some(start_rps.to_string());
    args.warmup.get_or_insert(Ns(SEARCH_WARMUP_NS));
    let prepared = beginning.run(move || PreparedLoad::new(args))?;
    super::outputs::check_files(&prepared.args, &prepared.files)?;
    if let Some(note) = spec::note_on_threads(&prepared.args, &prepared.spec) {
        terminal::say(&note);
    }
    prepared.preflight(&beginning)?;
    let interrupts = beginning.end()?;
    let import_changes = prepared.config.import_changes.clone();
    let result = search(&prepared, &objective, (start_rps, least_rps), &interrupts)?;
    let result = CapacityResult { import_changes, ..result };
    write(&prepared.args, &result)?;
    Ok(match result.kept_rps {
        _ if interrupts.count() > 0 || result.ended.is_some() => Exit::Failed,
        Some(_) if result.settled && result.confirmed && !result.limited_by_generator => {
            Exit::Valid
        }
        _ => Exit::Invalid,
    })
}

/// Returns the rate to begin at. `least_rps`: the lowest rate at which a load has enough requests
/// for the objective's percentiles.
fn start_rate(args: &LoadArgs, least_rps: f64) -> anyhow::Result<f64> {
    let options = [
        ("-n", args.requests.is_some()),
        ("--save", args.save.is_some()),
        ("--stream", args.stream.is_some()),
        ("--hgrm", args.hgrm.is_some()),
        ("--hlog", args.hlog.is_some()),
        ("--trace", args.trace.is_some()),
        ("--metrics", args.metrics.is_some()),
        ("--ramp-connections", args.ramp_connections.is_some()),
        ("--resource", !args.resources.is_empty()),
        ("--format csv", args.format == LoadFormat::Csv),
    ];
    if let Some((option, _)) = options.into_iter().find(|(_, is_given)| *is_given) {
        return Err(usage_error(format!(
            "{option}: cannot be used with --find, which makes many loads\nhint: leave out one of \
             the two"
        )));
    }
    let Some(rate) = args.rate.as_deref() else { return Ok(START_RPS.max(least_rps.ceil())) };
    spec::refuse_rate_not_above_zero(rate)?;
    let rate = units::count(rate).map_err(|_| {
        usage_error(format!(
            "--rate {rate:?}: must be one number with --find, which begins at this rate\nhint: \
             write it like 5k"
        ))
    })?;
    spec::refuse_rate_not_above_zero(&rate.to_string())?;
    if rate < least_rps {
        terminal::say(&format!(
            "dyno load: --rate {rate}: gives too few requests for the percentiles of the \
             objective, so the search begins at {:.0}/s\nhint: make loads longer with -d",
            least_rps.ceil()
        ));
    }
    Ok(rate.max(least_rps.ceil()))
}

fn search(
    prepared: &PreparedLoad,
    objective: &Objective,
    (start_rps, least_rps): (f64, f64),
    interrupts: &Arc<Interrupts>,
) -> anyhow::Result<CapacityResult> {
    let width = prepared.args.width.unwrap_or(DEFAULT_WIDTH) / 100.0;
    let search = CapacitySearch::new(start_rps, Width(width));
    let mut search = RateSearch::new(search, objective.clone(), least_rps);
    let end_reason = loop {
        let (rate, confirms) = match search.next() {
            SearchStep::Done(_) => break None,
            SearchStep::Try(rate) => (rate, false),
            SearchStep::Confirm(rate) => (rate, true),
        };
        let length_ns = prepared.spec.load.duration_ns;
        let length_ns = if confirms { capacity::confirmation_ns(length_ns) } else { length_ns };
        if confirms {
            terminal::say(&dyno_report::capacity::confirming(rate, length_ns as f64 / 1e9));
        }
        let outcome = match interrupts.count() {
            0 => run_load(prepared, (rate, length_ns, search.loads()), interrupts),
            _ => Err(String::new()),
        };
        // The result of an interrupted load is not used.
        if interrupts.count() > 0 {
            break Some("it was interrupted".into());
        }
        match outcome {
            Err(message) => break Some(message),
            Ok((record, result)) => print_trial(&search.take((rate, confirms), &record, result)),
        }
    };
    Ok(search.result(end_reason))
}

/// Default width of the bracket around the capacity, percent.
const DEFAULT_WIDTH: f64 = 2.0;

/// Reason why a search ends if connections cannot be made. The kernel keeps a port for a minute
/// after its connection was closed.
const NO_LOCAL_PORT: &str = "no local port was left to connect from (EADDRNOTAVAIL), so the loads \
                             show nothing about the server. Keep connections alive, connect from \
                             more addresses (--source), or widen net.ipv4.ip_local_port_range.";

/// Runs one load at a rate, with its own random draws. `Err`: message for the user: why it could
/// not begin, that no local port is left, that the server no longer responds, or that its responses
/// take longer than a load. A load without a correct response is a result as long as the server
/// responds to a single request after it: it misses any objective.
fn run_load(
    prepared: &PreparedLoad,
    (rate, duration_ns, number): (f64, u64, usize),
    interrupts: &Interrupts,
) -> Result<(LoadRecord, LoadResult), String> {
    let arrivals = match prepared.args.arrival {
        ArrivalArg::Constant => Arrivals::Constant { rate },
        ArrivalArg::Poisson => Arrivals::Poisson { rate },
    };
    let step = dyno_archive::plan::Step { arrivals, ..prepared.spec.step.clone() };
    let seed = prepared.spec.seed.wrapping_add(number as u64);
    let load = Load { duration_ns, ..prepared.spec.load.clone() };
    let spec = LoadSpec { step, seed, load, ..prepared.spec.clone() };
    let config: LoadConfig = spec::config(&spec, &prepared.url, &prepared.workload);
    let mut watch = StopOnInterrupt(interrupts);
    let record = dyno_runner::load::run(&spec, &mut watch)?;
    let result = verdict::load(&record, config, &Context::default());
    let length_ns = spec.load.warmup_ns + duration_ns;
    let min_us = result.response_time_us.min;
    let has_responses = result.caveats.iter().all(|caveat| caveat.code != Code::NoCorrectResponse);
    if has_responses && min_us.is_none_or(|us| us * 1e3 < length_ns as f64) {
        return Ok((record, result));
    }
    match dyno_runner::load::request_once(&spec, &mut watch)? {
        SingleResponse::Missing => Err("the server stopped responding".into()),
        SingleResponse::NoLocalPort => Err(NO_LOCAL_PORT.into()),
        SingleResponse::Complete { response_ns: Some(ns) } if ns >= length_ns => Err(format!(
            "a single response takes {:.2} s, longer than a load, so loads show no rate. Make them \
             longer (-d).",
            ns as f64 / 1e9
        )),
        SingleResponse::Complete { .. } => Ok((record, result)),
    }
}

/// Prints a progress line.
fn print_trial(trial: &CapacityTrial) {
    terminal::say(&dyno_report::capacity::line(trial));
}

fn write(args: &LoadArgs, result: &CapacityResult) -> anyhow::Result<()> {
    let output = args.output.as_deref();
    match args.format {
        LoadFormat::Json => {
            let json = serde_json::to_string_pretty(result)? + "\n";
            crate::cmd::report::write_out(
                output,
                &crate::cmd::report::escape_for_terminal(output, &json),
            )
        }
        LoadFormat::Text | LoadFormat::Csv => {
            crate::cmd::report::write_out(output, &dyno_report::capacity::text(result))
        }
    }
}

/// Ends a load when the user interrupts it.
struct StopOnInterrupt<'a>(&'a Interrupts);

impl Watch for StopOnInterrupt<'_> {
    fn stop(&mut self) -> Option<LoadStopReason> {
        (self.0.count() > 0).then_some(LoadStopReason::Stopped)
    }
}
