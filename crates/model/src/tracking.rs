//! Counters of connection tracking (netfilter), and the rule by which its table is full.

use serde::{Deserialize, Serialize};

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

/// Returns whether a table of tracked connections is full: at least 99 % of its entries are used.
/// Entries of a full table end all the time, so a reading may be slightly below the limit. A limit
/// of 0 means that there is no limit.
#[must_use]
pub const fn is_table_full(entries: u64, max_entries: u64) -> bool {
    max_entries > 0 && entries >= max_entries - max_entries / 100
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
    fn growth_of_unread_counter_is_unknown() {
        let read = TrackingUse { entries: 9, dropped: Some(9), ..TrackingUse::default() };
        let entries_only = TrackingUse { entries: 9, ..TrackingUse::default() };
        assert_eq!(entries_only.growth_since(read), entries_only, "unknown is not zero");
        assert_eq!(read.growth_since(entries_only).dropped, None);
    }
}
