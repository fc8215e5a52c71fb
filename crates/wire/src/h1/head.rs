//! Finds the end of a message head, splits the head into fields, and reads the fields that decide
//! framing.

use alloc::vec::Vec;
use memchr::{memchr, memchr2};

use super::{Http1Error, limits};

/// Protocol version of a message. It decides whether a connection persists by default (RFC 9112
/// §9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// The header fields that decide where the message ends and whether the connection persists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    pub content_length: Option<u64>,
    pub transfer: Transfer,
    /// `Connection: close` was among the connection options.
    pub close: bool,
    /// `Connection: keep-alive` was among the connection options.
    pub keep_alive: bool,
}

/// The transfer codings, reduced to what framing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    None,
    /// The last coding is `chunked`.
    Chunked,
    /// The last coding is not `chunked`.
    Other,
}

impl Framing {
    const fn new() -> Self {
        Framing { content_length: None, transfer: Transfer::None, close: false, keep_alive: false }
    }

    /// Whether the connection persists after this message (RFC 9112 §9.3).
    #[must_use]
    pub fn persists(&self, version: Version) -> bool {
        match version {
            Version::Http11 => !self.close,
            Version::Http10 => self.keep_alive && !self.close,
        }
    }
}

/// Iterates over the fields of a validated head as `(name, value)`, values without surrounding
/// blanks.
#[derive(Clone, Debug)]
pub struct HeadFields<'a> {
    rest: &'a [u8],
}

impl<'a> HeadFields<'a> {
    pub(super) fn new(after_start_line: &'a [u8]) -> Self {
        HeadFields { rest: after_start_line }
    }

    /// Returns the first value of the field `name`. The comparison ignores case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.clone().find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v)
    }
}

impl<'a> Iterator for HeadFields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (line, rest) = split_line(self.rest).ok()??;
        self.rest = rest;
        let colon = memchr(b':', line)?;
        Some((&line[..colon], trim(&line[colon + 1..])))
    }
}

/// Collects a head that arrives in pieces. The buffer stays empty if every head arrives whole.
#[derive(Debug, Default)]
pub(super) struct HeadBuffer {
    bytes: Vec<u8>,
    /// The bytes before this index have been searched for the end of the head.
    searched: usize,
}

/// The location of a whole head after [`HeadBuffer::take`].
pub(super) enum HeadLocation {
    /// The head is in the input, and has this many bytes.
    InInput(usize),
    /// The head is in the buffer. Its last part is this many bytes of the input.
    InBuffer(usize),
    /// The head is not whole yet. The buffer contains all of the input.
    Incomplete,
}

impl HeadBuffer {
    /// Finds a whole head at the start of the buffered bytes and `input`.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<HeadLocation, Http1Error> {
        if self.bytes.is_empty()
            && let Some((result, end)) = find_head_end(input, 0)
        {
            return if end > limits::HEAD_BYTES {
                Err(Http1Error::HeadTooLarge)
            } else {
                result.map(|()| HeadLocation::InInput(end))
            };
        }
        let buffered = self.bytes.len();
        let room = limits::HEAD_BYTES.saturating_sub(buffered);
        let taken = input.len().min(room);
        self.bytes.extend_from_slice(&input[..taken]);
        if let Some((result, end)) = find_head_end(&self.bytes, self.searched) {
            result?;
            self.bytes.truncate(end);
            return Ok(HeadLocation::InBuffer(end - buffered));
        }
        if taken < input.len() || self.bytes.len() >= limits::HEAD_BYTES {
            return Err(Http1Error::HeadTooLarge);
        }
        // The end of a head, `\n\r\n` or `\n\n`, can begin in the last two bytes.
        self.searched = self.bytes.len().saturating_sub(2);
        Ok(HeadLocation::Incomplete)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Stores a whole head, so that its folded lines can be joined.
    pub(super) fn store(&mut self, head: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(head);
    }

