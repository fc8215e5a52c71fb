//! One thread of a server that may use several CPUs was full.

#[cfg(test)]
mod cases;

use serde_json::json;

use super::server_cpu::full_limiter;
use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::number_format::percent;
use crate::verdict::thresholds::SERVER_BUSY;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "one of its threads",
    refutation: "Refuted if throughput grows while the CPU time of the busiest thread stays the \
                 same.",
    queue: None,
    curve: CurveRule::FixedWidth,
};

/// One serving thread was always busy. The rule follows `server_cpu`, so the server had CPU time
/// left.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    let busiest = server.busiest_serving_utilisation?;
    let used = server.cpu_utilisation?;
    (busiest >= SERVER_BUSY).then(|| {
        let sentence = format!(
            "One thread of the server: it was busy for {} of the time, while the whole server used \
             {} of its CPU.",
            percent(busiest),
            percent(used)
        );
        let evidence = json!({"busiest_serving_utilisation": busiest, "cpu_utilisation": used});
        let limiter = full_limiter(Resource::ServerThread, sentence, evidence, (load, server));
        // A thread that polls is always busy, so the full thread may not serve at all.
        let may_be_poller = server.sleepless_threads.is_none_or(|n| n > 0)
            && server.without_requests.cpus().is_some_and(|idle| idle >= SERVER_BUSY * busiest);
        if may_be_poller { limiter.weaken(Confidence::Low, "") } else { limiter }
    })
}
