//! Checks that kernel counters never fall from sample to sample. A counter that falls was edited,
//! or belongs to another thread, control group, network or machine than before.

use std::collections::{BTreeMap, HashMap};

use dyno_model::host::{HostUse, PressureUse};
use dyno_model::sample::{
    CallUse, CallsUse, CgroupUse, EndedThreads, NetworkUse, ProcessUse, SchedulerRecord, ThreadUse,
};
use dyno_model::{Party, Sample};

use super::FileCheck;

/// Counters by their names in the archive. `None`: not read.
type Counters<'a> = Vec<(&'a str, Option<u64>)>;

/// Tolerance for the machine's CPU times, nanoseconds. The kernel sums iowait and steal over values
/// that it reads one after the other, so that they may fall by a tick or two (proc_stat(5)). A
/// virtual machine that moves to another host may lose more.
const CPU_TIME_TOLERANCE_NS: u64 = 1_000_000_000;

/// Checks samples that are in order of time.
pub(super) fn check_growth(samples: &[Sample]) -> FileCheck {
    let mut latest: HashMap<Party, LatestCounters<'_>> = HashMap::new();
    let mut host: Option<&HostUse> = None;
    for sample in samples {
        let in_sample = |problem: String| format!("{problem} in the sample at {} ns", sample.at_ns);
        if let Some(now) = &sample.host {
            let before = host.replace(now);
            before.map_or(Ok(()), |before| check_machine(before, now)).map_err(in_sample)?;
        }
        for used in &sample.parties {
            let counters = latest.entry(used.party).or_default();
            counters
                .check_party(sample.at_ns + sample.took_ns, used)
                .map_err(|problem| in_sample(format!("{problem} of {}", used.party)))?;
        }
    }
    Ok(())
}

/// Checks that no counter has fallen by more than a tolerance.
fn check_counters(
    owner: &str,
    before: &Counters<'_>,
    now: &Counters<'_>,
    tolerance: u64,
) -> FileCheck {
    for ((name, before), (_, now)) in before.iter().zip(now) {
        if let (Some(before), Some(now)) = (before, now)
            && now.saturating_add(tolerance) < *before
        {
            return Err(format!(
                "`{name}` of {owner} falls from {before} to {now}, but a counter must not fall"
            ));
        }
    }
    Ok(())
}

fn check_machine(before: &HostUse, now: &HostUse) -> FileCheck {
    let time = |host: &HostUse| {
        vec![
            ("busy_ns", Some(host.busy_ns)),
            ("idle_ns", Some(host.idle_ns)),
            ("steal_ns", Some(host.steal_ns)),
        ]
    };
    check_counters("the machine", &time(before), &time(now), CPU_TIME_TOLERANCE_NS)?;
    let counts = |host: &HostUse| {
        let pressure =
            host.pressure.unwrap_or(PressureUse { cpu_ns: None, memory_ns: None, io_ns: None });
        vec![
            ("context_switches", Some(host.context_switches)),
            ("interrupts", host.interrupts),
            ("births", host.births),
            ("neighbour_overflows", host.neighbour_overflows),
            ("cpu_ns", pressure.cpu_ns),
            ("memory_ns", pressure.memory_ns),
            ("io_ns", pressure.io_ns),
        ]
    };
    check_counters("the machine", &counts(before), &counts(now), 0)?;
    check_devices(before, now)
}

