//! Runs a check of a contract at a listener. Simple checks use single exchanges. Checks with
//! concurrent requests or an HTTP/2 upgrade also use the load generator's client, because the
//! simple client supports neither.

use std::time::Instant;

use dyno_contract::client::ProbeClient;
use dyno_contract::contracts::Check;
use dyno_contract::exchange::{self, ServerLoad};
use dyno_contract::limits::CHECK;
use dyno_contract::listener::Listener;
use dyno_contract::problem::{Problem, TimeLimit};
use dyno_driver::best_driver;
use dyno_model::plan::{Http2, Load, Step, Workload};
use dyno_model::trial::CheckResult;
use dyno_model::{LoadRecord, Outcome, Protocol};
use dyno_suite::defaults::default_load;

use crate::drops::DropWatch;
use crate::load::{self, StopWhen};

/// Runs one check at a listener.
#[must_use]
pub fn run(check: &Check, client: &ProbeClient, server_load: ServerLoad) -> CheckResult {
    // A server under load breaks no promise if a response is missing, so the cause of a missing
    // response is searched for only at an idle server.
    let drops = (server_load == ServerLoad::Idle).then(DropWatch::begin);
    let attempt = |limit| attempt(check, client, limit);
    exchange::run_with(check, client, server_load, attempt, || drops?.cause_text())
}

/// Tries a check once, with the load generator if single exchanges are not enough.
fn attempt(check: &Check, client: &ProbeClient, limit: TimeLimit) -> Result<String, Problem> {
    let got = exchange::try_run(check, client, limit)?;
    let protocol = client.listener().protocol;
    // Single exchanges do not upgrade, and are never concurrent.
    let needs_generator =
        protocol == Protocol::H2cUpgrade || (protocol.is_h2() && check.streams > 1);
    if !needs_generator {
        return Ok(got);
    }
    match check.requests.len() {
        1 => send_requests(check, client.listener(), Instant::now() + 2 * CHECK),
        _ => send_in_order(check, client.listener(), limit),
    }
}

/// Sends the requests of a check. All responses must arrive before `deadline`. Callers allow twice
/// [`CHECK`], because connecting may take up to [`CHECK`], and the response may, too.
fn send_requests(check: &Check, listener: &Listener, deadline: Instant) -> Result<String, Problem> {
    let workload = Workload {
        name: check.name.clone(),
        protocol: listener.protocol,
        requests: check.requests.clone(),
        page: None,
        sequence: None,
        requests_per_connection: None,
    };
    let http2 = Http2::default();
    let no_files = |_: &str| Err("no files here".into());
    let requests = load::LoadRequests::compile(workload, &listener.host(), http2, &no_files)
        .map_err(Problem::Wrong)?;
    let base = load::single_request(listener, requests, default_load(best_driver().0));
    let step = Step { streams: check.streams, ..base.step.clone() };
    let load = Load { requests: Some(check.times.into()), ..base.load.clone() };
    run_load(&load::LoadSpec { step, load, ..base }, deadline)?;
    Ok(match check.times {
        1 => "the expected response".into(),
        n => format!("{n} requests on one connection, each with the expected response"),
    })
}

/// Sends the requests of a list in their order, each on a separate connection. A load would draw
/// its requests by weight, and only the first request of a connection can upgrade it.
fn send_in_order(check: &Check, listener: &Listener, limit: TimeLimit) -> Result<String, Problem> {
    let began = Instant::now();
    for _ in 0..check.times {
        for request in &check.requests {
            limit.check_elapsed(began)?;
            let limit_began = match limit {
                TimeLimit::Check => began,
                TimeLimit::Response => Instant::now(),
            };
            let single = Check { requests: vec![request.clone()], times: 1, ..check.clone() };
            send_requests(&single, listener, limit_began + 2 * CHECK)?;
        }
    }
    let n = u64::from(check.times) * check.requests.len() as u64;
    Ok(format!("{n} requests in order, each with an upgrade to HTTP/2 and the expected response"))
}

