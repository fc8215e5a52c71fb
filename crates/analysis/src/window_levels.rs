//! Finds levels of throughput, and of CPU time per response, within the measured window of a trial.
//!
//! A mean over several levels is a throughput that the server did not sustain. Barrett et al.
//! ("Virtual machine warmup blows hot and cold", OOPSLA 2017) divide a series into pieces of one
//! level each and classify it: flat, warm-up, slowdown, or no steady state. Here the series are by
//! interval, or by round of turns, and [`crate::stats::changes`] finds the pieces. Neighbouring
//! levels with a small difference are merged.

use std::ops::Range;

use dyno_model::Phase;
use schemars::JsonSchema;
use serde::Serialize;

use crate::load::{IntervalResult, LoadResult};
use crate::server::ServerUse;
use crate::stats::{changes, median};
use crate::turns::{RoundResult, TurnsResult};

/// Minimum number of intervals for levels to be distinguished from noise.
pub const MIN_INTERVALS: usize = 10;

/// Minimum share of the window that the last level must cover for the pattern [`Pattern::WarmUp`].
const MIN_LAST_SHARE: f64 = 0.2;

/// Minimum relative difference between two levels.
const MIN_LEVEL_DIFFERENCE: f64 = 0.05;

/// Minimum number of intervals of a piece.
const MIN_PIECE_INTERVALS: usize = 3;

/// Penalty of a change, as a multiple of the variance of the noise times the logarithm of the
/// length. It exceeds the 2 of Schwarz's criterion because the noise of neighbouring intervals is
/// correlated.
const PENALTY: f64 = 4.0;

/// Minimum noise, as a share. It is used for constant values, which show no noise.
const MIN_NOISE: f64 = 0.003;

/// Levels of throughput within the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Steadiness {
    pub pattern: Pattern,
    /// Pieces of one level each, in order of time.
    pub pieces: Vec<Piece>,
    /// Level of the last piece, as a multiple of the first.
    pub last_to_first: f64,
    /// Levels of the CPU time per response; `None`: unknown in some interval.
    pub cost: Option<CostSteadiness>,
    /// Instant from which the window is used, in seconds since the load began: if a server got
    /// faster, only its last level is used. `None`: the whole window is used.
    pub counts_from_s: Option<f64>,
    /// Standard deviation of the intervals around their levels, in logarithms.
    #[serde(skip)]
    pub(crate) noise: f64,
}

