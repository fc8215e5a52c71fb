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
//! - `timers`: the deadlines of all connections.
//! - `output`: bytes for the driver, and TLS.
//! - `pages`: documents with their resources.
//! - `unsolicited`: bytes that belong to no request.
//!
//! The worker knows no protocol: see [`Conversation`](crate::conversation::Conversation).

mod connections;
mod output;
mod pages;
mod requests;
mod responses;
mod time;
mod timers;
mod unsolicited;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use dyno_model::interval::Interval;
use dyno_model::load::{
    Books, Connections, Continues, Edges, Http2Use, TcpCounters, Timeouts, TlsUse, UnansweredAges,
};
use dyno_model::sample::ThreadUse;
use dyno_model::silence::Silence;
use output::TlsOutput;
use pages::Pages;
use timers::Timers;

use crate::config::WorkerConfig;
use crate::conversation::{Http2Counts, Shared};
use crate::driver::{ConnId, StreamDriver};
use crate::slot::{ConnectionState, Slot};
use crate::visits::{VisitTiming, Visits};
use crate::{Instant, limits};

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
    /// State that the conversations of all slots share.
    shared: Shared,
    stage: Stage,
    slots: Vec<Slot>,
    /// Slots with room, in the order in which they became free. Open loop only.
    idle_slots: VecDeque<ConnId>,
    /// Intended starts of arrivals that found no slot with room.
    waiting: VecDeque<Instant>,
    /// Slots to retry, by the instant of the retry.
    retries: BinaryHeap<Reverse<(Instant, ConnId)>>,
    /// When connections and exchanges time out.
    timers: Timers,
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
    connections: Connections,
    /// Number of open connections.
    connections_up: u64,
    tcp: Option<TcpCounters>,
    tls: TlsUse,
    /// `None`: the load has no pages.
    pages: Option<Pages>,
    /// Copy of the HTTP/2 counts at the start of the measured window.
    http2_base: Http2Counts,
    /// HTTP/2 counts of the measured window, once it is over.
    http2_used: Http2Counts,
    /// CPU use of this thread at the start of the measured window.
    cpu_base: ThreadUse,
    off_slice_wait: OffSliceWait,
    /// CPU use of this thread in the measured window, once it is over.
    cpu: ThreadUse,
    /// Sent bytes at the start of the current interval.
    counted_sent_bytes: u64,
    /// CPU time of this thread at the start of the current interval.
    counted_cpu_ns: u64,
    /// End of the driver's last wait.
    woke: Instant,
    /// When a request was last handed over or queued.
    last_hand_over: Instant,
    unexpected: BTreeMap<String, u64>,
    connection_failures: BTreeMap<String, u64>,
    tls_output: TlsOutput,
    /// For received TLS records, which are decrypted in place. Reused, so that no exchange
    /// allocates.
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
        let visits = visits(&config);
        Worker {
            stage: Stage::Opening,
            slots: (0..connections).map(|_| Slot::new()).collect(),
            idle_slots: VecDeque::new(),
            waiting: VecDeque::new(),
            retries: BinaryHeap::new(),
            timers: Timers::new(connections, &config.policy),
            drain_ends: Instant::NEVER,
            started: 0,
            untried_slots: if config.policy.ramp_ns.is_some() { 0 } else { connections as usize },
            slice: OwnSlice { start: Instant(0), end: Instant::NEVER },
            is_slice_offered: false,
            connections: Connections { asked: u64::from(connections), ..Connections::default() },
            connections_up: 0,
            tcp: None,
            tls: TlsUse::default(),
            pages: config
                .page_connections
                .map(|per_visitor| Pages::new(connections, per_visitor, requests)),
            http2_base: Http2Counts::default(),
            http2_used: Http2Counts::default(),
            cpu_base: ThreadUse::default(),
            off_slice_wait: OffSliceWait::default(),
            cpu: ThreadUse::default(),
            counted_sent_bytes: 0,
            counted_cpu_ns: 0,
            woke: Instant::default(),
            last_hand_over: Instant::default(),
            unexpected: BTreeMap::new(),
            connection_failures: BTreeMap::new(),
            tls_output: TlsOutput::default(),
            received: Vec::new(),
            shared: Shared::new(config, visits),
        }
    }

    /// Begins to open all connections before the load. Does nothing if the policy opens them one by
    /// one during the load.
    pub fn open<D: StreamDriver>(&mut self, driver: &mut D) {
        self.counted_cpu_ns = driver.thread_run_ns();
        self.counted_sent_bytes = driver.taken_bytes();
        if self.shared.config.policy.ramp_ns.is_some() {
            return;
        }
        // The connect times of all first attempts begin at this instant.
        let now = driver.now();
        for conn in 0..self.shared.config.connections {
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
        self.shared.began = at;
        self.select_slice(at);
        self.shared.recorder.begin(at, self.shared.config.window);
        if let Some(ramp_ns) = self.shared.config.policy.ramp_ns {
            // The attempts are evenly spaced, and the first one is immediate. Until its attempt, a
            // slot is treated like a slot that waits for a retry.
            for conn in 0..self.shared.config.connections {
                let delay_ns = u128::from(ramp_ns) * u128::from(conn)
                    / u128::from(self.shared.config.connections);
                self.slots[conn as usize].is_backing_off = true;
                self.retries.push(Reverse((at.plus(delay_ns as u64), conn)));
            }
        }
    }

    /// Ends the measured window at `at`, or as planned if that is earlier.
    pub fn end_window(&mut self, at: Instant) {
        match self.stage {
            Stage::Opening => self.stage = Stage::Finished,
            Stage::Warmup | Stage::Measured => self.shared.recorder.close_window(at),
            Stage::Drain | Stage::Finished => {}
        }
    }

    /// Ends the window as [`end_window`](Self::end_window) does, but exchanges in flight may end
    /// only within [`limits::CUT_DRAIN_NS`] from now, even if the window is already over.
    pub fn end_window_soon(&mut self, at: Instant) {
        let drain_ns = &mut self.shared.config.window.drain_ns;
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
    pub fn close<D: StreamDriver>(&mut self, driver: &mut D) {
        for conn in 0..self.shared.config.connections {
            if self.slots[conn as usize].state != ConnectionState::Down {
                driver.close(conn);
            }
        }
    }

    /// Returns the end of the check for unsolicited bytes after the last response; `None`: no
    /// connection to check, or the load never began.
    pub(crate) fn late_bytes_until(&self) -> Option<Instant> {
        (self.shared.began != Instant::NEVER && self.slots.iter().any(Slot::is_quiet))
            .then(|| self.woke.plus(limits::LATE_BYTES_NS))
    }

    /// Returns the number of complete responses so far, correct or not.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.shared.recorder.responses
    }

    #[must_use]
    pub fn has_sealed(&self) -> bool {
        self.shared.recorder.has_sealed()
    }

    pub fn take_sealed(&mut self) -> Vec<Interval> {
        self.shared.recorder.take_sealed()
    }

    #[must_use]
    pub fn report(mut self) -> WorkerReport {
        let since =
            |at: Instant| if at == Instant::NEVER { 0 } else { at.ns_since(self.shared.began) };
        WorkerReport {
            window_ns: (
                since(self.shared.recorder.window_start()),
                since(self.shared.recorder.window_end()),
            ),
            unanswered: self.shared.recorder.take_unanswered(),
            silences: self.shared.recorder.take_silences(),
            books: self.shared.recorder.books,
            connections: self.connections,
            tcp: self.tcp,
            tls: self.shared.config.tls.is_some().then_some(self.tls),
            http2: self.shared.http2.report(
                &self.http2_used,
                self.shared.config.protocol,
                self.shared.config.streams,
            ),
            http1_chosen: self.shared.http2.http1_chosen,
            cpu: self.cpu,
            edges: self.shared.recorder.edges,
            protocol_errors: self.shared.protocol_errors,
            unexpected: self.unexpected,
            connection_failures: self.connection_failures,
            timeouts: self.shared.timeouts,
            continues: self.shared.continues.map(|books| books.report()),
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
