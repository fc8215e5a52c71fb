//! The command line. Options have the names that other load generators give them: `-c`, `-d`, `-t`,
//! `-n`, `-r`.

mod compare;
mod profile;
mod report;
mod watch;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use dyno_archive::plan::{DriverKind, ProxyProtocol};
use dyno_responder::Writes;
use dyno_runner::observe::Choice;
use dyno_workload::import::Format;

use crate::habits;
pub use compare::{CompareArgs, CompareFormat, Undecided};
pub use profile::{ProfileArgs, ProfileFormat};
pub use report::{ReportArgs, ReportFormat};
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
                  go-nethttp --repeats 5\n  dyno run --resume runs/hello-20260102-030405\n\nExit \
                  status: 0 the run is valid, 1 some of it is not, 2 wrong usage or a wrong suite, \
                  3 the machine or a subject failed, or the run was ended early, 141 the \
                  output pipe was closed."
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
    pub places: Places,
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
pub struct Places {
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
pub enum DriverArg {
    Uring,
    Epoll,
}

impl From<DriverArg> for DriverKind {
    fn from(asked: DriverArg) -> DriverKind {
        match asked {
            DriverArg::Uring => DriverKind::Uring,
            DriverArg::Epoll => DriverKind::Epoll,
        }
    }
}

const LOAD_EXAMPLES: &str = "\
Examples:
  dyno load http://127.0.0.1:8080/plaintext                     64 connections for 10 s, closed loop
  dyno load http://127.0.0.1:8080/ -c 256 -p 16 -d 15s          pipelined
  dyno load http://127.0.0.1:8080/ -r 5k --arrival poisson      open loop, 5,000 random requests/s
  dyno load http://127.0.0.1:8080/ -r 1k..20k -d 60s            a ramp
  dyno load http://127.0.0.1:8080/ --find 'p99<5ms'             highest rate with a p99 below 5 ms
  dyno load http://127.0.0.1:8080/ -n 100k --format json        so many requests, result as JSON
  dyno load https://127.0.0.1:8443/ -k                          TLS, certificate not verified
  dyno load http://127.0.0.1:8080 --request '80 GET /items/{rand:1..1000}' \\
    --request '20 POST /items {\"n\":{seq}}'
  dyno load --curl \"curl -H 'Accept: text/html' http://127.0.0.1:8080/\"
  dyno load --import session.har                                what a browser asked for
  dyno load http://127.0.0.1:8080/ --save runs                  and keep it, for dyno report

Placeholders in paths, header values and bodies: {seq}, {rand:1..100}, {uuid}, {csv:users.csv:name}.
Imported requests are sent as they were recorded.
Times: 250us, 500ms, 10s, 2m, 1h. Numbers: 5000, 5k, 1.5M.

Exit status: 0 the result is valid, 1 it is not, 2 wrong usage or a bad file,
3 the load could not begin, was ended early, or a result could not be written,
141 the output pipe was closed.";

#[derive(Debug, Args)]
#[command(after_help = LOAD_EXAMPLES)]
pub struct LoadArgs {
    /// URL to load, such as http://127.0.0.1:8080/plaintext.
    #[arg(required_unless_present_any = ["import", "curl"])]
    pub url: Option<String>,

