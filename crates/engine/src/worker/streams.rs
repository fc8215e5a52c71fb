//! Exchanges as streams of HTTP/2.

use dyno_archive::outcome::Outcome;
use dyno_archive::plan::Http2;
use dyno_wire::h2::settings::ClientSettings;
use dyno_wire::h2::{Client, ClientEvent, EncodedRequest, ErrorCode, Http2Error, Io, StreamKey};

use super::Worker;
use super::exchanges::{ConnectionAfterRead, WireError};
use crate::driver::{ConnId, Driver};
use crate::expect::AnswerState;
use crate::slot::{
    ConnectionState, Exchange, H2Connection, ProtocolState, Replies, ResponseProgress, Slot,
    StreamExchange,
};
use crate::traffic::CompiledRequest;
use crate::{Instant, limits};

impl Slot {
    /// Whether no more requests may be sent on this connection: the server takes no more streams,
    /// or we have said that it ends.
    pub(super) fn is_draining(&self) -> bool {
        match &self.talk {
            ProtocolState::H1(h1) => h1.said_close,
            ProtocolState::H2(h2) => h2.client.is_draining(),
        }
    }

    /// Whether the connection came up and has taken no request at all.
    pub(super) fn is_unused(&self) -> bool {
        self.state == ConnectionState::Up && self.served == 0
    }
}

// Beginning and ending.
impl Worker {
    /// The connection is there and HTTP/2 is to be spoken: its preface goes out, and the server's
    /// is awaited.
    pub(super) fn greet<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let mut io = Io { out: &mut self.out, counts: &mut self.frames.counts };
        let client = Client::new(self.settings, self.config.traffic.shared_bytes(), &mut io);
        let slot = &mut self.slots[conn as usize];
        let connecting_since = match slot.state {
            ConnectionState::Connecting { since: at }
            | ConnectionState::Securing { connecting_since: at, .. } => at,
            _ => now,
        };
        slot.state = ConnectionState::Greeting { connecting_since };
        slot.talk = talk(client, self.config.streams, now);
        self.push_out(conn, driver);
    }

    /// The server has switched to HTTP/2: the request that asked for it continues as stream 1.
    pub(super) fn on_upgraded(&mut self, conn: ConnId, now: Instant) {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H1(h1) = &mut slot.talk else { return };
        let Some(exchange) = h1.in_flight.pop_front() else { return };
        let request = self.config.traffic.request(exchange.request);
        let asked = (request.kind, wants_fields(request, &exchange));
        // The request has been sent whole.
        let (blocked_since, holds_body) = (Instant::NEVER, false);
        let stream =
            StreamExchange { exchange, answer: AnswerState::default(), blocked_since, holds_body };
        let mut io = Io { out: &mut self.out, counts: &mut self.frames.counts };
        let shared = self.config.traffic.shared_bytes();
        let (client, _) = Client::from_upgrade(self.settings, shared, asked, stream, &mut io);
        slot.talk = talk(client, self.config.streams, now);
        // Until the server's settings come it is being made anew, from this instant on.
        slot.state = ConnectionState::Greeting { connecting_since: now };
        self.up -= 1;
        self.next_timeout_check =
            self.next_timeout_check.min(now.plus(self.config.policy.connect_timeout_ns));
    }

    /// Announces to an HTTP/2 server that the connection is about to be closed, with the reason.
    pub(super) fn say_go_away<D: Driver>(&mut self, conn: ConnId, code: ErrorCode, driver: &mut D) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].talk else { return };
        h2.client.go_away(code, &mut Io { out: &mut self.out, counts: &mut self.frames.counts });
        self.push_out(conn, driver);
        driver.flush(&mut |conn, at| self.on_handed_over(conn, at));
    }

    /// Opens a stream for an exchange. Its bytes go out with [`Worker::push_out`].
    #[inline]
    pub(super) fn open_stream(&mut self, conn: ConnId, mut exchange: Exchange, now: Instant) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].talk else { return };
        let request = self.config.traffic.request(exchange.request);
        let Some(template) = &request.stream else { return };
        // As over HTTP/1.1: what its response time will count from.
        self.config.draws.intended_ns = exchange.intended.ns_since(self.began);
        let made = template.make(
            h2.client.form(),
            &mut exchange.draw,
            &mut self.config.draws,
            &mut self.scratch,
        );
        let holds_body =
            self.config.traffic.expects_continue(exchange.request) && !made.body.is_empty();
        let request = EncodedRequest {
            block: made.block,
            field_bytes: made.field_bytes,
            body: made.body,
            kind: request.kind,
            wants_fields: wants_fields(request, &exchange) || self.cookies.is_looking(),
            holds_body,
        };
        let stream = StreamExchange {
            exchange,
            answer: AnswerState::default(),
            blocked_since: Instant::NEVER,
            holds_body,
        };
        let mut io = Io { out: &mut self.out, counts: &mut self.frames.counts };
        let (key, is_whole) = h2.client.request(&request, stream, &mut io);
        if request.body.len() >= limits::LARGE_REQUEST_BYTES {
            h2.large.push((key, io.out.len()));
        }
        h2.barred_since = Instant::NEVER;
        h2.unsent.push(key);
        if holds_body {
            self.count_held();
        } else if !is_whole && let Some(stream) = h2.client.data(key) {
            // The windows hold the rest up from here on.
            stream.blocked_since = now;
        }
    }

    /// After bytes were read: takes back the requests that the server will not deal with, and opens
    /// the connection for requests once the server's settings are there.
    pub(super) fn settle_streams<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H2(h2) = &mut slot.talk else { return };
        if matches!(slot.state, ConnectionState::Greeting { .. }) && h2.client.is_ready() {
            self.frames.connections += 1;
            self.slots[conn as usize].may_speak_h2 = true;
            self.on_established(conn, now, driver);
        }
    }
}

