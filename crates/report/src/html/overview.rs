//! The head of the page, its response, and the table of subjects.

use dyno_analysis::overview::{BackendRow, OverviewRow, RowRatios};
use dyno_analysis::report::Report;
use dyno_analysis::summary::StepCaveat;
use maud::{Markup, html};

use super::part_scope::PartScope;
use super::table::{TableCell, TableRow, cell, table, text, value};
use super::{caveat_list, note, prose, severity, spread, swatch};
use crate::format::{bar_end, bytes, count, micros, millis, number, percent, plural};
use crate::overview::waits_at_reference;

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
        .filter(|(id, _)| *id != "experiment" || super::experiment::is_there(report));
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

pub(super) fn answer(report: &Report) -> Markup {
    html! {
        @for sentence in crate::answer::sentences(report) { p.answer { (prose(&sentence)) } "\n" }
        (caveat_list(&report.caveats))
    }
}

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
    let ends: Vec<Ends> = (0..report.run.workloads.len())
        .map(|workload| Ends::from_report(report, workload))
        .collect();
    let line = |r: &OverviewRow| {
        let none = Ends::default();
        let cells = overview_row(report, r, ends.get(r.reference_cell.workload).unwrap_or(&none));
        TableRow::new(PartScope::row(report, r), cells)
    };
    html! {
        (table("sortable overview", &head, &rows.iter().map(line).collect::<Vec<TableRow>>()))
        (note(&footnote_text(report)))
    }
}

fn footnote_text(report: &Report) -> String {
    let where_at = crate::overview::reference_in_words(&report.overview);
    let mut said = format!(
        "Peak: the best median over the steps. Below it: the range of the repeats (from five on, \
         the 95 % interval of their median), and the step, to which place and limit also belong. \
         ≥: a lower bound, because repeats that do not count may hide a higher peak. Place: the \
         ranks that tests of all pairs leave open. 1–3 is the first, the second or the third. \
         Response times and CPU {where_at}. Memory: the maximum of all steps. Errors: the sum of \
         all steps. Hover a number for its ratio to the reference. Click a column to sort."
    );
    if report.run.workloads.len() > 1 {
        said.push_str(" Bars are scaled within each workload.");
    }
    if let Some(note) = crate::overview::mixture_note(&report.overview) {
        said.push(' ');
        said.push_str(note);
    }
    if report.overview.iter().any(|r| r.control) {
        said.push_str(" Truncated bars (controls) exceed the axis.");
    }
    if let Some(note) = crate::overview::invalid_note(&report.overview) {
        said.push(' ');
        said.push_str(note);
    }
    said
}

/// Where the bars of a workload's rows end, column by column.
#[derive(Default)]
struct Ends {
    rps: f64,
    p99: f64,
    cpu: f64,
    memory: f64,
    startup: f64,
}

impl Ends {
    fn from_report(report: &Report, workload: usize) -> Ends {
        let rows: Vec<&OverviewRow> =
            report.overview.iter().filter(|r| r.reference_cell.workload == workload).collect();
        let end = |pick: fn(&OverviewRow) -> Option<f64>| {
            let most = |control| {
                let own = rows.iter().filter(|r| r.control == control);
                own.filter_map(|r| pick(r)).reduce(f64::max).unwrap_or(0.0)
            };
            bar_end(most(false), most(true))
        };
        Ends {
            rps: end(OverviewRow::most_rps),
            p99: end(|r| r.response_p99_us),
            cpu: end(|r| r.cpu_us_per_request),
            memory: end(|r| r.memory_peak_bytes),
            startup: end(|r| r.startup_ms),
        }
    }
}

