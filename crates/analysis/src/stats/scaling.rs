//! Growth of throughput with the number of requests at once.

use statrs::distribution::ContinuousCDF as _;

use super::{ALPHA, median, student};

/// The Universal Scalability Law (Gunther, "Guerrilla Capacity Planning", 2007): with `n` at once,
/// throughput is λn / (1 + σ(n − 1) + κn(n − 1)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// Throughput with one.
    pub lambda: f64,
    /// Contention: the share of work that only one can do at a time.
    pub sigma: f64,
    /// Coherency: what each costs each other.
    pub kappa: f64,
}

impl Law {
    #[must_use]
    pub fn throughput(&self, n: f64) -> f64 {
        self.lambda * n / slowdown(n, self.sigma, self.kappa)
    }

    /// Where throughput is the highest: 1 where each more takes from the first. `None`: it never
    /// falls.
    #[must_use]
    pub fn peak(&self) -> Option<f64> {
        let falls = self.kappa > 0.0 || self.sigma > 1.0;
        // Where the derivative is 0.
        falls.then(|| {
            ((1.0 - self.sigma).max(0.0) / self.kappa.max(f64::MIN_POSITIVE)).sqrt().max(1.0)
        })
    }

    /// Throughput that it nears or reaches, however many; `None`: it grows for ever.
    #[must_use]
    pub fn max_throughput(&self) -> Option<f64> {
        match self.peak() {
            Some(n) => Some(self.throughput(n)),
            None => (self.sigma > 0.0).then(|| self.lambda / self.sigma),
        }
    }

    /// The law that points (how many, throughput) follow the closest, by the squares of the
    /// logarithms' residuals. No coefficient is negative. `None`: there are fewer than three
    /// levels, or a value is not a positive number.
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
        let most = levels.last().copied().unwrap_or(1.0);
        let starts = [(0.1, 1e-2 / most), (0.01, 1e-4), (0.5, 1e-6), (1e-3, 1.0 / (most * most))];
        Some(Law::closest(points, &starts, Search::EXACT))
    }

    /// The law of points that nearly follow this one, such as some of those that it was fitted to:
    /// to three digits or more, and quicker.
    #[must_use]
    pub fn refit(&self, points: &[(f64, f64)]) -> Law {
        let start = (self.sigma.max(1e-6), self.kappa.max(1e-9));
        Law::closest(points, &[start], Search::QUICK)
    }

    fn closest(points: &[(f64, f64)], starts: &[(f64, f64)], search: Search) -> Law {
        // Each coefficient free, or held at 0, where the best may lie.
        let free = [(true, true), (true, false), (false, true)];
        let tries = free
            .into_iter()
            .flat_map(|free| starts.iter().map(move |start| descend(points, *start, free, search)));
        let best = tries.fold((0.0, 0.0), |best, next| {
            if cost(points, next) < cost(points, best) { next } else { best }
        });
        Law { lambda: lambda(points, best), sigma: best.0, kappa: best.1 }
    }
}

/// Effort of the search for a fit.
#[derive(Clone, Copy)]
struct Search {
    steps: usize,
    /// The share of the cost by which the last step may still have lowered it.
    tolerance: f64,
}

impl Search {
    const EXACT: Search = Search { steps: 500, tolerance: 1e-17 };
    const QUICK: Search = Search { steps: 40, tolerance: 1e-7 };
}

fn slowdown(n: f64, sigma: f64, kappa: f64) -> f64 {
    1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)
}

/// The logarithm of λ that suits the coefficients best is the mean of what it would be by each
/// point.
fn log_lambda(points: &[(f64, f64)], (sigma, kappa): (f64, f64)) -> f64 {
    let by_point = points.iter().map(|(n, x)| (x * slowdown(*n, sigma, kappa) / n).ln());
    by_point.sum::<f64>() / points.len() as f64
}

fn lambda(points: &[(f64, f64)], coefficients: (f64, f64)) -> f64 {
    log_lambda(points, coefficients).exp()
}

/// Sum of the squared residuals of the logarithms.
fn cost(points: &[(f64, f64)], coefficients: (f64, f64)) -> f64 {
    residuals(points, coefficients).map(|r| r * r).sum()
}

