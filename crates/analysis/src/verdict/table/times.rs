//! Cases: times and rates of a load.

use dyno_archive::interval::Interval;
use dyno_archive::load::Edges;
use dyno_archive::outcome::Outcome;
use dyno_archive::plan::Arrivals;
use dyno_archive::{Phase, Times};

use super::Case;
use super::generator::nginx;
use super::world::{JudgedWorld, MS, S, mixed, same};
use crate::caveat::{Code, Severity};

/// Caveats from what an open loop offered, and what was answered.
pub(super) const PACE: &[Case<JudgedWorld>] = &[
    // After three service times of 1 ms 997 are offered. A fiftieth of them may lack a response,
    // and two standard deviations of the two in flight.
    Case {
        code: Code::RateNotReached,
        severity: Severity::Warning,
        says: "977 of 1000 offered requests per second got a response in 1.0 s of the window.",
        evidence: r#"{"offered": 1000.0}"#,
        trips: |w| answer(w, 976),
        just_not: |w| answer(w, 977),
        otherwise: None,
    },
    Case {
        code: Code::RateNotReached,
        severity: Severity::Warning,
        says: "of 1000 offered requests",
        evidence: "{}",
        trips: |w| answer(w, 0),
        just_not: |w| {
            answer(w, 0);
            w.step.arrivals = Arrivals::Closed;
        },
        otherwise: None,
    },
    // A fiftieth more may be answered, and two standard deviations of the one in flight.
    Case {
        code: Code::WarmupBacklog,
        severity: Severity::Invalid,
        says: "1023 requests per second got a response, and 1000 were offered. When",
        evidence: r#"{"offered": 1000.0, "answered": 1023.0}"#,
        trips: |w| answer_earlier(w, 23),
        just_not: |w| answer_earlier(w, 22),
        otherwise: None,
    },
    Case {
        code: Code::WarmupFailures,
        severity: Severity::Warning,
        says: "Requests of the warm-up without a correct response: 1. The numbers",
        evidence: r#"{"failed": 1}"#,
        trips: |w| {
            answer_earlier(w, 1);
            w.interval().carried.count(Outcome::UnexpectedStatus);
        },
        just_not: |w| answer_earlier(w, 1),
        otherwise: None,
    },
];

