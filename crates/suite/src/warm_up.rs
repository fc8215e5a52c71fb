//! The first turns of a start's warm-up, which `dyno-lab` executes and estimates count.

use dyno_analysis::steady_state::MIN_ROUNDS;
use dyno_model::plan::{Plan, Trial};

use crate::limits::{
    FIRST_SLICE_MAX_NS, FIRST_SLICE_MIN_NS, FIRST_SLICES_NS, TURN_GAP_NS, TURN_SETTLE_NS,
    TURN_SLICES,
};

/// Returns the length of a launch's warm-up if its server is steady as early as can be detected,
/// nanoseconds.
#[must_use]
pub fn shortest_ns(plan: &Plan, launch: usize) -> u64 {
    let trials: Vec<&Trial> = plan.trials.iter().filter(|t| t.launch == launch).collect();
    let workloads = distinct_workloads(&trials).len() as u64;
    let turns = workloads * (MIN_ROUNDS as u64).div_ceil(TURN_SLICES);
    let turn_ns = TURN_SLICES * first_slice_ns(workloads) + TURN_SETTLE_NS + TURN_GAP_NS;
    plan.load.until_steady.map_or(0, |until| (turns * turn_ns).min(until.limit_ns))
}

/// Returns the length of the first slices for this many workloads, nanoseconds.
#[must_use]
pub fn first_slice_ns(workloads: u64) -> u64 {
    (FIRST_SLICES_NS / MIN_ROUNDS as u64 / workloads.max(1))
        .clamp(FIRST_SLICE_MIN_NS, FIRST_SLICE_MAX_NS)
}

/// Returns the workloads of trials, each once.
#[must_use]
pub fn distinct_workloads(trials: &[&Trial]) -> Vec<usize> {
    let mut workloads: Vec<usize> = trials.iter().map(|t| t.workload).collect();
    workloads.sort_unstable();
    workloads.dedup();
    workloads
}
