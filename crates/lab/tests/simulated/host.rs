//! A simulated machine: its clock is virtual, its loads are simulated, and its servers behave as a
//! test describes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use dyno_contract::listener::Listener;
use dyno_engine::sim::{Fault, Pause, ServerModel, ServiceTime, World};
use dyno_lab::load::{
    EarlyEnd, LoadSpec, LoadStopReason, Sharing, SimulatedLoad, exchange_server_use,
    simulate_together,
};
use dyno_lab::run::{DropWatch, Host, Launched, MeasuredTrial, RunEvent, TrialLoad};
use dyno_launch::network::Network;
use dyno_launch::supervision::Interrupts;
use dyno_model::drops::PathUse;
use dyno_model::machine::{MachineUse, OtherUse};
use dyno_model::plan::Plan;
use dyno_model::profile::ProfileRecord;
use dyno_model::sample::NetworkUse;
use dyno_model::start::{
    Canary, CanaryPiece, Failure, FailureKind, NewFiles, PartStart, Startup, StopRecord,
};
use dyno_model::tracking::TrackingUse;
use dyno_model::trial::CheckResult;
use dyno_model::{Interval, LoadRecord, Party, Protocol, Sample, StartRecord};
use dyno_testkit::resource_use::{self, ServerCosts};

use crate::server::{Journal, LifecycleResult, Server, SimulatedPart, TroubleKind};

/// Length of every action except a load.
const ACTION_NS: u64 = 1_000_000;

/// Begin of a load on the clock of its world: the connections open in a round trip of 20 µs.
const LOAD_BEGINS_NS: u64 = 1_020_000;

/// A pause that outlasts every load.
const FOREVER_NS: u64 = 1 << 60;

/// Failure of a load whose server exits.
const EXITED: &str = "its process ended with exit status: 9 under load";

/// Events of the machine that its servers do not cause.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Instants at which the user presses Ctrl-C.
    pub interrupts_ns: Vec<u64>,
    /// Measurements, counted from 0, in which another program uses half of a CPU.
    pub disturbed: Range<usize>,
    /// Whether the kernel drops three packets in each start and load, because its table of tracked
    /// connections is full.
    pub drops_packets: bool,
}

/// Returns the counters of a machine whose table of tracked connections is full.
fn full_table(dropped: u64) -> PathUse {
    let tracking = TrackingUse { entries: 64, dropped: Some(dropped), ..TrackingUse::default() };
    let network = NetworkUse { tracking: Some(tracking), ..NetworkUse::default() };
    PathUse { network: Some(network), max_tracking_entries: Some(64), ..PathUse::default() }
}

/// Reads the counters of a machine that has dropped three packets since the last reading.
fn read_growing_drops() -> PathUse {
    thread_local! {
        static DROPPED: Cell<u64> = const { Cell::new(0) };
    }
    DROPPED.set(DROPPED.get() + 3);
    full_table(DROPPED.get())
}

/// The machine.
pub struct SimulatedHost<'a> {
    pub plan: &'a Plan,
    /// By name of the arm or back end, or the end of the name. Others have no faults.
    servers: BTreeMap<&'static str, Server>,
    surroundings: Surroundings,
    interrupts: &'a Interrupts,
    clock_ns: Cell<u64>,
    measurements: Cell<usize>,
    /// Number of starts of each server.
    starts: RefCell<BTreeMap<String, usize>>,
    pub journal: Journal,
}

