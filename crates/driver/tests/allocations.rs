//! Asserts that exchanges do not allocate: a load in steady state makes no allocations.
//!
//! Time is virtual, also over real sockets, so that the counts are exact on any machine. One load
//! runs in the simulated world, and one on each real driver with a peer in the same thread, whose
//! responses have all arrived before time advances. The server stalls early in each load, so that
//! all lists reach their final capacity before counting begins.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;

use dyno_driver::{Endpoint, Epoll, Uring};
use dyno_engine::driver::{QueuedBytes, Turn, Wait};
use dyno_engine::expect::Expectation;
use dyno_engine::schedule::Stripe;
use dyno_engine::sim::{Pause, Queue, ServerModel, ServiceTime, SimDriver, World};
use dyno_engine::traffic::{FieldPiece, RequestPart, StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Completion, CompletionKind, ConnId, Draws, Driver, Http2, Instant, Policy,
    Protocol, Schedule, SpinPolicy, Stop, StreamDriver, Traffic, Window, Worker, WorkerConfig,
    limits,
};
use dyno_model::load::TcpCounters;
use dyno_model::plan::Arrivals;
use dyno_model::sample::ThreadUse;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h1::{encode, request};
use dyno_wire::h2::encode::put_name;
use dyno_wire::h2::settings::ServerSettings;
use dyno_wire::h2::{EncodedBlock, SharedFields, server as h2};

/// Allocator that counts the allocations of each thread, unless counting is paused.
struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static IS_PAUSED: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if !IS_PAUSED.with(Cell::get) {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
    }
}

/// Runs the work of the server without counting.
fn without_counting<R>(work: impl FnOnce() -> R) -> R {
    let before = IS_PAUSED.with(|is_paused| is_paused.replace(true));
    let result = work();
    IS_PAUSED.with(|is_paused| is_paused.set(before));
    result
}

/// Runs a callback of the worker within that work with counting.
fn with_counting<R>(work: impl FnOnce() -> R) -> R {
    let before = IS_PAUSED.with(|is_paused| is_paused.replace(false));
    let result = work();
    IS_PAUSED.with(|is_paused| is_paused.set(before));
    result
}

// SAFETY: every call is passed unchanged to the system allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for CountingAllocator {
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
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const CONNECTIONS: u32 = 32;
const BODY: &[u8] = b"Hello, World!";

/// Stall of the server: 2,000 arrivals of the open loops.
const STALL: Pause = Pause { at_ns: 2 * MS, for_ns: 100 * MS };

/// Start of counting: the responses that the stall delayed have arrived.
const STEADY_NS: u64 = STALL.at_ns + STALL.for_ns + 5 * MS;

/// A kind of load, over 32 connections.
struct Shape {
    name: &'static str,
    protocol: Protocol,
    /// Pipeline depth over HTTP/1.1, or streams over HTTP/2.
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
        schedule: Schedule::new(
            &shape.arrivals,
            &Arc::from([]),
            1,
            Stripe { worker: 0, workers: 1 },
        ),
        total: Some(total),
        traffic: Arc::new(Traffic::single(CompiledRequest {
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
            connect_timeout_ns: 3600 * SECOND,
            ..Policy::default()
        },
        tls: None,
        spin: SpinPolicy::Never,
        // A single interval: sealing one allocates, and their number depends on time, not on
        // requests.
        window: Window {
            warmup_ns: 0,
            duration_ns: None,
            interval_ns: 3600 * SECOND,
            drain_ns: limits::DRAIN_NS,
        },
    }
}

/// State of a driver under test that the load shares with the test.
#[derive(Debug, Default)]
struct SharedState {
    /// Virtual time.
    now_ns: Cell<u64>,
    received: Cell<u64>,
}

impl SharedState {
    fn add_received(&self, bytes: &[u8]) {
        self.received.set(self.received.get() + bytes.len() as u64);
    }
}

/// Returns the allocations of one worker and its driver from `STEADY_NS` on, and the bytes that
/// they received during the load. The last turn, which creates the report, is excluded.
fn allocations<D: StreamDriver>(
    mut driver: D,
    shared: &SharedState,
    config: WorkerConfig,
) -> (u64, u64) {
    let total = config.total.unwrap();
    let mut worker = Worker::new(config);
    let mut begin = None;
    let (mut from, mut to) = (None, (0, 0));
    dyno_engine::run(
        &mut worker,
        &mut driver,
        || Some(*begin.get_or_insert(Instant(shared.now_ns.get() + MS))),
        |_| {
            to = (ALLOCATIONS.with(Cell::get), shared.received.get());
            if shared.now_ns.get() >= STEADY_NS {
                from.get_or_insert(to);
            }
            Stop::No
        },
        drop,
    );
    assert_eq!(worker.report().books.completed, total);
    let from = from.unwrap_or_else(|| panic!("the load ended before the stall: {shared:?}"));
    (to.0 - from.0, to.1 - from.1)
}

/// The simulated world, whose own allocations are not counted.
struct Simulated {
    driver: SimDriver,
    shared: Rc<SharedState>,
}

impl Simulated {
    fn new(shared: Rc<SharedState>) -> Simulated {
        let mut model =
            ServerModel::new(ServiceTime::Exponential { mean_ns: 50_000.0 }, Queue::PerConnection);
        model.pauses.push(STALL);
        Simulated { driver: SimDriver::new(World::new(1, model)), shared }
    }
}

impl Driver for Simulated {
    fn now(&self) -> Instant {
        self.driver.now()
    }

