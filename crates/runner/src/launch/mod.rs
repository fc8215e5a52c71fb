//! Programs: starting them in their place, waiting for their end, and leaving nothing behind. The only part of the crate
//! that starts a subject, a build or a tool, and the only one with `unsafe`.

pub mod care;
pub mod environment;
pub mod folder;
pub mod group;
pub mod guard;
mod limits;
pub mod log;
mod minder;
pub(crate) mod own;
pub mod process;
pub(crate) mod sys;
pub(crate) mod tool;
