//! Models the growth of throughput with the number of requests in flight, by the Universal
//! Scalability Law and the knee of the curve.

use statrs::distribution::ContinuousCDF as _;

use super::{ALPHA, median, student};

/// The Universal Scalability Law (Gunther, "Guerrilla Capacity Planning", 2007): with `n` requests
/// in flight, throughput is λn / (1 + σ(n − 1) + κn(n − 1)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// Throughput with one request in flight.
    pub lambda: f64,
    /// Contention: share of the work that is serial.
    pub sigma: f64,
    /// Coherency: cost of each pair of requests in flight.
    pub kappa: f64,
}

impl Law {
    /// Returns the throughput with `n` requests in flight.
    #[must_use]
    pub fn throughput(&self, n: f64) -> f64 {
        self.lambda * n / slowdown(n, self.sigma, self.kappa)
    }

    /// Returns the number of requests in flight with the highest throughput, at least 1; `None`:
    /// throughput never falls.
    #[must_use]
    pub fn peak(&self) -> Option<f64> {
        let falls = self.kappa > 0.0 || self.sigma > 1.0;
        // Where the derivative is 0.
        falls.then(|| {
            ((1.0 - self.sigma).max(0.0) / self.kappa.max(f64::MIN_POSITIVE)).sqrt().max(1.0)
        })
    }

    /// Returns the highest throughput, or its limit; `None`: the throughput grows without limit.
    #[must_use]
    pub fn max_throughput(&self) -> Option<f64> {
        match self.peak() {
            Some(n) => Some(self.throughput(n)),
            None => (self.sigma > 0.0).then(|| self.lambda / self.sigma),
        }
    }

    /// Fits the law to points (requests in flight, throughput), by least squares of the logarithms,
    /// without negative coefficients. `None`: fewer than three levels, or a value is not a positive
    /// number.
    #[must_use]
    pub fn fit(points: &[(f64, f64)]) -> Option<Law> {
        let mut levels: Vec<f64> = points.iter().map(|(n, _)| *n).collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        let are_positive =
            points.iter().all(|(n, x)| n.is_finite() && *n >= 1.0 && x.is_finite() && *x > 0.0);
        if levels.len() < 3 || !are_positive {
            return None;
        }
        let highest_level = levels.last().copied().unwrap_or(1.0);
        // Several starting points (σ, κ), because a search may end at a local minimum.
        let starts = [
            (0.1, 1e-2 / highest_level),
            (0.01, 1e-4),
            (0.5, 1e-6),
            (1e-3, 1.0 / (highest_level * highest_level)),
        ];
        Some(Law::fit_from(points, &starts, Search::EXACT))
    }

    /// Fits the law to points that nearly follow this law, such as a subset of its own points. This
    /// is faster than [`Law::fit`], and exact to three digits or more.
    #[must_use]
    pub fn refit(&self, points: &[(f64, f64)]) -> Law {
        let start = (self.sigma.max(1e-6), self.kappa.max(1e-9));
        Law::fit_from(points, &[start], Search::QUICK)
    }

    /// Returns the best fit from several starting points (σ, κ).
    fn fit_from(points: &[(f64, f64)], starts: &[(f64, f64)], search: Search) -> Law {
        // The best fit may have a coefficient of 0, so fits with one coefficient fixed at 0 are
        // tried, too.
        let free = [(true, true), (true, false), (false, true)];
        let fits = free.into_iter().flat_map(|free| {
            starts.iter().map(move |start| minimize(points, *start, free, search))
        });
        let best = fits.fold((0.0, 0.0), |best, next| {
            if cost(points, next) < cost(points, best) { next } else { best }
        });
        Law { lambda: lambda(points, best), sigma: best.0, kappa: best.1 }
    }
}

/// Effort of the search for a fit.
#[derive(Clone, Copy)]
struct Search {
    steps: usize,
    /// Largest relative decrease of the cost in the last step.
    tolerance: f64,
}

impl Search {
    const EXACT: Search = Search { steps: 500, tolerance: 1e-17 };
    const QUICK: Search = Search { steps: 40, tolerance: 1e-7 };
}

/// Returns the divisor of the law: by how much `n` requests in flight slow each other down.
fn slowdown(n: f64, sigma: f64, kappa: f64) -> f64 {
    1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)
}

