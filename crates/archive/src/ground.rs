//! The CPUs on which a generator stood over its measured window, and who else used them.

use serde::{Deserialize, Serialize};

/// The generator's ground between two readings, one at each edge of the measured window. Where a load has no set end the
/// second is at the end of its drain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ground {
    /// Between the two readings.
    pub length_ns: u64,
    /// CPUs on which the worker threads might run. Worker k is bound to `cpus[k % cpus.len()]` if `bound`.
    pub cpus: Vec<CpuUse>,
    /// Whether each worker has one CPU that it may not leave.
    pub bound: bool,
    /// CPU time of all of dyno's threads, exact.
    pub own_ns: u64,
    /// The tightest CPU quota of dyno's own control group and those above it; `None`: there is none.
    pub quota: Option<QuotaUse>,
    /// Other processes that were seen to use these CPUs, the most first, from before the load to after it.
    pub others: Vec<OtherUse>,
}

/// Time of one CPU. The kernel counts it in ticks of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuUse {
    pub cpu: u32,
    pub busy_ns: u64,
    pub idle_ns: u64,
    /// Time the hypervisor gave to somebody else.
    pub steal_ns: u64,
}

impl CpuUse {
    /// What a cumulative counter has grown by since an earlier reading of the same CPU.
    #[must_use]
    pub fn since(&self, earlier: &CpuUse) -> CpuUse {
        CpuUse {
            cpu: self.cpu,
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
        }
    }
}

/// A CPU quota, and how often it held its group back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuotaUse {
    /// CPU time per time.
    pub cpus: f64,
    pub periods: u64,
    pub throttled_periods: u64,
}

/// A process that is not dyno.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherUse {
    pub pid: u32,
    /// As the kernel keeps it: at most 15 bytes.
    pub name: String,
    /// In ticks of 10 ms.
    pub run_ns: u64,
}
