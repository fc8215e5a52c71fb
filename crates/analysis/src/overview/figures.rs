//! Figures of overview rows: medians of metrics at the reference step.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cell::Shape;
use crate::grid::Cell;
use crate::metric::{Metric, MetricId};
use crate::trial::TrialResult;

/// Metrics of a row at its reference step.
const FIGURES: [MetricId; 3] = [MetricId::ResponseP50, MetricId::ResponseP99, MetricId::Cpu];

/// Known values of `FIGURES`, one per metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Figures(BTreeMap<MetricId, f64>);

impl Figures {
    /// Computes each figure; `None`: unknown.
    pub(super) fn new(value: impl Fn(MetricId) -> Option<f64>) -> Figures {
        Figures(FIGURES.into_iter().filter_map(|id| Some((id, value(id)?))).collect())
    }

    /// Returns the value of a metric; `None`: unknown.
    #[must_use]
    pub fn get(&self, id: MetricId) -> Option<f64> {
        self.0.get(&id).copied()
    }
}

/// Medians over invalid repeats. A figure is `None` if a valid repeat has the figure, or an invalid
/// repeat lacks it. A percentile is also `None` if the median lies among unanswered requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct InvalidFigures {
    /// Throughput at the step with the highest median of these repeats.
    pub peak_rps: Option<f64>,
    /// The load point of that step.
    pub peak_at: Option<Shape>,
    /// Medians of `FIGURES` at the reference step.
    pub figures: Figures,
}

/// Returns the median of a metric over the invalid repeats of a cell; `None`: the cell has no
/// invalid repeats, one of them has no value, the median lies among unanswered requests, or the
/// median is 0 (no responses).
pub(super) fn median_of_invalid(cell: &Cell<'_>, metric: &Metric) -> Option<f64> {
    let invalid = cell.select(TrialResult::is_unexpectedly_invalid);
    let repeats = invalid.series_of_all(metric).repeated_if_complete();
    repeats.median.filter(|value| *value > 0.0)
}
