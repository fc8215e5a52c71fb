//! Computes the resources that a server used between two readings, for `dyno watch`. Another
//! program loads this server.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::Sample;
use dyno_model::sample::{CallUse, CallsUse, CgroupUse, NetworkUse, Party, SliceRates};
use dyno_model::syscall::{Amount, hides_bytes, returned_amount};
use schemars::JsonSchema;
use serde::Serialize;

use super::threads::RoleUse;
use super::{PartyDeltas, PartySample, Sockets, TcpLosses, cgroup_delta, steal_share};

/// Format of the records of `dyno watch`.
pub const SCHEMA: &str = "dyno.watch/1";

/// A server's use of resources over a stretch of time. Its responses are not counted, so every
/// value is per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Watched")]
pub struct WatchRecord {
    pub schema: &'static str,
    /// Time since the watch began, in seconds.
    pub start_s: f64,
    pub end_s: f64,
    /// CPU time ÷ time: in CPUs. `None`: unknown, as for all fields below. The source of the CPU
    /// time of threads and processes that ended is the first of these that exists:
    ///
    /// - the control group
    /// - the probes
    /// - the totals of processes: they include ended threads, and the ended processes for which
    ///   another process of the server waited
    pub cpus: Option<f64>,
    /// `None` also if a thread or process ended before its user and system time were read. In this
    /// case, only their sum is known (`cpus`).
    pub cpus_user: Option<f64>,
    pub cpus_sys: Option<f64>,
    /// CPU seconds as (user time, system time). Both are 0 if the server used too little CPU time
    /// for a split. `None`: a part of the CPU time could not be split.
    #[serde(skip)]
    #[schemars(skip)]
    pub split_s: Option<(f64, f64)>,
    /// Share of one CPU that the busiest thread used. For several stretches of time together, it is
    /// the mean of the values of the stretches.
    pub busiest_thread_utilisation: Option<f64>,
    /// Time that threads were runnable but waited for a CPU, summed over threads, per second.
    pub run_delay_s_per_s: Option<f64>,
    /// Share of the periods of the server's CPU quota in which the server was throttled: 0 to 1.
    /// `None`: the server has no separate quota, its group is not monitored, or it was idle in all
    /// periods.
    pub throttled_share: Option<f64>,
    /// Periods of the quota in which the server was active: the divisor of `throttled_share`.
    #[serde(skip)]
    #[schemars(skip)]
    pub quota_periods: Option<QuotaPeriods>,
    /// At the end: memory of the server itself (anonymous and shared memory, or resident memory),
    /// and page cache.
    pub memory_held_bytes: Option<u64>,
    pub memory_file_bytes: Option<u64>,
    pub processes: u32,
    pub threads: usize,
    pub context_switches_per_s: Option<f64>,
    pub page_faults_per_s: Option<f64>,
    pub wakeups_per_s: Option<f64>,
    /// Use by thread role. Seconds cover this stretch of time.
    pub by_thread_role: BTreeMap<&'static str, RoleUse>,
    /// `None`: calls were not counted, or a process joined that descends from no known process, so
    /// that its first calls were not counted.
    pub syscalls: Option<Syscalls>,
    /// TCP sockets at the end; `None`: not read, or there are none.
    pub sockets: Option<Sockets>,
    /// Counters of the server's network namespace, which may be shared with others.
    pub network: Option<TcpLosses>,
    /// Share of the machine's CPU time that the hypervisor took.
    pub steal_share: Option<f64>,
}

/// Periods of a CPU quota in which its group was active. An idle group has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaPeriods {
    pub active: u64,
    pub throttled: u64,
}

impl QuotaPeriods {
    /// Returns the share of periods in which the group was throttled. `None`: the group was not
    /// active.
    fn throttled_share(self) -> Option<f64> {
        (self.active > 0).then(|| self.throttled as f64 / self.active as f64)
    }

    /// Adds the periods of the next stretch of time.
    const fn merge(self, next: QuotaPeriods) -> QuotaPeriods {
        QuotaPeriods {
            active: self.active + next.active,
            throttled: self.throttled + next.throttled,
        }
    }
}

