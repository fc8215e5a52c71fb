//! Simulated servers: how long they take, and how they misbehave.

use std::collections::BTreeMap;

use dyno_archive::Outcome;
use dyno_wire::h1::{encode, request};
use dyno_wire::h2::settings::{DEFAULT_WINDOW, ServerSettings};
use dyno_wire::h2::{ErrorCode, server as h2};
use dyno_wire::server_protocol::ServerProtocol;

use crate::rng::Rng;

/// Service time of one request.
#[derive(Clone, Copy, Debug)]
pub enum ServiceTime {
    Fixed { ns: u64 },
    Exponential { mean_ns: f64 },
}

/// Queueing discipline of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// One request at a time, first come, first served: with Poisson arrivals and exponential
    /// service, M/M/1.
    Single,
    /// Each connection has a server of its own; with HTTP/2, each stream, so that responses may
    /// overtake each other.
    PerConnection,
}

/// The server does no work from `at_ns`, on the world's clock, for `for_ns`, both in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    pub at_ns: u64,
    pub for_ns: u64,
}

/// A way to answer wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Status 500.
    Status,
    /// A right head and a wrong body.
    Body,
    /// No answer, the connection is reset.
    Reset,
    /// The connection is closed in the middle of the body.
    CloseInBody,
    /// Bytes that are no HTTP.
    Garbage,
    /// No answer, ever: on this connection of HTTP/1.1, or on this stream of HTTP/2.
    Silence,
    /// HTTP/1.1: a correct response with `Connection: close`, and the close.
    PoliteClose,
    /// HTTP/1.1: a correct response, and the close, which nothing announced.
    QuietClose,
    /// HTTP/1.1: a correct response, and the same again.
    Twice,
    /// HTTP/2: the stream is reset.
    StreamReset,
    /// HTTP/2: the stream is refused, so that it may be asked for again.
    Refuse,
    /// HTTP/2: this stream is the last that is dealt with. Once all are answered the connection is
    /// closed.
    GoAway,
    /// HTTP/2: a field's name has upper-case letters.
    Malformed,
}

impl Fault {
    pub const OF_HTTP1: [Fault; 7] = [
        Fault::Status,
        Fault::Body,
        Fault::Reset,
        Fault::CloseInBody,
        Fault::Garbage,
        Fault::Silence,
        Fault::PoliteClose,
    ];

    pub const OF_HTTP2: [Fault; 10] = [
        Fault::Status,
        Fault::Body,
        Fault::Reset,
        Fault::CloseInBody,
        Fault::Garbage,
        Fault::Silence,
        Fault::StreamReset,
        Fault::Refuse,
        Fault::GoAway,
        Fault::Malformed,
    ];

    /// The outcome with which the exchange must be counted.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self {
            Fault::Status => Outcome::UnexpectedStatus,
            Fault::Body => Outcome::UnexpectedBody,
            Fault::Reset => Outcome::Reset,
            Fault::CloseInBody => Outcome::ClosedEarly,
            Fault::Garbage | Fault::Malformed => Outcome::ProtocolError,
            Fault::Silence => Outcome::Timeout,
            Fault::StreamReset => Outcome::StreamReset,
            // The next try, or the last response, is a right one.
            Fault::PoliteClose
            | Fault::QuietClose
            | Fault::Twice
            | Fault::Refuse
            | Fault::GoAway => Outcome::Ok,
        }
    }
}

/// A server of the simulated world. A connection that begins with the preface of HTTP/2 speaks
/// that.
#[derive(Clone, Debug)]
pub struct ServerModel {
    pub service: ServiceTime,
    pub queue: Queue,
    pub pauses: Vec<Pause>,
    /// Each with its probability per request.
    pub faults: Vec<(Fault, f64)>,
    pub body: Vec<u8>,
    /// Bytes of a connection that the server reads before it stops reading: what is flushed later
    /// never leaves. `None`: all.
    pub reads: Option<u64>,
    /// Streams that a connection of HTTP/2 may have open at once; `None`: any number.
    pub max_streams: Option<u32>,
    /// Bytes of a request's body that a stream of HTTP/2 takes without a WINDOW_UPDATE.
    pub request_window: u32,
    /// Probability that a connection of HTTP/2 is sent away before its first stream.
    pub turn_away: f64,
    pub expecting: Expecting,
}

