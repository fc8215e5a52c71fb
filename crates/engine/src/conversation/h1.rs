//! HTTP/1.1. Responses come in the order of the requests.

use std::collections::VecDeque;

use dyno_model::Protocol;
use dyno_wire::h1::Http1Error;
use dyno_wire::h1::response::{Closed, End, RequestKind, ResponseEvent, ResponseReader};

use super::{
    ConnectionAfterTimeout, Conversation, EndedExchange, Event, PeerClose, Shared, TimeoutResult,
    WireError,
};
use crate::exchange::{Exchange, ResponseProgress};
use crate::expect::ResponseState;
use crate::traffic::CompiledRequest;
use crate::{Instant, visits};

/// State of an HTTP/1.1 connection.
#[derive(Debug)]
pub(crate) struct H1Connection {
    reader: ResponseReader,
    /// Exchanges on the connection, oldest first.
    in_flight: VecDeque<Exchange>,
    /// Number of exchanges at the back of `in_flight` whose requests have not been handed to the
    /// kernel.
    unsent: usize,
    response: ResponseState,
    upgrade: Upgrade,
    /// Whether the last request contained `Connection: close` (RFC 9112 §9.6).
    has_sent_close: bool,
    /// Body of the latest request, while it waits for 100 (Continue).
    held_body: Option<HeldBody>,
    /// Idle time after which the server closes the connection, as its first response announced,
    /// nanoseconds; `u64::MAX`: it announced none. `None`: no response has begun.
    idle_limit_ns: Option<u64>,
    /// Whether the next connection of the slot may use HTTP/2; `true` until a connection of the
    /// slot uses HTTP/1.1.
    pub(super) may_speak_h2: bool,
}

/// A request body that waits for 100 (Continue).
#[derive(Debug)]
struct HeldBody {
    bytes: Vec<u8>,
    /// Whether the body is to be sent: the server has sent 100 (Continue), or the wait is over.
    is_requested: bool,
}

/// State of the upgrade of an HTTP/1.1 connection to HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upgrade {
    No,
    /// The first request will ask for an upgrade.
    Wanted,
    /// The first request has asked for an upgrade.
    Requested,
}

impl Upgrade {
    /// Returns the request kind with which the next response is parsed. `kind`: the kind of the
    /// request without the upgrade.
    #[inline]
    const fn kind(self, kind: RequestKind) -> RequestKind {
        match (self, kind) {
            (Upgrade::Requested, RequestKind::Head) => RequestKind::UpgradeHead,
            (Upgrade::Requested, _) => RequestKind::Upgrade,
            (_, kind) => kind,
        }
    }

    /// Records that the server responded without upgrading. The connection continues in HTTP/1.1
    /// (RFC 9110 §7.8). Returns whether an upgrade was requested.
    #[inline]
    fn decline(&mut self) -> bool {
        let is_declined = *self == Upgrade::Requested;
        if is_declined {
            *self = Upgrade::No;
        }
        is_declined
    }
}

impl H1Connection {
    pub(super) fn new() -> H1Connection {
        H1Connection {
            reader: ResponseReader::new(),
            in_flight: VecDeque::new(),
            unsent: 0,
            response: ResponseState::default(),
            upgrade: Upgrade::No,
            has_sent_close: false,
            held_body: None,
            idle_limit_ns: None,
            may_speak_h2: true,
        }
    }

    /// Resets the state for a new connection, without freeing memory.
    pub(super) fn reset(&mut self, upgrade: Upgrade) {
        self.reader = ResponseReader::new();
        self.in_flight.clear();
        self.unsent = 0;
        self.response = ResponseState::default();
        self.upgrade = upgrade;
        self.has_sent_close = false;
        self.held_body = None;
        self.idle_limit_ns = None;
    }

    /// Ends the oldest exchange, whose response is complete.
    #[inline]
    fn end_message(&mut self, end: End, shared: &Shared) -> Option<EndedExchange> {
        let exchange = self.in_flight.pop_front()?;
        let verdict = self.response.check(&shared.config.traffic.request(exchange.request).expect);
        let unsent_bytes = exchange.end_offset.saturating_sub(shared.sent_bytes);
        Some(EndedExchange { exchange, verdict, unsent_bytes, is_last: end == End::Final })
    }

