//! Derives the caveat about generator threads that finish a number of requests at different times.

use dyno_model::plan::LoadModel;
use dyno_model::{LoadRecord, Phase};
use serde_json::json;

use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;
use crate::number_format::percent;

/// If the mean number of requests in flight is at least this share of the maximum, no thread was
/// idle for long.
const MIN_BUSY: f64 = 0.8;

/// Requests in flight are missing because threads ended early if the ended threads explain at least
/// this part of them. The intervals show the end of a thread late, so the explained part is a lower
/// bound.
const MIN_EXPLAINED: f64 = 0.5;

/// Some generator threads finished earlier than others. Threads divide a number of requests before
/// the load, and connections of a thread that has finished are idle. Visitors of pages are idle
/// between requests anyway.
pub(super) fn uneven_threads(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let config = &result.config;
    let are_divided = config.requests.is_some() && result.client.threads > 1;
    let keeps_maximum = config.model == LoadModel::Closed && config.page_connections.is_none();
    let (max_in_flight, mean) = (result.max_at_server() as f64, result.mean_at_server());
    if !are_divided || !keeps_maximum || mean >= MIN_BUSY * max_in_flight {
        return None;
    }
    let (missing_share, ended_share) = (1.0 - mean / max_in_flight, ended_share(record));
    if ended_share < MIN_EXPLAINED * missing_share {
        return None;
    }
    let message = format!(
        "The requests were divided among the generator's threads before the load, and some threads \
         finished early. On average, only {mean:.2} of {max_in_flight:.0} possible requests were \
         in flight. Threads that had ended lower throughput by {} or more. Use one thread \
         (`--threads 1`), or a duration instead of a number of requests (`-d 10s`).",
        percent(ended_share.min(missing_share))
    );
    let evidence = json!({
        "in_flight": mean, "max_in_flight": max_in_flight, "threads": result.client.threads,
    });
    Some(Caveat::new(Code::THREADS_ENDED_APART, Severity::Warning, message, evidence))
}

/// Returns the mean share of the window, 0 to 1, for which the threads had certainly ended. A
/// thread ends at the latest with its last interval. The end of a thread without an interval is
/// unknown, so the thread counts as busy.
fn ended_share(record: &LoadRecord) -> f64 {
    let (opens_ns, closes_ns) = record.window_ns;
    let measured = || record.intervals.iter().filter(|i| i.phase == Phase::Measured);
    let last_interval = |worker: u32| measured().rfind(move |i| i.workers.contains_key(&worker));
    let threads = record.client.threads.len() as u32;
    let ended_ns: u64 = (0..threads)
        .filter_map(last_interval)
        .map(|interval| closes_ns.saturating_sub(interval.end_ns))
        .sum();
    let all_ns = u64::from(threads) * closes_ns.saturating_sub(opens_ns);
    if all_ns == 0 { 0.0 } else { ended_ns as f64 / all_ns as f64 }
}

#[cfg(test)]
mod tests {
    use dyno_model::Interval;
    use dyno_model::interval::WorkerUse;
    use dyno_model::load::Http2Use;
    use dyno_model::sample::ThreadUse;

    use super::*;
    use crate::fixture;

    const S: u64 = 1_000_000_000;

    /// Returns a load of 10 s and two threads. `ends_s`: the last second in which each is busy.
    fn record(ends_s: [u64; 2]) -> LoadRecord {
        let mut record = fixture::record(1000);
        record.client.threads = vec![ThreadUse::default(); 2];
        record.window_ns = (0, 10 * S);
        let first = record.intervals.remove(0);
        record.intervals = (0..10)
            .map(|second| {
                let (start_ns, end_ns) = (second * S, (second + 1) * S);
                let mut interval = match second {
                    0 => Interval { end_ns, ..first.clone() },
                    _ => Interval::new(Phase::Measured, start_ns, end_ns),
                };
                let is_busy = |worker: &u32| second < ends_s[*worker as usize];
                interval.workers =
                    [0, 1].into_iter().filter(is_busy).map(|k| (k, WorkerUse::default())).collect();
                interval
            })
            .collect();
        record
    }

    /// Returns the caveat of a closed loop of 64 connections with this mean in flight.
    fn caveat(
        record: &LoadRecord,
        mean_in_flight: f64,
        change: impl FnOnce(&mut LoadResult),
    ) -> Option<Caveat> {
        let mut result = fixture::result(record, None);
        result.config.requests = Some(1000);
        result.in_flight.mean = mean_in_flight;
        change(&mut result);
        uneven_threads(&result, record)
    }

    #[test]
    fn early_end_of_thread_explains_missing_requests() {
        assert!(caveat(&record([5, 10]), 48.0, |_| {}).is_some());
        assert!(caveat(&record([10, 10]), 48.0, |_| {}).is_none(), "both worked to the end");
        assert!(caveat(&record([9, 10]), 32.0, |_| {}).is_none(), "5 % of 50 % is explained");
        assert!(caveat(&record([5, 10]), 52.0, |_| {}).is_none(), "the threads were busy");
        assert!(caveat(&record([0, 10]), 32.0, |_| {}).is_none(), "the end of one is unknown");
    }

    #[test]
    fn pages_and_granted_streams_are_not_uneven_threads() {
        let record = record([5, 10]);
        assert!(caveat(&record, 48.0, |r| r.config.page_connections = Some(1)).is_none());
        let with_streams = LoadRecord {
            http2: Some(Http2Use {
                streams_asked: 10,
                streams_granted: Some(1),
                ..Http2Use::default()
            }),
            ..record.clone()
        };
        // The server grants one of ten streams, and 60 of 64 are in use.
        assert!(caveat(&with_streams, 60.0, |r| r.config.streams = 10).is_none());
        assert!(caveat(&with_streams, 48.0, |r| r.config.streams = 10).is_some());
    }
}
