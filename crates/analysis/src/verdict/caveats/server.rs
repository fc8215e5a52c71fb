//! Caveats about the server's observed numbers: missing values, and effects that the server did not
//! cause.

#[cfg(test)]
mod cases;

use std::collections::BTreeMap;

use dyno_model::probe::{RefusedProbe, RequestedProbes};
use dyno_model::run::Run;
use dyno_model::start::LimitKind;
use dyno_model::{Facts, LoadRecord, Party};
use serde_json::json;

use super::{ServerInputs, TrialInputs};
use crate::caveat::{Caveat, Code, Severity, info};
use crate::number_format::cpus;
use crate::server::group_memory::MemorySource;
use crate::server::{RuntimeMetrics, ServerUse, SplitBy, strays};
use crate::verdict::Context;
use crate::verdict::conditions::{MAX_WAITING, starved_seconds};
use crate::verdict::thresholds::SERVER_IDLE;

caveats! {
    /// The server's use of CPU and memory could not be measured here.
    SERVER_NOT_OBSERVED = "server_not_observed" in Server {
        rules: [
            Load(|l| unmonitored_server(l.context)),
            Trial(unsampled_server),
            Run(|r| external_server(r.run)),
        ],
    }

    /// Without a control group the server's CPU time is summed over its threads and processes, and
    /// memory is their anonymous and shared memory.
    NO_CGROUP = "no_cgroup" in Server { rules: [Server(missing_group)] }

    /// Threads or processes of the server ended before their counters were read, so the server's
    /// totals of these counters are unknown.
    COUNTERS_UNREAD = "counters_unread" in Server { rules: [Server(|s| unread_counters(s.server))] }

    /// Processes of the server left its control group or joined it late, so the group's counters
    /// and limits do not cover all of their use.
    LEFT_GROUP = "left_group" in Server {
        rules: [Server(processes_outside_group), Server(memory_outside_group)],
    }

    /// A limit that the suite asks for could not be set here.
    LIMITS_NOT_SET = "limits_not_set" in Server { rules: [Run(|r| unset_limits(r.run))] }

    /// The kernel estimates the split of CPU time into user and system time from samples at its
    /// timer ticks. The sum is exact.
    TICK_ACCOUNTING = "tick_accounting" in Server {
        rules: [Trial(|t| tick_accounting(t.server?, t.context.facts))],
    }

    /// More threads of the server were busy than it has CPUs, so they waited for each other's time
    /// slices.
    MORE_THREADS_THAN_CPUS = "more_threads_than_cpus" in Server {
        more: "validity.md#waits-of-the-server-for-cpus",
        properties: [AboutWaiting],
        rules: [Server(|s| more_threads_than_cpus(s.server))],
    }

    /// The server's threads had to wait for CPUs while other programs used them.
    SERVER_STARVED = "server_starved" in Server {
        more: "validity.md#waits-of-the-server-for-cpus",
        properties: [CausesRerun, LowersThroughput, AboutWaiting],
        rules: [Server(|s| server_cpu_wait(s.server))],
    }

    /// Servers were started with options that let profiles name their functions. These options may
    /// cost CPU time.
    STARTED_FOR_PROFILES = "started_for_profiles" in Server {
        rules: [Run(|r| profile_options(r.run))],
    }

    /// Some counters of the server could not be read here; they are empty.
    NOT_MEASURED = "not_measured" in Server { rules: [Server(unmeasured_counters)] }

    /// System calls per request were not counted; the message gives the reason.
    SYSCALLS_NOT_MEASURED = "syscalls_not_measured" in Server {
        rules: [Server(|s| uncounted_calls(s.server, &s.record.probes))],
    }

    /// The metrics of the server's runtime are not known; the message gives the reason.
    RUNTIME_NOT_MEASURED = "runtime_not_measured" in Server {
        rules: [
            Server(|s| missing_runtime_metrics(s.record, s.party)),
            Server(|s| unknown_growth_in_turns(s.server)),
        ],
    }

    /// A requested probe could not run here; its values are empty.
    PROBE_REFUSED = "probe_refused" in Server {
        rules: [Server(|s| refused_probes(&s.record.probes))],
    }
}

/// The server was not monitored, so its CPU use is unknown.
fn unmonitored_server(context: &Context<'_>) -> Option<Caveat> {
    let message = "The server's CPU use is unknown. Let dyno start the server (`dyno run`) to see \
                   what limited it.";
    context.server.is_none().then(|| info(Code::SERVER_NOT_OBSERVED, message))
}

/// No sample of the server was taken.
fn unsampled_server(trial: &TrialInputs<'_>) -> Option<Caveat> {
    let message = "The server's CPU and memory are unknown for this step, because no sample of the \
                   server was taken.";
    (trial.server.is_some() && !trial.is_sampled())
        .then(|| info(Code::SERVER_NOT_OBSERVED, message))
}

