//! HTTP/1.0 and HTTP/1.1 (RFC 9112): the client half for the generator, and the server half for the
//! null responder and the simulated servers.
//!
//! ```text
//!              1xx ┌───────┐
//!                  ▼       │                    length reached, last chunk, or no body
//!   ── next() ──► Head ────┴──► Body ────────────────────────► End ──► Head of the next message
//!                                 │ eof(), delimited by close ──► End, connection is used up
//! ```
//!
//! Both halves have the same interface. `next` takes the received bytes, and returns the number of
//! bytes used with one [`response::ResponseEvent`] or [`request::RequestEvent`]. The caller calls
//! `next` until the event is `NeedMore`.

pub mod body;
pub mod encode;
mod error;
pub mod head;
pub mod limits;
pub mod request;
pub mod response;

pub use error::Http1Error;
