//! The instrument over HTTP/2, graded against worlds whose truth is known.

mod world;

use std::sync::Arc;

use dyno_archive::interval::Phase;
use dyno_archive::load::Http2Use;
use dyno_archive::outcome::Outcome;
use dyno_archive::plan::Arrivals;
use dyno_archive::times::Times;
use dyno_engine::sim::{
    self, Fault, Net, Pause, Queue, ServerModel, ServiceTime, SimulationResult, Theft, TheftTime,
    World,
};
use dyno_engine::slices::Slices;
use dyno_engine::traffic::{StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Expectation, Instant, Protocol, Schedule, Stop, Traffic, WorkerConfig,
};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;
use proptest::prelude::*;
use world::{MS, SECOND, ages, assert_exponential, at_end, count_outcomes, off, response};

/// A load over HTTP/2 by prior knowledge.
fn config(connections: u32, streams: u32, arrivals: &Arrivals, seconds: u64) -> WorkerConfig {
    WorkerConfig {
        protocol: Protocol::H2c,
        streams,
        traffic: traffic("GET", b"", b"Hello, World!"),
        ..world::config(connections, arrivals, seconds)
    }
}

/// The same in a closed loop, until so many requests have ended: everything is within the measured
/// window.
fn config_of(connections: u32, streams: u32, total: u64) -> WorkerConfig {
    let mut config = config(connections, streams, &Arrivals::Closed, 1);
    config.total = Some(total);
    config.window.duration_ns = None;
    config
}

fn traffic(method: &str, body: &[u8], expected: &[u8]) -> Arc<Traffic> {
    mix(1, method, body, expected)
}

/// Requests that differ in their paths.
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
    Arc::new(Traffic::new(weighted).unwrap().sharing(shared.table_bytes()))
}

fn fixed(ns: u64) -> ServerModel {
    ServerModel::new(ServiceTime::Fixed { ns }, Queue::PerConnection)
}

fn faulty(faults: &[(Fault, f64)]) -> ServerModel {
    let mut model = fixed(MS);
    model.faults = faults.to_vec();
    model
}

fn fault_count(played: &SimulationResult, fault: Fault) -> u64 {
    played.truth.faults.get(&fault).copied().unwrap_or(0)
}

fn http2(played: &SimulationResult) -> &Http2Use {
    played.report.http2.as_ref().expect("HTTP/2 was asked for")
}

fn of_all(played: &SimulationResult, outcome: Outcome) -> u64 {
    count_outcomes(played, &[Phase::Warmup, Phase::Measured, Phase::Drain]).get(outcome)
}

fn mean_in_flight(played: &SimulationResult, seconds: u64) -> f64 {
    let measured = played.intervals.iter().filter(|i| i.phase == Phase::Measured);
    measured.map(|i| i.in_flight_ns).sum::<u64>() as f64 / (seconds * SECOND) as f64
}

#[test]
fn in_flight_are_as_many_as_were_asked_for_or_as_the_server_grants() {
    for (streams, granted, each) in
        [(10, None, 10u32), (10, Some(4), 4), (3, Some(100), 3), (5, Some(1), 1)]
    {
        let mut model = fixed(MS);
        model.max_streams = granted;
        let played = sim::play(World::new(1, model), config(8, streams, &Arrivals::Closed, 5));
        let expected = 8.0 * f64::from(each);
        let in_flight = mean_in_flight(&played, 5);
        assert!((in_flight / expected - 1.0).abs() < 0.001, "{in_flight} against {expected}");
        // Each takes 1 ms of service and two one-way delays of 10 µs.
        let ok = count_outcomes(&played, &[Phase::Measured]).get(Outcome::Ok) as f64;
        let rate = expected * 5e9 / 1_020_000.0;
        assert!((ok / rate - 1.0).abs() < 0.001, "{ok} against {rate}");
        let used = http2(&played);
        assert_eq!((used.streams_granted, used.streams_most), (granted, u64::from(each)));
    }
}

