//! Derives caveats about pauses: times in which the generator did not run, or the server sent no
//! response. A closed loop sends few requests in a pause, so its percentiles hardly show it.

use dyno_archive::plan::LoadModel;
use dyno_archive::silence::Silence;
use dyno_archive::{Interval, LoadRecord, Phase};
use serde_json::json;

use super::thresholds::PAUSE_NS;
use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;
use crate::number_format::percent;

/// Minimum share of the window at which pauses have an effect.
const PAUSE_SHARE: f64 = 0.01;

/// Minimum length of a server stall, as a multiple of the median response time.
const STALL_MULTIPLE: f64 = 10.0;

/// The generator did not run for a while: it was stopped, frozen or suspended, or had no CPU. It
/// sent no requests in that time, and its timestamps are late.
pub(super) fn generator_pause(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let longest_ns = longest_worker_pause_ns(record)
        .max(control_pause_ns(result, record))
        .max(suspension_ns(record));
    (longest_ns > max_pause_ns(record)).then(|| {
        let seconds = longest_ns as f64 / 1e9;
        let message = format!(
            "The generator did not run for {seconds:.2} s of the {:.2} s of the window: it was \
             stopped, frozen or suspended, or had no CPU. It sent no requests during that time, \
             and its times include the pause. Repeat the step on a machine that is not suspended \
             or overcommitted. Do not stop dyno.",
            result.duration_s
        );
        let evidence = json!({
            "longest_s": seconds,
            "loop_or_wake_s": longest_worker_pause_ns(record) as f64 / 1e9,
            "control_s": control_pause_ns(result, record) as f64 / 1e9,
            "suspended_s": suspension_ns(record) as f64 / 1e9,
        });
        Caveat::new(Code::GeneratorStopped, Severity::Invalid, message, evidence)
    })
}

/// Returns the longest pause without a caveat: an interval or a hundredth of the window, whichever
/// is shorter, but at least [`PAUSE_NS`].
fn max_pause_ns(record: &LoadRecord) -> u64 {
    let window_ns = record.window_ns.1.saturating_sub(record.window_ns.0);
    // Intervals of long loads are joined, and a pause as long as an interval is visible.
    let interval_ns =
        measured_intervals(record).map(|i| i.end_ns - i.start_ns).max().unwrap_or(window_ns);
    interval_ns.min((window_ns as f64 * PAUSE_SHARE) as u64).max(PAUSE_NS)
}

fn measured_intervals(record: &LoadRecord) -> impl Iterator<Item = &Interval> {
    record.intervals.iter().filter(|i| i.phase == Phase::Measured)
}

/// Returns the longest turn of the event loop, or the latest wake-up, of any worker in the window.
fn longest_worker_pause_ns(record: &LoadRecord) -> u64 {
    let opens_ns = record.window_ns.0;
    let longest_ns = |i: &Interval| i.loop_lag.max().max(i.wake_lag.max()).unwrap_or(0);
    let in_window_ns = |i: &Interval| match i.phase {
        Phase::Measured => longest_ns(i),
        // A pause counts in the interval in which it began, and may reach into the window.
        Phase::Warmup => (i.start_ns + longest_ns(i)).saturating_sub(opens_ns),
        Phase::Drain => 0,
    };
    record.intervals.iter().map(in_window_ns).max().unwrap_or(0)
}

/// Returns how late the control thread read the counters at the planned edges of the window. The
/// end is not planned if the load has a number of requests, or ended early.
fn control_pause_ns(result: &LoadResult, record: &LoadRecord) -> u64 {
    let delay_ns = |edge_ns: u64| {
        let edge_ns = record.began_ns + edge_ns;
        let index = record.samples.iter().position(|sample| sample.at_ns >= edge_ns)?;
        // The previous reading may have ended after the edge: many threads take time to read.
        let previous_end_ns =
            index.checked_sub(1).map_or(0, |n| record.samples[n].at_ns + record.samples[n].took_ns);
        Some(record.samples[index].at_ns.saturating_sub(edge_ns.max(previous_end_ns)))
    };
    let has_planned_end =
        result.config.requests.is_none() && !record.cut_short && record.server_failure.is_none();
    let delay_at_end_ns = if has_planned_end { delay_ns(record.window_ns.1) } else { None };
    delay_ns(record.window_ns.0).max(delay_at_end_ns).unwrap_or(0)
}

