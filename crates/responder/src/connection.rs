//! Parses the requests of a connection and appends the responses to a buffer. This module does not
//! use the socket, so tests can pass bytes in pieces of any length.

use std::hint::black_box;

use dyno_wire::h1::{encode, request};
use dyno_wire::h2::server::{EncodedResponse, FrameLayout, Server, ServerEvent};
use dyno_wire::h2::settings::ServerSettings;
use dyno_wire::server_protocol::ServerProtocol;

use crate::Writes;

/// Response of the hello contract, chosen by path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Plaintext,
    Json,
    NotFound,
}

impl Route {
    const ALL: [Route; 3] = [Route::Plaintext, Route::Json, Route::NotFound];

    fn from_path(path: &[u8]) -> Route {
        match path {
            b"/plaintext" => Route::Plaintext,
            b"/json" => Route::Json,
            _ => Route::NotFound,
        }
    }

    const fn status(self) -> (u16, &'static str) {
        match self {
            Route::Plaintext | Route::Json => (200, "OK"),
            Route::NotFound => (404, "Not Found"),
        }
    }

    const fn content_type(self) -> &'static str {
        match self {
            Route::Plaintext | Route::NotFound => "text/plain",
            Route::Json => "application/json",
        }
    }

    const fn body(self) -> &'static [u8] {
        match self {
            Route::Plaintext => b"Hello, World!",
            Route::Json => br#"{"message":"Hello, World!"}"#,
            Route::NotFound => b"not found",
        }
    }
}

/// Whether a request asks for a whole response or only for its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponsePart {
    Whole,
    Head,
}

impl ResponsePart {
    fn from_method(method: &[u8]) -> ResponsePart {
        if method == b"HEAD" { ResponsePart::Head } else { ResponsePart::Whole }
    }
}

/// Content of a response with status 200 to every request. It replaces the responses of the
/// contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Value of `Content-Type`, one line.
    pub media: String,
    /// Body, at most [`limits::CONTENT_BYTES`](crate::limits::CONTENT_BYTES).
    pub body: Vec<u8>,
}

/// All responses, encoded before the first request, so that a response costs only a copy.
pub(crate) struct PreparedResponses {
    /// Responses over HTTP/1.1. First index: [`Route`]. Second: [`ResponsePart`]. Third: 1 if the
    /// connection closes after the response.
    h1: [[[Vec<u8>; 2]; 2]; 3],
    /// Responses over HTTP/2. First index: [`Route`]. Second: [`ResponsePart`].
    h2: [[EncodedResponse; 2]; 3],
    /// Rounds of work per response.
    rounds: u32,
}

impl PreparedResponses {
    /// Encodes the responses. `content`: response to every request, instead of the responses of the
    /// contract. `work`: rounds of work per response.
    pub(crate) fn new(writes: Writes, content: Option<&Content>, work: u32) -> PreparedResponses {
        let layout = if writes == Writes::Batch { FrameLayout::Two } else { FrameLayout::Three };
        let content_of = |route: Route| match content {
            Some(Content { media, body }) => ((200, "OK"), media.as_str(), body.as_slice()),
            None => (route.status(), route.content_type(), route.body()),
        };
        PreparedResponses {
            h1: Route::ALL.map(|route| {
                let ((status, reason), media, whole) = content_of(route);
                [whole, b""].map(|body| {
                    [false, true].map(|close| {
                        encode::response(status, reason, media, whole.len(), close, body)
                    })
                })
            }),
            h2: Route::ALL.map(|route| {
                let ((status, _), media, whole) = content_of(route);
                let (status, length) = (status.to_string(), whole.len().to_string());
                let fields = [
                    (":status", &status[..]),
                    ("content-type", media),
                    ("content-length", &length),
                ];
                [whole, b""].map(|body| EncodedResponse::new(&fields, body, layout))
            }),
            rounds: work,
        }
    }

    /// Uses the CPU time of one response. Each round takes about a nanosecond. It depends on the
    /// previous round, so the CPU cannot run rounds in parallel.
    fn do_work(&self) {
        let mut x = 1u64;
        for _ in 0..self.rounds {
            // Knuth's multiplier (The Art of Computer Programming 2, §3.3.4).
            x = black_box(x.wrapping_mul(6_364_136_223_846_793_005));
        }
    }

    /// Does the work of a response, and returns the response over HTTP/1.1.
    fn h1(&self, head: &request::RequestHead<'_>) -> &[u8] {
        self.do_work();
        let route = Route::from_path(head.target);
        let part = ResponsePart::from_method(head.method);
        let closes = !head.persists();
        &self.h1[route as usize][part as usize][usize::from(closes)]
    }

    /// Does the work of a response, and returns the response over HTTP/2.
    fn h2(&self, request: RequestedResponse) -> &EncodedResponse {
        self.do_work();
        &self.h2[request.route as usize][request.part as usize]
    }
}

