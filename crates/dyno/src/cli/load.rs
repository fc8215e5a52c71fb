//! The command line of `dyno load`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dyno_archive::plan::{DriverKind, ProxyProtocol};
use dyno_workload::import::ImportFormat;

use super::values::{Cpus, Ns, count, cpus, duration, span, timeout, width};

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

impl From<ImportArg> for ImportFormat {
    fn from(arg: ImportArg) -> ImportFormat {
        match arg {
            ImportArg::Curl => ImportFormat::Curl,
            ImportArg::Har => ImportFormat::Har,
            ImportArg::Vegeta => ImportFormat::Vegeta,
            ImportArg::Urls => ImportFormat::Urls,
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
pub enum LoadFormat {
    Text,
    Json,
    /// One line per interval.
    Csv,
}
