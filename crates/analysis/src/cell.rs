//! Identifies cells, and describes the load points of steps.
//!
//! A cell is an arm (a server under one set of conditions) with a workload at a step. Repeats of a
//! cell differ only by chance.

use std::collections::BTreeSet;

use dyno_model::plan::{Arrivals, Plan, Segment, Step, Trial};
use schemars::JsonSchema;
use serde::Serialize;

/// An arm with a workload at a step, by their indices in the plan. Each block has one trial of a
/// cell.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema,
)]
pub struct CellKey {
    /// Index among the plan's arms, and among the report's `subjects`.
    pub arm: usize,
    /// Index among the plan's workloads.
    pub workload: usize,
    /// Index among the plan's steps.
    pub step: usize,
}

impl CellKey {
    /// Returns the cell of a planned trial.
    #[must_use]
    pub const fn from_trial(trial: &Trial) -> CellKey {
        CellKey { arm: trial.arm, workload: trial.workload, step: trial.step }
    }

    /// Returns all planned cells, in order. Cells without trials are included, because all of their
    /// starts may have failed.
    #[must_use]
    pub fn planned(plan: &Plan) -> BTreeSet<CellKey> {
        plan.trials.iter().map(CellKey::from_trial).collect()
    }

    /// Returns the cell of another arm with the same workload at the same step.
    #[must_use]
    pub const fn with_arm(self, arm: usize) -> CellKey {
        CellKey { arm, ..self }
    }
}

/// Load point of a step: the numbers that distinguish the steps of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Shape {
    pub connections: u32,
    pub streams: u32,
    pub pipeline: u32,
    /// Requests per second offered; `None` in a closed loop, or if the rate changes.
    pub rate: Option<f64>,
    /// `None`: the rate does not change, or the loop is closed.
    pub schedule: Option<RateChange>,
    /// Number of the pass, counted from 1, which distinguishes otherwise equal steps.
    pub pass: u32,
}

/// An open loop whose rate changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RateChange {
    /// Rate at the beginning, requests per second; `None`: the start times come from a recording.
    pub from_rps: Option<f64>,
    /// Rate at the end, requests per second.
    pub to_rps: Option<f64>,
    /// Number of periods with a constant rate, or with a rate that changes evenly.
    pub stretches: usize,
}

impl RateChange {
    /// Describes the change of the rate; `None`: the rate does not change, or the loop is closed.
    fn from_arrivals(arrivals: &Arrivals) -> Option<RateChange> {
        match arrivals {
            Arrivals::Closed | Arrivals::Constant { .. } | Arrivals::Poisson { .. } => None,
            Arrivals::Shaped { segments, .. } => {
                // A first segment with a constant rate, at which the next segment begins, is the
                // warm-up. The warm-up is not one of the periods.
                let is_warmup = |pair: &[Segment; 2]| {
                    let [first, next] = pair;
                    first.from_rate == first.to_rate && first.to_rate == next.from_rate
                };
                let begins_warm = segments.first_chunk().is_some_and(is_warmup);
                Some(RateChange {
                    from_rps: segments.first().map(|first| first.from_rate),
                    to_rps: segments.last().map(|last| last.to_rate),
                    stretches: segments.len() - usize::from(begins_warm),
                })
            }
            Arrivals::Trace { .. } => {
                Some(RateChange { from_rps: None, to_rps: None, stretches: 0 })
            }
        }
    }

    /// Returns text such as `500–1,500/s`, `500…1,500/s in 3 stretches` or `recorded times`.
    #[must_use]
    pub fn label(self, number: impl Fn(f64) -> String) -> String {
        match (self.from_rps, self.to_rps, self.stretches) {
            (Some(from), Some(to), 1) => format!("{}–{}/s", number(from), number(to)),
            (Some(from), Some(to), n) => {
                format!("{}…{}/s in {n} stretches", number(from), number(to))
            }
            _ => "recorded times".into(),
        }
    }
}

