//! One load: worker threads with a driver each, their intervals merged, and a watcher on the same clock.

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use dyno_archive::plan::{self, Arrivals, DriverKind, Step};
use dyno_archive::trial::{Books, ClientUse, Connections, Edges, Unanswered};
use dyno_archive::{Interval, Outcome, Phase, Sample, TrialRecord};
use dyno_driver::{Endpoint, Epoll, Peer, Uring, sys};
use dyno_engine::schedule::Stripe;
use dyno_engine::{
    Config, Draws, Driver, Http2, Instant, Policy, Protocol, Report, Schedule, Spin, Stop, Traffic, Window,
    Worker,
};

use crate::ground;
use crate::launch::sys::{raise_open_files, set_affinity};
use crate::limits::{AHEAD_NS, GLANCE, INTERVALS, OTHER_FILES, SAMPLES};
use crate::tls::TlsOptions;

/// What to load, how, and for how long.
#[derive(Clone, Debug)]
pub struct Spec {
    pub endpoint: Endpoint,
    /// The traffic is a page, and so many connections load one together; the step's connections are visitors.
    pub page_connections: Option<u32>,
    pub protocol: Protocol,
    pub http2: Http2,
    pub traffic: Arc<Traffic>,
    /// Of how many answers one is checked in full; 1: every one, 0: none.
    pub check_one_in: u64,
    pub step: Step,
    /// Instants of a recorded schedule, nanoseconds; empty unless the step asks for one.
    pub trace: Arc<[u64]>,
    pub seed: u64,
    /// Requests in all; `None`: as many as the window allows.
    pub total: Option<u64>,
    pub policy: Policy,
    /// `None`: plain connections.
    pub tls: Option<TlsOptions>,
    pub spin: Spin,
    pub window: Window,
    /// Worker threads; never more than connections.
    pub threads: u32,
    pub driver: DriverKind,
    /// CPUs of the worker threads; empty: any.
    pub cpus: Vec<u32>,
}

impl Spec {
    /// Connections in all.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.step.connections.saturating_mul(self.page_connections.unwrap_or(1))
    }

    /// What was asked, in the words of a plan; `spin` as it was asked.
    #[must_use]
    pub fn planned(&self, spin: plan::Spin) -> plan::Load {
        plan::Load {
            warmup_ns: self.window.warmup_ns,
            until_steady: None,
            duration_ns: self.window.duration_ns.unwrap_or(0),
            interval_ns: self.window.interval_ns,
            timeout_ns: self.policy.timeout_ns,
            first_byte_timeout_ns: self.policy.first_byte_timeout_ns,
            connect_timeout_ns: self.policy.connect_timeout_ns,
            requests_per_connection: self.policy.requests_per_connection,
            ramp_connections_ns: self.policy.ramp_ns,
            check_one_in: self.check_one_in,
            spin,
            threads: self.threads,
            driver: self.driver,
            http2: self.http2,
            steps: vec![self.step.clone()],
        }
    }
}

/// What polling comes to for one load that asks for it so.
#[must_use]
pub fn polling(asked: plan::Spin, arrivals: &Arrivals, has_own_cpus: bool) -> Spin {
    match asked {
        plan::Spin::Always => Spin::Always,
        plan::Spin::Auto if !arrivals.is_closed() && has_own_cpus => Spin::Near,
        plan::Spin::Auto | plan::Spin::Never => Spin::Never,
    }
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
    check_open_files(spec)?;
    check_sources(spec)?;
    check_ports(spec)?;
    let threads = spec.threads.clamp(1, spec.step.connections);
    let shared = Shared { threads, ready: AtomicU32::new(0), begin: OnceLock::new(), cut: OnceLock::new() };
    let ground = ground::Watch::new(&spec.cpus);
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
                let _ = shared.cut.set(Stop::At(Instant(0)));
            })?;
        drop(to_control);
        let mut control = Control::new(spec, &shared, threads, ground);
        control.follow(&from_workers, watch);
        let reports = workers
            .into_iter()
            .map(|w| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<Report>, String>>()?;
        Ok(control.finish(reports))
    })
}

