//! Compares measured times and counts over HTTP/2 with the times and counts of simulated worlds,
//! where the truth is known.

use std::sync::Arc;

use dyno_engine::sim::{
    self, Fault, Net, Pause, Queue, ServerModel, ServiceTime, SimulationResult, Theft, TheftTime,
    World,
};
use dyno_engine::slices::Slices;
use dyno_engine::traffic::{StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Expectation, Instant, Protocol, Schedule, Stop, Traffic, WorkerConfig,
};
use dyno_model::interval::Phase;
use dyno_model::load::Http2Use;
use dyno_model::outcome::Outcome;
use dyno_model::plan::Arrivals;
use dyno_model::times::Times;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;
use proptest::prelude::*;

use crate::world::{
    self, MS, SECOND, ages, assert_exponential, at_end, count_outcomes, relative_error, response,
};

/// A load over HTTP/2 with prior knowledge.
fn config(connections: u32, streams: u32, arrivals: &Arrivals, seconds: u64) -> WorkerConfig {
    WorkerConfig {
        protocol: Protocol::H2c,
        streams,
        traffic: traffic("GET", b"", b"Hello, World!"),
        ..world::config(connections, arrivals, seconds)
    }
}

/// Returns the configuration of a closed loop with a total number of requests, all in the measured
/// window.
fn closed_loop(connections: u32, streams: u32, total: u64) -> WorkerConfig {
    let mut config = config(connections, streams, &Arrivals::Closed, 1);
    config.total = Some(total);
    config.window.duration_ns = None;
    config
}

fn traffic(method: &str, body: &[u8], expected: &[u8]) -> Arc<Traffic> {
    mix(1, method, body, expected)
}

/// Traffic of requests that differ in their paths.
fn mix(requests: usize, method: &str, body: &[u8], expected: &[u8]) -> Arc<Traffic> {
    let fields = |index: usize| -> Vec<(Vec<u8>, Vec<u8>)> {
        let path = format!("/{index}");
        [
            (":method", method),
            (":scheme", "http"),
            (":authority", "sim"),
            (":path", &path),
            ("x", "y"),
        ]
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .to_vec()
    };
    let lists: Vec<_> = (0..requests).map(fields).collect();
    let shared = SharedFields::from_requests(&lists);
    let request = |list: &Vec<_>| CompiledRequest {
        template: Template::Fixed(Arc::from([])),
        upgrade: None,
        stream: Some(StreamTemplate::Fixed { block: shared.encode(list), body: Arc::from(body) }),
        kind: RequestKind::Other,
        expect: Expectation {
            status: Some(200),
            body: Some(Arc::from(expected)),
            ..Expectation::default()
        },
    };
    let weighted = lists.iter().map(|list| (request(list), 1)).collect();
    Arc::new(Traffic::new(weighted).unwrap().with_shared_bytes(shared.table_bytes()))
}

fn fixed(ns: u64) -> ServerModel {
    ServerModel::new(ServiceTime::Fixed { ns }, Queue::PerConnection)
}

fn faulty(faults: &[(Fault, f64)]) -> ServerModel {
    ServerModel { faults: faults.to_vec(), ..fixed(MS) }
}

fn fault_count(result: &SimulationResult, fault: Fault) -> u64 {
    result.truth.faults.get(&fault).copied().unwrap_or(0)
}

fn http2(result: &SimulationResult) -> &Http2Use {
    result.report.http2.as_ref().expect("HTTP/2 was requested")
}

fn outcome_count(result: &SimulationResult, outcome: Outcome) -> u64 {
    count_outcomes(result, &[Phase::Warmup, Phase::Measured, Phase::Drain]).get(outcome)
}

fn mean_in_flight(result: &SimulationResult, seconds: u64) -> f64 {
    let measured = result.intervals.iter().filter(|i| i.phase == Phase::Measured);
    measured.map(|i| i.in_flight_ns).sum::<u64>() as f64 / (seconds * SECOND) as f64
}

