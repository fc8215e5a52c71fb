//! Probes: optional observations, their availability, and their cost.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An observation that is optional, because it has a cost.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// The kernel's timestamps of sent and received packets (SO_TIMESTAMPING). Response times from
    /// these timestamps can be compared with the generator's.
    KernelStamps,
    /// System calls by name. Frequent calls are counted only in slices of time.
    Syscalls,
    /// All system calls by name, regardless of the cost.
    EverySyscall,
    /// States of threads: running, waiting for a CPU, a lock, a peer, a disk; wake-ups; threads
    /// that end.
    States,
    /// User and system time by entries into the kernel, instead of by its tick.
    Modes,
    /// Stacks of the server's threads, sampled after each window under the same load.
    Profile,
    /// Statistics of a subject's runtime, if its definition names their source.
    Runtime,
}

impl Probe {
    pub const ALL: [Probe; 7] = [
        Probe::KernelStamps,
        Probe::Syscalls,
        Probe::EverySyscall,
        Probe::States,
        Probe::Modes,
        Probe::Profile,
        Probe::Runtime,
    ];

    /// Returns the name in suites and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Probe::KernelStamps => "kernel-stamps",
            Probe::Syscalls => "syscalls",
            Probe::EverySyscall => "every-syscall",
            Probe::States => "states",
            Probe::Modes => "modes",
            Probe::Profile => "profile",
            Probe::Runtime => "runtime",
        }
    }

    /// Returns whether the probe is enabled by default, because it costs little and shows much.
    #[must_use]
    pub const fn is_enabled_by_default(self) -> bool {
        matches!(self, Probe::Syscalls | Probe::States | Probe::Runtime)
    }
}

/// The requested probes: attached ones and refused ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedProbes {
    pub attached: BTreeSet<Probe>,
    /// Probes that were not available, each with the reason.
    pub refused: Vec<RefusedProbe>,
}

impl RequestedProbes {
    /// Moves a probe from the attached to the refused probes. `None` changes nothing.
    pub fn refuse(&mut self, refused: Option<RefusedProbe>) {
        if let Some(refused) = refused {
            self.attached.remove(&refused.probe);
            self.refused.push(refused);
        }
    }
}

/// A probe that was not available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedProbe {
    pub probe: Probe,
    /// Reason, as the end of a sentence.
    #[serde(rename = "why")]
    pub reason: String,
    /// Hint, as a sentence.
    #[serde(rename = "mend")]
    pub hint: String,
}

/// A load whose slices have probes off or on, in the order off, on, on, off, off, …. The first two
/// slices are a pair, and so are the next two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbePrice {
    pub probes: BTreeSet<Probe>,
    pub slices: Vec<PriceSlice>,
    /// Reason why the price is missing, as a sentence; `None`: the price is known.
    pub failure: Option<String>,
}

/// A slice of the load of a [`ProbePrice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceSlice {
    /// Whether the probes were attached.
    pub attached: bool,
    pub length_ns: u64,
    /// Number of complete responses, correct or not.
    #[serde(rename = "answers")]
    pub responses: u64,
    /// CPU time of the server; `None`: unknown.
    pub cpu_ns: Option<u64>,
}
