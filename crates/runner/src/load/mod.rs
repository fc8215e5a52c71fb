//! One load: worker threads with a driver each, their intervals merged, and a watcher on the same clock.
//!
//! `agent` runs the workers, `control` merges what they send, `record` is what is left, and here is who drives
//! them by a real clock; `simulated` drives them by a simulated one.

mod agent;
mod control;
mod preflight;
mod record;
mod simulated;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use dyno_archive::plan::{self, Arrivals, DriverKind, Step};
use dyno_archive::{Interval, Sample, TrialRecord};
use dyno_contract::tls::TlsOptions;
use dyno_driver::{Endpoint, sys};
use dyno_engine::{Http2, Instant, Policy, Protocol, Report, Spin, Stop, Traffic, Window};

use crate::ground;
use crate::limits::{AHEAD_NS, GLANCE};
use agent::{Shared, worker};
use control::Control;
use record::{Driven, assemble};

pub use preflight::{Mismatch, preflight};
pub use simulated::{Look, simulate};

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
    preflight::check(spec)?;
    let threads = spec.threads.clamp(1, spec.step.connections);
    let shared = Shared::new(threads);
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
                shared.end(Stop::At(Instant(0)));
            })?;
        drop(to_control);
        let mut follower = Follower::new(spec, &shared, ground);
        follower.follow(&from_workers, watch);
        let reports = workers
            .into_iter()
            .map(|w| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<Report>, String>>()?;
        Ok(follower.finish(reports))
    })
}

/// Drives the control by the clock: takes samples on time, and ends the load early if asked.
struct Follower<'a> {
    driver: DriverKind,
    shared: &'a Shared,
    control: Control,
    ground: ground::Watch,
    failure: Option<String>,
    cut_short: bool,
}

impl<'a> Follower<'a> {
    fn new(spec: &Spec, shared: &'a Shared, ground: ground::Watch) -> Self {
        Follower {
            driver: spec.driver,
            shared,
            control: Control::new(spec.window, shared.threads()),
            ground,
            failure: None,
            cut_short: false,
        }
    }

    fn follow(&mut self, from: &mpsc::Receiver<(u32, Interval)>, watch: &mut dyn Watch) {
        loop {
            match from.recv_timeout(self.until_next_sample()) {
                Ok((k, interval)) => self.control.merge(k, &interval, |merged| watch.interval(merged)),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            self.sample_if_due(watch);
            // Asked even after the end was decided: whoever watches also shows things then.
            if let Some(reason) = watch.stop()
                // Ahead of now, so that all workers learn of it in time.
                && self.shared.end(Stop::Now(sys::now().after(AHEAD_NS)))
            {
                match reason {
                    // In the drain there is nothing left to cut but the drain.
                    Reason::Asked => self.cut_short = !self.is_window_over(),
                    Reason::ServerFailed(words) => self.failure = Some(words),
                }
            }
        }
    }

    fn is_window_over(&self) -> bool {
        self.since_begin().is_some_and(|since| self.control.is_window_over(since))
    }

    /// `None`: it has not begun.
    fn since_begin(&self) -> Option<u64> {
        // Read as it is asked: whether something is due, and what is over, are questions of the present.
        let now = sys::now();
        self.shared.begun().filter(|begin| now >= *begin).map(|begin| now.since(begin))
    }

    fn until_next_sample(&self) -> Duration {
        match (self.shared.begun(), self.control.next_sample()) {
            (Some(begin), Some((at, _))) => {
                let wait = begin.after(at).since(sys::now());
                Duration::from_nanos(wait).min(GLANCE)
            }
            _ => GLANCE,
        }
    }

    fn sample_if_due(&mut self, watch: &mut dyn Watch) {
        let (Some(now), Some((due, edge))) = (self.since_begin(), self.control.next_sample()) else { return };
        if now < due {
            return;
        }
        match edge {
            Edge::Opens => self.ground.open(),
            Edge::Closes => self.ground.close(),
            Edge::Warmup | Edge::Within => {}
        }
        // The counters are read at the edge; the sample keeps the instant at which that really was.
        self.control.sampled(watch.sample(edge));
    }

    fn finish(self, reports: Vec<Report>) -> TrialRecord {
        let driven = Driven {
            began_ns: self.shared.begun().map_or(0, |begin| begin.0),
            driver: self.driver,
            rss_peak_bytes: dyno_observer::proc::own_rss_peak_bytes(),
            ground: self.ground.finish(),
            failure: self.failure,
            cut_short: self.cut_short,
        };
        assemble(driven, self.control.finish(), reports)
    }
}
