//! Bodies larger than what the kernel takes at once, sent one behind the other.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use dyno_archive::plan::Arrivals;
use dyno_driver::{Epoll, Uring, sys};
use dyno_engine::schedule::Stripe;
use dyno_engine::{
    CompiledRequest, Config, Draws, Driver, Expectation, Http2, Policy, Protocol, Schedule, Spin, Stop,
    Traffic, Window, Worker,
};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h1::{encode, request};

const SECOND: u64 = 1_000_000_000;
const BODY_BYTES: usize = 4 << 20;
const REQUESTS: u64 = 40;

/// A server that answers each request once it has read all of it; gone with the test process.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().for_each(|stream| serve_one(stream.unwrap())));
    addr
}

fn serve_one(mut stream: TcpStream) {
    let mut reader = request::Reader::new();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        let mut bytes = &buffer[..n];
        loop {
            let (used, event) = reader.next(bytes).unwrap();
            bytes = &bytes[used..];
            match event {
                request::Event::NeedMore => break,
                request::Event::Head(_) | request::Event::Body(_) => {}
                request::Event::End => {
                    let answer = encode::response(200, "OK", "text/plain", 2, false, b"ok");
                    if stream.write_all(&answer).is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// A closed loop of so many requests over one connection, eight at a time.
fn config() -> Config {
    let post = encode::request("POST", "/", "h", &[], &vec![b'x'; BODY_BYTES]).unwrap();
    let expect = Expectation { status: Some(200), ..Expectation::default() };
    Config {
        worker: 0,
        connections: 1,
        protocol: Protocol::H1,
        http2: Http2::default(),
        page_connections: None,
        pipeline: 8,
        streams: 1,
        schedule: Schedule::new(&Arrivals::Closed, &Arc::from([]), 1, Stripe { worker: 0, of: 1 }),
        total: Some(REQUESTS),
        traffic: Arc::new(Traffic::one(CompiledRequest::fixed(&post, RequestKind::Other, expect))),
        draws: Draws::new(1, 0, 1),
        check_one_in: 1,
        policy: Policy {
            timeout_ns: 120 * SECOND,
            first_byte_timeout_ns: None,
            connect_timeout_ns: 120 * SECOND,
            requests_per_connection: None,
            ramp_ns: None,
            backs_off: true,
        },
        tls: None,
        spin: Spin::Never,
        window: Window {
            warmup_ns: 0,
            duration_ns: None,
            interval_ns: 3600 * SECOND,
            drain_ns: 120 * SECOND,
        },
    }
}

fn assert_all_are_answered<D: Driver>(mut driver: D) {
    let mut worker = Worker::new(config());
    let mut begin = None;
    dyno_engine::run(
        &mut worker,
        &mut driver,
        || Some(*begin.get_or_insert_with(sys::now)),
        |_| Stop::No,
        drop,
    );
    let report = worker.report();
    let connections = report.connections;
    assert_eq!((report.books.completed, report.books.failed), (REQUESTS, 0), "{connections:?}");
    assert_eq!((connections.opened, connections.unsolicited), (1, 0));
}

#[test]
fn large_bodies_in_a_pipeline_are_all_answered_over_epoll() {
    assert_all_are_answered(Epoll::new(&serve().into(), 1).unwrap());
}

#[test]
fn large_bodies_in_a_pipeline_are_all_answered_over_io_uring() {
    assert_all_are_answered(Uring::new(&serve().into(), 1).unwrap());
}
