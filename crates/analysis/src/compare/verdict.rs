//! Decides the verdict on a row of a comparison, and writes the verdict as a sentence.

use schemars::JsonSchema;
use serde::Serialize;

use super::{ComparisonRow, NoRatioReason, RunDifference};
use crate::number_format::{change, exact_percent, percent};
use crate::stats::{ALPHA, Estimate, PairUnit, skew_clause};

/// Verdict on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// `b` has the higher value.
    Higher,
    /// `b` has the lower value.
    Lower,
    /// The interval lies within the requested margin (`--same-within`).
    Same,
    /// Neither a difference nor equality is shown.
    NotShown,
    /// Too few repeats for an interval.
    TooFew,
    /// No ratio: a side has no valid repeat, or a repeat has no value that can be compared.
    Missing,
}

impl Verdict {
    /// Decides the verdict of a row.
    pub(super) fn from_row(row: &ComparisonRow, same_within: Option<f64>) -> Verdict {
        let Some(estimate) = row.estimate else {
            let is_few = matches!(row.no_ratio_reason, Some(NoRatioReason::TooFew { .. }));
            return if is_few { Verdict::TooFew } else { Verdict::Missing };
        };
        // An estimate over rounds of turns does not show how much other starts would differ.
        if row.unit == Some(PairUnit::Rounds) {
            return Verdict::TooFew;
        }
        // Within the margin, two sides are the same even if they differ significantly.
        if same_within.is_some_and(|margin| is_within(&estimate, margin)) {
            return Verdict::Same;
        }
        match row.adjusted_p.is_some_and(|p| p < ALPHA) {
            true if estimate.ratio > 1.0 => Verdict::Higher,
            true => Verdict::Lower,
            false => Verdict::NotShown,
        }
    }
}

/// Whether the whole interval lies within a margin around 1.
fn is_within(estimate: &Estimate, margin: f64) -> bool {
    estimate.low >= 1.0 / (1.0 + margin) && estimate.high <= 1.0 + margin
}

/// Returns the verdict of a row as a sentence, with all reasons to doubt it.
pub(super) fn sentence(
    row: &ComparisonRow,
    same_within: Option<f64>,
    differences: &[RunDifference],
) -> String {
    let text = with_differences(verdict_text(row, same_within), differences);
    if row.is_skewed() { append(&text, &skew_clause(&[])) } else { text }
}

/// Returns the verdict of a row in words.
fn verdict_text(row: &ComparisonRow, same_within: Option<f64>) -> String {
    match (row.verdict, row.estimate) {
        (Verdict::Higher, Some(e)) => format!("{} higher", range(e.low - 1.0, e.high - 1.0)),
        (Verdict::Lower, Some(e)) => format!("{} lower", range(1.0 - e.high, 1.0 - e.low)),
        (Verdict::Same, _) => {
            format!(
                "the same within {}",
                exact_percent(same_within.expect("a verdict `same` should have a margin"))
            )
        }
        // Significant as a single test, but not after the correction for the tests of all rows.
        (Verdict::NotShown, Some(e)) if e.p < ALPHA => {
            "no difference shown: in so many comparisons, a difference like this may be chance"
                .into()
        }
        (Verdict::NotShown, Some(e)) => match e.detectable {
            // Without variance, any difference is detectable.
            Some(1.0) => "no difference shown: all repeats have the same value".into(),
            Some(ratio) => {
                format!(
                    "no difference shown: a difference of {} would have been found",
                    change(ratio)
                )
            }
            None => "no difference shown: too few repeats to find a difference".into(),
        },
        // An estimate over rounds of turns. There are too few starts of each server for a verdict.
        (_, Some(e)) => {
            let (a, b) = (row.a.values.len(), row.b.values.len());
            let too_few = NoRatioReason::TooFew { a, b, pairs: None }.sentence();
            format!("{} in these starts; {too_few}", range_text(&e))
        }
        (_, None) => {
            row.no_ratio_reason.expect("a missing estimate should have a reason").sentence()
        }
    }
}

impl ComparisonRow {
    /// Whether the interval of the ratio is correct less often than stated.
    pub(super) fn is_skewed(&self) -> bool {
        self.estimate.is_some_and(|estimate| estimate.is_skewed)
    }
}

/// Appends another statement to a sentence.
pub(super) fn append(sentence: &str, statement: &str) -> String {
    format!("{}; {statement}", sentence.trim_end_matches('.'))
}

