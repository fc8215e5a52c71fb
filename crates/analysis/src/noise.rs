//! Computes the noise of each metric: the spread between repeats of one step, and the smallest
//! difference between two servers that a run like this one detects.

use std::collections::BTreeMap;

use dyno_model::plan::Plan;
use schemars::JsonSchema;
use serde::Serialize;

use crate::baseline::baseline;
use crate::experiment;
use crate::grid::{Cell, Grid};
use crate::metric::{METRICS, Metric};
use crate::stats::{self, Looks, PAIRS_TO_TELL_APART, REPEATS_FOR_INTERVAL, median};
use crate::subject::SubjectResult;

/// Noise of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NoiseFloor {
    /// Spread between repeats: the standard deviation of the logarithms of a step's repeats, as the
    /// median over steps. 0.05 is 5 %.
    pub scatter: f64,
    /// Number of steps in the median: all subjects' steps with three or more repeats. For the
    /// start-up time, it is the number of subjects.
    pub steps: usize,
    /// Smallest difference from the baseline that four of five runs like this one would detect in a
    /// single comparison, as the median over steps. 0.05 is 5 %. In an experiment, the difference
    /// is between the arms that it compares. `None`: fewer than five repeats, or no subject except
    /// controls to compare with the baseline.
    pub detectable: Option<f64>,
}

/// The key of the start-up time.
pub const STARTUP: &str = "startup_ms";

/// Returns the noise of each metric, and of the start-up time, by key. Unknown noise is omitted.
#[must_use]
pub(crate) fn noise(
    plan: &Plan,
    grid: &Grid<'_>,
    subjects: &[SubjectResult],
) -> BTreeMap<&'static str, NoiseFloor> {
    let metric_floor = |metric: &'static Metric| {
        let cell_scatter = |(_, cell): (_, &Cell<'_>)| {
            stats::scatter(PAIRS_TO_TELL_APART, &cell.series(metric).repeated().values)
        };
        let scatters: Vec<f64> = grid.cells().filter_map(cell_scatter).collect();
        Some((metric.key, floor(&scatters, detectable(plan, grid, metric, None))?))
    };
    let starts: Vec<f64> = subjects
        .iter()
        .filter_map(|subject| {
            stats::scatter(PAIRS_TO_TELL_APART, &subject.startup_ms.first_response.values)
        })
        .collect();
    let startup_floor = floor(&starts, None).map(|floor| (STARTUP, floor));
    METRICS
        .iter()
        .filter(|metric| metric.has_ratios())
        .filter_map(metric_floor)
        .chain(startup_floor)
        .collect()
}

/// Returns the noise from the spread of each step; `None`: no spread is known.
fn floor(scatters: &[f64], detectable: Option<f64>) -> Option<NoiseFloor> {
    Some(NoiseFloor { scatter: median(scatters)?, steps: scatters.len(), detectable })
}

/// Returns the smallest difference that four of five runs detect in a single comparison, as the
/// median over comparisons: 0.05 is 5 %.
///
/// `planned_pairs`: number of pairs of repeats of the detecting run, whose variance is estimated
/// from three pairs or more of this run. `None`: the detecting run is this run, and it detects
/// nothing with fewer than [`REPEATS_FOR_INTERVAL`] pairs.
#[must_use]
pub(crate) fn detectable(
    plan: &Plan,
    grid: &Grid<'_>,
    metric: &Metric,
    planned_pairs: Option<u32>,
) -> Option<f64> {
    let min_pairs = planned_pairs.map_or(REPEATS_FOR_INTERVAL, |_| PAIRS_TO_TELL_APART);
    let change = |(cell, base): (&Cell<'_>, &Cell<'_>)| {
        let ratios = cell.series(metric).ratios_to(&base.series(metric)).values;
        let scatter = stats::scatter(min_pairs, &ratios)?;
        let pairs = planned_pairs.unwrap_or(ratios.len() as u32);
        let (_, errors) = stats::standard_errors(Looks::from_plan(plan), pairs);
        let change = match scatter {
            0.0 => 0.0,
            scatter => (errors * scatter / f64::from(pairs).sqrt()).exp_m1(),
        };
        change.is_finite().then_some(change)
    };
    let changes: Vec<f64> = compared_cells(plan, grid).into_iter().filter_map(change).collect();
    median(&changes)
}

