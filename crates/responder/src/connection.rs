//! The bytes that response those of a connection, without its socket.

use std::hint::black_box;

use dyno_wire::h1::{encode, request};
use dyno_wire::h2::server::{EncodedResponse, FrameLayout, Server, ServerEvent};
use dyno_wire::h2::settings::ServerSettings;
use dyno_wire::server_protocol::ServerProtocol;

use crate::Writes;

/// The answer of the contract that a request gets.
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

/// Whether a response's body is wanted, or only its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerPart {
    Body,
    Head,
}

impl AnswerPart {
    fn from_method(method: &[u8]) -> AnswerPart {
        if method == b"HEAD" { AnswerPart::Head } else { AnswerPart::Body }
    }
}

/// Answer to every request, with status 200, instead of the contract's answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its `Content-Type`: one line.
    pub media: String,
    /// At most [`limits::CONTENT_BYTES`](crate::limits::CONTENT_BYTES).
    pub body: Vec<u8>,
}

/// Ready-made answers, by route.
pub(crate) struct PreparedAnswers {
    /// By route; then with the body and without; then for a connection that goes on and for one
    /// that closes.
    h1: [[[Vec<u8>; 2]; 2]; 3],
    /// By route; then with the body and without.
    h2: [[EncodedResponse; 2]; 3],
    /// Rounds of work that each takes.
    work: u32,
}

impl PreparedAnswers {
    /// `to_all`: in place of the contract's, whatever is asked for. `work`: rounds of work that
    /// each response takes besides.
    pub(crate) fn new(writes: Writes, to_all: Option<&Content>, work: u32) -> PreparedAnswers {
        let cut = if writes == Writes::Batch { FrameLayout::Two } else { FrameLayout::Three };
        let content = |route: Route| match to_all {
            Some(Content { media, body }) => ((200, "OK"), media.as_str(), body.as_slice()),
            None => (route.status(), route.content_type(), route.body()),
        };
        PreparedAnswers {
            h1: Route::ALL.map(|route| {
                let ((status, reason), media, whole) = content(route);
                [whole, b""].map(|body| {
                    [false, true].map(|close| {
                        encode::response(status, reason, media, whole.len(), close, body)
                    })
                })
            }),
            h2: Route::ALL.map(|route| {
                let ((status, _), media, whole) = content(route);
                let (status, length) = (status.to_string(), whole.len().to_string());
                let fields = [
                    (":status", &status[..]),
                    ("content-type", media),
                    ("content-length", &length),
                ];
                [whole, b""].map(|body| EncodedResponse::new(&fields, body, cut))
            }),
            work,
        }
    }

    /// The work of one response. Each round needs the one before: about a nanosecond.
    fn work(&self) {
        let mut x = 1u64;
        for _ in 0..self.work {
            // Knuth's multiplier (The Art of Computer Programming 2, §3.3.4).
            x = black_box(x.wrapping_mul(6_364_136_223_846_793_005));
        }
    }

    fn h1(&self, head: &request::RequestHead<'_>) -> &[u8] {
        self.work();
        let wants = AnswerPart::from_method(head.method);
        &self.h1[Route::from_path(head.target) as usize][wants as usize]
            [usize::from(!head.persists())]
    }

    fn h2(&self, request: Request) -> &EncodedResponse {
        self.work();
        &self.h2[request.route as usize][request.wants as usize]
    }
}

/// The parts of a request that decide its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    route: Route,
    wants: AnswerPart,
}

/// A connection of HTTP/2.
pub(crate) struct H2Server {
    server: Server,
    /// The last request: the next one is mostly the same.
    last: Request,
    /// Requests whose bodies are under way.
    under_way: Vec<(u32, Request)>,
}

