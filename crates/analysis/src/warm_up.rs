//! Computes the result of the warm-up of each start, so that reports can show how long it took and
//! why it ended.

use dyno_model::start::{PartStart, WarmUpEnd, WarmUpSlice};
use schemars::JsonSchema;
use serde::Serialize;

use crate::steady_state::{self, WarmUpEvidence};

/// The warm-up of one start of an arm.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WarmUpResult {
    /// Number of the repeat, counted from 1.
    pub repeat: u32,
    pub took_s: f64,
    pub ended: WarmUpEnd,
    /// Whether both throughput and CPU time per request decided when the server was warm. If not,
    /// throughput alone decided.
    pub judged_by_cpu: bool,
    /// Requests without a correct response, over all workloads. The steps' numbers exclude them.
    pub failed: u64,
    pub slices: Vec<WarmUpPoint>,
}

/// One short load of one workload within a warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WarmUpPoint {
    /// Index among the plan's workloads.
    pub workload: usize,
    /// Index among the plan's steps.
    pub step: usize,
    /// Seconds since the warm-up began.
    pub start_s: f64,
    pub end_s: f64,
    pub throughput_rps: f64,
    pub cpu_us_per_request: Option<f64>,
    /// Share of the server's CPU time that compiler threads used: 0 to 1. `None`: unknown, or no
    /// CPU time was used.
    pub jit_share: Option<f64>,
}

/// Returns the warm-ups of an arm's starts, in order of time. `parts`: the arm's part of each
/// start, with its repeat counted from 1.
#[must_use]
pub fn results(parts: &[(u32, &PartStart)]) -> Vec<WarmUpResult> {
    let result = |(repeat, part): &(u32, &PartStart)| {
        let warmup = part.warmup.as_ref()?;
        Some(WarmUpResult {
            repeat: *repeat,
            took_s: warmup.took_ns as f64 / 1e9,
            ended: warmup.ended,
            judged_by_cpu: steady_state::evidence(&steady_state::group_by_round(&warmup.slices))
                == WarmUpEvidence::ThroughputAndCpu,
            failed: warmup.all_failed_requests(),
            slices: warmup.slices.iter().map(point).collect(),
        })
    };
    parts.iter().filter_map(result).collect()
}

/// Converts a slice of the archive to a point for reports.
#[must_use]
pub fn point(slice: &WarmUpSlice) -> WarmUpPoint {
    let seconds = slice.end_ns.saturating_sub(slice.start_ns) as f64 / 1e9;
    let share = slice.jit_ns.zip(slice.cpu_ns.filter(|cpu| *cpu > 0));
    WarmUpPoint {
        workload: slice.workload,
        step: slice.step,
        start_s: slice.start_ns as f64 / 1e9,
        end_s: slice.end_ns as f64 / 1e9,
        throughput_rps: if seconds > 0.0 { slice.responses as f64 / seconds } else { 0.0 },
        cpu_us_per_request: steady_state::cpu_us_per_request(slice),
        jit_share: share.map(|(jit, cpu)| jit as f64 / cpu as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::warm_up;

    #[test]
    fn warm_up_result_has_points_of_all_slices() {
        let start = warm_up(WarmUpEnd::Steady, 12_000_000, Some(120_000_000));
        let results = results(&[(3, start.subject().unwrap())]);
        assert_eq!(
            (results[0].repeat, results[0].slices.len(), results[0].judged_by_cpu),
            (3, 10, true)
        );
        let point = &results[0].slices[9];
        assert_eq!((point.throughput_rps, point.jit_share), (8000.0, Some(0.1)));
        assert!((point.cpu_us_per_request.unwrap() - 120.0).abs() < 0.1);
    }

    #[test]
    fn warm_up_point_has_time_and_rate() {
        let start = warm_up(WarmUpEnd::Limit, 12_000_000, Some(120_000_000));
        let warm_up_result = &results(&[(1, start.subject().unwrap())])[0];
        assert_eq!(
            (
                warm_up_result.took_s,
                warm_up_result.slices[9].start_s,
                warm_up_result.slices[9].end_s
            ),
            (60.1, 1.125, 1.25)
        );
        let slice = start.parts[0].warmup.as_ref().unwrap().slices[3];
        let values_after = |change: fn(&mut WarmUpSlice)| {
            let mut changed = slice;
            change(&mut changed);
            let point = point(&changed);
            (point.throughput_rps, point.jit_share)
        };
        assert_eq!(values_after(|_| {}), (8000.0, Some(0.1)));
        assert_eq!(values_after(|s| s.end_ns = s.start_ns).0, 0.0, "no time");
        assert_eq!(values_after(|s| s.cpu_ns = Some(0)).1, None, "no CPU time");
    }

    #[test]
    fn warm_up_without_cpu_time_uses_throughput() {
        let start = warm_up(WarmUpEnd::Steady, 0, None);
        assert!(!results(&[(1, start.subject().unwrap())])[0].judged_by_cpu);
    }
}
