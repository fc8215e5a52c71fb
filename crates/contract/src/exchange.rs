//! One check against one listener, by single exchanges.

use std::io;

use dyno_archive::trial::CheckResult;

use crate::bytes;
use crate::client::{BodyRetention, ProbeClient};
use crate::contracts::Check;
use crate::description;
use crate::lifecycle::LifecyclePromise;
use crate::limits::CHECK;

/// Why a check failed.
#[derive(Debug)]
pub enum Problem {
    /// An incorrect response.
    Wrong(String),
    /// The connection was closed or refused before a complete response. This is wrong for an idle
    /// server; a loaded one may do so.
    Closed(String),
    /// No whole response came in time.
    Late(String),
}

impl Problem {
    /// Classifies an error of a connection.
    pub(crate) fn from_io(error: &io::Error, during: &str) -> Problem {
        let words = format!("{during}: {}", description::cause(error));
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Problem::Late(words),
            io::ErrorKind::InvalidData | io::ErrorKind::Other => Problem::Wrong(words),
            _ => Problem::Closed(words),
        }
    }
}

/// Load of a server during a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Business {
    /// No other client sends it requests.
    Idle,
    /// It is under load: a late response, or a closed connection, breaks no promise.
    Loaded,
}

/// Runs a check. Over HTTP/2 it sends the requests one after the other, regardless of the check's
/// `streams`.
#[must_use]
pub fn run(check: &Check, client: &ProbeClient, business: Business) -> CheckResult {
    result(check, client, try_run(check, client), business)
}

/// Returns the result of a check with this outcome.
#[must_use]
pub fn result(
    check: &Check,
    client: &ProbeClient,
    seen: Result<String, Problem>,
    business: Business,
) -> CheckResult {
    let (ok, answered, got) = match seen {
        Ok(got) => (true, true, got),
        Err(Problem::Wrong(got)) => (false, true, got),
        Err(Problem::Closed(got)) => (false, business == Business::Idle, got),
        Err(Problem::Late(got)) => (false, false, got),
    };
    CheckResult {
        name: check.name.clone(),
        protocol: client.listener().protocol,
        ok,
        answered,
        waived: false,
        of_life: check.life.is_some(),
        asked: request_text(check, client),
        expected: expectation_text(check),
        got,
    }
}

fn request_text(check: &Check, client: &ProbeClient) -> String {
    let all: Vec<String> = check.requests.iter().map(description::request_text).collect();
    let how = check.bytes.map(|bytes| format!(", {}", bytes.request_text())).unwrap_or_default();
    let times = if check.times > 1 {
        format!(", {} times on one connection", check.times)
    } else {
        String::new()
    };
    let streams = match check.streams {
        2.. if client.listener().protocol.is_h2() => format!(", {} at a time", check.streams),
        _ => String::new(),
    };
    let life = check.life.as_ref().map(|life| life.look.action_text());
    let life = match life {
        Some(life) if all.is_empty() => life.into(),
        Some(life) => format!(", {life}"),
        None => String::new(),
    };
    format!("{}{how}{times}{streams}{life}", all.join("; then "))
}

fn expectation_text(check: &Check) -> String {
    if let Some(bytes) = check.bytes {
        return bytes.expectation_text().into();
    }
    let mut all: Vec<String> = check
        .requests
        .iter()
        .map(|request| description::expectation_text(&request.expect))
        .collect();
    all.dedup();
    all.extend(
        check.life.as_ref().map(LifecyclePromise::promise_text).filter(|words| !words.is_empty()),
    );
    all.join("; then ")
}

fn try_run(check: &Check, client: &ProbeClient) -> Result<String, Problem> {
    let traffic = client.compile(check.requests.clone()).map_err(Problem::Wrong)?;
    if let Some(bytes) = check.bytes {
        return bytes::run(bytes, client, traffic.requests());
    }
    let mut session =
        client.session(&traffic, CHECK).map_err(|error| Problem::from_io(&error, "connecting"))?;
    let mut last = String::new();
    let asked = check.requests.iter().zip(traffic.requests());
    for (n, (request, compiled)) in
        (0..check.times).flat_map(|n| asked.clone().map(move |each| (n, each)))
    {
        let during = || match (check.times, check.requests.len()) {
            (1, 1) => format!("{} {}", request.method, request.path),
            _ => format!("{} {}, time {} on this connection", request.method, request.path, n + 1),
        };
        let answer = session
            .ask(compiled, BodyRetention::Whole)
            .map_err(|error| Problem::from_io(&error, &during()))?;
        let fault = compiled.expect.check(answer.status, &answer.headers, &answer.body);
        fault.map_err(|fault| {
            Problem::Wrong(format!("{}: {fault}:\n{}", during(), answer.to_text()))
        })?;
        last = description::answer_text(&answer);
    }
    Ok(if check.times > 1 { format!("each time {last}") } else { last })
}
