//! Reads the bytes of both sides, and asserts that the client follows RFC 9113 and RFC 7541 even if
//! the server does not.

use std::collections::{BTreeMap, VecDeque};

use dyno_wire::h2::ErrorCode;
use dyno_wire::h2::frame::{FrameHeader, HEADER_BYTES, Kind, PREFACE, flag};
use dyno_wire::h2::hpack::Decoder;
use dyno_wire::h2::settings::{ClientSettings, DEFAULT_WINDOW};

use super::frames::{HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE};
use super::{Field, Observed, Sent};

const LARGEST_WINDOW: i64 = i32::MAX as i64;

pub struct ProtocolChecker {
    client_settings: ClientSettings,
    /// Bytes that were sent and not read yet.
    server_bytes: Vec<u8>,
    client_bytes: Vec<u8>,
    /// Bytes of the server's DATA that are still to come.
    data_left: usize,
    has_sent_preface: bool,
    has_sent_settings: bool,
    /// SETTINGS of the server that the client has not acknowledged.
    offered: VecDeque<Vec<(u16, u32)>>,
    initial_window: i64,
    max_frame_size: usize,
    decoder: Decoder,
    /// Bytes that the client may still send on the connection.
    window: i64,
    streams: BTreeMap<u32, Stream>,
    /// Requests whose head has not been read yet: fields, and length of the body.
    expected: VecDeque<(Vec<Field>, usize)>,
    block: Option<Block>,
    received: Received,
}

struct Stream {
    /// Bytes that the client may still send on the stream.
    window: i64,
    body_left: usize,
    has_ended: bool,
    is_reset: bool,
    received: Received,
}

/// DATA that the client received, and the WINDOW_UPDATEs that it sent.
struct Received {
    size: i64,
    window: i64,
    bytes: i64,
    updates: i64,
}

struct Block {
    stream: u32,
    end: bool,
    frames: usize,
    bytes: Vec<u8>,
}

impl Received {
    fn new(size: u32, announced: u32) -> Received {
        Received { size: size.into(), window: announced.into(), bytes: 0, updates: 0 }
    }

    fn take(&mut self, bytes: usize) {
        self.bytes += bytes as i64;
        self.window -= bytes as i64;
    }

    fn raise(&mut self, increment: u32) {
        assert!(
            (1..=LARGEST_WINDOW).contains(&increment.into()),
            "§6.9: a window is raised by 1 to 2³¹ − 1"
        );
        self.updates += 1;
        self.window += i64::from(increment);
        assert!(self.window <= LARGEST_WINDOW, "§6.9.1: a window is too large");
        assert!(self.window <= self.size.max(0), "a window is raised above its size");
    }

    /// Checks the number of updates. `initial`: updates before any data.
    fn check(&self, initial: i64) {
        let limit = 2 * self.bytes / self.size.max(1) + initial;
        assert!(self.updates <= limit, "{} WINDOW_UPDATEs for {} bytes", self.updates, self.bytes);
    }
}

impl ProtocolChecker {
    pub fn new(client_settings: ClientSettings, next_id: u32) -> ProtocolChecker {
        let mut checker = ProtocolChecker {
            client_settings,
            server_bytes: Vec::new(),
            client_bytes: Vec::new(),
            data_left: 0,
            has_sent_preface: false,
            has_sent_settings: false,
            offered: VecDeque::new(),
            initial_window: DEFAULT_WINDOW.into(),
            max_frame_size: 16_384,
            decoder: Decoder::new(4096),
            window: DEFAULT_WINDOW.into(),
            streams: BTreeMap::new(),
            expected: VecDeque::new(),
            block: None,
            received: Received::new(client_settings.connection_window, DEFAULT_WINDOW),
        };
        if next_id == 3 {
            checker.add_stream(1, 0).has_ended = true;
        }
        checker
    }

    /// Expects a request: the client is about to send it.
    pub fn expect(&mut self, fields: Vec<Field>, body: usize) {
        self.expected.push_back((sorted(fields), body));
    }

    pub fn has_sent_all(&self, id: u32) -> bool {
        self.streams[&id].has_ended
    }

    /// Bytes of DATA that the server may send on a stream.
    pub fn room_for(&self, id: u32) -> usize {
        self.received.window.min(self.streams[&id].received.window).max(0) as usize
    }

    fn add_stream(&mut self, id: u32, body_left: usize) -> &mut Stream {
        let stream = Stream {
            window: self.initial_window,
            body_left,
            has_ended: false,
            is_reset: false,
            received: Received::new(
                self.client_settings.stream_window,
                self.client_settings.stream_window,
            ),
        };
        assert!(self.streams.insert(id, stream).is_none(), "§5.1.1: stream {id} is opened again");
        self.streams.get_mut(&id).unwrap()
    }