#[test]
fn in_flight_matches_requested_or_allowed_streams() {
    for (streams, allowed, per_connection) in
        [(10, None, 10u32), (10, Some(4), 4), (3, Some(100), 3), (5, Some(1), 1)]
    {
        let model = ServerModel { max_streams: allowed, ..fixed(MS) };
        let result = sim::simulate(World::new(1, model), config(8, streams, &Arrivals::Closed, 5));
        let expected = 8.0 * f64::from(per_connection);
        let in_flight = mean_in_flight(&result, 5);
        assert!((in_flight / expected - 1.0).abs() < 0.001, "{in_flight}, expected {expected}");
        // Each request takes 1 ms of service and two one-way delays of 10 µs.
        let ok = count_outcomes(&result, &[Phase::Measured]).get(Outcome::Ok) as f64;
        let rate = expected * 5e9 / 1_020_000.0;
        assert!((ok / rate - 1.0).abs() < 0.001, "{ok}, expected {rate}");
        let used = http2(&result);
        assert_eq!(
            (used.streams_granted, used.max_open_streams),
            (allowed, u64::from(per_connection))
        );
    }
}

/// Assigned exchanges that wait for a new connection respect the known limit after GOAWAY.
#[test]
fn in_flight_stays_within_limit_after_reconnects() {
    let mut model = faulty(&[(Fault::GoAway, 0.002)]);
    model.max_streams = Some(4);
    let result = sim::simulate(World::new(1, model), config(8, 10, &Arrivals::Closed, 5));
    assert!(fault_count(&result, Fault::GoAway) > 50);
    let in_flight = mean_in_flight(&result, 5);
    assert!((31.5..=32.05).contains(&in_flight), "{in_flight}");
}

#[test]
fn responses_on_streams_overtake_each_other() {
    let mean = 5e6;
    let model = ServerModel::new(ServiceTime::Exponential { mean_ns: mean }, Queue::PerConnection);
    let result = sim::simulate(World::new(3, model), config(1, 50, &Arrivals::Closed, 60));
    let response = response(&result);
    assert!(response.count() > 500_000);
    for q in [0.25, 0.5, 0.9, 0.99] {
        let truth = -mean * (1.0f64 - q).ln() + 20_000.0;
        assert!(
            relative_error(response.quantile(q), truth) < 0.02,
            "quantile {q}: {:?}, expected {truth}",
            response.quantile(q)
        );
    }
}

/// Queueing test over HTTP/2: Poisson arrivals into one queue with exponential service (M/M/1).
/// Response times are exponential with mean 1/(μ − λ).
#[test]
fn mm1_response_times_are_exponential_over_streams() {
    let (lambda, mu) = (500.0, 800.0);
    let model = ServerModel::new(ServiceTime::Exponential { mean_ns: 1e9 / mu }, Queue::Single);
    let mut world = World::new(3, model);
    world.net.delay_ns = 1;
    let result = sim::simulate(world, config(20, 100, &Arrivals::Poisson { rate: lambda }, 1000));
    assert_exponential(&response(&result), 1e9 / (mu - lambda));
}

#[test]
fn go_away_loses_no_request() {
    for seed in 0..10 {
        let mut world = World::new(seed, faulty(&[(Fault::GoAway, 0.02)]));
        world.net.cut = 0.3;
        let result = sim::simulate(world, closed_loop(4, 8, 5000));
        let books = result.report.books;
        assert_eq!(
            (books.scheduled, books.completed, books.failed),
            (5000, 5000, 0),
            "seed {seed}"
        );
        let used = http2(&result);
        assert!(used.retried > 50, "seed {seed}: {} retried", used.retried);
        let faults = fault_count(&result, Fault::GoAway);
        assert_eq!(used.received.go_aways["NO_ERROR"], faults, "seed {seed}");
        assert!(faults > 50, "seed {seed}");
        assert_eq!(outcome_count(&result, Outcome::Ok), 5000);
        // No request was processed twice.
        assert_eq!(result.truth.requests, 5000, "seed {seed}");
        assert!(result.report.connection_failures.is_empty());
    }
}

