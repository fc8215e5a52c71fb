//! Facts about the machine and this version of dyno, read when a run begins. The facts show whether
//! two runs are comparable.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Facts about the machine and this version of dyno, read when the run began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    pub cpu_model: Option<String>,
    /// Number of CPUs that dyno may use. With a CPU quota it may be below the number of CPUs on
    /// which servers may run.
    pub cpus: u32,
    /// CPUs of the machine that are online; `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online_cpus: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub kernel: Option<String>,
    pub os: Option<String>,
    /// Such as `performance`; `None`: the machine does not report it.
    pub governor: Option<String>,
    /// Such as `kvm`; `none`: no virtualisation was detected.
    pub virtualisation: Option<String>,
    pub clock_source: Option<String>,
    pub cgroup: CgroupVersion,
    /// Kernel settings that affect servers, by name.
    pub sysctls: Vec<(String, String)>,
    pub open_files_limit: Option<u64>,
    /// Whether the run had root privileges.
    pub privileged: bool,
    /// Whether user and system time are sampled by the tick instead of measured.
    pub tick_accounting: Option<bool>,
    /// Whether the CPU time of a program excludes the interrupts that the kernel handled while the
    /// program ran (`CONFIG_IRQ_TIME_ACCOUNTING`); `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq_time_accounting: Option<bool>,
    /// Whether the kernel tracks connections over loopback (netfilter); `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loopback_tracked: Option<bool>,
    /// Maximum number of connections that the kernel tracks; `None`: it does not track connections
    /// over loopback, or unknown.
    #[serde(rename = "tracking_most", default, skip_serializing_if = "Option::is_none")]
    pub max_tracking_entries: Option<u64>,
    pub dyno_version: String,
    /// The commit from which dyno was built; `None`: unknown.
    pub dyno_commit: Option<String>,
    /// Facts that could not be read and actions that failed here, each with its cause and fix.
    pub missing: Vec<Missing>,
}

/// The version of control groups whose controllers limit CPU and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CgroupVersion {
    V1,
    V2,
    /// No controller of either version is mounted.
    #[default]
    None,
}

impl CgroupVersion {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CgroupVersion::V1 => "v1",
            CgroupVersion::V2 => "v2",
            CgroupVersion::None => "none",
        }
    }
}

/// A measurement or an action that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    #[serde(rename = "what")]
    pub measurement: String,
    #[serde(rename = "why")]
    pub reason: String,
    #[serde(rename = "mend")]
    pub hint: String,
}
