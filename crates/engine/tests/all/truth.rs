//! Compares measured times and counts with the times and counts of simulated worlds, where the
//! truth is known.

use std::sync::Arc;

use dyno_engine::expect::FullChecks;
use dyno_engine::sim::{
    self, Fault, Net, Pause, Queue, ServerModel, ServiceTime, Theft, TheftTime, World,
};
use dyno_engine::stored_body::BodyBudget;
use dyno_engine::{Instant, Stop, Traffic};
use dyno_model::interval::{Interval, Phase};
use dyno_model::outcome::Outcome;
use dyno_model::plan::Arrivals;
use proptest::prelude::*;

use crate::world::{
    MS, SECOND, ages, assert_exponential, at_end, config, count_outcomes, response, times,
};

/// Omission test: 1,000 requests per second for 5 s, a service time near zero, and a server pause
/// of one second. An exchange intended x after the start of the pause waits for 1 s − x. One fifth
/// of all response times is therefore uniform up to 1 s.
#[test]
fn server_pause_shows_in_response_time_not_service_time() {
    let mut model = ServerModel::new(ServiceTime::Fixed { ns: 1000 }, Queue::PerConnection);
    model.pauses.push(Pause { at_ns: 2 * SECOND, for_ns: SECOND });
    let result =
        sim::simulate(World::new(1, model), config(16, &Arrivals::Constant { rate: 1000.0 }, 5));
    assert_eq!(result.report.books.completed, 5000);
    let response = response(&result);
    // P(R > x) = (1 − x) / 5, so the quantile q is at 1 − 5 (1 − q) seconds.
    for q in [0.81, 0.85, 0.9, 0.95, 0.99] {
        let truth = (1.0 - 5.0 * (1.0 - q)) * 1e9;
        // One arrival more or less is 1 ms. The backlog of 1,000 takes 1.3 ms to leave through 16
        // connections.
        let measured = response.quantile(q).unwrap() as f64;
        assert!((measured - truth).abs() < 2.5e6, "quantile {q}: {measured}, expected {truth}");
    }
    let slow: u64 = response.values().filter(|(v, _)| *v > MS).map(|(_, n)| n).sum();
    assert!((995..=1001).contains(&slow), "{slow} slow responses");
    // Only the requests that were on the 16 connections when the pause began have a long service
    // time.
    let service = times(&result, |i| &i.times.service);
    let long: u64 = service.values().filter(|(v, _)| *v > MS).map(|(_, n)| n).sum();
    assert_eq!(long, 16);
    // All other requests waited for a connection: that is send lag, and response time = send lag +
    // service time.
    let lag = times(&result, |i| &i.times.send_lag);
    let late: u64 = lag.values().filter(|(v, _)| *v > MS).map(|(_, n)| n).sum();
    assert!((975..=1000).contains(&late), "{late} late sends");
}

/// Responses whose bodies the generator cannot store are not counted as checked. The server is not
/// blamed for them.
#[test]
fn responses_without_stored_body_are_unchecked() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    let body_bytes = model.body.len();
    for (bytes, is_checked) in [(body_bytes, true), (body_bytes - 1, false)] {
        let mut load = config(1, &Arrivals::Closed, 1);
        let mut request = load.traffic.requests()[0].clone();
        let contains = Some(b"World".to_vec());
        request.expect.full_checks = Arc::new(FullChecks { contains, ..FullChecks::default() });
        request.expect.budget = BodyBudget::new(bytes);
        load.traffic = Arc::new(Traffic::single(request));
        let result = sim::simulate(World::new(1, model.clone()), load);
        let unstored = result.intervals.iter().filter_map(|i| i.unstored_bodies);
        let unchecked: u64 = unstored.map(|bodies| bodies.unchecked).sum();
        let checked: u64 = result.intervals.iter().map(|i| i.checked).sum();
        let ok = count_outcomes(&result, &[Phase::Measured, Phase::Drain]).get(Outcome::Ok);
        assert!(ok > 500 && ok == result.report.books.completed, "{ok}");
        let expected = if is_checked { (ok, 0) } else { (0, ok) };
        assert_eq!((checked, unchecked), expected, "{bytes} bytes");
    }
}

