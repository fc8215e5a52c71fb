//! Tests of caveats about pauses of the generator, stalls of the server, and responses that came
//! before their request was sent in full.

use dyno_archive::interval::EarlyResponses;
use dyno_archive::outcome::Outcome;
use dyno_archive::silence::Silence;
use dyno_archive::{Interval, Phase};

use super::world::{MS, S, TrialWorld, build_times, equal_times, sample_at};
use super::{Case, case, check_cases};
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
    let message = "The generator did not run for 0.1";
    case((Code::GENERATOR_STOPPED, Severity::Invalid), message, trigger, near_miss)
}

/// Sets a window of 10 s in intervals of a second, so that 1 % of it is shorter than an interval.
fn set_long_window(world: &mut TrialWorld) {
    world.set_seconds(&[(1000, 500 * MS); 10]);
}

/// Sets a window of 10 s with these late wake-ups, in ms.
fn set_pauses(world: &mut TrialWorld, lags_ms: &[u64]) {
    set_long_window(world);
    let lags: Vec<(u64, u64)> = lags_ms.iter().map(|ms| (1, ms * MS)).collect();
    world.record.intervals[3].wake_lag = build_times(&lags);
}

/// Sets a window of 10 s with a hundred iterations of the event loop of 40 ms, and this CPU time of
/// the generator.
fn set_long_iterations(world: &mut TrialWorld, run_ms: u64) {
    set_long_window(world);
    world.record.intervals[3].loop_lag = build_times(&[(100, 40 * MS)]);
    world.set_generator_threads(&[(run_ms * MS, 0)]);
}

