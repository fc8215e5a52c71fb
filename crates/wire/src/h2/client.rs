//! The client half of a connection.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::block::Block;
use super::counts::Counts;
use super::encode::{Form, TableUse};
use super::frame::{self, HEADER_BYTES, Header, Kind, fill, flag};
use super::head::{Fields, Heads, Seen};
use super::settings::{self, By, DEFAULT_WINDOW, Own, Peer};
use super::streams::{Key, Streams};
use super::window::{ReceiveWindow, SendWindow};
use super::{Code, Error, Malformed, limits};
use crate::h1::response::Asked;

/// Where what a connection has to say goes, and what it counts.
#[derive(Debug)]
pub struct Io<'a> {
    /// Bytes for the peer are appended here.
    pub out: &'a mut Vec<u8>,
    pub counts: &'a mut Counts,
}

/// A request that is ready to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The header block, encoded in the form that [`Client::form`] asks for.
    pub block: &'a [u8],
    /// Bytes of the names and values in it.
    pub field_bytes: u32,
    pub body: &'a [u8],
    pub asked: Asked,
    /// The fields of the answer are to be kept for [`Client::data_and_fields`].
    pub wants_fields: bool,
}

/// What one call of [`Client::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'i> {
    /// All input is used.
    NeedMore,
    /// A frame that concerns nobody else has been dealt with.
    Handled,
    /// The peer's settings changed: there may be more room for streams, and more to send.
    Settings,
    /// A window of the peer grew: [`Client::resume`] may have more to send.
    Window,
    /// An interim response; the final one is still to come.
    Informational { stream: Key, status: u16 },
    /// The head of the response. `end`: it is all of it.
    Head { stream: Key, status: u16, end: bool },
    /// The next part of the body, which may be empty. `end`: the last one.
    Body { stream: Key, data: &'i [u8], end: bool },
    /// Trailers ended the response.
    End { stream: Key },
    /// The peer ended the stream. The stream is to be [taken](Client::take).
    Reset { stream: Key, code: Code },
    /// The peer broke the rules on this stream. It is to be [cancelled](Client::cancel).
    Malformed { stream: Key, why: Malformed },
    /// No more streams are to be opened. Those that the peer did not and will not deal with are to be
    /// [taken](Client::take_unprocessed).
    GoAway { code: Code },
}

/// A client's connection with what it knows of each stream, `T`.
///
/// Call [`next`](Self::next) with the unread input until it says `NeedMore`. After an error, tell the peer with
/// [`go_away`](Self::go_away) and close.
#[derive(Debug)]
pub struct Client<T> {
    own: Own,
    peer: Peer,
    /// The peer's first SETTINGS have come.
    is_ready: bool,
    /// SETTINGS of ours that have not been acknowledged.
    unacknowledged: u32,
    next_id: u32,
    streams: Streams<Stream<T>>,
    /// Streams that we reset, and whose frames may still be under way.
    reset: BTreeSet<u32>,
    /// Streams with more body to send than a window allowed, in the order in which they were held up.
    blocked: VecDeque<u32>,
    send: SendWindow,
    receive: ReceiveWindow,
    heads: Heads,
    table: TableUse,
    /// The highest stream that the peer will deal with, once it has said so.
    last_stream: Option<u32>,
    reading: Reading,
    /// The beginning of a frame that has not arrived whole.
    kept: Vec<u8>,
    /// The header block that is being continued.
    block: Option<Box<Block>>,
}

#[derive(Debug)]
struct Stream<T> {
    id: u32,
    phase: Phase,
    send: SendWindow,
    receive: ReceiveWindow,
    /// `None`: the whole request has been queued.
    unsent: Option<Box<Unsent>>,
    asked: Asked,
    wants_fields: bool,
    /// Bytes of body that are still to come; `None`: any number.
    expected: Option<u64>,
    data: T,
}

/// What a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head { informational: u8 },
    Body,
}

/// The rest of a request's body.
#[derive(Debug)]
struct Unsent {
    bytes: Vec<u8>,
    at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// The next byte begins a frame, or goes on with what is kept.
    Frame,
    Data(DataLeft),
}

/// What is still to come of a DATA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DataLeft {
    stream: u32,
    /// Bytes of payload, the padding and its length among them.
    left: u32,
    padding: Padding,
    end: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Padding {
    /// The next byte tells.
    Unknown,
    Bytes(u32),
}

