//! Lists the formats of the result of `dyno load`.

use dyno_analysis::LoadResult;

use crate::output::Format;
use crate::present::style::Style;
use crate::{intervals, json, text};

/// A format of the result of a load.
pub type LoadFormat = Format<fn(&LoadResult, Style) -> String>;

/// Every format of the result of a load.
pub const FORMATS: &[LoadFormat] = &[
    LoadFormat::new("text", "A summary, for a terminal", text::load),
    LoadFormat::new("json", "Everything, for programs", |result, _| json::lines(result)),
    LoadFormat::new("csv", "One line per interval", |result, _| intervals::csv(&result.intervals)),
];
