//! Renders the head of the page, the answer, and the table of subjects.

use dyno_analysis::metric::MetricId;
use dyno_analysis::overview::{BackendRow, OverviewRow, RowRatios};
use dyno_analysis::report::Report;
use dyno_analysis::summary::StepCaveat;
use maud::{Markup, html};

use super::{caveat_list, note, prose, severity_class, spread_text, swatch, table};
use crate::format::{bytes, count, full_bar_value, micros, millis, number, percent, plural};
use crate::overview::reference_percentile_texts;
use crate::present::part_scope::PartScope;
use crate::present::table::{ReportTable, Row, TableCell, cell, text, value};

/// Renders the head of the page: title, machine and links to the sections.
pub(super) fn header(report: &Report) -> Markup {
    let facts = &report.run.facts;
    let nav = [
        ("answer", "Answer"),
        ("overview", "Overview"),
        ("experiment", super::experiment::heading(report)),
        ("load", "Load"),
        ("response", "Response time"),
        ("cost", "Cost"),
        ("why", "Why"),
        ("wire", "On the wire"),
        ("life", "Start-up & checks"),
        ("explorer", "Explorer"),
        ("method", "Method"),
    ];
    let sections = nav
        .into_iter()
        .filter(|(id, _)| *id != "experiment" || super::experiment::has_section(report));
    html! {
        header {
            p.brand { "dyno" }
            h1 { (report.run.suite) }
            p.lede { (report.run.description) }
            p.meta {
                (report.run.started) " · "
                (facts.cpus) " × " (facts.cpu_model.as_deref().unwrap_or("unknown CPU"))
                " · Linux " (facts.kernel.as_deref().unwrap_or("of unknown version")) " · "
                (plural(report.run.repeats.into(), "repeat")) " · seed " (report.run.seed)
            }
            nav aria-label="Sections" {
                @for (id, name) in sections { a href={ "#" (id) } { (name) } }
            }
        }
        "\n"
        div.legend id="legend" hidden {}
        "\n"
    }
}

/// Renders the answer and the caveats of the run.
pub(super) fn answer(report: &Report) -> Markup {
    html! {
        @for sentence in crate::answer::sentences(report) { p.answer { (prose(&sentence)) } "\n" }
        (caveat_list(&report.caveats))
    }
}

/// Renders the table of subjects.
pub(super) fn overview(report: &Report) -> Markup {
    let rows = &report.overview;
    let reference = crate::overview::reference_text(rows, "at ");
    let (p50, p99) = (format!("#p50{reference}"), format!("#p99{reference}"));
    let cpu = format!("#CPU per request{reference}");
    let head = [
        "Subject",
        "#Peak requests/s",
        "#Place",
        &p50,
        &p99,
        &cpu,
        "#Memory",
        "#Start-up",
        "#Errors",
        "Checks",
        "Peak limited by",
    ];
    let scales: Vec<BarScales> = (0..report.run.workloads.len())
        .map(|workload| BarScales::from_report(report, workload))
        .collect();
    let table_row = |r: &OverviewRow| {
        let none = BarScales::default();
        let cells = overview_row(report, r, scales.get(r.reference_cell.workload).unwrap_or(&none));
        Row::new(PartScope::row(report, r), cells)
    };
    let rows = rows.iter().map(table_row).collect();
    html! {
        (table::render(&ReportTable::new("sortable overview", &head, rows)))
        (note(&table_note(report)))
    }
}

/// Explains the columns and signs of the overview.
fn table_note(report: &Report) -> String {
    let reference_step = crate::overview::reference_in_words(&report.overview);
    let mut text = format!(
        "The peak is the highest median throughput of all steps. The smaller text shows the range \
         of its repeats (with five repeats or more, the 95 % interval of their median) and its \
         step. ≥ marks a lower bound, because excluded repeats may hide a higher peak.\nPlace is \
         the possible rank after tests of all pairs of subjects: 1–3 means first, second or third. \
         Place and limit belong to the step of the peak.\nResponse times and CPU are measured \
         {reference_step}. Memory is the maximum of all steps. Errors are the sum of all \
         steps.\nHover over a number for its ratio to the reference subject. Click a column to \
         sort."
    );
    if report.run.workloads.len() > 1 {
        text.push_str(" Bars are scaled within each workload.");
    }
    if let Some(note) = crate::overview::mixture_note(&report.overview) {
        text.push(' ');
        text.push_str(note);
    }
    if report.overview.iter().any(|r| r.control) {
        text.push_str(" Truncated bars (controls) exceed the axis.");
    }
    if let Some(note) = crate::overview::invalid_note(&report.overview) {
        text.push(' ');
        text.push_str(note);
    }
    text
}

/// Values at which the bars of a workload fill their cells, per column.
#[derive(Default)]
struct BarScales {
    rps: f64,
    p99: f64,
    cpu: f64,
    memory: f64,
    startup: f64,
}

