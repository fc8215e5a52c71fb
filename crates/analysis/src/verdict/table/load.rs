//! Cases: counts, and other contents of a load's record.

use dyno_archive::Protocol;
use dyno_archive::drops::BacklogUse;
use dyno_archive::load::{Http2Use, TlsUse};
use dyno_archive::outcome::Outcome;
use dyno_archive::plan::Request;
use dyno_archive::sample::NetworkUse;
use dyno_archive::trial::CheckResult;

use super::Case;
use super::world::{CommandKind, JudgedWorld, S};
use crate::caveat::{Code, Severity};
use crate::fixture;
use crate::load::Ceiling;

fn network(w: &mut JudgedWorld) -> &mut NetworkUse {
    w.used().network.as_mut().expect("a network")
}

/// Caveats from counts, and from other contents of a record.
pub(super) const CASES: &[Case<JudgedWorld>] = &[
    // With `auto` HTTP/1.1 is a permitted choice, but it has no streams.
    Case {
        code: Code::FellBack,
        severity: Severity::Warning,
        says: "one request in flight instead of 2.",
        evidence: r#"{"streams": 2}"#,
        trips: |w| (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2),
        just_not: |w| w.workload.protocol = Protocol::Auto,
        otherwise: None,
    },
    Case {
        code: Code::FellBack,
        severity: Severity::Warning,
        says: "one request in flight instead of 2.",
        evidence: r#"{"streams": 2}"#,
        trips: |w| (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2),
        just_not: |w| (w.workload.protocol, w.step.streams) = (Protocol::H1, 2),
        otherwise: None,
    },
    Case {
        code: Code::FellBack,
        severity: Severity::Warning,
        says: "one request in flight instead of 3.",
        evidence: r#"{"streams": 3}"#,
        trips: |w| (w.workload.protocol, w.step.streams) = (Protocol::Auto, 3),
        just_not: |w| {
            (w.workload.protocol, w.step.streams) = (Protocol::Auto, 3);
            w.record.http2 = Some(Http2Use::default());
        },
        otherwise: None,
    },
    // Connections on which no handshake succeeded.
    Case {
        code: Code::FellBack,
        severity: Severity::Warning,
        says: "one request in flight instead of 2.",
        evidence: r#"{"streams": 2}"#,
        trips: |w| (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2),
        just_not: |w| {
            *w = JudgedWorld::with_answers(0);
            (w.workload.protocol, w.step.streams) = (Protocol::Auto, 2);
        },
        otherwise: None,
    },
    Case {
        code: Code::FellBack,
        severity: Severity::Invalid,
        says: "3 connections used HTTP/1.1 instead of HTTP/2: the server chose another protocol by \
               ALPN.",
        evidence: r#"{"connections": 3}"#,
        trips: |w| {
            w.workload.protocol = Protocol::H2;
            w.record.http2 = Some(Http2Use { fallen_back: 3, ..Http2Use::default() });
        },
        just_not: |w| {
            w.workload.protocol = Protocol::H2;
            w.record.http2 = Some(Http2Use { connections: 64, ..Http2Use::default() });
        },
        otherwise: None,
    },
    Case {
        code: Code::FellBack,
        severity: Severity::Invalid,
        says: "5 connections used HTTP/1.1 instead of HTTP/2: the server responded to the upgrade",
        evidence: r#"{"connections": 5}"#,
        trips: |w| {
            w.workload.protocol = Protocol::H2cUpgrade;
            w.record.http2 =
                Some(Http2Use { fallen_back: 1, upgrades_declined: 4, ..Http2Use::default() });
        },
        just_not: |w| {
            w.workload.protocol = Protocol::H2cUpgrade;
            w.record.http2 = Some(Http2Use::default());
        },
        otherwise: None,
    },
    Case {
        code: Code::StreamsNotGranted,
        severity: Severity::Warning,
        says: "allows 9 streams at once on a connection, and the load asks for 10",
        evidence: r#"{"asked": 10, "granted": 9}"#,
        trips: |w| grant(w, Some(9)),
        just_not: |w| grant(w, Some(10)),
        otherwise: None,
    },
    Case {
        code: Code::StreamsNotGranted,
        severity: Severity::Warning,
        says: "allows 1 streams",
        evidence: r#"{"asked": 10, "granted": 1}"#,
        trips: |w| grant(w, Some(1)),
        just_not: |w| grant(w, None),
        otherwise: None,
    },
    Case {
        code: Code::DroppedPackets,
        severity: Severity::Invalid,
        says: "The machine dropped packets while this step ran: 1 by connection tracking, with 64 \
               of 64 table entries in use.",
        evidence: r#"{"tracking": 1, "tracking_entries": 64, "tracking_most": 64}"#,
        trips: |w| w.track(64, 1),
        just_not: |w| w.track(64, 0),
        otherwise: None,
    },
    // A load without a monitored server reads the counters around it, too.
    Case {
        code: Code::DroppedPackets,
        severity: Severity::Invalid,
        says: "1 because of full receive queues",
        evidence: r#"{"backlog": 1}"#,
        trips: |w| {
            w.command = CommandKind::Load;
            w.path().backlog = Some(BacklogUse { dropped: 1, ..BacklogUse::default() });
        },
        just_not: |w| {
            w.command = CommandKind::Load;
            w.path().backlog = Some(BacklogUse { squeezed: 1, ..BacklogUse::default() });
        },
        otherwise: None,
    },
    Case {
        code: Code::DroppedPackets,
        severity: Severity::Invalid,
        says: "1 because of a full neighbour table",
        evidence: r#"{"neighbours": 1}"#,
        trips: |w| w.path().neighbour_overflows = Some(1),
        just_not: |w| w.path().neighbour_overflows = Some(0),
        otherwise: None,
    },
    Case {
        code: Code::DroppedPackets,
        severity: Severity::Invalid,
        says: "1 for lack of TCP memory",
        evidence: r#"{"tcp_memory": 1}"#,
        trips: |w| network(w).aborts_on_memory = Some(1),
        // The queue of a listener is the server's own.
        just_not: |w| {
            let network = network(w);
            network.syn_queue_drops = Some(1);
            network.listen_drops = Some(1);
        },
        otherwise: None,
    },
    Case {
        code: Code::DroppedPackets,
        severity: Severity::Warning,
        says: "evicted 1 unanswered connections",
        evidence: r#"{"tracking": 0, "tracking_evictions": 1}"#,
        trips: |w| w.track_evictions(1),
        just_not: |w| w.track_evictions(0),
        otherwise: None,
    },
    Case {
        code: Code::Books,
        severity: Severity::Invalid,
        says: "do not add up",
        evidence: r#"{"scheduled": 1001, "started": 1000}"#,
        trips: |w| w.record.books.scheduled += 1,
        just_not: |w| {
            w.record.books.scheduled += 1;
            w.record.books.dropped += 1;
        },
        otherwise: None,
    },
    Case {
        code: Code::Books,
        severity: Severity::Invalid,
        says: "do not add up",
        evidence: r#"{"completed": 999, "started": 1000}"#,
        trips: |w| w.record.books.completed -= 1,
        just_not: |w| {
            w.record.books.completed -= 1;
            w.record.books.failed += 1;
        },
        otherwise: None,
    },
    Case {
        code: Code::Books,
        severity: Severity::Invalid,
        says: "do not add up",
        evidence: r#"{"carried_in": 1}"#,
        trips: |w| w.record.books.carried_in += 1,
        just_not: |w| {
            w.record.books.carried_in += 1;
            w.record.books.scheduled -= 1;
        },
        otherwise: None,
    },
    Case {
        code: Code::WrongAnswers,
        severity: Severity::Invalid,
        says: "1 responses had an unexpected status and 0 an unexpected body. The server",
        evidence: r#"{"unexpected_status": 1, "unexpected_header": 0, "unexpected_body": 0}"#,
        trips: |w| w.end(1, Outcome::UnexpectedStatus),
        just_not: |w| w.end(1, Outcome::ClosedEarly),
        otherwise: None,
    },
    Case {
        code: Code::WrongAnswers,
        severity: Severity::Invalid,
        says: "0 responses had an unexpected status and 1 an unexpected body. The server",
        evidence: r#"{"unexpected_status": 0, "unexpected_header": 0, "unexpected_body": 1}"#,
        trips: |w| w.end(1, Outcome::UnexpectedBody),
        just_not: |w| w.end(1, Outcome::Ok),
        otherwise: None,
    },
    Case {
        code: Code::WrongAnswers,
        severity: Severity::Invalid,
        says: "0 responses had an unexpected status and 0 an unexpected body, 1 unexpected \
               headers. The server",
        evidence: r#"{"unexpected_header": 1}"#,
        trips: |w| w.end(1, Outcome::UnexpectedHeader),
        just_not: |w| w.end(1, Outcome::ProtocolError),
        otherwise: None,
    },
    Case {
        code: Code::WrongAnswers,
        severity: Severity::Invalid,
        says: "1 request got a response on a port where no server should listen.",
        evidence: r#"{"answers": 1}"#,
        trips: |w| {
            *w = JudgedWorld::with_answers(1);
            w.refuses = true;
        },
        just_not: |w| *w = JudgedWorld::with_answers(1),
        otherwise: None,
    },
    Case {
        code: Code::Refusals,
        severity: Severity::Info,
        says: "All connections were refused, 3.0 per second. This is expected",
        evidence: r#"{"refused": 3}"#,
        trips: |w| {
            *w = JudgedWorld::with_answers(0);
            w.refuses = true;
            w.end(3, Outcome::ConnectRefused);
        },
        just_not: |w| {
            *w = JudgedWorld::with_answers(0);
            w.refuses = true;
            w.end(3, Outcome::ConnectRefused);
            w.end(1, Outcome::Reset);
        },
        otherwise: None,
    },
    Case {
        code: Code::NoAnswers,
        severity: Severity::Invalid,
        says: "No request got a correct response. Most ended as reset, 3.0 per second.",
        evidence: "{}",
        trips: |w| {
            *w = JudgedWorld::with_answers(0);
            w.end(2, Outcome::Timeout);
            w.end(3, Outcome::Reset);
            w.end(1, Outcome::ClosedEarly);
        },
        just_not: |w| {
            *w = JudgedWorld::with_answers(0);
            w.end(3, Outcome::Reset);
            w.end(1, Outcome::Ok);
        },
        otherwise: None,
    },
    Case {
        code: Code::NoAnswers,
        severity: Severity::Invalid,
        says: "No request got a response in the measured window.",
        evidence: "{}",
        trips: |w| *w = JudgedWorld::with_answers(0),
        just_not: |w| *w = JudgedWorld::with_answers(1),
        otherwise: None,
    },
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        says: "1.0 % of the due requests got no response (101 closed_early).",
        evidence: r#"{"failed": 101, "lost": 101, "share": 0.0101}"#,
        trips: |w| {
            *w = JudgedWorld::with_answers(9899);
            w.end(101, Outcome::ClosedEarly);
        },
        just_not: |w| {
            *w = JudgedWorld::with_answers(9900);
            w.end(100, Outcome::ClosedEarly);
        },
        otherwise: Some(Severity::Warning),
    },
    Case {
        code: Code::Errors,
        severity: Severity::Warning,
        says: "0.1 % of the due requests got no response (1 timeout).",
        evidence: r#"{"failed": 1, "lost": 1, "share": 0.001}"#,
        trips: |w| {
            *w = JudgedWorld::with_answers(999);
            w.end(1, Outcome::Timeout);
        },
        just_not: |w| w.end(1, Outcome::UnexpectedStatus),
        otherwise: None,
    },
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        says: "1.1 % of the due requests got no response (11 dropped).",
        evidence: r#"{"failed": 0, "lost": 11, "share": 0.011}"#,
        trips: |w| {
            *w = JudgedWorld::with_answers(989);
            w.drop(11);
        },
        just_not: |w| {
            *w = JudgedWorld::with_answers(990);
            w.drop(10);
        },
        otherwise: None,
    },
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        says: "1.1 % of the due requests got no response (11 in flight at the end).",
        evidence: r#"{"failed": 0, "lost": 11, "share": 0.011}"#,
        trips: |w| {
            *w = JudgedWorld::with_answers(989);
            w.leave_in_flight(11);
        },
        just_not: |w| {
            *w = JudgedWorld::with_answers(990);
            w.leave_in_flight(10);
        },
        otherwise: None,
    },
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        says: "100 % of the due requests got no response (1 reset).",
        evidence: r#"{"share": 1.0}"#,
        trips: |w| {
            *w = JudgedWorld::with_answers(0);
            w.end(1, Outcome::Reset);
        },
        just_not: |w| *w = JudgedWorld::with_answers(0),
        otherwise: None,
    },
    // Requests that were carried in were due as well.
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        says: "1.1 % of",
        evidence: r#"{"share": 0.011}"#,
        trips: |w| {
            *w = JudgedWorld::with_answers(989);
            w.drop(11);
            carry(w, 100);
        },
        just_not: |w| {
            *w = JudgedWorld::with_answers(990);
            w.drop(10);
            carry(w, 100);
        },
        otherwise: None,
    },
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        says: "(4 reset, 3 cancelled, 6 in flight at the end, 7 dropped). TLS: 2 bad_certificate, \
               1 eof.",
        evidence: r#"{"failed": 7, "lost": 20, "share": 0.02}"#,
        trips: |w| {
            *w = JudgedWorld::with_answers(980);
            w.end(4, Outcome::Reset);
            w.end(3, Outcome::Cancelled);
            w.leave_in_flight(6);
            w.drop(7);
            w.record.tls = Some(TlsUse {
                errors: [("bad_certificate".into(), 2), ("eof".into(), 1)].into(),
                ..TlsUse::default()
            });
        },
        just_not: |w| w.record.tls = Some(TlsUse::default()),
        otherwise: None,
    },
    Case {
        code: Code::Errors,
        severity: Severity::Warning,
        says: "(1 address_exhausted). No local port was left to connect from",
        evidence: r#"{"failed": 1}"#,
        trips: |w| w.end(1, Outcome::AddressExhausted),
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::Unanswered,
        severity: Severity::Warning,
        says: "1 requests had no response at the end.",
        evidence: r#"{"in_flight_at_end": 1}"#,
        trips: |w| w.leave_in_flight(1),
        just_not: |w| w.drop(1),
        otherwise: None,
    },
    Case {
        code: Code::Dropped,
        severity: Severity::Warning,
        says: "1 requests were dropped,",
        evidence: r#"{"dropped": 1}"#,
        trips: |w| w.drop(1),
        just_not: |w| w.leave_in_flight(1),
        otherwise: None,
    },
    Case {
        code: Code::Connections,
        severity: Severity::Warning,
        says: "63 of 64 connections were open",
        evidence: r#"{"asked": 64, "established": 63}"#,
        trips: |w| w.record.connections.established = 63,
        just_not: |_| {},
        otherwise: None,
    },
    // With few requests per connection some are always being replaced: no caveat unless requests
    // failed.
    Case {
        code: Code::Connections,
        severity: Severity::Warning,
        says: "63 of 64 connections were open",
        evidence: "{}",
        trips: |w| {
            w.record.connections.established = 63;
            w.plan.requests_per_connection = Some(9);
            w.end(1, Outcome::Reset);
        },
        just_not: |w| {
            w.record.connections.established = 63;
            w.plan.requests_per_connection = Some(9);
        },
        otherwise: None,
    },
    // A server that closes each connection after its response has some being replaced at any
    // instant.
    Case {
        code: Code::Connections,
        severity: Severity::Warning,
        says: "40 of 64 connections were open",
        evidence: "{}",
        trips: |w| (w.record.connections.established, w.record.connections.opened) = (40, 64),
        just_not: |w| (w.record.connections.established, w.record.connections.opened) = (40, 128),
        otherwise: None,
    },
    Case {
        code: Code::Unsolicited,
        severity: Severity::Invalid,
        says: "answer no request on 1 connections, and dyno closed them. It is unknown which \
               requests the 7 earlier",
        evidence: r#"{"connections": 1, "responses_before": 7}"#,
        trips: |w| {
            w.record.connections.unsolicited = 1;
            w.record.connections.unsolicited_after = Some(7);
        },
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::Ceiling,
        severity: Severity::Info,
        says: "is 25 % of the generator's ceiling on this machine, which is 4000 requests per \
               second",
        evidence: r#"{"ceiling_rps": 4000.0}"#,
        trips: |w| w.ceiling = ceiling(4000.0),
        just_not: |w| w.ceiling = ceiling(0.0),
        otherwise: None,
    },
    Case {
        code: Code::Ceiling,
        severity: Severity::Info,
        says: "is 2.5 % of the generator's ceiling on this machine, which is 40000",
        evidence: "{}",
        trips: |w| w.ceiling = ceiling(40_000.0),
        just_not: |w| {
            w.ceiling = ceiling(4000.0);
            w.set_rate(1000.0);
        },
        otherwise: None,
    },
    Case {
        code: Code::Ceiling,
        severity: Severity::Info,
        says: "is 100 % of the generator's ceiling on this machine, which is 1 requests",
        evidence: "{}",
        trips: |w| {
            *w = JudgedWorld::with_answers(1);
            w.ceiling = ceiling(1.0);
        },
        just_not: |w| {
            *w = JudgedWorld::with_answers(0);
            w.ceiling = ceiling(1.0);
        },
        otherwise: None,
    },
    Case {
        code: Code::PartlyChecked,
        severity: Severity::Info,
        says: "500 of 1000 responses were checked in full.",
        evidence: r#"{"checked": 500, "completed": 1000}"#,
        trips: |w| check(w, 2),
        just_not: |w| check(w, 1),
        otherwise: None,
    },
    Case {
        code: Code::PartlyChecked,
        severity: Severity::Info,
        says: "checked only before the load",
        evidence: r#"{"checked": 0}"#,
        trips: |w| check(w, 0),
        just_not: |w| {
            check(w, 0);
            w.workload = JudgedWorld::default().workload;
        },
        otherwise: None,
    },
    Case {
        code: Code::BackendFailed,
        severity: Severity::Invalid,
        says: "The server lost a back end: back end db ended",
        evidence: "{}",
        trips: |w| w.record.server_failure = Some("lost a back end: back end db ended".into()),
        just_not: |w| w.record.server_failure = Some("crashed: it left".into()),
        otherwise: None,
    },
    Case {
        code: Code::SubjectFailed,
        severity: Severity::Invalid,
        says: "The server failed during this step: it left.",
        evidence: "{}",
        trips: |w| w.record.server_failure = Some("it left".into()),
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::ChecksFailed,
        severity: Severity::Invalid,
        says: r#"2 of 3 checks failed right before or during the load. The first was "b": late"#,
        evidence: r#"{"failed": ["b", "c"]}"#,
        trips: |w| w.checks = vec![passed("a"), late("b"), wrong("c")],
        just_not: |w| w.checks = vec![passed("a"), late("b")],
        otherwise: Some(Severity::Warning),
    },
    Case {
        code: Code::ChecksFailed,
        severity: Severity::Warning,
        says: "1 of 2 checks failed",
        evidence: r#"{"failed": ["b"]}"#,
        trips: |w| w.checks = vec![passed("a"), late("b")],
        just_not: |w| w.checks = vec![passed("a")],
        otherwise: None,
    },
    Case {
        code: Code::ChecksWaived,
        severity: Severity::Warning,
        says: r#"fails the check "a" and 1 more of its contract, which its own file waives"#,
        evidence: r#"{"waived": ["a", "b"]}"#,
        trips: |w| {
            w.command = CommandKind::Run;
            w.checks = vec![waived("a"), waived("b"), waived("a")];
        },
        just_not: |w| {
            w.command = CommandKind::Run;
            w.checks = vec![
                CheckResult { ok: true, ..waived("a") },
                CheckResult { protocol: Protocol::H2, ..waived("a") },
                CheckResult { waived: true, ..late("a") },
            ];
        },
        otherwise: None,
    },
    Case {
        code: Code::CutShort,
        severity: Severity::Info,
        says: "ended early",
        evidence: "{}",
        trips: |w| w.record.cut_short = true,
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::TcpNotMeasured,
        severity: Severity::Info,
        says: "TCP segments are unknown:",
        evidence: "{}",
        trips: |w| w.record.tcp = None,
        just_not: |_| {},
        otherwise: None,
    },
    // The bound: 0.8 of the places had a request in flight.
    Case {
        code: Code::ThreadsEndedApart,
        severity: Severity::Warning,
        says: "On average, 51.00 of 64 requests were in flight",
        evidence: r#"{"in_flight": 51.0, "places": 64.0, "threads": 2}"#,
        trips: |w| end_apart(w, 51),
        just_not: |w| end_apart(w, 52),
        otherwise: None,
    },
    Case {
        code: Code::ShortWindow,
        severity: Severity::Info,
        says: "shorter than a second",
        evidence: "{}",
        trips: |w| w.record.window_ns = (0, S - 1),
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::ShortWindow,
        severity: Severity::Info,
        says: "shorter than a second",
        evidence: "{}",
        trips: |w| {
            w.record.window_ns = (1, S);
            w.plan.requests = Some(1000);
        },
        just_not: |w| w.plan.requests = Some(1000),
        otherwise: None,
    },
    // A window that ends with the last of so few requests is shorter than they take.
    Case {
        code: Code::ShortWindow,
        severity: Severity::Info,
        says: "the last of only 99 responses",
        evidence: "{}",
        trips: |w| few_requests_at_a_rate(w, 99),
        just_not: |w| few_requests_at_a_rate(w, 100),
        otherwise: None,
    },
    Case {
        code: Code::ServerNotObserved,
        severity: Severity::Info,
        says: "Run it as a subject under `dyno run`",
        evidence: "{}",
        trips: |w| w.command = CommandKind::Load,
        just_not: |_| {},
        otherwise: None,
    },
];

