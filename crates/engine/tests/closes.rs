//! Connections that end in good order, requests that are sent again, and loads that are ended
//! early.

mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use dyno_archive::interval::Phase;
use dyno_archive::outcome::Outcome;
use dyno_archive::plan::Arrivals;
use dyno_archive::silence;
use dyno_engine::sim::{
    self, Expecting, Fault, Pause, Queue, ServerModel, ServiceTime, SimulationResult, Theft,
    TheftTime, World,
};
use dyno_engine::traffic::{FieldPiece, RequestPart, StreamTemplate, Template};
use dyno_engine::{CompiledRequest, Expectation, Instant, Protocol, Stop, Traffic, WorkerConfig};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;
use proptest::prelude::*;
use world::{MS, SECOND, ages, at_end, count_outcomes};

fn request(bytes: &str) -> CompiledRequest {
    CompiledRequest::from_bytes(
        bytes.as_bytes(),
        RequestKind::Other,
        Expectation { status: Some(200), ..Expectation::default() },
    )
}

/// A closed loop of so many of these requests over HTTP/1.1, all within the measured window.
fn config_of(connections: u32, pipeline: u32, total: u64, requests: &[&str]) -> WorkerConfig {
    let mut config = world::config(connections, &Arrivals::Closed, 1);
    config.pipeline = pipeline;
    config.total = Some(total);
    config.window.duration_ns = None;
    config.traffic =
        Arc::new(Traffic::new(requests.iter().map(|r| (request(r), 1)).collect()).unwrap());
    config
}

/// A request of HTTP/2 with this body.
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

fn of_all(played: &SimulationResult, outcome: Outcome) -> u64 {
    count_outcomes(played, &[Phase::Warmup, Phase::Measured, Phase::Drain]).get(outcome)
}

fn sent_bytes(played: &SimulationResult) -> u64 {
    played.intervals.iter().map(|interval| interval.bytes_sent).sum()
}

/// Whether a response of two answers nothing is seen at once, later, or, in pipelines, only where
/// they end: all that was counted before is in doubt.
#[test]
fn responses_that_come_twice_put_all_before_them_in_doubt() {
    for (pipeline, cut) in [(1, 0.0), (1, 1.0), (8, 0.0), (8, 0.5)] {
        let mut world = World::new(3, faulty(&[(Fault::Twice, 1.0)]));
        world.net.cut = cut;
        let played = sim::play(world, config_of(3, pipeline, 300, &[GET]));
        let connections = played.report.connections;
        let in_doubt = connections.unsolicited_after.unwrap_or(0);
        assert!(connections.unsolicited > 0 && in_doubt > 0, "{pipeline} {cut}: {connections:?}");
        // Every connection carried a response too many, and each was found out.
        assert_eq!(in_doubt, played.report.books.completed, "{pipeline} {cut}: {connections:?}");
        assert!(played.report.books.balance(), "{:?}", played.report.books);
    }
}

#[test]
fn response_after_the_last_is_seen() {
    for seed in 0..40 {
        let mut world = World::new(seed, faulty(&[(Fault::Twice, 1.0)]));
        world.net.cut = 1.0;
        let played = sim::play(world, config_of(1, 1, 1, &[GET]));
        let connections = played.report.connections;
        assert_eq!(
            (connections.unsolicited, connections.unsolicited_after),
            (1, Some(1)),
            "seed {seed}"
        );
    }
    let honest = sim::play(World::new(1, faulty(&[])), config_of(4, 8, 200, &[GET]));
    assert_eq!(honest.report.connections.unsolicited_after, None);
}

/// A server that pauses, as several workers see it: the silence is the pause, whichever worker
/// waits.
#[test]
fn pause_of_the_server_is_a_silence_of_all_workers() {
    let workers = (1..4).map(|seed| {
        let mut model = faulty(&[]);
        model.pauses.push(Pause { at_ns: 300 * MS, for_ns: 200 * MS });
        sim::play(World::new(seed, model), world::config(2, &Arrivals::Closed, 1)).report.silences
    });
    let all = workers.reduce(|one, other| silence::common(&one, &other)).unwrap();
    let all = silence::long_silences(&all, (0, SECOND));
    let [pause] = all[..] else { panic!("{all:?}") };
    assert!((200 * MS..205 * MS).contains(&pause.length_ns()), "{pause:?}");
    assert_eq!(pause.in_flight, 6);
}

