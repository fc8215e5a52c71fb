//! Reads responses: the client half, for the generator.

use super::body::{BodyReader, BodyStep};
use super::head::{self, Framing, HeadBuffer, HeadFields, HeadLocation, Transfer, Version};
use super::{Http1Error, limits};
use alloc::vec::Vec;

/// The property of a request that decides how its response is read (RFC 9112 §6.3, rule 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// HEAD: the response has no body, regardless of its fields.
    Head,
    /// A request to switch protocols, which a server may accept (RFC 9110 §7.8).
    Upgrade,
    /// A HEAD that requests to switch protocols.
    UpgradeHead,
    Other,
}

/// A validated response head.
#[derive(Clone, Debug)]
pub struct ResponseHead<'a> {
    pub version: Version,
    /// 100 to 999.
    pub status: u16,
    pub framing: Framing,
    /// Size of the head on the wire, status line to empty line.
    pub wire_bytes: usize,
    fields: &'a [u8],
}

impl<'a> ResponseHead<'a> {
    #[must_use]
    pub fn fields(&self) -> HeadFields<'a> {
        HeadFields::new(self.fields)
    }
}

/// Result of one call of [`ResponseReader::next`].
#[derive(Clone, Debug)]
pub enum ResponseEvent<'a> {
    /// All input is used and the message is not complete.
    NeedMore,
    /// An interim response. The final response is still to come.
    Informational(ResponseHead<'a>),
    /// Status 101: the server switches to the protocol that the request asked for. Bytes after this
    /// head are not HTTP/1.1.
    Upgraded(ResponseHead<'a>),
    Head(ResponseHead<'a>),
    Body(&'a [u8]),
    End(End),
}

/// What the end of a message means for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The next request may use this connection (RFC 9112 §9.3).
    Reusable,
    /// The connection ends with this message: the peer announced this, or the body extends to the
    /// close.
    Final,
}

/// The part of a response that has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingPart {
    /// The end of the head, or the whole head.
    Head,
    /// Bytes of the body; `None`: no length was announced.
    Body(Option<u64>),
}

/// Meaning of a close by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// No message is in progress.
    BetweenMessages,
    /// The close completed a message, such as a body without a length.
    EndsMessage,
}

/// The last head that arrived in one piece, and the result of parsing it.
///
/// A server under load repeats the same head, except for a date that changes every second.
/// Comparing a head with the last one costs a tenth of parsing it. Many connections may share a
/// cache.
#[derive(Clone, Debug, Default)]
pub struct HeadCache {
    /// Empty: no head has arrived yet.
    bytes: Vec<u8>,
    parsed: Option<CachedHead>,
}

#[derive(Clone, Copy, Debug)]
struct CachedHead {
    version: Version,
    status: u16,
    framing: Framing,
    /// Offset of the first field.
    fields_start: usize,
}

impl HeadCache {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the head at the start of `input`. `None`: it differs from the cached head.
    #[inline]
    fn find<'a>(&self, input: &'a [u8]) -> Option<ResponseHead<'a>> {
        let parsed = self.parsed?;
        // The cached bytes end in an empty line, so input that begins with them has a whole head.
        let bytes = input.get(..self.bytes.len()).filter(|bytes| *bytes == self.bytes)?;
        Some(ResponseHead {
            version: parsed.version,
            status: parsed.status,
            framing: parsed.framing,
            wire_bytes: bytes.len(),
            fields: &bytes[parsed.fields_start..],
        })
    }

    fn store(&mut self, bytes: &[u8], head: &ResponseHead<'_>) {
        if bytes.len() > limits::CACHED_HEAD_BYTES {
            return;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.parsed = Some(CachedHead {
            version: head.version,
            status: head.status,
            framing: head.framing,
            fields_start: bytes.len() - head.fields.len(),
        });
    }
}

/// Reads the responses of one connection, in order.
///
/// Call [`next`](Self::next) with the unread input until it returns `NeedMore`. Call
/// [`eof`](Self::eof) when the peer closes. After an error the connection is unusable, and `next`
/// must not be called again.
#[derive(Debug, Default)]
pub struct ResponseReader {
    state: State,
    buffer: HeadBuffer,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Head { informational: u8 },
    Body { body: BodyReader, end: End },
}

