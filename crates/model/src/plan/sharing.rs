//! How the arms of a block share the CPUs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Use of the CPUs by the arms of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SharingKeys", into = "SharingKeys")]
pub enum ArmSharing {
    /// Arms run one after the other.
    Alone,
    /// All arms run concurrently, and are loaded in turns.
    Turns {
        /// Length of a slice, nanoseconds.
        slice_ns: u64,
    },
    /// Some arms run concurrently and are loaded at the same time. Each other arm runs alone.
    Together {
        /// At least two.
        arms: BTreeSet<usize>,
    },
}

/// The keys of a plan in JSON.
#[derive(Serialize, Deserialize)]
struct SharingKeys {
    /// `None`: no turns.
    slice_ns: Option<u64>,
    /// Empty: no arms are loaded at the same time.
    duet: BTreeSet<usize>,
}

impl ArmSharing {
    /// Returns the sharing of arms that are loaded at the same time. With fewer than two, each arm
    /// is loaded alone.
    #[must_use]
    pub fn from_duet(arms: BTreeSet<usize>) -> ArmSharing {
        if arms.len() > 1 { ArmSharing::Together { arms } } else { ArmSharing::Alone }
    }

    /// Returns the length of a slice, nanoseconds; `None`: arms take no turns.
    #[must_use]
    pub const fn slice_ns(&self) -> Option<u64> {
        match self {
            ArmSharing::Turns { slice_ns } => Some(*slice_ns),
            ArmSharing::Alone | ArmSharing::Together { .. } => None,
        }
    }

    /// Returns the arms that are loaded at the same time: none, or at least two.
    #[must_use]
    pub const fn duet(&self) -> &BTreeSet<usize> {
        static EMPTY: BTreeSet<usize> = BTreeSet::new();
        match self {
            ArmSharing::Together { arms } => arms,
            ArmSharing::Alone | ArmSharing::Turns { .. } => &EMPTY,
        }
    }
}

impl TryFrom<SharingKeys> for ArmSharing {
    type Error = &'static str;

    fn try_from(keys: SharingKeys) -> Result<ArmSharing, &'static str> {
        match (keys.slice_ns, keys.duet.is_empty()) {
            (None, true) => Ok(ArmSharing::Alone),
            (Some(slice_ns), true) => Ok(ArmSharing::Turns { slice_ns }),
            (None, false) => Ok(ArmSharing::Together { arms: keys.duet }),
            (Some(_), false) => Err("`slice_ns` and `duet`: arms cannot have both"),
        }
    }
}

impl From<ArmSharing> for SharingKeys {
    fn from(sharing: ArmSharing) -> SharingKeys {
        let slice_ns = sharing.slice_ns();
        let duet = match sharing {
            ArmSharing::Together { arms } => arms,
            ArmSharing::Alone | ArmSharing::Turns { .. } => BTreeSet::new(),
        };
        SharingKeys { slice_ns, duet }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sharing_has_two_keys_in_json() {
        let cases = [
            (ArmSharing::Alone, json!({"slice_ns": null, "duet": []})),
            (ArmSharing::Turns { slice_ns: 5 }, json!({"slice_ns": 5, "duet": []})),
            (ArmSharing::from_duet([0, 2].into()), json!({"slice_ns": null, "duet": [0, 2]})),
        ];
        for (sharing, json) in cases {
            assert_eq!(serde_json::to_value(&sharing).unwrap(), json);
            assert_eq!(serde_json::from_value::<ArmSharing>(json).unwrap(), sharing);
        }
        let both = json!({"slice_ns": 5, "duet": [0, 2]});
        assert!(serde_json::from_value::<ArmSharing>(both).is_err());
    }

    #[test]
    fn duet_of_one_arm_is_alone() {
        assert_eq!(ArmSharing::from_duet([3].into()), ArmSharing::Alone);
    }
}
