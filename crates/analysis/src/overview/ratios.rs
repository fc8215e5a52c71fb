//! Computes the ratios of overview rows to the baseline's row.

use dyno_model::plan::Plan;
use schemars::JsonSchema;
use serde::Serialize;

use super::OverviewRow;
use super::figures::Figures;
use crate::metric::MetricId;
use crate::peak::PeakBound;

/// A row's figures divided by another row's figures. `None`: one of the two rows lacks the figure,
/// or the divisor is 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RowRatios {
    /// Also `None` if one of the two peaks is a lower bound.
    pub peak_rps: Option<f64>,
    /// Lower bound of the ratio of the peaks, if this row's peak is a lower bound and the other
    /// row's peak is exact.
    pub peak_rps_at_least: Option<f64>,
    /// Known ratios of the figures at the reference step.
    pub figures: Figures,
    pub memory_peak: Option<f64>,
    pub startup: Option<f64>,
}

impl RowRatios {
    /// Divides the figures of `row` by the figures of `base`.
    fn new(row: &OverviewRow, base: &OverviewRow) -> RowRatios {
        let ratio = |pick: fn(&OverviewRow) -> Option<f64>| {
            Some(pick(row)? / pick(base)?).filter(|ratio| ratio.is_finite())
        };
        let figure_ratio = |id: MetricId| {
            let ratio = row.figures.get(id)? / base.figures.get(id)?;
            ratio.is_finite().then_some(ratio)
        };
        let peak_ratio = |bound: PeakBound| {
            let is_known = row.peak_bound() == bound && base.peak_bound() == PeakBound::Exact;
            // A peak at an offered rate is not a capacity, because no server can serve more than is
            // offered.
            let are_capacities = row.shows_capacity() && base.shows_capacity();
            ratio(OverviewRow::max_rps).filter(|_| is_known && are_capacities)
        };
        RowRatios {
            peak_rps: peak_ratio(PeakBound::Exact),
            peak_rps_at_least: peak_ratio(PeakBound::AtLeast),
            figures: Figures::new(figure_ratio),
            // The highest value of some steps is not comparable with the highest value of all
            // steps.
            memory_peak: ratio(|r| r.memory_peak_bytes.filter(|_| r.has_memory_of_all_steps)),
            startup: ratio(|r| r.startup_ms),
        }
    }
}

/// Sets the ratios of a workload's rows to the baseline's row, if the suite names a baseline.
pub(super) fn compare(rows: &mut [OverviewRow], plan: &Plan) {
    let Some(base) = rows.iter().find(|row| row.baseline).cloned() else { return };
    let is_comparable =
        |row: &OverviewRow| plan.are_loaded_alike(row.reference_cell.arm, base.reference_cell.arm);
    for row in rows.iter_mut().filter(|row| !row.baseline && is_comparable(row)) {
        row.to_baseline = Some(RowRatios::new(row, &base));
    }
}
