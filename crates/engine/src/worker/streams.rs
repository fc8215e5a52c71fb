//! Sends and reads exchanges as HTTP/2 streams: the counterpart of `requests` and `responses`,
//! which handle HTTP/1.1.

use dyno_archive::outcome::Outcome;
use dyno_archive::plan::Http2;
use dyno_wire::h2::settings::ClientSettings;
use dyno_wire::h2::{Client, ClientEvent, EncodedRequest, ErrorCode, Http2Error, Io, StreamKey};

use super::Worker;
use super::responses::{ConnectionAfterRead, WireError};
use crate::driver::{ConnId, Driver};
use crate::expect::ResponseState;
use crate::slot::{
    ConnectionState, Exchange, H2Connection, ProtocolState, Replies, ResponseProgress, Slot,
    StreamExchange,
};
use crate::traffic::CompiledRequest;
use crate::{Instant, limits};

impl Slot {
    /// Whether no more requests may be sent on this connection: the server takes no more streams,
    /// or we have announced the close.
    pub(super) fn is_draining(&self) -> bool {
        match &self.protocol {
            ProtocolState::H1(h1) => h1.has_sent_close,
            ProtocolState::H2(h2) => h2.client.is_draining(),
        }
    }

    /// Whether the connection is open and has taken no request.
    pub(super) fn is_unused(&self) -> bool {
        self.state == ConnectionState::Up && self.served == 0
    }
}

// Beginning and ending.
impl Worker {
    /// Begins HTTP/2 on a new connection: sends the client preface, and waits for the preface of
    /// the server.
    pub(super) fn begin_http2<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let mut io = Io { out: &mut self.output, counts: &mut self.frames.counts };
        let client = Client::new(self.settings, self.config.traffic.shared_bytes(), &mut io);
        let slot = &mut self.slots[conn as usize];
        let connecting_since = match slot.state {
            ConnectionState::Connecting { since: at }
            | ConnectionState::Securing { connecting_since: at, .. } => at,
            _ => now,
        };
        slot.state = ConnectionState::Greeting { connecting_since };
        slot.protocol = http2_state(client, self.config.streams, now);
        self.queue_output(conn, driver);
    }

    /// Handles the switch of the server to HTTP/2: the request that asked for it continues as
    /// stream 1.
    pub(super) fn on_upgraded(&mut self, conn: ConnId, now: Instant) {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H1(h1) = &mut slot.protocol else { return };
        let Some(exchange) = h1.in_flight.pop_front() else { return };
        let request = self.config.traffic.request(exchange.request);
        let upgraded_request = (request.kind, wants_fields(request, &exchange));
        // The request was sent completely.
        let (blocked_since, holds_body) = (Instant::NEVER, false);
        let stream = StreamExchange {
            exchange,
            response: ResponseState::default(),
            blocked_since,
            holds_body,
        };
        let mut io = Io { out: &mut self.output, counts: &mut self.frames.counts };
        let shared = self.config.traffic.shared_bytes();
        let (client, _) =
            Client::from_upgrade(self.settings, shared, upgraded_request, stream, &mut io);
        slot.protocol = http2_state(client, self.config.streams, now);
        // The connection counts as being opened until the settings of the server come.
        slot.state = ConnectionState::Greeting { connecting_since: now };
        self.connections_up -= 1;
        self.next_timeout_check =
            self.next_timeout_check.min(now.plus(self.config.policy.connect_timeout_ns));
    }

    /// Sends GOAWAY with a reason before the connection is closed.
    pub(super) fn send_go_away<D: Driver>(
        &mut self,
        conn: ConnId,
        code: ErrorCode,
        driver: &mut D,
    ) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else { return };
        h2.client.go_away(code, &mut Io { out: &mut self.output, counts: &mut self.frames.counts });
        self.queue_output(conn, driver);
        driver.flush(&mut |conn, at| self.on_handed_over(conn, at));
    }

    /// Opens a stream for an exchange. [`Worker::queue_output`] sends its bytes.
    #[inline]
    pub(super) fn open_stream(&mut self, conn: ConnId, mut exchange: Exchange, now: Instant) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else { return };
        let request = self.config.traffic.request(exchange.request);
        let Some(template) = &request.stream else { return };
        // As over HTTP/1.1: the instant from which the response time counts.
        self.config.draws.intended_ns = exchange.intended.ns_since(self.began);
        let rendered = template.render(
            h2.client.form(),
            &mut exchange.draw,
            &mut self.config.draws,
            &mut self.scratch,
        );
        let holds_body =
            self.config.traffic.expects_continue(exchange.request) && !rendered.body.is_empty();
        let request = EncodedRequest {
            block: rendered.block,
            field_bytes: rendered.field_bytes,
            body: rendered.body,
            kind: request.kind,
            wants_fields: wants_fields(request, &exchange) || self.cookies.is_searching(),
            holds_body,
        };
        let stream = StreamExchange {
            exchange,
            response: ResponseState::default(),
            blocked_since: Instant::NEVER,
            holds_body,
        };
        let mut io = Io { out: &mut self.output, counts: &mut self.frames.counts };
        let (key, is_whole) = h2.client.request(&request, stream, &mut io);
        if request.body.len() >= limits::LARGE_REQUEST_BYTES {
            h2.large_requests.push((key, io.out.len()));
        }
        h2.no_streams_since = Instant::NEVER;
        h2.unsent.push(key);
        if holds_body {
            self.count_held_body();
        } else if !is_whole && let Some(stream) = h2.client.data(key) {
            // Flow-control windows block the remaining bytes from now on.
            stream.blocked_since = now;
        }
    }

    /// Establishes the connection once the settings of the server have come.
    pub(super) fn establish_if_ready<D: Driver>(
        &mut self,
        conn: ConnId,
        now: Instant,
        driver: &mut D,
    ) {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H2(h2) = &mut slot.protocol else { return };
        if matches!(slot.state, ConnectionState::Greeting { .. }) && h2.client.is_ready() {
            self.frames.connections += 1;
            self.slots[conn as usize].may_speak_h2 = true;
            self.on_established(conn, now, driver);
        }
    }
}

