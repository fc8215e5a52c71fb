//! Computes rates and shares from the metrics that the server's runtime reported in the measured
//! window, such as garbage collections.

use std::collections::BTreeMap;

use dyno_model::LoadRecord;
use dyno_model::runtime::RuntimeReading;
use schemars::JsonSchema;
use serde::Serialize;

/// Metrics that the runtime reported, between the first and the last reading within the measured
/// window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Runtime")]
pub struct RuntimeMetrics {
    /// Time from the first to the last reading, in seconds. In turns: time between successive
    /// readings in the server's own turns.
    pub between_s: f64,
    pub readings: usize,
    /// Processes that reported metrics; values are sums over them.
    pub processes: u32,
    /// Busy share (0 to 1), by name, of values that are reported as active and idle amounts
    /// (`NAME_active_…_total`, `NAME_idle_…_total`).
    pub utilisation: BTreeMap<String, f64>,
    /// Growth per second of counters (`NAME_total`). For times (`NAME_seconds_total`) the growth is
    /// a share of the time. It exceeds 1 if several threads add to the counter.
    pub per_second: BTreeMap<String, f64>,
    /// Maximum of each of the other values over the readings.
    pub highest: BTreeMap<String, f64>,
    /// Whether the growth of counters is unknown, because too few successive readings were in the
    /// same turn of the server.
    #[serde(skip)]
    pub(crate) lacks_own_growth: bool,
}

/// Suffix of the names of counters.
const TOTAL: &str = "_total";

/// Reason why the metrics of the runtime are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRuntimeReason {
    /// No process reported metrics during the load.
    NoReading,
    /// Fewer than two readings fell into the measured window.
    TooFew,
    /// The processes that reported at the end differ from those at the beginning.
    OtherProcesses,
    /// A counter has shrunk, or was missing at the beginning.
    Restarted,
}

impl NoRuntimeReason {
    /// Describes the reason for a report; `None`: the server reports no metrics.
    pub(crate) const fn in_words(self) -> Option<&'static str> {
        match self {
            NoRuntimeReason::NoReading => None,
            NoRuntimeReason::TooFew => {
                Some("the measured window had fewer than two readings. Use a longer `duration`")
            }
            NoRuntimeReason::OtherProcesses => {
                Some("a process that reports metrics ended or started in the measured window")
            }
            NoRuntimeReason::Restarted => Some(
                "a counter was reset in the measured window, or was missing when the window began",
            ),
        }
    }
}

impl RuntimeMetrics {
    /// Computes the metrics between the first and the last reading of the window.
    ///
    /// # Errors
    ///
    /// The reason why there are no metrics.
    pub(crate) fn from_record(record: &LoadRecord) -> Result<RuntimeMetrics, NoRuntimeReason> {
        if record.runtime.is_empty() {
            return Err(NoRuntimeReason::NoReading);
        }
        let (opens, closes) =
            (record.began_ns + record.window_ns.0, record.began_ns + record.window_ns.1);
        let is_within = |reading: &&RuntimeReading| (opens..=closes).contains(&reading.at_ns);
        let readings: Vec<&RuntimeReading> = record.runtime.iter().filter(is_within).collect();
        let (first, last) = readings.first().zip(readings.last()).ok_or(NoRuntimeReason::TooFew)?;
        if last.at_ns <= first.at_ns {
            return Err(NoRuntimeReason::TooFew);
        }
        // Values are sums over processes, so they are comparable only over the same processes.
        let has_other_processes = |reading: &&RuntimeReading| {
            (reading.processes, &reading.sockets) != (first.processes, &first.sockets)
        };
        if readings.iter().any(has_other_processes) {
            return Err(NoRuntimeReason::OtherProcesses);
        }
        let between_s = (last.at_ns - first.at_ns) as f64 / 1e9;
        let growth_by_name = counter_growth(first, last).ok_or(NoRuntimeReason::Restarted)?;
        Ok(RuntimeMetrics {
            between_s,
            readings: readings.len(),
            processes: last.processes,
            utilisation: utilisation(&growth_by_name),
            per_second: per_second(&growth_by_name, between_s),
            highest: highest(&readings),
            lacks_own_growth: false,
        })
    }

