//! Reads processes and threads, their resource use and their listening sockets from `/proc`. If no
//! control group can be created, these counters replace the group's.

mod listeners;
mod memory;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use dyno_model::sample::{ProcessUse, ThreadUse};
use rustix::param::page_size;
use rustix::time::ClockId;

use crate::clock::{clock_ns, tick_ns};
use crate::files::Files;
use crate::read;
pub use listeners::{
    ListenerOwner, listener_at, listener_in_network_of, listeners, other_listener,
    pids_listening_on,
};
pub(crate) use memory::{ProportionalMemory, huge_bytes, kib_field, proportional_memory};

/// Used fields of `/proc/PID/stat` and `/proc/PID/task/TID/stat` (proc_pid_stat(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub name: String,
    /// `R`, `S`, `D`, `T`, `Z`, …
    pub state: char,
    pub parent: u32,
    pub session: u32,
    /// Number of living threads of the whole process.
    pub threads: u32,
    /// Clock ticks from the start of the machine to the start of the process or thread.
    pub began_ticks: u64,
    /// Page faults without a read from a disk.
    pub faults_minor: u64,
    /// Page faults with a read from a disk.
    pub faults_major: u64,
    pub user_ticks: u64,
    pub sys_ticks: u64,
    /// Page faults of reaped children and of their reaped children. The next three fields include
    /// the same processes.
    pub children_faults_minor: u64,
    pub children_faults_major: u64,
    pub children_user_ticks: u64,
    pub children_sys_ticks: u64,
    /// The last thread of the process is exiting.
    pub is_exiting: bool,
    /// The process ignores SIGCHLD. The kernel then reaps its children and adds their use to no
    /// totals.
    pub ignores_children: bool,
}

impl Stat {
    /// Parses a line. The name is in parentheses and may itself contain parentheses.
    #[must_use]
    pub fn parse(text: &str) -> Option<Stat> {
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let fields: Vec<&str> = text.get(close + 2..)?.split_ascii_whitespace().collect();
        let number = |i: usize| -> Option<u64> { fields.get(i)?.parse().ok() };
        /// Bit of SIGCHLD in `sigignore`, whose lowest bit is signal 1.
        const SIGCHLD: u64 = 1 << 16;
        /// `PF_EXITING` of the kernel's `include/linux/sched.h`.
        const EXITING: u64 = 4;
        Some(Stat {
            name: text.get(open + 1..close)?.to_string(),
            state: fields.first()?.chars().next()?,
            parent: number(1)? as u32,
            session: number(3)? as u32,
            threads: number(17)? as u32,
            began_ticks: number(19)?,
            faults_minor: number(7)?,
            faults_major: number(9)?,
            user_ticks: number(11)?,
            sys_ticks: number(12)?,
            children_faults_minor: number(8)?,
            children_faults_major: number(10)?,
            children_user_ticks: number(13)?,
            children_sys_ticks: number(14)?,
            is_exiting: number(6).is_some_and(|flags| flags & EXITING != 0) && number(17)? <= 1,
            ignores_children: number(30).is_some_and(|ignored| ignored & SIGCHLD != 0),
        })
    }

    #[must_use]
    pub fn read(pid: u32) -> Option<Stat> {
        Stat::parse(&read(format!("/proc/{pid}/stat"))?)
    }

    /// Whether the process has ended and waits to be reaped. If only its first thread has ended,
    /// its other threads may still run.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.threads <= 1 && matches!(self.state, 'Z' | 'X')
    }
}

/// Returns all visible processes of this machine.
#[must_use]
pub fn all_pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the living processes of a session.
#[must_use]
pub fn session_pids(session: u32) -> Vec<u32> {
    let is_member =
        |pid: &u32| Stat::read(*pid).is_some_and(|stat| stat.session == session && !stat.is_dead());
    all_pids().into_iter().filter(is_member).collect()
}

