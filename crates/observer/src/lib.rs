//! Reads the kernel's counters of subjects and of the machine, from control groups (v1 and v2),
//! `/proc`, netlink and eBPF programs. No other crate reads them, so differences between kernels
//! are handled in one place.
//!
//! Counters are recorded as cumulative values. `dyno-analysis` computes rates from differences.
//! Parsers take text or folders as parameters, so that other kernels are tested with fixtures.
#![forbid(unsafe_code)]

mod accounting;
pub mod binary;
pub mod cgroup;
mod clock;
mod columns;
mod counter_source;
mod ctnetlink;
pub mod facts;
mod files;
pub mod host;
pub mod hsperfdata;
mod kernel;
pub mod kernel_probes;
mod network;
pub mod path;
pub mod probes;
pub mod proc;
#[cfg(test)]
#[path = "../../../tests/support/not_run.rs"]
mod reasons;
mod runtime_files;
mod sampler;
pub mod sockets;
pub mod stacks;
pub mod tracking;

pub use clock::{boot_ticks, monotonic_ns, suspended_ns, tick_ns};
pub use counter_source::CounterSource;
pub use files::Files;
pub use kernel::Refusal;
pub use runtime_files::RuntimeFiles;
pub use sampler::{Processes, Reads, Sampler, Scope, read_shared_memory, sample};

/// Reads a small file of the kernel. `None`: the file does not exist, or this user cannot read it.
fn read(path: impl AsRef<std::path::Path>) -> Option<String> {
    // A thread's name may contain any bytes, and the kernel may cut it within a UTF-8 character.
    Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned())
}

/// Reads a file with one number. `None`: the file is not readable, or has no number.
fn read_number(path: impl AsRef<std::path::Path>) -> Option<u64> {
    read(path)?.trim().parse().ok()
}