impl Default for State {
    fn default() -> Self {
        State::Head { informational: 0 }
    }
}

impl ResponseReader {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no byte of a message has been read since the last one ended.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        matches!(self.state, State::Head { informational: 0 }) && self.buffer.is_empty()
    }

    /// The part of the response that is still to come.
    #[must_use]
    pub fn missing_part(&self) -> MissingPart {
        match self.state {
            State::Head { .. } => MissingPart::Head,
            State::Body { body: BodyReader::Length(left), .. } => MissingPart::Body(Some(left)),
            State::Body { .. } => MissingPart::Body(None),
        }
    }

    /// Continues reading `input`, the response to a request of kind `kind`. Returns the number of
    /// bytes used.
    pub fn next<'a>(
        &'a mut self,
        input: &'a [u8],
        kind: RequestKind,
    ) -> Result<(usize, ResponseEvent<'a>), Http1Error> {
        self.next_with_cache(input, kind, &mut HeadCache::new())
    }

    /// Does the same as [`next`](Self::next), with a cache of the last head: faster if heads
    /// repeat.
    #[inline]
    pub fn next_with_cache<'a>(
        &'a mut self,
        input: &'a [u8],
        kind: RequestKind,
        cache: &mut HeadCache,
    ) -> Result<(usize, ResponseEvent<'a>), Http1Error> {
        match &mut self.state {
            State::Head { .. } => {
                if self.buffer.is_empty()
                    && let Some(head) = cache.find(input)
                {
                    return Ok((head.wire_bytes, Self::head_event(&mut self.state, head, kind)?));
                }
                self.next_head(input, kind, cache)
            }
            State::Body { body, end } => {
                // The caller has used the head of the previous event by now.
                self.buffer.clear();
                let (used, step) = body.next(input)?;
                let event = match step {
                    BodyStep::NeedMore => ResponseEvent::NeedMore,
                    BodyStep::Data(data) => ResponseEvent::Body(data),
                    BodyStep::End => {
                        let end = *end;
                        self.state = State::default();
                        ResponseEvent::End(end)
                    }
                };
                Ok((used, event))
            }
        }
    }

    /// Handles a close by the peer. Returns its meaning after the bytes read so far.
    pub fn eof(&mut self) -> Result<Closed, Http1Error> {
        match self.state {
            State::Head { informational: 0 } if self.buffer.is_empty() => {
                Ok(Closed::BetweenMessages)
            }
            State::Head { .. } => Err(Http1Error::ClosedInHead),
            State::Body { body: BodyReader::UntilClose, .. } => {
                self.state = State::default();
                Ok(Closed::EndsMessage)
            }
            // The body is complete, and only its `End` has not been returned.
            State::Body { body: BodyReader::Length(0), .. } => {
                self.state = State::default();
                Ok(Closed::EndsMessage)
            }
            State::Body { .. } => Err(Http1Error::ClosedInBody),
        }
    }

    fn next_head<'a>(
        &'a mut self,
        input: &'a [u8],
        kind: RequestKind,
        cache: &mut HeadCache,
    ) -> Result<(usize, ResponseEvent<'a>), Http1Error> {
        if input.is_empty() {
            return Ok((0, ResponseEvent::NeedMore));
        }
        // The buffer can contain a whole interim head, which the previous event returned.
        if matches!(self.buffer.bytes(), [.., b'\n', b'\r', b'\n']) {
            self.buffer.clear();
        }
        match self.buffer.take(input)? {
            HeadLocation::Incomplete => Ok((input.len(), ResponseEvent::NeedMore)),
            HeadLocation::InInput(end) => {
                let head = match parse(&input[..end]) {
                    Ok(head) => head,
                    // The head is invalid, or it has a folded line. Both make parsing fail.
                    Err(_) => return self.next_folded(&input[..end], kind),
                };
                cache.store(&input[..end], &head);
                Ok((end, Self::head_event(&mut self.state, head, kind)?))
            }
            HeadLocation::InBuffer(used) => {
                self.buffer.unfold();
                let head = parse(self.buffer.bytes())?;
                Ok((used, Self::head_event(&mut self.state, head, kind)?))
            }
        }
    }

    /// Joins folded lines, as a user agent must, and parses the head again (RFC 9112 §5.2).
    #[cold]
    fn next_folded<'a>(
        &'a mut self,
        bytes: &[u8],
        kind: RequestKind,
    ) -> Result<(usize, ResponseEvent<'a>), Http1Error> {
        self.buffer.store(bytes);
        self.buffer.unfold();
        let head = parse(self.buffer.bytes())?;
        Ok((bytes.len(), Self::head_event(&mut self.state, head, kind)?))
    }

    #[inline]
    fn head_event<'a>(
        state: &mut State,
        head: ResponseHead<'a>,
        kind: RequestKind,
    ) -> Result<ResponseEvent<'a>, Http1Error> {
        let State::Head { informational } = state else {
            unreachable!("heads should be read only in the head state")
        };
        if head.status == 101 {
            let is_requested = matches!(kind, RequestKind::Upgrade | RequestKind::UpgradeHead);
            return if is_requested {
                Ok(ResponseEvent::Upgraded(head))
            } else {
                Err(Http1Error::UnexpectedUpgrade)
            };
        }
        if head.status < 200 {
            *informational += 1;
            if *informational > limits::INFORMATIONAL {
                return Err(Http1Error::TooManyInformational);
            }
            return Ok(ResponseEvent::Informational(head));
        }
        let body = response_body(&head, kind);
        let persists = head.framing.persists(head.version) && body != BodyReader::UntilClose;
        *state = State::Body { body, end: if persists { End::Reusable } else { End::Final } };
        Ok(ResponseEvent::Head(head))
    }
}

