//! Evaluates the canary: the time of a fixed piece of work before each start, which shows whether
//! the machine's speed changed.

use std::collections::BTreeSet;

use dyno_model::run::Run;
use schemars::JsonSchema;
use serde::Serialize;

use crate::stats::median;

/// The fixed piece of work over the starts of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CanaryResult {
    /// In order of time.
    pub starts: Vec<CanaryStart>,
    /// Time of the slowest piece of work as a multiple of the fastest on the same CPU: the maximum
    /// over the CPUs.
    pub slowest_to_fastest: f64,
    /// Times of the pieces of the slowest and the fastest start, microseconds.
    pub fastest_us: f64,
    pub slowest_us: f64,
    /// Median over the starts of the time that a piece took, microseconds.
    pub piece_us: f64,
}

/// The fixed piece of work before one start.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CanaryStart {
    /// Name of the arm that was started next.
    pub subject: String,
    /// Number of the block, counted from 1.
    pub block: u32,
    /// CPU that ran the piece of work. `None`: any CPU.
    pub cpu: Option<u32>,
    /// Median time that a piece took, microseconds.
    pub wall_us: f64,
    /// Median CPU time of a piece, microseconds. It excludes time that other programs took.
    pub cpu_us: f64,
}

/// Returns the canary of a run; `None`: no start has a measurement.
#[must_use]
pub(crate) fn canary(run: &Run) -> Option<CanaryResult> {
    let plan = &run.header.plan;
    let canary_start = |start: &dyno_model::StartRecord| {
        let pieces = &start.canary.as_ref()?.pieces;
        let us = |pick: fn(&dyno_model::start::CanaryPiece) -> u64| {
            median(&pieces.iter().map(|piece| pick(piece) as f64 / 1e3).collect::<Vec<_>>())
        };
        let launch = &plan.launches[start.launch];
        let arm = *launch.arms.first()?;
        Some(CanaryStart {
            subject: plan.arms[arm].name.clone(),
            block: launch.block + 1,
            cpu: plan.placement(start.launch, arm).subject.first().copied(),
            wall_us: us(|piece| piece.wall_ns)?,
            cpu_us: us(|piece| piece.cpu_ns)?,
        })
    };
    let starts: Vec<CanaryStart> = run.starts.iter().filter_map(canary_start).collect();
    let piece_us = median(&starts.iter().map(|start| start.wall_us).collect::<Vec<_>>())?;
    let cpus: BTreeSet<Option<u32>> = starts.iter().map(|start| start.cpu).collect();
    let range = |cpu: &Option<u32>| {
        let times = || starts.iter().filter(|start| start.cpu == *cpu).map(|start| start.wall_us);
        (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max))
    };
    let ratio = |(fastest, slowest): (f64, f64)| slowest / fastest;
    // Each CPU is compared with itself, because servers swap CPUs from block to block, and CPUs may
    // differ in speed.
    let ranges = cpus.iter().map(range).filter(|(fastest, _)| *fastest > 0.0);
    let (fastest_us, slowest_us) = ranges.max_by(|a, b| ratio(*a).total_cmp(&ratio(*b)))?;
    let slowest_to_fastest = ratio((fastest_us, slowest_us));
    Some(CanaryResult { slowest_to_fastest, fastest_us, slowest_us, starts, piece_us })
}

#[cfg(test)]
mod tests {
    use dyno_model::start::{Canary, CanaryPiece};

    use super::*;
    use crate::fixture::five_blocks;

    #[test]
    fn canary_result_lists_starts() {
        let mut run = five_blocks();
        assert_eq!(canary(&run), None);
        let piece = |ms: u64| CanaryPiece { wall_ns: ms * 1_000_000, cpu_ns: ms * 900_000 };
        let canary_of = |all: [u64; 3]| Some(Canary { steps: 1, pieces: all.map(piece).to_vec() });
        let start = |start, launch, canary| dyno_model::StartRecord {
            start,
            launch,
            canary,
            ..Default::default()
        };
        run.starts = vec![
            start(0, 0, canary_of([30, 31, 90])),
            start(1, 1, None),
            start(2, 2, canary_of([40, 41, 20])),
        ];
        let found = canary(&run).unwrap();
        assert_eq!(
            found.starts.iter().map(|s| (s.wall_us, s.cpu_us)).collect::<Vec<_>>(),
            [(31e3, 27.9e3), (40e3, 36e3)]
        );
        assert!((found.slowest_to_fastest - 40.0 / 31.0).abs() < 1e-12 && found.piece_us == 35.5e3);
        assert_eq!((found.fastest_us, found.slowest_us), (31e3, 40e3));
    }

    #[test]
    fn canary_compares_each_cpu_with_itself() {
        let mut run = five_blocks();
        run.header.plan.swaps_cpus = true;
        let piece = |ms: u64| CanaryPiece { wall_ns: ms * 1_000_000, cpu_ns: ms * 1_000_000 };
        let plan = &run.header.plan;
        let start = |(launch, planned): (usize, &dyno_model::plan::Launch)| {
            let ms = if planned.block % 2 == 0 { 20 } else { 30 + u64::from(planned.block == 3) };
            let canary = Some(Canary { steps: 1, pieces: vec![piece(ms)] });
            dyno_model::StartRecord { start: launch, launch, canary, ..Default::default() }
        };
        run.starts = plan.launches.iter().enumerate().map(start).collect();
        assert!((canary(&run).unwrap().slowest_to_fastest - 31.0 / 30.0).abs() < 1e-12);
    }
}
