//! The limiter of a step, and the confidence in it.

use dyno_archive::plan::LoadModel;
use dyno_archive::sample::ThreadState;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::other_programs;
use super::polling::{is_full, polling, polls};
use super::resource::{Confidence, Resource};
use super::room::Bound;
use super::server::{MAX_WAITING, starved_seconds};
use super::thresholds::{JIT_SHARE, LINK_FULL, SERVER_BUSY, SERVER_IDLE, STEAL, THROTTLED};
use super::waits::{accept_queue, delayed_ack, disk, gc, lock, memory, sleep, workers};
use crate::backend::BackendUse;
use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;
use crate::load::offered::rate_text;
use crate::machine::MachineResult;
use crate::number_format::{cpus, percent};
use crate::server::ServerUse;

/// From this many requests in flight on, an idle server is not short of requests: something else
/// holds it up.
const MANY_IN_FLIGHT: f64 = 64.0;

/// Below this many requests in flight a closed loop is expected to leave a server idle.
const FEW_IN_FLIGHT: f64 = 32.0;

/// The verdict on what limited a step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Limiter {
    pub resource: Resource,
    pub confidence: Confidence,
    pub sentence: String,
    pub evidence: Value,
    /// The observation that would refute it, as a sentence. Empty: it names nothing.
    pub refutation: &'static str,
}

impl Limiter {
    #[must_use]
    pub const fn new(
        resource: Resource,
        confidence: Confidence,
        sentence: String,
        evidence: Value,
    ) -> Limiter {
        Limiter { resource, confidence, sentence, evidence, refutation: resource.refutation() }
    }

    /// With a sentence that says how sure it is, so that every output does.
    pub(super) fn with_confidence(mut self) -> Limiter {
        self.sentence.push_str(self.confidence.sentence(self.resource));
        self
    }
}

/// Names what limited a step, from the first rule that holds.
#[must_use]
pub fn limiter(
    load: &LoadResult,
    server: &ServerUse,
    backends: &[BackendUse],
    machine: &MachineResult,
) -> Limiter {
    type Rule = fn(&LoadResult, &ServerUse) -> Option<Limiter>;
    let failures: [Rule; 3] = [dropped_packets, failure, refusal];
    let first: [Rule; 11] = [
        generator,
        jit,
        gc,
        cpu_quota,
        offered_rate,
        polling,
        server_cpu,
        server_thread,
        delayed_ack,
        accept_queue,
        memory,
    ];
    let last: [Rule; 6] = [disk, lock, workers, sleep, outside_limiter, concurrency];
    let try_all = |rules: &[Rule]| rules.iter().find_map(|rule| rule(load, server));
    try_all(&failures)
        .or_else(|| other_programs::generator_limiter(load, server, machine))
        .or_else(|| try_all(&first))
        .or_else(|| backend(server, backends))
        .or_else(|| link(load, server, machine))
        .or_else(|| try_all(&last))
        .or_else(|| other_programs::server_limiter(load, server, machine))
        .unwrap_or_else(|| unknown(load, server))
        .with_confidence()
}

pub(super) fn verdict(
    resource: Resource,
    confidence: Confidence,
    sentence: String,
    evidence: Value,
) -> Option<Limiter> {
    Some(Limiter::new(resource, confidence, sentence, evidence))
}

/// A server whose packets are dropped looks as if it had failed. One that has ended did that
/// itself.
fn dropped_packets(load: &LoadResult, _: &ServerUse) -> Option<Limiter> {
    let of = |code| load.caveats.iter().find(|c| c.code == code);
    let dropped = of(Code::DroppedPackets).filter(|c| c.severity == Severity::Invalid)?;
    of(Code::SubjectFailed).is_none().then(|| from_caveat(dropped, Resource::DroppedPackets))
}

/// The server ended, did not respond, or its responses were incorrect: no resource limits that.
fn failure(load: &LoadResult, _: &ServerUse) -> Option<Limiter> {
    let of = |code| load.caveats.iter().find(|c| c.code == code);
    let refused = |code| of(code).filter(|c| c.severity == Severity::Invalid);
    let caveat = of(Code::BackendFailed)
        .or_else(|| of(Code::SubjectFailed))
        .or_else(|| of(Code::NoAnswers))
        .or_else(|| refused(Code::WrongAnswers))
        .or_else(|| refused(Code::Unsolicited))
        .or_else(|| refused(Code::Outage))?;
    Some(from_caveat(caveat, Resource::Failure))
}

