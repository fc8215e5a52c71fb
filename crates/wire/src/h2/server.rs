//! The server half of a connection: what the null responder and the simulated servers need.
//!
//! It keeps the rules that a client depends on (preface, settings, windows, PING, HPACK, GOAWAY)
//! and takes its client, which is ours, at its word otherwise: it does not check requests as a
//! server on the open net must.
//!
//! The response to a request without a body is written where the request is read, without any
//! stored state. Only these streams have an entry: those with a body under way, those whose
//! response is delayed by windows, and those that the caller [defers](Server::defer).

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::block::PartialBlock;
use super::encode::TableUse;
use super::frame::{self, FrameHeader, HEADER_BYTES, Kind, fill, flag};
use super::head::Fields;
use super::hpack::Decoder;
use super::hpack::encode::{self as hpack, Indexing};
use super::settings::{self, ClientSettings, DEFAULT_WINDOW, PeerSettings, Sender, ServerSettings};
use super::streams::{StreamKey, StreamMap};
use super::window::{ReceiveWindow, SendWindow};
use super::{ErrorCode, Http2Error, limits};

/// Whether a connection that begins with `bytes` speaks HTTP/2; `None`: too few bytes to decide.
#[must_use]
pub fn is_spoken(bytes: &[u8]) -> Option<bool> {
    let n = bytes.len().min(frame::PREFACE.len());
    if bytes[..n] != frame::PREFACE[..n] {
        return Some(false);
    }
    (n == frame::PREFACE.len()).then_some(true)
}

/// Result of one call of [`Server::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent<'a> {
    NeedMore,
    Handled,
    /// A request's head, whose fields are in [`Server::fields`]. `repeated`: the fields are those
    /// of the previous request. `end`: the request has no body.
    Request {
        stream: u32,
        end: bool,
        repeated: bool,
    },
    /// A part of a request's body, which may be empty. `end`: the last one.
    Body {
        stream: u32,
        data: &'a [u8],
        end: bool,
    },
    /// The client cancelled a stream and no longer wants the response.
    Reset {
        stream: u32,
    },
}

/// Division of a response into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// HEADERS, and DATA that ends the stream.
    Two,
    /// HEADERS, DATA, and an empty DATA that ends the stream, as servers write that do not know a
    /// body's end in advance.
    Three,
}

/// A response for many streams. Its frames are encoded once, and lack only the stream's identifier.
#[derive(Clone, Debug)]
pub struct EncodedAnswer {
    block: Vec<u8>,
    body: Arc<[u8]>,
    cut: Cut,
    /// The frames as they are on stream 0. Empty: block or body is too long for one frame, and
    /// frames are put together for each stream.
    frames: Vec<u8>,
    /// Offsets of the stream identifiers in `frames`.
    ids: Vec<usize>,
}

impl EncodedAnswer {
    /// Encodes a response without use of the table, so that it is right on every connection.
    /// `fields` begin with `:status`; their names are written as they are given.
    #[must_use]
    pub fn new(fields: &[(&str, &str)], body: &[u8], cut: Cut) -> EncodedAnswer {
        let mut block = Vec::new();
        for (name, value) in fields {
            hpack::put_field(name.as_bytes(), value.as_bytes(), Indexing::Without, &mut block);
        }
        let mut answer =
            EncodedAnswer { block, body: body.into(), cut, frames: Vec::new(), ids: Vec::new() };
        // Every peer takes frames of this size.
        let most = limits::FRAME_BYTES as usize;
        if answer.block.len() <= most && body.len() <= most {
            answer.put_frames();
        }
        answer
    }

    fn put_frames(&mut self) {
        let mut frames = Vec::new();
        frame::put_block(0, &self.block, self.body.is_empty(), usize::MAX, &mut frames);
        if !self.body.is_empty() {
            let end = if self.cut == Cut::Two { flag::END_STREAM } else { 0 };
            frame::put_header(Kind::Data, end, 0, self.body.len(), &mut frames);
            frames.extend_from_slice(&self.body);
            if self.cut == Cut::Three {
                frame::put_header(Kind::Data, flag::END_STREAM, 0, 0, &mut frames);
            }
        }
        let mut at = 0;
        while let Some(header) = frames[at..].first_chunk().map(FrameHeader::parse) {
            self.ids.push(at + HEADER_BYTES - 4);
            at += HEADER_BYTES + header.length as usize;
        }
        self.frames = frames;
    }
}