/// Also after the server has sent connections away: what waits for a new one is no more than it
/// will take.
#[test]
fn in_flight_are_no_more_than_granted_on_later_connections_either() {
    let mut model = faulty(&[(Fault::GoAway, 0.002)]);
    model.max_streams = Some(4);
    let played = sim::play(World::new(1, model), config(8, 10, &Arrivals::Closed, 5));
    assert!(fault_count(&played, Fault::GoAway) > 50);
    let in_flight = mean_in_flight(&played, 5);
    assert!((31.5..=32.05).contains(&in_flight), "{in_flight}");
}

#[test]
fn answers_may_overtake_each_other() {
    let mean = 5e6;
    let model = ServerModel::new(ServiceTime::Exponential { mean_ns: mean }, Queue::PerConnection);
    let played = sim::play(World::new(3, model), config(1, 50, &Arrivals::Closed, 60));
    let response = response(&played);
    assert!(response.count() > 500_000);
    for q in [0.25, 0.5, 0.9, 0.99] {
        let truth = -mean * (1.0f64 - q).ln() + 20_000.0;
        assert!(
            off(response.quantile(q), truth) < 0.02,
            "quantile {q}: {:?} against {truth}",
            response.quantile(q)
        );
    }
}

/// Poisson arrivals into one queue with exponential service: response times are exponential with
/// mean 1/(μ − λ).
#[test]
fn queueing_test_m_m_1_gives_the_exponential_it_must_over_streams() {
    let (lambda, mu) = (500.0, 800.0);
    let model = ServerModel::new(ServiceTime::Exponential { mean_ns: 1e9 / mu }, Queue::Single);
    let mut world = World::new(3, model);
    world.net.delay_ns = 1;
    let played = sim::play(world, config(20, 100, &Arrivals::Poisson { rate: lambda }, 1000));
    assert_exponential(&response(&played), 1e9 / (mu - lambda));
}

#[test]
fn servers_that_go_away_cost_no_request() {
    for seed in 0..10 {
        let mut world = World::new(seed, faulty(&[(Fault::GoAway, 0.02)]));
        world.net.cut = 0.3;
        let played = sim::play(world, config_of(4, 8, 5000));
        let books = played.report.books;
        assert_eq!(
            (books.scheduled, books.completed, books.failed),
            (5000, 5000, 0),
            "seed {seed}"
        );
        let used = http2(&played);
        assert!(used.retried > 50, "seed {seed}: {} retried", used.retried);
        let faults = fault_count(&played, Fault::GoAway);
        assert_eq!(used.received.go_aways["NO_ERROR"], faults, "seed {seed}");
        assert!(faults > 50, "seed {seed}");
        assert_eq!(of_all(&played, Outcome::Ok), 5000);
        // Nothing was dealt with twice.
        assert_eq!(played.truth.requests, 5000, "seed {seed}");
        assert!(played.report.connection_failures.is_empty());
    }
}

/// In an open loop a connection that has room may receive GOAWAY before an arrival uses it.
#[test]
fn servers_that_go_away_cost_no_arrival_either() {
    for seed in 0..10 {
        let mut world = World::new(seed, faulty(&[(Fault::GoAway, 0.005)]));
        world.server.service = ServiceTime::Exponential { mean_ns: 20e6 };
        let played = sim::play(world, config(4, 50, &Arrivals::Poisson { rate: 2000.0 }, 5));
        let books = played.report.books;
        assert!(books.scheduled > 9000);
        assert_eq!((books.completed, books.failed), (books.scheduled, 0), "seed {seed}");
        assert!(fault_count(&played, Fault::GoAway) > 30, "seed {seed}");
        assert_eq!(played.truth.requests, books.scheduled, "seed {seed}");
    }
}

#[test]
fn refused_streams_are_asked_for_again() {
    let played = sim::play(World::new(1, faulty(&[(Fault::Refuse, 0.2)])), config_of(4, 8, 5000));
    let books = played.report.books;
    assert_eq!((books.completed, books.failed), (5000, 0));
    let refused = fault_count(&played, Fault::Refuse);
    assert!(refused > 1000);
    assert_eq!(http2(&played).retried, refused);
    assert_eq!(http2(&played).received.resets["REFUSED_STREAM"], refused);
    assert_eq!(played.truth.requests, 5000 + refused);
    assert_eq!(played.report.connections.opened, 4);
}

