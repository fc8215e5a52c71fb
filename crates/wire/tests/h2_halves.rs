//! Both halves of HTTP/2 against each other, over pipes that cut bytes anywhere.

use std::collections::{BTreeMap, VecDeque};

use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::client::{Client, ClientEvent, EncodedRequest, Io};
use dyno_wire::h2::encode::SharedFields;
use dyno_wire::h2::frame::{self, FrameHeader, Kind, flag};
use dyno_wire::h2::server::{self, Cut, EncodedAnswer, Server};
use dyno_wire::h2::settings::{ClientSettings, ServerSettings};
use dyno_wire::h2::{ErrorCode, FrameCounts, Http2Error};
use proptest::prelude::*;

/// One exchange as both sides must see it.
#[derive(Clone, Debug)]
struct Plan {
    request: usize,
    answer: usize,
    cut: Cut,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Answered right where it is read.
    Prompt,
    /// Answered after some other step.
    Deferred,
    Refused,
}

fn plan() -> impl Strategy<Value = Plan> {
    let size = || prop_oneof![Just(0usize), 1usize..50, 1usize..40_000];
    let cut = prop_oneof![Just(Cut::Two), Just(Cut::Three)];
    let fate =
        prop_oneof![4 => Just(Fate::Prompt), 4 => Just(Fate::Deferred), 1 => Just(Fate::Refused)];
    (size(), size(), cut, fate).prop_map(|(request, answer, cut, fate)| Plan {
        request,
        answer,
        cut,
        fate,
    })
}

/// A body whose bytes depend on their position.
fn body(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + seed) as u8).collect()
}

fn fields(index: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let path = format!("/{index}");
    [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", &path),
        ("x-same", "yes"),
    ]
    .map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec()))
    .to_vec()
}

/// The response to one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    body: Vec<u8>,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    Reset(ErrorCode),
}

struct World {
    plans: Vec<Plan>,
    shared: SharedFields,
    client: Client<usize>,
    server: Server,
    counts: FrameCounts,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    opened: usize,
    seen: Vec<Seen>,
    /// At the server: which request a stream is, and what of its body has come.
    asked: BTreeMap<u32, (usize, Vec<u8>)>,
    deferred: VecDeque<u32>,
    last_index: usize,
}

impl World {
    fn new(plans: Vec<Plan>, own: ClientSettings, settings: ServerSettings) -> World {
        let (mut to_server, mut to_client, mut counts) =
            (Vec::new(), Vec::new(), FrameCounts::default());
        let shared = SharedFields::from_requests(&[fields(0), fields(1)]);
        let mut io = Io { out: &mut to_server, counts: &mut counts };
        World {
            client: Client::new(own, shared.table_bytes(), &mut io),
            server: Server::new(settings, &mut to_client),
            seen: vec![Seen::default(); plans.len()],
            plans,
            shared,
            counts,
            to_server,
            to_client,
            opened: 0,
            asked: BTreeMap::new(),
            deferred: VecDeque::new(),
            last_index: 0,
        }
    }

    fn open(&mut self) {
        while self.opened < self.plans.len() && self.client.room() > 0 {
            let index = self.opened;
            self.opened += 1;
            let block = self.shared.encode(&fields(index));
            let body = body(index, self.plans[index].request);
            let request = EncodedRequest {
                block: block.form(self.client.form()),
                field_bytes: block.field_bytes,
                body: &body,
                kind: RequestKind::Other,
                wants_fields: false,
                holds_body: false,
            };
            let mut io = Io { out: &mut self.to_server, counts: &mut self.counts };
            self.client.request(&request, index, &mut io);
        }
    }

    /// The server reads up to `most` bytes.
    fn serve(&mut self, most: usize) {
        let bytes: Vec<u8> = self.to_server.drain(..most.min(self.to_server.len())).collect();
        let mut rest = &bytes[..];
        loop {
            let (used, event) = self.server.next(rest, &mut self.to_client).unwrap();
            rest = &rest[used..];
            let complete = match event {
                server::ServerEvent::NeedMore => break,
                server::ServerEvent::Handled => None,
                server::ServerEvent::Request { stream, end, repeated } => {
                    if !repeated {
                        let path =
                            self.server.fields().iter().find(|(n, _)| n == b":path").unwrap().1;
                        self.last_index = std::str::from_utf8(&path[1..]).unwrap().parse().unwrap();
                    }
                    self.asked.insert(stream, (self.last_index, Vec::new()));
                    end.then_some(stream)
                }
                server::ServerEvent::Body { stream, data, end } => {
                    self.asked.get_mut(&stream).unwrap().1.extend_from_slice(data);
                    end.then_some(stream)
                }
                server::ServerEvent::Reset { stream } => panic!("unexpected reset of {stream}"),
            };
            if let Some(stream) = complete {
                self.answer_or_defer(stream);
            }
        }
        assert!(rest.is_empty());
    }

