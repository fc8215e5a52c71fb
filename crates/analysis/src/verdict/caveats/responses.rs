//! Caveats about incorrect and missing responses, and about failures.

#[cfg(test)]
mod cases;
mod refusals;

use std::collections::BTreeSet;

use dyno_model::interval::EarlyResponses;
use dyno_model::outcome::Outcome;
use dyno_model::start::FailureKind;
use dyno_model::trial::CheckResult;
use dyno_model::{LoadRecord, Phase};
use serde_json::json;

use super::pauses;
use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;
use crate::load::offered::rate_text;
use crate::number_format::{percent, plural, was};
use crate::verdict::thresholds::MAX_LOST;
use crate::verdict::{Context, TrialContext};

caveats! {
    /// Some responses had an unexpected status, header or body.
    INCORRECT_RESPONSES = "wrong_answers" in Responses {
        reason: "responses were incorrect",
        properties: [ServerFault, FailsObjective],
        rules: [
            Load(|l| incorrect_responses(l.result)),
            Load(|l| refusals::accepted_connections(l.result, l.context)),
            Trial(|t| refusals::warmup_responses(t.load, t.context.part)),
        ],
    }

    /// No request got a correct response.
    NO_CORRECT_RESPONSE = "no_answers" in Responses {
        reason: "no request got a correct response",
        properties: [MissingResponses, FailsObjective, FollowsRefusals],
        rules: [Load(|l| no_correct_response(l.result, l.context))],
    }

    /// Every connection was refused, as expected of a control with `refuses = true`.
    REFUSALS = "refusals" in Responses {
        rules: [Load(|l| refusals::refusals(l.result, l.record, l.context))],
    }

    /// Some requests got no response. In percentiles they rank above every correct response. If
    /// more than 1 % of the window's requests got no response, the numbers must not be used.
    ERRORS = "errors" in Responses {
        reason: "too many requests failed",
        properties: [MissingResponses, FailsObjective, FollowsRefusals],
        rules: [Load(|l| errors(l.result))],
    }

    /// Some requests had no response at the end. In percentiles they rank above every correct
    /// response.
    UNANSWERED = "unanswered" in Responses {
        more: "times.md#percentiles",
        properties: [FollowsRefusals],
        rules: [Load(|l| in_flight_at_end(l.result))],
    }

    /// In a closed loop no response arrived for a long part of the window although requests were in
    /// flight. Requests that would have been sent during that time are missing from the response
    /// times.
    STALLED = "stalled" in Responses {
        more: "times.md#stalls-in-closed-loops",
        properties: [FollowsRefusals],
        rules: [Load(|l| pauses::server_stall(l.result, l.record))],
    }

    /// No response arrived for a tenth of the window or more, and requests failed during that time:
    /// the server was down or hung, or all requests in flight hung. The number of failed requests
    /// hides the outage, because few requests are sent to such a server.
    OUTAGE = "outage" in Responses {
        reason: "the server was down for a part of the window",
        more: "times.md#stalls-in-closed-loops",
        properties: [MissingResponses, FollowsRefusals],
        rules: [Load(|l| pauses::outage(l.result, l.record))],
    }

    /// Some responses were complete before their request had been sent in full. The server did not
    /// wait for the whole request.
    ANSWERED_EARLY = "answered_early" in Responses {
        reason: "the server responded before requests were sent in full",
        more: "validity.md#when-a-step-is-not-valid",
        properties: [ServerFault, FailsObjective],
        rules: [Load(|l| early_responses(l.result, l.record))],
    }

    /// The server sent bytes that belong to no request, so it is unknown to which requests its
    /// responses belong.
    UNSOLICITED = "unsolicited" in Responses {
        reason: "the server sent bytes that belong to no request",
        more: "validity.md#when-a-step-is-not-valid",
        properties: [ServerFault, FailsObjective],
        rules: [Load(|l| unsolicited_responses(l.result))],
    }

    /// Only some of the responses were checked in full. The message has their number.
    PARTLY_CHECKED = "partly_checked" in Responses {
        more: "validity.md#when-a-step-is-not-valid",
        rules: [Load(|l| partial_checks(l.result))],
    }

    /// The server failed during this step.
    SUBJECT_FAILED = "subject_failed" in Responses {
        reason: "the server failed",
        properties: [ServerFault, QuotesOthers],
        rules: [Load(|l| failure(l.record))],
    }

    /// A service that the server needs failed during the step.
    BACKEND_FAILED = "backend_failed" in Responses {
        reason: "a back end failed",
        properties: [OtherProgramFailed, OutsideCause, ExcusesLosses, QuotesOthers],
        // The rule of `subject_failed` finds it.
    }

    /// Contract checks failed while the load ran.
    CHECKS_FAILED = "checks_failed" in Responses {
        reason: "checks of the server's responses failed during the load",
        properties: [ServerFault, QuotesOthers],
        rules: [Load(|l| failed_checks(l.context))],
    }

    /// The server's contract was not checked after the load.
    UNCHECKED = "unchecked" in Responses {
        reason: "the server's responses were not checked again after the load",
        rules: [Trial(|t| t.context.lacks_final_check.then(unchecked))],
    }

    /// The server fails checks of its contract that its `subject.toml` allows to fail.
    CHECKS_WAIVED = "checks_waived" in Responses {
        rules: [Trial(|t| waived_checks(t.load, t.context))],
    }
}

