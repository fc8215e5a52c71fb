//! Reads the counters of the whole machine: CPU time, pressure, disks, network devices and thermal
//! throttling. The counters show whether the machine, and not the server, limited a measurement.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use dyno_model::host::{DiskUse, HostUse, LinkUse, PressureUse};
use dyno_model::machine::{CpuUse, HeatUse};

use crate::clock::tick_ns;
use crate::files::Files;
use crate::{accounting, path, read, read_number};

/// Reads all counters. `None`: `/proc/stat` cannot be read.
pub(crate) fn counters(files: &Files) -> Option<HostUse> {
    let host = counters_without_networks_and_disks(files)?;
    Some(HostUse {
        disks: files.read("/proc/diskstats").map(|text| disks(&text)),
        // Devices of the machine's own network namespace. This process may be in another namespace.
        links: files
            .read("/proc/1/net/dev")
            .or_else(|| files.read("/proc/net/dev"))
            .map(|text| links(&text, |name| speed(name, files))),
        backlog: path::backlog_use(files),
        neighbour_overflows: path::neighbour_overflows(files),
        tcp_memory: path::tcp_memory(files),
        ..host
    })
}

/// Reads all counters except those of networks and disks.
pub(crate) fn counters_without_networks_and_disks(files: &Files) -> Option<HostUse> {
    let times = parse(&files.read("/proc/stat")?, tick_ns(), &FIRST_TICKS)?;
    Some(HostUse {
        pressure: pressure(|resource| files.read(format!("/proc/pressure/{resource}"))),
        frequency_khz: frequency_khz(files),
        // Omitted if the CPU times of programs include interrupts, because analysis would count the
        // time of interrupts twice.
        interrupt_ns: if accounting::excludes_interrupts() { times.interrupt_ns } else { None },
        ..times
    })
}

/// Returns the pressure stall times. `None`: this kernel does not record them. `read`: the text of
/// a resource's file.
fn pressure(read: impl Fn(&str) -> Option<String>) -> Option<PressureUse> {
    let stalled_ns = |resource| Some(parse_some_us(&read(resource)?)? * 1000);
    let pressure = PressureUse {
        cpu_ns: stalled_ns("cpu"),
        memory_ns: stalled_ns("memory"),
        io_ns: stalled_ns("io"),
    };
    (pressure != PressureUse::default()).then_some(pressure)
}

/// Parses the total of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, in
/// microseconds (Documentation/accounting/psi.rst).
fn parse_some_us(text: &str) -> Option<u64> {
    let fields = text.lines().find_map(|line| line.strip_prefix("some "))?;
    fields.split(' ').find_map(|field| field.strip_prefix("total=")?.parse().ok())
}

/// Parses lines of `/proc/diskstats` (Documentation/admin-guide/iostats.rst):
/// `major minor name reads merged sectors ms writes merged sectors ms underway ms …`. A sector of
/// this file is 512 bytes, even if the disk's own sectors are larger.
fn disks(text: &str) -> Vec<DiskUse> {
    const SECTOR: u64 = 512;
    let disk = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
        Some(DiskUse {
            name: fields.get(2).filter(|name| is_disk(name))?.to_string(),
            bytes_read: number(5)? * SECTOR,
            bytes_written: number(9)? * SECTOR,
            disk_busy_ns: number(12).map(|ms| ms * 1_000_000),
        })
    };
    text.lines().filter_map(disk).collect()
}

/// Whether a block device is a whole physical disk, and not a partition or a virtual device.
fn is_disk(name: &str) -> bool {
    let has_number = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.contains(|c: char| c.is_ascii_digit()))
    };
    // `sda1` is a partition of `sda`, `nvme0n1p1` one of `nvme0n1`.
    let is_partition = ["sd", "vd", "hd", "xvd"].iter().any(|prefix| has_number(prefix))
        || ((name.starts_with("nvme") || name.starts_with("mmcblk")) && name.contains('p'));
    let is_virtual = ["loop", "ram", "zram", "dm-", "md", "sr", "fd"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    !is_virtual && !is_partition
}

