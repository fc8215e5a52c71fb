//! Servers of the simulated machine: how they respond, what they use, and when they misbehave.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::rc::Rc;

use dyno_contract::listener::Listener;
use dyno_engine::sim::{Fault, Queue, ServiceTime};
use dyno_lab::run::{CheckDepth, Part, RequiredListeners};
use dyno_launch::supervision::Interrupts;
use dyno_launch::tool::CommandError;
use dyno_model::start::{Failure, FailureKind};
use dyno_model::trial::CheckResult;
use dyno_model::{Party, Protocol};
use dyno_observer::cgroup::OomKills;
use dyno_testkit::resource_use::ServerCosts;

/// Exit status 9, as wait(2) encodes it.
const STATUS_9: i32 = 9 << 8;

/// A server of the machine. The default server has no faults.
#[derive(Clone, Debug)]
pub struct Server {
    pub service: ServiceTime,
    pub queue: Queue,
    pub costs: ServerCosts,
    pub protocols: Vec<Protocol>,
    /// Protocols over which its check fails.
    pub wrong_protocols: Vec<Protocol>,
    /// Whether its definition waives the check.
    pub is_waived: bool,
    /// Protocols over which it responds with bytes that are not HTTP.
    pub unsupported_protocols: Vec<Protocol>,
    /// Faults of its responses, with their probabilities.
    pub faults: Vec<(Fault, f64)>,
    /// Whether the machine refuses every connection to it.
    pub is_closed: bool,
    pub trouble: Option<Trouble>,
    /// Why it does not become ready.
    pub never_ready: Option<&'static str>,
    /// Number of resets of its data during which the user presses Ctrl-C.
    pub interrupted_resets: usize,
    /// Result of the check of its lifecycle. `None`: its contract has no such check.
    pub lifecycle: Option<LifecycleResult>,
    pub is_built: bool,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            service: ServiceTime::Fixed { ns: 1_000_000 },
            queue: Queue::PerConnection,
            costs: ServerCosts { cpu_us: 50.0, memory_mib: 20, ..ServerCosts::default() },
            protocols: vec![Protocol::H1],
            wrong_protocols: Vec::new(),
            is_waived: false,
            unsupported_protocols: Vec::new(),
            faults: Vec::new(),
            is_closed: false,
            trouble: None,
            never_ready: None,
            interrupted_resets: 0,
            lifecycle: None,
            is_built: true,
        }
    }
}

impl Server {
    /// Returns a server whose requests take this time, and as much CPU time.
    pub fn with_work_us(us: u32) -> Server {
        Server {
            service: ServiceTime::Fixed { ns: u64::from(us) * 1000 },
            queue: Queue::Single,
            costs: ServerCosts { cpu_us: f64::from(us), ..Server::default().costs },
            ..Server::default()
        }
    }

    pub fn with_trouble(kind: TroubleKind, after_loads: usize) -> Server {
        let trouble = Trouble { kind, start: None, after_loads };
        Server { trouble: Some(trouble), ..Server::default() }
    }
}

/// Result of the check that a server stops when it gets the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleResult {
    Passed,
    Failed,
    /// Nothing was in flight when the server got the signal.
    None,
}

/// The misbehaviour of a server from some load on.
#[derive(Clone, Copy, Debug)]
pub struct Trouble {
    pub kind: TroubleKind,
    /// Start of the server, counted from 0. `None`: each start.
    pub start: Option<usize>,
    /// Number of loads of the start before the trouble begins.
    pub after_loads: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// The process exits with status 9, this long after the next load begins.
    Exits { at_ns: u64 },
    /// The process runs, but does not respond, from this time after the next load begins.
    Deaf { at_ns: u64 },
    /// The process has exited with status 9 before the next load.
    HasExited,
    /// The process does not respond, as only a back end's own check shows.
    Silent,
    /// The user presses Ctrl-C while dyno checks whether the back end responds.
    Interrupted,
    /// Responses to the check are incorrect.
    FailsCheck,
    /// All responses have an incorrect body.
    WrongBodies,
    /// The process pauses in the next load, from a time after it begins.
    Pauses { at_ns: u64, for_ns: u64 },
}

/// Actions on parts, in the order of time.
pub type Journal = Rc<RefCell<Vec<String>>>;

