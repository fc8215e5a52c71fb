//! The world of caveats about a whole run.

use dyno_model::plan::{Launch, NotServed, Order, Plan, Subject};
use dyno_model::resumption::{Resumption, ResumptionDifference};
use dyno_model::run::{Run, RunHeader};
use dyno_model::start::{Canary, CanaryPiece, LimitKind, LimitReadBack, WarmUpEnd};
use dyno_model::{Facts, RunId, StartRecord, TrialRecord};

use super::{Case, CaveatSource};
use crate::caveat::{Caveat, Code, Severity};
use crate::peak::OpenStep;
use crate::verdict::Peak;
use crate::{fixture, verdict};

/// Returns a case of a warning about a run.
pub(in crate::verdict) const fn warning(
    code: Code,
    trigger: fn(&mut RunWorld),
    near_miss: fn(&mut RunWorld),
) -> Case<RunWorld> {
    Case::new(code, Severity::Warning, trigger, near_miss)
}

/// Returns a case of an information about a run.
pub(in crate::verdict) const fn info(
    code: Code,
    trigger: fn(&mut RunWorld),
    near_miss: fn(&mut RunWorld),
) -> Case<RunWorld> {
    Case::new(code, Severity::Info, trigger, near_miss)
}

/// A run, and the peaks of its subjects.
pub(in crate::verdict) struct RunWorld {
    pub(in crate::verdict) run: Run,
    /// Workload, subject and correct responses per second.
    pub(in crate::verdict) peaks: Vec<(&'static str, &'static str, f64)>,
    /// Throughput of each repeat, for all subjects.
    pub(in crate::verdict) repeats: Vec<f64>,
    /// Steps at which subject `a` may have reached more.
    pub(in crate::verdict) open: Vec<OpenStep>,
}

impl Default for RunWorld {
    /// A run in which three of five repeats ran.
    fn default() -> Self {
        let header = RunHeader {
            schema: dyno_model::run::SCHEMA.into(),
            id: "1".into(),
            run_id: RunId::default(),
            started: "then".into(),
            command: Vec::new(),
            plan: fixture::plan(vec![subject("1")]),
            facts: Facts::default(),
            resumptions: Vec::new(),
        };
        let template = fixture::warm_up(WarmUpEnd::Steady, 0, Some(1));
        let starts = (0..3).map(|start| StartRecord { start, launch: start, ..template.clone() });
        let trials = (0..3).map(|trial| TrialRecord {
            start: trial,
            ..fixture::trial_record(trial, fixture::record(1))
        });
        let run = Run {
            header,
            starts: starts.collect(),
            trials: trials.collect(),
            profiles: Vec::new(),
            contaminated: Vec::new(),
            searches: Vec::new(),
        };
        RunWorld { run, peaks: Vec::new(), repeats: Vec::new(), open: Vec::new() }
    }
}

impl CaveatSource for RunWorld {
    fn caveats(&self) -> Vec<Caveat> {
        let peak = |&(workload, subject, rps)| Peak {
            workload,
            subject,
            server: subject.split('/').next().unwrap_or(subject),
            rps: Some(rps),
            repeats: &self.repeats,
            control: false,
            max_rps: Some(rps),
            open: if subject == "a" { &self.open } else { &[] },
            is_complete: true,
        };
        verdict::run(&self.run, &self.peaks.iter().map(peak).collect::<Vec<_>>())
    }
}

impl RunWorld {
    /// Adds a resumption before the third start, with these differences.
    pub(in crate::verdict) fn resume(&mut self, differences: &[(&str, &str, &str)]) {
        let difference = |(name, before, now): &(&str, &str, &str)| ResumptionDifference {
            name: (*name).into(),
            before: (*before).into(),
            now: (*now).into(),
        };
        self.run.header.resumptions.push(Resumption {
            uncompared: Vec::new(),
            started: "later".into(),
            command: Vec::new(),
            from_start: 2,
            differences: differences.iter().map(difference).collect(),
            facts: Facts::default(),
            subjects: vec![subject("2")],
        });
    }

    /// Adds a server that was first measured after a resumption, in two blocks of opposite orders.
    pub(in crate::verdict) fn add_late_server(&mut self) {
        let late = Subject { name: "late".into(), ..subject("1") };
        let mut plan = fixture::plan(vec![subject("1"), late]);
        let launches = [(0, 0), (1, 0), (1, 1), (0, 1)];
        plan.launches = launches.map(|(arm, block)| Launch::with_arm(arm, block)).into();
        plan.repeats = 2;
        self.run.header.plan = plan;
        self.resume(&[]);
        let (start, trial) = (self.run.starts[0].clone(), self.run.trials[0].clone());
        let launches = [0, 3, 1, 2].into_iter().enumerate();
        self.run.starts =
            launches.map(|(n, launch)| StartRecord { start: n, launch, ..start.clone() }).collect();
        self.run.trials =
            (0..4).map(|n| TrialRecord { start: n, trial: n, ..trial.clone() }).collect();
    }

    /// Sets a plan in which each block starts the subjects in the suite's order.
    pub(in crate::verdict) fn set_fixed_order(&mut self, subjects: usize) {
        let plan = fixture::plan(vec![subject("1"); subjects]);
        self.run.header.plan = Plan { order: Order::Fixed, ..plan };
    }

    /// Sets the times of the canary before the first two starts, in hundredths of a millisecond.
    pub(in crate::verdict) fn set_canaries(&mut self, times: [u64; 2]) {
        for (start, time) in self.run.starts.iter_mut().zip(times) {
            let piece = CanaryPiece { wall_ns: time * 10_000, cpu_ns: time * 10_000 };
            start.canary = Some(Canary { steps: 1, pieces: vec![piece] });
        }
    }

    pub(in crate::verdict) fn add_limit(&mut self, read_back: Option<&str>, reason: Option<&str>) {
        self.run.starts[1].parts[0].limits.push(LimitReadBack {
            kind: LimitKind::Memory,
            asked: "1 GiB".into(),
            read_back: read_back.map(Into::into),
            reason: reason.map(Into::into),
        });
    }

    pub(in crate::verdict) fn omit_workload(&mut self, reason: &str) {
        let omission = NotServed { subject: 0, workload: 0, reason: reason.into() };
        self.run.header.plan.not_served.push(omission);
    }

    pub(in crate::verdict) fn add_peaks(&mut self, peaks: &[(&'static str, f64)]) {
        self.add_workload_peaks("w", peaks);
    }

    pub(in crate::verdict) fn add_workload_peaks(
        &mut self,
        workload: &'static str,
        peaks: &[(&'static str, f64)],
    ) {
        self.peaks.extend(peaks.iter().map(|(subject, rps)| (workload, *subject, *rps)));
    }
}

fn subject(version: &str) -> Subject {
    Subject { name: "a".into(), version: Some(version.into()), ..Subject::default() }
}
