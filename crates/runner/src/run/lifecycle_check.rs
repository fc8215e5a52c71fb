//! Checks of the promises about a server's life, in separate starts, while the back ends of the
//! measured start are up.

use std::io;
use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use dyno_archive::plan::Arm;
use dyno_archive::start::{Failure, PartStart, StopRecord};
use dyno_archive::trial::CheckResult;
use dyno_archive::{Party, Protocol, StartRecord};
use dyno_contract::client::ProbeClient;
use dyno_contract::contracts::{Check, lifecycle_promises};
use dyno_contract::exchange::{self, Problem, ServerLoad};
use dyno_contract::lifecycle::{LifecyclePromise, PromiseKind, Sighting};
use dyno_contract::limits::{CHECK, OUTPUT, RESPONSE_DELAY, SETTLING};
use dyno_contract::listener::Listener;
use dyno_contract::ports;
use dyno_contract::relay::Relay;
use dyno_launch::log::Log;
use dyno_launch::process::Signal;
use dyno_launch::supervision::Patience;
use dyno_subject::definition::Definition;
use dyno_subject::placeholders::backends_in;
use regex::bytes::Regex;

use super::Runner;
use super::judge::{harness, interrupted_failure};
use super::running_parts::{CheckedListener, RunningPart};
use super::start::{Ports, Recipe, RunSetup, Spawned};

/// Interval between checks of an awaited condition. The cost is negligible, and nothing is measured
/// meanwhile.
const GLANCE: Duration = Duration::from_millis(20);

/// A start of a subject whose back ends are behind relays.
struct Stage {
    part: RunningPart,
    port: u16,
    relays: Vec<BackendRelays>,
}

/// The relays in front of one back end.
struct BackendRelays {
    name: String,
    plain: Relay,
    /// Relay of encrypted connections.
    tls: Relay,
}

/// Output of a stage in bytes, and its requests, at the begin of a check.
struct Mark {
    printed: u64,
    asked: Vec<(Vec<usize>, Vec<usize>)>,
}

/// A start's subject, for the promises about its life.
struct Rehearsal<'a> {
    recipe: &'a Recipe<'a>,
    /// Its name in the report.
    name: &'a str,
    start: &'a StartRecord,
    setup: &'a RunSetup,
}

