//! Cumulative counters of a subject, of the generator and of the machine at one instant. Rates come later, from
//! differences of two samples with their own instants.

use serde::{Deserialize, Serialize};

/// All counters read at one instant. `None`: could not be read, see the run's facts for why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Read just before the counters, nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// How long reading took: the blur of the sample, and its price.
    pub took_ns: u64,
    pub cgroup: Option<CgroupUse>,
    /// Every thread of the subject that was alive.
    pub threads: Vec<ThreadUse>,
    /// Every thread of dyno itself: workers, control and probes.
    pub generator: Vec<ThreadUse>,
    pub processes: u32,
    /// Sum over the subject's processes of resident memory, in bytes; shared pages count once per process.
    pub rss_bytes: Option<u64>,
    pub host: Option<HostUse>,
}

/// Counters of the subject's control group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CgroupUse {
    /// CPU time of all tasks, dead ones included. Exact.
    pub cpu_ns: Option<u64>,
    /// Split of `cpu_ns`; sampled by the kernel's tick where tick accounting is on.
    pub cpu_user_ns: Option<u64>,
    pub cpu_sys_ns: Option<u64>,
    pub periods: Option<u64>,
    pub throttled_periods: Option<u64>,
    pub throttled_ns: Option<u64>,
    pub memory_bytes: Option<u64>,
    /// Highest `memory_bytes` since the window began.
    pub memory_peak_bytes: Option<u64>,
    pub memory_anon_bytes: Option<u64>,
    pub memory_file_bytes: Option<u64>,
    /// Times the memory limit killed a process.
    pub oom_kills: Option<u64>,
    pub pids: Option<u64>,
}

/// Counters of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    pub pid: u32,
    pub tid: u32,
    /// As the kernel keeps it: at most 15 bytes.
    pub name: String,
    /// Time on a CPU. Exact.
    pub run_ns: u64,
    pub user_ns: u64,
    pub sys_ns: u64,
    /// Time runnable but waiting for a CPU.
    pub run_delay_ns: Option<u64>,
    pub switches_voluntary: Option<u64>,
    pub switches_involuntary: Option<u64>,
}

/// Counters of the whole machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostUse {
    pub busy_ns: u64,
    pub idle_ns: u64,
    /// Time the hypervisor gave to somebody else.
    pub steal_ns: u64,
    pub context_switches: u64,
}
