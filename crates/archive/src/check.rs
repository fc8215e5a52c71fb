//! Checks that a run is consistent. Users share archives, and an archive may be damaged, mixed from
//! two runs or edited by hand. This module refuses such an archive, with the reason.
//!
//! Later code can therefore rely on valid indices, on intervals that end after they begin, and on
//! sums that do not overflow.

mod books;
mod counters;
pub(crate) mod plan_check;

use std::collections::BTreeSet;

use dyno_model::limits::{
    BYTES, COUNT, CPU_TIME_SINCE_BOOT, DURATION_NS, FUNCTION_NAME_BYTES, GENERATOR_THREADS,
    IN_FLIGHT, INSTANT_NS, INTERVALS, REPEATS, SAMPLES, SEARCH_LOADS, SEARCH_RATES, SINCE_BOOT,
    STACK_FRAMES, SUBJECT_THREADS, WARM_UP_SLICES,
};
use dyno_model::plan::{Arm, Arrivals, Launch, Load, Plan, Segment, Step};
use dyno_model::profile::{Frame, ProfileRecord};
use dyno_model::run::RunHeader;
use dyno_model::search::SearchRecord;
use dyno_model::start::WarmUp;
use dyno_model::{Interval, LoadRecord, Party, Sample, StartRecord, TrialRecord};
use serde_json::Value;

use crate::header_ids::HeaderIds;

/// Result of a check. `Err`: the problem, as the second half of a sentence about the file.
pub(crate) type FileCheck = Result<(), String>;

pub(crate) fn check_header(header: &RunHeader) -> FileCheck {
    let plan = &header.plan;
    let empty = |list: &str| Err(format!("the plan has no {list}"));
    if plan.workloads.is_empty() {
        return empty("workloads");
    }
    if plan.load.steps.is_empty() {
        return empty("steps");
    }
    if let Some(w) = plan.workloads.iter().find(|w| w.requests.is_empty()) {
        return Err(format!("workload {:?} has no requests", w.name));
    }
    check_unique("subjects", plan.subjects.iter().map(dyno_model::plan::Subject::id))?;
    check_unique("back ends", plan.backends.iter().map(|b| b.name.clone()))?;
    check_unique("workloads", plan.workloads.iter().map(|w| w.name.clone()))?;
    check_maximum("`repeats`", u64::from(plan.repeats), u64::from(REPEATS))?;
    check_maximum("`load.threads`", u64::from(plan.load.threads), GENERATOR_THREADS as u64)?;
    check_unique("arms", plan.arms.iter().map(|arm| arm.name.clone()))?;
    plan.arms.iter().try_for_each(check_arm_limits)?;
    plan.backends
        .iter()
        .try_for_each(|b| check_positive("`limits.cpus` of a back end", b.limits.cpus))?;
    check_lengths(&plan.load)?;
    plan.load.steps.iter().enumerate().try_for_each(|(i, s)| check_step(i, s))?;
    if let Some(search) = &plan.search {
        if !(search.width > 0.0 && search.width <= 1.0) {
            return Err(format!(
                "`search.width` is {}, but must be above 0 and at most 1",
                search.width
            ));
        }
        if plan.report.objective.is_none() {
            return Err("the search has no objective".into());
        }
    }
    for marker in &plan.report.markers {
        check_positive("`connections` of a marker", Some(marker.connections))?;
    }
    check_indices(plan)
}

/// Checks that the ids of a header belong to its other parts. `ids`: `None` if the file has none.
pub(crate) fn check_ids(header: &RunHeader, ids: Option<&HeaderIds>) -> FileCheck {
    match ids {
        Some(ids) if *ids != HeaderIds::new(header) => {
            Err("`ids` does not belong to the plan and the facts".into())
        }
        _ => Ok(()),
    }
}

