//! Checks the responses of servers: a client for single exchanges with a [`listener`], the
//! readiness of a start ([`ready`]), and the [`contracts`] of servers.
//!
//! Loads do not use this crate, so that checks and loads do not share their mistakes.
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
