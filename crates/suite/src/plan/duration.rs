//! Estimates how long a plan takes, for `dyno plan` and the display of the remaining time.

use dyno_analysis::capacity;
use dyno_model::plan::{Plan, Trial};
use dyno_model::probe::Probe;

use crate::limits::{
    IDLE_MEASUREMENT, PROBE_COST_PAIRS, PROBE_COST_SETTLE, PROBE_COST_SLICE, PROFILE_LENGTH, REST,
    SEARCH_LOADS, SEARCH_WARMUP_NS,
};
use crate::warm_up;

/// Estimated time to start, check and stop a server, in addition to its trials.
pub(super) const START_NS: u64 = 1_500_000_000;

/// Estimated time of a trial in addition to its phases.
const TRIAL_NS: u64 = 100_000_000;

/// Returns the estimated duration of a plan without its builds, nanoseconds. The estimate assumes
/// that every server is steady as early as can be detected. Starts that are steady later take
/// longer, up to the limit of [`dyno_model::plan::UntilSteady`].
#[must_use]
pub fn expected_ns(plan: &Plan) -> u64 {
    let runs = |launch: &usize| plan.launches[*launch].arms.iter().all(|arm| plan.takes_part(*arm));
    let launches: Vec<usize> = (0..plan.launches.len()).filter(runs).collect();
    let trials = plan.trials.iter().filter(|t| runs(&t.launch)).count() as u64;
    let warm_ns: u64 = launches.iter().map(|launch| warm_up::shortest_ns(plan, *launch)).sum();
    let first_starts =
        launches.iter().filter(|launch| plan.is_first_start_with_probes(**launch)).count() as u64;
    let probes_ns = if plan.probe_price { price_ns() } else { 0 };
    let inspection_ns = first_starts * (IDLE_MEASUREMENT.as_nanos() as u64 + probes_ns);
    let is_profiled = |trial: &&Trial| {
        runs(&trial.launch) && plan.arms[trial.arm].conditions.observe.contains(&Probe::Profile)
    };
    let profiles = plan.trials.iter().filter(is_profiled).count() as u64;
    // `SEARCH_LOADS` is an estimate, because the number of loads of a search depends on its result.
    let is_searched = |t: &usize| runs(&plan.trials[*t].launch) && capacity::has_search(plan, *t);
    let searches =
        plan.search.map_or(0, |_| (0..plan.trials.len()).filter(is_searched).count() as u64);
    let search_ns = SEARCH_LOADS
        * (SEARCH_WARMUP_NS + plan.load.duration_ns + REST.as_nanos() as u64 + TRIAL_NS);
    launches.len() as u64 * START_NS
        + inspection_ns
        + searches * search_ns
        + profiles * (PROFILE_LENGTH.as_nanos() as u64 + plan.load.warmup_ns + TRIAL_NS)
        + warm_ns
        + trials * (plan.load.warmup_ns + plan.load.duration_ns + TRIAL_NS)
}

/// Returns the total length of the slices that measure the cost of probes, nanoseconds.
fn price_ns() -> u64 {
    2 * PROBE_COST_PAIRS as u64 * (PROBE_COST_SLICE + PROBE_COST_SETTLE).as_nanos() as u64
}
