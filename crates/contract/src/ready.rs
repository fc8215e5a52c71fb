//! Waits until a part of a start (the subject or a back end) listens and is ready.
//!
//! Reports show the times at which the part listens and is ready as start-up times.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::process::ExitStatus;

use dyno_launch::process::Process;
use dyno_launch::tool::CommandError;
use dyno_model::start::{Failure, FailureKind, Startup};
use dyno_observer::monotonic_ns;
use dyno_observer::proc::{self, ListenerOwner};

use crate::client::{BodyRetention, ProbeClient, ProbeResponse};
use crate::description;
use crate::limits::{ATTEMPT, COMMAND_POLL, CONNECT, POLL};
use crate::ports::connect_to_listener;
use crate::problem::is_own_shortage;

/// The sign that a part is ready.
#[allow(missing_debug_implementations)] // It has a closure.
pub enum ReadySign<'a> {
    /// A response to GET with this status. Contracts check its body.
    Response { client: &'a ProbeClient, path: &'a str, status: Status },
    /// All its ports accept connections.
    Listening,
    /// A command succeeds, and then all ports accept connections. `refuses`: the part refuses every
    /// connection, so its ports are not checked.
    Command { run: &'a mut dyn FnMut() -> Result<(), CommandError>, refuses: bool },
}

/// The statuses of responses from a server that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Exactly(u16),
    /// 200 to 399.
    Success,
    /// Any status below 500, if no status is configured. A server that is not ready sends 503.
    Any,
}

impl Status {
    fn accepts(self, status: u16) -> bool {
        match self {
            Status::Exactly(expected) => status == expected,
            Status::Success => (200..400).contains(&status),
            Status::Any => status < 500,
        }
    }
}

/// The deadline of a part's readiness.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations)] // It has a closure.
pub struct Deadline<'a> {
    /// Nanoseconds from exec.
    pub deadline_ns: u64,
    /// Whether the user has interrupted the run, which ends all waiting.
    pub is_interrupted: &'a dyn Fn() -> bool,
}

/// Waits until a part gives its sign and accepts connections on all its ports.
///
/// # Errors
/// The part exited, its deadline passed, or another program has taken one of its ports.
pub fn wait(
    process: &mut Process,
    sign: ReadySign<'_>,
    ports: &[u16],
    deadline: Deadline<'_>,
) -> Result<Startup, Failure> {
    let waited = wait_until_ready(process, sign, ports, deadline);
    // The search for the owner of a port takes milliseconds. The search begins after the times were
    // read, so that it is not part of the start-up time.
    let conflict =
        || ports.iter().find_map(|&port| port_conflict(&process.listener_at(port), port, process));
    let times = match waited {
        Ok(times) => conflict().map_or(Ok(times), Err),
        Err(failure) if failure.kind == FailureKind::NeverReady => {
            Err(conflict().unwrap_or(failure))
        }
        failed => failed,
    }?;
    let moved_back = process.move_back_strays();
    // The group is read last, so that it lacks none of the CPU time of its processes.
    let processes_ns = process.sampler.processes_cpu_ns();
    let group_ns = process.sampler.group.counters().cpu_ns;
    let strays = strays_before_ready(moved_back, group_ns, processes_ns);
    Ok(Startup {
        listening_ns: times.listening_ns,
        first_response_ns: times.first_response_ns,
        ready_ns: times.ready_ns,
        cpu_ns: group_ns.filter(|_| strays == 0),
        strays,
    })
}

/// Largest CPU time of a part's processes that its group may lack: they run before they are in the
/// group, and the kernel updates both at different instants.
const MAX_UNCOUNTED_NS: u64 = 5_000_000;

/// Returns the least number of processes that had left the group before the part was ready: those
/// that were moved back, or 1 if the group counted clearly less than the processes used.
fn strays_before_ready(moved_back: u32, group_ns: Option<u64>, processes_ns: u64) -> u32 {
    let has_counted =
        |group_ns: u64| group_ns.saturating_add(MAX_UNCOUNTED_NS) >= processes_ns / 20 * 19;
    if group_ns.is_none_or(has_counted) { moved_back } else { moved_back.max(1) }
}

/// Waits for the sign, and then for a connection to each other port. Returns the times.
fn wait_until_ready(
    process: &mut Process,
    sign: ReadySign<'_>,
    ports: &[u16],
    deadline: Deadline<'_>,
) -> Result<ReadyTimes, Failure> {
    let mut waiting = Waiting { process, deadline };
    let times = match sign {
        ReadySign::Response { client, path, status } => {
            waiting.wait_for_response(client, path, status)?
        }
        ReadySign::Listening => waiting.wait_for_ports(ports)?,
        ReadySign::Command { run, refuses } => {
            waiting.wait_for_command(run, if refuses { &[] } else { ports })?
        }
    };
    let request_port = times.request_addr.map(|addr| addr.port());
    // Only `wait_for_command` leaves `listening_ns` unset. This function has connected to the ports
    // itself, unless the part refuses connections.
    let has_checked_ports = times.listening_ns.is_none();
    for &port in ports {
        if !has_checked_ports && Some(port) != request_port {
            waiting.connect(local(port))?;
        }
    }
    match process.exit_status() {
        Some(status) => Err(exit_failure(status, ", after it had become ready")),
        None => Ok(times),
    }
}