impl<'a> SimulatedHost<'a> {
    /// Returns a machine whose clock is a second after `last_ns`.
    pub fn new(
        plan: &'a Plan,
        servers: &[(&'static str, Server)],
        surroundings: &Surroundings,
        interrupts: &'a Interrupts,
        last_ns: u64,
    ) -> SimulatedHost<'a> {
        SimulatedHost {
            plan,
            servers: servers.iter().cloned().collect(),
            surroundings: surroundings.clone(),
            interrupts,
            clock_ns: Cell::new(last_ns + 1_000_000_000),
            measurements: Cell::new(0),
            starts: RefCell::default(),
            journal: Journal::default(),
        }
    }

    fn server(&self, name: &str) -> Server {
        let named = self.servers.iter().filter(|(end, _)| name.ends_with(**end));
        let longest = named.max_by_key(|(end, _)| end.len());
        longest.map_or_else(Server::default, |(_, server)| server.clone())
    }

    fn advance(&self, ns: u64) {
        let before_ns = self.clock_ns.get();
        let passed = before_ns + 1..=before_ns + ns;
        self.clock_ns.set(before_ns + ns);
        for _ in self.surroundings.interrupts_ns.iter().filter(|at_ns| passed.contains(at_ns)) {
            self.interrupts.raise();
        }
    }

    fn note(&self, action: &str, name: &str) {
        self.journal.borrow_mut().push(format!("{action} {name}"));
    }

    /// Returns the early end of a load that begins now. `None`: the load runs to its end.
    fn early_end(
        &self,
        spec: &LoadSpec,
        launched: &Launched<'_, SimulatedPart<'_>>,
    ) -> Option<EarlyEnd> {
        let length_ns = spec.load.warmup_ns + spec.load.duration_ns;
        let exit = |part: &SimulatedPart<'_>, message: String| match part.trouble() {
            Some(TroubleKind::Exits { at_ns }) => {
                Some(EarlyEnd { at_ns, reason: LoadStopReason::ServerFailed(message) })
            }
            _ => None,
        };
        let of_backend = |part: &SimulatedPart<'_>| {
            let name = &part.name;
            exit(part, format!("its back end {name} ended with exit status: 9 under load"))
        };
        let interrupt = |at_ns: &u64| {
            let at_ns = at_ns.checked_sub(self.now_ns())?;
            Some(EarlyEnd { at_ns, reason: LoadStopReason::Stopped })
        };
        let of_subject = exit(launched.subject, EXITED.into());
        let of_backends = launched.backends.iter().filter_map(of_backend);
        let of_user = self.surroundings.interrupts_ns.iter().filter_map(interrupt);
        let all = of_subject.into_iter().chain(of_backends).chain(of_user);
        all.filter(|end| end.at_ns < length_ns).min_by_key(|end| end.at_ns)
    }

    /// Simulates loads that begin now, each with its early end. If one load ends early, all loads
    /// end.
    fn simulate(
        &self,
        loads: &[(&LoadSpec, &Launched<'_, SimulatedPart<'_>>)],
        early_ends: &[Option<EarlyEnd>],
    ) -> Result<Vec<LoadRecord>, String> {
        let worlds: Vec<_> = loads
            .iter()
            .zip(early_ends)
            .map(|((spec, launched), end)| {
                let subject = &*launched.subject;
                let model = subject.model(spec, end.as_ref());
                move |worker: u32| {
                    let mut world = World::new(spec.seed + u64::from(worker), model.clone());
                    world.net.refuse = f64::from(u8::from(subject.server.is_closed));
                    world
                }
            })
            .collect();
        let mut readers =
            vec![|at_ns: u64, _| Some(Sample { at_ns, ..Sample::default() }); loads.len()];
        let simulated = loads.iter().zip(&worlds).zip(early_ends).zip(&mut readers).map(
            |((((spec, _), world), early_end), read_counters)| SimulatedLoad {
                spec,
                world,
                early_end: early_end.as_ref(),
                read_counters,
            },
        );
        let mut records = simulate_together(simulated.collect(), self.now_ns())?;
        for ((spec, launched), record) in loads.iter().zip(&mut records) {
            Self::add_use(record, spec, launched);
        }
        Ok(records)
    }

    /// Adds the resource use of the servers to the record of a load.
    fn add_use(
        record: &mut LoadRecord,
        spec: &LoadSpec,
        launched: &Launched<'_, SimulatedPart<'_>>,
    ) {
        let subject = &*launched.subject;
        let parts = launched.backends.iter().chain([subject]);
        let costs = parts.map(|part| {
            let loads = if part.party == Party::SUBJECT { concurrent_loads(spec) } else { 1 };
            let cpu_us = part.server.costs.cpu_us * loads as f64;
            (part.party, ServerCosts { pid: part.pid(), cpu_us, ..part.server.costs.clone() })
        });
        resource_use::add(record, &costs.collect::<Vec<_>>());
        let responses: u64 = record.intervals.iter().map(Interval::responses).sum();
        subject.served.set(subject.served.get() + responses);
    }

    /// Notes that a load has ended.
    fn after_load(launched: &Launched<'_, SimulatedPart<'_>>, early_end: Option<&EarlyEnd>) {
        for part in launched.backends.iter().chain([&*launched.subject]) {
            let has_failed = early_end.is_some_and(|end| end.reason != LoadStopReason::Stopped);
            if has_failed && matches!(part.trouble(), Some(TroubleKind::Exits { .. })) {
                part.has_exited.set(true);
            }
            part.loads.set(part.loads.get() + 1);
        }
    }

    /// Records the other program that used the machine during a load.
    fn disturb(record: &mut LoadRecord) {
        let length_ns = record.window_ns.1;
        let other = OtherUse { pid: 900, name: "burner".into(), run_ns: length_ns / 2 };
        record.client.machine = Some(MachineUse {
            length_ns,
            everywhere: Some(vec![other]),
            everywhere_ns: Some(length_ns),
            ..MachineUse::default()
        });
    }
}

