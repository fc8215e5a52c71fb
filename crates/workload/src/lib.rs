//! Reads the requests of suites and of the command line, imports requests from other tools, and
//! compiles them to the bytes that are sent ([`compile::compile`]).
//!
//! The crate accesses no files: the caller passes a function that reads them ([`ReadFile`]).

pub mod command_line;
pub mod compile;
pub mod header;
pub mod import;
pub mod limits;
pub mod rates;
mod raw_expect;
pub mod request_values;
pub mod sequence;
pub mod template;
pub mod value_names;
pub mod workloads;

// The longest duration of a file must fit into the distributions of times.
const _: () = assert!(dyno_config::units::MAX_DURATION_NS <= dyno_model::times::MAX_NS);

/// Reads the file at a path as written. `Err`: the reason why it cannot be read.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;
