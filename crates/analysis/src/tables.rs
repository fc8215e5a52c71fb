//! Tables for people and for spreadsheets.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::backend::BackendUse;
use crate::caveat::Severity;
use crate::metric::{METRICS, Metric};
use crate::overview::OverviewRow;
use crate::stats::Repeated;
use crate::trial::TrialResult;
use OfTrial::{Is, Measured};

/// A table for people and for spreadsheets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Table {
    pub name: &'static str,
    pub title: &'static str,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Value>>,
}

/// A column: its name, and a function from a row to its value.
type Column<T> = (&'static str, fn(&T) -> Value);

/// The overview as a table.
#[must_use]
pub fn overview_table(rows: &[OverviewRow]) -> Table {
    Table {
        name: "overview",
        title: "Overview",
        columns: OVERVIEW.iter().map(|(name, _)| *name).collect(),
        rows: rows.iter().map(|row| OVERVIEW.iter().map(|(_, cell)| cell(row)).collect()).collect(),
    }
}

const OVERVIEW: &[Column<OverviewRow>] = &[
    ("subject", |r| json!(r.subject)),
    ("workload", |r| json!(r.workload)),
    ("language", |r| json!(r.language)),
    ("peak_rps", |r| json!(r.peak_rps.as_ref().and_then(|p| p.median))),
    ("peak_rps_low", |r| json!(r.peak_rps.as_ref().and_then(Repeated::spread).map(|s| s.0))),
    ("peak_rps_high", |r| json!(r.peak_rps.as_ref().and_then(Repeated::spread).map(|s| s.1))),
    ("peak_connections", |r| json!(r.peak_connections)),
    ("peak_streams", |r| json!(r.peak_streams)),
    ("tie_group", |r| json!(r.tie_group)),
    ("response_p50_us", |r| json!(r.response_p50_us)),
    ("response_p99_us", |r| json!(r.response_p99_us)),
    ("reference_step", |r| json!(r.reference_step)),
    ("cpu_us_per_request", |r| json!(r.cpu_us_per_request)),
    ("memory_peak_bytes", |r| json!(r.memory_peak_bytes)),
    ("startup_ms", |r| json!(r.startup_ms)),
    ("errors", |r| json!(r.errors)),
    ("checks", |r| json!(format!("{}/{}", r.checks_passed, r.checks))),
    ("limiter", |r| json!(r.limiter)),
    ("limiter_confidence", |r| json!(r.limiter_confidence)),
    ("absent", |r| json!(r.absent)),
    ("place_best", |r| json!(r.places.map(|p| p.best))),
    ("place_worst", |r| json!(r.places.map(|p| p.worst))),
    ("peak_is_lower_bound", |r| json!(r.peak_is_lower_bound)),
    ("peak_at_least_rps", |r| json!(r.most_rps().filter(|_| r.peak_is_lower_bound))),
];

/// A column of the table of trials.
enum OfTrial {
    /// A field of the trial, under this name.
    Is(&'static str, fn(&TrialResult) -> Value),
    /// A metric, by its key.
    Measured(&'static str),
}

impl OfTrial {
    const fn name(&self) -> &'static str {
        match self {
            Is(name, _) | Measured(name) => name,
        }
    }

    fn cell(&self, t: &TrialResult) -> Value {
        match self {
            Is(_, cell) => cell(t),
            Measured(key) => json!((Metric::from_key(key).pick)(t)),
        }
    }
}

/// Returns the table of trials, one row each. Metrics that are not in `TRIALS` come last.
#[must_use]
pub fn trials_table(trials: &[TrialResult]) -> Table {
    let has_place = |metric: &&Metric| TRIALS.iter().any(|column| column.name() == metric.key);
    let others =
        METRICS.iter().filter(|metric| !has_place(metric)).map(|metric| Measured(metric.key));
    let others: Vec<OfTrial> = others.collect();
    let columns = || TRIALS.iter().chain(&others).chain(LATER);
    Table {
        name: "trials",
        title: "Trials",
        columns: columns().map(OfTrial::name).collect(),
        rows: trials.iter().map(|t| columns().map(|column| column.cell(t)).collect()).collect(),
    }
}

/// Columns added after the metrics that are not in `TRIALS`.
const LATER: &[OfTrial] = &[
    Is("backends_cpu_us_per_request", |t| json!(of_backends(t, |b| b.server.cpu_us_per_request))),
    Is("backends_memory_bytes", |t| {
        json!(of_backends(t, |b| b.server.memory_held_bytes.map(|n| n as f64)))
    }),
    Is("pass", |t| json!(t.step.pass)),
    Is("schedule", |t| {
        json!(t.step.schedule.map(|schedule| schedule.label(|rate| format!("{rate:.0}"))))
    }),
];

/// Returns a sum over the services behind the subject; `None`: there are none, or one value is not
/// known.
fn of_backends(t: &TrialResult, pick: fn(&BackendUse) -> Option<f64>) -> Option<f64> {
    t.backends.iter().map(pick).sum::<Option<f64>>().filter(|_| !t.backends.is_empty())
}

/// Returns the codes of a trial's caveats of severity `warning` or `invalid`.
fn codes(t: &TrialResult) -> String {
    let shown = t.caveats.iter().filter(|c| c.severity > Severity::Info);
    shown.map(|c| c.code.name()).collect::<Vec<_>>().join(" ")
}

const TRIALS: &[OfTrial] = &[
    Is("subject", |t| json!(t.subject_id)),
    Is("workload", |t| json!(t.workload)),
    Is("block", |t| json!(t.block)),
    Is("repeat", |t| json!(t.repeat)),
    Is("connections", |t| json!(t.step.connections)),
    Is("streams", |t| json!(t.step.streams)),
    Is("pipeline", |t| json!(t.step.pipeline)),
    Is("rate", |t| json!(t.step.rate)),
    Is("duration_s", |t| json!(t.step.duration_s)),
    Is("valid", |t| json!(t.valid)),
    Measured("throughput_rps"),
    Is("started", |t| json!(t.load.exchanges.started)),
    Is("completed", |t| json!(t.load.exchanges.completed)),
    Is("failed", |t| json!(t.load.exchanges.failed)),
    Is("dropped", |t| json!(t.load.exchanges.dropped)),
    Is("in_flight_at_end", |t| json!(t.load.exchanges.in_flight_at_end)),
    Measured("response_p50_us"),
    Measured("response_p90_us"),
    Measured("response_p99_us"),
    Measured("response_p99_9_us"),
    Is("response_max_us", |t| json!(t.load.response_time_us.max)),
    Is("unanswered", |t| json!(t.load.response_time_us.unanswered)),
    Is("longest_wait_us", |t| json!(t.load.response_time_us.longest_wait)),
    Measured("service_p50_us"),
    Measured("service_p99_us"),
    Measured("send_lag_p99_us"),
    Measured("server_cpu_us_per_request"),
    Is("server_cpu_user_s", |t| json!(t.server.cpu_user_s)),
    Is("server_cpu_sys_s", |t| json!(t.server.cpu_sys_s)),
    Measured("server_cpu_utilisation"),
    Is("server_throttled_s", |t| json!(t.server.throttled_s)),
    Is("server_memory_anon_bytes", |t| json!(t.server.memory_anon_bytes)),
    Is("server_memory_peak_bytes", |t| json!(t.server.memory_peak_bytes)),
    Is("server_rss_bytes", |t| json!(t.server.rss_bytes)),
    Measured("server_memory_mb_s_per_request"),
    Measured("server_context_switches_per_request"),
    Measured("generator_busiest_thread"),
    Measured("generator_cpu_us_per_exchange"),
    Is("protocol", |t| json!(t.load.config.protocol.base_name())),
    Is("tls", |t| json!(t.load.config.protocol.is_tls())),
    Measured("segments_per_response"),
    Measured("frames_per_segment"),
    Measured("responses_per_receive"),
    Measured("pages_per_second"),
    Measured("page_p50_us"),
    Measured("page_p99_us"),
    Is("limiter", |t| json!(t.limiter.resource)),
    Is("limiter_confidence", |t| json!(t.limiter.confidence)),
    Is("caveats", |t| json!(codes(t))),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::reported;

    /// Programs may read columns by position.
    #[test]
    fn columns_of_before_keep_their_place_and_every_metric_has_one() {
        let columns = trials_table(&[]).columns;
        assert_eq!(
            (columns[0], columns[10], columns[26], columns[48]),
            ("subject", "throughput_rps", "server_cpu_us_per_request", "caveats")
        );
        for metric in METRICS {
            let named = columns.iter().filter(|name| **name == metric.key).count();
            assert_eq!(named, 1, "{}", metric.key);
            assert!(
                !TRIALS.iter().any(|c| matches!(c, Is(name, _) if *name == metric.key)),
                "{}",
                metric.key
            );
        }
        let measured = TRIALS.iter().filter(|column| matches!(column, Measured(_)));
        assert!(
            measured.map(OfTrial::name).all(|key| METRICS.iter().any(|metric| metric.key == key))
        );
    }

    #[test]
    fn rows_hold_what_their_columns_say() {
        let report = reported();
        let value = |table: &Table, row: usize, column: &str| {
            let at = table.columns.iter().position(|name| *name == column).unwrap();
            table.rows[row][at].clone()
        };
        let overview = overview_table(&report.overview);
        assert_eq!((overview.name, overview.rows.len()), ("overview", 7));
        assert_eq!(value(&overview, 0, "subject"), json!("fast"));
        assert_eq!(value(&overview, 0, "peak_rps"), json!(412.0));
        assert_eq!(value(&overview, 0, "checks"), json!("0/1"));
        let trials = trials_table(&report.trials);
        assert_eq!((trials.name, trials.rows.len()), ("trials", 60));
        let of_fast =
            report.trials.iter().position(|t| t.subject_id == "fast" && !t.valid).unwrap();
        assert_eq!(value(&trials, of_fast, "throughput_rps"), json!(400.0));
        assert_eq!(value(&trials, of_fast, "connections"), json!(64));
        assert_eq!(
            value(&trials, of_fast, "caveats"),
            json!("subject_failed"),
            "those that only inform are left out"
        );
    }
}
