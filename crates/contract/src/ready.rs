//! Readiness: when a subject listens, and when it first answers right.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};

use dyno_archive::start::{Failure, FailureKind, Startup};
use dyno_launch::process::Process;
use dyno_observer::{monotonic_ns, proc};

use crate::client::{Answer, Keep, ProbeClient};
use crate::limits::{ATTEMPT, CONNECT, POLL};
use crate::ports::connect_to_another;

/// The answer by which a subject is known to be ready, and the client that asks for it.
#[derive(Clone, Copy, Debug)]
pub struct RightAnswer<'a> {
    pub to: &'a ProbeClient,
    pub path: &'a str,
    /// `None`: any body, as long as the status is 200.
    pub body: Option<&'a [u8]>,
}

/// Until when a subject is waited for.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations)] // It holds a closure.
pub struct Deadline<'a> {
    /// Nanoseconds from exec.
    pub deadline_ns: u64,
    /// Whether the user has asked for the run to end: then nothing is waited for any more.
    pub is_asked_to_end: &'a dyn Fn() -> bool,
}

impl Deadline<'_> {
    fn is_over(self, exec_ns: u64) -> bool {
        // Against the instant of exec, from which the deadline counts.
        monotonic_ns() > exec_ns + self.deadline_ns
    }
}

/// Waits until the subject answers right, and accepts connections on all its ports.
pub fn wait(
    process: &mut Process,
    right: RightAnswer<'_>,
    ports: &[u16],
    deadline: Deadline<'_>,
) -> Result<Startup, Failure> {
    let exec_ns = process.exec_ns;
    let addr = right.to.listener().addr;
    let mut stream = connect(process, addr, deadline)?;
    // The kernel has completed a handshake: from here on the subject listens.
    let listening_ns = monotonic_ns() - exec_ns;
    while let Err(problem) = attempt(stream, right) {
        std::thread::sleep(POLL);
        if process.ended().is_some() || deadline.is_over(exec_ns) {
            return Err(never_right(process, right.path, problem));
        }
        stream = connect(process, addr, deadline)?;
    }
    // The whole of the first right answer has arrived.
    let first_answer_ns = monotonic_ns() - exec_ns;
    for &port in ports.iter().filter(|port| **port != addr.port()) {
        connect(process, SocketAddr::from(([127, 0, 0, 1], port)), deadline)?;
    }
    // Only now: looking for the owner takes milliseconds, which are not the subject's.
    ports.iter().try_for_each(|&port| check_owner(process, port))?;
    Ok(Startup { listening_ns, first_answer_ns, cpu_ns: process.sampler.group.counters().cpu_ns })
}

/// Why an attempt did not show the subject ready.
enum Problem {
    Wrong(Answer),
    NoAnswer(std::io::Error),
}

fn attempt(stream: TcpStream, right: RightAnswer<'_>) -> Result<(), Problem> {
    let keep = if right.body.is_some() { Keep::Whole } else { Keep::Beginning };
    match right.to.get(stream, right.path, ATTEMPT, keep) {
        Ok(answer) if answer.status != 200 || right.body.is_some_and(|body| body != answer.body) => {
            Err(Problem::Wrong(answer))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(Problem::NoAnswer(error)),
    }
}

fn connect(process: &mut Process, addr: SocketAddr, deadline: Deadline<'_>) -> Result<TcpStream, Failure> {
    loop {
        if (deadline.is_asked_to_end)() {
            let message = "the user ended the run".into();
            return Err(Failure { kind: FailureKind::Interrupted, message });
        }
        if let Ok(stream) = connect_to_another(addr, CONNECT) {
            return Ok(stream);
        }
        if let Some(status) = process.ended() {
            let message = format!("it ended with {status} before it listened on port {}", addr.port());
            return Err(Failure { kind: FailureKind::NeverReady, message });
        }
        if deadline.is_over(process.exec_ns) {
            return Err(never(process, &format!("nothing listened on port {}", addr.port())));
        }
        std::thread::sleep(POLL);
    }
}

/// A subject that answers, but never right, is not one that never got up.
fn never_right(process: &mut Process, path: &str, problem: Problem) -> Failure {
    match problem {
        Problem::NoAnswer(error) => never(process, &format!("GET {path} was never answered ({error})")),
        Problem::Wrong(answer) => {
            let what =
                format!("GET {path} was never answered right; the last answer was:\n{}", answer.shown());
            Failure { kind: FailureKind::WrongAnswers, ..never(process, &what) }
        }
    }
}

fn never(process: &mut Process, what: &str) -> Failure {
    let message = match process.ended() {
        Some(status) => format!("it ended with {status}; {what}"),
        None => format!("by its deadline, {what}"),
    };
    Failure { kind: FailureKind::NeverReady, message }
}

/// Somebody else may have taken the port between our looking for it and the subject's start.
fn check_owner(process: &Process, port: u16) -> Result<(), Failure> {
    match proc::listener_at(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)) {
        Some((pid, name)) if !process.sampler.pids().contains(&pid) => Err(Failure {
            kind: FailureKind::NeverReady,
            message: format!("port {port} is held by another program: {name}, process {pid}"),
        }),
        _ => Ok(()),
    }
}
