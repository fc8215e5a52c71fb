//! HTTP/2. Each exchange is a stream.

use dyno_model::outcome::Outcome;
use dyno_model::plan::Http2;
use dyno_wire::h2::settings::ClientSettings;
use dyno_wire::h2::{Client, ClientEvent, EncodedRequest, ErrorCode, Http2Error, Io, StreamKey};

use super::{
    CloseReason, ConnectionAfterTimeout, Conversation, EndedExchange, Event, PeerClose, Shared,
    TimeoutResult, WireError,
};
use crate::driver::QueuedBytes;
use crate::exchange::{Exchange, ResponseProgress};
use crate::expect::ResponseState;
use crate::traffic::CompiledRequest;
use crate::visits::{self, Visits};
use crate::{Instant, limits};

/// State of an HTTP/2 connection.
#[derive(Debug)]
pub(crate) struct H2Connection {
    client: Client<StreamExchange>,
    /// Streams whose requests have not been handed to the kernel.
    unsent: Vec<StreamKey>,
    /// Streams with large requests in [`Shared::output`], and the end of each request there.
    large_requests: Vec<(StreamKey, usize)>,
    /// When bytes last arrived.
    last_received: Instant,
    /// Instant since which the server's settings allow no stream; `NEVER`: the settings allow
    /// streams.
    no_streams_since: Instant,
    replies: Replies,
}

/// An exchange on a stream.
#[derive(Debug)]
struct StreamExchange {
    exchange: Exchange,
    response: ResponseState,
    /// Instant since which flow-control windows block its request; `NEVER`: not blocked.
    blocked_since: Instant,
    /// Whether its body waits for 100 (Continue).
    holds_body: bool,
}

/// Replies to control frames of the server that are queued on a connection. Detects servers that
/// send control frames and do not read the replies.
#[derive(Clone, Copy, Debug, Default)]
struct Replies {
    /// Bytes of replies queued since the last check.
    bytes: u64,
    /// Total bytes queued on the connection up to the last check.
    queued_at_check: u64,
    /// The turn of the last check.
    checked_at: Instant,
}

/// Returns the outputs of a connection: bytes for the peer, and counts.
macro_rules! io {
    ($shared:expr) => {
        Io { out: &mut $shared.output, counts: &mut $shared.http2.counts }
    };
}

// Beginning.
impl H2Connection {
    /// Begins HTTP/2 on a new connection: sends the client preface, and waits for the preface of
    /// the server.
    pub(super) fn new(now: Instant, shared: &mut Shared) -> H2Connection {
        let shared_bytes = shared.config.traffic.shared_bytes();
        let client = Client::new(shared.settings, shared_bytes, &mut io!(shared));
        H2Connection::from_client(client, now, shared)
    }

    /// Begins HTTP/2 after the server has switched to it (status 101). The request that asked for
    /// it continues as stream 1.
    pub(super) fn from_upgrade(
        exchange: Exchange,
        now: Instant,
        shared: &mut Shared,
    ) -> H2Connection {
        let request = shared.config.traffic.request(exchange.request);
        let needs_fields = needs_fields(request, &exchange, shared.visits.as_deref());
        let upgraded_request = (request.kind, needs_fields);
        let stream = StreamExchange {
            exchange,
            response: ResponseState::default(),
            // The request was sent with its body, over HTTP/1.1.
            blocked_since: Instant::NEVER,
            holds_body: false,
        };
        let shared_bytes = shared.config.traffic.shared_bytes();
        let mut io = io!(shared);
        let (client, _) =
            Client::from_upgrade(shared.settings, shared_bytes, upgraded_request, stream, &mut io);
        H2Connection::from_client(client, now, shared)
    }

    /// Creates the state of a connection on which HTTP/2 begins at `now`. Its lists get their full
    /// capacity here, not while requests wait.
    fn from_client(
        mut client: Client<StreamExchange>,
        now: Instant,
        shared: &Shared,
    ) -> H2Connection {
        let capacity = shared.config.streams.min(limits::RESERVED_STREAMS) as usize;
        client.reserve(capacity);
        H2Connection {
            client,
            unsent: Vec::with_capacity(capacity),
            large_requests: Vec::new(),
            last_received: now,
            no_streams_since: Instant::NEVER,
            replies: Replies::default(),
        }
    }
}

