//! Computes a server's use per unit of time from selected stretches of time. A server that is
//! loaded in turns also works between its turns. That work belongs to its requests, but not to the
//! time of its turns.

use std::collections::BTreeMap;

use dyno_model::cpus::AllowedCpus;
use dyno_model::sample::{CgroupUse, ThreadUse};
use dyno_model::{LoadRecord, Party, Sample};

use super::threads::{MAX_READ_DELAY_NS, ThreadDeltas, ThreadKey, Threads, thread_key};
use super::{
    BUSY_THREAD, PartyDeltas, PartySample, SLEEPLESS_THREAD, ServerInterval, ServerUse, Throttling,
    cgroup_delta, others_on_cpus_s, split_between,
};

/// Time between two neighbouring samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch<'a> {
    pub(crate) from: &'a Sample,
    pub(crate) to: &'a Sample,
    /// Middle of the stretch on the clock of the server's intervals, in seconds.
    pub(crate) middle_s: f64,
}

impl<'a> Stretch<'a> {
    /// Returns a party's counters at both ends; `None`: the party was not watched.
    fn edges(&self, party: Party) -> Option<(PartySample<'a>, PartySample<'a>)> {
        Some((PartySample::new(self.from, party)?, PartySample::new(self.to, party)?))
    }
}

/// Totals that a server's use per unit of time does not show, if that use is only of selected
/// stretches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StretchTotals {
    /// CPU time for the requests of the window, also outside of the stretches, in seconds.
    pub(crate) cpu_s: Option<f64>,
    /// Page faults with reading from a disk per second of the stretches.
    pub(crate) page_faults_major_per_s: Option<f64>,
}

impl ServerUse {
    /// Returns the CPU time for the requests of the window, in seconds. With turns, it includes the
    /// CPU time in the turns of other loads. `None`: unknown.
    pub(crate) fn cpu_s(&self) -> Option<f64> {
        match &self.in_stretches {
            Some(totals) => totals.cpu_s,
            None => Some(self.cpus? * self.window_s),
        }
    }

    /// Returns the page faults with reading from a disk, per second. `None`: unknown.
    pub(crate) fn page_faults_major_per_s(&self) -> Option<f64> {
        match &self.in_stretches {
            Some(totals) => totals.page_faults_major_per_s,
            None => {
                let faults = self.page_faults_major.filter(|_| self.window_s > 0.0)?;
                Some(faults as f64 / self.window_s)
            }
        }
    }

    /// Replaces all values per unit of time by those of stretches. A value that is unknown in one
    /// stretch is unknown. `window`: the stretches in the measured window; empty: the values are
    /// unknown. `all`: the stretches of the load, for the use over time.
    pub(crate) fn with_rates_in(
        self,
        (window, all): (&[Stretch<'_>], &[Stretch<'_>]),
        (record, party): (&LoadRecord, Party),
        allowed: &AllowedCpus,
    ) -> ServerUse {
        let used = StretchesUse::new(window, party);
        let seconds = used.ns as f64 / 1e9;
        let per_second = |amount: f64| (seconds > 0.0).then(|| amount / seconds);
        let deltas = used.threads();
        let cpus = self.cpus.and(used.cpu_s).and_then(per_second);
        // Ended threads are in no stretch. They may have made the values of the window unknown.
        let of_thread =
            |whole: Option<f64>, run_s: Option<f64>| whole.and(run_s).and_then(per_second);
        let used_s = cpus.map(|cpus| cpus * self.window_s);
        ServerUse {
            cpus,
            cpu_utilisation: cpus.map(|cpus| cpus / allowed.count),
            busiest_thread_utilisation: of_thread(
                self.busiest_thread_utilisation,
                deltas.busiest_s,
            ),
            busiest_serving_utilisation: of_thread(
                self.busiest_serving_utilisation,
                deltas.busiest_serving_s,
            ),
            busy_threads: self.busy_threads.and(deltas.busy(BUSY_THREAD * seconds)),
            sleepless_threads: self
                .sleepless_threads
                .filter(|_| seconds > 0.0)
                .and(deltas.sleepless(SLEEPLESS_THREAD * seconds)),
            throttled_s: used.throttled_ns.map(|ns| ns as f64 / 1e9),
            throttling: used.throttling(),
            others_on_its_cpus_s: others_on_cpus_s(
                record,
                &allowed.ids,
                (self.others_cpu_s, used_s, self.window_s),
            ),
            intervals: self.intervals.iter().map(|i| interval_in(i, all, party)).collect(),
            in_stretches: Some(StretchTotals {
                cpu_s: self.cpu_s(),
                page_faults_major_per_s: self
                    .page_faults_major
                    .and(deltas.faults_major)
                    .and_then(|n| per_second(n as f64)),
            }),
            ..self
        }
    }
}

/// Sums of a party's use over stretches. `None`: unknown in a stretch.
#[derive(Default)]
struct StretchesUse {
    ns: u64,
    cpu_s: Option<f64>,
    threads: BTreeMap<ThreadKey, ThreadUse>,
    periods: Option<u64>,
    throttled_periods: Option<u64>,
    throttled_ns: Option<u64>,
}

