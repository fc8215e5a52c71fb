//! The client half of a connection: opens streams, sends requests, and ends streams.
//!
//! `read` splits the input into frames and handles DATA. `frames` handles all other frames.
//! `stream` checks the responses of each stream.

mod frames;
mod read;
mod stream;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::block::PartialBlock;
use super::counts::FrameCounts;
use super::encode::{BlockForm, TableUse};
use super::frame::{self, HEADER_BYTES, Kind, flag};
use super::head::{Fields, HeadDecoder};
use super::settings::{ClientSettings, DEFAULT_WINDOW, PeerSettings};
use super::streams::{StreamKey, StreamMap};
use super::window::{ReceiveWindow, SendWindow};
use super::{ErrorCode, Malformed, limits};
use crate::h1::response::{MissingPart, RequestKind};
use read::ReadState;
use stream::{Stream, StreamPhase, UnsentBody};

/// The outputs of a connection: bytes for the peer, and counts.
#[derive(Debug)]
pub struct Io<'a> {
    /// Bytes for the peer are appended here.
    pub out: &'a mut Vec<u8>,
    pub counts: &'a mut FrameCounts,
}

/// A request that is ready to be sent.
#[derive(Clone, Copy, Debug)]
pub struct EncodedRequest<'a> {
    /// The header block, encoded in the form that [`Client::form`] returns.
    pub block: &'a [u8],
    /// Bytes of the names and values in the block.
    pub field_bytes: u32,
    pub body: &'a [u8],
    pub kind: RequestKind,
    /// Whether to store the fields of the response for [`Client::value_and_fields`].
    pub wants_fields: bool,
    /// Whether the body waits for [`Client::release_body`], because the request expects 100
    /// (Continue).
    pub holds_body: bool,
}

/// Result of one call of [`Client::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEvent<'i> {
    /// All input is used.
    NeedMore,
    /// A frame was processed, and the caller need not act.
    Handled,
    /// The peer's settings changed. The peer can allow more streams now, and [`Client::resume`] can
    /// have more to send.
    Settings,
    /// A window of the peer grew. [`Client::resume`] can have more to send.
    Window,
    /// An interim response. The final response is still to come.
    Informational { stream: StreamKey, status: u16 },
    /// The head of the response. `end`: the response has no body.
    Head { stream: StreamKey, status: u16, end: bool },
    /// The next part of the body, which may be empty. `end`: the last one.
    Body { stream: StreamKey, data: &'i [u8], end: bool },
    /// Trailers ended the response.
    End { stream: StreamKey },
    /// The peer ended the stream. The caller must [take](Client::take) it.
    Reset { stream: StreamKey, code: ErrorCode },
    /// The peer violated the protocol on this stream. The caller must [cancel](Client::cancel) it.
    Malformed { stream: StreamKey, violation: Malformed },
    /// The connection takes no more streams. The caller must
    /// [take](Client::take_unprocessed) the streams that the peer will not process.
    GoAway { code: ErrorCode },
}

/// The client's half of a connection. The caller stores a value `T` with each stream.
///
/// Call [`next`](Self::next) with the unread input until it returns `NeedMore`. After an error,
/// call [`go_away`](Self::go_away) and close.
#[derive(Debug)]
pub struct Client<T> {
    settings: ClientSettings,
    peer: PeerSettings,
    /// Whether the peer's first SETTINGS have arrived.
    is_ready: bool,
    /// Number of sent SETTINGS frames that the peer has not acknowledged.
    unacknowledged: u32,
    next_id: u32,
    streams: StreamMap<Stream<T>>,
    /// Streams that this side reset. Frames of these streams can still be in transit.
    reset_streams: BTreeSet<u32>,
    /// Streams whose remaining body waits for a window, longest wait first.
    blocked: VecDeque<u32>,
    send: SendWindow,
    receive: ReceiveWindow,
    heads: HeadDecoder,
    table: TableUse,
    /// The highest stream that the peer will process; `None`: the peer has not sent GOAWAY.
    last_stream: Option<u32>,
    reading: ReadState,
    /// The beginning of a frame that has not arrived whole.
    buffer: Vec<u8>,
    /// A header block that CONTINUATION frames continue.
    block: Option<Box<PartialBlock>>,
}

