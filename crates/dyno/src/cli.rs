//! The command line. Habits of the field where there are any: `-c`, `-d`, `-t`, `-n`, `-r`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

const ABOUT: &str = "Puts HTTP servers on a dynamometer: builds and starts them, proves that they answer right, loads \
                     them, watches what each request costs, and says what limited every step.";

#[derive(Debug, Parser)]
#[command(name = "dyno", version, about = ABOUT, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
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
    /// The servers under test.
    Subjects(SubjectsArgs),
    /// What this machine can and cannot measure, and how to mend it.
    #[command(
        after_help = "Example:\n  dyno doctor\n\nWhat is marked -- is left out of reports and named there; the line below it says how to get it."
    )]
    Doctor,
    /// The null responder: the smallest right answer. Suites start it themselves, as the subject `null`.
    #[command(hide = true)]
    ServeNull {
        #[arg(long)]
        port: u16,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dyno run suites/hello.toml\n  dyno run suites/hello.toml --only go-nethttp --repeats 5\n  dyno run --resume runs/hello-20260102-030405\n\nExit status: 0 the run is valid, 1 some of it is not, 2 the suite is wrong, 3 the machine or a subject failed."
)]
pub struct RunArgs {
    /// The suite file; not with --resume.
    #[arg(required_unless_present = "resume")]
    pub suite: Option<PathBuf>,
    /// Go on with an interrupted run instead of beginning a new one.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["suite", "only", "repeats", "seed"])]
    pub resume: Option<PathBuf>,
    /// Run only these subjects of the suite.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Fresh starts of each subject, instead of the suite's.
    #[arg(long)]
    pub repeats: Option<u32>,
    /// Decides orders and random arrivals; the same seed gives the same plan.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The load path's system calls; io_uring where the kernel has it.
    #[arg(long, value_enum)]
    pub driver: Option<DriverArg>,
    /// Where runs are kept.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub runs: PathBuf,
    #[command(flatten)]
    pub places: Places,
}

