//! A worker: its connections, its part of the schedule and its counters. Each generator thread
//! runs one worker.
//!
//! A *slot* is the place of one connection at a time. An *exchange* is a request and its response.
//! The module is split by task:
//!
//! - `time`: phases, deadlines and timed work.
//! - `connections`: connecting, TLS, failures and reconnects.
//! - `requests`: slots with free capacity, and requests on them.
//! - `responses`: received bytes and the exchanges that they end.
//! - `streams`: requests and responses over HTTP/2.
//! - `continues`: bodies that wait for 100 (Continue).
//! - `frames`: counts specific to HTTP/2.
//! - `pages`: documents with their resources.
//! - `uploads`: requests that leave in several pieces.
//! - `visits`: sequences of requests, with the cookies and values of each visitor.
//! - `unsolicited`: bytes that belong to no request.

mod connections;
mod continues;
mod frames;
mod pages;
mod requests;
mod responses;
mod streams;
mod time;
mod unsolicited;
mod uploads;
mod visits;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use dyno_archive::Protocol;
use dyno_archive::interval::Interval;
use dyno_archive::load::{
    Books, Connections, Continues, Edges, Http2Use, TcpCounters, Timeouts, TlsUse, UnansweredAges,
};
use dyno_archive::outcome::Outcome;
use dyno_archive::plan::Http2;
use dyno_archive::sample::ThreadUse;
use dyno_archive::silence::Silence;

use dyno_wire::h1::response::HeadCache;
use dyno_wire::h2::settings::ClientSettings;

use crate::driver::{ConnId, Driver};
use crate::recorder::{Recorder, Window};
use crate::sequence::CookiePolicy;
use crate::slot::{ConnectionState, Exchange, Slot};
use crate::tls::Tls;
use crate::traffic::{Draws, RequestScratch, Traffic};
use crate::{Instant, Schedule, limits};
use continues::ContinueBooks;
use frames::Http2Counts;
use pages::Pages;
pub use streams::upgrade_settings;
use visits::{VisitTiming, Visits};

/// Configuration of a worker: requests, connections and schedule.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Index of this worker among the workers of the load, from 0.
    pub worker: u32,
    /// Connections of this worker, at least 1.
    pub connections: u32,
    pub protocol: Protocol,
    pub http2: Http2,
    /// Pipeline depth: requests in flight per HTTP/1.1 connection, at least 1.
    pub pipeline: u32,
    /// Open streams per HTTP/2 connection, at least 1; fewer if the server allows fewer.
    pub streams: u32,
    pub schedule: Schedule,
    /// Total number of requests to start; `None`: as many as the window allows.
    pub total: Option<u64>,
    pub traffic: Arc<Traffic>,
    /// Connections per visitor, who loads page after page as a browser does. The traffic is one
    /// page: the first request is the document, the other requests are its resources. `None`: no
    /// pages, and requests are independent.
    pub page_connections: Option<u32>,
    pub draws: Draws,
    /// One in this many responses is checked in full; 1: all, 0: none.
    pub check_one_in: u64,
    pub policy: Policy,
    /// `None`: no TLS.
    pub tls: Option<Tls>,
    pub spin: SpinPolicy,
    pub window: Window,
}

/// Time-outs, and when connections are opened and replaced. All times are in nanoseconds. The
/// hand-over of a request is the instant at which the driver gives it to the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Time-out from the hand-over of a request to the end of its response. The same limit applies
    /// from queueing a request on a connection to its hand-over.
    pub timeout_ns: u64,
    /// Time-out from the hand-over of a request to the first byte of its response; `None`: no
    /// time-out.
    pub first_byte_timeout_ns: Option<u64>,
    /// Connect time-out, TLS handshake included.
    pub connect_timeout_ns: u64,
    /// Number of requests after which a connection is closed and a new one opened; `None`: never.
    pub requests_per_connection: Option<u64>,
    /// Time from the beginning of the load over which the connections are opened one by one;
    /// `None`: all connections are opened before the load.
    pub ramp_ns: Option<u64>,
    /// Whether a slot waits longer after each consecutive connection failure.
    pub backs_off: bool,
}

impl Policy {
    /// Returns the shortest of all time-outs.
    fn shortest_timeout_ns(&self) -> u64 {
        self.shortest_response_timeout_ns().min(self.connect_timeout_ns)
    }

