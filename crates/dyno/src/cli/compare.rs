//! The command line of `dyno compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Choices, FolderOptions};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  dyno compare runs/before runs/after\n  dyno compare \
                        runs/hello-20260102-030405:nginx runs/hello-20260102-030405:h2o\n  dyno \
                        compare runs/before runs/after --fail-on 'cpu_us_per_request>+3%,p99>+10%' \
                        --format junit -o compare.xml\n  dyno compare --rev main --rev HEAD \
                        suite.toml\n\nRatios are B ÷ A. Two subjects of one run are compared in \
                        pairs of repeats; of two runs each subject with that of the same name. A \
                        verdict takes five repeats of each. Runs that differ in more than their \
                        servers (machine, dyno, load, limits, services behind) are \
                        refused.\n\nWith --rev the server of a suite is measured in two revisions \
                        of its Git repository: each is checked out in a work tree of its own, \
                        which is gone afterwards, and built; both are loaded in turn. The suite, \
                        its files and what stands behind the server are those that lie here. The \
                        run is kept.\n\nExit status: 0 every gate is held, 1 a gate is missed, or, \
                        with --rev, a revision answers wrong or has no valid step, 2 wrong usage, \
                        no run, or runs that differ, 3 a gate is undecided and none is missed (0 \
                        with --undecided pass), or, with --rev, the machine or the server failed, \
                        or it was ended early, 141 the output pipe was closed.")]
pub struct CompareArgs {
    /// Folder of a run, or RUN:SUBJECT; with --rev the suite file.
    #[arg(value_name = "A")]
    pub a: String,
    /// The run to compare with: folder of a run, or RUN:SUBJECT; not with --rev.
    #[arg(value_name = "B", required_unless_present = "rev", conflicts_with = "rev")]
    pub b: Option<String>,
    /// Measure the suite's server as it is in this revision, and in that of a second --rev, or,
    /// without one, as it lies in the work tree.
    #[arg(long, value_name = "REVISION")]
    pub rev: Vec<String>,
    /// Fail on significant changes beyond these limits, such as
    /// `cpu_us_per_request>+3%,p99>+10%,throughput<-2%`.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub fail_on: Option<String>,
    /// Fail or pass if a gate is undecided and none is missed [default: fail].
    ///
    /// A gate is undecided if there are too few repeats to decide it, or if repeats of either side
    /// do not count: invalid, crashed, not started, or without a record.
    #[arg(long, value_enum, default_value_t = Undecided::Fail, hide_default_value = true)]
    pub undecided: Undecided,
    /// Call two values the same if the interval of their ratio lies within this, such as `2%`.
    #[arg(long, value_name = "SHARE")]
    pub same_within: Option<String>,
    /// Compare runs all the same that differ in more than their servers; every line says so. With
    /// --rev: measure revisions that have the same server.
    #[arg(long)]
    pub anyway: bool,
    /// For whom [default: text].
    #[arg(long, value_enum, default_value_t = CompareFormat::Text, hide_default_value = true)]
    pub format: CompareFormat,
    /// Write it here instead of to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub measured: RevisionOptions,
}

/// How revisions are measured.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --rev")]
pub struct RevisionOptions {
    #[command(flatten)]
    pub choices: Choices,
    /// Folder in which runs are kept, each in a folder of its own.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub runs: PathBuf,
    #[command(flatten)]
    pub places: FolderOptions,
}

/// Names of the options that only revisions have.
pub(super) const OF_REVISIONS: [&str; 8] =
    ["profile", "only", "repeats", "seed", "driver", "observe", "runs", "folders"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Undecided {
    /// Exit with 3, unless a gate is missed; an error in JUnit's XML.
    Fail,
    /// Exit with 0, unless a gate is missed; skipped in JUnit's XML.
    Pass,
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
