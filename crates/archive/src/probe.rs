//! Probes: what is looked at only where it is asked for, what came of asking, and what looking
//! costs.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that is looked at only where it is asked for, because looking has a price.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// The kernel's own stamps of what is sent and received (SO_TIMESTAMPING), for response times
    /// beside the generator's.
    KernelStamps,
    /// System calls by name, counted in slices of the time where there are many.
    Syscalls,
    /// System calls by name, every one of them, whatever that costs.
    EverySyscall,
    /// What threads do with their time: running, waiting for a CPU, a lock, a peer, a disk;
    /// wake-ups; threads that end.
    States,
    /// User and system time by entries into the kernel, instead of by its tick.
    Modes,
    /// Stacks of the server's threads, after each window, while the load goes on.
    Profile,
    /// What a subject's runtime says of itself, where its file says how to ask.
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

    /// The name in suites and results.
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

    /// Whether it looks where nobody says anything of it: it costs little, and tells much.
    #[must_use]
    pub const fn is_usual(self) -> bool {
        matches!(self, Probe::Syscalls | Probe::States | Probe::Runtime)
    }
}

/// The probes that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbesUse {
    pub attached: BTreeSet<Probe>,
    /// Those that could not be had, each with the reason.
    pub refused: Vec<Refused>,
}

impl ProbesUse {
    /// Moves a probe from those that looked to those that could not be had.
    pub fn refuse(&mut self, refused: Option<Refused>) {
        if let Some(refused) = refused {
            self.attached.remove(&refused.probe);
            self.refused.push(refused);
        }
    }
}

/// A probe that could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub probe: Probe,
    /// As the end of a sentence.
    pub why: String,
    /// What to do about it: a sentence.
    pub mend: String,
}

/// A load with probes on and off in turn, in the order off, on, on, off, off, …: two neighbours are
/// a pair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbePrice {
    pub probes: BTreeSet<Probe>,
    pub slices: Vec<PriceSlice>,
    /// Why there is no price, as a sentence; `None`: there is.
    pub failure: Option<String>,
}

/// A stretch of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceSlice {
    /// Whether the probes looked.
    pub attached: bool,
    pub length_ns: u64,
    /// Complete answers, right or wrong.
    pub answers: u64,
    /// CPU time of the server; `None`: not known.
    pub cpu_ns: Option<u64>,
}
