//! A control refused all connections.

#[cfg(test)]
mod cases;

use super::failure::{find_caveat, from_caveat};
use super::{CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::caveat::Code;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "no listener, as intended",
    refutation: "Refuted if a connection to the port succeeds.",
    queue: None,
    curve: CurveRule::Kept,
};

/// A control refused all connections, as intended.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, .. } = *inputs;
    Some(from_caveat(find_caveat(load, Code::REFUSALS)?, Resource::Refusal))
}
