//! Tests that percentiles include every request that was due. They are compared with the simulated
//! server's log of correct responses. A due request without a correct response ranks above all
//! others.

use std::sync::Arc;

use dyno_analysis::load::{self, LoadResult, Percentiles, SAMPLES_ABOVE, UnansweredRequests};
use dyno_analysis::{Code, verdict};
use dyno_engine::schedule::Stripe;
use dyno_engine::sim::{
    self, Fault, Net, Pause, Queue, ServerModel, ServiceTime, SimulationResult, Theft, TheftTime,
    World,
};
use dyno_engine::traffic::{FieldPiece, RequestPart, StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Draws, Expectation, Http2, Instant, Policy, Protocol, Schedule, SpinPolicy,
    Traffic, Window, WorkerConfig, limits,
};
use dyno_model::load::ClientUse;
use dyno_model::plan::{self, Arrivals};
use dyno_model::times::Recording;
use dyno_model::{LoadRecord, Phase, Times};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// Requests that identify themselves to the simulated server.
fn traffic() -> Arc<Traffic> {
    let bytes = |text: &[u8]| RequestPart::Bytes(text.into());
    let path = || [bytes(b"/"), RequestPart::Intended, bytes(b"/"), RequestPart::Sequence];
    let head = [bytes(b"GET ")].into_iter().chain(path());
    let head = head.chain([bytes(b" HTTP/1.1\r\nHost: sim\r\n\r\n")]).collect();
    let fixed: Vec<(Vec<u8>, Vec<u8>)> =
        [(":method", "GET"), (":scheme", "http"), (":authority", "sim")]
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .to_vec();
    let shared = SharedFields::from_requests(std::slice::from_ref(&fixed));
    let mut name = Vec::new();
    dyno_wire::h2::encode::put_name(b":path", &mut name);
    let fields = vec![
        FieldPiece::Fixed(shared.encode(&fixed)),
        FieldPiece::Varying { name: name.into(), name_bytes: 5, value: path().into() },
    ];
    let request = CompiledRequest {
        template: Template::Varying { head, body: Vec::new() },
        upgrade: None,
        stream: Some(StreamTemplate::Varying { fields, body: Vec::new() }),
        kind: RequestKind::Other,
        expect: Expectation {
            status: Some(200),
            body: Some(Arc::from(&b"Hello, World!"[..])),
            ..Expectation::default()
        },
    };
    Arc::new(Traffic::single(request).with_shared_bytes(shared.table_bytes()))
}

fn config(
    protocol: Protocol,
    shape: (u32, u32),
    arrivals: &Arrivals,
    window: Window,
) -> WorkerConfig {
    let (connections, each) = shape;
    WorkerConfig {
        worker: 0,
        connections,
        protocol,
        http2: Http2::default(),
        pipeline: if protocol == Protocol::H1 { each } else { 1 },
        streams: if protocol == Protocol::H1 { 1 } else { each },
        schedule: Schedule::new(arrivals, &Arc::from([]), 7, Stripe { worker: 0, workers: 1 }),
        total: None,
        traffic: traffic(),
        page_connections: None,
        draws: Draws::new(1, 0, 1),
        check_one_in: 1,
        policy: Policy { timeout_ns: 10 * SECOND, connect_timeout_ns: SECOND, ..Policy::default() },
        tls: None,
        spin: SpinPolicy::Never,
        window,
    }
}

fn window(warmup_ms: u64, duration_ms: u64) -> Window {
    Window {
        warmup_ns: warmup_ms * MS,
        duration_ns: Some(duration_ms * MS),
        interval_ns: 100 * MS,
        drain_ns: limits::DRAIN_NS,
    }
}

