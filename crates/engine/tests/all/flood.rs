//! Servers with scripted output. Most send control frames (PING, SETTINGS, …) forever. The queue of
//! replies for a server that does not read must be bounded. A server that reads must get all
//! replies.

use std::collections::VecDeque;
use std::sync::Arc;

use dyno_engine::driver::{QueuedBytes, Turn, Wait};
use dyno_engine::schedule::{Schedule, Stripe};
use dyno_engine::traffic::{StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Completion, CompletionKind, ConnId, Driver, Expectation, Instant, Protocol,
    Stop, StreamDriver, Traffic, Worker, WorkerConfig, WorkerReport, limits,
};
use dyno_model::load::TcpCounters;
use dyno_model::plan::Arrivals;
use dyno_model::sample::ThreadUse;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;
use proptest::prelude::*;

use crate::world::{self, MS, SECOND};

/// Encodes a frame of the server: kind, flags, stream, payload.
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

/// Model of when the kernel takes queued bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// The kernel takes all bytes, this many turns after the hand-over.
    After(u32),
    /// The kernel takes only this many first bytes of a connection.
    Only(u64),
}

/// Behaviour of the server after its output of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AfterSend {
    Continue,
    Close,
    /// Sends further output, each at its instant.
    SendLater(VecDeque<(u64, Vec<u8>)>),
}

impl AfterSend {
    /// Returns when the server sends the next further output.
    fn next_ns(&self) -> u64 {
        let AfterSend::SendLater(later) = self else { return u64::MAX };
        later.front().map_or(u64::MAX, |(at, _)| *at)
    }

    /// Removes and returns the further output that is scheduled until `now`.
    fn take_due(&mut self, now: u64) -> Vec<u8> {
        let is_due = self.next_ns() <= now;
        let AfterSend::SendLater(later) = self else { return Vec::new() };
        if is_due { later.pop_front().map_or(Vec::new(), |(_, output)| output) } else { Vec::new() }
    }
}

/// A driver with one connection to a server that sends the same output in every turn, or given
/// output at given instants, once it has received bytes.
#[derive(Debug)]
struct ScriptedServer {
    now: u64,
    kernel: Kernel,
    /// First bytes of a connection, once it has received some.
    greeting: Vec<u8>,
    output: Vec<u8>,
    after_send: AfterSend,
    /// `None`: no connection.
    connection: Option<Connection>,
    completions: Vec<(CompletionKind, Vec<u8>)>,
    current: Vec<u8>,
    max_waiting: u64,
    /// All bytes sent, over all connections.
    sent: Vec<u8>,
}

#[derive(Debug, Default)]
struct Connection {
    queued: u64,
    taken: u64,
    /// Bytes queued at the end of each turn.
    ends: Vec<u64>,
    /// Whether the server has sent its greeting.
    has_sent_greeting: bool,
    /// Bytes whose hand-over was reported.
    reported: u64,
}

impl ScriptedServer {
    fn new(kernel: Kernel, output: Vec<u8>) -> ScriptedServer {
        let (completions, current, sent) = (Vec::new(), Vec::new(), Vec::new());
        let after_send = AfterSend::Continue;
        ScriptedServer {
            now: 0,
            kernel,
            greeting: settings(),
            output,
            after_send,
            connection: None,
            completions,
            current,
            max_waiting: 0,
            sent,
        }
    }
}

impl Driver for ScriptedServer {
    fn now(&self) -> Instant {
        Instant(self.now)
    }

    fn close(&mut self, _: ConnId) {
        self.connection = None;
        self.completions.clear();
    }

    fn queued_bytes(&self, _: ConnId) -> QueuedBytes {
        let connection = self.connection.as_ref().expect("the connection is open");
        QueuedBytes { taken: connection.taken, waiting: connection.queued - connection.taken }
    }

    fn taken_bytes(&self) -> u64 {
        0
    }

    fn flush(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) {
        let Some(connection) = &mut self.connection else { return };
        // Bytes are handed over only once all bytes before them have left.
        if connection.queued > connection.reported && connection.taken >= connection.reported {
            connection.reported = connection.queued;
            on_handed_over(0, Instant(self.now));
        }
    }

