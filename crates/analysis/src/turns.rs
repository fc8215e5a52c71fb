//! Evaluates loads that took turns: subjects run at the same time, and one after the other is
//! loaded for a slice of time.
//!
//! Rates refer only to a load's own turns. The turns also show what a server does while it is idle.

mod others_turns;

use std::borrow::Cow;

use dyno_model::cpus::AllowedCpus;
use dyno_model::runtime::RuntimeReading;
use dyno_model::silence::Silence;
use dyno_model::{Interval, LoadRecord, Party, Phase, Sample};
use schemars::JsonSchema;
use serde::Serialize;

use crate::server::{ServerUse, Stretch};

/// A trial whose load took turns with the loads of other subjects.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TurnsResult {
    /// Length of a turn.
    pub slice_s: f64,
    /// Start of the load, on the machine's monotonic clock. Loads with the same start took turns
    /// with each other.
    pub began_ns: u64,
    /// CPUs that the subject used in other subjects' turns. A quarter of a turn after each of its
    /// own turns is excluded. `None`: the CPU time could not be read, or no pause was that long.
    pub idle_cpus: Option<f64>,
    /// `idle_cpus` as a share of the CPUs that the subject used in its own turns.
    pub idle_share: Option<f64>,
    /// CPU time used in all turns of other subjects, as a share of the CPU time in its own turns.
    /// CPU time per request is higher by this share.
    pub carried_share: Option<f64>,
    /// Correct responses per second of its own turns, without the first quarter of each turn.
    pub throughput_rps: Option<f64>,
    /// Rounds in order of time. Rounds with the same number are compared with each other.
    pub rounds: Vec<RoundResult>,
}

/// A round of turns: two of each subject, in mirrored order (such as A, B, B, A).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RoundResult {
    /// Correct responses per second of the subject's own turns, without the first quarter of each
    /// turn.
    pub throughput_rps: Option<f64>,
    /// The subject's CPU time per response, between the samples nearest to the ends of the round.
    pub cpu_us_per_request: Option<f64>,
}

/// The first 1/4 of a turn is excluded from comparisons, because caches still contain another
/// server's data.
const EDGE_FRACTION: u64 = 4;

/// Largest share of the time between two samples that may lie in other loads' turns, for their
/// difference to be that of own turns. The sample of the end of a turn is taken slightly after it.
const MAX_OTHERS_SHARE: f64 = 0.05;

/// Minimum share of the own time in the window that such pairs of samples cover. With fewer, use
/// per unit of time is unknown.
const MIN_COVERED: f64 = 0.5;

impl TurnsResult {
    /// Returns the turns of a trial; `None`: the load did not take turns.
    #[must_use]
    pub fn new(record: &LoadRecord, party: Party) -> Option<TurnsResult> {
        let turns = Turns::from_record(record)?;
        let length_ns = turns.0.first().map(|(start, end)| end - start)?;
        let cpus = |within: &dyn Fn(u64, u64) -> bool| cpus_in(record, party, within);
        // The midpoint is checked, too, because a turn may lie between two distant samples.
        let is_idle = |at| turns.is_idle(at, length_ns / EDGE_FRACTION);
        let idle_cpus = cpus(&|from, to| [from, to, from.midpoint(to)].into_iter().all(is_idle));
        // The sample of the end of a turn is taken slightly after that end.
        let busy_cpus = cpus(&|from, to| {
            turns.is_own(from)
                && turns.is_own(from.midpoint(to))
                && to - from <= length_ns + length_ns / EDGE_FRACTION
        });
        let idle_share = idle_cpus
            .zip(busy_cpus)
            .map(|(idle, busy)| idle / busy)
            .filter(|share| share.is_finite());
        let (opens, closes) = record.window_ns;
        let own_ns = turns.own_ns(closes) - turns.own_ns(opens);
        let others_per_own = closes.saturating_sub(opens) as f64 / own_ns.max(1) as f64 - 1.0;
        Some(TurnsResult {
            slice_s: length_ns as f64 / 1e9,
            began_ns: record.began_ns,
            idle_cpus,
            idle_share,
            carried_share: idle_share.map(|share| share * others_per_own),
            throughput_rps: turns.inner_rate(record, record.window_ns),
            rounds: turns
                .rounds(record.window_ns)
                .map(|round| turns.round(record, party, round))
                .collect(),
        })
    }
}

