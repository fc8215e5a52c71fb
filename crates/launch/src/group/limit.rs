//! Sets the limits of a control group, and reads them back. The archive records what the kernel
//! accepted, which may differ from the request.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dyno_archive::cpus::cpu_list_text;
use dyno_archive::plan::Limits;
use dyno_archive::start::{LimitKind, LimitReadBack};
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

/// Sets one limit with the function `set`, and records the result.
fn set(
    kind: LimitKind,
    requested: &str,
    unavailable_reason: Option<&str>,
    set: impl FnOnce() -> io::Result<String>,
) -> LimitReadBack {
    let result = unavailable_reason
        .map_or_else(|| set().map_err(|e| e.to_string()), |reason| Err(reason.to_string()));
    let (read_back, reason) = match result {
        Ok(text) => (Some(text), None),
        Err(reason) => (None, Some(reason)),
    };
    LimitReadBack { kind, asked: requested.into(), read_back, reason }
}

fn set_quota(group: &Group, cpus: f64) -> io::Result<String> {
    let quota_us = (cpus * PERIOD_US as f64).round() as u64;
    if let Some(folder) = &group.v2 {
        let read = write_read(&folder.join("cpu.max"), &format!("{quota_us} {PERIOD_US}"))?;
        return Ok(format!("{read} µs per period"));
    }
    let folder = v1_folder(group, "cpu")?;
    write_read(&folder.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
    let quota = write_read(&folder.join("cpu.cfs_quota_us"), &quota_us.to_string())?;
    Ok(format!("{quota} µs per {PERIOD_US} µs"))
}

fn set_memory(group: &Group, bytes: u64) -> io::Result<String> {
    if let Some(folder) = &group.v2 {
        let read = write_read(&folder.join("memory.max"), &bytes.to_string())?;
        // Without this, the kernel would swap pages out instead of enforcing the limit. Fails on a
        // kernel without swap accounting, which lacks the file.
        let _ = fs::write(folder.join("memory.swap.max"), "0");
        return Ok(format!("{read} bytes"));
    }
    let folder = v1_folder(group, "memory")?;
    let read = write_read(&folder.join("memory.limit_in_bytes"), &bytes.to_string())?;
    let _ = fs::write(folder.join("memory.memsw.limit_in_bytes"), bytes.to_string());
    Ok(format!("{read} bytes"))
}

/// Sets the CPUs of a group, and returns the effective ones. `cpus` may include CPUs that do not
/// exist.
fn set_cpuset(group: &Group, cpus: &str) -> io::Result<String> {
    let (folder, effective) = match &group.v2 {
        Some(folder) => (folder.clone(), "cpuset.cpus.effective"),
        None => (v1_folder(group, "cpuset")?, "cpuset.effective_cpus"),
    };
    let written = write_read(&folder.join("cpuset.cpus"), cpus)?;
    let effective = fs::read_to_string(folder.join(effective)).unwrap_or_default();
    Ok(Some(effective.trim()).filter(|list| !list.is_empty()).map_or(written, String::from))
}

/// Folder of a group in the hierarchy of a v1 controller.
fn v1_folder(group: &Group, controller: &str) -> io::Result<PathBuf> {
    let missing = || {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("{controller}: this controller is not mounted here"),
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