/// A server closes connections politely with pipelined requests on them, which are sent again. The
/// schedule has even gaps nevertheless, and each request one achieved gap.
#[test]
fn requests_sent_again_leave_intended_gaps_even() {
    let mut model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    model.faults = vec![(Fault::PoliteClose, 0.2)];
    let mut load = config(4, &Arrivals::Constant { rate: 2000.0 }, 2);
    load.pipeline = 8;
    let result = sim::simulate(World::new(1, model), load);
    assert!(result.report.connections.opened > 100, "{:?}", result.report.connections);
    let intended = times(&result, |i| &i.intended_gap);
    assert_eq!(intended.count(), 3999);
    // Recordings round by a thousandth.
    for gap in [intended.min(), intended.max()] {
        assert!(gap.unwrap().abs_diff(MS / 2) <= 500, "{gap:?}");
    }
    assert_eq!(times(&result, |i| &i.send_gap).count(), 3999);
}

/// The same world under a closed loop: each connection shows the pause once. This is coordinated
/// omission, and it shows that the test above can fail.
#[test]
fn closed_loop_shows_pause_once_per_connection() {
    let mut model = ServerModel::new(ServiceTime::Fixed { ns: 16 * MS }, Queue::PerConnection);
    model.pauses.push(Pause { at_ns: 2 * SECOND, for_ns: SECOND });
    let result = sim::simulate(World::new(1, model), config(16, &Arrivals::Closed, 5));
    let slow: u64 = response(&result).values().filter(|(v, _)| *v > 100 * MS).map(|(_, n)| n).sum();
    assert_eq!(slow, 16);
}

/// Queueing test: Poisson arrivals into one queue with exponential service (M/M/1). Response times
/// are exponential with mean 1/(μ − λ).
#[test]
fn mm1_response_times_are_exponential() {
    let (lambda, mu) = (500.0, 800.0);
    let model = ServerModel::new(ServiceTime::Exponential { mean_ns: 1e9 / mu }, Queue::Single);
    let mut world = World::new(3, model);
    world.net.delay_ns = 1;
    let result = sim::simulate(world, config(2000, &Arrivals::Poisson { rate: lambda }, 1000));
    assert_exponential(&response(&result), 1e9 / (mu - lambda));
}

#[test]
fn cpu_loss_while_busy_shows_send_lag_not_service_time() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: 100_000 }, Queue::PerConnection);
    let mut world = World::new(1, model);
    world.thefts.push(Theft { at_ns: SECOND, for_ns: 50 * MS, when: TheftTime::Working });
    let result = sim::simulate(world, config(64, &Arrivals::Constant { rate: 1000.0 }, 3));
    assert!(times(&result, |i| &i.times.send_lag).max().unwrap() > 45 * MS);
    assert!(times(&result, |i| &i.loop_lag).max().unwrap() >= 50 * MS);
    assert!(times(&result, |i| &i.wake_lag).max().unwrap_or(0) < MS);
    assert!(times(&result, |i| &i.times.service).max().unwrap() < 60 * MS);
    assert!(times(&result, |i| &i.times.service).quantile(0.99).unwrap() < MS);
}

#[test]
fn cpu_loss_while_asleep_shows_wake_lag() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: 100_000 }, Queue::PerConnection);
    let mut world = World::new(1, model);
    world.thefts.push(Theft { at_ns: SECOND, for_ns: 50 * MS, when: TheftTime::Asleep });
    let result = sim::simulate(world, config(64, &Arrivals::Constant { rate: 100.0 }, 3));
    assert!(times(&result, |i| &i.wake_lag).max().unwrap() > 45 * MS);
    assert!(times(&result, |i| &i.loop_lag).max().unwrap() < MS);
    assert!(times(&result, |i| &i.times.send_lag).max().unwrap() > 30 * MS);
}

/// A closed loop has no schedule: only its own waits show that the generator was stopped, not the
/// server.
#[test]
fn cpu_loss_in_closed_loop_shows_wake_lag() {
    for at_ns in (0..20).map(|n| SECOND + n * 3_700_000) {
        let model = ServerModel::new(ServiceTime::Fixed { ns: 30 * MS }, Queue::PerConnection);
        let mut world = World::new(1, model);
        world.thefts.push(Theft { at_ns, for_ns: 60 * MS, when: TheftTime::Asleep });
        let result = sim::simulate(world, config(4, &Arrivals::Closed, 3));
        let lag_ns = times(&result, |i| &i.wake_lag).max().unwrap();
        assert!((55 * MS..61 * MS).contains(&lag_ns), "stopped at {at_ns} ns: lag {lag_ns} ns");
    }
}