fn check_arm_limits(arm: &Arm) -> FileCheck {
    let name = &arm.name;
    check_positive(&format!("`limits.cpus` of arm {name:?}"), arm.conditions.limits.cpus)?;
    if let Some(level) = arm.level.filter(|level| !level.is_finite() || level.abs() > COUNT as f64)
    {
        return Err(format!(
            "the level of arm {name:?} is {level}, but must be between -{COUNT} and {COUNT}"
        ));
    }
    let threads = arm.conditions.load.threads.unwrap_or(1);
    check_maximum(
        &format!("`load.threads` of arm {name:?}"),
        u64::from(threads),
        GENERATOR_THREADS as u64,
    )
}

fn check_indices(plan: &Plan) -> FileCheck {
    let check_subject =
        |owner: String, index| check_index(&owner, "subject", index, plan.subjects.len());
    let check_workload =
        |owner: String, index| check_index(&owner, "workload", index, plan.workloads.len());
    let check_arm = |owner: String, index| check_index(&owner, "arm", index, plan.arms.len());
    for (i, arm) in plan.arms.iter().enumerate() {
        check_subject(format!("arm {i}"), arm.subject)?;
        let backend = |index: &usize| {
            check_index(&format!("arm {i}"), "back end", *index, plan.backends.len())
        };
        arm.backends.iter().try_for_each(backend)?;
        check_unique(&format!("back ends of arm {i}"), arm.backends.iter())?;
    }
    plan.sharing.duet().iter().try_for_each(|index| check_arm("the duet".into(), *index))?;
    for (i, launch) in plan.launches.iter().enumerate() {
        if launch.arms.is_empty() {
            return Err(format!("launch {i} has no arm"));
        }
        launch.arms.iter().try_for_each(|arm| check_arm(format!("launch {i}"), *arm))?;
        check_unique(&format!("arms of launch {i}"), launch.arms.iter())?;
        if launch.block >= plan.repeats {
            return Err(format!(
                "launch {i} belongs to block {}, but the plan has only {} blocks (repeats), and \
                 the first has number 0",
                launch.block, plan.repeats
            ));
        }
    }
    for (i, trial) in plan.trials.iter().enumerate() {
        let owner = || format!("trial {i} of the plan");
        check_index(&owner(), "launch", trial.launch, plan.launches.len())?;
        if !plan.launches[trial.launch].arms.contains(&trial.arm) {
            return Err(format!(
                "{} loads arm (server variant) {}, but launch {} does not start this arm",
                owner(),
                trial.arm,
                trial.launch
            ));
        }
        check_workload(owner(), trial.workload)?;
        check_index(&owner(), "step", trial.step, plan.load.steps.len())?;
    }
    plan_check::check_blocks(plan)?;
    for (i, entry) in plan.not_served.iter().enumerate() {
        check_subject(format!("entry {i} of `not_served`"), entry.subject)?;
        check_workload(format!("entry {i} of `not_served`"), entry.workload)?;
    }
    Ok(())
}

/// Checks the lengths of a load, of which readers compute sums.
fn check_lengths(load: &Load) -> FileCheck {
    let lengths = [
        ("warmup_ns", Some(load.warmup_ns)),
        ("duration_ns", Some(load.duration_ns)),
        ("interval_ns", Some(load.interval_ns)),
        ("timeout_ns", Some(load.timeout_ns)),
        ("first_byte_timeout_ns", load.first_byte_timeout_ns),
        ("connect_timeout_ns", Some(load.connect_timeout_ns)),
        ("drain_ns", Some(load.drain_ns)),
        ("ramp_connections_ns", load.ramp_connections_ns),
        ("until_steady.limit_ns", load.until_steady.map(|until| until.limit_ns)),
    ];
    lengths.into_iter().try_for_each(|(name, ns)| {
        check_maximum(&format!("`load.{name}`"), ns.unwrap_or(0), DURATION_NS)
    })
}

