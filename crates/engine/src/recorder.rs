//! Keeps what the exchanges took, in intervals, and the books.

use dyno_archive::interval::{Interval, Phase};
use dyno_archive::outcome::Outcome;
use dyno_archive::times::Times;
use dyno_archive::trial::Books;

use crate::Instant;
use crate::slot::Exchange;

/// The phases of a load, in nanoseconds since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub warmup_ns: u64,
    /// `None`: until the asked number of requests has ended.
    pub duration_ns: Option<u64>,
    /// Length of an interval, above zero.
    pub interval_ns: u64,
    /// How long after the window exchanges may still end.
    pub drain_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    began: Instant,
    interval_ns: u64,
    /// Edges of the measured window.
    opens: Instant,
    closes: Instant,
    current: Interval,
    sealed: Vec<Interval>,
    in_flight: u64,
    /// The latest instant for which anything was scheduled.
    latest: Instant,
    /// Up to here the time in flight has been added to the current interval.
    settled: Instant,
    pub(crate) books: Books,
    pub(crate) residence_ns: u64,
    pub(crate) unanswered: Times,
}

impl Recorder {
    pub(crate) fn new(began: Instant, window: Window) -> Self {
        let opens = began.after(window.warmup_ns);
        let closes = window.duration_ns.map_or(Instant::NEVER, |d| opens.after(d));
        let mut recorder = Recorder {
            began,
            interval_ns: window.interval_ns,
            opens,
            closes,
            current: Interval::new(Phase::Warmup, 0, 0),
            sealed: Vec::new(),
            in_flight: 0,
            latest: Instant::default(),
            settled: began,
            books: Books::default(),
            residence_ns: 0,
            unanswered: Times::new(),
        };
        recorder.current = recorder.interval_from(began);
        recorder
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(crate) fn opens(&self) -> Instant {
        self.opens
    }

    pub(crate) fn closes(&self) -> Instant {
        self.closes
    }

    /// Ends the measured window at `at`, if it was to end later. A window that is cut holds everything that has been
    /// scheduled in it already: a worker may learn of the cut after its instant.
    pub(crate) fn close_window(&mut self, at: Instant) {
        let at = at.max(self.latest.after(1));
        if at < self.closes {
            self.opens = self.opens.min(at);
            self.closes = at;
            let end_ns = at.since(self.began).max(self.current.start_ns);
            self.current.end_ns = self.current.end_ns.min(end_ns);
        }
    }

    /// End of the interval that is being filled.
    pub(crate) fn boundary(&self) -> Instant {
        self.began.after(self.current.end_ns)
    }

    /// Seals every interval that ended by `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
        while now >= self.boundary() && self.current.phase != Phase::Drain {
            let end = self.boundary();
            self.settle(end);
            let next = self.interval_from(end);
            self.sealed.push(std::mem::replace(&mut self.current, next));
        }
    }

    /// Takes over the connect times of before the load began.
    pub(crate) fn inherit(&mut self, before: &Recorder) {
        self.current.connect.add(&before.current.connect);
    }

    pub(crate) fn take_sealed(&mut self) -> Vec<Interval> {
        std::mem::take(&mut self.sealed)
    }

    /// Seals what is left at the very end.
    pub(crate) fn finish(&mut self, now: Instant) {
        self.close_window(now);
        self.advance(now);
        self.settle(now);
        self.current.end_ns = now.since(self.began).max(self.current.start_ns);
        let next = Interval::new(Phase::Drain, self.current.end_ns, self.current.end_ns);
        self.sealed.push(std::mem::replace(&mut self.current, next));
    }

    pub(crate) fn current(&mut self) -> &mut Interval {
        &mut self.current
    }

    pub(crate) fn scheduled(&mut self, intended: Instant) {
        self.latest = self.latest.max(intended);
        if self.is_measured(intended) {
            self.books.scheduled += 1;
        }
    }

    pub(crate) fn dropped(&mut self, intended: Instant) {
        self.current.dropped += 1;
        if self.is_measured(intended) {
            self.books.dropped += 1;
        }
    }

    /// An exchange was taken on at `now`; it counts as in flight since it was intended.
    pub(crate) fn started(&mut self, intended: Instant, now: Instant) {
        self.settle(now);
        self.current.started += 1;
        self.in_flight += 1;
        // The part of its life before we noticed it. After a long stall it may have begun in an earlier interval; it
        // counts in this one, so that the window's sum is right.
        let phase_began = if self.current.phase == Phase::Warmup { self.began } else { self.opens };
        self.current.in_flight_ns += now.since(intended.max(phase_began));
        if self.is_measured(intended) {
            self.books.started += 1;
        }
    }

    /// An exchange ended at `done`.
    pub(crate) fn ended(&mut self, exchange: &Exchange, outcome: Outcome, done: Instant) {
        self.settle(done);
        self.in_flight -= 1;
        self.residence_ns += self.within_window(exchange.intended, done);
        if self.phase_of(exchange.intended) != self.current.phase.min(Phase::Measured) {
            self.current.carried.count(outcome);
            if !self.is_measured(exchange.intended) {
                return;
            }
        } else {
            self.current.outcomes.count(outcome);
        }
        if self.is_measured(exchange.intended) {
            if outcome.is_completed() {
                self.books.completed += 1;
            } else {
                self.books.failed += 1;
            }
        }
        self.record_times(exchange, outcome, done);
    }

    /// An exchange is left unanswered when everything ends: its age is a lower bound of its response time.
    pub(crate) fn unanswered(&mut self, intended: Instant, now: Instant) {
        self.residence_ns += self.within_window(intended, now);
        if self.is_measured(intended) {
            self.books.in_flight_at_end += 1;
            self.unanswered.record(now.since(intended));
        }
    }

    /// Only answers that met expectations have times, and time-outs, which count at no less than their limit.
    /// Failures that end fast would otherwise make a failing server look quick.
    fn record_times(&mut self, exchange: &Exchange, outcome: Outcome, done: Instant) {
        if !matches!(outcome, Outcome::Ok | Outcome::Timeout) {
            return;
        }
        let times = &mut self.current.times;
        times.response.record(done.since(exchange.intended));
        if exchange.sent == Instant::NEVER {
            return;
        }
        assert!(exchange.sent >= exchange.intended, "a request was sent before it was intended");
        times.send_lag.record(exchange.sent.since(exchange.intended));
        times.service.record(done.since(exchange.sent));
        if exchange.first_byte != Instant::NEVER {
            times.first_byte.record(exchange.first_byte.since(exchange.sent));
        }
    }

    fn interval_from(&self, start: Instant) -> Interval {
        let (phase, phase_ends) = if start < self.opens {
            (Phase::Warmup, self.opens)
        } else if start < self.closes {
            (Phase::Measured, self.closes)
        } else {
            (Phase::Drain, Instant::NEVER)
        };
        let end = start.after(self.interval_ns).min(phase_ends);
        Interval::new(phase, start.since(self.began), end.since(self.began))
    }

    fn phase_of(&self, intended: Instant) -> Phase {
        if intended < self.opens { Phase::Warmup } else { Phase::Measured }
    }

    fn is_measured(&self, intended: Instant) -> bool {
        intended >= self.opens && intended < self.closes
    }

    fn within_window(&self, from: Instant, to: Instant) -> u64 {
        to.min(self.closes).since(from.max(self.opens))
    }

    fn settle(&mut self, now: Instant) {
        self.current.in_flight_ns += self.in_flight * now.since(self.settled);
        self.settled = self.settled.max(now);
    }
}
