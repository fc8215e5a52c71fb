//! Test cases: caveats about counts and other contents of a load's record.

use dyno_archive::host::BacklogUse;
use dyno_archive::interval::{Interval, WorkerUse};
use dyno_archive::load::Http2Use;
use dyno_archive::outcome::Outcome;
use dyno_archive::plan::{Arrivals, Request};
use dyno_archive::sample::NetworkUse;
use dyno_archive::trial::CheckResult;
use dyno_archive::{Phase, Protocol};

use super::world::{CommandKind, MS, S, TrialWorld};
use super::{Case, case, check_cases};
use crate::caveat::{Code, Severity};
use crate::fixture;
use crate::load::Ceiling;

fn network(w: &mut TrialWorld) -> &mut NetworkUse {
    w.server_counters().network.as_mut().expect("a network")
}

/// Caveats about counts and other contents of a load's record.
pub(super) const CASES: &[Case<TrialWorld>] = &[
    // With `auto` the server may choose HTTP/1.1, which has no streams.
    case(
        (Code::FELL_BACK, Severity::Warning),
        "one request in flight instead of 2.",
        |w| (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2),
        |w| w.workload.protocol = Protocol::Auto,
    )
    .evidence(r#"{"streams": 2}"#),
    case(
        (Code::FELL_BACK, Severity::Warning),
        "one request in flight instead of 2.",
        |w| (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2),
        |w| (w.workload.protocol, w.step.streams) = (Protocol::H1, 2),
    )
    .evidence(r#"{"streams": 2}"#),
    case(
        (Code::FELL_BACK, Severity::Warning),
        "one request in flight instead of 3.",
        |w| (w.workload.protocol, w.step.streams) = (Protocol::Auto, 3),
        |w| {
            (w.workload.protocol, w.step.streams) = (Protocol::Auto, 3);
            w.record.http2 = Some(Http2Use::default());
        },
    )
    .evidence(r#"{"streams": 3}"#),
    // Servers behind one address may choose different protocols.
    case(
        (Code::FELL_BACK, Severity::Warning),
        "for 3 connections, and HTTP/2 for 5. Each connection over HTTP/1.1 had one",
        |w| {
            (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2);
            w.record.http2 =
                Some(Http2Use { connections: 5, fallen_back: 3, ..Http2Use::default() });
        },
        |w| {
            w.workload.protocol = Protocol::Auto;
            w.record.http2 =
                Some(Http2Use { connections: 5, fallen_back: 3, ..Http2Use::default() });
        },
    )
    .evidence(r#"{"streams": 2, "connections": 3}"#),
    // Without a response the server chose no protocol.
    case(
        (Code::FELL_BACK, Severity::Warning),
        "one request in flight instead of 2.",
        |w| (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2),
        |w| {
            *w = TrialWorld::with_responses(0);
            (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2);
        },
    )
    .evidence(r#"{"streams": 2}"#),
    case(
        (Code::FELL_BACK, Severity::Invalid),
        "3 connections used HTTP/1.1 instead of HTTP/2: the server chose another protocol by ALPN.",
        |w| w.record.http2 = Some(Http2Use { fallen_back: 3, ..Http2Use::default() }),
        |w| w.record.http2 = Some(Http2Use { connections: 64, ..Http2Use::default() }),
    )
    .given(|w| w.workload.protocol = Protocol::H2)
    .evidence(r#"{"connections": 3}"#),
    case(
        (Code::FELL_BACK, Severity::Invalid),
        "5 connections used HTTP/1.1 instead of HTTP/2: the server did not switch protocols",
        |w| {
            w.record.http2 =
                Some(Http2Use { fallen_back: 1, upgrades_declined: 4, ..Http2Use::default() });
        },
        |w| w.record.http2 = Some(Http2Use::default()),
    )
    .given(|w| w.workload.protocol = Protocol::H2cUpgrade)
    .evidence(r#"{"connections": 5}"#),
    case(
        (Code::STREAMS_NOT_GRANTED, Severity::Warning),
        "allows 9 streams at once on a connection, but the load asks for 10",
        |w| allow_streams(w, Some(9)),
        |w| allow_streams(w, Some(10)),
    )
    .evidence(r#"{"asked": 10, "granted": 9}"#),
    case(
        (Code::STREAMS_NOT_GRANTED, Severity::Warning),
        "allows 1 streams",
        |w| allow_streams(w, Some(1)),
        |w| allow_streams(w, None),
    )
    .evidence(r#"{"asked": 10, "granted": 1}"#),
    case(
        (Code::DROPPED_PACKETS, Severity::Invalid),
        "The machine dropped packets while this step ran: 1 by connection tracking, with 64 of 64 \
         table entries in use.",
        |w| w.set_tracking(64, Some(1)),
        |w| w.set_tracking(64, Some(0)),
    )
    .evidence(r#"{"tracking": 1, "tracking_entries": 64, "tracking_most": 64}"#),
    // An ordinary user cannot read the counters on every kernel.
    case(
        (Code::DROPPED_PACKETS, Severity::Invalid),
        "an unknown number by connection tracking (64 of 64 table entries were in use, and 1 \
         attempt to connect timed out).",
        |w| w.fail_connections(1, Outcome::ConnectTimeout),
        |_| {},
    )
    .given(|w| w.set_tracking(64, None))
    .evidence(r#"{"tracking": null, "tracking_entries": 64, "connect_timeouts": 1}"#),
    // `dyno load` reads these counters too.
    case(
        (Code::DROPPED_PACKETS, Severity::Invalid),
        "1 because receive queues of CPUs were full",
        |w| w.drop_counters().backlog = Some(BacklogUse { dropped: 1, ..BacklogUse::default() }),
        |w| w.drop_counters().backlog = Some(BacklogUse { squeezed: 1, ..BacklogUse::default() }),
    )
    .given(|w| w.command = CommandKind::Load)
    .evidence(r#"{"backlog": 1}"#),
    case(
        (Code::DROPPED_PACKETS, Severity::Invalid),
        "1 because the neighbour (ARP or NDP) table was full",
        |w| w.drop_counters().neighbour_overflows = Some(1),
        |w| w.drop_counters().neighbour_overflows = Some(0),
    )
    .evidence(r#"{"neighbours": 1}"#),
    case(
        (Code::DROPPED_PACKETS, Severity::Invalid),
        "1 for lack of TCP memory",
        |w| network(w).aborts_on_memory = Some(1),
        // Drops at a listener's queue are the server's and not the machine's.
        |w| {
            let network = network(w);
            network.syn_queue_drops = Some(1);
            network.listen_drops = Some(1);
        },
    )
    .evidence(r#"{"tcp_memory": 1}"#),
    case(
        (Code::DROPPED_PACKETS, Severity::Warning),
        "The kernel removed 1 unanswered connections",
        |w| w.set_tracking_evictions(1),
        |w| w.set_tracking_evictions(0),
    )
    .evidence(r#"{"tracking": 0, "tracking_evictions": 1}"#),
    case(
        (Code::BOOKS, Severity::Invalid),
        "do not add up",
        |w| w.record.books.scheduled += 1,
        |w| {
            w.record.books.scheduled += 1;
            w.record.books.dropped += 1;
        },
    )
    .evidence(r#"{"scheduled": 1001, "started": 1000}"#),
    case(
        (Code::BOOKS, Severity::Invalid),
        "do not add up",
        |w| w.record.books.completed -= 1,
        |w| {
            w.record.books.completed -= 1;
            w.record.books.failed += 1;
        },
    )
    .evidence(r#"{"completed": 999, "started": 1000}"#),
    case(
        (Code::BOOKS, Severity::Invalid),
        "do not add up",
        |w| w.record.books.carried_in += 1,
        |w| {
            w.record.books.carried_in += 1;
            w.record.books.scheduled -= 1;
        },
    )
    .evidence(r#"{"carried_in": 1}"#),
    case(
        (Code::CONNECTIONS, Severity::Warning),
        "63 of 64 connections were open",
        |w| w.record.connections.established = 63,
        |_| {},
    )
    .evidence(r#"{"asked": 64, "established": 63}"#),
    // With few requests per connection, some connections are always being replaced. There is a
    // caveat only if requests failed.
    case(
        (Code::CONNECTIONS, Severity::Warning),
        "63 of 64 connections were open",
        |w| w.add_outcomes(1, Outcome::Reset),
        |_| {},
    )
    .given(|w| {
        w.record.connections.established = 63;
        w.plan.requests_per_connection = Some(9);
    }),
    // If the server closes each connection after its response, some are always being replaced.
    case(
        (Code::CONNECTIONS, Severity::Warning),
        "40 of 64 connections were open",
        |w| (w.record.connections.established, w.record.connections.opened) = (40, 64),
        |w| (w.record.connections.established, w.record.connections.opened) = (40, 128),
    ),
    case(
        (Code::UNSOLICITED, Severity::Invalid),
        "sent bytes that belong to no request. dyno closed these connections. It is unknown to \
         which requests the 7 earlier responses",
        |w| {
            w.record.connections.unsolicited = 1;
            w.record.connections.unsolicited_after = Some(7);
        },
        |_| {},
    )
    .evidence(r#"{"connections": 1, "responses_before": 7}"#),
    case(
        (Code::CEILING, Severity::Info),
        "is 25 % of the highest rate that the generator reached on this machine: 4000 requests per \
         second",
        |w| w.ceiling = ceiling(4000.0),
        |w| w.ceiling = ceiling(0.0),
    )
    .evidence(r#"{"ceiling_rps": 4000.0}"#),
    case(
        (Code::CEILING, Severity::Info),
        "is 2.5 % of the highest rate that the generator reached on this machine: 40000",
        |w| w.ceiling = ceiling(40_000.0),
        |w| {
            w.ceiling = ceiling(4000.0);
            w.set_rate(1000.0);
        },
    ),
    case(
        (Code::CEILING, Severity::Info),
        "is 100 % of the highest rate that the generator reached on this machine: 1 requests",
        |w| {
            *w = TrialWorld::with_responses(1);
            w.ceiling = ceiling(1.0);
        },
        |w| {
            *w = TrialWorld::with_responses(0);
            w.ceiling = ceiling(1.0);
        },
    ),
    case(
        (Code::PARTLY_CHECKED, Severity::Info),
        "500 of 1000 responses were checked in full.",
        |w| set_check_one_in(w, 2),
        |w| set_check_one_in(w, 1),
    )
    .evidence(r#"{"checked": 500, "completed": 1000}"#),
    // Other requests of a mix, or resources of a page, may have no such expectation.
    case(
        (Code::PARTLY_CHECKED, Severity::Info),
        "in full. A response is checked in full only if its request has an",
        |w| {
            set_check_one_in(w, 2);
            w.workload.requests.push(Request { name: "other".into(), ..Request::default() });
        },
        |w| set_check_one_in(w, 1),
    )
    .evidence(r#"{"checked": 500, "completed": 1000}"#),
    case(
        (Code::PARTLY_CHECKED, Severity::Info),
        "checked only before the load",
        |w| set_check_one_in(w, 0),
        |w| {
            set_check_one_in(w, 0);
            w.workload = TrialWorld::default().workload;
        },
    )
    .evidence(r#"{"checked": 0}"#),
    case(
        (Code::BACKEND_FAILED, Severity::Invalid),
        "The server lost a back end: back end db ended",
        |w| w.record.server_failure = Some("lost a back end: back end db ended".into()),
        |w| w.record.server_failure = Some("crashed: it left".into()),
    ),
    case(
        (Code::MACHINE_FAILED, Severity::Invalid),
        "The server could not be measured: the machine ran out of memory",
        |w| {
            let failure = "could not be measured: the machine ran out of memory";
            w.record.server_failure = Some(failure.into());
        },
        |w| w.record.server_failure = Some("crashed: it left".into()),
    ),
    case(
        (Code::SUBJECT_FAILED, Severity::Invalid),
        "The server failed during this step: it left.",
        |w| w.record.server_failure = Some("it left".into()),
        |_| {},
    ),
    case(
        (Code::UNCHECKED, Severity::Invalid),
        "The server's responses were not checked again after this step, because the run was \
         interrupted, or a back end or the machine failed.",
        |w| w.lacks_final_check = true,
        |_| {},
    ),
    case(
        (Code::CHECKS_FAILED, Severity::Invalid),
        "2 of 3 checks failed right before or during the load. The first failed check was \"b\": \
         late",
        |w| w.checks = vec![passed_check("a"), late_check("b"), failed_check("c")],
        |w| w.checks = vec![passed_check("a"), late_check("b")],
    )
    .evidence(r#"{"failed": ["b", "c"]}"#)
    .near_miss_still(Severity::Warning),
    case(
        (Code::CHECKS_FAILED, Severity::Warning),
        "1 of 2 checks failed",
        |w| w.checks = vec![passed_check("a"), late_check("b")],
        |w| w.checks = vec![passed_check("a")],
    )
    .evidence(r#"{"failed": ["b"]}"#),
    case(
        (Code::CHECKS_WAIVED, Severity::Warning),
        r#"fails the check "a" and 1 more, and its subject.toml allows that"#,
        |w| w.checks = vec![waived_check("a"), waived_check("b"), waived_check("a")],
        |w| {
            w.checks = vec![
                CheckResult { ok: true, ..waived_check("a") },
                CheckResult { protocol: Protocol::H2, ..waived_check("a") },
                CheckResult { waived: true, ..late_check("a") },
            ];
        },
    )
    .given(|w| w.command = CommandKind::Run)
    .evidence(r#"{"waived": ["a", "b"]}"#),
    case((Code::CUT_SHORT, Severity::Info), "ended early", |w| w.record.cut_short = true, |_| {}),
    case(
        (Code::CUT_SHORT, Severity::Info),
        "20 requests still in flight had waited no longer than the slowest correct response took. \
         A wait of that length is not counted as a failure.",
        |w| w.cut_off(20, MS / 2),
        |w| w.leave_in_flight(20),
    ),
    // Requests that the end of the load cut off are failures of the server only if they had waited
    // longer than any correct response.
    case(
        (Code::ERRORS, Severity::Invalid),
        "20 in flight at the end",
        |w| w.cut_off(20, S / 2),
        |w| w.cut_off(20, MS / 2),
    ),
    case(
        (Code::TCP_NOT_MEASURED, Severity::Info),
        "TCP segments are unknown:",
        |w| w.record.tcp = None,
        |_| {},
    ),
    // The bound is 0.8 of the possible requests in flight.
    case(
        (Code::THREADS_ENDED_APART, Severity::Warning),
        "On average, only 51.00 of 64 possible requests were in flight",
        |w| set_uneven_threads(w, 51),
        |w| set_uneven_threads(w, 52),
    )
    .evidence(r#"{"in_flight": 51.0, "max_in_flight": 64.0, "threads": 2}"#),
    case(
        (Code::SHORT_WINDOW, Severity::Info),
        "shorter than a second",
        |w| w.record.window_ns = (0, S - 1),
        |_| {},
    ),
    case(
        (Code::SHORT_WINDOW, Severity::Info),
        "shorter than a second",
        |w| {
            w.record.window_ns = (1, S);
            w.plan.requests = Some(1000);
        },
        |w| w.plan.requests = Some(1000),
    ),
    // With so few requests at a rate, throughput appears above the rate.
    case(
        (Code::SHORT_WINDOW, Severity::Info),
        "the last of only 99 responses",
        |w| set_requests_at_rate(w, 99),
        |w| set_requests_at_rate(w, 100),
    ),
    case(
        (Code::SERVER_NOT_OBSERVED, Severity::Info),
        "Let dyno start the server (`dyno run`)",
        |w| w.command = CommandKind::Load,
        |_| {},
    ),
];

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

/// Sets how many of ten streams the server allows.
fn allow_streams(w: &mut TrialWorld, allowed: Option<u32>) {
    w.workload.protocol = Protocol::H2;
    w.step.streams = 10;
    w.record.http2 =
        Some(Http2Use { streams_asked: 10, streams_granted: allowed, ..Http2Use::default() });
}

/// Sets an open loop that ends with the last of `n` requests.
fn set_requests_at_rate(w: &mut TrialWorld, n: u64) {
    w.set_rate(1000.0);
    w.plan.requests = Some(n);
}

fn ceiling(throughput_rps: f64) -> Option<Ceiling> {
    Some(Ceiling { throughput_rps, measured: "2026-01-02".into() })
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

/// Cases of loads that close connections, by design or not.
const CLOSINGS: &[Case<TrialWorld>] = &[
    // On average, two connections are being opened: 1,000 per second, for 2 ms each. The rule
    // expects twice as many missing ones, and accepts up to 11 by chance.
    case(
        (Code::CONNECTIONS, Severity::Warning),
        "52 of 64 connections were open",
        |w| w.replace_connections(1000, 2 * MS, 52),
        |w| w.replace_connections(1000, 2 * MS, 53),
    )
    .evidence(r#"{"asked": 64, "established": 52}"#),
    // A limit on requests per connection does not explain more missing ones.
    case(
        (Code::CONNECTIONS, Severity::Warning),
        "52 of 64 connections were open",
        |w| {
            w.replace_connections(1000, 2 * MS, 52);
            w.plan.requests_per_connection = Some(9);
        },
        |w| {
            w.replace_connections(1000, 2 * MS, 63);
            w.plan.requests_per_connection = Some(9);
        },
    ),
    // Connections that could not be opened are no closings by design.
    case(
        (Code::CONNECTIONS, Severity::Warning),
        "63 of 64 connections were open",
        |w| w.fail_connections(1, Outcome::ConnectRefused),
        |_| {},
    )
    .given(|w| w.replace_connections(1000, 2 * MS, 63)),
    // An open loop opens a connection when a request needs one.
    case(
        (Code::CONNECTIONS, Severity::Warning),
        "10 of 64 connections were open",
        |w| (w.record.connections.established, w.record.connections.opened) = (10, 63),
        |w| w.record.connections.established = 10,
    )
    .given(|w| w.step.arrivals = Arrivals::Constant { rate: 1000.0 }),
    // A load of a number of requests opens none at its end.
    case(
        (Code::CONNECTIONS, Severity::Warning),
        "0 of 64 connections were open",
        |w| w.record.connections.established = 0,
        |w| {
            w.record.connections.established = 0;
            w.plan.requests = Some(1000);
        },
    ),
];

#[test]
fn connections_caveat_depends_on_replaced_connections() {
    check_cases(CLOSINGS);
}
