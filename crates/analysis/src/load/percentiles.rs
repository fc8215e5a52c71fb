//! Summarizes distributions of times as percentiles. Unanswered requests rank as the longest times.

use std::collections::BTreeMap;

use dyno_model::times::{self, Times};
use schemars::JsonSchema;
use serde::Serialize;

use crate::stats::rank_bounds;

/// Samples that must lie above a percentile for it to be reported (docs/methodology/times.md).
pub const SAMPLES_ABOVE: f64 = 20.0;

/// A distribution of times in microseconds. `count`, `min`, `mean`, `stdev` and `max` cover correct
/// responses. Percentiles cover all requests of the window: unanswered requests rank above every
/// correct response. A percentile is `None` if it falls among them, or if fewer than 20 samples lie
/// beyond it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Percentiles {
    pub count: u64,
    /// Requests of the window that got no correct response. 0: the distribution covers events that
    /// cannot fail.
    pub unanswered: u64,
    /// The longest known wait over correct responses and unanswered requests, microseconds.
    /// Percentiles that fall among the unanswered are longer.
    pub longest_wait: Option<f64>,
    pub min: Option<f64>,
    pub mean: Option<f64>,
    pub stdev: Option<f64>,
    pub p50: Option<f64>,
    pub p75: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p99_9: Option<f64>,
    pub p99_99: Option<f64>,
    pub max: Option<f64>,
    /// Sum of the known waits of unanswered requests, microseconds.
    #[serde(skip)]
    pub unanswered_sum: f64,
    /// 95 % intervals of the percentiles p50 to p99.9, by name; empty unless requested. They assume
    /// independent requests, but a stall affects many at once. The real uncertainty of one load's
    /// percentiles is at least this large.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bounds_us: BTreeMap<&'static str, Bounds>,
}

/// Values between which a percentile lies, microseconds; `None`: the sample is too small for this
/// bound, or the bound is among the unanswered requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Bounds {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// Percentiles that have bounds.
const BOUNDED_PERCENTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Requests of the window that got no correct response. They rank above every correct response.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnansweredRequests {
    pub count: u64,
    /// Longest known wait of these requests, nanoseconds. `None`: unknown.
    pub longest_ns: Option<u64>,
    /// Sum of the known waits, nanoseconds.
    pub sum_ns: f64,
}

impl UnansweredRequests {
    pub const NONE: UnansweredRequests =
        UnansweredRequests { count: 0, longest_ns: None, sum_ns: 0.0 };
}

/// Returns the time of rank ⌈q·n⌉, in nanoseconds. n is the number of correct responses and
/// `missing` requests, which rank last. `None`: there was no request, or the rank falls among the
/// missing requests.
#[must_use]
pub fn value_at_quantile(response_times: &Times, missing: u64, q: f64) -> Option<u64> {
    response_times.at_rank(times::rank(q, response_times.count() + missing))
}

impl Percentiles {
    /// Summarizes times of events that cannot fail.
    #[must_use]
    pub fn new(times: &Times) -> Percentiles {
        Percentiles::from_due(times, UnansweredRequests::NONE)
    }

    /// Summarizes the times of all requests of the window: correct responses, and `missing`
    /// requests.
    #[must_use]
    pub fn from_due(times: &Times, missing: UnansweredRequests) -> Percentiles {
        let us = |ns: u64| ns as f64 / 1e3;
        let requests = times.count() + missing.count;
        let at = |q: f64| {
            let samples_above = requests as f64 * (1.0 - q);
            // The comparison allows for the rounding of 1 − q.
            if samples_above + 1e-6 < SAMPLES_ABOVE {
                None
            } else {
                value_at_quantile(times, missing.count, q).map(us)
            }
        };
        Percentiles {
            count: times.count(),
            unanswered: missing.count,
            longest_wait: times.max().max(missing.longest_ns).map(us),
            min: times.min().map(us),
            mean: times.mean().map(|ns| ns / 1e3),
            stdev: times.stdev().map(|ns| ns / 1e3),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: times.max().map(us),
            unanswered_sum: missing.sum_ns / 1e3,
            bounds_us: BTreeMap::new(),
        }
    }

    /// Returns the mean over all requests of the window, microseconds. Unanswered requests are
    /// included with their known wait, so the mean is a lower bound if there are any. `None`: there
    /// was no request.
    #[must_use]
    pub fn least_mean(&self) -> Option<f64> {
        let sum = self.mean.unwrap_or(0.0) * self.count as f64 + self.unanswered_sum;
        let requests = self.count + self.unanswered;
        (requests > 0).then(|| sum / requests as f64)
    }

    /// Adds the bounds of the known percentiles.
    #[must_use]
    pub fn with_bounds(mut self, times: &Times) -> Percentiles {
        let requests = times.count() + self.unanswered;
        let us = |rank: u64| times.at_rank(rank).map(|ns| ns as f64 / 1e3);
        let is_reported = |q: f64| requests as f64 * (1.0 - q) + 1e-6 >= SAMPLES_ABOVE;
        let bounds = |q: f64| {
            let (low, high) = rank_bounds(requests, q);
            Bounds { low: low.and_then(us), high: high.and_then(us) }
        };
        self.bounds_us = BOUNDED_PERCENTILES
            .into_iter()
            .filter(|(_, q)| is_reported(*q))
            .map(|(name, q)| (name, bounds(q)))
            .collect();
        self
    }

    /// Returns the bounds of a percentile; `None`: the percentile has no bounds.
    #[must_use]
    pub fn bounds_at(&self, q: f64) -> Option<(f64, f64)> {
        let (name, _) = BOUNDED_PERCENTILES.into_iter().find(|(_, bounded_q)| *bounded_q == q)?;
        let Bounds { low, high } = self.bounds_us.get(name)?;
        low.zip(*high)
    }
}

#[cfg(test)]
mod tests {
    use dyno_model::times::Recording;

    use super::*;

    fn percentiles(values: impl Iterator<Item = u64>, missing: u64) -> Percentiles {
        let mut times = Recording::new();
        values.for_each(|us| times.record(us * 1000));
        let times = times.seal();
        Percentiles::from_due(
            &times,
            UnansweredRequests { count: missing, ..UnansweredRequests::NONE },
        )
        .with_bounds(&times)
    }

    #[test]
    fn bounds_are_order_statistics() {
        let all = percentiles(1..=1000, 0);
        // By the binomial distribution, the median of 1,000 lies between ranks 469 and 532.
        let (low, high) = all.bounds_at(0.5).unwrap();
        assert!((468.0..=470.0).contains(&low) && (531.0..=533.0).contains(&high), "{low} {high}");
        assert!(all.bounds_at(0.9).is_some() && all.bounds_at(0.99).is_none(), "10 lie above p99");
        // Ten of a hundred are unanswered, so the upper bound of the percentile is unknown.
        let some = percentiles(1..=900, 100);
        assert_eq!(some.bounds_us["p90"].high, None);
        assert!(some.bounds_us["p90"].low.is_some() && some.bounds_at(0.9).is_none());
    }
}
