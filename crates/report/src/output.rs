//! Defines an output format of a result. A format of a report is a file of this crate with a
//! function that renders a report, and an entry of `Format::ALL` in `lib.rs`. Formats of other
//! results are listed in `load.rs`, `compare.rs` and `profile/export.rs`.

use dyno_analysis::Report;

use crate::present::style::Style;
use crate::redact::{self, RedactedReport};

/// Function that renders a report without its secrets.
type ReportRenderer = fn(&RedactedReport<'_>) -> String;

/// An output format of a result, which `R` renders.
#[derive(Clone, Copy, Debug)]
pub struct Format<R = ReportRenderer> {
    /// Value of `--format`, and extension of the file.
    pub name: &'static str,
    /// Describes the format in the help.
    pub help: &'static str,
    /// Whether `dyno report` writes the format into the folder of a run.
    pub is_stored: bool,
    pub(crate) renderer: R,
}

/// Formats of the results that only have a text for people and JSON for programs.
pub const TEXT_OR_JSON: &[Format<()>] = &[
    Format::new("text", "Text, for a terminal", ()),
    Format::new("json", "Everything, for programs", ()),
];

impl<R> Format<R> {
    /// Makes a format that is only printed.
    pub(crate) const fn new(name: &'static str, help: &'static str, renderer: R) -> Format<R> {
        Format { name, help, is_stored: false, renderer }
    }

    /// Returns the format of this name. `None`: the name is unknown.
    #[must_use]
    pub fn find<'a>(all: &'a [Format<R>], name: &str) -> Option<&'a Format<R>> {
        all.iter().find(|format| format.name == name)
    }

    /// Whether the format is the text for a terminal.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.name == "text"
    }
}

impl Format {
    /// Makes a format that `dyno report` writes into the folder of a run.
    pub(crate) const fn stored(
        name: &'static str,
        help: &'static str,
        renderer: ReportRenderer,
    ) -> Format {
        Format { name, help, is_stored: true, renderer }
    }

    /// Renders a report with its secrets removed.
    #[must_use]
    pub fn render(&self, report: &Report) -> String {
        (self.renderer)(&redact::redact(report))
    }
}

impl<T> Format<fn(&T, Style) -> String> {
    /// Renders a result. Only text has colours.
    #[must_use]
    pub fn render(&self, result: &T, style: Style) -> String {
        (self.renderer)(result, style)
    }
}
