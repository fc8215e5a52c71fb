//! Statistics over repeats. The unit of replication is a fresh start of the subject, never a
//! request.

pub mod changes;
#[cfg(test)]
pub(crate) mod draws;
mod estimate;
pub mod permutation;
mod quantile;
pub mod scaling;
mod trend;

use schemars::JsonSchema;
use serde::Serialize;

use estimate::student;
pub use estimate::{ALPHA, Estimate, holm, jackknife, standard_errors, weighted_holm};
pub(crate) use estimate::{are_skewed, scatter};
pub use quantile::ranks;
pub use trend::Trend;

/// Fewest repeats, or pairs of repeats, for a confidence interval: rank statistics of fewer say
/// next to nothing (Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013).
pub const REPEATS_FOR_INTERVAL: usize = 5;

/// One quantity over all repeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Repeated {
    /// One value per repeat that has one, in the order of the blocks.
    pub values: Vec<f64>,
    /// `None`: no values, the middle falls among repeats whose percentile lies among the
    /// unanswered, or some repeats have too few samples for the percentile.
    pub median: Option<f64>,
    pub min: Option<f64>,
    /// `None`: no values, or a repeat's percentile lies among the unanswered.
    pub max: Option<f64>,
    /// 95 % interval of the median; `None` with fewer than [`REPEATS_FOR_INTERVAL`] repeats.
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

/// 95 % interval of the median, between order statistics (Hettmansperger and Sheather, "Confidence
/// intervals based on interpolated order statistics", 1986). It asks nothing of the distribution.
/// For five values it is their range, which holds the median in 93.75 % of samples. A bootstrap's
/// percentiles, used before, held it in 88 % of samples of seven.
fn interval(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < REPEATS_FOR_INTERVAL {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let covered = covered_by_order_statistics(n);
    // The innermost pair that covers enough, and how far the next one in may be gone towards.
    let outer = covered.iter().rposition(|share| *share >= 1.0 - ALPHA).unwrap_or(0);
    let inwards = match covered.get(outer + 1) {
        Some(inner) if covered[outer] > 1.0 - ALPHA => {
            let part = (covered[outer] - (1.0 - ALPHA)) / (covered[outer] - inner);
            let depth = (outer + 1) as f64;
            (n as f64 - depth) * part / (depth + (n as f64 - 2.0 * depth) * part)
        }
        _ => 0.0,
    };
    let between = |near: f64, next: f64| near + (next - near) * inwards;
    let low = between(sorted[outer], sorted[outer + 1]);
    let high = between(sorted[n - 1 - outer], sorted[n - 2 - outer]);
    Some((low, high))
}

/// The chance that the median lies between the kth value from below and the kth from above, for k
/// from 1 to half of `n`.
fn covered_by_order_statistics(n: usize) -> Vec<f64> {
    // For n tosses of a coin: the chance of exactly k heads, and of fewer. The former is a
    // logarithm because it may underflow.
    let mut exactly = -(n as f64) * std::f64::consts::LN_2;
    let mut fewer = 0.0;
    let step = |k: usize| {
        fewer += exactly.exp();
        exactly += ((n - k) as f64 / (k + 1) as f64).ln();
        1.0 - 2.0 * fewer
    };
    (0..n / 2).map(step).collect()
}

/// Fewest pairs that can distinguish two subjects. Two of two in the same direction is a coin
/// tossed twice.
pub const PAIRS_TO_TELL_APART: usize = 3;

/// With three or four pairs: the ratio that each pair must exceed. Three of three lie in the same
/// direction by chance once in four (sign test), so the direction alone is not enough.
const FEW_PAIRS_APART: f64 = 1.05;

/// Ratios of pairs: of the launches of one block, and, where these took turns, of rounds of turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    pub launches: Vec<f64>,
    /// Ratios of the rounds of each launch; empty: they did not all take turns.
    pub rounds: Vec<Vec<f64>>,
}

/// When the values are checked that decide the number of repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// Once, when all are there that were planned.
    AtTheEnd,
    /// After each repeat: the run ends with the repeat that answered its question.
    AfterEach,
}

/// Units of an estimate of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Over")]
pub enum PairUnit {
    /// Starts of the servers: what differs between them is in the interval.
    Launches,
    /// Rounds of turns within too few starts: the interval is that of these starts, and says
    /// nothing of others.
    Rounds,
}

impl Pairs {
    /// The ratio with its interval: over launches where there are enough, else over rounds. `None`:
    /// there are too few of both.
    #[must_use]
    pub fn estimate(&self, looks: Looks) -> Option<(Estimate, PairUnit)> {
        let of_launches = Estimate::from_pairs_at(looks, &self.launches)
            .map(|estimate| (estimate, PairUnit::Launches));
        of_launches.or_else(|| Some((Estimate::from_rounds(&self.rounds)?, PairUnit::Rounds)))
    }

