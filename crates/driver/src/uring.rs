//! The default driver: io_uring with multishot receives into provided buffers. One `io_uring_enter`
//! per flush hands over all queued operations. At the end of a turn the same call also waits.

mod buffers;
mod datagrams;
mod ring;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use buffers::Buffers;
use datagrams::{DatagramCounts, Datagrams};
use dyno_engine::driver::{QueuedBytes, Turn, Wait};
use dyno_engine::{Completion, CompletionKind, ConnId, Driver, Instant, StreamDriver};
use dyno_model::load::TcpCounters;
use dyno_model::sample::ThreadUse;
use io_uring::{cqueue, opcode, squeue, types};
use ring::{GETEVENTS, Ring, build_ring, check_enter, is_transient};

use crate::sys::{Address, Endpoint, SocketKind};
use crate::{limits, sys};

/// Driver over io_uring.
#[derive(Debug)]
pub struct Uring {
    ring: Ring,
    address: Address,
    conns: Vec<Conn>,
    /// Connections with bytes to hand over, but without a send in progress.
    queued: Vec<ConnId>,
    /// Connections, with their generation, whose receive ended for lack of a free buffer.
    starved: Vec<(ConnId, u32)>,
    /// A completion that was taken off the ring, but has not been reported.
    peeked: Option<cqueue::Entry>,
    /// Number of completions that were in the ring at `reaped_at`.
    ready: usize,
    reaped_at: Instant,
    /// Expiry of the standing timer, which ends every wait at this instant. See
    /// [`limits::STANDING_TIMER_NS`].
    timer: Option<Instant>,
    timer_spec: Box<types::Timespec>,
    /// Completions that come from the driver itself, and not from the kernel: the connection, its
    /// generation, and the event.
    own_completions: VecDeque<(ConnId, u32, CompletionKind)>,
    buffers: Buffers,
    /// Buffer and length of the last received bytes. The buffer must be returned to the kernel.
    received: Option<(u16, usize)>,
    /// Bytes of sends that were in progress when their connection was closed, with the user data of
    /// the send. The kernel can still read these bytes.
    orphans: Vec<(u64, Vec<u8>)>,
    datagrams: Datagrams,
    /// Bytes that the kernel has taken, on all connections.
    taken_bytes: u64,
}

/// A connection slot.
#[derive(Debug, Default)]
struct Conn {
    fd: Option<OwnedFd>,
    kind: SocketKind,
    /// Number of the connection in this slot. Completions of earlier connections have other numbers
    /// and are ignored.
    generation: u32,
    /// Bytes that the kernel is sending. They must not move or change until the send completes.
    sending: Vec<u8>,
    /// Number of bytes of `sending` that the kernel has taken.
    sent: usize,
    /// Bytes that the kernel has taken since the connection was opened.
    taken: u64,
    is_sending: bool,
    /// Whether a send failed because of a reset. The kernel reports a reset only once, so a later
    /// receive would see only the end of the stream.
    was_reset: bool,
    is_connecting: bool,
    /// Bytes that are queued after the bytes in `sending`.
    out: Vec<u8>,
    datagrams: DatagramCounts,
}

/// Operations that are submitted to the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Connect = 1,
    Send = 2,
    Receive = 3,
    /// An operation whose result is ignored. This and the following operations are not handled by
    /// connection.
    Ignored = 4,
    /// The standing timer.
    Timer = 5,
    SendDatagram = 6,
    /// A wait until the socket of a datagram has room.
    AwaitRoom = 7,
}

/// The bits of a generation that user data contain.
const GENERATION_BITS: u32 = 0x00FF_FFFF;

/// Encodes the user data that identifies an operation: operation (8 bits), generation (24 bits),
/// and connection or place of a datagram (32 bits).
fn user_data(operation: Operation, generation: u32, conn: ConnId) -> u64 {
    (operation as u64) << 56 | u64::from(generation & GENERATION_BITS) << 32 | u64::from(conn)
}

fn has_operation(entry: &cqueue::Entry, operation: Operation) -> bool {
    entry.user_data() >> 56 == operation as u64
}

/// Group of the provided buffers.
const GROUP: u16 = 0;

