//! The counters of one party in a sample, and their growth between two samples.

use dyno_model::host::HostUse;
use dyno_model::sample::{
    CallsUse, CgroupUse, EndedThreads, NetworkUse, Party, PartyUse, ProcessUse, SocketsUse,
    ThreadUse,
};
use dyno_model::{LoadRecord, Sample};

use super::group_memory;
use super::threads::{ThreadDeltas, Threads};

/// One party's counters in a sample, with the counters of the generator and the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartySample<'a> {
    pub(super) sample: &'a Sample,
    pub(super) at_ns: u64,
    pub(super) took_ns: u64,
    pub(super) cgroup: Option<&'a CgroupUse>,
    pub(super) threads: &'a [ThreadUse],
    pub(super) ended: Option<&'a [EndedThreads]>,
    pub(super) calls: Option<&'a CallsUse>,
    pub(super) network: Option<&'a NetworkUse>,
    pub(super) sockets: Option<&'a SocketsUse>,
    pub(super) processes: u32,
    pub(super) each: &'a [ProcessUse],
    pub(super) used: &'a PartyUse,
    pub(super) rss_bytes: Option<u64>,
    pub(super) generator: &'a [ThreadUse],
    pub(super) host: Option<&'a HostUse>,
}

impl<'a> PartySample<'a> {
    /// Returns the counters of a party in a sample; `None`: the party was not watched.
    pub(super) fn new(sample: &'a Sample, party: Party) -> Option<PartySample<'a>> {
        let used = sample.party_use(party)?;
        Some(PartySample {
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
            each: &used.each,
            used,
            rss_bytes: used.rss_bytes,
            generator: sample
                .party_use(Party::GENERATOR)
                .map_or(&[], |generator| &generator.threads),
            host: sample.host.as_ref(),
        })
    }

    pub(super) fn all_threads(&self) -> Threads<'a> {
        Threads { at_ns: self.at_ns, living: self.threads, ended: self.ended }
    }

    /// Returns the control group, if the memory that it counted is that of its processes.
    pub(super) fn memory_group(&self) -> Option<&'a CgroupUse> {
        self.cgroup.filter(|_| group_memory::uncounted(self.used).is_none())
    }

    /// Returns the anonymous memory of the control group. The kernel updates it in batches, so it
    /// may be 0 for a small server. Then the anonymous memory of the processes is used.
    pub(super) fn anon_bytes(&self) -> Option<u64> {
        let group_bytes = self.memory_group()?.memory_anon_bytes?;
        Some(group_bytes).filter(|bytes| *bytes > 0).or(self.used.rss_anon_bytes)
    }

    /// Returns the anonymous and shared memory of the cgroup, and the huge pages of its processes.
    /// If the group's memory is unknown, that of the processes is returned, or else the resident
    /// memory of a single process. Resident memory of several processes includes shared pages
    /// several times.
    pub(super) fn held_bytes(&self) -> Option<u64> {
        let group_bytes = self.anon_bytes().map(|anon| anon + self.shmem_bytes().unwrap_or(0));
        let parts = self.used.rss_anon_bytes.zip(self.used.rss_shmem_bytes);
        let process_bytes = parts.map(|(anon, shmem)| anon + shmem);
        // Neither anonymous, shared nor resident memory includes huge pages.
        let small_pages = group_bytes.or(process_bytes).or(self.single_rss_bytes());
        Some(small_pages? + self.used.huge_bytes?)
    }

    /// Returns the resident memory of a single process. `None`: unknown, or there are several.
    pub(super) fn single_rss_bytes(&self) -> Option<u64> {
        self.rss_bytes.filter(|_| self.processes <= 1)
    }

    pub(super) fn shmem_bytes(&self) -> Option<u64> {
        self.memory_group().and_then(|c| c.memory_shmem_bytes).or(self.used.rss_shmem_bytes)
    }

    /// Returns what the party's threads used from this sample to a later one.
    pub(super) fn threads_until(&self, last: &PartySample<'_>) -> ThreadDeltas {
        ThreadDeltas::new(self.all_threads(), last.all_threads())
    }
}

/// Returns a party's counters in every sample of a load, also outside of the measured window.
pub(super) fn party_samples(record: &LoadRecord, party: Party) -> Vec<PartySample<'_>> {
    record.samples.iter().filter_map(|sample| PartySample::new(sample, party)).collect()
}

/// Returns the samples nearest to the edges of the measured window.
pub(super) fn edges<'a, 'b>(
    record: &LoadRecord,
    samples: &'b [PartySample<'a>],
) -> Option<(&'b PartySample<'a>, &'b PartySample<'a>)> {
    let nearest = |edge_ns: u64| {
        let edge = record.began_ns + edge_ns;
        samples.iter().min_by_key(|s| s.at_ns.abs_diff(edge))
    };
    let (first, last) = (nearest(record.window_ns.0)?, nearest(record.window_ns.1)?);
    (last.at_ns > first.at_ns).then_some((first, last))
}

pub(super) fn is_between(
    sample: &PartySample<'_>,
    first: &PartySample<'_>,
    last: &PartySample<'_>,
) -> bool {
    (first.at_ns..=last.at_ns).contains(&sample.at_ns)
}

/// Returns the growth of a counter of the control group. `None`: unknown, because a sample lacks
/// the counter, or because it decreased. A decrease means that the group was replaced by a new one.
pub(super) fn cgroup_delta(
    first: &PartySample<'_>,
    last: &PartySample<'_>,
    pick: impl Fn(&CgroupUse) -> Option<u64>,
) -> Option<u64> {
    pick(last.cgroup?)?.checked_sub(pick(first.cgroup?)?)
}

pub(super) fn cpu_between(first: &PartySample<'_>, last: &PartySample<'_>) -> Option<f64> {
    cgroup_delta(first, last, |c| c.cpu_ns).map(|ns| ns as f64 / 1e9)
}

pub(super) fn split_between(first: &PartySample<'_>, last: &PartySample<'_>) -> Option<(f64, f64)> {
    let user = cgroup_delta(first, last, |c| c.cpu_user_ns)?;
    let sys = cgroup_delta(first, last, |c| c.cpu_sys_ns)?;
    Some((user as f64, sys as f64))
}
