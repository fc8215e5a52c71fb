//! A subject that is up: where it is asked, whether it is alive, and what is wrong with it.

use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use dyno_archive::TrialRecord;
use dyno_archive::plan::Workload;
use dyno_archive::start::{Failure, FailureKind};
use dyno_archive::trial::CheckResult;
use dyno_contract::check::Check;
use dyno_contract::client::{Caller, Keep};
use dyno_contract::contracts::checks_of;
use dyno_contract::door::Door;
use dyno_launch::process::Process;

use crate::limits::ALIVE;
use crate::proof;
use crate::subject::Definition;

/// A subject that is up, with what a trial needs to know of it.
pub(super) struct Subject {
    pub(super) process: Process,
    /// One for each of its protocols.
    pub(super) entrances: Vec<Entrance>,
    pub(super) ready_path: String,
}

/// Where a workload is asked. `Err`: nowhere, in words.
pub(super) fn entrance<'a>(entrances: &'a [Entrance], workload: &Workload) -> Result<&'a Entrance, String> {
    let protocol = workload.protocol;
    let at = entrances.iter().find(|e| e.door().protocol == protocol);
    at.ok_or_else(|| format!("it does not speak {protocol} any more; was its subject.toml changed?"))
}

/// A door with what to do at it.
pub(super) struct Entrance {
    pub(super) caller: Caller,
    pub(super) checks: Vec<Check>,
}

impl Entrance {
    pub(super) fn new(definition: &Definition, door: &Door) -> Result<Entrance, String> {
        Ok(Entrance { caller: Caller::new(door)?, checks: checks_of(&definition.checks, door.protocol) })
    }

    pub(super) fn door(&self) -> &Door {
        self.caller.door()
    }
}

/// Runs the contract's checks at every door. A subject that does not answer at all is not asked nine times.
pub(super) fn run_checks(subject: &Subject) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for entrance in &subject.entrances {
        for check in &entrance.checks {
            let result = proof::run(check, entrance.door());
            let failed = !result.ok;
            results.push(result);
            if failed && probe_alive(subject).is_err() {
                return results;
            }
        }
    }
    results
}

/// One request at every door that every living subject answers.
fn probe_alive(subject: &Subject) -> std::io::Result<()> {
    let ask = |e: &Entrance| e.caller.ask(&subject.ready_path, ALIVE, Keep::Beginning);
    subject.entrances.iter().try_for_each(|entrance| ask(entrance).map(drop))
}

/// The end of a process shows a moment after its sockets have closed.
fn ended_by_now(process: &mut Process) -> Option<ExitStatus> {
    for _ in 0..100 {
        if let Some(status) = process.ended() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(2));
    }
    None
}

/// What failed checks mean: wrong answers, or no server any more.
pub(super) fn wrong_answers(subject: &mut Subject, results: &[CheckResult]) -> Option<Failure> {
    let failed = results.iter().find(|r| !r.ok)?;
    let message = format!("check {:?}: {}", failed.name, failed.detail);
    let deaf = probe_alive(subject).err();
    let failure = match ended_by_now(&mut subject.process) {
        Some(status) => Failure {
            kind: FailureKind::Crashed,
            message: format!("its process ended with {status} during the checks; {message}"),
        },
        None if deaf.is_some() => Failure {
            kind: FailureKind::Deaf,
            message: format!("alive, but it stopped answering during the checks; {message}"),
        },
        None => Failure { kind: FailureKind::WrongAnswers, message },
    };
    Some(memory_first(&subject.process, failure))
}

/// Says so if it was the memory limit that ended the subject: everything else follows from it.
pub(super) fn memory_first(process: &Process, failure: Failure) -> Failure {
    match process.oom_kills() {
        0 => failure,
        n => Failure {
            kind: FailureKind::OutOfMemory,
            message: format!("the memory limit killed {n} of its processes; {}", failure.message),
        },
    }
}

/// Whether the subject still serves after a trial; if not, the trial says so too.
pub(super) fn after_trial(subject: &mut Subject, record: &mut TrialRecord) -> Option<Failure> {
    let failure = if let Some(words) = record.subject_failure.clone() {
        Failure { kind: FailureKind::Crashed, message: words }
    } else {
        let probe = probe_alive(subject);
        if probe.is_ok() && subject.process.oom_kills() > 0 {
            // A master that starts its killed workers again answers, but not as it was asked to.
            Err("some of its processes were killed and started again".to_string())
        } else {
            probe.map_err(|e| e.to_string())
        }
        .err()
        .map(|error| match ended_by_now(&mut subject.process) {
            Some(status) => Failure {
                kind: FailureKind::Crashed,
                message: format!("its process ended with {status} after the step"),
            },
            None => Failure {
                kind: FailureKind::Deaf,
                message: format!("alive, but it did not answer one request after the step: {error}"),
            },
        })?
    };
    let failure = memory_first(&subject.process, failure);
    record.subject_failure = Some(format!("{}: {}", failure.kind.name(), failure.message));
    Some(failure)
}

pub(super) fn interrupted() -> Failure {
    Failure { kind: FailureKind::Interrupted, message: "the user ended the run".into() }
}
