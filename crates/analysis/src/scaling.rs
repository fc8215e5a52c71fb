//! Computes how the throughput of each arm grows with the requests in flight: the knee of the
//! curve, and the fit of the Universal Scalability Law.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::plan::Plan;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cell::{CellKey, Shape};
use crate::grid::Grid;
use crate::metric::THROUGHPUT;
use crate::peak::{is_open, missing_repeats};
use crate::stats::scaling::{Law, ScalingPoint, knee};
use crate::stats::{REPEATS_FOR_INTERVAL, jackknife, median};

/// Minimum number of levels for a fit of the law. With fewer levels, its three coefficients would
/// fit the noise.
pub const LEVELS_FOR_LAW: usize = 6;

/// Growth of an arm's throughput with the requests in flight, over the closed loops of one workload
/// and one kind of connection.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ScalingResult {
    pub arm: usize,
    pub subject: String,
    pub workload: usize,
    pub streams: u32,
    pub pipeline: u32,
    pub levels: Vec<ScalingLevel>,
    /// Requests in flight above which more requests add little throughput (Satopää et al. 2011).
    /// `None`: fewer than four levels, no bend beyond the noise, a single repeat, or a level at or
    /// above the bend in `open_levels`.
    pub knee: Option<f64>,
    /// Levels at which the server may have done more, because repeats are not valid for reasons
    /// outside of the server.
    pub open_levels: Vec<u64>,
    /// Fit of the Universal Scalability Law; `None`: fewer than six levels without excluded repeats
    /// that may have been higher.
    pub law: Option<LawResult>,
}

/// One level of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ScalingLevel {
    pub in_flight: u64,
    /// Median over the valid repeats.
    pub throughput_rps: f64,
    /// Throughput by the law; `None`: no fit.
    pub fitted_rps: Option<f64>,
    /// Difference of the measured throughput from the law, as a share of the law's throughput.
    /// `None`: no fit, or the law is not fitted to this level, because excluded repeats may have
    /// been higher.
    pub residual: Option<f64>,
}

/// The best fit of the Universal Scalability Law to a curve (Gunther 2007): λn / (1 + σ(n − 1) +
/// κn(n − 1)).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LawResult {
    /// Requests per second with one request in flight.
    pub lambda: Coefficient,
    /// Contention: 0 to 1 and more.
    pub sigma: Coefficient,
    /// Coherency: cost of each pair of requests in flight.
    pub kappa: Coefficient,
    /// Requests in flight with the highest throughput by the law. `None`: throughput never falls,
    /// or is unknown at the highest levels (`open_levels`).
    pub peak_at: Option<f64>,
    /// Highest throughput by the law, or its limit. `None`: throughput grows without limit, or is
    /// unknown at the highest levels.
    #[serde(rename = "most_rps")]
    pub max_rps: Option<f64>,
    /// Largest absolute residual, as a share. If it is far above the noise, the law does not fit
    /// this server.
    pub worst_residual: f64,
}

/// A coefficient of the law.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Coefficient {
    pub value: f64,
    /// 95 % interval over launches (the jackknife's error and Student's t, Tukey 1958). `None`:
    /// fewer than five launches, or a coefficient of 0 in the fit with all launches or without one
    /// of them.
    pub interval: Option<(f64, f64)>,
}

/// Properties that distinguish one curve from another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CurveKey {
    arm: usize,
    workload: usize,
    streams: u32,
    pipeline: u32,
    pass: u32,
}

