//! Reads message bodies: by length, chunked, until close, or none (RFC 9112 §6 and §7).

use super::head::TOKEN;
use super::{Http1Error, limits};

/// The rule by which a body ends, and how far it has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyReader {
    /// This many bytes are still to come.
    Length(u64),
    Chunked(Chunked),
    /// Until the peer closes (RFC 9112 §6.3, rule 8).
    UntilClose,
}

/// States of the chunked coding. `line` counts the bytes of a chunk-size line, and `bytes` those of
/// the trailers, because both have a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunked {
    /// Reading the size: its value so far, and the bytes of the line so far, all of them digits.
    Size {
        value: u64,
        line: u16,
    },
    /// Skipping extensions up to the end of the line.
    Extension {
        value: u64,
        line: u16,
        at: ExtensionPosition,
    },
    /// After the line's CR: its LF must follow.
    SizeLf {
        value: u64,
    },
    Data {
        left: u64,
    },
    /// After the data of a chunk: CR must follow.
    DataCr,
    /// After the CR that ends a chunk: LF must follow.
    DataLf,
    /// In the trailer section: bytes so far, and the position in the current line.
    Trailer {
        bytes: u16,
        at: TrailerPosition,
    },
}

/// Position of the next byte in `*( BWS ";" BWS name [ BWS "=" BWS value ] )` (RFC 9112 §7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionPosition {
    /// After blanks: only another extension may follow.
    Semicolon,
    /// Before a name, or blanks before it.
    NameStart,
    Name,
    /// After a name and blanks: a value or another extension must follow.
    NameEnd,
    /// Before a value, or blanks before it.
    ValueStart,
    Value,
    Quoted,
    /// After a backslash within quotes.
    Escaped,
    QuotedEnd,
}

/// Position of the next byte in the trailer section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailerPosition {
    LineStart,
    /// A CR at the start of a line: LF ends the message.
    EmptyCr,
    /// In the name of a field.
    InName,
    /// After the colon of a field.
    InLine,
    LineCr,
}

/// One step of reading a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyStep<'a> {
    NeedMore,
    Data(&'a [u8]),
    End,
}

impl BodyReader {
    pub const CHUNKED: BodyReader = BodyReader::Chunked(Chunked::Size { value: 0, line: 0 });

    /// Continues reading. Returns the number of bytes used, and the step. `NeedMore` means that all
    /// of `input` is used.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, BodyStep<'a>), Http1Error> {
        match self {
            BodyReader::Length(0) => Ok((0, BodyStep::End)),
            _ if input.is_empty() => Ok((0, BodyStep::NeedMore)),
            BodyReader::Length(left) => {
                let n = take(input, left);
                Ok((n, BodyStep::Data(&input[..n])))
            }
            BodyReader::UntilClose => Ok((input.len(), BodyStep::Data(input))),
            BodyReader::Chunked(state) => state.next(input),
        }
    }
}

/// Subtracts the bytes of `input` that belong to the body from `left`. Returns their number.
fn take(input: &[u8], left: &mut u64) -> usize {
    let n = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
    *left -= n as u64;
    n
}

impl Chunked {
    fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, BodyStep<'a>), Http1Error> {
        for (i, &byte) in input.iter().enumerate() {
            if let Chunked::Data { left } = self {
                let n = take(&input[i..], left);
                if *left == 0 {
                    *self = Chunked::DataCr;
                }
                return Ok((i + n, BodyStep::Data(&input[i..i + n])));
            }
            match self.framing_byte(byte)? {
                Some(next) => *self = next,
                None => return Ok((i + 1, BodyStep::End)),
            }
        }
        Ok((input.len(), BodyStep::NeedMore))
    }

    /// Returns the state after one byte that is not data; `None`: the message is complete.
    fn framing_byte(self, byte: u8) -> Result<Option<Chunked>, Http1Error> {
        Ok(Some(match (self, byte) {
            (Chunked::Size { line: 1.., value }, b'\r') => Chunked::SizeLf { value },
            (Chunked::Size { line: 1.., .. }, b'\n') => return Err(Http1Error::BareLineFeed),
            (Chunked::Size { line: line @ 1.., value }, b';') => {
                Chunked::Extension { value, line, at: ExtensionPosition::NameStart }
            }
            (Chunked::Size { line: line @ 1.., value }, b' ' | b'\t') => {
                Chunked::Extension { value, line, at: ExtensionPosition::Semicolon }
            }
            (Chunked::Size { value, line }, _) => {
                let digit = char::from(byte).to_digit(16).ok_or(Http1Error::ChunkSize)?;
                // Leading zeros are valid (RFC 9112 §7.1), so only the value and the line are
                // limited.
                let value = value.checked_mul(16).ok_or(Http1Error::ChunkSize)?;
                let line = increment_up_to(line, limits::CHUNK_LINE_BYTES)
                    .ok_or(Http1Error::ChunkLineTooLong)?;
                Chunked::Size { value: value | u64::from(digit), line }
            }
            (Chunked::Extension { value, line, at }, _) => {
                let line = increment_up_to(line, limits::CHUNK_LINE_BYTES)
                    .ok_or(Http1Error::ChunkLineTooLong)?;
                match at.advance(byte)? {
                    Some(at) => Chunked::Extension { value, line, at },
                    None => Chunked::SizeLf { value },
                }
            }
            (Chunked::SizeLf { value: 0 }, b'\n') => {
                Chunked::Trailer { bytes: 0, at: TrailerPosition::LineStart }
            }
            (Chunked::SizeLf { value }, b'\n') => Chunked::Data { left: value },
            (Chunked::SizeLf { .. }, _) => return Err(Http1Error::BareCarriageReturn),
            (Chunked::DataCr, b'\r') => Chunked::DataLf,
            (Chunked::DataLf, b'\n') => Chunked::Size { value: 0, line: 0 },
            (Chunked::DataCr | Chunked::DataLf, _) => return Err(Http1Error::ChunkEnd),
            (Chunked::Trailer { bytes, at }, _) => return trailer_byte(bytes, at, byte),
            (Chunked::Data { .. }, _) => unreachable!("data should be handled before framing"),
        }))
    }
}