impl DataLeft {
    /// How much of it belongs to the body; the padding must be known.
    const fn body(&self) -> u32 {
        match self.padding {
            Padding::Bytes(padding) => self.left - padding,
            Padding::Unknown => self.left,
        }
    }
}

// Opening, asking and ending.
impl<T> Client<T> {
    /// Begins a connection: the preface, our settings, and the connection's window (RFC 9113 §3.4). `shared_bytes` is the
    /// space in the peer's table that the requests' shared fields take.
    pub fn new(own: Own, shared_bytes: u32, io: &mut Io<'_>) -> Self {
        let mut receive = ReceiveWindow::new(own.connection_window, DEFAULT_WINDOW);
        io.out.extend_from_slice(frame::PREFACE);
        own.put_frame(io.out);
        io.counts.sent.count(Kind::Settings);
        give_back(&mut receive, 0, io);
        Client {
            own,
            peer: Peer::default(),
            is_ready: false,
            unacknowledged: 1,
            next_id: 1,
            streams: Streams::default(),
            reset: BTreeSet::new(),
            blocked: VecDeque::new(),
            send: SendWindow::new(DEFAULT_WINDOW),
            receive,
            // Until our settings are acknowledged the peer may go by the defaults.
            heads: Heads::new(own.header_table_size.max(Own::default().header_table_size)),
            table: TableUse::new(shared_bytes),
            last_stream: None,
            reading: Reading::Frame,
            kept: Vec::new(),
            block: None,
        }
    }

    /// The same for a connection that was upgraded from HTTP/1.1: the request that asked for it is stream 1 (RFC 7540
    /// §3.2). Of it there need be known what it asked, and whether the fields of its answer are to be kept.
    pub fn upgraded(
        own: Own,
        shared_bytes: u32,
        (asked, wants_fields): (Asked, bool),
        data: T,
        io: &mut Io<'_>,
    ) -> (Self, Key) {
        let mut client = Client::new(own, shared_bytes, io);
        let key = client.enter(asked, wants_fields, data);
        io.counts.most_streams = io.counts.most_streams.max(1);
        (client, key)
    }

    /// Makes room for so many streams at once, so that to open them allocates nothing.
    pub fn reserve(&mut self, streams: usize) {
        self.streams.reserve(streams);
    }

    /// How the next request's header block must be encoded.
    #[must_use]
    pub fn form(&self) -> Form {
        self.table.form()
    }