/// System calls per second. If there are many, they are counted only in slices of the time. The
/// rate in a slice is assumed for all of the time since the previous slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Syscalls {
    /// Time for which calls were counted or estimated.
    pub counted_s: f64,
    pub per_s: f64,
    /// Standard error of `per_s`, because calls between slices are estimated; 0: all calls were
    /// counted. `None`: a single slice, or slices with the same rates, do not show the error.
    pub per_s_standard_error: Option<f64>,
    /// Sums over the slices, for the error of several stretches of time together.
    #[serde(skip)]
    #[schemars(skip)]
    pub slice_rates: SliceRates,
    /// Whether `per_s` is a lower bound, because counting slows the program. Two conditions hold:
    ///
    /// - Counting takes at least 5 % of a CPU.
    /// - Twice the standard error is at most the share of a CPU that counting takes, and at most
    ///   20 % of `per_s`.
    ///
    /// Rates of single calls and of bytes are lower bounds only if the standard error is also 0.
    pub is_lower_bound: bool,
    pub by_name_per_s: BTreeMap<String, f64>,
    /// `None`: return values were not observed, or a call that was made does not return the bytes
    /// (`recvmmsg`, `io_uring_enter`, `splice`).
    pub bytes_read_per_s: Option<f64>,
    /// The same for bytes written (`sendmmsg`, `io_uring_enter`, `splice`).
    pub bytes_written_per_s: Option<f64>,
}

/// Cost of counting a call, in seconds, as measured with h2o (docs/methodology/inside-a-server.md,
/// *System calls*).
const COUNTING_COST_S: f64 = 300e-9;

/// Rates are lower bounds if counting uses at least this share of a CPU.
const MIN_SHARE: f64 = 0.05;

/// A rate is rough if its standard error is above this share of the rate.
const MAX_ERROR: f64 = 0.1;

/// Whether counting the calls slows the program, so that the rate is a lower bound.
fn is_lower_bound(per_s: f64, standard_error: Option<f64>) -> bool {
    let cost = per_s * COUNTING_COST_S;
    let max_error = (cost / 2.0).min(MAX_ERROR);
    cost >= MIN_SHARE && standard_error.is_some_and(|error| error <= max_error * per_s)
}

impl Syscalls {
    /// Returns the standard error of the rate as a share of the rate. `None`: the slices do not
    /// show it.
    #[must_use]
    pub fn error_share(&self) -> Option<f64> {
        let error = self.per_s_standard_error?;
        Some(if error == 0.0 { 0.0 } else { error / self.per_s })
    }

    /// Whether the standard error of the rate is unknown, or more than 10 % of it.
    #[must_use]
    pub fn is_rough(&self) -> bool {
        self.error_share().is_none_or(|share| share > MAX_ERROR)
    }

    /// Combines the calls with the calls of the next stretch of time.
    fn merge(self, next: &Syscalls) -> Syscalls {
        let counted_s = self.counted_s + next.counted_s;
        let mean = |a: f64, b: f64| (a * self.counted_s + b * next.counted_s) / counted_s;
        let both = |a: Option<f64>, b: Option<f64>| Some(mean(a?, b?));
        let count =
            |calls: &Syscalls, name: &String| calls.by_name_per_s.get(name).copied().unwrap_or(0.0);
        let names: BTreeSet<&String> =
            self.by_name_per_s.keys().chain(next.by_name_per_s.keys()).collect();
        let by_name = names
            .into_iter()
            .map(|name| (name.clone(), mean(count(&self, name), count(next, name))));
        let slice_rates = self.slice_rates.merge(&next.slice_rates);
        let per_s_standard_error = slice_rates.standard_error().map(|calls| calls / counted_s);
        let per_s = mean(self.per_s, next.per_s);
        Syscalls {
            counted_s,
            per_s,
            per_s_standard_error,
            slice_rates,
            is_lower_bound: is_lower_bound(per_s, per_s_standard_error)
                || self.is_lower_bound && next.is_lower_bound,
            by_name_per_s: by_name.collect(),
            bytes_read_per_s: both(self.bytes_read_per_s, next.bytes_read_per_s),
            bytes_written_per_s: both(self.bytes_written_per_s, next.bytes_written_per_s),
        }
    }

