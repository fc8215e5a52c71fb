//! The default driver: io_uring with multishot receives into provided buffers. One `io_uring_enter`
//! per flush hands over everything queued and, at the end of a turn, waits as well.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};

use dyno_archive::load::TcpCounters;
use dyno_archive::sample::ThreadUse;
use dyno_engine::driver::{Queued, Turn, Wait};
use dyno_engine::{Completion, CompletionKind, ConnId, Driver, Instant};
use io_uring::{IoUring, cqueue, opcode, squeue, types};

use crate::sys::{Address, Endpoint};
use crate::{limits, sys};

/// Load over io_uring.
#[derive(Debug)]
pub struct Uring {
    ring: Ring,
    address: Address,
    conns: Vec<Conn>,
    /// Connections with bytes to hand over and no send under way.
    queued: Vec<ConnId>,
    /// Connections, with their generation, whose receive ended because no buffer was free.
    starved: Vec<(ConnId, u32)>,
    /// A completion that was taken off the ring and is still to be reported.
    peeked: Option<cqueue::Entry>,
    /// Number of completions in the ring at `reaped_at`.
    ready: usize,
    reaped_at: Instant,
    /// A standing timer ends every wait at this instant: arming one for each wait would cost more
    /// than the wait.
    timer: Option<Instant>,
    timer_spec: Box<types::Timespec>,
    /// Completions that are known without asking the kernel.
    known: VecDeque<(ConnId, u32, CompletionKind)>,
    buffers: Buffers,
    /// The buffer that `bytes` shows, to be given back.
    shown: Option<(u16, usize)>,
    /// Buffers of sends that were under way when their connection was closed. The kernel may still
    /// read them.
    orphans: Vec<(u64, Vec<u8>)>,
    /// Bytes that the kernel has taken, on all connections.
    sent_bytes: u64,
}

/// The ring itself. Its debug form has no content.
struct Ring(IoUring);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

#[derive(Debug, Default)]
struct Conn {
    fd: Option<OwnedFd>,
    /// Number of this slot's connection; completions of earlier ones differ in it and are ignored.
    generation: u32,
    /// Bytes that the kernel is sending. They must not move or change until the send completes.
    sending: Vec<u8>,
    sent: usize,
    /// Bytes that the kernel has taken since the connection was opened.
    taken: u64,
    send_under_way: bool,
    /// A send failed because of a reset. The kernel reports a reset only once: receiving would see
    /// a mere end of the stream.
    was_reset: bool,
    connecting: bool,
    /// Bytes that are queued behind those in `sending`.
    out: Vec<u8>,
}

/// The operations that are submitted to the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Connect = 1,
    Send = 2,
    Receive = 3,
    /// Results that are not used.
    Ignored = 4,
    /// The standing timer.
    Timer = 5,
}

/// Number of a completion that identifies its operation: operation (8 bits), generation (24 bits)
/// and connection (32 bits).
fn user_data(operation: Operation, generation: u32, conn: ConnId) -> u64 {
    (operation as u64) << 56 | u64::from(generation & 0x00FF_FFFF) << 32 | u64::from(conn)
}

fn is_timer(entry: &cqueue::Entry) -> bool {
    entry.user_data() >> 56 == Operation::Timer as u64
}

const GROUP: u16 = 0;