/// Returns the logarithm of the best λ for these coefficients. For each point, one λ fits exactly.
/// The best λ is the geometric mean of these.
fn log_lambda(points: &[(f64, f64)], (sigma, kappa): (f64, f64)) -> f64 {
    let by_point = points.iter().map(|(n, x)| (x * slowdown(*n, sigma, kappa) / n).ln());
    by_point.sum::<f64>() / points.len() as f64
}

/// Returns the best λ for these coefficients.
fn lambda(points: &[(f64, f64)], coefficients: (f64, f64)) -> f64 {
    log_lambda(points, coefficients).exp()
}

/// Returns the sum of the squared residuals of the logarithms.
fn cost(points: &[(f64, f64)], coefficients: (f64, f64)) -> f64 {
    residuals(points, coefficients).map(|r| r * r).sum()
}

/// Returns, for each point, the logarithm of the measured throughput divided by the law's
/// throughput.
fn residuals(points: &[(f64, f64)], (sigma, kappa): (f64, f64)) -> impl Iterator<Item = f64> {
    let mean = log_lambda(points, (sigma, kappa));
    points.iter().map(move |(n, x)| (x * slowdown(*n, sigma, kappa) / n).ln() - mean)
}

/// Minimizes the cost from a start by the method of Levenberg and Marquardt. The logarithms of the
/// free coefficients vary, which keeps the coefficients positive.
fn minimize(
    points: &[(f64, f64)],
    start: (f64, f64),
    (free_s, free_k): (bool, bool),
    search: Search,
) -> (f64, f64) {
    let mut current = (if free_s { start.0 } else { 0.0 }, if free_k { start.1 } else { 0.0 });
    let (mut damping, mut current_cost) = (1e-3, cost(points, current));
    for _ in 0..search.steps {
        let (gradient, curvature) = gradient_and_curvature(points, current);
        let step = solve(curvature, gradient, damping, (free_s, free_k));
        let next = (
            current.0 * (-step.0).clamp(-5.0, 5.0).exp(),
            current.1 * (-step.1).clamp(-5.0, 5.0).exp(),
        );
        let next_cost = cost(points, next);
        if next_cost <= current_cost {
            let is_done = current_cost - next_cost <= search.tolerance * current_cost.max(1e-300)
                && damping < 1e-4;
            (current, current_cost, damping) = (next, next_cost, (damping / 4.0).max(1e-15));
            if is_done {
                break;
            }
        } else {
            damping *= 8.0;
            if damping > 1e15 {
                break;
            }
        }
    }
    current
}

/// Returns the gradient of half the cost by the logarithms of the coefficients, and the
/// Gauss-Newton approximation of its curvature: (σσ, σκ, κκ).
fn gradient_and_curvature(
    points: &[(f64, f64)],
    (sigma, kappa): (f64, f64),
) -> ((f64, f64), (f64, f64, f64)) {
    let scaled_gradient = |n: f64| {
        let slowed = slowdown(n, sigma, kappa);
        (sigma * (n - 1.0) / slowed, kappa * n * (n - 1.0) / slowed)
    };
    let count = points.len() as f64;
    let mean = points
        .iter()
        .map(|(n, _)| scaled_gradient(*n))
        .fold((0.0, 0.0), |(a, b), (s, k)| (a + s, b + k));
    let (mean_s, mean_k) = (mean.0 / count, mean.1 / count);
    let mut gradient = (0.0, 0.0);
    let mut curvature = (0.0, 0.0, 0.0);
    for ((n, _), residual) in points.iter().zip(residuals(points, (sigma, kappa))) {
        let (s, k) = scaled_gradient(*n);
        let (s, k) = (s - mean_s, k - mean_k);
        gradient = (gradient.0 + residual * s, gradient.1 + residual * k);
        curvature = (curvature.0 + s * s, curvature.1 + s * k, curvature.2 + k * k);
    }
    (gradient, curvature)
}

/// Returns the damped Newton step of the free coefficients.
fn solve(
    (ss, sk, kk): (f64, f64, f64),
    (s, k): (f64, f64),
    damping: f64,
    free: (bool, bool),
) -> (f64, f64) {
    let (ss, kk) = (ss * (1.0 + damping) + 1e-300, kk * (1.0 + damping) + 1e-300);
    match free {
        (true, true) => {
            let determinant = ss * kk - sk * sk;
            ((s * kk - k * sk) / determinant, (k * ss - s * sk) / determinant)
        }
        (true, false) => (s / ss, 0.0),
        (false, true) => (0.0, k / kk),
        (false, false) => (0.0, 0.0),
    }
}

