//! Checks the lifecycle promises of a contract: how a server starts, uses its back ends and stops.
//! The checks use separate starts, so that a failed check does not affect a measured start.

use std::io;
use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use dyno_config::hint;
use dyno_contract::client::ProbeClient;
use dyno_contract::contracts::{Check, lifecycle_promises};
use dyno_contract::exchange::{self, ServerLoad};
use dyno_contract::lifecycle::{ExpectedMatches, LifecyclePromise, PromiseKind};
use dyno_contract::limits::{CHECK, OUTPUT, RESPONSE_DELAY, SETTLING};
use dyno_contract::listener::Listener;
use dyno_contract::problem::Problem;
use dyno_launch::log::Log;
use dyno_launch::process::{ObservedStop, Signal};
use dyno_launch::supervision::{Interrupts, Patience};
use dyno_model::start::{Failure, PartStart};
use dyno_model::trial::CheckResult;
use dyno_model::{Party, Protocol, StartRecord};
use dyno_subject::definition::Definition;
use dyno_subject::placeholders::backends_in;
use regex::bytes::Regex;

use super::RunEvent;
use super::backend_relays::{BackendMark, BackendRelays, relayed_result};
use super::failure_cause::{harness, interrupted_failure};
use super::observed_promise::{ObservedPromise, start_failure};
use super::ports::{Ports, main_port, unused_addresses};
use super::real_host::RealHost;
use super::running_parts::{CheckedListener, RunningPart};
use super::start::{Recipe, Spawned};
use crate::drops::DropWatch;

/// Interval between checks of an awaited condition. Nothing is measured during the wait.
const CONDITION_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Longest wait for a request to reach a back end before the signal to stop.
const BEFORE_SIGNAL: Duration = Duration::from_millis(2500);

/// Next step after a lifecycle check for which dyno lacked a resource.
const SHORTAGE_HINT: &str = "stop other programs, or raise the limit of open files (`ulimit -n`), \
                             and resume the run with `--resume`";

/// A separate start of a subject, with a relay in front of each back end.
struct RelayedStart<'a> {
    part: RunningPart<'a>,
    port: u16,
    relays: Vec<BackendRelays>,
}

/// Amount of output and of requests to back ends when a check begins.
struct Mark {
    /// Length of the output, bytes.
    printed: u64,
    /// One mark per back end.
    requests: Vec<BackendMark>,
}

/// The subject whose lifecycle is checked, and the measured start after the checks.
struct CheckedSubject<'a> {
    recipe: &'a Recipe<'a>,
    /// The subject's name in the report.
    name: &'a str,
    start: &'a StartRecord,
}