impl Uring {
    /// A driver for up to `connections` connections to one endpoint. Fails where the kernel lacks
    /// io_uring with provided buffer rings and multishot receive (Linux 6.0), or forbids it.
    pub fn new(endpoint: &Endpoint, connections: u32) -> io::Result<Uring> {
        let address = Address::new(endpoint)?;
        let ring = build_ring(connections)?;
        let wanted = u16::try_from(connections.next_power_of_two()).unwrap_or(limits::BUFFERS_MAX);
        let buffers = Buffers::new(wanted.clamp(limits::BUFFERS_MIN, limits::BUFFERS_MAX));
        let at = buffers.ring as u64;
        // SAFETY: the buffer ring lives as long as the ring, see `Drop`.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(at, buffers.count, GROUP, 0)?;
        }
        sys::tighten_timers();
        Ok(Uring {
            ring: Ring(ring),
            address,
            conns: (0..connections).map(|_| Conn::default()).collect(),
            queued: Vec::new(),
            starved: Vec::new(),
            peeked: None,
            ready: 0,
            reaped_at: Instant::default(),
            timer: None,
            timer_spec: Box::default(),
            known: VecDeque::new(),
            buffers,
            shown: None,
            orphans: Vec::new(),
            sent_bytes: 0,
        })
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: every pointer in an entry stays valid until its completion: the address and the
        // send buffers belong to the driver, closed connections leave theirs in `orphans`.
        while unsafe { self.ring.0.submission().push(entry) }.is_err() {
            self.submit();
        }
    }

    fn submit(&mut self) {
        loop {
            match self.ring.0.submit() {
                Ok(_) => return,
                // The ring is full of completions; the kernel keeps the rest for later.
                Err(error) if is_passing(&error) => std::thread::yield_now(),
                Err(error) => panic!("io_uring_enter: {error}"),
            }
        }
    }

    /// Counts the completions in the ring. Returns the instant by which all of them had happened.
    fn reap(&mut self) -> Instant {
        let mut completions = self.ring.0.completion();
        completions.sync();
        self.ready = completions.len();
        drop(completions);
        // After the tail was read: all completions before it had happened by now. Later ones are
        // not counted.
        self.reaped_at = sys::now();
        self.reaped_at
    }

    fn arm_receive(&mut self, conn: ConnId) {
        let connection = &self.conns[conn as usize];
        let Some(fd) = &connection.fd else { return };
        let entry = opcode::RecvMulti::new(types::Fd(fd.as_raw_fd()), GROUP)
            .build()
            .user_data(user_data(Operation::Receive, connection.generation, conn));
        self.push(&entry);
    }

    /// Queues the bytes of one connection for the kernel, unless a send is under way.
    fn start_send(&mut self, conn: ConnId) {
        let connection = &mut self.conns[conn as usize];
        if connection.fd.is_none() || connection.send_under_way || connection.out.is_empty() {
            return;
        }
        connection.sending.clear();
        connection.sent = 0;
        std::mem::swap(&mut connection.sending, &mut connection.out);
        self.push_send(conn);
    }

    fn push_send(&mut self, conn: ConnId) {
        let connection = &mut self.conns[conn as usize];
        let Some(fd) = &connection.fd else { return };
        let rest = &connection.sending[connection.sent..];
        // Each part is reported as the kernel takes it. With MSG_WAITALL, a body that a server
        // leaves unread would never be reported.
        let entry = opcode::Send::new(types::Fd(fd.as_raw_fd()), rest.as_ptr(), rest.len() as u32)
            .flags(libc::MSG_NOSIGNAL)
            .build()
            .user_data(user_data(Operation::Send, connection.generation, conn));
        connection.send_under_way = true;
        self.push(&entry);
    }

    fn finish_send(&mut self, conn: ConnId, result: i32) {
        let connection = &mut self.conns[conn as usize];
        connection.send_under_way = false;
        if result < 0 {
            // The receive of the same connection reports the error.
            connection.was_reset |= result == -libc::ECONNRESET;
            return;
        }
        connection.sent += result as usize;
        connection.taken += result as u64;
        self.sent_bytes += result as u64;
        if connection.sent < connection.sending.len() {
            return self.push_send(conn);
        }
        if connection.out.capacity() == 0 {
            // Nothing new is queued, as nearly always: one allocation is enough.
            connection.sending.clear();
            std::mem::swap(&mut connection.sending, &mut connection.out);
        } else if !connection.out.is_empty() {
            self.queued.push(conn);
        }
    }

    fn finish_receive(&mut self, conn: ConnId, entry: &cqueue::Entry) -> Option<CompletionKind> {
        let result = entry.result();
        if let Some(id) = cqueue::buffer_select(entry.flags()) {
            self.shown = Some((id, usize::try_from(result).unwrap_or(0)));
        }
        match result {
            1.. => {
                if !cqueue::more(entry.flags()) {
                    self.arm_receive(conn);
                }
                Some(CompletionKind::Received)
            }
            0 if self.conns[conn as usize].was_reset => Some(CompletionKind::Reset),
            0 => Some(CompletionKind::Eof),
            _ if result == -libc::ENOBUFS => {
                self.starved.push((conn, self.conns[conn as usize].generation));
                None
            }
            _ if result == -libc::EINTR => {
                self.arm_receive(conn);
                None
            }
            _ => Some(CompletionKind::Reset),
        }
    }

    /// Converts the ring's completion into the engine's; `None`: it has no effect any more.
    fn interpret(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        let data = entry.user_data();
        let conn = data as u32;
        let generation = (data >> 32) as u32 & 0x00FF_FFFF;
        let operation = data >> 56;
        if is_timer(entry) {
            self.timer = None;
            return None;
        }
        if operation == Operation::Ignored as u64 {
            return None;
        }
        let current = self.conns[conn as usize].generation & 0x00FF_FFFF == generation
            && self.conns[conn as usize].fd.is_some();
        if !current {
            if operation == Operation::Send as u64 {
                // The kernel took these bytes before the connection was closed.
                self.sent_bytes += u64::try_from(entry.result()).unwrap_or(0);
            }
            self.orphans.retain(|(owner, _)| *owner != data);
            if let Some(id) = cqueue::buffer_select(entry.flags()) {
                self.buffers.give_back(id);
            }
            return None;
        }
        let what = if operation == Operation::Connect as u64 {
            Some(self.finish_connect(conn, entry.result()))
        } else if operation == Operation::Send as u64 {
            self.finish_send(conn, entry.result());
            None
        } else {
            self.finish_receive(conn, entry)
        };
        // The caller sets the instant.
        what.map(|what| Completion { conn, what, at: Instant::default() })
    }

    fn finish_connect(&mut self, conn: ConnId, result: i32) -> CompletionKind {
        self.conns[conn as usize].connecting = false;
        if result < 0 {
            self.conns[conn as usize].fd = None;
            return CompletionKind::ConnectFailed(sys::connect_error(-result));
        }
        self.arm_receive(conn);
        let header =
            self.conns[conn as usize].fd.as_ref().and_then(|fd| self.address.proxy_header(fd));
        if let Some(header) = header {
            self.send(conn, &header);
        }
        CompletionKind::Connected
    }

    fn return_shown_buffer(&mut self) {
        if let Some((id, _)) = self.shown.take() {
            self.buffers.give_back(id);
        }
        if !self.starved.is_empty() {
            for (conn, generation) in std::mem::take(&mut self.starved) {
                if self.conns[conn as usize].generation == generation {
                    self.arm_receive(conn);
                }
            }
        }
    }

    /// Waits until something completed or until `wait.until`. Returns how long it polled.
    fn wait(&mut self, now: Instant, wait: Wait) -> u64 {
        let asleep_until = wait.until.min(wait.spin_from);
        if asleep_until > now {
            self.sleep(now, asleep_until);
            // A timer of an earlier wait may have ended this one too soon.
            while self.is_nothing_there() && sys::now() < asleep_until {
                self.sleep(sys::now(), asleep_until);
            }
        } else {
            // Queued bytes leave now, before any wait: their hand-over has been stamped.
            self.poll_completions();
        }
        if wait.until <= now {
            return 0;
        }
        if wait.spin_from >= wait.until || !self.is_nothing_there() {
            return 0;
        }
        self.spin(wait.until)
    }

    /// Whether only timers have completed. Takes their completions off the ring.
    fn is_nothing_there(&mut self) -> bool {
        while self.peeked.is_none() {
            match self.ring.0.completion().next() {
                None => return true,
                Some(entry) if is_timer(&entry) => self.timer = None,
                Some(entry) => self.peeked = Some(entry),
            }
        }
        false
    }

    fn sleep(&mut self, now: Instant, until: Instant) {
        let result = if until == Instant::NEVER || until.ns_since(now) > limits::STANDING_TIMER_NS {
            self.keep_timer(until);
            self.ring.0.submitter().submit_and_wait(1)
        } else {
            let ns = until.ns_since(now);
            let timeout =
                types::Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
            let args = types::SubmitArgs::new().timespec(&timeout);
            self.ring.0.submitter().submit_with_args(1, &args)
        };
        expect_entered(result);
    }

    /// Arms the standing timer so that it ends a wait at `until` at the latest.
    fn keep_timer(&mut self, until: Instant) {
        if until == Instant::NEVER || self.timer.is_some_and(|at| at <= until) {
            return;
        }
        self.timer = Some(until);
        *self.timer_spec = types::Timespec::new()
            .sec(until.0 / 1_000_000_000)
            .nsec((until.0 % 1_000_000_000) as u32);
        let entry = opcode::Timeout::new(&raw const *self.timer_spec)
            .flags(types::TimeoutFlags::ABS)
            .build()
            .user_data(user_data(Operation::Timer, 0, 0));
        self.push(&entry);
        // The kernel has its own copy of the time once the entry is submitted.
        self.submit();
    }

    /// Collects completions without waiting.
    fn poll_completions(&mut self) {
        let queued = self.ring.0.submission().len() as u32;
        // SAFETY: no argument is passed.
        let result = unsafe { self.ring.0.submitter().enter::<()>(queued, 0, GETEVENTS, None) };
        expect_entered(result);
    }

    fn spin(&mut self, until: Instant) -> u64 {
        let poll = sys::Poll::begin();
        let mut now = poll.began;
        while now < until {
            self.poll_completions();
            if !self.is_nothing_there() {
                break;
            }
            now = sys::now();
        }
        // Up to the last poll that found nothing: the one that found a completion was work.
        poll.idle_ns(now)
    }
}

