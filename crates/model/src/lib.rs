//! What a run is asked, and what was observed in it, as data: plans, loads, intervals, samples,
//! starts, facts, and ids. This data is the interface between two groups of crates: crates that
//! measure write it, and crates that explain read it.
//!
//! Only observed facts are here: cumulative counters, histograms and instants. Rates, percentiles
//! and verdicts are computed from them in `dyno-analysis`, so that a later version can compute them
//! again. Instants are nanoseconds of `CLOCK_MONOTONIC` of the measuring machine.
//!
//! These things are absent on purpose:
//!
//! - Files: `dyno-archive` reads and writes the folder of a run, and checks what it reads.
//! - Text that people write: `dyno-config` reads it.
//! - Other crates of the workspace. `make lint` builds this crate for wasm32, which has no
//!   operating system.
#![forbid(unsafe_code)]

pub mod cpus;
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
mod workload;

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
