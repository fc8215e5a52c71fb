//! Advances the phases of a load, computes deadlines, and starts work whose time has come.

use std::cmp::Reverse;

use dyno_model::outcome::Outcome;
use dyno_model::sample::ThreadUse;

use super::pages::Pages;
use super::{OffSliceWait, OwnSlice, Stage, Worker};
use crate::config::SpinPolicy;
use crate::conversation::{ConnectionAfterTimeout, Conversation as _, TimeoutResult};
use crate::driver::{ConnId, StreamDriver, Turn, Wait};
use crate::exchange::Exchange;
use crate::slot::{ConnectionState, Slot};
use crate::{Instant, limits};

impl Worker {
    /// Returns the wait for the coming turn: its latest end, and when to poll.
    #[must_use]
    pub fn wait(&self) -> Wait {
        let deadline = self.deadline();
        let is_in_flight = self.shared.recorder.in_flight() > 0;
        let (spin_from, until) = match self.shared.config.spin {
            SpinPolicy::Always => (Instant(0), deadline),
            // Polling is worth its cost in two cases:
            // - After a hand-over, a response can arrive at any moment. The whole wait polls, up to
            //   `spin_end`. The wait after it sleeps.
            // - Near a deadline, a request must leave on time.
            SpinPolicy::Near if matches!(self.stage, Stage::Warmup | Stage::Measured) => {
                let spin_end = self.last_hand_over.plus(limits::SPIN_AFTER_NS);
                if is_in_flight && self.woke < spin_end {
                    (Instant(0), deadline.min(spin_end))
                } else {
                    (Instant(deadline.0.saturating_sub(limits::SPIN_AHEAD_NS)), deadline)
                }
            }
            SpinPolicy::Never | SpinPolicy::Near => (Instant::NEVER, deadline),
        };
        let max_sleep_ns =
            if is_in_flight { limits::MAX_SLEEP_IN_FLIGHT_NS } else { limits::MAX_SLEEP_NS };
        // The end of the longest sleep is not a deadline of the load, so it causes no polling.
        Wait { until: until.min(self.woke.plus(max_sleep_ns)), spin_from }
    }

    /// Whether requests start on a schedule.
    #[must_use]
    pub fn has_schedule(&self) -> bool {
        !self.shared.config.schedule.is_closed()
    }

    /// Returns the next deadline.
    fn deadline(&self) -> Instant {
        // A request that starts in the coming turn cannot time out before `woke` plus the shortest
        // time-out.
        let mut deadline = self
            .timers
            .next_check()
            .min(self.woke.plus(self.shared.config.policy.shortest_timeout_ns()));
        if self.shared.continues.is_some() {
            deadline = deadline.min(self.woke.plus(limits::CONTINUE_NS));
        }
        if let Some(Reverse((at, _))) = self.retries.peek() {
            deadline = deadline.min(*at);
        }
        match self.stage {
            // All connections were tried, so the next turn asks for the start of the load.
            Stage::Opening if self.untried_slots == 0 => Instant(0),
            Stage::Opening | Stage::Finished => deadline,
            Stage::Warmup if self.woke < self.shared.began => deadline.min(self.shared.began),
            Stage::Warmup | Stage::Measured => {
                let arrival = self.shared.config.schedule.peek().filter(|_| self.is_loading());
                let arrival = arrival.map_or(Instant::NEVER, |ns| self.shared.began.plus(ns));
                let slice = if self.is_slice_offered { self.slice.end } else { self.slice.start };
                deadline
                    .min(self.shared.recorder.interval_end())
                    .min(self.shared.recorder.window_end())
                    .min(arrival)
                    .min(slice)
            }
            Stage::Drain => deadline.min(self.drain_ends),
        }
    }

