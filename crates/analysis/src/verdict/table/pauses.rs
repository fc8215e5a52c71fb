//! Tests of caveats about pauses of the generator, stalls of the server, and responses that came
//! before their request was sent in full.

use dyno_archive::interval::EarlyResponses;
use dyno_archive::silence::Silence;
use dyno_archive::{Interval, Phase};

use super::world::{MS, S, TrialWorld, equal_times, sample_at};
use super::{Case, check_cases};
use crate::caveat::{Code, Severity};

#[test]
fn each_generator_pause_rule_triggers_at_its_bound() {
    check_cases(GENERATOR_PAUSES);
}

#[test]
fn each_stall_rule_triggers_at_its_bound() {
    check_cases(SERVER_STALLS);
}

#[test]
fn each_early_response_rule_triggers_at_its_bound() {
    check_cases(EARLY_RESPONSES);
}

const fn generator_pause(
    trigger: fn(&mut TrialWorld),
    near_miss: fn(&mut TrialWorld),
) -> Case<TrialWorld> {
    Case {
        code: Code::GeneratorStopped,
        severity: Severity::Invalid,
        message: "The generator did not run for 0.1",
        evidence: "{}",
        trigger,
        near_miss,
        near_miss_severity: None,
    }
}

/// Sets a window of 10 s in intervals of a second, so that 1 % of it is shorter than an interval.
fn set_long_window(world: &mut TrialWorld) {
    world.set_seconds(&[(1000, 500 * MS); 10]);
}

pub(super) const GENERATOR_PAUSES: &[Case<TrialWorld>] = &[
    generator_pause(
        |w| {
            set_long_window(w);
            w.record.intervals[3].loop_lag = equal_times(1, 101 * MS);
        },
        |w| {
            set_long_window(w);
            w.record.intervals[3].loop_lag = equal_times(1000, 99 * MS);
        },
    ),
    generator_pause(
        |w| {
            set_long_window(w);
            w.record.intervals[9].wake_lag = equal_times(1, 101 * MS);
        },
        |w| {
            set_long_window(w);
            w.record.intervals[9].wake_lag = equal_times(1, 99 * MS);
        },
    ),
    // A pause that began in the warm-up and reaches into the window.
    generator_pause(
        |w| {
            w.record.intervals.insert(0, Interval::new(Phase::Warmup, 0, 50 * MS));
            w.record.window_ns.0 = 50 * MS;
            w.record.samples[0] = sample_at(50 * MS, 0);
            w.record.intervals[0].wake_lag = equal_times(1, 160 * MS);
        },
        |w| {
            w.record.intervals.insert(0, Interval::new(Phase::Warmup, 0, 50 * MS));
            w.record.window_ns.0 = 50 * MS;
            w.record.samples[0] = sample_at(50 * MS, 0);
            w.record.intervals[0].wake_lag = equal_times(1, 90 * MS);
        },
    ),
    // In a short window, pauses are accepted that are as long as the pauses of hypervisors.
    generator_pause(
        |w| w.interval().loop_lag = equal_times(1, 110 * MS),
        |w| w.interval().loop_lag = equal_times(9, 49 * MS),
    ),
    // The control thread reads the last counters late.
    generator_pause(
        |w| w.record.samples[1] = sample_at(S + 101 * MS, 500 * MS),
        |w| w.record.samples[1] = sample_at(S + 49 * MS, 500 * MS),
    ),
    generator_pause(
        |w| w.machine().suspended_ns = Some(120 * MS),
        |w| w.machine().suspended_ns = Some(2 * MS),
    ),
];

fn add_silence(w: &mut TrialWorld, from_ms: u64, for_ms: u64) {
    add_pause(w, from_ms, for_ms, false);
}

/// Adds a silence in which a request failed.
fn add_failing_silence(w: &mut TrialWorld, from_ms: u64, for_ms: u64) {
    add_pause(w, from_ms, for_ms, true);
}

