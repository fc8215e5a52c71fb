//! Every bound on what a peer can make us keep or do, and what happens on reaching it.

/// Largest payload of a frame that we accept: the SETTINGS_MAX_FRAME_SIZE every endpoint begins
/// with (RFC 9113 §6.5.2), which we do not raise. Beyond it: [`super::Http2Error::FrameTooLong`].
pub const FRAME_BYTES: u32 = 16_384;

/// Bytes of one header block over all its frames. Beyond it: [`super::Http2Error::BlockTooLarge`].
pub const BLOCK_BYTES: usize = 128 * 1024;

/// CONTINUATION frames of one header block. Beyond it:
/// [`super::Http2Error::TooManyContinuations`]; else empty ones could keep us busy for ever.
pub const CONTINUATIONS: u32 = 64;

/// Interim (1xx) responses before one final response. Beyond it:
/// [`super::Malformed::TooManyInformational`].
pub const INFORMATIONAL: u8 = 32;

/// Bytes of the longest header block that is cached. Longer ones are decoded each time.
pub const CACHED_BLOCK_BYTES: usize = 1024;

/// Streams that we have reset and whose late frames are still ignored, per connection. Frames of
/// streams that were reset before those are then taken for frames on closed streams.
pub const REMEMBERED_RESETS: usize = 16 * 1024;

/// The encoder's dynamic table: the size both sides begin with (RFC 9113 §6.5.2), of which no more
/// is used even if the peer allows more.
pub const ENCODER_TABLE_BYTES: u32 = 4096;
