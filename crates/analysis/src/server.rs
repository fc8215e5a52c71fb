//! Computes the resources that the server used over the measured window, from the samples of its
//! counters.

mod calls;
mod complete;
pub(crate) mod group_memory;
mod host_cpu;
mod party_sample;
mod runtime;
mod sockets;
pub(crate) mod strays;
mod stretches;
#[cfg(test)]
mod tests;
mod threads;
pub mod watch;

use std::collections::BTreeMap;

use dyno_model::cpus::AllowedCpus;
use dyno_model::sample::{CgroupUse, Party};
use dyno_model::{LoadRecord, Sample};
use schemars::JsonSchema;
use serde::Serialize;

use crate::load::responses_per_second;
pub use calls::{Call, CallRates, Transfers};
use complete::PartyDeltas;
pub use complete::UnreadCounters;
use host_cpu::{interrupt_s, others_cpu_s, others_on_cpus_s, steal_share, stolen_s};
use party_sample::{
    PartySample, cgroup_delta, cpu_between, edges, is_between, party_samples, split_between,
};
pub use runtime::RuntimeMetrics;
pub(crate) use sockets::socket_rows;
pub use sockets::{ListenQueue, Sockets, TcpLosses};
pub(crate) use stretches::{Stretch, StretchTotals};
pub use threads::{RoleUse, ServingThreads};
use threads::{ThreadDeltas, run_time_s};

/// CPU time of a server without requests, which tells a server that polls from one that sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum WithoutRequests {
    /// Not measured.
    #[default]
    Unknown,
    /// The server sleeps: it used almost no CPU time before its first load, or had CPU time left
    /// and slept at some step.
    Sleeps,
    /// CPUs that it used before its first load.
    Uses(f64),
}

impl WithoutRequests {
    /// CPUs below which a server sleeps. Servers in C, Go, Java, Node.js and Python that sleep used
    /// at most 0.008.
    const AT_REST: f64 = 0.2;

    /// Evaluates the CPUs that a server used before its first load.
    pub(crate) fn from_cpus(cpus: f64) -> WithoutRequests {
        if cpus < Self::AT_REST { WithoutRequests::Sleeps } else { WithoutRequests::Uses(cpus) }
    }

    /// Returns the CPUs that the server used; `None`: unknown, or it sleeps.
    pub(crate) const fn cpus(self) -> Option<f64> {
        match self {
            WithoutRequests::Uses(cpus) => Some(cpus),
            WithoutRequests::Unknown | WithoutRequests::Sleeps => None,
        }
    }
}

