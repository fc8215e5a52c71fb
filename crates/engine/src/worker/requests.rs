//! Assigns requests to slots and sends them. Works on HTTP/1.1 and TLS itself, and passes requests
//! over HTTP/2 to `streams`.

use super::Worker;
use super::continues;
use crate::driver::{ConnId, Driver};
use crate::slot::{ConnectionState, Exchange, HeldBody, ProtocolState, Upgrade};
use crate::{Instant, limits};

impl Worker {
    /// Records the hand-over of queued requests to the kernel at `at`. The driver read the clock
    /// right before the hand-over.
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
            } else if self.takes_next_request(now) || self.continues_visit(conn, now) {
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

    /// Whether a pipeline of a closed loop is more than half full. Such a pipeline is not refilled.
    /// Refilling each place immediately would put each request into a separate segment
    /// (docs/internals/timing.md).
    fn is_pipeline_over_half_full(&self, conn: ConnId) -> bool {
        let ProtocolState::H1(h1) = &self.slots[conn as usize].protocol else { return false };
        self.config.schedule.is_closed() && h1.in_flight.len() > self.config.pipeline as usize / 2
    }

    /// Whether a free slot of a closed loop takes another request.
    pub(super) fn takes_next_request(&self, now: Instant) -> bool {
        let end = self.slice.end.min(self.recorder.window_end());
        let is_in_slice = self.slice.start <= now && now < end;
        is_in_slice && self.config.schedule.is_closed() && self.is_loading()
    }

    /// Whether a visit on a connection takes its next request although the window is over. Without
    /// it, the visits in progress at the end of the window would have no time. Such a request does
    /// not belong to the window.
    fn continues_visit(&self, conn: ConnId, now: Instant) -> bool {
        let is_over = now >= self.recorder.window_end() && self.stage != super::Stage::Finished;
        is_over
            && self.config.total.is_none_or(|total| self.started < total)
            && self.visits.as_ref().is_some_and(|visits| visits.has_next_step(conn))
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
            // As many as the next connection is likely to allow. More exchanges would wait here
            // while other slots have room.
            self.config.streams.min(self.frames.granted.unwrap_or(u32::MAX)).max(1)
        } else {
            self.config.pipeline
        };
        // After an upgrade, one exchange is in flight although the connection is not `Up`: the
        // request that asked for the upgrade, until the settings of the server arrive.
        let has_capacity = assigned + slot.in_flight() < capacity as usize;
        let max_requests = self.config.policy.requests_per_connection.unwrap_or(u64::MAX);
        has_capacity && slot.served + (assigned as u64) < max_requests
    }

    /// Whether the connection, which is open, can take a request now.
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
        let max_requests = self.config.policy.requests_per_connection.unwrap_or(u64::MAX);
        has_room && slot.served < max_requests
    }

    /// Draws the next request, or takes the next one of a visitor, and assigns its exchange to a
    /// slot that has room.
    pub(super) fn assign_next<D: Driver>(
        &mut self,
        conn: ConnId,
        intended: Instant,
        now: Instant,
        driver: &mut D,
    ) {
        let exchange = match &mut self.visits {
            None => Exchange::new(intended, self.config.traffic.choose(&mut self.config.draws)),
            Some(visits) => visits.next_exchange(conn, intended),
        };
        self.assign_exchange(conn, exchange, now, driver);
    }

    /// Assigns an exchange to a slot that has room.
    #[inline]
    pub(super) fn assign_exchange<D: Driver>(
        &mut self,
        conn: ConnId,
        mut exchange: Exchange,
        now: Instant,
        driver: &mut D,
    ) {
        exchange.is_checked_in_full =
            !self.config.traffic.request(exchange.request).expect.full_checks.is_empty()
                && self.config.draws.is_sampled(self.config.check_one_in);
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
        // `Worker::wait` chooses polling by this instant. The driver hands the request over only
        // after that choice, so the instant of queueing is used here.
        self.last_hand_over = now;
        // The time-out until the hand-over begins here. All other time-outs of the request begin
        // later.
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
        // The value of `RequestPart::Intended` in this request.
        self.config.draws.intended_ns = exchange.intended.ns_since(self.began);
        let session = self.visits.as_mut().map(|visits| visits.session(&exchange, now));
        let mut bytes = template.bytes_for(
            &mut exchange.draw,
            &mut self.config.draws,
            session,
            &mut self.request,
        );
        h1.in_flight.push_back(exchange);
        h1.unsent += 1;
        // A request that asks for an upgrade is sent with its body. After the upgrade it is a
        // stream whose request is complete (RFC 7540 §3.2).
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
