//! Runs a check of a contract at one listener, with single exchanges.

use std::io;

use dyno_archive::trial::CheckResult;

use crate::bytes;
use crate::client::{BodyRetention, ProbeClient};
use crate::contracts::Check;
use crate::description;
use crate::lifecycle::LifecyclePromise;
use crate::limits::CHECK;

/// The reason why a check failed.
#[derive(Debug)]
pub enum Problem {
    /// An incorrect response.
    Wrong(String),
    /// The connection was closed or refused before a complete response. An idle server must not do
    /// this, and a loaded one may.
    Closed(String),
    /// No whole response arrived in time.
    Late(String),
}

impl Problem {
    /// Classifies an error of a connection.
    pub(crate) fn from_io(error: &io::Error, during: &str) -> Problem {
        let message = format!("{during}: {}", description::cause(error));
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Problem::Late(message),
            io::ErrorKind::InvalidData | io::ErrorKind::Other => Problem::Wrong(message),
            _ => Problem::Closed(message),
        }
    }
}

/// Load of a server during a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerLoad {
    /// No other client sends it requests.
    Idle,
    /// It is under load: a late response, or a closed connection, does not break a promise.
    Loaded,
}

/// Runs a check. Over HTTP/2 it sends the requests one after the other, and ignores the check's
/// `streams`.
#[must_use]
pub fn run(check: &Check, client: &ProbeClient, load: ServerLoad) -> CheckResult {
    result(check, client, try_run(check, client), load)
}

/// Returns the result of a check with this outcome. `Ok`: the received response, as text.
#[must_use]
pub fn result(
    check: &Check,
    client: &ProbeClient,
    outcome: Result<String, Problem>,
    load: ServerLoad,
) -> CheckResult {
    let (ok, has_response, got) = match outcome {
        Ok(got) => (true, true, got),
        Err(Problem::Wrong(got)) => (false, true, got),
        Err(Problem::Closed(got)) => (false, load == ServerLoad::Idle, got),
        Err(Problem::Late(got)) => (false, false, got),
    };
    CheckResult {
        name: check.name.clone(),
        protocol: client.listener().protocol,
        ok,
        has_response,
        waived: false,
        of_life: check.life.is_some(),
        asked: request_text(check, client),
        expected: expectation_text(check),
        got,
    }
}

fn request_text(check: &Check, client: &ProbeClient) -> String {
    let requests: Vec<String> = check.requests.iter().map(description::request_text).collect();
    let sending =
        check.bytes.map(|bytes| format!(", {}", bytes.request_text())).unwrap_or_default();
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
        Some(life) if requests.is_empty() => life.into(),
        Some(life) => format!(", {life}"),
        None => String::new(),
    };
    format!("{}{sending}{times}{streams}{life}", requests.join("; then "))
}

fn expectation_text(check: &Check) -> String {
    if let Some(bytes) = check.bytes {
        return bytes.expectation_text().into();
    }
    let mut texts: Vec<String> = check
        .requests
        .iter()
        .map(|request| description::expectation_text(&request.expect))
        .collect();
    texts.dedup();
    texts.extend(
        check.life.as_ref().map(LifecyclePromise::promise_text).filter(|text| !text.is_empty()),
    );
    texts.join("; then ")
}

fn try_run(check: &Check, client: &ProbeClient) -> Result<String, Problem> {
    let traffic = client.compile(check.requests.clone()).map_err(Problem::Wrong)?;
    if let Some(bytes) = check.bytes {
        return bytes::run(bytes, client, traffic.requests());
    }
    let mut session =
        client.session(&traffic, CHECK).map_err(|error| Problem::from_io(&error, "connecting"))?;
    let mut last = String::new();
    let requests = check.requests.iter().zip(traffic.requests());
    for (n, (request, compiled)) in
        (0..check.times).flat_map(|n| requests.clone().map(move |request| (n, request)))
    {
        let during = || match (check.times, check.requests.len()) {
            (1, 1) => format!("{} {}", request.method, request.path),
            _ => format!("{} {}, time {} on this connection", request.method, request.path, n + 1),
        };
        let response = session
            .exchange(compiled, BodyRetention::Whole)
            .map_err(|error| Problem::from_io(&error, &during()))?;
        let fault = compiled.expect.check(response.status, &response.headers, &response.body);
        fault.map_err(|fault| {
            Problem::Wrong(format!("{}: {fault}:\n{}", during(), response.to_text()))
        })?;
        last = description::response_text(&response);
    }
    Ok(if check.times > 1 { format!("each time {last}") } else { last })
}
