//! The yardstick of `make bench`: the least that any generator over io_uring can do. Multishot
//! receives into provided buffers, one batch of sends per turn, no clock, no records, and no more
//! parsing than it takes to see where answers end. The difference to dyno's cost is the cost of its
//! checks, its books and its histograms.
//!
//! `bare ADDR:PORT CONNECTIONS SECONDS [DEPTH] [PATH] [h1|h2c]` prints requests per second, user
//! and system CPU in microseconds per request. Over HTTP/1.1 a response is as long as the first one
//! received, whatever it holds; over HTTP/2 it is what a frame with END_STREAM ends.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use dyno_wire::h2::frame::{self, FrameHeader, HEADER_BYTES, Kind, flag};
use dyno_wire::h2::{EncodedBlock, SharedFields};
use io_uring::{IoUring, cqueue, opcode, types};

const BUFFERS: u16 = 1024;
const BUFFER_BYTES: usize = 4096;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, addr, connections, seconds, rest @ ..] = args.as_slice() else {
        eprintln!("usage: bare ADDR:PORT CONNECTIONS SECONDS [DEPTH] [PATH] [h1|h2c]");
        std::process::exit(2);
    };
    let connections: usize = connections.parse().expect("CONNECTIONS is a number");
    let seconds: f64 = seconds.parse().expect("SECONDS is a number");
    let depth: usize = rest.first().map_or(1, |d| d.parse().expect("DEPTH is a number"));
    let path = rest.get(1).map_or("/plaintext", String::as_str);
    let mut talks: Vec<Talk> = match rest.get(2).map_or("h1", String::as_str) {
        "h1" => {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\n\r\n");
            let answer = answer_bytes(addr, &request) * depth;
            let batch = request.repeat(depth).into_bytes();
            let talk =
                || Talk { batch: batch.clone(), units: answer, missing: answer, streams: None };
            (0..connections).map(|_| talk()).collect()
        }
        "h2c" => (0..connections).map(|_| Talk::h2c(addr, path, depth)).collect(),
        other => panic!("{other} is neither h1 nor h2c"),
    };
    let sockets: Vec<TcpStream> = talks
        .iter()
        .map(|talk| {
            let mut socket = TcpStream::connect(addr.as_str()).expect("the server listens");
            socket.set_nodelay(true).expect("TCP has this option");
            if talk.streams.is_some() {
                greet(&mut socket);
            }
            socket
        })
        .collect();
    let before = cpu();
    let began = Instant::now();
    let answers = drive(&sockets, &mut talks, Duration::from_secs_f64(seconds)) * depth as u64;
    let elapsed = began.elapsed().as_secs_f64();
    let after = cpu();
    let per_request = |s: f64| s * 1e6 / answers as f64;
    println!(
        "{:.0} {:.3} {:.3}",
        answers as f64 / elapsed,
        per_request(after.0 - before.0),
        per_request(after.1 - before.1)
    );
}

/// Requests and responses of one connection.
struct Talk {
    /// Requests that leave together.
    batch: Vec<u8>,
    /// Units that answer all requests: bytes, or ends of streams.
    units: usize,
    /// Units that are still missing.
    missing: usize,
    /// `None`: HTTP/1.1.
    streams: Option<Streams>,
}

/// HTTP/2 on one connection.
struct Streams {
    next_id: u32,
    /// The block of every request but the first.
    later: Box<[u8]>,
    /// The beginning of a frame's header, and how much of a payload is to be passed over.
    begun: Vec<u8>,
    payload: usize,
}

impl Talk {
    fn h2c(addr: &str, path: &str, depth: usize) -> Talk {
        let list = [(":method", "GET"), (":scheme", "http"), (":authority", addr), (":path", path)];
        let list: Vec<_> = list
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect();
        let block: EncodedBlock =
            SharedFields::from_requests(std::slice::from_ref(&list)).encode(&list);
        let streams = Streams { next_id: 3, later: block.later, begun: Vec::new(), payload: 0 };
        let mut talk =
            Talk { batch: Vec::new(), units: depth, missing: depth, streams: Some(streams) };
        frame::put_block(1, &block.first, true, usize::MAX, &mut talk.batch);
        talk.put_later(depth - 1);
        talk
    }

    fn put_later(&mut self, requests: usize) {
        let Some(streams) = &mut self.streams else { return };
        for _ in 0..requests {
            frame::put_block(streams.next_id, &streams.later, true, usize::MAX, &mut self.batch);
            streams.next_id += 2;
        }
    }

    /// Makes the next batch. The last one has left: it has been answered.
    fn renew(&mut self) {
        self.missing = self.units;
        if self.streams.is_some() {
            self.batch.clear();
            self.put_later(self.units);
        }
    }

    /// How much of a response `bytes` are.
    fn units_in(&mut self, bytes: &[u8]) -> usize {
        self.streams.as_mut().map_or(bytes.len(), |streams| streams.ended_by(bytes))
    }
}

impl Streams {
    /// How many streams end in `bytes`.
    fn ended_by(&mut self, mut bytes: &[u8]) -> usize {
        let mut ended = 0;
        loop {
            let passed = self.payload.min(bytes.len());
            self.payload -= passed;
            bytes = &bytes[passed..];
            let wanted = (HEADER_BYTES - self.begun.len()).min(bytes.len());
            self.begun.extend_from_slice(&bytes[..wanted]);
            bytes = &bytes[wanted..];
            let Some(header) = self.begun.first_chunk().map(FrameHeader::parse) else {
                return ended;
            };
            self.begun.clear();
            self.payload = header.length as usize;
            let is_of_stream = matches!(header.kind, Kind::Data | Kind::Headers);
            ended += usize::from(is_of_stream && header.has(flag::END_STREAM));
        }
    }
}

