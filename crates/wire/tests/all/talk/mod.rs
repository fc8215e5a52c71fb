//! Conversations between the HTTP/2 client and a scripted server. The server's bytes arrive in any
//! pieces, and the client's events and frames are recorded. A checker asserts that the client
//! follows RFC 9113 and RFC 7541.

// Each test uses a part of this module.
#![allow(dead_code)]

mod checker;
pub mod frames;

use std::collections::VecDeque;

use checker::ProtocolChecker;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::encode::SharedFields;
use dyno_wire::h2::settings::ClientSettings;
use dyno_wire::h2::{
    Client, ClientEvent, EncodedRequest, ErrorCode, FrameCounts, Http2Error, Io, Malformed,
    StreamKey,
};
pub use frames::Step;

/// An event or a frame of the client. Their order does not depend on the pieces of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    Settings,
    Window,
    Interim(u32, u16),
    Head(u32, u16),
    /// All bytes until another event.
    Body(u32, Vec<u8>),
    /// The head or the body ended the response.
    End(u32),
    /// Trailers ended the response.
    Trailers(u32),
    Reset(u32, ErrorCode),
    /// A malformed stream, with the code that was sent to the peer.
    Malformed(u32, Malformed, ErrorCode),
    /// GOAWAY, with the streams that were not processed.
    GoAway(ErrorCode, Vec<u32>),
    /// A connection error, with the code that was sent to the peer.
    Error(Http2Error, ErrorCode),
    /// The rest of a request's body is queued.
    Whole(u32),
    Room(usize),
    Sent(Sent),
}

/// Frames of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    Settings(Vec<(u16, u32)>),
    Ack,
    Pong([u8; 8]),
    /// Size updates that begin the next header block.
    Sizes(Vec<u32>),
    /// A header block: stream, number of frames, and whether it ends the stream.
    Headers(u32, usize, bool),
    Data(u32, usize, bool),
    Reset(u32, ErrorCode),
    Window(u32, u32),
    GoAway(ErrorCode),
}

pub type Field = (Vec<u8>, Vec<u8>);

pub fn fields(list: &[(&str, &str)]) -> Vec<Field> {
    list.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect()
}

/// A request of a test.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub kind: RequestKind,
    pub body: usize,
    /// Length of the value of an additional field; 0: no such field.
    pub field: usize,
    pub wants_fields: bool,
}

impl Request {
    pub fn get() -> Request {
        Request { kind: RequestKind::Other, body: 0, field: 0, wants_fields: false }
    }

    pub fn post(body: usize) -> Request {
        Request { body, ..Request::get() }
    }

    pub fn fields(self) -> Vec<Field> {
        let method = match self.kind {
            RequestKind::Head => "HEAD",
            _ if self.body > 0 => "POST",
            _ => "GET",
        };
        let mut all = fields(&[
            (":method", method),
            (":scheme", "http"),
            (":authority", "server.example:8080"),
            (":path", "/path"),
            ("user-agent", "dyno"),
        ]);
        if self.field > 0 {
            all.push((b"x-long".to_vec(), vec![b'~'; self.field]));
        }
        all
    }
}

/// A conversation between the client and the caller of [`Talk::receive`], which acts as the server.
pub struct Talk {
    pub client: Client<u32>,
    pub counts: FrameCounts,
    pub events: Vec<Observed>,
    checker: ProtocolChecker,
    shared: SharedFields,
    out: Vec<u8>,
    /// All bytes that the client wrote.
    pub written: Vec<u8>,
    next_id: u32,
    /// Sent one after the other, whenever another stream may be opened.
    pub requests: VecDeque<Request>,
    /// Largest number of streams that are open at once.
    pub max_open: usize,
    /// This stream is cancelled when its head has arrived.
    pub cancelled_stream: Option<u32>,
    pub has_ended: bool,
    /// Fields of the last head whose request has `wants_fields`.
    pub head: Vec<Field>,
}

impl Talk {
    pub fn new(client_settings: ClientSettings) -> Talk {
        let (mut out, mut counts) = (Vec::new(), FrameCounts::default());
        let shared = shared();
        let mut io = Io { out: &mut out, counts: &mut counts };
        let client = Client::new(client_settings, shared.table_bytes(), &mut io);
        Talk::from_client(client, client_settings, out, counts, 1)
    }

