//! Finds the reason why a subject has failed, from its exit status, memory kills and responses. The
//! reason decides whether the failure is a result of the subject or a fault of the machine.

use std::io;
use std::process::ExitStatus;

use dyno_archive::hint;
use dyno_archive::start::{Failure, FailureKind};
use dyno_archive::trial::CheckResult;
use dyno_contract::exchange::is_own_shortage;
use dyno_launch::tool::CommandError;
use dyno_observer::cgroup::OomKills;

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

/// Returns why a subject cannot be used any further. `None`: the subject serves.
///
/// `exit_status`: exit status of its first process, if it has exited. `oom_kills`: its processes
/// that were killed for lack of memory. `response`: whether it responded to a request that every
/// running subject serves, or why not.
pub(super) fn judge(
    exit_status: Option<ExitStatus>,
    oom_kills: OomKills,
    response: &io::Result<()>,
    event: LastEvent<'_>,
) -> Option<Failure> {
    let failure = match event {
        LastEvent::Check(check) => after_check(exit_status, response, check),
        LastEvent::Load(words) => Failure { kind: FailureKind::Crashed, message: words.into() },
        LastEvent::Step => after_step(exit_status, oom_kills, response)?,
    };
    Some(memory_first(oom_kills, failure))
}

/// Judges a failed check: incorrect responses, or a dead server.
fn after_check(
    exit_status: Option<ExitStatus>,
    response: &io::Result<()>,
    check: &CheckResult,
) -> Failure {
    let message = format!("check {:?}: {}", check.name, check.detail());
    match exit_status {
        Some(status) => Failure {
            kind: FailureKind::Crashed,
            message: format!("its process ended with {status} during the checks: {message}"),
        },
        None => match response {
            Err(error) if is_own_shortage(error) => unknown_response("after a check", error),
            Err(_) => Failure {
                kind: FailureKind::Deaf,
                message: format!("it runs, but stopped responding during the checks: {message}"),
            },
            Ok(()) => Failure { kind: FailureKind::IncorrectResponses, message },
        },
    }
}

/// Returns the failure of a test whether a part responds that dyno could not make.
pub(super) fn unknown_response(when: &str, error: &io::Error) -> Failure {
    harness(format!("dyno could not connect to test whether it responds {when}: {error}"))
}

fn after_step(
    exit_status: Option<ExitStatus>,
    oom_kills: OomKills,
    response: &io::Result<()>,
) -> Option<Failure> {
    let message = match response {
        Err(error) if exit_status.is_none() && is_own_shortage(error) => {
            return Some(unknown_response("after the step", error));
        }
        Err(error) => format!("it runs, but did not respond to a request after the step: {error}"),
        // A server that lost processes may respond with the others, but breaks its contract.
        Ok(()) if oom_kills.count > 0 => "it still responds".into(),
        Ok(()) => return None,
    };
    Some(match exit_status {
        Some(status) => Failure {
            kind: FailureKind::Crashed,
            message: format!("its process ended with {status} after the step"),
        },
        None => Failure { kind: FailureKind::Deaf, message },
    })
}

/// Reports the lack of memory as the cause if it killed a process, because every other symptom
/// follows from that. Without a limit that was reached, it is the machine's failure.
pub(super) fn memory_first(oom_kills: OomKills, failure: Failure) -> Failure {
    let OomKills { count, is_limit_reached } = oom_kills;
    let symptom = &failure.message;
    match (count, is_limit_reached) {
        (0, _) => failure,
        (_, true) => Failure {
            kind: FailureKind::OutOfMemory,
            message: format!("the memory limit killed {count} of its processes: {symptom}"),
        },
        (_, false) => harness(hint::with_default(
            format!(
                "out of memory on the machine or in the container around dyno: the kernel killed \
                 {count} of its processes: {symptom}"
            ),
            "stop other programs, or raise the memory of the machine or the container",
        )),
    }
}

/// Returns a failure of the machine or of dyno, not of the subject.
pub(super) fn harness(message: String) -> Failure {
    Failure { kind: FailureKind::Harness, message }
}

