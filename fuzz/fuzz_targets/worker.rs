//! Any world: the worker never panics, always ends, and its books balance.
#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use dyno_engine::schedule::Stripe;
use dyno_engine::sim::{self, Fault, Net, Pause, Queue, ServerModel, ServiceTime, World};
use dyno_engine::traffic::{StreamTemplate, Template};
use dyno_engine::{
    CompiledRequest, Draws, Expectation, Http2, Instant, Policy, Protocol, Schedule, SpinPolicy,
    Stop, Traffic, Window, WorkerConfig,
};
use dyno_model::plan::Arrivals;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::SharedFields;
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input {
    seed: u64,
    connections: u8,
    pipeline: u8,
    rate: Option<u16>,
    poisson: bool,
    total: Option<u8>,
    per_connection: Option<u8>,
    service_us: u16,
    shared_queue: bool,
    cut: u8,
    refuse: u8,
    faults: [u8; 10],
    http2: Option<Streams>,
    pause_ms: u8,
    timeout_ms: u8,
    warmup_ms: u8,
    first_byte_ms: Option<u8>,
    ramp_ms: Option<u8>,
    stop_after: Option<u8>,
}

/// Options of HTTP/2 only.
#[derive(Debug, Arbitrary)]
struct Streams {
    streams: u8,
    granted: Option<u8>,
    request_window: u16,
    window_bits: u8,
    body: u16,
    answer: u16,
    turn_away: u8,
    page: bool,
}

const MS: u64 = 1_000_000;

fn odds(byte: u8) -> f64 {
    f64::from(byte) / 512.0
}

/// Requests that differ in their paths.
fn traffic(input: &Input, expected: &[u8], requests: usize) -> Arc<Traffic> {
    let body: Arc<[u8]> =
        vec![b'a'; input.http2.as_ref().map_or(0, |streams| usize::from(streams.body))].into();
    let lists: Vec<Vec<(Vec<u8>, Vec<u8>)>> = (0..requests)
        .map(|index| {
            let path = format!("/{index}");
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":authority", "f"),
                (":path", &path),
                ("x", "y"),
            ]
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .to_vec()
        })
        .collect();
    let shared = SharedFields::from_requests(&lists);
    let request = |list: &Vec<(Vec<u8>, Vec<u8>)>| CompiledRequest {
        template: Template::Fixed(Arc::from(&b"GET / HTTP/1.1\r\nHost: f\r\n\r\n"[..])),
        upgrade: None,
        stream: Some(StreamTemplate::Fixed { block: shared.encode(list), body: body.clone() }),
        kind: RequestKind::Other,
        expect: Expectation {
            status: Some(200),
            body: Some(Arc::from(expected)),
            ..Expectation::default()
        },
    };
    let weighted = lists.iter().map(|list| (request(list), 1)).collect();
    Arc::new(
        Traffic::new(weighted)
            .expect("the weights are above zero")
            .with_shared_bytes(shared.table_bytes()),
    )
}

fuzz_target!(|input: Input| {
    let queue = if input.shared_queue { Queue::Single } else { Queue::PerConnection };
    let mut model = ServerModel::new(
        ServiceTime::Exponential { mean_ns: f64::from(input.service_us) * 100.0 + 1.0 },
        queue,
    );
    let faults: &[Fault] = if input.http2.is_some() { &Fault::HTTP2 } else { &Fault::HTTP1 };
    model.faults =
        faults.iter().zip(input.faults).map(|(f, byte)| (*f, odds(byte) / 8.0)).collect();
    let mut http2 = Http2::default();
    if let Some(streams) = &input.http2 {
        model.max_streams = streams.granted.map(u32::from);
        model.request_window = u32::from(streams.request_window);
        model.body = vec![b'b'; usize::from(streams.answer)];
        model.turn_away = odds(streams.turn_away);
        http2.window_bits = 10 + streams.window_bits % 21;
        http2.connection_window_bits = http2.window_bits;
    }
    let is_page = input.rate.is_none() && input.http2.as_ref().is_some_and(|streams| streams.page);
    let expected = model.body.clone();
    model.pauses.push(Pause { at_ns: 20 * MS, for_ns: u64::from(input.pause_ms) * MS });
    let mut world = World::new(input.seed, model);
    world.net = Net { delay_ns: 10_000, cut: odds(input.cut), refuse: odds(input.refuse) };
    let rate = input.rate.map(|r| f64::from(r) + 1.0);
    let arrivals = match (rate, input.poisson) {
        (None, _) => Arrivals::Closed,
        (Some(rate), false) => Arrivals::Constant { rate },
        (Some(rate), true) => Arrivals::Poisson { rate },
    };
    let config = WorkerConfig {
        connections: u32::from(input.connections % 16) + 1,
        protocol: if input.http2.is_some() { Protocol::H2c } else { Protocol::H1 },
        http2,
        page_connections: is_page.then_some(1),
        pipeline: u32::from(input.pipeline % 8) + 1,
        streams: input.http2.as_ref().map_or(1, |streams| u32::from(streams.streams % 16) + 1),
        schedule: Schedule::new(
            &arrivals,
            &Arc::from([]),
            input.seed,
            Stripe { worker: 0, workers: 1 },
        ),
        total: input.total.map(u64::from),
        traffic: traffic(&input, &expected, if is_page { 5 } else { 1 }),
        draws: Draws::new(1, 0, 1),
        check_one_in: 1,
        worker: 0,
        tls: None,
        spin: SpinPolicy::Near,
        policy: Policy {
            timeout_ns: (u64::from(input.timeout_ms) + 10) * MS,
            first_byte_timeout_ns: input.first_byte_ms.map(|ms| (u64::from(ms) + 1) * MS),
            connect_timeout_ns: 50 * MS,
            requests_per_connection: input.per_connection.map(|n| u64::from(n) + 1),
            ramp_ns: input.ramp_ms.map(|ms| u64::from(ms) * MS / 4),
            backs_off: input.seed % 4 > 0,
            max_waiting: (input.seed % 5 == 0).then_some(input.seed % 3),
        },
        window: Window {
            warmup_ns: u64::from(input.warmup_ms) * MS / 8,
            duration_ns: Some(60 * MS),
            interval_ns: 20 * MS,
            drain_ns: 100 * MS,
        },
    };
    let mut turns = 0u32;
    let played = sim::simulate_until(world, config, || {
        turns += 1;
        match input.stop_after {
            Some(n) if turns > u32::from(n) * 4 => Stop::At(Instant(u64::from(n) * MS)),
            _ => Stop::No,
        }
    });
    assert!(played.report.books.balance(), "{:?}", played.report.books);
});
