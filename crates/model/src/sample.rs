//! Cumulative counters of the monitored processes and of the machine at one instant. The analysis
//! computes rates from the differences between two samples.

mod calls;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::HostUse;
use crate::tracking::TrackingUse;
pub use calls::{CallUse, CallsUse, SliceRates};

/// A monitored process group.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    /// A server under test, by its index among the servers of its start.
    Subject(usize),
    /// A service that subjects need, by its index among the plan's back ends.
    Backend(usize),
    /// A load generator: dyno itself is number 0.
    Generator(usize),
}

impl Party {
    /// The first server of a start, which is usually its only one.
    pub const SUBJECT: Party = Party::Subject(0);
    /// The process of dyno itself: workers, control and probes.
    pub const GENERATOR: Party = Party::Generator(0);
}

/// `server 1`, counted from 1.
impl std::fmt::Display for Party {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, index) = match self {
            Party::Subject(index) => ("server", index),
            Party::Backend(index) => ("back end", index),
            Party::Generator(index) => ("generator", index),
        };
        write!(f, "{name} {}", index + 1)
    }
}

/// All counters read at one instant. `None`: not readable. The run's facts have the reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Instant right before the counters were read, nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// Duration of the reading: the uncertainty of the sample's time, and its cost.
    pub took_ns: u64,
    /// Time for which the control thread made other readings after this one was due, such as those
    /// of another load that runs at the same time, nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delayed_ns: u64,
    /// Counters of the parties, each party once.
    pub parties: Vec<PartyUse>,
    pub host: Option<HostUse>,
    /// Resource use of the servers that take turns with this one, read at about the same instant.
    /// `None`: no other server takes turns with it.
    #[serde(rename = "beside")]
    pub co_runners: Option<OtherPartiesUse>,
}

const fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Total resource use of the parties of other starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherPartiesUse {
    /// CPU time; `None`: the CPU time of a party could not be read.
    pub cpu_ns: Option<u64>,
    /// Processes.
    pub pids: BTreeSet<u32>,
}

impl Sample {
    /// Returns the readings of a party; `None`: the party was not monitored.
    #[must_use]
    pub fn party_use(&self, party: Party) -> Option<&PartyUse> {
        self.parties.iter().find(|used| used.party == party)
    }

    /// Returns the readings of a party for changes. A party without readings is added.
    pub fn party_use_mut(&mut self, party: Party) -> &mut PartyUse {
        let known = self.parties.iter().position(|used| used.party == party);
        let at = known.unwrap_or_else(|| {
            self.parties.push(PartyUse::empty(party));
            self.parties.len() - 1
        });
        &mut self.parties[at]
    }
}

/// Counters of one party.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartyUse {
    pub party: Party,
    /// `None`: the party has no separate control group.
    pub cgroup: Option<CgroupUse>,
    /// All live threads.
    pub threads: Vec<ThreadUse>,
    pub processes: u32,
    /// Whether a process joined that does not descend from a known process, such as a server that a
    /// supervisor restarted. Earlier calls and wake-ups of this process were not recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_joined: bool,
    /// Number of the party's processes outside of its control group, or outside of the group of one
    /// controller. The party's counters do not include them. `None`: not checked. The check takes
    /// place when the window closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strays: Option<u32>,
    /// Totals of the party's processes, including zombies. Empty: not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<ProcessUse>,
    /// Resident memory in bytes, summed over the party's processes. Shared pages are included once
    /// per process.
    pub rss_bytes: Option<u64>,
    /// Resident anonymous memory in bytes. Of several processes, it is the sum of their
    /// proportional memory, so that shared pages are included once. `None`: not read, or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_anon_bytes: Option<u64>,
    /// Resident shared memory in bytes, computed in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_shmem_bytes: Option<u64>,
    /// Memory in huge pages of hugetlb, in bytes, which resident memory excludes. Shared huge pages
    /// are included once. `None`: unknown, or not read. Older records lack it, and count as 0.
    #[serde(default = "no_huge_pages", skip_serializing_if = "has_no_huge_pages")]
    pub huge_bytes: Option<u64>,
    /// Memory that the party's processes accessed since the window opened. Shared pages are
    /// included once per process. `None`: not observed, or not at this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accessed_bytes: Option<u64>,
    /// Counters of the party's network namespace; `None`: not read.
    pub network: Option<NetworkUse>,
    /// The party's sockets, read once in a window; `None`: not read.
    pub sockets: Option<SocketsUse>,
    /// The party's system calls; `None`: not counted.
    pub calls: Option<CallsUse>,
    /// Threads that have ended since monitoring began, by name; `None`: thread exits were not
    /// monitored, or the kernel had no room for some of the threads or names.
    pub ended: Option<Vec<EndedThreads>>,
}

