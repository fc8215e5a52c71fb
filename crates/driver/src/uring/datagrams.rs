//! Datagram sockets of the io_uring driver. Streams use none of this code.

use std::os::fd::AsRawFd as _;

use dyno_engine::{Completion, CompletionKind, ConnId, DatagramDriver, Driver as _, Instant};
use io_uring::{cqueue, opcode, types};

use super::{Operation, Uring, user_data};
use crate::sys::{self, SocketKind};

/// Datagrams that wait for their hand-over, or that the kernel is sending, on all sockets of a
/// driver. A datagram keeps its place until its send ends, even if its socket is closed.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    places: Vec<Datagram>,
    /// Indices of unused places.
    free: Vec<u32>,
    /// Indices of the datagrams that wait for their hand-over, the next one first.
    queued: Vec<u32>,
    /// Number of datagrams whose sends have not ended.
    pub(super) pending: usize,
}

#[derive(Debug)]
struct Datagram {
    conn: ConnId,
    generation: u32,
    /// The kernel can read these bytes until the send completes.
    bytes: Vec<u8>,
}

/// Numbers of a datagram socket. They stay 0 for streams.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DatagramCounts {
    /// Datagrams that wait for their hand-over.
    queued: usize,
    /// Bytes of datagrams whose sends have not ended.
    pub(super) waiting_bytes: usize,
}

impl Datagrams {
    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    fn queue(&mut self, conn: ConnId, generation: u32, bytes: &[u8]) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Datagram { conn, generation, bytes: Vec::new() });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        (place.conn, place.generation) = (conn, generation);
        place.bytes.clear();
        place.bytes.extend_from_slice(bytes);
        self.queued.push(index);
    }

    /// Frees the place of a datagram whose send has ended.
    pub(super) fn complete(&mut self, index: u32) {
        self.pending -= 1;
        self.free.push(index);
    }

    /// Keeps all bytes forever if the kernel can still use some of them.
    pub(super) fn leak_pending(&mut self) {
        if self.pending > 0 {
            std::mem::forget(std::mem::take(&mut self.places));
        }
    }
}

impl DatagramDriver for Uring {
    fn open_datagrams(&mut self, conn: ConnId) {
        self.open(conn, SocketKind::Datagram);
    }

    fn send_datagram(&mut self, conn: ConnId, datagram: &[u8]) {
        let connection = &mut self.conns[conn as usize];
        connection.datagrams.queued += 1;
        connection.datagrams.waiting_bytes += datagram.len();
        self.datagrams.queue(conn, connection.generation, datagram);
    }
}

impl Uring {
    /// Puts sends of all queued datagrams into the submission queue. The caller must submit the
    /// queue right after.
    pub(super) fn hand_over_datagrams(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) {
        // The clock is read before the first send, because a full queue is submitted in between.
        let at = sys::now();
        // The list is moved out and back, so that its memory is reused.
        let mut queued = std::mem::take(&mut self.datagrams.queued);
        for index in queued.drain(..) {
            self.datagrams.pending += 1;
            if !self.push_datagram(index) {
                self.datagrams.complete(index);
                continue;
            }
            let conn = self.datagrams.places[index as usize].conn;
            let counts = &mut self.conns[conn as usize].datagrams;
            counts.queued -= 1;
            if counts.queued == 0 {
                on_handed_over(conn, at);
            }
        }
        self.datagrams.queued = queued;
    }

    /// Returns the descriptor of the socket of a datagram; `None`: the socket was closed.
    fn socket(&self, index: u32) -> Option<types::Fd> {
        let Datagram { conn, generation, .. } = self.datagrams.places[index as usize];
        let connection = &self.conns[conn as usize];
        let fd = connection.fd.as_ref().filter(|_| connection.generation == generation)?;
        Some(types::Fd(fd.as_raw_fd()))
    }

    /// Puts the send of a datagram into the submission queue. Returns whether its socket is open.
    fn push_datagram(&mut self, index: u32) -> bool {
        let Some(fd) = self.socket(index) else { return false };
        let bytes = &self.datagrams.places[index as usize].bytes;
        // The send fails if the socket has no room. If the kernel waited for room, it would repeat
        // the send itself. It then sends an empty datagram to a Unix socket (Linux 6.18).
        let entry = opcode::Send::new(fd, bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
            .build()
            .user_data(user_data(Operation::SendDatagram, 0, index));
        self.push(&entry);
        true
    }

    /// Sends a datagram, or discards it if its socket was closed, after the socket got room.
    pub(super) fn send_stuck_datagram(&mut self, entry: &cqueue::Entry) {
        let index = entry.user_data() as u32;
        if !self.push_datagram(index) {
            self.datagrams.complete(index);
        }
    }

    /// Handles the completion of a send. A datagram that the kernel did not take is lost, unless it
    /// only found no room.
    pub(super) fn finish_datagram(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        let index = entry.user_data() as u32;
        let taken = u64::try_from(entry.result()).unwrap_or(0);
        self.taken_bytes += taken;
        let Some(fd) = self.socket(index) else {
            self.datagrams.complete(index);
            return None;
        };
        if entry.result() == -libc::EAGAIN {
            let data = user_data(Operation::AwaitRoom, 0, index);
            self.push(&opcode::PollAdd::new(fd, libc::POLLOUT as u32).build().user_data(data));
            return None;
        }
        self.datagrams.complete(index);
        let Datagram { conn, ref bytes, .. } = self.datagrams.places[index as usize];
        let connection = &mut self.conns[conn as usize];
        connection.taken += taken;
        connection.datagrams.waiting_bytes -= bytes.len();
        // The kernel has reported the refusal to this send, so no receive reports it.
        (entry.result() == -libc::ECONNREFUSED).then(|| Completion {
            conn,
            kind: self.refuse_datagrams(conn),
            // The caller sets the instant.
            at: Instant::default(),
        })
    }

    /// Closes a datagram socket at whose peer no program receives, so that later completions of the
    /// socket are ignored. Returns the completion that reports this end.
    pub(super) fn refuse_datagrams(&mut self, conn: ConnId) -> CompletionKind {
        self.close(conn);
        CompletionKind::Reset
    }
}
