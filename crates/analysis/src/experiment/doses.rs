//! Computes the effects of doses: conditions that arms set to different numbers.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::StartRecord;
use dyno_model::run::Run;
use dyno_model::start::FailureKind;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cell::{CellKey, Shape};
use crate::design::Design;
use crate::grid::{Cell, Grid};
use crate::metric::{CPU, MEMORY, Metric, RESPONSE_P50, RESPONSE_P99, THROUGHPUT};
use crate::results::Results;
use crate::series::{RepeatValue, Series};
use crate::stats::{Estimate, Looks, median};

/// Effect of the level of a dose on a metric at one step. A dose is a condition that the arms set
/// to different numbers (levels), such as a number of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Dose")]
pub struct DoseEffect {
    pub workload: String,
    pub step: Shape,
    pub metric: &'static str,
    pub title: &'static str,
    /// Factor by which the metric changes when the level doubles, over blocks. `None`: too few
    /// blocks, an excluded block, a block without a value, or a fixed order of starts.
    pub doubling: Option<Estimate>,
    /// Median over blocks of the factor of `doubling`. `None`: an excluded block, or a block
    /// without a value.
    pub doubling_median: Option<f64>,
    /// Blocks in which the metric has a valid repeat at every level.
    pub counted_blocks: usize,
    /// Blocks in which any level was loaded, or its start failed. If there are more than
    /// `counted_blocks`, the counted blocks may be a biased selection: the fast blocks if the
    /// server failed in the others, or the slow blocks if the generator was the limit.
    pub loaded_blocks: usize,
}

/// Metrics for which the effect of a dose is reported.
const DOSE_METRICS: [&Metric; 5] = [&THROUGHPUT, &CPU, &RESPONSE_P50, &RESPONSE_P99, &MEMORY];

/// Returns the effects of the level on metrics; empty if an arm has no level.
pub(super) fn doses(run: &Run, results: Results<'_>, arms: &[usize]) -> Vec<DoseEffect> {
    let plan = &run.header.plan;
    let levels: Option<Vec<f64>> = arms.iter().map(|arm| plan.arms[*arm].level).collect();
    let Some(levels) = levels.filter(|levels| levels.len() > 1) else { return Vec::new() };
    let grid = Grid::new(results.trials);
    let failed_blocks = &failed_blocks(run, arms);
    let cells: Vec<CellKey> =
        grid.cells().map(|(key, _)| key).filter(|key| key.arm == arms[0]).collect();
    let dose = |key: CellKey, metric: &'static Metric| {
        let cells: Option<Vec<&Cell<'_>>> =
            arms.iter().map(|arm| grid.get(key.with_arm(*arm))).collect();
        let cells = cells?;
        let series: Vec<Series> = cells.iter().map(|cell| cell.series(metric)).collect();
        let points = Series::common_points(&series.iter().collect::<Vec<_>>());
        let counted_blocks = points.len();
        let loaded = uninterrupted_blocks(&cells);
        let loaded_blocks: BTreeSet<u32> = loaded.chain(failed_blocks.iter().copied()).collect();
        let is_selection = counted_blocks < loaded_blocks.len();
        let by_block = if is_selection { Vec::new() } else { slopes(&levels, points) };
        let doublings: Vec<f64> = by_block.iter().map(|slope| 2f64.powf(*slope)).collect();
        Some(DoseEffect {
            workload: plan.workloads[key.workload].name.clone(),
            step: Shape::from_step(&plan.load.steps[key.step]),
            metric: metric.key,
            title: metric.title,
            // With a fixed order, the level cannot be distinguished from a drift of the machine.
            doubling: Estimate::from_pairs_at(Looks::from_plan(plan), &doublings)
                .filter(|_| !Design::new(plan).is_fixed()),
            doubling_median: median(&doublings),
            counted_blocks,
            loaded_blocks: loaded_blocks.len(),
        })
    };
    let doses_of_cell = |key: CellKey| {
        DOSE_METRICS.into_iter().filter_map(move |metric| dose(key, Metric::from_key(metric.key)))
    };
    cells.into_iter().flat_map(doses_of_cell).collect()
}

/// Returns the blocks, from 1, with a trial of any cell, without those that were interrupted and
/// resumed later. Such an interruption does not depend on the values.
fn uninterrupted_blocks(cells: &[&Cell<'_>]) -> impl Iterator<Item = u32> {
    let mut parts: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for trial in cells.iter().flat_map(|cell| cell.trials()) {
        parts.entry(trial.block).or_default().insert(trial.part);
    }
    parts.into_iter().filter(|(_, parts)| parts.len() == 1).map(|(block, _)| block)
}

/// Returns the blocks, from 1, in which a start of an arm failed, although the user did not
/// interrupt it. It may have no trial.
fn failed_blocks(run: &Run, arms: &[usize]) -> BTreeSet<u32> {
    let launches = &run.header.plan.launches;
    let has_failed = |start: &&StartRecord| {
        let failure = start.failure.as_ref();
        failure.is_some_and(|failure| failure.kind != FailureKind::Interrupted)
            && launches[start.launch].arms.iter().any(|arm| arms.contains(arm))
    };
    run.starts.iter().filter(has_failed).map(|start| launches[start.launch].block + 1).collect()
}

/// Returns, for each block, the least-squares slope of the metric's logarithm over the level's
/// logarithm. Empty if a block has no value or the value 0, because the remaining blocks would be a
/// biased selection.
fn slopes(levels: &[f64], blocks: Vec<Vec<RepeatValue>>) -> Vec<f64> {
    let logs: Vec<f64> = levels.iter().map(|level| level.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let spread: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let slope_of_block = |points: Vec<RepeatValue>| {
        let values: Option<Vec<f64>> = points.into_iter().map(RepeatValue::known_value).collect();
        let values = values?.into_iter().zip(&logs);
        let slope = values.map(|(value, log)| (log - mean) * value.ln()).sum::<f64>() / spread;
        Some(slope).filter(|slope| slope.is_finite())
    };
    let slopes: Option<Vec<f64>> = blocks.into_iter().map(slope_of_block).collect();
    slopes.unwrap_or_default()
}
