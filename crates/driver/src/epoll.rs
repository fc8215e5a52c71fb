//! A driver over edge-triggered epoll, for kernels without io_uring. It makes one `write` per flush
//! and connection, and one `read` per completion.

mod datagrams;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use datagrams::DatagramQueue;
use dyno_engine::driver::{QueuedBytes, Turn, Wait};
use dyno_engine::{Completion, CompletionKind, ConnId, Driver, Instant, StreamDriver};
use dyno_model::load::TcpCounters;
use dyno_model::sample::ThreadUse;

use crate::sys::{Address, Endpoint, SocketKind, Stamps};
use crate::{limits, sys};

/// Driver over epoll.
#[derive(Debug)]
pub struct Epoll {
    epoll: OwnedFd,
    address: Address,
    stamps: Option<stamps::Clock>,
    conns: Vec<Option<Conn>>,
    /// Connections with bytes to write.
    queued: Vec<ConnId>,
    /// Sockets with datagrams to send.
    queued_sockets: Vec<ConnId>,
    events: Vec<libc::epoll_event>,
    /// Connections that can have bytes to read, in the order in which the kernel reported them.
    readable: VecDeque<Readable>,
    /// Connections that may have more to read after the last read, because the read filled the
    /// buffer, the connection has ended, or it is a datagram socket. These connections are read
    /// again only in the next turn. Otherwise a turn might never end.
    partly_read: Vec<Readable>,
    /// Completions that come from the driver itself, and not from the kernel: the connection, its
    /// generation, and the event.
    own_completions: VecDeque<(ConnId, u32, CompletionKind)>,
    /// Current generation of each slot, connected or not.
    slot_generations: Vec<u32>,
    buffer: Box<[u8]>,
    /// Length of the last received bytes, at the start of `buffer`.
    received: usize,
    /// Number of generations given out so far.
    generations: u32,
    /// Bytes that the kernel has taken, on all connections.
    taken_bytes: u64,
    timers: Timers,
    /// Connects, with their generation, that found the queue of the server full.
    delayed_connects: Vec<(ConnId, u32)>,
}

/// Precision with which the kernel can end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timers {
    /// `epoll_pwait2` (Linux 5.11).
    Exact,
    /// For older kernels and tools that intercept system calls. Waits end up to a millisecond late,
    /// which appears in wake lag and send lag.
    Milliseconds,
}

/// A connection that can have bytes to read.
#[derive(Clone, Copy, Debug)]
struct Readable {
    conn: ConnId,
    generation: u32,
    /// Whether later reads can find more: the peer has closed the connection, the connection broke,
    /// or it is a datagram socket. The connection is read until a read reports the end, or finds
    /// nothing.
    has_more: bool,
}

/// Events after which a stream is read until its end.
const END_EVENTS: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;

#[derive(Debug)]
struct Conn {
    fd: OwnedFd,
    /// Number that distinguishes this connection from earlier ones in the same slot.
    generation: u32,
    is_connected: bool,
    /// Events after which the connection is read until a read reports the end, or finds nothing.
    drain_events: u32,
    /// Boundaries of the datagrams in `out`; `None`: a stream.
    datagrams: Option<Box<DatagramQueue>>,
    /// Bytes to write next.
    out: Vec<u8>,
    /// Number of bytes of `out` that the kernel has taken.
    written: usize,
    /// Bytes that were queued while `out` was stuck. They become `out` when it is empty, and get
    /// their own timestamp with their first write.
    next_out: Vec<u8>,
    /// Bytes that the kernel has taken since the connection was opened.
    taken: u64,
    /// Whether a write failed because of a reset. The kernel reports a reset only once, so a later
    /// read would see only the end of the stream.
    was_reset: bool,
    /// Whether the end of the connection was reported, so that it is not read again.
    has_reported_end: bool,
    /// Whether the connection is in the list to flush.
    is_queued: bool,
    /// Whether the last write could not empty `out`. All bytes of `out` have been reported as
    /// handed over.
    is_stuck: bool,
}

