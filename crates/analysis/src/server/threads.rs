//! Computes the differences of thread counters between two samples, in total and by role (such as
//! compilers, garbage collectors and serving threads).

use std::collections::BTreeMap;

use dyno_model::sample::{EndedThreads, ModeTimes, SchedulerRecord, ThreadState, ThreadUse};
use schemars::JsonSchema;
use serde::Serialize;

use crate::roles;

/// Resources that all threads of one role used in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RoleUse {
    /// CPU time, including that of threads that ended in the window if their end was observed.
    pub cpu_s: f64,
    /// Per complete response, correct or incorrect.
    pub cpu_us_per_request: Option<f64>,
    pub run_delay_s: Option<f64>,
    /// Number of threads at the end of the window.
    pub threads: usize,
    /// Threads that ended in the window; `None`: ends of threads were not observed.
    pub ended: Option<u64>,
    /// Seconds in each state, summed over threads: `running`, `runnable`, `lock`, `network`,
    /// `disk`, `sleep`, `other`. Their sum is the window times the number of threads that lived
    /// through it. `None`: states were not observed.
    pub states_s: Option<BTreeMap<&'static str, f64>>,
    /// Number of times that threads of the role were woken up.
    pub wakeups: Option<u64>,
}

impl RoleUse {
    /// Adds the use of the role in the next stretch of time. The number of threads is the number at
    /// the end. A value that is unknown for one stretch is unknown for both together.
    pub(super) fn add(&mut self, next: &RoleUse) {
        self.cpu_s += next.cpu_s;
        self.run_delay_s = self.run_delay_s.zip(next.run_delay_s).map(|(a, b)| a + b);
        self.threads = next.threads;
        self.ended = self.ended.zip(next.ended).map(|(a, b)| a + b);
        self.wakeups = self.wakeups.zip(next.wakeups).map(|(a, b)| a + b);
        self.states_s = self.states_s.take().zip(next.states_s.as_ref()).map(|(mut sums, next)| {
            for (state, seconds) in next {
                *sums.entry(state).or_default() += seconds;
            }
            sums
        });
    }
}

/// The serving threads (`working` in JSON): the threads of roles that serve, if they lived through
/// the window and did not sleep through it. Threads of compilers, garbage collectors and virtual
/// machines are excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Working")]
pub struct ServingThreads {
    pub threads: usize,
    /// Seconds in each state, threads added up.
    pub states_s: BTreeMap<&'static str, f64>,
    /// Number of these threads that waited for neither a lock nor a peer for most of their time.
    /// Threads that alternate on a lock are not counted, because they mostly wait. Only rules of
    /// verdicts read this number.
    #[serde(skip)]
    pub(crate) steady_threads: usize,
}

/// Sleeps (voluntary context switches) per second below which a thread hardly sleeps. A thread that
/// polls does not sleep, and a thread that waits for requests sleeps hundreds of times per second.
const MAX_SLEEPS_PER_S: f64 = 10.0;

/// Minimum share of its time in which a steady thread waits for neither a lock nor a peer.
const STEADY_WORK: f64 = 0.7;

impl ServingThreads {
    /// Returns the seconds that these threads lived in the window, summed.
    #[must_use]
    pub fn lifetime_s(&self) -> f64 {
        self.states_s.values().sum()
    }

    /// Returns the share of the threads' time in a state: 0 to 1.
    #[must_use]
    pub fn share(&self, state: ThreadState) -> f64 {
        let all = self.lifetime_s();
        if all > 0.0 { self.states_s.get(state.name()).copied().unwrap_or(0.0) / all } else { 0.0 }
    }
}

/// The threads of a party at one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Threads<'a> {
    pub(super) at_ns: u64,
    pub(super) living: &'a [ThreadUse],
    /// Threads that ended since monitoring began. `None`: ends of threads were not observed.
    pub(super) ended: Option<&'a [EndedThreads]>,
}

/// Process ID, thread ID and start time of a thread, because IDs are reused.
pub(super) type ThreadKey = (u32, u32, Option<u64>);

