//! Records the times and outcomes of exchanges in intervals, and counts exchanges in the totals of
//! the load (`Books`). An exchange is a request and its response. Archives store intervals.

use std::collections::BTreeMap;

use dyno_model::interval::{ExchangeTimes, Interval, Phase, RequestShare, WorkerUse};
use dyno_model::load::{Books, Edges, UnansweredAges};
use dyno_model::outcome::{Outcome, Outcomes};
use dyno_model::silence::{self, Silence};
use dyno_model::times::Recording;

use crate::exchange::Exchange;
use crate::{Instant, limits};

/// Lengths of the phases and intervals of a load, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Length of the warm-up, the first phase.
    pub warmup_ns: u64,
    /// Length of the measured window. `None`: the window ends with the last of a given number of
    /// requests.
    pub duration_ns: Option<u64>,
    /// Length of an interval, above 0.
    pub interval_ns: u64,
    /// Longest time after the window in which the worker waits for exchanges in flight.
    pub drain_ns: u64,
}

/// Distributions of the current interval. The fields of the same names in [`Interval`] and
/// [`ExchangeTimes`] describe them.
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
    /// Distributions of each request, by index. Empty: only one request, or more than
    /// [`limits::REQUESTS_RECORDED_APART`].
    by_request: Vec<RequestDistributions>,
}

/// Results of one request of a mix in the current interval.
#[derive(Debug, Default)]
struct RequestDistributions {
    outcomes: Outcomes,
    /// Correct responses to requests that were intended before the measured window.
    carried_ok: u64,
    response: Recording,
    service: Recording,
    /// Requests that were dropped, or had no response at the end of the load.
    never_ended: u64,
    longest_failure_ns: u64,
}

impl Distributions {
    fn new(requests: usize) -> Distributions {
        let shares =
            if (2..=limits::REQUESTS_RECORDED_APART).contains(&requests) { requests } else { 0 };
        Distributions {
            by_request: std::iter::repeat_with(RequestDistributions::default)
                .take(shares)
                .collect(),
            ..Distributions::default()
        }
    }

    /// Moves all distributions into `interval`.
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

/// Ages of exchanges without a correct response, by class. The memory of a class is allocated when
/// it first occurs.
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

/// Records one worker's exchanges.
#[derive(Debug)]
pub(crate) struct Recorder {
    began: Instant,
    interval_ns: u64,
    /// Start and end of the measured window.
    window_start: Instant,
    window_end: Instant,
    /// Whether exchanges that were in flight when the window opened belong to it. Set by
    /// [`carry_in`](Self::carry_in), in closed loops only.
    has_carried_in: bool,
    /// Counters of the current interval. Its distributions are in `distributions` until it is
    /// sealed.
    current: Interval,
    pub(crate) distributions: Distributions,
    sealed: Vec<Interval>,
    in_flight: u64,
    /// Latest intended start of any request, in open and closed loops.
    latest_intended: Instant,
    /// Instant up to which the current interval contains the time in flight.
    in_flight_until: Instant,
    /// Intended start of the last request that the schedule of an open loop started, for the gap to
    /// the next one. `None`: no request yet, or a closed loop.
    last_arrival: Option<Instant>,
    /// Instant at which the kernel was given the last request, for the gap to the next one.
    /// Requests that are sent again do not count. `None`: no request yet.
    last_hand_over: Option<Instant>,
    /// Complete responses, correct or not, since the worker began, in all phases.
    pub(crate) responses: u64,
    pub(crate) books: Books,
    pub(crate) edges: Edges,
    ages: Ages,
    silences: Silences,
}

/// Collects silences: stretches of time without a complete response.
#[derive(Debug)]
struct Silences {
    /// Instant of the last complete response, or of the start of the load.
    last_response: Instant,
    /// Instant since which requests are in flight, or fail one after the other. At other times the
    /// value has no meaning.
    busy_since: Instant,
    /// Instants of the first and last failed request since the last complete response. After a
    /// failure, a silence also includes times without requests in flight, such as waits before the
    /// next attempt to connect.
    failures: Option<(Instant, Instant)>,
    /// Length of the shortest silence that is recorded, nanoseconds.
    least_ns: u64,
    /// Silences that ended in the window or its drain. The memory is allocated at the start.
    retained: Vec<Silence>,
}

impl Silences {
    fn new(window: Window) -> Silences {
        // The shortest recorded silence is a share of the window. A window that ends with a given
        // number of requests has no known length, so ten intervals are assumed.
        let window_ns = window.duration_ns.unwrap_or(10 * window.interval_ns);
        let least_ns = silence::least_ns(window_ns);
        Silences {
            last_response: Instant::default(),
            busy_since: Instant::default(),
            failures: None,
            least_ns,
            retained: Vec::with_capacity(limits::SILENCES),
        }
    }

