//! Renders `report.html`, one self-contained page. Texts and tables are rendered here. The viewer
//! (`web/`) draws the charts from the JSON in the page. The page can be read and printed without
//! the viewer.
//!
//! Archives may come from others, so HTML is never written by hand: maud escapes every text. Only
//! the viewer's script runs, because the content security policy names it by its hash.

pub(crate) mod block;
mod data;
pub(crate) mod document;
mod policy;
pub(crate) mod table;

use dyno_analysis::report::Report;
use maud::{Markup, html};

use self::data::ReportData;
use self::document::{Viewer, document};
use crate::format::plural;
use crate::output::Format;
use crate::present::block::ReportSection;
use crate::redact::{self, RedactedReport};
use crate::sections::{first_part_text, sections};
use crate::{VIEWER_CSS, VIEWER_JS};

/// The format: a page with the viewer.
pub const FORMAT: Format = Format::stored("html", "A page with charts", |redacted| {
    redacted_page(redacted, VIEWER_CSS, VIEWER_JS)
});

/// Renders the page with a given viewer. Golden tests pass an empty viewer.
#[must_use]
pub fn page(report: &Report, css: &str, js: &str) -> String {
    redacted_page(&redact::redact(report), css, js)
}

/// Renders the page of a report without its secrets.
fn redacted_page(redacted: &RedactedReport<'_>, css: &str, js: &str) -> String {
    let report = &*redacted.report;
    let ReportData { report: data, intervals } = ReportData::new(report);
    let sections = sections(redacted);
    let main = html! {
        (header(report, &sections))
        @for section in &sections { (block::section(section)) }
    };
    document(
        &format!("{} · dyno", report.run.suite),
        &main,
        Viewer { css, js, data: &data, intervals: &intervals },
    )
}

/// Renders the head of the page: title, machine and links to the sections.
fn header(report: &Report, sections: &[ReportSection]) -> Markup {
    let facts = &report.run.facts;
    html! {
        header {
            p.brand { "dyno" }
            h1 { (report.run.suite) }
            p.lede { (report.run.description) }
            p.meta {
                (report.run.started) " · "
                (facts.cpus) " × " (facts.cpu_model.as_deref().unwrap_or("unknown CPU"))
                " · Linux " (facts.kernel.as_deref().unwrap_or("of unknown version"))
                (first_part_text(report)) " · "
                (plural(report.run.repeats.into(), "repeat")) " · seed " (report.run.seed)
            }
            nav aria-label="Sections" {
                @for section in sections { a href={ "#" (section.id) } { (section.title) } }
            }
        }
        "\n"
        div.legend id="legend" hidden {}
        "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::document::escape_for_script;
    use crate::present::table::{Column, ReportTable, text};

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