impl TurnsResult {
    /// Returns the turns with the CPU time only if the CPU time of the server in the whole window
    /// is known. A part that is missing there is missing in the turns, too.
    pub(crate) fn with_cpu_of(&self, server: &ServerUse) -> TurnsResult {
        if server.cpus.is_some() || server.cpu_us_per_request.is_some() {
            return self.clone();
        }
        let without_cpu = |round: &RoundResult| RoundResult { cpu_us_per_request: None, ..*round };
        TurnsResult {
            idle_cpus: None,
            idle_share: None,
            carried_share: None,
            rounds: self.rounds.iter().map(without_cpu).collect(),
            ..self.clone()
        }
    }
}

/// Returns the correct responses per second in each round of a load that took turns, divided by
/// their mean. `None`: the load took no turns, or a round had no correct response.
pub(crate) fn pace(record: &LoadRecord) -> Option<Vec<f64>> {
    let turns = Turns::from_record(record)?;
    let rounds = turns.rounds(record.window_ns).map(|round| turns.inner_rate(record, round));
    let rates: Vec<f64> = rounds.collect::<Option<_>>()?;
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    rates.iter().all(|rate| *rate > 0.0).then(|| rates.iter().map(|rate| rate / mean).collect())
}

/// Returns the record with the time of other loads' turns removed, so that rates and curves refer
/// to the load's own time. Responses after a turn are added to that turn.
pub(crate) fn to_own_time(record: &LoadRecord) -> Cow<'_, LoadRecord> {
    let Some(turns) = Turns::from_record(record) else { return Cow::Borrowed(record) };
    let closes = record.window_ns.1;
    // The drain begins when the window closes, regardless of turns.
    let own_time = |at: u64| turns.own_ns(at) + at.saturating_sub(closes);
    // Instants before the load are unchanged.
    let on_clock =
        |at: u64| at.checked_sub(record.began_ns).map_or(at, |at| record.began_ns + own_time(at));
    let mut samples: Vec<Sample> = Vec::new();
    for mut sample in others_turns::samples_without_others_turns(record, &turns) {
        sample.at_ns = on_clock(sample.at_ns);
        // Between two turns, only the last sample remains, because work after a turn belongs to it.
        if let Some(before) = samples.pop_if(|last| last.at_ns >= sample.at_ns) {
            copy_sockets(before, &mut sample);
        }
        samples.push(sample);
    }
    let mut runtime = record.runtime.clone();
    runtime.iter_mut().for_each(|reading| reading.at_ns = on_clock(reading.at_ns));
    runtime.dedup_by(|later, retained| {
        let is_same = later.at_ns <= retained.at_ns;
        if is_same {
            std::mem::swap(later, retained);
        }
        is_same
    });
    Cow::Owned(LoadRecord {
        window_ns: (own_time(record.window_ns.0), own_time(closes)),
        slices_ns: None,
        intervals: own_intervals(record, &turns, own_time),
        samples,
        runtime,
        silences: record.silences.as_deref().map(|all| own_silences(all, own_time)),
        ..record.clone()
    })
}

/// Returns a server's use in a load, with all values per unit of time from the load's own turns.
/// The use in other loads' turns belongs to the server's requests, but not to the time of its
/// turns.
/// Values that the samples do not show for own turns alone are unknown. `record`: with its turns. A
/// load without turns is unchanged.
pub(crate) fn with_own_rates(
    server: ServerUse,
    (record, party): (&LoadRecord, Party),
    allowed: &AllowedCpus,
) -> ServerUse {
    let Some(turns) = Turns::from_record(record) else { return server };
    let since = |sample: &Sample| sample.at_ns.saturating_sub(record.began_ns);
    let stretches = record.samples.windows(2).filter_map(|pair| {
        let [from, to] = pair else { return None };
        let own_ns = turns.own_ns(since(from)).midpoint(turns.own_ns(since(to)));
        turns.is_own_stretch(since(from), since(to)).then_some(Stretch {
            from,
            to,
            middle_s: own_ns as f64 / 1e9,
        })
    });
    let all: Vec<Stretch<'_>> = stretches.collect();
    let (opens, closes) = record.window_ns;
    let is_in_window =
        |s: &&Stretch<'_>| (opens..=closes).contains(&since(s.from).midpoint(since(s.to)));
    let window: Vec<Stretch<'_>> = all.iter().filter(is_in_window).copied().collect();
    let covered_ns: u64 =
        window.iter().map(|s| turns.own_ns(since(s.to)) - turns.own_ns(since(s.from))).sum();
    let own_ns = turns.own_ns(closes) - turns.own_ns(opens);
    let has_enough = covered_ns as f64 >= MIN_COVERED * own_ns as f64;
    let window = if has_enough { &window[..] } else { &[] };
    let mut server = server.with_rates_in((window, &all), (record, party), allowed);
    let pairs = readings_of_own_turns(record, &turns);
    server.runtime = server.runtime.map(|metrics| metrics.with_growth_between(&pairs));
    server
}

