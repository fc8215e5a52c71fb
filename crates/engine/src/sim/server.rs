//! Simulated servers with a known service time, queue and faults, which tests compare with the
//! results of the generator.

use std::collections::BTreeMap;

use dyno_wire::h1::{encode, request};
use dyno_wire::h2::settings::{DEFAULT_WINDOW, ServerSettings};
use dyno_wire::h2::{ErrorCode, server as h2};
use dyno_wire::server_protocol::ServerProtocol;

use super::fault::Fault;
use super::service::ServiceTime;
use super::sessions::{SessionResponse, SessionTruth, Sessions};
use crate::rng::Rng;

/// Queueing discipline of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// One request at a time, first come, first served. With Poisson arrivals and exponential
    /// service this is M/M/1.
    Single,
    /// No queue: each connection is served separately and, over HTTP/2, each stream, so responses
    /// may overtake each other.
    PerConnection,
}

/// A pause of the server: no work from `at_ns`, on the clock of the world, for `for_ns`, both in
/// nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    pub at_ns: u64,
    pub for_ns: u64,
}

/// Model of a simulated server. The server speaks HTTP/2 on connections that begin with the client
/// preface of HTTP/2, and HTTP/1.1 on all others.
#[derive(Clone, Debug)]
pub struct ServerModel {
    pub service: ServiceTime,
    pub queue: Queue,
    pub pauses: Vec<Pause>,
    /// Faults, each with its probability per request.
    pub faults: Vec<(Fault, f64)>,
    pub body: Vec<u8>,
    /// Bytes that the server reads from a connection before it stops reading. Bytes of later
    /// flushes stay in the generator. `None`: unlimited.
    pub reads: Option<u64>,
    /// Limit of open streams per HTTP/2 connection; `None`: unlimited.
    pub max_streams: Option<u32>,
    /// Bytes of a request body that an HTTP/2 stream takes without a WINDOW_UPDATE.
    pub request_window: u32,
    /// Probability that an HTTP/2 connection receives GOAWAY before its first stream.
    pub turn_away: f64,
    /// Behaviour on `Expect: 100-continue`.
    pub expecting: ExpectBehavior,
    /// Idle time that HTTP/1.1 responses announce (`Keep-Alive: timeout=N`), seconds; `None`: none.
    pub keep_alive_s: Option<u64>,
    pub sessions: Sessions,
}

/// Behaviour of an HTTP/1.1 server on `Expect: 100-continue`, after the head has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectBehavior {
    /// Sends nothing before the final response.
    Nothing,
    /// Sends 100 (Continue).
    Continue,
    /// Sends 417 (Expectation Failed).
    Refuse,
    /// Sends 100 and 200 together, before the body.
    Both,
}

impl ServerModel {
    #[must_use]
    pub fn new(service: ServiceTime, queue: Queue) -> ServerModel {
        ServerModel {
            service,
            queue,
            pauses: Vec::new(),
            faults: Vec::new(),
            body: b"Hello, World!".to_vec(),
            reads: None,
            max_streams: None,
            request_window: DEFAULT_WINDOW,
            turn_away: 0.0,
            expecting: ExpectBehavior::Nothing,
            keep_alive_s: None,
            sessions: Sessions::None,
        }
    }
}

/// Ground truth of the simulated server, for comparison with the generator's report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Parts of bodies that arrived before the 100 (Continue) that they should have waited for.
    pub early_bodies: u64,
    /// Requests that arrived completely.
    pub requests: u64,
    pub sessions: SessionTruth,
    pub faults: BTreeMap<Fault, u64>,
    /// Request bodies that arrived completely over HTTP/2, with the number of times.
    pub bodies: BTreeMap<Vec<u8>, u64>,
    /// Correct responses that the generator received, in order, to requests with a
    /// [`RequestIdentity`].
    pub accepted: Vec<AcceptedResponse>,
    /// Requests whose streams the generator has reset. The response of such a request can still
    /// arrive if the generator loses its CPU between the decision and the reset.
    pub given_up: Vec<RequestIdentity>,
}

/// A correct response that the generator received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedResponse {
    pub request: RequestIdentity,
    /// Instant at which the last byte was received, on the clock of the world.
    pub at_ns: u64,
}

/// Identity of a request, from its path: `/INTENDED/NUMBER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestIdentity {
    /// Intended start of the request, nanoseconds since the load began.
    pub intended_ns: u64,
    pub number: u64,
}

impl RequestIdentity {
    fn from_path(path: &[u8]) -> Option<RequestIdentity> {
        let (intended, number) =
            std::str::from_utf8(path).ok()?.strip_prefix('/')?.split_once('/')?;
        Some(RequestIdentity { intended_ns: intended.parse().ok()?, number: number.parse().ok()? })
    }
}

