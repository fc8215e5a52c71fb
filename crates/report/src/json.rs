//! Renders results as JSON, for programs.

use serde::Serialize;

use crate::output::Format;

/// The format. Secrets are removed, because JSON is shared like the page.
pub const FORMAT: Format =
    Format::stored("json", "Everything, for programs", |redacted| pretty(&*redacted.report));

/// Renders a result as lines of JSON.
#[must_use]
pub fn lines(result: &impl Serialize) -> String {
    pretty(result) + "\n"
}

fn pretty(result: &impl Serialize) -> String {
    serde_json::to_string_pretty(result).expect("every result can be written as JSON")
}
