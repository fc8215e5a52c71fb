//! Renders a report as JSON, for programs.

use crate::output::Format;

/// The format. Secrets are removed, because JSON is shared like the page.
pub const FORMAT: Format = Format::stored("json", "Everything, for programs", |redacted| {
    serde_json::to_string_pretty(&*redacted.report).expect("every report can be written as JSON")
});
