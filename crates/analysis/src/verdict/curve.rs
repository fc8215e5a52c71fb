//! The limiter of each step, from all steps of a server together: throughput over the requests in
//! flight.
//!
//! - Throughput that grows with more requests in flight excludes whatever serves only so many at a
//!   time: a lock, a pool, a serial back end.
//! - Throughput that does not grow excludes that too few requests were in flight: they queue. By
//!   Little's law the queue serves as many at a time as its throughput times the response time of a
//!   request that does not wait.

use std::collections::{BTreeMap, BTreeSet};

use dyno_archive::plan::LoadModel;
use dyno_archive::sample::ThreadState;
use serde_json::json;

use super::limiter::Limiter;
use super::polling::{idle_waits, polls};
use super::resource::{Confidence, Resource};
use super::thresholds::{SERVER_BUSY, SERVER_IDLE};
use super::waits::asleep_threads;
use crate::caveat::Code;
use crate::number_format::percent;
use crate::server::ServerUse;
use crate::stats::median;
use crate::trial::TrialResult;

/// Least ratio of the requests in flight of two steps from which one says anything about the other.
const APART: f64 = 1.5;

/// Throughput with more requests in flight, as a multiple, from which on it grows.
const GROWS: f64 = 1.25;

/// The same up to which it does not.
const FLAT: f64 = 1.1;

/// The same from which on a full CPU cannot have been the limit: work per request does not fall by
/// that much.
const GROWS_MUCH: f64 = 1.5;

/// Response time, as a multiple of that with the fewest requests in flight, up to which nothing
/// queues.
const NO_QUEUE: f64 = 1.25;

/// How many times as many threads may be asleep as requests are served at a time, or the reverse,
/// where each of these requests has one of these threads. A response time of one alone holds the
/// way there and back, too.
const ALIKE: f64 = 1.5;

/// Share of the requests in flight whose threads wait for each other that shows where they queue.
const MAX_REQUESTS: f64 = 0.5;

/// Share of the time in which threads wait for peers that shows that the queue is behind them.
const MAX_OF_TIME: f64 = 0.5;

/// Waits for events per response that end without one, from which on requests may wait for time.
const A_TIMER_EACH: f64 = 0.5;

/// Caveats of steps whose throughput may be that of the machine and not of the server: what rests
/// on them is likely at most.
const DISTURBED: [Code; 3] = [Code::ServerStarved, Code::GeneratorStarved, Code::Contaminated];

/// Share of its allowed CPU time that the hypervisor may have taken from a server without changing
/// the conclusions from its steps: throughput that differs by as much counts as flat.
const MAX_STOLEN: f64 = FLAT - 1.0;

/// Whether others may have changed the throughput of a step.
fn is_disturbed(trial: &TrialResult) -> bool {
    let is_stolen = trial.caveats.iter().any(|caveat| caveat.code == Code::Steal)
        && trial.server.stolen_share().is_none_or(|share| share > MAX_STOLEN);
    is_stolen || trial.caveats.iter().any(|caveat| DISTURBED.contains(&caveat.code))
}

/// Lets the steps of each server explain each other. Trials that are not valid keep their verdict.
pub(crate) fn settle(trials: &mut [TrialResult]) {
    for indices in curves(trials).into_values() {
        let curve = Curve::new(trials, &indices);
        let settled: Vec<(usize, Limiter)> =
            indices.into_iter().filter_map(|i| Some((i, curve.explain(&trials[i])?))).collect();
        for (i, limiter) in settled {
            trials[i].limiter = limiter;
        }
    }
    doubt_full_cpus(trials);
}

