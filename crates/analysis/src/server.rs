//! What the server used over the measured window.

mod calls;
mod threads;

use std::collections::BTreeMap;

use dyno_archive::sample::{
    CallsUse, CgroupUse, EndedThreads, HostUse, ListenerUse, NetworkUse, Party, SocketsUse, ThreadUse,
};
use dyno_archive::{LoadRecord, Sample};
use schemars::JsonSchema;
use serde::Serialize;

use crate::load::answers_per_second;
pub use calls::{Call, Calls, Transfers};
pub use threads::{RoleUse, Working};
use threads::{ThreadDeltas, Threads, run_s_between};

/// The server's use, `None` where it could not be measured (a caveat of the trial says why).
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ServerUse {
    /// Length of the observed window: between the samples nearest to the measured window's edges.
    pub window_s: f64,
    pub cpu_user_s: Option<f64>,
    pub cpu_sys_s: Option<f64>,
    /// CPU time ÷ length of the window: in CPUs.
    pub cpus: Option<f64>,
    /// Per complete answer, right or wrong.
    pub cpu_us_per_request: Option<f64>,
    /// CPU time that its quota and its CPUs allowed in that window.
    pub cpu_allowed_s: Option<f64>,
    /// CPU time used ÷ allowed.
    pub cpu_utilisation: Option<f64>,
    /// Time that the CPU quota held it back. The kernel sums it over CPUs, so it may be longer than the window.
    pub throttled_s: Option<f64>,
    /// `None` without a quota.
    pub throttling: Option<Throttling>,
    /// Highest memory of its control group in the window, page cache included.
    pub memory_peak_bytes: Option<u64>,
    /// Anonymous memory: the highest sample of the window.
    pub memory_anon_bytes: Option<u64>,
    /// Page cache: the highest sample of the window.
    pub memory_file_bytes: Option<u64>,
    /// Resident memory: the highest sample of the window.
    pub rss_bytes: Option<u64>,
    /// What the server itself holds: anonymous memory, or resident memory where that is all there is.
    pub memory_held_bytes: Option<u64>,
    /// `memory_held_bytes` × time per answer, in MB·s (10⁶ bytes × s).
    pub memory_mb_s_per_request: Option<f64>,
    /// At the end of the window.
    pub threads: Option<usize>,
    /// Threads that ran, or waited for a CPU, for a quarter of the window or more.
    pub busy_threads: Option<usize>,
    /// At the end of the window.
    pub processes: Option<u32>,
    /// Share of one CPU that its busiest thread used.
    pub busiest_thread_utilisation: Option<f64>,
    /// Time that threads were runnable but waited for a CPU, summed over threads.
    pub run_delay_s: Option<f64>,
    /// CPU time of the whole machine that neither the server nor dyno used.
    pub others_cpu_s: Option<f64>,
    pub context_switches_voluntary: Option<u64>,
    pub context_switches_involuntary: Option<u64>,
    /// How the split of its CPU time was had; `None`: it was not.
    pub cpu_split_by: Option<SplitBy>,
    /// Page faults that were served without, and with, reading from a disk; of threads that lived through the window.
    pub page_faults_minor: Option<u64>,
    pub page_faults_major: Option<u64>,
    /// Times that its threads were woken up, and moved to another CPU.
    pub wakeups: Option<u64>,
    pub migrations: Option<u64>,
    pub per_request: PerRequest,
    /// `None`: they were not counted.
    pub calls: Option<Calls>,
    pub by_thread_role: BTreeMap<&'static str, RoleUse>,
    /// The threads that served, and what they did with their time; `None`: nobody looked.
    pub working: Option<Working>,
    /// Its TCP sockets, looked at once in the window; `None`: nobody looked, or it has none.
    pub sockets: Option<Sockets>,
    /// Of the network that the server is in, which it may share with others. `None`: not read.
    pub network: Option<Network>,
    /// Times that its memory limit killed a process in the window; `None`: not known.
    pub oom_kills: Option<u64>,
    /// Time spent on taking the samples.
    pub probe_s: Option<f64>,
    /// Share of the machine's CPU time that the hypervisor took.
    pub steal_share: Option<f64>,
    pub intervals: Vec<ServerInterval>,
}

/// Periods of a CPU quota, and those in which the server was held back by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Throttling {
    pub periods: u64,
    pub throttled_periods: u64,
}

impl Throttling {
    fn between(first: &Seen<'_>, last: &Seen<'_>) -> Option<Throttling> {
        let periods = cgroup_delta(first, last, |c| c.periods).filter(|n| *n > 0)?;
        let throttled_periods = cgroup_delta(first, last, |c| c.throttled_periods)?;
        Some(Throttling { periods, throttled_periods })
    }

