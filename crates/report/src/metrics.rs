//! Every metric that anybody has, side by side: a sheet per workload, of its reference step.

use dyno_analysis::Report;
use dyno_analysis::metric::{METRICS, Metric, Unit};
use dyno_analysis::summary::{OverviewRow, Summary};

use crate::format::{bytes, count, micros, number, or_dash, percent};
use crate::overview::label_in_words;

/// The metrics of one workload's subjects.
pub(crate) struct Sheet {
    /// Of which step it is, as a heading: `json, 64 connections`.
    pub(crate) heading: String,
    /// Subjects' titles, in the overview's order.
    pub(crate) subjects: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// A metric, with its median over the valid repeats of each subject.
pub(crate) struct Row {
    pub(crate) metric: &'static Metric,
    pub(crate) medians: Vec<Option<f64>>,
}

impl Row {
    pub(crate) fn shown(&self) -> impl Iterator<Item = String> + '_ {
        self.medians.iter().map(|median| or_dash(*median, |value| show(self.metric.unit, value)))
    }
}

/// A value with its unit.
pub(crate) fn show(unit: Unit, value: f64) -> String {
    match unit {
        Unit::PerSecond => format!("{}/s", number(value)),
        Unit::Microseconds => micros(value),
        Unit::Bytes => bytes(value),
        Unit::MegabyteSeconds => format!("{} kB·s", number(value * 1e3)),
        Unit::Share => percent(value),
        Unit::Count if value.fract() == 0.0 => count(value as u64),
        Unit::Count => number(value),
    }
}

/// A sheet for each workload of which there are numbers.
pub(crate) fn sheets(report: &Report) -> Vec<Sheet> {
    report.run.workloads.iter().filter_map(|workload| sheet(report, &workload.name)).collect()
}

fn sheet(report: &Report, workload: &str) -> Option<Sheet> {
    let is_own = |row: &&OverviewRow| row.workload == workload;
    let measured: Vec<(&OverviewRow, &Summary)> = report
        .overview
        .iter()
        .filter(is_own)
        .filter_map(|row| Some((row, report.summary(&row.subject, workload, row.reference_step)?)))
        .collect();
    let (first, _) = measured.first()?;
    let row = |metric: &'static Metric| Row {
        metric,
        medians: measured.iter().map(|(_, step)| step.median(metric)).collect(),
    };
    let is_known = |row: &Row| row.medians.iter().any(Option::is_some);
    Some(Sheet {
        heading: format!("{workload}, {}", label_in_words(first.reference_at)),
        subjects: measured.iter().map(|(row, _)| row.title.clone()).collect(),
        rows: METRICS.iter().map(row).filter(is_known).collect(),
    })
}
