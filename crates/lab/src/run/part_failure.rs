//! Finds the part of a start that caused a failure, and the reason of the failure. A failing back
//! end must not be reported as a failure of the subject.

use std::collections::BTreeSet;
use std::io;

use dyno_launch::tool::CommandError;
use dyno_model::start::{Failure, FailureKind};
use dyno_model::trial::CheckResult;
use dyno_model::{LoadRecord, Protocol};

use FailureKind::BackendFailed;

use super::failure_cause::{self, LastEvent, command_failure, memory_first};
use super::host::{CheckDepth, Launched, Part, RequiredListeners};
use crate::drops::DropWatch;

impl<P: Part> Launched<'_, P> {
    /// Checks that the subject still serves after a load. A failure is also added to the load's
    /// record. If one of its back ends has failed, the back end is reported as the cause. `drops`:
    /// begun after the load.
    pub(super) fn after_load(
        &mut self,
        record: &mut LoadRecord,
        drops: DropWatch,
    ) -> Result<(), Failure> {
        let drops = drops.after_load(record);
        let subject_result = failure_after_load(self.subject, record);
        let depth = if has_responses_at_end(record) { CheckDepth::Cheap } else { CheckDepth::Full };
        let failed = match subject_result {
            Err(failure) => Some(blame(self.backends, failure)),
            Ok(()) => backend_failure(self.backends, None)
                .or_else(|| silent_backend(self.backends, None, depth)),
        };
        let Some(failed) = failed else { return Ok(()) };
        let kind = failed.failure.kind;
        let failure = failed.explain(drops);
        // `explain` changes the kind if the machine dropped packets. Drops are no failure of the
        // server, and have a caveat. If the user interrupted the search for the cause, no failure
        // is known.
        let is_of_server = failure.kind == kind && kind != FailureKind::Interrupted;
        record.server_failure = is_of_server.then(|| failure.in_words());
        Err(failure)
    }

    /// Evaluates the results of the subject's checks. Returns the protocols over which a check
    /// failed. `can_continue`: whether the start has work left without these protocols. `drops`:
    /// begun before the checks. `Err`: the start has to end, for one of these reasons:
    /// - The start has no work left.
    /// - The subject is dead.
    /// - A back end or the machine failed, and may have caused the failed checks.
    /// - The user interrupted the search for the cause.
    pub(super) fn evaluate_checks(
        &mut self,
        checks: &[CheckResult],
        drops: DropWatch,
        can_continue: impl Fn(&BTreeSet<Protocol>) -> bool,
    ) -> Result<BTreeSet<Protocol>, Failure> {
        let broken = checks.iter().filter(|check| check.is_broken());
        let protocols = broken.flat_map(CheckResult::counted_protocols).copied().collect();
        let Some(failure) = failure_after_checks(self.subject, checks) else {
            return Ok(protocols);
        };
        let failure = blame(self.backends, failure).explain(drops);
        let is_incorrect = failure.kind == FailureKind::IncorrectResponses;
        if is_incorrect && can_continue(&protocols) { Ok(protocols) } else { Err(failure) }
    }

    /// Resets the data of all back ends. If the reset of a running back end fails while the machine
    /// drops packets, the machine has failed. `drops`: begun before.
    pub(super) fn reset(&mut self, drops: DropWatch) -> Result<(), Failure> {
        let failed = |name: &str, error: &CommandError| {
            let failure = command_failure("`reset`", error, BackendFailed);
            let message = format!("back end {name}: {}", failure.message);
            Failure { message, ..failure }
        };
        for part in &mut *self.backends {
            if let Err(error) = part.reset() {
                let failure = failed(part.name(), &error);
                let is_silent = part.exit_status().is_none();
                return Err(PartFailure { failure, is_silent }.explain(drops));
            }
        }
        Ok(())
    }
}

/// The failure of a start, as it was observed at the part that failed.
pub(super) struct PartFailure {
    failure: Failure,
    /// Whether the part is a running back end that does not respond. The machine may have dropped
    /// the packets to or from the back end.
    is_silent: bool,
}

