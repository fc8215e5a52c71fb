//! Renders `report.html`, one self-contained page. Texts and tables are rendered here. The viewer
//! (`web/`) draws the charts from the JSON in the page. The page can be read and printed without
//! the viewer.
//!
//! Archives may come from others, so HTML is never written by hand: maud escapes every text. Only
//! the viewer's script runs, because the content security policy names it by its hash.

mod cost;
mod data;
mod document;
mod experiment;
mod lifecycle;
mod limiters;
mod load;
mod method;
mod overview;
mod policy;
mod probe_results;
mod profile;
pub(crate) mod table;
mod wire;

use dyno_analysis::cell::{CellKey, Shape};
use dyno_analysis::metric::METRICS;
use dyno_analysis::noise::STARTUP;
use dyno_analysis::report::Report;
use dyno_analysis::stats::Repeated;
use dyno_analysis::summary::Summary;
use dyno_analysis::trial::TrialResult;
use dyno_analysis::{Caveat, Severity};
use maud::{Markup, html};

use self::data::ReportData;
pub(crate) use self::document::{Viewer, document};
pub(crate) use self::profile::flame_figure;
use crate::format::{count, or_dash, percent, plural};
use crate::output::Format;
use crate::overview::rate_cell;
use crate::present::part_scope::PartScope;
use crate::present::table::{Column, ReportTable, TableCell, cell, text, value};
use crate::redact::{self, RedactedReport};
use crate::{VIEWER_CSS, VIEWER_JS};

/// The format: a page with the viewer.
pub const FORMAT: Format = Format {
    name: "html",
    is_stored: true,
    renderer: |redacted| redacted_page(redacted, VIEWER_CSS, VIEWER_JS),
};

/// Renders the page with a given viewer. Golden tests pass an empty viewer.
#[must_use]
pub fn page(report: &Report, css: &str, js: &str) -> String {
    redacted_page(&redact::redact(report), css, js)
}

/// Renders the page of a report without its secrets.
fn redacted_page(redacted: &RedactedReport<'_>, css: &str, js: &str) -> String {
    let report = &*redacted.report;
    let ReportData { report: data, intervals } = ReportData::new(report);
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
        (section("method", "Method", &method::method(report, redacted.withheld)))
    };
    document(
        &format!("{} · dyno", report.run.suite),
        &main,
        Viewer { css, js, data: &data, intervals: &intervals },
    )
}

/// Escapes JSON for a script element. Without `<`, the JSON cannot contain `</script` or `<!--`.
fn escape_for_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Renders a section with its heading.
fn section(id: &str, title: &str, body: &Markup) -> Markup {
    html! { section id=(id) { h2 { (title) } "\n" (body) } "\n" }
}

/// Renders caveats as a list. Empty without caveats.
fn caveat_list(caveats: &[Caveat]) -> Markup {
    html! {
        @if !caveats.is_empty() {
            ul.caveats { @for caveat in caveats { (caveat_item(caveat)) } } "\n"
        }
    }
}

/// Renders a caveat as an item of a list, with a link to its meaning.
fn caveat_item(caveat: &Caveat) -> Markup {
    html! {
        li class=(severity_class(caveat.severity)) {
            (prose(&caveat.message)) " "
            a.code href={ "#caveat-" (caveat.code) } { (caveat.code.in_words()) }
        }
    }
}

/// Returns the CSS class of a severity.
const fn severity_class(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Invalid => "invalid",
    }
}

/// Formats the ends of the interval or range of repeats: `2.1–2.3`.
fn spread_text(q: &Repeated, show: impl Fn(f64) -> String) -> String {
    or_dash(q.spread(), |(a, b)| format!("{}–{}", show(a), show(b)))
}

/// Renders the coloured mark of a subject. The viewer chooses the colour.
fn swatch(report: &Report, id: &str) -> Markup {
    let index = report.subjects.iter().position(|s| s.id == id).unwrap_or(0);
    html! { span.swatch data-colour=(index) {} }
}

/// Returns the cell of a subject, with its colour.
fn subject_cell(report: &Report, id: &str, title: &str) -> TableCell {
    cell(title, html! { (swatch(report, id)) (title) })
}

/// Renders a place for a chart, with the chart's table folded below.
fn figure(chart: &str, caption: &str, note: &str, table: &ReportTable) -> Markup {
    html! {
        figure data-chart=(chart) {
            "\n" figcaption { (caption) } "\n"
            div.tools {}
            div.plot {}
            "\n"
            @if !note.is_empty() { (self::note(note)) }
            (folded_table("Table", table))
        }
        "\n"
    }
}