/// Returns the key of a thread.
pub(super) const fn thread_key(thread: &ThreadUse) -> ThreadKey {
    (thread.pid, thread.tid, thread.began_ticks)
}

/// The names of processes, which are the names of their first threads.
struct Processes<'a> {
    by_pid: BTreeMap<u32, &'a str>,
    /// Name of the party's first process.
    first: &'a str,
}

impl<'a> Processes<'a> {
    /// Finds the first thread of each process, which has the process's name.
    fn from_threads(living: &'a [ThreadUse]) -> Processes<'a> {
        let mut main_threads =
            living.iter().filter(|t| t.tid == t.pid).map(|t| (t.pid, t.name.as_str())).peekable();
        let first = main_threads.peek().map_or("", |(_, name)| name);
        Processes { first, by_pid: main_threads.collect() }
    }

    /// Returns the role of a thread, by its name and the name of its process.
    fn role_of(&self, thread: &ThreadUse) -> &'static str {
        let process = self.by_pid.get(&thread.pid).copied().unwrap_or(&thread.name);
        roles::thread_role(&thread.name, process, thread.tid == thread.pid)
    }
}

/// Differences of thread counters between two samples. A thread that started between the samples is
/// included from zero. A thread that ended between them is included if its end was observed.
/// If its end was not observed, only the counters of the cgroup include the thread's CPU time.
#[derive(Debug, Default)]
pub(super) struct ThreadDeltas {
    pub(super) run_s: f64,
    pub(super) user_s: f64,
    pub(super) sys_s: f64,
    pub(super) busiest_s: Option<f64>,
    /// CPU time of the busiest thread of a role that serves.
    pub(super) busiest_serving_s: Option<f64>,
    /// Seconds that each thread ran or waited for a CPU.
    pub(super) wanted_s: Option<Vec<f64>>,
    /// The same for the threads of roles that serve, if they hardly slept.
    pub(super) sleepless_s: Vec<f64>,
    /// Whether it is unknown how often some thread of a role that serves slept.
    has_unknown_sleeps: bool,
    pub(super) run_delay_s: Option<f64>,
    pub(super) voluntary: Option<u64>,
    pub(super) involuntary: Option<u64>,
    pub(super) faults_minor: Option<u64>,
    pub(super) faults_major: Option<u64>,
    pub(super) wakeups: Option<u64>,
    pub(super) migrations: Option<u64>,
    /// User and system time, by entries into the kernel.
    pub(super) modes: Option<ModeTimes>,
    pub(super) serving: Option<ServingThreads>,
    pub(super) roles: BTreeMap<&'static str, RoleUse>,
    pub(super) ended: EndedSums,
}

/// Resources used in the window by threads whose end was observed in the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EndedSums {
    pub(super) threads: u64,
    pub(super) wakeups: u64,
    pub(super) running_s: f64,
    /// Part of `running_s` of roles that serve.
    pub(super) serving_s: f64,
    /// Seconds that threads of roles that serve lived in the window, added up.
    pub(super) serving_lived_s: f64,
}

impl ThreadDeltas {
    /// Returns the number of threads that ran or waited for a CPU for this many seconds or more.
    /// `None`: threads are missing.
    pub(super) fn busy(&self, seconds: f64) -> Option<usize> {
        Some(self.wanted_s.as_ref()?.iter().filter(|wanted_s| **wanted_s >= seconds).count())
    }

    /// Returns the number of threads of roles that serve that hardly slept, and ran or waited for a
    /// CPU for this many seconds or more. `None`: unknown.
    pub(super) fn sleepless(&self, seconds: f64) -> Option<usize> {
        let count = self.sleepless_s.iter().filter(|wanted_s| **wanted_s >= seconds).count();
        (!self.has_unknown_sleeps).then_some(count)
    }