/// `IORING_ENTER_GETEVENTS`: run the ring's deferred work, and look for completions.
const GETEVENTS: u32 = 1;

fn expect_entered(result: io::Result<usize>) {
    match result {
        Ok(_) => {}
        Err(error) if is_passing(&error) || error.raw_os_error() == Some(libc::ETIME) => {}
        Err(error) => panic!("io_uring_enter: {error}"),
    }
}

/// Errors that mean "take completions and try again".
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

fn build_ring(connections: u32) -> io::Result<IoUring> {
    // Every connection can have a receive and a send complete in the same turn.
    let completions = (connections.saturating_mul(4)).clamp(limits::SUBMISSIONS * 2, 1 << 16);
    let mut builder = IoUring::builder();
    builder.setup_cqsize(completions).setup_clamp().setup_submit_all();
    let mut best = builder.clone();
    // One thread submits and reaps, and the kernel does its work when that thread asks for it: no
    // interrupts in between.
    match best.setup_single_issuer().setup_defer_taskrun().build(limits::SUBMISSIONS) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            builder.build(limits::SUBMISSIONS)
        }
        result => result,
    }
}

impl Driver for Uring {
    fn now(&self) -> Instant {
        sys::now()
    }

    fn connect(&mut self, conn: ConnId) {
        self.close(conn);
        let generation = self.conns[conn as usize].generation;
        match self.address.socket(true) {
            Ok(fd) => {
                let (peer, len) = self.address.peer();
                let entry = opcode::Connect::new(types::Fd(fd.as_raw_fd()), peer, len)
                    .build()
                    .user_data(user_data(Operation::Connect, generation, conn));
                self.conns[conn as usize].fd = Some(fd);
                self.conns[conn as usize].connecting = true;
                self.push(&entry);
            }
            Err(error) => {
                let error = sys::connect_error(error.raw_os_error().unwrap_or(0));
                self.known.push_back((conn, generation, CompletionKind::ConnectFailed(error)));
            }
        }
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        let connection = &mut self.conns[conn as usize];
        if connection.out.is_empty() && !connection.send_under_way {
            self.queued.push(conn);
        }
        sys::queue(bytes, &mut connection.out);
    }

