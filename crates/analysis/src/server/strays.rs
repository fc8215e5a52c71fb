//! Detects processes that left the control group of their server.
//!
//! The counters of the group do not include such processes, so the use of the server is unknown.

use dyno_model::sample::CgroupUse;
use dyno_model::{LoadRecord, Party};

/// Returns the number of processes of a party that left its group: the highest of all samples.
pub(crate) fn stray_processes(record: &LoadRecord, party: Party) -> u32 {
    let stray_counts = record.samples.iter().filter_map(|sample| sample.party_use(party)?.strays);
    stray_counts.max().unwrap_or(0)
}

/// Returns the record without the group counters of parties with stray processes. `None`: no
/// process left its group.
pub(crate) fn without_group_counters(record: &LoadRecord) -> Option<LoadRecord> {
    let parties = record.samples.iter().flat_map(|sample| &sample.parties);
    let parties_with_strays: Vec<Party> =
        parties.filter(|used| used.strays.is_some_and(|n| n > 0)).map(|used| used.party).collect();
    if parties_with_strays.is_empty() {
        return None;
    }
    let mut record = record.clone();
    let parties = record.samples.iter_mut().flat_map(|sample| &mut sample.parties);
    for used in parties.filter(|used| parties_with_strays.contains(&used.party)) {
        used.cgroup = Some(CgroupUse::default());
    }
    Some(record)
}

#[cfg(test)]
mod tests {
    use dyno_model::cpus::AllowedCpus;

    use super::*;
    use crate::fixture::record_with_threads;
    use crate::server::server_use;

    #[test]
    fn server_with_stray_processes_has_no_known_use() {
        let mut record = record_with_threads(&[(500, 0), (500, 0)]);
        let cpu_per_request = |record: &LoadRecord| {
            server_use(record, Party::SUBJECT, &AllowedCpus::any(1.0)).cpu_us_per_request
        };
        let last = record.samples.len() - 1;
        record.samples[last].party_use_mut(Party::SUBJECT).strays = Some(0);
        assert!(without_group_counters(&record).is_none() && cpu_per_request(&record).is_some());
        record.samples[last].party_use_mut(Party::SUBJECT).strays = Some(1);
        let cleared = without_group_counters(&record).unwrap();
        assert_eq!(
            (
                stray_processes(&cleared, Party::SUBJECT),
                stray_processes(&cleared, Party::Backend(0))
            ),
            (1, 0)
        );
        assert!(
            cleared.samples.iter().all(|s| s.party_use(Party::SUBJECT).unwrap().cpu_ns().is_none())
        );
        let used = server_use(&cleared, Party::SUBJECT, &AllowedCpus::any(1.0));
        assert_eq!(
            (used.cpu_us_per_request, used.threads, used.memory_held_bytes),
            (None, None, None)
        );
    }
}
