//! Keeps what the exchanges took, in intervals, and the books.

use std::collections::BTreeMap;

use dyno_archive::interval::{ExchangeTimes, Interval, Phase, RequestShare, WorkerUse};
use dyno_archive::load::{Books, Edges, UnansweredAges};
use dyno_archive::outcome::{Outcome, Outcomes};
use dyno_archive::silence::{self, Silence};
use dyno_archive::times::Recording;

use crate::slot::Exchange;
use crate::{Instant, limits};

/// The lengths of a load's phases and intervals, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Length of the warm-up, which comes first.
    pub warmup_ns: u64,
    /// Length of the measured window. `None`: it ends with the last of the requests that were asked
    /// for.
    pub duration_ns: Option<u64>,
    /// Length of an interval, above 0.
    pub interval_ns: u64,
    /// Time after the window in which exchanges may still end, nanoseconds.
    pub drain_ns: u64,
}

/// The distributions of the interval that is being filled.
#[derive(Debug, Default)]
pub(crate) struct Distributions {
    response: Recording,
    service: Recording,
    send_lag: Recording,
    first_byte: Recording,
    pub(crate) connect: Recording,
    pub(crate) tls_handshake: Recording,
    pub(crate) window_stall: Recording,
    page: Recording,
    pub(crate) loop_lag: Recording,
    pub(crate) wake_lag: Recording,
    intended_gap: Recording,
    send_gap: Recording,
    kernel_response: Recording,
    /// By the request's index. Empty if there is only one, or more than
    /// [`limits::REQUESTS_TOLD_APART`].
    by_request: Vec<RequestDistributions>,
}

/// The results of one request of a mix in the interval that is being filled.
#[derive(Debug, Default)]
struct RequestDistributions {
    outcomes: Outcomes,
    carried_ok: u64,
    response: Recording,
    service: Recording,
    never_ended: u64,
    longest_failure_ns: u64,
}

impl Distributions {
    fn new(kinds: usize) -> Distributions {
        let shares = if (2..=limits::REQUESTS_TOLD_APART).contains(&kinds) { kinds } else { 0 };
        Distributions {
            by_request: std::iter::repeat_with(RequestDistributions::default)
                .take(shares)
                .collect(),
            ..Distributions::default()
        }
    }

    /// Moves everything into `interval`.
    fn seal_into(&mut self, interval: &mut Interval) {
        interval.times = ExchangeTimes {
            response: self.response.seal(),
            service: self.service.seal(),
            send_lag: self.send_lag.seal(),
            first_byte: self.first_byte.seal(),
        };
        interval.connect = self.connect.seal();
        interval.tls_handshake = self.tls_handshake.seal();
        interval.window_stall = self.window_stall.seal();
        interval.page = self.page.seal();
        interval.loop_lag = self.loop_lag.seal();
        interval.wake_lag = self.wake_lag.seal();
        interval.intended_gap = self.intended_gap.seal();
        interval.send_gap = self.send_gap.seal();
        interval.kernel_response = self.kernel_response.seal();
        interval.by_request = self.by_request.iter_mut().map(RequestDistributions::seal).collect();
    }
}

impl RequestDistributions {
    fn seal(&mut self) -> RequestShare {
        RequestShare {
            outcomes: std::mem::take(&mut self.outcomes),
            carried_ok: std::mem::take(&mut self.carried_ok),
            response: self.response.seal(),
            service: self.service.seal(),
            never_ended: std::mem::take(&mut self.never_ended),
            longest_failure_ns: std::mem::take(&mut self.longest_failure_ns),
        }
    }
}

/// The ages of what got no correct response, while they are being collected. Memory is taken for a
/// class when it first occurs.
#[derive(Debug, Default)]
struct Ages {
    by_name: BTreeMap<&'static str, Recording>,
    longest_service_ns: u64,
}

impl Ages {
    fn record(&mut self, name: &'static str, age_ns: u64, service_ns: u64) {
        self.by_name.entry(name).or_default().record(age_ns);
        self.longest_service_ns = self.longest_service_ns.max(service_ns);
    }

