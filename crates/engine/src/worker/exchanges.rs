//! Sends requests and reads responses. Works on HTTP/1.1 and TLS itself, and passes HTTP/2 frames
//! to `streams`.

use dyno_archive::outcome::Outcome;
use dyno_wire::h1;
use dyno_wire::h1::response::{Closed, End, ResponseEvent};
use dyno_wire::h2;

use super::Worker;
use super::connections::{PeerClose, count_kind};
use super::continues;
use super::unsolicited::is_idle_notice;
use crate::driver::{ConnId, Driver};
use crate::expect::ResponseVerdict;
use crate::slot::{ConnectionState, Exchange, HeldBody, ProtocolState, Upgrade};
use crate::tls::{Broken, TlsProgress};
use crate::{Instant, limits};

/// State of a connection after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionAfterRead {
    Open,
    /// The server announced the close of the connection with its last response.
    ServerEnds,
    /// Bytes arrived that answer no request.
    Unsolicited,
}

impl ConnectionAfterRead {
    /// Classifies bytes that arrive without a request in flight. `is_alone`: no response was read
    /// together with them. A server that closes an idle connection may send a notice (RFC 9110
    /// §15.5.9).
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
    #[error("the server sends a TLS record: that port speaks TLS (use https://)")]
    TlsRecord,
    #[error("the server switched protocols (101), as requested, and dyno speaks only HTTP")]
    SwitchedAsRequested,
}

impl WireError {
    fn from_http1(
        error: h1::Http1Error,
        has_requested_upgrade: impl FnOnce() -> bool,
    ) -> WireError {
        match error {
            h1::Http1Error::UnexpectedUpgrade if has_requested_upgrade() => {
                WireError::SwitchedAsRequested
            }
            error => error.into(),
        }
    }
}

/// Whether bytes begin like a TLS record: its type, and 3 as the major version (RFC 8446 §5.1). No
/// HTTP/1.1 message and no SETTINGS frame begins like that.
fn is_tls_record(bytes: &[u8]) -> bool {
    matches!(bytes, [20..=23, 3, ..])
}

// Requests.
impl Worker {
    /// Records the hand-over of queued requests to the kernel at `at`, which the driver read just
    /// before.
    #[inline]
    pub fn on_handed_over(&mut self, conn: ConnId, at: Instant) {
        let slot = &mut self.slots[conn as usize];
        if !slot.has_unsent() {
            return;
        }
        let is_open_loop = !self.config.schedule.is_closed();
        let recorder = &mut self.recorder;
        slot.stamp_hand_over(at, |exchange| {
            if is_open_loop {
                recorder.record_hand_over(exchange);
            }
        });
        self.last_hand_over = at;
    }

