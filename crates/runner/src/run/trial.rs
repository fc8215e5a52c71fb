//! One trial: a workload at a step, with its samples and the checks beside it.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use dyno_archive::trial::CheckResult;
use dyno_archive::{Interval, LoadRecord, Sample};
use dyno_launch::care::Interrupts;
use dyno_launch::process::Process;
use dyno_observer::Sampler;

use super::up::{Entrance, Subject, entrance};
use super::{Event, Runner};
use crate::load::{self, Edge, Reason, Watch};
use crate::{load_at, proof};

/// What came of a trial.
pub(super) struct Measured {
    pub(super) load: LoadRecord,
    /// Made while the load ran.
    pub(super) checks: Vec<CheckResult>,
}

impl Runner<'_> {
    pub(super) fn trial(&mut self, trial: usize, subject: &mut Subject) -> Result<Measured, String> {
        let workload = &self.plan.workloads[self.plan.trials[trial].workload];
        let entrance = entrance(&subject.entrances, workload)?;
        let spec = load_at::trial(entrance.door(), self.plan, trial)?;
        // What is only sampled under load is tried in full before it. An answer that is not as expected is a failed
        // check of this trial, which the load then goes on to count.
        let tried = load::preflight(&spec).err().map(|mismatch| CheckResult {
            name: "expectations".into(),
            ok: false,
            answered: mismatch.answered,
            detail: mismatch.words,
        });
        let (to_prober, stop_prober) = mpsc::channel::<()>();
        let pause = Duration::from_nanos(self.plan.load.interval_ns);
        thread::scope(|scope| {
            let prober = scope.spawn(move || probe(entrance, trial, pause, &stop_prober));
            let mut watcher = Watcher {
                peak_is_of_window: false,
                trial,
                process: &mut subject.process,
                interrupts: self.interrupts,
                on: self.on,
            };
            let record = load::run(&spec, &mut watcher);
            drop(to_prober);
            let probed = prober.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let checks = tried.into_iter().chain(probed).collect();
            record.map(|load| Measured { load, checks })
        })
    }
}

/// Checks the contract while the load runs: one check per interval, in turn, on a connection of its own. Each trial
/// begins elsewhere in the contract, so that short ones together go through all of it.
fn probe(entrance: &Entrance, trial: usize, pause: Duration, stop: &mpsc::Receiver<()>) -> Vec<CheckResult> {
    let checks = &entrance.checks;
    let mut results = Vec::new();
    for check in checks.iter().cycle().skip(trial * 2 % checks.len().max(1)) {
        match stop.recv_timeout(pause) {
            Err(mpsc::RecvTimeoutError::Timeout) => results.push(proof::run(check, entrance.door())),
            _ => break,
        }
    }
    results
}

struct Watcher<'a> {
    trial: usize,
    /// The kernel began a new peak of memory when the window opened.
    peak_is_of_window: bool,
    process: &'a mut Process,
    interrupts: &'a Interrupts,
    on: &'a mut dyn FnMut(Event<'_>),
}

impl Watch for Watcher<'_> {
    fn sample(&mut self, edge: Edge) -> Option<Sample> {
        let sampler: &Sampler = &self.process.sampler;
        if edge == Edge::Opens {
            self.peak_is_of_window = sampler.group.reset_peak();
        }
        let mut sample = sampler.sample();
        if let Some(cgroup) = sample.cgroup.as_mut().filter(|_| !self.peak_is_of_window) {
            cgroup.memory_peak_bytes = None;
        }
        Some(sample)
    }

    fn interval(&mut self, interval: &Interval) {
        (self.on)(Event::Interval { trial: self.trial, interval });
    }

    fn stop(&mut self) -> Option<Reason> {
        if self.interrupts.count() > 0 {
            return Some(Reason::Asked);
        }
        self.process
            .ended()
            .map(|status| Reason::ServerFailed(format!("its process ended with {status} under load")))
    }
}