fn add_pause(w: &mut TrialWorld, from_ms: u64, for_ms: u64, has_failure: bool) {
    let (start_ns, end_ns) = (from_ms * MS, (from_ms + for_ms) * MS);
    let failures_ns = has_failure.then_some((start_ns + MS, start_ns + MS));
    let silence = Silence { start_ns, busy_ns: start_ns, end_ns, in_flight: 4, failures_ns };
    w.record.silences.get_or_insert_default().push(silence);
}

/// Sets 20 responses of 30 ms each.
fn set_few_responses(w: &mut TrialWorld) {
    *w = TrialWorld::with_responses(20);
    w.interval().times.response = equal_times(20, 30 * MS);
}

const fn server_stall(
    trigger: fn(&mut TrialWorld),
    near_miss: fn(&mut TrialWorld),
) -> Case<TrialWorld> {
    Case {
        code: Code::Stalled,
        severity: Severity::Warning,
        message: "although 4 requests were in flight",
        evidence: r#"{"in_flight": 4}"#,
        trigger,
        near_miss,
        near_miss_severity: None,
    }
}

pub(super) const SERVER_STALLS: &[Case<TrialWorld>] = &[
    Case {
        code: Code::Outage,
        severity: Severity::Invalid,
        message: "The server was down: it sent no response for 11 % of the window, and requests \
                  failed during that time or have no response.",
        evidence: r#"{"share": 0.11, "stalls": 1, "longest_s": 0.11}"#,
        ..server_stall(|w| add_failing_silence(w, 200, 110), |w| add_failing_silence(w, 200, 90))
    },
    // The end of the load by the user excuses no server that is down.
    Case {
        code: Code::Outage,
        severity: Severity::Invalid,
        message: "The server was down: it sent no response for 11 % of the window",
        evidence: "{}",
        ..server_stall(
            |w| {
                add_failing_silence(w, 200, 110);
                w.record.cut_short = true;
            },
            |w| {
                add_failing_silence(w, 200, 90);
                w.record.cut_short = true;
            },
        )
    },
    Case {
        code: Code::Outage,
        severity: Severity::Invalid,
        message: "for 12 % of the window, and requests failed",
        evidence: r#"{"share": 0.12, "stalls": 4}"#,
        ..server_stall(
            |w| (0..4).for_each(|n| add_failing_silence(w, 200 * n, 30)),
            |w| {
                (0..3).for_each(|n| add_failing_silence(w, 200 * n, 30));
                add_silence(w, 700, 100);
            },
        )
    },
    // Requests take 1 ms. In a stall of half the window, 1 % of evenly spread arrivals would wait
    // for at least 0.49 s.
    Case {
        message: "for 0.50 s, from 0.20 s after the load began, although 4 requests were in \
                  flight. The stall took 50 % of the window. A closed loop sends no requests \
                  during a stall, so its percentiles hardly show it. Estimate, in no histogram: \
                  with arrivals at the same rate, p99 would be at least 0.49 s.",
        evidence: r#"{"longest_s": 0.5, "at_s": 0.2, "stalls": 1, "share": 0.5}"#,
        ..server_stall(|w| add_silence(w, 200, 500), |w| add_silence(w, 200, 20))
    },
    // In an open loop the response times show a stall.
    server_stall(
        |w| add_silence(w, 0, 400),
        |w| {
            add_silence(w, 0, 400);
            w.set_rate(1000.0);
        },
    ),
    // A stall is at least ten times as long as the median response time.
    server_stall(
        |w| {
            w.interval().times.response = equal_times(1000, 20 * MS);
            add_silence(w, 100, 220);
        },
        |w| {
            w.interval().times.response = equal_times(1000, 20 * MS);
            add_silence(w, 100, 190);
        },
    ),
    // A pause of the generator is not a stall of the server.
    server_stall(
        |w| {
            add_silence(w, 100, 300);
            w.interval().wake_lag = equal_times(1, 20 * MS);
        },
        |w| {
            add_silence(w, 100, 300);
            w.interval().wake_lag = equal_times(1, 299 * MS);
        },
    ),
    // Only the part of a stall within the window counts.
    server_stall(|w| add_silence(w, 900, 2000), |w| add_silence(w, 1000, 2000)),
    server_stall(|w| add_silence(w, 900, 2000), |w| add_silence(w, 980, 2000)),
    server_stall(
        |w| {
            add_silence(w, 0, 400);
            w.record.window_ns.0 = 300 * MS;
        },
        |w| {
            add_silence(w, 0, 320);
            w.record.window_ns.0 = 300 * MS;
        },
    ),
    // Five stalls of 30 ms are together more than 1 % of ten seconds. 1.5 % of all arrivals wait,
    // and 1 % of all wait for at least 10 ms.
    Case {
        message: "It was the longest of 5 stalls, which together took 1.5 % of the window. A \
                  closed loop sends no requests during a stall, so its percentiles hardly show it. \
                  Estimate, in no histogram: with arrivals at the same rate, p99 would be at least \
                  11 ms.",
        evidence: r#"{"stalls": 5, "share": 0.015}"#,
        ..server_stall(
            |w| {
                set_long_window(w);
                (0..5).for_each(|n| add_silence(w, 1000 * n, 30));
            },
            |w| {
                set_long_window(w);
                (0..3).for_each(|n| add_silence(w, 1000 * n, 30));
            },
        )
    },
    // One connection to a slow server: 20 responses are too few for a percentile.
    server_stall(
        |w| {
            set_few_responses(w);
            add_silence(w, 100, 400);
        },
        |w| {
            set_few_responses(w);
            add_silence(w, 100, 290);
        },
    ),
];

