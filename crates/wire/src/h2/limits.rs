//! Limits on the memory and the work that a peer can cause, each with the error if it is exceeded.

/// Maximum length of the payload of a received frame, in bytes: the initial SETTINGS_MAX_FRAME_SIZE
/// (RFC 9113 §6.5.2), which dyno does not raise. A longer frame is the error
/// [`super::Http2Error::FrameTooLong`].
pub const FRAME_BYTES: u32 = 16_384;

/// Maximum length of a header block in several frames, in bytes. A longer block is the error
/// [`super::Http2Error::BlockTooLarge`].
pub const BLOCK_BYTES: usize = 128 * 1024;

/// Maximum number of CONTINUATION frames of a header block, because a peer could send empty frames
/// without end. One more is the error [`super::Http2Error::TooManyContinuations`].
pub const CONTINUATIONS: u32 = 64;

/// Maximum number of interim (1xx) responses before a final response. One more is the error
/// [`super::Malformed::TooManyInformational`].
pub const INFORMATIONAL: u8 = 32;

/// Maximum length of a header block that is cached, in bytes. Longer blocks are decoded each time.
pub const CACHED_BLOCK_BYTES: usize = 1024;

/// Maximum number of streams that dyno has reset and whose late frames are ignored, per connection.
/// Frames of streams that were reset earlier are an error, as on closed streams.
pub const REMEMBERED_RESETS: usize = 16 * 1024;

/// Bytes of the encoder's dynamic table: the initial size of both sides (RFC 9113 §6.5.2). A larger
/// table is never used, even if the peer allows it.
pub const ENCODER_TABLE_BYTES: u32 = 4096;
