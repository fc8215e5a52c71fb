//! stub to be replaced
#[must_use]
pub fn render(report: &dyno_analysis::Report) -> String { crate::json(report) }
