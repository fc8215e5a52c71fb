//! Tests reports in which the name of a workload contains a secret.

use std::path::Path;

use dyno_analysis::overview::Tie;
use dyno_analysis::report::report;
use dyno_analysis::{Caveat, Code, Report, Severity};
use dyno_archive::RunDir;
use dyno_model::plan::{Capacity, MeasuredFirst};
use serde_json::json;

use super::*;

const TOKEN: &str = "glpat-AbCd1234EfGh5678";

/// Returns the report of a golden run whose workloads and requests have names with a secret.
fn report_with_secret_names() -> Report {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    let mut run = RunDir::open(folder).unwrap().read().unwrap();
    for workload in &mut run.header.plan.workloads {
        workload.name = format!("{}-{TOKEN}", workload.name);
        for request in &mut workload.requests {
            request.name = format!("{}-{TOKEN}", request.name);
            request.path = format!("/hook/{TOKEN}");
        }
    }
    let name = run.header.plan.workloads[0].name.clone();
    let capacity = Capacity { workload: name.clone(), subject: "a".into(), rps: 1.0 };
    run.header.plan.measured_first = Some(MeasuredFirst {
        run: "r".into(),
        shares: Vec::new(),
        capacities: vec![capacity],
        failures: Vec::new(),
    });
    let mut report = report(&run);
    report.caveats.push(Caveat {
        code: Code::PEAK_LOWER_BOUND,
        severity: Severity::Warning,
        message: format!("a with {name}"),
        evidence: json!({"peaks": [{"workload": name}]}),
    });
    let ids: Vec<String> = report.subjects.iter().map(|subject| subject.id.clone()).collect();
    report.ties.push(Tie {
        workload: name,
        best: ids[0].clone(),
        with: ids[1..].to_vec(),
        mutual: true,
        lower_bounds: Vec::new(),
    });
    report
}

#[test]
fn secret_in_workload_name_is_erased_everywhere() {
    let report = report_with_secret_names();
    let redacted = redact(&report).report;
    let json = serde_json::to_value(&*redacted).unwrap();
    assert_eq!(places_of_token(&json, ""), Vec::<String>::new());
    let measured = redacted.run.measured_first.as_ref().unwrap();
    let name = &redacted.run.workloads[0].name;
    assert_eq!((&measured.capacities[0].workload, &redacted.ties[0].workload), (name, name));
    let last = redacted.caveats.last().unwrap();
    assert_eq!(last.evidence["peaks"][0]["workload"], **name);
}

#[test]
fn redacted_report_keeps_sentence_on_ties() {
    let report = report_with_secret_names();
    let redacted = redact(&report).report;
    let sentences = crate::answer::sentences(&redacted);
    assert!(
        sentences.iter().any(|sentence| sentence.contains("cannot be distinguished")),
        "{sentences:?}"
    );
    assert_eq!(sentences.len(), crate::answer::sentences(&report).len());
}

/// Returns the paths of all texts that contain the token.
fn places_of_token(value: &Value, path: &str) -> Vec<String> {
    match value {
        Value::String(text) if text.contains(TOKEN) => vec![path.into()],
        Value::Array(items) => {
            items.iter().flat_map(|item| places_of_token(item, &format!("{path}[]"))).collect()
        }
        Value::Object(members) => members
            .iter()
            .flat_map(|(key, member)| places_of_token(member, &format!("{path}.{key}")))
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns a report in which the names of all subjects contain a secret of the suite.
fn run_with_secret_arms() -> dyno_model::run::Run {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    let mut run = RunDir::open(folder).unwrap().read().unwrap();
    for (subject, arm) in run.header.plan.arms.iter_mut().enumerate() {
        arm.name = format!("s3cr3tDDD44{subject} {TOKEN}");
    }
    let plan = &mut run.header.plan;
    let secrets: Vec<String> =
        (0..plan.arms.len()).map(|arm| format!("A_TOKEN = \"s3cr3tDDD44{arm}\"\n")).collect();
    plan.suite.source = secrets.concat();
    plan.report.baseline = plan.report.baseline.as_ref().map(|_| plan.arms[0].name.clone());
    run
}

#[test]
fn secret_in_arm_name_is_erased_everywhere() {
    let report = report(&run_with_secret_arms());
    let redacted = redact(&report).report;
    let json = serde_json::to_value(&*redacted).unwrap();
    assert_eq!(places_of_token(&json, ""), Vec::<String>::new());
    assert!(!json.to_string().contains("s3cr3tDDD44"));
    let ids: BTreeSet<&String> = redacted.subjects.iter().map(|subject| &subject.id).collect();
    assert_eq!(ids.len(), report.subjects.len(), "{ids:?}");
    for trial in &redacted.trials {
        assert_eq!(trial.subject_id, redacted.subjects[trial.cell.arm].id);
    }
    for format in [crate::html::FORMAT, crate::markdown::FORMAT] {
        let text = format.render(&redacted);
        assert!(!text.contains("s3cr3tDDD44") && !text.contains(TOKEN));
    }
}

#[test]
fn secret_in_arm_name_is_erased_from_comparison() {
    use dyno_analysis::compare::{ComparisonOptions, Gate, Side, compare};
    let run = run_with_secret_arms();
    let report = report(&run);
    let side = |arm| Side { run: &run, results: report.results(), arm: Some(arm) };
    let gates = Gate::parse("p99>+1%").unwrap();
    let options = ComparisonOptions { gates, ..ComparisonOptions::default() };
    let redacted = comparison(&compare(side(0), side(1), &options), [&report, &report]);
    let json = serde_json::to_value(&redacted).unwrap();
    assert_eq!(places_of_token(&json, ""), Vec::<String>::new());
    assert!(!json.to_string().contains("s3cr3tDDD44"));
    assert!(redacted.a.subject.is_some() && redacted.a.subject != redacted.b.subject);
}