    /// How many more streams may be opened now.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        if !self.is_ready || self.is_draining() {
            return 0;
        }
        let most = self.peer.max_concurrent_streams.map_or(usize::MAX, |most| most as usize);
        most.saturating_sub(self.streams.len())
    }

    /// Whether the peer's first settings have come, so that streams may be opened.
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

    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Streams that are open.
    #[inline]
    #[must_use]
    pub fn open(&self) -> usize {
        self.streams.len()
    }

    /// Opens a stream. There must be [room](Self::room). Returns whether the whole request could be queued; else windows
    /// hold its body up.
    pub fn request(&mut self, ask: &Ask<'_>, data: T, io: &mut Io<'_>) -> (Key, bool) {
        let id = self.next_id;
        let key = self.enter(ask.asked, ask.wants_fields, data);
        let sent = &mut io.counts.sent;
        sent.count(Kind::Headers);
        sent.field_bytes += u64::from(ask.field_bytes);
        io.counts.most_streams = io.counts.most_streams.max(self.streams.len() as u64);
        let most = self.peer.max_frame_size as usize;
        let end = ask.body.is_empty();
        let mut updated = Vec::new();
        let block = self.table.begin(ask.block, &mut updated);
        io.counts.sent.block_bytes += block.len() as u64;
        let continuations = frame::put_block(id, block, end, most, io.out);
        io.counts.sent.frames[Kind::Continuation as usize] += continuations;
        if end {
            return (key, true);
        }
        let stream = self.streams.get_mut(key);
        let n = put_data(id, ask.body, most, &mut self.send, &mut stream.send, io);
        if n < ask.body.len() {
            stream.unsent = Some(Box::new(Unsent { bytes: ask.body[n..].to_vec(), at: 0 }));
            self.blocked.push_back(id);
        }
        (key, n == ask.body.len())
    }

    /// Goes on with bodies that windows held up, as far as they allow now. `done` learns of each whose last byte is queued.
    pub fn resume(&mut self, io: &mut Io<'_>, done: &mut impl FnMut(&mut T)) {
        let most = self.peer.max_frame_size as usize;
        for _ in 0..self.blocked.len() {
            if self.send.room() == 0 {
                return;
            }
            let Some(id) = self.blocked.pop_front() else { return };
            let Some((_, stream)) = self.streams.find_mut(id) else { continue };
            let Some(unsent) = &mut stream.unsent else { continue };
            unsent.at += put_data(id, &unsent.bytes[unsent.at..], most, &mut self.send, &mut stream.send, io);
            if unsent.at == unsent.bytes.len() {
                stream.unsent = None;
                done(&mut stream.data);
            } else {
                self.blocked.push_back(id);
            }
        }
    }

    /// What is known of an open stream; `None` if it has ended.
    #[inline]
    pub fn data(&mut self, stream: Key) -> Option<&mut T> {
        self.streams.try_get_mut(stream).map(|stream| &mut stream.data)
    }

    /// What is known of an open stream, with the fields of the last head if its stream wanted them.
    ///
    /// # Panics
    /// If the stream has ended.
    #[inline]
    pub fn data_and_fields(&mut self, stream: Key) -> (&mut T, &Fields) {
        (&mut self.streams.get_mut(stream).data, self.heads.fields())
    }

    /// All open streams, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.streams.iter().map(|(key, stream)| (key, &stream.data))
    }

    /// Removes a stream whose answer is complete. If its request is not, the peer is told that the rest will not come
    /// (RFC 9113 §8.1: no error).
    #[inline]
    pub fn finish(&mut self, stream: Key, io: &mut Io<'_>) {
        let &Stream { id, ref unsent, .. } = self.streams.get(stream);
        if unsent.is_some() {
            // Nothing can follow from the peer, so the stream need not be remembered.
            put_reset(id, Code::NoError, io);
            self.unblock(id);
        }
        self.streams.end(stream);
    }

    /// Removes a stream that the peer has ended.
    pub fn take(&mut self, stream: Key) -> T {
        let stream = self.streams.take(stream);
        if stream.unsent.is_some() {
            self.unblock(stream.id);
        }
        stream.data
    }

    /// A stream is gone and waits for no window any more. A connection whose window stays shut would otherwise remember all
    /// that ever waited for it.
    #[cold]
    fn unblock(&mut self, id: u32) {
        self.blocked.retain(|blocked| *blocked != id);
    }

    /// Ends a stream of our own accord.
    pub fn cancel(&mut self, stream: Key, code: Code, io: &mut Io<'_>) -> T {
        let id = self.streams.get(stream).id;
        put_reset(id, code, io);
        if self.reset.len() >= limits::REMEMBERED_RESETS {
            self.reset.pop_first();
        }
        self.reset.insert(id);
        self.take(stream)
    }

    /// Removes the streams that the peer said it did not and will not deal with, oldest first. It is safe to ask for
    /// them again elsewhere (RFC 9113 §6.8).
    pub fn take_unprocessed(&mut self) -> Vec<T> {
        let last = self.last_stream.unwrap_or(u32::MAX);
        self.take_above(last)
    }

    /// Removes all streams, oldest first.
    pub fn take_all(&mut self) -> Vec<T> {
        self.take_above(0)
    }

    fn take_above(&mut self, last: u32) -> Vec<T> {
        let mut keys: Vec<(u32, Key)> =
            self.streams.iter().filter(|(_, s)| s.id > last).map(|(key, s)| (s.id, key)).collect();
        keys.sort_unstable_by_key(|(id, _)| *id);
        keys.into_iter().map(|(_, key)| self.take(key)).collect()
    }

    /// Tells the peer that the connection ends, and why.
    pub fn go_away(&mut self, code: Code, io: &mut Io<'_>) {
        // The peer opened no stream that we dealt with: push is disabled.
        frame::put_go_away(0, code, io.out);
        io.counts.sent.count(Kind::GoAway);
        io.counts.sent.go_aways[code as usize] += 1;
    }

    /// Enters the next stream.
    #[inline]
    fn enter(&mut self, asked: Asked, wants_fields: bool, data: T) -> Key {
        let id = self.next_id;
        self.next_id += 2;
        let stream = Stream {
            id,
            phase: Phase::Head { informational: 0 },
            send: SendWindow::new(self.peer.initial_window),
            // Our SETTINGS went before, so the peer knows this window.
            receive: ReceiveWindow::new(self.own.stream_window, self.own.stream_window),
            unsent: None,
            asked,
            wants_fields,
            expected: None,
            data,
        };
        self.streams.insert(id, stream)
    }
}

