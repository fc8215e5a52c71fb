//! One trial: a workload at a step, with its samples and the checks beside it.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use dyno_archive::probe::{Probe, Refused};
use dyno_archive::trial::CheckResult;
use dyno_archive::{Interval, LoadRecord, Party, Sample};
use dyno_contract::exchange::Business;
use dyno_launch::supervision::Interrupts;
use dyno_observer::inside::{Counting, Watching};
use dyno_observer::probes::Probes;

use super::up::{CheckedListener, Launched, Watched, listener};
use super::{Event, Runner};
use crate::beside::count;
use crate::load::{self, Answers, Edge, Reason, Watch};
use crate::load_at;

/// The outcome of a trial.
pub(super) struct Measured {
    pub(super) load: LoadRecord,
    /// Checks of the contract made while the load ran.
    pub(super) checks: Vec<CheckResult>,
}

impl Runner<'_> {
    pub(super) fn trial(
        &mut self,
        trial: usize,
        launched: &mut Launched,
        probes: &Probes,
    ) -> Result<Measured, String> {
        let workload = &self.plan.workloads[self.plan.trials[trial].workload];
        let listener = listener(&launched.subject.listeners, workload)?;
        let spec = load_at::trial(listener.listener(), self.plan, trial)?;
        let tried = tried(&spec);
        let (to_prober, stop_prober) = mpsc::channel::<()>();
        let (to_counter, stop_counter) = mpsc::channel::<()>();
        let (to_runtime, stop_runtime) = mpsc::channel::<()>();
        let pause = Duration::from_nanos(self.plan.load.interval_ns);
        let inside: Vec<Arc<Watching>> = [&launched.subject]
            .into_iter()
            .chain(&launched.backends)
            .filter_map(|part| part.inside.clone())
            .collect();
        let answers = Answers::new(spec.threads());
        let observe = &self.plan.arms[self.plan.trials[trial].arm].conditions.observe;
        let runtime = launched.subject.runtime.clone();
        let has_runtime = runtime.is_some();
        thread::scope(|scope| {
            let prober = scope.spawn(move || probe(listener, trial, pause, &stop_prober));
            let told = &answers;
            let counter = Counting::new(inside)
                .map(|mut counting| scope.spawn(move || count(&mut counting, told, &stop_counter)));
            let asker = scope.spawn(move || runtime.map(|runtime| runtime.follow(&stop_runtime)));
            let mut watcher = Watcher {
                peaks_of_window: Vec::new(),
                has_seen_sockets: false,
                trial,
                watched: Watched {
                    subject: &mut launched.subject.process,
                    inside: launched.subject.inside.as_deref(),
                    backends: &mut launched.backends,
                },
                answers: Arc::clone(&answers),
                interrupts: self.interrupts,
                on: self.on,
            };
            let record = load::run(&spec, &mut watcher);
            drop((to_prober, to_counter, to_runtime));
            let probed = prober.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let counted =
                counter.map_or(Ok(()), |c| c.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            let asked = asker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let (runtime, untold) = asked.unwrap_or_default();
            let checks = tried.into_iter().chain(probed).collect();
            record.map(|mut load| {
                load.probes = probes.used(observe);
                if !has_runtime {
                    load.probes.attached.remove(&Probe::Runtime);
                }
                load.probes.refuse(untold);
                load.probes.refused.extend(counted.err().map(refused));
                load.runtime = runtime;
                Measured { load, checks }
            })
        })
    }
}

/// Tries in full what is only sampled under load. An answer that is not as expected is a failed check of the trial, which the load
/// then goes on to count.
fn tried(spec: &load::Spec) -> Option<CheckResult> {
    let mismatch = load::preflight(spec).err()?;
    Some(CheckResult {
        of_life: false,
        name: "expectations".into(),
        protocol: spec.protocol,
        ok: false,
        answered: mismatch.answered,
        waived: false,
        asked: String::new(),
        expected: String::new(),
        got: mismatch.words,
    })
}

/// Counting of system calls that ended before the load did.
fn refused(why: String) -> Refused {
    Refused { probe: Probe::Syscalls, why, mend: "Run it again; if this stays so, tell us.".into() }
}

/// Checks the contract while the load runs: one check per interval, in turn, on a connection of its own. Each trial
/// begins elsewhere in the contract, so that short ones together go through all of it.
fn probe(
    listener: &CheckedListener,
    trial: usize,
    pause: Duration,
    stop: &mpsc::Receiver<()>,
) -> Vec<CheckResult> {
    let checks = &listener.checks;
    let mut results = Vec::new();
    for check in checks.iter().cycle().skip(trial * 2 % checks.len().max(1)) {
        match stop.recv_timeout(pause) {
            Err(mpsc::RecvTimeoutError::Timeout) => results.push(listener.run(check, Business::Loaded)),
            _ => break,
        }
    }
    results
}

struct Watcher<'a> {
    trial: usize,
    answers: Arc<Answers>,
    /// Parties whose memory peak the kernel reset when the window opened.
    peaks_of_window: Vec<Party>,
    has_seen_sockets: bool,
    watched: Watched<'a>,
    interrupts: &'a Interrupts,
    on: &'a mut dyn FnMut(Event<'_>),
}

impl Watch for Watcher<'_> {
    fn sample(&mut self, edge: Edge) -> Option<Sample> {
        if edge == Edge::Opens {
            self.peaks_of_window = self.watched.reset_peaks();
        }
        let mut sample = self.watched.sample();
        // Once, after the counters: while all connections are there, and before they end.
        if edge == Edge::Within && !std::mem::replace(&mut self.has_seen_sockets, true) {
            self.watched.look_at_sockets(&mut sample);
        }
        for used in sample.parties.iter_mut().filter(|used| !self.peaks_of_window.contains(&used.party)) {
            if let Some(cgroup) = &mut used.cgroup {
                cgroup.memory_peak_bytes = None;
            }
        }
        Some(sample)
    }

    fn answers(&self) -> Option<Arc<Answers>> {
        Some(Arc::clone(&self.answers))
    }

    fn interval(&mut self, interval: &Interval) {
        (self.on)(Event::Interval { trial: self.trial, interval });
    }

    fn stop(&mut self) -> Option<Reason> {
        if self.interrupts.count() > 0 {
            return Some(Reason::Stopped);
        }
        self.watched.ended().map(|how| Reason::ServerFailed(format!("{how} under load")))
    }
}