// Opening streams, sending requests, ending streams.
impl<T> Client<T> {
    /// Begins a connection: appends the preface, this side's settings, and the connection's window
    /// to `io.out` (RFC 9113 §3.4). `shared_bytes`: bytes of the peer's HPACK table that the
    /// requests' shared fields use.
    pub fn new(settings: ClientSettings, shared_bytes: u32, io: &mut Io<'_>) -> Self {
        let mut receive = ReceiveWindow::new(settings.connection_window, DEFAULT_WINDOW);
        io.out.extend_from_slice(frame::PREFACE);
        settings.put_frame(io.out);
        io.counts.sent.count(Kind::Settings);
        put_window_update(&mut receive, 0, io);
        Client {
            settings,
            peer: PeerSettings::default(),
            is_ready: false,
            unacknowledged: 1,
            next_id: 1,
            streams: StreamMap::default(),
            reset_streams: BTreeSet::new(),
            blocked: VecDeque::new(),
            send: SendWindow::new(DEFAULT_WINDOW),
            receive,
            // Until the peer acknowledges the settings, it may use the defaults.
            heads: HeadDecoder::new(
                settings.header_table_size.max(ClientSettings::default().header_table_size),
            ),
            table: TableUse::new(shared_bytes),
            last_stream: None,
            reading: ReadState::Frame,
            buffer: Vec::new(),
            block: None,
        }
    }

    /// Begins a connection as [`new`](Self::new) does, after an upgrade from HTTP/1.1. The request
    /// for the upgrade is stream 1 (RFC 7540 §3.2). `kind` and `wants_fields` belong to this
    /// request.
    pub fn from_upgrade(
        settings: ClientSettings,
        shared_bytes: u32,
        (kind, wants_fields): (RequestKind, bool),
        value: T,
        io: &mut Io<'_>,
    ) -> (Self, StreamKey) {
        let mut client = Client::new(settings, shared_bytes, io);
        let key = client.add_stream(kind, wants_fields, value);
        io.counts.max_open_streams = io.counts.max_open_streams.max(1);
        (client, key)
    }

    /// Allocates space for this many open streams, so that opening them allocates nothing.
    pub fn reserve(&mut self, streams: usize) {
        self.streams.reserve(streams);
    }

    /// Returns the required encoding of the next request's header block.
    #[must_use]
    pub fn form(&self) -> BlockForm {
        self.table.form()
    }

