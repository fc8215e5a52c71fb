//! Finds the reason why a subject has failed, from its exit status, memory kills and responses. The
//! reason decides whether the failure is a result of the subject or a fault of the machine.

use std::io;
use std::process::ExitStatus;

use dyno_config::hint;
use dyno_contract::problem::is_own_shortage;
use dyno_launch::tool::CommandError;
use dyno_model::start::{Failure, FailureKind};
use dyno_model::trial::CheckResult;
use dyno_observer::cgroup::OomKills;

/// The last event of a subject before the test whether it has failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum LastEvent<'a> {
    /// A failed check of its contract.
    Check(&'a CheckResult),
    /// A load under which its process exited, with the status in words.
    Load(&'a str),
    /// A load that ran to its end.
    Step,
}

/// Returns why a subject cannot be used any further. `None`: the subject still responds, and has
/// not failed.
///
/// `exit_status`: exit status of the subject's first process, if the process has exited.
/// `oom_kills`: processes of the subject that were killed for lack of memory. `response`: whether
/// the subject responded to a request that every running subject serves, or why not.
pub(super) fn find_failure(
    exit_status: Option<ExitStatus>,
    oom_kills: OomKills,
    response: &io::Result<()>,
    event: LastEvent<'_>,
) -> Option<Failure> {
    let failure = match event {
        LastEvent::Check(check) => failure_after_check(exit_status, response, check),
        LastEvent::Load(message) => Failure { kind: FailureKind::Crashed, message: message.into() },
        LastEvent::Step => failure_after_step(exit_status, oom_kills, response)?,
    };
    Some(memory_first(oom_kills, failure))
}

/// Returns the failure that a failed check shows: incorrect responses, or a dead server.
fn failure_after_check(
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
                message: format!(
                    "its process runs, but stopped responding during the checks: {message}"
                ),
            },
            Ok(()) => Failure { kind: FailureKind::IncorrectResponses, message },
        },
    }
}

/// Returns the failure if dyno lacks the resources to test whether a part responds. `when`: the
/// time of the test.
pub(super) fn unknown_response(when: &str, error: &io::Error) -> Failure {
    harness(format!(
        "dyno could not test whether the process responds {when}, because dyno lacks the resources \
         for a connection: {error}"
    ))
}

