//! `dyno compare A B`, and `dyno compare --rev A --rev B SUITE`.

mod revisions;

use std::path::{Path, PathBuf};

use dyno_analysis::Report;
use dyno_analysis::compare::{
    ComparisonOptions, ComparisonResult, Gate, GateOutcome, OnUndecided, Side, compare,
};
use dyno_archive::dir::Run;
use dyno_report::compare::{ComparisonFormat, render, text};
use dyno_report::redact;
use dyno_report::text::Style;

use super::report::{check_output, escape_for_terminal, is_seen, write_out};
use crate::cli::{CompareArgs, CompareFormat, Undecided};
use crate::exit::{Exit, bad};
use crate::terminal;

pub fn run(args: &CompareArgs) -> anyhow::Result<Exit> {
    let asked = ComparisonOptions {
        gates: args
            .fail_on
            .as_deref()
            .map(Gate::parse)
            .transpose()
            .map_err(bad)?
            .unwrap_or_default(),
        same_within: args.same_within.as_deref().map(parse_margin).transpose()?,
        on_undecided: match args.undecided {
            Undecided::Fail => OnUndecided::Fail,
            Undecided::Pass => OnUndecided::Pass,
        },
    };
    let Some(other) = &args.b else { return revisions::run(args, &asked) };
    let (a, b) = (NamedSide::read(&args.a)?, NamedSide::read(other)?);
    check_output(args.output.as_deref(), |inputs| {
        [&a, &b].into_iter().for_each(|of| inputs.add_run(&of.folder));
    })?;
    if a.run.header == b.run.header
        && a.arm.is_none_or(|arm| b.arm.is_none_or(|other| arm == other))
    {
        return Err(bad(format!(
            "{} and {}: must be two runs or two subjects\nhint: name two subjects of the run, as \
             {}:{}",
            args.a, other, a.run.header.id, a.run.header.plan.arms[0].name
        )));
    }
    let compared = compare(a.side(), b.side(), &asked);
    check((&args.a, other), args.anyway, &compared)?;
    if !asked.gates.is_empty() && compared.gates.is_empty() {
        return Err(bad(
            "--fail-on: no subject to judge, because the two sides share only controls\nhint: name \
             the two sides, as RUN:SUBJECT",
        ));
    }
    write(args, &compared, [&a.report, &b.report])?;
    Ok(exit(&compared))
}

/// The exit status of a comparison. An undecided gate is named on standard error, where CI shows
/// it.
fn exit(compared: &ComparisonResult) -> Exit {
    match compared.outcome() {
        GateOutcome::Passed => Exit::Valid,
        GateOutcome::Missed => Exit::Invalid,
        GateOutcome::Undecided => {
            terminal::say(&format!(
                "dyno compare: {} of {} gates undecided\nhint: measure more repeats, or accept \
                 undecided gates with `--undecided pass`",
                compared.undecided,
                compared.gates.len()
            ));
            Exit::Failed
        }
    }
}

/// Writes a comparison in the requested format. Only a terminal shows the secrets of its runs.
fn write(
    args: &CompareArgs,
    compared: &ComparisonResult,
    reports: [&Report; 2],
) -> anyhow::Result<()> {
    let form = match args.format {
        CompareFormat::Text => None,
        CompareFormat::Md => Some(ComparisonFormat::Markdown),
        CompareFormat::Json => Some(ComparisonFormat::Json),
        CompareFormat::Junit => Some(ComparisonFormat::Junit),
        CompareFormat::Html => Some(ComparisonFormat::Html),
    };
    let output = args.output.as_deref();
    if form.is_none() && is_seen(output) {
        return terminal::print_text(&text(compared, terminal::style()));
    }
    let shared = redact::comparison(compared, reports);
    let written = form.map_or_else(|| text(&shared, Style::Plain), |form| render(&shared, form));
    write_out(output, &escape_for_terminal(output, &written))
}

/// Refuses a comparison without common steps, or of runs that differ in more than their servers.
fn check((a, b): (&str, &str), anyway: bool, compared: &ComparisonResult) -> anyhow::Result<()> {
    if compared.rows.is_empty() {
        return Err(bad(format!(
            "{a} and {b}: no subject of the same name has the same step, so nothing can be \
             compared\nhint: name the subjects, as RUN:SUBJECT"
        )));
    }
    if anyway || compared.differences.is_empty() {
        return Ok(());
    }
    let each = compared.differences.iter().map(|difference| match (&difference.a, &difference.b) {
        (Some(a), Some(b)) => format!("  {}: {a} and {b}\n", difference.what),
        _ => format!("  {}\n", difference.what),
    });
    Err(bad(format!(
        "{a} and {b}: the runs differ in more than their servers, which may explain their \
         results:\n{}hint: measure both under the same conditions, or add --anyway",
        each.collect::<String>()
    )))
}

/// A side as it is named on the command line, with its report.
struct NamedSide {
    folder: PathBuf,
    run: Run,
    report: Report,
    arm: Option<usize>,
}

impl NamedSide {
    /// Reads `RUN` or `RUN:SUBJECT`.
    fn read(text: &str) -> anyhow::Result<NamedSide> {
        // Both names may have colons. The longest existing folder is the run.
        let is_run = |at: &usize| Path::new(&text[..*at]).is_dir();
        let colons = || text.rmatch_indices(':').map(|(at, _)| at);
        let at = colons().find(is_run).or_else(|| colons().next());
        let named =
            at.map(|at| (&text[..at], &text[at + 1..])).filter(|_| !Path::new(text).exists());
        let (folder, subject) =
            named.map_or((text, None), |(folder, subject)| (folder, Some(subject)));
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
        Side { run: &self.run, report: &self.report, arm: self.arm }
    }
}

fn arm(run: &Run, folder: &str, subject: &str) -> anyhow::Result<usize> {
    let arms = &run.header.plan.arms;
    arms.iter().position(|arm| arm.name == subject).ok_or_else(|| {
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        bad(format!(
            "{folder}: has no subject {subject:?}\nhint: choose one of {}",
            names.join(", ")
        ))
    })
}

fn parse_margin(text: &str) -> anyhow::Result<f64> {
    dyno_workload::units::share(text).map_err(|why| bad(format!("--same-within: {why}")))
}