/// Returns the failure of a part whose command did not succeed. `kind`: the kind if the command
/// itself has failed.
pub(super) fn command_failure(name: &str, error: &CommandError, kind: FailureKind) -> Failure {
    let message = format!("its command for {name} {error}");
    match error {
        CommandError::NotRun(_) => harness(message),
        CommandError::Failed(_) => Failure { kind, message },
        CommandError::Interrupted => interrupted_failure(),
    }
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

    use FailureKind::{Crashed, Deaf, IncorrectResponses, OutOfMemory};

    fn judged_failure(
        exit_status: Option<i32>,
        oom_kills: u64,
        response: Result<(), &str>,
        event: LastEvent<'_>,
    ) -> Option<(FailureKind, String)> {
        let response = response.map_err(io::Error::other);
        let oom_kills = OomKills { count: oom_kills, is_limit_reached: true };
        let failure = judge(exit_status.map(ExitStatus::from_raw), oom_kills, &response, event)?;
        Some((failure.kind, failure.message))
    }

    fn check_result() -> CheckResult {
        CheckResult {
            is_lifecycle: false,
            name: "json".into(),
            protocol: Protocol::H1,
            ok: false,
            has_response: true,
            waived: false,
            asked: "GET /json".into(),
            expected: "status 200".into(),
            got: "500".into(),
        }
    }

    #[test]
    fn failed_check_is_reported_with_server_state() {
        let check = check_result();
        let check = LastEvent::Check(&check);
        let reason = "check \"json\": asked GET /json; expected status 200; got: 500";
        let killed = "its process ended with signal: 9 (SIGKILL) during the checks";
        let deaf = "it runs, but stopped responding during the checks";
        let limit = "the memory limit killed 2 of its processes";
        for (exit_status, oom_kills, response, kind, message) in [
            (None, 0, Ok(()), IncorrectResponses, reason.to_string()),
            (None, 0, Err("refused"), Deaf, format!("{deaf}: {reason}")),
            // The process has exited, even if another process responds in its place.
            (Some(9), 0, Ok(()), Crashed, format!("{killed}: {reason}")),
            (Some(9), 0, Err("refused"), Crashed, format!("{killed}: {reason}")),
            (None, 2, Ok(()), OutOfMemory, format!("{limit}: {reason}")),
            (Some(9), 2, Err("refused"), OutOfMemory, format!("{limit}: {killed}: {reason}")),
        ] {
            let judged = judged_failure(exit_status, oom_kills, response, check);
            assert_eq!(judged, Some((kind, message)), "{exit_status:?} {oom_kills} {response:?}");
        }
    }

    #[test]
    fn server_without_response_after_step_has_failed() {
        let deaf = "it runs, but did not respond to a request after the step";
        let restarted = "it still responds";
        let limit = "the memory limit killed 1 of its processes";
        let exited = "its process ended with exit status: 3 after the step";
        for (exit_status, oom_kills, response, wanted) in [
            (None, 0, Ok(()), None),
            (
                None,
                0,
                Err("no response in time"),
                Some((Deaf, format!("{deaf}: no response in time"))),
            ),
            (Some(3 << 8), 0, Err("refused"), Some((Crashed, exited.to_string()))),
            (None, 1, Ok(()), Some((OutOfMemory, format!("{limit}: {restarted}")))),
            (Some(3 << 8), 1, Err("refused"), Some((OutOfMemory, format!("{limit}: {exited}")))),
        ] {
            let judged = judged_failure(exit_status, oom_kills, response, LastEvent::Step);
            assert_eq!(judged, wanted, "{exit_status:?} {oom_kills} {response:?}");
        }
    }

    #[test]
    fn shortage_of_dyno_is_harness_failure() {
        let check = check_result();
        for event in [LastEvent::Step, LastEvent::Check(&check)] {
            let judged = |exit_status| {
                let response = Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
                let oom_kills = OomKills { count: 0, is_limit_reached: false };
                judge(exit_status, oom_kills, &response, event).unwrap()
            };
            let failure = judged(None);
            assert_eq!(failure.kind, FailureKind::Harness, "{failure:?}");
            assert_eq!(judged(Some(ExitStatus::from_raw(9))).kind, Crashed);
        }
    }

    #[test]
    fn command_that_was_not_run_is_harness_failure() {
        let failure =
            |error: CommandError| command_failure("`seed`", &error, FailureKind::DataFailed);
        assert_eq!(failure(CommandError::NotRun("no memory".into())).kind, FailureKind::Harness);
        let failed = failure(CommandError::Failed("ended with exit status: 1".into()));
        assert_eq!(failed.message, "its command for `seed` ended with exit status: 1");
        assert_eq!(failed.kind, FailureKind::DataFailed);
        assert_eq!(failure(CommandError::Interrupted).kind, FailureKind::Interrupted);
    }

    #[test]
    fn server_exit_under_load_is_failure_message() {
        let words = "its process ended with signal: 11 under load";
        let load =
            |oom_kills| judged_failure(None, oom_kills, Ok(()), LastEvent::Load(words)).unwrap();
        assert_eq!(load(0), (Crashed, words.into()));
        let limit = "the memory limit killed 3 of its processes";
        assert_eq!(load(3), (OutOfMemory, format!("{limit}: {words}")));
    }

    #[test]
    fn kill_without_reached_limit_is_machine_failure() {
        let judged = |event, response| {
            let oom_kills = OomKills { count: 2, is_limit_reached: false };
            judge(None, oom_kills, &response, event).unwrap()
        };
        for failure in [
            judged(LastEvent::Step, Ok(())),
            judged(LastEvent::Step, Err(io::Error::other("refused"))),
            judged(LastEvent::Load("its process ended with signal: 9 under load"), Ok(())),
        ] {
            assert_eq!(failure.kind, FailureKind::Harness, "{failure:?}");
            let message = &failure.message;
            assert!(message.starts_with("out of memory on the machine or in"), "{message}");
            assert!(message.contains("killed 2 of its processes: it"), "{message}");
            assert!(message.contains("\nhint: stop other programs"), "{message}");
        }
    }
}
