//! Phases, deadlines and what falls due.

use std::cmp::Reverse;

use dyno_archive::outcome::Outcome;
use dyno_archive::sample::ThreadUse;

use super::pages::Pages;
use super::streams::TimeoutCheck;
use super::{Rest, SpinPolicy, Stage, Worker};
use crate::driver::{ConnId, Driver, Turn, Wait};
use crate::slot::{ConnectionState, Exchange, ProtocolState, Slot};
use crate::{Instant, limits};

impl Worker {
    /// Until when to wait if nothing completes before, and how.
    #[must_use]
    pub fn wait(&self) -> Wait {
        let until = self.deadline();
        let spin_from = match self.config.spin {
            SpinPolicy::Always => Instant(0),
            SpinPolicy::Near if matches!(self.stage, Stage::Warmup | Stage::Measured) => {
                // Polling pays where a request must leave on time, and where a response may come
                // any moment: for a while after the last hand-over the wait is all polling.
                let due = until.0.saturating_sub(limits::SPIN_AHEAD_NS);
                let answer_due = self.recorder.in_flight() > 0
                    && self.woke < self.last_handed.plus(limits::SPIN_AFTER_NS);
                if answer_due { Instant(0) } else { Instant(due) }
            }
            SpinPolicy::Never | SpinPolicy::Near => Instant::NEVER,
        };
        let until = if spin_from == Instant(0) && self.config.spin == SpinPolicy::Near {
            // No completion arrived: back to sleep.
            until.min(self.last_handed.plus(limits::SPIN_AFTER_NS))
        } else {
            until
        };
        let is_in_flight = self.recorder.in_flight() > 0;
        let glance_ns = if is_in_flight { limits::GLANCE_IN_FLIGHT_NS } else { limits::GLANCE_NS };
        // Not a deadline of the load, so nothing polls for it.
        Wait { until: until.min(self.woke.plus(glance_ns)), spin_from }
    }

    /// Whether requests start at instants given beforehand.
    #[must_use]
    pub fn has_schedule(&self) -> bool {
        !self.config.schedule.is_closed()
    }

    /// When to wake if nothing completes before.
    fn deadline(&self) -> Instant {
        // A request that is handed over in the coming turn cannot be overdue before its limit.
        let mut deadline =
            self.next_timeout_check.min(self.woke.plus(self.config.policy.soonest_timeout_ns()));
        if self.continues.is_some() {
            deadline = deadline.min(self.woke.plus(limits::CONTINUE_NS));
        }
        if let Some(Reverse((at, _))) = self.retries.peek() {
            deadline = deadline.min(*at);
        }
        match self.stage {
            Stage::Opening if self.untried == 0 => Instant(0),
            Stage::Opening | Stage::Finished => deadline,
            Stage::Warmup if self.woke < self.began => deadline.min(self.began),
            Stage::Warmup | Stage::Measured => {
                let arrival = self.config.schedule.peek().filter(|_| self.is_loading());
                let arrival = arrival.map_or(Instant::NEVER, |ns| self.began.plus(ns));
                let slice = if self.offered { self.slice.1 } else { self.slice.0 };
                deadline
                    .min(self.recorder.boundary())
                    .min(self.recorder.closes())
                    .min(arrival)
                    .min(slice)
            }
            Stage::Drain => deadline.min(self.drain_ends),
        }
    }

    /// Control came back: moves the phases on and keeps the two lags.
    pub fn on_wake<D: Driver>(&mut self, turn: Turn, wait: Wait, driver: &mut D) {
        let loading = matches!(self.stage, Stage::Warmup | Stage::Measured);
        let began = self.woke;
        let due = wait.until.max(turn.entered);
        if loading && began >= self.began {
            // From the last wake-up to the hand-over: how long the turn kept every stamp waiting.
            self.recorder.distributions.loop_lag.record(turn.entered.ns_since(began));
            let late_ns = turn.woke.ns_since(due);
            // Only a wait that ran to its deadline says how late the machine wakes us, and a turn
            // without a wait that took as long as no system call does.
            if turn.woke >= due && (due > turn.entered || late_ns > limits::STANDSTILL_NS) {
                self.recorder.distributions.wake_lag.record(late_ns);
            }
        }
        self.woke = turn.woke;
        if !loading {
            return;
        }
        if turn.spun_ns > 0 {
            self.recorder.own_use(self.config.worker).spun_ns += turn.spun_ns;
        }
        if turn.woke >= self.recorder.closes() {
            // Arrivals due before the end belong to the window, however late the worker woke.
            self.fire_arrivals(Instant(self.recorder.closes().0 - 1), driver);
        }
        if self.recorder.is_over(turn.woke) {
            self.seal(turn.woke, driver);
        }
        if self.stage == Stage::Warmup && turn.woke >= self.recorder.window_start() {
            self.stage = Stage::Measured;
            self.open_window(driver);
            self.keep_lags_of_window(began, turn, due);
        }
        if self.stage == Stage::Measured && turn.woke >= self.recorder.closes() {
            self.stage = Stage::Drain;
            self.drain_ends = turn.woke.plus(self.config.window.drain_ns);
            self.close_window(driver);
        }
    }

