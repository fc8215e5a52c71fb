//! Reads responses and ends their exchanges. Works on HTTP/1.1 and TLS itself, and passes HTTP/2
//! frames to `streams`.
//!
//! While a read is handled, `now` is the instant of its completion. All bytes that were read had
//! arrived by then. `received_at` is the kernel's timestamp of the last byte, if known.

use dyno_archive::outcome::Outcome;
use dyno_wire::h1;
use dyno_wire::h1::response::{Closed, End, ResponseEvent};
use dyno_wire::h2;

use super::Worker;
use super::connections::{PeerClose, count_kind};
use super::unsolicited::is_idle_notice;
use super::visits;
use crate::driver::{ConnId, Driver};
use crate::expect::ResponseVerdict;
use crate::slot::{Exchange, ProtocolState};
use crate::tls::{Broken, TlsProgress};
use crate::traffic::CompiledRequest;
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

impl ConnectionAfterRead {
    /// Classifies bytes that arrive without a request in flight. `is_alone`: no response was read
    /// together with them. Before a server closes an idle connection, it can send a 408 response as
    /// a notice (RFC 9110 §15.5.9).
    fn from_unsolicited(bytes: &[u8], is_alone: bool) -> ConnectionAfterRead {
        if is_alone && is_idle_notice(bytes) {
            ConnectionAfterRead::ServerEnds
        } else {
            ConnectionAfterRead::Unsolicited
        }
    }

    /// Classifies the bytes after the last response of a connection.
    #[inline]
    const fn from_trailing(bytes: &[u8]) -> ConnectionAfterRead {
        if bytes.is_empty() {
            ConnectionAfterRead::ServerEnds
        } else {
            ConnectionAfterRead::Unsolicited
        }
    }
}

