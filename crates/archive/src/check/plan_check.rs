//! Checks that the measurements match the plan, and are possible on the machine. An edited record,
//! or a record of another run, often fails these checks.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::plan::{Arrivals, Plan, Trial};
use dyno_model::search::SearchLoad;
use dyno_model::{Facts, LoadRecord, Sample, TrialRecord};

use super::FileCheck;

/// Allowed deviation of the number of scheduled requests from the rate times the window, in
/// standard deviations of Poisson arrivals. Constant rates are off by at most one for each worker.
const DEVIATIONS: f64 = 6.0;

/// Checks that each block starts each arm once, with the same workloads and steps as the other
/// blocks. The analysis compares repeats block by block.
pub(super) fn check_blocks(plan: &Plan) -> FileCheck {
    let mut launches = BTreeMap::new();
    for (number, launch) in plan.launches.iter().enumerate() {
        for arm in &launch.arms {
            if let Some(other) = launches.insert((launch.block, *arm), number) {
                let block = launch.block;
                return Err(format!(
                    "block {block} (one pass over all servers) starts arm {arm} twice, in launches \
                     {other} and {number}"
                ));
            }
        }
    }
    // The number of repeats may be huge, so the iterator is lazy: it ends at the first missing arm.
    let mut planned_starts =
        (0..plan.arms.len()).flat_map(|arm| (0..plan.repeats).map(move |block| (block, arm)));
    if let Some((block, arm)) = planned_starts.find(|started| !launches.contains_key(started)) {
        return Err(format!("block {block} (one pass over all servers) does not start arm {arm}"));
    }
    let mut loads: BTreeMap<(usize, usize), BTreeSet<(usize, usize)>> = BTreeMap::new();
    for (number, trial) in plan.trials.iter().enumerate() {
        if !loads.entry((trial.arm, trial.launch)).or_default().insert((trial.workload, trial.step))
        {
            return Err(format!("trial {number} of the plan is the same as an earlier trial"));
        }
    }
    let steps_of = |block: u32, arm: usize| loads.get(&(arm, launches[&(block, arm)]));
    let mut started = launches.keys().copied();
    match started.find(|(block, arm)| steps_of(*block, *arm) != steps_of(0, *arm)) {
        Some((block, arm)) => Err(format!(
            "arm {arm} has different workloads or steps in blocks 0 and {block} (a block is one \
             pass over all servers)"
        )),
        None => Ok(()),
    }
}

/// Checks a load against its trial's plan.
pub(super) fn check_planned_load(plan: &Plan, trial: &Trial, load: &LoadRecord) -> FileCheck {
    let step = &plan.load.steps[trial.step];
    let workload = &plan.workloads[trial.workload];
    // Over HTTP/2 a page always has one connection.
    let per_visitor = match &workload.page {
        Some(page) if workload.protocol.is_h1() => u64::from(page.connections),
        _ => 1,
    };
    let planned_connections = u64::from(step.connections) * per_visitor;
    let asked = load.connections.asked;
    if asked != planned_connections {
        return Err(format!(
            "the load has {asked} connections, but the plan has {planned_connections}"
        ));
    }
    if let Arrivals::Constant { rate } | Arrivals::Poisson { rate } = step.arrivals {
        check_scheduled(rate, load, plan.load.requests.is_some())?;
    }
    let duration_ns = plan.load_of_trial(trial).duration_ns;
    let (opens, closes) = load.window_ns;
    // Loads that take turns, or run at the same time, have one window. The window covers all of
    // these loads, so it may be longer than planned.
    let is_alone = load.slices_ns.is_none() && load.concurrent_loads.is_none();
    let is_timed = duration_ns > 0
        && !matches!(step.arrivals, Arrivals::Shaped { .. } | Arrivals::Trace { .. });
    if is_alone && is_timed && closes - opens > duration_ns {
        return Err(format!(
            "the measured window is {} ns long, but the plan allows only {duration_ns} ns",
            closes - opens
        ));
    }
    Ok(())
}

/// Checks the loads of a search against their rates.
pub(super) fn check_search_load(search_load: &SearchLoad) -> FileCheck {
    check_scheduled(search_load.rate, &search_load.load, false)
}

/// Checks how many requests were scheduled in the window at a rate in requests per second. A load
/// that ended early, or has a limited number of requests, may have scheduled fewer.
fn check_scheduled(rate: f64, load: &LoadRecord, has_request_limit: bool) -> FileCheck {
    let (opens, closes) = load.window_ns;
    let expected = rate * (closes - opens) as f64 / 1e9;
    let tolerance = DEVIATIONS * expected.sqrt() + load.client.threads.len() as f64 + 1.0;
    let scheduled = load.books.scheduled;
    let may_be_fewer = has_request_limit || load.cut_short || load.server_failure.is_some();
    let min = if may_be_fewer { 0.0 } else { expected - tolerance };
    if !(min..=expected + tolerance).contains(&(scheduled as f64)) {
        return Err(format!(
            "{scheduled} requests were scheduled, but the planned rate gives about {expected:.0}"
        ));
    }
    Ok(())
}

