//! Violations of HTTP/2 by a peer: of a connection, or of one stream.

use thiserror::Error;

use super::ErrorCode;
use super::hpack;

/// A violation of HTTP/2 by a peer that ends the connection. Each variant is one kind that reports
/// can count and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Http2Error {
    #[error("the connection does not begin with the server's SETTINGS frame (RFC 9113 §3.4)")]
    NoPreface,
    #[error("the response is HTTP/1, not HTTP/2")]
    SpokeHttp1,
    #[error("a frame is longer than the announced SETTINGS_MAX_FRAME_SIZE (RFC 9113 §4.2)")]
    FrameTooLong,
    #[error("a frame has a length that its type does not allow (RFC 9113 §4.2)")]
    FrameLength,
    #[error(
        "a frame is on stream 0 although its type needs another stream, or the reverse (RFC 9113 \
         §6)"
    )]
    WrongStream,
    #[error("the padding of a frame is as long as the frame or longer (RFC 9113 §6.1)")]
    Padding,
    #[error("a frame is on a stream that was never opened (RFC 9113 §5.1)")]
    IdleStream,
    #[error("DATA or HEADERS came on a stream that had ended (RFC 9113 §5.1)")]
    StreamClosed,
    #[error("the header block is interrupted by another frame (RFC 9113 §6.10)")]
    InterruptedBlock,
    #[error("CONTINUATION came without a header block to continue (RFC 9113 §6.10)")]
    Continuation,
    #[error("a header block is too large")]
    BlockTooLarge,
    #[error("a header block is in too many frames")]
    TooManyContinuations,
    #[error("PUSH_PROMISE came although push is disabled (RFC 9113 §8.4)")]
    Push,
    #[error("a setting has a value that is not allowed (RFC 9113 §6.5.2)")]
    SettingValue,
    #[error("SETTINGS with ACK came, but all SETTINGS were already acknowledged (RFC 9113 §6.5.3)")]
    SettingsAck,
    #[error("WINDOW_UPDATE of the connection has an increment of 0 (RFC 9113 §6.9)")]
    WindowByNothing,
    #[error("a flow-control window was raised above 2³¹ − 1 (RFC 9113 §6.9.1)")]
    WindowOverflow,
    #[error("the DATA exceeded the flow-control window (RFC 9113 §6.9)")]
    WindowExceeded,
    /// Only the caller reports this error, because this crate does not know which bytes the peer
    /// has read.
    #[error(
        "too many control frames came while the server did not read the replies (RFC 9113 \
             §10.5)"
    )]
    Flood,
    #[error("HPACK: {0}")]
    Hpack(#[from] hpack::HpackError),
}

impl Http2Error {
    /// Returns the code of the GOAWAY for the peer (RFC 9113 §5.4.1).
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Http2Error::FrameTooLong | Http2Error::FrameLength => ErrorCode::FrameSizeError,
            Http2Error::StreamClosed => ErrorCode::StreamClosed,
            Http2Error::WindowOverflow | Http2Error::WindowExceeded => ErrorCode::FlowControlError,
            Http2Error::Hpack(_) => ErrorCode::CompressionError,
            Http2Error::BlockTooLarge | Http2Error::TooManyContinuations | Http2Error::Flood => {
                ErrorCode::EnhanceYourCalm
            }
            Http2Error::NoPreface
            | Http2Error::SpokeHttp1
            | Http2Error::WrongStream
            | Http2Error::Padding
            | Http2Error::IdleStream
            | Http2Error::InterruptedBlock
            | Http2Error::Continuation
            | Http2Error::Push
            | Http2Error::SettingValue
            | Http2Error::SettingsAck
            | Http2Error::WindowByNothing => ErrorCode::ProtocolError,
        }
    }
}

/// A violation on one stream. Other streams continue (RFC 9113 §5.4.2, §8.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Malformed {
    #[error("a response has no valid :status, or more than one (RFC 9113 §8.3.2)")]
    Status,
    #[error(
        "a response has a pseudo-header field other than :status, or :status comes after other \
         fields (RFC 9113 §8.3)"
    )]
    PseudoField,
    #[error(
        "a field name has a character that is not allowed, such as an upper-case letter (RFC 9113 \
         §8.2.1)"
    )]
    FieldName,
    #[error("a field value has a character that is not allowed (RFC 9113 §8.2.1)")]
    FieldValue,
    #[error("a field is allowed only in HTTP/1, such as Connection (RFC 9113 §8.2.2)")]
    ConnectionField,
    #[error("Content-Length is not a number, or two values differ (RFC 9110 §8.6)")]
    ContentLength,
    #[error("the body is longer or shorter than its Content-Length (RFC 9113 §8.1.1)")]
    BodyLength,
    #[error(
        "an interim (1xx) response ends its stream, or has the status 101 (RFC 9113 §8.1, §8.6)"
    )]
    Informational,
    #[error("too many interim (1xx) responses")]
    TooManyInformational,
    #[error("DATA came before the response's head (RFC 9113 §8.1)")]
    DataBeforeHead,
    #[error("trailers do not end their stream, or have a pseudo-header field (RFC 9113 §8.1)")]
    Trailers,
    #[error("a stream's flow-control window was raised above 2³¹ − 1 (RFC 9113 §6.9.1)")]
    Window,
    #[error("WINDOW_UPDATE of a stream has an increment of 0 (RFC 9113 §6.9)")]
    WindowByNothing,
    #[error("the DATA exceeded the stream's flow-control window (RFC 9113 §6.9)")]
    WindowExceeded,
}

impl Malformed {
    /// Returns the code of the RST_STREAM for the peer.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Malformed::WindowExceeded | Malformed::Window => ErrorCode::FlowControlError,
            _ => ErrorCode::ProtocolError,
        }
    }
}
