//! Readiness: when a part of a start listens, and by which sign it is known to serve.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::process::ExitStatus;

use dyno_archive::start::{Failure, FailureKind, Startup};
use dyno_launch::process::Process;
use dyno_observer::{monotonic_ns, proc};

use crate::client::{Answer, Keep, ProbeClient};
use crate::limits::{ATTEMPT, COMMAND_POLL, CONNECT, POLL};
use crate::ports::connect_to_another;
use crate::words;

/// The sign by which a part is known to be ready.
#[allow(missing_debug_implementations)] // It holds a closure.
pub enum Sign<'a> {
    /// An answer to GET with such a status. What its body is, contracts say.
    Answer { to: &'a ProbeClient, path: &'a str, status: Status },
    /// All its ports take connections.
    Listening,
    /// A command succeeds. `Err`: how it failed, in words.
    Command(&'a mut dyn FnMut() -> Result<(), String>),
}

/// The statuses of answers that show a server ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Exactly(u16),
    /// 200 to 399.
    Success,
    /// Below 500: the server answers, though nobody said what. One that is not ready yet says 503.
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

/// Until when a part is waited for.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations)] // It holds a closure.
pub struct Deadline<'a> {
    /// Nanoseconds from exec.
    pub deadline_ns: u64,
    /// Whether the user has asked for the run to end: then nothing is waited for any more.
    pub is_asked_to_end: &'a dyn Fn() -> bool,
}

/// Waits until a part gives its sign, and accepts connections on all its ports.
///
/// # Errors
/// It ended, or its deadline came first.
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
    // A server whose sign is a command may listen nowhere.
    let others = ports.iter().filter(|port| Some(**port) != asked && seen.listening_ns.is_some());
    for &port in others {
        waiting.connect(local(port))?;
    }
    if let Some(status) = process.ended() {
        return Err(ended(status, " although it answers"));
    }
    // Only now: looking for the owner takes milliseconds, which are not the part's.
    ports.iter().try_for_each(|&port| check_owner(process, port))?;
    process.gather();
    Ok(Startup {
        listening_ns: seen.listening_ns,
        first_answer_ns: seen.first_answer_ns,
        ready_ns: seen.ready_ns,
        cpu_ns: process.sampler.group.counters().cpu_ns,
    })
}

/// What was seen by the time of the sign. Nanoseconds from exec.
struct Seen {
    /// Where it was asked.
    at: Option<SocketAddr>,
    listening_ns: Option<u64>,
    first_answer_ns: Option<u64>,
    ready_ns: u64,
}

/// A part that is waited for.
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
    ) -> Result<Seen, Failure> {
        let addr = to.listener().addr;
        let mut stream = self.connect(addr)?;
        // The kernel has completed a handshake: from here on the part listens.
        let listening_ns = self.now();
        while let Err(problem) = attempt(stream, to, path, status) {
            std::thread::sleep(POLL);
            if self.process.ended().is_some() || self.is_over() {
                return Err(self.never(&problem.words(path)));
            }
            stream = self.connect(addr)?;
        }
        // The whole of the first answer with the right status has arrived.
        let answered_ns = self.now();
        Ok(Seen {
            at: Some(addr),
            listening_ns: Some(listening_ns),
            first_answer_ns: Some(answered_ns),
            ready_ns: answered_ns,
        })
    }

    fn for_ports(&mut self, ports: &[u16]) -> Result<Seen, Failure> {
        for &port in ports {
            self.connect(local(port))?;
        }
        // The kernel has completed a handshake on the last of its ports.
        let listening_ns = self.now();
        Ok(Seen {
            at: None,
            listening_ns: Some(listening_ns),
            first_answer_ns: None,
            ready_ns: listening_ns,
        })
    }

    fn for_command(
        &mut self,
        command: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<Seen, Failure> {
        loop {
            self.go_on()?;
            let Err(why) = command() else { break };
            if let Some(status) = self.process.ended() {
                return Err(ended(status, " before its command for `ready` succeeded"));
            }
            if self.is_over() {
                return Err(self.never(&format!("its command for `ready` {why}")));
            }
            std::thread::sleep(COMMAND_POLL);
        }
        // The command has ended: some milliseconds of this are its own.
        Ok(Seen { at: None, listening_ns: None, first_answer_ns: None, ready_ns: self.now() })
    }

    /// Nanoseconds from exec.
    fn now(&self) -> u64 {
        monotonic_ns() - self.process.exec_ns
    }

    fn is_over(&self) -> bool {
        // Against the instant of exec, from which the deadline counts.
        self.now() > self.deadline.deadline_ns
    }

    fn go_on(&self) -> Result<(), Failure> {
        if (self.deadline.is_asked_to_end)() {
            let message = "the user ended the run".into();
            return Err(Failure { kind: FailureKind::Interrupted, message });
        }
        Ok(())
    }

    fn connect(&mut self, addr: SocketAddr) -> Result<TcpStream, Failure> {
        loop {
            self.go_on()?;
            let error = match connect_to_another(addr, CONNECT) {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            if let Some(status) = self.process.ended() {
                return Err(ended(status, &format!(" before it listened on port {}", addr.port())));
            }
            if self.is_over() {
                return Err(self.never_connected(addr.port(), &error));
            }
            std::thread::sleep(POLL);
        }
    }

    /// The failure of a part that did not give its sign.
    fn never(&mut self, what: &str) -> Failure {
        if let Some(status) = self.process.ended() {
            return ended(status, &format!("; {what}"));
        }
        never_ready(format!("by its deadline, {what}"))
    }

    /// The failure of a part to which no connection was made, with where it listens, if it does.
    fn never_connected(&mut self, port: u16, error: &io::Error) -> Failure {
        let listeners = proc::listeners(&self.process.pids());
        self.never(&unconnected(port, error, &listeners))
    }
}

/// Why no connection to a port was made, by the error of the last attempt. A port on which nothing
/// listens refuses at once; a packet that is dropped has no answer.
fn unconnected(port: u16, error: &io::Error, listeners: &[SocketAddr]) -> String {
    let problem = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("nothing listened on port {port} (connection refused)")
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => format!(
            "connections to port {port} timed out: packets to it are dropped, or its queue of \
             connections is full"
        ),
        _ => format!("no connection to port {port} could be made ({error})"),
    };
    match listeners {
        [] => problem,
        all => format!("{problem}; it listens on {}", list(all)),
    }
}

