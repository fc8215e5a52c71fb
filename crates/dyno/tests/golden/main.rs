//! Golden runs: a suite, a simulated world and a seed determine an archive, and the archive
//! determines the report. [`stored_output`] compares one run's report in every form, byte for byte,
//! and the [`summary`] of each other run. `UPDATE_GOLDEN=1 cargo test --workspace --test golden`
//! rewrites the stored output. With `-p dyno` alone, num-traits uses other mathematical functions,
//! whose results differ in the last digit.
//!
//! This module has the first golden run, whose plan and records are made by hand. [`worlds`] runs
//! suites in small worlds.

mod machine;
mod stored_output;
mod summary;
mod worlds;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Once};

use dyno_analysis::verdict::Resource;
use dyno_archive::RunDir;
use dyno_engine::schedule::Stripe;
use dyno_engine::sim::{self, Fault, Queue, ServerModel, ServiceTime, World};
use dyno_engine::{
    CompiledRequest, Draws, Expectation, Http2, Policy, Protocol, Schedule, SpinPolicy, Traffic,
    Window, WorkerConfig,
};
use dyno_model::host::HostUse;
use dyno_model::load::ClientUse;
use dyno_model::plan::{
    self, Arm, ArmSharing, Arrivals, Body, Conditions, Launch, Limits, Load, Marker, Order,
    Placement, Plan, ReportOptions, Request as PlannedRequest, Step, Subject, Suite, Trial,
    UntilSteady, Workload,
};
use dyno_model::probe::RequestedProbes;
use dyno_model::run::{Run, RunHeader, SCHEMA};
use dyno_model::runtime::RuntimeReading;
use dyno_model::sample::{
    CallUse, CallsUse, CgroupUse, Party, PartyUse, Sample, SchedulerRecord, StateTimes, ThreadUse,
};
use dyno_model::start::{
    Failure, FailureKind, PartStart, StartRecord, Startup, StopRecord, WarmUp, WarmUpEnd,
    WarmUpSlice,
};
use dyno_model::trial::CheckResult;
use dyno_model::{LoadRecord, Phase, RunId, TrialRecord};
use dyno_wire::h1::response::RequestKind;

const MS: u64 = 1_000_000;
const BEGAN_NS: u64 = 5_000 * MS;

fn golden(name: &str) -> PathBuf {
    stored_output::folder("hello").join(name)
}

const SEED: u64 = 7;

/// Returns a fast server, a slow one with errors, and one that cannot take part.
fn subjects() -> Vec<Subject> {
    let subject = |name: &str, title: &str| Subject {
        name: name.into(),
        title: title.into(),
        language: "Sim".into(),
        description: format!("{title} of the simulated world."),
        version: Some(format!("{name} 1.0")),
        ..Subject::default()
    };
    let mut absent = subject("absent", "Absent");
    absent.skipped = Some("unobtainium is missing. Dig deeper.".into());
    vec![subject("fast", "Fast <1>"), subject("slow", "Slow"), absent]
}

fn plan() -> Plan {
    let subjects = subjects();
    let launches: Vec<Launch> =
        (0..3).flat_map(|block| [1, 0, 2].map(|arm| Launch::with_arm(arm, block))).collect();
    let trials = (0..launches.len())
        .map(|launch| (launch, launches[launch].arms[0]))
        .filter(|(_, arm)| *arm < 2)
        .flat_map(|(launch, arm)| {
            (0..2).map(move |step| Trial { launch, arm, workload: 0, step, seed: 0 })
        })
        .enumerate()
        .map(|(number, trial)| Trial { seed: Trial::seed_of(SEED, number), ..trial })
        .collect();
    Plan {
        suite: Suite {
            name: "golden".into(),
            description: "Two servers of the simulated world, and one that is not there.".into(),
            source: "subjects = [\"fast\", \"slow\", \"absent\"]\n".into(),
            profiles: Vec::new(),
            path: "golden.toml".into(),
        },
        subjects_folders: vec!["subjects".into()],
        seed: SEED,
        repeats: 3,
        stop: None,
        again: 0,
        order: Order::Random,
        sharing: ArmSharing::Alone,
        swaps_cpus: false,
        experiment: None,
        arms: subjects.iter().enumerate().map(arm).collect(),
        subjects,
        workloads: vec![workload()],
        load: load(),
        search: None,
        measured_first: None,
        launches,
        trials,
        not_served: Vec::new(),
        backends: Vec::new(),
        files: Default::default(),
        import_changes: Vec::new(),
        report: ReportOptions {
            baseline: Some("slow".into()),
            markers: vec![Marker { connections: 8.0, label: "eight".into() }],
            objective: None,
        },
        cost: None,
        probe_price: false,
    }
}

