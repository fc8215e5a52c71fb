//! Lists the texts of a report by their origin, because each origin has its own rules for erasing
//! secrets.

use std::collections::{BTreeMap, BTreeSet};

use dyno_analysis::compare::ComparisonResult;
use dyno_analysis::experiment::Effect;
use dyno_analysis::{CodeProperty, Report};
use serde_json::Value;

/// Returns the texts by the user: the command and the source of the suite. Secrets in them are
/// found by parsing: the command as arguments, the source as a suite file.
pub(super) fn user_texts(report: &mut Report) -> impl Iterator<Item = &mut String> {
    let run = &mut report.run;
    run.command.iter_mut().chain([&mut run.suite_source])
}

/// Returns all other texts by a user, a server or a compiler. Servers log requests, so logs may
/// contain secrets.
pub(super) fn foreign_texts(report: &mut Report) -> impl Iterator<Item = &mut String> {
    let subjects = report.subjects.iter_mut().flat_map(|subject| {
        let checks = subject.checks.iter_mut();
        let checks = checks
            .flat_map(|c| [&mut c.detail].into_iter().chain(&mut c.asked).chain(&mut c.expected));
        let failures = subject.failures.iter_mut();
        let failures =
            failures.flat_map(|f| [&mut f.failure.message].into_iter().chain(&mut f.log_tail));
        let backends = subject.backends.iter_mut().flat_map(|backend| &mut backend.version);
        let texts =
            checks.chain(failures).chain(&mut subject.skipped).chain([&mut subject.description]);
        texts.chain(&mut subject.version).chain(backends)
    });
    let searches = report.searches.iter_mut().flat_map(|search| &mut search.result.ended);
    let markers = report.run.markers.iter_mut().map(|marker| &mut marker.label);
    let factor = report.experiment.iter_mut().flat_map(|experiment| &mut experiment.factor);
    let suite = markers.chain(factor).chain([&mut report.run.description]);
    subjects.chain(searches).chain(suite)
}

/// Returns the texts by dyno, which quote parts of foreign texts.
pub(super) fn own_texts(report: &mut Report) -> impl Iterator<Item = &mut String> {
    let trials = report.trials.iter_mut().flat_map(|trial| {
        let caveats = trial.caveats.iter_mut().chain(&mut trial.load.caveats);
        caveats.map(|caveat| &mut caveat.message).chain([&mut trial.limiter.sentence])
    });
    let caveats = report.caveats.iter_mut().map(|caveat| &mut caveat.message);
    // Summaries repeat the texts of their trials.
    let steps = report.summaries.iter_mut().flat_map(|step| {
        let caveats = step.caveats.iter_mut().map(|caveat| &mut caveat.message);
        caveats.chain([&mut step.limiter_sentence])
    });
    let rows = report.overview.iter_mut().flat_map(|row| {
        let caveats = row.caveats.iter_mut().map(|caveat| &mut caveat.message);
        caveats.chain(&mut row.limiter_sentence).chain(&mut row.absent).chain([&mut row.title])
    });
    let titles = report.subjects.iter_mut().map(|subject| &mut subject.title);
    let rates = report.brackets.iter_mut().flat_map(|bracket| &mut bracket.rates);
    let loads = report.searches.iter_mut().flat_map(|search| &mut search.result.trials);
    let missed =
        rates.flat_map(|rate| &mut rate.missed).chain(loads.flat_map(|load| &mut load.missed));
    let others = report.twins.iter_mut().chain(&mut report.duets);
    let experiment = report.experiment.iter_mut().flat_map(|experiment| &mut experiment.effects);
    let effects = experiment.chain(others).flat_map(|effect| {
        let rows = effect.rows.iter_mut().map(|row| &mut row.sentence);
        rows.chain(effect.answers.iter_mut().map(|answer| &mut answer.sentence))
            .chain(&mut effect.because)
    });
    let cells = report.tables.iter_mut().flat_map(|table| &mut table.rows).flatten();
    let cells =
        cells.filter_map(|cell| if let Value::String(text) = cell { Some(text) } else { None });
    trials
        .chain(caveats)
        .chain(steps)
        .chain(rows)
        .chain(titles)
        .chain(missed)
        .chain(effects)
        .chain(cells)
        .chain([&mut report.run.suite])
}

/// Returns the texts in the evidence of caveats and limiters. These texts contain names of
/// workloads and data that servers sent.
pub(super) fn evidence_texts(report: &mut Report) -> impl Iterator<Item = &mut String> {
    let trials = report.trials.iter_mut().flat_map(|trial| {
        let caveats = trial.caveats.iter_mut().chain(&mut trial.load.caveats);
        caveats.map(|caveat| &mut caveat.evidence).chain([&mut trial.limiter.evidence])
    });
    let caveats = report.caveats.iter_mut().map(|caveat| &mut caveat.evidence);
    trials.chain(caveats).flat_map(json_texts)
}

