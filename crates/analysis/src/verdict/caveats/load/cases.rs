//! Test cases: caveats about the load and its window.

use dyno_model::interval::{Interval, WorkerUse};
use dyno_model::load::Edges;
use dyno_model::outcome::{Outcome, Outcomes};
use dyno_model::plan::Arrivals;
use dyno_model::{Phase, Times};

use crate::caveat::Code;
use crate::verdict::table::changes::set_warm_up;
use crate::verdict::table::run_world::RunWorld;
use crate::verdict::table::world::{MS, S, TrialWorld, build_times, equal_times};
use crate::verdict::table::{Case, check_cases, info, invalid, run_world, warning};

const CASES: &[Case<TrialWorld>] = &[
    invalid(
        Code::BOOKS,
        |w| w.record.books.scheduled += 1,
        |w| {
            w.record.books.scheduled += 1;
            w.record.books.dropped += 1;
        },
    ),
    invalid(
        Code::BOOKS,
        |w| w.record.books.completed -= 1,
        |w| {
            w.record.books.completed -= 1;
            w.record.books.failed += 1;
        },
    ),
    invalid(
        Code::BOOKS,
        |w| w.record.books.carried_in += 1,
        |w| {
            w.record.books.carried_in += 1;
            w.record.books.scheduled -= 1;
        },
    ),
    info(Code::CUT_SHORT, |w| w.record.cut_short = true, |_| {}),
    info(Code::CUT_SHORT, |w| w.cut_off(20, MS / 2), |w| w.leave_in_flight(20)),
    // The bound is 0.8 of the possible requests in flight.
    warning(
        Code::THREADS_ENDED_APART,
        |w| set_uneven_threads(w, 51),
        |w| set_uneven_threads(w, 52),
    ),
    info(Code::SHORT_WINDOW, |w| w.record.window_ns = (0, S - 1), |_| {}),
    info(
        Code::SHORT_WINDOW,
        |w| {
            w.record.window_ns = (1, S);
            w.plan.requests = Some(1000);
        },
        |w| w.plan.requests = Some(1000),
    ),
    // With so few requests at a rate, throughput appears above the rate.
    info(Code::SHORT_WINDOW, |w| set_requests_at_rate(w, 99), |w| set_requests_at_rate(w, 100)),
    warning(Code::DROPPED, |w| w.drop_requests(1), |w| w.leave_in_flight(1)),
    // The first three service times of 1 ms do not count, so 997 requests are offered. A fiftieth
    // of the 997 may lack a response without a caveat. Chance allows two standard deviations more:
    // of the requests in flight at the beginning and at the end, one each.
    warning(Code::RATE_NOT_REACHED, |w| respond_to(w, 976), |w| respond_to(w, 977)),
    // The generator was stopped.
    warning(
        Code::RATE_NOT_REACHED,
        |w| {
            respond_to(w, 976);
            w.set_stops(10, 60_000_000);
        },
        |w| respond_to(w, 977),
    ),
    warning(
        Code::RATE_NOT_REACHED,
        |w| respond_to(w, 0),
        |w| {
            respond_to(w, 0);
            w.step.arrivals = Arrivals::Closed;
        },
    ),
    // A request that failed is no backlog.
    warning(
        Code::RATE_NOT_REACHED,
        |w| respond_or_fail(w, 950, 26),
        |w| respond_or_fail(w, 950, 27),
    ),
    warning(
        Code::RATE_NOT_REACHED,
        |w| respond_or_fail(w, 400, 500),
        |w| respond_or_fail(w, 500, 500),
    ),
    // Without a caveat a fiftieth more may get a response, plus two standard deviations of the one
    // request in flight.
    invalid(Code::WARMUP_BACKLOG, |w| respond_to_warm_up(w, 23), |w| respond_to_warm_up(w, 22)),
    warning(
        Code::WARMUP_FAILURES,
        |w| w.interval().carried.count(Outcome::UnexpectedStatus),
        |_| {},
    )
    .given(|w| respond_to_warm_up(w, 1)),
    // Two requests per connection end in the window, and half of the third is in it.
    warning(Code::SHORT_WINDOW, |w| set_long_requests(w, 2, 400), |w| set_long_requests(w, 2, 500)),
    warning(
        Code::SHORT_WINDOW,
        |w| set_long_requests(w, 1, 510),
        |w| {
            set_long_requests(w, 1, 510);
            w.set_rate(1.0);
        },
    ),
    // The bound is an error of 5 %, with any number of connections.
    warning(Code::SHORT_WINDOW, |w| set_long_requests(w, 40, 94), |w| set_long_requests(w, 40, 96)),
    // A request that began before the window counts in full.
    warning(
        Code::SHORT_WINDOW,
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
    warning(
        Code::SHORT_WINDOW,
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
    invalid(
        Code::LITTLES_LAW,
        |w| set_littles_law(w, 20 * S, 21 * S + 1),
        |w| set_littles_law(w, 20 * S, 21 * S),
    ),
    invalid(
        Code::LITTLES_LAW,
        |w| set_littles_law(w, 20 * S, 19 * S - 1),
        |w| set_littles_law(w, 20 * S, 19 * S),
    ),
    // Little's law is not checked if the times at the window's edges are unknown.
    invalid(
        Code::LITTLES_LAW,
        |w| set_littles_law(w, 20 * S, 40 * S),
        |w| {
            set_littles_law(w, 20 * S, 40 * S);
            w.record.edges = None;
        },
    ),
    // If only hundredths of a request are in flight, the difference is microseconds, and is
    // ignored.
    invalid(
        Code::LITTLES_LAW,
        |w| set_littles_law(w, 20 * MS, 26 * MS),
        |w| set_littles_law(w, 10 * MS, 14 * MS),
    ),
    // Time before the window and in the drain is excluded. Time within the window of exchanges of
    // other phases is included.
    invalid(Code::LITTLES_LAW, |w| w.interval().in_flight_ns += S / 10, |_| {}).given(set_edges),
    // Histograms store three digits. With a total of 1 ms, nearly all of it before a window of 1
    // µs, the error may be 1 µs.
    invalid(
        Code::LITTLES_LAW,
        |w| set_before_window(w, 988_999),
        |w| set_before_window(w, 989_000),
    ),
    invalid(
        Code::LONGER_THAN_WINDOW,
        |w| w.interval().times.response = build_times(&[(499, MS), (501, 2 * S)]),
        |w| w.interval().times.response = build_times(&[(500, MS), (500, 2 * S)]),
    ),
    // The bound is exact to the nanosecond. A window of length 0 has no caveat.
    invalid(Code::LONGER_THAN_WINDOW, |w| set_window(w, 1999), |w| set_window(w, 2000)),
    invalid(Code::LONGER_THAN_WINDOW, |w| set_window(w, 1), |w| set_window(w, 0)),
    invalid(
        Code::LONGER_THAN_WINDOW,
        |w| {
            *w = TrialWorld::with_responses(499);
            leave_in_flight_for(w, 501, 2 * S);
        },
        |w| {
            *w = TrialWorld::with_responses(500);
            leave_in_flight_for(w, 500, 2 * S);
        },
    ),
    invalid(
        Code::LONGER_THAN_WINDOW,
        |w| w.interval().times.response = equal_times(1000, 2 * S),
        |w| {
            w.interval().times.response = equal_times(1000, 2 * S);
            w.plan.requests = Some(1000);
        },
    ),
    // Requests that failed immediately did not take longer than the window.
    invalid(
        Code::LONGER_THAN_WINDOW,
        |w| leave_in_flight_for(w, 600, 2 * S),
        |w| {
            leave_in_flight_for(w, 600, MS);
            let ages = w.record.unanswered.ages.values_mut().next().unwrap();
            *ages = build_times(&[(599, MS), (1, 2 * S)]);
        },
    )
    .given(|w| *w = TrialWorld::with_responses(400)),
    // The bound is twice the service time. p99 is known from 2,000 samples on.
    info(
        Code::QUEUEING,
        |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
        },
        |w| {
            set_response_time(w, 2000);
            w.set_rate(2000.0);
        },
    ),
    info(
        Code::QUEUEING,
        |w| {
            w.set_rate(2000.0);
            w.set_in_flight_time(31_900 * MS);
        },
        |_| {},
    )
    .given(|w| set_response_time(w, 2001)),
    info(
        Code::QUEUEING,
        |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
            w.set_in_flight_time(32 * S);
        },
        |w| set_response_time(w, 2000),
    ),
    info(
        Code::QUEUEING,
        |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
            w.set_in_flight_time(32 * S);
            w.set_generator_threads(&[(300 * MS, 51 * MS)]);
        },
        |w| set_response_time(w, 2000),
    ),
    info(
        Code::QUEUEING,
        |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
            w.set_in_flight_time(S);
            w.interval().wake_lag = equal_times(2000, 101_000);
        },
        |w| set_response_time(w, 2000),
    ),
    // The bound is a coefficient of variation 0.25 above the intended one.
    warning(
        Code::CLUMPED,
        |w| {
            set_gaps(w, (1000, 1000), (749, 1251));
            w.set_rate(1000.0);
        },
        |w| {
            set_gaps(w, (1000, 1000), (750, 1250));
            w.set_rate(1000.0);
        },
    ),
    warning(
        Code::CLUMPED,
        |w| {
            set_gaps(w, (500, 1500), (240, 1760));
            w.set_rate(1000.0);
        },
        |w| {
            set_gaps(w, (500, 1500), (250, 1750));
            w.set_rate(1000.0);
        },
    ),
    warning(
        Code::CLUMPED,
        |w| {
            w.set_rate(1000.0);
            w.set_generator_threads(&[(300 * MS, 0), (300 * MS, 0)]);
        },
        |_| {},
    )
    .given(|w| set_gaps(w, (1000, 1000), (100, 1900))),
    warning(Code::CLUMPED, |w| w.set_rate(1000.0), |_| {})
        .given(|w| set_gaps(w, (1000, 1000), (100, 1900))),
    // The gaps of dropped requests are no bursts.
    warning(
        Code::CLUMPED,
        |_| {},
        |w| {
            w.record.books.dropped = 1;
            w.record.books.scheduled += 1;
        },
    )
    .given(|w| {
        w.set_rate(1000.0);
        set_gaps(w, (1000, 1000), (100, 1900));
    }),
    warning(
        Code::WARMUP_FAILURES,
        |w| w.start.parts[0].warmup.as_mut().expect("a warm-up").failures = [(0, 107)].into(),
        // Another workload of the start failed.
        |w| w.start.parts[0].warmup.as_mut().expect("a warm-up").failures = [(1, 107)].into(),
    )
    .given(|w| set_warm_up(w, |_, _| {})),
    warning(
        Code::WARMUP_FAILURES,
        // An older archive without the number of failures.
        |w| set_warm_up(w, |slice, _| slice.correct_responses = slice.responses - 3),
        |w| set_warm_up(w, |_, _| {}),
    ),
];