/// Caveats from times, and from gaps between requests.
pub(super) const CASES: &[Case<JudgedWorld>] = &[
    // 20 in flight by count and 21 by times: the bound of 5 %.
    Case {
        code: Code::LittlesLaw,
        severity: Severity::Invalid,
        says: "21.00 requests were in flight by their recorded times, and 20.00 by their count.",
        evidence: r#"{"in_flight": 20.0, "by_law": 21.000000001}"#,
        trips: |w| law(w, 20 * S, 21 * S + 1),
        just_not: |w| law(w, 20 * S, 21 * S),
        otherwise: None,
    },
    Case {
        code: Code::LittlesLaw,
        severity: Severity::Invalid,
        says: "19.00 requests were in flight",
        evidence: r#"{"in_flight": 20.0, "by_law": 18.999999999}"#,
        trips: |w| law(w, 20 * S, 19 * S - 1),
        just_not: |w| law(w, 20 * S, 19 * S),
        otherwise: None,
    },
    // Without edges the law is not checked.
    Case {
        code: Code::LittlesLaw,
        severity: Severity::Invalid,
        says: "On average, 40.00",
        evidence: "{}",
        trips: |w| law(w, 20 * S, 40 * S),
        just_not: |w| {
            law(w, 20 * S, 40 * S);
            w.record.edges = None;
        },
        otherwise: None,
    },
    // Where a hundredth of a request is in flight, microseconds are missing.
    Case {
        code: Code::LittlesLaw,
        severity: Severity::Invalid,
        says: "0.03 requests were in flight",
        evidence: "{}",
        trips: |w| law(w, 20 * MS, 26 * MS),
        just_not: |w| law(w, 10 * MS, 14 * MS),
        otherwise: None,
    },
    // Time before the window and in the drain does not count; time of exchanges that do not belong
    // to the window does.
    Case {
        code: Code::LittlesLaw,
        severity: Severity::Invalid,
        says: "1.00 requests were in flight by their recorded times, and 1.10 by their count.",
        evidence: r#"{"by_law": 1.0}"#,
        trips: |w| {
            spread(w);
            w.interval().in_flight_ns += S / 10;
        },
        just_not: |w| spread(w),
        otherwise: None,
    },
    // Histograms keep three digits: with 1 ms in all, nearly all of it before a window of 1 µs, the
    // error may be 1 µs.
    Case {
        code: Code::LittlesLaw,
        severity: Severity::Invalid,
        says: "10.00 by their count",
        evidence: r#"{"in_flight": 10.0, "by_law": 11.001}"#,
        trips: |w| set_before_window(w, 988_999),
        just_not: |w| set_before_window(w, 989_000),
        otherwise: None,
    },
    Case {
        code: Code::LongerThanWindow,
        severity: Severity::Invalid,
        says: "longer than the measured window of 1.00 s (2.00 s and more)",
        evidence: r#"{"window_us": 1e6}"#,
        trips: |w| w.interval().times.response = mixed(&[(499, MS), (501, 2 * S)]),
        just_not: |w| w.interval().times.response = mixed(&[(500, MS), (500, 2 * S)]),
        otherwise: None,
    },
    // The bound holds to the nanosecond; a window without length has no caveat.
    Case {
        code: Code::LongerThanWindow,
        severity: Severity::Invalid,
        says: "longer than the measured window of 0.00 s",
        evidence: r#"{"median_us": 2.0, "window_us": 1.999}"#,
        trips: |w| last(w, 1999),
        just_not: |w| last(w, 2000),
        otherwise: None,
    },
    Case {
        code: Code::LongerThanWindow,
        severity: Severity::Invalid,
        says: "longer than the measured window of 0.00 s",
        evidence: "{}",
        trips: |w| last(w, 1),
        just_not: |w| last(w, 0),
        otherwise: None,
    },
    Case {
        code: Code::LongerThanWindow,
        severity: Severity::Invalid,
        says: "(2.00 s and more)",
        evidence: "{}",
        trips: |w| {
            *w = JudgedWorld::with_answers(499);
            leave_for(w, 501, 2 * S);
        },
        just_not: |w| {
            *w = JudgedWorld::with_answers(500);
            leave_for(w, 500, 2 * S);
        },
        otherwise: None,
    },
    Case {
        code: Code::LongerThanWindow,
        severity: Severity::Invalid,
        says: "(2.00 s and more)",
        evidence: "{}",
        trips: |w| w.interval().times.response = same(1000, 2 * S),
        just_not: |w| {
            w.interval().times.response = same(1000, 2 * S);
            w.plan.requests = Some(1000);
        },
        otherwise: None,
    },
    // The bound is twice the service time; p99 is known from 2,000 samples on.
    Case {
        code: Code::Queueing,
        severity: Severity::Info,
        says: "The p99 of all requests is 2 µs from the intended start and 1 µs from sending. On \
               average, 2.0 of 64 possible requests were in flight",
        evidence: r#"{"response_p99_us": 2.001, "service_p99_us": 1.0, "places": 64}"#,
        trips: |w| {
            tail(w, 2001);
            w.set_rate(2000.0);
        },
        just_not: |w| {
            tail(w, 2000);
            w.set_rate(2000.0);
        },
        otherwise: None,
    },
    Case {
        code: Code::Queueing,
        severity: Severity::Info,
        says: "31.9 of 64 possible requests were in flight",
        evidence: r#"{"in_flight": 31.9}"#,
        trips: |w| {
            tail(w, 2001);
            w.set_rate(2000.0);
            w.hold(31_900 * MS);
        },
        just_not: |w| tail(w, 2001),
        otherwise: None,
    },
    Case {
        code: Code::Queueing,
        severity: Severity::Info,
        says: "from sending. Use more connections to find the server's own limit.",
        evidence: r#"{"in_flight": 32.0}"#,
        trips: |w| {
            tail(w, 2001);
            w.set_rate(2000.0);
            w.hold(32 * S);
        },
        just_not: |w| tail(w, 2000),
        otherwise: None,
    },
    Case {
        code: Code::Queueing,
        severity: Severity::Info,
        says: "The generator was late: on average, 32.0 of 64 possible requests were in flight",
        evidence: "{}",
        trips: |w| {
            tail(w, 2001);
            w.set_rate(2000.0);
            w.hold(32 * S);
            w.generate(&[(300 * MS, 51 * MS)]);
        },
        just_not: |w| tail(w, 2000),
        otherwise: None,
    },
    Case {
        code: Code::Queueing,
        severity: Severity::Info,
        says: "The generator was late: on average, 1.0 of 64 possible requests were in flight",
        evidence: "{}",
        trips: |w| {
            tail(w, 2001);
            w.set_rate(2000.0);
            w.hold(S);
            w.interval().wake_lag = same(2000, 101_000);
        },
        just_not: |w| tail(w, 2000),
        otherwise: None,
    },
    // Both bounds: a tenth of the median, and 100 µs.
    Case {
        code: Code::GeneratorLate,
        severity: Severity::Warning,
        says: "woke up to 200 µs late (p99), compared with a median response time of 2000 µs",
        evidence: "{}",
        trips: |w| wake(w, 200_000, 1_999 * 1000),
        just_not: |w| wake(w, 200_000, 2_010 * 1000),
        otherwise: None,
    },
    Case {
        code: Code::GeneratorLate,
        severity: Severity::Warning,
        says: "woke up to 101 µs late (p99), compared with a median response time of 500 µs",
        evidence: "{}",
        trips: |w| wake(w, 101_000, 500_000),
        just_not: |w| wake(w, 99_900, 500_000),
        otherwise: None,
    },
    Case {
        code: Code::GeneratorStarved,
        severity: Severity::Warning,
        says: "For 5.0 % of the time the generator waited for a CPU that another program used.",
        evidence: r#"{"run_delay_share": 0.050000001}"#,
        trips: |w| w.generate(&[(300 * MS, 50 * MS + 1)]),
        just_not: |w| w.generate(&[(300 * MS, 50 * MS)]),
        otherwise: None,
    },
    // The same over two seconds.
    Case {
        code: Code::GeneratorStarved,
        severity: Severity::Warning,
        says: "For 5.0 % of the time",
        evidence: "{}",
        trips: |w| {
            w.set_seconds(&[(1000, 500 * MS); 2]);
            w.generate(&[(300 * MS, 100 * MS + 1)]);
        },
        just_not: |w| {
            w.set_seconds(&[(1000, 500 * MS); 2]);
            w.generate(&[(300 * MS, 100 * MS)]);
        },
        otherwise: None,
    },
    // The wait is a mean over threads.
    Case {
        code: Code::GeneratorStarved,
        severity: Severity::Warning,
        says: "For 12 % of the time the generator waited for a CPU that another program used",
        evidence: r#"{"run_delay_share": 0.12}"#,
        trips: |w| {
            w.generate(&[(300 * MS, 160 * MS), (300 * MS, 80 * MS)]);
            w.machine().others = nginx();
        },
        just_not: |w| w.generate(&[(300 * MS, 90 * MS), (300 * MS, 10 * MS)]),
        otherwise: None,
    },
    // The bound: a coefficient of variation 0.25 above the intended one.
    Case {
        code: Code::Clumped,
        severity: Severity::Warning,
        says: "a coefficient of variation of 0.25 instead of 0.00",
        evidence: r#"{"intended_cv": 0.0, "achieved_cv": 0.251}"#,
        trips: |w| {
            gaps(w, (1000, 1000), (749, 1251));
            w.set_rate(1000.0);
        },
        just_not: |w| {
            gaps(w, (1000, 1000), (750, 1250));
            w.set_rate(1000.0);
        },
        otherwise: None,
    },
    Case {
        code: Code::Clumped,
        severity: Severity::Warning,
        says: "variation of 0.76 instead of 0.50",
        evidence: r#"{"intended_cv": 0.5, "achieved_cv": 0.76}"#,
        trips: |w| {
            gaps(w, (500, 1500), (240, 1760));
            w.set_rate(1000.0);
        },
        just_not: |w| {
            gaps(w, (500, 1500), (250, 1750));
            w.set_rate(1000.0);
        },
        otherwise: None,
    },
    Case {
        code: Code::Clumped,
        severity: Severity::Warning,
        says: "of 0.90 instead of 0.00",
        evidence: "{}",
        trips: |w| {
            gaps(w, (1000, 1000), (100, 1900));
            w.set_rate(1000.0);
        },
        just_not: |w| gaps(w, (1000, 1000), (100, 1900)),
        otherwise: None,
    },
];