/// Checks the counters of disks and links. A device that was removed and added again restarts all
/// its counters.
fn check_devices(before: &HostUse, now: &HostUse) -> FileCheck {
    let mut devices: BTreeMap<&str, [Counters<'_>; 2]> = BTreeMap::new();
    for (reading, host) in [before, now].into_iter().enumerate() {
        for disk in host.disks.iter().flatten() {
            let counters = vec![
                ("bytes_read", Some(disk.bytes_read)),
                ("bytes_written", Some(disk.bytes_written)),
            ];
            devices.entry(&disk.name).or_default()[reading] = counters;
        }
        for link in host.links.iter().flatten() {
            let counters =
                vec![("bytes_in", Some(link.bytes_in)), ("bytes_out", Some(link.bytes_out))];
            devices.entry(&link.name).or_default()[reading] = counters;
        }
    }
    devices
        .iter()
        .filter(|(_, [before, now])| !has_restarted(before, now))
        .try_for_each(|(name, [before, now])| check_counters(name, before, now, 0))
}

/// Returns whether every counter has fallen or is zero, because counting began again.
fn has_restarted(before: &Counters<'_>, now: &Counters<'_>) -> bool {
    let mut pairs = before.iter().zip(now);
    !before.is_empty() && pairs.all(|((_, before), (_, now))| now < before || *now == Some(0))
}

/// Latest counters of a party.
#[derive(Debug, Default)]
struct LatestCounters<'a> {
    group: Option<&'a CgroupUse>,
    network: Option<&'a NetworkUse>,
    calls: Option<&'a CallsUse>,
    ended: HashMap<&'a str, &'a EndedThreads>,
    /// By PID and start time.
    processes: HashMap<(u32, u64), &'a ProcessUse>,
    /// By PID, TID and start time; with the end of their sample, nanoseconds.
    threads: HashMap<(u32, u32, Option<u64>), (u64, &'a ThreadUse)>,
}

impl<'a> LatestCounters<'a> {
    fn check_party(
        &mut self,
        sample_end_ns: u64,
        used: &'a dyno_model::sample::PartyUse,
    ) -> FileCheck {
        if let Some(now) = &used.cgroup
            && let Some(before) = self.group.replace(now)
        {
            check_counters("the control group", &group_counters(before), &group_counters(now), 0)?;
        }
        if let Some(now) = &used.network
            && let Some(before) = self.network.replace(now)
        {
            check_counters("the network", &network_counters(before), &network_counters(now), 0)?;
        }
        if let Some(now) = &used.calls
            && let Some(before) = self.calls.replace(now)
        {
            check_calls(before, now)?;
        }
        for now in used.ended.iter().flatten() {
            if let Some(before) = self.ended.insert(&now.name, now) {
                check_counters("ended threads", &ended_counters(before), &ended_counters(now), 0)?;
            }
        }
        used.each.iter().try_for_each(|process| self.check_process(process))?;
        used.threads.iter().try_for_each(|thread| self.check_thread(sample_end_ns, thread))
    }

    /// Checks a process. If the process ends during the read, all its counters are zero
    /// (`do_task_stat` in the kernel's fs/proc/array.c).
    fn check_process(&mut self, now: &'a ProcessUse) -> FileCheck {
        let Some(before) = self.processes.insert((now.pid, now.began_ticks), now) else {
            return Ok(());
        };
        let (before, counters) = (process_counters(before), process_counters(now));
        if has_restarted(&before, &counters) {
            return Ok(());
        }
        check_counters(&format!("process {}", now.pid), &before, &counters, 0)
    }

    fn check_thread(&mut self, sample_end_ns: u64, now: &'a ThreadUse) -> FileCheck {
        let key = (now.pid, now.tid, now.began_ticks);
        let Some((before_ns, before)) = self.threads.insert(key, (sample_end_ns, now)) else {
            return Ok(());
        };
        let name = format!("thread {}", now.tid);
        let result = check_counters(&name, &thread_counters(before), &thread_counters(now), 0);
        // Without a start time, a reused TID cannot be detected. A new thread cannot have run for
        // longer than the time since the previous sample.
        let may_be_another =
            now.began_ticks.is_none() && now.run_ns <= sample_end_ns.saturating_sub(before_ns);
        if may_be_another || self.may_have_executed(now) { Ok(()) } else { result }
    }

    /// Whether another thread of the process may have called execve(2). That thread then takes the
    /// TID and the start time of the first thread, and keeps its own counters (`de_thread` in the
    /// kernel's fs/exec.c). The totals of the process still grow and are checked.
    fn may_have_executed(&self, thread: &ThreadUse) -> bool {
        let key = thread.began_ticks.map(|began_ticks| (thread.pid, began_ticks));
        thread.tid == thread.pid && key.is_some_and(|key| self.processes.contains_key(&key))
    }
}

fn group_counters(group: &CgroupUse) -> Counters<'static> {
    vec![
        ("cpu_ns", group.cpu_ns),
        ("periods", group.periods),
        ("throttled_periods", group.throttled_periods),
        ("throttled_ns", group.throttled_ns),
        ("oom_kills", group.oom_kills),
        ("cpu_user_ns", group.cpu_user_ns),
        ("cpu_sys_ns", group.cpu_sys_ns),
    ]
}

