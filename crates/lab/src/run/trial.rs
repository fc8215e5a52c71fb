//! Runs loads on this machine, samples their servers, and checks the contracts of servers while a
//! trial is measured.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use dyno_config::hint;
use dyno_contract::exchange::ServerLoad;
use dyno_launch::log::Log;
use dyno_launch::supervision::Interrupts;
use dyno_model::plan::Plan;
use dyno_model::probe::{Probe, RefusedProbe, RequestedProbes};
use dyno_model::runtime::RuntimeReading;
use dyno_model::trial::{CheckResult, EXPECTATIONS};
use dyno_model::{Interval, LoadRecord, Party, Sample};
use dyno_observer::kernel_probes::{CallCounter, PartyMonitor};
use dyno_observer::probes::ObservedWindow;
use dyno_observer::{Files, Reads};

use super::RunEvent;
use super::host::{Launched, MeasuredTrial, TrialLoad};
use super::real_host::RealHost;
use super::running_parts::{CheckedListener, MonitoredProcesses, RunningPart};
use crate::background_load::count_calls;
use crate::load::{self, Edge, LoadStopReason, ResponseCounts, Watch};

impl<'s> RealHost<'s> {
    /// Measures trials. Their loads take turns, or run at the same time.
    pub(super) fn measure_together(
        &self,
        trials: &mut [TrialLoad<'_, RunningPart<'s>>],
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Vec<MeasuredTrial>, String> {
        let specs: Vec<load::LoadSpec> = trials.iter().map(|trial| trial.spec.clone()).collect();
        let prechecks: Vec<Option<CheckResult>> = trials
            .iter()
            .map(|trial| check_responses(&trial.spec, &trial.launched.subject.process.log()))
            .collect();
        let event_sink: RefCell<&mut dyn FnMut(RunEvent<'_>)> = RefCell::new(on_event);
        let on_event = |event: RunEvent<'_>| (event_sink.borrow_mut())(event);
        let (plan, interrupts, probes) = (self.plan, self.interrupts, &self.probes);
        thread::scope(|scope| {
            let mut monitors = Vec::new();
            let mut watchers = Vec::new();
            let max_open_files = load::unused_open_files(&specs);
            let response_counts: Vec<Arc<ResponseCounts>> =
                specs.iter().map(|spec| ResponseCounts::new(spec.threads())).collect();
            let attached = trials.iter().map(|trial| attached_probes(&trial.launched)).collect();
            let counter = start_call_counter(scope, attached, &response_counts);
            for (trial, response_counts) in trials.iter_mut().zip(response_counts) {
                let observe = &plan.arms[plan.trials[trial.trial].arm].conditions.observe;
                let used = trial.launched.subject.probes_use(probes.probes_use(observe));
                monitors.push(Monitors::begin(scope, plan, trial, used));
                watchers.push(Watcher {
                    observe,
                    windows: Vec::new(),
                    window_peak_parties: Vec::new(),
                    has_read_sockets: false,
                    takes_turns: plan.sharing.slice_ns().is_some(),
                    trial: trial.trial,
                    processes: MonitoredProcesses::new(
                        &mut trial.launched,
                        Files::with_limit(max_open_files),
                    ),
                    response_counts,
                    interrupts,
                    on_event: &on_event,
                });
            }
            let mut loads: Vec<load::MonitoredLoad<'_>> = specs
                .iter()
                .zip(&mut watchers)
                .map(|(spec, watch)| load::MonitoredLoad { spec, watch })
                .collect();
            let records = load::run_together(&mut loads);
            let count_result = counter.map_or(Ok(()), StoppableThread::end);
            let results: Vec<MonitorResults> = monitors.into_iter().map(Monitors::end).collect();
            let mut records = records?;
            load::exchange_server_use(&mut records);
            let inputs = records.into_iter().zip(results).zip(prechecks).zip(&watchers);
            let measured_trials = inputs.map(|(((load, results), precheck), watcher)| {
                results.with_refused(watcher).into_trial(load, precheck, &count_result)
            });
            Ok(measured_trials.collect())
        })
    }

    /// Runs a load that is not a trial.
    pub(super) fn run_load(
        &self,
        spec: &load::LoadSpec,
        launched: &mut Launched<'_, RunningPart<'s>>,
    ) -> Result<LoadRecord, String> {
        let files = Files::with_limit(load::unused_open_files([spec]));
        let processes = MonitoredProcesses::new(launched, files);
        load::run(spec, &mut PlainWatch { processes, interrupts: self.interrupts })
    }
}

/// The threads that monitor a server under load, until they are stopped.
struct Monitors<'scope> {
    contract: StoppableThread<'scope, Vec<CheckResult>>,
    runtime: StoppableThread<'scope, Option<(Vec<RuntimeReading>, Option<RefusedProbe>)>>,
    has_runtime: bool,
    probes: RequestedProbes,
}

/// A thread that ends once the sender of its channel is dropped.
struct StoppableThread<'scope, T> {
    stop_on_drop: mpsc::Sender<()>,
    handle: thread::ScopedJoinHandle<'scope, T>,
}

