//! Observations of the generator per interval of a load, because rates and curves are computed from
//! intervals.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::{Outcome, Outcomes};
use crate::times::Times;

/// Maximum number of intervals of a load that are recorded separately. With more intervals,
/// neighbours are joined in pairs, so that a load of any length needs constant memory. Intervals in
/// a live stream are not joined.
pub const MAX_INTERVALS: usize = 1024;

/// Intervals per slice of loads that take turns. Comparisons exclude the first interval of each
/// slice, because it includes the change of turns.
pub const INTERVALS_PER_SLICE: u64 = 4;

/// The part of a trial to which an instant belongs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Warmup,
    Measured,
    /// After the measured window: no new requests start, and those in flight may still end.
    Drain,
}

/// Distributions of the times of correct responses. docs/terminology.md defines each. Exchanges
/// without a correct response are counted among the outcomes, and their ages are in
/// [`crate::load::UnansweredAges`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExchangeTimes {
    /// done − intended.
    pub response: Times,
    /// done − sent.
    pub service: Times,
    /// sent − intended.
    pub send_lag: Times,
    /// first byte − sent.
    pub first_byte: Times,
}

impl ExchangeTimes {
    pub fn add(&mut self, other: &ExchangeTimes) {
        self.response.add(&other.response);
        self.service.add(&other.service);
        self.send_lag.add(&other.send_lag);
        self.first_byte.add(&other.first_byte);
    }
}

/// Outcomes of the requests of one name, in a load with several requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestShare {
    /// Outcomes of exchanges whose times are recorded: exchanges of the interval's phase, and of
    /// the measured window.
    pub outcomes: Outcomes,
    /// Correct responses to requests of an earlier phase, which are among the interval's `carried`.
    pub carried_ok: u64,
    /// Response times of correct responses.
    pub response: Times,
    /// Service times of correct responses.
    pub service: Times,
    /// Requests of this name without an outcome: they were dropped, or had no response at the end.
    pub never_ended: u64,
    /// Longest age of a request of this name that ended without a correct response, nanoseconds.
    pub longest_failure_ns: u64,
}

impl RequestShare {
    fn add(&mut self, other: &RequestShare) {
        self.outcomes.add(&other.outcomes);
        self.carried_ok += other.carried_ok;
        self.response.add(&other.response);
        self.service.add(&other.service);
        self.never_ended += other.never_ended;
        self.longest_failure_ns = self.longest_failure_ns.max(other.longest_failure_ns);
    }
}

/// Complete responses that arrived before their request had been sent in full: the server did not
/// read the whole request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyResponses {
    pub responses: u64,
    /// Bytes of these requests that had not been sent when the response arrived.
    pub unsent_bytes: u64,
    /// Number of these responses that refuse the request: a status of 400 or above. `None`: not
    /// counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusals: Option<u64>,
}

impl EarlyResponses {
    pub fn add(&mut self, other: &EarlyResponses) {
        self.refusals = match self.responses {
            0 => other.refusals,
            // The sum is known only if both counts are known.
            _ => self.refusals.zip(other.refusals).map(|(one, two)| one + two),
        };
        self.responses += other.responses;
        self.unsent_bytes += other.unsent_bytes;
    }
}

/// Complete responses whose bodies the generator could not store, because its memory for bodies
/// was full. The server is not the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnstoredBodies {
    /// Responses that were not checked in full for this reason. Their status and headers were
    /// checked, and their exact body if it is not encoded.
    pub unchecked: u64,
    /// Responses from which no value was extracted for this reason. Their visits ended.
    pub unextracted: u64,
}

impl UnstoredBodies {
    pub fn add(&mut self, other: &UnstoredBodies) {
        self.unchecked += other.unchecked;
        self.unextracted += other.unextracted;
    }
}

/// CPU use of one worker thread in an interval, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerUse {
    /// CPU time, spinning included.
    pub run_ns: u64,
    /// Time in which the thread was idle and polled instead of sleeping, to avoid late wake-ups.
    pub spun_ns: u64,
}

