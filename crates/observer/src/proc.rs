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

/// What `/proc/PID/stat` and `/proc/PID/task/TID/stat` say (proc_pid_stat(5)), as far as it is used here.
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
    /// Of the children that were waited for, and of those that they waited for.
    pub children_faults_minor: u64,
    pub children_faults_major: u64,
    pub children_user_ticks: u64,
    pub children_sys_ticks: u64,
}

impl Stat {
    /// The name is in parentheses and may hold anything, parentheses too.
    #[must_use]
    pub fn parse(text: &str) -> Option<Stat> {
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let fields: Vec<&str> = text.get(close + 2..)?.split_ascii_whitespace().collect();
        let number = |i: usize| fields.get(i)?.parse().ok();
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
        })
    }

    #[must_use]
    pub fn of(pid: u32) -> Option<Stat> {
        Stat::parse(&read(format!("/proc/{pid}/stat"))?)
    }

    /// Whether the process has ended and only waits to be collected. Of one whose first thread has ended others may go on.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        if self.threads > 1 {
            return false;
        }
        matches!(self.state, 'Z' | 'X')
    }
}

/// All processes of this machine that we can see.
#[must_use]
pub fn all_pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The living processes of a session: a subject's, where it has no control group.
#[must_use]
pub fn session_pids(session: u32) -> Vec<u32> {
    let is_its = |stat: &Stat| stat.session == session && !stat.is_dead();
    all_pids().into_iter().filter(|pid| Stat::of(*pid).is_some_and(|stat| is_its(&stat))).collect()
}

/// Totals of a process, from its `/proc/PID/stat`: those of a whole process hold its ended threads,
/// too.
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
    }
}

/// The same of a process, read with files that stay open. `None`: it has ended.
pub(crate) fn totals_in(pid: u32, files: &Files) -> Option<ProcessUse> {
    Some(totals(pid, &Stat::parse(&files.read(format!("/proc/{pid}/stat"))?)?))
}

/// When a process began, by the wall clock: good to a second, as `btime` is.
#[must_use]
pub fn began(pid: u32) -> Option<SystemTime> {
    let ticks = Stat::of(pid)?.began_ticks;
    let boot =
        read("/proc/stat")?.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(boot) + Duration::from_nanos(ticks * tick_ns()))
}

/// These processes, and all that descend from them, as far as they live.
#[must_use]
pub fn trees(roots: &[u32]) -> Vec<u32> {
    let all = all_pids().into_iter().filter_map(|pid| Some((pid, Stat::of(pid)?)));
    let living: Vec<(u32, u32)> =
        all.filter(|(_, stat)| !stat.is_dead()).map(|(pid, stat)| (pid, stat.parent)).collect();
    descendants(roots, &living)
}

/// All that descend from a process, as far as they live; not the process itself.
#[must_use]
pub fn below(root: u32) -> Vec<u32> {
    trees(&[root]).into_iter().filter(|pid| *pid != root).collect()
}

/// These processes and all below them, with those that wait to be reaped.
pub(crate) fn tree_stats(roots: &[u32]) -> Vec<(u32, Stat)> {
    let mut all: Vec<(u32, Stat)> =
        all_pids().into_iter().filter_map(|pid| Some((pid, Stat::of(pid)?))).collect();
    let parents: Vec<(u32, u32)> = all.iter().map(|(pid, stat)| (*pid, stat.parent)).collect();
    let wanted = descendants(roots, &parents);
    all.retain(|(pid, _)| wanted.contains(pid));
    all
}

/// These and all below them. `living`: processes with their parents.
fn descendants(roots: &[u32], living: &[(u32, u32)]) -> Vec<u32> {
    let mut found: Vec<u32> =
        roots.iter().copied().filter(|root| living.iter().any(|(pid, _)| pid == root)).collect();
    let mut looked_at = 0;
    while let Some(parent) = found.get(looked_at).copied() {
        let children: Vec<u32> = living.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid).collect();
        found.extend(children.into_iter().filter(|child| !roots.contains(child)));
        looked_at += 1;
    }
    found
}

/// The processes that take connections at a port of the network that this thread is in, whatever the address, as far as we may see.
#[must_use]
pub fn listening_on(port: u16) -> Vec<u32> {
    let tables =
        ["tcp", "tcp6"].map(|table| read(format!("/proc/thread-self/net/{table}")).unwrap_or_default());
    let all = tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(listening);
    let wanted: BTreeSet<u64> = all.filter(|(addr, _)| addr.port() == port).map(|(_, inode)| inode).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    // Numbers of sockets are of the whole machine: none of another network is among them.
    let holds = |pid: &u32| sockets(*pid).iter().any(|inode| wanted.contains(inode));
    all_pids().into_iter().filter(holds).collect()
}

