use super::*;
use crate::caveat::{self, Caveat, Code, Severity};
use crate::fixture::five_block_report;
use crate::load::{GroupSummary, VisitSummary};

#[test]
fn metric_keys_are_unique() {
    for (i, metric) in METRICS.iter().enumerate() {
        assert!(METRICS[..i].iter().all(|other| other.key != metric.key), "{} twice", metric.key);
        assert!(!metric.title.is_empty());
        assert!(
            METRICS[..i].iter().all(|other| other != metric)
                && metric == Metric::from_key(metric.key)
        );
    }
}

/// Returns the value of a metric in a trial after a change.
fn value_of(key: &str, change: fn(&mut TrialResult)) -> Option<f64> {
    let mut trial = five_block_report().trials.remove(0);
    change(&mut trial);
    (Metric::from_key(key).pick)(&trial)
}

#[test]
fn metric_values_are_quotients_of_counts() {
    // 1,000 bytes in half a second are 2,000 in one.
    let bytes = |t: &mut TrialResult| {
        t.server.cpus = Some(2.0);
        (t.load.bytes.received, t.load.duration_s) = (1000, 0.5);
    };
    assert_eq!(value_of("bytes_per_server_cpu_second", bytes), Some(1000.0));
    let opened = |t: &mut TrialResult| {
        (t.load.exchanges.warmup_completed, t.load.exchanges.completed) = (30, 70);
        t.load.connections.opened = 50;
    };
    assert_eq!(value_of("requests_per_connection", opened), Some(2.0));
    assert_eq!(value_of("server_threads", |t| t.server.threads = Some(1)), Some(1.0));
    assert_eq!(
        value_of("server_memory_bytes", |t| t.server.memory_held_bytes = Some(10)),
        Some(10.0)
    );
}

#[test]
fn metric_without_divisor_is_none() {
    let no_answers = |t: &mut TrialResult| {
        (t.load.tcp.retransmits, t.load.bytes.responses) = (Some(3), 0);
    };
    assert_eq!(value_of("retransmits_per_million_responses", no_answers), None);
    let no_cpu = |t: &mut TrialResult| {
        t.server.cpus = Some(0.0);
        t.load.bytes.received = 1000;
    };
    assert_eq!(value_of("bytes_per_server_cpu_second", no_cpu), None);
    assert_eq!(value_of("requests_per_connection", |t| t.load.connections.opened = 0), None);
    assert_eq!(value_of("server_threads", |t| t.server.threads = Some(0)), None);
}

#[test]
fn percentile_metrics_use_their_distribution() {
    let value_of = |key: &str| {
        value_of(key, |t| {
            let percentiles = |us: f64| Percentiles {
                p50: Some(us),
                p99: Some(us + 1.0),
                ..Percentiles::default()
            };
            (t.load.response_time_us, t.load.service_time_us) =
                (percentiles(10.0), percentiles(20.0));
            (t.load.send_lag_us, t.load.connect_us) = (percentiles(30.0), percentiles(40.0));
        })
    };
    for (key, expected) in [
        ("response_p50_us", Some(10.0)),
        ("response_p99_us", Some(11.0)),
        ("service_p50_us", Some(20.0)),
        ("service_p99_us", Some(21.0)),
        ("send_lag_p99_us", Some(31.0)),
        ("connect_p50_us", Some(40.0)),
        ("page_p50_us", None),
    ] {
        assert_eq!(value_of(key), expected, "{key}");
    }
}

#[test]
fn visits_have_rate_and_times() {
    let mut trial = five_block_report().trials.remove(0);
    let visit_metrics = [MetricId::VisitsPerSecond, MetricId::VisitP50, MetricId::VisitP99];
    let points = |trial: &TrialResult| visit_metrics.map(|id| id.metric().point(trial));
    assert_eq!(points(&trial), [RepeatValue::Missing; 3], "the load has no sequence");
    let group = GroupSummary {
        completed: 10,
        failed: 0,
        unfinished: 0,
        per_second: 5.0,
        time_us: Percentiles {
            count: 10,
            p50: Some(30.0),
            p99: Some(70.0),
            ..Percentiles::default()
        },
    };
    trial.load.visits = Some(VisitSummary { steps: 2, group });
    assert_eq!(points(&trial), [5.0, 30.0, 70.0].map(RepeatValue::Known));
    // Visits that failed, or had no end, rank above all others.
    trial.load.visits.as_mut().unwrap().group.time_us =
        Percentiles { count: 100, unanswered: 900, p50: None, ..Percentiles::default() };
    assert_eq!(MetricId::VisitP50.metric().point(&trial), RepeatValue::Unanswered);
}

#[test]
fn metrics_include_trials_by_selection() {
    let mut trial = five_block_report().trials.remove(0);
    trial.load.response_time_us =
        Percentiles { count: 100, unanswered: 900, p50: None, ..Percentiles::default() };
    assert_eq!(RESPONSE_P50.point(&trial), RepeatValue::Unanswered);
    assert_eq!(
        RESPONSE_P99.point(&trial),
        RepeatValue::Missing,
        "of 1,000 samples 10 lie above it"
    );
    assert_eq!(THROUGHPUT.point(&trial), RepeatValue::Known(trial.load.throughput_rps));
    trial.valid = false;
    assert!(!CPU.includes(&trial), "a trial without a reason");
    let invalid = |code| Caveat { severity: Severity::Invalid, ..caveat::info(code, "invalid") };
    trial.caveats = vec![invalid(Code::GENERATOR_BUSY)];
    assert!(CPU.includes(&trial), "the generator was the limit");
    trial.caveats.push(invalid(Code::ERRORS));
    assert!(!CPU.includes(&trial), "requests failed");
    assert!(
        ERROR_SHARE.includes(&trial)
            && !THROUGHPUT.includes(&trial)
            && !RESPONSE_P50.includes(&trial)
    );
    assert!(!ERROR_SHARE.has_ratios() && THROUGHPUT.has_ratios() && RESPONSE_P50.has_ratios());
}
