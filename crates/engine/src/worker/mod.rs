//! One worker: its connections, its share of the schedule, its books.
//!
//! `time` moves the phases on and starts what is due; `connections` opens, secures, loses and
//! reopens them; `exchanges` sends requests and reads answers, `streams` does so over HTTP/2,
//! `continues` holds bodies back, and `frames` counts what only HTTP/2 has; `pages` loads documents
//! with their resources; `uploads` knows which requests have left in full, and `unsolicited` deals
//! with bytes that answer no request.

mod connections;
mod continues;
mod exchanges;
mod frames;
mod pages;
mod streams;
mod time;
mod unsolicited;
mod uploads;

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
use crate::slot::{ConnectionState, Exchange, Slot};
use crate::tls::Tls;
use crate::traffic::{Draws, RequestScratch, Traffic};
use crate::{Instant, Schedule, limits};
use continues::ContinueBooks;
use frames::Frames;
use pages::Pages;
pub use streams::upgrade_settings;

/// The configuration of a worker: what it sends, over which connections, and when.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Number of this worker among those of the load, from 0.
    pub worker: u32,
    /// Connections of this worker, at least 1.
    pub connections: u32,
    pub protocol: Protocol,
    pub http2: Http2,
    /// Requests in flight per connection of HTTP/1.1 without waiting for responses, at least 1.
    pub pipeline: u32,
    /// Streams open at once per connection of HTTP/2, at least 1; fewer where the server allows no
    /// more.
    pub streams: u32,
    pub schedule: Schedule,
    /// Requests to start in all; `None`: as many as the window allows.
    pub total: Option<u64>,
    pub traffic: Arc<Traffic>,
    /// Connections that load a page together: the traffic is the page, its first request the
    /// document and the others its resources. `None`: no pages; requests are independent of each
    /// other.
    pub page_connections: Option<u32>,
    pub draws: Draws,
    /// One in this many responses is checked in full; 1: every one, 0: none.
    pub check_one_in: u64,
    pub policy: Policy,
    /// `None`: plain connections.
    pub tls: Option<Tls>,
    pub spin: SpinPolicy,
    pub window: Window,
}

/// Time-outs, and when connections are opened and replaced. All times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Longest time from the hand-over of a request to the end of its response, and from its being
    /// queued on a connection to the hand-over.
    pub timeout_ns: u64,
    /// Longest time from the hand-over of a request to the first byte of its response; `None`: only
    /// the whole response has a limit.
    pub first_byte_timeout_ns: Option<u64>,
    /// Longest time for a connection to come about, the TLS handshake included.
    pub connect_timeout_ns: u64,
    /// After this many requests a connection is closed and a new one opened; `None`: never.
    pub requests_per_connection: Option<u64>,
    /// Time over which the connections are opened one by one, from the beginning of the load;
    /// `None`: all of them before it begins.
    pub ramp_ns: Option<u64>,
    /// Whether a slot whose connections fail one after the other waits ever longer before it opens
    /// the next.
    pub backs_off: bool,
}

impl Policy {
    /// The shortest of the time-outs.
    fn soonest_timeout_ns(&self) -> u64 {
        self.soonest_answer_timeout_ns().min(self.connect_timeout_ns)
    }

    /// When an exchange that is on a connection times out, and as what.
    fn due(&self, exchange: &Exchange) -> (Instant, Outcome) {
        if exchange.sent == Instant::NEVER {
            // Bytes that do not leave stand behind others that the server does not read: their wait
            // has the same limit.
            return (exchange.queued.plus(self.timeout_ns), Outcome::Timeout);
        }
        let whole = (exchange.sent.plus(self.timeout_ns), Outcome::Timeout);
        let first_byte =
            self.first_byte_timeout_ns.filter(|_| exchange.first_byte == Instant::NEVER);
        let first_byte = first_byte.map(|ns| (exchange.sent.plus(ns), Outcome::TimeoutFirstByte));
        first_byte.map_or(whole, |f| if f.0 < whole.0 { f } else { whole })
    }

    /// The shortest of the time-outs that count from a hand-over, or from when it should have been.
    fn soonest_answer_timeout_ns(&self) -> u64 {
        self.timeout_ns.min(self.first_byte_timeout_ns.unwrap_or(u64::MAX))
    }
}