// Reading.
impl Worker {
    /// Reads HTTP/2.
    pub(super) fn read_streams(
        &mut self,
        conn: ConnId,
        now: Instant,
        received_at: Option<Instant>,
        mut bytes: &[u8],
    ) -> Result<ConnectionAfterRead, WireError> {
        while !bytes.is_empty() {
            let ProtocolState::H2(h2) = &mut self.slots[conn as usize].talk else {
                return Ok(ConnectionAfterRead::Open);
            };
            h2.received = now;
            let mut io = Io { out: &mut self.out, counts: &mut self.frames.counts };
            match h2.client.next(&mut bytes, &mut io)? {
                ClientEvent::NeedMore => break,
                ClientEvent::Handled => {}
                ClientEvent::Body { stream, data, end } => {
                    self.recorder.current().body_received += data.len() as u64;
                    if let Some(s) = h2.client.data(stream) {
                        s.answer.see_body(
                            data,
                            &self.config.traffic.request(s.exchange.request).expect,
                        );
                    }
                    if end {
                        self.end_stream(conn, stream, now, received_at);
                    }
                }
                ClientEvent::Head { stream, status, end } => {
                    self.see_head(conn, stream, status, now)?;
                    if end {
                        self.end_stream(conn, stream, now, received_at);
                    }
                }
                ClientEvent::Informational { stream, status } => {
                    self.recorder.current().outcomes.count_status(status);
                    if let Some(s) = h2.client.data(stream) {
                        // The first bytes of this answer had arrived at the completion's instant.
                        s.exchange.first_byte = s.exchange.first_byte.min(now);
                    }
                    self.see_interim_on_stream(conn, stream, status, now);
                }
                ClientEvent::End { stream } => self.end_stream(conn, stream, now, received_at),
                ClientEvent::Settings => {
                    self.note_granted_streams(conn, now);
                    self.resume_streams(conn, now);
                }
                ClientEvent::Window => self.resume_streams(conn, now),
                ClientEvent::Reset { stream, code } => {
                    self.reset_by_server(conn, stream, code, now)?;
                }
                ClientEvent::Malformed { stream, violation } => {
                    let stream = h2.client.cancel(stream, violation.code(), &mut io);
                    self.name_error(&violation);
                    self.end_block(stream.blocked_since, now);
                    // The fault had arrived at the completion's instant.
                    self.on_exchange_end(conn, &stream.exchange, Outcome::ProtocolError, now, None);
                }
                ClientEvent::GoAway { .. } => self.gone_away(conn, now),
            }
        }
        Ok(ConnectionAfterRead::Open)
    }

