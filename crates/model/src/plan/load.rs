//! The load of a plan: connections, arrivals and limits.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Order;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// Warm-up of each step, which is not measured.
    pub warmup_ns: u64,
    /// Warm-up of each start before its first step, until the server is steady; `None`: only the
    /// steps' own warm-ups.
    pub until_steady: Option<UntilSteady>,
    pub still_warming: StillWarming,
    /// Order of workloads and steps within a start.
    pub order: Order,
    /// Planned length of the measured window; 0: no planned length. A load without a suite may end
    /// after a number of requests, or when the user ends it.
    pub duration_ns: u64,
    /// Total number of requests; `None`: no limit, as in all suites.
    pub requests: Option<u64>,
    pub interval_ns: u64,
    pub timeout_ns: u64,
    pub connect_timeout_ns: u64,
    /// Maximum time after the measured window in which requests in flight may end.
    pub drain_ns: u64,
    /// Maximum time from sending a request to the first byte of its response; `None`: only the
    /// complete response has a limit.
    pub first_byte_timeout_ns: Option<u64>,
    /// `None`: no limit, so that only the server ends connections.
    pub requests_per_connection: Option<u64>,
    /// Time over which connections are opened one by one; `None`: all of them before the load
    /// begins.
    pub ramp_connections_ns: Option<u64>,
    pub reconnect: Reconnect,
    /// Maximum number of arrivals of an open loop that wait for a connection; further arrivals are
    /// dropped. `None`: only the generator's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_waiting: Option<u64>,
    /// Interval of full checks: one in this many responses is checked in full. 1: every response;
    /// 0: none.
    pub check_one_in: u64,
    pub spin: Spin,
    /// Priority of the generator's workers.
    pub priority: Priority,
    pub threads: u32,
    pub driver: DriverKind,
    /// For workloads over HTTP/2.
    pub http2: Http2,
    /// The PROXY protocol with which each connection begins; `None`: it begins with the first
    /// request, or with TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    #[serde(default, skip_serializing_if = "ConnectionSettings::is_default")]
    pub connection: ConnectionSettings,
    /// Distinct steps. A workload has only some of these steps, because a protocol has either
    /// streams or pipelines. The list of trials shows which.
    pub steps: Vec<Step>,
}

impl Load {
    /// Returns the planned length of the measured window; `None`: the window has no planned end.
    #[must_use]
    pub fn set_duration_ns(&self) -> Option<u64> {
        Some(self.duration_ns).filter(|ns| *ns > 0)
    }

    /// Whether only the user ends the load.
    #[must_use]
    pub const fn has_open_end(&self) -> bool {
        self.duration_ns == 0 && self.requests.is_none()
    }
}

/// Settings of a load's connections that suites leave at their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConnectionSettings {
    /// Whether connections lead to a Unix socket, not to a TCP port.
    pub unix_socket: bool,
    /// Local addresses, which connections use in rotation; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// `None`: a load without TLS.
    pub tls: Option<TlsSettings>,
}

impl ConnectionSettings {
    fn is_default(&self) -> bool {
        *self == ConnectionSettings::default()
    }
}

/// TLS settings of a load without a suite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsSettings {
    /// Whether later handshakes resume the session of an earlier one.
    pub resumption: bool,
    pub certificates: AcceptedCertificates,
    /// Whether the client sends a certificate if the server requests one.
    pub client_certificate: bool,
}

/// Certificates of servers that a load accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AcceptedCertificates {
    /// Certificates that this system trusts.
    System,
    /// Certificates of an authority in a file.
    File,
    /// Any, without verification.
    Any,
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProxyProtocol {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// The kernel interface for I/O that the generator uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriverKind {
    Uring,
    Epoll,
}

impl DriverKind {
    pub const ALL: [DriverKind; 2] = [DriverKind::Uring, DriverKind::Epoll];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DriverKind::Uring => "uring",
            DriverKind::Epoll => "epoll",
        }
    }

    /// Returns the usual name of the interface, for texts.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            DriverKind::Uring => "io_uring",
            DriverKind::Epoll => "epoll",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<DriverKind> {
        DriverKind::ALL.into_iter().find(|driver| driver.name() == name)
    }
}

/// Whether the generator polls instead of sleeping where late wake-ups would distort times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Spin {
    /// Poll in an open loop, shortly before a request is due, if no server uses the generator's
    /// CPUs.
    #[default]
    Auto,
    Never,
    Always,
}

impl Spin {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Spin::Auto => "auto",
            Spin::Never => "never",
            Spin::Always => "always",
        }
    }
}

