//! Readiness: when a subject listens, and when it first answers right.

use std::net::{SocketAddr, TcpListener, TcpStream};

use dyno_archive::start::{Failure, FailureKind, Startup};
use dyno_observer::{monotonic_ns, proc};

use super::process::Process;
use crate::client::{Answer, Caller};
use crate::limits::{ATTEMPT, CONNECT, POLL};

/// What a subject must answer to be ready, and to whom.
#[derive(Clone, Copy, Debug)]
pub struct RightAnswer<'a> {
    pub to: &'a Caller,
    pub path: &'a str,
    /// `None`: any body, as long as the status is 200.
    pub body: Option<&'a [u8]>,
}

/// Waits until the subject answers right, and accepts connections on all its ports.
pub fn wait(
    process: &mut Process,
    right: RightAnswer<'_>,
    ports: &[u16],
    deadline_ns: u64,
) -> Result<Startup, Failure> {
    let exec_ns = process.exec_ns;
    let give_up = exec_ns + deadline_ns;
    let addr = right.to.door().addr;
    let mut stream = connect(process, addr, give_up)?;
    // The kernel has completed a handshake: from here on the subject listens.
    let listening_ns = monotonic_ns() - exec_ns;
    while let Err(problem) = attempt(stream, right) {
        std::thread::sleep(POLL);
        if process.ended().is_some() || monotonic_ns() > give_up {
            return Err(never_right(process, right.path, problem));
        }
        stream = connect(process, addr, give_up)?;
    }
    // The whole of the first right answer has arrived.
    let first_answer_ns = monotonic_ns() - exec_ns;
    for &port in ports.iter().filter(|port| **port != addr.port()) {
        connect(process, SocketAddr::from(([127, 0, 0, 1], port)), give_up)?;
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
    match right.to.get(stream, right.path, ATTEMPT) {
        Ok(answer) if answer.status != 200 || right.body.is_some_and(|body| body != answer.body) => {
            Err(Problem::Wrong(answer))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(Problem::NoAnswer(error)),
    }
}

fn connect(process: &mut Process, addr: SocketAddr, give_up: u64) -> Result<TcpStream, Failure> {
    loop {
        if let Ok(stream) = TcpStream::connect_timeout(&addr, CONNECT) {
            return Ok(stream);
        }
        if let Some(status) = process.ended() {
            let message = format!("it ended with {status} before it listened on port {}", addr.port());
            return Err(Failure { kind: FailureKind::NeverReady, message });
        }
        if monotonic_ns() > give_up {
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
    match proc::listener_on(port) {
        Some((pid, name)) if !process.sampler.pids().contains(&pid) => Err(Failure {
            kind: FailureKind::NeverReady,
            message: format!("port {port} is held by another program: {name}, process {pid}"),
        }),
        _ => Ok(()),
    }
}

/// Finds ports that nobody holds, below the range from which the kernel takes them for outgoing connections.
pub fn free_ports(count: usize, seed: u64) -> Result<Vec<u16>, String> {
    const FROM: u64 = 20_000;
    let lowest_ephemeral = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_ascii_whitespace().next()?.parse().ok())
        .unwrap_or(32_768u64);
    let to = if lowest_ephemeral > FROM + 100 { lowest_ephemeral } else { 65_000 };
    let mut ports = Vec::new();
    for i in 0..(to - FROM) {
        let port = (FROM + (seed.wrapping_add(i)) % (to - FROM)) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            ports.push(port);
            if ports.len() == count {
                return Ok(ports);
            }
        }
    }
    Err(format!("no {count} free TCP ports between {FROM} and {to} on 127.0.0.1"))
}
