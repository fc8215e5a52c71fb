//! The command line. Options have the names that other load generators give them: `-c`, `-d`, `-t`,
//! `-n`, `-r`.

mod compare;
#[cfg(test)]
mod documented;
mod load;
mod profile;
mod report;
mod values;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use dyno_responder::Writes;
use dyno_runner::observe::Choice;

use crate::habits;
pub use compare::{CompareArgs, CompareFormat, Undecided};
pub use load::{
    ArrivalArg, DriverArg, ImportArg, LoadArgs, LoadFormat, ProtocolArg, SpinArg, SwitchArg,
};
pub use profile::{ProfileArgs, ProfileFormat};
pub use report::{ReportArgs, ReportFormat};
pub use values::Ns;
use values::{budget, duration, timeout};
pub use watch::WatchArgs;

const ABOUT: &str = "Puts HTTP servers on a dynamometer: builds and starts them, proves that they \
                     answer right, loads them, watches what each request costs, and says what \
                     limited every step.";

#[derive(Debug, Parser)]
#[command(name = "dyno", version, about = ABOUT, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the command line. `Err`: what to print, with the status that goes with it.
    pub fn read(words: &[OsString]) -> Result<Cli, clap::Error> {
        let mut command = Cli::command();
        command.build();
        let load = |command: &mut clap::Command| {
            command.find_subcommand("load").cloned().unwrap_or_default()
        };
        if let Some(hint) = habits::one_dash(words, &load(&mut command)) {
            return Err(load(&mut command).error(ErrorKind::UnknownArgument, hint));
        }
        let matches = command.try_get_matches_from_mut(words).map_err(|error| {
            let is_load = words.get(1).is_some_and(|word| word == "load");
            let mut load = load(&mut command);
            match habits::hint(&error, &load).filter(|_| is_load) {
                Some(hint) => load.error(error.kind(), hint),
                None => error,
            }
        })?;
        refuse_subjects_of_a_resumed_run(&mut command, &matches)?;
        refuse_to_measure_runs(&mut command, &matches)?;
        Cli::from_arg_matches(&matches)
    }
}

/// Refuses `--subjects` with `--resume`: the folder is in the archive. One from the environment is
/// ignored, because it may be there for other runs.
fn refuse_subjects_of_a_resumed_run(
    command: &mut clap::Command,
    matches: &clap::ArgMatches,
) -> Result<(), clap::Error> {
    let Some(("run", run)) = matches.subcommand() else { return Ok(()) };
    if run.contains_id("resume") && run.value_source("folders") == Some(ValueSource::CommandLine) {
        return Err(command.error(
            ErrorKind::ArgumentConflict,
            "a run is resumed with the subjects that it began with; leave out --subjects",
        ));
    }
    Ok(())
}

/// Refuses options of measurements where runs are compared that are measured already.
fn refuse_to_measure_runs(
    command: &mut clap::Command,
    matches: &clap::ArgMatches,
) -> Result<(), clap::Error> {
    let Some(("compare", compare)) = matches.subcommand() else { return Ok(()) };
    let is_given = |name: &&&str| compare.value_source(name) == Some(ValueSource::CommandLine);
    match compare::OF_REVISIONS.iter().find(is_given) {
        Some(name) if !compare.contains_id("rev") => {
            let name = if *name == "folders" { "subjects" } else { name };
            let message = format!(
                "--{name} is for servers that are measured, with --rev; these runs are there"
            );
            Err(command.error(ErrorKind::ArgumentConflict, message))
        }
        _ => Ok(()),
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a suite: from a file to a report.
    Run(RunArgs),
    /// Load one URL.
    Load(Box<LoadArgs>),
    /// Show what a suite would do and how long it would take.
    Plan(PlanArgs),
    /// Make the report of a run again, from its archive.
    Report(ReportArgs),
    /// Compare two runs, or two servers of one run; can fail CI on a regression.
    Compare(Box<CompareArgs>),
    /// Observe a running server.
    Watch(WatchArgs),
    /// Export stack profiles of a run's servers, or compare two profiles.
    Profile(ProfileArgs),
    /// The servers under test.
    Subjects(SubjectsArgs),
    /// Check what this machine can measure and how to fix what it can't.
    #[command(
        after_help = "Example:\n  dyno doctor\n\nReports omit what is marked -- and name it as \
                      missing. The line below it says how to make it available.\n\nExit status: \
                      0 for any finding, 2 wrong usage, 141 the output pipe was closed."
    )]
    Doctor(SubjectsPlace),
    /// Explain a caveat, a limiter or an exit status; without a code, list them all.
    Explain(ExplainArgs),
    /// Measure this machine with controls: what the generator can reach, and how late it is.
    Calibrate(CalibrateArgs),
    /// A closed port: nothing listens on it. Suites start it themselves, as the subject
    /// `closed-port`.
    #[command(hide = true)]
    ServeClosed {
        #[arg(long)]
        port: u16,
    },
    /// The null responder: the smallest right answer. Suites start it themselves, as the subject
    /// `null`.
    #[command(hide = true)]
    ServeNull {
        #[arg(long)]
        port: u16,
        /// End when standard input is closed, and so with the process that started it.
        #[arg(long)]
        while_stdin: bool,
        /// How answers of HTTP/2 are handed to the kernel.
        #[arg(long, value_enum, default_value_t = WriteArg::Batch)]
        write: WriteArg,
        /// Answer everything with this, instead of the hello contract's answers.
        #[arg(long, env = "DYNO_NULL_ANSWER")]
        answer: Option<String>,
        /// The Content-Type of that.
        #[arg(long, env = "DYNO_NULL_TYPE", default_value = "text/plain")]
        answer_type: String,
        /// Rounds of a loop that each answer takes besides, about a nanosecond each: a server that
        /// is so much dearer, and nothing else.
        #[arg(long, env = "DYNO_NULL_WORK", default_value_t = 0)]
        work: u32,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dyno run suites/hello.toml\n  dyno run suites/hello.toml --only \
                  go-nethttp --repeats 5\n  dyno run --resume runs/hello-20260102-030405\n\nThe \
                  line of a step names its limiter and its gravest caveat; `dyno explain CODE` \
                  explains them.\n\nExit status: 0 the run is valid, 1 some of it is not, 2 wrong \
                  usage or a wrong suite, 3 the machine or a subject failed, or the run was ended \
                  early, 141 the output pipe was closed."
)]
pub struct RunArgs {
    /// The suite file; not with --resume.
    #[arg(required_unless_present = "resume")]
    pub suite: Option<PathBuf>,
    /// Go on with an interrupted run instead of beginning a new one.
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = [
            "suite", "profile", "only", "repeats", "seed", "driver", "observe", "runs"
        ]
    )]
    pub resume: Option<PathBuf>,
    /// Go on even if subjects, machine or dyno are not as they were; the report marks both halves.
    #[arg(long, requires = "resume", conflicts_with = "suite")]
    pub anyway: bool,
    /// Wait up to TIME for idle CPUs (others below 5 % for 3 s), or exit with status 3.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub wait_quiet: Option<Ns>,
    #[command(flatten)]
    pub choices: Choices,
    /// Folder in which runs are kept, each in a folder of its own.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub runs: PathBuf,
    #[command(flatten)]
    pub places: FolderOptions,
}