/// The part of a stop after the start of the window belongs to the window, even if the stop began
/// in the warm-up.
#[test]
fn cpu_loss_across_window_start_counts_in_window() {
    for arrivals in [Arrivals::Closed, Arrivals::Constant { rate: 300.0 }] {
        for (before_ms, after_ms) in [(450, 450), (100, 300), (700, 60), (200, 0)] {
            let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
            let mut world = World::new(1, model);
            let at_ns = 2 * SECOND - before_ms * MS;
            let for_ns = (before_ms + after_ms) * MS;
            world.thefts.push(Theft { at_ns, for_ns, when: TheftTime::Asleep });
            let mut config = config(4, &arrivals, 2);
            config.window.warmup_ns = 2 * SECOND;
            let result = sim::simulate(world, config);
            let longest_lag = |i: &Interval| i.wake_lag.max().max(i.loop_lag.max()).unwrap_or(0);
            let measured = result.intervals.iter().filter(|i| i.phase == Phase::Measured);
            let lag_ns = measured.map(longest_lag).max().unwrap();
            assert!(
                lag_ns.abs_diff(after_ms * MS) < 8 * MS,
                "{before_ms} ms before, {after_ms} ms after: {lag_ns} ns"
            );
        }
    }
}

#[test]
fn closed_loop_throughput_follows_littles_law() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    let result = sim::simulate(World::new(1, model), config(8, &Arrivals::Closed, 10));
    // 8 requests in flight, each with 1 ms of service and two one-way delays of 10 µs.
    let expected = 8.0 * 1e10 / 1_020_000.0;
    let ok = count_outcomes(&result, &[Phase::Measured]).get(Outcome::Ok) as f64;
    assert!((ok / expected - 1.0).abs() < 0.001, "{ok}, expected {expected}");
    let measured: Vec<_> = result.intervals.iter().filter(|i| i.phase == Phase::Measured).collect();
    let in_flight = measured.iter().map(|i| i.in_flight_ns).sum::<u64>() as f64 / 1e10;
    assert!((in_flight - 8.0).abs() < 0.001, "{in_flight}");
}

/// One server, 1 ms per request. After a refill all 32 are in flight, then one less with every
/// response, until the eighth free place of a connection triggers its refill: the mean of 32, 31, …
/// 25.
#[test]
fn pipeline_is_refilled_when_half_is_free() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::Single);
    let mut config = config(2, &Arrivals::Closed, 2);
    config.pipeline = 16;
    let result = sim::simulate(World::new(1, model), config);
    let measured: Vec<_> = result.intervals.iter().filter(|i| i.phase == Phase::Measured).collect();
    let in_flight = measured.iter().map(|i| i.in_flight_ns).sum::<u64>() as f64 / 2e9;
    assert!((in_flight - 28.5).abs() < 0.01, "{in_flight}");
    assert_eq!(count_outcomes(&result, &[Phase::Measured]).get(Outcome::Ok), 1999);
}

/// Arrivals that are intended while the worker sleeps through the end of the window belong to the
/// window.
#[test]
fn arrivals_due_at_window_end_are_all_counted() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: 1000 }, Queue::PerConnection);
    let mut world = World::new(1, model);
    world.thefts.push(Theft { at_ns: SECOND - 20 * MS, for_ns: 100 * MS, when: TheftTime::Asleep });
    let result = sim::simulate(world, config(8, &Arrivals::Constant { rate: 1000.0 }, 1));
    let books = result.report.books;
    assert_eq!((books.scheduled, books.completed), (1000, 1000));
}

/// A server that serves 100 of 1,000 requests per second. The longest response time is that of a
/// request that waits for all requests before it, and the others are dropped.
#[test]
fn max_waiting_bounds_response_times_and_drops_rest() {
    for waiting in [0, 5] {
        let model = ServerModel::new(ServiceTime::Fixed { ns: 10 * MS }, Queue::PerConnection);
        let mut config = config(1, &Arrivals::Constant { rate: 1000.0 }, 2);
        config.policy.max_waiting = Some(waiting);
        let result = sim::simulate(World::new(1, model), config);
        let books = result.report.books;
        assert_eq!(books.scheduled, 2000);
        assert!((1790..=1820).contains(&books.dropped), "{waiting}: {books:?}");
        let longest_ns = response(&result).max().unwrap();
        let bounds = (waiting * 10 * MS, (waiting + 1) * 10 * MS + MS);
        assert!(bounds.0 < longest_ns && longest_ns < bounds.1, "{waiting}: {longest_ns} ns");
    }
}

