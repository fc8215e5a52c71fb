//! Lists the texts and names in a plan that its author writes, and that may contain secrets.

use dyno_model::plan::Plan;

use super::arm_names::names_measured_first;

/// Returns the texts of the suite's author in a plan, and the texts that quote them.
pub(super) fn plan_texts(plan: &mut Plan) -> impl Iterator<Item = &mut String> {
    let markers = plan.report.markers.iter_mut().map(|marker| &mut marker.label);
    let reasons = plan.not_served.iter_mut().map(|unserved| &mut unserved.reason);
    let factor = plan.experiment.iter_mut().flat_map(|experiment| &mut experiment.factor);
    let changes = plan.import_changes.iter_mut();
    let changes =
        changes.flat_map(|change| change.names.iter_mut().chain([&mut change.description]));
    markers.chain(reasons).chain(factor).chain(changes).chain([&mut plan.suite.description])
}

/// Returns the names of workloads and requests in a plan.
pub(super) fn plan_workload_names(plan: &mut Plan) -> impl Iterator<Item = &mut String> {
    let workloads = plan.workloads.iter_mut().flat_map(|workload| {
        let requests = workload.requests.iter_mut().map(|request| &mut request.name);
        requests.chain([&mut workload.name])
    });
    let measured = plan.measured_first.iter_mut().flat_map(|run| &mut run.capacities);
    workloads.chain(measured.map(|capacity| &mut capacity.workload))
}

/// Returns the names of arms in a plan.
pub(super) fn plan_arm_names(plan: &mut Plan) -> impl Iterator<Item = &mut String> {
    let measured = plan.measured_first.iter_mut().flat_map(names_measured_first);
    let made = plan.experiment.iter_mut().flat_map(|experiment| &mut experiment.arms);
    let arms = plan.arms.iter_mut().map(|arm| &mut arm.name);
    arms.chain(made).chain(measured).chain(&mut plan.report.baseline)
}
