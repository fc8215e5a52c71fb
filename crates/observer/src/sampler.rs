//! Takes samples: reads the counters of all monitored parties and of the machine at one instant.
//! Analysis computes costs and rates from the differences of two samples.

use dyno_archive::sample::{Party, PartyUse, ProcessUse, Sample};

use crate::cgroup::Group;
use crate::clock::monotonic_ns;
use crate::files::Files;
use crate::kernel_probes::PartyMonitor;
use crate::{host, network, proc};

/// Sources of one party's counters.
#[derive(Clone, Debug)]
pub struct Sampler {
    /// Control group of the party; empty if none could be created.
    pub group: Group,
    /// Processes of the party. They are the source of its counters if there is no group.
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

    /// Returns the processes with their counters. Zombies are included: until they are reaped,
    /// their counters are in no other process's totals.
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

    /// Use of children that their parent has reaped. The parent's own counters are not included.
    fn reaped_use(&self) -> Option<ProcessUse> {
        let Processes::Descendants(root) = self else { return None };
        let totals = proc::totals(*root, &proc::Stat::read(*root)?);
        Some(ProcessUse { user_ns: 0, sys_ns: 0, faults_minor: 0, faults_major: 0, ..totals })
    }
}

impl Sampler {
    /// PIDs of the party's living processes.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        if self.group.is_empty() { self.processes.pids() } else { self.group.pids() }
    }

    /// Number of the party's living processes that have left its control group; 0 without a group.
    #[must_use]
    pub fn strays(&self) -> u32 {
        if self.group.is_empty() {
            return 0;
        }
        // Processes are listed before the group is read, so that a process that starts in between
        // is not taken for a stray.
        let strays = self.group.strays(&self.processes.pids());
        let is_alive = |pid: &u32| proc::Stat::read(*pid).is_some_and(|stat| !stat.is_dead());
        strays.iter().filter(|pid| is_alive(pid)).count() as u32
    }

    /// CPU time of the party so far, nanoseconds. It comes from the control group, or else from the
    /// processes and their reaped children. `None`: neither can be read.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        if !self.group.is_empty() {
            return self.group.cpu_ns();
        }
        let (pids, each) = self.totals(&Files::default());
        let threads = pids.into_iter().flat_map(proc::threads).collect();
        PartyUse { threads, each, ..PartyUse::empty(Party::SUBJECT) }.cpu_ns().filter(|ns| *ns > 0)
    }

    /// Returns the PIDs of the living processes, and the totals of all processes.
    fn totals(&self, files: &Files) -> (Vec<u32>, Vec<ProcessUse>) {
        if !self.group.is_empty() {
            let pids = self.group.pids();
            let each = pids.iter().filter_map(|&pid| proc::totals_in(pid, files)).collect();
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

    /// Reads the party's counters. The control group comes first: costs are computed from its sums,
    /// so these must be closest to the sample's instant. Totals of processes come before their
    /// threads, so that they never include work that a thread did after it was read.
    fn read(
        &self,
        party: Party,
        monitor: Option<&PartyMonitor>,
        reads: Reads,
        files: &Files,
    ) -> PartyUse {
        let cgroup = (!self.group.is_empty()).then(|| self.group.counters_in(files));
        let (pids, each) = self.totals(files);
        let has_joined = monitor.is_some_and(|monitor| monitor.add(&pids));
        let resident: Option<Vec<(u64, u64)>> =
            pids.iter().map(|&pid| proc::rss_parts(pid, files)).collect();
        let resident = resident.filter(|parts| !parts.is_empty());
        let mut used = PartyUse {
            cgroup,
            each,
            rss_anon_bytes: resident.as_ref().map(|parts| parts.iter().map(|(anon, _)| anon).sum()),
            // Processes usually share this memory, so a sum would count it several times.
            rss_shmem_bytes: resident
                .and_then(|parts| parts.into_iter().map(|(_, shmem)| shmem).max()),
            threads: pids.iter().flat_map(|&pid| proc::threads_in(pid, files)).collect(),
            processes: pids.len() as u32,
            has_joined,
            rss_bytes: pids.iter().map(|&pid| proc::rss_bytes(pid, files)).sum(),
            // All processes of a party share a network namespace.
            network: pids
                .first()
                .filter(|_| reads == Reads::All)
                .and_then(|&pid| network::counters(pid, files)),
            ..PartyUse::empty(party)
        };
        if let Some(monitor) = monitor {
            // The current state of every thread is counted up to this one instant.
            monitor.fill(&mut used, monotonic_ns());
        }
        used
    }
}

/// A party and the sources of its counters.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations)] // The monitor has none.
pub struct Scope<'a> {
    pub party: Party,
    pub sampler: &'a Sampler,
    /// `None`: no kernel probe is attached to its processes.
    pub monitor: Option<&'a PartyMonitor>,
}

/// Selection of the counters in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    All,
    /// All but the counters of networks and disks. Their use cannot be attributed to one of several
    /// loads that take turns, and reading them takes CPU time from the current load.
    WithoutNetworksAndDisks,
}

/// Takes a sample of the monitored parties, dyno itself and the machine. `files` stay open from one
/// sample to the next.
#[must_use]
pub fn sample(watched: &[Scope<'_>], reads: Reads, files: &Files) -> Sample {
    // Read first: this is the instant of the sample, and the start of the time that it takes.
    let at_ns = monotonic_ns();
    let read = |scope: &Scope<'_>| scope.sampler.read(scope.party, scope.monitor, reads, files);
    let mut parties: Vec<PartyUse> = watched.iter().map(read).collect();
    parties.push(PartyUse {
        threads: proc::threads_in(std::process::id(), files),
        processes: 1,
        // Clients may be in another network namespace than the servers. This thread is in theirs.
        network: Some(files).filter(|_| reads == Reads::All).and_then(network::counters_here),
        ..PartyUse::empty(Party::GENERATOR)
    });
    Sample {
        at_ns,
        parties,
        host: host::counters(reads, files),
        co_runners: None,
        // Read last: the duration shows how precise the sample is, and what it cost.
        took_ns: monotonic_ns() - at_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let sample = sample(&watched, Reads::All, &files);
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