    #[inline]
    fn see_head(
        &mut self,
        conn: ConnId,
        key: StreamKey,
        status: u16,
        now: Instant,
    ) -> Result<(), WireError> {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].talk else { return Ok(()) };
        let H2Connection { client, .. } = &mut **h2;
        let (stream, fields) = client.data_and_fields(key);
        let exchange = &mut stream.exchange;
        if exchange.sent == Instant::NEVER {
            // An answer to a request that has not left yet is an answer to nothing.
            return Err(Http2Error::IdleStream.into());
        }
        if exchange.first_byte == Instant::NEVER {
            // The first bytes of this answer had arrived at the completion's instant.
            exchange.first_byte = now;
        }
        let expect = &self.config.traffic.request(exchange.request).expect;
        stream.answer.see_head(status, || fields.iter(), expect, exchange.in_full);
        if self.cookies.is_looking() {
            self.cookies.look(|| fields.iter());
        }
        if std::mem::replace(&mut stream.holds_body, false) {
            // The body is not sent any more: the stream is reset once its response is complete.
            self.count_answered_instead(status);
        }
        Ok(())
    }

    /// A stream has its whole response.
    #[inline]
    fn end_stream(
        &mut self,
        conn: ConnId,
        key: StreamKey,
        now: Instant,
        received_at: Option<Instant>,
    ) {
        let slot = &mut self.slots[conn as usize];
        slot.failures = 0;
        slot.answered = true;
        let ProtocolState::H2(h2) = &mut slot.talk else { return };
        let Some(StreamExchange { exchange, answer, blocked_since, .. }) = h2.client.data(key)
        else {
            return;
        };
        let (exchange, blocked_since) = (*exchange, *blocked_since);
        let verdict = answer.judge(&self.config.traffic.request(exchange.request).expect);
        // Bytes that windows hold up, and bytes that the kernel has not sent yet.
        let unsent =
            h2.client.unsent_bytes(key) as u64 + exchange.ends_at.saturating_sub(self.left);
        h2.client.finish(key, &mut Io { out: &mut self.out, counts: &mut self.frames.counts });
        self.frames.responses += 1;
        if unsent > 0 {
            self.count_early(unsent, verdict.status);
        }
        self.end_block(blocked_since, now);
        self.end_exchange(conn, &exchange, verdict, now, received_at);
    }

    /// Resumes bodies that windows held up.
    fn resume_streams(&mut self, conn: ConnId, now: Instant) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].talk else { return };
        let mut io = Io { out: &mut self.out, counts: &mut self.frames.counts };
        let recorder = &mut self.recorder;
        h2.client.resume(&mut io, &mut |stream| {
            // The window's update had arrived at the completion's instant: the wait ended with it.
            recorder.distributions.window_stall.record(now.ns_since(stream.blocked_since));
            stream.blocked_since = Instant::NEVER;
        });
    }

    /// A stream has ended; if windows still held its request up, that ended too.
    fn end_block(&mut self, since: Instant, now: Instant) {
        if since != Instant::NEVER {
            self.recorder.distributions.window_stall.record(now.ns_since(since));
        }
    }

    /// The connection ends at `now`, and with it the wait of what windows still held up.
    pub(super) fn end_stalls(&mut self, conn: ConnId, now: Instant) {
        let ProtocolState::H2(h2) = &self.slots[conn as usize].talk else { return };
        for (_, stream) in h2.client.iter().filter(|(_, s)| s.blocked_since != Instant::NEVER) {
            self.recorder.distributions.window_stall.record(now.ns_since(stream.blocked_since));
        }
    }

    fn reset_by_server(
        &mut self,
        conn: ConnId,
        key: StreamKey,
        code: ErrorCode,
        now: Instant,
    ) -> Result<(), WireError> {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H2(h2) = &mut slot.talk else { return Ok(()) };
        if h2.client.data(key).is_some_and(|stream| stream.exchange.sent == Instant::NEVER) {
            // The server cannot know of a request that has not left yet. One that ends them all the
            // same would have us queue one after the other.
            return Err(Http2Error::IdleStream.into());
        }
        let stream = h2.client.take(key);
        self.end_block(stream.blocked_since, now);
        if code == ErrorCode::RefusedStream {
            self.ask_again(conn, stream.exchange, now);
        } else {
            // The reset had arrived at the completion's instant.
            self.on_exchange_end(conn, &stream.exchange, Outcome::StreamReset, now, None);
        }
        Ok(())
    }

    /// The server takes no more streams. Those that it will not deal with are asked for again on
    /// the next connection.
    fn gone_away(&mut self, conn: ConnId, now: Instant) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].talk else { return };
        let unprocessed = h2.client.take_unprocessed();
        // From the youngest on, each to the front: they keep their order and come before what was
        // assigned later.
        for stream in unprocessed.into_iter().rev() {
            self.end_block(stream.blocked_since, now);
            self.ask_again(conn, stream.exchange, now);
        }
    }

    /// The server has said that it did not deal with a request, so it may be sent again (RFC 9113
    /// §8.7). It keeps its intended time: the detour is part of its response time.
    fn ask_again(&mut self, conn: ConnId, mut exchange: Exchange, now: Instant) {
        if exchange.retries >= limits::RETRIES {
            // That the last refusal had arrived is known at the completion's instant.
            return self.on_exchange_end(conn, &exchange, Outcome::StreamRefused, now, None);
        }
        exchange.retries += 1;
        self.frames.retried += 1;
        self.slots[conn as usize].assigned.push_front(exchange.to_unsent());
    }

    /// Counts a try for the exchanges that were assigned to a connection which was up and has gone
    /// without taking one request. Those that have had their last try end as `outcome`.
    pub(super) fn count_try(&mut self, conn: ConnId, outcome: Outcome, now: Instant) {
        for mut exchange in std::mem::take(&mut self.slots[conn as usize].assigned) {
            if exchange.retries >= limits::RETRIES {
                // Done: that the connection would not do is known at this instant.
                self.on_exchange_end(conn, &exchange, outcome, now, None);
            } else {
                exchange.retries += 1;
                self.slots[conn as usize].assigned.push_back(exchange);
            }
        }
    }

    /// Takes note of how many streams the server's settings allow. If they allow none, a time-out
    /// runs from now on.
    fn note_granted_streams(&mut self, conn: ConnId, now: Instant) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].talk else { return };
        let most = h2.client.peer().max_concurrent_streams;
        if let Some(most) = most {
            self.frames.granted =
                Some(self.frames.granted.map_or(most, |least: u32| least.min(most)));
        }
        // The settings had arrived at the completion's instant. Saying the same once more puts
        // nothing off. Nor does taking it back between two frames: only room that is still there
        // when all is read does.
        if most == Some(0) {
            h2.barred_since = h2.barred_since.min(now);
        }
        let limit = h2.barred_since.plus(self.config.policy.connect_timeout_ns);
        self.next_timeout_check = self.next_timeout_check.min(limit);
    }
}