    /// Records a silence. If too many are recorded already, doubles `least_ns` and discards the
    /// silences below it.
    #[cold]
    fn add(&mut self, silence: Silence) {
        while self.retained.len() >= limits::SILENCES {
            self.least_ns *= 2;
            let least_ns = self.least_ns;
            self.retained.retain(|silence| silence.length_ns() >= least_ns);
        }
        if silence.length_ns() >= self.least_ns {
            self.retained.push(silence);
        }
    }
}

impl Recorder {
    /// Creates a recorder. `requests`: number of different requests.
    pub(crate) fn new(began: Instant, window: Window, requests: usize) -> Self {
        let window_start = began.plus(window.warmup_ns);
        let window_end = window.duration_ns.map_or(Instant::NEVER, |d| window_start.plus(d));
        let mut recorder = Recorder {
            began,
            interval_ns: window.interval_ns,
            window_start,
            window_end,
            has_carried_in: false,
            current: Interval::new(Phase::Warmup, 0, 0),
            distributions: Distributions::new(requests),
            sealed: Vec::new(),
            in_flight: 0,
            latest_intended: Instant::default(),
            in_flight_until: began,
            last_arrival: None,
            last_hand_over: None,
            responses: 0,
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
        self.window_start
    }

    pub(crate) fn window_end(&self) -> Instant {
        self.window_end
    }

    /// Begins the load at `at`. Earlier connect times remain in the first interval.
    pub(crate) fn begin(&mut self, at: Instant, window: Window) {
        self.began = at;
        self.in_flight_until = at;
        self.silences.last_response = at;
        self.window_start = at.plus(window.warmup_ns);
        self.window_end = window.duration_ns.map_or(Instant::NEVER, |d| self.window_start.plus(d));
        self.current = self.interval_from(at);
    }

    /// Counts exchanges of a closed loop that are in flight when the window opens, given by their
    /// intended starts. These exchanges belong to the window with their full age. Otherwise the
    /// window would lack the requests that a stall delayed from the warm-up into the window.
    pub(crate) fn carry_in(&mut self, intended_starts: impl Iterator<Item = Instant>) {
        if self.window_start >= self.window_end {
            // The load was ended before its window began.
            return;
        }
        self.has_carried_in = true;
        for intended in intended_starts.filter(|intended| *intended < self.window_start) {
            self.books.carried_in += 1;
            self.books.started += 1;
            // The exchange's age at the start of the window, which the window's time in flight
            // excludes.
            self.edges.before_ns += self.window_start.ns_since(intended);
        }
    }

    /// Ends the measured window at `at`, if `at` is earlier than the planned end. The window always
    /// contains all requests that were already scheduled, and all intervals that are over. If some
    /// of these are after `at`, the window ends after them.
    pub(crate) fn close_window(&mut self, at: Instant) {
        let at = at.max(self.latest_intended.plus(1)).max(self.began.plus(self.current.start_ns));
        if at < self.window_end {
            self.window_start = self.window_start.min(at);
            self.window_end = at;
            self.current.end_ns = self.current.end_ns.min(at.ns_since(self.began));
        }
    }

    /// Returns the end of the current interval.
    pub(crate) fn interval_end(&self) -> Instant {
        self.began.plus(self.current.end_ns)
    }

    /// Whether the current interval has ended by `now`.
    #[inline]
    pub(crate) fn has_interval_ended(&self, now: Instant) -> bool {
        now >= self.interval_end() && self.current.phase != Phase::Drain
    }

    /// Seals the intervals that ended by `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
        while self.has_interval_ended(now) {
            let end = self.interval_end();
            self.add_time_in_flight(end);
            let next = self.interval_from(end);
            self.seal(next);
        }
    }