impl Epoll {
    /// Creates a driver for up to `connections` connections to one endpoint.
    pub fn new(endpoint: &Endpoint, connections: u32) -> io::Result<Epoll> {
        let address = Address::new(endpoint)?;
        // SAFETY: no memory is involved, and the descriptor is fresh.
        let epoll =
            unsafe { OwnedFd::from_raw_fd(sys::check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        sys::tighten_timers();
        Ok(Epoll {
            epoll,
            address,
            stamps: (endpoint.stamps == Stamps::Kernel).then(stamps::Clock::new),
            conns: (0..connections).map(|_| None).collect(),
            queued: Vec::new(),
            queued_sockets: Vec::new(),
            events: vec![libc::epoll_event { events: 0, u64: 0 }; limits::EVENTS],
            readable: VecDeque::new(),
            partly_read: Vec::new(),
            own_completions: VecDeque::new(),
            slot_generations: vec![0; connections as usize],
            buffer: vec![0; limits::READ_BYTES].into(),
            received: 0,
            generations: 0,
            taken_bytes: 0,
            timers: Timers::Exact,
            delayed_connects: Vec::new(),
        })
    }

    fn start_connect(
        &mut self,
        conn: ConnId,
        generation: u32,
        kind: SocketKind,
    ) -> io::Result<Conn> {
        let fd = self.address.socket(kind, false)?;
        if self.stamps.is_some() {
            sys::enable_option(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)?;
        }
        let (peer, len) = self.address.peer();
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32,
            u64: u64::from(generation) << 32 | u64::from(conn),
        };
        // SAFETY: `event` is valid during the call, and `peer` as long as the driver.
        unsafe {
            sys::check(libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                fd.as_raw_fd(),
                &raw mut event,
            ))?;
            match sys::check(libc::connect(fd.as_raw_fd(), peer, len)) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
                _ => {}
            }
        }
        let is_stream = kind == SocketKind::Stream;
        Ok(Conn {
            fd,
            generation,
            is_connected: false,
            drain_events: if is_stream { END_EVENTS } else { END_EVENTS | libc::EPOLLIN as u32 },
            datagrams: (!is_stream).then(Box::default),
            out: Vec::new(),
            written: 0,
            next_out: Vec::new(),
            taken: 0,
            was_reset: false,
            has_reported_end: false,
            is_queued: false,
            is_stuck: false,
        })
    }

    /// Opens a socket in a slot, and begins to connect it.
    fn open(&mut self, conn: ConnId, kind: SocketKind) {
        self.generations += 1;
        let generation = self.generations;
        self.slot_generations[conn as usize] = generation;
        self.try_connect(conn, generation, kind);
    }

    fn try_connect(&mut self, conn: ConnId, generation: u32, kind: SocketKind) {
        match self.start_connect(conn, generation, kind) {
            Ok(connection) => self.conns[conn as usize] = Some(connection),
            Err(error) => {
                // A Unix socket returns EAGAIN while its queue of new connections is full. TCP
                // would wait instead.
                if error.raw_os_error() == Some(libc::EAGAIN) {
                    self.delayed_connects.push((conn, generation));
                    return;
                }
                let error = sys::connect_error(error.raw_os_error().unwrap_or(0));
                self.own_completions.push_back((
                    conn,
                    generation,
                    CompletionKind::ConnectFailed(error),
                ));
            }
        }
    }

    /// Retries connects that found the queue of the server full.
    fn retry_connects(&mut self) {
        for (conn, generation) in std::mem::take(&mut self.delayed_connects) {
            if self.slot_generations[conn as usize] == generation {
                // Datagram sockets have no such queue.
                self.try_connect(conn, generation, SocketKind::Stream);
            }
        }
    }

    fn conn(&mut self, conn: ConnId, generation: u32) -> Option<&mut Conn> {
        self.conns[conn as usize].as_mut().filter(|c| c.generation == generation)
    }

    /// Writes `out`, and adds the number of bytes that the kernel took to `taken_bytes`. Returns
    /// whether the kernel took all bytes. If so, `next_out` becomes `out`.
    fn write(connection: &mut Conn, taken_bytes: &mut u64) -> bool {
        connection.is_stuck = true;
        while connection.written < connection.out.len() {
            let unwritten = &connection.out[connection.written..];
            // SAFETY: `unwritten` is valid for its length.
            let n = unsafe {
                libc::send(
                    connection.fd.as_raw_fd(),
                    unwritten.as_ptr().cast(),
                    unwritten.len(),
                    libc::MSG_NOSIGNAL,
                )
            };
            if n < 0 {
                // If the socket buffer is full, EPOLLOUT reports room later. If the connection is
                // broken, a read reports the error.
                connection.was_reset |=
                    io::Error::last_os_error().raw_os_error() == Some(libc::ECONNRESET);
                return false;
            }
            connection.written += n as usize;
            connection.taken += n as u64;
            *taken_bytes += n as u64;
        }
        connection.out.clear();
        connection.written = 0;
        connection.is_stuck = false;
        if !connection.next_out.is_empty() {
            std::mem::swap(&mut connection.out, &mut connection.next_out);
        }
        true
    }

    /// Returns the outcome of a connect whose socket is ready.
    fn connect_outcome(connection: &mut Conn) -> CompletionKind {
        let mut errno: libc::c_int = 0;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: `errno` and `len` are valid places.
        unsafe {
            libc::getsockopt(
                connection.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut errno).cast(),
                &raw mut len,
            );
        }
        if errno != 0 {
            return CompletionKind::ConnectFailed(sys::connect_error(errno));
        }
        connection.is_connected = true;
        CompletionKind::Connected
    }

    /// Reads once. `None`: nothing to read.
    ///
    /// The kernel can signal one end several times: when the socket learns of it, when its last
    /// segment is queued, and when a reset follows. It is reported once.
    fn read(&mut self, conn: ConnId, generation: u32) -> Option<CompletionKind> {
        let connection = self.conns[conn as usize]
            .as_mut()
            .filter(|c| c.generation == generation && !c.has_reported_end)?;
        let n = match &mut self.stamps {
            Some(clock) => clock.receive(&connection.fd, &mut self.buffer),
            // SAFETY: the buffer is valid for its length.
            None => unsafe {
                libc::recv(
                    connection.fd.as_raw_fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    0,
                )
            },
        };
        if n < 0 {
            if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock {
                return None;
            }
            connection.has_reported_end = true;
            return Some(CompletionKind::Reset);
        }
        self.received = n as usize;
        // Datagrams can be empty.
        if n > 0 || connection.datagrams.is_some() {
            return Some(CompletionKind::Received);
        }
        connection.has_reported_end = true;
        Some(if connection.was_reset { CompletionKind::Reset } else { CompletionKind::Eof })
    }

    /// Waits until a socket is ready or until `wait.until`. Returns the time spent polling,
    /// nanoseconds.
    fn wait(&mut self, now: Instant, wait: Wait) -> u64 {
        let asleep_until = wait.until.min(wait.spin_from);
        let mut ready = 0;
        // If the wait is already over, `sleep` only collects the sockets that are ready.
        if asleep_until > now || wait.until <= now {
            ready = self.sleep(now, asleep_until);
        }
        if ready > 0 || wait.spin_from >= wait.until || wait.until <= now {
            return 0;
        }
        let poll = sys::Poll::begin();
        let mut now = poll.began;
        while now < wait.until && self.sleep(now, now) == 0 {
            now = sys::now();
        }
        // `now` was read before the last poll. If this poll found an event, the poll was work, and
        // its time does not count as idle.
        poll.idle_ns(now)
    }

    /// Sleeps until a socket is ready or until `until`. Returns the number of ready sockets.
    fn sleep(&mut self, now: Instant, until: Instant) -> usize {
        let wait_ns = (until != Instant::NEVER).then(|| until.ns_since(now));
        let result = match self.timers {
            Timers::Exact => self.wait_nanoseconds(wait_ns),
            Timers::Milliseconds => self.wait_milliseconds(wait_ns),
        };
        let n = match result {
            Ok(n) => n as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                self.timers = Timers::Milliseconds;
                return self.sleep(now, until);
            }
            Err(error) => panic!("epoll_wait: {error}"),
        };
        for i in 0..n {
            let event = self.events[i];
            let (conn, generation) = (event.u64 as u32, (event.u64 >> 32) as u32);
            self.on_ready(conn, generation, event.events);
        }
        n
    }

    fn wait_nanoseconds(&mut self, wait_ns: Option<u64>) -> io::Result<i32> {
        let timeout = wait_ns.map(timespec);
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: `events` is valid for its length; the timeout lives through the call.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as libc::c_int,
                timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        sys::check(n as i32)
    }

    /// Waits whole milliseconds, rounded up, because a wait must not end early.
    fn wait_milliseconds(&mut self, wait_ns: Option<u64>) -> io::Result<i32> {
        let timeout = wait_ns.map_or(-1, |ns| ns.div_ceil(1_000_000).min(i32::MAX as u64) as i32);
        let len = self.events.len() as libc::c_int;
        // SAFETY: `events` is valid for its length.
        sys::check(unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), len, timeout)
        })
    }

    fn send_proxy_header(&mut self, conn: ConnId) {
        let connection = self.conns[conn as usize].as_ref();
        if let Some(header) = connection.and_then(|c| self.address.proxy_header(&c.fd)) {
            self.send(conn, &header);
        }
    }

    /// Handles the events of a socket.
    fn on_ready(&mut self, conn: ConnId, generation: u32, events: u32) {
        let current = self.conns[conn as usize].as_mut().filter(|c| c.generation == generation);
        let Some(connection) = current else { return };
        let has_more = events & connection.drain_events != 0;
        if !connection.is_connected {
            let kind = Self::connect_outcome(connection);
            if kind == CompletionKind::Connected && connection.datagrams.is_none() {
                self.send_proxy_header(conn);
            }
            self.own_completions.push_back((conn, generation, kind));
        } else if events & libc::EPOLLOUT as u32 != 0 && connection.is_stuck {
            self.continue_stuck(conn);
        }
        if has_more || events & libc::EPOLLIN as u32 != 0 {
            self.readable.push_back(Readable { conn, generation, has_more });
        }
    }

    /// Continues a connection that was stuck, and whose socket has room again.
    fn continue_stuck(&mut self, conn: ConnId) {
        let Some(connection) = &mut self.conns[conn as usize] else { return };
        if connection.datagrams.is_some() {
            return self.queue_socket(conn);
        }
        // If `out` was emptied, it now contains the bytes of `next_out`. The next flush writes
        // these bytes, because it reads the clock for their timestamp.
        let has_more = Self::write(connection, &mut self.taken_bytes) && !connection.out.is_empty();
        if has_more && !std::mem::replace(&mut connection.is_queued, true) {
            self.queued.push(conn);
        }
    }
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