    /// Share of periods in which the server was held back: 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        self.throttled_periods as f64 / self.periods.max(1) as f64
    }
}

/// A server's TCP sockets at one instant of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Sockets {
    pub connections: u64,
    pub listeners: Vec<Listener>,
    /// Segments that the server sent again on these connections since they are there.
    pub retransmitted: u64,
    /// Shares of the time in which it had something to send that the client's window, and its own send buffer, held it up: 0 to 1. `None`:
    /// it had nothing to send.
    pub window_limited: Option<f64>,
    pub buffer_limited: Option<f64>,
    /// Shares of the connections looked at that have TCP_NODELAY, and TCP_CORK: 0 to 1. `None`: this user may not look.
    pub nodelay: Option<f64>,
    pub cork: Option<f64>,
}

/// A socket that takes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listener {
    pub port: u16,
    /// Connections that wait to be accepted, and the most that may.
    pub queued: u64,
    pub backlog: u64,
}

impl Sockets {
    fn new(seen: &SocketsUse) -> Sockets {
        let share = |n: u64, of: u64| (of > 0).then(|| n as f64 / of as f64);
        let listener = |l: &ListenerUse| Listener { port: l.port, queued: l.queued, backlog: l.backlog };
        Sockets {
            connections: seen.connections,
            listeners: seen.listeners.iter().map(listener).collect(),
            retransmitted: seen.retransmitted,
            window_limited: share(seen.window_limited_ns, seen.busy_ns),
            buffer_limited: share(seen.buffer_limited_ns, seen.busy_ns),
            nodelay: share(seen.nodelay, seen.options_of),
            cork: share(seen.cork, seen.options_of),
        }
    }
}

/// What TCP counted in the measured window; `None` where the kernel has no such counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Network {
    /// Connections that found the queue of a listener full.
    pub listen_overflows: Option<u64>,
    /// Connections that a listener dropped, for whatever reason.
    pub listen_drops: Option<u64>,
    pub segments_out: Option<u64>,
    pub segments_retransmitted: Option<u64>,
    /// Retransmissions after a time-out.
    pub retransmit_timeouts: Option<u64>,
    pub delayed_acks: Option<u64>,
}

impl Network {
    fn between(first: &Seen<'_>, last: &Seen<'_>) -> Option<Network> {
        let (first, last) = (first.network?, last.network?);
        let since = |pick: fn(&NetworkUse) -> Option<u64>| Some(pick(last)?.saturating_sub(pick(first)?));
        Some(Network {
            listen_overflows: since(|n| n.listen_overflows),
            listen_drops: since(|n| n.listen_drops),
            segments_out: since(|n| n.segments_out),
            segments_retransmitted: since(|n| n.segments_retransmitted),
            retransmit_timeouts: since(|n| n.retransmit_timeouts),
            delayed_acks: since(|n| n.delayed_acks),
        })
    }
}

/// The server's use per complete answer, right or wrong; `None` where it could not be measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PerRequest {
    pub cpu_user_us: Option<f64>,
    pub cpu_sys_us: Option<f64>,
    pub context_switches: Option<f64>,
    /// By name; futex calls by what they are for.
    pub syscalls: Option<BTreeMap<String, f64>>,
    pub run_delay_us: Option<f64>,
    pub page_faults: Option<f64>,
    pub wakeups: Option<f64>,
}

/// How CPU time was split into user and system time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SplitBy {
    /// As the kernel keeps it, which may be by samples at its tick.
    Kernel,
    /// By entries into the kernel and exits from it.
    Entries,
}

/// The server between two samples, for showing it over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ServerInterval {
    /// Since the load began, in seconds.
    pub start_s: f64,
    pub end_s: f64,
    /// CPU time ÷ time between the samples: in CPUs.
    pub cpu: Option<f64>,
    pub cpu_user: Option<f64>,
    pub cpu_sys: Option<f64>,
    /// All of dyno's own threads, in CPUs.
    pub generator_cpu: Option<f64>,
    /// Time runnable but waiting for a CPU, summed over threads.
    pub run_delay_s: Option<f64>,
    pub throttled_s: Option<f64>,
    /// At the interval's end; resident memory where there is no anonymous memory to read.
    pub memory_anon_bytes: Option<u64>,
    pub memory_file_bytes: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub context_switches_per_s: Option<f64>,
    pub threads: usize,
}

/// Least share of the window that a busy thread runs or waits for a CPU.
const BUSY_THREAD: f64 = 0.25;

