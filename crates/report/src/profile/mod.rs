//! Writes profiles in the formats of other tools, and as separate pages.

mod collapsed;
mod page;
mod pprof;
mod speedscope;

pub use collapsed::{collapse, collapse_pair};
pub use page::{ComparedProfile, page};
pub use pprof::pprof;
pub use speedscope::speedscope;