/// Queues as much of `body` as the windows allow, with the end of the stream if that is all. Returns how much it was.
fn put_data(
    id: u32,
    body: &[u8],
    most: usize,
    connection: &mut SendWindow,
    stream: &mut SendWindow,
    io: &mut Io<'_>,
) -> usize {
    let mut at = 0;
    while at < body.len() {
        let n = (body.len() - at).min(most).min(connection.room()).min(stream.room());
        if n == 0 {
            break;
        }
        let end = if at + n == body.len() { flag::END_STREAM } else { 0 };
        frame::put_header(Kind::Data, end, id, n, io.out);
        io.out.extend_from_slice(&body[at..at + n]);
        io.counts.sent.count(Kind::Data);
        connection.take(n);
        stream.take(n);
        at += n;
    }
    at
}

fn put_reset(id: u32, code: Code, io: &mut Io<'_>) {
    frame::put_reset(id, code, io.out);
    io.counts.replies += (HEADER_BYTES + 4) as u64;
    io.counts.sent.count(Kind::RstStream);
    io.counts.sent.resets[code as usize] += 1;
}

/// Raises a window if enough of it has been used.
#[inline]
fn give_back(window: &mut ReceiveWindow, stream: u32, io: &mut Io<'_>) {
    let by = window.give_back();
    if by > 0 {
        frame::put_window_update(stream, by, io.out);
        io.counts.replies += (HEADER_BYTES + 4) as u64;
        io.counts.sent.count(Kind::WindowUpdate);
    }
}

// Reading.
impl<T> Client<T> {
    /// Reads on in `input`, which is moved on past what was used. (To return that with the event would mean to put each event
    /// together twice, on the hottest path there is.)
    #[inline]
    pub fn next<'i>(&mut self, input: &mut &'i [u8], io: &mut Io<'_>) -> Result<Event<'i>, Error> {
        if let Reading::Data(data) = self.reading {
            return self.read_data(data, input);
        }
        if self.kept.is_empty()
            && let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>()
        {
            let header = Header::parse(header);
            self.check_begin(&header, input)?;
            if header.kind == Kind::Data {
                *input = rest;
                return self.begin_data(&header, input, io);
            }
            if let Some((payload, rest)) = rest.split_at_checked(header.length as usize) {
                *input = rest;
                return self.frame(&header, payload, io);
            }
        }
        self.keep(input, io)
    }

    /// Whether a frame may begin like this.
    #[inline]
    fn check_begin(&self, header: &Header, bytes: &[u8]) -> Result<(), Error> {
        if !self.is_ready && (header.kind != Kind::Settings || header.has(flag::ACK)) {
            return Err(if bytes.starts_with(b"HTTP/1") { Error::SpokeHttp1 } else { Error::NoPreface });
        }
        if header.length > limits::FRAME_BYTES {
            return Err(Error::FrameTooLong);
        }
        if self.block.is_some() && header.kind != Kind::Continuation {
            return Err(Error::InterruptedBlock);
        }
        Ok(())
    }

    /// Keeps the beginning of a frame until the rest of it is there.
    fn keep<'i>(&mut self, input: &mut &'i [u8], io: &mut Io<'_>) -> Result<Event<'i>, Error> {
        let used = fill(&mut self.kept, HEADER_BYTES, input);
        *input = &input[used..];
        let Some(header) = self.kept.first_chunk().map(Header::parse) else { return Ok(Event::NeedMore) };
        self.check_begin(&header, &self.kept)?;
        if header.kind == Kind::Data {
            self.kept.clear();
            return self.begin_data(&header, input, io);
        }
        let whole = HEADER_BYTES + header.length as usize;
        let used = fill(&mut self.kept, whole, input);
        *input = &input[used..];
        if self.kept.len() < whole {
            return Ok(Event::NeedMore);
        }
        // Taken and given back, so that its memory is allocated once.
        let kept = core::mem::take(&mut self.kept);
        let event = self.frame(&header, &kept[HEADER_BYTES..], io);
        self.kept = kept;
        self.kept.clear();
        event
    }

