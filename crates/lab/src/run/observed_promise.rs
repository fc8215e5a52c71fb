//! The observed result of a promise about a server's lifecycle. If the start itself failed, the
//! failure is reported instead of a broken promise.

use std::process::ExitStatus;

use dyno_contract::problem::Problem;
use dyno_model::start::{Failure, FailureKind};
use dyno_model::trial::CheckResult;
use dyno_observer::cgroup::OomKills;

use super::failure_cause::memory_first;

/// The observed result of a promise.
#[derive(Debug)]
pub(super) struct ObservedPromise {
    pub(super) result: Result<String, Problem>,
    /// Processes of the start that the kernel killed for lack of memory.
    pub(super) oom_kills: OomKills,
    /// Exit status of a server that ended although it should run.
    pub(super) ended: Option<ExitStatus>,
}

impl ObservedPromise {
    /// Returns the result of a promise that could not be checked.
    pub(super) fn unchecked(problem: Problem) -> ObservedPromise {
        ObservedPromise { result: Err(problem), oom_kills: OomKills::default(), ended: None }
    }
}

/// Returns the failure of the start that caused a broken promise: the server ran out of memory, or
/// ended before dyno sent a signal. `None`: the start did not fail, so the server broke its
/// promise.
pub(super) fn start_failure(
    result: &CheckResult,
    oom_kills: OomKills,
    ended: Option<ExitStatus>,
) -> Option<Failure> {
    if result.ok || oom_kills.count == 0 && ended.is_none() {
        return None;
    }
    let end = ended.map_or(String::new(), |status| format!("its process ended with {status} "));
    let message = format!(
        "{end}in a separate start, to check how the server starts and stops, at the check {:?}: {}",
        result.name,
        result.detail()
    );
    Some(memory_first(oom_kills, Failure { kind: FailureKind::Crashed, message }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use dyno_model::Protocol;

    use super::*;

    #[test]
    fn killed_server_is_failure_and_no_broken_promise() {
        let result = |ok| CheckResult {
            name: "stops".into(),
            protocol: Protocol::H1,
            ok,
            has_response: false,
            waived: false,
            is_lifecycle: true,
            asked: String::new(),
            expected: String::new(),
            got: "nothing".into(),
        };
        let kills = |count, is_limit_reached| OomKills { count, is_limit_reached };
        let kind =
            |ok, kills, ended| start_failure(&result(ok), kills, ended).map(|failure| failure.kind);
        let ended = Some(ExitStatus::from_raw(9));
        assert_eq!(kind(false, kills(0, false), None), None);
        assert_eq!(kind(false, kills(1, false), None), Some(FailureKind::Harness));
        assert_eq!(kind(false, kills(1, true), ended), Some(FailureKind::OutOfMemory));
        assert_eq!(kind(false, kills(0, false), ended), Some(FailureKind::Crashed));
        assert_eq!(kind(true, kills(1, true), ended), None, "the promise was kept");
    }
}