/// Answers `n` of the 1,000 requests that are offered in the second; the others stay in flight.
fn answer(w: &mut JudgedWorld, n: u64) {
    *w = JudgedWorld::with_answers(n);
    w.set_rate(1000.0);
    w.interval().started = 1000;
    w.leave_in_flight(1000 - n);
}

/// All thousand of a second are answered, and so many of the warm-up.
fn answer_earlier(w: &mut JudgedWorld, n: u64) {
    answer(w, 1000);
    (0..n).for_each(|_| w.interval().carried.count(Outcome::Ok));
}

/// Sets both sides of Little's law, each in nanoseconds in flight within the window of one second.
fn law(w: &mut JudgedWorld, by_count: u64, by_times: u64) {
    w.interval().times.response = same(1000, 1000);
    w.interval().in_flight_ns = by_count;
    w.record.edges = Some(Edges { before_ns: 0, others_ns: by_times - 1000 * 1000 });
}

/// One second in flight within the window: 1 s of responses, less 0.2 s before it and 0.1 s after
/// it, plus 0.3 s of exchanges that do not belong to it.
fn spread(w: &mut JudgedWorld) {
    w.interval().times.response = mixed(&[(1_000_000, 1000)]);
    w.interval().in_flight_ns = S;
    w.record.edges = Some(Edges { before_ns: 200 * MS, others_ns: 300 * MS });
    let mut drain = Interval::new(Phase::Drain, S, 2 * S);
    drain.in_flight_ns = 100 * MS;
    w.record.intervals.push(drain);
}