    /// Reads bytes of the server that the client has handled.
    pub fn read_server(&mut self, bytes: &[u8]) {
        self.server_bytes.extend_from_slice(bytes);
        loop {
            let skipped = self.data_left.min(self.server_bytes.len());
            self.server_bytes.drain(..skipped);
            self.data_left -= skipped;
            let Some(header) = self.server_bytes.first_chunk().map(FrameHeader::parse) else {
                return;
            };
            let length = header.length as usize;
            if header.kind == Kind::Data {
                self.read_server_data(&header);
                continue;
            }
            if self.server_bytes.len() < HEADER_BYTES + length {
                return;
            }
            let payload: Vec<u8> =
                self.server_bytes.drain(..HEADER_BYTES + length).skip(HEADER_BYTES).collect();
            self.read_server_frame(&header, &payload);
        }
    }

    /// Counts a DATA frame, at its beginning.
    fn read_server_data(&mut self, header: &FrameHeader) {
        let length = header.length as usize;
        self.received.take(length);
        if let Some(stream) = self.streams.get_mut(&header.stream) {
            stream.received.take(length);
        }
        self.data_left = HEADER_BYTES + length;
    }

    /// Reads bytes that made the client fail. The client has counted a DATA frame that they begin.
    pub fn read_failed_bytes(&mut self, bytes: &[u8]) {
        self.server_bytes.extend_from_slice(bytes);
        if self.data_left == 0
            && let Some(header) = self.server_bytes.first_chunk().map(FrameHeader::parse)
            && header.kind == Kind::Data
        {
            self.read_server_data(&header);
        }
    }

