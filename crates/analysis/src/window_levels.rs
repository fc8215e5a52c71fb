//! Levels of throughput, and of CPU time per response, within the measured window of a trial.
//!
//! Barrett et al. ("Virtual machine warmup blows hot and cold", OOPSLA 2017) cut a series of times
//! into pieces of one level each and classify it: flat, warm-up, slowdown, or no steady state. Here
//! the series are by interval, or by round of turns, and the pieces are those of PELT
//! ([`crate::stats::changes`]). Two levels count as different only if they differ by more than a
//! bound.

use std::ops::Range;

use dyno_archive::Phase;
use schemars::JsonSchema;
use serde::Serialize;

use crate::load::{IntervalResult, LoadResult};
use crate::server::ServerUse;
use crate::stats::{changes, median};
use crate::turns::{RoundResult, TurnsResult};

/// Fewest intervals that distinguish levels from noise.
pub const INTERVALS: usize = 10;

/// Least share of the window that the highest level must last at its end to count as a level.
const LASTS: f64 = 0.2;

/// Least relative difference between two levels.
const ANOTHER_LEVEL: f64 = 0.05;

/// Fewest intervals of a piece.
const PIECE: usize = 3;

/// Cost of a change, in variances of the noise and logarithms of the length. It is above the 2 of
/// Schwarz's criterion, because the noise of neighbouring intervals is correlated.
const PENALTY: f64 = 4.0;

/// Least assumed noise, as a share: constant values have none.
const MIN_NOISE: f64 = 0.003;

/// Levels of throughput within the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Steadiness {
    pub pattern: Pattern,
    /// Pieces of one level each, in order of time.
    pub pieces: Vec<Piece>,
    /// Level of the last piece, as a multiple of the first.
    pub last_to_first: f64,
    /// Levels of the CPU time per response; `None`: not known for every interval.
    pub cost: Option<CostSteadiness>,
    /// Instant from which the window counts, since the load began: a server that got faster counts
    /// by its last level. `None`: all of it counts.
    pub counts_from_s: Option<f64>,
    /// Standard deviation of the intervals around their levels, in logarithms.
    #[serde(skip)]
    pub(crate) noise: f64,
}

impl Steadiness {
    /// Sets the instant from which the window counts, nanoseconds since the load began.
    pub(crate) fn counting_from(self, from_ns: Option<u64>) -> Steadiness {
        Steadiness { counts_from_s: from_ns.map(|ns| ns as f64 / 1e9), ..self }
    }
}

/// Pattern of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// One level.
    #[default]
    Flat,
    /// Ends on its highest level.
    WarmUp,
    /// It rose to the end, and its highest level lasts less than a fifth of the window.
    None,
    /// Ends below an earlier level.
    Slowdown,
    /// Goes up and down again.
    Cyclic,
}

/// A stretch of time on one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Piece {
    /// Since the load began.
    pub start_s: f64,
    pub end_s: f64,
    /// Mean of the intervals.
    pub throughput_rps: f64,
}

/// Levels of the CPU time per response within the measured window. A fall counts as warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostSteadiness {
    pub pattern: Pattern,
    /// Pieces of one level each, in order of time.
    pub pieces: Vec<CostPiece>,
    /// Standard deviation of the intervals around their levels, in logarithms.
    #[serde(skip)]
    pub(crate) noise: f64,
}

/// A stretch of time with one cost per response.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostPiece {
    /// Since the load began.
    pub start_s: f64,
    pub end_s: f64,
    /// CPU time per response, the mean of the intervals; microseconds.
    pub cpu_us_per_request: f64,
}

/// Measured values of an interval, or of a round of turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct IntervalValues {
    pub(crate) start_s: f64,
    pub(crate) end_s: f64,
    pub(crate) throughput_rps: f64,
    /// `None`: not known.
    pub(crate) cpu_us_per_request: Option<f64>,
    /// Median response time, microseconds; `None`: not known.
    pub(crate) response_us: Option<f64>,
}