    /// Returns the number of streams that may be opened now.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        if !self.is_ready || self.is_draining() {
            return 0;
        }
        let limit = self.peer.max_concurrent_streams.map_or(usize::MAX, |limit| limit as usize);
        limit.saturating_sub(self.streams.len())
    }

    /// Whether the peer's first settings have arrived, so that streams may be opened.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether this connection takes no more streams.
    #[inline]
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.last_stream.is_some() || self.next_id > i32::MAX as u32
    }

    /// The peer's settings.
    #[must_use]
    pub fn peer(&self) -> &PeerSettings {
        &self.peer
    }

    /// The number of open streams.
    #[inline]
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Opens a stream. There must be [room](Self::room). Returns the stream's key, and whether the
    /// whole request was queued. The rest of an incomplete request waits for flow-control windows.
    pub fn request(
        &mut self,
        request: &EncodedRequest<'_>,
        value: T,
        io: &mut Io<'_>,
    ) -> (StreamKey, bool) {
        let id = self.next_id;
        let key = self.add_stream(request.kind, request.wants_fields, value);
        let sent = &mut io.counts.sent;
        sent.count(Kind::Headers);
        sent.field_bytes += u64::from(request.field_bytes);
        io.counts.max_open_streams = io.counts.max_open_streams.max(self.streams.len() as u64);
        let max_payload = self.peer.max_frame_size as usize;
        let end = request.body.is_empty();
        let mut updated = Vec::new();
        let block = self.table.begin(request.block, &mut updated);
        io.counts.sent.block_bytes += block.len() as u64;
        let continuations = frame::put_block(id, block, end, max_payload, io.out);
        io.counts.sent.frames[Kind::Continuation as usize] += continuations;
        if end {
            return (key, true);
        }
        let stream = self.streams.get_mut(key);
        if request.holds_body {
            stream.unsent = Some(Box::new(UnsentBody { bytes: request.body.to_vec(), queued: 0 }));
            return (key, false);
        }
        let n = put_data(id, request.body, max_payload, &mut self.send, &mut stream.send, io);
        if n < request.body.len() {
            stream.unsent =
                Some(Box::new(UnsentBody { bytes: request.body[n..].to_vec(), queued: 0 }));
            self.blocked.push_back(id);
        }
        (key, n == request.body.len())
    }

    /// Queues the body of a request that was opened with [`EncodedRequest::holds_body`]. Returns
    /// whether the whole body was queued. The rest of an incomplete body waits for flow-control
    /// windows.
    pub fn release_body(&mut self, stream: StreamKey, io: &mut Io<'_>) -> bool {
        let max_payload = self.peer.max_frame_size as usize;
        let Some(stream) = self.streams.try_get_mut(stream) else { return true };
        let Some(mut unsent) = stream.unsent.take() else { return true };
        unsent.queued =
            put_data(stream.id, &unsent.bytes, max_payload, &mut self.send, &mut stream.send, io);
        if unsent.queued == unsent.bytes.len() {
            return true;
        }
        self.blocked.push_back(stream.id);
        stream.unsent = Some(unsent);
        false
    }

    /// Queues more of the bodies that wait for windows, as far as the windows allow now. `done` is
    /// called with the value of each stream whose last byte has been queued.
    pub fn resume(&mut self, io: &mut Io<'_>, done: &mut impl FnMut(&mut T)) {
        let max_payload = self.peer.max_frame_size as usize;
        for _ in 0..self.blocked.len() {
            if self.send.room() == 0 {
                return;
            }
            let Some(id) = self.blocked.pop_front() else { return };
            let Some((_, stream)) = self.streams.find_mut(id) else { continue };
            let Some(unsent) = &mut stream.unsent else { continue };
            unsent.queued += put_data(
                id,
                &unsent.bytes[unsent.queued..],
                max_payload,
                &mut self.send,
                &mut stream.send,
                io,
            );
            if unsent.queued == unsent.bytes.len() {
                stream.unsent = None;
                done(&mut stream.value);
            } else {
                self.blocked.push_back(id);
            }
        }
    }

    /// The caller's value of a stream; `None`: the stream has ended.
    #[inline]
    pub fn value(&mut self, stream: StreamKey) -> Option<&mut T> {
        self.streams.try_get_mut(stream).map(|stream| &mut stream.value)
    }

    /// The part of a stream's response that is still to come.
    ///
    /// # Panics
    /// If the stream has ended.
    #[must_use]
    pub fn missing_part(&self, stream: StreamKey) -> MissingPart {
        let stream = self.streams.get(stream);
        match stream.phase {
            StreamPhase::Head { .. } => MissingPart::Head,
            StreamPhase::Body => MissingPart::Body(stream.expected),
        }
    }

    /// The caller's value of a stream, and the fields of the last head that was read. The stream
    /// of this head must have been opened with `wants_fields`.
    ///
    /// # Panics
    /// If the stream has ended.
    #[inline]
    pub fn value_and_fields(&mut self, stream: StreamKey) -> (&mut T, &Fields) {
        (&mut self.streams.get_mut(stream).value, self.heads.fields())
    }

    /// All open streams, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (StreamKey, &T)> {
        self.streams.iter().map(|(key, stream)| (key, &stream.value))
    }

    /// Bytes of a stream's request that wait for flow-control windows.
    ///
    /// # Panics
    /// If the stream has ended.
    #[must_use]
    pub fn unsent_bytes(&self, stream: StreamKey) -> usize {
        let unsent = self.streams.get(stream).unsent.as_ref();
        unsent.map_or(0, |unsent| unsent.bytes.len() - unsent.queued)
    }

    /// Removes a stream whose response is complete. If its request is incomplete, RST_STREAM with
    /// NO_ERROR announces that the rest will not come (RFC 9113 §8.1).
    #[inline]
    pub fn finish(&mut self, stream: StreamKey, io: &mut Io<'_>) {
        let &Stream { id, ref unsent, .. } = self.streams.get(stream);
        if unsent.is_some() {
            // The peer has ended the stream and sends no further frames on it. Therefore the stream
            // is not added to `reset_streams`.
            put_reset(id, ErrorCode::NoError, io);
            self.unblock(id);
        }
        self.streams.discard(stream);
    }

    /// Removes a stream that the peer has ended.
    pub fn take(&mut self, stream: StreamKey) -> T {
        let stream = self.streams.take(stream);
        if stream.unsent.is_some() {
            self.unblock(stream.id);
        }
        stream.value
    }

    /// Removes a stream from the list of streams that wait for a window. Without the removal, the
    /// list would grow without limit on a connection whose window stays empty.
    #[cold]
    fn unblock(&mut self, id: u32) {
        self.blocked.retain(|blocked| *blocked != id);
    }

    /// Resets a stream with `code`, and removes it.
    pub fn cancel(&mut self, stream: StreamKey, code: ErrorCode, io: &mut Io<'_>) -> T {
        let id = self.streams.get(stream).id;
        put_reset(id, code, io);
        if self.reset_streams.len() >= limits::REMEMBERED_RESETS {
            self.reset_streams.pop_first();
        }
        self.reset_streams.insert(id);
        self.take(stream)
    }

    /// Removes the streams that the peer's GOAWAY excludes from processing, oldest first. The
    /// caller can send their requests again on another connection (RFC 9113 §6.8).
    pub fn take_unprocessed(&mut self) -> Vec<T> {
        let last = self.last_stream.unwrap_or(u32::MAX);
        self.take_streams_above(last)
    }

    /// Removes all streams, oldest first.
    pub fn take_all(&mut self) -> Vec<T> {
        self.take_streams_above(0)
    }

    fn take_streams_above(&mut self, last: u32) -> Vec<T> {
        let mut keys: Vec<(u32, StreamKey)> =
            self.streams.iter().filter(|(_, s)| s.id > last).map(|(key, s)| (s.id, key)).collect();
        keys.sort_unstable_by_key(|(id, _)| *id);
        keys.into_iter().map(|(_, key)| self.take(key)).collect()
    }

    /// Sends GOAWAY with the reason.
    pub fn go_away(&mut self, code: ErrorCode, io: &mut Io<'_>) {
        // Push is disabled, so no stream of the peer was processed.
        frame::put_go_away(0, code, io.out);
        io.counts.sent.count(Kind::GoAway);
        io.counts.sent.go_aways[code as usize] += 1;
    }

    /// Adds the next stream to `streams`.
    #[inline]
    fn add_stream(&mut self, kind: RequestKind, wants_fields: bool, value: T) -> StreamKey {
        let id = self.next_id;
        self.next_id += 2;
        let stream = Stream {
            id,
            phase: StreamPhase::Head { informational: 0 },
            send: SendWindow::new(self.peer.initial_window),
            // The SETTINGS were sent first, so the peer knows this window.
            receive: ReceiveWindow::new(self.settings.stream_window, self.settings.stream_window),
            unsent: None,
            kind,
            wants_fields,
            expected: None,
            value,
        };
        self.streams.insert(id, stream)
    }
}