/// Parses lines of `/proc/net/dev`:
/// `name: bytes packets errs drop fifo frame compressed multicast bytes …`.
fn links(text: &str, speed: impl Fn(&str) -> Option<u64>) -> Vec<LinkUse> {
    let link = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let name = Some(name.trim()).filter(|name| *name != "lo")?;
        let numbers: Vec<u64> =
            rest.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
        let [bytes_in, _, _, _, _, _, _, _, bytes_out, ..] = numbers[..] else { return None };
        Some(LinkUse { name: name.into(), bytes_in, bytes_out, bits_per_s: speed(name) })
    };
    text.lines().filter_map(link).collect()
}

/// Returns the speed of a network device in each direction, bits per second. `None`: the speed is
/// unknown, or the device is virtual.
///
/// An unknown speed is -1 or an empty file (Documentation/ABI/testing/sysfs-class-net). Virtual
/// devices report a speed that is not a limit: a tunnel 10 Mbit/s (drivers/net/tun.c), a veth pair
/// 10 Gbit/s (drivers/net/veth.c).
fn speed(name: &str, files: &Files) -> Option<u64> {
    let path = |file: &str| format!("/sys/class/net/{name}/{file}");
    let megabits = files.number(path("speed")).filter(|megabits| *megabits > 0)?;
    if !std::path::Path::new(&path("device")).exists() {
        return None;
    }
    megabits.checked_mul(1_000_000)
}

