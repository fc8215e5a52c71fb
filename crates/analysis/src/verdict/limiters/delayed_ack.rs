//! Nagle's algorithm waits for acknowledgements that are delayed.

#[cfg(test)]
mod cases;

use std::ops::RangeInclusive;

use dyno_model::plan::LoadModel;
use serde_json::json;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::server::ServerUse;
use crate::verdict::polling::idle_waits;
use crate::verdict::waits::{
    SEVERAL_WRITES, SLEEPS_PER_RESPONSE, TimedWaits, may_requests_sleep, utilisation_below_limit,
};

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "delayed acknowledgements",
    refutation: "Refuted if response times stay at 40 ms with TCP_NODELAY set.",
    queue: None,
    curve: CurveRule::Kept,
};

/// Range of response times that a delayed acknowledgement causes, microseconds. Linux delays an
/// acknowledgement by at least 40 ms, and the response comes a little after it.
const DELAYED_ACK_US: RangeInclusive<f64> = 38_000.0..=60_000.0;

/// Range of responses per connection and second if each waits for a delayed acknowledgement.
const DELAYED_ACK_RATE: RangeInclusive<f64> = 16.0..=26.0;

/// Responses may wait for delayed acknowledgements if at least this many acknowledgements per
/// response are delayed.
const DELAYED_ACKS_PER_RESPONSE: f64 = 0.5;

/// The server may also write to a back end if its writes per response exceed the TCP segments per
/// response by at least this number.
const OTHER_WRITES: f64 = 0.5;

/// Nagle's algorithm at the server waits for an acknowledgement that the client delays. The server
/// writes each response in parts, and the second part waits for 40 ms (RFC 896, RFC 1122 4.2.3.2).
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    utilisation_below_limit(server)?;
    // With few responses no percentile is known.
    let service_us = load.service_time_us.p50.or(load.service_time_us.mean)?;
    let rate = load.throughput_rps / f64::from(load.config.connections.max(1));
    let has_one_request_per_connection = load.config.model == LoadModel::Closed
        && load.config.streams == 1
        && load.config.pipeline == 1;
    let shows_delay = has_one_request_per_connection
        && DELAYED_ACK_US.contains(&service_us)
        && DELAYED_ACK_RATE.contains(&rate);
    let writes =
        server.calls.as_ref().and_then(|calls| calls.writes).map(|writes| writes.per_response);
    let nodelay = server.sockets.as_ref().and_then(|sockets| sockets.nodelay);
    let segments = load.tcp.data_segments_per_response;
    let may_be_several = |n: Option<f64>| n.is_none_or(|n| n >= SEVERAL_WRITES);
    // With TCP_NODELAY, or if a response leaves in one part, no write waits for an acknowledgement.
    let has_nodelay = nodelay.is_some_and(|share| share > 0.5);
    if !shows_delay || has_nodelay || !may_be_several(writes) || !may_be_several(segments) {
        return None;
    }
    let responses = load.throughput_rps * server.window_s;
    let delayed_acks = server
        .network
        .and_then(|network| network.delayed_acks)
        .map(|acks| acks as f64 / responses)
        .filter(|acks| acks.is_finite());
    // A server that queries a service between two writes of a response can show the same times and
    // acknowledgements.
    let is_sure = nodelay.is_some()
        && delayed_acks.is_some_and(|acks| acks >= DELAYED_ACKS_PER_RESPONSE)
        && writes.zip(segments).is_some_and(|(writes, parts)| writes < parts + OTHER_WRITES)
        && !may_spend_time(server, service_us - *DELAYED_ACK_US.start());
    let confidence = if is_sure { Confidence::High } else { Confidence::Medium };
    let writes_text = writes.map_or(String::new(), |n| format!(", each in {n:.1} writes"));
    let sentence = format!(
        "Nagle's algorithm and delayed acknowledgements: each connection gets {rate:.0} responses \
         per second{writes_text}. Half of the responses take {:.0} ms or more, about the time for \
         which Linux delays an acknowledgement. Set TCP_NODELAY in the server, or send each \
         response in one write.",
        service_us / 1e3
    );
    let evidence = json!({
        "service_p50_us": service_us, "rate_per_connection": rate,
        "writes_per_response": writes, "segments_per_response": segments, "nodelay": nodelay,
        "delayed_acks_per_response": delayed_acks,
    });
    Some(Limiter::new(Resource::DelayedAck, confidence, sentence, evidence))
}

/// Whether a response may take the server longer than this time, because the server sleeps, waits
/// for a timer, or computes for that long. An unknown counter excludes none of the three.
fn may_spend_time(server: &ServerUse, time_us: f64) -> bool {
    let Some(calls) = server.calls.as_ref().filter(|calls| calls.has_results()) else {
        return true;
    };
    may_requests_sleep(server) != Some(false)
        || TimedWaits::from_use(server) != TimedWaits::Few
        || idle_waits(calls).is_some_and(|waits| waits >= SLEEPS_PER_RESPONSE)
        || server.cpu_us_per_request.is_none_or(|cpu_us| cpu_us > time_us)
}