/// A server's connection. Call [`next`](Self::next) with the unread input until it says `NeedMore`.
#[derive(Debug)]
pub struct Server {
    settings: ServerSettings,
    peer: PeerSettings,
    /// Bytes of the client's preface that have come.
    preface: usize,
    /// The beginning of a frame that has not arrived whole, or one that did and has been read.
    kept: Vec<u8>,
    is_kept_read: bool,
    decoder: Decoder,
    fields: Fields,
    /// The header block that gave `fields`, and the generation of the table that it was decoded
    /// with. Empty: there is none.
    last_block: (Vec<u8>, u64),
    /// The header block that is being continued.
    block: Option<PartialBlock>,
    send: SendWindow,
    receive: ReceiveWindow,
    streams: StreamMap<Stream>,
    /// The highest stream that the client has opened.
    highest: u32,
    /// The highest stream that is processed: any, until GOAWAY has announced one.
    last: u32,
    /// Streams with more body to send than a window allowed, in the order in which they were held
    /// up.
    blocked: VecDeque<u32>,
    table: TableUse,
}

/// A stream of which something must be remembered.
#[derive(Debug)]
struct Stream {
    send: SendWindow,
    receive: ReceiveWindow,
    /// The whole request has come.
    is_asked: bool,
    /// The rest of its response, which is delayed by windows.
    held: Option<DeferredBody>,
}

#[derive(Debug)]
struct DeferredBody {
    body: Arc<[u8]>,
    at: usize,
    cut: Cut,
}

// Reading.
impl Server {
    /// Begins a connection.
    pub fn new(settings: ServerSettings, out: &mut Vec<u8>) -> Server {
        settings.put_frame(out);
        Server {
            settings,
            peer: PeerSettings::default(),
            preface: 0,
            kept: Vec::new(),
            is_kept_read: false,
            decoder: Decoder::new(ClientSettings::default().header_table_size),
            fields: Fields::default(),
            last_block: (Vec::new(), 0),
            block: None,
            send: SendWindow::new(DEFAULT_WINDOW),
            receive: ReceiveWindow::new(DEFAULT_WINDOW, DEFAULT_WINDOW),
            streams: StreamMap::default(),
            highest: 0,
            last: u32::MAX,
            blocked: VecDeque::new(),
            table: TableUse::new(0),
        }
    }

    /// The fields of the last request.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The number of streams with an entry: their request or response is under way, or deferred.
    #[must_use]
    pub fn open(&self) -> usize {
        self.streams.len()
    }

