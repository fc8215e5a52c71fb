//! The record of a run, the interface between the halves of the system: measuring crates only write
//! it, and explaining crates only read it.
//!
//! Everything here is a fact as it was seen: cumulative counters, histograms, instants. Rates,
//! percentiles, verdicts and sentences are made from it in `dyno-analysis`, so that they can be
//! made again, better, years later.
//!
//! Instants are nanoseconds of `CLOCK_MONOTONIC` of the machine that measured. Only `dir` touches
//! files; where there are none (wasm32, by which `make lint` proves it) that module is missing.
#![forbid(unsafe_code)]

#[cfg_attr(target_family = "wasm", allow(dead_code, reason = "only `dir` calls it"))]
mod check;
#[cfg(not(target_family = "wasm"))]
pub mod dir;
pub mod drops;
pub mod facts;
pub mod hint;
pub mod interval;
pub mod limits;
pub mod load;
pub mod machine;
pub mod outcome;
pub mod plan;
pub mod probe;
pub mod profile;
pub mod protocol;
pub mod resumption;
pub mod run;
pub mod runtime;
pub mod sample;
pub mod search;
pub mod secret;
pub mod silence;
pub mod start;
pub mod syscall;
pub mod times;
pub mod trial;
#[cfg_attr(target_family = "wasm", allow(dead_code, reason = "only `dir` calls it"))]
mod upgrade;
mod workload;

#[cfg(not(target_family = "wasm"))]
pub use dir::{ArchiveError, RunDir};
pub use facts::Facts;
pub use interval::{Interval, Phase};
pub use load::LoadRecord;
pub use machine::MachineUse;
pub use outcome::{Outcome, Outcomes};
pub use plan::Plan;
pub use protocol::Protocol;
pub use resumption::{Resumption, ResumptionDifference};
pub use sample::{Party, Sample};
pub use start::StartRecord;
pub use times::Times;
pub use trial::TrialRecord;
