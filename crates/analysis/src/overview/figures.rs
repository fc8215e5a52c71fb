//! Figures of overview rows: medians of metrics at the reference step.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cell::Shape;
use crate::grid::Cell;
use crate::metric::{Metric, MetricId};
use crate::trial::TrialResult;

/// Metrics of a row at its reference step.
pub const FIGURES: [MetricId; 3] = [MetricId::ResponseP50, MetricId::ResponseP99, MetricId::Cpu];

/// Known values of metrics, one per metric.
pub type Figures = BTreeMap<MetricId, f64>;

/// Medians over invalid repeats. A figure is `None` if a valid repeat has the figure, or an invalid
/// repeat lacks it. A percentile is also `None` if the median lies among unanswered requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct InvalidFigures {
    /// Throughput at the step with the highest median of these repeats.
    pub peak_rps: Option<f64>,
    /// The load point of that step.
    pub peak_at: Option<Shape>,
    /// Medians of [`FIGURES`] at the reference step.
    pub figures: Figures,
}

impl InvalidFigures {
    /// Returns the median of a metric at the reference step.
    #[must_use]
    pub fn figure(&self, id: MetricId) -> Option<f64> {
        self.figures.get(&id).copied()
    }
}

/// Returns the median of a metric over the invalid repeats of a cell; `None`: the cell has no
/// invalid repeats, one of them has no value, the median lies among unanswered requests, or the
/// median is 0 (no responses).
pub(super) fn median_of_invalid(cell: &Cell<'_>, metric: &Metric) -> Option<f64> {
    let invalid = cell.select(TrialResult::is_unexpectedly_invalid);
    let repeats = invalid.series_of_all(metric).repeated_if_complete();
    repeats.median.filter(|value| *value > 0.0)
}
