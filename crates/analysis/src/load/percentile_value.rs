//! Finds the value of a percentile. It is a time, or it is only known to exceed the longest wait.
//!
//! Percentiles are over all requests of the window, so that failures cannot improve them. Requests
//! without a correct response rank above all response times, so a percentile among them has no
//! time.

use dyno_model::times::{self, Times};
use schemars::JsonSchema;
use serde::Serialize;

use super::percentiles::{Percentiles, SAMPLES_ABOVE, value_at_quantile};
use crate::stats::Repeated;

/// The value of a percentile, or the reason why it has none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PercentileValue {
    /// Microseconds.
    Known(f64),
    /// The percentile lies among requests without a correct response, so it is above every known
    /// time.
    Unanswered(UnansweredShare),
    /// Fewer than [`SAMPLES_ABOVE`] samples lie above the percentile, or the quantile is not
    /// recorded.
    TooFew,
}

/// Share of the window's requests without a correct response, and the longest wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnansweredShare {
    /// Share of the window's requests: 0 to 1.
    pub share: f64,
    /// The longest known wait over unanswered requests and correct responses, in microseconds.
    pub longest_wait: Option<f64>,
}

impl Percentiles {
    /// Returns the number of the window's requests: with a correct response, and unanswered.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.count.saturating_add(self.unanswered)
    }

    /// Returns the share of requests without a correct response, and the longest wait.
    #[must_use]
    pub fn unanswered_share(&self) -> UnansweredShare {
        let share =
            if self.unanswered == 0 { 0.0 } else { self.unanswered as f64 / self.due() as f64 };
        UnansweredShare { share, longest_wait: self.longest_wait }
    }

    /// Returns the percentile of quantile `q` (0 to 1). For 1, the longest time, any
    /// number of samples is enough.
    #[must_use]
    pub fn value(&self, q: f64) -> PercentileValue {
        if let Some(us) = self.known_value(q) {
            return PercentileValue::Known(us);
        }
        if self.has_samples_above(q) && self.is_unanswered(q) {
            PercentileValue::Unanswered(self.unanswered_share())
        } else {
            PercentileValue::TooFew
        }
    }

    /// Whether enough requests lie above the quantile for it to be reported.
    #[must_use]
    pub fn has_samples_above(&self, q: f64) -> bool {
        // 1e-6 allows for the rounding of 1 − q.
        q >= 1.0 || self.due() as f64 * (1.0 - q) + 1e-6 >= SAMPLES_ABOVE
    }

    /// Whether the rank of `q`, ⌈q · requests⌉, is above the rank of the last correct response.
    #[must_use]
    pub fn is_unanswered(&self, q: f64) -> bool {
        times::rank(q, self.due()) > self.count && self.unanswered > 0
    }

    /// Returns the recorded value of a quantile. `None`: it is unknown or not recorded.
    fn known_value(&self, q: f64) -> Option<f64> {
        match (q * 10_000.0).round() as u32 {
            5000 => self.p50,
            7500 => self.p75,
            9000 => self.p90,
            9500 => self.p95,
            9900 => self.p99,
            9990 => self.p99_9,
            9999 => self.p99_99,
            10_000 => self.max.filter(|_| self.unanswered == 0),
            _ => None,
        }
    }
}

/// Returns a percentile of the response time in microseconds over all requests of the window, for
/// display while a load runs. The number of samples above it may be small. `None`: the percentile
/// lies among the unanswered.
#[must_use]
pub fn quantile_of_due(percentiles: &Percentiles, response_times: &Times, q: f64) -> Option<f64> {
    value_at_quantile(response_times, percentiles.unanswered, q).map(|ns| ns as f64 / 1e3)
}

/// The unanswered requests of one load, or of one interval, and the percentiles that lie among
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LoadUnanswered {
    /// Share of the window's requests: 0 to 1.
    pub share: f64,
    /// Whether the percentile lies among the unanswered. If so, it is longer than the longest known
    /// wait.
    pub p50: bool,
    pub p90: bool,
    pub p99: bool,
}

