//! The server kept up with an open loop.

#[cfg(test)]
mod cases;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::load::LoadResult;
use crate::load::offered::{Pace, rate_text};
use crate::number_format::percent;
use crate::server::ServerUse;
use crate::verdict::conditions::throttling_clause;
use crate::verdict::polling::{
    POLLS, Polling, busy_thread, is_full, is_mostly_idle, polling_evidence,
};
use crate::verdict::thresholds::{SERVER_FULL, THROTTLED};

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "the offered rate",
    refutation: "Refuted if throughput stays the same at a higher offered rate.",
    queue: None,
    curve: CurveRule::Kept,
};

/// The server kept up with the rate of an open loop.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    // A full server or thread was the limit even if it nearly kept up, because its queue grows.
    if is_full(load, server) || busy_thread(load, server, SERVER_FULL).is_some() {
        return None;
    }
    let polling = polling_evidence(load, server);
    let polls =
        polling.map_or(String::new(), |polling| format!("{POLLS} {}", polling.observation()));
    // A server that reads until EAGAIN for each of many queries may have a full CPU.
    let may_work = matches!(polling, Some(Polling::IdleCalls { .. })) && !is_mostly_idle(server);
    let confidence = if may_work { Confidence::Medium } else { Confidence::High };
    met_rate(load, server, confidence, &polls)
}

/// Returns the offered rate as the limiter. `polls`: text which explains that a CPU is full because
/// the server polls, or empty. `None`: the server did not keep up, or the loop is closed.
pub(in crate::verdict) fn met_rate(
    load: &LoadResult,
    server: &ServerUse,
    confidence: Confidence,
    polls: &str,
) -> Option<Limiter> {
    let pace = load.pace().filter(Pace::has_responded)?;
    let throttled = server
        .throttling
        .filter(|t| t.share() > THROTTLED)
        .map_or(String::new(), |t| format!(" The server was {}.", throttling_clause(t)));
    let changes = if load.config.rate.is_none() { " on average" } else { "" };
    let sentence = format!(
        "The offered rate: the server kept up with {} requests per second{changes}{}{}.{polls}\
         {throttled}",
        rate_text(pace.offered_rps()),
        pace.stretch_text(),
        server
            .cpu_utilisation
            .map_or(String::new(), |u| format!(" and used {} of its CPU", percent(u)))
    );
    Some(Limiter::new(Resource::OfferedRate, confidence, sentence, pace.evidence()))
}