/// Sends the requests of `spec` on one connection. Every response must be as expected, and arrive
/// before `deadline`.
fn run_load(spec: &load::LoadSpec, deadline: Instant) -> Result<(), Problem> {
    let mut watch = StopWhen(|| Instant::now() > deadline);
    let record = load::run(spec, &mut watch).map_err(Problem::Wrong)?;
    let expected = spec.load.requests.unwrap_or(1);
    let outcomes = || record.intervals.iter().flat_map(|i| i.outcomes.iter());
    let correct: u64 = outcomes().filter(|(o, _)| *o == Outcome::Ok).map(|(_, n)| n).sum();
    if let Some((outcome, n)) = worst(outcomes()) {
        let kinds = [&record.unexpected, &record.protocol_errors, &record.connection_failures];
        let details: Vec<&str> =
            kinds.iter().flat_map(|kind| kind.keys()).map(String::as_str).collect();
        let reason =
            if details.is_empty() { String::new() } else { format!(": {}", details.join("; ")) };
        let message =
            format!("{n} of {expected} requests ended with the result {}{reason}", outcome.name());
        return Err(match outcome {
            Outcome::AddressExhausted => Problem::OwnShortage(message),
            _ if is_late(outcome) => Problem::Late(message),
            _ if outcome.is_completed() || outcome == Outcome::ProtocolError => {
                Problem::Wrong(message)
            }
            _ => Problem::Closed(message),
        });
    }
    if correct != expected {
        let message =
            format!("only {correct} of {expected} requests got a correct response in time");
        return Err(if correct > 0 { Problem::Slow(message) } else { Problem::Late(message) });
    }
    let unstored = record.intervals.iter().filter_map(|i| i.unstored_bodies);
    let unchecked: u64 = unstored.map(|bodies| bodies.unchecked).sum();
    if unchecked > 0 {
        return Err(Problem::OwnShortage(format!(
            "{unchecked} of {expected} responses were not checked, because their bodies exceed 256 \
             MiB together"
        )));
    }
    if record.connections.opened != 1 {
        let n = record.connections.opened;
        return Err(Problem::Wrong(format!(
            "the server closed connections, so {n} connections were needed instead of 1"
        )));
    }
    check_protocol_use(spec, &record)
}

/// Returns the worst outcome that is not `Ok`, with its number. A late response is the least bad
/// outcome.
fn worst(outcomes: impl Iterator<Item = (Outcome, u64)>) -> Option<(Outcome, u64)> {
    let failures: Vec<(Outcome, u64)> =
        outcomes.filter(|(o, n)| *o != Outcome::Ok && *n > 0).collect();
    failures.iter().find(|(o, _)| !is_late(*o)).or(failures.first()).copied()
}

/// Returns whether an exchange timed out, or an earlier exchange on its connection timed out.
fn is_late(outcome: Outcome) -> bool {
    outcome.is_timeout() || matches!(outcome, Outcome::ConnectTimeout | Outcome::Cancelled)
}

/// Checks that the server used HTTP/2 where the protocol requires it, and processed as many
/// requests at a time as the check needs.
fn check_protocol_use(spec: &load::LoadSpec, record: &LoadRecord) -> Result<(), Problem> {
    let Some(http2) = record.http2.as_ref().filter(|_| spec.target.protocol.is_h2()) else {
        return Ok(());
    };
    if http2.fallen_back + http2.upgrades_declined > 0 {
        return Err(Problem::Wrong("the server used HTTP/1.1 instead of HTTP/2".into()));
    }
    let streams = u64::from(spec.step.streams);
    if http2.max_open_streams < streams && streams > 1 {
        let max_streams = http2.max_open_streams;
        return Err(Problem::Wrong(format!(
            "only {max_streams} requests were in flight at the same time, but the check needs \
             {streams}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worst_prefers_incorrect_over_late_outcomes() {
        let late = [(Outcome::Ok, 97), (Outcome::Timeout, 1), (Outcome::Cancelled, 2)];
        let (outcome, n) = worst(late.into_iter()).unwrap();
        assert!(is_late(outcome) && n == 1, "{outcome:?}");
        let mixed = [(Outcome::Timeout, 1), (Outcome::UnexpectedBody, 3)];
        assert_eq!(worst(mixed.into_iter()), Some((Outcome::UnexpectedBody, 3)));
        assert!(!is_late(Outcome::Reset) && !is_late(Outcome::ClosedEarly));
        assert_eq!(worst([(Outcome::Ok, 5), (Outcome::Timeout, 0)].into_iter()), None);
    }
}
