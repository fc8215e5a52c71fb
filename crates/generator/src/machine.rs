//! Reads the use of the generator's CPUs at both edges of the measured window. Other programs on
//! these CPUs make a measurement doubtful.

use std::collections::BTreeSet;

use dyno_launch::allowed_cpus;
use dyno_model::drops::PathUse;
use dyno_model::machine::{CpuUse, MachineUse, OtherUse, QuotaUse};
use dyno_observer::cgroup::{Layout, Quota};
use dyno_observer::proc::{ProcessList, ProcessSnapshot};
use dyno_observer::{Files, host, monotonic_ns, path, proc, suspended_ns};

/// Maximum number of other processes on the generator's CPUs that are recorded.
const MAX_PROCESSES: usize = 3;

/// Maximum number of other processes on all CPUs that are recorded. They include the servers.
const MAX_PROCESSES_ON_ALL_CPUS: usize = 24;

/// Minimum share of one CPU that a recorded process used.
const MIN_SHARE: f64 = 0.02;

/// The readings of one load's CPUs.
#[derive(Debug)]
pub(crate) struct MachineWatch {
    cpus: Vec<u32>,
    /// Whether the workers are bound to these CPUs.
    is_bound: bool,
    quota: Option<Quota>,
    /// Time at which the other processes were listed.
    listed_ns: u64,
    /// Other processes before the load. They are listed before the window, because listing takes
    /// milliseconds.
    processes_before: ProcessList,
    /// Throttling of all CPUs before the load. All CPUs are read, because a throttled server
    /// disturbs a measurement as much as a throttled generator.
    throttling: host::ThermalThrottling,
    /// Counts of dropped packets before the load. They are read before the window, because
    /// connections are opened before the window.
    path_before: PathUse,
    opening: Option<Reading>,
    closing: Option<Reading>,
}

#[derive(Clone, Debug)]
struct Reading {
    at_ns: u64,
    cpus: Vec<CpuUse>,
    own_ns: u64,
    quota: Option<QuotaUse>,
    suspended_ns: u64,
}

impl MachineWatch {
    /// Takes the readings before a load. `worker_cpus`: the CPUs that the workers are bound to.
    /// Empty: the workers run on any CPU of this process.
    pub(crate) fn new(worker_cpus: &[u32]) -> MachineWatch {
        MachineWatch {
            cpus: if worker_cpus.is_empty() { allowed_cpus() } else { worker_cpus.to_vec() },
            is_bound: !worker_cpus.is_empty(),
            quota: Layout::read().own_quota(),
            // The clock is read together with the list of processes, because a process's share of a
            // CPU is computed over the time between two lists.
            listed_ns: monotonic_ns(),
            processes_before: proc::process_list(),
            throttling: throttling(),
            path_before: path_use(),
            opening: None,
            closing: None,
        }
    }

    /// Takes the reading at which the measured window opens.
    pub(crate) fn open(&mut self) {
        self.opening = Some(self.read());
    }

    /// Takes the reading at which the measured window closes.
    pub(crate) fn close(&mut self) {
        self.closing = Some(self.read());
    }

    fn read(&self) -> Reading {
        Reading {
            // The clock is read together with the counters, because shares are computed over the
            // time between two readings.
            at_ns: monotonic_ns(),
            cpus: host::each_cpu(),
            own_ns: proc::own_cpu_ns(),
            quota: self.quota.as_ref().and_then(Quota::read),
            suspended_ns: suspended_ns(),
        }
    }

    /// Returns the use between the two readings. If the load ended early, or has no set end, this
    /// call takes the second reading. `None`: the window never opened.
    pub(crate) fn finish(self) -> Option<MachineUse> {
        let last = self.closing.clone().unwrap_or_else(|| self.read());
        let first = self.opening?;
        let cpus = last.cpus.iter().filter_map(|cpu| {
            let earlier = first.cpus.iter().find(|c| c.cpu == cpu.cpu)?;
            Some(cpu.growth_since(earlier))
        });
        let (cpus, remaining_cpus) = cpus.partition(|cpu: &CpuUse| self.cpus.contains(&cpu.cpu));
        // The second list of processes is read after the load, as the first list was read before
        // it.
        let elapsed_ns = monotonic_ns() - self.listed_ns;
        let capacity_ns = elapsed_ns.saturating_mul(host::each_cpu().len() as u64);
        let (before, after) = (&self.processes_before, proc::process_list());
        let all_uses =
            other_uses(&before.programs, &after.programs, &proc::own_tree(), capacity_ns);
        let local_uses = all_uses.iter().filter(|(cpu, _)| self.cpus.contains(cpu));
        Some(MachineUse {
            length_ns: last.at_ns - first.at_ns,
            cpus,
            remaining_cpus,
            bound: self.is_bound,
            own_ns: last.own_ns - first.own_ns,
            quota: last.quota.zip(first.quota).map(|(last, first)| growth_since(last, first)),
            others: largest_uses(local_uses, elapsed_ns, MAX_PROCESSES),
            everywhere: Some(largest_uses(all_uses.iter(), elapsed_ns, MAX_PROCESSES_ON_ALL_CPUS)),
            everywhere_ns: Some(elapsed_ns),
            kernel_threads_ns: proc::kernel_time_between(before, &after),
            heat: host::max_throttling(&self.throttling, &throttling()),
            path: Some(path_use().growth_since(self.path_before)),
            suspended_ns: Some(last.suspended_ns.saturating_sub(first.suspended_ns)),
            // The session observes it.
            stopped: None,
        })
    }
}

