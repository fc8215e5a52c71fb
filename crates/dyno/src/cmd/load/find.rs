//! `dyno load URL --find OBJECTIVE`: searches the highest rate that meets an objective.

use std::sync::Arc;

use dyno_analysis::capacity::{
    self, CapacityResult, CapacitySearch, CapacityTrial, MIN_RPS, RateSearch, SearchStep, Width,
};
use dyno_analysis::drops::DropExplanation;
use dyno_analysis::load::LoadConfig;
use dyno_analysis::verdict::{self, Context};
use dyno_analysis::{Code, LoadResult};
use dyno_archive::LoadRecord;
use dyno_archive::plan::{Load, Objective};
use dyno_launch::supervision::Interrupts;
use dyno_runner::limits::SEARCH_WARMUP_NS;
use dyno_runner::load::{LoadSpec, LoadStopReason, SingleResponse, Watch};
use dyno_runner::settings::Warmup;
use dyno_runner::tracking;
use dyno_workload::units::{self, Profile};
use dyno_workload::workloads::Rate;

use super::{Preparation, PreparedLoad, spec};
use crate::cli::{LoadArgs, LoadFormat};
use crate::exit::{Exit, usage_error};
use crate::terminal;

/// Default length of each load of a search.
const DURATION_NS: u64 = 2_000_000_000;

/// Default rate at which a search begins, requests per second.
const START_RPS: f64 = 1000.0;

/// Runs a search and writes its result.
pub fn run(mut args: LoadArgs, objective: &str, preparation: Preparation) -> anyhow::Result<Exit> {
    let objective = capacity::parse_objective(objective, &units::duration)
        .map_err(|error| usage_error(format!("--find: {error}")))?;
    if !args.settings.has("duration") {
        args.settings.load.duration_ns = DURATION_NS;
    }
    let arrival = args.settings.arrival();
    let least_rps = capacity::least_rps(&objective, args.settings.load.duration_ns, arrival);
    let start_rps = start_rate(&args, &objective, least_rps)?;
    args.settings.rates = vec![Rate::Number(start_rps)];
    args.settings.warmup.get_or_insert(Warmup::Length(SEARCH_WARMUP_NS));
    let prepared = preparation.run(move || PreparedLoad::new(args))?;
    super::outputs::check_files(&prepared.args, &prepared.files)?;
    if let Some(note) = spec::note_on_threads(&prepared.args, &prepared.spec) {
        terminal::say(&note);
    }
    if let Some(note) = prepared.tracking_note(tracking::search_note) {
        terminal::say(&note);
    }
    prepared.preflight(&preparation)?;
    let interrupts = preparation.end()?;
    let import_changes = prepared.config.import_changes.clone();
    let result = search(&prepared, &objective, (start_rps, least_rps), &interrupts)?;
    let result = CapacityResult { import_changes, ..result };
    write(&prepared, &result)?;
    if interrupts.count() > 0 || result.ended.is_some() {
        return Ok(Exit::Failed);
    }
    let is_valid = result.kept_rps.is_some()
        && result.settled
        && result.confirmed
        && !result.limited_by_generator;
    Ok(if is_valid { Exit::Valid } else { Exit::Invalid })
}

/// Returns the rate to begin at. `least_rps`: the lowest rate at which a load has enough requests
/// for the objective's percentiles.
fn start_rate(args: &LoadArgs, objective: &Objective, least_rps: f64) -> anyhow::Result<f64> {
    let options = [
        ("-n", args.settings.has("requests")),
        ("--save", args.save.is_some()),
        ("--stream", args.stream.is_some()),
        ("--hgrm", args.hgrm.is_some()),
        ("--hlog", args.hlog.is_some()),
        ("--trace", args.trace.is_some()),
        ("--metrics", args.metrics.is_some()),
        ("--ramp-connections", args.settings.has("ramp_connections")),
        ("--resource", !args.resources.is_empty()),
        ("--format csv", args.format == LoadFormat::Csv),
    ];
    if let Some((option, _)) = options.into_iter().find(|(_, is_given)| *is_given) {
        return Err(usage_error(format!(
            "{option}: cannot be used with --find, because a search runs many loads\nhint: remove \
             {option} or --find"
        )));
    }
    let Some(rate) = args.settings.rates.first().map(ToString::to_string) else {
        return Ok(START_RPS.max(least_rps.ceil()));
    };
    let rate = units::count(&rate).map_err(|_| {
        usage_error(format!(
            "--rate {rate:?}: with --find, must be one number, the rate at which the search \
             begins\nhint: write it like 5k"
        ))
    })?;
    let start_rps = rate.max(least_rps.ceil()).max(MIN_RPS);
    if rate < least_rps.max(MIN_RPS) {
        terminal::say(&raised_rate_note(rate, start_rps, objective, least_rps));
    }
    Ok(start_rps)
}

/// Explains why a search begins at a higher rate than `--rate`, in requests per second.
fn raised_rate_note(rate: f64, start_rps: f64, objective: &Objective, least_rps: f64) -> String {
    let (problem, hint) = match capacity::percentile_bound(objective, least_rps) {
        Some(_) => (
            "gives too few requests for the percentiles of the objective",
            "make loads longer with -d",
        ),
        None => ("is below the lowest rate of a search", "use a higher rate"),
    };
    format!(
        "dyno load: --rate {rate}: {problem}, so the search begins at {start_rps:.0}/s\n\
         hint: {hint}"
    )
}

