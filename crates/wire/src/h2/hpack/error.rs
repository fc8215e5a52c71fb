//! Violations of HPACK by a peer.

use thiserror::Error;

/// A violation of HPACK by a peer. Each variant is one kind that reports can count and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum HpackError {
    #[error("a field refers to index 0 (RFC 7541 §6.1)")]
    IndexZero,
    #[error(
        "a field refers to an index outside of the static and the dynamic table (RFC 7541 §2.3.3)"
    )]
    IndexOutOfRange,
    #[error("an integer has more than 32 bits, or its encoding is too long (RFC 7541 §5.1)")]
    IntegerTooLarge,
    #[error("the header block ends inside a field (RFC 7541 §6)")]
    Truncated,
    #[error("a dynamic table size update exceeds the announced limit (RFC 7541 §6.3)")]
    SizeAboveLimit,
    #[error("a dynamic table size update follows a field (RFC 7541 §4.2)")]
    SizeUpdateNotFirst,
    #[error("the dynamic table was not made smaller after its limit was lowered (RFC 7541 §4.2)")]
    SizeUpdateMissing,
    #[error("a Huffman-coded string contains the end-of-string symbol (RFC 7541 §5.2)")]
    HuffmanEndOfString,
    #[error("a Huffman-coded string is padded with more than 7 bits (RFC 7541 §5.2)")]
    HuffmanPaddingTooLong,
    #[error(
        "a Huffman-coded string ends inside a code, or its padding has a zero bit (RFC 7541 §5.2)"
    )]
    HuffmanPadding,
    #[error("a header name or value is too long")]
    StringTooLong,
    #[error("the header list is too large")]
    HeaderListTooLarge,
}