impl<'a> RealHost<'a> {
    /// Checks the lifecycle promises of a subject. `Err`: the promises cannot be checked.
    pub(super) fn check_promises(
        &self,
        record: &StartRecord,
        recipe: &Recipe<'_>,
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Vec<CheckResult>, Failure> {
        let definition = recipe.definition;
        let name = &self.arm(record.launch).name;
        let checked = CheckedSubject { recipe, name, start: record };
        let mut running: Option<RelayedStart<'_>> = None;
        let mut results = Vec::new();
        for (check, promise) in lifecycle_promises(&definition.contracts) {
            if self.interrupts.count() > 0 {
                return Err(interrupted_failure());
            }
            if promise.kind.is_refusal() && definition.start.has_own_port() {
                self.stop_relayed(running.take(), definition);
            }
            let drops = DropWatch::begin();
            let observed = match promise.kind {
                _ if needs_backend(promise) && recipe.backend_ports.is_empty() => {
                    ObservedPromise::unchecked(Problem::Wrong(NO_BACKENDS.into()))
                }
                PromiseKind::Serves | PromiseKind::Stops => {
                    self.check_running((check, promise), &mut running, &checked, on_event)?
                }
                PromiseKind::RefusesMissing => match without_addresses(definition) {
                    Some(stripped) => {
                        let recipe = Recipe { definition: &stripped, ..*recipe };
                        self.check_refusal(promise, &checked, &recipe)?
                    }
                    None => ObservedPromise::unchecked(Problem::Wrong(NO_ADDRESS.into())),
                },
                PromiseKind::RefusesUnreachable => {
                    let backend_ports = unused_addresses(recipe.backend_ports).map_err(harness)?;
                    self.check_refusal(
                        promise,
                        &checked,
                        &Recipe { backend_ports: &backend_ports, ..*recipe },
                    )?
                }
            };
            let ObservedPromise { result, oom_kills, ended } = observed;
            let result = result.map_err(|problem| problem.excuse(|| drops.cause_text()));
            let result = check_result(check, definition, result)?;
            match start_failure(&result, oom_kills, ended) {
                Some(failure) => return Err(failure),
                None => results.push(result),
            }
        }
        self.stop_relayed(running, definition);
        // A check that the user interrupted has no result.
        if self.interrupts.count() > 0 { Err(interrupted_failure()) } else { Ok(results) }
    }

    /// Checks a promise of a running subject, and starts the subject if necessary.
    fn check_running(
        &self,
        (check, promise): (&Check, &LifecyclePromise),
        running: &mut Option<RelayedStart<'a>>,
        checked: &CheckedSubject<'_>,
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<ObservedPromise, Failure> {
        let mut start = match running.take() {
            Some(start) => start,
            None => self.start_relayed(checked, on_event)?,
        };
        if promise.kind == PromiseKind::Stops {
            let signal = checked.recipe.definition.stop.signal;
            return Ok(check_stop(check, promise, signal, start, self.interrupts));
        }
        let result = relayed_result(check_serving(check, promise, &start), &start.relays);
        let process = &mut start.part.process;
        let oom_kills = process.oom_kills();
        let observed = ObservedPromise { result, oom_kills, ended: process.exit_status() };
        *running = Some(start);
        Ok(observed)
    }

    fn stop_relayed(&self, start: Option<RelayedStart<'_>>, definition: &Definition) {
        let Some(start) = start else { return };
        let patience = || self.interrupts.patience();
        start.part.process.stop(definition.stop.signal, definition.stop.deadline_ns, patience);
    }

    /// Starts the subject with relays in front of its back ends. The message of a failure includes
    /// the last lines of the subject's output.
    fn start_relayed(
        &self,
        checked: &CheckedSubject<'_>,
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<RelayedStart<'a>, Failure> {
        let backend_ports = checked.recipe.backend_ports.iter();
        let start_relays = |(name, ports): &(String, Ports)| BackendRelays::new(name, *ports);
        let relays = backend_ports.map(start_relays).collect::<io::Result<Vec<_>>>();
        let relays = relays.map_err(|error| harness(error.to_string()))?;
        let ports =
            |relays: &BackendRelays| Ports { plain: relays.plain.port(), tls: relays.tls.port() };
        let backend_ports: Vec<(String, Ports)> =
            relays.iter().map(|relays| (relays.name.clone(), ports(relays))).collect();
        let mut record = checked.unreported_record();
        let recipe = Recipe { backend_ports: &backend_ports, ..*checked.recipe };
        let started = self.start_with(&mut record, &recipe, on_event);
        let part = started.map_err(|failure| {
            let tail = record.parts[0]
                .log_tail
                .take()
                .map_or(String::new(), |tail| format!("\noutput of the server:\n{tail}"));
            let message = format!(
                "in a separate start, to check how the server starts and stops: {}{tail}",
                failure.message
            );
            Failure { message, ..failure }
        })?;
        let port = main_port(checked.recipe.definition, part.ports);
        Ok(RelayedStart { part, port, relays })
    }

    /// Starts the subject with missing or unreachable back ends, and checks that it exits.
    fn check_refusal(
        &self,
        promise: &LifecyclePromise,
        checked: &CheckedSubject<'_>,
        recipe: &Recipe<'_>,
    ) -> Result<ObservedPromise, Failure> {
        let Spawned { mut process, ports, .. } =
            self.spawn(&mut checked.unreported_record(), recipe)?;
        // The clock is read right after exec, because the time to the exit is reported and compared
        // with the contract's limit.
        let began = Instant::now();
        let status = loop {
            if let Some(status) = process.exit_status() {
                break Some(status);
            }
            if self.interrupts.count() > 0 {
                return Err(interrupted_failure());
            }
            if began.elapsed() > promise.within {
                break None;
            }
            thread::sleep(CONDITION_CHECK_INTERVAL);
        };
        let elapsed = began.elapsed();
        let result = refusal_result(status, elapsed, &process.log_tail());
        let result = result.and_then(|message| {
            let port = main_port(recipe.definition, ports);
            check_output(&promise.prints, &process.log(), 0, port).map(|()| message)
        });
        let oom_kills = process.oom_kills();
        process.stop(recipe.definition.stop.signal, recipe.definition.stop.deadline_ns, || {
            Patience::None
        });
        Ok(ObservedPromise { result, oom_kills, ended: None })
    }
}

/// Checks that the subject completes a request that waits for a back end when the signal to stop
/// arrives, and then exits.
fn check_stop(
    check: &Check,
    promise: &LifecyclePromise,
    signal: Signal,
    start: RelayedStart<'_>,
    interrupts: &Interrupts,
) -> ObservedPromise {
    let RelayedStart { part: RunningPart { process, listeners, .. }, port, relays } = start;
    let log = process.log();
    let before = Mark::new(&relays, log.len());
    let client = match first_client(&listeners) {
        Ok(client) => client,
        Err(problem) => return ObservedPromise::unchecked(problem),
    };
    let delay_responses =
        |is_delaying| relays.iter().for_each(|relay| relay.delay_responses(is_delaying));
    let within_ns = promise.within.as_nanos() as u64;
    let request_timeout = BEFORE_SIGNAL + promise.within;
    delay_responses(true);
    let (is_in_flight, response, (stop, oom_kills)) = thread::scope(|scope| {
        let request =
            scope.spawn(|| run_check(check, client, &log, ServerLoad::Ending, request_timeout));
        wait_for(BEFORE_SIGNAL, || request.is_finished() || before.has_new_requests(&relays));
        // The request at a back end may come from the server's connection pool. The check's request
        // is in flight only if dyno's client still waits for the response.
        let is_in_flight = !request.is_finished();
        let release = scope.spawn(|| {
            thread::sleep(RESPONSE_DELAY);
            delay_responses(false);
        });
        let stop = process.stop_with_status(signal, within_ns, || interrupts.patience());
        let _ = release.join();
        (is_in_flight, request.join(), stop)
    });
    let exit = exit_seconds(stop.as_ref(), signal, promise.within);
    let output = || check_output(&promise.prints, &log, before.printed, port);
    let result = response
        .map_err(|_| Problem::Wrong("dyno's client ended before the check was complete".into()))
        .and_then(|response| stop_result(&response, is_in_flight, exit, output));
    ObservedPromise { result: relayed_result(result, &relays), oom_kills, ended: None }
}

/// Returns the result of a stop, from the response to the request in flight, the exit and the
/// output of the server. `exit`: seconds from the signal to the exit.
fn stop_result(
    response: &CheckResult,
    is_in_flight: bool,
    exit: Result<f64, Problem>,
    output: impl FnOnce() -> Result<(), Problem>,
) -> Result<String, Problem> {
    let got = &response.got;
    if !response.ok {
        let request = if is_in_flight { "request in flight" } else { "request" };
        let message = format!("the {request} got no correct response: {got}");
        if response.has_response {
            return Err(Problem::Wrong(message));
        }
        // If the server was killed, the reason is the kill, not a late response.
        return Err(match exit {
            Err(problem) => problem,
            Ok(_) => Problem::Late(message),
        });
    }
    let elapsed = exit?;
    output()?;
    if !is_in_flight {
        return Err(Problem::Late(format!("{NOTHING_IN_FLIGHT}: {got}")));
    }
    Ok(format!("{got}; the server exited {elapsed:.2} s after the signal"))
}

/// Returns the time from the signal to the server's exit, seconds. `Err`: the server did not exit
/// in time, or with a failure status.
fn exit_seconds(
    stop: Option<&ObservedStop>,
    signal: Signal,
    within: Duration,
) -> Result<f64, Problem> {
    let Some(ObservedStop { record, status }) = stop else {
        return Err(Problem::Wrong("the server exited before dyno sent the signal to stop".into()));
    };
    if record.killed {
        let seconds = within.as_secs_f64();
        return Err(Problem::Wrong(format!(
            "the server still ran {seconds} s after the signal, so dyno killed it"
        )));
    }
    let took_s = record.took_ns as f64 / 1e9;
    let Some(status) = status else { return Ok(took_s) };
    // Shells and virtual machines exit with 128 plus the signal's number.
    let is_clean = status.success()
        || status.signal() == Some(signal.number())
        || status.code() == Some(128 + signal.number());
    if is_clean {
        Ok(took_s)
    } else {
        Err(Problem::Wrong(format!("the server responded, but then ended with {status}")))
    }
}

impl CheckedSubject<'_> {
    /// Returns the record of a separate start, which is not archived.
    fn unreported_record(&self) -> StartRecord {
        StartRecord {
            parts: vec![PartStart::new(Party::SUBJECT, self.name.into())],
            ..self.start.clone()
        }
    }
}

const NO_ADDRESS: &str = "dyno checks this promise with a start without the environment variables \
                          that contain the address of a back end, but no variable in the subject's \
                          `env` contains one";

const NO_BACKENDS: &str = "the server has no back ends, so this promise cannot be checked";

const NOTHING_IN_FLIGHT: &str = "the server responded before the signal, without waiting for a \
                                 back end, so no request was in flight";

/// Returns whether a promise is about a server's back ends.
fn needs_backend(promise: &LifecyclePromise) -> bool {
    promise.kind.is_refusal() || !promise.asks.is_empty()
}

/// Returns the definition without the variables that contain the address of a back end. `None`: the
/// definition has no such variables.
fn without_addresses(definition: &Definition) -> Option<Definition> {
    let mut stripped = definition.clone();
    stripped.start.env.retain(|_, value| backends_in(value).next().is_none());
    (stripped.start.env.len() < definition.start.env.len()).then_some(stripped)
}

/// Returns the result of a lifecycle check for the archive. `Err`: dyno lacked a resource for it.
fn check_result(
    check: &Check,
    definition: &Definition,
    result: Result<String, Problem>,
) -> Result<CheckResult, Failure> {
    if let Err(Problem::OwnShortage(reason)) = result {
        return Err(harness(hint::with_default(reason, SHORTAGE_HINT)));
    }
    let protocol = definition.protocols.first().copied().unwrap_or_default();
    // The description of the request and the expectation does not depend on the address.
    let listener =
        Listener { addr: (Ipv4Addr::LOCALHOST, 0).into(), protocol: Protocol::H1, authority: None };
    let client = ProbeClient::new(&listener).map_err(harness)?;
    let waived = check.is_named_in(&definition.waive, protocol);
    Ok(CheckResult {
        protocol,
        waived,
        ..exchange::result(check, &client, result, ServerLoad::Idle)
    })
}

/// Evaluates the exit of a server that has to refuse to start. `Ok`: the server ended with a
/// failure status.
fn refusal_result(
    status: Option<ExitStatus>,
    elapsed: Duration,
    tail: &str,
) -> Result<String, Problem> {
    let elapsed = elapsed.as_secs_f64();
    let printed = if tail.is_empty() { "nothing".into() } else { format!("\n{tail}") };
    match status {
        None => Err(Problem::Silent(format!(
            "the server still ran after {elapsed:.1} s, and printed: {printed}"
        ))),
        Some(status) => match status.code() {
            Some(0) => Err(Problem::Wrong(format!(
                "the server ended after {elapsed:.2} s with status 0 (success), but it must fail"
            ))),
            None => Err(Problem::Wrong(format!(
                "the server was ended by {status}, and printed: {printed}"
            ))),
            Some(code) => {
                let last = tail.lines().last().unwrap_or("nothing");
                Ok(format!(
                    "the server ended with status {code} after {elapsed:.2} s, and the last line \
                     of its output was: {last}"
                ))
            }
        },
    }
}

/// Sends the requests of a check, and checks the server's output and its requests to back ends.
fn check_serving(
    check: &Check,
    promise: &LifecyclePromise,
    start: &RelayedStart<'_>,
) -> Result<String, Problem> {
    if let Some((name, _)) =
        promise.asks.iter().find(|(name, _)| !start.relays.iter().any(|b| b.name == *name))
    {
        let names: Vec<&str> = start.relays.iter().map(|b| b.name.as_str()).collect();
        return Err(Problem::Wrong(format!(
            "the server has no back end {name:?}. Its back ends are: {}",
            names.join(", ")
        )));
    }
    let log = start.part.process.log();
    // The promise of a check without requests is about everything since the start.
    let mark = match check.requests.len() {
        0 => Mark { printed: 0, requests: vec![BackendMark::default(); start.relays.len()] },
        _ => Mark::new(&start.relays, log.len()),
    };
    let mut message = Vec::new();
    if !check.requests.is_empty() {
        let client = first_client(&start.part.listeners)?;
        let result = run_check(check, client, &log, ServerLoad::Idle, CHECK);
        match (result.ok, result.has_response) {
            (true, _) => message.push(result.got),
            (false, true) => return Err(Problem::Wrong(result.got)),
            (false, false) => return Err(Problem::Late(result.got)),
        }
    }
    wait_for_expected(promise, start, &mark)?;
    check_output(&promise.prints, &log, mark.printed, start.port)?;
    for (backend, expected) in &promise.asks {
        let requests = mark.requests_since(start, backend)?;
        let n = expected.count(requests.iter().map(Vec::as_slice), start.port);
        let ExpectedMatches { matches, .. } = expected;
        if !expected.times.admits(n) {
            let first = log.text(request_lines(&requests).as_bytes());
            let message = format!(
                "{n} matches of {matches} in the server's requests to {backend}. The first \
                 requests were:{first}"
            );
            return Err(problem_of_count(expected, n, message));
        }
        message.push(format!("{n} matches of {matches} in the server's requests to {backend}"));
    }
    message.extend(
        promise.prints.iter().map(|s| format!("the server's output matched {}", s.matches)),
    );
    Ok(message.join(", "))
}

/// Waits until the expected output and requests have arrived. If a promise has an upper limit, then
/// waits a little longer, so that output and requests above the limit can arrive.
fn wait_for_expected(
    promise: &LifecyclePromise,
    start: &RelayedStart<'_>,
    mark: &Mark,
) -> Result<(), Problem> {
    let log = start.part.process.log();
    let is_missing = || -> Result<bool, Problem> {
        let printed = printed_since(&log, mark.printed)?;
        let lacks_output = promise.prints.iter().any(|s| expects_more(s, &printed, start.port));
        let lack_requests = promise.asks.iter().map(|(backend, s)| {
            Ok(expects_more(s, &mark.requests_since(start, backend)?, start.port))
        });
        Ok(lacks_output || lack_requests.collect::<Result<Vec<bool>, Problem>>()?.contains(&true))
    };
    // The caller reads the output and requests again, and reports failures.
    wait_for(OUTPUT, || !is_missing().unwrap_or(false));
    let mut expected = promise.prints.iter().chain(promise.asks.iter().map(|(_, matches)| matches));
    if expected.any(|matches| matches.times.has_maximum()) {
        thread::sleep(SETTLING);
    }
    Ok(())
}

impl Mark {
    fn new(relays: &[BackendRelays], printed: u64) -> Mark {
        Mark { printed, requests: relays.iter().map(BackendRelays::mark).collect() }
    }

