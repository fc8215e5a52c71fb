//! Computes the CPU time per request of each start over its whole life, from exec on.
//!
//! The CPU time per request of a step is measured on a warm server. Over its whole life, a server
//! also uses CPU time to start, and to load and compile its code.

use dyno_model::plan::{Cost, Plan};
use dyno_model::run::Run;
use dyno_model::search::SearchRecord;
use dyno_model::start::PartStart;
use dyno_model::{Interval, Party, Phase, Sample, StartRecord, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cost;
use crate::server::strays::stray_processes;
use crate::stats::Repeated;

/// Lifetimes of an arm's starts. Empty without a cgroup (the kernel's group of processes), because
/// only a cgroup includes the CPU time of ended processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Lifetimes {
    pub starts: Vec<Lifetime>,
    /// CPU time ÷ correct responses at the end of each whole life, in microseconds. Start-up and
    /// warm-up are included.
    pub cpu_us_per_request: Repeated,
    /// Price of the CPU time of 10⁹ requests of a life with the median cost, in the currency of
    /// `[cost] per_vcpu_hour`; `null`: the suite names no price.
    pub cost_per_billion_requests: Option<f64>,
}

/// The life of one start.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Lifetime {
    /// Number of the repeat, counted from 1.
    pub repeat: u32,
    /// Whether the life includes all trials of its launch, so that it is comparable with others. It
    /// does not if the launch was interrupted or resumed, or if responses before its last trial are
    /// not recorded (in loads for a profile, a search or the price of probes, and in a load that
    /// ended because the server of a load at the same time failed).
    #[serde(rename = "whole")]
    pub is_complete: bool,
    /// Points in order of time: the server was ready, the server was warm, and the end of each
    /// trial. The last point is before the first load whose responses are not recorded.
    pub points: Vec<LifePoint>,
}

/// Totals of a start up to one instant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LifePoint {
    /// Index of the ended trial's workload in the plan; `null`: before the end of the first trial.
    pub workload: Option<usize>,
    /// Index among the plan's steps.
    pub step: Option<usize>,
    /// CPU time since exec, in seconds.
    pub cpu_s: f64,
    /// Correct responses since exec, including responses in warm-ups, until the CPU time was read.
    pub requests: u64,
}

/// Computes the lifetimes of an arm's starts.
pub(crate) fn lifetimes(run: &Run, arm: usize) -> Lifetimes {
    let plan = &run.header.plan;
    let starts = run.starts.iter().filter(|start| plan.launches[start.launch].arms.contains(&arm));
    let starts: Vec<Lifetime> = starts.filter_map(|start| lifetime(run, arm, start)).collect();
    let cpu_us_per_request = Repeated::new(
        starts
            .iter()
            .filter(|life| life.is_complete)
            .filter_map(Lifetime::cpu_us_per_request)
            .collect(),
    );
    // The CPU time already includes start-ups and warm-ups.
    let price = |cost: &Cost| cost::price_of_cpu_time(cpu_us_per_request.median?, *cost);
    Lifetimes {
        cost_per_billion_requests: plan.cost.as_ref().and_then(price),
        starts,
        cpu_us_per_request,
    }
}

impl Lifetime {
    /// Returns the CPU time per correct response at the last point; `None`: no response.
    fn cpu_us_per_request(&self) -> Option<f64> {
        let last = self.points.last().filter(|point| point.requests > 0)?;
        Some(last.cpu_s * 1e6 / last.requests as f64)
    }
}

/// Returns the life of a start; `None`: no trial was measured, or the CPU time is not known, for
/// example because a process left the control group, also before the server was ready.
fn lifetime(run: &Run, arm: usize, start: &StartRecord) -> Option<Lifetime> {
    let plan = &run.header.plan;
    let launch = &plan.launches[start.launch];
    let party = launch.party_of(arm)?;
    let part = start.part(party).filter(|_| start.strays_before_ready(party) == 0)?;
    let loads = loads_of_start(run, start);
    if loads.iter().any(|load| stray_processes(&load.trial.load, party) > 0) {
        return None;
    }
    let first = loads.iter().find(|load| !load.is_replaced).map(|load| load.trial);
    let uncounted_ns = first_uncounted_load(run, start, part);
    let mut points = points_before_trials(part, first, party, uncounted_ns);
    let mut requests = points.last().map_or(0, |point| point.requests);
    for Load { trial, is_replaced } in loads {
        if uncounted_ns.is_some_and(|at_ns| at_ns < trial.load.began_ns) {
            break;
        }
        if !is_replaced {
            // The CPU time is read when the window closes, so responses of the drain are included
            // in the next point.
            points.push(point_after_trial(
                plan,
                trial,
                party,
                requests + correct_responses(trial, |phase| phase != Phase::Drain),
            )?);
        }
        requests += correct_responses(trial, |_| true);
    }
    let measured = points.iter().filter(|point| point.step.is_some()).count();
    let planned = plan.trials.iter().filter(|trial| trial.launch == start.launch).count();
    (measured > 0).then_some(Lifetime {
        repeat: launch.block + 1,
        is_complete: measured == planned,
        points,
    })
}