    /// A connection that was upgraded, with stream 1 open.
    pub fn upgraded(client_settings: ClientSettings, kind: RequestKind) -> Talk {
        let (mut out, mut counts) = (Vec::new(), FrameCounts::default());
        let mut io = Io { out: &mut out, counts: &mut counts };
        let (client, _) = Client::from_upgrade(
            client_settings,
            shared().table_bytes(),
            (kind, false),
            1,
            &mut io,
        );
        Talk::from_client(client, client_settings, out, counts, 3)
    }

    fn from_client(
        client: Client<u32>,
        client_settings: ClientSettings,
        out: Vec<u8>,
        counts: FrameCounts,
        next_id: u32,
    ) -> Talk {
        let mut talk = Talk {
            client,
            counts,
            events: Vec::new(),
            checker: ProtocolChecker::new(client_settings, next_id),
            shared: shared(),
            out,
            written: Vec::new(),
            next_id,
            requests: VecDeque::new(),
            max_open: 4,
            cancelled_stream: None,
            has_ended: false,
            head: Vec::new(),
        };
        talk.check_output();
        talk
    }

    /// Passes bytes of the server to the client in one piece.
    pub fn receive(&mut self, mut bytes: &[u8]) {
        while !self.has_ended && !bytes.is_empty() {
            let mut io = Io { out: &mut self.out, counts: &mut self.counts };
            let mut rest = bytes;
            let event = match self.client.next(&mut rest, &mut io) {
                Ok(event) => event,
                Err(error) => {
                    self.checker.read_failed_bytes(bytes);
                    return self.handle_error(error);
                }
            };
            let (used_bytes, rest) = bytes.split_at(bytes.len() - rest.len());
            self.checker.read_server(used_bytes);
            assert!(
                event != ClientEvent::NeedMore || rest.is_empty(),
                "{} bytes were left unread",
                rest.len()
            );
            assert!(
                event == ClientEvent::NeedMore || !used_bytes.is_empty(),
                "{event:?} without a byte of input"
            );
            bytes = rest;
            self.check_output();
            self.handle_event(event);
            self.check_output();
            while self.client.open_streams() < self.max_open
                && self.client.room() > 0
                && let Some(request) = self.requests.pop_front()
            {
                self.send_request(request);
            }
        }
    }

    /// Handles an event as the documentation of the client requires.
    fn handle_event(&mut self, event: ClientEvent<'_>) {
        match event {
            ClientEvent::NeedMore | ClientEvent::Handled => {}
            ClientEvent::Settings => {
                self.events.push(Observed::Settings);
                self.resume();
            }
            ClientEvent::Window => {
                self.events.push(Observed::Window);
                self.resume();
            }
            ClientEvent::Informational { stream, status } => {
                let id = self.id(stream);
                self.events.push(Observed::Interim(id, status));
            }
            ClientEvent::Head { stream, status, end } => {
                let (id, fields) = self.client.value_and_fields(stream);
                self.head = fields.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
                let id = *id;
                self.events.push(Observed::Head(id, status));
                if end {
                    self.finish(stream, Observed::End);
                } else if self.cancelled_stream == Some(id) {
                    self.cancel(id);
                }
            }
            ClientEvent::Body { stream, data, end } => {
                let id = self.id(stream);
                match self.events.last_mut() {
                    Some(Observed::Body(last, body)) if *last == id => body.extend_from_slice(data),
                    _ if data.is_empty() => {}
                    _ => self.events.push(Observed::Body(id, data.to_vec())),
                }
                if end {
                    self.finish(stream, Observed::End);
                }
            }
            ClientEvent::End { stream } => self.finish(stream, Observed::Trailers),
            ClientEvent::Reset { stream, code } => {
                let id = self.client.take(stream);
                self.events.push(Observed::Reset(id, code));
            }
            ClientEvent::Malformed { stream, violation } => {
                let mut io = Io { out: &mut self.out, counts: &mut self.counts };
                let id = self.client.cancel(stream, violation.code(), &mut io);
                self.check_output();
                let Some(Observed::Sent(Sent::Reset(reset, code))) = self.events.pop() else {
                    panic!("no RST_STREAM")
                };
                assert_eq!(reset, id);
                self.events.push(Observed::Malformed(id, violation, code));
            }
            ClientEvent::GoAway { code } => {
                let unprocessed = self.client.take_unprocessed();
                self.events.push(Observed::GoAway(code, unprocessed));
            }
        }
    }