    /// Returns the requests to a back end since the mark. `Err`: the requests are unknown.
    fn requests_since(
        &self,
        start: &RelayedStart<'_>,
        backend: &str,
    ) -> Result<Vec<Vec<u8>>, Problem> {
        let mut marked_relays = start.relays.iter().zip(&self.requests);
        let Some((relays, mark)) = marked_relays.find(|(relays, _)| relays.name == backend) else {
            return Ok(Vec::new());
        };
        if relays.tls.requests_since(&mark.tls).iter().any(|bytes| !bytes.is_empty()) {
            return Err(Problem::Late(format!(
                "the server sent requests to {backend} over TLS, which dyno cannot read"
            )));
        }
        if relays.plain.is_full() {
            return Err(Problem::Late(format!(
                "the server sent more bytes to {backend} than dyno stores, so dyno cannot check \
                 the requests"
            )));
        }
        Ok(relays.plain.requests_since(&mark.plain))
    }

    /// Returns whether any back end has received requests since the mark.
    fn has_new_requests(&self, relays: &[BackendRelays]) -> bool {
        relays.iter().zip(&self.requests).any(|(relays, mark)| relays.has_requests_since(mark))
    }
}

/// Runs a check. A response may quote the secrets of the server's environment, which are erased
/// from the result.
fn run_check(
    check: &Check,
    client: &ProbeClient,
    log: &Log,
    server_load: ServerLoad,
    time: Duration,
) -> CheckResult {
    let drops = DropWatch::begin();
    let result = exchange::run(check, client, server_load, time, || drops.cause_text());
    CheckResult { got: log.text(result.got.as_bytes()), ..result }
}

fn first_client(listeners: &[Arc<CheckedListener>]) -> Result<&ProbeClient, Problem> {
    let first = listeners.first().map(|listener| &listener.client);
    first.ok_or_else(|| {
        Problem::Wrong("the subject has no `protocols`, so dyno cannot send it requests".into())
    })
}

/// Returns the lines that were printed since a position of the log. The first one is only the end
/// of a line if the position is within a line.
fn printed_since(log: &Log, position: u64) -> Result<Vec<Vec<u8>>, Problem> {
    let text = log.bytes_from(position).ok_or_else(|| {
        Problem::Late(
            "the server printed more than dyno stores, so dyno cannot check the output".into(),
        )
    })?;
    Ok(text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect())
}

fn expects_more(expected: &ExpectedMatches, texts: &[Vec<u8>], port: u16) -> bool {
    expected.times.needs_more_than(expected.count(texts.iter().map(Vec::as_slice), port))
}

/// Checks that the expected lines were printed as often as promised, since a position of the log.
fn check_output(
    prints: &[ExpectedMatches],
    log: &Log,
    position: u64,
    port: u16,
) -> Result<(), Problem> {
    let lines = printed_since(log, position)?;
    for expected in prints {
        let n = expected.count(lines.iter().map(Vec::as_slice), port);
        if !expected.times.admits(n) {
            let last = &lines[lines.len().saturating_sub(QUOTED_LINES)..];
            let last: Vec<_> = last.iter().map(|line| log.text(line)).collect();
            let output = match last.is_empty() {
                true => ", which was empty".into(),
                false => format!(". Its last lines were:\n{}", last.join("\n")),
            };
            let message =
                format!("{n} matches of {} in the server's output{output}", expected.matches);
            return Err(problem_of_count(expected, n, message));
        }
    }
    Ok(())
}

/// Returns the problem of a number of matches that breaks a promise. If there are too few, the
/// server may have waited for a dropped packet, so the problem can be excused.
fn problem_of_count(expected: &ExpectedMatches, n: usize, message: String) -> Problem {
    if expected.times.needs_more_than(n) {
        Problem::Silent(message)
    } else {
        Problem::Wrong(message)
    }
}

/// Maximum number of lines of a server's output or requests that are quoted.
const QUOTED_LINES: usize = 20;

/// Returns the first line of each HTTP request. The other lines may contain secrets.
fn request_lines(requests: &[Vec<u8>]) -> String {
    static REQUEST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?m)[A-Z]+ /\S* HTTP/1\.[01]\r?$").expect("the expression should be valid")
    });
    let lines = requests.iter().flat_map(|bytes| REQUEST.find_iter(bytes));
    let lines: Vec<String> = lines
        .take(QUOTED_LINES)
        .map(|m| String::from_utf8_lossy(m.as_bytes()).trim_end().into())
        .collect();
    match lines.as_slice() {
        [] => {
            let bytes: usize = requests.iter().map(Vec::len).sum();
            if bytes == 0 { " none".into() } else { format!(" {bytes} bytes of another protocol") }
        }
        lines => format!("\n{}", lines.join("\n")),
    }
}

