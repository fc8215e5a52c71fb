//! Serving threads wait for each other.

#[cfg(test)]
mod cases;

use dyno_model::sample::ThreadState;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::verdict::waits::{
    MIN_LOCK_CALLS, ThreadWait, TimedWaits, lock_calls_per_response, writes_once,
};

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "a lock",
    refutation: "Refuted if throughput grows with more requests in flight, or if no thread holds \
                 the lock while others wait.",
    queue: Some("A lock"),
    curve: CurveRule::Queue,
};

/// No thread holds the lock if on average fewer than this many threads work.
const MIN_HOLDERS: f64 = 0.5;

/// Threads take turns with one lock if on average at most this many threads work.
const MAX_HOLDERS: f64 = 1.5;

/// The serving threads wait for each other: for a lock, or in another way that makes requests take
/// turns.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    let wait = ThreadWait::from_states(load, server, &[ThreadState::Lock])
        .filter(|wait| wait.serving.threads > 1)?;
    if TimedWaits::from_use(server) != TimedWaits::Few {
        return None;
    }
    let lock_calls = lock_calls_per_response(server);
    let are_in_kernel = lock_calls.is_some_and(|n| n < MIN_LOCK_CALLS);
    let place = match lock_calls {
        Some(_) if are_in_kernel => " (in the kernel)",
        Some(_) => " (futex)",
        None => "",
    };
    let sentence = format!("A lock: the server's {wait} waited for each other{place}");
    let holders = wait.threads_at_work(server);
    let (confidence, doubt) = if are_in_kernel {
        (
            Confidence::Medium,
            " The threads hardly called futex, so they may instead wait for a file system that \
             writes to a disk.",
        )
    } else if !wait.waiters_have_requests() {
        (
            Confidence::Medium,
            " The threads may instead wait for work that an unmonitored service delays.",
        )
    } else if holders < MIN_HOLDERS {
        (
            Confidence::Medium,
            " No thread seems to hold the lock, so the threads may instead wait for a response of \
             an unmonitored service.",
        )
    } else if holders > MAX_HOLDERS {
        (
            Confidence::Medium,
            " Several threads worked at a time, so the threads may instead wait for a pool.",
        )
    } else if !writes_once(server) {
        (
            Confidence::Medium,
            " The threads may instead wait for work, while requests wait for a service to which \
             the server writes.",
        )
    } else if wait.serving.steady_threads > 0 {
        (
            Confidence::Medium,
            " The same thread worked all the time, so the other threads may instead wait for that \
             thread.",
        )
    } else {
        (Confidence::High, "")
    };
    Some(wait.limiter(Resource::Lock, confidence, &sentence, doubt))
}