    fn close(&mut self, conn: ConnId) {
        without_counting(|| self.driver.close(conn));
    }

    fn flush(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) {
        without_counting(|| {
            self.driver.flush(&mut |conn, at| with_counting(|| on_handed_over(conn, at)));
        });
    }

    fn turn(&mut self, wait: Wait, on_handed_over: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        let turn = without_counting(|| {
            self.driver.turn(wait, &mut |conn, at| with_counting(|| on_handed_over(conn, at)))
        });
        self.shared.now_ns.set(self.driver.now().0);
        turn
    }

    fn next(&mut self) -> Option<Completion> {
        let completion = without_counting(|| self.driver.next())?;
        if completion.kind == CompletionKind::Received {
            self.shared.add_received(self.driver.received_bytes());
        }
        Some(completion)
    }

    fn queued_bytes(&self, conn: ConnId) -> QueuedBytes {
        self.driver.queued_bytes(conn)
    }

    fn taken_bytes(&self) -> u64 {
        self.driver.taken_bytes()
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

impl StreamDriver for Simulated {
    fn connect(&mut self, conn: ConnId) {
        without_counting(|| self.driver.connect(conn));
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        without_counting(|| self.driver.send(conn, bytes));
    }

    fn unsent_bytes(&self, conn: ConnId) -> u64 {
        self.driver.unsent_bytes(conn)
    }

    fn tcp_counters(&mut self, conn: ConnId) -> Option<TcpCounters> {
        self.driver.tcp_counters(conn)
    }
}

/// A real driver in virtual time, with a peer in the same thread. Time advances by `STEP_NS` per
/// turn, and stops while bytes are in the kernel. The observations of the worker therefore do not
/// depend on the speed of the machine.
struct VirtualTimeDriver<D> {
    driver: D,
    peer: Peer,
    shared: Rc<SharedState>,
    queued: u64,
    /// Bytes sent by this side and by the peer after each of the last turns, oldest first. A driver
    /// may need a turn to hand over and another to receive.
    sent: [(u64, u64); 4],
}

const STEP_NS: u64 = 50_000;

impl<D: Driver> VirtualTimeDriver<D> {
    fn new(shared: Rc<SharedState>, make: impl FnOnce(&Endpoint) -> D) -> Self {
        let peer = Peer::new();
        let driver = make(&peer.listener.local_addr().unwrap().into());
        VirtualTimeDriver { driver, peer, shared, queued: 0, sent: [(0, 0); 4] }
    }

    /// Whether all bytes sent some turns ago have arrived.
    fn has_received_all(&self) -> bool {
        let (requests, responses) = self.sent[0];
        self.peer.read >= requests && self.shared.received.get() >= responses
    }
}

impl<D: Driver> Driver for VirtualTimeDriver<D> {
    fn now(&self) -> Instant {
        Instant(self.shared.now_ns.get())
    }

    fn close(&mut self, conn: ConnId) {
        self.driver.close(conn);
    }

    fn flush(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) {
        let now = self.now();
        // Virtual time does not advance within a call.
        self.driver.flush(&mut |conn, _| on_handed_over(conn, now));
    }

    fn turn(&mut self, _: Wait, on_handed_over: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        if self.has_received_all() {
            self.shared.now_ns.set(self.shared.now_ns.get() + STEP_NS);
        } else {
            // The kernel may need this CPU to deliver bytes.
            std::thread::yield_now();
        }
        self.flush(on_handed_over);
        let now = self.now();
        without_counting(|| self.peer.run(now.0));
        self.sent.rotate_left(1);
        self.sent[3] = (self.queued, self.peer.written);
        self.driver.turn(Wait::sleep_until(Instant(0)), &mut |conn, _| on_handed_over(conn, now));
        Turn { entered: now, woke: now, spun_ns: 0 }
    }

    fn next(&mut self) -> Option<Completion> {
        let completion = self.driver.next()?;
        if completion.kind == CompletionKind::Received {
            self.shared.add_received(self.driver.received_bytes());
        }
        Some(Completion { at: self.now(), ..completion })
    }

    fn queued_bytes(&self, conn: ConnId) -> QueuedBytes {
        self.driver.queued_bytes(conn)
    }

    fn taken_bytes(&self) -> u64 {
        self.driver.taken_bytes()
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

impl<D: StreamDriver> StreamDriver for VirtualTimeDriver<D> {
    fn connect(&mut self, conn: ConnId) {
        self.driver.connect(conn);
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        self.queued += bytes.len() as u64;
        self.driver.send(conn, bytes);
    }

    fn unsent_bytes(&self, conn: ConnId) -> u64 {
        self.driver.unsent_bytes(conn)
    }

    fn tcp_counters(&mut self, conn: ConnId) -> Option<TcpCounters> {
        self.driver.tcp_counters(conn)
    }
}

/// A server on real sockets that runs on demand, with a stall.
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
    protocol: PeerProtocol,
    out: Vec<u8>,
}

enum PeerProtocol {
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

    /// Reads all received bytes, and responds, except during a stall.
    fn run(&mut self, now_ns: u64) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
            self.conns.push(PeerConn { stream, protocol: PeerProtocol::Unknown, out: Vec::new() });
        }
        let is_stalled = (STALL.at_ns..STALL.at_ns + STALL.for_ns).contains(&now_ns);
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
            if !is_stalled && !conn.out.is_empty() {
                conn.stream.write_all(&conn.out).unwrap();
                self.written += conn.out.len() as u64;
                conn.out.clear();
            }
        }
    }
}

impl PeerConn {
    fn receive(&mut self, mut bytes: &[u8], h1: &[u8], h2: &h2::EncodedResponse) {
        if matches!(self.protocol, PeerProtocol::Unknown) {
            self.protocol = match h2::is_http2(bytes).expect("the first bytes arrive together") {
                true => {
                    let settings = ServerSettings { max_streams: Some(100), stream_window: 65_535 };
                    PeerProtocol::H2(Box::new(h2::Server::new(settings, &mut self.out)))
                }
                false => PeerProtocol::H1(request::RequestReader::new()),
            };
        }
        loop {
            let used = match &mut self.protocol {
                PeerProtocol::Unknown => unreachable!("set above"),
                PeerProtocol::H1(reader) => {
                    let (used, event) = reader.next(bytes).unwrap();
                    match event {
                        request::RequestEvent::NeedMore => return,
                        request::RequestEvent::End => self.out.extend_from_slice(h1),
                        _ => {}
                    }
                    used
                }
                PeerProtocol::H2(server) => {
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

fn http1_shapes() -> Vec<Shape> {
    let fixed = Template::Fixed(Arc::from(&b"GET /plaintext HTTP/1.1\r\nHost: h\r\n\r\n"[..]));
    let varying = Template::Varying {
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
        shape("rendered from a template", 1, &varying, Arrivals::Closed),
        shape("open loop", 1, &fixed, Arrivals::Poisson { rate: 20_000.0 }),
    ]
}

fn http2_shapes() -> Vec<Shape> {
    let list =
        [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/plaintext")];
    let fixed = StreamTemplate::Fixed { block: fields(&list), body: Arc::from([]) };
    let mut name = Vec::new();
    put_name(b"x-id", &mut name);
    let value = vec![RequestPart::Sequence, bytes("-"), RequestPart::Uuid];
    let list =
        [(":method", "POST"), (":scheme", "http"), (":authority", "h"), (":path", "/plaintext")];
    let varying = StreamTemplate::Varying {
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
        shape("streams rendered from a template, with bodies", &varying, Arrivals::Closed),
        shape("streams in an open loop", &fixed, Arrivals::Poisson { rate: 20_000.0 }),
        shape("rendered streams in an open loop", &varying, Arrivals::Poisson { rate: 20_000.0 }),
    ]
}

/// Asserts that loads of these shapes do not allocate, in the simulated world and on both drivers.
fn assert_no_allocations(shapes: &[Shape]) {
    for shape in shapes {
        // Enough for some thousands of requests after the stall, at any depth.
        let config = || config(if shape.depth == 16 { 120_000 } else { 30_000 }, shape);
        let assert_zero = |driver: &str, (allocations, bytes): (u64, u64)| {
            println!(
                "{}, {driver}: {allocations} allocations while {bytes} bytes were received",
                shape.name
            );
            assert!(bytes > 10_000 * BODY.len() as u64, "{}, {driver}: {bytes} bytes", shape.name);
            assert_eq!(
                allocations, 0,
                "{}, {driver}: while {bytes} bytes were received",
                shape.name
            );
        };
        let shared = Rc::new(SharedState::default());
        assert_zero("simulated", allocations(Simulated::new(shared.clone()), &shared, config()));
        let shared = Rc::new(SharedState::default());
        let uring =
            VirtualTimeDriver::new(shared.clone(), |to| Uring::new(to, CONNECTIONS).unwrap());
        assert_zero("uring", allocations(uring, &shared, config()));
        let shared = Rc::new(SharedState::default());
        let epoll =
            VirtualTimeDriver::new(shared.clone(), |to| Epoll::new(to, CONNECTIONS).unwrap());
        assert_zero("epoll", allocations(epoll, &shared, config()));
    }
}

#[test]
fn requests_allocate_nothing() {
    assert_no_allocations(&http1_shapes());
}

#[test]
fn streams_allocate_nothing() {
    assert_no_allocations(&http2_shapes());
}