impl PartFailure {
    /// Returns the failure of the part. If the machine dropped packets while the part seemed to
    /// fail, returns a failure of the machine.
    pub(super) fn explain(self, drops: DropWatch) -> Failure {
        match self.is_silent {
            true => drops.explain_silence(self.failure),
            false => drops.explain(self.failure),
        }
    }
}

/// Returns a failure of the subject, or of the back end that caused it. If the user interrupted the
/// test of a back end, the cause is unknown, and the failure is the interrupt.
pub(super) fn blame<P: Part>(backends: &mut [P], failure: Failure) -> PartFailure {
    // Only a subject with one of these failures may be waiting for a back end. With any other
    // failure, the subject exited by itself, unless a back end has exited, too.
    let may_be_waiting = matches!(
        failure.kind,
        FailureKind::NeverReady
            | FailureKind::DataFailed
            | FailureKind::Deaf
            | FailureKind::IncorrectResponses
    );
    let depth = CheckDepth::Full;
    let silence_failure = match may_be_waiting {
        true => silent_backend(backends, Some(&failure), depth),
        false => None,
    };
    let of_backend = backend_failure(backends, Some(&failure)).or(silence_failure);
    of_backend.unwrap_or(PartFailure { failure, is_silent: false })
}

/// Returns the failure of a running back end that does not respond. `subject_failure`: failure that
/// was observed at the subject. If the user interrupted the test of a back end and no other back
/// end is silent, the result is the interrupt.
fn silent_backend<P: Part>(
    backends: &mut [P],
    subject_failure: Option<&Failure>,
    depth: CheckDepth,
) -> Option<PartFailure> {
    let mut interrupt = None;
    for part in backends {
        let is_running = part.exit_status().is_none();
        let silence = is_running.then(|| part.silence(depth)).flatten();
        match silence {
            None => {}
            Some(failure) if failure.kind == FailureKind::Interrupted => {
                interrupt = Some(PartFailure { failure, is_silent: false });
            }
            Some(failure) => return Some(silence_failure(part.name(), failure, subject_failure)),
        }
    }
    interrupt
}

/// Adds the name of a silent back end and the failure of the subject to the message of a failure.
fn silence_failure(name: &str, failure: Failure, subject_failure: Option<&Failure>) -> PartFailure {
    let Failure { kind, message: reason } = failure;
    let consequence = consequence_text(subject_failure);
    let message = format!("back end {name}: its process runs, but {reason}{consequence}");
    PartFailure { failure: Failure { kind, message }, is_silent: true }
}

/// Returns the failure of a back end that has exited, or has lost processes for lack of memory.
/// `subject_failure`: failure that was observed at the subject.
fn backend_failure<P: Part>(
    backends: &mut [P],
    subject_failure: Option<&Failure>,
) -> Option<PartFailure> {
    let describe_loss = |part: &mut P| {
        let oom_kills = part.oom_kills();
        let event = match part.exit_status() {
            Some(status) => format!("ended with {status}"),
            None if oom_kills.count > 0 => {
                "continues without these processes, or with new ones".into()
            }
            None => return None,
        };
        Some((event, oom_kills, part.name().to_string()))
    };
    let (event, oom_kills, name) = backends.iter_mut().find_map(describe_loss)?;
    let message = format!("back end {name} {event}{}", consequence_text(subject_failure));
    let failure = memory_first(oom_kills, Failure { kind: FailureKind::BackendFailed, message });
    // A back end that reached its memory limit is the cause of its failure. If the machine ran out
    // of memory, no part is the cause.
    let kind = match failure.kind {
        FailureKind::OutOfMemory => FailureKind::BackendFailed,
        kind => kind,
    };
    Some(PartFailure { failure: Failure { kind, ..failure }, is_silent: false })
}

/// Returns the end of a back end's failure message: the failure that was observed at the subject.
fn consequence_text(subject_failure: Option<&Failure>) -> String {
    subject_failure
        .map(|failure| format!(". Failure of the subject: {}", failure.message))
        .unwrap_or_default()
}

