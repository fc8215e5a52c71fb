//! Estimates the ratio of two sides over repeats, with intervals and p-values.
//!
//! All computations use logarithms, so that a ratio and its inverse have equal weight. Student's t
//! (1908) is used for pairs, and Welch's form of this test (1947) for two samples. A bootstrap of
//! five to ten values is not used, because its coverage is too low: 84 % instead of 95 % for the
//! mean of five values.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ChiSquared, ContinuousCDF as _, Normal, StudentsT};

use super::moments::Moments;
use super::skew::are_skewed;
use super::{Looks, PAIRS_TO_TELL_APART, REPEATS_FOR_INTERVAL};

/// Chance of a false alarm that tests and intervals allow (significance level).
pub const ALPHA: f64 = 0.05;

/// Chance with which a difference of [`Estimate::detectable`] is found (power).
const POWER: f64 = 0.8;

/// A ratio of two sides, which both have at least [`REPEATS_FOR_INTERVAL`] repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// Geometric mean of the ratios.
    pub ratio: f64,
    /// 95 % interval of the ratio.
    pub low: f64,
    pub high: f64,
    /// Chance of a difference at least as large if there is none: 0 to 1, two-sided.
    pub p: f64,
    /// Smallest detectable ratio above 1: a true ratio of this size is significant in at least four
    /// of five comparisons like this one. In the rows of a comparison, it is corrected for all
    /// ratios that are tested together. The noise is itself an estimate, so an upper bound of the
    /// noise is used: in four of five comparisons, the true noise is below this bound. `None`: with
    /// so few pairs, no ratio is detectable.
    pub detectable: Option<f64>,
    /// Whether the interval is meant to be valid after every repeat, and the ratios are
    /// significantly skewed. If so, the interval is correct less often than stated.
    pub is_skewed: bool,
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) errors: Errors,
}

/// Errors of an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Errors {
    looks: Looks,
    /// Standard error of the mean of the logarithms.
    standard: f64,
    /// Degrees of freedom of the standard error.
    freedom: f64,
}

impl Errors {
    /// Returns the standard error times a factor; 0 for values without variance.
    fn scale(self, factor: f64) -> f64 {
        if self.standard == 0.0 { 0.0 } else { factor * self.standard }
    }

    /// Returns the difference that a test at `alpha` finds in four of five cases, in standard
    /// errors.
    fn detectable_factor(self, alpha: f64) -> f64 {
        detectable_difference(critical_value(self.looks, self.freedom, alpha), self.freedom)
    }
}

/// Returns the upper bound of a standard deviation, as a multiple of its estimate. The true value
/// is below this bound with the chance of [`POWER`]: √(f / χ²), where χ² is the quantile that is
/// exceeded with this chance (Snedecor and Cochran, "Statistical methods", 1989, section 5.11).
fn noise_bound(freedom: f64) -> f64 {
    let chi_squared = ChiSquared::new(freedom).expect("the degrees of freedom should be positive");
    (freedom / chi_squared.inverse_cdf(1.0 - POWER)).sqrt()
}

/// Returns the distance from 0 at which a mean is significant, in standard errors. It is half the
/// width of the interval.
fn critical_value(looks: Looks, freedom: f64, alpha: f64) -> f64 {
    match looks {
        Looks::AtTheEnd => student(freedom).inverse_cdf(1.0 - alpha / 2.0),
        Looks::AfterEach => critical_value_at_every_look(freedom + 1.0, alpha),
    }
}

/// Returns the true difference that is found with a chance of [`POWER`], in standard errors.
/// `critical`: the critical value of the test.
///
/// It is the quantile of the noncentral t, by the approximation of Johnson and Welch ("Applications
/// of the non-central t-distribution", 1940). With four or more degrees of freedom, the error of
/// the chance is at most 0.01.
fn detectable_difference(critical: f64, freedom: f64) -> f64 {
    if critical.is_infinite() {
        return critical;
    }
    let normal = Normal::standard().inverse_cdf(POWER);
    critical * (1.0 - 1.0 / (4.0 * freedom))
        + normal * (1.0 + critical.powi(2) / (2.0 * freedom)).sqrt()
}

/// Returns Student's t distribution with these degrees of freedom.
pub(super) fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("the degrees of freedom should be positive")
}

