//! Servers that ask for responses of the connection itself (PING, SETTINGS, …) for ever. What is
//! queued for one that does not read is bounded; one that reads is answered.

mod world;

use std::collections::VecDeque;
use std::sync::Arc;

use dyno_archive::load::TcpCounters;
use dyno_archive::plan::Arrivals;
use dyno_archive::sample::ThreadUse;
use dyno_engine::driver::{Queued, Turn, Wait};
use dyno_engine::schedule::{Schedule, Stripe};
use dyno_engine::traffic::{StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Completion, CompletionKind, ConnId, Driver, Expectation, Instant, Protocol,
    Stop, Traffic, Worker, WorkerConfig, WorkerReport, limits,
};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;
use proptest::prelude::*;
use world::{MS, SECOND};

/// A frame of the server: kind, flags, stream, payload.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, payload.len() as u8, kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn settings() -> Vec<u8> {
    frame(4, 0, 0, &[])
}

fn ping() -> Vec<u8> {
    frame(6, 0, 0, b"12345678")
}

/// When the kernel takes what is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// All of it, so many turns after it was handed over.
    After(u32),
    /// Only the first so many bytes of a connection.
    Only(u64),
}

/// The server's action after its bytes are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Then {
    GoOn,
    Close,
    /// It says this too, each at its instant.
    Wait(VecDeque<(u64, Vec<u8>)>),
}

impl Then {
    /// When it says something of its own accord.
    fn next(&self) -> u64 {
        let Then::Wait(later) = self else { return u64::MAX };
        later.front().map_or(u64::MAX, |(at, _)| *at)
    }

    fn said_by(&mut self, now: u64) -> Vec<u8> {
        let is_due = self.next() <= now;
        let Then::Wait(later) = self else { return Vec::new() };
        if is_due { later.pop_front().map_or(Vec::new(), |(_, says)| says) } else { Vec::new() }
    }
}

/// One connection to a server that says the same in every turn, or the same at the same instants,
/// whatever it hears.
#[derive(Debug)]
struct Scripted {
    now: u64,
    kernel: Kernel,
    says: Vec<u8>,
    then: Then,
    /// `None`: there is no connection.
    connection: Option<Connection>,
    completions: Vec<(CompletionKind, Vec<u8>)>,
    shown: Vec<u8>,
    most_waiting: u64,
    /// Everything that was sent, over all connections.
    sent: Vec<u8>,
}

#[derive(Debug, Default)]
struct Connection {
    queued: u64,
    taken: u64,
    /// Bytes that had been queued at the end of each turn.
    ends: Vec<u64>,
    /// SETTINGS have come.
    greeted: bool,
    /// Bytes whose handover has been reported.
    reported: u64,
}

impl Scripted {
    fn new(kernel: Kernel, says: Vec<u8>) -> Scripted {
        let (completions, shown, sent) = (Vec::new(), Vec::new(), Vec::new());
        let then = Then::GoOn;
        Scripted {
            now: 0,
            kernel,
            says,
            then,
            connection: None,
            completions,
            shown,
            most_waiting: 0,
            sent,
        }
    }
}

impl Driver for Scripted {
    fn now(&self) -> Instant {
        Instant(self.now)
    }

    fn connect(&mut self, _: ConnId) {
        self.connection = Some(Connection::default());
        self.completions.push((CompletionKind::Connected, Vec::new()));
    }

    fn send(&mut self, _: ConnId, bytes: &[u8]) {
        let connection = self.connection.as_mut().expect("only open connections are sent on");
        connection.queued += bytes.len() as u64;
        self.most_waiting = self.most_waiting.max(connection.queued - connection.taken);
        self.sent.extend_from_slice(bytes);
    }

    fn close(&mut self, _: ConnId) {
        self.connection = None;
        self.completions.clear();
    }

    fn queued(&self, _: ConnId) -> Queued {
        let connection = self.connection.as_ref().expect("only open connections are asked for");
        Queued { taken: connection.taken, waiting: connection.queued - connection.taken }
    }

    fn sent_bytes(&self) -> u64 {
        0
    }

    fn unsent(&self, _: ConnId) -> u64 {
        0
    }

    fn flush(&mut self, handed: &mut dyn FnMut(ConnId, Instant)) {
        let Some(connection) = &mut self.connection else { return };
        // Nothing is handed over before what stands in front of it has left.
        if connection.queued > connection.reported && connection.taken >= connection.reported {
            connection.reported = connection.queued;
            handed(0, Instant(self.now));
        }
    }

