//! Records the use of the machine's CPUs during a measured window, by dyno and by other processes.
//! The record shows whether a measurement was disturbed.

use serde::{Deserialize, Serialize};

use crate::drops::PathUse;

/// Use of the generator's CPUs between two readings, one at each edge of the measured window. For a
/// load without a planned end, the second reading takes place at the end of its drain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineUse {
    /// Time between the two readings.
    pub length_ns: u64,
    /// CPUs on which the worker threads could run. If `bound`, worker k runs on `cpus[k %
    /// cpus.len()]`.
    pub cpus: Vec<CpuUse>,
    /// All other CPUs of the machine; empty: not measured, or no other CPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaining_cpus: Vec<CpuUse>,
    /// Whether each worker is bound to one CPU.
    pub bound: bool,
    /// CPU time of all of dyno's threads, exact.
    pub own_ns: u64,
    /// Lowest CPU quota of dyno's control group and the groups above it. `None`: no quota.
    pub quota: Option<QuotaUse>,
    /// Other processes that used the generator's CPUs between two lists of processes, taken before
    /// and after the load. The largest use comes first.
    pub others: Vec<OtherUse>,
    /// Other processes that used any CPU between the two lists. The largest use comes first.
    /// `None`: not measured.
    pub everywhere: Option<Vec<OtherUse>>,
    /// Time between the two lists of processes.
    pub everywhere_ns: Option<u64>,
    /// CPU time of the kernel's own threads between the two lists, without softirqs that the
    /// machine's counters include in interrupts. `None`: not visible, or the archive is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_threads_ns: Option<u64>,
    /// Thermal throttling of the most throttled CPU of the machine, from before the load to after
    /// it. `None`: the kernel does not report it.
    pub heat: Option<HeatUse>,
    /// Growth of the counters of dropped packets, from before the load to after it; `None`: not
    /// read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathUse>,
    /// Time for which the machine was suspended. The monotonic clock does not include it. `None`:
    /// the archive is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_ns: Option<u64>,
    /// Times in which dyno's control thread did not run after the end of its short sleeps, and did
    /// not wait for a CPU either. `None`: the kernel does not report waits for a CPU, or the
    /// archive is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stops>,
}

/// Times in which dyno was stopped or frozen, or the hypervisor stopped its CPU. They are a lower
/// bound, because the control thread notices only those that end one of its sleeps late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stops {
    /// Number of such times.
    pub count: u64,
    /// Their sum, nanoseconds.
    pub ns: u64,
}

/// Thermal throttling of a CPU or of its package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HeatUse {
    /// Throttled time. The kernel counts each period when it ends.
    pub throttled_ns: u64,
    /// Number of throttled periods that began.
    pub events: u64,
}

impl HeatUse {
    /// Returns the growth of the counters of the same CPU.
    #[must_use]
    pub fn growth_since(self, earlier: HeatUse) -> HeatUse {
        HeatUse {
            throttled_ns: self.throttled_ns.saturating_sub(earlier.throttled_ns),
            events: self.events.saturating_sub(earlier.events),
        }
    }
}

/// Time of one CPU. The kernel counts it in ticks of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuUse {
    pub cpu: u32,
    pub busy_ns: u64,
    pub idle_ns: u64,
    /// Time that the hypervisor gave to other guests.
    pub steal_ns: u64,
    /// Part of `busy_ns` in which the CPU handled interrupts and softirqs, if no program's CPU time
    /// includes this part. `None`: the CPU time of the interrupted programs includes it, or the
    /// archive is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_ns: Option<u64>,
}

impl CpuUse {
    /// Returns the growth of a cumulative counter since an earlier reading of the same CPU.
    #[must_use]
    pub fn growth_since(&self, earlier: &CpuUse) -> CpuUse {
        CpuUse {
            cpu: self.cpu,
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
            interrupt_ns: self
                .interrupt_ns
                .zip(earlier.interrupt_ns)
                .map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// Returns the part of the busy time that the CPU times of programs include.
    #[must_use]
    pub fn billed_ns(&self) -> u64 {
        self.busy_ns.saturating_sub(self.interrupt_ns.unwrap_or(0))
    }
}

/// A CPU quota, and how often it throttled its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuotaUse {
    /// CPU time per elapsed time: 0.5 is half of one CPU.
    pub cpus: f64,
    pub periods: u64,
    pub throttled_periods: u64,
}

/// CPU use of a process other than dyno.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherUse {
    pub pid: u32,
    /// Name in the kernel, at most 15 bytes.
    pub name: String,
    /// CPU time, which the kernel counts in ticks of 10 ms.
    pub run_ns: u64,
}
