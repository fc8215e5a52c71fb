//! Computes statistics over repeats: medians, intervals and tests.
//!
//! The unit of replication is a fresh start of the subject, and not a request, because the requests
//! of a start are not independent.

pub mod changes;
#[cfg(test)]
pub(crate) mod draws;
mod estimate;
mod holm;
mod moments;
pub mod permutation;
mod quantile;
pub mod rank_sum;
pub mod scaling;
mod skew;
mod trend;

use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use estimate::scatter;
use estimate::student;
pub use estimate::{ALPHA, Estimate, jackknife, standard_errors};
pub use holm::{holm, weighted_holm};
pub use quantile::rank_bounds;
pub use skew::{skew_clause, skew_sentence};
pub use trend::Trend;

/// Minimum number of repeats, or pairs of repeats, for a confidence interval. With fewer repeats,
/// rank statistics are nearly useless (Kalibera and Jones, "Rigorous benchmarking in reasonable
/// time", ISMM 2013).
pub const REPEATS_FOR_INTERVAL: usize = 5;

/// One quantity over all repeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Repeated {
    /// Known values of the repeats, in the order of the blocks.
    pub values: Vec<f64>,
    /// `None`: no values, the middle repeat's percentile lies among unanswered requests, or some
    /// repeats have too few samples for the percentile.
    pub median: Option<f64>,
    pub min: Option<f64>,
    /// `None`: no values, or a repeat's percentile lies among unanswered requests.
    pub max: Option<f64>,
    /// 95 % interval of the median; `None` with fewer than [`REPEATS_FOR_INTERVAL`] repeats.
    pub interval: Option<(f64, f64)>,
}

impl Repeated {
    /// Summarizes known values.
    #[must_use]
    pub fn new(values: Vec<f64>) -> Repeated {
        let fold = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f);
        Repeated {
            median: median(&values),
            min: fold(f64::min),
            max: fold(f64::max),
            interval: interval(&values),
            values,
        }
    }

    /// Returns the interval, or the range of the repeats if there is no interval.
    #[must_use]
    pub fn spread(&self) -> Option<(f64, f64)> {
        self.interval.or(self.min.zip(self.max))
    }
}

/// Returns the median: the middle value, or the mean of the two middle ones; `None` without values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Returns the 95 % interval of the median, between order statistics (Hettmansperger and Sheather,
/// "Confidence intervals based on interpolated order statistics", 1986).
///
/// The interval assumes nothing about the distribution. For five values, it is their range, which
/// contains the median in 93.75 % of samples. The interval of a percentile bootstrap contains the
/// median in only 88 % of samples of seven values.
fn interval(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < REPEATS_FOR_INTERVAL {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let coverage = order_statistics_coverage(n);
    // The innermost pair with enough coverage, and how far to interpolate towards the next pair.
    let outer = coverage.iter().rposition(|share| *share >= 1.0 - ALPHA).unwrap_or(0);
    let inward_share = match coverage.get(outer + 1) {
        Some(inner) if coverage[outer] > 1.0 - ALPHA => {
            let part = (coverage[outer] - (1.0 - ALPHA)) / (coverage[outer] - inner);
            let depth = (outer + 1) as f64;
            (n as f64 - depth) * part / (depth + (n as f64 - 2.0 * depth) * part)
        }
        _ => 0.0,
    };
    let between = |near: f64, next: f64| near + (next - near) * inward_share;
    let low = between(sorted[outer], sorted[outer + 1]);
    let high = between(sorted[n - 1 - outer], sorted[n - 2 - outer]);
    Some((low, high))
}

/// Returns, for k from 1 to half of `n`, the chance that the median lies between the kth smallest
/// and the kth largest value.
fn order_statistics_coverage(n: usize) -> Vec<f64> {
    // The chances of exactly k heads, and of fewer than k, in n tosses of a coin. `exactly` is the
    // logarithm of the chance, because the chance may underflow.
    let mut exactly = -(n as f64) * std::f64::consts::LN_2;
    let mut fewer = 0.0;
    let step = |k: usize| {
        fewer += exactly.exp();
        exactly += ((n - k) as f64 / (k + 1) as f64).ln();
        1.0 - 2.0 * fewer
    };
    (0..n / 2).map(step).collect()
}

/// Minimum number of pairs that can distinguish two subjects. Two pairs have the same direction by
/// chance in half of all cases.
pub const PAIRS_TO_TELL_APART: usize = 3;

/// Ratio that each of three or four pairs must exceed. By chance, three pairs have the same
/// direction in a quarter of all cases (sign test), so the direction alone does not suffice.
const FEW_PAIRS_APART: f64 = 1.05;

/// Ratios of pairs of launches (starts of the servers), and of rounds of turns if the launches took
/// turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    pub launches: Vec<f64>,
    /// Ratios of the rounds of each launch; empty if a launch did not take turns.
    pub rounds: Vec<Vec<f64>>,
}

