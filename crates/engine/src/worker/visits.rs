//! Visits: sequences of requests that visitors send in order.
//!
//! A *visitor* has a connection of HTTP/1.1 for itself, or a stream of HTTP/2. A *visit* is one
//! pass through the sequence. Then the visitor starts anew, without values and cookies. A visit
//! whose request fails ends at once, because later requests may need what the response lacks.
//!
//! In a closed loop the visitor sends its next request when the response to the last one is
//! complete. In an open loop each arrival is one request: the next one of a visitor that is free.

use std::sync::Arc;

use dyno_archive::outcome::Outcome;

use crate::driver::ConnId;
use crate::expect::ResponseVerdict;
use crate::extraction::{StoredText, extract_from_body};
use crate::recorder::Recorder;
use crate::sequence::{CompiledSequence, CookiePolicy, SequenceRequest};
use crate::session::VisitorSession;
use crate::slot::Exchange;
use crate::{Instant, coding, limits};

/// The visits of a worker.
#[derive(Debug)]
pub(super) struct Visits {
    sequence: Arc<CompiledSequence>,
    /// Visitors per connection.
    per_connection: u32,
    visitors: Vec<Visitor>,
    timing: VisitTiming,
}

/// Whether the times of whole visits are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisitTiming {
    Recorded,
    /// In an open loop the schedule decides how long a visitor waits between two requests, so a
    /// visit has no time of its own.
    None,
}

/// A visitor, and its visit.
#[derive(Debug)]
struct Visitor {
    session: VisitorSession,
    /// Index of the next request, or of the request in flight. 0: no visit has begun.
    request: u16,
    /// Whether a request has started and not ended.
    is_waiting: bool,
    /// Intended start of the first request of the visit.
    visit_start: Instant,
    response: ReceivedParts,
}

/// The parts of a response that extractions need.
#[derive(Debug, Default)]
struct ReceivedParts {
    /// Message about the first extraction that failed; `None`: none failed.
    fault: Option<String>,
    body: Vec<u8>,
    /// Content codings of the body.
    codings: Vec<u8>,
}

impl Visits {
    pub(super) fn new(
        sequence: Arc<CompiledSequence>,
        connections: u32,
        per_connection: u32,
        timing: VisitTiming,
    ) -> Visits {
        let visitor = || Visitor {
            session: VisitorSession::new(sequence.values, sequence.transport),
            request: 0,
            is_waiting: false,
            visit_start: Instant::NEVER,
            response: ReceivedParts::default(),
        };
        let visitors = (0..connections * per_connection).map(|_| visitor()).collect();
        Visits { sequence, per_connection, visitors, timing }
    }

    /// Returns the exchange of the next request of a free visitor of a connection. Visits that have
    /// begun have precedence.
    pub(super) fn next_exchange(&mut self, conn: ConnId, intended: Instant) -> Exchange {
        let first = conn * self.per_connection;
        let mut free = (first..first + self.per_connection)
            .filter(|index| !self.visitors[*index as usize].is_waiting);
        let fresh = free.clone().next();
        let begun = free.find(|index| self.visitors[*index as usize].request > 0);
        let index = begun.or(fresh).expect("a slot with room should have a free visitor");
        let visitor = &mut self.visitors[index as usize];
        if visitor.request == 0 {
            visitor.session.clear();
            visitor.visit_start = intended;
        }
        visitor.is_waiting = true;
        Exchange { visitor: index, ..Exchange::new(intended, visitor.request) }
    }

    /// Returns the state with which the request of an exchange is rendered at `now`.
    pub(super) fn session(&mut self, exchange: &Exchange, now: Instant) -> &mut VisitorSession {
        let request = &self.sequence.requests[usize::from(exchange.request)];
        let session = &mut self.visitors[exchange.visitor as usize].session;
        session.begin_request(exchange.request, &request.host, now);
        session
    }

    pub(super) fn needs_fields(&self, request: u16) -> bool {
        self.sequence.needs_fields(request)
    }

