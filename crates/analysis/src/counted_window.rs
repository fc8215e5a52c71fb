//! Finds the part of a measured window that is used: only the last level of throughput if the
//! server became faster within the window.
//!
//! While a just-in-time compiler is active, a window covers two states of the server, and only the
//! later state lasts. The level of the later state is used alone if it covers half of the window or
//! more. A window is not shortened for a change of the machine, because that would select the
//! faster level.

use dyno_model::load::Books;
use dyno_model::outcome::Outcomes;
use dyno_model::plan::{LoadModel, StillWarming};
use dyno_model::{Interval, LoadRecord, Party, Phase, Sample};

use crate::load::{LoadConfig, LoadResult};
use crate::server::{ServerInterval, ServerUse};
use crate::turns::cpu_us_per_request;
use crate::verdict::thresholds::STEAL;
use crate::window_levels::{Pattern, Steadiness};

/// Minimum share of the window that the last level must cover.
const MIN_SHARE: f64 = 0.5;

/// Minimum share of the growth in throughput, in logarithms, that the CPU time per response must
/// explain.
const CPU_SHARE_OF_GROWTH: f64 = 0.5;

/// Minimum share of the server's CPU time that its compilers must have used before the last level.
/// During the last level, it must be less than half of that share. A faster machine lowers the CPU
/// time per response, too, so only compilers show that the server is the cause.
const MIN_JIT_SHARE: f64 = 0.05;

/// Returns the instant from which a trial's window is used, in nanoseconds since the load began;
/// `None`: the whole window is used. `load` and `server`: results of the whole window.
pub(crate) fn counted_start(
    record: &LoadRecord,
    party: Party,
    (load, server): (&LoadResult, &ServerUse),
    steadiness: &Steadiness,
) -> Option<u64> {
    let last = steadiness.pieces.last().filter(|_| steadiness.pattern == Pattern::WarmUp)?;
    let (opens, closes) = record.window_ns;
    let from_ns = interval_start(record, last.start_s)?;
    let share = closes.saturating_sub(from_ns) as f64 / closes.saturating_sub(opens).max(1) as f64;
    let cost = |period| cpu_us_per_request(record, party, period);
    let cost_ratio = cost((opens, from_ns))? / cost((from_ns, closes))?;
    let (jit_before, jit_after) =
        (jit_share(server, (opens, from_ns))?, jit_share(server, (from_ns, closes))?);
    let is_caused_by_server = cost_ratio >= steadiness.last_to_first.powf(CPU_SHARE_OF_GROWTH)
        && jit_before >= MIN_JIT_SHARE
        && jit_after < jit_before / 2.0
        && server.steal_share.is_some_and(|share| share <= STEAL);
    let is_removable = earlier_intervals(record, from_ns).all(has_only_correct_responses);
    (can_be_shortened(&load.config)
        && from_ns > opens
        && share >= MIN_SHARE
        && is_caused_by_server
        && is_removable)
        .then_some(from_ns)
}

/// Whether the window of a load can be shortened. It cannot in three cases:
///
/// - The load is an open loop, so that earlier requests affect later requests.
/// - Connections are opened during the window.
/// - The suite measures the warm-up.
fn can_be_shortened(config: &LoadConfig) -> bool {
    let is_ramped = config.ramp_connections_s.is_some_and(|ramp| ramp > config.warmup_s);
    config.model == LoadModel::Closed
        && !is_ramped
        && config.still_warming != StillWarming::Measured
}

/// Returns the share of the server's CPU time that its just-in-time compilers used in a period of
/// the load; `None`: unknown.
fn jit_share(server: &ServerUse, (from_ns, to_ns): (u64, u64)) -> Option<f64> {
    let (from_s, to_s) = (from_ns as f64 / 1e9, to_ns as f64 / 1e9);
    let is_within =
        |i: &&ServerInterval| (from_s..to_s).contains(&f64::midpoint(i.start_s, i.end_s));
    let sum = |pick: fn(&ServerInterval) -> Option<f64>| -> Option<f64> {
        server
            .intervals
            .iter()
            .filter(is_within)
            .map(|i| Some(pick(i)? * (i.end_s - i.start_s)))
            .sum()
    };
    let (jit, total) = (sum(|i| i.cpu_jit)?, sum(|i| i.cpu)?);
    (total > 0.0).then(|| jit / total)
}

/// Returns the start of the first measured interval that begins at an instant or later; `None`: no
/// such interval.
fn interval_start(record: &LoadRecord, at_s: f64) -> Option<u64> {
    let measured = record.intervals.iter().filter(|interval| interval.phase == Phase::Measured);
    let mut starts = measured.map(|interval| interval.start_ns);
    starts.find(|start_ns| *start_ns as f64 / 1e9 >= at_s)
}

