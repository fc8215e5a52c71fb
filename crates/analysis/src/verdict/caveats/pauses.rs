//! Derives caveats about pauses: times in which the generator did not run, or the server sent no
//! response. A closed loop sends few requests in a pause, so its percentiles hardly show the pause.
//!
//! The doc comment of each rule states the condition under which its caveat applies.

use dyno_model::machine::Stops;
use dyno_model::plan::LoadModel;
use dyno_model::silence::Silence;
use dyno_model::{Interval, LoadRecord, Outcome, Phase, Times};
use serde_json::json;

use crate::caveat::{Caveat, Code, Severity};
use crate::load::{LoadResult, responses, responses_per_second};
use crate::number_format::{percent, plural};
use crate::verdict::thresholds::PAUSE_NS;

/// Pauses have an effect if they take more than this share of the window.
const PAUSE_SHARE: f64 = 0.01;

/// Shortest pause that counts towards the sum of pauses, nanoseconds. The scheduler of a busy
/// machine preempts threads for slices of 1 to 3 ms, and hypervisors stop CPUs for up to 20 ms.
const SUMMED_PAUSE_NS: u64 = 20_000_000;

/// Short pauses have an effect if they take more than this share of the window. Hypervisors stop
/// CPUs for such times, and not all of them report it (steal time).
const SHORT_PAUSE_SHARE: f64 = 0.05;

/// Share of the requests whose response times are above p99.
const SHARE_ABOVE_P99: f64 = 0.01;

/// Minimum length of a server stall, as a multiple of the median response time.
const STALL_MULTIPLE: f64 = 10.0;

/// The generator did not run for a while, or for many short times: it was stopped, frozen or
/// suspended, or had no CPU. It sent no requests in that time, and its timestamps are late.
pub(super) fn generator_pause(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let least_ns = |share: f64| ((window_ns(record) as f64 * share) as u64).max(PAUSE_NS);
    let longest_ns = longest_worker_pause_ns(record)
        .max(control_pause_ns(result, record))
        .max(suspension_ns(record));
    let long_ns = sum_of_pauses_ns(record);
    // Stops that the control thread noticed. The workers may have noticed them as well.
    let stops = Some(stops(record)).filter(|stops| stops.ns > least_ns(SHORT_PAUSE_SHARE));
    let stops = stops.filter(|stops| stops.ns > longest_ns.max(long_ns));
    let sum_ns = stops.map_or(long_ns, |stops| stops.ns);
    let is_stopped =
        longest_ns > max_pause_ns(record) || long_ns > least_ns(PAUSE_SHARE) || stops.is_some();
    is_stopped.then(|| {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let length_text = match stops {
            Some(stops) => format!(", in {}", plural(stops.count, "pause")),
            None if sum_ns > longest_ns => {
                format!(", in pauses of up to {}", duration(longest_ns as f64))
            }
            None => String::new(),
        };
        let message = format!(
            "The generator did not run for {}{:.2} s of the {:.2} s of the window{length_text}: it \
             was stopped, frozen or suspended, or had no CPU. It sent no requests during that \
             time, and the measured times include the pause. Repeat the step on a machine that is \
             not suspended or overcommitted. Do not stop dyno.",
            if stops.is_some() { "at least " } else { "" },
            seconds(longest_ns.max(sum_ns)),
            result.duration_s
        );
        let evidence = json!({
            "longest_s": seconds(longest_ns),
            "sum_s": seconds(sum_ns),
            "stops": stops.map(|stops| stops.count),
            "loop_or_wake_s": seconds(longest_worker_pause_ns(record)),
            "control_s": seconds(control_pause_ns(result, record)),
            "suspended_s": seconds(suspension_ns(record)),
        });
        let explained = match stops {
            Some(stops) => losses_in_pauses(result, stops.ns, stops.count),
            None if longest_ns >= sum_ns => losses_in_pauses(result, longest_ns, 1),
            None => losses_in_pauses(result, sum_ns, sum_ns.div_ceil(SUMMED_PAUSE_NS)),
        };
        Caveat::new(Code::GENERATOR_STOPPED, Severity::Invalid, message, evidence)
            .with_explained_losses(Some(explained))
    })
}

