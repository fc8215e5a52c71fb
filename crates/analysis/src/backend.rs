//! Summarizes the back ends of a subject over its trials and starts. A back end is a service that
//! the subject needs, such as a database.

use dyno_model::plan::Plan;
use dyno_model::start::{LimitReadBack, PartStart};
use dyno_model::{Party, StartRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::backend_use::BackendUse;
use crate::grid::Cell;
use crate::startup::{BuildResult, StartupSummary, build_result, summarize_startup};
use crate::stats::Repeated;
use crate::trial::TrialResult;

/// Resources that a back end used, over the valid repeats of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BackendSummary {
    pub name: String,
    /// CPU time per response of the subject.
    pub cpu_us_per_request: Repeated,
    pub cpu_share: Repeated,
    pub cpu_utilisation: Repeated,
    /// Anonymous memory (resident if only that is known), highest sample of the window.
    pub memory_bytes: Repeated,
}

/// A back end of a subject, over all of its starts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BackendResult {
    pub name: String,
    pub title: String,
    pub version: Option<String>,
    pub build: Option<BuildResult>,
    pub startup_ms: StartupSummary,
    /// Time to load the back end's data.
    pub seeded_ms: Repeated,
    pub stop_ms: Repeated,
    /// Limits as read back in the back end's first start.
    pub limits: Vec<LimitReadBack>,
}

/// Summarizes the back ends of a cell over its valid trials.
pub(crate) fn cell_backends(cell: &Cell<'_>) -> Vec<BackendSummary> {
    let Some(first) = cell.trials().first() else { return Vec::new() };
    let summary_of = |backend: &BackendUse| summary(cell, &backend.name);
    first.backends.iter().map(summary_of).collect()
}

/// Summarizes one back end over the valid trials of a cell.
fn summary(cell: &Cell<'_>, name: &str) -> BackendSummary {
    let repeated = |pick: fn(&BackendUse) -> Option<f64>| {
        let trial_value =
            |t: &TrialResult| t.backends.iter().find(|backend| backend.name == name).and_then(pick);
        Repeated::new(cell.valid().filter_map(trial_value).collect())
    };
    BackendSummary {
        name: name.into(),
        cpu_us_per_request: repeated(|b| b.server.cpu_us_per_request),
        cpu_share: repeated(|b| b.cpu_share),
        cpu_utilisation: repeated(|b| b.server.cpu_utilisation),
        memory_bytes: repeated(|b| b.server.memory_held_bytes.map(|bytes| bytes as f64)),
    }
}

/// Returns the back ends of an arm, over all of its starts.
pub(crate) fn arm_backends(plan: &Plan, arm: usize, starts: &[&StartRecord]) -> Vec<BackendResult> {
    let result = |index: &usize| {
        let planned = &plan.backends[*index];
        let parts: Vec<&PartStart> =
            starts.iter().filter_map(|s| s.part(Party::Backend(*index))).collect();
        let ms = |pick: fn(&PartStart) -> Option<u64>| {
            Repeated::new(
                parts.iter().filter_map(|part| pick(part)).map(|ns| ns as f64 / 1e6).collect(),
            )
        };
        BackendResult {
            name: planned.name.clone(),
            title: planned.title.clone(),
            version: planned.version.clone(),
            build: planned.build.as_ref().map(build_result),
            startup_ms: summarize_startup(&parts),
            seeded_ms: ms(|part| part.seeded_ns),
            stop_ms: ms(|part| part.stop.map(|stop| stop.took_ns)),
            limits: parts.first().map(|part| part.limits.clone()).unwrap_or_default(),
        }
    };
    plan.arms[arm].backends.iter().map(result).collect()
}