#[derive(Debug, Args)]
pub struct Places {
    /// Folder of the subjects' definitions [default: `subjects` beside or above the suite, or here].
    #[arg(long, value_name = "FOLDER", env = "DYNO_SUBJECTS")]
    pub subjects: Option<PathBuf>,
    /// Folder that keeps builds [default: dyno in the user's cache folder].
    #[arg(long, value_name = "FOLDER", env = "DYNO_CACHE")]
    pub cache: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DriverArg {
    Uring,
    Epoll,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dyno load http://127.0.0.1:8080/plaintext                     64 connections for 10 s, closed loop\n  dyno load http://127.0.0.1:8080/ -c 256 -p 16 -d 15s          pipelined\n  dyno load http://127.0.0.1:8080/ -r 5k --arrival poisson      open loop: 5,000 requests/s at random times\n  dyno load http://127.0.0.1:8080/ -n 100k --format json        so many requests, result as JSON\n  dyno load http://127.0.0.1:8080/items -X POST -b '{}' -H 'Content-Type: application/json'\n\nExit status: 0 the result is valid, 1 it is not, 2 wrong usage, 3 the load could not begin."
)]
pub struct LoadArgs {
    /// What to load, such as http://127.0.0.1:8080/plaintext.
    pub url: String,
    /// Connections.
    #[arg(short, long, default_value = "64", value_parser = count)]
    pub connections: u64,
    /// Generator threads.
    #[arg(short, long, default_value_t = 1)]
    pub threads: u32,
    /// Length of the measured window [default: 10s, unless -n says when to end].
    #[arg(short, long, value_parser = duration)]
    pub duration: Option<Ns>,
    /// End after this many requests.
    #[arg(short = 'n', long, value_parser = count)]
    pub requests: Option<u64>,
    /// Offer so many requests per second on a schedule (open loop) instead of one per free connection.
    #[arg(short, long, value_parser = rate)]
    pub rate: Option<f64>,
    /// How the schedule's gaps are distributed.
    #[arg(long, value_enum, default_value = "constant", requires = "rate")]
    pub arrival: ArrivalArg,
    /// Load before the measured window.
    #[arg(short, long, default_value = "0", value_parser = duration)]
    pub warmup: Ns,
    /// Streams per connection (HTTP/2).
    #[arg(short = 'm', long, hide = true)]
    pub streams: Option<u32>,
    /// Requests in flight per connection, without waiting for answers.
    #[arg(short, long, default_value_t = 1)]
    pub pipeline: u32,
    /// Protocol.
    #[arg(long, value_enum, default_value = "auto")]
    pub protocol: ProtocolArg,
    /// Close a connection after so many requests; 1 means no keep-alive.
    #[arg(long, value_parser = count)]
    pub requests_per_connection: Option<u64>,
    /// Request method [default: GET, or POST with a body].
    #[arg(short = 'X', long = "method", value_name = "METHOD")]
    pub method: Option<String>,
    /// Header to send; may be given again.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// Request body.
    #[arg(short, long, conflicts_with = "body_file")]
    pub body: Option<String>,
    /// File with the request body.
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,
    /// From the sending of a request to the end of its answer.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub timeout: Ns,
    /// For a connection to come about.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub connect_timeout: Ns,
    /// TLS options, for when TLS can be loaded.
    #[arg(short = 'k', long, hide = true)]
    pub insecure: bool,
    #[arg(long, hide = true)]
    pub cacert: Option<PathBuf>,
    #[arg(long, hide = true)]
    pub cert: Option<PathBuf>,
    #[arg(long, hide = true)]
    pub key: Option<PathBuf>,
    /// The only right status [default: any from 200 to 399].
    #[arg(long, value_name = "STATUS")]
    pub expect_status: Option<u16>,
    /// The only right body; every answer is compared with it.
    #[arg(long, value_name = "TEXT")]
    pub expect_body: Option<String>,
    /// The load path's system calls; io_uring where the kernel has it.
    #[arg(long, value_enum)]
    pub driver: Option<DriverArg>,
    /// Form of the result.
    #[arg(long, value_enum, default_value = "text")]
    pub format: LoadFormat,
    /// Write the result here instead of to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Decides random arrivals.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Nanoseconds, as an argument.
#[derive(Clone, Copy, Debug)]
pub struct Ns(pub u64);

fn duration(text: &str) -> Result<Ns, String> {
    dyno_runner::units::duration(text).map(Ns)
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = dyno_runner::units::count(text)?;
    if rate > 0.0 { Ok(rate) } else { Err("a rate is above 0, in requests per second".into()) }
}

fn count(text: &str) -> Result<u64, String> {
    let n = dyno_runner::units::count(text)?;
    if n >= 1.0 && n.fract() == 0.0 {
        Ok(n as u64)
    } else {
        Err(format!("{text:?} is not a whole number above 0"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArrivalArg {
    Constant,
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProtocolArg {
    Auto,
    H1,
    H2,
    H2c,
    #[value(name = "h2c-upgrade")]
    H2cUpgrade,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoadFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dyno plan suites/hello.toml\n  dyno plan suites/hello.toml --format json | jq .trials"
)]
pub struct PlanArgs {
    /// The suite file.
    pub suite: PathBuf,
    /// Form of the plan.
    #[arg(long, value_enum, default_value = "text")]
    pub format: LoadFormat,
    #[command(flatten)]
    pub places: Places,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dyno report runs/hello-20260102-030405\n  dyno report runs/hello-20260102-030405 --format csv -o trials.csv"
)]
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

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dyno subjects list\n  dyno subjects build rust-hyper\n  dyno subjects check nginx node-http\n\ndocs/subjects.md says how to add one."
)]
pub struct SubjectsArgs {
    #[command(subcommand)]
    pub command: Option<SubjectsCommand>,
    #[command(flatten)]
    pub places: Places,
}

#[derive(Debug, Subcommand)]
pub enum SubjectsCommand {
    /// Which there are, and which cannot be built here and why.
    List {
        /// Names of subjects [default: all].
        names: Vec<String>,
    },
    /// Build them.
    Build {
        /// Names of subjects [default: all].
        names: Vec<String>,
    },
    /// Build and start them, and check that they answer right.
    Check {
        /// Names of subjects [default: all].
        names: Vec<String>,
    },
}
