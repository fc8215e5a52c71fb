//! Adjusts p-values for the number of tests (Holm's method).

/// Returns the adjusted p-values of several tests, in the order of `ps`.
///
/// With adjusted p-values, the level is the chance of any false alarm among all tests (Holm, "A
/// simple sequentially rejective multiple test procedure", 1979).
#[must_use]
pub fn holm(ps: &[f64]) -> Vec<f64> {
    weighted_holm(&ps.iter().map(|p| (*p, 1.0)).collect::<Vec<_>>())
}

/// Returns the adjusted p-values of tests with weights. `tests`: the p-value of each test, and its
/// weight (above 0).
///
/// Each test gets a part of the level in proportion to its weight. The part of a significant test
/// is added to the parts of the other tests.
#[must_use]
pub fn weighted_holm(tests: &[(f64, f64)]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..tests.len()).collect();
    let p_per_weight = |index: usize| {
        let (p, weight) = tests[index];
        p / weight
    };
    order.sort_by(|a, b| p_per_weight(*a).total_cmp(&p_per_weight(*b)));
    let mut adjusted = vec![0.0; tests.len()];
    let mut max_p = 0.0f64;
    for (rank, index) in order.iter().enumerate() {
        let remaining_weight: f64 = order[rank..].iter().map(|index| tests[*index].1).sum();
        max_p = max_p.max(p_per_weight(*index) * remaining_weight).min(1.0);
        adjusted[*index] = max_p;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: a fifth of the level is 0.01, which 0.008 is below. The second test then has the
    /// whole level.
    #[test]
    fn weighted_tests_divide_level() {
        let near = |adjusted: Vec<f64>, expected: &[f64]| {
            let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
            assert!(adjusted.iter().zip(expected).all(is_near), "{adjusted:?} and {expected:?}");
        };
        near(weighted_holm(&[(0.008, 0.2), (0.05, 0.8)]), &[0.04, 0.05]);
        near(weighted_holm(&[(0.008, 0.5), (0.03, 0.5)]), &[0.016, 0.03]);
        near(weighted_holm(&[(0.5, 0.2), (0.01, 0.8)]), &[0.5, 0.0125]);
    }
}
