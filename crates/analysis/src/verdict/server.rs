//! Derives caveats about a server's observed numbers: CPU, memory, network and system calls. The
//! caveats mark missing values, and effects that the server did not cause.
//!
//! The doc comment of each rule states the condition under which its caveat applies.

use dyno_archive::probe::Probe;
use dyno_archive::probe::{RefusedProbe, RequestedProbes};
use dyno_archive::{LoadRecord, Party};
use serde_json::json;

use super::thresholds::{SERVER_FULL, SERVER_IDLE, STEAL, THROTTLED};
use crate::caveat::{Caveat, Code, Severity, info};
use crate::load::{LoadResult, Percentiles};
use crate::number_format::{cpus, percent, plural, was};
use crate::server::{RuntimeMetrics, ServerUse, strays};

/// Longest wait of all threads together for a CPU without a caveat, as a share of the allowed CPU
/// time.
pub(super) const MAX_WAITING: f64 = 0.1;

/// Minimum CPU time of other programs on the server's CPUs that can explain waits of the server for
/// a CPU, as a share of the server's allowed CPU time.
pub(super) const OTHERS_SHARE: f64 = 0.1;

/// Returns all caveats about the server's numbers.
pub(super) fn caveats(
    load: &LoadResult,
    server: &ServerUse,
    record: &LoadRecord,
    party: Party,
) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let samples = || record.samples.iter().filter_map(|sample| sample.party_use(party));
    let is_observed = samples().any(|used| !used.threads.is_empty() || used.cgroup.is_some());
    if !is_observed {
        caveats.push(info(
            Code::ServerNotObserved,
            "The server's CPU and memory are unknown for this step, because no sample of the \
             server was taken.",
        ));
        return caveats;
    }
    if samples().all(|used| used.cgroup.is_none()) {
        caveats.push(info(
            Code::NoCgroup,
            "No control group could be created for the server. CPU time is the sum over the \
             server's threads and processes. If some of them ended, it is known only in clock \
             ticks. Memory is the anonymous and shared memory of its processes. Peak memory and \
             throttled time are unknown. `dyno doctor` prints how to enable control groups.",
        ));
    }
    caveats.extend(unread_counters(server));
    match processes_outside_group(record, party) {
        Some(caveat) => caveats.push(caveat),
        None => caveats.extend(unmeasured_counters(server)),
    }
    caveats.extend(more_threads_than_cpus(server));
    caveats.extend(server_cpu_wait(server));
    caveats.extend(uncounted_calls(server, &record.probes));
    caveats.extend(missing_runtime_metrics(record, party));
    caveats.extend(refused_probes(&record.probes));
    let is_possible = party != Party::SUBJECT || may_have_found_queue_full(load);
    caveats.extend(full_accept_queue(server).filter(|_| is_possible));
    caveats.extend(retransmissions(server));
    if let Some(share) = server.steal_share.filter(|s| *s > STEAL) {
        let message = format!(
            "The hypervisor gave {} of this machine's CPU time to other virtual machines during \
             the step. All numbers include this effect. Repeat the step, or use a dedicated host.",
            percent(share)
        );
        caveats.push(Caveat::new(Code::Steal, Severity::Warning, message, json!({"share": share})));
    }
    caveats
}

/// System calls per response are unknown, or their counter stopped before the load ended.
fn uncounted_calls(server: &ServerUse, probes: &RequestedProbes) -> Option<Caveat> {
    let counts = |probe: Probe| matches!(probe, Probe::Syscalls | Probe::EverySyscall);
    let refused = probes.refused.iter().find(|refused| counts(refused.probe));
    let is_attached = probes.attached.iter().copied().any(counts);
    // A probe that has counts, but was refused and is not attached, stopped before the load ended.
    let message = match (refused, &server.calls) {
        (Some(refused), Some(calls)) if !is_attached => format!(
            "System calls were counted for {:.1} s only: {}. {}",
            calls.counted_s, refused.reason, refused.hint
        ),
        (_, Some(_)) => return None,
        (Some(refused), None) => {
            format!("System calls were not counted: {}. {}", refused.reason, refused.hint)
        }
        (None, None) if is_attached => {
            "System calls per response are unknown: no response arrived while they were counted, \
             or no call of the server was counted."
                .into()
        }
        (None, None) => {
            "System calls were not counted, because `--observe` did not include them. Use \
             `--observe default` to count them."
                .into()
        }
    };
    let evidence = json!({"refused": refused.map(|refused| &refused.reason)});
    Some(Caveat::new(Code::SyscallsNotMeasured, Severity::Info, message, evidence))
}

