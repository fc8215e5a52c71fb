//! Derives the caveats of controls that should refuse all connections (`refuses = true`). Such a
//! control shows how fast the generator handles refused connections.

use dyno_model::load::Connections;
use dyno_model::outcome::Outcome;
use dyno_model::plan::Reconnect;
use dyno_model::start::PartStart;
use dyno_model::{LoadRecord, Phase};
use serde_json::json;

use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;
use crate::load::offered::rate_text;
use crate::number_format::{plural, was};
use crate::verdict::{Context, has_refusals};

/// End of a sentence about responses or connections on the port of a control that should refuse.
const ON_CLOSED_PORT: &str =
    "on a port where no server should listen. Find the process with `ss -tlnp`.";

/// A server that does not belong to the run responded in the warm-up of a refusing control's start.
pub(super) fn warmup_responses(load: &LoadResult, part: Option<&PartStart>) -> Option<Caveat> {
    if !has_refusals(&load.caveats) {
        return None;
    }
    let responses = part?.warmup.as_ref()?.correct_responses;
    (responses > 0).then(|| {
        let message = format!(
            "In the warm-up before the first step, {} got a response {ON_CLOSED_PORT}",
            plural(responses, "request")
        );
        let evidence = json!({"answers_in_start": responses});
        Caveat::new(Code::INCORRECT_RESPONSES, Severity::Invalid, message, evidence)
    })
}

/// All connections were refused, as intended.
pub(super) fn refusals(
    result: &LoadResult,
    record: &LoadRecord,
    context: &Context<'_>,
) -> Option<Caveat> {
    is_as_intended(result, record, context).then(|| {
        let refused = result.outcomes.get(Outcome::ConnectRefused);
        let waiting = result.exchanges.in_flight_at_end + result.exchanges.dropped;
        let waiting_text = match (waiting, result.config.reconnect) {
            (0, _) => String::new(),
            (n, Reconnect::Backoff) => format!(
                " Because dyno pauses between attempts to connect (`reconnect = \"backoff\"`), {} \
                 {} still waiting for an attempt at the end.",
                plural(n, "request"),
                was(n)
            ),
            (n, Reconnect::AtOnce) => format!(
                " {} {} still waiting for an attempt to connect at the end, because dyno cannot \
                 try as often as requests are scheduled.",
                plural(n, "request"),
                was(n)
            ),
        };
        let message = format!(
            "All connections were refused ({} per second). This is expected: this subject is a \
             control, and no server listens on its port.{waiting_text}",
            rate_text(refused_in(record, |phase| phase == Phase::Measured) / result.duration_s)
        );
        let evidence = json!({"refused": refused, "waiting": waiting});
        Caveat::new(Code::REFUSALS, Severity::Info, message, evidence)
    })
}

/// Whether all connections of a load, from its warm-up on, were refused by a control that should
/// refuse them.
fn is_as_intended(result: &LoadResult, record: &LoadRecord, context: &Context<'_>) -> bool {
    if !context.refuses || result.connections.opened > 0 {
        return false;
    }
    let outcomes = &result.outcomes;
    let refused_name = Outcome::ConnectRefused.name();
    let has_refusals = match result.exchanges.due() {
        // The connections were refused although the window had no request.
        0 => record.connection_failures.contains_key(refused_name),
        // Requests wait for an attempt to connect in the order in which they were scheduled. All
        // attempts in the window can therefore belong to requests of the warm-up, which count too.
        _ => refused_in(record, |phase| phase != Phase::Warmup) > 0.0,
    };
    let are_all_requests_refused = outcomes.total() == outcomes.get(Outcome::ConnectRefused);
    let are_all_connections_refused =
        record.connection_failures.keys().all(|name| name == refused_name);
    has_refusals && are_all_requests_refused && are_all_connections_refused
}

/// Returns the number of requests that were refused in these phases. Requests that were scheduled
/// in an earlier phase (`carried`) are included.
fn refused_in(record: &LoadRecord, is_counted: impl Fn(Phase) -> bool) -> f64 {
    let intervals = record.intervals.iter().filter(|interval| is_counted(interval.phase));
    let refused = intervals.map(|interval| {
        interval
            .all_outcomes()
            .map(|outcomes| outcomes.get(Outcome::ConnectRefused))
            .iter()
            .sum::<u64>()
    });
    refused.sum::<u64>() as f64
}

/// A server that does not belong to the run accepted connections on the port of a control that
/// should refuse them, or sent responses.
pub(super) fn accepted_connections(result: &LoadResult, context: &Context<'_>) -> Option<Caveat> {
    let responses = result.outcomes.get(Outcome::Ok);
    let Connections { opened, .. } = result.connections;
    let observation = match (responses, opened) {
        (0, 0) => return None,
        (0, n) => format!("{} {} accepted", plural(n, "connection"), was(n)),
        (n, _) => format!("{} got a response", plural(n, "request")),
    };
    context.refuses.then(|| {
        let message = format!("{observation} {ON_CLOSED_PORT}");
        let evidence = json!({"answers": responses, "opened": opened});
        Caveat::new(Code::INCORRECT_RESPONSES, Severity::Invalid, message, evidence)
    })
}

/// Describes the most frequent failure, other than a refusal, of connections to a control that
/// should refuse them. `None`: there was no other failure, or the server is no such control.
pub(super) fn other_failures(result: &LoadResult, context: &Context<'_>) -> Option<String> {
    if !context.refuses {
        return None;
    }
    let is_other = |(name, _): &(&String, &u64)| *name != Outcome::ConnectRefused.name();
    let others = result.connection_failures.iter().filter(is_other);
    let (name, n) = others.max_by_key(|(_, n)| **n)?;
    Some(format!(
        "This control should refuse all connections, but {n} ended as {name}. Check the port with \
         curl, and check the firewall's rules."
    ))
}
