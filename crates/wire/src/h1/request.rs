//! The server half: reading requests. It is what the null responder and the simulated servers
//! speak.

use super::Error;
use super::body::{Body, Step};
use super::head::{self, Fields, Found, Framing, HeadBuffer, Transfer, Version};

/// A validated request head.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    pub method: &'a [u8],
    pub target: &'a [u8],
    pub version: Version,
    pub framing: Framing,
    fields: &'a [u8],
}

impl<'a> Head<'a> {
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.fields)
    }

    /// Whether the client wants to go on using the connection (RFC 9112 §9.3).
    #[must_use]
    pub fn persists(&self) -> bool {
        self.framing.persists(self.version)
    }
}

/// Result of one call of [`Reader::next`].
#[derive(Clone, Debug)]
pub enum Event<'a> {
    NeedMore,
    Head(Head<'a>),
    Body(&'a [u8]),
    /// The request is complete.
    End,
}

/// Reads the requests of one connection, in order. Used like [`super::response::Reader`].
#[derive(Debug, Default)]
pub struct Reader {
    body: Option<Body>,
    buffer: HeadBuffer,
}

impl Reader {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads on in `input`. Returns how many bytes were used.
    pub fn next<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), Error> {
        let Some(body) = &mut self.body else { return self.next_head(input) };
        // The head kept for the previous event has been handed out by now.
        self.buffer.clear();
        let (used, step) = body.next(input)?;
        let event = match step {
            Step::NeedMore => Event::NeedMore,
            Step::Data(data) => Event::Body(data),
            Step::End => {
                self.body = None;
                Event::End
            }
        };
        Ok((used, event))
    }

    fn next_head<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), Error> {
        if input.is_empty() {
            return Ok((0, Event::NeedMore));
        }
        let (used, bytes) = match self.buffer.take(input)? {
            Found::No => return Ok((input.len(), Event::NeedMore)),
            Found::InInput(end) => (end, &input[..end]),
            Found::InBuffer(used) => (used, self.buffer.bytes()),
        };
        let head = parse(bytes)?;
        self.body = Some(match (head.framing.transfer, head.framing.content_length) {
            (Transfer::Chunked, _) => Body::CHUNKED,
            (Transfer::None, length) => Body::Length(length.unwrap_or(0)),
            // RFC 9112 §6.3, rule 4: the length of such a request cannot be known.
            (Transfer::Other, _) => return Err(Error::RequestNotChunked),
        });
        Ok((used, Event::Head(head)))
    }
}

fn parse(bytes: &[u8]) -> Result<Head<'_>, Error> {
    let (line, fields) = head::split_line(bytes)?.ok_or(Error::RequestLine)?;
    let mut words = line.split(|&b| b == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Error::RequestLine);
    };
    if method.is_empty() || target.is_empty() || !method.iter().all(|&b| head::TOKEN[b as usize]) {
        return Err(Error::RequestLine);
    }
    let version = head::parse_version(version)?;
    let framing = head::read_fields(fields)?;
    if version == Version::Http10 && framing.transfer != Transfer::None {
        return Err(Error::TransferEncodingInHttp10);
    }
    Ok(Head { method, target, version, framing, fields })
}
