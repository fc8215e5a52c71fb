//! Inspects the first start of an arm: its program, and its resource use without requests. Later
//! starts are the same program, so one inspection is enough.

use std::thread;

use dyno_archive::sample::{PartyUse, ThreadUse};
use dyno_archive::start::{IdleUse, PartStart};
use dyno_archive::{Party, Sample};
use dyno_observer::{Files, Reads, binary};

use super::Runner;
use super::running_parts::{Launched, MonitoredProcesses};
use crate::limits::IDLE_MEASUREMENT;

impl Runner<'_> {
    /// Inspects a subject that is ready, before its first load.
    pub(super) fn inspect_first_start(
        &self,
        launch: usize,
        record: &mut PartStart,
        launched: &mut Launched<'_>,
    ) {
        if !self.plan.is_first_inspection(launch) || self.interrupts.count() > 0 {
            return;
        }
        let sampler = launched.subject.process.sampler.clone();
        let watched = MonitoredProcesses {
            subject: &mut launched.subject.process,
            monitor: launched.subject.monitor.as_deref(),
            backends: launched.backends,
            files: Files::default(),
        };
        let (before, cpu_before) = (watched.sample(Reads::All), sampler.cpu_ns());
        // There are no requests during this time, so all resource use is the server's own.
        thread::sleep(IDLE_MEASUREMENT);
        let (after, cpu_after) = (watched.sample(Reads::All), sampler.cpu_ns());
        let growth = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        record.idle = Some(IdleUse {
            length_ns: after.at_ns - before.at_ns,
            cpu_ns: growth(cpu_before, cpu_after),
            wakeups: wakeups_between(&before, &after),
        });
        record.binary =
            after.party_use(Party::SUBJECT).and_then(busiest_process).and_then(binary::inspect);
    }
}

/// Returns how often the subject's threads were woken between two samples. `None`: a thread ended
/// in between, so that its last wake-ups are unknown, or a counter was not read.
fn wakeups_between(before: &Sample, after: &Sample) -> Option<u64> {
    let (before, after) = (before.party_use(Party::SUBJECT)?, after.party_use(Party::SUBJECT)?);
    let key = |thread: &ThreadUse| (thread.pid, thread.tid, thread.began_ticks);
    let wakeups =
        |thread: &ThreadUse| thread.seen.map(|seen| seen.wakeups).or(thread.switches_voluntary);
    let find = |threads: &[ThreadUse], wanted: &ThreadUse| {
        threads.iter().position(|thread| key(thread) == key(wanted))
    };
    if before.threads.iter().any(|thread| find(&after.threads, thread).is_none()) {
        return None;
    }
    let growth = |thread: &ThreadUse| match find(&before.threads, thread) {
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
}
