//! How each start was warmed.

use dyno_archive::start::{PartStart, WarmUpEnd, WarmUpSlice};
use schemars::JsonSchema;
use serde::Serialize;

use crate::steady::{self, JudgedBy};

/// How one start of a subject was warmed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WarmUpResult {
    /// Counted from 1.
    pub repeat: u32,
    pub took_s: f64,
    pub ended: WarmUpEnd,
    /// By throughput and CPU time per request, or by throughput alone.
    pub judged_by_cpu: bool,
    pub slices: Vec<WarmUpPoint>,
}

/// One short load of one workload within a warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WarmUpPoint {
    pub workload: usize,
    pub step: usize,
    /// Since the warm-up began.
    pub start_s: f64,
    pub end_s: f64,
    pub throughput_rps: f64,
    pub cpu_us_per_request: Option<f64>,
    /// What compiler threads used of the server's CPU time.
    pub jit_share: Option<f64>,
}

/// The warm-ups of an arm's starts, each with its repeat, counted from 1, in the order of time.
#[must_use]
pub fn results(parts: &[(u32, &PartStart)]) -> Vec<WarmUpResult> {
    let of_part = |(repeat, part): &(u32, &PartStart)| {
        let warmup = part.warmup.as_ref()?;
        Some(WarmUpResult {
            repeat: *repeat,
            took_s: warmup.took_ns as f64 / 1e9,
            ended: warmup.ended,
            judged_by_cpu: steady::judged_by(&steady::rounds(&warmup.slices)) == JudgedBy::ThroughputAndCpu,
            slices: warmup.slices.iter().map(point).collect(),
        })
    };
    parts.iter().filter_map(of_part).collect()
}

/// What a slice comes to.
#[must_use]
pub fn point(slice: &WarmUpSlice) -> WarmUpPoint {
    let seconds = slice.end_ns.saturating_sub(slice.start_ns) as f64 / 1e9;
    let share = slice.jit_ns.zip(slice.cpu_ns.filter(|cpu| *cpu > 0));
    WarmUpPoint {
        workload: slice.workload,
        step: slice.step,
        start_s: slice.start_ns as f64 / 1e9,
        end_s: slice.end_ns as f64 / 1e9,
        throughput_rps: if seconds > 0.0 { slice.answers as f64 / seconds } else { 0.0 },
        cpu_us_per_request: steady::cpu_us_per_request(slice),
        jit_share: share.map(|(jit, cpu)| jit as f64 / cpu as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::warm_up;

    #[test]
    fn the_report_shows_what_a_warm_up_was_made_of() {
        let start = warm_up(WarmUpEnd::Steady, 12_000_000, Some(120_000_000));
        let all = results(&[(3, start.subject().unwrap())]);
        assert_eq!((all[0].repeat, all[0].slices.len(), all[0].judged_by_cpu), (3, 10, true));
        let point = &all[0].slices[9];
        assert_eq!((point.throughput_rps, point.jit_share), (8000.0, Some(0.1)));
        assert!((point.cpu_us_per_request.unwrap() - 120.0).abs() < 0.1);
    }
}
