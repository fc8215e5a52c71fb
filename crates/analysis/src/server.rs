//! What the server used over the measured window.

use std::collections::BTreeMap;

use dyno_archive::sample::{CgroupUse, HostUse, Party, ThreadUse};
use dyno_archive::{LoadRecord, Sample};
use schemars::JsonSchema;
use serde::Serialize;

use crate::load::answers_per_second;
use crate::roles;

/// The server's use, `None` where it could not be measured (a caveat of the trial says why).
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ServerUse {
    /// Length of the observed window: between the samples nearest to the measured window's edges.
    pub window_s: f64,
    pub cpu_user_s: Option<f64>,
    pub cpu_sys_s: Option<f64>,
    pub cpu_us_per_request: Option<f64>,
    /// CPU time that its quota and its CPUs allowed.
    pub cpu_allowed_s: Option<f64>,
    /// Used ÷ allowed.
    pub cpu_utilisation: Option<f64>,
    /// Summed over CPUs by the kernel, so it may be longer than the window.
    pub throttled_s: Option<f64>,
    /// `None` without a quota.
    pub throttling: Option<Throttling>,
    pub memory_peak_bytes: Option<u64>,
    pub memory_anon_bytes: Option<u64>,
    pub memory_file_bytes: Option<u64>,
    pub rss_bytes: Option<u64>,
    /// Memory × time per answer, in MB·s: anonymous memory, or resident memory where that is not known.
    pub memory_mb_s_per_request: Option<f64>,
    pub threads: Option<usize>,
    /// Threads that ran, or waited for a CPU, for a quarter of the window or more.
    pub busy_threads: Option<usize>,
    pub processes: Option<u32>,
    /// Share of one CPU that its busiest thread used.
    pub busiest_thread_utilisation: Option<f64>,
    pub run_delay_s: Option<f64>,
    /// CPU time of the whole machine that neither the server nor dyno used.
    pub others_cpu_s: Option<f64>,
    pub context_switches_voluntary: Option<u64>,
    pub context_switches_involuntary: Option<u64>,
    pub per_request: PerRequest,
    pub by_thread_role: BTreeMap<&'static str, RoleUse>,
    /// What looking cost: the samples' own time.
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

    /// 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        self.throttled_periods as f64 / self.periods.max(1) as f64
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PerRequest {
    pub cpu_user_us: Option<f64>,
    pub cpu_sys_us: Option<f64>,
    pub context_switches: Option<f64>,
    pub syscalls: Option<BTreeMap<String, f64>>,
    pub run_delay_us: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RoleUse {
    pub cpu_s: f64,
    pub run_delay_s: Option<f64>,
    pub threads: usize,
}

/// The server between two samples, for showing it over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ServerInterval {
    /// Since the load began.
    pub start_s: f64,
    pub end_s: f64,
    /// In CPUs.
    pub cpu: Option<f64>,
    pub cpu_user: Option<f64>,
    pub cpu_sys: Option<f64>,
    /// All of dyno's own threads, in CPUs.
    pub generator_cpu: Option<f64>,
    /// Time runnable but waiting for a CPU, summed over threads.
    pub run_delay_s: Option<f64>,
    pub throttled_s: Option<f64>,
    pub memory_anon_bytes: Option<u64>,
    pub memory_file_bytes: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub context_switches_per_s: Option<f64>,
    pub threads: usize,
}

/// Share of the window from which on a thread that runs, or waits for a CPU, counts as busy.
const BUSY_THREAD: f64 = 0.25;

/// What one party was seen to use at one instant, beside the generator and the machine.
#[derive(Clone, Copy, Debug)]
struct Seen<'a> {
    sample: &'a Sample,
    at_ns: u64,
    took_ns: u64,
    cgroup: Option<&'a CgroupUse>,
    threads: &'a [ThreadUse],
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
            processes: used.processes,
            rss_bytes: used.rss_bytes,
            generator: sample.of(Party::GENERATOR).map_or(&[], |generator| &generator.threads),
            host: sample.host.as_ref(),
        })
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
            // A kernel that lets no peak begin anew leaves the highest of the samples.
            peak: last.cgroup.and_then(|c| c.memory_peak_bytes).or_else(|| highest(|c| c.memory_bytes)),
            anon: highest(|c| c.memory_anon_bytes),
            file: highest(|c| c.memory_file_bytes),
            rss: window.iter().filter_map(|seen| seen.rss_bytes).max(),
        }
    }

    /// What the server itself holds, in megabytes (10⁶ bytes): resident memory where that is all there is.
    fn mb(&self) -> Option<f64> {
        self.anon.or(self.rss).map(|bytes| bytes as f64 / 1e6)
    }
}