    /// Lags count in the interval in which they began. Of a long one that began in the warm-up, the
    /// part after the window's opening counts in the window, too. `due`: when the wait was to end.
    fn keep_lags_of_window(&mut self, began: Instant, turn: Turn, due: Instant) {
        let opens = self.recorder.window_start();
        let part = |from: Instant, to: Instant| to.ns_since(from.max(opens).min(to));
        let (turned_ns, late_ns) = (part(began, turn.entered), part(due, turn.woke));
        let lags = &mut self.recorder.distributions;
        if turned_ns > limits::STANDSTILL_NS {
            lags.loop_lag.record(turned_ns);
        }
        if late_ns > limits::STANDSTILL_NS {
            lags.wake_lag.record(late_ns);
        }
    }

    /// An interval is over: adds what is known only now, and seals it.
    fn seal<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        // Read at the end of the interval: what the thread used since the last one.
        let run_ns = driver.thread_run_ns();
        let used_ns = run_ns - self.cpu_settled_ns;
        self.cpu_settled_ns = run_ns;
        self.recorder.own_use(self.config.worker).run_ns += used_ns;
        self.settle_sent(driver);
        self.recorder.current().connections_open = self.up;
        self.recorder.advance(now);
    }

    /// Adds what has left since the last time to the current interval.
    fn settle_sent<D: Driver>(&mut self, driver: &D) {
        let sent = driver.sent_bytes();
        self.recorder.current().bytes_sent += sent - self.sent_settled;
        self.sent_settled = sent;
    }

    /// Starts what is due at `now`, and ends what is overdue.
    pub fn fire<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        if now >= self.next_timeout_check {
            self.check_timeouts(now, driver);
        }
        self.fire_retries(now, driver);
        self.end_broken(now, driver);
        // Even if the window is over by now: what fell due in it waits for a slot.
        if now >= self.slice.1 {
            self.await_slice(now);
            self.rest.begin(driver.thread_use().run_delay_ns);
        }
        if !self.offered && self.stage != Stage::Opening && now >= self.began.max(self.slice.0) {
            self.offered = true;
            if self.takes_turns() {
                self.rest.end(driver.thread_use().run_delay_ns);
            }
            (0..self.config.connections).for_each(|conn| self.refill(conn, now, driver));
        }
        if self.is_loading() && now >= self.began {
            self.fire_arrivals(now, driver);
        }
        self.check_finished(now, driver);
    }

    /// Whether the load runs only in its own slices.
    fn takes_turns(&self) -> bool {
        self.slice.1 != Instant::NEVER
    }

    /// Looks up the slice that is not over at `now`. Its slots are offered work once it begins.
    pub(super) fn await_slice(&mut self, now: Instant) {
        if let Some((from, to)) = self.config.schedule.slice(now.ns_since(self.began)) {
            self.slice = (self.began.plus(from), self.began.plus(to));
            self.offered = false;
        }
    }

    fn fire_retries<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        while let Some(&Reverse((at, conn))) = self.retries.peek() {
            if at > now {
                break;
            }
            self.retries.pop();
            self.slots[conn as usize].backing_off = false;
            if self.config.policy.ramp_ns.is_some()
                && self.slots[conn as usize].state == ConnectionState::Down
                && self.is_loading()
            {
                // A connection that is opened in its turn comes first, and its first request with
                // it being up.
                self.connect(conn, now, driver);
            } else {
                self.refill(conn, now, driver);
            }
        }
    }

    /// Connections whose session took no more data end here, where nothing else is being done with
    /// them.
    fn end_broken<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        while let Some(conn) = self.broken.pop() {
            self.handshake_failed(conn, "the session encrypts no more", now, driver);
        }
    }

    pub(super) fn is_loading(&self) -> bool {
        matches!(self.stage, Stage::Warmup | Stage::Measured)
            && self.config.total.is_none_or(|total| self.begun < total)
    }

    /// Whether the schedule of an open loop has another request for this load.
    pub(super) fn has_arrivals_to_come(&self, now: Instant) -> bool {
        let closes = self.recorder.closes();
        let next = self.config.schedule.peek().filter(|_| self.is_loading() && now < closes);
        next.is_some_and(|ns| self.began.plus(ns) < closes)
    }

    fn fire_arrivals<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        while self.is_loading() {
            // A turn may reach beyond the window's end; the schedule does not.
            let last_ns = Instant(self.recorder.closes().0 - 1).ns_since(self.began);
            let Some(due) = self.config.schedule.pop_due(now.ns_since(self.began).min(last_ns))
            else {
                break;
            };
            let intended = self.began.plus(due);
            self.recorder.record_scheduled(intended);
            self.begun += 1;
            if let Some(conn) = self.take_idle() {
                self.recorder.record_start(intended, now);
                self.assign(conn, intended, now, driver);
                self.push_out(conn, driver);
                self.offer(conn);
            } else if self.waiting.len() < limits::WAITING {
                self.recorder.record_start(intended, now);
                self.waiting.push_back(intended);
            } else {
                let request = self.config.traffic.choose(&mut self.config.draws);
                self.recorder.record_drop(intended, request);
            }
        }
    }

    fn check_timeouts<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        let policy = self.config.policy;
        let mut next = Instant::NEVER;
        for conn in 0..self.config.connections {
            if let (ConnectionState::Up, ProtocolState::H2(_)) =
                (self.slots[conn as usize].state, &self.slots[conn as usize].talk)
            {
                next = next.min(self.send_overdue_streams(conn, now));
                match self.check_streams(conn, now) {
                    TimeoutCheck::Alive(due) => {
                        next = next.min(due);
                        // The cancelled stream made room, or was the last activity that was
                        // possible on the connection.
                        self.continue_or_replace(conn, now, driver);
                    }
                    TimeoutCheck::Silent(outcome) => {
                        self.give_up(conn, outcome, Outcome::Cancelled, now, driver);
                    }
                    TimeoutCheck::Shut => {
                        let refused = Outcome::StreamRefused;
                        let assigned = std::mem::take(&mut self.slots[conn as usize].assigned);
                        for exchange in assigned {
                            // Done: our own decision at this instant.
                            self.on_exchange_end(conn, &exchange, refused, now, None);
                        }
                        self.give_up(conn, refused, refused, now, driver);
                    }
                }
                continue;
            }
            if self.continues.is_some() {
                next = next.min(self.send_overdue_body(conn, now, driver));
            }
            let Some((due, outcome)) = self.next_timeout(conn) else { continue };
            if due > now {
                next = next.min(due);
            } else {
                let rest =
                    if outcome == Outcome::ConnectTimeout { outcome } else { Outcome::Cancelled };
                if outcome.is_timeout()
                    && let Some(progress) = self.slots[conn as usize].response_progress()
                {
                    progress.count(&mut self.timeouts);
                }
                self.fail(conn, outcome, rest, now, driver);
            }
        }
        // A request that starts from now on cannot be overdue before a full limit has passed.
        let mut soonest = policy.soonest_timeout_ns();
        if self.continues.is_some() {
            soonest = soonest.min(limits::CONTINUE_NS);
        }
        // Looking again only after a thousandth of it keeps many time-outs in a row from costing a
        // look at every slot each; a time-out counts at no less than its limit, so it may be late.
        self.next_timeout_check = next.min(now.plus(soonest)).max(now.plus(soonest / 1000));
    }

    /// When a slot's connection or its oldest exchange times out, and as what.
    fn next_timeout(&self, conn: ConnId) -> Option<(Instant, Outcome)> {
        let policy = &self.config.policy;
        let slot = &self.slots[conn as usize];
        match slot.state {
            ConnectionState::Down => None,
            ConnectionState::Connecting { since } => {
                Some((since.plus(policy.connect_timeout_ns), Outcome::ConnectTimeout))
            }
            ConnectionState::Securing { connecting_since: since, .. }
            | ConnectionState::Greeting { connecting_since: since } => {
                Some((since.plus(policy.connect_timeout_ns), Outcome::ConnectTimeout))
            }
            ConnectionState::Up => match &slot.talk {
                ProtocolState::H1(h1) => Some(policy.due(h1.in_flight.front()?)),
                ProtocolState::H2(_) => None,
            },
        }
    }

    fn check_finished<D: Driver>(&mut self, now: Instant, driver: &D) {
        let answered = self.recorder.in_flight() == 0;
        // A schedule may end before the number that was asked for.
        let ran_out = self.has_schedule() && self.config.schedule.peek().is_none();
        let asked_for_all = self.config.total.is_some_and(|total| ran_out || self.begun >= total);
        match self.stage {
            Stage::Warmup | Stage::Measured if asked_for_all && answered => {
                self.recorder.close_window(now);
            }
            Stage::Drain if answered || now >= self.drain_ends => self.finish(now, driver),
            _ => {}
        }
    }

    fn finish<D: Driver>(&mut self, now: Instant, driver: &D) {
        self.stage = Stage::Finished;
        self.settle_sent(driver);
        for intended in std::mem::take(&mut self.waiting) {
            let request = self.config.traffic.choose(&mut self.config.draws);
            self.recorder.record_unanswered(&Exchange::new(intended, request), now);
        }
        for (intended, request) in self.pages.iter().flat_map(Pages::waiting) {
            self.recorder.record_unanswered(&Exchange::new(intended, request), now);
        }
        for began in self.pages.iter().flat_map(Pages::unfinished_pages) {
            self.recorder.page_unfinished(began);
        }
        for slot in &mut self.slots {
            slot.is_owed = slot.in_flight() > 0;
            for exchange in
                slot.take_in_flight().into_iter().chain(std::mem::take(&mut slot.assigned))
            {
                self.recorder.record_unanswered(&exchange, now);
            }
        }
        self.recorder.finish(now);
    }

    /// The measured window opens: counters that the kernel keeps are read as its base.
    fn open_window<D: Driver>(&mut self, driver: &mut D) {
        for (conn, slot) in
            self.slots.iter_mut().enumerate().filter(|(_, s)| s.state == ConnectionState::Up)
        {
            slot.tcp_base = driver.tcp(conn as ConnId).unwrap_or_default();
        }
        if !self.has_schedule() {
            let waiting = self.pages.iter().flat_map(Pages::waiting).map(|(intended, _)| intended);
            self.recorder.carry_in(self.slots.iter().flat_map(Slot::under_way).chain(waiting));
        }
        self.cpu_base = driver.thread_use();
        self.rest = Rest::default();
        if self.takes_turns() && !self.offered {
            self.rest.begin(self.cpu_base.run_delay_ns);
        }
        self.frames_base = self.frames.clone();
    }

    fn close_window<D: Driver>(&mut self, driver: &mut D) {
        self.frames_used = self.frames.growth_since(&self.frames_base);
        let used = driver.thread_use();
        self.rest.end(used.run_delay_ns);
        let rested_ns = self.rest.waited_ns;
        let base = &self.cpu_base;
        let since =
            |now: Option<u64>, then: Option<u64>| now.zip(then).map(|(now, then)| now - then);
        self.cpu = ThreadUse {
            run_ns: used.run_ns - base.run_ns,
            user_ns: used.user_ns - base.user_ns,
            sys_ns: used.sys_ns - base.sys_ns,
            run_delay_ns: since(used.run_delay_ns, base.run_delay_ns).map(|ns| ns - rested_ns),
            switches_voluntary: since(used.switches_voluntary, base.switches_voluntary),
            switches_involuntary: since(used.switches_involuntary, base.switches_involuntary),
            faults_minor: since(used.faults_minor, base.faults_minor),
            faults_major: since(used.faults_major, base.faults_major),
            ..used
        };
        for conn in 0..self.config.connections {
            if self.slots[conn as usize].state == ConnectionState::Up {
                self.connections.established += 1;
                self.add_tcp(conn, driver);
            }
        }
    }

    pub(super) fn add_tcp<D: Driver>(&mut self, conn: ConnId, driver: &mut D) {
        if let Some(counters) = driver.tcp(conn) {
            let since = counters.growth_since(&self.slots[conn as usize].tcp_base);
            self.tcp.get_or_insert_default().add(&since);
        }
    }
}
