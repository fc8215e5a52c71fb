//! Reads frame headers, and writes the frames that need no state (RFC 9113 §4, §6).

use alloc::vec::Vec;

use super::{ErrorCode, Http2Error};

/// The first bytes that a client sends on a connection (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of a frame's header.
pub const HEADER_BYTES: usize = 9;

/// Types of frames (RFC 9113 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Data,
    Headers,
    Priority,
    RstStream,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    /// Any type that RFC 9113 does not define. Such frames are ignored (§4.1).
    Unknown,
}

impl Kind {
    /// Number of kinds, with `Unknown`.
    pub const COUNT: usize = 11;

    const ALL: [Kind; Kind::COUNT] = [
        Kind::Data,
        Kind::Headers,
        Kind::Priority,
        Kind::RstStream,
        Kind::Settings,
        Kind::PushPromise,
        Kind::Ping,
        Kind::GoAway,
        Kind::WindowUpdate,
        Kind::Continuation,
        Kind::Unknown,
    ];

    #[inline]
    #[must_use]
    pub fn from_wire(number: u8) -> Kind {
        *Kind::ALL.get(usize::from(number)).unwrap_or(&Kind::Unknown)
    }

    /// The name in RFC 9113 §6.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Data => "DATA",
            Kind::Headers => "HEADERS",
            Kind::Priority => "PRIORITY",
            Kind::RstStream => "RST_STREAM",
            Kind::Settings => "SETTINGS",
            Kind::PushPromise => "PUSH_PROMISE",
            Kind::Ping => "PING",
            Kind::GoAway => "GOAWAY",
            Kind::WindowUpdate => "WINDOW_UPDATE",
            Kind::Continuation => "CONTINUATION",
            Kind::Unknown => "unknown",
        }
    }

    pub fn all() -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter()
    }
}

/// Flags of frames (RFC 9113 §6).
pub mod flag {
    /// Flag of DATA and HEADERS.
    pub const END_STREAM: u8 = 0x1;

    /// Flag of SETTINGS and PING.
    pub const ACK: u8 = 0x1;

    /// Flag of HEADERS, PUSH_PROMISE and CONTINUATION.
    pub const END_HEADERS: u8 = 0x4;

    /// Flag of DATA, HEADERS and PUSH_PROMISE.
    pub const PADDED: u8 = 0x8;

    /// Flag of HEADERS.
    pub const PRIORITY: u8 = 0x20;
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of payload after the header.
    pub length: u32,
    pub kind: Kind,
    pub flags: u8,
    /// 0: the connection itself.
    pub stream: u32,
}

impl FrameHeader {
    #[inline]
    #[must_use]
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> FrameHeader {
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *bytes;
        FrameHeader {
            length: u32::from_be_bytes([0, a, b, c]),
            kind: Kind::from_wire(kind),
            flags,
            // The first bit is reserved and ignored (§4.1).
            stream: u32::from_be_bytes([s0 & 0x7F, s1, s2, s3]),
        }
    }

    #[inline]
    #[must_use]
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Writes a frame's header. `kind` must not be `Unknown`.
#[inline]
pub fn put_header(kind: Kind, flags: u8, stream: u32, length: usize, out: &mut Vec<u8>) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind as u8, flags, s0, s1, s2, s3]);
}

pub fn put_reset(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    put_header(Kind::RstStream, 0, stream, 4, out);
    out.extend_from_slice(&code.number().to_be_bytes());
}

pub fn put_go_away(last_stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    put_header(Kind::GoAway, 0, 0, 8, out);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.number().to_be_bytes());
}

pub fn put_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    put_header(Kind::WindowUpdate, 0, stream, 4, out);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Writes a header block as HEADERS and as many CONTINUATION frames as needed (§6.2, §6.10).
/// `max_payload`: bytes of the largest payload of a frame. Returns the number of CONTINUATIONs.
pub fn put_block(
    stream: u32,
    block: &[u8],
    end_stream: bool,
    max_payload: usize,
    out: &mut Vec<u8>,
) -> u64 {
    let end_stream = if end_stream { flag::END_STREAM } else { 0 };
    if block.len() <= max_payload {
        put_header(Kind::Headers, flag::END_HEADERS | end_stream, stream, block.len(), out);
        out.extend_from_slice(block);
        return 0;
    }
    let (first, rest) = block.split_at(max_payload);
    put_header(Kind::Headers, end_stream, stream, first.len(), out);
    out.extend_from_slice(first);
    let mut chunks = rest.chunks(max_payload).peekable();
    let mut continuations = 0;
    while let Some(chunk) = chunks.next() {
        let flags = if chunks.peek().is_none() { flag::END_HEADERS } else { 0 };
        put_header(Kind::Continuation, flags, stream, chunk.len(), out);
        out.extend_from_slice(chunk);
        continuations += 1;
    }
    continuations
}

