//! Conversations: protocols on connections. Only this module knows how a protocol carries
//! exchanges.
//!
//! A [`Conversation`] is a state machine without I/O, like a connection of quinn-proto:
//!
//! - [`submit`](Conversation::submit) takes a request.
//! - [`poll`](Conversation::poll) reads received bytes up to the next [`Event`].
//! - [`on_timeout`](Conversation::on_timeout) acts on deadlines, of which
//!   [`poll_timeout`](Conversation::poll_timeout) returns the next one.
//!
//! The worker connects, sends, and records the exchanges that end. [`Conn`] chooses the protocol of
//! a connection and dispatches to it.
//!
//! The module is split by task:
//!
//! - `h1` and `h2`: the protocols.
//! - `shared`: state that all conversations of a worker share.
//! - `continues`: counts of bodies that wait for 100 (Continue).
//! - `http2_counts`: counts specific to HTTP/2.

mod continues;
mod h1;
mod h2;
mod http2_counts;
mod shared;

use std::collections::VecDeque;

use dyno_model::Protocol;
use dyno_model::outcome::Outcome;
use dyno_wire::{h1 as http1, h2 as http2};
use h1::{H1Connection, Upgrade};
use h2::H2Connection;

use crate::Instant;
use crate::driver::QueuedBytes;
use crate::exchange::Exchange;
use crate::expect::ResponseVerdict;
pub use h2::upgrade_settings;
pub(crate) use http2_counts::Http2Counts;
pub(crate) use shared::Shared;

/// A protocol on a connection, with the exchanges in flight. `shared` is the state that all
/// conversations of a worker share.
///
/// While received bytes are read, `now` is the instant at which the read completed.
pub(crate) trait Conversation {
    /// Whether the connection can carry requests. Until then it counts as opening.
    fn is_ready(&self) -> bool;

    /// Whether no part of a message has been read that is still incomplete. Unless it
    /// [is ready](Self::is_ready), whether the peer has not yet spoken the protocol.
    fn is_between_messages(&self) -> bool;

    /// Whether the peer sends bytes only in response to requests, so that all other bytes belong to
    /// no request.
    fn is_silent_when_idle(&self) -> bool;

    /// Whether bytes without a request announce the close of an idle connection.
    fn is_close_notice(&self, bytes: &[u8]) -> bool;

    /// Whether no more requests may be submitted, because one side has announced the close.
    fn is_draining(&self) -> bool;

    /// Returns the time without a request after which the server closes the connection, as it has
    /// announced, nanoseconds; `u64::MAX`: it has announced none.
    fn idle_limit_ns(&self) -> u64 {
        u64::MAX
    }

    /// Whether a request can be submitted now.
    fn has_room(&self, shared: &Shared) -> bool;

    /// Whether a closed loop submits no request now although there is room, so that more requests
    /// leave together later.
    fn waits_for_batch(&self, shared: &Shared) -> bool {
        let _ = shared;
        false
    }

    /// Returns the number of exchanges that a slot takes before its connection is open: as many as
    /// the connection is likely to carry. More exchanges would wait while other slots have room.
    fn expected_capacity(&self, shared: &Shared) -> u32;

    /// Returns the number of exchanges in flight.
    fn in_flight(&self) -> usize;

    /// Returns the exchanges in flight.
    fn exchanges(&self) -> impl Iterator<Item = &Exchange>;

    /// Removes and returns the exchanges in flight, oldest first.
    fn take_exchanges(&mut self) -> Vec<Exchange>;

