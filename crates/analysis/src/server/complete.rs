//! Decides which counters of a party (a monitored process group) are complete over a stretch of
//! time, and clears the others.
//!
//! Threads and processes may end before their counters are read. No other module checks this, so
//! rules and metrics can rely on counters that are not empty:
//!
//! - A control group's CPU time covers everything.
//! - A process's totals include its ended threads: CPU time in ticks of the clock, and exact page
//!   faults.
//! - The totals of a process's children include only those that it waited for.
//! - The kernel probes record states, wake-ups and CPU time of ended threads, but neither context
//!   switches nor page faults. Samples have no ended threads if the probes had no space for some of
//!   them.
//! - No file of the kernel shows context switches and the wait for a CPU of an ended thread.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::sample::{ProcessUse, ThreadUse};
use schemars::JsonSchema;
use serde::Serialize;

use super::threads::{ServingThreads, ThreadDeltas, thread_key};
use super::{PartySample, cpu_between, split_between};

/// Largest share of a counter that ended threads may have had without making it unknown.
const MAX_UNREAD: f64 = 0.01;

/// Largest share of the CPU time that ended serving threads may have had without making thread
/// states unknown. Rules on states need half of the time, so this share does not change their
/// result.
const MAX_ENDED_SERVING: f64 = 0.1;

/// Largest share of short children in the CPU time whose split into user and system time is known.
const MAX_CHILDREN: f64 = 0.5;

/// Smallest mean CPU time of children that are not short, seconds: five ticks.
const MIN_CHILD_S: f64 = 0.05;

/// Largest share of the CPU time that its split into user and system time may lack.
const MAX_UNSPLIT: f64 = 0.05;

/// CPU time that a thread may use between the readings of its group's and its own counters,
/// seconds.
const SKEW_S: f64 = 0.001;

/// Minimum number of births (starts of threads or processes) that no sample shows, for CPU time of
/// children to count as missing. The rule applies only if a process of the party ignores SIGCHLD:
/// the kernel does not add an ended child to the totals of such a process. An idle machine had two
/// births in ten seconds.
const MIN_LOST_BIRTHS: f64 = 10.0;

/// Rounding error of a process total, seconds: user and system time are each rounded down by up to
/// one clock tick.
pub(super) const TICKS_S: f64 = 0.02;

/// Minimum number of births in no sample that are attributed to the server.
const UNSEEN_BIRTHS: f64 = 100.0;

/// Minimum number of births in no sample per response that are attributed to the server.
const UNSEEN_BIRTHS_PER_RESPONSE: f64 = 0.5;

/// Threads and processes that ended before their counters were read, and the counters that are
/// unknown for this reason.
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
    /// User and system time from the kernel, in any unit; both 0: less than a clock tick. `None`:
    /// unknown, because ended threads or processes used a part of them.
    pub(super) split: Option<(f64, f64)>,
    /// `None`: every counter that could be read is complete.
    pub(super) unread: Option<UnreadCounters>,
}