/// Counters of every thread of a process. Threads that end meanwhile are left out.
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
    // First: if the thread runs while the others are read, it says something else the next time.
    let schedstat = files.read(task.join("schedstat")).unwrap_or_default();
    if let Some(known) = files.unless_it_ran(pid, tid, &schedstat) {
        return Some(known);
    }
    let stat = Stat::parse(&files.read(task.join("stat"))?)?;
    let tick = tick_ns();
    let (user_ns, sys_ns) = (stat.user_ticks * tick, stat.sys_ticks * tick);
    let mut numbers = schedstat.split_ascii_whitespace().map_while(|n| n.parse::<u64>().ok());
    // Both absent on kernels without CONFIG_SCHED_INFO; then ticks have to do for the first.
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

/// Resident anonymous and shared memory of a process in bytes. `None`: the kernel does not show it
/// to us.
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

/// CPU time of all threads of this process, those that have ended included.
#[must_use]
pub fn own_cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

/// CPU time of every process but this one and the kernel's own threads, and the CPU on which it ran last.
#[must_use]
pub fn others() -> Vec<Other> {
    let own = std::process::id();
    let one = |pid: u32| {
        let text = read(format!("/proc/{pid}/stat"))?;
        // Threads of the kernel, which work for everybody, are children of its second process.
        const KTHREADD: u32 = 2;
        let stat = Stat::parse(&text).filter(|stat| pid != KTHREADD && stat.parent != KTHREADD)?;
        let run_ns = (stat.user_ticks + stat.sys_ticks) * tick_ns();
        let reaped_ns = (stat.children_user_ticks + stat.children_sys_ticks) * tick_ns();
        let (parent, last_cpu) = (stat.parent, last_cpu(&text)?);
        Some(Other { pid, parent, name: stat.name, run_ns, reaped_ns, last_cpu })
    };
    all_pids().into_iter().filter(|pid| *pid != own).filter_map(one).collect()
}

/// CPU time that each process of `after` used since `before`, with that of its children which ended
/// meanwhile: a compiler is often gone before anybody looks, and its driver is not. `ours`:
/// processes of dyno, whose children are the run's own.
#[must_use]
pub fn used_between<'a>(before: &[Other], after: &'a [Other], ours: &BTreeSet<u32>) -> Vec<(&'a Other, u64)> {
    let earlier: BTreeMap<u32, &Other> = before.iter().map(|other| (other.pid, other)).collect();
    let alive: BTreeSet<u32> = after.iter().map(|other| other.pid).collect();
    // What children that have ended had used before is no part of it.
    let mut known: BTreeMap<u32, u64> = BTreeMap::new();
    for ended in before.iter().filter(|other| !alive.contains(&other.pid)) {
        *known.entry(ended.parent).or_default() += ended.run_ns + ended.reaped_ns;
    }
    let used = |other: &'a Other| {
        let (run_ns, reaped_ns) =
            earlier.get(&other.pid).map_or((0, 0), |earlier| (earlier.run_ns, earlier.reaped_ns));
        let of_children = other.reaped_ns.saturating_sub(reaped_ns);
        let of_children = of_children.saturating_sub(known.get(&other.pid).copied().unwrap_or(0));
        let of_children = if ours.contains(&other.pid) { 0 } else { of_children };
        (other, other.run_ns.saturating_sub(run_ns) + of_children)
    };
    after.iter().map(used).collect()
}

/// This process, and all that descend from it.
#[must_use]
pub fn own_tree() -> BTreeSet<u32> {
    trees(&[std::process::id()]).into_iter().collect()
}

/// A process of somebody else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Other {
    pub pid: u32,
    pub parent: u32,
    pub name: String,
    /// CPU time since the process began.
    pub run_ns: u64,
    /// CPU time of its children that ended and were collected, with theirs.
    pub reaped_ns: u64,
    /// Number of the CPU on which it ran last.
    pub last_cpu: u32,
}

/// The 39th field of `/proc/PID/stat` (proc_pid_stat(5)).
fn last_cpu(stat: &str) -> Option<u32> {
    stat.get(stat.rfind(')')? + 2..)?.split_ascii_whitespace().nth(36)?.parse().ok()
}

/// The process that takes connections to an IPv4 address and port of the network that this thread is in: `(pid, name)`, as far as
/// we may see. A listener at this address comes before one at every address, as in the kernel.
#[must_use]
pub fn listener_at(addr: SocketAddrV4) -> Option<(u32, String)> {
    listener_seen_by("thread-self", addr)
}

/// The same in the network of a process.
#[must_use]
pub fn listener_beside(pid: u32, addr: SocketAddrV4) -> Option<(u32, String)> {
    listener_seen_by(&pid.to_string(), addr)
}

fn listener_seen_by(viewer: &str, addr: SocketAddrV4) -> Option<(u32, String)> {
    let exact = u32::from_ne_bytes(addr.ip().octets());
    let mapped = format!("0000000000000000FFFF0000{exact:08X}");
    let table = |name: &str| read(format!("/proc/{viewer}/net/{name}"));
    let (v4, v6) = (table("tcp"), table("tcp6"));
    let places = [(&v4, format!("{exact:08X}")), (&v6, mapped), (&v4, "0".repeat(8)), (&v6, "0".repeat(32))];
    let inode = places.iter().find_map(|(table, at)| listening_inode(table.as_ref()?, at, addr.port()))?;
    let socket = format!("socket:[{inode}]");
    all_pids().into_iter().find_map(|pid| {
        let mut fds = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let holds = fds.any(|fd| {
            fd.ok()
                .and_then(|fd| fs::read_link(fd.path()).ok())
                .is_some_and(|l| l.as_os_str() == socket.as_str())
        });
        holds.then(|| (pid, Stat::of(pid).map(|s| s.name).unwrap_or_default()))
    })
}

