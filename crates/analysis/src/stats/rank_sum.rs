//! Computes the rank-sum test of two samples (Wilcoxon, "Individual comparisons by ranking
//! methods", 1945; Mann and Whitney, "On a test of whether one of two random variables is
//! stochastically larger than the other", 1947).

use std::cmp::Ordering;

use statrs::distribution::{ContinuousCDF as _, Normal};

/// Maximum number of items for which the exact distribution is computed. For more items, the normal
/// approximation gives nearly the same result.
const MAX_EXACT: usize = 64;

/// Tests whether the items of `b` have higher ranks than those of `a`. The one-sided chance is that
/// of a rank sum of `b` at least as large as observed, if the items were divided into the two
/// samples at random. Returns twice this chance, at most 1, because a caller may test both
/// directions. `None`: a sample is empty.
///
/// Equal items have the mean of their ranks (mid-ranks). `compare` may call items equal that are
/// nearly equal, so it need not be transitive. In this case, the rank of an item follows from its
/// comparisons with all others (Gehan, "A generalized Wilcoxon test for comparing arbitrarily
/// singly-censored samples", 1965). For up to 64 items,
/// the distribution over all divisions is exact. For more items it is a normal approximation with a
/// correction for ties.
#[must_use]
pub fn rank_sum_chance<T>(a: &[T], b: &[T], compare: impl Fn(&T, &T) -> Ordering) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let items: Vec<&T> = a.iter().chain(b).collect();
    let ranks = doubled_ranks(&items, compare);
    let observed: usize = ranks[a.len()..].iter().sum();
    let one_sided = match ranks.len() <= MAX_EXACT {
        true => exact_chance(&ranks, b.len(), observed),
        false => normal_chance(&ranks, b.len(), observed),
    };
    Some((2.0 * one_sided).min(1.0))
}

/// Returns twice the mid-rank of each item, which is an integer.
fn doubled_ranks<T>(items: &[&T], compare: impl Fn(&T, &T) -> Ordering) -> Vec<usize> {
    let points = |item: &T, other: &T| match compare(item, other) {
        Ordering::Less => 0,
        Ordering::Equal => 1,
        Ordering::Greater => 2,
    };
    // The comparison of an item with itself gives 1. With the added 1, the doubled rank of the
    // lowest item is 2.
    items
        .iter()
        .map(|item| 1 + items.iter().map(|other| points(item, other)).sum::<usize>())
        .collect()
}

/// Returns the share of all choices of `chosen` ranks with a sum of at least `observed`.
fn exact_chance(ranks: &[usize], chosen: usize, observed: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    // Number of choices by their size and their sum. Only positive numbers are added, so rounding
    // errors remain small.
    let mut choices = vec![vec![0.0; total + 1]; chosen + 1];
    choices[0][0] = 1.0;
    for rank in ranks {
        for size in (1..=chosen).rev() {
            let (smaller, larger) = choices.split_at_mut(size);
            for (target, source) in larger[0][*rank..].iter_mut().zip(&smaller[size - 1]) {
                *target += source;
            }
        }
    }
    let sum = |choices: &[f64]| choices.iter().sum::<f64>();
    sum(&choices[chosen][observed..]) / sum(&choices[chosen])
}