impl Runner<'_> {
    /// Checks the promises about a subject's life. `Err`: they cannot be checked.
    pub(super) fn rehearse(
        &mut self,
        record: &StartRecord,
        arm: &Arm,
        recipe: &Recipe<'_>,
        setup: &RunSetup,
    ) -> Result<Vec<CheckResult>, Failure> {
        let definition = recipe.definition;
        let rehearsal = Rehearsal { recipe, name: &arm.name, start: record, setup };
        let mut stage: Option<Stage> = None;
        let mut results = Vec::new();
        for (check, life) in lifecycle_promises(&definition.contracts) {
            if self.interrupts.count() > 0 {
                return Err(interrupted_failure());
            }
            if life.look.is_refusal() && definition.start.has_own_port() {
                self.end(stage.take(), definition);
            }
            let seen = match life.look {
                _ if needs_a_back_end(life) && recipe.others.is_empty() => {
                    Err(Problem::Wrong(NO_BACKENDS.into()))
                }
                PromiseKind::Serves | PromiseKind::Stops => {
                    let up = match stage.take() {
                        Some(stage) => stage,
                        None => self.stage(&rehearsal)?,
                    };
                    if life.look == PromiseKind::Serves {
                        let seen = serves(check, life, &up);
                        stage = Some(up);
                        seen
                    } else {
                        self.stops(check, life, definition, up)
                    }
                }
                PromiseKind::RefusesMissing => match without_addresses(definition) {
                    Some(without) => {
                        self.refuses(life, &rehearsal, &Recipe { definition: &without, ..*recipe })?
                    }
                    None => Err(Problem::Wrong(NO_ADDRESS.into())),
                },
                PromiseKind::RefusesUnreachable => {
                    let others = unused_addresses(recipe.others).map_err(harness)?;
                    self.refuses(life, &rehearsal, &Recipe { others: &others, ..*recipe })?
                }
            };
            results.push(result(check, definition, seen)?);
        }
        self.end(stage, definition);
        // A check that the user interrupted has no result.
        if self.interrupts.count() > 0 { Err(interrupted_failure()) } else { Ok(results) }
    }

    fn end(&self, stage: Option<Stage>, definition: &Definition) {
        let Some(stage) = stage else { return };
        let patience = || self.interrupts.patience();
        let kept = self.runtime_files(&stage.part.process);
        stage.part.process.stop(definition.stop.signal, definition.stop.deadline_ns, patience);
        kept.remove();
    }

    /// Starts the subject behind relays. A failure has its last lines in the record of the start.
    fn stage(&mut self, of: &Rehearsal<'_>) -> Result<Stage, Failure> {
        let start_relays = |(name, ports): &(String, Ports)| {
            Ok(BackendRelays {
                name: name.clone(),
                plain: Relay::new(ports.plain)?,
                tls: Relay::new(ports.tls)?,
            })
        };
        let relays = of.recipe.others.iter().map(start_relays).collect::<io::Result<Vec<_>>>();
        let relays = relays.map_err(|error| harness(error.to_string()))?;
        let port_of = |b: &BackendRelays| {
            (b.name.clone(), Ports { plain: b.plain.port(), tls: b.tls.port() })
        };
        let others: Vec<(String, Ports)> = relays.iter().map(port_of).collect();
        let mut scratch = of.scratch();
        let started =
            self.start_part(&mut scratch, &Recipe { others: &others, ..*of.recipe }, of.setup);
        let (part, ports) = started.map_err(|failure| {
            let tail = scratch.parts[0]
                .log_tail
                .take()
                .map_or(String::new(), |tail| format!("\nits output:\n{tail}"));
            let message =
                format!("in a separate start for the lifecycle checks: {}{tail}", failure.message);
            Failure { message, ..failure }
        })?;
        Ok(Stage { part, port: ports.plain, relays })
    }

    /// Starts the subject so that it must not come up, and waits for its exit.
    fn refuses(
        &mut self,
        life: &LifecyclePromise,
        of: &Rehearsal<'_>,
        recipe: &Recipe<'_>,
    ) -> Result<Result<String, Problem>, Failure> {
        let Spawned { mut process, ports, .. } = self.spawn(&mut of.scratch(), recipe, of.setup)?;
        // Read right after exec: the time to its end is reported and compared with the contract's
        // limit.
        let began = Instant::now();
        let status = loop {
            if let Some(status) = process.exit_status() {
                break Some(status);
            }
            if self.interrupts.count() > 0 {
                return Err(interrupted_failure());
            }
            if began.elapsed() > life.within {
                break None;
            }
            thread::sleep(GLANCE);
        };
        let took = began.elapsed();
        let seen = refusal(status, took, &process.log_tail());
        let seen = seen.and_then(|words| {
            check_sightings(&life.prints, &printed_since(&process.log(), 0)?, ports.plain)
                .map(|()| words)
        });
        let kept = self.runtime_files(&process);
        process.stop(recipe.definition.stop.signal, recipe.definition.stop.deadline_ns, || {
            Patience::None
        });
        kept.remove();
        Ok(seen)
    }

    /// Asks the subject to end while its request waits for a back end.
    fn stops(
        &self,
        check: &Check,
        life: &LifecyclePromise,
        definition: &Definition,
        stage: Stage,
    ) -> Result<String, Problem> {
        let Stage { part: RunningPart { process, listeners, .. }, port, relays } = stage;
        let log = process.log();
        let before = Mark::new(&relays, log.len());
        let client = first_client(&listeners)?;
        let hold = |is_held| relays.iter().for_each(|b| b.hold(is_held));
        let patience = || self.interrupts.patience();
        let signal = definition.stop.signal;
        hold(true);
        let (was_under_way, answer, stopped) = thread::scope(|scope| {
            let answer = scope.spawn(|| exchange::run(check, client, ServerLoad::Idle));
            let is_under_way =
                !relays.is_empty() && is_soon(CHECK / 2, || before.is_asked(&relays));
            let release = scope.spawn(|| {
                thread::sleep(RESPONSE_DELAY);
                hold(false);
            });
            // Without a back end to delay it, the response has arrived before the signal is sent.
            let answer = if is_under_way { Err(answer) } else { Ok(answer.join()) };
            let stopped = process.stop_with_status(signal, life.within.as_nanos() as u64, patience);
            let _ = release.join();
            (is_under_way, answer.unwrap_or_else(thread::ScopedJoinHandle::join), stopped)
        });
        let answer = answer.map_err(|_| {
            Problem::Wrong("dyno's client ended before the check was complete".into())
        })?;
        if !answer.ok {
            let words = format!("the request in flight had no correct response: {}", answer.got);
            return Err(if answer.answered { Problem::Wrong(words) } else { Problem::Late(words) });
        }
        let took = stopped_well(stopped, signal, life.within)?;
        check_sightings(&life.prints, &printed_since(&log, before.printed)?, port)?;
        if !relays.is_empty() && !was_under_way {
            return Err(Problem::Late(format!("{NOTHING_UNDER_WAY}: {}", answer.got)));
        }
        Ok(format!("{}, and then an exit after {took:.2} s", answer.got))
    }
}