    /// Replaces each line folding by three blanks (RFC 9112 §5.2), so that the head keeps its
    /// length. Blanks before the first field are not a folding: no field precedes them (§2.2).
    pub(super) fn unfold(&mut self) {
        let Some(mut at) = memchr(b'\n', &self.bytes) else { return };
        while let Some(i) = memchr(b'\n', &self.bytes[at + 1..]) {
            at += 1 + i;
            let is_folded = matches!(self.bytes.get(at + 1), Some(b' ' | b'\t'));
            if is_folded && self.bytes[at - 1] == b'\r' {
                self.bytes[at - 1..at + 2].fill(b' ');
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.searched = 0;
    }
}

/// Finds the empty line that ends a head. Returns the index after it. A CR without LF is an error,
/// which is returned with the index after the byte that follows the CR.
///
/// A bare line feed also ends a line here, so that the parser can report it. Otherwise the wait for
/// CR LF might never end. A bare CR is reported immediately for the same reason.
fn find_head_end(bytes: &[u8], from: usize) -> Option<(Result<(), Http1Error>, usize)> {
    let mut at = from;
    while let Some(i) = memchr2(b'\r', b'\n', &bytes[at..]) {
        at += i;
        if bytes[at] == b'\r' {
            at += 1;
            if *bytes.get(at)? != b'\n' {
                return Some((Err(Http1Error::BareCarriageReturn), at + 1));
            }
        }
        at += 1;
        match bytes.get(at) {
            Some(b'\n') => return Some((Ok(()), at + 1)),
            Some(b'\r') if bytes.get(at + 1) == Some(&b'\n') => return Some((Ok(()), at + 2)),
            _ => {}
        }
    }
    None
}

/// Splits off one line. Returns the line without its CR LF, and the bytes after it; `None`: the
/// line is the empty one that ends the head.
pub(super) fn split_line(bytes: &[u8]) -> Result<Option<(&[u8], &[u8])>, Http1Error> {
    let end = memchr(b'\n', bytes).ok_or(Http1Error::BareLineFeed)?;
    if end == 0 || bytes[end - 1] != b'\r' {
        return Err(Http1Error::BareLineFeed);
    }
    Ok((end > 1).then(|| (&bytes[..end - 1], &bytes[end + 1..])))
}

/// Validates all field lines after the start line, and reads the framing from them.
pub(super) fn read_fields(mut rest: &[u8]) -> Result<Framing, Http1Error> {
    let mut framing = Framing::new();
    let mut codings = Codings::None;
    while let Some((line, next)) = split_line(rest)? {
        rest = next;
        read_field(line, &mut framing, &mut codings)?;
    }
    framing.transfer = codings.into_transfer()?;
    if framing.content_length.is_some() && framing.transfer != Transfer::None {
        return Err(Http1Error::LengthAndTransferEncoding);
    }
    Ok(framing)
}

fn read_field(line: &[u8], framing: &mut Framing, codings: &mut Codings) -> Result<(), Http1Error> {
    if matches!(line[0], b' ' | b'\t') {
        return Err(Http1Error::FoldedField);
    }
    let colon = memchr(b':', line).ok_or(Http1Error::FieldName)?;
    let name = &line[..colon];
    if name.is_empty() || !name.iter().all(|&b| TOKEN[b as usize]) {
        return Err(Http1Error::FieldName);
    }
    let value = trim(&line[colon + 1..]);
    // A bare CR was already refused during the search for the end of the head.
    if memchr(b'\0', value).is_some() {
        return Err(Http1Error::FieldValue);
    }
    // The three names differ in length, so most other fields cost only a comparison of lengths.
    match name.len() {
        10 if name.eq_ignore_ascii_case(b"connection") => read_connection(value, framing),
        14 if name.eq_ignore_ascii_case(b"content-length") => read_content_length(value, framing)?,
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => codings.read(value)?,
        _ => {}
    }
    Ok(())
}

fn read_connection(value: &[u8], framing: &mut Framing) {
    for option in value.split(|&b| b == b',').map(trim) {
        framing.close |= option.eq_ignore_ascii_case(b"close");
        framing.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
    }
}

/// Reads a length. A list of identical values is read as one value; different values are an error
/// (RFC 9112 §6.3).
fn read_content_length(value: &[u8], framing: &mut Framing) -> Result<(), Http1Error> {
    for item in value.split(|&b| b == b',').map(trim) {
        let length = parse_decimal(item).ok_or(Http1Error::ContentLength)?;
        match framing.content_length {
            Some(earlier) if earlier != length => return Err(Http1Error::ContentLength),
            _ => framing.content_length = Some(length),
        }
    }
    Ok(())
}

/// The transfer codings read so far, from all lines of the field (RFC 9112 §6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codings {
    /// The field is absent.
    None,
    /// The field is present without a coding.
    Empty,
    /// No coding is `chunked`.
    Others,
    /// The last coding is `chunked`.
    Chunked,
    /// `chunked` is a coding, but not the last.
    ChunkedBefore,
}

impl Codings {
    fn read(&mut self, mut value: &[u8]) -> Result<(), Http1Error> {
        if *self == Codings::None {
            *self = Codings::Empty;
        }
        while !value.is_empty() {
            let member = split_member(&mut value);
            // A recipient ignores empty members (RFC 9110 §5.6.1.2).
            if !member.is_empty() {
                *self = self.with_member(member)?;
            }
        }
        Ok(())
    }

