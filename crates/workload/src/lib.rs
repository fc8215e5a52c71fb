//! From text to what is asked: requests of suites and the command line, with placeholders, mixes,
//! pages and expectations, and imports from other tools.
//!
//! Pure: what a text names is read by a function that the caller gives ([`ReadFile`]). A workload
//! as people describe it ([`dyno_archive::plan::Workload`]) becomes the bytes that are sent by
//! [`compile::compile`].

pub mod compile;
pub mod document;
pub mod header;
pub mod import;
pub mod inside;
pub mod keys;
pub mod limits;
pub mod mistake;
pub mod own;
pub mod template;
pub mod text;
pub mod typed;
pub mod units;
pub mod workloads;

/// Reads the file at a path as written, or says why not.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;
