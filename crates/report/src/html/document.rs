//! Renders the frame that all pages share. A page is self-contained, and its only script is the
//! viewer's.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{block, policy};
use crate::VIEWER_CSS;
use crate::present::block::ReportSection;
use crate::terminal::escape_controls;

/// Parts of the viewer on a page: its style, its script, and the JSON that it draws.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Viewer<'a> {
    pub(crate) css: &'a str,
    /// Empty on a page without charts.
    pub(crate) js: &'a str,
    pub(crate) data: &'a str,
    /// Lines of intervals that the JSON omits ([`super::data::ReportData`]); empty: it omits none.
    pub(crate) intervals: &'a str,
}

/// Renders a whole page. Control characters of foreign text are made visible, because HTML forbids
/// control characters, and people may read the page in a terminal.
pub(crate) fn document(title: &str, main: &Markup, viewer: Viewer<'_>) -> String {
    let Viewer { css, js, data, intervals } = viewer;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy::policy(css, js));
                link rel="icon" href="data:,";
                title { (escape_controls(title)) }
                style { (PreEscaped(css)) }
            }
            body {
                main { (PreEscaped(escape_controls(&main.0))) }
                @if !data.is_empty() {
                    script type="application/json" id="dyno-data" {
                        (PreEscaped(escape_for_script(data)))
                    }
                    @if !intervals.is_empty() {
                        script type="application/json" id="dyno-intervals" {
                            (PreEscaped(escape_for_script(intervals)))
                        }
                    }
                    script { (PreEscaped(js)) }
                }
            }
        }
    };
    page.into_string() + "\n"
}

/// Renders a page of sections without charts. `brand`: the command that writes it. `lines`: shown
/// between title and sections.
pub(crate) fn sections_page(
    brand: &str,
    title: &str,
    lines: &[String],
    sections: &[ReportSection],
) -> String {
    let main = html! {
        header { p.brand { (brand) } h1 { (title) } }
        @for line in lines { p { (line) } }
        @for section in sections { (block::section(section)) }
    };
    let viewer = Viewer { css: VIEWER_CSS, ..Viewer::default() };
    document(&format!("{title} · {brand}"), &main, viewer)
}

/// Escapes JSON for a script element. Without `<`, the JSON cannot contain `</script` or `<!--`.
pub(super) fn escape_for_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}
