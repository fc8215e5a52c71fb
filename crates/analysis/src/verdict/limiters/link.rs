//! A network device was full.

#[cfg(test)]
mod cases;

use serde_json::json;

use super::idle::utilisation_with_headroom;
use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::number_format::percent;
use crate::verdict::thresholds::LINK_FULL;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "a network link",
    refutation: "Refuted if throughput stays the same over a faster link.",
    queue: None,
    curve: CurveRule::Kept,
};

/// A network device of the machine is full, while server and generator have headroom. Its traffic
/// may include the traffic of other programs.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, machine, .. } = *inputs;
    let used = utilisation_with_headroom(load, server)?;
    let link = machine.busiest_link.as_ref().filter(|link| link.utilisation >= LINK_FULL)?;
    let sentence = format!(
        "A network link: {} used {} of its capacity ({} Mbit/s), while the server used {} of its \
         CPU.",
        link.name,
        percent(link.utilisation),
        link.bits_per_s / 1e6,
        percent(used)
    );
    let evidence = json!({
        "link": link.name, "link_utilisation": link.utilisation, "link_bits_per_s": link.bits_per_s,
        "server_utilisation": used,
    });
    Some(Limiter::new(Resource::Link, Confidence::Medium, sentence, evidence))
}
