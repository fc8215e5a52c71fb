//! Defines the record of a run, and reads, writes and checks it on disk. The record is the
//! interface between two groups of crates: crates that measure write it, and crates that explain
//! read it.
//!
//! A record contains only observed facts: cumulative counters, histograms and instants. Rates,
//! percentiles and verdicts are computed from them in `dyno-analysis`, so that a later version can
//! compute them again.
//!
//! Instants are nanoseconds of `CLOCK_MONOTONIC` of the measuring machine. Only `dir` accesses
//! files. `dir` does not exist on wasm32. `make lint` builds this crate for wasm32 to prove that no
//! other module accesses files.
#![forbid(unsafe_code)]

#[cfg_attr(target_family = "wasm", allow(dead_code, reason = "only `dir` calls it"))]
mod check;
pub mod cpus;
#[cfg(not(target_family = "wasm"))]
pub mod dir;
pub mod drops;
pub mod facts;
pub mod host;
pub mod ids;
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
pub mod silence;
pub mod start;
pub mod syscall;
pub mod times;
pub mod tracking;
pub mod trial;
#[cfg_attr(target_family = "wasm", allow(dead_code, reason = "only `dir` calls it"))]
mod upgrade;
mod workload;

#[cfg(not(target_family = "wasm"))]
pub use dir::{ArchiveError, RunDir};
pub use facts::Facts;
pub use ids::{MachineId, RunId, SubjectVersion, WorkloadId};
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
