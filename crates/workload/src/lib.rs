//! Requests from text: those of suites and the command line, with placeholders, mixes, pages and
//! expectations, and imports from other tools.
//!
//! Pure: files that a text names are read by a function of the caller ([`ReadFile`]). A workload
//! ([`dyno_archive::plan::Workload`]) becomes the bytes that are sent by [`compile::compile`].

pub mod command_line;
pub mod compile;
pub mod document;
pub mod header;
pub mod import;
pub mod keys;
pub mod limits;
pub mod mistake;
pub mod relative_path;
pub mod request_values;
pub mod template;
pub mod text;
pub mod units;
pub mod workloads;

/// Reads the file at a path as written. `Err`: why it cannot be read.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;
