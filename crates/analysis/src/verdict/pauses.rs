//! Times in which nothing went on: the generator did not run, or the server did not answer.

use dyno_archive::plan::LoadModel;
use dyno_archive::silence::Silence;
use dyno_archive::{Interval, LoadRecord, Phase};
use serde_json::json;

use super::thresholds::PAUSE_NS;
use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;
use crate::number_format::percent;

/// Share of the window from which on a pause counts.
const SHARE: f64 = 0.01;

/// Least length of a server stall, as a multiple of the ordinary response time.
const MANY_TIMES: f64 = 10.0;

/// A generator that stood still: stopped, frozen, suspended, or without a CPU. It sends nothing
/// meanwhile and stamps late.
pub(super) fn generator_stopped(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let longest_ns =
        longest_pause(record).max(control_pause(result, record)).max(suspended(record));
    (longest_ns > most_pause(record)).then(|| {
        let seconds = longest_ns as f64 / 1e9;
        let message = format!(
            "The generator did not run for {seconds:.2} s of the {:.2} s of the window: it was \
             stopped, frozen or suspended, or had no CPU. It sent no requests meanwhile, and its \
             times include the pause. Repeat the step on a machine that is not suspended or \
             overcommitted. Do not stop dyno.",
            result.duration_s
        );
        let evidence = json!({
            "longest_s": seconds,
            "loop_or_wake_s": longest_pause(record) as f64 / 1e9,
            "control_s": control_pause(result, record) as f64 / 1e9,
            "suspended_s": suspended(record) as f64 / 1e9,
        });
        Caveat::new(Code::GeneratorStopped, Severity::Invalid, message, evidence)
    })
}

/// The longest pause that may be: an interval, or a hundredth of the window, but no less than
/// [`PAUSE_NS`].
fn most_pause(record: &LoadRecord) -> u64 {
    let window_ns = record.window_ns.1.saturating_sub(record.window_ns.0);
    // Intervals of long loads are joined, so that a pause shows from their length on.
    let interval_ns =
        measured_intervals(record).map(|i| i.end_ns - i.start_ns).max().unwrap_or(window_ns);
    interval_ns.min((window_ns as f64 * SHARE) as u64).max(PAUSE_NS)
}

fn measured_intervals(record: &LoadRecord) -> impl Iterator<Item = &Interval> {
    record.intervals.iter().filter(|i| i.phase == Phase::Measured)
}

/// The longest turn, or the latest wake-up, of any worker in the window.
fn longest_pause(record: &LoadRecord) -> u64 {
    let opens = record.window_ns.0;
    let longest = |i: &Interval| i.loop_lag.max().max(i.wake_lag.max()).unwrap_or(0);
    let of = |i: &Interval| match i.phase {
        Phase::Measured => longest(i),
        // A pause counts in the interval in which it began, and may reach into the window.
        Phase::Warmup => (i.start_ns + longest(i)).saturating_sub(opens),
        Phase::Drain => 0,
    };
    record.intervals.iter().map(of).max().unwrap_or(0)
}

/// How late the control thread read the counters at the edges of the window that were planned: a
/// load of a number of requests, or one that is cut, ends between two readings.
fn control_pause(result: &LoadResult, record: &LoadRecord) -> u64 {
    let late = |edge: u64| {
        let edge = record.began_ns + edge;
        let first = record.samples.iter().position(|sample| sample.at_ns >= edge)?;
        // Reading the counters of many threads takes its time.
        let before =
            first.checked_sub(1).map_or(0, |n| record.samples[n].at_ns + record.samples[n].took_ns);
        Some(record.samples[first].at_ns.saturating_sub(edge.max(before)))
    };
    let is_as_planned =
        result.config.requests.is_none() && !record.cut_short && record.server_failure.is_none();
    let closes = if is_as_planned { late(record.window_ns.1) } else { None };
    late(record.window_ns.0).max(closes).unwrap_or(0)
}

fn suspended(record: &LoadRecord) -> u64 {
    record.client.machine.as_ref().and_then(|machine| machine.suspended_ns).unwrap_or(0)
}

/// The shortest time without a response that counts as a stall, nanoseconds. Hypervisors stop CPUs
/// for less.
const STALL_NS: f64 = 20e6;

/// Share of the window from which on a server that failed meanwhile was down.
const DOWN: f64 = 0.1;

/// The stalls of a closed loop: times without a complete response that are long for this server.
fn stalls(result: &LoadResult, record: &LoadRecord) -> Option<Vec<Silence>> {
    let ordinary_ns =
        median_ns(record).filter(|_| result.config.model == LoadModel::Closed)? as f64;
    let least_ns = (MANY_TIMES * ordinary_ns).max(STALL_NS);
    let silences = record.silences.as_deref()?.iter().filter_map(|s| s.clip(record.window_ns));
    Some(silences.filter(|silence| silence.length_ns() as f64 > least_ns).collect())
}

