//! Promises about a server's life, asked of starts of their own, while the back ends of the start that is to be measured are up.

use std::io;
use std::net::Ipv4Addr;
use std::process::ExitStatus;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use dyno_archive::plan::Arm;
use dyno_archive::start::{Failure, PartStart};
use dyno_archive::trial::CheckResult;
use dyno_archive::{Party, Protocol, StartRecord};
use dyno_contract::client::ProbeClient;
use dyno_contract::contracts::{Check, life_of};
use dyno_contract::exchange::{self, Business, Problem};
use dyno_contract::life::{Life, Look, Sighting};
use dyno_contract::limits::{CHECK, HELD, PRINTED};
use dyno_contract::listener::Listener;
use dyno_contract::ports;
use dyno_contract::relay::Relay;
use dyno_launch::log::Follower;
use dyno_subject::definition::Definition;
use dyno_subject::placeholders::backends_in;
use regex::bytes::Regex;

use super::Runner;
use super::judge::{harness, interrupted};
use super::start::{Ports, Recipe, RunSetup, Spawned};
use super::up::{CheckedListener, Part};

/// How often something that is waited for is looked at. It costs next to nothing, and nothing is measured meanwhile.
const GLANCE: Duration = Duration::from_millis(5);

/// A start of a subject whose back ends are behind relays.
struct Stage {
    part: Part,
    port: u16,
    /// One in front of each back end, by its name.
    relays: Vec<(String, Relay)>,
}

/// How much a stage had printed and asked when a check began.
struct Mark {
    printed: usize,
    asked: Vec<Vec<usize>>,
}

/// A start's subject, for those of its contract's promises that are about its life.
struct Rehearsal<'a> {
    recipe: &'a Recipe<'a>,
    /// What it is called in the report.
    name: &'a str,
    start: &'a StartRecord,
    setup: &'a RunSetup,
}

impl Runner<'_> {
    /// Asks a subject for the promises about its life. `Err`: it cannot be asked.
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
        for (check, life) in life_of(&definition.contracts) {
            if self.interrupts.count() > 0 {
                return Err(interrupted());
            }
            let seen = match life.look {
                Look::Serves | Look::Stops => {
                    let up = match stage.take() {
                        Some(stage) => stage,
                        None => self.stage(&rehearsal)?,
                    };
                    if life.look == Look::Serves {
                        let seen = serves(check, life, &up);
                        stage = Some(up);
                        seen
                    } else {
                        self.stops(check, life, definition, up)
                    }
                }
                Look::RefusesMissing => match without_addresses(definition) {
                    Some(without) => {
                        self.refuses(life, &rehearsal, &Recipe { definition: &without, ..*recipe })?
                    }
                    None => Err(Problem::Wrong(NO_ADDRESS.into())),
                },
                Look::RefusesUnreachable => {
                    let others = nobody(recipe.others).map_err(harness)?;
                    self.refuses(life, &rehearsal, &Recipe { others: &others, ..*recipe })?
                }
            };
            results.push(result(check, definition, seen)?);
        }
        if let Some(stage) = stage {
            let hurry = || self.interrupts.count() > 1;
            stage.part.process.stop(definition.stop.signal, definition.stop.deadline_ns, hurry);
        }
        Ok(results)
    }

    /// Starts the subject behind relays.
    fn stage(&mut self, of: &Rehearsal<'_>) -> Result<Stage, Failure> {
        let relays = of.recipe.others.iter().map(|(name, ports)| Ok((name.clone(), Relay::to(ports.plain)?)));
        let relays = relays.collect::<io::Result<Vec<_>>>().map_err(|error| harness(error.to_string()))?;
        let others: Vec<(String, Ports)> = of
            .recipe
            .others
            .iter()
            .zip(&relays)
            .map(|((name, ports), (_, relay))| (name.clone(), Ports { plain: relay.port(), ..*ports }))
            .collect();
        let mut scratch = of.scratch();
        let started = self.start_part(&mut scratch, &Recipe { others: &others, ..*of.recipe }, of.setup);
        let (part, ports) = started.map_err(|failure| {
            let message =
                format!("in a start of its own, for the checks about its life: {}", failure.message);
            Failure { message, ..failure }
        })?;
        Ok(Stage { part, port: ports.plain, relays })
    }

    /// Starts the subject so that it must not come up, and waits for its end.
    fn refuses(
        &mut self,
        life: &Life,
        of: &Rehearsal<'_>,
        recipe: &Recipe<'_>,
    ) -> Result<Result<String, Problem>, Failure> {
        let Spawned { mut process, ports, .. } = self.spawn(&mut of.scratch(), recipe, of.setup)?;
        // Read right after exec: how long it took to end is told, and compared with what the contract allows.
        let began = Instant::now();
        let status = loop {
            if let Some(status) = process.ended() {
                break Some(status);
            }
            if self.interrupts.count() > 0 {
                return Err(interrupted());
            }
            if began.elapsed() > life.within {
                break None;
            }
            thread::sleep(GLANCE);
        };
        let took = began.elapsed();
        let printed = lines_of(&Follower::of(&process.log()));
        let mut seen = refusal(status, took, &process.log_tail());
        if seen.is_ok() {
            seen = seen.and_then(|words| all_sighted(&life.prints, &printed, ports.plain).map(|()| words));
        }
        process.stop(recipe.definition.stop.signal, recipe.definition.stop.deadline_ns, || true);
        Ok(seen)
    }

    /// Asks the subject to end while its requests wait for a back end.
    fn stops(
        &self,
        check: &Check,
        life: &Life,
        definition: &Definition,
        stage: Stage,
    ) -> Result<String, Problem> {
        let Stage { part: Part { process, listeners, .. }, port, relays } = stage;
        let before = Mark::of(&relays, 0);
        let client = client_of(&listeners)?;
        let log = process.log();
        let hold = |is_held| relays.iter().for_each(|(_, relay)| relay.hold(is_held));
        let hurry = || self.interrupts.count() > 1;
        hold(true);
        let (answer, stopped) = thread::scope(|scope| {
            let answer = scope.spawn(|| exchange::run(check, client, Business::Idle));
            let is_under_way = !relays.is_empty() && is_soon(CHECK / 2, || before.is_asked(&relays));
            let release = scope.spawn(|| {
                thread::sleep(HELD);
                hold(false);
            });
            // Without a back end that could hold it up, the answer has come before the signal goes.
            let answer = if is_under_way { Err(answer) } else { Ok(answer.join()) };
            let stopped = process.stop(definition.stop.signal, life.within.as_nanos() as u64, hurry);
            let _ = release.join();
            (answer.unwrap_or_else(thread::ScopedJoinHandle::join), stopped)
        });
        let answer = answer.map_err(|_| Problem::Wrong("the client of the check ended early".into()))?;
        if !answer.ok {
            return Err(Problem::Wrong(format!("what was under way was not answered: {}", answer.got)));
        }
        match stopped {
            None => Err(Problem::Wrong("it had ended before it was asked to".into())),
            Some(stop) if stop.killed => {
                let seconds = life.within.as_secs_f64();
                Err(Problem::Wrong(format!("it was still up {seconds} s after the signal, and was killed")))
            }
            Some(stop) => {
                all_sighted(&life.prints, &lines_of(&Follower::of(&log)), port)?;
                let seconds = stop.took_ns as f64 / 1e9;
                Ok(format!("{}, and then it ended after {seconds:.2} s", answer.got))
            }
        }
    }
}