/// Returns the time to its exit, seconds, if it exited by itself and as requested.
fn stopped_well(
    stopped: Option<(StopRecord, Option<ExitStatus>)>,
    signal: Signal,
    within: Duration,
) -> Result<f64, Problem> {
    let Some((stop, status)) = stopped else {
        return Err(Problem::Wrong("the server exited before the signal".into()));
    };
    if stop.killed {
        let seconds = within.as_secs_f64();
        return Err(Problem::Wrong(format!(
            "the server still ran {seconds} s after the signal, and was killed"
        )));
    }
    // Shells and virtual machines exit with 128 plus the signal's number.
    let is_well = status.is_none_or(|status| {
        status.success()
            || status.signal() == Some(signal.number())
            || status.code() == Some(128 + signal.number())
    });
    match status {
        Some(status) if !is_well => {
            Err(Problem::Wrong(format!("the server responded, and then ended with {status}")))
        }
        _ => Ok(stop.took_ns as f64 / 1e9),
    }
}

impl Rehearsal<'_> {
    /// Returns a record of a start that no report shows.
    fn scratch(&self) -> StartRecord {
        StartRecord {
            parts: vec![PartStart::new(Party::SUBJECT, self.name.into())],
            ..self.start.clone()
        }
    }
}

const NO_ADDRESS: &str = "no variable in the subject's `env` has the address of a back end, so \
                          dyno cannot leave the address out";

const NO_BACKENDS: &str = "the server has no back ends, so this promise cannot be checked";

const NOTHING_UNDER_WAY: &str = "the server responded without requests to its back ends, so no \
                                 request was in flight at the signal";

/// Returns whether a promise is about a server's back ends.
fn needs_a_back_end(life: &LifecyclePromise) -> bool {
    life.look.is_refusal() || !life.asks.is_empty()
}

/// Returns the definition without the variables that hold the address of a back end; `None`: there
/// are none.
fn without_addresses(definition: &Definition) -> Option<Definition> {
    let mut without = definition.clone();
    without.start.env.retain(|_, value| backends_in(value).next().is_none());
    (without.start.env.len() < definition.start.env.len()).then_some(without)
}

/// Returns addresses without a listener, in place of those of the back ends.
fn unused_addresses(others: &[(String, Ports)]) -> Result<Vec<(String, Ports)>, String> {
    let free = ports::free_ports(2 * others.len(), dyno_observer::monotonic_ns())?;
    let each = others.iter().zip(free.chunks(2));
    Ok(each
        .map(|((name, _), free)| (name.clone(), Ports { plain: free[0], tls: free[1] }))
        .collect())
}

fn result(
    check: &Check,
    definition: &Definition,
    seen: Result<String, Problem>,
) -> Result<CheckResult, Failure> {
    let protocol = definition.protocols.first().copied().unwrap_or_default();
    // The words for request and expectation do not depend on the address.
    let listener =
        Listener { addr: (Ipv4Addr::LOCALHOST, 0).into(), protocol: Protocol::H1, authority: None };
    let words = ProbeClient::new(&listener).map_err(harness)?;
    let waived = check.is_named_in(&definition.waive, protocol);
    Ok(CheckResult { protocol, waived, ..exchange::result(check, &words, seen, ServerLoad::Idle) })
}