    /// Returns the instant at which an exchange on a connection times out, and the outcome of this
    /// time-out.
    fn exchange_timeout(&self, exchange: &Exchange) -> (Instant, Outcome) {
        if exchange.sent == Instant::NEVER {
            // The request is queued after bytes that the server does not read. This wait has the
            // same limit.
            return (exchange.queued.plus(self.timeout_ns), Outcome::Timeout);
        }
        let response_deadline = exchange.sent.plus(self.timeout_ns);
        if exchange.first_byte == Instant::NEVER
            && let Some(ns) = self.first_byte_timeout_ns
            && exchange.sent.plus(ns) < response_deadline
        {
            return (exchange.sent.plus(ns), Outcome::TimeoutFirstByte);
        }
        (response_deadline, Outcome::Timeout)
    }

    /// Returns the shorter of the response time-out and the first-byte time-out.
    fn shortest_response_timeout_ns(&self) -> u64 {
        self.timeout_ns.min(self.first_byte_timeout_ns.unwrap_or(u64::MAX))
    }
}

/// Whether to poll instead of sleeping when a late wake-up would distort times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinPolicy {
    Never,
    /// Near a deadline, and while a response is expected soon.
    Near,
    Always,
}

/// Results of a worker, apart from its intervals.
#[derive(Clone, Debug)]
pub struct WorkerReport {
    pub books: Books,
    pub connections: Connections,
    pub tcp: Option<TcpCounters>,
    /// `None` without TLS.
    pub tls: Option<TlsUse>,
    /// `None`: HTTP/2 was neither requested nor used.
    pub http2: Option<Http2Use>,
    /// TLS connections of a load with automatic protocol on which the server chose HTTP/1.1.
    pub http1_chosen: u64,
    /// CPU use within the measured window.
    pub cpu: ThreadUse,
    pub edges: Edges,
    pub unanswered: UnansweredAges,
    /// Number of protocol violations in responses, by kind.
    pub protocol_errors: BTreeMap<String, u64>,
    /// Number of differences found by full checks, by message.
    pub unexpected: BTreeMap<String, u64>,
    /// Number of failed connections, by the outcome of the oldest exchange on them.
    pub connection_failures: BTreeMap<String, u64>,
    /// Progress of the responses that timed out.
    pub timeouts: Timeouts,
    /// `None`: no request expects 100 (Continue).
    pub continues: Option<Continues>,
    /// Start and end of the measured window, nanoseconds since the load began.
    pub window_ns: (u64, u64),
    /// Periods without a complete response, in order of time.
    pub silences: Vec<Silence>,
}

/// Detection of servers that set cookies. Only the first responses are searched, so that the load
/// is not slowed.
#[derive(Clone, Copy, Debug)]
struct CookieWatch {
    searches_left: u32,
    has_set_cookie: bool,
}

impl CookieWatch {
    /// Creates the detection for a load. Visitors that keep cookies need none.
    fn new(traffic: &Traffic) -> CookieWatch {
        let keeps_cookies =
            traffic.sequence().is_some_and(|sequence| sequence.cookies == CookiePolicy::Keep);
        let searches_left = if keeps_cookies { 0 } else { limits::COOKIE_SEARCHES };
        CookieWatch { searches_left, has_set_cookie: false }
    }

    #[inline]
    const fn is_searching(self) -> bool {
        self.searches_left > 0 && !self.has_set_cookie
    }

    #[inline]
    fn search<'a, F: Iterator<Item = (&'a [u8], &'a [u8])>>(&mut self, fields: impl FnOnce() -> F) {
        if !self.is_searching() {
            return;
        }
        self.searches_left -= 1;
        self.has_set_cookie = fields().any(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie"));
    }

    /// Returns a message for users if missing cookies can be the cause of this status; `None`: they
    /// are not.
    fn reason(self, status: u16) -> Option<&'static str> {
        match status {
            401 if self.has_set_cookie => Some(
                "status 401: the server sets cookies, and dyno does not send them back (send a \
                 cookie with -H 'Cookie: NAME=VALUE', or keep cookies with --step and --cookies)",
            ),
            403 if self.has_set_cookie => Some(
                "status 403: the server sets cookies, and dyno does not send them back (send a \
                 cookie with -H 'Cookie: NAME=VALUE', or keep cookies with --step and --cookies)",
            ),
            _ => None,
        }
    }
}

