//! Sends and reads exchanges as HTTP/2 streams: the counterpart of `requests` and `responses`,
//! which handle HTTP/1.1.
//!
//! While a read is handled, `now` is the instant of its completion. All bytes that were read had
//! arrived by then.

use dyno_archive::outcome::Outcome;
use dyno_archive::plan::Http2;
use dyno_wire::h2::settings::ClientSettings;
use dyno_wire::h2::{Client, ClientEvent, EncodedRequest, ErrorCode, Http2Error, Io, StreamKey};

use super::Worker;
use super::responses::{ConnectionAfterRead, WireError};
use super::visits::{self, Visits};
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
    /// or dyno has announced the close.
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

    /// Handles the switch of the server to HTTP/2 (status 101): the request that asked for it
    /// continues as stream 1.
    pub(super) fn on_upgraded(&mut self, conn: ConnId, now: Instant) {
        self.recorder.current().outcomes.count_status(101);
        let slot = &mut self.slots[conn as usize];
        let ProtocolState::H1(h1) = &mut slot.protocol else { return };
        let Some(exchange) = h1.in_flight.pop_front() else { return };
        let request = self.config.traffic.request(exchange.request);
        let needs_fields = needs_fields(request, &exchange, self.visits.as_deref());
        let upgraded_request = (request.kind, needs_fields);
        let stream = StreamExchange {
            exchange,
            response: ResponseState::default(),
            // The request was sent with its body, over HTTP/1.1.
            blocked_since: Instant::NEVER,
            holds_body: false,
        };
        let mut io = Io { out: &mut self.output, counts: &mut self.frames.counts };
        let shared = self.config.traffic.shared_bytes();
        let (client, _) =
            Client::from_upgrade(self.settings, shared, upgraded_request, stream, &mut io);
        slot.protocol = http2_state(client, self.config.streams, now);
        // The connection is treated as opening until the settings of the server arrive.
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
        // The value of `RequestPart::Intended` in this request.
        self.config.draws.intended_ns = exchange.intended.ns_since(self.began);
        let session = self.visits.as_mut().map(|visits| visits.session(&exchange, now));
        let rendered = template.render(
            h2.client.form(),
            &mut exchange.draw,
            &mut self.config.draws,
            session,
            &mut self.scratch,
        );
        let holds_body =
            self.config.traffic.expects_continue(exchange.request) && !rendered.body.is_empty();
        let request = EncodedRequest {
            block: rendered.block,
            field_bytes: rendered.field_bytes,
            body: rendered.body,
            kind: request.kind,
            wants_fields: needs_fields(request, &exchange, self.visits.as_deref())
                || self.cookies.is_searching(),
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
        } else if !is_whole && let Some(stream) = h2.client.value(key) {
            // Flow-control windows block the remaining bytes from now on.
            stream.blocked_since = now;
        }
    }

    /// Establishes the connection after the settings of the server have arrived.
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
                ClientEvent::Body { stream: key, data, end } => {
                    self.recorder.current().body_received += data.len() as u64;
                    if let Some(stream) = h2.client.value(key) {
                        let request = self.config.traffic.request(stream.exchange.request);
                        stream.response.on_body(data, &request.expect);
                        visits::on_body(&mut self.visits, &stream.exchange, data);
                    }
                    if end {
                        self.end_stream(conn, key, now, received_at);
                    }
                }
                ClientEvent::Head { stream: key, status, end } => {
                    self.on_stream_head(conn, key, status, now)?;
                    if end {
                        self.end_stream(conn, key, now, received_at);
                    }
                }
                ClientEvent::Informational { stream: key, status } => {
                    self.recorder.current().outcomes.count_status(status);
                    if let Some(stream) = h2.client.value(key) {
                        // An interim response is the first byte of the response, unless one came
                        // before.
                        stream.exchange.first_byte = stream.exchange.first_byte.min(now);
                    }
                    self.on_stream_interim(conn, key, status, now);
                }
                ClientEvent::End { stream: key } => {
                    self.end_stream(conn, key, now, received_at);
                }
                ClientEvent::Settings => {
                    self.update_stream_limit(conn, now);
                    self.resume_streams(conn, now);
                }
                ClientEvent::Window => self.resume_streams(conn, now),
                ClientEvent::Reset { stream: key, code } => {
                    self.on_stream_reset(conn, key, code, now)?;
                }
                ClientEvent::Malformed { stream: key, violation } => {
                    let stream = h2.client.cancel(key, violation.code(), &mut io);
                    self.count_protocol_error(&violation);
                    self.end_stall(stream.blocked_since, now);
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
        let (stream, fields) = client.value_and_fields(key);
        let exchange = &mut stream.exchange;
        if exchange.sent == Instant::NEVER {
            // A response to an unsent request is unsolicited.
            return Err(Http2Error::IdleStream.into());
        }
        if exchange.first_byte == Instant::NEVER {
            exchange.first_byte = now;
        }
        let expect = &self.config.traffic.request(exchange.request).expect;
        stream.response.on_head(status, || fields.iter(), expect, exchange.is_checked_in_full);
        if self.cookies.is_searching() {
            self.cookies.search(|| fields.iter());
        }
        visits::on_head(&mut self.visits, exchange, now, || fields.iter());
        if std::mem::replace(&mut stream.holds_body, false) {
            // The final response came instead of 100 (Continue), so the body will not be sent.
            // `end_stream` resets the stream once its response is complete.
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
        let Some(StreamExchange { exchange, response, blocked_since, .. }) = h2.client.value(key)
        else {
            return;
        };
        let (exchange, blocked_since) = (*exchange, *blocked_since);
        let verdict = response.check(&self.config.traffic.request(exchange.request).expect);
        // Bytes of the request that flow-control windows block, and bytes that the kernel has not
        // sent.
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
        if h2.client.value(key).is_some_and(|stream| stream.exchange.sent == Instant::NEVER) {
            // The server cannot know a request that has not left. If dyno retried it, a server that
            // resets every stream could keep dyno busy forever.
            return Err(Http2Error::IdleStream.into());
        }
        let stream = h2.client.take(key);
        self.end_stall(stream.blocked_since, now);
        if code == ErrorCode::RefusedStream {
            self.retry_exchange(conn, stream.exchange, now);
        } else {
            self.on_exchange_end(conn, &stream.exchange, Outcome::StreamReset, now, None);
        }
        Ok(())
    }

    /// Handles GOAWAY. Requests that the server will not process are retried on the next
    /// connection.
    fn on_go_away(&mut self, conn: ConnId, now: Instant) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else { return };
        let unprocessed = h2.client.take_unprocessed();
        // Each exchange goes to the front of `assigned`, the oldest last, so that their order is
        // preserved.
        for stream in unprocessed.into_iter().rev() {
            self.end_stall(stream.blocked_since, now);
            self.retry_exchange(conn, stream.exchange, now);
        }
    }

    /// Retries a request that the server has reported as not processed (RFC 9113 §8.7). The request
    /// keeps its intended start, so its response time includes the detour.
    fn retry_exchange(&mut self, conn: ConnId, mut exchange: Exchange, now: Instant) {
        if exchange.retries >= limits::RETRIES {
            return self.on_exchange_end(conn, &exchange, Outcome::StreamRefused, now, None);
        }
        exchange.retries += 1;
        self.frames.retried += 1;
        self.slots[conn as usize].assigned.push_front(exchange.to_unsent());
    }

    /// Counts a failed try for each exchange that was assigned to a connection, when the connection
    /// was closed before it took a request. Exchanges without further tries end as `outcome`.
    pub(super) fn count_failed_try(&mut self, conn: ConnId, outcome: Outcome, now: Instant) {
        for mut exchange in std::mem::take(&mut self.slots[conn as usize].assigned) {
            if exchange.retries >= limits::RETRIES {
                self.on_exchange_end(conn, &exchange, outcome, now, None);
            } else {
                exchange.retries += 1;
                self.slots[conn as usize].assigned.push_back(exchange);
            }
        }
    }

    /// Records how many streams the settings of the server allow. Some servers allow none until
    /// they are ready. A time-out limits this wait.
    fn update_stream_limit(&mut self, conn: ConnId, now: Instant) {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else { return };
        let limit = h2.client.peer().max_concurrent_streams;
        if let Some(limit) = limit.filter(|limit| *limit > 0) {
            self.frames.granted =
                Some(self.frames.granted.map_or(limit, |granted: u32| granted.min(limit)));
        }
        // The time-out begins with the first settings that allow no stream, and repeated settings
        // do not extend the time-out. A limit above 0 does not stop the time-out here, because a
        // later frame of the same read may set the limit to 0 again. `check_stream_room` stops the
        // time-out after all bytes were read.
        if limit == Some(0) {
            h2.no_streams_since = h2.no_streams_since.min(now);
        }
        let deadline = h2.no_streams_since.plus(self.config.policy.connect_timeout_ns);
        self.next_timeout_check = self.next_timeout_check.min(deadline);
    }
}

