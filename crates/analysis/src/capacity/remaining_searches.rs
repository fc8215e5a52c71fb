//! Lists the trials of a run that still need a search for their highest rate. The runner uses this
//! list in each run, and to resume an interrupted run.

use std::collections::BTreeSet;

use dyno_model::Protocol;
use dyno_model::plan::Plan;
use dyno_model::run::Run;

/// Returns the trials of a launch that still need a rate search. A trial over a protocol whose
/// contract checks failed needs none.
#[must_use]
pub fn remaining_searches(plan: &Plan, run: &Run, launch: usize) -> Vec<usize> {
    let searched: BTreeSet<usize> = run.searches.iter().map(|search| search.trial).collect();
    let refused = refused_protocols(run, launch);
    let is_remaining = |trial: &usize| {
        let planned = &plan.trials[*trial];
        let is_accepted = !refused.contains(&plan.workloads[planned.workload].protocol);
        planned.launch == launch
            && is_accepted
            && has_search(plan, *trial)
            && !searched.contains(trial)
    };
    if plan.search.is_some() {
        (0..plan.trials.len()).filter(is_remaining).collect()
    } else {
        Vec::new()
    }
}

/// Returns the protocols whose contract checks failed in the starts of a launch.
#[must_use]
pub fn refused_protocols(run: &Run, launch: usize) -> BTreeSet<Protocol> {
    let starts = run.starts.iter().filter(|start| start.launch == launch);
    starts.flat_map(|start| start.refused_protocols().into_keys()).collect()
}

/// Returns whether a plan with searches has a search after this trial. A control that refuses all
/// connections has no rate to search for.
#[must_use]
pub fn has_search(plan: &Plan, trial: usize) -> bool {
    let planned = &plan.trials[trial];
    plan.load.steps[planned.step].arrivals.is_closed() && !plan.subject_of(planned.arm).refuses
}

/// Returns the number of measured trials that still need a search, such as trials of an interrupted
/// run. A failed subject needs no search.
#[must_use]
pub fn missing_searches(run: &Run) -> usize {
    let plan = &run.header.plan;
    if plan.search.is_none() {
        return 0;
    }
    let has_failed = |launch: usize| {
        let starts = run.starts.iter().filter(|start| start.launch == launch);
        starts
            .filter_map(|start| start.failure.as_ref())
            .any(|failure| failure.kind.is_caused_by_subject())
    };
    let is_measured = |trial: &usize| run.trials.iter().any(|record| record.trial == *trial);
    (0..plan.launches.len())
        .filter(|launch| !has_failed(*launch))
        .map(|launch| {
            remaining_searches(plan, run, launch).iter().filter(|t| is_measured(t)).count()
        })
        .sum()
}
