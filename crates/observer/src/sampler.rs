//! Takes samples: reads the counters of all monitored parties and of the machine at one instant.
//! Analysis computes costs and rates from the differences of two samples.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::sample::{CgroupUse, Party, PartyUse, ProcessUse, Sample};

use crate::cgroup::Group;
use crate::clock::monotonic_ns;
use crate::files::Files;
use crate::kernel_probes::PartyMonitor;
use crate::proc::ProportionalMemory;
use crate::{host, network, proc};

/// Sources of one party's counters.
#[derive(Clone, Debug)]
pub struct Sampler {
    /// Control group of the party; empty: no group could be created.
    pub group: Group,
    /// Processes of the party. Without a group, they are the source of the party's counters.
    pub processes: Processes,
}

/// Processes of a party, selected by their ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Descendants of this process, in any session, without the process itself.
    Descendants(u32),
    /// These processes and their descendants.
    Trees(Vec<u32>),
}

impl Processes {
    fn pids(&self) -> Vec<u32> {
        match self {
            Processes::Descendants(root) => proc::descendants_of(*root),
            Processes::Trees(roots) => proc::trees(roots),
        }
    }

    /// Returns the processes with their counters. Zombies are included, because no other process's
    /// totals include their counters until they are reaped.
    fn stats(&self) -> Vec<(u32, proc::Stat)> {
        match self {
            Processes::Descendants(root) => {
                let mut stats = proc::tree_stats(&[*root]);
                stats.retain(|(pid, _)| pid != root);
                stats
            }
            Processes::Trees(roots) => proc::tree_stats(roots),
        }
    }

    /// Returns the use of children that their parent has reaped. The parent's own counters are not
    /// included.
    fn reaped_use(&self) -> Option<ProcessUse> {
        let Processes::Descendants(root) = self else { return None };
        let totals = proc::totals(*root, &proc::Stat::read(*root)?);
        Some(ProcessUse { user_ns: 0, sys_ns: 0, faults_minor: 0, faults_major: 0, ..totals })
    }
}