    /// Computes the differences between two samples.
    pub(super) fn new(first: Threads<'_>, last: Threads<'_>) -> ThreadDeltas {
        let mut gone: BTreeMap<ThreadKey, &ThreadUse> =
            first.living.iter().map(|t| (thread_key(t), t)).collect();
        let mut deltas = ThreadDeltas::default();
        let processes = Processes::from_threads(last.living);
        let between_ns = last.at_ns.saturating_sub(first.at_ns) + MAX_READ_DELAY_NS;
        for thread in last.living {
            // A thread with more run time than fits between the samples was started earlier and
            // joined the party. Its use between the samples is unknown. It is compared with itself,
            // so it is counted as a thread without use.
            let joined = Some(thread).filter(|thread| thread.run_ns > between_ns);
            deltas.add(
                thread,
                gone.remove(&thread_key(thread)).or(joined),
                processes.role_of(thread),
            );
        }
        let gone: Vec<&ThreadUse> = gone.into_values().collect();
        deltas.add_ended(first, last, &gone, processes.first);
        deltas
    }

    /// Adds the use of a living thread. `before`: its counters in the first sample.
    fn add(&mut self, now: &ThreadUse, before: Option<&ThreadUse>, role: &'static str) {
        let since = |pick: fn(&ThreadUse) -> u64| {
            pick(now).saturating_sub(before.map_or(0, pick)) as f64 / 1e9
        };
        let since_some = |pick: fn(&ThreadUse) -> Option<u64>| {
            Some(pick(now)?.saturating_sub(before.map_or(Some(0), pick)?))
        };
        let run_s = since(|t| t.run_ns);
        self.run_s += run_s;
        self.user_s += since(|t| t.user_ns);
        self.sys_s += since(|t| t.sys_ns);
        self.busiest_s = Some(self.busiest_s.unwrap_or(0.0).max(run_s));
        let serving_s = if roles::serves(role) { run_s } else { 0.0 };
        self.busiest_serving_s = Some(self.busiest_serving_s.unwrap_or(0.0).max(serving_s));
        let delay_s = since_some(|t| t.run_delay_ns).map(|ns| ns as f64 / 1e9);
        let wanted_s = run_s + delay_s.unwrap_or(0.0);
        self.wanted_s.get_or_insert_default().push(wanted_s);
        add_some(&mut self.run_delay_s, delay_s);
        let sleeps = since_some(|t| t.switches_voluntary);
        match sleeps {
            _ if !roles::serves(role) => {}
            None => self.has_unknown_sleeps = true,
            Some(n) if (n as f64) < MAX_SLEEPS_PER_S * wanted_s => self.sleepless_s.push(wanted_s),
            Some(_) => {}
        }
        add_some(&mut self.voluntary, sleeps);
        add_some(&mut self.involuntary, since_some(|t| t.switches_involuntary));
        add_some(&mut self.faults_minor, since_some(|t| t.faults_minor));
        add_some(&mut self.faults_major, since_some(|t| t.faults_major));
        let none = SchedulerRecord::default();
        let observed = now.seen.map(|record| {
            let then = before.and_then(|t| t.seen.as_ref()).unwrap_or(&none);
            SchedulerDelta::new(&record, then)
        });
        let role_use = self.roles.entry(role).or_default();
        role_use.cpu_s += run_s;
        role_use.threads += 1;
        add_some(&mut role_use.run_delay_s, delay_s);
        if let Some(delta) = observed {
            if roles::serves(role) && delta.is_active() {
                let serving = self.serving.get_or_insert_default();
                serving.threads += 1;
                serving.steady_threads += usize::from(delta.is_steady());
                for state in ThreadState::ALL {
                    *serving.states_s.entry(state.name()).or_default() += delta.seconds(state);
                }
            }
            self.add_observed(&delta, role);
        }
    }

