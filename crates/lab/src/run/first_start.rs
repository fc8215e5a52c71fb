//! Inspects the first start of an arm (a subject under one configuration): its program, and its
//! resource use without requests. Later starts run the same program, so one inspection is enough.

use std::collections::BTreeSet;
use std::thread;

use dyno_model::sample::{PartyUse, ThreadUse};
use dyno_model::start::{IdleUse, PartStart};
use dyno_model::{Party, Sample};
use dyno_observer::{Files, Reads, binary};
use dyno_suite::limits::IDLE_MEASUREMENT;

use super::host::Launched;
use super::running_parts::{MonitoredProcesses, RunningPart};

/// Inspects a subject that is ready, before its first load.
pub(super) fn inspect(record: &mut PartStart, launched: &mut Launched<'_, RunningPart<'_>>) {
    let sampler = launched.subject.process.sampler.clone();
    let processes = MonitoredProcesses::new(launched, Files::default());
    let (before, cpu_before) = (processes.sample(Reads::All), sampler.cpu_ns());
    // There are no requests during this time, so the measured use is the use of an idle server.
    thread::sleep(IDLE_MEASUREMENT);
    let (after, cpu_after) = (processes.sample(Reads::All), sampler.cpu_ns());
    let growth = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
    record.idle = Some(IdleUse {
        length_ns: after.at_ns - before.at_ns,
        cpu_ns: growth(cpu_before, cpu_after),
        wakeups: wakeups_between(&before, &after),
    });
    record.binary =
        after.party_use(Party::SUBJECT).and_then(busiest_process).and_then(binary::inspect);
}

/// Minimum number of unseen births (new threads and processes that are in no sample) at which the
/// wake-ups of an idle server are unknown. Some of these threads may be the server's. An idle
/// machine had two births in ten seconds.
const MIN_UNSEEN_BIRTHS: u64 = 10;

/// Returns the number of threads and processes that began on the machine between two samples and
/// are in no sample of a party. `None`: the kernel does not count births.
fn unseen_births(before: &Sample, after: &Sample) -> Option<u64> {
    let births = |sample: &Sample| sample.host.as_ref()?.births;
    let threads = |sample: &Sample| -> BTreeSet<u32> {
        sample.parties.iter().flat_map(|used| &used.threads).map(|thread| thread.tid).collect()
    };
    let new_threads = threads(after).difference(&threads(before)).count() as u64;
    Some(births(after)?.saturating_sub(births(before)?).saturating_sub(new_threads))
}

/// Returns how often the subject's threads were woken between two samples. `None`: one of these
/// cases:
/// - A thread ended between the samples, so that its last wake-ups are unknown.
/// - A counter was not read.
/// - So many threads began and ended between the samples that some may be the subject's.
fn wakeups_between(before: &Sample, after: &Sample) -> Option<u64> {
    if unseen_births(before, after).is_some_and(|births| births >= MIN_UNSEEN_BIRTHS) {
        return None;
    }
    let (before, after) = (before.party_use(Party::SUBJECT)?, after.party_use(Party::SUBJECT)?);
    let key = |thread: &ThreadUse| (thread.pid, thread.tid, thread.began_ticks);
    // A thread is woken after each voluntary switch, so it has about as many wake-ups as voluntary
    // switches.
    let wakeups =
        |thread: &ThreadUse| thread.seen.map(|seen| seen.wakeups).or(thread.switches_voluntary);
    let position_in = |threads: &[ThreadUse], thread: &ThreadUse| {
        threads.iter().position(|other| key(other) == key(thread))
    };
    if before.threads.iter().any(|thread| position_in(&after.threads, thread).is_none()) {
        return None;
    }
    let growth = |thread: &ThreadUse| match position_in(&before.threads, thread) {
        Some(earlier) => wakeups(thread)?.checked_sub(wakeups(&before.threads[earlier])?),
        None => wakeups(thread),
    };
    after.threads.iter().map(growth).sum()
}

/// Returns the process whose threads have used the most CPU time.
fn busiest_process(used: &PartyUse) -> Option<u32> {
    let run_ns =
        |pid: u32| used.threads.iter().filter(|t| t.pid == pid).map(|t| t.run_ns).sum::<u64>();
    used.threads.iter().map(|t| t.pid).max_by_key(|pid| run_ns(*pid))
}

#[cfg(test)]
mod tests {
    use dyno_model::host::HostUse;

    use super::*;

    fn sample(threads: &[(u32, u64)]) -> Sample {
        let thread = |(tid, wakeups): &(u32, u64)| ThreadUse {
            tid: *tid,
            switches_voluntary: Some(*wakeups),
            ..ThreadUse::default()
        };
        let threads = threads.iter().map(thread).collect();
        let used = PartyUse { threads, ..PartyUse::empty(Party::SUBJECT) };
        Sample { parties: vec![used], ..Sample::default() }
    }

    #[test]
    fn wakeups_are_unknown_if_a_thread_ended() {
        let before = sample(&[(1, 500), (2, 400)]);
        let wakeups = |after: &[(u32, u64)]| wakeups_between(&before, &sample(after));
        assert_eq!(wakeups(&[(1, 510), (2, 407)]), Some(17));
        assert_eq!(wakeups(&[(1, 510), (2, 400), (3, 4)]), Some(14), "a new thread");
        assert_eq!(wakeups(&[(1, 620)]), None, "its counter is gone with 400 wake-ups");
    }

    #[test]
    fn wakeups_are_unknown_if_threads_may_have_begun_and_ended() {
        let with_births = |births: u64, threads: &[(u32, u64)]| {
            let host = HostUse { births: Some(births), ..HostUse::default() };
            Sample { host: Some(host), ..sample(threads) }
        };
        let before = with_births(1000, &[(1, 500)]);
        let wakeups = |births: u64, threads: &[(u32, u64)]| {
            wakeups_between(&before, &with_births(births, threads))
        };
        assert_eq!(wakeups(1002, &[(1, 510)]), Some(10));
        assert_eq!(wakeups(1010, &[(1, 510)]), None);
        assert_eq!(wakeups(1010, &[(1, 510), (2, 3)]), Some(13), "one birth is in a sample");
    }
}
