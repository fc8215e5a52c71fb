//! HTTP/1.0 and HTTP/1.1 (RFC 9112): the client half that the generator drives, and the server half
//! that the null responder and the simulated servers speak.
//!
//! ```text
//!              1xx ┌───────┐
//!                  ▼       │                    length reached, last chunk, or no body
//!   ── next() ──► Head ────┴──► Body ────────────────────────► End ──► Head of the next message
//!                                 │ eof(), delimited by close ──► End, connection is used up
//! ```
//!
//! Both halves are called the same way: hand in what arrived, get back how many bytes were used and
//! one [`response::ResponseEvent`] or [`request::RequestEvent`], and call again until the event is
//! `NeedMore`.

pub mod body;
pub mod encode;
mod error;
pub mod head;
pub mod limits;
pub mod request;
pub mod response;

pub use error::Http1Error;
