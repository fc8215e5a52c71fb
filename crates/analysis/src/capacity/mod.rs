//! Finds the capacity of servers: the highest rate of requests at which a server meets an
//! objective.

mod brackets;
mod failures;
mod measured_first;
mod objective;
mod pool;
mod rate_search;
mod remaining_searches;
mod search;
mod searches;
mod slowest;

use dyno_model::plan::{ImportChange, Objective};
use schemars::JsonSchema;
use serde::Serialize;

use crate::LoadResult;
pub use brackets::{Bracket, RateVotes, SearchCounts, brackets};
pub use failures::FailureShares;
pub use measured_first::{UnknownCapacity, measured_first};
pub use objective::{
    ObjectiveVerdict, evaluate, least_rps, parse_objective, percentile_bound, required_requests,
};
pub use rate_search::{RateSearch, confirmation_ns};
pub use remaining_searches::{has_search, missing_searches, refused_protocols, remaining_searches};
pub use search::{CapacityBounds, CapacitySearch, MIN_RPS, SearchStep, TrialVerdict, Width};
pub use searches::{SearchResult, begin, load_result};
pub(crate) use searches::{search_brackets, searches};

/// Format of the result of a search.
pub const SCHEMA: &str = "dyno.find/1";

/// Result of a search for capacity.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CapacityResult {
    pub schema: &'static str,
    /// The objective as it was given.
    pub objective: String,
    /// The highest rate at which all requests together met the objective, below all rates at which
    /// they missed it; requests per second. `None`: no such rate.
    pub kept_rps: Option<f64>,
    /// The lowest rate at which all requests together missed the objective. `None`: no such rate.
    pub missed_rps: Option<f64>,
    /// Number of loads at each of the two rates that agree with the verdict on the rate. Zeros:
    /// there is no such rate.
    pub kept_by: Votes,
    pub missed_by: Votes,
    /// Whether the two rates are as close as requested, and no confirming load (a longer load at
    /// `kept_rps`) missed the objective.
    pub settled: bool,
    /// Whether a longer load met the objective at `kept_rps`, too.
    pub confirmed: bool,
    /// Length of the longest load that met the objective at `kept_rps`, or at `unconfirmed_rps` if
    /// that is known instead; seconds. `None`: no such load.
    pub holds_s: Option<f64>,
    /// The highest rate that shorter loads met, if a longer load missed the objective there and
    /// `kept_rps` is `None`; requests per second. Absent: not this case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unconfirmed_rps: Option<f64>,
    /// Result of all requests at each of the two rates. `None`: no such rate.
    pub kept_together: Option<CapacityTrial>,
    pub missed_together: Option<CapacityTrial>,
    /// Whether the generator or the machine, and not the server, was the limit at `missed_rps`. The
    /// server may reach more.
    pub limited_by_generator: bool,
    /// Whether at `missed_rps` at least half of the possible requests were in flight on average. If
    /// so, requests may have waited in the generator for a free connection.
    pub connections_taken: bool,
    /// Loads with too few requests for a percentile of the objective.
    pub percentile_unknown: usize,
    /// The lowest rate that is tried, because loads below it have too few requests for the
    /// objective; requests per second. `None`: there is no such rate.
    pub least_rps: Option<f64>,
    /// Shares of incorrect or missing responses, if the objective was missed because of them and
    /// they are not shown to be rarer at lower rates. In this case no rate is known, so `kept_rps`
    /// and `missed_rps` are `None`. `None`: not this case.
    pub failures_at_any_rate: Option<FailureShares>,
    /// Why the search ended early. `None`: the search was complete.
    pub ended: Option<String>,
    /// Every load, in order of time.
    pub trials: Vec<CapacityTrial>,
    /// Address of the connections of all loads. A name is resolved once per search. Absent: not
    /// recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Changes and omissions of an import in the requests; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub import_changes: Vec<ImportChange>,
}

/// Loads at one rate, and how many of them agree with the verdict on that rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Votes {
    pub agree: usize,
    pub loads: usize,
}

impl Votes {
    /// Counts the loads at a rate, and the loads that agree with the verdict on the rate. `kept`:
    /// whether the verdict is that the rate met the objective.
    fn from_trials(trials: &[CapacityTrial], rate: Option<f64>, kept: bool) -> Votes {
        let trials_at_rate = || trials.iter().filter(|trial| Some(trial.rate_rps) == rate);
        let agrees = |trial: &&CapacityTrial| trial.kept == kept && !trial.too_short;
        Votes { agree: trials_at_rate().filter(agrees).count(), loads: trials_at_rate().count() }
    }
}

