//! Decides whether the memory that a control group counted is the memory of its server.
//!
//! The kernel charges a page to the group of the process that touches it first, and the charge
//! stays there when the process moves. A server that allocated memory in another group has memory
//! that its own group lacks.

use dyno_model::sample::{CgroupUse, PartyUse};
use dyno_model::{LoadRecord, Party};

/// Largest share of the memory of a party's processes that its group may lack. Both are read at
/// different instants.
const MAX_UNCOUNTED: f64 = 0.05;

/// Memory of processes that counts as missing in the group, bytes. The kernel updates the counters
/// of a group in batches of 64 pages per CPU.
const MIN_UNCOUNTED_BYTES: u64 = 2 << 20;

/// Source of the memory of a party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemorySource {
    /// Its control group, or its processes if there is no group.
    Usual,
    /// Its processes, because this number of them was in another group before it was ready.
    Strays(u32),
    /// Its processes, because they clearly hold more than the group counted.
    Uncounted(Uncounted),
}

/// Anonymous memory in the same sample, bytes. Files of a tmpfs are omitted: the program that wrote
/// them is charged, and this may be another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uncounted {
    /// Memory of the processes, with shared pages once.
    pub(crate) processes: u64,
    pub(crate) group: u64,
}

impl MemorySource {
    /// Returns the source for a load. `strays`: processes that were in another group before the
    /// party was ready.
    pub(crate) fn new(record: &LoadRecord, party: Party, strays: u32) -> MemorySource {
        if strays > 0 {
            return MemorySource::Strays(strays);
        }
        let used = record.samples.iter().filter_map(|sample| sample.party_use(party));
        let mut comparable = used.filter(|used| memory_of_both(used).is_some()).rev().take(2);
        // A server may allocate between the two readings of one sample. Memory from another group
        // stays outside.
        let last = comparable.next().and_then(uncounted);
        last.filter(|_| comparable.next().is_none_or(|used| uncounted(used).is_some()))
            .map_or(MemorySource::Usual, MemorySource::Uncounted)
    }
}

/// Returns the memory of processes that clearly hold more than their group counted. `None`: they do
/// not, or one of the two is unknown. Resident memory of several processes would include shared
/// pages several times, so the sum of their proportional memory is used.
pub(super) fn uncounted(used: &PartyUse) -> Option<Uncounted> {
    let Uncounted { processes, group } = memory_of_both(used)?;
    let excess = processes.saturating_sub(group);
    let is_clear = excess as f64 > MAX_UNCOUNTED * processes as f64 + MIN_UNCOUNTED_BYTES as f64;
    is_clear.then_some(Uncounted { processes, group })
}

/// Returns the anonymous memory of a party's processes and of its group; `None`: one is unknown.
fn memory_of_both(used: &PartyUse) -> Option<Uncounted> {
    let group = used.cgroup.as_ref()?.memory_anon_bytes?;
    Some(Uncounted { processes: used.rss_anon_bytes?, group })
}