/// A running part of the machine.
pub struct SimulatedPart<'a> {
    pub interrupts: &'a Interrupts,
    pub party: Party,
    pub name: String,
    pub listeners: Vec<Listener>,
    pub server: Server,
    /// Number of earlier starts of the server.
    pub number: usize,
    /// Number of loads of this start.
    pub loads: Cell<usize>,
    /// Number of requests that this start has served.
    pub served: Cell<u64>,
    pub has_exited: Cell<bool>,
    pub journal: Journal,
}

impl SimulatedPart<'_> {
    /// Returns the trouble of the next load, or of a check before it.
    pub fn trouble(&self) -> Option<TroubleKind> {
        let trouble = self.server.trouble?;
        let is_here = trouble.start.is_none_or(|start| start == self.number);
        (is_here && self.loads.get() >= trouble.after_loads).then_some(trouble.kind)
    }

    /// Whether the trouble began in an earlier load.
    pub fn has_been_troubled(&self) -> bool {
        self.server.trouble.is_some_and(|trouble| self.loads.get() > trouble.after_loads)
    }

    pub fn is_deaf(&self) -> bool {
        self.has_been_troubled() && matches!(self.trouble(), Some(TroubleKind::Deaf { .. }))
    }

    /// Whether the process has exited.
    fn is_gone(&self) -> bool {
        self.has_exited.get() || self.trouble() == Some(TroubleKind::HasExited)
    }

    /// Returns the result of the check over a protocol.
    pub fn check_over(&self, protocol: Protocol) -> CheckResult {
        let is_silent = self.is_deaf();
        let is_wrong =
            matches!(self.trouble(), Some(TroubleKind::FailsCheck | TroubleKind::WrongBodies))
                || self.server.wrong_protocols.contains(&protocol);
        let got = match (is_silent, is_wrong) {
            (true, _) => "no response in time; on a second try: no response in time",
            (false, true) => "500",
            (false, false) => "200",
        };
        CheckResult {
            name: "greeting".into(),
            protocol,
            ok: !is_silent && !is_wrong,
            has_response: true,
            waived: self.server.is_waived,
            is_lifecycle: false,
            asked: "GET /".into(),
            expected: "status 200".into(),
            got: got.into(),
        }
    }
}

impl Part for SimulatedPart<'_> {
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
        self.is_gone().then(|| ExitStatus::from_raw(STATUS_9))
    }

    fn wait_for_exit(&mut self) -> Option<ExitStatus> {
        self.exit_status()
    }

    fn oom_kills(&self) -> OomKills {
        OomKills { count: 0, is_limit_reached: false }
    }

    fn log_tail(&self) -> String {
        if self.is_gone() { "out of luck".into() } else { String::new() }
    }

    fn check(&self, is_ended: &dyn Fn() -> bool) -> Option<Vec<CheckResult>> {
        if is_ended() {
            return None;
        }
        let protocols = self.listeners.iter().map(|listener| listener.protocol);
        Some(protocols.map(|protocol| self.check_over(protocol)).collect())
    }

    fn check_alive(&self, _: RequiredListeners) -> io::Result<()> {
        match (self.is_gone(), self.is_deaf()) {
            (true, _) => Err(io::ErrorKind::ConnectionRefused.into()),
            (false, true) => Err(io::Error::new(io::ErrorKind::TimedOut, "no response in time")),
            (false, false) => Ok(()),
        }
    }

    fn silence(&self, _: CheckDepth) -> Option<Failure> {
        let silent = |reason: &str| {
            let message = format!("does not respond: {reason}");
            Some(Failure { kind: FailureKind::BackendFailed, message })
        };
        match self.trouble() {
            Some(TroubleKind::Silent) => silent("no response in time"),
            Some(TroubleKind::Interrupted) => {
                self.interrupts.raise();
                let message = "the user ended the run".into();
                Some(Failure { kind: FailureKind::Interrupted, message })
            }
            _ => silent(&self.check_alive(RequiredListeners::All).err()?.to_string()),
        }
    }

    fn other_listener(&self) -> Option<Failure> {
        None
    }

    fn reset(&self) -> Result<(), CommandError> {
        self.journal.borrow_mut().push(format!("reset {}", self.name));
        let resets =
            self.journal.borrow().iter().filter(|action| action.starts_with("reset")).count();
        if resets <= self.server.interrupted_resets {
            self.interrupts.raise();
            return Err(CommandError::Interrupted);
        }
        Ok(())
    }
}