    fn seal(&mut self, next: Interval) {
        // The worker sets the number of open connections once for all intervals that have ended.
        let next = Interval { connections_open: self.current.connections_open, ..next };
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

    /// Seals the last intervals at the end of the drain.
    pub(crate) fn finish(&mut self, now: Instant) {
        if self.in_flight == 0 && self.last_arrival.is_some() {
            self.end_failures_before(now);
        }
        if self.expects_response() {
            // The silence in progress ends with the load.
            self.end_silence(now);
            self.silences.last_response = now;
        }
        if self.in_flight == 0 && self.began != Instant::NEVER {
            // This worker has no requests in flight, so it is silent from now on. Other workers may
            // still wait for responses, so the end of this silence is unknown.
            self.silences.retained.push(Silence {
                start_ns: self.silences.last_response.ns_since(self.began),
                busy_ns: Silence::UNKNOWN_END,
                end_ns: Silence::UNKNOWN_END,
                in_flight: 0,
                failures_ns: None,
            });
        }
        self.close_window(now);
        self.advance(now);
        self.add_time_in_flight(now);
        self.current.end_ns = now.ns_since(self.began).max(self.current.start_ns);
        self.seal(Interval::new(Phase::Drain, self.current.end_ns, self.current.end_ns));
    }

    #[inline]
    pub(crate) fn current(&mut self) -> &mut Interval {
        &mut self.current
    }

    pub(crate) fn worker_use(&mut self, worker: u32) -> &mut WorkerUse {
        self.current.workers.entry(worker).or_default()
    }

    pub(crate) fn record_scheduled(&mut self, intended: Instant) {
        self.latest_intended = self.latest_intended.max(intended);
        if self.is_in_window(intended) {
            self.books.scheduled += 1;
        }
    }

    /// Counts an arrival that was dropped because the queue was full. `request`: index of its
    /// request; `None`: a step of a sequence, which depends on the visitor.
    pub(crate) fn record_drop(&mut self, intended: Instant, request: Option<u16>) {
        self.current.dropped += 1;
        if self.is_in_window(intended) {
            self.books.dropped += 1;
            let by_request = &mut self.distributions.by_request;
            if let Some(share) =
                request.and_then(|request| by_request.get_mut(usize::from(request)))
            {
                share.never_ended += 1;
            }
        }
    }

    /// Counts an exchange that started at `now`. It is in flight since its intended start.
    pub(crate) fn record_start(&mut self, intended: Instant, now: Instant) {
        self.add_time_in_flight(now);
        self.current.started += 1;
        if !self.expects_response() {
            self.silences.busy_since = now;
        }
        self.in_flight += 1;
        // The time between the intended start and now. After a long stall, a part of this time lies
        // in earlier intervals. All of it is added to the current interval, so that the sum over
        // the window is correct.
        let phase_start =
            if self.current.phase == Phase::Warmup { self.began } else { self.window_start };
        self.current.in_flight_ns += now.ns_since(intended.max(phase_start));
        if self.is_in_window(intended) {
            self.books.started += 1;
        }
    }

    /// Counts an arrival of an open loop, and records the intended gap since the previous arrival.
    /// The gap is recorded here and not at the hand-over, because connections can hand requests
    /// over in another order.
    pub(crate) fn record_arrival(&mut self, intended: Instant) {
        self.record_scheduled(intended);
        if self.in_flight == 0 {
            self.end_failures_before(intended);
        }
        if let Some(last) = self.last_arrival.replace(intended)
            && self.is_in_window(intended)
        {
            self.distributions.intended_gap.record(intended.ns_since(last));
        }
    }

    /// Records the gap between the hand-overs of two requests of a schedule. A request that is sent
    /// again is not part of the schedule.
    pub(crate) fn record_hand_over(&mut self, exchange: &Exchange) {
        if exchange.is_resent {
            return;
        }
        // Arrivals that waited for a connection leave in a burst. The send lag includes their wait,
        // and the gaps show the burst that the server received.
        if let Some(last) = self.last_hand_over.replace(exchange.sent)
            && self.is_in_window(exchange.intended)
        {
            self.distributions.send_gap.record(exchange.sent.ns_since(last));
        }
    }

    /// Counts the status of a complete response with the outcome of its exchange.
    #[inline]
    pub(crate) fn count_status(&mut self, exchange: &Exchange, status: u16) {
        self.outcomes_of(exchange.intended).count_status(status);
    }

    /// Returns the counts for an exchange with this intended start that ends now.
    #[inline]
    fn outcomes_of(&mut self, intended: Instant) -> &mut Outcomes {
        if self.is_in_current_phase(self.is_in_window(intended)) {
            &mut self.current.outcomes
        } else if intended < self.window_end {
            &mut self.current.carried
        } else {
            &mut self.current.continued
        }
    }

    /// Whether an exchange that ends now belongs to the phase of the current interval, and not to
    /// an earlier phase. `is_in_window`: whether the exchange belongs to the measured window.
    #[inline]
    fn is_in_current_phase(&self, is_in_window: bool) -> bool {
        let phase = if is_in_window { Phase::Measured } else { Phase::Warmup };
        // An exchange that ends in the drain belongs to the measured phase before it.
        let current_phase = self.current.phase.min(Phase::Measured);
        phase == current_phase
    }

    /// Records the end of an exchange at `done`. `received_at`: instant at which the kernel
    /// received the last byte of its response, if known.
    #[inline]
    pub(crate) fn record_end(
        &mut self,
        exchange: &Exchange,
        outcome: Outcome,
        done: Instant,
        received_at: Option<Instant>,
    ) {
        self.add_time_in_flight(done);
        if outcome.is_completed() {
            self.responses += 1;
            if done.ns_since(self.silences.last_response) >= self.silences.least_ns {
                self.end_silence(done);
            }
            self.silences.last_response = done;
            self.silences.failures = None;
        } else {
            let first_failure = self.silences.failures.map_or(done, |(first, _)| first);
            self.silences.failures = Some((first_failure, done));
        }
        self.in_flight -= 1;
        let is_in_window = self.is_in_window(exchange.intended);
        let is_in_current_phase = self.is_in_current_phase(is_in_window);
        self.outcomes_of(exchange.intended).count(outcome);
        let share = self.distributions.by_request.get_mut(usize::from(exchange.request));
        if !is_in_current_phase && !is_in_window {
            // The exchange was in flight during the window, up to this instant, but does not
            // belong to it.
            self.edges.others_ns += done.ns_since(exchange.intended.max(self.window_start));
            // Throughput includes responses that arrived in the window.
            if let Some(share) = share.filter(|_| exchange.intended < self.window_end) {
                share.carried_ok += u64::from(outcome == Outcome::Ok);
            }
            return;
        }
        if let Some(share) = share {
            share.outcomes.count(outcome);
        }
        if is_in_window {
            if outcome.is_completed() {
                self.books.completed += 1;
            } else {
                self.books.failed += 1;
            }
        }
        // Times are recorded only for correct responses. Fast failures would make a failing server
        // look fast, and slow failures are cut off at a time-out. Failures are counted instead, and
        // percentiles rank them above every correct response.
        if outcome == Outcome::Ok {
            self.distributions.record_times(exchange, done, received_at);
        } else {
            self.record_failure(exchange, outcome, done, is_in_window);
        }
    }

    /// Whether the time without a response counts as silence: a request is in flight, or the last
    /// request failed.
    #[inline]
    fn expects_response(&self) -> bool {
        self.in_flight > 0 || self.silences.failures.is_some()
    }

    /// Ends a silence that lasted from the last response to `at`.
    #[cold]
    fn end_silence(&mut self, at: Instant) {
        if at <= self.window_start {
            return;
        }
        let since = |instant: Instant| instant.ns_since(self.began);
        let busy = if self.expects_response() { self.silences.busy_since } else { at };
        let silence = Silence {
            start_ns: since(self.silences.last_response),
            busy_ns: since(busy),
            end_ns: since(at),
            in_flight: self.in_flight,
            failures_ns: self.silences.failures.map(|(first, last)| (since(first), since(last))),
        };
        self.silences.add(silence);
    }

    /// Ends the silence after a failed request if no request was intended for longer than a
    /// connection waits before its next attempt. The load was then idle until `intended`.
    fn end_failures_before(&mut self, intended: Instant) {
        let Some((_, last)) = self.silences.failures else { return };
        if intended.ns_since(last) <= limits::BACKOFF_MAX_NS {
            return;
        }
        if last.ns_since(self.silences.last_response) >= self.silences.least_ns {
            self.end_silence(last);
        }
        self.silences.failures = None;
        self.silences.last_response = last;
    }

    /// Returns the recorded silences, in order of time.
    pub(crate) fn take_silences(&mut self) -> Vec<Silence> {
        std::mem::take(&mut self.silences.retained)
    }

    /// Records how long an exchange without a correct response had waited.
    #[cold]
    fn record_failure(
        &mut self,
        exchange: &Exchange,
        outcome: Outcome,
        done: Instant,
        is_in_window: bool,
    ) {
        // The full wait of the exchange, from the intended start to its end.
        let age_ns = done.ns_since(exchange.intended);
        self.current.longest_failure_ns = self.current.longest_failure_ns.max(age_ns);
        if let Some(share) = self.distributions.by_request.get_mut(usize::from(exchange.request)) {
            share.longest_failure_ns = share.longest_failure_ns.max(age_ns);
        }
        if is_in_window {
            self.ages.record(outcome.name(), age_ns, service_ns(exchange, done));
        }
    }

    /// Records a page that was intended at `began` and ended at `done`. `is_ok`: all its requests
    /// succeeded.
    pub(crate) fn record_page(&mut self, began: Instant, done: Instant, is_ok: bool) {
        self.current.pages_completed += u64::from(is_ok);
        if !self.is_in_window(began) {
            return;
        }
        if is_ok {
            self.distributions.page.record(done.ns_since(began));
        } else {
            self.current.pages_failed += 1;
        }
    }

    /// Counts a page that was intended at `began` and was incomplete at the end of the load.
    pub(crate) fn record_unfinished_page(&mut self, began: Instant) {
        self.current.pages_unfinished += u64::from(self.is_in_window(began));
    }

    /// Records an exchange without a response at the end of the load. Its age is a lower bound of
    /// its response time.
    pub(crate) fn record_unanswered(&mut self, exchange: &Exchange, now: Instant) {
        if !self.is_in_window(exchange.intended) {
            // The exchange was in flight up to the end, but does not belong to the window.
            self.edges.others_ns += now.ns_since(exchange.intended.max(self.window_start));
            return;
        }
        self.books.in_flight_at_end += 1;
        // The wait of the exchange so far, from its intended start.
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
        let (phase, phase_ends) = if start < self.window_start {
            (Phase::Warmup, self.window_start)
        } else if start < self.window_end {
            (Phase::Measured, self.window_end)
        } else {
            (Phase::Drain, Instant::NEVER)
        };
        let end = start.plus(self.interval_ns).min(phase_ends);
        Interval::new(phase, start.ns_since(self.began), end.ns_since(self.began))
    }

    /// Whether an exchange with this intended start belongs to the measured window.
    #[inline]
    fn is_in_window(&self, intended: Instant) -> bool {
        intended < self.window_end && (intended >= self.window_start || self.has_carried_in)
    }

    /// Adds the time in flight up to `now` to the current interval: the sum over all requests in
    /// flight.
    fn add_time_in_flight(&mut self, now: Instant) {
        self.current.in_flight_ns += self.in_flight * now.ns_since(self.in_flight_until);
        self.in_flight_until = self.in_flight_until.max(now);
    }
}

/// Returns the time since an exchange was sent; 0 if it was not sent.
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
            // The kernel's timestamp for the same bytes excludes the wake-up delay of the
            // generator, which `done` includes.
            self.kernel_response.record(at.ns_since(exchange.intended));
        }
        assert!(exchange.sent != Instant::NEVER, "a response to a request that was never sent");
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
mod tests;