    /// Continues reading `input`, and returns the number of bytes used. Replies that the protocol
    /// itself requires are appended to `out`.
    #[inline]
    pub fn next<'a>(
        &'a mut self,
        input: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, ServerEvent<'a>), Http2Error> {
        if self.preface < frame::PREFACE.len() {
            return self.read_preface(input);
        }
        if self.is_kept_read {
            self.is_kept_read = false;
            self.kept.clear();
        }
        if self.kept.is_empty()
            && let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>()
        {
            let header = FrameHeader::parse(header);
            self.check_begin(&header)?;
            if let Some(payload) = rest.get(..header.length as usize) {
                let event = self.frame(&header, payload, out)?;
                return Ok((HEADER_BYTES + payload.len(), with_data(event, &header, payload)?));
            }
        }
        self.keep(input, out)
    }

    fn read_preface(&mut self, input: &[u8]) -> Result<(usize, ServerEvent<'static>), Http2Error> {
        let rest = &frame::PREFACE[self.preface..];
        let n = rest.iter().zip(input).take_while(|(expected, byte)| expected == byte).count();
        self.preface += n;
        if n < rest.len().min(input.len()) {
            let began_like_it = self.preface >= b"PRI ".len();
            return Err(if began_like_it { Http2Error::NoPreface } else { Http2Error::SpokeHttp1 });
        }
        Ok((n, if n == 0 { ServerEvent::NeedMore } else { ServerEvent::Handled }))
    }

    /// Whether a frame may begin like this.
    #[inline]
    fn check_begin(&self, header: &FrameHeader) -> Result<(), Http2Error> {
        if header.length > limits::FRAME_BYTES {
            return Err(Http2Error::FrameTooLong);
        }
        if self.block.is_some() && header.kind != Kind::Continuation {
            return Err(Http2Error::InterruptedBlock);
        }
        let is_of_stream = matches!(
            header.kind,
            Kind::Headers | Kind::Data | Kind::Continuation | Kind::RstStream
        );
        if is_of_stream && header.stream == 0 {
            return Err(Http2Error::WrongStream);
        }
        Ok(())
    }

    /// Keeps the beginning of a frame until the rest of it is there.
    fn keep<'a>(
        &'a mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, ServerEvent<'a>), Http2Error> {
        let mut used = fill(&mut self.kept, HEADER_BYTES, input);
        let Some(header) = self.kept.first_chunk().map(FrameHeader::parse) else {
            return Ok((used, ServerEvent::NeedMore));
        };
        self.check_begin(&header)?;
        let whole = HEADER_BYTES + header.length as usize;
        used += fill(&mut self.kept, whole, &input[used..]);
        if self.kept.len() < whole {
            return Ok((used, ServerEvent::NeedMore));
        }
        // Taken and given back, so that its memory is allocated once.
        let kept = core::mem::take(&mut self.kept);
        let event = self.frame(&header, &kept[HEADER_BYTES..], out);
        self.kept = kept;
        self.is_kept_read = true;
        Ok((used, with_data(event?, &header, &self.kept[HEADER_BYTES..])?))
    }

    /// Handles a whole frame. The event of a DATA frame lacks its data: the caller adds it.
    #[inline]
    fn frame(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<ServerEvent<'static>, Http2Error> {
        match header.kind {
            Kind::Headers => self.headers(header, payload),
            Kind::Continuation => self.continuation(header, payload),
            Kind::Data => self.data(header, out),
            Kind::Settings if header.has(flag::ACK) => Ok(ServerEvent::Handled),
            Kind::Settings => self.settings(payload, out),
            Kind::WindowUpdate => self.window_update(header.stream, payload, out),
            Kind::Ping if payload.len() != 8 => Err(Http2Error::FrameLength),
            Kind::Ping if !header.has(flag::ACK) => {
                frame::put_header(Kind::Ping, flag::ACK, 0, payload.len(), out);
                out.extend_from_slice(payload);
                Ok(ServerEvent::Handled)
            }
            Kind::RstStream => {
                self.forget(header.stream);
                Ok(ServerEvent::Reset { stream: header.stream })
            }
            Kind::PushPromise => Err(Http2Error::Push),
            Kind::Ping | Kind::Priority | Kind::GoAway | Kind::Unknown => Ok(ServerEvent::Handled),
        }
    }

    #[inline]
    fn headers(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
    ) -> Result<ServerEvent<'static>, Http2Error> {
        let block = frame::fragment(header, payload)?;
        let (stream, end) = (header.stream, header.has(flag::END_STREAM));
        if header.has(flag::END_HEADERS) {
            return self.read_block(stream, end, block);
        }
        self.block = Some(PartialBlock::begin(header, block));
        Ok(ServerEvent::Handled)
    }

    fn continuation(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
    ) -> Result<ServerEvent<'static>, Http2Error> {
        let mut block = self.block.take().ok_or(Http2Error::Continuation)?;
        if block.add_continuation(header, payload)? {
            return self.read_block(block.stream, block.end, &block.bytes);
        }
        self.block = Some(block);
        Ok(ServerEvent::Handled)
    }

    /// Handles a whole header block. It is decoded whatever becomes of its stream, because the
    /// table is the connection's (RFC 9113 §4.3).
    #[inline]
    fn read_block(
        &mut self,
        stream: u32,
        end: bool,
        block: &[u8],
    ) -> Result<ServerEvent<'static>, Http2Error> {
        if stream <= self.highest || stream > self.last {
            return self.read_other_block(stream, end, block);
        }
        let repeated = self.read_request(block)?;
        self.highest = stream;
        if !end {
            self.enter(stream, false);
        }
        Ok(ServerEvent::Request { stream, end, repeated })
    }

    /// Reads a request's fields. Returns whether they are those of the request before.
    #[inline]
    fn read_request(&mut self, block: &[u8]) -> Result<bool, Http2Error> {
        let generation = self.decoder.generation();
        if self.last_block.1 == generation && self.last_block.0 == block && !block.is_empty() {
            return Ok(true);
        }
        let fields = &mut self.fields;
        fields.clear();
        self.decoder.decode(block, |name, value| fields.push(name, value))?;
        self.last_block.0.clear();
        if self.decoder.generation() == generation && block.len() <= limits::CACHED_BLOCK_BYTES {
            self.last_block.0.extend_from_slice(block);
            self.last_block.1 = generation;
        }
        Ok(false)
    }

    /// Handles trailers, whose fields are unused, or the head of a stream that is not processed.
    fn read_other_block(
        &mut self,
        stream: u32,
        end: bool,
        block: &[u8],
    ) -> Result<ServerEvent<'static>, Http2Error> {
        self.decoder.decode(block, |_, _| {})?;
        self.highest = self.highest.max(stream);
        let Some((_, entered)) = self.streams.find_mut(stream) else {
            return Ok(ServerEvent::Handled);
        };
        if entered.is_asked || !end {
            return Err(Http2Error::StreamClosed);
        }
        entered.is_asked = true;
        Ok(ServerEvent::Body { stream, data: &[], end: true })
    }

    fn data(
        &mut self,
        header: &FrameHeader,
        out: &mut Vec<u8>,
    ) -> Result<ServerEvent<'static>, Http2Error> {
        let (stream, end) = (header.stream, header.has(flag::END_STREAM));
        if !self.receive.take(header.length) {
            return Err(Http2Error::WindowExceeded);
        }
        give_back(&mut self.receive, 0, out);
        let Some((_, entered)) = self.streams.find_mut(stream) else {
            // The stream was refused, or GOAWAY announced that it is not processed.
            return if stream > self.highest {
                Err(Http2Error::IdleStream)
            } else {
                Ok(ServerEvent::Handled)
            };
        };
        if entered.is_asked {
            return Err(Http2Error::StreamClosed);
        }
        if !entered.receive.take(header.length) {
            return Err(Http2Error::WindowExceeded);
        }
        entered.is_asked = end;
        if !end {
            give_back(&mut entered.receive, stream, out);
        }
        Ok(ServerEvent::Body { stream, data: &[], end })
    }

    fn settings(
        &mut self,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<ServerEvent<'static>, Http2Error> {
        let before = self.peer.initial_window;
        self.peer.read(payload, Sender::Client)?;
        let by = i64::from(self.peer.initial_window) - i64::from(before);
        for (_, stream) in self.streams.iter_mut() {
            if !stream.send.change(by) {
                return Err(Http2Error::WindowOverflow);
            }
        }
        self.table.note_settings(payload, &self.peer);
        settings::put_ack(out);
        self.resume(out);
        Ok(ServerEvent::Handled)
    }

    fn window_update(
        &mut self,
        stream: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<ServerEvent<'static>, Http2Error> {
        let bytes: [u8; 4] = payload.try_into().map_err(|_| Http2Error::FrameLength)?;
        let by = i64::from(u32::from_be_bytes(bytes) & 0x7FFF_FFFF);
        let window = match stream {
            0 => &mut self.send,
            _ => match self.streams.find_mut(stream) {
                Some((_, stream)) => &mut stream.send,
                // The stream has its response already.
                None => return Ok(ServerEvent::Handled),
            },
        };
        if !window.change(by) {
            return Err(Http2Error::WindowOverflow);
        }
        self.resume(out);
        Ok(ServerEvent::Handled)
    }

    fn enter(&mut self, stream: u32, is_asked: bool) -> StreamKey {
        let window = self.settings.stream_window;
        let send = SendWindow::new(self.peer.initial_window);
        let receive = ReceiveWindow::new(window, window);
        self.streams.insert(stream, Stream { send, receive, is_asked, held: None })
    }
}

