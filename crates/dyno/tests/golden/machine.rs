//! A simulated machine, defined by `world.toml`: its servers, their response times, and their CPU
//! time per response. It plans a suite, runs its loads with the runner's own control, and returns
//! the run as an archive holds it.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use dyno_contract::listener::Listener;
use dyno_engine::sim::{Fault, Queue, ServerModel, ServiceTime, Sessions, World};
use dyno_lab::load::{LoadSpec, LoadTarget, SimulatedLoad, simulate};
use dyno_lab::load_at;
use dyno_model::load::TlsUse;
use dyno_model::plan::{Build, DriverKind, Launch, Plan, Subject};
use dyno_model::run::{Run, RunHeader, SCHEMA};
use dyno_model::start::{Failure, FailureKind, PartStart, StartRecord, Startup, StopRecord};
use dyno_model::trial::CheckResult;
use dyno_model::{LoadRecord, Party, Protocol, RunId, Sample, TrialRecord};
use dyno_subject::definition::Definition;
use dyno_subject::definition::find::Folders;
use dyno_suite::file::SuiteFile;
use dyno_suite::machine::RunMachine;
use dyno_suite::plan::{Overrides, Planned, resolve};
use dyno_testkit::resource_use::{self, ServerCosts};
use serde::Deserialize;

const MS: u64 = 1_000_000;
/// Begin of each load on the clock of samples.
const BEGAN_NS: u64 = 5_000 * MS;

/// The machine, and the required content of its report.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub shows: Shows,
    subjects: BTreeMap<String, Server>,
}

/// The exact set of expected values.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shows {
    /// Codes of caveats above `info`, of the run and of trials.
    pub caveats: Vec<String>,
    /// Limiters of steps.
    pub limiters: Vec<String>,
    pub invalid_trials: usize,
}

/// A server of the machine. Times are on average.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    /// Its `subject.toml`, without the name.
    definition: toml::Table,
    /// Why the machine cannot run the server.
    unmet: Option<String>,
    build: Option<Built>,
    build_fails: Option<String>,
    #[serde(default)]
    service_us: f64,
    /// Whether every request takes the same time. Otherwise times are exponential.
    #[serde(default)]
    steady: bool,
    /// Whether one request is served at a time. Otherwise connections and streams are independent.
    #[serde(default)]
    one_at_a_time: bool,
    /// Faults with their probability per request.
    #[serde(default)]
    faults: BTreeMap<String, f64>,
    max_streams: Option<u32>,
    /// Requests need a session, and every so many-th session has no token.
    session_lacks: Option<u64>,
    /// CPU time of each response.
    #[serde(default)]
    cpu_us: f64,
    #[serde(default)]
    memory_mib: u64,
    #[serde(default)]
    startup_ms: u64,
    fails: Option<Fails>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Built {
    wall_ms: u64,
    cpu_ms: u64,
    bytes: u64,
}

/// Whether its process exits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fails {
    /// Counted from 0.
    block: u32,
    /// Number of trials of that start before the failure.
    after: usize,
    kind: FailureKind,
    message: String,
    log: String,
}

impl Machine {
    pub fn read(path: &Path) -> Machine {
        let text = fs::read_to_string(path).unwrap();
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Plans the suite in a folder, and runs the plan.
    pub fn run(&self, folder: &Path) -> Run {
        let plan = self.plan(&folder.join("suite.toml"));
        let starts =
            (0..plan.launches.len()).filter_map(|launch| self.start(&plan, launch)).collect();
        let trials = (0..plan.trials.len()).filter_map(|trial| self.trial(&plan, trial)).collect();
        let header = RunHeader {
            schema: SCHEMA.into(),
            id: format!("{}-20260102-030405", plan.suite.name),
            run_id: RunId::from_bits(1, 2),
            started: "2026-01-02T03:04:05Z".into(),
            command: vec!["dyno".into(), "run".into(), "suite.toml".into()],
            plan,
            facts: resource_use::facts(),
            resumptions: Vec::new(),
        };
        Run {
            header,
            starts,
            trials,
            profiles: Vec::new(),
            searches: Vec::new(),
            contaminated: Vec::new(),
        }
    }

    fn plan(&self, suite: &Path) -> Plan {
        let subjects = tempfile::tempdir().unwrap();
        for (name, server) in &self.subjects {
            let mut definition = server.definition.clone();
            definition.insert("name".into(), name.clone().into());
            let folder = subjects.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("subject.toml"), definition.to_string()).unwrap();
        }
        let unmet = |subject: &Definition| self.subjects[&subject.name].unmet.clone();
        let file = SuiteFile::read(suite, &[], 2).unwrap_or_else(|error| panic!("{error}"));
        let Planned { mut plan, .. } = resolve(
            file,
            &Folders(vec![subjects.path().into()]),
            &Overrides::default(),
            &RunMachine { cpus: vec![0, 1], driver: DriverKind::Uring, seed: 0 },
            &unmet,
        )
        .unwrap();
        plan.subjects_folders = vec!["subjects".into()];
        plan.suite.path = "suite.toml".into();
        for planned in &mut plan.subjects {
            let server = &self.subjects[&planned.name];
            planned.version = Some(format!("{} 1.0", planned.name));
            planned.build = server.build.as_ref().map(Built::to_record);
            planned.build_failed.clone_from(&server.build_fails);
            // The fingerprint depends on file modes, which differ between checkouts.
            planned.definition = Some("0".repeat(64));
        }
        plan
    }

    fn server(&self, plan: &Plan, launch: &Launch) -> &Server {
        &self.subjects[&plan.subject_of(launch.arms[0]).name]
    }