    fn read_server_frame(&mut self, header: &FrameHeader, payload: &[u8]) {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_be_bytes);
        match header.kind {
            Kind::Settings if !header.has(flag::ACK) => self.offered.push_back(entries(payload)),
            Kind::WindowUpdate if header.stream == 0 => {
                self.window += i64::from(number(payload) & 0x7FFF_FFFF);
            }
            Kind::WindowUpdate => {
                if let Some(stream) = self.streams.get_mut(&header.stream) {
                    stream.window += i64::from(number(payload) & 0x7FFF_FFFF);
                }
            }
            Kind::RstStream => {
                if let Some(stream) = self.streams.get_mut(&header.stream) {
                    stream.is_reset = true;
                }
            }
            _ => {}
        }
    }

    /// Reads bytes of the client, and records its frames.
    pub fn read_client(&mut self, bytes: &[u8], events: &mut Vec<Observed>) {
        self.client_bytes.extend_from_slice(bytes);
        if !self.has_sent_preface {
            assert!(self.client_bytes.starts_with(PREFACE), "§3.4: the preface comes first");
            self.client_bytes.drain(..PREFACE.len());
            self.has_sent_preface = true;
        }
        while let Some(header) = self.client_bytes.first_chunk().map(FrameHeader::parse) {
            assert!(
                self.has_sent_settings || header.kind == Kind::Settings,
                "§3.4: SETTINGS follow the preface"
            );
            self.has_sent_settings = true;
            let whole = HEADER_BYTES + header.length as usize;
            let frame: Vec<u8> = self.client_bytes.drain(..whole).collect();
            assert_eq!(frame[5] & 0x80, 0, "§4.1: the reserved bit is 0");
            if let Some(sent) = self.read_client_frame(&header, &frame[HEADER_BYTES..], events) {
                events.push(Observed::Sent(sent));
            }
        }
        assert!(self.client_bytes.is_empty(), "half a frame is written");
        assert!(self.block.is_none(), "§6.10: a header block is left open");
    }

    fn read_client_frame(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        events: &mut Vec<Observed>,
    ) -> Option<Sent> {
        assert!(payload.len() <= self.max_frame_size, "§4.2: a frame of {} bytes", payload.len());
        assert_eq!(
            self.block.is_some(),
            header.kind == Kind::Continuation,
            "§6.10: a header block is not interrupted"
        );
        let id = header.stream;
        let needs_stream_zero = matches!(header.kind, Kind::Settings | Kind::Ping | Kind::GoAway);
        assert!(
            header.kind == Kind::WindowUpdate || needs_stream_zero == (id == 0),
            "§6: {header:?}"
        );
        let end = header.has(flag::END_STREAM);
        match header.kind {
            Kind::Headers => {
                assert!(header.flags & !(flag::END_STREAM | flag::END_HEADERS) == 0);
                let newest = self.streams.last_key_value().map_or(0, |(id, _)| *id);
                assert!(id % 2 == 1 && id > newest, "§5.1.1: {id} comes after {newest}");
                self.block = Some(Block { stream: id, end, frames: 0, bytes: Vec::new() });
                self.read_fragment(header, payload, events)
            }
            Kind::Continuation => self.read_fragment(header, payload, events),
            Kind::Data => {
                self.read_data(id, payload.len(), end);
                Some(Sent::Data(id, payload.len(), end))
            }
            Kind::RstStream => {
                let stream =
                    self.streams.get_mut(&id).expect("§6.4: RST_STREAM is of no idle stream");
                assert!(!stream.is_reset, "§5.4.2: stream {id} had been reset");
                stream.is_reset = true;
                Some(Sent::Reset(
                    id,
                    ErrorCode::from_wire(u32::from_be_bytes(payload.try_into().unwrap())),
                ))
            }
            Kind::WindowUpdate => {
                let increment = u32::from_be_bytes(payload.try_into().unwrap());
                self.read_window_update(id, increment);
                Some(Sent::Window(id, increment))
            }
            Kind::Settings if header.has(flag::ACK) => {
                assert!(payload.is_empty(), "§6.5: an acknowledgement is empty");
                self.apply_offered_settings();
                Some(Sent::Ack)
            }
            Kind::Settings => Some(Sent::Settings(entries(payload))),
            Kind::Ping => {
                assert!(header.has(flag::ACK), "the client does not send PING");
                Some(Sent::Pong(payload.try_into().unwrap()))
            }
            Kind::GoAway => Some(Sent::GoAway(ErrorCode::from_wire(u32::from_be_bytes(
                payload[4..8].try_into().unwrap(),
            )))),
            Kind::Priority | Kind::PushPromise | Kind::Unknown => {
                panic!("the client sent {header:?}")
            }
        }
    }

    /// Reads a part of a header block.
    fn read_fragment(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        events: &mut Vec<Observed>,
    ) -> Option<Sent> {
        let block = self.block.as_mut().expect("§6.10: CONTINUATION continues something");
        assert_eq!(block.stream, header.stream, "§6.10");
        block.frames += 1;
        block.bytes.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            return None;
        }
        let Block { stream, end, frames, bytes } = self.block.take()?;
        let mut fields = Vec::new();
        let decoded = self.decoder.decode(&bytes, |n, v| fields.push((n.to_vec(), v.to_vec())));
        assert_eq!(decoded, Ok(()), "§4.3: the server cannot read the header block");
        let (expected, body) = self.expected.pop_front().expect("a request was made");
        let has_pseudo_fields_first =
            fields.iter().skip_while(|(n, _)| n[0] == b':').all(|(n, _)| n[0] != b':');
        assert!(has_pseudo_fields_first, "§8.3: pseudo-header fields come first");
        assert_eq!(sorted(fields), expected);
        assert_eq!(end, body == 0);
        self.add_stream(stream, body).has_ended = end;
        let sizes = size_updates(&bytes);
        if !sizes.is_empty() {
            events.push(Observed::Sent(Sent::Sizes(sizes)));
        }
        Some(Sent::Headers(stream, frames, end))
    }

    fn read_data(&mut self, id: u32, length: usize, end: bool) {
        let stream = self.streams.get_mut(&id).expect("§6.1: DATA is of an open stream");
        assert!(!stream.has_ended && !stream.is_reset, "§5.1: DATA on a stream that is closed");
        stream.window -= length as i64;
        self.window -= length as i64;
        assert!(
            length == 0 || (stream.window >= 0 && self.window >= 0),
            "§6.9.1: DATA exceeds a window"
        );
        stream.body_left -= length;
        assert_eq!(end, stream.body_left == 0);
        stream.has_ended = end;
    }

    fn read_window_update(&mut self, id: u32, increment: u32) {
        if id == 0 {
            self.received.raise(increment);
            return self.received.check(1);
        }
        let stream = self.streams.get_mut(&id).expect("§6.9: WINDOW_UPDATE is of an open stream");
        assert!(!stream.is_reset, "§5.1: WINDOW_UPDATE on a stream that was reset");
        stream.received.raise(increment);
        stream.received.check(0);
    }

    /// Applies the oldest settings that the client has not acknowledged. After its acknowledgement
    /// the client must follow them (§6.5.3).
    fn apply_offered_settings(&mut self) {
        for (id, value) in self.offered.pop_front().expect("§6.5.3: an acknowledgement of nothing")
        {
            match id {
                HEADER_TABLE_SIZE => self.decoder.set_limit(value),
                INITIAL_WINDOW_SIZE => {
                    let difference = i64::from(value) - self.initial_window;
                    self.initial_window += difference;
                    self.streams.values_mut().for_each(|stream| stream.window += difference);
                }
                MAX_FRAME_SIZE => self.max_frame_size = value as usize,
                _ => {}
            }
        }
    }
}

fn entries(payload: &[u8]) -> Vec<(u16, u32)> {
    let entry =
        |e: &[u8]| (u16::from_be_bytes([e[0], e[1]]), u32::from_be_bytes([e[2], e[3], e[4], e[5]]));
    payload.chunks_exact(6).map(entry).collect()
}

fn sorted(mut fields: Vec<Field>) -> Vec<Field> {
    fields.sort();
    fields
}

/// The sizes that a block begins with (RFC 7541 §6.3).
fn size_updates(mut block: &[u8]) -> Vec<u32> {
    let mut sizes = Vec::new();
    while let Some((first @ 0x20..0x40, rest)) = block.split_first() {
        block = rest;
        let mut size = u32::from(first & 0x1F);
        let mut shift = 0;
        while size >= 0x1F {
            let (byte, rest) = block.split_first().unwrap();
            block = rest;
            size += u32::from(byte & 0x7F) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        sizes.push(size);
    }
    sizes
}
