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
use super::{Case, check_cases};
use crate::caveat::{Code, Severity};
use crate::fixture;
use crate::load::Ceiling;

fn network(w: &mut TrialWorld) -> &mut NetworkUse {
    w.server_counters().network.as_mut().expect("a network")
}

/// Caveats about counts and other contents of a load's record.
pub(super) const CASES: &[Case<TrialWorld>] = &[
    // With `auto` the server may choose HTTP/1.1, which has no streams.
    Case {
        code: Code::FellBack,
        severity: Severity::Warning,
        message: "one request in flight instead of 2.",
        evidence: r#"{"streams": 2}"#,
        trigger: |w| (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2),
        near_miss: |w| w.workload.protocol = Protocol::Auto,
        near_miss_severity: None,
    },
    Case {
        code: Code::FellBack,
        severity: Severity::Warning,
        message: "one request in flight instead of 2.",
        evidence: r#"{"streams": 2}"#,
        trigger: |w| (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2),
        near_miss: |w| (w.workload.protocol, w.step.streams) = (Protocol::H1, 2),
        near_miss_severity: None,
    },
    Case {
        code: Code::FellBack,
        severity: Severity::Warning,
        message: "one request in flight instead of 3.",
        evidence: r#"{"streams": 3}"#,
        trigger: |w| (w.workload.protocol, w.step.streams) = (Protocol::Auto, 3),
        near_miss: |w| {
            (w.workload.protocol, w.step.streams) = (Protocol::Auto, 3);
            w.record.http2 = Some(Http2Use::default());
        },
        near_miss_severity: None,
    },
    // Servers behind one address may choose different protocols.
    Case {
        code: Code::FellBack,
        severity: Severity::Warning,
        message: "for 3 connections, and HTTP/2 for 5. Each connection over HTTP/1.1 had one",
        evidence: r#"{"streams": 2, "connections": 3}"#,
        trigger: |w| {
            (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2);
            w.record.http2 =
                Some(Http2Use { connections: 5, fallen_back: 3, ..Http2Use::default() });
        },
        near_miss: |w| {
            w.workload.protocol = Protocol::Auto;
            w.record.http2 =
                Some(Http2Use { connections: 5, fallen_back: 3, ..Http2Use::default() });
        },
        near_miss_severity: None,
    },
    // Without a response the server chose no protocol.
    Case {
        code: Code::FellBack,
        severity: Severity::Warning,
        message: "one request in flight instead of 2.",
        evidence: r#"{"streams": 2}"#,
        trigger: |w| (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2),
        near_miss: |w| {
            *w = TrialWorld::with_responses(0);
            (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::FellBack,
        severity: Severity::Invalid,
        message: "3 connections used HTTP/1.1 instead of HTTP/2: the server chose another protocol \
                  by ALPN.",
        evidence: r#"{"connections": 3}"#,
        trigger: |w| {
            w.workload.protocol = Protocol::H2;
            w.record.http2 = Some(Http2Use { fallen_back: 3, ..Http2Use::default() });
        },
        near_miss: |w| {
            w.workload.protocol = Protocol::H2;
            w.record.http2 = Some(Http2Use { connections: 64, ..Http2Use::default() });
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::FellBack,
        severity: Severity::Invalid,
        message: "5 connections used HTTP/1.1 instead of HTTP/2: the server did not switch \
                  protocols",
        evidence: r#"{"connections": 5}"#,
        trigger: |w| {
            w.workload.protocol = Protocol::H2cUpgrade;
            w.record.http2 =
                Some(Http2Use { fallen_back: 1, upgrades_declined: 4, ..Http2Use::default() });
        },
        near_miss: |w| {
            w.workload.protocol = Protocol::H2cUpgrade;
            w.record.http2 = Some(Http2Use::default());
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::StreamsNotGranted,
        severity: Severity::Warning,
        message: "allows 9 streams at once on a connection, but the load asks for 10",
        evidence: r#"{"asked": 10, "granted": 9}"#,
        trigger: |w| allow_streams(w, Some(9)),
        near_miss: |w| allow_streams(w, Some(10)),
        near_miss_severity: None,
    },
    Case {
        code: Code::StreamsNotGranted,
        severity: Severity::Warning,
        message: "allows 1 streams",
        evidence: r#"{"asked": 10, "granted": 1}"#,
        trigger: |w| allow_streams(w, Some(1)),
        near_miss: |w| allow_streams(w, None),
        near_miss_severity: None,
    },
    Case {
        code: Code::DroppedPackets,
        severity: Severity::Invalid,
        message: "The machine dropped packets while this step ran: 1 by connection tracking, with \
                  64 of 64 table entries in use.",
        evidence: r#"{"tracking": 1, "tracking_entries": 64, "tracking_most": 64}"#,
        trigger: |w| w.set_tracking(64, Some(1)),
        near_miss: |w| w.set_tracking(64, Some(0)),
        near_miss_severity: None,
    },
    // An ordinary user cannot read the counters on every kernel.
    Case {
        code: Code::DroppedPackets,
        severity: Severity::Invalid,
        message: "an unknown number by connection tracking (64 of 64 table entries were in \
                  use, and 1 attempt to connect timed out).",
        evidence: r#"{"tracking": null, "tracking_entries": 64, "connect_timeouts": 1}"#,
        trigger: |w| {
            w.set_tracking(64, None);
            w.fail_connections(1, Outcome::ConnectTimeout);
        },
        near_miss: |w| w.set_tracking(64, None),
        near_miss_severity: None,
    },
    // `dyno load` reads these counters too.
    Case {
        code: Code::DroppedPackets,
        severity: Severity::Invalid,
        message: "1 because receive queues of CPUs were full",
        evidence: r#"{"backlog": 1}"#,
        trigger: |w| {
            w.command = CommandKind::Load;
            w.drop_counters().backlog = Some(BacklogUse { dropped: 1, ..BacklogUse::default() });
        },
        near_miss: |w| {
            w.command = CommandKind::Load;
            w.drop_counters().backlog = Some(BacklogUse { squeezed: 1, ..BacklogUse::default() });
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::DroppedPackets,
        severity: Severity::Invalid,
        message: "1 because the neighbour (ARP or NDP) table was full",
        evidence: r#"{"neighbours": 1}"#,
        trigger: |w| w.drop_counters().neighbour_overflows = Some(1),
        near_miss: |w| w.drop_counters().neighbour_overflows = Some(0),
        near_miss_severity: None,
    },
    Case {
        code: Code::DroppedPackets,
        severity: Severity::Invalid,
        message: "1 for lack of TCP memory",
        evidence: r#"{"tcp_memory": 1}"#,
        trigger: |w| network(w).aborts_on_memory = Some(1),
        // Drops at a listener's queue are the server's and not the machine's.
        near_miss: |w| {
            let network = network(w);
            network.syn_queue_drops = Some(1);
            network.listen_drops = Some(1);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::DroppedPackets,
        severity: Severity::Warning,
        message: "The kernel removed 1 unanswered connections",
        evidence: r#"{"tracking": 0, "tracking_evictions": 1}"#,
        trigger: |w| w.set_tracking_evictions(1),
        near_miss: |w| w.set_tracking_evictions(0),
        near_miss_severity: None,
    },
    Case {
        code: Code::Books,
        severity: Severity::Invalid,
        message: "do not add up",
        evidence: r#"{"scheduled": 1001, "started": 1000}"#,
        trigger: |w| w.record.books.scheduled += 1,
        near_miss: |w| {
            w.record.books.scheduled += 1;
            w.record.books.dropped += 1;
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::Books,
        severity: Severity::Invalid,
        message: "do not add up",
        evidence: r#"{"completed": 999, "started": 1000}"#,
        trigger: |w| w.record.books.completed -= 1,
        near_miss: |w| {
            w.record.books.completed -= 1;
            w.record.books.failed += 1;
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::Books,
        severity: Severity::Invalid,
        message: "do not add up",
        evidence: r#"{"carried_in": 1}"#,
        trigger: |w| w.record.books.carried_in += 1,
        near_miss: |w| {
            w.record.books.carried_in += 1;
            w.record.books.scheduled -= 1;
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::Connections,
        severity: Severity::Warning,
        message: "63 of 64 connections were open",
        evidence: r#"{"asked": 64, "established": 63}"#,
        trigger: |w| w.record.connections.established = 63,
        near_miss: |_| {},
        near_miss_severity: None,
    },
    // With few requests per connection, some connections are always being replaced. There is a
    // caveat only if requests failed.
    Case {
        code: Code::Connections,
        severity: Severity::Warning,
        message: "63 of 64 connections were open",
        evidence: "{}",
        trigger: |w| {
            w.record.connections.established = 63;
            w.plan.requests_per_connection = Some(9);
            w.add_outcomes(1, Outcome::Reset);
        },
        near_miss: |w| {
            w.record.connections.established = 63;
            w.plan.requests_per_connection = Some(9);
        },
        near_miss_severity: None,
    },
    // If the server closes each connection after its response, some are always being replaced.
    Case {
        code: Code::Connections,
        severity: Severity::Warning,
        message: "40 of 64 connections were open",
        evidence: "{}",
        trigger: |w| (w.record.connections.established, w.record.connections.opened) = (40, 64),
        near_miss: |w| (w.record.connections.established, w.record.connections.opened) = (40, 128),
        near_miss_severity: None,
    },
    Case {
        code: Code::Unsolicited,
        severity: Severity::Invalid,
        message: "sent bytes that belong to no request. dyno closed these connections. It is \
                  unknown to which requests the 7 earlier responses",
        evidence: r#"{"connections": 1, "responses_before": 7}"#,
        trigger: |w| {
            w.record.connections.unsolicited = 1;
            w.record.connections.unsolicited_after = Some(7);
        },
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::Ceiling,
        severity: Severity::Info,
        message: "is 25 % of the highest rate that the generator reached on this machine: 4000 \
                  requests per second",
        evidence: r#"{"ceiling_rps": 4000.0}"#,
        trigger: |w| w.ceiling = ceiling(4000.0),
        near_miss: |w| w.ceiling = ceiling(0.0),
        near_miss_severity: None,
    },
    Case {
        code: Code::Ceiling,
        severity: Severity::Info,
        message: "is 2.5 % of the highest rate that the generator reached on this machine: 40000",
        evidence: "{}",
        trigger: |w| w.ceiling = ceiling(40_000.0),
        near_miss: |w| {
            w.ceiling = ceiling(4000.0);
            w.set_rate(1000.0);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::Ceiling,
        severity: Severity::Info,
        message: "is 100 % of the highest rate that the generator reached on this machine: 1 \
                  requests",
        evidence: "{}",
        trigger: |w| {
            *w = TrialWorld::with_responses(1);
            w.ceiling = ceiling(1.0);
        },
        near_miss: |w| {
            *w = TrialWorld::with_responses(0);
            w.ceiling = ceiling(1.0);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::PartlyChecked,
        severity: Severity::Info,
        message: "500 of 1000 responses were checked in full.",
        evidence: r#"{"checked": 500, "completed": 1000}"#,
        trigger: |w| set_check_one_in(w, 2),
        near_miss: |w| set_check_one_in(w, 1),
        near_miss_severity: None,
    },
    // Other requests of a mix, or resources of a page, may have no such expectation.
    Case {
        code: Code::PartlyChecked,
        severity: Severity::Info,
        message: "in full. A response is checked in full only if its request has an",
        evidence: r#"{"checked": 500, "completed": 1000}"#,
        trigger: |w| {
            set_check_one_in(w, 2);
            w.workload.requests.push(Request { name: "other".into(), ..Request::default() });
        },
        near_miss: |w| set_check_one_in(w, 1),
        near_miss_severity: None,
    },
    Case {
        code: Code::PartlyChecked,
        severity: Severity::Info,
        message: "checked only before the load",
        evidence: r#"{"checked": 0}"#,
        trigger: |w| set_check_one_in(w, 0),
        near_miss: |w| {
            set_check_one_in(w, 0);
            w.workload = TrialWorld::default().workload;
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::BackendFailed,
        severity: Severity::Invalid,
        message: "The server lost a back end: back end db ended",
        evidence: "{}",
        trigger: |w| w.record.server_failure = Some("lost a back end: back end db ended".into()),
        near_miss: |w| w.record.server_failure = Some("crashed: it left".into()),
        near_miss_severity: None,
    },
    Case {
        code: Code::MachineFailed,
        severity: Severity::Invalid,
        message: "The server could not be measured: the machine ran out of memory",
        evidence: "{}",
        trigger: |w| {
            let failure = "could not be measured: the machine ran out of memory";
            w.record.server_failure = Some(failure.into());
        },
        near_miss: |w| w.record.server_failure = Some("crashed: it left".into()),
        near_miss_severity: None,
    },
    Case {
        code: Code::SubjectFailed,
        severity: Severity::Invalid,
        message: "The server failed during this step: it left.",
        evidence: "{}",
        trigger: |w| w.record.server_failure = Some("it left".into()),
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::Unchecked,
        severity: Severity::Invalid,
        message: "The server's responses were not checked again after this step, because the run \
                  was interrupted, or a back end or the machine failed.",
        evidence: "{}",
        trigger: |w| w.lacks_final_check = true,
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::ChecksFailed,
        severity: Severity::Invalid,
        message: "2 of 3 checks failed right before or during the load. The first failed check \
                  was \"b\": late",
        evidence: r#"{"failed": ["b", "c"]}"#,
        trigger: |w| w.checks = vec![passed_check("a"), late_check("b"), failed_check("c")],
        near_miss: |w| w.checks = vec![passed_check("a"), late_check("b")],
        near_miss_severity: Some(Severity::Warning),
    },
    Case {
        code: Code::ChecksFailed,
        severity: Severity::Warning,
        message: "1 of 2 checks failed",
        evidence: r#"{"failed": ["b"]}"#,
        trigger: |w| w.checks = vec![passed_check("a"), late_check("b")],
        near_miss: |w| w.checks = vec![passed_check("a")],
        near_miss_severity: None,
    },
    Case {
        code: Code::ChecksWaived,
        severity: Severity::Warning,
        message: r#"fails the check "a" and 1 more, and its subject.toml allows that"#,
        evidence: r#"{"waived": ["a", "b"]}"#,
        trigger: |w| {
            w.command = CommandKind::Run;
            w.checks = vec![waived_check("a"), waived_check("b"), waived_check("a")];
        },
        near_miss: |w| {
            w.command = CommandKind::Run;
            w.checks = vec![
                CheckResult { ok: true, ..waived_check("a") },
                CheckResult { protocol: Protocol::H2, ..waived_check("a") },
                CheckResult { waived: true, ..late_check("a") },
            ];
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::CutShort,
        severity: Severity::Info,
        message: "ended early",
        evidence: "{}",
        trigger: |w| w.record.cut_short = true,
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::CutShort,
        severity: Severity::Info,
        message: "20 requests still in flight had waited no longer than the slowest correct \
                  response took. A wait of that length is not counted as a failure.",
        evidence: "{}",
        trigger: |w| w.cut_off(20, MS / 2),
        near_miss: |w| w.leave_in_flight(20),
        near_miss_severity: None,
    },
    // Requests that the end of the load cut off are failures of the server only if they had waited
    // longer than any correct response.
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        message: "20 in flight at the end",
        evidence: "{}",
        trigger: |w| w.cut_off(20, S / 2),
        near_miss: |w| w.cut_off(20, MS / 2),
        near_miss_severity: None,
    },
    Case {
        code: Code::TcpNotMeasured,
        severity: Severity::Info,
        message: "TCP segments are unknown:",
        evidence: "{}",
        trigger: |w| w.record.tcp = None,
        near_miss: |_| {},
        near_miss_severity: None,
    },
    // The bound is 0.8 of the possible requests in flight.
    Case {
        code: Code::ThreadsEndedApart,
        severity: Severity::Warning,
        message: "On average, only 51.00 of 64 possible requests were in flight",
        evidence: r#"{"in_flight": 51.0, "max_in_flight": 64.0, "threads": 2}"#,
        trigger: |w| set_uneven_threads(w, 51),
        near_miss: |w| set_uneven_threads(w, 52),
        near_miss_severity: None,
    },
    Case {
        code: Code::ShortWindow,
        severity: Severity::Info,
        message: "shorter than a second",
        evidence: "{}",
        trigger: |w| w.record.window_ns = (0, S - 1),
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::ShortWindow,
        severity: Severity::Info,
        message: "shorter than a second",
        evidence: "{}",
        trigger: |w| {
            w.record.window_ns = (1, S);
            w.plan.requests = Some(1000);
        },
        near_miss: |w| w.plan.requests = Some(1000),
        near_miss_severity: None,
    },
    // With so few requests at a rate, throughput appears above the rate.
    Case {
        code: Code::ShortWindow,
        severity: Severity::Info,
        message: "the last of only 99 responses",
        evidence: "{}",
        trigger: |w| set_requests_at_rate(w, 99),
        near_miss: |w| set_requests_at_rate(w, 100),
        near_miss_severity: None,
    },
    Case {
        code: Code::ServerNotObserved,
        severity: Severity::Info,
        message: "Let dyno start the server (`dyno run`)",
        evidence: "{}",
        trigger: |w| w.command = CommandKind::Load,
        near_miss: |_| {},
        near_miss_severity: None,
    },
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
    Case {
        code: Code::Connections,
        severity: Severity::Warning,
        message: "52 of 64 connections were open",
        evidence: r#"{"asked": 64, "established": 52}"#,
        trigger: |w| w.replace_connections(1000, 2 * MS, 52),
        near_miss: |w| w.replace_connections(1000, 2 * MS, 53),
        near_miss_severity: None,
    },
    // A limit on requests per connection does not explain more missing ones.
    Case {
        code: Code::Connections,
        severity: Severity::Warning,
        message: "52 of 64 connections were open",
        evidence: "{}",
        trigger: |w| {
            w.replace_connections(1000, 2 * MS, 52);
            w.plan.requests_per_connection = Some(9);
        },
        near_miss: |w| {
            w.replace_connections(1000, 2 * MS, 63);
            w.plan.requests_per_connection = Some(9);
        },
        near_miss_severity: None,
    },
    // Connections that could not be opened are no closings by design.
    Case {
        code: Code::Connections,
        severity: Severity::Warning,
        message: "63 of 64 connections were open",
        evidence: "{}",
        trigger: |w| {
            w.replace_connections(1000, 2 * MS, 63);
            w.fail_connections(1, Outcome::ConnectRefused);
        },
        near_miss: |w| w.replace_connections(1000, 2 * MS, 63),
        near_miss_severity: None,
    },
    // An open loop opens a connection when a request needs one.
    Case {
        code: Code::Connections,
        severity: Severity::Warning,
        message: "10 of 64 connections were open",
        evidence: "{}",
        trigger: |w| {
            w.step.arrivals = Arrivals::Constant { rate: 1000.0 };
            (w.record.connections.established, w.record.connections.opened) = (10, 63);
        },
        near_miss: |w| {
            w.step.arrivals = Arrivals::Constant { rate: 1000.0 };
            w.record.connections.established = 10;
        },
        near_miss_severity: None,
    },
    // A load of a number of requests opens none at its end.
    Case {
        code: Code::Connections,
        severity: Severity::Warning,
        message: "0 of 64 connections were open",
        evidence: "{}",
        trigger: |w| w.record.connections.established = 0,
        near_miss: |w| {
            w.record.connections.established = 0;
            w.plan.requests = Some(1000);
        },
        near_miss_severity: None,
    },
];

#[test]
fn connections_caveat_depends_on_replaced_connections() {
    check_cases(CLOSINGS);
}