/// Waits for a condition. Returns whether it was met.
fn wait_for(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    // This clock only limits the wait.
    let began = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if began.elapsed() > patience {
            return false;
        }
        thread::sleep(CONDITION_CHECK_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::path::Path;

    use dyno_contract::contracts::Contract;
    use dyno_launch::guard::Guard;
    use dyno_launch::supervision::Supervision;

    use super::*;
    use crate::run::fixture;
    use crate::run::running_parts::AliveCheck;

    /// A server without back ends that delays its response. Its process ends at the signal.
    fn start<'a>(supervision: &Supervision<'a>, delay: Duration) -> RelayedStart<'a> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr: SocketAddr = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            thread::sleep(delay);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        });
        let part = fixture::part(supervision, Some(addr), AliveCheck::Connect(Vec::new()));
        RelayedStart { part, port: addr.port(), relays: Vec::new() }
    }

    #[test]
    fn response_before_signal_leaves_nothing_in_flight() {
        let source = "[[checks]]\nname = \"a\"\nlife = \"stops\"\npath = \"/\"\n";
        let contract = Contract::parse(Path::new("c.toml"), "c", source, &|_| unreachable!());
        let check = contract.unwrap().checks.remove(0);
        let promise = check.life.as_ref().unwrap();
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let stop = |delay| {
            let start = start(&supervision, delay);
            check_stop(&check, promise, Signal::Term, start, &interrupts)
        };
        let fast = stop(Duration::ZERO);
        assert!(
            matches!(&fast.result, Err(Problem::Late(text)) if text.starts_with(NOTHING_IN_FLIGHT)),
            "{fast:?}"
        );
        let slow = stop(BEFORE_SIGNAL + RESPONSE_DELAY);
        assert!(
            slow.result.as_ref().is_ok_and(|got| got.contains("the server exited")),
            "{slow:?}"
        );
    }
}
