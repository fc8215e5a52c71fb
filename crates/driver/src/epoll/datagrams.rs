//! Datagram sockets of the epoll driver. Streams use none of this code.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd as _;

use dyno_engine::{CompletionKind, ConnId, DatagramDriver, Instant};

use super::{Conn, Epoll};
use crate::sys::{self, SocketKind};

/// Boundaries of the datagrams that wait in the output of a socket.
#[derive(Debug, Default)]
pub(super) struct DatagramQueue {
    /// Lengths of the datagrams, the next one first.
    lengths: VecDeque<usize>,
    /// Whether the socket is in the list to flush.
    is_queued: bool,
}

/// Result of sending all datagrams of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendOutcome {
    Sent,
    /// The kernel has no room for the next datagram.
    Stuck,
    /// No program receives at the address of the server.
    Refused,
}

impl DatagramDriver for Epoll {
    fn open_datagrams(&mut self, conn: ConnId) {
        self.open(conn, SocketKind::Datagram);
    }

    fn send_datagram(&mut self, conn: ConnId, datagram: &[u8]) {
        let connection = self.conns[conn as usize].as_mut().expect("the socket should be open");
        let queue = connection.datagrams.as_mut().expect("the slot should have a datagram socket");
        queue.lengths.push_back(datagram.len());
        sys::append_output(datagram, &mut connection.out);
        self.queue_socket(conn);
    }
}

impl Epoll {
    /// Adds a socket to the list to flush.
    pub(super) fn queue_socket(&mut self, conn: ConnId) {
        let connection = self.conns[conn as usize].as_mut();
        let Some(queue) = connection.and_then(|c| c.datagrams.as_mut()) else { return };
        if !std::mem::replace(&mut queue.is_queued, true) {
            self.queued_sockets.push(conn);
        }
    }

    /// Sends the datagrams of all sockets in the list to flush.
    pub(super) fn send_datagrams(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) {
        // The list is moved out and back, so that its memory is reused.
        let mut sockets = std::mem::take(&mut self.queued_sockets);
        for conn in sockets.drain(..) {
            let Some(connection) = &mut self.conns[conn as usize] else { continue };
            let queue = connection.datagrams.as_mut();
            if !queue.is_some_and(|queue| std::mem::take(&mut queue.is_queued)) {
                continue;
            }
            // The clock is read right before the first system call for these datagrams.
            let at = sys::now();
            let outcome = send_all(connection, &mut self.taken_bytes);
            // EPOLLOUT reports room later.
            connection.is_stuck = outcome == SendOutcome::Stuck;
            if outcome != SendOutcome::Stuck {
                on_handed_over(conn, at);
            }
            // The kernel has reported the refusal to the send, so no read reports it.
            if outcome == SendOutcome::Refused
                && !std::mem::replace(&mut connection.has_reported_end, true)
            {
                let generation = connection.generation;
                self.own_completions.push_back((conn, generation, CompletionKind::Reset));
            }
        }
        self.queued_sockets = sockets;
    }
}

/// Sends the datagrams of a socket, and adds the number of bytes that the kernel took to
/// `taken_bytes`.
fn send_all(connection: &mut Conn, taken_bytes: &mut u64) -> SendOutcome {
    let Conn { fd, datagrams: Some(queue), out, written, taken, .. } = connection else {
        return SendOutcome::Sent;
    };
    let mut outcome = SendOutcome::Sent;
    while let Some(length) = queue.lengths.front() {
        let datagram = &out[*written..*written + length];
        // SAFETY: `datagram` is valid for its length.
        let n = unsafe {
            libc::send(fd.as_raw_fd(), datagram.as_ptr().cast(), datagram.len(), libc::MSG_NOSIGNAL)
        };
        if n >= 0 {
            *taken += n as u64;
            *taken_bytes += n as u64;
        } else {
            match io::Error::last_os_error().kind() {
                io::ErrorKind::WouldBlock => return SendOutcome::Stuck,
                io::ErrorKind::ConnectionRefused => outcome = SendOutcome::Refused,
                // The datagram is lost.
                _ => {}
            }
        }
        *written += length;
        queue.lengths.pop_front();
    }
    out.clear();
    *written = 0;
    outcome
}
