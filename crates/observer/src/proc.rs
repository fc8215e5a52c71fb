//! `/proc`: processes, threads, and what they used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::time::{Duration, SystemTime};

use dyno_archive::sample::{ProcessUse, ThreadUse};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::time::ClockId;

use crate::clock::clock_ns;
use crate::files::Files;
use crate::read;

/// Used fields of `/proc/PID/stat` and `/proc/PID/task/TID/stat` (proc_pid_stat(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub name: String,
    /// `R`, `S`, `D`, `T`, `Z`, …
    pub state: char,
    pub parent: u32,
    pub session: u32,
    /// Threads that live, of the whole process.
    pub threads: u32,
    /// Ticks of the clock from the start of the machine to that of the process or thread.
    pub began_ticks: u64,
    /// Page faults without and with reading from a disk.
    pub faults_minor: u64,
    pub faults_major: u64,
    /// Clock ticks.
    pub user_ticks: u64,
    pub sys_ticks: u64,
    /// Faults of reaped children and their reaped children.
    pub children_faults_minor: u64,
    pub children_faults_major: u64,
    pub children_user_ticks: u64,
    pub children_sys_ticks: u64,
    /// It ignores SIGCHLD: the kernel reaps its children, and their use is in no totals.
    pub ignores_children: bool,
}

impl Stat {
    /// The name is in parentheses and may hold anything, parentheses too.
    #[must_use]
    pub fn parse(text: &str) -> Option<Stat> {
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let fields: Vec<&str> = text.get(close + 2..)?.split_ascii_whitespace().collect();
        let number = |i: usize| -> Option<u64> { fields.get(i)?.parse().ok() };
        /// Bit of SIGCHLD in `sigignore`, whose lowest bit is signal 1.
        const SIGCHLD: u64 = 1 << 16;
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

/// All visible processes of this machine.
#[must_use]
pub fn all_pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The living processes of a session: a subject's, where it has no control group.
#[must_use]
pub fn session_pids(session: u32) -> Vec<u32> {
    let is_its = |stat: &Stat| stat.session == session && !stat.is_dead();
    let is_member = |pid: &u32| Stat::read(*pid).is_some_and(|stat| is_its(&stat));
    all_pids().into_iter().filter(is_member).collect()
}

/// Totals of a process, including its ended threads, from its `/proc/PID/stat`.
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

/// Totals of a process, read with files that stay open. `None`: it has ended.
pub(crate) fn totals_in(pid: u32, files: &Files) -> Option<ProcessUse> {
    Some(totals(pid, &Stat::parse(&files.read(format!("/proc/{pid}/stat"))?)?))
}

/// Start of a process by the wall clock, to a second, the resolution of `btime`.
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

/// Living processes among `roots` and their descendants.
#[must_use]
pub fn trees(roots: &[u32]) -> Vec<u32> {
    let all = all_pids().into_iter().filter_map(|pid| Some((pid, Stat::read(pid)?)));
    let living: Vec<(u32, u32)> =
        all.filter(|(_, stat)| !stat.is_dead()).map(|(pid, stat)| (pid, stat.parent)).collect();
    descendants(roots, &living)
}

/// Living descendants of a process, without the process itself.
#[must_use]
pub fn descendants_of(root: u32) -> Vec<u32> {
    trees(&[root]).into_iter().filter(|pid| *pid != root).collect()
}

/// Processes in `roots` and their descendants, zombies included.
pub(crate) fn tree_stats(roots: &[u32]) -> Vec<(u32, Stat)> {
    let mut all: Vec<(u32, Stat)> =
        all_pids().into_iter().filter_map(|pid| Some((pid, Stat::read(pid)?))).collect();
    let parents: Vec<(u32, u32)> = all.iter().map(|(pid, stat)| (*pid, stat.parent)).collect();
    let wanted = descendants(roots, &parents);
    all.retain(|(pid, _)| wanted.contains(pid));
    all
}

/// Returns `roots` and their descendants. `living`: processes with their parents.
fn descendants(roots: &[u32], living: &[(u32, u32)]) -> Vec<u32> {
    let mut found: Vec<u32> =
        roots.iter().copied().filter(|root| living.iter().any(|(pid, _)| pid == root)).collect();
    let mut looked_at = 0;
    while let Some(parent) = found.get(looked_at).copied() {
        let children: Vec<u32> =
            living.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid).collect();
        found.extend(children.into_iter().filter(|child| !roots.contains(child)));
        looked_at += 1;
    }
    found
}

/// Processes that listen on a port of this thread's network, at any address, as far as dyno may
/// inspect them.
#[must_use]
pub fn listening_on(port: u16) -> Vec<u32> {
    let tables = ["tcp", "tcp6"]
        .map(|table| read(format!("/proc/thread-self/net/{table}")).unwrap_or_default());
    let all = tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(listening);
    let wanted: BTreeSet<u64> =
        all.filter(|(addr, _)| addr.port() == port).map(|(_, inode)| inode).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    // Numbers of sockets are unique on the machine, so other networks' sockets cannot match.
    let holds = |pid: &u32| sockets(*pid).iter().any(|inode| wanted.contains(inode));
    all_pids().into_iter().filter(holds).collect()
}

/// Counters of every thread of a process. Threads that end in the meantime are left out.
#[must_use]
pub fn threads(pid: u32) -> Vec<ThreadUse> {
    threads_in(pid, &Files::default())
}

/// The same with files that stay open.
pub(crate) fn threads_in(pid: u32, files: &Files) -> Vec<ThreadUse> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    tasks.filter_map(|task| thread(pid, &task.ok()?.path(), files)).collect()
}

