//! Whole records of loads in simulated worlds, number by number: what no other test asks for shows
//! here when it changes. `UPDATE_GOLDEN=1 cargo test -p dyno-engine --test records` writes them
//! anew, for `git diff` to show.

mod world;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use dyno_archive::Times;
use dyno_archive::plan::{Arrivals, Gaps, Segment};
use dyno_engine::expect::{Deep, ExpectedValue};
use dyno_engine::sim::{
    Fault, Pause, Queue, ServerModel, ServiceTime, SimDriver, Theft, TheftTime, World,
};
use dyno_engine::traffic::{RequestPart, StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Expectation, Instant, Policy, Protocol, SpinPolicy, Stop, Traffic, Window,
    WorkerConfig,
};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;
use serde_json::{Value, json};
use world::secured::{Goodbye, Secured, pair};
use world::watched::{Seen, watch, watch_hung_up};
use world::{MS, SECOND};

/// Holds a record against the one that is kept of it.
fn hold(name: &str, world: World, config: WorkerConfig) {
    hold_until(name, world, config, |_, _| Stop::No);
}

fn hold_until(name: &str, world: World, config: WorkerConfig, stop: impl Fn(Instant, u64) -> Stop) {
    hold_text(name, &text(&watch(SimDriver::new(world), config, stop)));
}

/// The same over TLS. How many bytes a record takes, chance decides: signatures are longer or
/// shorter.
fn hold_secured(name: &str, driver: Secured, config: WorkerConfig) {
    let text = text(&watch(driver, config, |_, _| Stop::No));
    let is_kept = |line: &&str| !line.contains("bytes");
    hold_text(
        name,
        &text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect::<String>(),
    );
}

fn hold_text(name: &str, now: &str) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, now).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let difference = kept.lines().zip(now.lines()).find(|(kept, now)| kept != now);
    assert!(
        kept == now,
        "{name}: {difference:?}, {} lines and {}; if that is meant, UPDATE_GOLDEN=1 writes it",
        kept.lines().count(),
        now.lines().count()
    );
}

/// One number a line, zeros left out.
fn text(seen: &Seen) -> String {
    let report = &seen.report;
    let whole = json!({
        "calls": seen.calls, "books": report.books, "connections": report.connections,
        "tcp": report.tcp,
        "tls": report.tls, "http2": report.http2, "cpu": report.cpu, "edges": report.edges,
        "unanswered": report.unanswered, "protocol_errors": report.protocol_errors,
        "unexpected": report.unexpected, "connection_failures": report.connection_failures,
        "window_ns": report.window_ns, "intervals": seen.intervals, "sealed_ns": seen.sealed_ns,
    });
    let mut out = String::new();
    lines("", &whole, &mut out);
    out
}

fn lines(at: &str, value: &Value, out: &mut String) {
    match value {
        Value::Object(all) => {
            all.iter().for_each(|(key, value)| lines(&format!("{at}.{key}"), value, out));
        }
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(i, value)| lines(&format!("{at}.{i}"), value, out));
        }
        Value::String(text) if text.starts_with("HIST") => {
            let times: Times = serde_json::from_value(value.clone()).unwrap();
            let at_q = |q| times.quantile(q).unwrap_or(0);
            let shown = [times.min().unwrap_or(0), at_q(0.5), at_q(0.99), times.max().unwrap_or(0)];
            let _ = writeln!(
                out,
                "{at} {} from {}, {}, {} to {}",
                times.count(),
                shown[0],
                shown[1],
                shown[2],
                shown[3]
            );
        }
        Value::Null | Value::Bool(false) => {}
        Value::String(text) if text.is_empty() => {}
        Value::Number(n) if n.as_u64() == Some(0) => {}
        other => {
            let _ = writeln!(out, "{at} {other}");
        }
    }
}

/// A tenth of a second of warm-up and four of measuring, in intervals of two.
fn config(connections: u32, arrivals: &Arrivals) -> WorkerConfig {
    let alone = world::config(connections, arrivals, 1);
    WorkerConfig {
        window: Window {
            warmup_ns: 100 * MS,
            duration_ns: Some(400 * MS),
            interval_ns: 200 * MS,
            drain_ns: 300 * MS,
        },
        policy: Policy { timeout_ns: 50 * MS, ..alone.policy },
        ..alone
    }
}