/// Returns the totals of a process, including its ended threads, from its `/proc/PID/stat`.
pub(crate) fn totals(pid: u32, stat: &Stat) -> ProcessUse {
    let tick = tick_ns();
    ProcessUse {
        pid,
        began_ticks: stat.began_ticks,
        user_ns: stat.user_ticks * tick,
        sys_ns: stat.sys_ticks * tick,
        faults_minor: stat.faults_minor,
        faults_major: stat.faults_major,
        children_user_ns: stat.children_user_ticks * tick,
        children_sys_ns: stat.children_sys_ticks * tick,
        children_faults_minor: stat.children_faults_minor,
        children_faults_major: stat.children_faults_major,
        ignores_children: stat.ignores_children,
    }
}

/// Reads the totals of a process through a cache of open files. `None`: the process has ended.
pub(crate) fn cached_totals(pid: u32, files: &Files) -> Option<ProcessUse> {
    Some(totals(pid, &Stat::parse(&files.read(format!("/proc/{pid}/stat"))?)?))
}

/// Returns when a process started (wall clock). Precision: one second, as of `btime`.
#[must_use]
pub fn start_time(pid: u32) -> Option<SystemTime> {
    let ticks = Stat::read(pid)?.began_ticks;
    let boot = read("/proc/stat")?
        .lines()
        .find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())?;
    Some(
        SystemTime::UNIX_EPOCH
            + Duration::from_secs(boot)
            + Duration::from_nanos(ticks * tick_ns()),
    )
}

/// Returns the living processes among `roots` and their descendants.
#[must_use]
pub fn trees(roots: &[u32]) -> Vec<u32> {
    let stats = all_pids().into_iter().filter_map(|pid| Some((pid, Stat::read(pid)?)));
    let living: Vec<(u32, u32)> =
        stats.filter(|(_, stat)| !stat.is_dead()).map(|(pid, stat)| (pid, stat.parent)).collect();
    descendants(roots, &living)
}

/// Returns the living descendants of a process, without the process itself.
#[must_use]
pub fn descendants_of(root: u32) -> Vec<u32> {
    trees(&[root]).into_iter().filter(|pid| *pid != root).collect()
}

/// Returns the processes in `roots` and their descendants, zombies included.
pub(crate) fn tree_stats(roots: &[u32]) -> Vec<(u32, Stat)> {
    let mut stats: Vec<(u32, Stat)> =
        all_pids().into_iter().filter_map(|pid| Some((pid, Stat::read(pid)?))).collect();
    let parents: Vec<(u32, u32)> = stats.iter().map(|(pid, stat)| (*pid, stat.parent)).collect();
    let tree = descendants(roots, &parents);
    stats.retain(|(pid, _)| tree.contains(pid));
    stats
}

/// Returns `roots` and their descendants. `parents`: pairs of a process and its parent.
fn descendants(roots: &[u32], parents: &[(u32, u32)]) -> Vec<u32> {
    let mut tree: Vec<u32> =
        roots.iter().copied().filter(|root| parents.iter().any(|(pid, _)| pid == root)).collect();
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        let is_child = |(_, parent_pid): &&(u32, u32)| *parent_pid == parent;
        let children: Vec<u32> = parents.iter().filter(is_child).map(|(pid, _)| *pid).collect();
        tree.extend(children.into_iter().filter(|child| !roots.contains(child)));
        next += 1;
    }
    tree
}

/// Reads the counters of every thread of a process. Threads that end during the reading are
/// excluded.
#[must_use]
pub fn threads(pid: u32) -> Vec<ThreadUse> {
    cached_threads(pid, &Files::default())
}

/// Returns the IDs of a process's threads.
pub(crate) fn thread_ids(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// Reads the counters of every thread of a process through a cache of open files.
pub(crate) fn cached_threads(pid: u32, files: &Files) -> Vec<ThreadUse> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    tasks.filter_map(|task| read_thread(pid, &task.ok()?.path(), files)).collect()
}

