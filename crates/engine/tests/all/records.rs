//! Golden records of loads in simulated worlds, one number per line. They show changes that no
//! other test checks. `UPDATE_GOLDEN=1 cargo test -p dyno-engine --test all records` rewrites them,
//! and `git diff` then shows the changes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use dyno_engine::expect::{ExpectedValue, FullChecks};
use dyno_engine::sim::{
    Fault, Pause, Queue, ServerModel, ServiceTime, SimDriver, Theft, TheftTime, World,
};
use dyno_engine::traffic::{RequestPart, StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Expectation, Instant, Policy, Protocol, SpinPolicy, Stop, Traffic, Window,
    WorkerConfig,
};
use dyno_model::Times;
use dyno_model::plan::{Arrivals, Gaps, Segment};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;
use serde_json::{Value, json};

use crate::world::observed::{ObservedRun, run_observed, run_with_hang_ups};
use crate::world::tls::{Goodbye, TlsDriver, pair};
use crate::world::{self, MS, SECOND};

/// Asserts that the record of a load equals the stored one.
fn assert_record(name: &str, world: World, config: WorkerConfig) {
    assert_record_until(name, world, config, |_, _| Stop::No);
}

fn assert_record_until(
    name: &str,
    world: World,
    config: WorkerConfig,
    stop: impl Fn(Instant, u64) -> Stop,
) {
    assert_record_text(name, &record_text(&run_observed(SimDriver::new(world), config, stop)));
}

/// Asserts that the record of a load over TLS equals the stored record. Byte counts are not
/// compared, because the length of signatures is random.
fn assert_tls_record(name: &str, driver: TlsDriver, config: WorkerConfig) {
    let text = record_text(&run_observed(driver, config, |_, _| Stop::No));
    let is_stable = |line: &&str| !line.contains("bytes");
    assert_record_text(
        name,
        &text.lines().filter(is_stable).map(|line| format!("{line}\n")).collect::<String>(),
    );
}

fn assert_record_text(name: &str, now: &str) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/records").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, now).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    let difference = stored.lines().zip(now.lines()).find(|(stored, now)| stored != now);
    assert!(
        stored == now,
        "{name}: {difference:?}, {} lines stored, {} now; if intended, set UPDATE_GOLDEN=1",
        stored.lines().count(),
        now.lines().count()
    );
}

/// Writes a record with one number per line, without zeros.
fn record_text(run: &ObservedRun) -> String {
    let report = &run.report;
    let record = json!({
        "calls": run.calls, "books": report.books, "connections": report.connections,
        "tcp": report.tcp,
        "tls": report.tls, "http2": report.http2, "cpu": report.cpu, "edges": report.edges,
        "unanswered": report.unanswered, "protocol_errors": report.protocol_errors,
        "unexpected": report.unexpected, "connection_failures": report.connection_failures,
        "window_ns": report.window_ns, "intervals": run.intervals, "sealed_ns": run.sealed_ns,
    });
    let mut out = String::new();
    write_lines("", &record, &mut out);
    out
}

fn write_lines(path: &str, value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            fields
                .iter()
                .for_each(|(key, value)| write_lines(&format!("{path}.{key}"), value, out));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(i, value)| write_lines(&format!("{path}.{i}"), value, out));
        }
        Value::String(text) if text.starts_with("HIST") => {
            let times: Times = serde_json::from_value(value.clone()).unwrap();
            let quantile = |q| times.quantile(q).unwrap_or(0);
            let values =
                [times.min().unwrap_or(0), quantile(0.5), quantile(0.99), times.max().unwrap_or(0)];
            let _ = writeln!(
                out,
                "{path} {} from {}, {}, {} to {}",
                times.count(),
                values[0],
                values[1],
                values[2],
                values[3]
            );
        }
        Value::Null | Value::Bool(false) => {}
        Value::String(text) if text.is_empty() => {}
        Value::Number(n) if n.as_u64() == Some(0) => {}
        other => {
            let _ = writeln!(out, "{path} {other}");
        }
    }
}

/// A warm-up of 100 ms and a window of 400 ms, in intervals of 200 ms.
fn config(connections: u32, arrivals: &Arrivals) -> WorkerConfig {
    let base = world::config(connections, arrivals, 1);
    WorkerConfig {
        window: Window {
            warmup_ns: 100 * MS,
            duration_ns: Some(400 * MS),
            interval_ns: 200 * MS,
            drain_ns: 300 * MS,
        },
        policy: Policy { timeout_ns: 50 * MS, ..base.policy },
        ..base
    }
}