/// Service in half a millisecond on average, and deliveries that are cut.
fn served(queue: Queue, faults: &[(Fault, f64)]) -> World {
    let mut model = ServerModel::new(ServiceTime::Exponential { mean_ns: 500_000.0 }, queue);
    model.faults = faults.to_vec();
    let mut world = World::new(7, model);
    world.net.cut = 0.1;
    world
}

/// The world steals from a generator, asleep and awake.
fn robbed(mut world: World) -> World {
    world.thefts = vec![
        Theft { at_ns: 150 * MS, for_ns: 20 * MS, when: TheftTime::Asleep },
        Theft { at_ns: 300 * MS, for_ns: 30 * MS, when: TheftTime::Working },
        // Over the end of the window.
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
fn closed_loop_keeps_its_connections() {
    hold("keep_alive", robbed(served(Queue::PerConnection, &[])), config(4, &Arrivals::Closed));
}

#[test]
fn closed_loop_pipelines() {
    let all_polls =
        WorkerConfig { pipeline: 8, spin: SpinPolicy::Always, ..config(3, &Arrivals::Closed) };
    hold("pipelined", served(Queue::Single, &[]), all_polls);
}

#[test]
fn open_loop_waits_for_a_server_that_pauses() {
    let mut world = robbed(served(Queue::Single, &[]));
    world.server.pauses.push(Pause { at_ns: 350 * MS, for_ns: 40 * MS });
    hold("paused", world, config(16, &Arrivals::Constant { rate: 1000.0 }));
}

#[test]
fn open_loop_overloads() {
    let world = served(Queue::Single, &[]);
    hold(
        "overload",
        world,
        WorkerConfig { spin: SpinPolicy::Never, ..config(8, &Arrivals::Poisson { rate: 4000.0 }) },
    );
}

#[test]
fn rate_changes_and_ends() {
    let segment = |from_rate, to_rate| Segment { from_rate, to_rate, duration_ns: 150 * MS };
    let segments = vec![segment(0.0, 800.0), segment(200.0, 200.0), segment(200.0, 0.0)];
    let shaped = WorkerConfig {
        total: Some(1000),
        ..config(8, &Arrivals::Shaped { segments, gaps: Gaps::Even })
    };
    hold("shaped", served(Queue::PerConnection, &[]), shaped);
}

#[test]
fn whatever_goes_wrong_with_http1_is_counted() {
    let faults: Vec<_> =
        Fault::OF_HTTP1.into_iter().chain([Fault::QuietClose]).map(|f| (f, 0.01)).collect();
    let mut world = served(Queue::PerConnection, &faults);
    world.net.refuse = 0.3;
    let pipelined = WorkerConfig { pipeline: 3, ..config(6, &Arrivals::Closed) };
    hold("faults_h1", world.clone(), pipelined);
    let mut open = config(6, &Arrivals::Constant { rate: 2000.0 });
    open.policy.first_byte_timeout_ns = Some(20 * MS);
    hold("faults_h1_open", world, open);
}

#[test]
fn connections_are_replaced_and_opened_one_by_one() {
    let mut config = config(10, &Arrivals::Closed);
    config.policy.requests_per_connection = Some(5);
    config.policy.ramp_ns = Some(250 * MS);
    hold("ramp", served(Queue::PerConnection, &[]), config);
}

#[test]
fn number_of_requests_ends_a_load() {
    let mut config = WorkerConfig { total: Some(100), ..config(7, &Arrivals::Closed) };
    config.window.duration_ns = None;
    hold("total", served(Queue::PerConnection, &[(Fault::Silence, 0.02)]), config);
}

#[test]
fn load_is_cut_and_hurried() {
    let world = || served(Queue::PerConnection, &[(Fault::Silence, 0.01)]);
    let mut endless = config(4, &Arrivals::Closed);
    endless.policy.timeout_ns = 10 * SECOND;
    endless.window.drain_ns = 5 * SECOND;
    let at_250 = |began: Instant| began.plus(250 * MS);
    hold_until("cut", world(), endless.clone(), |began, since| {
        if since > 240 * MS { Stop::At(at_250(began)) } else { Stop::No }
    });
    hold_until("hurried", world(), endless.clone(), |began, since| {
        if since > 240 * MS { Stop::Now(at_250(began)) } else { Stop::No }
    });
    // Asked for in the drain.
    hold_until("hurried_late", world(), endless, |began, since| {
        if since > 700 * MS { Stop::Now(began.plus(since)) } else { Stop::No }
    });
}

#[test]
fn server_that_reads_no_more_times_out() {
    let mut world = served(Queue::PerConnection, &[]);
    world.server.reads = Some(2000);
    let pipelined = WorkerConfig { pipeline: 4, ..config(3, &Arrivals::Closed) };
    hold("unread", world.clone(), pipelined);
    hold("unread_streams", world, WorkerConfig { streams: 4, ..over_http2(3) });
}

/// Three requests of different weights. Every seventh answer is checked in full.
fn mix() -> Arc<Traffic> {
    let deep = |deep: Deep| Expectation { deep: Arc::new(deep), ..status_200() };
    let header = vec![("content-type".to_string(), ExpectedValue::Is("text/plain".to_string()))];
    let contains = Deep { contains: Some(b"World".to_vec()), headers: header, ..Deep::default() };
    let wrong = Deep { contains: Some(b"Mars".to_vec()), ..Deep::default() };
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
    let all =
        vec![(request("/a", deep(contains)), 5), (request("/b", deep(wrong)), 1), (varying, 3)];
    Arc::new(Traffic::new(all).unwrap())
}

#[test]
fn mix_is_drawn_and_checked() {
    let mixed = WorkerConfig { traffic: mix(), check_one_in: 7, ..config(4, &Arrivals::Closed) };
    hold("mix", served(Queue::PerConnection, &[(Fault::Status, 0.02)]), mixed);
    let open = WorkerConfig {
        traffic: mix(),
        check_one_in: 7,
        ..config(2, &Arrivals::Poisson { rate: 6000.0 })
    };
    hold("mix_overload", served(Queue::Single, &[]), open);
}

#[test]
fn pages_are_loaded_with_their_resources() {
    let requests = (0..8).map(|i| (request(&format!("/{i}"), status_200()), 1)).collect();
    let traffic = Arc::new(Traffic::new(requests).unwrap());
    let pages =
        WorkerConfig { traffic, page_connections: Some(4), ..config(12, &Arrivals::Closed) };
    hold("pages", robbed(served(Queue::PerConnection, &[])), pages.clone());
    let mut some = WorkerConfig { total: Some(50), ..pages.clone() };
    some.window.duration_ns = None;
    hold("pages_total", served(Queue::PerConnection, &[]), some);
    let faults: Vec<_> = Fault::OF_HTTP1.into_iter().map(|fault| (fault, 0.005)).collect();
    let mut world = served(Queue::PerConnection, &faults);
    world.net.refuse = 0.1;
    hold("pages_faults", world, pages);
}

/// Requests over HTTP/2 in a closed loop, every second one with a body.
fn over_http2(connections: u32) -> WorkerConfig {
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
    let traffic = Arc::new(Traffic::new(weighted).unwrap().sharing(shared.table_bytes()));
    WorkerConfig {
        protocol: Protocol::H2c,
        streams: 5,
        traffic,
        ..config(connections, &Arrivals::Closed)
    }
}

#[test]
fn streams_are_opened_as_far_as_they_are_granted() {
    hold("streams", robbed(served(Queue::PerConnection, &[])), over_http2(3));
    let mut world = served(Queue::PerConnection, &[]);
    world.server.max_streams = Some(3);
    // Bodies wait for a WINDOW_UPDATE.
    world.server.request_window = 1000;
    hold("streams_granted", world, over_http2(3));
}

#[test]
fn server_that_hangs_up_before_anything_is_said_is_asked_again() {
    let config = WorkerConfig { streams: 5, ..over_http2(4) };
    let faults = [(Fault::GoAway, 0.02)];
    let driver = SimDriver::new(served(Queue::PerConnection, &faults));
    hold_text("hung_up_h2", &text(&watch_hung_up(driver, config, 3)));
    let faults = [(Fault::PoliteClose, 0.02)];
    let driver = SimDriver::new(served(Queue::PerConnection, &faults));
    hold_text("hung_up_h1", &text(&watch_hung_up(driver, self::config(4, &Arrivals::Closed), 3)));
}

#[test]
fn whatever_goes_wrong_with_http2_is_counted() {
    let faults: Vec<_> = Fault::OF_HTTP2.into_iter().map(|fault| (fault, 0.005)).collect();
    let mut world = served(Queue::PerConnection, &faults);
    world.net.refuse = 0.1;
    world.server.turn_away = 0.05;
    hold("faults_h2", world.clone(), over_http2(4));
    let arrivals = Arrivals::Constant { rate: 3000.0 };
    let schedule = config(4, &arrivals).schedule;
    let mut open = WorkerConfig { schedule, ..over_http2(4) };
    open.policy.first_byte_timeout_ns = Some(20 * MS);
    open.policy.requests_per_connection = Some(50);
    hold("faults_h2_open", world, open);
}

#[test]
fn server_that_declines_an_upgrade_goes_on_in_http1() {
    let upgrade =
        b"GET / HTTP/1.1\r\nHost: sim\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
        HTTP2-Settings: \r\n\r\n";
    let plain = over_http2(3);
    let with_upgrade = |request: &CompiledRequest| {
        let upgrade = Some(Template::Fixed(Arc::from(&upgrade[..])));
        (CompiledRequest { upgrade, ..request.clone() }, 1)
    };
    let requests = plain.traffic.requests().iter().map(with_upgrade).collect();
    let traffic = Arc::new(Traffic::new(requests).unwrap().sharing(plain.traffic.shared_bytes()));
    let declined = WorkerConfig { protocol: Protocol::H2cUpgrade, traffic, ..plain };
    hold("upgrade_declined", served(Queue::PerConnection, &[(Fault::PoliteClose, 0.01)]), declined);
}

#[test]
fn connections_are_secured_before_anything_is_asked() {
    let over_tls = |alpn: &str, goodbye: Goodbye, faults: &[(Fault, f64)]| {
        pair(SimDriver::new(served(Queue::PerConnection, faults)), alpn, true, goodbye)
    };
    let faults = [
        (Fault::CloseInBody, 0.01),
        (Fault::PoliteClose, 0.02),
        (Fault::QuietClose, 0.02),
        (Fault::Reset, 0.01),
    ];
    for (name, goodbye) in [("tls_notice", Goodbye::Notice), ("tls_cut", Goodbye::None)] {
        let (tls, driver) = over_tls("http/1.1", goodbye, &faults);
        let config = WorkerConfig {
            protocol: Protocol::H1Tls,
            tls: Some(tls),
            ..config(4, &Arrivals::Closed)
        };
        hold_secured(name, driver, config);
    }
    let (tls, driver) = over_tls("h2", Goodbye::Notice, &[(Fault::GoAway, 0.005)]);
    hold_secured(
        "tls_h2",
        driver,
        WorkerConfig { protocol: Protocol::H2, tls: Some(tls), ..over_http2(3) },
    );
    let (tls, driver) = over_tls("http/1.1", Goodbye::Notice, &[]);
    hold_secured(
        "tls_fallen_back",
        driver,
        WorkerConfig { protocol: Protocol::H2, tls: Some(tls), ..over_http2(3) },
    );
}

#[test]
fn server_without_a_trusted_certificate_is_asked_nothing() {
    let world = served(Queue::PerConnection, &[]);
    let (tls, driver) = pair(SimDriver::new(world), "http/1.1", false, Goodbye::Notice);
    let config = WorkerConfig {
        protocol: Protocol::H1Tls,
        tls: Some(tls),
        ..config(2, &Arrivals::Constant { rate: 500.0 })
    };
    hold_secured("tls_refused", driver, config);
}
