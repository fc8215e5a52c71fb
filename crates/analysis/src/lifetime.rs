//! Computes the CPU time per request of each start over its whole life, from exec on.
//!
//! CPU time per request of a step is measured on a warm server. Over its life a server also starts,
//! loads its code and compiles it, which costs CPU time, too.

use dyno_archive::plan::{Cost, Plan};
use dyno_archive::run::Run;
use dyno_archive::start::PartStart;
use dyno_archive::{Interval, Party, Phase, Sample, StartRecord, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cost::{self, HeldResources};
use crate::stats::Repeated;

/// Lifetimes of an arm's starts. Empty without a control group, which alone includes the CPU time
/// of ended processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Lifetimes {
    pub starts: Vec<Lifetime>,
    /// CPU time ÷ correct responses at the end of each whole life, in microseconds: start-up and
    /// warm-up included.
    pub cpu_us_per_request: Repeated,
    /// Price of the CPU time of 10⁹ requests of such a life, at the median, in the currency of
    /// `[cost] per_vcpu_hour`; `null`: the suite names no price.
    pub cost_per_billion_requests: Option<f64>,
}

/// The life of one start.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Lifetime {
    /// Counted from 1.
    pub repeat: u32,
    /// Whether it includes all trials of its launch. A life that was cut off or resumed is not
    /// comparable.
    #[serde(rename = "whole")]
    pub is_complete: bool,
    /// Points in order of time: ready, warm if it was warmed, and the end of each trial.
    pub points: Vec<LifePoint>,
}

/// Running totals of a start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LifePoint {
    /// Index of the ended trial's workload in the plan; `null`: no trial had ended.
    pub workload: Option<usize>,
    /// Index among the plan's steps.
    pub step: Option<usize>,
    /// CPU time since exec, in seconds.
    pub cpu_s: f64,
    /// Correct responses to loads since exec, including those in warm-ups, up to the reading of the
    /// CPU time.
    pub requests: u64,
}

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
    let price = |cost: &Cost| {
        Some(cost::price_of_billion(cpu_us_per_request.median?, HeldResources::default(), *cost))
    };
    Lifetimes {
        cost_per_billion_requests: plan.cost.as_ref().and_then(price),
        starts,
        cpu_us_per_request,
    }
}

impl Lifetime {
    fn cpu_us_per_request(&self) -> Option<f64> {
        let last = self.points.last().filter(|point| point.requests > 0)?;
        Some(last.cpu_s * 1e6 / last.requests as f64)
    }
}

/// Returns the life of a start; `None`: no trial was measured, or the CPU time is not known.
fn lifetime(run: &Run, arm: usize, start: &StartRecord) -> Option<Lifetime> {
    let plan = &run.header.plan;
    let launch = &plan.launches[start.launch];
    let party = launch.party_of(arm)?;
    let part = start.part(party)?;
    let mut trials: Vec<&TrialRecord> =
        run.trials.iter().filter(|t| t.start == start.start).collect();
    trials.sort_by_key(|t| t.load.began_ns);
    let mut points: Vec<LifePoint> = points_before_trials(part, trials.first().copied(), party);
    let mut requests = points.last().map_or(0, |point| point.requests);
    for trial in trials {
        // The CPU time is read when the window closes, so responses of the drain count in the next
        // point.
        points.push(point_after_trial(
            plan,
            trial,
            party,
            requests + correct_responses(trial, |phase| phase != Phase::Drain),
        )?);
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

/// Returns the points before the first trial: when the server was ready, and when it was warm.
fn points_before_trials(
    part: &PartStart,
    first: Option<&TrialRecord>,
    party: Party,
) -> Vec<LifePoint> {
    let point = |cpu_ns: u64, requests| LifePoint {
        workload: None,
        step: None,
        cpu_s: cpu_ns as f64 / 1e9,
        requests,
    };
    let ready = part.startup.and_then(|startup| startup.cpu_ns);
    let warm = part.warmup.as_ref().and_then(|warmup| {
        let begins = first?.load.samples.first()?;
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
    use dyno_archive::sample::CgroupUse;
    use dyno_archive::start::Startup;

    use super::*;
    use crate::fixture::five_blocks;

    fn part_with_start_up_cpu(cpu_ns: u64) -> PartStart {
        let mut part = PartStart::new(Party::SUBJECT, "b".into());
        part.startup = Some(Startup {
            listening_ns: None,
            first_response_ns: None,
            ready_ns: 5,
            cpu_ns: Some(cpu_ns),
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
}