// Reading.
impl Worker {
    /// Parses HTTP/2 frames.
    pub(super) fn read_streams(
        &mut self,
        conn: ConnId,
        now: Instant,
        received_at: Option<Instant>,
        mut bytes: &[u8],
    ) -> Result<ConnectionAfterRead, WireError> {
        while !bytes.is_empty() {
            let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else {
                return Ok(ConnectionAfterRead::Open);
            };
            h2.last_received = now;
            let mut io = Io { out: &mut self.output, counts: &mut self.frames.counts };
            match h2.client.next(&mut bytes, &mut io)? {
                ClientEvent::NeedMore => break,
                ClientEvent::Handled => {}
                ClientEvent::Body { stream, data, end } => {
                    self.recorder.current().body_received += data.len() as u64;
                    if let Some(s) = h2.client.data(stream) {
                        s.response
                            .on_body(data, &self.config.traffic.request(s.exchange.request).expect);
                    }
                    if end {
                        self.end_stream(conn, stream, now, received_at);
                    }
                }
                ClientEvent::Head { stream, status, end } => {
                    self.on_stream_head(conn, stream, status, now)?;
                    if end {
                        self.end_stream(conn, stream, now, received_at);
                    }
                }
                ClientEvent::Informational { stream, status } => {
                    self.recorder.current().outcomes.count_status(status);
                    if let Some(s) = h2.client.data(stream) {
                        // Its first byte had arrived at the instant of the completion.
                        s.exchange.first_byte = s.exchange.first_byte.min(now);
                    }
                    self.on_stream_interim(conn, stream, status, now);
                }
                ClientEvent::End { stream } => self.end_stream(conn, stream, now, received_at),
                ClientEvent::Settings => {
                    self.update_stream_limit(conn, now);
                    self.resume_streams(conn, now);
                }
                ClientEvent::Window => self.resume_streams(conn, now),
                ClientEvent::Reset { stream, code } => {
                    self.on_stream_reset(conn, stream, code, now)?;
                }
                ClientEvent::Malformed { stream, violation: error } => {
                    let stream = h2.client.cancel(stream, error.code(), &mut io);
                    self.count_protocol_error(&error);
                    self.end_stall(stream.blocked_since, now);
                    // The fault had arrived at the instant of the completion.
                    self.on_exchange_end(conn, &stream.exchange, Outcome::ProtocolError, now, None);
                }
                ClientEvent::GoAway { .. } => self.on_go_away(conn, now),
            }
        }
        Ok(ConnectionAfterRead::Open)
    }

