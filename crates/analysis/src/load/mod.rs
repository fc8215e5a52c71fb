//! Computes the result of one load from its record. Its format is `dyno.load/1`.
//!
//! Caveats are added later, by [`crate::verdict`].

mod config;
mod generator_use;
pub mod headroom;
mod http2;
pub(crate) mod offered;
pub mod percentile_value;
mod percentiles;
mod sums;
#[cfg(test)]
mod tests;
mod visits;

use std::collections::BTreeMap;

use dyno_model::interval::RequestShare;
use dyno_model::load::{Connections, Continues, TcpCounters, Timeouts, TlsUse, UnansweredAges};
use dyno_model::outcome::{self, Outcome, Outcomes};
use dyno_model::plan::{self, LoadModel};
pub use dyno_model::trial::Ceiling;
use dyno_model::{Interval, LoadRecord, Phase, Times};
use schemars::JsonSchema;
use serde::Serialize;

use crate::caveat::Caveat;
pub use config::{LoadConfig, MixedRequest};
pub use generator_use::GeneratorUse;
pub use headroom::GeneratorHeadroom;
pub use http2::{HeaderBytes, Http2Result, StreamCounts};
use percentile_value::LoadUnanswered;
pub use percentiles::{Percentiles, SAMPLES_ABOVE, UnansweredRequests, value_at_quantile};
use sums::{WindowSums, per_second, times_after_warmup};
pub use sums::{response_times, responses_per_second};
pub use visits::{GroupSummary, PageSummary, VisitSummary};

pub const SCHEMA: &str = "dyno.load/1";

/// The result of one load, with the caveats about it. docs/terminology.md defines the times and
/// counts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LoadResult {
    pub schema: &'static str,
    pub valid: bool,
    pub caveats: Vec<Caveat>,
    pub config: LoadConfig,
    /// Length of the measured window.
    pub duration_s: f64,
    pub exchanges: Exchanges,
    /// Outcomes of the exchanges of the measured window.
    #[serde(serialize_with = "outcome::serialize_all")]
    #[schemars(with = "BTreeMap<String, u64>")]
    pub outcomes: Outcomes,
    /// Outcomes of the exchanges after the window with which its visits and pages continued. No
    /// other number includes them. `null`: no such exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, u64>>")]
    pub continued: Option<Outcomes>,
    /// Responses that met every expectation and arrived within the window, per second.
    pub throughput_rps: f64,
    pub bytes: Bytes,
    pub response_time_us: Percentiles,
    /// Which percentiles of the response time lie among the unanswered.
    pub response_unanswered: LoadUnanswered,
    pub service_time_us: Percentiles,
    pub send_lag_us: Percentiles,
    pub first_byte_us: Percentiles,
    /// Ages of the exchanges without a correct response, by outcome: from intended to their end, or
    /// to the end of the load.
    pub unanswered_us: BTreeMap<String, Percentiles>,
    /// Time to connect, over the whole load.
    pub connect_us: Percentiles,
    /// TLS handshake time, over the whole load.
    pub tls_handshake_us: Percentiles,
    pub connections: Connections,
    pub client: GeneratorUse,
    pub tcp: Tcp,
    /// `null`: HTTP/2 was neither requested nor used.
    pub http2: Option<Http2Result>,
    /// `null`: no pages were loaded.
    pub pages: Option<PageSummary>,
    /// Absent: no sequence, or an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visits: Option<VisitSummary>,
    pub in_flight: InFlight,
    /// Protocol violations in responses, with counts.
    pub protocol_errors: BTreeMap<String, u64>,
    /// Failures of full checks, with counts.
    pub unexpected: BTreeMap<String, u64>,
    /// Connections that were lost or could not be opened, by the outcome of the oldest exchange on
    /// them.
    pub connection_failures: BTreeMap<String, u64>,
    /// Responses that were checked in full.
    pub checked: u64,
    /// `None` without TLS.
    pub tls: Option<TlsUse>,
    /// Evenness of the sent requests; `None` in a closed loop, which has no schedule.
    pub gaps: Option<GapsResult>,
    /// One entry per request of a mix; empty if there is only one, or if the mix is too large to be
    /// recorded by request.
    pub requests: Vec<RequestResult>,
    /// Response time by the kernel's receive stamps. A response without a stamp is included as
    /// unanswered. `None`: stamps were not requested, or no response had one.
    pub kernel_response_time_us: Option<Percentiles>,
    /// Highest throughput of this generator on this machine (`dyno calibrate`); `None`: unknown.
    pub ceiling: Option<Ceiling>,
    /// Response time by quantile, for charts: `[quantile, µs]`. It ends where too few samples are
    /// left.
    pub spectrum_us: Vec<(f64, f64)>,
    pub intervals: Vec<IntervalResult>,
    /// Address of all connections; `None`: not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Progress of responses when their requests timed out, over the whole load; `None`: none timed
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
    /// `None`: no request expected 100 (Continue).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<ContinuesResult>,
}

