//! Requests and responses.

use dyno_archive::outcome::Outcome;
use dyno_wire::h1;
use dyno_wire::h1::response::{Closed, End, ResponseEvent};
use dyno_wire::h2;

use super::Worker;
use super::connections::{PeerClose, count_kind};
use super::continues;
use super::unsolicited::is_idle_notice;
use crate::driver::{ConnId, Driver};
use crate::expect::AnswerVerdict;
use crate::slot::{ConnectionState, Exchange, HeldBody, ProtocolState, Upgrade};
use crate::tls::{Broken, TlsProgress};
use crate::{Instant, limits};

/// The state of a connection after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionAfterRead {
    Open,
    /// The server announced the end of the connection with its last response.
    ServerEnds,
    /// Bytes arrived that answer no request.
    Unsolicited,
}

impl ConnectionAfterRead {
    /// Classifies bytes that arrive without a request in flight. `is_alone`: no response was read
    /// together with them. A server that closes an idle connection may send a notice (RFC 9110
    /// §15.5.9).
    fn from_unasked(bytes: &[u8], is_alone: bool) -> ConnectionAfterRead {
        if is_alone && is_idle_notice(bytes) {
            ConnectionAfterRead::ServerEnds
        } else {
            ConnectionAfterRead::Unsolicited
        }
    }

    /// Classifies the bytes after the last response of a connection.
    #[inline]
    const fn from_rest(bytes: &[u8]) -> ConnectionAfterRead {
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
    SwitchedAsAsked,
}

impl WireError {
    fn from_http1(error: h1::Http1Error, has_asked_upgrade: impl FnOnce() -> bool) -> WireError {
        match error {
            h1::Http1Error::UnexpectedUpgrade if has_asked_upgrade() => WireError::SwitchedAsAsked,
            error => error.into(),
        }
    }
}

/// Whether bytes begin as a TLS record does: its type, and 3 as the major version (RFC 8446 §5.1).
/// No message of HTTP/1.1 and no SETTINGS frame begins so.
fn is_tls_record(bytes: &[u8]) -> bool {
    matches!(bytes, [20..=23, 3, ..])
}

// Requests.
impl Worker {
    /// Bytes were handed to the kernel at `at`, which the driver read just before.
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
        self.last_handed = at;
    }