/// A load of a start.
struct Load<'a> {
    trial: &'a TrialRecord,
    /// Whether a re-run replaced this load. If so, the load has no point, but its responses are
    /// included.
    is_replaced: bool,
}

/// Returns the loads of a start in order of time.
fn loads_of_start<'a>(run: &'a Run, start: &StartRecord) -> Vec<Load<'a>> {
    let final_loads = run.trials.iter().map(|trial| Load { trial, is_replaced: false });
    let replaced = run.contaminated.iter().map(|trial| Load { trial, is_replaced: true });
    let mut loads: Vec<Load<'a>> =
        final_loads.chain(replaced).filter(|load| load.trial.start == start.start).collect();
    loads.sort_by_key(|load| load.trial.load.began_ns);
    loads
}

/// Returns the start of the first load whose responses are not counted; `None`: no such load. These
/// loads are for a profile or a search (after a trial), or for the price of probes (before all
/// trials), or were dropped because another server failed.
fn first_uncounted_load(run: &Run, start: &StartRecord, part: &PartStart) -> Option<u64> {
    // The time of the load for the price of probes is not recorded. 0 is used instead, because the
    // load precedes all trials.
    let price = part.probe_price.as_ref().map(|_| 0);
    let trial = |index: usize| {
        run.trials.iter().find(|trial| trial.trial == index && trial.start == start.start)
    };
    // The time of the load for a profile is not recorded. The beginning of the profile's trial is
    // used instead, because the load follows this trial and precedes later trials.
    let profiles =
        run.profiles.iter().filter_map(|profile| Some(trial(profile.trial)?.load.began_ns));
    let is_of_launch =
        |search: &&SearchRecord| run.header.plan.trials[search.trial].launch == start.launch;
    let searches = run
        .searches
        .iter()
        .filter(is_of_launch)
        .filter_map(|search| Some(search.loads.first()?.load.began_ns))
        .filter(|at_ns| start.began_ns.is_none_or(|began_ns| *at_ns >= began_ns));
    price.into_iter().chain(profiles).chain(searches).chain(start.dropped_load_ns).min()
}

/// Returns the points before the first trial: when the server was ready, and when it was warm.
fn points_before_trials(
    part: &PartStart,
    first: Option<&TrialRecord>,
    party: Party,
    uncounted_ns: Option<u64>,
) -> Vec<LifePoint> {
    let point = |cpu_ns: u64, requests| LifePoint {
        workload: None,
        step: None,
        cpu_s: cpu_ns as f64 / 1e9,
        requests,
    };
    let ready = part.startup.and_then(|startup| startup.cpu_ns);
    let warm = part.warmup.as_ref().and_then(|warmup| {
        let first = first?;
        if uncounted_ns.is_some_and(|at_ns| at_ns < first.load.began_ns) {
            return None;
        }
        let begins = first.load.samples.first()?;
        Some(point(cpu_ns(begins, party)?, warmup.correct_responses))
    });
    ready.map(|ns| point(ns, 0)).into_iter().chain(warm).collect()
}

/// Returns the CPU time since exec, including ended threads and processes; `None`: the CPU time was
/// not read.
fn cpu_ns(sample: &Sample, party: Party) -> Option<u64> {
    sample.party_use(party)?.cgroup.as_ref()?.cpu_ns
}

/// Returns the point at the end of a trial; `None`: the CPU time was not read.
fn point_after_trial(
    plan: &Plan,
    trial: &TrialRecord,
    party: Party,
    requests: u64,
) -> Option<LifePoint> {
    let planned = &plan.trials[trial.trial];
    let cpu_ns = cpu_ns(trial.load.samples.last()?, party)?;
    Some(LifePoint {
        workload: Some(planned.workload),
        step: Some(planned.step),
        cpu_s: cpu_ns as f64 / 1e9,
        requests,
    })
}

