//! A load that no suite asks for, as a run of one trial: its plan, and its record in an archive.

use std::collections::BTreeMap;

use dyno_analysis::load::is_done;
use dyno_archive::dir::OpenError;
use dyno_archive::plan::{
    Arm, Conditions, Launch, Load, Order, Placement, Plan, ReportOptions, Subject, Suite, Trial, Workload,
};
use dyno_archive::start::{Failure, FailureKind};
use dyno_archive::trial::Ceiling;
use dyno_archive::{LoadRecord, RunDir, StartRecord, TrialRecord};

use crate::load::Spec;

/// The server that is loaded, which dyno did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Host and port.
    pub name: String,
    /// Its address as people know it, without anything secret.
    pub title: String,
}

/// The plan of one load, as a suite's would be that asked for nothing else. `files`: those that its requests name, with the
/// SHA-256 of each.
#[must_use]
pub fn plan(server: &Server, workload: &Workload, spec: &Spec, files: BTreeMap<String, String>) -> Plan {
    let generator = if spec.cpus.is_empty() { dyno_launch::allowed_cpus() } else { spec.cpus.clone() };
    // On which CPUs the server runs, nobody knows.
    let placement = Placement { subject: Vec::new(), generator };
    let conditions = Conditions { placement, ..Conditions::default() };
    Plan {
        suite: Suite {
            name: "load".into(),
            description: server.title.clone(),
            source: String::new(),
            path: String::new(),
        },
        subjects_folder: String::new(),
        seed: spec.seed,
        repeats: 1,
        order: Order::Fixed,
        subjects: vec![Subject {
            name: server.name.clone(),
            title: server.title.clone(),
            ..Subject::default()
        }],
        arms: vec![Arm { name: server.name.clone(), level: None, subject: 0, conditions }],
        backends: Vec::new(),
        workloads: vec![workload.clone()],
        load: spec.load.clone(),
        launches: vec![Launch::alone(0, 0)],
        trials: vec![Trial { launch: 0, arm: 0, workload: 0, step: 0, seed: spec.seed }],
        not_served: Vec::new(),
        report: ReportOptions::default(),
        cost: None,
        files,
    }
}

/// How a load ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ended<'a> {
    /// It did what was asked for, or what the server let it do.
    Done(&'a LoadRecord),
    /// The user ended it before that; what was measured stands.
    Interrupted(&'a LoadRecord),
    /// It could not begin; why, as a sentence.
    Never(&'a str),
}

impl<'a> Ended<'a> {
    /// Who ends a load that has done what was asked for has ended nothing.
    #[must_use]
    pub fn of(loaded: &'a Result<LoadRecord, String>, asked: &Load, was_interrupted: bool) -> Ended<'a> {
        match loaded {
            Err(message) => Ended::Never(message),
            Ok(record) if was_interrupted && !is_done(record, asked) => Ended::Interrupted(record),
            Ok(record) => Ended::Done(record),
        }
    }
}

/// Writes what the load came to into the archive of its plan. `ceiling`: what is quoted beside it.
///
/// # Errors
/// The archive cannot be written.
pub fn write(dir: &RunDir, ended: Ended<'_>, ceiling: Option<Ceiling>) -> Result<(), OpenError> {
    let (load, failure) = match ended {
        Ended::Done(load) => (Some(load), None),
        Ended::Interrupted(load) => (Some(load), Some(interrupted())),
        Ended::Never(words) => (None, Some(Failure { kind: FailureKind::Harness, message: words.into() })),
    };
    dir.write_start(&StartRecord { failure, ..StartRecord::default() })?;
    let Some(load) = load else { return Ok(()) };
    dir.write_trial(&TrialRecord { trial: 0, start: 0, load: load.clone(), checks: Vec::new(), ceiling })
}

fn interrupted() -> Failure {
    Failure { kind: FailureKind::Interrupted, message: "the user ended the load".into() }
}
