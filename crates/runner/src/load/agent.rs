//! Runs the workers of a load. Each worker is a thread with a separate driver. All workers agree on
//! the instant at which the load begins.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, mpsc};

use dyno_archive::Interval;
use dyno_archive::plan::{DriverKind, Priority};
use dyno_contract::tls::TlsOptions;
use dyno_driver::{Endpoint, Epoll, PeerAddress, Uring, sys};
use dyno_engine::schedule::Stripe;
use dyno_engine::{Driver, Instant, Schedule, Stop, Worker, WorkerConfig, WorkerReport};
use dyno_launch::{set_affinity, set_realtime};

use super::LoadSpec;
use crate::limits::{BEGIN_NOTICE_NS, LOOPBACK_SOURCES};

/// Coordinates all workers of one or several loads: they begin together, and close their
/// connections together.
pub(super) struct CommonStart {
    threads: u32,
    ready: AtomicU32,
    at: OnceLock<Instant>,
    /// Set when connections may be closed: the closing samples of all loads were taken.
    can_close: Mutex<bool>,
    closable: Condvar,
}

impl CommonStart {
    /// Creates the coordination of this number of workers.
    pub(super) fn new(threads: u32) -> Arc<CommonStart> {
        Arc::new(CommonStart {
            threads,
            ready: AtomicU32::new(0),
            at: OnceLock::new(),
            can_close: Mutex::new(false),
            closable: Condvar::new(),
        })
    }

    /// Lets all workers close their connections.
    pub(super) fn let_close(&self) {
        *self.can_close.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.closable.notify_all();
    }

    /// Lets workers close their connections once the returned guard is dropped. The control thread
    /// drops the guard on every exit, so that no worker waits forever.
    pub(super) const fn let_close_on_drop(&self) -> CloseGuard<'_> {
        CloseGuard(self)
    }

    fn wait_until_closable(&self) {
        let can_close = self.can_close.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.closable.wait_while(can_close, |can_close| !*can_close));
    }

    /// Returns the instant at which all workers begin. The first call after all workers are ready
    /// sets the instant. `None`: some workers are not ready.
    fn agree(&self) -> Option<Instant> {
        if self.ready.load(Ordering::Acquire) < self.threads {
            return None;
        }
        Some(*self.at.get_or_init(|| sys::now().plus(BEGIN_NOTICE_NS)))
    }
}

/// Lets all workers close their connections when it is dropped.
pub(super) struct CloseGuard<'a>(&'a CommonStart);

impl Drop for CloseGuard<'_> {
    fn drop(&mut self) {
        self.0.let_close();
    }
}

/// A worker's message to the control thread: the worker has ended an interval, or has drained.
pub(super) struct WorkerMessage {
    /// Index of the worker's load among the loads that run at the same time.
    pub(super) load: usize,
    pub(super) worker: u32,
    /// `None`: the worker has drained.
    pub(super) interval: Option<Interval>,
}

/// State that the workers of one load share, such as the instants at which the load begins and
/// ends.
pub(super) struct LoadState {
    /// Index of the load among the loads that run at the same time.
    load: usize,
    threads: u32,
    common_start: Arc<CommonStart>,
    /// How the load ends early. The first reason to end the load sets it. Empty: no early end.
    stop: OnceLock<Stop>,
    /// Whether real-time priority was requested and a worker could not get it.
    is_priority_refused: AtomicBool,
    /// Number of workers that have drained (no request waits for a response), or could not begin.
    drained: AtomicU32,
    response_counts: Arc<ResponseCounts>,
}

/// Number of complete responses so far of each worker of a load, correct or not. It is used to
/// compute costs per response.
#[derive(Debug)]
pub struct ResponseCounts(Vec<WorkerCounter>);

/// A counter in its own cache line, so that a write does not invalidate another worker's line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct WorkerCounter(AtomicU64);

impl ResponseCounts {
    /// Returns counters for up to this many workers.
    #[must_use]
    pub fn new(workers: u32) -> Arc<ResponseCounts> {
        Arc::new(ResponseCounts((0..workers).map(|_| WorkerCounter::default()).collect()))
    }

    /// Returns the sum over all workers. Workers store their numbers once per iteration of their
    /// loops, so the latest responses are missing.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|worker| worker.0.load(Ordering::Relaxed)).sum()
    }

    fn record(&self, worker: u32, responses: u64) {
        if let Some(counter) = self.0.get(worker as usize) {
            counter.0.store(responses, Ordering::Relaxed);
        }
    }
}

