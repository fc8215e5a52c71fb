//! Distributions of times, as results have them.

use dyno_archive::Times;
use schemars::JsonSchema;
use serde::Serialize;

/// Samples that must lie beyond a percentile for it to be given (docs/methodology.md).
pub const SAMPLES_BEYOND: f64 = 20.0;

/// A distribution of times in microseconds. `count`, `min`, `mean`, `stdev` and `max` are of right answers. Percentiles are
/// of all that was due: the unanswered rank above every right answer. A percentile is `None` if it falls among them, or if
/// fewer than 20 samples lie beyond it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Percentiles {
    pub count: u64,
    /// Exchanges that were due and got no right answer; 0 where the distribution is of something that cannot fail.
    pub unanswered: u64,
    /// The longest wait known, of right answers and unanswered; microseconds. Percentiles that fall among the unanswered are
    /// longer.
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
}

/// Requests that were due and got no right answer: they rank above every right answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    pub count: u64,
    /// The longest that one of them is known to have waited, nanoseconds; `None`: not known.
    pub longest_ns: Option<u64>,
}

impl Missing {
    pub const NONE: Missing = Missing { count: 0, longest_ns: None };
}

/// The duration at quantile `q` of all that was due, in nanoseconds: that of rank ⌈q·n⌉, where n counts right answers and
/// `missing` requests, which rank last. `None` if nothing was due, or if the rank falls among the missing.
#[must_use]
pub fn at_quantile(answers: &Times, missing: u64, q: f64) -> Option<u64> {
    let due = answers.count() + missing;
    let rank = ((q * due as f64).ceil() as u64).clamp(1, due.max(1));
    answers.at_rank(rank)
}

impl Percentiles {
    /// The distribution of something that cannot fail.
    #[must_use]
    pub fn new(times: &Times) -> Percentiles {
        Percentiles::of_due(times, Missing::NONE)
    }

    /// The distribution of all that was due: right answers, and `missing` requests.
    #[must_use]
    pub fn of_due(times: &Times, missing: Missing) -> Percentiles {
        let us = |ns: u64| ns as f64 / 1e3;
        let due = times.count() + missing.count;
        let at = |q: f64| {
            let beyond = due as f64 * (1.0 - q);
            // The comparison allows for the rounding of 1 − q.
            if beyond + 1e-6 < SAMPLES_BEYOND { None } else { at_quantile(times, missing.count, q).map(us) }
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
        }
    }
}
