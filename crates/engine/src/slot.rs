//! A connection slot: the state of its connection and the exchanges on it. A worker has one slot
//! per connection, and a slot outlives its connections.

use std::collections::VecDeque;

use dyno_model::load::TcpCounters;

use crate::conversation::{Conn, Conversation as _, Shared};
use crate::exchange::Exchange;
use crate::tls::TlsSession;
use crate::{Instant, limits};

/// State of the connection of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Down,
    Connecting {
        since: Instant,
    },
    /// The TLS handshake is in progress.
    Securing {
        since: Instant,
        connecting_since: Instant,
    },
    /// The conversation has begun. It is not ready for requests.
    Greeting {
        connecting_since: Instant,
    },
    Up,
}

impl ConnectionState {
    /// Whether a connection is being established and cannot carry requests yet.
    pub(crate) const fn is_opening(self) -> bool {
        matches!(
            self,
            ConnectionState::Connecting { .. }
                | ConnectionState::Securing { .. }
                | ConnectionState::Greeting { .. }
        )
    }
}

/// A connection slot.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) state: ConnectionState,
    /// TLS session; `None` without TLS.
    pub(crate) tls: Option<Box<TlsSession>>,
    pub(crate) conversation: Conn,
    /// Exchanges assigned to this slot that wait for its connection, oldest first.
    pub(crate) assigned: VecDeque<Exchange>,
    /// Requests given to the current connection.
    pub(crate) served: u64,
    /// Consecutive connection failures.
    pub(crate) failures: u32,
    /// Whether a complete response has arrived on the current connection.
    pub(crate) has_responded: bool,
    /// End of the last response on the current connection; only valid if one has arrived.
    pub(crate) last_response: Instant,
    /// Whether a request on the current connection is so large that it can leave in several pieces.
    pub(crate) has_large_request: bool,
    /// Whether responses are still missing on the connection at the end of the load.
    pub(crate) owes_responses: bool,
    /// Whether the slot is in the worker's list of idle slots.
    pub(crate) is_listed_idle: bool,
    /// Whether the slot is in the worker's list of slots that wait before they connect (again).
    pub(crate) is_backing_off: bool,
    /// TCP counters of the connection at the start of the measured window; zero if it was opened
    /// later.
    pub(crate) tcp_base: TcpCounters,
}

impl Slot {
    pub(crate) fn new() -> Self {
        Slot {
            state: ConnectionState::Down,
            tls: None,
            conversation: Conn::new(),
            assigned: VecDeque::new(),
            served: 0,
            failures: 0,
            has_responded: false,
            last_response: Instant::NEVER,
            has_large_request: false,
            owes_responses: false,
            is_listed_idle: false,
            is_backing_off: false,
            tcp_base: TcpCounters::default(),
        }
    }

    /// Whether bytes that arrive on this connection after the load belong to no request: the server
    /// sends nothing without a request, and all responses have arrived. During the load, callers
    /// must also check that no request is in flight.
    pub(crate) fn is_quiet(&self) -> bool {
        self.state == ConnectionState::Up
            && self.served > 0
            && !self.owes_responses
            && self.conversation.is_silent_when_idle()
    }

    /// Whether the connection is open and has taken no request.
    pub(crate) fn is_unused(&self) -> bool {
        self.state == ConnectionState::Up && self.served == 0
    }

    /// Whether a request was sent on this connection after it had been idle, and was not sent on
    /// another connection before. Servers close idle connections at any time, so the close may have
    /// crossed the request (RFC 9112 §9.5).
    pub(crate) fn may_have_crossed_close(&self, exchange: &Exchange, now: Instant) -> bool {
        self.has_responded
            && !exchange.is_resent
            && exchange.sent != Instant::NEVER
            && now.ns_since(exchange.sent) < limits::CROSSING_NS
            && exchange.queued.ns_since(self.last_response) >= limits::IDLE_NS
    }

    /// Whether the connection has been idle for as long as the server keeps idle connections open,
    /// as it has announced. A request now could cross the close.
    #[inline]
    pub(crate) fn has_idled_out(&self, now: Instant) -> bool {
        let limit_ns = self.conversation.idle_limit_ns();
        limit_ns != u64::MAX
            && self.has_responded
            && self.in_flight() == 0
            && now.ns_since(self.last_response) >= limit_ns - limits::CROSSING_NS
    }

    /// Returns the number of exchanges on the connection.
    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        self.conversation.in_flight()
    }

    /// Returns the next instant at which the connection or an exchange on it times out; `NEVER`:
    /// nothing can time out.
    pub(crate) fn deadline(&self, shared: &Shared) -> Instant {
        match self.state {
            ConnectionState::Down => Instant::NEVER,
            ConnectionState::Connecting { since }
            | ConnectionState::Securing { connecting_since: since, .. }
            | ConnectionState::Greeting { connecting_since: since } => {
                since.plus(shared.config.policy.connect_timeout_ns)
            }
            ConnectionState::Up => self.conversation.poll_timeout(shared),
        }
    }

    /// Returns the intended starts of the exchanges of the slot that have not ended.
    pub(crate) fn intended_starts(&self) -> impl Iterator<Item = Instant> + '_ {
        let exchanges = self.conversation.exchanges().chain(&self.assigned);
        exchanges.map(|exchange| exchange.intended)
    }

    /// Resets the slot after its connection closed. Its exchanges must have been taken before.
    pub(crate) fn disconnect(&mut self) {
        self.state = ConnectionState::Down;
        self.conversation.reset();
        self.tls = None;
        self.served = 0;
        self.has_responded = false;
        self.has_large_request = false;
    }
}
