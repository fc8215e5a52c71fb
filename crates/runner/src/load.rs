//! One load: worker threads with a driver each, their intervals merged, and a watcher on the same clock.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use dyno_archive::plan::Step;
use dyno_archive::trial::{Books, ClientUse, Connections};
use dyno_archive::{Interval, Phase, Sample, Times, TrialRecord};
use dyno_driver::{Epoll, Kind, Uring, sys};
use dyno_engine::schedule::Stripe;
use dyno_engine::{Config, Driver, Expect, Instant, Report, Request, Schedule, Stop, Window, Worker};

use crate::launch::sys::{raise_open_files, set_affinity};
use crate::limits::{AHEAD_NS, GLANCE, OTHER_FILES};

/// What to load, how, and for how long.
#[derive(Clone, Debug)]
pub struct Spec {
    pub addr: SocketAddr,
    pub request: Request,
    pub expect: Expect,
    pub step: Step,
    pub seed: u64,
    /// Requests in all; `None`: as many as the window allows.
    pub total: Option<u64>,
    pub requests_per_connection: Option<u64>,
    pub timeout_ns: u64,
    pub connect_timeout_ns: u64,
    pub window: Window,
    /// Worker threads; never more than connections.
    pub threads: u32,
    pub driver: Kind,
    /// CPUs of the worker threads; empty: any.
    pub cpus: Vec<u32>,
}

/// Where a sample lies in the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Warmup,
    /// The measured window opens here.
    Opens,
    Within,
    /// And closes here.
    Closes,
}

/// What wants to know of a load while it runs. All calls come from the thread that runs the load.
pub trait Watch {
    /// Reads the counters of the server, if there are any to read.
    fn sample(&mut self, edge: Edge) -> Option<Sample>;
    /// An interval of all workers has ended.
    fn interval(&mut self, interval: &Interval);
    /// Asked many times a second: a reason to end the load now.
    fn stop(&mut self) -> Option<Reason>;
}

/// Why a load ends before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The user wants it; the result stands for what was measured.
    Asked,
    /// The server failed, in words.
    ServerFailed(String),
}

/// Runs a load. `Err`: it could not begin, as a sentence with the way out.
pub fn run(spec: &Spec, watch: &mut dyn Watch) -> Result<TrialRecord, String> {
    let limit = raise_open_files();
    if u64::from(spec.step.connections) + OTHER_FILES > limit {
        return Err(format!(
            "{} connections need {} open files, and the limit is {limit}; raise it with `ulimit -n`, or ask for fewer connections",
            spec.step.connections,
            u64::from(spec.step.connections) + OTHER_FILES
        ));
    }
    let threads = spec.threads.clamp(1, spec.step.connections);
    let shared = Shared { threads, ready: AtomicU32::new(0), begin: OnceLock::new(), cut: OnceLock::new() };
    let (to_control, from_workers) = mpsc::channel();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|k| {
                let (shared, to_control) = (&shared, to_control.clone());
                thread::Builder::new()
                    .name(format!("worker-{k}"))
                    .spawn_scoped(scope, move || worker(spec, k, shared, &to_control))
                    .map_err(|error| format!("a worker thread could not be started: {error}"))
            })
            .collect::<Result<_, _>>()
            .inspect_err(|_| {
                // The threads that did start must not wait for those that did not.
                let _ = shared.cut.set(Instant(0));
            })?;
        drop(to_control);
        let mut control = Control::new(spec, &shared, threads);
        control.follow(&from_workers, watch);
        let reports = workers
            .into_iter()
            .map(|w| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<Report>, String>>()?;
        Ok(control.finish(reports))
    })
}

/// What the workers of one load agree on.
struct Shared {
    threads: u32,
    ready: AtomicU32,
    begin: OnceLock<Instant>,
    cut: OnceLock<Instant>,
}

impl Shared {
    /// The common beginning, once every worker is ready. The last to become ready sets it.
    fn begin(&self) -> Option<Instant> {
        if self.ready.load(Ordering::Acquire) < self.threads {
            return None;
        }
        // Read once, by whoever is first: all workers count from the same instant.
        Some(*self.begin.get_or_init(|| sys::now().after(AHEAD_NS)))
    }
}

