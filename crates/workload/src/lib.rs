//! Reads the requests of suites and of the command line, imports requests from other tools, and
//! compiles them to the bytes that are sent ([`compile::compile`]).
//!
//! The crate accesses no files: the caller passes a function that reads them ([`ReadFile`]).

pub mod command_line;
pub mod compile;
pub mod document;
pub mod header;
pub mod import;
pub mod keys;
pub mod limits;
pub mod mistake;
pub mod one_or_many;
pub mod quotation;
mod raw_expect;
pub mod relative_path;
pub mod request_values;
pub mod sequence;
pub mod template;
pub mod text;
pub mod units;
pub mod value_names;
pub mod workloads;

/// Reads the file at a path as written. `Err`: the reason why it cannot be read.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;