/// The server's use of resources. `None`: the value could not be measured. A caveat of the trial
/// gives the reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ServerUse {
    /// Length of the observed window: between the samples nearest to the measured window's edges.
    pub window_s: f64,
    /// `None` also if a thread or process ended before its user and system time were read. In this
    /// case, only their sum is known (`cpus`).
    pub cpu_user_s: Option<f64>,
    /// As for `cpu_user_s`.
    pub cpu_sys_s: Option<f64>,
    /// CPU time ÷ length of the window: in CPUs.
    pub cpus: Option<f64>,
    /// Per complete response, correct or incorrect.
    pub cpu_us_per_request: Option<f64>,
    /// CPU time that the quota and the CPUs allow in the window.
    pub cpu_allowed_s: Option<f64>,
    /// CPU time used ÷ allowed.
    pub cpu_utilisation: Option<f64>,
    /// Time for which the CPU quota throttled the server. The kernel sums it over CPUs, so it may
    /// exceed the window.
    pub throttled_s: Option<f64>,
    /// `None` without a quota.
    pub throttling: Option<Throttling>,
    /// Highest memory of the server's control group in the window, including page cache.
    pub memory_peak_bytes: Option<u64>,
    /// Anonymous memory: the highest sample of the window. If the control group reports 0 (cgroup
    /// v1 charges in batches), the sum over its processes.
    pub memory_anon_bytes: Option<u64>,
    /// Page cache, including shared memory: the highest sample of the window.
    pub memory_file_bytes: Option<u64>,
    /// Shared memory, memfd, and files of a tmpfs: part of `memory_file_bytes`. Without a control
    /// group: resident shared memory. It is the highest sample of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_shmem_bytes: Option<u64>,
    /// Memory that the kernel uses for the server (stacks, page tables, kernel objects, socket
    /// buffers): the highest sample of the window.
    pub memory_kernel_bytes: Option<u64>,
    /// Resident memory: the highest sample of the window.
    pub rss_bytes: Option<u64>,
    /// Memory that the server accessed in the window, with shared pages once per process. `None`:
    /// not observed (the probe `working-set`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_accessed_bytes: Option<u64>,
    /// Memory of the server itself: anonymous and shared memory, or resident memory if only that is
    /// known.
    pub memory_held_bytes: Option<u64>,
    /// `memory_held_bytes` × time per response, in MB·s (10⁶ bytes × s).
    pub memory_mb_s_per_request: Option<f64>,
    /// Threads at the end of the window.
    pub threads: Option<usize>,
    /// Threads that ran, or waited for a CPU, for a quarter of the window or more.
    pub busy_threads: Option<usize>,
    /// Processes at the end of the window.
    pub processes: Option<u32>,
    /// Share of one CPU that the server's busiest thread used.
    pub busiest_thread_utilisation: Option<f64>,
    /// Share of one CPU that the server's busiest serving thread used. Threads of compilers,
    /// garbage collectors and virtual machines are excluded. Only rules of verdicts read it.
    #[serde(skip)]
    pub(crate) busiest_serving_utilisation: Option<f64>,
    /// Serving threads that hardly slept, and ran or waited for a CPU for nearly the whole window.
    /// Each of them had work all the time, or polls. `None`: unknown. Only rules of verdicts read
    /// it.
    #[serde(skip)]
    pub(crate) sleepless_threads: Option<usize>,
    /// Only rules of verdicts read it.
    #[serde(skip)]
    pub(crate) without_requests: WithoutRequests,
    /// Time that threads were runnable but waited for a CPU, summed over threads.
    pub run_delay_s: Option<f64>,
    /// CPU time of the whole machine that neither the server nor dyno used. The kernel's own
    /// threads are excluded if they are visible, and interrupts if the kernel bills them to no
    /// program.
    pub others_cpu_s: Option<f64>,
    /// Upper bound of the part of `others_cpu_s` that was used on the server's CPUs.
    pub others_on_its_cpus_s: Option<f64>,
    /// Threads and processes that ended before their counters were read. `None`: no counter is
    /// unknown for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread_counters: Option<UnreadCounters>,
    pub context_switches_voluntary: Option<u64>,
    pub context_switches_involuntary: Option<u64>,
    /// Source of the split of CPU time; `None`: no split is known.
    pub cpu_split_by: Option<SplitBy>,
    /// Page faults without (minor) and with (major) reading from a disk, of threads that lived
    /// through the window.
    pub page_faults_minor: Option<u64>,
    pub page_faults_major: Option<u64>,
    /// Number of times that the server's threads were woken up, and moved to another CPU.
    pub wakeups: Option<u64>,
    pub migrations: Option<u64>,
    pub per_request: PerRequest,
    /// `None`: system calls were not counted.
    pub calls: Option<CallRates>,
    pub by_thread_role: BTreeMap<&'static str, RoleUse>,
    /// The threads that served, and their time by state; `None`: states were not observed.
    #[serde(rename = "working")]
    pub serving: Option<ServingThreads>,
    /// Metrics that the server's runtime reports; `None`: not requested, or none reported.
    pub runtime: Option<RuntimeMetrics>,
    /// TCP sockets, read once in the window; `None`: not read, or there are none.
    pub sockets: Option<Sockets>,
    /// Counters of the server's network namespace, which may be shared with others. `None`: not
    /// read.
    pub network: Option<TcpLosses>,
    /// Processes that the kernel killed for lack of memory in the window; `None`: unknown.
    pub oom_kills: Option<u64>,
    /// Time spent on taking the samples.
    pub probe_s: Option<f64>,
    /// Share of the machine's CPU time that the hypervisor took.
    pub steal_share: Option<f64>,
    /// CPU seconds that the hypervisor took from the machine: an upper bound of the time taken from
    /// the server. Only rules of verdicts read it.
    #[serde(skip)]
    pub(crate) stolen_s: Option<f64>,
    /// CPU seconds of the machine's interrupts, which are part of no program's CPU time. `None`:
    /// the kernel bills them to the interrupted program, or it is unknown whether it does. Only
    /// rules of verdicts read it.
    #[serde(skip)]
    pub(crate) interrupt_s: Option<f64>,
    /// `None`: the values per unit of time are of the whole window.
    #[serde(skip)]
    pub(crate) in_stretches: Option<StretchTotals>,
    pub intervals: Vec<ServerInterval>,
}