    /// Counts and handles an interim response to the oldest request.
    #[cold]
    fn on_interim(&mut self, status: u16, now: Instant, shared: &mut Shared) {
        shared.recorder.current().outcomes.count_status(status);
        // A request whose body waits is the latest on its connection, because later requests are
        // sent after the body. An interim response belongs to the oldest request, so it concerns
        // the waiting body only if the connection has just one request in flight.
        let (Some(held), [exchange]) = (&mut self.held_body, self.in_flight.make_contiguous())
        else {
            return;
        };
        if status != 100 || held.is_requested {
            return;
        }
        held.is_requested = true;
        shared.count_continued(exchange.sent, now);
    }

    /// Drops a waiting body when a final response begins. The body is not sent, so the connection
    /// must be closed (RFC 9110 §10.1.1). If 100 came in the same read as the response, the body is
    /// dropped as well, because it has not been sent yet.
    #[cold]
    fn drop_held_body(&mut self, status: u16, shared: &mut Shared) {
        if self.in_flight.len() > 1 {
            return;
        }
        let Some(held) = self.held_body.take() else { return };
        self.has_sent_close = true;
        shared.count_final_response(status);
        shared.count_early_response(held.bytes.len() as u64, status);
        if held.is_requested
            && let Some(books) = &mut shared.continues
        {
            // `on_interim` has counted the 100, but the body did not follow it.
            books.discount_continued();
        }
    }

    /// Returns the instant at which the waiting body is sent without 100 (Continue); `NEVER`: no
    /// body waits, or the head has not left.
    fn continue_deadline(&self) -> Instant {
        match (&self.held_body, self.in_flight.back()) {
            (Some(_), Some(exchange)) => exchange.continue_deadline(),
            _ => Instant::NEVER,
        }
    }
}

impl Conversation for H1Connection {
    #[inline]
    fn is_ready(&self) -> bool {
        true
    }

    fn is_between_messages(&self) -> bool {
        self.reader.is_between_messages()
    }

    fn is_silent_when_idle(&self) -> bool {
        true
    }

    /// Before a server closes an idle connection, it can send a 408 response as a notice (RFC 9110
    /// §15.5.9).
    fn is_close_notice(&self, bytes: &[u8]) -> bool {
        self.in_flight.is_empty()
            && self.is_between_messages()
            && [&b"HTTP/1.1 408 "[..], b"HTTP/1.0 408 "].iter().any(|n| bytes.starts_with(n))
    }

    #[inline]
    fn is_draining(&self) -> bool {
        self.has_sent_close
    }

    #[inline]
    fn idle_limit_ns(&self) -> u64 {
        self.idle_limit_ns.unwrap_or(u64::MAX)
    }

    #[inline]
    fn has_room(&self, shared: &Shared) -> bool {
        if self.upgrade != Upgrade::No {
            // The protocol is not known before the first response.
            return self.in_flight.is_empty();
        }
        self.in_flight.len() < shared.config.pipeline as usize
            && !self.has_sent_close
            && self.held_body.is_none()
    }

    /// A pipeline that is more than half full is not refilled. Refilling each place immediately
    /// would put each request into a separate segment (docs/internals/timing.md).
    #[inline]
    fn waits_for_batch(&self, shared: &Shared) -> bool {
        shared.config.schedule.is_closed()
            && self.in_flight.len() > shared.config.pipeline as usize / 2
    }

    fn expected_capacity(&self, shared: &Shared) -> u32 {
        let protocol = shared.config.protocol;
        // The server chooses the protocol. Before it has chosen HTTP/2 on any connection, a slot
        // takes no more requests than a connection of HTTP/1.1 can send at a time. A server that
        // announces no limit of streams has chosen HTTP/2 as well (RFC 9113 §6.5.2).
        let is_undecided = protocol == Protocol::Auto && shared.http2.connections == 0;
        if !protocol.is_h1() && self.may_speak_h2 && !is_undecided {
            shared.expected_streams()
        } else {
            shared.config.pipeline
        }
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.in_flight.iter()
    }

    fn take_exchanges(&mut self) -> Vec<Exchange> {
        self.in_flight.drain(..).collect()
    }

