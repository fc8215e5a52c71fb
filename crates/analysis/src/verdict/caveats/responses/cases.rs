//! Test cases: caveats about incorrect and missing responses, and failures.

use dyno_model::Protocol;
use dyno_model::interval::EarlyResponses;
use dyno_model::load::{Books, TlsUse, UnansweredAges};
use dyno_model::outcome::{Outcome, Outcomes};
use dyno_model::plan::Request;
use dyno_model::silence::Silence;
use dyno_model::start::WarmUpEnd;
use dyno_model::trial::CheckResult;

use crate::caveat::Severity::Warning;
use crate::caveat::{Code, Severity};
use crate::fixture;
use crate::verdict::Resource;
use crate::verdict::table::changes::set_long_window;
use crate::verdict::table::world::{CommandKind, MS, S, TrialWorld, equal_times};
use crate::verdict::table::{Case, CaveatSource, check_cases, info, invalid, warning};

const CASES: &[Case<TrialWorld>] = &[
    invalid(
        Code::UNSOLICITED,
        |w| {
            w.record.connections.unsolicited = 1;
            w.record.connections.unsolicited_after = Some(7);
        },
        |_| {},
    ),
    info(Code::PARTLY_CHECKED, |w| set_check_one_in(w, 2), |w| set_check_one_in(w, 1)),
    // Other requests of a mix, or resources of a page, may have no such expectation.
    info(
        Code::PARTLY_CHECKED,
        |w| {
            set_check_one_in(w, 2);
            w.workload.requests.push(Request { name: "other".into(), ..Request::default() });
        },
        |w| set_check_one_in(w, 1),
    ),
    info(
        Code::PARTLY_CHECKED,
        |w| set_check_one_in(w, 0),
        |w| {
            set_check_one_in(w, 0);
            w.workload = TrialWorld::default().workload;
        },
    ),
    invalid(
        Code::BACKEND_FAILED,
        |w| w.record.server_failure = Some("lost a back end: back end db ended".into()),
        |w| w.record.server_failure = Some("crashed: it left".into()),
    ),
    invalid(Code::SUBJECT_FAILED, |w| w.record.server_failure = Some("it left".into()), |_| {}),
    invalid(Code::UNCHECKED, |w| w.lacks_final_check = true, |_| {}),
    invalid(
        Code::CHECKS_FAILED,
        |w| w.checks = vec![passed_check("a"), late_check("b"), failed_check("c")],
        |w| w.checks = vec![passed_check("a"), late_check("b")],
    )
    .near_miss_still(Warning),
    warning(
        Code::CHECKS_FAILED,
        |w| w.checks = vec![passed_check("a"), late_check("b")],
        |w| w.checks = vec![passed_check("a")],
    ),
    warning(
        Code::CHECKS_WAIVED,
        |w| w.checks = vec![waived_check("a"), waived_check("b"), waived_check("a")],
        |w| {
            w.checks = vec![
                CheckResult { ok: true, ..waived_check("a") },
                CheckResult { protocol: Protocol::H2, ..waived_check("a") },
                CheckResult { waived: true, ..late_check("a") },
            ];
        },
    )
    .given(|w| w.command = CommandKind::Run),
    // Requests that the end of the load cut off are failures of the server only if they had waited
    // longer than any correct response.
    invalid(Code::ERRORS, |w| w.cut_off(20, S / 2), |w| w.cut_off(20, MS / 2)),
    invalid(
        Code::INCORRECT_RESPONSES,
        |w| w.add_outcomes(1, Outcome::UnexpectedStatus),
        |w| w.add_outcomes(1, Outcome::ClosedEarly),
    ),
    invalid(
        Code::INCORRECT_RESPONSES,
        |w| w.add_outcomes(1, Outcome::UnexpectedBody),
        |w| w.add_outcomes(1, Outcome::Ok),
    ),
    invalid(
        Code::INCORRECT_RESPONSES,
        |w| w.add_outcomes(1, Outcome::UnexpectedHeader),
        |w| w.add_outcomes(1, Outcome::ProtocolError),
    ),
    invalid(
        Code::INCORRECT_RESPONSES,
        |w| w.add_outcomes(2, Outcome::ExtractionFailed),
        |w| w.add_outcomes(2, Outcome::Ok),
    ),
    // Visits of the window continue after it.
    invalid(
        Code::INCORRECT_RESPONSES,
        |w| w.interval().continued.count(Outcome::UnexpectedStatus),
        |w| w.interval().continued.count(Outcome::Ok),
    ),
    invalid(Code::INCORRECT_RESPONSES, |w| w.refuses = true, |_| {})
        .given(|w| *w = TrialWorld::with_responses(1)),
    info(
        Code::REFUSALS,
        |w| w.refuse_connections(3),
        |w| {
            w.refuse_connections(3);
            w.add_outcomes(1, Outcome::Reset);
        },
    ),
    info(
        Code::REFUSALS,
        |w| w.drop_requests(10),
        // The server dropped an attempt to connect instead of refusing it.
        |w| w.fail_connections(1, Outcome::ConnectTimeout),
    )
    .given(|w| {
        w.refuse_connections(3);
        w.leave_in_flight(20);
    }),
    invalid(Code::INCORRECT_RESPONSES, |w| w.record.connections.opened = 2, |_| {})
        .given(|w| w.refuse_connections(3)),
    invalid(Code::NO_CORRECT_RESPONSE, |w| w.fail_connections(1, Outcome::ConnectTimeout), |_| {})
        .given(|w| w.refuse_connections(3)),
    invalid(
        Code::NO_CORRECT_RESPONSE,
        |w| {
            w.add_outcomes(2, Outcome::Timeout);
            w.add_outcomes(3, Outcome::Reset);
            w.add_outcomes(1, Outcome::ClosedEarly);
        },
        |w| {
            w.add_outcomes(3, Outcome::Reset);
            w.add_outcomes(1, Outcome::Ok);
        },
    )
    .given(|w| *w = TrialWorld::with_responses(0)),
    invalid(
        Code::NO_CORRECT_RESPONSE,
        |w| *w = TrialWorld::with_responses(0),
        |w| *w = TrialWorld::with_responses(1),
    ),
    invalid(
        Code::ERRORS,
        |w| {
            *w = TrialWorld::with_responses(9899);
            w.add_outcomes(101, Outcome::ClosedEarly);
        },
        |w| {
            *w = TrialWorld::with_responses(9900);
            w.add_outcomes(100, Outcome::ClosedEarly);
        },
    )
    .near_miss_still(Warning),
    warning(
        Code::ERRORS,
        |w| {
            *w = TrialWorld::with_responses(999);
            w.add_outcomes(1, Outcome::Timeout);
        },
        |w| w.add_outcomes(1, Outcome::UnexpectedStatus),
    ),
    invalid(
        Code::ERRORS,
        |w| {
            *w = TrialWorld::with_responses(989);
            w.drop_requests(11);
        },
        |w| {
            *w = TrialWorld::with_responses(990);
            w.drop_requests(10);
        },
    ),
    invalid(
        Code::ERRORS,
        |w| {
            *w = TrialWorld::with_responses(989);
            w.leave_in_flight(11);
        },
        |w| {
            *w = TrialWorld::with_responses(990);
            w.leave_in_flight(10);
        },
    ),
    invalid(Code::ERRORS, |w| w.add_outcomes(1, Outcome::Reset), |_| {})
        .given(|w| *w = TrialWorld::with_responses(0)),
    // Requests that were carried into the window are included.
    invalid(
        Code::ERRORS,
        |w| {
            *w = TrialWorld::with_responses(989);
            w.drop_requests(11);
            set_carried_in(w, 100);
        },
        |w| {
            *w = TrialWorld::with_responses(990);
            w.drop_requests(10);
            set_carried_in(w, 100);
        },
    ),
    invalid(
        Code::ERRORS,
        |w| {
            *w = TrialWorld::with_responses(980);
            w.add_outcomes(4, Outcome::Reset);
            w.add_outcomes(3, Outcome::Cancelled);
            w.leave_in_flight(6);
            w.drop_requests(7);
            w.record.tls = Some(TlsUse {
                errors: [("bad_certificate".into(), 2), ("eof".into(), 1)].into(),
                ..TlsUse::default()
            });
        },
        |w| w.record.tls = Some(TlsUse::default()),
    ),
    warning(Code::ERRORS, |w| w.add_outcomes(1, Outcome::AddressExhausted), |_| {}),
    warning(Code::UNANSWERED, |w| w.leave_in_flight(1), |w| w.cut_off(1, MS / 2)),
    invalid(
        Code::OUTAGE,
        |w| add_failing_silence(w, 200, 110),
        |w| add_failing_silence(w, 200, 90),
    ),
    // A server that is down is reported even if the user ended the load.
    invalid(
        Code::OUTAGE,
        |w| {
            add_failing_silence(w, 200, 110);
            w.record.cut_short = true;
        },
        |w| {
            add_failing_silence(w, 200, 90);
            w.record.cut_short = true;
        },
    ),
    invalid(
        Code::OUTAGE,
        |w| (0..4).for_each(|n| add_failing_silence(w, 200 * n, 30)),
        |w| {
            (0..3).for_each(|n| add_failing_silence(w, 200 * n, 30));
            add_silence(w, 700, 100);
        },
    ),
    // In an open loop, all requests wait while connections fail.
    invalid(
        Code::OUTAGE,
        |w| add_failing_silence(w, 200, 110),
        |w| add_failing_silence(w, 200, 90),
    )
    .given(|w| w.set_rate(1000.0)),
    // The server leaves some connections unanswered: few requests, but much of the time in flight.
    // The fixture's 1,000 responses take 1 s together.
    invalid(Code::OUTAGE, |w| w.set_in_flight_time(1130 * MS), |w| w.set_in_flight_time(1100 * MS))
        .given(|w| w.add_outcomes(1, Outcome::Timeout)),
    // Requests that the user's early end cuts off did not hang.
    invalid(
        Code::OUTAGE,
        |w| {
            w.leave_in_flight(2);
            w.set_in_flight_time(1130 * MS);
        },
        |w| {
            w.cut_off(2, 75 * MS);
            w.set_in_flight_time(1130 * MS);
        },
    ),
    // All requests hung since the warm-up, and time out after the window.
    invalid(
        Code::OUTAGE,
        |w| {
            w.interval().carried.count(Outcome::Timeout);
            w.set_in_flight_time(1130 * MS);
        },
        |w| {
            w.interval().carried.count(Outcome::UnexpectedStatus);
            w.set_in_flight_time(1130 * MS);
        },
    ),
    // Most requests fail, because the server refuses connections for most of the window.
    invalid(Code::OUTAGE, |w| set_refusals(w, 800), |w| set_refusals(w, 99)),
    // One request hangs, and no other request shows whether the server responds.
    invalid(
        Code::OUTAGE,
        |w| {
            add_failing_silence(w, 200, 110);
            w.record.silences.iter_mut().flatten().for_each(|silence| silence.in_flight = 1);
        },
        |w| add_silence(w, 200, 110),
    ),
    // The last of a number of requests hangs, and other connections have no more requests.
    invalid(Code::OUTAGE, |w| set_last_requests(w, 4, 4), |w| set_last_requests(w, 5, 4)),
    // Requests take 1 ms. In a stall of half the window, 1 % of evenly spread arrivals would wait
    // for at least 0.49 s.
    warning(Code::STALLED, |w| add_silence(w, 200, 500), |w| add_silence(w, 200, 20)),
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
    warning(
        Code::STALLED,
        |w| (0..5).for_each(|n| add_silence(w, 1000 * n, 30)),
        |w| (0..3).for_each(|n| add_silence(w, 1000 * n, 30)),
    )
    .given(set_long_window),
    // One connection to a slow server: 20 responses are too few for a percentile.
    server_stall(|w| add_silence(w, 100, 400), |w| add_silence(w, 100, 290))
        .given(set_few_responses),
    invalid(Code::ANSWERED_EARLY, |w| set_early_responses(w, 11), |w| set_early_responses(w, 10))
        .near_miss_still(Warning),
    // Refusals among the early responses are subtracted. Refusals of other requests are not.
    invalid(
        Code::ANSWERED_EARLY,
        |w| {
            w.interval().answered_early.as_mut().expect("early").refusals = Some(9);
            (0..1000).for_each(|_| w.interval().outcomes.count_status(404));
        },
        |w| w.interval().answered_early.as_mut().expect("early").refusals = Some(10),
    )
    .given(|w| set_early_responses(w, 20))
    .near_miss_still(Warning),
    // A server may refuse a request from its head alone.
    invalid(
        Code::ANSWERED_EARLY,
        |w| set_early_responses(w, 1000),
        |w| {
            set_early_responses(w, 1000);
            (0..1000).for_each(|_| w.interval().outcomes.count_status(413));
        },
    )
    .near_miss_still(Warning),
    warning(Code::ANSWERED_EARLY, |w| set_early_responses(w, 1), |_| {}),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_cases("caveats/responses", CASES);
}

