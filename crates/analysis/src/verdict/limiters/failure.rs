//! The server ended, did not respond, or sent incorrect responses.

#[cfg(test)]
mod cases;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "failure",
    refutation: "Refuted if the same load gets correct responses from the same server.",
    queue: None,
    curve: CurveRule::Kept,
};

/// The server ended, did not respond, or sent incorrect responses. No resource was the limit.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, .. } = *inputs;
    let caveat = find_caveat(load, Code::BACKEND_FAILED)
        .or_else(|| find_caveat(load, Code::MACHINE_FAILED))
        .or_else(|| find_caveat(load, Code::SUBJECT_FAILED))
        .or_else(|| find_caveat(load, Code::NO_CORRECT_RESPONSE))
        .or_else(|| find_invalid(load, Code::INCORRECT_RESPONSES))
        .or_else(|| find_invalid(load, Code::UNSOLICITED))
        .or_else(|| find_invalid(load, Code::OUTAGE))?;
    Some(from_caveat(caveat, Resource::Failure))
}

pub(super) fn find_caveat(load: &LoadResult, code: Code) -> Option<&Caveat> {
    load.caveats.iter().find(|caveat| caveat.code == code)
}

pub(super) fn find_invalid(load: &LoadResult, code: Code) -> Option<&Caveat> {
    find_caveat(load, code).filter(|caveat| caveat.severity == Severity::Invalid)
}

/// Returns a limiter with the sentence of a caveat.
pub(super) fn from_caveat(caveat: &Caveat, resource: Resource) -> Limiter {
    let (sentence, evidence) = (caveat.message.clone(), caveat.evidence.clone());
    Limiter::new(resource, Confidence::High, sentence, evidence)
}
