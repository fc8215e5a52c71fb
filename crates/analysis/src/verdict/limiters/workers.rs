//! Serving threads sleep while requests wait for them.

#[cfg(test)]
mod cases;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::verdict::waits::{ThreadWait, TimedWaits, may_requests_sleep};

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "its sleeping workers",
    refutation: "Refuted if throughput stays the same with more workers, or grows with more \
                 requests in flight.",
    queue: Some("The server's workers"),
    curve: CurveRule::Queue,
};

/// The serving threads sleep in requests, and there are more requests than threads, so requests
/// wait for a thread.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    let wait = ThreadWait::from_sleep(load, server).filter(ThreadWait::has_waiting_requests)?;
    let sentence = format!("The server's workers: its {wait} slept");
    // Idle threads of language runtimes wait in futex calls with a time-out too, so such waits do
    // not show for sure that requests sleep.
    let is_sure =
        TimedWaits::from_use(server) == TimedWaits::Few && may_requests_sleep(server) == Some(true);
    let confidence = if is_sure { Confidence::High } else { Confidence::Medium };
    Some(wait.limiter(
        Resource::Workers,
        confidence,
        &sentence,
        " Use more workers, or workers that do not sleep.",
    ))
}