fn residuals(points: &[(f64, f64)], (sigma, kappa): (f64, f64)) -> impl Iterator<Item = f64> {
    let mean = log_lambda(points, (sigma, kappa));
    points.iter().map(move |(n, x)| (x * slowdown(*n, sigma, kappa) / n).ln() - mean)
}

/// Steps of Levenberg and Marquardt from a start, on the logarithms of the coefficients that are
/// free, which keeps them positive.
fn descend(
    points: &[(f64, f64)],
    start: (f64, f64),
    (free_s, free_k): (bool, bool),
    search: Search,
) -> (f64, f64) {
    let mut at = (if free_s { start.0 } else { 0.0 }, if free_k { start.1 } else { 0.0 });
    let (mut damping, mut now) = (1e-3, cost(points, at));
    for _ in 0..search.steps {
        let (gradient, curvature) = slopes(points, at);
        let step = solve(curvature, gradient, damping, (free_s, free_k));
        let next =
            (at.0 * (-step.0).clamp(-5.0, 5.0).exp(), at.1 * (-step.1).clamp(-5.0, 5.0).exp());
        let then = cost(points, next);
        if then <= now {
            let is_done = now - then <= search.tolerance * now.max(1e-300) && damping < 1e-4;
            (at, now, damping) = (next, then, (damping / 4.0).max(1e-15));
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
    at
}

/// The gradient of half the cost by the logarithms of the coefficients, and Gauss and Newton's part
/// of its curvature: (σσ, σκ, κκ).
fn slopes(points: &[(f64, f64)], (sigma, kappa): (f64, f64)) -> ((f64, f64), (f64, f64, f64)) {
    let by = |n: f64| {
        let slowed = slowdown(n, sigma, kappa);
        (sigma * (n - 1.0) / slowed, kappa * n * (n - 1.0) / slowed)
    };
    let count = points.len() as f64;
    let mean = points.iter().map(|(n, _)| by(*n)).fold((0.0, 0.0), |(a, b), (s, k)| (a + s, b + k));
    let (mean_s, mean_k) = (mean.0 / count, mean.1 / count);
    let mut gradient = (0.0, 0.0);
    let mut curvature = (0.0, 0.0, 0.0);
    for ((n, _), residual) in points.iter().zip(residuals(points, (sigma, kappa))) {
        let (s, k) = by(*n);
        let (s, k) = (s - mean_s, k - mean_k);
        gradient = (gradient.0 + residual * s, gradient.1 + residual * k);
        curvature = (curvature.0 + s * s, curvature.1 + s * k, curvature.2 + k * k);
    }
    (gradient, curvature)
}

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

/// One measured value of a curve: its block, how many at once, and the throughput.
pub type ScalingPoint = (u32, f64, f64);

/// The knee of a curve of throughput: the level from which on more at once brings little. It is the
/// point that lies the farthest above the line from the first to the last that rises, both scaled
/// to 1 (Satopää et al., "Finding a kneedle in a haystack", 2011), levels by their logarithm.
/// `None`: fewer than four levels, no rise by 5 %, no point above the line by a tenth of the rise,
/// or none by more than the noise; the noise of a single repeat is not known.
#[must_use]
pub fn knee(points: &[ScalingPoint]) -> Option<f64> {
    const ABOVE: f64 = 0.1;
    const RISE: f64 = 1.05;
    let curve = Curve::new(points)?;
    let top = curve.levels.iter().enumerate().max_by(|(_, a), (_, b)| a.rps.total_cmp(&b.rps))?.0;
    let (first, last, highest) = (*curve.levels.first()?, *curve.levels.last()?, curve.levels[top]);
    if curve.levels.len() < 4 || highest.rps < first.rps * RISE {
        return None;
    }
    let along = |at: &Level| (at.log_n - first.log_n) / (last.log_n - first.log_n);
    let above = |at: &Level| (at.rps - first.rps) / (highest.rps - first.rps) - along(at);
    let knee = curve.levels.iter().max_by(|a, b| above(a).total_cmp(&above(b)))?;
    let height = above(knee) * (highest.rps - first.rps);
    let parts = [(1.0, *knee), (1.0 - along(knee), first), (along(knee), highest)];
    (above(knee) >= ABOVE && height > curve.chance(&parts)?).then(|| knee.log_n.exp())
}

/// The levels of a curve, and how far its values scatter about them.
struct Curve {
    levels: Vec<Level>,
    /// Standard deviation of the logarithm of a value, and the degrees of freedom of that. `None`:
    /// not known.
    noise: Option<(f64, f64)>,
}

#[derive(Clone, Copy)]
struct Level {
    log_n: f64,
    /// Median of its values, each freed from what its block has in common over all levels.
    rps: f64,
    repeats: f64,
}

impl Curve {
    /// `None`: a value is not positive, or there are no values.
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
        let place =
            |n: f64| levels.iter().position(|level| *level == n).expect("each has its level");
        let of_block = |block: u32| {
            let own = points.iter().filter(|(own, ..)| *own == block);
            mean(own.map(|(_, n, x)| x.ln() - means[place(*n)]).collect())
        };
        let freed: Vec<ScalingPoint> = points
            .iter()
            .map(|(block, n, x)| (*block, *n, (x.ln() - of_block(*block)).exp()))
            .collect();
        let squares: f64 = freed.iter().map(|(_, n, x)| (x.ln() - means[place(*n)]).powi(2)).sum();
        let freedom = (points.len() + 1) as f64 - (levels.len() + blocks.len()) as f64;
        let level = |n: &f64| {
            let values: Vec<f64> = logs_at(&freed, *n).map(f64::exp).collect();
            Some(Level { log_n: n.ln(), rps: median(&values)?, repeats: values.len() as f64 })
        };
        let noise = (freedom >= 1.0).then(|| ((squares / freedom).sqrt(), freedom));
        Some(Curve { levels: levels.iter().filter_map(level).collect(), noise })
    }

    /// Bound that a weighted sum of levels exceeds by chance in one curve of twenty, whichever two
    /// levels are the highest and the knee (Bonferroni). A median has the variance of a mean times
    /// π / 2. `None`: the noise is not known.
    fn chance(&self, parts: &[(f64, Level)]) -> Option<f64> {
        let (noise, freedom) = self.noise?;
        let levels = self.levels.len() as f64;
        let variance: f64 =
            parts.iter().map(|(weight, at)| (weight * at.rps).powi(2) / at.repeats).sum();
        let quantile = student(freedom).inverse_cdf(1.0 - ALPHA / (levels * (levels - 1.0)));
        Some(quantile * noise * (variance * std::f64::consts::FRAC_PI_2).sqrt())
    }
}

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
    fn fits_are_those_of_scipy() {
        let all: Value =
            serde_json::from_str(include_str!("../../tests/vectors/verdicts.json")).unwrap();
        let cases = all["usl"].as_array().unwrap();
        assert!(cases.len() >= 8);
        for case in cases {
            let list = |key: &str| -> Vec<f64> {
                case[key].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
            };
            let points: Vec<(f64, f64)> = list("n").into_iter().zip(list("x")).collect();
            let law = Law::fit(&points).unwrap();
            let near = |own: f64, key: &str, least: f64| {
                let theirs = case[key].as_f64().unwrap();
                assert!(
                    (own - theirs).abs() <= 1e-5 * theirs.abs() + least,
                    "{key}: {own} and {theirs} in {case}"
                );
            };
            near(law.lambda, "lambda", 1e-9);
            near(law.sigma, "sigma", 1e-8);
            near(law.kappa, "kappa", 1e-10);
            near(cost(&points, (law.sigma, law.kappa)), "cost", 1e-12);
        }
    }

    #[test]
    fn law_is_found_in_its_own_points() {
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
        let grows = Law { lambda: 10.0, sigma: 0.0, kappa: 0.0 };
        assert_eq!((grows.peak(), grows.max_throughput()), (None, None));
        assert_eq!(Law { sigma: 0.5, ..grows }.max_throughput(), Some(20.0));
        // One that is full with a single request: whatever noise makes of its coefficient, it falls
        // from there on.
        for sigma in [1.0, 1.5] {
            let full = Law { sigma, kappa: 1e-3, ..grows };
            assert_eq!((full.peak(), full.max_throughput()), (Some(1.0), Some(full.lambda)));
        }
        assert_eq!(Law { sigma: 1.5, ..grows }.peak(), Some(1.0));
        assert_eq!(
            (Law { sigma: 1.0, ..grows }.peak(), Law { sigma: 1.0, ..grows }.max_throughput()),
            (None, Some(grows.lambda))
        );
    }

    #[test]
    fn law_is_found_through_noise() {
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
    fn no_law_is_fitted_to_what_cannot_have_one() {
        assert_eq!(Law::fit(&[(1.0, 1.0), (2.0, 2.0), (2.0, 2.1)]), None);
        assert_eq!(Law::fit(&[(1.0, 1.0), (2.0, 0.0), (4.0, 2.0)]), None);
        assert_eq!(Law::fit(&[(0.0, 1.0), (2.0, 1.0), (4.0, 2.0)]), None);
    }

    /// Three repeats of a curve, with noise of so much.
    fn repeats(values: &[f64], noise: f64, repeats: u32, normal: &mut Normal) -> Vec<ScalingPoint> {
        let of_block = |block: u32| {
            let start = (0.05 * normal.draw()).exp();
            let each = LEVELS.into_iter().zip(values);
            each.map(|(n, x)| (block, n, x * start * (noise * normal.draw()).exp()))
                .collect::<Vec<_>>()
        };
        (0..repeats).flat_map(of_block).collect()
    }

    #[test]
    fn knee_is_where_more_brings_little() {
        let of = |values: &[f64]| knee(&repeats(values, 1e-4, 3, &mut Normal(1)));
        let near = |found: Option<f64>, level: f64| (found.unwrap() - level).abs() < 1e-9;
        assert!(near(of(&[1.0, 2.0, 4.0, 8.0, 8.1, 8.0, 8.2, 8.1]), 8.0));
        assert!(near(of(&[1.0, 2.0, 4.0, 8.0, 8.0, 7.0, 6.0, 4.0]), 8.0));
        assert_eq!(of(&[5.0; 8]), None, "full with one");
        assert_eq!(
            of(&[5.0, 5.1, 5.2, 5.2, 5.2, 5.2, 5.2, 5.2]),
            None,
            "full with one but for 4 %"
        );
        assert_eq!(of(&[1.0, 2.0, 3.0]), None);
        assert_eq!(of(&[8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]), None);
        let one = repeats(&[1.0, 2.0, 4.0, 8.0, 8.1, 8.0, 8.2, 8.1], 1e-4, 1, &mut Normal(1));
        assert_eq!(knee(&one), None, "the noise of one repeat is not known");
        assert_eq!(knee(&[]), None);
    }

    /// Share of simulated curves that have a knee.
    fn share_of_knees(values: &[f64], noise: f64, launches: u32) -> f64 {
        const WORLDS: u32 = 1000;
        let mut normal = Normal(u64::from(launches) + (noise * 1e4) as u64);
        let found =
            (0..WORLDS).filter(|_| knee(&repeats(values, noise, launches, &mut normal)).is_some());
        found.count() as f64 / f64::from(WORLDS)
    }

    #[test]
    fn flat_and_straight_curves_have_no_knee() {
        let straight: Vec<f64> =
            (0..8).map(|doubling| 100.0 + 20.0 * f64::from(doubling)).collect();
        for (noise, launches) in [(0.01, 5), (0.05, 5), (0.1, 3), (0.05, 2), (0.02, 10)] {
            let flat = share_of_knees(&[100.0; 8], noise, launches);
            assert!(flat <= 0.05, "{noise} {launches}: {flat}");
            let straight = share_of_knees(&straight, noise, launches);
            assert!(straight <= 0.05, "{noise} {launches}: {straight}");
        }
    }

    #[test]
    fn real_knees_are_found_through_noise() {
        let knee = [100.0, 195.0, 370.0, 600.0, 630.0, 640.0, 640.0, 635.0];
        for (noise, launches) in [(0.01, 3), (0.05, 5), (0.05, 3), (0.1, 5)] {
            let found = share_of_knees(&knee, noise, launches);
            assert!(found >= 0.95, "{noise} {launches}: {found}");
        }
        // A small knee with little noise.
        let found =
            share_of_knees(&[100.0, 110.0, 120.0, 121.0, 121.0, 121.0, 121.0, 121.0], 0.01, 5);
        assert!(found >= 0.95, "{found}");
    }
}
