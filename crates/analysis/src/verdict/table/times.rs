//! Test cases: caveats about the times and rates of a load.

use dyno_archive::interval::Interval;
use dyno_archive::load::Edges;
use dyno_archive::outcome::Outcome;
use dyno_archive::plan::Arrivals;
use dyno_archive::{Phase, Times};

use super::Case;
use super::generator::nginx;
use super::world::{MS, S, TrialWorld, build_times, equal_times};
use crate::caveat::{Code, Severity};

/// Caveats about the offered rate and the rate of responses.
pub(super) const PACE: &[Case<TrialWorld>] = &[
    // 997 requests are offered after the first three service times of 1 ms. Without a caveat a
    // fiftieth of them may lack a response, plus two standard deviations of the two requests in
    // flight.
    Case {
        code: Code::RateNotReached,
        severity: Severity::Warning,
        message: "977 of 1000 offered requests per second got a response in 1.0 s of the window.",
        evidence: r#"{"offered": 1000.0}"#,
        trigger: |w| respond_to(w, 976),
        near_miss: |w| respond_to(w, 977),
        near_miss_severity: None,
    },
    Case {
        code: Code::RateNotReached,
        severity: Severity::Warning,
        message: "of 1000 offered requests",
        evidence: "{}",
        trigger: |w| respond_to(w, 0),
        near_miss: |w| {
            respond_to(w, 0);
            w.step.arrivals = Arrivals::Closed;
        },
        near_miss_severity: None,
    },
    // Without a caveat a fiftieth more may get a response, plus two standard deviations of the one
    // request in flight.
    Case {
        code: Code::WarmupBacklog,
        severity: Severity::Invalid,
        message: "1023 requests per second got a response, and 1000 were offered. When",
        evidence: r#"{"offered": 1000.0, "answered": 1023.0}"#,
        trigger: |w| respond_to_warm_up(w, 23),
        near_miss: |w| respond_to_warm_up(w, 22),
        near_miss_severity: None,
    },
    Case {
        code: Code::WarmupFailures,
        severity: Severity::Warning,
        message: "Requests of the warm-up without a correct response: 1. The numbers",
        evidence: r#"{"failed": 1}"#,
        trigger: |w| {
            respond_to_warm_up(w, 1);
            w.interval().carried.count(Outcome::UnexpectedStatus);
        },
        near_miss: |w| respond_to_warm_up(w, 1),
        near_miss_severity: None,
    },
];

