//! A connection slot: the state of its connection and the exchanges on it. A worker has one slot
//! per connection, and a slot outlives its connections.

use std::collections::VecDeque;

use dyno_archive::load::{TcpCounters, Timeouts};
use dyno_wire::h1::response::{MissingPart, RequestKind, ResponseReader};
use dyno_wire::h2::{Client, StreamKey};

use crate::draw::Draw;
use crate::driver::QueuedBytes;
use crate::expect::ResponseState;
use crate::tls::TlsSession;
use crate::{Instant, limits};

/// A request in flight and its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// Intended start: the time in the schedule or, in a closed loop, the instant at which a slot
    /// was free for it.
    pub(crate) intended: Instant,
    /// When the request was given to the driver; `NEVER` before.
    pub(crate) queued: Instant,
    /// When the request was handed to the kernel; `NEVER` before.
    pub(crate) sent: Instant,
    /// When the first byte of the response arrived; `NEVER` before.
    pub(crate) first_byte: Instant,
    /// Index of the request in the traffic.
    pub(crate) request: u16,
    /// Whether the response is compared with all expectations.
    pub(crate) is_checked_in_full: bool,
    /// End of the request in the byte stream of the connection. Only for requests that can leave in
    /// several pieces; 0 for all others.
    pub(crate) end_offset: u64,
    /// Whether the request was sent before, on a connection that ended or refused the request.
    pub(crate) is_resent: bool,
    /// Number of retries because a server did not process the request.
    pub(crate) retries: u8,
    /// Random draw of the request, with which a retry renders the same bytes.
    pub(crate) draw: Draw,
    /// Index of the visitor whose sequence the request belongs to. 0 without sequences.
    pub(crate) visitor: u32,
}

impl Exchange {
    /// Returns this exchange in its unsent state, for a retry.
    pub(crate) fn to_unsent(self) -> Exchange {
        Exchange {
            queued: Instant::NEVER,
            sent: Instant::NEVER,
            first_byte: Instant::NEVER,
            end_offset: 0,
            is_resent: self.is_resent || self.sent != Instant::NEVER,
            ..self
        }
    }

    /// Returns the instant at which the body is sent without 100 (Continue); `NEVER`: the head has
    /// not been sent.
    pub(crate) fn continue_deadline(&self) -> Instant {
        if self.sent == Instant::NEVER {
            Instant::NEVER
        } else {
            self.sent.plus(limits::CONTINUE_NS)
        }
    }

    /// Creates an exchange whose request has not been sent.
    pub(crate) const fn new(intended: Instant, request: u16) -> Exchange {
        Exchange {
            intended,
            queued: Instant::NEVER,
            sent: Instant::NEVER,
            first_byte: Instant::NEVER,
            request,
            is_checked_in_full: false,
            end_offset: 0,
            is_resent: false,
            retries: 0,
            draw: Draw::NONE,
            visitor: 0,
        }
    }
}

/// Progress of a response, for counts of time-outs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseProgress {
    /// The request has not been sent.
    Unsent,
    Nothing,
    PartOfHead,
    Head,
    /// Bytes of the body so far, and the length of the body if announced.
    PartOfBody {
        received: u64,
        length: Option<u64>,
    },
}

impl ResponseProgress {
    pub(crate) fn new(
        exchange: &Exchange,
        response: &ResponseState,
        missing: MissingPart,
    ) -> ResponseProgress {
        if exchange.sent == Instant::NEVER {
            return ResponseProgress::Unsent;
        }
        if exchange.first_byte == Instant::NEVER {
            return ResponseProgress::Nothing;
        }
        match missing {
            MissingPart::Head => ResponseProgress::PartOfHead,
            MissingPart::Body(_) if response.body_bytes() == 0 => ResponseProgress::Head,
            MissingPart::Body(missing) => {
                let received = response.body_bytes();
                let length = missing.map(|bytes| received + bytes);
                ResponseProgress::PartOfBody { received, length }
            }
        }
    }

