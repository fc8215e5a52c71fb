//! Renders a report as Markdown, for pull requests and wikis.

use crate::output::Format;
use crate::present::{escape, markdown};
use crate::redact::RedactedReport;
use crate::sections::sections;

/// The format.
pub const FORMAT: Format = Format::stored("md", "Markdown, for a pull request", render);

/// Renders a report.
fn render(redacted: &RedactedReport<'_>) -> String {
    let run = &redacted.report.run;
    let mut out = format!("# {}\n", escape::markdown(&run.suite));
    if !run.description.is_empty() {
        out.push_str(&format!("\n{}\n", escape::markdown(&run.description)));
    }
    out + &sections(redacted).iter().map(markdown::section).collect::<String>()
}