// Time-outs.
impl Worker {
    /// Records that a connection ends while the server allows it no streams.
    pub(super) fn record_streams_withheld(&mut self, conn: ConnId) {
        let ProtocolState::H2(h2) = &self.slots[conn as usize].protocol else { return };
        if h2.client.peer().max_concurrent_streams == Some(0) {
            self.frames.granted = Some(0);
        }
    }

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
            let (expires, outcome) = self.config.policy.exchange_timeout(&stream.exchange);
            if expires > now {
                next = next.min(expires);
                continue;
            }
            overdue.push((key, outcome));
            if h2.last_received < stream.exchange.sent {
                // No bytes came since the request was sent, or the request could not leave
                // (`sent` is `NEVER`). The server is silent, not slow.
                silent_outcome = Some(outcome);
            }
        }
        if h2.client.open_streams() == 0 && h2.client.room() == 0 {
            // A connection that allows no streams for too long is useless, even if the server sends
            // other frames.
            let expires = h2.no_streams_since.plus(self.config.policy.connect_timeout_ns);
            if expires <= now {
                return TimeoutCheck::NoStreams;
            }
            next = next.min(expires);
        }
        for (key, outcome) in overdue {
            let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else { break };
            let mut io = Io { out: &mut self.output, counts: &mut self.frames.counts };
            let missing = h2.client.missing_part(key);
            let stream = h2.client.cancel(key, ErrorCode::Cancel, &mut io);
            ResponseProgress::new(&stream.exchange, &stream.response, missing)
                .count(&mut self.timeouts);
            self.end_stall(stream.blocked_since, now);
            self.on_exchange_end(conn, &stream.exchange, outcome, now, None);
        }
        silent_outcome.map_or(TimeoutCheck::Alive(next), TimeoutCheck::Silent)
    }
}