    /// Counts a request that timed out with this progress.
    pub(crate) fn count(self, timeouts: &mut Timeouts) {
        let increment = |n: &mut u64| *n += 1;
        match self {
            ResponseProgress::Unsent => increment(&mut timeouts.unsent),
            ResponseProgress::Nothing => increment(&mut timeouts.nothing),
            ResponseProgress::PartOfHead => increment(&mut timeouts.part_of_head),
            ResponseProgress::Head => increment(&mut timeouts.head),
            ResponseProgress::PartOfBody { received, length } => {
                increment(if length.is_some() {
                    &mut timeouts.part_of_body
                } else {
                    &mut timeouts.body_without_length
                });
                if timeouts.example_bytes.is_none() {
                    (timeouts.example_bytes, timeouts.example_length) = (Some(received), length);
                }
            }
        }
    }
}

/// State of the connection of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Down,
    Connecting {
        since: Instant,
    },
    /// The TLS handshake is in progress.
    Securing {
        since: Instant,
        connecting_since: Instant,
    },
    /// The client preface was sent. The settings of the server have not arrived.
    Greeting {
        connecting_since: Instant,
    },
    Up,
}

impl ConnectionState {
    /// Whether a connection is being established and cannot carry requests yet.
    pub(crate) const fn is_opening(self) -> bool {
        matches!(
            self,
            ConnectionState::Connecting { .. }
                | ConnectionState::Securing { .. }
                | ConnectionState::Greeting { .. }
        )
    }
}

/// A connection slot.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) state: ConnectionState,
    /// TLS session; `None` without TLS.
    pub(crate) tls: Option<Box<TlsSession>>,
    pub(crate) protocol: ProtocolState,
    /// Exchanges assigned to this slot that wait for its connection, oldest first.
    pub(crate) assigned: VecDeque<Exchange>,
    /// Requests given to the current connection.
    pub(crate) served: u64,
    /// Consecutive connection failures.
    pub(crate) failures: u32,
    /// Whether a complete response has arrived on the current connection.
    pub(crate) has_responded: bool,
    /// Whether a request on the current connection is so large that it can leave in several pieces.
    pub(crate) has_large_request: bool,
    /// Whether responses are still missing on the connection at the end of the load.
    pub(crate) owes_responses: bool,
    /// Whether the next connection of the slot may use HTTP/2; `true` until a connection of the
    /// slot uses HTTP/1.1. The value decides how many exchanges a slot without a connection takes:
    /// the number of streams of an HTTP/2 connection, or the pipeline depth.
    pub(crate) may_speak_h2: bool,
    /// Whether the slot is in the worker's list of idle slots.
    pub(crate) is_listed_idle: bool,
    /// Whether the slot is in the worker's list of slots that wait before they connect (again).
    pub(crate) is_backing_off: bool,
    /// TCP counters of the connection at the start of the measured window; zero if it was opened
    /// later.
    pub(crate) tcp_base: TcpCounters,
}

/// Protocol of a connection, with its state.
#[derive(Debug)]
pub(crate) enum ProtocolState {
    H1(H1Connection),
    H2(Box<H2Connection>),
}

/// State of an HTTP/1.1 connection. Responses come in the order of the requests.
#[derive(Debug)]
pub(crate) struct H1Connection {
    pub(crate) reader: ResponseReader,
    /// Exchanges on the connection, oldest first.
    pub(crate) in_flight: VecDeque<Exchange>,
    /// Number of exchanges at the back of `in_flight` whose requests have not been handed to the
    /// kernel.
    pub(crate) unsent: usize,
    pub(crate) response: ResponseState,
    pub(crate) upgrade: Upgrade,
    /// Whether the last request contained `Connection: close` (RFC 9112 §9.6).
    pub(crate) has_sent_close: bool,
    /// Body of the latest request, while it waits for 100 (Continue).
    pub(crate) held_body: Option<HeldBody>,
}

/// A request body that waits for 100 (Continue).
#[derive(Debug)]
pub(crate) struct HeldBody {
    pub(crate) bytes: Vec<u8>,
    /// Whether the server has sent 100 (Continue).
    pub(crate) is_requested: bool,
}

