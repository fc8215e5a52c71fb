//! Derives the limiter of a step (the resource that bound it) and the confidence in that verdict.
//! The rules are tried in a fixed order, and the first that applies decides.

use dyno_archive::plan::LoadModel;
use dyno_archive::sample::ThreadState;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::headroom::GeneratorBound;
use super::other_programs;
use super::polling::{is_full, polling_evidence, polling_limiter};
use super::resource::{Confidence, Resource};
use super::server::starved_seconds;
use super::thresholds::{
    JIT_SHARE, LINK_FULL, MANY_THROTTLED, SERVER_BUSY, SERVER_IDLE, STEAL, THROTTLED,
};
use super::waits::{
    accept_queue, are_queues_excluded, delayed_ack, disk, gc, lock, memory, sleep, workers,
};
use crate::backend::BackendUse;
use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;
use crate::load::offered::rate_text;
use crate::machine::MachineResult;
use crate::number_format::{cpus, percent};
use crate::server::{ServerUse, Throttling};

/// Minimum requests in flight at which too few requests cannot explain an idle server: something
/// else delays them.
const MANY_IN_FLIGHT: f64 = 64.0;

/// Below this many requests in flight a closed loop is expected to leave a server idle.
const FEW_IN_FLIGHT: f64 = 32.0;

/// Requests in flight up to which hardly any request waits for another.
const HARDLY_ANY_IN_FLIGHT: f64 = 1.5;

/// Minimum share of the response times for which the wait of the server's threads for a CPU may be
/// the limit.
const CPU_WAIT_SHARE: f64 = 0.25;

/// The verdict on what limited a step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Limiter {
    pub resource: Resource,
    pub confidence: Confidence,
    /// The claim, with the confidence as its first word unless that is high.
    pub sentence: String,
    /// The limit and the observations that show it, without the confidence.
    #[serde(skip)]
    claim: String,
    pub evidence: Value,
    /// The observation that would refute it, as a sentence. Empty: it names nothing.
    pub refutation: &'static str,
}

impl Limiter {
    /// Returns a limiter. Its claim begins with the name of the limit.
    #[must_use]
    pub fn new(
        resource: Resource,
        confidence: Confidence,
        claim: String,
        evidence: Value,
    ) -> Limiter {
        let sentence = confidence.qualify(resource, &claim);
        let refutation = resource.refutation();
        Limiter { resource, confidence, sentence, claim, evidence, refutation }
    }

    /// Returns the same limiter with at most this confidence. `doubt`: the reason, to follow the
    /// claim.
    pub(crate) fn weaken(&self, highest: Confidence, doubt: &str) -> Limiter {
        let confidence = self.confidence.max(highest);
        let claim = format!("{}{doubt}", self.claim);
        Limiter::new(self.resource, confidence, claim, self.evidence.clone())
    }

    /// The limit and the observations that show it, without the confidence.
    pub(super) fn claim(&self) -> &str {
        &self.claim
    }
}

/// Returns the limiter of a step, from the first rule that applies.
#[must_use]
pub fn limiter(
    load: &LoadResult,
    server: &ServerUse,
    backends: &[BackendUse],
    machine: &MachineResult,
) -> Limiter {
    type Rule = fn(&LoadResult, &ServerUse) -> Option<Limiter>;
    let failures: [Rule; 3] = [dropped_packets, failure, refusal];
    let before_backends: [Rule; 10] = [
        generator,
        // A server that keeps up with its load is limited neither by its quota nor by its runtime.
        offered_rate,
        jit,
        gc,
        cpu_quota,
        polling_limiter,
        server_cpu,
        server_thread,
        delayed_ack,
        accept_queue,
    ];
    let after_links: [Rule; 5] = [disk, lock, workers, sleep, throttled_bursts];
    let try_all = |rules: &[Rule]| rules.iter().find_map(|rule| rule(load, server));
    let after_links = || {
        try_all(&after_links)
            .or_else(|| elsewhere(load, server, backends))
            .or_else(|| concurrency(load, server))
    };
    try_all(&failures)
        .or_else(|| other_programs::generator_limiter(load, server, machine))
        .or_else(|| try_all(&before_backends))
        .or_else(|| memory(load, server, machine))
        .or_else(|| other_programs::backend(server, backends))
        .or_else(|| link(load, server, machine))
        .or_else(|| {
            let limiter = weaken_by_interrupts(after_links()?, server);
            Some(other_programs::weaken_by_shared_cpus(limiter, server, backends))
        })
        .or_else(|| other_programs::server_limiter(load, server, machine))
        .unwrap_or_else(|| weaken_by_interrupts(unknown(load, server), server))
}

