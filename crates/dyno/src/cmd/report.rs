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
use dyno_report::terminal::shown;

use crate::cli::{ReportArgs, ReportFormat};
use crate::exit::Exit;
use crate::terminal;

pub fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let dir = RunDir::open(&args.run)?;
    let run = dir.read()?;
    let report = dyno_analysis::report::report(&run);
    match args.format {
        Some(form) => {
            let text = dyno_report::render(&report, format(form));
            write_out(args.output.as_deref(), &for_reader(args.output.as_deref(), &text))?;
        }
        None => {
            let paths = write_all(&dir, &report)?;
            show(&report, &paths)?;
        }
    }
    Ok(exit(&report, work_of(&run)))
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

/// The report for people, and where all of it is.
pub fn show(report: &Report, paths: &[PathBuf]) -> anyhow::Result<()> {
    let paths: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    terminal::print(&format!("{}\n{paths}", dyno_report::text::report(report, terminal::style())))
}

/// Whether a run did all that was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// All of it, but for subjects that could not take part here.
    Done,
    Missing,
}

pub fn work_of(run: &Run) -> Work {
    let plan = &run.header.plan;
    let is_whole = |record: &&TrialRecord| !was_cut(run, record);
    let done: BTreeSet<usize> = run.trials.iter().filter(is_whole).map(|record| record.trial).collect();
    let takes_part =
        |launch: usize| plan.arms_of(launch).all(|arm| plan.subjects[arm.subject].skipped.is_none());
    let mut wanted = plan.trials.iter().enumerate().filter(|(_, trial)| takes_part(trial.launch));
    if wanted.all(|(i, _)| done.contains(&i)) { Work::Done } else { Work::Missing }
}

/// Whether the user ended a trial that is kept all the same: that of a load without a suite.
fn was_cut(run: &Run, record: &TrialRecord) -> bool {
    let start = run.starts.iter().find(|start| start.start == record.start);
    let failure = start.and_then(|start| start.failure.as_ref());
    record.load.cut_short && failure.is_some_and(|failure| failure.kind == FailureKind::Interrupted)
}

/// The status of a run, and of its report however often that is made. A control that is bound by the generator does what
/// it is there for.
pub fn exit(report: &Report, work: Work) -> Exit {
    let failed = report.subjects.iter().any(|s| !s.failures.is_empty());
    if report.trials.is_empty() || failed || work == Work::Missing {
        Exit::Failed
    } else if report.run.trials_invalid == 0 {
        Exit::Valid
    } else {
        Exit::Invalid
    }
}

/// A form for programs, or what is seen of it on a terminal, which would obey what others wrote into it. Text for people is
/// made for terminals, and has colours of its own.
pub fn for_reader<'a>(output: Option<&Path>, text: &'a str) -> Cow<'a, str> {
    let is_seen = is_standard_output(output) && std::io::IsTerminal::is_terminal(&std::io::stdout());
    if is_seen { shown(text) } else { Cow::Borrowed(text) }
}

/// Whether a result goes there: no file is named for it, or `-`.
pub fn is_standard_output(output: Option<&Path>) -> bool {
    output.is_none_or(|path| path == Path::new("-"))
}

/// To a file, or to standard output.
pub fn write_out(path: Option<&Path>, text: &str) -> anyhow::Result<()> {
    match path {
        Some(path) if !is_standard_output(Some(path)) => {
            std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
        }
        _ => terminal::print(text),
    }
}
