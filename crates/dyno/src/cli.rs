//! Defines the command line. Options have the names that are common in other load generators: `-c`,
//! `-d`, `-t`, `-n`, `-r`.

mod compare;
#[cfg(test)]
mod documented;
mod examples;
mod load;
mod profile;
mod report;
mod settings;
pub mod usage_error;
mod values;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use dyno_model::plan::DriverKind;
use dyno_report::{Format, TEXT_OR_JSON};
use dyno_responder::Writes;
use dyno_suite::observe::ProbeChoice;

use crate::habits;
pub use compare::{CompareArgs, Undecided};
pub use load::LoadArgs;
pub use profile::ProfileArgs;
pub use report::ReportArgs;
use report::format_in;
use settings::driver_parser;
pub use values::Ns;
use values::{Choice, budget, choice, quiet_wait, timeout, whole_number};
pub use watch::WatchArgs;

const ABOUT: &str = "Benchmark HTTP servers and explain the results: dyno builds and starts \
                     servers, checks their responses, load-tests them, measures what a request \
                     costs, and names what limited the throughput under each load.";

#[derive(Debug, Parser)]
#[command(
    name = "dyno",
    version,
    about = ABOUT,
    after_help = examples::ROOT,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses the command line. `Err`: the message to print, with its exit status.
    pub fn read(words: &[OsString]) -> Result<Cli, clap::Error> {
        let mut command = Cli::command();
        command.build();
        let load_command = |command: &mut clap::Command| {
            command.find_subcommand("load").cloned().unwrap_or_default()
        };
        if let Some(hint) = habits::single_dash_hint(words, &load_command(&mut command)) {
            return Err(load_command(&mut command).error(ErrorKind::UnknownArgument, hint));
        }
        let matches = command.try_get_matches_from_mut(words).map_err(|error| {
            let is_load = words.get(1).is_some_and(|word| word == "load");
            if !is_load {
                return error;
            }
            let mut load = load_command(&mut command);
            match habits::hint(&error, &load) {
                Some(hint) => load.error(error.kind(), hint),
                None => error,
            }
        })?;
        refuse_subjects_with_resume(&mut command, &matches)?;
        refuse_measurement_options(&mut command, &matches)?;
        Cli::from_arg_matches(&matches)
    }
}

/// Refuses `--subjects` with `--resume`, because the archive names the folder. A folder from the
/// environment is ignored, because the user may have set it for other runs.
fn refuse_subjects_with_resume(
    command: &mut clap::Command,
    matches: &clap::ArgMatches,
) -> Result<(), clap::Error> {
    let Some(("run", run)) = matches.subcommand() else { return Ok(()) };
    if run.contains_id("resume") && run.value_source("folders") == Some(ValueSource::CommandLine) {
        return Err(command.error(
            ErrorKind::ArgumentConflict,
            "--subjects: cannot be used with --resume, because a resumed run keeps its \
             subjects\nhint: remove --subjects",
        ));
    }
    Ok(())
}

