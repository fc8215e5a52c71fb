//! Computes the resources that the back ends of a subject used in one trial, and their share of a
//! request's CPU time.

use dyno_model::StartRecord;
use dyno_model::cpus::AllowedCpus;
use dyno_model::plan::{Backend, Placement, Plan};
use dyno_model::start::PartStart;
use dyno_model::{LoadRecord, Party, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::server::{self, ServerUse};
use crate::turns;

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

/// Returns the resources that each back end used in the counted part of a trial's load. `subject`:
/// the subject's use.
pub(crate) fn trial_backends(
    plan: &Plan,
    start: Option<&StartRecord>,
    (trial, counted): (&TrialRecord, &LoadRecord),
    subject: &ServerUse,
) -> Vec<BackendUse> {
    let arm = &plan.arms[plan.trials[trial.trial].arm];
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
            server: turns::with_own_rates(
                server::server_use(counted, part.party, &cpus),
                (&trial.load, part.party),
                &cpus,
            ),
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