/// Returns the pairs of cells whose difference a run is to detect, without controls: those of the
/// experiment, or otherwise the cells of each arm and of the baseline.
fn compared_cells<'a>(plan: &Plan, grid: &'a Grid<'a>) -> Vec<(&'a Cell<'a>, &'a Cell<'a>)> {
    let arms = match (&plan.experiment, baseline(plan, grid)) {
        (Some(experiment), _) => experiment::pairs(plan, experiment),
        (None, Some(base)) => {
            let is_compared = |arm: &usize| {
                let is_control = plan.subject_of(*arm).control;
                *arm != base && !is_control && plan.are_loaded_alike(*arm, base)
            };
            (0..plan.arms.len()).filter(is_compared).map(|arm| (base, arm)).collect()
        }
        (None, None) => Vec::new(),
    };
    let cells = |(base, arm): (usize, usize)| {
        grid.cells()
            .filter(move |(key, _)| key.arm == arm)
            .filter_map(move |(key, cell)| Some((cell, grid.get(key.with_arm(base))?)))
    };
    arms.into_iter().flat_map(cells).collect()
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::Subject;

    use crate::fixture;
    use crate::report::report;
    use crate::stats::draws::Normal;

    #[test]
    fn noise_floor_has_scatter_and_detectable_difference() {
        let named = |name: &str| Subject { name: name.into(), ..Subject::default() };
        let run = |blocks| {
            fixture::blocks_of(vec![named("a"), named("b")], blocks, |arm, block| {
                let mut normal = Normal(u64::from(block) * 2 + arm as u64);
                (100_000.0 * normal.values(1, 1.0, 0.02)[0]) as u64
            })
        };
        let floor = report(&run(40)).noise["throughput_rps"];
        assert!(floor.steps == 2 && (0.015..0.025).contains(&floor.scatter), "{floor:?}");
        // Expected value for 40 pairs with a spread of 2 % × √2, by Cohen (1988): 2.8 standard
        // errors.
        let expected = 2.87 * 0.02 * (2.0f64 / 40.0).sqrt();
        assert!((floor.detectable.unwrap() / expected - 1.0).abs() < 0.25, "{floor:?} {expected}");
        let few = report(&run(4)).noise["throughput_rps"];
        assert_eq!((few.steps, few.detectable), (2, None));
        assert!(report(&run(2)).noise.is_empty(), "two repeats have no scatter");
    }

    /// Differences from the baseline: the two noisy servers are not compared with each other, and
    /// the control is not compared.
    #[test]
    fn plan_and_report_detect_equal_differences() {
        let named =
            |name: &str, control| Subject { name: name.into(), control, ..Subject::default() };
        let servers =
            vec![named("a", false), named("b", false), named("c", false), named("null", true)];
        let run = fixture::blocks_of(servers, 8, |arm, block| {
            let mut normal = Normal(u64::from(block) * 4 + arm as u64);
            let spread = [0.001, 0.02, 0.04, 0.0][arm];
            (100_000.0 * normal.values(1, 1.0, spread)[0]) as u64
        });
        let report = report(&run);
        let floor = report.noise["throughput_rps"];
        let planned = crate::budget::detectable(&run, &report, 8);
        assert_eq!(planned, [("throughput_rps", floor.detectable.unwrap())]);
        assert!((0.01..0.06).contains(&floor.detectable.unwrap()), "{floor:?}");
        let [(_, few)] = crate::budget::detectable(&run, &report, 5)[..] else { panic!() };
        assert!(few > floor.detectable.unwrap(), "{few} {floor:?}");
    }
}
