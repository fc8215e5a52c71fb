//! Starts and stops programs with their control groups, networks and folders. No other crate starts
//! or stops programs, so that one place ensures that no process, group or file remains after a run.
//!
//! Programs are servers under test ([`process`]), builds and queries of tools ([`tool`]). The
//! [`guard`] ends the remaining processes if dyno itself is killed.
#![deny(unsafe_op_in_unsafe_fn)]

mod children;
pub mod environment;
pub mod folder;
pub mod group;
pub mod guard;
pub mod guard_process;
pub mod keyed_hashes;
pub mod limits;
mod lock;
pub mod log;
mod minder;
pub mod network;
pub mod process;
pub mod secret_values;
mod self_exec;
pub mod supervision;
mod sys;
mod temporary_folders;
pub mod tool;

#[cfg(test)]
#[path = "../../../tests/support/pipe.rs"]
mod pipe;
#[cfg(test)]
#[path = "../../../tests/support/not_run.rs"]
mod reasons;

pub use minder::StartError;
pub use self_exec::{OwnProcess, own_program};
pub use sys::{
    allowed_cpus, ignore_hangup, ignores_hangup, may_write, open_files_hard_limit,
    open_pipe_with_reader, raise_open_files, set_affinity, set_realtime, survive_file_size_limit,
};