#[allow(clippy::unnecessary_wraps)] // The default of an optional field.
const fn no_huge_pages() -> Option<u64> {
    Some(0)
}

fn has_no_huge_pages(bytes: &Option<u64>) -> bool {
    *bytes == no_huge_pages()
}

impl PartyUse {
    /// Returns a party without readings.
    #[must_use]
    pub const fn empty(party: Party) -> PartyUse {
        PartyUse {
            party,
            cgroup: None,
            threads: Vec::new(),
            processes: 0,
            has_joined: false,
            strays: None,
            each: Vec::new(),
            rss_bytes: None,
            rss_anon_bytes: None,
            rss_shmem_bytes: None,
            huge_bytes: Some(0),
            accessed_bytes: None,
            network: None,
            sockets: None,
            calls: None,
            ended: None,
        }
    }

    /// Returns the CPU time of the control group, nanoseconds. Without a group, it is the CPU time
    /// of the processes and of the children that they reaped. `None`: the group does not report it.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        if let Some(group) = &self.cgroup {
            return group.cpu_ns;
        }
        let threads_ns = |pid: Option<u32>| -> u64 {
            let threads =
                self.threads.iter().filter(|thread| pid.is_none_or(|pid| thread.pid == pid));
            threads.map(|thread| thread.run_ns).sum()
        };
        if self.each.is_empty() {
            return Some(threads_ns(None));
        }
        // Totals of processes are in ticks of the clock, which lag behind the sum of their threads.
        let process_ns = |process: &ProcessUse| process.cpu_ns().max(threads_ns(Some(process.pid)));
        Some(self.each.iter().map(|process| process_ns(process) + process.children_cpu_ns()).sum())
    }
}

/// Totals of one process, including its ended threads. Times are whole clock ticks, rounded down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUse {
    pub pid: u32,
    /// Clock ticks from the start of the machine to the start of the process. They distinguish the
    /// process from a later one with the same number.
    pub began_ticks: u64,
    pub user_ns: u64,
    pub sys_ns: u64,
    pub faults_minor: u64,
    pub faults_major: u64,
    /// CPU time of the ended children that the process has waited for, and of their ended children.
    pub children_user_ns: u64,
    pub children_sys_ns: u64,
    pub children_faults_minor: u64,
    pub children_faults_major: u64,
    /// Whether the process ignores SIGCHLD. The kernel then reaps the children, and no total
    /// includes their use.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignores_children: bool,
}

impl ProcessUse {
    #[must_use]
    pub const fn cpu_ns(&self) -> u64 {
        self.user_ns + self.sys_ns
    }

    #[must_use]
    pub const fn children_cpu_ns(&self) -> u64 {
        self.children_user_ns + self.children_sys_ns
    }
}

/// The TCP sockets of a party's listeners at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketsUse {
    pub listeners: Vec<ListenerUse>,
    /// Number of established connections.
    pub connections: u64,
    /// Number of segments that were retransmitted on these connections.
    pub retransmitted: u64,
    /// Time in which these connections had data to send. The next two fields are the parts of this
    /// time in which the peer's window, or the send buffer, was the limit.
    pub busy_ns: u64,
    pub window_limited_ns: u64,
    pub buffer_limited_ns: u64,
    /// Number of connections whose options were read; 0: not permitted.
    pub options_of: u64,
    /// Number of the connections in `options_of` with TCP_NODELAY, and with TCP_CORK.
    pub nodelay: u64,
    pub cork: u64,
    /// Open files of the process nearest to its limit. If connections wait, only processes with a
    /// listener for which they wait are considered. `None`: not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<OpenFiles>,
}

/// Open files of a process, and their limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenFiles {
    /// Sockets, files and all other descriptors.
    pub open: u64,
    /// Maximum of `open` (RLIMIT_NOFILE).
    pub limit: u64,
}

impl OpenFiles {
    /// Returns the share of the limit that is used: 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        self.open as f64 / self.limit.max(1) as f64
    }
}

