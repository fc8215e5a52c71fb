//! Results of visits: sequences of requests that visitors send in order.

use dyno_archive::plan::LoadModel;
use dyno_archive::{LoadRecord, Phase};
use schemars::JsonSchema;
use serde::Serialize;

use super::sums::{per_second, times_after_warmup};
use super::{LoadConfig, Percentiles, UnansweredRequests};

/// Visits (passes through a sequence) over the measured window and its drain. A visit is measured
/// if its first request was intended in the window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Visits")]
pub struct VisitSummary {
    /// Requests of each visit.
    pub steps: usize,
    /// Visits whose requests all got a correct response.
    pub completed: u64,
    /// Visits that ended with a request that got no correct response.
    pub failed: u64,
    /// Visits that still waited for a response when the drain ended.
    pub unfinished: u64,
    /// Visits that were completed within the window, per second.
    pub per_second: f64,
    /// Visit time: from the intended start of the first request to the end of the last one.
    pub time_us: Percentiles,
}

/// Returns the results of visits. `None`: the load has no sequence, or is an open loop, in which
/// the schedule decides how long a visitor waits between two requests.
pub(super) fn visits(
    record: &LoadRecord,
    config: &LoadConfig,
    window_s: f64,
) -> Option<VisitSummary> {
    config.sequence.filter(|_| config.model == LoadModel::Closed)?;
    // Records have visits and pages in the same fields, because a load has only one of them.
    let times = times_after_warmup(record, |i| &i.page);
    let measured = record.intervals.iter().filter(|i| i.phase == Phase::Measured);
    let in_window: u64 = measured.map(|i| i.pages_completed).sum();
    let failed = record.intervals.iter().map(|i| i.pages_failed).sum();
    let unfinished = record.intervals.iter().map(|i| i.pages_unfinished).sum();
    let missing = UnansweredRequests { count: failed + unfinished, ..UnansweredRequests::NONE };
    Some(VisitSummary {
        steps: config.requests_mixed.len(),
        completed: times.count(),
        failed,
        unfinished,
        per_second: per_second(in_window, window_s),
        // The duration of a failed visit is not recorded.
        time_us: Percentiles::from_due(&times, missing),
    })
}