    /// Advances the phases after a turn of the driver. Records loop lag (busy time before the
    /// turn) and wake lag (delay after the planned end of the wait).
    pub fn on_wake<D: StreamDriver>(&mut self, turn: Turn, wait: Wait, driver: &mut D) {
        let is_loading = matches!(self.stage, Stage::Warmup | Stage::Measured);
        let last_woke = self.woke;
        let planned_end = wait.until.max(turn.entered);
        if is_loading && last_woke >= self.shared.began {
            // The time from the last wake-up to the hand-over delayed every timestamp of the turn.
            self.shared.recorder.distributions.loop_lag.record(turn.entered.ns_since(last_woke));
            // Wake lag is recorded in two cases:
            // - The turn waited, and the wait ran to its planned end.
            // - The turn did not wait, but took longer than any system call.
            let late_ns = turn.woke.ns_since(planned_end);
            let has_waited = planned_end > turn.entered;
            if turn.woke >= planned_end && (has_waited || late_ns > limits::STANDSTILL_NS) {
                self.shared.recorder.distributions.wake_lag.record(late_ns);
            }
        }
        self.woke = turn.woke;
        if !is_loading {
            return;
        }
        if turn.spun_ns > 0 {
            self.shared.recorder.worker_use(self.shared.config.worker).spun_ns += turn.spun_ns;
        }
        if turn.woke >= self.shared.recorder.window_end() {
            // Arrivals intended before the end belong to the window, even if the worker woke late.
            let last_of_window = Instant(self.shared.recorder.window_end().0 - 1);
            self.start_arrivals(last_of_window, driver);
        }
        if self.shared.recorder.has_interval_ended(turn.woke) {
            self.seal(turn.woke, driver);
        }
        if self.stage == Stage::Warmup && turn.woke >= self.shared.recorder.window_start() {
            self.stage = Stage::Measured;
            self.open_window(driver);
            self.record_window_lags(last_woke, turn, planned_end);
        }
        if self.stage == Stage::Measured && turn.woke >= self.shared.recorder.window_end() {
            self.stage = Stage::Drain;
            self.drain_ends = turn.woke.plus(self.shared.config.window.drain_ns);
            self.close_window(driver);
        }
    }

    /// Records lags that began in the warm-up and reached into the window. A lag is recorded in the
    /// interval in which it began. If the lag is long, its part within the window is recorded in
    /// the window as well. `planned_end`: planned end of the wait.
    fn record_window_lags(&mut self, last_woke: Instant, turn: Turn, planned_end: Instant) {
        let window_start = self.shared.recorder.window_start();
        let part_in_window =
            |from: Instant, to: Instant| to.ns_since(from.max(window_start).min(to));
        let (loop_ns, late_ns) =
            (part_in_window(last_woke, turn.entered), part_in_window(planned_end, turn.woke));
        let lags = &mut self.shared.recorder.distributions;
        if loop_ns > limits::STANDSTILL_NS {
            lags.loop_lag.record(loop_ns);
        }
        if late_ns > limits::STANDSTILL_NS {
            lags.wake_lag.record(late_ns);
        }
    }

    /// Completes the current interval with CPU time, sent bytes and connections, and seals it.
    fn seal<D: StreamDriver>(&mut self, now: Instant, driver: &mut D) {
        // CPU time of the thread in this interval.
        let run_ns = driver.thread_run_ns();
        let used_ns = run_ns - self.counted_cpu_ns;
        self.counted_cpu_ns = run_ns;
        self.shared.recorder.worker_use(self.shared.config.worker).run_ns += used_ns;
        self.count_sent_bytes(driver);
        self.shared.recorder.current().connections_open = self.connections_up;
        self.shared.recorder.advance(now);
    }

    /// Adds the bytes sent since the last call to the current interval.
    fn count_sent_bytes<D: StreamDriver>(&mut self, driver: &D) {
        let sent = driver.taken_bytes();
        self.shared.recorder.current().bytes_sent += sent - self.counted_sent_bytes;
        self.counted_sent_bytes = sent;
    }

