//! Checks before a load that the server's responses are correct. Without these checks, a load with
//! a problem would fail only at its end.

use dyno_analysis::drops::{self, DropExplanation};
use dyno_engine::SpinPolicy;
use dyno_generator::{LoadRequests, LoadSpec, Sharing, StopWhen, Watch, run};
use dyno_model::plan::{Arrivals, Load, Step};
use dyno_model::{Interval, LoadRecord, Outcome};

use crate::drops::DropWatch;

/// Fully checks one response to each request. The load itself fully checks only a sample of the
/// responses. `Err`: a response is incorrect or missing.
pub fn preflight(spec: &LoadSpec) -> Result<(), Mismatch> {
    if spec.requests.is_sequence() {
        return spec.requests.test_visit().map_or(Ok(()), |visit| try_visit(spec, visit));
    }
    for (i, request) in spec.requests.tests() {
        let watch = DropWatch::begin();
        let record = run(&single_requests(spec, request, 1), &mut StopWhen(|| false))
            .map_err(|message| Mismatch { has_response: false, message })?;
        let outcome = record.intervals.iter().flat_map(|i| i.outcomes.iter()).find(|(_, n)| *n > 0);
        let (outcome, reason) = match outcome {
            Some((Outcome::Ok, _)) => continue,
            Some((outcome, _)) => {
                (outcome.name(), record.unexpected.keys().next().map(String::as_str))
            }
            None => ("unanswered", None),
        };
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        let message = mismatch_text(i + 1, &format!("{outcome}{reason}"), dropped(&record, watch));
        return Err(Mismatch { has_response: record.books.completed > 0, message });
    }
    Ok(())
}

/// Sends the requests of one visit, and fully checks each response. The requests of a sequence need
/// the responses before them, so they cannot be tried alone. `Err`: a response is incorrect or
/// missing.
fn try_visit(spec: &LoadSpec, visit: LoadRequests) -> Result<(), Mismatch> {
    let length = visit.traffic().requests().len();
    let watch = DropWatch::begin();
    let record = run(&single_requests(spec, visit, length as u64), &mut StopWhen(|| false))
        .map_err(|message| Mismatch { has_response: false, message })?;
    let ok: u64 = record.intervals.iter().map(|i| i.outcomes.get(Outcome::Ok)).sum();
    if ok == length as u64 {
        return Ok(());
    }
    // The trial ends with its first failure, so there is only one. If nothing failed, it is the
    // request that never ended.
    let has_failed = |index: &usize| {
        let share = |i: &Interval| {
            let share = i.by_request.get(*index)?;
            Some(share.outcomes.total() - share.outcomes.get(Outcome::Ok) + share.never_ended)
        };
        record.intervals.iter().filter_map(share).sum::<u64>() > 0
    };
    let failed = (0..length).find(has_failed).unwrap_or(0);
    let shares = record.intervals.iter().filter_map(|i| i.by_request.get(failed));
    let outcome = shares.flat_map(|share| share.outcomes.not_ok()).next();
    let name = outcome.map_or("unanswered", |(outcome, _)| outcome.name());
    let reason = record.unexpected.keys().next().map_or(String::new(), |text| format!(": {text}"));
    let message = mismatch_text(failed + 1, &format!("{name}{reason}"), dropped(&record, watch));
    Err(Mismatch { has_response: record.books.completed > 0, message })
}

/// Returns the packets that the machine dropped while a single request got no response in time.
/// `None`: the machine dropped nothing, or the server responded, closed or refused the connection.
fn dropped(record: &LoadRecord, watch: DropWatch) -> Option<DropExplanation> {
    is_silent(record.books.completed, &record.intervals)
        .then(|| watch.explanation_with(|| drops::connect_timeouts(record)))?
}

/// Returns whether a load of one request ended without any response, by a time-out or unfinished.
fn is_silent(completed: u64, intervals: &[Interval]) -> bool {
    let outcomes = || intervals.iter().flat_map(|interval| interval.outcomes.iter());
    let is_late = |outcome: Outcome| {
        outcome.is_timeout() || matches!(outcome, Outcome::ConnectTimeout | Outcome::Cancelled)
    };
    completed == 0 && outcomes().all(|(outcome, n)| n == 0 || is_late(outcome))
}

/// Returns the message for a test request without a correct response. `dropped`: packets that the
/// machine dropped while the request got no response.
fn mismatch_text(number: usize, outcome: &str, dropped: Option<DropExplanation>) -> String {
    let problem = format!(
        "request {number}: no correct response to a test request before the load ({outcome})"
    );
    match dropped {
        Some(DropExplanation { causes, remedies }) => format!(
            "{problem}. The machine dropped packets during the request: {causes}. The server may \
             not be the cause\nhint: {remedies}"
        ),
        None => format!("{problem}\nhint: fix the server or the expectation"),
    }
}