/// The measured intervals of a load.
pub(crate) fn intervals(load: &LoadResult, server: &ServerUse) -> Vec<IntervalValues> {
    let seen = |interval: &IntervalResult| IntervalValues {
        start_s: interval.start_s,
        end_s: interval.end_s,
        throughput_rps: interval.throughput_rps,
        cpu_us_per_request: server
            .cpus_at_middle((interval.start_s, interval.end_s))
            .map(|cpus| cpus / interval.throughput_rps * 1e6),
        response_us: interval.response_time_us.p50,
    };
    load.intervals.iter().filter(|i| i.phase == Phase::Measured).map(seen).collect()
}

/// Returns the rounds of turns, on the clock of the load's own time.
pub(crate) fn rounds(
    turns: &TurnsResult,
    (opens_ns, closes_ns): (u64, u64),
) -> Vec<IntervalValues> {
    let each_s = closes_ns.saturating_sub(opens_ns) as f64 / 1e9 / turns.rounds.len().max(1) as f64;
    let seen = |(place, round): (usize, &RoundResult)| {
        let start_s = opens_ns as f64 / 1e9 + place as f64 * each_s;
        let end_s = start_s + each_s;
        let throughput_rps = round.throughput_rps.unwrap_or(f64::NAN);
        let cpu_us_per_request = round.cpu_us_per_request;
        IntervalValues { start_s, end_s, throughput_rps, cpu_us_per_request, response_us: None }
    };
    turns.rounds.iter().enumerate().map(seen).collect()
}

/// `None`: too few intervals, or too many without a response.
#[must_use]
pub(crate) fn steadiness(seen: &[IntervalValues]) -> Option<Steadiness> {
    let rates: Vec<f64> = seen.iter().map(|one| one.throughput_rps).collect();
    let piece = |(start_s, end_s, throughput_rps)| Piece { start_s, end_s, throughput_rps };
    let Fit { pieces, noise } = fit(seen, &rates)?;
    let pieces: Vec<Piece> = pieces.into_iter().map(piece).collect();
    let levels: Vec<(f64, f64)> =
        pieces.iter().map(|p| (p.throughput_rps, p.end_s - p.start_s)).collect();
    Some(Steadiness {
        pattern: pattern(&levels),
        last_to_first: levels[levels.len() - 1].0 / levels[0].0.max(half_a_response(&seen[0])),
        pieces,
        cost: cost(seen),
        counts_from_s: None,
        noise,
    })
}

fn cost(seen: &[IntervalValues]) -> Option<CostSteadiness> {
    let mut costs: Vec<f64> = Vec::with_capacity(seen.len());
    for one in seen {
        // An interval without a response has no cost per request, so the previous cost is kept.
        let before = costs.last().copied().filter(|_| one.throughput_rps == 0.0);
        costs.push(before.or(one.cpu_us_per_request)?);
    }
    let Fit { pieces, noise } = fit(seen, &costs)?;
    let piece =
        |(start_s, end_s, cpu_us_per_request)| CostPiece { start_s, end_s, cpu_us_per_request };
    let pieces: Vec<CostPiece> = pieces.into_iter().map(piece).collect();
    // Lower costs are better.
    let levels: Vec<(f64, f64)> =
        pieces.iter().map(|p| (1.0 / p.cpu_us_per_request, p.end_s - p.start_s)).collect();
    Some(CostSteadiness { pattern: pattern(&levels), pieces, noise })
}

/// A series as pieces of one level each.
pub(crate) struct Fit {
    /// Start, end and level of each piece.
    pub(crate) pieces: Vec<(f64, f64, f64)>,
    /// Standard deviation of the values around their levels, in logarithms.
    pub(crate) noise: f64,
}

