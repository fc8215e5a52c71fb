//! Writes profiles in the formats of other tools, and on pages of their own.

mod collapsed;
mod page;
mod pprof;
mod speedscope;

pub use collapsed::{collapse, collapse_pair};
pub use page::{ComparedProfile, page};
pub use pprof::pprof;
pub use speedscope::speedscope;
