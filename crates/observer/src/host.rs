//! Counters of the whole machine.

use dyno_archive::machine::CpuUse;
use dyno_archive::sample::HostUse;

use crate::proc::tick_ns;
use crate::read;

pub(crate) fn counters() -> Option<HostUse> {
    parse(&read("/proc/stat")?, tick_ns())
}

/// `/proc/stat` (proc_stat(5)): `cpu user nice system idle iowait irq softirq steal guest guest_nice`, in ticks.
fn parse(stat: &str, tick_ns: u64) -> Option<HostUse> {
    let Ticks { busy, idle, steal } = Ticks::parse(stat.lines().find_map(|l| l.strip_prefix("cpu "))?)?;
    let switches = stat.lines().find_map(|l| l.strip_prefix("ctxt "))?;
    Some(HostUse {
        busy_ns: busy * tick_ns,
        idle_ns: idle * tick_ns,
        steal_ns: steal * tick_ns,
        context_switches: switches.trim().parse().ok()?,
    })
}

/// What each CPU of this machine did since it started; nothing where the kernel does not tell.
#[must_use]
pub fn each_cpu() -> Vec<CpuUse> {
    read("/proc/stat").map(|stat| parse_each(&stat, tick_ns())).unwrap_or_default()
}

fn parse_each(stat: &str, tick_ns: u64) -> Vec<CpuUse> {
    let one = |line: &str| {
        let (cpu, ticks) = line.strip_prefix("cpu")?.split_once(' ')?;
        let Ticks { busy, idle, steal } = Ticks::parse(ticks)?;
        Some(CpuUse {
            cpu: cpu.parse().ok()?,
            busy_ns: busy * tick_ns,
            idle_ns: idle * tick_ns,
            steal_ns: steal * tick_ns,
        })
    };
    stat.lines().filter_map(one).collect()
}

/// A line of `/proc/stat` without its name.
struct Ticks {
    busy: u64,
    idle: u64,
    steal: u64,
}

impl Ticks {
    fn parse(line: &str) -> Option<Ticks> {
        let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
        let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks.as_slice() else {
            return None;
        };
        // Guest time is part of user time and must not count twice.
        Some(Ticks { busy: user + nice + system + irq + softirq, idle: idle + iowait, steal })
    }
}

/// CPUs that are online, whether or not this process may use them. 1 if the kernel does not tell.
#[must_use]
pub fn online_cpus() -> usize {
    let is_cpu = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    read("/proc/stat").map_or(1, |stat| stat.lines().filter(is_cpu).count().max(1))
}

/// How many local ports a connection from one address may use, as the kernel is set up.
#[must_use]
pub fn local_ports() -> Option<u64> {
    let (first, last) = local_port_range()?;
    u64::from(last).checked_sub(first.into()).map(|between| between + 1)
}

/// The first and the last port that the kernel gives to connections which ask for none.
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
    fn a_stat_file_is_parsed() {
        let text = "cpu  10 1 20 300 4 5 6 7 99 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 1\nctxt 12345\n";
        let host = parse(text, 10).unwrap();
        assert_eq!(
            (host.busy_ns, host.idle_ns, host.steal_ns, host.context_switches),
            (420, 3040, 70, 12345)
        );
        assert_eq!(parse("cpu  1 2\nctxt 1\n", 10), None);
        let text = "cpu  1 1 1 1 1 1 1 1 1 1\ncpu0 10 1 20 300 4 5 6 7 99 0\ncpu12 1 0 0 2 0 0 0 3\nintr 1\n";
        let cpu = |cpu, busy_ns, idle_ns, steal_ns| CpuUse { cpu, busy_ns, idle_ns, steal_ns };
        assert_eq!(parse_each(text, 10), [cpu(0, 420, 3040, 70), cpu(12, 10, 20, 30)]);
        assert!(each_cpu().iter().any(|cpu| cpu.busy_ns > 0));
    }
}
