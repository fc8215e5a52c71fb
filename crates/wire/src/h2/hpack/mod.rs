//! HPACK (RFC 7541): the compression of header fields in HTTP/2.
//!
//! Each direction of a connection has one table of recent fields, and sender and receiver apply the
//! same changes to it. A block must therefore be decoded even if its fields are unused. An
//! [`HpackError`] ends the connection: all later blocks would be read with the wrong table.
//!
//! ```text
//!   block ──► [size update]* ──► field ──► field ──► ...
//!                                  ├─ indexed: name and value from the tables
//!                                  └─ literal: name from the tables or in the block, value in the
//!                                              block; may be inserted into the dynamic table
//!   index    1 ..= 61   static table      62 ..   dynamic table, newest entry first
//! ```
//!
//! The generator's requests are templates, written with the stateless functions of [`encode`].
//! [`Decoder`] reads the responses. [`Encoder`] uses a dynamic table, and is for tests and fuzzing.

mod decode;
pub mod encode;
mod error;
pub mod huffman;
pub mod limits;
mod table;

pub use decode::Decoder;
pub use encode::{Encoder, Indexing};
pub use error::HpackError;
