//! Limits on the memory and the work that a header block can cause, each with the error for
//! exceeding it.

/// Bytes of one name or value, both as sent and as decoded. Above it:
/// [`super::HpackError::StringTooLong`].
pub const STRING_BYTES: usize = 64 * 1024;

/// Size of all fields of one block, each counted as name, value and 32 bytes (RFC 9113 §6.5.2). A
/// short block that refers to a large entry many times would otherwise expand without limit. Above
/// it: [`super::HpackError::HeaderListTooLarge`].
pub const HEADER_LIST_BYTES: usize = 256 * 1024;

/// Bytes of an integer after its first byte: as many as 32 bits need. Above it:
/// [`super::HpackError::IntegerTooLarge`].
pub const INTEGER_CONTINUATION_BYTES: u32 = 5;