#[test]
fn streams_that_are_refused_for_ever_end_as_that() {
    let played = sim::play(World::new(1, faulty(&[(Fault::Refuse, 1.0)])), config_of(4, 8, 500));
    assert_eq!(played.report.books.failed, 500);
    assert_eq!(of_all(&played, Outcome::StreamRefused), 500);
    assert_eq!(http2(&played).retried, 500 * u64::from(dyno_engine::limits::RETRIES));
}

#[test]
fn stream_that_times_out_is_cancelled_and_its_connection_goes_on() {
    let mut config = config_of(1, 8, 5000);
    config.policy.timeout_ns = 50 * MS;
    let played = sim::play(World::new(1, faulty(&[(Fault::Silence, 0.01)])), config);
    let silent = fault_count(&played, Fault::Silence);
    assert!(silent > 20);
    assert_eq!(of_all(&played, Outcome::Timeout), silent);
    assert_eq!(of_all(&played, Outcome::Ok), 5000 - silent);
    let used = http2(&played);
    assert_eq!(used.sent.resets.get("CANCEL"), Some(&silent));
    assert_eq!((played.report.connections.opened, used.connections), (1, 1));
    assert!(played.report.connection_failures.is_empty());
    assert_eq!(played.report.timeouts.nothing, silent);
}

/// The simulated server sends no 100: each body follows after a second.
#[test]
fn expected_continue_is_waited_for_on_streams() {
    let plain = traffic("POST", b"body", b"Hello, World!");
    let message = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody";
    let expecting = CompiledRequest {
        template: Template::Fixed(Arc::from(&message[..])),
        ..plain.requests()[0].clone()
    };
    let mut config = config_of(1, 2, 4);
    config.traffic = Arc::new(Traffic::one(expecting).sharing(plain.shared_bytes()));
    let played = sim::play(World::new(1, fixed(MS)), config);
    assert_eq!(of_all(&played, Outcome::Ok), 4);
    let continues = played.report.continues.unwrap();
    assert_eq!((continues.asked, continues.waited_in_vain), (4, 4));
    assert_eq!(played.truth.bodies.into_iter().collect::<Vec<_>>(), [(b"body".to_vec(), 4)]);
}

/// A connection that is used up is replaced, also if its last event is a time-out.
#[test]
fn connection_that_is_used_up_is_replaced_after_a_time_out_too() {
    for faults in [&[(Fault::Silence, 0.2)][..], &[(Fault::Silence, 0.2), (Fault::GoAway, 0.05)]] {
        let mut config = config_of(2, 3, 2000);
        config.policy.timeout_ns = 20 * MS;
        config.policy.requests_per_connection = Some(7);
        // A load that would never end fails instead.
        config.window.duration_ns = Some(600 * SECOND);
        let played = sim::play(World::new(1, faulty(faults)), config);
        let books = played.report.books;
        assert_eq!(books.completed + books.failed, 2000, "{books:?}");
        let outcomes = count_outcomes(&played, &[Phase::Measured, Phase::Drain]);
        assert_eq!(
            outcomes.get(Outcome::Ok) + outcomes.get(Outcome::Timeout),
            2000,
            "{outcomes:?}"
        );
    }
}

#[test]
fn silent_stream_misses_its_first_byte_alone() {
    let mut config = config_of(1, 8, 2000);
    config.policy.first_byte_timeout_ns = Some(30 * MS);
    let played = sim::play(World::new(1, faulty(&[(Fault::Silence, 0.01)])), config);
    let silent = fault_count(&played, Fault::Silence);
    assert_eq!(of_all(&played, Outcome::TimeoutFirstByte), silent);
    assert_eq!(of_all(&played, Outcome::Ok), 2000 - silent);
    assert_eq!(played.report.connections.opened, 1);
}

