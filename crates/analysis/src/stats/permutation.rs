//! Tests that ask nothing of a distribution but that it would be the same if the sides changed
//! places (Fisher 1935, Pitman 1937).

use statrs::function::factorial::ln_factorial;

/// Most arrangements that are enumerated: 2¹⁶. With more, a test of normal logarithms gives the
/// same result.
const ARRANGEMENTS: u64 = 1 << 16;

/// Means that differ by less than this share of the observed one are the same: sums in another
/// order are not equal to the last bit.
const ROUNDING: f64 = 1e-9;

/// Returns the chance that differences of pairs have a mean at least as far from 0 as theirs, if
/// each sign is equally likely. All signs are enumerated. With n pairs it is never below 2^(1 − n),
/// so that five cannot be below 5 %. `None`: no pairs, more than 16, or one is no number.
#[must_use]
pub fn pairs_chance(differences: &[f64]) -> Option<f64> {
    let n = differences.len();
    if n == 0 || !differences.iter().all(|d| d.is_finite()) || n > ARRANGEMENTS.ilog2() as usize {
        return None;
    }
    let least = differences.iter().sum::<f64>().abs() * (1.0 - ROUNDING);
    let sum = |signs: u64| -> f64 {
        differences.iter().enumerate().map(|(i, d)| if signs >> i & 1 == 1 { -d } else { *d }).sum()
    };
    let as_far = (0..1u64 << n).filter(|signs| sum(*signs).abs() >= least).count();
    Some(as_far as f64 / (1u64 << n) as f64)
}

/// Returns the chance that two samples have means at least as far apart as theirs, if each value
/// may belong to either. All divisions are enumerated. `None`: one is empty, there are more than
/// 65,536 divisions, or a value is no number.
#[must_use]
pub fn samples_chance(a: &[f64], b: &[f64]) -> Option<f64> {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    if a.is_empty()
        || b.is_empty()
        || all.len() > 63
        || !all.iter().all(|value| value.is_finite())
        || choices(all.len() as u64, a.len() as u64) > ARRANGEMENTS
    {
        return None;
    }
    let total: f64 = all.iter().sum();
    let apart = |of_a: f64| of_a / a.len() as f64 - (total - of_a) / b.len() as f64;
    let least = apart(a.iter().sum()).abs() * (1.0 - ROUNDING);
    let (mut as_far, mut looked_at) = (0u64, 0u64);
    each_choice(&all, a.len(), 0.0, &mut |of_a| {
        looked_at += 1;
        as_far += u64::from(apart(of_a).abs() >= least);
    });
    Some(as_far as f64 / looked_at as f64)
}

/// The chance that so many more of the second's are marked, by all ways to give the marks to both;
/// for both directions, so twice that of one (Fisher's exact test). Each: how many are marked, and
/// of how many.
#[must_use]
pub fn counts_chance((marked_a, all_a): (usize, usize), (marked_b, all_b): (usize, usize)) -> f64 {
    let (all, marked) = ((all_a + all_b) as u64, (marked_a + marked_b) as u64);
    let ln_choices = |n: u64, of: u64| ln_factorial(n) - ln_factorial(of) - ln_factorial(n - of);
    let chance = |in_b: u64| {
        (ln_choices(all_b as u64, in_b) + ln_choices(all_a as u64, marked - in_b)
            - ln_choices(all, marked))
        .exp()
    };
    let least = (marked_b as u64).max(marked.saturating_sub(all_a as u64));
    let of_one: f64 = (least..=marked.min(all_b as u64)).map(chance).sum();
    (2.0 * of_one).min(1.0)
}

/// The sum of each choice of so many of the values, added to `sum`.
fn each_choice(values: &[f64], of: usize, sum: f64, on: &mut impl FnMut(f64)) {
    if of == 0 {
        on(sum);
    } else if let Some((first, rest)) = values.split_first()
        && of <= values.len()
    {
        each_choice(rest, of - 1, sum + first, on);
        each_choice(rest, of, sum, on);
    }
}

/// In how many ways `of` things are chosen from `n`; at most what a number holds.
fn choices(n: u64, of: u64) -> u64 {
    (0..of.min(n - of)).fold(1u64, |ways, k| ways.saturating_mul(n - k) / (k + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: five marks among ten in 252 ways, of which one gives all to the second.
    #[test]
    fn marks_are_counted_by_all_ways_to_give_them() {
        assert!((counts_chance((0, 5), (5, 5)) - 2.0 / 252.0).abs() < 1e-12);
        // Four marks among ten in 210 ways, of which five give all to the second.
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
    fn what_is_no_number_is_not_exchanged() {
        let none = [f64::NEG_INFINITY; 5];
        assert_eq!(
            (samples_chance(&none, &[1.0, 2.0, 3.0, 4.0, 5.0]), pairs_chance(&none)),
            (None, None)
        );
    }

    /// Made by `tests/vectors/verdicts.py` with scipy.
    #[test]
    fn signs_are_those_of_scipy() {
        let all: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/vectors/verdicts.json")).unwrap();
        let cases = all["sign_flips"].as_array().unwrap();
        assert!(cases.len() >= 10);
        for case in cases {
            let logs: Vec<f64> =
                case["logs"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            assert_eq!(pairs_chance(&logs), case["p"].as_f64(), "{case}");
        }
    }

    #[test]
    fn pairs_that_all_say_the_same_are_two_of_all_signs() {
        assert_eq!(pairs_chance(&[0.1; 5]), Some(2.0 / 32.0));
        assert_eq!(pairs_chance(&[-0.1, -0.2, -0.3]), Some(2.0 / 8.0));
        assert_eq!(pairs_chance(&[0.1, -0.1]), Some(1.0));
        assert_eq!((pairs_chance(&[]), pairs_chance(&[1.0; 17])), (None, None));
    }

    #[test]
    fn two_samples_apart_are_two_of_all_divisions() {
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
    fn choices_are_counted() {
        assert_eq!((choices(5, 2), choices(20, 10), choices(3, 0)), (10, 184_756, 1));
        let mut seen = 0;
        each_choice(&[1.0; 8], 3, 0.0, &mut |sum| {
            assert_eq!(sum, 3.0);
            seen += 1;
        });
        assert_eq!(seen, choices(8, 3));
    }
}
