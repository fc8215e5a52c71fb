//! Sums the intervals of a load, because most results cover the whole measured window.

use dyno_model::interval::ExchangeTimes;
use dyno_model::load::Edges;
use dyno_model::outcome::Outcomes;
use dyno_model::{Interval, LoadRecord, Phase, Times};

use super::percentiles::UnansweredRequests;
use super::{Bytes, InFlight};

/// Sums over the measured window and its drain.
pub(super) struct WindowSums {
    pub(super) window_s: f64,
    /// Correct responses that arrived within the window, regardless of when their requests were
    /// intended.
    pub(super) ok: u64,
    /// Complete responses, correct or incorrect, that arrived within the window.
    pub(super) responses: u64,
    /// Outcomes of the exchanges that belong to the window.
    pub(super) measured: Outcomes,
    /// Outcomes of the exchanges after the window with which its visits and pages continued.
    pub(super) continued: Outcomes,
    /// Times of correct responses.
    pub(super) times: ExchangeTimes,
    /// Requests without a correct response, with their longest wait since intended.
    pub(super) missing: UnansweredRequests,
    /// Requests without a correct response, with their longest wait since sent.
    pub(super) missing_service: UnansweredRequests,
    pub(super) bytes: Bytes,
    pub(super) checked: u64,
    pub(super) in_flight: InFlight,
}

impl WindowSums {
    pub(super) fn new(record: &LoadRecord) -> WindowSums {
        let (opens, closes) = record.window_ns;
        let window_ns = closes.saturating_sub(opens) as f64;
        let mut sums = WindowSums {
            window_s: window_ns / 1e9,
            ok: 0,
            responses: 0,
            measured: Outcomes::default(),
            continued: Outcomes::default(),
            times: ExchangeTimes::default(),
            missing: UnansweredRequests::NONE,
            missing_service: UnansweredRequests::NONE,
            bytes: Bytes::default(),
            checked: 0,
            in_flight: InFlight { mean: 0.0, by_littles_law: None, resolution: 0.0 },
        };
        let times = |pick: fn(&Interval) -> &Times| times_after_warmup(record, pick);
        sums.times = ExchangeTimes {
            response: times(|i| &i.times.response),
            service: times(|i| &i.times.service),
            send_lag: times(|i| &i.times.send_lag),
            first_byte: times(|i| &i.times.first_byte),
        };
        for interval in record.intervals.iter().filter(|i| i.phase != Phase::Warmup) {
            sums.measured.add(&interval.outcomes);
            sums.continued.add(&interval.continued);
            sums.checked += interval.checked;
            if interval.phase == Phase::Measured {
                sums.add_window(interval);
            }
        }
        let missing = record.books.due().saturating_sub(sums.times.response.count());
        sums.missing = UnansweredRequests {
            count: missing,
            longest_ns: record.unanswered.longest_ns(),
            sum_ns: record.unanswered.sum_ns(),
        };
        // 0: no wait is known.
        let longest_ns = Some(record.unanswered.longest_service_ns).filter(|ns| *ns > 0);
        sums.missing_service = UnansweredRequests { count: missing, longest_ns, sum_ns: 0.0 };
        if window_ns > 0.0 {
            sums.in_flight.mean /= window_ns;
            let within_ns =
                record.edges.map(|edges| time_in_window_ns(record, &sums.times.response, edges));
            sums.in_flight.by_littles_law = within_ns.map(|within_ns| within_ns / window_ns);
            sums.in_flight.resolution =
                RESOLUTION * time_sum_ns(record, &sums.times.response) / window_ns;
        }
        sums
    }

    /// Adds the responses and bytes of an interval of the window.
    fn add_window(&mut self, interval: &Interval) {
        self.ok += interval.correct_responses();
        self.responses += interval.responses();
        self.bytes.sent += interval.bytes_sent;
        self.bytes.received += interval.bytes_received;
        self.bytes.body_received += interval.body_received;
        self.bytes.responses = self.responses;
        // `new` divides this sum by the length of the window.
        self.in_flight.mean += interval.in_flight_ns as f64;
    }
}

/// Returns the bytes that were sent after the measured window.
pub(super) fn bytes_sent_in_drain(record: &LoadRecord) -> u64 {
    record.intervals.iter().filter(|i| i.phase == Phase::Drain).map(|i| i.bytes_sent).sum()
}

/// Returns the time that exchanges spent in flight inside the measured window, in nanoseconds.
///
/// The distributions contain the times of the window's exchanges. Their parts before the window and
/// in the drain are subtracted, and the time of other exchanges within the window is added.
fn time_in_window_ns(record: &LoadRecord, response: &Times, edges: Edges) -> f64 {
    let drain: u64 =
        record.intervals.iter().filter(|i| i.phase == Phase::Drain).map(|i| i.in_flight_ns).sum();
    time_sum_ns(record, response) + edges.others_ns as f64 - edges.before_ns as f64 - drain as f64
}

/// Relative error of a time in a histogram (`dyno_model::Times`).
const RESOLUTION: f64 = 0.001;

/// Returns the sum of all times and ages in the distributions, in nanoseconds.
fn time_sum_ns(record: &LoadRecord, response: &Times) -> f64 {
    let sum = |times: &Times| times.mean().unwrap_or(0.0) * times.count() as f64;
    sum(response) + record.unanswered.ages.values().map(sum).sum::<f64>()
}

/// Returns the complete responses per second of the measured window. Incorrect responses are
/// included, because they use CPU time, too.
#[must_use]
pub fn responses_per_second(record: &LoadRecord) -> f64 {
    let sums = WindowSums::new(record);
    per_second(sums.responses, sums.window_s)
}

/// Returns count ÷ seconds, or 0 without any time.
pub(super) fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// Merges a distribution over the measured window and its drain.
pub(super) fn times_after_warmup(record: &LoadRecord, pick: impl Fn(&Interval) -> &Times) -> Times {
    Times::merge(record.intervals.iter().filter(|i| i.phase != Phase::Warmup).map(pick))
}

/// Returns the response times of correct responses of the measured window, and the number of
/// requests without one.
#[must_use]
pub fn response_times(record: &LoadRecord) -> (Times, u64) {
    let times = times_after_warmup(record, |i| &i.times.response);
    let missing = record.books.due().saturating_sub(times.count());
    (times, missing)
}
