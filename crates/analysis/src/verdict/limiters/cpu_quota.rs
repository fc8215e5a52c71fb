//! The server's CPU quota throttled it.

#[cfg(test)]
mod cases;

use serde_json::json;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::number_format::percent;
use crate::server::{ServerUse, Throttling};
use crate::verdict::conditions::{is_quota_used, throttling_clause};
use crate::verdict::thresholds::THROTTLED;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "its CPU quota",
    refutation: "Refuted if throughput stays the same with a larger quota.",
    queue: None,
    curve: CurveRule::FixedWidth,
};

/// The server's CPU quota throttled it, and it used the quota. The rule uses the number of periods,
/// because the kernel sums throttled time over CPUs.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { server, .. } = *inputs;
    let throttling = server.throttling.filter(|t| t.share() > THROTTLED)?;
    is_quota_used(server, throttling)
        .then(|| quota_limiter(server, throttling, Confidence::High, ""))
}

/// The server's CPU quota throttled it, although it used little of the quota on average.
pub(super) fn throttled_bursts(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { server, .. } = *inputs;
    let throttling = server.throttling.filter(|t| t.share() > THROTTLED)?;
    let doubt = server.cpu_utilisation.map_or(String::new(), |used| {
        format!(
            " On average the server used only {} of its CPU, so the quota may throttle only short \
             bursts, and something else may be the limit.",
            percent(used)
        )
    });
    Some(quota_limiter(server, throttling, Confidence::Medium, &doubt))
}

/// Returns the quota as the limiter. `doubt`: text to follow the observation.
fn quota_limiter(
    server: &ServerUse,
    throttling: Throttling,
    confidence: Confidence,
    doubt: &str,
) -> Limiter {
    let sentence =
        format!("The server's CPU quota: the server was {}.{doubt}", throttling_clause(throttling));
    let evidence = json!({
        "throttled_periods": throttling.throttled_periods, "periods": throttling.periods,
        "throttled_s": server.throttled_s, "cpu_utilisation": server.cpu_utilisation,
    });
    Limiter::new(Resource::CpuQuota, confidence, sentence, evidence)
}
