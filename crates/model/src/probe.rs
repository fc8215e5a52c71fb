//! Probes: optional observations, their availability, and their cost.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Makes [`Probe`] and its list. Each probe has its name, whether it is on by default, and how it
/// observes.
macro_rules! probes {
    ($($(#[doc = $doc:literal])+ $probe:ident = $name:literal, $default:ident, $means:ident;)+) => {
        /// An observation that is optional, because it has a cost.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum Probe {
            $($(#[doc = $doc])+ $probe,)+
        }

        impl Probe {
            pub const ALL: &'static [Probe] = &[$(Probe::$probe),+];

            /// Returns the name in suites and results.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Probe::$probe => $name),+ }
            }

            const fn default(self) -> ProbeDefault {
                match self { $(Probe::$probe => ProbeDefault::$default),+ }
            }

            /// Returns how the probe observes.
            #[must_use]
            pub const fn means(self) -> ProbeMeans {
                match self { $(Probe::$probe => ProbeMeans::$means),+ }
            }
        }
    };
}

probes! {
    /// The kernel's timestamps of sent and received packets (SO_TIMESTAMPING). Response times from
    /// these timestamps can be compared with the generator's.
    KernelStamps = "kernel-stamps", Off, Reads;
    /// System calls by name. Frequent calls are counted only in slices of time.
    Syscalls = "syscalls", On, CountsCalls;
    /// All system calls by name, regardless of the cost.
    EverySyscall = "every-syscall", Off, CountsCalls;
    /// States of threads: running, waiting for a CPU, a lock, a peer, a disk; wake-ups; threads
    /// that end.
    States = "states", On, Traces;
    /// User and system time by entries into the kernel, instead of by its tick.
    Modes = "modes", Off, Traces;
    /// Stacks of the server's threads, sampled after each window under the same load.
    Profile = "profile", Off, Reads;
    /// Statistics of a subject's runtime, if its definition names their source.
    Runtime = "runtime", On, Reads;
    /// Memory that the server accesses in the window.
    WorkingSet = "working-set", Off, Reads;
}

/// Whether a probe is enabled by default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProbeDefault {
    /// The probe costs little and shows much.
    On,
    Off,
}

/// How a probe observes a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeMeans {
    /// A program in the kernel, attached to the processes of the server.
    Traces,
    /// As `Traces`, or a counter of the kernel where programs cannot be loaded.
    CountsCalls,
    /// Neither. The probe cannot be detached from a loaded server.
    Reads,
}

impl Probe {
    /// Returns the key in suites.
    #[must_use]
    pub fn key(self) -> String {
        self.name().replace('-', "_")
    }

    /// Returns whether the probe is enabled by default, because it costs little and shows much.
    #[must_use]
    pub const fn is_enabled_by_default(self) -> bool {
        matches!(self.default(), ProbeDefault::On)
    }

    /// Whether the probe is attached to the processes of a server. Only these probes can be
    /// detached from a process, so only their cost can be measured.
    #[must_use]
    pub const fn is_attached(self) -> bool {
        matches!(self.means(), ProbeMeans::Traces | ProbeMeans::CountsCalls)
    }

    /// Whether the probe counts system calls, which is possible without an eBPF program.
    #[must_use]
    pub const fn counts_calls(self) -> bool {
        matches!(self.means(), ProbeMeans::CountsCalls)
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
