//! A simulated machine: its clock is virtual, its loads are simulated, and its servers behave as a
//! test describes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use dyno_archive::drops::PathUse;
use dyno_archive::plan::Plan;
use dyno_archive::profile::ProfileRecord;
use dyno_archive::start::{Canary, Failure, FailureKind, NewFiles, PartStart, Startup, StopRecord};
use dyno_archive::trial::CheckResult;
use dyno_archive::{LoadRecord, Party, Protocol, Sample, StartRecord};
use dyno_contract::listener::Listener;
use dyno_engine::sim::{Queue, ServerModel, ServiceTime, World};
use dyno_launch::network::Network;
use dyno_launch::tool::CommandError;
use dyno_observer::cgroup::OomKills;
use dyno_runner::load::{LoadSpec, SimulatedLoad, simulate};
use dyno_runner::run::{
    CheckDepth, DropWatch, Host, Launched, MeasuredTrial, Part, RequiredListeners, RunEvent,
    TrialLoad,
};

/// Length of every action except a load.
const ACTION_NS: u64 = 1_000_000;

/// Exit status 9, as wait(2) encodes it.
const STATUS_9: i32 = 9 << 8;

/// A server of the machine. The default server has no faults.
#[derive(Clone, Debug)]
pub struct Server {
    pub service_ns: u64,
    pub protocols: Vec<Protocol>,
    /// Number of loads of a start after which the server's process has exited.
    pub exits_in_load: Option<usize>,
    /// Number of loads of a start after which its check fails.
    pub is_wrong_after: Option<usize>,
    /// Protocols over which its check fails.
    pub wrong_protocols: Vec<Protocol>,
    /// Why it does not become ready.
    pub never_ready: Option<&'static str>,
    pub is_built: bool,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            service_ns: 1_000_000,
            protocols: vec![Protocol::H1],
            exits_in_load: None,
            is_wrong_after: None,
            wrong_protocols: Vec::new(),
            never_ready: None,
            is_built: true,
        }
    }
}

/// The machine. `servers`: by name of the subject or back end.
pub struct SimulatedHost<'a> {
    plan: &'a Plan,
    servers: BTreeMap<&'static str, Server>,
    clock_ns: Cell<u64>,
}

impl<'a> SimulatedHost<'a> {
    /// Returns a machine whose clock is a second after `last_ns`.
    pub fn new(
        plan: &'a Plan,
        servers: &[(&'static str, Server)],
        last_ns: u64,
    ) -> SimulatedHost<'a> {
        let servers = servers.iter().cloned().collect();
        SimulatedHost { plan, servers, clock_ns: Cell::new(last_ns + 1_000_000_000) }
    }

    fn advance(&self, ns: u64) {
        self.clock_ns.set(self.clock_ns.get() + ns);
    }

    /// Simulates a load from now to its end.
    fn simulate(
        &self,
        spec: &LoadSpec,
        launched: &Launched<'_, SimulatedPart>,
    ) -> Result<LoadRecord, String> {
        let subject = &*launched.subject;
        let service = ServiceTime::Fixed { ns: subject.server.service_ns };
        let model = ServerModel::new(service, Queue::PerConnection);
        let world = |worker: u32| World::new(spec.seed + u64::from(worker), model.clone());
        let began_ns = self.now_ns();
        let mut counters = |at_ns: u64, _| Some(Sample { at_ns, ..Sample::default() });
        let load =
            SimulatedLoad { spec, world: &world, early_end: None, read_counters: &mut counters };
        let mut record = simulate(load, began_ns)?;
        self.advance(spec.load.warmup_ns + spec.load.duration_ns + ACTION_NS);
        subject.loads.set(subject.loads.get() + 1);
        if subject.server.exits_in_load.is_some_and(|load| subject.loads.get() > load) {
            subject.has_exited.set(true);
            record.server_failure = Some("its process ended with exit status: 9 under load".into());
        }
        Ok(record)
    }
}

impl Host for SimulatedHost<'_> {
    type Part = SimulatedPart;

    fn now_ns(&self) -> u64 {
        self.clock_ns.get()
    }

    fn rest(&self, length: Duration) {
        self.advance(length.as_nanos() as u64);
    }

    fn has_built(&self, subject: usize) -> bool {
        self.servers[self.plan.subjects[subject].name.as_str()].is_built
    }

    fn watch_drops(&self) -> DropWatch {
        DropWatch::with_counters(PathUse::default)
    }

    fn network(&self, _: usize) -> io::Result<Network> {
        Ok(Network::Machine)
    }