/// A world with exponential service of 0.5 ms on average, split deliveries and these faults.
fn faulty_world(queue: Queue, faults: &[(Fault, f64)]) -> World {
    let mut model = ServerModel::new(ServiceTime::Exponential { mean_ns: 500_000.0 }, queue);
    model.faults = faults.to_vec();
    let mut world = World::new(7, model);
    world.net.cut = 0.1;
    world
}

/// Adds thefts of CPU time, while the generator sleeps and while it works.
fn with_thefts(mut world: World) -> World {
    world.thefts = vec![
        Theft { at_ns: 150 * MS, for_ns: 20 * MS, when: TheftTime::Asleep },
        Theft { at_ns: 300 * MS, for_ns: 30 * MS, when: TheftTime::Working },
        // Across the end of the window.
        Theft { at_ns: 495 * MS, for_ns: 15 * MS, when: TheftTime::Asleep },
    ];
    world
}

fn request(path: &str, expect: Expectation) -> CompiledRequest {
    let bytes = format!("GET {path} HTTP/1.1\r\nHost: sim\r\n\r\n");
    CompiledRequest::from_bytes(bytes.as_bytes(), RequestKind::Other, expect)
}

fn status_200() -> Expectation {
    Expectation { status: Some(200), ..Expectation::default() }
}

#[test]
fn closed_loop_record_matches() {
    assert_record(
        "keep_alive",
        with_thefts(faulty_world(Queue::PerConnection, &[])),
        config(4, &Arrivals::Closed),
    );
}

#[test]
fn pipelined_record_matches() {
    let all_polls =
        WorkerConfig { pipeline: 8, spin: SpinPolicy::Always, ..config(3, &Arrivals::Closed) };
    assert_record("pipelined", faulty_world(Queue::Single, &[]), all_polls);
}

#[test]
fn paused_server_record_matches() {
    let mut world = with_thefts(faulty_world(Queue::Single, &[]));
    world.server.pauses.push(Pause { at_ns: 350 * MS, for_ns: 40 * MS });
    assert_record("paused", world, config(16, &Arrivals::Constant { rate: 1000.0 }));
}

#[test]
fn overload_record_matches() {
    let world = faulty_world(Queue::Single, &[]);
    assert_record(
        "overload",
        world,
        WorkerConfig { spin: SpinPolicy::Never, ..config(8, &Arrivals::Poisson { rate: 4000.0 }) },
    );
}

#[test]
fn shaped_rate_record_matches() {
    let segment = |from_rate, to_rate| Segment { from_rate, to_rate, duration_ns: 150 * MS };
    let segments = vec![segment(0.0, 800.0), segment(200.0, 200.0), segment(200.0, 0.0)];
    let shaped = WorkerConfig {
        total: Some(1000),
        ..config(8, &Arrivals::Shaped { segments, gaps: Gaps::Even })
    };
    assert_record("shaped", faulty_world(Queue::PerConnection, &[]), shaped);
}

#[test]
fn http1_faults_record_matches() {
    let faults: Vec<_> =
        Fault::HTTP1.into_iter().chain([Fault::QuietClose]).map(|f| (f, 0.01)).collect();
    let mut world = faulty_world(Queue::PerConnection, &faults);
    world.net.refuse = 0.3;
    let pipelined = WorkerConfig { pipeline: 3, ..config(6, &Arrivals::Closed) };
    assert_record("faults_h1", world.clone(), pipelined);
    let mut open = config(6, &Arrivals::Constant { rate: 2000.0 });
    open.policy.first_byte_timeout_ns = Some(20 * MS);
    assert_record("faults_h1_open", world, open);
}

#[test]
fn ramp_record_matches() {
    let mut config = config(10, &Arrivals::Closed);
    config.policy.requests_per_connection = Some(5);
    config.policy.ramp_ns = Some(250 * MS);
    assert_record("ramp", faulty_world(Queue::PerConnection, &[]), config);
}

#[test]
fn request_total_record_matches() {
    let mut config = WorkerConfig { total: Some(100), ..config(7, &Arrivals::Closed) };
    config.window.duration_ns = None;
    assert_record("total", faulty_world(Queue::PerConnection, &[(Fault::Silence, 0.02)]), config);
}

#[test]
fn early_stop_record_matches() {
    let world = || faulty_world(Queue::PerConnection, &[(Fault::Silence, 0.01)]);
    let mut endless = config(4, &Arrivals::Closed);
    endless.policy.timeout_ns = 10 * SECOND;
    endless.window.drain_ns = 5 * SECOND;
    let at_250 = |began: Instant| began.plus(250 * MS);
    assert_record_until("cut", world(), endless.clone(), |began, since| {
        if since > 240 * MS { Stop::At(at_250(began)) } else { Stop::No }
    });
    assert_record_until("hurried", world(), endless.clone(), |began, since| {
        if since > 240 * MS { Stop::Now(at_250(began)) } else { Stop::No }
    });
    // Stopped during the drain.
    assert_record_until("hurried_late", world(), endless, |began, since| {
        if since > 700 * MS { Stop::Now(began.plus(since)) } else { Stop::No }
    });
}