    fn turn(&mut self, wait: Wait, handed: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        let entered = Instant(self.now);
        self.flush(handed);
        if let Some(connection) = &mut self.connection {
            connection.ends.push(connection.queued);
            connection.taken = match self.kernel {
                Kernel::After(turns) => {
                    connection.ends.iter().rev().nth(turns as usize).copied().unwrap_or(0)
                }
                Kernel::Only(most) => connection.queued.min(most),
            };
            if self.completions.is_empty() {
                let mut bytes = self.says.clone();
                bytes.extend(self.then.said_by(self.now));
                if !std::mem::replace(&mut connection.greeted, true) {
                    bytes.splice(0..0, settings());
                }
                if !bytes.is_empty() {
                    self.completions.push((CompletionKind::Received, bytes));
                }
                if self.then == Then::Close {
                    self.completions.push((CompletionKind::Eof, Vec::new()));
                }
            }
        }
        // Where the server waits too, or is not there, nothing happens before the worker's own
        // deadline.
        let says_at = self.connection.as_ref().map_or(u64::MAX, |_| self.then.next());
        let until = wait.until.0.min(says_at).max(self.now);
        self.now = if self.completions.is_empty() { until } else { self.now + MS };
        Turn { entered, woke: Instant(self.now), spun_ns: 0 }
    }

    fn next(&mut self) -> Option<Completion> {
        if self.completions.is_empty() {
            return None;
        }
        let (what, bytes) = self.completions.remove(0);
        self.shown = bytes;
        Some(Completion { conn: 0, what, at: Instant(self.now) })
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.shown
    }

    fn tcp(&mut self, _: ConnId) -> Option<TcpCounters> {
        None
    }

    fn thread_use(&self) -> ThreadUse {
        ThreadUse::default()
    }

    fn thread_run_ns(&self) -> u64 {
        0
    }
}

fn config() -> WorkerConfig {
    let list: Vec<(Vec<u8>, Vec<u8>)> =
        [(":method", "GET"), (":scheme", "http"), (":authority", "f"), (":path", "/")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
    let mut config = world::config(1, &Arrivals::Closed, 2);
    config.protocol = Protocol::H2c;
    config.traffic = Arc::new(Traffic::one(CompiledRequest {
        template: Template::Fixed(Arc::from([])),
        upgrade: None,
        stream: Some(StreamTemplate::Fixed {
            block: SharedFields::default().encode(&list),
            body: Arc::from([]),
        }),
        kind: RequestKind::Other,
        expect: Expectation::default(),
    }));
    config.policy.timeout_ns = SECOND / 2;
    config.window.drain_ns = SECOND;
    config
}

fn run(driver: &mut Scripted) -> WorkerReport {
    run_with(driver, config())
}

/// A load of so many requests, however long they take.
fn run_all(driver: &mut Scripted, total: u64) -> WorkerReport {
    let mut config = config();
    config.total = Some(total);
    config.window.duration_ns = None;
    let report = run_with(driver, config);
    assert_eq!((report.books.failed, report.books.completed), (total, 0));
    report
}

fn run_with(driver: &mut Scripted, config: WorkerConfig) -> WorkerReport {
    let mut worker = Worker::new(config);
    dyno_engine::run(&mut worker, driver, || Some(Instant(10 * MS)), |_| Stop::No, drop);
    let report = worker.report();
    assert!(report.books.balance(), "{:?}", report.books);
    report
}

const FLOOD: &str = "control frames flood in while their answers wait unread (RFC 9113 §10.5)";
/// GOAWAY with ENHANCE_YOUR_CALM.
const CALM: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];

fn assert_ended(kernel: Kernel, says: &[u8]) {
    let mut driver = Scripted::new(kernel, says.to_vec());
    let report = run(&mut driver);
    let named = report.protocol_errors.get(FLOOD).copied().unwrap_or(0);
    assert!(named > 0, "{:?}", report.protocol_errors);
    assert!(
        driver.sent.windows(CALM.len()).any(|bytes| bytes == CALM),
        "the reason is not sent to the server"
    );
    // Twice the bound, and on top the replies of one turn and the other queued frames.
    let most = 2 * (limits::REPLY_BYTES + says.len() as u64) + 1000;
    assert!(
        driver.most_waiting <= most,
        "{} bytes waited, {most} at most may",
        driver.most_waiting
    );
}

#[test]
fn flood_of_pings_with_unread_answers_ends_the_connection() {
    for kernel in [Kernel::Only(0), Kernel::Only(50), Kernel::Only(100_000)] {
        assert_ended(kernel, &ping().repeat(2000));
    }
}

#[test]
fn so_does_a_flood_of_settings() {
    assert_ended(Kernel::Only(100), &settings().repeat(4000));
}

/// Far more than the bound in all, and never much of it at once.
#[test]
fn pings_whose_answers_leave_are_all_answered() {
    for turns in 0..4 {
        let mut driver = Scripted::new(Kernel::After(turns), ping().repeat(1000));
        let report = run(&mut driver);
        assert!(report.protocol_errors.is_empty(), "{:?}", report.protocol_errors);
        let ack = frame(6, 1, 0, b"12345678");
        let acks = driver.sent.windows(ack.len()).filter(|bytes| *bytes == ack).count() as u64;
        assert!(acks > 20 * limits::REPLY_BYTES / ack.len() as u64, "{acks}");
    }
}

fn outcomes(report: &WorkerReport) -> Vec<(&str, u64)> {
    report.unanswered.ages.iter().map(|(outcome, ages)| (&outcome[..], ages.count())).collect()
}