/// One party's counters in a sample, with those of the generator and the machine.
#[derive(Clone, Copy, Debug)]
struct Seen<'a> {
    sample: &'a Sample,
    at_ns: u64,
    took_ns: u64,
    cgroup: Option<&'a CgroupUse>,
    threads: &'a [ThreadUse],
    ended: Option<&'a [EndedThreads]>,
    calls: Option<&'a CallsUse>,
    network: Option<&'a NetworkUse>,
    sockets: Option<&'a SocketsUse>,
    processes: u32,
    rss_bytes: Option<u64>,
    generator: &'a [ThreadUse],
    host: Option<&'a HostUse>,
}

impl<'a> Seen<'a> {
    /// `None`: the party was not watched.
    fn new(sample: &'a Sample, party: Party) -> Option<Seen<'a>> {
        let used = sample.of(party)?;
        Some(Seen {
            sample,
            at_ns: sample.at_ns,
            took_ns: sample.took_ns,
            cgroup: used.cgroup.as_ref(),
            threads: &used.threads,
            ended: used.ended.as_deref(),
            calls: used.calls.as_ref(),
            network: used.network.as_ref(),
            sockets: used.sockets.as_ref(),
            processes: used.processes,
            rss_bytes: used.rss_bytes,
            generator: sample.of(Party::GENERATOR).map_or(&[], |generator| &generator.threads),
            host: sample.host.as_ref(),
        })
    }

    fn living_and_ended(&self) -> Threads<'a> {
        Threads { living: self.threads, ended: self.ended }
    }

    /// What its threads did up to a later sample.
    fn threads_until(&self, last: &Seen<'_>) -> ThreadDeltas {
        ThreadDeltas::new(self.living_and_ended(), last.living_and_ended())
    }
}

fn seen(record: &LoadRecord, party: Party) -> Vec<Seen<'_>> {
    record.samples.iter().filter_map(|sample| Seen::new(sample, party)).collect()
}

/// Memory within the window, in bytes: the highest of the samples.
struct Memory {
    peak: Option<u64>,
    anon: Option<u64>,
    file: Option<u64>,
    rss: Option<u64>,
}

