//! Summarizes what probes observed inside a server, over the repeats of a cell (arm, workload and
//! step): system calls by name, threads by role, and metrics of the runtime.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::sample::ThreadState;
use schemars::JsonSchema;
use serde::Serialize;

use crate::grid::Cell;
use crate::metric::Unit;
use crate::server::{Call, RoleUse, ServerUse};
use crate::stats::Repeated;
use crate::trial::TrialResult;

/// Observations inside a server, over the valid repeats of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Inside")]
pub struct InsideSummary {
    /// System calls by name; empty: not counted. A name that is missing in a repeat counts as 0
    /// there.
    pub syscalls: BTreeMap<String, CallSummary>,
    pub by_thread_role: BTreeMap<&'static str, RoleSummary>,
    /// Metrics that the server's runtime reports; empty: not requested, or none reported.
    pub runtime: Vec<RuntimeSummary>,
}

/// A value of the server's runtime.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RuntimeSummary {
    /// Name without the suffix of its unit: `gc`, `event_loop`, `heap`.
    pub name: String,
    /// Unit. Periods of time are shares of the window.
    pub unit: Unit,
    pub value: Repeated,
}

/// System calls of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CallSummary {
    pub per_response: Repeated,
    /// Mean return value of the calls that did not fail, such as bytes, events or woken threads.
    pub returned_mean: Repeated,
}

/// Threads of one role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RoleSummary {
    pub threads: Repeated,
    pub cpu_us_per_request: Repeated,
    /// Share of the threads' time by state: 0 to 1. Empty: states were not observed.
    pub states: BTreeMap<&'static str, Repeated>,
}

/// A system call of one server (`here`) and the same call of another server (`there`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallPair<'a> {
    pub name: &'a str,
    pub here: Option<&'a CallSummary>,
    pub there: Option<&'a CallSummary>,
}

impl CallPair<'_> {
    /// Returns the absolute difference in calls per response.
    fn difference(&self) -> f64 {
        let calls_per_response =
            |call: Option<&CallSummary>| call.and_then(|c| c.per_response.median).unwrap_or(0.0);
        (calls_per_response(self.here) - calls_per_response(self.there)).abs()
    }
}

/// A state is reported if it takes at least this share of the threads' time.
const MIN_SHARE: f64 = 0.005;

impl RoleSummary {
    /// Returns the states with a relevant share of the time, each with its median share.
    #[must_use]
    pub fn shares(&self) -> Vec<(&'static str, f64)> {
        let state_share =
            |state: ThreadState| Some((state.name(), self.states.get(state.name())?.median?));
        ThreadState::ALL
            .into_iter()
            .filter_map(state_share)
            .filter(|(_, share)| *share >= MIN_SHARE)
            .collect()
    }
}

impl InsideSummary {
    /// Returns the system calls of this server and of another server, paired by name, the largest
    /// difference first. Without another server, the most frequent call comes first.
    #[must_use]
    pub fn pair_calls<'a>(&'a self, other: Option<&'a InsideSummary>) -> Vec<CallPair<'a>> {
        let there = |name: &str| other.and_then(|other| other.syscalls.get(name));
        let names: BTreeSet<&String> = self
            .syscalls
            .keys()
            .chain(other.into_iter().flat_map(|other| other.syscalls.keys()))
            .collect();
        let pair =
            |name: &'a String| CallPair { name, here: self.syscalls.get(name), there: there(name) };
        let mut pairs: Vec<CallPair<'a>> = names.into_iter().map(pair).collect();
        pairs.sort_by(|a, b| b.difference().total_cmp(&a.difference()));
        pairs
    }

    /// Returns the roles of the server's threads. The role with the most CPU time is first.
    #[must_use]
    pub fn roles(&self) -> Vec<(&'static str, &RoleSummary)> {
        let mut roles_by_cpu: Vec<_> =
            self.by_thread_role.iter().map(|(name, role)| (*name, role)).collect();
        let cpu_us = |role: &RoleSummary| role.cpu_us_per_request.median.unwrap_or(0.0);
        roles_by_cpu.sort_by(|a, b| cpu_us(b.1).total_cmp(&cpu_us(a.1)));
        roles_by_cpu
    }

    /// Summarizes the valid trials of a cell.
    pub(crate) fn from_cell(cell: &Cell<'_>) -> InsideSummary {
        let servers: Vec<&ServerUse> = cell.valid().map(|t: &TrialResult| &t.server).collect();
        InsideSummary {
            syscalls: syscalls(&servers),
            by_thread_role: roles(&servers),
            runtime: runtime(&servers),
        }
    }
}

/// Summarizes the metrics of runtimes. Suffixes of names become units.
fn runtime(servers: &[&ServerUse]) -> Vec<RuntimeSummary> {
    let mut values_by_name: BTreeMap<(String, Unit), Vec<f64>> = BTreeMap::new();
    for metrics in servers.iter().filter_map(|server| server.runtime.as_ref()) {
        for (name, value) in &metrics.utilisation {
            values_by_name.entry((name.clone(), Unit::Share)).or_default().push(*value);
        }
        for (name, value) in &metrics.per_second {
            let name = name.strip_suffix("_total").unwrap_or(name);
            let key = match name.strip_suffix("_seconds") {
                Some(name) => (name.to_string(), Unit::Share),
                None => (name.to_string(), Unit::PerSecond),
            };
            values_by_name.entry(key).or_default().push(*value);
        }
        for (name, value) in &metrics.highest {
            let key = match name.strip_suffix("_bytes") {
                Some(name) => (name.to_string(), Unit::Bytes),
                None => (name.clone(), Unit::Count),
            };
            values_by_name.entry(key).or_default().push(*value);
        }
    }
    let summary =
        |((name, unit), values)| RuntimeSummary { name, unit, value: Repeated::new(values) };
    values_by_name.into_iter().map(summary).collect()
}

