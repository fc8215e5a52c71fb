use dyno_model::load::{Books, Http2Use};
use dyno_model::outcome::Outcome;
use dyno_model::times::Recording;
use dyno_model::{Interval, LoadRecord, Phase};

use super::{max_backlog_growth, rate_text, sum_in_stretch};
use crate::caveat::{Caveat, Code};
use crate::fixture;
use crate::load::{IntervalResult, LoadConfig, LoadResult};
use crate::verdict::{self, Context};

#[test]
fn offered_rate_is_scheduled_rate() {
    for (scheduled, rate, keeps_up) in
        [(950, 1000.0, true), (1000, 1000.0, true), (1030, 1000.0, false)]
    {
        let mut record = fixture::record(scheduled.min(1000));
        record.intervals[0].started = scheduled;
        record.books.scheduled = scheduled;
        record.books.started = scheduled;
        record.books.completed = scheduled;
        let result = fixture::result(&record, Some(rate));
        assert_eq!(result.offered_rps(), Some(scheduled as f64));
        assert_eq!(result.keeps_up(), Some(keeps_up), "{scheduled}");
        let late = result.caveats.iter().any(|c| c.code == Code::RATE_NOT_REACHED);
        assert_eq!(late, !keeps_up, "{scheduled}");
    }
    let closed = fixture::result(&fixture::record(1000), None);
    assert_eq!((closed.offered_rps(), closed.keeps_up()), (None, None));
}

/// A simulated server, and the load that it is offered.
#[derive(Clone, Copy)]
struct Load {
    /// Requests per second at an instant, in seconds from the window's opening.
    rate: fn(f64) -> f64,
    /// Service times in seconds, taken in turn.
    service_s: &'static [f64],
    /// Maximum number of requests that the server can begin to serve per second; others wait at
    /// the server.
    at_most: f64,
    warmup_s: f64,
    window_s: f64,
    interval_s: f64,
    /// Requested number of requests, instead of a duration.
    requests: Option<u64>,
}

const EASY: Load = Load {
    rate: |_| 1000.0,
    service_s: &[0.2],
    at_most: f64::INFINITY,
    warmup_s: 0.0,
    window_s: 5.0,
    interval_s: 1.0,
    requests: None,
};

/// Returns the instants of each request and its response, in seconds since the load began.
fn simulate(load: &Load) -> Vec<(f64, f64)> {
    const STEP: f64 = 0.000_5;
    let (mut due, mut free, mut requests) = (0.0, f64::NEG_INFINITY, Vec::new());
    for step in 0..((load.warmup_s + load.window_s) / STEP).round() as usize {
        let now = step as f64 * STEP;
        due += (load.rate)(now - load.warmup_s) * STEP;
        while due >= 1.0 {
            due -= 1.0;
            let begins = now.max(free);
            free = begins + 1.0 / load.at_most;
            requests.push((now, begins + load.service_s[requests.len() % load.service_s.len()]));
        }
    }
    requests
}

/// Returns the result of a simulated load. Requests that are in flight when the window closes
/// get their responses in the drain.
fn simulated_result(load: &Load) -> LoadResult {
    let ns = |s: f64| (s * 1e9).round() as u64;
    let (opens, closes) = (load.warmup_s, load.warmup_s + load.window_s);
    let requests = simulate(load);
    let mut record = fixture::record(0);
    record.window_ns = (ns(opens), ns(closes));
    let scheduled = requests.iter().filter(|(at, _)| *at >= opens).count() as u64;
    record.books =
        Books { scheduled, started: scheduled, completed: scheduled, ..Books::default() };
    let mut edges = vec![0.0];
    let next = |from: f64| {
        if from < opens {
            opens.min(from + load.interval_s)
        } else {
            closes.min(from + load.interval_s)
        }
    };
    while *edges.last().unwrap() < closes {
        edges.push(next(*edges.last().unwrap()));
    }
    edges.push(f64::MAX);
    record.intervals = edges
        .windows(2)
        .map(|edge| {
            let phase = match edge[0] {
                from if from >= closes => Phase::Drain,
                from if from >= opens => Phase::Measured,
                _ => Phase::Warmup,
            };
            let is_in_interval = |at: f64| at >= edge[0] && at < edge[1];
            let mut interval = Interval::new(phase, ns(edge[0]), ns(edge[1].min(closes + 1.0)));
            let mut times = Recording::new();
            for (intended, ended) in &requests {
                interval.started += u64::from(is_in_interval(*intended));
                if is_in_interval(*ended) && *intended < opens && phase != Phase::Warmup {
                    interval.carried.count(Outcome::Ok);
                } else if is_in_interval(*ended) {
                    interval.outcomes.count(Outcome::Ok);
                    times.record(ns(ended - intended));
                }
            }
            interval.times.response = times.seal();
            interval.times.service = interval.times.response.clone();
            interval
        })
        .collect();
    let planned = fixture::result(&record, Some(1000.0)).config;
    verdict::load(&record, LoadConfig { requests: load.requests, ..planned }, &Context::default())
}

