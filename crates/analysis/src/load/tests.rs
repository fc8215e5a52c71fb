//! Tests the result of a load against records made by hand.

use dyno_model::times::Recording;

use super::*;
use crate::fixture;

#[test]
fn percentile_without_samples_above_is_none() {
    let mut times = Recording::new();
    (1..=2000u64).for_each(|i| times.record(i * 1000));
    let p = Percentiles::new(&times.seal());
    assert_eq!(p.count, 2000);
    assert!((p.p99.unwrap() - 1980.0).abs() < 3.0);
    assert_eq!((p.p99_9, p.p99_99), (None, None));
    assert!(p.max.is_some());
    let none = Percentiles::new(&Times::new());
    assert_eq!(none, Percentiles::default());
}

#[test]
fn percentile_requires_twenty_samples_above() {
    let percentiles_of = |responses: usize, count| {
        Percentiles::from_due(
            &times(&vec![5; responses]),
            UnansweredRequests { count, longest_ns: Some(9 * MS), sum_ns: 0.0 },
        )
    };
    // A tenth of 200, up to rounding.
    assert!(percentiles_of(200, 0).p90.is_some() && percentiles_of(199, 0).p90.is_none());
    assert!(percentiles_of(190, 10).p90.is_some() && percentiles_of(190, 9).p90.is_none());
    assert!(percentiles_of(40, 0).p50.is_some() && percentiles_of(39, 0).p50.is_none());
    let mixed = percentiles_of(30, 10);
    assert_eq!((mixed.count, mixed.unanswered), (30, 10));
    assert!(
        is_near(mixed.longest_wait, 9000.0)
            && is_near(mixed.mean, 5000.0)
            && is_near(mixed.p50, 5000.0)
    );
    assert!(
        is_near(percentiles_of(1, 0).longest_wait, 9000.0)
            && is_near(percentiles_of(1, 0).max, 5000.0)
    );
    let spread = Percentiles::new(&times(&[10, 30]));
    assert!(is_near(spread.stdev, 10_000.0) && is_near(spread.min, 10_000.0), "{spread:?}");
}