impl PartyDeltas {
    /// Computes the use between the first and the last sample. `samples`: at least two.
    /// `responses`: responses in that time; `None`: responses were not counted.
    pub(super) fn new(samples: &[&PartySample<'_>], responses: Option<f64>) -> PartyDeltas {
        let (first, last) = (samples[0], samples[samples.len() - 1]);
        let mut threads = first.threads_until(last);
        let ended = EndedBetweenSamples::new(samples, &threads, responses);
        let cpu_s = ended.cpu_s(&threads, first, last);
        let by_group = split_between(first, last);
        // The group's split is (0, 0) if no clock tick sampled the group. Such a split is the last
        // choice.
        let split = by_group
            .filter(|(user, sys)| user + sys > 0.0)
            .or_else(|| ended.split(&threads, cpu_s?, (first, last)))
            .or(by_group);
        let mut unread = UnreadCounters {
            threads: ended.threads,
            processes: ended.processes,
            cpu_s: cpu_s.map(|cpu_s| (cpu_s - threads.live_threads_cpu_s()).max(0.0)),
            unknown: Vec::new(),
        };
        if cpu_s.is_none() && !last.threads.is_empty() && first.cgroup.is_none() {
            unread.unknown.push("CPU time");
        }
        if cpu_s.is_some() && split.is_none() {
            unread.unknown.push("user and system time");
        }
        ended.correct_faults(&mut threads, &mut unread.unknown);
        ended.clear(&mut threads, cpu_s, (first, last), &mut unread.unknown);
        let unread = Some(unread).filter(|unread| !unread.unknown.is_empty());
        PartyDeltas { threads, cpu_s, split, unread }
    }
}

/// Known use of threads and processes that ended between samples.
struct EndedBetweenSamples {
    threads: u64,
    processes: u64,
    /// CPU seconds of ended threads and of reaped children, according to process totals.
    totals_s: f64,
    /// User and system seconds of whole processes; `None`: no totals, or nothing ended.
    split_s: Option<(f64, f64)>,
    /// Minor and major page faults of all processes; `None`: no totals, or some are missing.
    faults: Option<(u64, u64)>,
    /// Whether the totals lack CPU time, or are too coarse. For example, a process ended that no
    /// process of the party waited for.
    is_process_lost: bool,
    /// Last known CPU seconds and context switches of ended threads, since the first sample.
    gone_s: f64,
    gone_switches: u64,
    /// Whether so many births are in no sample that they are likely the server's.
    has_unseen_births: bool,
    /// Whether a process joined that does not descend from a known one.
    has_joined: bool,
    /// Whether the counters of a thread include those of another ([`has_executed`]).
    has_executed: bool,
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
        let has_totals = samples.iter().all(|sample| !sample.each.is_empty());
        let totals_s = if has_totals { totals.ended_s(first, last) } else { 0.0 };
        let unseen = unseen_births(first, last);
        let processes = gone_processes(samples);
        let of_server = unseen.filter(|_| are_births_of_server(unseen, responses));
        let ended = processes as f64 + of_server.unwrap_or(0.0);
        let loses_children = unseen.is_some_and(|n| n >= MIN_LOST_BIRTHS)
            && last.each.iter().any(|process| process.ignores_children);
        let has_unseen_births = loses_children || are_births_of_server(unseen, responses);
        let do_totals_show_ends = totals_s > MAX_UNREAD * threads.run_s;
        // The total of each process that waits to be reaped is rounded down by up to two ticks.
        let rounding_s = totals.zombie_count(last) as f64 * TICKS_S;
        let is_rounding_large = rounding_s > MAX_UNREAD * (threads.run_s + totals_s);
        // Without process totals, no counter includes threads that ended.
        let has_lost_threads = !has_totals && gone.run_s > MAX_UNREAD * threads.run_s;
        let has_uncounted_births = has_unseen_births && !do_totals_show_ends;
        let has_unreaped_children =
            has_totals && !(totals.children_are_complete() && are_all_reaped(samples));
        EndedBetweenSamples {
            threads: gone.threads,
            processes,
            totals_s,
            split_s: if has_totals && totals_s > 0.0 { totals.split_s(ended) } else { None },
            faults: (has_totals && totals.children_are_complete()).then(|| totals.faults()),
            is_process_lost: has_lost_threads
                || loses_children
                || has_uncounted_births
                || is_rounding_large
                || has_unreaped_children,
            gone_s: gone.run_s,
            gone_switches: gone.switches,
            has_unseen_births,
            has_joined: samples[1..].iter().any(|sample| sample.used.has_joined),
            has_executed: has_executed(first, last),
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
        // Neither the children of a joined process nor its own past are known.
        if self.has_joined || self.has_executed {
            return None;
        }
        // The probes saw the ends of threads and processes.
        if last.ended.is_some() {
            return Some(threads.run_s);
        }
        (!self.is_process_lost).then_some(threads.run_s + self.totals_s)
    }

