//! Finds the reason why two sides have no ratio, so that the report can name it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::series::{RepeatValue, Series};
use crate::stats::REPEATS_FOR_INTERVAL;

/// Why there is no estimate of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "why", rename_all = "snake_case")]
#[schemars(rename = "Lack")]
pub enum NoRatioReason {
    /// No repeat of one side counts.
    NoRepeat { a: usize, b: usize },
    /// In some repeats the percentile lies among the requests that got no response.
    Unanswered { a: usize, b: usize },
    /// Some repeats have no value.
    NotMeasured { a: usize, b: usize },
    /// Some repeats have 0, or less: there is no ratio.
    Zero { a: usize, b: usize },
    /// The metric includes the time that servers loaded at the same time waited for each other.
    Waited,
    /// All have values; the repeats, or the pairs of them, are too few.
    TooFew { a: usize, b: usize, pairs: Option<usize> },
}

impl NoRatioReason {
    /// Finds the reason among the repeats that would be compared: the repeats of common blocks, or
    /// all.
    pub(super) fn from_series(a: &Series, b: &Series, is_paired: bool) -> NoRatioReason {
        let pairs: Vec<(RepeatValue, RepeatValue)> = a.paired_with(b).collect();
        let (values_a, values_b): (Vec<RepeatValue>, Vec<RepeatValue>) =
            match is_paired && !pairs.is_empty() {
                true => pairs.iter().copied().unzip(),
                false => (a.points().collect(), b.points().collect()),
            };
        if values_a.is_empty() || values_b.is_empty() {
            return NoRatioReason::NoRepeat { a: values_a.len(), b: values_b.len() };
        }
        let count = |has_kind: fn(&RepeatValue) -> bool| {
            let both = [&values_a, &values_b]
                .map(|points| points.iter().filter(|point| has_kind(point)).count());
            (both != [0, 0]).then_some(both)
        };
        let is_zero =
            |point: &RepeatValue| matches!(point, RepeatValue::Known(value) if *value <= 0.0);
        if let Some([a, b]) = count(|point| *point == RepeatValue::Unanswered) {
            NoRatioReason::Unanswered { a, b }
        } else if let Some([a, b]) = count(|point| *point == RepeatValue::Missing) {
            NoRatioReason::NotMeasured { a, b }
        } else if let Some([a, b]) = count(is_zero) {
            NoRatioReason::Zero { a, b }
        } else {
            NoRatioReason::TooFew {
                a: a.known_count(),
                b: b.known_count(),
                pairs: is_paired.then_some(pairs.len()),
            }
        }
    }

    /// Describes the reason.
    pub(super) fn sentence(self) -> String {
        let counts = |a: usize, b: usize| format!("{a} of A and {b} of B");
        match self {
            NoRatioReason::NoRepeat { a: 0, b: 0 } => {
                "not compared: neither side has a valid repeat".into()
            }
            NoRatioReason::NoRepeat { a: 0, .. } => "not compared: A has no valid repeat".into(),
            NoRatioReason::NoRepeat { .. } => "not compared: B has no valid repeat".into(),
            NoRatioReason::Unanswered { a, b } => format!(
                "not compared: in some repeats ({}) it is among the requests without a correct \
                 response",
                counts(a, b)
            ),
            NoRatioReason::NotMeasured { a, b } => {
                format!("not compared: it is unknown in some valid repeats ({})", counts(a, b))
            }
            NoRatioReason::Waited => {
                "not compared: it includes the wait for servers that were loaded at the same time"
                    .into()
            }
            NoRatioReason::Zero { a, b } => {
                format!(
                    "not compared: it is 0 in some repeats ({}), and a ratio to 0 is undefined",
                    counts(a, b)
                )
            }
            NoRatioReason::TooFew { pairs: Some(pairs), a, b } if pairs < a.min(b) => format!(
                "too few pairs of repeats ({pairs}, of {a} and {b} repeats): a verdict needs \
                 {REPEATS_FOR_INTERVAL} blocks in which both are valid"
            ),
            NoRatioReason::TooFew { a, b, .. } => {
                format!(
                    "too few repeats ({a} and {b}): a verdict needs {REPEATS_FOR_INTERVAL} of each"
                )
            }
        }
    }
}