/// Returns the note below a chart: the scatter of repeats of its metric, and the servers that the
/// chart omits. Empty if there is neither.
fn noise_note(report: &Report, metric: &str) -> String {
    let omitted = omitted_note(report, metric);
    let Some(floor) = report.noise.get(metric) else { return omitted };
    let unit = if metric == STARTUP { "subject" } else { "step" };
    let scatter = format!(
        "{omitted} Noise: repeats of one {unit} differ by {} (standard deviation, median over {})",
        percent(floor.scatter),
        plural(floor.steps as u64, unit)
    );
    match floor.detectable {
        Some(difference) => format!(
            "{scatter}. Smallest detectable difference: {} (detected in 80 % of runs, for a single \
             comparison).",
            percent(difference)
        ),
        None => format!("{scatter}."),
    }
}

/// Explains which servers a chart omits because they waited for the same CPUs. Empty for metrics
/// that do not include the wait for CPUs, because their charts show all servers.
fn omitted_note(report: &Report, metric: &str) -> String {
    let includes_waits = METRICS.iter().any(|known| known.key == metric && known.includes_waits);
    match report.run.concurrent_arms.as_slice() {
        [first @ .., last] if includes_waits => format!(
            " {} and {last} are omitted, because they were loaded at the same time and waited for \
             the same CPUs. The charts of cost show these servers.",
            first.join(", ")
        ),
        _ => String::new(),
    }
}

/// Renders a note, with a paragraph per line of the text.
fn note(text: &str) -> Markup {
    html! { @for line in text.lines() { p.note { (prose(line)) } "\n" } }
}

/// Renders a sentence. Text between backticks becomes code.
fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // An unpaired backtick comes from foreign text, which is shown unchanged.
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (i, part) in parts.iter().enumerate() {
            @if i % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Renders a folded block. A click on `summary` opens the block.
fn folded(summary: &str, body: &Markup) -> Markup {
    html! { details { summary { (summary) } "\n" (body) } "\n" }
}

/// Renders a table in a folded block.
fn folded_table(summary: &str, table: &ReportTable) -> Markup {
    folded(summary, &table::render(table))
}

/// Renders a table with its heading, and with notes above and below it. Empty without rows.
fn part(title: &str, above: &str, table: &ReportTable, below: &str) -> Markup {
    html! {
        @if !table.rows.is_empty() {
            h3 { (title) } "\n"
            (note(above))
            (table::render(table))
            (note(below))
        }
    }
}

/// Names of a row of a table of steps or trials.
struct CellNames<'a> {
    subject: &'a str,
    workload: &'a str,
    cell: CellKey,
    shape: Shape,
}

impl CellNames<'_> {
    fn from_trial(t: &TrialResult) -> CellNames<'_> {
        CellNames {
            subject: &t.subject_id,
            workload: &t.workload,
            cell: t.cell,
            shape: t.step.shape,
        }
    }
}