// Time-outs.
impl Worker {
    /// Called once all that came has been read. If a stream may be opened now, the server bars us
    /// no more, even if none is opened.
    pub(super) fn see_room(&mut self, conn: ConnId) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].talk else { return };
        if h2.client.room() > 0 {
            h2.barred_since = Instant::NEVER;
        }
    }

    /// Ends the overdue streams of a connection, each with its own outcome.
    pub(super) fn check_streams(&mut self, conn: ConnId, now: Instant) -> TimeoutCheck {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H2(h2) = &mut slot.talk else {
            return TimeoutCheck::Alive(Instant::NEVER);
        };
        let mut next = Instant::NEVER;
        let mut overdue = Vec::new();
        let mut silent = None;
        for (key, stream) in h2.client.iter() {
            let (due, outcome) = self.config.policy.due(&stream.exchange);
            if due > now {
                next = next.min(due);
                continue;
            }
            overdue.push((key, outcome));
            if h2.received < stream.exchange.sent {
                // Nothing at all has come since: not a slow response, but a silent server. Or it
                // could not even leave.
                silent = Some(outcome);
            }
        }
        if h2.client.open_streams() == 0 && h2.client.room() == 0 {
            // A server that allows no stream at all is as good as no connection, whatever else it
            // says.
            let due = h2.barred_since.plus(self.config.policy.connect_timeout_ns);
            if due <= now {
                return TimeoutCheck::Shut;
            }
            next = next.min(due);
        }
        for (key, outcome) in overdue {
            let ProtocolState::H2(h2) = &mut self.slots[conn as usize].talk else { break };
            let mut io = Io { out: &mut self.out, counts: &mut self.frames.counts };
            let missing = h2.client.missing_part(key);
            let stream = h2.client.cancel(key, ErrorCode::Cancel, &mut io);
            ResponseProgress::new(&stream.exchange, &stream.answer, missing)
                .count(&mut self.timeouts);
            if stream.blocked_since != Instant::NEVER {
                // Nor did the windows grow until this instant.
                self.recorder.distributions.window_stall.record(now.ns_since(stream.blocked_since));
            }
            // Done: our own decision at this instant.
            self.on_exchange_end(conn, &stream.exchange, outcome, now, None);
        }
        silent.map_or(TimeoutCheck::Alive(next), TimeoutCheck::Silent)
    }
}

