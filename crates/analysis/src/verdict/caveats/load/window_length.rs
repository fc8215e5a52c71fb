//! Derives caveats about windows that are too short for their requests.

use dyno_model::plan::LoadModel;
use dyno_model::{LoadRecord, Phase, Times};
use serde_json::json;

use crate::caveat::{Caveat, Code, Severity, info};
use crate::load::{LoadResult, response_times, value_at_quantile};
use crate::number_format::{percent, plural};

/// The median request took longer than the window, so most requests began before it or ended after
/// it. Requests without a correct response are included with the time that they took or waited.
pub(super) fn requests_longer_than_window(
    result: &LoadResult,
    record: &LoadRecord,
) -> Option<Caveat> {
    let (mut times, missing) = response_times(record);
    // Requests that waited for an unknown time rank above all others.
    let mut without_age = missing;
    for ages in record.unanswered.ages.values() {
        times.add(ages);
        without_age = without_age.saturating_sub(ages.count());
    }
    let window_us = result.duration_s * 1e6;
    let median_us = value_at_quantile(&times, without_age, 0.5)? as f64 / 1e3;
    // A load of a given number of requests ends with its last response.
    let is_longer = median_us > window_us && result.config.requests.is_none() && window_us > 0.0;
    is_longer.then(|| {
        let message = format!(
            "Half of the requests took {:.2} s or more, which is longer than the measured window \
             of {:.2} s. The window shows only part of these requests. Measure for longer, or with \
             fewer requests in flight.",
            median_us / 1e6,
            result.duration_s
        );
        let evidence = json!({"median_us": median_us, "window_us": window_us});
        Caveat::new(Code::LONGER_THAN_WINDOW, Severity::Invalid, message, evidence)
    })
}

/// Largest error of throughput at the window's edges without a caveat, as a share of the rate.
const MAX_EDGE_ERROR: f64 = 0.05;

/// Largest coefficient of variation of the times of requests with which the two counts of requests
/// can be compared. Requests that are in flight when the window opens count in full, and long ones
/// are more often among them, so the mean time is too long by the square of this coefficient × the
/// mean time's share of the window.
const MAX_VARIATION: f64 = 0.25;

/// Number of requests of a window, by two counts.
struct RequestCounts {
    /// Requests that ended in the window. Throughput counts these.
    ended: u64,
    /// Requests for which the time in flight within the window suffices.
    by_time: f64,
    /// Mean time of a request, seconds.
    mean_s: f64,
}

impl RequestCounts {
    /// Returns the counts of a closed loop. `None`: an open loop, which has its offered rate; a
    /// number of requests, which ends with its last response; or requests of unknown or too
    /// different lengths.
    fn new(result: &LoadResult, record: &LoadRecord) -> Option<RequestCounts> {
        let has_edges =
            result.config.model == LoadModel::Closed && result.config.requests.is_none();
        let (mut times, missing) = response_times(record);
        let ages = record.unanswered.ages.values();
        let known: u64 = ages.clone().map(Times::count).sum();
        ages.for_each(|ages| times.add(ages));
        if !has_edges || record.books.in_flight_at_end > 0 {
            return None;
        }
        let (mean_ns, deviation_ns) = (times.mean()?, times.stdev()?);
        if missing > known || deviation_ns > MAX_VARIATION * mean_ns {
            return None;
        }
        let mean_s = mean_ns / 1e9;
        let measured = result.intervals.iter().filter(|i| i.phase == Phase::Measured);
        let ended = measured.map(|i| i.ok + i.failed).sum();
        let by_time = result.in_flight.mean * result.duration_s / mean_s;
        Some(RequestCounts { ended, by_time, mean_s })
    }

    /// Returns how much too low (negative) or too high throughput is, as a share of the rate.
    fn error(&self) -> f64 {
        self.ended as f64 / self.by_time - 1.0
    }
}

/// Few long requests of similar length end in the window of a closed loop. A request counts in full
/// if it ends in the window, and not at all if it ends later. Each connection therefore adds an
/// error of up to one request. By Little's law, the requests of the window are their time in flight
/// in the window, divided by the mean time of a request. The error is at most the mean time as a
/// share of the window.
fn long_requests(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let counts = RequestCounts::new(result, record)?;
    let share = counts.mean_s / result.duration_s;
    let error = counts.error();
    let has_error = counts.ended > 0 && share > MAX_EDGE_ERROR && error.abs() > MAX_EDGE_ERROR;
    has_error.then(|| {
        let message = format!(
            "Requests took {:.2} s on average, which is {} of the window. {} ended in the window, \
             but the time that requests spent in it is enough for {:.1} requests. Throughput is \
             therefore about {} too {} (an estimate). Use a longer duration (`-d`), or a number of \
             requests (`-n`).",
            counts.mean_s,
            percent(share),
            plural(counts.ended, "request"),
            counts.by_time,
            percent(error.abs()),
            if error < 0.0 { "low" } else { "high" }
        );
        let evidence = json!({
            "ended": counts.ended, "by_time": counts.by_time, "mean_s": counts.mean_s,
            "error": error,
        });
        Caveat::new(Code::SHORT_WINDOW, Severity::Warning, message, evidence)
    })
}

/// Whether a caveat is about requests that end before or after the window's edges.
pub(in crate::verdict) fn is_about_edges(caveat: &Caveat) -> bool {
    caveat.code == Code::SHORT_WINDOW && caveat.evidence.get("by_time").is_some()
}

/// The window is too short: for its requests, or for any load.
pub(super) fn short_window(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    long_requests(result, record).or_else(|| few_requests(result))
}

/// The window is shorter than a second, or has few requests. In an open loop, a window that ends
/// with the last of n requests has n − 1 gaps between arrivals, so throughput appears as n ÷ (n −
/// 1) times the rate.
fn few_requests(result: &LoadResult) -> Option<Caveat> {
    /// With fewer requests, throughput appears more than a percent too high.
    const MIN_REQUESTS: u64 = 100;
    let requests = result.config.requests;
    let too_few = requests.filter(|n| result.config.model == LoadModel::Open && *n < MIN_REQUESTS);
    let message = match (too_few, requests) {
        (Some(n), _) => format!(
            "The measured window ends with the last of only {n} responses. Throughput therefore \
             appears above the offered rate. Use at least `-n {MIN_REQUESTS}`, or a duration (`-d \
             10s`)."
        ),
        (None, _) if result.duration_s >= 1.0 => return None,
        (None, Some(_)) => {
            "The measured window is shorter than a second. Expect noise. Use more requests (`-n`)."
                .into()
        }
        (None, None) => {
            "The measured window is shorter than a second. Expect noise. Use a longer duration."
                .into()
        }
    };
    Some(info(Code::SHORT_WINDOW, message))
}
