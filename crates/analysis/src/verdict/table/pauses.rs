//! A generator that stood still, a server that did, and requests that were not sent in full.

use dyno_archive::interval::EarlyResponses;
use dyno_archive::silence::Silence;
use dyno_archive::{Interval, Phase};

use super::world::{JudgedWorld, MS, S, same, sample_at};
use super::{Case, judge};
use crate::caveat::{Code, Severity};

#[test]
fn generator_that_did_not_run_is_refused() {
    judge(STOPPED);
}

#[test]
fn server_that_stalls_is_named() {
    judge(STALLED);
}

#[test]
fn requests_that_were_not_sent_in_full_are_named() {
    judge(EARLY);
}

const fn stopped(trips: fn(&mut JudgedWorld), just_not: fn(&mut JudgedWorld)) -> Case<JudgedWorld> {
    Case {
        code: Code::GeneratorStopped,
        severity: Severity::Invalid,
        says: "The generator did not run for 0.1",
        evidence: "{}",
        trips,
        just_not,
        otherwise: None,
    }
}

/// A window of 10 s in intervals of a second: a hundredth is less than an interval.
fn long(world: &mut JudgedWorld) {
    world.set_seconds(&[(1000, 500 * MS); 10]);
}

pub(super) const STOPPED: &[Case<JudgedWorld>] = &[
    stopped(
        |w| {
            long(w);
            w.record.intervals[3].loop_lag = same(1, 101 * MS);
        },
        |w| {
            long(w);
            w.record.intervals[3].loop_lag = same(1000, 99 * MS);
        },
    ),
    stopped(
        |w| {
            long(w);
            w.record.intervals[9].wake_lag = same(1, 101 * MS);
        },
        |w| {
            long(w);
            w.record.intervals[9].wake_lag = same(1, 99 * MS);
        },
    ),
    // A pause that began in the warm-up and reaches into the window.
    stopped(
        |w| {
            w.record.intervals.insert(0, Interval::new(Phase::Warmup, 0, 50 * MS));
            w.record.window_ns.0 = 50 * MS;
            w.record.samples[0] = sample_at(50 * MS, 0);
            w.record.intervals[0].wake_lag = same(1, 160 * MS);
        },
        |w| {
            w.record.intervals.insert(0, Interval::new(Phase::Warmup, 0, 50 * MS));
            w.record.window_ns.0 = 50 * MS;
            w.record.samples[0] = sample_at(50 * MS, 0);
            w.record.intervals[0].wake_lag = same(1, 90 * MS);
        },
    ),
    // A short window may be interrupted for as long as hypervisors do that.
    stopped(
        |w| w.interval().loop_lag = same(1, 110 * MS),
        |w| w.interval().loop_lag = same(9, 49 * MS),
    ),
    // The control thread reads the last counters late.
    stopped(
        |w| w.record.samples[1] = sample_at(S + 101 * MS, 500 * MS),
        |w| w.record.samples[1] = sample_at(S + 49 * MS, 500 * MS),
    ),
    stopped(
        |w| w.machine().suspended_ns = Some(120 * MS),
        |w| w.machine().suspended_ns = Some(2 * MS),
    ),
];

fn silent(w: &mut JudgedWorld, from_ms: u64, for_ms: u64) {
    pause(w, from_ms, for_ms, false);
}

/// A silence in which a request failed.
fn failing(w: &mut JudgedWorld, from_ms: u64, for_ms: u64) {
    pause(w, from_ms, for_ms, true);
}

fn pause(w: &mut JudgedWorld, from_ms: u64, for_ms: u64, fails: bool) {
    let (start_ns, end_ns) = (from_ms * MS, (from_ms + for_ms) * MS);
    let failures_ns = fails.then_some((start_ns + MS, start_ns + MS));
    let silence = Silence { start_ns, busy_ns: start_ns, end_ns, in_flight: 4, failures_ns };
    w.record.silences.get_or_insert_default().push(silence);
}

/// 20 responses of 30 ms each.
fn few(w: &mut JudgedWorld) {
    *w = JudgedWorld::with_answers(20);
    w.interval().times.response = same(20, 30 * MS);
}

const fn stalled(trips: fn(&mut JudgedWorld), just_not: fn(&mut JudgedWorld)) -> Case<JudgedWorld> {
    Case {
        code: Code::Stalled,
        severity: Severity::Warning,
        says: "although 4 requests were in flight",
        evidence: r#"{"in_flight": 4}"#,
        trips,
        just_not,
        otherwise: None,
    }
}

