//! `dyno report RUN`, and the functions that write reports and results for other commands.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use dyno_analysis::Report;
use dyno_analysis::run_status::{RunCompleteness, RunStatus};
use dyno_archive::RunDir;
use dyno_report::Format;
use dyno_report::terminal::escape_controls;

use crate::cli::ReportArgs;
use crate::exit::Exit;
use crate::inputs::Inputs;
use crate::{result_file, terminal};

/// Writes the report of a run in one format, or in all.
pub fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let dir = super::open_run(&args.run)?;
    check_output(args.output.as_deref(), |inputs| inputs.add_run(dir.path()))?;
    let run = dir.read()?;
    let report = dyno_analysis::report::report(&run);
    match args.format {
        Some(format) => {
            let text = format.render(&report);
            write_out(args.output.as_deref(), &escape_for_terminal(args.output.as_deref(), &text))?;
        }
        None => {
            let paths = write_all(&dir, &report)?;
            show(&report, &paths)?;
        }
    }
    Ok(RunStatus::new(&report, RunCompleteness::new(&run, &report)).into())
}

/// Writes the report in every stored format into the folder of the run. The HTML page comes last,
/// because users open it.
pub fn write_all(dir: &RunDir, report: &Report) -> anyhow::Result<Vec<PathBuf>> {
    let stored = Format::ALL.iter().rev().filter(|format| format.is_stored);
    stored
        .map(|format| {
            let name = format!("report.{}", format.name);
            Ok(dir.write_bytes(&name, format.render(report).as_bytes())?)
        })
        .collect()
}

/// Prints the report as text, and the paths of its files.
pub fn show(report: &Report, paths: &[PathBuf]) -> anyhow::Result<()> {
    let text = if goes_to_terminal(None) {
        dyno_report::text::report(report, terminal::style())
    } else {
        // A file or a CI log is shared, so it must not have secrets.
        dyno_report::text::FORMAT.render(report)
    };
    let paths: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    terminal::print(&format!("{text}\n{paths}"))
}

/// Makes control characters of a text for programs visible if the text goes to a terminal, which
/// would interpret them. Text for people is already safe, and has colours.
pub fn escape_for_terminal<'a>(output: Option<&Path>, text: &'a str) -> Cow<'a, str> {
    if goes_to_terminal(output) { escape_controls(text) } else { Cow::Borrowed(text) }
}

/// Whether a result goes to a terminal instead of a file or another program.
pub fn goes_to_terminal(output: Option<&Path>) -> bool {
    is_standard_output(output) && std::io::IsTerminal::is_terminal(&std::io::stdout())
}

/// Whether a result goes to standard output: its file is not set, or is standard output.
pub fn is_standard_output(output: Option<&Path>) -> bool {
    output.is_none_or(result_file::is_standard_output)
}

/// Checks before any work that an output file can be written, and is not an input of the command.
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

/// Writes a file completely or not at all.
pub fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    result_file::write(path, bytes)
        .with_context(|| format!("{}: cannot be written", path.display()))
}