/// Periods of a CPU quota, and the throttled ones among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Throttling {
    pub periods: u64,
    pub throttled_periods: u64,
}

impl Throttling {
    fn from_readings(first: &PartySample<'_>, last: &PartySample<'_>) -> Option<Throttling> {
        let periods = cgroup_delta(first, last, |c| c.periods).filter(|n| *n > 0)?;
        let throttled_periods = cgroup_delta(first, last, |c| c.throttled_periods)?;
        Some(Throttling { periods, throttled_periods })
    }

    /// Returns the share of periods in which the server was throttled: 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        self.throttled_periods as f64 / self.periods.max(1) as f64
    }
}

/// The server's use per complete response, correct or incorrect; `None` where it could not be
/// measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PerRequest {
    pub cpu_user_us: Option<f64>,
    pub cpu_sys_us: Option<f64>,
    pub context_switches: Option<f64>,
    /// System calls by name; futex calls by their purpose.
    pub syscalls: Option<BTreeMap<String, f64>>,
    pub run_delay_us: Option<f64>,
    pub page_faults: Option<f64>,
    pub wakeups: Option<f64>,
}

/// Source of the split of CPU time into user and system time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SplitBy {
    /// The kernel's own split, which may be sampled at its tick.
    Kernel,
    /// Entries into the kernel and exits from it.
    Entries,
}

/// The server's use between two samples, for charts over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ServerInterval {
    /// Since the load began, in seconds.
    pub start_s: f64,
    pub end_s: f64,
    /// CPU time ÷ time between the samples: in CPUs.
    pub cpu: Option<f64>,
    pub cpu_user: Option<f64>,
    pub cpu_sys: Option<f64>,
    /// CPU use of the JIT compiler's threads, in CPUs. `None`: no thread has the name of a known
    /// compiler.
    pub cpu_jit: Option<f64>,
    /// CPU use of all of dyno's threads, in CPUs.
    pub generator_cpu: Option<f64>,
    /// CPU use of programs outside of the run, in CPUs.
    #[serde(skip)]
    pub others_cpu: Option<f64>,
    /// Time runnable but waiting for a CPU, summed over threads.
    pub run_delay_s: Option<f64>,
    pub throttled_s: Option<f64>,
    /// Anonymous memory at the interval's end; resident memory if no anonymous memory can be read.
    pub memory_anon_bytes: Option<u64>,
    pub memory_file_bytes: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub context_switches_per_s: Option<f64>,
    pub threads: usize,
}

/// Minimum share of the window that a busy thread runs or waits for a CPU.
const BUSY_THREAD: f64 = 0.25;

/// Minimum share of the window that a sleepless thread runs or waits for a CPU.
const SLEEPLESS_THREAD: f64 = 0.9;

