//! Formats ratios of two subjects, with their intervals or ranges.

use dyno_analysis::baseline::{Comparison, PairEstimate};
use dyno_analysis::metric::MetricId;
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::peak::RatioBound;
use dyno_analysis::report::Report;
use dyno_analysis::round_decimals;
use dyno_analysis::stats::{PairUnit, Repeated, skew_sentence};

use crate::format::number;

/// Returns the ratio of throughput as an interval or range, and a description of this interval or
/// range. If the ratio is a bound, only the lower or the upper end is given.
pub(super) fn ratio_with_uncertainty(report: &Report, c: &Comparison) -> (String, String) {
    let (spread, scope) = match interval_of_all_pairs(c.throughput) {
        Some(interval) if report.run.at_every_look => {
            (Some(interval), "95 % interval that stays valid if the run stops early".to_string())
        }
        Some(interval) => (Some(interval), interval_text(report, c).to_string()),
        None => (c.ratio(MetricId::Throughput).spread(), ratio_range_text(report, c)),
    };
    let Some((low, high)) = spread else { return (String::new(), scope) };
    let is_point = low.total_cmp(&high).is_eq();
    let end_of = |end: &str| match is_point {
        true => scope.clone(),
        false => format!("{end} end of the {scope}"),
    };
    match c.throughput_bound {
        RatioBound::AtLeast => {
            (format!("at least {}", rounded_ratio(low, f64::floor)), end_of("lower"))
        }
        RatioBound::AtMost => {
            (format!("at most {}", rounded_ratio(high, f64::ceil)), end_of("upper"))
        }
        RatioBound::Exact | RatioBound::Unknown => (ends(low, high, ratio), scope),
    }
}

/// Formats `, with 0.39 (0.37–0.41) times the CPU per request`. The text is empty if the ratio is
/// unknown.
pub(super) fn cpu_clause(c: &Comparison) -> String {
    let Some(median) = c.ratio(MetricId::Cpu).median else { return String::new() };
    let (median, range) = match (c.cpu, interval_of_all_pairs(c.cpu)) {
        (Some(estimate), Some((low, high))) => {
            (estimate.estimate.ratio, Some(ends(low, high, ratio)))
        }
        _ => (median, range(c.ratio(MetricId::Cpu), ratio)),
    };
    let median = ratio(median);
    let range = range
        .filter(|range| *range != median)
        .map_or_else(String::new, |range| format!(" ({range})"));
    format!(", with {median}{range} times the CPU per request")
}

/// States which ratios of two subjects are skewed, so that their intervals are too narrow. Empty if
/// none is.
pub(super) fn skew_text(c: &Comparison) -> String {
    let estimates = [("throughput", c.throughput), ("CPU time per request", c.cpu)];
    let is_skewed = |pairs: PairEstimate| pairs.estimate.is_skewed;
    let skewed = estimates.into_iter().filter(|(_, pairs)| pairs.is_some_and(is_skewed));
    let names: Vec<&str> = skewed.map(|(name, _)| name).collect();
    if names.is_empty() { String::new() } else { format!(" {}", skew_sentence(&names)) }
}

/// Returns the interval that is corrected for all pairs of subjects, so that it agrees with ties.
/// `None`: too few launches.
fn interval_of_all_pairs(estimate: Option<PairEstimate>) -> Option<(f64, f64)> {
    estimate.filter(|pairs| pairs.unit == PairUnit::Launches)?.interval_of_all
}

/// Describes the interval of a ratio. With more than two subjects the interval is corrected.
fn interval_text(report: &Report, c: &Comparison) -> &'static str {
    let is_compared = |row: &&OverviewRow| {
        !row.control && row.workload == c.workload && row.highest_throughput().is_some()
    };
    let has_others = report.overview.iter().filter(is_compared).count() > 2;
    if has_others { "95 % interval, corrected for all pairs of subjects" } else { "95 % interval" }
}

/// Describes the range of a ratio that has no interval of the mean.
fn ratio_range_text(report: &Report, c: &Comparison) -> String {
    let repeats = c.ratio(MetricId::Throughput).values.len();
    let kind = if c.throughput_bound == RatioBound::Exact { "valid repeats" } else { "repeats" };
    match c.ratio(MetricId::Throughput).interval {
        // The interval of the median is not valid if the run may stop after every repeat.
        Some(_) if report.run.at_every_look => {
            format!(
                "interval of {repeats} repeats, not exactly 95 % because the results decided when \
                 the run stopped"
            )
        }
        Some(_) => "95 % interval".to_string(),
        None if repeats == 1 => "one repeat, so no interval".to_string(),
        None => format!("range of {repeats} {kind}, too few for an interval"),
    }
}

/// Formats a ratio with three significant digits, or more digits if it would otherwise read 1.
pub(super) fn ratio(r: f64) -> String {
    rounded_ratio(r, f64::round)
}

/// Formats a ratio as [`ratio`] does. `round`: `f64::floor` for a lower bound and `f64::ceil` for
/// an upper bound, so that the text is a bound, too.
pub(super) fn rounded_ratio(r: f64, round: impl Fn(f64) -> f64) -> String {
    const MAX_DECIMALS: i32 = 6;
    if !(r > 0.0 && r.is_finite()) {
        return number(r);
    }
    let rounded = |decimals: i32| round_decimals(r, decimals, &round);
    let min_decimals = (2 - r.log10().floor() as i32).max(0);
    // An exact comparison with 1 is correct, because the ratio of two equal counts is exactly 1.
    let reads_one = |decimals: &i32| rounded(*decimals).total_cmp(&1.0).is_eq();
    let is_one = r.total_cmp(&1.0).is_eq();
    // A ratio that is not 1 gets more decimals until it no longer reads 1.
    let decimals =
        (min_decimals..=MAX_DECIMALS).find(|d| is_one || !reads_one(d)).unwrap_or(min_decimals);
    format!("{:.*}", decimals as usize, rounded(decimals))
}

/// Formats the range of repeats: `2.1–2.3`, or one value if both ends read the same.
pub(super) fn range(q: &Repeated, show: impl Fn(f64) -> String) -> Option<String> {
    let (low, high) = q.spread()?;
    Some(ends(low, high, show))
}

/// Formats two ends: `2.1–2.3`, or one value if both read the same.
pub(super) fn ends(low: f64, high: f64, show: impl Fn(f64) -> String) -> String {
    let (low, high) = (show(low), show(high));
    if low == high { low } else { format!("{low}–{high}") }
}
