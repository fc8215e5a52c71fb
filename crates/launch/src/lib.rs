//! A process, its group, its folder: started, watched for its end, stopped, and nothing left.
//!
//! The only crate that starts programs: servers under test ([`process`]), builds and questions to
//! tools ([`tool`]), and the [`guard`], which ends what is left if dyno itself is ended.
#![deny(unsafe_op_in_unsafe_fn)]

mod children;
pub mod environment;
pub mod folder;
pub mod group;
pub mod guard;
pub mod guard_process;
pub mod limits;
mod lock;
pub mod log;
mod minder;
pub mod network;
pub mod process;
mod self_exec;
pub mod supervision;
mod sys;
pub mod tool;

#[cfg(test)]
#[path = "../../../tests/support/not_run.rs"]
mod reasons;

pub use self_exec::{OwnProcess, own_program};
pub use sys::{
    allowed_cpus, ignore_hangup, ignores_hangup, may_write, open_files_hard, pipe_to_a_reader,
    raise_open_files, set_affinity, set_realtime,
};