const RAMP: fn(f64) -> f64 = |t| 100.0 + 90.0 * t.clamp(0.0, 10.0);

/// Service times in seconds.
const TWO_TO_600_MS: &[f64] = &[0.02, 0.6, 0.3, 0.45, 0.15];

/// Service times in seconds.
const MOSTLY_QUICK: &[f64] = &[0.002, 0.002, 1.0, 0.002, 0.002, 0.002, 1.0, 0.002, 0.002, 1.0];

/// Returns a load on a server that can begin at most `at_most` requests per second.
fn slow(rate: fn(f64) -> f64, at_most: f64) -> Load {
    Load { rate, at_most, service_s: &[0.01], ..EASY }
}

fn assert_pace(name: &str, load: &Load, keeps_up: bool) {
    let result = simulated_result(load);
    assert_eq!(result.keeps_up(), Some(keeps_up), "{name}");
    let late = result.caveats.iter().find(|c| c.code == Code::RATE_NOT_REACHED);
    assert_eq!(late.is_some(), !keeps_up, "{name}");
    let rate = |c: &Caveat, key: &str| c.evidence[key].as_f64().unwrap();
    assert!(late.is_none_or(|c| rate(c, "answered") < rate(c, "offered")), "{name}: {late:?}");
    let backlog = result.caveats.iter().find(|c| c.code == Code::WARMUP_BACKLOG);
    assert_eq!(
        backlog.is_some(),
        name.starts_with("a backlog of the warm-up that melts"),
        "{name}: {backlog:?}"
    );
    assert!(
        backlog.is_none_or(|c| rate(c, "answered") > rate(c, "offered")),
        "{name}: {backlog:?}"
    );
}

#[test]
fn server_that_keeps_up_is_not_late() {
    for (name, load) in [
        ("200 ms each", EASY),
        (
            "the same, with a sliver of an interval at the end",
            Load { interval_s: 0.833_333_333, ..EASY },
        ),
        ("the same after a warm-up", Load { warmup_s: 2.0, ..EASY }),
        ("a second in one interval", Load { service_s: &[0.1], window_s: 1.0, ..EASY }),
        ("a ramp", Load { rate: RAMP, service_s: &[1.0], window_s: 10.0, ..EASY }),
        (
            "a ramp from none",
            Load { rate: |t| 100.0 * t, service_s: &[1.0], window_s: 10.0, ..EASY },
        ),
        (
            "a ramp down",
            Load { rate: |t| 1000.0 - 90.0 * t, service_s: &[1.0], window_s: 10.0, ..EASY },
        ),
        (
            "a step up, by intervals of 100 ms",
            Load {
                rate: |t| if t < 3.0 { 100.0 } else { 1000.0 },
                interval_s: 0.1,
                window_s: 6.0,
                ..EASY
            },
        ),
        ("unlike times", Load { rate: |_| 20.0, service_s: TWO_TO_600_MS, warmup_s: 2.0, ..EASY }),
        (
            "fewer than one in an interval",
            Load { rate: |_| 20.0, service_s: TWO_TO_600_MS, interval_s: 0.01, ..EASY },
        ),
        (
            "quick ones and slow ones",
            Load { rate: |_| 100.0, service_s: MOSTLY_QUICK, window_s: 10.0, ..EASY },
        ),
        ("3 s each in a window of 5 s", Load { rate: |_| 100.0, service_s: &[3.0], ..EASY }),
    ] {
        assert_pace(name, &load, true);
    }
}