    #[inline]
    fn submit<'s>(
        &mut self,
        mut exchange: Exchange,
        now: Instant,
        shared: &'s mut Shared,
    ) -> &'s [u8] {
        let Shared { config, visits, continues, request: buffer, began, .. } = shared;
        let traffic = &config.traffic;
        let request = traffic.request(exchange.request);
        let template = match (self.upgrade, &request.upgrade) {
            (Upgrade::Wanted, Some(template)) => {
                self.upgrade = Upgrade::Requested;
                template
            }
            _ => {
                self.has_sent_close = traffic.closes(exchange.request);
                &request.template
            }
        };
        // The value of `RequestPart::Intended` in this request.
        config.draws.intended_ns = exchange.intended.ns_since(*began);
        let session = visits.as_mut().map(|visits| visits.session(&exchange, now));
        let bytes = template.bytes_for(&mut exchange.draw, &mut config.draws, session, buffer);
        self.in_flight.push_back(exchange);
        self.unsent += 1;
        // A request that asks for an upgrade is sent with its body. After the upgrade it is a
        // stream whose request is complete (RFC 7540 §3.2).
        if self.upgrade != Upgrade::No || !traffic.expects_continue(exchange.request) {
            return bytes;
        }
        let (head, body) = bytes.split_at(head_bytes(bytes));
        self.held_body = Some(HeldBody { bytes: body.to_vec(), is_requested: false });
        if let Some(books) = continues {
            books.count_held();
        }
        head
    }

    fn on_queued(&mut self, _: u64, end: u64) {
        if let Some(exchange) = self.in_flight.back_mut() {
            exchange.end_offset = end;
        }
    }

    #[inline]
    fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    #[inline]
    fn on_handed_over(&mut self, at: Instant, mut on_sent: impl FnMut(&Exchange)) {
        let sent = self.in_flight.len() - self.unsent;
        for exchange in self.in_flight.range_mut(sent..) {
            // No byte left before this instant. The time in the kernel belongs to the service time.
            exchange.sent = at;
            on_sent(exchange);
        }
        self.unsent = 0;
    }

    #[inline]
    fn take_requested_body(&mut self) -> Option<Vec<u8>> {
        self.held_body.take_if(|held| held.is_requested).map(|held| held.bytes)
    }

    #[inline(always)]
    fn poll(
        &mut self,
        bytes: &mut &[u8],
        now: Instant,
        shared: &mut Shared,
    ) -> Result<Event, WireError> {
        loop {
            if bytes.is_empty() && self.reader.is_between_messages() {
                return Ok(Event::NeedMore);
            }
            let Some(exchange) = self.in_flight.front_mut() else { return Ok(Event::Unsolicited) };
            if exchange.sent == Instant::NEVER {
                // A response to an unsent request is unsolicited.
                return Ok(Event::Unsolicited);
            }
            if exchange.first_byte == Instant::NEVER {
                exchange.first_byte = now;
            }
            let traffic = &shared.config.traffic;
            let CompiledRequest { kind, expect, .. } = traffic.request(exchange.request);
            let kind = self.upgrade.kind(*kind);
            let input = *bytes;
            let (used, event) =
                self.reader.next_with_cache(input, kind, &mut shared.head_cache).map_err(
                    |error| wire_error(error, || traffic.requests_upgrade(exchange.request)),
                )?;
            *bytes = &input[used..];
            match event {
                ResponseEvent::NeedMore => return Ok(Event::NeedMore),
                ResponseEvent::Informational(head) => {
                    let status = head.status;
                    self.on_interim(status, now, shared);
                }
                ResponseEvent::Upgraded(_) => {
                    shared.recorder.current().outcomes.count_status(101);
                    if let Some(exchange) = self.in_flight.pop_front() {
                        return Ok(Event::Upgraded(exchange));
                    }
                }
                ResponseEvent::Head(head) => {
                    if self.upgrade.decline() {
                        shared.http2.declined += 1;
                        self.may_speak_h2 = false;
                    }
                    let (status, fields) = (head.status, || head.fields());
                    if self.idle_limit_ns.is_none() {
                        self.idle_limit_ns = Some(announced_idle_limit_ns(fields()));
                    }
                    self.response.on_head(status, fields, expect, exchange.is_checked_in_full);
                    shared.cookies.search(fields);
                    visits::on_head(&mut shared.visits, exchange, now, fields);
                    if self.held_body.is_some() {
                        self.drop_held_body(status, shared);
                    }
                }
                ResponseEvent::Body(data) => {
                    shared.recorder.current().body_received += data.len() as u64;
                    self.response.on_body(data, expect);
                    visits::on_body(&mut shared.visits, exchange, data);
                }
                ResponseEvent::End(end) => {
                    if let Some(ended) = self.end_message(end, shared) {
                        return Ok(Event::Done(ended));
                    }
                }
            }
        }
    }

    fn on_eof(
        &mut self,
        close: PeerClose,
        shared: &mut Shared,
    ) -> Result<Option<EndedExchange>, WireError> {
        match self.reader.eof()? {
            // A truncated body may be incomplete, so its exchange fails.
            Closed::EndsMessage if close == PeerClose::Clean => {
                Ok(self.end_message(End::Final, shared))
            }
            Closed::EndsMessage | Closed::BetweenMessages => Ok(None),
        }
    }

    fn requeue_unsent(&mut self, assigned: &mut VecDeque<Exchange>) {
        for _ in 0..std::mem::take(&mut self.unsent) {
            // Each exchange goes to the front, the oldest last, so that their order is preserved.
            let Some(exchange) = self.in_flight.pop_back() else { return };
            assigned.push_front(exchange.to_unsent());
        }
    }

    fn requeue_unanswered(&mut self, assigned: &mut VecDeque<Exchange>, shared: &Shared) -> u64 {
        let before = assigned.len();
        for _ in 0..self.in_flight.len() {
            // Each exchange goes to the front of its list, the oldest last, so that their order is
            // preserved.
            let Some(exchange) = self.in_flight.pop_back() else { break };
            if shared.config.traffic.is_idempotent(exchange.request) {
                assigned.push_front(exchange.to_unsent());
            } else {
                self.in_flight.push_front(exchange);
            }
        }
        (assigned.len() - before) as u64
    }

    fn poll_timeout(&self, shared: &Shared) -> Instant {
        let policy = &shared.config.policy;
        let oldest = self.in_flight.front();
        let response =
            oldest.map_or(Instant::NEVER, |exchange| policy.exchange_timeout(exchange).0);
        response.min(self.continue_deadline())
    }

    fn on_timeout(&mut self, now: Instant, shared: &mut Shared) -> TimeoutResult {
        if self.continue_deadline() <= now
            && let Some(held) = &mut self.held_body
            && !std::mem::replace(&mut held.is_requested, true)
        {
            shared.count_expired_wait();
        }
        let policy = &shared.config.policy;
        let open = TimeoutResult { ended: Vec::new(), connection: ConnectionAfterTimeout::Open };
        let Some(&exchange) = self.in_flight.front() else { return open };
        let (expires, outcome) = policy.exchange_timeout(&exchange);
        if expires > now {
            return open;
        }
        self.in_flight.pop_front();
        // The connection is closed next, so the others never leave either.
        self.unsent = 0;
        ResponseProgress::new(&exchange, &self.response, self.reader.missing_part())
            .count(&mut shared.timeouts);
        TimeoutResult {
            ended: vec![(exchange, outcome)],
            connection: ConnectionAfterTimeout::Silent(outcome),
        }
    }
}