impl SimulatedPart<'_> {
    fn pid(&self) -> u32 {
        match self.party {
            Party::Backend(index) => 100 + index as u32,
            _ => 10 + u32::from(self.listeners[0].addr.port() - 8080),
        }
    }

    /// Returns the server's behaviour in a load.
    fn model(&self, spec: &LoadSpec, early_end: Option<&EarlyEnd>) -> ServerModel {
        let loads = concurrent_loads(spec);
        let service = match self.server.service {
            // Servers that are loaded at the same time share the CPUs.
            ServiceTime::Fixed { ns } => ServiceTime::Fixed { ns: ns * loads },
            ServiceTime::Warming { cold_ns, warm_ns, requests, .. } => {
                ServiceTime::Warming { cold_ns, warm_ns, requests, served: self.served.get() }
            }
            other => other,
        };
        let has_failed = |end: &&EarlyEnd| end.reason != LoadStopReason::Stopped;
        let pause = match self.trouble() {
            Some(TroubleKind::Deaf { .. }) if self.is_deaf() => Some((0, FOREVER_NS)),
            Some(TroubleKind::Deaf { at_ns }) => Some((at_ns, FOREVER_NS)),
            Some(TroubleKind::Pauses { at_ns, for_ns }) if !self.has_been_troubled() => {
                Some((at_ns, for_ns))
            }
            _ => early_end.filter(has_failed).map(|end| (end.at_ns, FOREVER_NS)),
        };
        let pauses = pause.map(|(at_ns, for_ns)| Pause { at_ns: LOAD_BEGINS_NS + at_ns, for_ns });
        let faults = match self.trouble() {
            _ if self.server.unsupported_protocols.contains(&spec.target.protocol) => {
                vec![(Fault::Garbage, 1.0)]
            }
            Some(TroubleKind::WrongBodies) => vec![(Fault::Body, 1.0)],
            _ => self.server.faults.clone(),
        };
        ServerModel {
            pauses: pauses.into_iter().collect(),
            faults,
            ..ServerModel::new(service, self.server.queue)
        }
    }
}

impl<'a> Host for SimulatedHost<'a> {
    type Part = SimulatedPart<'a>;

    fn now_ns(&self) -> u64 {
        self.clock_ns.get()
    }

    fn rest(&self, length: Duration) {
        self.advance(length.as_nanos() as u64);
    }

    fn has_built(&self, subject: usize) -> bool {
        let subject = &self.plan.subjects[subject];
        subject.skipped.is_none() && self.server(&subject.name).is_built
    }

    fn watch_drops(&self) -> DropWatch {
        DropWatch::with_counters(match self.surroundings.drops_packets {
            true => read_growing_drops,
            false => PathUse::default,
        })
    }

    fn network(&self, _: usize) -> io::Result<Network> {
        Ok(Network::Machine)
    }

    fn canary(&self, _: u32) -> Option<Canary> {
        self.advance(ACTION_NS);
        let piece = CanaryPiece { wall_ns: ACTION_NS / 5, cpu_ns: ACTION_NS / 5 };
        Some(Canary { steps: 1000, pieces: vec![piece; 5] })
    }

    fn bind(&self, _: &[u32]) -> io::Result<()> {
        Ok(())
    }

    fn check_files(&self, _: usize, _: Party) -> Result<Option<NewFiles>, Failure> {
        Ok(None)
    }