const RUN_CASES: &[Case<RunWorld>] = &[
    run_world::info(
        Code::CUT_SHORT,
        |w| {
            let load = &mut w.run.trials[0].load;
            (load.cut_short, load.window_ns) = (true, (100_000_000, 500_000_000));
        },
        |w| w.run.trials[0].load.window_ns = (100_000_000, 500_000_000),
    ),
    run_world::info(
        Code::CUT_SHORT,
        |w| {
            let load = &mut w.run.trials[0].load;
            (load.cut_short, load.books.in_flight_at_end) = (true, 3);
        },
        |w| w.run.trials[0].load.books.in_flight_at_end = 3,
    ),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_cases("caveats/load", CASES);
    check_cases("caveats/load_of_runs", RUN_CASES);
}

/// Sets a number of requests for two threads with 64 connections, and the mean requests in flight.
fn set_uneven_threads(w: &mut TrialWorld, in_flight: u64) {
    w.step.connections = 64;
    w.plan.requests = Some(1000);
    w.set_generator_threads(&[(S / 4, 0), (S / 4, 0)]);
    w.set_in_flight_time(in_flight * S);
    // The first thread ends in the first half of the window.
    let both = [(0, WorkerUse::default()), (1, WorkerUse::default())];
    (w.interval().end_ns, w.interval().workers) = (S / 2, both.into());
    let mut second_half = Interval::new(Phase::Measured, S / 2, S);
    second_half.workers = [both[1]].into();
    w.record.intervals.push(second_half);
}

/// Sets an open loop that ends with the last of `n` requests.
fn set_requests_at_rate(w: &mut TrialWorld, n: u64) {
    w.set_rate(1000.0);
    w.plan.requests = Some(n);
}

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

/// Sets the gaps between requests in ns: half of them have the first length, and half the second.
fn set_gaps(w: &mut TrialWorld, intended: (u64, u64), achieved: (u64, u64)) {
    let halves = |(a, b): (u64, u64)| -> Times { build_times(&[(500, a), (500, b)]) };
    w.interval().intended_gap = halves(intended);
    w.interval().send_gap = halves(achieved);
}
