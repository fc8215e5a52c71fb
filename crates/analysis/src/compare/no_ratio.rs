//! Why two sides have no ratio.

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
    /// Checks the repeats that would be compared: those of common blocks, or all.
    pub(super) fn from_series(a: &Series, b: &Series, is_paired: bool) -> NoRatioReason {
        let pairs: Vec<(RepeatValue, RepeatValue)> = a.paired_with(b).collect();
        let (of_a, of_b): (Vec<RepeatValue>, Vec<RepeatValue>) =
            match is_paired && !pairs.is_empty() {
                true => pairs.iter().copied().unzip(),
                false => (a.points().collect(), b.points().collect()),
            };
        if of_a.is_empty() || of_b.is_empty() {
            return NoRatioReason::NoRepeat { a: of_a.len(), b: of_b.len() };
        }
        let count = |is_it: fn(&RepeatValue) -> bool| {
            let both =
                [&of_a, &of_b].map(|points| points.iter().filter(|point| is_it(point)).count());
            (both != [0, 0]).then_some(both)
        };
        let is_zero =
            |point: &RepeatValue| matches!(point, RepeatValue::Known(value) if *value <= 0.0);
        if let Some([a, b]) = count(|point| *point == RepeatValue::Beyond) {
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

    /// In words.
    pub(super) fn sentence(self) -> String {
        let of = |a: usize, b: usize| format!("{a} of A and {b} of B");
        match self {
            NoRatioReason::NoRepeat { a: 0, b: 0 } => {
                "not compared: neither side has a valid repeat".into()
            }
            NoRatioReason::NoRepeat { a: 0, .. } => "not compared: A has no valid repeat".into(),
            NoRatioReason::NoRepeat { .. } => "not compared: B has no valid repeat".into(),
            NoRatioReason::Unanswered { a, b } => format!(
                "not compared: in some repeats ({}) it is among the requests without a correct \
                 response",
                of(a, b)
            ),
            NoRatioReason::NotMeasured { a, b } => {
                format!("not compared: it is unknown in some valid repeats ({})", of(a, b))
            }
            NoRatioReason::Waited => {
                "not compared: it includes the wait for servers that were loaded at the same time"
                    .into()
            }
            NoRatioReason::Zero { a, b } => {
                format!(
                    "not compared: it is 0 in some repeats ({}), and a ratio to 0 is undefined",
                    of(a, b)
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
