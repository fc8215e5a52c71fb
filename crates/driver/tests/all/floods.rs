//! HTTP/2 servers on real sockets that send control frames, with and without reading the replies.
//! The queue of replies must stay bounded.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use dyno_driver::{Epoll, Uring, sys};
use dyno_engine::driver::{QueuedBytes, Turn, Wait};
use dyno_engine::schedule::Stripe;
use dyno_engine::traffic::{StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Completion, ConnId, Draws, Driver, Expectation, Http2, Instant, Policy,
    Protocol, Schedule, SpinPolicy, Stop, StreamDriver, Traffic, Window, Worker, WorkerConfig,
    WorkerReport,
};
use dyno_model::load::TcpCounters;
use dyno_model::plan::Arrivals;
use dyno_model::sample::ThreadUse;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;

const SECOND: u64 = 1_000_000_000;
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingpong";
const FLOOD: &str = "too many control frames came while the server did not read the replies (RFC \
                     9113 §10.5)";

/// A driver that records the most bytes that waited in its memory.
struct QueueObserver<D> {
    driver: D,
    max_waiting: u64,
}

impl<D: Driver> Driver for QueueObserver<D> {
    fn now(&self) -> Instant {
        self.driver.now()
    }

    fn close(&mut self, conn: ConnId) {
        self.driver.close(conn);
    }

    fn queued_bytes(&self, conn: ConnId) -> QueuedBytes {
        self.driver.queued_bytes(conn)
    }

    fn taken_bytes(&self) -> u64 {
        self.driver.taken_bytes()
    }

    fn flush(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) {
        self.driver.flush(on_handed_over);
    }

    fn turn(&mut self, wait: Wait, on_handed_over: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        self.driver.turn(wait, on_handed_over)
    }

    fn next(&mut self) -> Option<Completion> {
        self.driver.next()
    }

    fn received_bytes(&mut self) -> &mut [u8] {
        self.driver.received_bytes()
    }

    fn thread_use(&self) -> ThreadUse {
        self.driver.thread_use()
    }

    fn thread_run_ns(&self) -> u64 {
        self.driver.thread_run_ns()
    }
}

impl<D: StreamDriver> StreamDriver for QueueObserver<D> {
    fn connect(&mut self, conn: ConnId) {
        self.driver.connect(conn);
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        self.driver.send(conn, bytes);
        self.max_waiting = self.max_waiting.max(self.driver.queued_bytes(conn).waiting);
    }

    fn unsent_bytes(&self, conn: ConnId) -> u64 {
        self.driver.unsent_bytes(conn)
    }

    fn tcp_counters(&mut self, conn: ConnId) -> Option<TcpCounters> {
        self.driver.tcp_counters(conn)
    }
}

fn config() -> WorkerConfig {
    let list: Vec<(Vec<u8>, Vec<u8>)> =
        [(":method", "GET"), (":scheme", "http"), (":authority", "f"), (":path", "/")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
    WorkerConfig {
        worker: 0,
        connections: 1,
        protocol: Protocol::H2c,
        http2: Http2::default(),
        page_connections: None,
        pipeline: 1,
        streams: 1,
        schedule: Schedule::new(
            &Arrivals::Closed,
            &Arc::from([]),
            1,
            Stripe { worker: 0, workers: 1 },
        ),
        total: None,
        traffic: Arc::new(Traffic::single(CompiledRequest {
            template: Template::Fixed(Arc::from([])),
            upgrade: None,
            stream: Some(StreamTemplate::Fixed {
                block: SharedFields::default().encode(&list),
                body: Arc::from([]),
            }),
            kind: RequestKind::Other,
            expect: Expectation::default(),
        })),
        draws: Draws::new(1, 0, 1),
        check_one_in: 1,
        policy: Policy {
            timeout_ns: 60 * SECOND,
            connect_timeout_ns: 60 * SECOND,
            ..Policy::default()
        },
        tls: None,
        spin: SpinPolicy::Never,
        // Without a drain, because the response to the request never arrives.
        window: Window {
            warmup_ns: 0,
            duration_ns: Some(60 * SECOND),
            interval_ns: SECOND / 100,
            drain_ns: 0,
        },
    }
}

/// Runs a load until the server has incremented `done`. Returns the report and the most bytes that
/// waited.
fn run<D: StreamDriver>(driver: D, done: &AtomicU64) -> (WorkerReport, u64) {
    let mut driver = QueueObserver { driver, max_waiting: 0 };
    let mut worker = Worker::new(config());
    let mut begin = None;
    dyno_engine::run(
        &mut worker,
        &mut driver,
        || Some(*begin.get_or_insert_with(sys::now)),
        |_| if done.load(Ordering::Acquire) > 0 { Stop::At(sys::now()) } else { Stop::No },
        drop,
    );
    let report = worker.report();
    assert!(report.books.balance(), "{:?}", report.books);
    (report, driver.max_waiting)
}

/// Starts a server that runs `on_connection` on each connection, and returns its counter. It ends
/// with the test process.
fn serve(on_connection: fn(TcpStream, &AtomicU64)) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&done);
    thread::spawn(move || {
        for stream in listener.incoming() {
            on_connection(stream.unwrap(), &counter);
        }
    });
    (addr, done)
}