    fn start_part(
        &self,
        start: &mut StartRecord,
        _: &[SimulatedPart<'a>],
        _: &Network,
        _: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<SimulatedPart<'a>, Failure> {
        let port = 8080 + start.launch as u16;
        let record = start.parts.last_mut().expect("the part should be recorded");
        let server = self.server(&record.name);
        self.advance(ACTION_NS);
        self.note("start", &record.name);
        let mut starts = self.starts.borrow_mut();
        let count = starts.entry(record.name.clone()).or_default();
        let number = *count;
        *count += 1;
        if let Some(message) = server.never_ready {
            return Err(Failure { kind: FailureKind::NeverReady, message: message.into() });
        }
        record.startup = Some(Startup {
            listening_ns: Some(ACTION_NS),
            first_response_ns: Some(ACTION_NS),
            ready_ns: ACTION_NS,
            cpu_ns: None,
            strays: 0,
        });
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = |protocol: Protocol| Listener { addr, protocol, authority: None };
        let part = SimulatedPart {
            interrupts: self.interrupts,
            party: record.party,
            name: record.name.clone(),
            listeners: server.protocols.iter().copied().map(listener).collect(),
            server,
            number,
            loads: Cell::new(0),
            served: Cell::new(0),
            has_exited: Cell::new(false),
            journal: self.journal.clone(),
        };
        record.pid = Some(part.pid());
        Ok(part)
    }

    fn check_lifecycle(
        &self,
        start: &StartRecord,
        _: &[SimulatedPart<'a>],
        _: &Network,
        _: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Vec<CheckResult>, Failure> {
        let record = start.subject().expect("the subject should be recorded");
        let server = self.server(&record.name);
        let Some(result) = server.lifecycle else { return Ok(Vec::new()) };
        let ok = result == LifecycleResult::Passed;
        self.note("rehearse", &record.name);
        Ok(vec![CheckResult {
            name: "stops".into(),
            protocol: Protocol::H1,
            ok,
            has_response: result != LifecycleResult::None,
            waived: server.is_waived,
            is_lifecycle: true,
            asked: "SIGTERM".into(),
            expected: "the server ends by itself within 3 s".into(),
            got: if ok { "the server exited".into() } else { "the server still ran".into() },
        }])
    }

    fn inspect(&self, _: &mut PartStart, _: &mut Launched<'_, SimulatedPart<'a>>) {}

    fn load(
        &self,
        spec: &LoadSpec,
        launched: &mut Launched<'_, SimulatedPart<'a>>,
    ) -> Result<LoadRecord, String> {
        let ends = [self.early_end(spec, launched)];
        let record = self.simulate(&[(spec, launched)], &ends)?.remove(0);
        Self::after_load(launched, ends[0].as_ref());
        self.advance(length_ns(&record) + ACTION_NS);
        Ok(record)
    }

    fn measure_probe_price(
        &self,
        _: usize,
        _: &LoadSpec,
        _: &mut PartStart,
        _: &Launched<'_, SimulatedPart<'a>>,
    ) {
    }

    fn measure(
        &self,
        trials: &mut [TrialLoad<'_, SimulatedPart<'a>>],
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Vec<MeasuredTrial>, String> {
        let own_ends: Vec<Option<EarlyEnd>> =
            trials.iter().map(|trial| self.early_end(&trial.spec, &trial.launched)).collect();
        // The first end ends all loads, so later ends do not happen.
        let first_ns = own_ends.iter().flatten().map(|end| end.at_ns).min();
        let is_first = |end: &EarlyEnd| Some(end.at_ns) == first_ns;
        let ends: Vec<_> = own_ends.into_iter().map(|end| end.filter(is_first)).collect();
        let check_over = |trial: &TrialLoad<'_, SimulatedPart<'_>>| {
            vec![trial.launched.subject.check_over(trial.spec.target.protocol)]
        };
        let checks: Vec<_> = trials.iter().map(check_over).collect();
        let loads: Vec<_> = trials.iter().map(|trial| (&trial.spec, &trial.launched)).collect();
        let mut records = self.simulate(&loads, &ends)?;
        for (trial, end) in trials.iter().zip(&ends) {
            Self::after_load(&trial.launched, end.as_ref());
        }
        exchange_server_use(&mut records);
        if self.surroundings.disturbed.contains(&self.measurements.get()) {
            records.iter_mut().for_each(Self::disturb);
        }
        if self.surroundings.drops_packets {
            for record in &mut records {
                let machine = record.client.machine.get_or_insert_default();
                machine.length_ns = record.window_ns.1;
                machine.path = Some(full_table(3));
            }
        }
        self.measurements.set(self.measurements.get() + 1);
        for (trial, load) in trials.iter().zip(&records) {
            for interval in &load.intervals {
                on_event(RunEvent::Interval { trial: trial.trial, interval });
            }
        }
        self.advance(records.iter().map(length_ns).max().unwrap_or(0) + ACTION_NS);
        let measured = records.into_iter().zip(checks);
        Ok(measured.map(|(load, checks)| MeasuredTrial { load, checks }).collect())
    }

    fn profile(
        &self,
        trial: usize,
        _: &LoadSpec,
        _: &Launched<'_, SimulatedPart<'a>>,
    ) -> ProfileRecord {
        let failure = Some("the simulated machine takes no profiles".into());
        ProfileRecord { trial, failure, ..ProfileRecord::default() }
    }

    fn stop(&self, _: usize, part: SimulatedPart<'a>) -> Option<StopRecord> {
        self.advance(ACTION_NS);
        self.note("stop", &part.name);
        (!part.has_exited.get()).then_some(StopRecord { took_ns: ACTION_NS, killed: false })
    }

    fn remains(&self, _: usize) -> Option<String> {
        None
    }
}

/// Returns the time from the begin of a load to the end of its drain.
fn length_ns(record: &LoadRecord) -> u64 {
    record.intervals.last().map_or(0, |last| last.end_ns)
}

/// Returns the number of loads that run at the same time on the same CPUs.
fn concurrent_loads(spec: &LoadSpec) -> u64 {
    match spec.sharing {
        Sharing::Together { loads } => loads.into(),
        Sharing::Alone | Sharing::Turns { .. } => 1,
    }
}
