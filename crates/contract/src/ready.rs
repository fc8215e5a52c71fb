//! Readiness: the time at which a part of a start listens, and the sign that it can serve.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::process::ExitStatus;

use dyno_archive::start::{Failure, FailureKind, Startup};
use dyno_launch::process::Process;
use dyno_observer::{monotonic_ns, proc};

use crate::client::{Answer, BodyRetention, ProbeClient};
use crate::description;
use crate::limits::{ATTEMPT, COMMAND_POLL, CONNECT, POLL};
use crate::ports::connect_to_another;

/// Sign that a part is ready.
#[allow(missing_debug_implementations)] // It holds a closure.
pub enum Sign<'a> {
    /// A response to GET with such a status. Its body is checked by contracts.
    Answer { to: &'a ProbeClient, path: &'a str, status: Status },
    /// All its ports take connections.
    Listening,
    /// A command succeeds. `Err`: its failure, in words.
    Command(&'a mut dyn FnMut() -> Result<(), String>),
}

/// The statuses of responses that show a server ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Exactly(u16),
    /// 200 to 399.
    Success,
    /// Any status below 500, where no status is expected. A server that is not ready sends 503.
    Any,
}

impl Status {
    fn is_met_by(self, status: u16) -> bool {
        match self {
            Status::Exactly(wanted) => status == wanted,
            Status::Success => (200..400).contains(&status),
            Status::Any => status < 500,
        }
    }
}

/// Deadline of a part.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations)] // It holds a closure.
pub struct Deadline<'a> {
    /// Nanoseconds from exec.
    pub deadline_ns: u64,
    /// Whether the user has interrupted the run, which ends all waiting.
    pub is_asked_to_end: &'a dyn Fn() -> bool,
}

/// Waits until a part gives its sign, and accepts connections on all its ports.
///
/// # Errors
/// The part exited, or its deadline passed.
pub fn wait(
    process: &mut Process,
    sign: Sign<'_>,
    ports: &[u16],
    deadline: Deadline<'_>,
) -> Result<Startup, Failure> {
    let mut waiting = Waiting { process, deadline };
    let seen = match sign {
        Sign::Answer { to, path, status } => waiting.for_answer(to, path, status)?,
        Sign::Listening => waiting.for_ports(ports)?,
        Sign::Command(command) => waiting.for_command(command)?,
    };
    let asked = seen.at.map(|addr| addr.port());
    // A server with a command as its sign may have no listener.
    let others = ports.iter().filter(|port| Some(**port) != asked && seen.listening_ns.is_some());
    for &port in others {
        waiting.connect(local(port))?;
    }
    if let Some(status) = process.exit_status() {
        return Err(exit_failure(status, ", although it had become ready"));
    }
    // Not earlier: the search for the owner takes milliseconds, which must not count as start-up
    // time.
    ports.iter().try_for_each(|&port| check_owner(process, port))?;
    process.move_back_strays();
    Ok(Startup {
        listening_ns: seen.listening_ns,
        first_answer_ns: seen.first_answer_ns,
        ready_ns: seen.ready_ns,
        cpu_ns: process.sampler.group.counters().cpu_ns,
    })
}

/// Times at which the part became ready, nanoseconds from exec.
struct ReadyTimes {
    /// Address of the request.
    at: Option<SocketAddr>,
    listening_ns: Option<u64>,
    first_answer_ns: Option<u64>,
    ready_ns: u64,
}

/// A part that is not ready yet.
struct Waiting<'a> {
    process: &'a mut Process,
    deadline: Deadline<'a>,
}

