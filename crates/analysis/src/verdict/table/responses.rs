//! Test cases: caveats about requests without a correct response.

use dyno_archive::load::TlsUse;
use dyno_archive::outcome::Outcome;

use super::Case;
use super::world::TrialWorld;
use crate::caveat::{Code, Severity};

/// Caveats about requests without a correct response.
pub(super) const CASES: &[Case<TrialWorld>] = &[
    Case {
        code: Code::IncorrectResponses,
        severity: Severity::Invalid,
        message: "1 responses had an unexpected status and 0 an unexpected body. The server",
        evidence: r#"{"unexpected_status": 1, "unexpected_header": 0, "unexpected_body": 0}"#,
        trigger: |w| w.add_outcomes(1, Outcome::UnexpectedStatus),
        near_miss: |w| w.add_outcomes(1, Outcome::ClosedEarly),
        near_miss_severity: None,
    },
    Case {
        code: Code::IncorrectResponses,
        severity: Severity::Invalid,
        message: "0 responses had an unexpected status and 1 an unexpected body. The server",
        evidence: r#"{"unexpected_status": 0, "unexpected_header": 0, "unexpected_body": 1}"#,
        trigger: |w| w.add_outcomes(1, Outcome::UnexpectedBody),
        near_miss: |w| w.add_outcomes(1, Outcome::Ok),
        near_miss_severity: None,
    },
    Case {
        code: Code::IncorrectResponses,
        severity: Severity::Invalid,
        message: "0 responses had an unexpected status and 0 an unexpected body, 1 unexpected \
                  headers. The server",
        evidence: r#"{"unexpected_header": 1}"#,
        trigger: |w| w.add_outcomes(1, Outcome::UnexpectedHeader),
        near_miss: |w| w.add_outcomes(1, Outcome::ProtocolError),
        near_miss_severity: None,
    },
    Case {
        code: Code::IncorrectResponses,
        severity: Severity::Invalid,
        message: "1 request got a response on a port where no server should listen.",
        evidence: r#"{"answers": 1}"#,
        trigger: |w| {
            *w = TrialWorld::with_responses(1);
            w.refuses = true;
        },
        near_miss: |w| *w = TrialWorld::with_responses(1),
        near_miss_severity: None,
    },
    Case {
        code: Code::Refusals,
        severity: Severity::Info,
        message: "All connections were refused, 3.0 per second. This is expected",
        evidence: r#"{"refused": 3}"#,
        trigger: |w| {
            *w = TrialWorld::with_responses(0);
            w.refuses = true;
            w.add_outcomes(3, Outcome::ConnectRefused);
        },
        near_miss: |w| {
            *w = TrialWorld::with_responses(0);
            w.refuses = true;
            w.add_outcomes(3, Outcome::ConnectRefused);
            w.add_outcomes(1, Outcome::Reset);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::NoCorrectResponse,
        severity: Severity::Invalid,
        message: "No request got a correct response. Most ended as reset, 3.0 per second.",
        evidence: "{}",
        trigger: |w| {
            *w = TrialWorld::with_responses(0);
            w.add_outcomes(2, Outcome::Timeout);
            w.add_outcomes(3, Outcome::Reset);
            w.add_outcomes(1, Outcome::ClosedEarly);
        },
        near_miss: |w| {
            *w = TrialWorld::with_responses(0);
            w.add_outcomes(3, Outcome::Reset);
            w.add_outcomes(1, Outcome::Ok);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::NoCorrectResponse,
        severity: Severity::Invalid,
        message: "No request got a response in the measured window.",
        evidence: "{}",
        trigger: |w| *w = TrialWorld::with_responses(0),
        near_miss: |w| *w = TrialWorld::with_responses(1),
        near_miss_severity: None,
    },
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        message: "1.0 % of the due requests got no response (101 closed_early).",
        evidence: r#"{"failed": 101, "lost": 101, "share": 0.0101}"#,
        trigger: |w| {
            *w = TrialWorld::with_responses(9899);
            w.add_outcomes(101, Outcome::ClosedEarly);
        },
        near_miss: |w| {
            *w = TrialWorld::with_responses(9900);
            w.add_outcomes(100, Outcome::ClosedEarly);
        },
        near_miss_severity: Some(Severity::Warning),
    },
    Case {
        code: Code::Errors,
        severity: Severity::Warning,
        message: "0.1 % of the due requests got no response (1 timeout).",
        evidence: r#"{"failed": 1, "lost": 1, "share": 0.001}"#,
        trigger: |w| {
            *w = TrialWorld::with_responses(999);
            w.add_outcomes(1, Outcome::Timeout);
        },
        near_miss: |w| w.add_outcomes(1, Outcome::UnexpectedStatus),
        near_miss_severity: None,
    },
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        message: "1.1 % of the due requests got no response (11 dropped).",
        evidence: r#"{"failed": 0, "lost": 11, "share": 0.011}"#,
        trigger: |w| {
            *w = TrialWorld::with_responses(989);
            w.drop_requests(11);
        },
        near_miss: |w| {
            *w = TrialWorld::with_responses(990);
            w.drop_requests(10);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        message: "1.1 % of the due requests got no response (11 in flight at the end).",
        evidence: r#"{"failed": 0, "lost": 11, "share": 0.011}"#,
        trigger: |w| {
            *w = TrialWorld::with_responses(989);
            w.leave_in_flight(11);
        },
        near_miss: |w| {
            *w = TrialWorld::with_responses(990);
            w.leave_in_flight(10);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        message: "100 % of the due requests got no response (1 reset).",
        evidence: r#"{"share": 1.0}"#,
        trigger: |w| {
            *w = TrialWorld::with_responses(0);
            w.add_outcomes(1, Outcome::Reset);
        },
        near_miss: |w| *w = TrialWorld::with_responses(0),
        near_miss_severity: None,
    },
    // Requests that were carried in are due too.
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        message: "1.1 % of",
        evidence: r#"{"share": 0.011}"#,
        trigger: |w| {
            *w = TrialWorld::with_responses(989);
            w.drop_requests(11);
            set_carried_in(w, 100);
        },
        near_miss: |w| {
            *w = TrialWorld::with_responses(990);
            w.drop_requests(10);
            set_carried_in(w, 100);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::Errors,
        severity: Severity::Invalid,
        message: "(4 reset, 3 cancelled, 6 in flight at the end, 7 dropped). TLS: 2 \
                  bad_certificate, 1 eof.",
        evidence: r#"{"failed": 7, "lost": 20, "share": 0.02}"#,
        trigger: |w| {
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
        near_miss: |w| w.record.tls = Some(TlsUse::default()),
        near_miss_severity: None,
    },
    Case {
        code: Code::Errors,
        severity: Severity::Warning,
        message: "(1 address_exhausted). No local port was left to connect from",
        evidence: r#"{"failed": 1}"#,
        trigger: |w| w.add_outcomes(1, Outcome::AddressExhausted),
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::Unanswered,
        severity: Severity::Warning,
        message: "1 requests had no response at the end.",
        evidence: r#"{"in_flight_at_end": 1}"#,
        trigger: |w| w.leave_in_flight(1),
        near_miss: |w| w.drop_requests(1),
        near_miss_severity: None,
    },
    Case {
        code: Code::Dropped,
        severity: Severity::Warning,
        message: "1 requests were dropped,",
        evidence: r#"{"dropped": 1}"#,
        trigger: |w| w.drop_requests(1),
        near_miss: |w| w.leave_in_flight(1),
        near_miss_severity: None,
    },
];

/// Makes `n` of the due requests carried in.
fn set_carried_in(w: &mut TrialWorld, n: u64) {
    w.record.books.carried_in = n;
    w.record.books.scheduled -= n;
}