impl StretchesUse {
    fn new(stretches: &[Stretch<'_>], party: Party) -> StretchesUse {
        let pairs: Option<Vec<_>> = stretches.iter().map(|stretch| stretch.edges(party)).collect();
        let pairs = pairs.unwrap_or_default();
        let group = |pick: fn(&CgroupUse) -> Option<u64>| -> Option<u64> {
            let sum =
                pairs.iter().map(|(from, to)| cgroup_delta(from, to, pick)).sum::<Option<_>>();
            sum.filter(|_| !pairs.is_empty())
        };
        let cpu_s = |(from, to): &(PartySample<'_>, PartySample<'_>)| {
            PartyDeltas::new(&[from, to], None).cpu_s
        };
        let mut used = StretchesUse {
            ns: pairs.iter().map(|(from, to)| to.at_ns.saturating_sub(from.at_ns)).sum(),
            cpu_s: pairs.iter().map(cpu_s).sum(),
            threads: BTreeMap::new(),
            periods: group(|c| c.periods),
            throttled_periods: group(|c| c.throttled_periods),
            throttled_ns: group(|c| c.throttled_ns),
        };
        pairs.iter().for_each(|(from, to)| used.add_threads(from, to));
        used
    }

    /// Adds the use of the threads that live at the end of a stretch.
    fn add_threads(&mut self, from: &PartySample<'_>, to: &PartySample<'_>) {
        let before: BTreeMap<ThreadKey, &ThreadUse> =
            from.threads.iter().map(|thread| (thread_key(thread), thread)).collect();
        let longest_ns = to.at_ns.saturating_sub(from.at_ns) + MAX_READ_DELAY_NS;
        for now in to.threads {
            let key = thread_key(now);
            // A thread with more run time than fits into the stretch joined the party in it.
            let joined = Some(now).filter(|thread| thread.run_ns > longest_ns);
            let then = before.get(&key).copied().or(joined);
            let grown = |pick: fn(&ThreadUse) -> Option<u64>| {
                Some(pick(now)?.saturating_sub(then.map_or(Some(0), pick)?))
            };
            let known = self.threads.get(&key);
            let sum = |pick: fn(&ThreadUse) -> Option<u64>| {
                Some(known.map_or(Some(0), pick)? + grown(pick)?)
            };
            let thread = ThreadUse {
                run_ns: sum(|t| Some(t.run_ns)).unwrap_or(0),
                user_ns: 0,
                sys_ns: 0,
                run_delay_ns: sum(|t| t.run_delay_ns),
                switches_voluntary: sum(|t| t.switches_voluntary),
                faults_major: sum(|t| t.faults_major),
                seen: None,
                ..now.clone()
            };
            self.threads.insert(key, thread);
        }
    }

    fn threads(&self) -> ThreadDeltas {
        let threads: Vec<ThreadUse> = self.threads.values().cloned().collect();
        ThreadDeltas::new(
            Threads { at_ns: 0, living: &[], ended: None },
            Threads { at_ns: self.ns, living: &threads, ended: None },
        )
    }

    fn throttling(&self) -> Option<Throttling> {
        let periods = self.periods.filter(|n| *n > 0)?;
        Some(Throttling { periods, throttled_periods: self.throttled_periods? })
    }
}

/// Returns an interval with the values per second of the stretches in it.
fn interval_in(interval: &ServerInterval, all: &[Stretch<'_>], party: Party) -> ServerInterval {
    let is_inside = |stretch: &&Stretch<'_>| {
        interval.start_s <= stretch.middle_s && stretch.middle_s < interval.end_s
    };
    let inside: Vec<Stretch<'_>> = all.iter().filter(is_inside).copied().collect();
    let mean = |pick: fn(&PartySample<'_>, &PartySample<'_>) -> Option<f64>| -> Option<f64> {
        let amount = |stretch: &Stretch<'_>| {
            let (from, to) = stretch.edges(party)?;
            pick(&from, &to)
        };
        let sum: f64 = inside.iter().map(amount).sum::<Option<f64>>()?;
        let ns: u64 = inside.iter().map(|s| s.to.at_ns.saturating_sub(s.from.at_ns)).sum();
        (ns > 0).then(|| sum * 1e9 / ns as f64)
    };
    ServerInterval {
        cpu: mean(|from, to| PartyDeltas::new(&[from, to], None).cpu_s),
        cpu_user: mean(|from, to| Some(split_between(from, to)?.0 / 1e9)),
        cpu_sys: mean(|from, to| Some(split_between(from, to)?.1 / 1e9)),
        cpu_jit: interval.cpu_jit.and(mean(|from, to| {
            let roles = PartyDeltas::new(&[from, to], None).threads.roles;
            Some(roles.get("jit").map_or(0.0, |role| role.cpu_s))
        })),
        throttled_s: mean(|from, to| {
            cgroup_delta(from, to, |c| c.throttled_ns).map(|ns| ns as f64 / 1e9)
        })
        .map(|share| share * (interval.end_s - interval.start_s)),
        context_switches_per_s: mean(|from, to| {
            PartyDeltas::new(&[from, to], None).threads.switches().map(|n| n as f64)
        }),
        ..interval.clone()
    }
}
