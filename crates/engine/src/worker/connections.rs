//! Opening, securing, losing and reopening connections.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use dyno_archive::Protocol;
use dyno_archive::load::TcpCounters;
use dyno_archive::outcome::Outcome;
use dyno_wire::h2;

use super::{Stage, Worker};
use crate::driver::{Completion, CompletionKind, ConnId, ConnectError, Driver};
use crate::slot::{ConnectionState, ProtocolState, Upgrade};
use crate::tls::{TlsSession, reason};
use crate::{Instant, limits};

/// Kind of the peer's close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerClose {
    /// In good order: the close may end a body.
    Clean,
    /// Perhaps too early: bytes may be missing before it.
    Cut,
}

impl Worker {
    pub fn complete<D: Driver>(&mut self, completion: Completion, driver: &mut D) {
        // The completion's own instant: everything that follows from it happened then.
        let Completion { conn, at: now, .. } = completion;
        match completion.what {
            CompletionKind::Connected => self.on_connected(conn, now, driver),
            CompletionKind::ConnectFailed(error) => {
                let outcome = connect_outcome(error);
                self.fail(conn, outcome, outcome, now, driver);
            }
            CompletionKind::Received => self.on_received(conn, now, driver),
            CompletionKind::Eof if self.is_securing(conn) => {
                self.handshake_failed(conn, reason::CLOSED, now, driver);
            }
            // Without the notice that TLS ends with, the end may have been cut off (RFC 8446 §6.1).
            CompletionKind::Eof if self.slots[conn as usize].tls.is_some() => {
                self.eof(conn, PeerClose::Cut, now, driver);
            }
            CompletionKind::Eof => self.eof(conn, PeerClose::Clean, now, driver),
            CompletionKind::Reset => {
                self.connections.closed_by_server += 1;
                if self.is_securing(conn) {
                    self.handshake_failed(conn, reason::RESET, now, driver);
                } else {
                    self.fail(conn, Outcome::Reset, Outcome::Reset, now, driver);
                }
            }
        }
    }