/// The response to a single request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SingleResponse {
    /// A complete response, with its time if it was correct.
    Complete { response_ns: Option<u64> },
    /// No response within the time-out.
    Missing,
    /// No response, because no local port was free for a connection.
    NoLocalPort,
    /// No response within the time-out, while the machine dropped packets.
    Dropped(DropExplanation),
}

/// Sends a single request outside of a load. `Err`: the request could not be sent.
pub fn request_once(spec: &LoadSpec, watch: &mut dyn Watch) -> Result<SingleResponse, String> {
    let drops = DropWatch::begin();
    let record = run(&single_requests(spec, spec.requests.clone(), 1), watch)?;
    let longest =
        record.intervals.iter().filter_map(|interval| interval.times.response.max()).max();
    let dropped = dropped(&record, drops);
    Ok(single_response(record.books.completed, &record.intervals, longest, dropped))
}

/// Returns the result of a load of one request.
fn single_response(
    completed: u64,
    intervals: &[Interval],
    response_ns: Option<u64>,
    dropped: Option<DropExplanation>,
) -> SingleResponse {
    let is_exhausted = |i: &Interval| i.outcomes.get(Outcome::AddressExhausted) > 0;
    if completed > 0 {
        SingleResponse::Complete { response_ns }
    } else if intervals.iter().any(is_exhausted) {
        SingleResponse::NoLocalPort
    } else {
        dropped.map_or(SingleResponse::Missing, SingleResponse::Dropped)
    }
}

/// Returns a load that sends `count` of these requests one after the other, and checks their
/// responses.
fn single_requests(spec: &LoadSpec, requests: LoadRequests, count: u64) -> LoadSpec {
    LoadSpec {
        requests,
        page_connections: None,
        load: Load {
            check_one_in: 1,
            ramp_connections_ns: None,
            warmup_ns: 0,
            duration_ns: 0,
            requests: Some(count),
            threads: 1,
            ..spec.load.clone()
        },
        step: Step { connections: 1, streams: 1, pipeline: 1, arrivals: Arrivals::Closed, pass: 1 },
        sharing: Sharing::Alone,
        spin: SpinPolicy::Never,
        ..spec.clone()
    }
}

/// Reason why a load is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Whether there was a complete but unexpected response.
    pub has_response: bool,
    pub message: String,
}

#[cfg(test)]
mod tests {
    use dyno_model::Phase;

    use super::*;

    #[test]
    fn single_response_names_missing_port() {
        let response = |outcome: Option<Outcome>| {
            let mut interval = Interval::new(Phase::Measured, 0, 1);
            outcome.into_iter().for_each(|outcome| interval.outcomes.count(outcome));
            single_response(0, &[interval], None, None)
        };
        assert_eq!(response(Some(Outcome::AddressExhausted)), SingleResponse::NoLocalPort);
        for outcome in [Some(Outcome::ConnectRefused), None] {
            assert_eq!(response(outcome), SingleResponse::Missing);
        }
        assert_eq!(
            single_response(0, &[], None, Some(drops())),
            SingleResponse::Dropped(drops()),
            "the server may work"
        );
    }

    fn drops() -> DropExplanation {
        DropExplanation {
            causes: "3 by connection tracking".into(),
            remedies: "Exempt loopback.".into(),
        }
    }

    #[test]
    fn mismatch_during_drops_names_machine_and_remedies() {
        let text = mismatch_text(1, "connect_timeout", Some(drops()));
        assert_eq!(
            text,
            "request 1: no correct response to a test request before the load (connect_timeout). \
             The machine dropped packets during the request: 3 by connection tracking. The server \
             may not be the cause\nhint: Exempt loopback."
        );
        let text = mismatch_text(2, "connect_refused", None);
        assert!(text.ends_with("(connect_refused)\nhint: fix the server or the expectation"));
    }

    #[test]
    fn only_silence_can_be_caused_by_drops() {
        let is_silent_after = |completed, outcome: Option<Outcome>| {
            let mut interval = Interval::new(Phase::Measured, 0, 1);
            outcome.into_iter().for_each(|outcome| interval.outcomes.count(outcome));
            is_silent(completed, &[interval])
        };
        for outcome in [None, Some(Outcome::ConnectTimeout), Some(Outcome::Timeout)] {
            assert!(is_silent_after(0, outcome), "{outcome:?}");
        }
        for outcome in [Outcome::ConnectRefused, Outcome::Reset, Outcome::ClosedEarly] {
            assert!(!is_silent_after(0, Some(outcome)), "{outcome:?}");
        }
        assert!(!is_silent_after(1, Some(Outcome::UnexpectedStatus)));
    }
}