/// A full CPU is no certain limit of a server that polls at one of its steps, nor of one whose CPU
/// was as full at a much lower throughput, whatever the load: it polls, or was cold. One whose CPU
/// was idle at another step does not poll.
fn doubt_full_cpus(trials: &mut [TrialResult]) {
    let server = |t: &TrialResult| (t.cell.arm, t.cell.workload);
    let arms = |has: &dyn Fn(&TrialResult) -> bool| -> BTreeSet<usize> {
        trials.iter().filter(|t| t.valid && has(t)).map(|t| t.cell.arm).collect()
    };
    let polling = arms(&|t| polls(&t.load, &t.server).is_some());
    let idle = arms(&|t| t.server.cpu_utilisation.is_some_and(|used| used < SERVER_IDLE));
    let is_full = |t: &&TrialResult| {
        t.valid && t.server.cpu_utilisation.is_some_and(|used| used >= SERVER_BUSY)
    };
    // The lowest and the highest throughput at which it was full.
    let mut ranges: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
    for trial in trials.iter().filter(is_full) {
        let rps = trial.load.throughput_rps;
        let (least, most) = ranges.entry(server(trial)).or_insert((rps, rps));
        (*least, *most) = (least.min(rps), most.max(rps));
    }
    let is_doubtful = |t: &TrialResult| {
        let is_of_cpu = matches!(t.limiter.resource, Resource::ServerCpu | Resource::ServerThread);
        let is_sure = t.limiter.confidence == Confidence::High;
        let is_wide = |(least, most): &(f64, f64)| *most >= GROWS_MUCH * least;
        let is_as_full =
            || ranges.get(&server(t)).is_some_and(is_wide) && !idle.contains(&t.cell.arm);
        t.valid && is_of_cpu && is_sure && (polling.contains(&t.cell.arm) || is_as_full())
    };
    for trial in trials.iter_mut().filter(|trial| is_doubtful(trial)) {
        let own = &trial.limiter;
        let doubt = match polling.contains(&trial.cell.arm) {
            true => "Another step shows that this server polls, so its CPU is always full.",
            false => {
                "Its CPU was as full at throughputs that differ by half and more, so it may poll."
            }
        };
        let sentence = format!("{} {doubt}", own.sentence);
        trial.limiter =
            Limiter::new(own.resource, Confidence::Medium, sentence, own.evidence.clone())
                .with_confidence();
    }
}

/// Arm, workload, streams and requests in a row on a connection: what stays the same along a curve.
type Along = (usize, usize, u32, u32);

/// Valid trials of closed loops, by curve.
fn curves(trials: &[TrialResult]) -> BTreeMap<Along, Vec<usize>> {
    let mut all: BTreeMap<Along, Vec<usize>> = BTreeMap::new();
    for (i, trial) in trials.iter().enumerate() {
        let is_closed = trial.load.config.model == LoadModel::Closed && trial.step.rate.is_none();
        if is_closed && trial.valid && trial.duet.is_none() {
            let along =
                (trial.cell.arm, trial.cell.workload, trial.step.streams, trial.step.pipeline);
            all.entry(along).or_default().push(i);
        }
    }
    all
}

/// Summary of repeats with the same requests in flight.
#[derive(Clone, Debug, PartialEq)]
struct Level {
    planned: u64,
    in_flight: f64,
    throughput_rps: f64,
    response_us: f64,
    /// The limiter of most of its repeats by themselves.
    resource: Resource,
    confidence: Confidence,
    /// The server's CPU time as a share of what it may use; `None`: unknown.
    cpu: Option<f64>,
    /// Neither side used most of its CPU.
    has_room: bool,
    /// Threads that were asleep at a time, or may have been, and those that waited for each other
    /// (futex), which sleep may be, too. `None`: not known.
    asleep: Option<f64>,
    waiting: Option<f64>,
    /// Others used the machine in all of its repeats.
    is_disturbed: bool,
}