/// Changes of the command line to a suite, for a run and for its plan.
#[derive(Debug, Args)]
pub struct Choices {
    /// Profiles of the suite, whose values take the place of its others; several with commas, or
    /// given again, the later ones above the earlier; `none` for none of those that the suite has
    /// for such a machine as this one [default: those alone].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub profile: Vec<String>,
    /// Only these subjects of the suite, NAME or NAME/VARIANT; several with commas, or given again
    /// [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Fresh starts of each subject, at least 1 [default: the suite's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: Option<u32>,
    /// Decides orders and random arrivals; the same seed gives the same plan [default: the suite's,
    /// or drawn and recorded].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The load path's system calls [default: the suite's, or uring where the kernel has it].
    #[arg(long, value_enum)]
    pub driver: Option<DriverArg>,
    // Help text: made from the list of probes.
    #[arg(
        long,
        value_name = "PROBES",
        value_parser = Choice::parse,
        help = dyno_runner::observe::help()
    )]
    pub observe: Option<Choice>,
}

#[derive(Debug, Args)]
pub struct FolderOptions {
    #[command(flatten)]
    pub subjects: SubjectsPlace,
    /// Folder that keeps builds [default: dyno in the user's cache folder].
    #[arg(long, value_name = "FOLDER", env = "DYNO_CACHE", global = true)]
    pub cache: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SubjectsPlace {
    /// Folder of the subjects' definitions; may be given again. Subjects that are in none of those,
    /// nor in DYNO_SUBJECTS (folders with colons between), are looked for in the first folder
    /// `subjects` next to the suite or above it, and in the current folder or above it.
    #[arg(long = "subjects", value_name = "FOLDER", global = true)]
    pub folders: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WriteArg {
    /// All answers to what one read brought in one write.
    Batch,
    /// Each answer, of three frames, in a write of its own.
    Response,
    /// Each frame of those in a write of its own.
    Frame,
}

impl From<WriteArg> for Writes {
    fn from(arg: WriteArg) -> Writes {
        match arg {
            WriteArg::Batch => Writes::Batch,
            WriteArg::Response => Writes::Response,
            WriteArg::Frame => Writes::Frame,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dyno plan suites/hello.toml\n  dyno plan suites/hello.toml --only \
                  nginx --repeats 5\n  dyno plan suites/hello.toml --format json | jq .trials\n  \
                  dyno plan suites/two-percent.toml --budget 30m\n\nNothing is built or started. \
                  It takes what `dyno run` takes. With --budget it says which number of repeats \
                  and load duration detect the smallest difference in that time, by the variance \
                  of an earlier run of the suite, the pilot.\n\nExit status: 0 the plan is \
                  printed, 2 wrong usage or a wrong suite, 141 the output pipe was closed."
)]
pub struct PlanArgs {
    /// The suite file.
    pub suite: PathBuf,
    #[command(flatten)]
    pub choices: Choices,
    /// Time budget, such as 30m: plan the repeats and load duration that detect the smallest
    /// difference in it.
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub budget: Option<Ns>,
    /// The run that shows what varies [default: the latest of the suite in --runs].
    #[arg(long, value_name = "RUN")]
    pub pilot: Option<PathBuf>,
    /// Folder in which the pilot is looked for.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub runs: PathBuf,
    /// Form of the plan.
    #[arg(long, value_enum, default_value = "text")]
    pub format: PlanFormat,
    #[command(flatten)]
    pub places: FolderOptions,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dyno subjects list\n  dyno subjects build rust-hyper\n  dyno \
                  subjects check nginx node-http\n  dyno subjects check --all --subjects \
                  my/subjects\n\ndocs/guides/your-server.md shows how to add one.\n\nExit status: \
                  0 all is well, 1 a check failed, 2 wrong usage or a wrong subject.toml, 3 the \
                  machine or a subject failed, or it was ended early, 141 the output pipe was \
                  closed."
)]
pub struct SubjectsArgs {
    #[command(subcommand)]
    pub command: Option<SubjectsCommand>,
    #[command(flatten)]
    pub places: FolderOptions,
}

#[derive(Debug, Subcommand)]
pub enum SubjectsCommand {
    /// List the subjects, and why any cannot be built here.
    List {
        /// Names of subjects with all their variants, or NAME/VARIANT [default: all].
        names: Vec<String>,
    },
    /// Build them.
    Build {
        #[command(flatten)]
        which: SubjectSelection,
    },
    /// Build and start them, and check that they answer right.
    Check {
        #[command(flatten)]
        which: SubjectSelection,
    },
    /// Write the facts of a server of another collection to subject.toml, and list the rest.
    Import(ImportArgs),
}

/// From which collection of servers one is imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Collection {
    /// TechEmpower's FrameworkBenchmarks.
    Techempower,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The collection that the folder is of.
    pub collection: Collection,
    /// Folder of one server, such as frameworks/Go/fasthttp; subject.toml is written there.
    pub server: PathBuf,
    /// One of the ways in which its benchmark_config.json says that it can be run.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub test: String,
    /// Replace a subject.toml that is there.
    #[arg(long)]
    pub force: bool,
}

/// The subjects that a command is for.
#[derive(Debug, Args)]
pub struct SubjectSelection {
    /// Names of subjects with all their variants, or NAME/VARIANT [default: all].
    pub names: Vec<String>,
    /// All of them, as without names.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// Leave this one out: a subject with all its variants, or NAME/VARIANT. May be given several
    /// times.
    #[arg(long, value_name = "NAME")]
    pub except: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dyno explain\n  dyno explain still_warming\n  dyno explain server \
                  cpu\n  dyno explain 3\n\nCase, hyphens and underscores do not matter.\n\nExit \
                  status: 0 the explanation is printed, 2 the code is unknown, 141 the output \
                  pipe was closed."
)]
pub struct ExplainArgs {
    /// The code, as JSON or a report names it: a caveat, a limiter or an exit status [default: list
    /// all].
    pub code: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  dyno calibrate\n  dyno calibrate --format json -o \
                        calibration.json\n  dyno calibrate --verdicts --only \
                        lock-sleep,wait-condition\n\n`dyno load` quotes the ceilings that are \
                        measured here.\n\nExit status: 0 it is measured and kept, 1 a verdict with \
                        high confidence is wrong (--verdicts), 2 wrong usage, 3 the machine \
                        failed, or it was ended early; no ceilings are kept then.")]
pub struct CalibrateArgs {
    /// Length of each measurement, such as 500ms; there are some twenty.
    #[arg(short, long, value_name = "TIME", default_value = "3s", value_parser = timeout)]
    pub duration: Ns,
    /// Instead of all that: what the probes that look into servers cost, each by itself; takes two
    /// minutes.
    #[arg(long, conflicts_with_all = ["duration", "save"])]
    pub probes: bool,
    /// Run servers with known bottlenecks and judge what dyno says limits them.
    ///
    /// Instead of all that: runs some fifty servers at several loads, as root also as an ordinary
    /// user, and prints how often the verdicts are right. Takes ten minutes, and needs cargo and
    /// the source tree of dyno. Servers whose runtime is missing are listed as not run.
    #[arg(long, conflicts_with_all = ["duration", "save", "probes"])]
    pub verdicts: bool,
    /// Run only these servers; several with commas [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "verdicts")]
    pub only: Vec<String>,
    /// Form of the result.
    #[arg(long, value_enum, default_value = "text")]
    pub format: PlanFormat,
    /// Write the result here instead of to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep the loads as a run keeps its trials, in a new folder in this one: `dyno report` makes
    /// every form of it.
    #[arg(long, value_name = "FOLDER")]
    pub save: Option<PathBuf>,
    /// Folder in which the ceilings are kept for later loads [default: dyno in the user's cache
    /// folder].
    #[arg(long, value_name = "FOLDER", env = "DYNO_CACHE")]
    pub cache: Option<PathBuf>,
}