/// Adds the data to the event of a DATA frame.
#[inline]
fn with_data<'a>(
    event: ServerEvent<'static>,
    header: &FrameHeader,
    payload: &'a [u8],
) -> Result<ServerEvent<'a>, Http2Error> {
    let ServerEvent::Body { stream, end, .. } = event else { return Ok(event) };
    let data = match header.kind {
        Kind::Data if header.has(flag::PADDED) => {
            frame::without_padding(payload).ok_or(Http2Error::Padding)?
        }
        Kind::Data => payload,
        _ => &[],
    };
    Ok(ServerEvent::Body { stream, data, end })
}

/// Sends a WINDOW_UPDATE if enough of the window has been used.
fn give_back(window: &mut ReceiveWindow, stream: u32, out: &mut Vec<u8>) {
    let by = window.give_back();
    if by > 0 {
        frame::put_window_update(stream, by, out);
    }
}

// Answering.
impl Server {
    /// Announces that a response will come later, so that its stream is not forgotten until then.
    pub fn defer(&mut self, stream: u32) {
        if self.streams.find(stream).is_none() {
            self.enter(stream, true);
        }
    }

    /// Answers a request that is complete: at once as far as windows allow, the rest as they grow.
    #[inline]
    pub fn answer(&mut self, stream: u32, answer: &EncodedAnswer, out: &mut Vec<u8>) {
        let bytes = answer.body.len();
        let key = if self.streams.len() == 0 { None } else { self.streams.find(stream) };
        let room = match key {
            None => self.peer.initial_window as usize,
            Some(key) => self.streams.get(key).send.room(),
        };
        if bytes > room
            || bytes > self.send.room()
            || answer.frames.is_empty()
            || self.table.owes_update()
        {
            return self.answer_in_parts(stream, answer, out);
        }
        let from = out.len();
        out.extend_from_slice(&answer.frames);
        for at in &answer.ids {
            out[from + at..from + at + 4].copy_from_slice(&stream.to_be_bytes());
        }
        self.send.take(bytes);
        if key.is_some() {
            self.streams.remove(stream);
        }
    }