impl Driver for Epoll {
    fn now(&self) -> Instant {
        sys::now()
    }

    fn close(&mut self, conn: ConnId) {
        self.conns[conn as usize] = None;
        // Entries of the old connection have an older generation and are ignored.
        self.generations += 1;
        self.slot_generations[conn as usize] = self.generations;
    }

    fn queued_bytes(&self, conn: ConnId) -> QueuedBytes {
        self.conns[conn as usize].as_ref().map_or_else(QueuedBytes::default, |connection| {
            QueuedBytes {
                taken: connection.taken,
                waiting: (connection.out.len() - connection.written + connection.next_out.len())
                    as u64,
            }
        })
    }

    fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    fn flush(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) {
        if !self.queued_sockets.is_empty() {
            self.send_datagrams(on_handed_over);
        }
        // The list is moved out and back, so that its memory is reused.
        let mut queued = std::mem::take(&mut self.queued);
        for conn in queued.drain(..) {
            let Some(connection) = self.conns[conn as usize].as_mut().filter(|c| c.is_queued)
            else {
                continue;
            };
            connection.is_queued = false;
            if connection.is_stuck && !Self::write(connection, &mut self.taken_bytes) {
                // EPOLLOUT reports room later.
                continue;
            }
            // The clock is read right before the first system call for these bytes.
            let at = sys::now();
            Self::write(connection, &mut self.taken_bytes);
            on_handed_over(conn, at);
        }
        self.queued = queued;
    }

