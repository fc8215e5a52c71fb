//! Decides whether a server that is being warmed up is steady. The runner then ends the warm-up.
//!
//! Georges, Buytaert and Eeckhout (*Statistically rigorous Java performance evaluation*, OOPSLA
//! 2007) call a process steady once the coefficient of variation over its last iterations is small.
//! On shared machines, noise alone exceeds any such bound. The rule here tests for a *trend*
//! instead: by Mann and Kendall's test (Mann 1945, Kendall 1975), and by the size of Theil and
//! Sen's slope (Sen 1968). Both use ranks and medians, which a stall in one slice does not change.
//!
//! Barrett et al. (*Virtual machine warmup blows hot and cold*, OOPSLA 2017) found that many
//! processes never become steady. Traini et al. (*Towards effective assessment of steady state
//! performance in Java software*, EMSE 2023) found that rules end a warm-up too early about as
//! often as guesses do. Three guards address this:
//!
//! - The tested window grows with the warm-up, so that slow warming is tested over a long time.
//! - Active compiler threads prolong the warm-up regardless of the trend.
//! - The measured window is tested again (`verdict/warming.rs`).

use std::collections::BTreeMap;

use dyno_model::start::WarmUpSlice;

use crate::stats::median;

/// Minimum number of rounds for a decision about a warm-up.
pub const MIN_ROUNDS: usize = 8;

/// The warm-up is divided into this many parts, and the last part is tested for a trend. The tested
/// part has at least [`MIN_ROUNDS`] rounds.
const TREND_PARTS: usize = 4;

/// The warm-up is divided into this many parts, and the last part is checked for active compilers.
/// The part is longer than the part for trends, because compilers work in bursts that may be
/// seconds apart.
const COMPILER_PARTS: usize = 2;

/// Bound of Mann and Kendall's test: by how many standard deviations rising pairs must outnumber
/// falling pairs for a trend. A series without trend exceeds this bound one time in five. The bound
/// is low because a false alarm only makes the warm-up a little longer.
const MIN_RISE_DEVIATIONS: f64 = 0.84;

/// Minimum growth over the tested rounds that counts as a trend.
const MIN_GROWTH: f64 = 1.05;

/// The subject's compilers still work if they use more than this share of its CPU time, as a mean
/// over the last rounds.
pub const MAX_JIT_SHARE: f64 = 0.1;

/// One round of a warm-up: a slice of each workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Responses per second: the geometric mean over the workloads.
    pub throughput_rps: f64,
    /// CPU time per response in µs: the geometric mean over the workloads. `None`: unknown
    /// for a workload.
    pub cpu_us_per_request: Option<f64>,
    /// Share of the CPU time that compiler threads used: 0 to 1. `None`: unknown, or no CPU time
    /// was used.
    pub jit_share: Option<f64>,
    pub responses: u64,
}

/// Groups slices by round. An unfinished round is omitted.
#[must_use]
pub fn group_by_round(slices: &[WarmUpSlice]) -> Vec<Round> {
    let mut slices_by_round: BTreeMap<usize, Vec<WarmUpSlice>> = BTreeMap::new();
    for slice in slices {
        slices_by_round.entry(slice.round).or_default().push(*slice);
    }
    let workloads = slices_by_round.values().map(Vec::len).max().unwrap_or(0);
    slices_by_round
        .values()
        .filter(|slices| slices.len() == workloads)
        .map(|slices| summarize_round(slices))
        .collect()
}

/// Combines the slices of one round.
fn summarize_round(slices: &[WarmUpSlice]) -> Round {
    let mean = |pick: &dyn Fn(&WarmUpSlice) -> Option<f64>| -> Option<f64> {
        let logs: Option<Vec<f64>> = slices.iter().map(|s| pick(s).map(f64::ln)).collect();
        Some((logs?.iter().sum::<f64>() / slices.len() as f64).exp())
    };
    let sum = |pick: fn(&WarmUpSlice) -> Option<u64>| slices.iter().map(pick).sum::<Option<u64>>();
    let shares = sum(|s| s.jit_ns).zip(sum(|s| s.cpu_ns));
    Round {
        throughput_rps: mean(&|s| Some(responses_per_second(s))).unwrap_or(0.0),
        cpu_us_per_request: mean(&cpu_us_per_request),
        jit_share: shares.filter(|(_, cpu)| *cpu > 0).map(|(jit, cpu)| jit as f64 / cpu as f64),
        responses: slices.iter().map(|s| s.responses).sum(),
    }
}