/// Returns the failure that the results of a subject's checks show. A subject that is dead has
/// failed, even if the check is waived.
fn failure_after_checks<P: Part>(subject: &mut P, results: &[CheckResult]) -> Option<Failure> {
    let failed = results.iter().find(|check| !check.ok)?;
    let response = subject.check_alive(RequiredListeners::Any);
    let is_dead = subject.exit_status().is_some() || response.is_err();
    let reported_check =
        if is_dead { failed } else { results.iter().find(|check| check.is_broken())? };
    find_failure(subject, &response, LastEvent::Check(reported_check))
}

/// Checks that a subject still serves after a load. A failure is also added to the load's record. A
/// response over one protocol is enough, because a protocol that does not work is visible in the
/// steps that use the protocol.
fn failure_after_load<P: Part>(subject: &mut P, record: &mut LoadRecord) -> Result<(), Failure> {
    let failure = match &record.server_failure {
        Some(message) => {
            let event = LastEvent::Load(message);
            failure_cause::find_failure(None, subject.oom_kills(), &Ok(()), event)
        }
        None => {
            let response = subject.check_alive(RequiredListeners::Any);
            find_failure(subject, &response, LastEvent::Step)
        }
    };
    let Some(failure) = failure.or_else(|| subject.other_listener()) else { return Ok(()) };
    record.server_failure = Some(failure.in_words());
    Err(failure)
}

/// Returns why a subject failed. `None`: the subject serves.
fn find_failure<P: Part>(
    subject: &mut P,
    response: &io::Result<()>,
    event: LastEvent<'_>,
) -> Option<Failure> {
    // The first call returns early if the subject has not failed. Only a failed subject may be
    // about to exit, so only then this function waits for the exit.
    failure_cause::find_failure(None, subject.oom_kills(), response, event)?;
    let exit_status = subject.wait_for_exit();
    failure_cause::find_failure(exit_status, subject.oom_kills(), response, event)
}

