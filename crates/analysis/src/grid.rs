//! Groups the trials of a run by cell (arm, workload and step) and block. A block has one repeat of
//! every arm.
//!
//! The grid is built once, and all modules that summarize repeats use it.

use std::collections::BTreeMap;

use crate::cell::CellKey;
use crate::metric::{ByMetric, ERROR_SHARE, Metric, MetricId, MetricSummary, Ratios};
use crate::series::Series;
use crate::trial::TrialResult;

/// The cells of a run that have trials, in the plan's order.
#[derive(Clone, Debug, Default)]
pub struct Grid<'a> {
    cells: BTreeMap<CellKey, Cell<'a>>,
}

impl<'a> Grid<'a> {
    /// Groups trials by cell and block.
    #[must_use]
    pub fn new(trials: &'a [TrialResult]) -> Grid<'a> {
        let mut cells: BTreeMap<CellKey, Cell<'a>> = BTreeMap::new();
        for trial in trials {
            cells.entry(trial.cell).or_default().trials.push(trial);
        }
        for cell in cells.values_mut() {
            cell.trials.sort_by_key(|trial| trial.block);
        }
        Grid { cells }
    }

    /// Returns the cell with this key; `None`: the cell has no trials.
    #[must_use]
    pub fn get(&self, key: CellKey) -> Option<&Cell<'a>> {
        self.cells.get(&key)
    }

    /// Returns all cells with their keys.
    pub fn cells(&self) -> impl Iterator<Item = (CellKey, &Cell<'a>)> {
        self.cells.iter().map(|(key, cell)| (*key, cell))
    }

    /// Returns the cells of an arm with a workload, step by step.
    pub fn steps(&self, arm: usize, workload: usize) -> impl Iterator<Item = (CellKey, &Cell<'a>)> {
        self.cells().filter(move |(key, _)| (key.arm, key.workload) == (arm, workload))
    }

    /// Whether an arm has any trials.
    #[must_use]
    pub fn has_arm(&self, arm: usize) -> bool {
        self.cells().any(|(key, _)| key.arm == arm)
    }
}

/// The trials of one cell, in the order of blocks. Within a [`Grid`], a cell has at least one
/// trial.
#[derive(Clone, Debug, Default)]
pub struct Cell<'a> {
    trials: Vec<&'a TrialResult>,
}

impl<'a> Cell<'a> {
    /// Returns the trials in the order of blocks.
    #[must_use]
    pub fn trials(&self) -> &[&'a TrialResult] {
        &self.trials
    }

