//! Counts the packets and connections that the machine dropped on the path of a load.
//!
//! The machine is the cause if a table or a limit that all programs share was full: connection
//! tracking, the receive queues of CPUs, the neighbour table, or the memory of TCP. A listener's
//! queues are not included, because the server chose their length.

use dyno_model::drops::PathUse;
use dyno_model::sample::{NetworkUse, Party};
use dyno_model::tracking::{TrackingUse, is_table_full};
use dyno_model::{LoadRecord, Outcome, Sample};
use schemars::JsonSchema;
use serde::Serialize;

/// Packets and connections that the machine dropped between two readings. `None`: the kernel does
/// not show that counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MachineDrops {
    /// Packets dropped by connection tracking.
    pub tracking: Option<u64>,
    /// Entries of connections without a reply that were evicted from the tracking table.
    pub tracking_evictions: Option<u64>,
    /// Highest number of entries in the tracking table over the samples, and the limit.
    pub tracking_entries: Option<u64>,
    #[serde(rename = "tracking_most")]
    pub max_tracking_entries: Option<u64>,
    /// Packets dropped because the receive queue of their CPU was full.
    pub backlog: Option<u64>,
    /// Neighbours (ARP, NDP) that did not fit in the table.
    pub neighbours: Option<u64>,
    /// Packets dropped and connections aborted because TCP had no memory.
    pub tcp_memory: Option<u64>,
    /// Memory of all TCP sockets at the end, and its limit, in pages.
    pub tcp_memory_pages: Option<u64>,
    #[serde(rename = "tcp_memory_most_pages")]
    pub tcp_memory_max_pages: Option<u64>,
}

impl MachineDrops {
    /// Returns the drops while a load ran. `None`: no counter was read.
    #[must_use]
    pub fn from_load(record: &LoadRecord) -> Option<MachineDrops> {
        let load_path = record.client.machine.as_ref().and_then(|machine| machine.path);
        let parties = [Party::SUBJECT, Party::GENERATOR];
        let sample_paths = parties.into_iter().filter_map(|party| growth_in_samples(record, party));
        // Each reading covers only a part of the time, or another network namespace, so the maximum
        // is a lower bound.
        let drops_of_readings =
            load_path.into_iter().chain(sample_paths).map(|path| MachineDrops::from_path(&path));
        let drops = drops_of_readings.reduce(MachineDrops::max_of_each)?;
        let entries = record.samples.iter().flat_map(entries).max();
        Some(MachineDrops { tracking_entries: drops.tracking_entries.max(entries), ..drops })
            .filter(|drops| *drops != MachineDrops::default())
    }

    /// Returns the drops from the growth of counters.
    #[must_use]
    pub fn from_path(path: &PathUse) -> MachineDrops {
        let network = path.network.unwrap_or_default();
        let tracking = network.tracking;
        MachineDrops {
            // The kernel counts some failed insertions as drops, too, so the sum would be too high.
            tracking: tracking.and_then(|counters| counters.dropped.max(counters.insert_failed)),
            tracking_evictions: tracking.and_then(|counters| counters.evicted),
            tracking_entries: tracking.map(|counters| counters.entries),
            max_tracking_entries: path.max_tracking_entries,
            backlog: path.backlog.map(|counters| counters.dropped),
            neighbours: path.neighbour_overflows,
            tcp_memory: memory_drops(&network, path),
            tcp_memory_pages: path.tcp_memory.map(|counters| counters.pages),
            tcp_memory_max_pages: path.tcp_memory.map(|counters| counters.max_pages),
        }
    }

