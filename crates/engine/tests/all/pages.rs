//! Compares measured page times with the page times of simulated worlds, where the truth is known.

use std::sync::Arc;

use dyno_engine::sim::{self, Fault, Queue, ServerModel, ServiceTime, SimulationResult, World};
use dyno_engine::{CompiledRequest, Expectation, Policy, Traffic, WorkerConfig};
use dyno_model::Times;
use dyno_model::interval::Phase;
use dyno_model::plan::Arrivals;
use dyno_wire::h1::response::RequestKind;

use crate::world::{self, MS, SECOND};

/// Runs a load of one second: `visitors` load pages of a document and `resources`, over
/// `per_visitor` HTTP/1.1 connections each.
fn load(world: World, visitors: u32, per_visitor: u32, resources: usize) -> SimulationResult {
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
    let base = world::config(visitors * per_visitor, &Arrivals::Closed, 1);
    let policy = Policy { timeout_ns: SECOND / 10, ..base.policy };
    let traffic = Arc::new(Traffic::new(requests).unwrap());
    sim::simulate(
        world,
        WorkerConfig { traffic, page_connections: Some(per_visitor), policy, ..base },
    )
}

fn page_times(result: &SimulationResult) -> Times {
    Times::merge(result.intervals.iter().map(|i| &i.page))
}

/// Six connections and twelve resources: the document and two rounds, each with 1 ms of service and
/// two delays of 10 µs.
#[test]
fn page_time_follows_connection_rounds() {
    let world =
        World::new(1, ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection));
    let result = load(world, 2, 6, 12);
    let times = page_times(&result);
    // Histograms have three significant digits.
    assert!(
        (times.quantile(0.5).unwrap() as f64 / 3_060_000.0 - 1.0).abs() < 0.002,
        "{:?}",
        times.quantile(0.5)
    );
    assert!((times.max().unwrap() as f64 / 3_060_000.0 - 1.0).abs() < 0.002);
    // Each visitor completes 326 pages in the second and begins a 327th.
    assert!((2 * 326..=2 * 327).contains(&times.count()), "{}", times.count());
    let books = result.report.books;
    assert!(books.balance());
    assert_eq!((books.failed, books.in_flight_at_end), (0, 0));
    // Every document and every resource is a separate request.
    assert_eq!(result.truth.requests, books.completed + carried(&result));
}

/// Responses after the window to requests intended after it.
fn carried(result: &SimulationResult) -> u64 {
    result.intervals.iter().filter(|i| i.phase == Phase::Drain).map(|i| i.carried.total()).sum()
}

#[test]
fn page_over_one_connection_is_sequential() {
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
fn pages_continue_after_failures() {
    for seed in 0..200 {
        let mut model =
            ServerModel::new(ServiceTime::Exponential { mean_ns: 200_000.0 }, Queue::PerConnection);
        model.faults = Fault::HTTP1.iter().map(|fault| (*fault, 0.004)).collect();
        let mut world = World::new(seed, model);
        world.net.cut = 0.2;
        world.net.refuse = 0.1;
        let result = load(world, 3, 4, 7);
        assert!(result.report.books.balance(), "seed {seed}: {:?}", result.report.books);
        let failed: u64 = result.intervals.iter().map(|i| i.pages_failed).sum();
        assert!(page_times(&result).count() > 10, "seed {seed}");
        assert!(failed > 0, "seed {seed}");
    }
}