impl Waiting<'_> {
    fn for_answer(
        &mut self,
        to: &ProbeClient,
        path: &str,
        status: Status,
    ) -> Result<ReadyTimes, Failure> {
        let addr = to.listener().addr;
        let mut stream = self.connect(addr)?;
        // The kernel has completed a handshake: from here on the part listens.
        let listening_ns = self.now();
        while let Err(problem) = attempt(stream, to, path, status) {
            std::thread::sleep(POLL);
            if self.process.exit_status().is_some() || self.is_over() {
                return Err(self.never(&problem.to_text(path)));
            }
            stream = self.connect(addr)?;
        }
        // The first response with an expected status has arrived completely.
        let answered_ns = self.now();
        Ok(ReadyTimes {
            at: Some(addr),
            listening_ns: Some(listening_ns),
            first_answer_ns: Some(answered_ns),
            ready_ns: answered_ns,
        })
    }

    fn for_ports(&mut self, ports: &[u16]) -> Result<ReadyTimes, Failure> {
        for &port in ports {
            self.connect(local(port))?;
        }
        // The kernel has completed a handshake on the last of its ports.
        let listening_ns = self.now();
        Ok(ReadyTimes {
            at: None,
            listening_ns: Some(listening_ns),
            first_answer_ns: None,
            ready_ns: listening_ns,
        })
    }

    fn for_command(
        &mut self,
        command: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<ReadyTimes, Failure> {
        loop {
            self.check_interrupt()?;
            let Err(why) = command() else { break };
            if let Some(status) = self.process.exit_status() {
                return Err(exit_failure(status, " before its command for `ready` succeeded"));
            }
            if self.is_over() {
                return Err(self.never(&format!("its command for `ready` {why}")));
            }
            std::thread::sleep(COMMAND_POLL);
        }
        // The command has exited; the time includes its own run time of some milliseconds.
        Ok(ReadyTimes { at: None, listening_ns: None, first_answer_ns: None, ready_ns: self.now() })
    }

    /// Nanoseconds from exec.
    fn now(&self) -> u64 {
        monotonic_ns() - self.process.exec_ns
    }

    fn is_over(&self) -> bool {
        // The deadline counts from exec.
        self.now() > self.deadline.deadline_ns
    }

    fn check_interrupt(&self) -> Result<(), Failure> {
        if (self.deadline.is_asked_to_end)() {
            let message = "the user ended the run".into();
            return Err(Failure { kind: FailureKind::Interrupted, message });
        }
        Ok(())
    }

    fn connect(&mut self, addr: SocketAddr) -> Result<TcpStream, Failure> {
        loop {
            self.check_interrupt()?;
            let error = match connect_to_another(addr, CONNECT) {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            if let Some(status) = self.process.exit_status() {
                return Err(exit_failure(
                    status,
                    &format!(" before it listened on port {}", addr.port()),
                ));
            }
            if self.is_over() {
                return Err(self.never_connected(addr.port(), &error));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Returns the failure of a part that did not give its sign.
    fn never(&mut self, what: &str) -> Failure {
        if let Some(status) = self.process.exit_status() {
            return exit_failure(status, &format!(", and {what}"));
        }
        never_ready(format!("by its deadline, {what}"))
    }

    /// Returns the failure of a part that accepted no connection, with the addresses at which it
    /// listens, if any.
    fn never_connected(&mut self, port: u16, error: &io::Error) -> Failure {
        let listeners = proc::listeners(&self.process.pids());
        self.never(&connect_failure_text(port, error, &listeners))
    }
}

/// Explains why no connection to a port was made, by the error of the last attempt. A closed port
/// refuses at once; a dropped packet has no response.
fn connect_failure_text(port: u16, error: &io::Error, listeners: &[SocketAddr]) -> String {
    let problem = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("nothing listened on port {port} (connection refused)")
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => format!(
            "connections to port {port} timed out: packets to it are dropped, or its queue of \
             connections is full"
        ),
        _ => format!("connecting to port {port} failed: {error}"),
    };
    match listeners {
        [] => problem,
        all => format!("{problem}, and it listens on {}", list(all)),
    }
}

/// Returns the failure of a part whose first process has exited. Exit status 0 most likely means
/// that it has become a daemon.
fn exit_failure(status: ExitStatus, when: &str) -> Failure {
    let hint = if status.success() { FOREGROUND } else { "" };
    never_ready(format!("it ended with {status}{when}{hint}"))
}

/// Hint for a server that becomes a daemon.
const FOREGROUND: &str =
    "\nhint: run the server in the foreground, not as a daemon (nginx: `daemon off;`)";

fn never_ready(message: String) -> Failure {
    Failure { kind: FailureKind::NeverReady, message }
}

fn list(all: &[SocketAddr]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Failure of one attempt to see a part ready.
enum Problem {
    Wrong(Answer),
    NoAnswer(io::Error),
}

impl Problem {
    fn to_text(&self, path: &str) -> String {
        match self {
            Problem::NoAnswer(error) => {
                format!("GET {path} had no response: {}", description::cause(error))
            }
            Problem::Wrong(answer) => format!(
                "GET {path} never had a status that [ready] accepts (see `path` and `status` \
                 there). Last response:\n{}",
                answer.to_text()
            ),
        }
    }
}

fn attempt(stream: TcpStream, to: &ProbeClient, path: &str, status: Status) -> Result<(), Problem> {
    let answer =
        to.get(stream, path, ATTEMPT, BodyRetention::Beginning).map_err(Problem::NoAnswer)?;
    if status.is_met_by(answer.status) { Ok(()) } else { Err(Problem::Wrong(answer)) }
}

/// Checks that a process of the part owns the port: another one may have taken it before the part's
/// start.
fn check_owner(process: &Process, port: u16) -> Result<(), Failure> {
    match proc::listener_in_network_of(process.pid(), SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
    {
        Some((pid, name)) if !process.owns(pid) => Err(never_ready(format!(
            "port {port} is in use by another program: {name}, process {pid}"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn daemon_must_stay_in_the_foreground() {
        let message = |code| {
            exit_failure(ExitStatus::from_raw(code), " before it listened on port 1").message
        };
        assert_eq!(
            message(0).lines().next(),
            Some("it ended with exit status: 0 before it listened on port 1")
        );
        assert!(message(0).contains("\nhint: run the server in the foreground"));
        assert!(!message(256).contains("hint"));
    }

    #[test]
    fn refused_connections_differ_from_timed_out_ones() {
        let at = [SocketAddr::from(([0, 0, 0, 0], 8))];
        let words =
            |kind: io::ErrorKind, at: &[SocketAddr]| connect_failure_text(7, &kind.into(), at);
        assert_eq!(
            words(io::ErrorKind::ConnectionRefused, &[]),
            "nothing listened on port 7 (connection refused)"
        );
        assert_eq!(
            words(io::ErrorKind::ConnectionRefused, &at),
            "nothing listened on port 7 (connection refused), and it listens on 0.0.0.0:8"
        );
        for kind in [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock] {
            let message = words(kind, &at);
            assert!(message.starts_with("connections to port 7 timed out: packets"), "{message}");
            assert!(message.ends_with(", and it listens on 0.0.0.0:8"), "{message}");
        }
        assert!(words(io::ErrorKind::PermissionDenied, &[]).contains("connecting to port"));
    }

    #[test]
    fn status_shows_a_server_ready_as_its_file_says() {
        let met = |status: Status| [200, 302, 404, 503].map(|seen| status.is_met_by(seen));
        assert_eq!(met(Status::Success), [true, true, false, false]);
        assert_eq!(met(Status::Any), [true, true, true, false]);
        assert_eq!(met(Status::Exactly(404)), [false, false, true, false]);
    }
}