    /// Returns user and system seconds of whole processes or of living threads. `None`: ended
    /// threads or processes used CPU time that these seconds do not include.
    fn split(
        &self,
        threads: &ThreadDeltas,
        cpu_s: f64,
        (first, last): (&PartySample<'_>, &PartySample<'_>),
    ) -> Option<(f64, f64)> {
        let (split_s, ended_s, rounding_s) = match self.split_s {
            Some(split_s) => (split_s, self.totals_s, TICKS_S),
            None => ((threads.user_s, threads.sys_s), 0.0, 0.0),
        };
        let unsplit_s = cpu_s - threads.live_threads_cpu_s() - ended_s;
        let max_s = MAX_UNSPLIT * cpu_s + skew_s(cpu_s, first, last) + rounding_s;
        (unsplit_s <= max_s).then_some(split_s)
    }

    /// Replaces page faults by the counts of whole processes, which are exact and include ended
    /// threads.
    fn correct_faults(&self, threads: &mut ThreadDeltas, unknown: &mut Vec<&'static str>) {
        let has_ended = self.threads + threads.ended.threads > 0
            || self.processes > 0
            || self.totals_s > 0.0
            || self.has_unseen_births;
        // The totals and the threads of a joined process include its earlier faults.
        let has_earlier = self.has_joined || self.has_executed;
        let totals = self.faults.filter(|_| !self.is_process_lost && !has_earlier);
        if let Some((minor, major)) = totals {
            threads.faults_minor = threads.faults_minor.map(|known| known.max(minor));
            threads.faults_major = threads.faults_major.map(|known| known.max(major));
        } else if (has_ended || has_earlier) && threads.faults_minor.is_some() {
            (threads.faults_minor, threads.faults_major) = (None, None);
            unknown.push("page faults");
        }
    }

    /// Whether the counters of the threads lack a part, or include earlier use of a joined process.
    /// `cpu_s`: CPU seconds of the party, and the part that no thread accounts for.
    fn is_unread(
        &self,
        cpu_s: Option<(f64, f64)>,
        first: &PartySample<'_>,
        last: &PartySample<'_>,
    ) -> bool {
        self.has_joined
            || self.has_executed
            || match cpu_s {
                Some((cpu_s, unread_s)) => {
                    unread_s > MAX_UNREAD * cpu_s + skew_s(cpu_s, first, last)
                }
                // A group that does not count CPU time does not show whether threads are missing.
                // If it counts CPU time but the growth is unknown, it was replaced by another.
                None => first.cgroup.is_none_or(|group| group.cpu_ns.is_some()),
            }
    }