#[test]
fn quantile_ranks_all_requests_of_window() {
    let response_times = times(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let at =
        |missing, q| value_at_quantile(&response_times, missing, q).map(|ns| (ns + MS / 2) / MS);
    assert_eq!(
        (at(0, 0.5), at(0, 0.51), at(0, 1.0), at(0, 0.0)),
        (Some(5), Some(6), Some(10), Some(1))
    );
    // The tenth of 20 requests is the last with a response.
    assert_eq!((at(10, 0.5), at(10, 0.51), at(10, 0.05)), (Some(10), None, Some(1)));
    assert_eq!(value_at_quantile(&Times::new(), 0, 0.5), None);
}

#[test]
fn mix_throughput_includes_warm_up_requests() {
    let mut record = fixture::record(5);
    let mut share = RequestShare { carried_ok: 2, ..RequestShare::default() };
    (0..3).for_each(|_| share.outcomes.count(Outcome::Ok));
    record.intervals[0].by_request = vec![share.clone(), RequestShare { carried_ok: 1, ..share }];
    let mut config = fixture::result(&record, Some(5.0)).config;
    let request = |name: &str| MixedRequest {
        name: name.into(),
        weight: 1,
        method: "GET".into(),
        path: "/".into(),
    };
    config.requests_mixed = vec![request("a"), request("b")];
    let parts = result(&record, config).requests;
    assert_eq!(parts.iter().map(|r| r.throughput_rps).collect::<Vec<_>>(), [5.0, 4.0]);
    // Requests of the warm-up are not outcomes of the window.
    assert!(parts.iter().all(|r| r.outcomes.get(Outcome::Ok) == 3));
}

#[test]
fn bytes_per_response_excludes_drain() {
    let mut record = fixture::record(10);
    let interval = &mut record.intervals[0];
    (0..40).for_each(|_| interval.carried.count(Outcome::Ok));
    interval.bytes_received = 5000;
    // Further responses and bytes arrive in the drain.
    let mut drain = Interval::new(Phase::Drain, 1_000_000_000, 1_500_000_000);
    (0..90).for_each(|_| drain.outcomes.count(Outcome::Ok));
    drain.bytes_received = 9000;
    record.intervals.push(drain);
    let bytes = fixture::result(&record, None).bytes;
    assert_eq!((bytes.responses, bytes.per_response(bytes.received)), (50, Some(100.0)));
    assert_eq!(Bytes::default().per_response(0), None);
}

/// The window of a load with a number of requests ends with the last response. The rest of a
/// request with an early response may be sent after it.
#[test]
fn bytes_sent_of_request_count_include_drain() {
    let mut record = fixture::record(10);
    record.intervals[0].bytes_sent = 700;
    let mut drain = Interval::new(Phase::Drain, 1_000_000_000, 1_500_000_000);
    drain.bytes_sent = 65;
    record.intervals.push(drain);
    let mut config = fixture::result(&record, None).config;
    for (requests, sent) in [(None, 700), (Some(10), 765)] {
        config.requests = requests;
        assert_eq!(result(&record, config.clone()).bytes.sent, sent);
    }
}

#[test]
fn response_without_kernel_stamp_is_unanswered() {
    let mut record = fixture::record(100);
    for (stamped, unanswered, has_p75) in [(100, 0, true), (75, 25, true), (74, 26, false)] {
        let mut times = Recording::new();
        (0..stamped).for_each(|_| times.record(1_000_000));
        record.intervals[0].kernel_response = times.seal();
        let kernel = fixture::result(&record, None).kernel_response_time_us.unwrap();
        assert_eq!((kernel.count, kernel.unanswered), (stamped, unanswered));
        assert_eq!(kernel.p75.is_some(), has_p75, "{stamped}");
    }
    record.intervals[0].kernel_response = Times::new();
    assert_eq!(fixture::result(&record, None).kernel_response_time_us, None);
}

#[test]
fn spectrum_ends_with_samples() {
    let mut times = Recording::new();
    (0..20_000).for_each(|_| times.record(5000));
    let spectrum = spectrum(&times.seal(), 0);
    assert!(spectrum.iter().all(|(_, us)| (us - 5.0).abs() < 0.1));
    let last = spectrum.last().unwrap().0;
    assert!((0.998..=0.9991).contains(&last), "{last}");
}

const MS: u64 = 1_000_000;

fn times(durations_ms: &[u64]) -> Times {
    let mut times = Recording::new();
    durations_ms.iter().for_each(|ms| times.record(ms * MS));
    times.seal()
}

/// Returns a record with one interval per phase: 1 s of warm-up, 2 s of window, 1 s of drain.
fn three_phases() -> LoadRecord {
    let mut record = fixture::record(1000);
    record.window_ns = (1000 * MS, 3000 * MS);
    let window = Interval { start_ns: 1000 * MS, end_ns: 3000 * MS, ..record.intervals[0].clone() };
    record.intervals = vec![
        Interval::new(Phase::Warmup, 0, 1000 * MS),
        window,
        Interval::new(Phase::Drain, 3000 * MS, 4000 * MS),
    ];
    record
}

fn is_near(actual: Option<f64>, expected: f64) -> bool {
    actual.is_some_and(|actual| (actual - expected).abs() <= 0.001 * expected.abs())
}

#[test]
fn page_summary_excludes_warm_up() {
    let mut record = three_phases();
    for (interval, (pages, failed, unfinished, times_ms)) in record.intervals.iter_mut().zip([
        (100, 0, 0, &[900; 100][..]),
        (6, 3, 0, &[20; 6]),
        (4, 1, 2, &[20; 4]),
    ]) {
        (interval.pages_completed, interval.pages_failed) = (pages, failed);
        (interval.pages_unfinished, interval.page) = (unfinished, times(times_ms));
    }
    let mut config = fixture::result(&record, None).config;
    assert_eq!(result(&record, config.clone()).pages, None, "none were asked for");
    config.page_connections = Some(6);
    config.requests_mixed =
        vec![named_request("document"), named_request("style"), named_request("image")];
    let pages = result(&record, config).pages.unwrap();
    assert_eq!((pages.resources, pages.connections_each), (2, 6));
    assert_eq!((pages.group.completed, pages.group.failed, pages.group.unfinished), (10, 4, 2));
    // The rate is over the window of 2 s. Times and counts include the drain.
    assert_eq!(pages.group.per_second, 3.0);
    assert_eq!((pages.group.time_us.count, pages.group.time_us.unanswered), (10, 6));
    assert!(
        is_near(pages.group.time_us.longest_wait, 20_000.0),
        "the page time of a failed page is unknown"
    );
}

fn named_request(name: &str) -> MixedRequest {
    MixedRequest { name: name.into(), weight: 7, method: "GET".into(), path: "/".into() }
}

#[test]
fn mix_has_outcomes_and_times_per_request() {
    let share = |ok: usize, resets: usize, never_ended, longest_ms: u64| {
        let mut share = RequestShare { never_ended, ..RequestShare::default() };
        (0..ok).for_each(|_| share.outcomes.count(Outcome::Ok));
        (0..resets).for_each(|_| share.outcomes.count(Outcome::Reset));
        share.longest_failure_ns = longest_ms * MS;
        (share.response, share.service) = (times(&vec![10; ok]), times(&vec![4; ok]));
        share
    };
    let mut record = three_phases();
    record.intervals[0].by_request = vec![share(50, 50, 50, 9000); 2];
    record.intervals[1].by_request = vec![share(6, 2, 0, 70), share(1, 0, 0, 0)];
    // No exchange of the second request ended in this interval, so it has no share.
    record.intervals[2].by_request = vec![share(3, 1, 4, 30)];
    let mut config = fixture::result(&record, None).config;
    config.requests_mixed = vec![named_request("a"), named_request("b")];
    let parts = result(&record, config.clone()).requests;
    let [a, b] = parts.as_slice() else { panic!("{parts:?}") };
    assert_eq!((a.name.as_str(), a.weight, a.throughput_rps), ("a", 7, 3.0));
    assert_eq!((a.outcomes.get(Outcome::Ok), a.outcomes.get(Outcome::Reset)), (9, 3));
    assert_eq!((a.response_time_us.count, a.response_time_us.unanswered), (9, 3 + 4));
    assert!(is_near(a.response_time_us.longest_wait, 70_000.0), "{a:?}");
    assert_eq!((a.service_time_us.count, a.service_time_us.unanswered), (9, 7));
    assert!(
        is_near(a.service_time_us.longest_wait, 4000.0),
        "only of all together it is known: {a:?}"
    );
    assert_eq!(
        (b.throughput_rps, b.response_time_us.count, b.response_time_us.unanswered),
        (0.5, 1, 0)
    );
    assert!(is_near(b.response_time_us.longest_wait, 10_000.0), "{b:?}");
    record.intervals.iter_mut().for_each(|i| i.by_request.clear());
    assert_eq!(
        result(&record, config).requests,
        [],
        "of very large mixes only the whole is recorded"
    );
}

#[test]
fn generator_cpu_time_excludes_polling() {
    use dyno_model::interval::WorkerUse;
    use dyno_model::sample::ThreadUse;
    let thread = |[run, user, sys, delay]: [u64; 4]| ThreadUse {
        run_ns: run * MS,
        user_ns: user * MS,
        sys_ns: sys * MS,
        run_delay_ns: Some(delay * MS),
        ..ThreadUse::default()
    };
    let mut record = three_phases();
    record.client.threads = vec![thread([800, 600, 200, 50]), thread([400, 300, 100, 30])];
    for (interval, spun_ms) in record.intervals.iter_mut().zip([[90, 90], [200, 100], [90, 90]]) {
        let worker_use = |ms: u64| WorkerUse { run_ns: 2 * ms * MS, spun_ns: ms * MS };
        interval.workers = [(0, worker_use(spun_ms[0])), (1, worker_use(spun_ms[1]))].into();
        interval.loop_lag = times(&[spun_ms[0]]);
        interval.wake_lag = times(&[spun_ms[1]]);
    }
    let client = fixture::result(&record, None).client;
    assert!(
        is_near(Some(client.cpu_user_s), 0.9) && is_near(Some(client.cpu_sys_s), 0.3),
        "{client:?}"
    );
    assert!(is_near(client.cpu_us_per_exchange, 1200.0), "{client:?}");
    assert_eq!(client.thread_utilisation, [0.3, 0.15]);
    assert_eq!(
        (client.busiest_thread_utilisation, client.cpu_polling_s, client.threads),
        (0.3, 0.3, 2)
    );
    assert!(is_near(client.polling_cpus, 0.15) && is_near(client.run_delay_s, 0.08), "{client:?}");
    assert!(is_near(client.polling_share(), 0.25), "0.3 s of 1.2 s of CPU time");
    assert!(
        is_near(client.loop_lag_us.max, 200_000.0) && is_near(client.wake_lag_us.max, 100_000.0),
        "{client:?}"
    );
    assert_eq!((client.loop_lag_us.count, client.wake_lag_us.count), (1, 1));
    // The delay of the second thread is unknown, so the sum is unknown.
    record.client.threads[1].run_delay_ns = None;
    assert_eq!(fixture::result(&record, None).client.run_delay_s, None);
    // Divisors of 0 (responses, ticks, time) yield no value.
    record.intervals.truncate(1);
    record.client.threads.iter_mut().for_each(|t| (t.user_ns, t.sys_ns) = (0, 0));
    record.window_ns = (0, 0);
    let client = fixture::result(&record, None).client;
    assert_eq!((client.cpu_us_per_exchange, client.polling_cpus), (None, None));
    assert_eq!((client.cpu_user_s, client.thread_utilisation), (0.0, vec![0.0; 2]));
    record.client.threads.iter_mut().for_each(|t| t.run_ns = 0);
    assert_eq!(fixture::result(&record, None).client.polling_share(), None);
}

#[test]
fn tcp_segments_are_per_complete_response() {
    let counters = TcpCounters {
        data_segments_in: 1500,
        segments_in: 1600,
        segments_out: 1700,
        retransmits: 18,
    };
    let mut record = LoadRecord { tcp: Some(counters), ..fixture::record(1000) };
    let tcp = fixture::result(&record, None).tcp;
    assert_eq!((tcp.data_segments_in, tcp.segments_in), (Some(1500), Some(1600)));
    assert_eq!((tcp.segments_out, tcp.retransmits), (Some(1700), Some(18)));
    assert_eq!(tcp.data_segments_per_response, Some(1.5));
    record.intervals.clear();
    assert_eq!(fixture::result(&record, None).tcp.data_segments_per_response, None);
}

#[test]
fn interval_result_counts_exchanges_that_ended() {
    use dyno_model::interval::WorkerUse;
    let mut interval = Interval::new(Phase::Measured, 1000 * MS, 3000 * MS);
    for (outcome, current, earlier) in
        [(Outcome::Ok, 5, 3), (Outcome::UnexpectedStatus, 2, 1), (Outcome::Reset, 4, 2)]
    {
        (0..current).for_each(|_| interval.outcomes.count(outcome));
        (0..earlier).for_each(|_| interval.carried.count(outcome));
    }
    (interval.started, interval.dropped, interval.connections_open) = (12, 9, 3);
    (interval.in_flight_ns, interval.longest_failure_ns) = (3000 * MS, 70 * MS);
    interval.times.response = times(&[10; 5]);
    interval.times.service = times(&[4; 5]);
    let worker_use = |run, spun| WorkerUse { run_ns: run * MS, spun_ns: spun * MS };
    interval.workers = [(0, worker_use(900, 800)), (1, worker_use(500, 100))].into();
    let is = interval_result(&interval);
    assert_eq!((is.start_s, is.end_s, is.throughput_rps, is.in_flight_mean), (1.0, 3.0, 4.0, 1.5));
    assert_eq!((is.started, is.dropped, is.connections_open), (12, 9, 3));
    assert_eq!((is.ok, is.failed, is.completed), (8, 9, 5 + 3 + 2 + 1));
    assert_eq!((is.arrivals(), is.arrivals_rps()), (21, 10.5));
    // Six exchanges of the interval's own phase failed, and nine were dropped.
    assert_eq!((is.response_time_us.count, is.response_time_us.unanswered), (5, 15));
    assert_eq!((is.response_unanswered.share, is.service_time_us.unanswered), (0.75, 15));
    assert!(is_near(is.response_time_us.longest_wait, 70_000.0), "{is:?}");
    assert!(is_near(is.service_time_us.longest_wait, 4000.0), "{is:?}");
    assert_eq!(is.busiest_thread_utilisation, Some(0.2), "polling is not work");
    // An interval without length has no rates.
    interval.end_ns = interval.start_ns;
    let is = interval_result(&interval);
    assert_eq!(
        (is.throughput_rps, is.in_flight_mean, is.busiest_thread_utilisation),
        (0.0, 0.0, None)
    );
}

#[test]
fn warm_up_requests_count_apart_in_any_phase() {
    let mut record = three_phases();
    for (interval, (current, earlier)) in record.intervals.iter_mut().zip([(40, 0), (0, 5), (0, 2)])
    {
        (0..current).for_each(|_| interval.outcomes.count(Outcome::Ok));
        (0..earlier).for_each(|_| interval.carried.count(Outcome::UnexpectedBody));
    }
    record.books.carried_in = 3;
    (record.books.failed, record.books.in_flight_at_end, record.books.dropped) = (10, 20, 40);
    let exchanges = fixture::result(&record, None).exchanges;
    assert_eq!((exchanges.warmup_completed, exchanges.warmup_failed), (47, 7));
    assert_eq!((exchanges.due(), exchanges.lost_count()), (1003, 70));
}

#[test]
fn gap_variation_is_deviation_over_mean() {
    let mut record = three_phases();
    record.intervals[0].intended_gap = times(&[1, 1000]);
    record.intervals[1].intended_gap = times(&[10, 30]);
    record.intervals[2].send_gap = times(&[10, 50]);
    assert_eq!(fixture::result(&record, None).gaps, None);
    let gaps = fixture::result(&record, Some(500.0)).gaps.unwrap();
    assert!(is_near(gaps.intended_cv, 0.5) && is_near(gaps.achieved_cv, 2.0 / 3.0), "{gaps:?}");
    assert_eq!((gaps.intended_us.count, gaps.achieved_us.count), (2, 2));
    record.intervals.truncate(1);
    let gaps = fixture::result(&record, Some(500.0)).gaps.unwrap();
    assert_eq!((gaps.intended_cv, gaps.achieved_cv), (None, None));
}

#[test]
fn spectrum_has_twelve_points_per_decade() {
    let response_times = times(&[5; 1000]);
    // Twenty of 2,000 samples lie after the end of the second decade.
    let full = spectrum(&times(&[5; 2000]), 0);
    assert_eq!((full.len(), full[0].0), (25, 0.0));
    assert!(is_near(Some(full[12].0), 0.9) && is_near(Some(full[24].0), 0.99), "{full:?}");
    // The unanswered half is cut off: 1 − 10^(−3/12) is 0.44, and the next quantile 0.54.
    let half = spectrum(&response_times, 1000);
    assert_eq!(
        half.iter().map(|point| point.0).collect::<Vec<_>>(),
        full[..4].iter().map(|p| p.0).collect::<Vec<_>>()
    );
    assert_eq!(spectrum(&times(&[5; 7]), 0).len(), 1);
}

#[test]
fn load_result_has_times_and_ages_of_each_kind() {
    let mut record = three_phases();
    record.unanswered.ages = [("reset".to_string(), times(&[30, 40]))].into();
    record.intervals[0].connect = times(&[3]);
    record.intervals[1].tls_handshake = times(&[4]);
    record.intervals[1].times.send_lag = times(&[5]);
    record.intervals[1].times.first_byte = times(&[6]);
    let result = fixture::result(&record, None);
    assert!(is_near(result.unanswered_us["reset"].max, 40_000.0));
    assert!(is_near(result.connect_us.max, 3000.0) && is_near(result.tls_handshake_us.max, 4000.0));
    assert!(is_near(result.send_lag_us.max, 5000.0) && is_near(result.first_byte_us.max, 6000.0));
}

#[test]
fn load_is_done_after_all_requests_or_duration() {
    let mut record = fixture::record(10);
    let load_with = |requests, duration_ns| plan::Load { requests, duration_ns, ..fixture::load() };
    for (load, done) in [
        (load_with(Some(10), 0), true),
        (load_with(Some(11), 0), false),
        (load_with(Some(11), 1_000_000_000), true),
        (load_with(None, 1_000_000_000), true),
        (load_with(None, 1_000_000_001), false),
        // A load without requests and duration runs until it is stopped.
        (load_with(None, 0), false),
    ] {
        assert_eq!(is_done(&record, &load), done, "{load:?}");
    }
    record.books.in_flight_at_end = 1;
    assert!(!is_done(&record, &load_with(Some(10), 0)));
}

#[test]
fn tcp_counters_are_per_response() {
    let counters = TcpCounters { data_segments_in: 3000, retransmits: 3, ..TcpCounters::default() };
    let tcp = super::tcp(Some(&counters), 2000);
    assert_eq!(
        (tcp.data_segments_per_response, tcp.retransmits_per_million_responses),
        (Some(1.5), Some(1500.0))
    );
    let none = super::tcp(Some(&counters), 0);
    assert_eq!((none.retransmits, none.retransmits_per_million_responses), (Some(3), None));
}

/// Connections count the repeated requests of the whole load.
#[test]
fn window_has_its_part_of_repeated_requests() {
    let mut load = fixture::five_block_report().trials[0].load.clone();
    load.connections.asked_again_idle = 50;
    let due = load.exchanges.due();
    let started = load.exchanges.started;
    (load.exchanges.warmup_completed, load.exchanges.warmup_failed) = (0, 0);
    assert_eq!((load.with_repeated(0), load.with_repeated(due - 1)), (50, due));
    (load.exchanges.warmup_completed, load.exchanges.warmup_failed) = (8 * started, started);
    assert_eq!((due, load.with_repeated(0), load.with_repeated(3)), (started, 5, 8));
    load.connections.asked_again_idle = 1;
    assert_eq!(load.with_repeated(0), 1, "a single one is not lost");
}