fn read_thread(pid: u32, task: &Path, files: &Files) -> Option<ThreadUse> {
    let tid = task.file_name()?.to_str()?.parse().ok()?;
    // `schedstat` is read before the other files. If the thread runs while they are read, its
    // `schedstat` differs in the next sample, and all files are read again.
    let schedstat = files.read(task.join("schedstat")).unwrap_or_default();
    if let Some(unchanged) = files.cached_thread(pid, tid, &schedstat) {
        return Some(unchanged);
    }
    let stat = Stat::parse(&files.read(task.join("stat"))?)?;
    let tick = tick_ns();
    let (user_ns, sys_ns) = (stat.user_ticks * tick, stat.sys_ticks * tick);
    let mut numbers = schedstat.split_ascii_whitespace().map_while(|n| n.parse::<u64>().ok());
    // Kernels without CONFIG_SCHED_INFO report neither number. Ticks then replace the run time.
    let (run_ns, run_delay_ns) = (numbers.next(), numbers.next());
    let status = files.read(task.join("status")).unwrap_or_default();
    let used = ThreadUse {
        pid,
        tid,
        began_ticks: Some(stat.began_ticks),
        name: stat.name,
        run_ns: run_ns.unwrap_or(user_ns + sys_ns),
        user_ns,
        sys_ns,
        run_delay_ns,
        switches_voluntary: status_field(&status, "voluntary_ctxt_switches:"),
        switches_involuntary: status_field(&status, "nonvoluntary_ctxt_switches:"),
        faults_minor: Some(stat.faults_minor),
        faults_major: Some(stat.faults_major),
        seen: None,
    };
    files.cache_thread(schedstat, &used);
    Some(used)
}

fn status_field(status: &str, key: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(key))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the folder in `/proc` through which the kernel shows the memory, files and network of a
/// process: `/proc/PID`, or the folder of another thread if the first thread has ended.
#[must_use]
pub fn visible_folder(pid: u32) -> PathBuf {
    other_thread_folder(pid).unwrap_or_else(|| format!("/proc/{pid}").into())
}

/// Returns the folder of a living thread of a process whose first thread has ended, for example
/// with pthread_exit(3). `/proc/PID` then shows no memory, no open files and no network, although
/// the process runs. `None`: the first thread lives, or no thread does.
pub(crate) fn other_thread_folder(pid: u32) -> Option<PathBuf> {
    let has_ended = |stat: &Stat| matches!(stat.state, 'Z' | 'X');
    let first_thread = Stat::read(pid)?;
    if !has_ended(&first_thread) || first_thread.threads <= 1 {
        return None;
    }
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let is_living = |task: &PathBuf| {
        let stat = read(task.join("stat")).and_then(|text| Stat::parse(&text));
        stat.is_some_and(|stat| !has_ended(&stat))
    };
    tasks.map(|task| task.path()).find(is_living)
}

/// Reads a value from a `/proc` file of a process. `None`: no living thread shows the value.
fn read_of_process<T>(
    pid: u32,
    file: &str,
    files: &Files,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let read_in = |folder: &Path| parse(&files.read(folder.join(file))?);
    read_in(format!("/proc/{pid}").as_ref()).or_else(|| read_in(&other_thread_folder(pid)?))
}

/// Returns the resident memory of a process in bytes, above 0. `None`: unknown, or the process is
/// ending.
pub(crate) fn rss_bytes(pid: u32, files: &Files) -> Option<u64> {
    read_of_process(pid, "statm", files, parse_resident_bytes)
}

/// Parses the resident memory in bytes from a `statm` file (proc_pid_statm(5)). `None`: the file
/// has none, because its thread has ended and is without memory.
fn parse_resident_bytes(statm: &str) -> Option<u64> {
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    (pages > 0).then(|| pages * page_size() as u64)
}

/// Returns the resident anonymous and shared memory of a process in bytes. `None`: the kernel hides
/// it, or the process is ending.
pub(crate) fn rss_parts(pid: u32, files: &Files) -> Option<(u64, u64)> {
    read_of_process(pid, "status", files, |status| {
        let bytes = |key| Some(status_field(status, key)? * 1024);
        Some((bytes("RssAnon:")?, bytes("RssShmem:")?))
    })
}

/// Returns the peak resident memory of this process, in bytes.
#[must_use]
pub fn own_rss_peak_bytes() -> Option<u64> {
    Some(status_field(&read("/proc/self/status")?, "VmHWM:")? * 1024)
}

/// Returns the CPU time of all threads of this process, including ended ones.
#[must_use]
pub fn own_cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

/// Processes other than this one, at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessList {
    pub programs: Vec<ProcessSnapshot>,
    /// Threads of the kernel itself, which work for all programs. Empty: not visible to this
    /// process.
    pub kernel_threads: Vec<ProcessSnapshot>,
}