/// Whether to poll instead of sleeping where waking late would blur times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinPolicy {
    Never,
    /// Close to a deadline, and while a response is due any moment.
    Near,
    Always,
}

/// The report of a worker at its end, besides its intervals.
#[derive(Clone, Debug)]
pub struct WorkerReport {
    pub books: Books,
    pub connections: Connections,
    pub tcp: Option<TcpCounters>,
    /// `None` without TLS.
    pub tls: Option<TlsUse>,
    /// `None` unless HTTP/2 was asked for, or spoken.
    pub http2: Option<Http2Use>,
    /// CPU use within the measured window.
    pub cpu: ThreadUse,
    pub edges: Edges,
    pub unanswered: UnansweredAges,
    /// Number of protocol violations in responses, by kind.
    pub protocol_errors: BTreeMap<String, u64>,
    /// Number of faults found by full checks, by the fault in words.
    pub unexpected: BTreeMap<String, u64>,
    /// Connections that were lost, or did not come about, by the outcome of the oldest exchange on
    /// them.
    pub connection_failures: BTreeMap<String, u64>,
    /// Progress of the responses that timed out.
    pub timeouts: Timeouts,
    /// `None` unless requests expect 100 (Continue).
    pub continues: Option<Continues>,
    /// Edges of the measured window, nanoseconds since the load began.
    pub window_ns: (u64, u64),
    /// Stretches without a complete response, in order of time.
    pub silences: Vec<Silence>,
}

/// Whether the server sets cookies. The first responses are searched, so that a load is not slowed.
#[derive(Clone, Copy, Debug)]
struct CookieWatch {
    looks_left: u32,
    are_set: bool,
}

impl CookieWatch {
    const fn new() -> CookieWatch {
        CookieWatch { looks_left: limits::COOKIE_LOOKS, are_set: false }
    }

    #[inline]
    const fn is_looking(self) -> bool {
        self.looks_left > 0 && !self.are_set
    }

    #[inline]
    fn look<'a, F: Iterator<Item = (&'a [u8], &'a [u8])>>(&mut self, fields: impl FnOnce() -> F) {
        if !self.is_looking() {
            return;
        }
        self.looks_left -= 1;
        self.are_set = fields().any(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie"));
    }

    /// Why a response with this status may be due to cookies, in words; `None`: it is not.
    fn reason(self, status: u16) -> Option<&'static str> {
        match status {
            401 if self.are_set => Some(
                "status 401, and dyno does not send back the cookies that responses set (send one \
                 with -H 'Cookie: NAME=VALUE')",
            ),
            403 if self.are_set => Some(
                "status 403, and dyno does not send back the cookies that responses set (send one \
                 with -H 'Cookie: NAME=VALUE')",
            ),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Stage {
    /// The first connections are being made.
    Opening,
    Warmup,
    Measured,
    Drain,
    Finished,
}

/// Time that this thread waited for a CPU in other loads' slices: it wakes there now and then while
/// the load whose turn it is uses that CPU. Such waits are not due to its own load. The counter is
/// read when the thread has run again. So the wait for the first wake-up in an own slice is left
/// out, and the wait for the wake-up that ends the slice is included.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    /// All its waiting up to when the present rest began; `None`: the slice is its own, or the
    /// kernel does not report it.
    since_ns: Option<u64>,
    /// Waiting of the rests of the measured window that are over.
    waited_ns: u64,
}

impl Rest {
    /// The slice is another's from now on. `waited_ns`: all waiting of this thread so far.
    fn begin(&mut self, waited_ns: Option<u64>) {
        self.since_ns = waited_ns;
    }