impl LoadUnanswered {
    #[must_use]
    pub fn new(percentiles: &Percentiles) -> LoadUnanswered {
        let is_unanswered = |q: f64| matches!(percentiles.value(q), PercentileValue::Unanswered(_));
        LoadUnanswered {
            share: percentiles.unanswered_share().share,
            p50: is_unanswered(0.5),
            p90: is_unanswered(0.9),
            p99: is_unanswered(0.99),
        }
    }
}

/// The unanswered requests of one cell over its valid repeats, and in how many repeats percentiles
/// lie among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct StepUnanswered {
    /// Share of all requests of those repeats: 0 to 1.
    pub share: f64,
    /// The longest known wait over unanswered requests and correct responses, in microseconds.
    pub longest_wait: Option<f64>,
    /// Repeats in which the percentile lies among the unanswered.
    pub p50: usize,
    pub p90: usize,
    pub p99: usize,
}

impl StepUnanswered {
    #[must_use]
    pub fn new(repeats: &[&Percentiles]) -> StepUnanswered {
        let sum =
            |pick: fn(&Percentiles) -> u64| repeats.iter().map(|p| pick(p) as f64).sum::<f64>();
        let (unanswered, requests) = (sum(|p| p.unanswered), sum(Percentiles::due));
        let unanswered_repeats = |q: f64| {
            repeats.iter().filter(|p| matches!(p.value(q), PercentileValue::Unanswered(_))).count()
        };
        StepUnanswered {
            share: if requests > 0.0 { unanswered / requests } else { 0.0 },
            longest_wait: repeats.iter().filter_map(|p| p.longest_wait).reduce(f64::max),
            p50: unanswered_repeats(0.5),
            p90: unanswered_repeats(0.9),
            p99: unanswered_repeats(0.99),
        }
    }
}

/// Summarizes a percentile over repeats. `known`: its values; `unanswered_repeats`: the number of
/// repeats in which the percentile lies among the unanswered.
///
/// Unanswered repeats rank above all values, so that a failed repeat does not improve the median.
/// If the middle falls among them, the median is `None`. Repeats with too few samples are excluded.
#[must_use]
pub fn repeated_percentile(known: Vec<f64>, unanswered_repeats: usize) -> Repeated {
    if unanswered_repeats == 0 {
        return Repeated::new(known);
    }
    let mut ranked = known.clone();
    ranked.resize(known.len() + unanswered_repeats, f64::INFINITY);
    let median = crate::stats::median(&ranked).filter(|m| m.is_finite());
    let min = known.iter().copied().reduce(f64::min);
    Repeated { values: known, median, min, max: None, interval: None }
}

#[cfg(test)]
mod tests {
    use dyno_model::times::Recording;

    use super::*;

    fn percentiles(count: u64, unanswered: u64) -> Percentiles {
        Percentiles { count, unanswered, longest_wait: Some(1.2e6), ..Percentiles::default() }
    }

    #[test]
    fn percentile_value_depends_on_rank_and_sample_count() {
        let share = |value| match value {
            PercentileValue::Unanswered(u) => u.share,
            other => panic!("{other:?}"),
        };
        assert_eq!(share(percentiles(9_410, 590).value(0.99)), 0.059);
        assert_eq!(
            percentiles(9_900, 100).value(0.99),
            PercentileValue::TooFew,
            "rank 9,900 is the last correct response"
        );
        assert!(
            !percentiles(9_900, 100).is_unanswered(0.99)
                && percentiles(9_899, 101).is_unanswered(0.99)
        );
        assert_eq!(
            percentiles(900, 100).value(0.99),
            PercentileValue::TooFew,
            "of 1,000 samples 10 lie above"
        );
        assert!(percentiles(900, 100).is_unanswered(0.99));
        assert_eq!(percentiles(0, 0).value(0.5), PercentileValue::TooFew);
        assert_eq!(
            Percentiles { p99: Some(5.0), ..percentiles(9_990, 10) }.value(0.99),
            PercentileValue::Known(5.0)
        );
    }