/// Refuses options for measurements when existing runs are compared.
fn refuse_measurement_options(
    command: &mut clap::Command,
    matches: &clap::ArgMatches,
) -> Result<(), clap::Error> {
    let Some(("compare", compare)) = matches.subcommand() else { return Ok(()) };
    let is_given = |name: &&&str| compare.value_source(name) == Some(ValueSource::CommandLine);
    match compare::REVISION_OPTIONS.iter().find(is_given) {
        Some(name) if !compare.contains_id("rev") => {
            let name = if *name == "folders" { "subjects" } else { name };
            let message = format!(
                "--{name}: needs --rev, because without --rev nothing is measured\nhint: remove \
                 --{name}, or compare two revisions with --rev"
            );
            Err(command.error(ErrorKind::ArgumentConflict, message))
        }
        _ => Ok(()),
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure the servers of a suite file and write a report.
    Run(RunArgs),
    /// Load one URL.
    Load(Box<LoadArgs>),
    /// Show what a suite would do and how long it would take.
    Plan(PlanArgs),
    /// Write the report of a run again.
    Report(ReportArgs),
    /// Compare two runs, or two servers of one run; can fail CI on a regression.
    Compare(Box<CompareArgs>),
    /// Observe a running server.
    Watch(WatchArgs),
    /// Export stack profiles of a run's servers, or compare two profiles.
    Profile(ProfileArgs),
    /// List, build, check or import servers under test.
    Subjects(SubjectsArgs),
    /// Check what this machine can measure and how to fix what it can't.
    #[command(after_help = examples::DOCTOR)]
    Doctor(SubjectFolders),
    /// Explain a caveat, a limiter or an exit status; without a code, list them all.
    Explain(ExplainArgs),
    /// Measure the highest rates of the load generator here, and how late it sends.
    Calibrate(CalibrateArgs),
    /// A closed port: nothing listens on it. Suites start it themselves, as the subject
    /// `closed-port`.
    #[command(hide = true)]
    ServeClosed {
        #[arg(long)]
        port: u16,
    },
    /// The null responder: the smallest correct response. Suites start it themselves, as the
    /// subject `null`.
    #[command(hide = true)]
    ServeNull {
        #[arg(long)]
        port: u16,
        /// End when standard input is closed, which happens when the parent process ends.
        #[arg(long)]
        while_stdin: bool,
        /// Grouping of the writes of HTTP/2 responses.
        #[arg(long, value_parser = choice(WRITES), default_value = "batch")]
        write: Writes,
        /// Respond to every request with this text, instead of the responses of the hello contract.
        #[arg(long, env = "DYNO_NULL_ANSWER")]
        answer: Option<String>,
        /// Content-Type of --answer.
        #[arg(long, env = "DYNO_NULL_TYPE", default_value = "text/plain")]
        answer_type: String,
        /// Rounds of a loop per response, about a nanosecond each: they raise the cost of requests.
        #[arg(long, env = "DYNO_NULL_WORK", default_value_t = 0)]
        work: u32,
    },
}

#[derive(Debug, Args)]
#[command(after_help = examples::RUN)]
pub struct RunArgs {
    /// Suite file; not with --resume.
    #[arg(required_unless_present = "resume")]
    pub suite: Option<PathBuf>,
    /// Resume an interrupted run.
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = [
            "suite", "profile", "only", "repeats", "seed", "driver", "observe", "runs"
        ]
    )]
    pub resume: Option<PathBuf>,
    /// Resume even if subjects, machine or dyno have changed; the report marks both parts.
    #[arg(long, requires = "resume", conflicts_with = "suite")]
    pub anyway: bool,
    /// Wait up to TIME until other programs use less than 5 % of the CPUs for 3 s; else exit with
    /// 3.
    #[arg(long, value_name = "TIME", value_parser = quiet_wait)]
    pub wait_quiet: Option<Ns>,
    #[command(flatten)]
    pub choices: Choices,
    /// Folder for runs; each run gets a new folder in it.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub runs: PathBuf,
    #[command(flatten)]
    pub folder_options: FolderOptions,
}

/// Options that override a suite's values, for a run and for its plan.
#[derive(Debug, Args)]
pub struct Choices {
    /// Apply these profiles of the suite, separated by commas; later profiles win.
    ///
    /// A profile's values replace the suite's values. Default: the suite's profiles for machines
    /// like this one. `none` applies no profile.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub profile: Vec<String>,
    /// Use only these subjects: NAME or NAME/VARIANT, separated by commas [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Repeats: fresh starts of each subject, at least 1 [default: the suite's].
    #[arg(long, value_name = "N", value_parser = whole_number(1, u32::MAX))]
    pub repeats: Option<u32>,
    /// Seed of orders and random arrivals [default: the suite's, or a random one].
    ///
    /// The same seed gives the same plan. The seed is recorded.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// I/O backend [default: the suite's, else io_uring if available].
    #[arg(long, value_parser = driver_parser())]
    pub driver: Option<DriverKind>,
    // The help text is made from the list of probes.
    #[arg(
        long,
        value_name = "PROBES",
        value_parser = ProbeChoice::parse,
        help = dyno_suite::observe::help()
    )]
    pub observe: Option<ProbeChoice>,
}

