//! Connections wait in the server's accept queue.

#[cfg(test)]
mod cases;

use serde_json::json;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::load::LoadResult;
use crate::number_format::{percent, plural, was};
use crate::server::ServerUse;
use crate::verdict::conditions::may_have_found_queue_full;
use crate::verdict::thresholds::SERVER_BUSY;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "its accept queue",
    refutation: "Refuted if throughput stays the same with a longer backlog, or with keep-alive \
                 connections.",
    queue: None,
    curve: CurveRule::Kept,
};

/// Minimum share of new connections that must find the accept queue full to limit a load.
const OVERFLOW_SHARE: f64 = 0.001;

/// The accept queue limits a load if it contains connections of at least this share of the requests
/// in flight.
const QUEUED_SHARE: f64 = 0.5;

/// New connections wait in the server's accept queue, or find it full and are retried a second
/// later.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    let used = server.cpu_utilisation;
    if used.is_some_and(|used| used >= SERVER_BUSY) {
        return None;
    }
    // The queue limits only a load that opens connections all the time: as planned, or because the
    // server closes connections after one or two responses.
    let replaced = load.connections.opened.saturating_sub(load.config.connections.into());
    let are_closed_by_server = replaced > 0 && 2 * replaced >= load.exchanges.completed;
    if load.config.requests_per_connection.is_none() && !are_closed_by_server {
        return None;
    }
    let are_many = |n: &u64| *n > 0 && *n as f64 >= OVERFLOW_SHARE * load.connections.opened as f64;
    let overflows = server
        .network
        .and_then(|network| network.listen_overflows)
        .filter(|n| are_many(n) && may_have_found_queue_full(load));
    let queued = queued_connections(load, server);
    let observation = match (overflows, queued) {
        (Some(overflows), _) => {
            format!(
                "{} found the queue full, and {} retried after a second",
                plural(overflows, "connection"),
                was(overflows)
            )
        }
        (None, Some(queued)) => {
            format!(
                "{queued} connections waited in the queue, with {:.0} requests in flight",
                load.in_flight.mean
            )
        }
        (None, None) => return None,
    };
    let sentence = format!(
        "The server's accept queue: {observation}{}. Let the server listen with a longer backlog \
         (net.core.somaxconn caps it), or accept faster.",
        used.map_or(String::new(), |used| format!(
            ", while the server used {} of its CPU",
            percent(used)
        ))
    );
    // A full CPU would explain the queue, and is excluded only if the utilisation is known.
    let confidence = if used.is_some() { Confidence::Medium } else { Confidence::Low };
    let evidence = json!({"listen_overflows": overflows, "queued": queued});
    Some(Limiter::new(Resource::AcceptQueue, confidence, sentence, evidence))
}

/// Returns the number of connections in full accept queues when the sockets were sampled. `None`:
/// the number is unknown, or less than half of the requests in flight. A queue that is not full
/// only shows that the server accepts when it is ready for a connection.
fn queued_connections(load: &LoadResult, server: &ServerUse) -> Option<u64> {
    let listeners = &server.sockets.as_ref()?.listeners;
    let full = listeners.iter().filter(|listener| listener.queued >= listener.backlog);
    let queued: u64 = full.map(|listener| listener.queued).sum();
    (queued > 1 && queued as f64 >= QUEUED_SHARE * load.in_flight.mean).then_some(queued)
}