/// 1 ms in flight, of which `before_ns` lie before a window of 1 µs; by count 10 µs lie in it.
fn set_before_window(w: &mut JudgedWorld, before_ns: u64) {
    w.record.window_ns = (0, 1000);
    w.interval().times.response = same(1000, 1000);
    w.interval().in_flight_ns = 10_000;
    w.record.edges = Some(Edges { before_ns, others_ns: 0 });
}

/// A window of this length, and requests that took 2 µs.
fn last(w: &mut JudgedWorld, window_ns: u64) {
    w.record.window_ns = (0, window_ns);
    w.interval().times.response = same(1000, 2000);
}

/// Adds `n` requests that never end and have waited for `ns`.
fn leave_for(w: &mut JudgedWorld, n: u64, ns: u64) {
    w.leave_in_flight(n);
    w.record.unanswered.ages = [("in_flight_at_end".into(), same(n, ns))].into();
}

/// 2,000 requests with a service time of 1 µs and this response time.
fn tail(w: &mut JudgedWorld, response_ns: u64) {
    *w = JudgedWorld::with_answers(2000);
    w.interval().times.response = same(2000, response_ns);
    w.interval().times.service = same(2000, 1000);
}

/// Sets the generator's wake lag, and the response time of 2,000 requests.
fn wake(w: &mut JudgedWorld, late_ns: u64, response_ns: u64) {
    *w = JudgedWorld::with_answers(2000);
    w.interval().wake_lag = same(2000, late_ns);
    w.interval().times.response = same(2000, response_ns);
}

/// Sets the gaps between requests in ns: half of them have the first length, half the second.
fn gaps(w: &mut JudgedWorld, intended: (u64, u64), achieved: (u64, u64)) {
    let halves = |(a, b): (u64, u64)| -> Times { mixed(&[(500, a), (500, b)]) };
    w.interval().intended_gap = halves(intended);
    w.interval().send_gap = halves(achieved);
}
