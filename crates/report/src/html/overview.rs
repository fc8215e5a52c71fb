//! The head of the page, its answer, and the table of subjects.

use std::fmt::Write as _;

use dyno_analysis::report::Report;
use dyno_analysis::summary::{OverviewRow, StepCaveat};

use super::table::{Cell, escape, table, text, value};
use super::{caveat_list, severity, spread, swatch};
use crate::answer;
use crate::format::{bytes, count, micros, number, plural};

pub(super) fn header(report: &Report) -> String {
    let facts = &report.run.facts;
    let machine = format!(
        "{} × {} · Linux {}",
        facts.cpus,
        facts.cpu_model.as_deref().unwrap_or("unknown CPU"),
        facts.kernel.as_deref().unwrap_or("of unknown version")
    );
    let nav = [
        ("answer", "Answer"),
        ("overview", "Overview"),
        ("load", "Load"),
        ("response", "Response time"),
        ("cost", "Cost"),
        ("why", "Why"),
        ("wire", "On the wire"),
        ("life", "Start-up & checks"),
        ("explorer", "Explorer"),
        ("method", "Method"),
    ];
    let links: String = nav.iter().map(|(id, name)| format!("<a href=\"#{id}\">{name}</a>")).collect();
    format!(
        "<header>\n<p class=\"brand\">dyno</p>\n<h1>{}</h1>\n<p class=\"lede\">{}</p>\n<p class=\"meta\">{} · {} · {} repeats · seed {}</p>\n<nav aria-label=\"Sections\">{links}</nav>\n</header>\n<div id=\"legend\" class=\"legend\" hidden></div>\n",
        escape(&report.run.suite),
        escape(&report.run.description),
        escape(&report.run.started),
        escape(&machine),
        report.run.repeats,
        report.run.seed
    )
}

pub(super) fn answer_html(report: &Report) -> String {
    let sentences: String = answer::sentences(report)
        .iter()
        .map(|s| format!("<p class=\"answer\">{}</p>\n", escape(s)))
        .collect();
    format!("{sentences}{}", caveat_list(&report.caveats))
}

pub(super) fn overview(report: &Report) -> String {
    let rows = &report.overview;
    let most = |pick: &dyn Fn(&OverviewRow) -> Option<f64>| rows.iter().filter_map(pick).fold(0.0, f64::max);
    let peak = |r: &OverviewRow| r.peak_rps.as_ref().and_then(|p| p.median);
    let maxima = Maxima {
        rps: most(&peak),
        p99: most(&|r| r.response_p99_us),
        cpu: most(&|r| r.cpu_us_per_request),
        memory: most(&|r| r.memory_peak_bytes),
        startup: most(&|r| r.startup_ms),
    };
    let reference = crate::overview::at_reference(rows, "at ");
    let (p50, p99) = (format!("#p50{reference}"), format!("#p99{reference}"));
    let where_at = crate::overview::reference_in_words(rows);
    let head = [
        "Subject",
        "#Peak requests/s",
        "#Tie group",
        &p50,
        &p99,
        "#CPU per request",
        "#Memory",
        "#Start-up",
        "#Errors",
        "Checks",
        "Limited by",
    ];
    let cells: Vec<Vec<Cell>> = rows.iter().map(|r| overview_row(report, r, &maxima)).collect();
    let note = format!(
        "<p class=\"note\">Peak: the best median over the steps, below it the range of the repeats. Response times and CPU {where_at}. Subjects of one tie group cannot be told apart. Hover a number for its ratio to the reference; click a column to sort.</p>\n"
    );
    table("sortable overview", &head, &cells) + &note
}

struct Maxima {
    rps: f64,
    p99: f64,
    cpu: f64,
    memory: f64,
    startup: f64,
}

