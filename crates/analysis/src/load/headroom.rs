//! Computes the unused CPU capacity of the generator, per thread and per CPU.
//!
//! Threads that share a CPU each look idle, so the use of threads alone does not suffice.

use dyno_model::machine::{CpuUse, MachineUse};
use dyno_model::sample::ThreadUse;
use dyno_model::{LoadRecord, Phase};
use schemars::JsonSchema;
use serde::Serialize;

/// Shortest time in seconds over which the kernel's ticks of 10 ms show how busy a CPU was.
const MIN_LENGTH_S: f64 = 0.5;

/// The CPUs of the generator over the window, and their unused capacity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Room")]
pub struct GeneratorHeadroom {
    /// Largest share of a CPU that the generator needed, without polling. With a value near 1,
    /// there is no headroom. If the kernel bills the time of interrupts to no program, interrupts
    /// are included. It is the maximum of:
    ///
    /// - the work and the waiting of each thread
    /// - the work of all threads of each CPU
    pub need: f64,
    /// Part of `need` that was work, or interrupts; the rest was waiting for a CPU.
    pub need_work: f64,
    /// Part of `need_work` that was interrupts. `None`: the kernel bills them to programs, or
    /// this is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub need_interrupts: Option<f64>,
    /// Largest share of the window for which a thread waited for a CPU. `None`: the kernel does not
    /// report it.
    pub waiting: Option<f64>,
    /// CPUs on which the generator's threads were allowed to run. `None`: not recorded.
    pub cpus: Option<Vec<u32>>,
    /// Share of the time of `cpus` that any program used or the hypervisor took, without polling.
    /// `None`: the kernel does not report it, or the window is too short.
    pub busy: Option<f64>,
    /// Share of the time of `cpus` that other programs used; `None` as for `busy`.
    pub others: Option<f64>,
    /// Share of the time of `cpus` that the hypervisor took (steal); `None` as for `busy`.
    pub stolen: Option<f64>,
    /// Other processes that used `cpus`, the process with the most CPU time first.
    pub others_named: Vec<OtherProcess>,
    /// CPU quota of dyno's own control group, in CPUs; `None`: no quota.
    pub quota_cpus: Option<f64>,
    /// Share of the quota's periods in which it throttled the generator; `None`: no quota, or no
    /// period.
    pub throttled: Option<f64>,
}

/// A process that used CPUs of the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OtherProcess {
    pub pid: u32,
    pub name: String,
    /// CPU time over the whole load, in seconds.
    pub cpu_s: f64,
}

impl GeneratorHeadroom {
    /// Computes the headroom. `work`: share of one CPU that each thread used in the window, without
    /// polling.
    pub(super) fn new(record: &LoadRecord, work: &[f64], window_s: f64) -> GeneratorHeadroom {
        let machine = record.client.machine.as_ref();
        let waits: Option<Vec<f64>> =
            record.client.threads.iter().map(|thread| waiting_share(thread, window_s)).collect();
        let wait_share = |k: usize| waits.as_ref().map_or(0.0, |waits| waits[k]);
        let by_thread = work.iter().enumerate().map(|(k, work)| Need {
            work: *work,
            waiting: wait_share(k),
            interrupts: None,
        });
        let needs = by_thread.chain(needs_with_interrupts(machine, work));
        let largest = needs.max_by(|a, b| a.share().total_cmp(&b.share())).unwrap_or_default();
        let mut headroom = GeneratorHeadroom {
            need: largest.share(),
            need_work: largest.work + largest.interrupts.unwrap_or(0.0),
            need_interrupts: largest.interrupts,
            waiting: waits.map(|waits| waits.into_iter().fold(0.0, f64::max)),
            ..GeneratorHeadroom::default()
        };
        if let Some(machine) = machine {
            headroom.add_machine_use(machine, polling_ns(record));
        }
        headroom
    }

