//! Differences of the threads' counters between two samples.

use std::collections::BTreeMap;

use dyno_archive::sample::ThreadUse;
use schemars::JsonSchema;
use serde::Serialize;

use crate::roles;

/// What all threads of one role used in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RoleUse {
    pub cpu_s: f64,
    pub run_delay_s: Option<f64>,
    pub threads: usize,
}

/// Differences of thread counters between two samples. A thread that was born in between counts from zero; one
/// that died in between is lost, and only the control group knows its CPU time.
#[derive(Debug, Default)]
pub(super) struct ThreadDeltas {
    pub(super) run_s: f64,
    pub(super) user_s: f64,
    pub(super) sys_s: f64,
    pub(super) busiest_s: Option<f64>,
    /// Seconds that each thread ran or waited for a CPU.
    pub(super) wanted_s: Vec<f64>,
    pub(super) run_delay_s: Option<f64>,
    pub(super) voluntary: Option<u64>,
    pub(super) involuntary: Option<u64>,
    pub(super) roles: BTreeMap<&'static str, RoleUse>,
}

impl ThreadDeltas {
    pub(super) fn new(first: &[ThreadUse], last: &[ThreadUse]) -> ThreadDeltas {
        let before: BTreeMap<(u32, u32), &ThreadUse> = first.iter().map(|t| ((t.pid, t.tid), t)).collect();
        let mut deltas = ThreadDeltas::default();
        for thread in last {
            deltas.add(thread, before.get(&(thread.pid, thread.tid)).copied());
        }
        deltas
    }

    fn add(&mut self, now: &ThreadUse, before: Option<&ThreadUse>) {
        let since =
            |pick: fn(&ThreadUse) -> u64| pick(now).saturating_sub(before.map_or(0, pick)) as f64 / 1e9;
        let since_some = |pick: fn(&ThreadUse) -> Option<u64>| {
            Some(pick(now)?.saturating_sub(before.map_or(Some(0), pick)?))
        };
        let run_s = since(|t| t.run_ns);
        self.run_s += run_s;
        self.user_s += since(|t| t.user_ns);
        self.sys_s += since(|t| t.sys_ns);
        self.busiest_s = Some(self.busiest_s.unwrap_or(0.0).max(run_s));
        let delay_s = since_some(|t| t.run_delay_ns).map(|ns| ns as f64 / 1e9);
        self.wanted_s.push(run_s + delay_s.unwrap_or(0.0));
        add_some(&mut self.run_delay_s, delay_s);
        add_some(&mut self.voluntary, since_some(|t| t.switches_voluntary));
        add_some(&mut self.involuntary, since_some(|t| t.switches_involuntary));
        let role = self.roles.entry(roles::of(&now.name)).or_default();
        role.cpu_s += run_s;
        role.threads += 1;
        add_some(&mut role.run_delay_s, delay_s);
    }

    pub(super) fn switches(&self) -> Option<u64> {
        Some(self.voluntary? + self.involuntary?)
    }
}

/// Run time of all threads between two readings, in seconds.
pub(super) fn run_s_between(first: &[ThreadUse], last: &[ThreadUse]) -> f64 {
    let before = |tid: u32| first.iter().find(|t| t.tid == tid).map_or(0, |t| t.run_ns);
    last.iter().map(|t| t.run_ns.saturating_sub(before(t.tid))).sum::<u64>() as f64 / 1e9
}

fn add_some<T: std::ops::Add<Output = T> + Default + Copy>(sum: &mut Option<T>, part: Option<T>) {
    if let Some(part) = part {
        *sum = Some(sum.unwrap_or_default() + part);
    }
}