    /// Returns the record of a start. `None`: the subject is not started on this machine.
    fn start(&self, plan: &Plan, launch: usize) -> Option<StartRecord> {
        let planned = &plan.launches[launch];
        if !takes_part(plan.subject_of(planned.arms[0])) {
            return None;
        }
        let server = self.server(plan, planned);
        let fails = server.fails.as_ref().filter(|fails| fails.block == planned.block);
        let listening_ns = (server.startup_ms + u64::from(planned.block)) * MS;
        Some(StartRecord {
            canary: None,
            began_ns: None,
            ended_ns: None,
            dropped_load_ns: None,
            start: launch,
            launch,
            resumed: false,
            parts: vec![PartStart {
                pid: Some(2),
                startup: Some(Startup {
                    listening_ns: Some(listening_ns),
                    first_response_ns: Some(listening_ns + MS),
                    ready_ns: listening_ns + MS,
                    cpu_ns: Some(listening_ns / 2),
                    strays: 0,
                }),
                warmup: None,
                checks_before: vec![passed_check()],
                checks_after: if fails.is_some() { Vec::new() } else { vec![passed_check()] },
                limits: Vec::new(),
                environment: BTreeMap::new(),
                stop: Some(StopRecord { took_ns: MS, killed: false }),
                log_tail: fails.map(|fails| fails.log.clone()),
                ..PartStart::new(Party::SUBJECT, plan.arms[planned.arms[0]].name.clone())
            }],
            failure: fails
                .map(|fails| Failure { kind: fails.kind, message: fails.message.clone() }),
        })
    }

    /// Returns the record of a trial. `None`: the server has exited before it.
    fn trial(&self, plan: &Plan, trial: usize) -> Option<TrialRecord> {
        let launch_index = plan.trials[trial].launch;
        let launch = &plan.launches[launch_index];
        if !takes_part(plan.subject_of(launch.arms[0])) {
            return None;
        }
        let server = self.server(plan, launch);
        let before =
            plan.trials[..trial].iter().filter(|other| other.launch == launch_index).count();
        let fails = server.fails.as_ref().filter(|fails| fails.block == launch.block);
        if fails.is_some_and(|fails| before > fails.after) {
            return None;
        }
        let mut load = load(&load_at::trial(&listener(plan, trial), plan, trial).unwrap(), server);
        let is_last = fails.is_some_and(|fails| before == fails.after);
        load.server_failure = fails.filter(|_| is_last).map(|fails| fails.message.clone());
        Some(TrialRecord {
            trial,
            start: launch_index,
            load,
            checks: vec![passed_check()],
            ceiling: None,
        })
    }
}

impl Built {
    fn to_record(&self) -> Build {
        Build {
            wall_ns: self.wall_ms * MS,
            cpu_ns: Some(self.cpu_ms * MS),
            artefact_bytes: self.bytes,
            inputs: "0".repeat(64),
            portable_inputs: "0".repeat(64),
            ..Build::default()
        }
    }
}

impl Server {
    fn model(&self) -> ServerModel {
        let service = if self.steady {
            ServiceTime::Fixed { ns: (self.service_us * 1e3) as u64 }
        } else {
            ServiceTime::Exponential { mean_ns: self.service_us * 1e3 }
        };
        let queue = if self.one_at_a_time { Queue::Single } else { Queue::PerConnection };
        let faults = self.faults.iter().map(|(name, odds)| (fault(name), *odds)).collect();
        let sessions =
            self.session_lacks.map_or(Sessions::None, |lacks| Sessions::Required { lacks });
        let max_streams = self.max_streams;
        ServerModel { faults, max_streams, sessions, ..ServerModel::new(service, queue) }
    }

    fn costs(&self) -> ServerCosts {
        ServerCosts { cpu_us: self.cpu_us, memory_mib: self.memory_mib, ..ServerCosts::default() }
    }
}

fn fault(name: &str) -> Fault {
    match name {
        "status" => Fault::Status,
        "body" => Fault::Body,
        "reset" => Fault::Reset,
        "silence" => Fault::Silence,
        "stream_reset" => Fault::StreamReset,
        other => panic!("no world has the fault {other:?} yet"),
    }
}

fn listener(plan: &Plan, trial: usize) -> Listener {
    let protocol = plan.workloads[plan.trials[trial].workload].protocol;
    Listener { addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)), protocol, authority: None }
}

/// Loads a server of the machine. TLS takes no time: connections only report that they use it.
fn load(spec: &LoadSpec, server: &Server) -> LoadRecord {
    let protocol = match spec.target.protocol {
        Protocol::H1Tls => Protocol::H1,
        Protocol::H2 => Protocol::H2c,
        other => other,
    };
    let world = |worker: u32| World::new(spec.seed + u64::from(worker), server.model());
    let mut instants = |at_ns: u64, _| Some(Sample { at_ns, ..Sample::default() });
    let target = LoadTarget { protocol, tls: None, ..spec.target.clone() };
    let plain = SimulatedLoad {
        spec: &LoadSpec { target, ..spec.clone() },
        world: &world,
        early_end: None,
        read_counters: &mut instants,
    };
    let mut record = simulate(plain, BEGAN_NS).unwrap();
    resource_use::add(&mut record, &[(Party::SUBJECT, server.costs())]);
    record.tls = spec.target.protocol.is_tls().then(|| TlsUse {
        version: Some("TLSv1.3".into()),
        cipher_suite: Some("TLS13_AES_128_GCM_SHA256".into()),
        alpn: spec.target.protocol.is_h2().then(|| "h2".into()),
        handshakes_full: record.connections.established,
        ..TlsUse::default()
    });
    record
}

fn takes_part(subject: &Subject) -> bool {
    subject.skipped.is_none() && subject.build_failed.is_none()
}

fn passed_check() -> CheckResult {
    super::right("plaintext", "200")
}