/// Runs loads until the search has found the rate, or has to end without it. `start_rps`: the first
/// rate. `least_rps`: the lowest rate.
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
        let mut duration_ns = prepared.spec.load.duration_ns;
        if confirms {
            duration_ns = capacity::confirmation_ns(duration_ns);
            terminal::say(&dyno_report::capacity::confirming(rate, duration_ns as f64 / 1e9));
        }
        if interrupts.count() > 0 {
            break Some(INTERRUPTED.into());
        }
        let attempt = SearchAttempt { rate, duration_ns, number: search.loads() };
        let outcome = run_load(prepared, &attempt, interrupts);
        // The result of an interrupted load is not used.
        if interrupts.count() > 0 {
            break Some(INTERRUPTED.into());
        }
        match outcome {
            Err(message) => break Some(message),
            Ok((record, result)) => print_trial(&search.take((rate, confirms), &record, result)),
        }
    };
    Ok(search.result(end_reason))
}

/// Reason why a search ends if the user interrupts it.
const INTERRUPTED: &str = "it was interrupted";

/// Default width of the bracket around the capacity, percent.
const DEFAULT_WIDTH: f64 = 2.0;

/// Reason why a search ends if connections cannot be made. The kernel keeps a port for a minute
/// after its connection was closed.
const NO_LOCAL_PORT: &str = "no local port was left to connect from (EADDRNOTAVAIL), so the loads \
                             show nothing about the server. Keep connections alive, connect from \
                             more addresses (--source), or widen net.ipv4.ip_local_port_range.";

/// One load of a search.
struct SearchAttempt {
    /// Requests per second.
    rate: f64,
    duration_ns: u64,
    /// Number of earlier loads of the search. It changes the seed, so that the random draws of the
    /// loads differ.
    number: usize,
}

/// Runs one load of a search. `Err`: the reason why the search must end, for the user.
///
/// A load without a correct response misses any objective. Such a load is a result of the search
/// only if the server responds to a single request after the load.
fn run_load(
    prepared: &PreparedLoad,
    attempt: &SearchAttempt,
    interrupts: &Interrupts,
) -> Result<(LoadRecord, LoadResult), String> {
    let &SearchAttempt { rate, duration_ns, number } = attempt;
    let arrivals = Profile::Constant(rate).arrivals(prepared.args.settings.gaps);
    let step = dyno_archive::plan::Step { arrivals, ..prepared.spec.step.clone() };
    let seed = prepared.spec.seed.wrapping_add(number as u64);
    let load = Load { duration_ns, ..prepared.spec.load.clone() };
    let spec = LoadSpec { step, seed, load, ..prepared.spec.clone() };
    let config: LoadConfig = spec::config(&spec, &prepared.url, &prepared.workload);
    let mut watch = StopOnInterrupt(interrupts);
    let record = dyno_runner::load::run(&spec, &mut watch)?;
    let result = verdict::load(&record, config, &Context::default());
    let length_ns = spec.load.warmup_ns + duration_ns;
    let has_responses =
        result.caveats.iter().all(|caveat| caveat.code != Code::NO_CORRECT_RESPONSE);
    let is_load_too_short =
        result.response_time_us.min.is_some_and(|min_us| min_us * 1e3 >= length_ns as f64);
    if has_responses && !is_load_too_short {
        return Ok((record, result));
    }
    // No response was correct, or the fastest response took longer than the whole load. A single
    // request shows why.
    match dyno_runner::load::request_once(&spec, &mut watch)? {
        SingleResponse::Missing => Err("the server stopped responding".into()),
        SingleResponse::NoLocalPort => Err(NO_LOCAL_PORT.into()),
        SingleResponse::Dropped(DropExplanation { causes, remedies }) => Err(format!(
            "the machine dropped packets ({causes}), so the loads show nothing about the server. \
             {remedies}"
        )),
        SingleResponse::Complete { response_ns: Some(ns) } if ns >= length_ns => Err(format!(
            "one response takes {:.2} s, which is longer than a load of the search, so no rate can \
             be measured. Make the loads longer (-d).",
            ns as f64 / 1e9
        )),
        SingleResponse::Complete { .. } => Ok((record, result)),
    }
}

/// Prints a progress line.
fn print_trial(trial: &CapacityTrial) {
    terminal::say(&dyno_report::capacity::line(trial));
}

fn write(prepared: &PreparedLoad, result: &CapacityResult) -> anyhow::Result<()> {
    let args = &prepared.args;
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
            let is_terminal = crate::cmd::report::goes_to_terminal(output);
            let text = dyno_report::capacity::text(result);
            let text = terminal::redact_about(&prepared.plan(), &text, is_terminal)?;
            crate::cmd::report::write_out(output, &text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_rate_note_names_percentiles_that_need_requests() {
        let objective = |text| capacity::parse_objective(text, &units::duration).unwrap();
        let note = raised_rate_note(0.5, 1000.0, &objective("p99<5ms"), 1000.0);
        assert!(note.contains("too few requests") && note.contains("hint: make loads longer"));
        let note = raised_rate_note(0.5, 1.0, &objective("mean<5ms"), 0.1);
        assert!(note.contains("below the lowest rate of a search, so the search begins at 1/s"));
        assert!(!note.contains("percentiles"), "{note}");
    }
}