fn workload() -> Workload {
    Workload {
        name: "plaintext".into(),
        protocol: Protocol::H1,
        page: None,
        sequence: None,
        requests_per_connection: None,
        requests: vec![PlannedRequest {
            name: "plaintext".into(),
            weight: 1,
            method: "GET".into(),
            path: "/plaintext".into(),
            expect: plan::Expect {
                status: Some(200),
                body: Some(Body(b"Hello, World!".to_vec())),
                ..plan::Expect::default()
            },
            ..PlannedRequest::default()
        }],
    }
}

fn load() -> Load {
    let step = |connections| Step {
        connections,
        streams: 1,
        pipeline: 1,
        arrivals: Arrivals::Closed,
        pass: 1,
    };
    Load {
        still_warming: dyno_model::plan::StillWarming::Refused,
        proxy_protocol: None,
        connection: plan::ConnectionSettings::default(),
        order: dyno_model::plan::Order::Fixed,
        warmup_ns: 100 * MS,
        until_steady: Some(UntilSteady { limit_ns: 60_000 * MS }),
        duration_ns: 1000 * MS,
        requests: None,
        interval_ns: 500 * MS,
        timeout_ns: 200 * MS,
        connect_timeout_ns: 1000 * MS,
        drain_ns: 1000 * MS,
        first_byte_timeout_ns: None,
        requests_per_connection: None,
        ramp_connections_ns: None,
        reconnect: plan::Reconnect::Backoff,
        max_waiting: None,
        check_one_in: 100,
        spin: plan::Spin::Auto,
        priority: dyno_model::plan::Priority::Normal,
        threads: 1,
        driver: plan::DriverKind::Uring,
        http2: plan::Http2::default(),
        steps: vec![step(4), step(16)],
    }
}

/// A subject's only arm, with half a CPU.
fn arm((index, subject): (usize, &Subject)) -> Arm {
    let conditions = Conditions {
        limits: Limits { cpus: Some(0.5), ..Limits::default() },
        placement: Placement { subject: vec![0], generator: vec![1] },
        ..Conditions::default()
    };
    Arm { name: subject.id(), level: None, subject: index, backends: Vec::new(), conditions }
}

fn hello_expectation() -> Expectation {
    Expectation {
        status: Some(200),
        body: Some(Arc::from(&b"Hello, World!"[..])),
        ..Expectation::default()
    }
}

fn play(plan: &Plan, index: usize) -> TrialRecord {
    let trial = plan.trials[index];
    let launch = &plan.launches[trial.launch];
    let service_ns = if trial.arm == 0 { 200_000.0 } else { 900_000.0 };
    let mut model =
        ServerModel::new(ServiceTime::Exponential { mean_ns: service_ns }, Queue::Single);
    if trial.arm == 1 && trial.step == 1 {
        model.faults = vec![(Fault::Reset, 0.01)];
    }
    if trial.arm == 1 && trial.step == 1 && launch.block == 2 {
        model.faults.push((Fault::Body, 0.02));
    }
    let step = &plan.load.steps[trial.step];
    let bytes = &b"GET /plaintext HTTP/1.1\r\nHost: sim\r\n\r\n"[..];
    let stripe = Stripe { worker: 0, workers: 1 };
    let config = WorkerConfig {
        connections: step.connections,
        protocol: Protocol::H1,
        http2: Http2::default(),
        page_connections: None,
        pipeline: step.pipeline,
        streams: step.streams,
        worker: 0,
        schedule: Schedule::new(&step.arrivals, &Arc::from([]), 1, stripe),
        total: None,
        traffic: Arc::new(Traffic::single(CompiledRequest::from_bytes(
            bytes,
            RequestKind::Other,
            hello_expectation(),
        ))),
        draws: Draws::new(1, 0, 1),
        check_one_in: plan.load.check_one_in,
        policy: Policy {
            timeout_ns: plan.load.timeout_ns,
            connect_timeout_ns: plan.load.connect_timeout_ns,
            ..Policy::default()
        },
        tls: None,
        spin: SpinPolicy::Never,
        window: Window {
            warmup_ns: plan.load.warmup_ns,
            duration_ns: Some(plan.load.duration_ns),
            interval_ns: plan.load.interval_ns,
            drain_ns: plan.load.drain_ns,
        },
    };
    let played = sim::simulate(World::new(plan.seed + index as u64, model), config);
    let busy = if trial.arm == 0 { 300 } else { 480 };
    TrialRecord {
        trial: index,
        start: trial.launch,
        load: record(played, busy),
        checks: vec![passed_check()],
        ceiling: None,
    }
}