/// Returns the largest number of missing responses that pauses explain: for each pause the requests
/// in flight, and in an open loop the requests that were intended meanwhile. `pauses`: the largest
/// number of pauses that together have this length.
fn losses_in_pauses(result: &LoadResult, length_ns: u64, pauses: u64) -> u64 {
    let share = (length_ns as f64 / 1e9 / result.duration_s).min(1.0);
    let intended = match result.config.model {
        LoadModel::Closed => 0,
        LoadModel::Open => (share * result.exchanges.due() as f64).ceil() as u64,
    };
    intended.saturating_add(pauses.saturating_mul(result.max_in_flight()))
}

/// Returns the time for which the generator's threads did not run in the window because of pauses
/// of [`SUMMED_PAUSE_NS`] or more, nanoseconds: the mean over the threads.
///
/// On a busy machine, threads wait for a CPU. `generator_starved` and `generator_busy` report these
/// waits, so the recorded waits (run delay) are subtracted. A stopped thread has no such wait.
///
/// A late wake-up is a time without CPU use. A long iteration of the event loop may be work, so the
/// CPU time of the threads is subtracted from the sum of the long iterations.
fn sum_of_pauses_ns(record: &LoadRecord) -> u64 {
    let threads = &record.client.threads;
    let count = threads.len().max(1) as u64;
    let long_ns = |lags: &Times| -> u64 {
        let long = lags.values().filter(|(ns, _)| *ns >= SUMMED_PAUSE_NS);
        long.map(|(ns, n)| ns.saturating_mul(n)).sum()
    };
    let loop_ns: u64 = measured_intervals(record).map(|i| long_ns(&i.loop_lag)).sum();
    let wake_ns: u64 = measured_intervals(record).map(|i| long_ns(&i.wake_lag)).sum();
    let run_ns: u64 = threads.iter().map(|thread| thread.run_ns).sum();
    let pauses_ns = wake_ns + loop_ns.saturating_sub(run_ns);
    let idle_ns = (window_ns(record) * count).saturating_sub(run_ns);
    // Without a recorded wait, nothing else explains the pauses.
    let waited_ns: u64 = threads.iter().filter_map(|thread| thread.run_delay_ns).sum();
    pauses_ns.min(idle_ns).saturating_sub(waited_ns) / count
}

/// Returns the times in which dyno did not run in the window, as far as the control thread noticed
/// them. Waits for a CPU are not included, and steal time is subtracted: both have separate
/// caveats. A worker of a closed loop sleeps without a planned end, so it does not notice short
/// stops.
fn stops(record: &LoadRecord) -> Stops {
    let Some(machine) = &record.client.machine else { return Stops::default() };
    // The control thread may run on any CPU.
    let cpus = machine.cpus.iter().chain(&machine.remaining_cpus);
    let stolen_ns: u64 = cpus.map(|cpu| cpu.steal_ns).sum();
    let stops = machine.stopped.unwrap_or_default();
    Stops { ns: stops.ns.saturating_sub(stolen_ns), ..stops }
}

fn window_ns(record: &LoadRecord) -> u64 {
    record.window_ns.1.saturating_sub(record.window_ns.0)
}

/// Returns the longest pause without a caveat: an interval or a hundredth of the window, whichever
/// is shorter, but at least [`PAUSE_NS`].
fn max_pause_ns(record: &LoadRecord) -> u64 {
    let window_ns = window_ns(record);
    // A pause as long as an interval is visible in the timeline. Long loads have long intervals, so
    // the longest pause is also limited to a share of the window.
    let interval_ns =
        measured_intervals(record).map(|i| i.end_ns - i.start_ns).max().unwrap_or(window_ns);
    interval_ns.min((window_ns as f64 * PAUSE_SHARE) as u64).max(PAUSE_NS)
}

fn measured_intervals(record: &LoadRecord) -> impl Iterator<Item = &Interval> {
    record.intervals.iter().filter(|i| i.phase == Phase::Measured)
}