    /// Adds the use of threads that ended between the two samples. `gone`: threads of the first
    /// sample that are not in the last.
    fn add_ended(
        &mut self,
        first: Threads<'_>,
        last: Threads<'_>,
        gone: &[&ThreadUse],
        process: &str,
    ) {
        let Some(ended) = last.ended else { return };
        let none = EndedThreads::default();
        let then_of = |now: &EndedThreads| {
            first.ended.and_then(|all| all.iter().find(|e| e.name == now.name)).unwrap_or(&none)
        };
        let grown: Vec<(&EndedThreads, &EndedThreads)> = ended
            .iter()
            .map(|now| (now, then_of(now)))
            .filter(|(now, then)| now.threads > then.threads)
            .collect();
        for ((now, then), gone) in grown.iter().zip(by_last_name(&grown, gone)) {
            let threads = now.threads - then.threads;
            let mut observed = SchedulerDelta::new(&now.seen, &then.seen);
            // Deducts the use of these threads before the first sample.
            for thread in &gone {
                observed.subtract(thread.seen.as_ref().unwrap_or(&SchedulerRecord::default()));
            }
            let role = roles::thread_role(&now.name, process, false);
            let running_s =
                ended_run_s(now, then, &gone).unwrap_or(observed.seconds(ThreadState::Running));
            self.run_s += running_s;
            self.ended.threads += threads;
            self.ended.wakeups += observed.wakeups;
            self.ended.running_s += running_s;
            if roles::serves(role) {
                self.ended.serving_s += running_s;
                self.ended.serving_lived_s +=
                    ThreadState::ALL.iter().map(|state| observed.seconds(*state)).sum::<f64>();
            }
            let role_use = self.roles.entry(role).or_default();
            role_use.cpu_s += running_s;
            // If the run delay of living threads is unknown, the sum stays unknown.
            for delay_s in [&mut self.run_delay_s, &mut role_use.run_delay_s].into_iter().flatten()
            {
                *delay_s += observed.seconds(ThreadState::Runnable);
            }
            *role_use.ended.get_or_insert_default() += threads;
            self.add_observed(&observed, role);
        }
        for role in self.roles.values_mut() {
            role.ended.get_or_insert_default();
        }
    }

    /// Adds the states, wake-ups and migrations that the probes observed.
    fn add_observed(&mut self, observed: &SchedulerDelta, role: &'static str) {
        let role_use = self.roles.entry(role).or_default();
        let states = role_use.states_s.get_or_insert_default();
        for state in ThreadState::ALL {
            *states.entry(state.name()).or_default() += observed.seconds(state);
        }
        add_some(&mut role_use.wakeups, Some(observed.wakeups));
        add_some(&mut self.wakeups, Some(observed.wakeups));
        add_some(&mut self.migrations, Some(observed.migrations));
        if let Some(ModeTimes { user_ns, sys_ns }) = observed.modes {
            let sum = self.modes.get_or_insert_default();
            sum.user_ns = sum.user_ns.saturating_add(user_ns);
            sum.sys_ns = sum.sys_ns.saturating_add(sys_ns);
        }
    }

    /// Adds a role for CPU time that no known thread used. `cpu_s`: CPU time of all threads.
    pub(super) fn add_unattributed(&mut self, cpu_s: Option<f64>) {
        let unattributed_s = cpu_s.unwrap_or(0.0) - self.run_s;
        if unattributed_s > MIN_UNATTRIBUTED * cpu_s.unwrap_or(0.0) {
            let role = RoleUse { cpu_s: unattributed_s, ..RoleUse::default() };
            self.roles.insert(roles::UNATTRIBUTED, role);
        }
    }

    /// Returns the CPU seconds of the living threads.
    pub(super) fn live_threads_cpu_s(&self) -> f64 {
        self.run_s - self.ended.running_s
    }

    pub(super) fn faults(&self) -> Option<u64> {
        Some(self.faults_minor? + self.faults_major?)
    }

    pub(super) fn switches(&self) -> Option<u64> {
        Some(self.voluntary? + self.involuntary?)
    }
}

/// Largest delay between the instant of a sample and the reading of a thread.
pub(super) const MAX_READ_DELAY_NS: u64 = 100_000_000;

/// Minimum share of CPU time that is reported as unattributed. Smaller shares arise because threads
/// are read slightly later than their group.
const MIN_UNATTRIBUTED: f64 = 0.01;