/// The result of looking at a connection's streams for time-outs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutCheck {
    /// The next time-out is due at this instant.
    Alive(Instant),
    /// A request timed out, with this outcome, and nothing at all arrived since it was sent, or it
    /// could not even leave: the server is silent.
    Silent(Outcome),
    /// The server has allowed no streams for too long.
    Shut,
}

/// The state of a connection on which HTTP/2 begins at `now`. Its lists get their full length here,
/// not while requests wait.
fn talk(mut client: Client<StreamExchange>, streams: u32, now: Instant) -> ProtocolState {
    let ahead = streams.min(limits::STREAMS_AHEAD) as usize;
    client.reserve(ahead);
    ProtocolState::H2(Box::new(H2Connection {
        client,
        unsent: Vec::with_capacity(ahead),
        large: Vec::new(),
        received: now,
        barred_since: Instant::NEVER,
        replies: Replies::default(),
    }))
}

/// Whether the fields of a response will be checked.
fn wants_fields(request: &CompiledRequest, exchange: &Exchange) -> bool {
    request.expect.may_be_coded || (exchange.in_full && !request.expect.deep.is_empty())
}

/// Our settings for a load's options.
pub(super) fn client_settings(options: &Http2) -> ClientSettings {
    let window = |bits: u8| ((1u64 << bits) - 1) as u32;
    ClientSettings {
        header_table_size: options.header_table_size,
        stream_window: window(options.window_bits),
        connection_window: window(options.connection_window_bits),
    }
}

/// Our settings as the request of an upgrade announces them: the payload of a SETTINGS frame, which
/// its HTTP2-Settings field has in base64url (RFC 7540 §3.2.1).
#[must_use]
pub fn upgrade_settings(options: &Http2) -> Vec<u8> {
    let mut payload = Vec::new();
    client_settings(options).put_payload(&mut payload);
    payload
}