/// CPU time that the kernel may book after it was used, such as at the end of a period of a quota.
const LATE_NS: u64 = 100_000_000;

/// Checks that no party used more CPU time or memory than the machine has. A CPU quota is not used
/// as a bound, because it applies to periods, and may be set for dyno alone.
pub(super) fn check_resources(facts: &Facts, load: &LoadRecord) -> FileCheck {
    load.samples.windows(2).try_for_each(|pair| check_use(facts, &pair[0], &pair[1]))
}

fn check_use(facts: &Facts, before: &Sample, now: &Sample) -> FileCheck {
    let refuse = |problem: String| Err(format!("{problem} in the sample at {} ns", now.at_ns));
    let elapsed_ns = now.at_ns + now.took_ns - before.at_ns;
    let max_ns = facts
        .online_cpus
        .map(|cpus| elapsed_ns.saturating_mul(u64::from(cpus)).saturating_add(LATE_NS));
    for used in &now.parties {
        let cpu_ns = |sample: &Sample| {
            sample.party_use(used.party).and_then(|used| used.cgroup.as_ref()?.cpu_ns)
        };
        if let (Some(from), Some(to), Some(max_ns)) = (cpu_ns(before), cpu_ns(now), max_ns)
            && to.saturating_sub(from) > max_ns
        {
            return refuse(format!(
                "{} used {} ns of CPU time, but all CPUs of the machine together have only \
                 {max_ns} ns in that period",
                used.party,
                to - from
            ));
        }
        let memory = used.cgroup.as_ref().and_then(|group| group.memory_bytes);
        if let (Some(memory), Some(max)) = (memory, facts.memory_bytes)
            && memory > max
        {
            return refuse(format!(
                "{} uses {memory} bytes of memory, but the machine has only {max} bytes",
                used.party
            ));
        }
    }
    Ok(())
}

/// Checks trials against each other: none is a copy of another, and turns do not overlap.
pub(crate) fn check_together(trials: &[TrialRecord]) -> FileCheck {
    let mut by_begin: BTreeMap<u64, Vec<&TrialRecord>> = BTreeMap::new();
    for trial in trials {
        by_begin.entry(trial.load.began_ns).or_default().push(trial);
    }
    by_begin.values().try_for_each(|concurrent| {
        check_copies(concurrent)?;
        check_turns(concurrent)
    })
}

fn check_copies(trials: &[&TrialRecord]) -> FileCheck {
    for (i, trial) in trials.iter().enumerate() {
        if let Some(first) = trials[..i].iter().find(|first| first.load == trial.load) {
            return Err(format!(
                "trials {} and {} have identical results, so one is a copy of the other",
                first.trial, trial.trial
            ));
        }
    }
    Ok(())
}

fn check_turns(trials: &[&TrialRecord]) -> FileCheck {
    let in_turns =
        || trials.iter().filter_map(|trial| Some((trial.trial, trial.load.slices_ns.as_ref()?)));
    let mut slices: Vec<(u64, u64)> = in_turns().flat_map(|(_, slices)| slices).copied().collect();
    slices.sort_unstable();
    if slices.is_sorted_by(|(_, end), (next_start, _)| end <= next_start) {
        return Ok(());
    }
    let numbers: Vec<String> = in_turns().map(|(trial, _)| trial.to_string()).collect();
    Err(format!("the turns (time slices with load) of trials {} overlap", numbers.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_model::Party;
    use dyno_model::sample::{CgroupUse, PartyUse};

    /// A server on eight CPUs uses 1.4 of them under a quota of 1.5 CPUs.
    #[test]
    fn cpu_quota_of_dyno_is_no_bound_of_cpu_time() {
        let sample = |at_ns, cpu_ns| {
            let cgroup = Some(CgroupUse { cpu_ns: Some(cpu_ns), ..CgroupUse::default() });
            let used = PartyUse { cgroup, ..PartyUse::empty(Party::SUBJECT) };
            Sample { at_ns, parties: vec![used], ..Sample::default() }
        };
        let (before, after) = (sample(0, 0), sample(1_000_000_000, 1_400_000_000));
        let check = |online_cpus| {
            let facts = Facts { cpus: 1, online_cpus, ..Facts::default() };
            check_use(&facts, &before, &after)
        };
        assert_eq!(check(Some(8)), Ok(()));
        assert_eq!(check(None), Ok(()), "unknown CPUs");
        assert!(check(Some(1)).is_err());
    }
}