/// Asks once for each request whose answers are only sampled under load, and checks the answer in full. `Err`: what
/// came is not what is expected, or nothing came; in words.
pub fn preflight(spec: &Spec) -> Result<(), Mismatch> {
    for (i, request) in spec.traffic.requests().iter().enumerate() {
        if request.expect.deep.is_empty() {
            continue;
        }
        let once = Spec {
            traffic: Arc::new(Traffic::one(request.clone()).sharing(spec.traffic.shared_bytes())),
            page_connections: None,
            check_one_in: 1,
            step: Step { connections: 1, streams: 1, pipeline: 1, arrivals: Arrivals::Closed },
            total: Some(1),
            policy: Policy { ramp_ns: None, ..spec.policy },
            spin: Spin::Never,
            window: Window { warmup_ns: 0, duration_ns: None, ..spec.window },
            threads: 1,
            ..spec.clone()
        };
        let record = run(&once, &mut Unwatched).map_err(|words| Mismatch { answered: false, words })?;
        let outcome = record.intervals.iter().flat_map(|i| i.outcomes.iter()).find(|(_, n)| *n > 0);
        let (outcome, why) = match outcome {
            Some((Outcome::Ok, _)) => continue,
            Some((outcome, _)) => (outcome.name(), record.unexpected.keys().next().map(String::as_str)),
            None => ("unanswered", None),
        };
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        let words = format!(
            "request {} was tried once before the load, and its answer is not as expected ({outcome}{why}); mend the server or the expectation",
            i + 1
        );
        return Err(Mismatch { answered: record.books.completed > 0, words });
    }
    Ok(())
}

/// Why a load is not worth beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// A whole answer came, and was not the right one.
    pub answered: bool,
    pub words: String,
}

/// Nobody looks.
struct Unwatched;

impl Watch for Unwatched {
    fn sample(&mut self, _: Edge) -> Option<Sample> {
        None
    }

    fn interval(&mut self, _: &Interval) {}

    fn stop(&mut self) -> Option<Reason> {
        None
    }
}

fn check_open_files(spec: &Spec) -> Result<(), String> {
    let limit = raise_open_files();
    let needed = u64::from(spec.connections()) + OTHER_FILES;
    if needed <= limit {
        return Ok(());
    }
    Err(format!(
        "{} connections need {needed} open files, and the limit is {limit}; raise it with `ulimit -n {needed}`, or ask for fewer connections",
        spec.connections()
    ))
}

/// Every address to connect from must be one of ours, and of the peer's kind.
fn check_sources(spec: &Spec) -> Result<(), String> {
    for source in &spec.endpoint.sources {
        if let Peer::Tcp(peer) = spec.endpoint.peer
            && peer.is_ipv4() != source.is_ipv4()
        {
            return Err(format!("from {source} nothing reaches {peer}: one is IPv4, the other IPv6"));
        }
        UdpSocket::bind((*source, 0)).map_err(|error| {
            format!(
                "{source} is no address of this machine to connect from ({error}); `ip address` lists them"
            )
        })?;
    }
    Ok(())
}

/// A connection needs a local port, and each local address has as many of them as the kernel's range holds.
fn check_ports(spec: &Spec) -> Result<(), String> {
    let Peer::Tcp(_) = spec.endpoint.peer else { return Ok(()) };
    let Some(ports) = dyno_observer::host::local_ports() else { return Ok(()) };
    let sources = spec.endpoint.sources.len().max(1) as u64;
    let asked = u64::from(spec.connections());
    if asked <= ports * sources {
        return Ok(());
    }
    Err(format!(
        "{asked} connections need as many local ports, and there are {}; widen net.ipv4.ip_local_port_range, or connect from {} addresses: `--source 127.0.0.1,127.0.0.2,…`",
        ports * sources,
        asked.div_ceil(ports)
    ))
}