    /// Connections.
    #[arg(
        short,
        long,
        value_name = "N",
        default_value = "64",
        value_parser = count,
        help_heading = "Load"
    )]
    pub connections: u64,
    /// Generator threads, never more than connections [default: as many as serve: one for each CPU
    /// that dyno may use, or for every second one if the server is on this machine and needs the
    /// others; with --cpus one for each of those].
    #[arg(short, long, value_name = "N", help_heading = "Load")]
    pub threads: Option<u32>,
    /// Length of the measured window; a bare number is in seconds [default: 10s, unless -n or a
    /// trace says when to end].
    #[arg(short, long, value_name = "TIME", value_parser = span, help_heading = "Load")]
    pub duration: Option<Ns>,
    /// End after this many requests.
    #[arg(short = 'n', long, value_name = "N", value_parser = count, help_heading = "Load")]
    pub requests: Option<u64>,
    /// Offer so many requests per second on a schedule (open loop) instead of one per free
    /// connection: 5k, a ramp 1k..5k, or stretches 1k@10s,1k..5k@30s,5k.
    #[arg(short, long, value_name = "RATE", help_heading = "Load")]
    pub rate: Option<String>,
    /// Find the highest rate (open loop) that keeps an objective, such as 'p99<5ms,errors<0.1%':
    /// percentiles p50 to p99.99, max and mean of the response time, and errors. Makes loads of 2 s
    /// each (-d) until most of those at two rates 2 % apart (--width) agree; -r is where it begins.
    #[arg(long, value_name = "OBJECTIVE", help_heading = "Load")]
    pub find: Option<String>,
    /// How far apart the rates of --find may end, in per cent of the lower [default: 2].
    #[arg(
        long,
        value_name = "PERCENT",
        requires = "find",
        value_parser = width,
        help_heading = "Load"
    )]
    pub width: Option<f64>,
    /// How the schedule's gaps are distributed.
    #[arg(
        long,
        value_enum,
        default_value = "constant",
        conflicts_with = "trace",
        help_heading = "Load"
    )]
    pub arrival: ArrivalArg,
    /// Start requests at recorded times: a file with a number of seconds on each line.
    #[arg(long, value_name = "FILE", conflicts_with = "rate", help_heading = "Load")]
    pub trace: Option<PathBuf>,
    /// Time of load before the measured window, such as 2s [default: 0; with --find 500ms].
    #[arg(short, long, value_name = "TIME", value_parser = span, help_heading = "Load")]
    pub warmup: Option<Ns>,
    /// Requests in flight per connection of HTTP/1.1, without waiting for answers.
    #[arg(short, long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub pipeline: u32,
    /// What to speak: over TLS auto takes what ALPN settles on, HTTP/2 first; on http:// it is h1.
    #[arg(long, value_enum, default_value = "auto", help_heading = "Load")]
    pub protocol: ProtocolArg,
    /// Decides random arrivals, mixes and placeholders.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub seed: u64,

    /// Request method [default: GET, or POST with a body].
    #[arg(short = 'X', long = "method", value_name = "METHOD", help_heading = "Requests")]
    pub method: Option<String>,
    /// Load a page: the URL is its document, and this path, or PATH*N of them, follows once the
    /// document is there; may be given again. -c is then the number of visitors.
    #[arg(
        long = "resource",
        value_name = "PATH[*N]",
        conflicts_with_all = ["mix", "import", "curl"],
        help_heading = "Requests"
    )]
    pub resources: Vec<String>,
    /// Connections over which a visitor loads a page in HTTP/1.1 [default: 6, as in browsers]; in
    /// HTTP/2 it is one.
    #[arg(
        long,
        value_name = "N",
        requires = "resources",
        conflicts_with_all = ["mix", "import", "curl"],
        value_parser = clap::value_parser!(u32).range(1..=64),
        help_heading = "Requests"
    )]
    pub page_connections: Option<u32>,
    /// Header to send; may be given again. Not Content-Length or Transfer-Encoding, which dyno
    /// writes.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", help_heading = "Requests")]
    pub headers: Vec<String>,
    /// Request body.
    #[arg(short, long, conflicts_with = "body_file", help_heading = "Requests")]
    pub body: Option<String>,
    /// File with the request body; - is standard input.
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    pub body_file: Option<PathBuf>,
    /// One request of a weighted mix, instead of the URL's own path; may be given again. A body may
    /// be @FILE.
    #[arg(
        long = "request",
        value_name = "WEIGHT METHOD PATH [BODY]",
        conflicts_with_all = ["method", "body", "body_file", "import", "curl"],
        help_heading = "Requests"
    )]
    pub mix: Vec<String>,
    /// Requests from a HAR file, vegeta's targets, a list of URLs, or a file of curl commands; - is
    /// standard input.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["method", "body", "body_file"],
        help_heading = "Requests"
    )]
    pub import: Option<PathBuf>,
    /// Format of the imported file [default: seen by its contents].
    #[arg(
        long,
        value_enum,
        requires = "import",
        conflicts_with_all = ["curl", "mix", "method", "body", "body_file"],
        help_heading = "Requests"
    )]
    pub import_format: Option<ImportArg>,
    /// Replace placeholders in imported requests too, instead of sending them as they were
    /// recorded.
    #[arg(long, help_heading = "Requests")]
    pub import_templates: bool,
    /// Folder of the files that are named in placeholders and imports; none above it is read
    /// [default: the current folder for what stands on the command line, none for an imported
    /// file].
    #[arg(long, value_name = "FOLDER", help_heading = "Requests")]
    pub files: Option<PathBuf>,
    /// The request of a curl command line.
    #[arg(
        long,
        value_name = "COMMAND",
        conflicts_with_all = ["method", "body", "body_file", "import"],
        help_heading = "Requests"
    )]
    pub curl: Option<String>,

    /// The only right status [default: what a HAR recorded, else any from 200 to 399].
    #[arg(
        long,
        value_name = "STATUS",
        value_parser = clap::value_parser!(u16).range(100..600),
        help_heading = "Expected answers"
    )]
    pub expect_status: Option<u16>,
    /// The only right body; every answer is compared with it.
    #[arg(long, value_name = "TEXT", help_heading = "Expected answers")]
    pub expect_body: Option<String>,
    /// A header that must be there, with this value if one is given; may be given again.
    #[arg(long, value_name = "NAME[: VALUE]", help_heading = "Expected answers")]
    pub expect_header: Vec<String>,
    /// SHA-256 of the right body.
    #[arg(long, value_name = "HEX", help_heading = "Expected answers")]
    pub expect_sha256: Option<String>,
    /// Text that must stand in the body.
    #[arg(long, value_name = "TEXT", help_heading = "Expected answers")]
    pub expect_contains: Option<String>,
    /// A JSON pointer and what must stand there, such as /items/0/name=ann; may be given again.
    #[arg(long, value_name = "POINTER=JSON", help_heading = "Expected answers")]
    pub expect_json: Vec<String>,
    /// Of how many answers one is checked for headers, SHA-256, text and JSON; 1: every one, 0:
    /// only before the load [default: 100].
    #[arg(long, value_name = "N", help_heading = "Expected answers")]
    pub check_one_in: Option<u64>,

    /// Streams open at once per connection; fewer where the server allows no more [default: 1, of a
    /// page 100].
    #[arg(short = 'm', long, value_name = "N", help_heading = "HTTP/2")]
    pub streams: Option<u32>,
    /// Bytes that the server may send on a stream before it must wait for us: 2^N − 1, N from 10 to
    /// 30 [default: 30].
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u8).range(10..=30),
        help_heading = "HTTP/2"
    )]
    pub window_bits: Option<u8>,
    /// The same for a whole connection [default: 30]. HTTP/2 cannot announce fewer than 2^16 − 1
    /// bytes; below that, window updates are sent later.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u8).range(10..=30),
        help_heading = "HTTP/2"
    )]
    pub connection_window_bits: Option<u8>,
    /// Bytes of the table with which the server may compress its header fields; 0: it has none
    /// [default: 4096].
    #[arg(long, value_name = "BYTES", help_heading = "HTTP/2")]
    pub header_table_size: Option<u32>,

    /// Close a connection after so many requests; 1 means no keep-alive.
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Connections")]
    pub requests_per_connection: Option<u64>,
    /// Open the connections one by one over this time, instead of all of them before the load.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Connections")]
    pub ramp_connections: Option<Ns>,
    /// From the sending of a request to the end of its answer [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = timeout, help_heading = "Connections")]
    pub timeout: Option<Ns>,
    /// From the sending of a request to the first byte of its answer [default: only --timeout].
    #[arg(long, value_name = "TIME", value_parser = timeout, help_heading = "Connections")]
    pub first_byte_timeout: Option<Ns>,
    /// For a connection to come about, TLS included [default: 5s].
    #[arg(long, value_name = "TIME", value_parser = timeout, help_heading = "Connections")]
    pub connect_timeout: Option<Ns>,
    /// Local addresses to connect from, taken in turn.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = "Connections")]
    pub source: Vec<std::net::IpAddr>,
    /// Connect to this Unix socket; the URL's host only names the server.
    #[arg(long, value_name = "PATH", conflicts_with = "source", help_heading = "Connections")]
    pub unix_socket: Option<PathBuf>,
    /// Begin each connection with the PROXY protocol.
    #[arg(long, value_name = "VERSION", help_heading = "Connections")]
    pub proxy_protocol: Option<ProxyArg>,
    /// Use this address for the URL's host and port, as curl does. One for another host or port is
    /// refused.
    #[arg(long, value_name = "HOST:PORT:ADDRESS", help_heading = "Connections")]
    pub resolve: Vec<String>,

    /// Accept any certificate of the server.
    #[arg(short = 'k', long, conflicts_with = "cacert", help_heading = "TLS")]
    pub insecure: bool,
    /// Trust the authorities in this file (PEM) instead of the system's.
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub cacert: Option<PathBuf>,
    /// Certificate to show if the server asks (PEM).
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "TLS")]
    pub cert: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    pub key: Option<PathBuf>,
    /// Whether new connections may resume earlier TLS sessions [default: on].
    #[arg(long, value_enum, help_heading = "TLS")]
    pub tls_resumption: Option<SwitchArg>,

    /// The load path's system calls; io_uring where the kernel has it.
    #[arg(long, value_enum, help_heading = "Generator")]
    pub driver: Option<DriverArg>,
    /// Poll instead of sleeping, so as not to wake late: near deadlines of an open loop if there is
    /// a second CPU, never, or always.
    #[arg(long, value_enum, default_value = "auto", help_heading = "Generator")]
    pub spin: SpinArg,
    /// CPUs of the generator's threads, such as 1 or 2-3 [default: any].
    #[arg(long, value_name = "LIST", value_parser = cpus, help_heading = "Generator")]
    pub cpus: Option<Cpus>,

    /// Form of the result.
    #[arg(long, value_enum, default_value = "text", help_heading = "Output")]
    pub format: LoadFormat,
    /// Write the result here instead of to standard output.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Length of the intervals that are shown, streamed and kept, from 10ms.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        value_parser = duration,
        help_heading = "Output"
    )]
    pub interval: Ns,
    /// Write each interval as a line of JSON while the load runs; - is standard output, and the
    /// text goes to standard error.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub stream: Option<PathBuf>,
    /// Write the response times' percentiles as HdrHistogram's plotter reads them.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub hgrm: Option<PathBuf>,
    /// Write the intervals' histograms as an HdrHistogram log.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub hlog: Option<PathBuf>,
    /// Serve OpenMetrics at http://ADDRESS/metrics while the load runs, such as 127.0.0.1:9464.
    #[arg(long, value_name = "ADDRESS", help_heading = "Output")]
    pub metrics: Option<std::net::SocketAddr>,
    /// Keep the load as a run keeps its trials, in a new folder in this one: `dyno report` makes
    /// every form of it.
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub save: Option<PathBuf>,
    /// Plain progress lines instead of the live view.
    #[arg(long, help_heading = "Output")]
    pub no_tui: bool,
}

