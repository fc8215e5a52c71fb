//! Closed loops that take turns with other loads: they send in their own time slices, over
//! connections that stay open.

use dyno_engine::sim::{
    self, Queue, ServerModel, ServiceTime, SimulationResult, Theft, TheftTime, World,
};
use dyno_engine::slices::Slices;
use dyno_engine::{Schedule, WorkerConfig};
use dyno_model::interval::Phase;
use dyno_model::outcome::Outcome;
use dyno_model::plan::Arrivals;
use proptest::prelude::*;

use crate::world::{self, MS, count_outcomes};

const SLICE: u64 = 40 * MS;

/// A warm-up of one round of two loads, and a window of eight rounds.
fn config(index: u32, seed: u64, pipeline: u32) -> WorkerConfig {
    let mut config = world::config(4, &Arrivals::Closed, 1);
    let slices = Slices { length_ns: SLICE, loads: 2, index, seed };
    config.pipeline = pipeline;
    config.schedule = Schedule::Sliced(slices);
    config.window.warmup_ns = slices.round_ns();
    config.window.duration_ns = Some(8 * slices.round_ns());
    config.window.interval_ns = SLICE / 4;
    config
}

fn simulate(config: WorkerConfig) -> SimulationResult {
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    sim::simulate(World::new(1, model), config)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Requests start only in own slices, though they may end later. All own slices start about as
    /// many requests.
    #[test]
    fn requests_start_only_in_own_slices(
        index in 0u32..2,
        seed: u64,
        pipeline in 1u32..6,
    ) {
        let config = config(index, seed, pipeline);
        let Schedule::Sliced(slices) = config.schedule else { unreachable!() };
        let window = config.window;
        let end = window.warmup_ns + window.duration_ns.unwrap();
        let result = simulate(config);
        let started = |from: u64, to: u64| -> u64 {
            let intervals = result.intervals.iter().filter(|i| i.phase != Phase::Drain);
            intervals.filter(|i| i.start_ns >= from && i.end_ns <= to).map(|i| i.started).sum()
        };
        let own_slices = slices.slices_between(0, end);
        let per_slice: Vec<u64> = own_slices.iter().map(|(from, to)| started(*from, *to)).collect();
        prop_assert_eq!(per_slice.iter().sum::<u64>(), started(0, end));
        let min = *per_slice[1..].iter().min().unwrap();
        let max = *per_slice.iter().max().unwrap();
        // Where two own slices follow each other, the second begins with the requests in flight of
        // the first.
        prop_assert!(max - min <= 4 * u64::from(pipeline) && min > 100, "{per_slice:?}");
    }

    #[test]
    fn books_balance_and_connections_persist(index in 0u32..2, seed: u64, pipeline in 1u32..6) {
        let result = simulate(config(index, seed, pipeline));
        prop_assert!(result.report.books.balance(), "{:?}", result.report.books);
        prop_assert_eq!(result.report.connections.opened, 4);
        let outcomes = count_outcomes(&result, &[Phase::Warmup, Phase::Measured, Phase::Drain]);
        prop_assert_eq!(outcomes.get(Outcome::Ok), result.truth.requests - carried(&result));
    }
}

/// A thread that wakes in the slice of another load and waits for the CPU does not delay its own
/// load.
#[test]
fn cpu_wait_counts_only_in_own_slices() {
    let config = config(0, 5, 1);
    let Schedule::Sliced(slices) = config.schedule else { unreachable!() };
    let (opens, closes) =
        (config.window.warmup_ns, config.window.warmup_ns + config.window.duration_ns.unwrap());
    let own_slices = slices.slices_between(opens, closes);
    let gap = own_slices
        .windows(2)
        .map(|pair| (pair[0].1, pair[1].0))
        .find(|(from, to)| to > from)
        .unwrap();
    let middle = |(from, to): (u64, u64)| (from + to) / 2;
    // Both runs are identical up to the first theft, so the load begins at the same instant.
    let began = simulate(config.clone()).began.0;
    let theft = |at: u64, for_ns: u64| Theft { at_ns: began + at, for_ns, when: TheftTime::Asleep };
    let mut world =
        World::new(1, ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection));
    world.thefts = vec![theft(middle(own_slices[0]), 2 * MS), theft(middle(gap), 3 * MS)];
    let result = sim::simulate(world, config);
    assert_eq!(result.began.0, began);
    assert_eq!(result.report.cpu.run_delay_ns, Some(2 * MS));
}

/// Returns the correct responses that are counted separately, because the window opened while they
/// were in flight.
fn carried(result: &SimulationResult) -> u64 {
    result.intervals.iter().map(|interval| interval.carried.get(Outcome::Ok)).sum()
}

/// Two loads together keep the server busy, and share it evenly.
#[test]
fn two_sliced_loads_share_window_evenly() {
    let ok = [0, 1].map(|index| {
        let result = simulate(config(index, 7, 1));
        count_outcomes(&result, &[Phase::Measured]).get(Outcome::Ok)
    });
    // 8 rounds of 160 ms, 4 connections, 1 ms per request plus network delays.
    assert!(ok[0].abs_diff(ok[1]) * 50 < ok[0], "{ok:?}");
    let alone = {
        let mut config = config(0, 7, 1);
        config.schedule = Schedule::Closed;
        count_outcomes(&simulate(config), &[Phase::Measured]).get(Outcome::Ok)
    };
    assert!((ok[0] + ok[1]).abs_diff(alone) * 20 < alone, "{ok:?} and {alone}");
}