/// Stage of a worker's life, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Stage {
    /// The first connections are being opened.
    Opening,
    Warmup,
    Measured,
    Drain,
    Finished,
}

/// A time slice of this worker's load. Loads can take turns: each sends requests only in its own
/// slices.
#[derive(Clone, Copy, Debug)]
struct OwnSlice {
    start: Instant,
    end: Instant,
}

/// Time for which this thread waited for its CPU during the slices of other loads. In these slices
/// this thread wakes occasionally, and waits for the CPU that another load uses. The report
/// excludes these waits, because this thread's load does not cause them.
///
/// The kernel adds a wait to its counter only when the thread runs again. The boundaries of a slice
/// are therefore inexact:
///
/// - The wait for the first wake-up in an own slice counts as a wait in a slice of another load.
/// - The wait for the wake-up that ends an own slice counts as a wait in the own slice.
#[derive(Clone, Copy, Debug, Default)]
struct OffSliceWait {
    /// Total wait at the start of the current slice of another load; `None`: the slice belongs to
    /// this load, or the kernel does not report waits.
    since_ns: Option<u64>,
    /// Wait in the ended slices of other loads in the measured window.
    waited_ns: u64,
}

impl OffSliceWait {
    /// Starts a slice of another load. `total_wait_ns`: total wait of this thread so far.
    fn begin(&mut self, total_wait_ns: Option<u64>) {
        self.since_ns = total_wait_ns;
    }

    /// Ends a slice of another load, or the window.
    fn end(&mut self, total_wait_ns: Option<u64>) {
        let waited_ns = total_wait_ns.zip(self.since_ns.take()).map(|(now, then)| now - then);
        self.waited_ns += waited_ns.unwrap_or(0);
    }
}

/// The state machine of a generator thread. It turns a schedule into operations, and completions
/// into exchanges. Run it with [`crate::run`].
#[derive(Debug)]
pub struct Worker {
    config: WorkerConfig,
    stage: Stage,
    slots: Vec<Slot>,
    /// Slots with room, in the order in which they became free. Open loop only.
    idle_slots: VecDeque<ConnId>,
    /// Intended starts of arrivals that found no slot with room.
    waiting: VecDeque<Instant>,
    /// Slots to retry, by the instant of the retry.
    retries: BinaryHeap<Reverse<(Instant, ConnId)>>,
    /// Earliest instant at which a time-out can expire.
    next_timeout_check: Instant,
    /// When the load began; `NEVER` before.
    began: Instant,
    /// End of the drain.
    drain_ends: Instant,
    /// Number of requests started, compared with `config.total`.
    started: u64,
    /// Number of slots whose first attempt to connect has not ended. Used in stage `Opening`.
    untried_slots: usize,
    /// Time in which slots of a closed loop take requests: the current or next own slice. Without
    /// slices, it has no end.
    slice: OwnSlice,
    /// Whether the slots have been filled for the current slice.
    is_slice_offered: bool,
    recorder: Recorder,
    connections: Connections,
    /// Number of open connections.
    connections_up: u64,
    tcp: Option<TcpCounters>,
    tls: TlsUse,
    /// `None`: the load has no pages.
    pages: Option<Pages>,
    /// `None`: requests are independent of each other.
    visits: Option<Box<Visits>>,
    /// HTTP/2 counts since this worker began.
    frames: Http2Counts,
    /// Copy of `frames` at the start of the measured window.
    frames_base: Http2Counts,
    /// HTTP/2 counts of the measured window, once it is over.
    frames_used: Http2Counts,
    /// This client's settings for HTTP/2 servers.
    settings: ClientSettings,
    /// CPU use of this thread at the start of the measured window.
    cpu_base: ThreadUse,
    off_slice_wait: OffSliceWait,
    /// CPU use of this thread in the measured window, once it is over.
    cpu: ThreadUse,
    /// Sent bytes at the start of the current interval.
    counted_sent_bytes: u64,
    /// Bytes that have left the machine on the connection that is being read. Only valid for
    /// connections with large requests.
    current_sent_bytes: u64,
    /// CPU time of this thread at the start of the current interval.
    counted_cpu_ns: u64,
    /// End of the driver's last wait.
    woke: Instant,
    /// When a request was last handed over or queued.
    last_hand_over: Instant,
    protocol_errors: BTreeMap<String, u64>,
    unexpected: BTreeMap<String, u64>,
    connection_failures: BTreeMap<String, u64>,
    timeouts: Timeouts,
    cookies: CookieWatch,
    /// `None`: no request expects 100 (Continue).
    continues: Option<Box<ContinueBooks>>,
    /// Connections whose TLS session failed to encrypt.
    broken_tls: Vec<ConnId>,
    /// The last HTTP/1.1 response head on any connection, and its parsed form.
    head_cache: HeadCache,
    /// Bytes that the current HTTP/2 connection has written, and that have not gone to the driver.
    /// Empty whenever another connection is handled.
    output: Vec<u8>,
    // Reused memory, so that no exchange allocates.
    /// For HTTP/2 requests.
    scratch: RequestScratch,
    /// For the bytes of an HTTP/1.1 request.
    request: Vec<u8>,
    /// For TLS records to send.
    encrypted: Vec<u8>,
    /// For received TLS records, which are decrypted in place.
    received: Vec<u8>,
}

