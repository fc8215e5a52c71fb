//! The server half of a connection, for the null responder and the simulated servers.
//!
//! The server follows the rules on which a client depends: preface, settings, windows, PING, HPACK,
//! GOAWAY. Only dyno's clients use it, so it does not validate requests as a public server must.
//!
//! Only streams with pending work have an entry: a request body in progress, a response that
//! windows delay, or a response that the caller [defers](Server::defer).

mod response;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::block::PartialBlock;
use super::encode::TableUse;
use super::frame::{self, FrameHeader, HEADER_BYTES, Kind, fill, flag};
use super::head::Fields;
use super::hpack::Decoder;
use super::settings::{self, ClientSettings, DEFAULT_WINDOW, PeerSettings, Sender, ServerSettings};
use super::streams::{StreamKey, StreamMap};
use super::window::{ReceiveWindow, SendWindow};
use super::{ErrorCode, Http2Error, limits};
pub use response::{EncodedResponse, FrameLayout};

/// Whether a connection that begins with `bytes` uses HTTP/2; `None`: too few bytes to decide.
#[must_use]
pub fn is_http2(bytes: &[u8]) -> Option<bool> {
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

/// A server's connection. Call [`next`](Self::next) with the unread input until it returns
/// [`ServerEvent::NeedMore`].
#[derive(Debug)]
pub struct Server {
    settings: ServerSettings,
    peer: PeerSettings,
    /// Bytes of the client's preface that have arrived.
    preface: usize,
    /// A frame that arrived in pieces: its beginning, or all of it once it has been handled.
    buffer: Vec<u8>,
    /// Whether the frame in `buffer` has been handled.
    is_buffer_handled: bool,
    decoder: Decoder,
    fields: Fields,
    /// The header block of `fields`. Empty: the block cannot be reused.
    last_block: Vec<u8>,
    /// Generation of the table that decoded `last_block`.
    last_generation: u64,
    /// A header block that CONTINUATION frames continue.
    block: Option<PartialBlock>,
    send: SendWindow,
    receive: ReceiveWindow,
    streams: StreamMap<Stream>,
    /// The highest stream that the client has opened.
    highest: u32,
    /// The highest stream that is processed. There is no limit until GOAWAY has announced one.
    last_processed: u32,
    /// Streams whose remaining body waits for a window, longest wait first.
    blocked: VecDeque<u32>,
    table: TableUse,
}

/// A stream whose state must be stored.
#[derive(Debug)]
struct Stream {
    send: SendWindow,
    receive: ReceiveWindow,
    /// Whether the whole request has arrived.
    is_request_complete: bool,
    /// The body of the response, if windows delay a part of it.
    blocked_body: Option<BlockedBody>,
}

/// The body of a response of which windows allowed only a part.
#[derive(Debug)]
struct BlockedBody {
    body: Arc<[u8]>,
    /// Bytes that have been queued.
    queued: usize,
    layout: FrameLayout,
}

// Reading.
impl Server {
    /// Begins a connection: appends the server's SETTINGS to `out`.
    pub fn new(settings: ServerSettings, out: &mut Vec<u8>) -> Server {
        settings.put_frame(out);
        Server {
            settings,
            peer: PeerSettings::default(),
            preface: 0,
            buffer: Vec::new(),
            is_buffer_handled: false,
            decoder: Decoder::new(ClientSettings::default().header_table_size),
            fields: Fields::default(),
            last_block: Vec::new(),
            last_generation: 0,
            block: None,
            send: SendWindow::new(DEFAULT_WINDOW),
            receive: ReceiveWindow::new(DEFAULT_WINDOW, DEFAULT_WINDOW),
            streams: StreamMap::default(),
            highest: 0,
            last_processed: u32::MAX,
            blocked: VecDeque::new(),
            table: TableUse::new(0),
        }
    }

    /// The fields of the last request.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The number of streams with an entry: their request or response is in progress or deferred.
    #[must_use]
    pub fn open_streams(&self) -> usize {
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
        if self.is_buffer_handled {
            self.is_buffer_handled = false;
            self.buffer.clear();
        }
        if self.buffer.is_empty()
            && let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>()
        {
            let header = FrameHeader::parse(header);
            self.check_header(&header)?;
            if let Some(payload) = rest.get(..header.length as usize) {
                let event = self.handle_frame(&header, payload, out)?;
                return Ok((HEADER_BYTES + payload.len(), with_data(event, &header, payload)?));
            }
        }
        self.buffer_frame(input, out)
    }

    fn read_preface(&mut self, input: &[u8]) -> Result<(usize, ServerEvent<'static>), Http2Error> {
        let rest = &frame::PREFACE[self.preface..];
        let n = rest.iter().zip(input).take_while(|(expected, byte)| expected == byte).count();
        self.preface += n;
        if n < rest.len().min(input.len()) {
            // Bytes that do not begin with `PRI ` are treated as an HTTP/1 request.
            let spoke_http1 = self.preface < b"PRI ".len();
            return Err(if spoke_http1 { Http2Error::SpokeHttp1 } else { Http2Error::NoPreface });
        }
        Ok((n, if n == 0 { ServerEvent::NeedMore } else { ServerEvent::Handled }))
    }

    /// Checks whether a frame with this header may come now.
    #[inline]
    fn check_header(&self, header: &FrameHeader) -> Result<(), Http2Error> {
        if header.length > limits::FRAME_BYTES {
            return Err(Http2Error::FrameTooLong);
        }
        if self.block.is_some() && header.kind != Kind::Continuation {
            return Err(Http2Error::InterruptedBlock);
        }
        let needs_stream = matches!(
            header.kind,
            Kind::Headers | Kind::Data | Kind::Continuation | Kind::RstStream
        );
        if needs_stream && header.stream == 0 {
            return Err(Http2Error::WrongStream);
        }
        Ok(())
    }

    /// Collects a frame that arrives in pieces, and handles it once it is whole.
    fn buffer_frame<'a>(
        &'a mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, ServerEvent<'a>), Http2Error> {
        let mut used = fill(&mut self.buffer, HEADER_BYTES, input);
        let Some(header) = self.buffer.first_chunk().map(FrameHeader::parse) else {
            return Ok((used, ServerEvent::NeedMore));
        };
        self.check_header(&header)?;
        let length = HEADER_BYTES + header.length as usize;
        used += fill(&mut self.buffer, length, &input[used..]);
        if self.buffer.len() < length {
            return Ok((used, ServerEvent::NeedMore));
        }
        // The buffer is taken and put back, so that its memory is allocated once.
        let buffer = core::mem::take(&mut self.buffer);
        let event = self.handle_frame(&header, &buffer[HEADER_BYTES..], out);
        self.buffer = buffer;
        self.is_buffer_handled = true;
        Ok((used, with_data(event?, &header, &self.buffer[HEADER_BYTES..])?))
    }

    /// Handles a whole frame. The caller must add the data to the event of a DATA frame.
    #[inline]
    fn handle_frame(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<ServerEvent<'static>, Http2Error> {
        match header.kind {
            Kind::Headers => self.handle_headers(header, payload),
            Kind::Continuation => self.handle_continuation(header, payload),
            Kind::Data => self.handle_data(header, out),
            Kind::Settings if header.has(flag::ACK) => Ok(ServerEvent::Handled),
            Kind::Settings => self.handle_settings(payload, out),
            Kind::WindowUpdate => self.handle_window_update(header.stream, payload, out),
            Kind::Ping if payload.len() != 8 => Err(Http2Error::FrameLength),
            Kind::Ping if !header.has(flag::ACK) => {
                frame::put_header(Kind::Ping, flag::ACK, 0, payload.len(), out);
                out.extend_from_slice(payload);
                Ok(ServerEvent::Handled)
            }
            Kind::RstStream => {
                self.remove_stream(header.stream);
                Ok(ServerEvent::Reset { stream: header.stream })
            }
            Kind::PushPromise => Err(Http2Error::Push),
            Kind::Ping | Kind::Priority | Kind::GoAway | Kind::Unknown => Ok(ServerEvent::Handled),
        }
    }

    #[inline]
    fn handle_headers(
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

    fn handle_continuation(
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

    /// Handles a whole header block. The block is decoded even if its stream is not processed,
    /// because all streams of the connection share HPACK's dynamic table (RFC 9113 §4.3).
    #[inline]
    fn read_block(
        &mut self,
        stream: u32,
        end: bool,
        block: &[u8],
    ) -> Result<ServerEvent<'static>, Http2Error> {
        if stream <= self.highest || stream > self.last_processed {
            return self.read_other_block(stream, end, block);
        }
        let repeated = self.read_request(block)?;
        self.highest = stream;
        if !end {
            self.add_stream(stream, false);
        }
        Ok(ServerEvent::Request { stream, end, repeated })
    }

    /// Reads a request's fields. Returns whether they equal the fields of the previous request.
    #[inline]
    fn read_request(&mut self, block: &[u8]) -> Result<bool, Http2Error> {
        let generation = self.decoder.generation();
        if self.last_generation == generation && self.last_block == block && !block.is_empty() {
            return Ok(true);
        }
        let fields = &mut self.fields;
        fields.clear();
        self.decoder.decode(block, |name, value| fields.push(name, value))?;
        self.last_block.clear();
        if self.decoder.generation() == generation && block.len() <= limits::CACHED_BLOCK_BYTES {
            self.last_block.extend_from_slice(block);
            self.last_generation = generation;
        }
        Ok(false)
    }

    /// Handles trailers, whose fields are ignored, or the head of a stream that is not processed.
    fn read_other_block(
        &mut self,
        stream: u32,
        end: bool,
        block: &[u8],
    ) -> Result<ServerEvent<'static>, Http2Error> {
        self.decoder.decode(block, |_, _| {})?;
        self.highest = self.highest.max(stream);
        let Some((_, open_stream)) = self.streams.find_mut(stream) else {
            return Ok(ServerEvent::Handled);
        };
        if open_stream.is_request_complete || !end {
            return Err(Http2Error::StreamClosed);
        }
        open_stream.is_request_complete = true;
        Ok(ServerEvent::Body { stream, data: &[], end: true })
    }

    fn handle_data(
        &mut self,
        header: &FrameHeader,
        out: &mut Vec<u8>,
    ) -> Result<ServerEvent<'static>, Http2Error> {
        let (stream, end) = (header.stream, header.has(flag::END_STREAM));
        if !self.receive.take(header.length) {
            return Err(Http2Error::WindowExceeded);
        }
        put_window_update(&mut self.receive, 0, out);
        let Some((_, open_stream)) = self.streams.find_mut(stream) else {
            // The stream was never opened (an error), or it has ended, or it is not processed.
            return if stream > self.highest {
                Err(Http2Error::IdleStream)
            } else {
                Ok(ServerEvent::Handled)
            };
        };
        if open_stream.is_request_complete {
            return Err(Http2Error::StreamClosed);
        }
        if !open_stream.receive.take(header.length) {
            return Err(Http2Error::WindowExceeded);
        }
        open_stream.is_request_complete = end;
        if !end {
            put_window_update(&mut open_stream.receive, stream, out);
        }
        Ok(ServerEvent::Body { stream, data: &[], end })
    }

    fn handle_settings(
        &mut self,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<ServerEvent<'static>, Http2Error> {
        let before = self.peer.initial_window;
        self.peer.read(payload, Sender::Client)?;
        let difference = i64::from(self.peer.initial_window) - i64::from(before);
        for (_, stream) in self.streams.iter_mut() {
            if !stream.send.change(difference) {
                return Err(Http2Error::WindowOverflow);
            }
        }
        self.table.apply_settings(payload, &self.peer);
        settings::put_ack(out);
        self.queue_blocked_bodies(out);
        Ok(ServerEvent::Handled)
    }

    fn handle_window_update(
        &mut self,
        stream: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<ServerEvent<'static>, Http2Error> {
        let bytes: [u8; 4] = payload.try_into().map_err(|_| Http2Error::FrameLength)?;
        let increment = i64::from(u32::from_be_bytes(bytes) & 0x7FFF_FFFF);
        let window = match stream {
            0 => &mut self.send,
            _ => match self.streams.find_mut(stream) {
                Some((_, stream)) => &mut stream.send,
                // The stream has its response already.
                None => return Ok(ServerEvent::Handled),
            },
        };
        if !window.change(increment) {
            return Err(Http2Error::WindowOverflow);
        }
        self.queue_blocked_bodies(out);
        Ok(ServerEvent::Handled)
    }

    fn add_stream(&mut self, stream: u32, is_request_complete: bool) -> StreamKey {
        let window = self.settings.stream_window;
        let send = SendWindow::new(self.peer.initial_window);
        let receive = ReceiveWindow::new(window, window);
        self.streams
            .insert(stream, Stream { send, receive, is_request_complete, blocked_body: None })
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

/// Appends a WINDOW_UPDATE if enough of the window has been used.
fn put_window_update(window: &mut ReceiveWindow, stream: u32, out: &mut Vec<u8>) {
    let increment = window.take_increment();
    if increment > 0 {
        frame::put_window_update(stream, increment, out);
    }
}

// Responding.
impl Server {
    /// Keeps a stream open until the caller responds later.
    pub fn defer(&mut self, stream: u32) {
        if self.streams.find(stream).is_none() {
            self.add_stream(stream, true);
        }
    }

    /// Responds to a complete request. Bytes of the body that windows do not allow now follow when
    /// the windows grow.
    #[inline]
    pub fn respond(&mut self, stream: u32, response: &EncodedResponse, out: &mut Vec<u8>) {
        let bytes = response.body.len();
        let key = if self.streams.len() == 0 { None } else { self.streams.find(stream) };
        let room = match key {
            None => self.peer.initial_window as usize,
            Some(key) => self.streams.get(key).send.room(),
        };
        if bytes > room
            || bytes > self.send.room()
            || response.frames.is_empty()
            || self.table.has_pending_update()
        {
            return self.respond_in_parts(stream, response, out);
        }
        let start = out.len();
        out.extend_from_slice(&response.frames);
        for offset in &response.id_offsets {
            out[start + offset..start + offset + 4].copy_from_slice(&stream.to_be_bytes());
        }
        self.send.take(bytes);
        if key.is_some() {
            self.streams.remove(stream);
        }
    }

    #[cold]
    fn respond_in_parts(&mut self, stream: u32, response: &EncodedResponse, out: &mut Vec<u8>) {
        let max_payload = self.peer.max_frame_size as usize;
        let mut updated = Vec::new();
        let block = self.table.begin(&response.block, &mut updated);
        frame::put_block(stream, block, response.body.is_empty(), max_payload, out);
        if response.body.is_empty() {
            self.streams.remove(stream);
            return;
        }
        let key = self.streams.find(stream).unwrap_or_else(|| self.add_stream(stream, true));
        self.streams.get_mut(key).blocked_body =
            Some(BlockedBody { body: response.body.clone(), queued: 0, layout: response.layout });
        self.queue_body(stream, out);
    }

    /// Ends a stream without a response. `code`: the reason, such as `RefusedStream`.
    pub fn reset(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
        self.remove_stream(stream);
        frame::put_reset(stream, code, out);
    }

    fn remove_stream(&mut self, stream: u32) {
        if self.streams.remove(stream).is_some_and(|stream| stream.blocked_body.is_some()) {
            // Removed streams would otherwise fill `blocked` as long as the window stays empty.
            self.blocked.retain(|blocked| *blocked != stream);
        }
    }

    /// Sends GOAWAY: later streams are not processed.
    pub fn go_away(&mut self, code: ErrorCode, out: &mut Vec<u8>) {
        self.last_processed = self.last_processed.min(self.highest);
        frame::put_go_away(self.last_processed, code, out);
    }

    /// Queues as much of a blocked body as windows allow.
    fn queue_body(&mut self, stream: u32, out: &mut Vec<u8>) {
        let Some((_, Stream { send, blocked_body: Some(blocked), .. })) =
            self.streams.find_mut(stream)
        else {
            return;
        };
        let max_payload = self.peer.max_frame_size as usize;
        while blocked.queued < blocked.body.len() {
            let rest = &blocked.body[blocked.queued..];
            let n = rest.len().min(max_payload).min(send.room()).min(self.send.room());
            if n == 0 {
                self.blocked.push_back(stream);
                return;
            }
            let ends = n == rest.len() && blocked.layout == FrameLayout::Two;
            frame::put_header(Kind::Data, if ends { flag::END_STREAM } else { 0 }, stream, n, out);
            out.extend_from_slice(&rest[..n]);
            send.take(n);
            self.send.take(n);
            blocked.queued += n;
        }
        if blocked.layout == FrameLayout::Three {
            frame::put_header(Kind::Data, flag::END_STREAM, stream, 0, out);
        }
        self.streams.remove(stream);
    }

    /// Queues more of the blocked bodies, as far as windows allow now.
    fn queue_blocked_bodies(&mut self, out: &mut Vec<u8>) {
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
    fn removed_streams_do_not_wait_for_windows() {
        let mut out = Vec::new();
        let mut server = Server::new(ServerSettings::default(), &mut out);
        server.send = SendWindow::new(0);
        let response = EncodedResponse::new(&[(":status", "200")], b"body", FrameLayout::Two);
        for stream in [1, 3, 5, 7] {
            server.respond(stream, &response, &mut out);
        }
        assert_eq!((server.blocked.len(), server.open_streams()), (4, 4));
        server.reset(1, ErrorCode::Cancel, &mut out);
        let mut input = frame::PREFACE.to_vec();
        frame::put_reset(3, ErrorCode::Cancel, &mut input);
        frame::put_window_update(0, 4, &mut input);
        let mut rest = &input[..];
        while !rest.is_empty() {
            let used = server.next(rest, &mut out).unwrap().0;
            rest = &rest[used..];
        }
        // The window allowed the body of stream 5, and stream 7 still waits.
        assert_eq!((&server.blocked, server.open_streams()), (&VecDeque::from([7]), 1));
    }

    /// Sends a server the preface and one frame of the connection. Returns its event and output.
    fn handle_after_preface(
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
    fn connection_frames_handled_or_refused() {
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
                handle_after_preface(kind, flags, payload),
                (event, sent.to_vec()),
                "{kind:?} {flags} {payload:?}"
            );
        }
    }
}
