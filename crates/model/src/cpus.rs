//! The CPUs that a program may use, and their lists as the kernel writes them.

use crate::plan::{Limits, Placement};
use crate::start::{LimitKind, LimitReadBack};

/// CPUs that a start may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllowedCpus {
    /// Number of CPUs that the start may use at a time, at most its quota.
    pub count: f64,
    /// Numbers of all CPUs on which the start may run; empty: unknown.
    pub ids: Vec<u32>,
}

impl AllowedCpus {
    /// Returns this many CPUs with unknown numbers.
    #[must_use]
    pub fn any(count: f64) -> AllowedCpus {
        AllowedCpus { count, ids: Vec::new() }
    }

    /// Returns the CPUs that the kernel reported; without a report, the planned CPUs. A quota that
    /// could not be set is ignored.
    #[must_use]
    pub fn new(limits: &[LimitReadBack], planned: &Placement, asked: &Limits) -> AllowedCpus {
        let read = |kind: LimitKind| limits.iter().find(|l| l.kind == kind)?.read_back.as_deref();
        let kernel_ids = read(LimitKind::Cpus)
            .or_else(|| read(LimitKind::CpusByAffinity))
            .and_then(|list| cpu_list(list).ok());
        let ids = kernel_ids.unwrap_or_else(|| planned.subject.clone());
        let count = ids.len().max(1) as f64;
        let count = match asked.cpus {
            Some(quota) if read(LimitKind::CpuQuota).is_some() => quota.min(count),
            _ => count,
        };
        AllowedCpus { count, ids }
    }
}

/// Formats CPUs as a list for the kernel: `0,1,5`.
#[must_use]
pub fn cpu_list_text(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Highest CPU number that a list may have.
const LAST_CPU: u32 = 4095;

/// Parses a CPU list as the kernel writes it: `0`, `0,2`, `0-3,7`.
pub fn cpu_list(text: &str) -> Result<Vec<u32>, String> {
    let error = || format!("{text:?}: not a list of CPUs\nhint: write it like `0`, `0,2` or `0-3`");
    let number = |text: &str| {
        let digits = text.trim();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(error());
        }
        let cpu = digits.parse::<u32>().ok().filter(|cpu| *cpu <= LAST_CPU);
        cpu.ok_or_else(|| format!("CPU {digits}: must be at most {LAST_CPU}"))
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (number(from)?, number(to)?);
        if from > to {
            return Err(error());
        }
        cpus.extend(from..=to);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_cpus_follow_read_back_limits() {
        let planned = Placement { subject: vec![0, 2], generator: vec![1] };
        use LimitKind::{CpuQuota, Cpus, CpusByAffinity};
        let read = |kind: LimitKind, read_back: Option<&str>| LimitReadBack {
            kind,
            asked: "0,2".into(),
            read_back: read_back.map(Into::into),
            reason: None,
        };
        let quota = |cpus| Limits { cpus: Some(cpus), ..Limits::default() };
        let none = Limits::default();
        for (limits, asked, allowed) in [
            (vec![], &none, 2.0),
            (vec![read(Cpus, Some("0"))], &none, 1.0),
            (vec![read(CpusByAffinity, Some("0-2,5"))], &none, 4.0),
            (vec![read(Cpus, None)], &none, 2.0),
            (vec![read(Cpus, Some("nonsense"))], &none, 2.0),
            (vec![read(Cpus, Some("0")), read(CpuQuota, Some("x"))], &quota(1.5), 1.0),
            (vec![read(Cpus, Some("0,2")), read(CpuQuota, Some("x"))], &quota(1.5), 1.5),
            (vec![read(Cpus, Some("0,2")), read(CpuQuota, None)], &quota(1.5), 2.0),
        ] {
            let ids = limits
                .iter()
                .find_map(|limit| cpu_list(limit.read_back.as_deref()?).ok())
                .unwrap_or_else(|| vec![0, 2]);
            let expected = AllowedCpus { count: allowed, ids };
            assert_eq!(AllowedCpus::new(&limits, &planned, asked), expected, "{limits:?}");
        }
    }

    #[test]
    fn cpu_list_accepts_ranges_up_to_limit() {
        assert_eq!(cpu_list("0-2,5, 7"), Ok(vec![0, 1, 2, 5, 7]));
        assert_eq!(cpu_list(&cpu_list_text(&[0, 1, 5])), Ok(vec![0, 1, 5]));
        for text in ["", "a", "3-1", "99999"] {
            assert!(cpu_list(text).is_err(), "{text}");
        }
        for absent in ["0-9999", "4096", "0,99999999999999999999"] {
            let error = cpu_list(absent).unwrap_err();
            assert!(error.contains("must be at most 4095"), "{error}");
        }
        assert_eq!(cpu_list("4095"), Ok(vec![4095]));
    }
}