/// Requests with `Expect: 100-continue` and a body, over the whole load.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ContinuesResult {
    pub asked: u64,
    /// The server sent 100, and the body was sent after it.
    pub continued: u64,
    /// No 100 came within a second, and the body was sent without it.
    pub waited_in_vain: u64,
    /// A final response came instead, and the body was not sent.
    pub answered_instead: u64,
    /// Final responses of `answered_instead` with status 417.
    pub refused: u64,
    /// Times from sending a head to its 100.
    pub wait_us: Percentiles,
}

impl ContinuesResult {
    fn new(continues: &Continues) -> ContinuesResult {
        let Continues { asked, continued, waited_in_vain, answered_instead, refused, ref wait } =
            *continues;
        let wait_us = Percentiles::new(wait);
        ContinuesResult { asked, continued, waited_in_vain, answered_instead, refused, wait_us }
    }
}

/// The books of the measured window: counts of exchanges that were intended in it
/// (docs/terminology.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Exchanges {
    /// In flight when the window of a closed loop opened: `carried_in + scheduled = started +
    /// dropped`.
    pub carried_in: u64,
    pub scheduled: u64,
    /// Sent, or waiting for a connection: `started = completed + failed + in_flight_at_end`.
    pub started: u64,
    /// With a complete response, correct or incorrect.
    pub completed: u64,
    /// Ended without a complete response.
    pub failed: u64,
    pub dropped: u64,
    pub in_flight_at_end: u64,
    /// Requests in flight at an early end of the load that had waited at most as long as the
    /// slowest correct response. They are counted neither as failed nor as lost.
    pub cut_off: u64,
    /// Complete responses to requests of the warm-up, which are not measured.
    pub warmup_completed: u64,
    /// Requests of the warm-up without a correct response. No other number includes them.
    pub warmup_failed: u64,
}

impl Exchanges {
    /// Returns the number of the window's exchanges: scheduled in it or carried into it.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.carried_in.saturating_add(self.scheduled)
    }

    /// Returns the sums of two loads.
    pub(crate) fn plus(&self, other: &Exchanges) -> Exchanges {
        Exchanges {
            carried_in: self.carried_in + other.carried_in,
            scheduled: self.scheduled + other.scheduled,
            started: self.started + other.started,
            completed: self.completed + other.completed,
            failed: self.failed + other.failed,
            dropped: self.dropped + other.dropped,
            in_flight_at_end: self.in_flight_at_end + other.in_flight_at_end,
            cut_off: self.cut_off + other.cut_off,
            warmup_completed: self.warmup_completed + other.warmup_completed,
            warmup_failed: self.warmup_failed + other.warmup_failed,
        }
    }

    /// Returns the number of exchanges in flight at the end, without those that an early end cut
    /// off.
    pub(crate) const fn unanswered(&self) -> u64 {
        self.in_flight_at_end - self.cut_off
    }

    /// Returns the number of the window's exchanges without a complete response: failed,
    /// unanswered, or dropped.
    #[must_use]
    pub const fn lost_count(&self) -> u64 {
        self.failed.saturating_add(self.without_outcome())
    }

    /// Returns the number of the window's exchanges that got no response and did not fail:
    /// unanswered, or dropped.
    pub(crate) const fn without_outcome(&self) -> u64 {
        self.unanswered().saturating_add(self.dropped)
    }
}

