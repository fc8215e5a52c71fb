//! The seam between what the engine decides and what the machine does.

use dyno_archive::sample::ThreadUse;
use dyno_archive::trial::TcpCounters;

use crate::Instant;

/// A connection slot of a worker. A slot has at most one connection at a time.
pub type ConnId = u32;

/// Performs operations and reports completions; owns the only clock.
///
/// One turn goes: [`turn`](Self::turn), then [`next`](Self::next) until it is `None`, handling each completion,
/// with [`flush`](Self::flush) in between if the turn is long. After [`close`](Self::close) no completion of that
/// connection is reported any more, even if it had already happened.
///
/// The same contract suite (`dyno-driver`, `tests/contract.rs`) runs against every implementation.
pub trait Driver {
    fn now(&self) -> Instant;

    /// Begins to connect. Ends in `Connected` or `ConnectFailed`.
    fn connect(&mut self, conn: ConnId);

    /// Queues `bytes` behind everything queued before on this connection. They are copied.
    fn send(&mut self, conn: ConnId, bytes: &[u8]);

    /// Ends the connection at once, whatever is queued or under way.
    fn close(&mut self, conn: ConnId);

    /// Hands what is queued to the kernel. `handed` learns of each connection all of whose bytes have been handed
    /// over, with the instant read just before.
    fn flush(&mut self, handed: &mut dyn FnMut(ConnId, Instant));

    /// Flushes, then sleeps until something completed or until `until`, whichever is first.
    fn turn(&mut self, until: Instant, handed: &mut dyn FnMut(ConnId, Instant)) -> Turn;

    /// The next completion of this turn. Received bytes lie in [`bytes`](Self::bytes) until the next call of
    /// `next` or `turn`.
    fn next(&mut self) -> Option<Completion>;

    /// The bytes of the `Received` that [`next`](Self::next) returned last.
    fn bytes(&self) -> &[u8];

    /// Counters of an open connection; `None` if the kernel does not tell.
    fn tcp(&mut self, conn: ConnId) -> Option<TcpCounters>;

    /// CPU use of the calling thread so far.
    fn thread_use(&self) -> ThreadUse;
}

/// The instants of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// When the worker handed control over: the end of its busy time.
    pub entered: Instant,
    /// When it got control back: everything the turn's completions report had happened by then.
    pub woke: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub conn: ConnId,
    pub what: What,
    /// When it had happened at the latest: the clock was read right after the kernel had told. Never earlier than
    /// the completion before it.
    pub at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
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
