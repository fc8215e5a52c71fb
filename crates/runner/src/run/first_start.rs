//! Inspects the first start of an arm: its program, and its resource use without requests. Later
//! starts are the same program, so one inspection is enough.

use std::thread;

use dyno_archive::sample::PartyUse;
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
        let count_wakeups = |sample: &Sample| sample.party_use(Party::SUBJECT).and_then(wakeups);
        let growth = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        record.idle = Some(IdleUse {
            length_ns: after.at_ns - before.at_ns,
            cpu_ns: growth(cpu_before, cpu_after),
            wakeups: growth(count_wakeups(&before), count_wakeups(&after)),
        });
        record.binary =
            after.party_use(Party::SUBJECT).and_then(busiest_process).and_then(binary::inspect);
    }
}

/// Returns the number of times that a party's threads were woken.
fn wakeups(used: &PartyUse) -> Option<u64> {
    used.threads.iter().map(|t| t.seen.map(|seen| seen.wakeups).or(t.switches_voluntary)).sum()
}

/// Returns the process whose threads have used the most CPU time.
fn busiest_process(used: &PartyUse) -> Option<u32> {
    let run_ns =
        |pid: u32| used.threads.iter().filter(|t| t.pid == pid).map(|t| t.run_ns).sum::<u64>();
    used.threads.iter().map(|t| t.pid).max_by_key(|pid| run_ns(*pid))
}
