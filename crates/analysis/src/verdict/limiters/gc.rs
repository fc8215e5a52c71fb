//! The server's garbage collector used much of a full CPU.

#[cfg(test)]
mod cases;

use serde_json::json;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::number_format::percent;
use crate::verdict::thresholds::SERVER_BUSY;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "its garbage collector",
    refutation: "Refuted if throughput stays the same with more memory, although the garbage \
                 collector then works less.",
    queue: None,
    curve: CurveRule::Kept,
};

/// Largest share of the server's CPU time that its garbage collector uses without being the limit.
const GC_SHARE: f64 = 0.3;

/// The server's CPU is full, and its garbage collector used much of it.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { server, .. } = *inputs;
    let used = server.cpu_utilisation.filter(|used| *used >= SERVER_BUSY)?;
    let share = server.role_share("gc").filter(|share| *share > GC_SHARE)?;
    let sentence = format!(
        "The garbage collector: it used {} of the server's CPU time, and the server used {} of its \
         allowed CPU time. Give the server more memory, or allocate less per request.",
        percent(share),
        percent(used)
    );
    Some(Limiter::new(
        Resource::Gc,
        Confidence::High,
        sentence,
        json!({"gc_share": share, "cpu_utilisation": used}),
    ))
}