    /// Fills the free capacity of a slot: with its assigned exchanges, then with waiting arrivals
    /// or, in a closed loop, with new exchanges.
    pub(super) fn refill<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        if self.stage == super::Stage::Opening
            || now < self.began
            || self.is_pipeline_over_half_full(conn)
        {
            return;
        }
        if self.pages.is_some() {
            return self.refill_page(conn, now, driver);
        }
        self.send_assigned(conn, now, driver);
        while self.has_room(conn) {
            if let Some(intended) = self.waiting.pop_front() {
                self.assign_next(conn, intended, now, driver);
            } else if self.takes_next_request(now) {
                // In a closed loop the intended start is the instant at which the slot became free.
                self.started += 1;
                self.recorder.record_scheduled(now);
                self.recorder.record_start(now, now);
                self.assign_next(conn, now, now, driver);
            } else {
                break;
            }
        }
        self.queue_output(conn, driver);
        self.list_if_idle(conn);
    }

    /// Whether a pipeline of a closed loop is more than half full. It is refilled only when half of
    /// it is free: refilling each place at once would put each request into a segment of its own
    /// (docs/internals/timing.md).
    fn is_pipeline_over_half_full(&self, conn: ConnId) -> bool {
        let ProtocolState::H1(h1) = &self.slots[conn as usize].protocol else { return false };
        self.config.schedule.is_closed() && h1.in_flight.len() > self.config.pipeline as usize / 2
    }

    /// Whether a free slot of a closed loop takes another request.
    pub(super) fn takes_next_request(&self, now: Instant) -> bool {
        let is_in_slice = self.slice.0 <= now && now < self.slice.1.min(self.recorder.window_end());
        is_in_slice && self.config.schedule.is_closed() && self.is_loading()
    }

    /// Lists the slot as idle if it has room for an arrival of an open loop.
    pub(super) fn list_if_idle(&mut self, conn: ConnId) {
        let is_idle = !self.config.schedule.is_closed() && self.has_room(conn);
        let slot = &mut self.slots[conn as usize];
        if is_idle && !slot.is_listed_idle {
            slot.is_listed_idle = true;
            self.idle_slots.push_back(conn);
        }
    }

    /// Removes and returns the slot that has been idle for the longest and still has room. A listed
    /// slot may have lost its room: the server can end a connection or allow fewer streams, and a
    /// connection can fail.
    pub(super) fn take_idle(&mut self) -> Option<ConnId> {
        while let Some(conn) = self.idle_slots.pop_front() {
            self.slots[conn as usize].is_listed_idle = false;
            if self.has_room(conn) {
                return Some(conn);
            }
        }
        None
    }

    /// Whether the slot can take another exchange.
    pub(super) fn has_room(&self, conn: ConnId) -> bool {
        let slot = &self.slots[conn as usize];
        if slot.is_backing_off {
            return false;
        }
        let assigned = slot.assigned.len();
        if slot.state == ConnectionState::Up {
            return assigned == 0 && self.can_take_request(conn);
        }
        let capacity = if !self.config.protocol.is_h1() && slot.may_speak_h2 {
            // At most what a connection is likely to allow: further exchanges would wait on it
            // while other slots have room.
            self.config.streams.min(self.frames.granted.unwrap_or(u32::MAX)).max(1)
        } else {
            self.config.pipeline
        };
        assigned < capacity as usize
            && self
                .config
                .policy
                .requests_per_connection
                .is_none_or(|most| (assigned as u64) < most)
    }

    /// Whether the connection, which is up, can take a request now.
    #[inline]
    fn can_take_request(&self, conn: ConnId) -> bool {
        let slot = &self.slots[conn as usize];
        let has_room = match &slot.protocol {
            ProtocolState::H1(h1) if h1.upgrade == Upgrade::No => {
                h1.in_flight.len() < self.config.pipeline as usize
                    && !h1.has_sent_close
                    && h1.held_body.is_none()
            }
            // The protocol is not known before the first response.
            ProtocolState::H1(h1) => h1.in_flight.is_empty(),
            ProtocolState::H2(h2) => {
                h2.client.open_streams() < self.config.streams as usize && h2.client.room() > 0
            }
        };
        has_room && self.config.policy.requests_per_connection.is_none_or(|most| slot.served < most)
    }

    /// Assigns an exchange of the next request to a slot that has room.
    pub(super) fn assign_next<D: Driver>(
        &mut self,
        conn: ConnId,
        intended: Instant,
        now: Instant,
        driver: &mut D,
    ) {
        let request = self.config.traffic.choose(&mut self.config.draws);
        self.assign_request(conn, request, intended, now, driver);
    }

    /// Assigns an exchange of this request to a slot that has room.
    #[inline]
    pub(super) fn assign_request<D: Driver>(
        &mut self,
        conn: ConnId,
        request: u16,
        intended: Instant,
        now: Instant,
        driver: &mut D,
    ) {
        let is_checked_in_full =
            !self.config.traffic.request(request).expect.full_checks.is_empty()
                && self.config.draws.is_sampled(self.config.check_one_in);
        let exchange = Exchange { is_checked_in_full, ..Exchange::new(intended, request) };
        let slot = &mut self.slots[conn as usize];
        if slot.state == ConnectionState::Up {
            return self.send_request(conn, exchange, now, driver);
        }
        slot.assigned.push_back(exchange);
        if slot.state == ConnectionState::Down {
            self.connect(conn, now, driver);
        }
    }

    /// Sends the exchanges assigned to the slot as far as its connection can take them, or opens a
    /// connection for them.
    pub(super) fn send_assigned<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        loop {
            let slot = &self.slots[conn as usize];
            if slot.assigned.is_empty() || slot.is_backing_off {
                return;
            }
            match slot.state {
                ConnectionState::Down => return self.connect(conn, now, driver),
                ConnectionState::Up if self.can_take_request(conn) => {
                    let Some(exchange) = self.slots[conn as usize].assigned.pop_front() else {
                        return;
                    };
                    self.send_request(conn, exchange, now, driver);
                }
                _ => return,
            }
        }
    }

    /// Queues the request of an exchange on a connection that can take it.
    #[inline]
    fn send_request<D: Driver>(
        &mut self,
        conn: ConnId,
        mut exchange: Exchange,
        now: Instant,
        driver: &mut D,
    ) {
        // Set before the next wait is chosen: the request leaves at the start of that turn.
        self.last_hand_over = now;
        // The wait for the hand-over begins here. All other deadlines of the request are later.
        exchange.queued = now;
        let mut timeout_ns = self.config.policy.shortest_response_timeout_ns();
        if self.config.traffic.expects_continue(exchange.request) {
            timeout_ns = timeout_ns.min(limits::CONTINUE_NS);
        }
        self.next_timeout_check = self.next_timeout_check.min(now.plus(timeout_ns));
        let slot = &mut self.slots[conn as usize];
        slot.served += 1;
        let h1 = match &mut slot.protocol {
            ProtocolState::H1(h1) => h1,
            ProtocolState::H2(_) => return self.open_stream(conn, exchange, now),
        };
        let request = self.config.traffic.request(exchange.request);
        let template = match (h1.upgrade, &request.upgrade) {
            (Upgrade::Wanted, Some(template)) => {
                h1.upgrade = Upgrade::Requested;
                template
            }
            _ => {
                h1.has_sent_close = self.config.traffic.closes(exchange.request);
                &request.template
            }
        };
        // Requests that carry their intended start carry the one from which their response time
        // counts.
        self.config.draws.intended_ns = exchange.intended.ns_since(self.began);
        let mut bytes =
            template.bytes_for(&mut exchange.draw, &mut self.config.draws, &mut self.request);
        h1.in_flight.push_back(exchange);
        h1.unsent += 1;
        // A request that asks for an upgrade is sent complete: it continues as a stream whose body
        // has been sent.
        let holds_body =
            h1.upgrade == Upgrade::No && self.config.traffic.expects_continue(exchange.request);
        if holds_body {
            let (head, body) = bytes.split_at(continues::head_bytes(bytes));
            h1.held_body = Some(HeldBody { bytes: body.to_vec(), is_requested: false });
            bytes = head;
        }
        let is_large = bytes.len() >= limits::LARGE_REQUEST_BYTES;
        if let Some(session) = &mut slot.tls {
            self.encrypted.clear();
            if session.write(bytes, &mut self.encrypted).is_err() {
                return self.broken_tls.push(conn);
            }
            driver.send(conn, &self.encrypted);
        } else {
            driver.send(conn, bytes);
        }
        if is_large {
            self.record_request_end(conn, driver);
        }
        if holds_body {
            self.count_held_body();
        }
    }

    /// Passes the bytes that an HTTP/2 connection has written to the driver.
    #[inline]
    pub(super) fn queue_output<D: Driver>(&mut self, conn: ConnId, driver: &mut D) {
        if self.output.is_empty() {
            return;
        }
        if self.output.len() >= limits::LARGE_REQUEST_BYTES {
            self.record_stream_ends(conn, driver);
        }
        match &mut self.slots[conn as usize].tls {
            None => driver.send(conn, &self.output),
            Some(session) => {
                self.encrypted.clear();
                if session.write(&self.output, &mut self.encrypted).is_ok() {
                    driver.send(conn, &self.encrypted);
                } else {
                    self.broken_tls.push(conn);
                }
            }
        }
        self.output.clear();
    }
}

