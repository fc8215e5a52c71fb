//! The command line of `dyno profile`.

use std::path::PathBuf;

use clap::Args;
use dyno_report::profile::{FORMATS, ProfileFormat};

use super::report::format_in;

#[derive(Debug, Args)]
#[command(after_help = super::examples::PROFILE)]
pub struct ProfileArgs {
    /// Run folder; without other options, its profiles are listed.
    pub run: PathBuf,
    /// Number of the trial in the list.
    #[arg(long, value_name = "N")]
    pub trial: Option<usize>,
    /// Stacks of waiting threads (off CPU) instead of running threads.
    #[arg(long)]
    pub off_cpu: bool,
    /// Compare with a profile of this run; needs the format `html` or `collapsed`.
    ///
    /// The profile is that of the trial with the same number, or of `--beside-trial`. `collapsed`
    /// has two counts for each stack.
    #[arg(long, value_name = "RUN")]
    pub beside: Option<PathBuf>,
    /// Compare with this trial, of the same run or of `--beside`.
    #[arg(long, value_name = "N")]
    pub beside_trial: Option<usize>,
    /// Format, by tool [default: collapsed].
    #[arg(long, value_parser = format_in(FORMATS))]
    pub format: Option<&'static ProfileFormat>,
    /// Write the result to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl ProfileArgs {
    /// Returns the first given option that applies to a single profile. `None`: no such option.
    pub fn single_profile_option(&self) -> Option<&'static str> {
        let options = [
            ("--off-cpu", self.off_cpu),
            ("--beside", self.beside.is_some()),
            ("--beside-trial", self.beside_trial.is_some()),
            ("--format", self.format.is_some()),
            ("--output", self.output.is_some()),
        ];
        options.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }
}