    /// A DATA frame (RFC 9113 §6.1) begins; all of its payload counts against the windows (§6.9.1).
    #[inline]
    fn begin_data<'i>(
        &mut self,
        header: &Header,
        input: &mut &'i [u8],
        io: &mut Io<'_>,
    ) -> Result<Event<'i>, Error> {
        io.counts.received.count(Kind::Data);
        if header.stream == 0 {
            return Err(Error::WrongStream);
        }
        if !self.receive.take(header.length) {
            return Err(Error::WindowExceeded);
        }
        give_back(&mut self.receive, 0, io);
        let padding = if header.has(flag::PADDED) { Padding::Unknown } else { Padding::Bytes(0) };
        if header.length == 0 && padding == Padding::Unknown {
            return Err(Error::FrameLength);
        }
        let end = header.has(flag::END_STREAM);
        let data = DataLeft { stream: header.stream, left: header.length, padding, end };
        let Some((key, stream)) = self.streams.find_mut(header.stream) else {
            self.check_gone(header.stream, end)?;
            return self.read_data(data, input);
        };
        if !stream.receive.take(header.length) {
            return Ok(self.malformed_data(key, data, Malformed::WindowExceeded));
        }
        if stream.phase != Phase::Body {
            return Ok(self.malformed_data(key, data, Malformed::DataBeforeHead));
        }
        if !end {
            give_back(&mut stream.receive, header.stream, io);
        }
        // Nearly always the whole of it is there, and then its stream need not be looked for again.
        let whole = input.split_at_checked(header.length as usize).filter(|_| padding == Padding::Bytes(0));
        let Some((body, rest)) = whole else { return self.read_data(data, input) };
        *input = rest;
        Ok(stream.show(key, body, 0, end, end))
    }

    /// The stream is to be cancelled; what is left of its frame is passed over.
    #[cold]
    fn malformed_data(&mut self, stream: Key, data: DataLeft, why: Malformed) -> Event<'static> {
        self.reading = if data.left > 0 { Reading::Data(data) } else { Reading::Frame };
        Event::Malformed { stream, why }
    }

    /// Reads on in the payload of DATA.
    fn read_data<'i>(&mut self, mut data: DataLeft, input: &mut &'i [u8]) -> Result<Event<'i>, Error> {
        let whole = input.len();
        let padding = match data.padding {
            Padding::Bytes(n) => n,
            Padding::Unknown => {
                let Some((&n, rest)) = input.split_first() else {
                    self.reading = Reading::Data(data);
                    return Ok(Event::NeedMore);
                };
                *input = rest;
                data.left -= 1;
                u32::from(n)
            }
        };
        if padding > data.left {
            return Err(Error::Padding);
        }
        let (body, rest) = input.split_at(input.len().min((data.left - padding) as usize));
        data.left -= body.len() as u32;
        let passed = if data.left == padding { rest.len().min(padding as usize) } else { 0 };
        *input = &rest[passed..];
        data.left -= passed as u32;
        data.padding = Padding::Bytes(padding - passed as u32);
        let is_over = data.left == 0;
        self.reading = if is_over { Reading::Frame } else { Reading::Data(data) };
        if input.len() == whole && !is_over {
            return Ok(Event::NeedMore);
        }
        Ok(self.show_data(data, body, is_over && data.end))
    }

    /// What a part of a body means for its stream.
    #[inline]
    fn show_data<'i>(&mut self, left: DataLeft, data: &'i [u8], end: bool) -> Event<'i> {
        let Some((key, stream)) = self.streams.find_mut(left.stream) else { return Event::Handled };
        stream.show(key, data, left.body(), left.end, end)
    }

    /// DATA or HEADERS came for a stream that is not open. Whether that may be (RFC 9113 §5.1).
    fn check_gone(&mut self, id: u32, end: bool) -> Result<(), Error> {
        if self.is_idle(id) {
            return Err(Error::IdleStream);
        }
        // What was under way when we reset the stream is to be ignored.
        let was_reset = if end { self.reset.remove(&id) } else { self.reset.contains(&id) };
        if was_reset { Ok(()) } else { Err(Error::StreamClosed) }
    }

    /// Whether nobody has opened this stream. The peer can open none: push is disabled.
    fn is_idle(&self, id: u32) -> bool {
        id.is_multiple_of(2) || id >= self.next_id
    }

    /// A whole frame other than DATA.
    #[inline]
    fn frame(&mut self, header: &Header, payload: &[u8], io: &mut Io<'_>) -> Result<Event<'static>, Error> {
        if header.kind == Kind::Headers {
            return self.headers(header, payload, io);
        }
        self.rare_frame(header, payload, io)
    }

    /// A whole frame that is not of every answer.
    fn rare_frame(
        &mut self,
        header: &Header,
        payload: &[u8],
        io: &mut Io<'_>,
    ) -> Result<Event<'static>, Error> {
        io.counts.received.count(header.kind);
        let is_of_connection = matches!(header.kind, Kind::Settings | Kind::Ping | Kind::GoAway);
        let may_be_both = matches!(header.kind, Kind::WindowUpdate | Kind::Unknown);
        if !may_be_both && is_of_connection != (header.stream == 0) {
            return Err(Error::WrongStream);
        }
        match header.kind {
            Kind::Continuation => self.continuation(header, payload, io),
            Kind::Settings => self.settings(header, payload, io),
            Kind::WindowUpdate => self.window_update(header.stream, payload),
            Kind::RstStream => self.reset_by_peer(header.stream, payload, io),
            Kind::GoAway => self.go_away_by_peer(payload, io),
            Kind::Ping => ping(header, payload, io),
            Kind::PushPromise => Err(Error::Push),
            // Deprecated, but for its length (§6.3).
            Kind::Priority if payload.len() != 5 => Err(Error::FrameLength),
            // DATA and HEADERS do not come here.
            Kind::Priority | Kind::Unknown | Kind::Data | Kind::Headers => Ok(Event::Handled),
        }
    }

    /// HEADERS (RFC 9113 §6.2).
    #[inline]
    fn headers(&mut self, header: &Header, payload: &[u8], io: &mut Io<'_>) -> Result<Event<'static>, Error> {
        io.counts.received.count(Kind::Headers);
        if header.stream == 0 {
            return Err(Error::WrongStream);
        }
        let block = frame::fragment(header, payload)?;
        let end = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.read_block(header.stream, block, end, io);
        }
        self.block = Some(Box::new(Block::begin(header, block)));
        Ok(Event::Handled)
    }

    /// CONTINUATION (RFC 9113 §6.10).
    fn continuation(
        &mut self,
        header: &Header,
        payload: &[u8],
        io: &mut Io<'_>,
    ) -> Result<Event<'static>, Error> {
        let Some(mut block) = self.block.take() else { return Err(Error::Continuation) };
        if block.go_on(header, payload)? {
            return self.read_block(block.stream, &block.bytes, block.end, io);
        }
        self.block = Some(block);
        Ok(Event::Handled)
    }

    /// A whole header block. It is decoded whatever becomes of its stream, because the table is the connection's
    /// (RFC 9113 §4.3).
    #[inline]
    fn read_block(
        &mut self,
        id: u32,
        block: &[u8],
        end: bool,
        io: &mut Io<'_>,
    ) -> Result<Event<'static>, Error> {
        let found = self.streams.find_mut(id);
        let wants_fields = found.as_ref().is_some_and(|(_, stream)| stream.wants_fields);
        let seen = self.heads.read(block, wants_fields)?;
        io.counts.received.block_bytes += block.len() as u64;
        io.counts.received.field_bytes += u64::from(seen.field_bytes);
        let Some((key, stream)) = found else {
            self.check_gone(id, end)?;
            return Ok(Event::Handled);
        };
        let malformed = |why| Event::Malformed { stream: key, why };
        Ok(match stream.phase {
            Phase::Head { informational } => match stream.head(&seen, informational, end) {
                Ok(status @ ..200) => Event::Informational { stream: key, status },
                Ok(status) => Event::Head { stream: key, status, end },
                Err(why) => malformed(why),
            },
            Phase::Body => match stream.trailers(&seen, end) {
                Ok(()) => Event::End { stream: key },
                Err(why) => malformed(why),
            },
        })
    }

    /// SETTINGS (RFC 9113 §6.5).
    fn settings(
        &mut self,
        header: &Header,
        payload: &[u8],
        io: &mut Io<'_>,
    ) -> Result<Event<'static>, Error> {
        if header.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(Error::FrameLength);
            }
            self.unacknowledged = self.unacknowledged.checked_sub(1).ok_or(Error::SettingsAck)?;
            self.heads.set_limit(self.own.header_table_size);
            return Ok(Event::Handled);
        }
        let before = self.peer;
        self.peer.read(payload, By::Server)?;
        let by = i64::from(self.peer.initial_window) - i64::from(before.initial_window);
        if by != 0 {
            // It holds for the streams that are open, too (§6.9.2).
            for (_, stream) in self.streams.iter_mut() {
                if !stream.send.change(by) {
                    return Err(Error::WindowOverflow);
                }
            }
        }
        self.table.announced(payload, &self.peer);
        self.is_ready = true;
        settings::put_ack(io.out);
        io.counts.replies += HEADER_BYTES as u64;
        io.counts.sent.count(Kind::Settings);
        Ok(Event::Settings)
    }

    /// WINDOW_UPDATE (RFC 9113 §6.9).
    fn window_update(&mut self, id: u32, payload: &[u8]) -> Result<Event<'static>, Error> {
        let bytes: [u8; 4] = payload.try_into().map_err(|_| Error::FrameLength)?;
        let by = i64::from(u32::from_be_bytes(bytes) & 0x7FFF_FFFF);
        if id == 0 {
            if by == 0 {
                return Err(Error::WindowByNothing);
            }
            return if self.send.change(by) { Ok(Event::Window) } else { Err(Error::WindowOverflow) };
        }
        let Some((key, stream)) = self.streams.find_mut(id) else {
            return if self.is_idle(id) { Err(Error::IdleStream) } else { Ok(Event::Handled) };
        };
        if by == 0 {
            return Ok(Event::Malformed { stream: key, why: Malformed::WindowByNothing });
        }
        if !stream.send.change(by) {
            return Ok(Event::Malformed { stream: key, why: Malformed::Window });
        }
        Ok(Event::Window)
    }

    /// RST_STREAM (RFC 9113 §6.4).
    fn reset_by_peer(&mut self, id: u32, payload: &[u8], io: &mut Io<'_>) -> Result<Event<'static>, Error> {
        let bytes: [u8; 4] = payload.try_into().map_err(|_| Error::FrameLength)?;
        if self.is_idle(id) {
            return Err(Error::IdleStream);
        }
        let code = Code::from_wire(u32::from_be_bytes(bytes));
        io.counts.received.resets[code as usize] += 1;
        self.reset.remove(&id);
        // One that comes after the stream's end says nothing new (§5.1).
        Ok(self.streams.find(id).map_or(Event::Handled, |stream| Event::Reset { stream, code }))
    }

    /// GOAWAY (RFC 9113 §6.8).
    fn go_away_by_peer(&mut self, payload: &[u8], io: &mut Io<'_>) -> Result<Event<'static>, Error> {
        let Some(([s0, s1, s2, s3, c0, c1, c2, c3], _debug)) = payload.split_first_chunk() else {
            return Err(Error::FrameLength);
        };
        let last = u32::from_be_bytes([s0 & 0x7F, *s1, *s2, *s3]);
        let code = Code::from_wire(u32::from_be_bytes([*c0, *c1, *c2, *c3]));
        io.counts.received.go_aways[code as usize] += 1;
        // It may come twice, and must not rise.
        self.last_stream = Some(self.last_stream.map_or(last, |before| before.min(last)));
        Ok(Event::GoAway { code })
    }
}

/// PING (RFC 9113 §6.7).
fn ping(header: &Header, payload: &[u8], io: &mut Io<'_>) -> Result<Event<'static>, Error> {
    if payload.len() != 8 {
        return Err(Error::FrameLength);
    }
    if !header.has(flag::ACK) {
        io.counts.pings += 1;
        frame::put_header(Kind::Ping, flag::ACK, 0, payload.len(), io.out);
        io.out.extend_from_slice(payload);
        io.counts.replies += (HEADER_BYTES + payload.len()) as u64;
        io.counts.sent.count(Kind::Ping);
    }
    Ok(Event::Handled)
}

impl<T> Stream<T> {
    /// What a part of its body means, of whose frame `left` bytes are to come, with which it `ends`; `end`: it has.
    #[inline]
    fn show<'i>(&mut self, key: Key, data: &'i [u8], left: u32, ends: bool, end: bool) -> Event<'i> {
        if let Some(expected) = &mut self.expected {
            // A frame is judged as a whole with its first part: what is seen of it does not depend on where it is cut.
            let whole = data.len() as u64 + u64::from(left);
            if whole > *expected || (ends && whole < *expected) {
                return Event::Malformed { stream: key, why: Malformed::BodyLength };
            }
            *expected -= data.len() as u64;
        }
        if data.is_empty() && !end { Event::Handled } else { Event::Body { stream: key, data, end } }
    }

    /// The first header block, or one after interim responses. Returns its status.
    #[inline]
    fn head(&mut self, seen: &Seen, informational: u8, end: bool) -> Result<u16, Malformed> {
        let status = seen.head()?;
        if status < 200 {
            if end || status == 101 {
                return Err(Malformed::Informational);
            }
            if informational == limits::INFORMATIONAL {
                return Err(Malformed::TooManyInformational);
            }
            self.phase = Phase::Head { informational: informational + 1 };
            return Ok(status);
        }
        // Such answers have no body, whatever length they tell (RFC 9110 §8.6, §15.3.5, §15.4.5).
        let is_bodiless = self.asked == Asked::Head || matches!(status, 204 | 304);
        self.expected = if is_bodiless { Some(0) } else { seen.content_length };
        if end && self.expected.is_some_and(|n| n > 0) {
            return Err(Malformed::BodyLength);
        }
        self.phase = Phase::Body;
        Ok(status)
    }

    fn trailers(&self, seen: &Seen, end: bool) -> Result<(), Malformed> {
        if !end {
            return Err(Malformed::Trailers);
        }
        seen.trailers()?;
        if self.expected.is_some_and(|n| n > 0) {
            return Err(Malformed::BodyLength);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9113 §5.1.1.
    #[test]
    fn a_connection_ends_with_its_identifiers() {
        let (mut out, mut counts) = (Vec::new(), Counts::default());
        let mut io = Io { out: &mut out, counts: &mut counts };
        let mut client = Client::new(Own::default(), 0, &mut io);
        client.next(&mut &[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &mut io).unwrap();
        client.next_id = i32::MAX as u32;
        assert!(client.room() > 0 && !client.is_draining());
        let ask = Ask { block: &[0x82], field_bytes: 0, body: &[], asked: Asked::Other, wants_fields: false };
        let (key, _) = client.request(&ask, (), &mut io);
        assert!(client.room() == 0 && client.is_draining());
        let mut answer = &[0, 0, 1, 1, 5, 0x7F, 0xFF, 0xFF, 0xFF, 0x88][..];
        let event = client.next(&mut answer, &mut io).unwrap();
        assert_eq!(event, Event::Head { stream: key, status: 200, end: true });
    }

    #[test]
    fn a_window_that_stays_shut_keeps_nothing_of_streams_that_are_gone() {
        let (mut out, mut counts) = (Vec::new(), Counts::default());
        let mut io = Io { out: &mut out, counts: &mut counts };
        let mut client = Client::new(Own::default(), 0, &mut io);
        client.next(&mut &[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &mut io).unwrap();
        let body = [0; 70_000];
        let ask = Ask { block: &[], field_bytes: 0, body: &body, asked: Asked::Other, wants_fields: false };
        for _ in 0..10 {
            let (key, is_whole) = client.request(&ask, (), &mut io);
            assert!(!is_whole);
            assert_eq!(client.blocked.len(), 1);
            client.finish(key, &mut io);
            let (key, _) = client.request(&ask, (), &mut io);
            client.take(key);
            client.request(&ask, (), &mut io);
            client.take_all();
        }
        assert!(client.blocked.is_empty());
    }
}
