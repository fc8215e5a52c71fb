//! Revises the limiter of each step with the other steps of the same server. Together they are a
//! curve of throughput over requests in flight. One step alone often fits several limiters, and the
//! curve excludes some of them.
//!
//! - If throughput grows with more requests in flight, no lock, pool, thread or serial back end is
//!   the limit: each serves only a fixed number of requests at a time.
//! - If throughput does not grow, there were enough requests in flight, and they queue. By Little's
//!   law the queue serves as many requests at a time as its throughput times the response time of a
//!   request that does not wait. This number is the queue's width: with 1,000 requests per second
//!   and 5 ms it is 5.

mod full_cpu;

use std::collections::BTreeMap;

use dyno_model::plan::LoadModel;
use dyno_model::sample::ThreadState;
use serde_json::json;

use super::conditions::MAX_WAITING;
use super::limiters::{
    Confidence, CurveRule, Limiter, Resource, filling_interrupt_s, has_nearly_full_thread,
};
use super::polling::{Polling, idle_waits, polling_evidence};
use super::thresholds::{SERVER_BUSY, SERVER_IDLE};
use super::waits::{MIN_LOCK_CALLS, asleep_threads, lock_calls_per_response};
use crate::caveat::{Code, CodeProperty};
use crate::number_format::percent;
use crate::server::ServerUse;
use crate::stats::median;
use crate::trial::TrialResult;

/// Minimum ratio of the requests in flight of two steps that can be compared.
const IN_FLIGHT_RATIO: f64 = 1.5;

/// Throughput grows if it is at least this many times as high with more requests in flight.
const GROWTH_RATIO: f64 = 1.25;

/// Throughput is flat if it is at most this many times as high with more requests in flight.
const FLAT_RATIO: f64 = 1.1;

/// No request queues if the response time is at most this many times the response time with the
/// fewest requests in flight.
const NO_QUEUE_RATIO: f64 = 1.25;

/// Each request that is served has one sleeping thread if the number of sleeping threads and the
/// number of requests that are served at a time differ by at most this ratio. They are not equal,
/// because the response time of a single request includes the network round trip.
const WORKERS_RATIO: f64 = 1.5;

/// Largest width of a queue that can be a single lock.
const LOCK_WIDTH: f64 = 1.5;

/// Below this mean number of requests in flight, hardly any request waits for another one.
const SINGLE_REQUEST: f64 = 1.5;

/// Requests queue in threads that wait for each other if these threads are at least this share of
/// the requests in flight.
const WAITING_SHARE: f64 = 0.5;

/// The queue is at a peer if threads wait for peers for at least this share of their time.
const PEER_SHARE: f64 = 0.5;

/// Requests may wait for a timer if at least this many waits per response end without an event.
const TIMERS_PER_RESPONSE: f64 = 0.5;

/// Largest share of the server's allowed CPU time that the hypervisor can take without changing a
/// conclusion. Throughputs that differ by this share still count as flat.
const MAX_STOLEN: f64 = FLAT_RATIO - 1.0;

/// Sentence about a CPU that is full at all steps of a server.
const MAY_POLL: &str = " At no step did it have a quarter of its time left, so the server may poll \
                        (check for work when there is none).";

/// Whether other programs or virtual machines may have changed the throughput of a step. A verdict
/// from such a step has at most medium confidence.
fn is_disturbed(trial: &TrialResult) -> bool {
    let is_stolen = trial.caveats.iter().any(|caveat| caveat.code == Code::STEAL)
        && trial.server.stolen_share().is_none_or(|share| share > MAX_STOLEN);
    is_stolen || trial.caveats.iter().any(|c| c.code.has(CodeProperty::LowersThroughput))
}

