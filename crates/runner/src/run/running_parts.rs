//! Monitors the running parts of a start (the subject and its back ends): samples them, checks
//! whether they respond, and finds the part that caused a failure. A failing back end must not be
//! reported as a failure of the subject.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dyno_archive::plan::Workload;
use dyno_archive::probe::RequestedProbes;
use dyno_archive::start::{Failure, FailureKind};
use dyno_archive::trial::CheckResult;
use dyno_archive::{LoadRecord, Party, Protocol, Sample};
use dyno_contract::client::{BodyRetention, ProbeClient};
use dyno_contract::contracts::{Check, protocol_checks};
use dyno_contract::exchange::ServerLoad;
use dyno_contract::listener::Listener;
use dyno_contract::problem::is_own_shortage;
use dyno_launch::process::Process;
use dyno_launch::secret_values::SecretValues;
use dyno_launch::supervision::Supervision;
use dyno_launch::tool::{CommandError, ServerCommand};
use dyno_observer::kernel_probes::PartyMonitor;
use dyno_observer::proc::ListenerOwner;
use dyno_observer::{Files, Reads, Scope, probes, sockets};
use dyno_subject::definition::Definition;

use FailureKind::BackendFailed;

use super::failure_cause::{
    LastEvent, command_failure, find_failure, memory_first, unknown_response,
};
use crate::contract_check;
use crate::drops::DropWatch;
use crate::limits::ALIVE_TIMEOUT;
use crate::runtime::SampledRuntime;

/// All parts of a start.
pub(super) struct Launched<'a> {
    /// In the order in which they were started.
    pub(super) backends: &'a mut [RunningPart],
    pub(super) subject: &'a mut RunningPart,
}

impl<'a> Launched<'a> {
    /// Wraps the running parts, the subject last.
    pub(super) fn new(parts: &'a mut [RunningPart]) -> Self {
        let (subject, backends) = parts.split_last_mut().expect("a start should have a subject");
        Launched { backends, subject }
    }

