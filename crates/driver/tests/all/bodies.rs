//! Request bodies that are larger than the socket buffer, over both drivers.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use dyno_driver::{Epoll, Uring, sys};
use dyno_engine::schedule::Stripe;
use dyno_engine::traffic::StreamTemplate;
use dyno_engine::{
    CompiledRequest, Draws, Expectation, Http2, Policy, Protocol, Schedule, SpinPolicy, Stop,
    StreamDriver, Traffic, Window, Worker, WorkerConfig,
};
use dyno_model::plan::Arrivals;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h1::{encode, request};
use dyno_wire::h2::SharedFields;

const SECOND: u64 = 1_000_000_000;
const BODY_BYTES: usize = 4 << 20;
const REQUESTS: u64 = 40;

/// Starts a server that responds to each request once it has read all of it. It ends with the test
/// process.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().for_each(|stream| serve_connection(stream.unwrap())));
    addr
}

fn serve_connection(mut stream: TcpStream) {
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
                    let response = encode::response(200, "OK", "text/plain", 2, false, b"ok");
                    if stream.write_all(&response).is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// A closed loop of `REQUESTS` requests over one connection, with a pipeline of eight.
fn config() -> WorkerConfig {
    config_with(REQUESTS, 8)
}

fn config_with(requests: u64, pipeline: u32) -> WorkerConfig {
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
        schedule: Schedule::new(
            &Arrivals::Closed,
            &Arc::from([]),
            1,
            Stripe { worker: 0, workers: 1 },
        ),
        total: Some(requests),
        traffic: Arc::new(Traffic::single(CompiledRequest::from_bytes(
            &post,
            RequestKind::Other,
            expect,
        ))),
        draws: Draws::new(1, 0, 1),
        check_one_in: 1,
        policy: Policy {
            timeout_ns: 120 * SECOND,
            connect_timeout_ns: 120 * SECOND,
            ..Policy::default()
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

fn assert_all_succeed<D: StreamDriver>(mut driver: D) {
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
fn pipelined_large_bodies_succeed_over_epoll() {
    assert_all_succeed(Epoll::new(&serve().into(), 1).unwrap());
}

#[test]
fn pipelined_large_bodies_succeed_over_io_uring() {
    assert_all_succeed(Uring::new(&serve().into(), 1).unwrap());
}

/// Starts a server that responds after the request head, and closes. Unread bytes make the kernel
/// reset the connection.
fn serve_from_head() -> SocketAddr {
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

/// Uploads bodies one by one. Returns the number of early responses and of sent bytes.
fn run_uploads<D: StreamDriver>(driver: D, requests: u64) -> (u64, u64) {
    run_uploads_with(driver, config_with(requests, 1))
}

fn run_uploads_with<D: StreamDriver>(mut driver: D, config: WorkerConfig) -> (u64, u64) {
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

/// The server reads only a kilobyte of each body, so most of it cannot have left.
#[test]
fn response_before_end_of_body_is_early() {
    const UPLOADS: u64 = 10;
    for (early, sent) in [
        run_uploads(Epoll::new(&serve_from_head().into(), 1).unwrap(), UPLOADS),
        run_uploads(Uring::new(&serve_from_head().into(), 1).unwrap(), UPLOADS),
    ] {
        // A reset may arrive before the response.
        assert!(early > 0 && early <= UPLOADS, "{early}");
        assert!(sent > 0 && sent < UPLOADS * BODY_BYTES as u64, "{sent}");
    }
}

#[test]
fn response_after_whole_body_is_not_early() {
    for (early, sent) in [
        run_uploads(Epoll::new(&serve().into(), 1).unwrap(), 10),
        run_uploads(Uring::new(&serve().into(), 1).unwrap(), 10),
    ] {
        assert_eq!(early, 0);
        assert!(sent >= 10 * BODY_BYTES as u64, "{sent}");
    }
}

/// Starts an HTTP/2 server for one connection. The server never enlarges its flow-control windows.
fn serve_streams_from_head() -> SocketAddr {
    const HEADERS: u8 = 1;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 24]).unwrap();
        // Empty SETTINGS, and the acknowledgement of the settings of the client.
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0]).unwrap();
        let mut header = [0; 9];
        while stream.read_exact(&mut header).is_ok() {
            let [a, b, c, kind, _, id @ ..] = header;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            stream.read_exact(&mut payload).unwrap();
            if kind == HEADERS {
                // `:status: 200` with END_STREAM.
                let response = [&[0, 0, 1, HEADERS, 5][..], &id, &[0x88]].concat();
                stream.write_all(&response).unwrap();
            }
        }
    });
    addr
}

#[test]
fn response_before_end_of_stream_body_is_early() {
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
        traffic: Arc::new(Traffic::single(request)),
        ..config_with(UPLOADS, 1)
    };
    let driver = || Epoll::new(&serve_streams_from_head().into(), 1).unwrap();
    let (early, sent) = run_uploads_with(driver(), config);
    assert_eq!(early, UPLOADS);
    // The flow-control window of the connection is 65,535 bytes.
    assert!(sent > 65_535 && sent < BODY_BYTES as u64, "{sent}");
}
