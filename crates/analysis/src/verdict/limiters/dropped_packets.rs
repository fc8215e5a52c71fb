//! The machine dropped packets.

#[cfg(test)]
mod cases;

use super::failure::{find_caveat, find_invalid, from_caveat};
use super::{CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::caveat::Code;
use crate::faults::excuses_losses;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "dropped packets",
    refutation: "Refuted if the step gives the same errors while the machine drops no packets.",
    queue: None,
    curve: CurveRule::Kept,
};

/// The machine dropped packets, which looks like a failure of the server. If the server ended, it
/// failed by itself, and dropped packets are not the cause. Dropped packets are not the cause
/// either if they are too few to explain the failed requests.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, .. } = *inputs;
    let dropped = find_invalid(load, Code::DROPPED_PACKETS)?;
    (find_caveat(load, Code::SUBJECT_FAILED).is_none() && excuses_losses(dropped, load))
        .then(|| from_caveat(dropped, Resource::DroppedPackets))
}