/// In an open loop a connection with room may receive GOAWAY before an arrival uses it.
#[test]
fn go_away_loses_no_arrival_in_open_loop() {
    for seed in 0..10 {
        let mut world = World::new(seed, faulty(&[(Fault::GoAway, 0.005)]));
        world.server.service = ServiceTime::Exponential { mean_ns: 20e6 };
        let result = sim::simulate(world, config(4, 50, &Arrivals::Poisson { rate: 2000.0 }, 5));
        let books = result.report.books;
        assert!(books.scheduled > 9000);
        assert_eq!((books.completed, books.failed), (books.scheduled, 0), "seed {seed}");
        assert!(fault_count(&result, Fault::GoAway) > 30, "seed {seed}");
        assert_eq!(result.truth.requests, books.scheduled, "seed {seed}");
    }
}

#[test]
fn refused_streams_are_retried() {
    let result =
        sim::simulate(World::new(1, faulty(&[(Fault::Refuse, 0.2)])), closed_loop(4, 8, 5000));
    let books = result.report.books;
    assert_eq!((books.completed, books.failed), (5000, 0));
    let refused = fault_count(&result, Fault::Refuse);
    assert!(refused > 1000);
    assert_eq!(http2(&result).retried, refused);
    assert_eq!(http2(&result).received.resets["REFUSED_STREAM"], refused);
    assert_eq!(result.truth.requests, 5000 + refused);
    assert_eq!(result.report.connections.opened, 4);
}

#[test]
fn streams_refused_on_every_try_are_refused() {
    let result =
        sim::simulate(World::new(1, faulty(&[(Fault::Refuse, 1.0)])), closed_loop(4, 8, 500));
    assert_eq!(result.report.books.failed, 500);
    assert_eq!(outcome_count(&result, Outcome::StreamRefused), 500);
    assert_eq!(http2(&result).retried, 500 * u64::from(dyno_engine::limits::RETRIES));
}

#[test]
fn stream_timeout_cancels_stream_and_keeps_connection() {
    let mut config = closed_loop(1, 8, 5000);
    config.policy.timeout_ns = 50 * MS;
    let result = sim::simulate(World::new(1, faulty(&[(Fault::Silence, 0.01)])), config);
    let silent = fault_count(&result, Fault::Silence);
    assert!(silent > 20);
    assert_eq!(outcome_count(&result, Outcome::Timeout), silent);
    assert_eq!(outcome_count(&result, Outcome::Ok), 5000 - silent);
    let used = http2(&result);
    assert_eq!(used.sent.resets.get("CANCEL"), Some(&silent));
    assert_eq!((result.report.connections.opened, used.connections), (1, 1));
    assert!(result.report.connection_failures.is_empty());
    assert_eq!(result.report.timeouts.nothing, silent);
}

/// The simulated server sends no 100 (Continue): each body is sent after a second.
#[test]
fn stream_body_is_sent_after_wait_for_continue() {
    let plain = traffic("POST", b"body", b"Hello, World!");
    let message = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody";
    let expecting = CompiledRequest {
        template: Template::Fixed(Arc::from(&message[..])),
        ..plain.requests()[0].clone()
    };
    let mut config = closed_loop(1, 2, 4);
    config.traffic = Arc::new(Traffic::single(expecting).with_shared_bytes(plain.shared_bytes()));
    let result = sim::simulate(World::new(1, fixed(MS)), config);
    assert_eq!(outcome_count(&result, Outcome::Ok), 4);
    let continues = result.report.continues.unwrap();
    assert_eq!((continues.asked, continues.waited_in_vain), (4, 4));
    assert_eq!(result.truth.bodies.into_iter().collect::<Vec<_>>(), [(b"body".to_vec(), 4)]);
}

/// A connection that has carried its share of requests is replaced even if its last event is a
/// time-out.
#[test]
fn used_up_connection_is_replaced_after_timeout() {
    for faults in [&[(Fault::Silence, 0.2)][..], &[(Fault::Silence, 0.2), (Fault::GoAway, 0.05)]] {
        let mut config = closed_loop(2, 3, 2000);
        config.policy.timeout_ns = 20 * MS;
        config.policy.requests_per_connection = Some(7);
        // The window bounds a load that would not end: the test fails instead.
        config.window.duration_ns = Some(600 * SECOND);
        let result = sim::simulate(World::new(1, faulty(faults)), config);
        let books = result.report.books;
        assert_eq!(books.completed + books.failed, 2000, "{books:?}");
        let outcomes = count_outcomes(&result, &[Phase::Measured, Phase::Drain]);
        assert_eq!(
            outcomes.get(Outcome::Ok) + outcomes.get(Outcome::Timeout),
            2000,
            "{outcomes:?}"
        );
    }
}