fn check_step(index: usize, step: &Step) -> FileCheck {
    let factors = [step.connections, step.streams, step.pipeline];
    let in_flight = factors.into_iter().try_fold(1u32, u32::checked_mul);
    if in_flight.is_none_or(|n| n == 0 || n > IN_FLIGHT) {
        return Err(format!(
            "step {index} has {} connections × {} streams × pipeline depth {}: the product is 0 or \
             above the limit of {IN_FLIGHT}",
            factors[0], factors[1], factors[2]
        ));
    }
    let check_rate = |rate| check_positive(&format!("the rate of step {index}"), Some(rate));
    match &step.arrivals {
        Arrivals::Closed | Arrivals::Trace { .. } => Ok(()),
        Arrivals::Constant { rate } | Arrivals::Poisson { rate } => check_rate(*rate),
        Arrivals::Shaped { segments, .. } => {
            let is_rate = |r: f64| r.is_finite() && r >= 0.0;
            let is_valid = |s: &Segment| is_rate(s.from_rate) && is_rate(s.to_rate);
            if !segments.iter().all(is_valid) {
                return Err(format!("a rate of step {index} is negative or not finite"));
            }
            let length_ns = segments.iter().fold(0u64, |sum, s| sum.saturating_add(s.duration_ns));
            check_maximum(&format!("the length of step {index} in ns"), length_ns, DURATION_NS)
        }
    }
}

pub(crate) fn check_start(plan: &Plan, start: &StartRecord) -> FileCheck {
    check_index("this start", "launch", start.launch, plan.launches.len())?;
    check_unique("parts", start.parts.iter().map(|p| p.party))?;
    if let (Some(began_ns), Some(ended_ns)) = (start.began_ns, start.ended_ns)
        && began_ns > ended_ns
    {
        return Err(format!(
            "`ended_ns` is {ended_ns}, but must not be less than `began_ns`, which is {began_ns}"
        ));
    }
    let launch = &plan.launches[start.launch];
    start
        .parts
        .iter()
        .try_for_each(|part| check_party("a part of this start", plan, launch, part.party))?;
    let mut warm_ups = start.parts.iter().filter_map(|part| part.warmup.as_ref());
    warm_ups.try_for_each(|warm_up| check_warm_up(plan, warm_up))
}

/// Checks the indices of a warm-up, and the number of its slices, over which readers add up.
fn check_warm_up(plan: &Plan, warm_up: &WarmUp) -> FileCheck {
    check_maximum("the number of slices", warm_up.slices.len() as u64, WARM_UP_SLICES as u64)?;
    let workloads = warm_up.slices.iter().map(|slice| slice.workload);
    for workload in workloads.chain(warm_up.failures.keys().copied()) {
        check_index("the warm-up", "workload", workload, plan.workloads.len())?;
    }
    for slice in &warm_up.slices {
        check_index("the warm-up", "step", slice.step, plan.load.steps.len())?;
        if slice.end_ns < slice.start_ns {
            return Err(format!(
                "a slice of the warm-up begins at {} ns, after its end at {} ns",
                slice.start_ns, slice.end_ns
            ));
        }
    }
    Ok(())
}

/// Checks the index of a party. A start has a subject for each arm, and a load has one generator.
fn check_party(owner: &str, plan: &Plan, launch: &Launch, party: Party) -> FileCheck {
    match party {
        Party::Subject(index) => check_index(owner, "subject", index, launch.arms.len()),
        Party::Backend(index) => check_index(owner, "back end", index, plan.backends.len()),
        Party::Generator(index) => check_index(owner, "generator", index, 1),
    }
}

