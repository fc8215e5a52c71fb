//! No allocation per exchange: a load of many more requests allocates no more than one of few.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use dyno_archive::plan::Arrivals;
use dyno_driver::null::Writes;
use dyno_driver::{Endpoint, Epoll, Uring};
use dyno_engine::expect::Expect;
use dyno_engine::schedule::Stripe;
use dyno_engine::traffic::{FieldPiece, Part, StreamTemplate, Template};
use dyno_engine::{
    Config, Draws, Driver, Http2, Policy, Protocol, Request, Schedule, Spin, Stop, Traffic, Window, Worker,
    limits,
};
use dyno_wire::h1::response::Asked;
use dyno_wire::h2::encode::put_name;
use dyno_wire::h2::{Block, Shared};

/// Counts what each thread asks for.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator as it came.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.with(|asked| asked.set(asked.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ASKED.with(|asked| asked.set(asked.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const SECOND: u64 = 1_000_000_000;

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

fn config(total: u64, shape: &Shape) -> Config {
    let expect =
        Expect { status: Some(200), body: Some(Arc::from(&b"Hello, World!"[..])), ..Expect::default() };
    Config {
        worker: 0,
        connections: 32,
        protocol: shape.protocol,
        http2: Http2::default(),
        page_connections: None,
        pipeline: if shape.protocol.is_h2() { 1 } else { shape.depth },
        streams: if shape.protocol.is_h2() { shape.depth } else { 1 },
        schedule: Schedule::new(&shape.arrivals, &Arc::from([]), 1, Stripe { worker: 0, of: 1 }),
        total: Some(total),
        traffic: Arc::new(Traffic::one(Request {
            template: shape.template.clone(),
            upgrade: None,
            stream: shape.stream.clone(),
            asked: Asked::Other,
            expect,
        })),
        draws: Draws::new(1, 0, 1),
        check_one_in: 1,
        policy: Policy {
            timeout_ns: 10 * SECOND,
            first_byte_timeout_ns: None,
            connect_timeout_ns: 10 * SECOND,
            requests_per_connection: None,
            ramp_ns: None,
        },
        tls: None,
        spin: Spin::Never,
        // One interval for all: sealing one allocates, and how many there are is a matter of time, not of requests.
        window: Window {
            warmup_ns: 0,
            duration_ns: None,
            interval_ns: 3600 * SECOND,
            drain_ns: limits::DRAIN_NS,
        },
    }
}

/// Allocations of one worker from its first connection to its end.
fn allocations<D: Driver>(mut driver: D, config: Config) -> u64 {
    let total = config.total.unwrap();
    let mut worker = Worker::new(config);
    let before = ASKED.with(Cell::get);
    let mut begin = None;
    dyno_engine::run(
        &mut worker,
        &mut driver,
        || Some(*begin.get_or_insert_with(dyno_driver::sys::now)),
        || Stop::No,
        drop,
    );
    let asked = ASKED.with(Cell::get) - before;
    assert_eq!(worker.report().books.completed, total);
    asked
}

fn null_responder() -> SocketAddr {
    let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    std::thread::spawn(move || dyno_driver::null::serve(addr.port(), Writes::Batch));
    while TcpStream::connect(addr).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    addr
}

fn bytes(text: &str) -> Part {
    Part::Bytes(text.as_bytes().into())
}

fn fields(list: &[(&str, &str)]) -> Block {
    let list: Vec<_> = list.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect();
    Shared::default().encode(&list)
}

fn shapes_of_http1() -> Vec<Shape> {
    let fixed = Template::Fixed(Arc::from(&b"GET /plaintext HTTP/1.1\r\nHost: h\r\n\r\n"[..]));
    let made = Template::Made {
        head: vec![
            bytes("GET /plaintext HTTP/1.1\r\nHost: h\r\nX-Id: "),
            Part::Sequence,
            bytes("-"),
            Part::Uuid,
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
    let list = [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/plaintext")];
    let fixed = StreamTemplate::Fixed { block: fields(&list), body: Arc::from([]) };
    let mut name = Vec::new();
    put_name(b"x-id", &mut name);
    let value = vec![Part::Sequence, bytes("-"), Part::Uuid];
    let list = [(":method", "POST"), (":scheme", "http"), (":authority", "h"), (":path", "/plaintext")];
    let made = StreamTemplate::Made {
        fields: vec![
            FieldPiece::Fixed(fields(&list)),
            FieldPiece::Made { name: name.into(), name_bytes: 4, value },
        ],
        body: vec![bytes("number "), Part::Sequence],
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

/// Measured on both drivers, with few requests and with many.
fn check(shapes: &[Shape]) {
    const FEW: u64 = 2_000;
    const MANY: u64 = 42_000;
    let endpoint = Endpoint::from(null_responder());
    for shape in shapes {
        let name = shape.name;
        let uring = |total| allocations(Uring::new(&endpoint, 32).unwrap(), config(total, shape));
        let epoll = |total| allocations(Epoll::new(&endpoint, 32).unwrap(), config(total, shape));
        for (driver, few, many) in [("uring", uring(FEW), uring(MANY)), ("epoll", epoll(FEW), epoll(MANY))] {
            println!("{name}, {driver}: {few} allocations for {FEW} requests, {many} for {MANY}");
            // Lists of connections and of streams may grow once more when more of them happen to be due at once; one
            // allocation in a thousand requests would be 40.
            assert!(many < few + 40, "{name}, {driver}: {few} for {FEW} requests, {many} for {MANY}");
        }
    }
}

#[test]
fn more_requests_allocate_no_more() {
    check(&shapes_of_http1());
}

#[test]
fn more_streams_allocate_no_more() {
    check(&shapes_of_http2());
}
