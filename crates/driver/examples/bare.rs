//! A minimal load generator over io_uring, the baseline of `make bench`: multishot receives into
//! provided buffers and one batch of sends per turn. It reads no clock, records nothing, and parses
//! only as much as it takes to find the ends of responses. The difference to the CPU cost of dyno
//! is the cost of its checks, counters and histograms.
//!
//! `bare ADDR:PORT CONNECTIONS SECONDS [DEPTH] [PATH] [h1|h2c]` prints requests per second, and
//! user and system CPU in microseconds per request. Over HTTP/1.1 all responses must be as long as
//! the first one. Over HTTP/2 a response ends with END_STREAM.
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
    let mut conversations: Vec<Conversation> = match rest.get(2).map_or("h1", String::as_str) {
        "h1" => {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\n\r\n");
            let units = response_bytes(addr, &request) * depth;
            let batch = request.repeat(depth).into_bytes();
            let conversation =
                || Conversation { batch: batch.clone(), units, missing: units, streams: None };
            (0..connections).map(|_| conversation()).collect()
        }
        "h2c" => (0..connections).map(|_| Conversation::h2c(addr, path, depth)).collect(),
        other => panic!("{other} is neither h1 nor h2c"),
    };
    let sockets: Vec<TcpStream> = conversations
        .iter()
        .map(|conversation| {
            let mut socket = TcpStream::connect(addr.as_str()).expect("the server listens");
            socket.set_nodelay(true).expect("TCP has this option");
            if conversation.streams.is_some() {
                begin_http2(&mut socket);
            }
            socket
        })
        .collect();
    let before = cpu();
    let began = Instant::now();
    let responses =
        run_load(&sockets, &mut conversations, Duration::from_secs_f64(seconds)) * depth as u64;
    let elapsed = began.elapsed().as_secs_f64();
    let after = cpu();
    let per_request = |s: f64| s * 1e6 / responses as f64;
    println!(
        "{:.0} {:.3} {:.3}",
        responses as f64 / elapsed,
        per_request(after.0 - before.0),
        per_request(after.1 - before.1)
    );
}

/// State of one connection.
struct Conversation {
    /// Requests that are sent together.
    batch: Vec<u8>,
    /// Size of all responses to a batch: the number of bytes over HTTP/1.1, or of streams over
    /// HTTP/2.
    units: usize,
    /// Units of the current batch that have not arrived.
    missing: usize,
    /// `None`: HTTP/1.1.
    streams: Option<Streams>,
}

/// State of an HTTP/2 connection.
struct Streams {
    next_id: u32,
    /// Header block of every request except the first.
    later: Box<[u8]>,
    /// Partial frame header, and remaining bytes of the current payload.
    partial_header: Vec<u8>,
    payload: usize,
}

impl Conversation {
    fn h2c(addr: &str, path: &str, depth: usize) -> Conversation {
        let list = [(":method", "GET"), (":scheme", "http"), (":authority", addr), (":path", path)];
        let list: Vec<_> = list
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect();
        let block: EncodedBlock =
            SharedFields::from_requests(std::slice::from_ref(&list)).encode(&list);
        let streams =
            Streams { next_id: 3, later: block.later, partial_header: Vec::new(), payload: 0 };
        let mut conversation = Conversation {
            batch: Vec::new(),
            units: depth,
            missing: depth,
            streams: Some(streams),
        };
        frame::put_block(1, &block.first, true, usize::MAX, &mut conversation.batch);
        conversation.put_later(depth - 1);
        conversation
    }

    fn put_later(&mut self, requests: usize) {
        let Some(streams) = &mut self.streams else { return };
        for _ in 0..requests {
            frame::put_block(streams.next_id, &streams.later, true, usize::MAX, &mut self.batch);
            streams.next_id += 2;
        }
    }

    /// Prepares the next batch. The responses to the last batch have arrived.
    fn prepare_next(&mut self) {
        self.missing = self.units;
        if self.streams.is_some() {
            self.batch.clear();
            self.put_later(self.units);
        }
    }

    /// Returns the number of units in `bytes`.
    fn units_in(&mut self, bytes: &[u8]) -> usize {
        self.streams.as_mut().map_or(bytes.len(), |streams| streams.ended_streams(bytes))
    }
}

