//! Renders the results of `dyno-analysis` as text, Markdown, CSV, JSON and HTML. This crate
//! computes no statistics, and takes the sentences of verdicts from `dyno-analysis`, so all forms
//! agree.
#![forbid(unsafe_code)]

pub mod answer;
mod brackets;
pub mod budget;
pub mod calibration;
pub mod capacity;
pub mod compare;
pub mod csv;
pub mod format;
pub mod hdr;
pub mod html;
pub mod intervals;
pub mod markdown;
mod methodology;
mod metrics;
pub mod openmetrics;
mod overview;
pub mod present;
pub mod probe_cost;
pub mod profile;
pub mod redact;
pub mod shell;
pub mod terminal;
pub mod text;
pub mod validation;
pub mod watch;

use dyno_analysis::Report;

use crate::present::style::Style;

const VIEWER_JS: &str = include_str!("../viewer/viewer.js");
const VIEWER_CSS: &str = include_str!("../viewer/viewer.css");

/// Output formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Html,
    Text,
    Markdown,
    Csv,
    Json,
}

impl Format {
    pub const ALL: [Format; 5] =
        [Format::Html, Format::Text, Format::Markdown, Format::Csv, Format::Json];

    /// Returns the value of `--format`, which is also the extension of the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Format::Html => "html",
            Format::Text => "text",
            Format::Markdown => "md",
            Format::Csv => "csv",
            Format::Json => "json",
        }
    }

    /// Returns the format of this name. `None`: the name is unknown.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|f| f.name() == name)
    }
}

/// Renders a report with its secrets removed.
#[must_use]
pub fn render(report: &Report, format: Format) -> String {
    match format {
        Format::Html => html::render(report),
        Format::Text => text::report(&redact::redact(report).report, Style::Plain),
        Format::Markdown => markdown::render(report),
        Format::Csv => csv::render(&redact::redact(report).report),
        Format::Json => json(report),
    }
}

/// Renders a report as JSON, for programs. Secrets are removed, because JSON is shared like the
/// page.
#[must_use]
pub fn json(report: &Report) -> String {
    serde_json::to_string_pretty(&*redact::redact(report).report)
        .expect("every report can be written as JSON")
}