/// Returns the pieces of a series. `None`: too few values, or one that has no logarithm.
pub(crate) fn fit(seen: &[IntervalValues], values: &[f64]) -> Option<Fit> {
    let logs: Vec<f64> = fill_gaps(seen, values)?.iter().map(|value| value.ln()).collect();
    if logs.len() < INTERVALS || logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    let ends = levels(&logs);
    let ranges: Vec<Range<usize>> = [0]
        .into_iter()
        .chain(ends.iter().copied())
        .zip(&ends)
        .map(|(from, to)| from..*to)
        .collect();
    let level = |range: &Range<usize>| match values[range.clone()].contains(&0.0) {
        // A geometric mean cannot include an interval without a response.
        true => mean(&values[range.clone()]),
        false => mean(&logs[range.clone()]).exp(),
    };
    let piece =
        |range: &Range<usize>| (seen[range.start].start_s, seen[range.end - 1].end_s, level(range));
    Some(Fit { pieces: ranges.iter().map(piece).collect(), noise: spread(&logs, &ranges) })
}

/// Largest share of intervals without a response. More of them mean that intervals are too short
/// for the rate, unless the others have [`MANY`] responses.
const EMPTY: f64 = 0.2;

/// Median number of responses in an interval with any from which on an empty one is no chance.
const MANY: f64 = 20.0;

/// The throughput of an interval with half a response, requests per second.
fn half_a_response(interval: &IntervalValues) -> f64 {
    0.5 / (interval.end_s - interval.start_s)
}

/// Returns the values, with half a response in an interval that had none. `None`: too many had
/// none.
fn fill_gaps(seen: &[IntervalValues], values: &[f64]) -> Option<Vec<f64>> {
    let empty = values.iter().filter(|value| **value == 0.0).count();
    let fill = |(one, value): (&IntervalValues, &f64)| match *value {
        0.0 => half_a_response(one),
        known => known,
    };
    let responses = |one: &IntervalValues| one.throughput_rps * (one.end_s - one.start_s);
    let answered: Vec<f64> = seen.iter().map(responses).filter(|number| *number > 0.0).collect();
    let is_known = empty as f64 <= EMPTY * values.len() as f64
        || median(&answered).is_some_and(|number| number >= MANY);
    is_known.then(|| seen.iter().zip(values).map(fill).collect())
}

/// Cap of one value in the spread, because stalls are outliers.
const FARTHEST: f64 = std::f64::consts::LN_2;

/// Returns the standard deviation of the values around the mean of their piece, with the degrees of
/// freedom that the pieces leave.
fn spread(logs: &[f64], pieces: &[Range<usize>]) -> f64 {
    let squares = pieces.iter().flat_map(|piece| {
        let own = &logs[piece.clone()];
        let level = median(own).unwrap_or(0.0);
        own.iter().map(move |log| (log - level).abs().min(FARTHEST).powi(2))
    });
    let freedom = logs.len().saturating_sub(pieces.len()).max(1);
    (squares.sum::<f64>() / freedom as f64).sqrt().max(MIN_NOISE)
}

/// Ends of the pieces on levels of their own.
fn levels(logs: &[f64]) -> Vec<usize> {
    let noise = noise(logs).max(MIN_NOISE);
    let penalty = PENALTY * noise * noise * (logs.len() as f64).ln();
    let mut ends = changes::segment_ends(&without_outliers(logs, noise), PIECE, penalty);
    // Neighbours with nearly the same level are merged: the closest first.
    loop {
        let start = |piece: usize| if piece == 0 { 0 } else { ends[piece - 1] };
        let level = |piece: usize| median(&logs[start(piece)..ends[piece]]).unwrap_or(0.0);
        let apart = |piece: usize| (level(piece + 1) - level(piece)).abs();
        let closest =
            (0..ends.len().saturating_sub(1)).min_by(|a, b| apart(*a).total_cmp(&apart(*b)));
        match closest.filter(|piece| apart(*piece) < ANOTHER_LEVEL.ln_1p()) {
            Some(piece) => {
                ends.remove(piece);
            }
            None => return ends,
        }
    }
}

/// Returns the standard deviation of the noise, from the differences of neighbours, in which a
/// change of level appears only once. It uses their median, so a stall in one interval does not
/// count.
fn noise(logs: &[f64]) -> f64 {
    let differences: Vec<f64> = logs.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    // The median of |x| of a normal distribution is 0.6745 of its deviation; a difference has the
    // noise of two.
    median(&differences).unwrap_or(0.0) / 0.6745 / std::f64::consts::SQRT_2
}

