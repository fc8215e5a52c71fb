//! Writes the two text formats of HdrHistogram, for its plotters and log analysers.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dyno_model::{Interval, Phase, Times};

/// Lines of the distribution per halving of the distance to 100 %: the default of HdrHistogram's
/// implementations.
const TICKS_PER_HALF: u32 = 5;

/// Writes a percentile distribution in milliseconds (`.hgrm`) of all intended requests. `times`:
/// response times of correct responses, ns. `missing`: number of requests without a correct
/// response. Such requests rank above every correct response, so the distribution ends below 100 %.
#[must_use]
pub fn hgrm(times: &Times, missing: u64) -> String {
    let ms = |ns: f64| ns / 1e6;
    let mut out = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let total = times.count() + missing;
    let mut counted = 0;
    let mut quantile = 0.0;
    for (value, n) in times.values() {
        counted += n;
        let share = counted as f64 / total as f64;
        // One line at each tick that this value reaches.
        while quantile <= share {
            let count = counted;
            let reciprocal = if quantile < 1.0 {
                format!("{:>14.2}", 1.0 / (1.0 - quantile))
            } else {
                String::new()
            };
            let _ = writeln!(
                out,
                "{:>12.3} {quantile:>14.12} {count:>10} {reciprocal}",
                ms(value as f64)
            );
            if quantile >= 1.0 {
                break;
            }
            // Ticks finer than one request would only repeat the maximum, so 100 % follows.
            quantile = if counted == total && 1.0 / (1.0 - quantile) > total as f64 {
                1.0
            } else {
                next_quantile(quantile)
            };
        }
    }
    // Without a correct response the value is unknown. A 0 would look like a measured time.
    let stat = |value: Option<f64>| value.map_or(f64::NAN, ms);
    let _ = writeln!(
        out,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]",
        stat(times.mean()),
        stat(times.stdev())
    );
    let _ = writeln!(
        out,
        "#[Max     = {:>12.3}, Total count    = {total:>12}]",
        stat(times.max().map(|ns| ns as f64))
    );
    if missing > 0 {
        let _ = writeln!(
            out,
            "#[Unanswered = {missing:>12}, part of Total count, slower than all values]"
        );
    }
    let _ = writeln!(out, "#[Buckets = {:>12}, SubBuckets     = {:>12}]", 32, 2048);
    out
}

/// Returns the next tick of the distribution. Ticks are twice as dense after each halving.
fn next_quantile(quantile: f64) -> f64 {
    let halvings = (1.0 / (1.0 - quantile)).log2().floor() + 1.0;
    let ticks = f64::from(TICKS_PER_HALF) * halvings.exp2();
    quantile + 1.0 / ticks
}

/// Writes the response times of correct responses in each interval (`.hlog`, format 1.3). Starts
/// are in seconds since the load began, maxima in milliseconds, and histograms in nanoseconds.
/// `missing` is the number of requests without a correct response. A comment states this number,
/// because the format has no field for it. `began_unix_s` is the start of the load, in seconds
/// since the epoch. Intervals of the warm-up are tagged.
#[must_use]
pub fn hlog(intervals: &[Interval], missing: u64, began_unix_s: f64) -> String {
    let mut out = String::from(
        "#[Response times in nanoseconds, written by dyno]\n#[Histogram log format version 1.3]\n",
    );
    if missing > 0 {
        let _ = writeln!(
            out,
            "#[Not in the histograms: {missing} requests without a correct response]"
        );
    }
    let _ = writeln!(out, "#[StartTime: {began_unix_s:.3} (seconds since epoch)]");
    let _ = writeln!(out, "#[BaseTime: {began_unix_s:.3} (seconds since epoch)]");
    out.push_str(
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
         \"Interval_Compressed_Histogram\"\n",
    );
    // An interval without a correct response has a line, too, because plotters would otherwise join
    // the lines before and after it. Only empty intervals of the drain are omitted.
    for interval in
        intervals.iter().filter(|i| i.phase != Phase::Drain || !i.times.response.is_empty())
    {
        let tag = if interval.phase == Phase::Warmup { "Tag=warmup," } else { "" };
        let times = &interval.times.response;
        let _ = writeln!(
            out,
            "{tag}{:.3},{:.3},{:.3},{}",
            interval.start_ns as f64 / 1e9,
            (interval.end_ns - interval.start_ns) as f64 / 1e9,
            times.max().unwrap_or(0) as f64 / 1e6,
            STANDARD.encode(times.to_v2_deflate())
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_model::times::Recording;

    fn times(values: impl IntoIterator<Item = u64>) -> Times {
        let mut recording = Recording::new();
        values.into_iter().for_each(|v| recording.record(v));
        recording.seal()
    }

    #[test]
    fn hgrm_of_uniform_times_has_median_and_ends_at_one() {
        let text = hgrm(&times((1..=1000).map(|i| i * 1_000_000)), 0);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .take_while(|l| !l.starts_with('#'))
            .map(|l| l.split_ascii_whitespace().map(|w| w.parse().unwrap()).collect())
            .collect();
        assert_eq!(rows[0][1..3], [0.0, 1.0]);
        let median = rows.iter().find(|r| (r[1] - 0.5).abs() < 1e-9).unwrap();
        assert!((median[0] - 500.0).abs() < 0.5 && (median[2] - 500.0).abs() <= 1.0, "{median:?}");
        let last = rows.last().unwrap();
        assert_eq!((last.len(), last[1], last[2]), (3, 1.0, 1000.0));
        assert!(rows.is_sorted_by(|a, b| a[1] < b[1] && a[2] <= b[2]));
        assert!(text.contains("Total count    =         1000]"), "{text}");
        assert!(hgrm(&Times::new(), 0).contains("Total count    =            0]"));
    }

    #[test]
    fn hgrm_with_unanswered_ends_below_one() {
        let text = hgrm(&times((1..=900).map(|i| i * 1_000_000)), 100);
        let quantiles: Vec<f64> = text
            .lines()
            .skip(2)
            .take_while(|l| !l.starts_with('#'))
            .map(|l| l.split_ascii_whitespace().nth(1).unwrap().parse().unwrap())
            .collect();
        assert!(
            quantiles.iter().all(|q| *q <= 0.9) && *quantiles.last().unwrap() > 0.88,
            "{quantiles:?}"
        );
        assert!(text.contains("#[Unanswered =          100"), "{text}");
        let log = hlog(&[], 100, 0.0);
        assert!(log.contains("Not in the histograms: 100 requests"), "{log}");
    }

    #[test]
    fn hlog_has_one_line_per_interval() {
        let mut interval = Interval::new(Phase::Measured, 1_000_000_000, 2_000_000_000);
        interval.times.response = times([1_000_000, 3_000_000]);
        let warmup = Interval { phase: Phase::Warmup, ..interval.clone() };
        let outage = Interval::new(Phase::Measured, 2_000_000_000, 3_000_000_000);
        let drain = Interval::new(Phase::Drain, 3_000_000_000, 3_000_000_001);
        let text = hlog(&[warmup, interval.clone(), outage, drain], 0, 1.7e9);
        let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[3].starts_with("2.000,1.000,0.000,"), "{}", lines[3]);
        assert!(lines[1].starts_with("Tag=warmup,1.000,1.000,3.00"), "{}", lines[1]);
        let encoded = lines[2].split(',').next_back().unwrap();
        let decoded: Times = serde_json::from_value(encoded.into()).unwrap();
        assert_eq!(decoded, interval.times.response);
    }
}