/// The answer to `Expect: 100-continue` over HTTP/1.1, as soon as the head has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expecting {
    Nothing,
    /// 100.
    Continue,
    /// 417.
    Refuse,
    /// 100 and 200 at once, without a look at the body.
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
            expecting: Expecting::Nothing,
        }
    }
}

/// Ground truth of the simulated server, for comparison with the generator's report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Bodies that came before the 100 that they should have waited for.
    pub early_bodies: u64,
    /// Requests that arrived whole.
    pub requests: u64,
    pub faults: BTreeMap<Fault, u64>,
    /// Bodies of requests that arrived whole over HTTP/2, and how often each did.
    pub bodies: BTreeMap<Vec<u8>, u64>,
    /// Correct responses that the generator took, in that order, to requests that carry an
    /// [`RequestIdentity`].
    pub answered: Vec<Answered>,
    /// Requests that the generator has given up by a reset of their streams. An answer may have
    /// come meanwhile where the generator lost its CPU between the decision and the reset.
    pub given_up: Vec<RequestIdentity>,
}

/// A correct response that the generator took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    pub to: RequestIdentity,
    /// When the last of its bytes was taken, on the world's clock.
    pub at_ns: u64,
}

/// The identity of a request, which it carries in its path: `/INTENDED/NUMBER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestIdentity {
    /// Its intended start, nanoseconds since the load began.
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