/// Returns the curves of a run that have two levels or more.
#[must_use]
pub(crate) fn scaling(plan: &Plan, grid: &Grid<'_>) -> Vec<ScalingResult> {
    let mut curves: BTreeMap<CurveKey, CurvePoints> = BTreeMap::new();
    for trial in &plan.trials {
        let step = &plan.load.steps[trial.step];
        let key = CellKey::from_trial(trial);
        let is_selection = grid.get(key).is_some_and(is_open);
        // At a planned level that did not run, the server may also have done more.
        let may_be_higher =
            is_selection || grid.get(key).is_none_or(|cell| missing_repeats(plan, key, cell) > 0);
        if step.arrivals.is_closed() && may_be_higher {
            let curve = curves.entry(curve_key(key, Shape::from_step(step))).or_default();
            curve.open_levels.insert(step.in_flight());
            curve.selections.extend(is_selection.then(|| step.in_flight()));
        }
    }
    for (key, cell) in grid.cells() {
        let step = &plan.load.steps[key.step];
        if !step.arrivals.is_closed() {
            continue;
        }
        let series = cell.series(&THROUGHPUT);
        let points_of_level =
            series.blocks().map(|(block, rps)| Point { block, in_flight: step.in_flight(), rps });
        curves
            .entry(curve_key(key, Shape::from_step(step)))
            .or_default()
            .measured
            .extend(points_of_level);
    }
    curves.into_iter().filter_map(|(key, points)| curve(plan, key, &points)).collect()
}

/// Returns the key of the curve to which a step of a cell belongs.
fn curve_key(key: CellKey, shape: Shape) -> CurveKey {
    let Shape { streams, pipeline, pass, .. } = shape;
    CurveKey { arm: key.arm, workload: key.workload, streams, pipeline, pass }
}

/// The points of one curve.
#[derive(Default)]
struct CurvePoints {
    measured: Vec<Point>,
    /// Levels at which the server may have done more.
    open_levels: BTreeSet<u64>,
    /// The open levels whose valid repeats may be the slow ones. The law is not fitted to them.
    selections: BTreeSet<u64>,
}

/// The throughput of one launch (one start of the server) at one level.
#[derive(Clone, Copy)]
struct Point {
    block: u32,
    in_flight: u64,
    rps: f64,
}

/// Returns the result of a curve; `None`: fewer than two levels.
fn curve(plan: &Plan, key: CurveKey, curve: &CurvePoints) -> Option<ScalingResult> {
    let CurvePoints { measured: points, open_levels: open, selections } = curve;
    let mut by_level: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    points.iter().for_each(|point| by_level.entry(point.in_flight).or_default().push(point.rps));
    if by_level.len() < 2 {
        return None;
    }
    let is_selection = |in_flight: &u64| selections.contains(in_flight);
    let fitted: Vec<Point> =
        points.iter().copied().filter(|point| !is_selection(&point.in_flight)).collect();
    let fitted_by_level: Vec<(f64, f64)> =
        fitted.iter().map(|p| (p.in_flight as f64, p.rps)).collect();
    let fitted_levels = by_level.keys().filter(|level| !is_selection(level)).count();
    let law = (fitted_levels >= LEVELS_FOR_LAW).then(|| Law::fit(&fitted_by_level)).flatten();
    let level = |(in_flight, values): (&u64, &Vec<f64>)| {
        let throughput_rps = median(values)?;
        let fitted_rps = law.map(|law| law.throughput(*in_flight as f64));
        let residual = fitted_rps
            .filter(|_| !is_selection(in_flight))
            .map(|fitted| throughput_rps / fitted - 1.0);
        Some(ScalingLevel { in_flight: *in_flight, throughput_rps, fitted_rps, residual })
    };
    let levels: Vec<ScalingLevel> = by_level.iter().filter_map(level).collect();
    let highest =
        levels.iter().max_by(|a, b| a.throughput_rps.total_cmp(&b.throughput_rps))?.in_flight;
    let is_known_from = |level: f64| open.iter().all(|open| (*open as f64) < level);
    let measured: Vec<ScalingPoint> =
        points.iter().map(|p| (p.block, p.in_flight as f64, p.rps)).collect();
    let law_result =
        law.map(|law| law_result(law, &fitted, &levels, is_known_from(highest as f64)));
    Some(ScalingResult {
        arm: key.arm,
        subject: plan.arms[key.arm].name.clone(),
        workload: key.workload,
        streams: key.streams,
        pipeline: key.pipeline,
        knee: knee(&measured).filter(|knee| is_known_from(knee.round())),
        open_levels: open.iter().copied().collect(),
        law: law_result,
        levels,
    })
}

