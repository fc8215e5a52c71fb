//! The only place that decides which counters of a party are complete over a stretch of time. An
//! incomplete counter is left empty here, so every rule and metric takes it as unknown.
//!
//! - A control group's CPU time covers everything.
//! - A process's totals include its ended threads: CPU time in ticks of the clock, and exact page
//!   faults.
//! - The totals of a process's children include only those that it waited for.
//! - The kernel probes see states, wake-ups and CPU time of ended threads, but neither context
//!   switches nor page faults.
//! - No file of the kernel shows context switches and the wait for a CPU of an ended thread.

use std::collections::{BTreeMap, BTreeSet};

use dyno_archive::sample::{ProcessUse, ThreadUse};
use schemars::JsonSchema;
use serde::Serialize;

use super::threads::{ServingThreads, ThreadDeltas};
use super::{PartySample, cpu_between, split_between};

/// Greatest share of a counter that ended threads may have had without making it unknown.
const MAX_UNREAD: f64 = 0.01;

/// Greatest share of the CPU time that ended serving threads may have had without invalidating the
/// states of the living ones. Rules ask for half of the living threads' time, and this much work
/// elsewhere does not change their result.
const MAX_SERVED: f64 = 0.1;

/// CPU time that a thread may use between the reading of its group and its own reading.
const SKEW_S: f64 = 0.001;

/// Least number of births in no sample, if a process of the party ignores SIGCHLD. An idle machine
/// had two in ten seconds.
const LOST_BIRTHS: f64 = 10.0;

/// Two ticks of the clock: totals of user and system time are rounded down separately.
const TICKS_S: f64 = 0.02;

/// Least number of births in no sample, and their least number per response, that make births in
/// the server likely.
const UNSEEN_BIRTHS: f64 = 100.0;
const UNSEEN_BIRTHS_PER_RESPONSE: f64 = 0.5;

/// Threads and processes that ended before their counters were read, and the counters that are
/// unknown because of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct UnreadCounters {
    /// Threads in a sample of the window that are missing in its last sample.
    pub threads: u64,
    /// Processes in a sample of the window that are missing in its last sample.
    pub processes: u64,
    /// CPU time of ended threads and processes in the window; `None`: unknown.
    pub cpu_s: Option<f64>,
    /// Names of the unknown counters.
    pub unknown: Vec<&'static str>,
}

/// Use of a party between the first and the last of some samples.
pub(super) struct PartyDeltas {
    pub(super) threads: ThreadDeltas,
    pub(super) cpu_s: Option<f64>,
    /// User and system time from the kernel, in any unit.
    pub(super) split: Option<(f64, f64)>,
    /// `None`: every counter that could be read is complete.
    pub(super) unread: Option<UnreadCounters>,
}

