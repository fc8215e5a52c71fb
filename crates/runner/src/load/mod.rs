//! Runs loads. Worker threads, each with a driver, send requests. A watch samples the server on the
//! same clock.
//!
//! `agent` runs the workers, `control` merges their intervals, and `record` makes the record of the
//! load. This module combines them with a real clock, and `simulated` with a simulated clock.

mod agent;
mod control;
mod preflight;
mod record;
mod shared_use;
mod sharing;
mod simulated;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use dyno_archive::plan::{self, Arrivals, ConnectionSettings, DriverKind, Step};
use dyno_archive::{Interval, LoadRecord, Sample};
use dyno_contract::tls::TlsOptions;
use dyno_driver::{Endpoint, sys};
use dyno_engine::{
    Http2, Instant, Policy, Protocol, SpinPolicy, Stop, Traffic, Window, WorkerReport, limits,
};

use crate::limits::{BEGIN_NOTICE_NS, STEP_WARMUP_NS, STOP_CHECK_INTERVAL};
use crate::machine;
use agent::{CommonStart, LoadState, WorkerMessage, worker};
use control::Control;
use record::{ControlReport, CutPhase, assemble};

pub use agent::ResponseCounts;
pub(crate) use preflight::unused_open_files;
pub use preflight::{Mismatch, SingleResponse, preflight, request_once};
pub use shared_use::exchange_server_use;
pub use sharing::{Sharing, share_cpus, take_turns};
pub use simulated::{CounterReader, simulate};

/// The specification of one load: server, traffic, step and conditions.
#[derive(Clone, Debug)]
pub struct LoadSpec {
    pub endpoint: Endpoint,
    pub protocol: Protocol,
    /// `None`: plain connections.
    pub tls: Option<TlsOptions>,
    pub traffic: Arc<Traffic>,
    /// Number of connections that load one page together. The step's `connections` are then the
    /// number of visitors. `None`: the traffic is not a page.
    pub page_connections: Option<u32>,
    /// The load as plans describe it. If it has more threads than connections, only one thread per
    /// connection is started.
    pub load: plan::Load,
    /// The step of this load.
    pub step: Step,
    /// Send instants of a recorded schedule, nanoseconds since the schedule began. Empty: the step
    /// replays no recorded schedule.
    pub trace: Arc<[u64]>,
    pub sharing: Sharing,
    pub seed: u64,
    /// Polling of this load, decided from `load.spin` by [`polling`].
    pub spin: SpinPolicy,
    /// CPUs of the worker threads; empty: any.
    pub cpus: Vec<u32>,
}

impl LoadSpec {
    /// Returns the total number of connections.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.step.connections.saturating_mul(self.page_connections.unwrap_or(1))
    }

    /// Returns the number of worker threads.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.load.threads.clamp(1, self.step.connections.max(1))
    }

    /// Returns the same load as a closed loop without ramp or polling and with a short drain, for
    /// cases in which the server must be busy and response times are not measured.
    #[must_use]
    pub fn to_busy_loop(self) -> LoadSpec {
        let drain_ns = self.load.timeout_ns.min(limits::DRAIN_NS);
        LoadSpec {
            step: Step { arrivals: Arrivals::Closed, ..self.step },
            sharing: Sharing::Alone,
            load: plan::Load { ramp_connections_ns: None, drain_ns, ..self.load },
            spin: SpinPolicy::Never,
            ..self
        }
    }

    pub(super) fn policy(&self) -> Policy {
        Policy {
            timeout_ns: self.load.timeout_ns,
            first_byte_timeout_ns: self.load.first_byte_timeout_ns,
            connect_timeout_ns: self.load.connect_timeout_ns,
            requests_per_connection: self.load.requests_per_connection,
            ramp_ns: self.load.ramp_connections_ns,
            backs_off: self.load.reconnect == plan::Reconnect::Backoff,
        }
    }

    /// Returns the phases of the load, with the time that other loads take.
    #[must_use]
    pub fn window(&self) -> Window {
        self.sharing.extend(Window {
            warmup_ns: self.load.warmup_ns,
            duration_ns: self.load.set_duration_ns(),
            interval_ns: self.load.interval_ns,
            drain_ns: self.load.drain_ns,
        })
    }

    /// Returns the polling of the workers. A polling worker would take CPU time from the other
    /// generators on the same CPUs.
    pub(super) const fn spin(&self) -> SpinPolicy {
        match self.sharing {
            Sharing::Together { .. } => SpinPolicy::Never,
            Sharing::Alone | Sharing::Turns { .. } => self.spin,
        }
    }
}