/// Returns the responses per second of a slice. Half a response is added, because 0 has no
/// logarithm.
fn responses_per_second(slice: &WarmUpSlice) -> f64 {
    let seconds = slice.end_ns.saturating_sub(slice.start_ns) as f64 / 1e9;
    (slice.responses as f64 + 0.5) / seconds.max(1e-9)
}

/// Returns the CPU time per response of a slice, in µs; `None`: unknown, or 0. Samples lie
/// slightly off the edges of the slice, so responses are scaled to the time between samples.
#[must_use]
pub fn cpu_us_per_request(slice: &WarmUpSlice) -> Option<f64> {
    let cpu_us = slice.cpu_ns.filter(|ns| *ns > 0)? as f64 / 1e3;
    let responses = responses_per_second(slice) * slice.observed_ns as f64 / 1e9;
    Some(cpu_us / responses.max(1e-9))
}

/// State of a server by the rounds so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WarmUpState {
    /// Too few rounds for a decision.
    Early,
    /// Throughput still grows, by this factor over the tested rounds.
    Faster(f64),
    /// CPU time per response still falls, by this factor.
    Cheaper(f64),
    /// Compiler threads still use this share of the CPU time: 0 to 1.
    Compiling(f64),
    /// No request got a response in the tested rounds.
    Unanswered,
    Steady,
}

/// Basis of the decision about a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUpEvidence {
    ThroughputAndCpu,
    /// CPU time is known for too few rounds.
    Throughput,
}

/// Decides from the rounds so far whether a server is steady.
#[must_use]
pub fn assess_warm_up(rounds: &[Round]) -> WarmUpState {
    if rounds.len() < MIN_ROUNDS {
        return WarmUpState::Early;
    }
    let last = last_part(TREND_PARTS, rounds);
    if last.iter().all(|r| r.responses == 0) {
        return WarmUpState::Unanswered;
    }
    if let Some(share) =
        jit_share(last_part(COMPILER_PARTS, rounds)).filter(|share| *share > MAX_JIT_SHARE)
    {
        return WarmUpState::Compiling(share);
    }
    let throughput: Vec<f64> = last.iter().map(|r| r.throughput_rps).collect();
    if let Some(growth) = growth(&throughput) {
        return WarmUpState::Faster(growth);
    }
    match responses_per_cpu_us(last).and_then(|responses_per_cpu_us| growth(&responses_per_cpu_us))
    {
        Some(growth) => WarmUpState::Cheaper(growth),
        None => WarmUpState::Steady,
    }
}

/// Returns the basis of the decision about the last rounds.
#[must_use]
pub fn evidence(rounds: &[Round]) -> WarmUpEvidence {
    match responses_per_cpu_us(last_part(TREND_PARTS, rounds)) {
        Some(_) => WarmUpEvidence::ThroughputAndCpu,
        None => WarmUpEvidence::Throughput,
    }
}

/// Returns the responses per µs of CPU time, for the rounds in which it is known. On a machine
/// short of CPU a sample is sometimes late, and its round has no value. `None`: known for fewer
/// than half of the rounds, which is too few for a trend.
fn responses_per_cpu_us(rounds: &[Round]) -> Option<Vec<f64>> {
    let known: Vec<f64> =
        rounds.iter().filter_map(|r| Some(r.cpu_us_per_request?.recip())).collect();
    (2 * known.len() >= rounds.len()).then_some(known)
}