/// Checks a trial.
pub(crate) fn check_trial(
    header: &RunHeader,
    starts: &[StartRecord],
    trial: &TrialRecord,
) -> FileCheck {
    let plan = &header.plan;
    let Some(planned) = plan.trials.get(trial.trial) else {
        return check_index("this file", "trial", trial.trial, plan.trials.len());
    };
    let Some(start) = starts.iter().find(|s| s.start == trial.start) else {
        return Err(format!(
            "the trial belongs to start {} of a server, but the run has no record of this start",
            trial.start
        ));
    };
    if start.launch != planned.launch {
        return Err(format!(
            "trial {} is planned for launch {}, but it was measured in start {}, which belongs to \
             launch {}",
            trial.trial, planned.launch, start.start, start.launch
        ));
    }
    check_instants(start, trial.trial, trial.load.began_ns, trial.load.window_ns)?;
    for used in trial.load.samples.iter().flat_map(|s| &s.parties) {
        check_party("a sample", plan, &plan.launches[planned.launch], used.party)?;
    }
    check_positive(
        "`throughput_rps` of the trial's ceiling",
        trial.ceiling.as_ref().map(|c| c.throughput_rps),
    )?;
    check_load(&trial.load)?;
    plan_check::check_planned_load(plan, planned, &trial.load)?;
    // A run may be resumed on another machine, but the header has the facts of the first one.
    if header.resumptions.is_empty() {
        plan_check::check_resources(&header.facts, &trial.load)
    } else {
        Ok(())
    }
}

/// Checks that the load of a trial took place during its start. A trial of another run of the same
/// plan has the same indices, but other instants.
fn check_instants(
    start: &StartRecord,
    trial: usize,
    began_ns: u64,
    window_ns: (u64, u64),
) -> FileCheck {
    // A load that never began, because its server had ended, has no instants.
    if (began_ns, window_ns) == (0, (0, 0)) {
        return Ok(());
    }
    let (_, closes) = window_ns;
    let closed_ns = began_ns.saturating_add(closes);
    let outside = |position: &str, instant_ns: u64| {
        Err(format!(
            "the load of trial {trial} took place from {began_ns} to {closed_ns} ns, but start {} \
             of its server {position} at {instant_ns} ns",
            start.start
        ))
    };
    match (start.began_ns, start.ended_ns) {
        (Some(start_began_ns), _) if began_ns < start_began_ns => outside("began", start_began_ns),
        (_, Some(start_ended_ns)) if closed_ns > start_ended_ns => outside("ended", start_ended_ns),
        _ => Ok(()),
    }
}

fn check_frame(frame: &Frame) -> FileCheck {
    frame.name.iter().chain(&frame.module).try_for_each(|name| check_one_line(name))
}

/// Checks that a name from an archive has one line, because reports print it in line-based files.
fn check_one_line(name: &str) -> FileCheck {
    check_maximum("the length of a name in bytes", name.len() as u64, FUNCTION_NAME_BYTES as u64)?;
    if name.chars().any(char::is_control) {
        Err("a name has control characters".into())
    } else {
        Ok(())
    }
}

/// Checks a profile. `trials`: number of trials of the plan.
pub(crate) fn check_profile(trials: usize, profile: &ProfileRecord) -> FileCheck {
    check_index("the profile", "trial", profile.trial, trials)?;
    check_maximum("`length_ns` of the profile", profile.length_ns, DURATION_NS)?;
    check_maximum("`answers` of the profile", profile.responses, COUNT)?;
    check_maximum("`cpu_ns` of the profile", profile.cpu_ns.unwrap_or(0), SINCE_BOOT)?;
    profile.frames.iter().try_for_each(check_frame)?;
    for stacks in [&profile.running, &profile.waiting] {
        check_maximum("`period_ns` of the stacks", stacks.period_ns, DURATION_NS)?;
        check_maximum("the number of stacks", stacks.stacks.len() as u64, SAMPLES as u64)?;
        // The sums of samples and of their times must not overflow.
        let samples =
            stacks.stacks.iter().try_fold(stacks.lost, |sum, stack| sum.checked_add(stack.samples));
        let time = samples.and_then(|samples| samples.checked_mul(stacks.period_ns));
        check_maximum("the total time of the samples", time.unwrap_or(u64::MAX), i64::MAX as u64)?;
        for stack in &stacks.stacks {
            check_maximum(
                "the number of frames of a stack",
                stack.frames.len() as u64,
                STACK_FRAMES as u64,
            )?;
            let mut frames = stack.frames.iter();
            frames.try_for_each(|frame| {
                check_index("a stack", "frame", *frame as usize, profile.frames.len())
            })?;
            [&stack.thread, &stack.process]
                .into_iter()
                .try_for_each(|name| check_one_line(name))?;
        }
    }
    Ok(())
}

