//! Cumulative counters of those who are watched, and of the machine, at one instant. Rates come later, from
//! differences of two samples with their own instants.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    /// A server under test, by its place among those of its start.
    Subject(usize),
    /// A service that subjects need, by its place among the plan's back ends.
    Backend(usize),
    /// Whoever makes load: dyno itself is the first.
    Generator(usize),
}

impl Party {
    /// The only server of a start that has one, or the first.
    pub const SUBJECT: Party = Party::Subject(0);
    /// This dyno: workers, control and probes.
    pub const GENERATOR: Party = Party::Generator(0);
}

/// All counters read at one instant. `None`: could not be read, see the run's facts for why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Read just before the counters, nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// How long reading took: the blur of the sample, and its price.
    pub took_ns: u64,
    /// Each party once.
    pub parties: Vec<PartyUse>,
    pub host: Option<HostUse>,
}

impl Sample {
    /// What was read of a party; `None`: it was not watched.
    #[must_use]
    pub fn of(&self, party: Party) -> Option<&PartyUse> {
        self.parties.iter().find(|used| used.party == party)
    }

    /// The same, to be changed; made where it is not there.
    pub fn of_mut(&mut self, party: Party) -> &mut PartyUse {
        let known = self.parties.iter().position(|used| used.party == party);
        let at = known.unwrap_or_else(|| {
            self.parties.push(PartyUse::nothing(party));
            self.parties.len() - 1
        });
        &mut self.parties[at]
    }
}

/// Counters of one party.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartyUse {
    pub party: Party,
    /// `None`: it has no control group of its own.
    pub cgroup: Option<CgroupUse>,
    /// Every thread that was alive.
    pub threads: Vec<ThreadUse>,
    pub processes: u32,
    /// Sum over its processes of resident memory, in bytes; shared pages count once per process.
    pub rss_bytes: Option<u64>,
}

impl PartyUse {
    /// Of whom nothing could be read.
    #[must_use]
    pub const fn nothing(party: Party) -> PartyUse {
        PartyUse { party, cgroup: None, threads: Vec::new(), processes: 0, rss_bytes: None }
    }
}

/// Counters of a party's control group.
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
