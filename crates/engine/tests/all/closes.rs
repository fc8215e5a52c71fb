//! Connections that the server closes, retries of their requests, and loads that are stopped early.
//! In simulated worlds.

use std::collections::BTreeSet;
use std::sync::Arc;

use dyno_engine::schedule::Stripe;
use dyno_engine::sim::{
    self, ExpectBehavior, Fault, Pause, Queue, ServerModel, ServiceTime, SimulationResult, Theft,
    TheftTime, World,
};
use dyno_engine::traffic::{FieldPiece, RequestPart, StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Expectation, Instant, Protocol, Schedule, Stop, Traffic, WorkerConfig,
};
use dyno_model::interval::Phase;
use dyno_model::outcome::Outcome;
use dyno_model::plan::Arrivals;
use dyno_model::silence;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;
use proptest::prelude::*;

use crate::world::{self, MS, SECOND, ages, at_end, count_outcomes};

fn request(bytes: &str) -> CompiledRequest {
    CompiledRequest::from_bytes(
        bytes.as_bytes(),
        RequestKind::Other,
        Expectation { status: Some(200), ..Expectation::default() },
    )
}

/// A closed loop with a total number of these requests over HTTP/1.1, all in the measured window.
fn closed_loop(connections: u32, pipeline: u32, total: u64, requests: &[&str]) -> WorkerConfig {
    let mut config = world::config(connections, &Arrivals::Closed, 1);
    config.pipeline = pipeline;
    config.total = Some(total);
    config.window.duration_ns = None;
    config.traffic =
        Arc::new(Traffic::new(requests.iter().map(|r| (request(r), 1)).collect()).unwrap());
    config
}