fn refusal(status: Option<ExitStatus>, took: Duration, tail: &str) -> Result<String, Problem> {
    let took = took.as_secs_f64();
    let printed = if tail.is_empty() { "nothing".into() } else { format!("\n{tail}") };
    match status {
        None => Err(Problem::Wrong(format!(
            "the server still ran after {took:.1} s, and printed: {printed}"
        ))),
        Some(status) => match status.code() {
            Some(0) => Err(Problem::Wrong(format!(
                "the server ended after {took:.2} s with status 0, which means success"
            ))),
            None => Err(Problem::Wrong(format!(
                "the server was ended by {status}, and printed: {printed}"
            ))),
            Some(code) => {
                let last = tail.lines().last().unwrap_or("nothing");
                Ok(format!(
                    "the server ended with status {code} after {took:.2} s, and its last line was: \
                     {last}"
                ))
            }
        },
    }
}

/// Sends the requests, and checks the server's output and its requests to back ends.
fn serves(check: &Check, life: &LifecyclePromise, stage: &Stage) -> Result<String, Problem> {
    if let Some((name, _)) =
        life.asks.iter().find(|(name, _)| !stage.relays.iter().any(|b| b.name == *name))
    {
        let known: Vec<&str> = stage.relays.iter().map(|b| b.name.as_str()).collect();
        return Err(Problem::Wrong(format!(
            "the server has no back end {name:?}, only {}",
            known.join(", ")
        )));
    }
    let log = stage.part.process.log();
    let mark = match check.requests.len() {
        0 => Mark { printed: 0, asked: vec![(Vec::new(), Vec::new()); stage.relays.len()] },
        _ => Mark::new(&stage.relays, log.len()),
    };
    let mut words = Vec::new();
    if !check.requests.is_empty() {
        let answer = exchange::run(check, first_client(&stage.part.listeners)?, ServerLoad::Idle);
        match (answer.ok, answer.answered) {
            (true, _) => words.push(answer.got),
            (false, true) => return Err(Problem::Wrong(answer.got)),
            (false, false) => return Err(Problem::Late(answer.got)),
        }
    }
    await_sightings(life, stage, &mark)?;
    check_sightings(&life.prints, &printed_since(&log, mark.printed)?, stage.port)?;
    for (backend, sighting) in &life.asks {
        let asked = mark.requests_since(stage, backend)?;
        let n = sighting.count(asked.iter().map(Vec::as_slice), stage.port);
        let Sighting { matches, .. } = sighting;
        if !sighting.times.admits(n) {
            let shown = shown_requests(&asked);
            return Err(Problem::Wrong(format!(
                "the server sent {backend} {matches} {n} times, and its first requests \
                 were:{shown}"
            )));
        }
        words.push(format!("the server sent {backend} {matches} {n} times"));
    }
    words.extend(life.prints.iter().map(|s| format!("the server printed {}", s.matches)));
    Ok(words.join(", "))
}

/// Waits for expected output and requests. Where a promise has an upper limit, also waits for
/// further ones.
fn await_sightings(life: &LifecyclePromise, stage: &Stage, mark: &Mark) -> Result<(), Problem> {
    let log = stage.part.process.log();
    let is_missing = || -> Result<bool, Problem> {
        let printed = printed_since(&log, mark.printed)?;
        let of_prints = life.prints.iter().any(|s| wants_more(s, &printed, stage.port));
        let of_asks = life.asks.iter().map(|(backend, s)| {
            Ok(wants_more(s, &mark.requests_since(stage, backend)?, stage.port))
        });
        Ok(of_prints || of_asks.collect::<Result<Vec<bool>, Problem>>()?.contains(&true))
    };
    // Failures here are reported by the next check.
    is_soon(OUTPUT, || !is_missing().unwrap_or(false));
    let all = life.prints.iter().chain(life.asks.iter().map(|(_, sighting)| sighting));
    if all.into_iter().any(|sighting| sighting.times.has_maximum()) {
        thread::sleep(SETTLING);
    }
    Ok(())
}

impl BackendRelays {
    fn hold(&self, is_held: bool) {
        self.plain.hold(is_held);
        self.tls.hold(is_held);
    }
}

