//! The server was idle although many requests waited, for a reason that no other rule names.

#[cfg(test)]
mod cases;

use dyno_model::sample::ThreadState;

use super::idle::{MANY_IN_FLIGHT, idle_evidence, utilisation_with_headroom};
use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::backend_use::BackendUse;
use crate::number_format::percent;
use crate::server::ServerUse;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "something else",
    refutation: "Refuted if throughput grows with more requests in flight.",
    queue: None,
    curve: CurveRule::Idle,
};

/// The server has headroom although many requests wait: for something that no other rule names.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, backends, .. } = *inputs;
    let used = utilisation_with_headroom(load, server)?;
    let waiting = load.mean_at_server();
    (waiting >= MANY_IN_FLIGHT).then(|| {
        let sentence = format!(
            "An unmonitored resource: on average {waiting:.0} requests were in flight, but the \
             server used only {} of its CPU. {}",
            percent(used),
            describe_waits(server, backends)
        );
        Limiter::new(Resource::Elsewhere, Confidence::Medium, sentence, idle_evidence(load, used))
    })
}

/// Describes the waits of the server's threads, or names the option that shows them.
fn describe_waits(server: &ServerUse, backends: &[BackendUse]) -> String {
    let Some(serving) = &server.serving else {
        return "The server waits for a lock, a disk or a database, or has an internal limit on \
                threads or connections. Use `--observe states` to see the cause."
            .into();
    };
    let waits = [
        ThreadState::Network,
        ThreadState::Lock,
        ThreadState::Disk,
        ThreadState::Sleep,
        ThreadState::Runnable,
        ThreadState::Other,
    ];
    let longest = waits.into_iter().max_by(|a, b| serving.share(*a).total_cmp(&serving.share(*b)));
    let longest_wait = longest.map_or(String::new(), |state| {
        let purpose = match state {
            ThreadState::Network => "on the network, for requests or for responses of back ends",
            ThreadState::Lock => "for each other or for work",
            ThreadState::Disk => "for a disk",
            ThreadState::Runnable => "for a CPU",
            ThreadState::Sleep => "for a timer",
            _ => "in other system calls",
        };
        format!(
            "For {} of their time, the threads that serve requests waited {purpose}. ",
            percent(serving.share(state))
        )
    });
    let limit = match backends {
        [] => {
            "The server has an internal limit, or waits for a service that dyno does not monitor. \
             Add the services that the server needs as `[[backends]]`."
        }
        _ => {
            "The server or a back end has an internal limit, or waits for a service that dyno does \
             not monitor."
        }
    };
    format!("{longest_wait}{limit}")
}