/// Reads bytes of a connection, and appends the answers to `out`. Returns whether the connection
/// goes on.
#[inline]
pub(crate) fn receive(
    talk: &mut ServerProtocol<H2Server>,
    bytes: &[u8],
    answers: &PreparedAnswers,
    out: &mut Vec<u8>,
) -> bool {
    match talk {
        ServerProtocol::H1(reader) => receive_h1(reader, bytes, answers, out),
        ServerProtocol::H2(h2) => h2.receive(bytes, answers, out),
        ServerProtocol::Unknown(_) => match talk.begin(bytes, || H2Server::new(out)) {
            Some(first) => receive(talk, &first, answers, out),
            None => true,
        },
    }
}

fn receive_h1(
    reader: &mut request::RequestReader,
    mut bytes: &[u8],
    answers: &PreparedAnswers,
    out: &mut Vec<u8>,
) -> bool {
    loop {
        let Ok((used, event)) = reader.next(bytes) else { return false };
        bytes = &bytes[used..];
        match event {
            request::RequestEvent::NeedMore => return true,
            request::RequestEvent::Head(head) => {
                out.extend_from_slice(answers.h1(&head));
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
            last: Request { route: Route::NotFound, wants: AnswerPart::Body },
            under_way: Vec::new(),
        }
    }

    #[inline]
    fn receive(&mut self, mut bytes: &[u8], answers: &PreparedAnswers, out: &mut Vec<u8>) -> bool {
        loop {
            let (used, event) = match self.server.next(bytes, out) {
                Ok(found) => found,
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
                        self.last = request_of(&self.server);
                    }
                    if end {
                        self.server.respond(stream, answers.h2(self.last), out);
                    } else {
                        self.under_way.push((stream, self.last));
                    }
                }
                ServerEvent::Body { stream, end: true, .. } => {
                    if let Some(request) = self.forget(stream) {
                        self.server.respond(stream, answers.h2(request), out);
                    }
                }
                ServerEvent::Reset { stream } => drop(self.forget(stream)),
                ServerEvent::Handled | ServerEvent::Body { end: false, .. } => {}
            }
        }
    }

    fn forget(&mut self, stream: u32) -> Option<Request> {
        let at = self.under_way.iter().position(|(s, _)| *s == stream)?;
        Some(self.under_way.swap_remove(at).1)
    }
}

fn request_of(server: &Server) -> Request {
    let value =
        |name: &[u8]| server.fields().iter().find(|(n, _)| *n == name).map_or(&b""[..], |(_, v)| v);
    Request {
        route: Route::from_path(value(b":path")),
        wants: AnswerPart::from_method(value(b":method")),
    }
}

#[cfg(test)]
mod tests {
    use dyno_wire::h2::frame::{self, FrameHeader, Kind, flag};

    use super::*;

    /// Answer of a new connection to bytes that come in pieces of a length.
    fn say(bytes: &[u8], piece: usize) -> (Vec<u8>, bool) {
        let answers = PreparedAnswers::new(Writes::Batch, None, 0);
        let mut talk = ServerProtocol::default();
        let mut out = Vec::new();
        let goes_on =
            bytes.chunks(piece).all(|piece| receive(&mut talk, piece, &answers, &mut out));
        (out, goes_on)
    }

    fn frames(mut out: &[u8]) -> Vec<(Kind, u8, u32, &[u8])> {
        let mut all = Vec::new();
        while let Some((header, rest)) = out.split_first_chunk() {
            let header = FrameHeader::parse(header);
            let (payload, after) = rest.split_at(header.length as usize);
            all.push((header.kind, header.flags, header.stream, payload));
            out = after;
        }
        all
    }

    /// The preface, SETTINGS, and what is asked for.
    fn h2(requests: &[u8]) -> Vec<u8> {
        let mut bytes = frame::PREFACE.to_vec();
        frame::put_header(Kind::Settings, 0, 0, 0, &mut bytes);
        bytes.extend_from_slice(requests);
        bytes
    }