fn record(played: &SimulationResult) -> LoadRecord {
    let report = played.report.clone();
    LoadRecord {
        slices_ns: None,
        concurrent_loads: None,
        began_ns: 0,
        window_ns: report.window_ns,
        books: report.books,
        connections: report.connections,
        tcp: report.tcp,
        client: ClientUse {
            priority: dyno_model::plan::Priority::Normal,
            threads: Vec::new(),
            rss_peak_bytes: None,
            driver: plan::DriverKind::Epoll,
            machine: None,
        },
        intervals: played.intervals.clone(),
        edges: Some(report.edges),
        unanswered: report.unanswered,
        protocol_errors: report.protocol_errors,
        tls: report.tls,
        http2: report.http2,
        unexpected: report.unexpected,
        connection_failures: report.connection_failures,
        samples: Vec::new(),
        runtime: Vec::new(),
        probes: dyno_model::probe::RequestedProbes::default(),
        server_failure: None,
        cut_short: false,
        silences: Some(report.silences),
        address: None,
        timeouts: report.timeouts,
        continues: report.continues,
    }
}

/// Returns the result that `dyno load` would report.
fn result(played: &SimulationResult, config: &WorkerConfig, arrivals: &Arrivals) -> LoadResult {
    let request = plan::Request {
        weight: 1,
        method: "GET".into(),
        path: "/".into(),
        ..plan::Request::default()
    };
    let workload = plan::Workload {
        name: "sim".into(),
        protocol: config.protocol,
        requests: vec![request],
        page: None,
        sequence: None,
        requests_per_connection: None,
    };
    let step = plan::Step {
        connections: config.connections,
        streams: config.streams,
        pipeline: config.pipeline,
        arrivals: arrivals.clone(),
        pass: 1,
    };
    let asked = plan::Load {
        priority: plan::Priority::Normal,
        until_steady: None,
        still_warming: plan::StillWarming::Refused,
        proxy_protocol: None,
        connection: plan::ConnectionSettings::default(),
        order: plan::Order::Fixed,
        warmup_ns: config.window.warmup_ns,
        duration_ns: config.window.duration_ns.unwrap_or(0),
        requests: None,
        interval_ns: config.window.interval_ns,
        timeout_ns: config.policy.timeout_ns,
        connect_timeout_ns: config.policy.connect_timeout_ns,
        drain_ns: config.window.drain_ns,
        first_byte_timeout_ns: None,
        requests_per_connection: None,
        ramp_connections_ns: None,
        reconnect: plan::Reconnect::Backoff,
        max_waiting: None,
        check_one_in: 1,
        spin: plan::Spin::Never,
        threads: 1,
        driver: plan::DriverKind::Epoll,
        http2: plan::Http2::default(),
        steps: vec![step.clone()],
    };
    let asked = load::LoadConfig::new(&workload, &asked, &step, 1);
    verdict::load(&record(played), asked, &verdict::Context::default())
}

/// The simulation's own log of the requests that were due in the window.
struct Log {
    /// Response times of the correct responses, nanoseconds, the shortest first.
    waits: Vec<u64>,
    /// Number of due requests.
    due: u64,
}

fn log(played: &SimulationResult, config: &WorkerConfig) -> Log {
    let (opens, closes) = played.report.window_ns;
    let is_closed = config.schedule.is_closed();
    // Bytes that arrive after the drain are read only to find unsolicited responses.
    let drained_ns = played.intervals.last().map_or(0, |interval| interval.end_ns);
    let wait = |answered: &sim::AcceptedResponse| {
        let taken = Instant(answered.at_ns).ns_since(played.began);
        let intended = answered.request.intended_ns;
        // A response may arrive while the client cancels its request. It does not count if the time
        // limit was over.
        let is_late = taken - intended >= config.policy.timeout_ns;
        if is_late && played.truth.given_up.contains(&answered.request) {
            return None;
        }
        if taken > drained_ns {
            return None;
        }
        // A closed loop sends the next request when it has a response, so requests in flight when
        // the window opens are due in it.
        let is_due = intended < closes && (intended >= opens || is_closed && taken >= opens);
        is_due.then(|| taken - intended)
    };
    let mut waits: Vec<u64> = played.truth.accepted.iter().filter_map(wait).collect();
    waits.sort_unstable();
    let due = if is_closed {
        // Only the generator knows its requests for connections that were never established.
        played.report.books.due()
    } else {
        // A schedule depends only on its plan and seed, so it can be computed again.
        let mut schedule = config.schedule.clone();
        let mut due = 0;
        while let Some(at) = schedule.pop_due(closes - 1) {
            due += u64::from(at >= opens);
        }
        due
    };
    Log { waits, due }
}