/// Returns the time for which the machine was suspended.
fn suspension_ns(record: &LoadRecord) -> u64 {
    record.client.machine.as_ref().and_then(|machine| machine.suspended_ns).unwrap_or(0)
}

/// Longest time without a response that never counts as a stall, nanoseconds. Hypervisors stop CPUs
/// for up to that long.
const STALL_NS: f64 = 20e6;

/// Minimum share of the window at which stalls with failed requests count as an outage.
const OUTAGE_SHARE: f64 = 0.1;

/// Returns the stalls of a closed loop: times without a complete response that are long compared
/// with the median response time. `None`: an open loop, or unknown.
fn stalls(result: &LoadResult, record: &LoadRecord) -> Option<Vec<Silence>> {
    let median_ns = median_ns(record).filter(|_| result.config.model == LoadModel::Closed)? as f64;
    let max_ns = (STALL_MULTIPLE * median_ns).max(STALL_NS);
    let silences = record.silences.as_deref()?.iter().filter_map(|s| s.clip(record.window_ns));
    Some(silences.filter(|silence| silence.length_ns() as f64 > max_ns).collect())
}

/// The server sent no response for a part of the window, and requests failed in that time. Failed
/// requests are few, because the generator waits longer after each failed connection.
pub(super) fn outage(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let mut stalls = stalls(result, record)?;
    // Requests that are in flight after the drain have no response either.
    let is_unanswered = |silence: &Silence| {
        silence.end_ns >= record.window_ns.1 && result.exchanges.in_flight_at_end > 0
    };
    stalls.retain(|silence| silence.failures_ns.is_some() || is_unanswered(silence));
    let longest_ns = stalls.iter().map(Silence::length_ns).max()?;
    let total_ns: u64 = stalls.iter().map(Silence::length_ns).sum();
    let share = total_ns as f64 / loaded_ns(record);
    let is_generator_pause = longest_worker_pause_ns(record) * 2 > longest_ns;
    (share >= OUTAGE_SHARE && !is_generator_pause).then(|| {
        let message = format!(
            "The server was down: it sent no response for {} of the window, and requests failed \
             during that time or have no response. The throughput is an average over times with \
             and without a running server. Look for the reason in the server's log, and repeat \
             the step.",
            percent(share)
        );
        let evidence = json!({
            "share": share, "stalls": stalls.len(), "longest_s": longest_ns as f64 / 1e9,
        });
        Caveat::new(Code::Outage, Severity::Invalid, message, evidence)
    })
}

