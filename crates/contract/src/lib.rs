//! Checks of a server's responses: a client for single exchanges at any [`listener`], the readiness
//! of a start ([`ready`]), and the [`contracts`] of servers.
//!
//! Load never goes through this crate, and it does not depend on load.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod client;
pub mod contracts;
mod description;
pub mod exchange;
pub mod lifecycle;
pub mod limits;
pub mod listener;
mod pem;
pub mod ports;
pub mod ready;
pub mod relay;
pub mod tls;