/// Returns the default load, the base for suites, the command line and dyno's own checks.
#[must_use]
pub fn default_load() -> plan::Load {
    const S: u64 = 1_000_000_000;
    plan::Load {
        warmup_ns: STEP_WARMUP_NS,
        until_steady: None,
        still_warming: plan::StillWarming::Refused,
        proxy_protocol: None,
        connection: ConnectionSettings::default(),
        order: plan::Order::Fixed,
        duration_ns: 10 * S,
        requests: None,
        interval_ns: S,
        timeout_ns: 10 * S,
        connect_timeout_ns: 5 * S,
        drain_ns: drain_ns(10 * S),
        first_byte_timeout_ns: None,
        requests_per_connection: None,
        ramp_connections_ns: None,
        reconnect: plan::Reconnect::Backoff,
        check_one_in: CHECK_ONE_IN,
        spin: plan::Spin::Auto,
        priority: dyno_archive::plan::Priority::Normal,
        threads: 1,
        driver: dyno_driver::best_driver().0,
        http2: Http2::default(),
        steps: Vec::new(),
    }
}

/// By default, one in this many responses is fully checked.
pub const CHECK_ONE_IN: u64 = 100;

/// Returns the length of the drain (the wait for the last responses after the window), for a
/// time-out. The drain includes the full time-out of the last request, so that the server and dyno
/// count the same number of requests.
#[must_use]
pub const fn drain_ns(timeout_ns: u64) -> u64 {
    if timeout_ns > limits::DRAIN_NS { timeout_ns } else { limits::DRAIN_NS }
}

/// Returns whether the workers of a load poll while they wait. With `auto`, they poll in an open
/// loop if the generator has separate CPUs.
#[must_use]
pub fn polling(requested: plan::Spin, arrivals: &Arrivals, has_own_cpus: bool) -> SpinPolicy {
    match requested {
        plan::Spin::Always => SpinPolicy::Always,
        plan::Spin::Auto if !arrivals.is_closed() && has_own_cpus => SpinPolicy::Near,
        plan::Spin::Auto | plan::Spin::Never => SpinPolicy::Never,
    }
}

/// Position of a sample in the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Warmup,
    /// The measured window opens here.
    Opens,
    Within,
    /// The measured window closes here.
    Closes,
}

/// An observer of a running load that can end the load. All calls come from the thread that runs
/// the load.
pub trait Watch {
    /// Reads the counters of the server. `None`: no counters to read.
    fn sample(&mut self, _edge: Edge) -> Option<Sample> {
        None
    }

    /// Adds the readings that take long to the closing sample. The connections are still open.
    fn complete(&mut self, _sample: &mut Sample) {}

    /// Returns the counters in which workers store their number of responses. `None`: the counters
    /// are not needed.
    fn response_counts(&self) -> Option<Arc<ResponseCounts>> {
        None
    }

    /// Receives an interval that has ended. The interval has the sums over all workers.
    fn interval(&mut self, _interval: &Interval) {}

    /// Returns a reason to end the load now. `None`: the load goes on. Called many times a second.
    fn stop(&mut self) -> Option<LoadStopReason>;
}

/// A watch that reads nothing, and ends the load once its condition is true.
pub(crate) struct StopWhen<F>(pub(crate) F);

impl<F: FnMut() -> bool> Watch for StopWhen<F> {
    fn stop(&mut self) -> Option<LoadStopReason> {
        (self.0)().then_some(LoadStopReason::Stopped)
    }
}

/// Why a load ends before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadStopReason {
    /// The watch stopped the load. The result is valid for the measured part.
    Stopped,
    /// The server failed, with a description of the failure.
    ServerFailed(String),
}

/// Runs a load. `Err`: the load could not begin.
pub fn run(spec: &LoadSpec, watch: &mut dyn Watch) -> Result<LoadRecord, String> {
    let mut records = run_together(&mut [MonitoredLoad { spec, watch }])?;
    Ok(records.remove(0))
}

/// A load and its watch.
#[allow(missing_debug_implementations)] // It holds a trait object.
pub struct MonitoredLoad<'a> {
    pub spec: &'a LoadSpec,
    pub watch: &'a mut dyn Watch,
}