/// Record of a load on a server that was busy for `busy` milliseconds per second.
fn record(played: sim::SimulationResult, busy: u64) -> LoadRecord {
    let report = played.report;
    LoadRecord {
        began_ns: BEGAN_NS,
        window_ns: report.window_ns,
        slices_ns: None,
        concurrent_loads: None,
        books: report.books,
        connections: report.connections,
        tcp: report.tcp,
        client: ClientUse {
            priority: dyno_model::plan::Priority::Normal,
            threads: vec![ThreadUse {
                run_ns: 200 * MS,
                user_ns: 50 * MS,
                sys_ns: 150 * MS,
                ..ThreadUse::default()
            }],
            rss_peak_bytes: Some(8 << 20),
            driver: plan::DriverKind::Uring,
            machine: None,
        },
        intervals: played.intervals,
        edges: Some(report.edges),
        unanswered: report.unanswered,
        protocol_errors: report.protocol_errors,
        tls: report.tls,
        http2: report.http2,
        unexpected: report.unexpected,
        connection_failures: report.connection_failures,
        samples: [0, 100, 600, 1100].map(|ms| sample(ms, busy)).into(),
        runtime: [150, 600, 1050].map(|ms| runtime_reading(ms, busy)).into(),
        probes: RequestedProbes {
            attached: [dyno_model::probe::Probe::Syscalls, dyno_model::probe::Probe::States].into(),
            refused: Vec::new(),
        },
        server_failure: None,
        cut_short: false,
        silences: Some(dyno_model::silence::long_silences(&report.silences, report.window_ns)),
        address: None,
        timeouts: report.timeouts,
        continues: report.continues,
    }
}

/// Reading of a runtime `ms` milliseconds after the load began.
fn runtime_reading(ms: u64, busy: u64) -> RuntimeReading {
    let seconds = |share: f64| ms as f64 / 1e3 * share;
    let active = busy as f64 / 1e3;
    let values = [
        ("event_loop_active_seconds_total", seconds(active)),
        ("event_loop_idle_seconds_total", seconds(1.0 - active)),
        ("gc_cycles_total", seconds(20.0)),
        ("gc_seconds_total", seconds(0.03)),
        ("heap_bytes", 6e6 + seconds(1e6)),
    ];
    RuntimeReading {
        at_ns: BEGAN_NS + ms * MS,
        took_ns: 200_000,
        processes: 1,
        sockets: std::collections::BTreeSet::new(),
        values: values.map(|(name, value)| (name.to_string(), value)).into(),
    }
}

fn passed_check() -> CheckResult {
    right("plaintext", "200")
}

/// Returns a check that passed.
pub(crate) fn right(name: &str, got: &str) -> CheckResult {
    CheckResult {
        is_lifecycle: false,
        name: name.into(),
        protocol: Protocol::H1,
        ok: true,
        has_response: true,
        waived: false,
        asked: format!("GET /{name}"),
        expected: "status 200".into(),
        got: got.into(),
    }
}

/// Counters that grow evenly: `busy_ms` of CPU time a second.
fn sample(at_ms: u64, busy_ms: u64) -> Sample {
    let cpu_ns = at_ms * busy_ms * MS / 1000;
    Sample {
        at_ns: BEGAN_NS + at_ms * MS,
        took_ns: 100_000,
        delayed_ns: 0,
        co_runners: None,
        parties: vec![
            PartyUse {
                cgroup: Some(CgroupUse {
                    cpu_ns: Some(cpu_ns),
                    cpu_user_ns: Some(cpu_ns / 4),
                    cpu_sys_ns: Some(cpu_ns * 3 / 4),
                    throttled_ns: Some(if busy_ms > 400 { at_ms * MS / 5 } else { 0 }),
                    periods: Some(at_ms / 10),
                    throttled_periods: Some(if busy_ms > 400 { at_ms / 50 } else { 0 }),
                    memory_bytes: Some(20 << 20),
                    memory_anon_bytes: Some(10 << 20),
                    ..CgroupUse::default()
                }),
                threads: vec![server_thread(at_ms, cpu_ns)],
                processes: 1,
                rss_bytes: Some(12 << 20),
                calls: Some(server_calls(at_ms)),
                ended: Some(Vec::new()),
                ..PartyUse::empty(Party::SUBJECT)
            },
            PartyUse {
                threads: vec![ThreadUse { run_ns: at_ms * MS / 5, ..ThreadUse::default() }],
                ..PartyUse::empty(Party::GENERATOR)
            },
        ],
        host: Some(HostUse {
            busy_ns: cpu_ns,
            idle_ns: 2 * at_ms * MS - cpu_ns,
            steal_ns: 0,
            context_switches: at_ms,
            ..HostUse::default()
        }),
    }
}

