//! Requests and answers.

use dyno_archive::outcome::Outcome;
use dyno_wire::h1::Error as WireError;
use dyno_wire::h1::response::{Closed, End, Event};

use super::Worker;
use super::connections::count_kind;
use crate::driver::{ConnId, Driver};
use crate::slot::{Exchange, State};
use crate::tls::{Broken, Progress};
use crate::{Instant, limits};

/// What reading left the connection as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Open,
    /// The last answer said that the connection ends with it.
    ServerEnds,
    /// Bytes came that answer no request.
    Unsolicited,
}

/// How the peer's closing is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It may end a body.
    Clean,
    /// What went before may not be all there was.
    Cut,
}

// Requests.
impl Worker {
    /// Bytes were handed to the kernel at `at`, which the driver read just before.
    pub fn handed(&mut self, conn: ConnId, at: Instant) {
        let slot = &mut self.slots[conn as usize];
        if slot.unsent == 0 {
            return;
        }
        let is_open_loop = !self.config.schedule.is_closed();
        for exchange in slot.handed(at) {
            if is_open_loop {
                self.recorder.handed(exchange);
            }
        }
        self.last_handed = at;
        let soonest = self.config.policy.soonest_answer_timeout_ns();
        self.next_timeout_check = self.next_timeout_check.min(at.after(soonest));
    }

    /// Uses the slot's room: for arrivals that wait, or, in a closed loop, for new exchanges.
    pub(super) fn refill<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        if self.stage == super::Stage::Opening || now < self.began || self.is_batch_under_way(conn) {
            return;
        }
        while self.has_room(conn) {
            if let Some(intended) = self.waiting.pop_front() {
                self.assign(conn, intended, now, driver);
            } else if self.takes_next(now) {
                // In a closed loop the intended time is the instant at which the slot fell free.
                self.begun += 1;
                self.recorder.scheduled(now);
                self.recorder.started(now, now);
                self.assign(conn, now, now, driver);
            } else {
                break;
            }
        }
        self.offer(conn);
    }

    /// In a closed loop a pipeline is filled again only when half of it is free: filling each place as it falls
    /// free would make a segment of every request (docs/performance.md).
    fn is_batch_under_way(&self, conn: ConnId) -> bool {
        let in_flight = self.slots[conn as usize].in_flight.len();
        self.config.schedule.is_closed() && in_flight > self.config.pipeline as usize / 2
    }

    /// Whether a slot that falls free in a closed loop takes another request.
    fn takes_next(&self, now: Instant) -> bool {
        self.config.schedule.is_closed() && self.is_loading() && now < self.recorder.closes()
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

    fn has_room(&self, conn: ConnId) -> bool {
        let slot = &self.slots[conn as usize];
        let served = if slot.state == State::Up { slot.served } else { slot.in_flight.len() as u64 };
        !slot.backing_off
            && slot.in_flight.len() < self.config.pipeline as usize
            && self.config.policy.requests_per_connection.is_none_or(|most| served < most)
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
        let in_full = !self.config.traffic.request(request).expect.deep.is_empty()
            && self.config.draws.is_sampled(self.config.check_one_in);
        let slot = &mut self.slots[conn as usize];
        slot.in_flight.push_back(Exchange {
            intended,
            sent: Instant::NEVER,
            first_byte: Instant::NEVER,
            request,
            in_full,
        });
        match slot.state {
            State::Up => {
                slot.unsent += 1;
                slot.served += 1;
                // It leaves with the coming turn, whose wait is decided before.
                self.last_handed = now;
                self.send_request(conn, self.slots[conn as usize].in_flight.len() - 1, driver);
            }
            State::Down => self.connect(conn, now, driver),
            State::Connecting { .. } | State::Securing { .. } => {}
        }
    }

    /// Queues the bytes of the exchange at `index` of the slot.
    pub(super) fn send_request<D: Driver>(&mut self, conn: ConnId, index: usize, driver: &mut D) {
        let slot = &mut self.slots[conn as usize];
        let request = self.config.traffic.request(slot.in_flight[index].request);
        let bytes = request.template.bytes(&mut self.config.draws, &mut self.made);
        let Some(session) = &mut slot.tls else {
            self.recorder.current().bytes_sent += bytes.len() as u64;
            return driver.send(conn, bytes);
        };
        self.sealed.clear();
        if session.write(bytes, &mut self.sealed).is_ok() {
            self.recorder.current().bytes_sent += self.sealed.len() as u64;
            driver.send(conn, &self.sealed);
        } else {
            self.broken.push(conn);
        }
    }
}

