//! Computes the activity of the whole machine in the measured window, and the activity of other
//! programs. It shows causes outside of the server and the generator.

use std::collections::BTreeSet;

use dyno_model::host::{DiskUse, HostUse, LinkUse};
use dyno_model::{LoadRecord, Sample};
use schemars::JsonSchema;
use serde::Serialize;

use crate::drops::MachineDrops;

/// Activity of the whole machine between the samples nearest to the measured window's edges.
/// `None`: the kernel does not show it, or it was not read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MachineResult {
    /// Threads that ran or were ready to run, on all CPUs: the mean of the samples.
    pub runnable_mean: Option<f64>,
    pub context_switches_per_s: Option<f64>,
    pub interrupts_per_s: Option<f64>,
    /// Shares of the time in which a thread waited for a CPU, for memory, for a disk (PSI): 0 to 1.
    pub pressure_cpu: Option<f64>,
    pub pressure_memory: Option<f64>,
    pub pressure_io: Option<f64>,
    pub disk_read_bytes_per_s: Option<f64>,
    pub disk_written_bytes_per_s: Option<f64>,
    /// Share of the time in which the busiest disk had work.
    pub disk_utilisation: Option<f64>,
    /// Over all network devices except loopback.
    pub network_in_bytes_per_s: Option<f64>,
    pub network_out_bytes_per_s: Option<f64>,
    /// The network device with the highest utilisation; `None`: no device reports its capacity.
    pub busiest_link: Option<BusiestLink>,
    /// Frequency of the first CPU, the mean of the samples.
    pub frequency_mhz: Option<f64>,
    /// Longest time for which a CPU (or package) was throttled for heat, as a share of the time
    /// from before the load to after it: at most 1. The kernel adds a throttled time when it ends,
    /// so the throttling may have begun before the load.
    pub throttled_for_heat: Option<f64>,
    /// Processes outside of the run that used a fiftieth of a CPU or more, from before the load to
    /// after it. The process with the most CPU time is first.
    pub others: Option<Vec<OtherCpu>>,
    /// Packets and connections that the machine dropped, from before the load to after it. `None`:
    /// not read.
    pub drops: Option<MachineDrops>,
}

/// A network device and its utilisation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BusiestLink {
    pub name: String,
    /// Capacity in each direction.
    pub bits_per_s: f64,
    /// Used share of the capacity in the busier direction: 0 to 1. It counts frames without the
    /// gaps between them, so a full Ethernet with large frames is at 0.98.
    pub utilisation: f64,
}

/// A process outside of the run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OtherCpu {
    pub pid: u32,
    pub name: String,
    /// CPU time per second.
    pub cpus: f64,
}

impl MachineResult {
    /// Returns the CPUs that processes outside of the run used together. `None`: unknown.
    #[must_use]
    pub fn others_cpus(&self) -> Option<f64> {
        Some(self.others.as_ref()?.iter().fold(0.0, |sum, other| sum + other.cpus))
    }