impl<T> StoppableThread<'_, T> {
    fn end(self) -> T {
        drop(self.stop_on_drop);
        self.handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Returns the probes of all parts of a start.
fn attached_probes(launched: &Launched<'_, RunningPart<'_>>) -> Vec<Arc<PartyMonitor>> {
    let parts = [&*launched.subject].into_iter().chain(&*launched.backends);
    parts.filter_map(|part| part.monitor.clone()).collect()
}

/// Begins to count the system calls of all servers and back ends that are loaded together.
/// `attached`: the probes of each start. `None`: no part has a probe that counts them.
fn start_call_counter<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    attached: Vec<Vec<Arc<PartyMonitor>>>,
    response_counts: &[Arc<ResponseCounts>],
) -> Option<StoppableThread<'scope, Result<(), String>>> {
    let mut call_counter = CallCounter::new(attached)?;
    let response_counts = response_counts.to_vec();
    let (to_counter, stop) = mpsc::channel();
    let counter = scope.spawn(move || {
        let response_counts: Vec<&ResponseCounts> =
            response_counts.iter().map(|counts| &**counts).collect();
        count_calls(&mut call_counter, &response_counts, &stop)
    });
    Some(StoppableThread { stop_on_drop: to_counter, handle: counter })
}

/// Results of the monitoring threads.
struct MonitorResults {
    checks: Vec<CheckResult>,
    runtime: Option<(Vec<RuntimeReading>, Option<RefusedProbe>)>,
    has_runtime: bool,
    /// Available and refused probes of the server.
    probes: RequestedProbes,
}

impl<'scope> Monitors<'scope> {
    /// Starts the threads that check the contract and read runtime statistics during a load.
    /// `probes`: the probes of the server.
    fn begin(
        scope: &'scope thread::Scope<'scope, '_>,
        plan: &'scope Plan,
        trial: &TrialLoad<'_, RunningPart<'_>>,
        probes: RequestedProbes,
    ) -> Self {
        let subject = &trial.launched.subject;
        // With turns, a check may disturb another subject's turn. The more subjects there are, the
        // less frequent the checks.
        let round_ns = plan.sharing.slice_ns().map(|slice_ns| slice_ns * plan.arms.len() as u64);
        let pause = Duration::from_nanos(round_ns.unwrap_or(plan.load.interval_ns));
        let listener = subject
            .checked_listener(trial.workload(plan).protocol)
            .expect("a planned load should have its listener");
        let (listener, trial) = (Arc::clone(listener), trial.trial);
        let (to_checker, stop_checker) = mpsc::channel();
        let checker = scope.spawn(move || check_under_load(&listener, trial, pause, &stop_checker));
        let runtime = subject.runtime.clone();
        let has_runtime = runtime.is_some();
        let (to_runtime, stop_runtime) = mpsc::channel();
        let reader = scope.spawn(move || runtime.map(|runtime| runtime.follow(&stop_runtime)));
        Monitors {
            contract: StoppableThread { stop_on_drop: to_checker, handle: checker },
            runtime: StoppableThread { stop_on_drop: to_runtime, handle: reader },
            has_runtime,
            probes,
        }
    }