#[test]
fn first_byte_timeout_ends_only_its_stream() {
    let mut config = closed_loop(1, 8, 2000);
    config.policy.first_byte_timeout_ns = Some(30 * MS);
    let result = sim::simulate(World::new(1, faulty(&[(Fault::Silence, 0.01)])), config);
    let silent = fault_count(&result, Fault::Silence);
    assert_eq!(outcome_count(&result, Outcome::TimeoutFirstByte), silent);
    assert_eq!(outcome_count(&result, Outcome::Ok), 2000 - silent);
    assert_eq!(result.report.connections.opened, 1);
}

/// The server returns each window of 1,000 bytes as soon as the bytes arrive: 10,000 bytes take the
/// first trip and nine round trips of 20 µs.
#[test]
fn window_stalls_are_recorded() {
    let body: Vec<u8> = (0..10_000u32).map(|i| (i * 7) as u8).collect();
    let model = ServerModel { request_window: 1000, ..fixed(MS) };
    let mut config = closed_loop(2, 1, 1000);
    config.traffic = traffic("POST", &body, b"Hello, World!");
    let result = sim::simulate(World::new(1, model), config);
    assert_eq!(outcome_count(&result, Outcome::Ok), 1000);
    assert_eq!(result.truth.bodies.into_iter().collect::<Vec<_>>(), [(body, 1000)]);
    let stalls = Times::merge(result.intervals.iter().map(|i| &i.window_stall));
    assert_eq!(stalls.count(), 1000);
    for quantile in [0.0, 0.5, 1.0] {
        assert!(
            relative_error(stalls.quantile(quantile), 180_000.0) < 0.002,
            "{:?}",
            stalls.quantile(quantile)
        );
    }
}

/// Visitors with one connection each load a document and its twelve resources over the allowed
/// streams.
#[test]
fn page_time_follows_stream_rounds() {
    for (streams, allowed, rounds) in [(100, None, 2.0), (100, Some(6), 3.0), (1, None, 13.0)] {
        let model = ServerModel { max_streams: allowed, ..fixed(MS) };
        let mut config = config(3, streams, &Arrivals::Closed, 2);
        config.traffic = mix(13, "GET", b"", b"Hello, World!");
        config.page_connections = Some(1);
        let result = sim::simulate(World::new(1, model), config);
        let pages = Times::merge(result.intervals.iter().map(|i| &i.page));
        for quantile in [0.5, 1.0] {
            assert!(
                relative_error(pages.quantile(quantile), rounds * 1_020_000.0) < 0.002,
                "{streams}, {allowed:?}: {:?}",
                pages.quantile(quantile)
            );
        }
        assert!(result.report.books.balance());
        assert_eq!(result.report.books.failed, 0);
    }
}

#[test]
fn pages_continue_after_failures_over_streams() {
    for seed in 0..50 {
        let mut model =
            ServerModel::new(ServiceTime::Exponential { mean_ns: 200_000.0 }, Queue::PerConnection);
        model.faults = Fault::HTTP2.map(|fault| (fault, 0.004)).to_vec();
        model.max_streams = Some(5);
        model.turn_away = 0.1;
        let mut world = World::new(seed, model);
        world.net.cut = 0.2;
        world.net.refuse = 0.1;
        let mut config = config(3, 100, &Arrivals::Closed, 1);
        config.traffic = mix(8, "GET", b"", b"Hello, World!");
        config.page_connections = Some(1);
        config.policy.timeout_ns = SECOND / 10;
        let result = sim::simulate(world, config);
        assert!(result.report.books.balance(), "seed {seed}: {:?}", result.report.books);
        let pages = Times::merge(result.intervals.iter().map(|i| &i.page));
        let failed: u64 = result.intervals.iter().map(|i| i.pages_failed).sum();
        assert!(
            pages.count() > 10 && failed > 0,
            "seed {seed}: {} pages, {failed} failed",
            pages.count()
        );
    }
}

