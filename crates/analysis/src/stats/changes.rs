//! Change points: where a series changes its level.

/// The ends of the pieces that a series is best cut into: that with the least sum of squared
/// deviations from the pieces' means, each change costing `penalty` and each piece having `least`
/// values or more. The last end is the length of the series.
///
/// This is what PELT (Killick, Fearnhead and Eckley, "Optimal detection of changepoints with a
/// linear computational cost", 2012) finds, by optimal partitioning (Jackson et al. 2005) without
/// its pruning: series here are short, and pruning as it is often done misses the best cut where
/// pieces have a least length.
#[must_use]
pub fn ends(values: &[f64], least: usize, penalty: f64) -> Vec<usize> {
    let (n, least) = (values.len(), least.max(1));
    let sums = Sums::from_values(values);
    // For each length of the beginning: what its best cut costs, and where the last piece of that
    // begins. 0 and the whole are always allowed.
    let mut best = vec![(f64::INFINITY, 0); n + 1];
    best[0].0 = -penalty;
    for end in 1..=n {
        let starts = (0..=end.saturating_sub(least)).filter(|start| best[*start].0.is_finite());
        let cost = |start: usize| (best[start].0 + penalty + sums.deviation(start, end), start);
        let least_cost = starts.map(cost).min_by(|(a, _), (b, _)| a.total_cmp(b));
        best[end] = least_cost.filter(|_| end >= least).unwrap_or((f64::INFINITY, 0));
    }
    if n < least {
        return Vec::from_iter((n > 0).then_some(n));
    }
    let mut ends = vec![n];
    while let Some(start) = ends.last().map(|end| best[*end].1).filter(|start| *start > 0) {
        ends.push(start);
    }
    ends.reverse();
    ends
}

/// Sums over the first values of a series, and of their squares, less a value near all of them: far
/// from 0 digits would be lost.
struct Sums {
    of: Vec<f64>,
    of_squares: Vec<f64>,
}

impl Sums {
    fn from_values(values: &[f64]) -> Sums {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let running = |f: &dyn Fn(f64) -> f64| {
            let mut sum = 0.0;
            let all = values.iter().map(|value| {
                sum += f(value - mean);
                sum
            });
            [0.0].into_iter().chain(all).collect()
        };
        Sums { of: running(&|x| x), of_squares: running(&|x| x * x) }
    }

    /// The squared deviations of a piece from its mean.
    fn deviation(&self, start: usize, end: usize) -> f64 {
        let sum = self.of[end] - self.of[start];
        (self.of_squares[end] - self.of_squares[start] - sum * sum / (end - start) as f64).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Made by `tests/vectors/verdicts.py` with ruptures.
    #[test]
    fn ends_are_those_of_ruptures() {
        let all: Value =
            serde_json::from_str(include_str!("../../tests/vectors/verdicts.json")).unwrap();
        let cases = all["changes"].as_array().unwrap();
        assert!(cases.len() > 10);
        for case in cases {
            let values: Vec<f64> =
                case["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            let least = case["min_size"].as_u64().unwrap() as usize;
            let found = ends(&values, least, case["pen"].as_f64().unwrap());
            let theirs: Vec<usize> = case["ends"]
                .as_array()
                .unwrap()
                .iter()
                .map(|v| v.as_u64().unwrap() as usize)
                .collect();
            assert_eq!(found, theirs, "{values:?}");
        }
    }

    #[test]
    fn what_is_too_short_to_cut_is_one_piece() {
        assert_eq!(ends(&[], 3, 1.0), [0usize; 0]);
        assert_eq!(ends(&[1.0, 9.0], 3, 0.1), [2]);
        assert_eq!(ends(&[1.0, 1.0, 9.0, 9.0], 2, 0.1), [2, 4]);
        assert_eq!(ends(&[1.0, 1.0, 9.0, 9.0], 3, 0.1), [4]);
    }

    /// Returns the cost of a segmentation.
    fn cost(values: &[f64], ends: &[usize], penalty: f64) -> f64 {
        let (sums, mut start, mut cost) = (Sums::from_values(values), 0, -penalty);
        for end in ends {
            cost += penalty + sums.deviation(start, *end);
            start = *end;
        }
        cost
    }

    proptest! {
        /// No cut of a short series costs less, of all that there are.
        #[test]
        fn no_other_cut_costs_less(
            values in proptest::collection::vec(0.0f64..10.0, 1..11),
            least in 1usize..4,
            penalty in 0.1f64..20.0,
        ) {
            let found = ends(&values, least, penalty);
            for cuts in 0u32..1 << (values.len() - 1) {
                let is_cut = |i: &usize| cuts >> (i - 1) & 1 == 1;
                let mut other: Vec<usize> = (1..values.len()).filter(is_cut).collect();
                other.push(values.len());
                let length = |from: &mut usize, end: &usize| {
                    let length = end - *from;
                    *from = *end;
                    Some(length)
                };
                let shortest = other.iter().scan(0, length).min();
                if other.len() == 1 || shortest.unwrap() >= least {
                    let least_cost = cost(&values, &found, penalty);
                    prop_assert!(least_cost <= cost(&values, &other, penalty) + 1e-9);
                }
            }
        }
    }
}
