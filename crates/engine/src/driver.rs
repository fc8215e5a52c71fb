//! The interface between the engine, which decides, and a driver, which makes system calls. With
//! this interface, the same worker runs on io_uring, epoll or the simulator.
//!
//! [`Driver`] has the clock, the turns, and what is the same for all sockets. [`StreamDriver`] adds
//! stream connections, and [`DatagramDriver`] adds datagram sockets.

use dyno_model::load::TcpCounters;
use dyno_model::sample::ThreadUse;

use crate::Instant;

/// A connection slot of a worker. A slot has at most one connection, or datagram socket, at a time.
pub type ConnId = u32;

/// Performs operations, reports their completions, and owns the clock. Traits on top of this one
/// have the operations that open a socket in a slot and send.
///
/// The caller starts a turn with [`turn`](Self::turn), then calls [`next`](Self::next) until it
/// returns `None` and handles each completion. In a long turn it calls [`flush`](Self::flush) in
/// between. [`close`](Self::close) discards completions of that connection that have not been
/// reported. A connection reports nothing after its [`Eof`](CompletionKind::Eof) or
/// [`Reset`](CompletionKind::Reset).
///
/// Every implementation passes the contract tests in `dyno-driver`, `tests/all/contract.rs`.
pub trait Driver {
    fn now(&self) -> Instant;

    /// Closes the connection immediately. Its queued bytes are discarded, and its requests in
    /// flight get no response.
    fn close(&mut self, conn: ConnId);

    /// Returns the progress of the bytes queued on an open connection.
    fn queued_bytes(&self, conn: ConnId) -> QueuedBytes;

    /// Returns the number of bytes that the kernel has taken from all connections since the driver
    /// was created. The kernel may still hold some of them:
    /// [`unsent_bytes`](StreamDriver::unsent_bytes).
    fn taken_bytes(&self) -> u64;

    /// Hands queued bytes to the kernel. For each connection whose queued bytes have all been
    /// handed over, calls `on_handed_over` with the instant right before the hand-over. If the
    /// kernel has no room for the bytes of a connection, a later flush hands them over and reports
    /// them.
    fn flush(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant));

    /// Flushes, then waits until an operation completes or until `wait.until`, whichever is first.
    fn turn(&mut self, wait: Wait, on_handed_over: &mut dyn FnMut(ConnId, Instant)) -> Turn;

    /// Returns the next completion of this turn. Received bytes are in
    /// [`received_bytes`](Self::received_bytes) until the next call of `next` or `turn`.
    fn next(&mut self) -> Option<Completion>;

    /// Returns the bytes of the last `Received` that [`next`](Self::next) returned. The caller may
    /// change them in place.
    fn received_bytes(&mut self) -> &mut [u8];

    /// Returns the instant at which the kernel received the last of the
    /// [`received_bytes`](Self::received_bytes); `None`: the driver was created without kernel
    /// timestamps.
    fn received_at(&self) -> Option<Instant> {
        None
    }

    /// Returns the CPU use of the calling thread so far.
    fn thread_use(&self) -> ThreadUse;

    /// Returns the CPU time of the calling thread so far, nanoseconds. Cheaper than
    /// [`thread_use`](Self::thread_use).
    fn thread_run_ns(&self) -> u64;
}

/// Stream connections of a [`Driver`], over TCP or a Unix socket. Workers use these operations.
pub trait StreamDriver: Driver {
    /// Begins to connect. Completes with `Connected` or `ConnectFailed`.
    fn connect(&mut self, conn: ConnId);

    /// Queues a copy of `bytes` after all bytes queued before on this connection.
    fn send(&mut self, conn: ConnId, bytes: &[u8]);

    /// Returns the number of bytes of an open connection that the kernel has taken and not yet
    /// sent; 0 if the kernel does not report the number.
    fn unsent_bytes(&self, conn: ConnId) -> u64;

    /// Returns the counters of an open connection; `None`: the kernel does not report them.
    fn tcp_counters(&mut self, conn: ConnId) -> Option<TcpCounters>;
}

/// Datagram sockets of a [`Driver`], for protocols over UDP such as HTTP/3. Unused by workers.
///
/// The kernel and the network can lose, repeat or reorder datagrams. Each
/// [`Received`](CompletionKind::Received) is one datagram, which can be empty. Datagrams of up to
/// 8 KiB arrive whole, and longer ones can be cut. [`Reset`](CompletionKind::Reset) means that no
/// program receives at the address of the server.
pub trait DatagramDriver: Driver {
    /// Opens a datagram socket that sends to the server, and receives only from the server.
    /// Completes with `Connected` or `ConnectFailed`.
    fn open_datagrams(&mut self, conn: ConnId);

    /// Queues a copy of a datagram after all datagrams queued before on this socket. A datagram
    /// that the kernel refuses, for example because of its length, is lost.
    fn send_datagram(&mut self, conn: ConnId, datagram: &[u8]);
}

/// Bytes queued on a connection since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuedBytes {
    /// Bytes that the kernel is known to have taken.
    pub taken: u64,
    /// Bytes still in the memory of the driver.
    pub waiting: u64,
}

impl QueuedBytes {
    /// Returns the number of all queued bytes.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.taken + self.waiting
    }
}

/// Deadline and manner of the wait in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Latest end of the wait.
    pub until: Instant,
    /// From this instant on, the driver polls instead of sleeping, which avoids a late wake-up;
    /// `NEVER`: it sleeps throughout.
    pub spin_from: Instant,
}

impl Wait {
    /// Creates a wait that sleeps throughout.
    #[must_use]
    pub const fn sleep_until(until: Instant) -> Wait {
        Wait { until, spin_from: Instant::NEVER }
    }
}

/// The instants of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Start of the driver's part: the worker's busy time ended.
    pub entered: Instant,
    /// End of the driver's part. All completions that the turn reports had happened by then.
    pub woke: Instant,
    /// Time spent polling, nanoseconds.
    pub spun_ns: u64,
}

/// A completed operation, or an event on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub conn: ConnId,
    pub kind: CompletionKind,
    /// Latest possible instant of the completion, because the clock was read right after the
    /// kernel's report. Instants never decrease from one completion to the next.
    pub at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionKind {
    Connected,
    ConnectFailed(ConnectError),
    /// Bytes arrived: see [`Driver::received_bytes`].
    Received,
    /// The peer closed its side.
    Eof,
    /// The connection broke.
    Reset,
}

/// Reason of a failed attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectError {
    Refused,
    TimedOut,
    Reset,
    /// No local port or address was free (`EADDRNOTAVAIL`).
    AddressExhausted,
    /// Any other error number.
    Other(i32),
}