impl Shape {
    /// Returns the load point of a step of a plan.
    #[must_use]
    pub fn from_step(step: &Step) -> Shape {
        Shape {
            connections: step.connections,
            streams: step.streams,
            pipeline: step.pipeline,
            rate: step.arrivals.rate(),
            schedule: RateChange::from_arrivals(&step.arrivals),
            pass: step.pass,
        }
    }

    /// Returns the load point of a closed loop in its first pass.
    #[must_use]
    pub const fn closed_loop(connections: u32, streams: u32, pipeline: u32) -> Shape {
        Shape { connections, streams, pipeline, rate: None, schedule: None, pass: 1 }
    }

    /// Returns the load point without its rate.
    #[must_use]
    pub const fn without_rate(self) -> Shape {
        Shape { rate: None, schedule: None, ..self }
    }

    /// Returns text such as ` at 1000/s` or ` at 500–1500/s`; empty in a closed loop.
    #[must_use]
    pub fn rate_text(self, number: impl Fn(f64) -> String) -> String {
        match (self.rate, self.schedule) {
            (Some(rate), _) => format!(" at {}/s", number(rate)),
            (None, Some(schedule)) => format!(" at {}", schedule.label(number)),
            (None, None) => String::new(),
        }
    }

    /// Returns text such as `64 connections`, `1 connection × 10 streams`, `8 connections × 4
    /// pipelined`.
    #[must_use]
    pub fn connections_text(self) -> String {
        let plural = if self.connections == 1 { "" } else { "s" };
        let factor_text =
            |n: u32, unit: &str| if n > 1 { format!(" × {n} {unit}") } else { String::new() };
        let (streams, pipeline) =
            (factor_text(self.streams, "streams"), factor_text(self.pipeline, "pipelined"));
        format!("{} connection{plural}{streams}{pipeline}", self.connections)
    }

    /// Returns text such as ` (2)`; empty in the first pass.
    #[must_use]
    pub fn pass_text(self) -> String {
        if self.pass > 1 { format!(" ({})", self.pass) } else { String::new() }
    }

    /// Describes the step within a sentence: `1 connection × 10 streams at 1000/s (2)`. `number`
    /// formats the rate.
    #[must_use]
    pub fn in_words(self, number: impl Fn(f64) -> String) -> String {
        format!("{}{}{}", self.connections_text(), self.rate_text(number), self.pass_text())
    }
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::Gaps;

    use super::*;

    #[test]
    fn warm_up_is_not_a_stretch() {
        let change = |segments: &[(f64, f64)]| {
            let segment =
                |&(from_rate, to_rate)| Segment { from_rate, to_rate, duration_ns: 1_000_000_000 };
            let segments = segments.iter().map(segment).collect();
            RateChange::from_arrivals(&Arrivals::Shaped { segments, gaps: Gaps::Even }).unwrap()
        };
        let label = |segments: &[(f64, f64)]| change(segments).label(|rate| format!("{rate}"));
        assert_eq!(label(&[(500.0, 1500.0)]), "500–1500/s");
        assert_eq!(label(&[(500.0, 500.0), (500.0, 1500.0)]), "500–1500/s");
        assert_eq!(label(&[(500.0, 500.0), (1500.0, 1500.0)]), "500…1500/s in 2 stretches");
        assert_eq!(
            label(&[(500.0, 500.0), (500.0, 500.0), (1500.0, 1500.0)]),
            "500…1500/s in 2 stretches"
        );
        assert_eq!(RateChange::from_arrivals(&Arrivals::Constant { rate: 5.0 }), None);
    }

    #[test]
    fn step_in_words_omits_factors_of_one() {
        let text = |connections, streams, pipeline, rate, pass| {
            let shape = Shape { connections, streams, pipeline, rate, schedule: None, pass };
            shape.in_words(|rate| format!("{rate}"))
        };
        assert_eq!(text(1, 1, 1, None, 1), "1 connection");
        assert_eq!(text(64, 10, 1, Some(1000.0), 2), "64 connections × 10 streams at 1000/s (2)");
        assert_eq!(text(8, 1, 4, None, 1), "8 connections × 4 pipelined");
    }
}