#[test]
fn shrinking_warm_up_backlog_is_not_late() {
    for (name, load) in [
        (
            "a backlog of the warm-up that melts",
            Load {
                rate: |t| if t < -1.0 { 2500.0 } else { 1000.0 },
                warmup_s: 2.0,
                ..slow(|_| 0.0, 1200.0)
            },
        ),
        (
            "a backlog of the warm-up that melts immediately",
            Load {
                rate: |t| if t < -0.5 { 2500.0 } else { 1000.0 },
                warmup_s: 1.0,
                interval_s: 0.5,
                ..slow(|_| 0.0, 1300.0)
            },
        ),
    ] {
        assert_pace(name, &load, true);
    }
}

#[test]
fn rates_below_100_have_one_decimal() {
    for (rps, expected) in
        [(0.25, "0.2"), (7.26, "7.3"), (99.94, "99.9"), (100.0, "100"), (1234.5, "1234")]
    {
        assert_eq!(rate_text(rps), expected);
    }
}

#[test]
fn sum_over_spreads_counts_evenly() {
    let counts = [(0.0, 1.0, 10), (1.0, 3.0, 40), (3.0, 3.0, 1000)];
    for (stretch, expected) in [
        ((0.0, 3.0), 50.0),
        ((0.5, 2.0), 5.0 + 20.0),
        ((1.25, 1.75), 10.0),
        ((2.5, 9.0), 10.0),
        ((3.0, 9.0), 0.0),
        ((-1.0, 0.25), 2.5),
    ] {
        assert_eq!(sum_in_stretch(counts.into_iter(), stretch), expected, "{stretch:?}");
    }
}

#[test]
fn backlog_allowance_is_two_deviations_up_to_cap() {
    for ((offered, before, last), expected) in [
        // At least one request.
        ((1000.0, 0.0, 0.0), 1.0),
        ((1000.0, 4.0, 5.0), 1.0 + 6.0),
        ((1000.0, 5.0, 4.0), 6.0),
        ((1000.0, 100.0, 300.0), 200.0 + 40.0),
        // At most a twentieth, or five.
        ((1000.0, 800.0, 800.0), 50.0),
        ((200.0, 50.0, 50.0), 10.0),
        ((20.0, 50.0, 50.0), 5.0),
    ] {
        assert_eq!(
            max_backlog_growth(offered, before, last),
            expected,
            "{offered} {before} {last}"
        );
    }
}

/// Returns the result of one second with 1,000 offered requests and this number of responses,
/// without service times.
fn result_with_responses(responses: u64) -> LoadResult {
    let mut record = fixture::record(responses);
    record.intervals[0].started = 1000;
    record.intervals[0].times.service = Recording::new().seal();
    fixture::result(&record, Some(1000.0))
}

#[test]
fn keeps_up_allows_two_percent_and_one_request() {
    assert_eq!(result_with_responses(979).keeps_up(), Some(true));
    assert_eq!(result_with_responses(978).keeps_up(), Some(false));
    let pace = result_with_responses(500).pace().unwrap();
    assert_eq!((pace.offered_rps(), pace.responses_rps(), pace.seconds()), (1000.0, 500.0, 1.0));
}

#[test]
fn load_shorter_than_service_time_is_tested_whole() {
    let mut record = fixture::record(1000);
    let mean_us = fixture::result(&record, Some(1000.0)).service_time_us.mean.unwrap();
    let ends_ns = (mean_us * 1e3).round() as u64;
    record.window_ns = (0, ends_ns);
    record.intervals[0].end_ns = ends_ns;
    let pace = fixture::result(&record, Some(1e6)).pace().unwrap();
    assert!((pace.offered_rps() / 1e6 - 1.0).abs() < 0.001, "{pace:?}");
    assert!(pace.is_full_window);
}

#[test]
fn stretch_text_is_empty_for_whole_window() {
    let result = |warmup_s: f64, service_s: &'static [f64]| {
        simulated_result(&Load { warmup_s, service_s, rate: |_| 100.0, window_s: 4.0, ..EASY })
    };
    let stretch_text_of =
        |warmup_s, service_s| result(warmup_s, service_s).pace().unwrap().stretch_text();
    assert_eq!(stretch_text_of(0.0, &[0.5]), " (over 2.5 s of the window)");
    // The load is settled from 1.5 s on, before the window opens.
    assert_eq!(stretch_text_of(2.0, &[0.5]), "");
    let mut ended = result(2.0, &[0.5]);
    ended.config.requests = Some(400);
    // The last second may not be full.
    assert_eq!(ended.pace().unwrap().stretch_text(), " (over 3.0 s of the window)");
}

