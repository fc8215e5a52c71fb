//! Computes permutation tests (Fisher 1935, Pitman 1937).
//!
//! Permutation tests assume only that values of the two sides can be exchanged if the sides do not
//! differ. They assume nothing else about the distribution.

use statrs::function::factorial::ln_factorial;

/// Maximum number of enumerated arrangements: 2¹⁶. For more arrangements, a t-test of the
/// logarithms gives the same result.
const MAX_ARRANGEMENTS: u64 = 1 << 16;

/// Relative difference below which two means are treated as equal. Sums of the same values in
/// another order differ in their last bits because of rounding.
const ROUNDING: f64 = 1e-9;

/// Returns the chance that the mean of the differences of pairs is at least as far from 0 as
/// observed, if each sign is equally likely. `None`: no pairs, more than 16 pairs, or a value is
/// not finite.
///
/// All combinations of signs are enumerated. With n pairs, the chance is at least 2^(1 − n), so
/// five pairs cannot reach 5 %.
#[must_use]
pub fn pairs_chance(differences: &[f64]) -> Option<f64> {
    let n = differences.len();
    if n == 0 || !differences.iter().all(|d| d.is_finite()) || n > MAX_ARRANGEMENTS.ilog2() as usize
    {
        return None;
    }
    let observed = differences.iter().sum::<f64>().abs() * (1.0 - ROUNDING);
    let sum = |signs: u64| -> f64 {
        differences.iter().enumerate().map(|(i, d)| if signs >> i & 1 == 1 { -d } else { *d }).sum()
    };
    let as_extreme = (0..1u64 << n).filter(|signs| sum(*signs).abs() >= observed).count();
    Some(as_extreme as f64 / (1u64 << n) as f64)
}

/// Returns the chance that the means of two samples are at least as far apart as observed, if each
/// value may belong to either sample. All divisions of the values into two samples are enumerated.
/// `None`: a sample is empty, a value is not finite, or there are more than 63 values or more than
/// 65,536 divisions.
#[must_use]
pub fn samples_chance(a: &[f64], b: &[f64]) -> Option<f64> {
    let pooled: Vec<f64> = a.iter().chain(b).copied().collect();
    if a.is_empty()
        || b.is_empty()
        || pooled.len() > 63
        || !pooled.iter().all(|value| value.is_finite())
        || choice_count(pooled.len() as u64, a.len() as u64) > MAX_ARRANGEMENTS
    {
        return None;
    }
    let total: f64 = pooled.iter().sum();
    let mean_difference = |sum_a: f64| sum_a / a.len() as f64 - (total - sum_a) / b.len() as f64;
    let observed = mean_difference(a.iter().sum()).abs() * (1.0 - ROUNDING);
    let (mut as_extreme, mut divisions) = (0u64, 0u64);
    visit_choice_sums(&pooled, a.len(), 0.0, &mut |sum_a| {
        divisions += 1;
        as_extreme += u64::from(mean_difference(sum_a).abs() >= observed);
    });
    Some(as_extreme as f64 / divisions as f64)
}

/// Returns the chance that at least this many items of `b` are marked, if the marks are distributed
/// at random (Fisher's exact test). The one-sided chance is doubled for both directions. Arguments:
/// the numbers of marked items and of all items, of `a` and of `b`.
#[must_use]
pub fn counts_chance((marked_a, all_a): (usize, usize), (marked_b, all_b): (usize, usize)) -> f64 {
    let (all, marked) = ((all_a + all_b) as u64, (marked_a + marked_b) as u64);
    let ln_choices =
        |n: u64, chosen: u64| ln_factorial(n) - ln_factorial(chosen) - ln_factorial(n - chosen);
    let chance = |in_b: u64| {
        (ln_choices(all_b as u64, in_b) + ln_choices(all_a as u64, marked - in_b)
            - ln_choices(all, marked))
        .exp()
    };
    let one_sided: f64 = (marked_b as u64..=marked.min(all_b as u64)).map(chance).sum();
    (2.0 * one_sided).min(1.0)
}

