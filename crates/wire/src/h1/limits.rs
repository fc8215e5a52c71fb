//! Limits on the memory and the work that a peer can cause, each with the error for exceeding it.

/// Bytes of one message head, from its first byte to the empty line. Above it:
/// [`super::Http1Error::HeadTooLarge`].
pub const HEAD_BYTES: usize = 64 * 1024;

/// Bytes of one chunk-size line with its extensions. Above it:
/// [`super::Http1Error::ChunkLineTooLong`].
pub const CHUNK_LINE_BYTES: usize = 4 * 1024;

/// Bytes of all trailer fields of one message. Above it: [`super::Http1Error::TrailersTooLarge`].
pub const TRAILER_BYTES: usize = 16 * 1024;

/// Interim (1xx) responses before one final response. Above it:
/// [`super::Http1Error::TooManyInformational`].
pub const INFORMATIONAL: u8 = 32;

/// Bytes of the longest head that [`super::response::HeadCache`] stores. Longer heads are parsed
/// each time.
pub const CACHED_HEAD_BYTES: usize = 2 * 1024;