/// The server sent no response for a while. A closed loop sends no requests in that time, so few of
/// them show the stall.
pub(super) fn server_stall(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let stalls = stalls(result, record)?;
    let median_ns = median_ns(record)? as f64;
    let longest = stalls.iter().max_by_key(|silence| silence.length_ns())?;
    let lengths: Vec<u64> = stalls.iter().map(Silence::length_ns).collect();
    let (window_ns, length_ns) = (loaded_ns(record), longest.length_ns());
    let share = lengths.iter().sum::<u64>() as f64 / window_ns;
    let is_generator_pause = longest_worker_pause_ns(record) * 2 > length_ns;
    if share <= PAUSE_SHARE || is_generator_pause {
        return None;
    }
    let open_p99_ns = median_ns + exceeded_wait(&lengths, window_ns * PAUSE_SHARE);
    let seconds = |ns: f64| ns / 1e9;
    let total_text = match stalls.len() {
        1 => "The stall took".to_string(),
        n => format!("It was the longest of {n} stalls, which together took"),
    };
    let demand_text = match longest.in_flight {
        0 => "requests were sent or connections attempted".to_string(),
        n => format!("{n} requests were in flight"),
    };
    let message = format!(
        "No response arrived for {}, from {:.2} s after the load began, although {}. {total_text} \
         {} of the window. A closed loop sends no requests during a stall, so its percentiles \
         hardly show it. Estimate, in no histogram: with arrivals at the same rate, p99 would be \
         at least {}. Measure it with `--rate`.",
        duration(length_ns as f64),
        seconds(longest.start_ns as f64),
        demand_text,
        percent(share),
        duration(open_p99_ns)
    );
    let evidence = json!({
        "longest_s": seconds(length_ns as f64),
        "at_s": seconds(longest.start_ns as f64),
        "in_flight": longest.in_flight,
        "stalls": stalls.len(),
        "share": share,
        "estimated_open_loop_p99_us": open_p99_ns / 1e3,
    });
    Some(Caveat::new(Code::Stalled, Severity::Warning, message, evidence))
}

fn duration(ns: f64) -> String {
    if ns < 1e8 { format!("{:.0} ms", ns / 1e6) } else { format!("{:.2} s", ns / 1e9) }
}

/// Returns the median response time, even of a few requests: a slow server has too few of them for
/// the reported percentiles. `None`: fewer than half of the requests got a correct response.
fn median_ns(record: &LoadRecord) -> Option<u64> {
    let (times, missing) = crate::load::responses(record);
    crate::load::value_at_quantile(&times, missing.count, 0.5)
}

/// Returns the part of the window in which this server was loaded, nanoseconds. In turns that is
/// the sum of its own turns.
fn loaded_ns(record: &LoadRecord) -> f64 {
    let (opens_ns, closes_ns) = record.window_ns;
    let in_window_ns = |(start_ns, end_ns): &(u64, u64)| {
        (*end_ns).min(closes_ns).saturating_sub((*start_ns).max(opens_ns))
    };
    let turns_ns = record.slices_ns.as_deref().map(|turns| turns.iter().map(in_window_ns).sum());
    turns_ns.unwrap_or(closes_ns.saturating_sub(opens_ns)) as f64
}

/// Returns the wait that arrivals in `time_ns` of the window exceed. Arrivals are taken as evenly
/// spread, and each waits for the end of its stall. It is a lower bound, because after a stall the
/// server has a backlog.
fn exceeded_wait(stalls_ns: &[u64], time_ns: f64) -> f64 {
    let mut longest_first: Vec<f64> = stalls_ns.iter().map(|ns| *ns as f64).collect();
    longest_first.sort_by(|a, b| b.total_cmp(a));
    let mut sum = 0.0;
    for (n, length) in longest_first.iter().enumerate() {
        sum += length;
        let wait = (sum - time_ns) / (n + 1) as f64;
        if longest_first.get(n + 1).is_none_or(|next| *next <= wait) {
            return wait.max(0.0);
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts arrivals one by one: 1 % of them wait for longer than the estimate.
    #[test]
    fn exceeded_wait_matches_counted_arrivals() {
        const WINDOW_NS: u64 = 100_000;
        for stalls in [
            vec![1500],
            vec![5000, 5000],
            vec![40_000, 2000, 30],
            vec![900],
            vec![],
            vec![600, 500, 7],
        ] {
            let wait = exceeded_wait(&stalls, WINDOW_NS as f64 * PAUSE_SHARE);
            let longer: u64 = stalls.iter().map(|length| length.saturating_sub(wait as u64)).sum();
            let total: u64 = stalls.iter().sum();
            let expected = total.min((WINDOW_NS as f64 * PAUSE_SHARE) as u64);
            assert!(
                longer.abs_diff(expected) <= stalls.len() as u64,
                "{stalls:?}: {wait}, {longer}"
            );
        }
    }
}
