//! No allocation per exchange: a load that is on its way allocates nothing at all.
//!
//! Time here is virtual, over real sockets too, so that the counts are exact on any machine: a load
//! of the simulated world, and one of each real driver against a peer of the same thread, whose
//! answers are all there before time goes on. Early in each load the server stalls, so that every
//! list has grown as far as it ever will when counting begins.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;

use dyno_archive::load::TcpCounters;
use dyno_archive::plan::Arrivals;
use dyno_archive::sample::ThreadUse;
use dyno_driver::{Endpoint, Epoll, Uring};
use dyno_engine::driver::{Queued, Turn, Wait};
use dyno_engine::expect::Expectation;
use dyno_engine::schedule::Stripe;
use dyno_engine::sim::{Pause, Queue, ServerModel, ServiceTime, SimDriver, World};
use dyno_engine::traffic::{FieldPiece, RequestPart, StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Completion, CompletionKind, ConnId, Draws, Driver, Http2, Instant, Policy,
    Protocol, Schedule, SpinPolicy, Stop, Traffic, Window, Worker, WorkerConfig, limits,
};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h1::{encode, request};
use dyno_wire::h2::encode::put_name;
use dyno_wire::h2::settings::ServerSettings;
use dyno_wire::h2::{EncodedBlock, SharedFields, server as h2};

/// Allocator that counts the requests of each thread, unless counting is off for it.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
    static LOOKS_AWAY: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if !LOOKS_AWAY.with(Cell::get) {
        ASKED.with(|asked| asked.set(asked.get() + 1));
    }
}

/// Runs the server's part of the work without counting.
fn uncounted<R>(work: impl FnOnce() -> R) -> R {
    let before = LOOKS_AWAY.with(|looks_away| looks_away.replace(true));
    let result = work();
    LOOKS_AWAY.with(|looks_away| looks_away.set(before));
    result
}

/// Runs the worker's callback inside of that part with counting.
fn count_allocations<R>(work: impl FnOnce() -> R) -> R {
    let before = LOOKS_AWAY.with(|looks_away| looks_away.replace(false));
    let result = work();
    LOOKS_AWAY.with(|looks_away| looks_away.set(before));
    result
}

// SAFETY: everything is passed on to the system's allocator as it came.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const CONNECTIONS: u32 = 32;
const BODY: &[u8] = b"Hello, World!";

/// The server does nothing from here on, for so long: 2,000 arrivals of the open loops.
const STALL: Pause = Pause { at_ns: 2 * MS, for_ns: 100 * MS };

/// By now what the stall held up is answered, and allocations are counted.
const STEADY_NS: u64 = STALL.at_ns + STALL.for_ns + 5 * MS;

/// A kind of load, over 32 connections.
struct Shape {
    name: &'static str,
    protocol: Protocol,
    /// Requests at a time on a connection of HTTP/1.1, or streams of HTTP/2.
    depth: u32,
    template: Template,
    stream: Option<StreamTemplate>,
    arrivals: Arrivals,
}

fn config(total: u64, shape: &Shape) -> WorkerConfig {
    let expect =
        Expectation { status: Some(200), body: Some(Arc::from(BODY)), ..Expectation::default() };
    WorkerConfig {
        worker: 0,
        connections: CONNECTIONS,
        protocol: shape.protocol,
        http2: Http2::default(),
        page_connections: None,
        pipeline: if shape.protocol.is_h2() { 1 } else { shape.depth },
        streams: if shape.protocol.is_h2() { shape.depth } else { 1 },
        schedule: Schedule::new(&shape.arrivals, &Arc::from([]), 1, Stripe { worker: 0, of: 1 }),
        total: Some(total),
        traffic: Arc::new(Traffic::one(CompiledRequest {
            template: shape.template.clone(),
            upgrade: None,
            stream: shape.stream.clone(),
            kind: RequestKind::Other,
            expect,
        })),
        draws: Draws::new(1, 0, 1),
        check_one_in: 1,
        policy: Policy {
            timeout_ns: 3600 * SECOND,
            first_byte_timeout_ns: None,
            connect_timeout_ns: 3600 * SECOND,
            requests_per_connection: None,
            ramp_ns: None,
            backs_off: true,
        },
        tls: None,
        spin: SpinPolicy::Never,
        // One interval for all: sealing one allocates, and how many there are is a matter of time,
        // not of requests.
        window: Window {
            warmup_ns: 0,
            duration_ns: None,
            interval_ns: 3600 * SECOND,
            drain_ns: limits::DRAIN_NS,
        },
    }
}

/// State of a driver under test that is visible from outside of the load.
#[derive(Debug, Default)]
struct Seen {
    /// Virtual time.
    now_ns: Cell<u64>,
    received: Cell<u64>,
}