    /// It is its own again, or the window is over.
    fn end(&mut self, waited_ns: Option<u64>) {
        let rested = waited_ns.zip(self.since_ns.take()).map(|(now, then)| now - then);
        self.waited_ns += rested.unwrap_or(0);
    }
}

/// A pure state machine that turns a schedule into operations and completions into exchanges.
/// Driven by [`crate::run`].
#[derive(Debug)]
pub struct Worker {
    config: WorkerConfig,
    stage: Stage,
    slots: Vec<Slot>,
    /// Slots with room, in the order in which they fell free. Open loop only.
    idle: VecDeque<ConnId>,
    /// Arrivals that found no slot with room; each keeps its own intended time.
    waiting: VecDeque<Instant>,
    /// Slots that try again at an instant.
    retries: BinaryHeap<Reverse<(Instant, ConnId)>>,
    /// No time-out can be due before this instant.
    next_timeout_check: Instant,
    /// When the load began; `NEVER` before.
    began: Instant,
    /// Until when what is in flight may end.
    drain_ends: Instant,
    /// Requests started, against `config.total`.
    begun: u64,
    /// Slots that have not been tried while opening.
    untried: usize,
    /// From when until when slots may take work in a closed loop: all the time, or the own slice
    /// that comes next.
    slice: (Instant, Instant),
    /// Whether the slots have been offered their first work of the slice.
    offered: bool,
    recorder: Recorder,
    connections: Connections,
    /// Connections that are up.
    up: u64,
    tcp: Option<TcpCounters>,
    tls: TlsUse,
    /// `None` unless pages are loaded.
    pages: Option<Pages>,
    /// Counts of HTTP/2 since this worker began.
    frames: Frames,
    /// A copy of `frames` from when the measured window began.
    frames_base: Frames,
    /// The counts of the measured window, once it is over.
    frames_used: Frames,
    /// Our settings, which are announced to HTTP/2 servers.
    settings: ClientSettings,
    /// CPU use of this thread up to the beginning of the measured window.
    cpu_base: ThreadUse,
    rest: Rest,
    /// CPU use of this thread in the measured window, once it is over.
    cpu: ThreadUse,
    /// Bytes that had left when the present interval began.
    sent_settled: u64,
    /// How many bytes of the connection that is being read had left. Only of connections with large
    /// requests.
    left: u64,
    /// CPU time of this thread when the present interval began.
    cpu_settled_ns: u64,
    /// When control was last handed to the worker.
    woke: Instant,
    /// When a request was last handed over, or queued to be.
    last_handed: Instant,
    protocol_errors: BTreeMap<String, u64>,
    unexpected: BTreeMap<String, u64>,
    connection_failures: BTreeMap<String, u64>,
    timeouts: Timeouts,
    cookies: CookieWatch,
    /// `None` unless requests expect 100 (Continue).
    continues: Option<Box<ContinueBooks>>,
    /// Connections whose TLS session has failed while sending.
    broken: Vec<ConnId>,
    /// The head of the last HTTP/1.1 answer on any connection, and the result of parsing it.
    head_cache: HeadCache,
    /// Bytes that an HTTP/2 connection has written, until they go to the driver. Empty whenever
    /// another connection's turn comes.
    out: Vec<u8>,
    // The rest is memory that is kept from one use to the next, so that no exchange allocates.
    /// For requests of HTTP/2.
    scratch: RequestScratch,
    /// For the bytes of a request of HTTP/1.1.
    request: Vec<u8>,
    /// For TLS records to be sent.
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
        assert!(config.protocol.is_h1() || has_streams, "requests are compiled for their protocol");
        // Behind a request that ends its connection there is no place in a pipeline.
        let pipeline = if config.traffic.all_close() { 1 } else { config.pipeline };
        let config = WorkerConfig { pipeline, ..config };
        let asked = config.connections;
        let kinds = config.traffic.requests().len();
        Worker {
            stage: Stage::Opening,
            slots: (0..asked).map(|_| Slot::new()).collect(),
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
            retries: BinaryHeap::new(),
            next_timeout_check: Instant::NEVER,
            began: Instant::NEVER,
            drain_ends: Instant::NEVER,
            begun: 0,
            untried: if config.policy.ramp_ns.is_some() { 0 } else { asked as usize },
            slice: (Instant(0), Instant::NEVER),
            offered: false,
            recorder: Recorder::new(Instant(0), config.window, kinds),
            connections: Connections { asked: u64::from(asked), ..Connections::default() },
            up: 0,
            tcp: None,
            tls: TlsUse::default(),
            pages: config.page_connections.map(|each| Pages::new(asked, each, kinds)),
            frames: Frames::default(),
            frames_base: Frames::default(),
            frames_used: Frames::default(),
            settings: streams::client_settings(&config.http2),
            cpu_base: ThreadUse::default(),
            rest: Rest::default(),
            cpu: ThreadUse::default(),
            sent_settled: 0,
            left: 0,
            cpu_settled_ns: 0,
            woke: Instant::default(),
            last_handed: Instant::default(),
            protocol_errors: BTreeMap::new(),
            unexpected: BTreeMap::new(),
            connection_failures: BTreeMap::new(),
            timeouts: Timeouts::default(),
            cookies: CookieWatch::new(),
            continues: config.traffic.some_expect().then(Box::default),
            broken: Vec::new(),
            head_cache: HeadCache::new(),
            out: Vec::new(),
            scratch: RequestScratch::default(),
            request: Vec::new(),
            encrypted: Vec::new(),
            received: Vec::new(),
            config,
        }
    }

