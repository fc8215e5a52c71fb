//! Arranges the answer and the table of subjects.

use dyno_analysis::metric::MetricId;
use dyno_analysis::overview::{BackendRow, OverviewRow, RowRatios};
use dyno_analysis::report::Report;
use dyno_analysis::summary::StepCaveat;
use maud::{Markup, html};

use super::{spread_text, swatch};
use crate::format::{bytes, count, full_bar_value, micros, millis, number, percent};
use crate::html::block::severity_class;
use crate::overview::{
    cpu_text, invalid_note, label, label_in_words, mixture_note, passed_checks_text, peak_mark,
    peak_text, place_text, reference_in_words, reference_percentile_text, reference_text,
};
use crate::present::block::Block;
use crate::present::part_scope::PartScope;
use crate::present::sentence::Sentence;
use crate::present::table::{Column, ReportTable, TableCell, cell, text, value};

/// Returns the answer, and the caveats of the run.
pub(crate) fn answer(report: &Report) -> [Block; 2] {
    let sentences = crate::answer::sentences(report);
    let answer = sentences.iter().map(|text| Block::Paragraph("answer", Sentence::new(text)));
    [Block::Group(answer.collect()), Block::Caveats(report.caveats.clone())]
}

/// Returns the content of the section.
pub(super) fn overview(report: &Report) -> Block {
    Block::Group(vec![
        Block::Table(overview_table(report)),
        Block::note(&table_note(report)),
        Block::OnPages(vec![Block::note(&page_note(report))]),
    ])
}

/// Returns the table of subjects, for every form.
pub(crate) fn overview_table(report: &Report) -> ReportTable {
    let reference = reference_text(&report.overview, "at ");
    let [p50, p99, cpu] = ["p50", "p99", "CPU per request"].map(|n| format!("#{n}{reference}"));
    let columns: [Column<'_, OverviewRow>; 11] = [
        ("Subject", &|r| name_cell(report, r)),
        ("#Peak requests/s", &|r| {
            peak_cell(r)
                .with_bar(bar_end(report, r, OverviewRow::max_rps))
                .with_hint(peak_hint(report, r))
        }),
        ("#Place", &|r| text(place_text(r)).sorted_by(r.places.map(|p| p.best as f64))),
        (&p50, &|r| percentile_cell(report, r, MetricId::ResponseP50)),
        (&p99, &|r| {
            percentile_cell(report, r, MetricId::ResponseP99)
                .with_bar(bar_end(report, r, |r| r.figures.get(MetricId::ResponseP99)))
        }),
        (&cpu, &|r| cpu_cell(report, r)),
        ("#Memory", &|r| {
            with_backends(value(r.memory_peak_bytes, bytes), r, |b| b.memory_peak_bytes.map(bytes))
                .with_bar(bar_end(report, r, |r| r.memory_peak_bytes))
                .with_hint(ratio_text(report, r, |to| to.memory_peak))
        }),
        ("#Start-up", &|r| {
            with_backends(value(r.startup_ms, millis), r, |b| b.startup_ms.map(millis))
                .with_bar(bar_end(report, r, |r| r.startup_ms))
                .with_hint(ratio_text(report, r, |to| to.startup))
        }),
        ("#Errors", &|r| value(r.errors.map(|n| n as f64), |n| count(n as u64))),
        ("Checks", &|r| text(passed_checks_text(r)).sorted_by(Some(r.checks_passed as f64))),
        ("Peak limited by", &|r| limiter_summary_cell(r)),
    ];
    ReportTable::scoped("sortable overview", &columns, &report.overview, |r| {
        PartScope::row(report, r)
    })
}

/// Explains the columns and signs of the overview.
pub(crate) fn table_note(report: &Report) -> String {
    let reference_step = reference_in_words(&report.overview);
    let text = format!(
        "The peak is the highest median throughput of all steps, with the range of its repeats \
         (with five repeats or more, the 95 % interval of their median) and its step. ≥ marks a \
         lower bound, because excluded repeats may hide a higher peak.\nPlace is the possible \
         rank after tests of all pairs of subjects: 1–3 means first, second or third. Place and \
         limit belong to the step of the peak.\nResponse times and CPU are measured \
         {reference_step}. Memory is the maximum of all steps. Errors are the sum of all steps."
    );
    let signs = [mixture_note(&report.overview), invalid_note(&report.overview)];
    let signs: Vec<&str> = signs.into_iter().flatten().collect();
    format!("{text}\n{}", signs.join(" "))
}

/// Explains what only pages have: hints, sorting and bars.
fn page_note(report: &Report) -> String {
    let mut text = String::from(
        "Hover over a number for its ratio to the reference subject. Click a column to sort.",
    );
    if report.run.workloads.len() > 1 {
        text.push_str(" Bars are scaled within each workload.");
    }
    if report.overview.iter().any(|r| r.control) {
        text.push_str(" Truncated bars (controls) exceed the axis.");
    }
    text
}

/// Returns the value at which the bars of a column fill their cells, in the workload of a row.
fn bar_end(report: &Report, row: &OverviewRow, pick: fn(&OverviewRow) -> Option<f64>) -> f64 {
    let max = |control| {
        let is_scaled_together = |r: &&OverviewRow| {
            r.control == control && r.reference_cell.workload == row.reference_cell.workload
        };
        let rows = report.overview.iter().filter(is_scaled_together);
        rows.filter_map(pick).reduce(f64::max).unwrap_or(0.0)
    };
    full_bar_value(max(false), max(true))
}