fn refusal(load: &LoadResult, _: &ServerUse) -> Option<Limiter> {
    Some(from_caveat(load.caveats.iter().find(|c| c.code == Code::Refusals)?, Resource::Refusal))
}

/// The verdict that a caveat gives in its own words.
fn from_caveat(caveat: &Caveat, resource: Resource) -> Limiter {
    let (sentence, evidence) = (caveat.message.clone(), caveat.evidence.clone());
    Limiter::new(resource, Confidence::High, sentence, evidence)
}

fn generator(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let bound = Bound::from_result(load)?;
    let server_share = server.cpu_utilisation;
    (!is_full(load, server)).then(|| {
        let while_server =
            |share| format!(", while the server used {} of its allowed CPU time", percent(share));
        let of_server = server_share.map_or(String::new(), while_server);
        let sentence = format!("The generator: {}{of_server}.", bound.clause());
        let confidence = match server_share {
            // Without these programs the generator may have had room.
            _ if other_programs::share_waited_for(load, server).is_some() => Confidence::Low,
            Some(share) if share < SERVER_BUSY => Confidence::High,
            _ => Confidence::Medium,
        };
        let evidence = json!({
            "generator_utilisation": load.client.busiest_thread_utilisation,
            "generator_need": load.client.room.need,
            "server_utilisation": server_share,
        });
        verdict(Resource::Generator, confidence, sentence, evidence)
    })?
}

/// The JIT compiler: the server is busy, and much of that is compiling.
fn jit(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = server.cpu_utilisation.filter(|used| *used >= SERVER_BUSY)?;
    let share = server.role_share("jit").filter(|share| *share > JIT_SHARE)?;
    let sentence = format!(
        "The JIT compiler: it used {} of the server's CPU time, and the server used {} of its \
         allowed CPU time.",
        percent(share),
        percent(used)
    );
    verdict(
        Resource::Jit,
        Confidence::High,
        sentence,
        json!({"jit_share": share, "cpu_utilisation": used}),
    )
}

/// The kernel sums throttled time over CPUs, so only periods give a share.
fn cpu_quota(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let throttling = server.throttling.filter(|t| t.share() > THROTTLED)?;
    let sentence = format!(
        "The server's CPU quota: it was throttled in {} of {} periods ({}).",
        throttling.throttled_periods,
        throttling.periods,
        percent(throttling.share())
    );
    let evidence = json!({
        "throttled_periods": throttling.throttled_periods, "periods": throttling.periods,
        "throttled_s": server.throttled_s,
    });
    verdict(Resource::CpuQuota, Confidence::High, sentence, evidence)
}

fn offered_rate(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let pace = load.pace()?;
    // A server that is full was the limit, even if it has nearly kept up: its queue grows.
    (pace.has_kept_up && !is_full(load, server)).then(|| {
        let polls = polls(load, server)
            .map_or(String::new(), |how| format!(" It polls: {}.", how.clause()));
        let changes = if load.config.rate.is_none() { " on average" } else { "" };
        let sentence = format!(
            "The offered rate: the server kept up with {} requests per second{changes}{}{}.{polls}",
            rate_text(pace.offered_rps()),
            pace.stretch_text(),
            server
                .cpu_utilisation
                .map_or(String::new(), |u| format!(" and used {} of its CPU", percent(u)))
        );
        verdict(Resource::OfferedRate, Confidence::High, sentence, pace.evidence())
    })?
}

fn server_cpu(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = server.cpu_utilisation?;
    (used >= SERVER_BUSY).then(|| {
        let allowed = server.cpu_allowed_s.unwrap_or(0.0) / server.window_s;
        // One thread cannot fill most of several CPUs.
        let busiest = server.busiest_thread_utilisation.map(|share| share / (used * allowed));
        let in_one =
            busiest.filter(|share| *share >= SERVER_BUSY && server.threads.is_some_and(|n| n > 1));
        let of_thread = in_one.map_or(String::new(), |share| {
            format!(", {} of that in one thread", percent(share.min(1.0)))
        });
        let sentence = format!(
            "The server's CPU: it used {} of the {} it may use{of_thread}.",
            percent(used),
            cpus(allowed)
        );
        let evidence = json!({
            "cpu_utilisation": used,
            "busiest_thread_utilisation": server.busiest_thread_utilisation,
        });
        verdict(Resource::ServerCpu, Confidence::High, sentence, evidence)
    })?
}