    /// Begins to open all connections, so that the load begins with them in place, unless they are
    /// to be opened one by one during it.
    pub fn open<D: Driver>(&mut self, driver: &mut D) {
        self.cpu_settled_ns = driver.thread_run_ns();
        self.sent_settled = driver.sent_bytes();
        if self.config.policy.ramp_ns.is_some() {
            return;
        }
        // All first connections are asked for in one go, from this instant.
        let now = driver.now();
        for conn in 0..self.config.connections {
            self.connect(conn, now, driver);
        }
    }

    /// Whether every connection has been tried once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.stage != Stage::Opening || self.untried == 0
    }

    /// The load begins at `at`.
    pub fn begin(&mut self, at: Instant) {
        assert!(self.stage == Stage::Opening, "a load begins once");
        self.stage = Stage::Warmup;
        self.began = at;
        self.await_slice(at);
        self.recorder.begin(at, self.config.window);
        if let Some(ramp_ns) = self.config.policy.ramp_ns {
            // Evenly, the first one at once. Until its turn a slot waits like one that tries again
            // later.
            for conn in 0..self.config.connections {
                let share =
                    u128::from(ramp_ns) * u128::from(conn) / u128::from(self.config.connections);
                self.slots[conn as usize].backing_off = true;
                self.retries.push(Reverse((at.plus(share as u64), conn)));
            }
        }
    }

    /// Ends the measured window at `at`, or as planned if that is earlier.
    pub fn cut(&mut self, at: Instant) {
        match self.stage {
            Stage::Opening => self.stage = Stage::Finished,
            Stage::Warmup | Stage::Measured => self.recorder.close_window(at),
            Stage::Drain | Stage::Finished => {}
        }
    }

    /// As [`cut`](Self::cut). What is in flight may end only within [`limits::CUT_DRAIN_NS`] from
    /// now, also if the window is over.
    pub fn hurry(&mut self, at: Instant) {
        let drain_ns = &mut self.config.window.drain_ns;
        *drain_ns = (*drain_ns).min(limits::CUT_DRAIN_NS);
        // From the first wake-up at which it is known; later ones do not put the end off.
        self.drain_ends = self.drain_ends.min(self.woke.plus(*drain_ns));
        self.cut(at);
    }

    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    /// Closes what is still open. The driver may be used for another worker afterwards.
    pub fn close<D: Driver>(&mut self, driver: &mut D) {
        for conn in 0..self.config.connections {
            if self.slots[conn as usize].state != ConnectionState::Down {
                driver.close(conn);
            }
        }
    }

    /// How long to look for bytes that answer no request once everything has been answered; `None`:
    /// there is nothing to look at, or the load never began.
    pub(crate) fn last_look(&self) -> Option<Instant> {
        let is_quiet = |slot: &Slot| slot.is_quiet();
        (self.began != Instant::NEVER && self.slots.iter().any(is_quiet))
            .then(|| self.woke.plus(limits::LAST_LOOK_NS))
    }

    /// Complete responses so far, right or wrong.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.recorder.answers
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
            window_ns: (since(self.recorder.window_start()), since(self.recorder.closes())),
            unanswered: self.recorder.take_unanswered(),
            silences: self.recorder.take_silences(),
            books: self.recorder.books,
            connections: self.connections,
            tcp: self.tcp,
            tls: self.config.tls.is_some().then_some(self.tls),
            http2: self.frames.report(&self.frames_used, self.config.protocol, self.config.streams),
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