impl Uring {
    /// Creates a driver for up to `connections` connections to one endpoint. Fails if the kernel
    /// lacks io_uring with provided buffer rings and multishot receive (Linux 6.0), or forbids it.
    pub fn new(endpoint: &Endpoint, connections: u32) -> io::Result<Uring> {
        let address = Address::new(endpoint)?;
        let ring = build_ring(connections)?;
        let count = u16::try_from(connections.next_power_of_two()).unwrap_or(limits::BUFFERS_MAX);
        let buffers = Buffers::new(count.clamp(limits::BUFFERS_MIN, limits::BUFFERS_MAX));
        let ring_address = buffers.ring as u64;
        // SAFETY: the buffer ring lives as long as the ring, see `Drop`.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(ring_address, buffers.count, GROUP, 0)?;
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
            own_completions: VecDeque::new(),
            buffers,
            received: None,
            orphans: Vec::new(),
            datagrams: Datagrams::default(),
            taken_bytes: 0,
        })
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: every pointer in an entry stays valid until its completion: the address and the
        // send buffers belong to the driver, and buffers of closed connections move to `orphans`.
        while unsafe { self.ring.0.submission().push(entry) }.is_err() {
            self.submit();
        }
    }

    fn submit(&mut self) {
        loop {
            match self.ring.0.submit() {
                Ok(_) => return,
                // For example, the completion queue is full. Entries that were not submitted stay
                // in the submission queue.
                Err(error) if is_transient(&error) => std::thread::yield_now(),
                Err(error) => panic!("io_uring_enter: {error}"),
            }
        }
    }

    /// Counts the completions in the ring. Returns an instant by which all of these completions had
    /// happened.
    fn reap(&mut self) -> Instant {
        let mut completions = self.ring.0.completion();
        completions.sync();
        self.ready = completions.len();
        drop(completions);
        // The clock is read after the tail of the ring. All counted completions, those before the
        // tail, had happened by then.
        self.reaped_at = sys::now();
        self.reaped_at
    }

    /// Opens a socket in a slot, and begins to connect it.
    fn open(&mut self, conn: ConnId, kind: SocketKind) {
        self.close(conn);
        self.conns[conn as usize].kind = kind;
        let generation = self.conns[conn as usize].generation;
        match self.address.socket(kind, true) {
            Ok(fd) => {
                let (peer, len) = self.address.peer();
                let entry = opcode::Connect::new(types::Fd(fd.as_raw_fd()), peer, len)
                    .build()
                    .user_data(user_data(Operation::Connect, generation, conn));
                self.conns[conn as usize].fd = Some(fd);
                self.conns[conn as usize].is_connecting = true;
                self.push(&entry);
            }
            Err(error) => {
                let error = sys::connect_error(error.raw_os_error().unwrap_or(0));
                self.own_completions.push_back((
                    conn,
                    generation,
                    CompletionKind::ConnectFailed(error),
                ));
            }
        }
    }

    fn arm_receive(&mut self, conn: ConnId) {
        let connection = &self.conns[conn as usize];
        let Some(fd) = &connection.fd else { return };
        let entry = opcode::RecvMulti::new(types::Fd(fd.as_raw_fd()), GROUP)
            .build()
            .user_data(user_data(Operation::Receive, connection.generation, conn));
        self.push(&entry);
    }

    /// Starts a send of the queued bytes of a connection. Does nothing during another send, whose
    /// end queues the connection again.
    fn start_send(&mut self, conn: ConnId) {
        let connection = &mut self.conns[conn as usize];
        if connection.fd.is_none() || connection.is_sending || connection.out.is_empty() {
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
        let unsent = &connection.sending[connection.sent..];
        // MSG_WAITALL is not set. With it, a send would complete only with its last byte, and
        // nothing would be known about a body that a server reads only in part.
        let entry =
            opcode::Send::new(types::Fd(fd.as_raw_fd()), unsent.as_ptr(), unsent.len() as u32)
                .flags(libc::MSG_NOSIGNAL)
                .build()
                .user_data(user_data(Operation::Send, connection.generation, conn));
        connection.is_sending = true;
        self.push(&entry);
    }

    fn finish_send(&mut self, conn: ConnId, result: i32) {
        let connection = &mut self.conns[conn as usize];
        connection.is_sending = false;
        if result < 0 {
            // The receive on the same connection reports the error.
            connection.was_reset |= result == -libc::ECONNRESET;
            return;
        }
        connection.sent += result as usize;
        connection.taken += result as u64;
        self.taken_bytes += result as u64;
        if connection.sent < connection.sending.len() {
            return self.push_send(conn);
        }
        if connection.out.capacity() == 0 {
            // `out` has no allocation, so no bytes were queued during the send (the usual case).
            // `out` takes over the allocation of `sending`, so the connection needs only one.
            connection.sending.clear();
            std::mem::swap(&mut connection.sending, &mut connection.out);
        } else if !connection.out.is_empty() {
            self.queued.push(conn);
        }
    }

    fn finish_receive(&mut self, conn: ConnId, entry: &cqueue::Entry) -> Option<CompletionKind> {
        let result = entry.result();
        if let Some(id) = cqueue::buffer_select(entry.flags()) {
            self.received = Some((id, usize::try_from(result).unwrap_or(0)));
        }
        match result {
            1.. => {
                if !cqueue::more(entry.flags()) {
                    self.arm_receive(conn);
                }
                Some(CompletionKind::Received)
            }
            0 if self.conns[conn as usize].kind == SocketKind::Datagram => {
                // An empty datagram ends the receive.
                self.arm_receive(conn);
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
            _ if self.conns[conn as usize].kind == SocketKind::Datagram => {
                Some(self.refuse_datagrams(conn))
            }
            _ => Some(CompletionKind::Reset),
        }
    }

    /// Converts a completion of the ring into a completion for the engine; `None`: the engine does
    /// not need it.
    fn interpret(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        let data = entry.user_data();
        let conn = data as u32;
        let generation = (data >> 32) as u32 & GENERATION_BITS;
        let operation = data >> 56;
        if operation >= Operation::Ignored as u64 {
            return self.interpret_other(entry);
        }
        let is_current = self.conns[conn as usize].generation & GENERATION_BITS == generation
            && self.conns[conn as usize].fd.is_some();
        if !is_current {
            if operation == Operation::Send as u64 {
                // The kernel took these bytes before the connection was closed.
                self.taken_bytes += u64::try_from(entry.result()).unwrap_or(0);
            }
            self.orphans.retain(|(owner, _)| *owner != data);
            if let Some(id) = cqueue::buffer_select(entry.flags()) {
                self.buffers.release(id);
            }
            return None;
        }
        let kind = if operation == Operation::Connect as u64 {
            Some(self.finish_connect(conn, entry.result()))
        } else if operation == Operation::Send as u64 {
            self.finish_send(conn, entry.result());
            None
        } else {
            self.finish_receive(conn, entry)
        };
        // The caller sets the instant.
        kind.map(|kind| Completion { conn, kind, at: Instant::default() })
    }

    /// Handles the completion of an operation that does not belong to the connection in a slot.
    fn interpret_other(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        if has_operation(entry, Operation::SendDatagram) {
            return self.finish_datagram(entry);
        }
        if has_operation(entry, Operation::Timer) {
            self.timer = None;
        } else if has_operation(entry, Operation::AwaitRoom) {
            self.send_stuck_datagram(entry);
        }
        None
    }

    fn finish_connect(&mut self, conn: ConnId, result: i32) -> CompletionKind {
        self.conns[conn as usize].is_connecting = false;
        if result < 0 {
            self.conns[conn as usize].fd = None;
            return CompletionKind::ConnectFailed(sys::connect_error(-result));
        }
        self.arm_receive(conn);
        let Conn { fd, kind, .. } = &self.conns[conn as usize];
        let stream = fd.as_ref().filter(|_| *kind == SocketKind::Stream);
        if let Some(header) = stream.and_then(|fd| self.address.proxy_header(fd)) {
            self.send(conn, &header);
        }
        CompletionKind::Connected
    }

    /// Returns the last received buffer to the kernel, and re-arms receives that lacked a buffer.
    fn return_received_buffer(&mut self) {
        if let Some((id, _)) = self.received.take() {
            self.buffers.release(id);
        }
        if !self.starved.is_empty() {
            for (conn, generation) in std::mem::take(&mut self.starved) {
                if self.conns[conn as usize].generation == generation {
                    self.arm_receive(conn);
                }
            }
        }
    }

    /// Waits until an operation completes or until `wait.until`. Returns the time spent polling,
    /// nanoseconds.
    fn wait(&mut self, now: Instant, wait: Wait) -> u64 {
        let asleep_until = wait.until.min(wait.spin_from);
        if asleep_until > now {
            self.sleep(now, asleep_until);
            // The standing timer of an earlier wait can end this wait early.
            while !self.has_completion() && sys::now() < asleep_until {
                self.sleep(sys::now(), asleep_until);
            }
        } else {
            // Queued bytes are submitted now, because their hand-over already has a timestamp.
            self.poll_completions();
        }
        if wait.until <= now {
            return 0;
        }
        if wait.spin_from >= wait.until || self.has_completion() {
            return 0;
        }
        self.spin(wait.until)
    }

    /// Whether a completion other than a timer is available. Takes timers off the ring.
    fn has_completion(&mut self) -> bool {
        while self.peeked.is_none() {
            match self.ring.0.completion().next() {
                None => return false,
                Some(entry) if has_operation(&entry, Operation::Timer) => self.timer = None,
                Some(entry) => self.peeked = Some(entry),
            }
        }
        true
    }

    /// Sleeps until an operation completes or until `until`.
    fn sleep(&mut self, now: Instant, until: Instant) {
        let result = if until == Instant::NEVER || until.ns_since(now) > limits::STANDING_TIMER_NS {
            self.arm_timer(until);
            self.ring.0.submitter().submit_and_wait(1)
        } else {
            let ns = until.ns_since(now);
            let timeout =
                types::Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
            let args = types::SubmitArgs::new().timespec(&timeout);
            self.ring.0.submitter().submit_with_args(1, &args)
        };
        check_enter(result);
    }

    /// Arms the standing timer so that it ends a wait at `until` at the latest.
    fn arm_timer(&mut self, until: Instant) {
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
        // The timer is submitted now, because the kernel copies its time at submission.
        self.submit();
    }

    /// Submits queued entries and collects completions without waiting.
    fn poll_completions(&mut self) {
        let queued = self.ring.0.submission().len() as u32;
        // SAFETY: no argument is passed.
        let result = unsafe { self.ring.0.submitter().enter::<()>(queued, 0, GETEVENTS, None) };
        check_enter(result);
    }

    /// Polls for completions until `until`. Returns the time spent polling, nanoseconds.
    fn spin(&mut self, until: Instant) -> u64 {
        let poll = sys::Poll::begin();
        let mut now = poll.began;
        while now < until {
            self.poll_completions();
            if self.has_completion() {
                break;
            }
            now = sys::now();
        }
        // `now` was read before the last poll. If this poll found a completion, the poll was work,
        // and its time does not count as idle.
        poll.idle_ns(now)
    }
}

impl Driver for Uring {
    fn now(&self) -> Instant {
        sys::now()
    }

    fn close(&mut self, conn: ConnId) {
        let connection = &mut self.conns[conn as usize];
        let old_generation = connection.generation;
        connection.generation += 1;
        connection.out.clear();
        connection.was_reset = false;
        connection.taken = 0;
        connection.datagrams = DatagramCounts::default();
        if std::mem::take(&mut connection.is_sending) {
            let owner = user_data(Operation::Send, old_generation, conn);
            self.orphans.push((owner, std::mem::take(&mut connection.sending)));
        }
        let Some(fd) = connection.fd.take() else { return };
        // The armed receive keeps the socket open. The shutdown ends the receive and the
        // connection.
        unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) };
        if std::mem::take(&mut self.conns[conn as usize].is_connecting) {
            let cancel =
                opcode::AsyncCancel::new(user_data(Operation::Connect, old_generation, conn))
                    .build()
                    .user_data(user_data(Operation::Ignored, 0, conn));
            self.push(&cancel);
        }
        // Queued entries contain the number of the descriptor, which the next connection can get.
        // They must be submitted before the descriptor is closed.
        if !self.ring.0.submission().is_empty() {
            self.submit();
        }
        drop(fd);
    }

    fn queued_bytes(&self, conn: ConnId) -> QueuedBytes {
        let connection = &self.conns[conn as usize];
        let unsent =
            if connection.is_sending { connection.sending.len() - connection.sent } else { 0 };
        let waiting = unsent + connection.out.len() + connection.datagrams.waiting_bytes;
        QueuedBytes { taken: connection.taken, waiting: waiting as u64 }
    }

    fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    fn flush(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) {
        if !self.queued.is_empty() || self.datagrams.has_queued() {
            self.hand_over(on_handed_over);
            self.submit();
        }
    }

    fn turn(&mut self, wait: Wait, on_handed_over: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        self.return_received_buffer();
        // The busy time of the worker ends here, right before the system call of the wait, which
        // also submits the queued sends.
        let entered = self.hand_over(on_handed_over);
        let is_idle = self.own_completions.is_empty() && self.peeked.is_none() && self.ready == 0;
        let until = if is_idle { wait.until } else { entered };
        let spun_ns = self.wait(entered, Wait { until, ..wait });
        Turn { entered, woke: self.reap(), spun_ns }
    }

    fn next(&mut self) -> Option<Completion> {
        self.return_received_buffer();
        while let Some((conn, generation, kind)) = self.own_completions.pop_front() {
            if self.conns[conn as usize].generation == generation {
                // All completions of a turn have one instant, so that instants do not go back. A
                // connect that failed while completions were handled is slightly later.
                return Some(Completion { conn, kind, at: self.reaped_at });
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

    fn received_bytes(&mut self) -> &mut [u8] {
        self.received.map_or(&mut [], |(id, len)| self.buffers.get(id, len))
    }

    fn thread_use(&self) -> ThreadUse {
        sys::thread_use()
    }

    fn thread_run_ns(&self) -> u64 {
        sys::thread_run_ns()
    }
}

impl StreamDriver for Uring {
    fn connect(&mut self, conn: ConnId) {
        self.open(conn, SocketKind::Stream);
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        let connection = &mut self.conns[conn as usize];
        if connection.out.is_empty() && !connection.is_sending {
            self.queued.push(conn);
        }
        sys::append_output(bytes, &mut connection.out);
    }

    fn unsent_bytes(&self, conn: ConnId) -> u64 {
        self.conns[conn as usize].fd.as_ref().map_or(0, sys::unsent_bytes)
    }

    fn tcp_counters(&mut self, conn: ConnId) -> Option<TcpCounters> {
        sys::tcp_counters(self.conns[conn as usize].fd.as_ref()?.as_raw_fd())
    }
}

impl Uring {
    /// Puts sends of all queued bytes into the submission queue. The caller must submit the queue
    /// right after. Returns the instant before this submission.
    fn hand_over(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) -> Instant {
        if self.datagrams.has_queued() {
            self.hand_over_datagrams(on_handed_over);
        }
        // The list is moved out and back, so that its memory is reused.
        let mut queued = std::mem::take(&mut self.queued);
        let mut at = None;
        for batch in queued.chunks(limits::SENDS_PER_BATCH) {
            let queue = self.ring.0.submission();
            let free = queue.capacity() - queue.len();
            drop(queue);
            if at.is_some() || free < batch.len() {
                // Without this call, the queue could become full within the batch. The first sends
                // of the batch would then leave before their timestamp is read.
                self.submit();
            }
            batch.iter().for_each(|&conn| self.start_send(conn));
            // All sends of the batch get the instant right before the system call that hands the
            // batch over.
            let now = sys::now();
            batch
                .iter()
                .filter(|&&conn| self.is_handed_over(conn))
                .for_each(|&conn| on_handed_over(conn, now));
            at = Some(now);
        }
        queued.clear();
        self.queued = queued;
        at.unwrap_or_else(sys::now)
    }

    /// Whether the kernel can still read bytes of a closed connection, or a datagram.
    fn has_pending_sends(&self) -> bool {
        !self.orphans.is_empty() || self.datagrams.pending > 0
    }

    /// Whether the kernel has all bytes queued on a connection, or is about to get them.
    fn is_handed_over(&self, conn: ConnId) -> bool {
        let connection = &self.conns[conn as usize];
        connection.fd.is_some() && connection.out.is_empty()
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Fields are dropped after this function, so every operation must end here, before its
        // buffers are freed.
        for conn in 0..self.conns.len() {
            self.close(conn as ConnId);
        }
        let _ = self.ring.0.submitter().unregister_buf_ring(GROUP);
        // A send on a closed connection completes immediately, but dropping the ring does not wait
        // for it.
        let deadline = sys::now().plus(1_000_000_000);
        while self.has_pending_sends() && sys::now() < deadline {
            let now = sys::now();
            // The inner loop takes an expired timer off the ring, but does not reset `self.timer`.
            // Without this reset, `sleep` would rely on the expired timer and arm no new one.
            self.timer = None;
            self.sleep(now, now.plus(10_000_000));
            self.reap();
            while let Some(entry) = self.peeked.take().or_else(|| self.ring.0.completion().next()) {
                self.orphans.retain(|(owner, _)| *owner != entry.user_data());
                if has_operation(&entry, Operation::SendDatagram)
                    || has_operation(&entry, Operation::AwaitRoom)
                {
                    self.datagrams.complete(entry.user_data() as u32);
                }
            }
        }
        self.datagrams.leak_pending();
        // The kernel can still use this memory, so it is never freed.
        std::mem::take(&mut self.orphans)
            .into_iter()
            .for_each(|(_, bytes)| std::mem::forget(bytes));
    }
}