    fn turn(&mut self, wait: Wait, on_handed_over: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        // The clock is read first, because the busy time of the worker ends here.
        let entered = sys::now();
        self.flush(on_handed_over);
        self.readable.extend(self.partly_read.drain(..));
        self.retry_connects();
        let mut until = if self.own_completions.is_empty() && self.readable.is_empty() {
            wait.until
        } else {
            entered
        };
        if !self.delayed_connects.is_empty() {
            until = until.min(entered.plus(limits::CONNECT_RETRY_NS));
        }
        // The writes took time, so the clock is read again for the wait.
        let spun_ns = self.wait(sys::now(), Wait { until, ..wait });
        // The clock is read right after the kernel reported the ready sockets.
        Turn { entered, woke: sys::now(), spun_ns }
    }

    fn next(&mut self) -> Option<Completion> {
        while let Some((conn, generation, kind)) = self.own_completions.pop_front() {
            if self.slot_generations[conn as usize] != generation {
                continue;
            }
            if matches!(kind, CompletionKind::ConnectFailed(_))
                && self.conn(conn, generation).is_some()
            {
                self.conns[conn as usize] = None;
            }
            // The clock is read now, at the first instant at which the completion can be reported.
            return Some(Completion { conn, kind, at: sys::now() });
        }
        while let Some(readable) = self.readable.pop_front() {
            let Readable { conn, generation, has_more } = readable;
            let Some(kind) = self.read(conn, generation) else { continue };
            // The clock is read right after the receive, so the bytes had arrived by then.
            let at = sys::now();
            if kind == CompletionKind::Received && (has_more || self.received == self.buffer.len())
            {
                // More bytes, or the end, can be left. Edge-triggered epoll does not report them
                // again.
                self.partly_read.push(readable);
            }
            return Some(Completion { conn, kind, at });
        }
        None
    }