    /// Returns the valid trials.
    pub fn valid(&self) -> impl Iterator<Item = &'a TrialResult> {
        self.trials.iter().copied().filter(|trial| trial.valid)
    }

    /// Returns a metric's value in each repeat that the metric includes. Loads that took turns also
    /// have a value for each round.
    #[must_use]
    pub fn series(&self, metric: &Metric) -> Series {
        self.select(|trial| metric.includes(trial)).series_of_all(metric)
    }

    /// Returns a metric's value in every repeat, including repeats that the metric excludes.
    pub(crate) fn series_of_all(&self, metric: &Metric) -> Series {
        let points: Series =
            self.trials.iter().map(|trial| (trial.block, metric.point(trial))).collect();
        let turns = |trial: &&TrialResult| Some((trial.block, metric.turn_values(trial)?));
        points
            .with_parts(self.trials.iter().map(|trial| (trial.block, trial.part)))
            .with_turns(self.trials.iter().filter_map(turns))
    }

    /// Summarizes every metric over the repeats.
    #[must_use]
    pub fn metrics(&self) -> ByMetric {
        let summary = |metric: &Metric| {
            let series = self.series(metric);
            // Repeats with too few samples for a percentile are the slow ones, and those without a
            // request are of a server that failed, so the others are a biased selection.
            let repeats = match metric.is_percentile() || metric.key == ERROR_SHARE.key {
                true => series.repeated_if_complete(),
                false => series.repeated(),
            };
            MetricSummary { repeats, unanswered_repeats: series.unanswered_count() }
        };
        let summaries = MetricId::ALL.iter().map(|id| (*id, summary(id.metric())));
        let has_repeats =
            |s: &MetricSummary| !s.repeats.values.is_empty() || s.unanswered_repeats > 0;
        summaries.filter(|(_, summary)| has_repeats(summary)).collect()
    }

    /// Returns the ratios of every metric to another cell's, paired by block.
    #[must_use]
    pub fn ratios_to(&self, base: &Cell<'_>) -> Ratios {
        let ratio = |id: &MetricId| {
            let metric = id.metric();
            (*id, self.series(metric).ratios_to(&base.series(metric)))
        };
        let ratios = MetricId::ALL.iter().filter(|id| id.metric().has_ratios()).map(ratio);
        ratios.filter(|(_, ratios)| !ratios.values.is_empty()).collect()
    }

    /// Returns the cell with only the trials for which `is_included` is true. It may be empty.
    #[must_use]
    pub fn select(&self, is_included: impl Fn(&TrialResult) -> bool) -> Cell<'a> {
        Cell { trials: self.trials.iter().copied().filter(|trial| is_included(trial)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::five_block_report;
    use crate::load::Percentiles;

    const fn key(arm: usize, workload: usize, step: usize) -> CellKey {
        CellKey { arm, workload, step }
    }

    /// Slow repeats have too few samples for a percentile.
    #[test]
    fn percentile_missing_in_repeat_has_no_median() {
        let mut trials = five_block_report().trials;
        trials.retain(|t| t.cell == key(0, 0, 0));
        let p50 = |trials: &[TrialResult]| {
            let grid = Grid::new(trials);
            grid.get(key(0, 0, 0)).unwrap().metrics()[&MetricId::ResponseP50].repeats.clone()
        };
        assert!(p50(&trials).median.is_some());
        trials[0].load.response_time_us.p50 = None;
        let lacking = p50(&trials);
        assert_eq!((lacking.median, lacking.values.len() + 1), (None, trials.len()));
    }

    #[test]
    fn grid_has_trials_by_cell_and_block() {
        let mut trials = five_block_report().trials;
        trials.reverse();
        let grid = Grid::new(&trials);
        let cell = grid.get(key(1, 0, 1)).unwrap();
        assert_eq!(cell.trials().iter().map(|t| t.block).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!((grid.get(key(3, 0, 0)).is_none(), grid.cells().count()), (true, 12));
        let steps: Vec<CellKey> = grid.steps(2, 1).map(|(key, _)| key).collect();
        assert_eq!(steps, [key(2, 1, 0), key(2, 1, 1)]);
        assert!(grid.has_arm(2) && !grid.has_arm(3));
        let cell_with_invalid = grid.get(key(1, 0, 0)).unwrap();
        assert_eq!(cell_with_invalid.valid().map(|t| t.block).collect::<Vec<_>>(), [2, 4, 5]);
        assert_eq!(cell_with_invalid.select(|t| t.block > 3).trials().len(), 2);
    }

    #[test]
    fn metric_is_omitted_only_without_any_repeat() {
        let mut trials: Vec<TrialResult> = five_block_report().trials;
        trials.retain(|t| t.cell == key(0, 0, 0));
        for trial in &mut trials {
            // Nearly all requests got no response.
            trial.load.response_time_us =
                Percentiles { count: 10, unanswered: 9_990, ..Percentiles::default() };
        }
        let grid = Grid::new(&trials);
        let metrics = grid.get(key(0, 0, 0)).unwrap().metrics();
        assert_eq!(
            (
                metrics[&MetricId::ResponseP50].unanswered_repeats,
                metrics[&MetricId::ResponseP50].repeats.values.len()
            ),
            (5, 0)
        );
        assert_eq!(
            (
                metrics[&MetricId::Throughput].unanswered_repeats,
                metrics[&MetricId::Throughput].repeats.values.len()
            ),
            (0, 5)
        );
        assert!(!metrics.contains_key(&MetricId::PagesPerSecond));
        let ratios = grid.get(key(0, 0, 0)).unwrap().ratios_to(grid.get(key(0, 0, 0)).unwrap());
        assert_eq!(ratios[&MetricId::Throughput].values, [1.0; 5]);
        assert!(
            !ratios.contains_key(&MetricId::ResponseP50)
                && !ratios.contains_key(&MetricId::ErrorShare)
        );
    }
}
