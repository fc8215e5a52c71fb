//! Detects children of a watched server that another program waited for.
//!
//! Without kernel probes and without a control group, the CPU time of an ended child is known only
//! from the totals of the server's process that waited for it. An ancestor of the server waits for
//! a child whose parent has ended, and its totals then include the child's CPU time.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::sample::PartyUse;
use dyno_observer::proc::Stat;

/// Largest part of an interval's CPU time that may belong to orphans: 1 in 100.
const MIN_KNOWN_PER_ORPHAN: u64 = 100;

/// PID and start time, because PIDs are reused.
type Key = (u32, u64);

/// Totals of ended children at the last sample.
#[derive(Debug, Default)]
pub(super) struct OrphanCheck {
    /// Minor page faults of the ended children of each process of the server.
    faults: BTreeMap<Key, u64>,
    /// CPU time of the ended children of each ancestor of the server, clock ticks.
    reaped_ticks: BTreeMap<Key, u64>,
    /// CPU time of the server, nanoseconds.
    cpu_ns: u64,
}

impl OrphanCheck {
    /// Whether a part of the server's CPU time since the last call may be missing: the server has
    /// ended children, and its ancestors waited for children of any parent. `tick_ns`: length of a
    /// clock tick. `false` at the first call.
    pub(super) fn lacks_orphans(&mut self, used: &PartyUse, tick_ns: u64) -> bool {
        let each = used.each.iter();
        let now = OrphanCheck {
            faults: each.map(|p| ((p.pid, p.began_ticks), p.children_faults_minor)).collect(),
            reaped_ticks: ancestor_totals(&used.each.iter().map(|p| p.pid).collect()),
            cpu_ns: used.cpu_ns().unwrap_or(0),
        };
        let earlier = std::mem::replace(self, now);
        let reaped_ns = growth(&earlier.reaped_ticks, &self.reaped_ticks) * tick_ns;
        let known_ns = self.cpu_ns.saturating_sub(earlier.cpu_ns);
        // The faults of the children are exact, and each child has some.
        let has_ended_children = growth(&earlier.faults, &self.faults) > 0;
        has_ended_children && reaped_ns > known_ns / MIN_KNOWN_PER_ORPHAN
    }
}

/// Returns the growth of the totals of the processes in both readings.
fn growth(earlier: &BTreeMap<Key, u64>, now: &BTreeMap<Key, u64>) -> u64 {
    let since = |(key, total): (&Key, &u64)| Some(total.saturating_sub(*earlier.get(key)?));
    now.iter().filter_map(since).sum()
}

/// Returns the CPU time of the ended children of all ancestors of processes, clock ticks. The
/// processes themselves are not included.
fn ancestor_totals(pids: &BTreeSet<u32>) -> BTreeMap<Key, u64> {
    let mut totals = BTreeMap::new();
    let mut seen = pids.clone();
    let mut next: Vec<u32> = pids.iter().copied().collect();
    while let Some(pid) = next.pop() {
        let Some(stat) = Stat::read(pid) else { continue };
        if !pids.contains(&pid) {
            let ticks = stat.children_user_ticks + stat.children_sys_ticks;
            totals.insert((pid, stat.began_ticks), ticks);
        }
        if seen.insert(stat.parent) {
            next.push(stat.parent);
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use dyno_model::Party;
    use dyno_model::sample::ProcessUse;

    use super::*;

    /// Reads the totals of one process.
    fn totals(server: &Child) -> PartyUse {
        let stat = Stat::read(server.id()).unwrap();
        let each = vec![ProcessUse {
            pid: server.id(),
            began_ticks: stat.began_ticks,
            children_faults_minor: stat.children_faults_minor,
            ..ProcessUse::default()
        }];
        PartyUse { each, ..PartyUse::empty(Party::SUBJECT) }
    }

    /// This test's process, an ancestor of the server, waits for children that use CPU time.
    fn lacks_orphans(server: &str) -> bool {
        let run = |script: &str| {
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap()
        };
        let mut server = run(server);
        let mut check = OrphanCheck::default();
        check.lacks_orphans(&totals(&server), 1);
        let faults = |used: &PartyUse| used.each[0].children_faults_minor;
        let began = faults(&totals(&server));
        let mut lacks_orphans = false;
        for _ in 0..50 {
            let mut orphan = run("i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done");
            orphan.wait().unwrap();
            let used = totals(&server);
            lacks_orphans |= check.lacks_orphans(&used, 1);
            if lacks_orphans && faults(&used) > began {
                break;
            }
        }
        server.kill().unwrap();
        server.wait().unwrap();
        lacks_orphans
    }

    #[test]
    fn orphans_of_forking_server_are_missing() {
        assert!(lacks_orphans("while :; do sleep 0.001; done"));
    }

    #[test]
    fn server_without_ended_children_has_no_orphans() {
        assert!(!lacks_orphans("read line"));
    }

    #[test]
    fn growth_ignores_processes_of_one_reading() {
        let earlier = [((1, 5), 10), ((2, 5), 7)].into();
        assert_eq!(growth(&earlier, &[((1, 5), 15), ((2, 6), 90)].into()), 5);
    }
}