    fn seal(&mut self) -> UnansweredAges {
        let ages = std::mem::take(&mut self.by_name);
        UnansweredAges {
            ages: ages.iter().map(|(name, ages)| ((*name).into(), ages.to_times())).collect(),
            longest_service_ns: self.longest_service_ns,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Recorder {
    began: Instant,
    interval_ns: u64,
    /// Edges of the measured window.
    opens: Instant,
    closes: Instant,
    /// The window has opened over exchanges that were under way, and they belong to it. Closed loop
    /// only.
    carries: bool,
    /// Counters of the interval that is being filled; its distributions are in `distributions`
    /// until it is sealed.
    current: Interval,
    pub(crate) distributions: Distributions,
    sealed: Vec<Interval>,
    in_flight: u64,
    /// The latest instant for which anything was scheduled.
    latest: Instant,
    /// Up to here the time in flight has been added to the current interval.
    settled: Instant,
    /// Intended time and hand-over of the request that was handed over last.
    last_handed: Option<(Instant, Instant)>,
    /// Complete answers, right or wrong, since the worker began, of whatever phase.
    pub(crate) answers: u64,
    pub(crate) books: Books,
    pub(crate) edges: Edges,
    ages: Ages,
    silences: Silences,
}

/// The stretches without a complete response, while they are being collected.
#[derive(Debug)]
struct Silences {
    /// The last complete response, or the beginning.
    last: Instant,
    /// Since when requests are in flight, or fail one after the other; of no meaning while neither
    /// is so.
    busy: Instant,
    /// The first and the last request since the last complete response that ended without one.
    /// After it the times without requests, such as waits before the next attempt to connect, are
    /// the server's.
    failures: Option<(Instant, Instant)>,
    /// Length from which on a silence is kept, nanoseconds.
    least_ns: u64,
    /// Silences that ended within the window or its drain. The memory is allocated at the start.
    kept: Vec<Silence>,
}

impl Silences {
    fn new(window: Window) -> Silences {
        // A load without a length is at least as long as ten intervals.
        let least_ns = silence::least_ns(window.duration_ns.unwrap_or(10 * window.interval_ns));
        Silences {
            last: Instant::default(),
            busy: Instant::default(),
            failures: None,
            least_ns,
            kept: Vec::with_capacity(limits::SILENCES),
        }
    }

    /// A silence ends. If there are too many, those are forgotten that are shorter than twice the
    /// length.
    #[cold]
    fn keep(&mut self, silence: Silence) {
        while self.kept.len() >= limits::SILENCES {
            self.least_ns *= 2;
            let least_ns = self.least_ns;
            self.kept.retain(|kept| kept.length_ns() >= least_ns);
        }
        if silence.length_ns() >= self.least_ns {
            self.kept.push(silence);
        }
    }
}

impl Recorder {
    /// `kinds` is the number of different requests.
    pub(crate) fn new(began: Instant, window: Window, kinds: usize) -> Self {
        let opens = began.plus(window.warmup_ns);
        let closes = window.duration_ns.map_or(Instant::NEVER, |d| opens.plus(d));
        let mut recorder = Recorder {
            began,
            interval_ns: window.interval_ns,
            opens,
            closes,
            carries: false,
            current: Interval::new(Phase::Warmup, 0, 0),
            distributions: Distributions::new(kinds),
            sealed: Vec::new(),
            in_flight: 0,
            latest: Instant::default(),
            settled: began,
            last_handed: None,
            answers: 0,
            books: Books::default(),
            edges: Edges::default(),
            ages: Ages::default(),
            silences: Silences::new(window),
        };
        recorder.current = recorder.interval_from(began);
        recorder
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(crate) fn window_start(&self) -> Instant {
        self.opens
    }

    pub(crate) fn closes(&self) -> Instant {
        self.closes
    }

    /// The load begins at `at`. What was recorded while connections were made stays in the first
    /// interval.
    pub(crate) fn begin(&mut self, at: Instant, window: Window) {
        self.began = at;
        self.settled = at;
        self.silences.last = at;
        self.opens = at.plus(window.warmup_ns);
        self.closes = window.duration_ns.map_or(Instant::NEVER, |d| self.opens.plus(d));
        self.current = self.interval_from(at);
    }

    /// The window has opened over these exchanges of a closed loop, given by their intended
    /// instants. They belong to it with all of their age: a stall that began in the warm-up would
    /// otherwise take what it held with it.
    pub(crate) fn carry_in(&mut self, under_way: impl Iterator<Item = Instant>) {
        if self.opens >= self.closes {
            // The load was cut before its window: there is nothing to carry anything into.
            return;
        }
        self.carries = true;
        for intended in under_way.filter(|intended| *intended < self.opens) {
            self.books.carried_in += 1;
            self.books.started += 1;
            // Its age as the window opens, which is no part of the window's time in flight.
            self.edges.before_ns += self.opens.ns_since(intended);
        }
    }

    /// Ends the measured window at `at`, if it was to end later. A window that is cut holds
    /// everything that has been scheduled in it already, and every interval that is over: a worker
    /// may learn of the cut after its instant.
    pub(crate) fn close_window(&mut self, at: Instant) {
        let at = at.max(self.latest.plus(1)).max(self.began.plus(self.current.start_ns));
        if at < self.closes {
            self.opens = self.opens.min(at);
            self.closes = at;
            self.current.end_ns = self.current.end_ns.min(at.ns_since(self.began));
        }
    }

    /// End of the interval that is being filled.
    pub(crate) fn boundary(&self) -> Instant {
        self.began.plus(self.current.end_ns)
    }

    /// Whether an interval has ended by `now`.
    #[inline]
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.boundary() && self.current.phase != Phase::Drain
    }

    /// Seals every interval that ended by `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
        while self.is_over(now) {
            let end = self.boundary();
            self.settle(end);
            let next = self.interval_from(end);
            self.seal(next);
        }
    }

    fn seal(&mut self, next: Interval) {
        let mut ended = std::mem::replace(&mut self.current, next);
        self.distributions.seal_into(&mut ended);
        self.sealed.push(ended);
    }

    #[inline]
    pub(crate) fn has_sealed(&self) -> bool {
        !self.sealed.is_empty()
    }

    pub(crate) fn take_sealed(&mut self) -> Vec<Interval> {
        std::mem::take(&mut self.sealed)
    }

    /// Seals what is left at the very end.
    pub(crate) fn finish(&mut self, now: Instant) {
        if self.is_waiting() {
            self.end_silence(now);
            self.silences.last = now;
        }
        if self.in_flight == 0 && self.began != Instant::NEVER {
            // This worker has nothing in flight; other workers may still be waiting.
            self.silences.kept.push(Silence {
                start_ns: self.silences.last.ns_since(self.began),
                busy_ns: Silence::UNKNOWN_END,
                end_ns: Silence::UNKNOWN_END,
                in_flight: 0,
                failures_ns: None,
            });
        }
        self.close_window(now);
        self.advance(now);
        self.settle(now);
        self.current.end_ns = now.ns_since(self.began).max(self.current.start_ns);
        self.seal(Interval::new(Phase::Drain, self.current.end_ns, self.current.end_ns));
    }

    #[inline]
    pub(crate) fn current(&mut self) -> &mut Interval {
        &mut self.current
    }

    pub(crate) fn own_use(&mut self, worker: u32) -> &mut WorkerUse {
        self.current.workers.entry(worker).or_default()
    }

    pub(crate) fn record_scheduled(&mut self, intended: Instant) {
        self.latest = self.latest.max(intended);
        if self.belongs(intended) {
            self.books.scheduled += 1;
        }
    }

    /// An arrival found no room in the queue either. `request`: index of the request that it would
    /// have sent.
    pub(crate) fn record_drop(&mut self, intended: Instant, request: u16) {
        self.current.dropped += 1;
        if self.belongs(intended) {
            self.books.dropped += 1;
            if let Some(share) = self.distributions.by_request.get_mut(usize::from(request)) {
                share.never_ended += 1;
            }
        }
    }

    /// An exchange was taken on at `now`; it counts as in flight since it was intended.
    pub(crate) fn record_start(&mut self, intended: Instant, now: Instant) {
        self.settle(now);
        self.current.started += 1;
        if !self.is_waiting() {
            self.silences.busy = now;
        }
        self.in_flight += 1;
        // The part of its life before we noticed it. After a long stall it may have begun in an
        // earlier interval; it counts in this one, so that the window's sum is right.
        let phase_began = if self.current.phase == Phase::Warmup { self.began } else { self.opens };
        self.current.in_flight_ns += now.ns_since(intended.max(phase_began));
        if self.belongs(intended) {
            self.books.started += 1;
        }
    }

    /// A scheduled request was handed over: how its distance from the one before compares with what
    /// was intended.
    pub(crate) fn record_hand_over(&mut self, exchange: &Exchange) {
        let (intended, sent) = (exchange.intended, exchange.sent);
        // Arrivals that waited for a connection leave in a burst that the server's slowness
        // decided. They are in the send lag; the gaps show them too, as what the server really saw.
        if let Some((last_intended, last_sent)) = self.last_handed.replace((intended, sent))
            && self.belongs(intended)
        {
            self.distributions.intended_gap.record(intended.ns_since(last_intended));
            self.distributions.send_gap.record(sent.ns_since(last_sent));
        }
    }

    /// Counts the status of a whole response with the outcome of its exchange.
    #[inline]
    pub(crate) fn count_status(&mut self, exchange: &Exchange, status: u16) {
        match self.is_of_interval(self.belongs(exchange.intended)) {
            true => self.current.outcomes.count_status(status),
            false => self.current.carried.count_status(status),
        }
    }

    /// Whether an exchange that ends now is of the phase of the current interval, and not carried
    /// into it. `belongs`: it belongs to the measured window.
    #[inline]
    fn is_of_interval(&self, belongs: bool) -> bool {
        let phase = if belongs { Phase::Measured } else { Phase::Warmup };
        phase == self.current.phase.min(Phase::Measured)
    }

    /// An exchange ended at `done`; the kernel had received the last of its answer at
    /// `received_at`, if it was asked.
    #[inline]
    pub(crate) fn record_end(
        &mut self,
        exchange: &Exchange,
        outcome: Outcome,
        done: Instant,
        received_at: Option<Instant>,
    ) {
        self.settle(done);
        if outcome.is_completed() {
            self.answers += 1;
            if done.ns_since(self.silences.last) >= self.silences.least_ns {
                self.end_silence(done);
            }
            self.silences.last = done;
            self.silences.failures = None;
        } else {
            let first = self.silences.failures.map_or(done, |(first, _)| first);
            self.silences.failures = Some((first, done));
        }
        self.in_flight -= 1;
        let belongs = self.belongs(exchange.intended);
        let is_of_interval = self.is_of_interval(belongs);
        let share = self.distributions.by_request.get_mut(usize::from(exchange.request));
        if is_of_interval {
            self.current.outcomes.count(outcome);
        } else {
            self.current.carried.count(outcome);
            if !belongs {
                // It was in flight in a window that it does not belong to, up to this instant.
                self.edges.others_ns += done.ns_since(exchange.intended.max(self.opens));
                if let Some(share) = share {
                    // It arrived in the window, which is what throughput counts.
                    share.carried_ok += u64::from(outcome == Outcome::Ok);
                }
                return;
            }
        }
        if let Some(share) = share {
            share.outcomes.count(outcome);
        }
        if belongs {
            if outcome.is_completed() {
                self.books.completed += 1;
            } else {
                self.books.failed += 1;
            }
        }
        // Only correct responses have times. Failures that end fast would otherwise make a failing
        // server look quick, and those that end late would vanish or be cut off at a limit of ours:
        // they are counted, and rank above every correct response.
        if outcome == Outcome::Ok {
            self.distributions.record_times(exchange, done, received_at);
        } else {
            self.record_failure(exchange, outcome, done, belongs);
        }
    }

    /// Whether the server owes a response, or has just failed to give one.
    #[inline]
    fn is_waiting(&self) -> bool {
        self.in_flight > 0 || self.silences.failures.is_some()
    }

    /// Nothing was complete from the last response up to `at`.
    #[cold]
    fn end_silence(&mut self, at: Instant) {
        if at <= self.opens {
            return;
        }
        let since = |instant: Instant| instant.ns_since(self.began);
        let busy = if self.is_waiting() { self.silences.busy } else { at };
        let silence = Silence {
            start_ns: since(self.silences.last),
            busy_ns: since(busy),
            end_ns: since(at),
            in_flight: self.in_flight,
            failures_ns: self.silences.failures.map(|(first, last)| (since(first), since(last))),
        };
        self.silences.keep(silence);
    }

    /// The silences, in order of time.
    pub(crate) fn take_silences(&mut self) -> Vec<Silence> {
        std::mem::take(&mut self.silences.kept)
    }

    /// An exchange got no correct response: keeps how long it had waited.
    #[cold]
    fn record_failure(
        &mut self,
        exchange: &Exchange,
        outcome: Outcome,
        done: Instant,
        belongs: bool,
    ) {
        // Its whole wait up to its end, of any kind.
        let age_ns = done.ns_since(exchange.intended);
        self.current.longest_failure_ns = self.current.longest_failure_ns.max(age_ns);
        if let Some(share) = self.distributions.by_request.get_mut(usize::from(exchange.request)) {
            share.longest_failure_ns = share.longest_failure_ns.max(age_ns);
        }
        if belongs {
            self.ages.record(outcome.name(), age_ns, service_ns(exchange, done));
        }
    }

    /// A page that was intended at `began` is complete at `done`, or something of it failed.
    pub(crate) fn page_ended(&mut self, began: Instant, done: Instant, is_ok: bool) {
        self.current.pages_completed += u64::from(is_ok);
        if !self.belongs(began) {
            return;
        }
        if is_ok {
            self.distributions.page.record(done.ns_since(began));
        } else {
            self.current.pages_failed += 1;
        }
    }

    /// The load ended before a page that was intended at `began` was complete.
    pub(crate) fn page_unfinished(&mut self, began: Instant) {
        self.current.pages_unfinished += u64::from(self.belongs(began));
    }

    /// An exchange has not ended when everything does: its age is a lower bound of its response
    /// time.
    pub(crate) fn record_unanswered(&mut self, exchange: &Exchange, now: Instant) {
        if !self.belongs(exchange.intended) {
            // In flight up to the end, in a window that it does not belong to.
            self.edges.others_ns += now.ns_since(exchange.intended.max(self.opens));
            return;
        }
        self.books.in_flight_at_end += 1;
        // It has waited from its intended start until now. The rest of its wait is unknown.
        let age_ns = now.ns_since(exchange.intended);
        self.ages.record(UnansweredAges::AT_END, age_ns, service_ns(exchange, now));
        self.current.longest_failure_ns = self.current.longest_failure_ns.max(age_ns);
        if let Some(share) = self.distributions.by_request.get_mut(usize::from(exchange.request)) {
            share.never_ended += 1;
            share.longest_failure_ns = share.longest_failure_ns.max(age_ns);
        }
    }

    pub(crate) fn take_unanswered(&mut self) -> UnansweredAges {
        self.ages.seal()
    }

    fn interval_from(&self, start: Instant) -> Interval {
        let (phase, phase_ends) = if start < self.opens {
            (Phase::Warmup, self.opens)
        } else if start < self.closes {
            (Phase::Measured, self.closes)
        } else {
            (Phase::Drain, Instant::NEVER)
        };
        let end = start.plus(self.interval_ns).min(phase_ends);
        Interval::new(phase, start.ns_since(self.began), end.ns_since(self.began))
    }

    /// Whether an exchange intended at this instant belongs to the measured window.
    #[inline]
    fn belongs(&self, intended: Instant) -> bool {
        intended < self.closes && (intended >= self.opens || self.carries)
    }

    fn settle(&mut self, now: Instant) {
        self.current.in_flight_ns += self.in_flight * now.ns_since(self.settled);
        self.settled = self.settled.max(now);
    }
}

/// Time that an exchange has been with the server at `now`; 0 if it was never sent.
fn service_ns(exchange: &Exchange, now: Instant) -> u64 {
    if exchange.sent == Instant::NEVER { 0 } else { now.ns_since(exchange.sent) }
}

impl Distributions {
    #[inline]
    fn record_times(&mut self, exchange: &Exchange, done: Instant, received_at: Option<Instant>) {
        let response = done.ns_since(exchange.intended);
        self.response.record(response);
        let share = self.by_request.get_mut(usize::from(exchange.request));
        if let Some(at) = received_at {
            // The kernel's stamp of the same bytes: what the generator's own wake-up adds to `done`
            // is not in it.
            self.kernel_response.record(at.ns_since(exchange.intended));
        }
        assert!(exchange.sent != Instant::NEVER, "an answer to a request that never left");
        assert!(exchange.sent >= exchange.intended, "a request was sent before it was intended");
        let service = done.ns_since(exchange.sent);
        self.send_lag.record(exchange.sent.ns_since(exchange.intended));
        self.service.record(service);
        if exchange.first_byte != Instant::NEVER {
            self.first_byte.record(exchange.first_byte.ns_since(exchange.sent));
        }
        if let Some(share) = share {
            share.response.record(response);
            share.service.record(service);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_mix_are_the_whole() {
        const MS: u64 = 1_000_000;
        let began = Instant::default();
        let window = Window {
            warmup_ns: 10 * MS,
            duration_ns: Some(20 * MS),
            interval_ns: 20 * MS,
            drain_ns: 0,
        };
        let mut recorder = Recorder::new(began, window, 2);
        // One exchange of each request begins in the warm-up, and one in the window. All are
        // answered in the window.
        let exchanges: Vec<Exchange> = [(9, 0), (9, 1), (11, 0), (12, 1)]
            .map(|(at, request)| Exchange {
                sent: began.plus(at * MS),
                ..Exchange::new(began.plus(at * MS), request)
            })
            .into();
        for exchange in &exchanges {
            recorder.advance(exchange.intended);
            recorder.record_scheduled(exchange.intended);
            recorder.record_start(exchange.intended, exchange.intended);
        }
        for (exchange, outcome) in
            exchanges.iter().zip([Outcome::Ok, Outcome::Timeout, Outcome::Ok, Outcome::Ok])
        {
            recorder.record_end(exchange, outcome, began.plus(15 * MS), None);
        }
        recorder.finish(began.plus(30 * MS));
        let all = recorder.take_sealed();
        let measured = all.iter().find(|i| i.phase == Phase::Measured).unwrap();
        let parts: Vec<(u64, u64)> = measured
            .by_request
            .iter()
            .map(|s| (s.outcomes.get(Outcome::Ok), s.carried_ok))
            .collect();
        assert_eq!(parts, [(1, 1), (1, 0)]);
        let whole = measured.right_answers();
        assert_eq!(parts.iter().map(|(own, carried)| own + carried).sum::<u64>(), whole);
        // Times are of the window's own alone.
        assert_eq!(measured.by_request[0].response.count(), 1);
    }

    /// A worker that slept through the notice of a cut has sealed the interval already.
    #[test]
    fn window_that_is_cut_too_late_ends_with_its_last_interval() {
        const MS: u64 = 1_000_000;
        for (cut_ms, ends_ms) in [(29, 30), (30, 30), (31, 31), (35, 35), (12, 30), (5, 30)] {
            let began = Instant::default();
            let window = Window {
                warmup_ns: 10 * MS,
                duration_ns: Some(90 * MS),
                interval_ns: 10 * MS,
                drain_ns: 0,
            };
            let mut recorder = Recorder::new(began, window, 1);
            recorder.advance(began.plus(30 * MS));
            recorder.close_window(began.plus(cut_ms * MS));
            recorder.finish(began.plus(40 * MS));
            let measured = || recorder.sealed.iter().filter(|i| i.phase == Phase::Measured);
            let ends = measured().map(|interval| interval.end_ns).max();
            assert_eq!(ends, Some(ends_ms * MS), "{cut_ms}");
            assert_eq!(recorder.closes().ns_since(began), ends_ms * MS, "{cut_ms}");
        }
    }
}