/// State of the upgrade of an HTTP/1.1 connection to HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
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
    pub(crate) const fn kind(self, kind: RequestKind) -> RequestKind {
        match (self, kind) {
            (Upgrade::Requested, RequestKind::Head) => RequestKind::UpgradeHead,
            (Upgrade::Requested, _) => RequestKind::Upgrade,
            (_, kind) => kind,
        }
    }

    /// Records that the server responded without upgrading. The connection continues in HTTP/1.1
    /// (RFC 9110 §7.8). Returns whether an upgrade was requested.
    #[inline]
    pub(crate) fn decline(&mut self) -> bool {
        let is_declined = *self == Upgrade::Requested;
        if is_declined {
            *self = Upgrade::No;
        }
        is_declined
    }
}

/// State of an HTTP/2 connection. Each exchange is a stream.
#[derive(Debug)]
pub(crate) struct H2Connection {
    pub(crate) client: Client<StreamExchange>,
    /// Streams whose requests have not been handed to the kernel.
    pub(crate) unsent: Vec<StreamKey>,
    /// Streams with large requests in the worker's `output`, and the end of each request in
    /// `output`.
    pub(crate) large_requests: Vec<(StreamKey, usize)>,
    /// When bytes last arrived.
    pub(crate) last_received: Instant,
    /// Instant since which the server's settings allow no stream; `NEVER`: the settings allow
    /// streams.
    pub(crate) no_streams_since: Instant,
    pub(crate) replies: Replies,
}

/// Replies to control frames of the server that are queued on a connection. Detects servers that
/// send control frames and do not read the replies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Replies {
    /// Bytes of replies queued since the last check.
    bytes: u64,
    /// Total bytes queued on the connection up to the last check.
    queued_at_check: u64,
    /// The turn of the last check.
    checked_at: Instant,
}

impl Replies {
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Whether enough replies were queued for a check. There is at most one check per turn, because
    /// bytes leave between turns.
    #[inline]
    pub(crate) fn needs_check(&self, turn: Instant) -> bool {
        self.bytes > limits::REPLY_BYTES && turn != self.checked_at
    }

    /// Checks whether all bytes queued at the previous check have left. Returns `true` if some of
    /// them have not left, although many replies were queued since.
    pub(crate) fn check_stuck(&mut self, queued: QueuedBytes, turn: Instant) -> bool {
        let is_stuck = queued.taken < self.queued_at_check;
        *self = Replies { bytes: 0, queued_at_check: queued.total(), checked_at: turn };
        is_stuck
    }
}

/// An exchange on a stream.
#[derive(Debug)]
pub(crate) struct StreamExchange {
    pub(crate) exchange: Exchange,
    pub(crate) response: ResponseState,
    /// Instant since which flow-control windows block its request; `NEVER`: not blocked.
    pub(crate) blocked_since: Instant,
    /// Whether its body waits for 100 (Continue).
    pub(crate) holds_body: bool,
}

impl H1Connection {
    fn new() -> H1Connection {
        H1Connection {
            reader: ResponseReader::new(),
            in_flight: VecDeque::new(),
            unsent: 0,
            response: ResponseState::default(),
            upgrade: Upgrade::No,
            has_sent_close: false,
            held_body: None,
        }
    }

    /// Resets the state for a new connection, without freeing memory.
    pub(crate) fn reset(&mut self, upgrade: Upgrade) {
        self.reader = ResponseReader::new();
        self.in_flight.clear();
        self.unsent = 0;
        self.response = ResponseState::default();
        self.upgrade = upgrade;
        self.has_sent_close = false;
        self.held_body = None;
    }
}

impl Slot {
    pub(crate) fn new() -> Self {
        Slot {
            state: ConnectionState::Down,
            tls: None,
            protocol: ProtocolState::H1(H1Connection::new()),
            assigned: VecDeque::new(),
            served: 0,
            failures: 0,
            has_responded: false,
            has_large_request: false,
            owes_responses: false,
            may_speak_h2: true,
            is_listed_idle: false,
            is_backing_off: false,
            tcp_base: TcpCounters::default(),
        }
    }