// Setting up, beginning and ending.
impl Worker {
    #[must_use]
    pub fn new(config: WorkerConfig) -> Self {
        assert!(config.connections > 0 && config.pipeline > 0 && config.streams > 0);
        assert!(config.window.interval_ns > 0);
        let has_streams = config.traffic.requests().iter().all(|request| request.stream.is_some());
        assert!(config.protocol.is_h1() || has_streams, "requests should have an HTTP/2 form");
        // A pipeline is impossible if every request closes its connection.
        let pipeline = if config.traffic.all_close() { 1 } else { config.pipeline };
        let config = WorkerConfig { pipeline, ..config };
        let connections = config.connections;
        let requests = config.traffic.requests().len();
        Worker {
            stage: Stage::Opening,
            slots: (0..connections).map(|_| Slot::new()).collect(),
            idle_slots: VecDeque::new(),
            waiting: VecDeque::new(),
            retries: BinaryHeap::new(),
            next_timeout_check: Instant::NEVER,
            began: Instant::NEVER,
            drain_ends: Instant::NEVER,
            started: 0,
            untried_slots: if config.policy.ramp_ns.is_some() { 0 } else { connections as usize },
            slice: OwnSlice { start: Instant(0), end: Instant::NEVER },
            is_slice_offered: false,
            recorder: Recorder::new(Instant(0), config.window, requests),
            connections: Connections { asked: u64::from(connections), ..Connections::default() },
            connections_up: 0,
            tcp: None,
            tls: TlsUse::default(),
            pages: config
                .page_connections
                .map(|per_visitor| Pages::new(connections, per_visitor, requests)),
            visits: visits(&config),
            frames: Http2Counts::default(),
            frames_base: Http2Counts::default(),
            frames_used: Http2Counts::default(),
            settings: streams::client_settings(&config.http2),
            cpu_base: ThreadUse::default(),
            off_slice_wait: OffSliceWait::default(),
            cpu: ThreadUse::default(),
            counted_sent_bytes: 0,
            current_sent_bytes: 0,
            counted_cpu_ns: 0,
            woke: Instant::default(),
            last_hand_over: Instant::default(),
            protocol_errors: BTreeMap::new(),
            unexpected: BTreeMap::new(),
            connection_failures: BTreeMap::new(),
            timeouts: Timeouts::default(),
            cookies: CookieWatch::new(&config.traffic),
            continues: config.traffic.has_expect_continue().then(Box::default),
            broken_tls: Vec::new(),
            head_cache: HeadCache::new(),
            output: Vec::new(),
            scratch: RequestScratch::default(),
            request: Vec::new(),
            encrypted: Vec::new(),
            received: Vec::new(),
            config,
        }
    }

    /// Begins to open all connections before the load. Does nothing if the policy opens them one by
    /// one during the load.
    pub fn open<D: Driver>(&mut self, driver: &mut D) {
        self.counted_cpu_ns = driver.thread_run_ns();
        self.counted_sent_bytes = driver.taken_bytes();
        if self.config.policy.ramp_ns.is_some() {
            return;
        }
        // The connect times of all first attempts begin at this instant.
        let now = driver.now();
        for conn in 0..self.config.connections {
            self.connect(conn, now, driver);
        }
    }