/// Checks one response in `one_in` in full.
fn set_check_one_in(w: &mut TrialWorld, one_in: u64) {
    w.plan.check_one_in = one_in;
    w.interval().checked = 1000u64.checked_div(one_in).unwrap_or(0);
    let mut request = Request { name: "w".into(), ..Request::default() };
    request.expect.body_contains = Some("hello".into());
    w.workload.requests = vec![request];
}

fn passed_check(name: &str) -> CheckResult {
    fixture::check(name, true, "fine")
}

fn failed_check(name: &str) -> CheckResult {
    CheckResult { ok: false, got: "wrong".into(), ..passed_check(name) }
}

fn waived_check(name: &str) -> CheckResult {
    CheckResult { waived: true, ..failed_check(name) }
}

fn late_check(name: &str) -> CheckResult {
    CheckResult { ok: false, has_response: false, got: "late".into(), ..passed_check(name) }
}

/// Makes `n` of the window's requests carried in.
fn set_carried_in(w: &mut TrialWorld, n: u64) {
    w.record.books.carried_in = n;
    w.record.books.scheduled -= n;
}

/// Names of the caveats of a world.
fn codes(world: &TrialWorld) -> Vec<Code> {
    world.caveats().iter().map(|caveat| caveat.code).collect()
}

/// Returns worlds of a control that refuses all connections: without delay, with requests that wait
/// for the next attempt, with attempts that end requests of the warm-up only, and without requests.
fn refusing_worlds() -> Vec<TrialWorld> {
    let change = |change: fn(&mut TrialWorld)| {
        let mut world = TrialWorld::default();
        world.refuse_connections(3);
        change(&mut world);
        world
    };
    vec![
        change(|_| ()),
        change(|w| {
            w.leave_in_flight(2752);
            w.drop_requests(9);
            // The numbers in flight do not follow from these ages.
            w.record.edges = None;
            w.record.unanswered.ages = [
                (Outcome::ConnectRefused.name().into(), equal_times(3, 5 * S)),
                (UnansweredAges::AT_END.into(), equal_times(2752, 5 * S)),
            ]
            .into();
        }),
        change(|w| {
            let outcomes = std::mem::take(&mut w.interval().outcomes);
            w.interval().carried = outcomes;
            w.record.books = Books::default();
            w.leave_in_flight(1524);
        }),
        change(|w| {
            w.interval().outcomes = Outcomes::default();
            w.record.books = Books::default();
        }),
        change(|w| {
            w.start = fixture::warm_up(WarmUpEnd::Unanswered, 0, None);
            let warmup = w.start.parts[0].warmup.as_mut().expect("a warm-up");
            (warmup.correct_responses, warmup.failures) = (0, [(0, 7)].into());
            for slice in &mut warmup.slices {
                (slice.responses, slice.correct_responses) = (0, 0);
            }
        }),
    ]
}

