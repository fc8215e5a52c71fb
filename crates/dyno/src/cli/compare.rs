//! The command line of `dyno compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dyno compare runs/before runs/after\n  dyno compare runs/hello-20260102-030405:nginx runs/hello-20260102-030405:h2o\n  dyno compare runs/before runs/after --fail-on 'cpu_us_per_request>+3%,p99>+10%' --format junit -o compare.xml\n\nRatios are B ÷ A. Two subjects of one run are compared in pairs of repeats; of two runs each subject with that of the same name. A verdict takes five repeats of each. Runs that differ in more than their servers (machine, dyno, load, limits, services behind) are refused.\n\nExit status: 0 no gate is missed, 1 one is, 2 wrong usage, no run, or runs that differ, 141 nobody read it to its end."
)]
pub struct CompareArgs {
    /// Folder of a run, or RUN:SUBJECT.
    #[arg(value_name = "A")]
    pub a: String,
    /// What is set against it: folder of a run, or RUN:SUBJECT.
    #[arg(value_name = "B")]
    pub b: String,
    /// Fail on changes beyond these that are no chance, such as `cpu_us_per_request>+3%,p99>+10%,throughput<-2%`.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub fail_on: Option<String>,
    /// Call two values the same if the interval of their ratio lies within this, such as `2%`.
    #[arg(long, value_name = "SHARE")]
    pub same_within: Option<String>,
    /// Compare runs all the same that differ in more than their servers; every line says so.
    #[arg(long)]
    pub anyway: bool,
    /// For whom [default: text].
    #[arg(long, value_enum, default_value_t = CompareFormat::Text, hide_default_value = true)]
    pub format: CompareFormat,
    /// Write it here instead of to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// A table, for a terminal.
    Text,
    /// Markdown, for a pull request.
    Md,
    /// Everything, for programs.
    Json,
    /// XML as JUnit's, for CI: each gate is a test.
    Junit,
    /// A page of its own.
    Html,
}
