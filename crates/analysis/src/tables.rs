//! Builds the tables of a report, for people and for spreadsheets.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::backend_use::BackendUse;
use crate::caveat::Severity;
use crate::metric::MetricId;
use crate::overview::OverviewRow;
use crate::stats::Repeated;
use crate::trial::TrialResult;
use TrialColumn::{Field, MetricValue};

/// A table for people and for spreadsheets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Table {
    pub name: &'static str,
    pub title: &'static str,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Value>>,
}

/// A column: its name, and a function from a row to its value.
pub type DataColumn<T> = (&'static str, fn(&T) -> Value);

impl Table {
    /// Makes a table with a row per item of `items`.
    #[must_use]
    pub fn new<T>(
        name: &'static str,
        title: &'static str,
        columns: &[DataColumn<T>],
        items: &[T],
    ) -> Table {
        let row = |item: &T| columns.iter().map(|(_, cell)| cell(item)).collect();
        let columns = columns.iter().map(|(name, _)| *name).collect();
        Table { name, title, columns, rows: items.iter().map(row).collect() }
    }
}

/// Returns the overview as a table.
#[must_use]
pub fn overview_table(rows: &[OverviewRow]) -> Table {
    Table::new("overview", "Overview", OVERVIEW, rows)
}

/// Columns of the overview. New columns are added at the end, because programs may read columns by
/// position.
const OVERVIEW: &[DataColumn<OverviewRow>] = &[
    ("subject", |r| json!(r.subject)),
    ("workload", |r| json!(r.workload)),
    ("language", |r| json!(r.language)),
    ("peak_rps", |r| json!(r.peak_rps.as_ref().and_then(|p| p.median))),
    ("peak_rps_low", |r| json!(r.peak_rps.as_ref().and_then(Repeated::spread).map(|(low, _)| low))),
    ("peak_rps_high", |r| {
        json!(r.peak_rps.as_ref().and_then(Repeated::spread).map(|(_, high)| high))
    }),
    ("peak_connections", |r| json!(r.peak_connections)),
    ("peak_streams", |r| json!(r.peak_streams)),
    ("tie_group", |r| json!(r.tie_group)),
    ("response_p50_us", |r| json!(r.figures.get(MetricId::ResponseP50))),
    ("response_p99_us", |r| json!(r.figures.get(MetricId::ResponseP99))),
    ("reference_step", |r| json!(r.reference_step)),
    ("cpu_us_per_request", |r| json!(r.figures.get(MetricId::Cpu))),
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
    ("peak_at_least_rps", |r| json!(r.max_rps().filter(|_| r.peak_is_lower_bound))),
];

/// A column of the table of trials.
enum TrialColumn {
    /// A field of the trial, under this name.
    Field(&'static str, fn(&TrialResult) -> Value),
    /// A metric, by its key.
    MetricValue(MetricId),
}

impl TrialColumn {
    fn name(&self) -> &'static str {
        match self {
            Field(name, _) => name,
            MetricValue(id) => id.key(),
        }
    }

    /// Returns the value of the column in the row of a trial.
    fn cell(&self, t: &TrialResult) -> Value {
        match self {
            Field(_, cell) => cell(t),
            MetricValue(id) => json!((id.metric().pick)(t)),
        }
    }
}

/// First columns of the table of trials. Their order is fixed, because programs may read columns by
/// position.
const FIXED_TRIAL_COLUMNS: &[TrialColumn] = &[
    Field("subject", |t| json!(t.subject_id)),
    Field("workload", |t| json!(t.workload)),
    Field("block", |t| json!(t.block)),
    Field("repeat", |t| json!(t.repeat)),
    Field("connections", |t| json!(t.step.shape.connections)),
    Field("streams", |t| json!(t.step.shape.streams)),
    Field("pipeline", |t| json!(t.step.shape.pipeline)),
    Field("rate", |t| json!(t.step.shape.rate)),
    Field("duration_s", |t| json!(t.step.duration_s)),
    Field("valid", |t| json!(t.valid)),
    MetricValue(MetricId::Throughput),
    Field("started", |t| json!(t.load.exchanges.started)),
    Field("completed", |t| json!(t.load.exchanges.completed)),
    Field("failed", |t| json!(t.load.exchanges.failed)),
    Field("dropped", |t| json!(t.load.exchanges.dropped)),
    Field("in_flight_at_end", |t| json!(t.load.exchanges.in_flight_at_end)),
    MetricValue(MetricId::ResponseP50),
    MetricValue(MetricId::ResponseP90),
    MetricValue(MetricId::ResponseP99),
    MetricValue(MetricId::ResponseP999),
    Field("response_max_us", |t| json!(t.load.response_time_us.max)),
    Field("unanswered", |t| json!(t.load.response_time_us.unanswered)),
    Field("longest_wait_us", |t| json!(t.load.response_time_us.longest_wait)),
    MetricValue(MetricId::ServiceP50),
    MetricValue(MetricId::ServiceP99),
    MetricValue(MetricId::SendLagP99),
    MetricValue(MetricId::Cpu),
    Field("server_cpu_user_s", |t| json!(t.server.cpu_user_s)),
    Field("server_cpu_sys_s", |t| json!(t.server.cpu_sys_s)),
    MetricValue(MetricId::CpuUtilisation),
    Field("server_throttled_s", |t| json!(t.server.throttled_s)),
    Field("server_memory_anon_bytes", |t| json!(t.server.memory_anon_bytes)),
    Field("server_memory_peak_bytes", |t| json!(t.server.memory_peak_bytes)),
    Field("server_rss_bytes", |t| json!(t.server.rss_bytes)),
    MetricValue(MetricId::MemoryTime),
    MetricValue(MetricId::ContextSwitches),
    MetricValue(MetricId::GeneratorBusiestThread),
    MetricValue(MetricId::GeneratorCpu),
    Field("protocol", |t| json!(t.load.config.protocol.base_name())),
    Field("tls", |t| json!(t.load.config.protocol.is_tls())),
    MetricValue(MetricId::Segments),
    MetricValue(MetricId::FramesPerSegment),
    MetricValue(MetricId::ResponsesPerReceive),
    MetricValue(MetricId::PagesPerSecond),
    MetricValue(MetricId::PageP50),
    MetricValue(MetricId::PageP99),
    Field("limiter", |t| json!(t.limiter.resource)),
    Field("limiter_confidence", |t| json!(t.limiter.confidence)),
    Field("caveats", |t| json!(codes(t))),
];

/// Returns the table with one row per trial. Metrics that are not in `FIXED_TRIAL_COLUMNS` have
/// columns after it.
#[must_use]
pub fn trials_table(trials: &[TrialResult]) -> Table {
    let is_listed =
        |id: &MetricId| FIXED_TRIAL_COLUMNS.iter().any(|column| column.name() == id.key());
    let others = MetricId::ALL.iter().copied().filter(|id| !is_listed(id)).map(MetricValue);
    let others: Vec<TrialColumn> = others.collect();
    let columns = || FIXED_TRIAL_COLUMNS.iter().chain(&others).chain(LAST_COLUMNS);
    Table {
        name: "trials",
        title: "Trials",
        columns: columns().map(TrialColumn::name).collect(),
        rows: trials.iter().map(|t| columns().map(|column| column.cell(t)).collect()).collect(),
    }
}

/// Columns at the end of the table. They move if a metric is added; only `FIXED_TRIAL_COLUMNS` has
/// fixed positions.
const LAST_COLUMNS: &[TrialColumn] = &[
    Field("backends_cpu_us_per_request", |t| {
        json!(backend_sum(t, |b| b.server.cpu_us_per_request))
    }),
    Field("backends_memory_bytes", |t| {
        json!(backend_sum(t, |b| b.server.memory_held_bytes.map(|n| n as f64)))
    }),
    Field("pass", |t| json!(t.step.shape.pass)),
    Field("schedule", |t| {
        json!(t.step.shape.schedule.map(|schedule| schedule.label(|rate| format!("{rate:.0}"))))
    }),
];

/// Returns the sum of a value over the back ends of the subject; `None`: the subject has no back
/// ends, or a value is unknown.
fn backend_sum(t: &TrialResult, pick: fn(&BackendUse) -> Option<f64>) -> Option<f64> {
    t.backends.iter().map(pick).sum::<Option<f64>>().filter(|_| !t.backends.is_empty())
}

/// Returns the codes of a trial's caveats of severity `warning` or `invalid`.
fn codes(t: &TrialResult) -> String {
    let reported = t.caveats.iter().filter(|c| c.severity > Severity::Info);
    reported.map(|c| c.code.name()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixture::five_block_report;
    use crate::metric::METRICS;

    /// Programs may read columns by position.
    #[test]
    fn trial_columns_are_stable_and_include_all_metrics() {
        let columns = trials_table(&[]).columns;
        assert_eq!(
            (columns[0], columns[10], columns[26], columns[48]),
            ("subject", "throughput_rps", "server_cpu_us_per_request", "caveats")
        );
        for metric in METRICS {
            let named = columns.iter().filter(|name| **name == metric.key).count();
            assert_eq!(named, 1, "{}", metric.key);
            assert!(
                !FIXED_TRIAL_COLUMNS
                    .iter()
                    .any(|c| matches!(c, Field(name, _) if *name == metric.key)),
                "{}",
                metric.key
            );
        }
    }

    /// Collects the values of a JSON value that are neither lists nor objects.
    fn collect_leaves(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| collect_leaves(item, found)),
            Value::Object(members) => members.values().for_each(|v| collect_leaves(v, found)),
            leaf => drop(found.insert(leaf_text(leaf))),
        }
    }

    /// Whole numbers may be written as `4` or `4.0`.
    fn leaf_text(leaf: &Value) -> String {
        leaf.as_f64().map_or_else(|| leaf.to_string(), |number| number.to_string())
    }

    /// Columns that are computed from several values of the JSON.
    const COMPUTED: [&str; 10] = [
        "checks",
        "caveats",
        "bytes_in_per_response",
        "bytes_out_per_response",
        "frames_per_response",
        "bytes_per_server_cpu_second",
        "requests_per_connection",
        "backends_cpu_us_per_request",
        "backends_memory_bytes",
        "schedule",
    ];

    /// Asserts that each value of a row, which CSV has, too, is a value of the JSON of its item.
    fn assert_known(table: &Table, row: usize, item: &Value) {
        let mut known = BTreeSet::from([Value::Null.to_string()]);
        collect_leaves(item, &mut known);
        for (column, value) in table.columns.iter().zip(&table.rows[row]) {
            let is_known = known.contains(&leaf_text(value)) || COMPUTED.contains(column);
            assert!(is_known, "{}, row {row}: {column} is {value}", table.name);
        }
    }

    #[test]
    fn values_of_tables_are_values_of_json() {
        let report = five_block_report();
        let overview = overview_table(&report.overview);
        for (i, row) in report.overview.iter().enumerate() {
            assert_known(&overview, i, &json!(row));
        }
        let trials = trials_table(&report.trials);
        for (i, trial) in report.trials.iter().enumerate() {
            assert_known(&trials, i, &json!(trial));
        }
    }

    #[test]
    fn table_rows_have_values_of_columns() {
        let report = five_block_report();
        let value = |table: &Table, row: usize, column: &str| {
            let index = table.columns.iter().position(|name| *name == column).unwrap();
            table.rows[row][index].clone()
        };
        let overview = overview_table(&report.overview);
        assert_eq!((overview.name, overview.rows.len()), ("overview", 7));
        assert_eq!(value(&overview, 0, "subject"), json!("fast"));
        assert_eq!(value(&overview, 0, "peak_rps"), json!(412.0));
        assert_eq!(value(&overview, 0, "checks"), json!("0/1"));
        let trials = trials_table(&report.trials);
        assert_eq!((trials.name, trials.rows.len()), ("trials", 60));
        let invalid_trial =
            report.trials.iter().position(|t| t.subject_id == "fast" && !t.valid).unwrap();
        assert_eq!(value(&trials, invalid_trial, "throughput_rps"), json!(400.0));
        assert_eq!(value(&trials, invalid_trial, "connections"), json!(64));
        assert_eq!(
            value(&trials, invalid_trial, "caveats"),
            json!("subject_failed"),
            "caveats of severity `info` are omitted"
        );
    }
}
