//! The only crate that starts programs: suite → plan → builds → launches → trials.
//!
//! [`suite`] reads what a person asks for, [`plan`] resolves it until nothing is implicit, [`run`] walks the plan.
//! Everything a subject does wrong becomes a record; only what makes the run itself impossible is an error.

pub mod build;
pub mod certs;
pub mod checks;
pub mod client;
pub mod door;
pub mod environment;
pub mod files;
mod ground;
pub mod launch;
pub mod limits;
pub mod load;
pub mod paths;
pub mod plan;
pub mod run;
pub mod subject;
pub mod suite;
pub mod tls;

pub use launch::sys::{allowed_cpus, may_write, pipe_to_a_reader, raise_open_files, set_affinity};

/// This very program: what the null responder and the guard are started from.
#[must_use]
pub fn own_program() -> std::path::PathBuf {
    // A program that was replaced while it runs reads as "… (deleted)"; the kernel's link still leads to it. By our number,
    // because `self` would be the shell that a command is given to.
    let replaced = || format!("/proc/{}/exe", std::process::id()).into();
    std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or_else(replaced)
}
