//! Results of pages and of visits, which are groups of requests of one visitor.

use dyno_model::plan::LoadModel;
use dyno_model::{LoadRecord, Phase};
use schemars::JsonSchema;
use serde::Serialize;

use super::sums::{per_second, times_after_warmup};
use super::{LoadConfig, Percentiles, UnansweredRequests};

/// Pages or visits over the measured window and its drain. One of them is measured if its first
/// request was intended in the window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GroupSummary {
    /// Pages or visits whose requests all got a correct response.
    pub completed: u64,
    /// Pages or visits with a request that got no correct response.
    pub failed: u64,
    /// Pages or visits that still waited for a response when the drain ended.
    pub unfinished: u64,
    /// Pages or visits that were completed within the window, per second.
    pub per_second: f64,
    /// Time from the intended start of the first request to the end of the last one.
    pub time_us: Percentiles,
}

impl GroupSummary {
    /// Records have visits and pages in the same fields, because a load has only one of them.
    fn new(record: &LoadRecord, window_s: f64) -> GroupSummary {
        let times = times_after_warmup(record, |i| &i.page);
        let measured = record.intervals.iter().filter(|i| i.phase == Phase::Measured);
        let in_window: u64 = measured.map(|i| i.pages_completed).sum();
        let failed = record.intervals.iter().map(|i| i.pages_failed).sum();
        let unfinished = record.intervals.iter().map(|i| i.pages_unfinished).sum();
        let missing = UnansweredRequests { count: failed + unfinished, ..UnansweredRequests::NONE };
        GroupSummary {
            completed: times.count(),
            failed,
            unfinished,
            per_second: per_second(in_window, window_s),
            // The duration of a failed page or visit is not recorded.
            time_us: Percentiles::from_due(&times, missing),
        }
    }

    /// Returns the number of pages or visits that are not complete.
    #[must_use]
    pub const fn incomplete(&self) -> u64 {
        self.failed.saturating_add(self.unfinished)
    }
}

/// Pages: a document with its resources.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Pages")]
pub struct PageSummary {
    /// Resources of each page.
    pub resources: usize,
    /// Connections over which a page was loaded.
    pub connections_each: u32,
    #[serde(flatten)]
    pub group: GroupSummary,
}

/// Visits: passes through a sequence.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Visits")]
pub struct VisitSummary {
    /// Requests of each visit.
    pub steps: usize,
    #[serde(flatten)]
    pub group: GroupSummary,
}

/// Returns the results of pages. `None`: the load has no pages.
pub(super) fn pages(
    record: &LoadRecord,
    config: &LoadConfig,
    window_s: f64,
) -> Option<PageSummary> {
    Some(PageSummary {
        resources: config.requests_mixed.len().saturating_sub(1),
        connections_each: config.page_connections?,
        group: GroupSummary::new(record, window_s),
    })
}

/// Returns the results of visits. `None`: the load has no sequence, or is an open loop, in which
/// the schedule decides how long a visitor waits between two requests.
pub(super) fn visits(
    record: &LoadRecord,
    config: &LoadConfig,
    window_s: f64,
) -> Option<VisitSummary> {
    config.sequence.filter(|_| config.model == LoadModel::Closed)?;
    let group = GroupSummary::new(record, window_s);
    Some(VisitSummary { steps: config.requests_mixed.len(), group })
}
