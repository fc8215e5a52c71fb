//! Bodies larger than what the kernel takes at once, sent one behind the other.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use dyno_archive::plan::Arrivals;
use dyno_driver::{Epoll, Uring, sys};
use dyno_engine::schedule::Stripe;
use dyno_engine::traffic::StreamTemplate;
use dyno_engine::{
    CompiledRequest, Draws, Driver, Expectation, Http2, Policy, Protocol, Schedule, SpinPolicy,
    Stop, Traffic, Window, Worker, WorkerConfig,
};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h1::{encode, request};
use dyno_wire::h2::SharedFields;

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
    let mut reader = request::RequestReader::new();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        let mut bytes = &buffer[..n];
        loop {
            let (used, event) = reader.next(bytes).unwrap();
            bytes = &bytes[used..];
            match event {
                request::RequestEvent::NeedMore => break,
                request::RequestEvent::Head(_) | request::RequestEvent::Body(_) => {}
                request::RequestEvent::End => {
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
fn config() -> WorkerConfig {
    config_of(REQUESTS, 8)
}

fn config_of(requests: u64, pipeline: u32) -> WorkerConfig {
    let post = encode::request("POST", "/", "h", &[], &vec![b'x'; BODY_BYTES]).unwrap();
    let expect = Expectation { status: Some(200), ..Expectation::default() };
    WorkerConfig {
        worker: 0,
        connections: 1,
        protocol: Protocol::H1,
        http2: Http2::default(),
        page_connections: None,
        pipeline,
        streams: 1,
        schedule: Schedule::new(&Arrivals::Closed, &Arc::from([]), 1, Stripe { worker: 0, of: 1 }),
        total: Some(requests),
        traffic: Arc::new(Traffic::one(CompiledRequest::from_bytes(
            &post,
            RequestKind::Other,
            expect,
        ))),
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
        spin: SpinPolicy::Never,
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

/// A server that answers from the head alone, and closes: the kernel resets the connection.
fn serve_unread() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                let mut buffer = [0; 1024];
                let n = stream.read(&mut buffer).unwrap();
                head.extend_from_slice(&buffer[..n]);
            }
            stream.write_all(&encode::response(200, "OK", "text/plain", 2, true, b"ok")).unwrap();
        }
    });
    addr
}

/// How many requests of a body were answered early, and how many bytes were sent.
fn early<D: Driver>(driver: D, requests: u64) -> (u64, u64) {
    early_of(driver, config_of(requests, 1))
}

fn early_of<D: Driver>(mut driver: D, config: WorkerConfig) -> (u64, u64) {
    let requests = config.total.unwrap();
    let mut worker = Worker::new(config);
    let (mut early, mut sent) = (0, 0);
    let mut begin = None;
    dyno_engine::run(
        &mut worker,
        &mut driver,
        || Some(*begin.get_or_insert_with(sys::now)),
        |_| Stop::No,
        |interval| {
            early += interval.answered_early.map_or(0, |early| early.responses);
            sent += interval.bytes_sent;
        },
    );
    let report = worker.report();
    assert_eq!(
        (report.books.completed + report.books.failed, report.connections.unsolicited),
        (requests, 0)
    );
    assert!(early <= report.books.completed, "{early} of {:?}", report.books);
    (early, sent)
}

/// The server read a kilobyte of each body: nothing near the whole can have left.
#[test]
fn response_before_the_body_is_sent_is_counted() {
    const UPLOADS: u64 = 10;
    for (early, sent) in [
        early(Epoll::new(&serve_unread().into(), 1).unwrap(), UPLOADS),
        early(Uring::new(&serve_unread().into(), 1).unwrap(), UPLOADS),
    ] {
        // A reset may overtake the response.
        assert!(early > 0 && early <= UPLOADS, "{early}");
        assert!(sent > 0 && sent < UPLOADS * BODY_BYTES as u64, "{sent}");
    }
}

#[test]
fn response_after_the_whole_body_is_not_early() {
    for (early, sent) in [
        early(Epoll::new(&serve().into(), 1).unwrap(), 10),
        early(Uring::new(&serve().into(), 1).unwrap(), 10),
    ] {
        assert_eq!(early, 0);
        assert!(sent >= 10 * BODY_BYTES as u64, "{sent}");
    }
}

/// The same over HTTP/2, on one connection, whose windows it never widens.
fn serve_unread_streams() -> SocketAddr {
    const HEADERS: u8 = 1;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 24]).unwrap();
        // Settings, of which there are none, and the acknowledgement of the client's.
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0]).unwrap();
        let mut header = [0; 9];
        while stream.read_exact(&mut header).is_ok() {
            let [a, b, c, kind, _, id @ ..] = header;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            stream.read_exact(&mut payload).unwrap();
            if kind == HEADERS {
                // `:status: 200`, and the end of the stream.
                let answer = [&[0, 0, 1, HEADERS, 5][..], &id, &[0x88]].concat();
                stream.write_all(&answer).unwrap();
            }
        }
    });
    addr
}

#[test]
fn response_before_a_stream_is_sent_is_counted() {
    const UPLOADS: u64 = 10;
    let list: Vec<(Vec<u8>, Vec<u8>)> =
        [(":method", "POST"), (":scheme", "http"), (":authority", "h"), (":path", "/")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
    let stream = StreamTemplate::Fixed {
        block: SharedFields::default().encode(&list),
        body: Arc::from(vec![b'x'; BODY_BYTES]),
    };
    let expect = Expectation { status: Some(200), ..Expectation::default() };
    let request = CompiledRequest {
        stream: Some(stream),
        ..CompiledRequest::from_bytes(b"", RequestKind::Other, expect)
    };
    let config = WorkerConfig {
        protocol: Protocol::H2c,
        traffic: Arc::new(Traffic::one(request)),
        ..config_of(UPLOADS, 1)
    };
    let driver = || Epoll::new(&serve_unread_streams().into(), 1).unwrap();
    let (early, sent) = early_of(driver(), config);
    assert_eq!(early, UPLOADS);
    // The connection's window is 65,535 bytes.
    assert!(sent > 65_535 && sent < BODY_BYTES as u64, "{sent}");
}
