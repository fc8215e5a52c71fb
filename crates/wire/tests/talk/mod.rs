//! Conversations between the HTTP/2 client and a scripted server: what the server says goes in, in
//! any pieces, and what the client saw and said comes out in one order. A witness holds the client
//! to RFC 9113 and RFC 7541 all the while.

// Each test uses its part.
#![allow(dead_code)]

pub mod frames;
mod witness;

use std::collections::VecDeque;

use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::encode::SharedFields;
use dyno_wire::h2::settings::ClientSettings;
use dyno_wire::h2::{
    Client, ClientEvent, EncodedRequest, ErrorCode, FrameCounts, Http2Error, Io, Malformed,
    StreamKey,
};
pub use frames::Step;
use witness::Witness;

/// Events, in an order that does not depend on how the bytes were cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Settings,
    Window,
    Interim(u32, u16),
    Head(u32, u16),
    /// All that came until something else happened.
    Body(u32, Vec<u8>),
    /// The head or the body ended the response.
    End(u32),
    /// Trailers did.
    Trailers(u32),
    Reset(u32, ErrorCode),
    /// A malformed stream, with the code that was sent to the peer.
    Malformed(u32, Malformed, ErrorCode),
    /// GOAWAY, with the streams that count as not processed.
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
    /// A header block in so many frames. `true`: it ends the stream.
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

/// A request as tests make it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub kind: RequestKind,
    pub body: usize,
    /// Length of one more field's value.
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

/// A conversation between the client and the caller of [`Talk::hear`], which acts as the server.
pub struct Talk {
    pub client: Client<u32>,
    pub counts: FrameCounts,
    pub seen: Vec<Seen>,
    witness: Witness,
    shared: SharedFields,
    out: Vec<u8>,
    /// All bytes that the client wrote.
    pub written: Vec<u8>,
    next_id: u32,
    /// Made one after the other, whenever there is room.
    pub requests: VecDeque<Request>,
    /// And fewer than these are open.
    pub under_way: usize,
    /// This stream is given up when its head has come.
    pub gives_up: Option<u32>,
    pub is_over: bool,
    /// Fields of the last head of a stream that wanted them.
    pub head: Vec<Field>,
}

impl Talk {
    pub fn new(own: ClientSettings) -> Talk {
        let (mut out, mut counts) = (Vec::new(), FrameCounts::default());
        let shared = shared();
        let mut io = Io { out: &mut out, counts: &mut counts };
        let client = Client::new(own, shared.table_bytes(), &mut io);
        Talk::from_client(client, own, out, counts, 1)
    }

    /// A connection that was upgraded, and whose stream 1 is there.
    pub fn upgraded(own: ClientSettings, kind: RequestKind) -> Talk {
        let (mut out, mut counts) = (Vec::new(), FrameCounts::default());
        let mut io = Io { out: &mut out, counts: &mut counts };
        let (client, _) =
            Client::from_upgrade(own, shared().table_bytes(), (kind, false), 1, &mut io);
        Talk::from_client(client, own, out, counts, 3)
    }

    fn from_client(
        client: Client<u32>,
        own: ClientSettings,
        out: Vec<u8>,
        counts: FrameCounts,
        next_id: u32,
    ) -> Talk {
        let mut talk = Talk {
            client,
            counts,
            seen: Vec::new(),
            witness: Witness::new(own, next_id),
            shared: shared(),
            out,
            written: Vec::new(),
            next_id,
            requests: VecDeque::new(),
            under_way: 4,
            gives_up: None,
            is_over: false,
            head: Vec::new(),
        };
        talk.overhear();
        talk
    }

    /// The server's bytes arrive, as one piece.
    pub fn receive(&mut self, mut bytes: &[u8]) {
        while !self.is_over && !bytes.is_empty() {
            let mut io = Io { out: &mut self.out, counts: &mut self.counts };
            let mut rest = bytes;
            let event = match self.client.next(&mut rest, &mut io) {
                Ok(event) => event,
                Err(error) => {
                    self.witness.server_fails(bytes);
                    return self.give_up(error);
                }
            };
            let (used_bytes, rest) = bytes.split_at(bytes.len() - rest.len());
            self.witness.server(used_bytes);
            assert!(
                event != ClientEvent::NeedMore || rest.is_empty(),
                "{} bytes were left unread",
                rest.len()
            );
            assert!(
                event == ClientEvent::NeedMore || !used_bytes.is_empty(),
                "{event:?} came out of nothing"
            );
            bytes = rest;
            self.overhear();
            self.take(event);
            self.overhear();
            while self.client.open() < self.under_way
                && self.client.room() > 0
                && let Some(request) = self.requests.pop_front()
            {
                self.ask(request);
            }
        }
    }