impl Steadiness {
    /// Sets the instant from which the window is used, nanoseconds since the load began.
    pub(crate) fn with_counted_start(self, from_ns: Option<u64>) -> Steadiness {
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
    /// No steady level: ends on its highest level, which lasts less than a fifth of the window.
    #[serde(rename = "none")]
    LateRise,
    /// Ends below an earlier level.
    Slowdown,
    /// Changes between rising and falling at least twice.
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

/// Levels of the CPU time per response within the measured window. A fall of the cost has the
/// pattern [`Pattern::WarmUp`].
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
    /// `None`: unknown.
    pub(crate) cpu_us_per_request: Option<f64>,
    /// Median response time, microseconds; `None`: unknown.
    pub(crate) response_us: Option<f64>,
}

/// Returns the values of the measured intervals of a load.
pub(crate) fn intervals(load: &LoadResult, server: &ServerUse) -> Vec<IntervalValues> {
    let values = |interval: &IntervalResult| IntervalValues {
        start_s: interval.start_s,
        end_s: interval.end_s,
        throughput_rps: interval.throughput_rps,
        cpu_us_per_request: server
            .cpus_at_middle((interval.start_s, interval.end_s))
            .map(|cpus| cpus / interval.throughput_rps * 1e6),
        response_us: interval.response_time_us.p50,
    };
    load.intervals.iter().filter(|i| i.phase == Phase::Measured).map(values).collect()
}

/// Returns the values of the rounds of turns. Times are those of `turns::to_own_time`, which omits
/// the turns of other servers.
pub(crate) fn rounds(
    turns: &TurnsResult,
    (opens_ns, closes_ns): (u64, u64),
) -> Vec<IntervalValues> {
    let round_s =
        closes_ns.saturating_sub(opens_ns) as f64 / 1e9 / turns.rounds.len().max(1) as f64;
    let values = |(index, round): (usize, &RoundResult)| {
        let start_s = opens_ns as f64 / 1e9 + index as f64 * round_s;
        let end_s = start_s + round_s;
        let throughput_rps = round.throughput_rps.unwrap_or(f64::NAN);
        let cpu_us_per_request = round.cpu_us_per_request;
        IntervalValues { start_s, end_s, throughput_rps, cpu_us_per_request, response_us: None }
    };
    turns.rounds.iter().enumerate().map(values).collect()
}

/// Finds the levels of throughput; `None`: too few intervals, or too many without a response.
#[must_use]
pub(crate) fn steadiness(intervals: &[IntervalValues]) -> Option<Steadiness> {
    let rates: Vec<f64> = intervals.iter().map(|interval| interval.throughput_rps).collect();
    let piece = |(start_s, end_s, throughput_rps)| Piece { start_s, end_s, throughput_rps };
    let Fit { pieces, noise } = fit(intervals, &rates)?;
    let pieces: Vec<Piece> = pieces.into_iter().map(piece).collect();
    let levels: Vec<(f64, f64)> =
        pieces.iter().map(|p| (p.throughput_rps, p.end_s - p.start_s)).collect();
    let (first_level, last_level) = (levels[0].0, levels[levels.len() - 1].0);
    Some(Steadiness {
        pattern: pattern(&levels),
        // The first level may be 0.
        last_to_first: last_level / first_level.max(half_response_rate(&intervals[0])),
        pieces,
        cost: cost(intervals),
        counts_from_s: None,
        noise,
    })
}

/// Finds the levels of the CPU time per response. `None`: unknown in some interval.
fn cost(intervals: &[IntervalValues]) -> Option<CostSteadiness> {
    let mut costs: Vec<f64> = Vec::with_capacity(intervals.len());
    for interval in intervals {
        // An interval without a response has no cost per request, so the previous cost is used.
        let before = costs.last().copied().filter(|_| interval.throughput_rps == 0.0);
        costs.push(before.or(interval.cpu_us_per_request)?);
    }
    let Fit { pieces, noise } = fit(intervals, &costs)?;
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

/// Divides a series into pieces. `None`: too few values, or a value without a logarithm.
pub(crate) fn fit(intervals: &[IntervalValues], values: &[f64]) -> Option<Fit> {
    let logs: Vec<f64> = fill_gaps(intervals, values)?.iter().map(|value| value.ln()).collect();
    if logs.len() < MIN_INTERVALS || logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    let ends = piece_ends(&logs);
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
    let piece = |range: &Range<usize>| {
        (intervals[range.start].start_s, intervals[range.end - 1].end_s, level(range))
    };
    Some(Fit { pieces: ranges.iter().map(piece).collect(), noise: spread(&logs, &ranges) })
}

/// Largest share of intervals without a response. With more of them, intervals are too short for
/// the rate, except if the others have [`MIN_RESPONSES`] responses.
const MAX_EMPTY_SHARE: f64 = 0.2;

/// An empty interval is not due to chance if the median interval has at least this many responses.
const MIN_RESPONSES: f64 = 20.0;

/// Returns the throughput of an interval with half a response, requests per second.
fn half_response_rate(interval: &IntervalValues) -> f64 {
    0.5 / (interval.end_s - interval.start_s)
}

/// Replaces the value of each interval without a response by the value for half a response. `None`:
/// too many intervals have no response.
fn fill_gaps(intervals: &[IntervalValues], values: &[f64]) -> Option<Vec<f64>> {
    let empty = values.iter().filter(|value| **value == 0.0).count();
    let fill = |(interval, value): (&IntervalValues, &f64)| match *value {
        0.0 => half_response_rate(interval),
        known => known,
    };
    let responses =
        |interval: &IntervalValues| interval.throughput_rps * (interval.end_s - interval.start_s);
    let non_empty: Vec<f64> =
        intervals.iter().map(responses).filter(|number| *number > 0.0).collect();
    let is_known = empty as f64 <= MAX_EMPTY_SHARE * values.len() as f64
        || median(&non_empty).is_some_and(|number| number >= MIN_RESPONSES);
    is_known.then(|| intervals.iter().zip(values).map(fill).collect())
}

/// A larger deviation of one value counts as this deviation in the spread, because stalls are
/// outliers.
const MAX_DEVIATION: f64 = std::f64::consts::LN_2;

/// Returns the standard deviation of the values around the medians of their pieces.
fn spread(logs: &[f64], pieces: &[Range<usize>]) -> f64 {
    let squares = pieces.iter().flat_map(|piece| {
        let piece_logs = &logs[piece.clone()];
        let level = median(piece_logs).unwrap_or(0.0);
        piece_logs.iter().map(move |log| (log - level).abs().min(MAX_DEVIATION).powi(2))
    });
    let freedom = logs.len().saturating_sub(pieces.len()).max(1);
    (squares.sum::<f64>() / freedom as f64).sqrt().max(MIN_NOISE)
}

/// Returns the ends of the pieces with different levels.
fn piece_ends(logs: &[f64]) -> Vec<usize> {
    let noise = noise(logs).max(MIN_NOISE);
    let penalty = PENALTY * noise * noise * (logs.len() as f64).ln();
    let mut ends =
        changes::segment_ends(&without_outliers(logs, noise), MIN_PIECE_INTERVALS, penalty);
    // Neighbouring pieces with nearly the same level are merged, the closest first.
    loop {
        let start = |piece: usize| if piece == 0 { 0 } else { ends[piece - 1] };
        let level = |piece: usize| median(&logs[start(piece)..ends[piece]]).unwrap_or(0.0);
        let level_difference = |piece: usize| (level(piece + 1) - level(piece)).abs();
        let closest = (0..ends.len().saturating_sub(1))
            .min_by(|a, b| level_difference(*a).total_cmp(&level_difference(*b)));
        match closest.filter(|piece| level_difference(*piece) < MIN_LEVEL_DIFFERENCE.ln_1p()) {
            Some(piece) => {
                ends.remove(piece);
            }
            None => return ends,
        }
    }
}

/// Estimates the standard deviation of the noise from the median difference of neighbours. Changes
/// of level and single stalls hardly affect it.
fn noise(logs: &[f64]) -> f64 {
    let differences: Vec<f64> = logs.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    // The median of |x| of a normal distribution is 0.6745 standard deviations. A difference has
    // twice the variance of a value.
    median(&differences).unwrap_or(0.0) / 0.6745 / std::f64::consts::SQRT_2
}

/// Replaces outliers by the median of their neighbours.
fn without_outliers(logs: &[f64], noise: f64) -> Vec<f64> {
    const MAX_DISTANCE: f64 = 4.0;
    let local_median =
        |i: usize| median(&logs[i.saturating_sub(2)..(i + 3).min(logs.len())]).unwrap_or(logs[i]);
    (0..logs.len())
        .map(|i| {
            if (logs[i] - local_median(i)).abs() > MAX_DISTANCE * noise {
                local_median(i)
            } else {
                logs[i]
            }
        })
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Classifies a series. `levels`: each level with its duration.
pub(crate) fn pattern(levels: &[(f64, f64)]) -> Pattern {
    let rates: Vec<f64> = levels.iter().map(|(rate, _)| *rate).collect();
    let last = rates[rates.len() - 1];
    let last_share =
        levels[levels.len() - 1].1 / levels.iter().map(|(_, length)| length).sum::<f64>();
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let direction_changes = rates
        .windows(3)
        .filter(|three| (three[1] - three[0]) * (three[2] - three[1]) < 0.0)
        .count();
    let ends_highest = last >= highest / (1.0 + MIN_LEVEL_DIFFERENCE);
    match rates.len() {
        1 => Pattern::Flat,
        _ if direction_changes >= 2 => Pattern::Cyclic,
        _ if ends_highest && last_share < MIN_LAST_SHARE => Pattern::LateRise,
        _ if ends_highest => Pattern::WarmUp,
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

    /// Returns noisy intervals. `levels`: each level with its number of intervals.
    fn series(levels: &[(f64, usize)], noise: f64, normal: &mut Normal) -> Vec<IntervalValues> {
        let values = levels.iter().flat_map(|(rps, n)| std::iter::repeat_n(*rps, *n));
        let rates: Vec<f64> = values.map(|rps| rps * (noise * normal.draw()).exp()).collect();
        intervals(&rates)
    }

    fn share(levels: &[(f64, usize)], noise: f64, pattern: Pattern) -> f64 {
        let mut normal = Normal(levels.len() as u64 + (noise * 1e4) as u64);
        const SIMULATIONS: usize = 200;
        let has_pattern =
            |_: &usize| steadiness(&series(levels, noise, &mut normal)).unwrap().pattern == pattern;
        (0..SIMULATIONS).filter(has_pattern).count() as f64 / SIMULATIONS as f64
    }

    #[test]
    fn pattern_is_found_despite_noise() {
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
        assert!(share(&[(500.0, 12), (800.0, 14), (1000.0, 4)], 0.01, Pattern::LateRise) >= 0.95);
        // An irrelevant difference is not a separate level.
        assert!(share(&[(1000.0, 15), (1030.0, 15)], 0.005, Pattern::Flat) >= 0.95);
    }

    #[test]
    fn single_stall_is_no_level() {
        let mut rates = vec![1000.0; 20];
        rates[7] = 100.0;
        assert_eq!(steadiness(&intervals(&rates)).unwrap().pattern, Pattern::Flat);
        let result = steadiness(&intervals(&[vec![900.0; 8], vec![450.0; 12]].concat())).unwrap();
        assert_eq!(
            (result.pattern, result.pieces.len(), result.pieces[1].start_s),
            (Pattern::Slowdown, 2, 8.0)
        );
        assert!((result.last_to_first - 0.5).abs() < 1e-9);
    }

    #[test]
    fn cost_per_response_has_separate_levels() {
        let mut intervals = intervals(&[1000.0; 20]);
        intervals.iter_mut().enumerate().for_each(|(k, interval)| {
            interval.cpu_us_per_request = Some(if k < 8 { 30.0 } else { 20.0 });
        });
        let result = steadiness(&intervals).unwrap();
        let cost = result.cost.unwrap();
        assert_eq!(
            (result.pattern, cost.pattern),
            (Pattern::Flat, Pattern::WarmUp),
            "cheaper, and no faster"
        );
        assert_eq!((cost.pieces.len(), cost.pieces[1].start_s), (2, 8.0));
        intervals[3].cpu_us_per_request = None;
        assert_eq!(steadiness(&intervals).unwrap().cost, None);
    }

    #[test]
    fn rounds_are_on_clock_of_own_turns() {
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
        let result = steadiness(&rounds_of(&[vec![900.0; 8], vec![450.0; 12]].concat())).unwrap();
        assert_eq!(result.pattern, Pattern::Slowdown);
        assert!(
            (result.pieces[1].start_s - 1.8).abs() < 1e-9
                && (result.pieces[1].end_s - 3.0).abs() < 1e-9
        );
        assert_eq!(steadiness(&rounds_of(&[])), None);
    }

    #[test]
    fn few_or_empty_intervals_have_no_pattern() {
        assert_eq!(steadiness(&intervals(&[1000.0; 9])), None);
        let mut rates = vec![10.0; 20];
        (0..5).for_each(|k| rates[4 * k] = 0.0);
        assert_eq!(steadiness(&intervals(&rates)), None, "intervals are short for the rate");
    }

    /// The throughput of a server that ended in the middle of the window falls to 0.
    #[test]
    fn server_that_stops_has_level_of_zero() {
        let result = steadiness(&intervals(&[[1000.0; 10], [0.0; 10]].concat())).unwrap();
        let levels: Vec<f64> =
            result.pieces.iter().map(|piece| piece.throughput_rps.round()).collect();
        assert_eq!((result.pattern, levels), (Pattern::Slowdown, vec![1000.0, 0.0]));
        let result = steadiness(&intervals(&[[0.0; 10], [1000.0; 10]].concat())).unwrap();
        assert_eq!((result.pattern, result.last_to_first.round()), (Pattern::WarmUp, 2000.0));
    }

    /// One interval has no responses.
    #[test]
    fn interval_without_responses_keeps_levels() {
        let mut rates = [vec![400.0; 12], vec![1900.0; 18]].concat();
        rates[5] = 0.0;
        let result = steadiness(&intervals(&rates)).unwrap();
        let levels: Vec<f64> =
            result.pieces.iter().map(|piece| piece.throughput_rps.round()).collect();
        assert_eq!((result.pattern, levels), (Pattern::WarmUp, vec![367.0, 1900.0]));
        assert!(result.noise < 0.2, "{}", result.noise);
    }
}