impl Mark {
    fn new(relays: &[BackendRelays], printed: u64) -> Mark {
        Mark { printed, asked: relays.iter().map(|b| (b.plain.mark(), b.tls.mark())).collect() }
    }

    /// Returns the requests to a back end since the mark. `Err`: they are unknown.
    fn requests_since(&self, stage: &Stage, backend: &str) -> Result<Vec<Vec<u8>>, Problem> {
        let relays = stage.relays.iter().zip(&self.asked);
        let Some((relays, (plain, tls))) = relays.into_iter().find(|(b, _)| b.name == backend)
        else {
            return Ok(Vec::new());
        };
        if relays.tls.requests_since(tls).iter().any(|asked| !asked.is_empty()) {
            return Err(Problem::Late(format!(
                "the server sent requests to {backend} over TLS, which dyno cannot read"
            )));
        }
        if relays.plain.is_full() {
            return Err(Problem::Late(format!(
                "the server sent {backend} more than dyno keeps, so its requests are unknown"
            )));
        }
        Ok(relays.plain.requests_since(plain))
    }

    /// Returns whether any back end has received requests since the mark.
    fn is_asked(&self, relays: &[BackendRelays]) -> bool {
        let is_any = |relay: &Relay, mark: &[usize]| {
            relay.requests_since(mark).iter().any(|asked| !asked.is_empty())
        };
        relays
            .iter()
            .zip(&self.asked)
            .any(|(b, (plain, tls))| is_any(&b.plain, plain) || is_any(&b.tls, tls))
    }
}

fn first_client(listeners: &[Arc<CheckedListener>]) -> Result<&ProbeClient, Problem> {
    let first = listeners.first().map(|listener| &listener.client);
    first.ok_or_else(|| {
        Problem::Wrong("the subject declares no protocol, so it cannot be checked".into())
    })
}

/// Returns the lines that were printed since a position of the log. The first line may have begun
/// earlier.
fn printed_since(log: &Log, place: u64) -> Result<Vec<Vec<u8>>, Problem> {
    let text = log.text_from(place).ok_or_else(|| {
        Problem::Late("the server printed more than dyno keeps, so its output is unknown".into())
    })?;
    Ok(text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect())
}

fn wants_more(sighting: &Sighting, texts: &[Vec<u8>], port: u16) -> bool {
    sighting.times.wants_more_than(sighting.count(texts.iter().map(Vec::as_slice), port))
}

fn check_sightings(prints: &[Sighting], lines: &[Vec<u8>], port: u16) -> Result<(), Problem> {
    for sighting in prints {
        let n = sighting.count(lines.iter().map(Vec::as_slice), port);
        if !sighting.times.admits(n) {
            let last = &lines[lines.len().saturating_sub(SHOWN)..];
            let last: Vec<_> = last.iter().map(|line| String::from_utf8_lossy(line)).collect();
            let shown = match last.is_empty() {
                true => " and nothing else".into(),
                false => format!("; its last lines were:\n{}", last.join("\n")),
            };
            return Err(Problem::Wrong(format!(
                "the server printed {} {n} times{shown}",
                sighting.matches
            )));
        }
    }
    Ok(())
}

/// Most lines that are shown of a server's output or requests.
const SHOWN: usize = 20;

/// Returns the first lines of HTTP requests only, because the rest may hold secrets.
fn shown_requests(asked: &[Vec<u8>]) -> String {
    static REQUEST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?m)[A-Z]+ /\S* HTTP/1\.[01]\r?$").expect("the expression is valid")
    });
    let all = asked.iter().flat_map(|asked| REQUEST.find_iter(asked));
    let all: Vec<String> =
        all.take(SHOWN).map(|m| String::from_utf8_lossy(m.as_bytes()).trim_end().into()).collect();
    match all.as_slice() {
        [] => format!(" {} bytes that are not HTTP/1.1", asked.iter().map(Vec::len).sum::<usize>()),
        all => format!("\n{}", all.join("\n")),
    }
}

/// Waits for a condition. Returns whether it was met.
fn is_soon(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    // This clock only limits the wait.
    let began = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if began.elapsed() > patience {
            return false;
        }
        thread::sleep(GLANCE);
    }
}
