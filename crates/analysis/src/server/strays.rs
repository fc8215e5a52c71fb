//! Processes that left the control group in which their server was started. The group's counters do
//! not include them, and its list of processes may not either.

use dyno_archive::sample::CgroupUse;
use dyno_archive::{LoadRecord, Party};

/// Returns the number of processes of a party that had left its group as the window closed.
pub(crate) fn stray_processes(record: &LoadRecord, party: Party) -> u32 {
    let seen = record.samples.iter().filter_map(|sample| sample.party_use(party)?.strays);
    seen.max().unwrap_or(0)
}

/// Returns the record without the groups' counters of parties with such processes. `None`: there
/// are none.
pub(crate) fn left_out(record: &LoadRecord) -> Option<LoadRecord> {
    let parties = record.samples.iter().flat_map(|sample| &sample.parties);
    let strayed: Vec<Party> =
        parties.filter(|used| used.strays.is_some_and(|n| n > 0)).map(|used| used.party).collect();
    if strayed.is_empty() {
        return None;
    }
    let mut record = record.clone();
    let parties = record.samples.iter_mut().flat_map(|sample| &mut sample.parties);
    for used in parties.filter(|used| strayed.contains(&used.party)) {
        used.cgroup = Some(CgroupUse::default());
    }
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::observed;
    use crate::server::server_use;

    #[test]
    fn nothing_is_known_of_a_server_whose_processes_left_its_group() {
        let mut record = observed(&[(500, 0), (500, 0)]);
        let known =
            |record: &LoadRecord| server_use(record, Party::SUBJECT, 1.0).cpu_us_per_request;
        let last = record.samples.len() - 1;
        record.samples[last].party_use_mut(Party::SUBJECT).strays = Some(0);
        assert!(left_out(&record).is_none() && known(&record).is_some());
        record.samples[last].party_use_mut(Party::SUBJECT).strays = Some(1);
        let without = left_out(&record).unwrap();
        assert_eq!(
            (
                stray_processes(&without, Party::SUBJECT),
                stray_processes(&without, Party::Backend(0))
            ),
            (1, 0)
        );
        assert!(
            without.samples.iter().all(|s| s.party_use(Party::SUBJECT).unwrap().cpu_ns().is_none())
        );
        let used = server_use(&without, Party::SUBJECT, 1.0);
        assert_eq!(
            (used.cpu_us_per_request, used.threads, used.memory_held_bytes),
            (None, None, None)
        );
    }
}