/// Revises the limiters of each server's steps by its other steps. Trials that are not valid keep
/// their limiter.
pub(crate) fn revise_limiters(trials: &mut [TrialResult]) {
    for indices in curves(trials).into_values() {
        let curve = Curve::new(trials, &indices);
        let revised: Vec<(usize, Limiter)> =
            indices.into_iter().filter_map(|i| Some((i, curve.explain(&trials[i])?))).collect();
        for (i, limiter) in revised {
            trials[i].limiter = limiter;
        }
    }
    full_cpu::doubt_full_cpus(trials);
}

/// Properties that are the same at all levels of a curve: arm (a server with its settings),
/// workload, streams and pipeline depth.
type CurveProperties = (usize, usize, u32, u32);

/// Returns the indices of valid trials of closed loops, by curve.
fn curves(trials: &[TrialResult]) -> BTreeMap<CurveProperties, Vec<usize>> {
    let mut curves: BTreeMap<CurveProperties, Vec<usize>> = BTreeMap::new();
    for (i, trial) in trials.iter().enumerate() {
        let is_closed =
            trial.load.config.model == LoadModel::Closed && trial.step.shape.rate.is_none();
        if is_closed && trial.valid && trial.duet.is_none() {
            let key = (
                trial.cell.arm,
                trial.cell.workload,
                trial.step.shape.streams,
                trial.step.shape.pipeline,
            );
            curves.entry(key).or_default().push(i);
        }
    }
    curves
}

/// Medians over the repeats with the same planned requests in flight.
#[derive(Clone, Debug, PartialEq)]
struct Level {
    /// Planned requests in flight.
    planned: u64,
    /// Mean requests in flight.
    in_flight: f64,
    throughput_rps: f64,
    response_us: f64,
    /// The limiter of most repeats, before it is revised.
    resource: Resource,
    confidence: Confidence,
    /// The server's CPU utilisation. `None`: unknown.
    cpu: Option<f64>,
    /// Share of one CPU that the server's busiest serving thread used. `None`: unknown.
    busiest_thread: Option<f64>,
    /// Whether server and generator had CPU time left.
    has_headroom: bool,
    /// Mean number of threads that were asleep, or in futex waits that may be sleeps. `None`:
    /// unknown.
    asleep: Option<f64>,
    /// Mean number of threads in futex waits: they waited for each other, or slept. `None`:
    /// unknown.
    waiting: Option<f64>,
    /// Whether all repeats were disturbed.
    is_disturbed: bool,
}

impl Level {
    /// Combines the trials of a level. Disturbed trials are used only if all are disturbed.
    fn new(planned: u64, trials: &[&TrialResult]) -> Option<Level> {
        let quiet: Vec<&TrialResult> =
            trials.iter().copied().filter(|t| !is_disturbed(t)).collect();
        let trials = if quiet.is_empty() { trials } else { &quiet[..] };
        let median_of = |value: &dyn Fn(&TrialResult) -> Option<f64>| {
            median(&trials.iter().filter_map(|trial| value(trial)).collect::<Vec<_>>())
        };
        let votes = |resource| trials.iter().filter(|t| t.limiter.resource == resource).count();
        let leading = trials.iter().max_by_key(|t| votes(t.limiter.resource))?;
        let cpu = median_of(&|t| t.server.cpu_utilisation);
        let generator_used = median_of(&|t| Some(t.load.client.headroom.need));
        Some(Level {
            planned,
            in_flight: median_of(&|t| Some(t.load.in_flight.mean))?,
            throughput_rps: median_of(&|t| Some(t.load.throughput_rps)).filter(|rps| *rps > 0.0)?,
            response_us: median_of(&|t| t.load.response_time_us.mean)?,
            resource: leading.limiter.resource,
            confidence: leading.limiter.confidence,
            cpu,
            busiest_thread: median_of(&|t| t.server.busiest_serving_utilisation),
            has_headroom: [cpu, generator_used]
                .into_iter()
                .all(|used| used.is_some_and(|used| used < SERVER_IDLE)),
            asleep: median_of(&|t| asleep_threads(&t.server)),
            waiting: median_of(&|t| {
                let serving = t.server.serving.as_ref()?;
                // With few calls, threads in the state `lock` wait in the kernel and not in futex.
                let are_in_futex =
                    lock_calls_per_response(&t.server).is_none_or(|n| n >= MIN_LOCK_CALLS);
                are_in_futex.then(|| serving.share(ThreadState::Lock) * serving.threads as f64)
            }),
            is_disturbed: quiet.is_empty(),
        })
    }
}