impl Seen {
    fn receive(&self, bytes: &[u8]) {
        self.received.set(self.received.get() + bytes.len() as u64);
    }
}

/// Allocations of one worker and its driver from `STEADY_NS` on, and the bytes that they received
/// meanwhile. The last turn is left out: it makes the report.
fn allocations<D: Driver>(mut driver: D, seen: &Seen, config: WorkerConfig) -> (u64, u64) {
    let total = config.total.unwrap();
    let mut worker = Worker::new(config);
    let mut begin = None;
    let (mut from, mut to) = (None, (0, 0));
    dyno_engine::run(
        &mut worker,
        &mut driver,
        || Some(*begin.get_or_insert(Instant(seen.now_ns.get() + MS))),
        |_| {
            to = (ASKED.with(Cell::get), seen.received.get());
            if seen.now_ns.get() >= STEADY_NS {
                from.get_or_insert(to);
            }
            Stop::No
        },
        drop,
    );
    assert_eq!(worker.report().books.completed, total);
    let from = from.unwrap_or_else(|| panic!("the load ended before the stall: {seen:?}"));
    (to.0 - from.0, to.1 - from.1)
}

/// The simulated world, whose own allocations do not count.
struct Simulated {
    driver: SimDriver,
    seen: Rc<Seen>,
}

impl Simulated {
    fn new(seen: Rc<Seen>) -> Simulated {
        let mut model =
            ServerModel::new(ServiceTime::Exponential { mean_ns: 50_000.0 }, Queue::PerConnection);
        model.pauses.push(STALL);
        Simulated { driver: SimDriver::new(World::new(1, model)), seen }
    }
}

impl Driver for Simulated {
    fn now(&self) -> Instant {
        self.driver.now()
    }

    fn connect(&mut self, conn: ConnId) {
        uncounted(|| self.driver.connect(conn));
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        uncounted(|| self.driver.send(conn, bytes));
    }

    fn close(&mut self, conn: ConnId) {
        uncounted(|| self.driver.close(conn));
    }

    fn flush(&mut self, handed: &mut dyn FnMut(ConnId, Instant)) {
        uncounted(|| self.driver.flush(&mut |conn, at| count_allocations(|| handed(conn, at))));
    }

    fn turn(&mut self, wait: Wait, handed: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        let turn = uncounted(|| {
            self.driver.turn(wait, &mut |conn, at| count_allocations(|| handed(conn, at)))
        });
        self.seen.now_ns.set(self.driver.now().0);
        turn
    }

    fn next(&mut self) -> Option<Completion> {
        let completion = uncounted(|| self.driver.next())?;
        if completion.what == CompletionKind::Received {
            self.seen.receive(self.driver.bytes());
        }
        Some(completion)
    }

    fn queued(&self, conn: ConnId) -> Queued {
        self.driver.queued(conn)
    }

    fn sent_bytes(&self) -> u64 {
        self.driver.sent_bytes()
    }

    fn unsent(&self, conn: ConnId) -> u64 {
        self.driver.unsent(conn)
    }

    fn bytes(&mut self) -> &mut [u8] {
        self.driver.bytes()
    }

    fn tcp(&mut self, conn: ConnId) -> Option<TcpCounters> {
        self.driver.tcp(conn)
    }

    fn thread_use(&self) -> ThreadUse {
        self.driver.thread_use()
    }

    fn thread_run_ns(&self) -> u64 {
        self.driver.thread_run_ns()
    }
}

/// A real driver in virtual time, in step with a peer of the same thread: time advances by
/// `STEP_NS` per turn, and stops while bytes are on their way through the kernel. The worker's
/// observations therefore do not depend on the speed of the machine.
struct InStep<D> {
    driver: D,
    peer: Peer,
    seen: Rc<Seen>,
    queued: u64,
    /// Bytes that had left on this side and on the peer's, after each of the last turns, the oldest
    /// first. A driver may need a turn to hand over and another to hear.
    left: [(u64, u64); 4],
}

const STEP_NS: u64 = 50_000;

impl<D: Driver> InStep<D> {
    fn new(seen: Rc<Seen>, make: impl FnOnce(&Endpoint) -> D) -> Self {
        let peer = Peer::new();
        let driver = make(&peer.listener.local_addr().unwrap().into());
        InStep { driver, peer, seen, queued: 0, left: [(0, 0); 4] }
    }

    /// Whether all bytes that left some turns ago have arrived.
    fn kernel_keeps_up(&self) -> bool {
        let (sent, answered) = self.left[0];
        self.peer.read >= sent && self.seen.received.get() >= answered
    }
}