fn server_thread(at_ms: u64, cpu_ns: u64) -> ThreadUse {
    ThreadUse {
        pid: 2,
        tid: 2,
        began_ticks: None,
        name: "server".into(),
        run_ns: cpu_ns,
        user_ns: cpu_ns / 4,
        sys_ns: cpu_ns * 3 / 4,
        run_delay_ns: Some(cpu_ns / 100),
        switches_voluntary: Some(at_ms * 3),
        switches_involuntary: Some(at_ms),
        faults_minor: Some(at_ms / 10),
        faults_major: Some(0),
        seen: Some(SchedulerRecord {
            states: StateTimes {
                running_ns: cpu_ns,
                runnable_ns: cpu_ns / 100,
                network_ns: at_ms * MS - cpu_ns - cpu_ns / 100,
                ..StateTimes::default()
            },
            wakeups: at_ms * 3,
            migrations: at_ms / 100,
            modes: None,
        }),
    }
}

/// Counted in a tenth of the time.
fn server_calls(at_ms: u64) -> CallsUse {
    let call = |count, errors, returned| CallUse {
        count,
        errors: Some(errors),
        again: Some(errors),
        returned: Some(returned),
    };
    CallsUse {
        counted_ns: at_ms * MS / 10,
        slices: at_ms / 100,
        responses: Some(at_ms * 5),
        by_name: [
            ("read".to_string(), call(at_ms * 5, 0, at_ms * 300)),
            ("write".to_string(), call(at_ms * 10, 0, at_ms * 700)),
            ("futex(wait)".to_string(), call(at_ms, at_ms / 2, 0)),
        ]
        .into(),
        ..CallsUse::default()
    }
}

/// Returns the warm-up of a server with a compiler, which in one start never finishes.
fn warm_up(launch: usize) -> WarmUp {
    let (rounds, ended) = if launch == 4 { (16, WarmUpEnd::Limit) } else { (8, WarmUpEnd::Steady) };
    let slice = |round: usize| WarmUpSlice {
        round,
        workload: 0,
        step: 1,
        start_ns: round as u64 * 130 * MS,
        end_ns: (round as u64 * 130 + 125) * MS,
        responses: 1000,
        correct_responses: 1000,
        cpu_ns: Some(60 * MS),
        jit_ns: Some(if launch == 4 { 20 * MS } else { 0 }),
        observed_ns: 126 * MS,
    };
    WarmUp {
        took_ns: rounds as u64 * 130 * MS,
        ended,
        correct_responses: rounds as u64 * 1040,
        failures: BTreeMap::new(),
        slices: (0..rounds).map(slice).collect(),
    }
}

fn start(plan: &Plan, launch: usize) -> StartRecord {
    let check = |name: &str| right(name, "as it must be");
    let failed = plan.launches[launch].arms == [1] && plan.launches[launch].block == 2;
    let message = "check \"plaintext\": GET /plaintext: wanted the body \"Hello, World!\", \
                   got:\n200\n\n?????????????";
    StartRecord {
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
                listening_ns: Some((3 + launch as u64) * MS),
                first_response_ns: Some((4 + launch as u64) * MS),
                ready_ns: (4 + launch as u64) * MS,
                cpu_ns: Some(2 * MS),
                strays: 0,
            }),
            warmup: Some(warm_up(launch)),
            checks_before: vec![check("plaintext"), check("json")],
            checks_after: vec![check("plaintext")],
            limits: Vec::new(),
            environment: Default::default(),
            stop: Some(StopRecord { took_ns: MS, killed: false }),
            log_tail: failed.then(|| "<b>oops</b>".into()),
            ..PartStart::new(Party::SUBJECT, plan.arms[plan.launches[launch].arms[0]].name.clone())
        }],
        failure: failed
            .then(|| Failure { kind: FailureKind::IncorrectResponses, message: message.into() }),
    }
}