fn server_thread(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let busiest = server.busiest_thread_utilisation?;
    let used = server.cpu_utilisation?;
    (busiest >= SERVER_BUSY).then(|| {
        let sentence = format!(
            "One thread of the server: it was busy for {} of the time, while the whole server used \
             {} of its CPU.",
            percent(busiest),
            percent(used)
        );
        let evidence = json!({"busiest_thread_utilisation": busiest, "cpu_utilisation": used});
        verdict(Resource::ServerThread, Confidence::High, sentence, evidence)
    })?
}

/// A service behind the server that is full, or that fills the CPUs that both have together.
fn backend(server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let busiest = backends
        .iter()
        .filter_map(|behind| Some((behind, behind.server.cpu_utilisation?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (behind, used) = busiest;
    let of_server = server.cpu_utilisation;
    if used >= SERVER_BUSY {
        let while_server = of_server
            .map_or(String::new(), |own| format!(", while the server used {}", percent(own)));
        let sentence = format!(
            "The back end {}: it used {} of its allowed CPU time{while_server}.",
            behind.name,
            percent(used)
        );
        let evidence = json!({
            "backend": behind.name, "backend_utilisation": used, "server_utilisation": of_server,
        });
        return verdict(Resource::Backend, Confidence::High, sentence, evidence);
    }
    if let Some(waits) = waiting_backend(backends) {
        return Some(waits);
    }
    let shared = backends.iter().filter(|b| b.shares_cpus).map(|b| b.server.cpu_utilisation);
    let together = shared.chain([of_server]).sum::<Option<f64>>()?;
    (behind.shares_cpus && together >= SERVER_BUSY).then(|| {
        let sentence = format!(
            "The CPUs that the server and its back end {} share: together they used {} of them, \
             the server {} and {} {}. Give the back end CPUs of its own (`cpuset` in \
             `[[backends]]`).",
            behind.name,
            percent(together),
            of_server.map_or_else(|| "an unknown part".into(), percent),
            behind.name,
            percent(used)
        );
        let evidence = json!({
            "backend": behind.name, "backend_utilisation": used, "server_utilisation": of_server,
            "together": together,
        });
        verdict(Resource::Backend, Confidence::High, sentence, evidence)
    })?
}

/// A back end that would fill its CPUs if nothing else used them. The time that its threads wait
/// for a CPU counts as used.
fn waiting_backend(backends: &[BackendUse]) -> Option<Limiter> {
    let demand = |behind: &BackendUse| {
        let (used, allowed_s) = (behind.server.cpu_utilisation?, behind.server.cpu_allowed_s?);
        let waited = behind.server.run_delay_s? / allowed_s;
        (waited > MAX_WAITING && used + waited >= SERVER_BUSY).then_some((used, waited))
    };
    let of_any = |behind| demand(behind).map(|of| (behind, of));
    let (behind, (used, waited)) = backends.iter().find_map(of_any)?;
    let sentence = format!(
        "The CPUs of the back end {}: it used {} of them, and waited for them for {}, while others \
         used them. Give the back end CPUs of its own (`cpuset` in `[[backends]]`), or more CPUs.",
        behind.name,
        percent(used),
        percent(waited)
    );
    let evidence =
        json!({"backend": behind.name, "backend_utilisation": used, "backend_waiting": waited});
    verdict(Resource::Backend, Confidence::Medium, sentence, evidence)
}

/// A network device of the machine that is full, while server and generator have room. It may
/// carry other programs' traffic.
fn link(load: &LoadResult, server: &ServerUse, machine: &MachineResult) -> Option<Limiter> {
    let used = both_idle(load, server)?;
    let link = machine.busiest_link.as_ref().filter(|link| link.utilisation >= LINK_FULL)?;
    let sentence = format!(
        "A network link: {} carried {} of its capacity ({} Mbit/s), while the server used {} of \
         its CPU.",
        link.name,
        percent(link.utilisation),
        link.bits_per_s / 1e6,
        percent(used)
    );
    let evidence = json!({
        "link": link.name, "link_utilisation": link.utilisation, "link_bits_per_s": link.bits_per_s,
        "server_utilisation": used,
    });
    verdict(Resource::Link, Confidence::Medium, sentence, evidence)
}

/// The server's CPU utilisation, if server and generator both had room and nothing else used their
/// CPUs. If other programs used them, requests may wait only for a CPU.
fn both_idle(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    let used = server.cpu_utilisation?;
    (used < SERVER_IDLE && load.client.room.need < SERVER_IDLE && !is_robbed(load, server))
        .then_some(used)
}

/// Whether a side may have had no room without what others took of its CPU time. The generator's
/// need holds what it waited for CPUs.
pub(super) fn is_robbed(load: &LoadResult, server: &ServerUse) -> bool {
    let allowed_s = server.cpu_allowed_s.unwrap_or(0.0);
    // Where the waits of its threads are unknown, all that other programs used may have been taken
    // from it.
    let waited_s = server.run_delay_s.map_or(server.others_cpu_s, |_| starved_seconds(server));
    let waited = waited_s.map(|waited_s| waited_s / allowed_s);
    let is_stolen = server.steal_share.is_some_and(|share| share > STEAL);
    let of_steal = |share: Option<f64>| is_stolen.then(|| share.unwrap_or(f64::INFINITY));
    // All that the hypervisor took may have been the time of one side. The kernel counts as stolen
    // only time that a thread wanted to use.
    let of_server = [waited, of_steal(server.stolen_share())];
    let of_generator = of_steal(server.stolen_s.map(|stolen_s| stolen_s / server.window_s));
    let is_short = |used: f64, taken: f64| taken > 0.0 && used + taken >= SERVER_IDLE;
    let used = server.cpu_utilisation.unwrap_or(f64::INFINITY);
    is_short(used, of_server.into_iter().flatten().sum())
        || is_short(load.client.room.need, of_generator.unwrap_or(0.0))
}

/// Whether others took CPU time, so that requests took longer than the two sides alone would need.
pub(super) fn is_disturbed(load: &LoadResult, server: &ServerUse) -> bool {
    starved_seconds(server).is_some() || is_generator_starved(load) || is_robbed(load, server)
}

pub(super) fn is_generator_starved(load: &LoadResult) -> bool {
    load.caveats.iter().any(|caveat| caveat.code == Code::GeneratorStarved)
}

fn outside_limiter(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = both_idle(load, server)?;
    let waiting = load.mean_at_server();
    (waiting >= MANY_IN_FLIGHT).then(|| {
        let sentence = format!(
            "Something else: on average {waiting:.0} requests were in flight, and the server used \
             {} of its CPU. {}",
            percent(used),
            waits_in_words(server)
        );
        verdict(Resource::Elsewhere, Confidence::Medium, sentence, idle_evidence(load, used))
    })?
}

fn concurrency(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = both_idle(load, server)?;
    let are_few = load.mean_at_server() < MANY_IN_FLIGHT;
    (load.config.model == LoadModel::Closed && are_few).then(|| {
        let round_trip = load.response_time_us.mean.unwrap_or(0.0);
        let sentence = format!(
            "Too few requests in flight: {:.0} on average, each for a round trip of \
             {round_trip:.0} µs. The server used {} of its CPU.",
            load.in_flight.mean,
            percent(used)
        );
        // With few requests in flight a closed loop must behave like this; with more, another cause
        // may be hidden. Rules that name a thread, a lock or a disk had nothing to read where
        // threads ended with their counters.
        let is_likely = load.in_flight.mean < FEW_IN_FLIGHT && server.unread_counters.is_none();
        let confidence = match is_likely {
            true if is_quick(load, server) && !is_disturbed(load, server) => Confidence::High,
            true => Confidence::Medium,
            false => Confidence::Low,
        };
        verdict(Resource::Concurrency, confidence, sentence, idle_evidence(load, used))
    })?
}

/// Longest time, besides the server's CPU time, of a request that waited only for the way to the
/// server and back, microseconds: two wake-ups of a virtual machine's sleeping CPU on each side.
const WAY_US: f64 = 300.0;

/// Whether requests take little longer than the server computes for them: they wait neither for
/// each other nor for anything that serves one at a time.
fn is_quick(load: &LoadResult, server: &ServerUse) -> bool {
    let mean_us = load.response_time_us.mean;
    let quick_us = server.cpu_us_per_request.map(|cpu_us| 2.0 * cpu_us + WAY_US);
    mean_us.zip(quick_us).is_some_and(|(mean_us, quick_us)| mean_us <= quick_us)
}

/// Describes the server's waits as far as they are known, and the option that shows more.
fn waits_in_words(server: &ServerUse) -> String {
    let Some(working) = &server.working else {
        return "The server waits for a lock, a disk, a database, or a limit of its own on threads \
                or connections. Use `--observe states` to see which."
            .into();
    };
    let waits = [
        ThreadState::Network,
        ThreadState::Lock,
        ThreadState::Disk,
        ThreadState::Sleep,
        ThreadState::Runnable,
        ThreadState::Other,
    ];
    let most = waits.into_iter().max_by(|a, b| working.share(*a).total_cmp(&working.share(*b)));
    let said = most.map_or(String::new(), |state| {
        let what = match state {
            ThreadState::Network => "for peers (requests, or responses of back ends)",
            ThreadState::Lock => "for each other, or for work",
            ThreadState::Disk => "for a disk",
            ThreadState::Runnable => "for a CPU",
            ThreadState::Sleep => "in timers",
            _ => "in other system calls",
        };
        format!(
            "The serving threads waited {what} for {} of their time. ",
            percent(working.share(state))
        )
    });
    format!(
        "{said}The server has an internal limit, or waits for a service that dyno does not \
         monitor. Name such services as `[[backends]]`."
    )
}

fn idle_evidence(load: &LoadResult, used: f64) -> Value {
    json!({
        "in_flight": load.in_flight.mean, "server_utilisation": used,
        "generator_utilisation": load.client.busiest_thread_utilisation,
    })
}

fn unknown(load: &LoadResult, server: &ServerUse) -> Limiter {
    let busy = load.client.busiest_thread_utilisation;
    let sentence = match (server.cpu_utilisation, starved_seconds(server)) {
        (Some(used), Some(waited_s)) => format!(
            "Unknown: the server used {} of its CPU, and its threads waited {waited_s:.2} s for \
             CPUs in {:.2} s. Other programs used {:.2} s of this machine's CPU time meanwhile.",
            percent(used),
            server.window_s,
            server.others_cpu_s.unwrap_or(0.0)
        ),
        (Some(used), None) => format!(
            "Unknown: the server used {} of its CPU, and the generator's busiest thread {} of a \
             CPU. Neither is full. {}",
            percent(used),
            percent(busy),
            missing_measurement(load, server)
        ),
        (None, _) if server.unread_counters.is_some() => {
            "Unknown: threads or processes of the server ended before their CPU time was read."
                .into()
        }
        (None, _) => "Unknown: the server's CPU could not be observed.".into(),
    };
    let evidence = json!({
        "server_utilisation": server.cpu_utilisation, "generator_utilisation": busy,
        "server_run_delay_s": server.run_delay_s, "steal_share": server.steal_share,
        "generator_starved": is_generator_starved(load),
    });
    Limiter::new(Resource::Unknown, Confidence::Low, sentence, evidence)
}

/// Names the measurement that would find the limiter.
fn missing_measurement(load: &LoadResult, server: &ServerUse) -> String {
    // A server's waits mean nothing while another program uses the time of its machine.
    if let Some(share) = server.steal_share.filter(|share| *share > STEAL) {
        return format!(
            "The hypervisor gave {} of this machine's CPU time to others, so waiting threads look \
             idle. Re-run on a dedicated host.",
            percent(share)
        );
    }
    if is_generator_starved(load) {
        return "The generator waited for a CPU that another program used, so the server got fewer \
                requests and looks idle. Re-run on a quieter machine."
            .into();
    }
    let is_looked_at = server.by_thread_role.values().any(|role| role.states_s.is_some());
    if is_looked_at {
        "Use more connections, or a longer step, to see which of the two fills first.".into()
    } else {
        "Thread states were not recorded. Use `--observe states` to see the waits.".into()
    }
}