/// One measured point of a curve: block, requests in flight, and throughput.
pub type ScalingPoint = (u32, f64, f64);

/// Returns the knee of a throughput curve: the level above which more requests in flight add
/// little.
///
/// It is the point farthest above the line from the first to the highest level, with logarithmic
/// levels and both axes scaled to 1 (Satopää et al., "Finding a kneedle in a haystack", 2011).
/// `None`: fewer than four levels, a rise below 5 %, or no point that is above the line by more
/// than a tenth of the rise and more than the noise. Also `None` with a single repeat, because its
/// noise is unknown.
#[must_use]
pub fn knee(points: &[ScalingPoint]) -> Option<f64> {
    const MIN_HEIGHT: f64 = 0.1;
    const MIN_RISE: f64 = 1.05;
    let curve = Curve::new(points)?;
    let top = curve.levels.iter().enumerate().max_by(|(_, a), (_, b)| a.rps.total_cmp(&b.rps))?.0;
    let (first, last, highest) = (*curve.levels.first()?, *curve.levels.last()?, curve.levels[top]);
    if curve.levels.len() < 4 || highest.rps < first.rps * MIN_RISE {
        return None;
    }
    let relative_position = |at: &Level| (at.log_n - first.log_n) / (last.log_n - first.log_n);
    let height_above_line =
        |at: &Level| (at.rps - first.rps) / (highest.rps - first.rps) - relative_position(at);
    let knee =
        curve.levels.iter().max_by(|a, b| height_above_line(a).total_cmp(&height_above_line(b)))?;
    let height = height_above_line(knee) * (highest.rps - first.rps);
    // The height is the knee minus a weighted mean of the first and the highest level, so the
    // errors of these three levels add up.
    let parts =
        [(1.0, *knee), (1.0 - relative_position(knee), first), (relative_position(knee), highest)];
    (height_above_line(knee) >= MIN_HEIGHT && height > curve.noise_bound(&parts)?)
        .then(|| knee.log_n.exp())
}

/// The levels of a curve, and the scatter of its values around them.
struct Curve {
    levels: Vec<Level>,
    /// Standard deviation of the logarithm of a value, and its degrees of freedom; `None`: unknown.
    noise: Option<(f64, f64)>,
}

#[derive(Clone, Copy)]
struct Level {
    log_n: f64,
    /// Median of the level's values, each corrected for the mean effect of its block.
    rps: f64,
    repeats: f64,
}

