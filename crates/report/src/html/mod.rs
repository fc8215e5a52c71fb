//! `report.html`: one self-contained page. What can be read is rendered here; the viewer (`web/`) draws the charts
//! from the same JSON, and without it the page still reads and prints.

mod life;
mod load;
mod method;
mod overview;
mod table;
mod why;
mod wire;

use dyno_analysis::report::Report;
use dyno_analysis::stats::Repeated;
use dyno_analysis::summary::Summary;
use dyno_analysis::{Caveat, Severity};

use self::table::{Cell, escape, table, text, value};
use crate::format::{number, or_dash};

const VIEWER_JS: &str = include_str!("../../viewer/viewer.js");
const VIEWER_CSS: &str = include_str!("../../viewer/viewer.css");

/// Renders the page.
#[must_use]
pub fn render(report: &Report) -> String {
    page(report, VIEWER_CSS, VIEWER_JS)
}

/// The page with another viewer: golden tests leave the bundle out.
#[must_use]
pub fn page(report: &Report, css: &str, js: &str) -> String {
    let title = format!("{} · dyno", report.run.suite);
    let data = serde_json::to_string(report).expect("reports hold nothing that JSON cannot");
    // Inside a script element only `</script` and `<!--` could end or hide it; no `<` at all is simplest.
    let data = data.replace('<', "\\u003c");
    let body = [
        overview::header(report),
        section("answer", "The answer", &overview::answer_html(report)),
        section("overview", "Overview", &overview::overview(report)),
        section("load", "Under load", &load::under_load(report)),
        section("response", "Response time", &load::response(report)),
        section("cost", "Cost", &why::cost(report)),
        section("why", "Why", &why::why(report)),
        section("wire", "On the wire", &wire::wire(report)),
        section("life", "Start-up, stop, checks, build", &life::life(report)),
        section("explorer", "Explorer", &method::explorer(report)),
        section("method", "Method", &method::method(report)),
    ]
    .concat();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>{css}</style>\n</head>\n<body>\n\
         <main>\n{body}</main>\n<script type=\"application/json\" id=\"dyno-data\">{data}</script>\n\
         <script>{js}</script>\n</body>\n</html>\n",
        title = escape(&title)
    )
}

fn section(id: &str, title: &str, body: &str) -> String {
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n")
}

fn caveat_list(caveats: &[Caveat]) -> String {
    if caveats.is_empty() {
        return String::new();
    }
    let items: String = caveats.iter().map(caveat_item).collect();
    format!("<ul class=\"caveats\">{items}</ul>\n")
}

fn caveat_item(caveat: &Caveat) -> String {
    format!(
        "<li class=\"{}\">{} <a href=\"#caveat-{}\" class=\"code\">{}</a></li>",
        severity(caveat.severity),
        escape(&caveat.message),
        caveat.code,
        caveat.code.replace('_', " ")
    )
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

fn swatch(report: &Report, id: &str) -> String {
    let index = report.subjects.iter().position(|s| s.id == id).unwrap_or(0);
    format!("<span class=\"swatch\" data-subject=\"{index}\"></span>")
}

/// A place for a chart, with its table one click away.
fn figure(chart: &str, caption: &str, note: &str, table: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!("<p class=\"note\">{note}</p>\n") };
    format!(
        "<figure data-chart=\"{chart}\">\n<figcaption>{caption}</figcaption>\n<div class=\"tools\"></div>\n<div class=\"plot\"></div>\n{note}<details><summary>Table</summary>\n{table}</details>\n</figure>\n"
    )
}

fn step_table(report: &Report, columns: &[(&str, &dyn Fn(&Summary) -> Cell)]) -> String {
    let mut head = vec!["Subject", "Workload", "#Connections", "#Streams", "#Pipeline", "#Rate"];
    head.extend(columns.iter().map(|(name, _)| *name));
    let rows: Vec<Vec<Cell>> = report
        .summaries
        .iter()
        .map(|s| {
            let mut row = vec![
                text(&s.subject),
                text(&s.workload),
                value(Some(f64::from(s.connections)), |c| format!("{c}")),
                value(Some(f64::from(s.streams)), |c| format!("{c}")),
                value(Some(f64::from(s.pipeline)), |c| format!("{c}")),
                value(s.rate, number),
            ];
            row.extend(columns.iter().map(|(_, cell)| cell(s)));
            row
        })
        .collect();
    table("sortable", &head, &rows)
}

fn repeats_of(q: &Repeated, show: impl Fn(f64) -> String) -> Cell {
    text(q.values.iter().map(|v| show(*v)).collect::<Vec<_>>().join("  "))
}

fn valid(s: &Summary) -> Cell {
    text(format!("{} of {}", s.trials - s.invalid, s.trials))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_viewer_can_stand_inside_the_page() {
        assert!(VIEWER_JS.len() > 100_000, "the viewer is missing: run `npm run build` in web/");
        for forbidden in ["</script", "<!--"] {
            assert!(!VIEWER_JS.contains(forbidden));
        }
        assert!(!VIEWER_CSS.contains("</style"));
    }
}