impl Log {
    /// Returns the wait of rank ⌈q·due⌉. `None`: the request of that rank got no correct response,
    /// or too few requests waited for longer.
    fn quantile(&self, q: f64) -> Option<u64> {
        if self.due as f64 * (1.0 - q) + 1e-6 < SAMPLES_ABOVE {
            return None;
        }
        let rank = ((q * self.due as f64).ceil() as u64).max(1);
        self.waits.get(rank as usize - 1).copied()
    }
}

fn percentiles(p: &Percentiles) -> [(f64, Option<f64>); 7] {
    [
        (0.5, p.p50),
        (0.75, p.p75),
        (0.9, p.p90),
        (0.95, p.p95),
        (0.99, p.p99),
        (0.999, p.p99_9),
        (0.9999, p.p99_99),
    ]
}

/// Compares the reported numbers with the log.
fn compare(result: &LoadResult, log: &Log) -> Result<(), TestCaseError> {
    let response = &result.response_time_us;
    prop_assert_eq!(response.count, log.waits.len() as u64);
    prop_assert_eq!(response.unanswered, log.due - response.count);
    prop_assert_eq!(result.service_time_us.unanswered, response.unanswered);
    for (q, reported) in percentiles(response) {
        let truth = log.quantile(q);
        match (reported, truth) {
            (None, None) => {}
            // The reported value is the upper end of a bucket that is 0.1 % wide.
            (Some(us), Some(ns)) => {
                let error_ns = us * 1e3 - ns as f64;
                prop_assert!(
                    (-0.5..=ns as f64 * 1.001e-3 + 1.0).contains(&error_ns),
                    "p{}: {us} µs, {ns} ns",
                    q * 100.0
                );
            }
            _ => prop_assert!(
                false,
                "p{}: reported {reported:?} µs, expected {truth:?} ns",
                q * 100.0
            ),
        }
    }
    let caveats: Vec<Code> = result.caveats.iter().map(|c| c.code).collect();
    prop_assert!(!caveats.contains(&Code::LITTLES_LAW), "{:?}", result.in_flight);
    prop_assert!(!caveats.contains(&Code::BOOKS));
    Ok(())
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    prop_oneof![
        Just(Arrivals::Closed),
        (50.0f64..3000.0).prop_map(|rate| Arrivals::Constant { rate }),
        (50.0f64..3000.0).prop_map(|rate| Arrivals::Poisson { rate }),
        (50.0f64..1500.0, 50.0f64..1500.0).prop_map(|(from_rate, to_rate)| Arrivals::Shaped {
            segments: vec![plan::Segment { from_rate, to_rate, duration_ns: SECOND }],
            gaps: plan::Gaps::Even,
        }),
    ]
}