/// Sends a frame until the client closes, without reading.
fn flood(mut stream: TcpStream, frame: &[u8], done: &AtomicU64) {
    let frames = frame.repeat(10_000);
    let mut result = stream.write_all(SETTINGS);
    while result.is_ok() {
        result = stream.write_all(&frames);
    }
    done.fetch_add(1, Ordering::Release);
}

/// Sends a thousand PINGs at a time, the next ones once all replies were read.
fn ping_and_read(mut stream: TcpStream, done: &AtomicU64) {
    const BATCH: usize = 1000;
    stream.write_all(SETTINGS).unwrap();
    let ack = [&PING[..4], &[1], &PING[5..]].concat();
    let mut unread = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    for _ in 0..200 {
        stream.write_all(&PING.repeat(BATCH)).unwrap();
        let mut missing = BATCH;
        while missing > 0 {
            let n = stream.read(&mut buffer).unwrap();
            assert!(n > 0, "the connection was closed");
            unread.extend_from_slice(&buffer[..n]);
            while let Some(at) = unread.windows(ack.len()).position(|bytes| bytes == ack) {
                unread.drain(..at + ack.len());
                missing -= 1;
            }
        }
    }
    done.fetch_add(1, Ordering::Release);
}

fn assert_bounded((report, max_waiting): (WorkerReport, u64)) {
    assert!(
        report.protocol_errors.get(FLOOD).is_some_and(|n| *n > 0),
        "{:?}",
        report.protocol_errors
    );
    // Twice the bound, plus twice what one turn can receive: 64 buffers of 8 KiB, or one of 64 KiB.
    assert!(max_waiting < 4 << 20, "{max_waiting} bytes waited");
}

#[test]
fn queue_for_flooding_server_is_bounded() {
    let floods: [fn(TcpStream, &AtomicU64); 2] =
        [|stream, done| flood(stream, PING, done), |stream, done| flood(stream, SETTINGS, done)];
    for on_connection in floods {
        let (addr, done) = serve(on_connection);
        assert_bounded(run(Uring::new(&addr.into(), 1).unwrap(), &done));
        let (addr, done) = serve(on_connection);
        assert_bounded(run(Epoll::new(&addr.into(), 1).unwrap(), &done));
    }
}

#[test]
fn pings_from_reading_server_are_unlimited() {
    let (addr, done) = serve(ping_and_read);
    let (report, _) = run(Uring::new(&addr.into(), 1).unwrap(), &done);
    assert!(report.protocol_errors.is_empty(), "{:?}", report.protocol_errors);
    let (addr, done) = serve(ping_and_read);
    let (report, _) = run(Epoll::new(&addr.into(), 1).unwrap(), &done);
    assert!(report.protocol_errors.is_empty(), "{:?}", report.protocol_errors);
}

/// A message after bytes that the kernel does not take has not been handed over: the driver must
/// report it when it leaves, not before. The peer reads nothing at first.
fn assert_stuck_message_is_not_handed_over<D: StreamDriver>(make: impl FnOnce(SocketAddr) -> D) {
    const MANY: usize = 64 << 20;
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut driver = make(listener.local_addr().unwrap());
    let mut reported = 0;
    let turn = |driver: &mut D, reported: &mut u32| {
        let until = driver.now().plus(SECOND / 100);
        driver.turn(Wait::sleep_until(until), &mut |_, _| *reported += 1);
        while driver.next().is_some() {}
    };
    driver.connect(0);
    listener.set_nonblocking(true).unwrap();
    let mut peer = loop {
        turn(&mut driver, &mut reported);
        if let Ok((peer, _)) = listener.accept() {
            break peer;
        }
    };
    peer.set_nonblocking(false).unwrap();
    (0..5).for_each(|_| turn(&mut driver, &mut reported));
    driver.send(0, &vec![b'x'; MANY]);
    (0..5).for_each(|_| turn(&mut driver, &mut reported));
    assert_eq!(reported, 1, "the kernel has taken part of the first message");
    driver.send(0, b"y");
    (0..5).for_each(|_| turn(&mut driver, &mut reported));
    assert_eq!(reported, 1, "the second message has not left");
    let reader = thread::spawn(move || {
        let mut bytes = vec![0; MANY + 1];
        peer.read_exact(&mut bytes).unwrap();
        (bytes[MANY - 1], bytes[MANY])
    });
    while !reader.is_finished() || reported < 2 {
        turn(&mut driver, &mut reported);
    }
    assert_eq!((reported, reader.join().unwrap()), (2, (b'x', b'y')));
}

#[test]
fn epoll_stuck_message_is_not_handed_over() {
    assert_stuck_message_is_not_handed_over(|addr| Epoll::new(&addr.into(), 1).unwrap());
}

#[test]
fn io_uring_stuck_message_is_not_handed_over() {
    assert_stuck_message_is_not_handed_over(|addr| Uring::new(&addr.into(), 1).unwrap());
}
