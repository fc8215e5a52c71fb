//! One trial: a workload at a step, with its samples and the checks that run meanwhile.

use std::cell::RefCell;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use dyno_archive::hint;
use dyno_archive::plan::Plan;
use dyno_archive::probe::{Probe, ProbesUse, RefusedProbe};
use dyno_archive::runtime::RuntimeReading;
use dyno_archive::sample::CpuReading;
use dyno_archive::trial::CheckResult;
use dyno_archive::{Interval, LoadRecord, Party, Sample, TrialRecord};
use dyno_contract::exchange::Business;
use dyno_launch::supervision::Interrupts;
use dyno_observer::kernel_probes::{CallCounter, Watching};
use dyno_observer::probes::Probes;
use dyno_observer::{Files, Reads};

use super::running_parts::{CheckedListener, Launched, MonitoredProcesses, listener};
use super::{RunEvent, Runner};
use crate::background_load::count;
use crate::load::{self, AnswerCounts, Edge, LoadStopReason, Watch};
use crate::load_at;

/// The outcome of a trial.
pub(super) struct MeasuredTrial {
    pub(super) load: LoadRecord,
    /// Checks of the contract made while the load ran.
    pub(super) checks: Vec<CheckResult>,
}

impl MeasuredTrial {
    /// Returns the record for the archive.
    pub(super) fn into_record(self, trial: usize, start: usize) -> TrialRecord {
        TrialRecord { trial, start, load: self.load, checks: self.checks, ceiling: None }
    }
}

impl Runner<'_> {
    /// Measures trials side by side, each at its own start; several take turns, or are loaded at
    /// the same time.
    pub(super) fn trial(
        &mut self,
        of: &mut [(usize, Launched<'_>)],
        probes: &Probes,
    ) -> Result<Vec<MeasuredTrial>, String> {
        let mut specs: Vec<load::LoadSpec> = of
            .iter()
            .map(|(trial, launched)| self.spec(*trial, launched))
            .collect::<Result<_, _>>()?;
        if let Some(slice_ns) = self.plan.slice_ns {
            load::take_turns(&mut specs, slice_ns);
        }
        if of.iter().all(|(trial, _)| self.plan.loads_with(&self.plan.trials[*trial]) > 1) {
            load::share_cpus(&mut specs);
        }
        let tried: Vec<Option<CheckResult>> = specs.iter().map(check_answers).collect();
        let trials: Vec<usize> = of.iter().map(|(trial, _)| *trial).collect();
        let screen: RefCell<&mut dyn FnMut(RunEvent<'_>)> = RefCell::new(&mut *self.on);
        let on = |event: RunEvent<'_>| (screen.borrow_mut())(event);
        let (plan, interrupts) = (self.plan, self.interrupts);
        thread::scope(|scope| {
            let mut monitors = Vec::new();
            let mut watchers = Vec::new();
            let spare = load::spare_files(&specs);
            let answers: Vec<Arc<AnswerCounts>> =
                specs.iter().map(|spec| AnswerCounts::new(spec.threads())).collect();
            let counter = count_all(scope, of.iter().map(|(_, launched)| launched), &answers);
            for ((trial, launched), answers) in of.iter_mut().zip(answers) {
                monitors.push(Monitors::begin(scope, plan, *trial, launched));
                watchers.push(Watcher {
                    peaks_of_window: Vec::new(),
                    has_seen_sockets: false,
                    takes_turns: plan.slice_ns.is_some(),
                    trial: *trial,
                    watched: MonitoredProcesses {
                        subject: &mut launched.subject.process,
                        inside: launched.subject.inside.as_deref(),
                        backends: launched.backends,
                        files: Files::with_limit(spare),
                    },
                    answers,
                    interrupts,
                    on: &on,
                });
            }
            let each = specs.iter().zip(&mut watchers);
            let mut loads: Vec<load::MonitoredLoad<'_>> =
                each.map(|(spec, watch)| load::MonitoredLoad { spec, watch }).collect();
            let records = load::run_together(&mut loads);
            let counted = counter.map_or(Ok(()), Asking::end);
            let ended: Vec<MonitorResults> = monitors.into_iter().map(Monitors::end).collect();
            let mut records = records?;
            load::see_each_other(&mut records);
            let each = records.into_iter().zip(ended).zip(tried).zip(trials);
            let measured = each.map(|(((load, seen), tried), trial)| {
                let observe = &plan.arms[plan.trials[trial].arm].conditions.observe;
                seen.into_measured(load, tried, probes.probes_use(observe), &counted)
            });
            Ok(measured.collect())
        })
    }

    /// Returns the load of a trial.
    fn spec(&self, trial: usize, launched: &Launched<'_>) -> Result<load::LoadSpec, String> {
        let workload = &self.plan.workloads[self.plan.trials[trial].workload];
        let listener = listener(&launched.subject.listeners, workload)?;
        load_at::trial(listener.listener(), self.plan, trial)
    }
}

/// The threads that monitor a server under load, until they are stopped.
struct Monitors<'scope> {
    prober: Asking<'scope, Vec<CheckResult>>,
    asker: Asking<'scope, Option<(Vec<RuntimeReading>, Option<RefusedProbe>)>>,
    has_runtime: bool,
}

/// A thread, and the channel whose end ends it.
struct Asking<'scope, T>(mpsc::Sender<()>, thread::ScopedJoinHandle<'scope, T>);

