//! Visits: sequences of requests that visitors send in order.
//!
//! A *visitor* has a connection of HTTP/1.1 for itself, or a stream of HTTP/2. A *visit* is one
//! pass through the sequence. Then the visitor starts anew, without values and cookies. A visit
//! whose request fails ends at once, because later requests may need what the response lacks.
//!
//! In a closed loop the visitor sends its next request when the response to the last one is
//! complete. In an open loop each arrival is one request: the next one of a visitor that is free.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use dyno_model::outcome::Outcome;

use crate::driver::ConnId;
use crate::exchange::Exchange;
use crate::expect::{Omitted, ResponseVerdict};
use crate::extraction::{StoredText, extract_from_body};
use crate::recorder::Recorder;
use crate::sequence::{AfterFailure, CompiledSequence, CookiePolicy, SequenceRequest};
use crate::session::VisitorSession;
use crate::stored_body::{BodyBudget, NotStored, StoredBody};
use crate::{Instant, coding, limits};

/// The visits of a worker.
#[derive(Debug)]
pub(crate) struct Visits {
    sequence: Arc<CompiledSequence>,
    /// Visitors per connection.
    per_connection: u32,
    /// Visitors of all connections, in the order in which they first sent a request.
    visitors: Vec<Visitor>,
    /// The visitors of each connection that have no request in flight.
    free: Vec<FreeVisitors>,
    timing: VisitTiming,
}

/// Whether the times of whole visits are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VisitTiming {
    Recorded,
    /// In an open loop the schedule decides how long a visitor waits between two requests, so a
    /// visit has no time of its own.
    None,
}

/// Visitors of one connection that have no request in flight, by index.
#[derive(Debug, Default)]
struct FreeVisitors {
    /// Visitors whose visit has begun. The first one has waited for the longest.
    begun: VecDeque<u32>,
    /// Visitors whose visit is over.
    fresh: Vec<u32>,
    /// Number of visitors of the connection, with those that wait for a response.
    created: u32,
}

/// A visitor, and its visit.
#[derive(Debug)]
struct Visitor {
    conn: ConnId,
    session: VisitorSession,
    /// Index of the next request, or of the request in flight. 0: the first request of a visit.
    request: u16,
    /// Whether a request has started and not ended.
    is_waiting: bool,
    /// Whether the visit ends with the request in flight, because the generator could not store the
    /// body of its response.
    is_cut_off: bool,
    /// Intended start of the first request of the visit.
    visit_start: Instant,
    response: ReceivedParts,
}

/// The parts of a response that extractions need.
#[derive(Debug)]
struct ReceivedParts {
    /// Message about the first extraction that failed; `None`: none failed.
    fault: Option<String>,
    /// Whether the budget had no bytes left for the body.
    is_over_budget: bool,
    body: StoredBody,
    /// Content codings of the body.
    codings: Vec<u8>,
}

impl Visits {
    pub(crate) fn new(
        sequence: Arc<CompiledSequence>,
        connections: u32,
        per_connection: u32,
        timing: VisitTiming,
    ) -> Visits {
        let free = (0..connections).map(|_| FreeVisitors::default()).collect();
        Visits { sequence, per_connection, visitors: Vec::new(), free, timing }
    }

    /// Returns the exchange of the next request of a free visitor of a connection. Visits that have
    /// begun have precedence.
    pub(crate) fn next_exchange(&mut self, conn: ConnId, intended: Instant) -> Exchange {
        let free = &mut self.free[conn as usize];
        let index = match free.begun.pop_front().or_else(|| free.fresh.pop()) {
            Some(index) => index,
            None => self.new_visitor(conn),
        };
        let visitor = &mut self.visitors[index as usize];
        if visitor.request == 0 {
            visitor.session.clear();
            visitor.visit_start = intended;
        }
        visitor.is_waiting = true;
        Exchange { visitor: index, ..Exchange::new(intended, visitor.request) }
    }

    /// Whether a connection has a visit that has begun and waits for nothing but its next request.
    /// In an open loop the next request is an arrival.
    pub(crate) fn has_next_step(&self, conn: ConnId) -> bool {
        self.timing == VisitTiming::Recorded && !self.free[conn as usize].begun.is_empty()
    }

    /// Creates a visitor of a connection. A server may allow fewer streams than the load, so a
    /// visitor is created only when it is needed.
    #[cold]
    fn new_visitor(&mut self, conn: ConnId) -> u32 {
        let free = &mut self.free[conn as usize];
        assert!(free.created < self.per_connection, "a slot with room should have a free visitor");
        free.created += 1;
        let index = u32::try_from(self.visitors.len()).expect("memory should end before indexes");
        self.visitors.push(Visitor {
            conn,
            session: VisitorSession::new(self.sequence.values, self.sequence.transport),
            request: 0,
            is_waiting: false,
            is_cut_off: false,
            visit_start: Instant::NEVER,
            response: ReceivedParts::new(self.sequence.budget.clone()),
        });
        index
    }

