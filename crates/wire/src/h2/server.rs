//! The server half of a connection: what the null responder and the simulated servers need.
//!
//! It keeps the rules that a client depends on (preface, settings, windows, PING, HPACK) and takes its client, which is
//! ours, at its word otherwise: it does not check requests as a server on the open net must.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::frame::{self, HEADER_BYTES, Header, Kind, flag};
use super::head::Fields;
use super::hpack::Decoder;
use super::settings::{self, DEFAULT_WINDOW, Own, Peer};
use super::window::{ReceiveWindow, SendWindow};
use super::{Code, Error, limits};

/// What one call of [`Server::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'i> {
    NeedMore,
    Handled,
    /// A request's head, whose fields are in [`Server::fields`]. `repeated`: they are those of the request before.
    /// `end`: it has no body.
    Request {
        stream: u32,
        end: bool,
        repeated: bool,
    },
    /// A part of a request's body.
    Body {
        stream: u32,
        data: &'i [u8],
        end: bool,
    },
    /// The client gave up on a stream.
    Reset {
        stream: u32,
    },
}

/// How an answer is cut into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// HEADERS, and DATA that ends the stream.
    Two,
    /// HEADERS, DATA, and an empty DATA that ends the stream, as servers write that do not know a body's end in advance.
    Three,
}

/// A server's connection. Call [`next`](Self::next) with the unread input until it says `NeedMore`.
#[derive(Debug)]
pub struct Server {
    peer: Peer,
    /// Bytes of the client's preface that have come.
    preface: usize,
    kept: Vec<u8>,
    decoder: Decoder,
    fields: Fields,
    /// The block that gave those fields, and the table it was read with.
    last_block: (Vec<u8>, u64),
    block: Option<(u32, bool, Vec<u8>)>,
    send: SendWindow,
    receive: ReceiveWindow,
    /// Windows of streams that differ from the initial one.
    windows: BTreeMap<u32, SendWindow>,
    /// Bodies that windows hold up, in order.
    blocked: VecDeque<Held>,
}

#[derive(Debug)]
struct Held {
    stream: u32,
    body: Vec<u8>,
    cut: Cut,
}

impl Server {
    /// Begins a connection. `max_streams`: how many the client may have open at once; `None`: any number.
    pub fn new(max_streams: Option<u32>, out: &mut Vec<u8>) -> Server {
        let mut payload = Vec::new();
        if let Some(most) = max_streams {
            // SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113 §6.5.2).
            payload.extend_from_slice(&3u16.to_be_bytes());
            payload.extend_from_slice(&most.to_be_bytes());
        }
        frame::put_header(Kind::Settings, 0, 0, payload.len(), out);
        out.extend_from_slice(&payload);
        Server {
            peer: Peer::default(),
            preface: 0,
            kept: Vec::new(),
            decoder: Decoder::new(Own::default().header_table_size),
            fields: Fields::default(),
            last_block: (Vec::new(), 0),
            block: None,
            send: SendWindow::new(DEFAULT_WINDOW),
            receive: ReceiveWindow::new(DEFAULT_WINDOW, DEFAULT_WINDOW),
            windows: BTreeMap::new(),
            blocked: VecDeque::new(),
        }
    }