/// Returns the measured intervals before an instant.
fn earlier_intervals(record: &LoadRecord, from_ns: u64) -> impl Iterator<Item = &Interval> {
    record.intervals.iter().filter(move |i| i.phase == Phase::Measured && i.start_ns < from_ns)
}

/// Whether an interval has only correct responses. Details of other outcomes are recorded only for
/// the whole window, so they could not be removed from it.
fn has_only_correct_responses(interval: &Interval) -> bool {
    let Interval { outcomes, carried, dropped, pages_completed, pages_failed, .. } = interval;
    outcomes.total() == outcomes.completed_count()
        && outcomes.incorrect_count() == 0
        && carried.total() == 0
        && dropped + pages_completed + pages_failed == 0
}

/// Returns the record of a load with a later start of its window. Requests in flight at that
/// instant are carried into the window.
pub(crate) fn with_later_window(record: &LoadRecord, from_ns: u64) -> LoadRecord {
    let mut ended_outcomes = Outcomes::default();
    earlier_intervals(record, from_ns).for_each(|interval| ended_outcomes.add(&interval.outcomes));
    let started: u64 = earlier_intervals(record, from_ns).map(|interval| interval.started).sum();
    let later = |mut interval: Interval| {
        if interval.phase == Phase::Measured && interval.start_ns < from_ns {
            interval.phase = Phase::Warmup;
        }
        interval
    };
    let Books { carried_in, scheduled, started: all, completed, .. } = record.books;
    LoadRecord {
        window_ns: (from_ns, record.window_ns.1),
        intervals: record.intervals.iter().cloned().map(later).collect(),
        books: Books {
            carried_in: (carried_in + started).saturating_sub(ended_outcomes.total()),
            scheduled: scheduled.saturating_sub(started),
            started: all.saturating_sub(ended_outcomes.total()),
            completed: completed.saturating_sub(ended_outcomes.completed_count()),
            ..record.books
        },
        // The ages of requests are recorded only for the instant at which the original window
        // opened.
        edges: None,
        samples: record.samples.iter().cloned().map(without_window_values).collect(),
        ..record.clone()
    }
}

/// Removes the values that probes read for the whole window from a sample.
fn without_window_values(mut sample: Sample) -> Sample {
    sample.parties.iter_mut().for_each(|used| used.accessed_bytes = None);
    sample
}

/// Returns a result with the responses of a later window. The generator's use, the kernel's
/// counters, HTTP/2 frames and caveats still describe the whole window.
pub(crate) fn result_in_window(full_window: LoadResult, later_window: LoadResult) -> LoadResult {
    let LoadResult { valid, caveats, client, tcp, http2, ceiling, .. } = full_window;
    LoadResult { valid, caveats, client, tcp, http2, ceiling, ..later_window }
}

#[cfg(test)]
mod tests {
    use dyno_model::outcome::Outcome;
    use dyno_model::sample::{CgroupUse, PartyUse};

    use super::*;
    use crate::fixture;
    use crate::window_levels::{intervals, steadiness};

    const S: u64 = 1_000_000_000;

    /// Returns a record with 1 s of warm-up, and measured seconds with these numbers of responses
    /// and CPU seconds. It has a sample at each edge.
    fn record(measured: &[(u64, f64)]) -> LoadRecord {
        let mut record = fixture::record(0);
        let all: Vec<(u64, f64)> = [(10, 1.0)].iter().chain(measured).copied().collect();
        let interval = |(k, (responses, _)): (usize, &(u64, f64))| {
            let phase = if k == 0 { Phase::Warmup } else { Phase::Measured };
            let mut interval = Interval::new(phase, k as u64 * S, (k as u64 + 1) * S);
            (0..*responses).for_each(|_| interval.outcomes.count(Outcome::Ok));
            interval.started = *responses;
            interval
        };
        let sample = |k: usize| {
            let cpu_s: f64 = all[..k].iter().map(|(_, cpu_s)| cpu_s).sum();
            let group = CgroupUse { cpu_ns: Some((cpu_s * 1e9) as u64), ..CgroupUse::default() };
            let used = PartyUse { cgroup: Some(group), ..PartyUse::empty(Party::SUBJECT) };
            Sample { at_ns: k as u64 * S, parties: vec![used], ..Sample::default() }
        };
        let responses: u64 = measured.iter().map(|(responses, _)| responses).sum();
        (record.began_ns, record.window_ns) = (0, (S, all.len() as u64 * S));
        record.intervals = all.iter().enumerate().map(interval).collect();
        record.samples = (0..=all.len()).map(sample).collect();
        record.books = Books {
            carried_in: 4,
            scheduled: responses,
            started: responses + 4,
            completed: responses,
            in_flight_at_end: 4,
            ..Books::default()
        };
        record
    }