impl Rehearsal<'_> {
    /// A record of a start that no report shows.
    fn scratch(&self) -> StartRecord {
        StartRecord { parts: vec![PartStart::new(Party::SUBJECT, self.name.into())], ..self.start.clone() }
    }
}

const NO_ADDRESS: &str = "the address of its back ends stands in no variable of its `env`, so that it cannot be left out: the subject's file gives it otherwise";

/// The definition without the variables that hold the address of a back end; `None`: there are none.
fn without_addresses(definition: &Definition) -> Option<Definition> {
    let mut without = definition.clone();
    without.start.env.retain(|_, value| backends_in(value).next().is_none());
    (without.start.env.len() < definition.start.env.len()).then_some(without)
}

/// Addresses at which nobody listens, in the place of back ends.
fn nobody(others: &[(String, Ports)]) -> Result<Vec<(String, Ports)>, String> {
    let free = ports::free_ports(2 * others.len(), dyno_observer::monotonic_ns())?;
    let each = others.iter().zip(free.chunks(2));
    Ok(each.map(|((name, _), free)| (name.clone(), Ports { plain: free[0], tls: free[1] })).collect())
}

fn result(
    check: &Check,
    definition: &Definition,
    seen: Result<String, Problem>,
) -> Result<CheckResult, Failure> {
    let protocol = definition.protocols.first().copied().unwrap_or_default();
    // The words for what was asked and expected do not depend on where.
    let listener =
        Listener { addr: (Ipv4Addr::LOCALHOST, 0).into(), protocol: Protocol::H1, authority: None };
    let words = ProbeClient::new(&listener).map_err(harness)?;
    let waived = check.is_among(&definition.waive, protocol);
    Ok(CheckResult { protocol, waived, ..exchange::result(check, &words, seen, Business::Idle) })
}

fn refusal(status: Option<ExitStatus>, took: Duration, tail: &str) -> Result<String, Problem> {
    let took = took.as_secs_f64();
    let printed = if tail.is_empty() { "nothing".into() } else { format!("\n{tail}") };
    match status {
        None => Err(Problem::Wrong(format!("it was still up after {took:.1} s; it printed: {printed}"))),
        Some(status) => match status.code() {
            Some(0) => {
                Err(Problem::Wrong(format!("it ended after {took:.2} s as if all were well, with status 0")))
            }
            None => Err(Problem::Wrong(format!("it did not end of itself: {status}; it printed: {printed}"))),
            Some(code) => {
                let last = tail.lines().last().unwrap_or("nothing");
                Ok(format!("it ended with status {code} after {took:.2} s; last it printed: {last}"))
            }
        },
    }
}

