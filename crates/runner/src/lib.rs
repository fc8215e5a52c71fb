//! Runs a suite and records its results: suite → plan → builds → launches → trials.
//!
//! [`suite`] reads a suite file, [`plan`] fills in every default, and [`run`] executes the plan. A
//! failure of a subject (a server under test) is recorded as a result. Only a failure that makes
//! the run impossible is an error. docs/terminology.md defines the terms.
#![forbid(unsafe_code)]

pub mod availability;
mod backends;
mod background_load;
pub mod bodies;
pub mod builds;
pub mod calibrate;
mod contract_check;
mod drops;
pub mod files;
pub mod limits;
pub mod load;
pub mod load_at;
pub mod observe;
mod orders;
pub mod plan;
pub mod prepare;
pub mod price;
pub mod profile;
pub mod rate_finder;
pub mod revisions;
pub mod run;
mod runtime;
pub mod settings;
pub mod single;
pub mod suite;
pub mod tracking;
