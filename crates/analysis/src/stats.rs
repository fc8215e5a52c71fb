//! Statistics over repeats. The unit of replication is a fresh start of the subject, never a request.

use schemars::JsonSchema;
use serde::Serialize;

/// Repeats below which no interval is claimed: rank statistics of fewer say next to nothing (Kalibera and Jones,
/// "Rigorous benchmarking in reasonable time", ISMM 2013).
pub const REPEATS_FOR_INTERVAL: usize = 5;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2000;

/// One quantity over all repeats.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Repeated {
    /// One value per repeat that has one, in the order of the blocks.
    pub values: Vec<f64>,
    pub median: Option<f64>,
    pub min: Option<f64>,
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

    /// Whether the spreads of two quantities overlap: then they are not told apart.
    #[must_use]
    pub fn overlaps(&self, other: &Repeated) -> bool {
        match (self.spread(), other.spread()) {
            (Some(a), Some(b)) => a.0 <= b.1 && b.0 <= a.1,
            _ => false,
        }
    }
}

/// The middle value; the mean of the two middle ones if their number is even.
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

/// Groups of ranked quantities that cannot be told apart, best first: each member of a group overlaps the group's
/// best. Returns the number of its group for each, counted from 1.
#[must_use]
pub fn tie_groups(ranked: &[&Repeated]) -> Vec<usize> {
    let mut groups = Vec::new();
    let mut best: Option<&Repeated> = None;
    let mut number = 0;
    for quantity in ranked {
        if !best.is_some_and(|b| b.overlaps(quantity)) {
            best = Some(quantity);
            number += 1;
        }
        groups.push(number);
    }
    groups
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
    fn ties_are_with_the_best_of_their_group() {
        let q = |a: f64, b: f64| Repeated::new(vec![a, b]);
        let all = [q(100.0, 110.0), q(95.0, 101.0), q(90.0, 96.0), q(10.0, 20.0)];
        let ranked: Vec<&Repeated> = all.iter().collect();
        // The third overlaps the second, but not the best: it starts a group of its own.
        assert_eq!(tie_groups(&ranked), [1, 1, 2, 3]);
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