    fn close(&mut self, conn: ConnId) {
        let connection = &mut self.conns[conn as usize];
        let old = connection.generation;
        connection.generation += 1;
        connection.out.clear();
        connection.was_reset = false;
        connection.taken = 0;
        if std::mem::take(&mut connection.send_under_way) {
            let owner = user_data(Operation::Send, old, conn);
            self.orphans.push((owner, std::mem::take(&mut connection.sending)));
        }
        let Some(fd) = connection.fd.take() else { return };
        // The armed receive holds the socket open: shutting it down ends both.
        // SAFETY: no memory is involved.
        unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) };
        if std::mem::take(&mut self.conns[conn as usize].connecting) {
            let cancel = opcode::AsyncCancel::new(user_data(Operation::Connect, old, conn))
                .build()
                .user_data(user_data(Operation::Ignored, 0, conn));
            self.push(&cancel);
        }
        // Queued entries name the descriptor, which may soon belong to another connection.
        if !self.ring.0.submission().is_empty() {
            self.submit();
        }
        drop(fd);
    }

    fn queued(&self, conn: ConnId) -> Queued {
        let connection = &self.conns[conn as usize];
        let under_way =
            if connection.send_under_way { connection.sending.len() - connection.sent } else { 0 };
        Queued { taken: connection.taken, waiting: (under_way + connection.out.len()) as u64 }
    }

    fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    fn unsent(&self, conn: ConnId) -> u64 {
        self.conns[conn as usize].fd.as_ref().map_or(0, sys::unsent)
    }

    fn flush(&mut self, handed: &mut dyn FnMut(ConnId, Instant)) {
        if !self.queued.is_empty() {
            self.hand_over(handed);
            self.submit();
        }
    }

    fn turn(&mut self, wait: Wait, handed: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        self.return_shown_buffer();
        // The worker's busy time ends here. Its queued bytes leave with the system call right
        // after.
        let entered = self.hand_over(handed);
        let is_idle = self.known.is_empty() && self.peeked.is_none() && self.ready == 0;
        let until = if is_idle { wait.until } else { entered };
        let spun_ns = self.wait(entered, Wait { until, ..wait });
        Turn { entered, woke: self.reap(), spun_ns }
    }

    fn next(&mut self) -> Option<Completion> {
        self.return_shown_buffer();
        while let Some((conn, generation, what)) = self.known.pop_front() {
            if self.conns[conn as usize].generation == generation {
                // It was known when the turn's completions were counted.
                return Some(Completion { conn, what, at: self.reaped_at });
            }
        }
        while self.peeked.is_some() || self.ready > 0 {
            let entry = match self.peeked.take() {
                Some(entry) => entry,
                None => {
                    self.ready -= 1;
                    self.ring.0.completion().next()?
                }
            };
            if let Some(completion) = self.interpret(&entry) {
                return Some(Completion { at: self.reaped_at, ..completion });
            }
        }
        None
    }

    fn bytes(&mut self) -> &mut [u8] {
        self.shown.map_or(&mut [], |(id, len)| self.buffers.get(id, len))
    }

    fn tcp(&mut self, conn: ConnId) -> Option<TcpCounters> {
        sys::tcp_counters(self.conns[conn as usize].fd.as_ref()?.as_raw_fd())
    }

    fn thread_use(&self) -> ThreadUse {
        sys::thread_use()
    }

    fn thread_run_ns(&self) -> u64 {
        sys::thread_run_ns()
    }
}

