//! Lists the names of arms (subjects as the suite names them) in a report and in a comparison.

use dyno_analysis::Report;
use dyno_analysis::compare::ComparisonResult;
use dyno_analysis::experiment::Effect;
use dyno_analysis::overview::Tie;
use dyno_model::plan::MeasuredFirst;

/// Returns the names of arms in a report. The suite's author writes them (`name`).
pub(super) fn arm_names(report: &mut Report) -> impl Iterator<Item = &mut String> {
    let run = &mut report.run;
    let order = run.order.iter_mut().flatten();
    let plan = order.chain(&mut run.concurrent_arms).chain(&mut run.baseline);
    let plan = plan.chain(run.measured_first.iter_mut().flat_map(names_measured_first));
    let trials = report.trials.iter_mut().flat_map(|trial| {
        let duet = trial.duet.iter_mut().flat_map(|duet| &mut duet.concurrent_subjects);
        duet.chain([&mut trial.subject_id])
    });
    let comparisons = report.comparisons.iter_mut();
    let protocols = report.protocols.iter_mut();
    let experiment = report.experiment.iter_mut().flat_map(|experiment| &mut experiment.effects);
    let effects = experiment.chain(&mut report.twins).chain(&mut report.duets);
    let canary = report.canary.iter_mut().flat_map(|canary| &mut canary.starts);
    plan.chain(trials)
        .chain(report.subjects.iter_mut().map(|subject| &mut subject.id))
        .chain(report.summaries.iter_mut().map(|step| &mut step.subject))
        .chain(report.overview.iter_mut().map(|row| &mut row.subject))
        .chain(report.ties.iter_mut().flat_map(tie_names))
        .chain(comparisons.flat_map(|c| [&mut c.subject, &mut c.baseline]))
        .chain(protocols.flat_map(|p| [&mut p.subject, &mut p.baseline_subject]))
        .chain(effects.flat_map(effect_names))
        .chain(canary.map(|start| &mut start.subject))
        .chain(report.scaling.iter_mut().map(|scaling| &mut scaling.subject))
        .chain(report.brackets.iter_mut().map(|bracket| &mut bracket.subject))
        .chain(report.searches.iter_mut().map(|search| &mut search.subject))
        .chain(report.wire.iter_mut().map(|wire| &mut wire.subject))
}

/// Returns the names of arms in the results of the run that measured capacities.
pub(super) fn names_measured_first(
    measured: &mut MeasuredFirst,
) -> impl Iterator<Item = &mut String> {
    let capacities = measured.capacities.iter_mut().map(|capacity| &mut capacity.subject);
    capacities.chain(measured.failures.iter_mut().map(|failures| &mut failures.subject))
}

fn tie_names(tie: &mut Tie) -> impl Iterator<Item = &mut String> {
    tie.with.iter_mut().chain(&mut tie.lower_bounds).chain([&mut tie.best])
}

fn effect_names(effect: &mut Effect) -> impl Iterator<Item = &mut String> {
    let rows = effect.rows.iter_mut().flat_map(|row| [&mut row.subject_a, &mut row.subject_b]);
    let answers = effect.answers.iter_mut();
    rows.chain(answers.flat_map(|answer| [&mut answer.subject_a, &mut answer.subject_b]))
        .chain([&mut effect.from, &mut effect.to])
}

/// Returns the names of arms in a comparison.
pub(super) fn compared_arm_names(
    compared: &mut ComparisonResult,
) -> impl Iterator<Item = &mut String> {
    let sides = [&mut compared.a, &mut compared.b];
    let answers = compared.answers.iter_mut();
    let rows = compared.rows.iter_mut();
    let gates = compared.gates.iter_mut();
    let repeats = compared.repeats.iter_mut();
    let starts = compared.starts.iter_mut();
    let sides = sides.into_iter().flat_map(|side| &mut side.subject);
    sides
        .chain(answers.flat_map(|answer| [&mut answer.subject_a, &mut answer.subject_b]))
        .chain(rows.flat_map(|row| [&mut row.subject_a, &mut row.subject_b]))
        .chain(gates.flat_map(|gate| [&mut gate.subject_a, &mut gate.subject_b]))
        .chain(repeats.flat_map(|cell| [&mut cell.subject_a, &mut cell.subject_b]))
        .chain(starts.flat_map(|server| [&mut server.subject_a, &mut server.subject_b]))
}
