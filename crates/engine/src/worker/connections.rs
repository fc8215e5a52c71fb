//! Opens connections, handles their failures, and replaces them.

use std::cmp::Reverse;

use dyno_model::load::TcpCounters;
use dyno_model::outcome::Outcome;

use super::{Stage, Worker};
use crate::conversation::{CloseReason, Conversation as _, PeerClose};
use crate::driver::{Completion, CompletionKind, ConnId, ConnectError, StreamDriver};
use crate::kinds::count_kind;
use crate::slot::ConnectionState;
use crate::tls::{TlsSession, reason};
use crate::{Instant, limits};

impl Worker {
    /// Handles a completion of the driver.
    pub fn complete<D: StreamDriver>(&mut self, completion: Completion, driver: &mut D) {
        // `now` is the instant of the completion. Its bytes, or its event, had arrived by then.
        let Completion { conn, at: now, .. } = completion;
        match completion.kind {
            CompletionKind::Connected => self.on_connected(conn, now, driver),
            CompletionKind::ConnectFailed(error) => {
                let outcome = connect_outcome(error);
                self.fail(conn, outcome, outcome, now, driver);
            }
            CompletionKind::Received => self.on_received(conn, now, driver),
            CompletionKind::Eof if self.is_securing(conn) => {
                self.fail_tls(conn, reason::CLOSED, now, driver);
            }
            // Without close notify, an attacker or a failure can have cut the data off (RFC 8446
            // §6.1).
            CompletionKind::Eof if self.slots[conn as usize].tls.is_some() => {
                self.on_eof(conn, PeerClose::Truncated, now, driver);
            }
            CompletionKind::Eof => self.on_eof(conn, PeerClose::Clean, now, driver),
            CompletionKind::Reset => {
                self.connections.closed_by_server += 1;
                if self.is_securing(conn) {
                    self.fail_tls(conn, reason::RESET, now, driver);
                } else {
                    self.requeue_crossed(conn, now);
                    self.fail(conn, Outcome::Reset, Outcome::Reset, now, driver);
                }
            }
        }
    }

