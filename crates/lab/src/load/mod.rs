//! Loads of servers: the load generator, and the checks of a server's responses before a load.

mod preflight;

pub use dyno_generator::*;
pub use preflight::{Mismatch, SingleResponse, preflight, request_once};