pub(super) const STALLED: &[Case<JudgedWorld>] = &[
    Case {
        code: Code::Outage,
        severity: Severity::Invalid,
        says: "The server was down: it sent no response for 11 % of the window, and requests \
               failed meanwhile or have no response.",
        evidence: r#"{"share": 0.11, "stalls": 1, "longest_s": 0.11}"#,
        ..stalled(|w| failing(w, 200, 110), |w| failing(w, 200, 90))
    },
    Case {
        code: Code::Outage,
        severity: Severity::Invalid,
        says: "for 12 % of the window, and requests failed",
        evidence: r#"{"share": 0.12, "stalls": 4}"#,
        ..stalled(
            |w| (0..4).for_each(|n| failing(w, 200 * n, 30)),
            |w| {
                (0..3).for_each(|n| failing(w, 200 * n, 30));
                silent(w, 700, 100);
            },
        )
    },
    // Requests take 1 ms: half of the window without a response would be 0.49 s for the hundredth
    // that waits longest.
    Case {
        says: "for 0.50 s, from 0.20 s after the load began, although 4 requests were in flight. \
               The stall took 50 % of the window. A closed loop sends no requests during a stall, \
               so its percentiles hardly show it. Estimate, in no histogram: with arrivals at the \
               same rate, p99 would be at least 0.49 s.",
        evidence: r#"{"longest_s": 0.5, "at_s": 0.2, "stalls": 1, "share": 0.5}"#,
        ..stalled(|w| silent(w, 200, 500), |w| silent(w, 200, 20))
    },
    // An open loop shows it in its response times.
    stalled(
        |w| silent(w, 0, 400),
        |w| {
            silent(w, 0, 400);
            w.set_rate(1000.0);
        },
    ),
    // Ten times the ordinary response time is not out of the ordinary.
    stalled(
        |w| {
            w.interval().times.response = same(1000, 20 * MS);
            silent(w, 100, 220);
        },
        |w| {
            w.interval().times.response = same(1000, 20 * MS);
            silent(w, 100, 190);
        },
    ),
    // The generator itself stood still.
    stalled(
        |w| {
            silent(w, 100, 300);
            w.interval().wake_lag = same(1, 20 * MS);
        },
        |w| {
            silent(w, 100, 300);
            w.interval().wake_lag = same(1, 299 * MS);
        },
    ),
    // Outside of the window; at its beginning and at its end.
    stalled(|w| silent(w, 900, 2000), |w| silent(w, 1000, 2000)),
    stalled(|w| silent(w, 900, 2000), |w| silent(w, 980, 2000)),
    stalled(
        |w| {
            silent(w, 0, 400);
            w.record.window_ns.0 = 300 * MS;
        },
        |w| {
            silent(w, 0, 320);
            w.record.window_ns.0 = 300 * MS;
        },
    ),
    // None of five stalls of 30 ms is a hundredth of ten seconds, but together they are: of the
    // arrivals
    // 1.5 % wait, and one in a hundred for 10 ms or more.
    Case {
        says: "It was the longest of 5 stalls, which together took 1.5 % of the window. A closed \
               loop sends no requests during a stall, so its percentiles hardly show it. Estimate, \
               in no histogram: with arrivals at the same rate, p99 would be at least 11 ms.",
        evidence: r#"{"stalls": 5, "share": 0.015}"#,
        ..stalled(
            |w| {
                long(w);
                (0..5).for_each(|n| silent(w, 1000 * n, 30));
            },
            |w| {
                long(w);
                (0..3).for_each(|n| silent(w, 1000 * n, 30));
            },
        )
    },
    // One connection to a slow server: 20 responses are too few for a percentile.
    stalled(
        |w| {
            few(w);
            silent(w, 100, 400);
        },
        |w| {
            few(w);
            silent(w, 100, 290);
        },
    ),
];

fn early(w: &mut JudgedWorld, responses: u64) {
    let unsent_bytes = responses * 300;
    w.interval().answered_early = Some(EarlyResponses { responses, unsent_bytes, refusals: None });
}

pub(super) const EARLY: &[Case<JudgedWorld>] = &[
    Case {
        code: Code::AnsweredEarly,
        severity: Severity::Invalid,
        says: "11 of 1000 responses were complete before their request was sent in full. On \
               average, 300 bytes of the request were left.",
        evidence: r#"{"responses": 11, "unsent_bytes": 3300, "completed": 1000}"#,
        trips: |w| early(w, 11),
        just_not: |w| early(w, 10),
        otherwise: Some(Severity::Warning),
    },
    // Only refusals among the early responses are excused, whatever other requests are refused.
    Case {
        code: Code::AnsweredEarly,
        severity: Severity::Invalid,
        says: "20 of 1000 responses",
        evidence: "{}",
        trips: |w| {
            early(w, 20);
            w.interval().answered_early.as_mut().expect("early").refusals = Some(9);
            (0..1000).for_each(|_| w.interval().outcomes.count_status(404));
        },
        just_not: |w| {
            early(w, 20);
            w.interval().answered_early.as_mut().expect("early").refusals = Some(10);
        },
        otherwise: Some(Severity::Warning),
    },
    // Refusals may come from the head alone, if they are expected.
    Case {
        code: Code::AnsweredEarly,
        severity: Severity::Invalid,
        says: "1000 of 1000 responses",
        evidence: "{}",
        trips: |w| early(w, 1000),
        just_not: |w| {
            early(w, 1000);
            (0..1000).for_each(|_| w.interval().outcomes.count_status(413));
        },
        otherwise: Some(Severity::Warning),
    },
    Case {
        code: Code::AnsweredEarly,
        severity: Severity::Warning,
        says: "1 of 1000 responses",
        evidence: "{}",
        trips: |w| early(w, 1),
        just_not: |_| {},
        otherwise: None,
    },
];
