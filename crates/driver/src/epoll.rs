//! The driver for kernels without io_uring: edge-triggered epoll, one `write` per flush and
//! connection, one `read` per completion.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use dyno_archive::load::TcpCounters;
use dyno_archive::sample::ThreadUse;
use dyno_engine::driver::{Queued, Turn, Wait};
use dyno_engine::{Completion, CompletionKind, ConnId, Driver, Instant};

use crate::sys::{Address, Endpoint, Stamps};
use crate::{limits, sys};

/// Load over epoll.
#[derive(Debug)]
pub struct Epoll {
    epoll: OwnedFd,
    address: Address,
    stamps: Option<stamps::Clock>,
    conns: Vec<Option<Conn>>,
    /// Connections with bytes to write.
    queued: Vec<ConnId>,
    events: Vec<libc::epoll_event>,
    /// Connections that may have bytes to read, in the order in which the kernel reported them.
    readable: VecDeque<Readable>,
    /// Connections whose last read was full: they are read again in the next turn, so that no turn
    /// is endless.
    again: Vec<Readable>,
    /// Completions that are known without asking the kernel.
    known: VecDeque<(ConnId, u32, CompletionKind)>,
    /// The present generation of each slot, connected or not.
    generation_of: Vec<u32>,
    buffer: Box<[u8]>,
    received: usize,
    generations: u32,
    /// Bytes that the kernel has taken, on all connections.
    sent_bytes: u64,
    timers: Timers,
    /// Attempts to connect that found the server's queue full.
    put_off: Vec<(ConnId, u32)>,
}

/// How exactly the kernel can end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timers {
    /// `epoll_pwait2` (Linux 5.11).
    Exact,
    /// Older kernels, and tools that stand between us and the kernel: deadlines are met up to a
    /// millisecond late, which wake lag and send lag show.
    Milliseconds,
}

#[derive(Clone, Copy, Debug)]
struct Readable {
    conn: ConnId,
    generation: u32,
    /// The peer has closed or the connection broke: read until that shows.
    ends: bool,
}

#[derive(Debug)]
struct Conn {
    fd: OwnedFd,
    /// Distinguishes this connection from an earlier one in the same slot.
    generation: u32,
    connected: bool,
    /// Bytes that are written next.
    out: Vec<u8>,
    /// Bytes of `out` that the kernel has taken.
    written: usize,
    /// Bytes that were queued while `out` was stuck. None of them leaves before their own first
    /// write, which is stamped.
    behind: Vec<u8>,
    /// Bytes that the kernel has taken since the connection was opened.
    taken: u64,
    /// A write failed because of a reset. The kernel reports a reset only once: reading would see a
    /// mere end of the stream.
    was_reset: bool,
    /// Whether the connection is in the list of those to flush.
    queued: bool,
    /// The last write could not empty `out`, all of which has been reported as handed over.
    stuck: bool,
}