    fn turn(&mut self, wait: Wait, on_handed_over: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        let entered = Instant(self.now);
        self.flush(on_handed_over);
        if let Some(connection) = &mut self.connection {
            connection.ends.push(connection.queued);
            connection.taken = match self.kernel {
                Kernel::After(turns) => {
                    connection.ends.iter().rev().nth(turns as usize).copied().unwrap_or(0)
                }
                Kernel::Only(max_bytes) => connection.queued.min(max_bytes),
            };
            if self.completions.is_empty() {
                let mut bytes = self.output.clone();
                bytes.extend(self.after_send.take_due(self.now));
                let is_greeted =
                    std::mem::replace(&mut connection.has_sent_greeting, connection.queued > 0);
                if !is_greeted && connection.queued > 0 {
                    bytes.splice(0..0, self.greeting.clone());
                }
                if !bytes.is_empty() {
                    self.completions.push((CompletionKind::Received, bytes));
                }
                if self.after_send == AfterSend::Close {
                    self.completions.push((CompletionKind::Eof, Vec::new()));
                }
            }
        }
        // Without output of the server, or without a connection, time advances to the deadline of
        // the worker.
        let output_ns = self.connection.as_ref().map_or(u64::MAX, |_| self.after_send.next_ns());
        let until = wait.until.0.min(output_ns).max(self.now);
        self.now = if self.completions.is_empty() { until } else { self.now + MS };
        Turn { entered, woke: Instant(self.now), spun_ns: 0 }
    }

    fn next(&mut self) -> Option<Completion> {
        if self.completions.is_empty() {
            return None;
        }
        let (kind, bytes) = self.completions.remove(0);
        self.current = bytes;
        Some(Completion { conn: 0, kind, at: Instant(self.now) })
    }

    fn received_bytes(&mut self) -> &mut [u8] {
        &mut self.current
    }

    fn thread_use(&self) -> ThreadUse {
        ThreadUse::default()
    }

    fn thread_run_ns(&self) -> u64 {
        0
    }
}

impl StreamDriver for ScriptedServer {
    fn connect(&mut self, _: ConnId) {
        self.connection = Some(Connection::default());
        self.completions.push((CompletionKind::Connected, Vec::new()));
    }

    fn send(&mut self, _: ConnId, bytes: &[u8]) {
        let connection = self.connection.as_mut().expect("the connection is open");
        connection.queued += bytes.len() as u64;
        self.max_waiting = self.max_waiting.max(connection.queued - connection.taken);
        self.sent.extend_from_slice(bytes);
    }

    fn unsent_bytes(&self, _: ConnId) -> u64 {
        0
    }

    fn tcp_counters(&mut self, _: ConnId) -> Option<TcpCounters> {
        None
    }
}

