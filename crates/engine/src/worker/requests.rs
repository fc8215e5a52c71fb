//! Assigns requests to slots, and submits them to the conversations of the slots.

use super::Worker;
use crate::conversation::Conversation as _;
use crate::driver::{ConnId, StreamDriver};
use crate::exchange::Exchange;
use crate::slot::ConnectionState;
use crate::{Instant, limits};

impl Worker {
    /// Records the hand-over of queued requests to the kernel at `at`. The driver read the clock
    /// right before the hand-over.
    #[inline]
    pub fn on_handed_over(&mut self, conn: ConnId, at: Instant) {
        let slot = &mut self.slots[conn as usize];
        if !slot.conversation.has_unsent() {
            return;
        }
        let is_open_loop = !self.shared.config.schedule.is_closed();
        let recorder = &mut self.shared.recorder;
        slot.conversation.on_handed_over(at, |exchange| {
            if is_open_loop {
                recorder.record_hand_over(exchange);
            }
        });
        self.last_hand_over = at;
    }

    /// Fills the free capacity of a slot: with its assigned exchanges, then with waiting arrivals
    /// or, in a closed loop, with new exchanges.
    pub(super) fn refill<D: StreamDriver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        if self.stage == super::Stage::Opening
            || now < self.shared.began
            || self.slots[conn as usize].conversation.waits_for_batch(&self.shared)
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
                self.shared.recorder.record_scheduled(now);
                self.shared.recorder.record_start(now, now);
                self.assign_next(conn, now, now, driver);
            } else {
                break;
            }
        }
        self.queue_output(conn, driver);
        self.list_if_idle(conn);
    }

    /// Whether a free slot of a closed loop takes another request.
    pub(super) fn takes_next_request(&self, now: Instant) -> bool {
        let end = self.slice.end.min(self.shared.recorder.window_end());
        let is_in_slice = self.slice.start <= now && now < end;
        is_in_slice && self.shared.config.schedule.is_closed() && self.is_loading()
    }

    /// Whether a visit on a connection takes its next request although the window is over. Without
    /// it, the visits in progress at the end of the window would have no time. Such a request does
    /// not belong to the window.
    fn continues_visit(&self, conn: ConnId, now: Instant) -> bool {
        let is_over =
            now >= self.shared.recorder.window_end() && self.stage != super::Stage::Finished;
        is_over
            && self.shared.config.total.is_none_or(|total| self.started < total)
            && self.shared.visits.as_ref().is_some_and(|visits| visits.has_next_step(conn))
    }

    /// Lists the slot as idle if it has room for an arrival of an open loop.
    pub(super) fn list_if_idle(&mut self, conn: ConnId) {
        let is_idle = !self.shared.config.schedule.is_closed() && self.has_room(conn);
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
        let capacity = slot.conversation.expected_capacity(&self.shared);
        // After an upgrade, one exchange is in flight although the connection is not `Up`: the
        // request that asked for the upgrade, until the settings of the server arrive.
        let has_capacity = assigned + slot.in_flight() < capacity as usize;
        let max_requests = self.shared.config.policy.requests_per_connection.unwrap_or(u64::MAX);
        has_capacity && slot.served + (assigned as u64) < max_requests
    }

    /// Whether the connection, which is open, can take a request now.
    #[inline]
    fn can_take_request(&self, conn: ConnId) -> bool {
        let slot = &self.slots[conn as usize];
        let max_requests = self.shared.config.policy.requests_per_connection.unwrap_or(u64::MAX);
        slot.conversation.has_room(&self.shared) && slot.served < max_requests
    }

    /// Draws the next request, or takes the next one of a visitor, and assigns its exchange to a
    /// slot that has room.
    pub(super) fn assign_next<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        intended: Instant,
        now: Instant,
        driver: &mut D,
    ) {
        let exchange = match &mut self.shared.visits {
            None => Exchange::new(
                intended,
                self.shared.config.traffic.choose(&mut self.shared.config.draws),
            ),
            Some(visits) => visits.next_exchange(conn, intended),
        };
        self.assign_exchange(conn, exchange, now, driver);
    }

    /// Assigns an exchange to a slot that has room.
    #[inline]
    pub(super) fn assign_exchange<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        mut exchange: Exchange,
        now: Instant,
        driver: &mut D,
    ) {
        exchange.is_checked_in_full =
            !self.shared.config.traffic.request(exchange.request).expect.full_checks.is_empty()
                && self.shared.config.draws.is_sampled(self.shared.config.check_one_in);
        if self.slots[conn as usize].state == ConnectionState::Up {
            if !self.slots[conn as usize].has_idled_out(now) {
                return self.send_request(conn, exchange, now, driver);
            }
            self.close_idle(conn, driver);
        }
        let slot = &mut self.slots[conn as usize];
        slot.assigned.push_back(exchange);
        if slot.state == ConnectionState::Down {
            self.connect(conn, now, driver);
        }
    }

    /// Sends the exchanges assigned to the slot as far as its connection can take them, or opens a
    /// connection for them.
    pub(super) fn send_assigned<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        now: Instant,
        driver: &mut D,
    ) {
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
    fn send_request<D: StreamDriver>(
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
        let mut timeout_ns = self.timers.response_ns;
        if self.shared.continues.is_some()
            && self.shared.config.traffic.expects_continue(exchange.request)
        {
            timeout_ns = timeout_ns.min(limits::CONTINUE_NS);
        }
        self.timers.add(conn, now.plus(timeout_ns));
        let slot = &mut self.slots[conn as usize];
        slot.served += 1;
        let bytes = slot.conversation.submit(exchange, now, &mut self.shared);
        if !bytes.is_empty() {
            self.tls_output.send_output(conn, slot, bytes, driver);
        }
    }
}
