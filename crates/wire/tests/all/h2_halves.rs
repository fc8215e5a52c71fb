//! Tests the client and the server half of HTTP/2 with each other. Their bytes arrive in any
//! pieces.

use std::collections::{BTreeMap, VecDeque};

use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::client::{Client, ClientEvent, EncodedRequest, Io};
use dyno_wire::h2::encode::SharedFields;
use dyno_wire::h2::frame::{self, FrameHeader, Kind, flag};
use dyno_wire::h2::server::{self, EncodedResponse, FrameLayout, Server};
use dyno_wire::h2::settings::{ClientSettings, ServerSettings};
use dyno_wire::h2::{ErrorCode, FrameCounts, Http2Error};
use proptest::prelude::*;

/// One exchange: the lengths of both bodies, and the action of the server.
#[derive(Clone, Debug)]
struct ExchangePlan {
    request: usize,
    response: usize,
    layout: FrameLayout,
    action: ServerAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerAction {
    /// The response is sent when the request is read.
    Respond,
    /// The response is sent after other steps.
    Defer,
    Refuse,
}

fn plan() -> impl Strategy<Value = ExchangePlan> {
    let size = || prop_oneof![Just(0usize), 1usize..50, 1usize..40_000];
    let layout = prop_oneof![Just(FrameLayout::Two), Just(FrameLayout::Three)];
    let action = prop_oneof![
        4 => Just(ServerAction::Respond),
        4 => Just(ServerAction::Defer),
        1 => Just(ServerAction::Refuse),
    ];
    (size(), size(), layout, action).prop_map(|(request, response, layout, action)| ExchangePlan {
        request,
        response,
        layout,
        action,
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

/// The response that the client received to one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ReceivedResponse {
    body: Vec<u8>,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    Reset(ErrorCode),
}

struct ConnectionPair {
    plans: Vec<ExchangePlan>,
    shared: SharedFields,
    client: Client<usize>,
    server: Server,
    counts: FrameCounts,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    opened: usize,
    responses: Vec<ReceivedResponse>,
    /// At the server, by stream: the index of the request, and the received part of its body.
    requests: BTreeMap<u32, (usize, Vec<u8>)>,
    deferred: VecDeque<u32>,
    last_index: usize,
}

impl ConnectionPair {
    fn new(
        plans: Vec<ExchangePlan>,
        client_settings: ClientSettings,
        settings: ServerSettings,
    ) -> ConnectionPair {
        let (mut to_server, mut to_client, mut counts) =
            (Vec::new(), Vec::new(), FrameCounts::default());
        let shared = SharedFields::from_requests(&[fields(0), fields(1)]);
        let mut io = Io { out: &mut to_server, counts: &mut counts };
        ConnectionPair {
            client: Client::new(client_settings, shared.table_bytes(), &mut io),
            server: Server::new(settings, &mut to_client),
            responses: vec![ReceivedResponse::default(); plans.len()],
            plans,
            shared,
            counts,
            to_server,
            to_client,
            opened: 0,
            requests: BTreeMap::new(),
            deferred: VecDeque::new(),
            last_index: 0,
        }
    }

    fn open_streams(&mut self) {
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
                // Every other body is released by a separate call.
                holds_body: index % 2 == 1,
            };
            let mut io = Io { out: &mut self.to_server, counts: &mut self.counts };
            let (stream, _) = self.client.request(&request, index, &mut io);
            if request.holds_body {
                self.client.release_body(stream, &mut io);
            }
        }
    }

    /// Lets the server read up to `limit` bytes.
    fn serve(&mut self, limit: usize) {
        let bytes: Vec<u8> = self.to_server.drain(..limit.min(self.to_server.len())).collect();
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
                    self.requests.insert(stream, (self.last_index, Vec::new()));
                    end.then_some(stream)
                }
                server::ServerEvent::Body { stream, data, end } => {
                    self.requests.get_mut(&stream).unwrap().1.extend_from_slice(data);
                    end.then_some(stream)
                }
                server::ServerEvent::Reset { stream } => panic!("unexpected reset of {stream}"),
            };
            if let Some(stream) = complete {
                self.handle_request(stream);
            }
        }
        assert!(rest.is_empty());
    }

    fn handle_request(&mut self, stream: u32) {
        let (index, received) = &self.requests[&stream];
        let plan = &self.plans[*index];
        assert!(*received == body(*index, plan.request), "the body of request {index} differs");
        match plan.action {
            ServerAction::Respond => self.respond(stream),
            ServerAction::Refuse => {
                self.server.reset(stream, ErrorCode::RefusedStream, &mut self.to_client);
            }
            ServerAction::Defer => {
                self.server.defer(stream);
                self.deferred.push_back(stream);
            }
        }
    }

    fn respond(&mut self, stream: u32) {
        let index = self.requests[&stream].0;
        let plan = &self.plans[index];
        let length = plan.response.to_string();
        let fields = [(":status", "200"), ("content-length", &length)];
        let response = EncodedResponse::new(&fields, &body(index + 1, plan.response), plan.layout);
        self.server.respond(stream, &response, &mut self.to_client);
    }

    /// Lets the client read up to `limit` bytes.
    fn read(&mut self, limit: usize) {
        let bytes: Vec<u8> = self.to_client.drain(..limit.min(self.to_client.len())).collect();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let mut io = Io { out: &mut self.to_server, counts: &mut self.counts };
            match self.client.next(&mut rest, &mut io).unwrap() {
                ClientEvent::Head { stream, status: 200, end } => self.finish_if(stream, end),
                ClientEvent::Body { stream, data, end } => {
                    let index = *self.client.value(stream).unwrap();
                    self.responses[index].body.extend_from_slice(data);
                    self.finish_if(stream, end);
                }
                ClientEvent::Reset { stream, code } => {
                    let index = self.client.take(stream);
                    self.responses[index].end = Some(End::Reset(code));
                }
                ClientEvent::Settings | ClientEvent::Window => {
                    self.client.resume(&mut io, &mut |_| {});
                }
                ClientEvent::Handled | ClientEvent::NeedMore => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn finish_if(&mut self, stream: dyno_wire::h2::StreamKey, end: bool) {
        if end {
            let mut io = Io { out: &mut self.to_server, counts: &mut self.counts };
            let index = *self.client.value(stream).unwrap();
            self.client.finish(stream, &mut io);
            self.responses[index].end = Some(End::Whole);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// All requests and responses arrive whole for any windows, pieces and order of turns.
    #[test]
    fn client_and_server_exchange_whole_messages(
        plans in proptest::collection::vec(plan(), 1..12),
        windows in (1u32..3000, 1u32..100_000, 1u32..3000),
        table in prop_oneof![Just(4096u32), Just(0), 0u32..10_000],
        max_streams in proptest::option::of(1u32..5),
        steps in proptest::collection::vec(1usize..5000, 8),
    ) {
        let client_settings = ClientSettings {
            stream_window: windows.0,
            connection_window: windows.1,
            header_table_size: table,
        };
        let server = ServerSettings { max_streams, stream_window: windows.2 };
        let mut pair = ConnectionPair::new(plans, client_settings, server);
        let mut turns = steps.iter().cycle();
        let mut turn = || *turns.next().unwrap();
        for round in 0..200_000 {
            if pair.responses.iter().all(|response| response.end.is_some()) {
                break;
            }
            pair.open_streams();
            let open = pair.client.open_streams();
            prop_assert!(max_streams.is_none_or(|limit| open <= limit as usize));
            pair.serve(turn());
            if round % 3 == 0 && let Some(stream) = pair.deferred.pop_back() {
                pair.respond(stream);
            }
            pair.read(turn());
        }
        for (index, (plan, response)) in pair.plans.iter().zip(&pair.responses).enumerate() {
            if plan.action == ServerAction::Refuse {
                let refused = Some(End::Reset(ErrorCode::RefusedStream));
                prop_assert_eq!(response.end, refused, "request {}", index);
            } else {
                prop_assert_eq!(response.end, Some(End::Whole), "request {}", index);
                prop_assert_eq!(&response.body, &body(index + 1, plan.response));
            }
        }
        prop_assert_eq!((pair.server.open_streams(), pair.client.open_streams()), (0, 0));
    }

    /// The server never panics, and its output and error are the same for any pieces of its input.
    #[test]
    fn server_output_independent_of_pieces(
        begins_with_preface in any::<bool>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        frames in proptest::collection::vec((0u8..11, any::<u8>(), 0u32..6, 0usize..20), 0..20),
        piece in 1usize..30,
    ) {
        let mut input = if begins_with_preface { frame::PREFACE.to_vec() } else { bytes.clone() };
        for (kind, flags, stream, length) in frames {
            let kind = Kind::from_wire(kind);
            let header = FrameHeader { length: length as u32, kind, flags, stream };
            if header.kind != Kind::Unknown {
                frame::put_header(header.kind, flags, stream, length, &mut input);
                input.extend(bytes.iter().cycle().take(if bytes.is_empty() { 0 } else { length }));
            }
        }
        prop_assert_eq!(serve_pieces(&input, usize::MAX), serve_pieces(&input, piece));
        prop_assert_eq!(serve_pieces(&input, usize::MAX), serve_pieces(&input, 1));
    }
}

/// Passes input to a server in pieces of this size. Returns its output, the number of requests and
/// resets, and its error.
fn serve_pieces(input: &[u8], piece: usize) -> (Vec<u8>, usize, Option<Http2Error>) {
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
        assert!(rest.is_empty(), "NeedMore with bytes unread");
    }
    (out, events, None)
}

#[test]
fn other_protocol_gives_error_in_any_pieces() {
    for (bytes, error) in [
        ("GET / HTTP/1.1\r\n", Http2Error::SpokeHttp1),
        // Its first byte is the first byte of the preface.
        ("POST / HTTP/1.1\r\n", Http2Error::SpokeHttp1),
        ("PRI * HTTP/2.0\r\n\r\nXX", Http2Error::NoPreface),
    ] {
        assert_eq!(serve_pieces(bytes.as_bytes(), usize::MAX).2, Some(error), "{bytes}");
        assert_eq!(serve_pieces(bytes.as_bytes(), 1).2, Some(error), "{bytes}");
    }
}

/// A server that has read the preface, and an empty output.
fn server_after_preface() -> (Server, Vec<u8>) {
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

/// The kind, flags and stream of each frame.
fn frame_headers(mut bytes: &[u8]) -> Vec<(Kind, u8, u32)> {
    let mut headers = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk() {
        let header = FrameHeader::parse(header);
        headers.push((header.kind, header.flags, header.stream));
        bytes = &rest[header.length as usize..];
    }
    headers
}

#[test]
fn is_http2_decides_at_first_difference() {
    assert_eq!(server::is_http2(b""), None);
    assert_eq!(server::is_http2(b"P"), None);
    assert_eq!(server::is_http2(b"PO"), Some(false));
    assert_eq!(server::is_http2(b"GET / HTTP/1.1\r\n\r\n"), Some(false));
    assert_eq!(server::is_http2(&frame::PREFACE[..23]), None);
    assert_eq!(server::is_http2(&[frame::PREFACE, b"more"].concat()), Some(true));
}

#[test]
fn response_has_frames_of_its_layout() {
    let (mut server, mut out) = server_after_preface();
    let fields = [(":status", "200"), ("content-length", "2")];
    server.respond(7, &EncodedResponse::new(&fields, b"ok", FrameLayout::Two), &mut out);
    let head = (Kind::Headers, flag::END_HEADERS, 7);
    assert_eq!(frame_headers(&out), [head, (Kind::Data, flag::END_STREAM, 7)]);
    out.clear();
    server.respond(9, &EncodedResponse::new(&fields, b"ok", FrameLayout::Three), &mut out);
    let head = (Kind::Headers, flag::END_HEADERS, 9);
    assert_eq!(frame_headers(&out), [head, (Kind::Data, 0, 9), (Kind::Data, flag::END_STREAM, 9)]);
    out.clear();
    server.respond(11, &EncodedResponse::new(&fields, b"", FrameLayout::Three), &mut out);
    assert_eq!(frame_headers(&out), [(Kind::Headers, flag::END_HEADERS | flag::END_STREAM, 11)]);
}

#[test]
fn equal_request_is_reported_as_repeated() {
    let (mut server, mut out) = server_after_preface();
    for (stream, repeated) in [(1, false), (3, true), (5, true)] {
        let request = get(stream, true);
        let event = server.next(&request, &mut out).unwrap().1;
        assert_eq!(event, server::ServerEvent::Request { stream, end: true, repeated });
    }
    assert_eq!(server.open_streams(), 0);
}

#[test]
fn trailers_end_body_without_new_request() {
    let (mut server, mut out) = server_after_preface();
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
fn window_update_of_ended_stream_ignored() {
    let (mut server, mut out) = server_after_preface();
    server.next(&get(1, true), &mut out).unwrap();
    server.respond(
        1,
        &EncodedResponse::new(&[(":status", "200")], b"x", FrameLayout::Two),
        &mut out,
    );
    let mut update = Vec::new();
    frame::put_window_update(1, 1000, &mut update);
    server.next(&update, &mut out).unwrap();
    assert_eq!(server.open_streams(), 0);
}

#[test]
fn deferred_stream_keeps_window() {
    let (mut server, mut out) = server_after_preface();
    let mut input = Vec::new();
    // SETTINGS_INITIAL_WINDOW_SIZE 0: DATA needs a WINDOW_UPDATE first.
    frame::put_header(Kind::Settings, 0, 0, 6, &mut input);
    input.extend_from_slice(&[0, 4, 0, 0, 0, 0]);
    server.next(&input, &mut out).unwrap();
    server.next(&get(1, true), &mut out).unwrap();
    server.defer(1);
    let mut update = Vec::new();
    frame::put_window_update(1, 3, &mut update);
    server.next(&update, &mut out).unwrap();
    out.clear();
    server.respond(
        1,
        &EncodedResponse::new(&[(":status", "200")], b"abcde", FrameLayout::Two),
        &mut out,
    );
    assert_eq!(frame_headers(&out), [(Kind::Headers, flag::END_HEADERS, 1), (Kind::Data, 0, 1)]);
    assert!(out.ends_with(b"abc"));
    server.next(&update, &mut out).unwrap();
    assert!(out.ends_with(b"de"));
    assert_eq!(server.open_streams(), 0);
}

#[test]
fn streams_after_go_away_ignored() {
    let (mut server, mut out) = server_after_preface();
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
fn settings_enable_push_accepted() {
    let (mut server, mut out) = server_after_preface();
    let mut input = Vec::new();
    frame::put_header(Kind::Settings, 0, 0, 6, &mut input);
    input.extend_from_slice(&[0, 2, 0, 0, 0, 1]);
    assert!(server.next(&input, &mut out).is_ok());
}
