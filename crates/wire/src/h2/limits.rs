//! Limits on the memory and the work that a peer can cause, each with the error for exceeding it.

/// Largest payload of a frame that we accept: the initial SETTINGS_MAX_FRAME_SIZE (RFC 9113
/// §6.5.2), which we do not raise. Above it: [`super::Http2Error::FrameTooLong`].
pub const FRAME_BYTES: u32 = 16_384;

/// Bytes of one header block over all its frames. Above it: [`super::Http2Error::BlockTooLarge`].
pub const BLOCK_BYTES: usize = 128 * 1024;

/// CONTINUATION frames of one header block. A peer could send empty ones without end. Above it:
/// [`super::Http2Error::TooManyContinuations`].
pub const CONTINUATIONS: u32 = 64;

/// Interim (1xx) responses before one final response. Above it:
/// [`super::Malformed::TooManyInformational`].
pub const INFORMATIONAL: u8 = 32;

/// Bytes of the longest header block that is cached. Longer ones are decoded each time.
pub const CACHED_BLOCK_BYTES: usize = 1024;

/// Streams per connection that we have reset and whose late frames are ignored. Frames of streams
/// that were reset earlier count as frames on closed streams.
pub const REMEMBERED_RESETS: usize = 16 * 1024;

/// Bytes of the encoder's dynamic table: the initial size of both sides (RFC 9113 §6.5.2). No more
/// is used even if the peer allows it.
pub const ENCODER_TABLE_BYTES: u32 = 4096;