/// A protocol violation by the peer, in HTTP/1.1 or HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    #[error(transparent)]
    H1(#[from] h1::Http1Error),
    #[error(transparent)]
    H2(#[from] h2::Http2Error),
    #[error("the server sent a TLS record, so this port uses TLS (use https://)")]
    TlsRecord,
    #[error("the server switched protocols (101), as requested, but dyno speaks only HTTP")]
    SwitchedAsRequested,
}

impl WireError {
    fn from_http1(error: h1::Http1Error, wants_upgrade: impl FnOnce() -> bool) -> WireError {
        match error {
            h1::Http1Error::UnexpectedUpgrade if wants_upgrade() => WireError::SwitchedAsRequested,
            error => error.into(),
        }
    }
}

/// Whether bytes begin like a TLS record: with its type, and 3 as the major version (RFC 8446
/// §5.1). No HTTP/1.1 message and no SETTINGS frame has such a beginning.
fn is_tls_record(bytes: &[u8]) -> bool {
    matches!(bytes, [20..=23, 3, ..])
}

impl Worker {
    /// Reads the bytes that the driver has received on a connection.
    #[inline]
    pub(super) fn on_received<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        assert!(self.output.is_empty(), "output of one connection must not be sent on another");
        let received_at = driver.received_at();
        self.recorder.current().bytes_received += driver.received_bytes().len() as u64;
        self.frames.receives +=
            u64::from(matches!(self.slots[conn as usize].protocol, ProtocolState::H2(_)));
        self.update_sent_bytes(conn, driver);
        let bytes = driver.received_bytes();
        if self.slots[conn as usize].tls.is_none() {
            let is_before_response = !self.slots[conn as usize].has_responded;
            let read = if is_before_response
                && is_tls_record(bytes)
                && self.slots[conn as usize].is_between_messages()
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
    pub(super) fn read_tls<D: Driver>(
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
            self.frames.tls_records += 1;
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
                self.output.clear();
                // The alert must leave before the connection is closed.
                driver.flush(&mut |conn, at| self.on_handed_over(conn, at));
                self.connections.closed_by_us += 1;
                self.fail_tls(conn, &reason, now, driver);
            }
        }
    }

    /// Handles the state of a connection after a read.
    fn after_read<D: Driver>(
        &mut self,
        conn: ConnId,
        read: Result<ConnectionAfterRead, WireError>,
        now: Instant,
        driver: &mut D,
    ) {
        let read = match read {
            Ok(ConnectionAfterRead::Open) if self.is_flooded(conn, driver) => {
                Err(h2::Http2Error::Flood.into())
            }
            read => read,
        };
        match read {
            Ok(ConnectionAfterRead::Open) => {
                if self.continues.is_some() {
                    self.send_requested_body(conn, driver);
                }
                self.continue_after_responses(conn, now, driver);
            }
            Ok(ConnectionAfterRead::ServerEnds) => {
                self.connections.closed_by_server += 1;
                self.requeue_unsent(conn);
                self.requeue_lost(conn);
                self.fail(conn, Outcome::ClosedEarly, Outcome::ClosedEarly, now, driver);
            }
            Ok(ConnectionAfterRead::Unsolicited) => {
                self.count_unsolicited(conn);
                self.count_protocol_error(&"bytes that belong to no request");
                self.connections.closed_by_us += 1;
                self.fail(conn, Outcome::ProtocolError, Outcome::Cancelled, now, driver);
            }
            Err(error) => {
                self.count_protocol_error(&error);
                if let WireError::H2(error) = error {
                    if matches!(error, h2::Http2Error::IdleStream | h2::Http2Error::StreamClosed) {
                        self.count_unsolicited(conn);
                    }
                    self.send_go_away(conn, error.code(), driver);
                }
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
        bytes: &[u8],
    ) -> Result<ConnectionAfterRead, WireError> {
        match self.slots[conn as usize].protocol {
            ProtocolState::H1(_) => self.read_messages(conn, now, received_at, bytes),
            ProtocolState::H2(_) => {
                let before = self.frames.counts.reply_bytes;
                let read = self.read_streams(conn, now, received_at, bytes);
                let replies = self.frames.counts.reply_bytes - before;
                if let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol {
                    h2.replies.add(replies);
                }
                read
            }
        }
    }

    /// Whether the server floods the connection with control frames and does not read the replies.
    fn is_flooded<D: Driver>(&mut self, conn: ConnId, driver: &D) -> bool {
        let turn = self.woke;
        match &mut self.slots[conn as usize].protocol {
            ProtocolState::H2(h2) if h2.replies.needs_check(turn) => {
                h2.replies.check_stuck(driver.queued_bytes(conn), turn)
            }
            _ => false,
        }
    }

    /// Parses HTTP/1.1.
    fn read_messages(
        &mut self,
        conn: ConnId,
        now: Instant,
        received_at: Option<Instant>,
        mut bytes: &[u8],
    ) -> Result<ConnectionAfterRead, WireError> {
        let received = bytes.len();
        loop {
            let slot = &mut self.slots[conn as usize];
            let ProtocolState::H1(h1) = &mut slot.protocol else {
                return Ok(ConnectionAfterRead::Open);
            };
            if bytes.is_empty() && h1.reader.is_between_messages() {
                return Ok(ConnectionAfterRead::Open);
            }
            let Some(exchange) = h1.in_flight.front_mut() else {
                let is_alone = bytes.len() == received && h1.reader.is_between_messages();
                return Ok(ConnectionAfterRead::from_unsolicited(bytes, is_alone));
            };
            if exchange.sent == Instant::NEVER {
                // A response to an unsent request is unsolicited.
                return Ok(ConnectionAfterRead::Unsolicited);
            }
            if exchange.first_byte == Instant::NEVER {
                exchange.first_byte = now;
            }
            let traffic = &self.config.traffic;
            let CompiledRequest { kind, expect, .. } = traffic.request(exchange.request);
            let kind = h1.upgrade.kind(*kind);
            let requested = || self.config.traffic.requests_upgrade(exchange.request);
            let read = h1.reader.next_with_cache(bytes, kind, &mut self.head_cache);
            let (used, event) = read.map_err(|error| WireError::from_http1(error, requested))?;
            bytes = &bytes[used..];
            match event {
                ResponseEvent::NeedMore => return Ok(ConnectionAfterRead::Open),
                ResponseEvent::Informational(head) => {
                    let status = head.status;
                    self.on_interim(conn, status, now);
                }
                ResponseEvent::Upgraded(_) => {
                    self.on_upgraded(conn, now);
                    return self.read_upgraded(conn, now, received_at, bytes);
                }
                ResponseEvent::Head(head) => {
                    if h1.upgrade.decline() {
                        self.frames.declined += 1;
                        slot.may_speak_h2 = false;
                    }
                    let (status, fields) = (head.status, || head.fields());
                    h1.response.on_head(status, fields, expect, exchange.is_checked_in_full);
                    self.cookies.search(fields);
                    visits::on_head(&mut self.visits, exchange, now, fields);
                    self.drop_held_body(conn, status);
                }
                ResponseEvent::Body(data) => {
                    self.recorder.current().body_received += data.len() as u64;
                    h1.response.on_body(data, expect);
                    visits::on_body(&mut self.visits, exchange, data);
                }
                ResponseEvent::End(end) => {
                    self.end_message(conn, now, received_at);
                    if end == End::Final {
                        return Ok(ConnectionAfterRead::from_trailing(bytes));
                    }
                }
            }
        }
    }

    /// Parses bytes after the 101 response with which the server switched to HTTP/2.
    #[cold]
    fn read_upgraded(
        &mut self,
        conn: ConnId,
        now: Instant,
        received_at: Option<Instant>,
        bytes: &[u8],
    ) -> Result<ConnectionAfterRead, WireError> {
        if bytes.is_empty() {
            Ok(ConnectionAfterRead::Open)
        } else {
            self.read(conn, now, received_at, bytes)
        }
    }

    /// Ends the oldest exchange of an HTTP/1.1 connection, whose response is complete.
    #[inline]
    fn end_message(&mut self, conn: ConnId, now: Instant, received_at: Option<Instant>) {
        let slot = &mut self.slots[conn as usize];
        slot.failures = 0;
        slot.has_responded = true;
        let ProtocolState::H1(h1) = &mut slot.protocol else { return };
        let Some(exchange) = h1.in_flight.pop_front() else { return };
        let verdict = h1.response.check(&self.config.traffic.request(exchange.request).expect);
        if exchange.end_offset > self.current_sent_bytes {
            self.count_early_response(
                exchange.end_offset - self.current_sent_bytes,
                verdict.status,
            );
        }
        self.end_exchange(conn, &exchange, verdict, now, received_at);
    }

    /// Ends an exchange whose response is complete.
    #[inline]
    pub(super) fn end_exchange(
        &mut self,
        conn: ConnId,
        exchange: &Exchange,
        verdict: ResponseVerdict,
        now: Instant,
        received_at: Option<Instant>,
    ) {
        let verdict = match &mut self.visits {
            None => verdict,
            Some(visits) => visits.extract(exchange, verdict),
        };
        self.recorder.count_status(exchange, verdict.status);
        self.recorder.current().checked += u64::from(exchange.is_checked_in_full);
        if verdict.outcome == Outcome::UnexpectedStatus
            && let Some(reason) = self.cookies.reason(verdict.status)
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
        self.recorder.record_end(exchange, outcome, now, received_at);
        if let Some(pages) = &mut self.pages {
            pages.record_end(conn, exchange, outcome);
        }
        if let Some(visits) = &mut self.visits
            && visits.record_end(exchange, outcome, now, &mut self.recorder).is_break()
        {
            // No further request starts.
            self.config.total = Some(self.started);
        }
    }

    /// Continues after responses were read.
    fn continue_after_responses<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        self.establish_if_ready(conn, now, driver);
        self.continue_or_replace(conn, now, driver);
    }

    /// Handles a close by the peer.
    pub(super) fn on_eof<D: Driver>(
        &mut self,
        conn: ConnId,
        close: PeerClose,
        now: Instant,
        driver: &mut D,
    ) {
        self.connections.closed_by_server += 1;
        self.update_sent_bytes(conn, driver);
        if let ProtocolState::H1(h1) = &mut self.slots[conn as usize].protocol {
            match h1.reader.eof() {
                Ok(Closed::BetweenMessages) => {}
                // The body may be incomplete, so its exchange fails below.
                Ok(Closed::EndsMessage) if close == PeerClose::Truncated => {}
                Ok(Closed::EndsMessage) => {
                    self.end_message(conn, now, driver.received_at());
                    self.requeue_unsent(conn);
                    self.requeue_lost(conn);
                }
                Err(error) => self.count_protocol_error(&error),
            }
        }
        self.requeue_unsent(conn);
        self.fail(conn, Outcome::ClosedEarly, Outcome::ClosedEarly, now, driver);
    }

    /// Assigns requests that had not left when their connection ended to the next connection. Does
    /// nothing if the connection brought no response: if every connection ended without a response,
    /// dyno would reassign the same requests forever.
    fn requeue_unsent(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H1(h1) = &mut slot.protocol else { return };
        if !slot.has_responded {
            return;
        }
        for _ in 0..std::mem::take(&mut h1.unsent) {
            // Each exchange goes to the front, the oldest last, so that their order is preserved.
            let Some(exchange) = h1.in_flight.pop_back() else { return };
            slot.assigned.push_front(exchange.to_unsent());
        }
    }

    /// Assigns idempotent requests that were sent on an ended connection, but got no response, to
    /// the next connection (RFC 9112 §9.3.2). `requeue_unsent` must have taken the requests that
    /// had not left.
    ///
    /// Only for orderly ends: the last response announced the close, or the close ended the body of
    /// the last response. Each such connection has brought a response, so dyno does not reassign
    /// the same requests forever. The requests keep their intended starts.
    fn requeue_lost(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H1(h1) = &mut slot.protocol else { return };
        for _ in 0..h1.in_flight.len() {
            // Each exchange goes to the front of its list, the oldest last, so that their order is
            // preserved.
            let Some(exchange) = h1.in_flight.pop_back() else { return };
            if self.config.traffic.is_idempotent(exchange.request) {
                self.connections.asked_again += 1;
                slot.assigned.push_front(exchange.to_unsent());
            } else {
                h1.in_flight.push_front(exchange);
            }
        }
    }

    /// Counts a protocol error by its message.
    pub(super) fn count_protocol_error(&mut self, error: &dyn std::fmt::Display) {
        count_kind(&mut self.protocol_errors, &error.to_string(), limits::PROTOCOL_ERROR_KINDS);
    }
}