    /// Starts all work that is scheduled up to `now`, and ends overdue exchanges.
    pub fn run_due<D: StreamDriver>(&mut self, now: Instant, driver: &mut D) {
        if now >= self.timers.next_check() {
            self.check_timeouts(now, driver);
        }
        self.run_retries(now, driver);
        self.end_broken_tls(now, driver);
        // Slices continue after the window, because requests that were intended in the window can
        // still wait for a slot.
        if now >= self.slice.end {
            self.select_slice(now);
            self.off_slice_wait.begin(driver.thread_use().run_delay_ns);
        }
        if !self.is_slice_offered
            && self.stage != Stage::Opening
            && now >= self.shared.began.max(self.slice.start)
        {
            self.is_slice_offered = true;
            if self.is_sliced() {
                self.off_slice_wait.end(driver.thread_use().run_delay_ns);
            }
            (0..self.shared.config.connections).for_each(|conn| self.refill(conn, now, driver));
        }
        if self.is_loading() && now >= self.shared.began {
            self.start_arrivals(now, driver);
        }
        self.check_finished(now, driver);
    }

    /// Whether the load runs only in its own time slices.
    fn is_sliced(&self) -> bool {
        self.slice.end != Instant::NEVER
    }

    /// Selects the current or next own slice at `now`. The slots are filled when the slice begins.
    pub(super) fn select_slice(&mut self, now: Instant) {
        if let Some((start_ns, end_ns)) =
            self.shared.config.schedule.slice(now.ns_since(self.shared.began))
        {
            self.slice = OwnSlice {
                start: self.shared.began.plus(start_ns),
                end: self.shared.began.plus(end_ns),
            };
            self.is_slice_offered = false;
        }
    }

    fn run_retries<D: StreamDriver>(&mut self, now: Instant, driver: &mut D) {
        while let Some(&Reverse((at, conn))) = self.retries.peek() {
            if at > now {
                break;
            }
            self.retries.pop();
            self.slots[conn as usize].is_backing_off = false;
            let slot = &self.slots[conn as usize];
            let is_first_try = slot.failures == 0 && slot.state == ConnectionState::Down;
            if is_first_try && self.is_loading() {
                // A ramp opens the connection without a request. The first request starts when the
                // connection is open. In later tries a request waits for the connection, and fails
                // with it.
                self.connect(conn, now, driver);
            } else {
                self.refill(conn, now, driver);
            }
        }
    }

    /// Ends connections whose TLS session failed to encrypt. Called after the completions of a
    /// turn, when no other code uses the connections.
    fn end_broken_tls<D: StreamDriver>(&mut self, now: Instant, driver: &mut D) {
        while let Some(conn) = self.tls_output.broken.pop() {
            self.fail_tls(conn, "the TLS session cannot encrypt further data", now, driver);
        }
    }

    /// Whether the load may start further requests.
    pub(super) fn is_loading(&self) -> bool {
        matches!(self.stage, Stage::Warmup | Stage::Measured)
            && self.shared.config.total.is_none_or(|total| self.started < total)
    }

    /// Whether the schedule of an open loop has another request for this load.
    pub(super) fn has_arrivals_to_come(&self, now: Instant) -> bool {
        let end = self.shared.recorder.window_end();
        let next = self.shared.config.schedule.peek().filter(|_| self.is_loading() && now < end);
        next.is_some_and(|ns| self.shared.began.plus(ns) < end)
    }

    fn start_arrivals<D: StreamDriver>(&mut self, now: Instant, driver: &mut D) {
        while self.is_loading() {
            // `now` may be after the end of the window, but the schedule ends with the window.
            let last_of_window = Instant(self.shared.recorder.window_end().0 - 1);
            let last_ns = last_of_window.ns_since(self.shared.began);
            let Some(arrival_ns) =
                self.shared.config.schedule.pop_due(now.ns_since(self.shared.began).min(last_ns))
            else {
                break;
            };
            let intended = self.shared.began.plus(arrival_ns);
            self.shared.recorder.record_arrival(intended);
            self.started += 1;
            if let Some(conn) = self.take_idle() {
                self.shared.recorder.record_start(intended, now);
                self.assign_next(conn, intended, now, driver);
                self.queue_output(conn, driver);
                self.list_if_idle(conn);
            } else if self.waiting.len() < self.shared.config.policy.max_waiting() {
                self.shared.recorder.record_start(intended, now);
                self.waiting.push_back(intended);
            } else {
                // No visitor was free, so the step of a sequence is unknown.
                let (visits, config) = (&self.shared.visits, &mut self.shared.config);
                let request = visits.is_none().then(|| config.traffic.choose(&mut config.draws));
                self.shared.recorder.record_drop(intended, request);
            }
        }
    }