/// An HTTP/2 request with this body.
fn stream_request(body: Vec<RequestPart>) -> CompiledRequest {
    let list: Vec<(Vec<u8>, Vec<u8>)> =
        [(":method", "POST"), (":scheme", "http"), (":authority", "sim"), (":path", "/")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
    let fields = vec![FieldPiece::Fixed(SharedFields::default().encode(&list))];
    CompiledRequest {
        template: Template::Fixed(Arc::from([])),
        upgrade: None,
        stream: Some(StreamTemplate::Varying { fields, body }),
        kind: RequestKind::Other,
        expect: Expectation { status: Some(200), ..Expectation::default() },
    }
}

fn faulty(faults: &[(Fault, f64)]) -> ServerModel {
    let mut model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    model.faults = faults.to_vec();
    model
}

fn outcome_count(result: &SimulationResult, outcome: Outcome) -> u64 {
    count_outcomes(result, &[Phase::Warmup, Phase::Measured, Phase::Drain]).get(outcome)
}

fn sent_bytes(result: &SimulationResult) -> u64 {
    result.intervals.iter().map(|interval| interval.bytes_sent).sum()
}

/// A duplicate response is detected immediately, later or, in pipelines, only at their end. All
/// earlier responses of the connection are then in doubt.
#[test]
fn duplicate_response_puts_earlier_ones_in_doubt() {
    for (pipeline, cut) in [(1, 0.0), (1, 1.0), (8, 0.0), (8, 0.5)] {
        let mut world = World::new(3, faulty(&[(Fault::Twice, 1.0)]));
        world.net.cut = cut;
        let result = sim::simulate(world, closed_loop(3, pipeline, 300, &[GET]));
        let connections = result.report.connections;
        let in_doubt = connections.unsolicited_after.unwrap_or(0);
        assert!(connections.unsolicited > 0 && in_doubt > 0, "{pipeline} {cut}: {connections:?}");
        // Every connection had one response too many, and each was detected.
        assert_eq!(in_doubt, result.report.books.completed, "{pipeline} {cut}: {connections:?}");
        assert!(result.report.books.balance(), "{:?}", result.report.books);
    }
}

#[test]
fn extra_response_after_last_is_detected() {
    for seed in 0..40 {
        let mut world = World::new(seed, faulty(&[(Fault::Twice, 1.0)]));
        world.net.cut = 1.0;
        let result = sim::simulate(world, closed_loop(1, 1, 1, &[GET]));
        let connections = result.report.connections;
        assert_eq!(
            (connections.unsolicited, connections.unsolicited_after),
            (1, Some(1)),
            "seed {seed}"
        );
    }
    let correct = sim::simulate(World::new(1, faulty(&[])), closed_loop(4, 8, 200, &[GET]));
    assert_eq!(correct.report.connections.unsolicited_after, None);
}

/// Several workers observe the pause of a server. Their common silence is the pause.
#[test]
fn server_pause_is_silence_of_all_workers() {
    let workers = (1..4).map(|seed| {
        let mut model = faulty(&[]);
        model.pauses.push(Pause { at_ns: 300 * MS, for_ns: 200 * MS });
        sim::simulate(World::new(seed, model), world::config(2, &Arrivals::Closed, 1))
            .report
            .silences
    });
    let common = workers.reduce(|a, b| silence::common(&a, &b)).unwrap();
    let silences = silence::long_silences(&common, (0, SECOND));
    let [pause] = silences[..] else { panic!("{silences:?}") };
    assert!((200 * MS..205 * MS).contains(&pause.length_ns()), "{pause:?}");
    assert_eq!(pause.in_flight, 6);
}

/// A pause of the server is one silence, with one or several connections, with pipelines, and at
/// the end of the window.
#[test]
fn server_pause_is_silence_at_any_depth() {
    for (connections, pipeline, at_ms) in
        [(1, 1, 300), (1, 8, 300), (4, 8, 300), (1, 1, 950), (1, 8, 950)]
    {
        let mut model = faulty(&[]);
        model.pauses.push(Pause { at_ns: at_ms * MS, for_ns: 200 * MS });
        let config = WorkerConfig { pipeline, ..world::config(connections, &Arrivals::Closed, 1) };
        let result = sim::simulate(World::new(7, model), config);
        let silences = silence::long_silences(&result.report.silences, result.report.window_ns);
        let case = format!("{connections} connections, {pipeline} in each, at {at_ms} ms");
        let [pause] = silences[..] else { panic!("{case}: {silences:?}") };
        let length_ms = (1000 - at_ms).min(200);
        assert!(
            (length_ms..length_ms + 5).contains(&(pause.length_ns() / MS)),
            "{case}: {pause:?}"
        );
        assert!(
            pause.in_flight >= 1 && pause.in_flight <= u64::from(connections * pipeline),
            "{case}"
        );
    }
}

/// Time-outs, and waits before the next attempts to connect, do not split the silence of a pause.
#[test]
fn pause_with_failing_requests_is_one_silence() {
    for (timeout_ms, at_ms) in [(20, 300), (80, 300), (20, 700), (250, 700)] {
        let mut model = faulty(&[]);
        model.pauses.push(Pause { at_ns: at_ms * MS, for_ns: 400 * MS });
        let mut config = world::config(2, &Arrivals::Closed, 1);
        config.policy.timeout_ns = timeout_ms * MS;
        config.policy.connect_timeout_ns = timeout_ms * MS;
        let result = sim::simulate(World::new(7, model), config);
        let silences = silence::long_silences(&result.report.silences, result.report.window_ns);
        let case = format!("time-out {timeout_ms} ms, at {at_ms} ms");
        let [pause] = silences[..] else { panic!("{case}: {silences:?}") };
        let length_ms = (1000 - at_ms).min(400);
        // The silence lasts until the next attempt to connect after the pause.
        let waits_ms = timeout_ms + 260;
        assert!(
            (length_ms..=length_ms + waits_ms).contains(&pause.length_ns().div_ceil(MS)),
            "{case}: {pause:?}"
        );
        assert!(pause.failures_ns.is_some(), "{case}: {pause:?}");
    }
}

/// A steady load and an idle one have no silence.
#[test]
fn slow_or_idle_load_has_no_silence() {
    let steady = sim::simulate(World::new(1, faulty(&[])), world::config(2, &Arrivals::Closed, 1));
    let silences = |result: &SimulationResult| {
        silence::long_silences(&result.report.silences, result.report.window_ns)
    };
    assert_eq!(silences(&steady), []);
    // Ten arrivals per second, each with an immediate response.
    let idle = world::config(2, &Arrivals::Constant { rate: 10.0 }, 1);
    assert_eq!(silences(&sim::simulate(World::new(1, faulty(&[])), idle)), []);
    // Two arrivals per second, which all fail at once. The load is idle between them.
    let failing = world::config(2, &Arrivals::Constant { rate: 2.0 }, 1);
    let world = World::new(1, faulty(&[(Fault::Reset, 1.0)]));
    assert_eq!(silences(&sim::simulate(world, failing)), []);
}

const GET: &str = "GET / HTTP/1.1\r\nHost: sim\r\n\r\n";
const GET_CLOSE: &str = "GET / HTTP/1.1\r\nHost: sim\r\nConnection: close\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: sim\r\nContent-Length: 2\r\n\r\nok";

/// The simulated server keeps the connection open: only the request announces its end.
#[test]
fn request_with_close_ends_its_connection() {
    for pipeline in [1, 8] {
        let result =
            sim::simulate(World::new(1, faulty(&[])), closed_loop(4, pipeline, 200, &[GET_CLOSE]));
        assert_eq!((outcome_count(&result, Outcome::Ok), result.truth.requests), (200, 200));
        let connections = result.report.connections;
        assert_eq!((connections.opened, connections.closed_by_us), (200, 200), "{connections:?}");
    }
}

#[test]
fn requests_before_close_share_its_connection() {
    let result = sim::simulate(
        World::new(1, faulty(&[])),
        closed_loop(4, 8, 2000, &[GET, GET, GET, GET_CLOSE]),
    );
    assert_eq!((outcome_count(&result, Outcome::Ok), result.report.books.failed), (2000, 0));
    // One in four requests ends its connection; the standard deviation is 19.
    let opened = result.report.connections.opened;
    assert!((400..600).contains(&opened), "{opened}");
}

#[test]
fn requests_lost_after_announced_close_are_retried() {
    let result = sim::simulate(
        World::new(1, faulty(&[(Fault::PoliteClose, 0.1)])),
        closed_loop(2, 8, 3000, &[GET]),
    );
    assert_eq!((result.report.books.completed, result.report.books.failed), (3000, 0));
    assert_eq!(outcome_count(&result, Outcome::Ok), 3000);
    let closes = result.truth.faults[&Fault::PoliteClose];
    let retries = result.report.connections.asked_again;
    assert!(
        closes > 200 && retries > 2 * closes && retries < 8 * closes,
        "{retries} retries for {closes} closes"
    );
    assert!(
        result.report.connection_failures.is_empty(),
        "{:?}",
        result.report.connection_failures
    );
}

/// Constant arrivals over ten connections with a limit of requests per connection. Connecting takes
/// a round trip of 20 ms.
fn replaced_connections(
    protocol: Protocol,
    rate: f64,
    per_connection: u64,
) -> (World, WorkerConfig) {
    let mut world = World::new(1, faulty(&[]));
    world.net.delay_ns = 10 * MS;
    let mut config = closed_loop(10, 1, 0, &[GET]);
    config.total = None;
    config.window.duration_ns = Some(SECOND);
    config.window.interval_ns = 100 * MS;
    config.schedule = world::config(10, &Arrivals::Constant { rate }, 1).schedule;
    config.policy.requests_per_connection = Some(per_connection);
    if protocol == Protocol::H2c {
        config.protocol = protocol;
        config.traffic = Arc::new(Traffic::single(stream_request(Vec::new())));
    }
    (world, config)
}

#[test]
fn open_loop_reopens_connections_ahead_of_requests() {
    for (protocol, per_connection) in [(Protocol::H1, 1), (Protocol::H1, 3), (Protocol::H2c, 1)] {
        // A request and the next connection take 42 ms, or 62 ms with the HTTP/2 preface. At 100
        // per second ten connections suffice.
        let (world, config) = replaced_connections(protocol, 100.0, per_connection);
        let result = sim::simulate(world, config);
        assert_eq!(outcome_count(&result, Outcome::Ok), 100, "{protocol:?}");
        let lag = world::times(&result, |interval| &interval.times.send_lag);
        assert!(
            lag.max().unwrap() < MS,
            "{protocol:?}, {per_connection} per connection: {:?}",
            lag.max()
        );
        for interval in result.intervals.iter().filter(|i| i.phase == Phase::Measured) {
            let open = interval.connections_open;
            assert!(open >= 3, "{protocol:?}, {per_connection} per connection: {open} open");
        }
    }
}

/// No connection is opened after the last request, whether a total or the window ends the load.
#[test]
fn open_loop_opens_nothing_after_its_last_request() {
    for (rate, total) in [(20.0, None), (20.0, Some(20)), (40.0, Some(20))] {
        let (world, config) = replaced_connections(Protocol::H1, rate, 1);
        let result = sim::simulate(world, WorkerConfig { total, ..config });
        assert_eq!(outcome_count(&result, Outcome::Ok), 20);
        // Each earlier request had its response, and its connection was replaced, before the next
        // request was intended.
        assert_eq!(result.report.connections.opened, 10 + 19, "{total:?} at {rate}");
    }
}

/// Half of all attempts to connect are refused, including those that no request waits for.
#[test]
fn open_loop_books_balance_when_reopening_fails() {
    let (mut world, config) = replaced_connections(Protocol::H1, 100.0, 1);
    world.net.refuse = 0.5;
    let result = sim::simulate(world, config);
    let books = result.report.books;
    assert!(books.balance(), "{books:?}");
    assert_eq!(
        outcome_count(&result, Outcome::Ok) + outcome_count(&result, Outcome::ConnectRefused),
        100
    );
}

/// A pipelined load ends even if the server closes after every response.
#[test]
fn pipeline_ends_if_server_closes_after_each_response() {
    let result = sim::simulate(
        World::new(1, faulty(&[(Fault::PoliteClose, 1.0)])),
        closed_loop(1, 32, 500, &[GET]),
    );
    assert_eq!((result.report.books.completed, result.report.books.failed), (500, 0));
    assert_eq!(result.report.connections.opened, 500);
}

/// The server may have processed the request.
#[test]
fn non_idempotent_request_is_not_retried() {
    let result = sim::simulate(
        World::new(1, faulty(&[(Fault::PoliteClose, 0.1)])),
        closed_loop(2, 8, 3000, &[POST]),
    );
    let lost_exchanges = outcome_count(&result, Outcome::ClosedEarly);
    assert!(lost_exchanges > 300, "{lost_exchanges}");
    assert_eq!(
        (outcome_count(&result, Outcome::Ok), result.report.connections.asked_again),
        (3000 - lost_exchanges, 0)
    );
}

/// An unannounced close is the server's failure.
#[test]
fn requests_lost_after_unannounced_close_fail() {
    let result = sim::simulate(
        World::new(1, faulty(&[(Fault::CloseInBody, 0.1)])),
        closed_loop(2, 8, 3000, &[GET]),
    );
    assert!(outcome_count(&result, Outcome::ClosedEarly) > 300);
    assert_eq!(result.report.connections.asked_again, 0);
}

/// The server resets connections when a request arrives. A reset of an idle connection may have
/// crossed the request, which is repeated once.
#[test]
fn request_that_crosses_idle_close_is_repeated_once() {
    let simulate_after = |ns: u64, fault: Fault, rate: f64, request: &str| {
        let mut config = closed_loop(1, 1, 100, &[request]);
        config.schedule = world::config(1, &Arrivals::Constant { rate }, 1).schedule;
        let model = ServerModel { service: ServiceTime::Fixed { ns }, ..faulty(&[(fault, 0.3)]) };
        let result = sim::simulate(World::new(1, model), config);
        assert!(result.report.books.balance(), "{:?}", result.report.books);
        let failed = outcome_count(&result, fault.outcome());
        let connections = result.report.connections;
        assert_eq!(connections.asked_again_idle, connections.asked_again);
        (failed, connections.asked_again, result.truth.faults[&fault])
    };
    let simulate =
        |fault: Fault, rate: f64, request: &str| simulate_after(MS, fault, rate, request);
    let (failed, repeated, resets) = simulate(Fault::Reset, 1.0, GET);
    assert!(failed > 0 && repeated > failed, "{failed} failed, {repeated} repeated");
    assert_eq!(failed + repeated, resets);
    // After more than a round trip, the close is an answer to the request.
    let (failed, repeated, resets) = simulate_after(101 * MS, Fault::Reset, 1.0, GET);
    assert_eq!((failed, repeated), (resets, 0));
    for (fault, rate, request) in [
        // The connection was not idle.
        (Fault::Reset, 4.0, GET),
        (Fault::Reset, 1.0, POST),
        // A part of the response has arrived.
        (Fault::CloseInBody, 1.0, GET),
    ] {
        let (failed, repeated, faults) = simulate(fault, rate, request);
        assert_eq!((failed, repeated), (faults, 0), "{fault:?} at {rate}/s, {request:?}");
    }
}

/// The server announces how long it keeps idle connections open. A request that could cross the
/// close goes to a new connection, also one that must not be repeated.
#[test]
fn connection_that_has_idled_out_takes_no_request() {
    let simulate = |keep_alive_s: Option<u64>, per_second: f64| {
        let mut config = closed_loop(1, 1, 10, &[POST]);
        config.schedule = world::config(1, &Arrivals::Constant { rate: per_second }, 1).schedule;
        let model = ServerModel { keep_alive_s, ..faulty(&[]) };
        let result = sim::simulate(World::new(1, model), config);
        assert_eq!((outcome_count(&result, Outcome::Ok), result.report.books.failed), (10, 0));
        let connections = result.report.connections;
        assert!(connections.closed_by_us >= connections.opened - 1, "{connections:?}");
        connections.opened
    };
    assert_eq!((simulate(None, 0.1), simulate(Some(60), 0.1)), (1, 1));
    // Between two requests, the connection is idle for 10 s, less the service time.
    assert_eq!((simulate(Some(10), 0.1), simulate(Some(11), 0.1)), (10, 1));
    // A second of idle time ends 100 ms early.
    assert_eq!((simulate(Some(1), 1.1), simulate(Some(1), 1.2)), (10, 1));
}

/// The notice of the close of an idle connection (status 408) crosses four requests of a pipeline,
/// which are repeated in their order.
#[test]
fn pipeline_that_crosses_close_notice_keeps_its_order() {
    let bytes = |text: &str| RequestPart::Bytes(text.as_bytes().into());
    let mut numbered = request(GET);
    let head = vec![
        bytes("GET /"),
        RequestPart::Intended,
        bytes("/"),
        RequestPart::Sequence,
        bytes(" HTTP/1.1\r\nHost: sim\r\n\r\n"),
    ];
    numbered.template = Template::Varying { head, body: Vec::new() };
    let bursts = (0..50).flat_map(|second| (0..4).map(move |n| second * SECOND + n * 1000));
    let trace: Arc<[u64]> = bursts.collect();
    let arrivals = Arrivals::Trace { file: String::new(), count: 200, sha256: String::new() };
    let mut config = closed_loop(1, 8, 200, &[GET]);
    config.schedule = Schedule::new(&arrivals, &trace, 1, Stripe { worker: 0, workers: 1 });
    config.traffic = Arc::new(Traffic::single(numbered));
    let result = sim::simulate(World::new(1, faulty(&[(Fault::CloseNotice, 0.2)])), config);
    let connections = result.report.connections;
    let (idle, all) = (connections.asked_again_idle, connections.asked_again);
    assert!(idle > 0 && all > idle, "{connections:?}");
    let numbers: Vec<u64> = result.truth.accepted.iter().map(|r| r.request.number).collect();
    assert!(numbers.len() > 100 && numbers.is_sorted(), "{numbers:?}");
}

/// A generator that always wakes late finds the response and the close together. The next request
/// is queued between the two, and leaves on the next connection.
#[test]
fn unsent_request_moves_to_next_connection() {
    for requests in [&[GET][..], &[POST]] {
        let mut world = World::new(1, faulty(&[(Fault::QuietClose, 1.0)]));
        world.thefts = vec![Theft { at_ns: 0, for_ns: 1000, when: TheftTime::Asleep }; 10_000];
        let result = sim::simulate(world, closed_loop(2, 1, 200, requests));
        assert_eq!((outcome_count(&result, Outcome::Ok), result.report.books.failed), (200, 0));
        assert_eq!((result.truth.requests, result.report.connections.opened), (200, 200));
        assert!(
            result.report.connection_failures.is_empty(),
            "{:?}",
            result.report.connection_failures
        );
    }
}

/// The server responds to the first request and then stops reading. The second request never
/// leaves, and its time-out begins when it was queued.
#[test]
fn unsent_request_times_out() {
    let mut model = faulty(&[]);
    model.reads = Some(1);
    let mut config = closed_loop(2, 1, 20, &[POST]);
    config.policy.timeout_ns = 50 * MS;
    config.policy.first_byte_timeout_ns = Some(20 * MS);
    let result = sim::simulate(World::new(1, model), config);
    assert_eq!(
        (outcome_count(&result, Outcome::Ok), outcome_count(&result, Outcome::Timeout)),
        (10, 10)
    );
    // Bytes that never left are not included in the sent bytes.
    assert_eq!(sent_bytes(&result), 10 * POST.len() as u64);
    assert!(result.report.books.balance(), "{:?}", result.report.books);
    let waits = ages(&result, Outcome::Timeout);
    for quantile in [0.0, 1.0] {
        assert!(
            world::relative_error(waits.quantile(quantile), 50e6) < 0.002,
            "{:?}",
            waits.quantile(quantile)
        );
    }
}

/// The oldest request times out, and its connection is closed.
#[test]
fn unsent_pipeline_times_out() {
    let mut model = faulty(&[]);
    model.reads = Some(1);
    let mut config = closed_loop(3, 4, 300, &[GET]);
    config.policy.timeout_ns = 50 * MS;
    let result = sim::simulate(World::new(1, model), config);
    let [ok, timed_out, cancelled] = [Outcome::Ok, Outcome::Timeout, Outcome::Cancelled]
        .map(|outcome| outcome_count(&result, outcome));
    assert_eq!(ok + timed_out + cancelled, 300);
    assert!(ok > 100 && timed_out > 20, "{ok} correct, {timed_out} timed out");
    assert_eq!(result.report.connection_failures["timeout"], timed_out);
}

/// Bodies contain the number of the request and a random value. Each number must arrive with one
/// body, however often it was sent.
#[test]
fn retried_request_has_same_body() {
    let body =
        vec![RequestPart::Sequence, RequestPart::Bytes(Box::from(&b" "[..])), RequestPart::Uuid];
    let mut config = closed_loop(4, 1, 2000, &[GET]);
    config.protocol = Protocol::H2c;
    config.streams = 8;
    config.traffic = Arc::new(Traffic::single(stream_request(body)));
    let model = faulty(&[(Fault::Refuse, 0.2), (Fault::GoAway, 0.01)]);
    let result = sim::simulate(World::new(1, model), config);
    assert_eq!((result.report.books.completed, result.report.books.failed), (2000, 0));
    let retried = result.report.http2.as_ref().unwrap().retried;
    assert!(retried > 300, "{retried}");
    let numbers = result.truth.bodies.keys().map(|body| {
        let number = body.split(|byte| *byte == b' ').next().unwrap();
        std::str::from_utf8(number).unwrap().parse::<u64>().unwrap()
    });
    let numbers: Vec<u64> = numbers.collect();
    assert_eq!(numbers.len(), 2000, "a request was sent with two bodies");
    assert_eq!(BTreeSet::from_iter(numbers), BTreeSet::from_iter(0..2000));
}

/// No response ever comes, and the next arrival is hours away. The worker still notices a stop, and
/// the drain is short.
#[test]
fn stopped_load_ends_soon_with_requests_in_flight() {
    const HOUR: u64 = 3600 * SECOND;
    let mut config = world::config(4, &Arrivals::Closed, 2 * 3600);
    config.policy.timeout_ns = HOUR;
    config.policy.connect_timeout_ns = HOUR;
    config.window.interval_ns = HOUR;
    config.window.drain_ns = HOUR;
    let mut turns = 0;
    let result =
        sim::simulate_until(World::new(1, faulty(&[(Fault::Silence, 1.0)])), config, || {
            turns += 1;
            if turns > 100 { Stop::Now(Instant(SECOND)) } else { Stop::No }
        });
    let end_ns = result.intervals.last().unwrap().end_ns;
    // A hundred sleeps of 50 ms, a second of drain, and a sleep each to notice.
    assert!(end_ns < 7 * SECOND, "ended after {end_ns} ns");
    assert_eq!((result.report.books.in_flight_at_end, at_end(&result).count()), (4, 4));
    let longest = result.intervals.last().unwrap().longest_failure_ns;
    assert!(world::relative_error(at_end(&result).max(), longest as f64) < 0.002, "{longest} ns");
}

/// A stop also ends the drain early.
#[test]
fn stop_shortens_drain() {
    const HOUR: u64 = 3600 * SECOND;
    let mut config = world::config(4, &Arrivals::Closed, 1);
    config.policy.timeout_ns = HOUR;
    config.window.drain_ns = HOUR;
    let mut turns = 0;
    let result =
        sim::simulate_until(World::new(1, faulty(&[(Fault::Silence, 1.0)])), config, || {
            turns += 1;
            if turns > 100 { Stop::Now(Instant(3 * SECOND)) } else { Stop::No }
        });
    let end_ns = result.intervals.last().unwrap().end_ns;
    assert!((SECOND..7 * SECOND).contains(&end_ns), "ended after {end_ns} ns");
    assert_eq!(result.report.window_ns, (0, SECOND));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Closes of all kinds in pipelines of all kinds of requests: the books balance, and only
    /// idempotent requests are retried.
    #[test]
    fn books_balance_with_closes_of_all_kinds(
        seed in any::<u64>(),
        connections in 1u32..6,
        pipeline in 1u32..12,
        odds in (0.0f64..0.3, 0.0f64..0.1),
        cut in 0.0f64..0.5,
        open in any::<bool>(),
        per_connection in proptest::option::of(1u64..10),
    ) {
        let mut model = faulty(&[
            (Fault::PoliteClose, odds.0),
            (Fault::CloseInBody, odds.1),
            (Fault::Reset, odds.1),
        ]);
        model.service = ServiceTime::Exponential { mean_ns: 5e5 };
        let mut world = World::new(seed, model);
        world.net.cut = cut;
        let mut config = closed_loop(connections, pipeline, 300, &[GET, POST, GET_CLOSE]);
        if open {
            let open_loop = world::config(1, &Arrivals::Poisson { rate: 2000.0 }, 1);
            config.schedule = open_loop.schedule;
        }
        config.policy.requests_per_connection = per_connection;
        let result = sim::simulate(world, config);
        let books = result.report.books;
        prop_assert!(books.balance(), "{:?}", books);
        prop_assert_eq!((books.completed + books.failed, books.in_flight_at_end), (300, 0));
        let outcomes = count_outcomes(&result, &[Phase::Measured, Phase::Drain]);
        prop_assert_eq!(outcomes.total(), 300);
    }
}

const POST_EXPECT: &str =
    "POST / HTTP/1.1\r\nHost: sim\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok";

fn server_with(expecting: ExpectBehavior) -> ServerModel {
    ServerModel { expecting, ..faulty(&[]) }
}

#[test]
fn body_waits_for_continue() {
    for pipeline in [1, 4] {
        let config = closed_loop(4, pipeline, 40, &[POST_EXPECT]);
        let result = sim::simulate(World::new(1, server_with(ExpectBehavior::Continue)), config);
        assert_eq!((outcome_count(&result, Outcome::Ok), result.truth.early_bodies), (40, 0));
        let continues = result.report.continues.unwrap();
        assert_eq!((continues.asked, continues.continued, continues.wait.count()), (40, 40, 40));
        assert_eq!((continues.waited_in_vain, continues.answered_instead), (0, 0));
        assert_eq!(result.report.connections.opened, 4);
    }
}

#[test]
fn body_is_sent_after_second_without_continue() {
    let result = sim::simulate(
        World::new(1, server_with(ExpectBehavior::Nothing)),
        closed_loop(1, 1, 3, &[POST_EXPECT]),
    );
    assert_eq!(outcome_count(&result, Outcome::Ok), 3);
    let continues = result.report.continues.unwrap();
    assert_eq!((continues.asked, continues.waited_in_vain, continues.continued), (3, 3, 0));
    let (_, closes) = result.report.window_ns;
    assert!((3 * SECOND..4 * SECOND).contains(&closes), "{closes}");
}

#[test]
fn final_response_instead_of_continue_ends_connection() {
    let result = sim::simulate(
        World::new(1, server_with(ExpectBehavior::Refuse)),
        closed_loop(2, 1, 10, &[POST_EXPECT]),
    );
    assert_eq!((outcome_count(&result, Outcome::UnexpectedStatus), result.truth.requests), (10, 0));
    let continues = result.report.continues.unwrap();
    assert_eq!((continues.asked, continues.answered_instead, continues.refused), (10, 10, 10));
    assert_eq!(
        (result.report.connections.opened, result.report.connections.closed_by_us),
        (10, 10)
    );
}

/// The server asks for the body, and responds before a byte of it can leave.
#[test]
fn final_response_right_after_continue_is_early() {
    let result = sim::simulate(
        World::new(1, server_with(ExpectBehavior::Both)),
        closed_loop(2, 1, 10, &[POST_EXPECT]),
    );
    assert_eq!((outcome_count(&result, Outcome::Ok), result.truth.requests), (10, 0));
    let continues = result.report.continues.unwrap();
    assert_eq!((continues.asked, continues.continued, continues.answered_instead), (10, 0, 10));
    let early = result.intervals.iter().filter_map(|i| i.answered_early.as_ref());
    let early: Vec<(u64, u64)> = early.map(|early| (early.responses, early.unsent_bytes)).collect();
    assert_eq!(
        early.iter().fold((0, 0), |sum, early| (sum.0 + early.0, sum.1 + early.1)),
        (10, 20)
    );
}

#[test]
fn request_without_expect_sends_body_immediately() {
    let result = sim::simulate(
        World::new(1, server_with(ExpectBehavior::Continue)),
        closed_loop(1, 1, 3, &[POST]),
    );
    assert_eq!((outcome_count(&result, Outcome::Ok), result.report.continues), (3, None));
}

#[test]
fn timeout_without_response_counts_as_nothing() {
    let mut config = closed_loop(1, 1, 4, &[GET]);
    config.policy.timeout_ns = 20 * MS;
    let result = sim::simulate(World::new(1, faulty(&[(Fault::Silence, 1.0)])), config);
    assert_eq!(outcome_count(&result, Outcome::Timeout), 4);
    assert_eq!((result.report.timeouts.nothing, result.report.timeouts.part_of_body), (4, 0));
}