fn thread(pid: u32, task: &Path, files: &Files) -> Option<ThreadUse> {
    let tid = task.file_name()?.to_str()?.parse().ok()?;
    // Read first: if the thread runs while the others are read, it differs the next time.
    let schedstat = files.read(task.join("schedstat")).unwrap_or_default();
    if let Some(known) = files.unless_it_ran(pid, tid, &schedstat) {
        return Some(known);
    }
    let stat = Stat::parse(&files.read(task.join("stat"))?)?;
    let tick = tick_ns();
    let (user_ns, sys_ns) = (stat.user_ticks * tick, stat.sys_ticks * tick);
    let mut numbers = schedstat.split_ascii_whitespace().map_while(|n| n.parse::<u64>().ok());
    // Both absent on kernels without CONFIG_SCHED_INFO; ticks then replace the first.
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
    files.keep(schedstat, &used);
    Some(used)
}

fn status_field(status: &str, key: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// Resident memory of a process in bytes.
pub(crate) fn rss_bytes(pid: u32, files: &Files) -> Option<u64> {
    let statm = files.read(format!("/proc/{pid}/statm"))?;
    Some(statm.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()? * page_size() as u64)
}

/// Resident anonymous and shared memory of a process in bytes. `None`: the kernel hides it.
pub(crate) fn rss_parts(pid: u32, files: &Files) -> Option<(u64, u64)> {
    let status = files.read(format!("/proc/{pid}/status"))?;
    let bytes = |key| Some(status_field(&status, key)? * 1024);
    Some((bytes("RssAnon:")?, bytes("RssShmem:")?))
}

/// Highest resident memory that this process has had, in bytes.
#[must_use]
pub fn own_rss_peak_bytes() -> Option<u64> {
    Some(status_field(&read("/proc/self/status")?, "VmHWM:")? * 1024)
}

/// CPU time of all threads of this process, including those that have ended.
#[must_use]
pub fn own_cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

/// CPU time and last CPU of every process except this one and kernel threads.
#[must_use]
pub fn other_processes() -> Vec<Other> {
    let own = std::process::id();
    let one = |pid: u32| {
        let text = read(format!("/proc/{pid}/stat"))?;
        // Kernel threads, which work for all processes, are children of its second process.
        const KTHREADD: u32 = 2;
        let stat = Stat::parse(&text).filter(|stat| pid != KTHREADD && stat.parent != KTHREADD)?;
        let run_ns = (stat.user_ticks + stat.sys_ticks) * tick_ns();
        let reaped_ns = (stat.children_user_ticks + stat.children_sys_ticks) * tick_ns();
        let (parent, last_cpu) = (stat.parent, last_cpu(&text)?);
        let began_ticks = stat.began_ticks;
        Some(Other { pid, began_ticks, parent, name: stat.name, run_ns, reaped_ns, last_cpu })
    };
    all_pids().into_iter().filter(|pid| *pid != own).filter_map(one).collect()
}

/// CPU time of each process of `after` since `before`, including that of children that ended in the
/// meantime: a compiler often ends before the second list, but its driver does not. `ours`:
/// processes of dyno, whose children belong to the run. `most_ns`: CPU time of all CPUs together
/// between the two lists, an upper bound of the sum.
#[must_use]
pub fn cpu_time_between<'a>(
    before: &[Other],
    after: &'a [Other],
    ours: &BTreeSet<u32>,
    most_ns: u64,
) -> Vec<(&'a Other, u64)> {
    let earlier: BTreeMap<Key, &Other> = before.iter().map(|other| (other.key(), other)).collect();
    let then = |other: &Other| {
        earlier.get(&other.key()).map_or((0, 0), |then| (then.run_ns, then.reaped_ns))
    };
    let mut of_children: BTreeMap<u32, u64> = after
        .iter()
        .map(|other| (other.pid, other.reaped_ns.saturating_sub(then(other).1)))
        .collect();
    leave_out_earlier_use(before, after, &mut of_children);
    of_children.retain(|pid, _| !ours.contains(pid));
    let own: Vec<u64> =
        after.iter().map(|other| other.run_ns.saturating_sub(then(other).0)).collect();
    bound(&mut of_children, most_ns, own.iter().sum());
    let used = |(other, own): (&'a Other, u64)| {
        (other, own + of_children.get(&other.pid).copied().unwrap_or(0))
    };
    after.iter().zip(own).map(used).collect()
}