impl Estimate {
    /// Estimates the ratio from pairs at the end of a run. `None`: too few pairs, or a ratio is not
    /// a positive number.
    #[must_use]
    pub fn from_pairs(ratios: &[f64]) -> Option<Estimate> {
        Estimate::from_pairs_at(Looks::AtTheEnd, ratios)
    }

    /// Estimates the ratio from pairs. `looks`: whether the run checks its result after each
    /// repeat, or only at the end. `None`: too few pairs, or a ratio is not a positive number.
    #[must_use]
    pub fn from_pairs_at(looks: Looks, ratios: &[f64]) -> Option<Estimate> {
        Estimate::from_ratios(REPEATS_FOR_INTERVAL, looks, ratios)
    }

    /// Returns the p-value of the ratios of pairs. Three pairs suffice here, although they are too
    /// few for a useful interval. `None`: fewer than three pairs, or a ratio is not a positive
    /// number.
    #[must_use]
    pub fn chance(looks: Looks, ratios: &[f64]) -> Option<f64> {
        Estimate::from_ratios(PAIRS_TO_TELL_APART, looks, ratios).map(|estimate| estimate.p)
    }

    /// Estimates the ratio from at least `min_count` pairs.
    fn from_ratios(min_count: usize, looks: Looks, ratios: &[f64]) -> Option<Estimate> {
        let logs = Moments::from_values(min_count, ratios)?;
        let estimate_mean = match looks {
            Looks::AtTheEnd => Estimate::from_log_mean,
            Looks::AfterEach => Estimate::from_log_mean_at_every_look,
        };
        let is_skewed = looks == Looks::AfterEach && are_skewed(ratios);
        let estimate = estimate_mean(logs.mean, logs.variance / logs.n, logs.n - 1.0);
        Some(Estimate { is_skewed, ..estimate })
    }

    /// Estimates the mean ratio of these starts from the ratios of rounds within each start. The
    /// interval includes the scatter of rounds, but not the scatter of starts. `None`: too few
    /// rounds, a start with a single round, or a ratio that is not a positive number.
    #[must_use]
    pub fn from_rounds(starts: &[Vec<f64>]) -> Option<Estimate> {
        if starts.iter().map(Vec::len).sum::<usize>() < REPEATS_FOR_INTERVAL {
            return None;
        }
        let moments: Option<Vec<Moments>> =
            starts.iter().map(|rounds| Moments::from_values(2, rounds)).collect();
        let moments = moments.filter(|moments| !moments.is_empty())?;
        let n = moments.len() as f64;
        let variance_part = |start: &Moments| start.variance / start.n / (n * n);
        let variance: f64 = moments.iter().map(variance_part).sum();
        // Welch and Satterthwaite. If all variances are 0, this quotient is not a number, and any
        // freedom gives the same estimate.
        let freedom = variance.powi(2)
            / moments
                .iter()
                .map(|start| variance_part(start).powi(2) / (start.n - 1.0))
                .sum::<f64>();
        let max_freedom: f64 = moments.iter().map(|start| start.n - 1.0).sum();
        let mean = moments.iter().map(|start| start.mean).sum::<f64>() / n;
        Some(Estimate::from_log_mean(
            mean,
            variance,
            if freedom.is_finite() { freedom } else { max_freedom },
        ))
    }

    /// Estimates the ratio of `b` to `a` from unpaired repeats. `None`: too few repeats, or a value
    /// that is not a positive number.
    #[must_use]
    pub fn from_samples(a: &[f64], b: &[f64]) -> Option<Estimate> {
        let moments_of = |values| Moments::from_values(REPEATS_FOR_INTERVAL, values);
        let (a, b) = (moments_of(a)?, moments_of(b)?);
        let (variance_a, variance_b) = (a.variance / a.n, b.variance / b.n);
        let variance = variance_a + variance_b;
        // Welch and Satterthwaite. If all variances are 0, this quotient is not a number, and any
        // freedom gives the same estimate.
        let freedom = variance.powi(2)
            / (variance_a.powi(2) / (a.n - 1.0) + variance_b.powi(2) / (b.n - 1.0));
        let freedom = if freedom.is_finite() { freedom } else { a.n + b.n - 2.0 };
        Some(Estimate::from_log_mean(b.mean - a.mean, variance, freedom))
    }