// Answers.
impl Worker {
    #[inline]
    pub(super) fn received<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let received_at = driver.received_at();
        let bytes = driver.bytes();
        self.recorder.current().bytes_received += bytes.len() as u64;
        if self.slots[conn as usize].tls.is_none() {
            let read = self.read(conn, now, received_at, bytes);
            return self.after_read(conn, read, now, driver);
        }
        // Copied out: the session works in place, and what it answers goes back through the driver.
        let mut bytes = std::mem::take(&mut self.arrived);
        bytes.clear();
        bytes.extend_from_slice(driver.bytes());
        self.read_secured(conn, &mut bytes, now, driver);
        self.arrived = bytes;
    }

    /// Decrypts and reads; sends what TLS itself has to say.
    pub(super) fn read_secured<D: Driver>(
        &mut self,
        conn: ConnId,
        bytes: &mut [u8],
        now: Instant,
        driver: &mut D,
    ) {
        let received_at = driver.received_at();
        let Some(mut session) = self.slots[conn as usize].tls.take() else { return };
        let mut read = Ok(Read::Open);
        let progress = session.read(bytes, &mut |plain| {
            read = self.read(conn, now, received_at, plain);
            if read == Ok(Read::Open) { Ok(()) } else { Err(()) }
        });
        let out = session.take_out();
        if !out.is_empty() {
            self.recorder.current().bytes_sent += out.len() as u64;
            driver.send(conn, out);
            session.sent();
        }
        self.slots[conn as usize].tls = Some(session);
        match progress {
            Ok(Progress::Handshaking) => {}
            Ok(Progress::Secured) => self.secured(conn, now, driver),
            Ok(Progress::Closed) => self.eof(conn, Ending::Clean, now, driver),
            Ok(Progress::Open) | Err(Broken::Reader(())) => self.after_read(conn, read, now, driver),
            Err(Broken::Tls(words)) => {
                // The alert for the peer leaves before the connection is closed.
                driver.flush(&mut |conn, at| self.handed(conn, at));
                self.connections.closed_by_us += 1;
                self.handshake_failed(conn, &words, now, driver);
            }
        }
    }

    fn after_read<D: Driver>(
        &mut self,
        conn: ConnId,
        read: Result<Read, WireError>,
        now: Instant,
        driver: &mut D,
    ) {
        match read {
            Ok(Read::Open) => self.answered(conn, now, driver),
            Ok(Read::ServerEnds) => {
                self.connections.closed_by_server += 1;
                self.fail(conn, Outcome::ClosedEarly, Outcome::ClosedEarly, now, driver);
            }
            Ok(Read::Unsolicited) => {
                self.connections.unsolicited += 1;
                self.connections.closed_by_us += 1;
                self.fail(conn, Outcome::ProtocolError, Outcome::Cancelled, now, driver);
            }
            Err(error) => {
                self.name_error(error);
                self.connections.closed_by_us += 1;
                self.fail(conn, Outcome::ProtocolError, Outcome::Cancelled, now, driver);
            }
        }
    }

    /// Reads all of `bytes`, ending exchanges as their answers complete.
    fn read(
        &mut self,
        conn: ConnId,
        now: Instant,
        received_at: Option<Instant>,
        mut bytes: &[u8],
    ) -> Result<Read, WireError> {
        let mut slot = &mut self.slots[conn as usize];
        while !bytes.is_empty() || !slot.reader.is_between_messages() {
            let Some(exchange) = slot.in_flight.front_mut() else { return Ok(Read::Unsolicited) };
            if exchange.sent == Instant::NEVER {
                // An answer to a request that has not left yet is an answer to nothing.
                return Ok(Read::Unsolicited);
            }
            if exchange.first_byte == Instant::NEVER {
                // The first bytes of this answer had arrived at the completion's instant.
                exchange.first_byte = now;
            }
            let request = self.config.traffic.request(exchange.request);
            let (used, event) = slot.reader.next_with(bytes, request.asked, &mut self.heads)?;
            bytes = &bytes[used..];
            match event {
                Event::NeedMore => break,
                Event::Informational(head) => {
                    self.recorder.current().outcomes.count_status(head.status);
                }
                Event::Head(head) => slot.answer.see_head(&head, &request.expect, exchange.in_full),
                Event::Body(data) => {
                    self.recorder.current().body_received += data.len() as u64;
                    slot.answer.see_body(data, &request.expect);
                }
                Event::End(end) => {
                    slot.failures = 0;
                    self.end_exchange(conn, now, received_at);
                    if end == End::Final {
                        return Ok(Read::ServerEnds);
                    }
                }
            }
            // Borrowed anew: ending an exchange needed all of the worker.
            slot = &mut self.slots[conn as usize];
        }
        Ok(Read::Open)
    }

    /// The oldest exchange of a slot has its whole answer.
    #[inline]
    fn end_exchange(&mut self, conn: ConnId, now: Instant, received_at: Option<Instant>) {
        let slot = &mut self.slots[conn as usize];
        let Some(exchange) = slot.in_flight.pop_front() else { return };
        let (outcome, fault) = slot.answer.judge(&self.config.traffic.request(exchange.request).expect);
        let interval = self.recorder.current();
        interval.outcomes.count_status(slot.answer.status);
        interval.checked += u64::from(exchange.in_full);
        if let Some(fault) = fault {
            count_kind(&mut self.unexpected, &fault, limits::UNEXPECTED_KINDS);
        }
        // Done: the last byte had arrived at the completion's instant.
        self.recorder.ended(&exchange, outcome, now, received_at);
    }

    /// After answers were read: goes on with the connection, or replaces it if it has served its share.
    fn answered<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let slot = &self.slots[conn as usize];
        let most = self.config.policy.requests_per_connection;
        let used_up = most.is_some_and(|most| slot.served >= most);
        if used_up && slot.in_flight.is_empty() {
            self.connections.closed_by_us += 1;
            self.drop_connection(conn, driver);
        }
        self.refill(conn, now, driver);
    }

    pub(super) fn eof<D: Driver>(&mut self, conn: ConnId, ending: Ending, now: Instant, driver: &mut D) {
        self.connections.closed_by_server += 1;
        match self.slots[conn as usize].reader.eof() {
            Ok(Closed::BetweenMessages) => {}
            // The close, which ends this body, had arrived at the completion's instant.
            Ok(Closed::EndsMessage) if ending == Ending::Cut => {}
            Ok(Closed::EndsMessage) => self.end_exchange(conn, now, driver.received_at()),
            Err(error) => self.name_error(error),
        }
        self.fail(conn, Outcome::ClosedEarly, Outcome::ClosedEarly, now, driver);
    }

    fn name_error(&mut self, error: WireError) {
        count_kind(&mut self.protocol_errors, &error.to_string(), limits::PROTOCOL_ERROR_KINDS);
    }
}