    /// Handles the head of a response.
    #[inline]
    fn on_stream_head(
        &mut self,
        conn: ConnId,
        key: StreamKey,
        status: u16,
        now: Instant,
    ) -> Result<(), WireError> {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else { return Ok(()) };
        let H2Connection { client, .. } = &mut **h2;
        let (stream, fields) = client.data_and_fields(key);
        let exchange = &mut stream.exchange;
        if exchange.sent == Instant::NEVER {
            // A response to an unsent request answers no request.
            return Err(Http2Error::IdleStream.into());
        }
        if exchange.first_byte == Instant::NEVER {
            // Its first byte had arrived at the instant of the completion.
            exchange.first_byte = now;
        }
        let expect = &self.config.traffic.request(exchange.request).expect;
        stream.response.on_head(status, || fields.iter(), expect, exchange.is_checked_in_full);
        if self.cookies.is_searching() {
            self.cookies.search(|| fields.iter());
        }
        if std::mem::replace(&mut stream.holds_body, false) {
            // The body is not sent: the stream is reset once its response is complete.
            self.count_final_response(status);
        }
        Ok(())
    }

    /// Ends a stream whose response is complete.
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
        slot.has_responded = true;
        let ProtocolState::H2(h2) = &mut slot.protocol else { return };
        let Some(StreamExchange { exchange, response, blocked_since, .. }) = h2.client.data(key)
        else {
            return;
        };
        let (exchange, blocked_since) = (*exchange, *blocked_since);
        let verdict = response.check(&self.config.traffic.request(exchange.request).expect);
        // Bytes blocked by flow-control windows, and bytes that the kernel has not sent.
        let unsent = h2.client.unsent_bytes(key) as u64
            + exchange.end_offset.saturating_sub(self.current_sent_bytes);
        h2.client.finish(key, &mut Io { out: &mut self.output, counts: &mut self.frames.counts });
        self.frames.responses += 1;
        if unsent > 0 {
            self.count_early_response(unsent, verdict.status);
        }
        self.end_stall(blocked_since, now);
        self.end_exchange(conn, &exchange, verdict, now, received_at);
    }

    /// Resumes bodies that flow-control windows blocked.
    fn resume_streams(&mut self, conn: ConnId, now: Instant) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else { return };
        let mut io = Io { out: &mut self.output, counts: &mut self.frames.counts };
        let recorder = &mut self.recorder;
        h2.client.resume(&mut io, &mut |stream| {
            // The WINDOW_UPDATE had arrived at the instant of the completion: the stall ended then.
            recorder.distributions.window_stall.record(now.ns_since(stream.blocked_since));
            stream.blocked_since = Instant::NEVER;
        });
    }

    /// Records the end of a window stall at the end of its stream. `since`: start of the stall, or
    /// `NEVER`.
    fn end_stall(&mut self, since: Instant, now: Instant) {
        if since != Instant::NEVER {
            self.recorder.distributions.window_stall.record(now.ns_since(since));
        }
    }

    /// Records the end of all window stalls of a connection that ends at `now`.
    pub(super) fn end_all_stalls(&mut self, conn: ConnId, now: Instant) {
        let ProtocolState::H2(h2) = &self.slots[conn as usize].protocol else { return };
        for (_, stream) in h2.client.iter().filter(|(_, s)| s.blocked_since != Instant::NEVER) {
            self.recorder.distributions.window_stall.record(now.ns_since(stream.blocked_since));
        }
    }

    /// Handles RST_STREAM from the server.
    fn on_stream_reset(
        &mut self,
        conn: ConnId,
        key: StreamKey,
        code: ErrorCode,
        now: Instant,
    ) -> Result<(), WireError> {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H2(h2) = &mut slot.protocol else { return Ok(()) };
        if h2.client.data(key).is_some_and(|stream| stream.exchange.sent == Instant::NEVER) {
            // The server cannot know a request that has not left. Retrying such requests would let
            // a server that resets every stream keep us busy forever.
            return Err(Http2Error::IdleStream.into());
        }
        let stream = h2.client.take(key);
        self.end_stall(stream.blocked_since, now);
        if code == ErrorCode::RefusedStream {
            self.retry_exchange(conn, stream.exchange, now);
        } else {
            // The reset had arrived at the instant of the completion.
            self.on_exchange_end(conn, &stream.exchange, Outcome::StreamReset, now, None);
        }
        Ok(())
    }

    /// Handles GOAWAY. Requests that the server will not process are retried on the next
    /// connection.
    fn on_go_away(&mut self, conn: ConnId, now: Instant) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else { return };
        let unprocessed = h2.client.take_unprocessed();
        // From the latest to the oldest, each to the front: they keep their order and come before
        // exchanges assigned later.
        for stream in unprocessed.into_iter().rev() {
            self.end_stall(stream.blocked_since, now);
            self.retry_exchange(conn, stream.exchange, now);
        }
    }

    /// Retries a request that the server has reported as not processed (RFC 9113 §8.7). It keeps
    /// its intended start: its response time includes the detour.
    fn retry_exchange(&mut self, conn: ConnId, mut exchange: Exchange, now: Instant) {
        if exchange.retries >= limits::RETRIES {
            // The last refusal had arrived at the instant of the completion.
            return self.on_exchange_end(conn, &exchange, Outcome::StreamRefused, now, None);
        }
        exchange.retries += 1;
        self.frames.retried += 1;
        self.slots[conn as usize].assigned.push_front(exchange.to_unsent());
    }

    /// Counts a failed try for exchanges assigned to a connection that was open and closed without
    /// taking a request. After the last try they end as `outcome`.
    pub(super) fn count_failed_try(&mut self, conn: ConnId, outcome: Outcome, now: Instant) {
        for mut exchange in std::mem::take(&mut self.slots[conn as usize].assigned) {
            if exchange.retries >= limits::RETRIES {
                // The failure of the connection is known at this instant.
                self.on_exchange_end(conn, &exchange, outcome, now, None);
            } else {
                exchange.retries += 1;
                self.slots[conn as usize].assigned.push_back(exchange);
            }
        }
    }

    /// Records how many streams the settings of the server allow. If none, a time-out runs from now
    /// on.
    fn update_stream_limit(&mut self, conn: ConnId, now: Instant) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else { return };
        let limit = h2.client.peer().max_concurrent_streams;
        if let Some(limit) = limit {
            self.frames.granted =
                Some(self.frames.granted.map_or(limit, |granted: u32| granted.min(limit)));
        }
        // The settings had arrived at the instant of the completion. Repeated settings do not
        // extend the time-out. Nor does a limit above zero that is revoked in the same read: only
        // room that remains after all bytes are read does.
        if limit == Some(0) {
            h2.no_streams_since = h2.no_streams_since.min(now);
        }
        let deadline = h2.no_streams_since.plus(self.config.policy.connect_timeout_ns);
        self.next_timeout_check = self.next_timeout_check.min(deadline);
    }
}

