//! The record of one load.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interval::Interval;
use crate::machine::MachineUse;
use crate::plan::{DriverKind, Priority};
use crate::probe::RequestedProbes;
use crate::runtime::RuntimeReading;
use crate::sample::{Sample, ThreadUse};
use crate::silence::Silence;
use crate::times::Times;

/// The counts of the measured window, which must add up: `carried_in + scheduled = started +
/// dropped` and `started = completed + failed + in_flight_at_end`. An exchange belongs to the
/// window if it was intended in the window, or, in a closed loop, if it was under way when the
/// window opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Books {
    /// In flight when the window opened. 0 in an open loop, because only its schedule decides which
    /// exchanges belong to the window.
    pub carried_in: u64,
    pub scheduled: u64,
    pub started: u64,
    pub dropped: u64,
    /// The complete response arrived, correct or not.
    pub completed: u64,
    pub failed: u64,
    /// Requests without a complete response when the drain ended, sent or not.
    pub in_flight_at_end: u64,
}

impl Books {
    #[must_use]
    pub fn balance(&self) -> bool {
        self.due() == self.started + self.dropped
            && self.started == self.completed + self.failed + self.in_flight_at_end
    }

    /// Returns the number of exchanges that belong to the window: scheduled in it, or carried into
    /// it.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.carried_in + self.scheduled
    }

    pub fn add(&mut self, other: &Books) {
        self.carried_in += other.carried_in;
        self.scheduled += other.scheduled;
        self.started += other.started;
        self.dropped += other.dropped;
        self.completed += other.completed;
        self.failed += other.failed;
        self.in_flight_at_end += other.in_flight_at_end;
    }
}

/// Connections over the whole trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    pub asked: u64,
    /// Open at the end of the measured window.
    pub established: u64,
    pub opened: u64,
    /// Connections that the server closed, or announced to close (`Connection: close`). dyno closes
    /// an announced connection without waiting for the server.
    pub closed_by_server: u64,
    pub closed_by_us: u64,
    /// Connections that were closed because they received bytes that belong to no request.
    pub unsolicited: u64,
    /// Complete responses that had arrived earlier on the connections of `unsolicited`. It is
    /// unknown which requests they belong to. `None`: no such connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsolicited_after: Option<u64>,
    /// Requests of HTTP/1.1 that were sent again, because the server properly ended the pipeline
    /// before it responded to them, or closed an idle connection when they arrived.
    pub asked_again: u64,
    /// Those of `asked_again` that were the first on a connection after it had been idle. The
    /// server closed the connection without a response to them, or answered 408.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked_again_idle: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Connections {
    pub fn add(&mut self, other: &Connections) {
        self.asked += other.asked;
        self.established += other.established;
        self.opened += other.opened;
        self.closed_by_server += other.closed_by_server;
        self.closed_by_us += other.closed_by_us;
        self.unsolicited += other.unsolicited;
        self.unsolicited_after = match (self.unsolicited_after, other.unsolicited_after) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.asked_again += other.asked_again;
        self.asked_again_idle += other.asked_again_idle;
    }
}

/// Negotiated TLS parameters, over the whole trial. If connections differ, the first value is
/// stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsUse {
    /// Such as `TLSv1.3`.
    pub version: Option<String>,
    pub cipher_suite: Option<String>,
    /// The protocol that ALPN chose; `None`: the server chose none.
    pub alpn: Option<String>,
    pub handshakes_full: u64,
    pub handshakes_resumed: u64,
    /// Failures by the alert's name or the reason, exact counts.
    pub errors: BTreeMap<String, u64>,
}

impl TlsUse {
    pub fn add(&mut self, other: &TlsUse) {
        self.version = self.version.take().or_else(|| other.version.clone());
        self.cipher_suite = self.cipher_suite.take().or_else(|| other.cipher_suite.clone());
        self.alpn = self.alpn.take().or_else(|| other.alpn.clone());
        self.handshakes_full += other.handshakes_full;
        self.handshakes_resumed += other.handshakes_resumed;
        for (name, n) in &other.errors {
            *self.errors.entry(name.clone()).or_default() += n;
        }
    }
}

/// Counts of HTTP/2 connections. Frames and bytes are counted in the measured window, connections
/// and streams over the whole trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Http2Use {
    /// Connections that speak HTTP/2.
    pub connections: u64,
    /// TLS connections for HTTP/2 on which ALPN chose another protocol.
    pub fallen_back: u64,
    /// Upgrade requests to which the server responded without an upgrade.
    pub upgrades_declined: u64,
    /// Streams per connection that the load requested.
    pub streams_asked: u32,
    /// Lowest number of streams that a server announced to allow (SETTINGS_MAX_CONCURRENT_STREAMS);
    /// `None`: no limit.
    pub streams_granted: Option<u32>,
    /// Maximum number of concurrent streams on one connection.
    #[serde(rename = "streams_most")]
    pub max_open_streams: u64,
    pub received: Http2Direction,
    pub sent: Http2Direction,
    /// PINGs from servers.
    pub pings: u64,
    /// Number of receive operations with data.
    pub receives: u64,
    /// Complete responses.
    pub responses: u64,
    /// TLS records with application data; 0 without TLS.
    pub tls_records: u64,
    /// Requests that were retried because the server had reported that it did not process them.
    pub retried: u64,
}

