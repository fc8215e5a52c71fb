//! A search with its loads: it returns the next load and takes its result.

use std::collections::BTreeMap;

use dyno_archive::LoadRecord;
use dyno_archive::plan::Objective;

use super::objective::judge;
use super::pool::Pool;
use super::{CapacityResult, CapacitySearch, CapacityTrial, SearchStep, TrialVerdict};
use crate::LoadResult;

/// Length of the confirming load of a search, as a multiple of the other loads.
const CONFIRMS_TIMES: u64 = 10;

/// The longest such load, unless the other loads are longer.
const LONGEST_NS: u64 = 60_000_000_000;

/// Length of the load that confirms a rate, for a search by loads of this length.
#[must_use]
pub fn confirmation_ns(duration_ns: u64) -> u64 {
    (CONFIRMS_TIMES * duration_ns).min(LONGEST_NS.max(duration_ns))
}

/// A search in progress.
#[derive(Clone, Debug)]
pub struct RateSearch {
    search: CapacitySearch,
    objective: Objective,
    /// By [`f64::to_bits`] of the rate: rates are above 0.
    pools: BTreeMap<u64, Pool>,
    trials: Vec<CapacityTrial>,
    least_rps: f64,
}

impl RateSearch {
    /// `least_rps`: the lowest rate at which a load is long enough for the objective.
    #[must_use]
    pub fn new(search: CapacitySearch, objective: Objective, least_rps: f64) -> RateSearch {
        RateSearch {
            search: search.with_least(least_rps),
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

    /// Loads so far.
    #[must_use]
    pub fn loads(&self) -> usize {
        self.trials.len()
    }

    /// Records a load, and returns its own verdict. The search decides by all requests at that
    /// rate. `confirms`: a longer load, which has to keep the objective by itself, too.
    pub fn take(
        &mut self,
        (rate_rps, confirms): (f64, bool),
        record: &LoadRecord,
        result: LoadResult,
    ) -> CapacityTrial {
        let judged = judge(&self.objective, &result);
        let trial = CapacityTrial { confirms, ..CapacityTrial::new(rate_rps, &result, judged) };
        self.pools.entry(rate_rps.to_bits()).or_default().add(&self.objective, record, result);
        let own = TrialVerdict::from_trial(&trial);
        let together =
            self.combined_trial(rate_rps).map_or(own, |all| TrialVerdict::from_trial(&all));
        match confirms {
            true if own == TrialVerdict::Kept => {
                self.search.record_confirmation(rate_rps, together);
            }
            true => self.search.record_confirmation(rate_rps, TrialVerdict::Missed),
            false => self.search.record(rate_rps, own, together),
        }
        self.trials.push(trial.clone());
        trial
    }

    /// All loads at a rate as if they were one; `None`: there are none.
    fn combined_trial(&self, rate_rps: f64) -> Option<CapacityTrial> {
        let (result, judged) = self.pools.get(&rate_rps.to_bits())?.verdict(&self.objective)?;
        Some(CapacityTrial::new(rate_rps, &result, judged))
    }

    /// Returns the result of the search. `ended`: the reason of an early end.
    #[must_use]
    pub fn result(self, ended: Option<String>) -> CapacityResult {
        let found = match self.search.next() {
            SearchStep::Done(found) => found,
            SearchStep::Try(_) | SearchStep::Confirm(_) => self.search.so_far(),
        };
        let all: Vec<CapacityTrial> = self
            .pools
            .keys()
            .filter_map(|rate| self.combined_trial(f64::from_bits(*rate)))
            .collect();
        CapacityResult::new(&self.objective, found, ended, (self.trials, &all))
            .with_least(self.least_rps)
    }
}