/// One connection, pipelined requests, and a pause at the edge of the window are no exceptions.
#[test]
fn pause_is_a_silence_whatever_is_in_flight() {
    for (connections, pipeline, at_ms) in
        [(1, 1, 300), (1, 8, 300), (4, 8, 300), (1, 1, 950), (1, 8, 950)]
    {
        let mut model = faulty(&[]);
        model.pauses.push(Pause { at_ns: at_ms * MS, for_ns: 200 * MS });
        let config = WorkerConfig { pipeline, ..world::config(connections, &Arrivals::Closed, 1) };
        let played = sim::play(World::new(7, model), config);
        let all = silence::long_silences(&played.report.silences, played.report.window_ns);
        let case = format!("{connections} connections, {pipeline} in each, at {at_ms} ms");
        let [pause] = all[..] else { panic!("{case}: {all:?}") };
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

/// Requests that time out, and the waits before the next attempts, do not cut a pause in pieces.
#[test]
fn pause_in_which_requests_fail_is_one_silence() {
    for (timeout_ms, at_ms) in [(20, 300), (80, 300), (20, 700), (250, 700)] {
        let mut model = faulty(&[]);
        model.pauses.push(Pause { at_ns: at_ms * MS, for_ns: 400 * MS });
        let mut config = world::config(2, &Arrivals::Closed, 1);
        config.policy.timeout_ns = timeout_ms * MS;
        config.policy.connect_timeout_ns = timeout_ms * MS;
        let played = sim::play(World::new(7, model), config);
        let all = silence::long_silences(&played.report.silences, played.report.window_ns);
        let case = format!("time-out {timeout_ms} ms, at {at_ms} ms");
        let [pause] = all[..] else { panic!("{case}: {all:?}") };
        let length_ms = (1000 - at_ms).min(400);
        // A server that serves again waits for the next attempt.
        let waits_ms = timeout_ms + 260;
        assert!(
            (length_ms..=length_ms + waits_ms).contains(&pause.length_ns().div_ceil(MS)),
            "{case}: {pause:?}"
        );
        assert!(pause.failures_ns.is_some(), "{case}: {pause:?}");
    }
}

/// Slow is not silent, and idle is not silent either.
#[test]
fn what_is_slow_or_idle_has_no_silence_of_its_own() {
    let quick = sim::play(World::new(1, faulty(&[])), world::config(2, &Arrivals::Closed, 1));
    let within = |played: &SimulationResult| {
        silence::long_silences(&played.report.silences, played.report.window_ns)
    };
    assert_eq!(within(&quick), []);
    // Ten arrivals a second, each answered at once.
    let idle = world::config(2, &Arrivals::Constant { rate: 10.0 }, 1);
    assert_eq!(within(&sim::play(World::new(1, faulty(&[])), idle)), []);
}

const GET: &str = "GET / HTTP/1.1\r\nHost: sim\r\n\r\n";
const GET_CLOSE: &str = "GET / HTTP/1.1\r\nHost: sim\r\nConnection: close\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: sim\r\nContent-Length: 2\r\n\r\nok";

/// The simulated server leaves the connection open: nothing but the request says that it ends.
#[test]
fn request_that_says_close_is_the_last_of_its_connection() {
    for pipeline in [1, 8] {
        let played =
            sim::play(World::new(1, faulty(&[])), config_of(4, pipeline, 200, &[GET_CLOSE]));
        assert_eq!((of_all(&played, Outcome::Ok), played.truth.requests), (200, 200));
        let connections = played.report.connections;
        assert_eq!((connections.opened, connections.closed_by_us), (200, 200), "{connections:?}");
    }
}

#[test]
fn what_comes_before_such_a_request_shares_its_connection() {
    let played =
        sim::play(World::new(1, faulty(&[])), config_of(4, 8, 2000, &[GET, GET, GET, GET_CLOSE]));
    assert_eq!((of_all(&played, Outcome::Ok), played.report.books.failed), (2000, 0));
    // One in four requests ends its connection; the standard deviation is 19.
    let opened = played.report.connections.opened;
    assert!((400..600).contains(&opened), "{opened}");
}

#[test]
fn what_is_lost_behind_an_announced_close_is_asked_for_again() {
    let played = sim::play(
        World::new(1, faulty(&[(Fault::PoliteClose, 0.1)])),
        config_of(2, 8, 3000, &[GET]),
    );
    assert_eq!((played.report.books.completed, played.report.books.failed), (3000, 0));
    assert_eq!(of_all(&played, Outcome::Ok), 3000);
    let closes = played.truth.faults[&Fault::PoliteClose];
    let again = played.report.connections.asked_again;
    assert!(
        closes > 200 && again > 2 * closes && again < 8 * closes,
        "{again} for {closes} closes"
    );
    assert!(
        played.report.connection_failures.is_empty(),
        "{:?}",
        played.report.connection_failures
    );
}

/// Constant arrivals over ten connections, each of which carries so many requests. Connecting takes
/// a round trip of 20 ms.
fn replacing(protocol: Protocol, rate: f64, per_connection: u64) -> (World, WorkerConfig) {
    let mut world = World::new(1, faulty(&[]));
    world.net.delay_ns = 10 * MS;
    let mut config = config_of(10, 1, 0, &[GET]);
    config.total = None;
    config.window.duration_ns = Some(SECOND);
    config.window.interval_ns = 100 * MS;
    config.schedule = world::config(10, &Arrivals::Constant { rate }, 1).schedule;
    config.policy.requests_per_connection = Some(per_connection);
    if protocol == Protocol::H2c {
        config.protocol = protocol;
        config.traffic = Arc::new(Traffic::one(stream_request(Vec::new())));
    }
    (world, config)
}

#[test]
fn open_loop_reopens_connections_ahead_of_requests() {
    for (protocol, per_connection) in [(Protocol::H1, 1), (Protocol::H1, 3), (Protocol::H2c, 1)] {
        // A request and the next connection take 42 ms, or 62 ms with the preface: at 100 per
        // second ten connections are more than enough.
        let (world, config) = replacing(protocol, 100.0, per_connection);
        let played = sim::play(world, config);
        assert_eq!(of_all(&played, Outcome::Ok), 100, "{protocol:?}");
        let lag = world::times(&played, |interval| &interval.times.send_lag);
        assert!(lag.max().unwrap() < MS, "{protocol:?}, {per_connection} each: {:?}", lag.max());
        for interval in played.intervals.iter().filter(|i| i.phase == Phase::Measured) {
            let open = interval.connections_open;
            assert!(open >= 3, "{protocol:?}, {per_connection} each: {open} open");
        }
    }
}

/// The last request is followed by no connection, whether a number or the window ends the load.
#[test]
fn open_loop_opens_nothing_after_its_last_request() {
    for (rate, total) in [(20.0, None), (20.0, Some(20)), (40.0, Some(20))] {
        let (world, config) = replacing(Protocol::H1, rate, 1);
        let played = sim::play(world, WorkerConfig { total, ..config });
        assert_eq!(of_all(&played, Outcome::Ok), 20);
        // Each of the others was answered, and its connection replaced, before the next was due.
        assert_eq!(played.report.connections.opened, 10 + 19, "{total:?} at {rate}");
    }
}

/// Half of all attempts to connect are refused, also those that no request waits for.
#[test]
fn open_loop_books_balance_where_reopening_fails() {
    let (mut world, config) = replacing(Protocol::H1, 100.0, 1);
    world.net.refuse = 0.5;
    let played = sim::play(world, config);
    let books = played.report.books;
    assert!(books.balance(), "{books:?}");
    assert_eq!(of_all(&played, Outcome::Ok) + of_all(&played, Outcome::ConnectRefused), 100);
}

/// Even by a server that never does anything else.
#[test]
fn pipeline_to_a_server_that_closes_after_each_answer_comes_to_its_end() {
    let played = sim::play(
        World::new(1, faulty(&[(Fault::PoliteClose, 1.0)])),
        config_of(1, 32, 500, &[GET]),
    );
    assert_eq!((played.report.books.completed, played.report.books.failed), (500, 0));
    assert_eq!(played.report.connections.opened, 500);
}

/// The server may have dealt with it.
#[test]
fn what_would_do_harm_twice_is_not_asked_for_again() {
    let played = sim::play(
        World::new(1, faulty(&[(Fault::PoliteClose, 0.1)])),
        config_of(2, 8, 3000, &[POST]),
    );
    let lost = of_all(&played, Outcome::ClosedEarly);
    assert!(lost > 300, "{lost}");
    assert_eq!(
        (of_all(&played, Outcome::Ok), played.report.connections.asked_again),
        (3000 - lost, 0)
    );
}

/// An unannounced close is the server's failure.
#[test]
fn what_is_lost_behind_a_cut_is_lost() {
    let played = sim::play(
        World::new(1, faulty(&[(Fault::CloseInBody, 0.1)])),
        config_of(2, 8, 3000, &[GET]),
    );
    assert!(of_all(&played, Outcome::ClosedEarly) > 300);
    assert_eq!(played.report.connections.asked_again, 0);
}

/// A generator that is always woken late finds the response and the close together: the next
/// request is queued between the two, and leaves on the next connection.
#[test]
fn what_a_close_kept_from_leaving_leaves_on_the_next_connection() {
    for requests in [&[GET][..], &[POST]] {
        let mut world = World::new(1, faulty(&[(Fault::QuietClose, 1.0)]));
        world.thefts = vec![Theft { at_ns: 0, for_ns: 1000, when: TheftTime::Asleep }; 10_000];
        let played = sim::play(world, config_of(2, 1, 200, requests));
        assert_eq!((of_all(&played, Outcome::Ok), played.report.books.failed), (200, 0));
        assert_eq!((played.truth.requests, played.report.connections.opened), (200, 200));
        assert!(
            played.report.connection_failures.is_empty(),
            "{:?}",
            played.report.connection_failures
        );
    }
}

/// A server that answers the first request and reads no more: the second never leaves, and its
/// time-out counts from where it was queued.
#[test]
fn request_that_cannot_leave_times_out() {
    let mut model = faulty(&[]);
    model.reads = Some(1);
    let mut config = config_of(2, 1, 20, &[POST]);
    config.policy.timeout_ns = 50 * MS;
    config.policy.first_byte_timeout_ns = Some(20 * MS);
    let played = sim::play(World::new(1, model), config);
    assert_eq!((of_all(&played, Outcome::Ok), of_all(&played, Outcome::Timeout)), (10, 10));
    // Bytes that never left do not count as sent.
    assert_eq!(sent_bytes(&played), 10 * POST.len() as u64);
    assert!(played.report.books.balance(), "{:?}", played.report.books);
    let waits = ages(&played, Outcome::Timeout);
    for at in [0.0, 1.0] {
        assert!(world::off(waits.quantile(at), 50e6) < 0.002, "{:?}", waits.quantile(at));
    }
}

/// The oldest is overdue, and its connection is closed.
#[test]
fn pipeline_that_cannot_leave_times_out() {
    let mut model = faulty(&[]);
    model.reads = Some(1);
    let mut config = config_of(3, 4, 300, &[GET]);
    config.policy.timeout_ns = 50 * MS;
    let played = sim::play(World::new(1, model), config);
    let [ok, overdue, cancelled] =
        [Outcome::Ok, Outcome::Timeout, Outcome::Cancelled].map(|outcome| of_all(&played, outcome));
    assert_eq!(ok + overdue + cancelled, 300);
    assert!(ok > 100 && overdue > 20, "{ok} right, {overdue} overdue");
    assert_eq!(played.report.connection_failures["timeout"], overdue);
}

/// Bodies with the number of the request and something drawn: each number once, however often it
/// was sent.
#[test]
fn request_that_is_asked_for_again_is_the_same() {
    let body =
        vec![RequestPart::Sequence, RequestPart::Bytes(Box::from(&b" "[..])), RequestPart::Uuid];
    let mut config = config_of(4, 1, 2000, &[GET]);
    config.protocol = Protocol::H2c;
    config.streams = 8;
    config.traffic = Arc::new(Traffic::one(stream_request(body)));
    let model = faulty(&[(Fault::Refuse, 0.2), (Fault::GoAway, 0.01)]);
    let played = sim::play(World::new(1, model), config);
    assert_eq!((played.report.books.completed, played.report.books.failed), (2000, 0));
    let retried = played.report.http2.as_ref().unwrap().retried;
    assert!(retried > 300, "{retried}");
    let numbers = played.truth.bodies.keys().map(|body| {
        let number = body.split(|byte| *byte == b' ').next().unwrap();
        std::str::from_utf8(number).unwrap().parse::<u64>().unwrap()
    });
    let numbers: Vec<u64> = numbers.collect();
    assert_eq!(numbers.len(), 2000, "a request was sent with two bodies");
    assert_eq!(BTreeSet::from_iter(numbers), BTreeSet::from_iter(0..2000));
}

/// Nothing ever comes, and nothing is due for hours: who cuts the load short is heard all the same,
/// and the drain is short.
#[test]
fn load_that_is_cut_short_ends_soon_whatever_is_in_flight() {
    const HOUR: u64 = 3600 * SECOND;
    let mut config = world::config(4, &Arrivals::Closed, 2 * 3600);
    config.policy.timeout_ns = HOUR;
    config.policy.connect_timeout_ns = HOUR;
    config.window.interval_ns = HOUR;
    config.window.drain_ns = HOUR;
    let mut turns = 0;
    let played = sim::play_until(World::new(1, faulty(&[(Fault::Silence, 1.0)])), config, || {
        turns += 1;
        if turns > 100 { Stop::Now(Instant(SECOND)) } else { Stop::No }
    });
    let ends = played.intervals.last().unwrap().end_ns;
    // A hundred glances of 50 ms, a second of drain, and a glance each to notice.
    assert!(ends < 7 * SECOND, "ended after {ends} ns");
    assert_eq!((played.report.books.in_flight_at_end, at_end(&played).count()), (4, 4));
    let longest = played.intervals.last().unwrap().longest_failure_ns;
    assert!(world::off(at_end(&played).max(), longest as f64) < 0.002, "{longest} ns");
}

/// Also when the window is over, and what waits is the drain.
#[test]
fn drain_is_cut_short_too() {
    const HOUR: u64 = 3600 * SECOND;
    let mut config = world::config(4, &Arrivals::Closed, 1);
    config.policy.timeout_ns = HOUR;
    config.window.drain_ns = HOUR;
    let mut turns = 0;
    let played = sim::play_until(World::new(1, faulty(&[(Fault::Silence, 1.0)])), config, || {
        turns += 1;
        if turns > 100 { Stop::Now(Instant(3 * SECOND)) } else { Stop::No }
    });
    let ends = played.intervals.last().unwrap().end_ns;
    assert!((SECOND..7 * SECOND).contains(&ends), "ended after {ends} ns");
    assert_eq!(played.report.window_ns, (0, SECOND));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Closes of all kinds, in pipelines of requests of all kinds: the books balance, and nothing
    /// is asked for again that must not be.
    #[test]
    fn books_balance_whatever_closes(
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
        let mut config = config_of(connections, pipeline, 300, &[GET, POST, GET_CLOSE]);
        if open {
            let timed = world::config(1, &Arrivals::Poisson { rate: 2000.0 }, 1);
            config.schedule = timed.schedule;
        }
        config.policy.requests_per_connection = per_connection;
        let played = sim::play(world, config);
        let books = played.report.books;
        prop_assert!(books.balance(), "{:?}", books);
        prop_assert_eq!((books.completed + books.failed, books.in_flight_at_end), (300, 0));
        let outcomes = count_outcomes(&played, &[Phase::Measured, Phase::Drain]);
        prop_assert_eq!(outcomes.total(), 300);
    }
}

const POST_EXPECT: &str =
    "POST / HTTP/1.1\r\nHost: sim\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok";

fn expecting(expecting: Expecting) -> ServerModel {
    ServerModel { expecting, ..faulty(&[]) }
}

#[test]
fn expected_continue_is_waited_for() {
    for pipeline in [1, 4] {
        let config = config_of(4, pipeline, 40, &[POST_EXPECT]);
        let played = sim::play(World::new(1, expecting(Expecting::Continue)), config);
        assert_eq!((of_all(&played, Outcome::Ok), played.truth.early_bodies), (40, 0));
        let continues = played.report.continues.unwrap();
        assert_eq!((continues.asked, continues.continued, continues.wait.count()), (40, 40, 40));
        assert_eq!((continues.waited_in_vain, continues.answered_instead), (0, 0));
        assert_eq!(played.report.connections.opened, 4);
    }
}

#[test]
fn body_is_sent_after_a_second_without_continue() {
    let played =
        sim::play(World::new(1, expecting(Expecting::Nothing)), config_of(1, 1, 3, &[POST_EXPECT]));
    assert_eq!(of_all(&played, Outcome::Ok), 3);
    let continues = played.report.continues.unwrap();
    assert_eq!((continues.asked, continues.waited_in_vain, continues.continued), (3, 3, 0));
    let (_, closes) = played.report.window_ns;
    assert!((3 * SECOND..4 * SECOND).contains(&closes), "{closes}");
}

#[test]
fn final_response_instead_of_continue_ends_the_connection() {
    let played =
        sim::play(World::new(1, expecting(Expecting::Refuse)), config_of(2, 1, 10, &[POST_EXPECT]));
    assert_eq!((of_all(&played, Outcome::UnexpectedStatus), played.truth.requests), (10, 0));
    let continues = played.report.continues.unwrap();
    assert_eq!((continues.asked, continues.answered_instead, continues.refused), (10, 10, 10));
    assert_eq!(
        (played.report.connections.opened, played.report.connections.closed_by_us),
        (10, 10)
    );
}

/// The server asked for the body, and answered before a byte of it could leave.
#[test]
fn final_response_right_behind_continue_is_early() {
    let played =
        sim::play(World::new(1, expecting(Expecting::Both)), config_of(2, 1, 10, &[POST_EXPECT]));
    assert_eq!((of_all(&played, Outcome::Ok), played.truth.requests), (10, 0));
    let continues = played.report.continues.unwrap();
    assert_eq!((continues.asked, continues.continued, continues.answered_instead), (10, 0, 10));
    let early = played.intervals.iter().filter_map(|i| i.answered_early.as_ref());
    let early: Vec<(u64, u64)> = early.map(|of| (of.responses, of.unsent_bytes)).collect();
    assert_eq!(early.iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1)), (10, 20));
}

#[test]
fn request_without_expectation_sends_its_body_at_once() {
    let played =
        sim::play(World::new(1, expecting(Expecting::Continue)), config_of(1, 1, 3, &[POST]));
    assert_eq!((of_all(&played, Outcome::Ok), played.report.continues), (3, None));
}

#[test]
fn timeout_without_a_response_is_named_so() {
    let mut config = config_of(1, 1, 4, &[GET]);
    config.policy.timeout_ns = 20 * MS;
    let played = sim::play(World::new(1, faulty(&[(Fault::Silence, 1.0)])), config);
    assert_eq!(of_all(&played, Outcome::Timeout), 4);
    assert_eq!((played.report.timeouts.nothing, played.report.timeouts.part_of_body), (4, 0));
}