impl LoadState {
    /// `load`: index of the load among the loads that run at the same time.
    pub(super) fn new(
        load: usize,
        threads: u32,
        response_counts: Option<Arc<ResponseCounts>>,
        common_start: &Arc<CommonStart>,
    ) -> LoadState {
        LoadState {
            load,
            threads,
            common_start: Arc::clone(common_start),
            stop: OnceLock::new(),
            is_priority_refused: AtomicBool::new(false),
            drained: AtomicU32::new(0),
            response_counts: response_counts.unwrap_or_else(|| ResponseCounts::new(threads)),
        }
    }

    pub(super) const fn threads(&self) -> u32 {
        self.threads
    }

    /// Returns the instant at which all loads begin. `None`: some workers are not ready.
    pub(super) fn begin_time(&self) -> Option<Instant> {
        self.common_start.at.get().copied()
    }

    /// Returns the priority that all workers have.
    pub(super) fn priority(&self, requested: Priority) -> Priority {
        if self.is_priority_refused.load(Ordering::Acquire) { Priority::Normal } else { requested }
    }

    /// Returns whether all workers of the load have drained.
    pub(super) fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Acquire) >= self.threads
    }

    /// Returns how the load ends early. `None`: there is no reason for an early end so far.
    pub(super) fn stop_signal(&self) -> Option<Stop> {
        self.stop.get().copied()
    }

    /// Ends the load for all workers. Returns false if an earlier call has ended the load.
    pub(super) fn end(&self, stop: Stop) -> bool {
        self.stop.set(stop).is_ok()
    }
}

/// Runs worker `k` from its first connection to its end. `Err`: the worker could not begin.
pub(super) fn worker(
    spec: &LoadSpec,
    k: u32,
    shared: &LoadState,
    to: &mpsc::Sender<WorkerMessage>,
) -> Result<WorkerReport, String> {
    let mut guard = FailureGuard { shared, is_armed: true };
    let report = start_worker(spec, k, shared, to);
    guard.is_armed = report.is_err();
    report
}

/// Ends the whole load if a worker fails before the load begins. Otherwise the other workers would
/// wait forever for the failed worker.
struct FailureGuard<'a> {
    shared: &'a LoadState,
    is_armed: bool,
}

impl Drop for FailureGuard<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.shared.end(Stop::At(Instant(0)));
            self.shared.drained.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Binds this thread to its CPU, creates the driver, and runs the worker's share of the load.
fn start_worker(
    spec: &LoadSpec,
    k: u32,
    shared: &LoadState,
    to: &mpsc::Sender<WorkerMessage>,
) -> Result<WorkerReport, String> {
    // Workers are distributed over the CPUs in turn. With more workers than CPUs, some share one.
    let cpu = spec.cpus.get(k as usize % spec.cpus.len().max(1));
    if let Some(&cpu) = cpu {
        set_affinity(&[cpu]).map_err(|error| {
            format!("CPU {cpu}: no thread of the load generator can be bound to this CPU: {error}")
        })?;
    }
    let config = config(spec, k, shared.threads)?;
    let endpoint = endpoint(spec, k, shared.threads);
    let no_driver = |error: io::Error| {
        format!(
            "driver {}: cannot be used on this machine: {error}\nhint: use `--driver epoll`",
            spec.load.driver.name()
        )
    };
    match spec.load.driver {
        DriverKind::Uring => {
            let driver = Uring::new(&endpoint, config.connections).map_err(no_driver)?;
            Ok(drive(driver, config, shared, to, priority(spec, shared)))
        }
        DriverKind::Epoll => {
            let driver = Epoll::new(&endpoint, config.connections).map_err(no_driver)?;
            Ok(drive(driver, config, shared, to, priority(spec, shared)))
        }
    }
}

/// Returns the priority that workers request. Real time is refused if two workers share a CPU,
/// because they would block each other.
fn priority(spec: &LoadSpec, shared: &LoadState) -> Priority {
    let share_cpus = !spec.cpus.is_empty() && shared.threads as usize > spec.cpus.len();
    if spec.load.priority == Priority::Realtime && share_cpus {
        shared.is_priority_refused.store(true, Ordering::Release);
        return Priority::Normal;
    }
    spec.load.priority
}