/// Change of throughput from one level to another.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Course<'a> {
    /// Throughput is higher at this level, with more requests in flight.
    Grows(&'a Level),
    /// Throughput is about the same at this other level, with more or fewer requests in flight.
    Flat(&'a Level),
    /// No other level shows whether throughput grows.
    Unknown,
}

/// The levels of a server, by requests in flight.
struct Curve {
    levels: Vec<Level>,
}

impl Curve {
    /// Builds the curve of the trials with these indices.
    fn new(trials: &[TrialResult], indices: &[usize]) -> Curve {
        let mut by_level: BTreeMap<u64, Vec<&TrialResult>> = BTreeMap::new();
        for trial in indices.iter().map(|i| &trials[*i]) {
            by_level.entry(trial.step.in_flight).or_default().push(trial);
        }
        let levels = by_level.iter().filter_map(|(planned, trials)| Level::new(*planned, trials));
        let mut curve = Curve { levels: levels.collect() };
        let are_refuted: Vec<bool> =
            curve.levels.iter().map(|level| curve.are_workers_refuted(level)).collect();
        for (level, is_refuted) in curve.levels.iter_mut().zip(are_refuted) {
            if is_refuted {
                level.resource = Resource::Elsewhere;
            }
        }
        curve
    }

    /// Whether workers are named as the limiter, but cannot be it: more threads sleep than requests
    /// are served at a time, so some of the sleeping threads have no request.
    fn are_workers_refuted(&self, level: &Level) -> bool {
        let are_more = level
            .asleep
            .zip(self.width(level))
            .is_some_and(|(asleep, width)| asleep > WORKERS_RATIO * width);
        level.resource == Resource::Workers && are_more
    }

    /// Whether about as many threads are asleep as requests are served at a time, one for each.
    fn are_workers_confirmed(&self, level: &Level) -> bool {
        let is_similar = |(asleep, width): (f64, f64)| {
            (width / WORKERS_RATIO..=width * WORKERS_RATIO).contains(&asleep)
        };
        level.asleep.zip(self.width(level)).is_some_and(is_similar)
    }

    fn level(&self, planned: u64) -> Option<&Level> {
        self.levels.iter().find(|level| level.planned == planned)
    }

    /// Compares a level with the best level that has more requests in flight. The highest level is
    /// compared with the next lower one.
    fn course(&self, from: &Level) -> Course<'_> {
        let higher =
            self.levels.iter().filter(|to| to.in_flight >= IN_FLIGHT_RATIO * from.in_flight);
        let growth = |to: &Level| to.throughput_rps / from.throughput_rps;
        if let Some(best) = higher.max_by(|a, b| a.throughput_rps.total_cmp(&b.throughput_rps)) {
            return match growth(best) {
                ratio if ratio >= GROWTH_RATIO => Course::Grows(best),
                ratio if ratio <= FLAT_RATIO => Course::Flat(best),
                _ => Course::Unknown,
            };
        }
        // If throughput did not grow up to the highest level, it will not grow with more requests.
        let lower =
            self.levels.iter().rev().find(|to| IN_FLIGHT_RATIO * to.in_flight <= from.in_flight);
        match lower {
            Some(lower) if from.throughput_rps <= FLAT_RATIO * lower.throughput_rps => {
                Course::Flat(lower)
            }
            _ => Course::Unknown,
        }
    }

    /// Whether requests take no longer at this level than with the fewest in flight.
    fn has_no_queue(&self, level: &Level) -> bool {
        let fewest =
            self.levels.first().filter(|l| IN_FLIGHT_RATIO * l.in_flight <= level.in_flight);
        fewest.is_some_and(|fewest| level.response_us <= NO_QUEUE_RATIO * fewest.response_us)
    }

    /// Whether many requests wait in threads that wait for each other. Threads whose requests are
    /// served are subtracted, because they may sleep in a futex wait too.
    fn has_queue_of_threads(&self, level: &Level) -> bool {
        let in_queue = level.waiting.zip(self.width(level)).map(|(waiting, width)| waiting - width);
        in_queue.is_some_and(|threads| threads >= (WAITING_SHARE * level.in_flight).max(1.0))
    }

    /// Returns the number of requests that a queue serves at a time. `None`: no level shows the
    /// response time of a request that does not wait.
    fn width(&self, level: &Level) -> Option<f64> {
        let fewest = self.levels.first().filter(|fewest| fewest.in_flight < SINGLE_REQUEST)?;
        Some(level.throughput_rps * fewest.response_us / 1e6)
    }

    /// Returns the revised limiter of a trial. `None`: the other steps do not change it.
    fn explain(&self, trial: &TrialResult) -> Option<Limiter> {
        let level = self.level(trial.step.in_flight)?;
        let limiter = &trial.limiter;
        let is_refuted_queue =
            limiter.resource == Resource::Workers && level.resource == Resource::Elsewhere;
        let is_certain_quota =
            limiter.resource == Resource::CpuQuota && limiter.confidence == Confidence::High;
        match limiter.resource.curve_rule() {
            CurveRule::Idle => self.explain_idle(trial, level),
            // Other programs are not the limit if requests take no longer than with the fewest in
            // flight. If throughput does not grow with more requests, too few are not the limit
            // either.
            CurveRule::Guess if limiter.confidence == Confidence::Low => {
                let are_too_few =
                    self.has_no_queue(level) && !matches!(self.course(level), Course::Flat(_));
                are_too_few.then(|| self.no_queue(trial, level))
            }
            // The curve refutes the workers.
            CurveRule::Queue if is_refuted_queue => Some(
                self.explain_idle(trial, level)
                    .unwrap_or_else(|| limiter.weaken(Confidence::Medium, "")),
            ),
            // A quota that is certainly the limit needs no other step.
            CurveRule::FixedWidth if is_certain_quota => None,
            // A full thread, back end or quota cannot serve more requests, so growth refutes it.
            CurveRule::FixedWidth => match self.course(level) {
                Course::Grows(more) => Some(Self::too_few(trial, level, more)),
                _ => None,
            },
            // A disk serves many requests at a time, so growth does not exclude it.
            CurveRule::AnyWidth => match self.course(level) {
                Course::Flat(other) => self.with_width(trial, level, other),
                _ => None,
            },
            // Requests queue at higher steps if throughput is flat, even if hardly any request
            // waits at this one.
            CurveRule::Queue => match self.course(level) {
                Course::Grows(more) => Some(Self::too_few(trial, level, more)),
                Course::Flat(other) => self.with_width(trial, level, other),
                Course::Unknown => self.has_no_queue(level).then(|| self.no_queue(trial, level)),
            },
            // A runtime that spins fills the CPU before it is the limit. A server that batches
            // needs less CPU time per request with more requests in flight.
            CurveRule::Cpu => match self.course(level) {
                Course::Grows(more) => Some(Self::weaken_by_growth(limiter, more)),
                _ => None,
            },
            CurveRule::Guess | CurveRule::Kept => None,
        }
    }

    /// Returns the limiter of a level at which the server had CPU time left, much or little.
    fn explain_idle(&self, trial: &TrialResult, level: &Level) -> Option<Limiter> {
        let is_busy = level.cpu.is_none_or(|used| used >= SERVER_BUSY)
            && polling_evidence(&trial.load, &trial.server).is_none();
        if let Some(limiter) = self.explain_nearly_full(trial, level) {
            return Some(limiter);
        }
        match self.course(level) {
            Course::Grows(more) if !is_busy => Some(Self::too_few(trial, level, more)),
            Course::Flat(other) => self.explain_full(trial, level, other).or_else(|| {
                // If the other step filled the CPU of the server or of the generator, that CPU was
                // its limit, and not a queue.
                (level.has_headroom && other.has_headroom).then(|| self.queue(trial, level, other))
            }),
            Course::Unknown if level.has_headroom && self.has_no_queue(level) => {
                Some(self.no_queue(trial, level))
            }
            _ => None,
        }
    }

    /// Returns the server's CPU as the limiter of a level with little CPU time left. A higher level
    /// must have filled the CPU without more throughput.
    fn explain_nearly_full(&self, trial: &TrialResult, level: &Level) -> Option<Limiter> {
        let used = level.cpu.filter(|used| *used >= SERVER_IDLE)?;
        let is_full =
            |l: &&Level| l.in_flight > level.in_flight && l.resource == Resource::ServerCpu;
        let full = self.levels.iter().find(is_full)?;
        let confidence = match self.course(level) {
            Course::Flat(_) => full.confidence,
            Course::Unknown => full.confidence.at_most(Confidence::Medium),
            Course::Grows(_) => return None,
        };
        let sentence = format!(
            "The server's CPU: at this load, the server used {} of it and served {:.0} requests \
             per second. With {} requests in flight, the server used {} and served {:.0}.",
            percent(used),
            level.throughput_rps,
            full.planned,
            percent(full.cpu?),
            full.throughput_rps
        );
        Some(Self::verdict(trial, full.resource, confidence, sentence, level, full))
    }

    /// Returns the server's CPU, or its busiest thread, as the limiter of two levels with the same
    /// throughput. Both must have nearly filled it, and at least one must have filled it.
    fn explain_full(&self, trial: &TrialResult, level: &Level, other: &Level) -> Option<Limiter> {
        type Use = fn(&Level) -> Option<f64>;
        let parts: [(Resource, &str, Use); 2] = [
            (Resource::ServerCpu, "The server's CPU", |l| l.cpu),
            (Resource::ServerThread, "One thread of the server", |l| l.busiest_thread),
        ];
        let (fewer, more) = in_order(level, other);
        parts.into_iter().find_map(|(resource, name, used)| {
            let (used_by_fewer, used_by_more) = used(fewer).zip(used(more))?;
            let is_full = used_by_fewer.min(used_by_more) >= SERVER_IDLE
                && used_by_fewer.max(used_by_more) >= SERVER_BUSY;
            // The CPU of a server that polls is full at any load.
            let has_slept = self.levels.iter().any(|l| used(l).is_some_and(|u| u < SERVER_IDLE));
            let may_poll = !has_slept && polling_evidence(&trial.load, &trial.server).is_some();
            let (confidence, doubt) = match may_poll {
                true => (Confidence::Low, MAY_POLL),
                false => (Confidence::Medium, ""),
            };
            let sentence = format!(
                "{name}: with {} requests in flight, it was busy for {} of the time, and the \
                 server served {:.0} requests per second. With {} in flight, it was busy for {}, \
                 and the server served {:.0}.{doubt}",
                fewer.planned,
                percent(used_by_fewer),
                fewer.throughput_rps,
                more.planned,
                percent(used_by_more),
                more.throughput_rps
            );
            is_full.then(|| Self::verdict(trial, resource, confidence, sentence, level, other))
        })
    }

    /// Weakens the server's CPU as the limiter of a level above which throughput grows.
    fn weaken_by_growth(limiter: &Limiter, more: &Level) -> Limiter {
        let doubt = format!(
            " With {} requests in flight, the server served {:.0} per second, so requests may need \
             less CPU time.",
            more.planned, more.throughput_rps
        );
        limiter.weaken(Confidence::Medium, &doubt)
    }

    /// Returns the limiter of a level above which throughput grows: too few requests in flight.
    fn too_few(trial: &TrialResult, level: &Level, more: &Level) -> Limiter {
        let sentence = format!(
            "Too few requests in flight: with {} in flight, the server served {:.0} requests per \
             second, and each took {:.0} µs. With {} in flight, the server served {:.0}.",
            level.planned,
            level.throughput_rps,
            level.response_us,
            more.planned,
            more.throughput_rps
        );
        let confidence = match polling_evidence(&trial.load, &trial.server) {
            // The CPU time before the load may have been other work than polling.
            Some(Polling::BeforeLoad { .. }) => Confidence::Medium,
            _ => Confidence::High,
        };
        Self::verdict(trial, Resource::Concurrency, confidence, sentence, level, more)
    }

    /// Returns the limiter of a level without a queue: too few requests in flight.
    fn no_queue(&self, trial: &TrialResult, level: &Level) -> Limiter {
        let fewest = &self.levels[0];
        let sentence = format!(
            "Too few requests in flight: with {} in flight, each request takes {:.0} µs, and with \
             {} in flight {:.0} µs. The time hardly rises, so no request waits for another.",
            level.planned, level.response_us, fewest.planned, fewest.response_us
        );
        Self::verdict(trial, Resource::Concurrency, Confidence::High, sentence, level, fewest)
    }

    /// Returns the limiter of a level whose requests queue while the server has CPU time left.
    fn queue(&self, trial: &TrialResult, level: &Level, other: &Level) -> Limiter {
        let known = self.levels.iter().rev().find_map(|l| {
            let name = l.resource.queue_name()?;
            matches!(self.course(l), Course::Flat(_)).then_some((l, name))
        });
        let (fewer, more) = in_order(level, other);
        let width = self.width(more).map_or(String::new(), |width| {
            format!(
                " About {width:.1} requests are served at a time (throughput × response time of a \
                 single request)."
            )
        });
        let comparison = format!(
            "with {} requests in flight the server served {:.0} per second, and with {} it served \
             {:.0}. The response time changed from {:.0} to {:.0} µs.{width}",
            fewer.planned,
            fewer.throughput_rps,
            more.planned,
            more.throughput_rps,
            fewer.response_us,
            more.response_us
        );
        let backends: Vec<&str> = trial.backends.iter().map(|b| b.name.as_str()).collect();
        let (resource, confidence, sentence) = match known {
            Some((known, name)) => (
                known.resource,
                self.queue_confidence(known.resource, known.confidence, known),
                format!("{name} (found with {} requests in flight): {comparison}", known.planned),
            ),
            None if backends.is_empty() && self.has_queue_of_threads(more) => (
                Resource::Lock,
                Confidence::Medium,
                format!(
                    "A lock or a pool in the server, for which its threads wait (futex): \
                     {comparison}"
                ),
            ),
            None if backends.is_empty() => (
                Resource::Elsewhere,
                elsewhere_confidence(&trial.server, other),
                format!(
                    "Requests queue in the server or in a service that it needs: {comparison} The \
                     requests wait for {}a lock, a pool or a limit of the server, or for a service \
                     that dyno does not monitor. Add the services that the server needs as \
                     `[[backends]]`.",
                    if trial.server.serving.is_none() { "a disk, a worker, " } else { "" }
                ),
            ),
            None => (
                Resource::Backend,
                Confidence::Medium,
                format!(
                    "A back end ({}), or the connections to it: {comparison}",
                    backends.join(", ")
                ),
            ),
        };
        Self::verdict(trial, resource, confidence, sentence, level, other)
    }

    /// Returns the trial's limiter with the width of its queue. `None`: the width is unknown.
    fn with_width(&self, trial: &TrialResult, level: &Level, other: &Level) -> Option<Limiter> {
        let width = self.width(level)?;
        let limiter = &trial.limiter;
        let mut evidence = limiter.evidence.clone();
        evidence["served_at_a_time"] = json!(width);
        evidence["steps"] = steps(level, other);
        let confidence = self.queue_confidence(limiter.resource, limiter.confidence, level);
        // The lowest confidence has the highest value.
        let is_less_sure = confidence > limiter.confidence;
        let doubt = match limiter.resource {
            Resource::Lock if is_less_sure => {
                " A lock would serve only one, so the threads may instead wait for a pool."
            }
            _ => "",
        };
        let claim =
            format!("{} About {width:.1} requests are served at a time.{doubt}", limiter.claim());
        Some(Limiter::new(limiter.resource, confidence, claim, evidence))
    }

    /// Returns the confidence in the queue that a step names, with the evidence of all steps. A
    /// lock serves one request at a time, and each request that workers serve has one worker.
    fn queue_confidence(
        &self,
        resource: Resource,
        step_confidence: Confidence,
        level: &Level,
    ) -> Confidence {
        match resource {
            Resource::Lock if self.width(level).is_some_and(|width| width > LOCK_WIDTH) => {
                step_confidence.at_most(Confidence::Medium)
            }
            Resource::Workers if self.are_workers_confirmed(level) && !level.is_disturbed => {
                Confidence::High
            }
            _ => step_confidence,
        }
    }

    /// Returns a limiter with two levels as evidence. Its confidence is at most medium if one of
    /// the levels is disturbed.
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
        let is_disturbed = level.is_disturbed || other.is_disturbed;
        let confidence =
            if is_disturbed { confidence.at_most(Confidence::Medium) } else { confidence };
        Limiter::new(resource, confidence, sentence, evidence)
    }
}