    /// Returns the estimate from a mean of logarithms, its variance, and the degrees of freedom of
    /// the variance.
    fn from_log_mean(mean: f64, variance: f64, freedom: f64) -> Estimate {
        let error = variance.sqrt();
        let p = match error {
            0.0 if mean == 0.0 => 1.0,
            0.0 => 0.0,
            error => 2.0 * student(freedom).cdf(-(mean / error).abs()),
        };
        Estimate::from_errors(mean, p, Errors { looks: Looks::AtTheEnd, standard: error, freedom })
    }

    /// Returns the estimate from a mean of logarithms, its p-value and its errors.
    fn from_errors(mean: f64, p: f64, errors: Errors) -> Estimate {
        let half_width = errors.scale(critical_value(errors.looks, errors.freedom, ALPHA));
        Estimate {
            ratio: mean.exp(),
            low: (mean - half_width).exp(),
            high: (mean + half_width).exp(),
            p,
            detectable: None,
            is_skewed: false,
            errors,
        }
        .with_tests(1)
    }

    /// Sets the detectable difference for this number of tests that are corrected together. It uses
    /// the strictest level of Holm's procedure, so the true power is at least the stated one.
    #[must_use]
    pub(crate) fn with_tests(self, tests: usize) -> Estimate {
        let detectable =
            self.errors.scale(self.errors.detectable_factor(ALPHA / tests.max(1) as f64));
        let ratio = (detectable * noise_bound(self.errors.freedom)).exp();
        Estimate { detectable: Some(ratio).filter(|ratio| ratio.is_finite()), ..self }
    }
}

impl Estimate {
    /// Returns a wider interval: in 95 % of cases, this interval and the same intervals of all
    /// other tests contain the true ratios (Bonferroni). `None`: the interval is unbounded.
    #[must_use]
    pub(crate) fn interval_among(&self, tests: usize) -> Option<(f64, f64)> {
        let errors = self.errors;
        let half_width =
            errors.scale(critical_value(errors.looks, errors.freedom, ALPHA / tests.max(1) as f64));
        half_width
            .is_finite()
            .then(|| ((self.ratio.ln() - half_width).exp(), (self.ratio.ln() + half_width).exp()))
    }
}

/// Returns the standard deviation of the logarithms of repeats. `None`: fewer values than
/// `min_count`, or a value is not a positive number.
#[must_use]
pub(crate) fn scatter(min_count: usize, values: &[f64]) -> Option<f64> {
    Moments::from_values(min_count, values).map(|logs| logs.variance.sqrt())
}

/// Variance of the mixture of true differences, as a multiple of the variance of a pair. The
/// intervals are valid for differences of any size, and shortest for differences of this size.
/// About ten pairs distinguish servers that differ by one standard deviation.
const MIXTURE_VARIANCE: f64 = 1.0;

impl Estimate {
    /// Like [`Estimate::from_log_mean`], with an interval that remains valid if it is checked after
    /// every repeat. A run may therefore stop as soon as the interval is narrow enough.
    ///
    /// The interval contains the values that an e-process of Student's t does not exclude: the
    /// likelihood ratio of t under a normal mixture of true differences, against no difference. The
    /// chance that it ever exceeds 1 / p is at most p (Ville, 1939).
    ///
    /// Formula: Lindon, Ham, Tingley and Bojinov, "Anytime-valid linear models and regression
    /// adjusted causal inference in randomized experiments", 2022, theorem 3.4, for one
    /// coefficient. See also Wang and Ramdas, "Anytime-valid t-tests and confidence sequences for
    /// Gaussian means with unknown variance", 2023.
    fn from_log_mean_at_every_look(mean: f64, variance: f64, freedom: f64) -> Estimate {
        let error = variance.sqrt();
        let n = freedom + 1.0;
        let shrinkage = 1.0 / (1.0 + n * MIXTURE_VARIANCE);
        // Returns the p-value. `x`: t squared, divided by the degrees of freedom.
        let chance = |x: f64| {
            let inner = if x.is_finite() { (1.0 + shrinkage * x) / (1.0 + x) } else { shrinkage };
            (inner.powf(n / 2.0) / shrinkage.sqrt()).min(1.0)
        };
        let p = match error {
            0.0 if mean == 0.0 => 1.0,
            error => chance((mean / error).powi(2) / freedom),
        };
        Estimate::from_errors(mean, p, Errors { looks: Looks::AfterEach, standard: error, freedom })
    }
}

