//! Finds the reason why there is no ratio of two sides, so that the report can state it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::series::{RepeatValue, Series};
use crate::stats::REPEATS_FOR_INTERVAL;

/// Why there is no estimate of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "why", rename_all = "snake_case")]
#[schemars(rename = "Lack")]
pub enum NoRatioReason {
    /// At least one side has no valid repeat. `a`, `b`: number of valid repeats of each side.
    NoRepeat { a: usize, b: usize },
    /// In some repeats the percentile lies among requests without a correct response. `a`, `b`:
    /// number of such repeats of each side.
    Unanswered { a: usize, b: usize },
    /// Some repeats have no value. `a`, `b`: number of such repeats of each side.
    NotMeasured { a: usize, b: usize },
    /// Some repeats have the value 0 or less, so a ratio is undefined. `a`, `b`: number of such
    /// repeats of each side.
    Zero { a: usize, b: usize },
    /// The servers were loaded at the same time, and the metric includes the time for which they
    /// waited for each other.
    Waited,
    /// All repeats have values, but there are too few repeats or pairs of repeats. `a`, `b`: number
    /// of known values of each side. `pairs`: number of blocks that both sides have; `None`: the
    /// repeats are not paired.
    TooFew { a: usize, b: usize, pairs: Option<usize> },
}

impl NoRatioReason {
    /// Finds the reason in the repeats that would be compared. If repeats are paired, these are the
    /// repeats of blocks that both sides have. If they are not paired, or no block is common, all
    /// repeats are used.
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

    /// Returns the reason as a sentence.
    pub(super) fn sentence(self) -> String {
        let counts = |a: usize, b: usize| format!("{a} of A and {b} of B");
        match self {
            NoRatioReason::NoRepeat { a: 0, b: 0 } => {
                "not compared: neither A nor B has a valid repeat".into()
            }
            NoRatioReason::NoRepeat { a: 0, .. } => "not compared: A has no valid repeat".into(),
            NoRatioReason::NoRepeat { .. } => "not compared: B has no valid repeat".into(),
            NoRatioReason::Unanswered { a, b } => format!(
                "not compared: in some repeats ({}) this percentile has no value, because too many \
                 requests got no correct response",
                counts(a, b)
            ),
            NoRatioReason::NotMeasured { a, b } => {
                format!(
                    "not compared: the value is unknown in some valid repeats ({})",
                    counts(a, b)
                )
            }
            NoRatioReason::Waited => "not compared: the servers were loaded at the same time, and \
                                      this metric includes the time in which one server waited \
                                      for the other"
                .into(),
            NoRatioReason::Zero { a, b } => {
                format!(
                    "not compared: the value is 0 in some repeats ({}), so there is no ratio",
                    counts(a, b)
                )
            }
            NoRatioReason::TooFew { pairs: Some(pairs), a, b } if pairs < a.min(b) => format!(
                "too few pairs of repeats (only {pairs} pairs in {a} and {b} repeats): a verdict \
                 needs {REPEATS_FOR_INTERVAL} pairs of valid repeats"
            ),
            NoRatioReason::TooFew { a, b, .. } => {
                format!(
                    "too few repeats ({a} and {b}): a verdict needs {REPEATS_FOR_INTERVAL} of each \
                     side"
                )
            }
        }
    }
}
