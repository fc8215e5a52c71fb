//! Reasons to distrust the numbers about a server's CPU and memory.

use dyno_archive::probe::Probe;
use dyno_archive::probe::{ProbesUse, RefusedProbe};
use dyno_archive::{LoadRecord, Party};
use serde_json::json;

use super::thresholds::{SERVER_FULL, SERVER_IDLE, STEAL, THROTTLED};
use crate::caveat::{Caveat, Code, Severity, info};
use crate::number_format::{cpus, percent};
use crate::server::{RuntimeMetrics, ServerUse, strays};

/// Longest time that all threads together may wait for a CPU, as a share of the allowed CPU time.
pub(super) const MAX_WAITING: f64 = 0.1;

/// Least CPU time of others on the machine for the server to have waited for them, as a share of
/// its allowed CPU time.
pub(super) const OTHERS: f64 = 0.1;

/// Reasons to distrust the server's numbers.
pub(super) fn caveats(server: &ServerUse, record: &LoadRecord, party: Party) -> Vec<Caveat> {
    let mut all = Vec::new();
    let seen = || record.samples.iter().filter_map(|s| s.party_use(party));
    let observed = seen().any(|s| !s.threads.is_empty() || s.cgroup.is_some());
    if !observed {
        all.push(info(
            Code::ServerNotObserved,
            "The server's CPU and memory are unknown for this step, because no sample of it was \
             taken.",
        ));
        return all;
    }
    if seen().all(|s| s.cgroup.is_none()) {
        all.push(info(
            Code::NoCgroup,
            "No control group could be made for the server. CPU time is the sum over its threads \
             and processes, in clock ticks where some of them ended. Memory is their anonymous and \
             shared memory. Peak memory and throttled time are unknown. `dyno doctor` prints how \
             to enable control groups.",
        ));
    }
    all.extend(counters_unread(server));
    match left_group(record, party) {
        Some(left) => all.push(left),
        None => all.extend(not_measured(server)),
    }
    all.extend(more_threads_than_cpus(server));
    all.extend(server_starved(server));
    all.extend(calls_not_counted(server, &record.probes));
    all.extend(runtime_not_measured(record, party));
    all.extend(probes_refused(&record.probes));
    all.extend(accept_queue_full(server));
    all.extend(retransmissions(server));
    if let Some(share) = server.steal_share.filter(|s| *s > STEAL) {
        let message = format!(
            "The hypervisor gave {} of this machine's CPU time to other virtual machines during \
             the step. All numbers include that. Repeat the step, or use a dedicated host.",
            percent(share)
        );
        all.push(Caveat::new(Code::Steal, Severity::Warning, message, json!({"share": share})));
    }
    all
}

/// Why there are no system calls per response; `None`: there are.
fn calls_not_counted(server: &ServerUse, probes: &ProbesUse) -> Option<Caveat> {
    let counts = |probe: Probe| matches!(probe, Probe::Syscalls | Probe::EverySyscall);
    let refused = probes.refused.iter().find(|refused| counts(refused.probe));
    let message = match refused {
        _ if server.calls.is_some() => return None,
        Some(refused) => {
            format!("System calls were not counted: {}. {}", refused.why, refused.hint)
        }
        None if probes.attached.iter().copied().any(counts) => {
            "System calls per response are unknown: no response arrived while they were counted, \
             or no call of the server was seen."
                .into()
        }
        None => "System calls were not counted, because `--observe` did not include them. Use \
                 `--observe default` to count them."
            .into(),
    };
    let evidence = json!({"refused": refused.map(|refused| &refused.why)});
    Some(Caveat::new(Code::SyscallsNotMeasured, Severity::Info, message, evidence))
}

/// Why there is nothing of what the server's runtime said; `None`: there is, or it says nothing.
fn runtime_not_measured(record: &LoadRecord, party: Party) -> Option<Caveat> {
    let lack = RuntimeMetrics::from_record(record).err().filter(|_| party == Party::SUBJECT)?;
    let message = format!(
        "The values that the server reports about itself are unknown here: {}.",
        lack.in_words()?
    );
    Some(info(Code::RuntimeNotMeasured, message))
}