    /// Starts an attempt to connect.
    pub(super) fn connect<D: StreamDriver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        self.slots[conn as usize].state = ConnectionState::Connecting { since: now };
        self.timers.add(conn, now.plus(self.shared.config.policy.connect_timeout_ns));
        driver.connect(conn);
    }

    fn on_connected<D: StreamDriver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        self.connections.opened += 1;
        let slot = &mut self.slots[conn as usize];
        let connecting_since = match slot.state {
            ConnectionState::Connecting { since } => since,
            _ => now,
        };
        self.shared.recorder.distributions.connect.record(now.ns_since(connecting_since));
        slot.tcp_base = TcpCounters::default();
        let Some(tls) = &self.shared.config.tls else {
            return self.begin_protocol(conn, None, now, driver);
        };
        // The TLS handshake time begins at the completed connect.
        slot.state = ConnectionState::Securing { since: now, connecting_since };
        match TlsSession::new(tls) {
            Ok(session) => slot.tls = Some(Box::new(session)),
            Err(reason) => return self.fail_tls(conn, &reason, now, driver),
        }
        // An empty read makes the session produce its first records.
        self.read_tls(conn, &mut [], now, driver);
    }

    /// Begins the conversation on a new connection. `alpn`: the protocol that the TLS handshake
    /// chose.
    fn begin_protocol<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        alpn: Option<&str>,
        now: Instant,
        driver: &mut D,
    ) {
        let slot = &mut self.slots[conn as usize];
        slot.conversation.begin(alpn, now, &mut self.shared);
        if slot.conversation.is_ready() {
            return self.on_established(conn, now, driver);
        }
        let connecting_since = match slot.state {
            ConnectionState::Connecting { since: at }
            | ConnectionState::Securing { connecting_since: at, .. } => at,
            _ => now,
        };
        slot.state = ConnectionState::Greeting { connecting_since };
        self.queue_output(conn, driver);
    }

    /// Handles a connection that can now take requests: sends the requests that waited for it.
    pub(super) fn on_established<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        now: Instant,
        driver: &mut D,
    ) {
        self.mark_slot_tried();
        self.connections_up += 1;
        let slot = &mut self.slots[conn as usize];
        slot.state = ConnectionState::Up;
        self.send_assigned(conn, now, driver);
        self.queue_output(conn, driver);
        self.refill(conn, now, driver);
    }

    /// Handles the end of a TLS handshake: records it, and begins the protocol that it chose.
    pub(super) fn on_secured<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        now: Instant,
        driver: &mut D,
    ) {
        let alpn = self.record_handshake(conn, now);
        self.begin_protocol(conn, alpn.as_deref(), now, driver);
    }

    /// Whether the TLS handshake of a connection is complete.
    pub(super) fn is_tls_secured(&self, conn: ConnId) -> bool {
        self.slots[conn as usize].tls.as_ref().is_some_and(|session| session.is_secured())
    }

    /// Records the end of a TLS handshake. Returns the protocol that ALPN chose; `None`: ALPN chose
    /// none.
    pub(super) fn record_handshake(&mut self, conn: ConnId, now: Instant) -> Option<String> {
        let slot = &self.slots[conn as usize];
        if let ConnectionState::Securing { since, .. } = slot.state {
            self.shared.recorder.distributions.tls_handshake.record(now.ns_since(since));
        }
        let mut alpn = None;
        if let Some(session) = &slot.tls {
            let parameters = session.parameters();
            alpn.clone_from(&parameters.alpn);
            if parameters.is_resumed {
                self.tls.handshakes_resumed += 1;
            } else {
                self.tls.handshakes_full += 1;
            }
            if self.tls.version.is_none() {
                self.tls.version = parameters.version;
                self.tls.cipher_suite = parameters.cipher_suite;
                self.tls.alpn = parameters.alpn;
            }
        }
        alpn
    }

    fn is_securing(&self, conn: ConnId) -> bool {
        matches!(self.slots[conn as usize].state, ConnectionState::Securing { .. })
    }

    /// Ends a connection whose TLS handshake or session failed.
    pub(super) fn fail_tls<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        reason: &str,
        now: Instant,
        driver: &mut D,
    ) {
        count_kind(&mut self.tls.errors, reason, limits::PROTOCOL_ERROR_KINDS);
        let slot = &self.slots[conn as usize];
        if reason.starts_with(reason::MALFORMED) && slot.is_quiet() && slot.in_flight() == 0 {
            // No response was expected, so the bytes that are not TLS belong to no request.
            self.count_unsolicited(conn);
        }
        self.fail(conn, Outcome::TlsError, Outcome::TlsError, now, driver);
    }

    /// Records that an attempt to connect has ended, successfully or not. In stage `Opening` each
    /// slot has one attempt. Later the count is 0 and stays 0.
    fn mark_slot_tried(&mut self) {
        self.untried_slots = self.untried_slots.saturating_sub(1);
    }

    /// Ends a failed connection. The oldest exchange in flight on it ends as `first`, all others as
    /// `others`. `now`: the instant at which the failure was read, or dyno decided to close.
    pub(super) fn fail<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        first: Outcome,
        others: Outcome,
        now: Instant,
        driver: &mut D,
    ) {
        let state = self.slots[conn as usize].state;
        let failed_to_connect = state.is_opening();
        if failed_to_connect {
            self.mark_slot_tried();
        }
        if first.is_timeout() {
            self.connections.closed_by_us += 1;
        }
        let slot = &mut self.slots[conn as usize];
        slot.conversation.end_stalls(now, &mut self.shared);
        let was_unused = slot.is_unused();
        let mut lost_exchanges = slot.conversation.take_exchanges();
        if failed_to_connect {
            lost_exchanges.extend(slot.assigned.drain(..));
        }
        let is_counted = failed_to_connect || !lost_exchanges.is_empty();
        if is_counted {
            *self.connection_failures.entry(first.name().into()).or_default() += 1;
        }
        // If exchanges are assigned to the slot, the failure lengthens the back-off, even if no
        // exchange was in flight: the assigned exchanges need a new connection of this slot.
        let slot = &mut self.slots[conn as usize];
        slot.failures += u32::from(is_counted || !slot.assigned.is_empty());
        self.drop_connection(conn, driver);
        for (i, exchange) in lost_exchanges.iter().enumerate() {
            self.on_exchange_end(conn, exchange, if i == 0 { first } else { others }, now, None);
        }
        if was_unused {
            self.count_failed_try(conn, first, now);
        }
        self.retry(conn, now, driver);
    }

    /// Closes a connection that failed with `reason`. The exchanges in flight on it end as
    /// `outcome`.
    pub(super) fn give_up<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        reason: Outcome,
        outcome: Outcome,
        now: Instant,
        driver: &mut D,
    ) {
        self.connections.closed_by_us += 1;
        *self.connection_failures.entry(reason.name().into()).or_default() += 1;
        let slot = &mut self.slots[conn as usize];
        slot.conversation.end_stalls(now, &mut self.shared);
        let lost_exchanges = slot.conversation.take_exchanges();
        slot.failures += 1;
        self.drop_connection(conn, driver);
        for exchange in &lost_exchanges {
            self.on_exchange_end(conn, exchange, outcome, now, None);
        }
        self.retry(conn, now, driver);
    }

    /// Closes a connection and resets its slot.
    pub(super) fn drop_connection<D: StreamDriver>(&mut self, conn: ConnId, driver: &mut D) {
        if self.slots[conn as usize].state == ConnectionState::Up {
            self.connections_up -= 1;
            if self.stage == Stage::Measured {
                self.add_tcp_counters(conn, driver);
            }
        }
        self.slots[conn as usize].conversation.record_last_settings(&mut self.shared);
        driver.close(conn);
        // The output must not go to another connection, and a failed TLS session must not end the
        // next connection of this slot.
        self.shared.output.clear();
        self.tls_output.broken.retain(|failed| *failed != conn);
        self.slots[conn as usize].disconnect();
    }

    /// Closes a connection whose idle time has reached the limit of the server.
    #[cold]
    pub(super) fn close_idle<D: StreamDriver>(&mut self, conn: ConnId, driver: &mut D) {
        self.announce_close(conn, CloseReason::Unneeded, driver);
        self.connections.closed_by_us += 1;
        self.drop_connection(conn, driver);
    }

    /// Refills a connection after responses, or replaces it if it takes no more requests.
    pub(super) fn continue_or_replace<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        now: Instant,
        driver: &mut D,
    ) {
        let slot = &mut self.slots[conn as usize];
        slot.conversation.on_read_end();
        let (served, has_responded) = (slot.served, slot.has_responded);
        let was_unused = slot.is_unused();
        let max_requests = self.shared.config.policy.requests_per_connection;
        let has_served_all = max_requests.is_some_and(|max| served >= max);
        let is_idle = slot.state == ConnectionState::Up && slot.in_flight() == 0;
        let must_close = is_idle && (has_served_all || slot.conversation.is_draining());
        if must_close {
            self.announce_close(conn, CloseReason::Unneeded, driver);
            self.connections.closed_by_us += 1;
            self.drop_connection(conn, driver);
            if was_unused {
                self.count_failed_try(conn, Outcome::StreamRefused, now);
            }
            if !has_responded {
                // A server that ends connections before their first response is retried with
                // back-off, not in a tight loop.
                self.slots[conn as usize].failures += 1;
                return self.retry(conn, now, driver);
            }
        }
        self.refill(conn, now, driver);
        let is_down = self.slots[conn as usize].state == ConnectionState::Down;
        if must_close && has_served_all && is_down && self.has_arrivals_to_come(now) {
            // The slot reconnects now, so that the next request does not wait because of dyno's own
            // close.
            self.connect(conn, now, driver);
        }
        self.queue_output(conn, driver);
    }

    /// Reconnects a slot after a failure:
    ///
    /// - After one failure, immediately.
    /// - After consecutive failures with back-off, after a wait that doubles each time.
    /// - After consecutive failures without back-off, in the next turn. With attempts that fail
    ///   immediately, reconnecting in the same turn would keep that turn from ever ending.
    pub(super) fn retry<D: StreamDriver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let backs_off = self.shared.config.policy.backs_off;
        let slot = &mut self.slots[conn as usize];
        if slot.failures < 2 {
            return self.refill(conn, now, driver);
        }
        // More doublings could overflow. With 20, the wait already has its maximum.
        let doublings = (slot.failures - 2).min(20);
        let wait_ns = if backs_off {
            (limits::BACKOFF_MIN_NS << doublings).min(limits::BACKOFF_MAX_NS)
        } else {
            0
        };
        if !slot.is_backing_off {
            slot.is_backing_off = true;
            self.retries.push(Reverse((now.plus(wait_ns), conn)));
        }
        if self.pages.is_some() {
            // The other connections of the visitor continue.
            self.refill_page(conn, now, driver);
        }
    }
}

fn connect_outcome(error: ConnectError) -> Outcome {
    match error {
        ConnectError::Refused => Outcome::ConnectRefused,
        ConnectError::TimedOut => Outcome::ConnectTimeout,
        ConnectError::Reset => Outcome::ConnectReset,
        ConnectError::AddressExhausted => Outcome::AddressExhausted,
        ConnectError::Other(_) => Outcome::ConnectFailed,
    }
}