    /// Returns the number of packets and connections that the machine dropped. `None`: unknown,
    /// because this user cannot read the counters of the tracking table.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        if self.is_tracking_suspected() {
            return None;
        }
        let counts = [self.tracking, self.backlog, self.neighbours, self.tcp_memory];
        Some(counts.into_iter().flatten().sum())
    }

    /// Returns whether the tracking table was full, and this user could not read how many packets
    /// were dropped.
    #[must_use]
    pub fn is_tracking_suspected(&self) -> bool {
        let entries = self.tracking_entries.zip(self.max_tracking_entries);
        self.tracking.is_none() && entries.is_some_and(|(used, max)| is_table_full(used, max))
    }

    /// Returns the causes with their numbers, and the remedies. `None`: no counter shows that the
    /// machine dropped anything.
    #[must_use]
    pub fn explanation(&self) -> Option<DropExplanation> {
        self.explanation_with(0)
    }

    /// Returns the causes with their numbers, and the remedies. `connect_timeouts`: number of
    /// attempts to connect that timed out during the load. Such time-outs show that a full table of
    /// connection tracking dropped packets, even if this user cannot read its counters. `None`: the
    /// machine dropped nothing that is visible.
    #[must_use]
    pub fn explanation_with(&self, connect_timeouts: u64) -> Option<DropExplanation> {
        let positive = |n: Option<u64>| n.filter(|n| *n > 0);
        let is_inferred = connect_timeouts > 0 && self.is_tracking_suspected();
        let inferred = is_inferred.then(|| (self.inferred_text(connect_timeouts), NO_TRACKING));
        let causes = [
            positive(self.tracking).map(|n| (self.tracking_text(n), NO_TRACKING)),
            inferred,
            positive(self.backlog)
                .map(|n| (format!("{n} because receive queues of CPUs were full"), LONGER_BACKLOG)),
            positive(self.neighbours).map(|n| {
                (format!("{n} because the neighbour (ARP or NDP) table was full"), MORE_NEIGHBOURS)
            }),
            positive(self.tcp_memory).map(|n| (self.memory_text(n), MORE_MEMORY)),
        ];
        let (causes, remedies): (Vec<String>, Vec<&str>) = causes.into_iter().flatten().unzip();
        (!causes.is_empty())
            .then(|| DropExplanation { causes: causes.join(", "), remedies: remedies.join(" ") })
    }

    fn tracking_text(&self, dropped: u64) -> String {
        match (self.tracking_entries, self.max_tracking_entries) {
            (Some(entries), Some(max)) => {
                format!(
                    "{dropped} by connection tracking, with {entries} of {max} table entries in \
                     use"
                )
            }
            _ => format!("{dropped} by connection tracking"),
        }
    }

    /// Returns the text for drops by a full table, whose counters this user cannot read.
    fn inferred_text(&self, connect_timeouts: u64) -> String {
        let (entries, max) = (self.tracking_entries, self.max_tracking_entries);
        let attempts = if connect_timeouts == 1 { "attempt" } else { "attempts" };
        format!(
            "an unknown number by connection tracking ({} of {} table entries were in use, and \
             {connect_timeouts} {attempts} to connect timed out)",
            entries.unwrap_or(0),
            max.unwrap_or(0)
        )
    }

    fn memory_text(&self, dropped: u64) -> String {
        match (self.tcp_memory_pages, self.tcp_memory_max_pages) {
            (Some(pages), Some(max)) => {
                format!("{dropped} for lack of TCP memory, with {pages} of {max} pages in use")
            }
            _ => format!("{dropped} for lack of TCP memory"),
        }
    }

    /// Returns the higher value of both for each counter.
    fn max_of_each(self, other: MachineDrops) -> MachineDrops {
        MachineDrops {
            tracking: self.tracking.max(other.tracking),
            tracking_evictions: self.tracking_evictions.max(other.tracking_evictions),
            tracking_entries: self.tracking_entries.max(other.tracking_entries),
            max_tracking_entries: self.max_tracking_entries.max(other.max_tracking_entries),
            backlog: self.backlog.max(other.backlog),
            neighbours: self.neighbours.max(other.neighbours),
            tcp_memory: self.tcp_memory.max(other.tcp_memory),
            tcp_memory_pages: self.tcp_memory_pages.max(other.tcp_memory_pages),
            tcp_memory_max_pages: self.tcp_memory_max_pages.max(other.tcp_memory_max_pages),
        }
    }
}

/// Returns the number of a load's attempts to connect that timed out, including its warm-up. 0: a
/// full queue of a listener may explain them, because Linux then drops packets that open a
/// connection.
#[must_use]
pub fn connect_timeouts(record: &LoadRecord) -> u64 {
    let server_path = growth_in_samples(record, Party::SUBJECT).and_then(|path| path.network);
    let queue_drops = server_path.and_then(|network| network.listen_drops);
    if queue_drops.is_some_and(|n| n > 0) {
        return 0;
    }
    record.connection_failures.get(Outcome::ConnectTimeout.name()).copied().unwrap_or(0)
}