#[derive(Debug, Args)]
pub struct FolderOptions {
    #[command(flatten)]
    pub subjects: SubjectFolders,
    /// Folder for builds [default: dyno in the user's cache folder].
    #[arg(long, value_name = "FOLDER", env = "DYNO_CACHE", global = true)]
    pub cache: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SubjectFolders {
    /// Folder with subjects; may be repeated.
    ///
    /// Subjects are searched for in three places. First: the folders of this option, or else of
    /// DYNO_SUBJECTS (separated by colons). Second: the first folder `subjects` next to the suite
    /// or above it. Third: the first folder `subjects` in the current folder or above it.
    #[arg(long = "subjects", value_name = "FOLDER", global = true)]
    pub folders: Vec<PathBuf>,
}

/// How the null responder writes HTTP/2 responses.
const WRITES: &[Choice<Writes>] = &[
    ("batch", "One write for all responses to the requests of one read", Writes::Batch),
    ("response", "One write per response, which has three frames", Writes::Response),
    ("frame", "One write per frame", Writes::Frame),
];

#[derive(Debug, Args)]
#[command(after_help = examples::PLAN)]
pub struct PlanArgs {
    /// The suite file.
    pub suite: PathBuf,
    #[command(flatten)]
    pub choices: Choices,
    /// Choose the repeats and load duration for the best precision within TIME, such as 30m.
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub budget: Option<Ns>,
    /// Earlier run that shows the variance [default: the suite's latest run in --runs].
    #[arg(long, value_name = "RUN")]
    pub pilot: Option<PathBuf>,
    /// Folder with the earlier runs.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub runs: PathBuf,
    /// Format of the plan.
    #[arg(long, value_parser = format_in(TEXT_OR_JSON), default_value = "text")]
    pub format: &'static Format<()>,
    #[command(flatten)]
    pub folder_options: FolderOptions,
}

#[derive(Debug, Args)]
#[command(after_help = examples::SUBJECTS)]
pub struct SubjectsArgs {
    #[command(subcommand)]
    pub command: Option<SubjectsCommand>,
    #[command(flatten)]
    pub folder_options: FolderOptions,
}

#[derive(Debug, Subcommand)]
pub enum SubjectsCommand {
    /// List subjects, with the reason if one cannot be built here.
    List {
        /// Names of subjects with all their variants, or NAME/VARIANT [default: all].
        names: Vec<String>,
    },
    /// Build subjects.
    Build {
        #[command(flatten)]
        selection: SubjectSelection,
    },
    /// Build and start subjects, and check their responses.
    Check {
        #[command(flatten)]
        selection: SubjectSelection,
    },
    /// Draft a subject.toml from another collection, and list the remaining work.
    Import(ImportArgs),
}

/// A collection of servers to import from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Collection {
    /// TechEmpower's FrameworkBenchmarks.
    Techempower,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Collection that the folder belongs to.
    pub collection: Collection,
    /// Folder of one server, such as frameworks/Go/fasthttp; subject.toml is written there.
    pub server: PathBuf,
    /// Name of a test in the server's benchmark_config.json.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub test: String,
    /// Replace an existing subject.toml.
    #[arg(long)]
    pub force: bool,
}

/// The subjects that a command is for.
#[derive(Debug, Args)]
pub struct SubjectSelection {
    /// Names of subjects with all their variants, or NAME/VARIANT [default: all].
    pub names: Vec<String>,
    /// Select all subjects, as without names.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// Exclude a subject with all its variants, or NAME/VARIANT; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub except: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = examples::EXPLAIN)]
pub struct ExplainArgs {
    /// Caveat, limiter or exit status, as named in reports or JSON [default: list all].
    pub code: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = examples::CALIBRATE)]
pub struct CalibrateArgs {
    /// Length of each of about twenty measurements, such as 500ms.
    #[arg(short, long, value_name = "TIME", default_value = "3s", value_parser = timeout)]
    pub duration: Ns,
    /// Measure the cost of each probe instead; takes two minutes.
    #[arg(long, conflicts_with_all = ["duration", "save"])]
    pub probes: bool,
    /// Run servers with known bottlenecks instead, and count correct verdicts; takes ten minutes.
    ///
    /// Runs about fifty servers at several loads, as root and as an ordinary user. Needs cargo and
    /// the source tree of dyno. Servers whose runtime is missing are listed as not run.
    #[arg(long, conflicts_with_all = ["duration", "save", "probes"])]
    pub verdicts: bool,
    /// Run only these servers, separated by commas [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "verdicts")]
    pub only: Vec<String>,
    /// Format of the result.
    #[arg(long, value_parser = format_in(TEXT_OR_JSON), default_value = "text")]
    pub format: &'static Format<()>,
    /// Write the result to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Save the loads in a new folder in FOLDER, for `dyno report`.
    #[arg(long, value_name = "FOLDER")]
    pub save: Option<PathBuf>,
    /// Folder for the measured rates, which later loads show [default: dyno in the user's cache
    /// folder].
    #[arg(long, value_name = "FOLDER", env = "DYNO_CACHE")]
    pub cache: Option<PathBuf>,
}