/// Responses had an unexpected status, header or body, or lacked a value of a sequence.
fn incorrect_responses(result: &LoadResult) -> Option<Caveat> {
    let continued = |outcome| result.continued.as_ref().map_or(0, |all| all.get(outcome));
    let count = |outcome| result.outcomes.get(outcome) + continued(outcome);
    let status = count(Outcome::UnexpectedStatus);
    let header = count(Outcome::UnexpectedHeader);
    let body = count(Outcome::UnexpectedBody);
    let extraction = count(Outcome::ExtractionFailed);
    (status + header + body + extraction > 0).then(|| {
        let mut message = format!(
            "Incorrect responses: {status} with an unexpected status, {body} with an unexpected \
             body"
        );
        if header > 0 {
            message.push_str(&format!(", {header} with unexpected headers"));
        }
        if extraction > 0 {
            message.push_str(&format!(", {extraction} without a value that later requests need"));
        }
        message.push_str(
            ". The server did not do the requested work. Check one response with curl, then fix \
             the server or the expectation.",
        );
        let evidence = json!({
            "unexpected_status": status, "unexpected_header": header, "unexpected_body": body,
            "extraction_failed": extraction,
        });
        Caveat::new(Code::INCORRECT_RESPONSES, Severity::Invalid, message, evidence)
    })
}

pub(super) fn no_correct_response(result: &LoadResult, context: &Context<'_>) -> Option<Caveat> {
    (result.outcomes.get(Outcome::Ok) == 0).then(|| {
        let message =
            refusals::other_failures(result, context).unwrap_or_else(|| describe_failures(result));
        Caveat::new(Code::NO_CORRECT_RESPONSE, Severity::Invalid, message, json!({}))
    })
}

/// Describes how the requests of a load without a correct response ended.
fn describe_failures(result: &LoadResult) -> String {
    match leading_failure(result) {
        Some((failure, count)) if failure == Outcome::ConnectRefused.name() => format!(
            "No request got a correct response: {} {} refused. No server listens on that port. \
             Start the server, or check the address and the port.",
            plural(count, "connection"),
            was(count)
        ),
        Some((failure, count)) => format!(
            "No request got a correct response. The most frequent failure was {failure} ({} per \
             second).",
            rate_text(count as f64 / result.duration_s)
        ),
        None => "No request got a response in the measured window.".into(),
    }
}

/// Returns the most frequent failure and its count.
fn leading_failure(result: &LoadResult) -> Option<(&'static str, u64)> {
    result.outcomes.not_ok().max_by_key(|(_, n)| *n).map(|(outcome, n)| (outcome.name(), n))
}

