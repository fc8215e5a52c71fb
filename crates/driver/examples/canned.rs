//! A load without sockets, for counts of instructions: its driver replies to each request at once
//! with the same response, on a virtual clock. Nearly all instructions are of the engine, and each
//! run executes the same ones. `benches/instructions` runs it.
//!
//! `canned h1|h2c CONNECTIONS DEPTH REQUESTS` prints the number of correct responses. DEPTH is the
//! pipeline depth of HTTP/1.1, or the number of streams of HTTP/2.

use std::sync::Arc;

use dyno_engine::driver::{QueuedBytes, Turn, Wait};
use dyno_engine::schedule::Stripe;
use dyno_engine::traffic::StreamTemplate;
use dyno_engine::{
    CompiledRequest, Completion, CompletionKind, ConnId, Draws, Driver, Expectation, Http2,
    Instant, Policy, Protocol, Schedule, SpinPolicy, StreamDriver, Traffic, Window, Worker,
    WorkerConfig,
};
use dyno_model::load::TcpCounters;
use dyno_model::plan::Arrivals;
use dyno_model::sample::ThreadUse;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;
use dyno_wire::h2::frame::{self, FrameHeader, HEADER_BYTES, Kind, PREFACE, flag};

const SECOND: u64 = 1_000_000_000;
const REQUEST: &[u8] = b"GET /plaintext HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: */*\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\
    Server: canned\r\nDate: Mon, 30 Nov 2026 04:33:00 GMT\r\n\r\nHello, World!";
const BODY: &[u8] = b"Hello, World!";
/// `:status: 200` and `content-length: 13` (RFC 7541).
const RESPONSE_BLOCK: &[u8] = &[0x88, 0x0F, 0x0D, 0x02, b'1', b'3'];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, protocol, connections, depth, requests] = args.as_slice() else {
        eprintln!("usage: canned h1|h2c CONNECTIONS DEPTH REQUESTS");
        std::process::exit(2);
    };
    let number = |text: &String| text.parse().expect("numbers should be below 2^32");
    let (connections, depth, requests) = (number(connections), number(depth), number(requests));
    let protocol = match protocol.as_str() {
        "h1" => Protocol::H1,
        "h2c" => Protocol::H2c,
        other => panic!("{other} is neither h1 nor h2c"),
    };
    let mut worker = Worker::new(config(protocol, connections, depth, requests));
    let mut driver = CannedDriver::new(protocol, connections);
    dyno_engine::run(
        &mut worker,
        &mut driver,
        || Some(Instant(SECOND)),
        |_| dyno_engine::Stop::No,
        drop,
    );
    let books = worker.report().books;
    assert_eq!(books.completed, u64::from(requests), "{books:?}");
    println!("{}", books.completed);
}

fn config(protocol: Protocol, connections: u32, depth: u32, requests: u32) -> WorkerConfig {
    WorkerConfig {
        worker: 0,
        connections,
        protocol,
        http2: Http2::default(),
        pipeline: if protocol == Protocol::H1 { depth } else { 1 },
        streams: depth,
        schedule: Schedule::new(
            &Arrivals::Closed,
            &Arc::from([]),
            42,
            Stripe { worker: 0, workers: 1 },
        ),
        total: Some(u64::from(requests)),
        traffic: Arc::new(traffic()),
        page_connections: None,
        draws: Draws::new(1, 0, 1),
        check_one_in: 17,
        policy: Policy { timeout_ns: 10 * SECOND, connect_timeout_ns: SECOND, ..Policy::default() },
        tls: None,
        spin: SpinPolicy::Near,
        window: Window {
            warmup_ns: 0,
            duration_ns: None,
            interval_ns: SECOND,
            drain_ns: 5 * SECOND,
        },
    }
}

fn traffic() -> Traffic {
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "127.0.0.1:8080"),
        (":path", "/plaintext"),
        ("accept", "*/*"),
    ];
    let fields =
        fields.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).to_vec();
    let shared = SharedFields::from_requests(std::slice::from_ref(&fields));
    let expect =
        Expectation { status: Some(200), body: Some(Arc::from(BODY)), ..Expectation::default() };
    let request = CompiledRequest {
        stream: Some(StreamTemplate::Fixed {
            block: shared.encode(&fields),
            body: Arc::from(&b""[..]),
        }),
        ..CompiledRequest::from_bytes(REQUEST, RequestKind::Other, expect)
    };
    Traffic::single(request).with_shared_bytes(shared.table_bytes())
}