/// The server has no control group.
fn missing_group(inputs: &ServerInputs<'_>) -> Option<Caveat> {
    let samples = &inputs.record.samples;
    let mut used = samples.iter().filter_map(|sample| sample.party_use(inputs.party));
    used.all(|used| used.cgroup.is_none()).then(|| {
        info(
            Code::NO_CGROUP,
            "No control group could be created for the server. CPU time is the sum over the \
             server's threads and processes. If some of them ended, it is known only in clock \
             ticks. Memory is the anonymous and shared memory of its processes. Peak memory and \
             throttled time are unknown. `dyno doctor` prints how to enable control groups.",
        )
    })
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
    Some(Caveat::new(Code::COUNTERS_UNREAD, Severity::Warning, message, evidence))
}

/// Processes of the server left the control group in which it was started.
fn processes_outside_group(inputs: &ServerInputs<'_>) -> Option<Caveat> {
    let strays = strays::stray_processes(inputs.record, inputs.party);
    (strays > 0).then(|| {
        let message = format!(
            "Processes of the server (at least {strays}) left the control group in which it was \
             started. The group's counters do not include these processes, and the group's limits \
             do not apply to them. CPU time, memory and threads of this step are unknown. Start \
             the server directly and not through a service manager or container engine. Do not \
             let it write to `cgroup.procs`."
        );
        Caveat::new(Code::LEFT_GROUP, Severity::Warning, message, json!({"processes": strays}))
    })
}

/// Processes of the server allocated memory in another control group. The kernel charges this
/// memory to the other group, also after the processes are back.
fn memory_outside_group(inputs: &ServerInputs<'_>) -> Option<Caveat> {
    if strays::stray_processes(inputs.record, inputs.party) > 0 {
        return None;
    }
    let (cause, evidence) = match inputs.memory {
        MemorySource::Usual => return None,
        MemorySource::Strays(strays) => (
            format!(
                "Processes of the server (at least {strays}) left the control group in which it \
                 was started before it was ready. dyno moved them back. The group counted neither \
                 their CPU time nor their memory before that, so the CPU time of the start-up is \
                 unknown."
            ),
            json!({"processes_before_ready": strays}),
        ),
        MemorySource::Uncounted(memory) => (
            format!(
                "The server's processes held {:.1} MB of anonymous memory, but its control group \
                 counted {:.1} MB. Processes of the server allocated memory in another group.",
                memory.processes as f64 / 1e6,
                memory.group as f64 / 1e6
            ),
            json!({"memory_processes_bytes": memory.processes,
                "memory_group_bytes": memory.group}),
        ),
    };
    let source = match inputs.server.memory_held_bytes {
        Some(_) => "Memory of this step is the anonymous and shared memory of the processes.",
        None => "Memory of this step is unknown.",
    };
    let message = format!(
        "{cause} {source} The peak of memory, page cache and kernel memory are unknown. Start the \
         server directly and not through a service manager or container engine. Do not let it \
         write to `cgroup.procs`."
    );
    Some(Caveat::new(Code::LEFT_GROUP, Severity::Warning, message, evidence))
}

/// Limits of the suite could not be set, or read back.
fn unset_limits(run: &Run) -> Option<Caveat> {
    let parts = run.starts.iter().flat_map(|start| &start.parts);
    let unset = parts.flat_map(|part| &part.limits).filter(|limit| limit.read_back.is_none());
    let mut by_name: BTreeMap<&str, (LimitKind, String)> = BTreeMap::new();
    for limit in unset {
        let reason = limit.reason.as_deref().unwrap_or("for an unknown reason");
        let description = format!("{} ({}): {reason}", limit.kind.name(), limit.asked);
        by_name.entry(limit.kind.name()).or_insert((limit.kind, description));
    }
    let kinds: Vec<LimitKind> = by_name.values().map(|(kind, _)| *kind).collect();
    let descriptions: Vec<&str> = by_name.values().map(|(_, description)| &**description).collect();
    (!kinds.is_empty()).then(|| {
        let message = format!(
            "Limits could not be set: {}. `dyno doctor` prints how to enable them.",
            descriptions.join("; ")
        );
        Caveat::new(Code::LIMITS_NOT_SET, Severity::Warning, message, json!({"limits": kinds}))
    })
}

/// The kernel samples user and system time once per tick of some milliseconds, so the split is
/// coarse over short windows. A split by entries into the kernel is exact.
fn tick_accounting(server: &ServerUse, facts: &Facts) -> Option<Caveat> {
    let is_split = server.cpu_user_s.is_some() && server.cpu_split_by != Some(SplitBy::Entries);
    let message = "The split of CPU time into user and system time is an estimate from samples at \
                   each timer tick of the kernel. The sum of both is exact.";
    (facts.tick_accounting == Some(true) && is_split).then(|| info(Code::TICK_ACCOUNTING, message))
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
        Caveat::new(Code::MORE_THREADS_THAN_CPUS, Severity::Warning, message, evidence)
    })
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
    Some(Caveat::new(Code::SERVER_STARVED, Severity::Warning, message, evidence))
}