/// Appends the names of unintended differences between the sides to a sentence.
pub(super) fn with_differences(text: String, differences: &[RunDifference]) -> String {
    if differences.is_empty() {
        return text;
    }
    let names: Vec<&str> = differences.iter().map(|difference| &*difference.name).collect();
    format!("{}, though the sides also differ in {}", text.trim_end_matches('.'), names.join(", "))
}

/// For each metric of an answer: its key, phrases for a higher and a lower value, and its name.
const ANSWER_PHRASES: [(&str, &str, &str, &str); 5] = [
    ("throughput_rps", "{} more throughput", "{} less throughput", "throughput"),
    (
        "server_cpu_us_per_request",
        "{} more CPU time per request",
        "{} less CPU time per request",
        "CPU time per request",
    ),
    (
        "response_p50_us",
        "median response time {} longer",
        "median response time {} shorter",
        "median response time",
    ),
    (
        "response_p99_us",
        "response time at p99 {} longer",
        "response time at p99 {} shorter",
        "response time at p99",
    ),
    ("server_memory_bytes", "{} more memory", "{} less memory", "memory"),
];

/// Summarizes the rows of one cell, with all reasons to doubt the summary.
pub(super) fn answer(
    rows: &[ComparisonRow],
    same_within: Option<f64>,
    differences: &[RunDifference],
) -> String {
    let name = |row: &ComparisonRow| answer_phrases(row).map(|(.., name)| name);
    let skewed = rows.iter().filter(|row| row.is_skewed()).filter_map(name);
    let skewed: Vec<&str> = skewed.collect();
    let text = with_differences(answer_text(rows, same_within), differences);
    if skewed.is_empty() { text } else { append(&text, &skew_clause(&skewed)) }
}

/// Returns the entry of a row's metric in [`ANSWER_PHRASES`]; `None`: answers omit the metric.
fn answer_phrases(
    row: &ComparisonRow,
) -> Option<(&'static str, &'static str, &'static str, &'static str)> {
    ANSWER_PHRASES.iter().find(|(key, ..)| *key == row.metric).copied()
}

/// Summarizes the rows of one cell: first differences, then equal metrics, then undecided metrics,
/// and last metrics without a ratio.
fn answer_text(rows: &[ComparisonRow], same_within: Option<f64>) -> String {
    const DIFFERENT: u8 = 0;
    const SAME: u8 = 1;
    const UNDECIDED: u8 = 2;
    const NOT_COMPARED: u8 = 3;
    let phrase = |row: &ComparisonRow| {
        let (_, higher, lower, name) = answer_phrases(row)?;
        let Some(estimate) = row.estimate else {
            let is_measured = !row.a.values.is_empty() || !row.b.values.is_empty();
            return is_measured.then(|| (NOT_COMPARED, format!("{name}: not compared")));
        };
        Some(match row.verdict {
            Verdict::Higher => {
                (DIFFERENT, higher.replace("{}", &range(estimate.low - 1.0, estimate.high - 1.0)))
            }
            Verdict::Lower => {
                (DIFFERENT, lower.replace("{}", &range(1.0 - estimate.high, 1.0 - estimate.low)))
            }
            Verdict::Same => (
                SAME,
                format!(
                    "{name} the same within {}",
                    exact_percent(same_within.expect("a verdict `same` should have a margin"))
                ),
            ),
            _ => (UNDECIDED, format!("{name}: {}", verdict_text(row, same_within))),
        })
    };
    let mut ranked_phrases: Vec<(u8, String)> = rows.iter().filter_map(phrase).collect();
    ranked_phrases.sort_by_key(|(rank, _)| *rank);
    if ranked_phrases.iter().all(|(rank, _)| *rank == NOT_COMPARED) {
        return rows.first().map_or_else(String::new, |row| verdict_text(row, same_within));
    }
    ranked_phrases.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("; ")
}

/// Formats an interval: `4.0–6.1 % higher`, `4.0–6.1 % lower`, or `−1.0 % to +2.0 %` if it includes
/// 1.
fn range_text(e: &Estimate) -> String {
    if e.low > 1.0 {
        return format!("{} higher", range(e.low - 1.0, e.high - 1.0));
    }
    if e.high < 1.0 {
        return format!("{} lower", range(1.0 - e.high, 1.0 - e.low));
    }
    format!("−{} to +{}", percent(1.0 - e.low), percent(e.high - 1.0))
}

/// Formats two shares: `4.0–6.1 %`.
fn range(low: f64, high: f64) -> String {
    let (low, high) = (percent(low), percent(high));
    if low == high { low } else { format!("{}–{high}", low.trim_end_matches(" %")) }
}