impl WorkerUse {
    fn add(&mut self, other: &WorkerUse) {
        self.run_ns += other.run_ns;
        self.spun_ns += other.spun_ns;
    }
}

/// Observations of one worker, or of all workers merged, between two instants.
///
/// An exchange belongs to the interval in which it *ended*, and to the phase in which it was
/// *intended*. In a closed loop, exchanges that are in flight when the measured window opens are
/// carried into the window and belong to it. If an exchange ends in a later phase than its own, its
/// times are recorded only if its own phase is the measured window. Other exchanges of an earlier
/// phase are only counted, in `carried`. So are exchanges that were intended after the window, in
/// `continued`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub phase: Phase,
    /// Nanoseconds since the load began.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Exchanges of this phase that ended in the interval; in `Drain`, exchanges of the measured
    /// window.
    pub outcomes: Outcomes,
    /// Exchanges of an earlier phase that ended in the interval; in `Drain`, exchanges intended
    /// before the measured window.
    pub carried: Outcomes,
    /// Exchanges intended after the measured window, with which a visit or a page of the window
    /// continued. Only in `Drain`.
    #[serde(default, skip_serializing_if = "Outcomes::is_empty")]
    pub continued: Outcomes,
    pub started: u64,
    pub dropped: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub body_received: u64,
    /// ∫ exchanges in flight dt over the interval, in nanoseconds.
    pub in_flight_ns: u64,
    pub times: ExchangeTimes,
    /// Longest age of an exchange of this phase that ended in the interval without a correct
    /// response, nanoseconds; 0: no such exchange.
    pub longest_failure_ns: u64,
    pub connect: Times,
    pub tls_handshake: Times,
    /// Window stalls of HTTP/2 request bodies: one time per body, from its first wait for a
    /// flow-control window until the remainder may be sent.
    pub window_stall: Times,
    /// Page times: from the intended start of a page's document to the end of its last resource.
    /// Only complete pages have one. A load of sequences has its visits here, and in the counts of
    /// pages below: from the intended start of the first request to the end of the last one.
    pub page: Times,
    /// Number of pages that became complete in the interval, regardless of when they began.
    pub pages_completed: u64,
    /// Pages with a failed request.
    pub pages_failed: u64,
    /// Pages that were not complete when the load ended.
    pub pages_unfinished: u64,
    /// Busy time of each iteration of the generator's event loop.
    pub loop_lag: Times,
    /// Delay with which each timed sleep ended.
    pub wake_lag: Times,
    /// Gaps between intended times of requests that followed each other on one worker. Open loop
    /// only.
    pub intended_gap: Times,
    /// Gaps between the instants at which the requests of `intended_gap` were handed to the kernel.
    /// Gaps between requests of different workers are not recorded.
    pub send_gap: Times,
    /// Response times by the kernel's timestamps: receipt of the last byte − intended. Empty: these
    /// timestamps were not requested.
    pub kernel_response: Times,
    /// By request name, in the order of the workload's requests; empty: only one request.
    pub by_request: Vec<RequestShare>,
    /// Responses that were checked in full. The other responses were checked for status and exact
    /// body.
    pub checked: u64,
    /// `None`: the bodies of all responses that needed it were stored, or the archive is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstored_bodies: Option<UnstoredBodies>,
    /// Complete responses that arrived before their request had been sent in full. `None`: no such
    /// response, or the archive is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_early: Option<EarlyResponses>,
    /// Number of open connections at the end of the interval.
    pub connections_open: u64,
    /// By number of the worker thread.
    pub workers: BTreeMap<u32, WorkerUse>,
}

impl Interval {
    /// Returns the number of correct responses that arrived within the interval, regardless of when
    /// they were requested.
    #[must_use]
    pub fn correct_responses(&self) -> u64 {
        self.all_outcomes().map(|outcomes| outcomes.get(Outcome::Ok)).iter().sum()
    }

