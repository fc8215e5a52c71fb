//! HTTP/2 (RFC 9113) and HPACK (RFC 7541): the client half for the generator, and the server half
//! for the null responder and the simulated servers.
//!
//! ```text
//!                     ┌─────────────────────── Client / Server ────────────────────────┐
//!   bytes ─ next() ─► │ frame: header, payload ─► hpack: header block ─► stream: event │ ─► Event
//!   bytes ◄─ Io::out  │ settings, windows, PING, GOAWAY handled on the way             │
//!                     └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A library hides what a load generator measures: the ends of frames and segments, the frames of
//! each direction, and the time for which a window delays a request. Therefore dyno has its own
//! implementation. Each action of a peer is a [`ClientEvent`] or an [`Http2Error`]. No input causes
//! a panic.

mod block;
pub mod client;
mod code;
pub mod counts;
pub mod encode;
mod error;
pub mod frame;
pub mod head;
pub mod hpack;
pub mod limits;
pub mod server;
pub mod settings;
mod streams;
mod window;

pub use client::{Client, ClientEvent, EncodedRequest, Io};
pub use code::ErrorCode;
pub use counts::FrameCounts;
pub use encode::{BlockForm, EncodedBlock, SharedFields};
pub use error::{Http2Error, Malformed};
pub use streams::StreamKey;