/// Queues as much of `body` as the windows allow, in frames of up to `max_payload` bytes. The last
/// byte ends the stream. Returns the number of bytes queued.
fn put_data(
    id: u32,
    body: &[u8],
    max_payload: usize,
    connection: &mut SendWindow,
    stream: &mut SendWindow,
    io: &mut Io<'_>,
) -> usize {
    let mut queued = 0;
    while queued < body.len() {
        let n = (body.len() - queued).min(max_payload).min(connection.room()).min(stream.room());
        if n == 0 {
            break;
        }
        let end = if queued + n == body.len() { flag::END_STREAM } else { 0 };
        frame::put_header(Kind::Data, end, id, n, io.out);
        io.out.extend_from_slice(&body[queued..queued + n]);
        io.counts.sent.count(Kind::Data);
        connection.take(n);
        stream.take(n);
        queued += n;
    }
    queued
}

fn put_reset(id: u32, code: ErrorCode, io: &mut Io<'_>) {
    frame::put_reset(id, code, io.out);
    io.counts.reply_bytes += (HEADER_BYTES + 4) as u64;
    io.counts.sent.count(Kind::RstStream);
    io.counts.sent.resets[code as usize] += 1;
}

/// Appends a WINDOW_UPDATE if enough of the window has been used.
#[inline]
fn put_window_update(window: &mut ReceiveWindow, stream: u32, io: &mut Io<'_>) {
    let increment = window.take_increment();
    if increment > 0 {
        frame::put_window_update(stream, increment, io.out);
        io.counts.reply_bytes += (HEADER_BYTES + 4) as u64;
        io.counts.sent.count(Kind::WindowUpdate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9113 §5.1.1.
    #[test]
    fn last_identifier_makes_connection_drain() {
        let (mut out, mut counts) = (Vec::new(), FrameCounts::default());
        let mut io = Io { out: &mut out, counts: &mut counts };
        let mut client = Client::new(ClientSettings::default(), 0, &mut io);
        client.next(&mut &[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &mut io).unwrap();
        client.next_id = i32::MAX as u32;
        assert!(client.room() > 0 && !client.is_draining());
        let request = EncodedRequest {
            block: &[0x82],
            field_bytes: 0,
            body: &[],
            kind: RequestKind::Other,
            wants_fields: false,
            holds_body: false,
        };
        let (key, _) = client.request(&request, (), &mut io);
        assert!(client.room() == 0 && client.is_draining());
        let mut response = &[0, 0, 1, 1, 5, 0x7F, 0xFF, 0xFF, 0xFF, 0x88][..];
        let event = client.next(&mut response, &mut io).unwrap();
        assert_eq!(event, ClientEvent::Head { stream: key, status: 200, end: true });
    }

    #[test]
    fn removed_streams_do_not_wait_for_windows() {
        let (mut out, mut counts) = (Vec::new(), FrameCounts::default());
        let mut io = Io { out: &mut out, counts: &mut counts };
        let mut client = Client::new(ClientSettings::default(), 0, &mut io);
        client.next(&mut &[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &mut io).unwrap();
        let body = [0; 70_000];
        let request = EncodedRequest {
            block: &[],
            field_bytes: 0,
            body: &body,
            kind: RequestKind::Other,
            wants_fields: false,
            holds_body: false,
        };
        for _ in 0..10 {
            let (key, is_whole) = client.request(&request, (), &mut io);
            assert!(!is_whole);
            assert_eq!(client.blocked.len(), 1);
            client.finish(key, &mut io);
            let (key, _) = client.request(&request, (), &mut io);
            client.take(key);
            client.request(&request, (), &mut io);
            client.take_all();
        }
        assert!(client.blocked.is_empty());
    }
}
