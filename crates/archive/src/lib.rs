//! Reads and writes the folder of a run, and checks it. Its contents are the data of `dyno-model`.
//!
//! - [`dir`] has the layout of the folder. It is the only module that accesses files.
//! - `check` refuses damaged and edited archives, because users share them. Code that reads a run
//!   can rely on its indices, order and sums.
//! - `upgrade` converts files of earlier formats before they are parsed.
//!
//! These things are absent on purpose: types of the record, which crates without files need too,
//! and everything that can be computed from a record.
#![forbid(unsafe_code)]

mod check;
pub mod dir;
mod header_ids;
mod upgrade;

pub use check::contradiction;
pub use dir::{ArchiveError, RunDir};
