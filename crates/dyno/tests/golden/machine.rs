//! A simulated machine, defined by `world.toml`: its servers, their response times, and their CPU
//! time per response. It plans a suite, runs its loads with the runner's own control, and returns
//! the run as an archive holds it.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use dyno_archive::dir::{Run, RunHeader, SCHEMA};
use dyno_archive::facts::CgroupVersion;
use dyno_archive::host::HostUse;
use dyno_archive::load::TlsUse;
use dyno_archive::plan::{Build, Launch, Plan, Subject};
use dyno_archive::sample::{
    CallUse, CallsUse, CgroupUse, Party, PartyUse, SchedulerRecord, StateTimes, ThreadUse,
};
use dyno_archive::start::{Failure, FailureKind, PartStart, StartRecord, Startup, StopRecord};
use dyno_archive::trial::CheckResult;
use dyno_archive::{Facts, LoadRecord, Protocol, RunId, Sample, TrialRecord};
use dyno_contract::listener::Listener;
use dyno_engine::sim::{Fault, Queue, ServerModel, ServiceTime, World};
use dyno_runner::load::{LoadSpec, LoadTarget, SimulatedLoad, simulate};
use dyno_runner::load_at;
use dyno_runner::plan::{Overrides, Planned, resolve};
use dyno_runner::suite::SuiteFile;
use dyno_subject::definition::Definition;
use dyno_subject::definition::find::Folders;
use serde::Deserialize;

const MS: u64 = 1_000_000;
/// Begin of each load on the clock of samples.
const BEGAN_NS: u64 = 5_000 * MS;
/// CPU time of the generator for each request.
const GENERATOR_NS: u64 = 1_500;

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
            facts: facts(),
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
            &[0, 1],
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
        ServerModel { faults, max_streams: self.max_streams, ..ServerModel::new(service, queue) }
    }

    /// Returns a sample of the server's resource use after this number of responses.
    fn sample(&self, at_ns: u64, responses: u64) -> Sample {
        let cpu_ns = (responses as f64 * self.cpu_us * 1e3) as u64;
        let generator_ns = responses * GENERATOR_NS;
        let thread = |name: &str, run_ns: u64| ThreadUse {
            pid: 2,
            tid: 2,
            began_ticks: None,
            name: name.into(),
            run_ns,
            user_ns: run_ns / 4,
            sys_ns: run_ns - run_ns / 4,
            run_delay_ns: Some(run_ns / 100),
            switches_voluntary: Some(responses),
            switches_involuntary: Some(responses / 100),
            faults_minor: Some(responses / 50),
            faults_major: Some(0),
            seen: Some(scheduler_record(at_ns - BEGAN_NS, run_ns, responses)),
        };
        Sample {
            at_ns,
            took_ns: MS / 10,
            co_runners: None,
            parties: vec![
                PartyUse {
                    cgroup: Some(CgroupUse {
                        cpu_ns: Some(cpu_ns),
                        cpu_user_ns: Some(cpu_ns / 4),
                        cpu_sys_ns: Some(cpu_ns - cpu_ns / 4),
                        throttled_ns: Some(0),
                        memory_bytes: Some((self.memory_mib + 1) << 20),
                        memory_peak_bytes: Some((self.memory_mib + 2) << 20),
                        memory_anon_bytes: Some(self.memory_mib << 20),
                        memory_file_bytes: Some(1 << 20),
                        memory_kernel_bytes: Some(300 << 10),
                        ..CgroupUse::default()
                    }),
                    threads: vec![thread("server", cpu_ns)],
                    processes: 1,
                    rss_bytes: Some((self.memory_mib + 2) << 20),
                    calls: Some(calls(at_ns - BEGAN_NS, responses)),
                    ended: Some(Vec::new()),
                    ..PartyUse::empty(Party::SUBJECT)
                },
                PartyUse {
                    threads: vec![thread("worker-0", generator_ns)],
                    ..PartyUse::empty(Party::GENERATOR)
                },
            ],
            host: Some(HostUse {
                busy_ns: cpu_ns + generator_ns,
                idle_ns: (2 * (at_ns - BEGAN_NS)).saturating_sub(cpu_ns + generator_ns),
                steal_ns: 0,
                context_switches: 2 * responses,
                ..HostUse::default()
            }),
        }
    }
}

/// Returns the scheduler record of a thread that ran for this time and waited for peers otherwise.
fn scheduler_record(lived_ns: u64, running_ns: u64, wakeups: u64) -> SchedulerRecord {
    let runnable_ns = running_ns / 100;
    let network_ns = lived_ns.saturating_sub(running_ns + runnable_ns);
    let states = StateTimes { running_ns, runnable_ns, network_ns, ..StateTimes::default() };
    SchedulerRecord { states, wakeups, migrations: 0, modes: None }
}

/// Returns system calls: a read and a write per response, and a wait per four responses.
fn calls(counted_ns: u64, responses: u64) -> CallsUse {
    let call = |count, each| CallUse { count, returned: Some(count * each), ..CallUse::default() };
    let calls = [
        ("read", call(responses, 60)),
        ("writev", call(responses, 150)),
        ("epoll_wait", call(responses / 4, 4)),
    ];
    CallsUse {
        counted_ns,
        slices: counted_ns / (100 * MS),
        responses: Some(responses),
        by_name: calls.map(|(name, call)| (name.to_string(), call)).into(),
        ..CallsUse::default()
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
    let answers_by = |at_ns: u64| -> u64 {
        let ended = record.intervals.iter().filter(|i| BEGAN_NS + i.end_ns <= at_ns);
        ended
            .flat_map(|i| i.outcomes.iter())
            .filter(|(outcome, _)| outcome.is_completed())
            .map(|(_, n)| n)
            .sum()
    };
    record.samples =
        record.samples.iter().map(|s| server.sample(s.at_ns, answers_by(s.at_ns))).collect();
    let run_ns = |sample: &Sample| sample.party_use(Party::GENERATOR).unwrap().threads[0].run_ns;
    let (first, last) = (record.samples.first().unwrap(), record.samples.last().unwrap());
    let generator_ns = run_ns(last) - run_ns(first);
    record.client.threads = vec![ThreadUse {
        run_ns: generator_ns,
        user_ns: generator_ns / 5,
        sys_ns: generator_ns - generator_ns / 5,
        ..ThreadUse::default()
    }];
    record.client.rss_peak_bytes = Some(8 << 20);
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

pub fn facts() -> Facts {
    Facts {
        cpu_model: Some("Simulated CPU".into()),
        cpus: 2,
        online_cpus: Some(2),
        memory_bytes: Some(1 << 30),
        kernel: Some("6.0.0-sim".into()),
        cgroup: CgroupVersion::V2,
        tick_accounting: Some(false),
        dyno_version: "0.0.0".into(),
        ..Facts::default()
    }
}