impl Memory {
    fn over(window: &[&Seen<'_>], last: &Seen<'_>) -> Memory {
        let highest = |pick: fn(&CgroupUse) -> Option<u64>| {
            window.iter().filter_map(|seen| pick(seen.cgroup.as_ref()?)).max()
        };
        Memory {
            // Where the kernel cannot begin a new peak, the highest of the samples is taken.
            peak: last.cgroup.and_then(|c| c.memory_peak_bytes).or_else(|| highest(|c| c.memory_bytes)),
            anon: highest(|c| c.memory_anon_bytes),
            file: highest(|c| c.memory_file_bytes),
            rss: window.iter().filter_map(|seen| seen.rss_bytes).max(),
        }
    }

    /// What the server itself holds: anonymous memory, or resident memory where that is all there is.
    fn held(&self) -> Option<u64> {
        self.anon.or(self.rss)
    }
}

/// Computes what a server (the subject, or a service behind it) used in one trial. `allowed_cpus`: CPUs that it could use at
/// a time. Empty if the party was not watched.
#[must_use]
pub fn server_use(record: &LoadRecord, party: Party, allowed_cpus: f64) -> ServerUse {
    let seen = seen(record, party);
    let Some((first, last)) = edges(record, &seen) else { return ServerUse::default() };
    let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
    let rate = answers_per_second(record);
    // Answers that fit the observed window: samples lie a little beside the edges of the measured one.
    let answers = rate * seconds;
    let per_answer = |amount: f64| (answers > 0.0).then(|| amount / answers);
    let mut threads = first.threads_until(last);
    let cpu_s = cpu_s_of_all(&threads, first, last);
    threads.attribute(cpu_s);
    for role in threads.roles.values_mut() {
        role.cpu_us_per_request = per_answer(role.cpu_s * 1e6);
    }
    let split = Split::of(&threads, first, last);
    let calls = first.calls.zip(last.calls).and_then(|(first, last)| Calls::between(first, last));
    let split_us = split.and_then(|split| {
        let us = cpu_s.and_then(|s| per_answer(s * 1e6))?;
        Some((us * split.user_share, us * (1.0 - split.user_share)))
    });
    // If the kernel's tick saw neither, all counts as the kernel's.
    let user_share = split.map_or(0.0, |split| split.user_share);
    let allowed = allowed_cpus * seconds;
    let window: Vec<&Seen<'_>> = seen.iter().filter(|s| within(s, first, last)).collect();
    let memory = Memory::over(&window, last);
    let probe_ns: u64 = window.iter().map(|s| s.took_ns).sum();
    ServerUse {
        window_s: seconds,
        cpu_user_s: cpu_s.map(|s| s * user_share),
        cpu_sys_s: cpu_s.map(|s| s * (1.0 - user_share)),
        cpus: cpu_s.map(|s| s / seconds).filter(|cpus| cpus.is_finite()),
        cpu_us_per_request: cpu_s.and_then(|s| per_answer(s * 1e6)),
        cpu_allowed_s: Some(allowed),
        cpu_utilisation: cpu_s.map(|s| s / allowed),
        throttled_s: cgroup_delta(first, last, |c| c.throttled_ns).map(|ns| ns as f64 / 1e9),
        throttling: Throttling::between(first, last),
        memory_peak_bytes: memory.peak,
        memory_anon_bytes: memory.anon,
        memory_file_bytes: memory.file,
        rss_bytes: memory.rss,
        memory_held_bytes: memory.held(),
        memory_mb_s_per_request: memory.held().and_then(|bytes| per_answer(bytes as f64 / 1e6 * seconds)),
        threads: Some(last.threads.len()),
        busy_threads: (!last.threads.is_empty())
            .then(|| threads.wanted_s.iter().filter(|s| **s >= BUSY_THREAD * seconds).count()),
        processes: Some(last.processes),
        busiest_thread_utilisation: threads.busiest_s.map(|s| s / seconds),
        others_cpu_s: others_cpu_s(first, last),
        cpu_split_by: split_us.and(split).map(|split| split.by),
        per_request: per_request(&threads, split_us, calls.as_ref(), per_answer),
        calls,
        network: Network::between(first, last),
        sockets: seen.iter().rev().find_map(|s| s.sockets).map(Sockets::new),
        oom_kills: cgroup_delta(first, last, |c| c.oom_kills),
        probe_s: Some(probe_ns as f64 / 1e9),
        steal_share: steal_share(first, last),
        intervals: intervals(record.began_ns, &seen),
        ..of_threads(threads)
    }
}

/// What the threads tell without anything else.
fn of_threads(threads: ThreadDeltas) -> ServerUse {
    ServerUse {
        context_switches_voluntary: threads.voluntary,
        context_switches_involuntary: threads.involuntary,
        page_faults_minor: threads.faults_minor,
        page_faults_major: threads.faults_major,
        wakeups: threads.wakeups,
        migrations: threads.migrations,
        by_thread_role: threads.roles,
        working: threads.working,
        run_delay_s: threads.run_delay_s,
        ..ServerUse::default()
    }
}

fn per_request(
    threads: &ThreadDeltas,
    split_us: Option<(f64, f64)>,
    calls: Option<&Calls>,
    per_answer: impl Fn(f64) -> Option<f64>,
) -> PerRequest {
    let each = |n: Option<u64>| n.and_then(|n| per_answer(n as f64));
    PerRequest {
        cpu_user_us: split_us.map(|(user, _)| user),
        cpu_sys_us: split_us.map(|(_, sys)| sys),
        context_switches: each(threads.switches()),
        syscalls: calls.map(Calls::per_response_by_name),
        run_delay_us: threads.run_delay_s.and_then(|s| per_answer(s * 1e6)),
        page_faults: each(threads.faults()),
        wakeups: each(threads.wakeups),
    }
}

/// CPU time split into user and system time.
#[derive(Clone, Copy)]
struct Split {
    /// 0 to 1.
    user_share: f64,
    by: SplitBy,
}

impl Split {
    /// By entries into the kernel where somebody watched them, else as the kernel has it. `None`: neither saw any time.
    fn of(threads: &ThreadDeltas, first: &Seen<'_>, last: &Seen<'_>) -> Option<Split> {
        let by_entries = threads.modes.map(|modes| (modes.user_ns as f64, modes.sys_ns as f64));
        let by_kernel = || split_between(first, last).unwrap_or((threads.user_s, threads.sys_s));
        let by = if by_entries.is_some() { SplitBy::Entries } else { SplitBy::Kernel };
        let (user, sys) = by_entries.unwrap_or_else(by_kernel);
        (user + sys > 0.0).then(|| Split { user_share: user / (user + sys), by })
    }
}

impl ServerUse {
    /// Share of the server's CPU time in the window that threads of a role used: 0 to 1. `None`: it has no such threads, used
    /// no CPU time, or its CPU time is not known.
    #[must_use]
    pub fn role_share(&self, role: &str) -> Option<f64> {
        let of_role_s = self.by_thread_role.get(role)?.cpu_s;
        let cpu_s = self.cpu_user_s? + self.cpu_sys_s?;
        (cpu_s > 0.0).then(|| of_role_s / cpu_s)
    }
}

/// What a party used between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    pub seconds: f64,
    /// `None`: not known.
    pub cpu_s: Option<f64>,
    /// Part of `cpu_s` that compiler threads used; `None`: threads could not be read.
    pub jit_s: Option<f64>,
}