/// The part of a header block in the payload of HEADERS, without padding and priority (§6.2).
#[inline]
pub fn fragment<'p>(header: &FrameHeader, payload: &'p [u8]) -> Result<&'p [u8], Http2Error> {
    let padding_length_bytes = if header.has(flag::PADDED) { 1 } else { 0 };
    let priority_bytes = if header.has(flag::PRIORITY) { 5 } else { 0 };
    let (prefix, rest) = payload
        .split_at_checked(padding_length_bytes + priority_bytes)
        .ok_or(Http2Error::FrameLength)?;
    let padding = if header.has(flag::PADDED) { usize::from(prefix[0]) } else { 0 };
    let length = rest.len().checked_sub(padding).ok_or(Http2Error::Padding)?;
    Ok(&rest[..length])
}

/// The data of a padded payload (§6.1). `None`: the padding is as long as the payload, or longer.
#[must_use]
pub fn without_padding(payload: &[u8]) -> Option<&[u8]> {
    let (&pad, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(pad))?)
}

/// Appends bytes of `input` until `buffer` has `length` bytes. Returns the number of bytes used.
pub(super) fn fill(buffer: &mut Vec<u8>, length: usize, input: &[u8]) -> usize {
    let n = length.saturating_sub(buffer.len()).min(input.len());
    buffer.extend_from_slice(&input[..n]);
    n
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn header_round_trip_keeps_every_field() {
        for kind in Kind::all().filter(|kind| *kind != Kind::Unknown) {
            let mut out = Vec::new();
            put_header(kind, 0x25, 0x7FFF_FFFF, 0x12_3456, &mut out);
            let header = FrameHeader::parse(out[..].try_into().unwrap());
            assert_eq!(
                header,
                FrameHeader { length: 0x12_3456, kind, flags: 0x25, stream: 0x7FFF_FFFF }
            );
        }
        assert_eq!(Kind::from_wire(10), Kind::Unknown);
        assert_eq!(FrameHeader::parse(&[0, 0, 0, 0, 0, 0x80, 0, 0, 1]).stream, 1);
    }

    #[test]
    fn without_padding_too_long_returns_none() {
        assert_eq!(without_padding(&[0, 1, 2]), Some(&[1, 2][..]));
        assert_eq!(without_padding(&[2, 0, 0]), Some(&[][..]));
        assert_eq!(without_padding(&[3, 0, 0]), None);
        assert_eq!(without_padding(&[]), None);
    }

    #[test]
    fn fragment_excludes_priority_and_padding() {
        let read = |flags, payload: &[u8]| {
            let header =
                FrameHeader { length: payload.len() as u32, kind: Kind::Headers, flags, stream: 1 };
            fragment(&header, payload).map(<[u8]>::to_vec)
        };
        let both = flag::PADDED | flag::PRIORITY;
        assert_eq!(read(0, &[]), Ok(vec![]));
        assert_eq!(read(0, &[1, 2]), Ok(vec![1, 2]));
        assert_eq!(read(flag::PADDED, &[1, 2, 3]), Ok(vec![2]));
        assert_eq!(read(flag::PRIORITY, &[0, 0, 0, 0, 0, 7]), Ok(vec![7]));
        assert_eq!(read(both, &[1, 0, 0, 0, 0, 0, 7, 9]), Ok(vec![7]));
        assert_eq!(read(both, &[1, 0, 0, 0, 0, 0, 9]), Ok(vec![]));
        // Shorter than its flags require (§4.2), or with too much padding (§6.2).
        assert_eq!(read(flag::PADDED, &[]), Err(Http2Error::FrameLength));
        assert_eq!(read(flag::PRIORITY, &[0; 4]), Err(Http2Error::FrameLength));
        assert_eq!(read(both, &[0; 5]), Err(Http2Error::FrameLength));
        assert_eq!(read(flag::PADDED, &[1]), Err(Http2Error::Padding));
        assert_eq!(read(both, &[2, 0, 0, 0, 0, 0, 9]), Err(Http2Error::Padding));
    }

    #[test]
    fn put_block_long_writes_continuations() {
        let block = [7; 25];
        let mut out = Vec::new();
        assert_eq!(put_block(3, &block, true, 10, &mut out), 2);
        let mut rest = &out[..];
        let mut frames = Vec::new();
        let mut read = Vec::new();
        while let Some((header, payload)) = rest.split_first_chunk() {
            let header = FrameHeader::parse(header);
            frames.push((header.kind, header.flags, header.length));
            read.extend_from_slice(&payload[..header.length as usize]);
            rest = &payload[header.length as usize..];
        }
        assert_eq!(read, block);
        assert_eq!(
            frames,
            [
                (Kind::Headers, flag::END_STREAM, 10),
                (Kind::Continuation, 0, 10),
                (Kind::Continuation, flag::END_HEADERS, 5)
            ]
        );
    }
}
