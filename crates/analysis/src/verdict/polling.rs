//! Servers that poll: they ask again and again whether there is something to do, so that their CPU
//! is full at any load.

use dyno_archive::plan::LoadModel;
use dyno_archive::syscall::{Amount, amount};
use serde_json::json;

use super::limiter::{Limiter, verdict};
use super::resource::{Confidence, Resource};
use super::thresholds::{SERVER_BUSY, SERVER_FULL};
use crate::load::LoadResult;
use crate::number_format::percent;
use crate::server::{Call, CallRates, ServerUse};

/// Calls per response that asked for something to do and got nothing, from which on a server polls:
/// one that reads until nothing is left asks once too often.
const MANY_IDLE_CALLS: f64 = 3.0;

/// Requests in flight, on average, below which a server has none for more than half of the time.
const NO_REQUEST: f64 = 0.4;

/// Requests in flight up to which a server has nothing to do between a response and the next
/// request.
const ONE_REQUEST: f64 = 1.1;

/// Voluntary context switches per response below which hardly a thread slept. One that waits for
/// the next request sleeps once per response.
const NO_SLEEP: f64 = 0.1;

/// Evidence that a server uses its CPU without a request that needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Polling {
    /// The server asked for work and got none.
    IdleCalls { per_response: f64 },
    /// The server computed while no request was there.
    WithoutRequest { in_flight: f64 },
    /// The server did not sleep between two requests.
    WithoutSleep { switches_per_response: f64 },
}

impl Polling {
    /// Returns the second half of a sentence about the server.
    pub(super) fn clause(self) -> String {
        match self {
            Polling::IdleCalls { per_response } => {
                format!("{per_response:.0} calls per response asked for work and found none")
            }
            Polling::WithoutRequest { in_flight } => {
                format!(
                    "it used CPU time although only {in_flight:.2} requests were in flight on \
                     average"
                )
            }
            Polling::WithoutSleep { switches_per_response } => format!(
                "its threads slept {switches_per_response:.2} times per response, and a thread \
                 that waits for each request sleeps once"
            ),
        }
    }
}

/// Returns the evidence that the server polls. `None`: its CPU is not full, or requests may need
/// it.
pub(super) fn polls(load: &LoadResult, server: &ServerUse) -> Option<Polling> {
    busiest(server).filter(|used| *used >= SERVER_BUSY)?;
    let idle_calls = server.calls.as_ref().and_then(idle_calls);
    let in_flight = load.in_flight.mean;
    if let Some(per_response) = idle_calls.filter(|n| *n >= MANY_IDLE_CALLS) {
        return Some(Polling::IdleCalls { per_response });
    }
    if in_flight < NO_REQUEST && load.throughput_rps > 0.0 {
        return Some(Polling::WithoutRequest { in_flight });
    }
    let switches_per_response = sleeps_per_response(load, server)?;
    let is_alone = load.config.model == LoadModel::Closed && in_flight <= ONE_REQUEST;
    (is_alone && switches_per_response < NO_SLEEP)
        .then_some(Polling::WithoutSleep { switches_per_response })
}

/// The share of its CPU that the server used, or of one CPU that its busiest thread used, whichever
/// is higher.
fn busiest(server: &ServerUse) -> Option<f64> {
    [server.cpu_utilisation, server.busiest_thread_utilisation]
        .into_iter()
        .flatten()
        .reduce(f64::max)
}

/// Voluntary context switches per response. `None`: not known.
fn sleeps_per_response(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    let responses = load.throughput_rps * server.window_s;
    let is_complete = server.unread_counters.is_none() && responses > 0.0;
    let switches = server.context_switches_voluntary.filter(|_| is_complete)?;
    Some(switches as f64 / responses)
}

/// Calls per response that asked for something to do and got nothing: waits for events that
/// returned none, and reads that had to be tried again. `None`: what they returned is not known.
fn idle_calls(calls: &CallRates) -> Option<f64> {
    let idle = |(name, call): (&String, &Call)| match amount(name)? {
        Amount::Events => idle_waits_of(name, call),
        Amount::Read => Some(call.again? as f64 / call.count as f64 * call.per_response),
        _ => None,
    };
    calls.by_name.iter().filter_map(idle).reduce(|a, b| a + b)
}

/// Waits for events per response that returned none: they polled, or their time was over. `None`:
/// what they returned is not known.
pub(super) fn idle_waits(calls: &CallRates) -> Option<f64> {
    let idle = |(name, call): (&String, &Call)| match amount(name)? {
        Amount::Events => idle_waits_of(name, call),
        _ => None,
    };
    calls.by_name.iter().filter_map(idle).reduce(|a, b| a + b)
}

fn idle_waits_of(name: &str, call: &Call) -> Option<f64> {
    // It returns what it submitted, which is nothing where it only waits.
    if name == "io_uring_enter" {
        return None;
    }
    // Each wait that returned something returned at least one event.
    Some(call.per_response * (1.0 - call.returned_mean?.min(1.0)))
}

/// Whether a server fills its CPUs because it needs them.
pub(super) fn is_full(load: &LoadResult, server: &ServerUse) -> bool {
    server.cpu_utilisation.is_some_and(|used| used >= SERVER_FULL) && polls(load, server).is_none()
}

/// A server that asks again and again whether there is something to do fills its CPU at any load.
pub(super) fn polling(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let how = polls(load, server).filter(|_| load.config.model == LoadModel::Closed)?;
    let used = busiest(server)?;
    let sentence = format!(
        "Too few requests in flight: the server used {} of its CPU, but it polls: {}.",
        percent(used),
        how.clause()
    );
    let evidence = json!({
        "cpu_utilisation": server.cpu_utilisation,
        "idle_polls_per_response": server.calls.as_ref().and_then(idle_calls),
        "voluntary_switches_per_response": sleeps_per_response(load, server),
        "in_flight": load.in_flight.mean,
    });
    verdict(Resource::Concurrency, Confidence::Medium, sentence, evidence)
}