impl Curve {
    /// Computes the levels of points; `None`: a value is not positive, or there are no values.
    fn new(points: &[ScalingPoint]) -> Option<Curve> {
        if points.is_empty()
            || points.iter().any(|(_, n, x)| !(*n > 0.0 && *x > 0.0 && x.is_finite()))
        {
            return None;
        }
        let mut levels: Vec<f64> = points.iter().map(|(_, n, _)| *n).collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        let mut blocks: Vec<u32> = points.iter().map(|(block, ..)| *block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let mean = |logs: Vec<f64>| logs.iter().sum::<f64>() / logs.len() as f64;
        let means: Vec<f64> =
            levels.iter().map(|level| mean(logs_at(points, *level).collect())).collect();
        let level_index = |n: f64| {
            levels.iter().position(|level| *level == n).expect("each point should have a level")
        };
        let block_effect = |block: u32| {
            let points_of_block =
                points.iter().filter(|(points_of_block, ..)| *points_of_block == block);
            mean(points_of_block.map(|(_, n, x)| x.ln() - means[level_index(*n)]).collect())
        };
        let corrected: Vec<ScalingPoint> = points
            .iter()
            .map(|(block, n, x)| (*block, *n, (x.ln() - block_effect(*block)).exp()))
            .collect();
        let squares: f64 =
            corrected.iter().map(|(_, n, x)| (x.ln() - means[level_index(*n)]).powi(2)).sum();
        let freedom = (points.len() + 1) as f64 - (levels.len() + blocks.len()) as f64;
        let level = |n: &f64| {
            let values: Vec<f64> = logs_at(&corrected, *n).map(f64::exp).collect();
            Some(Level { log_n: n.ln(), rps: median(&values)?, repeats: values.len() as f64 })
        };
        let noise = (freedom >= 1.0).then(|| ((squares / freedom).sqrt(), freedom));
        Some(Curve { levels: levels.iter().filter_map(level).collect(), noise })
    }

    /// Returns the bound that a weighted sum of levels exceeds by chance in one curve of twenty,
    /// corrected for all choices of highest level and knee (Bonferroni). The variance of a median
    /// is π / 2 times the variance of a mean. `None`: the noise is unknown.
    fn noise_bound(&self, parts: &[(f64, Level)]) -> Option<f64> {
        let (noise, freedom) = self.noise?;
        let levels = self.levels.len() as f64;
        let variance: f64 =
            parts.iter().map(|(weight, at)| (weight * at.rps).powi(2) / at.repeats).sum();
        let quantile = student(freedom).inverse_cdf(1.0 - ALPHA / (levels * (levels - 1.0)));
        Some(quantile * noise * (variance * std::f64::consts::FRAC_PI_2).sqrt())
    }
}

/// Returns the logarithms of the throughputs at a level.
fn logs_at(points: &[ScalingPoint], level: f64) -> impl Iterator<Item = f64> {
    points.iter().filter(move |(_, n, _)| *n == level).map(|(_, _, x)| x.ln())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::stats::draws::Normal;

    const LEVELS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

    fn points(law: Law) -> Vec<(f64, f64)> {
        LEVELS.map(|n| (n, law.throughput(n))).to_vec()
    }

    /// Made by `tests/vectors/verdicts.py` with scipy.
    #[test]
    fn law_fit_matches_scipy() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../tests/vectors/verdicts.json")).unwrap();
        let cases = vectors["usl"].as_array().unwrap();
        assert!(cases.len() >= 8);
        for case in cases {
            let list = |key: &str| -> Vec<f64> {
                case[key].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
            };
            let points: Vec<(f64, f64)> = list("n").into_iter().zip(list("x")).collect();
            let law = Law::fit(&points).unwrap();
            let assert_near = |fitted: f64, key: &str, min_difference: f64| {
                let expected = case[key].as_f64().unwrap();
                assert!(
                    (fitted - expected).abs() <= 1e-5 * expected.abs() + min_difference,
                    "{key}: {fitted} and {expected} in {case}"
                );
            };
            assert_near(law.lambda, "lambda", 1e-9);
            assert_near(law.sigma, "sigma", 1e-8);
            assert_near(law.kappa, "kappa", 1e-10);
            assert_near(cost(&points, (law.sigma, law.kappa)), "cost", 1e-12);
        }
    }

    #[test]
    fn law_fit_recovers_exact_law() {
        for truth in [
            Law { lambda: 1000.0, sigma: 0.02, kappa: 1e-4 },
            Law { lambda: 40.0, sigma: 0.3, kappa: 0.0 },
            Law { lambda: 7e5, sigma: 0.0, kappa: 2e-5 },
        ] {
            let law = Law::fit(&points(truth)).unwrap();
            LEVELS.iter().for_each(|n| {
                assert!((law.throughput(*n) / truth.throughput(*n) - 1.0).abs() < 1e-6, "{law:?}");
            });
        }
        let law = Law { lambda: 1000.0, sigma: 0.02, kappa: 1e-4 };
        assert!((law.peak().unwrap() - 98.99).abs() < 0.01);
        assert!(
            law.max_throughput().unwrap() >= law.throughput(90.0)
                && law.max_throughput().unwrap() >= law.throughput(110.0)
        );
        let growing = Law { lambda: 10.0, sigma: 0.0, kappa: 0.0 };
        assert_eq!((growing.peak(), growing.max_throughput()), (None, None));
        assert_eq!(Law { sigma: 0.5, ..growing }.max_throughput(), Some(20.0));
        // If a single request saturates the server, throughput falls from one request in flight on.
        for sigma in [1.0, 1.5] {
            let full = Law { sigma, kappa: 1e-3, ..growing };
            assert_eq!((full.peak(), full.max_throughput()), (Some(1.0), Some(full.lambda)));
        }
        assert_eq!(Law { sigma: 1.5, ..growing }.peak(), Some(1.0));
        assert_eq!(
            (Law { sigma: 1.0, ..growing }.peak(), Law { sigma: 1.0, ..growing }.max_throughput()),
            (None, Some(growing.lambda))
        );
    }