    #[cold]
    fn answer_in_parts(&mut self, stream: u32, answer: &EncodedAnswer, out: &mut Vec<u8>) {
        let most = self.peer.max_frame_size as usize;
        let mut updated = Vec::new();
        let block = self.table.begin(&answer.block, &mut updated);
        frame::put_block(stream, block, answer.body.is_empty(), most, out);
        if answer.body.is_empty() {
            self.streams.remove(stream);
            return;
        }
        let key = self.streams.find(stream).unwrap_or_else(|| self.enter(stream, true));
        self.streams.get_mut(key).held =
            Some(DeferredBody { body: answer.body.clone(), at: 0, cut: answer.cut });
        self.queue_body(stream, out);
    }

    /// Ends a stream without a response, or refuses it.
    pub fn reset(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
        self.forget(stream);
        frame::put_reset(stream, code, out);
    }

    fn forget(&mut self, stream: u32) {
        if self.streams.remove(stream).is_some_and(|stream| stream.held.is_some()) {
            // A connection whose window stays shut would otherwise remember every stream that ever
            // waited.
            self.blocked.retain(|blocked| *blocked != stream);
        }
    }

    /// Announces to the client that only open streams are processed, with the reason.
    pub fn go_away(&mut self, code: ErrorCode, out: &mut Vec<u8>) {
        self.last = self.last.min(self.highest);
        frame::put_go_away(self.last, code, out);
    }