/// When a run checks whether it has enough repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// Once, after all planned repeats.
    AtTheEnd,
    /// After each repeat. The run ends as soon as its question is answered.
    AfterEach,
}

/// Unit of the pairs of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Over")]
pub enum PairUnit {
    /// Starts of the servers. The interval includes differences between starts.
    Launches,
    /// Rounds of turns within too few starts. The interval is valid only for these starts.
    Rounds,
}

impl Pairs {
    /// Estimates the ratio over launches, or over rounds if there are too few launches. `None`:
    /// there are too few of both.
    #[must_use]
    pub fn estimate(&self, looks: Looks) -> Option<(Estimate, PairUnit)> {
        let launch_estimate = Estimate::from_pairs_at(looks, &self.launches)
            .map(|estimate| (estimate, PairUnit::Launches));
        launch_estimate.or_else(|| Some((Estimate::from_rounds(&self.rounds)?, PairUnit::Rounds)))
    }

    /// Returns the p-value over launches; `None`: fewer than three launches, or a launch has no
    /// ratio. Rounds are not used, because they would distinguish equal servers whose starts differ
    /// by 2 %.
    #[must_use]
    pub fn chance(&self, looks: Looks) -> Option<f64> {
        Estimate::chance(looks, &self.launches)
    }

    /// Whether the pairs distinguish two subjects. `p`: the p-value of [`Pairs::chance`], corrected
    /// for all comparisons that are made together. With three or four launches, it also suffices
    /// that all ratios differ from 1 in the same direction by more than 5 %.
    #[must_use]
    pub fn are_apart(&self, p: Option<f64>) -> bool {
        let logs: Vec<f64> = self.launches.iter().map(|ratio| ratio.ln()).collect();
        let all_differ_by = |difference: f64| {
            logs.iter().all(|log| *log > difference) || logs.iter().all(|log| *log < -difference)
        };
        let is_significant = p.is_some_and(|p| p < ALPHA);
        match logs.len() {
            n if n < PAIRS_TO_TELL_APART || logs.iter().any(|log| !log.is_finite()) => false,
            n if n < REPEATS_FOR_INTERVAL => all_differ_by(FEW_PAIRS_APART.ln()) || is_significant,
            _ => is_significant,
        }
    }

    /// [`Pairs::are_apart`] of a single comparison.
    #[cfg(test)]
    pub fn are_apart_as_single_test(&self) -> bool {
        self.are_apart(self.chance(Looks::AtTheEnd))
    }
}