/// Reads the CPU time and last CPU of every process except this one and kernel threads.
#[must_use]
pub fn other_processes() -> Vec<ProcessSnapshot> {
    process_list().programs
}

/// Reads the CPU time and last CPU of every process except this one.
#[must_use]
pub fn process_list() -> ProcessList {
    // Kernel threads are children of the process with PID 2. In a PID namespace, another process
    // has this PID.
    const KTHREADD: u32 = 2;
    let has_kernel_threads = Stat::read(KTHREADD).is_some_and(|stat| stat.name == "kthreadd");
    let is_kernel_thread = |process: &ProcessSnapshot| {
        has_kernel_threads && (process.pid == KTHREADD || process.parent == KTHREADD)
    };
    let (kernel_threads, programs) = snapshots().into_iter().partition(is_kernel_thread);
    ProcessList { programs, kernel_threads }
}

/// Returns the CPU time that threads of the kernel used between two lists. `None`: kernel threads
/// are not visible. If the machine counts interrupts separately, the time of softirqs is excluded
/// (`irqtime_account_process_tick` in kernel/sched/cputime.c).
#[must_use]
pub fn kernel_time_between(before: &ProcessList, after: &ProcessList) -> Option<u64> {
    kernel_time(before, after, crate::accounting::excludes_interrupts())
}

fn kernel_time(before: &ProcessList, after: &ProcessList, without_softirqs: bool) -> Option<u64> {
    let (before, after) = (&before.kernel_threads, &after.kernel_threads);
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let uses = cpu_time_between(before, after, &BTreeSet::new(), u64::MAX);
    let is_counted =
        |thread: &ProcessSnapshot| !(without_softirqs && thread.name.starts_with("ksoftirqd/"));
    Some(uses.iter().filter(|(thread, _)| is_counted(thread)).map(|(_, ns)| ns).sum())
}

fn snapshots() -> Vec<ProcessSnapshot> {
    let own_pid = std::process::id();
    let read_process = |pid: u32| {
        let text = read(format!("/proc/{pid}/stat"))?;
        let stat = Stat::parse(&text)?;
        let run_ns = (stat.user_ticks + stat.sys_ticks) * tick_ns();
        let reaped_ns = (stat.children_user_ticks + stat.children_sys_ticks) * tick_ns();
        let (parent, last_cpu) = (stat.parent, last_cpu(&text)?);
        let began_ticks = stat.began_ticks;
        Some(ProcessSnapshot {
            pid,
            began_ticks,
            parent,
            name: stat.name,
            run_ns,
            reaped_ns,
            last_cpu,
        })
    };
    all_pids().into_iter().filter(|pid| *pid != own_pid).filter_map(read_process).collect()
}

/// Computes the CPU time of each process of `after` since `before`, including children that ended
/// between the lists. A compiler, for example, often ends before the second list, but the build
/// tool that started it does not.
///
/// `ours`: processes of dyno, whose children belong to the run. `max_ns`: CPU time of all CPUs
/// together between the two lists, an upper bound of the sum.
#[must_use]
pub fn cpu_time_between<'a>(
    before: &[ProcessSnapshot],
    after: &'a [ProcessSnapshot],
    ours: &BTreeSet<u32>,
    max_ns: u64,
) -> Vec<(&'a ProcessSnapshot, u64)> {
    let earlier: BTreeMap<Key, &ProcessSnapshot> =
        before.iter().map(|other| (other.key(), other)).collect();
    let earlier_run_ns =
        |process: &ProcessSnapshot| earlier.get(&process.key()).map_or(0, |before| before.run_ns);
    let earlier_reaped_ns = |process: &ProcessSnapshot| {
        earlier.get(&process.key()).map_or(0, |before| before.reaped_ns)
    };
    let mut children_ns: BTreeMap<u32, u64> = after
        .iter()
        .map(|process| (process.pid, process.reaped_ns.saturating_sub(earlier_reaped_ns(process))))
        .collect();
    subtract_earlier_use(before, after, &mut children_ns);
    children_ns.retain(|pid, _| !ours.contains(pid));
    let own_ns: Vec<u64> = after
        .iter()
        .map(|process| process.run_ns.saturating_sub(earlier_run_ns(process)))
        .collect();
    bound_children_time(&mut children_ns, max_ns, own_ns.iter().sum());
    let total = |(process, own_ns): (&'a ProcessSnapshot, u64)| {
        (process, own_ns + children_ns.get(&process.pid).copied().unwrap_or(0))
    };
    after.iter().zip(own_ns).map(total).collect()
}