/// Returns the CPU seconds of interrupts that are billed to no program, if they may have filled the
/// server's CPUs. All interrupts of the machine may have run on these CPUs.
pub(super) fn filling_interrupt_s(server: &ServerUse) -> Option<f64> {
    let interrupt_s = server.interrupt_s.filter(|s| *s > 0.0)?;
    let may_be_full = server.cpu_utilisation? + interrupt_s / server.cpu_allowed_s? >= SERVER_IDLE;
    may_be_full.then_some(interrupt_s)
}

/// Weakens a limiter that needs an idle server CPU, if interrupts may have filled it.
fn weaken_by_interrupts(limiter: Limiter, server: &ServerUse) -> Limiter {
    let Some(interrupt_s) = filling_interrupt_s(server) else { return limiter };
    let doubt = format!(
        " Interrupts used {interrupt_s:.2} s of this machine's CPU time in {:.2} s. This kernel \
         bills them to no program, so the server's CPUs may have been full.",
        server.window_s
    );
    limiter.weaken(Confidence::Medium, &doubt)
}

/// The machine dropped packets, which looks like a failure of the server. A server that has ended
/// failed by itself.
fn dropped_packets(load: &LoadResult, _: &ServerUse) -> Option<Limiter> {
    let dropped = find_invalid(load, Code::DroppedPackets)?;
    find_caveat(load, Code::SubjectFailed)
        .is_none()
        .then(|| from_caveat(dropped, Resource::DroppedPackets))
}

/// The server ended, did not respond, or sent incorrect responses. No resource is the limit then.
fn failure(load: &LoadResult, _: &ServerUse) -> Option<Limiter> {
    let caveat = find_caveat(load, Code::BackendFailed)
        .or_else(|| find_caveat(load, Code::MachineFailed))
        .or_else(|| find_caveat(load, Code::SubjectFailed))
        .or_else(|| find_caveat(load, Code::NoCorrectResponse))
        .or_else(|| find_invalid(load, Code::IncorrectResponses))
        .or_else(|| find_invalid(load, Code::Unsolicited))
        .or_else(|| find_invalid(load, Code::Outage))?;
    Some(from_caveat(caveat, Resource::Failure))
}

fn refusal(load: &LoadResult, _: &ServerUse) -> Option<Limiter> {
    Some(from_caveat(find_caveat(load, Code::Refusals)?, Resource::Refusal))
}

fn find_caveat(load: &LoadResult, code: Code) -> Option<&Caveat> {
    load.caveats.iter().find(|caveat| caveat.code == code)
}

fn find_invalid(load: &LoadResult, code: Code) -> Option<&Caveat> {
    find_caveat(load, code).filter(|caveat| caveat.severity == Severity::Invalid)
}

/// Returns a limiter with the sentence of a caveat.
fn from_caveat(caveat: &Caveat, resource: Resource) -> Limiter {
    let (sentence, evidence) = (caveat.message.clone(), caveat.evidence.clone());
    Limiter::new(resource, Confidence::High, sentence, evidence)
}

fn generator(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let bound = GeneratorBound::from_result(load)?;
    let server_share = server.cpu_utilisation;
    (!is_full(load, server)).then(|| {
        let while_server =
            |share| format!(", while the server used {} of its allowed CPU time", percent(share));
        let server_text = server_share.map_or(String::new(), while_server);
        let sentence = format!("The generator: {}{server_text}.", bound.clause());
        let confidence = match server_share {
            // Without the other programs the generator may have had headroom.
            _ if other_programs::contended_share(load, server).is_some() => Confidence::Low,
            Some(share) if share < SERVER_BUSY => Confidence::High,
            _ => Confidence::Medium,
        };
        let evidence = json!({
            "generator_utilisation": load.client.busiest_thread_utilisation,
            "generator_need": load.client.headroom.need,
            "server_utilisation": server_share,
        });
        Limiter::new(Resource::Generator, confidence, sentence, evidence)
    })
}