/// Observed use of threads between two instants.
struct SchedulerDelta {
    ns: [u64; ThreadState::ALL.len()],
    wakeups: u64,
    migrations: u64,
    modes: Option<ModeTimes>,
}

impl SchedulerDelta {
    fn new(now: &SchedulerRecord, then: &SchedulerRecord) -> SchedulerDelta {
        let mut delta = SchedulerDelta {
            ns: ThreadState::ALL.map(|state| now.states.get(state)),
            wakeups: now.wakeups,
            migrations: now.migrations,
            modes: now.modes,
        };
        delta.subtract(then);
        delta
    }

    /// Subtracts earlier use.
    fn subtract(&mut self, then: &SchedulerRecord) {
        let subtract = |from: &mut u64, n: u64| *from = from.saturating_sub(n);
        self.ns
            .iter_mut()
            .zip(ThreadState::ALL)
            .for_each(|(ns, state)| subtract(ns, then.states.get(state)));
        subtract(&mut self.wakeups, then.wakeups);
        subtract(&mut self.migrations, then.migrations);
        if let (Some(modes), Some(then)) = (&mut self.modes, then.modes) {
            subtract(&mut modes.user_ns, then.user_ns);
            subtract(&mut modes.sys_ns, then.sys_ns);
        }
    }

    /// Whether the thread ran for 1 % of the time or more, or was woken up five times per second or
    /// more.
    fn is_active(&self) -> bool {
        let all_s = self.ns.iter().sum::<u64>() as f64 / 1e9;
        self.seconds(ThreadState::Running) >= all_s / 100.0 || self.wakeups as f64 >= 5.0 * all_s
    }

    /// Whether the thread waited for neither a lock nor a peer for most of its time.
    fn is_steady(&self) -> bool {
        let waited_s = self.seconds(ThreadState::Lock) + self.seconds(ThreadState::Network);
        let all_s: f64 = ThreadState::ALL.iter().map(|state| self.seconds(*state)).sum();
        all_s - waited_s >= STEADY_WORK * all_s
    }

    fn seconds(&self, state: ThreadState) -> f64 {
        self.ns[state as usize] as f64 / 1e9
    }
}

/// Returns the run time of all threads between two readings, in seconds.
pub(super) fn run_time_s(first: &[ThreadUse], last: &[ThreadUse]) -> f64 {
    let before = |tid: u32| first.iter().find(|t| t.tid == tid).map_or(0, |t| t.run_ns);
    last.iter().map(|t| t.run_ns.saturating_sub(before(t.tid))).sum::<u64>() as f64 / 1e9
}

/// Divides threads that ended between two samples by the names under which they are counted as
/// ended. A thread has its own name if the count and the run time of this name include it. The
/// other threads were renamed. Each of them, the longest first, belongs to the name with the least
/// run time that includes it.
/// `grown`: the ended threads of each name at the second and the first sample.
fn by_last_name<'a>(
    grown: &[(&EndedThreads, &EndedThreads)],
    gone: &[&'a ThreadUse],
) -> Vec<Vec<&'a ThreadUse>> {
    let growth = |(now, then): &(&EndedThreads, &EndedThreads)| {
        let run_ns = now.run_ns.map(|ns| ns.saturating_sub(then.run_ns.unwrap_or(0)));
        (now.threads - then.threads, run_ns.unwrap_or(u64::MAX))
    };
    let mut left: Vec<(u64, u64)> = grown.iter().map(growth).collect();
    let mut each: Vec<Vec<&ThreadUse>> = vec![Vec::new(); grown.len()];
    let mut longest_first = gone.to_vec();
    longest_first.sort_by_key(|thread| std::cmp::Reverse(thread.run_ns));
    for is_renamed in [false, true] {
        longest_first.retain(|thread| {
            let includes = |index: &usize| {
                let (threads, run_ns) = left[*index];
                let may_be = is_renamed || grown[*index].0.name == thread.name;
                may_be && threads > 0 && run_ns >= thread.run_ns
            };
            let found = (0..left.len()).filter(includes).min_by_key(|index| left[*index].1);
            if let Some(index) = found {
                left[index].0 -= 1;
                left[index].1 -= thread.run_ns;
                each[index].push(*thread);
            }
            found.is_none()
        });
    }
    each
}