/// Returns the current frequency of the first CPU. Other CPUs are not read, because some kernels
/// interrupt a CPU to read its frequency, and wait for the result.
fn frequency_khz(files: &Files) -> Option<u64> {
    files.number("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
}

/// CPU times of the machine when this process first read them.
static FIRST_TICKS: OnceLock<Ticks> = OnceLock::new();

/// Parses `/proc/stat` (proc_stat(5)). Its CPU line is
/// `cpu user nice system idle iowait irq softirq steal guest guest_nice`, in ticks.
///
/// CPU times are counted from `first`, and not from the start of the machine. On a machine with
/// many CPUs, the total since its start can exceed the limits of an archive, and even 64 bits of
/// nanoseconds.
fn parse(stat: &str, tick_ns: u64, first: &OnceLock<Ticks>) -> Option<HostUse> {
    let ticks = Ticks::parse(stat.lines().find_map(|l| l.strip_prefix("cpu "))?)?;
    let Ticks { busy, idle, steal, interrupts } = ticks.since(*first.get_or_init(|| ticks));
    let number = |key| {
        let numbers = stat.lines().find_map(|l| l.strip_prefix(key))?;
        numbers.split_ascii_whitespace().next()?.parse().ok()
    };
    let switches = stat.lines().find_map(|l| l.strip_prefix("ctxt "))?;
    Some(HostUse {
        busy_ns: busy * tick_ns,
        idle_ns: idle * tick_ns,
        steal_ns: steal * tick_ns,
        interrupt_ns: Some(interrupts * tick_ns),
        context_switches: switches.trim().parse().ok()?,
        runnable: number("procs_running "),
        births: number("processes "),
        // The first number is the sum of all interrupts.
        interrupts: number("intr "),
        ..HostUse::default()
    })
}

/// Times of each CPU of this machine since boot; empty: the kernel does not report them.
#[must_use]
pub fn each_cpu() -> Vec<CpuUse> {
    let parse = |stat: String| parse_each(&stat, tick_ns(), accounting::excludes_interrupts());
    read("/proc/stat").map(parse).unwrap_or_default()
}

/// `excludes_interrupts`: whether the CPU time of programs excludes interrupts. Only then
/// `interrupt_ns` is known.
fn parse_each(stat: &str, tick_ns: u64, excludes_interrupts: bool) -> Vec<CpuUse> {
    let parse_cpu = |line: &str| {
        let (cpu, ticks) = line.strip_prefix("cpu")?.split_once(' ')?;
        let Ticks { busy, idle, steal, interrupts } = Ticks::parse(ticks)?;
        Some(CpuUse {
            cpu: cpu.parse().ok()?,
            busy_ns: busy * tick_ns,
            idle_ns: idle * tick_ns,
            steal_ns: steal * tick_ns,
            interrupt_ns: excludes_interrupts.then_some(interrupts * tick_ns),
        })
    };
    stat.lines().filter_map(parse_cpu).collect()
}

/// Reads the thermal throttling of these CPUs and of their packages since the machine started.
/// Empty: the kernel does not report it (the source is drivers/thermal/intel/therm_throt.c).
#[must_use]
pub fn thermal_throttling(cpus: &[u32]) -> ThermalThrottling {
    read_throttling(cpus, |cpu, counter| {
        read_number(format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{counter}"))
    })
}

/// Throttling counters by CPU, and by its part: `core` or `package`.
pub type ThermalThrottling = BTreeMap<(u32, &'static str), HeatUse>;

/// `read`: returns a counter of a CPU by its name.
fn read_throttling(cpus: &[u32], read: impl Fn(u32, &str) -> Option<u64>) -> ThermalThrottling {
    let counters = |cpu: u32, part: &'static str| {
        let total_ms = read(cpu, &format!("{part}_throttle_total_time_ms"))?;
        let events = read(cpu, &format!("{part}_throttle_count"))?;
        Some(((cpu, part), HeatUse { throttled_ns: total_ms * 1_000_000, events }))
    };
    let parts = cpus.iter().flat_map(|cpu| ["core", "package"].map(|part| counters(*cpu, part)));
    parts.flatten().collect()
}

/// Returns the largest throttling of a core or package between two readings. `None`: the kernel
/// does not report throttling. The kernel counts a throttled period at its end.
#[must_use]
pub fn max_throttling(first: &ThermalThrottling, last: &ThermalThrottling) -> Option<HeatUse> {
    last.iter().filter_map(|(part, last)| Some(last.growth_since(*first.get(part)?))).max()
}

/// CPU times of a line of `/proc/stat`, in ticks.
#[derive(Clone, Copy)]
struct Ticks {
    busy: u64,
    idle: u64,
    steal: u64,
    /// Interrupts and softirqs, part of `busy`.
    interrupts: u64,
}

impl Ticks {
    fn parse(line: &str) -> Option<Ticks> {
        let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
        let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks.as_slice() else {
            return None;
        };
        let interrupts = irq + softirq;
        // User time already includes guest time.
        let busy = user + nice + system + interrupts;
        Some(Ticks { busy, idle: idle + iowait, steal, interrupts })
    }

    /// Returns the growth since the first reading. The idle time can fall (proc_stat(5)).
    fn since(self, first: Ticks) -> Ticks {
        Ticks {
            busy: self.busy.saturating_sub(first.busy),
            idle: self.idle.saturating_sub(first.idle),
            steal: self.steal.saturating_sub(first.steal),
            interrupts: self.interrupts.saturating_sub(first.interrupts),
        }
    }
}

/// Returns the number of all online CPUs, including CPUs that this process may not use. `None`:
/// unknown.
#[must_use]
pub fn online_cpus() -> Option<u32> {
    let is_cpu = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    let cpus = read("/proc/stat")?.lines().filter(is_cpu).count();
    u32::try_from(cpus).ok().filter(|cpus| *cpus > 0)
}

/// Returns the number of local ports that the kernel assigns to connections from one address.
#[must_use]
pub fn local_ports() -> Option<u64> {
    let (first, last) = local_port_range()?;
    u64::from(last).checked_sub(first.into()).map(|between| between + 1)
}

/// Returns the first and last port that the kernel assigns to connections without a chosen port.
#[must_use]
pub fn local_port_range() -> Option<(u16, u16)> {
    let text = read("/proc/sys/net/ipv4/ip_local_port_range")?;
    let mut edges = text.split_ascii_whitespace().map_while(|n| n.parse().ok());
    Some((edges.next()?, edges.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_of_machine_count_from_first_reading() {
        let first = OnceLock::new();
        let read = |idle: u64| {
            let text = format!("cpu  1 1 1 {idle} 1 1 1 1\nctxt 5\n");
            let host = parse(&text, 10_000_000, &first).unwrap();
            (host.busy_ns, host.idle_ns, host.steal_ns)
        };
        // 1,024 CPUs, idle for three years, in hundredths of a second.
        let since_boot = 1024 * 3 * 31_557_600 * 100;
        assert_eq!(read(since_boot), (0, 0, 0));
        assert_eq!(read(since_boot + 7), (0, 70_000_000, 0));
    }

    #[test]
    fn machine_counters_are_parsed() {
        let text = "cpu  1 1 1 1 1 1 1 1\nintr 700 3 4\nctxt 5\nprocesses 77\nprocs_running 3\n";
        let host = parse(text, 10, &OnceLock::new()).unwrap();
        assert_eq!((host.runnable, host.interrupts, host.births), (Some(3), Some(700), Some(77)));
        let psi = |resource: &str| {
            (resource == "io").then(|| {
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=25\nfull avg10=0.00 total=9\n"
                    .to_string()
            })
        };
        assert_eq!(
            pressure(psi),
            Some(PressureUse { io_ns: Some(25_000), ..PressureUse::default() })
        );
        assert_eq!(pressure(|_| None), None);
        let stats = "254 0 vda 10 0 100 5 20 0 200 7 0 30 37\n\
                     254 1 vda1 10 0 100 5 20 0 200 7 0 30 37\n\
                     259 0 nvme0n1 1 0 2 0 1 0 4 0 0 50 1\n259 1 nvme0n1p1 1 0 2 0 1 0 4 0 0 50 1\n\
                     7 0 loop0 9 0 9 9 9 0 9 9 0 90 9\n";
        let disk = |name: &str, read: u64, written: u64, busy_ms: u64| DiskUse {
            name: name.into(),
            bytes_read: read * 512,
            bytes_written: written * 512,
            disk_busy_ns: Some(busy_ms * 1_000_000),
        };
        assert_eq!(disks(stats), [disk("vda", 100, 200, 30), disk("nvme0n1", 2, 4, 50)]);
        let dev = "Inter-| Receive\n face |bytes\n    lo: 9 0 0 0 0 0 0 0 9 0\n  eth0: 70 1 0 0 0 \
                   0 0 0 80 1 0\n";
        let eth0 =
            LinkUse { name: "eth0".into(), bytes_in: 70, bytes_out: 80, bits_per_s: Some(9) };
        assert_eq!(links(dev, |name| (name == "eth0").then_some(9)), [eth0]);
        assert!(counters(&Files::default()).unwrap().interrupts.is_some());
    }

    #[test]
    fn max_throttling_is_largest_growth_of_part() {
        // The core of CPU 0 was throttled earlier. The package of both CPUs is throttled now.
        let reading = |package_ms: u64, package_events: u64| {
            move |cpu: u32, counter: &str| match (cpu, counter) {
                (0, "core_throttle_total_time_ms") => Some(90),
                (0, "core_throttle_count") => Some(9),
                (1, "core_throttle_total_time_ms" | "core_throttle_count") => Some(0),
                (0 | 1, "package_throttle_total_time_ms") => Some(package_ms),
                (0 | 1, "package_throttle_count") => Some(package_events),
                _ => None,
            }
        };
        let cpus = [0, 1, 7];
        let first = read_throttling(&cpus, reading(2, 1));
        let last = read_throttling(&cpus, reading(7, 3));
        assert_eq!((first.len(), last.len()), (4, 4), "no values of CPU 7");
        let expected = HeatUse { throttled_ns: 5_000_000, events: 2 };
        assert_eq!(max_throttling(&first, &last), Some(expected));
        assert_eq!(max_throttling(&read_throttling(&[0], |_, _| None), &last), None);
    }

    #[test]
    fn stat_file_is_parsed() {
        let text = "cpu  10 1 20 300 4 5 6 7 99 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 1\nctxt 12345\n";
        let first = OnceLock::from(Ticks { busy: 2, idle: 4, steal: 6, interrupts: 1 });
        let host = parse(text, 10, &first).unwrap();
        assert_eq!(
            (host.busy_ns, host.idle_ns, host.steal_ns, host.context_switches),
            (400, 3000, 10, 12345)
        );
        assert_eq!(host.interrupt_ns, Some(100));
        assert_eq!(parse("cpu  1 2\nctxt 1\n", 10, &first), None);
        let text = "cpu  1 1 1 1 1 1 1 1 1 1\ncpu0 10 1 20 300 4 5 6 7 99 0\ncpu12 1 0 0 2 0 0 0 \
                    3\nintr 1\n";
        let cpu = |cpu, busy_ns, idle_ns, steal_ns| CpuUse {
            cpu,
            busy_ns,
            idle_ns,
            steal_ns,
            interrupt_ns: None,
        };
        assert_eq!(parse_each(text, 10, false), [cpu(0, 420, 3040, 70), cpu(12, 10, 20, 30)]);
        let of_interrupts: Vec<_> =
            parse_each(text, 10, true).iter().map(|cpu| cpu.interrupt_ns).collect();
        assert_eq!(of_interrupts, [Some(110), Some(0)]);
        assert!(each_cpu().iter().any(|cpu| cpu.busy_ns > 0));
    }
}
