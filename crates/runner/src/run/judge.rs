//! Judges why a subject does not serve as it should, from observations only.

use std::process::ExitStatus;

use dyno_archive::start::{Failure, FailureKind};
use dyno_archive::trial::CheckResult;

/// The last event of a subject before it is judged.
#[derive(Clone, Copy, Debug)]
pub(super) enum LastEvent<'a> {
    /// A failed check of its contract.
    Check(&'a CheckResult),
    /// A load under which its process exited, with the status in words.
    Load(&'a str),
    /// A load that ran to its end.
    Step,
}

/// Returns why a subject can be used no further. `None`: it serves.
///
/// `ended`: how its first process ended, if it has. `oom_kills`: processes of it that its memory
/// limit killed. `answered`: the response to a request that every running subject serves, or why
/// there was none.
pub(super) fn judge(
    ended: Option<ExitStatus>,
    oom_kills: u64,
    answered: &Result<(), String>,
    what: LastEvent<'_>,
) -> Option<Failure> {
    let failure = match what {
        LastEvent::Check(check) => after_check(ended, answered, check),
        LastEvent::Load(words) => Failure { kind: FailureKind::Crashed, message: words.into() },
        LastEvent::Step => after_step(ended, oom_kills, answered)?,
    };
    Some(memory_first(oom_kills, failure))
}

/// Judges a failed check: incorrect responses, or a dead server.
fn after_check(
    ended: Option<ExitStatus>,
    answered: &Result<(), String>,
    check: &CheckResult,
) -> Failure {
    let message = format!("check {:?}: {}", check.name, check.detail());
    match ended {
        Some(status) => Failure {
            kind: FailureKind::Crashed,
            message: format!("its process ended with {status} during the checks: {message}"),
        },
        None if answered.is_err() => Failure {
            kind: FailureKind::Deaf,
            message: format!("it runs, but stopped responding during the checks: {message}"),
        },
        None => Failure { kind: FailureKind::WrongAnswers, message },
    }
}

fn after_step(
    ended: Option<ExitStatus>,
    oom_kills: u64,
    answered: &Result<(), String>,
) -> Option<Failure> {
    let message = match answered {
        Err(error) => format!("it runs, but did not respond to a request after the step: {error}"),
        // A master that restarts its killed workers responds, but breaks its contract.
        Ok(()) if oom_kills > 0 => "it runs, but some of its processes were restarted".into(),
        Ok(()) => return None,
    };
    Some(match ended {
        Some(status) => Failure {
            kind: FailureKind::Crashed,
            message: format!("its process ended with {status} after the step"),
        },
        None => Failure { kind: FailureKind::Deaf, message },
    })
}

/// Blames the memory limit if it killed a process: every other symptom follows from that.
pub(super) fn memory_first(oom_kills: u64, failure: Failure) -> Failure {
    match oom_kills {
        0 => failure,
        n => Failure {
            kind: FailureKind::OutOfMemory,
            message: format!("the memory limit killed {n} of its processes: {}", failure.message),
        },
    }
}

/// Returns a failure of the machine or of dyno, not of the subject.
pub(super) fn harness(message: String) -> Failure {
    Failure { kind: FailureKind::Harness, message }
}

/// Returns the failure of a start that the user interrupted.
pub(super) fn interrupted_failure() -> Failure {
    Failure { kind: FailureKind::Interrupted, message: "the user ended the run".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::process::ExitStatusExt as _;

    use dyno_archive::Protocol;

    use FailureKind::{Crashed, Deaf, OutOfMemory, WrongAnswers};

    fn judged_failure(
        ended: Option<i32>,
        oom_kills: u64,
        answered: Result<(), &str>,
        what: LastEvent<'_>,
    ) -> Option<(FailureKind, String)> {
        let answered = answered.map_err(String::from);
        let failure = judge(ended.map(ExitStatus::from_raw), oom_kills, &answered, what)?;
        Some((failure.kind, failure.message))
    }

    #[test]
    fn failed_check_is_reported_with_the_state_of_the_server() {
        let check = CheckResult {
            of_life: false,
            name: "json".into(),
            protocol: Protocol::H1,
            ok: false,
            answered: true,
            waived: false,
            asked: "GET /json".into(),
            expected: "status 200".into(),
            got: "500".into(),
        };
        let check = LastEvent::Check(&check);
        let why = "check \"json\": asked GET /json; expected status 200; got: 500";
        let killed = "its process ended with signal: 9 (SIGKILL) during the checks";
        let deaf = "it runs, but stopped responding during the checks";
        let limit = "the memory limit killed 2 of its processes";
        for (ended, oom_kills, answered, kind, message) in [
            (None, 0, Ok(()), WrongAnswers, why.to_string()),
            (None, 0, Err("refused"), Deaf, format!("{deaf}: {why}")),
            // It has ended, even if another process responds in its place.
            (Some(9), 0, Ok(()), Crashed, format!("{killed}: {why}")),
            (Some(9), 0, Err("refused"), Crashed, format!("{killed}: {why}")),
            (None, 2, Ok(()), OutOfMemory, format!("{limit}: {why}")),
            (Some(9), 2, Err("refused"), OutOfMemory, format!("{limit}: {killed}: {why}")),
        ] {
            let judged = judged_failure(ended, oom_kills, answered, check);
            assert_eq!(judged, Some((kind, message)), "{ended:?} {oom_kills} {answered:?}");
        }
    }

    #[test]
    fn after_a_step_a_server_answers_or_is_of_no_use() {
        let deaf = "it runs, but did not respond to a request after the step";
        let again = "it runs, but some of its processes were restarted";
        let limit = "the memory limit killed 1 of its processes";
        let ended_so = "its process ended with exit status: 3 after the step";
        for (ended, oom_kills, answered, wanted) in [
            (None, 0, Ok(()), None),
            (
                None,
                0,
                Err("no response in time"),
                Some((Deaf, format!("{deaf}: no response in time"))),
            ),
            (Some(3 << 8), 0, Err("refused"), Some((Crashed, ended_so.to_string()))),
            (None, 1, Ok(()), Some((OutOfMemory, format!("{limit}: {again}")))),
            (Some(3 << 8), 1, Err("refused"), Some((OutOfMemory, format!("{limit}: {ended_so}")))),
        ] {
            let judged = judged_failure(ended, oom_kills, answered, LastEvent::Step);
            assert_eq!(judged, wanted, "{ended:?} {oom_kills} {answered:?}");
        }
    }

    #[test]
    fn load_that_ended_with_its_server_says_how() {
        let words = "its process ended with signal: 11 under load";
        let load =
            |oom_kills| judged_failure(None, oom_kills, Ok(()), LastEvent::Load(words)).unwrap();
        assert_eq!(load(0), (Crashed, words.into()));
        let limit = "the memory limit killed 3 of its processes";
        assert_eq!(load(3), (OutOfMemory, format!("{limit}: {words}")));
    }
}
