//! Sets the limits of a control group, and reads them back. The archive records what the kernel
//! accepted, which may differ from the request.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dyno_model::cpus::cpu_list_text;
use dyno_model::plan::Limits;
use dyno_model::start::{LimitKind, LimitReadBack};
use dyno_observer::cgroup::Group;

/// Period of a CPU quota, the kernel's default.
const PERIOD_US: u64 = 100_000;

/// Sets the limits of a group and reads each back. `unavailable_reason`: reason why the group is
/// missing.
#[must_use]
pub fn limit(
    group: &Group,
    limits: &Limits,
    cpus: &[u32],
    unavailable_reason: Option<&str>,
) -> Vec<LimitReadBack> {
    let mut results = Vec::new();
    if let Some(quota) = limits.cpus {
        results.push(set(
            LimitKind::CpuQuota,
            &format!("{quota} CPUs"),
            unavailable_reason,
            || set_quota(group, quota),
        ));
    }
    if let Some(bytes) = limits.memory_bytes {
        results.push(set(LimitKind::Memory, &format!("{bytes} bytes"), unavailable_reason, || {
            set_memory(group, bytes)
        }));
    }
    if !cpus.is_empty() && !group.is_empty() {
        let requested = cpu_list_text(cpus);
        results.push(set(LimitKind::Cpus, &requested, None, || set_cpuset(group, &requested)));
    }
    results
}

/// Sets one limit with the function `write`, which returns the limit that the kernel reports.
/// Records the result.
fn set(
    kind: LimitKind,
    requested: &str,
    unavailable_reason: Option<&str>,
    write: impl FnOnce() -> io::Result<String>,
) -> LimitReadBack {
    let result = match unavailable_reason {
        Some(reason) => Err(reason.to_string()),
        None => write().map_err(|error| error.to_string()),
    };
    let (read_back, reason) = match result {
        Ok(text) => (Some(text), None),
        Err(reason) => (None, Some(reason)),
    };
    LimitReadBack { kind, asked: requested.into(), read_back, reason }
}

