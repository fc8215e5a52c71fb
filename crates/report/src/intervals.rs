//! Formats the intervals of a load: as CSV at its end, and as lines of JSON while the load runs.

use dyno_analysis::load::{IntervalResult, LoadConfig, interval_result};
use dyno_analysis::tables::{DataColumn, Table};
use dyno_model::{Interval, Outcome};
use serde_json::{Value, json};

/// Name and version of the format of the stream.
pub const STREAM_SCHEMA: &str = "dyno.stream/1";

/// Formats intervals as CSV, with a line per interval.
#[must_use]
pub fn csv(intervals: &[IntervalResult]) -> String {
    crate::csv::table(&Table::new("intervals", "Intervals", COLUMNS, intervals))
}

const COLUMNS: &[DataColumn<IntervalResult>] = &[
    ("phase", |i| json!(i.phase)),
    ("start_s", |i| json!(i.start_s)),
    ("end_s", |i| json!(i.end_s)),
    ("ok", |i| json!(i.ok)),
    ("failed", |i| json!(i.failed)),
    ("dropped", |i| json!(i.dropped)),
    ("throughput_rps", |i| json!(i.throughput_rps)),
    ("in_flight_mean", |i| json!(i.in_flight_mean)),
    ("connections_open", |i| json!(i.connections_open)),
    ("response_p50_us", |i| json!(i.response_time_us.p50)),
    ("response_p90_us", |i| json!(i.response_time_us.p90)),
    ("response_p99_us", |i| json!(i.response_time_us.p99)),
    ("response_p99_9_us", |i| json!(i.response_time_us.p99_9)),
    ("response_max_us", |i| json!(i.response_time_us.max)),
    ("unanswered", |i| json!(i.response_time_us.unanswered)),
    ("longest_wait_us", |i| json!(i.response_time_us.longest_wait)),
    ("service_p50_us", |i| json!(i.service_time_us.p50)),
    ("service_p99_us", |i| json!(i.service_time_us.p99)),
    ("busiest_thread_utilisation", |i| json!(i.busiest_thread_utilisation)),
];

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
    use dyno_model::times::Recording;
    use dyno_model::{Phase, Times};

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

    /// A column `response_p50_us` has the member `p50` of the JSON's `response_time_us`.
    #[test]
    fn csv_columns_are_members_of_json() {
        let mut interval = Interval::new(Phase::Warmup, 0, 1_500_000_000);
        let mut times = Recording::new();
        (1..=2000).for_each(|i| times.record(i * 1_000_000));
        (interval.times.response, interval.times.service) = (times.clone().seal(), times.seal());
        let interval = interval_result(&interval);
        let json = json!(interval);
        let text = csv(&[interval]);
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let (columns, cells) = (lines.next().unwrap(), lines.next().unwrap());
        assert_eq!((columns.len(), lines.next()), (19, None), "{text}");
        for (column, cell) in columns.into_iter().zip(cells) {
            let member = match column {
                "unanswered" | "longest_wait_us" => {
                    &json["response_time_us"][column.trim_end_matches("_us")]
                }
                column => match column.trim_end_matches("_us").split_once('_') {
                    Some((kind @ ("response" | "service"), name)) => {
                        &json[format!("{kind}_time_us")][name]
                    }
                    _ => &json[column],
                },
            };
            let expected = member.as_str().map_or_else(|| member.to_string(), String::from);
            assert_eq!(cell, expected.trim_start_matches("null"), "{column}");
        }
    }
}