/// Returns a table with a row per step: the columns that name the step, then `columns`.
fn step_table(report: &Report, columns: &[Column<'_, Summary>]) -> ReportTable {
    cell_table(
        report,
        &report.summaries,
        |s| CellNames { subject: &s.subject, workload: &s.workload, cell: s.cell, shape: s.shape },
        columns,
    )
}

/// Returns a table with a row per trial or part of a trial: the columns that name the trial, then
/// `columns`. `trial` returns the trial of a row.
fn trial_table<T>(
    report: &Report,
    rows: &[T],
    trial: fn(&T) -> &TrialResult,
    columns: &[Column<'_, T>],
) -> ReportTable {
    let repeat_column: Column<'_, T> = ("#Repeat", &|t| whole_number_cell(trial(t).repeat));
    // The column "Valid" is omitted if `columns` contains it, or if all trials are valid.
    let valid_column: Column<'_, T> = ("Valid", &|t| text(method::valid(trial(t))));
    let omits_valid =
        columns.iter().any(|(head, _)| *head == "Valid") || report.trials.iter().all(|t| t.valid);
    let trial_columns = [repeat_column].into_iter().chain((!omits_valid).then_some(valid_column));
    let columns: Vec<Column<'_, T>> = trial_columns.chain(columns.iter().copied()).collect();
    cell_table(report, rows, |row| CellNames::from_trial(trial(row)), &columns)
}

/// Returns a table with a row per item of `rows`: the columns that name its cell, then `columns`.
fn cell_table<R>(
    report: &Report,
    rows: &[R],
    names: impl Fn(&R) -> CellNames<'_>,
    columns: &[Column<'_, R>],
) -> ReportTable {
    let name_columns: [Column<'_, R>; 3] = [
        ("Subject", &|r| text(names(r).subject)),
        ("Workload", &|r| text(names(r).workload)),
        ("#Connections", &|r| whole_number_cell(names(r).shape.connections)),
    ];
    let optional_columns: [VaryingColumn<'_, R>; 4] = [
        (|at| at.streams > 1, ("#Streams", &|r| whole_number_cell(names(r).shape.streams))),
        (|at| at.pipeline > 1, ("#Pipeline", &|r| whole_number_cell(names(r).shape.pipeline))),
        (has_rate, ("#Rate", &|r| rate_cell_of(names(r).shape))),
        (|at| at.pass > 1, ("#Pass", &|r| whole_number_cell(names(r).shape.pass))),
    ];
    let columns =
        [&name_columns[..], &varying_columns(report, &optional_columns), columns].concat();
    ReportTable::scoped("sortable", &columns, rows, |r| PartScope::cell(report, names(r).cell))
}

/// A column that distinguishes steps, and a function that returns whether a step needs it.
type VaryingColumn<'a, T> = (fn(Shape) -> bool, Column<'a, T>);

/// Returns the columns that any step needs. A column that would contain only 1 is omitted.
fn varying_columns<'a, T>(report: &Report, columns: &[VaryingColumn<'a, T>]) -> Vec<Column<'a, T>> {
    let is_needed = |needs: &fn(Shape) -> bool| report.summaries.iter().any(|s| needs(s.shape));
    columns.iter().filter(|(needs, _)| is_needed(needs)).map(|(_, column)| *column).collect()
}

/// Whether a step has an offered rate.
const fn has_rate(at: Shape) -> bool {
    at.rate.is_some() || at.schedule.is_some()
}

/// Returns the cell of the offered rate of a step, or of its schedule.
fn rate_cell_of(at: Shape) -> TableCell {
    text(rate_cell(at)).sorted_by(at.rate.or(at.schedule.and_then(|schedule| schedule.to_rps)))
}

/// Returns the cell of a count with separated thousands.
fn count_cell(n: u64) -> TableCell {
    text(count(n)).sorted_by(Some(n as f64))
}

/// Returns the cell of a number without separated thousands, such as connections and repeats.
fn whole_number_cell(n: u32) -> TableCell {
    value(Some(f64::from(n)), |n| format!("{n}"))
}

/// Returns a cell with the value of each repeat.
fn repeats_cell(q: &Repeated, show: impl Fn(f64) -> String) -> TableCell {
    text(q.values.iter().map(|v| show(*v)).collect::<Vec<_>>().join("  "))
}

/// Returns the cell of the valid repeats. Its spaces do not break, so that the text stays on one
/// line.
fn valid_repeats_cell(s: &Summary) -> TableCell {
    text(crate::format::valid_repeats(s).replace(' ', "\u{a0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewer_has_no_closing_tags() {
        assert!(VIEWER_JS.len() > 100_000, "the viewer is missing: run `npm run build` in web/");
        for forbidden in ["</script", "<!--"] {
            assert!(!VIEWER_JS.contains(forbidden));
        }
        assert!(!VIEWER_CSS.contains("</style"));
    }

    #[test]
    fn hostile_text_is_escaped() {
        let hostile = "<img src=x onerror=alert(1)>\"'&";
        let columns: [Column<'_, ()>; 1] =
            [(hostile, &|()| text(hostile).with_hint(Some(hostile.into())))];
        let html = table::render(&ReportTable::plain("t", &columns, &[()])).into_string();
        assert!(!html.contains("<img") && !html.contains("\"'&"), "{html}");
        assert_eq!(html.matches("&lt;img src=x onerror=alert(1)&gt;&quot;").count(), 3, "{html}");
        let json = escape_for_script("{\"a\":\"</script><!-- <script>\"}");
        assert_eq!(json, "{\"a\":\"\\u003c/script>\\u003c!-- \\u003cscript>\"}");
    }
}