/// A server that answered nothing for a part of the window, and of which requests failed meanwhile.
/// The generator waits longer and longer before it tries again, so these are few.
pub(super) fn outage(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let mut stalls = stalls(result, record)?;
    // Requests that are in flight after the drain have no response either.
    let is_open = |silence: &Silence| {
        silence.end_ns >= record.window_ns.1 && result.exchanges.in_flight_at_end > 0
    };
    stalls.retain(|silence| silence.failures_ns.is_some() || is_open(silence));
    let longest_ns = stalls.iter().map(Silence::length_ns).max()?;
    let all_ns: u64 = stalls.iter().map(Silence::length_ns).sum();
    let share = all_ns as f64 / own_time(record);
    let is_own = longest_pause(record) * 2 > longest_ns;
    (share >= DOWN && !is_own).then(|| {
        let message = format!(
            "The server was down: it sent no response for {} of the window, and requests failed \
             meanwhile or have no response. The throughput is a mean of times with and without a \
             server. Look for the reason in the server's log, and repeat the step.",
            percent(share)
        );
        let evidence = json!({
            "share": share, "stalls": stalls.len(), "longest_s": longest_ns as f64 / 1e9,
        });
        Caveat::new(Code::Outage, Severity::Invalid, message, evidence)
    })
}

/// A server that answered nothing for a while. A closed loop sends nothing meanwhile: few of its
/// requests show it.
pub(super) fn stalled(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let stalls = stalls(result, record)?;
    let ordinary_ns = median_ns(record)? as f64;
    let longest = stalls.iter().max_by_key(|silence| silence.length_ns())?;
    let lengths: Vec<u64> = stalls.iter().map(Silence::length_ns).collect();
    let (window_ns, length_ns) = (own_time(record), longest.length_ns());
    let share = lengths.iter().sum::<u64>() as f64 / window_ns;
    let is_own = longest_pause(record) * 2 > length_ns;
    if share <= SHARE || is_own {
        return None;
    }
    let open_p99_ns = ordinary_ns + exceeded_wait(&lengths, window_ns * SHARE);
    let seconds = |ns: f64| ns / 1e9;
    let others = match stalls.len() {
        1 => "The stall took".to_string(),
        n => format!("It was the longest of {n} stalls, which together took"),
    };
    let asked = match longest.in_flight {
        0 => "requests were sent or connections attempted".to_string(),
        n => format!("{n} requests were in flight"),
    };
    let message = format!(
        "No response arrived for {}, from {:.2} s after the load began, although {}. {others} {} \
         of the window. A closed loop sends no requests during a stall, so its percentiles hardly \
         show it. Estimate, in no histogram: with arrivals at the same rate, p99 would be at least \
         {}. Measure it with `--rate`.",
        duration(length_ns as f64),
        seconds(longest.start_ns as f64),
        asked,
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

/// The median response time, of however few requests; `None`: none was answered right. A slow
/// server has too few in a window for a percentile to be reported.
fn median_ns(record: &LoadRecord) -> Option<u64> {
    let (times, missing) = crate::load::responses(record);
    crate::load::value_at_quantile(&times, missing.count, 0.5)
}

/// The part of the window in which the load was its own, nanoseconds.
fn own_time(record: &LoadRecord) -> f64 {
    let (opens, closes) = record.window_ns;
    let within = |(from, to): &(u64, u64)| (*to).min(closes).saturating_sub((*from).max(opens));
    let own = record.slices_ns.as_deref().map(|all| all.iter().map(within).sum::<u64>());
    own.unwrap_or(closes.saturating_sub(opens)) as f64
}

/// The wait that arrivals spread evenly over the window exceed for `time_ns` of it, if each waits
/// for the end of the stall that it falls into. Answering what has piled up takes longer still.
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

    /// The share of arrivals that wait for longer is 1 %, by counting them one by one.
    #[test]
    fn estimate_is_what_arrivals_would_wait() {
        const WINDOW: u64 = 100_000;
        for stalls in [
            vec![1500],
            vec![5000, 5000],
            vec![40_000, 2000, 30],
            vec![900],
            vec![],
            vec![600, 500, 7],
        ] {
            let wait = exceeded_wait(&stalls, WINDOW as f64 * SHARE);
            let longer: u64 = stalls.iter().map(|length| length.saturating_sub(wait as u64)).sum();
            let total: u64 = stalls.iter().sum();
            let expected = total.min((WINDOW as f64 * SHARE) as u64);
            assert!(
                longer.abs_diff(expected) <= stalls.len() as u64,
                "{stalls:?}: {wait}, {longer}"
            );
        }
    }
}
