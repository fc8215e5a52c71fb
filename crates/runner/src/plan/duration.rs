//! Estimates how long a plan takes, for the time display.

use dyno_analysis::capacity;
use dyno_archive::plan::{Plan, Trial};
use dyno_archive::probe::Probe;

use crate::limits::{IDLE_MEASUREMENT, PROFILE_LENGTH, REST, SEARCH_LOADS, SEARCH_WARMUP_NS};
use crate::price;
use crate::run::warm;

/// Estimated time of a start in addition to its trials (starting, checking, stopping), for the time
/// display.
pub(super) const START_NS: u64 = 1_500_000_000;

/// Estimated time of a trial in addition to its phases.
const TRIAL_NS: u64 = 100_000_000;

/// Returns the estimated duration of a plan without its builds, nanoseconds. It assumes that every
/// server is steady as early as can be detected. Other starts take longer, up to the limit of
/// [`dyno_archive::plan::UntilSteady`].
#[must_use]
pub fn expected_ns(plan: &Plan) -> u64 {
    let runs = |launch: &usize| plan.launches[*launch].arms.iter().all(|arm| plan.takes_part(*arm));
    let launches = (0..plan.launches.len()).filter(|l| runs(l)).count() as u64;
    let trials = plan.trials.iter().filter(|t| runs(&t.launch)).count() as u64;
    let warm_ns: u64 =
        (0..plan.launches.len()).filter(|l| runs(l)).map(|l| warm::shortest_ns(plan, l)).sum();
    let firsts =
        (0..plan.launches.len()).filter(|l| runs(l) && plan.is_first_inspection(*l)).count() as u64;
    let price_ns = if plan.probe_price { price::length_ns() } else { 0 };
    let first_ns = firsts * (IDLE_MEASUREMENT.as_nanos() as u64 + price_ns);
    let is_profiled = |trial: &&Trial| {
        runs(&trial.launch) && plan.arms[trial.arm].conditions.observe.contains(&Probe::Profile)
    };
    let profiles = plan.trials.iter().filter(is_profiled).count() as u64;
    // Also an estimate: the number of loads of a search depends on its result.
    let is_searched = |t: &usize| runs(&plan.trials[*t].launch) && capacity::has_search(plan, *t);
    let searches =
        plan.search.map_or(0, |_| (0..plan.trials.len()).filter(is_searched).count() as u64);
    let search_ns = SEARCH_LOADS
        * (SEARCH_WARMUP_NS + plan.load.duration_ns + REST.as_nanos() as u64 + TRIAL_NS);
    launches * START_NS
        + first_ns
        + searches * search_ns
        + profiles * (PROFILE_LENGTH.as_nanos() as u64 + plan.load.warmup_ns + TRIAL_NS)
        + warm_ns
        + trials * (plan.load.warmup_ns + plan.load.duration_ns + TRIAL_NS)
}
