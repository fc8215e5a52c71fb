//! The trials of a run by cell and block: built once, and asked by everything that sums up repeats.

use std::collections::BTreeMap;

use crate::cell::CellKey;
use crate::metric::{ByMetric, METRICS, Metric, OverStep, Ratios};
use crate::series::Series;
use crate::trial::TrialResult;

/// The cells of a run that have trials, in the plan's order.
#[derive(Clone, Debug, Default)]
pub struct Grid<'a> {
    cells: BTreeMap<CellKey, Cell<'a>>,
}

impl<'a> Grid<'a> {
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

    /// The cell with this key; `None`: it has no trials.
    #[must_use]
    pub fn get(&self, key: CellKey) -> Option<&Cell<'a>> {
        self.cells.get(&key)
    }

    pub fn cells(&self) -> impl Iterator<Item = (CellKey, &Cell<'a>)> {
        self.cells.iter().map(|(key, cell)| (*key, cell))
    }

    /// Those of an arm with a workload, step by step.
    pub fn steps(&self, arm: usize, workload: usize) -> impl Iterator<Item = (CellKey, &Cell<'a>)> {
        self.cells().filter(move |(key, _)| (key.arm, key.workload) == (arm, workload))
    }

    /// Whether an arm has been loaded at all.
    #[must_use]
    pub fn has_arm(&self, arm: usize) -> bool {
        self.cells().any(|(key, _)| key.arm == arm)
    }
}

/// The trials of one cell, by block. Never empty within a [`Grid`].
#[derive(Clone, Debug, Default)]
pub struct Cell<'a> {
    trials: Vec<&'a TrialResult>,
}

impl<'a> Cell<'a> {
    #[must_use]
    pub fn trials(&self) -> &[&'a TrialResult] {
        &self.trials
    }

    pub fn valid(&self) -> impl Iterator<Item = &'a TrialResult> {
        self.trials.iter().copied().filter(|trial| trial.valid)
    }

    /// A metric over the cell's repeats.
    #[must_use]
    pub fn series(&self, metric: &Metric) -> Series {
        let counted = self.trials.iter().filter(|trial| metric.counts(trial));
        counted.map(|trial| (trial.block, metric.point(trial))).collect()
    }

    /// Every metric over the cell's repeats.
    #[must_use]
    pub fn metrics(&self) -> ByMetric {
        let of = |metric: &Metric| {
            let series = self.series(metric);
            OverStep { over: series.repeated(), beyond: series.beyond() }
        };
        let all = METRICS.iter().map(|metric| (metric.key, of(metric)));
        all.filter(|(_, step)| !step.over.values.is_empty() || step.beyond > 0).collect()
    }

    /// The ratios of every metric to those of another cell.
    #[must_use]
    pub fn ratios_to(&self, base: &Cell<'_>) -> Ratios {
        let comparable = METRICS.iter().filter(|metric| metric.has_ratios());
        let all = comparable.map(|metric| (metric.key, self.series(metric).ratios_to(&base.series(metric))));
        all.filter(|(_, ratios)| !ratios.values.is_empty()).collect()
    }

    /// The cell without the trials for which this does not hold; it may be empty.
    #[must_use]
    pub fn only(&self, holds: impl Fn(&TrialResult) -> bool) -> Cell<'a> {
        Cell { trials: self.trials.iter().copied().filter(|trial| holds(trial)).collect() }
    }
}