/// Ten connections over a second: the k-th opens after k tenths, and then takes its share of the
/// load.
#[test]
fn ramp_opens_connections_one_by_one() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: 9_980_000 }, Queue::PerConnection);
    let mut config = config(10, &Arrivals::Closed, 2);
    config.policy.ramp_ns = Some(SECOND);
    config.window.interval_ns = SECOND / 4;
    let result = sim::simulate(World::new(1, model), config);
    let open: Vec<u64> = result.intervals.iter().map(|i| i.connections_open).collect();
    assert_eq!(open[..4], [3, 5, 8, 10], "{open:?}");
    // Service and the round trip take 10 ms. In the first second connection k exists for 1 − k/10
    // of it.
    let expected: f64 = (0..10).map(|k| (2.0 - f64::from(k) / 10.0) * 100.0).sum();
    let ok = count_outcomes(&result, &[Phase::Measured]).get(Outcome::Ok) as f64;
    assert!((ok - expected).abs() < 15.0, "{ok}, expected {expected}");
    assert_eq!(result.report.connections.opened, 10);
}

/// The drain ends with the connections of the load, which stay open until the last sample.
#[test]
fn drain_reports_open_connections() {
    for (arrivals, total) in
        [(Arrivals::Closed, Some(100)), (Arrivals::Constant { rate: 1e3 }, None)]
    {
        let model = ServerModel::new(ServiceTime::Fixed { ns: 30 * MS }, Queue::PerConnection);
        let mut config = config(10, &arrivals, 1);
        config.total = total;
        let result = sim::simulate(World::new(1, model), config);
        let last = result.intervals.last().unwrap();
        assert_eq!((last.phase, last.connections_open), (Phase::Drain, 10), "{arrivals:?}");
    }
}

/// A ramp opens each connection once without a request. Later tries carry requests, which fail with
/// them, as without a ramp.
#[test]
fn refused_connects_of_ramp_fail_requests() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    let mut world = World::new(1, model);
    world.net.refuse = 1.0;
    let mut config = config(16, &Arrivals::Constant { rate: 1000.0 }, 4);
    config.policy.ramp_ns = Some(SECOND / 10);
    let result = sim::simulate(world, config);
    let phases = [Phase::Measured, Phase::Drain];
    let refused = count_outcomes(&result, &phases).get(Outcome::ConnectRefused);
    let attempts = result.report.connection_failures["connect_refused"];
    // Only first tries carry no request.
    assert!(refused + 16 >= attempts && refused > 50, "{refused} of {attempts}");
}

#[test]
fn first_byte_timeout_applies_only_above_its_limit() {
    for (ns, outcome) in [(150 * MS, Outcome::TimeoutFirstByte), (50 * MS, Outcome::Ok)] {
        let mut config = config(4, &Arrivals::Closed, 1);
        config.policy.first_byte_timeout_ns = Some(100 * MS);
        let result = sim::simulate(
            World::new(1, ServerModel::new(ServiceTime::Fixed { ns }, Queue::PerConnection)),
            config,
        );
        let counted = count_outcomes(&result, &[Phase::Measured, Phase::Drain]);
        assert!(counted.get(outcome) > 20, "{counted:?}");
        assert_eq!(counted.get(outcome), counted.total(), "{counted:?}");
        if outcome != Outcome::Ok {
            // A time-out is never early; a bucket of the histogram is 0.1 % wide.
            assert!(ages(&result, outcome).min().unwrap() >= 99_900_000);
            assert!(response(&result).is_empty());
        }
    }
}

#[test]
fn overload_queues_arrivals_and_counts_all() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: 10 * MS }, Queue::Single);
    let result =
        sim::simulate(World::new(1, model), config(4, &Arrivals::Constant { rate: 1000.0 }, 10));
    let books = result.report.books;
    assert_eq!(books.scheduled, 10_000);
    assert!(books.balance(), "{books:?}");
    // 100 per second complete in the window and the drain. All others are lower bounds; none is
    // lost.
    assert!((1495..=1500).contains(&books.completed), "{books:?}");
    assert_eq!(at_end(&result).count(), books.in_flight_at_end);
    assert!(at_end(&result).max().unwrap() > 13 * SECOND);
}

#[test]
fn client_enforces_requests_per_connection() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    let mut config = config(4, &Arrivals::Closed, 1);
    config.policy.requests_per_connection = Some(5);
    let result = sim::simulate(World::new(1, model), config);
    let report = result.report;
    assert!(report.books.balance());
    let per_connection = result.truth.requests as f64 / report.connections.opened as f64;
    assert!((4.9..=5.0).contains(&per_connection), "{per_connection}");
}

