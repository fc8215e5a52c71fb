//! Renders the results of `dyno-analysis` as text, Markdown, CSV, JSON, HTML and Prometheus text.
//! This crate computes no statistics, and takes the sentences of verdicts from `dyno-analysis`, so
//! all forms agree.
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
pub mod json;
pub mod load;
pub mod markdown;
mod methodology;
mod metrics;
pub mod openmetrics;
mod output;
mod overview;
pub mod present;
pub mod probe_cost;
pub mod profile;
pub mod prometheus;
pub mod redact;
mod sections;
pub mod shell;
pub mod terminal;
pub mod text;
pub mod validation;
pub mod watch;

pub use crate::output::{Format, TEXT_OR_JSON};

const VIEWER_JS: &str = include_str!("../viewer/viewer.js");
const VIEWER_CSS: &str = include_str!("../viewer/viewer.css");

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
}