/// Returns half the width of the interval that is valid after every repeat, in standard errors of
/// the mean of `n` values. It is infinite for very few values.
fn critical_value_at_every_look(n: f64, alpha: f64) -> f64 {
    let shrinkage = 1.0 / (1.0 + n * MIXTURE_VARIANCE);
    let inner = (alpha * alpha * shrinkage).powf(1.0 / n);
    if inner > shrinkage {
        ((n - 1.0) * (1.0 - inner) / (inner - shrinkage)).sqrt()
    } else {
        f64::INFINITY
    }
}

/// Returns half the width of the 95 % interval of the mean of `n` values, and the difference that
/// is found in four of five cases. Both are in standard errors, and infinite for one value.
#[must_use]
pub fn standard_errors(looks: Looks, n: u32) -> (f64, f64) {
    if n < 2 {
        return (f64::INFINITY, f64::INFINITY);
    }
    let freedom = f64::from(n) - 1.0;
    let half_width = critical_value(looks, freedom, ALPHA);
    (half_width, detectable_difference(half_width, freedom))
}

/// Returns the 95 % interval of an estimate by the jackknife (Tukey, "Bias and confidence in not
/// quite large samples", 1958), with Student's t. `without`: for each launch, the estimate without
/// this launch. `None`: too few launches, or a value is not finite.
///
/// A bootstrap is not used, because its coverage is too low with few launches.
#[must_use]
pub fn jackknife(estimate: f64, without: &[f64]) -> Option<(f64, f64)> {
    let n = without.len() as f64;
    if without.len() < REPEATS_FOR_INTERVAL || !without.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mean = without.iter().sum::<f64>() / n;
    let squares: f64 = without.iter().map(|value| (value - mean).powi(2)).sum();
    let half_width =
        standard_errors(Looks::AtTheEnd, without.len() as u32).0 * (squares * (n - 1.0) / n).sqrt();
    Some((estimate - half_width, estimate + half_width))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::stats::Repeated;
    use crate::stats::draws::Normal;
    use crate::stats::holm;

    const SIMULATIONS: usize = 4000;

    impl Estimate {
        /// Returns the detectable ratio with the plain estimate of the noise. Half of these ratios
        /// are too low.
        fn detectable_by_estimate(&self) -> Option<f64> {
            let ratio = self.errors.scale(self.errors.detectable_factor(ALPHA)).exp();
            Some(ratio).filter(|ratio| ratio.is_finite())
        }
    }

    /// Returns the share of simulations in which a condition is true.
    fn share(seed: u64, mut holds: impl FnMut(&mut Normal) -> bool) -> f64 {
        let mut normal = Normal(seed);
        (0..SIMULATIONS).filter(|_| holds(&mut normal)).count() as f64 / SIMULATIONS as f64
    }

    #[test]
    fn jackknife_of_mean_is_student_interval() {
        let values = [1.0f64, 1.2, 0.9, 1.1, 1.4, 0.8];
        let n = values.len() as f64;
        let sum: f64 = values.iter().sum();
        let without: Vec<f64> = values.iter().map(|value| (sum - value) / (n - 1.0)).collect();
        let (low, high) = jackknife(sum / n, &without).unwrap();
        let ratios: Vec<f64> = values.iter().map(|value| value.exp()).collect();
        let student = Estimate::from_pairs(&ratios).unwrap();
        assert!((low - student.low.ln()).abs() < 1e-9 && (high - student.high.ln()).abs() < 1e-9);
        assert_eq!(jackknife(1.0, &without[..4]), None);
        assert_eq!(jackknife(1.0, &[1.0, 1.0, f64::NAN, 1.0, 1.0]), None);
    }

    #[test]
    fn round_intervals_have_stated_coverage() {
        for (starts, rounds) in [(1, 5), (1, 12), (3, 8), (4, 10)] {
            let coverage = share(starts as u64 * 100 + rounds as u64, |normal| {
                let effects: Vec<f64> = (0..starts).map(|_| 0.05 * normal.draw()).collect();
                let rounds_of =
                    |log: &f64| (0..rounds).map(|_| (log + 0.03 * normal.draw()).exp()).collect();
                let starts_with_rounds: Vec<Vec<f64>> = effects.iter().map(rounds_of).collect();
                let truth = (effects.iter().sum::<f64>() / starts as f64).exp();
                let estimate = Estimate::from_rounds(&starts_with_rounds).unwrap();
                (estimate.low..=estimate.high).contains(&truth)
            });
            assert!(
                (0.93..=0.97).contains(&coverage),
                "{starts} starts of {rounds} rounds: {coverage}"
            );
        }
        let even = Estimate::from_rounds(&[vec![1.02; 3], vec![1.04; 3]]).unwrap();
        assert!(
            even.low == even.high && (even.ratio - (1.02f64 * 1.04).sqrt()).abs() < 1e-12,
            "{even:?}"
        );
        assert_eq!(
            Estimate::from_rounds(&[vec![1.0; 4], vec![1.0]]),
            None,
            "of one round nothing is known"
        );
        assert_eq!(Estimate::from_rounds(&[vec![1.0; 4]]), None);
        assert_eq!(Estimate::from_rounds(&[]), None);
    }

    #[test]
    fn ratio_intervals_have_stated_coverage() {
        for n in [5, 8, 20] {
            let pairs = share(n as u64, |normal| {
                let ratios: Vec<f64> = normal.values(n, 1.05, 0.04);
                let e = Estimate::from_pairs(&ratios).unwrap();
                (e.low..=e.high).contains(&1.05)
            });
            assert!((0.93..=0.97).contains(&pairs), "{n} pairs: {pairs}");
            let samples = share(100 + n as u64, |normal| {
                // One side is three times as noisy as the other, and has more repeats.
                let (a, b) = (normal.values(n, 100.0, 0.02), normal.values(n + 3, 110.0, 0.06));
                let e = Estimate::from_samples(&a, &b).unwrap();
                (e.low..=e.high).contains(&1.1)
            });
            assert!((0.93..=0.97).contains(&samples), "{n} of two: {samples}");
        }
    }

    /// A spread of 0.8 is a skewed distribution with a long upper tail, as of measured times.
    #[test]
    fn median_intervals_have_stated_coverage() {
        for n in [5, 6, 7, 8, 10, 15, 20] {
            for spread in [0.05, 0.8] {
                let coverage = share(200 + n as u64, |normal| {
                    let (low, high) =
                        Repeated::new(normal.values(n, 100.0, spread)).interval.unwrap();
                    (low..=high).contains(&100.0)
                });
                assert!(
                    (0.93..=0.97).contains(&coverage),
                    "{n} at a spread of {spread}: {coverage}"
                );
            }
        }
    }

    #[test]
    fn detectable_difference_has_stated_power() {
        let share_found = |change: f64| {
            share(7, |normal| {
                let (a, b) =
                    (normal.values(10, 100.0, 0.03), normal.values(10, 100.0 * change, 0.03));
                Estimate::from_samples(&a, &b).unwrap().p < ALPHA
            })
        };
        let mut normal = Normal(8);
        let detectable = |_| {
            let (a, b) = (normal.values(10, 100.0, 0.03), normal.values(10, 100.0, 0.03));
            Estimate::from_samples(&a, &b).unwrap().detectable_by_estimate().unwrap().ln()
        };
        let mean = (0..SIMULATIONS).map(detectable).sum::<f64>() / SIMULATIONS as f64;
        let power = share_found(mean.exp());
        assert!((0.77..=0.83).contains(&power), "{power} at a ratio of {}", mean.exp());
        // 5 % at a spread of 3 %, ten repeats each: by the tables of Cohen (1988), d = 1.63, a
        // power of 0.93.
        let five = share_found(1.05);
        assert!((0.91..=0.96).contains(&five), "{five}");
        let alarms = share_found(1.0);
        assert!((0.04..=0.06).contains(&alarms), "{alarms}");
    }

    /// One of 5 or 25 tests by Holm's procedure has a difference, and all others have none.
    #[test]
    fn detectable_difference_has_stated_power_with_holm() {
        for (pairs, tests) in [(5, 5), (5, 25), (12, 5), (12, 25)] {
            let mut normal = Normal(9);
            let width = |_| {
                let e = Estimate::from_pairs(&normal.values(pairs, 1.0, 0.03))
                    .unwrap()
                    .with_tests(tests);
                // The mean square over simulations is the true variance.
                let log_ratio = e.detectable.unwrap().ln() / noise_bound(e.errors.freedom);
                (e.errors.detectable_factor(ALPHA / tests as f64), log_ratio.powi(2))
            };
            let widths: Vec<(f64, f64)> = (0..SIMULATIONS).map(width).collect();
            let change =
                (widths.iter().map(|(_, square)| square).sum::<f64>() / SIMULATIONS as f64).sqrt();
            let expected = widths[0].0 * 0.03 / (pairs as f64).sqrt();
            assert!((change / expected - 1.0).abs() < 0.05, "{change} {expected}");
            let power = share(10, |normal| {
                let p_value = |truth: f64, normal: &mut Normal| {
                    Estimate::from_pairs(&normal.values(pairs, truth, 0.03)).unwrap().p
                };
                let mut ps = vec![p_value(expected.exp(), normal)];
                ps.extend((1..tests).map(|_| p_value(1.0, normal)));
                holm(&ps)[0] < ALPHA
            });
            assert!((0.78..=0.84).contains(&power), "{pairs} pairs, {tests} tests: {power}");
        }
    }

    /// Four of five runs without a difference report a detectable ratio with at least the stated
    /// power. With the plain estimate of the noise, only half would.
    #[test]
    fn detectable_bound_holds_in_four_of_five_runs() {
        for n in [5, 8, 12] {
            let (mut significant, mut held, mut by_estimate) = (0, 0, 0);
            let mut normal = Normal(50 + n as u64);
            for _ in 0..SIMULATIONS {
                let e = Estimate::from_pairs(&normal.values(n, 1.0, 0.03)).unwrap();
                if e.p < ALPHA {
                    continue;
                }
                let needed = e.errors.detectable_factor(ALPHA) * 0.03 / (n as f64).sqrt();
                significant += 1;
                held += i32::from(e.detectable.unwrap().ln() >= needed);
                by_estimate += i32::from(e.detectable_by_estimate().unwrap().ln() >= needed);
            }
            let share = |count: i32| f64::from(count) / f64::from(significant);
            assert!((0.78..=0.86).contains(&share(held)), "{n}: {}", share(held));
            assert!(share(by_estimate) < 0.6, "{n}: {}", share(by_estimate));
        }
    }

    /// Checks after each pair, with a stop at the first significant one, keep the false alarm rate.
    #[test]
    fn sequential_intervals_have_stated_coverage() {
        let run_until_significant = |normal: &mut Normal, truth: f64, spread: f64| {
            let ratios = normal.values(40, truth, spread);
            let is_significant = |n: &usize| {
                let e = Estimate::from_pairs_at(Looks::AfterEach, &ratios[..*n]).unwrap();
                e.low > 1.0 || e.high < 1.0
            };
            let stopped = (5..=40).find(is_significant);
            let n = stopped.unwrap_or(40);
            (stopped.is_some(), Estimate::from_pairs_at(Looks::AfterEach, &ratios[..n]).unwrap(), n)
        };
        let alarms = share(40, |normal| run_until_significant(normal, 1.0, 0.03).0);
        assert!(alarms <= 0.05, "{alarms}");
        // Repeated checks of an interval for a fixed number of pairs cause too many false alarms.
        let peeked = share(40, |normal| {
            let ratios = normal.values(40, 1.0, 0.03);
            (5..=40).any(|n| Estimate::from_pairs(&ratios[..n]).unwrap().p < ALPHA)
        });
        assert!(peeked > 0.15, "{peeked}");
        let missed = share(41, |normal| {
            let (_, e, _) = run_until_significant(normal, 1.05, 0.04);
            !(e.low..=e.high).contains(&1.05)
        });
        assert!(missed <= 0.05, "{missed}");
        // A difference as large as the spread is nearly always found, within 8 to 20 pairs.
        let mut pairs_taken = Vec::new();
        let found = share(42, |normal| {
            let (found, _, n) = run_until_significant(normal, 1.05, 0.05);
            pairs_taken.push(n);
            found
        });
        pairs_taken.sort_unstable();
        assert!(found > 0.98, "{found}");
        assert!(
            (8..=20).contains(&pairs_taken[pairs_taken.len() / 2]),
            "{}",
            pairs_taken[pairs_taken.len() / 2]
        );
        // The p-value and the interval agree.
        let agree = share(43, |normal| {
            let e =
                Estimate::from_pairs_at(Looks::AfterEach, &normal.values(9, 1.04, 0.03)).unwrap();
            (e.p < ALPHA) == (e.low > 1.0 || e.high < 1.0)
        });
        assert_eq!(agree, 1.0);
        let exact = Estimate::from_pairs_at(Looks::AfterEach, &[2.0; 8]).unwrap();
        assert!(exact.p < ALPHA && (exact.low - 2.0).abs() < 1e-12, "{exact:?}");
        assert_eq!(Estimate::from_pairs_at(Looks::AfterEach, &[1.0; 8]).unwrap().p, 1.0);
    }

    /// Includes three launches, which have no interval.
    #[test]
    fn chance_of_few_pairs_has_stated_alarm_rate() {
        for n in [3, 4, 6] {
            let alarms = share(30 + n as u64, |normal| {
                Estimate::chance(Looks::AtTheEnd, &normal.values(n, 1.0, 0.03)).unwrap() < ALPHA
            });
            assert!((0.04..=0.06).contains(&alarms), "{n}: {alarms}");
        }
        assert_eq!(Estimate::chance(Looks::AtTheEnd, &[1.1, 1.1]), None);
    }

    #[test]
    fn holm_keeps_false_alarm_rate() {
        let alarms = share(9, |normal| {
            let p = |_| Estimate::from_pairs(&normal.values(6, 1.0, 0.05)).unwrap().p;
            let ps: Vec<f64> = (0..12).map(p).collect();
            holm(&ps).iter().any(|p| *p < ALPHA)
        });
        assert!((0.035..=0.06).contains(&alarms), "{alarms}");
    }

    /// Made by `tests/vectors/estimates.py` with scipy.
    #[test]
    fn estimates_and_holm_match_scipy() {
        let text = include_str!("../../tests/vectors/estimates.json");
        let vectors: Value = serde_json::from_str(text).unwrap();
        let list = |value: &Value| -> Vec<f64> {
            value.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect()
        };
        let assert_near = |computed: f64, expected: &Value| {
            let expected = expected.as_f64().unwrap();
            assert!(
                (computed - expected).abs() <= 1e-9 * expected.abs().max(1e-3),
                "{computed} and {expected}"
            );
        };
        let cases = vectors["cases"].as_array().unwrap();
        assert!(cases.len() > 10);
        for case in cases {
            let (a, b) = (list(&case["a"]), list(&case["b"]));
            let e = match case["of"].as_str().unwrap() {
                "pairs" => {
                    let ratios: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b / a).collect();
                    Estimate::from_pairs(&ratios).unwrap()
                }
                _ => Estimate::from_samples(&a, &b).unwrap(),
            };
            assert_near(e.ratio, &case["ratio"]);
            assert_near(e.low, &case["low"]);
            assert_near(e.high, &case["high"]);
            assert_near(e.p, &case["p"]);
        }
        for case in vectors["holm"].as_array().unwrap() {
            holm(&list(&case["p"])).iter().zip(list(&case["adjusted"])).for_each(
                |(adjusted, expected)| {
                    assert!((adjusted - expected).abs() < 1e-12, "{adjusted} and {expected}");
                },
            );
        }
    }

    #[test]
    fn estimate_requires_enough_positive_values() {
        assert_eq!(Estimate::from_pairs(&[1.0; 4]), None);
        assert_eq!(Estimate::from_samples(&[1.0; 5], &[1.0; 4]), None);
        assert_eq!(Estimate::from_pairs(&[1.0, 1.0, 1.0, 1.0, 0.0]), None);
        assert_eq!(Estimate::from_samples(&[1.0, f64::NAN, 1.0, 1.0, 1.0], &[1.0; 5]), None);
        let same = Estimate::from_samples(&[2.0; 5], &[2.0; 6]).unwrap();
        assert_eq!(
            (same.ratio, same.low, same.high, same.p, same.detectable),
            (1.0, 1.0, 1.0, 1.0, Some(1.0))
        );
        let exact = Estimate::from_pairs(&[2.0; 5]).unwrap();
        assert_eq!((exact.p, exact.detectable), (0.0, Some(1.0)));
        assert!((exact.low - 2.0).abs() < 1e-12 && (exact.high - 2.0).abs() < 1e-12);
        assert_eq!(holm(&[]), [0.0; 0]);
    }
}
