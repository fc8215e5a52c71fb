//! Returns the capacities that a run measured before the run whose rates are shares of them.

use dyno_model::plan::{MeasuredFirst, Trial};
use dyno_model::run::Run;

use super::slowest::{
    MissingCapacity, MissingCause, capacity_failures, missing_capacities, slowest_subjects,
};
use crate::report::Report;

/// Why a capacity is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCapacity {
    /// The problem, as a sentence without its full stop.
    pub message: String,
    /// What to do. `None`: the reasons in the report show it.
    pub remedy: Option<String>,
}

/// Returns the capacities of which a suite's rates are these shares. `run`: the run that measured
/// the capacities.
///
/// # Errors
/// A subject has no capacity, and may be the slowest one. A subject that failed in some repeats
/// only is no error, and is listed in `failures`.
pub fn measured_first(
    run: &Run,
    report: &Report,
    shares: Vec<f64>,
) -> Result<MeasuredFirst, UnknownCapacity> {
    let plan = &run.header.plan;
    let missing = missing_capacities(plan, report);
    // One cause is reported at a time, because each has a different remedy.
    if let Some(reported) = missing.iter().min_by_key(|missing| missing.cause) {
        return Err(unknown_capacity(reported, &missing));
    }
    let capacities = slowest_subjects(plan, report);
    let is_closed = |trial: &&Trial| plan.load.steps[trial.step].arrivals.is_closed();
    let has_capacity = |trial: &Trial| {
        capacities.iter().any(|c| c.workload == plan.workloads[trial.workload].name)
    };
    if let Some(unknown) = plan.trials.iter().filter(is_closed).find(|trial| !has_capacity(trial)) {
        let message = format!(
            "workload {:?}: the rates are shares of a capacity, which is unknown because no \
             closed-loop step is valid",
            plan.workloads[unknown.workload].name
        );
        return Err(UnknownCapacity { message, remedy: None });
    }
    let failures = capacity_failures(plan, report);
    Ok(MeasuredFirst { run: run.header.id.clone(), shares, capacities, failures })
}

/// Describes a missing capacity, and the subjects whose capacity is missing for the same cause.
fn unknown_capacity(reported: &MissingCapacity, missing: &[MissingCapacity]) -> UnknownCapacity {
    let MissingCapacity { workload, subject, reason, cause } = reported;
    let is_similar = |other: &&MissingCapacity| other.cause == *cause;
    let mut others: Vec<&str> =
        missing.iter().filter(is_similar).map(|m| m.subject.as_str()).collect();
    others.retain(|other| other != subject);
    others.dedup();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!(". Also unknown: {}", others.join(", ")),
    };
    let reason = reason.lines().next().unwrap_or_default().trim_end_matches('.');
    let (problem, remedy) = match cause {
        MissingCause::GeneratorLimit => (
            "the generator was the limit",
            "give the generator more CPUs: leave fewer CPUs to the servers (`cpuset` under \
             `[limits]`)",
        ),
        MissingCause::NoValidStep => {
            ("the subject has no valid closed-loop step", "fix the subject")
        }
        MissingCause::Excluded => ("the subject has too few valid repeats", "run the suite again"),
    };
    UnknownCapacity {
        message: format!(
            "workload {workload:?}: the rates are shares of the capacity of {subject}, which is \
             unknown: {problem} ({reason}){others}"
        ),
        remedy: Some(format!("{remedy}, or exclude {subject} with --only")),
    }
}
