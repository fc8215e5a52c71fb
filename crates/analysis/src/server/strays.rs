//! Detects processes that left the control group of their server.
//!
//! The counters of the group do not include such processes, so the use of the server is unknown.
//! Samples contain the number of living processes outside of the group. Processes that left the
//! group and ended or came back between two samples are detected by their CPU time, which the group
//! lacks.

use std::collections::BTreeMap;

use dyno_model::sample::{CgroupUse, ProcessUse};
use dyno_model::{LoadRecord, Party};

use super::complete::{TICKS_S, has_executed, key};
use super::{PartySample, cpu_between, edges, is_between, party_samples};

/// Largest share of the CPU time of a party's threads and processes that its group may lack. The
/// kernel updates the counters of a running thread and of its group at different instants.
const MAX_UNCOUNTED: f64 = 0.05;

/// Smallest CPU time that counts as missing in the group, seconds.
const MIN_UNCOUNTED_S: f64 = 0.002;

/// Returns the least number of processes of a party that left its group: the highest number in a
/// sample, or 1 if only CPU time that the group lacks shows that some left it.
pub(crate) fn stray_processes(record: &LoadRecord, party: Party) -> u32 {
    let stray_counts = record.samples.iter().filter_map(|sample| sample.party_use(party)?.strays);
    let living = stray_counts.max().unwrap_or(0);
    if living == 0 && have_run_outside(record, party) { 1 } else { living }
}

/// Returns the record without the group counters of parties with stray processes. `None`: no
/// process left its group.
pub(crate) fn without_group_counters(record: &LoadRecord) -> Option<LoadRecord> {
    let parties = record.samples.iter().flat_map(|sample| &sample.parties);
    let mut strays: BTreeMap<Party, u32> = parties.map(|used| (used.party, 0)).collect();
    strays.iter_mut().for_each(|(party, count)| *count = stray_processes(record, *party));
    strays.retain(|_, count| *count > 0);
    if strays.is_empty() {
        return None;
    }
    let mut record = record.clone();
    for used in record.samples.iter_mut().flat_map(|sample| &mut sample.parties) {
        if let Some(count) = strays.get(&used.party) {
            used.cgroup = Some(CgroupUse::default());
            // Without the counters, the number cannot be computed again.
            used.strays = Some(*count);
        }
    }
    Some(record)
}

/// Whether threads and processes of a party used more CPU time in the window than its group
/// counted.
fn have_run_outside(record: &LoadRecord, party: Party) -> bool {
    let samples = party_samples(record, party);
    let Some((first, last)) = edges(record, &samples) else { return false };
    let Some(group_s) = cpu_between(first, last) else { return false };
    // The earlier use of a process that joined, or of a thread that called execve(2), cannot be
    // separated.
    let mut window = samples.iter().filter(|sample| is_between(sample, first, last)).skip(1);
    if window.any(|sample| sample.used.has_joined) || has_executed(first, last) {
        return false;
    }
    // Only the probes know when a process ended.
    let used = Used::from_probes(first, last).or_else(|| Used::from_parents(first, last));
    used.is_some_and(|used| used.exceeds(group_s, first, last))
}

/// CPU time of a party between two samples, according to its threads and processes.
struct Used {
    /// Living and ended threads, seconds.
    all_s: f64,
    /// Rounding error of `all_s`, seconds.
    rounding_s: f64,
}

impl Used {
    /// Returns the use that the kernel probes observed. `None`: they did not observe the ends of
    /// threads.
    fn from_probes(first: &PartySample<'_>, last: &PartySample<'_>) -> Option<Used> {
        let ended_ns = |sample: &PartySample<'_>| -> Option<u64> {
            sample.ended?.iter().map(|threads| threads.run_ns).sum()
        };
        let ended_ns = (ended_ns(first)?, ended_ns(last)?);
        // A thread without a record ended while the sample was taken, so it is in both lists.
        let recorded = last.threads.iter().filter(|thread| thread.seen.is_some());
        let then_ns = first.threads.iter().map(|thread| thread.run_ns).sum::<u64>() + ended_ns.0;
        let now_ns = recorded.map(|thread| thread.run_ns).sum::<u64>() + ended_ns.1;
        Some(Used { all_s: now_ns.saturating_sub(then_ns) as f64 / 1e9, rounding_s: 0.0 })
    }

    /// Returns the use of living threads and of the children that living processes waited for.
    /// `None`: the totals of processes were not read.
    fn from_parents(first: &PartySample<'_>, last: &PartySample<'_>) -> Option<Used> {
        if first.each.is_empty() || last.each.is_empty() {
            return None;
        }
        let mut before: BTreeMap<_, &ProcessUse> =
            first.each.iter().map(|each| (key(each), each)).collect();
        let pairs: Vec<(&ProcessUse, &ProcessUse)> =
            last.each.iter().filter_map(|each| Some((before.remove(&key(each))?, each))).collect();
        let children_ns = |(then, now): &(&ProcessUse, &ProcessUse)| {
            now.children_cpu_ns().saturating_sub(then.children_cpu_ns())
        };
        let growths: Vec<u64> = pairs.iter().map(children_ns).filter(|ns| *ns > 0).collect();
        // The parents' totals include the earlier use of processes that have ended since.
        let gone_ns: u64 = before.values().map(|each| each.cpu_ns() + each.children_cpu_ns()).sum();
        let earlier_ns = gone_ns + unreaped_ns(first);
        let ended_ns = growths.iter().sum::<u64>().saturating_sub(earlier_ns);
        let ended_s = ended_ns as f64 / 1e9;
        Some(Used {
            all_s: first.threads_until(last).live_threads_cpu_s() + ended_s,
            rounding_s: TICKS_S * (growths.len() + before.len()) as f64,
        })
    }

    /// Whether this use is clearly more than the group counted: a process was outside of the group
    /// for a time, although it may be back, or have ended.
    fn exceeds(&self, group_s: f64, first: &PartySample<'_>, last: &PartySample<'_>) -> bool {
        let excess_s = self.all_s - group_s;
        // The group is read before its threads, which run in between.
        let seconds = last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
        let skew_s = self.all_s / seconds * last.took_ns as f64 / 1e9;
        excess_s > MAX_UNCOUNTED * self.all_s + MIN_UNCOUNTED_S + skew_s + self.rounding_s
    }
}

