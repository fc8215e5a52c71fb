//! `report.html`: one self-contained page. Texts and tables are rendered here. The viewer (`web/`)
//! draws the charts from the JSON in the page; without it the page can still be read and printed.
//!
//! Archives may come from others, so nothing here writes HTML by hand: maud escapes every text.
//! Only the viewer's own script runs: the page's content security policy names it by its hash.

mod cost;
mod document;
mod experiment;
mod lifecycle;
mod limiters;
mod load;
mod method;
mod overview;
mod part_scope;
mod policy;
mod probe_results;
mod profile;
mod table;
mod wire;

use dyno_analysis::cell::Shape;
use dyno_analysis::metric::METRICS;
use dyno_analysis::noise::STARTUP;
use dyno_analysis::report::Report;
use dyno_analysis::stats::Repeated;
use dyno_analysis::summary::Summary;
use dyno_analysis::trial::TrialResult;
use dyno_analysis::{Caveat, Severity};
use maud::{Markup, html};

pub(crate) use self::document::{Viewer, document};
use self::part_scope::PartScope;
pub(crate) use self::profile::figure_of;
use self::table::{Column, TableCell, table_of, text, value};
use crate::format::{count, or_dash, percent, plural};
use crate::overview::rate_cell;
use crate::redact;
use crate::{VIEWER_CSS, VIEWER_JS};

/// Renders the page.
#[must_use]
pub fn render(report: &Report) -> String {
    page(report, VIEWER_CSS, VIEWER_JS)
}

/// The page with the given viewer: golden tests leave the bundle out.
#[must_use]
pub fn page(report: &Report, css: &str, js: &str) -> String {
    let shared = redact::redact(report);
    let report = &*shared.report;
    let data = serde_json::to_string(report).expect("reports hold nothing that JSON cannot");
    let main = html! {
        (overview::header(report))
        (section("answer", "The answer", &overview::answer(report)))
        (section("overview", "Overview", &overview::overview(report)))
        (experiment::section(report))
        (section("load", "Under load", &load::under_load(report)))
        (section("response", "Response time", &load::response(report)))
        (section("cost", "Cost", &cost::cost(report)))
        (section("why", "Why", &limiters::limiters_section(report)))
        (section("wire", "On the wire", &wire::wire(report)))
        (section("life", "Start-up, stop, checks, build", &lifecycle::lifecycle_section(report)))
        (section("explorer", "Explorer", &method::explorer(report)))
        (section("method", "Method", &method::method(report, shared.withheld)))
    };
    document(&format!("{} · dyno", report.run.suite), &main, Viewer { css, js, data: &data })
}

/// JSON that is safe inside a script element: without any `<` it holds no `</script` and no `<!--`.
fn inside_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

fn section(id: &str, title: &str, body: &Markup) -> Markup {
    html! { section id=(id) { h2 { (title) } "\n" (body) } "\n" }
}

fn caveat_list(caveats: &[Caveat]) -> Markup {
    html! {
        @if !caveats.is_empty() {
            ul.caveats { @for caveat in caveats { (caveat_item(caveat)) } } "\n"
        }
    }
}

fn caveat_item(caveat: &Caveat) -> Markup {
    html! {
        li class=(severity(caveat.severity)) {
            (prose(&caveat.message)) " "
            a.code href={ "#caveat-" (caveat.code) } { (caveat.code.in_words()) }
        }
    }
}

const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Invalid => "invalid",
    }
}

fn spread(q: &Repeated, show: impl Fn(f64) -> String) -> String {
    or_dash(q.spread(), |(a, b)| format!("{}–{}", show(a), show(b)))
}

fn swatch(report: &Report, id: &str) -> Markup {
    let index = report.subjects.iter().position(|s| s.id == id).unwrap_or(0);
    html! { span.swatch data-colour=(index) {} }
}

/// A place for a chart, with its table one click away.
fn figure(chart: &str, caption: &str, note: &str, table: &Markup) -> Markup {
    html! {
        figure data-chart=(chart) {
            "\n" figcaption { (caption) } "\n"
            div.tools {}
            div.plot {}
            "\n"
            @if !note.is_empty() { (self::note(note)) }
            (more("Table", table))
        }
        "\n"
    }
}

/// The note below a chart: the scatter of repeats of its metric, and the servers that it omits.
/// Empty if there is neither.
fn noise(report: &Report, metric: &str) -> String {
    let omitted = omitted_note(report, metric);
    let Some(floor) = report.noise.get(metric) else { return omitted };
    let of = if metric == STARTUP { "subject" } else { "step" };
    let seen = format!(
        "{omitted} Noise: repeats of one {of} differ by {} (standard deviation, the median of {})",
        percent(floor.scatter),
        plural(floor.steps as u64, of)
    );
    match floor.detectable {
        Some(least) => format!(
            "{seen}. Smallest detectable difference: {} (power 0.8, if nothing else is tested).",
            percent(least)
        ),
        None => format!("{seen}."),
    }
}

/// The reason why a chart of a metric that includes the wait for CPUs omits servers that waited for
/// each other. Empty for other metrics, and without such servers.
fn omitted_note(report: &Report, metric: &str) -> String {
    let waits = METRICS.iter().any(|known| known.key == metric && known.waits);
    match report.run.at_once.as_slice() {
        [first @ .., last] if waits => format!(
            " {} and {last} are omitted, because they were loaded at the same time and waited for \
             each other. Their charts of cost compare them.",
            first.join(", ")
        ),
        _ => String::new(),
    }
}

fn note(text: &str) -> Markup {
    html! { p.note { (prose(text)) } "\n" }
}