/// Returns the failure after a load that ran to its end; `None`: the server responds.
fn failure_after_step(
    exit_status: Option<ExitStatus>,
    oom_kills: OomKills,
    response: &io::Result<()>,
) -> Option<Failure> {
    let message = match response {
        Err(error) if exit_status.is_none() && is_own_shortage(error) => {
            return Some(unknown_response("after the step", error));
        }
        Err(error) => {
            format!("its process runs, but did not respond to a request after the step: {error}")
        }
        // A server that lost some of its processes may still respond, but the loss is a failure.
        Ok(()) if oom_kills.count > 0 => "its other processes still respond".into(),
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

/// Reports the lack of memory as the cause if the kernel killed a process, because every other
/// symptom follows from the kill. If no memory limit was reached, the machine has failed.
pub(super) fn memory_first(oom_kills: OomKills, failure: Failure) -> Failure {
    let OomKills { count, is_limit_reached } = oom_kills;
    let symptom = &failure.message;
    match (count, is_limit_reached) {
        (0, _) => failure,
        (_, true) => Failure {
            kind: FailureKind::OutOfMemory,
            message: format!(
                "the kernel killed processes ({count}), because the memory limit was reached: \
                 {symptom}"
            ),
        },
        (_, false) => harness(hint::with_default(
            format!(
                "the machine, or the container around dyno, ran out of memory, so the kernel \
                 killed processes ({count}): {symptom}"
            ),
            "stop other programs, or give the machine or the container more memory",
        )),
    }
}

/// Returns a failure of the test harness, which is the machine or dyno, not the subject.
pub(super) fn harness(message: String) -> Failure {
    Failure { kind: FailureKind::Harness, message }
}

/// Returns the failure of a part whose command did not succeed. `kind`: the kind of the failure if
/// the command itself has failed.
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

    use dyno_model::Protocol;

    use FailureKind::{Crashed, Deaf, IncorrectResponses, OutOfMemory};

    fn found_failure(
        exit_status: Option<i32>,
        oom_kills: u64,
        response: Result<(), &str>,
        event: LastEvent<'_>,
    ) -> Option<(FailureKind, String)> {
        let response = response.map_err(io::Error::other);
        let oom_kills = OomKills { count: oom_kills, is_limit_reached: true };
        let failure =
            find_failure(exit_status.map(ExitStatus::from_raw), oom_kills, &response, event)?;
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
        let deaf = "its process runs, but stopped responding during the checks";
        let limit = "the kernel killed processes (2), because the memory limit was reached";
        for (exit_status, oom_kills, response, kind, message) in [
            (None, 0, Ok(()), IncorrectResponses, reason.to_string()),
            (None, 0, Err("refused"), Deaf, format!("{deaf}: {reason}")),
            // The process has exited, even if another process responds in its place.
            (Some(9), 0, Ok(()), Crashed, format!("{killed}: {reason}")),
            (Some(9), 0, Err("refused"), Crashed, format!("{killed}: {reason}")),
            (None, 2, Ok(()), OutOfMemory, format!("{limit}: {reason}")),
            (Some(9), 2, Err("refused"), OutOfMemory, format!("{limit}: {killed}: {reason}")),
        ] {
            let found = found_failure(exit_status, oom_kills, response, check);
            assert_eq!(found, Some((kind, message)), "{exit_status:?} {oom_kills} {response:?}");
        }
    }

    #[test]
    fn server_without_response_after_step_has_failed() {
        let deaf = "its process runs, but did not respond to a request after the step";
        let restarted = "its other processes still respond";
        let limit = "the kernel killed processes (1), because the memory limit was reached";
        let exited = "its process ended with exit status: 3 after the step";
        for (exit_status, oom_kills, response, expected) in [
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
            let found = found_failure(exit_status, oom_kills, response, LastEvent::Step);
            assert_eq!(found, expected, "{exit_status:?} {oom_kills} {response:?}");
        }
    }

    #[test]
    fn shortage_of_dyno_is_harness_failure() {
        let check = check_result();
        for event in [LastEvent::Step, LastEvent::Check(&check)] {
            let found = |exit_status| {
                let response = Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
                let oom_kills = OomKills { count: 0, is_limit_reached: false };
                find_failure(exit_status, oom_kills, &response, event).unwrap()
            };
            let failure = found(None);
            assert_eq!(failure.kind, FailureKind::Harness, "{failure:?}");
            assert_eq!(found(Some(ExitStatus::from_raw(9))).kind, Crashed);
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
            |oom_kills| found_failure(None, oom_kills, Ok(()), LastEvent::Load(words)).unwrap();
        assert_eq!(load(0), (Crashed, words.into()));
        let limit = "the kernel killed processes (3), because the memory limit was reached";
        assert_eq!(load(3), (OutOfMemory, format!("{limit}: {words}")));
    }

    #[test]
    fn kill_without_reached_limit_is_machine_failure() {
        let found = |event, response| {
            let oom_kills = OomKills { count: 2, is_limit_reached: false };
            find_failure(None, oom_kills, &response, event).unwrap()
        };
        for failure in [
            found(LastEvent::Step, Ok(())),
            found(LastEvent::Step, Err(io::Error::other("refused"))),
            found(LastEvent::Load("its process ended with signal: 9 under load"), Ok(())),
        ] {
            assert_eq!(failure.kind, FailureKind::Harness, "{failure:?}");
            let message = &failure.message;
            assert!(
                message.starts_with("the machine, or the container around dyno, ran out of memory"),
                "{message}"
            );
            assert!(message.contains("killed processes (2): it"), "{message}");
            assert!(message.contains("\nhint: stop other programs"), "{message}");
        }
    }
}
