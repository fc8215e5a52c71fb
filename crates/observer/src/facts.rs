//! Reads the facts of the machine that an archive records: hardware, kernel, settings and
//! permissions. The facts show whether two runs are comparable, and which measurements this machine
//! cannot make.

use dyno_model::Facts;
use dyno_model::facts::{CgroupVersion, Missing};
use dyno_model::tracking::TrackingUse;
use rustix::process::{Resource, geteuid, getrlimit};

use crate::cgroup::Layout;
use crate::host::online_cpus;
use crate::tracking::IpVersion;
use crate::{Files, accounting, network, read, read_number, tracking};

/// Settings of the kernel that affect servers and load generators.
const SYSCTLS: [&str; 8] = [
    "net/core/somaxconn",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_autocorking",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_tw_reuse",
    "kernel/perf_event_paranoid",
    "vm/swappiness",
];

/// Reads all facts. `version` and `commit` belong to dyno.
#[must_use]
pub fn read_facts(version: &str, commit: Option<&str>) -> Facts {
    let layout = Layout::read();
    // dyno gives servers IPv4 addresses, if the machine has any.
    let is_tracked = tracking::is_loopback_tracked;
    let loopback_tracked = is_tracked(IpVersion::V4).or_else(|| is_tracked(IpVersion::V6));
    let mut facts = Facts {
        cpu_model: cpu_model(),
        cpus: cpus(),
        online_cpus: online_cpus(),
        memory_bytes: memory_bytes(),
        kernel: read("/proc/sys/kernel/osrelease").map(|s| s.trim().to_string()),
        os: os_name(),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            .map(|s| s.trim().to_string()),
        virtualisation: virtualisation(),
        clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .map(|s| s.trim().to_string()),
        cgroup: layout.version(),
        sysctls: SYSCTLS.iter().filter_map(|name| sysctl(name)).collect(),
        open_files_limit: Some(open_files_limit()),
        privileged: is_root(),
        tick_accounting: accounting::tick_accounting(),
        irq_time_accounting: accounting::irq_time_accounting(),
        loopback_tracked,
        max_tracking_entries: if loopback_tracked == Some(true) {
            tracking::max_connections()
        } else {
            None
        },
        dyno_version: version.to_string(),
        dyno_commit: commit.map(String::from),
        missing: Vec::new(),
    };
    let network = network::counters_here(&Files::with_limit(0));
    facts.missing = list_missing(&facts, &layout);
    facts.missing.extend(missing_drops(&facts, network.and_then(|network| network.tracking)));
    facts
}

/// Lists the measurements that this machine or this user cannot make, with reasons and hints.
fn list_missing(facts: &Facts, layout: &Layout) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut add = |measurement: &str, reason: String, hint: &str| {
        missing.push(Missing { measurement: measurement.into(), reason, hint: hint.into() });
    };
    if layout.version() == CgroupVersion::None {
        add(
            "CPU and memory limits, and exact CPU and memory use of a subject",
            "no control group with the cpu and memory controllers is mounted".into(),
            "Mount cgroup v2 and enable its cpu and memory controllers, as systemd does.",
        );
    } else if !facts.privileged && !may_make_groups(layout) {
        add(
            "CPU and memory limits, and exact CPU and memory use of a subject",
            "this user cannot create control groups".into(),
            "Run dyno as root, or in a delegated group: `systemd-run --user --scope -p \
             Delegate=yes dyno run …`.",
        );
    }
    if facts.governor.is_none() {
        add(
            "the CPU frequency and its governor",
            "the kernel provides no cpufreq, as in most virtual machines".into(),
            "To control the frequency, measure on bare metal after `cpupower frequency-set -g \
             performance`.",
        );
    }
    if !has_hardware_counters() {
        add(
            "cycles, instructions and cache misses",
            "this machine provides no CPU performance counters".into(),
            "Use a machine, or an instance type, with CPU performance counters.",
        );
    }
    missing
}

/// Returns the entry for the drops of connection tracking, if loopback is tracked and this user
/// cannot read their counters. A full table then shows only as connections that time out.
fn missing_drops(facts: &Facts, tracking: Option<TrackingUse>) -> Option<Missing> {
    let is_known = tracking.is_some_and(|counters| counters.dropped.is_some());
    (facts.loopback_tracked == Some(true) && !is_known).then(|| Missing {
        measurement: "packets dropped by connection tracking".into(),
        reason: "the kernel tracks connections over loopback, and only root can read the counters \
                 of dropped packets"
            .into(),
        hint: "Run dyno as root, or exempt loopback from connection tracking.".into(),
    })
}