impl Sampler {
    /// Returns the PIDs of the party's living processes.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        if self.group.is_empty() { self.processes.pids() } else { self.group.pids() }
    }

    /// Returns the number of the party's living processes that have left its control group, or have
    /// a thread that left it (version 1); 0 without a group.
    #[must_use]
    pub fn strays(&self) -> u32 {
        if self.group.is_empty() {
            return 0;
        }
        // Processes are listed before the group is read. A process that starts in between is then
        // not a stray.
        let pids = self.processes.pids();
        let with_pid = |pid: u32| proc::thread_ids(pid).into_iter().map(move |tid| (tid, pid));
        let threads: BTreeMap<u32, u32> = pids.iter().copied().flat_map(with_pid).collect();
        let is_alive = |id: &u32| proc::Stat::read(*id).is_some_and(|stat| !stat.is_dead());
        let mut strays: BTreeSet<u32> =
            self.group.strays(&pids).into_iter().filter(is_alive).collect();
        let stray_threads = self.group.stray_threads(threads.keys().copied());
        strays.extend(stray_threads.into_iter().filter(is_alive).map(|tid| threads[&tid]));
        strays.len() as u32
    }

    /// Returns the CPU time of the party so far, nanoseconds. The source is the control group;
    /// without a group, the processes and their reaped children. `None`: neither can be read, a
    /// process has left the group, or a process ignores SIGCHLD, so that the CPU time of its ended
    /// children is in no counter.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        if !self.group.is_empty() {
            // The CPU time is read first, because it takes long to find strays.
            let cpu_ns = self.group.cpu_ns();
            return cpu_ns.filter(|_| self.strays() == 0);
        }
        let (pids, each) = self.totals(&Files::default());
        if each.iter().any(|process| process.ignores_children) {
            return None;
        }
        let threads = pids.into_iter().flat_map(proc::threads).collect();
        PartyUse { threads, each, ..PartyUse::empty(Party::SUBJECT) }.cpu_ns().filter(|ns| *ns > 0)
    }

    /// Returns the CPU time of the party's living processes and of the children that they reaped,
    /// nanoseconds. It is a lower bound: the totals of children are whole clock ticks.
    #[must_use]
    pub fn processes_cpu_ns(&self) -> u64 {
        let (pids, each) = self.totals(&Files::default());
        let threads = pids.into_iter().flat_map(proc::threads).collect();
        PartyUse { threads, each, ..PartyUse::empty(Party::SUBJECT) }.cpu_ns().unwrap_or(0)
    }

    /// Returns the PIDs of the living processes, and the totals of all processes.
    fn totals(&self, files: &Files) -> (Vec<u32>, Vec<ProcessUse>) {
        if !self.group.is_empty() {
            let pids = self.group.pids();
            let each = pids.iter().filter_map(|&pid| proc::cached_totals(pid, files)).collect();
            return (pids, each);
        }
        // The parent is read before its children. A child that is reaped in between is then counted
        // in neither, instead of in both.
        let reaped = self.processes.reaped_use();
        let stats = self.processes.stats();
        let living = stats.iter().filter(|(_, stat)| !stat.is_dead()).map(|(pid, _)| *pid);
        let each = stats.iter().map(|(pid, stat)| proc::totals(*pid, stat));
        (living.collect(), reaped.into_iter().chain(each).collect())
    }

    /// Reads the party's counters. The control group is read first: costs are computed from its
    /// sums, so the sums must be closest to the sample's instant. The totals of a process are read
    /// before its threads, so that the totals never include work that a thread did after the
    /// reading of the thread.
    fn read(
        &self,
        party: Party,
        monitor: Option<&PartyMonitor>,
        reads: Reads,
        files: &Files,
    ) -> PartyUse {
        let cgroup = (!self.group.is_empty()).then(|| self.group.cached_counters(files));
        let (pids, each) = self.totals(files);
        let has_joined = monitor.is_some_and(|monitor| monitor.add(&pids));
        let resident = match pids[..] {
            [pid] => proc::rss_parts(pid, files),
            _ => None,
        };
        let mut used = PartyUse {
            cgroup,
            each,
            rss_anon_bytes: resident.map(|parts| parts.0),
            rss_shmem_bytes: resident.map(|parts| parts.1),
            huge_bytes: huge_memory(&pids, files),
            threads: pids.iter().flat_map(|&pid| proc::cached_threads(pid, files)).collect(),
            processes: pids.len() as u32,
            has_joined,
            rss_bytes: living_memory(&pids, |pid| proc::rss_bytes(pid, files))
                .map(|each| each.into_iter().sum()),
            network: match reads {
                Reads::All => network::common_counters(&pids, files),
                Reads::WithoutNetworksAndDisks => None,
            },
            ..PartyUse::empty(party)
        };
        if let Some(monitor) = monitor {
            // The times of all threads extend to this one instant.
            monitor.fill(&mut used, monotonic_ns());
        }
        used
    }
}

/// Returns the huge pages of processes in bytes. `None`: unknown, or several processes may share
/// them ([`read_shared_memory`]).
fn huge_memory(pids: &[u32], files: &Files) -> Option<u64> {
    if pids.is_empty() {
        return Some(0);
    }
    let each = living_memory(pids, |pid| proc::huge_bytes(pid, files))?;
    let sum = each.iter().sum();
    (sum == 0 || each.len() == 1).then_some(sum)
}

