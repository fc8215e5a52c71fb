//! The yardstick of `make bench`: the least that any generator over io_uring can do. Multishot receives into provided
//! buffers, one batch of sends per turn, no parsing, no clock, no records. What dyno costs more than this is what its
//! checking, its books and its histograms cost.
//!
//! `bare ADDR:PORT CONNECTIONS SECONDS [DEPTH] [PATH]` prints requests per second, user and system CPU in microseconds
//! per request. An answer is `DEPTH` times the size of the first one received, whatever it holds.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use io_uring::{IoUring, cqueue, opcode, types};

const BUFFERS: u16 = 1024;
const BUFFER_BYTES: usize = 4096;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, addr, connections, seconds, rest @ ..] = args.as_slice() else {
        eprintln!("usage: bare ADDR:PORT CONNECTIONS SECONDS [DEPTH] [PATH]");
        std::process::exit(2);
    };
    let connections: usize = connections.parse().expect("CONNECTIONS is a number");
    let seconds: f64 = seconds.parse().expect("SECONDS is a number");
    let depth: usize = rest.first().map_or(1, |d| d.parse().expect("DEPTH is a number"));
    let path = rest.get(1).map_or("/plaintext", String::as_str);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\n\r\n");
    let answer_bytes = answer_bytes(addr, &request);
    let batch = request.repeat(depth).into_bytes();
    let sockets: Vec<TcpStream> = (0..connections)
        .map(|_| {
            let socket = TcpStream::connect(addr.as_str()).expect("the server listens");
            socket.set_nodelay(true).expect("TCP has this option");
            socket
        })
        .collect();
    let before = cpu();
    let began = Instant::now();
    let answers =
        drive(&sockets, &batch, answer_bytes * depth, Duration::from_secs_f64(seconds)) * depth as u64;
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

/// Size of one answer, head and body, read with a plain socket.
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

/// Sends `batch` on every socket, and again whenever `expected` bytes have come back. Returns how often.
fn drive(sockets: &[TcpStream], batch: &[u8], expected: usize, duration: Duration) -> u64 {
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
    let mut missing = vec![expected; fds.len()];
    for conn in 0..fds.len() as u32 {
        push(&mut ring, &receive(conn));
        push(&mut ring, &send(conn, batch));
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
            buffers.give_back(buffer);
            if !cqueue::more(entry.flags()) {
                push(&mut ring, &receive(conn));
            }
            let missing = &mut missing[conn as usize];
            *missing -= n;
            if *missing == 0 {
                *missing = expected;
                rounds += 1;
                push(&mut ring, &send(conn, batch));
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
    // SAFETY: the batch lives until the process ends.
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

    fn give_back(&mut self, id: u16) {
        // SAFETY: the index and the address lie within what `new` allocated, and the tail is published last.
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