impl<T> Asking<'_, T> {
    fn end(self) -> T {
        drop(self.0);
        self.1.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Counts the system calls of all parts of starts that are loaded at the same time; `None`: nothing
/// is counted.
fn count_all<'scope, 'a>(
    scope: &'scope thread::Scope<'scope, '_>,
    starts: impl Iterator<Item = &'a Launched<'a>>,
    answers: &[Arc<AnswerCounts>],
) -> Option<Asking<'scope, Result<(), String>>> {
    let inside = |launched: &Launched<'_>| -> Vec<Arc<Watching>> {
        let parts = [&*launched.subject].into_iter().chain(&*launched.backends);
        parts.filter_map(|part| part.inside.clone()).collect()
    };
    let mut counting = CallCounter::new(starts.map(inside).collect())?;
    let answers = answers.to_vec();
    let (to_counter, stop) = mpsc::channel();
    let counter = scope.spawn(move || {
        let answers: Vec<&AnswerCounts> = answers.iter().map(|answers| &**answers).collect();
        count(&mut counting, &answers, &stop)
    });
    Some(Asking(to_counter, counter))
}

/// Results of the monitoring threads.
struct MonitorResults {
    probed: Vec<CheckResult>,
    asked: Option<(Vec<RuntimeReading>, Option<RefusedProbe>)>,
    has_runtime: bool,
}

impl<'scope> Monitors<'scope> {
    fn begin(
        scope: &'scope thread::Scope<'scope, '_>,
        plan: &'scope Plan,
        trial: usize,
        launched: &Launched<'_>,
    ) -> Self {
        let workload = &plan.workloads[plan.trials[trial].workload];
        // With turns, a check may disturb another subject's turn: with more subjects, checks are
        // less frequent.
        let taken_ns = plan.slice_ns.map(|slice_ns| slice_ns * plan.arms.len() as u64);
        let pause = Duration::from_nanos(taken_ns.unwrap_or(plan.load.interval_ns));
        let listener =
            listener(&launched.subject.listeners, workload).expect("a load is sent to it");
        let listener = Arc::clone(listener);
        let (to_prober, stop_prober) = mpsc::channel();
        let prober = scope.spawn(move || probe(&listener, trial, pause, &stop_prober));
        let runtime = launched.subject.runtime.clone();
        let has_runtime = runtime.is_some();
        let (to_runtime, stop_runtime) = mpsc::channel();
        let asker = scope.spawn(move || runtime.map(|runtime| runtime.follow(&stop_runtime)));
        Monitors {
            prober: Asking(to_prober, prober),
            asker: Asking(to_runtime, asker),
            has_runtime,
        }
    }

    fn end(self) -> MonitorResults {
        MonitorResults {
            probed: self.prober.end(),
            asked: self.asker.end(),
            has_runtime: self.has_runtime,
        }
    }
}