fn worker(
    spec: &Spec,
    k: u32,
    shared: &Shared,
    to: &mpsc::Sender<(u32, Interval)>,
) -> Result<Report, String> {
    let mut called_off = CallOff { shared, armed: true };
    let report = start_worker(spec, k, shared, to);
    called_off.armed = report.is_err();
    report
}

/// Calls the whole load off when a worker ends before it could begin: the others would wait for it for ever.
struct CallOff<'a> {
    shared: &'a Shared,
    armed: bool,
}

impl Drop for CallOff<'_> {
    fn drop(&mut self) {
        if self.armed {
            let _ = self.shared.cut.set(Instant(0));
        }
    }
}

fn start_worker(
    spec: &Spec,
    k: u32,
    shared: &Shared,
    to: &mpsc::Sender<(u32, Interval)>,
) -> Result<Report, String> {
    // Spread over the CPUs one by one; more workers than CPUs share them.
    let cpu = spec.cpus.get(k as usize % spec.cpus.len().max(1));
    if let Some(&cpu) = cpu {
        set_affinity(&[cpu]).map_err(|error| format!("a worker cannot run on CPU {cpu}: {error}"))?;
    }
    let config = config(spec, k, shared.threads);
    let no_driver = |error: io::Error| {
        format!("the {} driver cannot be used here: {error}; try `--driver epoll`", spec.driver.name())
    };
    match spec.driver {
        Kind::Uring => {
            let driver = Uring::new(spec.addr, config.connections).map_err(no_driver)?;
            Ok(drive(driver, config, k, shared, to))
        }
        Kind::Epoll => {
            let driver = Epoll::new(spec.addr, config.connections).map_err(no_driver)?;
            Ok(drive(driver, config, k, shared, to))
        }
    }
}

fn drive<D: Driver>(
    mut driver: D,
    config: Config,
    k: u32,
    shared: &Shared,
    to: &mpsc::Sender<(u32, Interval)>,
) -> Report {
    let mut worker = Worker::new(config);
    let mut counted = false;
    let begin = || {
        if !std::mem::replace(&mut counted, true) {
            shared.ready.fetch_add(1, Ordering::AcqRel);
        }
        shared.begin()
    };
    let stop = || shared.cut.get().map_or(Stop::No, |&at| Stop::At(at));
    dyno_engine::run(&mut worker, &mut driver, begin, stop, |interval| {
        // The control thread lives as long as the workers do.
        let _ = to.send((k, interval));
    });
    worker.report()
}

/// The share of worker `k` of `of`.
fn config(spec: &Spec, k: u32, of: u32) -> Config {
    let share = |whole: u64| whole / u64::from(of) + u64::from(u64::from(k) < whole % u64::from(of));
    Config {
        connections: share(u64::from(spec.step.connections)) as u32,
        pipeline: spec.step.pipeline,
        schedule: Schedule::new(
            spec.step.arrivals,
            spec.seed,
            Stripe { worker: u64::from(k), of: u64::from(of) },
        ),
        total: spec.total.map(share),
        request: spec.request.clone(),
        expect: spec.expect.clone(),
        timeout_ns: spec.timeout_ns,
        connect_timeout_ns: spec.connect_timeout_ns,
        requests_per_connection: spec.requests_per_connection,
        window: spec.window,
    }
}

/// The control thread's half: merges intervals, takes samples on time, ends the load early if asked.
struct Control<'a> {
    spec: &'a Spec,
    shared: &'a Shared,
    merged: Vec<Interval>,
    /// Up to where each worker has reported, nanoseconds since the load began.
    progress: Vec<u64>,
    told: usize,
    samples: Vec<Sample>,
    next_sample_ns: Option<u64>,
    failure: Option<String>,
    cut_short: bool,
}

impl<'a> Control<'a> {
    fn new(spec: &'a Spec, shared: &'a Shared, threads: u32) -> Self {
        Control {
            spec,
            shared,
            merged: Vec::new(),
            progress: vec![0; threads as usize],
            told: 0,
            samples: Vec::new(),
            next_sample_ns: Some(0),
            failure: None,
            cut_short: false,
        }
    }