    /// Whether every connection was tried once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.stage != Stage::Opening || self.untried_slots == 0
    }

    /// Begins the load at `at`.
    pub fn begin(&mut self, at: Instant) {
        assert!(self.stage == Stage::Opening, "a load must begin only once");
        self.stage = Stage::Warmup;
        self.began = at;
        self.select_slice(at);
        self.recorder.begin(at, self.config.window);
        if let Some(ramp_ns) = self.config.policy.ramp_ns {
            // The attempts are evenly spaced, and the first one is immediate. Until its attempt, a
            // slot is treated like a slot that waits for a retry.
            for conn in 0..self.config.connections {
                let delay_ns =
                    u128::from(ramp_ns) * u128::from(conn) / u128::from(self.config.connections);
                self.slots[conn as usize].is_backing_off = true;
                self.retries.push(Reverse((at.plus(delay_ns as u64), conn)));
            }
        }
    }

    /// Ends the measured window at `at`, or as planned if that is earlier.
    pub fn end_window(&mut self, at: Instant) {
        match self.stage {
            Stage::Opening => self.stage = Stage::Finished,
            Stage::Warmup | Stage::Measured => self.recorder.close_window(at),
            Stage::Drain | Stage::Finished => {}
        }
    }

    /// Ends the window as [`end_window`](Self::end_window) does, but exchanges in flight may end
    /// only within [`limits::CUT_DRAIN_NS`] from now, even if the window is already over.
    pub fn end_window_soon(&mut self, at: Instant) {
        let drain_ns = &mut self.config.window.drain_ns;
        *drain_ns = (*drain_ns).min(limits::CUT_DRAIN_NS);
        // After a stop, this function may be called in every turn. The minimum keeps later calls
        // from postponing the end of the drain.
        self.drain_ends = self.drain_ends.min(self.woke.plus(*drain_ns));
        self.end_window(at);
    }

    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    /// Closes all open connections. The driver can then be used for another worker.
    pub fn close<D: Driver>(&mut self, driver: &mut D) {
        for conn in 0..self.config.connections {
            if self.slots[conn as usize].state != ConnectionState::Down {
                driver.close(conn);
            }
        }
    }

    /// Returns the end of the check for unsolicited bytes after the last response; `None`: no
    /// connection to check, or the load never began.
    pub(crate) fn late_bytes_until(&self) -> Option<Instant> {
        (self.began != Instant::NEVER && self.slots.iter().any(Slot::is_quiet))
            .then(|| self.woke.plus(limits::LATE_BYTES_NS))
    }

    /// Returns the number of complete responses so far, correct or not.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.recorder.responses
    }

    #[must_use]
    pub fn has_sealed(&self) -> bool {
        self.recorder.has_sealed()
    }

    pub fn take_sealed(&mut self) -> Vec<Interval> {
        self.recorder.take_sealed()
    }

    #[must_use]
    pub fn report(mut self) -> WorkerReport {
        let since = |at: Instant| if at == Instant::NEVER { 0 } else { at.ns_since(self.began) };
        WorkerReport {
            window_ns: (since(self.recorder.window_start()), since(self.recorder.window_end())),
            unanswered: self.recorder.take_unanswered(),
            silences: self.recorder.take_silences(),
            books: self.recorder.books,
            connections: self.connections,
            tcp: self.tcp,
            tls: self.config.tls.is_some().then_some(self.tls),
            http2: self.frames.report(&self.frames_used, self.config.protocol, self.config.streams),
            http1_chosen: self.frames.http1_chosen,
            cpu: self.cpu,
            edges: self.recorder.edges,
            protocol_errors: self.protocol_errors,
            unexpected: self.unexpected,
            connection_failures: self.connection_failures,
            timeouts: self.timeouts,
            continues: self.continues.map(|books| books.report()),
        }
    }
}

/// Returns the visits of a load; `None`: its requests are independent of each other.
fn visits(config: &WorkerConfig) -> Option<Box<Visits>> {
    let sequence = Arc::clone(config.traffic.sequence()?);
    assert!(config.page_connections.is_none(), "a load has pages or sequences, not both");
    let timing =
        if config.schedule.is_closed() { VisitTiming::Recorded } else { VisitTiming::None };
    let per_connection = config.streams.max(config.pipeline);
    Some(Box::new(Visits::new(sequence, config.connections, per_connection, timing)))
}