/// Sets the CPU quota of a group, and returns the quota that the kernel reports.
fn set_quota(group: &Group, cpus: f64) -> io::Result<String> {
    let quota_us = (cpus * PERIOD_US as f64).round() as u64;
    if let Some(folder) = &group.v2 {
        let read = write_read(&folder.join("cpu.max"), &format!("{quota_us} {PERIOD_US}"))?;
        // Quota and period, separated by a blank.
        let (quota, period) = read.split_once(' ').unwrap_or((&read, "?"));
        return Ok(format!("{quota} µs per {period} µs"));
    }
    let folder = v1_folder(group, "cpu")?;
    write_read(&folder.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
    let quota = write_read(&folder.join("cpu.cfs_quota_us"), &quota_us.to_string())?;
    Ok(format!("{quota} µs per {PERIOD_US} µs"))
}

/// Sets the memory limit of a group without swap, and returns the limit that the kernel reports.
/// `Err`: the kernel refused the limit, or could swap the group's pages out instead of enforcing
/// the limit.
fn set_memory(group: &Group, bytes: u64) -> io::Result<String> {
    if let Some(folder) = &group.v2 {
        let read = write_read(&folder.join("memory.max"), &bytes.to_string())?;
        forbid_swap(&folder.join("memory.swap.max"), "0")?;
        return Ok(format!("{read} bytes"));
    }
    let folder = v1_folder(group, "memory")?;
    let read = write_read(&folder.join("memory.limit_in_bytes"), &bytes.to_string())?;
    forbid_swap(&folder.join("memory.memsw.limit_in_bytes"), &bytes.to_string())?;
    Ok(format!("{read} bytes"))
}

/// Limits the swap of a group. `file`: file of the kernel with the limit. `value`: value for the
/// file. With swap, the kernel would swap pages out instead of enforcing a memory limit.
fn forbid_swap(file: &Path, value: &str) -> io::Result<()> {
    let written = fs::write(file, value);
    swap_result(written, || fs::read_to_string("/proc/swaps").ok())
}

/// Checks that a group cannot swap. `written`: result of writing the group's swap limit; an error
/// on a kernel without swap accounting, which lacks the file of the limit. The error is ignored if
/// the machine has no swap. `swaps`: reads `/proc/swaps`; `None`: the file is not readable.
fn swap_result(written: io::Result<()>, swaps: impl FnOnce() -> Option<String>) -> io::Result<()> {
    let Err(error) = written else { return Ok(()) };
    // The first line has the names of the columns.
    let has_swap = swaps().is_none_or(|text| text.lines().skip(1).any(|line| !line.is_empty()));
    match (has_swap, error.kind()) {
        (false, _) => Ok(()),
        (true, io::ErrorKind::NotFound) => Err(io::Error::other(
            "the kernel cannot limit swap, so the server could use swap beyond its memory limit",
        )),
        (true, _) => Err(io::Error::other(format!(
            "the kernel refused to limit swap ({error}), so the server could use swap beyond its \
             memory limit"
        ))),
    }
}

/// Sets the CPUs of a group, and returns the CPUs that the group can use. `cpus` may include CPUs
/// that do not exist.
fn set_cpuset(group: &Group, cpus: &str) -> io::Result<String> {
    let (folder, effective) = match &group.v2 {
        Some(folder) => (folder.clone(), "cpuset.cpus.effective"),
        None => (v1_folder(group, "cpuset")?, "cpuset.effective_cpus"),
    };
    let written = write_read(&folder.join("cpuset.cpus"), cpus)?;
    let effective = fs::read_to_string(folder.join(effective)).unwrap_or_default();
    // If the kernel does not report the effective CPUs, the written CPUs are returned.
    let effective = effective.trim();
    Ok(if effective.is_empty() { written } else { effective.into() })
}

/// Returns the folder of a group in the hierarchy of a v1 controller.
fn v1_folder(group: &Group, controller: &str) -> io::Result<PathBuf> {
    let missing = || {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("control group controller {controller}: not mounted"),
        )
    };
    group.v1.get(controller).cloned().ok_or_else(missing)
}

/// Writes a value to a file and reads it back.
fn write_read(path: &Path, value: &str) -> io::Result<String> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    fs::write(path, value).map_err(named)?;
    Ok(fs::read_to_string(path).map_err(named)?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    #[test]
    fn memory_limit_without_swap_accounting_is_not_enforced() {
        let device = format!("{COLUMNS}/dev/sda2 partition\t2097148\t0\t-2\n");
        let result = |written: io::Result<()>, swaps: Option<&str>| {
            swap_result(written, || swaps.map(String::from)).map_err(|error| error.to_string())
        };
        let missing = || Err(io::ErrorKind::NotFound.into());
        assert_eq!(result(Ok(()), Some(&device)), Ok(()));
        assert_eq!(result(missing(), Some(COLUMNS)), Ok(()), "the machine has no swap");
        for swaps in [Some(device.as_str()), None] {
            assert_eq!(
                result(missing(), swaps).unwrap_err(),
                "the kernel cannot limit swap, so the server could use swap beyond its memory limit"
            );
        }
        let refused = result(Err(io::ErrorKind::PermissionDenied.into()), Some(&device));
        assert!(refused.unwrap_err().contains("(permission denied)"));
    }

    #[test]
    fn unlimited_swap_leaves_memory_limit_unset() {
        let set_unlimited = || -> io::Result<String> {
            swap_result(Err(io::ErrorKind::NotFound.into()), || None)?;
            Ok("1 bytes".into())
        };
        let limit = set(LimitKind::Memory, "1 bytes", None, set_unlimited);
        assert_eq!(limit.read_back, None);
        assert!(limit.reason.unwrap().ends_with("beyond its memory limit"));
    }
}