    /// Returns the chance of such launches if there is no difference. Rounds do not count: the
    /// rounds of a few starts would distinguish two equal servers whose starts differ by 2 %.
    /// `None`: fewer than three launches, or one has no ratio.
    #[must_use]
    pub fn chance(&self, looks: Looks) -> Option<f64> {
        Estimate::chance(looks, &self.launches)
    }

    /// Whether the pairs distinguish two subjects. `p` decides: the chance of such launches
    /// ([`Pairs::chance`]), corrected for all other comparisons made with them. Three or four
    /// launches reach it only if they are very even. For them it is also enough that all differ in
    /// the same direction, each by more than 5 %.
    #[must_use]
    pub fn are_apart(&self, p: Option<f64>) -> bool {
        let logs: Vec<f64> = self.launches.iter().map(|ratio| ratio.ln()).collect();
        let by_more_than = |least: f64| {
            logs.iter().all(|log| *log > least) || logs.iter().all(|log| *log < -least)
        };
        let is_shown = p.is_some_and(|p| p < ALPHA);
        match logs.len() {
            n if n < PAIRS_TO_TELL_APART || logs.iter().any(|log| !log.is_finite()) => false,
            n if n < REPEATS_FOR_INTERVAL => by_more_than(FEW_PAIRS_APART.ln()) || is_shown,
            _ => is_shown,
        }
    }

    /// [`Pairs::are_apart`] of a single comparison.
    #[cfg(test)]
    pub fn are_apart_alone(&self) -> bool {
        self.are_apart(self.chance(Looks::AtTheEnd))
    }
}

/// Whether the ratios of launches alone distinguish two subjects.
#[cfg(test)]
fn are_apart(ratios: &[f64]) -> bool {
    Pairs { launches: ratios.to_vec(), rounds: Vec::new() }.are_apart_alone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_repeats_have_a_range_and_no_interval() {
        let three = Repeated::new(vec![3.0, 1.0, 2.0]);
        assert_eq!(
            (three.median, three.spread(), three.interval),
            (Some(2.0), Some((1.0, 3.0)), None)
        );
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
            (&[1.06, 1.04, 1.06], true),
            (&[1.06, 1.01, 1.06], false),
            (&[1.051; 3], true),
            (&[0.9, 0.9, 0.9, 0.94], true),
            (&[0.9, 0.9, 0.9, 1.1], false),
            (&[f64::NAN, 0.0, 2.0, 2.0], false),
            (&[f64::INFINITY, 2.0, 2.0], false),
            // From five pairs on the interval decides: the same direction for all is neither needed
            // nor enough.
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
    fn interval_of_a_median_lies_between_order_statistics() {
        let values: Vec<f64> = (1..=99).map(f64::from).collect();
        let (low, high) = Repeated::new(values.clone()).interval.unwrap();
        // The median's ranks by the binomial distribution: 50 ± 1.96 · √99 / 2.
        assert!((low - 40.25).abs() < 2.0 && (high - 59.75).abs() < 2.0, "{low} {high}");
        // The 2nd and the 9th of ten values hold 97.85 %, the 3rd and the 8th 89.06 %: 0.6577 of
        // the way from one to the other.
        let (low, high) = interval(&[10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]).unwrap();
        assert!((low - 2.6577).abs() < 1e-4 && (high - 8.3423).abs() < 1e-4, "{low} {high}");
        assert_eq!(interval(&[5.0, 1.0, 2.0, 4.0, 3.0]), Some((1.0, 5.0)), "the range");
        // With so many values the chance of a single one underflows.
        let many: Vec<f64> = (0..3000).map(f64::from).collect();
        let (low, high) = interval(&many).unwrap();
        // The binomial's normal approximation: 1,499.5 ± 1.96 · √3000 / 2.
        assert!((low - 1445.8).abs() < 1.0 && (high - 1553.2).abs() < 1.0, "{low} {high}");
        assert!(interval(&[1.0; 4]).is_none() && interval(&[1.0; 5]).is_some());
    }

    proptest! {
        #[test]
        fn interval_holds_the_median_and_lies_in_the_range(
            values in proptest::collection::vec(1.0f64..1e6, 5..20),
        ) {
            let q = Repeated::new(values);
            let (low, high) = q.interval.unwrap();
            prop_assert!(low <= q.median.unwrap() && q.median.unwrap() <= high);
            prop_assert!(q.min.unwrap() <= low && high <= q.max.unwrap());
        }
    }
}