impl Uring {
    /// Queues everything for the kernel. Returns the instant right before the system call that
    /// takes it.
    fn hand_over(&mut self, handed: &mut dyn FnMut(ConnId, Instant)) -> Instant {
        // Taken and put back, so that its memory is allocated once.
        let mut queued = std::mem::take(&mut self.queued);
        let mut at = None;
        for batch in queued.chunks(limits::SENDS_PER_BATCH) {
            let queue = self.ring.0.submission();
            let free = queue.capacity() - queue.len();
            drop(queue);
            if at.is_some() || free < batch.len() {
                // Otherwise the queued entries would be submitted in the middle of the batch, and
                // its first sends with them: they would leave before their stamp.
                self.submit();
            }
            batch.iter().for_each(|&conn| self.start_send(conn));
            // `sent` of the whole batch is read here: right before the one system call that hands
            // it over.
            let now = sys::now();
            batch.iter().filter(|&&conn| self.is_handed(conn)).for_each(|&conn| handed(conn, now));
            at = Some(now);
        }
        queued.clear();
        self.queued = queued;
        at.unwrap_or_else(sys::now)
    }

    /// Whether all bytes queued on a connection are with the kernel, or about to be.
    fn is_handed(&self, conn: ConnId) -> bool {
        let connection = &self.conns[conn as usize];
        connection.fd.is_some() && connection.out.is_empty()
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Ends every operation before the buffers they use are freed; the fields go after this.
        for conn in 0..self.conns.len() {
            self.close(conn as ConnId);
        }
        let _ = self.ring.0.submitter().unregister_buf_ring(GROUP);
        // A send whose connection is shut down completes at once; the ring's own end waits for
        // nothing.
        let deadline = sys::now().plus(1_000_000_000);
        while !self.orphans.is_empty() && sys::now() < deadline {
            let now = sys::now();
            // The standing timer is not used any more.
            self.timer = None;
            self.sleep(now, now.plus(10_000_000));
            self.reap();
            while let Some(entry) = self.ring.0.completion().next() {
                self.orphans.retain(|(owner, _)| *owner != entry.user_data());
            }
        }
        // Memory that the kernel still holds is leaked: freeing it would be unsound.
        std::mem::take(&mut self.orphans)
            .into_iter()
            .for_each(|(_, bytes)| std::mem::forget(bytes));
    }
}