/// One direction of HTTP/2 connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Http2Direction {
    /// Frames by the name of their type, without zero counts.
    pub frames: BTreeMap<String, u64>,
    /// RST_STREAM frames by the name of their code.
    pub resets: BTreeMap<String, u64>,
    /// GOAWAY frames by the name of their code.
    pub go_aways: BTreeMap<String, u64>,
    /// Bytes of header blocks on the wire.
    pub block_bytes: u64,
    /// Bytes of the names and values in the header blocks.
    pub field_bytes: u64,
}

impl Http2Use {
    pub fn add(&mut self, other: &Http2Use) {
        self.connections += other.connections;
        self.fallen_back += other.fallen_back;
        self.upgrades_declined += other.upgrades_declined;
        self.streams_asked = self.streams_asked.max(other.streams_asked);
        self.streams_granted = match (self.streams_granted, other.streams_granted) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.max_open_streams = self.max_open_streams.max(other.max_open_streams);
        self.received.add(&other.received);
        self.sent.add(&other.sent);
        self.pings += other.pings;
        self.receives += other.receives;
        self.responses += other.responses;
        self.tls_records += other.tls_records;
        self.retried += other.retried;
    }
}

impl Http2Direction {
    fn add(&mut self, other: &Http2Direction) {
        let add = |to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>| {
            from.iter().for_each(|(name, n)| *to.entry(name.clone()).or_default() += n);
        };
        add(&mut self.frames, &other.frames);
        add(&mut self.resets, &other.resets);
        add(&mut self.go_aways, &other.go_aways);
        self.block_bytes += other.block_bytes;
        self.field_bytes += other.field_bytes;
    }

    /// Returns the total number of frames.
    #[must_use]
    pub fn all_frames(&self) -> u64 {
        self.frames.values().sum()
    }
}

/// Sums of `TCP_INFO` counters over the generator's connections within the measured window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounters {
    pub data_segments_in: u64,
    pub segments_in: u64,
    pub segments_out: u64,
    pub retransmits: u64,
}

impl TcpCounters {
    pub fn add(&mut self, other: &TcpCounters) {
        self.data_segments_in += other.data_segments_in;
        self.segments_in += other.segments_in;
        self.segments_out += other.segments_out;
        self.retransmits += other.retransmits;
    }

    #[must_use]
    pub fn growth_since(&self, earlier: &TcpCounters) -> TcpCounters {
        TcpCounters {
            data_segments_in: self.data_segments_in.saturating_sub(earlier.data_segments_in),
            segments_in: self.segments_in.saturating_sub(earlier.segments_in),
            segments_out: self.segments_out.saturating_sub(earlier.segments_out),
            retransmits: self.retransmits.saturating_sub(earlier.retransmits),
        }
    }
}

/// The generator's own cost within the measured window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientUse {
    /// One entry per worker thread. Its run time is exact; the split into user and system is
    /// sampled by the kernel's tick (see docs/methodology/counters.md).
    pub threads: Vec<ThreadUse>,
    pub rss_peak_bytes: Option<u64>,
    pub driver: DriverKind,
    /// Priority that the kernel granted, which may be lower than requested.
    pub priority: Priority,
    /// `None`: the kernel does not report it, or the archive is older.
    pub machine: Option<MachineUse>,
}

/// Ages of the exchanges of the measured window without a correct response. Dropped requests are
/// excluded, because they did not wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnansweredAges {
    /// Times from intended to the end of the exchange, by the name of the outcome. Times under
    /// [`UnansweredAges::AT_END`] extend to the end of the drain.
    pub ages: BTreeMap<String, Times>,
    /// Longest time since an exchange without a correct response was sent, nanoseconds; 0: no such
    /// exchange was sent.
    pub longest_service_ns: u64,
}

impl UnansweredAges {
    /// Name of the ages of exchanges that had not ended at the end of the load.
    pub const AT_END: &'static str = "in_flight_at_end";

    pub fn add(&mut self, other: &UnansweredAges) {
        for (name, ages) in &other.ages {
            self.ages.entry(name.clone()).or_default().add(ages);
        }
        self.longest_service_ns = self.longest_service_ns.max(other.longest_service_ns);
    }

    /// Returns the longest age, nanoseconds.
    #[must_use]
    pub fn longest_ns(&self) -> Option<u64> {
        self.ages.values().filter_map(Times::max).max()
    }

    /// Returns the sum of the ages, nanoseconds, with the precision of [`Times`].
    #[must_use]
    pub fn sum_ns(&self) -> f64 {
        self.ages.values().map(|ages| ages.mean().unwrap_or(0.0) * ages.count() as f64).sum()
    }
}