/// Computes what a server used in one trial: the subject, or a service behind it. `allowed_cpus`: how many it could use at a
/// time.
#[must_use]
pub fn server_use(record: &LoadRecord, party: Party, allowed_cpus: f64) -> ServerUse {
    let seen = seen(record, party);
    let Some((first, last)) = edges(record, &seen) else { return ServerUse::default() };
    let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
    let rate = answers_per_second(record);
    // Answers that fit the observed window: samples lie a little beside the edges of the measured one.
    let answers = rate * seconds;
    let per_answer = |amount: f64| (answers > 0.0).then(|| amount / answers);
    let threads = ThreadDeltas::new(first, last);
    let cpu_s = threads.cpu_s_of_all(first, last);
    let split = split_between(first, last).unwrap_or((threads.user_s, threads.sys_s));
    let user_share = if split.0 + split.1 > 0.0 { split.0 / (split.0 + split.1) } else { 0.0 };
    // Where the tick saw neither, nothing tells which it was.
    let split_us = (split.0 + split.1 > 0.0)
        .then(|| cpu_s.and_then(|s| per_answer(s * 1e6)))
        .flatten()
        .map(|us| (us * user_share, us * (1.0 - user_share)));
    let allowed = allowed_cpus * seconds;
    let window: Vec<&Seen<'_>> = seen.iter().filter(|s| within(s, first, last)).collect();
    let memory = Memory::over(&window, last);
    let probe_ns: u64 = window.iter().map(|s| s.took_ns).sum();
    ServerUse {
        window_s: seconds,
        cpu_user_s: cpu_s.map(|s| s * user_share),
        cpu_sys_s: cpu_s.map(|s| s * (1.0 - user_share)),
        cpu_us_per_request: cpu_s.and_then(|s| per_answer(s * 1e6)),
        cpu_allowed_s: Some(allowed),
        cpu_utilisation: cpu_s.map(|s| s / allowed),
        throttled_s: cgroup_delta(first, last, |c| c.throttled_ns).map(|ns| ns as f64 / 1e9),
        throttling: Throttling::between(first, last),
        memory_peak_bytes: memory.peak,
        memory_anon_bytes: memory.anon,
        memory_file_bytes: memory.file,
        rss_bytes: memory.rss,
        memory_mb_s_per_request: memory.mb().and_then(|mb| per_answer(mb * seconds)),
        threads: Some(last.threads.len()),
        busy_threads: (!last.threads.is_empty())
            .then(|| threads.wanted_s.iter().filter(|s| **s >= BUSY_THREAD * seconds).count()),
        processes: Some(last.processes),
        busiest_thread_utilisation: threads.busiest_s.map(|s| s / seconds),
        run_delay_s: threads.run_delay_s,
        others_cpu_s: others_cpu_s(first, last),
        context_switches_voluntary: threads.voluntary,
        context_switches_involuntary: threads.involuntary,
        per_request: PerRequest {
            cpu_user_us: split_us.map(|(user, _)| user),
            cpu_sys_us: split_us.map(|(_, sys)| sys),
            context_switches: threads.switches().and_then(|n| per_answer(n as f64)),
            syscalls: None,
            run_delay_us: threads.run_delay_s.and_then(|s| per_answer(s * 1e6)),
        },
        by_thread_role: threads.roles,
        probe_s: Some(probe_ns as f64 / 1e9),
        steal_share: steal_share(first, last),
        intervals: intervals(record.began_ns, &seen),
    }
}

impl ServerUse {
    /// What compiler threads used of the server's CPU time in the window: 0 to 1. `None`: not known, or it used none.
    #[must_use]
    pub fn jit_share(&self) -> Option<f64> {
        let jit_s = self.by_thread_role.get("jit")?.cpu_s;
        let cpu_s = self.cpu_user_s? + self.cpu_sys_s?;
        (cpu_s > 0.0).then(|| jit_s / cpu_s)
    }
}

/// What a party used between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    pub seconds: f64,
    /// `None`: not known.
    pub cpu_s: Option<f64>,
    /// What of it threads used that only compile; `None`: threads could not be read.
    pub jit_s: Option<f64>,
}