/// Where these processes take connections, as far as we may see: addresses and ports, in order, each once.
#[must_use]
pub fn listeners(pids: &[u32]) -> Vec<SocketAddr> {
    let Some(first) = pids.first() else { return Vec::new() };
    let held: BTreeSet<u64> = pids.iter().flat_map(|pid| sockets(*pid)).collect();
    // As the processes see it: they may have a network of their own.
    let tables = ["tcp", "tcp6"].map(|table| read(format!("/proc/{first}/net/{table}")).unwrap_or_default());
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

/// Lines of `/proc/net/tcp`: `sl local:PORT remote st … inode`, numbers in hexadecimal, addresses as words in the machine's own
/// order; state 0A is LISTEN.
fn listening_inode(table: &str, address: &str, port: u16) -> Option<u64> {
    let wanted = format!("{address}:{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        (*fields.get(1)? == wanted && *fields.get(3)? == "0A").then(|| fields.get(9)?.parse().ok())?
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
        assert_eq!((stat.name.as_str(), stat.state, stat.parent, stat.session), ("a) (b)", 'S', 1, 40));
        assert_eq!((stat.user_ticks, stat.sys_ticks), (150, 25));
        assert_eq!((stat.faults_minor, stat.faults_major), (10, 0));
        assert_eq!(last_cpu(text), None);
        let whole = format!("1 (x y) S 0 {} 7 0 0\n", "1 ".repeat(34).trim());
        assert_eq!(last_cpu(&whole), Some(7));
        assert!(others().iter().all(|other| other.pid != std::process::id()));
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
        assert!(session_pids(Stat::of(pid).unwrap().session).contains(&pid));
    }

    /// A thread that ran since the last reading is read again. The counters of others are kept.
    #[test]
    fn only_threads_that_ran_are_read_again() {
        let pid = std::process::id();
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_pid() as u32).unwrap();
            while woken.recv().is_ok() {
                (0..200_000).for_each(|n| {
                    std::hint::black_box(n);
                });
                tell.send(0).unwrap();
            }
        });
        let tid = told.recv().unwrap();
        let files = Files::default();
        let seen = |files: &Files| threads_in(pid, files).into_iter().find(|t| t.tid == tid).unwrap();
        let mut last = seen(&files);
        for _ in 0..20 {
            wake.send(()).unwrap();
            told.recv().unwrap();
            // It goes to sleep again, sooner or later.
            let asleep = (0..10_000_000).find_map(|_| {
                std::thread::yield_now();
                let (now, anew) = (seen(&files), seen(&Files::default()));
                (now == anew && now.switches_voluntary > last.switches_voluntary).then_some(now)
            });
            let now = asleep.expect("what it did last is never read");
            assert!(now.run_ns > last.run_ns);
            last = now;
        }
        drop(wake);
        thread.join().unwrap();
    }

    #[test]
    fn ended_children_count_for_their_parent() {
        let of = |pid, parent, run_ns, reaped_ns| Other {
            pid,
            parent,
            name: format!("p{pid}"),
            run_ns,
            reaped_ns,
            last_cpu: 0,
        };
        // A make with a compiler that had used 300 before, and a minder of dyno's.
        let before = [of(1, 0, 10, 1000), of(2, 1, 300, 0), of(5, 0, 0, 0)];
        // Both compilers ended: 300 + 500, and 200; a third is at work.
        let after = [of(1, 0, 11, 2000), of(4, 1, 50, 0), of(5, 0, 1, 700)];
        let used: Vec<(u32, u64)> = used_between(&before, &after, &[5].into())
            .into_iter()
            .map(|(other, ns)| (other.pid, ns))
            .collect();
        assert_eq!(used, [(1, 701), (4, 50), (5, 1)]);
        assert!(own_tree().contains(&std::process::id()));
    }

    #[test]
    fn a_listener_is_found_by_its_port() {
        for at in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(at) else { continue };
            let port = listener.local_addr().unwrap().port();
            let here = SocketAddrV4::new([127, 0, 0, 1].into(), port);
            let us = std::process::id();
            assert_eq!(listener_at(here).map(|(pid, _)| pid), Some(us), "{at}");
            assert_eq!(listener_beside(us, here), listener_at(here));
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
    fn a_listener_at_another_address_is_nobody_here() {
        let elsewhere = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
        let port = elsewhere.local_addr().unwrap().port();
        assert_eq!(listener_at(SocketAddrV4::new([127, 0, 0, 1].into(), port)), None);
        assert!(listener_at(SocketAddrV4::new([127, 0, 0, 2].into(), port)).is_some());
    }
}