pub(super) const GENERATOR_PAUSES: &[Case<TrialWorld>] = &[
    generator_pause(
        |w| w.record.intervals[3].loop_lag = equal_times(1, 101 * MS),
        |w| w.record.intervals[3].loop_lag = equal_times(1, 99 * MS),
    )
    .given(set_long_window),
    generator_pause(
        |w| w.record.intervals[9].wake_lag = equal_times(1, 101 * MS),
        |w| w.record.intervals[9].wake_lag = equal_times(1, 99 * MS),
    )
    .given(set_long_window),
    // A pause that began in the warm-up and reaches into the window.
    generator_pause(
        |w| w.record.intervals[0].wake_lag = equal_times(1, 160 * MS),
        |w| w.record.intervals[0].wake_lag = equal_times(1, 90 * MS),
    )
    .given(|w| {
        w.record.intervals.insert(0, Interval::new(Phase::Warmup, 0, 50 * MS));
        w.record.window_ns.0 = 50 * MS;
        w.record.samples[0] = sample_at(50 * MS, 0);
    }),
    // In a short window, pauses are accepted that are as long as the pauses of hypervisors.
    generator_pause(
        |w| w.interval().loop_lag = equal_times(1, 110 * MS),
        |w| w.interval().loop_lag = equal_times(1, 49 * MS),
    ),
    // The generator was stopped for 40 ms, again and again.
    case(
        (Code::GENERATOR_STOPPED, Severity::Invalid),
        "The generator did not run for 0.12 s of the 10.00 s of the window, in pauses of up to 40 \
         ms: it was stopped",
        |w| set_pauses(w, &[40, 40, 40]),
        |w| set_pauses(w, &[40, 40, 19]),
    )
    .evidence(r#"{"longest_s": 0.040009727, "sum_s": 0.120029181}"#),
    case(
        (Code::GENERATOR_STOPPED, Severity::Invalid),
        "did not run for 4.0",
        |w| set_pauses(w, &[40; 100]),
        |w| set_pauses(w, &[19; 100]),
    ),
    // Pauses of half of the threads are pauses of half of the generator.
    case(
        (Code::GENERATOR_STOPPED, Severity::Invalid),
        "did not run for 0.1",
        |w| {
            set_pauses(w, &[40; 6]);
            w.set_generator_threads(&[(3 * S, 0), (3 * S, 0)]);
        },
        |w| {
            set_pauses(w, &[40; 4]);
            w.set_generator_threads(&[(3 * S, 0), (3 * S, 0)]);
        },
    ),
    // Waits for a CPU of a busy machine have separate caveats.
    case(
        (Code::GENERATOR_STOPPED, Severity::Invalid),
        "did not run for 0.2",
        |w| w.set_generator_threads(&[(3 * S, 200 * MS)]),
        |w| w.set_generator_threads(&[(3 * S, 310 * MS)]),
    )
    .given(|w| set_pauses(w, &[40; 10])),
    // If the kernel reports no waits for a CPU, all pauses count.
    case(
        (Code::GENERATOR_STOPPED, Severity::Invalid),
        "did not run for 0.4",
        |w| {
            set_pauses(w, &[40; 10]);
            w.record.client.threads[0].run_delay_ns = None;
        },
        |w| {
            set_pauses(w, &[40; 2]);
            w.record.client.threads[0].run_delay_ns = None;
        },
    ),
    // Long iterations in which the generator works are no pauses, also if it sleeps between them.
    case(
        (Code::GENERATOR_STOPPED, Severity::Invalid),
        "did not run for 1.0",
        |w| set_long_iterations(w, 3000),
        |w| set_long_iterations(w, 4000),
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

/// Sets a load of 1,000 requests over this many connections. In a silence at the end of the load,
/// `in_flight` requests are in flight, and a request fails.
fn set_last_requests(w: &mut TrialWorld, connections: u32, in_flight: u64) {
    w.step.connections = connections;
    w.plan.requests = Some(1000);
    add_failing_silence(w, 800, 200);
    w.record.silences.iter_mut().flatten().for_each(|silence| silence.in_flight = in_flight);
}

/// Sets a window in which the server refuses connections for the last `down_ms`. Most requests
/// fail.
fn set_refusals(w: &mut TrialWorld, down_ms: u64) {
    w.add_outcomes(2000, Outcome::ConnectRefused);
    add_failing_silence(w, S / MS - down_ms, down_ms);
    w.record.silences.iter_mut().flatten().for_each(|silence| silence.in_flight = 0);
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
    let message = "although 4 requests were in flight";
    case((Code::STALLED, Severity::Warning), message, trigger, near_miss)
        .evidence(r#"{"in_flight": 4}"#)
}

pub(super) const SERVER_STALLS: &[Case<TrialWorld>] = &[
    case(
        (Code::OUTAGE, Severity::Invalid),
        "The server was down or hung, or all 4 requests in flight hung: no response arrived for 11 \
         % of the window, and requests of that time failed or got no response.",
        |w| add_failing_silence(w, 200, 110),
        |w| add_failing_silence(w, 200, 90),
    )
    .evidence(r#"{"share": 0.11, "stalls": 1, "longest_s": 0.11, "in_flight": 4}"#),
    // A server that is down is reported even if the user ended the load.
    case(
        (Code::OUTAGE, Severity::Invalid),
        "no response arrived for 11 % of the window",
        |w| {
            add_failing_silence(w, 200, 110);
            w.record.cut_short = true;
        },
        |w| {
            add_failing_silence(w, 200, 90);
            w.record.cut_short = true;
        },
    ),
    case(
        (Code::OUTAGE, Severity::Invalid),
        "for 12 % of the window, and requests of that time",
        |w| (0..4).for_each(|n| add_failing_silence(w, 200 * n, 30)),
        |w| {
            (0..3).for_each(|n| add_failing_silence(w, 200 * n, 30));
            add_silence(w, 700, 100);
        },
    )
    .evidence(r#"{"share": 0.12, "stalls": 4}"#),
    // In an open loop, all requests wait while connections fail.
    case(
        (Code::OUTAGE, Severity::Invalid),
        "The server was down or hung",
        |w| add_failing_silence(w, 200, 110),
        |w| add_failing_silence(w, 200, 90),
    )
    .given(|w| w.set_rate(1000.0))
    .evidence(r#"{"share": 0.11}"#),
    // The server leaves some connections unanswered: few requests, but much of the time in flight.
    // The fixture's 1,000 responses take 1 s together.
    case(
        (Code::OUTAGE, Severity::Invalid),
        "On average 0.1 of the 1.1 requests in flight were requests that got no response (1 in \
         all).",
        |w| w.set_in_flight_time(1130 * MS),
        |w| w.set_in_flight_time(1100 * MS),
    )
    .given(|w| w.add_outcomes(1, Outcome::Timeout))
    .evidence(r#"{"unanswered": 1}"#),
    // Requests that the user's early end cuts off did not hang.
    case(
        (Code::OUTAGE, Severity::Invalid),
        "(2 in all)",
        |w| {
            w.leave_in_flight(2);
            w.set_in_flight_time(1130 * MS);
        },
        |w| {
            w.cut_off(2, 75 * MS);
            w.set_in_flight_time(1130 * MS);
        },
    )
    .evidence(r#"{"unanswered": 2}"#),
    // All requests hung since the warm-up, and time out after the window.
    case(
        (Code::OUTAGE, Severity::Invalid),
        "(1 in all)",
        |w| {
            w.interval().carried.count(Outcome::Timeout);
            w.set_in_flight_time(1130 * MS);
        },
        |w| {
            w.interval().carried.count(Outcome::UnexpectedStatus);
            w.set_in_flight_time(1130 * MS);
        },
    )
    .evidence(r#"{"unanswered": 1}"#),
    // Most requests fail, because the server refuses connections for most of the window.
    case(
        (Code::OUTAGE, Severity::Invalid),
        "The server was down or hung: no response arrived for 80 % of the window, and",
        |w| set_refusals(w, 800),
        |w| set_refusals(w, 99),
    )
    .evidence(r#"{"share": 0.8}"#),
    // One request hangs, and no other request shows whether the server responds.
    case(
        (Code::OUTAGE, Severity::Invalid),
        "The server was down or hung, or the only request in flight hung: no response",
        |w| {
            add_failing_silence(w, 200, 110);
            w.record.silences.iter_mut().flatten().for_each(|silence| silence.in_flight = 1);
        },
        |w| add_silence(w, 200, 110),
    )
    .evidence(r#"{"in_flight": 1}"#),
    // The last of a number of requests hangs, and other connections have no more requests.
    case(
        (Code::OUTAGE, Severity::Invalid),
        "The server was down or hung",
        |w| set_last_requests(w, 4, 4),
        |w| set_last_requests(w, 5, 4),
    )
    .evidence(r#"{"share": 0.2}"#),
    // Requests take 1 ms. In a stall of half the window, 1 % of evenly spread arrivals would wait
    // for at least 0.49 s.
    case(
        (Code::STALLED, Severity::Warning),
        "for 0.50 s, from 0.20 s after the load began, although 4 requests were in flight. The \
         stall took 50 % of the window. A closed loop sends no requests during a stall, so the \
         percentiles hardly show the stall. In an open loop at the same rate, p99 would be at \
         least 0.49 s (an estimate) if the server stalled for all requests.",
        |w| add_silence(w, 200, 500),
        |w| add_silence(w, 200, 20),
    )
    .evidence(r#"{"longest_s": 0.5, "at_s": 0.2, "stalls": 1, "share": 0.5}"#),
    // In an open loop the response times show a stall.
    server_stall(
        |w| add_silence(w, 0, 400),
        |w| {
            add_silence(w, 0, 400);
            w.set_rate(1000.0);
        },
    ),
    // A stall is at least ten times as long as the median response time.
    server_stall(|w| add_silence(w, 100, 220), |w| add_silence(w, 100, 190))
        .given(|w| w.interval().times.response = equal_times(1000, 20 * MS)),
    // A pause of the generator is not a stall of the server.
    server_stall(
        |w| w.interval().wake_lag = equal_times(1, 20 * MS),
        |w| w.interval().wake_lag = equal_times(1, 299 * MS),
    )
    .given(|w| add_silence(w, 100, 300)),
    // A pause of the generator explains only stalls that it may overlap.
    server_stall(
        |w| w.record.intervals[3].wake_lag = equal_times(1, 400 * MS),
        |w| w.record.intervals[1].wake_lag = equal_times(1, 400 * MS),
    )
    .given(|w| {
        set_long_window(w);
        add_silence(w, 1100, 300);
    }),
    // The pause began in the interval before the stall.
    server_stall(
        |w| w.record.intervals[3].wake_lag = equal_times(1, 99 * MS),
        |w| w.record.intervals[3].wake_lag = equal_times(1, 400 * MS),
    )
    .given(|w| {
        set_long_window(w);
        add_silence(w, 4100, 300);
    }),
    // Only the part of a stall within the window is used.
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
    case(
        (Code::STALLED, Severity::Warning),
        "It was the longest of 5 stalls, which together took 1.5 % of the window. A closed loop \
         sends no requests during a stall, so the percentiles hardly show the stall. In an open \
         loop at the same rate, p99 would be at least 11 ms (an estimate) if the server stalled \
         for all requests.",
        |w| (0..5).for_each(|n| add_silence(w, 1000 * n, 30)),
        |w| (0..3).for_each(|n| add_silence(w, 1000 * n, 30)),
    )
    .given(set_long_window)
    .evidence(r#"{"stalls": 5, "share": 0.015}"#),
    // One connection to a slow server: 20 responses are too few for a percentile.
    server_stall(|w| add_silence(w, 100, 400), |w| add_silence(w, 100, 290))
        .given(set_few_responses),
];

fn set_early_responses(w: &mut TrialWorld, responses: u64) {
    let unsent_bytes = responses * 300;
    w.interval().answered_early = Some(EarlyResponses { responses, unsent_bytes, refusals: None });
}

pub(super) const EARLY_RESPONSES: &[Case<TrialWorld>] = &[
    case(
        (Code::ANSWERED_EARLY, Severity::Invalid),
        "11 of 1000 responses were complete before dyno had sent their request in full. On \
         average, 300 bytes of the request were not sent yet.",
        |w| set_early_responses(w, 11),
        |w| set_early_responses(w, 10),
    )
    .evidence(r#"{"responses": 11, "unsent_bytes": 3300, "completed": 1000}"#)
    .near_miss_still(Severity::Warning),
    // Refusals among the early responses are subtracted. Refusals of other requests are not.
    case(
        (Code::ANSWERED_EARLY, Severity::Invalid),
        "20 of 1000 responses",
        |w| {
            w.interval().answered_early.as_mut().expect("early").refusals = Some(9);
            (0..1000).for_each(|_| w.interval().outcomes.count_status(404));
        },
        |w| w.interval().answered_early.as_mut().expect("early").refusals = Some(10),
    )
    .given(|w| set_early_responses(w, 20))
    .near_miss_still(Severity::Warning),
    // A server may refuse a request from its head alone.
    case(
        (Code::ANSWERED_EARLY, Severity::Invalid),
        "1000 of 1000 responses",
        |w| set_early_responses(w, 1000),
        |w| {
            set_early_responses(w, 1000);
            (0..1000).for_each(|_| w.interval().outcomes.count_status(413));
        },
    )
    .near_miss_still(Severity::Warning),
    case(
        (Code::ANSWERED_EARLY, Severity::Warning),
        "1 of 1000 responses",
        |w| set_early_responses(w, 1),
        |_| {},
    ),
];