/// A connection that finds the queue full gets no response, and tries again a second later.
fn accept_queue_full(server: &ServerUse) -> Option<Caveat> {
    let network = server.network?;
    let overflows = match network.listen_overflows.filter(|n| *n > 0) {
        Some(overflows) => overflows,
        None => return syn_queue_full(network.syn_queue_drops?),
    };
    let message = format!(
        "{overflows} connections found a full accept queue in the server's network namespace, and \
         were retried a second later. Connect times include that second. Let the server listen \
         with a longer backlog."
    );
    Some(Caveat::new(
        Code::AcceptQueueFull,
        Severity::Warning,
        message,
        json!({"listen_overflows": overflows}),
    ))
}

/// The queue of half-open connections is as long as the listener's backlog, unless cookies are on.
fn syn_queue_full(drops: u64) -> Option<Caveat> {
    (drops > 0).then(|| {
        let message = format!(
            "{drops} connections found a full queue of half-open connections in the server's \
             network namespace, and were dropped. Connect times include a second or more of \
             waiting. Let the server listen with a longer backlog, or set \
             `net.ipv4.tcp_syncookies=1`."
        );
        let evidence = json!({"syn_queue_drops": drops});
        Caveat::new(Code::AcceptQueueFull, Severity::Warning, message, evidence)
    })
}

/// Least share of segments that are sent again which is worth a word: each may cost 200 ms.
const RETRANSMITTED: f64 = 0.001;

fn retransmissions(server: &ServerUse) -> Option<Caveat> {
    let network = server.network?;
    let (again, out) = (network.segments_retransmitted?, network.segments_out.filter(|n| *n > 0)?);
    let share = again as f64 / out as f64;
    (share >= RETRANSMITTED).then(|| {
        let timeouts = network
            .retransmit_timeouts
            .map_or(String::new(), |n| format!(", {n} of them after a time-out"));
        let message = format!(
            "{again} of {out} segments were retransmitted{timeouts} in the server's network \
             namespace. The highest response times include the wait for them."
        );
        let evidence = json!({
            "retransmitted": again, "segments_out": out, "timeouts": network.retransmit_timeouts,
        });
        Caveat::new(Code::Retransmissions, Severity::Warning, message, evidence)
    })
}

/// The other probes that were refused.
fn probes_refused(probes: &ProbesUse) -> Option<Caveat> {
    let others: Vec<&RefusedProbe> = probes
        .refused
        .iter()
        .filter(|refused| !matches!(refused.probe, Probe::Syscalls | Probe::EverySyscall))
        .collect();
    let first = others.first()?;
    let names: Vec<&str> = others.iter().map(|refused| refused.probe.name()).collect();
    let message =
        format!("Not observed here: {}, because {}. {}", names.join(", "), first.why, first.hint);
    Some(Caveat::new(
        Code::ProbeRefused,
        Severity::Info,
        message,
        json!({"probes": names, "why": first.why}),
    ))
}

/// Busy threads that take turns on too few CPUs: the tail of the response times is that of the
/// scheduler's time slices.
fn more_threads_than_cpus(server: &ServerUse) -> Option<Caveat> {
    let (busy, allowed_s, waited_s) =
        (server.busy_threads?, server.cpu_allowed_s?, server.run_delay_s?);
    let count = allowed_s / server.window_s;
    (busy as f64 > count.ceil() && waited_s > MAX_WAITING * allowed_s).then(|| {
        let message = format!(
            "{busy} busy threads of the server took turns on {}. They waited {waited_s:.2} s for a \
             CPU in {:.2} s. High percentiles show the scheduler's time slices. Start the server \
             with no more threads than CPUs: a subject's command may use {{cpus}}.",
            cpus(count),
            server.window_s
        );
        let evidence = json!({"busy_threads": busy, "cpus": count, "run_delay_s": waited_s});
        Caveat::new(Code::MoreThreadsThanCpus, Severity::Warning, message, evidence)
    })
}