    /// Fills the slot's free capacity with its assigned exchanges, with waiting arrivals or, in a
    /// closed loop, with new exchanges.
    pub(super) fn refill<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        if self.stage == super::Stage::Opening || now < self.began || self.is_batch_under_way(conn)
        {
            return;
        }
        if self.pages.is_some() {
            return self.refill_page(conn, now, driver);
        }
        self.place_assigned(conn, now, driver);
        while self.has_room(conn) {
            if let Some(intended) = self.waiting.pop_front() {
                self.assign(conn, intended, now, driver);
            } else if self.takes_next(now) {
                // In a closed loop the intended time is the instant at which the slot became free.
                self.begun += 1;
                self.recorder.record_scheduled(now);
                self.recorder.record_start(now, now);
                self.assign(conn, now, now, driver);
            } else {
                break;
            }
        }
        self.push_out(conn, driver);
        self.offer(conn);
    }

    /// In a closed loop a pipeline is filled again only when half of it is free: filling each place
    /// as it falls free would make a segment of every request (docs/internals/timing.md).
    fn is_batch_under_way(&self, conn: ConnId) -> bool {
        let ProtocolState::H1(h1) = &self.slots[conn as usize].talk else { return false };
        self.config.schedule.is_closed() && h1.in_flight.len() > self.config.pipeline as usize / 2
    }

    /// Whether a free slot of a closed loop takes another request.
    pub(super) fn takes_next(&self, now: Instant) -> bool {
        let is_its_time = self.slice.0 <= now && now < self.slice.1.min(self.recorder.closes());
        is_its_time && self.config.schedule.is_closed() && self.is_loading()
    }

    /// Lists the slot as idle if it has room and an open-loop arrival could use it.
    pub(super) fn offer(&mut self, conn: ConnId) {
        let wanted = !self.config.schedule.is_closed() && self.has_room(conn);
        let slot = &mut self.slots[conn as usize];
        if wanted && !slot.idle {
            slot.idle = true;
            self.idle.push_back(conn);
        }
    }

    /// The slot that has been idle for the longest and still has room. One that was listed may have
    /// lost it since: a server can end a connection, or allow fewer streams, and a connection can
    /// fail.
    pub(super) fn take_idle(&mut self) -> Option<ConnId> {
        while let Some(conn) = self.idle.pop_front() {
            self.slots[conn as usize].idle = false;
            if self.has_room(conn) {
                return Some(conn);
            }
        }
        None
    }

    /// Whether the slot may be given another exchange.
    pub(super) fn has_room(&self, conn: ConnId) -> bool {
        let slot = &self.slots[conn as usize];
        if slot.backing_off {
            return false;
        }
        let assigned = slot.assigned.len();
        if slot.state == ConnectionState::Up {
            return assigned == 0 && self.takes_request(conn);
        }
        let most = if !self.config.protocol.is_h1() && slot.may_speak_h2 {
            // No more than a connection is likely to take: the rest would wait on it while others
            // have room.
            self.config.streams.min(self.frames.granted.unwrap_or(u32::MAX)).max(1)
        } else {
            self.config.pipeline
        };
        assigned < most as usize
            && self
                .config
                .policy
                .requests_per_connection
                .is_none_or(|most| (assigned as u64) < most)
    }

    /// Whether the connection, which is up, takes another request now.
    #[inline]
    fn takes_request(&self, conn: ConnId) -> bool {
        let slot = &self.slots[conn as usize];
        let has_place = match &slot.talk {
            ProtocolState::H1(h1) if h1.upgrade == Upgrade::No => {
                h1.in_flight.len() < self.config.pipeline as usize
                    && !h1.said_close
                    && h1.held.is_none()
            }
            // The connection's protocol is not known before the first response.
            ProtocolState::H1(h1) => h1.in_flight.is_empty(),
            ProtocolState::H2(h2) => {
                h2.client.open_streams() < self.config.streams as usize && h2.client.room() > 0
            }
        };
        has_place
            && self.config.policy.requests_per_connection.is_none_or(|most| slot.served < most)
    }

    /// Gives an exchange to a slot that has room.
    pub(super) fn assign<D: Driver>(
        &mut self,
        conn: ConnId,
        intended: Instant,
        now: Instant,
        driver: &mut D,
    ) {
        let request = self.config.traffic.choose(&mut self.config.draws);
        self.give(conn, request, intended, now, driver);
    }

    /// Gives an exchange of this request to a slot that has room.
    #[inline]
    pub(super) fn give<D: Driver>(
        &mut self,
        conn: ConnId,
        request: u16,
        intended: Instant,
        now: Instant,
        driver: &mut D,
    ) {
        let in_full = !self.config.traffic.request(request).expect.deep.is_empty()
            && self.config.draws.is_sampled(self.config.check_one_in);
        let exchange = Exchange { in_full, ..Exchange::new(intended, request) };
        let slot = &mut self.slots[conn as usize];
        if slot.state == ConnectionState::Up {
            return self.ask(conn, exchange, now, driver);
        }
        slot.assigned.push_back(exchange);
        if slot.state == ConnectionState::Down {
            self.connect(conn, now, driver);
        }
    }

    /// Sends what was assigned to the slot as far as its connection takes it, or opens one for it.
    pub(super) fn place_assigned<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        loop {
            let slot = &self.slots[conn as usize];
            if slot.assigned.is_empty() || slot.backing_off {
                return;
            }
            match slot.state {
                ConnectionState::Down => return self.connect(conn, now, driver),
                ConnectionState::Up if self.takes_request(conn) => {
                    let Some(exchange) = self.slots[conn as usize].assigned.pop_front() else {
                        return;
                    };
                    self.ask(conn, exchange, now, driver);
                }
                _ => return,
            }
        }
    }

    /// Queues the request of an exchange on a connection that takes it.
    #[inline]
    fn ask<D: Driver>(
        &mut self,
        conn: ConnId,
        mut exchange: Exchange,
        now: Instant,
        driver: &mut D,
    ) {
        // The request leaves with the coming turn, whose wait is decided before.
        self.last_handed = now;
        // The request's wait to leave begins here; deadlines after its leaving are due no sooner.
        exchange.queued = now;
        let mut soonest = self.config.policy.soonest_answer_timeout_ns();
        if self.config.traffic.expects_continue(exchange.request) {
            soonest = soonest.min(limits::CONTINUE_NS);
        }
        self.next_timeout_check = self.next_timeout_check.min(now.plus(soonest));
        let slot = &mut self.slots[conn as usize];
        slot.served += 1;
        let h1 = match &mut slot.talk {
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
                h1.said_close = self.config.traffic.closes(exchange.request);
                &request.template
            }
        };
        // The request carries the same intended start from which its response time counts.
        self.config.draws.intended_ns = exchange.intended.ns_since(self.began);
        let mut bytes =
            template.bytes_of(&mut exchange.draw, &mut self.config.draws, &mut self.request);
        h1.in_flight.push_back(exchange);
        h1.unsent += 1;
        // A request that asks for an upgrade is sent whole: it goes on as a stream whose body has
        // been sent.
        let holds_body =
            h1.upgrade == Upgrade::No && self.config.traffic.expects_continue(exchange.request);
        if holds_body {
            let (head, body) = bytes.split_at(continues::head_bytes(bytes));
            h1.held = Some(HeldBody { bytes: body.to_vec(), is_wanted: false });
            bytes = head;
        }
        let is_large = bytes.len() >= limits::LARGE_REQUEST_BYTES;
        if let Some(session) = &mut slot.tls {
            self.encrypted.clear();
            if session.write(bytes, &mut self.encrypted).is_err() {
                return self.broken.push(conn);
            }
            driver.send(conn, &self.encrypted);
        } else {
            driver.send(conn, bytes);
        }
        if is_large {
            self.mark_end(conn, driver);
        }
        if holds_body {
            self.count_held();
        }
    }

    /// Queues the bytes that an HTTP/2 connection has written into `out`.
    #[inline]
    pub(super) fn push_out<D: Driver>(&mut self, conn: ConnId, driver: &mut D) {
        if self.out.is_empty() {
            return;
        }
        if self.out.len() >= limits::LARGE_REQUEST_BYTES {
            self.mark_ends(conn, driver);
        }
        match &mut self.slots[conn as usize].tls {
            None => driver.send(conn, &self.out),
            Some(session) => {
                self.encrypted.clear();
                if session.write(&self.out, &mut self.encrypted).is_ok() {
                    driver.send(conn, &self.encrypted);
                } else {
                    self.broken.push(conn);
                }
            }
        }
        self.out.clear();
    }
}

