//! Detects servers that poll: they check for work in a loop instead of sleeping. The CPU of a
//! server that polls is full at any load, so a full CPU does not show that the CPU is the limit.

use std::collections::BTreeSet;

use dyno_model::plan::LoadModel;
use dyno_model::syscall::{Amount, returned_amount};

use super::thresholds::{SERVER_BUSY, SERVER_FULL, SERVER_IDLE};
use crate::load::LoadResult;
use crate::server::{Call, CallRates, ServerUse, WithoutRequests};
use crate::trial::TrialResult;

/// A server polls if it makes at least this many idle calls per response. A server that reads until
/// EAGAIN makes one idle call per response without polling.
const MANY_IDLE_CALLS: f64 = 3.0;

/// A server certainly polls if at least this share of its waits and reads find nothing. A read
/// until EAGAIN finds nothing in one of two reads, after a wait that found something.
const MOSTLY_IDLE: f64 = 0.75;

/// Mean requests in flight below which a server has no request for more than half of the time.
const NO_REQUEST: f64 = 0.4;

/// Mean requests in flight up to which a server has only one request at a time. It has no work
/// between a response and the next request.
const ONE_REQUEST: f64 = 1.1;

/// Voluntary context switches per response below which threads hardly slept. A thread that waits
/// for each request sleeps once per response.
const NO_SLEEP: f64 = 0.1;

/// A server polls if its use of CPUs without requests is at least this share of its use under load.
/// On a busy machine, a server that polls does not get all of a CPU.
const IDLE_SHARE: f64 = 0.75;

/// Sentence about a server that polls.
pub(super) const POLLS: &str =
    " The server polls: part of its CPU time went into asking for work when there was none.";

/// Evidence that a server uses its CPU while no request needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Polling {
    /// Many calls asked for work and found none.
    IdleCalls { per_response: f64 },
    /// The server used CPU time although mostly no request was in flight.
    WithoutRequest { in_flight: f64 },
    /// The server did not sleep between two requests.
    WithoutSleep { switches_per_response: f64 },
    /// The server used the CPU before the load as much as under load.
    BeforeLoad { cpus: f64 },
}

impl Polling {
    /// Returns the observation as a sentence about the server.
    pub(super) fn observation(self) -> String {
        match self {
            Polling::IdleCalls { per_response } => {
                format!(
                    "{per_response:.0} system calls per response asked for work and found none."
                )
            }
            Polling::WithoutRequest { in_flight } => {
                format!(
                    "Only {in_flight:.2} requests were in flight on average, too few to keep the \
                     server's CPU busy."
                )
            }
            Polling::WithoutSleep { switches_per_response } => format!(
                "The server's threads slept only {switches_per_response:.2} times per response. A \
                 server that waits for each request sleeps about once per response."
            ),
            Polling::BeforeLoad { cpus } => {
                format!("Before the load, the server used {cpus:.2} CPUs without any request.")
            }
        }
    }
}

/// Returns the evidence that the server polls. `None`: it uses less than [`SERVER_BUSY`] of its CPU
/// time, or its requests may need that time.
pub(super) fn polling_evidence(load: &LoadResult, server: &ServerUse) -> Option<Polling> {
    highest_utilisation(server).filter(|used| *used >= SERVER_BUSY)?;
    let in_flight = load.in_flight.mean;
    if let Some(cpus) =
        server.without_requests.cpus().filter(|idle| is_as_busy_without_load(*idle, server))
    {
        return Some(Polling::BeforeLoad { cpus });
    }
    if let Some(per_response) = many_idle_calls(server) {
        return Some(Polling::IdleCalls { per_response });
    }
    if in_flight < NO_REQUEST && load.throughput_rps > 0.0 {
        return Some(Polling::WithoutRequest { in_flight });
    }
    let switches_per_response = switches_per_response(load, server)?;
    let has_one_request = load.config.model == LoadModel::Closed && in_flight <= ONE_REQUEST;
    (has_one_request && switches_per_response < NO_SLEEP)
        .then_some(Polling::WithoutSleep { switches_per_response })
}

/// Whether the CPUs that a server used without requests are most of those it used under load.
fn is_as_busy_without_load(idle_cpus: f64, server: &ServerUse) -> bool {
    server.cpus.is_some_and(|cpus| idle_cpus >= IDLE_SHARE * cpus)
}