/// A sentence whose keys and commands stand between backticks.
fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // A backtick without its counterpart is one of foreign text.
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (i, part) in parts.iter().enumerate() {
            @if i % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A folded block that a click on `summary` opens.
fn more(summary: &str, body: &Markup) -> Markup {
    html! { details { summary { (summary) } "\n" (body) } "\n" }
}

/// A table with a row per step: first the columns that name the step, then `columns`.
fn step_table(report: &Report, columns: &[Column<'_, Summary>]) -> Markup {
    let named: [Column<'_, Summary>; 3] = [
        ("Subject", &|s| text(&s.subject)),
        ("Workload", &|s| text(&s.workload)),
        ("#Connections", &|s| whole(s.connections)),
    ];
    let varied: [Varied<'_, Summary>; 4] = [
        (|s| s.streams > 1, ("#Streams", &|s| whole(s.streams))),
        (|s| s.pipeline > 1, ("#Pipeline", &|s| whole(s.pipeline))),
        (has_rate, ("#Rate", &|s| rate(s.shape()))),
        (|s| s.pass > 1, ("#Pass", &|s| whole(s.pass))),
    ];
    let columns = [&named[..], &telling(report, &varied), columns].concat();
    table_of("sortable", &columns, &report.summaries, |s| PartScope::cell(report, s.cell))
}

/// A table with a row per trial or part of one: first the columns that name the trial, then
/// `columns`. `trial`: the trial of a row.
fn trial_table<T>(
    report: &Report,
    rows: &[T],
    trial: fn(&T) -> &TrialResult,
    columns: &[Column<'_, T>],
) -> Markup {
    let named: [Column<'_, T>; 3] = [
        ("Subject", &|t| text(&trial(t).subject_id)),
        ("Workload", &|t| text(&trial(t).workload)),
        ("#Connections", &|t| whole(trial(t).step.connections)),
    ];
    let varied: [Varied<'_, T>; 4] = [
        (|s| s.streams > 1, ("#Streams", &|t| whole(trial(t).step.streams))),
        (|s| s.pipeline > 1, ("#Pipeline", &|t| whole(trial(t).step.pipeline))),
        (has_rate, ("#Rate", &|t| rate(trial(t).step.shape()))),
        (|s| s.pass > 1, ("#Pass", &|t| whole(trial(t).step.pass))),
    ];
    let repeat: [Column<'_, T>; 1] = [("#Repeat", &|t| whole(trial(t).repeat))];
    // Once the table of all trials says it, too; where none is refused it says nothing.
    let valid: [Column<'_, T>; 1] = [("Valid", &|t| text(method::valid(trial(t))))];
    let says_valid =
        columns.iter().any(|(head, _)| *head == "Valid") || report.trials.iter().all(|t| t.valid);
    let valid = if says_valid { &[][..] } else { &valid[..] };
    let columns = [&named[..], &telling(report, &varied), &repeat, valid, columns].concat();
    table_of("sortable", &columns, rows, |t| PartScope::cell(report, trial(t).cell))
}

/// A column that distinguishes steps, and whether it has content for a step.
type Varied<'a, T> = (fn(&Summary) -> bool, Column<'a, T>);

/// The columns that have content for any step: a column full of "1" is left out.
fn telling<'a, T>(report: &Report, columns: &[Varied<'a, T>]) -> Vec<Column<'a, T>> {
    let has_content = |is: &fn(&Summary) -> bool| report.summaries.iter().any(is);
    columns.iter().filter(|(is, _)| has_content(is)).map(|(_, column)| *column).collect()
}

const fn has_rate(s: &Summary) -> bool {
    s.rate.is_some() || s.schedule.is_some()
}

/// The offered rate of a step, or its schedule.
fn rate(at: Shape) -> TableCell {
    text(rate_cell(at)).sorted_by(at.rate.or(at.schedule.and_then(|schedule| schedule.to_rps)))
}

/// A count, thousands separated.
fn count_cell(n: u64) -> TableCell {
    text(count(n)).sorted_by(Some(n as f64))
}

/// A number without separated thousands: connections, repeats and the like.
fn whole(n: u32) -> TableCell {
    value(Some(f64::from(n)), |n| format!("{n}"))
}

fn repeats_of(q: &Repeated, show: impl Fn(f64) -> String) -> TableCell {
    text(q.values.iter().map(|v| show(*v)).collect::<Vec<_>>().join("  "))
}

/// On one line, however narrow the column is.
fn valid(s: &Summary) -> TableCell {
    text(crate::format::valid_repeats(s).replace(' ', "\u{a0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewer_can_stand_inside_the_page() {
        assert!(VIEWER_JS.len() > 100_000, "the viewer is missing: run `npm run build` in web/");
        for forbidden in ["</script", "<!--"] {
            assert!(!VIEWER_JS.contains(forbidden));
        }
        assert!(!VIEWER_CSS.contains("</style"));
    }

    #[test]
    fn text_is_escaped() {
        let hostile = "<img src=x onerror=alert(1)>\"'&";
        let shown = table::table(
            "t",
            &[hostile],
            &[vec![text(hostile).with_hint(Some(hostile.into()))].into()],
        )
        .into_string();
        assert!(!shown.contains("<img") && !shown.contains("\"'&"), "{shown}");
        assert_eq!(shown.matches("&lt;img src=x onerror=alert(1)&gt;&quot;").count(), 3, "{shown}");
        let json = inside_script("{\"a\":\"</script><!-- <script>\"}");
        assert_eq!(json, "{\"a\":\"\\u003c/script>\\u003c!-- \\u003cscript>\"}");
    }
}
