//! The server's JIT compiler used much of a full CPU.

#[cfg(test)]
mod cases;

use serde_json::json;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::number_format::percent;
use crate::verdict::thresholds::{JIT_SHARE, SERVER_BUSY};

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "its JIT compiler",
    refutation: "Refuted if throughput stays the same after a longer warm-up, when the compiler is \
                 idle.",
    queue: None,
    curve: CurveRule::Kept,
};

/// The server's CPU is full, and its JIT compiler used much of it.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { server, .. } = *inputs;
    let used = server.cpu_utilisation.filter(|used| *used >= SERVER_BUSY)?;
    let share = server.role_share("jit").filter(|share| *share > JIT_SHARE)?;
    let sentence = format!(
        "The JIT compiler: it used {} of the server's CPU time, and the server used {} of its \
         allowed CPU time.",
        percent(share),
        percent(used)
    );
    Some(Limiter::new(
        Resource::Jit,
        Confidence::High,
        sentence,
        json!({"jit_share": share, "cpu_utilisation": used}),
    ))
}