/// The server's CPU is full, and its JIT compiler used much of it.
fn jit(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = server.cpu_utilisation.filter(|used| *used >= SERVER_BUSY)?;
    let share = server.role_share("jit").filter(|share| *share > JIT_SHARE)?;
    let sentence = format!(
        "The JIT compiler: it used {} of the server's CPU time, and the server used {} of its \
         allowed CPU time.",
        percent(share),
        percent(used)
    );
    Some(Limiter::new(
        Resource::Jit,
        Confidence::High,
        sentence,
        json!({"jit_share": share, "cpu_utilisation": used}),
    ))
}

/// The server's CPU quota throttled it, and it used the quota. The rule counts periods, because the
/// kernel sums throttled time over CPUs.
fn cpu_quota(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let throttling = server.throttling.filter(|t| t.share() > THROTTLED)?;
    is_quota_used(server, throttling)
        .then(|| quota_limiter(server, throttling, Confidence::High, ""))
}

/// The server's CPU quota throttled it, although it used little of the quota on average.
fn throttled_bursts(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let throttling = server.throttling.filter(|t| t.share() > THROTTLED)?;
    let doubt = server.cpu_utilisation.map_or(String::new(), |used| {
        format!(
            " On average it used only {} of its CPU, so bursts may be throttled while something \
             else is the limit.",
            percent(used)
        )
    });
    Some(quota_limiter(server, throttling, Confidence::Medium, &doubt))
}

/// Returns the quota as the limiter. `doubt`: text to follow the observation.
fn quota_limiter(
    server: &ServerUse,
    throttling: Throttling,
    confidence: Confidence,
    doubt: &str,
) -> Limiter {
    let sentence =
        format!("The server's CPU quota: it was {}.{doubt}", throttling_clause(throttling));
    let evidence = json!({
        "throttled_periods": throttling.throttled_periods, "periods": throttling.periods,
        "throttled_s": server.throttled_s, "cpu_utilisation": server.cpu_utilisation,
    });
    Limiter::new(Resource::CpuQuota, confidence, sentence, evidence)
}

/// Whether a quota that throttles a server is certainly its limit. Bursts, as of a collector with
/// many threads, are throttled in a server that needs little of its quota too.
pub(super) fn is_quota_used(server: &ServerUse, throttling: Throttling) -> bool {
    throttling.share() >= MANY_THROTTLED
        || server.cpu_utilisation.is_some_and(|used| used >= SERVER_IDLE)
}

/// Formats the throttled periods as the second half of a sentence about the server.
pub(super) fn throttling_clause(throttling: Throttling) -> String {
    format!(
        "throttled in {} of {} periods ({})",
        throttling.throttled_periods,
        throttling.periods,
        percent(throttling.share())
    )
}

fn offered_rate(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let pace = load.pace()?;
    // A full server was the limit even if it nearly kept up, because its queue grows.
    (pace.has_kept_up && !is_full(load, server)).then(|| {
        let polls = polling_evidence(load, server)
            .map_or(String::new(), |polling| format!(" The server polls: {}.", polling.clause()));
        let throttled = server
            .throttling
            .filter(|t| t.share() > THROTTLED)
            .map_or(String::new(), |t| format!(" The server was {}.", throttling_clause(t)));
        let changes = if load.config.rate.is_none() { " on average" } else { "" };
        let sentence = format!(
            "The offered rate: the server kept up with {} requests per second{changes}{}{}.{polls}\
             {throttled}",
            rate_text(pace.offered_rps()),
            pace.stretch_text(),
            server
                .cpu_utilisation
                .map_or(String::new(), |u| format!(" and used {} of its CPU", percent(u)))
        );
        Limiter::new(Resource::OfferedRate, Confidence::High, sentence, pace.evidence())
    })
}

fn server_cpu(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = server.cpu_utilisation?;
    (used >= SERVER_BUSY).then(|| {
        let allowed = server.cpu_allowed_s.unwrap_or(0.0) / server.window_s;
        // The busiest thread's share of the CPU time that the server used.
        let busiest = server.busiest_thread_utilisation.map(|share| share / (used * allowed));
        let in_one =
            busiest.filter(|share| *share >= SERVER_BUSY && server.threads.is_some_and(|n| n > 1));
        let thread_text = in_one.map_or(String::new(), |share| {
            format!(", {} of that in one thread", percent(share.min(1.0)))
        });
        let sentence = format!(
            "The server's CPU: it used {} of the {} it may use{thread_text}.",
            percent(used),
            cpus(allowed)
        );
        let evidence = json!({
            "cpu_utilisation": used,
            "busiest_thread_utilisation": server.busiest_thread_utilisation,
        });
        Limiter::new(Resource::ServerCpu, Confidence::High, sentence, evidence)
    })
}