    fn from_readings(first: &CallsUse, last: &CallsUse) -> Option<Syscalls> {
        let counted_s = last.counted_ns.checked_sub(first.counted_ns)? as f64 / 1e9;
        if counted_s <= 0.0 {
            return None;
        }
        let calls = CallUse::all_since(&last.by_name, &first.by_name);
        let per_s = |n: u64| n as f64 / counted_s;
        let bytes = |kind: Amount| {
            if calls.keys().any(|name| hides_bytes(name, kind)) {
                return None;
            }
            let matching = calls.iter().filter(|(name, _)| returned_amount(name) == Some(kind));
            matching.map(|(_, call)| call.returned).sum::<Option<u64>>().map(per_s)
        };
        let all_per_s = per_s(calls.values().map(|call| call.count).sum());
        let slice_rates = last.slice_rates.since(&first.slice_rates);
        let per_s_standard_error = slice_rates.standard_error().map(|calls| calls / counted_s);
        Some(Syscalls {
            counted_s,
            per_s: all_per_s,
            per_s_standard_error,
            slice_rates,
            is_lower_bound: is_lower_bound(all_per_s, per_s_standard_error),
            by_name_per_s: calls
                .iter()
                .map(|(name, call)| (name.clone(), per_s(call.count)))
                .collect(),
            bytes_read_per_s: bytes(Amount::Read),
            bytes_written_per_s: bytes(Amount::Written),
        })
    }
}

impl WatchRecord {
    /// Returns the use in this stretch of time and the next one together. It includes every event
    /// of both, unlike the difference between the first and the last reading.
    #[must_use]
    pub fn merge(self, next: &WatchRecord) -> WatchRecord {
        let (earlier_s, later_s) = (self.end_s - self.start_s, next.end_s - next.start_s);
        // A value that is unknown for one stretch is unknown for both together.
        let mean = |a: Option<f64>, b: Option<f64>| {
            Some((a? * earlier_s + b? * later_s) / (earlier_s + later_s))
        };
        let quota_periods =
            self.quota_periods.zip(next.quota_periods).map(|(earlier, later)| earlier.merge(later));
        let cpus = mean(self.cpus, next.cpus);
        // A stretch with too little CPU time for a split adds 0 to both sums. Its CPU time is then
        // split in the ratio of the other stretch.
        let split_s = self
            .split_s
            .zip(next.split_s)
            .map(|((user, sys), (next_user, next_sys))| (user + next_user, sys + next_sys));
        let (cpus_user, cpus_sys) = split_cpus(cpus, split_s).unzip();
        let mut by_thread_role = merge_roles(self.by_thread_role, &next.by_thread_role);
        if cpus.is_none() {
            // The CPU time of the roles would be that of the known stretches only.
            by_thread_role.clear();
        }
        WatchRecord {
            schema: SCHEMA,
            start_s: self.start_s,
            end_s: next.end_s,
            cpus,
            cpus_user,
            cpus_sys,
            split_s,
            busiest_thread_utilisation: mean(
                self.busiest_thread_utilisation,
                next.busiest_thread_utilisation,
            ),
            run_delay_s_per_s: mean(self.run_delay_s_per_s, next.run_delay_s_per_s),
            throttled_share: quota_periods.and_then(QuotaPeriods::throttled_share),
            quota_periods,
            context_switches_per_s: mean(self.context_switches_per_s, next.context_switches_per_s),
            page_faults_per_s: mean(self.page_faults_per_s, next.page_faults_per_s),
            wakeups_per_s: mean(self.wakeups_per_s, next.wakeups_per_s),
            steal_share: mean(self.steal_share, next.steal_share),
            syscalls: match (self.syscalls, &next.syscalls) {
                (Some(earlier), Some(later)) => Some(earlier.merge(later)),
                (earlier, later) => earlier.or_else(|| later.clone()),
            },
            network: self.network.zip(next.network).map(|(earlier, later)| earlier.merge(later)),
            by_thread_role,
            // Values at the end.
            memory_held_bytes: next.memory_held_bytes,
            memory_file_bytes: next.memory_file_bytes,
            processes: next.processes,
            threads: next.threads,
            sockets: next.sockets.clone(),
        }
    }
}

/// Adds the use of each role in the next stretch. A role that is absent there has no threads.
fn merge_roles(
    mut sums: BTreeMap<&'static str, RoleUse>,
    next: &BTreeMap<&'static str, RoleUse>,
) -> BTreeMap<&'static str, RoleUse> {
    for (role, used) in &mut sums {
        match next.get(role) {
            Some(next) => used.add(next),
            None => used.threads = 0,
        }
    }
    for (role, used) in next {
        sums.entry(role).or_insert_with(|| used.clone());
    }
    sums
}