    /// Clears the counters to which ended threads may have contributed.
    fn clear(
        &self,
        threads: &mut ThreadDeltas,
        cpu_s: Option<f64>,
        (first, last): (&PartySample<'_>, &PartySample<'_>),
        unknown: &mut Vec<&'static str>,
    ) {
        // If threads could not be read, their counters are empty already.
        if last.threads.is_empty() {
            return;
        }
        // CPU time of the process totals or the group that no thread accounts for.
        let unread_s = cpu_s.map(|cpu_s| cpu_s - threads.run_s);
        let is_unread = self.is_unread(cpu_s.zip(unread_s), first, last);
        let switches = threads.switches().unwrap_or(0) as f64;
        let probed_ends = threads.ended;
        let has_probe = last.ended.is_some();
        let is_large = |part: f64, rest: f64| part > MAX_UNREAD * (part + rest);
        let are_threads_gone = !has_probe
            && (is_large(self.gone_s, threads.run_s)
                || is_large(self.gone_switches as f64, switches)
                || self.has_unseen_births);
        let have_observed_ends =
            has_probe && is_large((probed_ends.threads + probed_ends.wakeups) as f64, switches);
        if is_unread || are_threads_gone {
            threads.run_delay_s = None;
            threads.roles.values_mut().for_each(|role| role.run_delay_s = None);
            unknown.push("run delay");
        }
        if (is_unread || are_threads_gone || have_observed_ends) && threads.switches().is_some() {
            (threads.voluntary, threads.involuntary) = (None, None);
            unknown.push("context switches");
        }
        let max_ended_s =
            unread_s.map(|unread_s| unread_s.max(probed_ends.running_s).max(self.gone_s));
        let have_ended = is_unread || are_threads_gone || probed_ends.threads > 0;
        // The busiest thread is unknown if an ended thread may have been busier than the busiest
        // living one.
        let is_unknown = |busiest_s: &mut f64| {
            self.has_joined
                || self.has_executed
                || have_ended && max_ended_s.is_none_or(|max_ended_s| max_ended_s > *busiest_s)
        };
        threads.busiest_serving_s.take_if(is_unknown);
        if threads.busiest_s.take_if(is_unknown).is_some() {
            unknown.push("busiest thread");
        }
        let serving_lived_s = threads.serving.as_ref().map_or(0.0, ServingThreads::lifetime_s);
        let have_served = is_large(probed_ends.serving_lived_s, serving_lived_s)
            || probed_ends.serving_s > MAX_ENDED_SERVING * threads.run_s;
        if is_unread || are_threads_gone || have_served {
            threads.wanted_s = None;
            threads.serving = None;
            unknown.push("thread states");
        }
        if is_unread && (cpu_s.is_none() || self.has_executed) {
            threads.roles.clear();
            threads.sleepless_s.clear();
        }
        if is_unread || are_threads_gone {
            (threads.wakeups, threads.migrations, threads.modes) = (None, None, None);
        }
    }
}

/// Whether a thread other than the first of its process has called execve(2). It takes the TID and
/// the start time of the first thread and keeps its own counters (`de_thread` in fs/exec.c), so the
/// growth of the first thread includes earlier use. A thread cannot use more than its process.
pub(super) fn has_executed(first: &PartySample<'_>, last: &PartySample<'_>) -> bool {
    let totals = |sample: &PartySample<'_>| -> BTreeMap<Key, u64> {
        sample.each.iter().map(|each| (key(each), each.cpu_ns())).collect()
    };
    let run_ns: BTreeMap<_, u64> =
        first.threads.iter().map(|thread| (thread_key(thread), thread.run_ns)).collect();
    let (then, now) = (totals(first), totals(last));
    let mut first_threads = last.threads.iter().filter(|thread| thread.tid == thread.pid);
    first_threads.any(|thread| {
        let growth = || {
            let process = (thread.pid, thread.began_ticks?);
            let thread_ns = thread.run_ns.checked_sub(*run_ns.get(&thread_key(thread))?)?;
            let process_ns = now.get(&process)?.checked_sub(*then.get(&process)?)?;
            Some((thread_ns as f64 / 1e9, process_ns as f64 / 1e9))
        };
        growth().is_some_and(|(thread_s, process_s)| {
            // The thread is read after the totals of its process.
            let read_s = last.took_ns.max(first.took_ns) as f64 / 1e9;
            thread_s > process_s + TICKS_S + SKEW_S + read_s
        })
    })
}

/// Returns the CPU seconds that a party which used `cpu_s` may use while its counters are read.
fn skew_s(cpu_s: f64, first: &PartySample<'_>, last: &PartySample<'_>) -> f64 {
    let seconds = last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
    SKEW_S + cpu_s / seconds * first.took_ns as f64 / 1e9
}

/// Use of the threads that are in an earlier sample and not in the last one.
#[derive(Default)]
struct GoneThreads {
    threads: u64,
    run_s: f64,
    switches: u64,
}