/// Subtracts the earlier use of processes that have ended. Their whole lives are in the totals of
/// the process that waited for them: the parent, or, if that has ended too, one of its ancestors.
/// The nearest living ancestor has it, unless the parent ended first and left its child to one
/// farther up.
fn leave_out_earlier_use(before: &[Other], after: &[Other], of_children: &mut BTreeMap<u32, u64>) {
    let alive: BTreeSet<Key> = after.iter().map(Other::key).collect();
    let by_pid: BTreeMap<u32, &Other> = before.iter().map(|other| (other.pid, other)).collect();
    for ended in before.iter().filter(|other| !alive.contains(&other.key())) {
        let mut known_ns = ended.run_ns + ended.reaped_ns;
        let mut parent = ended.parent;
        // The lists are not read in one instant, so their parents may form a circle.
        for generation in 0..before.len() {
            let Some(ancestor) = by_pid.get(&parent) else { break };
            parent = ancestor.parent;
            if !alive.contains(&ancestor.key()) {
                continue;
            }
            let total_ns = of_children.entry(ancestor.pid).or_default();
            let deducted_ns = known_ns.min(*total_ns);
            *total_ns -= deducted_ns;
            known_ns -= deducted_ns;
            // Only a living parent can have waited for it.
            if generation == 0 || known_ns == 0 {
                break;
            }
        }
    }
}

/// Bounds the CPU time of ended children by the remaining CPU time. A total above all CPU time
/// includes an unknown amount of earlier use, so it counts as zero. An excess of the other totals
/// is subtracted from the largest, which most likely includes it.
fn bound(of_children: &mut BTreeMap<u32, u64>, most_ns: u64, own_ns: u64) {
    // Reading the lists takes time, and the kernel counts in ticks.
    const BLUR: u64 = 10;
    let mut left_ns = most_ns.saturating_sub(own_ns);
    let mut totals: Vec<&mut u64> = of_children.values_mut().collect();
    totals.sort_unstable();
    for total_ns in totals {
        let is_possible = *total_ns <= most_ns.saturating_add(most_ns / BLUR);
        *total_ns = if is_possible { left_ns.min(*total_ns) } else { 0 };
        left_ns -= *total_ns;
    }
}

/// Identity of a process: its PID, and its start time, which distinguishes it from a later process
/// with the same PID.
type Key = (u32, u64);

/// This process and its descendants.
#[must_use]
pub fn own_tree() -> BTreeSet<u32> {
    trees(&[std::process::id()]).into_iter().collect()
}

/// A process other than dyno.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Other {
    pub pid: u32,
    /// Clock ticks from the start of the machine to that of the process.
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

impl Other {
    const fn key(&self) -> Key {
        (self.pid, self.began_ticks)
    }
}

/// The 39th field of `/proc/PID/stat` (proc_pid_stat(5)).
fn last_cpu(stat: &str) -> Option<u32> {
    stat.get(stat.rfind(')')? + 2..)?.split_ascii_whitespace().nth(36)?.parse().ok()
}

/// Process that listens on an IPv4 address and port of this thread's network: `(pid, name)`, if
/// dyno may inspect it. A listener at this address takes precedence over one at every address, as
/// in the kernel.
#[must_use]
pub fn listener_at(addr: SocketAddrV4) -> Option<(u32, String)> {
    listener_seen_by("thread-self", addr)
}