impl LoadResult {
    /// Returns the number of the window's requests without a correct response.
    #[must_use]
    pub fn failed_requests(&self) -> u64 {
        self.exchanges.lost_count() + self.outcomes.incorrect_count()
    }

    /// Returns the number of the window's requests that the server ended
    /// ([`Outcome::is_ended_by_peer`]).
    pub(crate) fn ended_by_server(&self) -> u64 {
        let ended = self.outcomes.iter().filter(|(outcome, _)| outcome.is_ended_by_peer());
        ended.map(|(_, requests)| requests).sum()
    }

    /// Returns the number of the window's requests that got no response because no local port was
    /// left to connect from. Requests that wait for a connection are included if most failures have
    /// this cause and connections are missing at the end.
    pub(crate) fn without_port(&self) -> u64 {
        let exhausted = self.outcomes.get(Outcome::AddressExhausted);
        let are_waiting = 2 * exhausted > self.exchanges.failed
            && self.connections.established < self.connections.asked;
        exhausted + if are_waiting { self.exchanges.without_outcome() } else { 0 }
    }

    /// Returns the share of the window's requests that got no correct response for another reason
    /// than a missing local port: 0 to 1.
    pub(crate) fn error_share_with_ports(&self) -> f64 {
        self.failed_requests_with_ports() as f64 / self.exchanges.due().max(1) as f64
    }

    /// Returns the number of the window's requests that got no correct response for another reason
    /// than a missing local port.
    pub(crate) fn failed_requests_with_ports(&self) -> u64 {
        self.failed_requests().saturating_sub(self.without_port())
    }

    /// Returns the number of requests that were sent again because the server closed an idle
    /// connection. A crash of the server looks the same. Requests of the warm-up are included.
    pub(crate) const fn repeated_after_idle(&self) -> u64 {
        self.connections.asked_again_idle
    }

    /// Returns the number of HTTP/2 requests that were sent again because the server ended
    /// connections with an error. A connection ends at most as many requests as it has streams, and
    /// the others were repeated for another reason. Requests of the warm-up are not included.
    pub(crate) fn repeated_after_http2_errors(&self) -> u64 {
        self.http2.as_ref().map_or(0, |http2| {
            let ended: u64 = http2.error_goaways().map(|(_, n)| n).sum();
            http2.retried.min(ended.saturating_mul(u64::from(self.config.streams)))
        })
    }

    /// Returns the number of requests of the window and of the warm-up.
    pub(crate) fn all_requests(&self) -> u64 {
        let exchanges = self.exchanges;
        exchanges.started + exchanges.warmup_completed + exchanges.warmup_failed
    }

    /// Returns a number of failed requests of the window, plus those that were sent again although
    /// the server may have crashed. Requests on idle connections are counted over the whole load.
    /// The window has the same share of them, because the time of each is unknown.
    pub(crate) fn with_repeated(&self, failed: u64) -> u64 {
        let (repeated, due) = (self.repeated_after_idle(), self.exchanges.due());
        let part = u128::from(repeated) * u128::from(due);
        let part = part.div_ceil(u128::from(self.all_requests().max(1)));
        // The part is at most `repeated`, so it is a `u64`.
        let part = part.min(u128::from(repeated)) as u64 + self.repeated_after_http2_errors();
        failed + part.min(due.saturating_sub(failed))
    }

    /// Returns the share of the window's requests without a correct response: 0 to 1.
    #[must_use]
    pub fn error_share(&self) -> f64 {
        self.failed_requests() as f64 / self.exchanges.due().max(1) as f64
    }
}

