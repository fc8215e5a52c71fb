//! Computes the noise of each metric: the spread between repeats of one step, and the smallest
//! difference between two servers that a run like this one detects.

use std::collections::BTreeMap;

use dyno_model::plan::Plan;
use schemars::JsonSchema;
use serde::Serialize;

use crate::baseline::baseline;
use crate::grid::Grid;
use crate::metric::METRICS;
use crate::stats::{self, Estimate, Looks, PAIRS_TO_TELL_APART, median};
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
    /// single comparison, as the median over steps. 0.05 is 5 %. `None`: fewer than five repeats,
    /// or no subject to compare with the baseline.
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
    let base = baseline(plan, grid);
    let metric_floor = |metric: &'static crate::metric::Metric| {
        let cell_scatter = |(_, cell): (_, &crate::grid::Cell<'_>)| {
            scatter(&cell.series(metric).repeated().values)
        };
        let scatters: Vec<f64> = grid.cells().filter_map(cell_scatter).collect();
        let others = grid.cells().filter(|(key, _)| {
            base.is_some_and(|base| key.arm != base && plan.are_loaded_alike(key.arm, base))
        });
        let detectable = others.filter_map(|(key, cell)| {
            let base = grid.get(key.with_arm(base?))?;
            let ratios = cell.series(metric).ratios_to(&base.series(metric)).values;
            Some(
                Estimate::from_pairs_at(Looks::from_plan(plan), &ratios)?
                    .detectable_by_estimate()?
                    - 1.0,
            )
        });
        Some((metric.key, floor(&scatters, &detectable.collect::<Vec<f64>>())?))
    };
    let starts: Vec<f64> = subjects
        .iter()
        .filter_map(|subject| scatter(&subject.startup_ms.first_response.values))
        .collect();
    let startup_floor = floor(&starts, &[]).map(|floor| (STARTUP, floor));
    METRICS
        .iter()
        .filter(|metric| metric.has_ratios())
        .filter_map(metric_floor)
        .chain(startup_floor)
        .collect()
}

/// Returns the noise from the spread of each step and the detectable differences; `None`: no spread
/// is known.
fn floor(scatters: &[f64], detectable: &[f64]) -> Option<NoiseFloor> {
    Some(NoiseFloor {
        scatter: median(scatters)?,
        steps: scatters.len(),
        detectable: median(detectable),
    })
}

/// Returns the spread of repeats; `None`: too few repeats, or a value is not above 0.
fn scatter(values: &[f64]) -> Option<f64> {
    stats::scatter(PAIRS_TO_TELL_APART, values)
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::Subject;

    use super::*;
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

    #[test]
    fn scatter_requires_positive_values() {
        assert_eq!(scatter(&[1.0, 0.0, 2.0]), None);
        assert_eq!(scatter(&[2.0, 2.0, 2.0]), Some(0.0));
    }
}