/// Process that listens on an address in the network of process `pid`.
#[must_use]
pub fn listener_in_network_of(pid: u32, addr: SocketAddrV4) -> Option<(u32, String)> {
    listener_seen_by(&pid.to_string(), addr)
}

fn listener_seen_by(viewer: &str, addr: SocketAddrV4) -> Option<(u32, String)> {
    let exact = u32::from_ne_bytes(addr.ip().octets());
    let mapped = format!("0000000000000000FFFF0000{exact:08X}");
    let table = |name: &str| read(format!("/proc/{viewer}/net/{name}"));
    let (v4, v6) = (table("tcp"), table("tcp6"));
    let places =
        [(&v4, format!("{exact:08X}")), (&v6, mapped), (&v4, "0".repeat(8)), (&v6, "0".repeat(32))];
    let inode =
        places.iter().find_map(|(table, at)| listening_inode(table.as_ref()?, at, addr.port()))?;
    let socket = format!("socket:[{inode}]");
    all_pids().into_iter().find_map(|pid| {
        let mut fds = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let holds = fds.any(|fd| {
            fd.ok()
                .and_then(|fd| fs::read_link(fd.path()).ok())
                .is_some_and(|l| l.as_os_str() == socket.as_str())
        });
        holds.then(|| (pid, Stat::read(pid).map(|s| s.name).unwrap_or_default()))
    })
}

/// Addresses and ports on which these processes listen, in order, each once, if visible to dyno.
#[must_use]
pub fn listeners(pids: &[u32]) -> Vec<SocketAddr> {
    let Some(first) = pids.first() else { return Vec::new() };
    let held: BTreeSet<u64> = pids.iter().flat_map(|pid| sockets(*pid)).collect();
    // The processes' view: they may be in another network namespace.
    let tables =
        ["tcp", "tcp6"].map(|table| read(format!("/proc/{first}/net/{table}")).unwrap_or_default());
    let all = tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(listening);
    let ours: BTreeSet<SocketAddr> =
        all.filter(|(_, inode)| held.contains(inode)).map(|(addr, _)| addr).collect();
    ours.into_iter().collect()
}

/// The inodes of a process's sockets.
fn sockets(pid: u32) -> Vec<u64> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let inode = |fd: fs::DirEntry| {
        let link = fs::read_link(fd.path()).ok()?.into_os_string().into_string().ok()?;
        link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    fds.filter_map(inode).collect()
}