/// Requests of the window got no response.
pub(super) fn errors(result: &LoadResult) -> Option<Caveat> {
    let exchanges = result.exchanges;
    let lost = exchanges.lost_count();
    let share = lost as f64 / exchanges.due().max(1) as f64;
    let is_reported = exchanges.failed > 0 || share > MAX_LOST;
    is_reported.then(|| {
        let without_outcome =
            [(exchanges.unanswered(), "in flight at the end"), (exchanges.dropped, "dropped")];
        let without_outcome = without_outcome
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, state)| format!("{n} {state}"));
        // Complete but incorrect responses have a separate caveat.
        let classes: Vec<String> = result
            .outcomes
            .not_ok()
            .filter(|(outcome, _)| !outcome.is_completed())
            .map(|(outcome, n)| format!("{n} {}", outcome.name()))
            .chain(without_outcome)
            .collect();
        let mut message = format!(
            "{} of the window's requests got no response ({}).",
            percent(share),
            classes.join(", ")
        );
        let severity = if share > MAX_LOST { Severity::Invalid } else { Severity::Warning };
        if let Some(tls) = result.tls.as_ref().filter(|tls| !tls.errors.is_empty()) {
            let kinds: Vec<String> =
                tls.errors.iter().map(|(name, n)| format!("{n} {name}")).collect();
            message.push_str(&format!(" TLS: {}.", kinds.join(", ")));
        }
        let evidence = json!({"failed": exchanges.failed, "lost": lost, "share": share});
        Caveat::new(Code::ERRORS, severity, message, evidence)
    })
}

/// Requests had no response at the end, although they had time for one. If the user ended the load
/// early, the requests that were cut off are not included.
fn in_flight_at_end(result: &LoadResult) -> Option<Caveat> {
    let n = result.exchanges.unanswered();
    (n > 0).then(|| {
        let message = format!(
            "{} had no response at the end of the load. Percentiles count a request without a \
             response as slower than every correct response. To see how these requests end, use a \
             lower load or a higher `--timeout`.",
            plural(n, "request")
        );
        Caveat::new(Code::UNANSWERED, Severity::Warning, message, json!({"in_flight_at_end": n}))
    })
}

/// Responses were complete before the server can have read the whole request.
fn early_responses(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let mut early = EarlyResponses::default();
    let after_warmup = record.intervals.iter().filter(|i| i.phase != Phase::Warmup);
    after_warmup
        .filter_map(|i| i.answered_early.as_ref())
        .for_each(|responses| early.add(responses));
    let completed = result.exchanges.completed;
    (early.responses > 0).then(|| {
        let unsent = early.unsent_bytes as f64 / early.responses as f64;
        let message = format!(
            "{} of {completed} responses were complete before dyno had sent their request in full. \
             On average, {unsent:.0} bytes of the request were not sent yet. The throughput is \
             therefore not a rate of complete uploads. Check that the server reads the body before \
             it responds, or send a smaller body.",
            early.responses
        );
        // A server may refuse a request (status 400 or above) after reading only its head. Older
        // archives do not count the early refusals, so all refusals are assumed to be early.
        let all_refusals: u64 = result.outcomes.statuses[3..].iter().sum();
        let refused = early.refusals.unwrap_or(all_refusals);
        let share = early.responses.saturating_sub(refused) as f64 / completed.max(1) as f64;
        let severity = if share > MAX_LOST { Severity::Invalid } else { Severity::Warning };
        let evidence = json!({
            "responses": early.responses, "unsent_bytes": early.unsent_bytes,
            "refusals": early.refusals, "completed": completed,
        });
        Caveat::new(Code::ANSWERED_EARLY, severity, message, evidence)
    })
}

fn unsolicited_responses(result: &LoadResult) -> Option<Caveat> {
    let n = result.connections.unsolicited;
    (n > 0).then(|| {
        let after = result.connections.unsolicited_after;
        let earlier = after.map_or_else(|| "earlier".into(), |after| format!("{after} earlier"));
        let message = format!(
            "On {}, the server sent bytes that belong to no request. dyno closed these \
             connections. It is unknown to which requests the {earlier} responses on these \
             connections belong. Check whether a response to HEAD has a body, whether the \
             Content-Length header is correct, and whether a response is sent twice.",
            plural(n, "connection")
        );
        let evidence = json!({"connections": n, "responses_before": after});
        Caveat::new(Code::UNSOLICITED, Severity::Invalid, message, evidence)
    })
}