/// Returns the machine's counts of dropped packets.
fn path_use() -> PathUse {
    path::counters(&Files::with_limit(0))
}

/// Returns the throttling of every CPU of the machine.
fn throttling() -> host::ThermalThrottling {
    let cpus: Vec<u32> = host::each_cpu().iter().map(|cpu| cpu.cpu).collect();
    host::thermal_throttling(&cpus)
}

fn growth_since(last: QuotaUse, first: QuotaUse) -> QuotaUse {
    QuotaUse {
        cpus: last.cpus,
        periods: last.periods.saturating_sub(first.periods),
        throttled_periods: last.throttled_periods.saturating_sub(first.throttled_periods),
    }
}

/// Returns the CPU time that processes used between two lists, each with the CPU on which the
/// process ran last. The process with the most CPU time is first. `capacity_ns`: CPU time of all
/// CPUs between the two lists.
fn other_uses(
    before: &[ProcessSnapshot],
    after: &[ProcessSnapshot],
    own_pids: &BTreeSet<u32>,
    capacity_ns: u64,
) -> Vec<(u32, OtherUse)> {
    let used = |(other, run_ns): (&ProcessSnapshot, u64)| {
        (other.last_cpu, OtherUse { pid: other.pid, name: other.name.clone(), run_ns })
    };
    let mut uses: Vec<(u32, OtherUse)> =
        proc::cpu_time_between(before, after, own_pids, capacity_ns)
            .into_iter()
            .map(used)
            .collect();
    uses.sort_by_key(|(_, other)| std::cmp::Reverse(other.run_ns));
    uses
}

fn largest_uses<'a>(
    uses: impl Iterator<Item = &'a (u32, OtherUse)>,
    elapsed_ns: u64,
    max_count: usize,
) -> Vec<OtherUse> {
    let min_ns = elapsed_ns as f64 * MIN_SHARE;
    let large = uses.map(|(_, other)| other).filter(|other| other.run_ns as f64 > min_ns);
    large.take(max_count).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(pid: u32, run_ns: u64, last_cpu: u32) -> ProcessSnapshot {
        ProcessSnapshot {
            pid,
            name: format!("p{pid}"),
            run_ns,
            last_cpu,
            ..ProcessSnapshot::default()
        }
    }

    #[test]
    fn other_uses_are_sorted_by_cpu_time_between_lists() {
        let before = vec![other(1, 1000, 0), other(2, 500, 0), other(3, 0, 1)];
        let after = vec![other(1, 1010, 0), other(2, 700, 0), other(3, 900, 1), other(4, 50, 0)];
        let used = other_uses(&before, &after, &BTreeSet::new(), u64::MAX);
        let uses: Vec<_> = used.iter().map(|(cpu, o)| (o.pid, o.run_ns, *cpu)).collect();
        assert_eq!(uses, [(3, 900, 1), (2, 200, 0), (4, 50, 0), (1, 10, 0)]);
        let local_uses = used.iter().filter(|(cpu, _)| *cpu == 0);
        let pids: Vec<u32> =
            largest_uses(local_uses, 1000, MAX_PROCESSES).iter().map(|o| o.pid).collect();
        assert_eq!(pids, [2, 4], "the first process used only 1 % of a CPU");
    }

    #[test]
    fn finish_returns_use_between_both_edges() {
        let mut watch = MachineWatch::new(&[]);
        watch.open();
        let mut x = 1u64;
        let from = proc::own_cpu_ns();
        while proc::own_cpu_ns() < from + 2_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        watch.close();
        let machine = watch.finish().unwrap();
        assert!(machine.own_ns >= 2_000_000 && machine.length_ns > 0, "{machine:?}");
        assert!(!machine.bound && !machine.cpus.is_empty(), "{machine:?}");
        assert!(MachineWatch::new(&[0]).finish().is_none(), "the window never opened");
    }
}