fn server_thread(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let busiest = server.busiest_serving_utilisation?;
    let used = server.cpu_utilisation?;
    (busiest >= SERVER_BUSY).then(|| {
        let sentence = format!(
            "One thread of the server: it was busy for {} of the time, while the whole server used \
             {} of its CPU.",
            percent(busiest),
            percent(used)
        );
        let evidence = json!({"busiest_serving_utilisation": busiest, "cpu_utilisation": used});
        Limiter::new(Resource::ServerThread, Confidence::High, sentence, evidence)
    })
}

/// A network device of the machine is full, while server and generator have headroom. Its traffic
/// may include the traffic of other programs.
fn link(load: &LoadResult, server: &ServerUse, machine: &MachineResult) -> Option<Limiter> {
    let used = utilisation_with_headroom(load, server)?;
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
    Some(Limiter::new(Resource::Link, Confidence::Medium, sentence, evidence))
}

/// Returns the server's CPU utilisation if both server and generator had headroom. `None`: a side
/// was busy, or may have lacked CPU time that others took, so that requests may only wait for a
/// CPU.
fn utilisation_with_headroom(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    let used = server.cpu_utilisation?;
    (used < SERVER_IDLE && load.client.headroom.need < SERVER_IDLE && !may_lack_cpu(load, server))
        .then_some(used)
}

/// Whether server or generator may have been short of CPU time because others took it: use and lost
/// time together leave no headroom. The generator's `need` already includes its waits for CPUs.
pub(super) fn may_lack_cpu(load: &LoadResult, server: &ServerUse) -> bool {
    let allowed_s = server.cpu_allowed_s.unwrap_or(0.0);
    // If the waits of its threads are unknown, the server may have lost all CPU time that other
    // programs used on its CPUs.
    let waited_s =
        server.run_delay_s.map_or(server.others_on_its_cpus_s, |_| starved_seconds(server));
    let waited = waited_s.map(|waited_s| waited_s / allowed_s);
    let is_stolen = server.steal_share.is_some_and(|share| share > STEAL);
    let stolen = |share: Option<f64>| is_stolen.then(|| share.unwrap_or(f64::INFINITY));
    // One side may have lost all of the stolen time. The kernel counts as stolen only time that a
    // thread wanted to use.
    let server_lost = [waited, stolen(server.stolen_share())];
    let generator_lost = stolen(server.stolen_s.map(|stolen_s| stolen_s / server.window_s));
    let is_short = |used: f64, lost: f64| lost > 0.0 && used + lost >= SERVER_IDLE;
    let used = server.cpu_utilisation.unwrap_or(f64::INFINITY);
    is_short(used, server_lost.into_iter().flatten().sum())
        || is_short(load.client.headroom.need, generator_lost.unwrap_or(0.0))
}

/// Whether others took CPU time, so that requests took longer than on a quiet machine.
pub(super) fn is_disturbed(load: &LoadResult, server: &ServerUse) -> bool {
    starved_seconds(server).is_some() || is_generator_starved(load) || may_lack_cpu(load, server)
}

pub(super) fn is_generator_starved(load: &LoadResult) -> bool {
    load.caveats.iter().any(|caveat| caveat.code == Code::GeneratorStarved)
}

/// The server has headroom although many requests wait: for something that no other rule names.
fn elsewhere(load: &LoadResult, server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let used = utilisation_with_headroom(load, server)?;
    let waiting = load.mean_at_server();
    (waiting >= MANY_IN_FLIGHT).then(|| {
        let sentence = format!(
            "An unmonitored resource: on average {waiting:.0} requests were in flight, and the \
             server used {} of its CPU. {}",
            percent(used),
            describe_waits(server, backends)
        );
        Limiter::new(Resource::Elsewhere, Confidence::Medium, sentence, idle_evidence(load, used))
    })
}

