//! Limits on the memory and the work that a peer can cause, each with the error if it is exceeded.

/// Maximum length of a message head in bytes, empty line included. A longer head is the error
/// [`super::Http1Error::HeadTooLarge`].
pub const HEAD_BYTES: usize = 64 * 1024;

/// Maximum length of a chunk-size line with its extensions, in bytes. A longer line is the error
/// [`super::Http1Error::ChunkLineTooLong`].
pub const CHUNK_LINE_BYTES: usize = 4 * 1024;

/// Maximum length of all trailer fields of a message, in bytes. More bytes are the error
/// [`super::Http1Error::TrailersTooLarge`].
pub const TRAILER_BYTES: usize = 16 * 1024;

/// Maximum number of interim (1xx) responses before a final response. One more is the error
/// [`super::Http1Error::TooManyInformational`].
pub const INFORMATIONAL: u8 = 32;

/// Maximum length of a head that [`super::response::HeadCache`] stores, in bytes. Longer heads are
/// parsed each time.
pub const CACHED_HEAD_BYTES: usize = 2 * 1024;