/// A driver whose connections complete at once, and whose server replies to all requests of a flush
/// in one piece.
struct CannedDriver {
    protocol: Protocol,
    now: Instant,
    connecting: Vec<ConnId>,
    conns: Vec<CannedConnection>,
    /// Connections with bytes to flush.
    queued: Vec<ConnId>,
    /// Connections with responses that the current turn reports, the next one last.
    answered: Vec<ConnId>,
    /// Connections with responses that the next turn reports.
    replied: Vec<ConnId>,
    /// Bytes of the last completion.
    received: Vec<u8>,
    taken_bytes: u64,
}

#[derive(Clone, Default)]
struct CannedConnection {
    out: Vec<u8>,
    responses: Vec<u8>,
    taken: u64,
}

impl CannedDriver {
    fn new(protocol: Protocol, connections: u32) -> CannedDriver {
        CannedDriver {
            protocol,
            now: Instant(0),
            connecting: Vec::new(),
            conns: vec![CannedConnection::default(); connections as usize],
            queued: Vec::new(),
            answered: Vec::new(),
            replied: Vec::new(),
            received: Vec::new(),
            taken_bytes: 0,
        }
    }
}

impl CannedConnection {
    /// Replies to all queued requests.
    fn reply(&mut self, protocol: Protocol) {
        if protocol == Protocol::H1 {
            for _ in 0..self.out.len() / REQUEST.len() {
                self.responses.extend_from_slice(RESPONSE);
            }
        } else {
            self.reply_to_streams();
        }
        self.out.clear();
    }

    fn reply_to_streams(&mut self) {
        let CannedConnection { out, responses, .. } = self;
        let mut frames = out.as_slice();
        if let Some(rest) = frames.strip_prefix(PREFACE) {
            frames = rest;
            frame::put_header(Kind::Settings, 0, 0, 0, responses);
        }
        while let Some((header, rest)) = frames.split_first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::parse(header);
            frames = &rest[header.length as usize..];
            if header.kind == Kind::Headers {
                let stream = header.stream;
                let length = RESPONSE_BLOCK.len();
                frame::put_header(Kind::Headers, flag::END_HEADERS, stream, length, responses);
                responses.extend_from_slice(RESPONSE_BLOCK);
                frame::put_header(Kind::Data, flag::END_STREAM, stream, BODY.len(), responses);
                responses.extend_from_slice(BODY);
            } else if header.kind == Kind::Settings && !header.has(flag::ACK) {
                frame::put_header(Kind::Settings, flag::ACK, 0, 0, responses);
            }
        }
    }
}

impl Driver for CannedDriver {
    fn now(&self) -> Instant {
        self.now
    }

    fn close(&mut self, conn: ConnId) {
        self.conns[conn as usize] = CannedConnection::default();
    }

    fn queued_bytes(&self, conn: ConnId) -> QueuedBytes {
        let CannedConnection { out, taken, .. } = &self.conns[conn as usize];
        QueuedBytes { taken: *taken, waiting: out.len() as u64 }
    }

    fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    fn flush(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) {
        for conn in self.queued.drain(..) {
            let connection = &mut self.conns[conn as usize];
            let bytes = connection.out.len() as u64;
            connection.taken += bytes;
            self.taken_bytes += bytes;
            on_handed_over(conn, self.now);
            connection.reply(self.protocol);
            if !connection.responses.is_empty() {
                self.replied.push(conn);
            }
        }
    }

    fn turn(&mut self, wait: Wait, on_handed_over: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        let entered = self.now;
        self.flush(on_handed_over);
        std::mem::swap(&mut self.answered, &mut self.replied);
        let is_idle = self.answered.is_empty() && self.connecting.is_empty();
        self.now = if is_idle { wait.until.max(entered) } else { entered.plus(10_000) };
        Turn { entered, woke: self.now, spun_ns: 0 }
    }

    fn next(&mut self) -> Option<Completion> {
        self.received.clear();
        let (conn, kind) = match self.connecting.pop() {
            Some(conn) => (conn, CompletionKind::Connected),
            None => (self.answered.pop()?, CompletionKind::Received),
        };
        std::mem::swap(&mut self.received, &mut self.conns[conn as usize].responses);
        self.now = self.now.plus(200);
        Some(Completion { conn, kind, at: self.now })
    }

    fn received_bytes(&mut self) -> &mut [u8] {
        &mut self.received
    }

    fn thread_use(&self) -> ThreadUse {
        ThreadUse::default()
    }

    fn thread_run_ns(&self) -> u64 {
        0
    }
}

impl StreamDriver for CannedDriver {
    fn connect(&mut self, conn: ConnId) {
        self.connecting.push(conn);
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        let connection = &mut self.conns[conn as usize];
        if connection.out.is_empty() {
            self.queued.push(conn);
        }
        connection.out.extend_from_slice(bytes);
    }

    fn unsent_bytes(&self, _: ConnId) -> u64 {
        0
    }

    fn tcp_counters(&mut self, _: ConnId) -> Option<TcpCounters> {
        None
    }
}