/// Caveats about times, and about gaps between requests.
pub(super) const CASES: &[Case<TrialWorld>] = &[
    // 20 in flight by count and 21 by times: the bound of 5 %.
    Case {
        code: Code::LittlesLaw,
        severity: Severity::Invalid,
        message: "21.00 requests were in flight by their recorded times, and 20.00 by their count.",
        evidence: r#"{"in_flight": 20.0, "by_law": 21.000000001}"#,
        trigger: |w| set_littles_law(w, 20 * S, 21 * S + 1),
        near_miss: |w| set_littles_law(w, 20 * S, 21 * S),
        near_miss_severity: None,
    },
    Case {
        code: Code::LittlesLaw,
        severity: Severity::Invalid,
        message: "19.00 requests were in flight",
        evidence: r#"{"in_flight": 20.0, "by_law": 18.999999999}"#,
        trigger: |w| set_littles_law(w, 20 * S, 19 * S - 1),
        near_miss: |w| set_littles_law(w, 20 * S, 19 * S),
        near_miss_severity: None,
    },
    // Little's law is not checked if the times at the window's edges are unknown.
    Case {
        code: Code::LittlesLaw,
        severity: Severity::Invalid,
        message: "On average, 40.00",
        evidence: "{}",
        trigger: |w| set_littles_law(w, 20 * S, 40 * S),
        near_miss: |w| {
            set_littles_law(w, 20 * S, 40 * S);
            w.record.edges = None;
        },
        near_miss_severity: None,
    },
    // If only hundredths of a request are in flight, the difference is microseconds, and is
    // ignored.
    Case {
        code: Code::LittlesLaw,
        severity: Severity::Invalid,
        message: "0.03 requests were in flight",
        evidence: "{}",
        trigger: |w| set_littles_law(w, 20 * MS, 26 * MS),
        near_miss: |w| set_littles_law(w, 10 * MS, 14 * MS),
        near_miss_severity: None,
    },
    // Time before the window and in the drain does not count. Time of exchanges that do not belong
    // to the window counts.
    Case {
        code: Code::LittlesLaw,
        severity: Severity::Invalid,
        message: "1.00 requests were in flight by their recorded times, and 1.10 by their count.",
        evidence: r#"{"by_law": 1.0}"#,
        trigger: |w| {
            set_edges(w);
            w.interval().in_flight_ns += S / 10;
        },
        near_miss: |w| set_edges(w),
        near_miss_severity: None,
    },
    // Histograms keep three digits. With a total of 1 ms, nearly all of it before a window of 1 µs,
    // the error may be 1 µs.
    Case {
        code: Code::LittlesLaw,
        severity: Severity::Invalid,
        message: "10.00 by their count",
        evidence: r#"{"in_flight": 10.0, "by_law": 11.001}"#,
        trigger: |w| set_before_window(w, 988_999),
        near_miss: |w| set_before_window(w, 989_000),
        near_miss_severity: None,
    },
    Case {
        code: Code::LongerThanWindow,
        severity: Severity::Invalid,
        message: "longer than the measured window of 1.00 s (2.00 s and more)",
        evidence: r#"{"window_us": 1e6}"#,
        trigger: |w| w.interval().times.response = build_times(&[(499, MS), (501, 2 * S)]),
        near_miss: |w| w.interval().times.response = build_times(&[(500, MS), (500, 2 * S)]),
        near_miss_severity: None,
    },
    // The bound holds to the nanosecond. A window of length 0 has no caveat.
    Case {
        code: Code::LongerThanWindow,
        severity: Severity::Invalid,
        message: "longer than the measured window of 0.00 s",
        evidence: r#"{"median_us": 2.0, "window_us": 1.999}"#,
        trigger: |w| set_window(w, 1999),
        near_miss: |w| set_window(w, 2000),
        near_miss_severity: None,
    },
    Case {
        code: Code::LongerThanWindow,
        severity: Severity::Invalid,
        message: "longer than the measured window of 0.00 s",
        evidence: "{}",
        trigger: |w| set_window(w, 1),
        near_miss: |w| set_window(w, 0),
        near_miss_severity: None,
    },
    Case {
        code: Code::LongerThanWindow,
        severity: Severity::Invalid,
        message: "(2.00 s and more)",
        evidence: "{}",
        trigger: |w| {
            *w = TrialWorld::with_responses(499);
            leave_in_flight_for(w, 501, 2 * S);
        },
        near_miss: |w| {
            *w = TrialWorld::with_responses(500);
            leave_in_flight_for(w, 500, 2 * S);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::LongerThanWindow,
        severity: Severity::Invalid,
        message: "(2.00 s and more)",
        evidence: "{}",
        trigger: |w| w.interval().times.response = equal_times(1000, 2 * S),
        near_miss: |w| {
            w.interval().times.response = equal_times(1000, 2 * S);
            w.plan.requests = Some(1000);
        },
        near_miss_severity: None,
    },
    // Requests that failed immediately did not take longer than the window.
    Case {
        code: Code::LongerThanWindow,
        severity: Severity::Invalid,
        message: "(2.00 s and more)",
        evidence: "{}",
        trigger: |w| {
            *w = TrialWorld::with_responses(400);
            leave_in_flight_for(w, 600, 2 * S);
        },
        near_miss: |w| {
            *w = TrialWorld::with_responses(400);
            leave_in_flight_for(w, 600, MS);
            let ages = w.record.unanswered.ages.values_mut().next().unwrap();
            *ages = build_times(&[(599, MS), (1, 2 * S)]);
        },
        near_miss_severity: None,
    },
    // The bound is twice the service time. p99 is known from 2,000 samples on.
    Case {
        code: Code::Queueing,
        severity: Severity::Info,
        message: "The p99 of all requests is 2 µs from the intended start and 1 µs from sending. \
                  On average, 2.0 of 64 possible requests were in flight",
        evidence: r#"{"response_p99_us": 2.001, "service_p99_us": 1.0, "max_in_flight": 64}"#,
        trigger: |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
        },
        near_miss: |w| {
            set_response_time(w, 2000);
            w.set_rate(2000.0);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::Queueing,
        severity: Severity::Info,
        message: "31.9 of 64 possible requests were in flight",
        evidence: r#"{"in_flight": 31.9}"#,
        trigger: |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
            w.set_in_flight_time(31_900 * MS);
        },
        near_miss: |w| set_response_time(w, 2001),
        near_miss_severity: None,
    },
    Case {
        code: Code::Queueing,
        severity: Severity::Info,
        message: "from sending. Use more connections to find the server's own limit.",
        evidence: r#"{"in_flight": 32.0}"#,
        trigger: |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
            w.set_in_flight_time(32 * S);
        },
        near_miss: |w| set_response_time(w, 2000),
        near_miss_severity: None,
    },
    Case {
        code: Code::Queueing,
        severity: Severity::Info,
        message: "The generator was late: on average, 32.0 of 64 possible requests were in flight",
        evidence: "{}",
        trigger: |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
            w.set_in_flight_time(32 * S);
            w.set_generator_threads(&[(300 * MS, 51 * MS)]);
        },
        near_miss: |w| set_response_time(w, 2000),
        near_miss_severity: None,
    },
    Case {
        code: Code::Queueing,
        severity: Severity::Info,
        message: "The generator was late: on average, 1.0 of 64 possible requests were in flight",
        evidence: "{}",
        trigger: |w| {
            set_response_time(w, 2001);
            w.set_rate(2000.0);
            w.set_in_flight_time(S);
            w.interval().wake_lag = equal_times(2000, 101_000);
        },
        near_miss: |w| set_response_time(w, 2000),
        near_miss_severity: None,
    },
    // The bounds are a tenth of the median, and 100 µs.
    Case {
        code: Code::GeneratorLate,
        severity: Severity::Warning,
        message: "wake lag is 200 µs, compared with a median response time of 2000 µs",
        evidence: "{}",
        trigger: |w| set_wake_lag(w, 200_000, 1_999 * 1000),
        near_miss: |w| set_wake_lag(w, 200_000, 2_010 * 1000),
        near_miss_severity: None,
    },
    Case {
        code: Code::GeneratorLate,
        severity: Severity::Warning,
        message: "wake lag is 101 µs, compared with a median response time of 500 µs",
        evidence: "{}",
        trigger: |w| set_wake_lag(w, 101_000, 500_000),
        near_miss: |w| set_wake_lag(w, 99_900, 500_000),
        near_miss_severity: None,
    },
    // With 1,000 wake-ups the p99 is unknown.
    Case {
        code: Code::GeneratorLate,
        severity: Severity::Warning,
        message: "The p90 of the generator's wake lag is 101 µs, compared with a median response",
        evidence: "{}",
        trigger: |w| set_few_wake_lags(w, 101_000),
        near_miss: |w| set_few_wake_lags(w, 99_900),
        near_miss_severity: None,
    },
    Case {
        code: Code::GeneratorStarved,
        severity: Severity::Warning,
        message: "For 5.0 % of the time the generator waited for a CPU that another program used.",
        evidence: r#"{"run_delay_share": 0.050000001}"#,
        trigger: |w| w.set_generator_threads(&[(300 * MS, 50 * MS + 1)]),
        near_miss: |w| w.set_generator_threads(&[(300 * MS, 50 * MS)]),
        near_miss_severity: None,
    },
    // The same bound over two seconds.
    Case {
        code: Code::GeneratorStarved,
        severity: Severity::Warning,
        message: "For 5.0 % of the time",
        evidence: "{}",
        trigger: |w| {
            w.set_seconds(&[(1000, 500 * MS); 2]);
            w.set_generator_threads(&[(300 * MS, 100 * MS + 1)]);
        },
        near_miss: |w| {
            w.set_seconds(&[(1000, 500 * MS); 2]);
            w.set_generator_threads(&[(300 * MS, 100 * MS)]);
        },
        near_miss_severity: None,
    },
    // The wait is a mean over threads.
    Case {
        code: Code::GeneratorStarved,
        severity: Severity::Warning,
        message: "For 12 % of the time the generator waited for a CPU that another program used",
        evidence: r#"{"run_delay_share": 0.12}"#,
        trigger: |w| {
            w.set_generator_threads(&[(300 * MS, 160 * MS), (300 * MS, 80 * MS)]);
            w.machine().others = nginx();
        },
        near_miss: |w| w.set_generator_threads(&[(300 * MS, 90 * MS), (300 * MS, 10 * MS)]),
        near_miss_severity: None,
    },
    // The bound is a coefficient of variation 0.25 above the intended one.
    Case {
        code: Code::Clumped,
        severity: Severity::Warning,
        message: "a coefficient of variation of 0.25 instead of 0.00",
        evidence: r#"{"intended_cv": 0.0, "achieved_cv": 0.251}"#,
        trigger: |w| {
            set_gaps(w, (1000, 1000), (749, 1251));
            w.set_rate(1000.0);
        },
        near_miss: |w| {
            set_gaps(w, (1000, 1000), (750, 1250));
            w.set_rate(1000.0);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::Clumped,
        severity: Severity::Warning,
        message: "variation of 0.76 instead of 0.50",
        evidence: r#"{"intended_cv": 0.5, "achieved_cv": 0.76}"#,
        trigger: |w| {
            set_gaps(w, (500, 1500), (240, 1760));
            w.set_rate(1000.0);
        },
        near_miss: |w| {
            set_gaps(w, (500, 1500), (250, 1750));
            w.set_rate(1000.0);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::Clumped,
        severity: Severity::Warning,
        message: "of 0.90 instead of 0.00",
        evidence: "{}",
        trigger: |w| {
            set_gaps(w, (1000, 1000), (100, 1900));
            w.set_rate(1000.0);
        },
        near_miss: |w| set_gaps(w, (1000, 1000), (100, 1900)),
        near_miss_severity: None,
    },
];

/// Sets a second in which `n` of 1,000 offered requests get a response. The others stay in flight.
fn respond_to(w: &mut TrialWorld, n: u64) {
    *w = TrialWorld::with_responses(n);
    w.set_rate(1000.0);
    w.interval().started = 1000;
    w.leave_in_flight(1000 - n);
}

/// Sets a second in which all 1,000 requests get a response, and `n` requests of the warm-up.
fn respond_to_warm_up(w: &mut TrialWorld, n: u64) {
    respond_to(w, 1000);
    (0..n).for_each(|_| w.interval().carried.count(Outcome::Ok));
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
