//! Every bound on what a header block can make us keep or do, and what happens on reaching it.

/// Bytes of one name or value, both as sent and as decoded. Beyond it:
/// [`super::HpackError::StringTooLong`].
pub const STRING_BYTES: usize = 64 * 1024;

/// Size of all fields of one block, each counted as name, value and 32 bytes (RFC 9113 §6.5.2). It
/// bounds what a few bytes that refer to a large entry again and again can unfold to. Beyond it:
/// [`super::HpackError::HeaderListTooLarge`].
pub const HEADER_LIST_BYTES: usize = 256 * 1024;

/// Bytes of an integer after its first one: as many as 32 bits need. Beyond it:
/// [`super::HpackError::IntegerTooLarge`].
pub const INTEGER_CONTINUATION_BYTES: u32 = 5;