/// Summarizes system calls by name.
fn syscalls(servers: &[&ServerUse]) -> BTreeMap<String, CallSummary> {
    let counted: Vec<&BTreeMap<String, Call>> =
        servers.iter().filter_map(|s| s.calls.as_ref()).map(|calls| &calls.by_name).collect();
    let names: BTreeSet<&String> = counted.iter().flat_map(|by_name| by_name.keys()).collect();
    let summary = |name: &String| CallSummary {
        per_response: Repeated::new(
            counted
                .iter()
                .map(|by_name| by_name.get(name).map_or(0.0, |call| call.per_response))
                .collect(),
        ),
        returned_mean: Repeated::new(
            counted.iter().filter_map(|by_name| by_name.get(name)?.returned_mean).collect(),
        ),
    };
    names.into_iter().map(|name| (name.clone(), summary(name))).collect()
}

/// Summarizes threads by role.
fn roles(servers: &[&ServerUse]) -> BTreeMap<&'static str, RoleSummary> {
    let names: BTreeSet<&'static str> =
        servers.iter().flat_map(|s| s.by_thread_role.keys().copied()).collect();
    let summary = |name: &'static str| {
        let uses: Vec<&RoleUse> =
            servers.iter().filter_map(|s| s.by_thread_role.get(name)).collect();
        let share = |state: ThreadState| {
            let shares = uses.iter().filter_map(|role| {
                let states = role.states_s.as_ref()?;
                let total: f64 = states.values().sum();
                (total > 0.0).then(|| states.get(state.name()).copied().unwrap_or(0.0) / total)
            });
            Repeated::new(shares.collect())
        };
        let has_states = uses.iter().any(|role| role.states_s.is_some());
        RoleSummary {
            threads: Repeated::new(uses.iter().map(|role| role.threads as f64).collect()),
            cpu_us_per_request: Repeated::new(
                uses.iter().filter_map(|role| role.cpu_us_per_request).collect(),
            ),
            states: ThreadState::ALL
                .into_iter()
                .filter(|_| has_states)
                .map(|s| (s.name(), share(s)))
                .collect(),
        }
    };
    names.into_iter().map(|name| (name, summary(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::CallRates;

    fn server(read: Option<f64>, running: f64) -> ServerUse {
        let call =
            |per_response| Call { per_response, returned_mean: Some(50.0), ..Call::default() };
        let role = RoleUse {
            threads: 2,
            cpu_us_per_request: Some(running),
            states_s: Some([("running", running), ("network", 2.0 - running)].into()),
            ..RoleUse::default()
        };
        ServerUse {
            calls: Some(CallRates {
                by_name: [("writev".to_string(), call(1.0))]
                    .into_iter()
                    .chain(read.map(|n| ("read".to_string(), call(n))))
                    .collect(),
                ..CallRates::default()
            }),
            by_thread_role: [("work", role)].into(),
            ..ServerUse::default()
        }
    }

    #[test]
    fn missing_call_counts_as_zero_in_repeat() {
        let servers = [server(Some(1.0), 0.5), server(None, 1.5)];
        let summaries = syscalls(&servers.each_ref());
        assert_eq!(summaries["read"].per_response.values, [1.0, 0.0]);
        assert_eq!(summaries["read"].returned_mean.values, [50.0]);
        assert_eq!(summaries["writev"].per_response.values, [1.0, 1.0]);
    }

    #[test]
    fn role_states_are_shares_of_thread_lifetime() {
        let servers = [server(None, 0.5), server(None, 1.5)];
        let work = &roles(&servers.each_ref())["work"];
        assert_eq!(work.states["running"].values, [0.25, 0.75]);
        assert_eq!(work.states["disk"].values, [0.0, 0.0]);
        assert_eq!(
            (work.threads.median, &work.cpu_us_per_request.values[..]),
            (Some(2.0), &[0.5, 1.5][..])
        );
    }

    #[test]
    fn pair_calls_sorts_by_difference() {
        let with_calls = |read, write| {
            let call =
                |n| CallSummary { per_response: Repeated::new(vec![n]), ..CallSummary::default() };
            let syscalls =
                [("read".to_string(), call(read)), ("write".to_string(), call(write))].into();
            InsideSummary { syscalls, ..InsideSummary::default() }
        };
        let names = |all: Vec<CallPair<'_>>| {
            all.iter().map(|call| call.name.to_string()).collect::<Vec<_>>()
        };
        let (here, there) = (with_calls(2.0, 1.0), with_calls(2.1, 3.0));
        assert_eq!(names(here.pair_calls(None)), ["read", "write"]);
        assert_eq!(names(here.pair_calls(Some(&there))), ["write", "read"]);
        let futex = InsideSummary {
            syscalls: [("futex(wait)".into(), CallSummary::default())].into(),
            ..InsideSummary::default()
        };
        assert_eq!(names(here.pair_calls(Some(&futex))), ["read", "write", "futex(wait)"]);
    }

    #[test]
    fn inside_summary_without_observation_is_empty() {
        assert_eq!(
            (syscalls(&[&ServerUse::default()]), roles(&[])),
            (BTreeMap::new(), BTreeMap::new())
        );
    }
}
