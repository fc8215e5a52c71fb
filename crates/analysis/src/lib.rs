//! Computes all results from archived records: results of loads, resources that servers use,
//! verdicts and comparisons.
//!
//! Pure functions compute each number in one place, so that all outputs agree. The types with
//! `Serialize` define the JSON formats (docs/schema/).
#![forbid(unsafe_code)]

pub mod backend;
pub mod backend_use;
pub mod baseline;
pub mod budget;
pub mod calibration;
pub mod canary;
pub mod capacity;
pub mod caveat;
pub mod ceiling;
pub mod cell;
pub mod compare;
pub mod cost;
mod counted_window;
mod design;
pub mod drops;
pub mod duet;
pub mod experiment;
mod faults;
#[cfg(test)]
mod fixture;
pub mod grid;
mod json_difference;
pub mod lifetime;
pub mod load;
pub mod machine;
pub mod memory;
pub mod metric;
pub mod mixture;
mod names;
pub mod noise;
pub mod nuisance;
mod number_format;
pub mod other_programs;
pub mod overview;
pub mod peak;
pub mod probe_cost;
pub mod probe_results;
pub mod profile;
pub mod protocols;
pub mod ranking;
pub mod report;
pub mod results;
pub mod revision_status;
pub mod roles;
pub mod run_status;
pub mod scaling;
pub mod series;
pub mod server;
#[cfg(test)]
mod snapshot;
pub mod startup;
pub mod stats;
pub mod steady_state;
pub mod stopping;
pub mod subject;
pub mod summary;
pub mod tables;
pub mod trial;
pub mod turns;
mod unit;
pub mod use_method;
pub mod use_row;
pub mod validation;
pub mod verdict;
pub mod warm_up;
pub mod window_levels;
pub mod wire;

pub use caveat::{Caveat, Code, CodeProperty, Severity};
pub use load::LoadResult;
pub use number_format::{list, plural, round_decimals};
pub use report::Report;
