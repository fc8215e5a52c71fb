//! Answers of each start of an arm over its whole life, and the CPU time for them, from exec on.
//!
//! CPU time per request in a step is that of a warm server. Over its life a server also starts,
//! loads its code, and compiles it, which has a price too.

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
    pub whole: bool,
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
    let of_arm = run.starts.iter().filter(|start| plan.launches[start.launch].arms.contains(&arm));
    let starts: Vec<Lifetime> = of_arm.filter_map(|start| lifetime(run, arm, start)).collect();
    let cpu_us_per_request = Repeated::new(
        starts.iter().filter(|life| life.whole).filter_map(Lifetime::cpu_us_per_request).collect(),
    );
    // The CPU time includes start-ups and warm-ups already.
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

/// `None`: no trial was measured, or the CPU time is not known.
fn lifetime(run: &Run, arm: usize, start: &StartRecord) -> Option<Lifetime> {
    let plan = &run.header.plan;
    let launch = &plan.launches[start.launch];
    let party = launch.party_of(arm)?;
    let part = start.part(party)?;
    let mut trials: Vec<&TrialRecord> =
        run.trials.iter().filter(|t| t.start == start.start).collect();
    trials.sort_by_key(|t| t.load.began_ns);
    let mut points: Vec<LifePoint> = before_trials(part, trials.first().copied(), party);
    let mut requests = points.last().map_or(0, |point| point.requests);
    for trial in trials {
        // The CPU time is read as the window closes. Responses in the drain belong to the next
        // reading.
        points.push(after_trial(
            plan,
            trial,
            party,
            requests + right_answers(trial, |phase| phase != Phase::Drain),
        )?);
        requests += right_answers(trial, |_| true);
    }
    let measured = points.iter().filter(|point| point.step.is_some()).count();
    let planned = plan.trials.iter().filter(|trial| trial.launch == start.launch).count();
    (measured > 0).then_some(Lifetime {
        repeat: launch.block + 1,
        whole: measured == planned,
        points,
    })
}

/// Returns the use until the server was ready, and until it was warm, when the first trial begins.
fn before_trials(part: &PartStart, first: Option<&TrialRecord>, party: Party) -> Vec<LifePoint> {
    let point = |cpu_ns: u64, requests| LifePoint {
        workload: None,
        step: None,
        cpu_s: cpu_ns as f64 / 1e9,
        requests,
    };
    let ready = part.startup.and_then(|startup| startup.cpu_ns);
    let warmed = part.warmup.as_ref().and_then(|warmup| {
        let begins = first?.load.samples.first()?;
        Some(point(cpu_ns(begins, party)?, warmup.right_answers))
    });
    ready.map(|ns| point(ns, 0)).into_iter().chain(warmed).collect()
}

/// Returns the CPU time since exec, including ended threads and processes; `None`: it was not read.
fn cpu_ns(sample: &Sample, party: Party) -> Option<u64> {
    sample.party_use(party)?.cgroup.as_ref()?.cpu_ns
}

/// `None`: the CPU time was not read.
fn after_trial(plan: &Plan, trial: &TrialRecord, party: Party, requests: u64) -> Option<LifePoint> {
    let planned = &plan.trials[trial.trial];
    let cpu_ns = cpu_ns(trial.load.samples.last()?, party)?;
    Some(LifePoint {
        workload: Some(planned.workload),
        step: Some(planned.step),
        cpu_s: cpu_ns as f64 / 1e9,
        requests,
    })
}

/// Returns the correct responses of those phases of a trial.
fn right_answers(trial: &TrialRecord, of: impl Fn(Phase) -> bool) -> u64 {
    trial
        .load
        .intervals
        .iter()
        .filter(|interval| of(interval.phase))
        .map(Interval::right_answers)
        .sum()
}

#[cfg(test)]
mod tests {
    use dyno_archive::sample::CgroupUse;
    use dyno_archive::start::Startup;

    use super::*;
    use crate::fixture::five_blocks;

    #[test]
    fn life_counts_from_exec_to_the_end_of_its_last_trial() {
        let mut run = five_blocks();
        run.header.plan.cost = Some(Cost { per_vcpu_hour: 0.36, ..Cost::default() });
        let launch =
            run.header.plan.launches.iter().position(|l| l.arms == [1] && l.block == 2).unwrap();
        let own: Vec<usize> = (0..run.header.plan.trials.len())
            .filter(|t| run.header.plan.trials[*t].launch == launch)
            .collect();
        let mut part = PartStart::new(Party::SUBJECT, "b".into());
        part.startup = Some(Startup {
            listening_ns: None,
            first_answer_ns: None,
            ready_ns: 5,
            cpu_ns: Some(2_000_000_000),
        });
        run.starts =
            vec![StartRecord { start: 7, launch, parts: vec![part], ..StartRecord::default() }];
        assert_eq!(
            lifetimes(&run, 1),
            Lifetimes { cost_per_billion_requests: None, ..Lifetimes::default() }
        );
        let mut answers = Vec::new();
        for trial in &mut run.trials {
            trial.start = if own.contains(&trial.trial) { 7 } else { 1 };
            if trial.start != 7 {
                continue;
            }
            // The plan had the later trial first.
            let later = own.len() - own.iter().position(|t| *t == trial.trial).unwrap();
            trial.load.began_ns = later as u64;
            // Responses after the window come after the reading of the CPU time.
            let drained =
                Interval { phase: Phase::Drain, ..trial.load.intervals.last().unwrap().clone() };
            trial.load.intervals.push(drained);
            let in_window = right_answers(trial, |phase| phase == Phase::Measured);
            answers.push((later, in_window, right_answers(trial, |phase| phase == Phase::Drain)));
            for sample in &mut trial.load.samples {
                let cpu_ns = Some(later as u64 * 3_000_000_000);
                sample.party_use_mut(Party::SUBJECT).cgroup =
                    Some(CgroupUse { cpu_ns, ..CgroupUse::default() });
            }
        }
        answers.sort_unstable();
        let all = lifetimes(&run, 1);
        let [life] = all.starts.as_slice() else { panic!("{:?}", all.starts) };
        assert_eq!(life.repeat, 3);
        let (mut total, mut late) = (0, 0);
        let mut wanted = vec![(2.0, 0)];
        for (later, n, drained) in answers {
            total += late + n;
            wanted.push((later as f64 * 3.0, total));
            late = drained;
        }
        assert!(late > 0);
        let seen: Vec<(f64, u64)> =
            life.points.iter().map(|point| (point.cpu_s, point.requests)).collect();
        assert_eq!(seen, wanted);
        let each = wanted.last().unwrap().0 * 1e6 / total as f64;
        assert_eq!(all.cpu_us_per_request.values, [each]);
        // At 0.36 an hour a CPU second costs 10⁻⁴.
        assert!((all.cost_per_billion_requests.unwrap() - each * 1e3 * 1e-4).abs() < 1e-9 * each);
        assert!(lifetimes(&run, 0).starts.is_empty());
    }
}