    /// The fields of the last request.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Reads on in `input`. What the protocol itself has to answer is appended to `out`.
    #[inline]
    pub fn next<'i>(&mut self, input: &'i [u8], out: &mut Vec<u8>) -> Result<(usize, Event<'i>), Error> {
        if self.preface < frame::PREFACE.len() {
            return self.read_preface(input);
        }
        if self.kept.is_empty()
            && let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>()
        {
            let header = Header::parse(header);
            if header.length > limits::FRAME_BYTES {
                return Err(Error::FrameTooLong);
            }
            if let Some(payload) = rest.get(..header.length as usize) {
                let event = self.frame(&header, payload, out)?;
                return Ok((HEADER_BYTES + payload.len(), event));
            }
        }
        self.keep(input, out)
    }

    fn read_preface<'i>(&mut self, input: &'i [u8]) -> Result<(usize, Event<'i>), Error> {
        let rest = &frame::PREFACE[self.preface..];
        let n = rest.len().min(input.len());
        if input[..n] != rest[..n] {
            return Err(if self.preface == 0 { Error::SpokeHttp1 } else { Error::NoPreface });
        }
        self.preface += n;
        Ok((n, if n == 0 { Event::NeedMore } else { Event::Handled }))
    }

    fn keep<'i>(&mut self, input: &'i [u8], out: &mut Vec<u8>) -> Result<(usize, Event<'i>), Error> {
        let mut used = 0;
        let mut whole = HEADER_BYTES;
        for _ in 0..2 {
            let n = whole.saturating_sub(self.kept.len()).min(input.len() - used);
            self.kept.extend_from_slice(&input[used..used + n]);
            used += n;
            let Some(header) = self.kept.first_chunk().map(Header::parse) else { break };
            if header.length > limits::FRAME_BYTES {
                return Err(Error::FrameTooLong);
            }
            whole = HEADER_BYTES + header.length as usize;
        }
        if self.kept.len() < whole || used == 0 {
            return Ok((used, Event::NeedMore));
        }
        let kept = core::mem::take(&mut self.kept);
        let header = Header::parse(kept.first_chunk().expect("it has been read"));
        let event = match self.frame(&header, &kept[HEADER_BYTES..], out)? {
            // Bodies are not kept for anybody: their end is what counts.
            Event::Body { stream, end, .. } => Event::Body { stream, data: &[], end },
            Event::NeedMore => Event::NeedMore,
            Event::Handled => Event::Handled,
            Event::Request { stream, end, repeated } => Event::Request { stream, end, repeated },
            Event::Reset { stream } => Event::Reset { stream },
        };
        Ok((used, event))
    }

    fn frame<'i>(
        &mut self,
        header: &Header,
        payload: &'i [u8],
        out: &mut Vec<u8>,
    ) -> Result<Event<'i>, Error> {
        let (stream, end) = (header.stream, header.has(flag::END_STREAM));
        match header.kind {
            Kind::Headers => {
                let mut block = payload;
                if header.has(flag::PADDED) {
                    block = frame::without_padding(block).ok_or(Error::Padding)?;
                }
                if header.has(flag::PRIORITY) {
                    block = block.get(5..).ok_or(Error::FrameLength)?;
                }
                if header.has(flag::END_HEADERS) {
                    return self.request(stream, end, block);
                }
                self.block = Some((stream, end, block.to_vec()));
                Ok(Event::Handled)
            }
            Kind::Continuation => {
                let (stream, end, mut block) = self.block.take().ok_or(Error::Continuation)?;
                block.extend_from_slice(payload);
                if header.has(flag::END_HEADERS) {
                    return self.request(stream, end, &block);
                }
                self.block = Some((stream, end, block));
                Ok(Event::Handled)
            }
            Kind::Data => self.data(header, payload, out),
            Kind::Settings if header.has(flag::ACK) => Ok(Event::Handled),
            Kind::Settings => self.settings(payload, out),
            Kind::WindowUpdate => self.window_update(stream, payload, out),
            Kind::Ping if !header.has(flag::ACK) => {
                frame::put_header(Kind::Ping, flag::ACK, 0, payload.len(), out);
                out.extend_from_slice(payload);
                Ok(Event::Handled)
            }
            Kind::RstStream => {
                self.blocked.retain(|held| held.stream != stream);
                self.windows.remove(&stream);
                Ok(Event::Reset { stream })
            }
            Kind::PushPromise => Err(Error::Push),
            Kind::Ping | Kind::Priority | Kind::GoAway | Kind::Unknown => Ok(Event::Handled),
        }
    }

    #[inline]
    fn request(&mut self, stream: u32, end: bool, block: &[u8]) -> Result<Event<'static>, Error> {
        let generation = self.decoder.generation();
        if self.last_block.1 == generation && self.last_block.0 == block {
            return Ok(Event::Request { stream, end, repeated: true });
        }
        let fields = &mut self.fields;
        fields.clear();
        self.decoder.decode(block, |name, value| fields.push(name, value))?;
        self.last_block.0.clear();
        if self.decoder.generation() == generation {
            self.last_block.0.extend_from_slice(block);
            self.last_block.1 = generation;
        }
        Ok(Event::Request { stream, end, repeated: false })
    }

    fn data<'i>(
        &mut self,
        header: &Header,
        payload: &'i [u8],
        out: &mut Vec<u8>,
    ) -> Result<Event<'i>, Error> {
        if !self.receive.take(header.length) {
            return Err(Error::WindowExceeded);
        }
        let by = self.receive.give_back();
        if by > 0 {
            frame::put_window_update(0, by, out);
        }
        let end = header.has(flag::END_STREAM);
        if !end && header.length > 0 {
            // What has come on a stream is given back at once: a simple server's way.
            frame::put_window_update(header.stream, header.length, out);
        }
        let data = if header.has(flag::PADDED) {
            frame::without_padding(payload).ok_or(Error::Padding)?
        } else {
            payload
        };
        Ok(Event::Body { stream: header.stream, data, end })
    }

    fn settings(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<Event<'static>, Error> {
        let before = self.peer.initial_window;
        self.peer.read(payload)?;
        let by = i64::from(self.peer.initial_window) - i64::from(before);
        for window in self.windows.values_mut() {
            if !window.change(by) {
                return Err(Error::WindowOverflow);
            }
        }
        settings::put_ack(out);
        self.resume(out);
        Ok(Event::Handled)
    }

    fn window_update(
        &mut self,
        stream: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Event<'static>, Error> {
        let bytes: [u8; 4] = payload.try_into().map_err(|_| Error::FrameLength)?;
        let by = i64::from(u32::from_be_bytes(bytes) & 0x7FFF_FFFF);
        let initial = self.peer.initial_window;
        let window = match stream {
            0 => &mut self.send,
            _ => self.windows.entry(stream).or_insert(SendWindow::new(initial)),
        };
        if !window.change(by) {
            return Err(Error::WindowOverflow);
        }
        self.resume(out);
        Ok(Event::Handled)
    }

    /// Answers a request: a head, encoded without use of the table, and a body as far as windows allow.
    #[inline]
    pub fn answer(&mut self, stream: u32, block: &[u8], body: &[u8], cut: Cut, out: &mut Vec<u8>) {
        frame::put_block(stream, block, body.is_empty(), self.peer.max_frame_size as usize, out);
        if !body.is_empty() {
            self.put_body(stream, body, cut, out);
        }
    }

    /// Ends a stream, or refuses it.
    pub fn reset(&mut self, stream: u32, code: Code, out: &mut Vec<u8>) {
        frame::put_reset(stream, code, out);
    }

    fn put_body(&mut self, stream: u32, mut body: &[u8], cut: Cut, out: &mut Vec<u8>) {
        let initial = SendWindow::new(self.peer.initial_window);
        let known = self.windows.get(&stream).copied();
        let mut window = known.unwrap_or(initial);
        while !body.is_empty() {
            let n =
                body.len().min(self.peer.max_frame_size as usize).min(window.room()).min(self.send.room());
            if n == 0 {
                self.windows.insert(stream, window);
                self.blocked.push_back(Held { stream, body: body.to_vec(), cut });
                return;
            }
            let ends = n == body.len() && cut == Cut::Two;
            frame::put_header(Kind::Data, if ends { flag::END_STREAM } else { 0 }, stream, n, out);
            out.extend_from_slice(&body[..n]);
            window.take(n);
            self.send.take(n);
            body = &body[n..];
        }
        if cut == Cut::Three {
            frame::put_header(Kind::Data, flag::END_STREAM, stream, 0, out);
        }
        if known.is_some() {
            self.windows.remove(&stream);
        }
    }

    fn resume(&mut self, out: &mut Vec<u8>) {
        for _ in 0..self.blocked.len() {
            let Some(held) = self.blocked.pop_front() else { return };
            self.put_body(held.stream, &held.body, held.cut, out);
        }
    }
}
