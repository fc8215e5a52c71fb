//! The cell (arm × workload × step), and the numbers that distinguish its step from others.

use std::collections::BTreeSet;

use dyno_archive::plan::{Plan, Step, Trial};
use schemars::JsonSchema;
use serde::Serialize;

/// An arm with a workload at a step, by their indices in the plan. Trials of one cell differ only
/// by block.
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
    /// The cell of a planned trial.
    #[must_use]
    pub const fn from_trial(trial: &Trial) -> CellKey {
        CellKey { arm: trial.arm, workload: trial.workload, step: trial.step }
    }

    /// Returns the cells of a plan, in order. A cell whose starts all failed has no trials.
    #[must_use]
    pub fn planned(plan: &Plan) -> BTreeSet<CellKey> {
        plan.trials.iter().map(CellKey::from_trial).collect()
    }

    /// The cell of another arm with the same workload at the same step.
    #[must_use]
    pub const fn with_arm(self, arm: usize) -> CellKey {
        CellKey { arm, ..self }
    }
}

/// Numbers that distinguish one step of a workload from another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Shape {
    pub connections: u32,
    pub streams: u32,
    pub pipeline: u32,
    /// Requests per second offered; `None` in a closed loop, or if the rate changes.
    pub rate: Option<f64>,
    /// Number of the pass, counted from 1, which distinguishes otherwise equal steps.
    pub pass: u32,
}

impl Shape {
    pub(crate) fn from_step(step: &Step) -> Shape {
        Shape {
            connections: step.connections,
            streams: step.streams,
            pipeline: step.pipeline,
            rate: step.arrivals.rate(),
            pass: step.pass,
        }
    }

    /// Returns text such as `64 connections`, `1 connection × 10 streams at 1000/s`.
    pub(crate) fn in_words(self) -> String {
        let plural = if self.connections == 1 { "" } else { "s" };
        let times =
            |n: u32, what: &str| if n > 1 { format!(" × {n} {what}") } else { String::new() };
        let rate = self.rate.map_or(String::new(), |rate| format!(" at {rate:.0}/s"));
        let pass = if self.pass > 1 { format!(" ({})", self.pass) } else { String::new() };
        let (streams, pipeline) =
            (times(self.streams, "streams"), times(self.pipeline, "pipelined"));
        format!("{} connection{plural}{streams}{pipeline}{rate}{pass}", self.connections)
    }
}