/// Returns whether there were responses in the last interval of a load.
fn has_responses_at_end(record: &LoadRecord) -> bool {
    let last = record.intervals.last();
    last.is_some_and(|interval| {
        interval.outcomes.iter().any(|(outcome, n)| outcome.is_completed() && n > 0)
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use dyno_launch::guard::Guard;
    use dyno_launch::supervision::{Interrupts, Supervision};

    use super::*;
    use crate::run::failure_cause::interrupted_failure;
    use crate::run::fixture;
    use crate::run::running_parts::{AliveCheck, RunningPart};

    #[test]
    fn silent_back_end_is_blamed_for_failed_start() {
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut backends = [fixture::part(&supervision, None, AliveCheck::Connect(vec![port]))];
        let mut blamed = |kind| {
            let failure = Failure { kind, message: "no response by its deadline".into() };
            blame(&mut backends, failure).failure
        };
        use FailureKind::{BackendFailed, Crashed, NeverReady};
        assert_eq!(blamed(NeverReady).kind, NeverReady, "the back end responds");
        drop(listener);
        let failure = blamed(NeverReady);
        assert_eq!(failure.kind, BackendFailed, "{failure:?}");
        assert!(failure.message.starts_with("back end x: its process runs, but does not respond"));
        assert!(failure.message.ends_with("Failure of the subject: no response by its deadline"));
        assert_eq!(blamed(Crashed).kind, Crashed);
    }

    /// Without a response, nothing is known about a server that runs.
    #[test]
    fn failed_check_needs_response_of_running_server() {
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut subject = fixture::part(&supervision, None, AliveCheck::Connect(vec![port]));
        let mut kind_after_check = |has_response| {
            let check = CheckResult {
                name: "json".into(),
                protocol: Protocol::H1,
                ok: false,
                has_response,
                waived: false,
                is_lifecycle: false,
                asked: String::new(),
                expected: String::new(),
                got: String::new(),
            };
            failure_after_checks(&mut subject, &[check]).map(|failure| failure.kind)
        };
        assert_eq!(kind_after_check(false), None);
        assert_eq!(kind_after_check(true), Some(FailureKind::IncorrectResponses));
    }

    /// The kernel still accepts connections for a back end that hangs, so only its readiness
    /// command shows that it does.
    #[test]
    fn readiness_command_is_run_again_after_failure() {
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let blamed = |command: &str| {
            let alive = AliveCheck::Command(fixture::command(command));
            let failure = Failure { kind: FailureKind::Deaf, message: "silent".into() };
            blame(&mut [fixture::part(&supervision, None, alive)], failure).failure
        };
        assert_eq!(blamed("true").kind, FailureKind::Deaf);
        let failure = blamed("echo no row; exit 4");
        assert_eq!(failure.kind, FailureKind::BackendFailed);
        let reason = "back end x: its process runs, but its command for `ready`, run again, ended \
                      with exit status: 4:\nno row. Failure of the subject: silent";
        assert_eq!(failure.message, reason);
    }

    /// The kernel drops the SYN of each connection to a database that works.
    #[test]
    fn silent_back_end_during_drops_is_machine_failure() {
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let mut backends = [fixture::part(&supervision, None, AliveCheck::Connect(vec![port]))];
        let mut explained = |kind, drops| {
            let failure = Failure { kind, message: "status 500".into() };
            blame(&mut backends, failure).explain(drops)
        };
        let drops = DropWatch::with_tracking_drops(3);
        for kind in [FailureKind::IncorrectResponses, FailureKind::Deaf] {
            let failure = explained(kind, drops);
            assert_eq!(failure.kind, FailureKind::Harness, "{failure:?}");
            assert!(failure.message.contains("3 by connection tracking"), "{failure:?}");
            assert!(failure.message.contains("back end x: its process runs"), "{failure:?}");
        }
        let mut ended = [fixture::part(&supervision, None, AliveCheck::Connect(vec![port]))];
        let pid = ended[0].process.pid().to_string();
        std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap();
        while ended[0].process.exit_status().is_none() {
            thread::yield_now();
        }
        let failure = Failure { kind: FailureKind::Deaf, message: "silent".into() };
        let failure = blame(&mut ended, failure).explain(drops);
        assert_eq!(
            failure.kind,
            FailureKind::BackendFailed,
            "the back end ended by itself: {failure:?}"
        );
    }

    /// A back end whose readiness command never ends.
    fn hung_backend<'a>(supervision: &Supervision<'a>) -> RunningPart<'a> {
        fixture::part(supervision, None, AliveCheck::Command(fixture::command("sleep 98756")))
    }

    #[test]
    fn interrupted_test_of_back_end_blames_no_server() {
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        interrupts.raise();
        let failure = |kind| Failure { kind, message: "no correct response".into() };
        use FailureKind::{BackendFailed, Crashed, IncorrectResponses, Interrupted};
        let mut backends = vec![hung_backend(&supervision)];
        let blamed =
            |backends: &mut [RunningPart<'_>], kind| blame(backends, failure(kind)).failure;
        assert_eq!(blamed(&mut backends, IncorrectResponses), interrupted_failure());
        assert_eq!(blamed(&mut backends, Crashed).kind, Crashed);
        // After a load without responses at its end.
        let mut parts = vec![
            hung_backend(&supervision),
            fixture::part(&supervision, None, AliveCheck::Connect(vec![])),
        ];
        let mut record = fixture::load_without_responses();
        let after_load = Launched::new(&mut parts).after_load(&mut record, DropWatch::begin());
        assert_eq!((after_load.unwrap_err().kind, record.server_failure), (Interrupted, None));
        // The failure of another back end is known, in any order. Port 1 has no listener.
        backends.push(fixture::part(&supervision, None, AliveCheck::Connect(vec![1])));
        let failure = blamed(&mut backends, IncorrectResponses);
        assert_eq!(failure.kind, BackendFailed, "{failure:?}");
    }
}