    /// Returns the number of complete responses that arrived within the interval, correct or not,
    /// regardless of when they were requested.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.all_outcomes().map(Outcomes::completed_count).iter().sum()
    }

    /// Returns the outcomes of all exchanges that ended in the interval.
    #[must_use]
    pub fn all_outcomes(&self) -> [&Outcomes; 3] {
        [&self.outcomes, &self.carried, &self.continued]
    }

    #[must_use]
    pub fn new(phase: Phase, start_ns: u64, end_ns: u64) -> Self {
        Interval {
            phase,
            start_ns,
            end_ns,
            outcomes: Outcomes::default(),
            carried: Outcomes::default(),
            continued: Outcomes::default(),
            started: 0,
            dropped: 0,
            bytes_sent: 0,
            bytes_received: 0,
            body_received: 0,
            in_flight_ns: 0,
            times: ExchangeTimes::default(),
            longest_failure_ns: 0,
            connect: Times::new(),
            tls_handshake: Times::new(),
            window_stall: Times::new(),
            page: Times::new(),
            pages_completed: 0,
            pages_failed: 0,
            pages_unfinished: 0,
            loop_lag: Times::new(),
            wake_lag: Times::new(),
            intended_gap: Times::new(),
            send_gap: Times::new(),
            kernel_response: Times::new(),
            by_request: Vec::new(),
            checked: 0,
            unstored_bodies: None,
            answered_early: None,
            connections_open: 0,
            workers: BTreeMap::new(),
        }
    }

    /// Adds the observations of another worker in the same interval, which has the same phase and
    /// start. The later end is used, because a load that ends with its last response ends at
    /// different times on different workers.
    pub fn merge(&mut self, other: &Interval) {
        assert_eq!(
            (self.phase, self.start_ns),
            (other.phase, other.start_ns),
            "merged intervals should have the same phase and start"
        );
        self.end_ns = self.end_ns.max(other.end_ns);
        self.connections_open += other.connections_open;
        self.add_counts(other);
    }

    /// Adds the next interval of the same phase, so that both become one.
    pub fn extend(&mut self, next: &Interval) {
        assert!(
            self.phase == next.phase && self.end_ns <= next.start_ns,
            "the next interval should follow in the same phase"
        );
        self.end_ns = next.end_ns;
        self.connections_open = next.connections_open;
        self.add_counts(next);
    }

    /// Adds the drain of another worker. The merged drain lasts from the first start to the last
    /// end, because the connections of a worker stay open after its drain.
    pub fn merge_drain(&mut self, other: &Interval) {
        assert_eq!((self.phase, other.phase), (Phase::Drain, Phase::Drain), "only drains merge");
        self.start_ns = self.start_ns.min(other.start_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.connections_open += other.connections_open;
        self.add_counts(other);
    }

    fn add_counts(&mut self, other: &Interval) {
        self.outcomes.add(&other.outcomes);
        self.carried.add(&other.carried);
        self.continued.add(&other.continued);
        self.started += other.started;
        self.dropped += other.dropped;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.body_received += other.body_received;
        self.in_flight_ns += other.in_flight_ns;
        self.times.add(&other.times);
        self.longest_failure_ns = self.longest_failure_ns.max(other.longest_failure_ns);
        self.connect.add(&other.connect);
        self.tls_handshake.add(&other.tls_handshake);
        self.window_stall.add(&other.window_stall);
        self.page.add(&other.page);
        self.pages_completed += other.pages_completed;
        self.pages_failed += other.pages_failed;
        self.pages_unfinished += other.pages_unfinished;
        self.loop_lag.add(&other.loop_lag);
        self.wake_lag.add(&other.wake_lag);
        self.intended_gap.add(&other.intended_gap);
        self.send_gap.add(&other.send_gap);
        self.kernel_response.add(&other.kernel_response);
        self.checked += other.checked;
        if let Some(unstored) = other.unstored_bodies {
            self.unstored_bodies.get_or_insert_default().add(&unstored);
        }
        if let Some(early) = other.answered_early {
            self.answered_early.get_or_insert_default().add(&early);
        }
        for (number, used) in &other.workers {
            self.workers.entry(*number).or_default().add(used);
        }
        self.by_request
            .resize(self.by_request.len().max(other.by_request.len()), RequestShare::default());
        self.by_request.iter_mut().zip(&other.by_request).for_each(|(a, b)| a.add(b));
    }
}