/// Adds the memory that several processes of a party may share: their proportional anonymous and
/// shared memory, unless their control group counted it, and their huge pages. Huge pages that
/// several processes map are those of the process with the most.
///
/// The kernel visits each page for it, which takes 12 ms per GB. Call it only after all counters
/// are read: the sample's CPU times would otherwise be of a later instant than its responses.
pub fn read_shared_memory(watched: &[Scope<'_>], sample: &mut Sample) {
    for scope in watched {
        let used = sample.party_use_mut(scope.party);
        let pids = scope.sampler.pids();
        let is_known =
            used.rss_anon_bytes.is_some() || has_counted(used.cgroup.as_ref(), mapped_bytes(&pids));
        if is_known && used.huge_bytes.is_some() {
            continue;
        }
        let each = living_memory(&pids, proc::proportional_memory);
        let Some(each) = each else { continue };
        let sum = |part: fn(&ProportionalMemory) -> u64| each.iter().map(part).sum::<u64>();
        if !is_known {
            used.rss_anon_bytes = Some(sum(|memory| memory.anon));
            used.rss_shmem_bytes = Some(sum(|memory| memory.shmem));
        }
        let shared = each.iter().map(|memory| memory.shared_huge).max().unwrap_or(0);
        used.huge_bytes.get_or_insert(shared + sum(|memory| memory.private_huge));
    }
}

/// Highest memory of processes in a control group that is read page by page, which takes 50 ms.
const MAX_VISITED_BYTES: u64 = 4 << 30;

/// Whether a control group has counted the memory of its processes, each page once. Processes that
/// joined the group later brought memory that it lacks. `mapped`: anonymous and shared memory of
/// the processes, with shared pages once per process. `None`: unknown.
fn has_counted(group: Option<&CgroupUse>, mapped: Option<u64>) -> bool {
    // The anonymous memory of the group of a small server is 0.
    let Some(anon) = group.and_then(|group| group.memory_anon_bytes).filter(|anon| *anon > 0)
    else {
        return false;
    };
    let counted = anon + group.and_then(|group| group.memory_shmem_bytes).unwrap_or(0);
    mapped.is_none_or(|mapped| mapped <= counted || mapped > MAX_VISITED_BYTES)
}

/// Returns the anonymous and shared memory of processes, with shared pages once per process.
fn mapped_bytes(pids: &[u32]) -> Option<u64> {
    let each = living_memory(pids, |pid| proc::rss_parts(pid, &Files::default()))?;
    Some(each.into_iter().map(|(anon, shmem)| anon + shmem).sum())
}

/// Reads the memory of processes. Processes that have ended since they were listed have no memory,
/// and are omitted. `None`: no process is left, or the memory of a process is unknown.
fn living_memory<T>(pids: &[u32], memory: impl Fn(u32) -> Option<T>) -> Option<Vec<T>> {
    let has_ended = |pid: u32| proc::Stat::read(pid).is_none_or(|stat| stat.is_exiting);
    let read = |&pid: &u32| match memory(pid) {
        None if has_ended(pid) => None,
        memory => Some(memory),
    };
    let each: Option<Vec<T>> = pids.iter().filter_map(read).collect();
    each.filter(|each| !each.is_empty())
}

/// A party and the sources of its counters.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations)] // The monitor has none.
pub struct Scope<'a> {
    pub party: Party,
    pub sampler: &'a Sampler,
    /// `None`: no kernel probe is attached to the party's processes.
    pub monitor: Option<&'a PartyMonitor>,
}

/// Selection of the counters in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    All,
    /// All counters except those of networks and disks. Use of networks and disks cannot be
    /// attributed to one of several loads that take turns, and reading it takes CPU time from the
    /// current load.
    WithoutNetworksAndDisks,
}