/// What the workers of one load agree on.
struct Shared {
    threads: u32,
    ready: AtomicU32,
    begin: OnceLock<Instant>,
    /// Set once, by whoever is first.
    cut: OnceLock<Stop>,
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
            let _ = self.shared.cut.set(Stop::At(Instant(0)));
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
    let config = config(spec, k, shared.threads)?;
    let endpoint = endpoint(spec, k, shared.threads);
    let no_driver = |error: io::Error| {
        format!("the {} driver cannot be used here: {error}; try `--driver epoll`", spec.driver.name())
    };
    match spec.driver {
        DriverKind::Uring => {
            let driver = Uring::new(&endpoint, config.connections).map_err(no_driver)?;
            Ok(drive(driver, config, k, shared, to))
        }
        DriverKind::Epoll => {
            let driver = Epoll::new(&endpoint, config.connections).map_err(no_driver)?;
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
    let stop = || shared.cut.get().copied().unwrap_or(Stop::No);
    dyno_engine::run(&mut worker, &mut driver, begin, stop, |interval| {
        // The control thread lives as long as the workers do.
        let _ = to.send((k, interval));
    });
    worker.report()
}

/// The endpoint for worker `k` of `of`: its connections go on with the sources where those of the workers before it end.
fn endpoint(spec: &Spec, k: u32, of: u32) -> Endpoint {
    let mut endpoint = spec.endpoint.clone();
    let each = spec.page_connections.unwrap_or(1);
    let before = (0..k).map(|worker| share(u64::from(spec.step.connections), worker, of) as u32 * each);
    let before: u32 = before.sum();
    if !endpoint.sources.is_empty() {
        let start = before as usize % endpoint.sources.len();
        endpoint.sources.rotate_left(start);
    }
    endpoint
}

/// What worker `k` of `of` gets of a whole.
fn share(whole: u64, k: u32, of: u32) -> u64 {
    whole / u64::from(of) + u64::from(u64::from(k) < whole % u64::from(of))
}

/// The share of worker `k` of `of`.
fn config(spec: &Spec, k: u32, of: u32) -> Result<Config, String> {
    let share = |whole: u64| share(whole, k, of);
    let stripe = Stripe { worker: u64::from(k), of: u64::from(of) };
    Ok(Config {
        worker: k,
        connections: share(u64::from(spec.step.connections)) as u32 * spec.page_connections.unwrap_or(1),
        page_connections: spec.page_connections,
        protocol: spec.protocol,
        http2: spec.http2,
        pipeline: spec.step.pipeline,
        streams: spec.step.streams,
        schedule: Schedule::new(&spec.step.arrivals, &spec.trace, spec.seed, stripe),
        total: spec.total.map(share),
        traffic: spec.traffic.clone(),
        draws: Draws::new(spec.seed, stripe.worker, stripe.of),
        check_one_in: spec.check_one_in,
        policy: spec.policy,
        tls: spec.tls.as_ref().map(TlsOptions::configure).transpose()?,
        spin: spec.spin,
        window: spec.window,
    })
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
    /// Which of them was taken as the window opened.
    opened_with: Option<usize>,
    ground: ground::Watch,
    next_sample_ns: Option<u64>,
    failure: Option<String>,
    cut_short: bool,
}

impl<'a> Control<'a> {
    fn new(spec: &'a Spec, shared: &'a Shared, threads: u32, ground: ground::Watch) -> Self {
        Control {
            spec,
            shared,
            merged: Vec::new(),
            progress: vec![0; threads as usize],
            told: 0,
            samples: Vec::new(),
            opened_with: None,
            ground,
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
            // Asked even after the end was decided: whoever watches also shows things then.
            if let Some(reason) = watch.stop()
                && self.shared.cut.get().is_none()
            {
                // Ahead of now, so that all workers learn of it in time.
                let _ = self.shared.cut.set(Stop::Now(sys::now().after(AHEAD_NS)));
                match reason {
                    // In the drain there is nothing left to cut but the drain.
                    Reason::Asked => self.cut_short = !self.is_window_over(),
                    Reason::ServerFailed(words) => self.failure = Some(words),
                }
            }
        }
    }

    fn is_window_over(&self) -> bool {
        let planned_ns = self.spec.window.duration_ns.map(|d| d + self.spec.window.warmup_ns);
        planned_ns.zip(self.since_begin()).is_some_and(|(planned, since)| since >= planned)
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
        match edge {
            Edge::Opens => self.ground.open(),
            Edge::Closes => self.ground.close(),
            Edge::Warmup | Edge::Within => {}
        }
        // The counters are read at the edge; the sample keeps the instant at which that really was.
        self.samples.extend(watch.sample(edge));
        if edge == Edge::Opens {
            self.opened_with = self.samples.len().checked_sub(1);
        }
        self.thin_samples();
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
        self.make_room();
    }

    /// A load of any length needs constant memory: with too many intervals, those that everybody has reported are
    /// joined two by two.
    fn make_room(&mut self) {
        if self.told < INTERVALS {
            return;
        }
        let told: Vec<Interval> = self.merged.drain(..self.told).collect();
        let joined = join_pairs(told);
        self.told = joined.len();
        self.merged.splice(..0, joined);
    }

    /// Nor does the memory of samples grow with a load's length: of too many every second is left out, but for the one at which the
    /// window opened. They hold counters that only grow, so what is left out is in the next one.
    fn thin_samples(&mut self) {
        if self.samples.len() >= SAMPLES {
            self.opened_with = thin(&mut self.samples, self.opened_with);
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
                driver: self.spec.driver,
                ground: self.ground.finish(),
            },
            intervals: self.merged,
            edges: Some(Edges::default()),
            unanswered: Unanswered::default(),
            protocol_errors: BTreeMap::new(),
            tls: None,
            http2: None,
            unexpected: BTreeMap::new(),
            connection_failures: BTreeMap::new(),
            samples: self.samples,
            checks: Vec::new(),
            subject_failure: self.failure,
            cut_short: self.cut_short,
        };
        reports.into_iter().for_each(|report| add_report(&mut record, report));
        record
    }
}

/// Leaves out every second of `all` but for the first, the last and the one at `keep`, of which the new place is returned.
fn thin<T>(all: &mut Vec<T>, keep: Option<usize>) -> Option<usize> {
    let last = all.len().saturating_sub(1);
    let stays = |index: usize| index.is_multiple_of(2) || index == last || Some(index) == keep;
    let moved = keep.map(|keep| (0..keep).filter(|index| stays(*index)).count());
    let mut index = 0;
    all.retain(|_| {
        index += 1;
        stays(index - 1)
    });
    moved
}

/// Joins neighbours of the same phase, two by two.
fn join_pairs(intervals: Vec<Interval>) -> Vec<Interval> {
    let mut joined: Vec<Interval> = Vec::with_capacity(intervals.len() / 2 + 2);
    let mut single = false;
    for interval in intervals {
        match joined.last_mut().filter(|last| single && last.phase == interval.phase) {
            Some(last) => {
                last.extend(&interval);
                single = false;
            }
            None => {
                joined.push(interval);
                single = true;
            }
        }
    }
    joined
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
    record.edges.get_or_insert_default().add(&report.edges);
    record.unanswered.add(&report.unanswered);
    if let Some(tls) = &report.tls {
        record.tls.get_or_insert_default().add(tls);
    }
    if let Some(http2) = &report.http2 {
        record.http2.get_or_insert_default().add(http2);
    }
    add_kinds(&mut record.protocol_errors, report.protocol_errors);
    add_kinds(&mut record.unexpected, report.unexpected);
    add_kinds(&mut record.connection_failures, report.connection_failures);
}

fn add_kinds(to: &mut BTreeMap<String, u64>, from: BTreeMap<String, u64>) {
    for (name, n) in from {
        *to.entry(name).or_default() += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers come to their end apart, and the list of intervals is full just then.
    #[test]
    fn drains_that_overlap_are_joined() {
        const SECOND: u64 = 1_000_000_000;
        let interval = |phase, from_ms: u64, to_ms: u64, started| Interval {
            started,
            connections_open: started,
            ..Interval::new(phase, from_ms * SECOND / 1000, to_ms * SECOND / 1000)
        };
        let joined = join_pairs(vec![
            interval(Phase::Measured, 4000, 5000, 1),
            interval(Phase::Drain, 5000, 9000, 2),
            interval(Phase::Drain, 5100, 8000, 3),
            interval(Phase::Drain, 4900, 9500, 4),
            interval(Phase::Drain, 4800, 4850, 5),
        ]);
        let seen: Vec<_> = joined.iter().map(|i| (i.phase, i.start_ns, i.end_ns, i.started)).collect();
        let ms = |n: u64| n * SECOND / 1000;
        assert_eq!(
            seen,
            [
                (Phase::Measured, ms(4000), ms(5000), 1),
                (Phase::Drain, ms(5000), ms(9000), 5),
                (Phase::Drain, ms(4800), ms(9500), 9),
            ]
        );
        assert_eq!(joined.iter().map(|i| i.connections_open).collect::<Vec<_>>(), [1, 5, 9]);
    }

    #[test]
    fn thinning_keeps_both_ends_and_what_must_stay() {
        let mut all: Vec<u32> = (0..1024).collect();
        let mut keep = Some(301);
        while all.len() > 8 {
            keep = thin(&mut all, keep);
            assert_eq!((all.first(), all.last(), keep.map(|k| all[k])), (Some(&0), Some(&1023), Some(301)));
        }
        assert_eq!(thin(&mut Vec::<u32>::new(), None), None);
    }

    #[test]
    fn joining_keeps_every_count_and_the_phases() {
        let interval = |phase, second: u64| Interval {
            started: second,
            ..Interval::new(phase, second * 1_000_000_000, (second + 1) * 1_000_000_000)
        };
        let all: Vec<Interval> = (0..3)
            .map(|s| interval(Phase::Warmup, s))
            .chain((3..8).map(|s| interval(Phase::Measured, s)))
            .collect();
        let joined = join_pairs(all);
        let edges: Vec<_> = joined.iter().map(|i| (i.phase, i.start_ns / 1_000_000_000, i.started)).collect();
        assert_eq!(
            edges,
            [
                (Phase::Warmup, 0, 1),
                (Phase::Warmup, 2, 2),
                (Phase::Measured, 3, 7),
                (Phase::Measured, 5, 11),
                (Phase::Measured, 7, 7)
            ]
        );
    }
}