/// A window of 1,000 bytes is given back as soon as they have come: 10,000 take the first way and
/// nine rounds of 20 µs.
#[test]
fn windows_hold_requests_up_and_the_wait_is_recorded() {
    let body: Vec<u8> = (0..10_000u32).map(|i| (i * 7) as u8).collect();
    let mut model = fixed(MS);
    model.request_window = 1000;
    let mut config = config_of(2, 1, 1000);
    config.traffic = traffic("POST", &body, b"Hello, World!");
    let played = sim::play(World::new(1, model), config);
    assert_eq!(of_all(&played, Outcome::Ok), 1000);
    assert_eq!(played.truth.bodies.into_iter().collect::<Vec<_>>(), [(body, 1000)]);
    let stalls = Times::merge(played.intervals.iter().map(|i| &i.window_stall));
    assert_eq!(stalls.count(), 1000);
    for at in [0.0, 0.5, 1.0] {
        assert!(off(stalls.quantile(at), 180_000.0) < 0.002, "{:?}", stalls.quantile(at));
    }
}

/// Visitors with one connection each: the document, and its twelve resources over the streams there
/// are.
#[test]
fn page_takes_its_rounds_over_streams() {
    for (streams, granted, rounds) in [(100, None, 2.0), (100, Some(6), 3.0), (1, None, 13.0)] {
        let mut model = fixed(MS);
        model.max_streams = granted;
        let mut config = config(3, streams, &Arrivals::Closed, 2);
        config.traffic = mix(13, "GET", b"", b"Hello, World!");
        config.page_connections = Some(1);
        let played = sim::play(World::new(1, model), config);
        let pages = Times::merge(played.intervals.iter().map(|i| &i.page));
        for at in [0.5, 1.0] {
            assert!(
                off(pages.quantile(at), rounds * 1_020_000.0) < 0.002,
                "{streams}, {granted:?}: {:?}",
                pages.quantile(at)
            );
        }
        assert!(played.report.books.balance());
        assert_eq!(played.report.books.failed, 0);
    }
}

#[test]
fn pages_go_on_whatever_fails() {
    for seed in 0..50 {
        let mut model =
            ServerModel::new(ServiceTime::Exponential { mean_ns: 200_000.0 }, Queue::PerConnection);
        model.faults = Fault::OF_HTTP2.map(|fault| (fault, 0.004)).to_vec();
        model.max_streams = Some(5);
        model.turn_away = 0.1;
        let mut world = World::new(seed, model);
        world.net.cut = 0.2;
        world.net.refuse = 0.1;
        let mut config = config(3, 100, &Arrivals::Closed, 1);
        config.traffic = mix(8, "GET", b"", b"Hello, World!");
        config.page_connections = Some(1);
        config.policy.timeout_ns = SECOND / 10;
        let played = sim::play(world, config);
        assert!(played.report.books.balance(), "seed {seed}: {:?}", played.report.books);
        let pages = Times::merge(played.intervals.iter().map(|i| &i.page));
        let failed: u64 = played.intervals.iter().map(|i| i.pages_failed).sum();
        assert!(
            pages.count() > 10 && failed > 0,
            "seed {seed}: {} pages, {failed} failed",
            pages.count()
        );
    }
}

/// A server that never opens a window is a stall that lasts until the time-out.
#[test]
fn what_windows_hold_up_until_a_time_out_is_recorded_too() {
    let mut model = fixed(MS);
    model.request_window = 0;
    let mut config = config_of(1, 4, 40);
    config.traffic = traffic("POST", b"a body", b"Hello, World!");
    config.policy.timeout_ns = 50 * MS;
    let played = sim::play(World::new(1, model), config);
    assert_eq!(of_all(&played, Outcome::Ok), 0);
    let stalls = Times::merge(played.intervals.iter().map(|i| &i.window_stall));
    assert_eq!(stalls.count(), 40);
    assert!(stalls.min().unwrap() > 49 * MS, "{:?}", stalls.min());
}