    fn end(self) -> MonitorResults {
        MonitorResults {
            checks: self.contract.end(),
            runtime: self.runtime.end(),
            has_runtime: self.has_runtime,
            probes: self.probes,
        }
    }
}

impl MonitorResults {
    /// Refuses the probes that could not observe the subject in its window.
    fn with_refused(mut self, watcher: &Watcher<'_, '_>) -> MonitorResults {
        let of_subject = watcher.windows.iter().filter(|(party, _)| *party == Party::SUBJECT);
        for refused in of_subject.flat_map(|(_, window)| window.refused()) {
            if self.probes.attached.contains(&refused.probe) {
                self.probes.refuse(Some(refused.clone()));
            }
        }
        self
    }

    /// Adds the results of the threads to the record of the load.
    fn into_trial(
        self,
        mut load: LoadRecord,
        precheck: Option<CheckResult>,
        count_result: &Result<(), String>,
    ) -> MeasuredTrial {
        let (runtime, refused_runtime) = self.runtime.unwrap_or_default();
        load.probes = self.probes;
        if !self.has_runtime {
            load.probes.attached.remove(&Probe::Runtime);
        }
        load.probes.refuse(refused_runtime);
        let stop_reason = count_result.clone().err();
        load.probes.refuse(stop_reason.map(|reason| calls_refusal(&load.probes, reason)));
        load.runtime = runtime;
        MeasuredTrial { load, checks: precheck.into_iter().chain(self.checks).collect() }
    }
}

/// Fully checks one response to each request before the load, because the load itself fully checks
/// only a sample. An unexpected response is a failed check of the trial. The load still runs.
/// `log`: the log of the server, with which the server's secrets are erased from quoted responses.
fn check_responses(spec: &load::LoadSpec, log: &Log) -> Option<CheckResult> {
    let mismatch = load::preflight(spec).err()?;
    Some(CheckResult {
        is_lifecycle: false,
        name: EXPECTATIONS.into(),
        protocol: spec.target.protocol,
        ok: false,
        has_response: mismatch.has_response,
        waived: false,
        asked: String::new(),
        expected: String::new(),
        // The hint is removed, because the caveat that quotes the message has a separate hint.
        got: log.text(hint::split(&mismatch.message).0.as_bytes()),
    })
}

/// Records that the probe that counted system calls stopped before the load ended.
fn calls_refusal(probes: &RequestedProbes, reason: String) -> RefusedProbe {
    let counts_all = probes.attached.contains(&Probe::EverySyscall);
    RefusedProbe {
        probe: if counts_all { Probe::EverySyscall } else { Probe::Syscalls },
        reason,
        hint: "Re-run the suite. If this persists, report a bug.".into(),
    }
}

/// Checks the contract while the load runs: one check per interval, in turn, on a separate
/// connection. Each trial begins with a different check, so that several short trials cover the
/// whole contract.
fn check_under_load(
    listener: &CheckedListener,
    trial: usize,
    pause: Duration,
    stop: &mpsc::Receiver<()>,
) -> Vec<CheckResult> {
    let checks = &listener.checks;
    let mut results = Vec::new();
    // A short trial has time for about two checks, so each trial begins two checks later.
    for check in checks.iter().cycle().skip(trial * 2 % checks.len().max(1)) {
        match stop.recv_timeout(pause) {
            Err(mpsc::RecvTimeoutError::Timeout) => {
                results.push(listener.run(check, ServerLoad::Loaded));
            }
            _ => break,
        }
    }
    results
}