fn config() -> WorkerConfig {
    let list: Vec<(Vec<u8>, Vec<u8>)> =
        [(":method", "GET"), (":scheme", "http"), (":authority", "f"), (":path", "/")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
    let mut config = world::config(1, &Arrivals::Closed, 2);
    config.protocol = Protocol::H2c;
    config.traffic = Arc::new(Traffic::single(CompiledRequest {
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

fn run(driver: &mut ScriptedServer) -> WorkerReport {
    run_with(driver, config())
}

/// A load with a total number of requests, without a time limit.
fn run_all(driver: &mut ScriptedServer, total: u64) -> WorkerReport {
    let mut config = config();
    config.total = Some(total);
    config.window.duration_ns = None;
    let report = run_with(driver, config);
    assert_eq!((report.books.failed, report.books.completed), (total, 0));
    report
}

fn run_with(driver: &mut ScriptedServer, config: WorkerConfig) -> WorkerReport {
    let mut worker = Worker::new(config);
    dyno_engine::run(&mut worker, driver, || Some(Instant(10 * MS)), |_| Stop::No, drop);
    let report = worker.report();
    assert!(report.books.balance(), "{:?}", report.books);
    report
}

const FLOOD: &str = "too many control frames came while the server did not read the replies (RFC \
                     9113 §10.5)";
/// GOAWAY with ENHANCE_YOUR_CALM.
const CALM: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];

/// Asserts that this output of the server ends the connection as a protocol error.
fn assert_flood_ends_connection(kernel: Kernel, output: &[u8]) {
    let mut driver = ScriptedServer::new(kernel, output.to_vec());
    let report = run(&mut driver);
    let named = report.protocol_errors.get(FLOOD).copied().unwrap_or(0);
    assert!(named > 0, "{:?}", report.protocol_errors);
    assert!(
        driver.sent.windows(CALM.len()).any(|bytes| bytes == CALM),
        "GOAWAY with the reason was not sent"
    );
    // Twice the bound, plus the replies of one turn and the other queued frames.
    let max_bytes = 2 * (limits::REPLY_BYTES + output.len() as u64) + 1000;
    assert!(
        driver.max_waiting <= max_bytes,
        "{} bytes waited, at most {max_bytes} allowed",
        driver.max_waiting
    );
}

/// After the 101 the upgraded request occupies the only stream, also while the settings of the
/// server are awaited.
#[test]
fn upgraded_request_counts_before_settings() {
    for (streams, per_connection) in [(1, None), (4, Some(1))] {
        let mut driver = ScriptedServer::new(Kernel::After(0), Vec::new());
        driver.greeting =
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
                .to_vec();
        driver.after_send = AfterSend::SendLater([(50 * MS, settings())].into());
        let mut config = config();
        config.protocol = Protocol::H2cUpgrade;
        config.streams = streams;
        config.policy.requests_per_connection = per_connection;
        config.policy.timeout_ns = 10 * SECOND;
        let upgrade = b"GET / HTTP/1.1\r\nHost: f\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
        let request = config.traffic.requests()[0].clone();
        config.traffic = Arc::new(Traffic::single(CompiledRequest {
            upgrade: Some(Template::Fixed(Arc::from(&upgrade[..]))),
            ..request
        }));
        let report = run_with(&mut driver, config);
        assert_eq!(report.books.started, 1, "{streams} {per_connection:?}: {:?}", report.books);
    }
}

/// The third request waits in the generator when the second response announces the close.
#[test]
fn unsent_request_survives_announced_close() {
    for method in ["GET", "POST"] {
        let mut driver = ScriptedServer::new(Kernel::Only(1), Vec::new());
        driver.greeting = Vec::new();
        let response =
            |field: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{field}\r\n").into();
        let outputs = ["", "Connection: close\r\n", ""].map(response);
        driver.after_send =
            AfterSend::SendLater([50 * MS, 60 * MS, 70 * MS].into_iter().zip(outputs).collect());
        let mut config = config();
        (config.protocol, config.pipeline, config.total) = (Protocol::H1, 2, Some(3));
        config.window.duration_ns = None;
        config.traffic = Arc::new(Traffic::single(CompiledRequest::from_bytes(
            format!("{method} / HTTP/1.1\r\nHost: f\r\nContent-Length: 0\r\n\r\n").as_bytes(),
            RequestKind::Other,
            Expectation::default(),
        )));
        let report = run_with(&mut driver, config);
        assert_eq!((report.books.completed, report.books.failed), (3, 0), "{method}");
        assert_eq!((report.connections.opened, report.connections.asked_again), (2, 0), "{method}");
    }
}

/// The server closes its connection with the notice 408, which crosses the second request.
#[test]
fn request_crossed_by_notice_on_idle_connection_is_repeated() {
    for (pause_ms, expected) in [(1000, (2, 1)), (400, (1, 0))] {
        let mut driver = ScriptedServer::new(Kernel::After(0), Vec::new());
        driver.greeting = Vec::new();
        let response = |status: &str, field: &str| {
            format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n{field}\r\n").into()
        };
        // The load begins at 10 ms.
        driver.after_send = AfterSend::SendLater(
            [
                (50 * MS, response("200 OK", "")),
                ((pause_ms + 50) * MS, response("408 Request Timeout", "Connection: close\r\n")),
                ((pause_ms + 90) * MS, response("200 OK", "")),
            ]
            .into(),
        );
        let mut config = config();
        (config.protocol, config.total) = (Protocol::H1, Some(2));
        config.window.duration_ns = None;
        let rate = 1000.0 / pause_ms as f64;
        config.schedule = world::config(1, &Arrivals::Constant { rate }, 1).schedule;
        config.traffic = Arc::new(Traffic::single(CompiledRequest::from_bytes(
            b"GET / HTTP/1.1\r\nHost: f\r\n\r\n",
            RequestKind::Other,
            Expectation::default(),
        )));
        let report = run_with(&mut driver, config);
        assert_eq!((report.books.completed, report.books.failed), (2, 0), "{pause_ms} ms");
        let connections = report.connections;
        assert_eq!((connections.opened, connections.asked_again), expected, "{pause_ms} ms");
    }
}

#[test]
fn ping_flood_with_unread_replies_ends_connection() {
    for kernel in [Kernel::Only(0), Kernel::Only(50), Kernel::Only(100_000)] {
        assert_flood_ends_connection(kernel, &ping().repeat(2000));
    }
}

#[test]
fn settings_flood_with_unread_replies_ends_connection() {
    assert_flood_ends_connection(Kernel::Only(100), &settings().repeat(4000));
}

/// Far more than the bound in total, and little of it at one time.
#[test]
fn pings_with_read_replies_are_all_answered() {
    for turns in 0..4 {
        let mut driver = ScriptedServer::new(Kernel::After(turns), ping().repeat(1000));
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

/// The server is not silent, but the queued bytes do not leave.
#[test]
fn requests_time_out_if_server_pings_without_reading() {
    for kernel in [Kernel::Only(0), Kernel::Only(30)] {
        let mut driver = ScriptedServer::new(kernel, ping());
        let report = run_all(&mut driver, 5);
        assert_eq!(outcomes(&report), [("timeout", 5)]);
        assert_eq!(report.connection_failures["timeout"], 5);
        // Half a second each.
        assert!((2500 * MS..3 * SECOND).contains(&driver.now), "{}", driver.now);
    }
}

/// Repeated settings and other frames do not extend the time-out.
#[test]
fn server_with_pings_and_no_streams_refuses_all() {
    let no_streams = frame(4, 0, 0, &[0, 3, 0, 0, 0, 0]);
    let mut driver = ScriptedServer::new(Kernel::After(0), [no_streams, ping()].concat());
    let report = run_all(&mut driver, 3);
    assert_eq!(outcomes(&report), [("stream_refused", 3)]);
    // The first connection is given up before a request is assigned to it, and each of the others
    // with one request.
    assert_eq!(report.connection_failures["stream_refused"], 4);
    assert_eq!(report.http2.unwrap().streams_granted, Some(0));
    assert!((4 * SECOND..5 * SECOND).contains(&driver.now), "{}", driver.now);
}

#[test]
fn server_allowing_streams_briefly_refuses_all() {
    let [one, no_streams] = [1, 0].map(|streams| frame(4, 0, 0, &[0, 3, 0, 0, 0, streams]));
    let mut driver = ScriptedServer::new(Kernel::After(0), [one, no_streams].concat());
    assert_eq!(outcomes(&run_all(&mut driver, 3)), [("stream_refused", 3)]);
}

/// A connection is not closed while the server temporarily allows no streams.
#[test]
fn temporary_stream_ban_keeps_connection() {
    let [one, no_streams] = [1, 0].map(|streams| frame(4, 0, 0, &[0, 3, 0, 0, 0, streams]));
    // The second ban begins after the time-out of the first would have ended, or covers that
    // instant.
    for (from, to) in [(3000, 3500), (300, 1200)] {
        let response = frame(1, 5, 1, &[0x88]);
        let output =
            [(100, &no_streams), (110, &one), (from, &no_streams), (to, &one), (4100, &response)];
        let mut driver = ScriptedServer::new(Kernel::After(0), Vec::new());
        driver.after_send =
            AfterSend::SendLater(output.map(|(ms, output)| (ms * MS, output.clone())).into());
        let trace = Arrivals::Trace { file: String::new(), count: 1, sha256: String::new() };
        let stripe = Stripe { worker: 0, workers: 1 };
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
        assert_eq!(report.http2.unwrap().streams_granted, Some(1), "the ban was temporary");
    }
}

#[test]
fn close_before_first_stream_is_tried_nine_times() {
    let mut driver = ScriptedServer::new(Kernel::After(0), frame(4, 0, 0, &[0, 3, 0, 0, 0, 0]));
    driver.after_send = AfterSend::Close;
    let report = run_all(&mut driver, 2);
    assert_eq!(outcomes(&report), [("closed_early", 2)]);
    // The first connection was opened before the load.
    assert_eq!(report.connections.opened, 1 + 2 * (1 + u64::from(limits::RETRIES)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// For any frames that a server repeats without reading, and any number of bytes that the
    /// kernel takes.
    #[test]
    fn any_frames_without_reads_keep_queue_bounded(
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
        let output: Vec<u8> = frames.concat().repeat(times);
        let mut driver = ScriptedServer::new(Kernel::Only(taken), output.clone());
        run(&mut driver);
        // A reply is at most 1.5 times as long as the frame that causes it. Requests need some more
        // bytes.
        let max_bytes = 2 * (limits::REPLY_BYTES + 2 * output.len() as u64) + 100_000;
        let waited = driver.max_waiting;
        prop_assert!(waited <= max_bytes, "{} bytes waited, at most {} allowed", waited, max_bytes);
    }
}