/// Returns the time without a request after which a server closes the connection, nanoseconds: the
/// parameter `timeout` of the header Keep-Alive (RFC 2068 §19.7.1.1), in seconds. `u64::MAX`: it
/// announces none.
#[cold]
fn announced_idle_limit_ns<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> u64 {
    let mut values = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"keep-alive"));
    let seconds = values.find_map(|(_, value)| {
        let parameters = std::str::from_utf8(value).ok()?.split(',');
        parameters.filter_map(|parameter| parameter.split_once('=')).find_map(|(name, value)| {
            let is_timeout = name.trim().eq_ignore_ascii_case("timeout");
            is_timeout.then(|| value.trim().parse::<u64>().ok())?
        })
    });
    // 0 would end each connection before its second request.
    seconds.filter(|s| *s > 0).map_or(u64::MAX, |s| s.saturating_mul(1_000_000_000))
}

/// Returns the length of the head of a request.
fn head_bytes(request: &[u8]) -> usize {
    request.windows(4).position(|w| w == b"\r\n\r\n").map_or(request.len(), |start| start + 4)
}

fn wire_error(error: Http1Error, wants_upgrade: impl FnOnce() -> bool) -> WireError {
    match error {
        Http1Error::UnexpectedUpgrade if wants_upgrade() => WireError::SwitchedAsRequested,
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_limit_is_read_from_keep_alive_header() {
        let limit_s = |fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            announced_idle_limit_ns(fields)
        };
        const S: u64 = 1_000_000_000;
        for (value, expected) in [
            ("timeout=5", 5 * S),
            ("max=100, Timeout = 75", 75 * S),
            ("timeout=0", u64::MAX),
            ("timeout=-1", u64::MAX),
            ("timeout=99999999999", u64::MAX),
            ("max=100", u64::MAX),
            ("300", u64::MAX),
        ] {
            assert_eq!(limit_s(&[("server", "x"), ("Keep-Alive", value)]), expected, "{value}");
        }
        assert_eq!(limit_s(&[("keep-alive", "max=5"), ("keep-alive", "timeout=2")]), 2 * S);
        assert_eq!(limit_s(&[("x-keep-alive", "timeout=2")]), u64::MAX);
    }
}