/// Subtracts from `children_ns` the CPU time that ended processes had used before the first list.
/// The whole CPU time of an ended process is in the totals of the process that waited for it:
/// usually the nearest living ancestor, or one farther up if the parent ended before the child.
fn subtract_earlier_use(
    before: &[ProcessSnapshot],
    after: &[ProcessSnapshot],
    children_ns: &mut BTreeMap<u32, u64>,
) {
    let alive: BTreeSet<Key> = after.iter().map(ProcessSnapshot::key).collect();
    let by_pid: BTreeMap<u32, &ProcessSnapshot> =
        before.iter().map(|other| (other.pid, other)).collect();
    for ended in before.iter().filter(|other| !alive.contains(&other.key())) {
        let mut earlier_ns = ended.run_ns + ended.reaped_ns;
        let mut parent = ended.parent;
        // The loop is bounded, because parents may form a cycle: a list is not read at one instant.
        for generation in 0..before.len() {
            let Some(ancestor) = by_pid.get(&parent) else { break };
            parent = ancestor.parent;
            if !alive.contains(&ancestor.key()) {
                continue;
            }
            let total_ns = children_ns.entry(ancestor.pid).or_default();
            let deducted_ns = earlier_ns.min(*total_ns);
            *total_ns -= deducted_ns;
            earlier_ns -= deducted_ns;
            // If the parent is alive, no other process can have waited for the child.
            if generation == 0 || earlier_ns == 0 {
                break;
            }
        }
    }
}

/// Bounds the sum of the totals in `children_ns` by the CPU time that remains after `own_ns`. A
/// total above `max_ns` includes an unknown amount of earlier use, so the total becomes zero. An
/// excess of the other totals is subtracted from the largest, which most likely includes the
/// excess.
fn bound_children_time(children_ns: &mut BTreeMap<u32, u64>, max_ns: u64, own_ns: u64) {
    // A tenth of tolerance: reading the lists takes time, and the kernel counts time in ticks.
    const TOLERANCE_DIVISOR: u64 = 10;
    let mut remaining_ns = max_ns.saturating_sub(own_ns);
    let mut totals: Vec<&mut u64> = children_ns.values_mut().collect();
    totals.sort_unstable();
    for total_ns in totals {
        let is_possible = *total_ns <= max_ns.saturating_add(max_ns / TOLERANCE_DIVISOR);
        *total_ns = if is_possible { remaining_ns.min(*total_ns) } else { 0 };
        remaining_ns -= *total_ns;
    }
}

/// Identity of a process: its PID and its start time. The start time distinguishes it from a later
/// process with the same PID.
type Key = (u32, u64);

/// Returns this process and its descendants.
#[must_use]
pub fn own_tree() -> BTreeSet<u32> {
    trees(&[std::process::id()]).into_iter().collect()
}

/// CPU use of a process other than dyno, at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSnapshot {
    pub pid: u32,
    /// Clock ticks from the start of the machine to the start of the process.
    pub began_ticks: u64,
    pub parent: u32,
    pub name: String,
    /// CPU time since the process began.
    pub run_ns: u64,
    /// CPU time of its reaped children and their reaped children.
    pub reaped_ns: u64,
    /// Number of the CPU on which it ran last.
    pub last_cpu: u32,
}

impl ProcessSnapshot {
    const fn key(&self) -> Key {
        (self.pid, self.began_ticks)
    }
}

/// Parses the last CPU, the 39th field of `/proc/PID/stat` (proc_pid_stat(5)). The text after the
/// name begins with the third field.
fn last_cpu(stat: &str) -> Option<u32> {
    stat.get(stat.rfind(')')? + 2..)?.split_ascii_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests;