/// Returns the normal approximation of [`exact_chance`], with a correction for continuity (Lehmann,
/// *Nonparametrics*, 1975).
fn normal_chance(ranks: &[usize], chosen: usize, observed: usize) -> f64 {
    let n = ranks.len() as f64;
    let mean = ranks.iter().sum::<usize>() as f64 / n;
    let squares: f64 = ranks.iter().map(|rank| (*rank as f64 - mean).powi(2)).sum();
    let chosen = chosen as f64;
    let variance = chosen * (n - chosen) / (n * (n - 1.0)) * squares;
    if variance == 0.0 {
        return 1.0;
    }
    // Half a rank is 1 here, because ranks are doubled.
    Normal::standard().sf((observed as f64 - 1.0 - chosen * mean) / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::permutation;
    use proptest::prelude::*;

    fn chance(a: &[u32], b: &[u32]) -> f64 {
        rank_sum_chance(a, b, Ord::cmp).unwrap()
    }

    /// Returns the same chance by trying all divisions of the items into two samples.
    fn enumerated_chance(a: &[u32], b: &[u32]) -> f64 {
        let all: Vec<u32> = a.iter().chain(b).copied().collect();
        let wins = |sample: u32| {
            let is_in = |i: &usize| sample >> i & 1 == 1;
            let (in_b, in_a): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(is_in);
            let points = |(i, j): (usize, usize)| match all[i].cmp(&all[j]) {
                Ordering::Less => 0,
                Ordering::Equal => 1,
                Ordering::Greater => 2,
            };
            let pairs = in_b.iter().flat_map(|i| in_a.iter().map(move |j| (*i, *j)));
            pairs.map(points).sum::<u32>()
        };
        let observed = wins(((1 << b.len()) - 1) << a.len());
        let is_division = |sample: &u32| sample.count_ones() as usize == b.len();
        let divisions = (0..1u32 << all.len()).filter(is_division);
        let extreme = divisions.clone().filter(|sample| wins(*sample) >= observed).count();
        (2.0 * extreme as f64 / divisions.count() as f64).min(1.0)
    }

    /// Tables of U (Mann and Whitney, 1947), which `scipy.stats.mannwhitneyu` also has. Without
    /// ties one of C(6, 3) = 20 divisions has the largest sum, and two have at least the second
    /// largest.
    #[test]
    fn rank_sum_chance_has_known_values() {
        for (a, b, expected) in [
            (&[1, 2, 3][..], &[4, 5, 6][..], 2.0 / 20.0),
            (&[1, 2, 4], &[3, 5, 6], 2.0 * 2.0 / 20.0),
            (&[4, 5, 6], &[1, 2, 3], 1.0),
            // U = 2 for samples of 5 and 5: 4 of 252 divisions.
            (&[1, 2, 3, 4, 7], &[5, 6, 8, 9, 10], 2.0 * 4.0 / 252.0),
            (&[1; 7], &[1; 7], 1.0),
        ] {
            assert!((chance(a, b) - expected).abs() < 1e-12, "{a:?} {b:?}: {}", chance(a, b));
        }
        assert_eq!(rank_sum_chance(&[], &[1], Ord::cmp), None);
        assert_eq!(rank_sum_chance(&[1], &[], Ord::cmp), None);
    }

    /// Neighbours are equal, and 1 and 3 are not.
    #[test]
    fn rank_sum_chance_allows_nearly_equal_items() {
        let compare =
            |a: &u32, b: &u32| if a.abs_diff(*b) < 2 { Ordering::Equal } else { a.cmp(b) };
        assert_eq!(doubled_ranks(&[&1, &2, &3], compare), [3, 4, 5]);
        assert_eq!(rank_sum_chance(&[1; 5], &[2; 5], compare), Some(1.0));
        assert_eq!(rank_sum_chance(&[1; 5], &[3; 5], compare), Some(2.0 / 252.0));
    }

    #[test]
    fn normal_chance_is_near_exact_chance() {
        let ranks: Vec<usize> = (0..40).map(|i| 2 * (i / 3) + 2).collect();
        for observed in [320, 340, 360, 380] {
            let (exact, normal) =
                (exact_chance(&ranks, 20, observed), normal_chance(&ranks, 20, observed));
            assert!((exact - normal).abs() < 0.01, "{observed}: {exact} {normal}");
        }
        let many: Vec<u32> = (0..MAX_EXACT as u32).collect();
        let more: Vec<u32> = (0..MAX_EXACT as u32).map(|i| i + 40).collect();
        assert!(chance(&many, &more) < 1e-6 && chance(&more, &many) > 0.99);
        assert_eq!(chance(&[0; MAX_EXACT], &[0; 3]), 1.0);
    }

    proptest! {
        #[test]
        fn rank_sum_chance_matches_enumeration(
            a in proptest::collection::vec(0u32..6, 1..7),
            b in proptest::collection::vec(0u32..6, 1..6),
        ) {
            prop_assert!((chance(&a, &b) - enumerated_chance(&a, &b)).abs() < 1e-9);
        }

        /// Ranks of marks are a count of marks, so the test is Fisher's.
        #[test]
        fn rank_sum_chance_of_marks_is_counts_chance(
            (all_a, all_b) in (1usize..25, 1usize..25),
            (marked_a, marked_b) in (0usize..25, 0usize..25),
        ) {
            let (marked_a, marked_b) = (marked_a.min(all_a), marked_b.min(all_b));
            let marks = |marked: usize, all: usize| -> Vec<u32> {
                (0..all).map(|i| u32::from(i < marked)).collect()
            };
            let p = chance(&marks(marked_a, all_a), &marks(marked_b, all_b));
            let expected = permutation::counts_chance((marked_a, all_a), (marked_b, all_b));
            prop_assert!((p - expected).abs() < 1e-9, "{p} {expected}");
        }
    }
}