/// A window that the server never opens is a stall until the time-out.
#[test]
fn window_stall_until_timeout_is_recorded() {
    let model = ServerModel { request_window: 0, ..fixed(MS) };
    let mut config = closed_loop(1, 4, 40);
    config.traffic = traffic("POST", b"a body", b"Hello, World!");
    config.policy.timeout_ns = 50 * MS;
    let result = sim::simulate(World::new(1, model), config);
    assert_eq!(outcome_count(&result, Outcome::Ok), 0);
    let stalls = Times::merge(result.intervals.iter().map(|i| &i.window_stall));
    assert_eq!(stalls.count(), 40);
    assert!(stalls.min().unwrap() > 49 * MS, "{:?}", stalls.min());
}

/// Connections that receive GOAWAY immediately are reopened, with back-off.
#[test]
fn connection_with_immediate_go_away_is_reopened() {
    let mut model = fixed(MS);
    model.turn_away = 0.5;
    let mut config = closed_loop(4, 8, 2000);
    config.policy.requests_per_connection = Some(20);
    let result = sim::simulate(World::new(1, model.clone()), config.clone());
    assert_eq!((outcome_count(&result, Outcome::Ok), result.report.books.failed), (2000, 0));
    model.turn_away = 1.0;
    config.window.duration_ns = Some(3 * SECOND);
    let result = sim::simulate(World::new(1, model), config);
    assert!(result.report.books.balance());
    // Back-off: 4 slots, waits doubling from 1 ms to 100 ms.
    let opened = result.report.connections.opened;
    assert!((120..170).contains(&opened), "{opened}");
}

/// GOAWAY on every connection is a failed try. The ninth try is the last.
#[test]
fn go_away_on_every_try_ends_as_refused() {
    let model = ServerModel { turn_away: 1.0, ..fixed(MS) };
    let result = sim::simulate(World::new(1, model), closed_loop(4, 8, 40));
    let books = result.report.books;
    assert_eq!((books.failed, books.completed, books.balance()), (40, 0, true), "{books:?}");
    assert_eq!(outcome_count(&result, Outcome::StreamRefused), 40);
    assert_eq!(result.truth.requests, 0);
    // One connection per slot before the load, and nine for its assigned exchanges. The last eight
    // requests go to one slot.
    assert_eq!(result.report.connections.opened, 4 + 4 * 9 + 9);
    assert_eq!(http2(&result).retried, 0);
}

/// Requests queued after bytes that the server does not read never leave, and still time out.
#[test]
fn unsent_streams_time_out() {
    let model = ServerModel { reads: Some(1), ..fixed(MS) };
    let mut config = closed_loop(1, 4, 20);
    config.policy.timeout_ns = 50 * MS;
    let result = sim::simulate(World::new(1, model), config);
    assert_eq!((outcome_count(&result, Outcome::Timeout), result.report.books.failed), (20, 20));
    assert_eq!((result.truth.requests, result.report.connections.opened), (0, 5));
    let waits = ages(&result, Outcome::Timeout);
    assert!(waits.min().unwrap() > 49 * MS, "{:?}", waits.min());
}

/// Each connection to a server that allows no streams is given up, and its assigned requests fail.
#[test]
fn server_without_streams_refuses_all() {
    for (streams, total) in [(1, 3), (8, 10)] {
        let model = ServerModel { max_streams: Some(0), ..fixed(MS) };
        let result = sim::simulate(World::new(1, model), closed_loop(2, streams, total));
        let books = result.report.books;
        assert_eq!((books.failed, books.completed, books.balance()), (total, 0, true), "{books:?}");
        assert_eq!(outcome_count(&result, Outcome::StreamRefused), total);
        let failures = result.report.connection_failures["stream_refused"];
        assert_eq!((failures, result.truth.requests), (result.report.connections.opened, 0));
    }
}