/// Returns the pairs of successive readings of the runtime in the load's own turns within the
/// window. Empty: they cover too little of the own time.
fn readings_of_own_turns<'r>(
    record: &'r LoadRecord,
    turns: &Turns<'_>,
) -> Vec<(&'r RuntimeReading, &'r RuntimeReading)> {
    let (opens, closes) = record.window_ns;
    let since = |reading: &RuntimeReading| reading.at_ns.saturating_sub(record.began_ns);
    let pairs = record.runtime.windows(2).filter_map(|pair| {
        let [from, to] = pair else { return None };
        let (start, end) = (since(from), since(to));
        (start >= opens && end <= closes && turns.is_own_stretch(start, end)).then_some((from, to))
    });
    let pairs: Vec<_> = pairs.collect();
    let covered_ns: u64 = pairs.iter().map(|(from, to)| to.at_ns - from.at_ns).sum();
    let own_ns = turns.own_ns(closes) - turns.own_ns(opens);
    if covered_ns as f64 >= MIN_COVERED * own_ns as f64 { pairs } else { Vec::new() }
}

/// Returns the silences (periods without a complete response) in the load's own time, without
/// silences in other loads' turns.
fn own_silences(silences: &[Silence], own_time: impl Fn(u64) -> u64) -> Vec<Silence> {
    let silences_in_own_time = silences.iter().map(|s| Silence {
        start_ns: own_time(s.start_ns),
        busy_ns: own_time(s.busy_ns),
        end_ns: own_time(s.end_ns),
        failures_ns: s.failures_ns.map(|(first, last)| (own_time(first), own_time(last))),
        ..*s
    });
    silences_in_own_time.filter(|s| s.start_ns < s.end_ns).collect()
}

/// Copies the sockets to a later sample, because they are read in only one sample.
fn copy_sockets(before: Sample, sample: &mut Sample) {
    for used in before.parties.into_iter().filter(|used| used.sockets.is_some()) {
        if sample.party_use(used.party).is_some_and(|now| now.sockets.is_none()) {
            sample.party_use_mut(used.party).sockets = used.sockets;
        }
    }
}

/// Returns the intervals of the load's own turns and of the drain. Each includes the requests that
/// ended in the other loads' turns after it.
fn own_intervals(
    record: &LoadRecord,
    turns: &Turns<'_>,
    own_time: impl Fn(u64) -> u64,
) -> Vec<Interval> {
    let mut intervals: Vec<Interval> = Vec::new();
    // Requests that ended in other loads' turns before the first own turn of a phase.
    let mut before: Option<Interval> = None;
    for interval in &record.intervals {
        let (start_ns, end_ns) = (own_time(interval.start_ns), own_time(interval.end_ns));
        let moved = Interval { start_ns, end_ns, ..interval.clone() };
        let is_own = interval.phase == Phase::Drain || turns.is_own(interval.start_ns);
        if is_own {
            let own = match before.take().filter(|before| before.phase == moved.phase) {
                Some(mut before) => {
                    before.extend(&moved);
                    before
                }
                None => moved,
            };
            intervals.push(own);
            continue;
        }
        match intervals.last_mut().filter(|last| last.phase == moved.phase) {
            Some(last) => last.extend(&moved),
            None => match &mut before {
                Some(before) if before.phase == moved.phase => before.extend(&moved),
                _ => before = Some(moved),
            },
        }
    }
    intervals
}

/// Starts and ends of the turns of a load, in order, in nanoseconds since the load began.
struct Turns<'a>(&'a [(u64, u64)]);

impl<'a> Turns<'a> {
    /// Returns the turns of a load; `None`: the load took no turns.
    fn from_record(record: &'a LoadRecord) -> Option<Self> {
        record.slices_ns.as_deref().filter(|slices| !slices.is_empty()).map(Turns)
    }

    /// Returns the time of the load's own turns until an instant, nanoseconds.
    fn own_ns(&self, at: u64) -> u64 {
        let passed = self.0.iter().take_while(|(start, _)| *start < at);
        passed.map(|(start, end)| at.min(*end) - start).sum()
    }

    /// Returns the share of a period that belongs to other loads' turns: 0 to 1.
    fn others_share(&self, from: u64, to: u64) -> f64 {
        let own_ns = self.own_ns(to).saturating_sub(self.own_ns(from));
        1.0 - own_ns as f64 / to.saturating_sub(from).max(1) as f64
    }

    /// Whether an instant is in one of the load's own turns.
    fn is_own(&self, at: u64) -> bool {
        self.0.iter().any(|(start, end)| (*start..*end).contains(&at))
    }