/// Returns the number of correct responses in some phases of a trial.
fn correct_responses(trial: &TrialRecord, is_counted: impl Fn(Phase) -> bool) -> u64 {
    trial
        .load
        .intervals
        .iter()
        .filter(|interval| is_counted(interval.phase))
        .map(Interval::correct_responses)
        .sum()
}

#[cfg(test)]
mod tests {
    use dyno_model::sample::CgroupUse;
    use dyno_model::start::Startup;

    use super::*;
    use crate::fixture::five_blocks;

    fn part_with_start_up_cpu(cpu_ns: u64) -> PartStart {
        let mut part = PartStart::new(Party::SUBJECT, "b".into());
        part.startup = Some(Startup {
            listening_ns: None,
            first_response_ns: None,
            ready_ns: 5,
            cpu_ns: Some(cpu_ns),
            strays: 0,
        });
        part
    }

    #[test]
    fn lifetime_includes_start_up_and_all_trials() {
        let mut run = five_blocks();
        run.header.plan.cost = Some(Cost { per_vcpu_hour: 0.36, ..Cost::default() });
        let launch =
            run.header.plan.launches.iter().position(|l| l.arms == [1] && l.block == 2).unwrap();
        let trials_of_launch: Vec<usize> = (0..run.header.plan.trials.len())
            .filter(|t| run.header.plan.trials[*t].launch == launch)
            .collect();
        let parts = vec![part_with_start_up_cpu(2_000_000_000)];
        run.starts = vec![StartRecord { start: 7, launch, parts, ..StartRecord::default() }];
        assert_eq!(
            lifetimes(&run, 1),
            Lifetimes { cost_per_billion_requests: None, ..Lifetimes::default() }
        );
        let mut responses = Vec::new();
        for trial in &mut run.trials {
            trial.start = if trials_of_launch.contains(&trial.trial) { 7 } else { 1 };
            if trial.start != 7 {
                continue;
            }
            // The trials ran in the reverse order of the plan.
            let later = trials_of_launch.len()
                - trials_of_launch.iter().position(|t| *t == trial.trial).unwrap();
            trial.load.began_ns = later as u64;
            // Responses of the drain arrive after the reading of the CPU time.
            let drained =
                Interval { phase: Phase::Drain, ..trial.load.intervals.last().unwrap().clone() };
            trial.load.intervals.push(drained);
            let in_window = correct_responses(trial, |phase| phase == Phase::Measured);
            responses.push((
                later,
                in_window,
                correct_responses(trial, |phase| phase == Phase::Drain),
            ));
            for sample in &mut trial.load.samples {
                let cpu_ns = Some(later as u64 * 3_000_000_000);
                sample.party_use_mut(Party::SUBJECT).cgroup =
                    Some(CgroupUse { cpu_ns, ..CgroupUse::default() });
            }
        }
        responses.sort_unstable();
        let result = lifetimes(&run, 1);
        let [life] = result.starts.as_slice() else { panic!("{:?}", result.starts) };
        assert_eq!(life.repeat, 3);
        let (mut total, mut late) = (0, 0);
        let mut expected = vec![(2.0, 0)];
        for (later, n, drained) in responses {
            total += late + n;
            expected.push((later as f64 * 3.0, total));
            late = drained;
        }
        assert!(late > 0);
        let points: Vec<(f64, u64)> =
            life.points.iter().map(|point| (point.cpu_s, point.requests)).collect();
        assert_eq!(points, expected);
        let cpu_us_per_request = expected.last().unwrap().0 * 1e6 / total as f64;
        assert_eq!(result.cpu_us_per_request.values, [cpu_us_per_request]);
        // At 0.36 per hour, a CPU second costs 10⁻⁴.
        assert!(
            (result.cost_per_billion_requests.unwrap() - cpu_us_per_request * 1e3 * 1e-4).abs()
                < 1e-9 * cpu_us_per_request
        );
        assert!(lifetimes(&run, 0).starts.is_empty());
    }

