//! One connection slot: its connection's state and the exchanges on it.

use std::collections::VecDeque;

use dyno_archive::load::{TcpCounters, Timeouts};
use dyno_wire::h1::response::{MissingPart, RequestKind, ResponseReader};
use dyno_wire::h2::{Client, StreamKey};

use crate::driver::Queued;
use crate::expect::AnswerState;
use crate::tls::TlsSession;
use crate::traffic::Draw;
use crate::{Instant, limits};

/// A request in flight and its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// Its intended start: its place in the schedule, or when a slot fell free for it.
    pub(crate) intended: Instant,
    /// When its bytes were given to the driver; `NEVER` before.
    pub(crate) queued: Instant,
    /// `NEVER` until its bytes have been handed to the kernel.
    pub(crate) sent: Instant,
    /// `NEVER` until the first byte of the response came.
    pub(crate) first_byte: Instant,
    /// Index of its request in the traffic.
    pub(crate) request: u16,
    /// Whether its response is checked in full.
    pub(crate) in_full: bool,
    /// Where its request ends in the bytes of its connection; 0: not known, as of requests that
    /// leave in one piece.
    pub(crate) ends_at: u64,
    /// Number of repeated sends because a server refused to process it.
    pub(crate) retries: u8,
    /// Its draw, so that the request has the same bytes when it is sent again.
    pub(crate) draw: Draw,
}

impl Exchange {
    /// Returns this exchange as unsent, in any earlier state.
    pub(crate) fn to_unsent(self) -> Exchange {
        Exchange {
            queued: Instant::NEVER,
            sent: Instant::NEVER,
            first_byte: Instant::NEVER,
            ends_at: 0,
            ..self
        }
    }
}

impl Exchange {
    /// When its body is sent although no 100 (Continue) has come.
    pub(crate) fn continue_due(&self) -> Instant {
        if self.sent == Instant::NEVER {
            Instant::NEVER
        } else {
            self.sent.plus(limits::CONTINUE_NS)
        }
    }

    /// An exchange that has not left.
    pub(crate) const fn new(intended: Instant, request: u16) -> Exchange {
        Exchange {
            intended,
            queued: Instant::NEVER,
            sent: Instant::NEVER,
            first_byte: Instant::NEVER,
            request,
            in_full: false,
            ends_at: 0,
            retries: 0,
            draw: Draw::NONE,
        }
    }
}

/// Progress of the response to an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseProgress {
    /// The request has not left.
    Unsent,
    Nothing,
    PartOfHead,
    Head,
    /// Bytes of body, and its announced length.
    PartOfBody(u64, Option<u64>),
}

impl ResponseProgress {
    pub(crate) fn new(
        exchange: &Exchange,
        answer: &AnswerState,
        missing: MissingPart,
    ) -> ResponseProgress {
        match missing {
            _ if exchange.sent == Instant::NEVER => ResponseProgress::Unsent,
            _ if exchange.first_byte == Instant::NEVER => ResponseProgress::Nothing,
            MissingPart::Head => ResponseProgress::PartOfHead,
            MissingPart::Body(_) if answer.body_bytes() == 0 => ResponseProgress::Head,
            MissingPart::Body(left) => {
                let came = answer.body_bytes();
                ResponseProgress::PartOfBody(came, left.map(|left| came + left))
            }
        }
    }

    /// Counts a request that timed out at this point.
    pub(crate) fn count(self, timeouts: &mut Timeouts) {
        let one = |n: &mut u64| *n += 1;
        match self {
            ResponseProgress::Unsent => one(&mut timeouts.unsent),
            ResponseProgress::Nothing => one(&mut timeouts.nothing),
            ResponseProgress::PartOfHead => one(&mut timeouts.part_of_head),
            ResponseProgress::Head => one(&mut timeouts.head),
            ResponseProgress::PartOfBody(came, length) => {
                one(if length.is_some() {
                    &mut timeouts.part_of_body
                } else {
                    &mut timeouts.body_without_length
                });
                if timeouts.example_bytes.is_none() {
                    (timeouts.example_bytes, timeouts.example_length) = (Some(came), length);
                }
            }
        }
    }
}

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
    /// HTTP/2 has begun, and the server's settings have not come.
    Greeting {
        connecting_since: Instant,
    },
    Up,
}