/// A listening socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerUse {
    pub port: u16,
    /// Number of connections that wait to be accepted.
    pub queued: u64,
    /// Maximum of `queued`.
    pub backlog: u64,
}

/// TCP counters of a party's network namespace, which other parties may share: sums since the
/// namespace was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkUse {
    /// Connections to a listener with a full queue.
    pub listen_overflows: Option<u64>,
    /// Connections to a listener that were dropped, for any reason.
    pub listen_drops: Option<u64>,
    pub segments_out: Option<u64>,
    pub segments_retransmitted: Option<u64>,
    /// Part of `segments_retransmitted`: retransmissions after a time-out.
    pub retransmit_timeouts: Option<u64>,
    /// Delayed acknowledgements.
    pub delayed_acks: Option<u64>,
    /// Connections that were dropped because the queue of half-open connections was full, without
    /// SYN cookies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syn_queue_drops: Option<u64>,
    /// Connections to which the kernel responded with a SYN cookie because the queue of half-open
    /// connections was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syn_cookies: Option<u64>,
    /// Times that the memory of all TCP sockets came under pressure (`net.ipv4.tcp_mem`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_pressures: Option<u64>,
    /// Connections aborted because memory was exhausted, or because there were too many orphans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborts_on_memory: Option<u64>,
    /// Packets dropped because the receive buffer of their socket was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_queue_drops: Option<u64>,
    /// Packets dropped because the backlog queue of a locked socket was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_backlog_drops: Option<u64>,
    /// Number of times that the receive queue of a socket was shrunk to free memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prunes: Option<u64>,
    /// Packets dropped because only the machine's memory reserve was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve_drops: Option<u64>,
    /// Connection tracking; `None`: this kernel does not have or report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracking: Option<TrackingUse>,
}

impl NetworkUse {
    /// Returns the growth of the counters since an earlier reading of the same network namespace. A
    /// counter that is missing in a reading is unknown.
    #[must_use]
    pub fn growth_since(self, earlier: NetworkUse) -> NetworkUse {
        let since = |last: Option<u64>, first: Option<u64>| Some(last?.saturating_sub(first?));
        let tracking =
            self.tracking.zip(earlier.tracking).map(|(last, first)| last.growth_since(first));
        NetworkUse {
            listen_overflows: since(self.listen_overflows, earlier.listen_overflows),
            listen_drops: since(self.listen_drops, earlier.listen_drops),
            segments_out: since(self.segments_out, earlier.segments_out),
            segments_retransmitted: since(
                self.segments_retransmitted,
                earlier.segments_retransmitted,
            ),
            retransmit_timeouts: since(self.retransmit_timeouts, earlier.retransmit_timeouts),
            delayed_acks: since(self.delayed_acks, earlier.delayed_acks),
            syn_queue_drops: since(self.syn_queue_drops, earlier.syn_queue_drops),
            syn_cookies: since(self.syn_cookies, earlier.syn_cookies),
            memory_pressures: since(self.memory_pressures, earlier.memory_pressures),
            aborts_on_memory: since(self.aborts_on_memory, earlier.aborts_on_memory),
            receive_queue_drops: since(self.receive_queue_drops, earlier.receive_queue_drops),
            socket_backlog_drops: since(self.socket_backlog_drops, earlier.socket_backlog_drops),
            prunes: since(self.prunes, earlier.prunes),
            reserve_drops: since(self.reserve_drops, earlier.reserve_drops),
            tracking,
        }
    }
}

/// Threads of one name that have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedThreads {
    /// The name of the threads when they ended.
    pub name: String,
    pub threads: u64,
    /// CPU time from start to end as the scheduler counts it, nanoseconds. `None`: not read, in
    /// older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ns: Option<u64>,
    pub seen: SchedulerRecord,
}

/// Counters of a party's control group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CgroupUse {
    /// CPU time of all tasks, including ended ones. Exact.
    pub cpu_ns: Option<u64>,
    /// Parts of `cpu_ns`; sampled at the kernel's ticks if tick accounting is on.
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
    /// Part of `memory_file_bytes` without a file on a disk: shared memory, memfd, and files of a
    /// tmpfs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_shmem_bytes: Option<u64>,
    /// Kernel memory for the group: stacks, page tables, kernel objects, socket buffers.
    pub memory_kernel_bytes: Option<u64>,
    /// Number of processes that the kernel killed for lack of memory.
    pub oom_kills: Option<u64>,
    pub pids: Option<u64>,
}

