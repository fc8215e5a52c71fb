//! Reads how many processes of a control group the kernel killed for lack of memory, and whether
//! the group's own limit was the reason.

use std::path::Path;

use super::{Group, Keyed};
use crate::read_number;

/// Processes of a group that the kernel killed for lack of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OomKills {
    pub count: u64,
    /// Whether the group reached its own memory limit. If false, the memory of the machine, or of a
    /// surrounding group such as a container's, was exhausted.
    pub is_limit_reached: bool,
}

impl Group {
    /// Reads the kills of the group's processes.
    #[must_use]
    pub fn oom_kills(&self) -> OomKills {
        // If both versions are mounted, the memory controller may be in version 1.
        let kills = self.v2.as_deref().map(read_v2).filter(|kills| kills.count > 0);
        let v1 = || self.v1.get("memory").map(|folder| read_v1(folder));
        kills.or_else(v1).unwrap_or_default()
    }
}

/// The kernel counts `oom` in the group whose limit was reached, and in the groups above it. It
/// counts `oom_kill` in the group of the killed process (mm/memcontrol.c). `max` is no evidence: it
/// also counts reclaims of the page cache, which kill no process.
fn read_v2(folder: &Path) -> OomKills {
    let events = Keyed::read(folder.join("memory.events"));
    let count = |key| events.get(key).unwrap_or(0);
    OomKills { count: count("oom_kill"), is_limit_reached: count("oom") > 0 }
}

/// A charge of memory can fail with this much memory left below the limit: a huge page of x86-64,
/// and the pages that each CPU charges in advance.
const UNCHARGED_BYTES: u64 = 4 << 20;

/// Version 1 has no counter of OOM events, but counts failed charges of memory, and of memory plus
/// swap (`memsw`). If both have the same limit, the kernel charges `memsw` first, and newer kernels
/// do not count its failures (`track_failcnt` in mm/memcontrol.c). Therefore the highest use is
/// compared with the limit, too.
fn read_v1(folder: &Path) -> OomKills {
    let read = |name: &str| read_number(folder.join(name));
    let count = Keyed::read(folder.join("memory.oom_control")).get("oom_kill").unwrap_or(0);
    let is_reached = |prefix: &str| {
        let failures = read(&format!("{prefix}.failcnt"));
        let highest = read(&format!("{prefix}.max_usage_in_bytes"));
        let limit = read(&format!("{prefix}.limit_in_bytes"));
        failures.is_some_and(|n| n > 0)
            || highest.zip(limit).is_some_and(|(used, limit)| used + UNCHARGED_BYTES >= limit)
    };
    let is_limit_reached = ["memory.memsw", "memory"].into_iter().any(is_reached);
    OomKills { count, is_limit_reached }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kills(version: u8, files: &[(&str, &str)]) -> (u64, bool) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let path = folder.path().to_path_buf();
        let group = match version {
            1 => Group { v1: [("memory".to_string(), path)].into(), v2: None },
            _ => Group { v2: Some(path), ..Group::default() },
        };
        let OomKills { count, is_limit_reached } = group.oom_kills();
        (count, is_limit_reached)
    }

    #[test]
    fn v2_kill_without_oom_event_is_not_by_limit() {
        let events = |max, oom, oom_kill| {
            let text = format!("low 0\nhigh 0\nmax {max}\noom {oom}\noom_kill {oom_kill}\n");
            kills(2, &[("memory.events", &text)])
        };
        assert_eq!(events(3, 1, 1), (1, true));
        assert_eq!(events(0, 0, 2), (2, false));
        assert_eq!(events(900, 0, 2), (2, false), "reclaims at the limit killed no process");
        assert_eq!(events(3, 0, 0), (0, false));
        assert_eq!(kills(2, &[]), (0, false));
    }

    #[test]
    fn v1_kill_without_failed_charge_is_not_by_limit() {
        let control = ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
        let counts = |memory, memsw| {
            kills(1, &[control, ("memory.failcnt", memory), ("memory.memsw.failcnt", memsw)])
        };
        assert_eq!(counts("0\n", "0\n"), (3, false));
        assert_eq!(counts("7\n", "0\n"), (3, true));
        assert_eq!(counts("0\n", "7\n"), (3, true));
        assert_eq!(kills(1, &[control, ("memory.failcnt", "7\n")]), (3, true), "no swap counters");
        assert_eq!(kills(1, &[control]), (3, false));
        let at_limit = |used| {
            let limit = ("memory.memsw.limit_in_bytes", "100663296\n");
            kills(1, &[control, ("memory.memsw.max_usage_in_bytes", used), limit])
        };
        assert_eq!(at_limit("100659200\n"), (3, true), "a kernel without counted failures");
        assert_eq!(at_limit("50331648\n"), (3, false));
    }
}