/// Times at which the part became ready, nanoseconds from exec.
struct ReadyTimes {
    /// Address to which requests were sent; `None`: the sign is not a response.
    request_addr: Option<SocketAddr>,
    listening_ns: Option<u64>,
    first_response_ns: Option<u64>,
    ready_ns: u64,
}

/// A part that is not ready yet.
struct Waiting<'a> {
    process: &'a mut Process,
    deadline: Deadline<'a>,
}

impl Waiting<'_> {
    /// Sends requests until a response has an accepted status.
    fn wait_for_response(
        &mut self,
        client: &ProbeClient,
        path: &str,
        status: Status,
    ) -> Result<ReadyTimes, Failure> {
        let addr = client.listener().addr;
        let mut stream = self.connect(addr)?;
        // The kernel has completed a handshake, so the part listens.
        let listening_ns = self.now();
        while let Err(failure) = attempt_request(stream, client, path, status) {
            std::thread::sleep(POLL);
            if self.process.exit_status().is_some() || self.is_deadline_over() {
                return Err(self.never_ready_failure(&failure.to_text(path)));
            }
            stream = self.connect(addr)?;
        }
        // The first response with an expected status has arrived completely.
        let response_ns = self.now();
        Ok(ReadyTimes {
            request_addr: Some(addr),
            listening_ns: Some(listening_ns),
            first_response_ns: Some(response_ns),
            ready_ns: response_ns,
        })
    }

    /// Waits until each port accepts a connection.
    fn wait_for_ports(&mut self, ports: &[u16]) -> Result<ReadyTimes, Failure> {
        for &port in ports {
            self.connect(local(port))?;
        }
        // The kernel has completed a handshake on the last of its ports.
        let listening_ns = self.now();
        Ok(ReadyTimes {
            request_addr: None,
            listening_ns: Some(listening_ns),
            first_response_ns: None,
            ready_ns: listening_ns,
        })
    }

    /// Runs the readiness command until it succeeds, then waits for the ports.
    fn wait_for_command(
        &mut self,
        command: &mut dyn FnMut() -> Result<(), CommandError>,
        ports: &[u16],
    ) -> Result<ReadyTimes, Failure> {
        loop {
            self.check_interrupt()?;
            let Err(error) = command() else { break };
            if let Some(status) = self.process.exit_status() {
                return Err(exit_failure(status, " before its command for `ready` succeeded"));
            }
            if let CommandError::NotRun(_) = error {
                let message = format!("its command for `ready` {error}");
                return Err(Failure { kind: FailureKind::Harness, message });
            }
            if self.is_deadline_over() {
                return Err(self.never_ready_failure(&format!("its command for `ready` {error}")));
            }
            std::thread::sleep(COMMAND_POLL);
        }
        for &port in ports {
            self.connect(local(port))?;
        }
        // The time includes the run time of the command, some milliseconds.
        Ok(ReadyTimes {
            request_addr: None,
            listening_ns: None,
            first_response_ns: None,
            ready_ns: self.now(),
        })
    }

    /// Nanoseconds from exec.
    fn now(&self) -> u64 {
        monotonic_ns() - self.process.exec_ns
    }

    fn is_deadline_over(&self) -> bool {
        self.now() > self.deadline.deadline_ns
    }

    fn check_interrupt(&self) -> Result<(), Failure> {
        if (self.deadline.is_interrupted)() {
            let message = "the user ended the run".into();
            return Err(Failure { kind: FailureKind::Interrupted, message });
        }
        Ok(())
    }

    /// Connects to an address, with repeated attempts until the deadline.
    fn connect(&mut self, addr: SocketAddr) -> Result<TcpStream, Failure> {
        loop {
            self.check_interrupt()?;
            let error = match connect_to_listener(addr, CONNECT) {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            if let Some(status) = self.process.exit_status() {
                return Err(exit_failure(
                    status,
                    &format!(" before it listened on port {}", addr.port()),
                ));
            }
            if self.is_deadline_over() {
                return Err(self.never_connected_failure(addr.port(), &error));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Returns the failure of a part that was not ready by its deadline.
    fn never_ready_failure(&mut self, problem: &str) -> Failure {
        if let Some(status) = self.process.exit_status() {
            return exit_failure(status, &format!(", and {problem}"));
        }
        never_ready(format!("by its deadline, {problem}"))
    }

    /// Returns the failure of a part that did not accept a connection, with the addresses at which
    /// it listens.
    fn never_connected_failure(&mut self, port: u16, error: &io::Error) -> Failure {
        if is_own_shortage(error) && self.process.exit_status().is_none() {
            let message = format!("dyno could not open a connection to port {port}: {error}");
            return Failure { kind: FailureKind::Harness, message };
        }
        let listeners = proc::listeners(&self.process.pids());
        self.never_ready_failure(&connect_failure_text(port, error, &listeners))
    }
}

/// Explains why no connection to a port was made, from the error of the last attempt. A closed port
/// refuses at once, and a dropped packet gets no response.
fn connect_failure_text(port: u16, error: &io::Error, listeners: &[SocketAddr]) -> String {
    let problem = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("nothing listened on port {port} (connection refused)")
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => format!(
            "connections to port {port} timed out: packets to the port are dropped, or its queue \
             of new connections is full"
        ),
        _ => format!("connecting to port {port} failed: {error}"),
    };
    match listeners {
        [] => problem,
        addresses => format!("{problem}. The process listens on {}", join_addresses(addresses)),
    }
}

/// Returns the failure of a part whose first process has exited. Exit status 0 most likely means
/// that it has become a daemon.
fn exit_failure(status: ExitStatus, when: &str) -> Failure {
    let hint = if status.success() { FOREGROUND } else { "" };
    never_ready(format!("its process ended with {status}{when}{hint}"))
}

/// Hint for a server that becomes a daemon.
const FOREGROUND: &str =
    "\nhint: run the server in the foreground, not as a daemon (nginx: `daemon off;`)";

fn never_ready(message: String) -> Failure {
    Failure { kind: FailureKind::NeverReady, message }
}

fn join_addresses(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// The failure of one request to a part that is not ready.
enum AttemptFailure {
    UnexpectedStatus(ProbeResponse),
    NoResponse(io::Error),
}

impl AttemptFailure {
    fn to_text(&self, path: &str) -> String {
        match self {
            AttemptFailure::NoResponse(error) => {
                format!("GET {path} got no response: {}", description::cause(error))
            }
            AttemptFailure::UnexpectedStatus(response) => format!(
                "GET {path} never got a response with a status that [ready] accepts (see its \
                 `path` and `status`). Last response:\n{}",
                response.to_text()
            ),
        }
    }
}

/// Sends one request, and checks the status of the response.
fn attempt_request(
    stream: TcpStream,
    client: &ProbeClient,
    path: &str,
    status: Status,
) -> Result<(), AttemptFailure> {
    let response = client
        .get_on(stream, path, ATTEMPT, BodyRetention::Beginning)
        .map_err(AttemptFailure::NoResponse)?;
    if status.accepts(response.status) {
        Ok(())
    } else {
        Err(AttemptFailure::UnexpectedStatus(response))
    }
}

/// Returns a failure if another program has taken a port of the part after dyno found it free. The
/// machine is the cause, not the part. An unknown owner may be the part itself, if the part runs as
/// another user.
fn port_conflict(owner: &ListenerOwner, port: u16, process: &Process) -> Option<Failure> {
    match owner {
        ListenerOwner::Process { pid, name } if !process.owns(*pid) => Some(Failure {
            kind: FailureKind::Harness,
            message: format!("port {port}: in use by another program: {name}, process {pid}"),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::process::ExitStatusExt as _;

    use dyno_launch::environment::{DynoVariables, Environment};
    use dyno_launch::group::Groups;
    use dyno_launch::guard::Guard;
    use dyno_launch::process::{ProcessSpec, Workspace};
    use dyno_observer::cgroup::Layout;

    use super::*;

    /// Starts a server that is a shell script.
    fn start(script: &str) -> Process {
        let guard = Guard::start().unwrap();
        let groups = Groups::prepare(Layout::default(), &guard);
        let workspace = Workspace::make(0, &groups, &guard).unwrap();
        let environment = Environment::for_tool(&DynoVariables::read(), &[], &workspace.work);
        let command = ["sh", "-c", script].map(String::from).to_vec();
        let folder = workspace.work.clone();
        let spec = ProcessSpec {
            command,
            environment,
            workspace,
            folder,
            cpus: vec![],
            open_files: 256,
            lists_compiled: false,
        };
        Process::start(spec).unwrap()
    }

    #[test]
    fn port_taken_by_another_program_is_harness_failure() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = other.local_addr().unwrap().port();
        // A server that cannot have its port exits, or runs without it.
        for script in ["exit 1", "exec sleep 98754"] {
            let mut process = start(script);
            let is_over = |process: &mut Process| process.exit_status().is_some();
            while script == "exit 1" && !is_over(&mut process) {
                std::thread::sleep(POLL);
            }
            let deadline = Deadline { deadline_ns: 60_000_000_000, is_interrupted: &|| false };
            let failure = wait(&mut process, ReadySign::Listening, &[port], deadline).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Harness, "{script}: {failure:?}");
            assert!(failure.message.contains("in use by another program: "), "{failure:?}");
        }
    }

    #[test]
    fn process_that_came_back_before_ready_is_a_stray() {
        const MS: u64 = 1_000_000;
        assert_eq!(strays_before_ready(2, Some(MS), 500 * MS), 2);
        assert_eq!(strays_before_ready(0, Some(MS), 500 * MS), 1);
        // It runs for a moment before it is in the group.
        assert_eq!(strays_before_ready(0, Some(MS), 6 * MS), 0);
        assert_eq!(strays_before_ready(0, Some(470 * MS), 500 * MS), 0, "95 % are counted");
        assert_eq!(strays_before_ready(0, Some(500 * MS), 90 * MS), 0, "processes have ended");
        assert_eq!(strays_before_ready(0, None, 500 * MS), 0, "no group counts CPU time");
    }

    #[test]
    fn ready_command_that_was_not_run_is_harness_failure() {
        let mut process = start("exec sleep 98756");
        let mut command = || Err(CommandError::NotRun("no process left".into()));
        let deadline = Deadline { deadline_ns: 60_000_000_000, is_interrupted: &|| false };
        let failure = wait(
            &mut process,
            ReadySign::Command { run: &mut command, refuses: false },
            &[],
            deadline,
        );
        let failure = failure.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Harness, "{failure:?}");
    }

    #[test]
    fn ready_command_needs_listener_unless_refused() {
        let mut process = start("exec sleep 98757");
        // Nothing listens at a port that was just closed.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut ready = |refuses| {
            let sign = ReadySign::Command { run: &mut || Ok(()), refuses };
            let deadline = Deadline { deadline_ns: 0, is_interrupted: &|| false };
            wait(&mut process, sign, &[port], deadline)
        };
        assert!(ready(true).is_ok());
        let failure = ready(false).unwrap_err();
        assert_eq!(failure.kind, FailureKind::NeverReady, "{failure:?}");
        assert!(failure.message.contains("nothing listened on port"), "{failure:?}");
    }

    #[test]
    fn unknown_owner_of_port_is_no_conflict() {
        let process = start("exec sleep 98755");
        let us = ListenerOwner::Process { pid: process.pid(), name: "sleep".into() };
        let other = ListenerOwner::Process { pid: std::process::id(), name: "other".into() };
        let has_conflict = |owner| port_conflict(&owner, 7, &process).is_some();
        let owners = [us, other, ListenerOwner::Unknown, ListenerOwner::Absent];
        assert_eq!(owners.map(has_conflict), [false, true, false, false]);
    }

    #[test]
    fn exit_with_status_0_hints_at_foreground() {
        let message = |code| {
            exit_failure(ExitStatus::from_raw(code), " before it listened on port 1").message
        };
        assert_eq!(
            message(0).lines().next(),
            Some("its process ended with exit status: 0 before it listened on port 1")
        );
        assert!(message(0).contains("\nhint: run the server in the foreground"));
        assert!(!message(256).contains("hint"));
    }

    #[test]
    fn connect_failure_text_depends_on_error() {
        let listeners = [SocketAddr::from(([0, 0, 0, 0], 8))];
        let text = |kind: io::ErrorKind, listeners: &[SocketAddr]| {
            connect_failure_text(7, &kind.into(), listeners)
        };
        assert_eq!(
            text(io::ErrorKind::ConnectionRefused, &[]),
            "nothing listened on port 7 (connection refused)"
        );
        assert_eq!(
            text(io::ErrorKind::ConnectionRefused, &listeners),
            "nothing listened on port 7 (connection refused). The process listens on 0.0.0.0:8"
        );
        for kind in [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock] {
            let message = text(kind, &listeners);
            assert!(message.starts_with("connections to port 7 timed out: packets"), "{message}");
            assert!(message.ends_with(". The process listens on 0.0.0.0:8"), "{message}");
        }
        assert!(text(io::ErrorKind::PermissionDenied, &[]).contains("connecting to port"));
    }

    #[test]
    fn status_accepts_configured_codes() {
        let accepted = |status: Status| [200, 302, 404, 503].map(|code| status.accepts(code));
        assert_eq!(accepted(Status::Success), [true, true, false, false]);
        assert_eq!(accepted(Status::Any), [true, true, true, false]);
        assert_eq!(accepted(Status::Exactly(404)), [false, false, true, false]);
    }
}