impl BarScales {
    /// Returns the scales for the rows of a workload.
    fn from_report(report: &Report, workload: usize) -> BarScales {
        let rows: Vec<&OverviewRow> =
            report.overview.iter().filter(|r| r.reference_cell.workload == workload).collect();
        let scale = |pick: fn(&OverviewRow) -> Option<f64>| {
            let max = |control| {
                let matching = rows.iter().filter(|r| r.control == control);
                matching.filter_map(|r| pick(r)).reduce(f64::max).unwrap_or(0.0)
            };
            full_bar_value(max(false), max(true))
        };
        BarScales {
            rps: scale(OverviewRow::max_rps),
            p99: scale(|r| r.figures.get(MetricId::ResponseP99)),
            cpu: scale(|r| r.figures.get(MetricId::Cpu)),
            memory: scale(|r| r.memory_peak_bytes),
            startup: scale(|r| r.startup_ms),
        }
    }
}

/// Returns the cells of a row.
fn overview_row(report: &Report, r: &OverviewRow, scales: &BarScales) -> Vec<TableCell> {
    // The baseline is compared in the same workload, because other workloads may send other
    // requests.
    let is_base =
        |b: &&OverviewRow| b.baseline && b.reference_cell.workload == r.reference_cell.workload;
    let baseline = report.overview.iter().find(is_base).map_or("", |b| b.title.as_str());
    let ratio = |pick: fn(&RowRatios) -> Option<f64>| {
        Some(format!("{} × {baseline}", number(pick(r.to_baseline.as_ref()?)?)))
    };
    let at =
        r.highest_throughput().map(|(_, at)| format!("at {}", crate::overview::label_in_words(at)));
    let at_least = ratio(|to| to.peak_rps_at_least).map(|ratio| format!("≥ {ratio}"));
    let peak_hint = [ratio(|to| to.peak_rps), at_least, at]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ");
    let [p50, p99] = reference_percentile_texts(report, r);
    // If the rows have different reference steps, each row names its own step.
    let has_own_steps = crate::overview::reference_text(&report.overview, "").is_empty();
    let with_own_step = |cell: TableCell| {
        if has_own_steps && r.figures.get(MetricId::ResponseP50).is_some() {
            return cell.with_small(format!("at {}", crate::overview::label(r.reference_at)));
        }
        cell
    };
    vec![
        name_cell(report, r),
        peak_cell(r).with_bar(scales.rps).with_hint(Some(peak_hint).filter(|h| !h.is_empty())),
        text(crate::overview::place_text(r)).sorted_by(r.places.map(|p| p.best as f64)),
        with_own_step(text(p50).sorted_by(r.figures.get(MetricId::ResponseP50)))
            .with_hint(ratio(|to| to.figures.get(MetricId::ResponseP50))),
        with_own_step(text(p99).sorted_by(r.figures.get(MetricId::ResponseP99)))
            .with_bar(scales.p99)
            .with_hint(ratio(|to| to.figures.get(MetricId::ResponseP99))),
        with_backends(
            with_own_step(
                text(crate::overview::cpu_text(r)).sorted_by(r.figures.get(MetricId::Cpu)),
            ),
            r,
            |b| {
                let share =
                    b.cpu_share.map(|share| format!(" ({})", percent(share))).unwrap_or_default();
                b.cpu_us_per_request.map(|us| format!("{}{share}", micros(us)))
            },
        )
        .with_bar(scales.cpu)
        .with_hint(ratio(|to| to.figures.get(MetricId::Cpu))),
        with_backends(value(r.memory_peak_bytes, bytes), r, |b| b.memory_peak_bytes.map(bytes))
            .with_bar(scales.memory)
            .with_hint(ratio(|to| to.memory_peak)),
        with_backends(value(r.startup_ms, millis), r, |b| b.startup_ms.map(millis))
            .with_bar(scales.startup)
            .with_hint(ratio(|to| to.startup)),
        value(r.errors.map(|n| n as f64), |n| count(n as u64)),
        text(crate::overview::passed_checks_text(r)).sorted_by(Some(r.checks_passed as f64)),
        limiter_summary_cell(r),
    ]
}

/// Adds the value of each back end to a cell of the subject, in smaller text below.
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
        small { (r.language) }
    };
    cell(format!("{}{control}", r.title), page)
}

/// Returns the cell of the peak, with its range and step.
fn peak_cell(r: &OverviewRow) -> TableCell {
    let Some((peak, at)) = r.highest_throughput() else {
        return text(crate::overview::peak_text(r));
    };
    let at = crate::overview::label(at);
    let marked = |rps| format!("{}{}", crate::overview::peak_mark(r), number(rps));
    value(peak.median, marked).with_small(format!("{}, at {at}", spread_text(peak, number)))
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
    if r.caveats.is_empty() { cell } else { cell.with_small(marks(&r.caveats)) }
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
