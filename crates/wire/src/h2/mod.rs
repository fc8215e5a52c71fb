//! HTTP/2 (RFC 9113) and HPACK (RFC 7541): the client half that the generator drives, and the
//! server half that the null responder and the simulated servers speak.
//!
//! ```text
//!                     ┌─────────────────────── Client / Server ────────────────────────┐
//!   bytes ─ next() ─► │ frame: header, payload ─► hpack: header block ─► stream: event │ ─► Event
//!   bytes ◄─ Io::out  │ settings, windows, PING, GOAWAY handled on the way             │
//!                     └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The implementation is our own because a load generator must see what a library hides: where
//! frames and segments end, what each direction consists of, and when a window holds a request up.
//! Each action of a peer is a [`ClientEvent`] or an [`Http2Error`]; no input causes a panic.

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