/// Start and length of a server stall. It may cross the start or the end of the window.
fn stall() -> impl Strategy<Value = Pause> {
    (0u64..1600, 0u64..900)
        .prop_map(|(at, length)| Pause { at_ns: at * MS + 1_234_567, for_ns: length * MS + 1 })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn percentiles_match_simulation_log(
        seed in any::<u64>(),
        protocol in prop_oneof![Just(Protocol::H1), Just(Protocol::H2c)],
        shape in (1u32..16, 1u32..9),
        arrivals in arrivals(),
        service_us in 100u64..15_000,
        single in any::<bool>(),
        stalls in proptest::collection::vec(stall(), 0..3),
        odds in 0.0f64..0.03,
        refuse in prop_oneof![Just(0.0), 0.0f64..0.3],
        timeout_ms in 60u64..1500,
        warmup_ms in prop_oneof![Just(0u64), 100u64..500],
        per_connection in proptest::option::of(3u64..40),
        theft_ms in proptest::option::of((0u64..1500, 1u64..60)),
    ) {
        let queue = if single { Queue::Single } else { Queue::PerConnection };
        let service = ServiceTime::Exponential { mean_ns: service_us as f64 * 1e3 };
        let mut model = ServerModel::new(service, queue);
        let is_http1 = protocol == Protocol::H1;
        let faults = if is_http1 { &Fault::HTTP1[..] } else { &Fault::HTTP2[..] };
        model.faults = faults.iter().map(|fault| (*fault, odds)).collect();
        model.pauses = stalls;
        model.pauses.sort_by_key(|pause| pause.at_ns);
        let mut world = World::new(seed, model);
        // The network is so fast that no response is in transit while its stream is cancelled.
        world.net = Net { delay_ns: 1, cut: 0.3, refuse };
        world.thefts.extend(theft_ms.map(|(at, length)| {
            Theft { at_ns: at * MS, for_ns: length * MS, when: TheftTime::Working }
        }));
        let mut config = config(protocol, shape, &arrivals, window(warmup_ms, 1000));
        config.policy.timeout_ns = timeout_ms * MS;
        config.policy.requests_per_connection = per_connection;
        let played = sim::simulate(world, config.clone());
        prop_assert!(played.report.books.balance(), "{:?}", played.report.books);
        compare(&result(&played, &config, &arrivals), &log(&played, &config))?;
    }

    /// A request that fails, or one more failed request, lowers no percentile.
    #[test]
    fn failure_never_lowers_percentile(
        values in proptest::collection::vec(1u64..10_000_000_000, 1..3000),
        failures in 0u64..300,
        turned in 1usize..200,
    ) {
        let times = |values: &[u64]| -> Times {
            let mut recording = Recording::new();
            values.iter().for_each(|ns| recording.record(*ns));
            recording.seal()
        };
        let missing = |count| UnansweredRequests { count, longest_ns: Some(1), sum_ns: 0.0 };
        let before = Percentiles::from_due(&times(&values), missing(failures));
        let turned = turned.min(values.len());
        let one_more = Percentiles::from_due(&times(&values), missing(failures + 1));
        let lost = missing(failures + turned as u64);
        let turned = Percentiles::from_due(&times(&values[turned..]), lost);
        for after in [one_more, turned] {
            let pairs = percentiles(&before).into_iter().zip(percentiles(&after));
            for ((q, before), (_, after)) in pairs {
                // `None` ranks above any number, or too few requests ranked above the percentile.
                if let (Some(before), Some(after)) = (before, after) {
                    prop_assert!(after >= before, "p{}: {before} became {after}", q * 100.0);
                }
            }
        }
    }
}

/// Ten connections have ten requests each, with one response after the other. A stall of 600 ms
/// begins 100 ms before the window. Up to a hundred requests are in flight when the window opens,
/// and each of them waits for more than half a second.
#[test]
fn stall_from_warm_up_counts_in_window() {
    for protocol in [Protocol::H1, Protocol::H2c] {
        let mut model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
        model.pauses.push(Pause { at_ns: 400 * MS, for_ns: 600 * MS });
        let config = config(protocol, (10, 10), &Arrivals::Closed, window(500, 1000));
        let played = sim::simulate(World::new(1, model), config.clone());
        // A pipeline is refilled when half of it is free, so up to half of its places may be free.
        let carried_in = played.report.books.carried_in;
        assert!(
            if protocol == Protocol::H1 { carried_in >= 50 } else { carried_in == 100 },
            "{carried_in}"
        );
        let result = result(&played, &config, &Arrivals::Closed);
        let slow: u64 = played
            .intervals
            .iter()
            .filter(|i| i.phase != Phase::Warmup)
            .flat_map(|i| i.times.response.values())
            .filter(|(ns, _)| *ns > 500 * MS)
            .map(|(_, n)| n)
            .sum();
        assert_eq!(slow, carried_in, "{protocol:?}");
        assert!(result.response_time_us.max.unwrap() > 600_000.0);
        assert_eq!(result.exchanges.carried_in, carried_in);
        compare(&result, &log(&played, &config)).unwrap();
    }
}