/// Returns the CPU seconds of the ended threads of one name between two samples. `gone`: those that
/// are in the first sample. `None`: the scheduler's count was not read.
fn ended_run_s(now: &EndedThreads, then: &EndedThreads, gone: &[&ThreadUse]) -> Option<f64> {
    // If no thread of this name had ended by the first sample, the run time of ended ones was 0.
    let earlier_ns = then.run_ns.or((then.threads == 0).then_some(0))?;
    let before = gone.iter().map(|thread| thread.run_ns);
    Some(now.run_ns?.saturating_sub(earlier_ns + before.sum::<u64>()) as f64 / 1e9)
}

/// Adds a part to a sum if the part is known.
fn add_some<T: std::ops::Add<Output = T> + Default + Copy>(sum: &mut Option<T>, part: Option<T>) {
    if let Some(part) = part {
        *sum = Some(sum.unwrap_or_default() + part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_model::sample::StateTimes;

    const MS: u64 = 1_000_000;

    fn thread(tid: u32, name: &str, running_ms: u64, network_ms: u64) -> ThreadUse {
        ThreadUse {
            pid: 1,
            tid,
            name: name.into(),
            run_ns: running_ms * MS,
            seen: Some(record(running_ms, network_ms)),
            ..ThreadUse::default()
        }
    }

    fn record(running_ms: u64, network_ms: u64) -> SchedulerRecord {
        let states = StateTimes {
            running_ns: running_ms * MS,
            network_ns: network_ms * MS,
            ..StateTimes::default()
        };
        SchedulerRecord { states, wakeups: running_ms, ..SchedulerRecord::default() }
    }

    fn ended(name: &str, threads: u64, running_ms: u64) -> EndedThreads {
        EndedThreads { name: name.into(), threads, run_ns: None, seen: record(running_ms, 0) }
    }

    #[test]
    fn role_states_sum_to_lifetime_of_threads() {
        let first = [thread(1, "h2o", 100, 0), thread(2, "h2o", 0, 100)];
        let last = [thread(1, "h2o", 500, 600), thread(2, "h2o", 250, 850)];
        let at = |living| Threads { at_ns: 0, living, ended: Some(&[]) };
        let deltas = ThreadDeltas::new(at(&first), at(&last));
        let work = &deltas.roles["work"];
        let states = work.states_s.as_ref().unwrap();
        assert!((states.values().sum::<f64>() - 2.0).abs() < 1e-9, "{states:?}");
        assert!((states["running"] - 0.65).abs() < 1e-9 && (states["network"] - 1.35).abs() < 1e-9);
        assert_eq!((work.wakeups, deltas.wakeups, work.ended), (Some(650), Some(650), Some(0)));
    }

    /// One thread started before the window and ended in it, another started and ended in it, and a
    /// third ended before it.
    #[test]
    fn threads_that_end_in_window_are_counted() {
        let living = [thread(1, "server", 0, 0), thread(2, "helper", 300, 0)];
        let first = Threads { at_ns: 0, living: &living, ended: Some(&[ended("helper", 1, 70)]) };
        let after = [thread(1, "server", 0, 1000)];
        let last = Threads {
            at_ns: 0,
            living: &after,
            ended: Some(&[ended("helper", 3, 70 + 300 + 40 + 5)]),
        };
        let deltas = ThreadDeltas::new(first, last);
        let other = &deltas.roles["other"];
        assert!(
            (other.cpu_s - 0.045).abs() < 1e-9 && (deltas.run_s - 0.045).abs() < 1e-9,
            "{other:?}"
        );
        assert_eq!((other.ended, other.threads), (Some(2), 0));
        // The scheduler's own count includes what the probe misses at each switch.
        let counted = |run_ms: u64, ended: EndedThreads| EndedThreads {
            run_ns: Some(run_ms * 1_000_000),
            ..ended
        };
        let first_ended = [counted(75, ended("helper", 1, 70))];
        let last_ended = [counted(75 + 300 + 50, ended("helper", 3, 70 + 300 + 40 + 5))];
        let first = Threads { ended: Some(&first_ended), ..first };
        let last = Threads { ended: Some(&last_ended), ..last };
        assert!((ThreadDeltas::new(first, last).run_s - 0.050).abs() < 1e-9);
    }

    /// A pool renames its threads before they end.
    #[test]
    fn renamed_threads_count_once() {
        let counted = |name: &str, threads, run_ms: u64| EndedThreads {
            run_ns: Some(run_ms * MS),
            ..ended(name, threads, run_ms)
        };
        let living = [thread(2, "task", 300, 0), thread(3, "task", 200, 0)];
        let first = Threads { at_ns: 0, living: &living, ended: Some(&[]) };
        // Both were renamed. A third, which was not, began and ended in the window.
        let all = [counted("task", 1, 20), counted("idle", 2, 310 + 230)];
        let last = Threads { at_ns: 0, living: &[], ended: Some(&all) };
        let deltas = ThreadDeltas::new(first, last);
        assert!((deltas.run_s - 0.060).abs() < 1e-9, "{}", deltas.run_s);
        assert_eq!((deltas.ended.threads, deltas.ended.wakeups), (3, 60));
        // The name that a thread kept is not used for another that was renamed.
        let living = [thread(2, "c", 90, 0), thread(3, "a", 950, 0)];
        let first = Threads { at_ns: 0, living: &living, ended: Some(&[]) };
        let all = [counted("a", 1, 1000), counted("b", 1, 95)];
        let last = Threads { at_ns: 0, living: &[], ended: Some(&all) };
        assert!((ThreadDeltas::new(first, last).run_s - 0.055).abs() < 1e-9);
    }

    #[test]
    fn threads_that_wait_for_lock_are_not_steady_threads() {
        let waiting_thread = |tid: u32, running_ms: u64, lock_ms: u64| {
            let mut thread = thread(tid, "server", running_ms, 0);
            let seen = thread.seen.as_mut().unwrap();
            seen.states.lock_ns = lock_ms * MS;
            thread
        };
        let steady_threads_of = |threads: &[ThreadUse]| {
            let first: Vec<ThreadUse> =
                threads.iter().map(|t| waiting_thread(t.tid, 0, 0)).collect();
            let at = |living| Threads { at_ns: 0, living, ended: None };
            ThreadDeltas::new(at(&first), at(threads)).serving.unwrap().steady_threads
        };
        assert_eq!(
            steady_threads_of(&[waiting_thread(1, 500, 500), waiting_thread(2, 500, 500)]),
            0
        );
        assert_eq!(
            steady_threads_of(&[
                waiting_thread(1, 950, 50),
                waiting_thread(2, 20, 980),
                waiting_thread(3, 700, 300)
            ]),
            2
        );
    }

    #[test]
    fn cpu_time_of_missing_threads_is_unattributed() {
        let living = [thread(1, "server", 500, 0)];
        let at = |at_ns, living| Threads { at_ns, living, ended: None };
        let joined = ThreadDeltas::new(at(0, &[]), at(300 * MS, &living));
        assert_eq!(
            (joined.run_s, joined.roles["work"].threads),
            (0.0, 1),
            "the thread worked before it joined"
        );
        let mut deltas = ThreadDeltas::new(at(0, &[]), at(600 * MS, &living));
        deltas.add_unattributed(Some(0.502));
        assert!(!deltas.roles.contains_key("unattributed"));
        deltas.add_unattributed(Some(0.8));
        assert!((deltas.roles["unattributed"].cpu_s - 0.3).abs() < 1e-9);
        assert_eq!(deltas.roles["work"].ended, None);
    }
}