/// Properties of a request that determine its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequestedResponse {
    route: Route,
    part: ResponsePart,
}

/// Server side of an HTTP/2 connection.
pub(crate) struct H2Server {
    server: Server,
    /// Response to the last request. It is reused if the next request has the same headers, as most
    /// requests have.
    last: RequestedResponse,
    /// Requests whose bodies are being received, by stream.
    receiving: Vec<(u32, RequestedResponse)>,
}

/// Parses bytes of a connection, and appends the responses to `out`. Returns whether the connection
/// stays open after these responses.
#[inline]
pub(crate) fn receive(
    protocol: &mut ServerProtocol<H2Server>,
    bytes: &[u8],
    responses: &PreparedResponses,
    out: &mut Vec<u8>,
) -> bool {
    match protocol {
        ServerProtocol::H1(reader) => receive_h1(reader, bytes, responses, out),
        ServerProtocol::H2(h2) => h2.receive(bytes, responses, out),
        ServerProtocol::Unknown(_) => match protocol.begin(bytes, || H2Server::new(out)) {
            Some(bytes) => receive(protocol, &bytes, responses, out),
            None => true,
        },
    }
}

/// Responds to the requests of an HTTP/1.1 connection, like [`receive`].
fn receive_h1(
    reader: &mut request::RequestReader,
    mut bytes: &[u8],
    responses: &PreparedResponses,
    out: &mut Vec<u8>,
) -> bool {
    loop {
        let Ok((used, event)) = reader.next(bytes) else { return false };
        bytes = &bytes[used..];
        match event {
            request::RequestEvent::NeedMore => return true,
            request::RequestEvent::Head(head) => {
                out.extend_from_slice(responses.h1(&head));
                if !head.persists() {
                    return false;
                }
            }
            request::RequestEvent::Body(_) | request::RequestEvent::End => {}
        }
    }
}

impl H2Server {
    fn new(out: &mut Vec<u8>) -> H2Server {
        H2Server {
            server: Server::new(ServerSettings::default(), out),
            last: RequestedResponse { route: Route::NotFound, part: ResponsePart::Whole },
            receiving: Vec::new(),
        }
    }

    #[inline]
    fn receive(
        &mut self,
        mut bytes: &[u8],
        responses: &PreparedResponses,
        out: &mut Vec<u8>,
    ) -> bool {
        loop {
            let (used, event) = match self.server.next(bytes, out) {
                Ok(parsed) => parsed,
                Err(error) => {
                    self.server.go_away(error.code(), out);
                    return false;
                }
            };
            bytes = &bytes[used..];
            match event {
                ServerEvent::NeedMore => return true,
                ServerEvent::Request { stream, end, repeated } => {
                    if !repeated {
                        self.last = requested_response(&self.server);
                    }
                    if end {
                        self.server.respond(stream, responses.h2(self.last), out);
                    } else {
                        self.receiving.push((stream, self.last));
                    }
                }
                ServerEvent::Body { stream, end: true, .. } => {
                    if let Some(request) = self.take_request(stream) {
                        self.server.respond(stream, responses.h2(request), out);
                    }
                }
                ServerEvent::Reset { stream } => drop(self.take_request(stream)),
                ServerEvent::Handled | ServerEvent::Body { end: false, .. } => {}
            }
        }
    }

    /// Removes a request whose body has ended, or which was reset.
    fn take_request(&mut self, stream: u32) -> Option<RequestedResponse> {
        let index = self.receiving.iter().position(|(s, _)| *s == stream)?;
        Some(self.receiving.swap_remove(index).1)
    }
}

/// Returns the response that the fields of the last request select.
fn requested_response(server: &Server) -> RequestedResponse {
    let value =
        |name: &[u8]| server.fields().iter().find(|(n, _)| *n == name).map_or(&b""[..], |(_, v)| v);
    RequestedResponse {
        route: Route::from_path(value(b":path")),
        part: ResponsePart::from_method(value(b":method")),
    }
}

#[cfg(test)]
mod tests {
    use dyno_wire::h2::frame::{self, FrameHeader, Kind, flag};

    use super::*;

    /// Returns the output of a new connection for bytes that arrive in pieces of this length, and
    /// whether the connection stays open.
    fn respond(bytes: &[u8], piece_bytes: usize) -> (Vec<u8>, bool) {
        let responses = PreparedResponses::new(Writes::Batch, None, 0);
        let mut protocol = ServerProtocol::default();
        let mut out = Vec::new();
        let stays_open = bytes
            .chunks(piece_bytes)
            .all(|piece| receive(&mut protocol, piece, &responses, &mut out));
        (out, stays_open)
    }

    /// Splits output into frames: kind, flags, stream and payload.
    fn frames(mut out: &[u8]) -> Vec<(Kind, u8, u32, &[u8])> {
        let mut frames = Vec::new();
        while let Some((header, remainder)) = out.split_first_chunk() {
            let header = FrameHeader::parse(header);
            let (payload, after) = remainder.split_at(header.length as usize);
            frames.push((header.kind, header.flags, header.stream, payload));
            out = after;
        }
        frames
    }

