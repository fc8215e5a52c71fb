//! Arranges all metrics of all subjects in tables: one per workload, with the medians at the
//! workload's reference step.

use dyno_analysis::Report;
use dyno_analysis::metric::{MetricId, MetricSummary};
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::summary::Summary;

use crate::format::{error_share_text, or_dash, quantity, valid_repeats};
use crate::overview::label_in_words;
use crate::present::block::Block;
use crate::present::part_scope::PartScope;
use crate::present::table::{Head, ReportTable, Row};

/// Returns the tables of all metrics. Empty without numbers.
pub(crate) fn every_metric(report: &Report) -> Block {
    let workloads = report.run.workloads.iter();
    let tables: Vec<Block> =
        workloads.filter_map(|w| Some(Block::Table(metric_table(report, &w.name)?))).collect();
    if tables.is_empty() {
        return Block::empty();
    }
    let blocks = [Block::note(NOTE)].into_iter().chain(tables).collect();
    Block::Folded("Every metric of every subject".into(), blocks)
}

const NOTE: &str = "Each number is the median over the valid repeats of the reference \
                               step (the step nearest to 64 requests in flight). Errors are an \
                               exception: the number is the median share of failed requests over \
                               all repeats, valid or not, and \"(up to …)\" is the highest share \
                               of a repeat. \"–\" means not measured, or too few samples for a \
                               percentile.";

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

/// Returns the table of a workload, with a column per subject in the order of the overview. `None`:
/// it has no numbers.
fn metric_table(report: &Report, workload: &str) -> Option<ReportTable> {
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
    let row = |title: &str, cell: &dyn Fn(&Summary) -> String| -> Row {
        [title.to_string()].into_iter().chain(steps().map(cell)).collect()
    };
    let metric_row =
        |id: MetricId| row(id.metric().title, &|step| median_text(id, step.metric(id)));
    let metrics = MetricId::ALL.iter().copied().filter(is_known).map(metric_row);
    let heading = format!("{workload}, {}", label_in_words(first.reference_at));
    let subjects = measured.iter().map(|(row, _)| Head {
        name: row.title.clone(),
        is_number: true,
        subject: Some(row.reference_cell.arm),
    });
    Some(ReportTable {
        class: "facts",
        heads: [Head::named(heading)].into_iter().chain(subjects).collect(),
        rows: [row("Valid repeats", &valid_repeats)].into_iter().chain(metrics).collect(),
        workloads: PartScope::cell(report, first.reference_cell).workloads,
    })
}