/// The failure of a part whose first process has ended. One that succeeded has most likely made
/// itself a daemon.
fn ended(status: ExitStatus, when: &str) -> Failure {
    let hint = if status.success() { FOREGROUND } else { "" };
    never_ready(format!("it ended with {status}{when}{hint}"))
}

/// The way out for a server that makes itself a daemon.
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

/// Why an attempt did not show a part ready.
enum Problem {
    Wrong(Answer),
    NoAnswer(io::Error),
}

impl Problem {
    fn words(&self, path: &str) -> String {
        match self {
            Problem::NoAnswer(error) => {
                format!("GET {path} was never answered ({})", words::cause(error))
            }
            Problem::Wrong(answer) => format!(
                "GET {path} was never answered with a status that `[ready]` takes (its `path` and \
                 `status` say which); the last answer was:\n{}",
                answer.shown()
            ),
        }
    }
}

fn attempt(stream: TcpStream, to: &ProbeClient, path: &str, status: Status) -> Result<(), Problem> {
    let answer = to.get(stream, path, ATTEMPT, Keep::Beginning).map_err(Problem::NoAnswer)?;
    if status.is_met_by(answer.status) { Ok(()) } else { Err(Problem::Wrong(answer)) }
}

/// Somebody else may have taken the port between our looking for it and the part's start.
fn check_owner(process: &Process, port: u16) -> Result<(), Failure> {
    match proc::listener_beside(process.pid(), SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)) {
        Some((pid, name)) if !process.owns(pid) => Err(never_ready(format!(
            "port {port} is held by another program: {name}, process {pid}"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn daemon_is_told_to_stay_in_the_foreground() {
        let message =
            |code| ended(ExitStatus::from_raw(code), " before it listened on port 1").message;
        assert_eq!(
            message(0).lines().next(),
            Some("it ended with exit status: 0 before it listened on port 1")
        );
        assert!(message(0).contains("\nhint: run the server in the foreground"));
        assert!(!message(256).contains("hint"));
    }

    #[test]
    fn refused_connections_are_told_from_timed_out_ones() {
        let at = [SocketAddr::from(([0, 0, 0, 0], 8))];
        let words = |kind: io::ErrorKind, at: &[SocketAddr]| unconnected(7, &kind.into(), at);
        assert_eq!(
            words(io::ErrorKind::ConnectionRefused, &[]),
            "nothing listened on port 7 (connection refused)"
        );
        assert_eq!(
            words(io::ErrorKind::ConnectionRefused, &at),
            "nothing listened on port 7 (connection refused); it listens on 0.0.0.0:8"
        );
        for kind in [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock] {
            let told = words(kind, &at);
            assert!(told.starts_with("connections to port 7 timed out: packets"), "{told}");
            assert!(told.ends_with("; it listens on 0.0.0.0:8"), "{told}");
        }
        assert!(words(io::ErrorKind::PermissionDenied, &[]).contains("could be made"));
    }

    #[test]
    fn a_status_shows_a_server_ready_as_its_file_says() {
        let met = |status: Status| [200, 302, 404, 503].map(|seen| status.is_met_by(seen));
        assert_eq!(met(Status::Success), [true, true, false, false]);
        assert_eq!(met(Status::Any), [true, true, true, false]);
        assert_eq!(met(Status::Exactly(404)), [false, false, true, false]);
    }
}
