//! Datagram sockets of the io_uring driver. Streams use none of this code.

use std::os::fd::AsRawFd as _;

use dyno_engine::{Completion, CompletionKind, ConnId, DatagramDriver, Driver as _, Instant};
use io_uring::{cqueue, opcode, types};

use super::{Operation, Uring, user_data};
use crate::sys::{self, SocketKind};

/// Datagrams that wait for their hand-over, or that the kernel is sending, on all sockets of a
/// driver. A datagram keeps its place until its send completes, even if its socket is closed.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    places: Vec<Datagram>,
    /// Indices of unused places.
    free: Vec<u32>,
    /// Indices of the datagrams that wait for their hand-over, the next one first.
    queued: Vec<u32>,
    /// Number of sends that have not completed.
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
    /// Bytes of datagrams whose sends have not completed.
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

    /// Frees the place of a datagram whose send has completed. Returns the place.
    pub(super) fn complete(&mut self, entry: &cqueue::Entry) -> u32 {
        let index = entry.user_data() as u32;
        self.pending -= 1;
        self.free.push(index);
        index
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
            let Datagram { conn, generation, bytes } = &self.datagrams.places[index as usize];
            let connection = &mut self.conns[*conn as usize];
            let is_current = connection.generation == *generation;
            let Some(fd) = connection.fd.as_ref().filter(|_| is_current) else {
                // The socket was closed, so the datagram is discarded.
                self.datagrams.free.push(index);
                continue;
            };
            let fd = types::Fd(fd.as_raw_fd());
            let entry = opcode::Send::new(fd, bytes.as_ptr(), bytes.len() as u32)
                .flags(libc::MSG_NOSIGNAL)
                .build()
                .user_data(user_data(Operation::SendDatagram, 0, index));
            connection.datagrams.queued -= 1;
            if connection.datagrams.queued == 0 {
                on_handed_over(*conn, at);
            }
            self.datagrams.pending += 1;
            self.push(&entry);
        }
        self.datagrams.queued = queued;
    }

    /// Handles the completion of a send. A datagram that the kernel did not take is lost.
    pub(super) fn finish_datagram(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        let index = self.datagrams.complete(entry);
        let taken = u64::try_from(entry.result()).unwrap_or(0);
        self.taken_bytes += taken;
        let Datagram { conn, generation, ref bytes } = self.datagrams.places[index as usize];
        let connection = &mut self.conns[conn as usize];
        if connection.generation != generation {
            return None;
        }
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