/// Whether the server has more busy threads than CPUs and fills most of its CPUs. Its threads wait
/// for each other, so the part of the wait that other programs caused is unknown.
fn fills_its_cpus(server: &ServerUse) -> bool {
    let is_busy = server.cpu_utilisation.is_some_and(|used| used >= SERVER_IDLE);
    is_busy && more_threads_than_cpus(server).is_some()
}

/// Profiles were taken, so servers may have run with options that slow them.
fn profile_options(run: &Run) -> Option<Caveat> {
    let has_profiles = run.profiles.iter().any(|profile| profile.failure.is_none());
    has_profiles.then(|| {
        info(
            Code::STARTED_FOR_PROFILES,
            "Profiles were taken. Servers with a JIT compiler were started with options that show \
             the names of their functions in profiles (`[profile]` of their subject.toml). These \
             options may lower throughput in this run. To compare servers, use a run without \
             profiles.",
        )
    })
}

/// dyno loaded a server that it did not start.
fn external_server(run: &Run) -> Option<Caveat> {
    let has_trials = |start: usize| run.trials.iter().any(|trial| trial.start == start);
    let is_external =
        run.starts.iter().any(|start| !start.has_subject() && has_trials(start.start));
    let message = "dyno did not start this server, so its start-up, CPU time, memory and checks \
                   are unknown. Let dyno start the server (`dyno run`) to see them.";
    is_external.then(|| info(Code::SERVER_NOT_OBSERVED, message))
}

/// Counters that the kernel does not show, although the server was observed. If processes of the
/// server left its control group, other counters are unknown for that reason.
fn unmeasured_counters(inputs: &ServerInputs<'_>) -> Option<Caveat> {
    let ServerInputs { server, record, party, .. } = *inputs;
    if strays::stray_processes(record, party) > 0 {
        return None;
    }
    // The caveat `counters_unread` reports these counters.
    let unread = |name: &str| {
        server.unread_counters.as_ref().is_some_and(|unread| unread.unknown.contains(&name))
    };
    // The caveat `left_group` reports the others.
    let is_usual = inputs.memory == MemorySource::Usual;
    let missing: Vec<&str> = [
        (
            "cpu_user_s and cpu_sys_s",
            server.cpu_user_s.is_none() && !unread("CPU time") && !unread("user and system time"),
        ),
        ("throttled_s", server.throttled_s.is_none()),
        ("memory_peak_bytes", server.memory_peak_bytes.is_none() && is_usual),
        ("memory_anon_bytes", server.memory_anon_bytes.is_none() && is_usual),
        ("memory_file_bytes", server.memory_file_bytes.is_none() && is_usual),
        ("rss_bytes", server.rss_bytes.is_none()),
        (
            "memory_held_bytes",
            server.memory_held_bytes.is_none() && server.rss_bytes.is_some() && is_usual,
        ),
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
        Caveat::new(Code::NOT_MEASURED, Severity::Info, message, json!({"missing": missing}))
    })
}

/// System calls per response are unknown, or their counter stopped before the load ended.
fn uncounted_calls(server: &ServerUse, probes: &RequestedProbes) -> Option<Caveat> {
    let refused = probes.refused.iter().find(|refused| refused.probe.counts_calls());
    let is_attached = probes.attached.iter().any(|probe| probe.counts_calls());
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
    Some(Caveat::new(Code::SYSCALLS_NOT_MEASURED, Severity::Info, message, evidence))
}

/// The server's runtime reports metrics, but they are unknown for this window.
fn missing_runtime_metrics(record: &LoadRecord, party: Party) -> Option<Caveat> {
    let missing = RuntimeMetrics::from_record(record).err().filter(|_| party == Party::SUBJECT)?;
    let message = format!(
        "The values that the server reports about itself are unknown here: {}.",
        missing.in_words()?
    );
    Some(info(Code::RUNTIME_NOT_MEASURED, message))
}

/// The server takes turns, and too few readings of its runtime show the growth in its own turns.
fn unknown_growth_in_turns(server: &ServerUse) -> Option<Caveat> {
    server.runtime.as_ref()?.lacks_own_growth.then(|| {
        let message = "The rates that the server reports about itself, such as the time of \
                       garbage collections, are unknown: too few successive readings were in the \
                       same turn of this server. Use longer turns, such as `slice = \"1s\"`.";
        info(Code::RUNTIME_NOT_MEASURED, message)
    })
}

/// Probes were refused, other than the probes that count system calls.
fn refused_probes(probes: &RequestedProbes) -> Option<Caveat> {
    let others: Vec<&RefusedProbe> =
        probes.refused.iter().filter(|refused| !refused.probe.counts_calls()).collect();
    let first = others.first()?;
    let names: Vec<&str> = others.iter().map(|refused| refused.probe.name()).collect();
    let message = format!(
        "dyno could not record {}, because {}. {}",
        names.join(", "),
        first.reason,
        first.hint
    );
    let evidence = json!({"probes": names, "why": first.reason});
    Some(Caveat::new(Code::PROBE_REFUSED, Severity::Info, message, evidence))
}