    /// Acts on all deadlines up to `now`, and plans the next check.
    fn check_timeouts<D: StreamDriver>(&mut self, now: Instant, driver: &mut D) {
        for conn in 0..self.shared.config.connections {
            if self.timers.is_due(conn, now)
                && self.slots[conn as usize].deadline(&self.shared) <= now
            {
                self.on_timeout(conn, now, driver);
            }
        }
        // A request that starts now takes at least this long to time out.
        let mut shortest_ns = self.shared.config.policy.shortest_timeout_ns();
        if self.shared.continues.is_some() {
            shortest_ns = shortest_ns.min(limits::CONTINUE_NS);
        }
        // The next check comes after a thousandth of the shortest time-out or later. Otherwise each
        // of many close time-outs would cause a check of its own. Time-outs can therefore be late,
        // but never early.
        let (slots, shared) = (&self.slots, &self.shared);
        self.timers.plan_check(now.plus(shortest_ns / 1000), now.plus(shortest_ns), |conn| {
            slots[conn as usize].deadline(shared)
        });
    }

    /// Acts on the deadlines of a slot that are over.
    fn on_timeout<D: StreamDriver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let slot = &mut self.slots[conn as usize];
        if slot.state != ConnectionState::Up {
            let outcome = Outcome::ConnectTimeout;
            return self.fail(conn, outcome, outcome, now, driver);
        }
        let TimeoutResult { ended, connection } =
            slot.conversation.on_timeout(now, &mut self.shared);
        for (exchange, outcome) in &ended {
            self.on_exchange_end(conn, exchange, *outcome, now, None);
        }
        match connection {
            ConnectionAfterTimeout::Open => {
                self.send_requested_body(conn, driver);
                if ended.is_empty() {
                    self.queue_output(conn, driver);
                } else {
                    // The ended exchanges may have made room for requests, or were the last ones of
                    // the connection.
                    self.continue_or_replace(conn, now, driver);
                }
            }
            ConnectionAfterTimeout::Silent(outcome) => {
                self.give_up(conn, outcome, Outcome::Cancelled, now, driver);
            }
            ConnectionAfterTimeout::NoRoom => {
                let refused = Outcome::StreamRefused;
                for exchange in std::mem::take(&mut self.slots[conn as usize].assigned) {
                    self.on_exchange_end(conn, &exchange, refused, now, None);
                }
                self.give_up(conn, refused, refused, now, driver);
            }
        }
    }

    fn check_finished<D: StreamDriver>(&mut self, now: Instant, driver: &D) {
        let is_idle = self.shared.recorder.in_flight() == 0;
        // A schedule can end before the requested number of requests.
        let has_ended = self.has_schedule() && self.shared.config.schedule.peek().is_none();
        let has_started_all =
            self.shared.config.total.is_some_and(|total| has_ended || self.started >= total);
        match self.stage {
            Stage::Warmup | Stage::Measured if has_started_all && is_idle => {
                self.shared.recorder.close_window(now);
            }
            Stage::Drain if is_idle || now >= self.drain_ends => self.finish(now, driver),
            _ => {}
        }
    }

    fn finish<D: StreamDriver>(&mut self, now: Instant, driver: &D) {
        self.stage = Stage::Finished;
        self.count_sent_bytes(driver);
        for intended in std::mem::take(&mut self.waiting) {
            let request = self.shared.config.traffic.choose(&mut self.shared.config.draws);
            self.shared.recorder.record_unanswered(&Exchange::new(intended, request), now);
        }
        for (intended, request) in self.pages.iter().flat_map(Pages::waiting) {
            self.shared.recorder.record_unanswered(&Exchange::new(intended, request), now);
        }
        let unfinished_pages = self.pages.iter().flat_map(Pages::unfinished_pages);
        let unfinished_visits = self.shared.visits.iter().flat_map(|visits| visits.unfinished());
        for began in unfinished_pages.chain(unfinished_visits) {
            self.shared.recorder.record_unfinished_page(began);
        }
        for slot in &mut self.slots {
            slot.owes_responses = slot.in_flight() > 0;
            for exchange in slot
                .conversation
                .take_exchanges()
                .into_iter()
                .chain(std::mem::take(&mut slot.assigned))
            {
                self.shared.recorder.record_unanswered(&exchange, now);
            }
        }
        for slot in &self.slots {
            slot.conversation.record_last_settings(&mut self.shared);
        }
        self.shared.recorder.current().connections_open = self.connections_up;
        self.shared.recorder.finish(now);
    }

    /// Opens the measured window: reads cumulative counters as its base.
    fn open_window<D: StreamDriver>(&mut self, driver: &mut D) {
        for (conn, slot) in
            self.slots.iter_mut().enumerate().filter(|(_, s)| s.state == ConnectionState::Up)
        {
            slot.tcp_base = driver.tcp_counters(conn as ConnId).unwrap_or_default();
        }
        if !self.has_schedule() {
            let waiting = self.pages.iter().flat_map(Pages::waiting).map(|(intended, _)| intended);
            self.shared
                .recorder
                .carry_in(self.slots.iter().flat_map(Slot::intended_starts).chain(waiting));
        }
        self.cpu_base = driver.thread_use();
        self.off_slice_wait = OffSliceWait::default();
        if self.is_sliced() && !self.is_slice_offered {
            self.off_slice_wait.begin(self.cpu_base.run_delay_ns);
        }
        self.http2_base = self.shared.http2.clone();
    }

    /// Closes the measured window: adds the growth of cumulative counters.
    fn close_window<D: StreamDriver>(&mut self, driver: &mut D) {
        self.http2_used = self.shared.http2.growth_since(&self.http2_base);
        let used = driver.thread_use();
        self.off_slice_wait.end(used.run_delay_ns);
        let off_slice_ns = self.off_slice_wait.waited_ns;
        let base = &self.cpu_base;
        let since =
            |now: Option<u64>, then: Option<u64>| now.zip(then).map(|(now, then)| now - then);
        self.cpu = ThreadUse {
            run_ns: used.run_ns - base.run_ns,
            user_ns: used.user_ns - base.user_ns,
            sys_ns: used.sys_ns - base.sys_ns,
            run_delay_ns: since(used.run_delay_ns, base.run_delay_ns).map(|ns| ns - off_slice_ns),
            switches_voluntary: since(used.switches_voluntary, base.switches_voluntary),
            switches_involuntary: since(used.switches_involuntary, base.switches_involuntary),
            faults_minor: since(used.faults_minor, base.faults_minor),
            faults_major: since(used.faults_major, base.faults_major),
            ..used
        };
        for conn in 0..self.shared.config.connections {
            if self.slots[conn as usize].state == ConnectionState::Up {
                self.connections.established += 1;
                self.add_tcp_counters(conn, driver);
            }
        }
    }

    /// Adds the TCP counters of a connection since the start of the window.
    pub(super) fn add_tcp_counters<D: StreamDriver>(&mut self, conn: ConnId, driver: &mut D) {
        if let Some(counters) = driver.tcp_counters(conn) {
            let since = counters.growth_since(&self.slots[conn as usize].tcp_base);
            self.tcp.get_or_insert_default().add(&since);
        }
    }
}