/// Whether this process may create a group below its own group, in the version of control groups
/// that sets limits on this machine.
#[must_use]
pub fn may_make_groups(layout: &Layout) -> bool {
    let folders: Vec<_> = match layout.version() {
        CgroupVersion::V2 => layout.v2.iter().map(|v2| v2.folder.clone()).collect(),
        CgroupVersion::V1 => {
            ["cpu", "cpuacct", "memory"].iter().filter_map(|c| layout.v1.get(*c).cloned()).collect()
        }
        CgroupVersion::None => return false,
    };
    let is_writable = |folder: &std::path::PathBuf| {
        let probe = folder.join(format!("dyno-probe-{}", std::process::id()));
        std::fs::create_dir(&probe).is_ok() && std::fs::remove_dir(&probe).is_ok()
    };
    !folders.is_empty() && folders.iter().all(is_writable)
}

fn sysctl(name: &str) -> Option<(String, String)> {
    let value = read(format!("/proc/sys/{name}"))?;
    Some((name.replace('/', "."), value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")))
}

/// Returns the model name of the CPU.
#[must_use]
pub fn cpu_model() -> Option<String> {
    let info = read("/proc/cpuinfo")?;
    let line = info.lines().find(|l| l.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// Returns the number of CPUs that this process may use, at most its CPU quota rounded down.
#[must_use]
pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

fn memory_bytes() -> Option<u64> {
    let info = read("/proc/meminfo")?;
    let kb = info.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    Some(kb.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn os_name() -> Option<String> {
    let release = read("/etc/os-release")?;
    let name = release.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_string())
}

/// Returns the hypervisor: `none`, or `virtual machine` with the vendor if it is known. `None`: the
/// CPU does not report its flags.
fn virtualisation() -> Option<String> {
    let info = read("/proc/cpuinfo")?;
    let is_guest =
        info.lines().find(|l| l.starts_with("flags"))?.split(' ').any(|f| f == "hypervisor");
    if !is_guest {
        return Some("none".into());
    }
    let vendor = read("/sys/class/dmi/id/sys_vendor").unwrap_or_default().to_lowercase();
    let vendors = ["qemu", "vmware", "xen", "microsoft", "amazon ec2", "google"];
    let name = vendors.iter().find(|k| vendor.contains(*k));
    Some(name.map_or_else(|| "virtual machine".to_string(), |n| format!("virtual machine ({n})")))
}

/// Returns the hard limit of open files; `u64::MAX`: unlimited.
fn open_files_limit() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

fn is_root() -> bool {
    geteuid().is_root()
}

/// Whether the CPU's performance counters are available. The kernel then lists them as an event
/// source.
fn has_hardware_counters() -> bool {
    ["cpu", "cpu_core", "armv8_pmuv3", "armv8_pmuv3_0"]
        .iter()
        .any(|name| read_number(format!("/sys/bus/event_source/devices/{name}/type")).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_drops_of_tracked_loopback_are_missing() {
        let facts = |loopback_tracked| Facts { loopback_tracked, ..Facts::default() };
        let entries_only = TrackingUse { entries: 7, ..TrackingUse::default() };
        let counted = TrackingUse { dropped: Some(0), ..entries_only };
        assert!(missing_drops(&facts(Some(true)), Some(entries_only)).is_some());
        assert!(missing_drops(&facts(Some(true)), None).is_some());
        assert_eq!(missing_drops(&facts(Some(true)), Some(counted)), None);
        for untracked in [Some(false), None] {
            assert_eq!(missing_drops(&facts(untracked), Some(entries_only)), None);
        }
    }

    #[test]
    fn facts_of_this_machine_are_read() {
        let facts = read_facts("1.2.3", Some("abc"));
        assert!(facts.cpus >= 1);
        assert!(facts.memory_bytes.unwrap() > 1 << 20);
        assert!(facts.kernel.unwrap().contains('.'));
        assert_eq!(facts.cgroup, Layout::read().version());
        for missing in facts.missing {
            assert!(!missing.reason.is_empty() && missing.hint.ends_with('.'), "{missing:?}");
        }
    }
}