fn overview_row(report: &Report, r: &OverviewRow, max: &Maxima) -> Vec<Cell> {
    // Of the same workload: another one may ask for something else.
    let baseline = report.overview.iter().find(|b| b.baseline && b.workload == r.workload);
    let ratio = |own: Option<f64>, pick: &dyn Fn(&OverviewRow) -> Option<f64>| {
        let (own, base) = (own?, baseline.and_then(pick)?);
        (!r.baseline)
            .then(|| format!("{} × {}", number(own / base), baseline.map_or("", |b| b.title.as_str())))
    };
    let peak = |r: &OverviewRow| r.peak_rps.as_ref().and_then(|p| p.median);
    let mut name = format!("{}{}", swatch(report, &r.subject), escape(&r.title));
    if r.control {
        name.push_str(" <span class=\"tag\">control</span>");
    }
    if r.baseline {
        name.push_str(" <span class=\"tag\">reference</span>");
    }
    let _ = write!(name, "<small>{}</small>", escape(&r.language));
    let streams = r.peak_streams.filter(|n| *n > 1).map_or(String::new(), |n| format!(" × {n} streams"));
    let at = r.peak_connections.map(|c| format!("at {}{streams}", plural(u64::from(c), "connection")));
    let peak_hint = [ratio(peak(r), &peak), at].into_iter().flatten().collect::<Vec<_>>().join(", ");
    vec![
        Cell { html: name, ..Cell::default() },
        peak_cell(r).with_bar(max.rps).with_hint(Some(peak_hint).filter(|h| !h.is_empty())),
        value(r.tie_group.map(|g| g as f64), |g| format!("{g}")),
        value(r.response_p50_us, micros).with_hint(ratio(r.response_p50_us, &|r| r.response_p50_us)),
        value(r.response_p99_us, micros)
            .with_bar(max.p99)
            .with_hint(ratio(r.response_p99_us, &|r| r.response_p99_us)),
        value(r.cpu_us_per_request, micros)
            .with_bar(max.cpu)
            .with_hint(ratio(r.cpu_us_per_request, &|r| r.cpu_us_per_request)),
        value(r.memory_peak_bytes, bytes)
            .with_bar(max.memory)
            .with_hint(ratio(r.memory_peak_bytes, &|r| r.memory_peak_bytes)),
        value(r.startup_ms, |ms| micros(ms * 1e3))
            .with_bar(max.startup)
            .with_hint(ratio(r.startup_ms, &|r| r.startup_ms)),
        value(Some(r.errors as f64), |n| count(n as u64)),
        Cell {
            html: format!("{}/{}", r.checks_passed, r.checks),
            hint: None,
            key: Some(r.checks_passed as f64),
            bar: None,
        },
        limited(r),
    ]
}

fn peak_cell(r: &OverviewRow) -> Cell {
    let Some(peak) = &r.peak_rps else { return text("–") };
    let mut cell = value(peak.median, number);
    let _ = write!(cell.html, "<small>{}</small>", spread(peak, number));
    cell
}

/// Caveats as marks beside a number: each leads to what it means, and tells its evidence on hover.
pub(super) fn marks(caveats: &[StepCaveat]) -> String {
    caveats
        .iter()
        .map(|c| {
            format!(
                "<a class=\"mark {}\" href=\"#caveat-{}\" title=\"{}\">{}</a> ",
                severity(c.severity),
                c.code,
                escape(&c.message),
                c.code.replace('_', " ")
            )
        })
        .collect()
}

fn limited(r: &OverviewRow) -> Cell {
    let mut cell = limiter_cell(r);
    if !r.caveats.is_empty() {
        let _ = write!(cell.html, "<small>{}</small>", marks(&r.caveats));
    }
    cell
}

fn limiter_cell(r: &OverviewRow) -> Cell {
    match (&r.absent, r.limiter) {
        (Some(why), _) => {
            Cell { html: format!("<span class=\"bad\">{}</span>", escape(why)), ..Cell::default() }
        }
        (None, Some(limiter)) => {
            Cell { html: escape(&resource(limiter)), hint: r.limiter_sentence.clone(), ..Cell::default() }
        }
        (None, None) => text("–"),
    }
}

pub(super) fn resource(resource: dyno_analysis::limiter::Resource) -> String {
    use dyno_analysis::limiter::Resource as R;
    match resource {
        R::Failure => "failure",
        R::Generator => "the generator",
        R::Jit => "its JIT compiler",
        R::CpuQuota => "its CPU quota",
        R::ServerCpu => "its CPU",
        R::ServerThread => "one of its threads",
        R::OfferedRate => "the offered rate",
        R::Concurrency => "few in flight",
        R::Unknown => "unknown",
    }
    .into()
}