/// Runs a worker with a driver until it has drained, and returns its report.
fn drive<D: Driver>(
    mut driver: D,
    config: WorkerConfig,
    shared: &LoadState,
    to: &mpsc::Sender<WorkerMessage>,
    priority: Priority,
) -> WorkerReport {
    let k = config.worker;
    let mut worker = Worker::new(config);
    let (mut is_counted_as_ready, mut has_requested_priority) = (false, false);
    let begin = || {
        if !std::mem::replace(&mut is_counted_as_ready, true) {
            shared.common_start.ready.fetch_add(1, Ordering::AcqRel);
        }
        // The priority is requested only after all workers are ready, because a waiting real-time
        // thread could block others on its CPU.
        shared.common_start.agree().inspect(|_| {
            if priority == Priority::Realtime
                && !std::mem::replace(&mut has_requested_priority, true)
                && set_realtime().is_err()
            {
                shared.is_priority_refused.store(true, Ordering::Release);
            }
        })
    };
    let stop = |responses| {
        shared.response_counts.record(k, responses);
        shared.stop_signal().unwrap_or(Stop::No)
    };
    // Sending cannot fail, because the control thread receives until all workers have ended.
    let send = |interval| drop(to.send(WorkerMessage { load: shared.load, worker: k, interval }));
    dyno_engine::run_until_drained(&mut worker, &mut driver, begin, stop, |interval| {
        send(Some(interval));
    });
    shared.drained.fetch_add(1, Ordering::AcqRel);
    send(None);
    // The closing sample must be taken first, because a thread of the server may end with its
    // connection.
    shared.common_start.wait_until_closable();
    worker.close(&mut driver);
    worker.report()
}

/// Returns the endpoint for worker `k` of this number of workers. Source addresses are assigned in
/// turn to the connections of all workers. The first address of a worker follows the last address
/// of the worker before.
fn endpoint(spec: &LoadSpec, k: u32, workers: u32) -> Endpoint {
    let mut endpoint = Endpoint { sources: sources(spec), ..spec.endpoint.clone() };
    let per_visitor = spec.page_connections.unwrap_or(1);
    let connections =
        |worker: u32| share(u64::from(spec.step.connections), worker, workers) as u32 * per_visitor;
    let before: u32 = (0..k).map(connections).sum();
    if !endpoint.sources.is_empty() {
        let start = before as usize % endpoint.sources.len();
        endpoint.sources.rotate_left(start);
    }
    endpoint
}

/// Returns the source addresses of connections: the requested addresses, or [`LOOPBACK_SOURCES`]
/// addresses for a load that would exhaust the local ports. Empty: the kernel chooses the address.
fn sources(spec: &LoadSpec) -> Vec<IpAddr> {
    let requested = &spec.endpoint.sources;
    let is_loopback = |peer: &PeerAddress| match peer {
        PeerAddress::Tcp(SocketAddr::V4(addr)) => addr.ip().is_loopback(),
        _ => false,
    };
    let replaces_connections = spec.load.requests_per_connection.is_some();
    let may_exhaust_ports = replaces_connections && is_loopback(&spec.endpoint.peer);
    if !requested.is_empty() || !may_exhaust_ports {
        return requested.clone();
    }
    (1..=LOOPBACK_SOURCES).map(|n| Ipv4Addr::new(127, 0, 0, n).into()).collect()
}

/// Returns worker `k`'s share of a whole that is divided among this number of workers.
fn share(total: u64, k: u32, workers: u32) -> u64 {
    total / u64::from(workers) + u64::from(u64::from(k) < total % u64::from(workers))
}

/// Returns the configuration of worker `k`: its share of the load of this number of workers.
pub(super) fn config(spec: &LoadSpec, k: u32, workers: u32) -> Result<WorkerConfig, String> {
    let share = |total: u64| share(total, k, workers);
    let stripe = Stripe { worker: u64::from(k), workers: u64::from(workers) };
    Ok(WorkerConfig {
        worker: k,
        connections: share(u64::from(spec.step.connections)) as u32
            * spec.page_connections.unwrap_or(1),
        page_connections: spec.page_connections,
        protocol: spec.protocol,
        http2: spec.load.http2,
        pipeline: spec.step.pipeline,
        streams: spec.step.streams,
        schedule: match spec.sharing.slices() {
            Some(slices) => Schedule::Sliced(slices),
            None => Schedule::new(&spec.step.arrivals, &spec.trace, spec.seed, stripe),
        },
        total: spec.load.requests.map(share),
        traffic: spec.traffic.clone(),
        draws: spec.traffic.draws(spec.seed, stripe.worker, stripe.workers),
        check_one_in: spec.load.check_one_in,
        policy: spec.policy(),
        tls: spec.tls.as_ref().map(TlsOptions::configure).transpose()?,
        spin: spec.spin(),
        window: spec.window(),
    })
}
