//! Serving threads wait for a disk.

#[cfg(test)]
mod cases;

use dyno_model::sample::ThreadState;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::verdict::waits::ThreadWait;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "a disk",
    refutation: "Refuted if throughput stays the same with the files in memory (tmpfs).",
    queue: Some("A disk"),
    curve: CurveRule::AnyWidth,
};

/// The serving threads wait for a disk.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    let wait = ThreadWait::from_states(load, server, &[ThreadState::Disk])?;
    let sentence = format!("A disk: the server's {wait} waited for a disk");
    Some(wait.limiter(Resource::Disk, Confidence::High, &sentence, ""))
}