/// Splits CPU time in the ratio of user to system time. `None`: unknown, or both are 0.
fn split_cpus(cpus: Option<f64>, split: Option<(f64, f64)>) -> Option<(f64, f64)> {
    let (user, sys) = split.filter(|(user, sys)| user + sys > 0.0)?;
    let cpus = cpus?;
    Some((cpus * user / (user + sys), cpus * sys / (user + sys)))
}

/// Removes the control group from a sample if the group does not count CPU time. A group that
/// another program created may lack this counter (cgroup v1 without `cpuacct`). Without the group,
/// CPU time is taken from threads and processes.
fn with_cpu_source(sample: PartySample<'_>) -> PartySample<'_> {
    let cgroup = sample.cgroup.filter(|cgroup| cgroup.cpu_ns.is_some());
    PartySample { cgroup, ..sample }
}

/// Returns the use of the subject between two samples. `began_ns`: instant of the first reading.
/// `None`: a sample lacks the subject, or both have the same instant.
#[must_use]
pub fn watch_record(began_ns: u64, first: &Sample, last: &Sample) -> Option<WatchRecord> {
    let (first, last) =
        (&PartySample::new(first, Party::SUBJECT)?, &PartySample::new(last, Party::SUBJECT)?);
    let seconds = last.at_ns.checked_sub(first.at_ns).filter(|ns| *ns > 0)? as f64 / 1e9;
    let PartyDeltas { mut threads, cpu_s, split, .. } =
        PartyDeltas::new(&[&with_cpu_source(*first), &with_cpu_source(*last)], None);
    threads.add_unattributed(cpu_s);
    // The probes observe a process that joined only from its first sample on.
    let is_observed_from_start = !last.used.has_joined;
    if !is_observed_from_start {
        threads.roles.values_mut().for_each(|role| (role.wakeups, role.states_s) = (None, None));
    }
    // The split is in seconds, so that stretches can be added.
    let split_s = cpu_s
        .zip(split)
        .map(|(cpu_s, split)| split_cpus(Some(cpu_s), Some(split)).unwrap_or((0.0, 0.0)));
    let (cpus_user, cpus_sys) = split_cpus(cpu_s.map(|s| s / seconds), split_s).unzip();
    let per_s = |n: Option<u64>| n.map(|n| n as f64 / seconds);
    let memory = |pick: fn(&CgroupUse) -> Option<u64>| last.memory_group().and_then(pick);
    let active = cgroup_delta(first, last, |c| c.periods);
    let throttled = cgroup_delta(first, last, |c| c.throttled_periods);
    let quota_periods =
        active.zip(throttled).map(|(active, throttled)| QuotaPeriods { active, throttled });
    let since = |start_ns: u64| start_ns.saturating_sub(began_ns) as f64 / 1e9;
    let network = |pair: (&NetworkUse, &NetworkUse)| TcpLosses::from_readings(pair.0, pair.1);
    Some(WatchRecord {
        schema: SCHEMA,
        start_s: since(first.at_ns),
        end_s: since(last.at_ns),
        cpus: cpu_s.map(|s| s / seconds),
        cpus_user,
        cpus_sys,
        split_s,
        busiest_thread_utilisation: threads.busiest_s.map(|s| s / seconds),
        run_delay_s_per_s: threads.run_delay_s.map(|s| s / seconds),
        throttled_share: quota_periods.and_then(QuotaPeriods::throttled_share),
        quota_periods,
        memory_held_bytes: last.held_bytes(),
        memory_file_bytes: memory(|c| c.memory_file_bytes),
        processes: last.processes,
        threads: last.threads.len(),
        context_switches_per_s: per_s(threads.switches()),
        page_faults_per_s: per_s(threads.faults()),
        wakeups_per_s: per_s(threads.wakeups.filter(|_| is_observed_from_start)),
        syscalls: first
            .calls
            .zip(last.calls)
            .filter(|_| is_observed_from_start)
            .and_then(|(first, last)| Syscalls::from_readings(first, last)),
        sockets: last.sockets.map(Sockets::new),
        network: first.network.zip(last.network).map(network),
        steal_share: steal_share(first, last),
        by_thread_role: threads.roles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::record_with_threads;

    #[test]
    fn combined_record_includes_events_of_both() {
        let role =
            |cpu_s, threads| RoleUse { cpu_s, threads, ended: Some(1), ..RoleUse::default() };
        let calls = |counted_s, per_s: f64, name: &str| Syscalls {
            counted_s,
            per_s,
            by_name_per_s: [(name.to_string(), per_s)].into(),
            ..Syscalls::default()
        };
        let first_record = WatchRecord {
            end_s: 1.0,
            cpus: Some(1.0),
            cpus_user: Some(0.75),
            cpus_sys: Some(0.25),
            split_s: Some((0.75, 0.25)),
            steal_share: Some(0.1),
            threads: 9,
            by_thread_role: [("work", role(1.0, 9)), ("gc", role(0.5, 1))].into(),
            syscalls: Some(calls(1.0, 100.0, "read")),
            network: Some(TcpLosses { segments_out: Some(3), ..TcpLosses::default() }),
            ..WatchRecord::default()
        };
        let next = WatchRecord {
            start_s: 1.0,
            end_s: 4.0,
            cpus: Some(0.2),
            split_s: Some((0.0, 0.0)),
            steal_share: None,
            threads: 2,
            by_thread_role: [("work", role(0.6, 2))].into(),
            syscalls: Some(calls(3.0, 20.0, "write")),
            network: Some(TcpLosses { segments_out: Some(4), ..TcpLosses::default() }),
            ..WatchRecord::default()
        };
        let combined = first_record.clone().merge(&next);
        assert_eq!((combined.start_s, combined.end_s, combined.threads), (0.0, 4.0, 2));
        assert!((combined.cpus.unwrap() - 0.4).abs() < 1e-9);
        assert!(
            (combined.cpus_user.unwrap() - 0.3).abs() < 1e-9
                && (combined.cpus_sys.unwrap() - 0.1).abs() < 1e-9
        );
        assert_eq!(combined.steal_share, None, "one stretch has no steal share");
        let incomplete = first_record.merge(&WatchRecord { split_s: None, ..next.clone() });
        assert!((incomplete.cpus.unwrap() - 0.4).abs() < 1e-9);
        assert_eq!((incomplete.cpus_user, incomplete.cpus_sys), (None, None));
        let (work, gc) = (&combined.by_thread_role["work"], &combined.by_thread_role["gc"]);
        assert_eq!((work.cpu_s, work.threads, work.ended), (1.6, 2, Some(2)));
        assert_eq!((gc.cpu_s, gc.threads), (0.5, 0));
        let calls = combined.syscalls.unwrap();
        assert_eq!((calls.counted_s, calls.per_s, calls.by_name_per_s["read"]), (4.0, 40.0, 25.0));
        assert_eq!(combined.network.unwrap().segments_out, Some(7));
    }

    /// A supervisor replaced the control group and the network namespace by new ones.
    #[test]
    fn decreasing_counters_are_unknown() {
        let at = |at_ns, cpu_s: u64, periods, segments_out| {
            let mut sample = record_with_threads(&[(500, 0)]).samples.remove(0);
            sample.at_ns = at_ns;
            let used = sample.party_use_mut(Party::SUBJECT);
            used.cgroup = Some(CgroupUse {
                cpu_ns: Some(cpu_s * 1_000_000_000),
                cpu_user_ns: Some(cpu_s * 1_000_000_000),
                cpu_sys_ns: Some(0),
                periods: Some(periods),
                throttled_periods: Some(periods),
                ..CgroupUse::default()
            });
            let segments_out = Some(segments_out);
            used.network = Some(NetworkUse { segments_out, ..NetworkUse::default() });
            sample
        };
        let first = at(0, 500, 70, 900);
        let last = at(1_000_000_000, 3, 4, 5);
        let record = watch_record(0, &first, &last).unwrap();
        assert_eq!((record.cpus, record.cpus_user, record.split_s), (None, None, None));
        assert_eq!((record.quota_periods, record.throttled_share), (None, None));
        assert_eq!((record.context_switches_per_s, record.run_delay_s_per_s), (None, None));
        assert!(record.by_thread_role.is_empty(), "{record:?}");
        assert_eq!(record.network.unwrap().segments_out, None);
        let grown = at(2_000_000_000, 4, 5, 6);
        let next = watch_record(0, &last, &grown).unwrap();
        assert_eq!((next.cpus, next.throttled_share), (Some(1.0), Some(1.0)));
        let merged = record.merge(&next);
        assert_eq!((merged.cpus, merged.throttled_share), (None, None));
        assert_eq!(merged.network.unwrap().segments_out, None);
    }

    #[test]
    fn throttled_share_counts_periods_not_seconds() {
        let record = |start_s, active, throttled| WatchRecord {
            start_s,
            end_s: start_s + 1.0,
            quota_periods: Some(QuotaPeriods { active, throttled }),
            ..WatchRecord::default()
        };
        let idle_at_end = record(0.0, 10, 0).merge(&record(1.0, 1, 1)).merge(&record(2.0, 0, 0));
        assert_eq!(idle_at_end.throttled_share, Some(1.0 / 11.0));
        let idle = record(0.0, 0, 0).merge(&record(1.0, 0, 0));
        assert_eq!(idle.throttled_share, None);
        assert_eq!(idle.merge(&record(2.0, 2, 1)).throttled_share, Some(0.5));
        let unknown = WatchRecord { end_s: 4.0, ..WatchRecord::default() };
        assert_eq!(record(0.0, 2, 1).merge(&unknown).throttled_share, None);
    }

    /// At 300 ns per call, 5 % of a CPU are 166,667 calls per second.
    #[test]
    fn high_call_rates_are_lower_bounds() {
        let syscalls_of = |count| {
            let calls = |counted_ns, count| CallsUse {
                counted_ns,
                by_name: [("read".into(), CallUse { count, ..CallUse::default() })].into(),
                ..CallsUse::default()
            };
            Syscalls::from_readings(&calls(0, 0), &calls(1_000_000_000, count)).unwrap()
        };
        assert_eq!([166_000, 167_000].map(|n| syscalls_of(n).is_lower_bound), [false, true]);
        assert!(syscalls_of(10).merge(&syscalls_of(1_000_000)).is_lower_bound);
        assert!(!syscalls_of(10).merge(&syscalls_of(100_000)).is_lower_bound);
    }

    /// A program makes 400,000 calls per second, evenly or in bursts. Four slices of 10 ms are
    /// counted in a second.
    #[test]
    fn rates_of_bursts_are_rough_and_not_bounds() {
        let syscalls_of = |rates: [u64; 4]| {
            let mut last = CallsUse {
                counted_ns: 1_000_000_000,
                by_name: [("read".into(), CallUse { count: 400_000, ..CallUse::default() })].into(),
                ..CallsUse::default()
            };
            rates.into_iter().for_each(|rate| last.slice_rates.add(rate, 240_000_000));
            Syscalls::from_readings(&CallsUse::default(), &last).unwrap()
        };
        let even = syscalls_of([390_000, 400_000, 410_000, 400_000]);
        assert!(even.is_lower_bound && !even.is_rough(), "{even:?}");
        let bursts = syscalls_of([0, 0, 1_600_000, 0]);
        // Four estimates with a standard deviation of 800,000 per second, of 0.24 s each.
        assert!((bursts.per_s_standard_error.unwrap() - 384_000.0).abs() < 1.0, "{bursts:?}");
        assert!(bursts.is_rough() && !bursts.is_lower_bound, "{bursts:?}");
        let both = bursts.clone().merge(&even);
        assert!((both.per_s_standard_error.unwrap() - 192_005.6).abs() < 1.0, "{both:?}");
        assert!(both.is_rough() && !both.is_lower_bound);
        // A stretch with one slice does not show an error, but both together do.
        let [single, next] = [400_000, 410_000].map(|rate| {
            let mut last = CallsUse { counted_ns: 1_000_000_000, ..CallsUse::default() };
            last.slice_rates.add(rate, 240_000_000);
            Syscalls::from_readings(&CallsUse::default(), &last).unwrap()
        });
        assert_eq!(single.per_s_standard_error, None);
        assert!(single.merge(&next).per_s_standard_error.is_some());
    }

    /// Bursts of 40 ms: a slice counts the begin of each, and the slice after the gap is idle.
    #[test]
    fn idle_slices_after_bursts_have_an_error() {
        let mut last = CallsUse {
            counted_ns: 1_000_000_000,
            by_name: [("getppid".into(), CallUse { count: 49_207, ..CallUse::default() })].into(),
            ..CallsUse::default()
        };
        for (rate, gap_ns) in [(2_000_000, 0), (0, 40_000_000), (2_000_000, 0), (0, 40_000_000)] {
            last.slice_rates.add(rate, gap_ns);
        }
        let bursts = Syscalls::from_readings(&CallsUse::default(), &last).unwrap();
        // Two gaps, each estimated as 0 or as 80,000 calls.
        assert_eq!(bursts.per_s_standard_error, Some(80_000.0));
        assert!(bursts.is_rough() && !bursts.is_lower_bound, "{bursts:?}");
        let mut idle = CallsUse { counted_ns: 1_000_000_000, ..CallsUse::default() };
        (0..3).for_each(|_| idle.slice_rates.add(0, 40_000_000));
        let idle = Syscalls::from_readings(&CallsUse::default(), &idle).unwrap();
        assert_eq!((idle.per_s_standard_error, idle.is_rough()), (None, true));
    }

    #[test]
    fn sum_of_role_is_unknown_if_one_stretch_is() {
        let states_s = Some([("running", 0.5)].into());
        let known = RoleUse { cpu_s: 0.5, wakeups: Some(7), states_s, ..RoleUse::default() };
        let unknown = RoleUse { cpu_s: 0.5, ..RoleUse::default() };
        let stretch = |role: &RoleUse| BTreeMap::from([("work", role.clone())]);
        let sum = |a: &RoleUse, b: &RoleUse| merge_roles(stretch(a), &stretch(b))["work"].clone();
        for both in [sum(&known, &unknown), sum(&unknown, &known)] {
            assert_eq!((both.cpu_s, both.wakeups, both.states_s), (1.0, None, None));
        }
        assert_eq!(sum(&known, &known).wakeups, Some(14));
        // Threads that began in the second stretch had no use in the first.
        let began = merge_roles(BTreeMap::new(), &stretch(&known));
        assert_eq!(began["work"].wakeups, Some(7));
    }

    #[test]
    fn watch_record_has_system_calls_per_second() {
        let mut record = record_with_threads(&[(500, 0)]);
        let call = |count, returned| CallUse { count, returned, ..CallUse::default() };
        let (first, rest) = record.samples.split_first_mut().unwrap();
        let last = rest.last_mut().unwrap();
        let calls = |counted_ns, n| CallsUse {
            counted_ns,
            slices: 1,
            responses: None,
            by_name: [
                ("read".into(), call(n, Some(10 * n))),
                ("futex_wait".into(), call(n / 2, Some(0))),
            ]
            .into(),
            ..CallsUse::default()
        };
        first.party_use_mut(Party::SUBJECT).calls = Some(calls(1_000_000_000, 100));
        last.party_use_mut(Party::SUBJECT).calls = Some(calls(1_500_000_000, 300));
        let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
        let (first, last) = (first.clone(), last.clone());
        let record = watch_record(first.at_ns, &first, &last).unwrap();
        assert_eq!((record.start_s, record.end_s), (0.0, seconds));
        assert_eq!(record.cpus, Some(0.5));
        let syscalls = record.syscalls.unwrap();
        assert_eq!(
            (syscalls.counted_s, syscalls.per_s, syscalls.bytes_read_per_s),
            (0.5, 600.0, Some(4000.0))
        );
        assert_eq!(syscalls.by_name_per_s["futex_wait"], 200.0);
        // A supervisor restarted the server. The probes observe the new process only from its first
        // sample on.
        let mut restarted = last.clone();
        restarted.party_use_mut(Party::SUBJECT).has_joined = true;
        let after_restart = watch_record(0, &first, &restarted).unwrap();
        assert_eq!(
            (&after_restart.syscalls, after_restart.wakeups_per_s, after_restart.cpus),
            (&None, None, Some(0.5))
        );
        let roles = after_restart.by_thread_role.values();
        assert!(roles.clone().all(|role| role.wakeups.is_none() && role.states_s.is_none()));
        assert!(roles.count() > 0);
        // Without the CPU time of a stretch, the summary has no row.
        let known = watch_record(0, &first, &last).unwrap();
        let without_cpu_time = WatchRecord { cpus: None, ..known.clone() };
        assert!(known.merge(&without_cpu_time).by_thread_role.is_empty());
        assert!(watch_record(0, &first, &last).unwrap().syscalls.is_some());
        assert!(watch_record(0, &first, &first).is_none(), "one instant");
        let mut gone = last.clone();
        gone.parties.clear();
        assert!(watch_record(0, &first, &gone).is_none());
    }
}
