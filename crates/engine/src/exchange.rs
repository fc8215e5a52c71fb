//! An exchange: a request and its response.

use dyno_model::load::Timeouts;
use dyno_wire::h1::response::MissingPart;

use crate::draw::Draw;
use crate::expect::ResponseState;
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