    /// Adds the use of the generator's CPUs by all programs. `polling_ns`: time spent polling.
    fn add_machine_use(&mut self, machine: &MachineUse, polling_ns: u64) {
        let sum =
            |pick: fn(&CpuUse) -> u64| machine.cpus.iter().map(|cpu| pick(cpu) as f64).sum::<f64>();
        let (busy, idle, steal) = (sum(|c| c.busy_ns), sum(|c| c.idle_ns), sum(|c| c.steal_ns));
        let total = busy + idle + steal;
        if has_enough_ticks(machine) && total > 0.0 {
            self.busy = Some((busy + steal - polling_ns as f64).max(0.0) / total);
            self.others = Some((sum(CpuUse::billed_ns) - machine.own_ns as f64).max(0.0) / total);
            self.stolen = Some(steal / total);
        }
        self.cpus = Some(machine.cpus.iter().map(|c| c.cpu).collect());
        let others = machine.others.iter().map(|o| OtherProcess {
            pid: o.pid,
            name: o.name.clone(),
            cpu_s: o.run_ns as f64 / 1e9,
        });
        self.others_named = others.collect();
        self.quota_cpus = machine.quota.map(|quota| quota.cpus);
        let periods = machine.quota.filter(|quota| quota.periods > 0);
        self.throttled = periods.map(|quota| quota.throttled_periods as f64 / quota.periods as f64);
    }

    /// Returns text such as ` (nginx 1.20 s, node 0.30 s)`, or an empty text if no process is
    /// known.
    pub(crate) fn processes_text(&self) -> String {
        let texts: Vec<String> =
            self.others_named.iter().map(|o| format!("{} {:.2} s", o.name, o.cpu_s)).collect();
        if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(", ")) }
    }
}

/// Returns the share of the window for which a thread waited for a CPU. `None`: unknown.
fn waiting_share(thread: &ThreadUse, window_s: f64) -> Option<f64> {
    thread.run_delay_ns.filter(|_| window_s > 0.0).map(|ns| ns as f64 / 1e9 / window_s)
}

/// CPU time that a thread, or all threads of a CPU, needed, as shares of the CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Need {
    work: f64,
    waiting: f64,
    /// Time of interrupts that is billed to no program. `None`: unknown, or billed to programs.
    interrupts: Option<f64>,
}

impl Need {
    /// Returns the sum of all needs, as a share of the CPU.
    fn share(self) -> f64 {
        self.work + self.waiting + self.interrupts.unwrap_or(0.0)
    }
}

/// Returns needs that include the time of interrupts, because much of the data that a thread sends
/// is processed in softirqs of its CPU.
///
/// - Threads are bound to CPUs: one need per CPU, with the work of all of its threads.
/// - Threads are not bound: one need with the means over the CPUs. If interrupts are billed to no
///   program, also one need per thread, with the CPUs' mean share of interrupts. It is unknown
///   which CPUs the thread used.
fn needs_with_interrupts(machine: Option<&MachineUse>, work: &[f64]) -> Vec<Need> {
    let Some(machine) = machine.filter(|machine| !machine.cpus.is_empty()) else {
        return Vec::new();
    };
    let cpus = machine.cpus.len();
    let interrupts = |cpu: &CpuUse| {
        cpu.interrupt_ns
            .filter(|_| has_enough_ticks(machine))
            .map(|ns| ns as f64 / machine.length_ns as f64)
    };
    if machine.bound {
        // Threads are bound to the CPUs in turn, so each n-th thread is on the same of n CPUs.
        let on_cpu = |k: usize| work.iter().skip(k).step_by(cpus).sum();
        let needs = machine.cpus.iter().enumerate();
        return needs
            .map(|(k, cpu)| Need { work: on_cpu(k), waiting: 0.0, interrupts: interrupts(cpu) })
            .collect();
    }
    let sum: Option<f64> = machine.cpus.iter().map(interrupts).sum();
    let interrupts = sum.map(|sum| sum / cpus as f64);
    let need = |work: f64| Need { work, waiting: 0.0, interrupts };
    let by_thread = work.iter().filter(|_| interrupts.is_some()).map(|work| need(*work));
    let mean = need(work.iter().sum::<f64>() / cpus as f64);
    std::iter::once(mean).chain(by_thread).collect()
}

/// Whether the time is long enough to use times that the kernel counts in ticks.
fn has_enough_ticks(machine: &MachineUse) -> bool {
    machine.length_ns as f64 / 1e9 >= MIN_LENGTH_S
}

/// Returns the time that the threads polled in the window, summed.
pub(super) fn polling_ns(record: &LoadRecord) -> u64 {
    let measured = record.intervals.iter().filter(|i| i.phase == Phase::Measured);
    measured.flat_map(|i| i.workers.values()).map(|used| used.spun_ns).sum()
}