    /// Begins an exchange. There must be [room](Self::has_room). Returns bytes to send now. Further
    /// bytes are in [`Shared::output`].
    fn submit<'s>(&mut self, exchange: Exchange, now: Instant, shared: &'s mut Shared) -> &'s [u8];

    /// Records the place in the byte stream of the connection of bytes that were queued last: from
    /// `start` to `end`. Called for bytes that can leave in several pieces.
    fn on_queued(&mut self, start: u64, end: u64);

    /// Whether submitted requests have not been handed over.
    fn has_unsent(&self) -> bool;

    /// Records the hand-over of all submitted requests at `at`. Calls `on_sent` with each exchange.
    fn on_handed_over(&mut self, at: Instant, on_sent: impl FnMut(&Exchange));

    /// Removes and returns a body that the server has requested.
    fn take_requested_body(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Counts a receive operation that returned bytes of this connection.
    fn count_receive(&self, shared: &mut Shared) {
        let _ = shared;
    }

    /// Reads received bytes up to the next event, and advances `bytes` past those that were read.
    /// Call this until it returns [`Event::NeedMore`]. After [`Event::Done`] no call is needed if
    /// no bytes are left.
    fn poll(
        &mut self,
        bytes: &mut &[u8],
        now: Instant,
        shared: &mut Shared,
    ) -> Result<Event, WireError>;

    /// Updates the state after all received bytes were read.
    fn on_read_end(&mut self) {}

    /// Counts a connection that has become ready.
    fn count_established(&self, shared: &mut Shared) {
        let _ = shared;
    }

    /// Whether to call [`check_replies`](Self::check_replies) in this turn.
    fn needs_reply_check(&self, turn: Instant) -> bool {
        let _ = turn;
        false
    }

    /// Fails if the peer causes replies and does not read them. `queued`: the progress of the bytes
    /// of the connection.
    fn check_replies(&mut self, queued: QueuedBytes, turn: Instant) -> Result<(), WireError> {
        let _ = (queued, turn);
        Ok(())
    }

    /// Handles the close by the peer. Returns the exchange whose response ends with the connection.
    fn on_eof(
        &mut self,
        close: PeerClose,
        shared: &mut Shared,
    ) -> Result<Option<EndedExchange>, WireError>;

    /// Moves requests that have not left to the front of `assigned`.
    fn requeue_unsent(&mut self, assigned: &mut VecDeque<Exchange>) {
        let _ = assigned;
    }

    /// Moves idempotent requests that have left, but got no response, to the front of `assigned`.
    /// Other exchanges stay. Returns the number of moved requests.
    fn requeue_unanswered(&mut self, assigned: &mut VecDeque<Exchange>, shared: &Shared) -> u64 {
        let _ = (assigned, shared);
        0
    }

    /// Returns the next deadline; `NEVER`: there is none.
    fn poll_timeout(&self, shared: &Shared) -> Instant;

    /// Acts on the deadlines up to `now`.
    fn on_timeout(&mut self, now: Instant, shared: &mut Shared) -> TimeoutResult;

    /// Writes an announcement of the close, if the protocol has one, to [`Shared::output`].
    fn announce_close(&mut self, reason: CloseReason<'_>, shared: &mut Shared) {
        let _ = (reason, shared);
    }

    /// Records the end of all waits for flow-control windows, because the connection ends.
    fn end_stalls(&self, now: Instant, shared: &mut Shared) {
        let _ = (now, shared);
    }

    /// Records what the settings of the server were when the connection ended.
    fn record_last_settings(&self, shared: &mut Shared) {
        let _ = shared;
    }
}

/// What [`Conversation::poll`] found in received bytes.
#[derive(Debug)]
pub(crate) enum Event {
    /// All bytes were read.
    NeedMore,
    /// A response is complete.
    Done(EndedExchange),
    /// An exchange ended without a complete response.
    Failed(Exchange, Outcome),
    /// The server has not processed these requests. They can be sent again. Newest first.
    Refused(Vec<Exchange>),
    /// The connection switches to another protocol, in which this exchange continues. See
    /// [`Conn::upgrade`].
    Upgraded(Exchange),
    /// A deadline has moved to this instant.
    Deadline(Instant),
    /// The next bytes belong to no request.
    Unsolicited,
}

/// An exchange whose response is complete.
#[derive(Debug)]
pub(crate) struct EndedExchange {
    pub(crate) exchange: Exchange,
    pub(crate) verdict: ResponseVerdict,
    /// Bytes of the request that had not left.
    pub(crate) unsent_bytes: u64,
    /// Whether the server closes the connection after this response.
    pub(crate) is_last: bool,
}

/// Result of [`Conversation::on_timeout`].
#[derive(Debug)]
pub(crate) struct TimeoutResult {
    /// Exchanges that timed out, each with its outcome.
    pub(crate) ended: Vec<(Exchange, Outcome)>,
    pub(crate) connection: ConnectionAfterTimeout,
}

/// State of a connection after its deadlines were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionAfterTimeout {
    Open,
    /// A request timed out with this outcome, and the connection is useless.
    Silent(Outcome),
    /// The server has allowed no request for too long.
    NoRoom,
}