impl Used {
    #[must_use]
    pub fn between(party: Party, first: &Sample, last: &Sample) -> Option<Used> {
        let (first, last) = (&Seen::new(first, party)?, &Seen::new(last, party)?);
        let threads = first.threads_until(last);
        let jit_s = threads.roles.get("jit").map_or(0.0, |role| role.cpu_s);
        Some(Used {
            seconds: last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9,
            cpu_s: cpu_s_of_all(&threads, first, last),
            jit_s: (!last.threads.is_empty()).then_some(jit_s),
        })
    }
}

/// The samples nearest to the edges of the measured window.
fn edges<'a, 'b>(record: &LoadRecord, seen: &'b [Seen<'a>]) -> Option<(&'b Seen<'a>, &'b Seen<'a>)> {
    let nearest = |edge_ns: u64| {
        let edge = record.began_ns + edge_ns;
        seen.iter().min_by_key(|s| s.at_ns.abs_diff(edge))
    };
    let (first, last) = (nearest(record.window_ns.0)?, nearest(record.window_ns.1)?);
    (last.at_ns > first.at_ns).then_some((first, last))
}

fn within(sample: &Seen<'_>, first: &Seen<'_>, last: &Seen<'_>) -> bool {
    (first.at_ns..=last.at_ns).contains(&sample.at_ns)
}

fn cgroup_delta(first: &Seen<'_>, last: &Seen<'_>, pick: impl Fn(&CgroupUse) -> Option<u64>) -> Option<u64> {
    Some(pick(last.cgroup.as_ref()?)?.saturating_sub(pick(first.cgroup.as_ref()?)?))
}

fn cpu_between(first: &Seen<'_>, last: &Seen<'_>) -> Option<f64> {
    cgroup_delta(first, last, |c| c.cpu_ns).map(|ns| ns as f64 / 1e9)
}

/// CPU seconds of the whole party between the two samples, or of its living threads where there is no control group.
/// `None`: neither could be read.
fn cpu_s_of_all(threads: &ThreadDeltas, first: &Seen<'_>, last: &Seen<'_>) -> Option<f64> {
    let living_s = (first.cgroup.is_none() && !last.threads.is_empty()).then_some(threads.run_s);
    cpu_between(first, last).or(living_s)
}

fn split_between(first: &Seen<'_>, last: &Seen<'_>) -> Option<(f64, f64)> {
    let user = cgroup_delta(first, last, |c| c.cpu_user_ns)?;
    let sys = cgroup_delta(first, last, |c| c.cpu_sys_ns)?;
    Some((user as f64, sys as f64))
}

/// CPU seconds of the machine that no watched party used; `None`: not known.
fn others_cpu_s(first: &Seen<'_>, last: &Seen<'_>) -> Option<f64> {
    let busy_ns = last.host?.busy_ns.saturating_sub(first.host?.busy_ns);
    let of = |party: Party| match party {
        Party::Generator(_) => Some(run_s_between(first.generator, last.generator)),
        Party::Subject(_) | Party::Backend(_) => Used::between(party, first.sample, last.sample)?.cpu_s,
    };
    let watched: Option<f64> = last.sample.parties.iter().map(|used| of(used.party)).sum();
    Some((busy_ns as f64 / 1e9 - watched?).max(0.0))
}

fn steal_share(first: &Seen<'_>, last: &Seen<'_>) -> Option<f64> {
    let (a, b) = (first.host.as_ref()?, last.host.as_ref()?);
    let total = |h: &HostUse| h.busy_ns + h.idle_ns + h.steal_ns;
    let all = total(b).saturating_sub(total(a));
    (all > 0).then(|| b.steal_ns.saturating_sub(a.steal_ns) as f64 / all as f64)
}