    /// Whether bytes that arrive on this connection after the load belong to no request: the
    /// connection uses HTTP/1.1, and all responses have arrived. (Over HTTP/2, responses name their
    /// stream.) During the load, callers must also check that no request is in flight.
    pub(crate) fn is_quiet(&self) -> bool {
        self.state == ConnectionState::Up
            && self.served > 0
            && !self.owes_responses
            && matches!(self.protocol, ProtocolState::H1(_))
    }

    /// Returns the progress of the response to the oldest exchange of an HTTP/1.1 connection.
    pub(crate) fn response_progress(&self) -> Option<ResponseProgress> {
        let ProtocolState::H1(h1) = &self.protocol else { return None };
        Some(ResponseProgress::new(h1.in_flight.front()?, &h1.response, h1.reader.missing_part()))
    }

    /// Returns the number of exchanges on the connection.
    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        match &self.protocol {
            ProtocolState::H1(h1) => h1.in_flight.len(),
            ProtocolState::H2(h2) => h2.client.open_streams(),
        }
    }

    /// Records the hand-over of all queued requests to the kernel at `at`. Calls `on_sent` with
    /// each of their exchanges.
    #[inline]
    pub(crate) fn stamp_hand_over(&mut self, at: Instant, mut on_sent: impl FnMut(&Exchange)) {
        match &mut self.protocol {
            ProtocolState::H1(h1) => {
                let sent = h1.in_flight.len() - h1.unsent;
                for exchange in h1.in_flight.range_mut(sent..) {
                    // No byte left before this instant. The time in the kernel belongs to the
                    // service time.
                    exchange.sent = at;
                    on_sent(exchange);
                }
                h1.unsent = 0;
            }
            ProtocolState::H2(h2) => {
                for key in h2.unsent.drain(..) {
                    // A stream can end before its request leaves.
                    let Some(stream) = h2.client.value(key) else { continue };
                    // As over HTTP/1.1, no byte left before this instant. A body that waits for a
                    // window leaves later, but the server causes that wait.
                    stream.exchange.sent = at;
                    on_sent(&stream.exchange);
                }
            }
        }
    }

    /// Whether the next bytes begin a message. HTTP/1.1: no part of the next response has been
    /// read. HTTP/2: the server's first SETTINGS frame has not been read.
    pub(crate) fn is_between_messages(&self) -> bool {
        match &self.protocol {
            ProtocolState::H1(h1) => h1.reader.is_between_messages(),
            ProtocolState::H2(_) => matches!(self.state, ConnectionState::Greeting { .. }),
        }
    }

    /// Whether queued requests wait to be handed to the kernel.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        match &self.protocol {
            ProtocolState::H1(h1) => h1.unsent > 0,
            ProtocolState::H2(h2) => !h2.unsent.is_empty(),
        }
    }

    /// Removes and returns the exchanges on the connection, oldest first.
    pub(crate) fn take_in_flight(&mut self) -> Vec<Exchange> {
        match &mut self.protocol {
            ProtocolState::H1(h1) => h1.in_flight.drain(..).collect(),
            ProtocolState::H2(h2) => {
                h2.client.take_all().into_iter().map(|stream| stream.exchange).collect()
            }
        }
    }

    /// Returns the intended starts of the exchanges of the slot that have not ended.
    pub(crate) fn intended_starts(&self) -> impl Iterator<Item = Instant> + '_ {
        let (h1, h2) = match &self.protocol {
            ProtocolState::H1(h1) => (Some(h1.in_flight.iter()), None),
            ProtocolState::H2(h2) => {
                (None, Some(h2.client.iter().map(|(_, stream)| &stream.exchange)))
            }
        };
        let on_connection = h1.into_iter().flatten().chain(h2.into_iter().flatten());
        on_connection.chain(&self.assigned).map(|exchange| exchange.intended)
    }

    /// Resets the slot after its connection closed. Its exchanges must have been taken before.
    pub(crate) fn disconnect(&mut self) {
        self.state = ConnectionState::Down;
        match &mut self.protocol {
            ProtocolState::H1(h1) => h1.reset(Upgrade::No),
            ProtocolState::H2(_) => self.protocol = ProtocolState::H1(H1Connection::new()),
        }
        self.tls = None;
        self.served = 0;
        self.has_responded = false;
        self.has_large_request = false;
    }
}