/// Bytes on the wire within the window, heads included, and bytes of bodies alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bytes {
    pub sent: u64,
    pub received: u64,
    pub body_received: u64,
    /// Complete responses, correct or incorrect, that arrived within the window, including
    /// responses to earlier requests. It is the divisor for bytes per response.
    pub responses: u64,
}

impl Bytes {
    /// Returns `bytes` per complete response; `None` without responses.
    #[must_use]
    pub fn per_response(&self, bytes: u64) -> Option<f64> {
        (self.responses > 0).then(|| bytes as f64 / self.responses as f64)
    }
}

/// Evenness of the sent requests. A coefficient of variation (standard deviation over mean) is 0
/// for even gaps and 1 for the gaps of a Poisson process. Gaps are between requests of the same
/// generator thread. With n threads, each thread sends every nth request of the schedule: its gaps
/// are n times as long, and vary by 1/√n in a Poisson process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GapsResult {
    pub intended_cv: Option<f64>,
    pub achieved_cv: Option<f64>,
    pub intended_us: Percentiles,
    pub achieved_us: Percentiles,
}

/// The results of one request of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RequestResult {
    pub name: String,
    pub weight: u32,
    pub throughput_rps: f64,
    /// Outcomes that occurred, with counts.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub outcomes: Outcomes,
    pub response_time_us: Percentiles,
    pub service_time_us: Percentiles,
}

/// TCP segments over the measured window. `None`: the kernel does not count them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Tcp {
    pub data_segments_in: Option<u64>,
    pub segments_in: Option<u64>,
    pub segments_out: Option<u64>,
    pub retransmits: Option<u64>,
    pub data_segments_per_response: Option<f64>,
    pub retransmits_per_million_responses: Option<f64>,
}

/// Both sides of Little's law (L = λ·W) over the measured window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InFlight {
    /// L: the time integral of the number in flight ÷ length of the window. It counts starts and
    /// ends of requests, without their times.
    pub mean: f64,
    /// λ·W: the sum of all times within the window ÷ its length. The times are those of correct
    /// responses and the ages of all others, from the distributions. A request that is missing in
    /// the distributions is also missing in this product. `null` in older archives, and if only the
    /// last level of a window is used.
    pub by_littles_law: Option<f64>,
    /// Largest error of `by_littles_law`, because histograms store three digits of each time.
    pub resolution: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct IntervalResult {
    pub phase: Phase,
    /// Since the load began.
    pub start_s: f64,
    pub end_s: f64,
    /// Requests started in this interval: sent, or waiting for a connection.
    pub started: u64,
    pub ok: u64,
    /// Exchanges that ended here without a correct response: failed, or with an incorrect response.
    pub failed: u64,
    /// Complete responses, correct or incorrect.
    #[serde(skip)]
    pub completed: u64,
    pub throughput_rps: f64,
    pub in_flight_mean: f64,
    pub response_time_us: Percentiles,
    /// Which percentiles of the response time lie among the unanswered.
    pub response_unanswered: LoadUnanswered,
    pub service_time_us: Percentiles,
    pub connections_open: u64,
    /// Requests that were dropped because too many were waiting for a connection.
    pub dropped: u64,
    /// Share of one CPU that the busiest generator thread used, without polling. `None`: unknown.
    pub busiest_thread_utilisation: Option<f64>,
}

/// Returns the response times of a load, and the window's requests without a correct response.
pub(crate) fn responses(record: &LoadRecord) -> (Times, UnansweredRequests) {
    let sums = WindowSums::new(record);
    (sums.times.response, sums.missing)
}