impl GoneThreads {
    fn new(samples: &[&PartySample<'_>]) -> GoneThreads {
        let (first, last) = (samples[0], samples[samples.len() - 1]);
        let living_keys: BTreeSet<_> = last.threads.iter().map(thread_key).collect();
        let before: BTreeMap<_, _> =
            first.threads.iter().map(|thread| (thread_key(thread), thread)).collect();
        let mut latest = BTreeMap::new();
        for sample in samples {
            let is_gone = |thread: &&ThreadUse| !living_keys.contains(&thread_key(thread));
            let gone = sample.threads.iter().filter(is_gone);
            latest.extend(gone.map(|thread| (thread_key(thread), thread)));
        }
        let switches = |thread: &ThreadUse| {
            thread.switches_voluntary.unwrap_or(0) + thread.switches_involuntary.unwrap_or(0)
        };
        let mut sum = GoneThreads { threads: latest.len() as u64, ..GoneThreads::default() };
        for (key, thread) in latest {
            let earlier = before.get(&key);
            let earlier_run_ns = earlier.map_or(0, |earlier| earlier.run_ns);
            let earlier_switches = earlier.map_or(0, |earlier| switches(earlier));
            sum.run_s += thread.run_ns.saturating_sub(earlier_run_ns) as f64 / 1e9;
            sum.switches += switches(thread).saturating_sub(earlier_switches);
        }
        sum
    }
}

/// Process id and start time, because ids are reused.
pub(super) type Key = (u32, u64);

/// Returns the key of a process.
pub(super) const fn key(process: &ProcessUse) -> Key {
    (process.pid, process.began_ticks)
}

/// Returns the number of processes in a sample that are missing in the last one.
fn gone_processes(samples: &[&PartySample<'_>]) -> u64 {
    let last: BTreeSet<Key> = samples[samples.len() - 1].each.iter().map(key).collect();
    let all: BTreeSet<Key> =
        samples.iter().flat_map(|sample| sample.each.iter().map(key)).collect();
    all.difference(&last).count() as u64
}

/// Whether other processes of the party waited for all processes that ended. The check uses page
/// faults, because their counts are exact. A parent's totals include the totals of each child for
/// which the parent has waited.
fn are_all_reaped(samples: &[&PartySample<'_>]) -> bool {
    samples.windows(2).all(|pair| {
        let (earlier, later) = (pair[0], pair[1]);
        let later_by_key: BTreeMap<Key, &ProcessUse> =
            later.each.iter().map(|each| (key(each), each)).collect();
        let (remaining, gone): (Vec<&ProcessUse>, Vec<&ProcessUse>) =
            earlier.each.iter().partition(|each| later_by_key.contains_key(&key(each)));
        let gone_faults: u64 =
            gone.iter().map(|each| each.faults_minor + each.children_faults_minor).sum();
        let gained_faults = remaining.iter().map(|each| {
            later_by_key[&key(each)]
                .children_faults_minor
                .saturating_sub(each.children_faults_minor)
        });
        // Processes born between the two samples may have waited for children, too.
        let born = later
            .each
            .iter()
            .filter(|each| !remaining.iter().any(|remaining| key(remaining) == key(each)));
        gone_faults
            <= gained_faults.sum::<u64>() + born.map(|each| each.children_faults_minor).sum::<u64>()
    })
}

/// Returns the number of threads and processes born on the machine that are in no sample. `None`:
/// the kernel does not count births, or their count decreased.
fn unseen_births(first: &PartySample<'_>, last: &PartySample<'_>) -> Option<f64> {
    let births = |sample: &PartySample<'_>| sample.host.and_then(|host| host.births);
    let (then, now) = (births(first)?, births(last)?);
    let threads = |sample: &PartySample<'_>| -> BTreeSet<u32> {
        sample
            .sample
            .parties
            .iter()
            .flat_map(|party| party.threads.iter().map(|thread| thread.tid))
            .collect()
    };
    let observed = threads(last).difference(&threads(first)).count() as f64;
    Some(now.checked_sub(then)? as f64 - observed)
}

/// Whether births are likely the server's: about one per response.
fn are_births_of_server(unseen: Option<f64>, responses: Option<f64>) -> bool {
    let known = unseen.zip(responses);
    known.is_some_and(|(unseen, responses)| {
        unseen >= UNSEEN_BIRTHS.max(UNSEEN_BIRTHS_PER_RESPONSE * responses)
    })
}

/// Differences of the totals of processes.
struct Totals {
    /// Process id, and totals since the first sample, of each process in the last sample.
    living: Vec<(u32, ProcessUse)>,
    /// Totals in the first sample of the processes that have ended since. Their parents' totals
    /// include them as totals of children, so only the `children_` fields are set.
    gone: ProcessUse,
}

impl Totals {
    fn new(first: &PartySample<'_>, last: &PartySample<'_>) -> Totals {
        let mut before: BTreeMap<Key, &ProcessUse> =
            first.each.iter().map(|each| (key(each), each)).collect();
        let window_ns = last.at_ns.saturating_sub(first.at_ns);
        let since = |now: &ProcessUse| {
            let earlier = before.remove(&key(now)).cloned();
            // A process with more CPU time than the stretch allows was started earlier and joined
            // the party. Its earlier use is excluded.
            let threads = last.threads.iter().filter(|thread| thread.pid == now.pid).count() as u64;
            let max_cpu_ns = window_ns.saturating_mul(threads.max(1));
            let earlier = match earlier {
                Some(earlier) => earlier,
                None if now.cpu_ns() > max_cpu_ns => now.clone(),
                None => ProcessUse::default(),
            };
            (now.pid, difference(now, &earlier))
        };
        let living = last.each.iter().map(since).collect();
        // The ticks of a short process are 0, but its parent's totals include all of its use.
        let unticked_ns = |each: &ProcessUse| {
            let threads = first.threads.iter().filter(|thread| thread.pid == each.pid);
            threads.map(|thread| thread.run_ns).sum::<u64>().saturating_sub(each.cpu_ns())
        };
        let gone = before.into_values().fold(ProcessUse::default(), |sum, each| ProcessUse {
            children_user_ns: sum.children_user_ns
                + each.user_ns
                + unticked_ns(each)
                + each.children_user_ns,
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

    /// Whether the totals of children include all processes that ended. The check uses page faults,
    /// because their counts are exact.
    fn children_are_complete(&self) -> bool {
        self.sum(|each| each.children_faults_minor) >= self.gone.children_faults_minor
    }

    /// Returns the number of processes that wait to be reaped (without a thread), and that used CPU
    /// time since the first sample.
    fn zombie_count(&self, last: &PartySample<'_>) -> usize {
        let pids: BTreeSet<u32> = last.threads.iter().map(|thread| thread.pid).collect();
        let is_dead = |(pid, total): &&(u32, ProcessUse)| !pids.contains(pid) && total.cpu_ns() > 0;
        self.living.iter().filter(is_dead).count()
    }

    /// Returns the CPU seconds of ended threads of living processes, and of children that were
    /// waited for.
    fn ended_s(&self, first: &PartySample<'_>, last: &PartySample<'_>) -> f64 {
        let threads = self.living.iter().map(|(pid, total)| {
            let run_ns_by_thread = |sample: &PartySample<'_>| -> BTreeMap<u32, u64> {
                let threads = sample.threads.iter().filter(|thread| thread.pid == *pid);
                threads.map(|thread| (thread.tid, thread.run_ns)).collect()
            };
            let (then, now) = (run_ns_by_thread(first), run_ns_by_thread(last));
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

    /// Returns user and system seconds of all processes. `None`: most of it is of short children.
    /// The kernel splits the use of a process by the ticks that it had (`cputime_adjust` in
    /// kernel/sched/cputime.c). Without a tick in the kernel, all use is in user mode. `ended`:
    /// number of children that ended.
    fn split_s(&self, ended: f64) -> Option<(f64, f64)> {
        let seconds = |ns: u64, gone: u64| ns.saturating_sub(gone) as f64 / 1e9;
        let split_s = (
            seconds(
                self.sum(|each| each.user_ns + each.children_user_ns),
                self.gone.children_user_ns,
            ),
            seconds(self.sum(|each| each.sys_ns + each.children_sys_ns), self.gone.children_sys_ns),
        );
        let children_s =
            seconds(self.sum(ProcessUse::children_cpu_ns), self.gone.children_cpu_ns());
        let are_short = children_s < MIN_CHILD_S * ended;
        let are_most = children_s > MAX_CHILDREN * (split_s.0 + split_s.1);
        (!are_short || !are_most).then_some(split_s)
    }

    /// Returns minor and major page faults of all processes.
    fn faults(&self) -> (u64, u64) {
        let minor = self.sum(|each| each.faults_minor + each.children_faults_minor);
        let major = self.sum(|each| each.faults_major + each.children_faults_major);
        (
            minor.saturating_sub(self.gone.children_faults_minor),
            major.saturating_sub(self.gone.children_faults_major),
        )
    }
}

/// Returns the growth of each total.
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