impl Level {
    fn new(planned: u64, trials: &[&TrialResult]) -> Option<Level> {
        let quiet: Vec<&TrialResult> =
            trials.iter().copied().filter(|t| !is_disturbed(t)).collect();
        let trials = if quiet.is_empty() { trials } else { &quiet[..] };
        let middle = |of: &dyn Fn(&TrialResult) -> Option<f64>| {
            median(&trials.iter().filter_map(|trial| of(trial)).collect::<Vec<_>>())
        };
        let votes = |resource| trials.iter().filter(|t| t.limiter.resource == resource).count();
        let leading = trials.iter().max_by_key(|t| votes(t.limiter.resource))?;
        let cpu = middle(&|t| t.server.cpu_utilisation);
        let need = middle(&|t| Some(t.load.client.room.need));
        Some(Level {
            planned,
            in_flight: middle(&|t| Some(t.load.in_flight.mean))?,
            throughput_rps: middle(&|t| Some(t.load.throughput_rps)).filter(|rps| *rps > 0.0)?,
            response_us: middle(&|t| t.load.response_time_us.mean)?,
            resource: leading.limiter.resource,
            confidence: leading.limiter.confidence,
            cpu,
            has_room: [cpu, need]
                .into_iter()
                .all(|used| used.is_some_and(|used| used < SERVER_IDLE)),
            asleep: middle(&|t| asleep_threads(&t.server)),
            waiting: middle(&|t| {
                t.server.working.as_ref().map(|w| w.share(ThreadState::Lock) * w.threads as f64)
            }),
            is_disturbed: quiet.is_empty(),
        })
    }
}