/// Drops as text for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropExplanation {
    /// Text such as `812 by connection tracking, with 262144 of 262144 table entries in use`.
    pub causes: String,
    /// Remedies, as sentences.
    pub remedies: String,
}

const NO_TRACKING: &str = "Exempt loopback from connection tracking, or raise \
                           `net.netfilter.nf_conntrack_max`. `dyno doctor` prints the commands.";
const LONGER_BACKLOG: &str =
    "Raise `net.core.netdev_max_backlog`, or use fewer connections (`-c`).";
const MORE_NEIGHBOURS: &str =
    "Raise `net.ipv4.neigh.default.gc_thresh3` and `net.ipv6.neigh.default.gc_thresh3`.";
const MORE_MEMORY: &str =
    "Raise `net.ipv4.tcp_mem` and `net.ipv4.tcp_max_orphans`, or use fewer connections (`-c`).";

/// Returns the drops for lack of memory. Drops at a full receive buffer are included only if the
/// memory of all sockets was under pressure. Without pressure, a receive buffer is full because the
/// program reads it too slowly.
fn memory_drops(network: &NetworkUse, path: &PathUse) -> Option<u64> {
    let is_under_pressure = network.memory_pressures.is_some_and(|n| n > 0)
        || path.tcp_memory.is_some_and(|counters| counters.pages >= counters.pressure_pages);
    let buffer_drops = network.receive_queue_drops.filter(|_| is_under_pressure);
    let counts = [network.aborts_on_memory, network.reserve_drops, buffer_drops];
    counts.into_iter().flatten().reduce(|a, b| a + b)
}

/// Returns the growth of the counters of a party's network and of the machine, from a load's first
/// sample to its last.
fn growth_in_samples(record: &LoadRecord, party: Party) -> Option<PathUse> {
    let path = |sample: &Sample| {
        let host = sample.host.as_ref();
        PathUse {
            network: sample.party_use(party).and_then(|used| used.network),
            backlog: host.and_then(|host| host.backlog),
            neighbour_overflows: host.and_then(|host| host.neighbour_overflows),
            tcp_memory: host.and_then(|host| host.tcp_memory),
            max_tracking_entries: None,
        }
    };
    let (first, last) = (record.samples.first()?, record.samples.last()?);
    Some(path(last).growth_since(path(first)))
}

/// Returns the entries in the tracking tables of a sample's parties.
fn entries(sample: &Sample) -> impl Iterator<Item = u64> {
    let tracking = |network: NetworkUse| network.tracking;
    let all = sample.parties.iter().filter_map(move |used| used.network.and_then(tracking));
    all.map(|tracking: TrackingUse| tracking.entries)
}

#[cfg(test)]
mod tests {
    use dyno_model::host::{BacklogUse, TcpMemoryUse};
    use dyno_model::machine::MachineUse;

    use super::*;
    use crate::fixture::record_with_threads;

    fn network_with_tracking(entries: u64, dropped: u64) -> NetworkUse {
        let tracking = TrackingUse { entries, dropped: Some(dropped), ..TrackingUse::default() };
        NetworkUse { tracking: Some(tracking), ..NetworkUse::default() }
    }

    #[test]
    fn load_without_readings_has_no_drops() {
        let mut record = record_with_threads(&[(500, 0)]);
        record.samples.clear();
        record.client.machine = None;
        assert_eq!(MachineDrops::from_load(&record), None);
    }

    /// The server may be in another network namespace, and the load may end before its window.
    #[test]
    fn load_drops_are_highest_of_readings() {
        let mut record = record_with_threads(&[(500, 0)]);
        record.client.machine = None;
        let last = record.samples.len() - 1;
        for (i, sample) in record.samples.iter_mut().enumerate() {
            let dropped = if i == last { 9 } else { 2 };
            sample.party_use_mut(Party::SUBJECT).network =
                Some(network_with_tracking(40 - i as u64, dropped));
        }
        let drops = MachineDrops::from_load(&record).unwrap();
        assert_eq!((drops.tracking, drops.tracking_entries), (Some(7), Some(40)));
        let path = PathUse {
            network: Some(network_with_tracking(41, 8)),
            max_tracking_entries: Some(64),
            ..PathUse::default()
        };
        record.client.machine = Some(MachineUse { path: Some(path), ..MachineUse::default() });
        let drops = MachineDrops::from_load(&record).unwrap();
        assert_eq!((drops.tracking, drops.tracking_entries), (Some(8), Some(41)));
        let explanation = drops.explanation().unwrap();
        assert_eq!(
            explanation.causes,
            "8 by connection tracking, with 41 of 64 table entries in use"
        );
        assert!(explanation.remedies.contains("nf_conntrack_max"), "{explanation:?}");
    }

