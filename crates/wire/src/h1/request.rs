//! Reads requests: the server half, for the null responder and the simulated servers.

use super::Http1Error;
use super::body::{BodyReader, BodyStep};
use super::head::{self, Framing, HeadBuffer, HeadFields, HeadLocation, Transfer, Version};

/// A validated request head.
#[derive(Clone, Debug)]
pub struct RequestHead<'a> {
    pub method: &'a [u8],
    pub target: &'a [u8],
    pub version: Version,
    pub framing: Framing,
    fields: &'a [u8],
}

impl<'a> RequestHead<'a> {
    #[must_use]
    pub fn fields(&self) -> HeadFields<'a> {
        HeadFields::new(self.fields)
    }

    /// Whether the connection persists after this request (RFC 9112 §9.3).
    #[must_use]
    pub fn persists(&self) -> bool {
        self.framing.persists(self.version)
    }
}

/// Result of one call of [`RequestReader::next`].
#[derive(Clone, Debug)]
pub enum RequestEvent<'a> {
    NeedMore,
    Head(RequestHead<'a>),
    Body(&'a [u8]),
    /// The request is complete.
    End,
}

/// Reads the requests of one connection, in order. Used like [`super::response::ResponseReader`].
#[derive(Debug, Default)]
pub struct RequestReader {
    body: Option<BodyReader>,
    buffer: HeadBuffer,
}

impl RequestReader {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Continues reading `input`. Returns the number of bytes used.
    pub fn next<'a>(
        &'a mut self,
        input: &'a [u8],
    ) -> Result<(usize, RequestEvent<'a>), Http1Error> {
        let Some(body) = &mut self.body else { return self.next_head(input) };
        // The caller no longer needs the head of the previous event.
        self.buffer.clear();
        let (used, step) = body.next(input)?;
        let event = match step {
            BodyStep::NeedMore => RequestEvent::NeedMore,
            BodyStep::Data(data) => RequestEvent::Body(data),
            BodyStep::End => {
                self.body = None;
                RequestEvent::End
            }
        };
        Ok((used, event))
    }

    fn next_head<'a>(
        &'a mut self,
        input: &'a [u8],
    ) -> Result<(usize, RequestEvent<'a>), Http1Error> {
        if input.is_empty() {
            return Ok((0, RequestEvent::NeedMore));
        }
        let (used, bytes) = match self.buffer.take(input)? {
            HeadLocation::Incomplete => return Ok((input.len(), RequestEvent::NeedMore)),
            HeadLocation::InInput(end) => (end, &input[..end]),
            HeadLocation::InBuffer(used) => (used, self.buffer.bytes()),
        };
        let head = parse(bytes)?;
        self.body = Some(match (head.framing.transfer, head.framing.content_length) {
            (Transfer::Chunked, _) => BodyReader::CHUNKED,
            (Transfer::None, length) => BodyReader::Length(length.unwrap_or(0)),
            // The length of such a request cannot be known (RFC 9112 §6.3, rule 4).
            (Transfer::Other, _) => return Err(Http1Error::RequestNotChunked),
        });
        Ok((used, RequestEvent::Head(head)))
    }
}

fn parse(bytes: &[u8]) -> Result<RequestHead<'_>, Http1Error> {
    let (line, fields) = head::split_line(bytes)?.ok_or(Http1Error::RequestLine)?;
    let mut words = line.split(|&b| b == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Http1Error::RequestLine);
    };
    if method.is_empty() || target.is_empty() || !method.iter().all(|&b| head::TOKEN[b as usize]) {
        return Err(Http1Error::RequestLine);
    }
    let version = head::parse_version(version)?;
    let framing = head::read_fields(fields)?;
    if version == Version::Http10 && framing.transfer != Transfer::None {
        return Err(Http1Error::TransferEncodingInHttp10);
    }
    Ok(RequestHead { method, target, version, framing, fields })
}
