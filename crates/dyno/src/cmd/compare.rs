//! `dyno compare A B`, and `dyno compare --rev A --rev B SUITE`.

mod revisions;

use std::path::{Path, PathBuf};

use dyno_analysis::Report;
use dyno_analysis::compare::{
    ComparisonOptions, ComparisonResult, Gate, GateOutcome, OnUndecided, Side, compare,
};
use dyno_model::run::Run;
use dyno_report::present::style::Style;
use dyno_report::redact;

use super::report::{check_output, escape_for_terminal, goes_to_terminal, write_out};
use crate::cli::{CompareArgs, Undecided};
use crate::exit::{Exit, usage_error};
use crate::terminal;

/// Compares two runs, or two revisions (`--rev`), and writes the result.
pub fn run(args: &CompareArgs) -> anyhow::Result<Exit> {
    let options = ComparisonOptions {
        gates: args
            .fail_on
            .as_deref()
            .map(Gate::parse)
            .transpose()
            .map_err(usage_error)?
            .unwrap_or_default(),
        same_within: args.same_within.as_deref().map(parse_margin).transpose()?,
        on_undecided: match args.undecided {
            Undecided::Fail => OnUndecided::Fail,
            Undecided::Pass => OnUndecided::Pass,
        },
    };
    let Some(b_path) = &args.b else { return revisions::run(args, &options) };
    let (a, b) = (NamedSide::read(&args.a)?, NamedSide::read(b_path)?);
    check_output(args.output.as_deref(), |inputs| {
        [&a, &b].into_iter().for_each(|side| inputs.add_run(&side.folder));
    })?;
    if is_same_side(&a, &b) {
        return Err(usage_error(format!(
            "{} and {}: are the same, but a comparison needs two runs or two subjects\nhint: name \
             two subjects of the run, such as {}:{}",
            args.a, b_path, a.run.header.id, a.run.header.plan.arms[0].name
        )));
    }
    let common = a.side().common_trials(b.side());
    // Two subjects of one run share no measurements.
    if common > 0 {
        return Err(usage_error(format!(
            "{} and {}: are copies of one run and have {common} measurements in common, so a \
             comparison would show a smaller difference\nhint: compare two separate runs",
            args.a, b_path
        )));
    }
    let compared = compare(a.side(), b.side(), &options);
    check((&args.a, b_path), args.anyway, &compared)?;
    if !options.gates.is_empty() && compared.gates.is_empty() {
        return Err(usage_error(
            "--fail-on: cannot be used here, because the two sides have only controls (reference \
             servers of dyno) in common\nhint: name a subject for each side, as RUN:SUBJECT",
        ));
    }
    write(args, &compared, [&a.report, &b.report])?;
    Ok(exit(&compared))
}

/// Whether a comparison would compare a subject with itself.
fn is_same_side(a: &NamedSide, b: &NamedSide) -> bool {
    if a.run.header != b.run.header {
        return false;
    }
    match (a.arm, b.arm) {
        (Some(a), Some(b)) => a == b,
        // A side without a subject is the whole run, which includes the subject of the other side.
        _ => true,
    }
}

/// Returns the exit status of a comparison. Undecided gates are reported on standard error, which
/// CI shows.
fn exit(compared: &ComparisonResult) -> Exit {
    match compared.outcome() {
        GateOutcome::Passed => Exit::Valid,
        GateOutcome::Missed => Exit::Invalid,
        GateOutcome::Undecided => {
            terminal::say(&format!(
                "dyno compare: {} of {} gates (conditions of --fail-on) are undecided\nhint: \
                 measure more repeats, or accept undecided gates with `--undecided pass`",
                compared.undecided,
                compared.gates.len()
            ));
            Exit::Failed
        }
    }
}

/// Writes a comparison in the requested format. Secrets of the runs are replaced, except in text on
/// a terminal.
fn write(
    args: &CompareArgs,
    compared: &ComparisonResult,
    reports: [&Report; 2],
) -> anyhow::Result<()> {
    let output = args.output.as_deref();
    if args.format.is_text() && goes_to_terminal(output) {
        return terminal::print_text(&args.format.render(compared, terminal::style()));
    }
    let text = args.format.render(&redact::comparison(compared, reports), Style::Plain);
    write_out(output, &escape_for_terminal(output, &text))
}

/// Refuses a comparison without common steps, or of runs that differ in more than their servers.
fn check((a, b): (&str, &str), anyway: bool, compared: &ComparisonResult) -> anyhow::Result<()> {
    if compared.rows.is_empty() {
        return Err(usage_error(format!(
            "{a} and {b}: cannot be compared, because no subject was measured under the same name \
             and with the same load in both\nhint: name a subject for each side, as RUN:SUBJECT"
        )));
    }
    if anyway || compared.differences.is_empty() {
        return Ok(());
    }
    let lines =
        compared.differences.iter().map(|difference| match (&difference.a, &difference.b) {
            (Some(a), Some(b)) => format!("  {}: {a} and {b}\n", difference.name),
            _ => format!("  {}\n", difference.name),
        });
    Err(usage_error(format!(
        "{a} and {b}: the runs differ in more than their servers:\n{}hint: measure both servers \
         under the same conditions, or compare the runs with --anyway",
        lines.collect::<String>()
    )))
}

/// A side that the command line names, with its report.
struct NamedSide {
    folder: PathBuf,
    run: Run,
    report: Report,
    arm: Option<usize>,
}

impl NamedSide {
    /// Reads `RUN` or `RUN:SUBJECT`.
    fn read(text: &str) -> anyhow::Result<NamedSide> {
        let (folder, subject) = split_side(text);
        let run = super::open_run(Path::new(folder))?.read()?;
        let arm = subject.map(|subject| arm(&run, folder, subject)).transpose()?;
        Ok(NamedSide {
            folder: folder.into(),
            report: dyno_analysis::report::report(&run),
            run,
            arm,
        })
    }

    fn side(&self) -> Side<'_> {
        Side { run: &self.run, results: self.report.results(), arm: self.arm }
    }
}

/// Splits `RUN` or `RUN:SUBJECT` into the folder of the run and the subject.
fn split_side(text: &str) -> (&str, Option<&str>) {
    if Path::new(text).exists() {
        return (text, None);
    }
    // Both names can have colons. The longest existing folder is the run. Without an existing
    // folder, an error names the text before the last colon.
    let colons = || text.rmatch_indices(':').map(|(index, _)| index);
    let is_run = |index: &usize| Path::new(&text[..*index]).is_dir();
    match colons().find(is_run).or_else(|| colons().next()) {
        Some(index) => (&text[..index], Some(&text[index + 1..])),
        None => (text, None),
    }
}

/// Returns the index of the arm with a name.
fn arm(run: &Run, folder: &str, subject: &str) -> anyhow::Result<usize> {
    let arms = &run.header.plan.arms;
    arms.iter().position(|arm| arm.name == subject).ok_or_else(|| {
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        usage_error(format!(
            "{folder}: has no subject {subject:?}\nhint: choose one of {}",
            names.join(", ")
        ))
    })
}

fn parse_margin(text: &str) -> anyhow::Result<f64> {
    dyno_config::units::share(text).map_err(|error| usage_error(format!("--same-within: {error}")))
}
