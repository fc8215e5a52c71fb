//! One worker: its connections, its share of the schedule, its books.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use dyno_archive::interval::Interval;
use dyno_archive::outcome::Outcome;
use dyno_archive::sample::ThreadUse;
use dyno_archive::times::Times;
use dyno_archive::trial::{Books, Connections, TcpCounters};
use dyno_wire::h1::Error as WireError;
use dyno_wire::h1::response::{Asked, Closed, End, Event};

use crate::driver::{Completion, ConnId, ConnectError, Driver, Turn, What};
use crate::recorder::{Recorder, Window};
use crate::slot::{Answer, Exchange, Slot, State};
use crate::{Instant, Schedule, limits};

/// A request as it goes on the wire.
#[derive(Clone, Debug)]
pub struct Request {
    pub bytes: Arc<[u8]>,
    pub asked: Asked,
}

/// What a right answer is. Every answer is compared, in full.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// `None`: any status from 200 to 399.
    pub status: Option<u16>,
    /// `None`: any body.
    pub body: Option<Arc<[u8]>>,
}

/// What a worker is to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// Connections of this worker, at least 1.
    pub connections: u32,
    /// Requests in flight per connection without waiting for answers, at least 1.
    pub pipeline: u32,
    pub schedule: Schedule,
    /// Requests to start in all; `None`: as many as the window allows.
    pub total: Option<u64>,
    pub request: Request,
    pub expect: Expect,
    /// From the hand-over of a request to the end of its answer.
    pub timeout_ns: u64,
    pub connect_timeout_ns: u64,
    /// After this many requests a connection is closed and a new one opened; `None`: never.
    pub requests_per_connection: Option<u64>,
    pub window: Window,
}

/// What a worker has to tell at its end, beside its intervals.
#[derive(Clone, Debug)]
pub struct Report {
    pub books: Books,
    pub connections: Connections,
    pub tcp: Option<TcpCounters>,
    /// CPU use within the measured window.
    pub cpu: ThreadUse,
    pub residence_ns: u64,
    pub unanswered: Times,
    pub protocol_errors: BTreeMap<String, u64>,
    /// Edges of the measured window, nanoseconds since the load began.
    pub window_ns: (u64, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Stage {
    /// Making the first connections.
    Opening,
    Warmup,
    Measured,
    Drain,
    Finished,
}

/// A pure state machine that turns a schedule into operations and completions into exchanges. Driven by
/// [`crate::run`].
#[derive(Debug)]
pub struct Worker {
    config: Config,
    stage: Stage,
    slots: Vec<Slot>,
    /// Slots with room, in the order in which they fell free. Open loop only.
    idle: VecDeque<ConnId>,
    /// Arrivals that found no slot with room; each keeps its own intended time.
    waiting: VecDeque<Instant>,
    /// Slots that try again at an instant.
    retries: BinaryHeap<Reverse<(Instant, ConnId)>>,
    /// No time-out can be due before this instant.
    next_timeout_check: Instant,
    began: Instant,
    drain_ends: Instant,
    /// Requests started, against `config.total`.
    begun: u64,
    /// Slots that have not been tried while opening.
    untried: usize,
    /// Whether the slots have been offered their first work.
    offered: bool,
    recorder: Recorder,
    connections: Connections,
    tcp: Option<TcpCounters>,
    cpu_base: ThreadUse,
    cpu: ThreadUse,
    /// When control was last handed to the worker.
    woke: Instant,
    protocol_errors: BTreeMap<String, u64>,
}

// Setting up, beginning and ending.
impl Worker {
    #[must_use]
    pub fn new(config: Config) -> Self {
        assert!(config.connections > 0 && config.pipeline > 0 && config.window.interval_ns > 0);
        let asked = config.connections;
        Worker {
            stage: Stage::Opening,
            slots: (0..asked).map(|_| Slot::new()).collect(),
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
            retries: BinaryHeap::new(),
            next_timeout_check: Instant::NEVER,
            began: Instant::NEVER,
            drain_ends: Instant::NEVER,
            begun: 0,
            untried: asked as usize,
            offered: false,
            recorder: Recorder::new(Instant(0), config.window),
            connections: Connections { asked: u64::from(asked), ..Connections::default() },
            tcp: None,
            cpu_base: ThreadUse::default(),
            cpu: ThreadUse::default(),
            woke: Instant::default(),
            protocol_errors: BTreeMap::new(),
            config,
        }
    }

    /// Begins to open all connections, so that the load begins with them in place.
    pub fn open<D: Driver>(&mut self, driver: &mut D) {
        // All first connections are asked for in one go, from this instant.
        let now = driver.now();
        for conn in 0..self.config.connections {
            self.connect(conn, now, driver);
        }
    }

    /// Whether every connection has been tried once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.stage != Stage::Opening || self.untried == 0
    }

    /// The load begins at `at`.
    pub fn begin(&mut self, at: Instant) {
        assert!(self.stage == Stage::Opening, "a load begins once");
        self.stage = Stage::Warmup;
        self.began = at;
        let opening = std::mem::replace(&mut self.recorder, Recorder::new(at, self.config.window));
        self.recorder.inherit(&opening);
    }

    /// Ends the measured window at `at`, or as planned if that is earlier.
    pub fn cut(&mut self, at: Instant) {
        match self.stage {
            Stage::Opening => self.stage = Stage::Finished,
            Stage::Warmup | Stage::Measured => self.recorder.close_window(at),
            Stage::Drain | Stage::Finished => {}
        }
    }

    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    /// Closes what is still open. The driver may be used for another worker afterwards.
    pub fn close<D: Driver>(&mut self, driver: &mut D) {
        for conn in 0..self.config.connections {
            if self.slots[conn as usize].state != State::Down {
                driver.close(conn);
            }
        }
    }

    pub fn take_sealed(&mut self) -> Vec<Interval> {
        self.recorder.take_sealed()
    }

    #[must_use]
    pub fn report(self) -> Report {
        let since = |at: Instant| if at == Instant::NEVER { 0 } else { at.since(self.began) };
        Report {
            window_ns: (since(self.recorder.opens()), since(self.recorder.closes())),
            books: self.recorder.books,
            connections: self.connections,
            tcp: self.tcp,
            cpu: self.cpu,
            residence_ns: self.recorder.residence_ns,
            unanswered: self.recorder.unanswered,
            protocol_errors: self.protocol_errors,
        }
    }
}

// Time.
impl Worker {
    /// When to wake if nothing completes before.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        let mut deadline = self.next_timeout_check;
        if let Some(Reverse((at, _))) = self.retries.peek() {
            deadline = deadline.min(*at);
        }
        match self.stage {
            Stage::Opening if self.untried == 0 => Instant(0),
            // Whoever waits for the connections also wants to hear of a cut.
            Stage::Opening | Stage::Finished => deadline.min(self.woke.after(limits::OPENING_GLANCE_NS)),
            Stage::Warmup if self.woke < self.began => deadline.min(self.began),
            Stage::Warmup | Stage::Measured => {
                let arrival = self.config.schedule.peek().filter(|_| self.is_loading());
                let arrival = arrival.map_or(Instant::NEVER, |ns| self.began.after(ns));
                deadline.min(self.recorder.boundary()).min(self.recorder.closes()).min(arrival)
            }
            Stage::Drain => deadline.min(self.drain_ends),
        }
    }

