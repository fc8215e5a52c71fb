//! Derives the limiter of a step (the resource that limited it) and the confidence in that verdict.
//! The rules are tried in a fixed order, and the first that applies decides. The doc comment of
//! each rule states the condition under which the rule applies.

use dyno_archive::plan::LoadModel;
use dyno_archive::sample::ThreadState;
use serde_json::{Value, json};

use super::conditions::{
    is_disturbed, is_generator_starved, is_quota_used, may_lack_cpu, throttling_clause,
};
use super::headroom::GeneratorBound;
use super::other_programs;
use super::polling::{
    MAY_POLL_UNSEEN, POLLS, Polling, busy_thread, is_full, is_mostly_idle, may_poll_unseen,
    polling_evidence, polling_limiter,
};
use super::resource::{Confidence, Limiter, Resource};
use super::server::starved_seconds;
use super::thresholds::{
    JIT_SHARE, LINK_FULL, SERVER_BUSY, SERVER_FULL, SERVER_IDLE, STEAL, THROTTLED,
};
use super::waits::{
    accept_queue, are_queues_excluded, delayed_ack, disk, gc, lock, memory, sleep, workers,
};
use crate::backend_use::BackendUse;
use crate::caveat::{Caveat, Code, Severity};
use crate::faults::excuses_losses;
use crate::load::LoadResult;
use crate::load::offered::{Pace, rate_text};
use crate::machine::MachineResult;
use crate::number_format::{cpus, percent};
use crate::server::{ServerUse, Throttling};

/// With at least this many requests in flight, too few requests cannot explain an idle server.
const MANY_IN_FLIGHT: f64 = 64.0;

/// Number of requests in flight below which a server in a closed loop is expected to be idle at
/// times.
const FEW_IN_FLIGHT: f64 = 32.0;

/// Number of requests in flight up to which hardly any request waits for another request.
const HARDLY_ANY_IN_FLIGHT: f64 = 1.5;