#[test]
fn unread_requests_record_matches() {
    let mut world = faulty_world(Queue::PerConnection, &[]);
    world.server.reads = Some(2000);
    let pipelined = WorkerConfig { pipeline: 4, ..config(3, &Arrivals::Closed) };
    assert_record("unread", world.clone(), pipelined);
    assert_record("unread_streams", world, WorkerConfig { streams: 4, ..http2_config(3) });
}

/// Three requests of different weights. Every seventh response is checked in full.
fn mix() -> Arc<Traffic> {
    let expect = |checks: FullChecks| Expectation { full_checks: Arc::new(checks), ..status_200() };
    let header = vec![("content-type".to_string(), ExpectedValue::Is("text/plain".to_string()))];
    let contains =
        FullChecks { contains: Some(b"World".to_vec()), headers: header, ..FullChecks::default() };
    let unmet_checks = FullChecks { contains: Some(b"Mars".to_vec()), ..FullChecks::default() };
    let varying = CompiledRequest {
        template: Template::Varying {
            head: vec![
                RequestPart::Bytes(b"GET /"[..].into()),
                RequestPart::Sequence,
                RequestPart::Bytes(b" HTTP/1.1\r\nHost: sim\r\n\r\n"[..].into()),
            ],
            body: Vec::new(),
        },
        ..request("/", status_200())
    };
    let requests = vec![
        (request("/a", expect(contains)), 5),
        (request("/b", expect(unmet_checks)), 1),
        (varying, 3),
    ];
    Arc::new(Traffic::new(requests).unwrap())
}

#[test]
fn mix_record_matches() {
    let mixed = WorkerConfig { traffic: mix(), check_one_in: 7, ..config(4, &Arrivals::Closed) };
    assert_record("mix", faulty_world(Queue::PerConnection, &[(Fault::Status, 0.02)]), mixed);
    let open = WorkerConfig {
        traffic: mix(),
        check_one_in: 7,
        ..config(2, &Arrivals::Poisson { rate: 6000.0 })
    };
    assert_record("mix_overload", faulty_world(Queue::Single, &[]), open);
}

#[test]
fn pages_record_matches() {
    let requests = (0..8).map(|i| (request(&format!("/{i}"), status_200()), 1)).collect();
    let traffic = Arc::new(Traffic::new(requests).unwrap());
    let pages =
        WorkerConfig { traffic, page_connections: Some(4), ..config(12, &Arrivals::Closed) };
    assert_record("pages", with_thefts(faulty_world(Queue::PerConnection, &[])), pages.clone());
    let mut some = WorkerConfig { total: Some(50), ..pages.clone() };
    some.window.duration_ns = None;
    assert_record("pages_total", faulty_world(Queue::PerConnection, &[]), some);
    let faults: Vec<_> = Fault::HTTP1.into_iter().map(|fault| (fault, 0.005)).collect();
    let mut world = faulty_world(Queue::PerConnection, &faults);
    world.net.refuse = 0.1;
    assert_record("pages_faults", world, pages);
}

/// Requests over HTTP/2 in a closed loop. Every second one has a body.
fn http2_config(connections: u32) -> WorkerConfig {
    let fields = |path: &str| -> Vec<(Vec<u8>, Vec<u8>)> {
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "sim"),
            (":path", path),
            ("x", "y"),
        ]
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .to_vec()
    };
    let lists = [fields("/a"), fields("/b")];
    let shared = SharedFields::from_requests(&lists);
    let stream = |list: &Vec<_>, body: &[u8]| CompiledRequest {
        stream: Some(StreamTemplate::Fixed { block: shared.encode(list), body: Arc::from(body) }),
        ..request("/", Expectation { body: Some(Arc::from(&b"Hello, World!"[..])), ..status_200() })
    };
    let weighted = vec![(stream(&lists[0], b""), 1), (stream(&lists[1], &[b'q'; 3000]), 1)];
    let traffic = Arc::new(Traffic::new(weighted).unwrap().with_shared_bytes(shared.table_bytes()));
    WorkerConfig {
        protocol: Protocol::H2c,
        streams: 5,
        traffic,
        ..config(connections, &Arrivals::Closed)
    }
}

