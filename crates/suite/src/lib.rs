//! Turns a suite, or a command line, into a plan in which every setting has a value.
//!
//! - [`settings`] is the one table of the settings of loads (`SETTINGS`). Suites, the command line,
//!   its help and the reference page read it.
//! - [`mod@file`] reads suite files, with profiles, experiments, turns and duets.
//! - [`target`] chooses the protocol and the address of a load on the command line.
//! - [`plan`] resolves a suite to a plan, and estimates how long the plan takes.
//!
//! Defaults and conflicts of the settings of loads are decided here, before a server is built. The
//! crate reads suites, definitions and the files that they name. Its callers give it all facts of
//! the machine, such as CPUs, drivers, addresses and a seed.
//!
//! These things are absent on purpose: processes, and the execution of a plan (`dyno-lab`).
//! docs/terminology.md defines the terms.
#![forbid(unsafe_code)]

pub mod availability;
mod backends;
pub mod bodies;
pub mod defaults;
pub mod file;
pub mod files;
pub mod limits;
pub mod machine;
pub mod observe;
mod orders;
pub mod plan;
pub mod revision_folders;
pub mod settings;
pub mod target;
pub mod tracking;
pub mod warm_up;
