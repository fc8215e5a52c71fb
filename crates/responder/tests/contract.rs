//! Tests of the null responder over real sockets, with a blocking client.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use dyno_driver::Epoll;
use dyno_engine::schedule::Stripe;
use dyno_engine::traffic::{StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Draws, Expectation, Http2, Policy, Protocol, Schedule, SpinPolicy, Stop,
    Traffic, Window, Worker, WorkerConfig, WorkerReport,
};
use dyno_model::plan::Arrivals;
use dyno_responder::Writes;
use dyno_wire::h1::encode;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::client::{Client, ClientEvent, EncodedRequest, Io};
use dyno_wire::h2::settings::ClientSettings;
use dyno_wire::h2::{FrameCounts, SharedFields};

#[path = "../../../tests/support/port.rs"]
mod ports;

const SECOND: u64 = 1_000_000_000;

/// Starts a responder in a thread, and returns its address.
fn serve(writes: Writes) -> SocketAddr {
    let addr = SocketAddr::from(([127, 0, 0, 1], ports::free_port()));
    let server = std::thread::spawn(move || dyno_responder::serve(addr.port(), writes, None, 0));
    while TcpStream::connect(addr).is_err() {
        assert!(!server.is_finished(), "the responder failed to listen: {:?}", server.join());
        std::thread::sleep(Duration::from_millis(5));
    }
    addr
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Response {
    status: u16,
    length: Option<String>,
    body: Vec<u8>,
    is_complete: bool,
}

fn fields(method: &str, path: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    [(":method", method), (":scheme", "http"), (":authority", "null"), (":path", path)]
        .map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec()))
        .to_vec()
}

/// Sends all requests on one connection, as many at a time as the connection allows. Returns the
/// responses.
fn send_requests(
    addr: SocketAddr,
    settings: ClientSettings,
    requests: &[(&str, &str, Vec<u8>)],
) -> Vec<Response> {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let (mut out, mut counts) = (Vec::new(), FrameCounts::default());
    let mut client = Client::new(settings, 0, &mut Io { out: &mut out, counts: &mut counts });
    let mut responses = vec![Response::default(); requests.len()];
    let mut opened = 0;
    let mut buffer = vec![0; 4096];
    while responses.iter().any(|response| !response.is_complete) {
        let mut io = Io { out: &mut out, counts: &mut counts };
        while opened < requests.len() && client.room() > 0 {
            let (method, path, body) = &requests[opened];
            let block = SharedFields::default().encode(&fields(method, path));
            let kind = if *method == "HEAD" { RequestKind::Head } else { RequestKind::Other };
            let (block, field_bytes) = (block.form(client.form()), block.field_bytes);
            client.request(
                &EncodedRequest {
                    block,
                    field_bytes,
                    body,
                    kind,
                    wants_fields: true,
                    holds_body: false,
                },
                opened,
                &mut io,
            );
            opened += 1;
        }
        stream.write_all(&out).unwrap();
        out.clear();
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "the server closed; {responses:?}");
        read(
            &mut client,
            &buffer[..n],
            &mut Io { out: &mut out, counts: &mut counts },
            &mut responses,
        );
    }
    responses
}

/// Parses received bytes, and adds their contents to the responses.
fn read(client: &mut Client<usize>, mut bytes: &[u8], io: &mut Io<'_>, responses: &mut [Response]) {
    while !bytes.is_empty() {
        let (stream, end) = match client.next(&mut bytes, io).unwrap() {
            ClientEvent::Head { stream, status, end } => {
                let (index, fields) = client.value_and_fields(stream);
                let response = &mut responses[*index];
                response.status = status;
                let length = fields.iter().find(|(name, _)| *name == b"content-length");
                response.length =
                    length.map(|(_, value)| String::from_utf8(value.to_vec()).unwrap());
                (stream, end)
            }
            ClientEvent::Body { stream, data, end } => {
                responses[*client.value(stream).unwrap()].body.extend_from_slice(data);
                (stream, end)
            }
            ClientEvent::Settings | ClientEvent::Window => {
                client.resume(io, &mut |_| {});
                continue;
            }
            ClientEvent::Handled | ClientEvent::NeedMore => continue,
            other => panic!("{other:?}"),
        };
        if end {
            responses[*client.value(stream).unwrap()].is_complete = true;
            client.finish(stream, io);
        }
    }
}

fn get(path: &str) -> (&str, &str, Vec<u8>) {
    ("GET", path, Vec::new())
}