/// Takes a sample of the monitored parties, dyno itself and the machine. `files` stay open from one
/// sample to the next.
#[must_use]
pub fn sample(watched: &[Scope<'_>], reads: Reads, files: &Files) -> Sample {
    // The clock is read first: this is the instant of the sample, and the start of its duration.
    let at_ns = monotonic_ns();
    let read = |scope: &Scope<'_>| scope.sampler.read(scope.party, scope.monitor, reads, files);
    let mut parties: Vec<PartyUse> = watched.iter().map(read).collect();
    parties.push(PartyUse {
        threads: proc::cached_threads(std::process::id(), files),
        processes: 1,
        // Clients may be in another network namespace than the servers. This thread is in the
        // clients' namespace.
        network: match reads {
            Reads::All => network::counters_here(files),
            Reads::WithoutNetworksAndDisks => None,
        },
        ..PartyUse::empty(Party::GENERATOR)
    });
    Sample {
        at_ns,
        parties,
        host: match reads {
            Reads::All => host::counters(files),
            Reads::WithoutNetworksAndDisks => host::counters_without_networks_and_disks(files),
        },
        co_runners: None,
        delayed_ns: 0,
        // The clock is read last. The duration shows the precision and the cost of the sample.
        took_ns: monotonic_ns() - at_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ungrouped(pids: Vec<u32>) -> Sampler {
        Sampler { group: Group::default(), processes: Processes::Trees(pids) }
    }

    fn subject_sample(sampler: &Sampler) -> PartyUse {
        let scope = Scope { party: Party::SUBJECT, sampler, monitor: None };
        let mut sample = sample(&[scope], Reads::All, &Files::default());
        read_shared_memory(&[scope], &mut sample);
        sample.party_use(Party::SUBJECT).unwrap().clone()
    }

    #[test]
    fn memory_without_processes_is_unknown() {
        let used = subject_sample(&ungrouped(Vec::new()));
        assert_eq!((used.processes, used.rss_bytes, used.rss_anon_bytes), (0, None, None));
    }

    #[test]
    fn memory_of_living_processes_ignores_zombies() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let (zombie, own) = (child.id(), std::process::id());
        while !proc::Stat::read(zombie).unwrap().is_dead() {
            std::thread::yield_now();
        }
        let files = Files::default();
        let bytes = |pids: &[u32]| living_memory(pids, |pid| proc::rss_bytes(pid, &files));
        let parts = |pids: &[u32]| living_memory(pids, |pid| proc::rss_parts(pid, &files));
        assert_eq!(bytes(&[zombie, own]).unwrap().len(), 1);
        assert_eq!(parts(&[own, zombie]).unwrap().len(), 1);
        assert_eq!((bytes(&[zombie]), parts(&[zombie])), (None, None));
        // The memory of a living process is unknown.
        assert_eq!(living_memory(&[zombie, own], |_| None::<u64>), None);
        child.wait().unwrap();
        assert_eq!(bytes(&[zombie, own]).unwrap().len(), 1);
    }

    #[test]
    fn forked_processes_count_shared_pages_once() {
        const SERVER: &str = "import os, sys\n\
                              big = bytearray(40 << 20)\n\
                              for i in range(0, len(big), 4096): big[i] = 1\n\
                              for _ in range(3):\n  if os.fork() == 0: break\n\
                              print(os.getpid(), flush=True)\n\
                              sys.stdin.read()";
        let piped = std::process::Stdio::piped;
        let mut python = std::process::Command::new("python3");
        let python = python.args(["-c", SERVER]).stdin(piped()).stdout(piped()).spawn();
        let Ok(mut server) = python else {
            return crate::reasons::not_run("a server that forks: no python3");
        };
        let output = std::io::BufReader::new(server.stdout.take().unwrap());
        // Each process has printed its number before it is read.
        let started = std::io::BufRead::lines(output).take(4).count();
        let sampler = ungrouped(vec![server.id()]);
        let used = subject_sample(&sampler);
        let scope = Scope { party: Party::SUBJECT, sampler: &sampler, monitor: None };
        let within = sample(&[scope], Reads::All, &Files::default());
        let within = within.party_use(Party::SUBJECT).unwrap();
        drop(server.stdin.take());
        server.wait().unwrap();
        assert_eq!((started, used.processes), (4, 4));
        let anon = used.rss_anon_bytes.unwrap();
        assert!((40 << 20..80 << 20).contains(&anon), "{anon}");
        assert!(used.rss_shmem_bytes.is_some() && used.rss_bytes.unwrap() > 160 << 20);
        assert_eq!((within.rss_anon_bytes, within.rss_shmem_bytes), (None, None));
    }

    #[test]
    fn group_lacks_memory_that_its_processes_brought() {
        const MIB: u64 = 1 << 20;
        let group = |anon, shmem| {
            let (memory_anon_bytes, memory_shmem_bytes) = (Some(anon), shmem);
            CgroupUse { memory_anon_bytes, memory_shmem_bytes, ..CgroupUse::default() }
        };
        let has_counted = |group: &CgroupUse, mapped| has_counted(Some(group), mapped);
        let known = group(60 * MIB, Some(8 * MIB));
        assert!(has_counted(&known, Some(68 * MIB)) && has_counted(&known, None));
        assert!(!has_counted(&known, Some(69 * MIB)));
        assert!(has_counted(&known, Some(MAX_VISITED_BYTES + 1)), "it would take too long");
        assert!(!has_counted(&group(0, None), Some(0)), "a small server");
        assert!(!super::has_counted(None, Some(0)));
    }

    #[test]
    fn cpu_time_is_unknown_if_a_process_ignores_its_children() {
        let cpu_ns = |disposition: &str| {
            let script = format!(
                "import os, signal\nsignal.signal(signal.SIGCHLD, signal.{disposition})\n\
                 os.execvp('cat', ['cat'])"
            );
            let mut python = std::process::Command::new("python3");
            let piped = std::process::Stdio::piped;
            let cat = python.args(["-c", &script]).stdin(piped()).stdout(piped()).spawn();
            let mut cat = cat.ok()?;
            let mut input = cat.stdin.take().unwrap();
            std::io::Write::write_all(&mut input, b"x").unwrap();
            // cat(1) has replaced Python when its output arrives.
            let mut output = cat.stdout.take().unwrap();
            std::io::Read::read_exact(&mut output, &mut [0]).unwrap();
            let cpu_ns = ungrouped(vec![cat.id()]).cpu_ns();
            drop(input);
            cat.wait().unwrap();
            Some(cpu_ns)
        };
        let (Some(default), Some(ignored)) = (cpu_ns("SIG_DFL"), cpu_ns("SIG_IGN")) else {
            return crate::reasons::not_run("a server that ignores SIGCHLD: no python3");
        };
        assert!(default.is_some());
        assert_eq!(ignored, None);
    }

    /// The counters of one of two network namespaces are not those of the party.
    #[test]
    fn counters_of_several_networks_are_unknown() {
        let unshare = ["--user", "--map-root-user", "--net", "sleep", "60"];
        let other = std::process::Command::new("unshare").args(unshare).spawn();
        let Ok(mut other) = other else {
            return crate::reasons::not_run("two network namespaces: no unshare");
        };
        let (pid, own) = (other.id(), std::process::id());
        let network = |pid: u32| crate::counter_source::network_namespace(pid);
        // unshare(1) replaces itself by sleep(1) in the new namespace, or fails.
        let has_other_network = loop {
            let is_sleep = proc::Stat::read(pid).is_some_and(|stat| stat.name == "sleep");
            if other.try_wait().unwrap().is_some() || is_sleep {
                break network(pid).is_some_and(|id| Some(id) != network(own));
            }
            std::thread::yield_now();
        };
        let used = |pids: &[u32]| subject_sample(&ungrouped(pids.to_vec())).network;
        let (both, one) = (used(&[own, pid]), used(&[pid]));
        let _ = other.kill();
        other.wait().unwrap();
        if !has_other_network {
            return crate::reasons::not_run("two network namespaces: this user cannot create one");
        }
        assert_eq!((both.is_some(), one.is_some()), (false, true));
    }

    #[test]
    fn process_is_measured_after_end_of_its_first_thread() {
        const SERVER: &str = "import ctypes, socket, threading, time\n\
                              listener = socket.create_server(('127.0.0.1', 0))\n\
                              threading.Thread(target=time.sleep, args=(1000,)).start()\n\
                              ctypes.CDLL(None).pthread_exit(None)";
        let python = std::process::Command::new("python3").args(["-c", SERVER]).spawn();
        let Ok(mut server) = python else {
            return crate::reasons::not_run("a server whose first thread has ended: no python3");
        };
        let pid = server.id();
        // The state of the first thread.
        let has_first_thread_ended = || proc::Stat::read(pid).is_none_or(|stat| stat.state == 'Z');
        while !has_first_thread_ended() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let used = subject_sample(&ungrouped(vec![pid]));
        let listeners = proc::listeners(&[pid]);
        let binary = crate::binary::inspect(pid);
        server.kill().unwrap();
        server.wait().unwrap();
        assert!(used.rss_bytes.is_some_and(|bytes| bytes > 100_000), "{used:?}");
        assert!(used.rss_anon_bytes.is_some_and(|bytes| bytes > 100_000), "{used:?}");
        assert!(used.network.is_some() && binary.is_some());
        assert_eq!(listeners.len(), 1);
    }

    #[test]
    fn descendants_are_sampled_without_control_group() {
        // This test's own process is its parent's.
        let parent = proc::Stat::read(std::process::id()).unwrap().parent;
        let sampler =
            Sampler { group: Group::default(), processes: Processes::Descendants(parent) };
        assert!(!sampler.pids().contains(&parent));
        let scope = |party| Scope { party, sampler: &sampler, monitor: None };
        let files = Files::default();
        let watched = [scope(Party::SUBJECT), scope(Party::Backend(0))];
        let few_readings = sample(&watched, Reads::WithoutNetworksAndDisks, &files);
        assert!(
            few_readings.parties.iter().all(|used| used.network.is_none())
                && few_readings.host.unwrap().disks.is_none()
        );
        let mut sample = sample(&watched, Reads::All, &files);
        read_shared_memory(&watched, &mut sample);
        assert!(sample.party_use(Party::GENERATOR).unwrap().network.is_some());
        for party in [Party::SUBJECT, Party::Backend(0)] {
            let used = sample.party_use(party).unwrap();
            assert!(used.cgroup.is_none());
            assert!(used.processes >= 1 && !used.threads.is_empty());
            assert!(used.rss_bytes.unwrap() > 0);
            let own_process = used.each.iter().find(|each| each.pid == std::process::id()).unwrap();
            assert!(own_process.faults_minor > 0 && used.rss_anon_bytes.unwrap() > 0);
            assert!(used.rss_shmem_bytes.is_some() && used.cpu_ns().unwrap() > 0);
        }
        assert!(!sample.party_use(Party::GENERATOR).unwrap().threads.is_empty());
        assert!(sample.host.unwrap().busy_ns > 0);
    }
}
