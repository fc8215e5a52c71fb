//! Pages in a world whose truth is known.

mod world;

use std::sync::Arc;

use dyno_archive::Times;
use dyno_archive::interval::Phase;
use dyno_archive::plan::Arrivals;
use dyno_engine::sim::{self, Fault, Queue, ServerModel, ServiceTime, SimulationResult, World};
use dyno_engine::{CompiledRequest, Expectation, Policy, Traffic, WorkerConfig};
use dyno_wire::h1::response::RequestKind;
use world::{MS, SECOND};

/// `visitors` load pages of one document and `resources` for a second, over `each` connections of
/// HTTP/1.1.
fn load(world: World, visitors: u32, each: u32, resources: usize) -> SimulationResult {
    let request = |path: &str| {
        let bytes = format!("GET {path} HTTP/1.1\r\nHost: sim\r\n\r\n");
        CompiledRequest::from_bytes(
            bytes.as_bytes(),
            RequestKind::Other,
            Expectation { status: Some(200), ..Expectation::default() },
        )
    };
    let mut requests = vec![(request("/"), 1)];
    requests.extend((0..resources).map(|i| (request(&format!("/{i}")), 1)));
    let alone = world::config(visitors * each, &Arrivals::Closed, 1);
    let policy = Policy { timeout_ns: SECOND / 10, ..alone.policy };
    let traffic = Arc::new(Traffic::new(requests).unwrap());
    sim::play(world, WorkerConfig { traffic, page_connections: Some(each), policy, ..alone })
}

fn page_times(played: &SimulationResult) -> Times {
    Times::merge(played.intervals.iter().map(|i| &i.page))
}

/// Six connections and twelve resources: the document and two rounds, each 1 ms of service and two
/// delays of 10 µs.
#[test]
fn page_takes_its_rounds() {
    let world =
        World::new(1, ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection));
    let played = load(world, 2, 6, 12);
    let times = page_times(&played);
    // Histograms keep three digits.
    assert!(
        (times.quantile(0.5).unwrap() as f64 / 3_060_000.0 - 1.0).abs() < 0.002,
        "{:?}",
        times.quantile(0.5)
    );
    assert!((times.max().unwrap() as f64 / 3_060_000.0 - 1.0).abs() < 0.002);
    // 326 pages of each visitor fit into the second, and the 327th begins in it.
    assert!((2 * 326..=2 * 327).contains(&times.count()), "{}", times.count());
    let books = played.report.books;
    assert!(books.balance());
    assert_eq!((books.failed, books.in_flight_at_end), (0, 0));
    // Every document and every resource is a request of its own.
    assert_eq!(played.truth.requests, books.completed + carried(&played));
}

/// Answers that came after the window to what was intended after it: there are none, because
/// nothing starts then.
fn carried(played: &SimulationResult) -> u64 {
    played.intervals.iter().filter(|i| i.phase == Phase::Drain).map(|i| i.carried.total()).sum()
}

#[test]
fn one_connection_takes_one_at_a_time() {
    let world =
        World::new(1, ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection));
    let times = page_times(&load(world, 1, 1, 4));
    assert!(
        (times.quantile(0.5).unwrap() as f64 / 5_100_000.0 - 1.0).abs() < 0.002,
        "{:?}",
        times.quantile(0.5)
    );
}

#[test]
fn whatever_fails_the_books_balance_and_pages_go_on() {
    for seed in 0..200 {
        let mut model =
            ServerModel::new(ServiceTime::Exponential { mean_ns: 200_000.0 }, Queue::PerConnection);
        model.faults = Fault::OF_HTTP1.iter().map(|fault| (*fault, 0.004)).collect();
        let mut world = World::new(seed, model);
        world.net.cut = 0.2;
        world.net.refuse = 0.1;
        let played = load(world, 3, 4, 7);
        assert!(played.report.books.balance(), "seed {seed}: {:?}", played.report.books);
        let failed: u64 = played.intervals.iter().map(|i| i.pages_failed).sum();
        assert!(page_times(&played).count() > 10, "seed {seed}");
        assert!(failed > 0, "seed {seed}");
    }
}