#[test]
fn request_total_is_exact() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    let mut config = config(7, &Arrivals::Closed, 1);
    config.total = Some(100);
    config.window.duration_ns = None;
    let result = sim::simulate(World::new(1, model), config);
    assert_eq!((result.report.books.completed, result.truth.requests), (100, 100));
    // The window ends with the last response: 15 rounds of 1.02 ms.
    let (opens, closes) = result.report.window_ns;
    assert!((15 * MS..16 * MS).contains(&(closes - opens)), "{}", closes - opens);
}

#[test]
fn refused_connects_fail_with_backoff() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    let mut world = World::new(1, model);
    world.net.refuse = 1.0;
    let result = sim::simulate(world, config(4, &Arrivals::Closed, 3));
    let outcomes = count_outcomes(&result, &[Phase::Measured, Phase::Drain]);
    assert_eq!(outcomes.total(), outcomes.get(Outcome::ConnectRefused));
    assert_eq!(outcomes.total(), result.report.books.failed);
    // Back-off: 4 slots, with waits that double from 1 ms to 100 ms.
    assert!((120..170).contains(&outcomes.total()), "{}", outcomes.total());
}

#[test]
fn refused_connects_without_backoff_repeat_quickly() {
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    let mut world = World::new(1, model);
    world.net = Net { delay_ns: 20_000, cut: 0.0, refuse: 1.0 };
    let mut config = config(4, &Arrivals::Closed, 3);
    config.policy.backs_off = false;
    let result = sim::simulate(world, config);
    let outcomes = count_outcomes(&result, &[Phase::Measured, Phase::Drain]);
    assert_eq!(outcomes.total(), outcomes.get(Outcome::ConnectRefused));
    assert_eq!(outcomes.total(), result.report.books.failed);
    assert!(outcomes.total() > 100_000, "{}", outcomes.total());
}

/// Regression test for a failure of `books_balance_for_every_seed`: a request flushed in two parts
/// at one instant must not be overtaken by a later one.
#[test]
fn split_requests_of_connection_arrive_in_order() {
    let mut world = World::new(
        2_659_889_940_336_871_234,
        ServerModel::new(ServiceTime::Exponential { mean_ns: 3324e3 }, Queue::Single),
    );
    world.server.pauses.push(Pause { at_ns: 400 * MS, for_ns: 300 * MS });
    world.server.faults = Fault::HTTP1.map(|f| (f, 0.0)).to_vec();
    world.net = Net { delay_ns: 20_000, cut: 0.899_773_742_345_568_6, refuse: 0.0 };
    world.thefts.push(Theft { at_ns: 600 * MS, for_ns: 30 * MS, when: TheftTime::Working });
    let mut config = config(13, &Arrivals::Constant { rate: 730.665_430_812_300_2 }, 1);
    config.pipeline = 8;
    config.policy.timeout_ns = 150 * MS;
    let result = sim::simulate(world, config);
    assert!(result.report.books.balance());
}