/// The connection is not silent, but what is queued on it does not leave.
#[test]
fn server_that_pings_and_does_not_read_costs_each_request_its_time_out() {
    for kernel in [Kernel::Only(0), Kernel::Only(30)] {
        let mut driver = Scripted::new(kernel, ping());
        let report = run_all(&mut driver, 5);
        assert_eq!(outcomes(&report), [("timeout", 5)]);
        assert_eq!(report.connection_failures["timeout"], 5);
        // Half a second each.
        assert!((2500 * MS..3 * SECOND).contains(&driver.now), "{}", driver.now);
    }
}

/// However often it says so, and whatever else it says meanwhile.
#[test]
fn server_that_pings_and_allows_no_stream_refuses_all() {
    let none = frame(4, 0, 0, &[0, 3, 0, 0, 0, 0]);
    let mut driver = Scripted::new(Kernel::After(0), [none, ping()].concat());
    let report = run_all(&mut driver, 3);
    assert_eq!(outcomes(&report), [("stream_refused", 3)]);
    // The first connection is given up before anything is to be asked on it, and each of the others
    // with one request.
    assert_eq!(report.connection_failures["stream_refused"], 4);
    assert!((4 * SECOND..5 * SECOND).contains(&driver.now), "{}", driver.now);
}

#[test]
fn server_that_allows_a_stream_for_a_moment_refuses_all() {
    let [one, none] = [1, 0].map(|streams| frame(4, 0, 0, &[0, 3, 0, 0, 0, streams]));
    let mut driver = Scripted::new(Kernel::After(0), [one, none].concat());
    assert_eq!(outcomes(&run_all(&mut driver, 3)), [("stream_refused", 3)]);
}

/// A connection on which no stream is due meanwhile.
#[test]
fn server_that_bars_streams_now_and_then_keeps_its_connection() {
    let [one, none] = [1, 0].map(|streams| frame(4, 0, 0, &[0, 3, 0, 0, 0, streams]));
    // The second bar begins later than the first may last, or is there when the first would have
    // lasted too long.
    for (from, to) in [(3000, 3500), (300, 1200)] {
        let answer = frame(1, 5, 1, &[0x88]);
        let says = [(100, &none), (110, &one), (from, &none), (to, &one), (4100, &answer)];
        let mut driver = Scripted::new(Kernel::After(0), Vec::new());
        driver.then = Then::Wait(says.map(|(ms, says)| (ms * MS, says.clone())).into());
        let trace = Arrivals::Trace { file: String::new(), count: 1, sha256: String::new() };
        let stripe = Stripe { worker: 0, of: 1 };
        let mut config = config();
        config.schedule = Schedule::new(&trace, &Arc::from([4 * SECOND]), 0, stripe);
        config.window.duration_ns = Some(6 * SECOND);
        let report = run_with(&mut driver, config);
        assert_eq!(report.connection_failures.len(), 0, "{:?}", report.connection_failures);
        assert_eq!(
            (report.connections.opened, report.books.completed),
            (1, 1),
            "{:?}",
            report.books
        );
    }
}

#[test]
fn server_that_closes_before_any_stream_is_allowed_has_nine_tries() {
    let mut driver = Scripted::new(Kernel::After(0), frame(4, 0, 0, &[0, 3, 0, 0, 0, 0]));
    driver.then = Then::Close;
    let report = run_all(&mut driver, 2);
    assert_eq!(outcomes(&report), [("closed_early", 2)]);
    // The first was there before the load was.
    assert_eq!(report.connections.opened, 1 + 2 * (1 + u64::from(limits::RETRIES)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// For any bytes that a server sends for ever without reading, and any amount that the kernel
    /// takes for it.
    #[test]
    fn nothing_that_a_server_says_makes_the_queue_grow(
        taken in 0u64..100_000,
        frames in proptest::collection::vec(prop_oneof![
            3 => Just(ping()),
            2 => Just(settings()),
            1 => Just(frame(4, 0, 0, &[0, 1, 0, 0, 0, 0])),
            1 => Just(frame(8, 0, 0, &[0, 0, 0, 1])),
            1 => Just(frame(6, 1, 0, b"12345678")),
            1 => (0u32..20).prop_map(|id| frame(3, 0, 2 * id + 1, &[0, 0, 0, 7])),
            1 => (0u32..20).prop_map(|id| frame(1, 5, 2 * id + 1, &[0x88])),
            1 => (0u32..20).prop_map(|id| frame(0, 0, 2 * id + 1, b"data")),
            1 => (0u32..20).prop_map(|id| frame(8, 0, 2 * id + 1, &[0, 0, 0, 0])),
        ], 1..20),
        times in 1usize..600,
    ) {
        let says: Vec<u8> = frames.concat().repeat(times);
        let mut driver = Scripted::new(Kernel::Only(taken), says.clone());
        run(&mut driver);
        // An answer is at most one and a half times as long as what brings it about, and what a
        // request takes comes on top.
        let most = 2 * (limits::REPLY_BYTES + 2 * says.len() as u64) + 100_000;
        let waited = driver.most_waiting;
        prop_assert!(waited <= most, "{} bytes waited, {} at most may", waited, most);
    }
}
