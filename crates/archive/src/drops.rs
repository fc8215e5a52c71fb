//! Counters by which the kernel drops packets and connections, and how full the tables are that
//! it drops them for.

use serde::{Deserialize, Serialize};

use crate::sample::NetworkUse;

/// Connection tracking of one network (`/proc/net/stat/nf_conntrack`): sums since the machine
/// started, but for `entries`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackingUse {
    /// Connections in the table at this instant.
    pub entries: u64,
    /// Packets dropped because no entry could be made for them.
    pub dropped: u64,
    /// Entries of unanswered connections that were evicted to make room.
    pub evicted: u64,
    /// Packets dropped because their entry was not accepted into the table.
    pub insert_failed: u64,
}

/// Queues of received packets, all CPUs together (`/proc/net/softnet_stat`). Loopback uses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BacklogUse {
    pub processed: u64,
    /// Packets that found the queue of their CPU full (`net.core.netdev_max_backlog`).
    pub dropped: u64,
    /// Times that work was left in the queue when its share of time was used up.
    pub squeezed: u64,
}

/// Memory of all TCP sockets at one instant, and its limits (`net.ipv4.tcp_mem`), in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpMemoryUse {
    pub pages: u64,
    /// Above this the kernel shrinks the buffers of sockets.
    pub pressure_pages: u64,
    /// Above this it drops packets and aborts connections.
    pub most_pages: u64,
}

/// All of these counters that concern the path of a load. `None`: the kernel does not show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathUse {
    /// Counters of the generator's network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUse>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<BacklogUse>,
    /// Neighbours (ARP, NDP) for which the table had no room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour_overflows: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_memory: Option<TcpMemoryUse>,
    /// Entries that the table of tracked connections may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracking_most: Option<u64>,
}

impl TrackingUse {
    /// Returns the growth of the counters since an earlier reading; `entries` is unchanged.
    #[must_use]
    pub const fn growth_since(self, earlier: TrackingUse) -> TrackingUse {
        TrackingUse {
            entries: self.entries,
            dropped: self.dropped.saturating_sub(earlier.dropped),
            evicted: self.evicted.saturating_sub(earlier.evicted),
            insert_failed: self.insert_failed.saturating_sub(earlier.insert_failed),
        }
    }
}

impl BacklogUse {
    /// Returns the growth of the counters since an earlier reading.
    #[must_use]
    pub const fn growth_since(self, earlier: BacklogUse) -> BacklogUse {
        BacklogUse {
            processed: self.processed.saturating_sub(earlier.processed),
            dropped: self.dropped.saturating_sub(earlier.dropped),
            squeezed: self.squeezed.saturating_sub(earlier.squeezed),
        }
    }
}

impl PathUse {
    /// Returns the growth of the counters since an earlier reading; other values are unchanged. A
    /// counter that one of the readings lacks is unknown.
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
    fn growth_needs_both_readings() {
        let tracking =
            |dropped| TrackingUse { entries: dropped, dropped, ..TrackingUse::default() };
        let network = |dropped| NetworkUse {
            tracking: Some(tracking(dropped)),
            listen_drops: Some(2),
            ..NetworkUse::default()
        };
        let path = |dropped| PathUse { network: Some(network(dropped)), ..PathUse::default() };
        let grown = path(7).growth_since(path(3)).network.unwrap();
        let expected = TrackingUse { entries: 7, dropped: 4, ..TrackingUse::default() };
        assert_eq!((grown.tracking, grown.listen_drops), (Some(expected), Some(0)));
        assert_eq!(path(7).growth_since(PathUse::default()).network, None);
        let backlog = BacklogUse { processed: 9, dropped: 2, squeezed: 1 };
        let full = PathUse { backlog: Some(backlog), neighbour_overflows: Some(3), ..path(1) };
        assert_eq!(full.growth_since(path(1)).backlog, None);
        assert_eq!(full.growth_since(full).backlog, Some(BacklogUse::default()));
        assert_eq!(full.growth_since(full).neighbour_overflows, Some(0));
    }
}
