//! The report in a real browser: the tests in `web/tests` open the page of a run that was just made, one of a run with many
//! trials, and one of a run with a single workload.

use std::fs;
use std::path::Path;
use std::process::Command;

use dyno_analysis::report::report;
use dyno_archive::plan::{Arm, Launch, Subject, Trial, Workload};
use dyno_archive::run::Run;
use dyno_archive::{Protocol, RunDir, StartRecord, TrialRecord};

use crate::drive::{Place, repository};

#[test]
fn the_report_of_a_real_run_works_in_chromium() {
    let place = Place::new();
    place.add_unruly("good", &[], "");
    place.add_unruly("crashing", &["--mode", "crash", "--after", "400"], "");
    // Two workloads with the same steps: what is chosen by step must be told apart by workload, too.
    place.run(&["good", "null", "crashing"], "[[workloads]]\npath = \"/json\"\n");
    passes_in_chromium("viewer", &place.run_folder().unwrap().join("report.html"));
}

#[test]
fn a_report_of_many_subjects_and_trials_works_in_chromium() {
    let place = Place::new();
    let page = place.path().join("large.html");
    fs::write(&page, dyno_report::html::render(&report(&multiplied(&golden(), 5)))).unwrap();
    passes_in_chromium("large", &page);
}

#[test]
fn a_report_of_one_workload_works_in_chromium() {
    let place = Place::new();
    let page = place.path().join("small.html");
    fs::write(&page, dyno_report::html::render(&report(&golden()))).unwrap();
    passes_in_chromium("small", &page);
}

/// Runs the tests of `web/tests` with this name on a page.
fn passes_in_chromium(tests: &str, page: &Path) {
    let web = repository().join("web");
    assert!(web.join("node_modules").is_dir(), "run `npm ci` in web/ first; `make test` does");
    let status = Command::new("node")
        .args(["--test", &format!("tests/{tests}.test.mjs")])
        .current_dir(web)
        .env("REPORT", page)
        .status()
        .unwrap();
    assert!(status.success(), "the browser tests {tests} failed on {}", page.display());
}

/// Three subjects, of which one is skipped, with one workload at two steps, three times.
fn golden() -> Run {
    RunDir::open(repository().join("tests/golden/hello/run")).unwrap().read().unwrap()
}

/// The run with so many of each subject, and two workloads over each of two protocols in place of its one.
fn multiplied(one: &Run, copies: usize) -> Run {
    let mut many = one.clone();
    let plan = &mut many.header.plan;
    plan.workloads = workloads(&plan.workloads[0]);
    (plan.subjects, plan.arms, plan.launches, plan.trials) = Default::default();
    (many.starts, many.trials) = Default::default();
    for copy in 0..copies {
        add_copy(&mut many, one, copy);
    }
    many
}

fn workloads(of: &Workload) -> Vec<Workload> {
    let named = |name: &str, protocol| Workload { name: name.into(), protocol, ..of.clone() };
    vec![
        named("text", Protocol::H1),
        named("json", Protocol::H1),
        named("text-h2c", Protocol::H2c),
        named("json-h2c", Protocol::H2c),
    ]
}

fn add_copy(many: &mut Run, one: &Run, copy: usize) {
    let from = &one.header.plan;
    let arms = many.header.plan.arms.len();
    let subjects = many.header.plan.subjects.len();
    for (subject, arm) in from.subjects.iter().zip(&from.arms) {
        let name = format!("{}-{copy}", subject.name);
        let title = format!("{} {copy}", subject.title);
        many.header.plan.arms.push(Arm {
            name: name.clone(),
            subject: subjects + arm.subject,
            ..arm.clone()
        });
        many.header.plan.subjects.push(Subject { name, title, ..subject.clone() });
    }
    for (index, launch) in from.launches.iter().enumerate() {
        let arm = arms + launch.arms[0];
        many.header.plan.launches.push(Launch { arms: vec![arm], ..launch.clone() });
        let Some(start) = one.starts.iter().find(|start| start.launch == index) else { continue };
        let launch = many.header.plan.launches.len() - 1;
        many.starts.push(StartRecord { start: many.starts.len(), launch, ..start.clone() });
        for record in one.trials.iter().filter(|trial| trial.start == start.start) {
            add_trials(many, from.trials[record.trial], record, arm);
        }
    }
}

/// The trial with each workload, in the start that was added last.
fn add_trials(many: &mut Run, planned: Trial, record: &TrialRecord, arm: usize) {
    for workload in 0..many.header.plan.workloads.len() {
        let launch = many.header.plan.launches.len() - 1;
        let trial = many.header.plan.trials.len();
        many.header.plan.trials.push(Trial { launch, arm, workload, ..planned });
        many.trials.push(TrialRecord { trial, start: many.starts.len() - 1, ..record.clone() });
    }
}
