//! Writes the report of a run with many subjects and trials, made from copies of a small run. Tests
//! and `benches/opening` measure how long a browser needs to open it.

use std::fs;
use std::process::ExitCode;

use dyno_analysis::report::report;
use dyno_archive::RunDir;
use dyno_model::plan::{Arm, Launch, Subject, Trial, Workload};
use dyno_model::run::Run;
use dyno_model::{Protocol, StartRecord, TrialRecord};

const USAGE: &str = "multiplied RUN COPIES WORKLOADS REPORT.html
  COPIES     number of copies of each subject of the archive RUN
  WORKLOADS  number of copies of each trial, each with another workload: 1 to 4;
             1 leaves the workloads unchanged";

/// Names and protocols of the workloads of the copied trials.
const WORKLOADS: [(&str, Protocol); 4] = [
    ("text", Protocol::H1),
    ("json", Protocol::H1),
    ("text-h2c", Protocol::H2c),
    ("json-h2c", Protocol::H2c),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [run, copies, workloads, page] = arguments.as_slice() else {
        return refuse("needs four arguments");
    };
    let (Ok(copies), Ok(workloads @ 1..=4)) = (copies.parse(), workloads.parse()) else {
        return refuse("COPIES or WORKLOADS is not a valid number");
    };
    match write(run, copies, workloads, page) {
        Ok(trials) => {
            println!("{trials}");
            ExitCode::SUCCESS
        }
        Err(error) => refuse(&error),
    }
}

fn refuse(reason: &str) -> ExitCode {
    eprintln!("multiplied: {reason}\n{USAGE}");
    ExitCode::from(2)
}

/// Writes the report, and returns its number of trials.
fn write(run: &str, copies: usize, workloads: usize, page: &str) -> Result<usize, String> {
    let run = RunDir::open(run).and_then(|run| run.read()).map_err(|error| error.to_string())?;
    let report = report(&multiply(&run, copies, workloads));
    fs::write(page, dyno_report::html::FORMAT.render(&report))
        .map_err(|error| format!("{page}: {error}"))?;
    Ok(report.trials.len())
}

fn multiply(original: &Run, copies: usize, workloads: usize) -> Run {
    let mut result = original.clone();
    let plan = &mut result.header.plan;
    if workloads > 1 {
        plan.workloads = name_copies(&plan.workloads[0], workloads);
    }
    (plan.subjects, plan.arms, plan.launches, plan.trials) = Default::default();
    (result.starts, result.trials) = Default::default();
    for copy in 0..copies {
        add_copy(&mut result, original, copy, workloads);
    }
    result
}

fn name_copies(workload: &Workload, count: usize) -> Vec<Workload> {
    let copy_with_name = |(name, protocol): &(&str, Protocol)| Workload {
        name: (*name).into(),
        protocol: *protocol,
        ..workload.clone()
    };
    WORKLOADS[..count].iter().map(copy_with_name).collect()
}

fn add_copy(result: &mut Run, original: &Run, copy: usize, workloads: usize) {
    let original_plan = &original.header.plan;
    let arms = result.header.plan.arms.len();
    add_subjects(result, original, copy);
    for (index, launch) in original_plan.launches.iter().enumerate() {
        let arm = arms + launch.arms[0];
        result.header.plan.launches.push(Launch { arms: vec![arm], ..launch.clone() });
        let Some(start) = original.starts.iter().find(|start| start.launch == index) else {
            continue;
        };
        let launch = result.header.plan.launches.len() - 1;
        result.starts.push(StartRecord { start: result.starts.len(), launch, ..start.clone() });
        for record in original.trials.iter().filter(|trial| trial.start == start.start) {
            add_trials(result, original_plan.trials[record.trial], record, arm, workloads);
        }
    }
}

fn add_subjects(result: &mut Run, original: &Run, copy: usize) {
    let plan = &mut result.header.plan;
    let before = plan.subjects.len();
    for subject in &original.header.plan.subjects {
        plan.subjects.push(Subject {
            name: format!("{}-{copy}", subject.name),
            title: format!("{} {copy}", subject.title),
            ..subject.clone()
        });
    }
    for arm in &original.header.plan.arms {
        let name = plan.subjects[before + arm.subject].id();
        plan.arms.push(Arm { name, subject: before + arm.subject, ..arm.clone() });
    }
}

/// Adds a copy of a trial for each workload, to the start that was added last.
fn add_trials(
    result: &mut Run,
    planned_trial: Trial,
    record: &TrialRecord,
    arm: usize,
    workloads: usize,
) {
    let plan = &mut result.header.plan;
    let launch = plan.launches.len() - 1;
    let workload_range = if workloads > 1 {
        0..workloads
    } else {
        planned_trial.workload..planned_trial.workload + 1
    };
    for workload in workload_range {
        let trial = plan.trials.len();
        plan.trials.push(Trial { launch, arm, workload, ..planned_trial });
        result.trials.push(TrialRecord { trial, start: result.starts.len() - 1, ..record.clone() });
    }
}