/// The server stalls for 1.2 s at 1,000 requests per second over 16 connections of HTTP/2, with a
/// time-out of 1 s. Most of the waiting requests are cancelled because another request of their
/// connection timed out. The percentiles include their waits.
#[test]
fn stall_longer_than_time_out_counts_in_percentiles() {
    let mut model = ServerModel::new(ServiceTime::Fixed { ns: 100_000 }, Queue::PerConnection);
    model.pauses.push(Pause { at_ns: 5 * SECOND, for_ns: 1200 * MS });
    let arrivals = Arrivals::Constant { rate: 1000.0 };
    let mut config = config(Protocol::H2c, (16, 100), &arrivals, window(0, 20_000));
    config.policy.timeout_ns = SECOND;
    let played = sim::simulate(World::new(1, model), config.clone());
    let result = result(&played, &config, &arrivals);
    let response = &result.response_time_us;
    assert!(response.unanswered > 900, "{response:?}");
    assert_eq!(response.count + response.unanswered, 20_000);
    // 5 % of all requests got no response, so p90 is the time of requests without a wait, and p99
    // is unknown.
    assert!(response.p90.unwrap() < 1000.0 && response.p99.is_none(), "{response:?}");
    assert!(response.longest_wait.unwrap() >= 999_000.0);
    assert!(result.unanswered_us["cancelled"].count > result.unanswered_us["timeout"].count);
    compare(&result, &log(&played, &config)).unwrap();
}

/// Little's law compares two separate records, times and counts. If the ages of unanswered requests
/// are removed, it fails.
#[test]
fn littles_law_finds_missing_times() {
    let mut model = ServerModel::new(ServiceTime::Fixed { ns: 5 * MS }, Queue::PerConnection);
    model.faults = vec![(Fault::Silence, 0.002)];
    let mut config = config(Protocol::H1, (8, 1), &Arrivals::Closed, window(100, 2000));
    config.policy.timeout_ns = 300 * MS;
    let played = sim::simulate(World::new(1, model), config.clone());
    let complete = result(&played, &config, &Arrivals::Closed);
    let error = |result: &LoadResult| {
        (result.in_flight.by_littles_law.unwrap() / result.in_flight.mean - 1.0).abs()
    };
    assert!(complete.response_time_us.unanswered > 3, "{:?}", complete.response_time_us);
    assert!(error(&complete) < 0.001, "{:?}", complete.in_flight);
    let mut without_ages = played;
    without_ages.report.unanswered.ages.clear();
    let without_ages = result(&without_ages, &config, &Arrivals::Closed);
    assert!(error(&without_ages) > 0.05, "{:?}", without_ages.in_flight);
    assert!(without_ages.caveats.iter().any(|c| c.code == Code::LITTLES_LAW));
    assert!(!without_ages.valid);
}

#[test]
fn median_longer_than_window_refuses_step() {
    for (service_ms, should_refuse) in [(1900, true), (100, false)] {
        let model =
            ServerModel::new(ServiceTime::Fixed { ns: service_ms * MS }, Queue::PerConnection);
        let config = config(Protocol::H1, (64, 1), &Arrivals::Closed, window(200, 1500));
        let played = sim::simulate(World::new(1, model), config.clone());
        let result = result(&played, &config, &Arrivals::Closed);
        let is_refused = result.caveats.iter().any(|c| c.code == Code::LONGER_THAN_WINDOW);
        assert_eq!(is_refused, should_refuse, "{:?}", result.response_time_us);
    }
}