// Reading.
impl H2Connection {
    /// Reads frames up to the next event.
    #[inline(always)]
    fn poll_frames(
        &mut self,
        bytes: &mut &[u8],
        now: Instant,
        shared: &mut Shared,
    ) -> Result<Event, WireError> {
        while !bytes.is_empty() {
            self.last_received = now;
            match self.client.next(bytes, &mut io!(shared))? {
                ClientEvent::NeedMore => break,
                ClientEvent::Handled => {}
                ClientEvent::Body { stream: key, data, end } => {
                    self.on_body(key, data, shared);
                    if end && let Some(ended) = self.end_stream(key, now, shared) {
                        return Ok(Event::Done(ended));
                    }
                }
                ClientEvent::Head { stream: key, status, end } => {
                    self.on_head(key, status, now, shared)?;
                    if end && let Some(ended) = self.end_stream(key, now, shared) {
                        return Ok(Event::Done(ended));
                    }
                }
                ClientEvent::Informational { stream: key, status } => {
                    self.on_interim(key, status, now, shared);
                }
                ClientEvent::End { stream: key } => {
                    if let Some(ended) = self.end_stream(key, now, shared) {
                        return Ok(Event::Done(ended));
                    }
                }
                ClientEvent::Settings => {
                    let deadline = self.update_stream_limit(now, shared);
                    self.resume_streams(now, shared);
                    return Ok(Event::Deadline(deadline));
                }
                ClientEvent::Window => self.resume_streams(now, shared),
                ClientEvent::Reset { stream: key, code } => {
                    return self.on_reset(key, code, now, shared);
                }
                ClientEvent::Malformed { stream: key, violation } => {
                    let stream = self.client.cancel(key, violation.code(), &mut io!(shared));
                    shared.count_protocol_error(&violation);
                    end_stall(stream.blocked_since, now, shared);
                    return Ok(Event::Failed(stream.exchange, Outcome::ProtocolError));
                }
                ClientEvent::GoAway { .. } => return Ok(self.on_go_away(now, shared)),
            }
        }
        Ok(Event::NeedMore)
    }

    #[inline]
    fn on_body(&mut self, key: StreamKey, data: &[u8], shared: &mut Shared) {
        shared.recorder.current().body_received += data.len() as u64;
        if let Some(stream) = self.client.value(key) {
            let request = shared.config.traffic.request(stream.exchange.request);
            stream.response.on_body(data, &request.expect);
            visits::on_body(&mut shared.visits, &stream.exchange, data);
        }
    }

    /// Handles the head of a response.
    #[inline]
    fn on_head(
        &mut self,
        key: StreamKey,
        status: u16,
        now: Instant,
        shared: &mut Shared,
    ) -> Result<(), WireError> {
        let (stream, fields) = self.client.value_and_fields(key);
        let exchange = &mut stream.exchange;
        if exchange.sent == Instant::NEVER {
            // A response to an unsent request is unsolicited.
            return Err(Http2Error::IdleStream.into());
        }
        if exchange.first_byte == Instant::NEVER {
            exchange.first_byte = now;
        }
        let expect = &shared.config.traffic.request(exchange.request).expect;
        stream.response.on_head(status, || fields.iter(), expect, exchange.is_checked_in_full);
        if shared.cookies.is_searching() {
            shared.cookies.search(|| fields.iter());
        }
        visits::on_head(&mut shared.visits, exchange, now, || fields.iter());
        if std::mem::replace(&mut stream.holds_body, false) {
            // The final response came instead of 100 (Continue), so the body will not be sent.
            // `end_stream` resets the stream once its response is complete.
            shared.count_final_response(status);
        }
        Ok(())
    }

    /// Handles an interim response.
    #[cold]
    fn on_interim(&mut self, key: StreamKey, status: u16, now: Instant, shared: &mut Shared) {
        shared.recorder.current().outcomes.count_status(status);
        if let Some(stream) = self.client.value(key) {
            // An interim response is the first byte of the response, unless one came before.
            stream.exchange.first_byte = stream.exchange.first_byte.min(now);
        }
        if status == 100
            && let Some(sent) = self.release_stream(key, now, shared)
        {
            shared.count_continued(sent, now);
        }
    }