// Answers.
impl Worker {
    #[inline]
    pub(super) fn on_received<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        assert!(self.out.is_empty(), "what one connection has to say must not leave on another");
        let received_at = driver.received_at();
        self.recorder.current().bytes_received += driver.bytes().len() as u64;
        self.frames.receives +=
            u64::from(matches!(self.slots[conn as usize].talk, ProtocolState::H2(_)));
        self.note_left(conn, driver);
        let bytes = driver.bytes();
        if self.slots[conn as usize].tls.is_none() {
            let is_new = !self.slots[conn as usize].answered;
            let read = if is_new
                && is_tls_record(bytes)
                && self.slots[conn as usize].is_between_messages()
            {
                Err(WireError::TlsRecord)
            } else {
                self.read(conn, now, received_at, bytes)
            };
            return self.after_read(conn, read, now, driver);
        }
        // Copied out: the session works in place, and what it answers goes back through the driver.
        let mut bytes = std::mem::take(&mut self.received);
        bytes.clear();
        bytes.extend_from_slice(driver.bytes());
        self.read_secured(conn, &mut bytes, now, driver);
        self.received = bytes;
    }

    /// Decrypts and reads; sends the session's own records.
    pub(super) fn read_secured<D: Driver>(
        &mut self,
        conn: ConnId,
        bytes: &mut [u8],
        now: Instant,
        driver: &mut D,
    ) {
        let received_at = driver.received_at();
        let Some(mut session) = self.slots[conn as usize].tls.take() else { return };
        let mut read = Ok(ConnectionAfterRead::Open);
        let is_secured = session.is_secured();
        // Bytes right after the handshake cannot be read before the protocol is known.
        let mut early = Vec::new();
        let progress = session.read(bytes, &mut |plain| {
            if !is_secured {
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
                // Bytes before the notice may have answered requests.
                self.push_out(conn, driver);
                self.eof(conn, PeerClose::Clean, now, driver);
            }
            Ok(TlsProgress::Open) | Err(Broken::Reader(())) => {
                self.after_read(conn, read, now, driver);
            }
            Err(Broken::Tls(words)) => {
                self.out.clear();
                // The alert for the peer leaves before the connection is closed.
                driver.flush(&mut |conn, at| self.on_handed_over(conn, at));
                self.connections.closed_by_us += 1;
                self.handshake_failed(conn, &words, now, driver);
            }
        }
    }

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
                    self.send_wanted_body(conn, driver);
                }
                self.continue_after_answers(conn, now, driver);
            }
            Ok(ConnectionAfterRead::ServerEnds) => {
                self.connections.closed_by_server += 1;
                self.ask_lost_again(conn);
                self.fail(conn, Outcome::ClosedEarly, Outcome::ClosedEarly, now, driver);
            }
            Ok(ConnectionAfterRead::Unsolicited) => {
                self.count_unsolicited(conn);
                self.name_error(&"bytes that answer no request");
                self.connections.closed_by_us += 1;
                self.fail(conn, Outcome::ProtocolError, Outcome::Cancelled, now, driver);
            }
            Err(error) => {
                self.name_error(&error);
                if let WireError::H2(error) = error {
                    if matches!(error, h2::Http2Error::IdleStream | h2::Http2Error::StreamClosed) {
                        self.count_unsolicited(conn);
                    }
                    self.say_go_away(conn, error.code(), driver);
                }
                self.connections.closed_by_us += 1;
                self.fail(conn, Outcome::ProtocolError, Outcome::Cancelled, now, driver);
            }
        }
    }

    /// Reads all of `bytes`, ending exchanges as their responses complete.
    #[inline]
    fn read(
        &mut self,
        conn: ConnId,
        now: Instant,
        received_at: Option<Instant>,
        bytes: &[u8],
    ) -> Result<ConnectionAfterRead, WireError> {
        match self.slots[conn as usize].talk {
            ProtocolState::H1(_) => self.read_messages(conn, now, received_at, bytes),
            ProtocolState::H2(_) => {
                let before = self.frames.counts.replies;
                let read = self.read_streams(conn, now, received_at, bytes);
                let replies = self.frames.counts.replies - before;
                if let ProtocolState::H2(h2) = &mut self.slots[conn as usize].talk {
                    h2.replies.add(replies);
                }
                read
            }
        }
    }

    /// Whether the server floods the generator with control frames and does not read the replies.
    fn is_flooded<D: Driver>(&mut self, conn: ConnId, driver: &D) -> bool {
        let turn = self.woke;
        match &mut self.slots[conn as usize].talk {
            ProtocolState::H2(h2) if h2.replies.are_many(turn) => {
                h2.replies.are_stuck(driver.queued(conn), turn)
            }
            _ => false,
        }
    }

    /// Reads HTTP/1.1.
    fn read_messages(
        &mut self,
        conn: ConnId,
        now: Instant,
        received_at: Option<Instant>,
        mut bytes: &[u8],
    ) -> Result<ConnectionAfterRead, WireError> {
        let whole = bytes.len();
        loop {
            let slot = &mut self.slots[conn as usize];
            let ProtocolState::H1(h1) = &mut slot.talk else {
                return Ok(ConnectionAfterRead::Open);
            };
            if bytes.is_empty() && h1.reader.is_between_messages() {
                return Ok(ConnectionAfterRead::Open);
            }
            let Some(exchange) = h1.in_flight.front_mut() else {
                let is_alone = bytes.len() == whole && h1.reader.is_between_messages();
                return Ok(ConnectionAfterRead::from_unasked(bytes, is_alone));
            };
            if exchange.sent == Instant::NEVER {
                // A response to an unsent request is unsolicited.
                return Ok(ConnectionAfterRead::Unsolicited);
            }
            if exchange.first_byte == Instant::NEVER {
                // The first bytes of this response had arrived at the completion's instant.
                exchange.first_byte = now;
            }
            let request = self.config.traffic.request(exchange.request);
            let kind = h1.upgrade.kind(request.kind);
            let has_asked = || self.config.traffic.asks_upgrade(exchange.request);
            let read = h1.reader.next_with_cache(bytes, kind, &mut self.head_cache);
            let (used, event) = read.map_err(|error| WireError::from_http1(error, has_asked))?;
            bytes = &bytes[used..];
            match event {
                ResponseEvent::NeedMore => return Ok(ConnectionAfterRead::Open),
                ResponseEvent::Informational(head) => {
                    let status = head.status;
                    self.recorder.current().outcomes.count_status(status);
                    self.see_interim(conn, status, now);
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
                    let status = head.status;
                    let fields = || head.fields();
                    h1.answer.see_head(status, fields, &request.expect, exchange.in_full);
                    self.cookies.look(fields);
                    self.drop_held(conn, status);
                }
                ResponseEvent::Body(data) => {
                    self.recorder.current().body_received += data.len() as u64;
                    h1.answer.see_body(data, &request.expect);
                }
                ResponseEvent::End(end) => {
                    self.end_message(conn, now, received_at);
                    if end == End::Final {
                        return Ok(ConnectionAfterRead::from_rest(bytes));
                    }
                }
            }
        }
    }

    /// Reads what came behind the response with which the server changed over to HTTP/2.
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

    /// The oldest exchange of an HTTP/1.1 connection has its whole response.
    #[inline]
    fn end_message(&mut self, conn: ConnId, now: Instant, received_at: Option<Instant>) {
        let slot = &mut self.slots[conn as usize];
        slot.failures = 0;
        slot.answered = true;
        let ProtocolState::H1(h1) = &mut slot.talk else { return };
        let Some(exchange) = h1.in_flight.pop_front() else { return };
        let verdict = h1.answer.judge(&self.config.traffic.request(exchange.request).expect);
        if exchange.ends_at > self.left {
            self.count_early(exchange.ends_at - self.left, verdict.status);
        }
        self.end_exchange(conn, &exchange, verdict, now, received_at);
    }

    /// An exchange has its whole response.
    #[inline]
    pub(super) fn end_exchange(
        &mut self,
        conn: ConnId,
        exchange: &Exchange,
        verdict: AnswerVerdict,
        now: Instant,
        received_at: Option<Instant>,
    ) {
        self.recorder.count_status(exchange, verdict.status);
        self.recorder.current().checked += u64::from(exchange.in_full);
        if verdict.outcome == Outcome::UnexpectedStatus
            && let Some(reason) = self.cookies.reason(verdict.status)
        {
            count_kind(&mut self.unexpected, reason, limits::UNEXPECTED_KINDS);
        }
        if let Some(fault) = verdict.fault {
            count_kind(&mut self.unexpected, &fault, limits::UNEXPECTED_KINDS);
        }
        // Done: the last byte had arrived at the completion's instant.
        self.on_exchange_end(conn, exchange, verdict.outcome, now, received_at);
    }

    /// Records the end of an exchange, whatever its outcome.
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
            pages.see(conn, exchange, outcome);
        }
    }

    /// After answers were read.
    fn continue_after_answers<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        self.settle_streams(conn, now, driver);
        self.continue_or_replace(conn, now, driver);
    }

    pub(super) fn eof<D: Driver>(
        &mut self,
        conn: ConnId,
        ending: PeerClose,
        now: Instant,
        driver: &mut D,
    ) {
        self.connections.closed_by_server += 1;
        self.note_left(conn, driver);
        if let ProtocolState::H1(h1) = &mut self.slots[conn as usize].talk {
            match h1.reader.eof() {
                Ok(Closed::BetweenMessages) => {}
                // The close, which ends this body, had arrived at the completion's instant.
                Ok(Closed::EndsMessage) if ending == PeerClose::Cut => {}
                Ok(Closed::EndsMessage) => {
                    self.end_message(conn, now, driver.received_at());
                    self.ask_lost_again(conn);
                }
                Err(error) => self.name_error(&error),
            }
        }
        self.take_back_unsent(conn);
        self.fail(conn, Outcome::ClosedEarly, Outcome::ClosedEarly, now, driver);
    }

    /// Moves requests that were queued on a connection, and had not left when it ended, to the next
    /// one. This ends by itself: each connection has brought one response at least.
    fn take_back_unsent(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H1(h1) = &mut slot.talk else { return };
        if !slot.answered {
            return;
        }
        for _ in 0..std::mem::take(&mut h1.unsent) {
            // From the youngest on, each to the front: they keep their order.
            let Some(exchange) = h1.in_flight.pop_back() else { return };
            slot.assigned.push_front(exchange.to_unsent());
        }
    }

    /// Sends again what was lost when the server ended a pipeline in good order: the last response
    /// said so, or had no other end. Requests behind it go to the next connection if they are
    /// idempotent (RFC 9112 §9.3.2), and keep their intended times. This ends by itself: each
    /// connection has brought one response at least.
    fn ask_lost_again(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H1(h1) = &mut slot.talk else { return };
        h1.unsent = 0;
        for _ in 0..h1.in_flight.len() {
            // From the youngest on, each to the front of its list: both keep their order.
            let Some(exchange) = h1.in_flight.pop_back() else { return };
            if self.config.traffic.may_repeat(exchange.request) {
                self.connections.asked_again += 1;
                slot.assigned.push_front(exchange.to_unsent());
            } else {
                h1.in_flight.push_front(exchange);
            }
        }
    }

    pub(super) fn name_error(&mut self, error: &dyn std::fmt::Display) {
        count_kind(&mut self.protocol_errors, &error.to_string(), limits::PROTOCOL_ERROR_KINDS);
    }
}
