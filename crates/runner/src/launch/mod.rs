//! Programs: starting them in their place, waiting for them, and leaving nothing behind. The only part of the crate
//! that starts a subject, a build or a tool, and the only one with `unsafe`.

pub mod folder;
pub mod group;
pub mod guard;
pub mod log;
mod minder;
pub mod process;
pub mod ready;
pub(crate) mod sys;
pub(crate) mod tool;
