//! Whether incorrect and missing responses depend on the rate.
//!
//! A server that answers every n-th request wrong does so at any rate. Loads at low rates have
//! fewer requests, and more of them meet none of the incorrect responses, so that a search would
//! settle on a rate that is a property of the loads' length.

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

/// The chance below which failures are said to depend on the rate. It is small, because the search
/// chose where it divides the rates, and where the rate does matter some load far above it fails a
/// large part of its requests.
const CERTAIN: f64 = 0.001;

/// Counts of requests, and of those without a correct response.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FailureCounts {
    pub failed: f64,
    pub requests: f64,
}

impl FailureCounts {
    pub(super) fn new(error_share: f64, requests: f64) -> FailureCounts {
        FailureCounts { failed: (error_share * requests).round(), requests }
    }

    pub(super) fn sum(all: impl Iterator<Item = FailureCounts>) -> FailureCounts {
        all.fold(FailureCounts::default(), |sum, one| FailureCounts {
            failed: sum.failed + one.failed,
            requests: sum.requests + one.requests,
        })
    }
}

impl FailureShares {
    pub(super) fn new(below: FailureCounts, above: FailureCounts) -> FailureShares {
        FailureShares {
            failed_below: below.failed as u64,
            requests_below: below.requests as u64,
            failed_above: above.failed as u64,
            requests_above: above.requests as u64,
        }
    }

    /// Whether there were requests at lower and at higher rates, of which failures are not
    /// significantly more frequent at the higher ones (Fisher's exact test).
    pub(super) fn are_at_any_rate(&self) -> bool {
        let side = |failed: u64, all: u64| (failed.min(all) as usize, all as usize);
        let p = permutation::counts_chance(
            side(self.failed_below, self.requests_below),
            side(self.failed_above, self.requests_above),
        );
        self.requests_below > 0 && self.requests_above > 0 && p >= CERTAIN
    }
}

/// The failures on both sides of what a search found, if they missed the objective and are not
/// shown to depend on the rate.
pub(super) fn common_failures(
    found: CapacityBounds,
    trials: &[CapacityTrial],
    together: &[CapacityTrial],
) -> Option<FailureShares> {
    let missed_rps = found.missed_rps?;
    let missed = together.iter().find(|trial| trial.rate_rps == missed_rps)?;
    if !missed.by_failures {
        return None;
    }
    let counts = |trial: &CapacityTrial| FailureCounts::new(trial.error_share, trial.requests);
    // Without a rate that is kept the lowest one stands against all others.
    let is_below = |trial: &&CapacityTrial| match found.kept_rps {
        Some(kept) => trial.rate_rps <= kept,
        None => trial.rate_rps <= missed_rps,
    };
    let is_above = |trial: &&CapacityTrial| match found.kept_rps {
        Some(_) => trial.rate_rps >= missed_rps,
        None => trial.rate_rps > missed_rps,
    };
    let shares = FailureShares::new(
        FailureCounts::sum(trials.iter().filter(is_below).map(counts)),
        FailureCounts::sum(trials.iter().filter(is_above).map(counts)),
    );
    shares.are_at_any_rate().then_some(shares)
}