/// The server's runtime reports metrics, but they are unknown for this window.
fn missing_runtime_metrics(record: &LoadRecord, party: Party) -> Option<Caveat> {
    let missing = RuntimeMetrics::from_record(record).err().filter(|_| party == Party::SUBJECT)?;
    let message = format!(
        "The values that the server reports about itself are unknown here: {}.",
        missing.in_words()?
    );
    Some(info(Code::RuntimeNotMeasured, message))
}

/// Whether a connection of the load may have found a queue of the listener full. The kernel counts
/// full queues for all listeners of a network namespace, also for those of other programs. A full
/// queue delayed this load if one of these times is long:
///
/// - If the kernel dropped the SYN, connecting took a second or more (`TCP_TIMEOUT_INIT`).
/// - If it dropped the last segment of the handshake, the first request was sent again after 200 ms
///   or more (`TCP_RTO_MIN`, include/net/tcp.h).
pub(super) fn may_have_found_queue_full(load: &LoadResult) -> bool {
    const FIRST_SYN_TIMEOUT_US: f64 = 1e6;
    const MIN_RETRANSMISSION_US: f64 = 2e5;
    let is_below = |times: &Percentiles, us: f64| times.max.is_some_and(|max| max < us);
    let are_all_quick = is_below(&load.connect_us, FIRST_SYN_TIMEOUT_US)
        && is_below(&load.response_time_us, MIN_RETRANSMISSION_US);
    // Requests without a correct response are not in these times.
    let has_losses = load.exchanges.unanswered() > 0 || load.outcomes.not_ok().next().is_some();
    !are_all_quick || has_losses
}

/// The accept queue was full. The kernel then drops the handshake, and the client retries it a
/// second later.
fn full_accept_queue(server: &ServerUse) -> Option<Caveat> {
    let network = server.network?;
    let overflows = match network.listen_overflows.filter(|n| *n > 0) {
        Some(overflows) => overflows,
        None => return full_syn_queue(network.syn_queue_drops?),
    };
    let message = format!(
        "{} found the accept queue full in the server's network namespace, and {} retried a second \
         later. Connect times include that second. Let the server listen with a longer backlog.",
        plural(overflows, "connection"),
        was(overflows)
    );
    let evidence = json!({"listen_overflows": overflows});
    Some(Caveat::new(Code::AcceptQueueFull, Severity::Warning, message, evidence))
}

/// The queue of half-open connections was full. Without SYN cookies it is as long as the listener's
/// backlog.
fn full_syn_queue(drops: u64) -> Option<Caveat> {
    (drops > 0).then(|| {
        let message = format!(
            "{} found a full queue of half-open connections in the server's network namespace, \
             and {} dropped. Connect times include a second or more of waiting. Let the server \
             listen with a longer backlog, or set `net.ipv4.tcp_syncookies=1`.",
            plural(drops, "connection"),
            was(drops)
        );
        let evidence = json!({"syn_queue_drops": drops});
        Caveat::new(Code::AcceptQueueFull, Severity::Warning, message, evidence)
    })
}

/// Minimum share of retransmitted segments that is reported. Each may cost 200 ms.
const RETRANSMITTED: f64 = 0.001;