#[test]
fn request_bodies_survive_splits_and_interleaving() {
    let body: Vec<u8> = (0..100_000u32).map(|i| (i * 31 / 7) as u8).collect();
    for seed in 0..5 {
        let mut world = World::new(seed, fixed(MS));
        world.net.cut = 0.8;
        let mut config = closed_loop(2, 6, 200);
        config.traffic = traffic("POST", &body, b"Hello, World!");
        let result = sim::simulate(world, config);
        assert_eq!(outcome_count(&result, Outcome::Ok), 200);
        assert_eq!(result.truth.bodies.get(&body), Some(&200));
        assert_eq!(result.truth.bodies.len(), 1);
    }
}

/// Responses blocked by our own windows arrive completely.
#[test]
fn responses_larger_than_windows_are_read() {
    let model =
        ServerModel { body: (0..200_000u32).map(|i| (i * 13) as u8).collect(), ..fixed(MS) };
    let mut config = closed_loop(2, 4, 200);
    config.traffic = traffic("GET", b"", &model.body);
    config.http2.window_bits = 10;
    config.http2.connection_window_bits = 16;
    let mut world = World::new(1, model);
    world.net.cut = 0.3;
    let result = sim::simulate(world, config);
    assert_eq!(outcome_count(&result, Outcome::Ok), 200);
    assert!(http2(&result).sent.frames["WINDOW_UPDATE"] > 200 * 190);
}

/// A fault of one stream affects no other stream.
#[test]
fn stream_fault_counts_match_injected_faults() {
    const FAULTS: [Fault; 7] = [
        Fault::Status,
        Fault::Body,
        Fault::Silence,
        Fault::StreamReset,
        Fault::Refuse,
        Fault::GoAway,
        Fault::Malformed,
    ];
    for seed in 0..10 {
        let mut world = World::new(seed, faulty(&FAULTS.map(|fault| (fault, 0.01))));
        world.net.cut = 0.3;
        let mut config = closed_loop(4, 6, 8000);
        config.policy.timeout_ns = 100 * MS;
        let result = sim::simulate(world, config);
        let mut failed = 0;
        for fault in FAULTS.into_iter().filter(|fault| fault.outcome() != Outcome::Ok) {
            assert_eq!(
                outcome_count(&result, fault.outcome()),
                fault_count(&result, fault),
                "seed {seed}, {fault:?}"
            );
            assert!(fault_count(&result, fault) > 40, "seed {seed}: too few of {fault:?}");
            failed += fault_count(&result, fault);
        }
        assert_eq!(outcome_count(&result, Outcome::Ok), 8000 - failed, "seed {seed}");
        let used = http2(&result);
        assert_eq!(
            used.sent.resets["PROTOCOL_ERROR"],
            fault_count(&result, Fault::Malformed),
            "seed {seed}"
        );
        assert_eq!(
            used.received.resets["INTERNAL_ERROR"],
            fault_count(&result, Fault::StreamReset),
            "seed {seed}"
        );
        assert_eq!(
            used.received.resets["REFUSED_STREAM"],
            fault_count(&result, Fault::Refuse),
            "seed {seed}"
        );
        let go_aways = fault_count(&result, Fault::GoAway);
        assert_eq!(used.received.go_aways["NO_ERROR"], go_aways, "seed {seed}");
        let refused = fault_count(&result, Fault::Refuse);
        assert_eq!(result.truth.requests, 8000 + refused, "seed {seed}");
    }
}

/// With one stream per connection, a failure of the connection affects one exchange.
#[test]
fn connection_fault_counts_match_injected_faults() {
    const FAULTS: [Fault; 3] = [Fault::Reset, Fault::CloseInBody, Fault::Garbage];
    for seed in 0..10 {
        let mut world = World::new(seed, faulty(&FAULTS.map(|fault| (fault, 0.01))));
        world.net.cut = 0.3;
        let result = sim::simulate(world, closed_loop(8, 1, 8000));
        for fault in FAULTS {
            assert_eq!(
                outcome_count(&result, fault.outcome()),
                fault_count(&result, fault),
                "seed {seed}, {fault:?}"
            );
            assert!(fault_count(&result, fault) > 40, "seed {seed}");
        }
        assert_eq!(result.truth.requests, 8000, "seed {seed}");
    }
}