/// Returns the coefficients of a fitted law, with their intervals. `is_max_known`: whether the
/// throughput is known at the highest levels.
fn law_result(
    law: Law,
    points: &[Point],
    levels: &[ScalingLevel],
    is_max_known: bool,
) -> LawResult {
    let laws_without_launch = leave_one_out_laws(&law, points);
    let coefficient = |pick: fn(&Law) -> f64| {
        let values: Vec<f64> = laws_without_launch.iter().map(pick).collect();
        // A coefficient that the fit holds at 0 does not vary with the measurements, so its
        // uncertainty is unknown.
        let is_free = values.iter().chain([&pick(&law)]).all(|value| *value > 0.0);
        let interval = jackknife(pick(&law), &values).filter(|_| is_free);
        let interval = interval.map(|(low, high)| (low.max(0.0), high));
        Coefficient { value: pick(&law), interval }
    };
    LawResult {
        lambda: coefficient(|law| law.lambda),
        sigma: coefficient(|law| law.sigma),
        kappa: coefficient(|law| law.kappa),
        peak_at: law.peak().filter(|_| is_max_known),
        max_rps: law.max_throughput().filter(|_| is_max_known),
        worst_residual: levels.iter().filter_map(|l| Some(l.residual?.abs())).fold(0.0, f64::max),
    }
}

