//! The load generator had no headroom.

#[cfg(test)]
mod cases;

use serde_json::json;

use super::other_programs::full_part;
use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::caveat::Code;
use crate::number_format::percent;
use crate::verdict::conditions::may_have_contended;
use crate::verdict::headroom::GeneratorBound;
use crate::verdict::polling::{busy_thread, is_full};
use crate::verdict::thresholds::{SERVER_BUSY, SERVER_FULL};

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "the generator",
    refutation: "Refuted if throughput stays the same with more CPUs or threads for the generator.",
    queue: None,
    curve: CurveRule::Kept,
};

/// The generator did not run for a part of the window, and the server did not fill its CPU.
pub(super) fn stopped(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    let caveat = load.caveats.iter().find(|caveat| caveat.code == Code::GENERATOR_STOPPED)?;
    let has_kept_up = load.keeps_up() == Some(true);
    (!is_full(load, server) && !has_kept_up).then(|| {
        let sentence = "The generator: it was stopped for a part of the window.".into();
        Limiter::new(Resource::Generator, Confidence::Medium, sentence, caveat.evidence.clone())
    })
}

/// The generator had no headroom, and the server did not fill its CPU. The confidence is low if a
/// thread of the server, or a back end, was full.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    let bound = GeneratorBound::from_result(load)?;
    let server_share = server.cpu_utilisation;
    (!is_full(load, server)).then(|| {
        let while_server =
            |share| format!(", while the server used {} of its allowed CPU time", percent(share));
        let server_text = server_share.map_or(String::new(), while_server);
        let full_part = full_part(inputs, SERVER_FULL);
        let has_busy_thread = busy_thread(load, server, SERVER_BUSY).is_some();
        let doubt = full_part.as_ref().map_or(String::new(), |full| format!(" {full}"));
        let sentence = format!("The generator: {}{server_text}.{doubt}", bound.clause());
        let confidence = match server_share {
            _ if full_part.is_some() => Confidence::Low,
            // Without the other programs the generator may have had headroom.
            _ if may_have_contended(load, server) => Confidence::Low,
            Some(share) if share < SERVER_BUSY && !has_busy_thread => Confidence::High,
            _ => Confidence::Medium,
        };
        let evidence = json!({
            "generator_utilisation": load.client.busiest_thread_utilisation,
            "generator_need": load.client.headroom.need,
            "server_utilisation": server_share,
        });
        Limiter::new(Resource::Generator, confidence, sentence, evidence)
    })
}
