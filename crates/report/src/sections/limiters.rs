//! Arranges the section on limits. The section has a card per subject, with the limiter of each
//! step and the counters of its busiest steps.

use std::collections::BTreeSet;

use dyno_analysis::metric::MetricId;
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::report::Report;
use dyno_analysis::subject::SubjectResult;
use dyno_analysis::summary::Summary;

use super::probe_results::{inside, machine, use_table};
use super::profile::profiles;
use super::subject_cell;
use crate::format::{number, quantity};
use crate::overview::{label, step_in_words};
use crate::present::block::{Block, ScopedPart, StepItem};
use crate::present::part_scope::PartScope;
use crate::present::sentence::Sentence;
use crate::present::table::{Column, ReportTable, text, value};

/// Returns the content of the section, which only pages have. The table of throughput states the
/// limiter of each step in every form.
pub(super) fn limiters(report: &Report) -> Block {
    let card = |subject: &SubjectResult| {
        let steps: Vec<&Summary> =
            report.summaries.iter().filter(|s| s.subject == subject.id).collect();
        (!steps.is_empty()).then(|| card(report, subject, &steps))
    };
    let cards = report.subjects.iter().filter_map(card).collect();
    Block::OnPages(vec![Block::Cards(cards), profiles(report)])
}

/// Returns the card of a subject.
fn card(report: &Report, subject: &SubjectResult, steps: &[&Summary]) -> ScopedPart {
    let workloads: BTreeSet<usize> = steps.iter().map(|s| s.cell.workload).collect();
    let scope =
        PartScope::subject(report, &subject.id).with_workloads(report, workloads.iter().copied());
    let strip = Block::Steps(steps.iter().map(|s| step_limiter(report, s)).collect());
    let busiest = workloads.into_iter().filter_map(|w| busiest_step(report, w, steps));
    let title = subject_cell(report, &subject.id, &subject.title);
    ScopedPart { scope, title, content: [strip].into_iter().chain(busiest).collect() }
}

/// Describes the limiter and the counters at the busiest step of a workload.
fn busiest_step(report: &Report, workload: usize, steps: &[&Summary]) -> Option<Block> {
    let steps_of_workload = steps.iter().filter(|s| s.cell.workload == workload);
    let busiest = steps_of_workload.max_by(|a, b| median_rate(a).total_cmp(&median_rate(b)))?;
    let step = step_in_words(report, &busiest.workload, busiest.shape);
    let content = vec![
        Block::paragraph(&format!("At {step}: {}", busiest.limiter_sentence)),
        counters(report, busiest),
        use_table(&busiest.use_table),
        machine(&busiest.machine),
    ];
    let scope = PartScope::default().with_workloads(report, [workload]);
    Some(Block::OfWorkloads(scope.workloads, content))
}

/// Returns the median throughput of a step, or 0 if it is unknown.
fn median_rate(s: &Summary) -> f64 {
    s.median_of(MetricId::Throughput).unwrap_or(0.0)
}

/// Returns a step and its limiter as an item of a list.
fn step_limiter(report: &Report, s: &Summary) -> StepItem {
    let limiter = format!(" {}{}", s.limiter.in_words(), s.limiter_confidence.mark(s.limiter));
    StepItem {
        class: s.limiter.name(),
        scope: PartScope::cell(report, s.cell),
        hint: s.limiter_sentence.clone(),
        text: Sentence::about(step_label(report, s)).then(limiter),
    }
}

/// Labels a step: `64` (connections), or `json 64` if there are several workloads.
fn step_label(report: &Report, s: &Summary) -> String {
    let workload =
        if report.run.workloads.len() > 1 { format!("{} ", s.workload) } else { String::new() };
    format!("{workload}{}", label(s.shape))
}

/// Returns the tables of counters at the busiest step, with the counters of the reference arm at
/// the same step of the same workload.
fn counters(report: &Report, busiest: &Summary) -> Block {
    let is_baseline = |r: &&OverviewRow| {
        r.baseline
            && r.reference_cell.workload == busiest.cell.workload
            && r.reference_cell.arm != busiest.cell.arm
    };
    let baseline = report.overview.iter().find(is_baseline);
    let base = baseline.and_then(|b| report.summary(busiest.cell.with_arm(b.reference_cell.arm)));
    let comparison = report
        .comparison(busiest.cell)
        .filter(|c| baseline.is_some_and(|b| c.baseline == b.subject));
    let median_cell = |step: Option<&Summary>, id: MetricId| {
        value(step.and_then(|s| s.median_of(id)), |v| quantity(id.metric().unit, v))
    };
    let own_cell = |(_, id): &Counter| median_cell(Some(busiest), *id);
    let base_cell = |(_, id): &Counter| median_cell(base, *id);
    let ratio_cell = |(_, id): &Counter| {
        value(comparison.and_then(|c| c.ratio(*id).median), |r| format!("× {}", number(r)))
    };
    let base_head = baseline.map(|b| format!("#{}", b.title));
    let own: [Column<'_, Counter>; 2] =
        [("Per response", &|(name, _)| text(*name)), ("#This subject", &own_cell)];
    let compared = base_head.as_deref().map(|head| -> [Column<'_, Counter>; 2] {
        [(head, &base_cell), ("#Ratio of pairs", &ratio_cell)]
    });
    let columns: Vec<Column<'_, Counter>> =
        own.into_iter().chain(compared.into_iter().flatten()).collect();
    let reference = baseline.zip(base).map(|(b, base)| (b.title.as_str(), &base.inside));
    let table = ReportTable::plain("counters", &columns, &COUNTERS);
    Block::Group(vec![Block::Table(table), inside(&busiest.inside, reference)])
}

/// A metric, and a name that is short enough for a card.
type Counter = (&'static str, MetricId);

const COUNTERS: [Counter; 14] = [
    ("user CPU", MetricId::UserCpu),
    ("system CPU", MetricId::SystemCpu),
    ("context switches", MetricId::ContextSwitches),
    ("waiting for a CPU", MetricId::RunDelay),
    ("system calls", MetricId::SystemCalls),
    ("bytes per read", MetricId::BytesPerRead),
    ("bytes per write", MetricId::BytesPerWrite),
    ("events per wait", MetricId::EventsPerWait),
    ("page faults", MetricId::PageFaults),
    ("TCP_NODELAY", MetricId::NoDelay),
    ("bytes received", MetricId::BytesReceived),
    ("segments received", MetricId::Segments),
    ("busiest thread", MetricId::BusiestThread),
    ("threads", MetricId::Threads),
];