    /// Returns the codings with one more: `token *( OWS ";" OWS parameter )`.
    fn with_member(self, member: &[u8]) -> Result<Codings, Http1Error> {
        let name = member.split(|&b| b == b';').next().map(trim).unwrap_or_default();
        if name.is_empty() || !name.iter().all(|&b| TOKEN[b as usize]) {
            return Err(Http1Error::TransferCoding);
        }
        let is_chunked = name.eq_ignore_ascii_case(b"chunked");
        if is_chunked && member.len() > name.len() {
            // `chunked` has no parameters (RFC 9112 §7.1).
            return Err(Http1Error::TransferCoding);
        }
        let was_chunked = matches!(self, Codings::Chunked | Codings::ChunkedBefore);
        match (was_chunked, is_chunked) {
            (false, false) => Ok(Codings::Others),
            (false, true) => Ok(Codings::Chunked),
            (true, false) => Ok(Codings::ChunkedBefore),
            (true, true) => Err(Http1Error::ChunkedTwice),
        }
    }

    fn into_transfer(self) -> Result<Transfer, Http1Error> {
        match self {
            Codings::None => Ok(Transfer::None),
            Codings::Empty => Err(Http1Error::TransferCoding),
            Codings::Chunked => Ok(Transfer::Chunked),
            Codings::Others | Codings::ChunkedBefore => Ok(Transfer::Other),
        }
    }
}

/// Splits the first member off a list. Commas within quotes do not end it (RFC 9110 §5.6.1,
/// §5.6.4).
fn split_member<'a>(list: &mut &'a [u8]) -> &'a [u8] {
    let (mut quoted, mut escaped) = (false, false);
    let end = list.iter().position(|&b| {
        if escaped {
            escaped = false;
            return false;
        }
        match b {
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' => return !quoted,
            _ => {}
        }
        false
    });
    let (member, rest) = list.split_at(end.unwrap_or(list.len()));
    *list = rest.get(1..).unwrap_or_default();
    trim(member)
}

fn parse_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |n, &digit| {
        if !digit.is_ascii_digit() {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

pub(super) fn parse_version(bytes: &[u8]) -> Result<Version, Http1Error> {
    match bytes {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        _ => Err(Http1Error::Version),
    }
}

pub(super) fn trim(bytes: &[u8]) -> &[u8] {
    let blank = |b: &u8| matches!(b, b' ' | b'\t');
    let start = bytes.iter().position(|b| !blank(b)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|b| !blank(b)).map_or(start, |i| i + 1);
    &bytes[start..end]
}

/// The characters of a token (RFC 9110 §5.6.2).
pub(super) static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        table[i] = b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            );
        i += 1;
    }
    table
};
