//! The seam between what the engine decides and what the machine does.

use dyno_archive::load::TcpCounters;
use dyno_archive::sample::ThreadUse;

use crate::Instant;

/// A connection slot of a worker. A slot has at most one connection at a time.
pub type ConnId = u32;

/// Performs operations and reports completions; owns the only clock.
///
/// One turn goes: [`turn`](Self::turn), then [`next`](Self::next) until it is `None`, handling each
/// completion, with [`flush`](Self::flush) in between if the turn is long. After
/// [`close`](Self::close) no completion of that connection is reported any more, even if it had
/// already happened.
///
/// The same contract suite (`dyno-driver`, `tests/contract.rs`) runs against every implementation.
pub trait Driver {
    fn now(&self) -> Instant;

    /// Begins to connect. Ends in `Connected` or `ConnectFailed`.
    fn connect(&mut self, conn: ConnId);

    /// Queues `bytes` behind everything queued before on this connection. They are copied.
    fn send(&mut self, conn: ConnId, bytes: &[u8]);

    /// Closes the connection immediately, with its queued bytes and requests in flight.
    fn close(&mut self, conn: ConnId);

    /// Returns the progress of the bytes queued on an open connection.
    fn queued(&self, conn: ConnId) -> Queued;

    /// Bytes that the kernel has taken, on all connections since the driver was made.
    fn sent_bytes(&self) -> u64;

    /// Bytes that the kernel has taken on an open connection and not sent yet; 0 if the kernel does
    /// not report them.
    fn unsent(&self, conn: ConnId) -> u64;

    /// Hands queued bytes to the kernel. `handed` is called for each connection all of whose bytes
    /// have been handed over, with the instant read just before. Bytes behind others that the
    /// kernel has no room for are handed over, and reported, once those have left: nothing leaves
    /// unreported.
    fn flush(&mut self, handed: &mut dyn FnMut(ConnId, Instant));

    /// Flushes, then waits until something completed or until `wait.until`, whichever is first.
    fn turn(&mut self, wait: Wait, handed: &mut dyn FnMut(ConnId, Instant)) -> Turn;

    /// The next completion of this turn. Received bytes lie in [`bytes`](Self::bytes) until the
    /// next call of `next` or `turn`.
    fn next(&mut self) -> Option<Completion>;

    /// The bytes of the `Received` that [`next`](Self::next) returned last. They may be changed in
    /// place.
    fn bytes(&mut self) -> &mut [u8];

    /// When the kernel received the last of those bytes; `None` unless the driver was made to ask
    /// for it.
    fn received_at(&self) -> Option<Instant> {
        None
    }

    /// Counters of an open connection; `None` if the kernel does not report them.
    fn tcp(&mut self, conn: ConnId) -> Option<TcpCounters>;

    /// CPU use of the calling thread so far.
    fn thread_use(&self) -> ThreadUse;

    /// CPU time of the calling thread so far, nanoseconds: the part of its use that is cheap to
    /// read.
    fn thread_run_ns(&self) -> u64;
}

/// Bytes queued on a connection since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Bytes that the kernel is known to have taken.
    pub taken: u64,
    /// Bytes that are still in our memory.
    pub waiting: u64,
}

impl Queued {
    /// All bytes that were queued.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.taken + self.waiting
    }
}

/// Way of waiting in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When the wait ends at the latest.
    pub until: Instant,
    /// From here on poll instead of sleeping, so as not to wake late; `NEVER`: sleep all the time.
    pub spin_from: Instant,
}

impl Wait {
    /// Sleeps all the time.
    #[must_use]
    pub const fn asleep(until: Instant) -> Wait {
        Wait { until, spin_from: Instant::NEVER }
    }
}

/// The instants of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// When the worker handed control over: the end of its busy time.
    pub entered: Instant,
    /// When the worker got control back: everything the turn's completions report had happened by
    /// then.
    pub woke: Instant,
    /// Part of the wait that was polling, nanoseconds.
    pub spun_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub conn: ConnId,
    pub what: CompletionKind,
    /// The latest instant at which it can have happened: the clock was read right after the
    /// kernel's report. Never earlier than that of the completion before it.
    pub at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionKind {
    Connected,
    ConnectFailed(ConnectError),
    /// Some bytes arrived: see [`Driver::bytes`].
    Received,
    /// The peer closed its side.
    Eof,
    /// The connection broke.
    Reset,
}

/// Why no connection came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectError {
    Refused,
    TimedOut,
    Reset,
    /// No local port or address was left (`EADDRNOTAVAIL`).
    AddressExhausted,
    /// Any other error number.
    Other(i32),
}