fn network_counters(network: &NetworkUse) -> Counters<'static> {
    vec![
        ("listen_overflows", network.listen_overflows),
        ("listen_drops", network.listen_drops),
        ("segments_out", network.segments_out),
        ("segments_retransmitted", network.segments_retransmitted),
        ("retransmit_timeouts", network.retransmit_timeouts),
        ("delayed_acks", network.delayed_acks),
        ("syn_queue_drops", network.syn_queue_drops),
        ("syn_cookies", network.syn_cookies),
        ("memory_pressures", network.memory_pressures),
        ("aborts_on_memory", network.aborts_on_memory),
        ("receive_queue_drops", network.receive_queue_drops),
        ("socket_backlog_drops", network.socket_backlog_drops),
        ("prunes", network.prunes),
        ("reserve_drops", network.reserve_drops),
    ]
}

fn process_counters(process: &ProcessUse) -> Counters<'static> {
    vec![
        ("user_ns", Some(process.user_ns)),
        ("sys_ns", Some(process.sys_ns)),
        ("faults_minor", Some(process.faults_minor)),
        ("faults_major", Some(process.faults_major)),
        ("children_user_ns", Some(process.children_user_ns)),
        ("children_sys_ns", Some(process.children_sys_ns)),
        ("children_faults_minor", Some(process.children_faults_minor)),
        ("children_faults_major", Some(process.children_faults_major)),
    ]
}

/// Returns the thread's counters from `/proc`. Counters of probes are omitted: a probe drops a
/// thread when it ends, so these counters may fall while `/proc` still lists the thread.
fn thread_counters(thread: &ThreadUse) -> Counters<'static> {
    vec![
        ("run_ns", Some(thread.run_ns)),
        ("user_ns", Some(thread.user_ns)),
        ("sys_ns", Some(thread.sys_ns)),
        ("run_delay_ns", thread.run_delay_ns),
        ("switches_voluntary", thread.switches_voluntary),
        ("switches_involuntary", thread.switches_involuntary),
        ("faults_minor", thread.faults_minor),
        ("faults_major", thread.faults_major),
    ]
}

fn scheduler_counters(record: &SchedulerRecord) -> Counters<'static> {
    vec![("wakeups", Some(record.wakeups)), ("migrations", Some(record.migrations))]
}

fn ended_counters(ended: &EndedThreads) -> Counters<'static> {
    [("threads", Some(ended.threads))].into_iter().chain(scheduler_counters(&ended.seen)).collect()
}

fn check_calls(before: &CallsUse, now: &CallsUse) -> FileCheck {
    let totals = |calls: &CallsUse| {
        vec![
            ("counted_ns", Some(calls.counted_ns)),
            ("slices", Some(calls.slices)),
            ("answers", calls.responses),
        ]
    };
    check_counters("the counting of system calls", &totals(before), &totals(now), 0)?;
    let counters = |call: &CallUse| {
        vec![
            ("count", Some(call.count)),
            ("errors", call.errors),
            ("again", call.again),
            ("returned", call.returned),
        ]
    };
    now.by_name.iter().try_for_each(|(name, now)| {
        let before = before.by_name.get(name);
        before.map_or(Ok(()), |before| {
            check_counters(&format!("the calls {name:?}"), &counters(before), &counters(now), 0)
        })
    })
}
