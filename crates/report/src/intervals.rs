//! Formats the intervals of a load: as CSV at its end, and as lines of JSON while the load runs.

use dyno_analysis::load::{IntervalResult, LoadConfig, interval_result};
use dyno_analysis::tables::Table;
use dyno_archive::{Interval, Outcome};
use serde_json::{Value, json};

/// Name and version of the format of the stream.
pub const STREAM_SCHEMA: &str = "dyno.stream/1";

/// Formats intervals as CSV, with a line per interval.
#[must_use]
pub fn csv(intervals: &[IntervalResult]) -> String {
    let columns = vec![
        "phase",
        "start_s",
        "end_s",
        "ok",
        "failed",
        "dropped",
        "throughput_rps",
        "in_flight_mean",
        "connections_open",
        "response_p50_us",
        "response_p90_us",
        "response_p99_us",
        "response_p99_9_us",
        "response_max_us",
        "unanswered",
        "longest_wait_us",
        "service_p50_us",
        "service_p99_us",
        "busiest_thread_utilisation",
    ];
    let row = |i: &IntervalResult| {
        let (response, service) = (&i.response_time_us, &i.service_time_us);
        vec![
            json!(i.phase),
            json!(i.start_s),
            json!(i.end_s),
            json!(i.ok),
            json!(i.failed),
            json!(i.dropped),
            json!(i.throughput_rps),
            json!(i.in_flight_mean),
            json!(i.connections_open),
            json!(response.p50),
            json!(response.p90),
            json!(response.p99),
            json!(response.p99_9),
            json!(response.max),
            json!(response.unanswered),
            json!(response.longest_wait),
            json!(service.p50),
            json!(service.p99),
            json!(i.busiest_thread_utilisation),
        ]
    };
    let rows = intervals.iter().map(row).collect();
    crate::csv::table(&Table { name: "intervals", title: "Intervals", columns, rows })
}

/// Returns the first line of a stream: the configuration of the load.
#[must_use]
pub fn stream_head(config: &LoadConfig) -> String {
    json!({"schema": STREAM_SCHEMA, "type": "begin", "config": config}).to_string()
}

/// Returns the line of an interval that has ended: its results, the outcomes that occurred, and the
/// whole histogram of response times, so that readers can merge intervals.
#[must_use]
pub fn stream_line(interval: &Interval) -> String {
    let mut line =
        serde_json::to_value(interval_result(interval)).expect("numbers and strings only");
    let outcomes: serde_json::Map<String, Value> = Outcome::ALL
        .iter()
        .map(|o| (o.name(), interval.outcomes.get(*o) + interval.carried.get(*o)))
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| (name.to_string(), n.into()))
        .collect();
    line["type"] = "interval".into();
    line["outcomes"] = outcomes.into();
    line["bytes_sent"] = interval.bytes_sent.into();
    line["bytes_received"] = interval.bytes_received.into();
    line["response_time_hdr"] = serde_json::to_value(&interval.times.response).expect("a string");
    line.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_archive::{Phase, Times};

    #[test]
    fn stream_line_has_outcomes_and_histogram() {
        let mut interval = Interval::new(Phase::Measured, 0, 1_000_000_000);
        interval.outcomes.count(Outcome::Ok);
        interval.outcomes.count(Outcome::Timeout);
        let line: Value = serde_json::from_str(&stream_line(&interval)).unwrap();
        assert_eq!(line["type"], "interval");
        assert_eq!(line["outcomes"], json!({"ok": 1, "timeout": 1}));
        assert_eq!((&line["ok"], &line["failed"]), (&json!(1), &json!(1)));
        assert_eq!(
            serde_json::from_value::<Times>(line["response_time_hdr"].clone()).unwrap(),
            Times::new()
        );
    }

    #[test]
    fn csv_rows_have_as_many_cells_as_columns() {
        let interval = interval_result(&Interval::new(Phase::Warmup, 0, 1_000_000_000));
        let text = csv(&[interval]);
        let cells: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(cells, [19, 19], "{text}");
    }
}
