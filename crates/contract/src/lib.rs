//! Checks the responses of servers: a client for single exchanges with a [`listener`], the
//! readiness of a start ([`ready`]), and the [`contracts`] of servers.
//!
//! The load generator has a separate client, so that a mistake in one client is visible as a
//! difference between checks and loads.
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
pub mod problem;
pub mod ready;
pub mod relay;
mod sessions;
pub mod tls;