/// Scheduling priority of the generator's workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Time-shared with other processes.
    #[default]
    Normal,
    /// Ahead of all other processes (SCHED_FIFO), for a generator that shares its CPUs with back
    /// ends.
    Realtime,
}

/// When a failed connection is replaced by the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reconnect {
    /// At once after the first failure, and after a longer wait with each further one.
    #[default]
    Backoff,
    /// At once after every failure: for loads that count failures.
    AtOnce,
}

/// Limit of a warm-up that runs until the server is steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UntilSteady {
    pub limit_ns: u64,
}

/// Treatment of a server that still becomes faster within a measured window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StillWarming {
    /// The step is not valid: a warm server is required.
    #[default]
    Refused,
    /// The step is valid: the warm-up itself is measured.
    Measured,
}

/// Settings that an HTTP/2 client sends at the start of each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Http2 {
    /// Each stream's window is 2^`window_bits` − 1 bytes. A server can send this many bytes of a
    /// response before it needs a window update. 10 to 30.
    pub window_bits: u8,
    /// The window of all streams of a connection together is 2^`connection_window_bits` − 1 bytes.
    /// 10 to 30.
    pub connection_window_bits: u8,
    /// Bytes of the table in which a server may store headers of its responses
    /// (SETTINGS_HEADER_TABLE_SIZE).
    pub header_table_size: u32,
}

impl Default for Http2 {
    /// Returns windows as large as h2load's, so that no response waits for a WINDOW_UPDATE, and the
    /// table size of RFC 7541.
    fn default() -> Self {
        Http2 { window_bits: 30, connection_window_bits: 30, header_table_size: 4096 }
    }
}

/// One load point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    pub connections: u32,
    /// Streams per connection; 1 for HTTP/1.1.
    pub streams: u32,
    /// Requests in flight per connection of HTTP/1.1 (pipelining).
    pub pipeline: u32,
    pub arrivals: Arrivals,
    /// Number of this step among otherwise equal steps, from 1.
    pub pass: u32,
}

impl Step {
    /// Concurrent requests in flight: connections × streams × pipeline.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.streams) * u64::from(self.pipeline)
    }
}

/// When requests start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", tag = "model")]
pub enum Arrivals {
    /// A new request as soon as a slot is free.
    Closed,
    /// A fixed schedule, requests per second.
    Constant { rate: f64 },
    /// Exponentially distributed gaps, requests per second on average.
    Poisson { rate: f64 },
    /// A rate that changes: ramps and steps, one after the other. The last one has no end.
    Shaped { segments: Vec<Segment>, gaps: Gaps },
    /// Instants recorded elsewhere.
    Trace { file: String, count: u64, sha256: String },
}

/// A stretch of time over which the rate changes linearly from one value to another, requests per
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    pub from_rate: f64,
    pub to_rate: f64,
    pub duration_ns: u64,
}

/// How the gaps between arrivals are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gaps {
    Even,
    Exponential,
}

impl Arrivals {
    /// Returns the requested rate in requests per second; `None`: a closed loop, or a rate that
    /// changes.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        match self {
            Arrivals::Constant { rate } | Arrivals::Poisson { rate } => Some(*rate),
            Arrivals::Closed | Arrivals::Shaped { .. } | Arrivals::Trace { .. } => None,
        }
    }

    #[must_use]
    pub fn model(&self) -> LoadModel {
        if self.is_closed() { LoadModel::Closed } else { LoadModel::Open }
    }

    /// Returns the kind of schedule; `None`: a closed loop, in which responses decide when requests
    /// start.
    #[must_use]
    pub fn arrival(&self) -> Option<Arrival> {
        match self {
            Arrivals::Closed => None,
            Arrivals::Constant { .. } | Arrivals::Shaped { gaps: Gaps::Even, .. } => {
                Some(Arrival::Constant)
            }
            Arrivals::Poisson { .. } | Arrivals::Shaped { gaps: Gaps::Exponential, .. } => {
                Some(Arrival::Poisson)
            }
            Arrivals::Trace { .. } => Some(Arrival::Trace),
        }
    }

    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Arrivals::Closed)
    }
}

/// Model that decides when a request starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Model")]
pub enum LoadModel {
    /// The response to the previous request.
    Closed,
    /// A schedule that is independent of the server.
    Open,
}

/// Kind of the schedule of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// Gaps are even, or change evenly with the rate.
    Constant,
    /// Gaps are drawn from an exponential distribution.
    Poisson,
    /// Instants were recorded elsewhere.
    Trace,
}

impl Arrival {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Arrival::Constant => "constant",
            Arrival::Poisson => "poisson",
            Arrival::Trace => "trace",
        }
    }
}
