//! Completes the settings of a search, outside of suites, for the highest rate that meets an
//! objective.

use dyno_analysis::capacity::{self, MIN_RPS};
use dyno_config::units;
use dyno_model::plan::Objective;
use dyno_workload::rates::Rate;

use super::{LoadSettings, Warmup};
use crate::limits::SEARCH_WARMUP_NS;

/// Default length of each load of a search.
const DURATION_NS: u64 = 2_000_000_000;

/// Default rate at which a search begins, requests per second.
const START_RPS: f64 = 1000.0;

/// Default gap between the final two rates of a search, as a share of the lower one. It is smaller
/// than in suites, whose starts differ by more.
pub const WIDTH: f64 = 0.02;

/// The rates of a search, requests per second.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchRates {
    /// The rate at which the search begins.
    pub start_rps: f64,
    /// The lowest rate at which a load has enough requests for the percentiles of the objective.
    pub least_rps: f64,
    /// Explains why the search begins above the given rate. `None`: it does not.
    pub note: Option<String>,
}

impl LoadSettings {
    /// Completes the settings with the defaults of a search and its first rate, and returns its
    /// rates.
    ///
    /// # Errors
    /// The given rate is not a single number.
    pub fn resolve_search(&mut self, objective: &Objective) -> Result<SearchRates, String> {
        if !self.has("duration") {
            self.load.duration_ns = DURATION_NS;
        }
        self.warmup.get_or_insert(Warmup::Length(SEARCH_WARMUP_NS));
        let least_rps = capacity::least_rps(objective, self.load.duration_ns, self.arrival());
        let least_start_rps = least_rps.ceil().max(MIN_RPS);
        let given_rps = self.rates.first().map(start_rate).transpose()?;
        let start_rps = given_rps.unwrap_or(START_RPS).max(least_start_rps);
        let raised_rps = given_rps.filter(|rate| *rate < least_rps.max(MIN_RPS));
        let note = raised_rps.map(|rate| raised_rate_note(rate, start_rps, objective, least_rps));
        self.rates = vec![Rate::Number(start_rps)];
        Ok(SearchRates { start_rps, least_rps, note })
    }
}

/// Returns the number of a rate at which a search begins.
fn start_rate(rate: &Rate) -> Result<f64, String> {
    let text = rate.to_string();
    units::count(&text).map_err(|_| {
        format!(
            "--rate {text:?}: with --find, must be one number, the rate at which the search \
             begins\nhint: write it like 5k"
        )
    })
}

/// Explains why a search begins at a higher rate than `--rate`, in requests per second.
fn raised_rate_note(rate: f64, start_rps: f64, objective: &Objective, least_rps: f64) -> String {
    let (problem, hint) = match capacity::percentile_bound(objective, least_rps) {
        Some(_) => (
            "gives too few requests for the percentiles of the objective",
            "make loads longer with -d",
        ),
        None => ("is below the lowest rate of a search", "use a higher rate"),
    };
    format!(
        "dyno load: --rate {rate}: {problem}, so the search begins at {start_rps:.0}/s\n\
         hint: {hint}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::Setting;
    use super::*;

    fn search(
        words: &[(&str, &str)],
        objective: &str,
    ) -> Result<(LoadSettings, SearchRates), String> {
        let objective = capacity::parse_objective(objective, &units::duration).unwrap();
        let mut settings = LoadSettings::default();
        for (key, text) in words {
            settings.set(Setting::with_key(key), text).unwrap();
        }
        settings.resolve_search(&objective).map(|rates| (settings, rates))
    }

    #[test]
    fn search_has_its_own_defaults() {
        let (settings, rates) = search(&[], "mean<1ms").unwrap();
        assert_eq!((rates.start_rps, rates.note), (START_RPS, None));
        assert_eq!(settings.rates, [Rate::Number(START_RPS)]);
        assert_eq!((settings.load.duration_ns, settings.warmup_length_ns()), (2 * S, S / 2));
        let words = [("duration", "5s"), ("warmup", "1s"), ("rate", "5k")];
        let (settings, rates) = search(&words, "mean<1ms").unwrap();
        assert_eq!((settings.load.duration_ns, settings.warmup_length_ns()), (5 * S, S));
        assert_eq!(rates.start_rps, 5000.0);
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn search_begins_at_one_number_with_enough_requests() {
        let error = search(&[("rate", "1k..5k")], "mean<1ms").unwrap_err();
        assert!(error.contains("must be one number, the rate at which the search begins"));
        let (_, rates) = search(&[("rate", "1")], "p99<5ms").unwrap();
        assert!(rates.start_rps > 1.0 && rates.start_rps >= rates.least_rps, "{rates:?}");
        let note = rates.note.unwrap();
        assert!(note.contains("too few requests") && note.contains("hint: make loads longer"));
        let objective = capacity::parse_objective("mean<5ms", &units::duration).unwrap();
        let note = raised_rate_note(0.5, 1.0, &objective, 0.1);
        assert!(note.contains("below the lowest rate of a search, so the search begins at 1/s"));
        assert!(!note.contains("percentiles"), "{note}");
    }
}