impl CapacityResult {
    /// Builds the result from the bounds of a search. `trials`: every load. `together`: for each
    /// rate, one trial with all of its requests. `ended`: reason why the search ended early.
    #[must_use]
    pub fn new(
        objective: &Objective,
        bounds: CapacityBounds,
        ended: Option<String>,
        (trials, together): (Vec<CapacityTrial>, &[CapacityTrial]),
    ) -> CapacityResult {
        let at_any_rate = failures::common_failures(bounds, &trials, together);
        let bounds = if at_any_rate.is_some() { CapacityBounds::default() } else { bounds };
        let CapacityBounds { kept_rps, missed_rps, settled, is_confirmed, unconfirmed_rps } =
            bounds;
        let trial_at =
            |rate: Option<f64>| together.iter().find(|trial| Some(trial.rate_rps) == rate).cloned();
        let missed_together = trial_at(missed_rps);
        let is_at_missed = |has_property: fn(&CapacityTrial) -> bool| {
            missed_together.as_ref().is_some_and(has_property)
        };
        let met_rps = kept_rps.or(unconfirmed_rps);
        let met = trials.iter().filter(|trial| Some(trial.rate_rps) == met_rps && trial.kept);
        CapacityResult {
            schema: SCHEMA,
            objective: objective.text.clone(),
            kept_rps,
            missed_rps,
            kept_by: Votes::from_trials(&trials, kept_rps, true),
            missed_by: Votes::from_trials(&trials, missed_rps, false),
            settled,
            confirmed: is_confirmed,
            holds_s: met.map(|trial| trial.duration_s).reduce(f64::max),
            unconfirmed_rps,
            limited_by_generator: is_at_missed(|trial| trial.generator),
            connections_taken: is_at_missed(|trial| trial.full),
            kept_together: trial_at(kept_rps),
            missed_together,
            percentile_unknown: trials
                .iter()
                .filter(|trial| trial.requests < required_requests(objective))
                .count(),
            least_rps: None,
            failures_at_any_rate: at_any_rate,
            ended,
            trials,
            address: None,
            import_changes: Vec::new(),
        }
    }

    /// Sets the address of the connections of all loads; `None`: not recorded.
    #[must_use]
    pub fn with_address(self, address: Option<String>) -> CapacityResult {
        CapacityResult { address, ..self }
    }

    /// Sets the lowest rate at which loads have enough requests for the objective, requests per
    /// second. `None`: loads at any rate have enough.
    #[must_use]
    pub fn with_least_rps(self, least_rps: Option<f64>) -> CapacityResult {
        CapacityResult { least_rps, ..self }
    }
}

/// One load of a search.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CapacityTrial {
    /// Offered, requests per second.
    pub rate_rps: f64,
    pub throughput_rps: f64,
    pub response_p50_us: Option<f64>,
    pub response_p99_us: Option<f64>,
    /// Share of the window's requests without a correct response: 0 to 1.
    pub error_share: f64,
    pub kept: bool,
    /// Whether the objective was missed because of the generator, and not because of the server.
    pub generator: bool,
    /// Whether incorrect or missing responses missed the objective.
    pub by_failures: bool,
    /// Whether the load was too short for a percentile of the objective. If so, the objective is
    /// neither kept nor missed.
    pub too_short: bool,
    /// Whether at least half of the possible requests were in flight on average.
    pub full: bool,
    /// Requests of the window: scheduled in it, or carried into it.
    pub requests: f64,
    /// Length of the load's window, seconds.
    pub duration_s: f64,
    /// Whether this is a longer load, which confirms the result of shorter loads.
    pub confirms: bool,
    /// The missed or unknown condition, in words; `None`: the objective is kept.
    pub missed: Option<String>,
}

impl CapacityTrial {
    /// Creates the trial of a load with its verdict.
    #[must_use]
    pub fn new(rate_rps: f64, load: &LoadResult, verdict: ObjectiveVerdict) -> CapacityTrial {
        CapacityTrial {
            rate_rps,
            throughput_rps: load.throughput_rps,
            response_p50_us: load.response_time_us.p50,
            response_p99_us: load.response_time_us.p99,
            error_share: load.error_share(),
            kept: verdict == ObjectiveVerdict::Kept,
            generator: matches!(verdict, ObjectiveVerdict::GeneratorMissed(_)),
            by_failures: matches!(verdict, ObjectiveVerdict::Failed(_)),
            too_short: matches!(verdict, ObjectiveVerdict::TooShort(_)),
            full: load.in_flight.mean >= 0.5 * load.max_in_flight() as f64,
            requests: load.exchanges.due() as f64,
            duration_s: load.duration_s,
            confirms: false,
            missed: match verdict {
                ObjectiveVerdict::Kept => None,
                ObjectiveVerdict::Missed(condition)
                | ObjectiveVerdict::Failed(condition)
                | ObjectiveVerdict::NotStarted(condition)
                | ObjectiveVerdict::TooShort(condition)
                | ObjectiveVerdict::GeneratorMissed(condition) => Some(condition),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::five_block_report;

    #[test]
    fn capacity_result_counts_agreeing_loads() {
        let load = five_block_report().trials.remove(0).load;
        let trial = |rate, verdict| CapacityTrial::new(rate, &load, verdict);
        let trials = vec![
            trial(100.0, ObjectiveVerdict::Kept),
            trial(200.0, ObjectiveVerdict::GeneratorMissed("late".into())),
            trial(100.0, ObjectiveVerdict::Missed("p99".into())),
            trial(100.0, ObjectiveVerdict::Kept),
        ];
        let objective = super::parse_objective("errors<1%", &|_| Err(String::new())).unwrap();
        let bounds = CapacityBounds {
            kept_rps: Some(100.0),
            missed_rps: Some(200.0),
            settled: true,
            is_confirmed: true,
            unconfirmed_rps: None,
        };
        let together = [trials[0].clone(), trials[1].clone()];
        let result = CapacityResult::new(&objective, bounds, None, (trials, &together));
        assert_eq!((result.holds_s, result.confirmed), (Some(load.duration_s), true));
        assert_eq!(result.kept_by, Votes { agree: 2, loads: 3 });
        assert_eq!(result.missed_by, Votes { agree: 1, loads: 1 });
        assert!(result.limited_by_generator && result.trials[1].missed.as_deref() == Some("late"));
        let empty = CapacityResult::new(
            &objective,
            CapacityBounds::default(),
            Some("gone".into()),
            (Vec::new(), &[]),
        );
        assert_eq!(
            (empty.kept_by, empty.limited_by_generator, empty.percentile_unknown),
            (Votes::default(), false, 0)
        );
    }
}
