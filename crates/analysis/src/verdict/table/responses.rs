//! Test cases: caveats about requests without a correct response.

use dyno_archive::load::{Books, TlsUse, UnansweredAges};
use dyno_archive::outcome::{Outcome, Outcomes};
use dyno_archive::start::WarmUpEnd;

use super::world::{MS, S, TrialWorld, equal_times};
use super::{Case, CaveatSource, case};
use crate::caveat::{Code, Severity};
use crate::fixture;
use crate::verdict::Resource;

/// Caveats about requests without a correct response.
pub(super) const CASES: &[Case<TrialWorld>] = &[
    case(
        (Code::INCORRECT_RESPONSES, Severity::Invalid),
        "Incorrect responses: 1 with an unexpected status, 0 with an unexpected body. The server",
        |w| w.add_outcomes(1, Outcome::UnexpectedStatus),
        |w| w.add_outcomes(1, Outcome::ClosedEarly),
    )
    .evidence(r#"{"unexpected_status": 1, "unexpected_header": 0, "unexpected_body": 0}"#),
    case(
        (Code::INCORRECT_RESPONSES, Severity::Invalid),
        "Incorrect responses: 0 with an unexpected status, 1 with an unexpected body. The server",
        |w| w.add_outcomes(1, Outcome::UnexpectedBody),
        |w| w.add_outcomes(1, Outcome::Ok),
    )
    .evidence(r#"{"unexpected_status": 0, "unexpected_header": 0, "unexpected_body": 1}"#),
    case(
        (Code::INCORRECT_RESPONSES, Severity::Invalid),
        "Incorrect responses: 0 with an unexpected status, 0 with an unexpected body, 1 with \
         unexpected headers. The server",
        |w| w.add_outcomes(1, Outcome::UnexpectedHeader),
        |w| w.add_outcomes(1, Outcome::ProtocolError),
    )
    .evidence(r#"{"unexpected_header": 1}"#),
    case(
        (Code::INCORRECT_RESPONSES, Severity::Invalid),
        "Incorrect responses: 0 with an unexpected status, 0 with an unexpected body, 2 without a \
         value that later requests need. The server",
        |w| w.add_outcomes(2, Outcome::ExtractionFailed),
        |w| w.add_outcomes(2, Outcome::Ok),
    )
    .evidence(r#"{"extraction_failed": 2}"#),
    case(
        (Code::INCORRECT_RESPONSES, Severity::Invalid),
        "1 request got a response on a port where no server should listen.",
        |w| w.refuses = true,
        |_| {},
    )
    .given(|w| *w = TrialWorld::with_responses(1))
    .evidence(r#"{"answers": 1}"#),
    case(
        (Code::REFUSALS, Severity::Info),
        "All connections were refused (3.0 per second). This is expected",
        |w| w.refuse_connections(3),
        |w| {
            w.refuse_connections(3);
            w.add_outcomes(1, Outcome::Reset);
        },
    )
    .evidence(r#"{"refused": 3, "waiting": 0}"#),
    case(
        (Code::REFUSALS, Severity::Info),
        "(3.0 per second). This is expected: this subject is a control, and no server listens on \
         its port. Because dyno pauses between attempts to connect (`reconnect = \"backoff\"`), 30 \
         requests were still waiting",
        |w| w.drop_requests(10),
        // The server dropped an attempt to connect instead of refusing it.
        |w| w.fail_connections(1, Outcome::ConnectTimeout),
    )
    .given(|w| {
        w.refuse_connections(3);
        w.leave_in_flight(20);
    })
    .evidence(r#"{"refused": 3, "waiting": 30}"#),
    case(
        (Code::INCORRECT_RESPONSES, Severity::Invalid),
        "2 connections were accepted on a port where no server should listen.",
        |w| w.record.connections.opened = 2,
        |_| {},
    )
    .given(|w| w.refuse_connections(3))
    .evidence(r#"{"answers": 0, "opened": 2}"#),
    case(
        (Code::NO_CORRECT_RESPONSE, Severity::Invalid),
        "This control should refuse all connections, but 1 ended as connect_timeout.",
        |w| w.fail_connections(1, Outcome::ConnectTimeout),
        |_| {},
    )
    .given(|w| w.refuse_connections(3)),
    case(
        (Code::NO_CORRECT_RESPONSE, Severity::Invalid),
        "No request got a correct response. The most frequent failure was reset (3.0 per second).",
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
    case(
        (Code::NO_CORRECT_RESPONSE, Severity::Invalid),
        "No request got a response in the measured window.",
        |w| *w = TrialWorld::with_responses(0),
        |w| *w = TrialWorld::with_responses(1),
    ),
    case(
        (Code::ERRORS, Severity::Invalid),
        "1.0 % of the window's requests got no response (101 closed_early).",
        |w| {
            *w = TrialWorld::with_responses(9899);
            w.add_outcomes(101, Outcome::ClosedEarly);
        },
        |w| {
            *w = TrialWorld::with_responses(9900);
            w.add_outcomes(100, Outcome::ClosedEarly);
        },
    )
    .evidence(r#"{"failed": 101, "lost": 101, "share": 0.0101}"#)
    .near_miss_still(Severity::Warning),
    case(
        (Code::ERRORS, Severity::Warning),
        "0.1 % of the window's requests got no response (1 timeout).",
        |w| {
            *w = TrialWorld::with_responses(999);
            w.add_outcomes(1, Outcome::Timeout);
        },
        |w| w.add_outcomes(1, Outcome::UnexpectedStatus),
    )
    .evidence(r#"{"failed": 1, "lost": 1, "share": 0.001}"#),
    case(
        (Code::ERRORS, Severity::Invalid),
        "1.1 % of the window's requests got no response (11 dropped).",
        |w| {
            *w = TrialWorld::with_responses(989);
            w.drop_requests(11);
        },
        |w| {
            *w = TrialWorld::with_responses(990);
            w.drop_requests(10);
        },
    )
    .evidence(r#"{"failed": 0, "lost": 11, "share": 0.011}"#),
    case(
        (Code::ERRORS, Severity::Invalid),
        "1.1 % of the window's requests got no response (11 in flight at the end).",
        |w| {
            *w = TrialWorld::with_responses(989);
            w.leave_in_flight(11);
        },
        |w| {
            *w = TrialWorld::with_responses(990);
            w.leave_in_flight(10);
        },
    )
    .evidence(r#"{"failed": 0, "lost": 11, "share": 0.011}"#),
    case(
        (Code::ERRORS, Severity::Invalid),
        "100 % of the window's requests got no response (1 reset).",
        |w| w.add_outcomes(1, Outcome::Reset),
        |_| {},
    )
    .given(|w| *w = TrialWorld::with_responses(0))
    .evidence(r#"{"share": 1.0}"#),
    // Requests that were carried into the window are included.
    case(
        (Code::ERRORS, Severity::Invalid),
        "1.1 % of",
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
    )
    .evidence(r#"{"share": 0.011}"#),
    case(
        (Code::ERRORS, Severity::Invalid),
        "(4 reset, 3 cancelled, 6 in flight at the end, 7 dropped). TLS: 2 bad_certificate, 1 eof.",
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
    )
    .evidence(r#"{"failed": 7, "lost": 20, "share": 0.02}"#),
    case(
        (Code::ERRORS, Severity::Warning),
        "(1 address_exhausted).",
        |w| w.add_outcomes(1, Outcome::AddressExhausted),
        |_| {},
    )
    .evidence(r#"{"failed": 1}"#),
    case(
        (Code::NO_LOCAL_PORT, Severity::Warning),
        "No local port was left to connect from for 1 request (EADDRNOTAVAIL).",
        |w| w.add_outcomes(1, Outcome::AddressExhausted),
        |w| w.add_outcomes(1, Outcome::ConnectFailed),
    )
    .evidence(r#"{"requests": 1}"#),
    // Few attempts to connect fail, because slots wait between attempts. Requests wait during that
    // time.
    case(
        (Code::NO_LOCAL_PORT, Severity::Invalid),
        "No local port was left to connect from for 6 requests (EADDRNOTAVAIL).",
        |w| w.record.connections.established -= 1,
        |w| {
            w.add_outcomes(6, Outcome::Reset);
            w.record.connections.established -= 1;
        },
    )
    .given(|w| {
        w.add_outcomes(6, Outcome::AddressExhausted);
        w.leave_in_flight(9);
    })
    .evidence(r#"{"requests": 6}"#)
    .near_miss_still(Severity::Warning),
    // If the server lost too many other requests, missing ports do not explain the errors.
    case(
        (Code::NO_LOCAL_PORT, Severity::Invalid),
        "for 30 requests",
        |w| w.add_outcomes(10, Outcome::Timeout),
        |w| w.add_outcomes(11, Outcome::Timeout),
    )
    .given(|w| w.add_outcomes(30, Outcome::AddressExhausted))
    .evidence(r#"{"requests": 30}"#)
    .near_miss_still(Severity::Warning),
    case(
        (Code::UNANSWERED, Severity::Warning),
        "1 request had no response at the end of the load.",
        |w| w.leave_in_flight(1),
        |w| w.cut_off(1, MS / 2),
    )
    .evidence(r#"{"in_flight_at_end": 1}"#),
    case(
        (Code::DROPPED, Severity::Warning),
        "1 request was dropped,",
        |w| w.drop_requests(1),
        |w| w.leave_in_flight(1),
    )
    .evidence(r#"{"dropped": 1}"#),
];

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