/// Returns the longest iteration of the event loop, or the latest wake-up, of any worker in the
/// window.
fn longest_worker_pause_ns(record: &LoadRecord) -> u64 {
    let opens_ns = record.window_ns.0;
    let in_window_ns = |i: &Interval| match i.phase {
        Phase::Measured => longest_lag_ns(i),
        // A pause is recorded in the interval in which it began, and may extend into the window.
        Phase::Warmup => (i.start_ns + longest_lag_ns(i)).saturating_sub(opens_ns),
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
        // The previous reading may have ended after the edge: many threads take time to read. So
        // may readings of another load that runs at the same time.
        let previous_end_ns =
            index.checked_sub(1).map_or(0, |n| record.samples[n].at_ns + record.samples[n].took_ns);
        let sample = &record.samples[index];
        let due_ns = edge_ns.saturating_add(sample.delayed_ns);
        Some(sample.at_ns.saturating_sub(due_ns.max(previous_end_ns)))
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

/// Longest time without a response that is never a stall, nanoseconds. Hypervisors stop CPUs for up
/// to 20 ms.
const STALL_NS: f64 = 20e6;

/// Stalls with failed requests are an outage if they take at least this share of the window.
const OUTAGE_SHARE: f64 = 0.1;

/// Minimum number of mean response times in a window in which Little's law is precise enough: the
/// responses that begin or end outside of the window are then at most a twentieth.
const MIN_RESPONSES: f64 = 20.0;

/// Returns the stalls: times without a complete response that are long compared with the median
/// response time. `None`: unknown.
fn stalls(result: &LoadResult, record: &LoadRecord) -> Option<Vec<Silence>> {
    let max_ns = (STALL_MULTIPLE * median_ns(record)? as f64).max(STALL_NS);
    let silences = record.silences.as_deref()?.iter().filter_map(|s| s.clip(record.window_ns));
    // A load of a number of requests ends with its last requests, when most connections have no
    // more requests to send. If one of the last requests hangs, no response arrives although the
    // server works. The load is in this state if some requests are in flight, but not the maximum.
    let is_wait_for_last_requests = |silence: &Silence| {
        result.config.requests.is_some()
            && silence.end_ns >= record.window_ns.1
            && (1..result.max_in_flight()).contains(&silence.in_flight)
    };
    let is_stall = |silence: &Silence| {
        silence.length_ns() as f64 > max_ns
            && !is_wait_for_last_requests(silence)
            && !is_generator_pause(record, silence)
    };
    Some(silences.filter(is_stall).collect())
}

/// Returns the stalls that a caveat reports: their starts and ends, in seconds since the load
/// began.
pub(super) fn reported_stalls(result: &LoadResult, record: &LoadRecord) -> Vec<(f64, f64)> {
    let is_reported =
        server_stall(result, record).is_some() || silent_outage(result, record).is_some();
    let stalls = stalls(result, record).filter(|_| is_reported).unwrap_or_default();
    stalls.iter().map(|s| (s.start_ns as f64 / 1e9, s.end_ns as f64 / 1e9)).collect()
}

/// Whether a pause of the generator explains a silence: the pause may overlap it, and is longer
/// than half of it. A pause is recorded in the interval in which it began.
fn is_generator_pause(record: &LoadRecord, silence: &Silence) -> bool {
    let overlaps = |i: &&Interval| {
        let latest_end_ns = i.end_ns + longest_lag_ns(i);
        i.start_ns < silence.end_ns && latest_end_ns > silence.start_ns
    };
    let longest_ns = record.intervals.iter().filter(overlaps).map(longest_lag_ns).max();
    longest_ns.is_some_and(|pause_ns| pause_ns * 2 > silence.length_ns())
}

/// Returns the longest turn of the event loop, or the latest wake-up, of any worker in an interval.
fn longest_lag_ns(interval: &Interval) -> u64 {
    interval.loop_lag.max().max(interval.wake_lag.max()).unwrap_or(0)
}

/// The server was down or hung for a part of the window, or for a part of the connections.
pub(super) fn outage(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    silent_outage(result, record).or_else(|| hung_connections(result, record))
}

/// The server served only a part of the connections. In a closed loop a hung connection sends no
/// further request, so the share of failed requests hides it. The difference between the requests
/// in flight and those that got a response shows it. By Little's law, the latter are the responses
/// per second times the mean response time.
fn hung_connections(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let config = &result.config;
    // The last requests of a number of requests wait alone. Requests that the user's early end cut
    // off did not hang, nor did requests to a server that ended.
    let has_ended_early = record.cut_short || record.server_failure.is_some();
    if config.model != LoadModel::Closed || config.requests.is_some() || has_ended_early {
        return None;
    }
    let (times, _) = responses(record);
    let mean_s = times.mean()? / 1e9;
    // Little's law holds for a window that is long compared with a response.
    if mean_s * MIN_RESPONSES > result.duration_s {
        return None;
    }
    let in_flight = result.in_flight.mean;
    let hung = in_flight - responses_per_second(record) * mean_s;
    let unanswered = result.exchanges.lost_count() + carried_failures(record);
    let are_many = hung > 0.0 && hung >= OUTAGE_SHARE * in_flight;
    (are_many && unanswered > 0 && !lacks_ports(result)).then(|| {
        let message = format!(
            "On average {hung:.1} of the {in_flight:.1} requests in flight were requests that got \
             no response ({unanswered} in all). The throughput is what the server reached with the \
             others. The server may serve only some of the connections at once, or may not respond \
             to some requests. Check its log and its number of workers, or use fewer connections \
             (`-c`)."
        );
        let evidence = json!({"hung": hung, "in_flight": in_flight, "unanswered": unanswered});
        Caveat::new(Code::OUTAGE, Severity::Invalid, message, evidence)
    })
}

/// Whether most requests that failed did so because no local port was left. The server is then not
/// the cause.
fn lacks_ports(result: &LoadResult) -> bool {
    2 * result.outcomes.get(Outcome::AddressExhausted) > result.exchanges.failed
}

/// Returns the number of requests that began before the window and got no response.
fn carried_failures(record: &LoadRecord) -> u64 {
    let after_warmup = record.intervals.iter().filter(|i| i.phase != Phase::Warmup);
    let failures = after_warmup.flat_map(|i| i.carried.not_ok());
    failures.filter(|(outcome, _)| !outcome.is_completed()).map(|(_, n)| n).sum()
}

/// The server sent no response for a part of the window, and requests failed in that time. The rule
/// uses the length of that time, because failed requests may be few: the generator waits longer
/// after each failed connection. In an open loop, few connections may fail while all requests wait
/// for them.
///
/// Requests may also hang one by one until none is left that could get a response. In that case the
/// server may still respond to other requests, so the message names both possibilities.
fn silent_outage(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let mut stalls = stalls(result, record)?;
    // Requests that are in flight after the drain have no response either.
    let is_unanswered = |silence: &Silence| {
        silence.end_ns >= record.window_ns.1 && result.exchanges.in_flight_at_end > 0
    };
    stalls.retain(|silence| silence.failures_ns.is_some() || is_unanswered(silence));
    let longest = stalls.iter().max_by_key(|silence| silence.length_ns())?;
    let total_ns: u64 = stalls.iter().map(Silence::length_ns).sum();
    let share = total_ns as f64 / loaded_ns(record);
    // Requests that only failed to connect did not hang.
    let failures = || result.outcomes.not_ok().filter(|(_, n)| *n > 0);
    let only_connections_failed = failures().next().is_some()
        && failures().all(|(outcome, _)| is_connect_failure(outcome))
        && result.exchanges.in_flight_at_end == 0;
    (share >= OUTAGE_SHARE && !lacks_ports(result)).then(|| {
        let state_text = match longest.in_flight {
            _ if only_connections_failed => "The server was down or hung".to_string(),
            0 => "The server was down or hung".to_string(),
            1 => "The server was down or hung, or the only request in flight hung".to_string(),
            n => format!("The server was down or hung, or all {n} requests in flight hung"),
        };
        let message = format!(
            "{state_text}: no response arrived for {} of the window, and requests of that time \
             failed or got no response. The throughput is an average over times with and without \
             responses. Look for the reason in the server's log, and repeat the step.",
            percent(share)
        );
        let evidence = json!({
            "share": share, "stalls": stalls.len(),
            "longest_s": longest.length_ns() as f64 / 1e9, "in_flight": longest.in_flight,
        });
        Caveat::new(Code::OUTAGE, Severity::Invalid, message, evidence)
    })
}

/// Whether a request failed before it had a connection.
const fn is_connect_failure(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::ConnectRefused
            | Outcome::ConnectTimeout
            | Outcome::ConnectReset
            | Outcome::AddressExhausted
            | Outcome::ConnectFailed
    )
}

/// The server sent no response for a while. A closed loop sends no requests in that time. Therefore
/// only a few requests show the stall. It is unknown whether the server would have responded to
/// other requests, so the estimate for an open loop names that condition.
pub(super) fn server_stall(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let is_closed = result.config.model == LoadModel::Closed;
    let stalls = stalls(result, record).filter(|_| is_closed)?;
    let median_ns = median_ns(record)? as f64;
    let longest = stalls.iter().max_by_key(|silence| silence.length_ns())?;
    let lengths: Vec<u64> = stalls.iter().map(Silence::length_ns).collect();
    let (loaded_ns, length_ns) = (loaded_ns(record), longest.length_ns());
    let share = lengths.iter().sum::<u64>() as f64 / loaded_ns;
    if share <= PAUSE_SHARE {
        return None;
    }
    let open_p99_ns = median_ns + exceeded_wait(&lengths, loaded_ns * SHARE_ABOVE_P99);
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
         {} of the window. A closed loop sends no requests during a stall, so the percentiles \
         hardly show the stall. In an open loop at the same rate, p99 would be at least {} (an \
         estimate) if the server stalled for all requests. Use `--rate` to measure it.",
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
    Some(Caveat::new(Code::STALLED, Severity::Warning, message, evidence))
}

/// Formats a time: in ms below 0.1 s, otherwise in s.
fn duration(ns: f64) -> String {
    if ns < 1e8 { format!("{:.0} ms", ns / 1e6) } else { format!("{:.2} s", ns / 1e9) }
}

/// Returns the median response time, even of a few requests: a slow server has too few of them for
/// the reported percentiles. If most requests failed, it is the median of the correct responses,
/// because a server that is down for most of the window fails most requests. `None`: no correct
/// response.
fn median_ns(record: &LoadRecord) -> Option<u64> {
    let (times, missing) = crate::load::responses(record);
    crate::load::value_at_quantile(&times, missing.count, 0.5).or_else(|| times.quantile(0.5))
}

/// Returns the part of the window in which this server was loaded, nanoseconds. If servers were
/// loaded in turns, it is the sum of this server's turns.
fn loaded_ns(record: &LoadRecord) -> f64 {
    let (opens_ns, closes_ns) = record.window_ns;
    let in_window_ns = |(start_ns, end_ns): &(u64, u64)| {
        (*end_ns).min(closes_ns).saturating_sub((*start_ns).max(opens_ns))
    };
    let turns_ns = record.slices_ns.as_deref().map(|turns| turns.iter().map(in_window_ns).sum());
    turns_ns.unwrap_or(closes_ns.saturating_sub(opens_ns)) as f64
}

/// Returns a wait that is exceeded only by requests that arrive in `time_ns` of the window. The
/// model assumes that requests arrive evenly, and that a request which arrives in a stall waits for
/// the end of the stall. The result is a lower bound, because after a stall the server has a
/// backlog.
///
/// In a stall longer than the wait, requests exceed the wait if they arrive in the first
/// `stall - wait` of it. With k stalls that are longer than the wait:
///
/// `time_ns = sum of the k stalls - k * wait`
fn exceeded_wait(stalls_ns: &[u64], time_ns: f64) -> f64 {
    let mut longest_first: Vec<f64> = stalls_ns.iter().map(|ns| *ns as f64).collect();
    longest_first.sort_by(|a, b| b.total_cmp(a));
    let mut sum = 0.0;
    for (n, length) in longest_first.iter().enumerate() {
        sum += length;
        let wait = (sum - time_ns) / (n + 1) as f64;
        // The wait is final if the next stall, and so each further one, is not longer.
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
            let wait = exceeded_wait(&stalls, WINDOW_NS as f64 * SHARE_ABOVE_P99);
            let longer: u64 = stalls.iter().map(|length| length.saturating_sub(wait as u64)).sum();
            let total: u64 = stalls.iter().sum();
            let expected = total.min((WINDOW_NS as f64 * SHARE_ABOVE_P99) as u64);
            assert!(
                longer.abs_diff(expected) <= stalls.len() as u64,
                "{stalls:?}: {wait}, {longer}"
            );
        }
    }
}