/// Returns all texts of a JSON value except keys.
pub(super) fn json_texts(value: &mut Value) -> Vec<&mut String> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter_mut().flat_map(json_texts).collect(),
        Value::Object(members) => members.values_mut().flat_map(json_texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Returns the texts by dyno that end with a foreign text, after the first colon. Verdicts,
/// summaries and tables repeat these texts.
pub(super) fn quoting_texts(report: &Report) -> BTreeSet<String> {
    let caveats =
        report.trials.iter().flat_map(|trial| trial.caveats.iter().chain(&trial.load.caveats));
    let caveats = caveats
        .filter(|caveat| caveat.code.has(CodeProperty::QuotesOthers))
        .map(|caveat| &caveat.message);
    caveats.chain(report.overview.iter().filter_map(|row| row.absent.as_ref())).cloned().collect()
}

/// Returns the names of workloads and requests. A name may come from a URL.
pub(super) fn workload_names(report: &mut Report) -> impl Iterator<Item = &mut String> {
    let plan = report.run.workloads.iter_mut().flat_map(|workload| {
        let requests = workload.requests.iter_mut().map(|request| &mut request.name);
        requests.chain([&mut workload.name])
    });
    let trials = report.trials.iter_mut().flat_map(|trial| {
        let mixed = trial.load.config.requests_mixed.iter_mut().map(|mixed| &mut mixed.name);
        let results = trial.load.requests.iter_mut().map(|result| &mut result.name);
        mixed.chain(results).chain([&mut trial.workload])
    });
    let steps = report.summaries.iter_mut().map(|step| &mut step.workload);
    let rows = report.overview.iter_mut().map(|row| &mut row.workload);
    let comparisons = report.comparisons.iter_mut().map(|comparison| &mut comparison.workload);
    let protocols = report.protocols.iter_mut().flat_map(|p| [&mut p.workload, &mut p.baseline]);
    let experiment = report.experiment.iter_mut().flat_map(|experiment| {
        let doses = experiment.doses.iter_mut().map(|dose| &mut dose.workload);
        experiment.effects.iter_mut().flat_map(effect_names).chain(doses)
    });
    let twins = report.twins.iter_mut().chain(&mut report.duets).flat_map(effect_names);
    let brackets = report.brackets.iter_mut().map(|bracket| &mut bracket.workload);
    let searches = report.searches.iter_mut().map(|search| &mut search.workload);
    let ties = report.ties.iter_mut().map(|tie| &mut tie.workload);
    let measured = report.run.measured_first.iter_mut().flat_map(|run| &mut run.capacities);
    plan.chain(trials)
        .chain(measured.map(|capacity| &mut capacity.workload))
        .chain(brackets)
        .chain(searches)
        .chain(steps)
        .chain(rows)
        .chain(ties)
        .chain(comparisons)
        .chain(protocols)
        .chain(experiment)
        .chain(twins)
}

/// Returns the names of workloads in an effect.
pub(super) fn effect_names(effect: &mut Effect) -> impl Iterator<Item = &mut String> {
    let rows = effect.rows.iter_mut().map(|row| &mut row.workload);
    rows.chain(effect.answers.iter_mut().map(|answer| &mut answer.workload))
}

/// Returns the URLs and paths of all trials. A URL may contain a token under an ordinary name.
pub(super) fn addresses(report: &mut Report) -> impl Iterator<Item = &mut String> {
    let configs = report.trials.iter_mut().map(|trial| &mut trial.load.config);
    configs.flat_map(|config| {
        config.requests_mixed.iter_mut().map(|mixed| &mut mixed.path).chain([&mut config.url])
    })
}

/// Returns the counts whose keys quote an expected or a received text.
pub(super) fn text_counts(report: &mut Report) -> impl Iterator<Item = &mut BTreeMap<String, u64>> {
    let loads = report.trials.iter_mut().map(|trial| &mut trial.load);
    loads.flat_map(|l| [&mut l.unexpected, &mut l.protocol_errors, &mut l.connection_failures])
}

/// Returns the names of workloads in a comparison.
pub(super) fn comparison_names(
    compared: &mut ComparisonResult,
) -> impl Iterator<Item = &mut String> {
    let rows = compared.rows.iter_mut().map(|row| &mut row.workload);
    let answers = compared.answers.iter_mut().map(|answer| &mut answer.workload);
    let gates = compared.gates.iter_mut().map(|gate| &mut gate.workload);
    rows.chain(answers)
        .chain(gates)
        .chain(compared.repeats.iter_mut().map(|cell| &mut cell.workload))
}

/// Returns the sentences of a comparison.
pub(super) fn comparison_sentences(
    compared: &mut ComparisonResult,
) -> impl Iterator<Item = &mut String> {
    let differences = compared.differences.iter_mut().flat_map(|difference| {
        [&mut difference.name].into_iter().chain(&mut difference.a).chain(&mut difference.b)
    });
    let answers = compared.answers.iter_mut().map(|answer| &mut answer.sentence);
    let rows = compared.rows.iter_mut().map(|row| &mut row.sentence);
    let gates = compared.gates.iter_mut().map(|gate| &mut gate.sentence);
    let repeats = compared.repeats.iter_mut().flat_map(|cell| {
        let causes = cell.a.not_counted.iter_mut().chain(&mut cell.b.not_counted);
        causes.map(|cause| &mut cause.reason).chain(&mut cell.sentence)
    });
    let problems = compared.run_problems.iter_mut().map(|problem| &mut problem.sentence);
    let of_rows = answers.chain(rows).chain(gates).chain(repeats);
    differences.chain(&mut compared.notes).chain(problems).chain(of_rows)
}