/// The wait of the server's threads for a CPU may be the limit if it takes at least this share of
/// the response times.
const CPU_WAIT_SHARE: f64 = 0.25;

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
    let before_backends: [Rule; 9] = [
        // A server that keeps up with its load is limited neither by its quota nor by its runtime,
        // so this rule comes before the rules for both.
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
        .or_else(|| other_programs::generator_limiter(load, server, backends, machine))
        .or_else(|| generator(load, server, backends))
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
/// server's CPUs, or the CPU of its busiest serving thread. The seconds are known only for the
/// whole machine, so the rule assumes that all interrupts ran there.
pub(super) fn filling_interrupt_s(server: &ServerUse) -> Option<f64> {
    let interrupt_s = server.interrupt_s.filter(|s| *s > 0.0)?;
    let all = server.cpu_utilisation? + interrupt_s / server.cpu_allowed_s?;
    let of_thread = server.busiest_serving_utilisation.unwrap_or(0.0);
    let busiest = of_thread + interrupt_s / server.window_s;
    (all.max(busiest) >= SERVER_IDLE).then_some(interrupt_s)
}

/// Weakens a limiter that needs an idle server CPU, if interrupts may have filled it.
fn weaken_by_interrupts(limiter: Limiter, server: &ServerUse) -> Limiter {
    let Some(interrupt_s) = filling_interrupt_s(server) else { return limiter };
    let doubt = format!(
        " In the window of {:.2} s, interrupts used {interrupt_s:.2} s of this machine's CPU time. \
         This kernel counts that time for no program, so a CPU of the server may have been full.",
        server.window_s
    );
    limiter.weaken(Confidence::Medium, &doubt)
}

/// The machine dropped packets, which looks like a failure of the server. If the server ended, it
/// failed by itself, and dropped packets are not the cause. Dropped packets are not the cause
/// either if they are too few to explain the failed requests.
fn dropped_packets(load: &LoadResult, _: &ServerUse) -> Option<Limiter> {
    let dropped = find_invalid(load, Code::DroppedPackets)?;
    (find_caveat(load, Code::SubjectFailed).is_none() && excuses_losses(dropped, load))
        .then(|| from_caveat(dropped, Resource::DroppedPackets))
}

/// The server ended, did not respond, or sent incorrect responses. No resource was the limit.
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

/// A control refused all connections, as intended.
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

/// The generator had no headroom, and the server did not fill its CPU. The confidence is low if a
/// thread of the server, or a back end, was full.
fn generator(load: &LoadResult, server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let bound = GeneratorBound::from_result(load)?;
    let server_share = server.cpu_utilisation;
    (!is_full(load, server)).then(|| {
        let while_server =
            |share| format!(", while the server used {} of its allowed CPU time", percent(share));
        let server_text = server_share.map_or(String::new(), while_server);
        let full_part = other_programs::full_part(load, server, backends, SERVER_FULL);
        let has_busy_thread = busy_thread(load, server, SERVER_BUSY).is_some();
        let doubt = full_part.as_ref().map_or(String::new(), |full| format!(" {full}"));
        let sentence = format!("The generator: {}{server_text}.{doubt}", bound.clause());
        let confidence = match server_share {
            _ if full_part.is_some() => Confidence::Low,
            // Without the other programs the generator may have had headroom.
            _ if other_programs::may_have_contended(load, server) => Confidence::Low,
            Some(share) if share < SERVER_BUSY && !has_busy_thread => Confidence::High,
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

/// The server's CPU quota throttled it, and it used the quota. The rule uses the number of periods,
/// because the kernel sums throttled time over CPUs.
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
            " On average the server used only {} of its CPU, so the quota may throttle only short \
             bursts, and something else may be the limit.",
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
        format!("The server's CPU quota: the server was {}.{doubt}", throttling_clause(throttling));
    let evidence = json!({
        "throttled_periods": throttling.throttled_periods, "periods": throttling.periods,
        "throttled_s": server.throttled_s, "cpu_utilisation": server.cpu_utilisation,
    });
    Limiter::new(Resource::CpuQuota, confidence, sentence, evidence)
}

/// The server kept up with the rate of an open loop.
fn offered_rate(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    // A full server or thread was the limit even if it nearly kept up, because its queue grows.
    if is_full(load, server) || busy_thread(load, server, SERVER_FULL).is_some() {
        return None;
    }
    let polling = polling_evidence(load, server);
    let polls =
        polling.map_or(String::new(), |polling| format!("{POLLS} {}", polling.observation()));
    // A server that reads until EAGAIN for each of many queries may have a full CPU.
    let may_work = matches!(polling, Some(Polling::IdleCalls { .. })) && !is_mostly_idle(server);
    let confidence = if may_work { Confidence::Medium } else { Confidence::High };
    met_rate(load, server, confidence, &polls)
}

/// Returns the offered rate as the limiter. `polls`: text which explains that a CPU is full because
/// the server polls, or empty. `None`: the server did not keep up, or the loop is closed.
pub(super) fn met_rate(
    load: &LoadResult,
    server: &ServerUse,
    confidence: Confidence,
    polls: &str,
) -> Option<Limiter> {
    let pace = load.pace().filter(Pace::has_responded)?;
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
    Some(Limiter::new(Resource::OfferedRate, confidence, sentence, pace.evidence()))
}

/// Returns a full CPU or thread as the limiter. The confidence is medium if the server keeps up
/// with a rate, because a server that spins fills a CPU at every rate. It is medium too if the
/// server may poll unseen.
fn full_limiter(
    resource: Resource,
    sentence: String,
    evidence: Value,
    (load, server): (&LoadResult, &ServerUse),
) -> Limiter {
    let keeps_up = load.pace().is_some_and(|pace| pace.has_responded());
    let confidence = if keeps_up { Confidence::Medium } else { Confidence::High };
    let limiter = Limiter::new(resource, confidence, sentence, evidence);
    match may_poll_unseen(load, server) {
        true => limiter.weaken(Confidence::Medium, MAY_POLL_UNSEEN),
        false => limiter,
    }
}

/// The server used nearly all of its allowed CPU time.
fn server_cpu(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = server.cpu_utilisation?;
    (used >= SERVER_BUSY).then(|| {
        let allowed = server.cpu_allowed_s.unwrap_or(0.0) / server.window_s;
        let used_cpus = used * allowed;
        let busiest_share = server.busiest_thread_utilisation.map(|cpus| cpus / used_cpus);
        let has_other_threads = server.threads.is_some_and(|n| n > 1);
        let thread_text = match busiest_share {
            Some(share) if share >= SERVER_BUSY && has_other_threads => {
                format!(", {} of that in one thread", percent(share.min(1.0)))
            }
            _ => String::new(),
        };
        let sentence = format!(
            "The server's CPU: the server used {} of the {} that it is allowed to \
             use{thread_text}.",
            percent(used),
            cpus(allowed)
        );
        let evidence = json!({
            "cpu_utilisation": used,
            "busiest_thread_utilisation": server.busiest_thread_utilisation,
        });
        full_limiter(Resource::ServerCpu, sentence, evidence, (load, server))
    })
}

/// One serving thread was always busy. The rule follows `server_cpu`, so the server had CPU time
/// left.
fn server_thread(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
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
        full_limiter(Resource::ServerThread, sentence, evidence, (load, server))
    })
}

/// A network device of the machine is full, while server and generator have headroom. Its traffic
/// may include the traffic of other programs.
fn link(load: &LoadResult, server: &ServerUse, machine: &MachineResult) -> Option<Limiter> {
    let used = utilisation_with_headroom(load, server)?;
    let link = machine.busiest_link.as_ref().filter(|link| link.utilisation >= LINK_FULL)?;
    let sentence = format!(
        "A network link: {} used {} of its capacity ({} Mbit/s), while the server used {} of its \
         CPU.",
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

/// Returns the server's CPU utilisation if both server and generator had headroom. `None`: one of
/// them was busy, or may have lacked CPU time that other programs took. In both cases the requests
/// may wait for nothing but a CPU.
fn utilisation_with_headroom(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    let used = server.cpu_utilisation?;
    let generator_used = load.client.headroom.need;
    let has_headroom =
        used < SERVER_IDLE && generator_used < SERVER_IDLE && !may_lack_cpu(load, server);
    has_headroom.then_some(used)
}

/// The server has headroom although many requests wait: for something that no other rule names.
fn elsewhere(load: &LoadResult, server: &ServerUse, backends: &[BackendUse]) -> Option<Limiter> {
    let used = utilisation_with_headroom(load, server)?;
    let waiting = load.mean_at_server();
    (waiting >= MANY_IN_FLIGHT).then(|| {
        let sentence = format!(
            "An unmonitored resource: on average {waiting:.0} requests were in flight, but the \
             server used only {} of its CPU. {}",
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
            "Too few requests in flight: {:.0} on average, and each takes {round_trip:.0} µs. The \
             server used {} of its CPU.",
            load.in_flight.mean,
            percent(used)
        );
        // With few requests in flight, a closed loop must leave a server idle. With more, another
        // cause may be hidden: a lock that is held for 15 µs delays 16 requests by only 240 µs. If
        // threads ended before their counters were read, the rules for threads, locks and disks
        // could not apply.
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

/// A request that does not wait takes at most this many times its CPU time in the server, in
/// addition to the round trip.
const CPU_TIME_MULTIPLE: f64 = 2.0;

/// Whether requests take little longer than their CPU time in the server and a round trip. Such
/// requests do not wait long, neither for each other nor for a resource that serves one at a time.
fn is_quick(load: &LoadResult, server: &ServerUse) -> bool {
    let mean_us = load.response_time_us.mean;
    let quick_us =
        server.cpu_us_per_request.map(|cpu_us| CPU_TIME_MULTIPLE * cpu_us + ROUND_TRIP_US);
    mean_us.zip(quick_us).is_some_and(|(mean_us, quick_us)| mean_us <= quick_us)
}

/// Whether the busiest thread has little CPU time left, or its use is unknown. Threads of all roles
/// count: roles are guessed from names, so any thread may serve requests.
pub(super) fn has_nearly_full_thread(server: &ServerUse) -> bool {
    server.busiest_thread_utilisation.is_none_or(|busiest| busiest >= SERVER_IDLE)
}

/// Whether requests wait for the server's CPUs for much of their time, or the wait is unknown. An
/// idle server may wait for CPUs if it bound itself to fewer CPUs than dyno knows.
fn waits_for_cpus(load: &LoadResult, server: &ServerUse) -> bool {
    // The sum of the response times of all requests.
    let response_times_s = load.in_flight.mean * server.window_s;
    server.run_delay_s.is_none_or(|waited_s| waited_s >= CPU_WAIT_SHARE * response_times_s)
}

/// Describes the waits of the server's threads, or names the option that shows them.
fn describe_waits(server: &ServerUse, backends: &[BackendUse]) -> String {
    let Some(serving) = &server.serving else {
        return "The server waits for a lock, a disk or a database, or has an internal limit on \
                threads or connections. Use `--observe states` to see the cause."
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
    let longest = waits.into_iter().max_by(|a, b| serving.share(*a).total_cmp(&serving.share(*b)));
    let longest_wait = longest.map_or(String::new(), |state| {
        let purpose = match state {
            ThreadState::Network => "on the network, for requests or for responses of back ends",
            ThreadState::Lock => "for each other or for work",
            ThreadState::Disk => "for a disk",
            ThreadState::Runnable => "for a CPU",
            ThreadState::Sleep => "for a timer",
            _ => "in other system calls",
        };
        format!(
            "For {} of their time, the threads that serve requests waited {purpose}. ",
            percent(serving.share(state))
        )
    });
    let limit = match backends {
        [] => {
            "The server has an internal limit, or waits for a service that dyno does not monitor. \
             Add the services that the server needs as `[[backends]]`."
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

/// No rule names a limit. The sentence names what is missing.
fn unknown(load: &LoadResult, server: &ServerUse) -> Limiter {
    let busy = load.client.busiest_thread_utilisation;
    let sentence = match (server.cpu_utilisation, starved_seconds(server)) {
        (Some(used), Some(waited_s)) => format!(
            "Unknown: in the window of {:.2} s, the server used {} of its CPU, and its threads \
             together waited for a CPU for {waited_s:.2} s. Other programs used the server's CPUs \
             for up to {:.2} s, so these programs may be the limit. Repeat the step on an idle \
             machine.",
            server.window_s,
            percent(used),
            server.others_on_its_cpus_s.unwrap_or(0.0)
        ),
        (Some(used), None) => format!(
            "Unknown: the server used {} of its CPU, and the generator's busiest thread used {} of \
             a CPU. Neither CPU was full. {}",
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
    // While other virtual machines or programs use the CPUs, waits of threads do not show a
    // limiter.
    if let Some(share) = server.steal_share.filter(|share| *share > STEAL) {
        return format!(
            "The hypervisor gave {} of this machine's CPU time to other virtual machines, so \
             waiting threads look idle. Re-run on a dedicated host.",
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
        "Use more connections, or a longer step, to see whether the server or the generator \
         reaches its limit first."
            .into()
    } else {
        "Thread states were not recorded. Use `--observe states` to see what the threads wait for."
            .into()
    }
}
