//! Too few requests were in flight to keep server or generator busy.

#[cfg(test)]
mod cases;

use dyno_model::plan::LoadModel;
use serde_json::json;

use super::idle::{
    MANY_IN_FLIGHT, has_nearly_full_thread, idle_evidence, utilisation_with_headroom,
};
use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::load::LoadResult;
use crate::number_format::percent;
use crate::server::ServerUse;
use crate::verdict::conditions::is_disturbed;
use crate::verdict::polling::{
    POLLS, highest_utilisation, idle_calls, polling_evidence, switches_per_response,
};
use crate::verdict::waits::{ThreadWait, TimedWaits, are_queues_excluded};

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "too few in flight",
    refutation: "Refuted if throughput does not grow with more requests in flight.",
    queue: None,
    curve: CurveRule::Idle,
};

/// Number of requests in flight below which a server in a closed loop is expected to be idle at
/// times.
const FEW_IN_FLIGHT: f64 = 32.0;

/// Number of requests in flight up to which hardly any request waits for another request.
const HARDLY_ANY_IN_FLIGHT: f64 = 1.5;

/// The wait of the server's threads for a CPU may be the limit if it takes at least this share of
/// the response times.
const CPU_WAIT_SHARE: f64 = 0.25;

/// Server and generator have headroom, and few requests are in flight.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    let used = utilisation_with_headroom(load, server)?;
    let are_few = load.mean_at_server() < MANY_IN_FLIGHT;
    (load.config.model == LoadModel::Closed && are_few).then(|| {
        let round_trip = load.response_time_us.mean.unwrap_or(0.0);
        let sentence = format!(
            "Too few requests in flight: {:.0} on average, and each takes {round_trip:.0} µs. The \
             server used {} of its CPU.",
            load.in_flight.mean,
            percent(used)
        );
        // With few requests in flight, a closed loop must leave a server idle. With more, another
        // cause may be hidden: a lock that is held for 15 µs delays 16 requests by only 240 µs. If
        // threads ended before their counters were read, the rules for threads, locks and disks
        // could not apply.
        let is_likely = load.in_flight.mean < FEW_IN_FLIGHT && server.unread_counters.is_none();
        let has_no_queue =
            load.in_flight.mean <= HARDLY_ANY_IN_FLIGHT || are_queues_excluded(server);
        let is_sure = has_no_queue
            && is_quick(load, server)
            && !is_disturbed(load, server)
            && !has_nearly_full_thread(server)
            && !waits_for_cpus(load, server);
        let confidence = match is_likely {
            true if is_sure => Confidence::High,
            true => Confidence::Medium,
            false => Confidence::Low,
        };
        Limiter::new(Resource::Concurrency, confidence, sentence, idle_evidence(load, used))
    })
}

/// Longest network round trip of a request without any queue, microseconds. It allows for two
/// wake-ups of a virtual machine's sleeping CPU on each side.
const ROUND_TRIP_US: f64 = 300.0;

/// A request that does not wait takes at most this many times its CPU time in the server, in
/// addition to the round trip.
const CPU_TIME_MULTIPLE: f64 = 2.0;

/// Whether requests take little longer than their CPU time in the server and a round trip. Such
/// requests do not wait long, neither for each other nor for a resource that serves one at a time.
fn is_quick(load: &LoadResult, server: &ServerUse) -> bool {
    let mean_us = load.response_time_us.mean;
    let quick_us =
        server.cpu_us_per_request.map(|cpu_us| CPU_TIME_MULTIPLE * cpu_us + ROUND_TRIP_US);
    mean_us.zip(quick_us).is_some_and(|(mean_us, quick_us)| mean_us <= quick_us)
}

/// Whether requests wait for the server's CPUs for much of their time, or the wait is unknown. An
/// idle server may wait for CPUs if it bound itself to fewer CPUs than dyno knows.
fn waits_for_cpus(load: &LoadResult, server: &ServerUse) -> bool {
    // The sum of the response times of all requests.
    let response_times_s = load.in_flight.mean * server.window_s;
    server.run_delay_s.is_none_or(|waited_s| waited_s >= CPU_WAIT_SHARE * response_times_s)
}

/// A server that polls in a closed loop is not at its limit: too few requests are in flight.
pub(super) fn polling(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    let polling =
        polling_evidence(load, server).filter(|_| load.config.model == LoadModel::Closed)?;
    let used = highest_utilisation(server)?;
    let sentence = format!(
        "Too few requests in flight: the server used {} of its CPU.{POLLS} {}",
        percent(used),
        polling.observation()
    );
    let evidence = json!({
        "cpu_utilisation": server.cpu_utilisation,
        "idle_polls_per_response": server.calls.as_ref().and_then(idle_calls),
        "voluntary_switches_per_response": switches_per_response(load, server),
        "in_flight": load.in_flight.mean,
        "idle_cpus": server.without_requests.cpus(),
    });
    Some(Limiter::new(Resource::Concurrency, Confidence::Medium, sentence, evidence))
}

/// The serving threads sleep in requests, but each request has a thread. The server would therefore
/// serve more requests in flight.
pub(super) fn sleep(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    let wait = ThreadWait::from_sleep(load, server).filter(|wait| !wait.has_waiting_requests())?;
    if load.config.model != LoadModel::Closed {
        return None;
    }
    let sentence =
        format!("Too few requests in flight: each waits for a timer. The server's {wait} slept");
    // If requests both sleep and wait for other threads, a request may sleep while it holds a lock.
    let confidence = match TimedWaits::from_use(server) {
        TimedWaits::OncePerResponse => Confidence::Low,
        TimedWaits::Most | TimedWaits::Few => Confidence::Medium,
    };
    Some(wait.limiter(Resource::Concurrency, confidence, &sentence, ""))
}
