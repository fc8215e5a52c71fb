//! Counters of packets and connections that the kernel dropped on the path of a load. The counters
//! show losses that the server did not cause.

use serde::{Deserialize, Serialize};

use crate::host::{BacklogUse, TcpMemoryUse};
use crate::sample::NetworkUse;

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
    use crate::tracking::TrackingUse;

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
        let backlog = BacklogUse { processed: 9, dropped: 2, squeezed: 1 };
        let full = PathUse { backlog: Some(backlog), neighbour_overflows: Some(3), ..path(1) };
        assert_eq!(full.growth_since(path(1)).backlog, None);
        assert_eq!(full.growth_since(full).backlog, Some(BacklogUse::default()));
        assert_eq!(full.growth_since(full).neighbour_overflows, Some(0));
    }
}
