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
use dyno_engine::traffic::{Part, Template};
use dyno_engine::{
    Config, Draws, Driver, Http2, Policy, Protocol, Request, Schedule, Spin, Stop, Traffic, Window, Worker,
    limits,
};
use dyno_wire::h1::response::Asked;

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

fn config(total: u64, pipeline: u32, template: Template, arrivals: &Arrivals) -> Config {
    let expect =
        Expect { status: Some(200), body: Some(Arc::from(&b"Hello, World!"[..])), ..Expect::default() };
    Config {
        worker: 0,
        connections: 32,
        protocol: Protocol::H1,
        http2: Http2::default(),
        page_connections: None,
        pipeline,
        streams: 1,
        schedule: Schedule::new(arrivals, &Arc::from([]), 1, Stripe { worker: 0, of: 1 }),
        total: Some(total),
        traffic: Arc::new(Traffic::one(Request {
            template,
            upgrade: None,
            stream: None,
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

#[test]
fn more_requests_allocate_no_more() {
    const FEW: u64 = 2_000;
    const MANY: u64 = 42_000;
    let endpoint = Endpoint::from(null_responder());
    let fixed = Template::Fixed(Arc::from(&b"GET /plaintext HTTP/1.1\r\nHost: h\r\n\r\n"[..]));
    let bytes = |text: &str| Part::Bytes(text.as_bytes().into());
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
    let shapes = [
        ("keep-alive", 1, fixed.clone(), Arrivals::Closed),
        ("pipelined", 16, fixed.clone(), Arrivals::Closed),
        ("made from a template", 1, made, Arrivals::Closed),
        ("open loop", 1, fixed, Arrivals::Poisson { rate: 20_000.0 }),
    ];
    for (name, pipeline, template, arrivals) in shapes {
        let config = |total| config(total, pipeline, template.clone(), &arrivals);
        let uring = |total| allocations(Uring::new(&endpoint, 32).unwrap(), config(total));
        let epoll = |total| allocations(Epoll::new(&endpoint, 32).unwrap(), config(total));
        for (driver, few, many) in [("uring", uring(FEW), uring(MANY)), ("epoll", epoll(FEW), epoll(MANY))] {
            println!("{name}, {driver}: {few} allocations for {FEW} requests, {many} for {MANY}");
            // Lists of connections may grow once more when more of them happen to be due at once; one allocation in a
            // thousand requests would be 40.
            assert!(many < few + 40, "{name}, {driver}: {few} for {FEW} requests, {many} for {MANY}");
        }
    }
}