#[test]
fn both_protocols_serve_hello_contract() {
    for writes in Writes::ALL {
        let addr = serve(writes);
        let head = ("HEAD", "/plaintext", Vec::new());
        let responses = send_requests(
            addr,
            ClientSettings::default(),
            &[get("/plaintext"), get("/json"), get("/x"), head],
        );
        let received: Vec<_> =
            responses.iter().map(|r| (r.status, r.length.as_deref(), &r.body[..])).collect();
        assert_eq!(
            received,
            [
                (200, Some("13"), &b"Hello, World!"[..]),
                (200, Some("27"), br#"{"message":"Hello, World!"}"#),
                (404, Some("9"), b"not found"),
                (200, Some("13"), b""),
            ]
        );
        let mut h1 = TcpStream::connect(addr).unwrap();
        h1.write_all(
            &encode::request(
                "GET",
                "/plaintext",
                "h",
                &[("Connection".into(), "close".into())],
                b"",
            )
            .unwrap(),
        )
        .unwrap();
        let mut response = String::new();
        h1.read_to_string(&mut response).unwrap();
        assert!(
            response.starts_with("HTTP/1.1 200 OK\r\n")
                && response.ends_with("\r\n\r\nHello, World!")
        );
    }
}

#[test]
fn responses_continue_after_window_stalls() {
    for writes in Writes::ALL {
        let settings = ClientSettings {
            stream_window: 5,
            connection_window: 70_000,
            ..ClientSettings::default()
        };
        let requests = vec![get("/json"); 500];
        for response in send_requests(serve(writes), settings, &requests) {
            assert_eq!(
                (response.status, &response.body[..]),
                (200, &br#"{"message":"Hello, World!"}"#[..])
            );
        }
    }
}

#[test]
fn request_bodies_larger_than_windows_are_read() {
    let requests = [
        ("POST", "/plaintext", vec![b'x'; 300_000]),
        get("/json"),
        ("POST", "/nowhere", vec![b'y'; 200_000]),
    ];
    let responses = send_requests(serve(Writes::Batch), ClientSettings::default(), &requests);
    let received: Vec<_> = responses.iter().map(|r| (r.status, r.body.len())).collect();
    assert_eq!(received, [(200, 13), (200, 27), (404, 9)]);
}

/// Runs a load over one connection with one stream, so that only the writes determine the segments
/// per response.
fn load(addr: SocketAddr, requests: u64) -> WorkerReport {
    let list = fields("GET", "/plaintext");
    let shared = SharedFields::from_requests(std::slice::from_ref(&list));
    let expect = Expectation {
        status: Some(200),
        body: Some(Arc::from(&b"Hello, World!"[..])),
        ..Expectation::default()
    };
    let request = CompiledRequest {
        template: Template::Fixed(Arc::from([])),
        upgrade: None,
        stream: Some(StreamTemplate::Fixed { block: shared.encode(&list), body: Arc::from([]) }),
        kind: RequestKind::Other,
        expect,
    };
    let mut worker = Worker::new(WorkerConfig {
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
        total: Some(requests),
        traffic: Arc::new(Traffic::single(request).with_shared_bytes(shared.table_bytes())),
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
    });
    let mut driver = Epoll::new(&addr.into(), 1).unwrap();
    let mut begin = None;
    dyno_engine::run(
        &mut worker,
        &mut driver,
        || Some(*begin.get_or_insert_with(dyno_driver::sys::now)),
        |_| Stop::No,
        drop,
    );
    worker.report()
}

#[test]
fn write_mode_sets_segments_per_response() {
    const REQUESTS: u64 = 300;
    for (writes, frames, segments) in
        [(Writes::Batch, 2, 1), (Writes::Response, 3, 1), (Writes::Frame, 3, 3)]
    {
        let report = load(serve(writes), REQUESTS);
        assert_eq!(report.books.completed, REQUESTS);
        let used = report.http2.unwrap();
        let frame_count = used.received.frames["DATA"] + used.received.frames["HEADERS"];
        assert_eq!(frame_count, frames * REQUESTS, "{writes:?}");
        // The settings of the server add some segments, and a busy machine may merge some. The
        // tolerance is half a segment per response.
        let counted = report.tcp.unwrap().data_segments_in;
        let expected = segments * REQUESTS;
        let half = REQUESTS / 2;
        assert!(
            (expected - half..expected + half).contains(&counted),
            "{writes:?}: {counted} segments"
        );
    }
}