/// Asks the requests, and looks at what the server prints and asks.
fn serves(check: &Check, life: &Life, stage: &Stage) -> Result<String, Problem> {
    let mark = match check.requests.len() {
        0 => Mark { printed: 0, asked: Vec::new() },
        _ => Mark::of(&stage.relays, stage.printed().len()),
    };
    let mut words = Vec::new();
    if !check.requests.is_empty() {
        let answer = exchange::run(check, client_of(&stage.part.listeners)?, Business::Idle);
        match (answer.ok, answer.answered) {
            (true, _) => words.push(answer.got),
            (false, true) => return Err(Problem::Wrong(answer.got)),
            (false, false) => return Err(Problem::Late(answer.got)),
        }
    }
    let is_missing = || {
        let printed = &stage.printed()[mark.printed..];
        let prints = life.prints.iter().any(|s| wants_more(s, printed, stage.port));
        prints
            || life.asks.iter().any(|(backend, s)| wants_more(s, &mark.asked_of(stage, backend), stage.port))
    };
    is_soon(PRINTED, || !is_missing());
    all_sighted(&life.prints, &stage.printed()[mark.printed..], stage.port)?;
    for (backend, sighting) in &life.asks {
        let asked = mark.asked_of(stage, backend);
        let n = sighting.count(asked.iter().map(Vec::as_slice), stage.port);
        if !sighting.times.admits(n) {
            let shown = shown_requests(&asked);
            let Sighting { matches, .. } = sighting;
            return Err(Problem::Wrong(format!("it asked {backend} {matches} {n} times; it asked:{shown}")));
        }
        words.push(format!("it asked {backend} {} {n} times", sighting.matches));
    }
    words.extend(life.prints.iter().map(|s| format!("it printed {}", s.matches)));
    Ok(words.join(", "))
}

impl Stage {
    fn printed(&self) -> Vec<Vec<u8>> {
        lines_of(&Follower::of(&self.part.process.log()))
    }
}

impl Mark {
    fn of(relays: &[(String, Relay)], printed: usize) -> Mark {
        Mark { printed, asked: relays.iter().map(|(_, relay)| relay.mark()).collect() }
    }

    /// What has been asked of a back end since. Nothing of one that is not there.
    fn asked_of(&self, stage: &Stage, backend: &str) -> Vec<Vec<u8>> {
        let Some(i) = stage.relays.iter().position(|(name, _)| name == backend) else { return Vec::new() };
        stage.relays[i].1.asked_since(self.asked.get(i).map_or(&[], Vec::as_slice))
    }

    /// Whether anything has been asked of any of them since.
    fn is_asked(&self, relays: &[(String, Relay)]) -> bool {
        relays.iter().zip(&self.asked).any(|((_, relay), mark)| !relay.asked_since(mark).concat().is_empty())
    }
}

fn client_of(listeners: &[CheckedListener]) -> Result<&ProbeClient, Problem> {
    let first = listeners.first().map(|listener| &listener.client);
    first.ok_or_else(|| {
        Problem::Wrong("it says of no protocol that it speaks it, so that it cannot be asked".into())
    })
}

fn lines_of(log: &Follower<'_>) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    log.clone().rest(&mut |line| lines.push(line.as_bytes().to_vec()));
    lines
}

fn wants_more(sighting: &Sighting, texts: &[Vec<u8>], port: u16) -> bool {
    sighting.times.wants_more_than(sighting.count(texts.iter().map(Vec::as_slice), port))
}

fn all_sighted(prints: &[Sighting], lines: &[Vec<u8>], port: u16) -> Result<(), Problem> {
    for sighting in prints {
        let n = sighting.count(lines.iter().map(Vec::as_slice), port);
        if !sighting.times.admits(n) {
            let shown: Vec<String> = lines
                .iter()
                .rev()
                .take(SHOWN)
                .rev()
                .map(|line| String::from_utf8_lossy(line).into_owned())
                .collect();
            let shown = if shown.is_empty() { " nothing".into() } else { format!("\n{}", shown.join("\n")) };
            return Err(Problem::Wrong(format!(
                "it printed {} {n} times; it printed:{shown}",
                sighting.matches
            )));
        }
    }
    Ok(())
}

/// Lines that are shown of what a server printed or asked.
const SHOWN: usize = 20;

/// The first lines of requests of HTTP; nothing else of what was asked, which may hold secrets.
fn shown_requests(asked: &[Vec<u8>]) -> String {
    static REQUEST: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)[A-Z]+ /\S* HTTP/1\.[01]\r?$").expect("it is an expression"));
    let all = asked.iter().flat_map(|asked| REQUEST.find_iter(asked));
    let all: Vec<String> =
        all.take(SHOWN).map(|m| String::from_utf8_lossy(m.as_bytes()).trim_end().into()).collect();
    match all.as_slice() {
        [] => format!(" {} bytes that are no HTTP/1.1", asked.iter().map(Vec::len).sum::<usize>()),
        all => format!("\n{}", all.join("\n")),
    }
}

/// Waits until something is so; whether it came to be.
fn is_soon(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    // Read to end the wait, and for nothing else.
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