    fn follow(&mut self, from: &mpsc::Receiver<(u32, Interval)>, watch: &mut dyn Watch) {
        loop {
            match from.recv_timeout(self.until_next_sample()) {
                Ok((k, interval)) => self.merge(k, &interval, watch),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            self.sample_if_due(watch);
            if self.shared.cut.get().is_none()
                && let Some(reason) = watch.stop()
            {
                let _ = self.shared.cut.set(sys::now().after(AHEAD_NS));
                match reason {
                    Reason::Asked => self.cut_short = true,
                    Reason::ServerFailed(words) => self.failure = Some(words),
                }
            }
        }
    }

    fn since_begin(&self) -> Option<u64> {
        self.shared.begin.get().map(|begin| sys::now().0.saturating_sub(begin.0))
    }

    fn until_next_sample(&self) -> Duration {
        match (self.shared.begin.get(), self.next_sample_ns) {
            (Some(begin), Some(at)) => {
                let wait = begin.after(at).since(sys::now());
                Duration::from_nanos(wait).min(GLANCE)
            }
            _ => GLANCE,
        }
    }

    fn sample_if_due(&mut self, watch: &mut dyn Watch) {
        let (Some(now), Some(due)) = (self.since_begin(), self.next_sample_ns) else { return };
        let begun = self.shared.begin.get().is_some_and(|begin| sys::now() >= *begin);
        if !begun || now < due {
            return;
        }
        let opens = self.spec.window.warmup_ns;
        let closes = self.spec.window.duration_ns.map(|d| opens + d);
        let edge = if due < opens {
            Edge::Warmup
        } else if due == opens {
            Edge::Opens
        } else if Some(due) == closes {
            Edge::Closes
        } else {
            Edge::Within
        };
        // The counters are read at the edge; the sample keeps the instant at which that really was.
        self.samples.extend(watch.sample(edge));
        let next = due + self.spec.window.interval_ns;
        let ends_phase = if due < opens { Some(opens) } else { closes };
        self.next_sample_ns = match edge {
            Edge::Closes => None,
            _ => Some(ends_phase.map_or(next, |end| next.min(end))),
        };
    }

    fn merge(&mut self, k: u32, interval: &Interval, watch: &mut dyn Watch) {
        let same = |i: &&mut Interval| (i.phase, i.start_ns) == (interval.phase, interval.start_ns);
        match self.merged.iter_mut().find(same) {
            Some(known) => known.merge(interval),
            None => self.merged.push(interval.clone()),
        }
        // Whoever drains has nothing more to say of the window, and the others are not to wait for it.
        self.progress[k as usize] = if interval.phase == Phase::Drain { u64::MAX } else { interval.end_ns };
        let reported = self.progress.iter().copied().min().unwrap_or(0);
        while let Some(next) = self.merged.get(self.told).filter(|i| i.end_ns <= reported) {
            watch.interval(next);
            self.told += 1;
        }
    }

    fn finish(mut self, reports: Vec<Report>) -> TrialRecord {
        self.merged.sort_by_key(|i| (i.start_ns, i.phase));
        let mut record = TrialRecord {
            trial: 0,
            start: 0,
            began_ns: self.shared.begin.get().map_or(0, |b| b.0),
            window_ns: (0, 0),
            books: Books::default(),
            connections: Connections::default(),
            tcp: None,
            client: ClientUse {
                threads: Vec::new(),
                rss_peak_bytes: dyno_observer::proc::own_rss_peak_bytes(),
                driver: self.spec.driver.name().into(),
            },
            intervals: self.merged,
            residence_ns: 0,
            unanswered: Times::new(),
            protocol_errors: std::collections::BTreeMap::new(),
            samples: self.samples,
            checks: Vec::new(),
            subject_failure: self.failure,
            cut_short: self.cut_short,
        };
        reports.into_iter().for_each(|report| add_report(&mut record, report));
        record
    }
}

fn add_report(record: &mut TrialRecord, report: Report) {
    record.window_ns.0 = record.window_ns.0.max(report.window_ns.0);
    record.window_ns.1 = record.window_ns.1.max(report.window_ns.1);
    record.books.add(&report.books);
    record.connections.add(&report.connections);
    if let Some(tcp) = &report.tcp {
        record.tcp.get_or_insert_default().add(tcp);
    }
    record.client.threads.push(report.cpu);
    record.residence_ns += report.residence_ns;
    record.unanswered.add(&report.unanswered);
    for (name, n) in report.protocol_errors {
        *record.protocol_errors.entry(name).or_default() += n;
    }
}