// Time-outs.
impl Worker {
    /// Checks, after all received bytes were read, whether a stream may be opened. If so, the
    /// time-out for servers that allow no stream stops.
    pub(super) fn check_stream_room(&mut self, conn: ConnId) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else { return };
        if h2.client.room() > 0 {
            h2.no_streams_since = Instant::NEVER;
        }
    }

    /// Ends the overdue streams of a connection, each with its own outcome.
    pub(super) fn check_streams(&mut self, conn: ConnId, now: Instant) -> TimeoutCheck {
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H2(h2) = &mut slot.protocol else {
            return TimeoutCheck::Alive(Instant::NEVER);
        };
        let mut next = Instant::NEVER;
        let mut overdue = Vec::new();
        let mut silent_outcome = None;
        for (key, stream) in h2.client.iter() {
            let (due, outcome) = self.config.policy.exchange_timeout(&stream.exchange);
            if due > now {
                next = next.min(due);
                continue;
            }
            overdue.push((key, outcome));
            if h2.last_received < stream.exchange.sent {
                // No bytes came since the request was sent, or it could not leave: the server is
                // silent, not slow.
                silent_outcome = Some(outcome);
            }
        }
        if h2.client.open_streams() == 0 && h2.client.room() == 0 {
            // A connection that allows no streams for too long is useless, even if the server sends
            // other frames.
            let due = h2.no_streams_since.plus(self.config.policy.connect_timeout_ns);
            if due <= now {
                return TimeoutCheck::NoStreams;
            }
            next = next.min(due);
        }
        for (key, outcome) in overdue {
            let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else { break };
            let mut io = Io { out: &mut self.output, counts: &mut self.frames.counts };
            let missing = h2.client.missing_part(key);
            let stream = h2.client.cancel(key, ErrorCode::Cancel, &mut io);
            ResponseProgress::new(&stream.exchange, &stream.response, missing)
                .count(&mut self.timeouts);
            if stream.blocked_since != Instant::NEVER {
                // The stall lasted until this instant.
                self.recorder.distributions.window_stall.record(now.ns_since(stream.blocked_since));
            }
            // Our own decision at this instant.
            self.on_exchange_end(conn, &stream.exchange, outcome, now, None);
        }
        silent_outcome.map_or(TimeoutCheck::Alive(next), TimeoutCheck::Silent)
    }
}

