//! The server used nearly all of its CPU time.

#[cfg(test)]
mod cases;

use serde_json::{Value, json};

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::load::LoadResult;
use crate::number_format::{cpus, percent};
use crate::server::ServerUse;
use crate::verdict::polling::unseen_polling;
use crate::verdict::thresholds::SERVER_BUSY;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "its CPU",
    refutation: "Refuted if throughput stays the same with more CPUs, or grows with more requests \
                 in flight.",
    queue: None,
    curve: CurveRule::Cpu,
};

/// The server used nearly all of its allowed CPU time.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    let used = server.cpu_utilisation?;
    (used >= SERVER_BUSY).then(|| {
        let allowed = server.cpu_allowed_s.unwrap_or(0.0) / server.window_s;
        let used_cpus = used * allowed;
        let busiest_share = server.busiest_thread_utilisation.map(|cpus| cpus / used_cpus);
        let has_other_threads = server.threads.is_some_and(|n| n > 1);
        let thread_text = match busiest_share {
            Some(share) if share >= SERVER_BUSY && has_other_threads => {
                format!(", {} of that in one thread", percent(share.min(1.0)))
            }
            _ => String::new(),
        };
        let sentence = format!(
            "The server's CPU: the server used {} of the {} that it is allowed to \
             use{thread_text}.",
            percent(used),
            cpus(allowed)
        );
        let evidence = json!({
            "cpu_utilisation": used,
            "busiest_thread_utilisation": server.busiest_thread_utilisation,
        });
        full_limiter(Resource::ServerCpu, sentence, evidence, (load, server))
    })
}

/// Returns a full CPU or thread as the limiter. The confidence is medium if the server keeps up
/// with a rate, because a server that spins fills a CPU at every rate. It is medium too if the
/// server may poll unseen.
pub(super) fn full_limiter(
    resource: Resource,
    sentence: String,
    evidence: Value,
    (load, server): (&LoadResult, &ServerUse),
) -> Limiter {
    let keeps_up = load.pace().is_some_and(|pace| pace.has_responded());
    let confidence = if keeps_up { Confidence::Medium } else { Confidence::High };
    let limiter = Limiter::new(resource, confidence, sentence, evidence);
    match unseen_polling(load, server) {
        Some(doubt) => limiter.weaken(Confidence::Medium, &doubt),
        None => limiter,
    }
}
