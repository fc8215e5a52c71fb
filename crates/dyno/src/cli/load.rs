//! The command line of `dyno load`.

use std::path::PathBuf;

use clap::Args;
use dyno_contract::tls::SessionResumption;
use dyno_report::load::{FORMATS, LoadFormat};
use dyno_suite::target::ProtocolChoice;
use dyno_workload::import::ImportFormat;

use super::examples;
use super::report::format_in;
use super::settings::SettingArgs;
use super::values::{Choice, Cpus, choice, cpus, whole_number, width};

#[derive(Debug, Args)]
#[command(after_help = examples::LOAD_SHORT, after_long_help = examples::LOAD)]
pub struct LoadArgs {
    /// URL to load, such as http://127.0.0.1:8080/plaintext.
    #[arg(required_unless_present_any = ["import", "curl"])]
    pub url: Option<String>,

    /// Find the highest rate that meets an objective: 'p99<5ms'.
    ///
    /// The objective can have several conditions: 'p99<5ms,errors<0.1%'. Conditions can use p50 to
    /// p99.99, max and mean of the response time, and errors. The search runs open loops of 2 s
    /// each (-d), and begins at -r. It ends when a rate meets the objective, and a rate at most 2 %
    /// above it (--width) does not. A longer load confirms the result.
    #[arg(long, value_name = "OBJECTIVE", display_order = 100, help_heading = "Load")]
    pub find: Option<String>,
    /// Largest gap between the two final rates of --find, in percent [default: 2].
    #[arg(
        hide_short_help = true,
        long,
        value_name = "PERCENT",
        requires = "find",
        value_parser = width,
        display_order = 101,
        help_heading = "Load"
    )]
    pub width: Option<f64>,
    /// Start requests at recorded times.
    ///
    /// The file has a number of seconds on each line.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "FILE",
        conflicts_with_all = ["rate", "arrival"],
        display_order = 102,
        help_heading = "Load"
    )]
    pub trace: Option<PathBuf>,
    /// HTTP version, and how a connection selects the version.
    ///
    /// auto: HTTP/1.1 for http://. For https:// the server chooses by ALPN, and HTTP/2 is
    /// preferred.
    #[arg(
        long,
        value_parser = choice(PROTOCOLS),
        default_value = "auto",
        display_order = 103,
        help_heading = "Load"
    )]
    pub protocol: ProtocolChoice,
    /// Seed of random arrivals, mixes and placeholders.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "N",
        default_value_t = 1,
        display_order = 104,
        help_heading = "Load"
    )]
    pub seed: u64,

    /// Method [default: GET, or POST with a body].
    #[arg(short = 'X', long = "method", value_name = "METHOD", help_heading = "Requests")]
    pub method: Option<String>,
    /// Load a page: the URL, then this path, or this path N times.
    ///
    /// The URL is the document of the page. The paths are requested when the document has arrived.
    /// The option may be repeated. -c is the number of visitors.
    #[arg(
        long = "resource",
        value_name = "PATH[*N]",
        conflicts_with_all = ["mix", "import", "curl"],
        help_heading = "Requests"
    )]
    pub resources: Vec<String>,
    /// HTTP/1.1 connections per visitor of a page [default: 6].
    ///
    /// 6 is what browsers use. In HTTP/2 a visitor has one connection.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "N",
        requires = "resources",
        conflicts_with_all = ["mix", "import", "curl"],
        value_parser = whole_number(1_u32, 64),
        help_heading = "Requests"
    )]
    pub page_connections: Option<u32>,
    /// Header to send; may be repeated.
    ///
    /// dyno writes Content-Length and Transfer-Encoding itself.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", help_heading = "Requests")]
    pub headers: Vec<String>,
    /// Request body.
    #[arg(short, long, conflicts_with = "body_file", help_heading = "Requests")]
    pub body: Option<String>,
    /// File with the request body; - is standard input.
    #[arg(hide_short_help = true, long, value_name = "FILE", help_heading = "Requests")]
    pub body_file: Option<PathBuf>,
    /// One request of a weighted mix; may be repeated.
    ///
    /// Format: WEIGHT METHOD PATH, then an optional BODY. Example: '20 POST /items @item.json'.
    /// PATH replaces the URL's path. A BODY of @FILE is read from that file.
    #[arg(
        long = "request",
        value_name = "REQUEST",
        conflicts_with_all = ["method", "body", "body_file", "import", "curl"],
        help_heading = "Requests"
    )]
    pub mix: Vec<String>,
    /// One step of a sequence, which a visitor sends in order; may be repeated.
    ///
    /// Format: METHOD PATH, then an optional BODY, as in --request. Example: 'POST /login
    /// @user.json'. Each connection, or stream of HTTP/2, is one visitor. After the last step it
    /// starts anew.
    #[arg(
        hide_short_help = true,
        long = "step",
        value_name = "STEP",
        conflicts_with_all = [
            "mix", "method", "body", "body_file", "import", "curl", "resources",
        ],
        help_heading = "Requests"
    )]
    pub steps: Vec<String>,
    /// Keep the cookies that responses set, up to the end of a sequence.
    #[arg(hide_short_help = true, long, help_heading = "Requests")]
    pub cookies: bool,
    /// Value of a step's response for later steps: '1 token=json:/token'.
    ///
    /// Format: number of the step, NAME=SOURCE. SOURCE is json:POINTER, header:NAME,
    /// header:NAME:EXPRESSION or matches:EXPRESSION. Later steps use the value as {extract.NAME}.
    /// The option may be repeated.
    #[arg(hide_short_help = true, long, value_name = "EXTRACTION", help_heading = "Requests")]
    pub extract: Vec<String>,
    /// Requests from a HAR file, vegeta targets, URLs or curl commands.
    ///
    /// - is standard input.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["method", "body", "body_file"],
        help_heading = "Requests"
    )]
    pub import: Option<PathBuf>,
    /// Format of the imported file [default: detected].
    #[arg(
        hide_short_help = true,
        long,
        value_parser = choice(IMPORT_FORMATS),
        requires = "import",
        conflicts_with_all = ["curl", "mix", "method", "body", "body_file"],
        help_heading = "Requests"
    )]
    pub import_format: Option<ImportFormat>,
    /// Fill placeholders in imported requests, too.
    ///
    /// Without this option, imported requests are sent as they were recorded.
    #[arg(hide_short_help = true, long, help_heading = "Requests")]
    pub import_templates: bool,
    /// Folder of files named in placeholders and imports.
    ///
    /// Files outside this folder are not read. Default: the current folder for placeholders of the
    /// command line, and none for imported files.
    #[arg(hide_short_help = true, long, value_name = "FOLDER", help_heading = "Requests")]
    pub files: Option<PathBuf>,
    /// The request of a curl command line.
    #[arg(
        long,
        value_name = "COMMAND",
        conflicts_with_all = ["method", "body", "body_file", "import"],
        help_heading = "Requests"
    )]
    pub curl: Option<String>,

    /// Expected status [default: 200 to 399].
    ///
    /// With a HAR the default is the recorded status.
    #[arg(
        long,
        value_name = "STATUS",
        value_parser = whole_number(200_u16, 599),
        help_heading = "Response checks"
    )]
    pub expect_status: Option<u16>,
    /// Expected body, compared in every response.
    #[arg(long, value_name = "TEXT", help_heading = "Response checks")]
    pub expect_body: Option<String>,
    /// Expected header, with its value if one is given; may be repeated.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "NAME[: VALUE]",
        help_heading = "Response checks"
    )]
    pub expect_header: Vec<String>,
    /// Expected SHA-256 of the body.
    #[arg(hide_short_help = true, long, value_name = "HEX", help_heading = "Response checks")]
    pub expect_sha256: Option<String>,
    /// Text that the body must contain.
    #[arg(long, value_name = "TEXT", help_heading = "Response checks")]
    pub expect_contains: Option<String>,
    /// JSON pointer and expected value: /items/0/name=ann; may be repeated.
    ///
    /// Numbers are compared as JSON readers do: beyond 64-bit integers, as 64-bit floats.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "POINTER=JSON",
        help_heading = "Response checks"
    )]
    pub expect_json: Vec<String>,

    /// Accept any certificate.
    #[arg(short = 'k', long, conflicts_with = "cacert", help_heading = "TLS")]
    pub insecure: bool,
    /// Trust the authorities of this PEM file instead of the system's.
    #[arg(hide_short_help = true, long, value_name = "FILE", help_heading = "TLS")]
    pub cacert: Option<PathBuf>,
    /// Client certificate (PEM).
    #[arg(
        hide_short_help = true,
        long,
        value_name = "FILE",
        requires = "key",
        help_heading = "TLS"
    )]
    pub cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM).
    #[arg(
        hide_short_help = true,
        long,
        value_name = "FILE",
        requires = "cert",
        help_heading = "TLS"
    )]
    pub key: Option<PathBuf>,
    /// Resume TLS sessions on new connections [default: on].
    #[arg(hide_short_help = true, long, value_parser = choice(SWITCH), help_heading = "TLS")]
    pub tls_resumption: Option<SessionResumption>,

    #[command(flatten)]
    pub settings: SettingArgs,
    /// Local addresses to connect from, in turn.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "ADDRESS",
        value_delimiter = ',',
        help_heading = "Connections"
    )]
    pub source: Vec<std::net::IpAddr>,
    /// Connect to this Unix socket; the URL's host only names the server.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "PATH",
        conflicts_with = "source",
        help_heading = "Connections"
    )]
    pub unix_socket: Option<PathBuf>,
    /// Address for the URL's host and port, as in curl.
    ///
    /// Several addresses, separated by commas, are tried in their order. An address for another
    /// host or port is refused.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "HOST:PORT:ADDRESS[,ADDRESS]",
        help_heading = "Connections"
    )]
    pub resolve: Vec<String>,

    /// CPUs of the generator's threads, such as 1 or 2-3 [default: any].
    #[arg(
        hide_short_help = true,
        long,
        value_name = "LIST",
        value_parser = cpus,
        help_heading = "Generator"
    )]
    pub cpus: Option<Cpus>,

    /// Format of the result.
    #[arg(
        long,
        value_parser = format_in(FORMATS),
        default_value = "text",
        help_heading = "Output"
    )]
    pub format: &'static LoadFormat,
    /// Write the result to this file instead of standard output.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Write each interval as a line of JSON during the load.
    ///
    /// - is standard output. In this case, the text result goes to standard error.
    #[arg(hide_short_help = true, long, value_name = "FILE", help_heading = "Output")]
    pub stream: Option<PathBuf>,
    /// Write percentiles of the response time for HdrHistogram's plotter.
    #[arg(hide_short_help = true, long, value_name = "FILE", help_heading = "Output")]
    pub hgrm: Option<PathBuf>,
    /// Write the intervals' histograms as an HdrHistogram log.
    #[arg(hide_short_help = true, long, value_name = "FILE", help_heading = "Output")]
    pub hlog: Option<PathBuf>,
    /// Serve OpenMetrics at http://ADDRESS/metrics during the load.
    ///
    /// For example 127.0.0.1:9464.
    #[arg(hide_short_help = true, long, value_name = "ADDRESS", help_heading = "Output")]
    pub metrics: Option<std::net::SocketAddr>,
    /// Save the load in a new folder in FOLDER, for `dyno report`.
    ///
    /// The new folder has the format of a run with one trial.
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub save: Option<PathBuf>,
    /// Print plain progress lines instead of the live view.
    #[arg(hide_short_help = true, long, help_heading = "Output")]
    pub no_tui: bool,
}

const IMPORT_FORMATS: &[Choice<ImportFormat>] = &[
    ("curl", "", ImportFormat::Curl),
    ("har", "", ImportFormat::Har),
    ("vegeta", "", ImportFormat::Vegeta),
    ("urls", "", ImportFormat::Urls),
];

const SWITCH: &[Choice<SessionResumption>] =
    &[("on", "", SessionResumption::On), ("off", "", SessionResumption::Off)];

const PROTOCOLS: &[Choice<ProtocolChoice>] = &[
    ("auto", "", ProtocolChoice::Auto),
    ("h1", "HTTP/1.1, plain or over TLS", ProtocolChoice::H1),
    ("h2", "HTTP/2 over TLS, by ALPN", ProtocolChoice::H2),
    ("h2c", "HTTP/2 on a plain connection, by prior knowledge", ProtocolChoice::H2c),
    (
        "h2c-upgrade",
        "HTTP/2 on a plain connection, by an Upgrade from HTTP/1.1",
        ProtocolChoice::H2cUpgrade,
    ),
];