/// Calls `visit` with the sum of each choice of `chosen` values, added to `sum`.
fn visit_choice_sums(values: &[f64], chosen: usize, sum: f64, visit: &mut impl FnMut(f64)) {
    if chosen == 0 {
        visit(sum);
    } else if let Some((first, rest)) = values.split_first()
        && chosen <= values.len()
    {
        visit_choice_sums(rest, chosen - 1, sum + first, visit);
        visit_choice_sums(rest, chosen, sum, visit);
    }
}

/// Returns the binomial coefficient: the number of ways to choose `chosen` of `n` items. If a
/// product does not fit in 64 bits, the result is too small, but far above [`MAX_ARRANGEMENTS`].
/// `n`: at most 63.
fn choice_count(n: u64, chosen: u64) -> u64 {
    (0..chosen.min(n - chosen)).fold(1u64, |ways, k| ways.saturating_mul(n - k) / (k + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five marks among ten items have 252 arrangements. In one of them the second side has all.
    #[test]
    fn counts_chance_is_doubled_one_sided_chance() {
        assert!((counts_chance((0, 5), (5, 5)) - 2.0 / 252.0).abs() < 1e-12);
        // Four marks have 210 arrangements. In five of them the second side has all.
        assert!((counts_chance((0, 5), (4, 5)) - 2.0 * 5.0 / 210.0).abs() < 1e-12);
        assert_eq!(
            (
                counts_chance((5, 5), (5, 5)),
                counts_chance((5, 5), (0, 5)),
                counts_chance((0, 0), (3, 3))
            ),
            (1.0, 1.0, 1.0)
        );
    }

    #[test]
    fn permutation_rejects_infinite_values() {
        let infinite = [f64::NEG_INFINITY; 5];
        assert_eq!(
            (samples_chance(&infinite, &[1.0, 2.0, 3.0, 4.0, 5.0]), pairs_chance(&infinite)),
            (None, None)
        );
    }

    /// Made by `tests/vectors/verdicts.py` with scipy.
    #[test]
    fn pairs_chance_matches_scipy() {
        let vectors: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/vectors/verdicts.json")).unwrap();
        let cases = vectors["sign_flips"].as_array().unwrap();
        assert!(cases.len() >= 10);
        for case in cases {
            let logs: Vec<f64> =
                case["logs"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            assert_eq!(pairs_chance(&logs), case["p"].as_f64(), "{case}");
        }
    }

    #[test]
    fn pairs_chance_of_equal_signs_is_least_possible() {
        assert_eq!(pairs_chance(&[0.1; 5]), Some(2.0 / 32.0));
        assert_eq!(pairs_chance(&[-0.1, -0.2, -0.3]), Some(2.0 / 8.0));
        assert_eq!(pairs_chance(&[0.1, -0.1]), Some(1.0));
        assert_eq!((pairs_chance(&[]), pairs_chance(&[1.0; 17])), (None, None));
    }

    #[test]
    fn samples_chance_of_separate_samples_is_least_possible() {
        assert_eq!(samples_chance(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), Some(2.0 / 20.0));
        // Groups of unequal sizes have no mirror image.
        assert_eq!(samples_chance(&[1.0, 2.0], &[4.0, 5.0, 6.0]), Some(1.0 / 10.0));
        assert_eq!(samples_chance(&[2.0; 4], &[2.0; 3]), Some(1.0));
        assert_eq!(
            (samples_chance(&[], &[1.0]), samples_chance(&[1.0; 20], &[1.0; 20])),
            (None, None)
        );
    }

    #[test]
    fn choice_sums_visit_every_choice_once() {
        assert_eq!(
            (choice_count(5, 2), choice_count(20, 10), choice_count(3, 0)),
            (10, 184_756, 1)
        );
        let mut visited = 0;
        visit_choice_sums(&[1.0; 8], 3, 0.0, &mut |sum| {
            assert_eq!(sum, 3.0);
            visited += 1;
        });
        assert_eq!(visited, choice_count(8, 3));
    }
}