    #[test]
    fn listener_queue_drops_are_not_machine_drops() {
        let network = NetworkUse {
            listen_overflows: Some(5),
            listen_drops: Some(9),
            syn_queue_drops: Some(4),
            syn_cookies: Some(3),
            socket_backlog_drops: Some(2),
            prunes: Some(6),
            receive_queue_drops: Some(7),
            ..network_with_tracking(3, 0)
        };
        let path = PathUse { network: Some(network), ..PathUse::default() };
        let drops = MachineDrops::from_path(&path);
        assert_eq!(drops.explanation(), None, "{drops:?}");
    }

    #[test]
    fn receive_buffer_drops_count_under_pressure() {
        let memory = |pages| TcpMemoryUse { pages, pressure_pages: 10, max_pages: 20 };
        let network = NetworkUse { receive_queue_drops: Some(7), ..NetworkUse::default() };
        let path = |pages, memory_pressures| PathUse {
            network: Some(NetworkUse { memory_pressures, ..network }),
            tcp_memory: Some(memory(pages)),
            ..PathUse::default()
        };
        assert_eq!(MachineDrops::from_path(&path(9, Some(0))).tcp_memory, None);
        assert_eq!(MachineDrops::from_path(&path(10, Some(0))).tcp_memory, Some(7));
        let drops = MachineDrops::from_path(&path(9, Some(1)));
        assert_eq!(drops.tcp_memory, Some(7));
        let explanation = drops.explanation().unwrap();
        assert_eq!(explanation.causes, "7 for lack of TCP memory, with 9 of 20 pages in use");
    }

    #[test]
    fn drop_explanation_lists_all_causes() {
        let path = PathUse {
            network: Some(NetworkUse { aborts_on_memory: Some(1), ..network_with_tracking(7, 2) }),
            backlog: Some(BacklogUse { dropped: 3, ..BacklogUse::default() }),
            neighbour_overflows: Some(4),
            ..PathUse::default()
        };
        let drops = MachineDrops::from_path(&path);
        assert_eq!(
            drops.explanation().unwrap().causes,
            "2 by connection tracking, 3 because receive queues of CPUs were full, 4 because the \
             neighbour (ARP or NDP) table was full, 1 for lack of TCP memory"
        );
    }

    /// An ordinary user may read the number of entries and not the counters.
    #[test]
    fn full_table_with_timeouts_is_cause_without_counters() {
        let drops = |entries, dropped| {
            let tracking = TrackingUse { entries, dropped, ..TrackingUse::default() };
            let network = NetworkUse { tracking: Some(tracking), ..NetworkUse::default() };
            MachineDrops::from_path(&PathUse {
                network: Some(network),
                max_tracking_entries: Some(1000),
                ..PathUse::default()
            })
        };
        let full = drops(990, None);
        assert_eq!(full.tracking, None, "unknown is not zero");
        assert_eq!(full.explanation(), None, "no connection timed out");
        let explanation = full.explanation_with(2).unwrap();
        assert_eq!(
            explanation.causes,
            "an unknown number by connection tracking (990 of 1000 table entries were in use, and \
             2 attempts to connect timed out)"
        );
        assert!(explanation.remedies.contains("nf_conntrack_max"), "{explanation:?}");
        assert_eq!(drops(989, None).explanation_with(2), None, "the table has room");
        assert_eq!(drops(1000, Some(0)).explanation_with(2), None, "nothing was dropped");
    }

    #[test]
    fn failed_insertions_are_counted_once() {
        let tracking = |dropped, insert_failed| {
            let counters = TrackingUse {
                dropped: Some(dropped),
                insert_failed: Some(insert_failed),
                ..TrackingUse::default()
            };
            let network = NetworkUse { tracking: Some(counters), ..NetworkUse::default() };
            let path = PathUse { network: Some(network), ..PathUse::default() };
            MachineDrops::from_path(&path).tracking
        };
        assert_eq!((tracking(3, 2), tracking(0, 2)), (Some(3), Some(2)));
    }
}
