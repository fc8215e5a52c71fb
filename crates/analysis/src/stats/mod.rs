//! Statistics over repeats. The unit of replication is a fresh start of the subject, never a request.

mod estimate;

use schemars::JsonSchema;
use serde::Serialize;

pub use estimate::{ALPHA, Estimate, holm};

/// Fewest repeats, or pairs of repeats, for a confidence interval: rank statistics of fewer say next to nothing (Kalibera
/// and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013).
pub const REPEATS_FOR_INTERVAL: usize = 5;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2000;

/// One quantity over all repeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Repeated {
    /// One value per repeat that has one, in the order of the blocks.
    pub values: Vec<f64>,
    /// `None`: no values, or the middle falls among repeats whose percentile lies among the unanswered.
    pub median: Option<f64>,
    pub min: Option<f64>,
    /// `None`: no values, or a repeat's percentile lies among the unanswered.
    pub max: Option<f64>,
    /// 95 % bootstrap interval of the median; `None` with fewer than [`REPEATS_FOR_INTERVAL`] repeats.
    pub interval: Option<(f64, f64)>,
}

impl Repeated {
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

    /// The interval where there is one, the range of the repeats otherwise.
    #[must_use]
    pub fn spread(&self) -> Option<(f64, f64)> {
        self.interval.or(self.min.zip(self.max))
    }
}

/// The middle value, or the mean of the two middle ones; `None` without values.
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

/// 95 % percentile bootstrap of the median (Efron 1979), with a fixed seed: the same record gives the same report.
fn interval(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < REPEATS_FOR_INTERVAL {
        return None;
    }
    let mut state = 0x1234_5678_9ABC_DEF0u64;
    let mut draw = || {
        // An LCG (Knuth's MMIX constants); its high bits are good enough to pick one of a few values.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        values[((state >> 33) as usize) % values.len()]
    };
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let sample: Vec<f64> = (0..values.len()).map(|_| draw()).collect();
            median(&sample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let at = |q: f64| medians[((medians.len() - 1) as f64 * q).round() as usize];
    Some((at(0.025), at(0.975)))
}

/// Fewest pairs that can tell two subjects apart: two of two in the same direction is a coin tossed twice.
pub const PAIRS_TO_TELL_APART: usize = 3;

/// With three or four pairs: the ratio that each pair must exceed. Three of three lie in the same direction by chance once
/// in four (sign test), so the direction alone is not enough.
const FEW_PAIRS_APART: f64 = 1.05;

/// Whether pairs tell two subjects apart, given the ratio of each pair. From five pairs on: the 95 % interval of the ratio
/// does not contain 1. With three or four: all lie in the same direction, each by more than 5 %. With fewer: never.
#[must_use]
pub fn are_apart(ratios: &[f64]) -> bool {
    let known: Vec<f64> = ratios.iter().copied().filter(|r| r.is_finite() && *r > 0.0).collect();
    let logs: Vec<f64> = known.iter().map(|r| r.ln()).collect();
    match logs.len() {
        n if n < PAIRS_TO_TELL_APART => false,
        n if n < REPEATS_FOR_INTERVAL => {
            let least = FEW_PAIRS_APART.ln();
            logs.iter().all(|log| *log > least) || logs.iter().all(|log| *log < -least)
        }
        _ => Estimate::of_pairs(&known).is_some_and(|e| e.low > 1.0 || e.high < 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_repeats_have_a_range_and_no_interval() {
        let three = Repeated::new(vec![3.0, 1.0, 2.0]);
        assert_eq!((three.median, three.spread(), three.interval), (Some(2.0), Some((1.0, 3.0)), None));
        let none = Repeated::new(vec![]);
        assert_eq!((none.median, none.spread()), (None, None));
        assert_eq!(median(&[1.0, 2.0, 3.0, 10.0]), Some(2.5));
    }

    #[test]
    fn pairs_decide_not_ranges() {
        // From a run of real servers: the ranges overlap, but in every block one is far ahead.
        assert!(are_apart(&[111.8 / 94.5, 110.1 / 63.9, 88.7 / 62.9]));
        for (ratios, apart) in [
            (&[][..], false),
            (&[9.0], false),
            (&[9.0, 9.0], false),
            (&[1.06, 1.06, 1.06], true),
            (&[1.06, 1.04, 1.06], false),
            (&[1.051; 3], true),
            (&[0.9, 0.9, 0.9, 0.94], true),
            (&[0.9, 0.9, 0.9, 1.1], false),
            (&[f64::NAN, 0.0, 2.0, 2.0], false),
            (&[f64::INFINITY, 2.0, 2.0], false),
            // From five pairs on the interval decides: the same direction for all is neither needed nor enough.
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
        assert!(!are_apart(&[1.05; 3]), "that is not more than 5 %");
    }

    #[test]
    fn an_interval_of_a_median_is_where_ninety_five_of_a_hundred_resamples_lie() {
        let values: Vec<f64> = (1..=99).map(f64::from).collect();
        let (low, high) = Repeated::new(values.clone()).interval.unwrap();
        // The median's ranks by the binomial distribution: 50 ± 1.96 · √99 / 2.
        assert!((low - 40.25).abs() < 2.0 && (high - 59.75).abs() < 2.0, "{low} {high}");
        assert_eq!(Repeated::new(values).interval, Some((low, high)), "the same each time");
        assert!(interval(&[1.0; 4]).is_none() && interval(&[1.0; 5]).is_some());
    }

    proptest! {
        #[test]
        fn an_interval_holds_the_median_and_lies_in_the_range(
            values in proptest::collection::vec(1.0f64..1e6, 5..20),
        ) {
            let q = Repeated::new(values);
            let (low, high) = q.interval.unwrap();
            prop_assert!(low <= q.median.unwrap() && q.median.unwrap() <= high);
            prop_assert!(q.min.unwrap() <= low && high <= q.max.unwrap());
        }
    }
}