/// Computes the result of a load without caveats. Other modules use [`crate::verdict::load`].
#[must_use]
pub(crate) fn result(record: &LoadRecord, config: LoadConfig) -> LoadResult {
    let mut sums = WindowSums::new(record);
    if config.requests.is_some() {
        // The window ends with the last response. If a response came before its request was sent in
        // full, the rest of the request was sent in the drain.
        sums.bytes.sent += sums::bytes_sent_in_drain(record);
    }
    let response = &sums.times.response;
    let response_time_us = Percentiles::from_due(response, sums.missing).with_bounds(response);
    LoadResult {
        schema: SCHEMA,
        valid: true,
        caveats: Vec::new(),
        duration_s: sums.window_s,
        exchanges: exchanges(record),
        outcomes: sums.measured.clone(),
        continued: Some(sums.continued.clone()).filter(|outcomes| !outcomes.is_empty()),
        throughput_rps: per_second(sums.ok, sums.window_s),
        bytes: sums.bytes,
        response_unanswered: LoadUnanswered::new(&response_time_us),
        response_time_us,
        service_time_us: Percentiles::from_due(&sums.times.service, sums.missing_service),
        send_lag_us: Percentiles::new(&sums.times.send_lag),
        first_byte_us: Percentiles::new(&sums.times.first_byte),
        unanswered_us: record
            .unanswered
            .ages
            .iter()
            .map(|(n, ages)| (n.clone(), Percentiles::new(ages)))
            .collect(),
        connect_us: Percentiles::new(&Times::merge(record.intervals.iter().map(|i| &i.connect))),
        tls_handshake_us: Percentiles::new(&Times::merge(
            record.intervals.iter().map(|i| &i.tls_handshake),
        )),
        connections: record.connections,
        client: GeneratorUse::new(record, &sums),
        tcp: tcp(record.tcp.as_ref(), sums.responses),
        http2: http2::http2(record),
        pages: visits::pages(record, &config, sums.window_s),
        visits: visits::visits(record, &config, sums.window_s),
        in_flight: sums.in_flight,
        protocol_errors: record.protocol_errors.clone(),
        unexpected: record.unexpected.clone(),
        connection_failures: record.connection_failures.clone(),
        checked: sums.checked,
        tls: record.tls.clone(),
        address: record.address.clone(),
        continues: record.continues.as_ref().map(ContinuesResult::new),
        timeouts: Some(record.timeouts.clone()).filter(|timeouts| !timeouts.is_empty()),
        gaps: (config.model == LoadModel::Open).then(|| gaps(record)),
        requests: requests(record, &config, sums.window_s),
        kernel_response_time_us: kernel_response(record),
        ceiling: None,
        spectrum_us: spectrum(&sums.times.response, sums.missing.count),
        intervals: record.intervals.iter().map(interval_result).collect(),
        config,
    }
}

/// Whether a load is complete: all of its requests have ended, or its duration has passed.
#[must_use]
pub fn is_done(record: &LoadRecord, load: &plan::Load) -> bool {
    let (opens, closes) = record.window_ns;
    let books = record.books;
    // `in_flight_at_end` includes requests that are still queued.
    let has_all_requests =
        load.requests.is_some_and(|total| books.due() >= total && books.in_flight_at_end == 0);
    let has_full_window = !record.cut_short
        && load.set_duration_ns().is_some_and(|ns| closes.saturating_sub(opens) >= ns);
    has_all_requests || has_full_window
}

/// Returns the number of requests that the early end of a load cut off. Requests that had waited
/// longer than the slowest correct response are not included, because the server may hang. A slow
/// response of the warm-up (a cold start) is used only if there is no later response.
fn cut_off(record: &LoadRecord) -> u64 {
    if !record.cut_short {
        return 0;
    }
    let slowest = |is_warmup: bool| {
        let intervals = record.intervals.iter();
        let of_phase = intervals.filter(|i| (i.phase == Phase::Warmup) == is_warmup);
        of_phase.filter_map(|i| i.times.response.max()).max()
    };
    let slowest_ns = slowest(false).or_else(|| slowest(true));
    let ages = record.unanswered.ages.get(UnansweredAges::AT_END);
    let (Some(slowest_ns), Some(ages)) = (slowest_ns, ages) else { return 0 };
    let young: u64 = ages.values().filter(|(age, _)| *age <= slowest_ns).map(|(_, n)| n).sum();
    young.min(record.books.in_flight_at_end)
}