    /// Returns a run with a start of arm 1, whose trials are one second apart and use 3 CPU seconds
    /// each.
    fn run_with_life() -> (Run, Vec<usize>) {
        let mut run = five_blocks();
        let plan = &run.header.plan;
        let launch = plan.launches.iter().position(|l| l.arms == [1] && l.block == 2).unwrap();
        let of_launch: Vec<usize> =
            (0..plan.trials.len()).filter(|t| plan.trials[*t].launch == launch).collect();
        let parts = vec![part_with_start_up_cpu(2_000_000_000)];
        run.starts = vec![StartRecord { start: 7, launch, parts, ..StartRecord::default() }];
        run.trials.retain(|trial| of_launch.contains(&trial.trial));
        for (n, trial) in (1..).zip(&mut run.trials) {
            trial.start = 7;
            set_cpu(trial, n);
        }
        (run, of_launch)
    }

    fn set_cpu(trial: &mut TrialRecord, n: u64) {
        trial.load.began_ns = n * 1_000_000_000;
        for sample in &mut trial.load.samples {
            let cpu_ns = Some(n * 3_000_000_000);
            sample.party_use_mut(Party::SUBJECT).cgroup =
                Some(CgroupUse { cpu_ns, ..CgroupUse::default() });
        }
    }

    #[test]
    fn responses_to_replaced_loads_are_added_without_point() {
        let (mut run, _) = run_with_life();
        let before = lifetimes(&run, 1);
        let mut replaced = run.trials[0].clone();
        replaced.load.began_ns -= 1;
        run.contaminated = vec![replaced.clone()];
        let after = lifetimes(&run, 1);
        let extra = correct_responses(&replaced, |_| true);
        let requests = |lives: &Lifetimes| {
            lives.starts[0].points.iter().map(|p| p.requests).collect::<Vec<_>>()
        };
        let expected: Vec<u64> = (0..)
            .zip(requests(&before))
            .map(|(n, requests)| if n == 0 { requests } else { requests + extra })
            .collect();
        assert!(extra > 0 && after.starts[0].is_complete);
        assert_eq!(requests(&after), expected);
        // A replaced load of another start is not included.
        run.contaminated[0].start = 6;
        assert_eq!(lifetimes(&run, 1), before);
    }

    #[test]
    fn life_of_server_whose_group_lacks_a_process_is_unknown() {
        let (mut run, _) = run_with_life();
        assert_eq!(lifetimes(&run, 1).starts.len(), 1);
        run.starts[0].parts[0].startup.as_mut().unwrap().strays = 1;
        assert_eq!(lifetimes(&run, 1).starts, [], "its earlier CPU time is in another group");
        run.starts[0].parts[0].startup.as_mut().unwrap().strays = 0;
        run.trials[0].load.samples[0].party_use_mut(Party::SUBJECT).strays = Some(1);
        assert_eq!(lifetimes(&run, 1).starts, []);
    }

    #[test]
    fn life_ends_at_first_load_without_counted_responses() {
        let (mut run, of_launch) = run_with_life();
        let last = *of_launch.last().unwrap();
        let points = |run: &Run| lifetimes(run, 1).starts.first().map(|life| life.points.len());
        let whole = points(&run);
        assert_eq!(whole, Some(of_launch.len() + 1));
        // A dropped load was measured again, but its CPU time counts.
        run.starts[0].dropped_load_ns = Some(run.trials[0].load.began_ns + 1);
        assert_eq!(points(&run), Some(2));
        assert!(!lifetimes(&run, 1).starts[0].is_complete);
        run.starts[0].dropped_load_ns = None;
        // Only the CPU time before a profile belongs to counted responses.
        let profile = |trial| dyno_model::profile::ProfileRecord { trial, ..Default::default() };
        run.profiles = vec![profile(last)];
        assert_eq!(points(&run), whole, "after the last reading");
        run.profiles = vec![profile(of_launch[0])];
        let life = lifetimes(&run, 1);
        assert_eq!((points(&run), life.cpu_us_per_request.median), (Some(2), None));
        run.profiles.clear();
        let load = dyno_model::LoadRecord { began_ns: 1_500_000_000, ..run.trials[0].load.clone() };
        let load = dyno_model::search::SearchLoad { rate: 1.0, load, confirms: false };
        run.searches = vec![SearchRecord { trial: of_launch[0], loads: vec![load], failure: None }];
        assert_eq!(points(&run), Some(2));
        run.searches.clear();
        run.starts[0].parts[0].probe_price = Some(dyno_model::probe::ProbePrice::default());
        assert_eq!(points(&run), None);
    }
}