impl<D: Driver> Driver for InStep<D> {
    fn now(&self) -> Instant {
        Instant(self.seen.now_ns.get())
    }

    fn connect(&mut self, conn: ConnId) {
        self.driver.connect(conn);
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        self.queued += bytes.len() as u64;
        self.driver.send(conn, bytes);
    }

    fn close(&mut self, conn: ConnId) {
        self.driver.close(conn);
    }

    fn flush(&mut self, handed: &mut dyn FnMut(ConnId, Instant)) {
        let now = self.now();
        // Virtual time does not move within a call.
        self.driver.flush(&mut |conn, _| handed(conn, now));
    }

    fn turn(&mut self, _: Wait, handed: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        if self.kernel_keeps_up() {
            self.seen.now_ns.set(self.seen.now_ns.get() + STEP_NS);
        } else {
            // The kernel may need this CPU to deliver.
            std::thread::yield_now();
        }
        self.flush(handed);
        let now = self.now();
        uncounted(|| self.peer.work(now.0));
        self.left.rotate_left(1);
        self.left[3] = (self.queued, self.peer.written);
        self.driver.turn(Wait::asleep(Instant(0)), &mut |conn, _| handed(conn, now));
        Turn { entered: now, woke: now, spun_ns: 0 }
    }

    fn next(&mut self) -> Option<Completion> {
        let completion = self.driver.next()?;
        if completion.what == CompletionKind::Received {
            self.seen.receive(self.driver.bytes());
        }
        Some(Completion { at: self.now(), ..completion })
    }

    fn queued(&self, conn: ConnId) -> Queued {
        self.driver.queued(conn)
    }

    fn sent_bytes(&self) -> u64 {
        self.driver.sent_bytes()
    }

    fn unsent(&self, conn: ConnId) -> u64 {
        self.driver.unsent(conn)
    }

    fn bytes(&mut self) -> &mut [u8] {
        self.driver.bytes()
    }

    fn tcp(&mut self, conn: ConnId) -> Option<TcpCounters> {
        self.driver.tcp(conn)
    }

    fn thread_use(&self) -> ThreadUse {
        self.driver.thread_use()
    }

    fn thread_run_ns(&self) -> u64 {
        self.driver.thread_run_ns()
    }
}

/// A server on real sockets that answers on demand, and stalls in between.
struct Peer {
    listener: TcpListener,
    conns: Vec<PeerConn>,
    read: u64,
    written: u64,
    h1: Vec<u8>,
    h2: h2::EncodedResponse,
}

struct PeerConn {
    stream: TcpStream,
    talk: Talk,
    out: Vec<u8>,
}

enum Talk {
    Unknown,
    H1(request::RequestReader),
    H2(Box<h2::Server>),
}

impl Peer {
    fn new() -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let fields = [(":status", "200"), ("content-type", "text/plain"), ("content-length", "13")];
        Peer {
            listener,
            conns: Vec::new(),
            read: 0,
            written: 0,
            h1: encode::response(200, "OK", "text/plain", BODY.len(), false, BODY),
            h2: h2::EncodedResponse::new(&fields, BODY, h2::FrameLayout::Two),
        }
    }

    /// Reads whatever has come, and answers it unless it stalls.
    fn work(&mut self, now_ns: u64) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
            self.conns.push(PeerConn { stream, talk: Talk::Unknown, out: Vec::new() });
        }
        let stalls = (STALL.at_ns..STALL.at_ns + STALL.for_ns).contains(&now_ns);
        let mut buffer = [0; 16384];
        for conn in &mut self.conns {
            loop {
                match conn.stream.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(n) => {
                        self.read += n as u64;
                        conn.receive(&buffer[..n], &self.h1, &self.h2);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
            if !stalls && !conn.out.is_empty() {
                conn.stream.write_all(&conn.out).unwrap();
                self.written += conn.out.len() as u64;
                conn.out.clear();
            }
        }
    }
}

impl PeerConn {
    fn receive(&mut self, mut bytes: &[u8], h1: &[u8], h2: &h2::EncodedResponse) {
        if matches!(self.talk, Talk::Unknown) {
            self.talk = match h2::is_http2(bytes).expect("the first bytes come at once") {
                true => {
                    let settings = ServerSettings { max_streams: Some(100), stream_window: 65_535 };
                    Talk::H2(Box::new(h2::Server::new(settings, &mut self.out)))
                }
                false => Talk::H1(request::RequestReader::new()),
            };
        }
        loop {
            let used = match &mut self.talk {
                Talk::Unknown => unreachable!("chosen above"),
                Talk::H1(reader) => {
                    let (used, event) = reader.next(bytes).unwrap();
                    match event {
                        request::RequestEvent::NeedMore => return,
                        request::RequestEvent::End => self.out.extend_from_slice(h1),
                        _ => {}
                    }
                    used
                }
                Talk::H2(server) => {
                    let (used, event) = server.next(bytes, &mut self.out).unwrap();
                    match event {
                        h2::ServerEvent::NeedMore => return,
                        h2::ServerEvent::Request { stream, end: true, .. }
                        | h2::ServerEvent::Body { stream, end: true, .. } => {
                            server.respond(stream, h2, &mut self.out);
                        }
                        _ => {}
                    }
                    used
                }
            };
            bytes = &bytes[used..];
        }
    }
}