/// A reset ends all streams of its connection, and no others.
#[test]
fn connection_reset_fails_only_its_streams() {
    let result =
        sim::simulate(World::new(1, faulty(&[(Fault::Reset, 0.002)])), closed_loop(4, 10, 10_000));
    let lost_exchanges = outcome_count(&result, Outcome::Reset);
    // A connection may draw a second reset before the first takes effect.
    let resets = result.report.connection_failures["reset"];
    assert!(resets > 5 && resets <= fault_count(&result, Fault::Reset));
    assert!(
        lost_exchanges > resets && lost_exchanges <= 10 * resets,
        "{lost_exchanges} lost by {resets}"
    );
    assert_eq!(outcome_count(&result, Outcome::Ok), 10_000 - lost_exchanges);
    // The last connections need not be reopened.
    let opened = result.report.connections.opened;
    assert!((resets..=4 + resets).contains(&opened), "{opened} for {resets}");
}

/// Whether the intervals are contiguous from the beginning of the load.
fn is_contiguous(result: &SimulationResult) -> bool {
    let ends_ns = std::iter::once(0).chain(result.intervals.iter().map(|interval| interval.end_ns));
    ends_ns.zip(&result.intervals).all(|(end, next)| next.start_ns == end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// The books balance in every world with HTTP/2, and contain everything that the server did.
    #[test]
    fn books_balance_for_every_seed(
        seed in any::<u64>(),
        connections in 1u32..12,
        streams in 1u32..9,
        allowed in proptest::option::of(1u32..9),
        arrivals in prop_oneof![
            Just(Arrivals::Closed),
            (10.0f64..3000.0).prop_map(|rate| Arrivals::Constant { rate }),
            (10.0f64..3000.0).prop_map(|rate| Arrivals::Poisson { rate }),
        ],
        service_us in 1u64..20_000,
        single in any::<bool>(),
        cut in 0.0f64..1.0,
        refuse in 0.0f64..0.3,
        odds in 0.0f64..0.03,
        sizes in (0usize..3000, 0usize..5000),
        windows in (1u32..2000, 10u8..18),
        per_connection in proptest::option::of(1u64..10),
        first_byte_ms in proptest::option::of(1u64..200),
        times_ms in (0u64..500, proptest::option::of(0u64..1500)),
    ) {
        let queue = if single { Queue::Single } else { Queue::PerConnection };
        let service = ServiceTime::Exponential { mean_ns: service_us as f64 * 1e3 };
        let mut model = ServerModel::new(service, queue);
        model.faults = Fault::HTTP2.map(|f| (f, odds)).to_vec();
        model.pauses.push(Pause { at_ns: 400 * MS, for_ns: 300 * MS });
        model.max_streams = allowed;
        model.request_window = windows.0;
        model.turn_away = refuse / 2.0;
        model.body = vec![b'b'; sizes.1];
        let mut config = config(connections, streams, &arrivals, 1);
        config.traffic = traffic("POST", &vec![b'a'; sizes.0], &model.body);
        config.http2.window_bits = windows.1;
        config.http2.connection_window_bits = windows.1;
        config.policy.requests_per_connection = per_connection;
        config.policy.timeout_ns = 150 * MS;
        config.policy.first_byte_timeout_ns = first_byte_ms.map(|ms| ms * MS);
        config.window.warmup_ns = times_ms.0 * MS;
        config.policy.ramp_ns = times_ms.1.map(|ms| ms * MS);
        let mut world = World::new(seed, model);
        world.net = Net { delay_ns: 20_000, cut, refuse };
        world.thefts.push(Theft { at_ns: 600 * MS, for_ns: 30 * MS, when: TheftTime::Working });
        let result = sim::simulate(world, config);
        let books = result.report.books;
        prop_assert!(books.balance(), "{:?}", books);
        let outcomes = count_outcomes(&result, &[Phase::Measured, Phase::Drain]);
        prop_assert_eq!(outcomes.completed_count(), books.completed);
        prop_assert_eq!(outcomes.total(), books.completed + books.failed);
        prop_assert_eq!(at_end(&result).count(), books.in_flight_at_end);
        let max_streams = u64::from(streams.min(allowed.unwrap_or(u32::MAX)));
        prop_assert!(http2(&result).max_open_streams <= max_streams);
        // No request waits forever: time-outs end requests in flight, and assigned requests find
        // connections.
        prop_assert!(arrivals != Arrivals::Closed || books.in_flight_at_end == 0, "{:?}", books);
        for body in result.truth.bodies.keys() {
            prop_assert_eq!(body.len(), sizes.0);
        }
        prop_assert!(is_contiguous(&result), "{:?}", result.intervals);
    }

    /// A worker that learns late of the end of the window, as it does over threads, loses no
    /// exchange.
    #[test]
    fn books_balance_when_window_ends_late(
        seed in any::<u64>(),
        turns in 1u32..400,
        at_ms in 0u64..400,
        open in any::<bool>(),
        warmup_ms in 0u64..300,
    ) {
        let mut model = ServerModel::new(ServiceTime::Exponential { mean_ns: 3e6 }, Queue::Single);
        model.faults = vec![(Fault::GoAway, 0.02), (Fault::Refuse, 0.02)];
        let arrivals = if open { Arrivals::Poisson { rate: 400.0 } } else { Arrivals::Closed };
        let mut config = config(3, 4, &arrivals, 2);
        config.window.warmup_ns = warmup_ms * MS;
        let mut turns_left = turns;
        let result = sim::simulate_until(World::new(seed, model), config, || {
            turns_left = turns_left.saturating_sub(1);
            if turns_left == 0 { Stop::At(Instant(at_ms * MS)) } else { Stop::No }
        });
        let books = result.report.books;
        prop_assert!(books.balance(), "{:?}", books);
        let outcomes = count_outcomes(&result, &[Phase::Measured, Phase::Drain]);
        prop_assert_eq!(outcomes.total(), books.completed + books.failed);
        prop_assert_eq!(outcomes.get(Outcome::Ok), outcomes.total());
    }

    /// The same seed gives the same intervals, to the last bucket.
    #[test]
    fn same_seed_gives_same_run(seed in any::<u64>()) {
        let simulate = || {
            let service = ServiceTime::Exponential { mean_ns: 2e6 };
            let mut model = ServerModel::new(service, Queue::PerConnection);
            model.faults = Fault::HTTP2.map(|f| (f, 0.02)).to_vec();
            let mut world = World::new(seed, model);
            world.net.cut = 0.5;
            let mut config = config(3, 4, &Arrivals::Poisson { rate: 300.0 }, 1);
            config.policy.timeout_ns = 100 * MS;
            sim::simulate(world, config).intervals
        };
        prop_assert_eq!(simulate(), simulate());
    }
}

/// Streams, like HTTP/1.1 requests, are opened only in the own slices. The connections stay open.
#[test]
fn sliced_load_opens_streams_only_in_its_slices() {
    let slices = Slices { length_ns: 40 * MS, loads: 2, index: 1, seed: 3 };
    let mut config = config(4, 8, &Arrivals::Closed, 1);
    config.schedule = Schedule::Sliced(slices);
    config.window.interval_ns = 10 * MS;
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    let result = sim::simulate(World::new(1, model), config);
    let own_slices = slices.slices_between(0, 2 * SECOND);
    let is_own = |from: u64| own_slices.iter().any(|(start, end)| (*start..*end).contains(&from));
    let intervals = result.intervals.iter().filter(|i| i.phase != Phase::Drain);
    let (inside, outside): (Vec<_>, Vec<_>) =
        intervals.partition(|interval| is_own(interval.start_ns));
    assert!(outside.iter().all(|interval| interval.started == 0));
    assert!(inside.iter().map(|interval| interval.started).sum::<u64>() > 1_000);
    assert!(result.report.books.balance(), "{:?}", result.report.books);
    assert_eq!(result.report.connections.opened, 4);
}
