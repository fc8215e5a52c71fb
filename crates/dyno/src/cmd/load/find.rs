//! `dyno load URL --find OBJECTIVE`: searches the highest rate that meets an objective.

use dyno_analysis::capacity::{self, CapacityResult};
use dyno_analysis::run_status::RunStatus;
use dyno_config::units;
use dyno_lab::rate_finder::{FinderEvent, RateFinder, RunningServer};
use dyno_launch::supervision::Interrupts;
use dyno_model::plan::Objective;
use dyno_report::json;
use dyno_suite::settings::search::{SearchRates, WIDTH};
use dyno_suite::tracking;

use super::{Preparation, PreparedLoad, spec};
use crate::cli::LoadArgs;
use crate::cmd::report::{escape_for_terminal, goes_to_terminal, write_out};
use crate::exit::{Exit, usage_error};
use crate::terminal;

/// Runs a search and writes its result.
pub fn run(mut args: LoadArgs, objective: &str, preparation: Preparation) -> anyhow::Result<Exit> {
    let objective = capacity::parse_objective(objective, &units::duration)
        .map_err(|error| usage_error(format!("--find: {error}")))?;
    refuse_options(&args)?;
    let SearchRates { start_rps, least_rps, note } =
        args.settings.resolve_search(&objective).map_err(usage_error)?;
    if let Some(note) = note {
        terminal::say(&note);
    }
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

/// Refuses options that have no effect on a search.
fn refuse_options(args: &LoadArgs) -> anyhow::Result<()> {
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
        ("--format csv", args.format.name == "csv"),
    ];
    match options.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => Err(usage_error(format!(
            "{option}: cannot be used with --find, because a search runs many loads\nhint: remove \
             {option} or --find"
        ))),
    }
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
        width: prepared.args.width.map_or(WIDTH, |percent| percent / 100.0),
    };
    finder.find(&mut RunningServer(interrupts), &mut |event| match event {
        FinderEvent::Confirming { rate, seconds } => {
            terminal::say(&dyno_report::capacity::confirming(rate, seconds));
        }
        FinderEvent::Tried(trial) => terminal::say(&dyno_report::capacity::line(trial)),
    })
}

fn write(prepared: &PreparedLoad, result: &CapacityResult) -> anyhow::Result<()> {
    let args = &prepared.args;
    let output = args.output.as_deref();
    if !args.format.is_text() {
        return write_out(output, &escape_for_terminal(output, &json::lines(result)));
    }
    let text = dyno_report::capacity::text(result);
    let text = terminal::redact_about(&prepared.plan(), &text, goes_to_terminal(output))?;
    write_out(output, &text)
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
        for option in [&["-n", "100"][..], &["--save", "a"], &["--format", "csv"]] {
            let error = refuse_options(&arguments(option)).unwrap_err().to_string();
            assert!(error.starts_with(option[0]), "{error}");
            assert!(error.contains("cannot be used with --find"), "{error}");
        }
        refuse_options(&arguments(&["-r", "5k"])).unwrap();
        let error = spec::refuse_contradictions(&arguments(&["--arrival", "poisson"]));
        assert!(error.unwrap_err().to_string().contains("add --rate or --find"));
    }
}