    pub(super) fn connect<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        // The attempt begins here; what the kernel and the peer take is the connect time.
        self.slots[conn as usize].state = ConnectionState::Connecting { since: now };
        self.next_timeout_check =
            self.next_timeout_check.min(now.plus(self.config.policy.connect_timeout_ns));
        driver.connect(conn);
    }

    fn on_connected<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        self.connections.opened += 1;
        let slot = &mut self.slots[conn as usize];
        let connecting_since = match slot.state {
            ConnectionState::Connecting { since } => since,
            _ => now,
        };
        self.recorder.distributions.connect.record(now.ns_since(connecting_since));
        slot.tcp_base = TcpCounters::default();
        let Some(tls) = &self.config.tls else { return self.begin_talk(conn, None, now, driver) };
        // The handshake begins with the connection being there.
        slot.state = ConnectionState::Securing { since: now, connecting_since };
        match TlsSession::new(tls) {
            Ok(session) => slot.tls = Some(Box::new(session)),
            Err(words) => return self.handshake_failed(conn, &words, now, driver),
        }
        // An empty read makes the session say what it wants to send first.
        self.read_secured(conn, &mut [], now, driver);
    }

    /// The connection is there, and what is spoken on it is settled: by ALPN, or by what was asked.
    fn begin_talk<D: Driver>(
        &mut self,
        conn: ConnId,
        alpn: Option<&str>,
        now: Instant,
        driver: &mut D,
    ) {
        let protocol = self.config.protocol;
        if protocol == Protocol::H2c || alpn == Some("h2") {
            return self.greet(conn, now, driver);
        }
        // The server was asked for HTTP/2 and chose something else. That is always reported.
        self.frames.fallen_back += u64::from(protocol == Protocol::H2);
        self.slots[conn as usize].may_speak_h2 = protocol == Protocol::H2cUpgrade;
        if let ProtocolState::H1(h1) = &mut self.slots[conn as usize].talk {
            h1.renew(if protocol == Protocol::H2cUpgrade { Upgrade::Wanted } else { Upgrade::No });
        }
        self.on_established(conn, now, driver);
    }

    /// The connection can carry requests: those that waited for it leave now.
    pub(super) fn on_established<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        self.count_attempt();
        self.up += 1;
        let slot = &mut self.slots[conn as usize];
        slot.state = ConnectionState::Up;
        // After an upgrade the first request is on its way.
        slot.served = slot.in_flight() as u64;
        self.place_assigned(conn, now, driver);
        self.push_out(conn, driver);
        self.refill(conn, now, driver);
    }

    pub(super) fn on_secured<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let slot = &self.slots[conn as usize];
        if let ConnectionState::Securing { since, .. } = slot.state {
            self.recorder.distributions.tls_handshake.record(now.ns_since(since));
        }
        let mut alpn = None;
        if let Some(session) = &slot.tls {
            let agreed = session.parameters();
            alpn.clone_from(&agreed.alpn);
            if agreed.resumed {
                self.tls.handshakes_resumed += 1;
            } else {
                self.tls.handshakes_full += 1;
            }
            if self.tls.version.is_none() {
                self.tls.version = agreed.version;
                self.tls.cipher_suite = agreed.cipher_suite;
                self.tls.alpn = agreed.alpn;
            }
        }
        self.begin_talk(conn, alpn.as_deref(), now, driver);
    }

    fn is_securing(&self, conn: ConnId) -> bool {
        matches!(self.slots[conn as usize].state, ConnectionState::Securing { .. })
    }

    pub(super) fn handshake_failed<D: Driver>(
        &mut self,
        conn: ConnId,
        words: &str,
        now: Instant,
        driver: &mut D,
    ) {
        count_kind(&mut self.tls.errors, words, limits::PROTOCOL_ERROR_KINDS);
        self.fail(conn, Outcome::TlsError, Outcome::TlsError, now, driver);
    }

    fn count_attempt(&mut self) {
        self.untried = self.untried.saturating_sub(1);
    }

    /// Ends a connection that is of no more use. Of the exchanges in flight on it the oldest ends
    /// as `first`, the others as `rest`.
    pub(super) fn fail<D: Driver>(
        &mut self,
        conn: ConnId,
        first: Outcome,
        rest: Outcome,
        now: Instant,
        driver: &mut D,
    ) {
        let state = self.slots[conn as usize].state;
        let failed_to_connect = state.is_opening();
        if failed_to_connect {
            self.count_attempt();
        }
        if first.is_timeout() {
            self.connections.closed_by_us += 1;
        }
        self.end_stalls(conn, now);
        let slot = &mut self.slots[conn as usize];
        let was_in_vain = slot.is_unused();
        let mut lost = slot.take_in_flight();
        if failed_to_connect {
            lost.extend(slot.assigned.drain(..));
        }
        if failed_to_connect || !lost.is_empty() {
            *self.connection_failures.entry(first.name().into()).or_default() += 1;
        }
        // Assigned requests go to the next connection, but not in a tight loop.
        let slot = &mut self.slots[conn as usize];
        slot.failures +=
            u32::from(failed_to_connect || !lost.is_empty() || !slot.assigned.is_empty());
        self.drop_connection(conn, driver);
        for (i, exchange) in lost.iter().enumerate() {
            // Done: the failure had happened at the completion's instant, or is our own decision at
            // this instant.
            self.on_exchange_end(conn, exchange, if i == 0 { first } else { rest }, now, None);
        }
        if was_in_vain {
            self.count_try(conn, first, now);
        }
        self.retry(conn, now, driver);
    }

    /// Gives a connection up, which counts as failed by `why`. The exchanges in flight on it end as
    /// `rest`.
    pub(super) fn give_up<D: Driver>(
        &mut self,
        conn: ConnId,
        why: Outcome,
        rest: Outcome,
        now: Instant,
        driver: &mut D,
    ) {
        self.connections.closed_by_us += 1;
        *self.connection_failures.entry(why.name().into()).or_default() += 1;
        self.end_stalls(conn, now);
        let slot = &mut self.slots[conn as usize];
        let lost = slot.take_in_flight();
        slot.failures += 1;
        self.drop_connection(conn, driver);
        for exchange in &lost {
            // Done: our own decision at this instant.
            self.on_exchange_end(conn, exchange, rest, now, None);
        }
        self.retry(conn, now, driver);
    }

    pub(super) fn drop_connection<D: Driver>(&mut self, conn: ConnId, driver: &mut D) {
        if self.slots[conn as usize].state == ConnectionState::Up {
            self.up -= 1;
            if self.stage == Stage::Measured {
                self.add_tcp(conn, driver);
            }
        }
        driver.close(conn);
        // Queued bytes of this connection must not go to another one, and its broken session must
        // not count against the next one.
        self.out.clear();
        self.broken.retain(|broken| *broken != conn);
        self.slots[conn as usize].disconnect();
    }

    /// Continues with a connection after responses, or replaces it if it has served its share.
    pub(super) fn continue_or_replace<D: Driver>(
        &mut self,
        conn: ConnId,
        now: Instant,
        driver: &mut D,
    ) {
        self.see_room(conn);
        let slot = &self.slots[conn as usize];
        let (served, answered) = (slot.served, slot.answered);
        let was_in_vain = slot.is_unused();
        let most = self.config.policy.requests_per_connection;
        let has_served_all = most.is_some_and(|most| served >= most);
        let is_over = slot.state == ConnectionState::Up && slot.in_flight() == 0;
        let is_closed = is_over && (has_served_all || slot.is_draining());
        if is_closed {
            self.say_go_away(conn, h2::ErrorCode::NoError, driver);
            self.connections.closed_by_us += 1;
            self.drop_connection(conn, driver);
            if was_in_vain {
                self.count_try(conn, Outcome::StreamRefused, now);
            }
            if !answered {
                // A server that sends connections away before their first response is not asked in
                // an endless hurry.
                self.slots[conn as usize].failures += 1;
                return self.retry(conn, now, driver);
            }
        }
        self.refill(conn, now, driver);
        let is_down = self.slots[conn as usize].state == ConnectionState::Down;
        if is_closed && has_served_all && is_down && self.has_arrivals_to_come(now) {
            // Our own close is no reason for the next request to wait for a connection.
            self.connect(conn, now, driver);
        }
        self.push_out(conn, driver);
    }

    /// Uses the slot again: at once after its first failure, and after a longer wait with each
    /// further one. Where failures are what is asked for it waits for the next turn alone, so that
    /// a driver which fails at once does not make this one endless.
    pub(super) fn retry<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let backs_off = self.config.policy.backs_off;
        let slot = &mut self.slots[conn as usize];
        if slot.failures < 2 {
            return self.refill(conn, now, driver);
        }
        let doublings = (slot.failures - 2).min(20);
        let wait = if backs_off {
            (limits::BACKOFF_MIN_NS << doublings).min(limits::BACKOFF_MAX_NS)
        } else {
            0
        };
        if !slot.backing_off {
            slot.backing_off = true;
            self.retries.push(Reverse((now.plus(wait), conn)));
        }
        if self.pages.is_some() {
            // The visitor's other connections go on.
            self.refill_page(conn, now, driver);
        }
    }
}

/// Counts a kind of failure by name, and as `other` if there are too many names already.
pub(super) fn count_kind(kinds: &mut BTreeMap<String, u64>, name: &str, most: usize) {
    if let Some(n) = kinds.get_mut(name) {
        *n += 1;
    } else {
        let name = if kinds.len() < most { name } else { "other" };
        *kinds.entry(name.into()).or_default() += 1;
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
