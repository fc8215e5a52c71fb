//! Runs a suite and records its results: suite → plan → builds → launches → trials.
//!
//! [`suite`] reads a suite file, [`plan`] resolves it until nothing is implicit, [`run`] executes
//! the plan. Every failure of a subject becomes a record; only a failure that makes the run
//! impossible is an error.
#![forbid(unsafe_code)]

mod backends;
mod background_load;
pub mod bodies;
pub mod calibrate;
mod contract_check;
mod drops;
pub mod files;
pub mod limits;
pub mod load;
pub mod load_at;
mod machine;
pub mod observe;
mod orders;
pub mod plan;
pub mod prepare;
pub mod price;
pub mod profile;
pub mod revisions;
pub mod run;
mod runtime;
pub mod single;
pub mod suite;
pub mod tracking;