fn exchanges(record: &LoadRecord) -> Exchanges {
    let books = record.books;
    let warmup = || {
        record.intervals.iter().map(|i| match i.phase {
            Phase::Warmup => &i.outcomes,
            Phase::Measured | Phase::Drain => &i.carried,
        })
    };
    Exchanges {
        carried_in: books.carried_in,
        scheduled: books.scheduled,
        started: books.started,
        completed: books.completed,
        failed: books.failed,
        dropped: books.dropped,
        in_flight_at_end: books.in_flight_at_end,
        cut_off: cut_off(record),
        warmup_completed: warmup().map(Outcomes::completed_count).sum(),
        warmup_failed: warmup().map(|outcomes| outcomes.total() - outcomes.get(Outcome::Ok)).sum(),
    }
}

fn gaps(record: &LoadRecord) -> GapsResult {
    let cv = |times: &Times| Some(times.stdev()? / times.mean()?);
    let intended = times_after_warmup(record, |i| &i.intended_gap);
    let achieved = times_after_warmup(record, |i| &i.send_gap);
    GapsResult {
        intended_cv: cv(&intended),
        achieved_cv: cv(&achieved),
        intended_us: Percentiles::new(&intended),
        achieved_us: Percentiles::new(&achieved),
    }
}

fn kernel_response(record: &LoadRecord) -> Option<Percentiles> {
    let times = times_after_warmup(record, |i| &i.kernel_response);
    let count = record.books.due().saturating_sub(times.count());
    let longest_ns = record.unanswered.longest_ns();
    let missing = UnansweredRequests { count, longest_ns, ..UnansweredRequests::NONE };
    (!times.is_empty()).then(|| Percentiles::from_due(&times, missing))
}

fn requests(record: &LoadRecord, config: &LoadConfig, window_s: f64) -> Vec<RequestResult> {
    let empty = Times::new();
    let after_warmup = || record.intervals.iter().filter(|i| i.phase != Phase::Warmup);
    let request_result = |(index, request): (usize, &MixedRequest)| {
        let mut outcomes = Outcomes::default();
        let mut ok_in_window = 0;
        let mut missing = UnansweredRequests::NONE;
        for interval in after_warmup() {
            let Some(share) = interval.by_request.get(index) else { continue };
            outcomes.add(&share.outcomes);
            missing.count +=
                share.outcomes.total() - share.outcomes.get(Outcome::Ok) + share.never_ended;
            // 0: no request failed in the interval.
            let longest_failure_ns = Some(share.longest_failure_ns).filter(|ns| *ns > 0);
            missing.longest_ns = missing.longest_ns.max(longest_failure_ns);
            if interval.phase == Phase::Measured {
                ok_in_window += share.outcomes.get(Outcome::Ok) + share.carried_ok;
            }
        }
        let times = |pick: fn(&RequestShare) -> &Times| {
            let shares = after_warmup().map(|i| i.by_request.get(index).map_or(&empty, pick));
            Times::merge(shares)
        };
        RequestResult {
            name: request.name.clone(),
            weight: request.weight,
            throughput_rps: per_second(ok_in_window, window_s),
            outcomes,
            response_time_us: Percentiles::from_due(&times(|share| &share.response), missing),
            // The longest wait since sending is recorded for all requests together only.
            service_time_us: Percentiles::from_due(
                &times(|share| &share.service),
                UnansweredRequests { longest_ns: None, ..missing },
            ),
        }
    };
    // Very large mixes are not recorded by request.
    if record.intervals.iter().all(|i| i.by_request.is_empty()) {
        return Vec::new();
    }
    config.requests_mixed.iter().enumerate().map(request_result).collect()
}