/// Many segments were retransmitted.
fn retransmissions(server: &ServerUse) -> Option<Caveat> {
    let network = server.network?;
    let (retransmitted, out) =
        (network.segments_retransmitted?, network.segments_out.filter(|n| *n > 0)?);
    let share = retransmitted as f64 / out as f64;
    (share >= RETRANSMITTED).then(|| {
        let timeouts = network
            .retransmit_timeouts
            .map_or(String::new(), |n| format!(", {n} of them after a time-out"));
        let verb = was(retransmitted);
        let message = format!(
            "In the server's network namespace, {retransmitted} of {out} TCP segments {verb} \
             retransmitted{timeouts}. Some segments may belong to other programs. If segments of \
             this load were lost, the highest response times include a wait of 200 ms or more per \
             time-out. Check whether this step also has the caveat `accept_queue_full` or \
             `dropped_packets`."
        );
        let evidence = json!({
            "retransmitted": retransmitted,
            "segments_out": out,
            "timeouts": network.retransmit_timeouts,
        });
        Caveat::new(Code::Retransmissions, Severity::Warning, message, evidence)
    })
}

/// Probes were refused, other than the probes that count system calls.
fn refused_probes(probes: &RequestedProbes) -> Option<Caveat> {
    let others: Vec<&RefusedProbe> = probes
        .refused
        .iter()
        .filter(|refused| !matches!(refused.probe, Probe::Syscalls | Probe::EverySyscall))
        .collect();
    let first = others.first()?;
    let names: Vec<&str> = others.iter().map(|refused| refused.probe.name()).collect();
    let message = format!(
        "dyno could not record {}, because {}. {}",
        names.join(", "),
        first.reason,
        first.hint
    );
    let evidence = json!({"probes": names, "why": first.reason});
    Some(Caveat::new(Code::ProbeRefused, Severity::Info, message, evidence))
}

/// More threads are busy than the server has CPUs. The highest response times are then as long as
/// the scheduler's time slices.
fn more_threads_than_cpus(server: &ServerUse) -> Option<Caveat> {
    let (busy, allowed_s, waited_s) =
        (server.busy_threads?, server.cpu_allowed_s?, server.run_delay_s?);
    let count = allowed_s / server.window_s;
    (busy as f64 > count.ceil() && waited_s > MAX_WAITING * allowed_s).then(|| {
        let message = format!(
            "{busy} busy threads of the server took turns on {}. In the window of {:.2} s, the \
             threads together waited for a CPU for {waited_s:.2} s. High percentiles therefore \
             include waits for a CPU. Start the server with at most one thread per CPU: in the \
             command in subject.toml, `{{cpus}}` is the number of CPUs.",
            cpus(count),
            server.window_s
        );
        let evidence = json!({"busy_threads": busy, "cpus": count, "run_delay_s": waited_s});
        Caveat::new(Code::MoreThreadsThanCpus, Severity::Warning, message, evidence)
    })
}

/// Returns the seconds for which the server's threads waited for CPUs that other programs used.
/// `None`: the wait is short or unknown, or other programs did not cause it. The server causes its
/// own waits if it fills its CPUs, if its quota throttles it, or if it is alone on its CPUs.
pub(super) fn starved_seconds(server: &ServerUse) -> Option<f64> {
    let (waited_s, allowed_s) = (server.run_delay_s?, server.cpu_allowed_s?);
    if delays_itself(server)? {
        return None;
    }
    let has_others =
        server.others_on_its_cpus_s.is_some_and(|used_s| used_s >= OTHERS_SHARE * allowed_s);
    (has_others && waited_s > MAX_WAITING * allowed_s).then_some(waited_s)
}

/// Whether the server fills its CPUs, or its quota throttles it. In both cases its threads wait for
/// CPUs even if no other program runs. `None`: its CPU time is unknown.
pub(super) fn delays_itself(server: &ServerUse) -> Option<bool> {
    let is_full = server.cpu_utilisation? >= SERVER_FULL;
    Some(is_full || server.throttling.is_some_and(|t| t.share() > THROTTLED))
}

/// The server waited for CPUs that other programs used. A server that waits looks idle.
fn server_cpu_wait(server: &ServerUse) -> Option<Caveat> {
    let waited_s = starved_seconds(server).filter(|_| !fills_its_cpus(server))?;
    let message = format!(
        "In the window of {:.2} s, the server's threads together waited for a CPU for \
         {waited_s:.2} s. Other programs used the server's CPUs for up to {:.2} s. Throughput may \
         be a lower bound, and response times include the wait. Give the server CPUs that no other \
         program uses, or use a quieter machine.",
        server.window_s,
        server.others_on_its_cpus_s.unwrap_or(0.0)
    );
    let evidence = json!({
        "run_delay_s": waited_s, "others_cpu_s": server.others_cpu_s,
        "others_on_its_cpus_s": server.others_on_its_cpus_s,
    });
    Some(Caveat::new(Code::ServerStarved, Severity::Warning, message, evidence))
}