#[test]
fn refusing_control_has_no_caveat_of_missing_responses() {
    for mut world in refusing_worlds() {
        for rate in [None, Some(200.0), Some(5000.0)] {
            rate.into_iter().for_each(|rate| world.set_rate(rate));
            assert_eq!(codes(&world), [Code::REFUSALS], "{rate:?}");
            assert_eq!(world.limiter().resource, Resource::Refusal);
        }
    }
}

/// The faults of a control are reported even if it refused many connections.
#[test]
fn faults_of_refusing_control_are_reported() {
    let faults: [fn(&mut TrialWorld); 5] = [
        |w| w.record.connections.opened = 1,
        |w| w.fail_connections(1, Outcome::ConnectTimeout),
        |w| w.add_outcomes(1, Outcome::ConnectTimeout),
        |w| w.add_outcomes(1, Outcome::Timeout),
        |w| w.add_outcomes(1, Outcome::Ok),
    ];
    for fault in faults {
        for mut world in refusing_worlds() {
            fault(&mut world);
            let caveats = world.caveats();
            assert!(!codes(&world).contains(&Code::REFUSALS), "{caveats:#?}");
            assert!(caveats.iter().any(|c| c.severity == Severity::Invalid), "{caveats:#?}");
        }
    }
}

#[test]
fn response_in_warmup_of_refusing_control_is_invalid() {
    let mut world = TrialWorld::default();
    world.refuse_connections(3);
    world.start = fixture::warm_up(WarmUpEnd::Steady, 0, Some(60 * MS));
    let caveats = world.caveats();
    let fault = caveats.iter().find(|caveat| caveat.severity == Severity::Invalid);
    assert_eq!(fault.map(|caveat| caveat.code), Some(Code::INCORRECT_RESPONSES), "{caveats:#?}");
}

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
    warning(Code::STALLED, trigger, near_miss)
}

fn set_early_responses(w: &mut TrialWorld, responses: u64) {
    let unsent_bytes = responses * 300;
    w.interval().answered_early = Some(EarlyResponses { responses, unsent_bytes, refusals: None });
}