/// Course of throughput from a level.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Course<'a> {
    /// Throughput is higher at this level, with more requests in flight.
    Grows(&'a Level),
    /// Throughput is as high at this other level, with more or fewer requests in flight.
    Flat(&'a Level),
    /// No other level decides.
    Unknown,
}

/// The levels of a server, by requests in flight.
struct Curve {
    levels: Vec<Level>,
}

impl Curve {
    fn new(trials: &[TrialResult], indices: &[usize]) -> Curve {
        let mut by_level: BTreeMap<u64, Vec<&TrialResult>> = BTreeMap::new();
        for trial in indices.iter().map(|i| &trials[*i]) {
            by_level.entry(trial.step.in_flight).or_default().push(trial);
        }
        let levels = by_level.iter().filter_map(|(planned, trials)| Level::new(*planned, trials));
        let mut curve = Curve { levels: levels.collect() };
        let refuted: Vec<bool> =
            curve.levels.iter().map(|l| curve.are_workers_refuted(l)).collect();
        for (level, _) in curve.levels.iter_mut().zip(refuted).filter(|(_, is_refuted)| *is_refuted)
        {
            level.resource = Resource::Elsewhere;
        }
        curve
    }

    /// Whether threads that are asleep are no workers that requests wait for: they are more than
    /// the requests that are served at a time, so that some of them have none.
    fn are_workers_refuted(&self, level: &Level) -> bool {
        let many = level
            .asleep
            .zip(self.width(level))
            .is_some_and(|(asleep, width)| asleep > ALIKE * width);
        level.resource == Resource::Workers && many
    }

    /// Whether each request that is served has one of the threads that are asleep.
    fn are_workers_confirmed(&self, level: &Level) -> bool {
        let alike = |(asleep, width): (f64, f64)| (width / ALIKE..=width * ALIKE).contains(&asleep);
        level.asleep.zip(self.width(level)).is_some_and(alike)
    }

    fn level(&self, planned: u64) -> Option<&Level> {
        self.levels.iter().find(|level| level.planned == planned)
    }

    fn course(&self, from: &Level) -> Course<'_> {
        let higher = self.levels.iter().filter(|to| to.in_flight >= APART * from.in_flight);
        let growth = |to: &Level| to.throughput_rps / from.throughput_rps;
        if let Some(best) = higher.max_by(|a, b| a.throughput_rps.total_cmp(&b.throughput_rps)) {
            return match growth(best) {
                g if g >= GROWS => Course::Grows(best),
                g if g <= FLAT => Course::Flat(best),
                _ => Course::Unknown,
            };
        }
        // The level below decides about the highest one: throughput that did not grow up to it will
        // not grow beyond it.
        let lower = self.levels.iter().rev().find(|to| APART * to.in_flight <= from.in_flight);
        match lower {
            Some(lower) if from.throughput_rps <= FLAT * lower.throughput_rps => {
                Course::Flat(lower)
            }
            _ => Course::Unknown,
        }
    }

    /// Whether requests take no longer at this level than with the fewest in flight.
    fn has_no_queue(&self, level: &Level) -> bool {
        let fewest =
            self.levels.first().filter(|fewest| APART * fewest.in_flight <= level.in_flight);
        fewest.is_some_and(|fewest| level.response_us <= NO_QUEUE * fewest.response_us)
    }

    /// Whether most requests have threads that wait for each other although few are served at a
    /// time. Those that are served may be asleep in the same way.
    fn waits_for_turn(&self, level: &Level) -> bool {
        let without_turn =
            level.waiting.zip(self.width(level)).map(|(waiting, width)| waiting - width);
        without_turn.is_some_and(|threads| threads >= (MAX_REQUESTS * level.in_flight).max(1.0))
    }

    /// Requests that a queue serves at a time; `None`: no level shows a request that does not wait.
    fn width(&self, level: &Level) -> Option<f64> {
        let fewest = self.levels.first().filter(|fewest| fewest.in_flight < 1.5)?;
        Some(level.throughput_rps * fewest.response_us / 1e6)
    }

    /// Returns the limiter of a trial according to its server's other steps. `None`: they add
    /// nothing.
    fn explain(&self, trial: &TrialResult) -> Option<Limiter> {
        let level = self.level(trial.step.in_flight)?;
        let own = &trial.limiter;
        match own.resource {
            Resource::Concurrency | Resource::Unknown | Resource::Elsewhere => {
                self.of_idle(trial, level)
            }
            // Other programs that do not make requests take longer are no limit.
            Resource::OtherPrograms if own.confidence == Confidence::Low => {
                self.has_no_queue(level).then(|| self.no_queue(trial, level))
            }
            Resource::Workers if level.resource == Resource::Elsewhere => {
                Some(self.of_idle(trial, level).unwrap_or_else(|| with_doubt(own)))
            }
            // A disk serves many at a time, so that growth does not exclude it.
            Resource::Disk => match self.course(level) {
                Course::Flat(other) => self.with_width(trial, level, other),
                _ => None,
            },
            Resource::Lock | Resource::Workers => match self.course(level) {
                Course::Grows(more) => Some(Self::too_few(trial, level, more)),
                _ if self.has_no_queue(level) => Some(self.no_queue(trial, level)),
                Course::Flat(other) => self.with_width(trial, level, other),
                Course::Unknown => None,
            },
            _ => None,
        }
    }

    /// Returns the limiter of a server that was idle, or nearly.
    fn of_idle(&self, trial: &TrialResult, level: &Level) -> Option<Limiter> {
        let is_busy = level.cpu.is_none_or(|used| used >= SERVER_BUSY)
            && polls(&trial.load, &trial.server).is_none();
        if let Some(full) = self.of_nearly_full(trial, level) {
            return Some(full);
        }
        match self.course(level) {
            Course::Grows(more) if !is_busy => Some(Self::too_few(trial, level, more)),
            // A higher step that filled a side found the limit of that side.
            Course::Flat(other) if level.has_room && other.has_room => {
                Some(self.queue(trial, level, other))
            }
            Course::Unknown if level.has_room && self.has_no_queue(level) => {
                Some(self.no_queue(trial, level))
            }
            _ => None,
        }
    }

    /// Returns the limiter of a server with little CPU time left, which a higher step filled: that
    /// is its limit, unless throughput grew.
    fn of_nearly_full(&self, trial: &TrialResult, level: &Level) -> Option<Limiter> {
        let used = level.cpu.filter(|used| *used >= SERVER_IDLE)?;
        let is_full =
            |l: &&Level| l.in_flight > level.in_flight && l.resource == Resource::ServerCpu;
        let full = self.levels.iter().find(is_full)?;
        let confidence = match self.course(level) {
            Course::Flat(_) => full.confidence,
            Course::Unknown => full.confidence.max(Confidence::Medium),
            Course::Grows(_) => return None,
        };
        let sentence = format!(
            "The server's CPU: the server used {} of it. With {} in flight it used {} and served \
             {:.0} per second instead of {:.0}.",
            percent(used),
            full.planned,
            percent(full.cpu?),
            full.throughput_rps,
            level.throughput_rps
        );
        Some(Self::verdict(trial, full.resource, confidence, sentence, level, full))
    }

    /// More requests in flight were served faster, so nothing serves only so many at a time.
    fn too_few(trial: &TrialResult, level: &Level, more: &Level) -> Limiter {
        let sentence = format!(
            "Too few requests in flight: with {} the server served {:.0} per second, and with {} \
             it served {:.0}. Each response takes {:.0} µs.",
            level.planned,
            level.throughput_rps,
            more.planned,
            more.throughput_rps,
            level.response_us
        );
        Self::verdict(trial, Resource::Concurrency, Confidence::High, sentence, level, more)
    }

    /// Requests take as long as if they were alone.
    fn no_queue(&self, trial: &TrialResult, level: &Level) -> Limiter {
        let fewest = &self.levels[0];
        let sentence = format!(
            "Too few requests in flight: with {}, each takes {:.0} µs, and with {} it takes {:.0} \
             µs. None waits for another.",
            level.planned, level.response_us, fewest.planned, fewest.response_us
        );
        Self::verdict(trial, Resource::Concurrency, Confidence::High, sentence, level, fewest)
    }

    /// Requests wait for each other somewhere while the server has CPU time left.
    fn queue(&self, trial: &TrialResult, level: &Level, other: &Level) -> Limiter {
        let known = self.levels.iter().rev().find_map(|l| {
            let name = name_of_queue(l.resource)?;
            matches!(self.course(l), Course::Flat(_)).then_some((l, name))
        });
        let (fewer, more) =
            if level.planned < other.planned { (level, other) } else { (other, level) };
        let width = self.width(more).map_or(String::new(), |width| {
            format!(
                " About {width:.1} are served at a time (throughput × response time of a single \
                 request)."
            )
        });
        let grew = format!(
            "with {} in flight the server served {:.0} per second, and with {} it served {:.0}. \
             The response time changed from {:.0} to {:.0} µs.{width}",
            fewer.planned,
            fewer.throughput_rps,
            more.planned,
            more.throughput_rps,
            fewer.response_us,
            more.response_us
        );
        let behind: Vec<&str> = trial.backends.iter().map(|behind| behind.name.as_str()).collect();
        let (resource, confidence, sentence) = match known {
            Some((known, name)) => (
                known.resource,
                self.confidence_of_queue(known.resource, known.confidence, known),
                format!("{name}, as the step with {} in flight shows: {grew}", known.planned),
            ),
            None if behind.is_empty() && self.waits_for_turn(more) => (
                Resource::Lock,
                Confidence::Medium,
                format!(
                    "A lock or a pool in the server, for which its threads wait (futex): {grew}"
                ),
            ),
            None if behind.is_empty() => (
                Resource::Elsewhere,
                confidence_of_elsewhere(&trial.server),
                format!(
                    "Requests queue in the server or in a service that it needs: {grew} The queue \
                     is a lock, a pool or a limit of the server, or a service that dyno does not \
                     monitor. Name such services as `[[backends]]`."
                ),
            ),
            None => (
                Resource::Backend,
                Confidence::Medium,
                format!("A back end ({}), or the connections to it: {grew}", behind.join(", ")),
            ),
        };
        Self::verdict(trial, resource, confidence, sentence, level, other)
    }

    /// The verdict of the step by itself, with how many requests are served at a time.
    fn with_width(&self, trial: &TrialResult, level: &Level, other: &Level) -> Option<Limiter> {
        let width = self.width(level)?;
        let own = &trial.limiter;
        let mut evidence = own.evidence.clone();
        evidence["served_at_a_time"] = json!(width);
        evidence["steps"] = steps(level, other);
        let confidence = self.confidence_of_queue(own.resource, own.confidence, level);
        let doubt = match own.resource {
            Resource::Lock if confidence > own.confidence => {
                " A lock serves one at a time, so the threads may instead wait for a pool."
            }
            _ => "",
        };
        let said = own
            .sentence
            .strip_suffix(own.confidence.sentence(own.resource))
            .unwrap_or(&own.sentence);
        let sentence = format!("{said} About {width:.1} are served at a time.{doubt}");
        Some(Limiter::new(own.resource, confidence, sentence, evidence).with_confidence())
    }

    /// Confidence in the queue that a step names, from all steps. A lock serves one request at a
    /// time, and each request that workers serve has one worker.
    fn confidence_of_queue(
        &self,
        resource: Resource,
        own: Confidence,
        level: &Level,
    ) -> Confidence {
        match resource {
            Resource::Lock if self.width(level).is_some_and(|width| width > ALIKE) => {
                own.max(Confidence::Medium)
            }
            Resource::Workers if self.are_workers_confirmed(level) && !level.is_disturbed => {
                Confidence::High
            }
            _ => own,
        }
    }

    fn verdict(
        trial: &TrialResult,
        resource: Resource,
        confidence: Confidence,
        sentence: String,
        level: &Level,
        other: &Level,
    ) -> Limiter {
        let mut evidence = trial.limiter.evidence.clone();
        evidence["steps"] = steps(level, other);
        let is_sure = confidence == Confidence::High && !level.is_disturbed && !other.is_disturbed;
        let confidence =
            if is_sure { Confidence::High } else { confidence.max(Confidence::Medium) };
        Limiter::new(resource, confidence, sentence, evidence).with_confidence()
    }
}

