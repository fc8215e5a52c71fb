//! Computes CPU time of the whole machine between two samples: of other programs, of interrupts,
//! and the time that the hypervisor took.

use dyno_model::host::HostUse;
use dyno_model::{LoadRecord, Party};

use super::threads::run_time_s;
use super::{PartySample, UseBetweenSamples};

/// Returns the CPU seconds of the machine that no watched party used; `None`: unknown.
pub(super) fn others_cpu_s(
    record: &LoadRecord,
    first: &PartySample<'_>,
    last: &PartySample<'_>,
) -> Option<f64> {
    let busy_ns = growth(first, last, |host| Some(host.busy_ns))?;
    let cpu_s_of = |party: Party| match party {
        Party::Generator(_) => Some(run_time_s(first.generator, last.generator)),
        Party::Subject(_) | Party::Backend(_) => {
            UseBetweenSamples::from_samples(party, first.sample, last.sample)?.cpu_s
        }
    };
    let watched: Option<f64> = last.sample.parties.iter().map(|used| cpu_s_of(used.party)).sum();
    // Without co-runners (servers loaded at the same time), their CPU time is 0.
    let co_runners_ns = |sample: &PartySample<'_>| {
        sample.sample.co_runners.as_ref().map_or(Some(0), |co_runners| co_runners.cpu_ns)
    };
    let co_runners_s = co_runners_ns(last)?.checked_sub(co_runners_ns(first)?)? as f64 / 1e9;
    let seconds = last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
    let kernel_s = kernel_threads_cpus(record).unwrap_or(0.0) * seconds;
    let interrupt_s = interrupt_s(first, last).unwrap_or(0.0);
    Some((busy_ns as f64 / 1e9 - kernel_s - interrupt_s - watched? - co_runners_s).max(0.0))
}

/// Returns how many CPU seconds other programs may have used on these CPUs: all of their CPU time,
/// but at most the time for which these CPUs were busy without the server.
pub(super) fn others_on_cpus_s(
    record: &LoadRecord,
    ids: &[u32],
    (others_s, used_s, seconds): (Option<f64>, Option<f64>, f64),
) -> Option<f64> {
    let rest_s = busy_cpus(record, ids).zip(used_s).map(|(busy, used_s)| busy * seconds - used_s);
    others_s.map(|others_s| others_s.min(rest_s.unwrap_or(f64::INFINITY).max(0.0)))
}

/// Returns the mean number of these CPUs that programs used. `None`: unknown.
fn busy_cpus(record: &LoadRecord, ids: &[u32]) -> Option<f64> {
    let machine = record.client.machine.as_ref().filter(|machine| machine.length_ns > 0)?;
    let all = || machine.cpus.iter().chain(&machine.remaining_cpus);
    let billed_ns = |id: &u32| Some(all().find(|cpu| cpu.cpu == *id)?.billed_ns());
    let billed_ns: u64 = ids.iter().map(billed_ns).sum::<Option<u64>>()?;
    (!ids.is_empty()).then(|| billed_ns as f64 / machine.length_ns as f64)
}

/// Returns the mean number of CPUs that the kernel's own threads used. They work for all programs.
/// `None`: unknown.
fn kernel_threads_cpus(record: &LoadRecord) -> Option<f64> {
    let machine = record.client.machine.as_ref()?;
    let elapsed_ns = machine.everywhere_ns.filter(|ns| *ns > 0)?;
    Some(machine.kernel_threads_ns? as f64 / elapsed_ns as f64)
}

/// Returns the growth of a counter of the machine. `None`: unknown, because a sample lacks the
/// counter, or because it decreased.
fn growth(
    first: &PartySample<'_>,
    last: &PartySample<'_>,
    pick: impl Fn(&HostUse) -> Option<u64>,
) -> Option<u64> {
    pick(last.host?)?.checked_sub(pick(first.host?)?)
}

/// Returns the CPU seconds of interrupts that are billed to no program; `None`: unknown.
pub(super) fn interrupt_s(first: &PartySample<'_>, last: &PartySample<'_>) -> Option<f64> {
    growth(first, last, |host| host.interrupt_ns).map(|ns| ns as f64 / 1e9)
}

/// Returns the share of the machine's CPU time that the hypervisor took; `None`: unknown.
pub(super) fn steal_share(first: &PartySample<'_>, last: &PartySample<'_>) -> Option<f64> {
    let growth = |pick: fn(&HostUse) -> u64| growth(first, last, |host| Some(pick(host)));
    let steal_ns = growth(|h| h.steal_ns)?;
    let total_ns = growth(|h| h.busy_ns)? + growth(|h| h.idle_ns)? + steal_ns;
    (total_ns > 0).then(|| steal_ns as f64 / total_ns as f64)
}

/// Returns the CPU seconds that the hypervisor took from the machine; `None`: unknown.
pub(super) fn stolen_s(first: &PartySample<'_>, last: &PartySample<'_>) -> Option<f64> {
    growth(first, last, |host| Some(host.steal_ns)).map(|ns| ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use dyno_model::Sample;

    use super::*;

    #[test]
    fn decreasing_counters_of_machine_are_unknown() {
        let at = |at_ns, busy_ns, idle_ns, steal_ns, interrupt_ns| {
            let host = HostUse {
                busy_ns,
                idle_ns,
                steal_ns,
                interrupt_ns: Some(interrupt_ns),
                ..HostUse::default()
            };
            let mut sample = Sample { at_ns, host: Some(host), ..Sample::default() };
            sample.party_use_mut(Party::SUBJECT);
            sample
        };
        let between = |first: &Sample, last: &Sample| {
            let new = |sample| PartySample::new(sample, Party::SUBJECT).unwrap();
            let (first, last) = (&new(first), &new(last));
            (steal_share(first, last), stolen_s(first, last), interrupt_s(first, last))
        };
        let first = at(0, 500, 500, 500, 500);
        let grown = at(1, 600, 700, 600, 500);
        assert_eq!(between(&first, &grown), (Some(0.25), Some(1e-7), Some(0.0)));
        let reset = at(1, 5, 5, 5, 5);
        assert_eq!(between(&first, &reset), (None, None, None));
    }
}