    /// Encodes a client preface with SETTINGS, followed by requests.
    fn h2(requests: &[u8]) -> Vec<u8> {
        let mut bytes = frame::PREFACE.to_vec();
        frame::put_header(Kind::Settings, 0, 0, 0, &mut bytes);
        bytes.extend_from_slice(requests);
        bytes
    }

    /// Encodes the HEADERS of a request. `method`: index in the static table, 2 for GET and 3 for
    /// POST.
    fn request(stream: u32, method: u8, path: &str, end: bool) -> Vec<u8> {
        let mut block = vec![0x80 | method, 0x86, 0x04, path.len() as u8];
        block.extend_from_slice(path.as_bytes());
        let mut bytes = Vec::new();
        frame::put_block(stream, &block, end, 1000, &mut bytes);
        bytes
    }

    #[test]
    fn every_path_gets_custom_content() {
        let content = Content { media: "application/json".into(), body: b"{}".to_vec() };
        let responses = PreparedResponses::new(Writes::Batch, Some(&content), 100);
        for path in ["/plaintext", "/city/v1/get?id=7"] {
            let request = encode::request("GET", path, "h", &[], b"").unwrap();
            let mut out = Vec::new();
            assert!(receive(&mut ServerProtocol::default(), &request, &responses, &mut out));
            let text = String::from_utf8(out).unwrap();
            assert!(
                text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\n{}"),
                "{text}"
            );
            assert!(
                text.to_ascii_lowercase()
                    .contains("content-type: application/json\r\ncontent-length: 2\r\n"),
                "{text}"
            );
        }
        let request = encode::request("HEAD", "/", "h", &[], b"").unwrap();
        let mut out = Vec::new();
        assert!(
            receive(&mut ServerProtocol::default(), &request, &responses, &mut out)
                && out.ends_with(b"\r\n\r\n")
        );
    }

    #[test]
    fn protocol_is_detected_in_any_segmentation() {
        let h1 = encode::request("GET", "/plaintext", "h", &[], b"").unwrap();
        let h2 = h2(&request(1, 2, "/plaintext", true));
        for piece in [1, 2, 3, 17, 100] {
            let (out, stays_open) = respond(&h1, piece);
            assert!(
                stays_open && out.starts_with(b"HTTP/1.1 200") && out.ends_with(b"Hello, World!")
            );
            let (out, stays_open) = respond(&h2, piece);
            assert!(stays_open);
            let kinds: Vec<_> = frames(&out).iter().map(|f| f.0).collect();
            assert_eq!(kinds, [Kind::Settings, Kind::Settings, Kind::Headers, Kind::Data]);
            assert!(out.ends_with(b"Hello, World!"));
        }
    }

    #[test]
    fn method_like_preface_start_is_http1() {
        let (out, _) = respond(&encode::request("PRIZE", "/json", "h", &[], b"").unwrap(), 1);
        assert!(out.ends_with(br#"{"message":"Hello, World!"}"#));
    }

    #[test]
    fn response_follows_end_of_request_body() {
        let mut requests = request(1, 3, "/json", false);
        requests.extend(request(3, 3, "/nowhere", false));
        let part = |stream: u32, flags: u8, requests: &mut Vec<u8>| {
            frame::put_header(Kind::Data, flags, stream, 3, requests);
            requests.extend_from_slice(b"abc");
        };
        part(1, 0, &mut requests);
        part(3, flag::END_STREAM, &mut requests);
        part(1, flag::END_STREAM, &mut requests);
        let (out, _) = respond(&h2(&requests), 1000);
        let bodies: Vec<_> =
            frames(&out).into_iter().filter(|f| f.0 == Kind::Data).map(|f| (f.2, f.3)).collect();
        assert_eq!(bodies, [(3, &b"not found"[..]), (1, br#"{"message":"Hello, World!"}"#)]);
    }

    #[test]
    fn reset_request_gets_no_response() {
        let mut requests = request(1, 3, "/json", false);
        frame::put_reset(1, dyno_wire::h2::ErrorCode::Cancel, &mut requests);
        requests.extend(request(3, 2, "/plaintext", true));
        let (out, stays_open) = respond(&h2(&requests), 1000);
        assert!(stays_open && frames(&out).iter().all(|f| f.2 != 1));
    }

    #[test]
    fn protocol_error_sends_go_away_and_closes() {
        let mut requests = Vec::new();
        frame::put_header(Kind::Continuation, 0, 1, 0, &mut requests);
        let (out, stays_open) = respond(&h2(&requests), 1000);
        let last = frames(&out).pop().unwrap();
        assert!(!stays_open);
        assert_eq!((last.0, last.3), (Kind::GoAway, &[0, 0, 0, 0, 0, 0, 0, 1][..]));
    }
}
