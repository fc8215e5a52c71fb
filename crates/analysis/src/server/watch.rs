//! A server that somebody else loads: what it did between two looks.

use std::collections::BTreeMap;

use dyno_archive::Sample;
use dyno_archive::sample::{CallUse, CallsUse, CgroupUse, NetworkUse, Party};
use dyno_archive::syscall::{Amount, amount};
use schemars::JsonSchema;
use serde::Serialize;

use super::threads::RoleUse;
use super::{Network, Seen, Sockets, cgroup_delta, cpu_s_of_all, split_between, steal_share};

pub const SCHEMA: &str = "dyno.watch/1";

/// What a server did in a stretch of time. Nobody counts its answers, so everything is per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Watched {
    pub schema: &'static str,
    /// Since it is watched, in seconds.
    pub start_s: f64,
    pub end_s: f64,
    /// CPU time ÷ time: in CPUs. `None`: not known, as are all below.
    pub cpus: Option<f64>,
    pub cpus_user: Option<f64>,
    pub cpus_sys: Option<f64>,
    /// Share of one CPU that its busiest thread used.
    pub busiest_thread_utilisation: Option<f64>,
    /// Time that threads were runnable but waited for a CPU, summed over threads, per second.
    pub run_delay_s_per_s: Option<f64>,
    /// Share of the periods of its CPU quota in which it was held back: 0 to 1. `None`: it has no quota of its own.
    pub throttled_share: Option<f64>,
    /// At the end: what it holds itself (anonymous memory; resident memory where there is no control group), and page cache.
    pub memory_held_bytes: Option<u64>,
    pub memory_file_bytes: Option<u64>,
    pub processes: u32,
    pub threads: usize,
    pub context_switches_per_s: Option<f64>,
    pub page_faults_per_s: Option<f64>,
    pub wakeups_per_s: Option<f64>,
    /// By role; seconds are of this stretch.
    pub by_thread_role: BTreeMap<&'static str, RoleUse>,
    /// `None`: they were not counted.
    pub syscalls: Option<Syscalls>,
    /// Its TCP sockets at the end; `None`: nobody looked, or it has none.
    pub sockets: Option<Sockets>,
    /// Of the network that it is in, which it may share with others.
    pub network: Option<Network>,
    /// Share of the machine's CPU time that the hypervisor took.
    pub steal_share: Option<f64>,
}

/// System calls per second, of the time in which they were counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Syscalls {
    /// Time in which they were counted: all of it, or slices.
    pub counted_s: f64,
    pub per_s: f64,
    pub by_name_per_s: BTreeMap<String, f64>,
    pub bytes_read_per_s: f64,
    pub bytes_written_per_s: f64,
}

impl Syscalls {
    fn between(first: &CallsUse, last: &CallsUse) -> Option<Syscalls> {
        let counted_s = last.counted_ns.saturating_sub(first.counted_ns) as f64 / 1e9;
        if counted_s <= 0.0 {
            return None;
        }
        let made = CallUse::all_since(&last.by_name, &first.by_name);
        let per_s = |n: u64| n as f64 / counted_s;
        let bytes = |wanted: Amount| {
            let of = made.iter().filter(|(name, _)| amount(name) == Some(wanted));
            per_s(of.map(|(_, call)| call.returned).sum())
        };
        Some(Syscalls {
            counted_s,
            per_s: per_s(made.values().map(|call| call.count).sum()),
            by_name_per_s: made.iter().map(|(name, call)| (name.clone(), per_s(call.count))).collect(),
            bytes_read_per_s: bytes(Amount::Read),
            bytes_written_per_s: bytes(Amount::Written),
        })
    }
}

