//! Violations of HTTP/1.x by a peer.

use thiserror::Error;

/// A violation of HTTP/1.x by a peer. Each variant is one kind that reports can count and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Http1Error {
    #[error("the status line is not `HTTP/1.x CODE reason` (RFC 9112 §4)")]
    StatusLine,
    #[error("the request line is not `METHOD target HTTP/1.x` (RFC 9112 §3)")]
    RequestLine,
    #[error("the protocol version is neither HTTP/1.0 nor HTTP/1.1")]
    Version,
    #[error("a line ends in a bare line feed instead of CR LF (RFC 9112 §2.2)")]
    BareLineFeed,
    #[error("a carriage return is not followed by a line feed (RFC 9112 §2.2)")]
    BareCarriageReturn,
    #[error("a header field has no colon, or an invalid name (RFC 9110 §5.1)")]
    FieldName,
    #[error("a header value contains a NUL (RFC 9110 §5.5)")]
    FieldValue,
    #[error("a header line begins with a blank, but no field precedes it (RFC 9112 §2.2, §5.2)")]
    FoldedField,
    #[error("Content-Length is not a number, or two values differ (RFC 9112 §6.3)")]
    ContentLength,
    #[error("both Content-Length and Transfer-Encoding are present (RFC 9112 §6.3)")]
    LengthAndTransferEncoding,
    #[error("an HTTP/1.0 message has Transfer-Encoding (RFC 9112 §6.1)")]
    TransferEncodingInHttp10,
    #[error("Transfer-Encoding is not a list of transfer codings (RFC 9112 §6.1)")]
    TransferCoding,
    #[error("the chunked transfer coding was applied twice (RFC 9112 §6.1)")]
    ChunkedTwice,
    #[error("the request's last transfer coding is not chunked (RFC 9112 §6.3)")]
    RequestNotChunked,
    #[error("a chunk size is not a hexadecimal number, or needs more than 64 bits (RFC 9112 §7.1)")]
    ChunkSize,
    #[error("the text after a chunk size is not a chunk extension (RFC 9112 §7.1.1)")]
    ChunkExtension,
    #[error("chunk data is not followed by CR LF (RFC 9112 §7.1)")]
    ChunkEnd,
    #[error("a chunk-size line is too long")]
    ChunkLineTooLong,
    #[error("a trailer field has no colon, or an invalid name (RFC 9112 §7.1.2)")]
    TrailerFieldName,
    #[error("the trailer section is too large")]
    TrailersTooLarge,
    #[error("the message head is too large")]
    HeadTooLarge,
    #[error("too many interim (1xx) responses")]
    TooManyInformational,
    #[error("the server switched protocols (101), although the request did not ask for it")]
    UnexpectedUpgrade,
    #[error("the connection closed inside a message head")]
    ClosedInHead,
    #[error("the connection closed before the body was complete")]
    ClosedInBody,
}
