//! Sequences of requests in simulated worlds whose server has sessions: it knows which requests
//! belong together, and refuses requests without their cookie or token.

use std::sync::Arc;

use dyno_engine::cookies::CookieTransport;
use dyno_engine::expect::{ExpectedValue, FullChecks};
use dyno_engine::extraction::{CompiledExtraction, ValuePlace, ValueSource};
use dyno_engine::sequence::{AfterFailure, CompiledSequence, CookiePolicy, SequenceRequest};
use dyno_engine::sim::{
    self, Fault, Queue, ServerModel, ServiceTime, Sessions, SimulationResult, World,
};
use dyno_engine::stored_body::BodyBudget;
use dyno_engine::traffic::{FieldPiece, RequestPart, StreamTemplate, Template};
use dyno_engine::{CompiledRequest, Expectation, Policy, Protocol, Traffic, WorkerConfig};
use dyno_model::Times;
use dyno_model::interval::Phase;
use dyno_model::outcome::Outcome;
use dyno_model::plan::Arrivals;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;
use dyno_wire::h2::encode::put_name;

use crate::world::{self, MS, SECOND, count_outcomes};

const ALL: [Phase; 3] = [Phase::Warmup, Phase::Measured, Phase::Drain];

fn bytes(text: &str) -> RequestPart {
    RequestPart::Bytes(text.as_bytes().into())
}

/// A field of an HTTP/2 request with a varying value.
fn field(name: &str, value: Vec<RequestPart>) -> FieldPiece {
    let mut encoded = Vec::new();
    put_name(name.as_bytes(), &mut encoded);
    FieldPiece::Varying { name: encoded.into(), name_bytes: name.len() as u32, value }
}

/// A request of a visitor who keeps cookies. `path`: its parts.
fn request(path: &[RequestPart]) -> CompiledRequest {
    let mut head = vec![bytes("GET ")];
    head.extend_from_slice(path);
    head.extend([bytes(" HTTP/1.1\r\nHost: sim\r\n"), RequestPart::CookieLine, bytes("\r\n")]);
    let list = [(":method", "GET"), (":scheme", "http"), (":authority", "sim")]
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    let target = [path, &[RequestPart::TargetEnd]].concat();
    let fields = vec![
        FieldPiece::Fixed(SharedFields::default().encode(&list)),
        field(":path", target),
        field("cookie", vec![RequestPart::Cookies]),
    ];
    CompiledRequest {
        template: Template::Varying { head, body: Vec::new() },
        upgrade: None,
        stream: Some(StreamTemplate::Varying { fields, body: Vec::new() }),
        kind: RequestKind::Other,
        expect: Expectation { status: Some(200), ..Expectation::default() },
    }
}

/// A login, whose response has a token, and two requests that need it.
fn traffic() -> Arc<Traffic> {
    let item = |name: &str| request(&[bytes(name), RequestPart::Extracted(0)]);
    sequence([request(&[bytes("/login")]), item("/first/"), item("/second/")])
}

/// A sequence whose first response has a token.
fn sequence(requests: [CompiledRequest; 3]) -> Arc<Traffic> {
    let token = CompiledExtraction {
        name: "token".into(),
        value: 0,
        source: ValueSource::Json("/token".into()),
        pattern: None,
        place: ValuePlace::Path,
    };
    let step = |extractions| SequenceRequest { host: Arc::from(&b"sim"[..]), extractions };
    let sequence = CompiledSequence {
        requests: vec![step(vec![token]), step(Vec::new()), step(Vec::new())],
        values: 1,
        cookies: CookiePolicy::Keep,
        transport: CookieTransport::Plain,
        after_failure: AfterFailure::NewVisit,
        budget: BodyBudget::default(),
        epoch_s: 0,
    };
    let traffic = Traffic::new(requests.map(|request| (request, 1)).into()).unwrap();
    Arc::new(traffic.with_sequence(sequence))
}

fn world(lacks: u64) -> World {
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    World::new(1, ServerModel { sessions: Sessions::Required { lacks }, ..model })
}

const NEVER: u64 = u64::MAX;

/// A load of one second.
fn config(connections: u32, streams: u32, arrivals: &Arrivals) -> WorkerConfig {
    let protocol = if streams > 1 { Protocol::H2c } else { Protocol::H1 };
    let base = world::config(connections, arrivals, 1);
    let policy = Policy { timeout_ns: SECOND / 10, ..base.policy };
    WorkerConfig { traffic: traffic(), protocol, streams, policy, ..base }
}

/// A closed loop of this many requests.
fn limited(config: WorkerConfig, total: u64) -> WorkerConfig {
    let mut config = WorkerConfig { total: Some(total), ..config };
    config.window.duration_ns = None;
    config
}

fn visit_times(result: &SimulationResult) -> Times {
    Times::merge(result.intervals.iter().map(|i| &i.page))
}

