//! Runs a search for the highest rate: it returns the rate of the next load and takes the load's
//! result.
//!
//! It connects the search of rates, which knows only verdicts, with objectives, pooled requests and
//! the list of trials.

use std::collections::BTreeMap;

use dyno_model::LoadRecord;
use dyno_model::plan::Objective;

use super::objective::evaluate;
use super::pool::Pool;
use super::{
    CapacityResult, CapacitySearch, CapacityTrial, SearchStep, TrialVerdict, percentile_bound,
};
use crate::LoadResult;

/// Length of the confirming load of a search, as a multiple of the other loads.
const CONFIRMATION_FACTOR: u64 = 10;

/// Maximum length of a confirming load, nanoseconds. If the other loads are longer, the confirming
/// load is as long as these.
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
    /// Address of the connections of the loads; `None`: no load so far recorded it.
    address: Option<String>,
}

impl RateSearch {
    /// `least_rps`: the lowest rate at which a load has enough requests for the percentiles of the
    /// objective. Lower rates are not tried.
    #[must_use]
    pub fn new(search: CapacitySearch, objective: Objective, least_rps: f64) -> RateSearch {
        RateSearch {
            search: search.with_least_rps(least_rps),
            objective,
            pools: BTreeMap::new(),
            trials: Vec::new(),
            least_rps,
            address: None,
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

    /// Records a load, and returns it with its verdict. The search receives this verdict, and the
    /// verdict on the requests of all loads at the rate. `confirms`: a longer load, which confirms
    /// the rate only if both verdicts do.
    pub fn take(
        &mut self,
        (rate_rps, confirms): (f64, bool),
        record: &LoadRecord,
        result: LoadResult,
    ) -> CapacityTrial {
        self.address = self.address.take().or_else(|| record.address.clone());
        let verdict = evaluate(&self.objective, &result);
        let trial = CapacityTrial { confirms, ..CapacityTrial::new(rate_rps, &result, verdict) };
        self.pools.entry(rate_rps.to_bits()).or_default().add(&self.objective, record, result);
        let own = TrialVerdict::from_trial(&trial);
        let combined =
            self.combined_trial(rate_rps).map_or(own, |trial| TrialVerdict::from_trial(&trial));
        match confirms {
            true if own == TrialVerdict::Kept => {
                self.search.record_confirmation(rate_rps, combined);
            }
            true => self.search.record_confirmation(rate_rps, TrialVerdict::Missed),
            false => self.search.record(rate_rps, own, combined),
        }
        self.trials.push(trial.clone());
        trial
    }

    /// Returns one trial with the requests of all loads at a rate. `None`: the rate has no loads.
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
            .with_least_rps(percentile_bound(&self.objective, self.least_rps))
            .with_address(self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::{Width, parse_objective};
    use crate::fixture;

    #[test]
    fn result_names_address_of_loads() {
        let objective = parse_objective("errors<1%", &|_| Err(String::new())).unwrap();
        let search = CapacitySearch::new(1000.0, Width(0.1));
        let mut search = RateSearch::new(search, objective, 0.0);
        assert_eq!(search.clone().result(None).address, None);
        let record = LoadRecord { address: Some("[::1]:8080".into()), ..fixture::record(1000) };
        let load = fixture::five_block_report().trials.remove(0).load;
        search.take((1000.0, false), &record, load);
        assert_eq!(search.result(None).address.as_deref(), Some("[::1]:8080"));
    }
}
