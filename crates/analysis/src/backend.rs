//! Computes the resources that the back ends of a subject use, and their share of a request's CPU
//! time. A back end is a service that the subject needs, such as a database.

use dyno_archive::StartRecord;
use dyno_archive::cpus::AllowedCpus;
use dyno_archive::plan::{Backend, Placement, Plan};
use dyno_archive::start::{LimitReadBack, PartStart};
use dyno_archive::{LoadRecord, Party};
use schemars::JsonSchema;
use serde::Serialize;

use crate::grid::Cell;
use crate::server::{self, ServerUse};
use crate::stats::Repeated;
use crate::subject::{BuildResult, StartupSummary, build_result, summarize_startup};
use crate::trial::TrialResult;

/// Resources that a back end used in one trial.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BackendUse {
    pub name: String,
    /// Share of the CPU time that a request cost the subject and its back ends together: 0 to 1.
    /// `null`: the CPU time of the subject or a back end is unknown.
    pub cpu_share: Option<f64>,
    /// Whether the back end has the same CPUs as the subject, and neither has a quota of CPU time.
    pub shares_cpus: bool,
    pub server: ServerUse,
}

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

/// Returns the resources that each back end used in a trial. `subject`: the subject's use.
pub(crate) fn trial_backends(
    plan: &Plan,
    start: Option<&StartRecord>,
    (trial, record): (usize, &LoadRecord),
    subject: &ServerUse,
) -> Vec<BackendUse> {
    let arm = &plan.arms[plan.trials[trial].arm];
    let subject_cpus = &arm.conditions.placement.subject;
    let parts = start.iter().flat_map(|start| &start.parts);
    let uses = parts.filter_map(|part| {
        let Party::Backend(index) = part.party else { return None };
        let planned = plan.backends.get(index)?;
        let cpus = cpus_of(planned, part);
        Some(BackendUse {
            name: part.name.clone(),
            cpu_share: None,
            shares_cpus: planned.cpus == *subject_cpus
                && planned.limits.cpus.is_none()
                && arm.conditions.limits.cpus.is_none(),
            server: server::server_use(record, part.party, &cpus),
        })
    });
    let mut backends: Vec<BackendUse> = uses.collect();
    let cpu_us = backends.iter().map(|b| &b.server).chain([subject]).map(|s| s.cpu_us_per_request);
    // If one part of the sum is unknown, all shares are unknown.
    let sum: Option<f64> = cpu_us.sum();
    for backend in &mut backends {
        let cpu_us = backend.server.cpu_us_per_request;
        backend.cpu_share =
            cpu_us.zip(sum.filter(|sum| *sum > 0.0)).map(|(cpu_us, sum)| cpu_us / sum);
    }
    backends
}

/// Returns the CPUs that a back end could use.
fn cpus_of(planned: &Backend, part: &PartStart) -> AllowedCpus {
    let placement = Placement { subject: planned.cpus.clone(), generator: Vec::new() };
    AllowedCpus::new(&part.limits, &placement, &planned.limits)
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
