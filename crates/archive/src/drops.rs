//! Counters of packets and connections that the kernel dropped, and the sizes of the tables that
//! caused the drops. The counters show losses that the server did not cause.

use serde::{Deserialize, Serialize};

use crate::host::{BacklogUse, TcpMemoryUse};
use crate::sample::NetworkUse;

/// Connection tracking of one network (`/proc/net/stat/nf_conntrack`). All fields except `entries`
/// are sums since the machine started. `None`: this user cannot read the counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackingUse {
    /// Connections in the table at this instant.
    pub entries: u64,
    /// Number of packets dropped because no entry could be created for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// Number of unreplied entries that were evicted because the table was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evicted: Option<u64>,
    /// Packets dropped because their entry was not accepted into the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insert_failed: Option<u64>,
}

/// Returns whether a table of tracked connections is full: at least 99 % of its entries are used.
/// Entries of a full table end all the time, so a reading may be slightly below the limit. A limit
/// of 0 means that there is no limit.
#[must_use]
pub const fn is_table_full(entries: u64, max_entries: u64) -> bool {
    max_entries > 0 && entries >= max_entries - max_entries / 100
}

/// Counters of drops on the path of a load. `None`: the kernel does not report the counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathUse {
    /// Counters of the generator's network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUse>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<BacklogUse>,
    /// Neighbours (ARP, NDP) that were dropped because the table was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour_overflows: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_memory: Option<TcpMemoryUse>,
    /// Maximum number of entries in the table of tracked connections.
    #[serde(rename = "tracking_most", default, skip_serializing_if = "Option::is_none")]
    pub max_tracking_entries: Option<u64>,
}

impl TrackingUse {
    /// Returns the growth of the counters since an earlier reading; `entries` is unchanged. A
    /// counter that is missing in a reading is unknown.
    #[must_use]
    pub fn growth_since(self, earlier: TrackingUse) -> TrackingUse {
        let growth = |last: Option<u64>, first: Option<u64>| {
            last.zip(first).map(|(last, first)| last.saturating_sub(first))
        };
        TrackingUse {
            entries: self.entries,
            dropped: growth(self.dropped, earlier.dropped),
            evicted: growth(self.evicted, earlier.evicted),
            insert_failed: growth(self.insert_failed, earlier.insert_failed),
        }
    }
}

impl PathUse {
    /// Returns the growth of the counters since an earlier reading; other values are unchanged. A
    /// counter that is missing in a reading is unknown.
    #[must_use]
    pub fn growth_since(self, earlier: PathUse) -> PathUse {
        PathUse {
            network: self
                .network
                .zip(earlier.network)
                .map(|(last, first)| last.growth_since(first)),
            backlog: self
                .backlog
                .zip(earlier.backlog)
                .map(|(last, first)| last.growth_since(first)),
            neighbour_overflows: self
                .neighbour_overflows
                .zip(earlier.neighbour_overflows)
                .map(|(last, first)| last.saturating_sub(first)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_full_from_its_last_hundredth() {
        assert!(!is_table_full(98, 100) && is_table_full(99, 100) && is_table_full(101, 100));
        assert!(!is_table_full(63, 64) && is_table_full(64, 64));
        assert!(!is_table_full(5, 0), "0 means no limit");
    }

    #[test]
    fn growth_needs_both_readings() {
        let tracking = |n| TrackingUse { entries: n, dropped: Some(n), ..TrackingUse::default() };
        let network = |dropped| NetworkUse {
            tracking: Some(tracking(dropped)),
            listen_drops: Some(2),
            ..NetworkUse::default()
        };
        let path = |dropped| PathUse { network: Some(network(dropped)), ..PathUse::default() };
        let grown = path(7).growth_since(path(3)).network.unwrap();
        let expected = TrackingUse { entries: 7, dropped: Some(4), ..TrackingUse::default() };
        assert_eq!((grown.tracking, grown.listen_drops), (Some(expected), Some(0)));
        assert_eq!(path(7).growth_since(PathUse::default()).network, None);
        let entries_only = TrackingUse { entries: 9, ..TrackingUse::default() };
        assert_eq!(entries_only.growth_since(tracking(3)), entries_only, "unknown is not zero");
        assert_eq!(tracking(9).growth_since(entries_only).dropped, None);
        let backlog = BacklogUse { processed: 9, dropped: 2, squeezed: 1 };
        let full = PathUse { backlog: Some(backlog), neighbour_overflows: Some(3), ..path(1) };
        assert_eq!(full.growth_since(path(1)).backlog, None);
        assert_eq!(full.growth_since(full).backlog, Some(BacklogUse::default()));
        assert_eq!(full.growth_since(full).neighbour_overflows, Some(0));
    }
}