impl LoadArgs {
    /// Nanoseconds of load before the measured window.
    pub fn warmup_ns(&self) -> u64 {
        self.warmup.map_or(0, |Ns(ns)| ns)
    }
}

/// Nanoseconds, as an argument.
#[derive(Clone, Copy, Debug)]
pub struct Ns(pub u64);

/// A time, as an argument: as in files, or as wrk's `-d2` a bare number of seconds.
fn duration(text: &str) -> Result<Ns, String> {
    dyno_workload::units::duration(&with_unit(text)).map(Ns)
}

fn timeout(text: &str) -> Result<Ns, String> {
    const LEAST: u64 = 1_000_000;
    match duration(text)? {
        Ns(ns) if ns < LEAST => Err("a time-out is at least 1ms".into()),
        limit => Ok(limit),
    }
}

/// The same for what may take up to 30 days.
fn span(text: &str) -> Result<Ns, String> {
    dyno_workload::units::span(&with_unit(text)).map(Ns)
}

/// A bare number of seconds with its unit.
fn with_unit(text: &str) -> Cow<'_, str> {
    let is_bare = text.parse::<f64>().is_ok_and(|seconds| seconds >= 0.0);
    if is_bare { format!("{text}s").into() } else { text.into() }
}

/// A time for a whole run: up to 30 days.
fn budget(text: &str) -> Result<Ns, String> {
    const HOUR: f64 = 3600e9;
    let wrong = || format!("{text:?} is no time for a run; write it like 30m, 4h or 2d, up to 30d");
    let text = text.trim();
    let hours =
        |unit: char, each: f64| Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * each);
    match hours('h', HOUR).or_else(|| hours('d', 24.0 * HOUR)) {
        Some(ns) if (1e9..=30.0 * 24.0 * HOUR).contains(&ns) => Ok(Ns(ns as u64)),
        Some(_) => Err(wrong()),
        None => duration(text).ok().filter(|ns| ns.0 >= 1_000_000_000).ok_or_else(wrong),
    }
}