impl MonitorResults {
    fn into_measured(
        self,
        mut load: LoadRecord,
        tried: Option<CheckResult>,
        probes: ProbesUse,
        counted: &Result<(), String>,
    ) -> MeasuredTrial {
        let (runtime, refused_runtime) = self.asked.unwrap_or_default();
        load.probes = probes;
        if !self.has_runtime {
            load.probes.attached.remove(&Probe::Runtime);
        }
        load.probes.refuse(refused_runtime);
        load.probes.refused.extend(counted.clone().err().map(calls_refusal));
        load.runtime = runtime;
        MeasuredTrial { load, checks: tried.into_iter().chain(self.probed).collect() }
    }
}

/// Checks in full the responses that are only sampled under load. An unexpected response is a
/// failed check of the trial, whose load continues.
fn check_answers(spec: &load::LoadSpec) -> Option<CheckResult> {
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
        // The caveat that quotes it has its own advice.
        got: hint::split(&mismatch.words).0.into(),
    })
}

/// Returns the refusal of a count of system calls that ended before the load.
fn calls_refusal(why: String) -> RefusedProbe {
    RefusedProbe {
        probe: Probe::Syscalls,
        why,
        hint: "Re-run it. If this persists, report a bug.".into(),
    }
}

/// Checks the contract while the load runs: one check per interval, in turn, on a connection of its
/// own. Each trial begins at another check of the contract, so that several short trials cover all
/// of it.
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
            Err(mpsc::RecvTimeoutError::Timeout) => {
                results.push(listener.run(check, Business::Loaded));
            }
            _ => break,
        }
    }
    results
}

struct Watcher<'a> {
    trial: usize,
    answers: Arc<AnswerCounts>,
    /// Parties whose memory peak the kernel reset when the window opened.
    peaks_of_window: Vec<Party>,
    has_seen_sockets: bool,
    takes_turns: bool,
    watched: MonitoredProcesses<'a>,
    interrupts: &'a Interrupts,
    on: &'a dyn Fn(RunEvent<'_>),
}

impl Watch for Watcher<'_> {
    fn sample(&mut self, edge: Edge) -> Option<Sample> {
        if edge == Edge::Opens {
            self.peaks_of_window = self.watched.reset_peaks();
        }
        // The use of the whole machine is the difference between the edges of the window.
        let is_edge = edge != Edge::Within || !self.takes_turns;
        let reads = if is_edge { Reads::All } else { Reads::WithoutNetworksAndDisks };
        let mut sample = self.watched.sample(reads);
        // Once, after the counters: while all connections are there, and before they end.
        // The kernel lists the sockets of the whole machine, with seven subjects a seventh of the
        // time of this thread. In turns that is done at the end, after the last turn.
        let looks_at = if self.takes_turns { Edge::Closes } else { Edge::Within };
        if edge == looks_at && !std::mem::replace(&mut self.has_seen_sockets, true) {
            self.watched.look_at_sockets(&mut sample);
        }
        if edge == Edge::Closes {
            self.watched.look_for_strays(&mut sample);
        }
        for used in
            sample.parties.iter_mut().filter(|used| !self.peaks_of_window.contains(&used.party))
        {
            if let Some(cgroup) = &mut used.cgroup {
                cgroup.memory_peak_bytes = None;
            }
        }
        Some(sample)
    }

    fn read_cpu(&mut self) -> Option<CpuReading> {
        Some(self.watched.read_cpu())
    }

    fn answers(&self) -> Option<Arc<AnswerCounts>> {
        Some(Arc::clone(&self.answers))
    }

    fn interval(&mut self, interval: &Interval) {
        (self.on)(RunEvent::Interval { trial: self.trial, interval });
    }

    fn stop(&mut self) -> Option<LoadStopReason> {
        if self.interrupts.count() > 0 {
            return Some(LoadStopReason::Stopped);
        }
        self.watched
            .exited_part()
            .map(|how| LoadStopReason::ServerFailed(format!("{how} under load")))
    }
}
