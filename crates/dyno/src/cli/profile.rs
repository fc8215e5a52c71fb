//! The command line of `dyno profile`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  dyno profile runs/hello-20260102-030405\n  dyno profile \
                        runs/hello-20260102-030405 --trial 3 | less\n  dyno profile \
                        runs/hello-20260102-030405 --trial 3 --format pprof -o h2o.pb.gz\n  dyno \
                        profile runs/after --trial 3 --beside runs/before --format html -o \
                        difference.html\n\nA run has profiles where its suite says `profile = \
                        true` under [observe], or with `dyno run --observe \
                        default,profile`.\n\nExit status: 0 it is written, 2 wrong usage, no run, \
                        or no such profile, 141 the output pipe was closed.")]
pub struct ProfileArgs {
    /// Folder of the run. Without more, a list of its profiles.
    pub run: PathBuf,
    /// The trial after which it was taken, by its number in the list.
    #[arg(long, value_name = "N")]
    pub trial: Option<usize>,
    /// Stacks of waiting threads (off CPU) instead of running ones.
    #[arg(long)]
    pub off_cpu: bool,
    /// Compare with a profile of this run: of the trial of the same number, or of
    /// `--beside-trial`. Needs the format `html`, or `collapsed` for stacks with two counts.
    #[arg(long, value_name = "RUN")]
    pub beside: Option<PathBuf>,
    /// Compare with the profile of this trial, of the same run unless there is `--beside`.
    #[arg(long, value_name = "N")]
    pub beside_trial: Option<usize>,
    /// For which tool [default: collapsed].
    #[arg(long, value_enum)]
    pub format: Option<ProfileFormat>,
    /// Write it here instead of to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl ProfileArgs {
    /// Whether any option is about a single profile.
    pub fn asks_for_one(&self) -> bool {
        self.off_cpu
            || self.beside.is_some()
            || self.beside_trial.is_some()
            || self.format.is_some()
            || self.output.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileFormat {
    /// A line for each stack, as FlameGraph, inferno and speedscope read them.
    Collapsed,
    /// For `go tool pprof` and other readers of its format.
    Pprof,
    /// For speedscope.
    Speedscope,
    /// A flame graph on a page of its own.
    Html,
}