    /// Returns the start of the counted part. `before`, `after`: share of the CPU time that
    /// compilers use before and after 6 s.
    fn counted_start_s(record: &LoadRecord, (before, after): (f64, f64)) -> Option<u64> {
        let load = fixture::result(record, None);
        let interval = |k: u32| ServerInterval {
            start_s: f64::from(k),
            end_s: f64::from(k + 1),
            cpu: Some(1.0),
            cpu_jit: Some(if k < 6 { before } else { after }),
            ..ServerInterval::default()
        };
        let server = ServerUse {
            steal_share: Some(0.0),
            intervals: (0..16).map(interval).collect(),
            ..ServerUse::default()
        };
        counted_start(
            record,
            Party::SUBJECT,
            (&load, &server),
            &steadiness(&intervals(&load, &server))?,
        )
        .map(|ns| ns / S)
    }

    const JIT_SHARES: (f64, f64) = (0.4, 0.05);

    fn levels(parts: &[(usize, u64, f64)]) -> Vec<(u64, f64)> {
        parts.iter().flat_map(|(n, responses, cpu_s)| vec![(*responses, *cpu_s); *n]).collect()
    }

    #[test]
    fn faster_server_uses_last_level() {
        let warming = record(&levels(&[(5, 500, 1.0), (10, 1000, 1.0)]));
        assert_eq!(counted_start_s(&warming, JIT_SHARES), Some(6));
        let later = with_later_window(&warming, 6 * S);
        assert!(later.books.balance(), "{:?}", later.books);
        assert_eq!(
            (later.books.completed, later.books.carried_in, later.window_ns),
            (10_000, 4, (6 * S, 16 * S))
        );
        assert_eq!(later.intervals.iter().filter(|i| i.phase == Phase::Warmup).count(), 6);
        let config = fixture::result(&warming, None).config;
        let result = crate::load::result(&later, config);
        assert_eq!(
            (result.throughput_rps, result.duration_s, result.exchanges.due()),
            (1000.0, 10.0, 10_004)
        );
    }

    /// A probe reads the memory that a server accessed only for the whole window.
    #[test]
    fn values_of_whole_window_are_unknown_in_later_window() {
        let mut warming = record(&levels(&[(5, 500, 1.0), (10, 1000, 1.0)]));
        let closing = warming.samples.last_mut().unwrap();
        closing.parties[0].accessed_bytes = Some(4096);
        let accessed = |record: &LoadRecord| {
            let subject = record.samples.last().unwrap().party_use(Party::SUBJECT).unwrap();
            subject.accessed_bytes
        };
        assert_eq!(accessed(&warming), Some(4096));
        assert_eq!(accessed(&with_later_window(&warming, 6 * S)), None);
    }

    #[test]
    fn machine_changes_and_short_levels_use_whole_window() {
        for (name, intervals) in [
            ("the machine got faster", levels(&[(5, 500, 0.5), (10, 1000, 1.0)])),
            ("the last level is too short", levels(&[(10, 500, 1.0), (5, 1000, 1.0)])),
            ("it got slower", levels(&[(5, 1000, 1.0), (10, 500, 1.0)])),
            ("one level", levels(&[(15, 1000, 1.0)])),
        ] {
            assert_eq!(counted_start_s(&record(&intervals), JIT_SHARES), None, "{name}");
        }
        let warming = levels(&[(5, 500, 1.0), (10, 1000, 1.0)]);
        for jit_shares in [(0.0, 0.0), (0.04, 0.0), (0.4, 0.3)] {
            assert_eq!(
                counted_start_s(&record(&warming), jit_shares),
                None,
                "no compiler ended its work: {jit_shares:?}"
            );
        }
        let mut failing = record(&levels(&[(5, 500, 1.0), (10, 1000, 1.0)]));
        failing.intervals[2].outcomes.count(Outcome::Timeout);
        assert_eq!(
            counted_start_s(&failing, JIT_SHARES),
            None,
            "ages of failures refer to the whole window"
        );
        let unknown = LoadRecord {
            samples: Vec::new(),
            ..record(&levels(&[(5, 500, 1.0), (10, 1000, 1.0)]))
        };
        assert_eq!(counted_start_s(&unknown, JIT_SHARES), None, "cause of the levels is unknown");
    }
}
