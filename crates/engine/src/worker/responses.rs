//! Reads responses and ends their exchanges.
//!
//! While a read is handled, `now` is the instant of its completion. All bytes that were read had
//! arrived by then. `received_at` is the kernel's timestamp of the last byte, if known.

use dyno_model::outcome::Outcome;

use super::Worker;
use crate::conversation::{
    CloseReason, Conversation as _, EndedExchange, Event, PeerClose, WireError,
};
use crate::driver::{ConnId, StreamDriver};
use crate::exchange::Exchange;
use crate::expect::Omitted;
use crate::kinds::count_kind;
use crate::slot::ConnectionState;
use crate::tls::{Broken, TlsProgress};
use crate::{Instant, limits};

/// State of a connection after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionAfterRead {
    Open,
    /// The server announced the close of the connection with its last response.
    ServerEnds,
    /// Bytes arrived that belong to no request.
    Unsolicited,
}

/// Whether bytes begin like a TLS record: with its type, and 3 as the major version (RFC 8446
/// §5.1). No HTTP/1.1 message and no SETTINGS frame has such a beginning.
fn is_tls_record(bytes: &[u8]) -> bool {
    matches!(bytes, [20..=23, 3, ..])
}

impl Worker {
    /// Reads the bytes that the driver has received on a connection.
    #[inline]
    pub(super) fn on_received<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        now: Instant,
        driver: &mut D,
    ) {
        assert!(
            self.shared.output.is_empty(),
            "output of one connection must not be sent on another"
        );
        let received_at = driver.received_at();
        self.shared.recorder.current().bytes_received += driver.received_bytes().len() as u64;
        self.slots[conn as usize].conversation.count_receive(&mut self.shared);
        self.update_sent_bytes(conn, driver);
        let bytes = driver.received_bytes();
        if self.slots[conn as usize].tls.is_none() {
            let is_before_response = !self.slots[conn as usize].has_responded;
            let read = if is_before_response
                && is_tls_record(bytes)
                && self.slots[conn as usize].conversation.is_between_messages()
            {
                Err(WireError::TlsRecord)
            } else {
                self.read(conn, now, received_at, bytes)
            };
            return self.after_read(conn, read, now, driver);
        }
        // The bytes are copied, because the session decrypts in place while the driver sends the
        // session's records.
        let mut bytes = std::mem::take(&mut self.received);
        bytes.clear();
        bytes.extend_from_slice(driver.received_bytes());
        self.read_tls(conn, &mut bytes, now, driver);
        self.received = bytes;
    }

    /// Decrypts and reads received bytes, and sends the records that the TLS session itself needs.
    pub(super) fn read_tls<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        bytes: &mut [u8],
        now: Instant,
        driver: &mut D,
    ) {
        let received_at = driver.received_at();
        let Some(mut session) = self.slots[conn as usize].tls.take() else { return };
        let mut read = Ok(ConnectionAfterRead::Open);
        let was_secured = session.is_secured();
        // Data in the same read as the end of the handshake. It is parsed only after the handshake
        // has chosen the protocol.
        let mut early = Vec::new();
        let progress = session.read(bytes, &mut |plain| {
            if !was_secured {
                early.extend_from_slice(plain);
                return Ok(());
            }
            self.shared.http2.tls_records += 1;
            read = self.read(conn, now, received_at, plain);
            if read == Ok(ConnectionAfterRead::Open) { Ok(()) } else { Err(()) }
        });
        let out = session.pending();
        if !out.is_empty() {
            driver.send(conn, out);
            session.clear_pending();
        }
        self.slots[conn as usize].tls = Some(session);
        match progress {
            Ok(TlsProgress::Handshaking) => {}
            Ok(TlsProgress::Secured) => {
                self.on_secured(conn, now, driver);
                if !early.is_empty() {
                    let read = self.read(conn, now, received_at, &early);
                    self.after_read(conn, read, now, driver);
                }
            }
            Ok(TlsProgress::Closed) => {
                if !was_secured && self.is_tls_secured(conn) {
                    self.record_handshake(conn, now);
                }
                // Responses before the close notice may have let new requests into `output`.
                self.queue_output(conn, driver);
                self.on_eof(conn, PeerClose::Clean, now, driver);
            }
            Ok(TlsProgress::Open) | Err(Broken::Consumer(())) => {
                self.after_read(conn, read, now, driver);
            }
            Err(Broken::Tls(reason)) => {
                self.shared.output.clear();
                // The alert must leave before the connection is closed.
                driver.flush(&mut |conn, at| self.on_handed_over(conn, at));
                self.connections.closed_by_us += 1;
                self.fail_tls(conn, &reason, now, driver);
            }
        }
    }

    /// Handles the state of a connection after a read.
    fn after_read<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        read: Result<ConnectionAfterRead, WireError>,
        now: Instant,
        driver: &mut D,
    ) {
        let read = match read {
            Ok(ConnectionAfterRead::Open) if self.needs_reply_check(conn) => {
                self.check_replies(conn, driver).map(|()| ConnectionAfterRead::Open)
            }
            read => read,
        };
        match read {
            Ok(ConnectionAfterRead::Open) => {
                if self.shared.continues.is_some() {
                    self.send_requested_body(conn, driver);
                }
                self.establish_if_ready(conn, now, driver);
                self.continue_or_replace(conn, now, driver);
            }
            Ok(ConnectionAfterRead::ServerEnds) => {
                self.connections.closed_by_server += 1;
                self.requeue_unsent(conn);
                self.requeue_unanswered(conn);
                self.fail(conn, Outcome::ClosedEarly, Outcome::ClosedEarly, now, driver);
            }
            Ok(ConnectionAfterRead::Unsolicited) => {
                self.count_unsolicited(conn);
                self.shared.count_protocol_error(&"bytes that belong to no request");
                self.connections.closed_by_us += 1;
                self.fail(conn, Outcome::ProtocolError, Outcome::Cancelled, now, driver);
            }
            Err(error) => {
                self.shared.count_protocol_error(&error);
                if error.is_unsolicited() {
                    self.count_unsolicited(conn);
                }
                self.announce_close(conn, CloseReason::Violation(&error), driver);
                self.connections.closed_by_us += 1;
                self.fail(conn, Outcome::ProtocolError, Outcome::Cancelled, now, driver);
            }
        }
    }

    /// Parses all of `bytes`, and ends exchanges whose responses are complete.
    #[inline]
    fn read(
        &mut self,
        conn: ConnId,
        now: Instant,
        received_at: Option<Instant>,
        mut bytes: &[u8],
    ) -> Result<ConnectionAfterRead, WireError> {
        let received = bytes.len();
        loop {
            let conversation = &mut self.slots[conn as usize].conversation;
            match conversation.poll(&mut bytes, now, &mut self.shared)? {
                Event::NeedMore => return Ok(ConnectionAfterRead::Open),
                Event::Done(ended) => {
                    let is_last = ended.is_last;
                    if is_last && self.is_crossed_by_close_notice(conn, &ended, now) {
                        if bytes.is_empty() {
                            // The requests behind it stay behind it.
                            self.requeue_unsent(conn);
                            self.requeue_unanswered(conn);
                        }
                        self.repeat(conn, ended.exchange);
                    } else {
                        self.end_exchange(conn, ended, now, received_at);
                    }
                    match (is_last, bytes.is_empty()) {
                        (false, false) => {}
                        (false, true) => return Ok(ConnectionAfterRead::Open),
                        (true, true) => return Ok(ConnectionAfterRead::ServerEnds),
                        (true, false) => return Ok(ConnectionAfterRead::Unsolicited),
                    }
                }
                Event::Failed(exchange, outcome) => {
                    self.on_exchange_end(conn, &exchange, outcome, now, None);
                }
                Event::Refused(exchanges) => {
                    for exchange in exchanges {
                        self.retry_exchange(conn, exchange, now);
                    }
                }
                Event::Upgraded(exchange) => self.on_upgraded(conn, exchange, now),
                Event::Deadline(at) => self.timers.add(conn, at),
                Event::Unsolicited => {
                    // A notice counts only if no response was read together with it.
                    let is_notice = bytes.len() == received && conversation.is_close_notice(bytes);
                    return Ok(if is_notice {
                        ConnectionAfterRead::ServerEnds
                    } else {
                        ConnectionAfterRead::Unsolicited
                    });
                }
            }
        }
    }

    #[inline]
    fn needs_reply_check(&self, conn: ConnId) -> bool {
        self.slots[conn as usize].conversation.needs_reply_check(self.woke)
    }

    /// Fails if the server causes replies, for example with control frames, and does not read them.
    fn check_replies<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        driver: &D,
    ) -> Result<(), WireError> {
        let queued = driver.queued_bytes(conn);
        self.slots[conn as usize].conversation.check_replies(queued, self.woke)
    }

    /// Continues a connection in the protocol to which the server has switched. The connection is
    /// treated as opening until the new conversation is ready.
    fn on_upgraded(&mut self, conn: ConnId, exchange: Exchange, now: Instant) {
        let slot = &mut self.slots[conn as usize];
        slot.conversation.upgrade(exchange, now, &mut self.shared);
        slot.state = ConnectionState::Greeting { connecting_since: now };
        self.connections_up -= 1;
        self.timers.add(conn, now.plus(self.shared.config.policy.connect_timeout_ns));
    }

    /// Establishes a connection whose conversation has become ready.
    fn establish_if_ready<D: StreamDriver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let slot = &self.slots[conn as usize];
        if matches!(slot.state, ConnectionState::Greeting { .. }) && slot.conversation.is_ready() {
            slot.conversation.count_established(&mut self.shared);
            self.on_established(conn, now, driver);
        }
    }

    /// Ends an exchange whose response is complete.
    #[inline(always)]
    fn end_exchange(
        &mut self,
        conn: ConnId,
        ended: EndedExchange,
        now: Instant,
        received_at: Option<Instant>,
    ) {
        let slot = &mut self.slots[conn as usize];
        slot.failures = 0;
        slot.has_responded = true;
        slot.last_response = now;
        let EndedExchange { ref exchange, verdict, unsent_bytes, .. } = ended;
        if unsent_bytes > 0 {
            self.shared.count_early_response(unsent_bytes, verdict.status);
        }
        let verdict = match &mut self.shared.visits {
            None => verdict,
            Some(visits) => visits.extract(exchange, verdict),
        };
        self.shared.recorder.count_status(exchange, verdict.status);
        let is_checked = exchange.is_checked_in_full && !verdict.omitted.is_unchecked;
        self.shared.recorder.current().checked += u64::from(is_checked);
        if verdict.omitted != Omitted::default() {
            self.shared.count_unstored_body(verdict.omitted);
        }
        if verdict.outcome == Outcome::UnexpectedStatus
            && let Some(reason) = self.shared.cookies.reason(verdict.status)
        {
            count_kind(&mut self.unexpected, reason, limits::UNEXPECTED_KINDS);
        }
        if let Some(fault) = verdict.fault {
            count_kind(&mut self.unexpected, &fault, limits::UNEXPECTED_KINDS);
        }
        self.on_exchange_end(conn, exchange, verdict.outcome, now, received_at);
    }

    /// Records the end of an exchange with any outcome.
    #[inline]
    pub(super) fn on_exchange_end(
        &mut self,
        conn: ConnId,
        exchange: &Exchange,
        outcome: Outcome,
        now: Instant,
        received_at: Option<Instant>,
    ) {
        self.shared.recorder.record_end(exchange, outcome, now, received_at);
        if let Some(pages) = &mut self.pages {
            pages.record_end(conn, exchange, outcome);
        }
        if let Some(visits) = &mut self.shared.visits
            && visits.record_end(exchange, outcome, now, &mut self.shared.recorder).is_break()
        {
            // No further request starts.
            self.shared.config.total = Some(self.started);
        }
    }

    /// Handles a close by the peer.
    pub(super) fn on_eof<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        close: PeerClose,
        now: Instant,
        driver: &mut D,
    ) {
        self.connections.closed_by_server += 1;
        self.update_sent_bytes(conn, driver);
        match self.slots[conn as usize].conversation.on_eof(close, &mut self.shared) {
            Ok(None) => {}
            Ok(Some(ended)) => {
                self.end_exchange(conn, ended, now, driver.received_at());
                self.requeue_unsent(conn);
                self.requeue_unanswered(conn);
            }
            Err(error) => self.shared.count_protocol_error(&error),
        }
        self.requeue_crossed(conn, now);
        self.fail(conn, Outcome::ClosedEarly, Outcome::ClosedEarly, now, driver);
    }

    /// Assigns requests that had not left when their connection ended to the next connection. Does
    /// nothing if the connection brought no response: if every connection ended without a response,
    /// dyno would reassign the same requests forever.
    fn requeue_unsent(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn as usize];
        if slot.has_responded {
            slot.conversation.requeue_unsent(&mut slot.assigned);
        }
    }

    /// Assigns idempotent requests that were sent on an ended connection, but got no response, to
    /// the next connection (RFC 9112 §9.3.2). `requeue_unsent` must have taken the requests that
    /// had not left.
    ///
    /// Only for orderly ends: the last response announced the close, the close ended the body of
    /// the last response, or the connection was idle. Each such connection has brought a response,
    /// so dyno does not reassign the same requests forever. The requests keep their intended
    /// starts.
    fn requeue_unanswered(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn as usize];
        self.connections.asked_again +=
            slot.conversation.requeue_unanswered(&mut slot.assigned, &self.shared);
    }

    /// Assigns the idempotent requests in flight to the next connection if the end of this one may
    /// have crossed them, because it had been idle. Each request is repeated once, as in browsers.
    ///
    /// Requests that had not left are assigned to the next connection in any case.
    pub(super) fn requeue_crossed(&mut self, conn: ConnId, now: Instant) {
        self.requeue_unsent(conn);
        let slot = &self.slots[conn as usize];
        let is_crossed = |oldest: &Exchange| {
            oldest.first_byte == Instant::NEVER && slot.may_have_crossed_close(oldest, now)
        };
        if slot.conversation.exchanges().next().is_some_and(is_crossed) {
            let earlier = self.connections.asked_again;
            self.requeue_unanswered(conn);
            self.connections.asked_again_idle += self.connections.asked_again - earlier;
        }
    }

    /// Whether a response is the notice with which a server closes an idle connection (status 408,
    /// RFC 9110 §15.5.9), and crossed an idempotent request.
    #[cold]
    fn is_crossed_by_close_notice(
        &self,
        conn: ConnId,
        ended: &EndedExchange,
        now: Instant,
    ) -> bool {
        ended.verdict.status == 408
            && ended.verdict.outcome == Outcome::UnexpectedStatus
            && self.shared.config.traffic.is_idempotent(ended.exchange.request)
            && self.slots[conn as usize].may_have_crossed_close(&ended.exchange, now)
    }

    /// Assigns a request to the next connection of its slot.
    fn repeat(&mut self, conn: ConnId, exchange: Exchange) {
        self.connections.asked_again += 1;
        self.connections.asked_again_idle += 1;
        self.slots[conn as usize].assigned.push_front(exchange.to_unsent());
    }

    /// Retries a request that the server has reported as not processed (RFC 9113 §8.7). The request
    /// keeps its intended start, so its response time includes the detour.
    fn retry_exchange(&mut self, conn: ConnId, mut exchange: Exchange, now: Instant) {
        if exchange.retries >= limits::RETRIES {
            return self.on_exchange_end(conn, &exchange, Outcome::StreamRefused, now, None);
        }
        exchange.retries += 1;
        self.shared.http2.retried += 1;
        self.slots[conn as usize].assigned.push_front(exchange.to_unsent());
    }

    /// Counts a failed try for each exchange that was assigned to a connection, when the connection
    /// was closed before it took a request. Exchanges without further tries end as `outcome`.
    pub(super) fn count_failed_try(&mut self, conn: ConnId, outcome: Outcome, now: Instant) {
        for mut exchange in std::mem::take(&mut self.slots[conn as usize].assigned) {
            if exchange.retries >= limits::RETRIES {
                self.on_exchange_end(conn, &exchange, outcome, now, None);
            } else {
                exchange.retries += 1;
                self.slots[conn as usize].assigned.push_back(exchange);
            }
        }
    }
}