/// The watch of a trial's load: samples all parts, reports intervals, and ends the load when a part
/// exits or the user interrupts it.
struct Watcher<'a, 's> {
    trial: usize,
    response_counts: Arc<ResponseCounts>,
    observe: &'a BTreeSet<Probe>,
    /// The windows of the probes that read at its edges.
    windows: Vec<(Party, ObservedWindow)>,
    /// Parties whose memory peak the kernel reset when the window opened.
    window_peak_parties: Vec<Party>,
    has_read_sockets: bool,
    takes_turns: bool,
    processes: MonitoredProcesses<'a, 's>,
    interrupts: &'a Interrupts,
    on_event: &'a dyn Fn(RunEvent<'_>),
}

impl Watcher<'_, '_> {
    /// Reads the sockets at the first call, while all connections are open. The kernel lists the
    /// sockets of the whole machine, which takes 4 to 20 ms.
    fn read_sockets_once(&mut self, sample: &mut Sample) {
        if !std::mem::replace(&mut self.has_read_sockets, true) {
            self.processes.read_sockets(sample);
        }
    }
}

impl Watch for Watcher<'_, '_> {
    fn sample(&mut self, edge: Edge) -> Option<Sample> {
        if edge == Edge::Opens {
            self.window_peak_parties = self.processes.reset_peaks();
        }
        // With turns, the use of networks and disks is known only for the whole window, so they are
        // not read within the window.
        let is_within_turns = edge == Edge::Within && self.takes_turns;
        let reads = if is_within_turns { Reads::WithoutNetworksAndDisks } else { Reads::All };
        let mut sample = self.processes.sample(reads);
        // The sockets are read after the counters, because reading sockets takes long. With turns,
        // `complete` reads the sockets.
        if edge == Edge::Within && !self.takes_turns {
            self.read_sockets_once(&mut sample);
        }
        // A memory peak that was not reset when the window opened may be from an earlier load.
        for used in
            sample.parties.iter_mut().filter(|used| !self.window_peak_parties.contains(&used.party))
        {
            if let Some(cgroup) = &mut used.cgroup {
                cgroup.memory_peak_bytes = None;
            }
        }
        Some(sample)
    }

    fn open_probes(&mut self) {
        self.windows = self.processes.open_windows(self.observe);
    }

    fn complete(&mut self, sample: &mut Sample) {
        if self.takes_turns {
            self.read_sockets_once(sample);
        }
        self.processes.read_shared_memory(sample);
        self.processes.close_windows(&mut self.windows, sample);
        self.processes.count_strays(sample);
    }

    fn response_counts(&self) -> Option<Arc<ResponseCounts>> {
        Some(Arc::clone(&self.response_counts))
    }

    fn interval(&mut self, interval: &Interval) {
        (self.on_event)(RunEvent::Interval { trial: self.trial, interval });
    }

    fn stop(&mut self) -> Option<LoadStopReason> {
        if self.interrupts.count() > 0 {
            return Some(LoadStopReason::Stopped);
        }
        self.processes
            .exited_part()
            .map(|event| LoadStopReason::ServerFailed(format!("{event} under load")))
    }
}

/// The watch of a load that is not a trial. Samples all parts, and ends the load when a part exits
/// or the user interrupts it.
struct PlainWatch<'a, 's> {
    processes: MonitoredProcesses<'a, 's>,
    interrupts: &'a Interrupts,
}

impl Watch for PlainWatch<'_, '_> {
    fn sample(&mut self, _: Edge) -> Option<Sample> {
        Some(self.processes.sample_without_probes())
    }

    fn stop(&mut self) -> Option<LoadStopReason> {
        if self.interrupts.count() > 0 {
            return Some(LoadStopReason::Stopped);
        }
        self.processes.exited_part().map(LoadStopReason::ServerFailed)
    }
}