/// An action of the server, and when it happens.
#[derive(Clone, Debug)]
pub(super) enum ServerAction {
    Say {
        at_ns: u64,
        bytes: Vec<u8>,
        then: NextConnectionState,
        /// The request whose correct response is complete with these bytes.
        answers: Option<RequestIdentity>,
    },
    /// Work on a stream of HTTP/2. [`SimulatedServer::finish`] must be called at its end.
    Work { until_ns: u64, stream: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextConnectionState {
    KeepOpen,
    Close,
    Reset,
}

/// The server's half of one connection.
#[derive(Debug, Default)]
pub(super) struct SimulatedConnection {
    talk: ServerProtocol<Streams>,
    /// The identity of the request that is being read.
    asking: Option<RequestIdentity>,
    free_at_ns: u64,
    /// Whether the server has decided to answer no more on this connection.
    done: bool,
    /// When 100 or 417 is said to the request that is being read.
    continues_at_ns: Option<u64>,
}

/// A connection of HTTP/2.
#[derive(Debug)]
struct Streams {
    wire: h2::Server,
    /// Bodies of requests in flight.
    bodies: BTreeMap<u32, Vec<u8>>,
    /// The identities of the requests by stream, answered ones among them.
    asking: BTreeMap<u32, RequestIdentity>,
    /// The requests that are being worked on, by stream, and the fault with which each will be
    /// answered.
    working: BTreeMap<u32, Option<Fault>>,
    /// GOAWAY has been sent.
    leaving: bool,
}

#[derive(Debug)]
pub(super) struct SimulatedServer {
    model: ServerModel,
    rng: Rng,
    free_at_ns: u64,
    answers: Answers,
    pub(super) truth: Truth,
}

/// Answers over HTTP/2.
#[derive(Debug)]
struct Answers {
    ok: h2::EncodedResponse,
    failed: h2::EncodedResponse,
    wrong: h2::EncodedResponse,
    malformed: h2::EncodedResponse,
}

impl Answers {
    fn new(body: &[u8]) -> Answers {
        let length = body.len().to_string();
        let answer = |status: &str, name: &str, length: &str, body: &[u8]| {
            let fields = [(":status", status), (name, "text/plain"), ("content-length", length)];
            h2::EncodedResponse::new(&fields, body, h2::FrameLayout::Two)
        };
        Answers {
            ok: answer("200", "content-type", &length, body),
            failed: answer("500", "content-type", "4", b"oops"),
            wrong: answer("200", "content-type", &length, &vec![b'?'; body.len()]),
            malformed: answer("200", "Content-Type", &length, body),
        }
    }
}

const GARBAGE: &[u8] = b"\x15\x03\x01\x00\x02\x02\x46 no http\r\n\r\n";

impl SimulatedServer {
    pub(super) fn new(model: ServerModel, rng: Rng) -> Self {
        let answers = Answers::new(&model.body);
        SimulatedServer { model, rng, free_at_ns: 0, answers, truth: Truth::default() }
    }

    /// Bytes arrive at `now_ns`; says what will be done, and when.
    pub(super) fn receive(
        &mut self,
        peer: &mut SimulatedConnection,
        bytes: &[u8],
        now_ns: u64,
    ) -> Vec<ServerAction> {
        match &mut peer.talk {
            ServerProtocol::H1(_) => self.receive_messages(peer, bytes, now_ns),
            ServerProtocol::H2(_) => self.receive_frames(peer, bytes, now_ns, Vec::new()),
            ServerProtocol::Unknown(_) => {
                let mut out = Vec::new();
                let begin_h2 = || Streams::begin(&self.model, &mut self.rng, &mut out);
                match peer.talk.begin(bytes, begin_h2) {
                    Some(first) if matches!(peer.talk, ServerProtocol::H2(_)) => {
                        self.receive_frames(peer, &first, now_ns, out)
                    }
                    Some(first) => self.receive_messages(peer, &first, now_ns),
                    None => Vec::new(),
                }
            }
        }
    }

    fn draw_work(&mut self) -> u64 {
        match self.model.service {
            ServiceTime::Fixed { ns } => ns,
            ServiceTime::Exponential { mean_ns } => self.rng.exponential(mean_ns) as u64,
        }
    }

    fn draw_fault(&mut self) -> Option<Fault> {
        let fault =
            self.model.faults.iter().find(|(_, odds)| self.rng.chance(*odds)).map(|(f, _)| *f)?;
        *self.truth.faults.entry(fault).or_default() += 1;
        Some(fault)
    }
}

// HTTP/1.1: answers leave in the order of the requests.
impl SimulatedServer {
    fn receive_messages(
        &mut self,
        peer: &mut SimulatedConnection,
        mut bytes: &[u8],
        now_ns: u64,
    ) -> Vec<ServerAction> {
        let mut acts = Vec::new();
        loop {
            let ServerProtocol::H1(reader) = &mut peer.talk else { return acts };
            let (used, event) = reader.next(bytes).expect("the generator writes valid requests");
            bytes = &bytes[used..];
            match event {
                request::RequestEvent::NeedMore => return acts,
                request::RequestEvent::Head(head) => {
                    peer.asking = RequestIdentity::from_path(head.target);
                    let expects = head.fields().get("expect").is_some();
                    peer.continues_at_ns = None;
                    if expects && let Some(act) = self.continue_or_refuse(peer, now_ns) {
                        acts.push(act);
                    }
                }
                request::RequestEvent::Body(_) => {
                    let is_early = peer.continues_at_ns.is_some_and(|at_ns| now_ns < at_ns);
                    self.truth.early_bodies += u64::from(is_early);
                }
                request::RequestEvent::End => {
                    if peer.done {
                        continue;
                    }
                    self.truth.requests += 1;
                    acts.extend(self.serve(peer, now_ns));
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
        const READS_NS: u64 = 50_000;
        let at_ns = now_ns + READS_NS;
        let bytes = match self.model.expecting {
            Expecting::Nothing => return None,
            Expecting::Continue => b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
            Expecting::Refuse => {
                peer.done = true;
                encode::response(417, "Expectation Failed", "text/plain", 0, false, b"")
            }
            Expecting::Both => {
                peer.done = true;
                let mut both = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
                both.extend(encode::response(200, "OK", "text/plain", 0, false, &self.model.body));
                both
            }
        };
        peer.continues_at_ns = Some(at_ns);
        Some(ServerAction::Say { at_ns, bytes, then: NextConnectionState::KeepOpen, answers: None })
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
        peer.done = fault.is_some_and(|f| !matches!(f, Fault::Status | Fault::Body | Fault::Twice));
        self.reply(fault, peer.asking, at_ns)
    }

    fn reply(
        &self,
        fault: Option<Fault>,
        asking: Option<RequestIdentity>,
        at_ns: u64,
    ) -> Option<ServerAction> {
        let body = &self.model.body[..];
        let ok = |close: bool| encode::response(200, "OK", "text/plain", body.len(), close, body);
        let (bytes, then) = match fault {
            None => (ok(false), NextConnectionState::KeepOpen),
            Some(Fault::PoliteClose) => (ok(true), NextConnectionState::Close),
            Some(Fault::QuietClose) => (ok(false), NextConnectionState::Close),
            Some(Fault::Twice) => ([ok(false), ok(false)].concat(), NextConnectionState::KeepOpen),
            Some(Fault::Status) => (
                encode::response(500, "Oops", "text/plain", 4, false, b"oops"),
                NextConnectionState::KeepOpen,
            ),
            Some(Fault::Body) => {
                let wrong = vec![b'?'; body.len()];
                (
                    encode::response(200, "OK", "text/plain", wrong.len(), false, &wrong),
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
        let answers =
            asking.filter(|_| matches!(fault, None | Some(Fault::PoliteClose | Fault::QuietClose)));
        Some(ServerAction::Say { at_ns, bytes, then, answers })
    }
}

// HTTP/2: each stream is answered when its work is done.
impl SimulatedServer {
    /// `out`: bytes to send first.
    fn receive_frames(
        &mut self,
        peer: &mut SimulatedConnection,
        mut bytes: &[u8],
        now_ns: u64,
        mut out: Vec<u8>,
    ) -> Vec<ServerAction> {
        let mut acts = Vec::new();
        let ServerProtocol::H2(streams) = &mut peer.talk else { return acts };
        if peer.done {
            return acts;
        }
        loop {
            let (used, event) =
                streams.wire.next(bytes, &mut out).expect("the generator writes valid frames");
            bytes = &bytes[used..];
            match event {
                h2::ServerEvent::NeedMore => break,
                h2::ServerEvent::Handled => {}
                h2::ServerEvent::Request { stream, end, .. } => {
                    let path = streams.wire.fields().iter().find(|(name, _)| *name == b":path");
                    let identity = path.and_then(|(_, path)| RequestIdentity::from_path(path));
                    streams.asking.extend(identity.map(|identity| (stream, identity)));
                    if !end {
                        streams.bodies.insert(stream, Vec::new());
                        continue;
                    }
                    acts.extend(self.begin(streams, stream, now_ns, &mut out));
                }
                h2::ServerEvent::Body { stream, data, end } => {
                    let Some(body) = streams.bodies.get_mut(&stream) else { continue };
                    body.extend_from_slice(data);
                    if end && let Some(body) = streams.bodies.remove(&stream) {
                        *self.truth.bodies.entry(body).or_default() += 1;
                        acts.extend(self.begin(streams, stream, now_ns, &mut out));
                    }
                }
                h2::ServerEvent::Reset { stream } => {
                    streams.bodies.remove(&stream);
                    streams.working.remove(&stream);
                    self.truth.given_up.extend(streams.asking.remove(&stream));
                }
            }
        }
        let then = streams.next_state();
        peer.done = then != NextConnectionState::KeepOpen;
        if !out.is_empty() || peer.done {
            // Before what is still being worked on.
            acts.insert(0, ServerAction::Say { at_ns: now_ns, bytes: out, then, answers: None });
        }
        acts
    }

    /// A request has come whole.
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

    /// The work for a stream is done at `now_ns`.
    pub(super) fn finish(
        &mut self,
        peer: &mut SimulatedConnection,
        stream: u32,
        now_ns: u64,
    ) -> Option<ServerAction> {
        let ServerProtocol::H2(streams) = &mut peer.talk else { return None };
        if peer.done {
            return None;
        }
        // Otherwise the client has given up on it.
        let fault = streams.working.remove(&stream)?;
        let asking = streams.asking.get(&stream).copied();
        let mut bytes = Vec::new();
        let mut then = NextConnectionState::KeepOpen;
        let wire = &mut streams.wire;
        match fault {
            None | Some(Fault::GoAway) => wire.respond(stream, &self.answers.ok, &mut bytes),
            Some(Fault::Status) => wire.respond(stream, &self.answers.failed, &mut bytes),
            Some(Fault::Body) => wire.respond(stream, &self.answers.wrong, &mut bytes),
            Some(Fault::Malformed) => wire.respond(stream, &self.answers.malformed, &mut bytes),
            Some(Fault::StreamReset) => wire.reset(stream, ErrorCode::InternalError, &mut bytes),
            Some(Fault::Reset) => then = NextConnectionState::Reset,
            Some(Fault::CloseInBody) => {
                wire.respond(stream, &self.answers.ok, &mut bytes);
                bytes.truncate(bytes.len().saturating_sub(self.model.body.len() / 2 + 1));
                then = NextConnectionState::Close;
            }
            Some(Fault::Garbage) => bytes.extend_from_slice(GARBAGE),
            Some(fault) => panic!("{fault:?} does not end in an answer of HTTP/2"),
        }
        if then == NextConnectionState::KeepOpen {
            then = streams.next_state();
        }
        peer.done = then != NextConnectionState::KeepOpen || fault == Some(Fault::Garbage);
        let answers = asking.filter(|_| matches!(fault, None | Some(Fault::GoAway)));
        Some(ServerAction::Say { at_ns: now_ns, bytes, then, answers })
    }
}

impl Streams {
    /// Begins a connection, and closes it immediately in a random share of cases.
    fn begin(model: &ServerModel, rng: &mut Rng, out: &mut Vec<u8>) -> Streams {
        let settings =
            ServerSettings { max_streams: model.max_streams, stream_window: model.request_window };
        let mut streams = Streams {
            wire: h2::Server::new(settings, out),
            bodies: BTreeMap::new(),
            asking: BTreeMap::new(),
            working: BTreeMap::new(),
            leaving: false,
        };
        if rng.chance(model.turn_away) {
            streams.go_away(out);
        }
        streams
    }

    fn go_away(&mut self, out: &mut Vec<u8>) {
        self.wire.go_away(ErrorCode::NoError, out);
        self.leaving = true;
    }

    /// Returns the next state of the connection.
    fn next_state(&self) -> NextConnectionState {
        if self.leaving && self.wire.open_streams() == 0 {
            NextConnectionState::Close
        } else {
            NextConnectionState::KeepOpen
        }
    }
}

/// When work of `work_ns` that may begin at `from_ns` is done, given the pauses.
fn after_pauses(pauses: &[Pause], from_ns: u64, work_ns: u64) -> u64 {
    let mut start = from_ns;
    let mut left = work_ns;
    for pause in pauses {
        let pause_ends = pause.at_ns + pause.for_ns;
        if pause_ends <= start || pause.at_ns >= start + left {
            continue;
        }
        left -= pause.at_ns.saturating_sub(start);
        start = pause_ends;
    }
    start + left
}