impl ConnectionState {
    /// Whether a connection is being opened that cannot carry requests yet.
    pub(crate) const fn is_opening(self) -> bool {
        matches!(
            self,
            ConnectionState::Connecting { .. }
                | ConnectionState::Securing { .. }
                | ConnectionState::Greeting { .. }
        )
    }
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) state: ConnectionState,
    /// `None` on a plain connection.
    pub(crate) tls: Option<Box<TlsSession>>,
    pub(crate) talk: ProtocolState,
    /// Exchanges that were given to this slot while its connection could not take them, oldest
    /// first.
    pub(crate) assigned: VecDeque<Exchange>,
    /// Requests given to the present connection.
    pub(crate) served: u64,
    /// Connection failures in a row.
    pub(crate) failures: u32,
    /// Whether a whole response has come on the present connection.
    pub(crate) answered: bool,
    /// Whether a request on the present connection may leave in several pieces.
    pub(crate) has_large: bool,
    /// Whether answers are still owed on the connection at the end of the load.
    pub(crate) is_owed: bool,
    /// Whether to give this slot exchanges for streams rather than for a pipeline. `true` until a
    /// connection has come to speak HTTP/1.1.
    pub(crate) may_speak_h2: bool,
    /// Whether the slot is in the worker's list of idle slots.
    pub(crate) idle: bool,
    /// Whether the slot is in the worker's list of retries.
    pub(crate) backing_off: bool,
    /// The connection's counters when the measured window began, or zero if it was opened later.
    pub(crate) tcp_base: TcpCounters,
}

/// The protocol of a connection, with its state.
#[derive(Debug)]
pub(crate) enum ProtocolState {
    H1(H1Connection),
    H2(Box<H2Connection>),
}

/// HTTP/1.1: answers come in the order of the requests.
#[derive(Debug)]
pub(crate) struct H1Connection {
    pub(crate) reader: ResponseReader,
    /// Oldest first.
    pub(crate) in_flight: VecDeque<Exchange>,
    /// Number of exchanges at the back of `in_flight` not yet handed to the kernel.
    pub(crate) unsent: usize,
    pub(crate) answer: AnswerState,
    pub(crate) upgrade: Upgrade,
    /// The last request said that the connection ends with its response (RFC 9112 §9.6).
    pub(crate) said_close: bool,
    /// The body of the youngest request, which waits for 100 (Continue).
    pub(crate) held: Option<HeldBody>,
}

/// A body that waits for 100 (Continue).
#[derive(Debug)]
pub(crate) struct HeldBody {
    pub(crate) bytes: Vec<u8>,
    /// The server has said that it may come.
    pub(crate) is_wanted: bool,
}

/// State of the upgrade of an HTTP/1.1 connection to HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    No,
    /// The first request will ask for it.
    Wanted,
    /// The first request has asked for it.
    Requested,
}

impl Upgrade {
    /// Returns the kind by which the answer to the oldest request on the connection is read.
    /// `kind`: the kind of that request without an upgrade.
    #[inline]
    pub(crate) const fn kind(self, kind: RequestKind) -> RequestKind {
        match (self, kind) {
            (Upgrade::Requested, RequestKind::Head) => RequestKind::UpgradeHead,
            (Upgrade::Requested, _) => RequestKind::Upgrade,
            (_, kind) => kind,
        }
    }

    /// Ends a requested upgrade, and returns whether there was one. A server that answers without
    /// the upgrade continues in HTTP/1.1 (RFC 9110 §7.8).
    #[inline]
    pub(crate) fn decline(&mut self) -> bool {
        let is_declined = *self == Upgrade::Requested;
        if is_declined {
            *self = Upgrade::No;
        }
        is_declined
    }
}

/// HTTP/2: each exchange is a stream.
#[derive(Debug)]
pub(crate) struct H2Connection {
    pub(crate) client: Client<StreamExchange>,
    /// Streams whose requests have not been handed to the kernel.
    pub(crate) unsent: Vec<StreamKey>,
    /// Streams with large requests in the bytes that go to the driver next, and where there each
    /// ends.
    pub(crate) large: Vec<(StreamKey, usize)>,
    /// When anything last came.
    pub(crate) received: Instant,
    /// Since when no stream could be opened because the server's settings allow none; `NEVER`: they
    /// allow some.
    pub(crate) barred_since: Instant,
    pub(crate) replies: Replies,
}

/// Replies to the server's control frames that are queued on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Replies {
    /// Bytes of replies queued since the last look at the queue.
    bytes: u64,
    /// Bytes that the kernel will have taken, since the connection was opened, once all that was
    /// queued at that look has left.
    due: u64,
    /// The turn of that look.
    looked: Instant,
}

impl Replies {
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Whether there are enough replies for a look at the queue. One look a turn: bytes leave
    /// between turns.
    #[inline]
    pub(crate) fn are_many(&self, turn: Instant) -> bool {
        self.bytes > limits::REPLY_BYTES && turn != self.looked
    }

    /// Looks at the queue. Returns whether all these replies were queued while not all of what was
    /// queued before them could leave.
    pub(crate) fn are_stuck(&mut self, queued: Queued, turn: Instant) -> bool {
        let is_stuck = queued.taken < self.due;
        *self = Replies { bytes: 0, due: queued.taken + queued.waiting, looked: turn };
        is_stuck
    }
}