    fn received_bytes(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.received]
    }

    fn received_at(&self) -> Option<Instant> {
        self.stamps.as_ref()?.last
    }

    fn thread_use(&self) -> ThreadUse {
        sys::thread_use()
    }

    fn thread_run_ns(&self) -> u64 {
        sys::thread_run_ns()
    }
}

impl StreamDriver for Epoll {
    fn connect(&mut self, conn: ConnId) {
        self.open(conn, SocketKind::Stream);
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        let connection = self.conns[conn as usize].as_mut().expect("the connection should be open");
        // The connection is queued even if earlier bytes still wait, because only a flush reads the
        // timestamp of the hand-over.
        if !std::mem::replace(&mut connection.is_queued, true) {
            self.queued.push(conn);
        }
        let Conn { out, next_out, is_stuck, .. } = connection;
        sys::append_output(bytes, if *is_stuck { next_out } else { out });
    }

    fn unsent_bytes(&self, conn: ConnId) -> u64 {
        self.conns[conn as usize].as_ref().map_or(0, |connection| sys::unsent_bytes(&connection.fd))
    }

    fn tcp_counters(&mut self, conn: ConnId) -> Option<TcpCounters> {
        sys::tcp_counters(self.conns[conn as usize].as_ref()?.fd.as_raw_fd())
    }
}

/// Receives with timestamps of the kernel (`SO_TIMESTAMPNS`).
mod stamps {
    use std::os::fd::{AsRawFd as _, OwnedFd};

    use dyno_engine::Instant;

    use crate::sys;

    /// Memory for one control message with a timestamp.
    #[repr(C, align(8))]
    struct Control([u8; 64]);

    /// Converts receive timestamps to the monotonic clock.
    #[derive(Debug)]
    pub(super) struct Clock {
        /// Offset of the wall clock from the monotonic clock. The kernel's timestamps are on the
        /// wall clock.
        wall_ahead_ns: u64,
        pub(super) last: Option<Instant>,
    }

    impl Clock {
        pub(super) fn new() -> Clock {
            Clock { wall_ahead_ns: sys::wall_ahead_ns(), last: None }
        }

        /// Receives as `recv` does, and stores the timestamp of the last byte in `last`.
        pub(super) fn receive(&mut self, fd: &OwnedFd, buffer: &mut [u8]) -> isize {
            let mut part =
                libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            let mut control = Control([0; 64]);
            // SAFETY: all-zero bytes are a valid msghdr.
            let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = control.0.len() as _;
            // SAFETY: the message points to a buffer and a control area of the lengths it names.
            let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) };
            // After an error, the last timestamp stays valid.
            if n >= 0 {
                self.last = if n > 0 { self.stamp(&message) } else { None };
            }
            n
        }

        fn stamp(&self, message: &libc::msghdr) -> Option<Instant> {
            // SAFETY: the kernel has filled the control area with valid headers.
            let time = unsafe {
                let header = libc::CMSG_FIRSTHDR(message).as_ref()?;
                if (header.cmsg_level, header.cmsg_type)
                    != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
                {
                    return None;
                }
                libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned()
            };
            let wall_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            // The result is on the monotonic clock, like all other instants.
            Some(Instant(wall_ns.saturating_sub(self.wall_ahead_ns)))
        }
    }
}