/// A list of CPUs, as an argument.
#[derive(Clone, Debug)]
pub struct Cpus(pub Vec<u32>);

fn cpus(text: &str) -> Result<Cpus, String> {
    dyno_workload::units::cpu_list(text).map(Cpus)
}

/// A width of a search, in per cent.
fn width(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is no width; write per cent, such as 2, from 0.1 to 50");
    text.trim_end_matches('%')
        .trim()
        .parse()
        .ok()
        .filter(|n| (0.1..=50.0).contains(n))
        .ok_or_else(wrong)
}

fn count(text: &str) -> Result<u64, String> {
    let n = dyno_workload::units::count(text)?;
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
pub enum ImportArg {
    Curl,
    Har,
    Vegeta,
    Urls,
}

impl From<ImportArg> for Format {
    fn from(arg: ImportArg) -> Format {
        match arg {
            ImportArg::Curl => Format::Curl,
            ImportArg::Har => Format::Har,
            ImportArg::Vegeta => Format::Vegeta,
            ImportArg::Urls => Format::Urls,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SwitchArg {
    On,
    Off,
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProxyArg {
    V1,
    V2,
}

impl From<ProxyArg> for ProxyProtocol {
    fn from(asked: ProxyArg) -> ProxyProtocol {
        match asked {
            ProxyArg::V1 => ProxyProtocol::V1,
            ProxyArg::V2 => ProxyProtocol::V2,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SpinArg {
    Auto,
    Never,
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProtocolArg {
    Auto,
    /// HTTP/1.1, plain or over TLS.
    H1,
    /// HTTP/2 over TLS, by ALPN.
    H2,
    /// HTTP/2 on a plain connection, by prior knowledge.
    H2c,
    /// HTTP/2 on a plain connection, by an Upgrade from HTTP/1.1.
    #[value(name = "h2c-upgrade")]
    H2cUpgrade,
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
pub enum LoadFormat {
    Text,
    Json,
    /// One line per interval.
    Csv,
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
    pub places: Places,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dyno subjects list\n  dyno subjects build rust-hyper\n  dyno \
                  subjects check nginx node-http\n  dyno subjects check --all --subjects \
                  my/subjects\n\ndocs/subjects.md says how to add one.\n\nExit status: 0 all is \
                  well, 1 a check failed, 2 wrong usage or a wrong subject.toml, 3 the machine or \
                  a subject failed, or it was ended early, 141 the output pipe was closed."
)]
pub struct SubjectsArgs {
    #[command(subcommand)]
    pub command: Option<SubjectsCommand>,
    #[command(flatten)]
    pub places: Places,
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
        which: Which,
    },
    /// Build and start them, and check that they answer right.
    Check {
        #[command(flatten)]
        which: Which,
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
pub struct Which {
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