    fn answer_or_defer(&mut self, stream: u32) {
        let (index, got) = &self.asked[&stream];
        let plan = &self.plans[*index];
        assert!(*got == body(*index, plan.request), "the body of request {index} came otherwise");
        match plan.fate {
            Fate::Prompt => self.answer(stream),
            Fate::Refused => {
                self.server.reset(stream, ErrorCode::RefusedStream, &mut self.to_client);
            }
            Fate::Deferred => {
                self.server.defer(stream);
                self.deferred.push_back(stream);
            }
        }
    }

    fn answer(&mut self, stream: u32) {
        let index = self.asked[&stream].0;
        let plan = &self.plans[index];
        let length = plan.answer.to_string();
        let fields = [(":status", "200"), ("content-length", &length)];
        let answer = EncodedAnswer::new(&fields, &body(index + 1, plan.answer), plan.cut);
        self.server.answer(stream, &answer, &mut self.to_client);
    }

    /// The client reads up to `most` bytes.
    fn read(&mut self, most: usize) {
        let bytes: Vec<u8> = self.to_client.drain(..most.min(self.to_client.len())).collect();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let mut io = Io { out: &mut self.to_server, counts: &mut self.counts };
            match self.client.next(&mut rest, &mut io).unwrap() {
                ClientEvent::Head { stream, status: 200, end } => self.ended(stream, end),
                ClientEvent::Body { stream, data, end } => {
                    let index = *self.client.data(stream).unwrap();
                    self.seen[index].body.extend_from_slice(data);
                    self.ended(stream, end);
                }
                ClientEvent::Reset { stream, code } => {
                    let index = self.client.take(stream);
                    self.seen[index].end = Some(End::Reset(code));
                }
                ClientEvent::Settings | ClientEvent::Window => {
                    self.client.resume(&mut io, &mut |_| {});
                }
                ClientEvent::Handled | ClientEvent::NeedMore => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn ended(&mut self, stream: dyno_wire::h2::StreamKey, end: bool) {
        if end {
            let mut io = Io { out: &mut self.to_server, counts: &mut self.counts };
            let index = *self.client.data(stream).unwrap();
            self.client.finish(stream, &mut io);
            self.seen[index].end = Some(End::Whole);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// However windows, cuts and turns fall, every request arrives whole and every response comes
    /// back whole.
    #[test]
    fn what_one_half_sends_the_other_reads(
        plans in proptest::collection::vec(plan(), 1..12),
        windows in (1u32..3000, 1u32..100_000, 1u32..3000),
        table in prop_oneof![Just(4096u32), Just(0), 0u32..10_000],
        max_streams in proptest::option::of(1u32..5),
        steps in proptest::collection::vec(1usize..5000, 8),
    ) {
        let own = ClientSettings {
            stream_window: windows.0,
            connection_window: windows.1,
            header_table_size: table,
        };
        let server = ServerSettings { max_streams, stream_window: windows.2 };
        let mut world = World::new(plans, own, server);
        let mut turns = steps.iter().cycle();
        let mut turn = || *turns.next().unwrap();
        for round in 0..200_000 {
            if world.seen.iter().all(|seen| seen.end.is_some()) {
                break;
            }
            world.open();
            prop_assert!(max_streams.is_none_or(|most| world.client.open() <= most as usize));
            world.serve(turn());
            if round % 3 == 0 && let Some(stream) = world.deferred.pop_back() {
                world.answer(stream);
            }
            world.read(turn());
        }
        for (index, (plan, seen)) in world.plans.iter().zip(&world.seen).enumerate() {
            if plan.fate == Fate::Refused {
                let refused = Some(End::Reset(ErrorCode::RefusedStream));
                prop_assert_eq!(seen.end, refused, "request {}", index);
            } else {
                prop_assert_eq!(seen.end, Some(End::Whole), "request {}", index);
                prop_assert_eq!(&seen.body, &body(index + 1, plan.answer));
            }
        }
        prop_assert_eq!((world.server.open(), world.client.open()), (0, 0));
    }

    /// Nothing makes a server panic, and it says and fails alike wherever its input is cut.
    #[test]
    fn server_reads_anything_in_any_pieces(
        begins_right in any::<bool>(), bytes in proptest::collection::vec(any::<u8>(), 0..200),
        frames in proptest::collection::vec((0u8..11, any::<u8>(), 0u32..6, 0usize..20), 0..20),
        piece in 1usize..30,
    ) {
        let mut input = if begins_right { frame::PREFACE.to_vec() } else { bytes.clone() };
        for (kind, flags, stream, length) in frames {
            let kind = Kind::from_wire(kind);
            let header = FrameHeader { length: length as u32, kind, flags, stream };
            if header.kind != Kind::Unknown {
                frame::put_header(header.kind, flags, stream, length, &mut input);
                input.extend(bytes.iter().cycle().take(if bytes.is_empty() { 0 } else { length }));
            }
        }
        prop_assert_eq!(served(&input, usize::MAX), served(&input, piece));
        prop_assert_eq!(served(&input, usize::MAX), served(&input, 1));
    }
}

/// Passes input to a server in pieces of this size. Returns its output, the number of requests and
/// resets, and its error.
fn served(input: &[u8], piece: usize) -> (Vec<u8>, usize, Option<Http2Error>) {
    let (mut out, mut events) = (Vec::new(), 0);
    let mut server = Server::new(ServerSettings::default(), &mut out);
    for mut rest in input.chunks(piece) {
        loop {
            match server.next(rest, &mut out) {
                Err(error) => return (out, events, Some(error)),
                Ok((used, event)) => {
                    rest = &rest[used..];
                    match event {
                        server::ServerEvent::NeedMore => break,
                        server::ServerEvent::Handled => {}
                        _ => events += 1,
                    }
                }
            }
        }
        assert!(rest.is_empty(), "asked for more with bytes unread");
    }
    (out, events, None)
}

#[test]
fn other_protocols_are_named_wherever_they_are_cut() {
    for (bytes, why) in [
        ("GET / HTTP/1.1\r\n", Http2Error::SpokeHttp1),
        // It begins like PRI.
        ("POST / HTTP/1.1\r\n", Http2Error::SpokeHttp1),
        ("PRI * HTTP/2.0\r\n\r\nXX", Http2Error::NoPreface),
    ] {
        assert_eq!(served(bytes.as_bytes(), usize::MAX).2, Some(why), "{bytes}");
        assert_eq!(served(bytes.as_bytes(), 1).2, Some(why), "{bytes}");
    }
}

/// A server that has read the preface, and what it said.
fn begun() -> (Server, Vec<u8>) {
    let mut out = Vec::new();
    let mut server = Server::new(ServerSettings::default(), &mut out);
    server.next(frame::PREFACE, &mut out).unwrap();
    out.clear();
    (server, out)
}

fn get(stream: u32, end: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    // :method GET, :scheme http, :path /
    frame::put_block(stream, &[0x82, 0x86, 0x84], end, 100, &mut bytes);
    bytes
}

fn data(stream: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::put_header(Kind::Data, flags, stream, payload.len(), &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn kinds(mut bytes: &[u8]) -> Vec<(Kind, u8, u32)> {
    let mut all = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk() {
        let header = FrameHeader::parse(header);
        all.push((header.kind, header.flags, header.stream));
        bytes = &rest[header.length as usize..];
    }
    all
}

#[test]
fn preface_tells_the_protocol_as_soon_as_it_can() {
    assert_eq!(server::is_spoken(b""), None);
    assert_eq!(server::is_spoken(b"P"), None);
    assert_eq!(server::is_spoken(b"PO"), Some(false));
    assert_eq!(server::is_spoken(b"GET / HTTP/1.1\r\n\r\n"), Some(false));
    assert_eq!(server::is_spoken(&frame::PREFACE[..23]), None);
    assert_eq!(server::is_spoken(&[frame::PREFACE, b"more"].concat()), Some(true));
}

#[test]
fn answers_lie_ready_in_two_or_three_frames() {
    let (mut server, mut out) = begun();
    let fields = [(":status", "200"), ("content-length", "2")];
    server.answer(7, &EncodedAnswer::new(&fields, b"ok", Cut::Two), &mut out);
    let head = (Kind::Headers, flag::END_HEADERS, 7);
    assert_eq!(kinds(&out), [head, (Kind::Data, flag::END_STREAM, 7)]);
    out.clear();
    server.answer(9, &EncodedAnswer::new(&fields, b"ok", Cut::Three), &mut out);
    let head = (Kind::Headers, flag::END_HEADERS, 9);
    assert_eq!(kinds(&out), [head, (Kind::Data, 0, 9), (Kind::Data, flag::END_STREAM, 9)]);
    out.clear();
    server.answer(11, &EncodedAnswer::new(&fields, b"", Cut::Three), &mut out);
    assert_eq!(kinds(&out), [(Kind::Headers, flag::END_HEADERS | flag::END_STREAM, 11)]);
}

#[test]
fn requests_that_repeat_are_recognised() {
    let (mut server, mut out) = begun();
    for (stream, repeated) in [(1, false), (3, true), (5, true)] {
        let request = get(stream, true);
        let event = server.next(&request, &mut out).unwrap().1;
        assert_eq!(event, server::ServerEvent::Request { stream, end: true, repeated });
    }
    assert_eq!(server.open(), 0);
}

#[test]
fn trailers_end_a_body_and_are_no_request() {
    let (mut server, mut out) = begun();
    assert_eq!(
        server.next(&get(1, false), &mut out).unwrap().1,
        server::ServerEvent::Request { stream: 1, end: false, repeated: false }
    );
    let mut padded = data(1, flag::PADDED, b"\x02ab..");
    assert_eq!(
        server.next(&padded, &mut out).unwrap().1,
        server::ServerEvent::Body { stream: 1, data: b"ab", end: false }
    );
    // The same in two parts.
    let tail = padded.split_off(7);
    assert_eq!(server.next(&padded, &mut out).unwrap(), (7, server::ServerEvent::NeedMore));
    assert_eq!(
        server.next(&tail, &mut out).unwrap(),
        (tail.len(), server::ServerEvent::Body { stream: 1, data: b"ab", end: false })
    );
    assert_eq!(
        server.next(&get(1, true), &mut out).unwrap().1,
        server::ServerEvent::Body { stream: 1, data: b"", end: true }
    );
    assert_eq!(server.next(&get(1, true), &mut out), Err(Http2Error::StreamClosed));
}

#[test]
fn window_of_a_stream_that_is_over_is_forgotten() {
    let (mut server, mut out) = begun();
    server.next(&get(1, true), &mut out).unwrap();
    server.answer(1, &EncodedAnswer::new(&[(":status", "200")], b"x", Cut::Two), &mut out);
    let mut update = Vec::new();
    frame::put_window_update(1, 1000, &mut update);
    server.next(&update, &mut out).unwrap();
    assert_eq!(server.open(), 0);
}

#[test]
fn deferred_stream_keeps_its_window() {
    let (mut server, mut out) = begun();
    let mut input = Vec::new();
    // SETTINGS_INITIAL_WINDOW_SIZE 0: nothing may be sent but by a WINDOW_UPDATE.
    frame::put_header(Kind::Settings, 0, 0, 6, &mut input);
    input.extend_from_slice(&[0, 4, 0, 0, 0, 0]);
    server.next(&input, &mut out).unwrap();
    server.next(&get(1, true), &mut out).unwrap();
    server.defer(1);
    let mut update = Vec::new();
    frame::put_window_update(1, 3, &mut update);
    server.next(&update, &mut out).unwrap();
    out.clear();
    server.answer(1, &EncodedAnswer::new(&[(":status", "200")], b"abcde", Cut::Two), &mut out);
    assert_eq!(kinds(&out), [(Kind::Headers, flag::END_HEADERS, 1), (Kind::Data, 0, 1)]);
    assert!(out.ends_with(b"abc"));
    server.next(&update, &mut out).unwrap();
    assert!(out.ends_with(b"de"));
    assert_eq!(server.open(), 0);
}

#[test]
fn after_go_away_later_streams_are_passed_over() {
    let (mut server, mut out) = begun();
    server.next(&get(1, false), &mut out).unwrap();
    server.go_away(ErrorCode::NoError, &mut out);
    assert!(out.ends_with(&[0, 0, 0, 1, 0, 0, 0, 0]));
    for input in [get(3, false), data(3, flag::END_STREAM, b"late")] {
        assert_eq!(server.next(&input, &mut out).unwrap().1, server::ServerEvent::Handled);
    }
    // Streams that were opened before continue.
    assert_eq!(
        server.next(&data(1, flag::END_STREAM, b"x"), &mut out).unwrap().1,
        server::ServerEvent::Body { stream: 1, data: b"x", end: true }
    );
}

#[test]
fn client_may_say_that_it_takes_pushes() {
    let (mut server, mut out) = begun();
    let mut input = Vec::new();
    frame::put_header(Kind::Settings, 0, 0, 6, &mut input);
    input.extend_from_slice(&[0, 2, 0, 0, 0, 1]);
    assert!(server.next(&input, &mut out).is_ok());
}
