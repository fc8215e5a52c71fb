//! Monitors the running parts of a start (the subject and its back ends): samples them, and checks
//! whether they respond.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dyno_contract::client::{BodyRetention, ProbeClient};
use dyno_contract::contracts::{Check, protocol_checks};
use dyno_contract::exchange::ServerLoad;
use dyno_contract::listener::Listener;
use dyno_contract::problem::is_own_shortage;
use dyno_launch::process::Process;
use dyno_launch::secret_values::SecretValues;
use dyno_launch::supervision::Supervision;
use dyno_launch::tool::{CommandError, ServerCommand};
use dyno_model::probe::{Probe, RequestedProbes};
use dyno_model::start::{Failure, FailureKind};
use dyno_model::trial::CheckResult;
use dyno_model::{Party, Protocol, Sample};
use dyno_observer::cgroup::OomKills;
use dyno_observer::kernel_probes::PartyMonitor;
use dyno_observer::probes::ObservedWindow;
use dyno_observer::proc::ListenerOwner;
use dyno_observer::{Files, Reads, Scope, probes, sockets};
use dyno_subject::definition::Definition;

use FailureKind::BackendFailed;

use super::failure_cause::{command_failure, unknown_response};
use super::host::{CheckDepth, Launched, Part, RequiredListeners};
use super::ports::Ports;
use crate::contract_check;
use crate::limits::ALIVE_TIMEOUT;
use crate::runtime::SampledRuntime;

/// A running part of a start on this machine.
#[allow(missing_debug_implementations)] // It holds probes.
pub struct RunningPart<'a> {
    pub(super) supervision: Supervision<'a>,
    pub(super) party: Party,
    pub(super) name: String,
    pub(super) process: Process,
    pub(super) ports: Ports,
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

impl Part for RunningPart<'_> {
    fn party(&self) -> Party {
        self.party
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn listener(&self, protocol: Protocol) -> Option<&Listener> {
        self.checked_listener(protocol).map(|listener| listener.listener())
    }

    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process.exit_status()
    }

    fn wait_for_exit(&mut self) -> Option<ExitStatus> {
        for _ in 0..100 {
            if let Some(status) = self.process.exit_status() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(2));
        }
        None
    }

    fn oom_kills(&self) -> OomKills {
        self.process.oom_kills()
    }

    fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    fn check(&self, is_ended: &dyn Fn() -> bool) -> Option<Vec<CheckResult>> {
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

    fn silence(&self, depth: CheckDepth) -> Option<Failure> {
        match &self.alive {
            AliveCheck::Command(command) if depth == CheckDepth::Full => {
                let error = command.run(&self.supervision).err()?;
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

    /// Some of the responses may be from the other program, whose CPU time is not measured.
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

    fn reset(&self) -> Result<(), CommandError> {
        self.reset.iter().try_for_each(|reset| reset.run(&self.supervision).map(drop))
    }
}

impl RunningPart<'_> {
    /// Returns the listener of a protocol, with its checks.
    pub(super) fn checked_listener(&self, protocol: Protocol) -> Option<&Arc<CheckedListener>> {
        self.listeners.iter().find(|listener| listener.listener().protocol == protocol)
    }

    /// Returns the probes that measure this part. `available`: the probes that are available on the
    /// machine. Probes that could not be attached to the part's processes are refused.
    pub(super) fn probes_use(&self, mut available: RequestedProbes) -> RequestedProbes {
        if let Some(reason) = &self.monitor_failure {
            probes::refuse_unattached(&mut available, reason);
        }
        available
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
pub(super) struct MonitoredProcesses<'a, 's> {
    subject: &'a mut Process,
    /// Probes of the subject's processes.
    monitor: Option<&'a PartyMonitor>,
    backends: &'a mut [RunningPart<'s>],
    /// Files that stay open from one sample to the next.
    files: Files,
}

impl<'a, 's> MonitoredProcesses<'a, 's> {
    /// Monitors the processes of all parts, and the probes of the subject.
    pub(super) fn new(
        launched: &'a mut Launched<'_, RunningPart<'s>>,
        files: Files,
    ) -> MonitoredProcesses<'a, 's> {
        MonitoredProcesses {
            subject: &mut launched.subject.process,
            monitor: launched.subject.monitor.as_deref(),
            backends: launched.backends,
            files,
        }
    }

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

    /// Adds the memory that several processes of a part may share.
    pub(super) fn read_shared_memory(&self, sample: &mut Sample) {
        dyno_observer::read_shared_memory(&self.scopes().collect::<Vec<_>>(), sample);
    }

    /// Adds the socket options of each part, and the queue lengths of their listeners.
    pub(super) fn read_sockets(&self, sample: &mut Sample) {
        for scope in self.scopes() {
            sample.party_use_mut(scope.party).sockets = sockets::read(&scope.sampler.pids());
        }
    }

    /// Opens the window of the probes of each part.
    pub(super) fn open_windows(&self, observe: &BTreeSet<Probe>) -> Vec<(Party, ObservedWindow)> {
        let open = |scope: Scope<'_>| ObservedWindow::open(observe, &scope.sampler.pids());
        self.scopes().map(|scope| (scope.party, open(scope))).collect()
    }

    /// Adds the values of the probes since their windows opened.
    pub(super) fn close_windows(
        &self,
        windows: &mut [(Party, ObservedWindow)],
        sample: &mut Sample,
    ) {
        for scope in self.scopes() {
            let of_party = windows.iter_mut().filter(|(party, _)| *party == scope.party);
            for (party, window) in of_party {
                window.close(&scope.sampler.pids(), sample.party_use_mut(*party));
            }
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
    use dyno_launch::guard::Guard;
    use dyno_launch::supervision::Interrupts;
    use dyno_model::probe::Probe;

    use super::*;
    use crate::run::fixture;

    #[test]
    fn probes_that_could_not_be_attached_are_refused() {
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let available =
            || RequestedProbes { attached: [Probe::Syscalls].into(), refused: Vec::new() };
        let mut part = fixture::part(&supervision, None, AliveCheck::Connect(Vec::new()));
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