/// Formats the ratio of a row to the baseline. The baseline is compared in the same workload,
/// because other workloads may send other requests. `None`: unknown.
fn ratio_text(
    report: &Report,
    r: &OverviewRow,
    pick: impl Fn(&RowRatios) -> Option<f64>,
) -> Option<String> {
    let is_base =
        |b: &&OverviewRow| b.baseline && b.reference_cell.workload == r.reference_cell.workload;
    let baseline = report.overview.iter().find(is_base).map_or("", |b| b.title.as_str());
    Some(format!("{} × {baseline}", number(pick(r.to_baseline.as_ref()?)?)))
}

/// Returns the ratio and the step of the peak. `None`: both are unknown.
fn peak_hint(report: &Report, r: &OverviewRow) -> Option<String> {
    let ratio = ratio_text(report, r, |to| to.peak_rps);
    let at_least =
        ratio_text(report, r, |to| to.peak_rps_at_least).map(|ratio| format!("≥ {ratio}"));
    let at = r.highest_throughput().map(|(_, at)| format!("at {}", label_in_words(at)));
    let hint = [ratio, at_least, at].into_iter().flatten().collect::<Vec<_>>().join(", ");
    Some(hint).filter(|hint| !hint.is_empty())
}

/// Names the reference step of a row, if the rows have different ones.
fn with_own_step(report: &Report, r: &OverviewRow, cell: TableCell) -> TableCell {
    let has_numbers = r.figures.get(MetricId::ResponseP50).is_some() || r.invalid.is_some();
    if has_numbers && reference_text(&report.overview, "").is_empty() {
        return cell.with_small(format!("at {}", label(r.reference_at)));
    }
    cell
}

/// Returns the cell of a percentile at the reference step.
fn percentile_cell(report: &Report, r: &OverviewRow, id: MetricId) -> TableCell {
    let shown = text(reference_percentile_text(report, r, id)).sorted_by(r.figures.get(id));
    with_own_step(report, r, shown).with_hint(ratio_text(report, r, |to| to.figures.get(id)))
}

/// Returns the cell of the CPU time per request at the reference step.
fn cpu_cell(report: &Report, r: &OverviewRow) -> TableCell {
    let shown = text(cpu_text(r)).sorted_by(r.figures.get(MetricId::Cpu));
    let backend_text = |b: &BackendRow| {
        let share = b.cpu_share.map(|share| format!(" ({})", percent(share))).unwrap_or_default();
        b.cpu_us_per_request.map(|us| format!("{}{share}", micros(us)))
    };
    with_backends(with_own_step(report, r, shown), r, backend_text)
        .with_bar(bar_end(report, r, |r| r.figures.get(MetricId::Cpu)))
        .with_hint(ratio_text(report, r, |to| to.figures.get(MetricId::Cpu)))
}

/// Adds the value of each back end to a cell of the subject.
fn with_backends(
    cell: TableCell,
    r: &OverviewRow,
    show: impl Fn(&BackendRow) -> Option<String>,
) -> TableCell {
    let texts = r
        .backends
        .iter()
        .filter_map(|backend| Some(format!("+ {} {}", backend.name, show(backend)?)));
    texts.fold(cell, TableCell::with_small)
}

/// Returns the cell of a subject's name, with its tags.
fn name_cell(report: &Report, r: &OverviewRow) -> TableCell {
    let control = if r.control { " (control)" } else { "" };
    let page = html! {
        (swatch(report, &r.subject)) (r.title)
        @if r.control { " " span.tag { "control" } }
        @if r.baseline { " " span.tag { "reference" } }
        @if r.checks_waived > 0 {
            " " a.mark.invalid href="#life" title="This subject fails checks that its subject.toml \
                                                   waives (accepts)." {
                "✗ waived"
            }
        }
    };
    cell(format!("{}{control}", r.title), page).with_small(&*r.language)
}

/// Returns the cell of the peak, with its range and step.
fn peak_cell(r: &OverviewRow) -> TableCell {
    let Some((peak, at)) = r.highest_throughput() else {
        let at = r.invalid.as_ref().and_then(|invalid| invalid.peak_at);
        let at = at.map(|at| format!("at {}", label(at)));
        return at.into_iter().fold(text(peak_text(r)), TableCell::with_small);
    };
    let marked = |rps| format!("{}{}", peak_mark(r), number(rps));
    value(peak.median, marked).with_small(format!(
        "{}, at {}",
        spread_text(peak, number),
        label(at)
    ))
}

/// Renders marks of caveats next to a number. Each mark links to the meaning of its caveat, and
/// shows the message on hover.
pub(super) fn marks(caveats: &[StepCaveat]) -> Markup {
    html! {
        @for c in caveats {
            a class={ "mark " (severity_class(c.severity)) }
                href={ "#caveat-" (c.code) }
                title=(c.message) {
                (c.code.in_words())
            }
            " "
        }
    }
}

/// Returns the cell of the limiter, with marks of caveats.
fn limiter_summary_cell(r: &OverviewRow) -> TableCell {
    let cell = limiter_cell(r);
    if r.caveats.is_empty() { cell } else { cell.with_small_on_page(&marks(&r.caveats)) }
}

/// Returns the cell of the limiter, or of the reason why there are no numbers.
fn limiter_cell(r: &OverviewRow) -> TableCell {
    match (&r.absent, r.limiter) {
        (Some(reason), _) => cell(reason, html! { span.bad { (reason) } }),
        (None, Some(limiter)) => {
            let confidence_mark =
                r.limiter_confidence.map_or("", |confidence| confidence.mark(limiter));
            text(format!("{}{confidence_mark}", limiter.in_words()))
                .with_hint(r.limiter_sentence.clone())
        }
        (None, None) => text("–"),
    }
}