/// Connections that are sent away at once are made anew, but not in an endless hurry.
#[test]
fn connections_that_are_turned_away_are_made_anew() {
    let mut model = fixed(MS);
    model.turn_away = 0.5;
    let mut config = config_of(4, 8, 2000);
    config.policy.requests_per_connection = Some(20);
    let played = sim::play(World::new(1, model.clone()), config.clone());
    assert_eq!((of_all(&played, Outcome::Ok), played.report.books.failed), (2000, 0));
    model.turn_away = 1.0;
    config.window.duration_ns = Some(3 * SECOND);
    let played = sim::play(World::new(1, model), config);
    assert!(played.report.books.balance());
    // Back-off: 4 slots, waits doubling from 1 ms to 100 ms.
    let opened = played.report.connections.opened;
    assert!((120..170).contains(&opened), "{opened}");
}

/// For ever, they are tries like any other: the ninth is the last.
#[test]
fn what_is_turned_away_on_every_try_is_refused() {
    let mut model = fixed(MS);
    model.turn_away = 1.0;
    let played = sim::play(World::new(1, model), config_of(4, 8, 40));
    let books = played.report.books;
    assert_eq!((books.failed, books.completed, books.balance()), (40, 0, true), "{books:?}");
    assert_eq!(of_all(&played, Outcome::StreamRefused), 40);
    assert_eq!(played.truth.requests, 0);
    // One of each slot before the load, and nine for what it is given together: the last eight go
    // to one slot.
    assert_eq!(played.report.connections.opened, 4 + 4 * 9 + 9);
    assert_eq!(http2(&played).retried, 0);
}

/// Requests queued behind bytes that the server does not read never leave, and are overdue all the
/// same.
#[test]
fn streams_that_cannot_leave_time_out() {
    let mut model = fixed(MS);
    model.reads = Some(1);
    let mut config = config_of(1, 4, 20);
    config.policy.timeout_ns = 50 * MS;
    let played = sim::play(World::new(1, model), config);
    assert_eq!((of_all(&played, Outcome::Timeout), played.report.books.failed), (20, 20));
    assert_eq!((played.truth.requests, played.report.connections.opened), (0, 5));
    let waits = ages(&played, Outcome::Timeout);
    assert!(waits.min().unwrap() > 49 * MS, "{:?}", waits.min());
}

/// A server that allows no stream is as good as none: each connection is given up, and what waited
/// for it has failed.
#[test]
fn server_that_allows_no_stream_refuses_all() {
    for (streams, total) in [(1, 3), (8, 10)] {
        let mut model = fixed(MS);
        model.max_streams = Some(0);
        let played = sim::play(World::new(1, model), config_of(2, streams, total));
        let books = played.report.books;
        assert_eq!((books.failed, books.completed, books.balance()), (total, 0, true), "{books:?}");
        assert_eq!(of_all(&played, Outcome::StreamRefused), total);
        let failures = played.report.connection_failures["stream_refused"];
        assert_eq!((failures, played.truth.requests), (played.report.connections.opened, 0));
    }
}

#[test]
fn bodies_arrive_whole_however_they_are_cut_and_shared() {
    let body: Vec<u8> = (0..100_000u32).map(|i| (i * 31 / 7) as u8).collect();
    for seed in 0..5 {
        let mut world = World::new(seed, fixed(MS));
        world.net.cut = 0.8;
        let mut config = config_of(2, 6, 200);
        config.traffic = traffic("POST", &body, b"Hello, World!");
        let played = sim::play(world, config);
        assert_eq!(of_all(&played, Outcome::Ok), 200);
        assert_eq!(played.truth.bodies.get(&body), Some(&200));
        assert_eq!(played.truth.bodies.len(), 1);
    }
}

/// Answers that our own windows hold up come whole.
#[test]
fn answers_larger_than_our_windows_are_read() {
    let mut model = fixed(MS);
    model.body = (0..200_000u32).map(|i| (i * 13) as u8).collect();
    let mut config = config_of(2, 4, 200);
    config.traffic = traffic("GET", b"", &model.body);
    config.http2.window_bits = 10;
    config.http2.connection_window_bits = 16;
    let mut world = World::new(1, model);
    world.net.cut = 0.3;
    let played = sim::play(world, config);
    assert_eq!(of_all(&played, Outcome::Ok), 200);
    assert!(http2(&played).sent.frames["WINDOW_UPDATE"] > 200 * 190);
}