fn set_early_responses(w: &mut TrialWorld, responses: u64) {
    let unsent_bytes = responses * 300;
    w.interval().answered_early = Some(EarlyResponses { responses, unsent_bytes, refusals: None });
}

pub(super) const EARLY_RESPONSES: &[Case<TrialWorld>] = &[
    Case {
        code: Code::AnsweredEarly,
        severity: Severity::Invalid,
        message: "11 of 1000 responses were complete before their request was sent in full. On \
                  average, 300 bytes of the request were left.",
        evidence: r#"{"responses": 11, "unsent_bytes": 3300, "completed": 1000}"#,
        trigger: |w| set_early_responses(w, 11),
        near_miss: |w| set_early_responses(w, 10),
        near_miss_severity: Some(Severity::Warning),
    },
    // Only refusals among the early responses are excepted, and not refusals of other requests.
    Case {
        code: Code::AnsweredEarly,
        severity: Severity::Invalid,
        message: "20 of 1000 responses",
        evidence: "{}",
        trigger: |w| {
            set_early_responses(w, 20);
            w.interval().answered_early.as_mut().expect("early").refusals = Some(9);
            (0..1000).for_each(|_| w.interval().outcomes.count_status(404));
        },
        near_miss: |w| {
            set_early_responses(w, 20);
            w.interval().answered_early.as_mut().expect("early").refusals = Some(10);
        },
        near_miss_severity: Some(Severity::Warning),
    },
    // A server may refuse a request from its head alone.
    Case {
        code: Code::AnsweredEarly,
        severity: Severity::Invalid,
        message: "1000 of 1000 responses",
        evidence: "{}",
        trigger: |w| set_early_responses(w, 1000),
        near_miss: |w| {
            set_early_responses(w, 1000);
            (0..1000).for_each(|_| w.interval().outcomes.count_status(413));
        },
        near_miss_severity: Some(Severity::Warning),
    },
    Case {
        code: Code::AnsweredEarly,
        severity: Severity::Warning,
        message: "1 of 1000 responses",
        evidence: "{}",
        trigger: |w| set_early_responses(w, 1),
        near_miss: |_| {},
        near_miss_severity: None,
    },
];