fn intervals(began_ns: u64, seen: &[Seen<'_>]) -> Vec<ServerInterval> {
    seen.windows(2).map(|pair| interval(began_ns, &pair[0], &pair[1])).collect()
}

fn interval(began_ns: u64, first: &Seen<'_>, last: &Seen<'_>) -> ServerInterval {
    let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
    let threads = first.threads_until(last);
    let cpu_s = cpu_s_of_all(&threads, first, last);
    let since_begin = |s: &Seen<'_>| s.at_ns.saturating_sub(began_ns) as f64 / 1e9;
    let memory = |pick: fn(&CgroupUse) -> Option<u64>| last.cgroup.and_then(pick);
    ServerInterval {
        start_s: since_begin(first),
        end_s: since_begin(last),
        cpu: cpu_s.map(|s| s / seconds),
        cpu_user: split_between(first, last).map(|(user, _)| user / 1e9 / seconds),
        cpu_sys: split_between(first, last).map(|(_, sys)| sys / 1e9 / seconds),
        generator_cpu: (!last.generator.is_empty())
            .then(|| run_s_between(first.generator, last.generator) / seconds),
        run_delay_s: threads.run_delay_s,
        throttled_s: cgroup_delta(first, last, |c| c.throttled_ns).map(|ns| ns as f64 / 1e9),
        memory_anon_bytes: memory(|c| c.memory_anon_bytes).or(last.rss_bytes),
        memory_file_bytes: memory(|c| c.memory_file_bytes),
        memory_bytes: memory(|c| c.memory_bytes),
        context_switches_per_s: threads.switches().map(|n| n as f64 / seconds),
        threads: last.threads.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::observed;
    use dyno_archive::sample::PartyUse;

    #[test]
    fn a_server_of_which_nothing_can_be_read_has_no_cpu_time() {
        let mut record = observed(&[(500, 0)]);
        record.samples.iter_mut().for_each(|s| s.of_mut(Party::SUBJECT).cgroup = None);
        let used = |record: &LoadRecord| {
            let server = server_use(record, Party::SUBJECT, 1.0);
            (server.cpu_utilisation, server.intervals[0].cpu)
        };
        assert_eq!(used(&record), (Some(0.5), Some(0.5)));
        record.samples.iter_mut().for_each(|s| s.of_mut(Party::SUBJECT).threads.clear());
        assert_eq!(used(&record), (None, None));
    }

    #[test]
    fn throttling_is_a_share_of_periods() {
        let server = server_use(&observed(&[(500, 0)]), Party::SUBJECT, 1.0);
        assert_eq!(server.throttling, Some(Throttling { periods: 10, throttled_periods: 4 }));
        assert_eq!((server.throttling.unwrap().share(), server.throttled_s), (0.4, Some(1.6)));
    }

    const MS: u64 = 1_000_000;

    fn thread(name: &str, run_user_sys_delay_ms: [u64; 4], switches: [u64; 2]) -> ThreadUse {
        let [run, user, sys, delay] = run_user_sys_delay_ms.map(|ms| ms * MS);
        let tid = name.len() as u32;
        ThreadUse {
            tid,
            name: name.into(),
            run_ns: run,
            user_ns: user,
            sys_ns: sys,
            run_delay_ns: Some(delay),
            switches_voluntary: Some(switches[0]),
            switches_involuntary: Some(switches[1]),
            ..ThreadUse::default()
        }
    }

    /// Counters of a control group: CPU time in milliseconds, periods of its quota, memory in megabytes.
    fn group(user_sys_throttled_ms: [u64; 3], periods: [u64; 2], memory: [u64; 4]) -> CgroupUse {
        let [user, sys, throttled] = user_sys_throttled_ms.map(|ms| ms * MS);
        let [all, peak, anon, file] = memory.map(|mb| Some(mb * 1_000_000));
        CgroupUse {
            cpu_ns: Some(user + sys),
            cpu_user_ns: Some(user),
            cpu_sys_ns: Some(sys),
            periods: Some(periods[0]),
            throttled_periods: Some(periods[1]),
            throttled_ns: Some(throttled),
            memory_bytes: all,
            memory_peak_bytes: peak,
            memory_anon_bytes: anon,
            memory_file_bytes: file,
            ..CgroupUse::default()
        }
    }

    /// A sample after `at_s` seconds that took `took_ms`: counters of the subject, of the generator's only thread, of the
    /// machine.
    fn read(
        (at_s, took_ms): (u64, u64),
        subject: (CgroupUse, Vec<ThreadUse>, u64),
        generator_ms: u64,
        busy_idle_steal_ms: [u64; 3],
    ) -> Sample {
        let [busy_ns, idle_ns, steal_ns] = busy_idle_steal_ms.map(|ms| ms * MS);
        let (cgroup, threads, rss_mb) = subject;
        let server = PartyUse {
            processes: threads.len() as u32 - 1,
            cgroup: Some(cgroup),
            threads,
            rss_bytes: Some(rss_mb * 1_000_000),
            ..PartyUse::nothing(Party::SUBJECT)
        };
        let generator = PartyUse {
            threads: vec![thread("g", [generator_ms, 0, 0, 0], [0, 0])],
            ..PartyUse::nothing(Party::GENERATOR)
        };
        Sample {
            at_ns: at_s * 1000 * MS,
            took_ns: took_ms * MS,
            parties: vec![server, generator],
            host: Some(HostUse { busy_ns, idle_ns, steal_ns, ..HostUse::default() }),
        }
    }

    /// A window from 11 s to 13 s with 1,000 answers: a sample every second within it, and slower ones before and after.
    fn watched() -> LoadRecord {
        let mut record = crate::fixture::record(1000);
        (record.began_ns, record.window_ns) = (10_000 * MS, (1000 * MS, 3000 * MS));
        (record.intervals[0].start_ns, record.intervals[0].end_ns) = record.window_ns;
        let first = [
            thread("main", [1000, 600, 400, 10], [100, 10]),
            thread("C2 CompilerThre", [200, 200, 0, 0], [0, 0]),
        ];
        let second = [
            thread("main", [1400, 900, 500, 40], [150, 12]),
            thread("C2 CompilerThre", [300, 300, 0, 20], [5, 1]),
        ];
        // The last thread is new.
        let third = [
            thread("main", [2200, 1500, 700, 110], [300, 30]),
            thread("C2 CompilerThre", [700, 700, 0, 50], [15, 5]),
            thread("worker", [300, 100, 200, 20], [5, 2]),
        ];
        let fourth = [thread("main", [2700, 1800, 900, 130], [330, 40])];
        let fourth = [&fourth[..], &third[1..]].concat();
        let third = third.into();
        record.samples = vec![
            read((9, 500), (group([0; 3], [0; 2], [900; 4]), first.clone().into(), 900), 0, [0; 3]),
            read(
                (11, 1),
                (group([900, 400, 5], [10, 1], [50, 70, 30, 10]), first.into(), 40),
                100,
                [2000, 6000, 0],
            ),
            read(
                (12, 2),
                (group([1300, 600, 5], [20, 1], [90, 95, 60, 12]), second.into(), 80),
                300,
                [3000, 9000, 0],
            ),
            read(
                (13, 4),
                (group([3300, 1000, 25], [30, 6], [80, 100, 50, 11]), third, 70),
                600,
                [6100, 9500, 400],
            ),
            read(
                (15, 500),
                (group([3900, 1400, 65], [50, 8], [900; 4]), fourth, 900),
                1000,
                [9000, 9900, 900],
            ),
        ];
        record
    }

    fn assert_near(pairs: &[(&str, Option<f64>, f64)]) {
        for (name, is, wanted) in pairs {
            let is_near = is.is_some_and(|is| (is - wanted).abs() <= 1e-9 * wanted.abs());
            assert!(is_near, "{name}: {is:?} and not {wanted}");
        }
    }

    #[test]
    fn what_a_server_used_is_between_the_samples_at_the_windows_edges() {
        let server = server_use(&watched(), Party::SUBJECT, 4.0);
        assert_near(&[
            ("window", Some(server.window_s), 2.0),
            ("user", server.cpu_user_s, 2.4),
            ("sys", server.cpu_sys_s, 0.6),
            ("CPUs", server.cpus, 1.5),
            ("per request", server.cpu_us_per_request, 3000.0),
            ("user per request", server.per_request.cpu_user_us, 2400.0),
            ("sys per request", server.per_request.cpu_sys_us, 600.0),
            ("allowed", server.cpu_allowed_s, 8.0),
            ("utilisation", server.cpu_utilisation, 0.375),
            ("throttled", server.throttled_s, 0.02),
            ("memory and time", server.memory_mb_s_per_request, 60.0 * 2.0 / 1000.0),
            ("busiest", server.busiest_thread_utilisation, 0.6),
            ("waited", server.run_delay_s, 0.17),
            ("waited per request", server.per_request.run_delay_us, 170.0),
            ("switches per request", server.per_request.context_switches, 0.247),
            ("others", server.others_cpu_s, 4.1 - 0.5 - 3.0),
            ("looking", server.probe_s, 0.007),
            ("stolen", server.steal_share, 0.05),
            ("compiled", server.role_share("jit"), 0.5 / 3.0),
        ]);
        assert_eq!(server.throttling, Some(Throttling { periods: 20, throttled_periods: 5 }));
        let mb = |bytes: Option<u64>| bytes.map(|bytes| bytes / 1_000_000);
        let memory =
            [server.memory_peak_bytes, server.memory_anon_bytes, server.memory_file_bytes, server.rss_bytes];
        assert_eq!(memory.map(mb), [Some(100), Some(60), Some(12), Some(80)], "the highest within");
        assert_eq!(mb(server.memory_held_bytes), Some(60), "what is its own");
        assert_eq!((server.threads, server.busy_threads, server.processes), (Some(3), Some(2), Some(2)));
        let switches = (server.context_switches_voluntary, server.context_switches_involuntary);
        assert_eq!(switches, (Some(220), Some(27)));
        let roles: Vec<_> = server.by_thread_role.iter().map(|(name, role)| (*name, role.threads)).collect();
        // The group used more than its living threads.
        assert_eq!(roles, [("jit", 1), ("unattributed", 0), ("work", 2)]);
        let work = &server.by_thread_role["work"];
        assert_near(&[("work", Some(work.cpu_s), 1.5), ("its waiting", work.run_delay_s, 0.12)]);
    }

    #[test]
    fn a_server_over_time_is_shown_by_rates_between_samples() {
        let intervals = server_use(&watched(), Party::SUBJECT, 4.0).intervals;
        assert_eq!(intervals.len(), 4);
        let [second, last] = [&intervals[1], &intervals[3]];
        assert_near(&[
            ("start", Some(second.start_s), 1.0),
            ("end", Some(second.end_s), 2.0),
            ("cpu", second.cpu, 0.6),
            ("generator", second.generator_cpu, 0.2),
            ("waited", second.run_delay_s, 0.05),
            ("throttled", second.throttled_s, 0.0),
            ("switches", second.context_switches_per_s, 58.0),
            // Two seconds long.
            ("start", Some(last.start_s), 3.0),
            ("end", Some(last.end_s), 5.0),
            ("cpu", last.cpu, 0.5),
            ("user", last.cpu_user, 0.3),
            ("sys", last.cpu_sys, 0.2),
            ("generator", last.generator_cpu, 0.2),
            ("throttled", last.throttled_s, 0.04),
            ("switches", last.context_switches_per_s, 20.0),
        ]);
        let memory = (second.memory_bytes, second.memory_anon_bytes, second.memory_file_bytes);
        assert_eq!(memory, (Some(90_000_000), Some(60_000_000), Some(12_000_000)));
        assert_eq!((second.threads, last.threads), (2, 3));
    }

    #[test]
    fn without_a_group_there_is_what_its_threads_used_and_resident_memory() {
        let mut record = watched();
        record.samples.iter_mut().for_each(|s| s.of_mut(Party::SUBJECT).cgroup = None);
        let server = server_use(&record, Party::SUBJECT, 4.0);
        // 1.2 and 0.5 and 0.3 s; 0.9 and 0.5 and 0.1 s of it in user mode.
        assert_near(&[
            ("user", server.cpu_user_s, 1.5),
            ("sys", server.cpu_sys_s, 0.5),
            ("memory and time", server.memory_mb_s_per_request, 80.0 * 2.0 / 1000.0),
        ]);
        assert_eq!((server.memory_anon_bytes, server.throttling), (None, None));
        assert_eq!(server.memory_held_bytes, Some(80_000_000));
        assert_eq!(server.intervals[1].memory_anon_bytes, Some(80_000_000));
        let [first, last] = [&record.samples[1], &record.samples[3]];
        let used = Used::between(Party::SUBJECT, first, last).unwrap();
        assert_near(&[
            ("seconds", Some(used.seconds), 2.0),
            ("cpu", used.cpu_s, 2.0),
            ("jit", used.jit_s, 0.5),
        ]);
        // Nothing tells user from system time where no tick saw either.
        for sample in &mut record.samples {
            sample.of_mut(Party::SUBJECT).threads.iter_mut().for_each(|t| (t.user_ns, t.sys_ns) = (0, 0));
        }
        let server = server_use(&record, Party::SUBJECT, 4.0);
        assert_eq!((server.per_request.cpu_user_us, server.per_request.cpu_sys_us), (None, None));
        assert_near(&[("sys", server.cpu_sys_s, 2.0), ("per request", server.cpu_us_per_request, 2000.0)]);
    }

    #[test]
    fn what_nothing_was_divided_by_is_not_known() {
        let mut record = watched();
        record.intervals.clear();
        let server = server_use(&record, Party::SUBJECT, 4.0);
        assert_eq!((server.cpu_us_per_request, server.memory_mb_s_per_request), (None, None));
        let none = |s: &mut Sample| s.of_mut(Party::SUBJECT).threads.clear();
        record.samples.iter_mut().for_each(none);
        let server = server_use(&record, Party::SUBJECT, 4.0);
        assert_eq!((server.busy_threads, server.threads, server.role_share("jit")), (None, Some(0), None));
        // With all of the machine's counters at 0 there is no share of stolen time.
        record.samples.iter_mut().for_each(|s| s.host = Some(HostUse::default()));
        assert_eq!(server_use(&record, Party::SUBJECT, 4.0).steal_share, None);
        // Between two samples of one instant there is nothing.
        record.window_ns = (1000 * MS, 1000 * MS);
        assert_eq!(server_use(&record, Party::SUBJECT, 4.0), ServerUse::default());
    }
}
