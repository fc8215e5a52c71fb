//! `dyno report RUN`, and the writing of reports for `dyno run`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use dyno_analysis::Report;
use dyno_archive::RunDir;
use dyno_report::Format;
use dyno_report::terminal::shown;

use crate::cli::{ReportArgs, ReportFormat};
use crate::exit::Exit;
use crate::terminal;

pub fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let dir = RunDir::open(&args.run)?;
    let report = dyno_analysis::report::report(&dir.read()?);
    match args.format {
        Some(form) => {
            let text = dyno_report::render(&report, format(form));
            write_out(args.output.as_deref(), &for_reader(args.output.as_deref(), &text))?;
        }
        None => {
            let paths = write_all(&dir, &report)?;
            print!("{}", dyno_report::text::report(&report, terminal::style()));
            print_paths(&paths);
        }
    }
    Ok(if all_valid(&report) { Exit::Valid } else { Exit::Invalid })
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

pub fn print_paths(paths: &[PathBuf]) {
    println!();
    for path in paths {
        println!("{}", path.display());
    }
}

/// Whether every step is valid. A control that is bound by the generator does what it is there for.
pub fn all_valid(report: &Report) -> bool {
    let complete = report.run.trials_done == report.run.trials_planned;
    let skipped = report.subjects.iter().any(|s| s.skipped.is_some());
    report.run.trials_invalid == 0
        && (complete || skipped)
        && report.subjects.iter().all(|s| s.failures.is_empty())
}

/// A form for programs, or what is seen of it on a terminal, which would obey what others wrote into it. Text for people is
/// made for terminals, and has colours of its own.
pub fn for_reader<'a>(output: Option<&Path>, text: &'a str) -> Cow<'a, str> {
    let is_seen = output.is_none() && std::io::IsTerminal::is_terminal(&std::io::stdout());
    if is_seen { shown(text) } else { Cow::Borrowed(text) }
}

/// To a file, or to standard output.
pub fn write_out(path: Option<&Path>, text: &str) -> anyhow::Result<()> {
    match path {
        Some(path) => {
            std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
        }
        None => {
            print!("{text}");
            Ok(())
        }
    }
}