/// Result of checking the streams of a connection for time-outs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutCheck {
    /// The next time-out is due at this instant.
    Alive(Instant),
    /// A request timed out with this outcome, and no bytes came since it was sent, or it could not
    /// leave: the server is silent.
    Silent(Outcome),
    /// The server has allowed no streams for too long.
    NoStreams,
}

/// Creates the state of a connection on which HTTP/2 begins at `now`. Its lists get their full
/// capacity here, not while requests wait.
fn http2_state(mut client: Client<StreamExchange>, streams: u32, now: Instant) -> ProtocolState {
    let capacity = streams.min(limits::RESERVED_STREAMS) as usize;
    client.reserve(capacity);
    ProtocolState::H2(Box::new(H2Connection {
        client,
        unsent: Vec::with_capacity(capacity),
        large_requests: Vec::new(),
        last_received: now,
        no_streams_since: Instant::NEVER,
        replies: Replies::default(),
    }))
}

/// Whether the fields of a response are needed for checks.
fn wants_fields(request: &CompiledRequest, exchange: &Exchange) -> bool {
    request.expect.may_be_encoded
        || (exchange.is_checked_in_full && !request.expect.full_checks.is_empty())
}

/// Returns our settings for the options of a load.
pub(super) fn client_settings(options: &Http2) -> ClientSettings {
    let window = |bits: u8| ((1u64 << bits) - 1) as u32;
    ClientSettings {
        header_table_size: options.header_table_size,
        stream_window: window(options.window_bits),
        connection_window: window(options.connection_window_bits),
    }
}

/// Returns our settings as the request of an upgrade announces them: the payload of a SETTINGS
/// frame, which goes into its HTTP2-Settings field in base64url (RFC 7540 §3.2.1).
#[must_use]
pub fn upgrade_settings(options: &Http2) -> Vec<u8> {
    let mut payload = Vec::new();
    client_settings(options).put_payload(&mut payload);
    payload
}
