//! Limits on the memory and the work that a header block can cause, each with the error if it is
//! exceeded.

/// Maximum length of a name or value in bytes, both as sent and as decoded. A longer string is the
/// error [`super::HpackError::StringTooLong`].
pub const STRING_BYTES: usize = 64 * 1024;

/// Maximum size of all fields of a block, in bytes. The size of a field is its name, its value and
/// 32 bytes (RFC 9113 §6.5.2). A short block that refers to a large entry many times would
/// otherwise expand without limit. A larger size is the error
/// [`super::HpackError::HeaderListTooLarge`].
pub const HEADER_LIST_BYTES: usize = 256 * 1024;

/// Maximum number of bytes of an integer after its first byte: as many as 32 bits need. A longer
/// integer is the error [`super::HpackError::IntegerTooLarge`].
pub const INTEGER_CONTINUATION_BYTES: u32 = 5;