    /// Ends a stream whose response is complete.
    #[inline]
    fn end_stream(
        &mut self,
        key: StreamKey,
        now: Instant,
        shared: &mut Shared,
    ) -> Option<EndedExchange> {
        let StreamExchange { exchange, response, blocked_since, .. } = self.client.value(key)?;
        let (exchange, blocked_since) = (*exchange, *blocked_since);
        let verdict = response.check(&shared.config.traffic.request(exchange.request).expect);
        // Bytes of the request that flow-control windows block, and bytes that the kernel has not
        // sent.
        let unsent_bytes = self.client.unsent_bytes(key) as u64
            + exchange.end_offset.saturating_sub(shared.sent_bytes);
        self.client.finish(key, &mut io!(shared));
        shared.http2.responses += 1;
        end_stall(blocked_since, now, shared);
        Some(EndedExchange { exchange, verdict, unsent_bytes, is_last: false })
    }

    /// Resumes bodies that flow-control windows blocked.
    fn resume_streams(&mut self, now: Instant, shared: &mut Shared) {
        let stalls = &mut shared.recorder.distributions.window_stall;
        self.client.resume(&mut io!(shared), &mut |stream| {
            stalls.record(now.ns_since(stream.blocked_since));
            stream.blocked_since = Instant::NEVER;
        });
    }

    /// Handles RST_STREAM from the server.
    fn on_reset(
        &mut self,
        key: StreamKey,
        code: ErrorCode,
        now: Instant,
        shared: &mut Shared,
    ) -> Result<Event, WireError> {
        if self.client.value(key).is_some_and(|stream| stream.exchange.sent == Instant::NEVER) {
            // The server cannot know a request that has not left. If dyno retried it, a server that
            // resets every stream could keep dyno busy forever.
            return Err(Http2Error::IdleStream.into());
        }
        let stream = self.client.take(key);
        end_stall(stream.blocked_since, now, shared);
        Ok(if code == ErrorCode::RefusedStream {
            Event::Refused(vec![stream.exchange])
        } else {
            Event::Failed(stream.exchange, Outcome::StreamReset)
        })
    }

    /// Handles GOAWAY. Requests that the server will not process can be sent again on the next
    /// connection.
    fn on_go_away(&mut self, now: Instant, shared: &mut Shared) -> Event {
        let newest_first = self.client.take_unprocessed().into_iter().rev();
        let refused = newest_first.map(|stream| {
            end_stall(stream.blocked_since, now, shared);
            stream.exchange
        });
        Event::Refused(refused.collect())
    }

    /// Records how many streams the settings of the server allow. Some servers allow none until
    /// they are ready. A time-out limits this wait. Returns its end, or `NEVER`.
    fn update_stream_limit(&mut self, now: Instant, shared: &mut Shared) -> Instant {
        let limit = self.client.peer().max_concurrent_streams;
        if let Some(limit) = limit.filter(|limit| *limit > 0) {
            let granted = &mut shared.http2.granted;
            *granted = Some(granted.map_or(limit, |granted| granted.min(limit)));
        }
        // The time-out begins with the first settings that allow no stream, and repeated settings
        // do not extend the time-out. A limit above 0 does not stop the time-out here, because a
        // later frame of the same read may set the limit to 0 again. `on_read_end` stops the
        // time-out after all bytes were read.
        if limit == Some(0) {
            self.no_streams_since = self.no_streams_since.min(now);
        }
        self.no_streams_since.plus(shared.config.policy.connect_timeout_ns)
    }
}

// Time-outs.
impl H2Connection {
    /// Queues the waiting bodies whose wait is over.
    fn release_overdue(&mut self, now: Instant, shared: &mut Shared) {
        if shared.continues.is_none() {
            return;
        }
        let waiting = self.client.iter().filter(|(_, stream)| stream.holds_body);
        let overdue: Vec<StreamKey> = waiting
            .filter(|(_, stream)| stream.exchange.continue_deadline() <= now)
            .map(|(key, _)| key)
            .collect();
        for key in overdue {
            if self.release_stream(key, now, shared).is_some() {
                shared.count_expired_wait();
            }
        }
    }

    /// Queues the waiting body of a stream. Returns when its head left; `None`: no body waits.
    fn release_stream(
        &mut self,
        key: StreamKey,
        now: Instant,
        shared: &mut Shared,
    ) -> Option<Instant> {
        let stream = self.client.value(key)?;
        if !std::mem::replace(&mut stream.holds_body, false) {
            return None;
        }
        let sent = stream.exchange.sent;
        if !self.client.release_body(key, &mut io!(shared))
            && let Some(stream) = self.client.value(key)
        {
            // Flow-control windows block the remaining bytes from now on.
            stream.blocked_since = now;
        }
        Some(sent)
    }