impl Epoll {
    /// A driver for up to `connections` connections to one endpoint.
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
            events: vec![libc::epoll_event { events: 0, u64: 0 }; limits::EVENTS],
            readable: VecDeque::new(),
            again: Vec::new(),
            known: VecDeque::new(),
            generation_of: vec![0; connections as usize],
            buffer: vec![0; limits::READ_BYTES].into(),
            received: 0,
            generations: 0,
            sent_bytes: 0,
            timers: Timers::Exact,
            put_off: Vec::new(),
        })
    }

    fn start_connect(&mut self, conn: ConnId, generation: u32) -> io::Result<Conn> {
        let fd = self.address.socket(false)?;
        if self.stamps.is_some() {
            sys::turn_on(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)?;
        }
        let (peer, len) = self.address.peer();
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32,
            u64: u64::from(generation) << 32 | u64::from(conn),
        };
        // SAFETY: `event` lives through the call, `addr` through the driver.
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
        Ok(Conn {
            fd,
            generation,
            connected: false,
            out: Vec::new(),
            written: 0,
            behind: Vec::new(),
            taken: 0,
            was_reset: false,
            queued: false,
            stuck: false,
        })
    }

    fn try_connect(&mut self, conn: ConnId, generation: u32) {
        match self.start_connect(conn, generation) {
            Ok(connection) => self.conns[conn as usize] = Some(connection),
            Err(error) => {
                // A Unix socket says so while its queue of new connections is full: TCP would wait.
                if error.raw_os_error() == Some(libc::EAGAIN) {
                    self.put_off.push((conn, generation));
                    return;
                }
                let error = sys::connect_error(error.raw_os_error().unwrap_or(0));
                self.known.push_back((conn, generation, CompletionKind::ConnectFailed(error)));
            }
        }
    }

    /// Tries again to open connections that found the server's queue full.
    fn connect_put_off(&mut self) {
        for (conn, generation) in std::mem::take(&mut self.put_off) {
            if self.generation_of[conn as usize] == generation {
                self.try_connect(conn, generation);
            }
        }
    }

    fn conn(&mut self, conn: ConnId, generation: u32) -> Option<&mut Conn> {
        self.conns[conn as usize].as_mut().filter(|c| c.generation == generation)
    }

    /// Writes `out`, and adds what the kernel took to `sent_bytes`. Returns whether that was all of
    /// it: then `behind` is next.
    fn write(connection: &mut Conn, sent_bytes: &mut u64) -> bool {
        connection.stuck = true;
        while connection.written < connection.out.len() {
            let rest = &connection.out[connection.written..];
            // SAFETY: `rest` is valid for its length.
            let n = unsafe {
                libc::send(
                    connection.fd.as_raw_fd(),
                    rest.as_ptr().cast(),
                    rest.len(),
                    libc::MSG_NOSIGNAL,
                )
            };
            if n < 0 {
                // If the buffer is full, EPOLLOUT reports when there is room. If the connection
                // is broken, reading reports the error.
                connection.was_reset |=
                    io::Error::last_os_error().raw_os_error() == Some(libc::ECONNRESET);
                return false;
            }
            connection.written += n as usize;
            connection.taken += n as u64;
            *sent_bytes += n as u64;
        }
        connection.out.clear();
        connection.written = 0;
        connection.stuck = false;
        if !connection.behind.is_empty() {
            std::mem::swap(&mut connection.out, &mut connection.behind);
        }
        true
    }

    /// The outcome of an attempt to connect, once its socket is ready.
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
        connection.connected = true;
        CompletionKind::Connected
    }

    /// Reads once. `None`: there is nothing to read.
    fn read(&mut self, conn: ConnId) -> Option<CompletionKind> {
        let connection = self.conns[conn as usize].as_ref()?;
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
            let error = io::Error::last_os_error();
            return (error.kind() != io::ErrorKind::WouldBlock).then_some(CompletionKind::Reset);
        }
        self.received = n as usize;
        Some(match n {
            0 if connection.was_reset => CompletionKind::Reset,
            0 => CompletionKind::Eof,
            _ => CompletionKind::Received,
        })
    }

    /// Waits until a socket is ready or until `wait.until`. Returns how long it polled.
    fn wait(&mut self, now: Instant, wait: Wait) -> u64 {
        let asleep_until = wait.until.min(wait.spin_from);
        let mut ready = 0;
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
        // Up to the last look that found nothing: the one that found something was work.
        poll.idle_ns(now)
    }

    /// Sleeps until a socket is ready or until `until`. Returns how many are.
    fn sleep(&mut self, now: Instant, until: Instant) -> usize {
        let wait_ns = (until != Instant::NEVER).then(|| until.ns_since(now));
        let result = match self.timers {
            Timers::Exact => self.wait_exactly(wait_ns),
            Timers::Milliseconds => self.wait_roughly(wait_ns),
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
            self.ready(conn, generation, event.events);
        }
        n
    }

    fn wait_exactly(&mut self, wait_ns: Option<u64>) -> io::Result<i32> {
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

    /// Rounded up: a wait must not end before its time.
    fn wait_roughly(&mut self, wait_ns: Option<u64>) -> io::Result<i32> {
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

    fn ready(&mut self, conn: ConnId, generation: u32, events: u32) {
        let current = self.conns[conn as usize].as_mut().filter(|c| c.generation == generation);
        let Some(connection) = current else { return };
        if !connection.connected {
            let what = Self::connect_outcome(connection);
            if what == CompletionKind::Connected {
                self.send_proxy_header(conn);
            }
            self.known.push_back((conn, generation, what));
        } else if events & libc::EPOLLOUT as u32 != 0 && connection.stuck {
            let is_more_there =
                Self::write(connection, &mut self.sent_bytes) && !connection.out.is_empty();
            // Only a flush stamps.
            if is_more_there && !std::mem::replace(&mut connection.queued, true) {
                self.queued.push(conn);
            }
        }
        let ends = events & (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0;
        if ends || events & libc::EPOLLIN as u32 != 0 {
            self.readable.push_back(Readable { conn, generation, ends });
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

    fn connect(&mut self, conn: ConnId) {
        self.generations += 1;
        let generation = self.generations;
        self.generation_of[conn as usize] = generation;
        self.try_connect(conn, generation);
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        let connection =
            self.conns[conn as usize].as_mut().expect("only open connections are sent on");
        // Queued even if earlier bytes still wait for room: only a flush stamps.
        if !std::mem::replace(&mut connection.queued, true) {
            self.queued.push(conn);
        }
        let Conn { out, behind, stuck, .. } = connection;
        sys::queue(bytes, if *stuck { behind } else { out });
    }

    fn close(&mut self, conn: ConnId) {
        self.conns[conn as usize] = None;
        // Entries of the old connection have another generation and are ignored.
        self.generations += 1;
        self.generation_of[conn as usize] = self.generations;
    }

    fn queued(&self, conn: ConnId) -> Queued {
        self.conns[conn as usize].as_ref().map_or_else(Queued::default, |connection| Queued {
            taken: connection.taken,
            waiting: (connection.out.len() - connection.written + connection.behind.len()) as u64,
        })
    }

    fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    fn unsent(&self, conn: ConnId) -> u64 {
        self.conns[conn as usize].as_ref().map_or(0, |connection| sys::unsent(&connection.fd))
    }

    fn flush(&mut self, handed: &mut dyn FnMut(ConnId, Instant)) {
        // Taken and given back, so that its memory is allocated once.
        let mut queued = std::mem::take(&mut self.queued);
        for conn in queued.drain(..) {
            let Some(connection) = self.conns[conn as usize].as_mut().filter(|c| c.queued) else {
                continue;
            };
            connection.queued = false;
            if connection.stuck && !Self::write(connection, &mut self.sent_bytes) {
                // EPOLLOUT reports when there is room.
                continue;
            }
            // Right before the system call that takes the first of the bytes: it is tried for all
            // of them.
            let at = sys::now();
            Self::write(connection, &mut self.sent_bytes);
            handed(conn, at);
        }
        self.queued = queued;
    }

    fn turn(&mut self, wait: Wait, handed: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        // First thing: the worker's busy time ends here.
        let entered = sys::now();
        self.flush(handed);
        self.readable.extend(self.again.drain(..));
        self.connect_put_off();
        let mut until =
            if self.known.is_empty() && self.readable.is_empty() { wait.until } else { entered };
        if !self.put_off.is_empty() {
            until = until.min(entered.plus(limits::PUT_OFF_NS));
        }
        // How long there is to sleep is counted from after the writes.
        let spun_ns = self.wait(sys::now(), Wait { until, ..wait });
        // Read right after the kernel has reported what is ready.
        Turn { entered, woke: sys::now(), spun_ns }
    }

    fn next(&mut self) -> Option<Completion> {
        while let Some((conn, generation, what)) = self.known.pop_front() {
            if self.generation_of[conn as usize] != generation {
                continue;
            }
            // Known since the turn's wake-up or before; this is the first instant at which it can
            // be reported.
            if matches!(what, CompletionKind::ConnectFailed(_))
                && self.conn(conn, generation).is_some()
            {
                self.conns[conn as usize] = None;
            }
            return Some(Completion { conn, what, at: sys::now() });
        }
        while let Some(readable) = self.readable.pop_front() {
            let Readable { conn, generation, ends } = readable;
            if self.conn(conn, generation).is_none() {
                continue;
            }
            let Some(what) = self.read(conn) else { continue };
            // Right after the read: the bytes were there no later than this.
            let at = sys::now();
            if what == CompletionKind::Received && (ends || self.received == self.buffer.len()) {
                // Edge-triggered: the kernel reports readiness only once.
                self.again.push(readable);
            }
            return Some(Completion { conn, what, at });
        }
        None
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.received]
    }

    fn received_at(&self) -> Option<Instant> {
        self.stamps.as_ref()?.last
    }

    fn tcp(&mut self, conn: ConnId) -> Option<TcpCounters> {
        sys::tcp_counters(self.conns[conn as usize].as_ref()?.fd.as_raw_fd())
    }

    fn thread_use(&self) -> ThreadUse {
        sys::thread_use()
    }

    fn thread_run_ns(&self) -> u64 {
        sys::thread_run_ns()
    }
}

/// Receiving with the kernel's own stamp of when the bytes came in (`SO_TIMESTAMPNS`).
mod stamps {
    use std::os::fd::{AsRawFd as _, OwnedFd};

    use dyno_engine::Instant;

    use crate::sys;

    /// Room for one control message with a time.
    #[repr(C, align(8))]
    struct Control([u8; 64]);

    #[derive(Debug)]
    pub(super) struct Clock {
        /// Stamps are on the wall clock; everything else is not.
        wall_ahead_ns: u64,
        pub(super) last: Option<Instant>,
    }

    impl Clock {
        pub(super) fn new() -> Clock {
            Clock { wall_ahead_ns: sys::wall_ahead_ns(), last: None }
        }

        /// Receives like `recv`, keeping the stamp of the last byte.
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
            // Where there was nothing, the bytes that were read last are still the last.
            if n >= 0 {
                self.last = if n > 0 { self.stamp(&message) } else { None };
            }
            n
        }

        fn stamp(&self, message: &libc::msghdr) -> Option<Instant> {
            // SAFETY: the kernel has filled the control area, and its headers are walked as it laid
            // them out.
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
            // When the kernel had the bytes, brought to the clock of all other instants.
            Some(Instant(wall_ns.saturating_sub(self.wall_ahead_ns)))
        }
    }
}
