//! Lists the output formats of a report. A format is a file of this crate with a function that
//! renders a report, and an entry of [`Format::ALL`].

use dyno_analysis::Report;

use crate::redact::{self, RedactedReport};
use crate::{csv, html, json, markdown, prometheus, text};

/// An output format of a report.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Value of `--format`, and extension of the file.
    pub name: &'static str,
    /// Whether `dyno report` writes the format into the folder of a run.
    pub is_stored: bool,
    /// Function that renders a report without its secrets.
    pub(crate) renderer: fn(&RedactedReport<'_>) -> String,
}

impl Format {
    /// Every format. Stored formats are written in the reverse order.
    pub const ALL: &[Format] = &[
        html::FORMAT,
        text::FORMAT,
        csv::FORMAT,
        markdown::FORMAT,
        json::FORMAT,
        prometheus::FORMAT,
    ];

    /// Returns the format of this name. `None`: the name is unknown.
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Format> {
        Format::ALL.iter().find(|format| format.name == name)
    }

    /// Renders a report with its secrets removed.
    #[must_use]
    pub fn render(&self, report: &Report) -> String {
        (self.renderer)(&redact::redact(report))
    }
}