    /// Returns the instant at which the connection is useless because it allows no streams, even if
    /// the server sends other frames; `NEVER`: it allows streams, or has open ones.
    fn no_streams_deadline(&self, shared: &Shared) -> Instant {
        if self.client.open_streams() == 0 && self.client.room() == 0 {
            self.no_streams_since.plus(shared.config.policy.connect_timeout_ns)
        } else {
            Instant::NEVER
        }
    }

    /// Resets a stream that timed out, and counts the progress of its response.
    fn cancel_overdue(&mut self, key: StreamKey, now: Instant, shared: &mut Shared) -> Exchange {
        let missing = self.client.missing_part(key);
        let stream = self.client.cancel(key, ErrorCode::Cancel, &mut io!(shared));
        ResponseProgress::new(&stream.exchange, &stream.response, missing)
            .count(&mut shared.timeouts);
        end_stall(stream.blocked_since, now, shared);
        stream.exchange
    }
}

impl Conversation for H2Connection {
    #[inline]
    fn is_ready(&self) -> bool {
        self.client.is_ready()
    }

    fn is_between_messages(&self) -> bool {
        // A part of a frame can be read, but responses name their stream.
        !self.client.is_ready()
    }

    fn is_silent_when_idle(&self) -> bool {
        false
    }

    fn is_close_notice(&self, _: &[u8]) -> bool {
        false
    }

    #[inline]
    fn is_draining(&self) -> bool {
        self.client.is_draining()
    }

    #[inline]
    fn has_room(&self, shared: &Shared) -> bool {
        self.client.open_streams() < shared.config.streams as usize && self.client.room() > 0
    }

    fn expected_capacity(&self, shared: &Shared) -> u32 {
        shared.expected_streams()
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.client.open_streams()
    }

    fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.client.iter().map(|(_, stream)| &stream.exchange)
    }

    fn take_exchanges(&mut self) -> Vec<Exchange> {
        self.client.take_all().into_iter().map(|stream| stream.exchange).collect()
    }

    #[inline]
    fn submit<'s>(
        &mut self,
        mut exchange: Exchange,
        now: Instant,
        shared: &'s mut Shared,
    ) -> &'s [u8] {
        let Shared { config, visits, cookies, began, scratch, .. } = shared;
        let traffic = &config.traffic;
        let request = traffic.request(exchange.request);
        let Some(template) = &request.stream else { return &[] };
        // The value of `RequestPart::Intended` in this request.
        config.draws.intended_ns = exchange.intended.ns_since(*began);
        let session = visits.as_mut().map(|visits| visits.session(&exchange, now));
        let form = self.client.form();
        let rendered =
            template.render(form, &mut exchange.draw, &mut config.draws, session, scratch);
        let holds_body = traffic.expects_continue(exchange.request) && !rendered.body.is_empty();
        let request = EncodedRequest {
            block: rendered.block,
            field_bytes: rendered.field_bytes,
            body: rendered.body,
            kind: request.kind,
            wants_fields: needs_fields(request, &exchange, visits.as_deref())
                || cookies.is_searching(),
            holds_body,
        };
        let stream = StreamExchange {
            exchange,
            response: ResponseState::default(),
            blocked_since: Instant::NEVER,
            holds_body,
        };
        let (key, is_whole) = self.client.request(&request, stream, &mut io!(shared));
        if request.body.len() >= limits::LARGE_REQUEST_BYTES {
            self.large_requests.push((key, shared.output.len()));
        }
        self.no_streams_since = Instant::NEVER;
        self.unsent.push(key);
        if holds_body {
            shared.count_held_body();
        } else if !is_whole && let Some(stream) = self.client.value(key) {
            // Flow-control windows block the remaining bytes from now on.
            stream.blocked_since = now;
        }
        &[]
    }

    /// TLS records are longer than the output, so over TLS the recorded ends are too early by the
    /// difference.
    fn on_queued(&mut self, start: u64, _: u64) {
        for (key, end) in self.large_requests.drain(..) {
            if let Some(stream) = self.client.value(key) {
                stream.exchange.end_offset = start + end as u64;
            }
        }
    }

    #[inline]
    fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    #[inline]
    fn on_handed_over(&mut self, at: Instant, mut on_sent: impl FnMut(&Exchange)) {
        for key in self.unsent.drain(..) {
            // A stream can end before its request leaves.
            let Some(stream) = self.client.value(key) else { continue };
            // As over HTTP/1.1, no byte left before this instant. A body that waits for a window
            // leaves later, but the server causes that wait.
            stream.exchange.sent = at;
            on_sent(&stream.exchange);
        }
    }

    #[inline]
    fn count_receive(&self, shared: &mut Shared) {
        shared.http2.receives += 1;
    }

    #[inline(always)]
    fn poll(
        &mut self,
        bytes: &mut &[u8],
        now: Instant,
        shared: &mut Shared,
    ) -> Result<Event, WireError> {
        let before = shared.http2.counts.reply_bytes;
        let event = self.poll_frames(bytes, now, shared);
        self.replies.bytes += shared.http2.counts.reply_bytes - before;
        event
    }

    /// If a stream may be opened, the time-out for servers that allow no stream stops.
    #[inline]
    fn on_read_end(&mut self) {
        if self.client.room() > 0 {
            self.no_streams_since = Instant::NEVER;
        }
    }

    fn count_established(&self, shared: &mut Shared) {
        shared.http2.connections += 1;
    }

    /// There is at most one check per turn, because bytes leave between turns.
    #[inline]
    fn needs_reply_check(&self, turn: Instant) -> bool {
        self.replies.bytes > limits::REPLY_BYTES && turn != self.replies.checked_at
    }

    /// Fails if some of the bytes queued at the last check have not left, although many replies
    /// were queued since.
    fn check_replies(&mut self, queued: QueuedBytes, turn: Instant) -> Result<(), WireError> {
        let is_stuck = queued.taken < self.replies.queued_at_check;
        self.replies = Replies { bytes: 0, queued_at_check: queued.total(), checked_at: turn };
        if is_stuck { Err(Http2Error::Flood.into()) } else { Ok(()) }
    }

    fn on_eof(&mut self, _: PeerClose, _: &mut Shared) -> Result<Option<EndedExchange>, WireError> {
        Ok(None)
    }

    fn poll_timeout(&self, shared: &Shared) -> Instant {
        let policy = &shared.config.policy;
        let deadline = |stream: &StreamExchange| {
            let wait_ends = if stream.holds_body {
                stream.exchange.continue_deadline()
            } else {
                Instant::NEVER
            };
            policy.exchange_timeout(&stream.exchange).0.min(wait_ends)
        };
        let next = self.client.iter().map(|(_, stream)| deadline(stream)).min();
        next.unwrap_or(Instant::NEVER).min(self.no_streams_deadline(shared))
    }

    fn on_timeout(&mut self, now: Instant, shared: &mut Shared) -> TimeoutResult {
        self.release_overdue(now, shared);
        let mut overdue = Vec::new();
        let mut connection = ConnectionAfterTimeout::Open;
        for (key, stream) in self.client.iter() {
            let (expires, outcome) = shared.config.policy.exchange_timeout(&stream.exchange);
            if expires > now {
                continue;
            }
            overdue.push((key, outcome));
            if self.last_received < stream.exchange.sent {
                // No bytes came since the request was sent, or the request could not leave
                // (`sent` is `NEVER`). The server is silent, not slow.
                connection = ConnectionAfterTimeout::Silent(outcome);
            }
        }
        if self.no_streams_deadline(shared) <= now {
            connection = ConnectionAfterTimeout::NoRoom;
        }
        let ended = overdue
            .into_iter()
            .map(|(key, outcome)| (self.cancel_overdue(key, now, shared), outcome))
            .collect();
        TimeoutResult { ended, connection }
    }

    /// Sends GOAWAY.
    fn announce_close(&mut self, reason: CloseReason<'_>, shared: &mut Shared) {
        let code = match reason {
            CloseReason::Unneeded => ErrorCode::NoError,
            CloseReason::Violation(WireError::H2(error)) => error.code(),
            CloseReason::Violation(_) => return,
        };
        self.client.go_away(code, &mut io!(shared));
    }

    fn end_stalls(&self, now: Instant, shared: &mut Shared) {
        for (_, stream) in self.client.iter() {
            end_stall(stream.blocked_since, now, shared);
        }
    }

    fn record_last_settings(&self, shared: &mut Shared) {
        if self.client.peer().max_concurrent_streams == Some(0) {
            shared.http2.granted = Some(0);
        }
    }
}

/// Records the end of a window stall. `since`: start of the stall; `NEVER`: there was none.
#[inline]
fn end_stall(since: Instant, now: Instant, shared: &mut Shared) {
    if since != Instant::NEVER {
        shared.recorder.distributions.window_stall.record(now.ns_since(since));
    }
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