/// Checks a search. `trials`: number of trials of the plan.
pub(crate) fn check_search(trials: usize, search: &SearchRecord) -> FileCheck {
    check_index("the search", "trial", search.trial, trials)?;
    check_search_loads(search)
}

/// Checks the loads of a search.
pub(crate) fn check_search_loads(search: &SearchRecord) -> FileCheck {
    check_maximum(
        "the number of loads of the search",
        search.loads.len() as u64,
        SEARCH_LOADS as u64,
    )?;
    for search_load in &search.loads {
        if !SEARCH_RATES.contains(&search_load.rate) {
            return Err(format!(
                "a load of the search has a rate of {} requests per second, but the rate must be \
                 from {} to {}",
                search_load.rate,
                SEARCH_RATES.start(),
                SEARCH_RATES.end()
            ));
        }
        check_load(&search_load.load)?;
        plan_check::check_search_load(search_load)?;
    }
    Ok(())
}

/// Returns how a load contradicts itself. An archive with such a record could not be read.
/// `None`: the record is consistent.
#[must_use]
pub fn contradiction(load: &LoadRecord) -> Option<String> {
    check_load(load).err()
}

fn check_load(load: &LoadRecord) -> FileCheck {
    let (opens, closes) = load.window_ns;
    if opens > closes {
        return Err(format!(
            "the measured window begins at {opens} ns, after its end at {closes} ns"
        ));
    }
    check_maximum("the number of intervals", load.intervals.len() as u64, INTERVALS as u64)?;
    check_maximum("the number of samples", load.samples.len() as u64, SAMPLES as u64)?;
    check_maximum(
        "the number of threads",
        load.client.threads.len() as u64,
        GENERATOR_THREADS as u64,
    )?;
    check_intervals(&load.intervals)?;
    check_samples(&load.samples)?;
    books::check_counts(load)?;
    counters::check_growth(&load.samples)?;
    load.slices_ns.as_deref().map_or(Ok(()), |turns| check_slices(load, turns))
}

fn check_slices(load: &LoadRecord, turns: &[(u64, u64)]) -> FileCheck {
    check_maximum("the number of turns", turns.len() as u64, INTERVALS as u64)?;
    let is_ordered = turns.is_sorted_by(|(_, end), (next_start, _)| end <= next_start);
    if !is_ordered || !turns.iter().all(|(start, end)| start < end) {
        return Err("the turns (time slices with load) overlap, have no length, or are not in \
                    order of time"
            .into());
    }
    let (_, closes) = load.window_ns;
    if let Some((start, end)) = turns.iter().find(|(_, end)| *end > closes) {
        return Err(format!(
            "a turn (time slice with load) from {start} to {end} ns extends beyond the measured \
             window, which ends at {closes} ns"
        ));
    }
    Ok(())
}

fn check_intervals(all: &[Interval]) -> FileCheck {
    if let Some(i) = all.iter().find(|i| i.end_ns < i.start_ns) {
        return Err(format!(
            "an interval begins at {} ns, after its end at {} ns",
            i.start_ns, i.end_ns
        ));
    }
    if all.is_sorted_by_key(|i| i.start_ns) {
        Ok(())
    } else {
        Err("the intervals are not in order of time".into())
    }
}

fn check_samples(all: &[Sample]) -> FileCheck {
    if !all.is_sorted_by_key(|s| s.at_ns) {
        return Err("the samples are not in order of time".into());
    }
    all.iter().try_for_each(|sample| {
        check_unique("parties of a sample", sample.parties.iter().map(|p| p.party))?;
        sample.parties.iter().try_for_each(|p| {
            let max =
                if let Party::Generator(_) = p.party { GENERATOR_THREADS } else { SUBJECT_THREADS };
            check_maximum("the number of threads in a sample", p.threads.len() as u64, max as u64)?;
            let names = p.ended.as_ref().map_or(0, Vec::len);
            check_maximum(
                "the number of names of ended threads in a sample",
                names as u64,
                SUBJECT_THREADS as u64,
            )
        })
    })
}