/// Kind of a close by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerClose {
    /// An orderly close, which can mark the end of a body.
    Clean,
    /// The end of a TLS connection without close notify. Bytes before it may be missing.
    Truncated,
}

/// Reason of a close by dyno.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CloseReason<'a> {
    /// The connection is not needed.
    Unneeded,
    Violation(&'a WireError),
}

/// A protocol violation by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error(transparent)]
    H1(#[from] http1::Http1Error),
    #[error(transparent)]
    H2(#[from] http2::Http2Error),
    #[error("the server sent a TLS record, so this port uses TLS (use https://)")]
    TlsRecord,
    #[error("the server switched protocols (101), as requested, but dyno speaks only HTTP")]
    SwitchedAsRequested,
}

impl WireError {
    /// Whether the violation is a response to no request.
    pub(crate) fn is_unsolicited(self) -> bool {
        use http2::Http2Error::{IdleStream, StreamClosed};
        matches!(self, WireError::H2(IdleStream | StreamClosed))
    }
}

/// The conversation of a slot, in the protocol of its connection. Without a connection it is one of
/// HTTP/1.1, with nothing in flight.
#[derive(Debug)]
pub(crate) enum Conn {
    H1(H1Connection),
    H2(Box<H2Connection>),
}

impl Conn {
    pub(crate) fn new() -> Conn {
        Conn::H1(H1Connection::new())
    }

    /// Begins the protocol of a new connection. `alpn`: the protocol that the TLS handshake chose.
    pub(crate) fn begin(&mut self, alpn: Option<&str>, now: Instant, shared: &mut Shared) {
        let protocol = shared.config.protocol;
        if protocol == Protocol::H2c || alpn == Some("h2") {
            *self = Conn::H2(Box::new(H2Connection::new(now, shared)));
            return;
        }
        // The connection uses HTTP/1.1. The report counts such connections if the load requested
        // HTTP/2, or if the load left the choice to the server.
        shared.http2.fallen_back += u64::from(protocol == Protocol::H2);
        shared.http2.http1_chosen +=
            u64::from(protocol == Protocol::Auto && shared.config.tls.is_some());
        if let Conn::H1(h1) = self {
            let wants_upgrade = protocol == Protocol::H2cUpgrade;
            h1.reset(if wants_upgrade { Upgrade::Wanted } else { Upgrade::No });
            h1.may_speak_h2 = wants_upgrade;
        }
    }

    /// Continues in HTTP/2 after [`Event::Upgraded`]: `exchange` becomes stream 1.
    pub(crate) fn upgrade(&mut self, exchange: Exchange, now: Instant, shared: &mut Shared) {
        *self = Conn::H2(Box::new(H2Connection::from_upgrade(exchange, now, shared)));
    }

    /// Resets the conversation after its connection closed. Its exchanges must have been taken
    /// before.
    pub(crate) fn reset(&mut self) {
        match self {
            Conn::H1(h1) => h1.reset(Upgrade::No),
            Conn::H2(_) => *self = Conn::new(),
        }
    }
}

/// Evaluates an expression with the conversation of either protocol.
macro_rules! with_protocol {
    ($conn:expr, $protocol:ident => $result:expr) => {
        match $conn {
            Conn::H1($protocol) => $result,
            Conn::H2($protocol) => $result,
        }
    };
}

impl Conversation for Conn {
    #[inline]
    fn is_ready(&self) -> bool {
        with_protocol!(self, conn => conn.is_ready())
    }

    fn is_between_messages(&self) -> bool {
        with_protocol!(self, conn => conn.is_between_messages())
    }

    fn is_silent_when_idle(&self) -> bool {
        with_protocol!(self, conn => conn.is_silent_when_idle())
    }

    fn is_close_notice(&self, bytes: &[u8]) -> bool {
        with_protocol!(self, conn => conn.is_close_notice(bytes))
    }

    #[inline]
    fn is_draining(&self) -> bool {
        with_protocol!(self, conn => conn.is_draining())
    }

    #[inline]
    fn idle_limit_ns(&self) -> u64 {
        with_protocol!(self, conn => conn.idle_limit_ns())
    }

    #[inline]
    fn has_room(&self, shared: &Shared) -> bool {
        with_protocol!(self, conn => conn.has_room(shared))
    }

    #[inline]
    fn waits_for_batch(&self, shared: &Shared) -> bool {
        with_protocol!(self, conn => conn.waits_for_batch(shared))
    }

    fn expected_capacity(&self, shared: &Shared) -> u32 {
        with_protocol!(self, conn => conn.expected_capacity(shared))
    }

    #[inline]
    fn in_flight(&self) -> usize {
        with_protocol!(self, conn => conn.in_flight())
    }

    fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        let (h1, h2) = match self {
            Conn::H1(conn) => (Some(conn.exchanges()), None),
            Conn::H2(conn) => (None, Some(conn.exchanges())),
        };
        h1.into_iter().flatten().chain(h2.into_iter().flatten())
    }

    fn take_exchanges(&mut self) -> Vec<Exchange> {
        with_protocol!(self, conn => conn.take_exchanges())
    }

    #[inline]
    fn submit<'s>(&mut self, exchange: Exchange, now: Instant, shared: &'s mut Shared) -> &'s [u8] {
        with_protocol!(self, conn => conn.submit(exchange, now, shared))
    }

    fn on_queued(&mut self, start: u64, end: u64) {
        with_protocol!(self, conn => conn.on_queued(start, end));
    }

    #[inline]
    fn has_unsent(&self) -> bool {
        with_protocol!(self, conn => conn.has_unsent())
    }

    #[inline]
    fn on_handed_over(&mut self, at: Instant, on_sent: impl FnMut(&Exchange)) {
        with_protocol!(self, conn => conn.on_handed_over(at, on_sent));
    }

    #[inline]
    fn take_requested_body(&mut self) -> Option<Vec<u8>> {
        with_protocol!(self, conn => conn.take_requested_body())
    }

    #[inline]
    fn count_receive(&self, shared: &mut Shared) {
        with_protocol!(self, conn => conn.count_receive(shared));
    }

    // Without `always`, each event would be copied once more.
    #[inline(always)]
    fn poll(
        &mut self,
        bytes: &mut &[u8],
        now: Instant,
        shared: &mut Shared,
    ) -> Result<Event, WireError> {
        with_protocol!(self, conn => conn.poll(bytes, now, shared))
    }

    #[inline]
    fn on_read_end(&mut self) {
        with_protocol!(self, conn => conn.on_read_end());
    }

    fn count_established(&self, shared: &mut Shared) {
        with_protocol!(self, conn => conn.count_established(shared));
    }

    #[inline]
    fn needs_reply_check(&self, turn: Instant) -> bool {
        with_protocol!(self, conn => conn.needs_reply_check(turn))
    }

    fn check_replies(&mut self, queued: QueuedBytes, turn: Instant) -> Result<(), WireError> {
        with_protocol!(self, conn => conn.check_replies(queued, turn))
    }

    fn on_eof(
        &mut self,
        close: PeerClose,
        shared: &mut Shared,
    ) -> Result<Option<EndedExchange>, WireError> {
        with_protocol!(self, conn => conn.on_eof(close, shared))
    }

    fn requeue_unsent(&mut self, assigned: &mut VecDeque<Exchange>) {
        with_protocol!(self, conn => conn.requeue_unsent(assigned));
    }

    fn requeue_unanswered(&mut self, assigned: &mut VecDeque<Exchange>, shared: &Shared) -> u64 {
        with_protocol!(self, conn => conn.requeue_unanswered(assigned, shared))
    }

    fn poll_timeout(&self, shared: &Shared) -> Instant {
        with_protocol!(self, conn => conn.poll_timeout(shared))
    }

    fn on_timeout(&mut self, now: Instant, shared: &mut Shared) -> TimeoutResult {
        with_protocol!(self, conn => conn.on_timeout(now, shared))
    }

    fn announce_close(&mut self, reason: CloseReason<'_>, shared: &mut Shared) {
        with_protocol!(self, conn => conn.announce_close(reason, shared));
    }

    fn end_stalls(&self, now: Instant, shared: &mut Shared) {
        with_protocol!(self, conn => conn.end_stalls(now, shared));
    }

    fn record_last_settings(&self, shared: &mut Shared) {
        with_protocol!(self, conn => conn.record_last_settings(shared));
    }
}
