//! Renders the section on limits. The section has a card per subject, with the limiter of each step
//! and the counters of its busiest steps.

use std::collections::BTreeSet;

use dyno_analysis::metric::MetricId;
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::report::Report;
use dyno_analysis::subject::SubjectResult;
use dyno_analysis::summary::Summary;
use maud::{Markup, html};

use super::probe_results::{inside, machine, use_table};
use super::profile::profiles;
use super::swatch;
use crate::format::{number, quantity};
use crate::html::table;
use crate::overview::{label, step_in_words};
use crate::present::block::Block;
use crate::present::part_scope::PartScope;
use crate::present::table::{ReportTable, Row, TableCell, text, value};

/// Returns the content of the section, which only pages have. The table of throughput states the
/// limiter of each step in every form.
pub(super) fn limiters(report: &Report) -> Block {
    let steps_of = |subject: &SubjectResult| -> Vec<&Summary> {
        report.summaries.iter().filter(|s| s.subject == subject.id).collect()
    };
    Block::Page(html! {
        div.cards {
            "\n"
            @for subject in &report.subjects {
                @let steps = steps_of(subject);
                @if !steps.is_empty() { (card(report, subject, &steps)) }
            }
        }
        "\n"
        (profiles(report))
    })
}

/// Renders the card of a subject.
fn card(report: &Report, subject: &SubjectResult, steps: &[&Summary]) -> Markup {
    let workloads: BTreeSet<usize> = steps.iter().map(|s| s.cell.workload).collect();
    let scope =
        PartScope::subject(report, &subject.id).with_workloads(report, workloads.iter().copied());
    html! {
        article.card data-subject=[scope.subject] data-workload=[&scope.workloads] {
            h3 { (swatch(report, &subject.id)) (subject.title) } "\n"
            ol.strip { @for s in steps { (step_limiter_item(report, s)) } } "\n"
            @for workload in workloads { (busiest_step_text(report, workload, steps)) }
        }
        "\n"
    }
}

/// Describes the limiter and the counters at the busiest step of a workload.
fn busiest_step_text(report: &Report, workload: usize, steps: &[&Summary]) -> Markup {
    let steps_of_workload = steps.iter().filter(|s| s.cell.workload == workload);
    let Some(busiest) = steps_of_workload.max_by(|a, b| median_rate(a).total_cmp(&median_rate(b)))
    else {
        return Markup::default();
    };
    let content = html! {
        p {
            "At " (step_in_words(report, &busiest.workload, busiest.shape)) ": "
            (busiest.limiter_sentence)
        }
        "\n"
        (counters(report, busiest))
        (use_table(&busiest.use_table))
        (machine(&busiest.machine))
    };
    match PartScope::default().with_workloads(report, [workload]).workloads {
        Some(workloads) => html! { div.reason data-workload=(workloads) { (content) } },
        None => content,
    }
}

/// Returns the median throughput of a step, or 0 if it is unknown.
fn median_rate(s: &Summary) -> f64 {
    s.median_of(MetricId::Throughput).unwrap_or(0.0)
}

/// Renders a step and its limiter as an item of a list.
fn step_limiter_item(report: &Report, s: &Summary) -> Markup {
    let PartScope { workloads, step, .. } = PartScope::cell(report, s.cell);
    html! {
        li class=(s.limiter.name())
            data-workload=[workloads]
            data-step=[step]
            title=(s.limiter_sentence) {
            b { (step_label(report, s)) } " "
            (s.limiter.in_words()) (s.limiter_confidence.mark(s.limiter))
        }
    }
}

/// Labels a step: `64` (connections), or `json 64` if there are several workloads.
fn step_label(report: &Report, s: &Summary) -> String {
    let workload =
        if report.run.workloads.len() > 1 { format!("{} ", s.workload) } else { String::new() };
    format!("{workload}{}", label(s.shape))
}

/// Renders the table of counters at the busiest step, with the counters of the reference arm at the
/// same step of the same workload.
fn counters(report: &Report, busiest: &Summary) -> Markup {
    let is_baseline = |r: &&OverviewRow| {
        r.baseline
            && r.reference_cell.workload == busiest.cell.workload
            && r.reference_cell.arm != busiest.cell.arm
    };
    let Some(baseline) = report.overview.iter().find(is_baseline) else {
        let rows: Vec<Row> =
            COUNTERS.iter().map(|counter| counter.cells(&[Some(busiest)]).into()).collect();
        let alone = ReportTable::new("counters", &["Per response", "#This subject"], rows);
        return html! { (table::render(&alone)) (inside(&busiest.inside, None)) };
    };
    let base = report.summary(busiest.cell.with_arm(baseline.reference_cell.arm));
    let comparison = report.comparison(busiest.cell).filter(|c| c.baseline == baseline.subject);
    let row = |counter: &Counter| {
        let ratio = comparison.and_then(|c| c.ratio(counter.metric).median);
        let mut cells = counter.cells(&[Some(busiest), base]);
        cells.push(value(ratio, |r| format!("× {}", number(r))));
        cells.into()
    };
    let rows: Vec<Row> = COUNTERS.iter().map(row).collect();
    let compared = ReportTable::new(
        "counters",
        &["Per response", "#This subject", &format!("#{}", baseline.title), "#Ratio of pairs"],
        rows,
    );
    let reference = base.map(|base| (baseline.title.as_str(), &base.inside));
    html! { (table::render(&compared)) (inside(&busiest.inside, reference)) }
}

/// A metric with a name that is short enough for a card.
struct Counter {
    name: &'static str,
    metric: MetricId,
}

const COUNTERS: [Counter; 14] = [
    Counter { name: "user CPU", metric: MetricId::UserCpu },
    Counter { name: "system CPU", metric: MetricId::SystemCpu },
    Counter { name: "context switches", metric: MetricId::ContextSwitches },
    Counter { name: "waiting for a CPU", metric: MetricId::RunDelay },
    Counter { name: "system calls", metric: MetricId::SystemCalls },
    Counter { name: "bytes per read", metric: MetricId::BytesPerRead },
    Counter { name: "bytes per write", metric: MetricId::BytesPerWrite },
    Counter { name: "events per wait", metric: MetricId::EventsPerWait },
    Counter { name: "page faults", metric: MetricId::PageFaults },
    Counter { name: "TCP_NODELAY", metric: MetricId::NoDelay },
    Counter { name: "bytes received", metric: MetricId::BytesReceived },
    Counter { name: "segments received", metric: MetricId::Segments },
    Counter { name: "busiest thread", metric: MetricId::BusiestThread },
    Counter { name: "threads", metric: MetricId::Threads },
];

impl Counter {
    /// Returns cells with the name of the metric and its median in each step.
    fn cells(&self, steps: &[Option<&Summary>]) -> Vec<TableCell> {
        let unit = self.metric.metric().unit;
        let median_of = |step: Option<&Summary>| step?.median_of(self.metric);
        let medians = steps.iter().map(|step| value(median_of(*step), |v| quantity(unit, v)));
        [text(self.name)].into_iter().chain(medians).collect()
    }
}