/// Fits the law without each launch in turn; empty with too few launches.
fn leave_one_out_laws(law: &Law, points: &[Point]) -> Vec<Law> {
    let blocks: BTreeSet<u32> = points.iter().map(|point| point.block).collect();
    if blocks.len() < REPEATS_FOR_INTERVAL {
        return Vec::new();
    }
    let without = |excluded: &u32| {
        let remaining = points.iter().filter(|point| point.block != *excluded);
        let remaining: Vec<(f64, f64)> =
            remaining.map(|point| (point.in_flight as f64, point.rps)).collect();
        law.refit(&remaining)
    };
    blocks.iter().map(without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::stats::draws::Normal;

    const TRUTH: Law = Law { lambda: 1000.0, sigma: 0.05, kappa: 2e-4 };

    fn points(levels: &[u64], blocks: u32, normal: &mut Normal) -> Vec<Point> {
        points_of(TRUTH, levels, blocks, normal)
    }

    fn points_of(truth: Law, levels: &[u64], blocks: u32, normal: &mut Normal) -> Vec<Point> {
        let mut all = Vec::new();
        for block in 0..blocks {
            let start = (0.01 * normal.draw()).exp();
            for in_flight in levels {
                let rps =
                    truth.throughput(*in_flight as f64) * start * (0.01 * normal.draw()).exp();
                all.push(Point { block, in_flight: *in_flight, rps });
            }
        }
        all
    }

    const KEY: CurveKey = CurveKey { arm: 0, workload: 0, streams: 1, pipeline: 1, pass: 1 };
    const LEVELS: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

    fn scaling_result(points: &[Point]) -> Option<ScalingResult> {
        let server = dyno_model::plan::Subject { name: "a".into(), ..Default::default() };
        let points = CurvePoints { measured: points.to_vec(), ..CurvePoints::default() };
        curve(&fixture::plan(vec![server]), KEY, &points)
    }

    /// At two levels the generator was the limit of the fast repeats, so the slow ones remain.
    #[test]
    fn law_is_not_fitted_to_selections_of_repeats() {
        let mut measured = points(&LEVELS, 8, &mut Normal(6));
        let selections = BTreeSet::from([64, 128]);
        let is_selection = |point: &&mut Point| selections.contains(&point.in_flight);
        measured.iter_mut().filter(is_selection).for_each(|point| point.rps /= 2.0);
        let server = dyno_model::plan::Subject { name: "a".into(), ..Default::default() };
        let result = |selections: &BTreeSet<u64>| {
            let points = CurvePoints {
                measured: measured.clone(),
                open_levels: selections.clone(),
                selections: selections.clone(),
            };
            curve(&fixture::plan(vec![server.clone()]), KEY, &points).unwrap()
        };
        let scaling = result(&selections);
        let law = scaling.law.unwrap();
        assert!((law.sigma.value / TRUTH.sigma - 1.0).abs() < 0.1, "{law:?}");
        assert!(law.worst_residual < 0.05 && law.peak_at.is_none(), "{law:?}");
        let residuals = scaling.levels.iter().filter(|level| level.residual.is_some());
        assert_eq!((residuals.count(), scaling.levels.len()), (6, 8));
        // Five levels remain.
        assert_eq!(result(&BTreeSet::from([32, 64, 128])).law, None);
    }

    /// With this number, a share of 0.95 has a standard deviation of 0.9 %.
    const SIMULATIONS: usize = 600;

    #[test]
    fn law_intervals_have_stated_coverage() {
        for launches in [5, 8] {
            let (mut held, mut normal) = ([0; 3], Normal(3));
            for _ in 0..SIMULATIONS {
                let law =
                    scaling_result(&points(&LEVELS, launches, &mut normal)).unwrap().law.unwrap();
                let coefficients = [
                    (law.lambda, TRUTH.lambda),
                    (law.sigma, TRUTH.sigma),
                    (law.kappa, TRUTH.kappa),
                ];
                for (held, (coefficient, truth)) in held.iter_mut().zip(coefficients) {
                    let (low, high) = coefficient.interval.unwrap();
                    assert!(
                        low <= coefficient.value && coefficient.value <= high,
                        "{coefficient:?}"
                    );
                    *held += usize::from((low..=high).contains(&truth));
                }
            }
            for held in held {
                let share = held as f64 / SIMULATIONS as f64;
                assert!((0.93..=0.97).contains(&share), "{launches} launches: {share}");
            }
        }
    }

    #[test]
    fn coefficient_held_at_zero_has_no_interval() {
        // Kappa is far below the noise. Some simulations find it, and their interval contains the
        // true value.
        let truth = Law { kappa: 1e-6, ..TRUTH };
        let (mut known, mut held, mut normal) = (0, 0, Normal(5));
        for _ in 0..SIMULATIONS {
            let law =
                scaling_result(&points_of(truth, &LEVELS, 5, &mut normal)).unwrap().law.unwrap();
            assert!(law.kappa.value > 0.0 || law.kappa.interval.is_none(), "{law:?}");
            let Some((low, high)) = law.kappa.interval else { continue };
            known += 1;
            held += usize::from((low..=high).contains(&truth.kappa));
        }
        assert!((SIMULATIONS / 20..SIMULATIONS * 3 / 4).contains(&known), "{known}");
        assert!(held as f64 / known as f64 >= 0.9, "{held} of {known}");
    }

    #[test]
    fn law_requires_levels_and_intervals_require_launches() {
        let mut normal = Normal(4);
        let five = scaling_result(&points(&LEVELS[..5], 8, &mut normal)).unwrap();
        assert_eq!((five.levels.len(), five.law, five.levels[0].residual), (5, None, None));
        let few = scaling_result(&points(&LEVELS, 3, &mut normal)).unwrap();
        let law = few.law.unwrap();
        assert_eq!((law.lambda.interval, law.sigma.interval), (None, None));
        assert!(
            (law.lambda.value - 1000.0).abs() < 60.0
                && few.levels[0].residual.unwrap().abs() < 0.05
        );
        assert!(few.knee.is_some());
        assert_eq!(scaling_result(&points(&LEVELS[..1], 3, &mut normal)), None);
    }

    #[test]
    fn run_has_one_curve_per_arm_and_workload() {
        let report = fixture::five_block_report();
        let grid = Grid::new(&report.trials);
        let run = fixture::five_blocks();
        let curves = scaling(&run.header.plan, &grid);
        assert_eq!(curves, report.scaling);
        assert!(curves.iter().all(|curve| curve.levels.len() >= 2 && curve.law.is_none()));
    }
}
