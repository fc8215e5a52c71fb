//! Computes time slices for several loads that take turns on one machine. The slices follow from
//! the seed alone, so every load computes them without coordination.

use crate::rng::Rng;

/// The time slices of one load among several that take turns.
///
/// Time since the start of the load is cut into slices of equal length, and the slices into rounds.
/// Each load has two slices per round. The order of the first half of a round is drawn from the
/// seed, and the second half mirrors it (A B B A or B A A B). A linear drift over time therefore
/// affects all loads equally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    /// Length of a slice, nanoseconds, above 0.
    pub length_ns: u64,
    /// Number of alternating loads, at least 1.
    pub loads: u32,
    /// Index of this load, 0 to `loads` − 1.
    pub index: u32,
    /// Seed of the order, the same for all loads.
    pub seed: u64,
}

impl Slices {
    /// Length of a round, nanoseconds: two slices per load.
    #[must_use]
    pub const fn round_ns(&self) -> u64 {
        2 * self.loads as u64 * self.length_ns
    }

    /// Returns the start and end of this load's slice that contains `now_ns`. Outside of this
    /// load's slices, returns its next slice. All values are nanoseconds since the load began.
    #[must_use]
    pub fn current_or_next(&self, now_ns: u64) -> (u64, u64) {
        let round = now_ns / self.round_ns();
        let mut slices =
            [round, round + 1].into_iter().flat_map(|round| self.slices_in_round(round));
        slices.find(|(_, end)| *end > now_ns).expect("each load should have slices in every round")
    }

    /// Returns the slices of this load that lie entirely between two instants, nanoseconds since
    /// the load began.
    #[must_use]
    pub fn slices_between(&self, from_ns: u64, to_ns: u64) -> Vec<(u64, u64)> {
        let rounds = from_ns / self.round_ns()..to_ns.div_ceil(self.round_ns());
        let slices = rounds.flat_map(|round| self.slices_in_round(round));
        slices.filter(|(start, end)| *start >= from_ns && *end <= to_ns).collect()
    }

    /// Returns the two slices of this load in a round, in order of time.
    fn slices_in_round(&self, round: u64) -> [(u64, u64); 2] {
        // The numbers of consecutive rounds differ by one. The seed of a round is drawn from
        // another generator, so that the orders of consecutive rounds are independent.
        let mut rng = Rng::new(Rng::new(self.seed.wrapping_add(round)).next_u64());
        let mut order: Vec<u32> = (0..self.loads).collect();
        rng.shuffle(&mut order);
        let position = order.iter().position(|load| *load == self.index);
        let position = position.expect("the index should be below the number of loads") as u64;
        // The second half of the round mirrors the first.
        let mirrored = 2 * u64::from(self.loads) - 1 - position;
        [position, mirrored].map(|position| {
            let start = round * self.round_ns() + position * self.length_ns;
            (start, start + self.length_ns)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slices_of_all_loads(loads: u32, seed: u64) -> Vec<Slices> {
        (0..loads).map(|index| Slices { length_ns: 400, loads, index, seed }).collect()
    }

    proptest! {
        /// At each instant exactly one load has its slice. Each load has two slices per round,
        /// centred on the middle of the round.
        #[test]
        fn loads_share_all_time_evenly(loads in 1u32..5, seed: u64, rounds in 1u64..20) {
            let loads = slices_of_all_loads(loads, seed);
            let until = rounds * loads[0].round_ns();
            let mut slices: Vec<(u64, u64)> =
                loads.iter().flat_map(|s| s.slices_between(0, until)).collect();
            slices.sort_unstable();
            let expected: Vec<(u64, u64)> =
                (0..until / 400).map(|n| (n * 400, (n + 1) * 400)).collect();
            prop_assert_eq!(slices, expected);
            for load in &loads {
                for pair in load.slices_between(0, until).chunks(2) {
                    let middle = (pair[0].0 + pair[1].1) / 2;
                    prop_assert_eq!(middle % load.round_ns(), load.round_ns() / 2);
                }
            }
        }

        #[test]
        fn next_returns_first_slice_not_over(loads in 1u32..5, seed: u64, now in 0u64..20_000) {
            for load in slices_of_all_loads(loads, seed) {
                let listed = load.slices_between(0, 40_000).into_iter().find(|(_, end)| *end > now);
                prop_assert_eq!(Some(load.current_or_next(now)), listed);
            }
        }
    }

    #[test]
    fn order_varies_by_round_and_repeats_by_seed() {
        let first_positions = |seed| {
            let slices = Slices { length_ns: 1, loads: 2, index: 0, seed };
            (0..200).map(|round| slices.current_or_next(round * 4).0 % 4).collect::<Vec<_>>()
        };
        assert_eq!(first_positions(7), first_positions(7));
        let ahead = first_positions(7).iter().filter(|position| **position == 0).count();
        assert!((70..=130).contains(&ahead), "{ahead} of 200 rounds begin with the first load");
    }
}