/// Returns a sentence for a full CPU or thread if the server may poll unnoticed. `None`: its use
/// of CPU time without requests, its system calls, or its sleeps exclude that it polls.
///
/// Calls and sleeps are those of all threads together. They do not exclude that one thread polls
/// while others serve, unless each thread slept.
pub(super) fn unseen_polling(load: &LoadResult, server: &ServerUse) -> Option<String> {
    let sleeps = switches_per_response(load, server).is_some_and(|n| n >= NO_SLEEP);
    let may_poll_as_whole = server.calls.is_none() && !sleeps;
    let idle_use =
        |cpus: f64| format!("before the load the server used {cpus:.2} CPUs without any request");
    let has_other_threads = server.threads.is_none_or(|n| n > 1);
    let may_have_poller = has_other_threads && server.sleepless_threads.is_none_or(|n| n > 0);
    let unknown = "its use of CPU time without requests is unknown";
    match (server.without_requests, may_poll_as_whole) {
        (WithoutRequests::Sleeps, _) => None,
        (WithoutRequests::Uses(cpus), true) => Some(whole_may_poll(&idle_use(cpus))),
        (WithoutRequests::Unknown, true) => Some(whole_may_poll(unknown)),
        (WithoutRequests::Uses(cpus), false) if may_have_poller => Some(format!(
            " A thread of the server may poll (check for work when there is none) while others \
             serve: {}.",
            idle_use(cpus)
        )),
        (WithoutRequests::Unknown, false) if sleeps && may_have_poller => Some(format!(
            " A thread of the server may poll (check for work when there is none) while others \
             serve: {}, and {unknown}.",
            match server.sleepless_threads {
                Some(_) => "not all of its threads slept",
                None => "it is unknown whether all of its threads slept",
            }
        )),
        (WithoutRequests::Uses(_) | WithoutRequests::Unknown, false) => None,
    }
}

/// Returns the doubt about a server of which any thread may poll. `reason`: the end of a sentence.
fn whole_may_poll(reason: &str) -> String {
    format!(
        " The server may poll (check for work when there is none): its system calls were not \
         counted, and {reason}."
    )
}

/// Returns the arms whose server had CPU time left at some step, and slept. A server that polls
/// does neither, so use of CPU time before the load was other work, such as to fill a cache.
pub(crate) fn resting_arms(trials: &[TrialResult]) -> BTreeSet<usize> {
    let rests = |t: &&TrialResult| {
        t.valid
            && highest_utilisation(&t.server).is_some_and(|used| used < SERVER_IDLE)
            && switches_per_response(&t.load, &t.server).is_some_and(|n| n >= NO_SLEEP)
    };
    trials.iter().filter(rests).map(|t| t.cell.arm).collect()
}

/// Returns the idle calls per response, if there are so many that the server polls.
fn many_idle_calls(server: &ServerUse) -> Option<f64> {
    server.calls.as_ref().and_then(idle_calls).filter(|n| *n >= MANY_IDLE_CALLS)
}

/// Whether a server or a back end makes many idle calls, and finds work in few of its waits and
/// reads. The number alone shows little, because either may read until EAGAIN for each of many
/// queries per response.
pub(super) fn is_mostly_idle(server: &ServerUse) -> bool {
    let calls = server.calls.iter().flat_map(|calls| &calls.by_name);
    let asks = calls.filter(|(name, _)| {
        name.as_str() != "io_uring_enter"
            && matches!(returned_amount(name), Some(Amount::Events | Amount::Read))
    });
    let all: f64 = asks.map(|(_, call)| call.per_response).sum();
    many_idle_calls(server).is_some_and(|idle| idle >= MOSTLY_IDLE * all)
}

/// Whether a back end sleeps when it has no work: few of its waits return no event, or
/// that is unknown.
pub(super) fn sleeps_without_work(calls: &CallRates) -> bool {
    idle_waits(calls).is_none_or(|idle| idle < MANY_IDLE_CALLS)
}