    /// Takes cookies and values from the head of a response.
    pub(super) fn on_head<'a, F>(
        &mut self,
        exchange: &Exchange,
        now: Instant,
        fields: impl Fn() -> F,
    ) where
        F: Iterator<Item = (&'a [u8], &'a [u8])>,
    {
        let request = &self.sequence.requests[usize::from(exchange.request)];
        let Visitor { session, response, .. } = &mut self.visitors[exchange.visitor as usize];
        response.clear();
        if self.sequence.cookies == CookiePolicy::Keep {
            session.receive_cookies(now, &fields);
        }
        for extraction in &request.extractions {
            match extraction.read_header(fields()) {
                None => response.codings = coding::codings(fields()),
                Some(Ok(value)) => session.store_value(extraction.value, value),
                Some(Err(fault)) => drop(response.fault.get_or_insert(fault)),
            }
        }
    }

    /// Stores a part of the body of a response if a value will be extracted from it.
    #[inline]
    pub(super) fn on_body(&mut self, exchange: &Exchange, data: &[u8]) {
        let request = &self.sequence.requests[usize::from(exchange.request)];
        let Some(first) = request.extractions.iter().find(|e| e.needs_body()) else { return };
        let response = &mut self.visitors[exchange.visitor as usize].response;
        if response.fault.is_some() {
            return;
        }
        if response.body.len() + data.len() > limits::EXTRACTED_BODY_BYTES {
            response.fault = Some(first.fault(TOO_LONG));
            return;
        }
        response.body.extend_from_slice(data);
    }

    /// Extracts the values from a complete response. A response that met its expectations, but has
    /// no such value, is incorrect.
    pub(super) fn extract(
        &mut self,
        exchange: &Exchange,
        verdict: ResponseVerdict,
    ) -> ResponseVerdict {
        if verdict.outcome != Outcome::Ok {
            return verdict;
        }
        let request = &self.sequence.requests[usize::from(exchange.request)];
        match self.visitors[exchange.visitor as usize].extract(request) {
            Ok(()) => verdict,
            Err(fault) => ResponseVerdict {
                outcome: Outcome::ExtractionFailed,
                fault: Some(fault),
                ..verdict
            },
        }
    }

    /// Advances the visit of an exchange that has ended.
    pub(super) fn record_end(
        &mut self,
        exchange: &Exchange,
        outcome: Outcome,
        now: Instant,
        recorder: &mut Recorder,
    ) {
        let length = self.sequence.length();
        let visitor = &mut self.visitors[exchange.visitor as usize];
        visitor.is_waiting = false;
        let is_ok = outcome == Outcome::Ok;
        if is_ok && visitor.request + 1 < length {
            visitor.request += 1;
            return;
        }
        visitor.request = 0;
        if self.timing == VisitTiming::Recorded {
            recorder.record_page(visitor.visit_start, now, is_ok);
        }
    }

    /// Returns the intended starts of visits that have begun and not ended.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = Instant> + '_ {
        let is_recorded = self.timing == VisitTiming::Recorded;
        self.visitors
            .iter()
            .filter(move |visitor| is_recorded && (visitor.is_waiting || visitor.request > 0))
            .map(|visitor| visitor.visit_start)
    }
}

/// Reason for a body that exceeds [`limits::EXTRACTED_BODY_BYTES`].
const TOO_LONG: &str = "the body is longer than 1 MiB";

impl Visitor {
    /// Extracts the values from the stored body. `Err`: a message for users.
    fn extract(&mut self, request: &SequenceRequest) -> Result<(), String> {
        let Visitor { session, response, .. } = self;
        if let Some(fault) = response.fault.take() {
            return Err(fault);
        }
        let body = StoredText { bytes: &response.body, codings: &response.codings };
        let from_body = request.extractions.iter().filter(|extraction| extraction.needs_body());
        extract_from_body(from_body, body, |index, value| session.store_value(index, value))
    }
}

impl ReceivedParts {
    /// Clears the parts for the next response. Keeps only little memory.
    fn clear(&mut self) {
        self.fault = None;
        self.body.clear();
        self.body.shrink_to(limits::RETAINED_BODY_BYTES);
        self.codings.clear();
    }
}