fn bytes(text: &str) -> RequestPart {
    RequestPart::Bytes(text.as_bytes().into())
}

fn fields(list: &[(&str, &str)]) -> EncodedBlock {
    let list: Vec<_> =
        list.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect();
    SharedFields::default().encode(&list)
}

fn shapes_of_http1() -> Vec<Shape> {
    let fixed = Template::Fixed(Arc::from(&b"GET /plaintext HTTP/1.1\r\nHost: h\r\n\r\n"[..]));
    let made = Template::Varying {
        head: vec![
            bytes("GET /plaintext HTTP/1.1\r\nHost: h\r\nX-Id: "),
            RequestPart::Sequence,
            bytes("-"),
            RequestPart::Uuid,
            bytes("\r\n\r\n"),
        ],
        body: Vec::new(),
    };
    let shape = |name, depth, template: &Template, arrivals| {
        let template = template.clone();
        Shape { name, protocol: Protocol::H1, depth, template, stream: None, arrivals }
    };
    vec![
        shape("keep-alive", 1, &fixed, Arrivals::Closed),
        shape("pipelined", 16, &fixed, Arrivals::Closed),
        shape("made from a template", 1, &made, Arrivals::Closed),
        shape("open loop", 1, &fixed, Arrivals::Poisson { rate: 20_000.0 }),
    ]
}

fn shapes_of_http2() -> Vec<Shape> {
    let list =
        [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/plaintext")];
    let fixed = StreamTemplate::Fixed { block: fields(&list), body: Arc::from([]) };
    let mut name = Vec::new();
    put_name(b"x-id", &mut name);
    let value = vec![RequestPart::Sequence, bytes("-"), RequestPart::Uuid];
    let list =
        [(":method", "POST"), (":scheme", "http"), (":authority", "h"), (":path", "/plaintext")];
    let made = StreamTemplate::Varying {
        fields: vec![
            FieldPiece::Fixed(fields(&list)),
            FieldPiece::Varying { name: name.into(), name_bytes: 4, value },
        ],
        body: vec![bytes("number "), RequestPart::Sequence],
    };
    let shape = |name, stream: &StreamTemplate, arrivals| Shape {
        name,
        protocol: Protocol::H2c,
        depth: 4,
        template: Template::Fixed(Arc::from([])),
        stream: Some(stream.clone()),
        arrivals,
    };
    vec![
        shape("streams", &fixed, Arrivals::Closed),
        shape("streams made from a template, with bodies", &made, Arrivals::Closed),
        shape("streams in an open loop", &fixed, Arrivals::Poisson { rate: 20_000.0 }),
        shape("made streams in an open loop", &made, Arrivals::Poisson { rate: 20_000.0 }),
    ]
}

/// In the simulated world and on both drivers.
fn check(shapes: &[Shape]) {
    for shape in shapes {
        // Enough that some thousands come after the stall, for any number in flight.
        let config = || config(if shape.depth == 16 { 120_000 } else { 30_000 }, shape);
        let none = |driver: &str, (allocations, bytes): (u64, u64)| {
            println!(
                "{}, {driver}: {allocations} allocations while {bytes} bytes came",
                shape.name
            );
            assert!(bytes > 10_000 * BODY.len() as u64, "{}, {driver}: {bytes} bytes", shape.name);
            assert_eq!(allocations, 0, "{}, {driver}: while {bytes} bytes came", shape.name);
        };
        let seen = Rc::new(Seen::default());
        none("simulated", allocations(Simulated::new(seen.clone()), &seen, config()));
        let seen = Rc::new(Seen::default());
        let uring = InStep::new(seen.clone(), |to| Uring::new(to, CONNECTIONS).unwrap());
        none("uring", allocations(uring, &seen, config()));
        let seen = Rc::new(Seen::default());
        let epoll = InStep::new(seen.clone(), |to| Epoll::new(to, CONNECTIONS).unwrap());
        none("epoll", allocations(epoll, &seen, config()));
    }
}

#[test]
fn requests_allocate_nothing() {
    check(&shapes_of_http1());
}

#[test]
fn streams_allocate_nothing() {
    check(&shapes_of_http2());
}