impl ExtensionPosition {
    /// Returns the position of the byte after this one; `None`: this byte is the CR that ends the
    /// line.
    fn advance(self, byte: u8) -> Result<Option<ExtensionPosition>, Http1Error> {
        use ExtensionPosition as Position;
        let is_token = TOKEN[byte as usize];
        Ok(Some(match (self, byte) {
            (_, b'\n') => return Err(Http1Error::BareLineFeed),
            (Position::Name | Position::Value | Position::QuotedEnd, b'\r') => return Ok(None),
            (Position::Quoted, b'"') => Position::QuotedEnd,
            (Position::Quoted, b'\\') => Position::Escaped,
            (Position::Quoted | Position::Escaped, b'\t' | b' '..=b'~' | 0x80..) => {
                Position::Quoted
            }
            (Position::Name | Position::NameEnd, b' ' | b'\t') => Position::NameEnd,
            (Position::Value | Position::QuotedEnd, b' ' | b'\t') => Position::Semicolon,
            (Position::Semicolon | Position::NameStart | Position::ValueStart, b' ' | b'\t') => {
                self
            }
            (
                Position::Semicolon
                | Position::Name
                | Position::NameEnd
                | Position::Value
                | Position::QuotedEnd,
                b';',
            ) => Position::NameStart,
            (Position::Name | Position::NameEnd, b'=') => Position::ValueStart,
            (Position::ValueStart, b'"') => Position::Quoted,
            (Position::NameStart | Position::Name, _) if is_token => Position::Name,
            (Position::ValueStart | Position::Value, _) if is_token => Position::Value,
            _ => return Err(Http1Error::ChunkExtension),
        }))
    }
}

fn trailer_byte(bytes: u16, at: TrailerPosition, byte: u8) -> Result<Option<Chunked>, Http1Error> {
    let at = match (at, byte) {
        (TrailerPosition::EmptyCr, b'\n') => return Ok(None),
        (TrailerPosition::LineCr, b'\n') => TrailerPosition::LineStart,
        (TrailerPosition::EmptyCr | TrailerPosition::LineCr, _) => {
            return Err(Http1Error::BareCarriageReturn);
        }
        (TrailerPosition::LineStart, b'\r') => TrailerPosition::EmptyCr,
        (TrailerPosition::InLine, b'\r') => TrailerPosition::LineCr,
        (TrailerPosition::LineStart | TrailerPosition::InName | TrailerPosition::InLine, b'\n') => {
            return Err(Http1Error::BareLineFeed);
        }
        (TrailerPosition::InName, b':') | (TrailerPosition::InLine, _) => TrailerPosition::InLine,
        // A folded line continues the value of the field before it (RFC 9112 §5.2).
        (TrailerPosition::LineStart, b' ' | b'\t') if bytes > 0 => TrailerPosition::InLine,
        (TrailerPosition::LineStart | TrailerPosition::InName, _) if TOKEN[byte as usize] => {
            TrailerPosition::InName
        }
        (TrailerPosition::LineStart | TrailerPosition::InName, _) => {
            return Err(Http1Error::TrailerFieldName);
        }
    };
    let bytes =
        increment_up_to(bytes, limits::TRAILER_BYTES).ok_or(Http1Error::TrailersTooLarge)?;
    Ok(Some(Chunked::Trailer { bytes, at }))
}

fn increment_up_to(count: u16, limit: usize) -> Option<u16> {
    count.checked_add(1).filter(|&n| usize::from(n) <= limit)
}