/// Times of the window's exchanges before the window, and times of other exchanges within it.
/// Little's law compares the sum of all times with the integral of the number in flight. These
/// times correct the sum at the edges of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edges {
    /// Ages, when the window opened, of the exchanges that were carried into it; nanoseconds,
    /// summed.
    pub before_ns: u64,
    /// Time that exchanges which do not belong to the window were in flight after it opened;
    /// nanoseconds, summed.
    pub others_ns: u64,
}

impl Edges {
    pub fn add(&mut self, other: &Edges) {
        self.before_ns += other.before_ns;
        self.others_ns += other.others_ns;
    }
}

/// All observations of one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// Start of the load on the machine's monotonic clock.
    pub began_ns: u64,
    /// Edges of the measured window, nanoseconds since the load began.
    pub window_ns: (u64, u64),
    /// Slices of time in which requests were started, from the warm-up to the end of the window,
    /// nanoseconds since the load began. Each round has two slices. Other servers were loaded
    /// between them. `None`: the load did not take turns.
    pub slices_ns: Option<Vec<(u64, u64)>>,
    /// Number of loads that ran at the same time against servers on the same CPUs, including this
    /// one. `None`: the load was alone on the CPUs, or took turns.
    #[serde(rename = "at_once")]
    pub concurrent_loads: Option<u32>,
    pub books: Books,
    pub connections: Connections,
    /// `None`: the kernel does not report it.
    pub tcp: Option<TcpCounters>,
    pub client: ClientUse,
    pub intervals: Vec<Interval>,
    /// `None`: an older archive, for which Little's law cannot be tested.
    pub edges: Option<Edges>,
    pub unanswered: UnansweredAges,
    /// Name of each kind of malformed response, with its count.
    pub protocol_errors: BTreeMap<String, u64>,
    /// `None` without TLS.
    pub tls: Option<TlsUse>,
    /// `None`: HTTP/2 was neither requested nor used.
    pub http2: Option<Http2Use>,
    /// Kinds of failed expectations of responses that were checked in full, with counts.
    pub unexpected: BTreeMap<String, u64>,
    /// Connections that were lost or not established, by the outcome of the oldest exchange on
    /// them.
    pub connection_failures: BTreeMap<String, u64>,
    /// Counters of the monitored parties and of the machine: a sample at each edge of the window,
    /// and samples between.
    pub samples: Vec<Sample>,
    /// Statistics of the subject's runtime, in order of time; empty: the runtime was not queried.
    pub runtime: Vec<RuntimeReading>,
    /// Probes that were attached in addition to the standard observations.
    pub probes: RequestedProbes,
    /// Reason why the server's process ended or stopped responding during the load or right after
    /// it, in words.
    pub server_failure: Option<String>,
    /// Whether the user ended the load early.
    pub cut_short: bool,
    /// Stretches in which no response was complete, in order of time. `None`: the archive is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silences: Option<Vec<Silence>>,
    /// The address to which all connections went; `None`: the address was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Timeouts::is_empty")]
    pub timeouts: Timeouts,
    /// `None`: no request expected 100 (Continue).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continues>,
}

/// Requests with `Expect: 100-continue`, whose bodies wait for the server's 100 (RFC 9110 §10.1.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continues {
    pub asked: u64,
    /// The server sent 100, and dyno sent the body afterwards.
    pub continued: u64,
    /// No 100 arrived within the limit, and the body was sent without it.
    pub waited_in_vain: u64,
    /// A final response arrived instead, and the body was not sent.
    pub answered_instead: u64,
    /// Part of `answered_instead` with status 417: the server does not support the expectation.
    pub refused: u64,
    /// Times from sending a head to the arrival of its 100.
    pub wait: Times,
}

impl Continues {
    pub fn add(&mut self, other: &Continues) {
        self.asked += other.asked;
        self.continued += other.continued;
        self.waited_in_vain += other.waited_in_vain;
        self.answered_instead += other.answered_instead;
        self.refused += other.refused;
        self.wait.add(&other.wait);
    }
}

/// Number of requests that timed out, by how much of the response had arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Timeouts {
    /// The request had not been sent, because the server had not read the bytes before it.
    pub unsent: u64,
    /// No byte of the response had arrived.
    pub nothing: u64,
    /// A part of the head had arrived, or only interim responses.
    pub part_of_head: u64,
    /// The whole head had arrived, and no byte of the body.
    pub head: u64,
    /// A part of a body of known length had arrived.
    pub part_of_body: u64,
    /// A part of a body without an announced length had arrived.
    pub body_without_length: u64,
    /// Bytes of the body that had arrived for one request of `part_of_body` or
    /// `body_without_length`.
    pub example_bytes: Option<u64>,
    /// Announced length of the body of `example_bytes`; `None`: no length was announced.
    pub example_length: Option<u64>,
}

impl Timeouts {
    pub fn add(&mut self, other: &Timeouts) {
        self.unsent += other.unsent;
        self.nothing += other.nothing;
        self.part_of_head += other.part_of_head;
        self.head += other.head;
        self.part_of_body += other.part_of_body;
        self.body_without_length += other.body_without_length;
        if self.example_bytes.is_none() {
            (self.example_bytes, self.example_length) = (other.example_bytes, other.example_length);
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Timeouts::default()
    }
}
