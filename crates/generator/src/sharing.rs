//! How a load shares the CPUs of its server with the loads that run together with it.

use dyno_engine::Window;
use dyno_engine::slices::Slices;
use serde::{Deserialize, Serialize};

use dyno_model::interval::INTERVALS_PER_SLICE;

/// Use of the CPUs by a load and the loads that run together with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sharing {
    /// The load has its server's CPUs for itself.
    Alone,
    /// The load takes turns with other closed loops. In a round, each load has two slices.
    Turns {
        /// Length of a slice, nanoseconds.
        slice_ns: u64,
        /// Number of loads, including this one.
        loads: u32,
        /// Index of this load.
        index: u32,
        /// Seed of the order of turns, the same for all loads.
        seed: u64,
    },
    /// This number of loads, including this one, run at the same time against servers on the same
    /// CPUs. 1: the other servers of this duet have failed.
    Together { loads: u32 },
}

impl Sharing {
    /// Returns the time slices of the load; `None`: the load takes no turns.
    #[must_use]
    pub const fn slices(self) -> Option<Slices> {
        match self {
            Sharing::Turns { slice_ns, loads, index, seed } => {
                Some(Slices { length_ns: slice_ns, loads, index, seed })
            }
            Sharing::Alone | Sharing::Together { .. } => None,
        }
    }

    /// Returns the number of loads that run at the same time on the same CPUs. `None`: the load has
    /// the CPUs for itself, or takes turns.
    pub(super) const fn concurrent_loads(self) -> Option<u32> {
        match self {
            Sharing::Together { loads } => Some(loads),
            Sharing::Alone | Sharing::Turns { .. } => None,
        }
    }

    /// Extends the window of a load that would be alone, so that each server has at least as much
    /// CPU time as it would have alone:
    /// - With turns, the phases become whole rounds, and an interval is a quarter of a slice.
    /// - Loads on the same CPUs last as many times longer as there are loads.
    pub(super) fn extend(self, window: Window) -> Window {
        let with_lengths = |extend: &dyn Fn(u64) -> u64, interval_ns| Window {
            warmup_ns: extend(window.warmup_ns),
            duration_ns: window.duration_ns.map(extend),
            interval_ns,
            ..window
        };
        match self {
            Sharing::Alone => window,
            Sharing::Turns { slice_ns, loads, .. } => {
                let round_ns = 2 * u64::from(loads) * slice_ns;
                let in_rounds =
                    |ns: u64| ns.saturating_mul(u64::from(loads)).next_multiple_of(round_ns);
                with_lengths(&in_rounds, slice_ns / INTERVALS_PER_SLICE)
            }
            Sharing::Together { loads } => {
                let multiple = |ns: u64| ns.saturating_mul(u64::from(loads));
                with_lengths(&multiple, window.interval_ns)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Window =
        Window { warmup_ns: 200, duration_ns: Some(1000), interval_ns: 500, drain_ns: 70 };

    #[test]
    fn load_alone_is_not_extended() {
        assert_eq!(Sharing::Alone.extend(ALONE), ALONE);
    }

    #[test]
    fn turns_extend_phases_to_whole_rounds() {
        let sharing = Sharing::Turns { slice_ns: 80, loads: 3, index: 1, seed: 7 };
        let expected =
            Window { warmup_ns: 960, duration_ns: Some(3360), interval_ns: 20, drain_ns: 70 };
        assert_eq!(sharing.extend(ALONE), expected, "a round is 480");
        let without_end = sharing.extend(Window { duration_ns: None, ..ALONE });
        assert_eq!(without_end.duration_ns, None);
    }

    #[test]
    fn loads_together_last_longer_by_their_number() {
        let expected = Window { warmup_ns: 600, duration_ns: Some(3000), ..ALONE };
        assert_eq!(Sharing::Together { loads: 3 }.extend(ALONE), expected);
        assert_eq!(Sharing::Together { loads: 1 }.extend(ALONE), ALONE);
    }
}