/// Returns the series without outliers: an interval far from both neighbours is no level.
fn without_outliers(logs: &[f64], noise: f64) -> Vec<f64> {
    const FAR: f64 = 4.0;
    let around =
        |i: usize| median(&logs[i.saturating_sub(2)..(i + 3).min(logs.len())]).unwrap_or(logs[i]);
    (0..logs.len())
        .map(|i| if (logs[i] - around(i)).abs() > FAR * noise { around(i) } else { logs[i] })
        .collect()
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// `levels`: each with how long it lasted.
fn pattern(levels: &[(f64, f64)]) -> Pattern {
    let rates: Vec<f64> = levels.iter().map(|(rate, _)| *rate).collect();
    let last = rates[rates.len() - 1];
    let lasts = levels[levels.len() - 1].1 / levels.iter().map(|(_, length)| length).sum::<f64>();
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let turns = rates
        .windows(3)
        .filter(|three| (three[1] - three[0]) * (three[2] - three[1]) < 0.0)
        .count();
    match rates.len() {
        1 => Pattern::Flat,
        // Up, down and up again, or down, up and down.
        _ if turns >= 2 => Pattern::Cyclic,
        _ if last >= highest / (1.0 + ANOTHER_LEVEL) && lasts < LASTS => Pattern::None,
        _ if last >= highest / (1.0 + ANOTHER_LEVEL) => Pattern::WarmUp,
        _ => Pattern::Slowdown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::draws::Normal;

    fn intervals(rates: &[f64]) -> Vec<IntervalValues> {
        let interval = |(k, rps): (usize, &f64)| IntervalValues {
            start_s: k as f64,
            end_s: (k + 1) as f64,
            throughput_rps: *rps,
            cpu_us_per_request: None,
            response_us: None,
        };
        rates.iter().enumerate().map(interval).collect()
    }

    /// Levels, each with its number of intervals, with this noise.
    fn series(levels: &[(f64, usize)], noise: f64, normal: &mut Normal) -> Vec<IntervalValues> {
        let all = levels.iter().flat_map(|(rps, n)| std::iter::repeat_n(*rps, *n));
        let rates: Vec<f64> = all.map(|rps| rps * (noise * normal.draw()).exp()).collect();
        intervals(&rates)
    }

    fn share(levels: &[(f64, usize)], noise: f64, pattern: Pattern) -> f64 {
        let mut normal = Normal(levels.len() as u64 + (noise * 1e4) as u64);
        const WORLDS: usize = 200;
        let is_it =
            |_: &usize| steadiness(&series(levels, noise, &mut normal)).unwrap().pattern == pattern;
        (0..WORLDS).filter(is_it).count() as f64 / WORLDS as f64
    }

    #[test]
    fn patterns_are_found_in_noise() {
        for noise in [0.0, 0.01, 0.02] {
            assert!(share(&[(1000.0, 30)], noise, Pattern::Flat) >= 0.95, "{noise}");
            assert!(share(&[(800.0, 10), (1000.0, 20)], noise, Pattern::WarmUp) >= 0.95, "{noise}");
            assert!(
                share(&[(500.0, 5), (800.0, 10), (1000.0, 20)], noise, Pattern::WarmUp) >= 0.95,
                "{noise}"
            );
            assert!(
                share(&[(1000.0, 20), (880.0, 10)], noise, Pattern::Slowdown) >= 0.95,
                "{noise}"
            );
            let cycle = [(1000.0, 6), (850.0, 6), (1000.0, 6), (850.0, 6), (1000.0, 6)];
            assert!(share(&cycle, noise, Pattern::Cyclic) >= 0.95, "{noise}");
        }
        // A series that rose at the very end may rise further.
        assert!(share(&[(500.0, 12), (800.0, 14), (1000.0, 4)], 0.01, Pattern::None) >= 0.95);
        // An irrelevant difference is not a separate level.
        assert!(share(&[(1000.0, 15), (1030.0, 15)], 0.005, Pattern::Flat) >= 0.95);
    }

    #[test]
    fn stall_is_no_level_and_pieces_have_times() {
        let mut rates = vec![1000.0; 20];
        rates[7] = 100.0;
        assert_eq!(steadiness(&intervals(&rates)).unwrap().pattern, Pattern::Flat);
        let found = steadiness(&intervals(&[vec![900.0; 8], vec![450.0; 12]].concat())).unwrap();
        assert_eq!(
            (found.pattern, found.pieces.len(), found.pieces[1].start_s),
            (Pattern::Slowdown, 2, 8.0)
        );
        assert!((found.last_to_first - 0.5).abs() < 1e-9);
    }

    #[test]
    fn cost_per_answer_has_levels_of_its_own() {
        let mut seen = intervals(&[1000.0; 20]);
        seen.iter_mut().enumerate().for_each(|(k, one)| {
            one.cpu_us_per_request = Some(if k < 8 { 30.0 } else { 20.0 });
        });
        let found = steadiness(&seen).unwrap();
        let cost = found.cost.unwrap();
        assert_eq!(
            (found.pattern, cost.pattern),
            (Pattern::Flat, Pattern::WarmUp),
            "cheaper, and no faster"
        );
        assert_eq!((cost.pieces.len(), cost.pieces[1].start_s), (2, 8.0));
        seen[3].cpu_us_per_request = None;
        assert_eq!(steadiness(&seen).unwrap().cost, None);
    }

    #[test]
    fn rounds_of_turns_are_placed_in_their_own_time() {
        let round = |rps| RoundResult { throughput_rps: Some(rps), cpu_us_per_request: None };
        let rounds_of = |rates: &[f64]| {
            let turns = TurnsResult {
                slice_s: 0.1,
                began_ns: 0,
                idle_cpus: None,
                idle_share: None,
                carried_share: None,
                throughput_rps: None,
                rounds: rates.iter().copied().map(round).collect(),
            };
            rounds(&turns, (1_000_000_000, 3_000_000_000))
        };
        let found = steadiness(&rounds_of(&[vec![900.0; 8], vec![450.0; 12]].concat())).unwrap();
        assert_eq!(found.pattern, Pattern::Slowdown);
        assert!(
            (found.pieces[1].start_s - 1.8).abs() < 1e-9
                && (found.pieces[1].end_s - 3.0).abs() < 1e-9
        );
        assert_eq!(steadiness(&rounds_of(&[])), None);
    }

    #[test]
    fn too_few_intervals_have_no_pattern() {
        assert_eq!(steadiness(&intervals(&[1000.0; 9])), None);
        let mut rates = vec![10.0; 20];
        (0..5).for_each(|k| rates[4 * k] = 0.0);
        assert_eq!(steadiness(&intervals(&rates)), None, "intervals are short for the rate");
    }

    /// A server that died in the middle of the window once had one level.
    #[test]
    fn busy_server_that_stops_has_a_level_of_nothing() {
        let found = steadiness(&intervals(&[[1000.0; 10], [0.0; 10]].concat())).unwrap();
        let levels: Vec<f64> =
            found.pieces.iter().map(|piece| piece.throughput_rps.round()).collect();
        assert_eq!((found.pattern, levels), (Pattern::Slowdown, vec![1000.0, 0.0]));
        let found = steadiness(&intervals(&[[0.0; 10], [1000.0; 10]].concat())).unwrap();
        assert_eq!((found.pattern, found.last_to_first.round()), (Pattern::WarmUp, 2000.0));
    }

    /// An interval in which nothing was answered once hid the levels of all others.
    #[test]
    fn stall_of_an_interval_hides_no_level() {
        let mut rates = [vec![400.0; 12], vec![1900.0; 18]].concat();
        rates[5] = 0.0;
        let found = steadiness(&intervals(&rates)).unwrap();
        let levels: Vec<f64> =
            found.pieces.iter().map(|piece| piece.throughput_rps.round()).collect();
        assert_eq!((found.pattern, levels), (Pattern::WarmUp, vec![367.0, 1900.0]));
        assert!(found.noise < 0.2, "{}", found.noise);
    }
}
