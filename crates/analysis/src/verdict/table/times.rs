//! Test cases: caveats about the times and rates of a load.

use dyno_archive::interval::Interval;
use dyno_archive::load::Edges;
use dyno_archive::outcome::{Outcome, Outcomes};
use dyno_archive::plan::Arrivals;
use dyno_archive::{Phase, Times};

use super::generator::nginx;
use super::world::{MS, S, TrialWorld, build_times, equal_times};
use super::{Case, case};
use crate::caveat::{Code, Severity};

/// Caveats about the offered rate and the rate of responses.
pub(super) const PACE: &[Case<TrialWorld>] = &[
    // The first three service times of 1 ms do not count, so 997 requests are offered. A fiftieth
    // of the 997 may lack a response without a caveat. Chance allows two standard deviations more:
    // of the requests in flight at the beginning and at the end, one each.
    case(
        (Code::RATE_NOT_REACHED, Severity::Warning),
        "977 of 1000 offered requests per second got a response (over 1.0 s of the window).",
        |w| respond_to(w, 976),
        |w| respond_to(w, 977),
    )
    .evidence(r#"{"offered": 1000.0}"#),
    case(
        (Code::RATE_NOT_REACHED, Severity::Warning),
        "of 1000 offered requests",
        |w| respond_to(w, 0),
        |w| {
            respond_to(w, 0);
            w.step.arrivals = Arrivals::Closed;
        },
    ),
    // A request that failed is no backlog.
    case(
        (Code::RATE_NOT_REACHED, Severity::Warning),
        "951 of 1000 offered requests per second got a response, and 26.0 failed (over 1.0 s of \
         the window).",
        |w| respond_or_fail(w, 950, 26),
        |w| respond_or_fail(w, 950, 27),
    )
    .evidence(r#"{"offered": 1000.0}"#),
    case(
        (Code::RATE_NOT_REACHED, Severity::Warning),
        "400 of 1000 offered requests per second got a response, and 500 failed (over",
        |w| respond_or_fail(w, 400, 500),
        |w| respond_or_fail(w, 500, 500),
    ),
    // Without a caveat a fiftieth more may get a response, plus two standard deviations of the one
    // request in flight.
    case(
        (Code::WARMUP_BACKLOG, Severity::Invalid),
        "1023 requests per second got a response, but only 1000 were offered: when",
        |w| respond_to_warm_up(w, 23),
        |w| respond_to_warm_up(w, 22),
    )
    .evidence(r#"{"offered": 1000.0, "answered": 1023.0}"#),
    case(
        (Code::WARMUP_FAILURES, Severity::Warning),
        "1 request of the warm-up got no correct response. The numbers",
        |w| w.interval().carried.count(Outcome::UnexpectedStatus),
        |_| {},
    )
    .given(|w| respond_to_warm_up(w, 1))
    .evidence(r#"{"failed": 1}"#),
];

/// Caveats about times, and about gaps between requests.
pub(super) const CASES: &[Case<TrialWorld>] = &[
    // Two requests per connection end in the window, and half of the third is in it.
    case(
        (Code::SHORT_WINDOW, Severity::Warning),
        "Requests took 0.40 s on average, which is 40 % of the window. 4 requests ended in the \
         window, but the time that requests spent in it is enough for 5.0 requests. Throughput is \
         therefore about 20 % too low (an estimate).",
        |w| set_long_requests(w, 2, 400),
        |w| set_long_requests(w, 2, 500),
    )
    .evidence(r#"{"ended": 4}"#),
    case(
        (Code::SHORT_WINDOW, Severity::Warning),
        "1 request ended in the window, but the time that requests spent in it is enough for 2.0 \
         requests. Throughput is therefore about 49 % too low",
        |w| set_long_requests(w, 1, 510),
        |w| {
            set_long_requests(w, 1, 510);
            w.set_rate(1.0);
        },
    ),
    // The bound is an error of 5 %, with any number of connections.
    case(
        (Code::SHORT_WINDOW, Severity::Warning),
        "about 6.0 % too low",
        |w| set_long_requests(w, 40, 94),
        |w| set_long_requests(w, 40, 96),
    )
    .evidence(r#"{"ended": 400}"#),
    // A request that began before the window counts in full.
    case(
        (Code::SHORT_WINDOW, Severity::Warning),
        "3 requests ended in the window, but the time that requests spent in it is enough for 2.2 \
         requests. Throughput is therefore about 35 % too high",
        |w| {
            set_long_requests(w, 1, 450);
            start_earlier(w, 400);
        },
        |w| {
            set_long_requests(w, 1, 340);
            start_earlier(w, 20);
        },
    ),
    // A failed request occupies its connection, too.
    case(
        (Code::SHORT_WINDOW, Severity::Warning),
        "4 requests ended in the window, but the time that requests spent in it is enough for 5.0 \
         requests.",
        |w| {
            set_long_requests(w, 2, 400);
            fail_requests(w, 400);
        },
        // The ages of requests without a response are unknown.
        |w| {
            set_long_requests(w, 2, 400);
            fail_requests(w, 400);
            w.record.unanswered.ages.clear();
        },
    ),
    // 20 in flight by count and 21 by times: the bound of 5 %.
    case(
        (Code::LITTLES_LAW, Severity::Invalid),
        "in flight is 21.00 according to their recorded times, but 20.00 according to their count.",
        |w| set_littles_law(w, 20 * S, 21 * S + 1),
        |w| set_littles_law(w, 20 * S, 21 * S),
    )
    .evidence(r#"{"in_flight": 20.0, "by_law": 21.000000001}"#),
    case(
        (Code::LITTLES_LAW, Severity::Invalid),
        "in flight is 19.00 according to their recorded times",
        |w| set_littles_law(w, 20 * S, 19 * S - 1),
        |w| set_littles_law(w, 20 * S, 19 * S),
    )
    .evidence(r#"{"in_flight": 20.0, "by_law": 18.999999999}"#),
    // Little's law is not checked if the times at the window's edges are unknown.
    case(
        (Code::LITTLES_LAW, Severity::Invalid),
        "in flight is 40.00",
        |w| set_littles_law(w, 20 * S, 40 * S),
        |w| {
            set_littles_law(w, 20 * S, 40 * S);
            w.record.edges = None;
        },
    ),
    // If only hundredths of a request are in flight, the difference is microseconds, and is
    // ignored.
    case(
        (Code::LITTLES_LAW, Severity::Invalid),
        "in flight is 0.03",
        |w| set_littles_law(w, 20 * MS, 26 * MS),
        |w| set_littles_law(w, 10 * MS, 14 * MS),
    ),
    // Time before the window and in the drain is excluded. Time within the window of exchanges of
    // other phases is included.
    case(
        (Code::LITTLES_LAW, Severity::Invalid),
        "in flight is 1.00 according to their recorded times, but 1.10 according to their count.",
        |w| w.interval().in_flight_ns += S / 10,
        |_| {},
    )
    .given(set_edges)
    .evidence(r#"{"by_law": 1.0}"#),
    // Histograms store three digits. With a total of 1 ms, nearly all of it before a window of 1
    // µs, the error may be 1 µs.
    case(
        (Code::LITTLES_LAW, Severity::Invalid),
        "10.00 according to their count",
        |w| set_before_window(w, 988_999),
        |w| set_before_window(w, 989_000),
    )
    .evidence(r#"{"in_flight": 10.0, "by_law": 11.001}"#),
    case(
        (Code::LONGER_THAN_WINDOW, Severity::Invalid),
        "Half of the requests took 2.00 s or more, which is longer than the measured window of \
         1.00 s.",
        |w| w.interval().times.response = build_times(&[(499, MS), (501, 2 * S)]),
        |w| w.interval().times.response = build_times(&[(500, MS), (500, 2 * S)]),
    )
    .evidence(r#"{"window_us": 1e6}"#),
    // The bound is exact to the nanosecond. A window of length 0 has no caveat.
    case(
        (Code::LONGER_THAN_WINDOW, Severity::Invalid),
        "longer than the measured window of 0.00 s",
        |w| set_window(w, 1999),
        |w| set_window(w, 2000),
    )
    .evidence(r#"{"median_us": 2.0, "window_us": 1.999}"#),
    case(
        (Code::LONGER_THAN_WINDOW, Severity::Invalid),
        "longer than the measured window of 0.00 s",
        |w| set_window(w, 1),
        |w| set_window(w, 0),
    ),
    case(
        (Code::LONGER_THAN_WINDOW, Severity::Invalid),
        "took 2.00 s or more",
        |w| {
            *w = TrialWorld::with_responses(499);
            leave_in_flight_for(w, 501, 2 * S);
        },
        |w| {
            *w = TrialWorld::with_responses(500);
            leave_in_flight_for(w, 500, 2 * S);
        },
    ),
    case(
        (Code::LONGER_THAN_WINDOW, Severity::Invalid),
        "took 2.00 s or more",
        |w| w.interval().times.response = equal_times(1000, 2 * S),
        |w| {
            w.interval().times.response = equal_times(1000, 2 * S);
            w.plan.requests = Some(1000);
        },
    ),
    // Requests that failed immediately did not take longer than the window.
    case(
        (Code::LONGER_THAN_WINDOW, Severity::Invalid),
        "took 2.00 s or more",
        |w| leave_in_flight_for(w, 600, 2 * S),
        |w| {
            leave_in_flight_for(w, 600, MS);
            let ages = w.record.unanswered.ages.values_mut().next().unwrap();
            *ages = build_times(&[(599, MS), (1, 2 * S)]);
        },
    )
    .given(|w| *w = TrialWorld::with_responses(400)),
    // The bound is twice the service time. p99 is known from 2,000 samples on.
    case(
        (Code::QUEUEING, Severity::Info),
        "The p99 response time is 2 µs if measured from the intended start, but 1 µs if measured \
         from sending. On average, 2.0 of 64 possible requests were in flight",
        |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
        },
        |w| {
            set_response_time(w, 2000);
            w.set_rate(2000.0);
        },
    )
    .evidence(r#"{"response_p99_us": 2.001, "service_p99_us": 1.0, "max_in_flight": 64}"#),
    case(
        (Code::QUEUEING, Severity::Info),
        "31.9 of 64 possible requests were in flight",
        |w| {
            w.set_rate(2000.0);
            w.set_in_flight_time(31_900 * MS);
        },
        |_| {},
    )
    .given(|w| set_response_time(w, 2001))
    .evidence(r#"{"in_flight": 31.9}"#),
    case(
        (Code::QUEUEING, Severity::Info),
        "from sending. Use more connections to find the server's own limit.",
        |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
            w.set_in_flight_time(32 * S);
        },
        |w| set_response_time(w, 2000),
    )
    .evidence(r#"{"in_flight": 32.0}"#),
    case(
        (Code::QUEUEING, Severity::Info),
        "The generator was late: on average, 32.0 of 64 possible requests were in flight",
        |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
            w.set_in_flight_time(32 * S);
            w.set_generator_threads(&[(300 * MS, 51 * MS)]);
        },
        |w| set_response_time(w, 2000),
    ),
    case(
        (Code::QUEUEING, Severity::Info),
        "The generator was late: on average, 1.0 of 64 possible requests were in flight",
        |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
            w.set_in_flight_time(S);
            w.interval().wake_lag = equal_times(2000, 101_000);
        },
        |w| set_response_time(w, 2000),
    ),
    // The bounds are a tenth of the median, and 100 µs.
    case(
        (Code::GENERATOR_LATE, Severity::Warning),
        "wake-ups) is 200 µs, compared with a median response time of 2000 µs",
        |w| set_wake_lag(w, 200_000, 1_999 * 1000),
        |w| set_wake_lag(w, 200_000, 2_010 * 1000),
    ),
    case(
        (Code::GENERATOR_LATE, Severity::Warning),
        "wake-ups) is 101 µs, compared with a median response time of 500 µs",
        |w| set_wake_lag(w, 101_000, 500_000),
        |w| set_wake_lag(w, 99_900, 500_000),
    ),
    // With 1,000 wake-ups the p99 is unknown.
    case(
        (Code::GENERATOR_LATE, Severity::Warning),
        "The p90 of the generator's wake lag (the delay of its wake-ups) is 101 µs, compared with \
         a median response",
        |w| set_few_wake_lags(w, 101_000),
        |w| set_few_wake_lags(w, 99_900),
    ),
    case(
        (Code::GENERATOR_STARVED, Severity::Warning),
        "For 5.0 % of the time the generator waited for a CPU that another program used.",
        |w| w.set_generator_threads(&[(300 * MS, 50 * MS + 1)]),
        |w| w.set_generator_threads(&[(300 * MS, 50 * MS)]),
    )
    .evidence(r#"{"run_delay_share": 0.050000001}"#),
    // The same bound over two seconds.
    case(
        (Code::GENERATOR_STARVED, Severity::Warning),
        "For 5.0 % of the time",
        |w| w.set_generator_threads(&[(300 * MS, 100 * MS + 1)]),
        |w| w.set_generator_threads(&[(300 * MS, 100 * MS)]),
    )
    .given(|w| w.set_seconds(&[(1000, 500 * MS); 2])),
    // The wait is a mean over threads.
    case(
        (Code::GENERATOR_STARVED, Severity::Warning),
        "For 12 % of the time the generator waited for a CPU that another program used",
        |w| {
            w.set_generator_threads(&[(300 * MS, 160 * MS), (300 * MS, 80 * MS)]);
            w.machine().others = nginx();
        },
        |w| w.set_generator_threads(&[(300 * MS, 90 * MS), (300 * MS, 10 * MS)]),
    )
    .evidence(r#"{"run_delay_share": 0.12}"#),
    // The bound is a coefficient of variation 0.25 above the intended one.
    case(
        (Code::CLUMPED, Severity::Warning),
        "a coefficient of variation (standard deviation ÷ mean) of 0.25 instead of 0.00",
        |w| {
            set_gaps(w, (1000, 1000), (749, 1251));
            w.set_rate(1000.0);
        },
        |w| {
            set_gaps(w, (1000, 1000), (750, 1250));
            w.set_rate(1000.0);
        },
    )
    .evidence(r#"{"intended_cv": 0.0, "achieved_cv": 0.251}"#),
    case(
        (Code::CLUMPED, Severity::Warning),
        "mean) of 0.76 instead of 0.50",
        |w| {
            set_gaps(w, (500, 1500), (240, 1760));
            w.set_rate(1000.0);
        },
        |w| {
            set_gaps(w, (500, 1500), (250, 1750));
            w.set_rate(1000.0);
        },
    )
    .evidence(r#"{"intended_cv": 0.5, "achieved_cv": 0.76}"#),
    case(
        (Code::CLUMPED, Severity::Warning),
        "gaps between requests of the same generator thread (2 threads) have a",
        |w| {
            w.set_rate(1000.0);
            w.set_generator_threads(&[(300 * MS, 0), (300 * MS, 0)]);
        },
        |_| {},
    )
    .given(|w| set_gaps(w, (1000, 1000), (100, 1900))),
    case(
        (Code::CLUMPED, Severity::Warning),
        "of 0.90 instead of 0.00",
        |w| w.set_rate(1000.0),
        |_| {},
    )
    .given(|w| set_gaps(w, (1000, 1000), (100, 1900))),
];

/// Sets a second in which `n` of 1,000 offered requests get a response. The others stay in flight.
fn respond_to(w: &mut TrialWorld, n: u64) {
    *w = TrialWorld::with_responses(n);
    w.set_rate(1000.0);
    w.interval().started = 1000;
    w.leave_in_flight(1000 - n);
}

/// Sets a second in which `n` of 1,000 requests get a response, and `failed` requests fail.
fn respond_or_fail(w: &mut TrialWorld, n: u64, failed: u64) {
    respond_to(w, n);
    (0..failed).for_each(|_| w.interval().outcomes.count(Outcome::Reset));
    w.record.books.in_flight_at_end -= failed;
    w.record.books.failed += failed;
}

/// Sets a second in which all 1,000 requests get a response, and `n` requests of the warm-up.
fn respond_to_warm_up(w: &mut TrialWorld, n: u64) {
    respond_to(w, 1000);
    (0..n).for_each(|_| w.interval().carried.count(Outcome::Ok));
}

/// Sets a window of a second without a warm-up, on whose connections each request takes `ms`. The
/// last ones end in the drain.
fn set_long_requests(w: &mut TrialWorld, connections: u64, ms: u64) {
    let (ended, rest_ms) = (1000 / ms, (ms - 1000 % ms) % ms);
    *w = TrialWorld::with_responses(connections * ended);
    w.interval().times.response = equal_times(connections * ended, ms * MS);
    w.interval().in_flight_ns = connections * S;
    let mut drain = Interval::new(Phase::Drain, S, 2 * S);
    if rest_ms > 0 {
        (0..connections).for_each(|_| drain.outcomes.count(Outcome::Ok));
        drain.times.response = equal_times(connections, ms * MS);
        drain.in_flight_ns = connections * rest_ms * MS;
        let books = &mut w.record.books;
        books.scheduled += connections;
        books.started += connections;
        books.completed += connections;
    }
    w.record.intervals.push(drain);
}

/// Starts the first request of one connection `ms` before the window, so that one more request ends
/// in the window.
fn start_earlier(w: &mut TrialWorld, ms: u64) {
    let length_ns = w.record.intervals[1].times.response.max().expect("a response in the drain");
    let times = equal_times(1, length_ns);
    w.interval().times.response.add(&times);
    w.interval().outcomes.count(Outcome::Ok);
    // The request in the drain began earlier, too.
    let drain = &mut w.record.intervals[1];
    drain.in_flight_ns = 4 * length_ns - ms * MS - S;
    w.record.edges = None;
    let books = &mut w.record.books;
    (books.carried_in, books.completed) = (1, books.completed + 1);
}

/// Lets the two requests that end first fail instead, after `ms`.
fn fail_requests(w: &mut TrialWorld, ms: u64) {
    let interval = w.interval();
    interval.times.response = equal_times(2, ms * MS);
    interval.outcomes = Outcomes::default();
    (0..2).for_each(|_| interval.outcomes.count(Outcome::Ok));
    (0..2).for_each(|_| interval.outcomes.count(Outcome::Reset));
    w.record.unanswered.ages = [("reset".into(), equal_times(2, ms * MS))].into();
    w.record.books.completed -= 2;
    w.record.books.failed += 2;
}

/// Sets both sides of Little's law, in nanoseconds in flight within the window of one second.
fn set_littles_law(w: &mut TrialWorld, by_count: u64, by_times: u64) {
    w.interval().times.response = equal_times(1000, 1000);
    w.interval().in_flight_ns = by_count;
    w.record.edges = Some(Edges { before_ns: 0, others_ns: by_times - 1000 * 1000 });
}

/// Sets one second in flight within the window. It is 1 s of responses, less 0.2 s before the
/// window and 0.1 s after it, plus 0.3 s of other exchanges.
fn set_edges(w: &mut TrialWorld) {
    w.interval().times.response = build_times(&[(1_000_000, 1000)]);
    w.interval().in_flight_ns = S;
    w.record.edges = Some(Edges { before_ns: 200 * MS, others_ns: 300 * MS });
    let mut drain = Interval::new(Phase::Drain, S, 2 * S);
    drain.in_flight_ns = 100 * MS;
    w.record.intervals.push(drain);
}

/// Sets 1 ms in flight by times, of which `before_ns` are before a window of 1 µs. By count 10 µs
/// are in the window.
fn set_before_window(w: &mut TrialWorld, before_ns: u64) {
    w.record.window_ns = (0, 1000);
    w.interval().times.response = equal_times(1000, 1000);
    w.interval().in_flight_ns = 10_000;
    w.record.edges = Some(Edges { before_ns, others_ns: 0 });
}

/// Sets the length of the window, and requests that took 2 µs.
fn set_window(w: &mut TrialWorld, window_ns: u64) {
    w.record.window_ns = (0, window_ns);
    w.interval().times.response = equal_times(1000, 2000);
}

/// Adds `n` requests that never end and have waited for `ns`.
fn leave_in_flight_for(w: &mut TrialWorld, n: u64, ns: u64) {
    w.leave_in_flight(n);
    w.record.unanswered.ages = [("in_flight_at_end".into(), equal_times(n, ns))].into();
}

/// Sets 2,000 requests with a service time of 1 µs and this response time.
fn set_response_time(w: &mut TrialWorld, response_ns: u64) {
    *w = TrialWorld::with_responses(2000);
    w.interval().times.response = equal_times(2000, response_ns);
    w.interval().times.service = equal_times(2000, 1000);
}

/// Sets the generator's wake lag, and the response time of 2,000 requests.
fn set_wake_lag(w: &mut TrialWorld, lag_ns: u64, response_ns: u64) {
    *w = TrialWorld::with_responses(2000);
    w.interval().wake_lag = equal_times(2000, lag_ns);
    w.interval().times.response = equal_times(2000, response_ns);
}

/// Sets the wake lag of 1,000 wake-ups, with a median response time of 1 ms.
fn set_few_wake_lags(w: &mut TrialWorld, lag_ns: u64) {
    *w = TrialWorld::with_responses(1000);
    w.interval().wake_lag = equal_times(1000, lag_ns);
    w.interval().times.response = equal_times(1000, 1_000_000);
}

/// Sets the gaps between requests in ns: half of them have the first length, and half the second.
fn set_gaps(w: &mut TrialWorld, intended: (u64, u64), achieved: (u64, u64)) {
    let halves = |(a, b): (u64, u64)| -> Times { build_times(&[(500, a), (500, b)]) };
    w.interval().intended_gap = halves(intended);
    w.interval().send_gap = halves(achieved);
}
