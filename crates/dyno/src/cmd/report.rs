//! `dyno report RUN`, and the writing of reports for `dyno run`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use dyno_analysis::Report;
use dyno_archive::dir::Run;
use dyno_archive::start::FailureKind;
use dyno_archive::{RunDir, TrialRecord};
use dyno_report::Format;
use dyno_report::terminal::escape_controls;
use dyno_runner::run::search;

use crate::cli::{ReportArgs, ReportFormat};
use crate::exit::Exit;
use crate::inputs::Inputs;
use crate::{result_file, terminal};

pub fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let dir = super::open_run(&args.run)?;
    check_output(args.output.as_deref(), |inputs| inputs.add_run(dir.path()))?;
    let run = dir.read()?;
    let report = dyno_analysis::report::report(&run);
    match args.format {
        Some(form) => {
            let text = dyno_report::render(&report, format(form));
            write_out(args.output.as_deref(), &escape_for_terminal(args.output.as_deref(), &text))?;
        }
        None => {
            let paths = write_all(&dir, &report)?;
            show(&report, &paths)?;
        }
    }
    Ok(exit(&report, completeness(&run, &report)))
}

fn format(form: ReportFormat) -> Format {
    match form {
        ReportFormat::Html => Format::Html,
        ReportFormat::Text => Format::Text,
        ReportFormat::Md => Format::Markdown,
        ReportFormat::Csv => Format::Csv,
        ReportFormat::Json => Format::Json,
    }
}

/// Writes every form into the run's folder; the page comes last, as the one to open.
pub fn write_all(dir: &RunDir, report: &Report) -> anyhow::Result<Vec<PathBuf>> {
    let forms = [Format::Json, Format::Markdown, Format::Csv, Format::Html];
    forms
        .into_iter()
        .map(|form| {
            let name = format!("report.{}", form.name());
            Ok(dir.write_bytes(&name, dyno_report::render(report, form).as_bytes())?)
        })
        .collect()
}

/// Prints the report as text, and the paths of its files.
pub fn show(report: &Report, paths: &[PathBuf]) -> anyhow::Result<()> {
    let text = if is_seen(None) {
        dyno_report::text::report(report, terminal::style())
    } else {
        // A file or a log of CI is shared like any other form.
        dyno_report::render(report, Format::Text)
    };
    let paths: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    terminal::print(&format!("{text}\n{paths}"))
}

/// Whether a run did all that was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunCompleteness {
    /// All of it, except subjects that were skipped because this machine lacks something.
    Done,
    Missing,
}

pub fn completeness(run: &Run, report: &Report) -> RunCompleteness {
    let plan = &run.header.plan;
    if search::is_missing(run) {
        return RunCompleteness::Missing;
    }
    if report.run.answered_after.is_some() {
        return RunCompleteness::Done;
    }
    let is_whole = |record: &&TrialRecord| !was_cut(run, record);
    let done: BTreeSet<usize> =
        run.trials.iter().filter(is_whole).map(|record| record.trial).collect();
    let takes_part = |launch: usize| {
        plan.arms_of(launch).all(|arm| plan.subjects[arm.subject].skipped.is_none())
    };
    let mut wanted = plan.trials.iter().enumerate().filter(|(_, trial)| takes_part(trial.launch));
    let is_built = plan.backends.iter().all(|backend| backend.build_failed.is_none());
    if is_built && wanted.all(|(i, _)| done.contains(&i)) {
        RunCompleteness::Done
    } else {
        RunCompleteness::Missing
    }
}

/// Whether the user interrupted a trial. Only loads without a suite (`--save`) keep such trials.
fn was_cut(run: &Run, record: &TrialRecord) -> bool {
    let start = run.starts.iter().find(|start| start.start == record.start);
    let failure = start.and_then(|start| start.failure.as_ref());
    record.load.cut_short && failure.is_some_and(|failure| failure.kind == FailureKind::Interrupted)
}

/// The exit status of a run, and of every report that is made of it.
pub fn exit(report: &Report, work: RunCompleteness) -> Exit {
    let failed = report.subjects.iter().any(|s| !s.failures.is_empty());
    if report.trials.is_empty() || failed || work == RunCompleteness::Missing {
        Exit::Failed
    } else if report.run.trials_invalid == 0 {
        Exit::Valid
    } else {
        Exit::Invalid
    }
}

/// Makes control characters of a form for programs visible if it goes to a terminal, which would
/// obey them. Text for people is already safe, and has colours.
pub fn escape_for_terminal<'a>(output: Option<&Path>, text: &'a str) -> Cow<'a, str> {
    if is_seen(output) { escape_controls(text) } else { Cow::Borrowed(text) }
}

/// Whether a result goes to a terminal, and not to a file or another program.
pub fn is_seen(output: Option<&Path>) -> bool {
    is_standard_output(output) && std::io::IsTerminal::is_terminal(&std::io::stdout())
}

/// Whether a result goes to standard output: no file is named for it, or `-`.
pub fn is_standard_output(output: Option<&Path>) -> bool {
    output.is_none_or(|path| path == Path::new("-"))
}

/// Checks before anything is done that an output file can be written, and is no input of the
/// command.
pub fn check_output(output: Option<&Path>, add: impl FnOnce(&mut Inputs)) -> anyhow::Result<()> {
    let Some(output) = output.filter(|path| !is_standard_output(Some(path))) else { return Ok(()) };
    let mut inputs = Inputs::default();
    add(&mut inputs);
    inputs.check(output).map(drop)
}

/// Writes a text to a file, or to standard output.
pub fn write_out(path: Option<&Path>, text: &str) -> anyhow::Result<()> {
    match path {
        Some(path) if !is_standard_output(Some(path)) => write_file(path, text.as_bytes()),
        _ => terminal::print(text),
    }
}

/// Writes a file, whole or not at all.
pub fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    result_file::write(path, bytes)
        .with_context(|| format!("{}: cannot be written", path.display()))
}