/// Highest samples of memory within the window, in bytes.
/// Returns the highest memory of the samples. The shared memory of several processes is read only
/// in the last one: if it is unknown there, an earlier value of a single process is no bound.
fn held_bytes(window: &[&PartySample<'_>], last: &PartySample<'_>) -> Option<u64> {
    if last.held_bytes().is_none() && window.iter().any(|sample| sample.processes > 1) {
        return None;
    }
    window.iter().filter_map(|sample| sample.held_bytes()).max()
}

struct Memory {
    peak: Option<u64>,
    anon: Option<u64>,
    file: Option<u64>,
    kernel: Option<u64>,
    rss: Option<u64>,
    shmem: Option<u64>,
    held: Option<u64>,
}

impl Memory {
    fn from_samples(window: &[&PartySample<'_>], last: &PartySample<'_>) -> Memory {
        let highest = |pick: fn(&CgroupUse) -> Option<u64>| {
            window.iter().filter_map(|sample| pick(sample.cgroup.as_ref()?)).max()
        };
        Memory {
            // If the kernel's peak cannot be reset, it is unknown, and the highest sample is used.
            peak: last
                .cgroup
                .and_then(|c| c.memory_peak_bytes)
                .or_else(|| highest(|c| c.memory_bytes)),
            anon: window.iter().filter_map(|sample| sample.anon_bytes()).max(),
            file: highest(|c| c.memory_file_bytes),
            kernel: highest(|c| c.memory_kernel_bytes),
            rss: window.iter().filter_map(|sample| sample.rss_bytes).max(),
            shmem: window.iter().filter_map(|sample| sample.shmem_bytes()).max(),
            held: held_bytes(window, last),
        }
    }
}

/// Computes the use of a server (the subject or a back end) in one trial. `allowed_cpus`: CPUs that
/// it could use at a time. The result is empty if the party was not watched, or if any of its
/// processes left its control group.
#[must_use]
pub fn server_use(record: &LoadRecord, party: Party, allowed_cpus: &AllowedCpus) -> ServerUse {
    let samples = party_samples(record, party);
    let is_complete = strays::stray_processes(record, party) == 0;
    let Some((first, last)) = edges(record, &samples).filter(|_| is_complete) else {
        return ServerUse::default();
    };
    let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
    // Samples lie slightly off the edges of the measured window, so the number of responses is
    // scaled to the observed window.
    let responses = responses_per_second(record) * seconds;
    let per_response = |amount: f64| (responses > 0.0).then(|| amount / responses);
    let window: Vec<_> = samples.iter().filter(|s| is_between(s, first, last)).collect();
    let PartyDeltas { mut threads, cpu_s, split, unread } =
        PartyDeltas::new(&window, Some(responses));
    threads.add_unattributed(cpu_s);
    for role in threads.roles.values_mut() {
        role.cpu_us_per_request = per_response(role.cpu_s * 1e6);
    }
    let (user_s, split) = Split::divide(cpu_s, &threads, split);
    let calls =
        first.calls.zip(last.calls).and_then(|(first, last)| CallRates::from_readings(first, last));
    let cpu_us = cpu_s.and_then(|s| per_response(s * 1e6));
    let split_us = split.zip(cpu_us).map(|(split, us)| split.parts(us));
    let allowed = allowed_cpus.count * seconds;
    let memory = Memory::from_samples(&window, last);
    // The CPU time of others is the rest of the machine's CPU time. It is unknown if the server's
    // CPU time is unknown.
    let others_s = cpu_s.and_then(|_| others_cpu_s(record, first, last));
    let on_its_cpus_s = others_on_cpus_s(record, &allowed_cpus.ids, (others_s, cpu_s, seconds));
    let probe_ns: u64 = window.iter().map(|s| s.took_ns).sum();
    ServerUse {
        window_s: seconds,
        cpu_user_s: user_s,
        cpu_sys_s: user_s.zip(cpu_s).map(|(user_s, cpu_s)| cpu_s - user_s),
        cpus: cpu_s.map(|s| s / seconds).filter(|cpus| cpus.is_finite()),
        cpu_us_per_request: cpu_us,
        cpu_allowed_s: Some(allowed),
        cpu_utilisation: cpu_s.map(|s| s / allowed),
        memory_mb_s_per_request: memory
            .held
            .and_then(|bytes| per_response(bytes as f64 / 1e6 * seconds)),
        threads: Some(last.threads.len()),
        busy_threads: threads.busy(BUSY_THREAD * seconds),
        processes: Some(last.processes),
        busiest_thread_utilisation: threads.busiest_s.map(|s| s / seconds),
        busiest_serving_utilisation: threads.busiest_serving_s.map(|s| s / seconds),
        sleepless_threads: threads.sleepless(SLEEPLESS_THREAD * seconds),
        others_cpu_s: others_s,
        others_on_its_cpus_s: on_its_cpus_s,
        unread_counters: unread,
        cpu_split_by: split_us.and(split).map(|split| split.by),
        per_request: per_request(&threads, split_us, calls.as_ref(), per_response),
        calls,
        runtime: subject_runtime(record, party),
        sockets: samples.iter().rev().find_map(|s| s.sockets).map(Sockets::new),
        probe_s: Some(probe_ns as f64 / 1e9),
        intervals: intervals(record, &samples),
        ..with_edge_counters(with_memory(with_thread_counters(threads), &memory), first, last)
    }
}

/// Adds the growth of counters that only the samples at the edges show.
fn with_edge_counters(
    server: ServerUse,
    first: &PartySample<'_>,
    last: &PartySample<'_>,
) -> ServerUse {
    ServerUse {
        throttled_s: cgroup_delta(first, last, |c| c.throttled_ns).map(|ns| ns as f64 / 1e9),
        throttling: Throttling::from_readings(first, last),
        network: first.network.zip(last.network).map(|(a, b)| TcpLosses::from_readings(a, b)),
        oom_kills: cgroup_delta(first, last, |c| c.oom_kills),
        memory_accessed_bytes: last.used.accessed_bytes,
        steal_share: steal_share(first, last),
        stolen_s: stolen_s(first, last),
        interrupt_s: interrupt_s(first, last),
        ..server
    }
}

/// Returns a server's use with its memory.
fn with_memory(used: ServerUse, memory: &Memory) -> ServerUse {
    ServerUse {
        memory_peak_bytes: memory.peak,
        memory_anon_bytes: memory.anon,
        memory_file_bytes: memory.file,
        memory_kernel_bytes: memory.kernel,
        rss_bytes: memory.rss,
        memory_shmem_bytes: memory.shmem,
        memory_held_bytes: memory.held,
        ..used
    }
}

/// Returns the metrics of the runtime of the subject; `None` for back ends.
fn subject_runtime(record: &LoadRecord, party: Party) -> Option<RuntimeMetrics> {
    (party == Party::SUBJECT).then(|| RuntimeMetrics::from_record(record).ok()).flatten()
}

/// Returns a server's use with the counters of its threads.
fn with_thread_counters(threads: ThreadDeltas) -> ServerUse {
    ServerUse {
        context_switches_voluntary: threads.voluntary,
        context_switches_involuntary: threads.involuntary,
        page_faults_minor: threads.faults_minor,
        page_faults_major: threads.faults_major,
        wakeups: threads.wakeups,
        migrations: threads.migrations,
        by_thread_role: threads.roles,
        serving: threads.serving,
        run_delay_s: threads.run_delay_s,
        ..ServerUse::default()
    }
}

fn per_request(
    threads: &ThreadDeltas,
    split_us: Option<(f64, f64)>,
    calls: Option<&CallRates>,
    per_response: impl Fn(f64) -> Option<f64>,
) -> PerRequest {
    let per_response_count = |n: Option<u64>| n.and_then(|n| per_response(n as f64));
    PerRequest {
        cpu_user_us: split_us.map(|(user, _)| user),
        cpu_sys_us: split_us.map(|(_, sys)| sys),
        context_switches: per_response_count(threads.switches()),
        syscalls: calls.map(CallRates::per_response_by_name),
        run_delay_us: threads.run_delay_s.and_then(|s| per_response(s * 1e6)),
        page_faults: per_response_count(threads.faults()),
        wakeups: per_response_count(threads.wakeups),
    }
}

/// CPU time split into user and system time.
#[derive(Clone, Copy)]
struct Split {
    /// 0 to 1.
    user_share: f64,
    by: SplitBy,
}

impl Split {
    /// Returns the user time, in seconds, and the split. The user time is `None` if the split is
    /// unknown. It is 0, without a split, if the kernel's tick sampled neither user nor system
    /// time.
    fn divide(
        cpu_s: Option<f64>,
        threads: &ThreadDeltas,
        kernel: Option<(f64, f64)>,
    ) -> (Option<f64>, Option<Split>) {
        let split = Split::new(threads, kernel);
        let is_known = threads.modes.is_some() || kernel.is_some();
        let user_share = split.map_or(0.0, |split| split.user_share);
        (cpu_s.filter(|_| is_known).map(|cpu_s| cpu_s * user_share), split)
    }

    /// Returns the split by entries into the kernel if these were observed, otherwise the kernel's
    /// own split. `None`: the split is unknown, or both times are 0.
    fn new(threads: &ThreadDeltas, kernel: Option<(f64, f64)>) -> Option<Split> {
        let by_entries = threads.modes.map(|modes| (modes.user_ns as f64, modes.sys_ns as f64));
        let by = if by_entries.is_some() { SplitBy::Entries } else { SplitBy::Kernel };
        let (user, sys) = by_entries.or(kernel)?;
        (user + sys > 0.0).then(|| Split { user_share: user / (user + sys), by })
    }

    /// Splits an amount of CPU time into user and system time.
    fn parts(self, cpu: f64) -> (f64, f64) {
        (cpu * self.user_share, cpu * (1.0 - self.user_share))
    }
}

impl ServerUse {
    /// Returns the share of the allowed CPU time that the hypervisor may have taken from the
    /// server: all that it took from the machine. `None`: unknown.
    pub(crate) fn stolen_share(&self) -> Option<f64> {
        Some(self.stolen_s? / self.cpu_allowed_s.filter(|allowed_s| *allowed_s > 0.0)?)
    }

    /// Returns the CPUs that the server used between the two samples around the middle of a
    /// stretch. `None`: unknown, or 0.
    pub(crate) fn cpus_at_middle(&self, stretch_s: (f64, f64)) -> Option<f64> {
        self.interval_at_middle(stretch_s)?.cpu.filter(|cpu| *cpu > 0.0)
    }

    /// Returns the interval between the two samples around the middle of a stretch.
    pub(crate) fn interval_at_middle(&self, stretch_s: (f64, f64)) -> Option<&ServerInterval> {
        let middle = f64::midpoint(stretch_s.0, stretch_s.1);
        self.intervals.iter().find(|i| i.start_s <= middle && middle < i.end_s)
    }

    /// Returns the share of the server's CPU time that threads of a role used: 0 to 1. `None`: no
    /// such threads, or CPU time is 0 or unknown.
    #[must_use]
    pub fn role_share(&self, role: &str) -> Option<f64> {
        let role_s = self.by_thread_role.get(role)?.cpu_s;
        let cpu_s = self.cpu_s()?;
        (cpu_s > 0.0).then(|| role_s / cpu_s)
    }
}

/// Use of a party between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UseBetweenSamples {
    pub seconds: f64,
    /// `None`: unknown.
    pub cpu_s: Option<f64>,
    /// Part of `cpu_s` that compiler threads used; `None`: threads could not be read.
    pub jit_s: Option<f64>,
}

impl UseBetweenSamples {
    #[must_use]
    pub fn from_samples(party: Party, first: &Sample, last: &Sample) -> Option<UseBetweenSamples> {
        let (first, last) = (&PartySample::new(first, party)?, &PartySample::new(last, party)?);
        let PartyDeltas { threads, cpu_s, .. } = PartyDeltas::new(&[first, last], None);
        let jit_s = threads.roles.get("jit").map_or(0.0, |role| role.cpu_s);
        Some(UseBetweenSamples {
            seconds: last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9,
            cpu_s,
            jit_s: (!last.threads.is_empty()).then_some(jit_s),
        })
    }
}

fn intervals(record: &LoadRecord, samples: &[PartySample<'_>]) -> Vec<ServerInterval> {
    samples.windows(2).map(|pair| interval(record, &pair[0], &pair[1])).collect()
}

fn interval(
    record: &LoadRecord,
    first: &PartySample<'_>,
    last: &PartySample<'_>,
) -> ServerInterval {
    let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
    let PartyDeltas { threads, cpu_s, .. } = PartyDeltas::new(&[first, last], None);
    let since_begin = |s: &PartySample<'_>| s.at_ns.saturating_sub(record.began_ns) as f64 / 1e9;
    let memory = |pick: fn(&CgroupUse) -> Option<u64>| last.cgroup.and_then(pick);
    ServerInterval {
        start_s: since_begin(first),
        end_s: since_begin(last),
        cpu: cpu_s.map(|s| s / seconds),
        cpu_user: split_between(first, last).map(|(user, _)| user / 1e9 / seconds),
        cpu_sys: split_between(first, last).map(|(_, sys)| sys / 1e9 / seconds),
        cpu_jit: threads.roles.get("jit").map(|role| role.cpu_s / seconds),
        generator_cpu: (!last.generator.is_empty())
            .then(|| run_time_s(first.generator, last.generator) / seconds),
        others_cpu: others_cpu_s(record, first, last).map(|s| s / seconds),
        run_delay_s: threads.run_delay_s,
        throttled_s: cgroup_delta(first, last, |c| c.throttled_ns).map(|ns| ns as f64 / 1e9),
        memory_anon_bytes: last
            .anon_bytes()
            .or(last.used.rss_anon_bytes)
            .or(last.single_rss_bytes()),
        memory_file_bytes: memory(|c| c.memory_file_bytes),
        memory_bytes: memory(|c| c.memory_bytes),
        context_switches_per_s: threads.switches().map(|n| n as f64 / seconds),
        threads: last.threads.len(),
    }
}
