//! `dyno load URL --find OBJECTIVE`: searches the highest rate that meets an objective.

use dyno_analysis::capacity::{self, CapacityResult, MIN_RPS};
use dyno_analysis::run_status::RunStatus;
use dyno_config::units;
use dyno_lab::rate_finder::{FinderEvent, RateFinder, RunningServer};
use dyno_launch::supervision::Interrupts;
use dyno_model::plan::Objective;
use dyno_suite::limits::SEARCH_WARMUP_NS;
use dyno_suite::settings::Warmup;
use dyno_suite::tracking;
use dyno_workload::rates::Rate;

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
    let result = search(&prepared, &objective, (start_rps, least_rps), &interrupts);
    let result = CapacityResult { import_changes, ..result };
    write(&prepared, &result)?;
    Ok(RunStatus::from_search(&result, interrupts.count() > 0).into())
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

/// Runs the search, and prints its progress. `start_rps`: the first rate. `least_rps`: the lowest
/// rate.
fn search(
    prepared: &PreparedLoad,
    objective: &Objective,
    (start_rps, least_rps): (f64, f64),
    interrupts: &Interrupts,
) -> CapacityResult {
    let finder = RateFinder {
        objective,
        spec: &prepared.spec,
        config: &|spec| spec::config(spec, &prepared.url, &prepared.workload),
        gaps: prepared.args.settings.gaps,
        start_rps,
        least_rps,
        width: prepared.args.width.unwrap_or(DEFAULT_WIDTH) / 100.0,
    };
    finder.find(&mut RunningServer(interrupts), &mut |event| match event {
        FinderEvent::Confirming { rate, seconds } => {
            terminal::say(&dyno_report::capacity::confirming(rate, seconds));
        }
        FinderEvent::Tried(trial) => terminal::say(&dyno_report::capacity::line(trial)),
    })
}

/// Default width of the bracket around the capacity, percent.
const DEFAULT_WIDTH: f64 = 2.0;

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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn arguments(words: &[&str]) -> LoadArgs {
        let words = ["dyno", "load", "http://h/"].iter().chain(words);
        let Command::Load(args) = Cli::parse_from(words).command else { panic!() };
        *args
    }

    #[test]
    fn search_with_options_of_one_load_is_refused() {
        let objective = capacity::parse_objective("mean<1ms", &units::duration).unwrap();
        let start = |words: &[&str]| {
            let words = [&["--find", "mean<1ms"], words].concat();
            start_rate(&arguments(&words), &objective, 0.5).map_err(|error| error.to_string())
        };
        for option in [&["-n", "100"][..], &["--save", "a"], &["--format", "csv"]] {
            let error = start(option).unwrap_err();
            assert!(error.starts_with(option[0]), "{error}");
            assert!(error.contains("cannot be used with --find"), "{error}");
        }
        let error = start(&["-r", "1k..5k"]).unwrap_err();
        assert!(error.contains("must be one number, the rate at which the search begins"));
        assert_eq!((start(&["-r", "5k"]), start(&[])), (Ok(5000.0), Ok(START_RPS)));
        let error = spec::refuse_contradictions(&arguments(&["--arrival", "poisson"]));
        assert!(error.unwrap_err().to_string().contains("add --rate or --find"));
    }

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