    fn id(&mut self, stream: StreamKey) -> u32 {
        *self.client.value(stream).expect("events are of open streams")
    }

    fn finish(&mut self, stream: StreamKey, event: fn(u32) -> Observed) {
        self.check_output();
        let mut io = Io { out: &mut self.out, counts: &mut self.counts };
        let id = *self.client.value(stream).unwrap();
        self.client.finish(stream, &mut io);
        self.events.push(event(id));
        if self.checker.has_sent_all(id) {
            assert!(
                self.out.is_empty(),
                "a stream that is closed on both sides is left alone (§5.1)"
            );
        }
    }

    fn resume(&mut self) {
        let mut whole = Vec::new();
        let mut io = Io { out: &mut self.out, counts: &mut self.counts };
        self.client.resume(&mut io, &mut |id| whole.push(*id));
        self.check_output();
        self.events.extend(whole.into_iter().map(Observed::Whole));
    }

    fn handle_error(&mut self, error: Http2Error) {
        self.check_output();
        self.client.go_away(error.code(), &mut Io { out: &mut self.out, counts: &mut self.counts });
        self.check_output();
        let Some(Observed::Sent(Sent::GoAway(code))) = self.events.pop() else {
            panic!("no GOAWAY")
        };
        self.events.push(Observed::Error(error, code));
        self.has_ended = true;
        let open = self.client.open_streams();
        assert_eq!(self.client.take_all().len(), open);
    }

    /// Sends a request. The client must have room for a stream. Returns the stream.
    pub fn send_request(&mut self, request: Request) -> u32 {
        assert!(self.client.room() > 0, "no room for a stream");
        let id = self.next_id;
        self.next_id += 2;
        let fields = request.fields();
        let block = self.shared.encode(&fields);
        self.checker.expect(fields, request.body);
        let body = vec![b'x'; request.body];
        let request = EncodedRequest {
            block: block.form(self.client.form()),
            field_bytes: block.field_bytes,
            body: &body,
            kind: request.kind,
            wants_fields: request.wants_fields,
            holds_body: false,
        };
        let mut io = Io { out: &mut self.out, counts: &mut self.counts };
        let (key, is_whole) = self.client.request(&request, id, &mut io);
        assert_eq!(self.client.value(key), Some(&mut id.clone()));
        self.check_output();
        assert_eq!(self.checker.has_sent_all(id), is_whole);
        id
    }

    /// Bytes of DATA that the server may send on an open stream.
    pub fn room_for(&self, id: u32) -> usize {
        self.checker.room_for(id)
    }

    /// Cancels a stream. It must be open.
    pub fn cancel(&mut self, id: u32) {
        let (key, _) =
            self.client.iter().find(|(_, open)| **open == id).expect("the stream is open");
        let mut io = Io { out: &mut self.out, counts: &mut self.counts };
        assert_eq!(self.client.cancel(key, ErrorCode::Cancel, &mut io), id);
        self.check_output();
    }

    pub fn step(&mut self, step: &Step, cut: usize) {
        match step {
            Step::Receive(bytes) => bytes.chunks(cut).for_each(|piece| self.receive(piece)),
            Step::Send(request) => drop(self.send_request(*request)),
            Step::Cancel(id) => self.cancel(*id),
            Step::Room => self.events.push(Observed::Room(self.client.room())),
        }
    }

    /// Checks the client's output, and records its frames.
    fn check_output(&mut self) {
        self.checker.read_client(&self.out, &mut self.events);
        self.written.append(&mut self.out);
    }
}

/// The header fields that all requests share.
fn shared() -> SharedFields {
    SharedFields::from_requests(&[Request::get().fields(), Request::post(1).fields()])
}