    #[test]
    fn law_fit_recovers_law_with_noise() {
        let truth = Law { lambda: 1000.0, sigma: 0.05, kappa: 2e-4 };
        let mut normal = Normal(5);
        for _ in 0..50 {
            let noisy: Vec<(f64, f64)> = LEVELS
                .iter()
                .map(|n| (*n, truth.throughput(*n) * (0.02 * normal.draw()).exp()))
                .collect();
            let law = Law::fit(&noisy).unwrap();
            LEVELS.iter().for_each(|n| {
                assert!((law.throughput(*n) / truth.throughput(*n)).ln().abs() < 0.08, "{law:?}");
            });
        }
    }

    #[test]
    fn law_fit_requires_three_positive_levels() {
        assert_eq!(Law::fit(&[(1.0, 1.0), (2.0, 2.0), (2.0, 2.1)]), None);
        assert_eq!(Law::fit(&[(1.0, 1.0), (2.0, 0.0), (4.0, 2.0)]), None);
        assert_eq!(Law::fit(&[(0.0, 1.0), (2.0, 1.0), (4.0, 2.0)]), None);
    }

    /// Returns noisy repeats of a curve.
    fn repeats(values: &[f64], noise: f64, repeats: u32, normal: &mut Normal) -> Vec<ScalingPoint> {
        let block_effect = |block: u32| {
            let start = (0.05 * normal.draw()).exp();
            let each = LEVELS.into_iter().zip(values);
            each.map(|(n, x)| (block, n, x * start * (noise * normal.draw()).exp()))
                .collect::<Vec<_>>()
        };
        (0..repeats).flat_map(block_effect).collect()
    }

    #[test]
    fn knee_is_where_growth_ends() {
        let knee_of = |values: &[f64]| knee(&repeats(values, 1e-4, 3, &mut Normal(1)));
        let is_near = |found: Option<f64>, level: f64| (found.unwrap() - level).abs() < 1e-9;
        assert!(is_near(knee_of(&[1.0, 2.0, 4.0, 8.0, 8.1, 8.0, 8.2, 8.1]), 8.0));
        assert!(is_near(knee_of(&[1.0, 2.0, 4.0, 8.0, 8.0, 7.0, 6.0, 4.0]), 8.0));
        assert_eq!(knee_of(&[5.0; 8]), None, "full with one");
        assert_eq!(
            knee_of(&[5.0, 5.1, 5.2, 5.2, 5.2, 5.2, 5.2, 5.2]),
            None,
            "full with one but for 4 %"
        );
        assert_eq!(knee_of(&[1.0, 2.0, 3.0]), None);
        assert_eq!(knee_of(&[8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]), None);
        let single_repeat =
            repeats(&[1.0, 2.0, 4.0, 8.0, 8.1, 8.0, 8.2, 8.1], 1e-4, 1, &mut Normal(1));
        assert_eq!(knee(&single_repeat), None, "the noise of one repeat is not known");
        assert_eq!(knee(&[]), None);
    }

    /// Returns the share of simulated curves that have a knee.
    fn knee_share(values: &[f64], noise: f64, launches: u32) -> f64 {
        const SIMULATIONS: u32 = 1000;
        let mut normal = Normal(u64::from(launches) + (noise * 1e4) as u64);
        let found = (0..SIMULATIONS)
            .filter(|_| knee(&repeats(values, noise, launches, &mut normal)).is_some());
        found.count() as f64 / f64::from(SIMULATIONS)
    }

    #[test]
    fn flat_and_straight_curves_have_no_knee() {
        let straight: Vec<f64> =
            (0..8).map(|doubling| 100.0 + 20.0 * f64::from(doubling)).collect();
        for (noise, launches) in [(0.01, 5), (0.05, 5), (0.1, 3), (0.05, 2), (0.02, 10)] {
            let flat = knee_share(&[100.0; 8], noise, launches);
            assert!(flat <= 0.05, "{noise} {launches}: {flat}");
            let straight = knee_share(&straight, noise, launches);
            assert!(straight <= 0.05, "{noise} {launches}: {straight}");
        }
    }

    #[test]
    fn knee_is_found_despite_noise() {
        let knee = [100.0, 195.0, 370.0, 600.0, 630.0, 640.0, 640.0, 635.0];
        for (noise, launches) in [(0.01, 3), (0.05, 5), (0.05, 3), (0.1, 5)] {
            let found = knee_share(&knee, noise, launches);
            assert!(found >= 0.95, "{noise} {launches}: {found}");
        }
        // A small knee with little noise.
        let found = knee_share(&[100.0, 110.0, 120.0, 121.0, 121.0, 121.0, 121.0, 121.0], 0.01, 5);
        assert!(found >= 0.95, "{found}");
    }
}