/// Checks that no value occurs twice. `name`: the plural noun for the values.
pub(crate) fn check_unique<T: Ord + std::fmt::Debug>(
    name: &str,
    values: impl Iterator<Item = T>,
) -> FileCheck {
    let mut distinct = BTreeSet::new();
    for value in values {
        if distinct.contains(&value) {
            return Err(format!("the list of {name} has {value:?} twice"));
        }
        distinct.insert(value);
    }
    Ok(())
}

/// Checks that every number of a trial is within the limits of its kind. The kind is derived from
/// the field's name, so that fields of later versions are checked as well.
pub(crate) fn check_numbers(record: &Value) -> FileCheck {
    check_number_fields("", record)
}

fn check_number_fields(field: &str, value: &Value) -> FileCheck {
    match value {
        Value::Number(n) => match n.as_u64() {
            Some(n) => check_maximum(&format!("`{field}`"), n, field_limit(field)),
            None => check_fraction(field, n.as_f64().unwrap_or(f64::NAN)),
        },
        Value::Array(values) => values.iter().try_for_each(|v| check_number_fields(field, v)),
        // Values that a server reports may be any numbers.
        Value::Object(members) if field == "runtime" => {
            let ours = members.iter().filter(|(name, _)| *name != "values");
            ours.into_iter().try_for_each(|(name, v)| check_number_fields(name, v))
        }
        Value::Object(members) => {
            members.iter().try_for_each(|(name, v)| check_number_fields(name, v))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

/// Checks that a number that may be a fraction is within its limits.
fn check_fraction(field: &str, n: f64) -> FileCheck {
    let max = field_limit(field) as f64;
    if (0.0..=max).contains(&n) {
        Ok(())
    } else {
        Err(format!("`{field}` is {n}, but must be 0 to {max}"))
    }
}

/// Upper limit of a field's values.
fn field_limit(field: &str) -> u64 {
    match field {
        // CPU times of the machine since its start.
        "busy_ns" | "idle_ns" | "steal_ns" => CPU_TIME_SINCE_BOOT,
        // Instants, and sums of time over connections, threads or CPUs.
        "interrupt_ns" | "kernel_threads_ns" => INSTANT_NS,
        "at_ns" | "began_ns" | "ended_ns" | "dropped_load_ns" | "before_ns" | "others_ns"
        | "in_flight_ns" | "window_limited_ns" | "buffer_limited_ns" | "running_ns"
        | "runnable_ns" | "lock_ns" | "network_ns" | "disk_ns" | "sleep_ns" | "other_ns"
        | "user_ns" | "sys_ns" => INSTANT_NS,
        // Counted since the machine was started, or summed over its CPUs or over calls.
        "cpu_ns"
        | "memory_ns"
        | "io_ns"
        | "disk_busy_ns"
        | "interrupts"
        | "context_switches"
        | "bytes_read"
        | "bytes_written"
        | "bytes_in"
        | "bytes_out"
        | "segments_out"
        | "segments_retransmitted"
        | "delayed_acks"
        | "returned" => SINCE_BOOT,
        f if f.ends_with("_ns") => DURATION_NS,
        f if f.contains("bytes") || f == "body_received" => BYTES,
        _ => COUNT,
    }
}

fn check_index(owner: &str, target: &str, index: usize, count: usize) -> FileCheck {
    if index < count {
        return Ok(());
    }
    Err(format!(
        "{owner} refers to {target} {index}, but only {count} exist, and the first has number 0"
    ))
}

fn check_maximum(name: &str, n: u64, max: u64) -> FileCheck {
    if n <= max { Ok(()) } else { Err(format!("{name} is {n}, but must be at most {max}")) }
}

fn check_positive(name: &str, value: Option<f64>) -> FileCheck {
    match value {
        Some(v) if !(v.is_finite() && v > 0.0) => {
            Err(format!("{name} is {v}, but must be above 0"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_model::profile::{FrameKind, Stack, Stacks};
    use serde_json::json;

    #[test]
    fn load_that_never_began_has_no_instants() {
        let start =
            StartRecord { began_ns: Some(100), ended_ns: Some(200), ..StartRecord::default() };
        assert_eq!(check_instants(&start, 3, 0, (0, 0)), Ok(()));
        assert_eq!(check_instants(&start, 3, 100, (20, 100)), Ok(()));
        for (began_ns, window_ns) in [(0, (0, 50)), (99, (0, 50)), (100, (0, 101))] {
            let check = check_instants(&start, 3, began_ns, window_ns);
            assert!(check.is_err(), "{began_ns} {window_ns:?}");
        }
    }

    #[test]
    fn profile_above_limits_is_refused() {
        let frame =
            |name: &str| Frame { name: Some(name.into()), module: None, kind: FrameKind::Native };
        let stack = |frames: &[u32], samples| Stack {
            frames: frames.to_vec(),
            samples,
            ..Stack::default()
        };
        let complete_record = || ProfileRecord {
            frames: vec![frame("main")],
            running: Stacks { period_ns: 1000, lost: 0, stacks: vec![stack(&[0], 7)] },
            ..ProfileRecord::default()
        };
        let refused = |change: &dyn Fn(&mut ProfileRecord)| {
            let mut record = complete_record();
            change(&mut record);
            check_profile(1, &record).err().unwrap_or_default()
        };
        assert_eq!(refused(&|_| {}), "");
        assert!(refused(&|p| p.trial = 1).contains("trial"));
        assert!(refused(&|p| p.running.stacks = vec![stack(&[1], 1)]).contains("frame"));
        assert!(
            refused(&|p| p.running.stacks = vec![stack(&[0; STACK_FRAMES + 1], 1)])
                .contains("the number of frames of a stack")
        );
        let time = "the total time of the samples";
        assert!(
            refused(&|p| p.running.stacks = vec![stack(&[0], u64::MAX), stack(&[0], 1)])
                .contains(time)
        );
        assert!(refused(&|p| p.running.stacks = vec![stack(&[0], u64::MAX / 1000)]).contains(time));
        assert!(refused(&|p| p.frames = vec![frame("a\nb 9")]).contains("control characters"));
        assert!(
            refused(&|p| p.frames = vec![frame(&"x".repeat(FUNCTION_NAME_BYTES + 1))])
                .contains("the length of a name")
        );
        assert!(
            refused(&|p| p.running.stacks[0].thread = "\u{1b}[31m".into())
                .contains("control characters")
        );
    }

    /// Counters of three years of a machine with many CPUs and a fast network.
    #[test]
    fn counters_since_boot_within_limits_are_accepted() {
        let year_ns: u64 = 31_557_600_000_000_000;
        let host = json!({
            "busy_ns": 512 * year_ns / 4, "idle_ns": 256 * year_ns, "steal_ns": year_ns,
            "interrupt_ns": 20 * year_ns, "kernel_threads_ns": 20 * year_ns,
            "pressure": {"cpu_ns": 3 * year_ns, "io_ns": 3 * year_ns}, "interrupts": 1u64 << 50,
            "links": [{"bytes_in": 1u64 << 58, "bits_per_s": 800_000_000_000u64}],
            "disks": [{"bytes_read": 1u64 << 57, "disk_busy_ns": 3 * year_ns}],
        });
        assert_eq!(check_numbers(&host), Ok(()));
        let calls = json!({"by_name": {"write": {"count": 1u64 << 40, "returned": 1u64 << 55}}});
        assert_eq!(check_numbers(&calls), Ok(()));
        assert!(check_numbers(&json!({"returned": u64::MAX})).is_err());
    }
}
