//! The command line of `dyno compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dyno_report::compare::{ComparisonFormat, FORMATS};

use super::report::format_in;
use super::{Choices, FolderOptions};

#[derive(Debug, Args)]
#[command(after_help = super::examples::COMPARE)]
pub struct CompareArgs {
    /// Run folder, or RUN:SUBJECT; with --rev the suite file.
    #[arg(value_name = "A")]
    pub a: String,
    /// The run to compare with A, or RUN:SUBJECT; not with --rev.
    #[arg(value_name = "B", required_unless_present = "rev", conflicts_with = "rev")]
    pub b: Option<String>,
    /// Measure the suite's server in this Git revision; give --rev twice to compare two.
    ///
    /// Without a second --rev the other side is the work tree.
    #[arg(long, value_name = "REVISION")]
    pub rev: Vec<String>,
    /// Gates: fail on significant changes, such as `p99>+10%,throughput<-2%`.
    ///
    /// The metrics are those of the comparison, for example `cpu_us_per_request>+3%`.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub fail_on: Option<String>,
    /// Result if a gate is undecided and none is missed [default: fail].
    ///
    /// A gate is undecided if there are too few repeats to decide it, or if repeats of either side
    /// are excluded: invalid, crashed, not started, or without a record.
    #[arg(long, value_enum, default_value_t = Undecided::Fail, hide_default_value = true)]
    pub undecided: Undecided,
    /// Treat values as equal if the interval of their ratio lies within SHARE, such as `2%`.
    #[arg(long, value_name = "SHARE")]
    pub same_within: Option<String>,
    /// Compare runs even if they differ in more than their servers; every line says so.
    ///
    /// With --rev: measure revisions that have the same server.
    #[arg(long)]
    pub anyway: bool,
    /// Format of the result [default: text].
    #[arg(
        long,
        value_parser = format_in(FORMATS),
        default_value = "text",
        hide_default_value = true
    )]
    pub format: &'static ComparisonFormat,
    /// Write the result to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub revision_options: RevisionOptions,
}

/// How revisions are measured.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --rev")]
pub struct RevisionOptions {
    #[command(flatten)]
    pub choices: Choices,
    /// Folder for runs; each run gets a new folder in it.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub runs: PathBuf,
    #[command(flatten)]
    pub folder_options: FolderOptions,
}

/// Names of the options that apply only to revisions.
pub(super) const REVISION_OPTIONS: [&str; 8] =
    ["profile", "only", "repeats", "seed", "driver", "observe", "runs", "folders"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Undecided {
    /// Exit with 3; an error in JUnit's XML.
    Fail,
    /// Exit with 0; skipped in JUnit's XML.
    Pass,
}