    /// Returns the state with which the request of an exchange is rendered at `now`.
    pub(crate) fn session(&mut self, exchange: &Exchange, now: Instant) -> &mut VisitorSession {
        let request = &self.sequence.requests[usize::from(exchange.request)];
        let session = &mut self.visitors[exchange.visitor as usize].session;
        session.begin_request(exchange.request, &request.host, now);
        session
    }

    pub(crate) fn needs_fields(&self, request: u16) -> bool {
        self.sequence.needs_fields(request)
    }

    /// Takes cookies and values from the head of a response.
    pub(crate) fn on_head<'a, F>(
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
            session.receive_cookies(self.sequence.epoch_s, now, &fields);
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
    pub(crate) fn on_body(&mut self, exchange: &Exchange, data: &[u8]) {
        let request = &self.sequence.requests[usize::from(exchange.request)];
        let Some(first) = request.extractions.iter().find(|e| e.needs_body()) else { return };
        let response = &mut self.visitors[exchange.visitor as usize].response;
        if response.fault.is_some() || response.is_over_budget {
            return;
        }
        if let Err(reason) = response.body.push(data, limits::EXTRACTED_BODY_BYTES) {
            match reason {
                NotStored::TooLong => response.fault = Some(first.fault(TOO_LONG)),
                NotStored::OverBudget => response.is_over_budget = true,
            }
            // Other visitors can store their bodies.
            response.body.clear(limits::RETAINED_BODY_BYTES);
        }
    }

    /// Extracts the values from a complete response. A response that met its expectations, but has
    /// no such value, is incorrect. If the generator could not store the body, the response stays
    /// correct, and its visit ends.
    pub(crate) fn extract(
        &mut self,
        exchange: &Exchange,
        verdict: ResponseVerdict,
    ) -> ResponseVerdict {
        if verdict.outcome != Outcome::Ok {
            return verdict;
        }
        let request = &self.sequence.requests[usize::from(exchange.request)];
        match self.visitors[exchange.visitor as usize].extract(request) {
            Ok(Extracted::All) => verdict,
            Ok(Extracted::Nothing) => ResponseVerdict {
                omitted: Omitted { is_unextracted: true, ..verdict.omitted },
                ..verdict
            },
            Err(fault) => ResponseVerdict {
                outcome: Outcome::ExtractionFailed,
                fault: Some(fault),
                ..verdict
            },
        }
    }

    /// Advances the visit of an exchange that has ended. Returns whether the load goes on.
    pub(crate) fn record_end(
        &mut self,
        exchange: &Exchange,
        outcome: Outcome,
        now: Instant,
        recorder: &mut Recorder,
    ) -> ControlFlow<()> {
        let length = self.sequence.length();
        let visitor = &mut self.visitors[exchange.visitor as usize];
        let free = &mut self.free[visitor.conn as usize];
        visitor.is_waiting = false;
        let is_cut_off = std::mem::take(&mut visitor.is_cut_off);
        let is_ok = outcome == Outcome::Ok && !is_cut_off;
        if is_ok && visitor.request + 1 < length {
            visitor.request += 1;
            free.begun.push_back(exchange.visitor);
            return ControlFlow::Continue(());
        }
        visitor.request = 0;
        // A body whose response failed is not needed.
        visitor.response.clear();
        free.fresh.push(exchange.visitor);
        // The server has not failed a visit that the generator cut off.
        if self.timing == VisitTiming::Recorded && !is_cut_off {
            recorder.record_page(visitor.visit_start, now, is_ok);
        }
        if !is_ok && self.sequence.after_failure == AfterFailure::EndOfLoad {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Returns the intended starts of visits that wait for a response. A visit that waits for no
    /// response was ended by dyno, with the last of a given number of requests, so its server is
    /// not late.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = Instant> + '_ {
        let is_recorded = self.timing == VisitTiming::Recorded;
        self.visitors
            .iter()
            .filter(move |visitor| is_recorded && visitor.is_waiting)
            .map(|visitor| visitor.visit_start)
    }
}

/// Takes cookies and values from the head of a response, if its request belongs to a visit.
#[inline]
pub(crate) fn on_head<'a, F>(
    visits: &mut Option<Box<Visits>>,
    exchange: &Exchange,
    now: Instant,
    fields: impl Fn() -> F,
) where
    F: Iterator<Item = (&'a [u8], &'a [u8])>,
{
    if let Some(visits) = visits {
        visits.on_head(exchange, now, fields);
    }
}

/// Stores a part of the body of a response, if its request belongs to a visit that needs it.
#[inline]
pub(crate) fn on_body(visits: &mut Option<Box<Visits>>, exchange: &Exchange, data: &[u8]) {
    if let Some(visits) = visits {
        visits.on_body(exchange, data);
    }
}

/// Reason for a body that exceeds [`limits::EXTRACTED_BODY_BYTES`].
const TOO_LONG: &str = "the body is longer than 1 MiB";

/// Result of the extractions from a response.
enum Extracted {
    All,
    /// The generator could not store the body.
    Nothing,
}

