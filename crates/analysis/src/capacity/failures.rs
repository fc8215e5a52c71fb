//! Decides whether incorrect and missing responses depend on the rate.
//!
//! A server that responds incorrectly to every n-th request does so at any rate. Short loads at low
//! rates often contain no such response, so a search would find a rate that depends only on the
//! length of its loads.

use schemars::JsonSchema;
use serde::Serialize;

use super::{CapacityBounds, CapacityTrial};
use crate::stats::permutation;

/// Requests without a correct response, among all, at lower and at higher rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailureShares {
    pub failed_below: u64,
    pub requests_below: u64,
    pub failed_above: u64,
    pub requests_above: u64,
}

/// The p-value below which failures are taken to depend on the rate. The limit is small, because
/// the search chose from the same loads where the lower rates end and the higher rates begin.
const MAX_CHANCE: f64 = 0.001;

/// Counts of requests, and of those without a correct response.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FailureCounts {
    pub failed: f64,
    pub requests: f64,
}

impl FailureCounts {
    /// Creates the counts of a load from its share of failed requests.
    pub(super) fn new(error_share: f64, requests: f64) -> FailureCounts {
        FailureCounts { failed: (error_share * requests).round(), requests }
    }

    pub(super) fn sum(counts: impl Iterator<Item = FailureCounts>) -> FailureCounts {
        counts.fold(FailureCounts::default(), |sum, count| FailureCounts {
            failed: sum.failed + count.failed,
            requests: sum.requests + count.requests,
        })
    }
}

impl FailureShares {
    /// Creates the shares from the counts at lower and at higher rates.
    pub(super) fn new(below: FailureCounts, above: FailureCounts) -> FailureShares {
        FailureShares {
            failed_below: below.failed as u64,
            requests_below: below.requests as u64,
            failed_above: above.failed as u64,
            requests_above: above.requests as u64,
        }
    }

    /// Whether failures are not significantly more frequent at the higher rates (Fisher's exact
    /// test), although there were requests at lower and higher rates.
    pub(super) fn are_at_any_rate(&self) -> bool {
        let side = |failed: u64, all: u64| (failed.min(all) as usize, all as usize);
        let p = permutation::counts_chance(
            side(self.failed_below, self.requests_below),
            side(self.failed_above, self.requests_above),
        );
        self.requests_below > 0 && self.requests_above > 0 && p >= MAX_CHANCE
    }
}

/// Returns the shares of failed requests at the rates below and above the bounds of a search.
/// `trials`: every load; `combined_trials`: one trial per rate, with the requests of all of its
/// loads. `None`: failures did not cause the missed objective, or they are shown to depend on the
/// rate.
pub(super) fn common_failures(
    bounds: CapacityBounds,
    trials: &[CapacityTrial],
    combined_trials: &[CapacityTrial],
) -> Option<FailureShares> {
    let missed_rps = bounds.missed_rps?;
    let missed = combined_trials.iter().find(|trial| trial.rate_rps == missed_rps)?;
    if !missed.by_failures {
        return None;
    }
    let counts = |trial: &CapacityTrial| FailureCounts::new(trial.error_share, trial.requests);
    // Loads in which the generator was the limit are excluded (as in `Pool`), because their
    // failures are no evidence about the server.
    let trials = || trials.iter().filter(|trial| !trial.generator);
    // If no rate met the objective, the lowest rate is compared with all others.
    let is_below = |trial: &&CapacityTrial| match bounds.kept_rps {
        Some(kept) => trial.rate_rps <= kept,
        None => trial.rate_rps <= missed_rps,
    };
    let is_above = |trial: &&CapacityTrial| match bounds.kept_rps {
        Some(_) => trial.rate_rps >= missed_rps,
        None => trial.rate_rps > missed_rps,
    };
    let shares = FailureShares::new(
        FailureCounts::sum(trials().filter(is_below).map(counts)),
        FailureCounts::sum(trials().filter(is_above).map(counts)),
    );
    shares.are_at_any_rate().then_some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::ObjectiveVerdict;
    use crate::fixture::five_block_report;

    #[test]
    fn failures_of_generator_limited_loads_are_excluded() {
        let load = five_block_report().trials.remove(0).load;
        let trial = |rate_rps: f64, verdict, error_share: f64| CapacityTrial {
            error_share,
            requests: 10_000.0,
            ..CapacityTrial::new(rate_rps, &load, verdict)
        };
        let bounds = CapacityBounds {
            kept_rps: Some(1000.0),
            missed_rps: Some(2000.0),
            ..CapacityBounds::default()
        };
        let is_common = |limited_rps: f64, below: f64, above: f64| {
            let trials = [
                trial(1000.0, ObjectiveVerdict::Kept, below),
                trial(2000.0, ObjectiveVerdict::Failed("errors".into()), above),
                trial(limited_rps, ObjectiveVerdict::GeneratorMissed("it stopped".into()), 0.6),
            ];
            common_failures(bounds, &trials, &trials[..2]).is_some()
        };
        assert!(!is_common(1000.0, 0.0, 0.03));
        assert!(is_common(2000.0, 0.01, 0.011));
    }
}