    /// Computes the result from a load's samples.
    #[must_use]
    pub fn new(record: &LoadRecord) -> MachineResult {
        let drops = MachineDrops::from_load(record);
        let whole_load =
            MachineResult { others: other_processes(record), drops, ..MachineResult::default() };
        let whole_load = whole_load.with_heat_throttling(record);
        let edge = |at_ns: u64| {
            let at = record.began_ns + at_ns;
            record.samples.iter().min_by_key(|sample| sample.at_ns.abs_diff(at))
        };
        let edges = edge(record.window_ns.0).zip(edge(record.window_ns.1));
        let Some((first, last)) = edges.filter(|(first, last)| last.at_ns > first.at_ns) else {
            return whole_load;
        };
        let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
        let per_s = |pick: &dyn Fn(&HostUse) -> Option<u64>| {
            let value_in = |sample: &Sample| pick(sample.host.as_ref()?);
            Some(value_in(last)?.saturating_sub(value_in(first)?) as f64 / seconds)
        };
        let share =
            |pick: &dyn Fn(&HostUse) -> Option<u64>| per_s(pick).map(|ns| (ns / 1e9).min(1.0));
        let hosts = || first.host.as_ref().zip(last.host.as_ref());
        let hosts_in_window: Vec<&HostUse> = record
            .samples
            .iter()
            .filter(|sample| (first.at_ns..=last.at_ns).contains(&sample.at_ns))
            .filter_map(|sample| sample.host.as_ref())
            .collect();
        let mean = |pick: fn(&HostUse) -> Option<u64>| {
            let values: Vec<u64> = hosts_in_window.iter().filter_map(|host| pick(host)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<u64>() as f64 / values.len() as f64)
        };
        MachineResult {
            runnable_mean: mean(|h| h.runnable),
            context_switches_per_s: per_s(&|h| Some(h.context_switches)),
            interrupts_per_s: per_s(&|h| h.interrupts),
            pressure_cpu: share(&|h| h.pressure?.cpu_ns),
            pressure_memory: share(&|h| h.pressure?.memory_ns),
            pressure_io: share(&|h| h.pressure?.io_ns),
            disk_read_bytes_per_s: per_s(&|h| sum_of_disks(h, |disk| disk.bytes_read)),
            disk_written_bytes_per_s: per_s(&|h| sum_of_disks(h, |disk| disk.bytes_written)),
            disk_utilisation: hosts().and_then(|(first, last)| busiest_disk(first, last, seconds)),
            network_in_bytes_per_s: per_s(&|h| sum_of_links(h, |link| link.bytes_in)),
            network_out_bytes_per_s: per_s(&|h| sum_of_links(h, |link| link.bytes_out)),
            busiest_link: hosts().and_then(|(first, last)| busiest_link(first, last, seconds)),
            frequency_mhz: mean(|h| h.frequency_khz).map(|khz| khz / 1e3),
            ..whole_load
        }
    }

    /// Sets the share of the time for which heat throttled a CPU.
    fn with_heat_throttling(self, record: &LoadRecord) -> MachineResult {
        let machine = record.client.machine.as_ref();
        let heat = machine
            .and_then(|machine| Some((machine.heat?, machine.everywhere_ns.filter(|ns| *ns > 0)?)));
        MachineResult {
            throttled_for_heat: heat
                .map(|(heat, ns)| (heat.throttled_ns as f64 / ns as f64).min(1.0)),
            ..self
        }
    }
}

fn sum_of_disks(host: &HostUse, pick: fn(&DiskUse) -> u64) -> Option<u64> {
    Some(host.disks.as_ref()?.iter().map(pick).sum())
}

fn sum_of_links(host: &HostUse, pick: fn(&LinkUse) -> u64) -> Option<u64> {
    Some(host.links.as_ref()?.iter().map(pick).sum())
}

/// Returns the highest share of the time that a disk was busy, over the disks present at both
/// instants.
fn busiest_disk(first: &HostUse, last: &HostUse, seconds: f64) -> Option<f64> {
    let earlier_disks = first.disks.as_ref()?;
    let share = |disk: &DiskUse| {
        let before = earlier_disks.iter().find(|before| before.name == disk.name)?;
        let busy_ns = disk.disk_busy_ns?.saturating_sub(before.disk_busy_ns?);
        Some((busy_ns as f64 / 1e9 / seconds).min(1.0))
    };
    last.disks.as_ref()?.iter().filter_map(share).max_by(f64::total_cmp)
}

/// Returns the network device with the highest utilisation between two instants.
fn busiest_link(first: &HostUse, last: &HostUse, seconds: f64) -> Option<BusiestLink> {
    let earlier_links = first.links.as_ref()?;
    let link_use = |link: &LinkUse| {
        let before = earlier_links.iter().find(|before| before.name == link.name)?;
        let bits_per_s = link.bits_per_s.filter(|bits| *bits > 0)? as f64;
        let (received, sent) = (
            link.bytes_in.saturating_sub(before.bytes_in),
            link.bytes_out.saturating_sub(before.bytes_out),
        );
        let utilisation = received.max(sent) as f64 * 8.0 / seconds / bits_per_s;
        Some(BusiestLink { name: link.name.clone(), bits_per_s, utilisation: utilisation.min(1.0) })
    };
    let links = last.links.as_ref()?.iter().filter_map(link_use);
    links.max_by(|a, b| a.utilisation.total_cmp(&b.utilisation))
}