impl Visitor {
    /// Extracts the values from the stored body. `Err`: a message for users.
    fn extract(&mut self, request: &SequenceRequest) -> Result<Extracted, String> {
        let Visitor { session, response, is_cut_off, .. } = self;
        if let Some(fault) = response.fault.take() {
            return Err(fault);
        }
        if std::mem::take(&mut response.is_over_budget) {
            *is_cut_off = true;
            return Ok(Extracted::Nothing);
        }
        let body = StoredText { bytes: response.body.bytes(), codings: &response.codings };
        let from_body = request.extractions.iter().filter(|extraction| extraction.needs_body());
        let extracted =
            extract_from_body(from_body, body, |index, value| session.store_value(index, value));
        // Many visitors may wait for their next response.
        response.clear();
        extracted.map(|()| Extracted::All)
    }
}

impl ReceivedParts {
    const fn new(budget: BodyBudget) -> ReceivedParts {
        let body = StoredBody::new(budget);
        ReceivedParts { fault: None, is_over_budget: false, body, codings: Vec::new() }
    }

    /// Clears the parts for the next response. Keeps only little memory.
    fn clear(&mut self) {
        self.fault = None;
        self.is_over_budget = false;
        self.body.clear(limits::RETAINED_BODY_BYTES);
        self.codings.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cookies::CookieTransport;
    use crate::extraction::{CompiledExtraction, ValuePlace, ValueSource};
    use crate::recorder::Window;

    fn visits(connections: u32, per_connection: u32) -> Visits {
        let step = || SequenceRequest { host: Arc::from(&b"h"[..]), extractions: Vec::new() };
        let sequence = CompiledSequence {
            requests: vec![step(), step()],
            values: 0,
            cookies: CookiePolicy::Ignore,
            transport: CookieTransport::Plain,
            after_failure: AfterFailure::NewVisit,
            budget: BodyBudget::new(3000),
            epoch_s: 0,
        };
        Visits::new(Arc::new(sequence), connections, per_connection, VisitTiming::None)
    }

    fn recorder() -> Recorder {
        let window = Window { warmup_ns: 0, duration_ns: None, interval_ns: 1, drain_ns: 0 };
        Recorder::new(Instant::default(), window, 2)
    }

    #[test]
    fn visitors_are_created_when_needed() {
        // The product is above 32 bits.
        let mut visits = visits(3, u32::MAX);
        let now = Instant::default();
        let exchanges = [2, 0, 2].map(|conn| visits.next_exchange(conn, now));
        assert_eq!(exchanges.map(|exchange| exchange.visitor), [0, 1, 2]);
        let conns: Vec<ConnId> = visits.visitors.iter().map(|visitor| visitor.conn).collect();
        assert_eq!(conns, [2, 0, 2]);
    }

    #[test]
    fn bodies_of_all_visitors_share_one_budget() {
        let mut visits = visits(3, 1);
        let extraction = CompiledExtraction {
            name: "t".into(),
            value: 0,
            source: ValueSource::Body,
            pattern: None,
            place: ValuePlace::Body,
        };
        let mut sequence = CompiledSequence::clone(&visits.sequence);
        sequence.requests[0].extractions = vec![extraction];
        sequence.values = 1;
        visits.sequence = Arc::new(sequence);
        let (outcome, omitted) = (Outcome::Ok, Omitted::default());
        let verdict = ResponseVerdict { status: 200, outcome, fault: None, omitted };
        let exchanges = [0, 1, 2].map(|conn| visits.next_exchange(conn, Instant::default()));
        exchanges.iter().for_each(|exchange| visits.on_body(exchange, &[b'x'; 1400]));
        assert_eq!(visits.sequence.budget.bytes_left(), 200);
        let third = visits.extract(&exchanges[2], verdict.clone());
        assert_eq!((third.outcome, &third.fault), (Outcome::Ok, &None));
        assert!(third.omitted.is_unextracted, "no value was extracted");
        let mut recorder = recorder();
        let now = Instant::default();
        let next = visits.record_end(&exchanges[2], third.outcome, now, &mut recorder);
        assert_eq!(next, ControlFlow::Continue(()));
        assert_eq!(visits.next_exchange(2, now).request, 0, "the visit ended");
        assert_eq!(visits.extract(&exchanges[0], verdict.clone()).outcome, Outcome::Ok);
        assert_eq!(visits.sequence.budget.bytes_left(), 1600);
        let budget = visits.sequence.budget.clone();
        drop(visits);
        assert_eq!(budget.bytes_left(), 3000, "all bytes are returned to the budget");
    }

    #[test]
    fn begun_visits_have_precedence_in_order_of_waiting() {
        let (mut visits, mut recorder) = (visits(1, 4), recorder());
        let now = Instant::default();
        let [a, b, c] = [0; 3].map(|_| visits.next_exchange(0, now));
        for (exchange, outcome) in [(&c, Outcome::Timeout), (&b, Outcome::Ok), (&a, Outcome::Ok)] {
            let next = visits.record_end(exchange, outcome, now, &mut recorder);
            assert_eq!(next, ControlFlow::Continue(()));
        }
        let next = [0; 4].map(|_| visits.next_exchange(0, now));
        assert_eq!(next.map(|exchange| exchange.visitor), [b.visitor, a.visitor, c.visitor, 3]);
        assert_eq!(next.map(|exchange| exchange.request), [1, 1, 0, 0]);
    }
}