/// Returns the mean JIT share of the rounds in which it is known; `None`: the share is known in no
/// round.
fn jit_share(rounds: &[Round]) -> Option<f64> {
    let known: Vec<f64> = rounds.iter().filter_map(|r| r.jit_share).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// Returns the last of `parts` equal parts of the rounds, but at least [`MIN_ROUNDS`] rounds.
fn last_part(parts: usize, rounds: &[Round]) -> &[Round] {
    let window = MIN_ROUNDS.max(rounds.len() / parts);
    &rounds[rounds.len().saturating_sub(window)..]
}

/// Returns the factor by which positive values grow from the first to the last, by Theil and Sen's
/// slope of their logarithms. `None`: the growth is within noise.
fn growth(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let n = logs.len() as f64;
    let mut slopes = Vec::with_capacity(logs.len() * logs.len() / 2);
    // Number of rising pairs minus the number of falling pairs.
    let mut net_rising = 0.0;
    for (i, early) in logs.iter().enumerate() {
        for (j, late) in logs.iter().enumerate().skip(i + 1) {
            net_rising += if late > early {
                1.0
            } else if late < early {
                -1.0
            } else {
                0.0
            };
            slopes.push((late - early) / (j - i) as f64);
        }
    }
    // Mann and Kendall: the standard deviation of `net_rising` in a series without trend. The 1
    // below corrects for continuity.
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let growth = (median(&slopes)? * (n - 1.0)).exp();
    ((net_rising - 1.0) / deviation >= MIN_RISE_DEVIATIONS && growth >= MIN_GROWTH)
        .then_some(growth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a pseudo-random number from 0 to 1.
    fn noise(i: usize, seed: u64) -> f64 {
        let mut x = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ seed.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a round of a server that fills one CPU. Its CPU time per response limits its
    /// throughput.
    fn round_of(rps: f64) -> Round {
        Round {
            throughput_rps: rps,
            cpu_us_per_request: Some(1e6 / rps),
            jit_share: Some(0.0),
            responses: 100,
        }
    }

    /// Returns the number of rounds after which the warm-up ends; `None`: not within `max_rounds`.
    fn rounds_until_steady(max_rounds: usize, round: impl Fn(usize) -> Round) -> Option<usize> {
        let mut rounds = Vec::new();
        (0..max_rounds).find_map(|i| {
            rounds.push(round(i));
            (assess_warm_up(&rounds) == WarmUpState::Steady).then_some(i + 1)
        })
    }

    #[test]
    fn server_that_starts_steady_needs_fewest_rounds() {
        assert_eq!(rounds_until_steady(480, |_| round_of(90e3)), Some(MIN_ROUNDS));
        let wobbling = |i: usize| round_of(90e3 * (1.0 + 0.02 * (noise(i, 1) - 0.5)));
        assert_eq!(rounds_until_steady(480, wobbling), Some(MIN_ROUNDS), "2 % is not a trend");
    }

    /// As measured with Armeria: 578, 1,004 and 1,298 responses per second after half a second
    /// each, and finally 34,800.
    #[test]
    fn cold_virtual_machine_is_warmed_until_steady() {
        let measured_rps = [250.0, 400.0, 578.0, 800.0, 1004.0, 1150.0, 1298.0];
        let rounds: Vec<Round> =
            measured_rps.iter().chain(&[1500.0]).map(|rps| round_of(*rps)).collect();
        assert!(
            matches!(assess_warm_up(&rounds), WarmUpState::Faster(growth) if growth > 3.0),
            "{:?}",
            assess_warm_up(&rounds)
        );
        let warming = |i: usize| 34_800.0 * (1.0 - (-(i as f64) / 40.0).exp()).max(0.01);
        for seed in 0..20 {
            let cold = |i: usize| round_of(warming(i) * (1.0 + 0.1 * (noise(i, seed) - 0.5)));
            let ended = rounds_until_steady(480, cold).expect("it does become warm");
            assert!(
                warming(ended) > 0.8 * 34_800.0,
                "seed {seed}: after {ended} at {}",
                warming(ended)
            );
            assert!(ended < 300, "seed {seed}: after {ended}");
        }
    }

    #[test]
    fn warm_up_continues_while_compilers_run() {
        let plateau = |jit| move |_: usize| Round { jit_share: Some(jit), ..round_of(3000.0) };
        assert_eq!(rounds_until_steady(480, plateau(0.34)), None);
        assert_eq!(rounds_until_steady(480, plateau(0.11)), None);
        assert_eq!(rounds_until_steady(480, plateau(0.09)), Some(MIN_ROUNDS));
        // Rounds without a JIT share do not hide the others.
        let gaps = |i: usize| Round {
            jit_share: (!i.is_multiple_of(3)).then_some(0.34),
            ..round_of(3000.0)
        };
        assert_eq!(rounds_until_steady(480, gaps), None);
        // As measured with Jetty: long compilation, then bursts a second apart.
        let bursts = |i: usize| {
            let jit = if i < 60 {
                0.4
            } else if i < 80 && i.is_multiple_of(10) {
                0.6
            } else {
                0.0
            };
            Round { jit_share: Some(jit), ..round_of(3000.0) }
        };
        assert!((81..130).contains(&rounds_until_steady(480, bursts).unwrap()));
        // A compiler that runs only occasionally does not prolong the warm-up.
        let at_times = |i: usize| Round {
            jit_share: Some(if i % 6 == 3 { 0.5 } else { 0.0 }),
            ..round_of(3000.0)
        };
        assert_eq!(rounds_until_steady(480, at_times), Some(MIN_ROUNDS));
    }

    #[test]
    fn falling_cpu_time_per_response_is_warming() {
        let rounds: Vec<Round> = (0..8)
            .map(|i| Round { cpu_us_per_request: Some(20.0 - f64::from(i)), ..round_of(90e3) })
            .collect();
        assert!(
            matches!(assess_warm_up(&rounds), WarmUpState::Cheaper(_)),
            "{:?}",
            assess_warm_up(&rounds)
        );
        // Without CPU times only throughput is tested.
        let unknown: Vec<Round> =
            rounds.iter().map(|r| Round { cpu_us_per_request: None, ..*r }).collect();
        assert_eq!(
            (assess_warm_up(&unknown), evidence(&unknown)),
            (WarmUpState::Steady, WarmUpEvidence::Throughput)
        );
        // CPU times may be missing in up to half of the rounds.
        let sampled = |every: usize| -> Vec<Round> {
            let round = |(i, r): (usize, &Round)| if i % every == 0 { *r } else { unknown[i] };
            rounds.iter().enumerate().map(round).collect()
        };
        let (half, fewer) = (sampled(2), sampled(3));
        assert!(
            matches!(assess_warm_up(&half), WarmUpState::Cheaper(_)),
            "{:?}",
            assess_warm_up(&half)
        );
        assert_eq!(evidence(&half), WarmUpEvidence::ThroughputAndCpu);
        assert_eq!(
            (assess_warm_up(&fewer), evidence(&fewer)),
            (WarmUpState::Steady, WarmUpEvidence::Throughput)
        );
        assert_eq!(evidence(&rounds), WarmUpEvidence::ThroughputAndCpu);
        let rising: Vec<Round> = (1..9)
            .map(|i| Round { cpu_us_per_request: None, ..round_of(f64::from(i) * 1e3) })
            .collect();
        assert!(matches!(assess_warm_up(&rising), WarmUpState::Faster(_)));
    }

    #[test]
    fn machine_speed_change_prolongs_warm_up_briefly() {
        let slows = |i: usize| {
            round_of(if i < 5 { 90e3 } else { 45e3 } * (1.0 + 0.1 * (noise(i, 3) - 0.5)))
        };
        assert!(
            rounds_until_steady(480, slows).unwrap() <= MIN_ROUNDS + 4,
            "a server that gets slower is not warming up"
        );
        let recovers = |i: usize| {
            round_of(if i < 5 { 45e3 } else { 90e3 } * (1.0 + 0.1 * (noise(i, 3) - 0.5)))
        };
        assert!((9..40).contains(&rounds_until_steady(480, recovers).unwrap()));
        let collecting = |i: usize| {
            round_of(if i % 5 == 4 { 20e3 } else { 60e3 } * (1.0 + 0.1 * (noise(i, 9) - 0.5)))
        };
        assert!(
            rounds_until_steady(480, collecting).unwrap() < 40,
            "pauses of a collector are no trend"
        );
    }

    /// `n` positive values in which `score` more pairs rise than fall.
    fn rising_by(n: usize, score: usize) -> Vec<f64> {
        let falling = (n * (n - 1) / 2 - score) / 2;
        let mut ranks: Vec<usize> = (0..n).collect();
        // Each swap of neighbours that rise makes one more pair fall.
        let mut left = falling;
        for end in (1..n).rev() {
            for at in 0..end.min(left) {
                ranks.swap(at, at + 1);
            }
            left -= end.min(left);
        }
        let mut values: Vec<f64> = ranks.iter().map(|rank| 2f64.powi(*rank as i32)).collect();
        if !(n * (n - 1) / 2 - score).is_multiple_of(2) {
            // One rising pair becomes a tie.
            let at = (1..n).find(|at| ranks[*at] == ranks[at - 1] + 1).expect("two that rise");
            values[at] = values[at - 1];
        }
        values
    }

    #[test]
    fn trend_needs_as_many_rising_pairs_as_mann_and_kendall() {
        // 0.84 standard deviations √(n(n−1)(2n+5)/18), plus 1 for continuity.
        for (n, needed) in [(8, 8), (12, 14), (15, 18), (16, 20)] {
            assert!(
                growth(&rising_by(n, needed)).is_some(),
                "{needed} of {n}: {:?}",
                rising_by(n, needed)
            );
            assert_eq!(
                growth(&rising_by(n, needed - 1)),
                None,
                "{n}: {:?}",
                rising_by(n, needed - 1)
            );
        }
        let to =
            |growth: f64| -> Vec<f64> { (0..8).map(|i| growth.powf(f64::from(i) / 7.0)).collect() };
        assert!(growth(&to(1.0501)).is_some() && growth(&to(1.0499)).is_none());
    }

    #[test]
    fn warm_up_of_silent_server_ends_unanswered() {
        let nothing = vec![Round { responses: 0, ..round_of(4.0) }; MIN_ROUNDS];
        assert_eq!(assess_warm_up(&nothing), WarmUpState::Unanswered);
        assert_eq!(assess_warm_up(&nothing[1..]), WarmUpState::Early);
        let mut nearly = nothing.clone();
        nearly[0].responses = 1;
        assert_eq!(assess_warm_up(&nearly), WarmUpState::Steady);
        assert_eq!(assess_warm_up(&[]), WarmUpState::Early);
    }

    #[test]
    fn rounds_weigh_workloads_alike_and_must_be_complete() {
        let slice = |round, workload, responses, cpu_ns| WarmUpSlice {
            round,
            workload,
            step: 0,
            start_ns: 0,
            end_ns: 100_000_000,
            responses,
            correct_responses: responses,
            cpu_ns,
            jit_ns: Some(25_000_000),
            observed_ns: 200_000_000,
        };
        let cpu = Some(50_000_000);
        let all = [slice(0, 0, 10_000, cpu), slice(0, 1, 100, cpu), slice(1, 0, 10_000, cpu)];
        let rounds = group_by_round(&all);
        assert_eq!(
            (rounds.len(), rounds[0].responses, rounds[0].jit_share),
            (1, 10_100, Some(0.5))
        );
        assert!((rounds[0].throughput_rps / 10_000.0 - 1.0).abs() < 0.01, "{:?}", rounds[0]);
        // 50 ms of CPU time in 200 ms, in which 20,000 and 200 responses came.
        assert!(
            (rounds[0].cpu_us_per_request.unwrap() / 25.0 - 1.0).abs() < 0.01,
            "{:?}",
            rounds[0]
        );
        let unknown = group_by_round(&[slice(0, 0, 1, cpu), slice(0, 1, 1, None)]);
        assert_eq!((unknown[0].cpu_us_per_request, unknown[0].jit_share), (None, None));
        assert!(group_by_round(&[slice(0, 0, 0, cpu)])[0].cpu_us_per_request.unwrap().is_finite());
    }

    proptest! {
        /// Noise as measured on a shared machine: up to a fifth in both directions in each slice,
        /// and half the speed for a while.
        #[test]
        fn noise_does_not_prolong_warm_up_to_limit(
            seed in any::<u64>(),
            spread in 0.0f64..0.4,
            slow_from in 0usize..60,
            slow_for in 0usize..60,
        ) {
            let slow = slow_from..slow_from + slow_for;
            let speed = |i: usize| if slow.contains(&i) { 0.5 } else { 1.0 };
            let noisy = |i: usize| {
                let rps = 90e3 * speed(i) * (1.0 + spread * (noise(i, seed) - 0.5));
                // Throughput and CPU time share only part of the noise.
                let cpu = 1e6 / rps * (1.0 + 0.5 * spread * (noise(i, !seed) - 0.5));
                Round { cpu_us_per_request: Some(cpu), ..round_of(rps) }
            };
            let ended = rounds_until_steady(480, noisy);
            prop_assert!(ended.is_some_and(|n| n < 240), "{ended:?}");
        }

        #[test]
        fn growth_is_independent_of_unit(scale in 1e-3f64..1e6, factor in 1.02f64..2.0) {
            let rising: Vec<f64> = (0..8).map(|i| scale * factor.powi(i)).collect();
            let found = growth(&rising).unwrap();
            prop_assert!((found / factor.powi(7) - 1.0).abs() < 1e-6);
            let falling: Vec<f64> = rising.iter().rev().copied().collect();
            prop_assert_eq!(growth(&falling), None);
        }
    }
}