/// Whether the ratios of launches alone distinguish two subjects.
#[cfg(test)]
fn are_apart(ratios: &[f64]) -> bool {
    Pairs { launches: ratios.to_vec(), rounds: Vec::new() }.are_apart_as_single_test()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_repeats_have_range_and_no_interval() {
        let three = Repeated::new(vec![3.0, 1.0, 2.0]);
        assert_eq!(
            (three.median, three.spread(), three.interval),
            (Some(2.0), Some((1.0, 3.0)), None)
        );
        let empty = Repeated::new(vec![]);
        assert_eq!((empty.median, empty.spread()), (None, None));
        assert_eq!(median(&[1.0, 2.0, 3.0, 10.0]), Some(2.5));
    }

    #[test]
    fn are_apart_uses_pairs_and_not_ranges() {
        // Values of a real run: the ranges overlap, but one server is far ahead in every block.
        assert!(are_apart(&[111.8 / 94.5, 110.1 / 63.9, 88.7 / 62.9]));
        for (ratios, apart) in [
            (&[][..], false),
            (&[9.0], false),
            (&[9.0, 9.0], false),
            (&[1.06, 1.06, 1.06], true),
            (&[1.06, 1.04, 1.06], true),
            (&[1.06, 1.01, 1.06], false),
            (&[1.051; 3], true),
            (&[0.9, 0.9, 0.9, 0.94], true),
            (&[0.9, 0.9, 0.9, 1.1], false),
            (&[f64::NAN, 0.0, 2.0, 2.0], false),
            (&[f64::INFINITY, 2.0, 2.0], false),
            // With five or more pairs the test decides. The same direction is neither necessary nor
            // sufficient.
            (&[1.02, 1.03, 1.02, 1.03, 1.02], true),
            (&[1.2, 1.3, 1.25, 1.2, 0.99], true),
            (&[1.01, 3.0, 1.01, 1.01, 1.01], false),
            (&[0.9, 1.1, 1.0, 0.95, 1.05], false),
            (&[1.0; 5], false),
        ] {
            assert_eq!(are_apart(ratios), apart, "{ratios:?}");
            let inverse: Vec<f64> = ratios.iter().map(|r| 1.0 / r).collect();
            assert_eq!(are_apart(&inverse), apart, "{inverse:?}");
        }
        assert!(!are_apart(&[1.05, 1.01, 1.05]), "neither more than 5 % each, nor even");
        assert!(are_apart(&[1.03, 1.031, 1.03]), "even");
    }

    #[test]
    fn median_interval_lies_between_order_statistics() {
        let values: Vec<f64> = (1..=99).map(f64::from).collect();
        let (low, high) = Repeated::new(values.clone()).interval.unwrap();
        // The median's ranks by the binomial distribution: 50 ± 1.96 · √99 / 2.
        assert!((low - 40.25).abs() < 2.0 && (high - 59.75).abs() < 2.0, "{low} {high}");
        // The 2nd and 9th of ten values cover 97.85 %, and the 3rd and 8th cover 89.06 %. The
        // interval is interpolated by 0.6577 between them.
        let (low, high) = interval(&[10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]).unwrap();
        assert!((low - 2.6577).abs() < 1e-4 && (high - 8.3423).abs() < 1e-4, "{low} {high}");
        assert_eq!(interval(&[5.0, 1.0, 2.0, 4.0, 3.0]), Some((1.0, 5.0)), "the range");
        // With 3,000 values the chance of exactly k heads underflows.
        let many: Vec<f64> = (0..3000).map(f64::from).collect();
        let (low, high) = interval(&many).unwrap();
        // The binomial's normal approximation: 1,499.5 ± 1.96 · √3000 / 2.
        assert!((low - 1445.8).abs() < 1.0 && (high - 1553.2).abs() < 1.0, "{low} {high}");
        assert!(interval(&[1.0; 4]).is_none() && interval(&[1.0; 5]).is_some());
    }

    proptest! {
        #[test]
        fn median_interval_contains_median_within_range(
            values in proptest::collection::vec(1.0f64..1e6, 5..20),
        ) {
            let q = Repeated::new(values);
            let (low, high) = q.interval.unwrap();
            prop_assert!(low <= q.median.unwrap() && q.median.unwrap() <= high);
            prop_assert!(q.min.unwrap() <= low && high <= q.max.unwrap());
        }
    }
}