/// Counters of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    pub pid: u32,
    pub tid: u32,
    /// Clock ticks from the start of the machine to the start of the thread. They distinguish the
    /// thread from a later one with the same number. `None`: not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ticks: Option<u64>,
    /// Name as the kernel stores it: at most 15 bytes.
    pub name: String,
    /// Time on a CPU. Exact.
    pub run_ns: u64,
    pub user_ns: u64,
    pub sys_ns: u64,
    /// Time in which the thread was runnable and waited for a CPU.
    pub run_delay_ns: Option<u64>,
    pub switches_voluntary: Option<u64>,
    pub switches_involuntary: Option<u64>,
    /// Page faults without, and with, a read from a disk.
    pub faults_minor: Option<u64>,
    pub faults_major: Option<u64>,
    /// Scheduler records of the thread; `None`: not traced.
    pub seen: Option<SchedulerRecord>,
}

/// Scheduler records of threads since their monitoring began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerRecord {
    pub states: StateTimes,
    /// Number of wake-ups.
    pub wakeups: u64,
    /// Number of moves to another CPU.
    pub migrations: u64,
    /// CPU time outside of system calls, and inside; `None`: not measured.
    pub modes: Option<ModeTimes>,
}

/// CPU time by mode. It is exact, except that time of interrupts and page faults belongs to the
/// mode in which they happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeTimes {
    pub user_ns: u64,
    pub sys_ns: u64,
}

/// Time of threads by state, in nanoseconds. The sum is the elapsed time, added up over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateTimes {
    pub running_ns: u64,
    pub runnable_ns: u64,
    pub lock_ns: u64,
    pub network_ns: u64,
    pub disk_ns: u64,
    pub sleep_ns: u64,
    pub other_ns: u64,
}

impl StateTimes {
    #[must_use]
    pub const fn get(&self, state: ThreadState) -> u64 {
        match state {
            ThreadState::Running => self.running_ns,
            ThreadState::Runnable => self.runnable_ns,
            ThreadState::Lock => self.lock_ns,
            ThreadState::Network => self.network_ns,
            ThreadState::Disk => self.disk_ns,
            ThreadState::Sleep => self.sleep_ns,
            ThreadState::Other => self.other_ns,
        }
    }

    /// Adds time to a state.
    pub const fn add(&mut self, state: ThreadState, ns: u64) {
        *self.state_mut(state) += ns;
    }

    /// Subtracts time from a state, at most all of it.
    pub const fn take(&mut self, state: ThreadState, ns: u64) {
        let time = self.state_mut(state);
        *time = time.saturating_sub(ns);
    }

    const fn state_mut(&mut self, state: ThreadState) -> &mut u64 {
        match state {
            ThreadState::Running => &mut self.running_ns,
            ThreadState::Runnable => &mut self.runnable_ns,
            ThreadState::Lock => &mut self.lock_ns,
            ThreadState::Network => &mut self.network_ns,
            ThreadState::Disk => &mut self.disk_ns,
            ThreadState::Sleep => &mut self.sleep_ns,
            ThreadState::Other => &mut self.other_ns,
        }
    }
}

/// State of a thread.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// On a CPU.
    Running,
    /// Ready to run, and waiting for a CPU.
    Runnable,
    /// Waiting for a lock, or for another thread to give it work (futex), or for a lock within the
    /// kernel.
    Lock,
    /// Waiting for a peer: for a request, a response, or room to send.
    Network,
    Disk,
    /// Waiting for time to pass.
    Sleep,
    /// Waiting in another system call, such as for a child.
    Other,
}

impl ThreadState {
    pub const ALL: [ThreadState; 7] = [
        ThreadState::Running,
        ThreadState::Runnable,
        ThreadState::Lock,
        ThreadState::Network,
        ThreadState::Disk,
        ThreadState::Sleep,
        ThreadState::Other,
    ];

    /// Returns the name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ThreadState::Running => "running",
            ThreadState::Runnable => "runnable",
            ThreadState::Lock => "lock",
            ThreadState::Network => "network",
            ThreadState::Disk => "disk",
            ThreadState::Sleep => "sleep",
            ThreadState::Other => "other",
        }
    }
}