    /// Checks that the subject still serves after a load. A failure is also added to the load's
    /// record. If one of its back ends has failed, the back end is reported as the cause.
    pub(super) fn after_load(
        &mut self,
        record: &mut LoadRecord,
        supervision: &Supervision<'_>,
    ) -> Result<(), Failure> {
        let drops = DropWatch::after_load(record);
        let subject_result = self.subject.after_load(record);
        let depth = if has_responses_at_end(record) { CheckDepth::Cheap } else { CheckDepth::Full };
        let failed = match subject_result {
            Err(failure) => Some(blame(self.backends, failure, supervision)),
            Ok(()) => backend_failure(self.backends, None)
                .or_else(|| silent_backend(self.backends, None, depth, supervision)),
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
        supervision: &Supervision<'_>,
        can_continue: impl Fn(&BTreeSet<Protocol>) -> bool,
    ) -> Result<BTreeSet<Protocol>, Failure> {
        let broken = checks.iter().filter(|check| check.is_broken());
        let protocols = broken.flat_map(CheckResult::counted_protocols).copied().collect();
        let Some(failure) = self.subject.failure_after_checks(checks) else { return Ok(protocols) };
        let failure = blame(self.backends, failure, supervision).explain(drops);
        let is_incorrect = failure.kind == FailureKind::IncorrectResponses;
        if is_incorrect && can_continue(&protocols) { Ok(protocols) } else { Err(failure) }
    }

    /// Resets the data of all back ends. If the reset of a running back end fails while the machine
    /// drops packets, the machine has failed.
    pub(super) fn reset(&mut self, supervision: &Supervision<'_>) -> Result<(), Failure> {
        let drops = DropWatch::begin();
        let failed = |name: &str, error: &CommandError| {
            let failure = command_failure("`reset`", error, BackendFailed);
            let message = format!("back end {name}: {}", failure.message);
            Failure { message, ..failure }
        };
        for part in &mut *self.backends {
            let Some(reset) = &part.reset else { continue };
            if let Err(error) = reset.run(supervision) {
                let failure = failed(&part.name, &error);
                let is_silent = part.process.exit_status().is_none();
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
pub(super) fn blame(
    backends: &mut [RunningPart],
    failure: Failure,
    supervision: &Supervision<'_>,
) -> PartFailure {
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
        true => silent_backend(backends, Some(&failure), depth, supervision),
        false => None,
    };
    let of_backend = backend_failure(backends, Some(&failure)).or(silence_failure);
    of_backend.unwrap_or(PartFailure { failure, is_silent: false })
}

/// Returns the failure of a running back end that does not respond. `subject_failure`: failure that
/// was observed at the subject. If the user interrupted the test of a back end and no other back
/// end is silent, the result is the interrupt.
fn silent_backend(
    backends: &mut [RunningPart],
    subject_failure: Option<&Failure>,
    depth: CheckDepth,
    supervision: &Supervision<'_>,
) -> Option<PartFailure> {
    let mut interrupt = None;
    for part in backends {
        let is_running = part.process.exit_status().is_none();
        let silence = is_running.then(|| part.silence(depth, supervision)).flatten();
        match silence {
            None => {}
            Some(failure) if failure.kind == FailureKind::Interrupted => {
                interrupt = Some(PartFailure { failure, is_silent: false });
            }
            Some(failure) => return Some(silence_failure(&part.name, failure, subject_failure)),
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
fn backend_failure(
    backends: &mut [RunningPart],
    subject_failure: Option<&Failure>,
) -> Option<PartFailure> {
    let describe_loss = |part: &mut RunningPart| {
        let oom_kills = part.process.oom_kills();
        let event = match part.process.exit_status() {
            Some(status) => format!("ended with {status}"),
            None if oom_kills.count > 0 => {
                "continues without these processes, or with new ones".into()
            }
            None => return None,
        };
        Some((event, oom_kills, part.name.clone()))
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

/// A running part of a start.
pub(super) struct RunningPart {
    pub(super) party: Party,
    pub(super) name: String,
    pub(super) process: Process,
    /// Probes of the part's processes. `None`: not requested, or not available.
    pub(super) monitor: Option<Arc<PartyMonitor>>,
    /// Why available probes are not attached to the processes. `None`: attaching did not fail.
    pub(super) monitor_failure: Option<String>,
    /// One per protocol that the part supports.
    pub(super) listeners: Vec<Arc<CheckedListener>>,
    pub(super) alive: AliveCheck,
    /// Runtime statistics. `None`: not available, or not requested.
    pub(super) runtime: Option<SampledRuntime>,
    /// Command that resets the part's data, if the part has such a command.
    pub(super) reset: Option<ServerCommand>,
    /// Command that makes the part list its compiled code for profiles, if the part needs one.
    pub(super) list_compiled: Option<ServerCommand>,
}

/// The listeners of a part that have to respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequiredListeners {
    Any,
    All,
}

/// Cost of a check whether a back end is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckDepth {
    /// Only checks of negligible cost.
    Cheap,
    /// Also the back end's readiness command, because there was a failure.
    Full,
}

/// Returns whether there were responses in the last interval of a load.
fn has_responses_at_end(record: &LoadRecord) -> bool {
    let last = record.intervals.last();
    last.is_some_and(|interval| {
        interval.outcomes.iter().any(|(outcome, n)| outcome.is_completed() && n > 0)
    })
}

/// Check whether a part is alive.
pub(super) enum AliveCheck {
    /// The part responds to GET of this path, with any status. `plain`: client for a part that
    /// declares no protocol.
    Request { path: String, plain: Option<ProbeClient> },
    /// These ports accept connections.
    Connect(Vec<u16>),
    /// This command succeeds. It is run only after a failure, because it takes CPU time from all
    /// parts.
    Command(ServerCommand),
}

/// Returns the listener for a workload's protocol. `Err`: no such listener.
pub(super) fn listener<'a>(
    listeners: &'a [Arc<CheckedListener>],
    workload: &Workload,
) -> Result<&'a Arc<CheckedListener>, String> {
    let protocol = workload.protocol;
    let listener = listeners.iter().find(|listener| listener.listener().protocol == protocol);
    listener.ok_or_else(|| {
        format!(
            "the subject no longer supports {protocol}\nhint: check whether its subject.toml \
             changed"
        )
    })
}

impl RunningPart {
    /// Runs the contract's checks at every listener. `None`: the user interrupted them. Stops at
    /// the first failure of a part that no longer responds.
    pub(super) fn check(&self, is_ended: impl Fn() -> bool) -> Option<Vec<CheckResult>> {
        let mut results = Vec::new();
        for listener in &self.listeners {
            for check in &listener.checks {
                if is_ended() {
                    return None;
                }
                let result = listener.run(check, ServerLoad::Idle);
                let failed = !result.ok;
                results.push(result);
                if failed && self.check_alive(RequiredListeners::Any).is_err() {
                    return Some(results);
                }
            }
        }
        Some(results)
    }

    /// Returns the probes that measure this part. `available`: the probes that are available on the
    /// machine. Probes that could not be attached to the part's processes are refused.
    pub(super) fn probes_use(&self, mut available: RequestedProbes) -> RequestedProbes {
        if let Some(reason) = &self.monitor_failure {
            probes::refuse_unattached(&mut available, reason);
        }
        available
    }

    /// Returns the failure that the results of checks show. A part that is dead has failed, even if
    /// the check is waived.
    pub(super) fn failure_after_checks(&mut self, results: &[CheckResult]) -> Option<Failure> {
        let failed = results.iter().find(|check| !check.ok)?;
        let response = self.check_alive(RequiredListeners::Any);
        let is_dead = self.process.exit_status().is_some() || response.is_err();
        let reported_check =
            if is_dead { failed } else { results.iter().find(|check| check.is_broken())? };
        self.find_failure(&response, LastEvent::Check(reported_check))
    }

    /// Checks that the part still serves after a load. A failure is also added to the load's
    /// record. A response over one protocol is enough, because a protocol that does not work is
    /// visible in the steps that use the protocol.
    pub(super) fn after_load(&mut self, record: &mut LoadRecord) -> Result<(), Failure> {
        let failure = match &record.server_failure {
            Some(message) => {
                find_failure(None, self.process.oom_kills(), &Ok(()), LastEvent::Load(message))
            }
            None => self.find_failure(&self.check_alive(RequiredListeners::Any), LastEvent::Step),
        };
        let Some(failure) = failure.or_else(|| self.other_listener()) else { return Ok(()) };
        record.server_failure = Some(failure.in_words());
        Err(failure)
    }

    /// Returns a failure if another program listens at a port of the part. Some of the responses
    /// may be from that program, whose CPU time is not measured.
    fn other_listener(&self) -> Option<Failure> {
        let other = |listener: &Arc<CheckedListener>| {
            let port = listener.listener().addr.port();
            match self.process.other_listener_at(port) {
                ListenerOwner::Process { pid, name } => Some((
                    port,
                    format!("{name}, process {pid}, which does not belong to this server"),
                )),
                ListenerOwner::Unknown => {
                    Some((port, "a program that dyno is not allowed to inspect".into()))
                }
                ListenerOwner::Absent => None,
            }
        };
        let (port, user) = self.listeners.iter().find_map(other)?;
        let message = format!(
            "port {port} is also used by {user}. Some responses may be from that program\nhint: \
             stop that program"
        );
        Some(Failure { kind: FailureKind::Harness, message })
    }

    /// Returns why the part failed. `None`: the part serves.
    fn find_failure(&mut self, response: &io::Result<()>, event: LastEvent<'_>) -> Option<Failure> {
        // The first call returns early if the part has not failed. Only a failed part may be about
        // to exit, so only then this function waits for the exit.
        find_failure(None, self.process.oom_kills(), response, event)?;
        let exit_status = self.wait_for_exit();
        find_failure(exit_status, self.process.oom_kills(), response, event)
    }

    /// Checks whether the part is alive, at negligible cost. `required`: the listeners that have to
    /// respond.
    fn check_alive(&self, required: RequiredListeners) -> io::Result<()> {
        let connect = |port: &u16| {
            let addr = SocketAddr::from(([127, 0, 0, 1], *port));
            TcpStream::connect_timeout(&addr, ALIVE_TIMEOUT).map(drop)
        };
        match &self.alive {
            AliveCheck::Request { path, plain } => {
                let clients = self.listeners.iter().map(|listener| &listener.client).chain(plain);
                let mut results = clients.map(|client| send_request(client, path));
                match required {
                    RequiredListeners::Any => first_success(results),
                    RequiredListeners::All => results.try_for_each(|result| result),
                }
            }
            AliveCheck::Connect(ports) => ports.iter().try_for_each(connect),
            AliveCheck::Command(_) => Ok(()),
        }
    }

    /// Returns the failure of a part that does not respond, or whose state is unknown. The message
    /// is the end of a sentence. If the user interrupted the test, the failure is the interrupt.
    /// `None`: the part responds, or is not tested at this depth.
    fn silence(&self, depth: CheckDepth, supervision: &Supervision<'_>) -> Option<Failure> {
        match &self.alive {
            AliveCheck::Command(command) if depth == CheckDepth::Full => {
                let error = command.run(supervision).err()?;
                Some(command_failure("`ready`, run again,", &error, BackendFailed))
            }
            AliveCheck::Command(_) => None,
            AliveCheck::Request { .. } | AliveCheck::Connect(_) => {
                let error = self.check_alive(RequiredListeners::All).err()?;
                let message = format!("does not respond: {error}");
                Some(match is_own_shortage(&error) {
                    true => unknown_response("now", &error),
                    false => Failure { kind: BackendFailed, message },
                })
            }
        }
    }

    /// Returns the exit status of the first process. Waits up to 0.2 s for the exit, because the
    /// sockets of a process close before its exit is visible.
    fn wait_for_exit(&mut self) -> Option<ExitStatus> {
        for _ in 0..100 {
            if let Some(status) = self.process.exit_status() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

/// Requests a path. A response that violates the protocol, or belongs to another protocol, also
/// shows that the server is alive.
fn send_request(client: &ProbeClient, path: &str) -> io::Result<()> {
    match client.get(path, ALIVE_TIMEOUT, BodyRetention::Beginning) {
        Err(error) if error.kind() != io::ErrorKind::InvalidData => Err(error),
        _ => Ok(()),
    }
}

/// Makes attempts until one succeeds. `Err`: all failed, with the first error. An error because
/// dyno lacks a resource takes precedence, because the attempt could have succeeded with the
/// resource.
fn first_success(attempts: impl Iterator<Item = io::Result<()>>) -> io::Result<()> {
    let mut first = Ok(());
    for attempt in attempts {
        match attempt {
            Ok(()) => return Ok(()),
            Err(error) if first.is_ok() || is_own_shortage(&error) => first = Err(error),
            Err(_) => {}
        }
    }
    first
}

/// The processes of a start while it is loaded.
pub(super) struct MonitoredProcesses<'a> {
    pub(super) subject: &'a mut Process,
    /// Probes of the subject's processes.
    pub(super) monitor: Option<&'a PartyMonitor>,
    pub(super) backends: &'a mut [RunningPart],
    /// Files that stay open from one sample to the next.
    pub(super) files: Files,
}

impl MonitoredProcesses<'_> {
    /// Reads the counters of all parts.
    pub(super) fn sample(&self, reads: Reads) -> Sample {
        dyno_observer::sample(&self.scopes().collect::<Vec<_>>(), reads, &self.files)
    }

    /// Reads the counters of all parts, except the counters of probes.
    pub(super) fn sample_without_probes(&self) -> Sample {
        let unmonitored = self.scopes().map(|scope| Scope { monitor: None, ..scope });
        dyno_observer::sample(&unmonitored.collect::<Vec<_>>(), Reads::All, &self.files)
    }

    fn scopes(&self) -> impl Iterator<Item = Scope<'_>> {
        let subject =
            Scope { party: Party::SUBJECT, sampler: &self.subject.sampler, monitor: self.monitor };
        let backends = self.backends.iter().map(|part| Scope {
            party: part.party,
            sampler: &part.process.sampler,
            monitor: part.monitor.as_deref(),
        });
        [subject].into_iter().chain(backends)
    }

    /// Adds the socket options of each part, and the queue lengths of their listeners.
    pub(super) fn read_sockets(&self, sample: &mut Sample) {
        for scope in self.scopes() {
            sample.party_use_mut(scope.party).sockets = sockets::read(&scope.sampler.pids());
        }
    }

    /// Adds how many processes of each part have left its control group.
    pub(super) fn count_strays(&self, sample: &mut Sample) {
        for scope in self.scopes() {
            sample.party_use_mut(scope.party).strays = Some(scope.sampler.strays());
        }
    }

    /// Makes the kernel reset each part's memory peak. Returns the parties (monitored process
    /// groups) whose peak was reset.
    pub(super) fn reset_peaks(&self) -> Vec<Party> {
        self.scopes()
            .filter(|scope| scope.sampler.group.reset_peak())
            .map(|scope| scope.party)
            .collect()
    }

    /// Returns the part that has exited, and its status, as the first half of a sentence.
    pub(super) fn exited_part(&mut self) -> Option<String> {
        if let Some(status) = self.subject.exit_status() {
            return Some(format!("its process ended with {status}"));
        }
        self.backends.iter_mut().find_map(|part| {
            let status = part.process.exit_status()?;
            Some(format!("its back end {} ended with {status}", part.name))
        })
    }
}

/// A listener with the client that probes it and the checks of its contract.
pub(super) struct CheckedListener {
    pub(super) client: ProbeClient,
    pub(super) checks: Vec<Check>,
    /// Names of checks that the server may fail.
    waive: Vec<String>,
    /// Secrets of its part's environment, which a response may quote.
    secrets: SecretValues,
}

impl CheckedListener {
    pub(super) fn new(
        definition: &Definition,
        listener: &Listener,
        secrets: SecretValues,
    ) -> Result<CheckedListener, String> {
        Ok(CheckedListener {
            client: ProbeClient::new(listener)?,
            checks: protocol_checks(&definition.contracts, listener.protocol).cloned().collect(),
            waive: definition.waive.clone(),
            secrets,
        })
    }

    pub(super) fn listener(&self) -> &Listener {
        self.client.listener()
    }

    pub(super) fn run(&self, check: &Check, server_load: ServerLoad) -> CheckResult {
        let waived = check.is_named_in(&self.waive, self.listener().protocol);
        let result = contract_check::run(check, &self.client, server_load);
        // A long response is quoted up to a limit, which may cut a secret.
        let got = self.secrets.erase(result.got.as_bytes(), &[result.got.len()]);
        CheckResult { waived, got, ..result }
    }
}

#[cfg(test)]
mod tests {
    use dyno_archive::probe::Probe;
    use dyno_launch::guard::Guard;
    use dyno_launch::supervision::Interrupts;

    use super::*;
    use crate::run::failure_cause::interrupted_failure;
    use crate::run::fixture;

    #[test]
    fn silent_back_end_is_blamed_for_failed_start() {
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut backends = [fixture::part(None, AliveCheck::Connect(vec![port]))];
        let mut blamed = |kind| {
            let failure = Failure { kind, message: "no response by its deadline".into() };
            blame(&mut backends, failure, &supervision).failure
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

    /// The kernel drops the SYN of each connection to a database that works.
    #[test]
    fn silent_back_end_during_drops_is_machine_failure() {
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let mut backends = [fixture::part(None, AliveCheck::Connect(vec![port]))];
        let mut explained = |kind, drops| {
            let failure = Failure { kind, message: "status 500".into() };
            blame(&mut backends, failure, &supervision).explain(drops)
        };
        let drops = DropWatch::with_tracking_drops(3);
        for kind in [FailureKind::IncorrectResponses, FailureKind::Deaf] {
            let failure = explained(kind, drops);
            assert_eq!(failure.kind, FailureKind::Harness, "{failure:?}");
            assert!(failure.message.contains("3 by connection tracking"), "{failure:?}");
            assert!(failure.message.contains("back end x: its process runs"), "{failure:?}");
        }
        let mut ended = [fixture::part(None, AliveCheck::Connect(vec![port]))];
        let pid = ended[0].process.pid().to_string();
        std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap();
        while ended[0].process.exit_status().is_none() {
            thread::yield_now();
        }
        let failure = Failure { kind: FailureKind::Deaf, message: "silent".into() };
        let failure = blame(&mut ended, failure, &supervision).explain(drops);
        assert_eq!(
            failure.kind,
            FailureKind::BackendFailed,
            "the back end ended by itself: {failure:?}"
        );
    }

    /// A back end whose readiness command never ends.
    fn hung_backend() -> RunningPart {
        fixture::part(None, AliveCheck::Command(fixture::command("sleep 98756")))
    }

    #[test]
    fn interrupted_test_of_back_end_blames_no_server() {
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        interrupts.raise();
        let failure = |kind| Failure { kind, message: "no correct response".into() };
        use FailureKind::{BackendFailed, Crashed, IncorrectResponses, Interrupted};
        let mut backends = vec![hung_backend()];
        let blamed = |backends: &mut [RunningPart], kind| {
            blame(backends, failure(kind), &supervision).failure
        };
        assert_eq!(blamed(&mut backends, IncorrectResponses), interrupted_failure());
        assert_eq!(blamed(&mut backends, Crashed).kind, Crashed);
        // After a load without responses at its end.
        let mut parts = vec![hung_backend(), fixture::part(None, AliveCheck::Connect(vec![]))];
        let mut record = fixture::load_without_responses();
        let after_load = Launched::new(&mut parts).after_load(&mut record, &supervision);
        assert_eq!((after_load.unwrap_err().kind, record.server_failure), (Interrupted, None));
        // The failure of another back end is known, in any order. Port 1 has no listener.
        backends.push(fixture::part(None, AliveCheck::Connect(vec![1])));
        let failure = blamed(&mut backends, IncorrectResponses);
        assert_eq!(failure.kind, BackendFailed, "{failure:?}");
    }

    #[test]
    fn probes_that_could_not_be_attached_are_refused() {
        let available =
            || RequestedProbes { attached: [Probe::Syscalls].into(), refused: Vec::new() };
        let mut part = fixture::part(None, AliveCheck::Connect(Vec::new()));
        assert_eq!(part.probes_use(available()), available());
        let reason = "at most 16 process groups can be monitored at once";
        part.monitor_failure = Some(reason.into());
        let used = part.probes_use(available());
        assert!(used.attached.is_empty());
        assert_eq!(used.refused[0].reason, reason);
    }

    #[test]
    fn first_success_succeeds_after_one_success() {
        let failed = || Err(io::Error::from(io::ErrorKind::TimedOut));
        assert!(first_success([failed(), Ok(())].into_iter()).is_ok());
        assert!(first_success([Ok(()), failed()].into_iter()).is_ok());
        assert!(first_success([failed(), failed()].into_iter()).is_err());
        assert!(first_success(std::iter::empty()).is_ok());
    }
}
