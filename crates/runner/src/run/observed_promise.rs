//! What was observed of a promise about a server's lifecycle, and whether the start failed instead.

use std::process::ExitStatus;

use dyno_archive::start::{Failure, FailureKind};
use dyno_archive::trial::CheckResult;
use dyno_contract::exchange::Problem;
use dyno_observer::cgroup::OomKills;

use super::judge::memory_first;

/// What was observed of a promise.
#[derive(Debug)]
pub(super) struct ObservedPromise {
    pub(super) result: Result<String, Problem>,
    /// Processes of the start that the kernel killed for lack of memory.
    pub(super) oom_kills: OomKills,
    /// Exit status of a server that was not to end.
    pub(super) ended: Option<ExitStatus>,
}

impl ObservedPromise {
    /// A promise that could not be checked, or for whose check no server was started.
    pub(super) fn unchecked(problem: Problem) -> ObservedPromise {
        ObservedPromise { result: Err(problem), oom_kills: OomKills::default(), ended: None }
    }
}

/// Returns the failure of the start in which a promise was broken: it ran out of memory, or ended
/// without being asked to. `None`: the server did not do what it promised.
pub(super) fn failure_behind(
    result: &CheckResult,
    oom_kills: OomKills,
    ended: Option<ExitStatus>,
) -> Option<Failure> {
    if result.ok || oom_kills.count == 0 && ended.is_none() {
        return None;
    }
    let end = ended.map_or(String::new(), |status| format!("its process ended with {status}, "));
    let message = format!(
        "{end}in a separate start for the lifecycle checks: check {:?}: {}",
        result.name,
        result.detail()
    );
    Some(memory_first(oom_kills, Failure { kind: FailureKind::Crashed, message }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use dyno_archive::Protocol;

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
        let kind = |ok, kills, ended| {
            failure_behind(&result(ok), kills, ended).map(|failure| failure.kind)
        };
        let ended = Some(ExitStatus::from_raw(9));
        assert_eq!(kind(false, kills(0, false), None), None);
        assert_eq!(kind(false, kills(1, false), None), Some(FailureKind::Harness));
        assert_eq!(kind(false, kills(1, true), ended), Some(FailureKind::OutOfMemory));
        assert_eq!(kind(false, kills(0, false), ended), Some(FailureKind::Crashed));
        assert_eq!(kind(true, kills(1, true), ended), None, "the promise was kept");
    }
}