/// Returns the utilisation of the server's CPUs, or the utilisation of one CPU by its busiest
/// serving thread, whichever is higher. Threads of a compiler or garbage collector are left out,
/// because they work without requests and do not poll.
pub(super) fn highest_utilisation(server: &ServerUse) -> Option<f64> {
    [server.cpu_utilisation, server.busiest_serving_utilisation]
        .into_iter()
        .flatten()
        .reduce(f64::max)
}

/// Returns the voluntary context switches per response. `None`: unknown.
pub(super) fn switches_per_response(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    let responses = load.throughput_rps * server.window_s;
    let is_complete = server.unread_counters.is_none() && responses > 0.0;
    let switches = server.context_switches_voluntary.filter(|_| is_complete)?;
    Some(switches as f64 / responses)
}

/// Returns the idle calls per response: waits that returned no event, and reads that failed with
/// EAGAIN. `None`: the return values of these calls are unknown.
pub(super) fn idle_calls(calls: &CallRates) -> Option<f64> {
    sum_by_name(calls, |name, call| {
        idle_waits_by_name(name, call).or(idle_reads_by_name(name, call))
    })
}

/// Returns the waits per response that returned no event, because they polled or timed out. `None`:
/// the return values of waits are unknown.
pub(super) fn idle_waits(calls: &CallRates) -> Option<f64> {
    sum_by_name(calls, idle_waits_by_name)
}

/// Returns the sum over the calls that `idle` knows. `None`: it knows none.
fn sum_by_name(calls: &CallRates, idle: impl Fn(&str, &Call) -> Option<f64>) -> Option<f64> {
    calls.by_name.iter().filter_map(|(name, call)| idle(name, call)).reduce(|a, b| a + b)
}

/// Returns the waits of one name per response that returned no event. `None`: unknown, or no wait.
fn idle_waits_by_name(name: &str, call: &Call) -> Option<f64> {
    // `io_uring_enter` returns the number of submitted entries, which is 0 if it only waits.
    if name == "io_uring_enter" || returned_amount(name) != Some(Amount::Events) {
        return None;
    }
    // Each wait that returned events returned at least one. The share of waits with an event is
    // therefore at most the mean number of events, and the result is a lower bound.
    let max_share_with_event = call.returned_mean?.min(1.0);
    Some(call.per_response * (1.0 - max_share_with_event))
}

/// Returns the reads of one name per response that failed with EAGAIN. `None`: unknown, or no read.
fn idle_reads_by_name(name: &str, call: &Call) -> Option<f64> {
    if returned_amount(name) != Some(Amount::Read) {
        return None;
    }
    let failed_share = call.again? as f64 / call.count as f64;
    Some(failed_share * call.per_response)
}

/// Returns the share of a CPU that the busiest serving thread used. `None`: it is below `min`, is
/// unknown, or the server polls.
pub(super) fn busy_thread(load: &LoadResult, server: &ServerUse, min: f64) -> Option<f64> {
    let busiest = server.busiest_serving_utilisation.filter(|busiest| *busiest >= min)?;
    polling_evidence(load, server).is_none().then_some(busiest)
}

/// Whether a server fills its CPUs with work and not with polling.
pub(super) fn is_full(load: &LoadResult, server: &ServerUse) -> bool {
    server.cpu_utilisation.is_some_and(|used| used >= SERVER_FULL)
        && polling_evidence(load, server).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::five_block_report;

    #[test]
    fn server_with_time_left_that_sleeps_does_not_poll() {
        let rests = |change: &dyn Fn(&mut TrialResult)| {
            let mut trial = five_block_report().trials.remove(0);
            trial.valid = true;
            trial.server.unread_counters = None;
            trial.server.cpu_utilisation = Some(0.74);
            let responses = trial.load.throughput_rps * trial.server.window_s;
            assert!(responses > 0.0);
            trial.server.context_switches_voluntary = Some(responses as u64);
            change(&mut trial);
            resting_arms(&[trial]).len() == 1
        };
        assert!(rests(&|_| {}));
        assert!(!rests(&|t| t.server.cpu_utilisation = Some(0.76)));
        assert!(!rests(&|t| t.server.context_switches_voluntary = Some(0)));
        assert!(!rests(&|t| t.server.context_switches_voluntary = None));
        assert!(!rests(&|t| t.valid = false));
    }
}