/// Begins HTTP/2: our preface with a window that lasts, and the acknowledgement of the server's
/// settings.
fn greet(socket: &mut TcpStream) {
    let mut out = frame::PREFACE.to_vec();
    frame::put_header(Kind::Settings, 0, 0, 0, &mut out);
    frame::put_window_update(0, i32::MAX as u32 - 65_535, &mut out);
    frame::put_header(Kind::Settings, flag::ACK, 0, 0, &mut out);
    socket.write_all(&out).expect("the server reads");
    // Up to its acknowledgement of ours: what comes later is no concern of settings.
    loop {
        let mut header = [0; HEADER_BYTES];
        socket.read_exact(&mut header).expect("the server speaks HTTP/2");
        let header = FrameHeader::parse(&header);
        socket.read_exact(&mut vec![0; header.length as usize]).expect("the server speaks HTTP/2");
        if header.kind == Kind::Settings && header.has(flag::ACK) {
            return;
        }
    }
}

/// Size of one response, head and body, read with a plain socket.
fn answer_bytes(addr: &str, request: &str) -> usize {
    let mut socket = TcpStream::connect(addr).expect("the server listens");
    socket.write_all(request.as_bytes()).expect("the server reads");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out above zero");
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(n @ 1..) = socket.read(&mut chunk) {
        answer.extend_from_slice(&chunk[..n]);
    }
    assert!(!answer.is_empty(), "the server answers");
    answer.len()
}

/// Sends each socket's batch, and the next one whenever it has been answered. Returns how often.
fn drive(sockets: &[TcpStream], talks: &mut [Talk], duration: Duration) -> u64 {
    let mut ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(8192)
        .build(1024)
        .expect("io_uring with deferred task work");
    let mut buffers = Buffers::new();
    // SAFETY: the buffers live until the process ends.
    unsafe {
        ring.submitter()
            .register_buf_ring_with_flags(buffers.ring as u64, BUFFERS, 0, 0)
            .expect("buffer rings");
    }
    let fds: Vec<i32> = sockets.iter().map(std::os::fd::AsRawFd::as_raw_fd).collect();
    ring.submitter().register_files(&fds).expect("fixed files");
    for (conn, talk) in talks.iter().enumerate() {
        push(&mut ring, &receive(conn as u32));
        push(&mut ring, &send(conn as u32, &talk.batch));
    }
    let ends = Instant::now() + duration;
    let mut rounds = 0u64;
    let mut turns = 0u32;
    loop {
        ring.submit_and_wait(1).expect("io_uring_enter");
        turns += 1;
        // A look at the clock now and then, so that it costs nothing.
        if turns.is_multiple_of(256) && Instant::now() >= ends {
            return rounds;
        }
        loop {
            let Some(entry) = ring.completion().next() else { break };
            let Some(buffer) = cqueue::buffer_select(entry.flags()) else { continue };
            let conn = entry.user_data() as u32;
            let n = usize::try_from(entry.result()).expect("the server goes on");
            let talk = &mut talks[conn as usize];
            talk.missing -= talk.units_in(buffers.get(buffer, n));
            buffers.give_back(buffer);
            if !cqueue::more(entry.flags()) {
                push(&mut ring, &receive(conn));
            }
            if talk.missing == 0 {
                talk.renew();
                rounds += 1;
                push(&mut ring, &send(conn, &talk.batch));
            }
        }
    }
}

fn receive(conn: u32) -> io_uring::squeue::Entry {
    opcode::RecvMulti::new(types::Fixed(conn), 0).build().user_data(u64::from(conn))
}

fn send(conn: u32, batch: &[u8]) -> io_uring::squeue::Entry {
    opcode::Send::new(types::Fixed(conn), batch.as_ptr(), batch.len() as u32)
        .build()
        .flags(io_uring::squeue::Flags::SKIP_SUCCESS)
        .user_data(u64::from(conn))
}

fn push(ring: &mut IoUring, entry: &io_uring::squeue::Entry) {
    // SAFETY: a batch stays as it is until it has been answered.
    while unsafe { ring.submission().push(entry) }.is_err() {
        ring.submit().expect("io_uring_enter");
    }
}

/// User and system CPU seconds of this process.
fn cpu() -> (f64, f64) {
    // SAFETY: all-zero bytes are a valid rusage, and it is a valid place for one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

struct Buffers {
    ring: *mut types::BufRingEntry,
    memory: *mut u8,
    tail: u16,
}

impl Buffers {
    fn new() -> Buffers {
        let bytes = usize::from(BUFFERS);
        let layout = |n: usize| Layout::from_size_align(n, 4096).expect("a few megabytes");
        // SAFETY: neither size is zero.
        let (ring, memory) = unsafe {
            (
                alloc_zeroed(layout(bytes * size_of::<types::BufRingEntry>())),
                alloc_zeroed(layout(bytes * BUFFER_BYTES)),
            )
        };
        let mut buffers = Buffers { ring: ring.cast(), memory, tail: 0 };
        (0..BUFFERS).for_each(|id| buffers.give_back(id));
        buffers
    }

    fn get(&self, id: u16, len: usize) -> &[u8] {
        // SAFETY: the kernel has filled so many bytes of this buffer, and leaves it alone until it
        // is given back.
        unsafe { std::slice::from_raw_parts(self.memory.add(usize::from(id) * BUFFER_BYTES), len) }
    }

    fn give_back(&mut self, id: u16) {
        // SAFETY: the index and the address lie within what `new` allocated, and the tail is
        // published last.
        unsafe {
            let entry = &mut *self.ring.add(usize::from(self.tail & (BUFFERS - 1)));
            entry.set_addr(self.memory.add(usize::from(id) * BUFFER_BYTES) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            let tail = types::BufRingEntry::tail(self.ring).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}