/// Sets how many of ten streams the server allows.
/// A second of two threads with 64 connections and a number of requests, so many in flight.
fn end_apart(w: &mut JudgedWorld, in_flight: u64) {
    w.step.connections = 64;
    w.plan.requests = Some(1000);
    w.generate(&[(S / 4, 0), (S / 4, 0)]);
    w.hold(in_flight * S);
}

fn grant(w: &mut JudgedWorld, granted: Option<u32>) {
    w.workload.protocol = Protocol::H2;
    w.step.streams = 10;
    w.record.http2 =
        Some(Http2Use { streams_asked: 10, streams_granted: granted, ..Http2Use::default() });
}

/// A second of an open loop that ends with the last of `n` requests.
fn few_requests_at_a_rate(w: &mut JudgedWorld, n: u64) {
    w.set_rate(1000.0);
    w.plan.requests = Some(n);
}

/// Makes `n` of the due requests carried in.
fn carry(w: &mut JudgedWorld, n: u64) {
    w.record.books.carried_in = n;
    w.record.books.scheduled -= n;
}

fn ceiling(throughput_rps: f64) -> Option<Ceiling> {
    Some(Ceiling { throughput_rps, measured: "2026-01-02".into() })
}

/// Checks one answer in `one_in` in full.
fn check(w: &mut JudgedWorld, one_in: u64) {
    w.plan.check_one_in = one_in;
    w.interval().checked = 1000u64.checked_div(one_in).unwrap_or(0);
    let mut request = Request { name: "w".into(), ..Request::default() };
    request.expect.body_contains = Some("hello".into());
    w.workload.requests = vec![request];
}

fn passed(name: &str) -> CheckResult {
    fixture::check(name, true, "fine")
}

fn wrong(name: &str) -> CheckResult {
    CheckResult { ok: false, got: "wrong".into(), ..passed(name) }
}

fn waived(name: &str) -> CheckResult {
    CheckResult { waived: true, ..wrong(name) }
}

fn late(name: &str) -> CheckResult {
    CheckResult { ok: false, answered: false, got: "late".into(), ..passed(name) }
}
