//! The report of a run with many subjects and trials, made from a run with few: tests and
//! `benches/opening` open it.

use std::fs;
use std::process::ExitCode;

use dyno_analysis::report::report;
use dyno_archive::plan::{Arm, Launch, Subject, Trial, Workload};
use dyno_archive::run::Run;
use dyno_archive::{Protocol, RunDir, StartRecord, TrialRecord};

const USAGE: &str = "multiplied RUN COPIES WORKLOADS REPORT.html
  COPIES     how often each subject of the archive RUN is there
  WORKLOADS  how often each of its trials is there, with workloads of so many names: 1 to 4;
             1 leaves them as they are";

/// Names and protocols of the workloads that each trial is given.
const WORKLOADS: [(&str, Protocol); 4] = [
    ("text", Protocol::H1),
    ("json", Protocol::H1),
    ("text-h2c", Protocol::H2c),
    ("json-h2c", Protocol::H2c),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [run, copies, workloads, page] = arguments.as_slice() else {
        return refuse("four arguments, please");
    };
    let (Ok(copies), Ok(workloads @ 1..=4)) = (copies.parse(), workloads.parse()) else {
        return refuse("COPIES or WORKLOADS is no such number");
    };
    match write(run, copies, workloads, page) {
        Ok(trials) => {
            println!("{trials}");
            ExitCode::SUCCESS
        }
        Err(error) => refuse(&error),
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("multiplied: {why}\n{USAGE}");
    ExitCode::from(2)
}

/// Gives the number of trials.
fn write(run: &str, copies: usize, workloads: usize, page: &str) -> Result<usize, String> {
    let run = RunDir::open(run).and_then(|run| run.read()).map_err(|error| error.to_string())?;
    let report = report(&multiplied(&run, copies, workloads));
    fs::write(page, dyno_report::html::render(&report))
        .map_err(|error| format!("{page}: {error}"))?;
    Ok(report.trials.len())
}

fn multiplied(one: &Run, copies: usize, workloads: usize) -> Run {
    let mut many = one.clone();
    let plan = &mut many.header.plan;
    if workloads > 1 {
        plan.workloads = name_copies(&plan.workloads[0], workloads);
    }
    (plan.subjects, plan.arms, plan.launches, plan.trials) = Default::default();
    (many.starts, many.trials) = Default::default();
    for copy in 0..copies {
        add_copy(&mut many, one, copy, workloads);
    }
    many
}

fn name_copies(of: &Workload, how_many: usize) -> Vec<Workload> {
    let of_name = |(name, protocol): &(&str, Protocol)| Workload {
        name: (*name).into(),
        protocol: *protocol,
        ..of.clone()
    };
    WORKLOADS[..how_many].iter().map(of_name).collect()
}

fn add_copy(many: &mut Run, one: &Run, copy: usize, workloads: usize) {
    let from = &one.header.plan;
    let arms = many.header.plan.arms.len();
    add_subjects(many, one, copy);
    for (index, launch) in from.launches.iter().enumerate() {
        let arm = arms + launch.arms[0];
        many.header.plan.launches.push(Launch { arms: vec![arm], ..launch.clone() });
        let Some(start) = one.starts.iter().find(|start| start.launch == index) else { continue };
        let launch = many.header.plan.launches.len() - 1;
        many.starts.push(StartRecord { start: many.starts.len(), launch, ..start.clone() });
        for record in one.trials.iter().filter(|trial| trial.start == start.start) {
            add_trials(many, from.trials[record.trial], record, arm, workloads);
        }
    }
}

fn add_subjects(many: &mut Run, one: &Run, copy: usize) {
    let plan = &mut many.header.plan;
    let before = plan.subjects.len();
    for subject in &one.header.plan.subjects {
        plan.subjects.push(Subject {
            name: format!("{}-{copy}", subject.name),
            title: format!("{} {copy}", subject.title),
            ..subject.clone()
        });
    }
    for arm in &one.header.plan.arms {
        let name = plan.subjects[before + arm.subject].id();
        plan.arms.push(Arm { name, subject: before + arm.subject, ..arm.clone() });
    }
}

/// The trial with each workload, in the start that was added last.
fn add_trials(many: &mut Run, planned: Trial, record: &TrialRecord, arm: usize, workloads: usize) {
    let plan = &mut many.header.plan;
    let launch = plan.launches.len() - 1;
    let each = if workloads > 1 { 0..workloads } else { planned.workload..planned.workload + 1 };
    for workload in each {
        let trial = plan.trials.len();
        plan.trials.push(Trial { launch, arm, workload, ..planned });
        many.trials.push(TrialRecord { trial, start: many.starts.len() - 1, ..record.clone() });
    }
}
