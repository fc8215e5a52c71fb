//! Builds records for tests: by default, one second of load with completed requests.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use dyno_model::interval::Interval;
use dyno_model::load::{Books, ClientUse, Connections, Edges, UnansweredAges};
use dyno_model::outcome::Outcome;
use dyno_model::plan::{
    self, Arm, ArmSharing, Arrivals, Conditions, ConnectionSettings, DriverKind, Http2, Launch,
    Load, Order, Placement, Plan, ReportOptions, Request, Spin, Step, Subject, Suite, Workload,
};
use dyno_model::run::{Run, RunHeader};
use dyno_model::sample::{CgroupUse, PartyUse, ThreadUse};
use dyno_model::start::{PartStart, StartRecord, WarmUp, WarmUpEnd, WarmUpSlice};
use dyno_model::times::Recording;
use dyno_model::trial::CheckResult;
use dyno_model::{
    Facts, LoadRecord, Party, Phase, Protocol, Resumption, ResumptionDifference, RunId, Sample,
    TrialRecord,
};

use crate::load::{LoadConfig, LoadResult};
use crate::report::{Report, report};
use crate::verdict::{self, Context};

const S: u64 = 1_000_000_000;

/// Returns a load of one second over 64 connections. Each of the responses takes 1 ms.
pub fn record(responses: u64) -> LoadRecord {
    let mut times = Recording::new();
    (0..responses).for_each(|_| times.record(1_000_000));
    let mut interval = Interval::new(Phase::Measured, 0, S);
    (0..responses).for_each(|_| interval.outcomes.count(Outcome::Ok));
    interval.times.response = times.seal();
    interval.times.service = interval.times.response.clone();
    interval.started = responses;
    interval.in_flight_ns = responses * 1_000_000;
    LoadRecord {
        began_ns: 0,
        window_ns: (0, S),
        slices_ns: None,
        concurrent_loads: None,
        books: Books {
            scheduled: responses,
            started: responses,
            completed: responses,
            ..Books::default()
        },
        connections: Connections {
            asked: 64,
            established: 64,
            opened: 64,
            ..Connections::default()
        },
        tcp: None,
        client: ClientUse {
            priority: dyno_model::plan::Priority::Normal,
            threads: Vec::new(),
            rss_peak_bytes: None,
            driver: DriverKind::Epoll,
            machine: None,
        },
        intervals: vec![interval],
        edges: Some(Edges::default()),
        unanswered: UnansweredAges::default(),
        protocol_errors: BTreeMap::new(),
        tls: None,
        http2: None,
        unexpected: BTreeMap::new(),
        connection_failures: BTreeMap::new(),
        samples: Vec::new(),
        runtime: Vec::new(),
        probes: dyno_model::probe::RequestedProbes::default(),
        server_failure: None,
        cut_short: false,
        silences: Some(Vec::new()),
        address: None,
        timeouts: dyno_model::load::Timeouts::default(),
        continues: None,
    }
}

/// Returns a trial of the first start with this load.
pub fn trial_record(trial: usize, load: LoadRecord) -> TrialRecord {
    TrialRecord { trial, start: 0, load, checks: Vec::new(), ceiling: None }
}

/// Returns the result of a record: in a closed loop, or with Poisson arrivals at `rate`.
pub fn result(record: &LoadRecord, rate: Option<f64>) -> LoadResult {
    let arrivals = rate.map_or(Arrivals::Closed, |rate| Arrivals::Poisson { rate });
    verdict::load(record, config(arrivals), &Context::default())
}

/// Returns the configuration of a load of 64 connections with these arrivals.
pub fn config(arrivals: Arrivals) -> LoadConfig {
    LoadConfig::new(&workload(), &load(), &step(arrivals), 1)
}

/// Returns the plan of one second of load by one thread, without a warm-up.
pub fn load() -> Load {
    Load {
        warmup_ns: 0,
        until_steady: None,
        still_warming: dyno_model::plan::StillWarming::Refused,
        proxy_protocol: None,
        connection: ConnectionSettings::default(),
        order: dyno_model::plan::Order::Fixed,
        duration_ns: S,
        requests: None,
        interval_ns: S,
        timeout_ns: S,
        connect_timeout_ns: S,
        drain_ns: S,
        first_byte_timeout_ns: None,
        requests_per_connection: None,
        ramp_connections_ns: None,
        reconnect: dyno_model::plan::Reconnect::Backoff,
        max_waiting: None,
        check_one_in: 1,
        spin: Spin::Never,
        priority: dyno_model::plan::Priority::Normal,
        threads: 1,
        driver: DriverKind::Epoll,
        http2: Http2::default(),
        steps: Vec::new(),
    }
}