/// Returns the processes outside of the run: neither a monitored party nor another server that is
/// loaded at the same time.
fn other_processes(record: &LoadRecord) -> Option<Vec<OtherCpu>> {
    let machine = record.client.machine.as_ref()?;
    let seconds = machine.everywhere_ns.filter(|ns| *ns > 0)? as f64 / 1e9;
    let parties = record.samples.iter().flat_map(|sample| &sample.parties);
    let co_runners = record.samples.iter().filter_map(|sample| sample.co_runners.as_ref());
    let co_runner_pids = co_runners.flat_map(|co_runners| co_runners.pids.iter().copied());
    let party_pids = parties.flat_map(|used| &used.threads).map(|thread| thread.pid);
    let watched_pids: BTreeSet<u32> = party_pids.chain(co_runner_pids).collect();
    let others =
        machine.everywhere.as_ref()?.iter().filter(|other| !watched_pids.contains(&other.pid));
    let cpus = |ns: u64| ns as f64 / 1e9 / seconds;
    Some(
        others
            .map(|o| OtherCpu { pid: o.pid, name: o.name.clone(), cpus: cpus(o.run_ns) })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use dyno_model::host::PressureUse;
    use dyno_model::machine::{MachineUse, OtherUse};

    use super::*;
    use crate::fixture::record_with_threads;

    #[test]
    fn machine_result_is_between_window_edges() {
        let mut record = record_with_threads(&[(500, 0)]);
        let last = record.samples.len() - 1;
        for (i, sample) in record.samples.iter_mut().enumerate() {
            let host = sample.host.get_or_insert_default();
            let n = if i == last { 1_000_000_000 } else { 0 };
            host.runnable = Some(2 + i as u64);
            host.pressure = Some(PressureUse { io_ns: Some(n), ..PressureUse::default() });
            let disk = |name: &str, bytes_written, disk_busy_ns| DiskUse {
                name: name.into(),
                bytes_written,
                disk_busy_ns: Some(disk_busy_ns),
                ..DiskUse::default()
            };
            // A disk that was busy before the window is not busy in it.
            host.disks = Some(vec![disk("old", 0, 90_000_000_000), disk("new", n, n / 4)]);
            let link = |name: &str, bytes_in, bits_per_s| LinkUse {
                name: name.into(),
                bytes_in,
                bytes_out: 7,
                bits_per_s,
            };
            host.links =
                Some(vec![link("veth", 2 * n, None), link("eth0", n, Some(16_000_000_000))]);
        }
        let seconds = (record.samples[last].at_ns - record.samples[0].at_ns) as f64 / 1e9;
        let machine = MachineResult::new(&record);
        assert_eq!(machine.pressure_io, Some(1.0 / seconds));
        assert_eq!(machine.disk_written_bytes_per_s, Some(1e9 / seconds));
        assert_eq!(machine.disk_utilisation, Some(0.25 / seconds));
        assert_eq!(machine.network_in_bytes_per_s, Some(3e9 / seconds));
        let link = BusiestLink {
            name: "eth0".into(),
            bits_per_s: 16e9,
            utilisation: 8e9 / seconds / 16e9,
        };
        assert_eq!(machine.busiest_link, Some(link));
        assert_eq!(
            (machine.pressure_cpu, machine.frequency_mhz, machine.others),
            (None, None, None)
        );
        assert!(machine.runnable_mean.unwrap() >= 2.0);
    }

    #[test]
    fn watched_processes_are_not_others() {
        let mut record = record_with_threads(&[(500, 0)]);
        let ours = record.samples[0].parties[0].threads[0].pid;
        let other_use = |pid, name: &str| OtherUse { pid, name: name.into(), run_ns: 500_000_000 };
        record.client.machine = Some(MachineUse {
            everywhere: Some(vec![other_use(ours, "server"), other_use(ours + 1, "cc1")]),
            everywhere_ns: Some(2_000_000_000),
            ..MachineUse::default()
        });
        let others = MachineResult::new(&record).others.unwrap();
        assert_eq!(others, [OtherCpu { pid: ours + 1, name: "cc1".into(), cpus: 0.25 }]);
    }
}