/// Runs loads that begin at the same instant. If one load ends early, all loads end, so that the
/// compared servers were loaded for the same time. Returns the records in the order of the loads.
///
/// # Errors
/// A load could not begin, so none has begun.
pub fn run_together(loads: &mut [MonitoredLoad<'_>]) -> Result<Vec<LoadRecord>, String> {
    preflight::check(loads)?;
    let common_start = CommonStart::new(loads.iter().map(|load| load.spec.threads()).sum());
    let new_state = |(number, load): (usize, &MonitoredLoad<'_>)| {
        LoadState::new(number, load.spec.threads(), load.watch.response_counts(), &common_start)
    };
    let states: Vec<LoadState> = loads.iter().enumerate().map(new_state).collect();
    let mut followers: Vec<Follower<'_>> =
        loads.iter().zip(&states).map(|(load, state)| Follower::new(load.spec, state)).collect();
    let (to_control, from_workers) = mpsc::channel();
    thread::scope(|scope| {
        let _closable = common_start.let_close_on_drop();
        let start = |(load, k): (usize, u32)| {
            let (spec, state, to_control) = (loads[load].spec, &states[load], to_control.clone());
            thread::Builder::new()
                .name(format!("worker-{k}"))
                .spawn_scoped(scope, move || worker(spec, k, state, &to_control))
                .map(|handle| (load, handle))
                .map_err(|error| format!("worker thread: cannot be started: {error}"))
        };
        let all_workers = states
            .iter()
            .enumerate()
            .flat_map(|(load, state)| (0..state.threads()).map(move |k| (load, k)));
        let workers: Vec<_> =
            all_workers.map(start).collect::<Result<_, _>>().inspect_err(|_| {
                // The started threads must not wait for threads that could not be started.
                states.iter().for_each(|load| {
                    load.end(Stop::At(Instant(0)));
                });
            })?;
        drop(to_control);
        follow(&mut followers, loads, &from_workers, &common_start);
        let mut reports: Vec<Vec<WorkerReport>> = followers.iter().map(|_| Vec::new()).collect();
        for (load, worker) in workers {
            reports[load]
                .push(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        let inputs = followers.into_iter().zip(reports).zip(&*loads);
        Ok(inputs.map(|((follower, reports), load)| follower.finish(load.spec, reports)).collect())
    })
}

/// Handles the messages of the workers, takes the samples and ends the loads, until all workers
/// have reported everything. Connections are closed only after the closing samples of all loads,
/// because each sample has the counters of all servers.
///
/// Each watch is asked for a reason to stop once per [`STOP_CHECK_INTERVAL`], not with each
/// message. A watch makes system calls for each server, and the workers of loads that take turns
/// send hundreds of messages per second.
fn follow(
    followers: &mut [Follower<'_>],
    loads: &mut [MonitoredLoad<'_>],
    from_workers: &mpsc::Receiver<WorkerMessage>,
    common_start: &CommonStart,
) {
    let mut last_check = None;
    loop {
        let wait =
            followers.iter().map(Follower::until_next_sample).min().unwrap_or(STOP_CHECK_INTERVAL);
        match from_workers.recv_timeout(wait) {
            Ok(WorkerMessage { load, worker, interval }) => {
                let watch = &mut loads[load].watch;
                let control = &mut followers[load].control;
                let report = |merged: &Interval| watch.interval(merged);
                match interval {
                    Some(interval) => control.merge(worker, &interval, report),
                    None => control.end_worker(worker, report),
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        for (follower, load) in followers.iter_mut().zip(&mut *loads) {
            follower.close_if_drained();
            follower.sample_if_due(load.watch);
        }
        let now = sys::now();
        let is_check_due = last_check.is_none_or(|last: Instant| {
            now.ns_since(last) >= STOP_CHECK_INTERVAL.as_nanos() as u64
        });
        if is_check_due {
            last_check = Some(now);
            for (follower, load) in followers.iter_mut().zip(&mut *loads) {
                follower.end_if_requested(load.watch);
            }
        }
        if let Some(stop) = followers.iter().find_map(|follower| follower.state.stop_signal()) {
            followers.iter_mut().for_each(|follower| follower.end_with(stop));
        }
        // The readings that take long follow only after the closing samples of all loads, so that
        // these samples are taken at the same instant.
        if followers.iter().all(Follower::is_sampled) {
            for (follower, load) in followers.iter_mut().zip(&mut *loads) {
                follower.complete_closing_sample(load.watch);
            }
            common_start.let_close();
        }
    }
}

/// The control thread's part of a load: takes samples at their times, and ends the load early if
/// its watch requests it.
struct Follower<'a> {
    driver: DriverKind,
    /// Requested priority.
    priority: plan::Priority,
    state: &'a LoadState,
    control: Control,
    machine: machine::MachineWatch,
    /// Whether all workers had drained when the loop last read this.
    is_drained: bool,
    failure: Option<String>,
    /// Phase in which the load was ended before its time.
    cut: Option<CutPhase>,
}

impl<'a> Follower<'a> {
    fn new(spec: &LoadSpec, state: &'a LoadState) -> Self {
        Follower {
            driver: spec.load.driver,
            priority: spec.load.priority,
            state,
            control: Control::new(spec.window(), state.threads())
                .with_slices(spec.sharing.slices()),
            machine: machine::MachineWatch::new(&spec.cpus),
            is_drained: false,
            failure: None,
            cut: None,
        }
    }

    /// Ends the load if its watch requests the end. The watch is called even after the end was
    /// decided, because a watch also updates the screen.
    fn end_if_requested(&mut self, watch: &mut dyn Watch) {
        if let Some(reason) = watch.stop()
            // The end is a little later than now, so that all workers read it in time.
            && self.state.end(Stop::Now(sys::now().plus(BEGIN_NOTICE_NS)))
        {
            match reason {
                LoadStopReason::Stopped => self.note_cut(),
                LoadStopReason::ServerFailed(message) => self.failure = Some(message),
            }
        }
    }

    /// Ends the load because a load that runs at the same time ends.
    fn end_with(&mut self, stop: Stop) {
        if self.state.end(stop) {
            self.note_cut();
        }
    }

    /// Notes that the load ends before its time.
    fn note_cut(&mut self) {
        self.cut = Some(if self.is_window_over() { CutPhase::Drain } else { CutPhase::Window });
    }

    fn is_window_over(&self) -> bool {
        self.since_begin().is_some_and(|since| self.control.is_window_over(since))
    }

    /// Returns the nanoseconds since the load began; `None`: the load has not begun.
    fn since_begin(&self) -> Option<u64> {
        // The clock is read at each call, because decisions about samples need the present time.
        let now = sys::now();
        self.state.begin_time().filter(|begin| now >= *begin).map(|begin| now.ns_since(begin))
    }

    fn until_next_sample(&self) -> Duration {
        // The clock is read immediately before the sleep, because the wait begins there.
        self.control.until_next_sample(self.state.begin_time(), sys::now())
    }

    /// Schedules the closing sample for now if the load has drained before the end of its set
    /// duration. The workers wait for the sample with their connections open. A failed server is
    /// not sampled, because it has no counters to read.
    fn close_if_drained(&mut self) {
        // Workers may drain at any instant. One reading decides about the sample and, in
        // `is_sampled`, about the connections, so that these are not closed before the sample.
        self.is_drained = self.state.is_drained();
        if self.is_drained
            && self.failure.is_none()
            && let Some(since_ns) = self.since_begin()
        {
            self.control.close_early(since_ns);
        }
    }

    /// Returns whether the closing sample was taken, or will not be taken. The caller takes the
    /// closing sample of a drained load before this call, so a drained load has no sample left.
    fn is_sampled(&self) -> bool {
        self.is_drained || self.control.next_sample().is_none()
    }

    fn complete_closing_sample(&mut self, watch: &mut dyn Watch) {
        if let Some(sample) = self.control.take_incomplete_closing_sample() {
            watch.complete(sample);
        }
    }

    /// Takes the next sample if its time has come.
    fn sample_if_due(&mut self, watch: &mut dyn Watch) {
        let (Some(now), Some((due, edge))) = (self.since_begin(), self.control.next_sample())
        else {
            return;
        };
        if now < due {
            return;
        }
        match edge {
            Edge::Opens => self.machine.open(),
            Edge::Closes if !self.control.has_ended_early() => self.machine.close(),
            Edge::Closes | Edge::Warmup | Edge::Within => {}
        }
        // The sample has the actual instant of the reading, which may be later than `due`.
        self.control.record_sample(watch.sample(edge));
    }

    /// Returns the record of the load.
    fn finish(self, spec: &LoadSpec, reports: Vec<WorkerReport>) -> LoadRecord {
        let control_report = ControlReport {
            began_ns: self.state.begin_time().map_or(0, |begin| begin.0),
            driver: self.driver,
            priority: self.state.priority(self.priority),
            rss_peak_bytes: dyno_observer::proc::own_rss_peak_bytes(),
            machine: self.machine.finish(),
            failure: self.failure,
            cut: self.cut,
        };
        let mut record = assemble(control_report, self.control.finish(), reports);
        record.concurrent_loads = spec.sharing.concurrent_loads();
        record.address = Some(spec.endpoint.peer.to_string());
        let slices = spec.sharing.slices();
        record.slices_ns = slices.map(|slices| slices.slices_between(0, record.window_ns.1));
        record
    }
}