/// Receive buffers shared with the kernel by a ring (`IORING_REGISTER_PBUF_RING`).
#[derive(Debug)]
struct Buffers {
    ring: *mut types::BufRingEntry,
    memory: *mut u8,
    count: u16,
    tail: u16,
}

impl Buffers {
    /// `count` is a power of two.
    fn new(count: u16) -> Buffers {
        let (ring_layout, memory_layout) = Self::layouts(count);
        // SAFETY: neither layout is of size zero.
        let (ring, memory) = unsafe { (alloc_zeroed(ring_layout), alloc_zeroed(memory_layout)) };
        if ring.is_null() || memory.is_null() {
            handle_alloc_error(memory_layout);
        }
        let mut buffers = Buffers { ring: ring.cast(), memory, count, tail: 0 };
        (0..count).for_each(|id| buffers.give_back(id));
        buffers
    }

    fn layouts(count: u16) -> (Layout, Layout) {
        const PAGE: usize = 4096;
        let count = usize::from(count);
        let layout = |bytes| Layout::from_size_align(bytes, PAGE).expect("a few megabytes at most");
        (layout(count * size_of::<types::BufRingEntry>()), layout(count * limits::BUFFER_BYTES))
    }

    fn address(&self, id: u16) -> *mut u8 {
        // SAFETY: ids are below `count`, for which the memory was made.
        unsafe { self.memory.add(usize::from(id) * limits::BUFFER_BYTES) }
    }

    fn get(&mut self, id: u16, len: usize) -> &mut [u8] {
        assert!(id < self.count && len <= limits::BUFFER_BYTES);
        // SAFETY: the kernel has filled `len` bytes of this buffer and does not touch it until it
        // is given back.
        unsafe { std::slice::from_raw_parts_mut(self.address(id), len) }
    }

    fn give_back(&mut self, id: u16) {
        let index = self.tail & (self.count - 1);
        // SAFETY: the index is below `count`, and the kernel reads an entry only after the tail has
        // passed it.
        unsafe {
            let entry = &mut *self.ring.add(usize::from(index));
            entry.set_addr(self.address(id) as u64);
            entry.set_len(limits::BUFFER_BYTES as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            let tail = types::BufRingEntry::tail(self.ring).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        let (ring_layout, memory_layout) = Self::layouts(self.count);
        // SAFETY: made with these layouts in `new`; the driver's drop has unregistered the ring.
        unsafe {
            dealloc(self.ring.cast(), ring_layout);
            dealloc(self.memory, memory_layout);
        }
    }
}
