//! What only the first start of an arm is asked: what its program is, and what it does while nobody asks anything of it.

use std::thread;

use dyno_archive::Party;
use dyno_archive::sample::PartyUse;
use dyno_archive::start::{IdleUse, PartStart};
use dyno_observer::binary;

use super::Runner;
use super::up::{Launched, Watched};
use crate::limits::IDLE;

impl Runner<'_> {
    /// Looks at a subject that is ready, before its first load.
    pub(super) fn look_at_first(&self, launch: usize, record: &mut PartStart, launched: &mut Launched) {
        if self.plan.launches[launch].block > 0 || self.interrupts.count() > 0 {
            return;
        }
        let watched = Watched {
            subject: &mut launched.subject.process,
            inside: launched.subject.inside.as_deref(),
            backends: &mut launched.backends,
        };
        let before = watched.sample();
        // Nothing is asked meanwhile: what it uses is its own business.
        thread::sleep(IDLE);
        let after = watched.sample();
        let used = |sample: &dyno_archive::Sample, of: &dyn Fn(&PartyUse) -> Option<u64>| {
            sample.of(Party::SUBJECT).and_then(of)
        };
        let since = |of: &dyn Fn(&PartyUse) -> Option<u64>| {
            Some(used(&after, of)?.saturating_sub(used(&before, of)?))
        };
        record.idle = Some(IdleUse {
            length_ns: after.at_ns - before.at_ns,
            cpu_ns: since(&cpu_ns),
            wakeups: since(&wakeups),
        });
        record.binary = after.of(Party::SUBJECT).and_then(busiest).and_then(binary::look);
    }
}

fn cpu_ns(used: &PartyUse) -> Option<u64> {
    used.cgroup
        .as_ref()
        .and_then(|group| group.cpu_ns)
        .or_else(|| Some(used.threads.iter().map(|t| t.run_ns).sum()))
}

fn wakeups(used: &PartyUse) -> Option<u64> {
    used.threads.iter().map(|t| t.seen.map(|seen| seen.wakeups).or(t.switches_voluntary)).sum()
}

/// The process whose threads ran longest.
fn busiest(used: &PartyUse) -> Option<u32> {
    let ran = |pid: u32| used.threads.iter().filter(|t| t.pid == pid).map(|t| t.run_ns).sum::<u64>();
    used.threads.iter().map(|t| t.pid).max_by_key(|pid| ran(*pid))
}