impl Streams {
    /// Returns the number of streams that end in `bytes`.
    fn ended_streams(&mut self, mut bytes: &[u8]) -> usize {
        let mut ended = 0;
        loop {
            let skipped = self.payload.min(bytes.len());
            self.payload -= skipped;
            bytes = &bytes[skipped..];
            let needed = (HEADER_BYTES - self.partial_header.len()).min(bytes.len());
            self.partial_header.extend_from_slice(&bytes[..needed]);
            bytes = &bytes[needed..];
            let Some(header) = self.partial_header.first_chunk().map(FrameHeader::parse) else {
                return ended;
            };
            self.partial_header.clear();
            self.payload = header.length as usize;
            let is_stream_frame = matches!(header.kind, Kind::Data | Kind::Headers);
            ended += usize::from(is_stream_frame && header.has(flag::END_STREAM));
        }
    }
}

/// Begins HTTP/2: sends the client preface with a window that lasts for the whole run, and
/// acknowledges the settings of the server.
fn begin_http2(socket: &mut TcpStream) {
    let mut out = frame::PREFACE.to_vec();
    frame::put_header(Kind::Settings, 0, 0, 0, &mut out);
    frame::put_window_update(0, i32::MAX as u32 - 65_535, &mut out);
    frame::put_header(Kind::Settings, flag::ACK, 0, 0, &mut out);
    socket.write_all(&out).expect("the server reads");
    // Reads up to the acknowledgement of our settings.
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

/// Returns the size of one response, head and body, read with a plain socket.
fn response_bytes(addr: &str, request: &str) -> usize {
    let mut socket = TcpStream::connect(addr).expect("the server listens");
    socket.write_all(request.as_bytes()).expect("the server reads");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out above zero");
    let mut response = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(n @ 1..) = socket.read(&mut chunk) {
        response.extend_from_slice(&chunk[..n]);
    }
    assert!(!response.is_empty(), "the server responds");
    response.len()
}

/// Sends the batch of each socket, and the next batch whenever all its responses have arrived.
/// Returns the number of batches whose responses have arrived.
fn run_load(sockets: &[TcpStream], conversations: &mut [Conversation], duration: Duration) -> u64 {
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
    for (conn, conversation) in conversations.iter().enumerate() {
        push(&mut ring, &receive(conn as u32));
        push(&mut ring, &send(conn as u32, &conversation.batch));
    }
    let deadline = Instant::now() + duration;
    let mut rounds = 0u64;
    let mut turns = 0u32;
    loop {
        ring.submit_and_wait(1).expect("io_uring_enter");
        turns += 1;
        // The clock is read rarely, so that it costs nothing.
        if turns.is_multiple_of(256) && Instant::now() >= deadline {
            return rounds;
        }
        loop {
            let Some(entry) = ring.completion().next() else { break };
            let Some(buffer) = cqueue::buffer_select(entry.flags()) else { continue };
            let conn = entry.user_data() as u32;
            let n = usize::try_from(entry.result()).expect("the server keeps the connection open");
            let conversation = &mut conversations[conn as usize];
            conversation.missing -= conversation.units_in(buffers.get(buffer, n));
            buffers.release(buffer);
            if !cqueue::more(entry.flags()) {
                push(&mut ring, &receive(conn));
            }
            if conversation.missing == 0 {
                conversation.prepare_next();
                rounds += 1;
                push(&mut ring, &send(conn, &conversation.batch));
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
    // SAFETY: a batch does not change until its responses have arrived.
    while unsafe { ring.submission().push(entry) }.is_err() {
        ring.submit().expect("io_uring_enter");
    }
}

/// Returns the user and system CPU seconds of this process.
fn cpu() -> (f64, f64) {
    // SAFETY: all-zero bytes are a valid rusage, and `usage` is a valid place for the result.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

/// Receive buffers shared with the kernel.
struct Buffers {
    ring: *mut types::BufRingEntry,
    memory: *mut u8,
    tail: u16,
}

impl Buffers {
    fn new() -> Buffers {
        let count = usize::from(BUFFERS);
        let layout =
            |bytes: usize| Layout::from_size_align(bytes, 4096).expect("the size should be small");
        // SAFETY: neither size is zero.
        let (ring, memory) = unsafe {
            (
                alloc_zeroed(layout(count * size_of::<types::BufRingEntry>())),
                alloc_zeroed(layout(count * BUFFER_BYTES)),
            )
        };
        let mut buffers = Buffers { ring: ring.cast(), memory, tail: 0 };
        (0..BUFFERS).for_each(|id| buffers.release(id));
        buffers
    }

    fn get(&self, id: u16, len: usize) -> &[u8] {
        // SAFETY: the kernel has filled `len` bytes of this buffer, and does not touch it until it
        // is released.
        unsafe { std::slice::from_raw_parts(self.memory.add(usize::from(id) * BUFFER_BYTES), len) }
    }

    fn release(&mut self, id: u16) {
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
