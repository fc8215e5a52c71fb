//! Between which values of a sample a quantile of what it was drawn from lies.

use statrs::distribution::{Binomial, ContinuousCDF as _, DiscreteCDF as _, Normal};

use super::ALPHA;

/// The ranks, counted from 1, of the two values between which the quantile `q` (0 to 1) of a
/// distribution lies in 95 of 100 samples of `n`, whatever the distribution (Thompson 1936;
/// Conover, "Practical nonparametric statistics", §3.2). `None`: no value of so small a sample
/// bounds it on that side.
///
/// It takes values that do not depend on each other. Response times of one load do: a stall is in
/// many of them. So this is the least that a percentile of one load may be off.
#[must_use]
pub fn ranks(n: u64, q: f64) -> (Option<u64>, Option<u64>) {
    if n > EXACT {
        return near(n as f64, q);
    }
    let Ok(below) = Binomial::new(q, n) else { return (None, None) };
    let tail = ALPHA / 2.0;
    // The largest rank whose value is above the quantile seldom enough: no more than the tail has
    // fewer values below the quantile.
    let first_above = below.inverse_cdf(tail);
    let low = if below.cdf(first_above) <= tail { first_above + 1 } else { first_above };
    // The smallest rank whose value is below the quantile seldom enough.
    let upper = below.inverse_cdf(1.0 - tail);
    let high = upper + 1;
    ((low >= 1).then_some(low), (high <= n).then_some(high))
}

/// The largest sample whose ranks come from the binomial distribution. Ranks of larger samples come
/// from the normal approximation, a few ranks in a million off.
const EXACT: u64 = 1_000_000;

fn near(n: f64, q: f64) -> (Option<u64>, Option<u64>) {
    let half = Normal::standard().inverse_cdf(1.0 - ALPHA / 2.0) * (n * q * (1.0 - q)).sqrt();
    let rank = |at: f64| Some(at as u64).filter(|_| at >= 1.0 && at <= n);
    (rank((n * q - half).floor()), rank((n * q + half).ceil() + 1.0))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Made by `tests/vectors/verdicts.py` with scipy.
    #[test]
    fn ranks_are_those_of_scipy() {
        let all: Value =
            serde_json::from_str(include_str!("../../tests/vectors/verdicts.json")).unwrap();
        let cases = all["quantiles"].as_array().unwrap();
        assert!(cases.len() >= 10);
        for case in cases {
            let found = ranks(case["n"].as_u64().unwrap(), case["q"].as_f64().unwrap());
            // Theirs are counted from 0.
            let theirs = |key: &str| case[key].as_u64().map(|rank| rank + 1);
            assert_eq!(found, (theirs("low"), theirs("high")), "{case}");
        }
    }

    #[test]
    fn of_a_large_sample_they_are_nearly_those_of_the_binomial_distribution() {
        for q in [0.5, 0.99, 0.999] {
            let (exact, near) = (ranks(EXACT, q), near(EXACT as f64, q));
            let apart = |a: Option<u64>, b: Option<u64>| a.unwrap().abs_diff(b.unwrap());
            assert!(
                apart(exact.0, near.0) <= 3 && apart(exact.1, near.1) <= 3,
                "{q}: {exact:?} {near:?}"
            );
        }
        let all = ranks(u64::MAX, 0.5);
        assert!(all.0.is_some() && all.1.is_some());
    }

    #[test]
    fn sample_too_small_has_no_bound() {
        assert_eq!(
            ranks(5, 0.5),
            (None, None),
            "all five lie below the median in 3 of 100 samples"
        );
        assert_eq!(ranks(6, 0.5), (Some(1), Some(6)));
        assert_eq!(ranks(0, 0.5), (None, None));
    }
}