fn outcome(result: &SimulationResult, outcome: Outcome) -> u64 {
    count_outcomes(result, &ALL).get(outcome)
}

#[test]
fn visitors_send_cookies_and_values_in_order() {
    for (connections, streams) in [(4, 1), (2, 3), (1, 12)] {
        let visitors = u64::from(connections * streams);
        let config = config(connections, streams, &Arrivals::Closed);
        let result = sim::simulate(world(NEVER), limited(config, 30 * visitors));
        assert_eq!(outcome(&result, Outcome::Ok), 30 * visitors, "{connections} × {streams}");
        let sessions = &result.truth.sessions;
        assert_eq!((sessions.begun, sessions.begun_with_cookie), (10 * visitors, 0));
        assert_eq!(sessions.refused, 0);
        assert_eq!(sessions.accepted.len() as u64, 10 * visitors);
        assert!(sessions.accepted.values().all(|requests| *requests == 2));
        // Three requests of 1 ms of service and two delays of 10 µs each.
        let times = visit_times(&result);
        assert_eq!(times.count(), 10 * visitors);
        let median = times.quantile(0.5).unwrap() as f64;
        assert!((median / 3_060_000.0 - 1.0).abs() < 0.002, "{median}");
    }
}

fn unfinished(result: &SimulationResult) -> u64 {
    result.intervals.iter().map(|i| i.pages_unfinished).sum()
}

#[test]
fn visits_in_progress_at_end_of_window_are_completed() {
    for (connections, streams) in [(4, 1), (2, 3)] {
        let mut late_steps = 0;
        for shorter_ms in 0..9 {
            let mut config = config(connections, streams, &Arrivals::Closed);
            config.window.duration_ns = Some(SECOND - shorter_ms * MS);
            let result = sim::simulate(world(NEVER), config);
            let sessions = &result.truth.sessions;
            assert!(sessions.accepted.values().all(|requests| *requests == 2));
            assert_eq!(sessions.accepted.len() as u64, sessions.begun);
            assert_eq!(visit_times(&result).count(), sessions.begun, "{connections} × {streams}");
            assert_eq!(unfinished(&result), 0);
            let books = result.report.books;
            assert!(books.balance());
            let continued: u64 = result.intervals.iter().map(|i| i.continued.total()).sum();
            assert_eq!(continued, 3 * sessions.begun - books.completed);
            for interval in &result.intervals {
                let carried: u64 = interval.by_request.iter().map(|share| share.carried_ok).sum();
                assert_eq!(carried, interval.carried.get(Outcome::Ok));
            }
            late_steps += continued;
        }
        assert!(late_steps > 0, "steps after the window do not belong to it");
    }
}

#[test]
fn visit_without_response_is_unfinished() {
    let mut config = config(4, 1, &Arrivals::Closed);
    config.window.drain_ns = MS / 2;
    let result = sim::simulate(world(NEVER), config);
    assert!((1..=4).contains(&unfinished(&result)), "the drain is shorter than a response");
    // The number of requests ends all visits but one before their last step.
    let result = sim::simulate(world(NEVER), limited(self::config(4, 1, &Arrivals::Closed), 9));
    assert_eq!((visit_times(&result).count(), unfinished(&result)), (1, 0));
}

#[test]
fn each_step_has_its_own_times() {
    let result = sim::simulate(world(NEVER), limited(config(4, 1, &Arrivals::Closed), 300));
    for step in 0..3 {
        let shares = || result.intervals.iter().map(|i| &i.by_request[step]);
        assert_eq!(shares().map(|share| share.outcomes.get(Outcome::Ok)).sum::<u64>(), 100);
        assert_eq!(Times::merge(shares().map(|share| &share.response)).count(), 100);
    }
}

#[test]
fn failed_extraction_ends_visit_with_named_outcome() {
    for streams in [1, 4] {
        let result = sim::simulate(world(5), config(2, streams, &Arrivals::Closed));
        let sessions = &result.truth.sessions;
        let failed = outcome(&result, Outcome::ExtractionFailed);
        // The last responses may arrive after the load.
        assert!(failed.abs_diff(sessions.begun / 5) <= u64::from(2 * streams), "{failed}");
        assert_eq!(sessions.refused, 0, "no request is sent without its value");
        let pages_failed: u64 = result.intervals.iter().map(|i| i.pages_failed).sum();
        assert!(pages_failed > 0 && pages_failed <= failed);
        let message = "value \"token\" cannot be extracted: JSON pointer \"/token\" is missing";
        assert_eq!(result.report.unexpected.get(message), Some(&failed));
        assert!(result.report.books.balance());
    }
}