/// A fault of one stream affects no other stream.
#[test]
fn faults_of_streams_are_counted_exactly_as_they_were_made() {
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
        let mut config = config_of(4, 6, 8000);
        config.policy.timeout_ns = 100 * MS;
        let played = sim::play(world, config);
        let mut failed = 0;
        for fault in FAULTS.into_iter().filter(|fault| fault.outcome() != Outcome::Ok) {
            assert_eq!(
                of_all(&played, fault.outcome()),
                fault_count(&played, fault),
                "seed {seed}, {fault:?}"
            );
            assert!(
                fault_count(&played, fault) > 40,
                "seed {seed}: too few of {fault:?} to prove anything"
            );
            failed += fault_count(&played, fault);
        }
        assert_eq!(of_all(&played, Outcome::Ok), 8000 - failed, "seed {seed}");
        let used = http2(&played);
        assert_eq!(
            used.sent.resets["PROTOCOL_ERROR"],
            fault_count(&played, Fault::Malformed),
            "seed {seed}"
        );
        assert_eq!(
            used.received.resets["INTERNAL_ERROR"],
            fault_count(&played, Fault::StreamReset),
            "seed {seed}"
        );
        assert_eq!(
            used.received.resets["REFUSED_STREAM"],
            fault_count(&played, Fault::Refuse),
            "seed {seed}"
        );
        let go_aways = fault_count(&played, Fault::GoAway);
        assert_eq!(used.received.go_aways["NO_ERROR"], go_aways, "seed {seed}");
        let refused = fault_count(&played, Fault::Refuse);
        assert_eq!(played.truth.requests, 8000 + refused, "seed {seed}");
    }
}

/// With one stream on each connection, what happens to the connection happens to it alone.
#[test]
fn faults_of_connections_are_counted_exactly_as_they_were_made() {
    const FAULTS: [Fault; 3] = [Fault::Reset, Fault::CloseInBody, Fault::Garbage];
    for seed in 0..10 {
        let mut world = World::new(seed, faulty(&FAULTS.map(|fault| (fault, 0.01))));
        world.net.cut = 0.3;
        let played = sim::play(world, config_of(8, 1, 8000));
        for fault in FAULTS {
            assert_eq!(
                of_all(&played, fault.outcome()),
                fault_count(&played, fault),
                "seed {seed}, {fault:?}"
            );
            assert!(fault_count(&played, fault) > 40, "seed {seed}");
        }
        assert_eq!(played.truth.requests, 8000, "seed {seed}");
    }
}

/// A reset takes all streams of its connection, and those of no other.
#[test]
fn connection_that_breaks_takes_its_streams() {
    let played =
        sim::play(World::new(1, faulty(&[(Fault::Reset, 0.002)])), config_of(4, 10, 10_000));
    let lost = of_all(&played, Outcome::Reset);
    // A connection that is to be reset may draw another reset before that.
    let resets = played.report.connection_failures["reset"];
    assert!(resets > 5 && resets <= fault_count(&played, Fault::Reset));
    assert!(lost > resets && lost <= 10 * resets, "{lost} lost by {resets}");
    assert_eq!(of_all(&played, Outcome::Ok), 10_000 - lost);
    // The last ones need not be made anew.
    let opened = played.report.connections.opened;
    assert!((resets..=4 + resets).contains(&opened), "{opened} for {resets}");
}

