//! The command line of `dyno report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = super::examples::REPORT)]
pub struct ReportArgs {
    /// Run folder.
    pub run: PathBuf,
    /// Write one format to standard output [default: all, into the run folder].
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write the one format to this file.
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