fn run() -> Run {
    let plan = plan();
    let trials = (0..plan.trials.len()).map(|i| play(&plan, i)).collect();
    let starts = (0..plan.launches.len())
        .filter(|l| plan.launches[*l].arms[0] < 2)
        .map(|l| start(&plan, l))
        .collect();
    let header = RunHeader {
        schema: SCHEMA.into(),
        id: "golden-20260102-030405".into(),
        run_id: RunId::from_bits(1, 2),
        started: "2026-01-02T03:04:05Z".into(),
        command: vec!["dyno".into(), "run".into(), "golden.toml".into()],
        plan,
        facts: dyno_testkit::resource_use::facts(),
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

/// Returns the stored archive. When updating, it is rewritten once.
fn stored_run() -> Run {
    static WRITTEN: Once = Once::new();
    if stored_output::is_updating() {
        WRITTEN.call_once(|| {
            let run = run();
            let _ = fs::remove_dir_all(golden("run"));
            let dir = RunDir::create(golden("run"), &run.header).unwrap();
            run.starts.iter().for_each(|s| dir.write_start(s).unwrap());
            run.trials.iter().for_each(|t| dir.write_trial(t).unwrap());
        });
    }
    RunDir::open(golden("run")).unwrap().read().unwrap()
}

#[test]
fn simulated_run_matches_stored_archive() {
    let run = run();
    let stored = stored_run();
    assert_eq!(stored.header, run.header);
    assert_eq!(stored.starts, run.starts);
    for (stored, played) in stored.trials.iter().zip(&run.trials) {
        assert_eq!(stored, played, "trial {}", played.trial);
    }
    assert_eq!(stored.trials.len(), run.trials.len());
}

#[test]
fn reports_match_stored_output() {
    let run = stored_run();
    let report = dyno_analysis::report::report(&run);
    stored_output::assert_matches_stored("hello", &report);
}

#[test]
fn golden_run_has_required_features() {
    let run = stored_run();
    let report = dyno_analysis::report::report(&run);
    for trial in &report.trials {
        let e = trial.load.exchanges;
        assert_eq!(e.carried_in + e.scheduled, e.started + e.dropped);
        assert_eq!(e.started, e.completed + e.failed + e.in_flight_at_end);
    }
    let refused: Vec<&str> =
        report.trials.iter().filter(|t| !t.valid).map(|t| t.caveats[0].code.name()).collect();
    assert_eq!(refused, ["errors", "wrong_answers"], "more than 1 % failures, and wrong bodies");
    let throttled = report.trials.iter().find(|t| t.subject == "slow").unwrap();
    assert_eq!(throttled.limiter.resource, Resource::CpuQuota);
    let page = dyno_report::html::page(&report, "", "");
    assert!(!page.contains("<b>oops</b>"), "text of a server must not become markup");
}

#[test]
fn truncated_archive_never_panics() {
    stored_run();
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("run");
    let status =
        std::process::Command::new("cp").arg("-r").arg(golden("run")).arg(&place).status().unwrap();
    assert!(status.success());
    for name in ["trials/0003.json", "starts/001.json", "run.json"] {
        let path = place.join(name);
        let whole = fs::read(&path).unwrap();
        for cut in [0, 1, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..cut]).unwrap();
            let error = RunDir::open(&place).and_then(|d| d.read()).unwrap_err().to_string();
            assert!(error.contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
        }
        fs::write(&path, &whole).unwrap();
    }
    fs::remove_file(place.join("trials/0003.json")).unwrap();
    let shorter = RunDir::open(&place).unwrap().read().unwrap();
    assert_eq!(dyno_analysis::report::report(&shorter).trials.len(), run().trials.len() - 1);
    let other = fs::read_to_string(place.join("run.json")).unwrap().replace(SCHEMA, "dyno.run/99");
    fs::write(place.join("run.json"), other).unwrap();
    assert!(RunDir::open(&place).unwrap_err().to_string().contains("dyno.run/99"));
}

#[test]
fn golden_run_intervals_have_no_gap() {
    let run = stored_run();
    for trial in &run.trials {
        let measured: Vec<_> =
            trial.load.intervals.iter().filter(|i| i.phase == Phase::Measured).collect();
        assert_eq!(measured.first().unwrap().start_ns, trial.load.window_ns.0);
        assert_eq!(measured.last().unwrap().end_ns, trial.load.window_ns.1);
        assert!(measured.windows(2).all(|w| w[0].end_ns == w[1].start_ns));
    }
}