/// A verdict of a step that its server's other steps do not bear out: likely at most.
fn with_doubt(own: &Limiter) -> Limiter {
    let said =
        own.sentence.strip_suffix(own.confidence.sentence(own.resource)).unwrap_or(&own.sentence);
    let confidence = own.confidence.max(Confidence::Medium);
    Limiter::new(own.resource, confidence, said.into(), own.evidence.clone()).with_confidence()
}

/// How sure it is that nothing that dyno can name is the queue. Where threads are seen, they wait
/// for peers, and not for time to pass.
fn confidence_of_elsewhere(server: &ServerUse) -> Confidence {
    let waits_for_time =
        server.calls.as_ref().and_then(idle_waits).is_some_and(|n| n >= A_TIMER_EACH);
    let waits_for_peers = server
        .working
        .as_ref()
        .is_none_or(|working| working.share(ThreadState::Network) >= MAX_OF_TIME);
    if waits_for_peers && !waits_for_time { Confidence::High } else { Confidence::Medium }
}

/// Name of the queue, for the beginning of a sentence; `None`: the resource is no queue.
const fn name_of_queue(resource: Resource) -> Option<&'static str> {
    match resource {
        Resource::Lock => Some("A lock"),
        Resource::Workers => Some("The server's workers"),
        Resource::Disk => Some("A disk"),
        Resource::Memory => Some("Memory"),
        Resource::Backend => Some("The back end"),
        _ => None,
    }
}

/// The two levels that a verdict rests on.
fn steps(level: &Level, other: &Level) -> serde_json::Value {
    let all = [level, other].map(|l| {
        json!({
            "in_flight": l.in_flight, "throughput_rps": l.throughput_rps,
            "response_time_us": l.response_us,
        })
    });
    json!(all)
}

#[cfg(test)]
mod tests;