/// Returns the CPU time that the group counted before a sample, but none of its living processes
/// has. Zombies have it: their parents get it when they wait for them.
fn unreaped_ns(sample: &PartySample<'_>) -> u64 {
    let group_ns = sample.cgroup.and_then(|group| group.cpu_ns).unwrap_or(0);
    let totals_ns = |each: &ProcessUse| each.cpu_ns() + each.children_cpu_ns();
    group_ns.saturating_sub(sample.each.iter().map(totals_ns).sum())
}

#[cfg(test)]
mod tests {
    use dyno_model::cpus::AllowedCpus;
    use dyno_model::sample::{EndedThreads, SchedulerRecord};

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

    const MS: u64 = 1_000_000;

    /// Each sample: CPU time of the group, of a living thread, of ended threads, and of children
    /// that the server waited for, in milliseconds.
    fn record_with_ended(samples: [[u64; 4]; 2]) -> LoadRecord {
        let mut record = record_with_threads(&[(500, 0)]);
        for (sample, [group, living, ended, children]) in record.samples.iter_mut().zip(samples) {
            let used = sample.party_use_mut(Party::SUBJECT);
            used.cgroup.as_mut().unwrap().cpu_ns = Some(group * MS);
            used.threads[0].run_ns = living * MS;
            used.threads[0].seen = Some(SchedulerRecord::default());
            used.ended = Some(vec![EndedThreads {
                name: "server".into(),
                threads: ended,
                run_ns: Some(ended * MS),
                ..EndedThreads::default()
            }]);
            let children_user_ns = children * MS;
            used.each = vec![ProcessUse { pid: 1, children_user_ns, ..ProcessUse::default() }];
        }
        record
    }

    #[test]
    fn process_that_ends_outside_its_group_is_a_stray() {
        let strays = |last| stray_processes(&record_with_ended([[0; 4], last]), Party::SUBJECT);
        // The group lacks 220 ms of the 300 ms of ended threads.
        assert_eq!(strays([180, 100, 300, 0]), 1);
        assert_eq!(strays([400, 100, 300, 300]), 0, "the group counted all");
        assert_eq!(strays([390, 100, 300, 0]), 0, "2 % are read later than the group");
        assert_eq!(strays([300, 400, 0, 0]), 1, "a living process was outside for a time");
        let mut record = record_with_ended([[0; 4], [180, 100, 300, 0]]);
        let cleared = without_group_counters(&record).unwrap();
        assert_eq!(stray_processes(&cleared, Party::SUBJECT), 1);
        record.samples[1].party_use_mut(Party::SUBJECT).has_joined = true;
        assert_eq!(stray_processes(&record, Party::SUBJECT), 0, "its earlier use is unknown");
    }

    /// A child that ended before the window, and for which its parent waits in it.
    #[test]
    fn zombie_is_not_a_stray() {
        let strays = |group_ms: u64| {
            let mut record =
                record_with_ended([[group_ms, 0, 0, 0], [group_ms + 100, 100, 0, 300]]);
            record.samples.iter_mut().for_each(|sample| {
                sample.party_use_mut(Party::SUBJECT).ended = None;
            });
            stray_processes(&record, Party::SUBJECT)
        };
        assert_eq!((strays(300), strays(0)), (0, 1));
    }

    #[test]
    fn probes_know_the_children_that_ended_before() {
        let record = record_with_ended([[0, 0, 0, 0], [100, 100, 0, 300]]);
        assert_eq!(stray_processes(&record, Party::SUBJECT), 0);
    }

    /// All use of the ended threads was before the window.
    #[test]
    fn thread_that_ends_in_its_group_is_not_a_stray() {
        let record = record_with_ended([[5000, 5000, 0, 0], [5100, 60, 5040, 0]]);
        assert_eq!(stray_processes(&record, Party::SUBJECT), 0);
    }
}
