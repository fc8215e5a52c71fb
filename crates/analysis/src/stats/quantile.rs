//! Finds the ranks of a sample's values between which a quantile of its distribution lies.

use statrs::distribution::{Binomial, ContinuousCDF as _, DiscreteCDF as _, Normal};

use super::ALPHA;

/// Returns the ranks, counted from 1, of the two values between which the quantile `q` (0 to 1) of
/// any distribution lies in 95 % of samples of `n` (Thompson 1936; Conover, "Practical
/// nonparametric statistics", §3.2). `None`: the sample is too small for a bound on that side.
///
/// Values are assumed to be independent. Response times of one load are not, because a stall
/// affects many of them. The true uncertainty of a percentile is therefore at least this large.
#[must_use]
pub fn rank_bounds(n: u64, q: f64) -> (Option<u64>, Option<u64>) {
    if n > MAX_EXACT_SAMPLE {
        return normal_rank_bounds(n as f64, q);
    }
    let Ok(below) = Binomial::new(q, n) else { return (None, None) };
    let tail = ALPHA / 2.0;
    // The largest rank whose value is above the quantile with a chance of at most `tail`.
    let lower = below.inverse_cdf(tail);
    let low = if below.cdf(lower) <= tail { lower + 1 } else { lower };
    // The smallest rank whose value is below the quantile with a chance of at most `tail`.
    let upper = below.inverse_cdf(1.0 - tail);
    let high = upper + 1;
    ((low >= 1).then_some(low), (high <= n).then_some(high))
}

/// Largest sample for which the binomial distribution is used. For larger samples, the error of the
/// normal approximation is a few ranks in a million.
const MAX_EXACT_SAMPLE: u64 = 1_000_000;

/// Returns the ranks of [`rank_bounds`] by the normal approximation.
fn normal_rank_bounds(n: f64, q: f64) -> (Option<u64>, Option<u64>) {
    let half_width = Normal::standard().inverse_cdf(1.0 - ALPHA / 2.0) * (n * q * (1.0 - q)).sqrt();
    let rank = |at: f64| Some(at as u64).filter(|_| at >= 1.0 && at <= n);
    (rank((n * q - half_width).floor()), rank((n * q + half_width).ceil() + 1.0))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Made by `tests/vectors/verdicts.py` with scipy.
    #[test]
    fn rank_bounds_match_scipy() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../tests/vectors/verdicts.json")).unwrap();
        let cases = vectors["quantiles"].as_array().unwrap();
        assert!(cases.len() >= 10);
        for case in cases {
            let found = rank_bounds(case["n"].as_u64().unwrap(), case["q"].as_f64().unwrap());
            // The ranks of scipy are counted from 0.
            let expected = |key: &str| case[key].as_u64().map(|rank| rank + 1);
            assert_eq!(found, (expected("low"), expected("high")), "{case}");
        }
    }

    #[test]
    fn normal_rank_bounds_are_close_to_exact_ones() {
        for q in [0.5, 0.99, 0.999] {
            let (exact, normal_rank_bounds) =
                (rank_bounds(MAX_EXACT_SAMPLE, q), normal_rank_bounds(MAX_EXACT_SAMPLE as f64, q));
            let distance = |a: Option<u64>, b: Option<u64>| a.unwrap().abs_diff(b.unwrap());
            assert!(
                distance(exact.0, normal_rank_bounds.0) <= 3
                    && distance(exact.1, normal_rank_bounds.1) <= 3,
                "{q}: {exact:?} {normal_rank_bounds:?}"
            );
        }
        let largest = rank_bounds(u64::MAX, 0.5);
        assert!(largest.0.is_some() && largest.1.is_some());
    }

    #[test]
    fn rank_bounds_require_enough_values() {
        assert_eq!(
            rank_bounds(5, 0.5),
            (None, None),
            "all five lie below the median in 3 of 100 samples"
        );
        assert_eq!(rank_bounds(6, 0.5), (Some(1), Some(6)));
        assert_eq!(rank_bounds(0, 0.5), (None, None));
    }
}