/// Removes a party's memory from the counters of its group, so that its processes are the source.
pub(crate) fn remove_group_memory(record: &mut LoadRecord, party: Party) {
    let parties = record.samples.iter_mut().flat_map(|sample| &mut sample.parties);
    for used in parties.filter(|used| used.party == party) {
        if let Some(group) = used.cgroup.take() {
            used.cgroup = Some(CgroupUse {
                memory_bytes: None,
                memory_peak_bytes: None,
                memory_anon_bytes: None,
                memory_file_bytes: None,
                memory_shmem_bytes: None,
                memory_kernel_bytes: None,
                ..group
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use dyno_model::cpus::AllowedCpus;
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::record_with_threads;
    use crate::server::server_use;
    use crate::server::watch::watch_record;

    const MIB: u64 = 1 << 20;

    /// Returns readings of a group and of its processes: anonymous and shared memory.
    fn reading(group: (u64, u64), processes: Option<(u64, u64)>) -> PartyUse {
        PartyUse {
            cgroup: Some(CgroupUse {
                memory_bytes: Some(group.0 + group.1 + MIB),
                memory_peak_bytes: Some(group.0 + group.1 + 2 * MIB),
                memory_anon_bytes: Some(group.0),
                memory_shmem_bytes: Some(group.1),
                memory_file_bytes: Some(group.1 + MIB),
                memory_kernel_bytes: Some(MIB),
                ..CgroupUse::default()
            }),
            processes: 1,
            rss_bytes: processes.map(|(anon, shmem)| anon + shmem + MIB),
            rss_anon_bytes: processes.map(|parts| parts.0),
            rss_shmem_bytes: processes.map(|parts| parts.1),
            ..PartyUse::empty(Party::SUBJECT)
        }
    }

    fn is_uncounted(group: (u64, u64), processes: (u64, u64)) -> bool {
        uncounted(&reading(group, Some(processes))).is_some()
    }

    #[test]
    fn group_lacks_memory_from_before_its_server_joined() {
        assert!(is_uncounted((MIB, 0), (68 * MIB, 0)));
        assert!(!is_uncounted((MIB, 0), (MIB, 67 * MIB)), "files of a tmpfs may be another's");
        assert!(is_uncounted((0, 0), (3 * MIB, 0)));
        // A batch per CPU, and an allocation between both readings.
        assert!(!is_uncounted((0, 0), (2 * MIB, 0)));
        assert!(!is_uncounted((62 * MIB, 0), (67 * MIB, 0)));
        assert!(is_uncounted((61 * MIB, 0), (67 * MIB, 0)));
        // Files of a tmpfs do not hide anonymous memory.
        assert!(is_uncounted((MIB, 90 * MIB), (68 * MIB, 0)));
        assert_eq!(uncounted(&reading((MIB, 0), None)), None, "several processes");
        let without_group = PartyUse { cgroup: None, ..reading((0, 0), Some((68 * MIB, 0))) };
        assert_eq!(uncounted(&without_group), None);
    }

    #[test]
    fn memory_of_server_that_joined_is_of_its_processes() {
        let held = |group: (u64, u64), strays| {
            let mut record = record_with_threads(&[(500, 0), (500, 0)]);
            for sample in &mut record.samples {
                let PartyUse { cgroup, rss_bytes, rss_anon_bytes, rss_shmem_bytes, .. } =
                    reading(group, Some((60 * MIB, 8 * MIB)));
                let used = sample.party_use_mut(Party::SUBJECT);
                (used.cgroup, used.rss_bytes) = (cgroup, rss_bytes);
                (used.rss_anon_bytes, used.rss_shmem_bytes) = (rss_anon_bytes, rss_shmem_bytes);
            }
            if MemorySource::new(&record, Party::SUBJECT, strays) != MemorySource::Usual {
                remove_group_memory(&mut record, Party::SUBJECT);
            }
            let used = server_use(&record, Party::SUBJECT, &AllowedCpus::any(1.0));
            (used.memory_held_bytes, used.memory_peak_bytes, used.memory_file_bytes)
        };
        assert_eq!(held((MIB, 0), 0), (Some(68 * MIB), None, None));
        assert_eq!(held((66 * MIB, 0), 2), (Some(68 * MIB), None, None));
        assert_eq!(held((66 * MIB, 0), 0), (Some(66 * MIB), Some(68 * MIB), Some(MIB)));
    }

    #[test]
    fn watched_memory_of_joined_group_is_of_its_processes() {
        let watched = |group| {
            let at = |at_ns| {
                let mut sample = record_with_threads(&[(500, 0)]).samples.remove(0);
                sample.at_ns = at_ns;
                *sample.party_use_mut(Party::SUBJECT) = reading(group, Some((68 * MIB, 0)));
                sample
            };
            let record = watch_record(0, &at(0), &at(1_000_000_000)).expect("a stretch");
            (record.memory_held_bytes, record.memory_file_bytes)
        };
        assert_eq!(watched((MIB, 0)), (Some(68 * MIB), None));
        assert_eq!(watched((67 * MIB, 0)), (Some(67 * MIB), Some(MIB)));
    }

    proptest! {
        /// The kernel counts each page of forked processes once in their group, and divides it by
        /// their number in proportional memory.
        #[test]
        fn forked_processes_are_counted(
            own in proptest::collection::vec(0..100_u64, 1..20), shared in 0..100_000_u64,
        ) {
            let pages = own.iter().sum::<u64>() + shared;
            let each = own.iter().map(|pages| pages + shared / own.len() as u64);
            let proportional: u64 = each.sum();
            prop_assert!(!is_uncounted((4096 * pages, 0), (4096 * proportional, 0)));
        }

        /// Memory that the group lacks is noticed, or is a small part.
        #[test]
        fn missing_memory_is_noticed(inside in 0..1000 * MIB, outside in 0..1000 * MIB) {
            let is_small = outside as f64 <= 0.05 * (inside + outside) as f64 + 2e6 * 1.05;
            prop_assert!(is_small || is_uncounted((inside, 0), (inside + outside, 0)));
        }
    }
}