    /// A request's HEADERS; `method` is an index of the static table, 2 for GET and 3 for POST.
    fn request(stream: u32, method: u8, path: &str, end: bool) -> Vec<u8> {
        let mut block = vec![0x80 | method, 0x86, 0x04, path.len() as u8];
        block.extend_from_slice(path.as_bytes());
        let mut bytes = Vec::new();
        frame::put_block(stream, &block, end, 1000, &mut bytes);
        bytes
    }

    #[test]
    fn what_it_is_given_answers_everything() {
        let content = Content { media: "application/json".into(), body: b"{}".to_vec() };
        let answers = PreparedAnswers::new(Writes::Batch, Some(&content), 100);
        for path in ["/plaintext", "/city/v1/get?id=7"] {
            let asked = encode::request("GET", path, "h", &[], b"").unwrap();
            let mut out = Vec::new();
            assert!(receive(&mut ServerProtocol::default(), &asked, &answers, &mut out));
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
        let asked = encode::request("HEAD", "/", "h", &[], b"").unwrap();
        let mut out = Vec::new();
        assert!(
            receive(&mut ServerProtocol::default(), &asked, &answers, &mut out)
                && out.ends_with(b"\r\n\r\n")
        );
    }

    #[test]
    fn both_protocols_are_spoken_however_the_beginning_is_cut() {
        let h1 = encode::request("GET", "/plaintext", "h", &[], b"").unwrap();
        let h2 = h2(&request(1, 2, "/plaintext", true));
        for piece in [1, 2, 3, 17, 100] {
            let (out, goes_on) = say(&h1, piece);
            assert!(goes_on && out.starts_with(b"HTTP/1.1 200") && out.ends_with(b"Hello, World!"));
            let (out, goes_on) = say(&h2, piece);
            assert!(goes_on);
            let kinds: Vec<_> = frames(&out).iter().map(|f| f.0).collect();
            assert_eq!(kinds, [Kind::Settings, Kind::Settings, Kind::Headers, Kind::Data]);
            assert!(out.ends_with(b"Hello, World!"));
        }
    }

    #[test]
    fn method_that_begins_like_the_preface_is_http1() {
        let (out, _) = say(&encode::request("PRIZE", "/json", "h", &[], b"").unwrap(), 1);
        assert!(out.ends_with(br#"{"message":"Hello, World!"}"#));
    }

    #[test]
    fn bodies_of_requests_are_read_before_they_are_answered() {
        let mut requests = request(1, 3, "/json", false);
        requests.extend(request(3, 3, "/nowhere", false));
        let part = |stream: u32, flags: u8, requests: &mut Vec<u8>| {
            frame::put_header(Kind::Data, flags, stream, 3, requests);
            requests.extend_from_slice(b"abc");
        };
        part(1, 0, &mut requests);
        part(3, flag::END_STREAM, &mut requests);
        part(1, flag::END_STREAM, &mut requests);
        let (out, _) = say(&h2(&requests), 1000);
        let bodies: Vec<_> =
            frames(&out).into_iter().filter(|f| f.0 == Kind::Data).map(|f| (f.2, f.3)).collect();
        assert_eq!(bodies, [(3, &b"not found"[..]), (1, br#"{"message":"Hello, World!"}"#)]);
    }

    #[test]
    fn request_that_was_reset_is_forgotten() {
        let mut requests = request(1, 3, "/json", false);
        frame::put_reset(1, dyno_wire::h2::ErrorCode::Cancel, &mut requests);
        requests.extend(request(3, 2, "/plaintext", true));
        let (out, goes_on) = say(&h2(&requests), 1000);
        assert!(goes_on && frames(&out).iter().all(|f| f.2 != 1));
    }

    #[test]
    fn protocol_error_is_reported_and_closes() {
        let mut requests = Vec::new();
        frame::put_header(Kind::Continuation, 0, 1, 0, &mut requests);
        let (out, goes_on) = say(&h2(&requests), 1000);
        let last = frames(&out).pop().unwrap();
        assert!(!goes_on);
        assert_eq!((last.0, last.3), (Kind::GoAway, &[0, 0, 0, 0, 0, 0, 0, 1][..]));
    }
}