#[test]
fn last_full_interval_precedes_last_arrivals() {
    let last_full_end_s = |arrivals: &[(u64, u64)], requests: Option<u64>| {
        let mut result = fixture::result(&fixture::record(1), Some(1.0));
        result.config.requests = requests;
        let interval = result.intervals[0].clone();
        result.intervals = (0u8..)
            .zip(arrivals)
            .map(|(at, (started, dropped))| IntervalResult {
                start_s: f64::from(at),
                end_s: f64::from(at) + 1.0,
                started: *started,
                dropped: *dropped,
                ..interval.clone()
            })
            .collect();
        result.last_full_interval().unwrap().end_s
    };
    let some = [(5, 0), (5, 0), (0, 1), (0, 0), (0, 0)];
    assert_eq!(last_full_end_s(&some, Some(11)), 2.0);
    assert_eq!(last_full_end_s(&some, None), 5.0);
    assert_eq!(last_full_end_s(&[(5, 0), (0, 0)], Some(5)), 1.0, "there is no other");
    assert_eq!(last_full_end_s(&[(0, 0), (0, 0)], Some(5)), 2.0);
}

#[test]
fn mean_at_server_is_capped_by_granted_streams() {
    let mut result = fixture::result(&fixture::record(1000), None);
    let http2_use = |granted| {
        let record = LoadRecord {
            http2: Some(Http2Use {
                streams_asked: 10,
                streams_granted: granted,
                ..Http2Use::default()
            }),
            ..fixture::record(1)
        };
        fixture::result(&record, None).http2
    };
    (result.config.connections, result.config.streams, result.config.pipeline) = (4, 10, 2);
    result.in_flight.mean = 1e6;
    assert_eq!(result.max_in_flight(), 80);
    for (granted, expected) in [(None, 80.0), (Some(10), 80.0), (Some(11), 80.0), (Some(3), 24.0)] {
        result.http2 = http2_use(granted);
        assert_eq!(result.mean_at_server(), expected, "{granted:?}");
    }
    result.http2 = None;
    assert_eq!(result.mean_at_server(), 8.0, "HTTP/1.1 has no streams");
    result.in_flight.mean = 7.5;
    assert_eq!(result.mean_at_server(), 7.5, "fewer were in flight");
    result.config.page_connections = Some(6);
    assert_eq!(result.max_in_flight(), 480);
}

#[test]
fn server_that_falls_behind_is_late() {
    for (name, load) in [
        (
            "a second in one interval, a tenth too slow",
            Load { window_s: 1.0, ..slow(|_| 1000.0, 900.0) },
        ),
        ("a twentieth too slow", Load { window_s: 10.0, ..slow(|_| 1000.0, 950.0) }),
        (
            "so many requests, until all are answered",
            Load {
                requests: Some(5000),
                window_s: 10.0,
                ..slow(|t| if t < 5.0 { 1000.0 } else { 0.0 }, 500.0)
            },
        ),
        (
            "so many that the last second is half full",
            Load {
                requests: Some(350),
                window_s: 5.0,
                ..slow(|t| if t < 3.5 { 100.0 } else { 0.0 }, 70.0)
            },
        ),
        ("half of what is offered", slow(|_| 1000.0, 500.0)),
        ("a tenth of it", slow(|_| 1000.0, 100.0)),
        ("44 of 100", Load { warmup_s: 1.0, ..slow(|_| 100.0, 44.0) }),
        ("too slow for a minute already", Load { warmup_s: 60.0, ..slow(|_| 100.0, 90.0) }),
        ("the same at a low rate", Load { warmup_s: 60.0, ..slow(|_| 20.0, 15.0) }),
        ("a ramp above capacity", Load { window_s: 10.0, ..slow(RAMP, 500.0) }),
        (
            "a step above capacity",
            Load { window_s: 10.0, ..slow(|t| if t < 5.0 { 100.0 } else { 1000.0 }, 500.0) },
        ),
    ] {
        assert_pace(name, &load, false);
    }
}