#[test]
fn streams_record_matches() {
    assert_record("streams", with_thefts(faulty_world(Queue::PerConnection, &[])), http2_config(3));
    let mut world = faulty_world(Queue::PerConnection, &[]);
    world.server.max_streams = Some(3);
    // Bodies wait for a WINDOW_UPDATE.
    world.server.request_window = 1000;
    assert_record("streams_granted", world, http2_config(3));
}

#[test]
fn hang_up_record_matches() {
    let config = WorkerConfig { streams: 5, ..http2_config(4) };
    let faults = [(Fault::GoAway, 0.02)];
    let driver = SimDriver::new(faulty_world(Queue::PerConnection, &faults));
    assert_record_text("hung_up_h2", &record_text(&run_with_hang_ups(driver, config, 3)));
    let faults = [(Fault::PoliteClose, 0.02)];
    let driver = SimDriver::new(faulty_world(Queue::PerConnection, &faults));
    assert_record_text(
        "hung_up_h1",
        &record_text(&run_with_hang_ups(driver, self::config(4, &Arrivals::Closed), 3)),
    );
}

#[test]
fn http2_faults_record_matches() {
    let faults: Vec<_> = Fault::HTTP2.into_iter().map(|fault| (fault, 0.005)).collect();
    let mut world = faulty_world(Queue::PerConnection, &faults);
    world.net.refuse = 0.1;
    world.server.turn_away = 0.05;
    assert_record("faults_h2", world.clone(), http2_config(4));
    let arrivals = Arrivals::Constant { rate: 3000.0 };
    let schedule = config(4, &arrivals).schedule;
    let mut open = WorkerConfig { schedule, ..http2_config(4) };
    open.policy.first_byte_timeout_ns = Some(20 * MS);
    open.policy.requests_per_connection = Some(50);
    assert_record("faults_h2_open", world, open);
}

#[test]
fn declined_upgrade_record_matches() {
    let upgrade =
        b"GET / HTTP/1.1\r\nHost: sim\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
        HTTP2-Settings: \r\n\r\n";
    let plain = http2_config(3);
    let with_upgrade = |request: &CompiledRequest| {
        let upgrade = Some(Template::Fixed(Arc::from(&upgrade[..])));
        (CompiledRequest { upgrade, ..request.clone() }, 1)
    };
    let requests = plain.traffic.requests().iter().map(with_upgrade).collect();
    let traffic =
        Arc::new(Traffic::new(requests).unwrap().with_shared_bytes(plain.traffic.shared_bytes()));
    let declined = WorkerConfig { protocol: Protocol::H2cUpgrade, traffic, ..plain };
    assert_record(
        "upgrade_declined",
        faulty_world(Queue::PerConnection, &[(Fault::PoliteClose, 0.01)]),
        declined,
    );
}

#[test]
fn tls_record_matches() {
    let tls_pair = |alpn: &str, goodbye: Goodbye, faults: &[(Fault, f64)]| {
        pair(SimDriver::new(faulty_world(Queue::PerConnection, faults)), alpn, true, goodbye)
    };
    let faults = [
        (Fault::CloseInBody, 0.01),
        (Fault::PoliteClose, 0.02),
        (Fault::QuietClose, 0.02),
        (Fault::Reset, 0.01),
    ];
    for (name, goodbye) in [("tls_notice", Goodbye::Notice), ("tls_cut", Goodbye::None)] {
        let (tls, driver) = tls_pair("http/1.1", goodbye, &faults);
        let config = WorkerConfig {
            protocol: Protocol::H1Tls,
            tls: Some(tls),
            ..config(4, &Arrivals::Closed)
        };
        assert_tls_record(name, driver, config);
    }
    let (tls, driver) = tls_pair("h2", Goodbye::Notice, &[(Fault::GoAway, 0.005)]);
    assert_tls_record(
        "tls_h2",
        driver,
        WorkerConfig { protocol: Protocol::H2, tls: Some(tls), ..http2_config(3) },
    );
    let (tls, driver) = tls_pair("http/1.1", Goodbye::Notice, &[]);
    assert_tls_record(
        "tls_fallen_back",
        driver,
        WorkerConfig { protocol: Protocol::H2, tls: Some(tls), ..http2_config(3) },
    );
}

#[test]
fn untrusted_certificate_record_matches() {
    let world = faulty_world(Queue::PerConnection, &[]);
    let (tls, driver) = pair(SimDriver::new(world), "http/1.1", false, Goodbye::Notice);
    let config = WorkerConfig {
        protocol: Protocol::H1Tls,
        tls: Some(tls),
        ..config(2, &Arrivals::Constant { rate: 500.0 })
    };
    assert_tls_record("tls_refused", driver, config);
}
