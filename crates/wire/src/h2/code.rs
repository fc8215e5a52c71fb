//! The error codes of RST_STREAM and GOAWAY.

/// The reason for which a stream or a connection was ended (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCode {
    NoError,
    ProtocolError,
    InternalError,
    FlowControlError,
    SettingsTimeout,
    StreamClosed,
    FrameSizeError,
    RefusedStream,
    Cancel,
    CompressionError,
    ConnectError,
    EnhanceYourCalm,
    InadequateSecurity,
    Http11Required,
    /// A number that RFC 9113 does not define. It is treated as `InternalError` (§7).
    Unknown,
}

impl ErrorCode {
    /// Number of codes, with `Unknown`.
    pub const COUNT: usize = 15;

    const ALL: [ErrorCode; ErrorCode::COUNT] = [
        ErrorCode::NoError,
        ErrorCode::ProtocolError,
        ErrorCode::InternalError,
        ErrorCode::FlowControlError,
        ErrorCode::SettingsTimeout,
        ErrorCode::StreamClosed,
        ErrorCode::FrameSizeError,
        ErrorCode::RefusedStream,
        ErrorCode::Cancel,
        ErrorCode::CompressionError,
        ErrorCode::ConnectError,
        ErrorCode::EnhanceYourCalm,
        ErrorCode::InadequateSecurity,
        ErrorCode::Http11Required,
        ErrorCode::Unknown,
    ];

    #[must_use]
    pub fn from_wire(number: u32) -> ErrorCode {
        *ErrorCode::ALL.get(number as usize).unwrap_or(&ErrorCode::Unknown)
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            ErrorCode::Unknown => ErrorCode::InternalError as u32,
            known => known as u32,
        }
    }

    /// The name in RFC 9113 §7.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ErrorCode::NoError => "NO_ERROR",
            ErrorCode::ProtocolError => "PROTOCOL_ERROR",
            ErrorCode::InternalError => "INTERNAL_ERROR",
            ErrorCode::FlowControlError => "FLOW_CONTROL_ERROR",
            ErrorCode::SettingsTimeout => "SETTINGS_TIMEOUT",
            ErrorCode::StreamClosed => "STREAM_CLOSED",
            ErrorCode::FrameSizeError => "FRAME_SIZE_ERROR",
            ErrorCode::RefusedStream => "REFUSED_STREAM",
            ErrorCode::Cancel => "CANCEL",
            ErrorCode::CompressionError => "COMPRESSION_ERROR",
            ErrorCode::ConnectError => "CONNECT_ERROR",
            ErrorCode::EnhanceYourCalm => "ENHANCE_YOUR_CALM",
            ErrorCode::InadequateSecurity => "INADEQUATE_SECURITY",
            ErrorCode::Http11Required => "HTTP_1_1_REQUIRED",
            ErrorCode::Unknown => "unknown",
        }
    }

    pub fn all() -> impl Iterator<Item = ErrorCode> {
        ErrorCode::ALL.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_code_has_own_name() {
        let names: BTreeSet<&str> = ErrorCode::all().map(ErrorCode::name).collect();
        assert_eq!(names.len(), ErrorCode::all().count());
        assert_eq!(ErrorCode::Cancel.name(), "CANCEL");
    }
}