/// Action of the server, with its time.
#[derive(Clone, Debug)]
pub(super) enum ServerAction {
    /// Sends bytes, then changes the state of the connection.
    Send {
        at_ns: u64,
        bytes: Vec<u8>,
        next_state: NextConnectionState,
        /// Request whose correct response these bytes complete.
        completes: Option<RequestIdentity>,
    },
    /// Works on an HTTP/2 stream until `until_ns`, when [`SimulatedServer::finish`] must be called.
    Work { until_ns: u64, stream: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextConnectionState {
    KeepOpen,
    Close,
    Reset,
}

/// Server side of one connection.
#[derive(Debug, Default)]
pub(super) struct SimulatedConnection {
    protocol: ServerProtocol<Streams>,
    /// Identity of the request that is being read.
    request: Option<RequestIdentity>,
    session_response: Option<SessionResponse>,
    /// When the work on all received requests of this connection is done. Only for
    /// [`Queue::PerConnection`].
    free_at_ns: u64,
    /// Whether the server sends no further responses on this connection.
    is_finished: bool,
    /// When the server sends 100 or 417 for the request that is being read.
    continues_at_ns: Option<u64>,
}

/// State of an HTTP/2 connection.
#[derive(Debug)]
struct Streams {
    wire: h2::Server,
    /// Bodies of requests that are being received, by stream.
    bodies: BTreeMap<u32, Vec<u8>>,
    /// Identities of requests by stream, including requests whose response was sent.
    requests: BTreeMap<u32, RequestIdentity>,
    session_responses: BTreeMap<u32, SessionResponse>,
    /// Requests that the server works on, by stream, with the fault of the response.
    working: BTreeMap<u32, Option<Fault>>,
    /// Whether GOAWAY was sent.
    has_sent_go_away: bool,
}

/// A simulated server.
#[derive(Debug)]
pub(super) struct SimulatedServer {
    model: ServerModel,
    rng: Rng,
    /// When the work on all received requests is done. Only for [`Queue::Single`].
    free_at_ns: u64,
    responses: EncodedResponses,
    pub(super) truth: Truth,
}

/// Encoded HTTP/2 responses.
#[derive(Debug)]
struct EncodedResponses {
    ok: h2::EncodedResponse,
    failed: h2::EncodedResponse,
    incorrect_body: h2::EncodedResponse,
    malformed: h2::EncodedResponse,
}

impl EncodedResponses {
    fn new(body: &[u8]) -> EncodedResponses {
        let length = body.len().to_string();
        let response = |status: &str, name: &str, length: &str, body: &[u8]| {
            let fields = [(":status", status), (name, "text/plain"), ("content-length", length)];
            h2::EncodedResponse::new(&fields, body, h2::FrameLayout::Two)
        };
        EncodedResponses {
            ok: response("200", "content-type", &length, body),
            failed: response("500", "content-type", "4", b"oops"),
            incorrect_body: response("200", "content-type", &length, &vec![b'?'; body.len()]),
            malformed: response("200", "Content-Type", &length, body),
        }
    }
}

const GARBAGE: &[u8] = b"\x15\x03\x01\x00\x02\x02\x46 no http\r\n\r\n";

impl SimulatedServer {
    pub(super) fn new(model: ServerModel, rng: Rng) -> Self {
        let responses = EncodedResponses::new(&model.body);
        SimulatedServer { model, rng, free_at_ns: 0, responses, truth: Truth::default() }
    }

    /// Handles bytes that arrive at `now_ns`. Returns the actions that follow.
    pub(super) fn receive(
        &mut self,
        peer: &mut SimulatedConnection,
        bytes: &[u8],
        now_ns: u64,
    ) -> Vec<ServerAction> {
        match &mut peer.protocol {
            ServerProtocol::H1(_) => self.receive_messages(peer, bytes, now_ns),
            ServerProtocol::H2(_) => self.receive_frames(peer, bytes, now_ns, Vec::new()),
            ServerProtocol::Unknown(_) => {
                let mut out = Vec::new();
                let begin_h2 = || Streams::begin(&self.model, &mut self.rng, &mut out);
                match peer.protocol.begin(bytes, begin_h2) {
                    Some(bytes) if matches!(peer.protocol, ServerProtocol::H2(_)) => {
                        self.receive_frames(peer, &bytes, now_ns, out)
                    }
                    Some(bytes) => self.receive_messages(peer, &bytes, now_ns),
                    None => Vec::new(),
                }
            }
        }
    }

    fn draw_work(&mut self) -> u64 {
        self.model.service.draw(&mut self.rng, self.truth.requests)
    }

    /// Draws the fault of the next response and counts it; `None`: the response is correct.
    fn draw_fault(&mut self) -> Option<Fault> {
        let drawn = self.model.faults.iter().find(|(_, odds)| self.rng.chance(*odds));
        let (fault, _) = *drawn?;
        *self.truth.faults.entry(fault).or_default() += 1;
        Some(fault)
    }
}

// HTTP/1.1: responses leave in the order of the requests.
impl SimulatedServer {
    fn receive_messages(
        &mut self,
        peer: &mut SimulatedConnection,
        mut bytes: &[u8],
        now_ns: u64,
    ) -> Vec<ServerAction> {
        let mut actions = Vec::new();
        loop {
            let ServerProtocol::H1(reader) = &mut peer.protocol else { return actions };
            let (used, event) =
                reader.next(bytes).expect("the generator should write valid requests");
            bytes = &bytes[used..];
            match event {
                request::RequestEvent::NeedMore => return actions,
                request::RequestEvent::Head(head) => {
                    peer.request = RequestIdentity::from_path(head.target);
                    let (target, truth) = (head.target, &mut self.truth.sessions);
                    peer.session_response =
                        self.model.sessions.respond(target, head.fields(), truth);
                    let expects = head.fields().get("expect").is_some();
                    peer.continues_at_ns = None;
                    if expects && let Some(action) = self.continue_or_refuse(peer, now_ns) {
                        actions.push(action);
                    }
                }
                request::RequestEvent::Body(_) => {
                    let is_early = peer.continues_at_ns.is_some_and(|at_ns| now_ns < at_ns);
                    self.truth.early_bodies += u64::from(is_early);
                }
                request::RequestEvent::End => {
                    if peer.is_finished {
                        continue;
                    }
                    self.truth.requests += 1;
                    actions.extend(self.serve(peer, now_ns));
                }
            }
        }
    }

    fn continue_or_refuse(
        &mut self,
        peer: &mut SimulatedConnection,
        now_ns: u64,
    ) -> Option<ServerAction> {
        /// Time until the server has read the head.
        const READ_NS: u64 = 50_000;
        let at_ns = now_ns + READ_NS;
        let bytes = match self.model.expecting {
            ExpectBehavior::Nothing => return None,
            ExpectBehavior::Continue => b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
            ExpectBehavior::Refuse => {
                peer.is_finished = true;
                encode::response(417, "Expectation Failed", "text/plain", 0, false, b"")
            }
            ExpectBehavior::Both => {
                peer.is_finished = true;
                let mut responses = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
                responses.extend(encode::response(
                    200,
                    "OK",
                    "text/plain",
                    0,
                    false,
                    &self.model.body,
                ));
                responses
            }
        };
        peer.continues_at_ns = Some(at_ns);
        Some(ServerAction::Send {
            at_ns,
            bytes,
            next_state: NextConnectionState::KeepOpen,
            completes: None,
        })
    }

    fn serve(&mut self, peer: &mut SimulatedConnection, now_ns: u64) -> Option<ServerAction> {
        let work = self.draw_work();
        let free_at = match self.model.queue {
            Queue::Single => &mut self.free_at_ns,
            Queue::PerConnection => &mut peer.free_at_ns,
        };
        let at_ns = after_pauses(&self.model.pauses, now_ns.max(*free_at), work);
        *free_at = at_ns;
        let fault = self.draw_fault();
        peer.is_finished =
            fault.is_some_and(|f| !matches!(f, Fault::Status | Fault::Body | Fault::Twice));
        self.reply(fault, peer, at_ns)
    }

    fn reply(
        &self,
        fault: Option<Fault>,
        peer: &SimulatedConnection,
        at_ns: u64,
    ) -> Option<ServerAction> {
        let body = &self.model.body[..];
        let keep_alive = self.model.keep_alive_s.map(|s| format!("\r\nKeep-Alive: timeout={s}"));
        let content_type = format!("text/plain{}", keep_alive.unwrap_or_default());
        let ok = |close: bool| match &peer.session_response {
            Some(response) if !close => response.message(),
            _ => encode::response(200, "OK", &content_type, body.len(), close, body),
        };
        let (bytes, next_state) = match fault {
            None => (ok(false), NextConnectionState::KeepOpen),
            Some(Fault::PoliteClose) => (ok(true), NextConnectionState::Close),
            Some(Fault::QuietClose) => (ok(false), NextConnectionState::Close),
            Some(Fault::CloseNotice) => (
                encode::response(408, "Request Timeout", "text/plain", 0, true, b""),
                NextConnectionState::Close,
            ),
            Some(Fault::Twice) => ([ok(false), ok(false)].concat(), NextConnectionState::KeepOpen),
            Some(Fault::Status) => (
                encode::response(500, "Oops", "text/plain", 4, false, b"oops"),
                NextConnectionState::KeepOpen,
            ),
            Some(Fault::Body) => {
                let incorrect_body = vec![b'?'; body.len()];
                (
                    encode::response(
                        200,
                        "OK",
                        "text/plain",
                        incorrect_body.len(),
                        false,
                        &incorrect_body,
                    ),
                    NextConnectionState::KeepOpen,
                )
            }
            Some(Fault::Reset) => (Vec::new(), NextConnectionState::Reset),
            Some(Fault::CloseInBody) => {
                let mut bytes = ok(false);
                bytes.truncate(bytes.len() - body.len() / 2 - 1);
                (bytes, NextConnectionState::Close)
            }
            Some(Fault::Garbage) => (GARBAGE.to_vec(), NextConnectionState::KeepOpen),
            Some(Fault::Silence) => return None,
            Some(fault) => panic!("{fault:?} is a fault of HTTP/2 only"),
        };
        // Only in these cases, `bytes` is exactly one correct response.
        let is_correct = matches!(fault, None | Some(Fault::PoliteClose | Fault::QuietClose));
        let completes = peer.request.filter(|_| is_correct);
        Some(ServerAction::Send { at_ns, bytes, next_state, completes })
    }
}

// HTTP/2: the response of each stream leaves when its work is done.
impl SimulatedServer {
    /// Handles bytes of an HTTP/2 connection. `out`: bytes that are already waiting to be sent.
    fn receive_frames(
        &mut self,
        peer: &mut SimulatedConnection,
        mut bytes: &[u8],
        now_ns: u64,
        mut out: Vec<u8>,
    ) -> Vec<ServerAction> {
        let mut actions = Vec::new();
        let ServerProtocol::H2(streams) = &mut peer.protocol else { return actions };
        if peer.is_finished {
            return actions;
        }
        loop {
            let (used, event) = streams
                .wire
                .next(bytes, &mut out)
                .expect("the generator should write valid frames");
            bytes = &bytes[used..];
            match event {
                h2::ServerEvent::NeedMore => break,
                h2::ServerEvent::Handled => {}
                h2::ServerEvent::Request { stream, end, .. } => {
                    let fields = streams.wire.fields();
                    let path = fields.iter().find(|(name, _)| *name == b":path");
                    let identity = path.and_then(|(_, path)| RequestIdentity::from_path(path));
                    let target = path.map_or(&b""[..], |(_, path)| path);
                    let truth = &mut self.truth.sessions;
                    let response = self.model.sessions.respond(target, fields.iter(), truth);
                    streams.session_responses.extend(response.map(|response| (stream, response)));
                    streams.requests.extend(identity.map(|identity| (stream, identity)));
                    if !end {
                        streams.bodies.insert(stream, Vec::new());
                        continue;
                    }
                    actions.extend(self.begin(streams, stream, now_ns, &mut out));
                }
                h2::ServerEvent::Body { stream, data, end } => {
                    let Some(body) = streams.bodies.get_mut(&stream) else { continue };
                    body.extend_from_slice(data);
                    if end && let Some(body) = streams.bodies.remove(&stream) {
                        *self.truth.bodies.entry(body).or_default() += 1;
                        actions.extend(self.begin(streams, stream, now_ns, &mut out));
                    }
                }
                h2::ServerEvent::Reset { stream } => {
                    streams.bodies.remove(&stream);
                    streams.working.remove(&stream);
                    self.truth.given_up.extend(streams.requests.remove(&stream));
                }
            }
        }
        let next_state = streams.next_state();
        peer.is_finished = next_state != NextConnectionState::KeepOpen;
        if !out.is_empty() || peer.is_finished {
            // These bytes leave now, before the responses to all requests in progress.
            actions.insert(
                0,
                ServerAction::Send { at_ns: now_ns, bytes: out, next_state, completes: None },
            );
        }
        actions
    }

    /// Begins work on a complete request.
    fn begin(
        &mut self,
        streams: &mut Streams,
        stream: u32,
        now_ns: u64,
        out: &mut Vec<u8>,
    ) -> Option<ServerAction> {
        self.truth.requests += 1;
        let work = self.draw_work();
        let fault = self.draw_fault();
        if fault == Some(Fault::Refuse) {
            streams.wire.reset(stream, ErrorCode::RefusedStream, out);
            return None;
        }
        if fault == Some(Fault::GoAway) {
            streams.go_away(out);
        }
        streams.wire.defer(stream);
        if fault == Some(Fault::Silence) {
            return None;
        }
        streams.working.insert(stream, fault);
        let from_ns = match self.model.queue {
            Queue::Single => now_ns.max(self.free_at_ns),
            Queue::PerConnection => now_ns,
        };
        let until_ns = after_pauses(&self.model.pauses, from_ns, work);
        if self.model.queue == Queue::Single {
            self.free_at_ns = until_ns;
        }
        Some(ServerAction::Work { until_ns, stream })
    }

    /// Sends the response of a stream whose work is done at `now_ns`.
    pub(super) fn finish(
        &mut self,
        peer: &mut SimulatedConnection,
        stream: u32,
        now_ns: u64,
    ) -> Option<ServerAction> {
        let ServerProtocol::H2(streams) = &mut peer.protocol else { return None };
        if peer.is_finished {
            return None;
        }
        // The entry is missing if the client has reset the stream.
        let fault = streams.working.remove(&stream)?;
        let request = streams.requests.get(&stream).copied();
        let response = streams.session_responses.remove(&stream).map(|response| response.stream());
        let mut bytes = Vec::new();
        let mut next_state = NextConnectionState::KeepOpen;
        let wire = &mut streams.wire;
        match fault {
            None | Some(Fault::GoAway) => {
                wire.respond(stream, response.as_ref().unwrap_or(&self.responses.ok), &mut bytes);
            }
            Some(Fault::Status) => wire.respond(stream, &self.responses.failed, &mut bytes),
            Some(Fault::Body) => wire.respond(stream, &self.responses.incorrect_body, &mut bytes),
            Some(Fault::Malformed) => wire.respond(stream, &self.responses.malformed, &mut bytes),
            Some(Fault::StreamReset) => wire.reset(stream, ErrorCode::InternalError, &mut bytes),
            Some(Fault::Reset) => next_state = NextConnectionState::Reset,
            Some(Fault::CloseInBody) => {
                wire.respond(stream, &self.responses.ok, &mut bytes);
                bytes.truncate(bytes.len().saturating_sub(self.model.body.len() / 2 + 1));
                next_state = NextConnectionState::Close;
            }
            Some(Fault::Garbage) => bytes.extend_from_slice(GARBAGE),
            Some(fault) => panic!("{fault:?} should not reach the end of the work on a stream"),
        }
        if next_state == NextConnectionState::KeepOpen {
            next_state = streams.next_state();
        }
        peer.is_finished =
            next_state != NextConnectionState::KeepOpen || fault == Some(Fault::Garbage);
        let is_correct = matches!(fault, None | Some(Fault::GoAway));
        let completes = request.filter(|_| is_correct);
        Some(ServerAction::Send { at_ns: now_ns, bytes, next_state, completes })
    }
}

impl Streams {
    /// Begins a connection. A random share of connections receives GOAWAY immediately.
    fn begin(model: &ServerModel, rng: &mut Rng, out: &mut Vec<u8>) -> Streams {
        let settings =
            ServerSettings { max_streams: model.max_streams, stream_window: model.request_window };
        let mut streams = Streams {
            wire: h2::Server::new(settings, out),
            bodies: BTreeMap::new(),
            requests: BTreeMap::new(),
            session_responses: BTreeMap::new(),
            working: BTreeMap::new(),
            has_sent_go_away: false,
        };
        if rng.chance(model.turn_away) {
            streams.go_away(out);
        }
        streams
    }

    /// Sends GOAWAY.
    fn go_away(&mut self, out: &mut Vec<u8>) {
        self.wire.go_away(ErrorCode::NoError, out);
        self.has_sent_go_away = true;
    }

    /// Returns the next state of the connection.
    fn next_state(&self) -> NextConnectionState {
        if self.has_sent_go_away && self.wire.open_streams() == 0 {
            NextConnectionState::Close
        } else {
            NextConnectionState::KeepOpen
        }
    }
}

/// Returns the instant at which work that begins at `from_ns` and takes `work_ns` is done. The
/// server does not work during `pauses`, which are in order of time.
fn after_pauses(pauses: &[Pause], from_ns: u64, work_ns: u64) -> u64 {
    let mut start = from_ns;
    let mut remaining = work_ns;
    for pause in pauses {
        let pause_ends = pause.at_ns + pause.for_ns;
        if pause_ends <= start || pause.at_ns >= start + remaining {
            continue;
        }
        remaining -= pause.at_ns.saturating_sub(start);
        start = pause_ends;
    }
    start + remaining
}