/// The generator has no memory for the bodies with the tokens. The server has not failed.
#[test]
fn unstored_bodies_end_visits_without_failure() {
    for streams in [1, 4] {
        let traffic = traffic();
        let stored = CompiledSequence::clone(traffic.sequence().unwrap());
        let sequence = CompiledSequence { budget: BodyBudget::new(3), ..stored };
        let traffic = Arc::new(Traffic::clone(&traffic).with_sequence(sequence));
        let config = config(2, streams, &Arrivals::Closed);
        let config = WorkerConfig { traffic, ..limited(config, 100) };
        let result = sim::simulate(world(NEVER), config);
        assert_eq!((outcome(&result, Outcome::Ok), result.report.books.completed), (100, 100));
        let unstored = result.intervals.iter().filter_map(|i| i.unstored_bodies);
        let unextracted: u64 = unstored.map(|bodies| bodies.unextracted).sum();
        let sessions = &result.truth.sessions;
        assert_eq!((unextracted, sessions.begun, sessions.refused), (100, 100, 0));
        let ended: u64 = result.intervals.iter().map(|i| i.pages_failed + i.pages_completed).sum();
        assert_eq!((ended, result.report.unexpected.len()), (0, 0));
    }
}

#[test]
fn trial_visit_ends_with_first_failure() {
    let item = || request(&[bytes("/"), RequestPart::Extracted(0)]);
    let mut requests = [request(&[bytes("/login")]), item(), item()];
    // An expectation that no response meets.
    let headers = vec![("x-missing".into(), ExpectedValue::Any)];
    requests[1].expect.full_checks = Arc::new(FullChecks { headers, ..FullChecks::default() });
    let traffic = sequence(requests).trial_visit().expect("the requests have full checks");
    let config = config(1, 1, &Arrivals::Closed);
    let config = WorkerConfig { traffic: Arc::new(traffic), ..limited(config, 3) };
    let result = sim::simulate(world(NEVER), config);
    let outcomes = count_outcomes(&result, &ALL);
    let counts: Vec<_> = outcomes.iter().filter(|(_, n)| *n > 0).collect();
    assert_eq!(counts, [(Outcome::Ok, 1), (Outcome::UnexpectedHeader, 1)]);
    assert_eq!((result.truth.sessions.begun, result.report.unexpected.len()), (1, 1));
    assert!(result.report.books.balance());
}

#[test]
fn visits_continue_on_next_connection() {
    let mut config = limited(config(3, 1, &Arrivals::Closed), 90);
    config.policy.requests_per_connection = Some(2);
    let result = sim::simulate(world(NEVER), config);
    assert_eq!((outcome(&result, Outcome::Ok), result.truth.sessions.refused), (90, 0));
    assert!(result.report.connections.opened >= 45);
}

#[test]
fn arrival_of_open_loop_is_next_request_of_free_visitor() {
    for streams in [1, 5] {
        let config = config(4, streams, &Arrivals::Constant { rate: 900.0 });
        let result = sim::simulate(world(NEVER), config);
        let books = result.report.books;
        assert_eq!((books.scheduled, books.completed), (900, 900));
        assert_eq!(outcome(&result, Outcome::Ok), 900);
        let sessions = &result.truth.sessions;
        assert_eq!((sessions.refused, sessions.begun_with_cookie), (0, 0));
        // Each visitor may have a visit that is not complete.
        assert!(sessions.begun.abs_diff(300) <= u64::from(4 * streams), "{}", sessions.begun);
        assert_eq!(visit_times(&result).count(), 0, "the schedule decides about its length");
    }
}

/// No visitor is free for a dropped arrival, so its step is unknown.
#[test]
fn dropped_arrivals_belong_to_no_step() {
    let mut config = config(1, 1, &Arrivals::Constant { rate: 100_000.0 });
    config.policy.max_waiting = Some(0);
    let result = sim::simulate(world(NEVER), config);
    let books = result.report.books;
    assert!(books.dropped > 1000 && books.balance(), "{books:?}");
    let shares = || result.intervals.iter().flat_map(|interval| &interval.by_request);
    assert!(shares().any(|share| share.outcomes.total() > 0));
    let never_ended: u64 = shares().map(|share| share.never_ended).sum();
    assert_eq!(never_ended, books.in_flight_at_end);
}

#[test]
fn visitors_start_anew_after_any_failure() {
    for seed in 0..100 {
        for streams in [1, 4] {
            let mut world = World { seed, ..world(7) };
            let faults = if streams > 1 { &Fault::HTTP2[..] } else { &Fault::HTTP1[..] };
            world.server.faults = faults.iter().map(|fault| (*fault, 0.004)).collect();
            (world.net.cut, world.net.refuse) = (0.2, 0.1);
            let result = sim::simulate(world, config(3, streams, &Arrivals::Closed));
            assert!(result.report.books.balance(), "seed {seed}: {:?}", result.report.books);
            let sessions = &result.truth.sessions;
            assert_eq!((sessions.refused, sessions.begun_with_cookie), (0, 0), "seed {seed}");
            assert!(visit_times(&result).count() > 10, "seed {seed}");
        }
    }
}