    /// Control came back: moves the phases on and keeps the two lags.
    pub fn woke<D: Driver>(&mut self, turn: Turn, until: Instant, driver: &mut D) {
        if matches!(self.stage, Stage::Warmup | Stage::Measured) && self.woke >= self.began {
            // From the last wake-up to the hand-over: how long the turn kept every stamp waiting.
            let busy = turn.entered.since(self.woke);
            let interval = self.recorder.current();
            interval.loop_lag.record(busy);
            if turn.woke >= until && until > turn.entered {
                // Only a sleep that ran to its deadline says how late the machine wakes us.
                interval.wake_lag.record(turn.woke.since(until));
            }
        }
        self.woke = turn.woke;
        if matches!(self.stage, Stage::Warmup | Stage::Measured) {
            self.recorder.advance(turn.woke);
        }
        if self.stage == Stage::Warmup && turn.woke >= self.recorder.opens() {
            self.stage = Stage::Measured;
            self.open_window(driver);
        }
        if self.stage == Stage::Measured && turn.woke >= self.recorder.closes() {
            self.stage = Stage::Drain;
            self.drain_ends = turn.woke.after(self.config.window.drain_ns);
            self.close_window(driver);
        }
    }

    /// Starts what is due at `now`, and ends what is overdue.
    pub fn fire<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        if now >= self.next_timeout_check {
            self.check_timeouts(now, driver);
        }
        while let Some(&Reverse((at, conn))) = self.retries.peek() {
            if at > now {
                break;
            }
            self.retries.pop();
            self.slots[conn as usize].backing_off = false;
            self.refill(conn, now, driver);
        }
        if self.is_loading() && now >= self.began {
            if !self.offered {
                self.offered = true;
                (0..self.config.connections).for_each(|conn| self.refill(conn, now, driver));
            }
            self.fire_arrivals(now, driver);
        }
        self.check_finished(now);
    }

    fn is_loading(&self) -> bool {
        matches!(self.stage, Stage::Warmup | Stage::Measured)
            && self.config.total.is_none_or(|total| self.begun < total)
    }

    fn fire_arrivals<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        while self.is_loading() {
            // A turn may reach beyond the window's end; the schedule does not.
            let last_ns = Instant(self.recorder.closes().0 - 1).since(self.began);
            let Some(due) = self.config.schedule.pop_due(now.since(self.began).min(last_ns)) else { break };
            let intended = self.began.after(due);
            self.recorder.scheduled(intended);
            self.begun += 1;
            if let Some(conn) = self.idle.pop_front() {
                self.slots[conn as usize].idle = false;
                self.recorder.started(intended, now);
                self.assign(conn, intended, now, driver);
                self.offer(conn);
            } else if self.waiting.len() < limits::WAITING {
                self.recorder.started(intended, now);
                self.waiting.push_back(intended);
            } else {
                self.recorder.dropped(intended);
            }
        }
    }

    fn check_timeouts<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        let mut next = Instant::NEVER;
        for conn in 0..self.config.connections {
            let slot = &self.slots[conn as usize];
            let due = match (slot.state, slot.in_flight.front()) {
                (State::Connecting { since }, _) => since.after(self.config.connect_timeout_ns),
                (State::Up, Some(first)) if first.sent != Instant::NEVER => {
                    first.sent.after(self.config.timeout_ns)
                }
                _ => continue,
            };
            if due > now {
                next = next.min(due);
            } else if slot.state == State::Up {
                self.fail(conn, Outcome::Timeout, Outcome::Cancelled, now, driver);
            } else {
                self.fail(conn, Outcome::ConnectTimeout, Outcome::ConnectTimeout, now, driver);
            }
        }
        // What starts from now on can be due no earlier than a full limit away.
        let soonest = self.config.timeout_ns.min(self.config.connect_timeout_ns);
        // Looking again only after a thousandth of it keeps many time-outs in a row from costing a look at every
        // slot each; a time-out counts at no less than its limit, so it may be late.
        self.next_timeout_check = next.min(now.after(soonest)).max(now.after(soonest / 1000));
    }

    fn check_finished(&mut self, now: Instant) {
        let answered = self.recorder.in_flight() == 0;
        let asked_for_all = self.config.total.is_some_and(|total| self.begun >= total);
        match self.stage {
            Stage::Warmup | Stage::Measured if asked_for_all && answered => self.recorder.close_window(now),
            Stage::Drain if answered || now >= self.drain_ends => self.finish(now),
            _ => {}
        }
    }

    fn finish(&mut self, now: Instant) {
        self.stage = Stage::Finished;
        for intended in std::mem::take(&mut self.waiting) {
            self.recorder.unanswered(intended, now);
        }
        for slot in &mut self.slots {
            for exchange in std::mem::take(&mut slot.in_flight) {
                self.recorder.unanswered(exchange.intended, now);
            }
        }
        self.recorder.finish(now);
    }

    /// The measured window opens: counters that the kernel keeps are read as its base.
    fn open_window<D: Driver>(&mut self, driver: &mut D) {
        for (conn, slot) in self.slots.iter_mut().enumerate().filter(|(_, s)| s.state == State::Up) {
            slot.tcp_base = driver.tcp(conn as ConnId).unwrap_or_default();
        }
        self.cpu_base = driver.thread_use();
    }

    fn close_window<D: Driver>(&mut self, driver: &mut D) {
        let used = driver.thread_use();
        let base = &self.cpu_base;
        self.cpu = ThreadUse {
            run_ns: used.run_ns - base.run_ns,
            user_ns: used.user_ns - base.user_ns,
            sys_ns: used.sys_ns - base.sys_ns,
            run_delay_ns: used.run_delay_ns.zip(base.run_delay_ns).map(|(a, b)| a - b),
            switches_voluntary: used.switches_voluntary.zip(base.switches_voluntary).map(|(a, b)| a - b),
            switches_involuntary: used
                .switches_involuntary
                .zip(base.switches_involuntary)
                .map(|(a, b)| a - b),
            ..used
        };
        for conn in 0..self.config.connections {
            if self.slots[conn as usize].state == State::Up {
                self.connections.established += 1;
                self.add_tcp(conn, driver);
            }
        }
    }

    fn add_tcp<D: Driver>(&mut self, conn: ConnId, driver: &mut D) {
        if let Some(counters) = driver.tcp(conn) {
            let since = counters.since(&self.slots[conn as usize].tcp_base);
            self.tcp.get_or_insert_default().add(&since);
        }
    }
}

