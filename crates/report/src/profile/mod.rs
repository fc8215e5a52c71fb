//! Writes profiles in the formats of other tools, and as separate pages.

mod collapsed;
mod export;
mod page;
mod pprof;
mod speedscope;

pub use export::{ExportedProfile, FORMATS, NamedProfile, ProfileExport, ProfileFormat};