/// Returns a check over plain HTTP/1.1 with this observed result.
pub fn check(name: &str, ok: bool, got: &str) -> CheckResult {
    CheckResult {
        is_lifecycle: false,
        name: name.into(),
        protocol: Protocol::H1,
        ok,
        has_response: true,
        waived: false,
        asked: String::new(),
        expected: String::new(),
        got: got.into(),
    }
}

/// Returns a step with 64 connections, and one request in flight on each.
pub fn step(arrivals: Arrivals) -> Step {
    Step { connections: 64, streams: 1, pipeline: 1, arrivals, pass: 1 }
}

/// Returns a workload of one request without expectations.
pub fn workload() -> Workload {
    let request = Request { method: "GET".into(), path: "/".into(), ..Request::default() };
    Workload {
        name: "w".into(),
        protocol: Protocol::H1,
        requests: vec![request],
        page: None,
        sequence: None,
        requests_per_connection: None,
    }
}

/// Returns the plan of a suite with five repeats of these subjects.
pub fn plan(subjects: Vec<Subject>) -> Plan {
    Plan {
        suite: Suite {
            profiles: Vec::new(),
            name: "s".into(),
            description: String::new(),
            source: String::new(),
            path: String::new(),
        },
        subjects_folders: Vec::new(),
        seed: 1,
        repeats: 5,
        stop: None,
        again: 0,
        order: Order::Random,
        sharing: ArmSharing::Alone,
        swaps_cpus: false,
        experiment: None,
        launches: (0..5)
            .flat_map(|block| (0..subjects.len()).map(move |arm| Launch::with_arm(arm, block)))
            .collect(),
        arms: subjects.iter().enumerate().map(arm).collect(),
        subjects,
        backends: Vec::new(),
        workloads: vec![workload()],
        load: load(),
        search: None,
        measured_first: None,
        trials: Vec::new(),
        not_served: Vec::new(),
        report: ReportOptions::default(),
        cost: None,
        probe_price: false,
        files: [].into(),
        import_changes: Vec::new(),
    }
}

/// Returns the only arm of a subject.
pub fn arm((index, subject): (usize, &Subject)) -> Arm {
    let placement = Placement { subject: vec![0, 1], generator: vec![2] };
    let conditions = Conditions { placement, ..Conditions::default() };
    Arm { name: subject.id(), level: None, subject: index, backends: Vec::new(), conditions }
}

pub const MS: u64 = 1_000_000;

/// Returns one second of load on a server. `threads`: time that each thread ran and waited for a
/// CPU, in milliseconds.
pub fn record_with_threads(threads: &[(u64, u64)]) -> LoadRecord {
    let used = |share: u64| PartyUse {
        cgroup: Some(CgroupUse {
            cpu_ns: Some(threads.iter().map(|t| t.0).sum::<u64>() * MS * share),
            periods: Some(10 * share),
            throttled_periods: Some(4 * share),
            // The sum over four CPUs, as in the kernel.
            throttled_ns: Some(1600 * MS * share),
            ..CgroupUse::default()
        }),
        threads: (0u32..)
            .zip(threads)
            .map(|(tid, (run, delay))| ThreadUse {
                tid,
                run_ns: run * MS * share,
                run_delay_ns: Some(delay * MS * share),
                ..ThreadUse::default()
            })
            .collect(),
        ..PartyUse::empty(Party::SUBJECT)
    };
    let sample =
        |at_ns: u64, share: u64| Sample { at_ns, parties: vec![used(share)], ..Sample::default() };
    let mut record = record(1000);
    record.samples = vec![sample(0, 0), sample(1000 * MS, 1)];
    record
}

/// Returns a later part of a run. `from_start`: index of its first start.
pub fn resumption(
    run: &Run,
    from_start: usize,
    differences: Vec<ResumptionDifference>,
) -> Resumption {
    Resumption {
        uncompared: Vec::new(),
        started: "2026-02-28T00:00:00Z".into(),
        command: Vec::new(),
        from_start,
        differences,
        facts: run.header.facts.clone(),
        subjects: run.header.plan.subjects.clone(),
    }
}

/// Returns a start whose warm-up has ten slices of 125 ms with 1,000 responses each.
pub fn warm_up(ended: WarmUpEnd, jit_ns: u64, cpu_ns: Option<u64>) -> StartRecord {
    let slices = (0..10).map(|round| WarmUpSlice {
        round,
        workload: 0,
        step: 0,
        start_ns: round as u64 * 125_000_000,
        end_ns: (round as u64 + 1) * 125_000_000,
        responses: 1000,
        correct_responses: 1000,
        cpu_ns,
        jit_ns: Some(jit_ns),
        observed_ns: 125_000_000,
    });
    let took_ns = 60_100_000_000;
    let warmup = Some(WarmUp {
        took_ns,
        ended,
        correct_responses: 10_400,
        failures: BTreeMap::new(),
        slices: slices.collect(),
    });
    let part = PartStart { warmup, ..PartStart::new(Party::SUBJECT, "s".into()) };
    StartRecord { parts: vec![part], ..StartRecord::default() }
}

