//! Arranges all metrics of all subjects in tables: a sheet per workload, with the medians at the
//! workload's reference step.

use dyno_analysis::Report;
use dyno_analysis::cell::CellKey;
use dyno_analysis::metric::{MetricId, MetricSummary};
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::summary::Summary;

use crate::format::{error_share_text, or_dash, quantity, valid_repeats};
use crate::overview::label_in_words;

/// The metrics of one workload's subjects.
pub(crate) struct Sheet {
    /// Workload and step: `json, 64 connections`.
    pub(crate) heading: String,
    /// Titles of the subjects, in the order of the overview.
    pub(crate) subjects: Vec<String>,
    /// Cell of each subject from which its figures come.
    pub(crate) cells: Vec<CellKey>,
    pub(crate) rows: Vec<MetricRow>,
}

/// Note above the sheets.
pub(crate) const NOTE: &str = "Each number is the median over the valid repeats of the reference \
                               step (the step nearest to 64 requests in flight). Errors are an \
                               exception: the number is the median share of failed requests over \
                               all repeats, valid or not, and \"(up to …)\" is the highest share \
                               of a repeat. \"–\" means not measured, or too few samples for a \
                               percentile.";

/// A metric with its median per subject, in the order of [`Sheet::subjects`].
pub(crate) struct MetricRow {
    pub(crate) title: &'static str,
    pub(crate) cells: Vec<String>,
}

/// Formats the median of a metric at a step, or says why there is none.
fn median_text(id: MetricId, step: Option<&MetricSummary>) -> String {
    match step {
        Some(step) if id == MetricId::ErrorShare => error_share_text(&step.repeats),
        Some(step) if step.repeats.median.is_none() && step.unanswered_repeats > 0 => {
            "among requests that are not ok".into()
        }
        step => {
            or_dash(step.and_then(|s| s.repeats.median), |value| quantity(id.metric().unit, value))
        }
    }
}

/// Returns a sheet for each workload that has numbers.
pub(crate) fn sheets(report: &Report) -> Vec<Sheet> {
    report.run.workloads.iter().filter_map(|workload| sheet(report, &workload.name)).collect()
}

/// Returns the sheet of a workload. `None`: it has no numbers.
fn sheet(report: &Report, workload: &str) -> Option<Sheet> {
    let is_of_workload = |row: &&OverviewRow| row.workload == workload;
    let measured: Vec<(&OverviewRow, &Summary)> = report
        .overview
        .iter()
        .filter(is_of_workload)
        .filter_map(|row| Some((row, report.summary(row.reference_cell)?)))
        .collect();
    let (first, _) = measured.first()?;
    let steps = || measured.iter().map(|(_, step)| *step);
    let is_known = |id: &MetricId| steps().any(|step| step.metric(*id).is_some());
    let row = |id: MetricId| MetricRow {
        title: id.metric().title,
        cells: steps().map(|step| median_text(id, step.metric(id))).collect(),
    };
    let valid = MetricRow { title: "Valid repeats", cells: steps().map(valid_repeats).collect() };
    Some(Sheet {
        heading: format!("{workload}, {}", label_in_words(first.reference_at)),
        subjects: measured.iter().map(|(row, _)| row.title.clone()).collect(),
        cells: measured.iter().map(|(row, _)| row.reference_cell).collect(),
        rows: [valid]
            .into_iter()
            .chain(MetricId::ALL.iter().copied().filter(is_known).map(row))
            .collect(),
    })
}