fn partial_checks(result: &LoadResult) -> Option<Caveat> {
    let one_in = result.config.check_one_in.filter(|n| *n != 1)?;
    let completed = result.exchanges.completed;
    let checked = result.checked;
    let message = if one_in == 0 {
        "Expectations that need the whole response (such as headers or JSON) were checked only \
         before the load, and not during it."
            .into()
    } else {
        // In a mix, the number of responses with these expectations is unknown.
        let others = if result.config.requests_mixed.is_empty() {
            ""
        } else {
            " A response is checked in full only if its request has an expectation that needs the \
             whole response (such as headers or JSON)."
        };
        format!(
            "{checked} of {completed} responses were checked in full.{others} The status of all \
             responses was checked. If an exact body is expected, the body was also checked in all \
             responses without a content encoding. Use `--check-one-in 1` to check all responses \
             in full."
        )
    };
    let evidence = json!({"checked": checked, "completed": completed});
    Some(Caveat::new(Code::PARTLY_CHECKED, Severity::Info, message, evidence))
}

/// The server, a back end or the machine failed.
fn failure(record: &LoadRecord) -> Option<Caveat> {
    let failure = record.server_failure.as_ref()?;
    let (code, start) = if FailureKind::BackendFailed.is_prefix_of(failure) {
        (Code::BACKEND_FAILED, "The server")
    } else if FailureKind::Harness.is_prefix_of(failure) {
        (Code::MACHINE_FAILED, "The server")
    } else {
        (Code::SUBJECT_FAILED, "The server failed during this step:")
    };
    Some(Caveat::new(code, Severity::Invalid, format!("{start} {failure}."), json!({})))
}

fn failed_checks(context: &Context<'_>) -> Option<Caveat> {
    let failed: Vec<_> = context.checks.iter().filter(|c| !c.ok && !c.waived).collect();
    let first = failed.first()?;
    let message = format!(
        "{} of {} checks failed right before or during the load. The first failed check was {:?}: \
         {}",
        failed.len(),
        context.checks.len(),
        first.name,
        first.detail()
    );
    let names: Vec<&str> = failed.iter().map(|c| c.name.as_str()).collect();
    // An incorrect response shows incorrect work. A missing response may mean that the server is
    // overloaded.
    let severity =
        if failed.iter().any(|c| c.has_response) { Severity::Invalid } else { Severity::Warning };
    Some(Caveat::new(Code::CHECKS_FAILED, severity, message, json!({"failed": names})))
}

/// The caveat of a trial whose start ended before the final check of its contract.
fn unchecked() -> Caveat {
    let message = "The server's responses were not checked again after this step, because the run \
                   was interrupted, or a back end or the machine failed. It is unknown whether the \
                   responses were still correct. Use `dyno run --resume` to repeat the step. A \
                   step in which requests failed because of the server is kept as recorded.";
    Caveat::new(Code::UNCHECKED, Severity::Invalid, message.into(), json!({}))
}

/// The server fails checks that the subject's file waives. Every trial of such a server has the
/// caveat, because it is not comparable with servers that pass the check.
fn waived_checks(load: &LoadResult, inputs: &TrialContext<'_>) -> Option<Caveat> {
    let protocol = load.config.protocol;
    let checks_of_start = inputs
        .part
        .into_iter()
        .flat_map(|part| part.checks_before.iter().chain(&part.checks_after));
    // A check may get no response because the server is overloaded. It then does not count as
    // broken.
    let is_broken = |c: &&CheckResult| {
        c.waived && !c.ok && c.has_response && c.counted_protocols().contains(&protocol)
    };
    let waived = checks_of_start.chain(inputs.checks).filter(is_broken);
    let names: BTreeSet<&str> = waived.map(|check| check.name.as_str()).collect();
    let first = names.first()?;
    let more = match names.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let message = format!(
        "The server fails the check {first:?}{more}, and its subject.toml allows that. The \
         server's work therefore differs from that of the other servers."
    );
    Some(Caveat::new(Code::CHECKS_WAIVED, Severity::Warning, message, json!({"waived": names})))
}