    /// Returns the metrics with the growth of counters from these pairs of readings. Without pairs
    /// the growth is unknown.
    pub(crate) fn with_growth_between(
        self,
        pairs: &[(&RuntimeReading, &RuntimeReading)],
    ) -> RuntimeMetrics {
        let mut growth_by_name = BTreeMap::new();
        let mut between_ns = 0;
        for (from, to) in pairs {
            let Some(growth) = counter_growth(from, to) else { continue };
            for (name, growth) in growth {
                *growth_by_name.entry(name).or_insert(0.0) += growth;
            }
            between_ns += to.at_ns - from.at_ns;
        }
        let between_s = between_ns as f64 / 1e9;
        let had_growth = !self.utilisation.is_empty() || !self.per_second.is_empty();
        RuntimeMetrics {
            between_s,
            utilisation: utilisation(&growth_by_name),
            per_second: per_second(&growth_by_name, between_s),
            lacks_own_growth: had_growth && growth_by_name.is_empty(),
            ..self
        }
    }
}

/// Returns the growth per second of each counter, except active and idle amounts.
fn per_second(growth_by_name: &BTreeMap<&str, f64>, between_s: f64) -> BTreeMap<String, f64> {
    let is_busy_or_idle = |name: &str| {
        counterpart(name).is_some_and(|(_, other)| growth_by_name.contains_key(&*other))
    };
    growth_by_name
        .iter()
        .filter(|(name, _)| !is_busy_or_idle(name))
        .map(|(name, growth)| ((*name).to_string(), growth / between_s))
        .collect()
}

/// Returns the growth of each counter; `None`: a counter has shrunk, or was missing before.
fn counter_growth<'a>(
    first: &RuntimeReading,
    last: &'a RuntimeReading,
) -> Option<BTreeMap<&'a str, f64>> {
    let counters = last.values.iter().filter(|(name, _)| name.ends_with(TOTAL));
    let growth = |(name, value): (&'a String, &f64)| {
        let increase = value - first.values.get(name)?;
        (increase >= 0.0).then_some((name.as_str(), increase))
    };
    counters.map(growth).collect()
}

/// Returns the busy share by name: active ÷ (active + idle).
fn utilisation(growth_by_name: &BTreeMap<&str, f64>) -> BTreeMap<String, f64> {
    let share = |(name, active): (&&str, &f64)| {
        let (name, idle) = counterpart(name).filter(|_| name.contains(ACTIVE))?;
        let total = active + growth_by_name.get(&*idle)?;
        (total > 0.0).then(|| (name.to_string(), active / total))
    };
    growth_by_name.iter().filter_map(share).collect()
}

const ACTIVE: &str = "_active_";
const IDLE: &str = "_idle_";

/// Splits the name of a counter of active or idle time or work. Returns its prefix, and the name of
/// its counterpart.
fn counterpart(name: &str) -> Option<(&str, String)> {
    let split_at = |this: &str, other: &str| {
        let (prefix, unit) = name.split_once(this)?;
        Some((prefix, format!("{prefix}{other}{unit}")))
    };
    split_at(ACTIVE, IDLE).or_else(|| split_at(IDLE, ACTIVE))
}