fn tcp(counters: Option<&TcpCounters>, responses: u64) -> Tcp {
    let Some(c) = counters else { return Tcp::default() };
    Tcp {
        data_segments_in: Some(c.data_segments_in),
        segments_in: Some(c.segments_in),
        segments_out: Some(c.segments_out),
        retransmits: Some(c.retransmits),
        data_segments_per_response: (responses > 0)
            .then(|| c.data_segments_in as f64 / responses as f64),
        retransmits_per_million_responses: (responses > 0)
            .then(|| c.retransmits as f64 / responses as f64 * 1e6),
    }
}

/// Returns response times in µs at quantiles whose distance from 1 falls by a constant factor. It
/// stops where samples or correct responses end.
fn spectrum(times: &Times, missing: u64) -> Vec<(f64, f64)> {
    const POINTS_PER_DECADE: i32 = 12;
    let inverse_tail = (times.count() + missing) as f64 / SAMPLES_ABOVE;
    let points = (inverse_tail.max(1.0).log10() * f64::from(POINTS_PER_DECADE)) as i32;
    (0..=points)
        .filter_map(|i| {
            let q = 1.0 - 10f64.powf(-f64::from(i) / f64::from(POINTS_PER_DECADE));
            Some((q, value_at_quantile(times, missing, q)? as f64 / 1e3))
        })
        .collect()
}

/// Computes the result of one interval.
#[must_use]
pub fn interval_result(interval: &Interval) -> IntervalResult {
    let seconds = (interval.end_ns - interval.start_ns) as f64 / 1e9;
    let ok = interval.correct_responses();
    let ended: u64 = interval.all_outcomes().map(Outcomes::total).iter().sum();
    // Exchanges of an earlier phase have no times in this interval, so they are excluded.
    let own_outcomes = &interval.outcomes;
    let missing = UnansweredRequests {
        count: own_outcomes.total() - own_outcomes.get(Outcome::Ok) + interval.dropped,
        // 0: no request failed in the interval.
        longest_ns: Some(interval.longest_failure_ns).filter(|ns| *ns > 0),
        ..UnansweredRequests::NONE
    };
    let mean_in_flight =
        if seconds > 0.0 { interval.in_flight_ns as f64 / 1e9 / seconds } else { 0.0 };
    let response_time_us = Percentiles::from_due(&interval.times.response, missing);
    IntervalResult {
        phase: interval.phase,
        start_s: interval.start_ns as f64 / 1e9,
        end_s: interval.end_ns as f64 / 1e9,
        started: interval.started,
        ok,
        failed: ended - ok,
        completed: interval.responses(),
        throughput_rps: per_second(ok, seconds),
        in_flight_mean: mean_in_flight,
        response_unanswered: LoadUnanswered::new(&response_time_us),
        response_time_us,
        service_time_us: Percentiles::from_due(
            &interval.times.service,
            UnansweredRequests { longest_ns: None, ..missing },
        ),
        connections_open: interval.connections_open,
        dropped: interval.dropped,
        busiest_thread_utilisation: busiest(interval)
            .filter(|_| seconds > 0.0)
            .map(|s| s / seconds),
    }
}

impl IntervalResult {
    /// Returns requests started or dropped, per second.
    pub(crate) fn arrivals_rps(&self) -> f64 {
        per_second(self.arrivals(), self.end_s - self.start_s)
    }

    /// Returns the number of requests that ended here without a complete response.
    pub(crate) fn lost(&self) -> u64 {
        (self.ok + self.failed).saturating_sub(self.completed)
    }

    /// Returns the number of requests started or dropped.
    pub(crate) fn arrivals(&self) -> u64 {
        self.started.saturating_add(self.dropped)
    }
}

/// Returns the CPU seconds of the busiest worker without polling; `None`: unknown.
fn busiest(interval: &Interval) -> Option<f64> {
    let work = interval
        .workers
        .values()
        .map(|worker_use| worker_use.run_ns.saturating_sub(worker_use.spun_ns));
    work.max().map(|ns| ns as f64 / 1e9)
}