/// Whether the intervals follow each other from the load's beginning.
fn is_without_gaps(played: &SimulationResult) -> bool {
    let ends = std::iter::once(0).chain(played.intervals.iter().map(|interval| interval.end_ns));
    ends.zip(&played.intervals).all(|(end, next)| next.start_ns == end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// The books balance in every world of HTTP/2, and nothing the server did is missing from them.
    #[test]
    fn books_balance_for_every_seed(
        seed in any::<u64>(),
        connections in 1u32..12,
        streams in 1u32..9,
        granted in proptest::option::of(1u32..9),
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
        model.faults = Fault::OF_HTTP2.map(|f| (f, odds)).to_vec();
        model.pauses.push(Pause { at_ns: 400 * MS, for_ns: 300 * MS });
        model.max_streams = granted;
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
        let played = sim::play(world, config);
        let books = played.report.books;
        prop_assert!(books.balance(), "{:?}", books);
        let outcomes = count_outcomes(&played, &[Phase::Measured, Phase::Drain]);
        prop_assert_eq!(outcomes.completed_count(), books.completed);
        prop_assert_eq!(outcomes.total(), books.completed + books.failed);
        prop_assert_eq!(at_end(&played).count(), books.in_flight_at_end);
        let most = u64::from(streams.min(granted.unwrap_or(u32::MAX)));
        prop_assert!(http2(&played).streams_most <= most);
        // A request that waits for ever would be a gap. Time-outs end requests in flight, and the
        // others find connections.
        prop_assert!(arrivals != Arrivals::Closed || books.in_flight_at_end == 0, "{:?}", books);
        for body in played.truth.bodies.keys() {
            prop_assert_eq!(body.len(), sizes.0);
        }
        prop_assert!(is_without_gaps(&played), "{:?}", played.intervals);
    }

    /// A cut that reaches the worker after its instant, as it does over threads, loses no exchange.
    #[test]
    fn books_balance_when_a_load_is_cut_late(
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
        let mut left = turns;
        let played = sim::play_until(World::new(seed, model), config, || {
            left = left.saturating_sub(1);
            if left == 0 { Stop::At(Instant(at_ms * MS)) } else { Stop::No }
        });
        let books = played.report.books;
        prop_assert!(books.balance(), "{:?}", books);
        let outcomes = count_outcomes(&played, &[Phase::Measured, Phase::Drain]);
        prop_assert_eq!(outcomes.total(), books.completed + books.failed);
        prop_assert_eq!(outcomes.get(Outcome::Ok), outcomes.total());
    }

    /// The same seed gives the same run, to the last bucket.
    #[test]
    fn run_is_a_function_of_its_seed(seed in any::<u64>()) {
        let play = || {
            let service = ServiceTime::Exponential { mean_ns: 2e6 };
            let mut model = ServerModel::new(service, Queue::PerConnection);
            model.faults = Fault::OF_HTTP2.map(|f| (f, 0.02)).to_vec();
            let mut world = World::new(seed, model);
            world.net.cut = 0.5;
            let mut config = config(3, 4, &Arrivals::Poisson { rate: 300.0 }, 1);
            config.policy.timeout_ns = 100 * MS;
            sim::play(world, config).intervals
        };
        prop_assert_eq!(play(), play());
    }
}

/// Streams, like requests of HTTP/1.1, are opened in the own slices alone; the connections stay.
#[test]
fn load_that_alternates_opens_streams_in_its_slices() {
    let slices = Slices { length_ns: 40 * MS, of: 2, own: 1, seed: 3 };
    let mut config = config(4, 8, &Arrivals::Closed, 1);
    config.schedule = Schedule::Sliced(slices);
    config.window.interval_ns = 10 * MS;
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    let played = sim::play(World::new(1, model), config);
    let own = slices.slices_between(0, 2 * SECOND);
    let is_own = |from: u64| own.iter().any(|(start, end)| (*start..*end).contains(&from));
    let within = played.intervals.iter().filter(|i| i.phase != Phase::Drain);
    let (inside, outside): (Vec<_>, Vec<_>) =
        within.partition(|interval| is_own(interval.start_ns));
    assert!(outside.iter().all(|interval| interval.started == 0));
    assert!(inside.iter().map(|interval| interval.started).sum::<u64>() > 1_000);
    assert!(played.report.books.balance(), "{:?}", played.report.books);
    assert_eq!(played.report.connections.opened, 4);
}