/// Result of checking the streams of a connection for time-outs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutCheck {
    /// The next time-out expires at this instant.
    Alive(Instant),
    /// A request timed out with this outcome, and the server is silent: no bytes came since the
    /// request was sent, or the request could not leave.
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

/// Whether the checks of a response, or its visitor, need its fields.
fn needs_fields(request: &CompiledRequest, exchange: &Exchange, visits: Option<&Visits>) -> bool {
    request.expect.may_be_encoded
        || (exchange.is_checked_in_full && !request.expect.full_checks.is_empty())
        || visits.is_some_and(|visits| visits.needs_fields(exchange.request))
}

/// Returns the client's settings for the options of a load.
pub(super) fn client_settings(options: &Http2) -> ClientSettings {
    let window = |bits: u8| ((1u64 << bits) - 1) as u32;
    ClientSettings {
        header_table_size: options.header_table_size,
        stream_window: window(options.window_bits),
        connection_window: window(options.connection_window_bits),
    }
}

/// Returns the client's settings as the request of an upgrade announces them: the payload of a
/// SETTINGS frame, for the HTTP2-Settings field in base64url (RFC 7540 §3.2.1).
#[must_use]
pub fn upgrade_settings(options: &Http2) -> Vec<u8> {
    let mut payload = Vec::new();
    client_settings(options).put_payload(&mut payload);
    payload
}
