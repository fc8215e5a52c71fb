//! Defines an output format of a report. A format is a file of this crate with a function that
//! renders a report, and an entry of `Format::ALL` in `lib.rs`.

use dyno_analysis::Report;

use crate::redact::{self, RedactedReport};

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
    /// Renders a report with its secrets removed.
    #[must_use]
    pub fn render(&self, report: &Report) -> String {
        (self.renderer)(&redact::redact(report))
    }
}