/// Returns the maximum of each value that is not a counter.
fn highest(readings: &[&RuntimeReading]) -> BTreeMap<String, f64> {
    let mut maxima: BTreeMap<String, f64> = BTreeMap::new();
    for (name, value) in readings.iter().flat_map(|reading| &reading.values) {
        if !name.ends_with(TOTAL) {
            let maximum = maxima.entry(name.clone()).or_insert(*value);
            *maximum = maximum.max(*value);
        }
    }
    maxima
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixture;

    const S: u64 = 1_000_000_000;

    fn reading(at_s: u64, processes: u32, values: &[(&str, f64)]) -> RuntimeReading {
        let values = values.iter().map(|(name, value)| ((*name).to_string(), *value)).collect();
        RuntimeReading { at_ns: at_s * S, took_ns: 1, processes, sockets: BTreeSet::new(), values }
    }

    fn runtime_metrics(readings: Vec<RuntimeReading>) -> Result<RuntimeMetrics, NoRuntimeReason> {
        let record = LoadRecord {
            began_ns: 10 * S,
            window_ns: (S, 5 * S),
            runtime: readings,
            ..fixture::record(1000)
        };
        RuntimeMetrics::from_record(&record)
    }

    fn example_reading(at_s: u64, active: f64, gc: f64, heap: f64) -> RuntimeReading {
        reading(
            at_s,
            1,
            &[
                ("event_loop_active_seconds_total", active),
                ("event_loop_idle_seconds_total", at_s as f64 - active),
                ("gc_seconds_total", gc),
                ("heap_bytes", heap),
            ],
        )
    }

    /// A worker ended within the window, and another replaced it.
    #[test]
    fn runtime_metrics_require_same_processes() {
        let worker_reading = |at_s: u64, sockets: &[&str]| RuntimeReading {
            sockets: sockets.iter().map(|name| (*name).to_string()).collect(),
            ..reading(at_s, 2, &[("requests_total", at_s as f64)])
        };
        assert!(
            runtime_metrics(vec![worker_reading(12, &["7", "8"]), worker_reading(14, &["7", "8"])])
                .is_ok()
        );
        let replaced =
            runtime_metrics(vec![worker_reading(12, &["7", "8"]), worker_reading(14, &["7", "9"])]);
        assert_eq!(replaced, Err(NoRuntimeReason::OtherProcesses));
    }

    #[test]
    fn runtime_metrics_use_readings_of_window() {
        let readings = vec![
            example_reading(10, 0.0, 0.0, 900.0),
            example_reading(11, 1.0, 0.1, 10.0),
            example_reading(13, 2.0, 0.5, 30.0),
            example_reading(15, 3.0, 0.5, 20.0),
            example_reading(16, 4.0, 9.0, 800.0),
        ];
        let metrics = runtime_metrics(readings).unwrap();
        assert_eq!((metrics.between_s, metrics.readings, metrics.processes), (4.0, 3, 1));
        assert_eq!(metrics.utilisation, [("event_loop".to_string(), 0.5)].into());
        assert_eq!(metrics.per_second, [("gc_seconds_total".to_string(), 0.1)].into());
        assert_eq!(metrics.highest, [("heap_bytes".to_string(), 30.0)].into());
    }

    #[test]
    fn growth_is_that_between_given_readings() {
        let readings = [
            example_reading(11, 1.0, 0.1, 10.0),
            example_reading(12, 2.0, 0.6, 30.0),
            example_reading(14, 2.5, 0.6, 20.0),
            example_reading(15, 2.5, 0.7, 20.0),
        ];
        let whole = runtime_metrics(readings.to_vec()).unwrap();
        let [a, b, c, d] = readings.each_ref();
        let own = whole.clone().with_growth_between(&[(a, b), (c, d)]);
        let is_near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
        assert!(is_near(own.between_s, 2.0) && is_near(own.per_second["gc_seconds_total"], 0.3));
        assert!(is_near(own.utilisation["event_loop"], 0.5), "{own:?}");
        assert_eq!((&own.highest, own.lacks_own_growth), (&whole.highest, false));
        let unknown = whole.clone().with_growth_between(&[]);
        assert!(unknown.per_second.is_empty() && unknown.utilisation.is_empty());
        assert_eq!((&unknown.highest, unknown.lacks_own_growth), (&whole.highest, true));
        let gauges = RuntimeMetrics { highest: whole.highest, ..RuntimeMetrics::default() };
        assert!(!gauges.with_growth_between(&[]).lacks_own_growth, "it has no counters");
    }

    #[test]
    fn runtime_metrics_require_two_valid_readings() {
        assert_eq!(runtime_metrics(Vec::new()), Err(NoRuntimeReason::NoReading));
        assert_eq!(
            runtime_metrics(vec![example_reading(12, 1.0, 0.0, 1.0)]),
            Err(NoRuntimeReason::TooFew)
        );
        let (n, total) =
            ("gc_cycles_total", |at, value| reading(at, 1, &[("gc_cycles_total", value)]));
        assert!(
            runtime_metrics(vec![total(12, 1.0), total(13, 2.0)])
                .unwrap()
                .per_second
                .contains_key(n)
        );
        assert_eq!(
            runtime_metrics(vec![total(12, 2.0), total(13, 1.0)]),
            Err(NoRuntimeReason::Restarted)
        );
        let other = reading(13, 2, &[(n, 3.0)]);
        assert_eq!(
            runtime_metrics(vec![total(12, 2.0), other]),
            Err(NoRuntimeReason::OtherProcesses)
        );
        // The first reading lacks the counter.
        assert_eq!(
            runtime_metrics(vec![reading(12, 1, &[]), total(13, 1.0)]),
            Err(NoRuntimeReason::Restarted)
        );
        // A counter of active work without its idle counterpart is an ordinary counter.
        let half = |at, value| reading(at, 1, &[("x_active_total", value)]);
        let metrics = runtime_metrics(vec![half(12, 1.0), half(13, 4.0)]).unwrap();
        assert_eq!((metrics.utilisation.len(), metrics.per_second["x_active_total"]), (0, 3.0));
    }
}
