//! One connection slot: its connection's state and the exchanges on it.

use std::collections::VecDeque;

use dyno_archive::trial::TcpCounters;
use dyno_wire::h1::response::Reader;

use crate::Instant;
use crate::expect::Answer;
use crate::tls::Session;

/// One request and its response, while under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) intended: Instant,
    /// `NEVER` until its bytes have been handed to the kernel.
    pub(crate) sent: Instant,
    /// `NEVER` until the first byte of the answer came.
    pub(crate) first_byte: Instant,
    /// Which of the traffic's requests it is.
    pub(crate) request: u16,
    /// Its answer is checked in full.
    pub(crate) in_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Down,
    Connecting {
        since: Instant,
    },
    /// The TLS handshake is under way.
    Securing {
        since: Instant,
        connecting_since: Instant,
    },
    Up,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) state: State,
    pub(crate) reader: Reader,
    /// `None` on a plain connection.
    pub(crate) tls: Option<Box<Session>>,
    /// Oldest first; answers come in this order.
    pub(crate) in_flight: VecDeque<Exchange>,
    /// How many at the back of `in_flight` have not been handed to the kernel.
    pub(crate) unsent: usize,
    /// Requests given to the present connection.
    pub(crate) served: u64,
    /// Connection failures in a row.
    pub(crate) failures: u32,
    /// Waits in the worker's list of idle slots.
    pub(crate) idle: bool,
    /// Waits in the worker's list of retries.
    pub(crate) backing_off: bool,
    pub(crate) answer: Answer,
    /// The connection's counters when the measured window began, or zero if it was opened later.
    pub(crate) tcp_base: TcpCounters,
}

impl Slot {
    pub(crate) fn new() -> Self {
        Slot {
            state: State::Down,
            reader: Reader::new(),
            tls: None,
            in_flight: VecDeque::new(),
            unsent: 0,
            served: 0,
            failures: 0,
            idle: false,
            backing_off: false,
            answer: Answer::default(),
            tcp_base: TcpCounters::default(),
        }
    }

    /// Stamps what has just been handed to the kernel. Returns the exchanges concerned.
    pub(crate) fn handed(&mut self, at: Instant) -> impl Iterator<Item = &Exchange> {
        let first = self.in_flight.len() - self.unsent;
        for exchange in self.in_flight.range_mut(first..) {
            // The bytes left no earlier than this instant; what the kernel does with them is service time.
            exchange.sent = at;
        }
        self.unsent = 0;
        self.in_flight.range(first..)
    }

    /// Forgets the connection, keeping what is in flight for the caller to settle.
    pub(crate) fn disconnected(&mut self) {
        self.state = State::Down;
        self.reader = Reader::new();
        self.tls = None;
        self.answer = Answer::default();
        self.unsent = 0;
        self.served = 0;
    }
}