/// Address and inode of a line of `/proc/net/tcp` or `tcp6`; `None`: it is no listener.
fn listening(line: &str) -> Option<(SocketAddr, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    if *fields.get(3)? != "0A" {
        return None;
    }
    // Each word of four bytes is written in the machine's own order.
    let words: Option<Vec<[u8; 4]>> = (0..address.len() / 8)
        .map(|i| u32::from_str_radix(address.get(8 * i..8 * i + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect();
    let bytes = words?.concat();
    let ip = match (<[u8; 4]>::try_from(&bytes[..]), <[u8; 16]>::try_from(&bytes[..])) {
        (Ok(v4), _) => IpAddr::from(v4),
        (_, Ok(v6)) => IpAddr::from(v6),
        _ => return None,
    };
    Some((SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?), fields.get(9)?.parse().ok()?))
}

/// Lines of `/proc/net/tcp`: `sl local:PORT remote st … inode`, numbers in hexadecimal, addresses
/// as words in the machine's own order; state 0A is LISTEN.
fn listening_inode(table: &str, address: &str, port: u16) -> Option<u64> {
    let wanted = format!("{address}:{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        (*fields.get(1)? == wanted && *fields.get(3)? == "0A")
            .then(|| fields.get(9)?.parse().ok())?
    })
}

pub(crate) fn tick_ns() -> u64 {
    1_000_000_000 / clock_ticks_per_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_what_descends_from_its_root() {
        let living = [(10, 1), (11, 10), (12, 11), (20, 1), (21, 20)];
        assert_eq!(descendants(&[10], &living), [10, 11, 12]);
        assert_eq!(descendants(&[10, 11], &living), [10, 11, 12], "each once");
        assert_eq!(descendants(&[99], &living), [0; 0], "it has ended");
    }

    #[test]
    fn a_stat_line_is_parsed_whatever_the_name_holds() {
        let text = "42 (a) (b)) S 1 42 40 0 -1 4194560 10 0 0 0 150 25 0 0 20 0 1 0 100 0 0\n";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(
            (stat.name.as_str(), stat.state, stat.parent, stat.session),
            ("a) (b)", 'S', 1, 40)
        );
        assert_eq!((stat.user_ticks, stat.sys_ticks), (150, 25));
        assert_eq!((stat.faults_minor, stat.faults_major), (10, 0));
        assert!(!stat.ignores_children);
        let ignores = |sigignore: u64| {
            let text = format!("7 (x) S {}{sigignore} 0 0 0 0\n", "1 ".repeat(29));
            Stat::parse(&text).unwrap().ignores_children
        };
        assert!(ignores(1 << 16) && !ignores(0x7fff_ffff & !(1 << 16)));
        assert_eq!(last_cpu(text), None);
        let whole = format!("1 (x y) S 0 {} 7 0 0\n", "1 ".repeat(34).trim());
        assert_eq!(last_cpu(&whole), Some(7));
        assert!(other_processes().iter().all(|other| other.pid != std::process::id()));
        assert_eq!(Stat::parse(""), None);
        assert_eq!(Stat::parse("1 (x) S 1"), None);
    }

    #[test]
    fn our_own_thread_is_seen_working() {
        let pid = std::process::id();
        let before: u64 = threads(pid).iter().map(|t| t.run_ns).sum();
        let mut x = 1u64;
        while threads(pid).iter().map(|t| t.run_ns).sum::<u64>() < before + 2_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(rss_bytes(pid, &Files::default()).unwrap() > 100_000);
        assert!(own_rss_peak_bytes().unwrap() >= 100_000);
        assert!(session_pids(Stat::read(pid).unwrap().session).contains(&pid));
    }

    /// A thread that ran since the last reading is read again. The counters of others are kept.
    #[test]
    fn only_threads_that_ran_are_read_again() {
        let pid = std::process::id();
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_pid() as u32).unwrap();
            while woken.recv().is_ok() {
                (0..200_000).for_each(|n| {
                    std::hint::black_box(n);
                });
                sender.send(0).unwrap();
            }
        });
        let tid = receiver.recv().unwrap();
        let files = Files::default();
        let seen =
            |files: &Files| threads_in(pid, files).into_iter().find(|t| t.tid == tid).unwrap();
        let mut last = seen(&files);
        for _ in 0..20 {
            wake.send(()).unwrap();
            receiver.recv().unwrap();
            // It goes to sleep again, sooner or later.
            let asleep = (0..10_000_000).find_map(|_| {
                std::thread::yield_now();
                let (now, anew) = (seen(&files), seen(&Files::default()));
                (now == anew && now.switches_voluntary > last.switches_voluntary).then_some(now)
            });
            let now = asleep.expect("its last counters are never read");
            assert!(now.run_ns > last.run_ns);
            last = now;
        }
        drop(wake);
        thread.join().unwrap();
    }

    fn other(pid: u32, parent: u32, run_ns: u64, reaped_ns: u64) -> Other {
        Other { pid, parent, name: format!("p{pid}"), run_ns, reaped_ns, ..Other::default() }
    }

    /// CPU time of each process, by its number.
    fn used(before: &[Other], after: &[Other], ours: &[u32], most_ns: u64) -> Vec<(u32, u64)> {
        let ours = ours.iter().copied().collect();
        let all = cpu_time_between(before, after, &ours, most_ns);
        all.into_iter().map(|(other, ns)| (other.pid, ns)).collect()
    }

    #[test]
    fn ended_children_count_for_their_parent() {
        // A make with a compiler that had used 300 before, and a minder of dyno's.
        let before = [other(1, 0, 10, 1000), other(2, 1, 300, 0), other(5, 0, 0, 0)];
        // Both compilers ended: 300 + 500, and 200; a third is at work.
        let after = [other(1, 0, 11, 2000), other(4, 1, 50, 0), other(5, 0, 1, 700)];
        assert_eq!(used(&before, &after, &[5], u64::MAX), [(1, 701), (4, 50), (5, 1)]);
        assert!(own_tree().contains(&std::process::id()));
    }

    /// The whole life of a grandchild lands on its grandparent where its parent ended, too.
    #[test]
    fn earlier_use_of_ended_grandchildren_is_left_out() {
        // bash → make (20, and 40 of children) → cc (2,000) → as (600).
        let before =
            [other(1, 0, 5, 100), other(2, 1, 20, 40), other(3, 2, 2000, 0), other(4, 3, 600, 0)];
        // They used 7, 11 and 13 more until they ended.
        let lives_ns = 20 + 40 + 2000 + 600 + 7 + 11 + 13;
        let after = [other(1, 0, 6, 100 + lives_ns)];
        assert_eq!(used(&before, &after, &[], u64::MAX), [(1, 1 + 7 + 11 + 13)]);
        // make goes on.
        let after = [other(1, 0, 6, 100), other(2, 1, 22, 40 + 2600 + 24)];
        assert_eq!(used(&before, &after, &[], u64::MAX), [(1, 1), (2, 2 + 24)]);
    }

    /// cc lost its parent first, and ended as a child of init, which waits for it.
    #[test]
    fn earlier_use_of_ended_orphans_is_left_out() {
        let before =
            [other(1, 0, 5, 100), other(9, 1, 0, 0), other(2, 9, 20, 0), other(3, 2, 2000, 0)];
        let after = [other(1, 0, 5, 100 + 2011), other(9, 1, 0, 23)];
        assert_eq!(used(&before, &after, &[], u64::MAX), [(1, 11 + 3), (9, 0)]);
        // A living parent that ignores its children does not wait for them.
        let before = [other(1, 0, 5, 100), other(2, 1, 20, 0), other(3, 2, 2000, 0)];
        let after = [other(1, 0, 5, 400), other(2, 1, 20, 0)];
        assert_eq!(used(&before, &after, &[], u64::MAX), [(1, 300), (2, 0)]);
    }

    #[test]
    fn process_of_a_used_number_is_another() {
        let before = [other(1, 0, 0, 0), other(2, 1, 300, 0)];
        let later = Other { began_ticks: 7, ..other(2, 1, 350, 0) };
        let after = [other(1, 0, 0, 310), later];
        assert_eq!(used(&before, &after, &[], u64::MAX), [(1, 10), (2, 350)]);
    }

    #[test]
    fn parents_in_a_circle_are_followed_to_an_end() {
        let before = [other(2, 3, 10, 0), other(3, 2, 10, 0)];
        assert_eq!(used(&before, &[], &[], u64::MAX), []);
    }

    /// 2 CPUs for a second, of which 600 ms are known.
    #[test]
    fn programs_use_no_more_than_the_cpus_had() {
        const MS: u64 = 1_000_000;
        let before = [other(1, 0, 0, 0), other(2, 0, 0, 0), other(3, 0, 0, 0)];
        let after = |children_ms: [u64; 2]| {
            [
                other(1, 0, 600 * MS, 0),
                other(2, 0, 0, children_ms[0] * MS),
                other(3, 0, 0, children_ms[1] * MS),
            ]
        };
        let in_ms = |children_ms| {
            let all = used(&before, &after(children_ms), &[], 2000 * MS);
            all.into_iter().map(|(_, ns)| ns / MS).collect::<Vec<_>>()
        };
        assert_eq!(in_ms([300, 900]), [600, 300, 900]);
        assert_eq!(in_ms([300, 1800]), [600, 300, 1100]);
        // 27 s in one second: the share from before is unknown.
        assert_eq!(in_ms([300, 27_000]), [600, 300, 0]);
    }

    #[test]
    fn a_listener_is_found_by_its_port() {
        for at in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(at) else { continue };
            let port = listener.local_addr().unwrap().port();
            let here = SocketAddrV4::new([127, 0, 0, 1].into(), port);
            let us = std::process::id();
            assert_eq!(listener_at(here).map(|(pid, _)| pid), Some(us), "{at}");
            assert_eq!(listener_in_network_of(us, here), listener_at(here));
            drop(listener);
            assert_eq!(listener_at(here), None);
        }
    }

    #[test]
    fn all_listeners_of_a_process_are_found() {
        let us = std::process::id();
        let four = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let six = std::net::TcpListener::bind("[::1]:0");
        let mut wanted = vec![four.local_addr().unwrap()];
        wanted.extend(six.iter().map(|six| six.local_addr().unwrap()));
        let found = listeners(&[us]);
        // Other tests listen as well.
        assert!(wanted.iter().all(|addr| found.contains(addr)), "{wanted:?} {found:?}");
        assert_eq!(listeners(&[]), []);
        let gone = wanted[0];
        drop(four);
        assert!(!listeners(&[us]).contains(&gone));
    }

    #[test]
    fn listener_at_another_address_is_not_found() {
        let elsewhere = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
        let port = elsewhere.local_addr().unwrap().port();
        assert_eq!(listener_at(SocketAddrV4::new([127, 0, 0, 1].into(), port)), None);
        assert!(listener_at(SocketAddrV4::new([127, 0, 0, 2].into(), port)).is_some());
    }
}