/// Returns the number of responses of a trial, which is different in every trial. The trials of
/// [`five_blocks`] also use this number as bytes of memory.
pub fn response_count(base: u64, block: usize, workload: usize, step: usize) -> u64 {
    base + 100 * workload as u64 + 10 * step as u64 + block as u64
}

/// Returns the report of [`five_blocks`].
pub fn five_block_report() -> Report {
    static REPORTED: LazyLock<Report> = LazyLock::new(|| report(&five_blocks()));
    REPORTED.clone()
}

/// Returns a run with five blocks of a slow server, a fast one, a control and a skipped one, each
/// with two workloads at two steps.
///
/// In the first cell of the fast server, the server failed in the first repeat. In the second
/// repeat, a check got no response. In the third repeat, a check got an incorrect response.
pub fn five_blocks() -> Run {
    let named =
        |name: &str| Subject { name: name.into(), title: name.into(), ..Subject::default() };
    let mut plan = plan(vec![
        named("slow"),
        named("fast"),
        Subject { control: true, ..named("null") },
        Subject { skipped: Some("no compiler".into()), ..named("gone") },
    ]);
    plan.workloads.push(Workload { name: "v".into(), ..workload() });
    plan.load.steps =
        vec![step(Arrivals::Closed), Step { connections: 128, ..step(Arrivals::Closed) }];
    let mut trials = Vec::new();
    for (number, launch) in
        plan.launches.iter().enumerate().filter(|(_, launch)| launch.arms[0] < 3)
    {
        let arm = launch.arms[0];
        let base = [200, 400, 900][arm];
        for (workload, step) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let n = response_count(base, launch.block as usize, workload, step);
            let mut record = trial_record(trials.len(), record(n));
            record.load.samples = [0, 1_000_000_000]
                .map(|at_ns| {
                    let used = PartyUse { rss_bytes: Some(n), ..PartyUse::empty(Party::SUBJECT) };
                    Sample { at_ns, parties: vec![used], ..Sample::default() }
                })
                .into();
            if step == 1 {
                let mut times = Recording::new();
                (0..n).for_each(|_| times.record(2_000_000));
                record.load.intervals[0].times.response = times.seal();
                // These times contradict Little's law, which is not checked without edges.
                record.load.edges = None;
            }
            make_invalid(&mut record, (arm, launch.block, workload, step));
            plan.trials.push(plan::Trial { launch: number, arm, workload, step, seed: 0 });
            trials.push(record);
        }
    }
    run(plan, Vec::new(), trials)
}

/// Returns a run of servers at one step. `responses`: the number of responses of an arm in a block.
pub fn blocks_of(
    subjects: Vec<Subject>,
    blocks: u32,
    responses: impl Fn(usize, u32) -> u64,
) -> Run {
    let mut plan = plan(subjects);
    plan.load.steps = vec![step(Arrivals::Closed)];
    plan.repeats = blocks;
    let arms = 0..plan.arms.len();
    plan.launches = (0..blocks)
        .flat_map(|block| arms.clone().map(move |arm| Launch::with_arm(arm, block)))
        .collect();
    let trials = plan.launches.iter().enumerate().map(|(launch, planned)| {
        let arm = planned.arms[0];
        plan.trials.push(plan::Trial { launch, arm, workload: 0, step: 0, seed: 0 });
        trial_record(launch, record(responses(arm, planned.block)))
    });
    let trials: Vec<TrialRecord> = trials.collect();
    run(plan, Vec::new(), trials)
}

/// Returns a run of a plan, as read from its archive.
pub fn run(plan: Plan, starts: Vec<StartRecord>, trials: Vec<TrialRecord>) -> Run {
    let header = RunHeader {
        schema: String::new(),
        id: "1".into(),
        run_id: RunId::default(),
        started: "then".into(),
        command: Vec::new(),
        plan,
        facts: Facts::default(),
        resumptions: Vec::new(),
    };
    Run {
        header,
        starts,
        trials,
        profiles: Vec::new(),
        contaminated: Vec::new(),
        searches: Vec::new(),
    }
}

/// Makes the trials of [`five_blocks`] that are not valid.
fn make_invalid(record: &mut TrialRecord, trial: (usize, u32, usize, usize)) {
    let check = |has_response| CheckResult { has_response, ..check("c", false, "") };
    match trial {
        (1, 0, 0, 0) => record.load.server_failure = Some("it left".into()),
        (1, 1, 0, 0) => record.checks = vec![check(false)],
        (1, 2, 0, 0) => record.checks = vec![check(true)],
        _ => (),
    }
}