fn overview_row(report: &Report, r: &OverviewRow, ends: &Ends) -> Vec<TableCell> {
    // The baseline's row of the same workload: another workload may send other requests.
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
    let [p50, p99] = waits_at_reference(report, r);
    // If the heads cannot name one reference step for all rows, each row names its own.
    let differs = crate::overview::reference_text(&report.overview, "").is_empty();
    let at_own = |cell: TableCell| {
        if differs && r.response_p50_us.is_some() {
            return cell.with_small(format!("at {}", crate::overview::label(r.reference_at)));
        }
        cell
    };
    vec![
        name_cell(report, r),
        peak_cell(r).with_bar(ends.rps).with_hint(Some(peak_hint).filter(|h| !h.is_empty())),
        text(crate::overview::place(r)).sorted_by(r.places.map(|p| p.best as f64)),
        at_own(text(p50).sorted_by(r.response_p50_us)).with_hint(ratio(|to| to.response_p50)),
        at_own(text(p99).sorted_by(r.response_p99_us))
            .with_bar(ends.p99)
            .with_hint(ratio(|to| to.response_p99)),
        with_backends(
            at_own(text(crate::overview::cpu(r)).sorted_by(r.cpu_us_per_request)),
            r,
            |b| {
                let share =
                    b.cpu_share.map(|share| format!(" ({})", percent(share))).unwrap_or_default();
                b.cpu_us_per_request.map(|us| format!("{}{share}", micros(us)))
            },
        )
        .with_bar(ends.cpu)
        .with_hint(ratio(|to| to.cpu_per_request)),
        with_backends(value(r.memory_peak_bytes, bytes), r, |b| b.memory_peak_bytes.map(bytes))
            .with_bar(ends.memory)
            .with_hint(ratio(|to| to.memory_peak)),
        with_backends(value(r.startup_ms, millis), r, |b| b.startup_ms.map(millis))
            .with_bar(ends.startup)
            .with_hint(ratio(|to| to.startup)),
        value(Some(r.errors as f64), |n| count(n as u64)),
        text(crate::overview::passed_checks_text(r)).sorted_by(Some(r.checks_passed as f64)),
        limiter_summary_cell(r),
    ]
}

/// A cell of the subject with the same of each back end in smaller text below.
fn with_backends(
    cell: TableCell,
    r: &OverviewRow,
    show: impl Fn(&BackendRow) -> Option<String>,
) -> TableCell {
    let shown =
        r.backends.iter().filter_map(|behind| Some(format!("+ {} {}", behind.name, show(behind)?)));
    shown.fold(cell, TableCell::with_small)
}

fn name_cell(report: &Report, r: &OverviewRow) -> TableCell {
    cell(html! {
        (swatch(report, &r.subject)) (r.title)
        @if r.control { " " span.tag { "control" } }
        @if r.baseline { " " span.tag { "reference" } }
        @if r.checks_waived > 0 {
            " " a.mark.invalid href="#life" title="It fails checks of its contract that its own \
                                                   file waives." {
                "✗ waived"
            }
        }
        small { (r.language) }
    })
}

fn peak_cell(r: &OverviewRow) -> TableCell {
    let Some((peak, at)) = r.highest_throughput() else { return text(crate::overview::peak(r)) };
    let at = crate::overview::label(at);
    let shown = |rps| format!("{}{}", crate::overview::peak_mark(r), number(rps));
    value(peak.median, shown).with_small(format!("{}, at {at}", spread(peak, number)))
}

/// Caveats as marks next to a number: each links to its meaning, and shows its message on hover.
pub(super) fn marks(caveats: &[StepCaveat]) -> Markup {
    html! {
        @for c in caveats {
            a class={ "mark " (severity(c.severity)) }
                href={ "#caveat-" (c.code) }
                title=(c.message) {
                (c.code.in_words())
            }
            " "
        }
    }
}

fn limiter_summary_cell(r: &OverviewRow) -> TableCell {
    let cell = limiter_cell(r);
    if r.caveats.is_empty() { cell } else { cell.with_small(marks(&r.caveats)) }
}

fn limiter_cell(r: &OverviewRow) -> TableCell {
    match (&r.absent, r.limiter) {
        (Some(why), _) => cell(html! { span.bad { (why) } }),
        (None, Some(limiter)) => {
            let sure = r.limiter_confidence.map_or("", |confidence| confidence.mark(limiter));
            text(format!("{}{sure}", resource(limiter))).with_hint(r.limiter_sentence.clone())
        }
        (None, None) => text("–"),
    }
}

pub(super) const fn resource(resource: dyno_analysis::verdict::Resource) -> &'static str {
    use dyno_analysis::verdict::Resource as R;
    match resource {
        R::Failure => "failure",
        R::DroppedPackets => "dropped packets",
        R::Refusal => "no listener, as intended",
        R::OtherPrograms => "other programs",
        R::Generator => "the generator",
        R::Jit => "its JIT compiler",
        R::CpuQuota => "its CPU quota",
        R::ServerCpu => "its CPU",
        R::ServerThread => "one of its threads",
        R::OfferedRate => "the offered rate",
        R::Concurrency => "too few in flight",
        R::Backend => "a back end",
        R::Gc => "its garbage collector",
        R::DelayedAck => "delayed acknowledgements",
        R::AcceptQueue => "its accept queue",
        R::Link => "a network link",
        R::Memory => "its memory",
        R::Disk => "a disk",
        R::Lock => "a lock",
        R::Workers => "its sleeping workers",
        R::Elsewhere => "something else",
        R::Unknown => "unknown",
    }
}