/// Seconds that a server's threads waited for CPUs while others used some of the machine. `None`:
/// not known, too few, or the server waits for itself, because it fills its CPUs, is held back by
/// its quota, or is alone on the machine.
pub(super) fn starved_seconds(server: &ServerUse) -> Option<f64> {
    let (waited_s, allowed_s) = (server.run_delay_s?, server.cpu_allowed_s?);
    let waits_for_itself = server.cpu_utilisation? >= SERVER_FULL
        || server.throttling.is_some_and(|t| t.share() > THROTTLED)
        || server.others_cpu_s.is_none_or(|s| s < OTHERS * allowed_s);
    (waited_s > MAX_WAITING * allowed_s && !waits_for_itself).then_some(waited_s)
}

/// A server that waits for CPUs that others use looks idle.
fn server_starved(server: &ServerUse) -> Option<Caveat> {
    let waited_s = starved_seconds(server).filter(|_| !fills_its_cpus(server))?;
    let message = format!(
        "The server's threads waited {waited_s:.2} s for a CPU in {:.2} s. Other programs used \
         {:.2} s of this machine's CPU time meanwhile. Throughput may be a lower bound, and \
         response times include the wait. Give the server CPUs that no other program uses, or use \
         a quieter machine.",
        server.window_s,
        server.others_cpu_s.unwrap_or(0.0)
    );
    let evidence = json!({"run_delay_s": waited_s, "others_cpu_s": server.others_cpu_s});
    Some(Caveat::new(Code::ServerStarved, Severity::Warning, message, evidence))
}

/// Whether a server has more busy threads than CPUs and fills most of them. Such threads wait for
/// each other, and nothing shows how much of the wait other programs caused.
fn fills_its_cpus(server: &ServerUse) -> bool {
    let is_busy = server.cpu_utilisation.is_some_and(|used| used >= SERVER_IDLE);
    is_busy && more_threads_than_cpus(server).is_some()
}

/// A counter that ended with its thread or process is unknown. It is distinguished from one that
/// the kernel does not show.
fn counters_unread(server: &ServerUse) -> Option<Caveat> {
    let unread = server.unread_counters.as_ref()?;
    let used = unread.cpu_s.map_or_else(
        || "an unknown CPU time".into(),
        |seconds| format!("{seconds:.2} s of CPU time"),
    );
    let message = format!(
        "Threads or processes of the server ended before their counters were read. They used \
         {used}. Seen in a sample and gone by the last one: {} threads and {} processes. Unknown \
         counters: {}. Use keep-alive connections or a server that keeps its threads.",
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

/// Processes outside of the group in which their server was started.
fn left_group(record: &LoadRecord, party: Party) -> Option<Caveat> {
    let strays = strays::stray_processes(record, party);
    (strays > 0).then(|| {
        let message = format!(
            "Processes of the server ({strays}) left the control group in which it was started. \
             The group's counters do not include them, and its limits do not apply to them. CPU \
             time, memory and threads of this step are unknown. Start the server directly and not \
             by a service manager or container engine. Do not let it write to `cgroup.procs`."
        );
        Caveat::new(Code::LeftGroup, Severity::Warning, message, json!({"processes": strays}))
    })
}

/// Names the counters that are empty although the server was observed.
fn not_measured(server: &ServerUse) -> Option<Caveat> {
    let unread = |name: &str| {
        server.unread_counters.as_ref().is_some_and(|unread| unread.unknown.contains(&name))
    };
    let missing: Vec<&str> = [
        ("cpu_user_s and cpu_sys_s", server.cpu_user_s.is_none() && !unread("CPU time")),
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
    .filter_map(|(name, missing)| missing.then_some(name))
    .collect();
    (!missing.is_empty()).then(|| {
        let message = format!(
            "Not measured here, because the kernel does not show it to this user: {}. `dyno \
             doctor` prints how to enable it.",
            missing.join(", ")
        );
        Caveat::new(Code::NotMeasured, Severity::Info, message, json!({"missing": missing}))
    })
}
