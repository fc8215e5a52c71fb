//! Walks a plan and records its results: builds, launches, trials.
//!
//! - [`run`] walks a plan over a [`run::Host`]: this machine, or a simulated one in tests.
//! - [`calibrate`] measures this machine. [`rate_finder`] searches the highest rate of a server.
//! - [`revisions`] checks out the revisions that a comparison measures.
//!
//! A failure of a subject (a server under test) is recorded as a result. Only a failure that makes
//! the run impossible is an error.
//!
//! These things are absent on purpose: keys, defaults and what a suite means (`dyno-suite`), the
//! generation of load (`dyno-generator`), statistics and sentences of reports. docs/terminology.md
//! defines the terms.
#![forbid(unsafe_code)]

mod background_load;
pub mod builds;
pub mod calibrate;
mod contract_check;
mod drops;
pub mod limits;
pub mod load;
pub mod load_at;
pub mod other_programs;
pub mod prepare;
pub mod price;
pub mod profile;
pub mod rate_finder;
pub mod resumption;
pub mod revisions;
pub mod run;
mod runtime;
pub mod single;
pub mod this_machine;
