//! Finds the change points of a series: the positions at which its level changes.

/// Returns the ends of the segments of the best segmentation of a series. The last end is the
/// length of the series.
///
/// The best segmentation minimizes the sum of squared deviations from the means of segments, plus
/// `penalty` per change. Each segment has `min_length` values or more.
///
/// The algorithm is optimal partitioning (Jackson et al. 2005), and the result equals the result of
/// PELT (Killick, Fearnhead and Eckley, "Optimal detection of changepoints with a linear
/// computational cost", 2012). Pruning is omitted because series are short, and because common
/// pruning rules miss the optimum if segments have a minimum length.
#[must_use]
pub fn segment_ends(values: &[f64], min_length: usize, penalty: f64) -> Vec<usize> {
    let (n, min_length) = (values.len(), min_length.max(1));
    let sums = Sums::from_values(values);
    // For each prefix: the cost of its best segmentation, and the start of its last segment.
    let mut best = vec![(f64::INFINITY, 0); n + 1];
    best[0].0 = -penalty;
    for end in 1..=n {
        let starts =
            (0..=end.saturating_sub(min_length)).filter(|start| best[*start].0.is_finite());
        let cost = |start: usize| (best[start].0 + penalty + sums.deviation(start, end), start);
        let least_cost = starts.map(cost).min_by(|(a, _), (b, _)| a.total_cmp(b));
        best[end] = least_cost.filter(|_| end >= min_length).unwrap_or((f64::INFINITY, 0));
    }
    if n < min_length {
        return Vec::from_iter((n > 0).then_some(n));
    }
    let mut segment_ends = vec![n];
    while let Some(start) = segment_ends.last().map(|end| best[*end].1).filter(|start| *start > 0) {
        segment_ends.push(start);
    }
    segment_ends.reverse();
    segment_ends
}

/// Prefix sums of the values of a series and of their squares. The mean is subtracted first,
/// because large values would lose digits.
struct Sums {
    values: Vec<f64>,
    squares: Vec<f64>,
}

impl Sums {
    /// Computes the prefix sums of a series.
    fn from_values(values: &[f64]) -> Sums {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let prefix_sums = |f: &dyn Fn(f64) -> f64| {
            let mut sum = 0.0;
            let running_sums = values.iter().map(|value| {
                sum += f(value - mean);
                sum
            });
            [0.0].into_iter().chain(running_sums).collect()
        };
        Sums { values: prefix_sums(&|x| x), squares: prefix_sums(&|x| x * x) }
    }

    /// Returns the sum of squared deviations of a segment from its mean.
    fn deviation(&self, start: usize, end: usize) -> f64 {
        let sum = self.values[end] - self.values[start];
        (self.squares[end] - self.squares[start] - sum * sum / (end - start) as f64).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Made by `tests/vectors/verdicts.py` with ruptures.
    #[test]
    fn segment_ends_match_ruptures() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../tests/vectors/verdicts.json")).unwrap();
        let cases = vectors["changes"].as_array().unwrap();
        assert!(cases.len() > 10);
        for case in cases {
            let values: Vec<f64> =
                case["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            let min_size = case["min_size"].as_u64().unwrap() as usize;
            let found = segment_ends(&values, min_size, case["pen"].as_f64().unwrap());
            let expected: Vec<usize> = case["ends"]
                .as_array()
                .unwrap()
                .iter()
                .map(|v| v.as_u64().unwrap() as usize)
                .collect();
            assert_eq!(found, expected, "{values:?}");
        }
    }

    #[test]
    fn short_series_is_one_segment() {
        assert_eq!(segment_ends(&[], 3, 1.0), [0usize; 0]);
        assert_eq!(segment_ends(&[1.0, 9.0], 3, 0.1), [2]);
        assert_eq!(segment_ends(&[1.0, 1.0, 9.0, 9.0], 2, 0.1), [2, 4]);
        assert_eq!(segment_ends(&[1.0, 1.0, 9.0, 9.0], 3, 0.1), [4]);
    }

    /// Returns the cost of a segmentation.
    fn cost(values: &[f64], segment_ends: &[usize], penalty: f64) -> f64 {
        let (sums, mut start, mut cost) = (Sums::from_values(values), 0, -penalty);
        for end in segment_ends {
            cost += penalty + sums.deviation(start, *end);
            start = *end;
        }
        cost
    }

    proptest! {
        /// Compares the result with all segmentations of a short series.
        #[test]
        fn segment_ends_have_least_cost(
            values in proptest::collection::vec(0.0f64..10.0, 1..11),
            min_size in 1usize..4,
            penalty in 0.1f64..20.0,
        ) {
            let found = segment_ends(&values, min_size, penalty);
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
                if other.len() == 1 || shortest.unwrap() >= min_size {
                    let least_cost = cost(&values, &found, penalty);
                    prop_assert!(least_cost <= cost(&values, &other, penalty) + 1e-9);
                }
            }
        }
    }
}
