//! Whether a server answers right: a client for single exchanges at any [`listener`], when a start
//! is [`ready`], and the [`contracts`] that servers keep.
//!
//! Load never goes through it, and it asks nothing about load.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod client;
pub mod contracts;
pub mod exchange;
pub mod life;
pub mod limits;
pub mod listener;
mod pem;
pub mod ports;
pub mod ready;
pub mod relay;
pub mod tls;
mod words;