    /// Whether a period lies in the load's own turns.
    fn is_own_stretch(&self, from: u64, to: u64) -> bool {
        from < to && self.others_share(from, to) <= MAX_OTHERS_SHARE
    }

    /// Whether an instant is in another load's turn, at least `since_ns` after the last own turn.
    fn is_idle(&self, at: u64, since_ns: u64) -> bool {
        let ends = self.0.iter().map(|(_, end)| *end).take_while(|end| *end <= at);
        !self.is_own(at) && ends.last().is_none_or(|end| at - end >= since_ns)
    }

    /// Returns the start and end of each round of the measured window, which has only whole rounds.
    fn rounds(&self, (opens, closes): (u64, u64)) -> impl Iterator<Item = (u64, u64)> {
        let full_turns =
            self.0.iter().filter(|(start, end)| *start >= opens && *end <= closes).count() as u64;
        let rounds = full_turns / 2;
        let length_ns = closes.saturating_sub(opens).checked_div(rounds).unwrap_or(0);
        (0..rounds).map(move |k| (opens + k * length_ns, opens + (k + 1) * length_ns))
    }

    /// Returns the correct responses per second of the own turns within a period, without the first
    /// quarter of each turn. Responses after a turn are excluded, too. About as many responses to
    /// requests of the first quarter are included.
    fn inner_rate(&self, record: &LoadRecord, within: (u64, u64)) -> Option<f64> {
        let is_inner = |interval: &&Interval| {
            self.0.iter().any(|(start, end)| {
                interval.start_ns >= start + (end - start) / EDGE_FRACTION
                    && interval.end_ns <= *end
            })
        };
        let inner = || measured_intervals(record, within).filter(is_inner);
        let inner_ns: u64 = inner().map(|interval| interval.end_ns - interval.start_ns).sum();
        let correct: u64 = inner().map(Interval::correct_responses).sum();
        (inner_ns > 0).then(|| correct as f64 / (inner_ns as f64 / 1e9))
    }

    /// Returns the result of the round between two instants.
    fn round(&self, record: &LoadRecord, party: Party, (from, to): (u64, u64)) -> RoundResult {
        RoundResult {
            throughput_rps: self.inner_rate(record, (from, to)),
            cpu_us_per_request: cpu_us_per_request(record, party, (from, to)),
        }
    }
}

/// Returns a party's CPU time per response between two instants (nanoseconds since the load began),
/// in microseconds. CPU time is measured between the samples nearest to these instants.
pub(crate) fn cpu_us_per_request(
    record: &LoadRecord,
    party: Party,
    (from, to): (u64, u64),
) -> Option<f64> {
    let responses: u64 = measured_intervals(record, (from, to)).map(Interval::responses).sum();
    let nearest = |at: u64| {
        record.samples.iter().min_by_key(|sample| sample.at_ns.abs_diff(record.began_ns + at))
    };
    let cpu_ns = cpu_between(nearest(from)?, nearest(to)?, party)?;
    (responses > 0).then(|| cpu_ns as f64 / 1e3 / responses as f64)
}

/// Returns the measured intervals within a period.
pub(crate) fn measured_intervals(
    record: &LoadRecord,
    (from, to): (u64, u64),
) -> impl Iterator<Item = &Interval> {
    let within = move |interval: &&Interval| interval.start_ns >= from && interval.end_ns <= to;
    record.intervals.iter().filter(|interval| interval.phase == Phase::Measured).filter(within)
}

/// Returns the mean number of CPUs that a party used in the window, over the pairs of neighbouring
/// samples that `is_selected` accepts.
fn cpus_in(
    record: &LoadRecord,
    party: Party,
    is_selected: &dyn Fn(u64, u64) -> bool,
) -> Option<f64> {
    let since = |sample: &Sample| sample.at_ns.saturating_sub(record.began_ns);
    let (opens, closes) = record.window_ns;
    let (mut cpu_ns, mut time_ns) = (0, 0);
    for pair in record.samples.windows(2) {
        let (from, to) = (since(&pair[0]), since(&pair[1]));
        if from >= opens && to <= closes && is_selected(from, to) {
            cpu_ns += cpu_between(&pair[0], &pair[1], party)?;
            time_ns += to - from;
        }
    }
    (time_ns > 0).then(|| cpu_ns as f64 / time_ns as f64)
}

/// Returns the CPU time of a party between two samples, nanoseconds.
fn cpu_between(first: &Sample, last: &Sample, party: Party) -> Option<u64> {
    // The difference is negative if a process ended for which no parent waited.
    last.party_use(party)?.cpu_ns()?.checked_sub(first.party_use(party)?.cpu_ns()?)
}

#[cfg(test)]
mod tests;