/// Counts do not depend on how the seed splits deliveries.
#[test]
fn fault_counts_match_injected_faults() {
    for seed in 0..20 {
        let mut model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
        model.faults = Fault::HTTP1.map(|f| (f, 0.01)).to_vec();
        let mut world = World::new(seed, model);
        world.net.cut = 0.3;
        let mut config = config(8, &Arrivals::Closed, 20);
        config.policy.timeout_ns = 200 * MS;
        let result = sim::simulate(world, config);
        let outcomes = count_outcomes(&result, &[Phase::Measured, Phase::Drain]);
        for fault in Fault::HTTP1.into_iter().filter(|f| *f != Fault::PoliteClose) {
            let injected = result.truth.faults.get(&fault).copied().unwrap_or(0);
            assert_eq!(outcomes.get(fault.outcome()), injected, "seed {seed}, {fault:?}");
            assert!(injected > 20, "seed {seed}: only {injected} of {fault:?}");
        }
        assert_eq!(outcomes.total(), result.truth.requests, "seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// A worker that learns late of the end of the window, as it does over threads, loses no
    /// exchange.
    #[test]
    fn books_balance_when_window_ends_late(
        seed in any::<u64>(),
        turns in 1u32..400,
        at_ms in 0u64..400,
        open in any::<bool>(),
        warmup_ms in 0u64..300,
    ) {
        let model = ServerModel::new(ServiceTime::Exponential { mean_ns: 3e6 }, Queue::Single);
        let arrivals = if open { Arrivals::Poisson { rate: 400.0 } } else { Arrivals::Closed };
        let mut config = config(8, &arrivals, 2);
        config.window.warmup_ns = warmup_ms * MS;
        let mut turns_left = turns;
        let result = sim::simulate_until(World::new(seed, model), config, || {
            turns_left = turns_left.saturating_sub(1);
            if turns_left == 0 { Stop::At(Instant(at_ms * MS)) } else { Stop::No }
        });
        let books = result.report.books;
        prop_assert!(books.balance(), "{:?}", books);
        let outcomes = count_outcomes(&result, &[Phase::Measured, Phase::Drain]);
        prop_assert_eq!(outcomes.total(), books.completed + books.failed);
    }

    /// The books balance in every world, and contain everything that the server did.
    #[test]
    fn books_balance_for_every_seed(
        seed in any::<u64>(),
        connections in 1u32..20,
        pipeline in 1u32..9,
        open in any::<bool>(),
        poisson in any::<bool>(),
        rate in 10.0f64..3000.0,
        service_us in 1u64..20_000,
        cut in 0.0f64..1.0,
        refuse in 0.0f64..0.3,
        odds in 0.0f64..0.03,
        per_connection in proptest::option::of(1u64..10),
        warmup_ms in 0u64..500,
        first_byte_ms in proptest::option::of(1u64..200),
        ramp_ms in proptest::option::of(0u64..1500),
    ) {
        let service = ServiceTime::Exponential { mean_ns: service_us as f64 * 1e3 };
        let mut model = ServerModel::new(service, Queue::Single);
        model.faults = Fault::HTTP1.map(|f| (f, odds)).to_vec();
        model.pauses.push(Pause { at_ns: 400 * MS, for_ns: 300 * MS });
        let mut world = World::new(seed, model);
        world.net = Net { delay_ns: 20_000, cut, refuse };
        world.thefts.push(Theft { at_ns: 600 * MS, for_ns: 30 * MS, when: TheftTime::Working });
        let arrivals = match (open, poisson) {
            (false, _) => Arrivals::Closed,
            (true, false) => Arrivals::Constant { rate },
            (true, true) => Arrivals::Poisson { rate },
        };
        let mut config = config(connections, &arrivals, 1);
        config.pipeline = pipeline;
        config.policy.requests_per_connection = per_connection;
        config.policy.timeout_ns = 150 * MS;
        config.policy.first_byte_timeout_ns = first_byte_ms.map(|ms| ms * MS);
        config.policy.ramp_ns = ramp_ms.map(|ms| ms * MS);
        config.window.warmup_ns = warmup_ms * MS;
        let result = sim::simulate(world, config);
        let books = result.report.books;
        prop_assert!(books.balance(), "{:?}", books);
        let outcomes = count_outcomes(&result, &[Phase::Measured, Phase::Drain]);
        let connects: u64 = result.intervals.iter().map(|i| i.connect.count()).sum();
        prop_assert_eq!(connects, result.report.connections.opened);
        prop_assert_eq!(outcomes.completed_count(), books.completed);
        prop_assert_eq!(outcomes.total(), books.completed + books.failed);
        prop_assert_eq!(at_end(&result).count(), books.in_flight_at_end);
        // The intervals are contiguous.
        let (opens, closes) = result.report.window_ns;
        prop_assert_eq!(closes - opens, SECOND);
        let mut expected_start = 0;
        for interval in &result.intervals {
            prop_assert_eq!(interval.start_ns, expected_start);
            expected_start = interval.end_ns;
        }
    }

    /// The same seed gives the same intervals, to the last bucket.
    #[test]
    fn same_seed_gives_same_run(seed in any::<u64>()) {
        let simulate = || {
            let service = ServiceTime::Exponential { mean_ns: 2e6 };
            let mut model = ServerModel::new(service, Queue::Single);
            model.faults = Fault::HTTP1.map(|f| (f, 0.02)).to_vec();
            let mut world = World::new(seed, model);
            world.net.cut = 0.5;
            let mut config = config(5, &Arrivals::Poisson { rate: 300.0 }, 1);
            config.policy.timeout_ns = 100 * MS;
            sim::simulate(world, config).intervals
        };
        prop_assert_eq!(simulate(), simulate());
    }
}