/// Returns the rule by which a response's body ends. The conditions have the order of RFC 9112
/// §6.3.
fn response_body(head: &ResponseHead<'_>, kind: RequestKind) -> BodyReader {
    if matches!(kind, RequestKind::Head | RequestKind::UpgradeHead)
        || matches!(head.status, 204 | 304)
    {
        return BodyReader::Length(0);
    }
    match (head.framing.transfer, head.framing.content_length) {
        (Transfer::Chunked, _) => BodyReader::CHUNKED,
        (Transfer::None, Some(length)) => BodyReader::Length(length),
        (Transfer::Other, _) | (Transfer::None, None) => BodyReader::UntilClose,
    }
}

/// Parses a whole head, status line to empty line.
fn parse(bytes: &[u8]) -> Result<ResponseHead<'_>, Http1Error> {
    let (line, fields) = head::split_line(bytes)?.ok_or(Http1Error::StatusLine)?;
    let (version, status) = parse_status_line(line)?;
    let framing = head::read_fields(fields)?;
    if version == Version::Http10 && framing.transfer != Transfer::None {
        return Err(Http1Error::TransferEncodingInHttp10);
    }
    Ok(ResponseHead { version, status, framing, wire_bytes: bytes.len(), fields })
}

/// Parses a line such as `HTTP/1.1 200 OK`. Some servers omit the reason, or the space before it
/// too.
fn parse_status_line(line: &[u8]) -> Result<(Version, u16), Http1Error> {
    let (version, rest) = line.split_at_checked(8).ok_or(Http1Error::StatusLine)?;
    if !version.starts_with(b"HTTP/") {
        return Err(Http1Error::StatusLine);
    }
    let version = head::parse_version(version)?;
    match rest {
        [b' ', a, b, c] | [b' ', a, b, c, b' ', ..]
            if matches!(a, b'1'..=b'9') && b.is_ascii_digit() && c.is_ascii_digit() =>
        {
            let digit = |d: &u8| u16::from(d - b'0');
            Ok((version, digit(a) * 100 + digit(b) * 10 + digit(c)))
        }
        _ => Err(Http1Error::StatusLine),
    }
}