    fn canary(&self, _: u32) -> Option<Canary> {
        None
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
        _: &[SimulatedPart],
        _: &Network,
        _: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<SimulatedPart, Failure> {
        let record = start.parts.last_mut().expect("the part should be recorded");
        let server = self.servers[record.name.as_str()].clone();
        self.advance(ACTION_NS);
        if let Some(message) = server.never_ready {
            return Err(Failure { kind: FailureKind::NeverReady, message: message.into() });
        }
        record.startup = Some(Startup {
            listening_ns: Some(ACTION_NS),
            first_response_ns: Some(ACTION_NS),
            ready_ns: ACTION_NS,
            cpu_ns: None,
        });
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
        let listener = |protocol| Listener { addr, protocol, authority: None };
        Ok(SimulatedPart {
            party: record.party,
            name: record.name.clone(),
            listeners: server.protocols.iter().copied().map(listener).collect(),
            server,
            loads: Cell::new(0),
            has_exited: Cell::new(false),
        })
    }

    fn check_lifecycle(
        &self,
        _: &StartRecord,
        _: &[SimulatedPart],
        _: &Network,
        _: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Vec<CheckResult>, Failure> {
        Ok(Vec::new())
    }

    fn inspect(&self, _: &mut PartStart, _: &mut Launched<'_, SimulatedPart>) {}

    fn load(
        &self,
        spec: &LoadSpec,
        launched: &mut Launched<'_, SimulatedPart>,
    ) -> Result<LoadRecord, String> {
        self.simulate(spec, launched)
    }

    fn measure_probe_price(
        &self,
        _: usize,
        _: &LoadSpec,
        _: &mut PartStart,
        _: &Launched<'_, SimulatedPart>,
    ) {
    }

    fn measure(
        &self,
        trials: &mut [TrialLoad<'_, SimulatedPart>],
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Vec<MeasuredTrial>, String> {
        let [trial] = trials else {
            return Err("the simulated machine runs one load at a time".into());
        };
        let load = self.simulate(&trial.spec, &trial.launched)?;
        for interval in &load.intervals {
            on_event(RunEvent::Interval { trial: trial.trial, interval });
        }
        Ok(vec![MeasuredTrial { load, checks: Vec::new() }])
    }

    fn profile(
        &self,
        trial: usize,
        _: &LoadSpec,
        _: &Launched<'_, SimulatedPart>,
    ) -> ProfileRecord {
        let failure = Some("the simulated machine takes no profiles".into());
        ProfileRecord { trial, failure, ..ProfileRecord::default() }
    }

    fn stop(&self, _: usize, part: SimulatedPart) -> Option<StopRecord> {
        self.advance(ACTION_NS);
        (!part.has_exited.get()).then_some(StopRecord { took_ns: ACTION_NS, killed: false })
    }

    fn remains(&self, _: usize) -> Option<String> {
        None
    }
}

/// A running part of the machine.
pub struct SimulatedPart {
    party: Party,
    name: String,
    listeners: Vec<Listener>,
    server: Server,
    /// Number of loads of this start.
    loads: Cell<usize>,
    has_exited: Cell<bool>,
}

impl Part for SimulatedPart {
    fn party(&self) -> Party {
        self.party
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn listener(&self, protocol: Protocol) -> Option<&Listener> {
        self.listeners.iter().find(|listener| listener.protocol == protocol)
    }

    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.has_exited.get().then(|| ExitStatus::from_raw(STATUS_9))
    }

    fn wait_for_exit(&mut self) -> Option<ExitStatus> {
        self.exit_status()
    }

    fn oom_kills(&self) -> OomKills {
        OomKills { count: 0, is_limit_reached: false }
    }

    fn log_tail(&self) -> String {
        String::new()
    }

    fn check(&self, is_ended: &dyn Fn() -> bool) -> Option<Vec<CheckResult>> {
        if is_ended() {
            return None;
        }
        let has_broken = self.server.is_wrong_after.is_some_and(|loads| self.loads.get() >= loads);
        let check = |listener: &Listener| {
            let protocol = listener.protocol;
            let ok = !has_broken && !self.server.wrong_protocols.contains(&protocol);
            CheckResult {
                name: "greeting".into(),
                protocol,
                ok,
                has_response: true,
                waived: false,
                is_lifecycle: false,
                asked: "GET /".into(),
                expected: "status 200".into(),
                got: if ok { "200".into() } else { "500".into() },
            }
        };
        Some(self.listeners.iter().map(check).collect())
    }

    fn check_alive(&self, _: RequiredListeners) -> io::Result<()> {
        match self.has_exited.get() {
            true => Err(io::ErrorKind::ConnectionRefused.into()),
            false => Ok(()),
        }
    }

    fn silence(&self, _: CheckDepth) -> Option<Failure> {
        None
    }

    fn other_listener(&self) -> Option<Failure> {
        None
    }

    fn reset(&self) -> Result<(), CommandError> {
        Ok(())
    }
}
