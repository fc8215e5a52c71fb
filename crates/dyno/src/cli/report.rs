//! The command line of `dyno report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  dyno report runs/hello-20260102-030405\n  dyno report \
                        runs/hello-20260102-030405 --format csv -o trials.csv\n\nExit status: that \
                        of the run: 0 it is valid, 1 some of it is not, 3 the machine or a subject \
                        failed, or it was ended early; 2 wrong usage or no run, 141 the \
                        output pipe was closed.")]
pub struct ReportArgs {
    /// Folder of the run.
    pub run: PathBuf,
    /// One form, to standard output [default: all of them, into the run's folder].
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write the one form here.
    #[arg(short, long, value_name = "FILE", requires = "format")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Html,
    Text,
    Md,
    Csv,
    Json,
}