impl PartyDeltas {
    /// `samples`: at least two. `responses`: responses in that time; `None`: they were not counted.
    pub(super) fn new(samples: &[&PartySample<'_>], responses: Option<f64>) -> PartyDeltas {
        let (first, last) = (samples[0], samples[samples.len() - 1]);
        let mut threads = first.threads_until(last);
        let ended = EndedBetweenSamples::new(samples, &threads, responses);
        let cpu_s = ended.cpu_s(&threads, first, last);
        let split = split_between(first, last).or_else(|| ended.split(&threads));
        let mut unread = UnreadCounters {
            threads: ended.threads,
            processes: ended.processes,
            cpu_s: cpu_s.map(|cpu_s| (cpu_s - threads.living_s()).max(0.0)),
            unknown: Vec::new(),
        };
        if cpu_s.is_none() && !last.threads.is_empty() && first.cgroup.is_none() {
            unread.unknown.push("CPU time");
        }
        ended.correct_faults(&mut threads, &mut unread.unknown);
        ended.clear(&mut threads, cpu_s, (first, last), &mut unread.unknown);
        let unread = Some(unread).filter(|unread| !unread.unknown.is_empty());
        PartyDeltas { threads, cpu_s, split, unread }
    }
}

/// Threads and processes that ended between samples, as far as they are known.
struct EndedBetweenSamples {
    threads: u64,
    processes: u64,
    /// CPU seconds of processes' ended threads and of reaped children, as far as totals include
    /// them.
    totals_s: f64,
    /// User and system seconds of whole processes; `None`: no totals, or nothing ended.
    split_s: Option<(f64, f64)>,
    /// Minor and major page faults of all processes; `None`: no totals, or some are missing.
    faults: Option<(u64, u64)>,
    /// Whether a process ended that no process of the party waited for, or uncounted births are
    /// likely.
    is_process_lost: bool,
    /// Last known CPU seconds and context switches of ended threads, beyond the first sample.
    seen_s: f64,
    seen_switches: u64,
    /// Whether so many births are in no sample that they are likely the server's.
    has_unseen_births: bool,
}

impl EndedBetweenSamples {
    fn new(
        samples: &[&PartySample<'_>],
        threads: &ThreadDeltas,
        responses: Option<f64>,
    ) -> EndedBetweenSamples {
        let (first, last) = (samples[0], samples[samples.len() - 1]);
        let gone = GoneThreads::new(samples);
        let totals = Totals::new(first, last);
        let has_totals = samples.iter().all(|seen| !seen.each.is_empty());
        let totals_s = if has_totals { totals.ended_s(first, last) } else { 0.0 };
        let unseen = unseen_births(first, last);
        let loses_children = unseen.is_some_and(|n| n >= LOST_BIRTHS)
            && last.each.iter().any(|process| process.ignores_children);
        let has_unseen_births = loses_children || are_the_servers(unseen, responses);
        let is_accounted = totals_s > MAX_UNREAD * threads.run_s;
        // Without totals, the threads decide, because no counter includes the ended ones. The
        // totals of each process that waits to be reaped are rounded down by up to two ticks.
        let rounded_s = totals.zombie_count(last) as f64 * TICKS_S;
        let is_rounded_off = rounded_s > MAX_UNREAD * (threads.run_s + totals_s);
        let is_lost_without = !has_totals && gone.run_s > MAX_UNREAD * threads.run_s;
        EndedBetweenSamples {
            threads: gone.threads,
            processes: gone_processes(samples),
            totals_s,
            split_s: (has_totals && totals_s > 0.0).then(|| totals.split_s()),
            faults: (has_totals && totals.children_are_complete()).then(|| totals.faults()),
            is_process_lost: is_lost_without
                || loses_children
                || has_unseen_births && !is_accounted
                || is_rounded_off
                || has_totals && !(totals.children_are_complete() && all_were_reaped(samples)),
            seen_s: gone.run_s,
            seen_switches: gone.switches,
            has_unseen_births,
        }
    }

    /// Returns the CPU seconds of the whole party; `None`: a part of them is unknown.
    fn cpu_s(
        &self,
        threads: &ThreadDeltas,
        first: &PartySample<'_>,
        last: &PartySample<'_>,
    ) -> Option<f64> {
        if first.cgroup.is_some() || last.threads.is_empty() {
            return cpu_between(first, last);
        }
        // The probes saw the ends of threads and processes.
        if last.ended.is_some() {
            return Some(threads.run_s);
        }
        (!self.is_process_lost).then_some(threads.run_s + self.totals_s)
    }

    fn split(&self, threads: &ThreadDeltas) -> Option<(f64, f64)> {
        self.split_s.or(Some((threads.user_s, threads.sys_s)))
    }

    /// Takes page faults of whole processes, which are exact and include those of ended threads.
    fn correct_faults(&self, threads: &mut ThreadDeltas, unknown: &mut Vec<&'static str>) {
        let has_ended = self.threads + threads.ended.threads > 0
            || self.processes > 0
            || self.totals_s > 0.0
            || self.has_unseen_births;
        if let Some((minor, major)) = self.faults.filter(|_| !self.is_process_lost) {
            threads.faults_minor = threads.faults_minor.map(|known| known.max(minor));
            threads.faults_major = threads.faults_major.map(|known| known.max(major));
        } else if has_ended && threads.faults_minor.is_some() {
            (threads.faults_minor, threads.faults_major) = (None, None);
            unknown.push("page faults");
        }
    }

    /// Empties the counters of threads that ended threads may have contributed to.
    fn clear(
        &self,
        threads: &mut ThreadDeltas,
        cpu_s: Option<f64>,
        (first, last): (&PartySample<'_>, &PartySample<'_>),
        unknown: &mut Vec<&'static str>,
    ) {
        // Without threads, their counters are unknown.
        if last.threads.is_empty() {
            return;
        }
        let seconds = last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
        // CPU time in the totals, or in the group, beyond that of the threads that were read.
        let unread_s = cpu_s.map(|cpu_s| cpu_s - threads.run_s);
        let skew_s = |cpu_s: f64| SKEW_S + cpu_s / seconds * first.took_ns as f64 / 1e9;
        let is_unread = match (cpu_s, unread_s) {
            (Some(cpu_s), Some(unread_s)) => unread_s > MAX_UNREAD * cpu_s + skew_s(cpu_s),
            // A group that does not count CPU time does not show whether threads are missing.
            _ => first.cgroup.is_none() && !last.threads.is_empty(),
        };
        let switches = threads.switches().unwrap_or(0) as f64;
        let by_probe = threads.ended;
        let has_probe = last.ended.is_some();
        let share = |part: f64, rest: f64| part > MAX_UNREAD * (part + rest);
        let is_gone = !has_probe
            && (share(self.seen_s, threads.run_s)
                || share(self.seen_switches as f64, switches)
                || self.has_unseen_births);
        let is_seen_to_end =
            has_probe && share((by_probe.threads + by_probe.wakeups) as f64, switches);
        if is_unread || is_gone {
            threads.run_delay_s = None;
            threads.roles.values_mut().for_each(|role| role.run_delay_s = None);
            unknown.push("run delay");
        }
        if (is_unread || is_gone || is_seen_to_end) && threads.switches().is_some() {
            (threads.voluntary, threads.involuntary) = (None, None);
            unknown.push("context switches");
        }
        let busiest_s = threads.busiest_s.unwrap_or(0.0);
        let most_s = unread_s.map(|unread_s| unread_s.max(by_probe.running_s).max(self.seen_s));
        let ends = is_unread || is_gone || by_probe.threads > 0;
        if ends && most_s.is_none_or(|most_s| most_s > busiest_s) && threads.busiest_s.is_some() {
            threads.busiest_s = None;
            unknown.push("busiest thread");
        }
        let working_s = threads.working.as_ref().map_or(0.0, ServingThreads::lived_s);
        let have_served = share(by_probe.serving_lived_s, working_s)
            || by_probe.serving_s > MAX_SERVED * threads.run_s;
        if is_unread || is_gone || have_served {
            threads.wanted_s = None;
            threads.working = None;
            unknown.push("thread states");
        }
        if is_unread && cpu_s.is_none() {
            threads.roles.clear();
        }
        if (is_unread || is_gone) && has_probe {
            (threads.wakeups, threads.migrations, threads.modes) = (None, None, None);
        }
    }
}

/// Threads that a sample shows and the last does not.
#[derive(Default)]
struct GoneThreads {
    threads: u64,
    run_s: f64,
    switches: u64,
}

impl GoneThreads {
    fn new(samples: &[&PartySample<'_>]) -> GoneThreads {
        let key = |thread: &ThreadUse| (thread.pid, thread.tid);
        let (first, last) = (samples[0], samples[samples.len() - 1]);
        let lives: BTreeSet<_> = last.threads.iter().map(key).collect();
        let before: BTreeMap<_, _> =
            first.threads.iter().map(|thread| (key(thread), thread)).collect();
        let mut latest = BTreeMap::new();
        for seen in samples {
            let gone = seen.threads.iter().filter(|thread| !lives.contains(&key(thread)));
            latest.extend(gone.map(|thread| (key(thread), thread)));
        }
        let switches = |thread: &ThreadUse| {
            thread.switches_voluntary.unwrap_or(0) + thread.switches_involuntary.unwrap_or(0)
        };
        let mut sum = GoneThreads { threads: latest.len() as u64, ..GoneThreads::default() };
        for (key, thread) in latest {
            let then = before.get(&key);
            sum.run_s +=
                thread.run_ns.saturating_sub(then.map_or(0, |then| then.run_ns)) as f64 / 1e9;
            sum.switches += switches(thread).saturating_sub(then.map_or(0, |then| switches(then)));
        }
        sum
    }
}

type Key = (u32, u64);

const fn key(process: &ProcessUse) -> Key {
    (process.pid, process.began_ticks)
}

fn gone_processes(samples: &[&PartySample<'_>]) -> u64 {
    let last: BTreeSet<Key> = samples[samples.len() - 1].each.iter().map(key).collect();
    let all: BTreeSet<Key> = samples.iter().flat_map(|seen| seen.each.iter().map(key)).collect();
    all.difference(&last).count() as u64
}

/// Whether other processes of the party waited for all processes that ended. Page faults are exact
/// and decide it: a child's are in its parent's totals as soon as it was waited for.
fn all_were_reaped(samples: &[&PartySample<'_>]) -> bool {
    samples.windows(2).all(|pair| {
        let later: BTreeMap<Key, &ProcessUse> =
            pair[1].each.iter().map(|each| (key(each), each)).collect();
        let (stayed, gone): (Vec<&ProcessUse>, Vec<&ProcessUse>) =
            pair[0].each.iter().partition(|each| later.contains_key(&key(each)));
        let had: u64 = gone.iter().map(|each| each.faults_minor + each.children_faults_minor).sum();
        let gained = stayed.iter().map(|each| {
            later[&key(each)].children_faults_minor.saturating_sub(each.children_faults_minor)
        });
        // Processes born and waited for between the two samples, including those of a parent born
        // between them.
        let born = pair[1]
            .each
            .iter()
            .filter(|each| !stayed.iter().any(|stayed| key(stayed) == key(each)));
        had <= gained.sum::<u64>() + born.map(|each| each.children_faults_minor).sum::<u64>()
    })
}

/// Returns the number of threads and processes born on the machine that are in no sample. `None`:
/// the kernel does not count births.
fn unseen_births(first: &PartySample<'_>, last: &PartySample<'_>) -> Option<f64> {
    let births = |seen: &PartySample<'_>| seen.host.and_then(|host| host.births);
    let (then, now) = (births(first)?, births(last)?);
    let threads = |seen: &PartySample<'_>| -> BTreeSet<u32> {
        seen.sample
            .parties
            .iter()
            .flat_map(|party| party.threads.iter().map(|thread| thread.tid))
            .collect()
    };
    let seen = threads(last).difference(&threads(first)).count() as f64;
    Some(now.saturating_sub(then) as f64 - seen)
}

/// Whether these births are likely the server's: about one per response.
fn are_the_servers(unseen: Option<f64>, responses: Option<f64>) -> bool {
    let both = unseen.zip(responses);
    both.is_some_and(|(unseen, responses)| {
        unseen >= UNSEEN_BIRTHS.max(UNSEEN_BIRTHS_PER_RESPONSE * responses)
    })
}

/// Differences of the totals of processes.
struct Totals {
    /// Totals of each process that is in the last sample.
    living: Vec<(u32, ProcessUse)>,
    /// Totals in the first sample of the processes that are gone: their parents' totals include
    /// them.
    gone: ProcessUse,
}

impl Totals {
    fn new(first: &PartySample<'_>, last: &PartySample<'_>) -> Totals {
        let mut before: BTreeMap<Key, &ProcessUse> =
            first.each.iter().map(|each| (key(each), each)).collect();
        let window_ns = last.at_ns.saturating_sub(first.at_ns);
        let since = |now: &ProcessUse| {
            let then = before.remove(&key(now)).cloned();
            // A process that ran for longer than the stretch lasted joined from elsewhere. Its
            // earlier use does not belong here.
            let threads = last.threads.iter().filter(|thread| thread.pid == now.pid).count() as u64;
            let joined = then.is_none() && now.cpu_ns() > window_ns.saturating_mul(threads.max(1));
            let then =
                then.unwrap_or_else(|| if joined { now.clone() } else { ProcessUse::default() });
            (now.pid, difference(now, &then))
        };
        let living = last.each.iter().map(since).collect();
        let gone = before.into_values().fold(ProcessUse::default(), |sum, each| ProcessUse {
            children_user_ns: sum.children_user_ns + each.user_ns + each.children_user_ns,
            children_sys_ns: sum.children_sys_ns + each.sys_ns + each.children_sys_ns,
            children_faults_minor: sum.children_faults_minor
                + each.faults_minor
                + each.children_faults_minor,
            children_faults_major: sum.children_faults_major
                + each.faults_major
                + each.children_faults_major,
            ..sum
        });
        Totals { living, gone }
    }

    fn sum(&self, pick: impl Fn(&ProcessUse) -> u64) -> u64 {
        self.living.iter().map(|(_, each)| pick(each)).sum()
    }

    /// Whether the children's totals include everything that the ended processes had.
    fn children_are_complete(&self) -> bool {
        self.sum(|each| each.children_faults_minor) >= self.gone.children_faults_minor
    }

    /// Processes without a thread, which wait to be reaped, and used CPU time since the first
    /// sample.
    fn zombie_count(&self, last: &PartySample<'_>) -> usize {
        let pids: BTreeSet<u32> = last.threads.iter().map(|thread| thread.pid).collect();
        let is_dead = |(pid, total): &&(u32, ProcessUse)| !pids.contains(pid) && total.cpu_ns() > 0;
        self.living.iter().filter(is_dead).count()
    }

    /// Returns the CPU seconds of ended threads of living processes, and of children that were
    /// waited for.
    fn ended_s(&self, first: &PartySample<'_>, last: &PartySample<'_>) -> f64 {
        let threads = self.living.iter().map(|(pid, total)| {
            let of = |seen: &PartySample<'_>| -> BTreeMap<u32, u64> {
                let own = seen.threads.iter().filter(|thread| thread.pid == *pid);
                own.map(|thread| (thread.tid, thread.run_ns)).collect()
            };
            let (then, now) = (of(first), of(last));
            let since =
                |(tid, ns): (&u32, &u64)| ns.saturating_sub(then.get(tid).copied().unwrap_or(0));
            let read_s = now.iter().map(since).sum::<u64>() as f64 / 1e9;
            let unread_s = total.cpu_ns() as f64 / 1e9 - read_s;
            // A process that waits to be reaped has no threads to compare with.
            let is_dead = now.is_empty();
            if is_dead || unread_s > TICKS_S + MAX_UNREAD * read_s {
                unread_s.max(0.0)
            } else {
                0.0
            }
        });
        let children_ns = self.sum(ProcessUse::children_cpu_ns);
        threads.sum::<f64>() + children_ns.saturating_sub(self.gone.children_cpu_ns()) as f64 / 1e9
    }

    fn split_s(&self) -> (f64, f64) {
        let seconds = |ns: u64, gone: u64| ns.saturating_sub(gone) as f64 / 1e9;
        (
            seconds(
                self.sum(|each| each.user_ns + each.children_user_ns),
                self.gone.children_user_ns,
            ),
            seconds(self.sum(|each| each.sys_ns + each.children_sys_ns), self.gone.children_sys_ns),
        )
    }

    fn faults(&self) -> (u64, u64) {
        let minor = self.sum(|each| each.faults_minor + each.children_faults_minor);
        let major = self.sum(|each| each.faults_major + each.children_faults_major);
        (
            minor.saturating_sub(self.gone.children_faults_minor),
            major.saturating_sub(self.gone.children_faults_major),
        )
    }
}

const fn difference(now: &ProcessUse, then: &ProcessUse) -> ProcessUse {
    ProcessUse {
        pid: now.pid,
        began_ticks: now.began_ticks,
        user_ns: now.user_ns.saturating_sub(then.user_ns),
        sys_ns: now.sys_ns.saturating_sub(then.sys_ns),
        faults_minor: now.faults_minor.saturating_sub(then.faults_minor),
        faults_major: now.faults_major.saturating_sub(then.faults_major),
        children_user_ns: now.children_user_ns.saturating_sub(then.children_user_ns),
        children_sys_ns: now.children_sys_ns.saturating_sub(then.children_sys_ns),
        children_faults_minor: now.children_faults_minor.saturating_sub(then.children_faults_minor),
        children_faults_major: now.children_faults_major.saturating_sub(then.children_faults_major),
        ignores_children: now.ignores_children,
    }
}

#[cfg(test)]
mod tests;