/// An exchange on a stream.
#[derive(Debug)]
pub(crate) struct StreamExchange {
    pub(crate) exchange: Exchange,
    pub(crate) answer: AnswerState,
    /// Since when windows have held its request up; `NEVER`: they do not.
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
            answer: AnswerState::default(),
            upgrade: Upgrade::No,
            said_close: false,
            held: None,
        }
    }

    /// Clears the state for a new connection; memory is kept.
    pub(crate) fn renew(&mut self, upgrade: Upgrade) {
        self.reader = ResponseReader::new();
        self.in_flight.clear();
        self.unsent = 0;
        self.answer = AnswerState::default();
        self.upgrade = upgrade;
        self.said_close = false;
        self.held = None;
    }
}

impl Slot {
    pub(crate) fn new() -> Self {
        Slot {
            state: ConnectionState::Down,
            tls: None,
            talk: ProtocolState::H1(H1Connection::new()),
            assigned: VecDeque::new(),
            served: 0,
            failures: 0,
            answered: false,
            has_large: false,
            is_owed: false,
            may_speak_h2: true,
            idle: false,
            backing_off: false,
            tcp_base: TcpCounters::default(),
        }
    }

    /// Whether the connection speaks HTTP/1.1, has answered all that it was asked, and has nothing
    /// more to say. Responses of HTTP/2 name their request.
    pub(crate) fn is_quiet(&self) -> bool {
        self.state == ConnectionState::Up
            && self.served > 0
            && !self.is_owed
            && matches!(self.talk, ProtocolState::H1(_))
    }

    /// Returns the progress of the response to the oldest exchange of an HTTP/1.1 connection.
    pub(crate) fn response_progress(&self) -> Option<ResponseProgress> {
        let ProtocolState::H1(h1) = &self.talk else { return None };
        Some(ResponseProgress::new(h1.in_flight.front()?, &h1.answer, h1.reader.missing_part()))
    }

    /// Exchanges on the connection.
    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        match &self.talk {
            ProtocolState::H1(h1) => h1.in_flight.len(),
            ProtocolState::H2(h2) => h2.client.open_streams(),
        }
    }

    /// Stamps what has just been handed to the kernel; `each` sees the exchanges concerned.
    #[inline]
    pub(crate) fn stamp_hand_over(&mut self, at: Instant, mut each: impl FnMut(&Exchange)) {
        match &mut self.talk {
            ProtocolState::H1(h1) => {
                let first = h1.in_flight.len() - h1.unsent;
                for exchange in h1.in_flight.range_mut(first..) {
                    // The bytes left no earlier than this instant; what the kernel does with them
                    // is service time.
                    exchange.sent = at;
                    each(exchange);
                }
                h1.unsent = 0;
            }
            ProtocolState::H2(h2) => {
                for key in h2.unsent.drain(..) {
                    // A stream may have ended before its request left.
                    let Some(stream) = h2.client.data(key) else { continue };
                    // As above. A body that windows hold up leaves later: its wait is the server's
                    // doing.
                    stream.exchange.sent = at;
                    each(&stream.exchange);
                }
            }
        }
    }

    /// Whether no part of a message, or of HTTP/2's first frame, has been read.
    pub(crate) fn is_between_messages(&self) -> bool {
        match &self.talk {
            ProtocolState::H1(h1) => h1.reader.is_between_messages(),
            ProtocolState::H2(_) => matches!(self.state, ConnectionState::Greeting { .. }),
        }
    }

    /// Whether something waits to be handed to the kernel.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        match &self.talk {
            ProtocolState::H1(h1) => h1.unsent > 0,
            ProtocolState::H2(h2) => !h2.unsent.is_empty(),
        }
    }

    /// Gives up the exchanges on the connection, oldest first.
    pub(crate) fn take_in_flight(&mut self) -> Vec<Exchange> {
        match &mut self.talk {
            ProtocolState::H1(h1) => h1.in_flight.drain(..).collect(),
            ProtocolState::H2(h2) => {
                h2.client.take_all().into_iter().map(|stream| stream.exchange).collect()
            }
        }
    }

    /// The intended instants of the exchanges that the slot has been given and that have not ended.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = Instant> + '_ {
        let (h1, h2) = match &self.talk {
            ProtocolState::H1(h1) => (Some(h1.in_flight.iter()), None),
            ProtocolState::H2(h2) => {
                (None, Some(h2.client.iter().map(|(_, stream)| &stream.exchange)))
            }
        };
        let on_connection = h1.into_iter().flatten().chain(h2.into_iter().flatten());
        on_connection.chain(&self.assigned).map(|exchange| exchange.intended)
    }

    /// Forgets the connection. What was in flight on it must have been taken.
    pub(crate) fn disconnect(&mut self) {
        self.state = ConnectionState::Down;
        match &mut self.talk {
            ProtocolState::H1(h1) => h1.renew(Upgrade::No),
            ProtocolState::H2(_) => self.talk = ProtocolState::H1(H1Connection::new()),
        }
        self.tls = None;
        self.served = 0;
        self.answered = false;
        self.has_large = false;
    }
}