// Connections and exchanges.
impl Worker {
    /// Bytes were handed to the kernel at `at`, which the driver read just before.
    pub fn handed(&mut self, conn: ConnId, at: Instant) {
        self.slots[conn as usize].handed(at);
        self.next_timeout_check = self.next_timeout_check.min(at.after(self.config.timeout_ns));
    }

    pub fn complete<D: Driver>(&mut self, completion: Completion, driver: &mut D) {
        // The completion's own instant: everything that follows from it happened then.
        let Completion { conn, at: now, .. } = completion;
        match completion.what {
            What::Connected => self.connected(conn, now, driver),
            What::ConnectFailed(error) => {
                let outcome = connect_outcome(error);
                self.fail(conn, outcome, outcome, now, driver);
            }
            What::Received => self.received(conn, now, driver),
            What::Eof => self.eof(conn, now, driver),
            What::Reset => {
                self.connections.closed_by_server += 1;
                self.fail(conn, Outcome::Reset, Outcome::Reset, now, driver);
            }
        }
    }

    fn connect<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        // The attempt begins here; what the kernel and the peer take is the connect time.
        self.slots[conn as usize].state = State::Connecting { since: now };
        self.next_timeout_check = self.next_timeout_check.min(now.after(self.config.connect_timeout_ns));
        driver.connect(conn);
    }

    fn connected<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        self.tried();
        self.connections.opened += 1;
        let slot = &mut self.slots[conn as usize];
        if let State::Connecting { since } = slot.state {
            self.recorder.current().connect.record(now.since(since));
        }
        slot.state = State::Up;
        slot.tcp_base = TcpCounters::default();
        slot.unsent = slot.in_flight.len();
        slot.served = slot.unsent as u64;
        for _ in 0..slot.unsent {
            self.recorder.current().bytes_sent += self.config.request.bytes.len() as u64;
            driver.send(conn, &self.config.request.bytes);
        }
        self.refill(conn, now, driver);
    }

    fn tried(&mut self) {
        self.untried = self.untried.saturating_sub(1);
    }

    /// Uses the slot's room: for arrivals that wait, or, in a closed loop, for new exchanges.
    fn refill<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        if self.stage == Stage::Opening || now < self.began {
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

    /// Whether a slot that falls free in a closed loop takes another request.
    fn takes_next(&self, now: Instant) -> bool {
        matches!(self.config.schedule, Schedule::Closed) && self.is_loading() && now < self.recorder.closes()
    }

    /// Lists the slot as idle if it has room and an open-loop arrival could use it.
    fn offer(&mut self, conn: ConnId) {
        let wanted = !matches!(self.config.schedule, Schedule::Closed) && self.has_room(conn);
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
            && self.config.requests_per_connection.is_none_or(|most| served < most)
    }

    /// Gives an exchange to a slot that has room.
    fn assign<D: Driver>(&mut self, conn: ConnId, intended: Instant, now: Instant, driver: &mut D) {
        let slot = &mut self.slots[conn as usize];
        slot.in_flight.push_back(Exchange { intended, sent: Instant::NEVER, first_byte: Instant::NEVER });
        match slot.state {
            State::Up => {
                slot.unsent += 1;
                slot.served += 1;
                self.recorder.current().bytes_sent += self.config.request.bytes.len() as u64;
                driver.send(conn, &self.config.request.bytes);
            }
            State::Down => self.connect(conn, now, driver),
            State::Connecting { .. } => {}
        }
    }

    fn received<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        self.recorder.current().bytes_received += driver.bytes().len() as u64;
        match self.read(conn, now, driver.bytes()) {
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
    fn read(&mut self, conn: ConnId, now: Instant, mut bytes: &[u8]) -> Result<Read, WireError> {
        let slot = &mut self.slots[conn as usize];
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
            let (used, event) = slot.reader.next(bytes, self.config.request.asked)?;
            bytes = &bytes[used..];
            match event {
                Event::NeedMore => break,
                Event::Informational(head) => {
                    self.recorder.current().outcomes.count_status(head.status);
                }
                Event::Head(head) => slot.answer = Answer { status: head.status, ..Answer::default() },
                Event::Body(data) => {
                    self.recorder.current().body_received += data.len() as u64;
                    slot.answer.see_body(data, self.config.expect.body.as_deref());
                }
                Event::End(end) => {
                    let exchange = slot.in_flight.pop_front().expect("its front was looked at above");
                    slot.failures = 0;
                    self.recorder.current().outcomes.count_status(slot.answer.status);
                    let outcome = slot.answer.outcome(&self.config.expect);
                    // Done: the last byte had arrived at the completion's instant.
                    self.recorder.ended(&exchange, outcome, now);
                    if end == End::Final {
                        return Ok(Read::ServerEnds);
                    }
                }
            }
        }
        Ok(Read::Open)
    }

    /// After answers were read: goes on with the connection, or replaces it if it has served its share.
    fn answered<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let slot = &self.slots[conn as usize];
        let used_up = self.config.requests_per_connection.is_some_and(|most| slot.served >= most);
        if used_up && slot.in_flight.is_empty() {
            self.connections.closed_by_us += 1;
            self.drop_connection(conn, driver);
        }
        self.refill(conn, now, driver);
    }

    fn eof<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        self.connections.closed_by_server += 1;
        let slot = &mut self.slots[conn as usize];
        match slot.reader.eof() {
            Ok(Closed::BetweenMessages) => {}
            Ok(Closed::EndsMessage) => {
                if let Some(exchange) = slot.in_flight.pop_front() {
                    self.recorder.current().outcomes.count_status(slot.answer.status);
                    let outcome = slot.answer.outcome(&self.config.expect);
                    // Done: the close, which ends this body, had arrived at the completion's instant.
                    self.recorder.ended(&exchange, outcome, now);
                }
            }
            Err(error) => self.name_error(error),
        }
        self.fail(conn, Outcome::ClosedEarly, Outcome::ClosedEarly, now, driver);
    }

    /// The connection is of no more use. What is in flight on it ends: the oldest as `first`, the others as `rest`.
    fn fail<D: Driver>(&mut self, conn: ConnId, first: Outcome, rest: Outcome, now: Instant, driver: &mut D) {
        let failed_to_connect = matches!(self.slots[conn as usize].state, State::Connecting { .. });
        if failed_to_connect {
            self.tried();
        }
        if first == Outcome::Timeout {
            self.connections.closed_by_us += 1;
        }
        self.drop_connection(conn, driver);
        let slot = &mut self.slots[conn as usize];
        let lost = std::mem::take(&mut slot.in_flight);
        if failed_to_connect || !lost.is_empty() {
            slot.failures += 1;
        }
        for (i, exchange) in lost.iter().enumerate() {
            // Done: the failure had happened at the completion's instant, or is our own decision at this instant.
            self.recorder.ended(exchange, if i == 0 { first } else { rest }, now);
        }
        self.retry(conn, now, driver);
    }

    fn drop_connection<D: Driver>(&mut self, conn: ConnId, driver: &mut D) {
        if self.stage == Stage::Measured && self.slots[conn as usize].state == State::Up {
            self.add_tcp(conn, driver);
        }
        driver.close(conn);
        self.slots[conn as usize].disconnected();
    }

    /// Uses the slot again, at once after its first failure and later and later after more of them.
    fn retry<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let slot = &mut self.slots[conn as usize];
        if slot.failures < 2 {
            return self.refill(conn, now, driver);
        }
        let doublings = (slot.failures - 2).min(20);
        let wait = (limits::BACKOFF_MIN_NS << doublings).min(limits::BACKOFF_MAX_NS);
        if !slot.backing_off {
            slot.backing_off = true;
            self.retries.push(Reverse((now.after(wait), conn)));
        }
    }

    fn name_error(&mut self, error: WireError) {
        let name = error.to_string();
        let known = self.protocol_errors.len() < limits::PROTOCOL_ERROR_KINDS
            || self.protocol_errors.contains_key(&name);
        *self.protocol_errors.entry(if known { name } else { "other".into() }).or_default() += 1;
    }
}

/// What reading left the connection as.
enum Read {
    Open,
    /// The last answer said that the connection ends with it.
    ServerEnds,
    /// Bytes came that answer no request.
    Unsolicited,
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

impl Answer {
    /// Compares the next part of the body with the same part of what is expected.
    fn see_body(&mut self, data: &[u8], expected: Option<&[u8]>) {
        let from = self.body_bytes as usize;
        self.body_bytes += data.len() as u64;
        if let Some(expected) = expected {
            self.body_wrong |= expected.get(from..from + data.len()) != Some(data);
        }
    }

    fn outcome(&self, expect: &Expect) -> Outcome {
        let status_right = match expect.status {
            Some(status) => self.status == status,
            None => (200..400).contains(&self.status),
        };
        if !status_right {
            return Outcome::UnexpectedStatus;
        }
        match &expect.body {
            Some(body) if self.body_wrong || self.body_bytes != body.len() as u64 => Outcome::UnexpectedBody,
            _ => Outcome::Ok,
        }
    }
}
