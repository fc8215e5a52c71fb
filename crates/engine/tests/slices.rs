//! Loads that alternate with others: a closed loop that goes on in its own slices of time, over
//! connections that stay.

mod world;

use dyno_archive::interval::Phase;
use dyno_archive::outcome::Outcome;
use dyno_archive::plan::Arrivals;
use dyno_engine::sim::{
    self, Queue, ServerModel, ServiceTime, SimulationResult, Theft, TheftTime, World,
};
use dyno_engine::slices::Slices;
use dyno_engine::{Schedule, WorkerConfig};
use proptest::prelude::*;
use world::{MS, count_outcomes};

const SLICE: u64 = 40 * MS;

/// A round of two loads to warm up, and eight that are measured.
fn config(own: u32, seed: u64, pipeline: u32) -> WorkerConfig {
    let mut config = world::config(4, &Arrivals::Closed, 1);
    let slices = Slices { length_ns: SLICE, of: 2, own, seed };
    config.pipeline = pipeline;
    config.schedule = Schedule::Sliced(slices);
    config.window.warmup_ns = slices.round_ns();
    config.window.duration_ns = Some(8 * slices.round_ns());
    config.window.interval_ns = SLICE / 4;
    config
}

fn play(config: WorkerConfig) -> SimulationResult {
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    sim::play(World::new(1, model), config)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Nothing begins outside the own slices; what began in one may end after it. In each own slice
    /// as much begins as in any other.
    #[test]
    fn requests_begin_in_their_own_slices(
        own in 0u32..2,
        seed: u64,
        pipeline in 1u32..6,
    ) {
        let config = config(own, seed, pipeline);
        let Schedule::Sliced(slices) = config.schedule else { unreachable!() };
        let window = config.window;
        let end = window.warmup_ns + window.duration_ns.unwrap();
        let played = play(config);
        let started = |from: u64, to: u64| -> u64 {
            let within = played.intervals.iter().filter(|i| i.phase != Phase::Drain);
            within.filter(|i| i.start_ns >= from && i.end_ns <= to).map(|i| i.started).sum()
        };
        let own = slices.slices_between(0, end);
        let of_slices: Vec<u64> = own.iter().map(|(from, to)| started(*from, *to)).collect();
        prop_assert_eq!(of_slices.iter().sum::<u64>(), started(0, end));
        let least = *of_slices[1..].iter().min().unwrap();
        let most = *of_slices.iter().max().unwrap();
        // Where two slices of its own follow each other, the second begins with the requests in
        // flight of the first.
        prop_assert!(most - least <= 4 * u64::from(pipeline) && least > 100, "{of_slices:?}");
    }

    #[test]
    fn books_balance_and_connections_stay(own in 0u32..2, seed: u64, pipeline in 1u32..6) {
        let played = play(config(own, seed, pipeline));
        prop_assert!(played.report.books.balance(), "{:?}", played.report.books);
        prop_assert_eq!(played.report.connections.opened, 4);
        let all = count_outcomes(&played, &[Phase::Warmup, Phase::Measured, Phase::Drain]);
        prop_assert_eq!(all.get(Outcome::Ok), played.truth.requests - carried(&played));
    }
}

/// A thread that wakes in another's slice and waits for that one's CPU wants nothing for its own
/// load.
#[test]
fn waiting_for_a_cpu_counts_in_the_own_slices() {
    let config = config(0, 5, 1);
    let Schedule::Sliced(slices) = config.schedule else { unreachable!() };
    let (opens, closes) =
        (config.window.warmup_ns, config.window.warmup_ns + config.window.duration_ns.unwrap());
    let own = slices.slices_between(opens, closes);
    let gap =
        own.windows(2).map(|pair| (pair[0].1, pair[1].0)).find(|(from, to)| to > from).unwrap();
    let middle = |(from, to): (u64, u64)| (from + to) / 2;
    // Alike up to the first theft, so that it begins at the same instant.
    let began = play(config.clone()).began.0;
    let theft = |at: u64, for_ns: u64| Theft { at_ns: began + at, for_ns, when: TheftTime::Asleep };
    let mut world =
        World::new(1, ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection));
    world.thefts = vec![theft(middle(own[0]), 2 * MS), theft(middle(gap), 3 * MS)];
    let played = sim::play(world, config);
    assert_eq!(played.began.0, began);
    assert_eq!(played.report.cpu.run_delay_ns, Some(2 * MS));
}

/// Correct responses that are counted apart, because the window opened while they were under way.
fn carried(played: &SimulationResult) -> u64 {
    played.intervals.iter().map(|interval| interval.carried.get(Outcome::Ok)).sum()
}

/// Both together load the server all the time, and neither has more of it.
#[test]
fn two_loads_share_the_window() {
    let answers = [0, 1].map(|own| {
        let played = play(config(own, 7, 1));
        count_outcomes(&played, &[Phase::Measured]).get(Outcome::Ok)
    });
    // 8 rounds of 160 ms, 4 connections, 1 ms each and what the network takes.
    assert!(answers[0].abs_diff(answers[1]) * 50 < answers[0], "{answers:?}");
    let alone = {
        let mut config = config(0, 7, 1);
        config.schedule = Schedule::Closed;
        count_outcomes(&play(config), &[Phase::Measured]).get(Outcome::Ok)
    };
    assert!((answers[0] + answers[1]).abs_diff(alone) * 20 < alone, "{answers:?} and {alone}");
}