impl Used {
    #[must_use]
    pub fn between(party: Party, first: &Sample, last: &Sample) -> Option<Used> {
        let (first, last) = (&Seen::new(first, party)?, &Seen::new(last, party)?);
        let threads = ThreadDeltas::new(first, last);
        let jit_s = threads.roles.get("jit").map_or(0.0, |role| role.cpu_s);
        Some(Used {
            seconds: last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9,
            cpu_s: threads.cpu_s_of_all(first, last),
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

fn split_between(first: &Seen<'_>, last: &Seen<'_>) -> Option<(f64, f64)> {
    let user = cgroup_delta(first, last, |c| c.cpu_user_ns)?;
    let sys = cgroup_delta(first, last, |c| c.cpu_sys_ns)?;
    Some((user as f64, sys as f64))
}

/// What nobody used who is watched.
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

/// Differences of thread counters between two samples. A thread that was born in between counts from zero; one
/// that died in between is lost, and only the control group knows its CPU time.
#[derive(Debug, Default)]
struct ThreadDeltas {
    run_s: f64,
    user_s: f64,
    sys_s: f64,
    busiest_s: Option<f64>,
    /// What each thread ran or waited for a CPU.
    wanted_s: Vec<f64>,
    run_delay_s: Option<f64>,
    voluntary: Option<u64>,
    involuntary: Option<u64>,
    roles: BTreeMap<&'static str, RoleUse>,
}

impl ThreadDeltas {
    fn new(first: &Seen<'_>, last: &Seen<'_>) -> ThreadDeltas {
        let before: BTreeMap<(u32, u32), &ThreadUse> =
            first.threads.iter().map(|t| ((t.pid, t.tid), t)).collect();
        let mut deltas = ThreadDeltas::default();
        for thread in last.threads {
            deltas.add(thread, before.get(&(thread.pid, thread.tid)).copied());
        }
        deltas
    }

    fn add(&mut self, now: &ThreadUse, before: Option<&ThreadUse>) {
        let since =
            |pick: fn(&ThreadUse) -> u64| pick(now).saturating_sub(before.map_or(0, pick)) as f64 / 1e9;
        let since_some = |pick: fn(&ThreadUse) -> Option<u64>| {
            Some(pick(now)?.saturating_sub(before.map_or(Some(0), pick)?))
        };
        let run_s = since(|t| t.run_ns);
        self.run_s += run_s;
        self.user_s += since(|t| t.user_ns);
        self.sys_s += since(|t| t.sys_ns);
        self.busiest_s = Some(self.busiest_s.unwrap_or(0.0).max(run_s));
        let delay_s = since_some(|t| t.run_delay_ns).map(|ns| ns as f64 / 1e9);
        self.wanted_s.push(run_s + delay_s.unwrap_or(0.0));
        add_some(&mut self.run_delay_s, delay_s);
        add_some(&mut self.voluntary, since_some(|t| t.switches_voluntary));
        add_some(&mut self.involuntary, since_some(|t| t.switches_involuntary));
        let role = self.roles.entry(roles::of(&now.name)).or_default();
        role.cpu_s += run_s;
        role.threads += 1;
        add_some(&mut role.run_delay_s, delay_s);
    }

    /// CPU time of the whole subject between the two samples, of its living threads where there is no control group; `None`:
    /// neither could be read.
    fn cpu_s_of_all(&self, first: &Seen<'_>, last: &Seen<'_>) -> Option<f64> {
        let living_s = (first.cgroup.is_none() && !last.threads.is_empty()).then_some(self.run_s);
        cpu_between(first, last).or(living_s)
    }

    fn switches(&self) -> Option<u64> {
        Some(self.voluntary? + self.involuntary?)
    }
}

/// Run time of all threads between two readings, in seconds.
fn run_s_between(first: &[ThreadUse], last: &[ThreadUse]) -> f64 {
    let before = |tid: u32| first.iter().find(|t| t.tid == tid).map_or(0, |t| t.run_ns);
    last.iter().map(|t| t.run_ns.saturating_sub(before(t.tid))).sum::<u64>() as f64 / 1e9
}

fn add_some<T: std::ops::Add<Output = T> + Default + Copy>(sum: &mut Option<T>, part: Option<T>) {
    if let Some(part) = part {
        *sum = Some(sum.unwrap_or_default() + part);
    }
}

fn intervals(began_ns: u64, seen: &[Seen<'_>]) -> Vec<ServerInterval> {
    seen.windows(2).map(|pair| interval(began_ns, &pair[0], &pair[1])).collect()
}

fn interval(began_ns: u64, first: &Seen<'_>, last: &Seen<'_>) -> ServerInterval {
    let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
    let threads = ThreadDeltas::new(first, last);
    let cpu_s = threads.cpu_s_of_all(first, last);
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
}