    /// Does with an event what the contract asks for.
    fn take(&mut self, event: ClientEvent<'_>) {
        match event {
            ClientEvent::NeedMore | ClientEvent::Handled => {}
            ClientEvent::Settings => {
                self.seen.push(Seen::Settings);
                self.resume();
            }
            ClientEvent::Window => {
                self.seen.push(Seen::Window);
                self.resume();
            }
            ClientEvent::Informational { stream, status } => {
                let id = self.id(stream);
                self.seen.push(Seen::Interim(id, status));
            }
            ClientEvent::Head { stream, status, end } => {
                let (id, fields) = self.client.data_and_fields(stream);
                self.head = fields.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
                let id = *id;
                self.seen.push(Seen::Head(id, status));
                if end {
                    self.finish(stream, Seen::End);
                } else if self.gives_up == Some(id) {
                    self.cancel(id);
                }
            }
            ClientEvent::Body { stream, data, end } => {
                let id = self.id(stream);
                match self.seen.last_mut() {
                    Some(Seen::Body(last, body)) if *last == id => body.extend_from_slice(data),
                    _ if data.is_empty() => {}
                    _ => self.seen.push(Seen::Body(id, data.to_vec())),
                }
                if end {
                    self.finish(stream, Seen::End);
                }
            }
            ClientEvent::End { stream } => self.finish(stream, Seen::Trailers),
            ClientEvent::Reset { stream, code } => {
                let id = self.client.take(stream);
                self.seen.push(Seen::Reset(id, code));
            }
            ClientEvent::Malformed { stream, why } => {
                let mut io = Io { out: &mut self.out, counts: &mut self.counts };
                let id = self.client.cancel(stream, why.code(), &mut io);
                self.overhear();
                let Some(Seen::Sent(Sent::Reset(reset, code))) = self.seen.pop() else {
                    panic!("no RST_STREAM")
                };
                assert_eq!(reset, id);
                self.seen.push(Seen::Malformed(id, why, code));
            }
            ClientEvent::GoAway { code } => {
                let unprocessed = self.client.take_unprocessed();
                self.seen.push(Seen::GoAway(code, unprocessed));
            }
        }
    }

    fn id(&mut self, stream: StreamKey) -> u32 {
        *self.client.data(stream).expect("events are of open streams")
    }

    fn finish(&mut self, stream: StreamKey, seen: fn(u32) -> Seen) {
        self.overhear();
        let mut io = Io { out: &mut self.out, counts: &mut self.counts };
        let id = *self.client.data(stream).unwrap();
        self.client.finish(stream, &mut io);
        self.seen.push(seen(id));
        if self.witness.has_sent_all(id) {
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
        self.overhear();
        self.seen.extend(whole.into_iter().map(Seen::Whole));
    }

    fn give_up(&mut self, error: Http2Error) {
        self.overhear();
        self.client.go_away(error.code(), &mut Io { out: &mut self.out, counts: &mut self.counts });
        self.overhear();
        let Some(Seen::Sent(Sent::GoAway(code))) = self.seen.pop() else { panic!("no GOAWAY") };
        self.seen.push(Seen::Error(error, code));
        self.is_over = true;
        let open = self.client.open();
        assert_eq!(self.client.take_all().len(), open);
    }

    /// Makes a request. There must be room. Returns its stream.
    pub fn ask(&mut self, request: Request) -> u32 {
        assert!(self.client.room() > 0, "no room for a stream");
        let id = self.next_id;
        self.next_id += 2;
        let fields = request.fields();
        let block = self.shared.encode(&fields);
        self.witness.expect(fields, request.body);
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
        assert_eq!(self.client.data(key), Some(&mut id.clone()));
        self.overhear();
        assert_eq!(self.witness.has_sent_all(id), is_whole);
        id
    }

    /// How much DATA the server may send on an open stream.
    pub fn room_for(&self, id: u32) -> usize {
        self.witness.room_for(id)
    }

    /// Gives a stream up. It must be open.
    pub fn cancel(&mut self, id: u32) {
        let (key, _) =
            self.client.iter().find(|(_, open)| **open == id).expect("the stream is open");
        let mut io = Io { out: &mut self.out, counts: &mut self.counts };
        assert_eq!(self.client.cancel(key, ErrorCode::Cancel, &mut io), id);
        self.overhear();
    }

    pub fn step(&mut self, step: &Step, cut: usize) {
        match step {
            Step::Says(bytes) => bytes.chunks(cut).for_each(|piece| self.receive(piece)),
            Step::Asks(request) => drop(self.ask(*request)),
            Step::Cancels(id) => self.cancel(*id),
            Step::Room => self.seen.push(Seen::Room(self.client.room())),
        }
    }

    /// Reads what the client wrote.
    fn overhear(&mut self) {
        self.witness.client(&self.out, &mut self.seen);
        self.written.append(&mut self.out);
    }
}

/// The header fields that all requests share.
fn shared() -> SharedFields {
    SharedFields::from_requests(&[Request::get().fields(), Request::post(1).fields()])
}