/// Whether the server has more busy threads than CPUs and fills most of its CPUs. Its threads wait
/// for each other, so the part of the wait that other programs caused is unknown.
fn fills_its_cpus(server: &ServerUse) -> bool {
    let is_busy = server.cpu_utilisation.is_some_and(|used| used >= SERVER_IDLE);
    is_busy && more_threads_than_cpus(server).is_some()
}

/// Threads or processes ended before their counters were read. These counters are unknown only for
/// this reason. The counters of [`unmeasured_counters`] are unknown because the kernel hides them.
fn unread_counters(server: &ServerUse) -> Option<Caveat> {
    let unread = server.unread_counters.as_ref()?;
    let used = unread.cpu_s.map_or_else(
        || "an unknown CPU time".into(),
        |seconds| format!("{seconds:.2} s of CPU time"),
    );
    let message = format!(
        "Threads or processes of the server ended before their counters were read. These threads \
         and processes used {used}. dyno sampled {} threads and {} processes that had ended by the \
         last sample. Unknown counters of the server: {}. Use keep-alive connections or a server \
         that keeps its threads.",
        unread.threads,
        unread.processes,
        unread.unknown.join(", ")
    );
    let evidence = json!({
        "threads": unread.threads, "processes": unread.processes, "cpu_s": unread.cpu_s,
        "unknown": unread.unknown,
    });
    Some(Caveat::new(Code::CountersUnread, Severity::Warning, message, evidence))
}

/// Processes of the server left the control group in which it was started.
fn processes_outside_group(record: &LoadRecord, party: Party) -> Option<Caveat> {
    let strays = strays::stray_processes(record, party);
    (strays > 0).then(|| {
        let message = format!(
            "Processes of the server ({strays}) left the control group in which it was started. \
             The group's counters do not include these processes, and the group's limits do not \
             apply to them. CPU time, memory and threads of this step are unknown. Start the \
             server directly and not through a service manager or container engine. Do not let it \
             write to `cgroup.procs`."
        );
        Caveat::new(Code::LeftGroup, Severity::Warning, message, json!({"processes": strays}))
    })
}

/// Counters that the kernel does not show, although the server was observed.
fn unmeasured_counters(server: &ServerUse) -> Option<Caveat> {
    // The caveat `counters_unread` reports these counters.
    let unread = |name: &str| {
        server.unread_counters.as_ref().is_some_and(|unread| unread.unknown.contains(&name))
    };
    let missing: Vec<&str> = [
        (
            "cpu_user_s and cpu_sys_s",
            server.cpu_user_s.is_none() && !unread("CPU time") && !unread("user and system time"),
        ),
        ("throttled_s", server.throttled_s.is_none()),
        ("memory_peak_bytes", server.memory_peak_bytes.is_none()),
        ("memory_anon_bytes", server.memory_anon_bytes.is_none()),
        ("memory_file_bytes", server.memory_file_bytes.is_none()),
        ("rss_bytes", server.rss_bytes.is_none()),
        ("run_delay_s", server.run_delay_s.is_none() && !unread("run delay")),
        (
            "context switches",
            server.context_switches_voluntary.is_none() && !unread("context switches"),
        ),
        ("steal_share", server.steal_share.is_none()),
    ]
    .into_iter()
    .filter_map(|(name, is_missing)| is_missing.then_some(name))
    .collect();
    (!missing.is_empty()).then(|| {
        let message = format!(
            "The kernel does not show these counters to this user, so they are unknown: {}. `dyno \
             doctor` prints how to enable them.",
            missing.join(", ")
        );
        Caveat::new(Code::NotMeasured, Severity::Info, message, json!({"missing": missing}))
    })
}