/// Returns the confidence in a queue that no other rule names. `other`: the level with the same
/// throughput. The confidence is high under these conditions:
///
/// - threads wait for peers, or were not observed
/// - requests wait neither for a timer nor for a CPU that interrupts may have filled
/// - no thread was nearly full or unknown, nor full at the other level
/// - the server's threads hardly waited for CPUs. The server may have bound itself to fewer CPUs
///   than dyno knows.
fn elsewhere_confidence(server: &ServerUse, other: &Level) -> Confidence {
    let may_wait_for_timers =
        server.calls.as_ref().and_then(idle_waits).is_some_and(|n| n >= TIMERS_PER_RESPONSE);
    let waits_for_peers = server
        .serving
        .as_ref()
        .is_none_or(|serving| serving.share(ThreadState::Network) >= PEER_SHARE);
    let may_fill_thread =
        has_nearly_full_thread(server) || other.resource == Resource::ServerThread;
    let waits_for_cpus = server
        .run_delay_s
        .zip(server.cpu_allowed_s)
        .is_none_or(|(waited_s, allowed_s)| waited_s >= MAX_WAITING * allowed_s);
    let is_sure = waits_for_peers
        && !may_wait_for_timers
        && !may_fill_thread
        && !waits_for_cpus
        && filling_interrupt_s(server).is_none();
    if is_sure { Confidence::High } else { Confidence::Medium }
}

/// Returns two levels, the one with fewer requests in flight first.
const fn in_order<'a>(level: &'a Level, other: &'a Level) -> (&'a Level, &'a Level) {
    if level.planned < other.planned { (level, other) } else { (other, level) }
}

/// Returns two levels as evidence of a limiter.
fn steps(level: &Level, other: &Level) -> serde_json::Value {
    let levels = [level, other].map(|l| {
        json!({
            "in_flight": l.in_flight, "throughput_rps": l.throughput_rps,
            "response_time_us": l.response_us,
        })
    });
    json!(levels)
}

#[cfg(test)]
mod tests;