/// What the subject of two samples did between them. `began_ns`: when the first look was. `None`: it is in neither, or they are of one
/// instant.
#[must_use]
pub fn watched(began_ns: u64, first: &Sample, last: &Sample) -> Option<Watched> {
    let (first, last) = (&Seen::new(first, Party::SUBJECT)?, &Seen::new(last, Party::SUBJECT)?);
    let seconds = last.at_ns.checked_sub(first.at_ns).filter(|ns| *ns > 0)? as f64 / 1e9;
    let mut threads = first.threads_until(last);
    let cpu_s = cpu_s_of_all(&threads, first, last);
    threads.attribute(cpu_s);
    let of_threads = || Some((threads.user_s, threads.sys_s)).filter(|(user, sys)| user + sys > 0.0);
    let split = split_between(first, last).filter(|(user, sys)| user + sys > 0.0).or_else(of_threads);
    let part = |of: fn((f64, f64)) -> f64| Some(cpu_s? * split.map(of)? / seconds);
    let per_s = |n: Option<u64>| n.map(|n| n as f64 / seconds);
    let memory = |pick: fn(&CgroupUse) -> Option<u64>| last.cgroup.and_then(pick);
    let periods = cgroup_delta(first, last, |c| c.periods).filter(|n| *n > 0);
    let throttled = cgroup_delta(first, last, |c| c.throttled_periods);
    let since = |start_ns: u64| start_ns.saturating_sub(began_ns) as f64 / 1e9;
    let network = |pair: (&NetworkUse, &NetworkUse)| Network::between(pair.0, pair.1);
    Some(Watched {
        schema: SCHEMA,
        start_s: since(first.at_ns),
        end_s: since(last.at_ns),
        cpus: cpu_s.map(|s| s / seconds),
        cpus_user: part(|(user, sys)| user / (user + sys)),
        cpus_sys: part(|(user, sys)| sys / (user + sys)),
        busiest_thread_utilisation: threads.busiest_s.map(|s| s / seconds),
        run_delay_s_per_s: threads.run_delay_s.map(|s| s / seconds),
        throttled_share: periods.zip(throttled).map(|(all, held)| held as f64 / all as f64),
        memory_held_bytes: memory(|c| c.memory_anon_bytes).or(last.rss_bytes),
        memory_file_bytes: memory(|c| c.memory_file_bytes),
        processes: last.processes,
        threads: last.threads.len(),
        context_switches_per_s: per_s(threads.switches()),
        page_faults_per_s: per_s(threads.faults()),
        wakeups_per_s: per_s(threads.wakeups),
        syscalls: first.calls.zip(last.calls).and_then(|(first, last)| Syscalls::between(first, last)),
        sockets: last.sockets.map(Sockets::new),
        network: first.network.zip(last.network).map(network),
        steal_share: steal_share(first, last),
        by_thread_role: threads.roles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::observed;

    #[test]
    fn what_a_server_did_is_told_per_second() {
        let mut record = observed(&[(500, 0)]);
        let call = |count, returned| CallUse { count, returned, ..CallUse::default() };
        let (first, rest) = record.samples.split_first_mut().unwrap();
        let last = rest.last_mut().unwrap();
        let calls = |counted_ns, n| CallsUse {
            counted_ns,
            slices: 1,
            answers: None,
            by_name: [("read".into(), call(n, 10 * n)), ("futex_wait".into(), call(n / 2, 0))].into(),
        };
        first.of_mut(Party::SUBJECT).calls = Some(calls(1_000_000_000, 100));
        last.of_mut(Party::SUBJECT).calls = Some(calls(1_500_000_000, 300));
        let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
        let (first, last) = (first.clone(), last.clone());
        let seen = watched(first.at_ns, &first, &last).unwrap();
        assert_eq!((seen.start_s, seen.end_s), (0.0, seconds));
        assert_eq!(seen.cpus, Some(0.5));
        let syscalls = seen.syscalls.unwrap();
        assert_eq!((syscalls.counted_s, syscalls.per_s, syscalls.bytes_read_per_s), (0.5, 600.0, 4000.0));
        assert_eq!(syscalls.by_name_per_s["futex_wait"], 200.0);
        assert!(watched(0, &first, &first).is_none(), "one instant");
        let mut gone = last.clone();
        gone.parties.clear();
        assert!(watched(0, &first, &gone).is_none());
    }
}