/// Server and generator have headroom, and few requests are in flight.
fn concurrency(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = utilisation_with_headroom(load, server)?;
    let are_few = load.mean_at_server() < MANY_IN_FLIGHT;
    (load.config.model == LoadModel::Closed && are_few).then(|| {
        let round_trip = load.response_time_us.mean.unwrap_or(0.0);
        let sentence = format!(
            "Too few requests in flight: {:.0} on average, each for a round trip of \
             {round_trip:.0} µs. The server used {} of its CPU.",
            load.in_flight.mean,
            percent(used)
        );
        // With few requests in flight, a closed loop must leave a server idle. With more, another
        // cause may be hidden: a lock that is held for 15 µs delays 16 requests by 240 µs only. If
        // counters of threads are unread, the rules for threads, locks and disks could not apply.
        let is_likely = load.in_flight.mean < FEW_IN_FLIGHT && server.unread_counters.is_none();
        let has_no_queue =
            load.in_flight.mean <= HARDLY_ANY_IN_FLIGHT || are_queues_excluded(server);
        let is_sure = has_no_queue
            && is_quick(load, server)
            && !is_disturbed(load, server)
            && !has_nearly_full_thread(server)
            && !waits_for_cpus(load, server);
        let confidence = match is_likely {
            true if is_sure => Confidence::High,
            true => Confidence::Medium,
            false => Confidence::Low,
        };
        Limiter::new(Resource::Concurrency, confidence, sentence, idle_evidence(load, used))
    })
}

/// Longest network round trip of a request without any queue, microseconds. It allows for two
/// wake-ups of a virtual machine's sleeping CPU on each side.
const ROUND_TRIP_US: f64 = 300.0;

/// Whether requests take little longer than their CPU time in the server and a round trip. They
/// wait neither long for each other nor for a slow resource that serves one request at a time.
fn is_quick(load: &LoadResult, server: &ServerUse) -> bool {
    let mean_us = load.response_time_us.mean;
    let quick_us = server.cpu_us_per_request.map(|cpu_us| 2.0 * cpu_us + ROUND_TRIP_US);
    mean_us.zip(quick_us).is_some_and(|(mean_us, quick_us)| mean_us <= quick_us)
}

/// Whether a thread has little CPU time left, or none is known. Its role is a guess from its name,
/// so it may serve.
fn has_nearly_full_thread(server: &ServerUse) -> bool {
    server.busiest_thread_utilisation.is_none_or(|busiest| busiest >= SERVER_IDLE)
}

/// Whether requests wait for the server's CPUs for much of their time, or that is unknown. The
/// server may be bound to fewer CPUs than dyno knows.
fn waits_for_cpus(load: &LoadResult, server: &ServerUse) -> bool {
    let response_times_s = load.in_flight.mean * server.window_s;
    server.run_delay_s.is_none_or(|waited_s| waited_s >= CPU_WAIT_SHARE * response_times_s)
}

/// Describes the waits of the server's threads, or names the option that shows them.
fn describe_waits(server: &ServerUse, backends: &[BackendUse]) -> String {
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
    let longest = waits.into_iter().max_by(|a, b| working.share(*a).total_cmp(&working.share(*b)));
    let longest_wait = longest.map_or(String::new(), |state| {
        let purpose = match state {
            ThreadState::Network => "for peers (requests, or responses of back ends)",
            ThreadState::Lock => "for each other or for work",
            ThreadState::Disk => "for a disk",
            ThreadState::Runnable => "for a CPU",
            ThreadState::Sleep => "in timers",
            _ => "in other system calls",
        };
        format!(
            "For {} of their time the serving threads waited {purpose}. ",
            percent(working.share(state))
        )
    });
    let limit = match backends {
        [] => {
            "The server has an internal limit, or waits for a service that dyno does not monitor. \
             Name such services as `[[backends]]`."
        }
        _ => {
            "The server or a back end has an internal limit, or waits for a service that dyno does \
             not monitor."
        }
    };
    format!("{longest_wait}{limit}")
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
             CPUs in {:.2} s. Other programs used those CPUs for up to {:.2} s during the window.",
            percent(used),
            server.window_s,
            server.others_on_its_cpus_s.unwrap_or(0.0)
        ),
        (Some(used), None) => format!(
            "Unknown: the server used {} of its CPU, and the generator's busiest thread {} of a \
             CPU. Neither is saturated. {}",
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

/// Returns the advice that would find the limiter.
fn missing_measurement(load: &LoadResult, server: &ServerUse) -> String {
    // Waits of threads do not point to a limiter while others use the machine's CPU time.
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
    let are_states_known = server.by_thread_role.values().any(|role| role.states_s.is_some());
    if are_states_known {
        "Use more connections, or a longer step, to see which of the two saturates first.".into()
    } else {
        "Thread states were not recorded. Use `--observe states` to see the waits.".into()
    }
}