// Responses.
impl Worker {
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
        // Copied, because the session decrypts in place and its own records go out through the
        // driver.
        let mut bytes = std::mem::take(&mut self.received);
        bytes.clear();
        bytes.extend_from_slice(driver.received_bytes());
        self.read_tls(conn, &mut bytes, now, driver);
        self.received = bytes;
    }

    /// Decrypts and reads received bytes, and sends the records of the TLS session itself.
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
        // Data right after the handshake, which cannot be parsed before the protocol is known.
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
                // Responses before the close notice may have freed slots.
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
                self.handshake_failed(conn, &reason, now, driver);
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
                self.requeue_lost(conn);
                self.fail(conn, Outcome::ClosedEarly, Outcome::ClosedEarly, now, driver);
            }
            Ok(ConnectionAfterRead::Unsolicited) => {
                self.count_unsolicited(conn);
                self.count_protocol_error(&"bytes that answer no request");
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
                let before = self.frames.counts.replies;
                let read = self.read_streams(conn, now, received_at, bytes);
                let replies = self.frames.counts.replies - before;
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
                // Its first byte had arrived at the instant of the completion.
                exchange.first_byte = now;
            }
            let request = self.config.traffic.request(exchange.request);
            let kind = h1.upgrade.kind(request.kind);
            let requested = || self.config.traffic.requests_upgrade(exchange.request);
            let read = h1.reader.next_with_cache(bytes, kind, &mut self.head_cache);
            let (used, event) = read.map_err(|error| WireError::from_http1(error, requested))?;
            bytes = &bytes[used..];
            match event {
                ResponseEvent::NeedMore => return Ok(ConnectionAfterRead::Open),
                ResponseEvent::Informational(head) => {
                    let status = head.status;
                    self.recorder.current().outcomes.count_status(status);
                    self.on_interim(conn, status, now);
                }
                ResponseEvent::Upgraded(head) => {
                    self.recorder.current().outcomes.count_status(head.status);
                    self.on_upgraded(conn, now);
                    return self.read_upgraded(conn, now, received_at, bytes);
                }
                ResponseEvent::Head(head) => {
                    if h1.upgrade.decline() {
                        self.frames.declined += 1;
                        slot.may_speak_h2 = false;
                    }
                    let (status, in_full) = (head.status, exchange.is_checked_in_full);
                    let fields = || head.fields();
                    h1.response.on_head(status, fields, &request.expect, in_full);
                    self.cookies.search(fields);
                    self.drop_held_body(conn, status);
                }
                ResponseEvent::Body(data) => {
                    self.recorder.current().body_received += data.len() as u64;
                    h1.response.on_body(data, &request.expect);
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
        // Its last byte had arrived at the instant of the completion.
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
    }

    /// Continues after responses were read.
    fn continue_after_responses<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        self.establish_if_ready(conn, now, driver);
        self.continue_or_replace(conn, now, driver);
    }

    /// Handles the end of the stream of the peer.
    pub(super) fn on_eof<D: Driver>(
        &mut self,
        conn: ConnId,
        ending: PeerClose,
        now: Instant,
        driver: &mut D,
    ) {
        self.connections.closed_by_server += 1;
        self.update_sent_bytes(conn, driver);
        if let ProtocolState::H1(h1) = &mut self.slots[conn as usize].protocol {
            match h1.reader.eof() {
                Ok(Closed::BetweenMessages) => {}
                // The close, which ends this body, had arrived at the instant of the completion.
                Ok(Closed::EndsMessage) if ending == PeerClose::Truncated => {}
                Ok(Closed::EndsMessage) => {
                    self.end_message(conn, now, driver.received_at());
                    self.requeue_lost(conn);
                }
                Err(error) => self.count_protocol_error(&error),
            }
        }
        self.requeue_unsent(conn);
        self.fail(conn, Outcome::ClosedEarly, Outcome::ClosedEarly, now, driver);
    }

    /// Moves requests that had not left when their connection ended to the next one. This cannot
    /// repeat forever: each connection has brought at least one response.
    fn requeue_unsent(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H1(h1) = &mut slot.protocol else { return };
        if !slot.has_responded {
            return;
        }
        for _ in 0..std::mem::take(&mut h1.unsent) {
            // From the latest to the oldest, each to the front, which preserves the order.
            let Some(exchange) = h1.in_flight.pop_back() else { return };
            slot.assigned.push_front(exchange.to_unsent());
        }
    }

    /// Requeues idempotent requests that were pipelined after the last response of a connection
    /// (RFC 9112 §9.3.2). Only for orderly ends: the server announced the close with that response,
    /// or the close itself ended its body. The requests keep their intended starts. This cannot
    /// repeat forever: each connection has brought at least one response.
    fn requeue_lost(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H1(h1) = &mut slot.protocol else { return };
        h1.unsent = 0;
        for _ in 0..h1.in_flight.len() {
            // From the latest to the oldest, each to the front of its list, which preserves the
            // order.
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
