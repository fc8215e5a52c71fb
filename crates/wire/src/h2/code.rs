/// Why a stream or a connection was ended (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
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
    /// A number that RFC 9113 does not define; it means as much as `InternalError` (§7).
    Unknown,
}

impl Code {
    /// Number of codes, with `Unknown`.
    pub const COUNT: usize = 15;

    const ALL: [Code; Code::COUNT] = [
        Code::NoError,
        Code::ProtocolError,
        Code::InternalError,
        Code::FlowControlError,
        Code::SettingsTimeout,
        Code::StreamClosed,
        Code::FrameSizeError,
        Code::RefusedStream,
        Code::Cancel,
        Code::CompressionError,
        Code::ConnectError,
        Code::EnhanceYourCalm,
        Code::InadequateSecurity,
        Code::Http11Required,
        Code::Unknown,
    ];

    #[must_use]
    pub fn from_wire(number: u32) -> Code {
        *Code::ALL.get(number as usize).unwrap_or(&Code::Unknown)
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Code::Unknown => Code::InternalError as u32,
            known => known as u32,
        }
    }

    /// The name of RFC 9113 §7.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Code::NoError => "NO_ERROR",
            Code::ProtocolError => "PROTOCOL_ERROR",
            Code::InternalError => "INTERNAL_ERROR",
            Code::FlowControlError => "FLOW_CONTROL_ERROR",
            Code::SettingsTimeout => "SETTINGS_TIMEOUT",
            Code::StreamClosed => "STREAM_CLOSED",
            Code::FrameSizeError => "FRAME_SIZE_ERROR",
            Code::RefusedStream => "REFUSED_STREAM",
            Code::Cancel => "CANCEL",
            Code::CompressionError => "COMPRESSION_ERROR",
            Code::ConnectError => "CONNECT_ERROR",
            Code::EnhanceYourCalm => "ENHANCE_YOUR_CALM",
            Code::InadequateSecurity => "INADEQUATE_SECURITY",
            Code::Http11Required => "HTTP_1_1_REQUIRED",
            Code::Unknown => "unknown",
        }
    }

    pub fn all() -> impl Iterator<Item = Code> {
        Code::ALL.into_iter()
    }
}
