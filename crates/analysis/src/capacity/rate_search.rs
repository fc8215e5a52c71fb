//! Runs a search on the results of loads: it returns the next load and takes its result.
//!
//! It connects the pure search of rates with objectives, pooled requests and the list of trials.

use std::collections::BTreeMap;

use dyno_archive::LoadRecord;
use dyno_archive::plan::Objective;

use super::objective::judge;
use super::pool::Pool;
use super::{CapacityResult, CapacitySearch, CapacityTrial, SearchStep, TrialVerdict};
use crate::LoadResult;

/// Length of the confirming load of a search, as a multiple of the other loads.
const CONFIRMATION_FACTOR: u64 = 10;

/// Longest confirming load, unless the other loads are longer; nanoseconds.
const MAX_CONFIRMATION_NS: u64 = 60_000_000_000;

/// Returns the length of the load that confirms a rate, for a search by loads of this length.
#[must_use]
pub fn confirmation_ns(duration_ns: u64) -> u64 {
    (CONFIRMATION_FACTOR * duration_ns).min(MAX_CONFIRMATION_NS.max(duration_ns))
}

/// A search in progress.
#[derive(Clone, Debug)]
pub struct RateSearch {
    search: CapacitySearch,
    objective: Objective,
    /// Loads by rate. The key is [`f64::to_bits`] of the rate, which keeps the order because rates
    /// are positive.
    pools: BTreeMap<u64, Pool>,
    trials: Vec<CapacityTrial>,
    least_rps: f64,
}

impl RateSearch {
    /// `least_rps`: the lowest rate at which a load is long enough for the objective.
    #[must_use]
    pub fn new(search: CapacitySearch, objective: Objective, least_rps: f64) -> RateSearch {
        RateSearch {
            search: search.with_least_rps(least_rps),
            objective,
            pools: BTreeMap::new(),
            trials: Vec::new(),
            least_rps,
        }
    }

    /// Returns the next step.
    #[must_use]
    pub fn next(&self) -> SearchStep {
        self.search.next()
    }

    /// Returns the number of loads so far.
    #[must_use]
    pub fn loads(&self) -> usize {
        self.trials.len()
    }

    /// Records a load, and returns its own verdict. The search decides by all requests at that
    /// rate. `confirms`: a longer load, which has to meet the objective by itself, too.
    pub fn take(
        &mut self,
        (rate_rps, confirms): (f64, bool),
        record: &LoadRecord,
        result: LoadResult,
    ) -> CapacityTrial {
        let verdict = judge(&self.objective, &result);
        let trial = CapacityTrial { confirms, ..CapacityTrial::new(rate_rps, &result, verdict) };
        self.pools.entry(rate_rps.to_bits()).or_default().add(&self.objective, record, result);
        let verdict = TrialVerdict::from_trial(&trial);
        let combined =
            self.combined_trial(rate_rps).map_or(verdict, |trial| TrialVerdict::from_trial(&trial));
        match confirms {
            true if verdict == TrialVerdict::Kept => {
                self.search.record_confirmation(rate_rps, combined);
            }
            true => self.search.record_confirmation(rate_rps, TrialVerdict::Missed),
            false => self.search.record(rate_rps, verdict, combined),
        }
        self.trials.push(trial.clone());
        trial
    }

    /// Returns all loads at a rate as if they were one; `None`: the rate has no loads.
    fn combined_trial(&self, rate_rps: f64) -> Option<CapacityTrial> {
        let (result, verdict) = self.pools.get(&rate_rps.to_bits())?.verdict(&self.objective)?;
        Some(CapacityTrial::new(rate_rps, &result, verdict))
    }

    /// Returns the result of the search. `ended`: the reason of an early end.
    #[must_use]
    pub fn result(self, ended: Option<String>) -> CapacityResult {
        let bounds = match self.search.next() {
            SearchStep::Done(bounds) => bounds,
            SearchStep::Try(_) | SearchStep::Confirm(_) => self.search.current_bounds(),
        };
        let combined: Vec<CapacityTrial> = self
            .pools
            .keys()
            .filter_map(|rate| self.combined_trial(f64::from_bits(*rate)))
            .collect();
        CapacityResult::new(&self.objective, bounds, ended, (self.trials, &combined))
            .with_least_rps(self.least_rps)
    }
}