    /// Queues as much of a held body as windows allow.
    fn queue_body(&mut self, stream: u32, out: &mut Vec<u8>) {
        let Some((_, Stream { send, held: Some(held), .. })) = self.streams.find_mut(stream) else {
            return;
        };
        let most = self.peer.max_frame_size as usize;
        while held.at < held.body.len() {
            let rest = &held.body[held.at..];
            let n = rest.len().min(most).min(send.room()).min(self.send.room());
            if n == 0 {
                self.blocked.push_back(stream);
                return;
            }
            let ends = n == rest.len() && held.cut == Cut::Two;
            frame::put_header(Kind::Data, if ends { flag::END_STREAM } else { 0 }, stream, n, out);
            out.extend_from_slice(&rest[..n]);
            send.take(n);
            self.send.take(n);
            held.at += n;
        }
        if held.cut == Cut::Three {
            frame::put_header(Kind::Data, flag::END_STREAM, stream, 0, out);
        }
        self.streams.remove(stream);
    }

    /// Queues more of the bodies that windows held up.
    fn resume(&mut self, out: &mut Vec<u8>) {
        for _ in 0..self.blocked.len() {
            let Some(stream) = self.blocked.pop_front() else { return };
            self.queue_body(stream, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_that_stays_shut_keeps_nothing_of_streams_that_are_gone() {
        let mut out = Vec::new();
        let mut server = Server::new(ServerSettings::default(), &mut out);
        server.send = SendWindow::new(0);
        let answer = EncodedAnswer::new(&[(":status", "200")], b"body", Cut::Two);
        for stream in [1, 3, 5, 7] {
            server.answer(stream, &answer, &mut out);
        }
        assert_eq!((server.blocked.len(), server.open()), (4, 4));
        server.reset(1, ErrorCode::Cancel, &mut out);
        let mut input = frame::PREFACE.to_vec();
        frame::put_reset(3, ErrorCode::Cancel, &mut input);
        frame::put_window_update(0, 4, &mut input);
        let mut rest = &input[..];
        while !rest.is_empty() {
            let used = server.next(rest, &mut out).unwrap().0;
            rest = &rest[used..];
        }
        // The window was enough for the oldest of those that are left.
        assert_eq!((&server.blocked, server.open()), (&VecDeque::from([7]), 1));
    }

    /// A server that has read a client's preface, and the first frame after it.
    fn after_preface(
        kind: Kind,
        flags: u8,
        payload: &[u8],
    ) -> (Result<ServerEvent<'static>, Http2Error>, Vec<u8>) {
        let mut out = Vec::new();
        let mut server = Server::new(ServerSettings::default(), &mut out);
        server.next(frame::PREFACE, &mut out).unwrap();
        out.clear();
        let mut input = Vec::new();
        frame::put_header(kind, flags, 0, payload.len(), &mut input);
        input.extend_from_slice(payload);
        let event = match server.next(&input, &mut out) {
            Ok((_, ServerEvent::Handled)) => Ok(ServerEvent::Handled),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        };
        (event, out)
    }

    #[test]
    fn frames_of_the_connection_are_handled_or_refused() {
        let mut pong = Vec::new();
        frame::put_header(Kind::Ping, flag::ACK, 0, 8, &mut pong);
        pong.extend_from_slice(b"12345678");
        for (kind, flags, payload, event, sent) in [
            (Kind::Ping, 0, &b"12345678"[..], Ok(ServerEvent::Handled), &pong[..]),
            (Kind::Ping, flag::ACK, b"12345678", Ok(ServerEvent::Handled), b""),
            (Kind::Ping, 0, b"1234567", Err(Http2Error::FrameLength), b""),
            (Kind::Ping, flag::ACK, b"123456789", Err(Http2Error::FrameLength), b""),
            (Kind::Settings, flag::ACK, b"", Ok(ServerEvent::Handled), b""),
            (Kind::Priority, 0, b"12345", Ok(ServerEvent::Handled), b""),
            (Kind::GoAway, 0, b"12345678", Ok(ServerEvent::Handled), b""),
            (Kind::PushPromise, 0, b"1234", Err(Http2Error::Push), b""),
        ] {
            assert_eq!(
                after_preface(kind, flags, payload),
                (event, sent.to_vec()),
                "{kind:?} {flags} {payload:?}"
            );
        }
    }
}