    #[test]
    fn maximum_is_known_only_without_unanswered() {
        let max =
            |unanswered| Percentiles { max: Some(7.0), ..percentiles(10, unanswered) }.value(1.0);
        assert_eq!(max(0), PercentileValue::Known(7.0));
        assert!(matches!(max(1), PercentileValue::Unanswered(_)));
    }

    #[test]
    fn load_unanswered_marks_its_percentiles() {
        let unanswered_of =
            |count, unanswered| LoadUnanswered::new(&percentiles(count, unanswered));
        assert_eq!(
            unanswered_of(9_410, 590),
            LoadUnanswered { share: 0.059, p50: false, p90: false, p99: true }
        );
        assert_eq!(
            unanswered_of(800, 200),
            LoadUnanswered { share: 0.2, p50: false, p90: true, p99: false }
        );
        assert_eq!(
            unanswered_of(0, 40),
            LoadUnanswered { share: 1.0, p50: true, p90: false, p99: false }
        );
        assert_eq!(unanswered_of(0, 0), LoadUnanswered::default());
    }

    #[test]
    fn failed_repeat_does_not_improve_median() {
        assert_eq!(repeated_percentile(vec![3.0, 1.0], 0).median, Some(2.0));
        let result = repeated_percentile(vec![3.0, 1.0], 1);
        assert_eq!((result.median, result.min, result.spread()), (Some(3.0), Some(1.0), None));
        assert_eq!(repeated_percentile(vec![1.0], 1).median, None);
        assert_eq!(repeated_percentile(vec![], 3).median, None);
        let step = StepUnanswered::new(&[&percentiles(9_410, 590), &percentiles(10_000, 0)]);
        assert_eq!((step.p50, step.p99, step.share), (0, 1, 0.0295));
    }

    #[test]
    fn percentile_value_requires_twenty_samples_above() {
        // A tenth of 200, up to rounding.
        assert!(matches!(percentiles(100, 100).value(0.9), PercentileValue::Unanswered(_)));
        assert_eq!(percentiles(100, 99).value(0.9), PercentileValue::TooFew);
        assert!(matches!(percentiles(1_900, 100).value(0.99), PercentileValue::Unanswered(_)));
        // The maximum needs no samples above it.
        assert!(matches!(percentiles(3, 1).value(1.0), PercentileValue::Unanswered(_)));
        assert!(!percentiles(0, 0).is_unanswered(0.5) && percentiles(0, 1).is_unanswered(0.0));
    }

    #[test]
    fn percentile_value_returns_known_values() {
        let known = Percentiles {
            p50: Some(1.0),
            p75: Some(2.0),
            p90: Some(3.0),
            p95: Some(4.0),
            p99: Some(5.0),
            p99_9: Some(6.0),
            p99_99: Some(7.0),
            max: Some(8.0),
            ..percentiles(10, 0)
        };
        let quantiles = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0];
        for (q, us) in quantiles.into_iter().zip([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) {
            assert_eq!(known.value(q), PercentileValue::Known(us), "{q}");
        }
        assert_eq!(known.value(0.6), PercentileValue::TooFew, "no samples were kept");
    }

    #[test]
    fn quantile_of_due_is_higher_quantile_of_responses() {
        let mut response_times = Recording::new();
        (1..=100).for_each(|us| response_times.record(us * 1000));
        let response_times = response_times.seal();
        let at = |unanswered, q| {
            quantile_of_due(&percentiles(100, unanswered), &response_times, q).map(f64::round)
        };
        assert_eq!((at(0, 0.5), at(0, 1.0)), (Some(50.0), Some(100.0)));
        // A quarter of 200 is half of the responses; above half of 200 there are none.
        assert_eq!((at(100, 0.25), at(100, 0.5), at(100, 0.51)), (Some(50.0), Some(100.0), None));
        assert_eq!(at(10, 0.5), Some(55.0), "the median of 110 requests is the 55th");
    }
}
