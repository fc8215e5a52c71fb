//! Slices of time that several loads of one machine take in turn: a pure function of the seed.

use crate::rng::Rng;

/// The slices of one of several loads that alternate.
///
/// Time since the load began is cut into slices of one length, and these into rounds: in each round
/// every load has two, in an order drawn from the seed and then in its mirror image (A B B A, or B
/// A A B), so that what changes evenly with time is in all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    /// Length of a slice, nanoseconds, above 0.
    pub length_ns: u64,
    /// Number of alternating loads, at least 1.
    pub of: u32,
    /// Index of this load, 0 to `of` − 1.
    pub own: u32,
    /// The same for all of them.
    pub seed: u64,
}

impl Slices {
    /// Length of a round, nanoseconds: two slices of each load.
    #[must_use]
    pub const fn round_ns(&self) -> u64 {
        2 * self.of as u64 * self.length_ns
    }

    /// The own slice that is not over at `now_ns`: its beginning and its end, nanoseconds since the
    /// load began.
    #[must_use]
    pub fn next(&self, now_ns: u64) -> (u64, u64) {
        let round = now_ns / self.round_ns();
        let mut own = [round, round + 1].into_iter().flat_map(|round| self.in_round(round));
        own.find(|(_, end)| *end > now_ns).expect("every round has slices of each load")
    }

    /// All own slices that lie whole between two instants, nanoseconds since the load began.
    #[must_use]
    pub fn slices_between(&self, from_ns: u64, to_ns: u64) -> Vec<(u64, u64)> {
        let rounds = from_ns / self.round_ns()..to_ns.div_ceil(self.round_ns());
        let all = rounds.flat_map(|round| self.in_round(round));
        all.filter(|(start, end)| *start >= from_ns && *end <= to_ns).collect()
    }

    /// The own slices of a round, in order of time.
    fn in_round(&self, round: u64) -> [(u64, u64); 2] {
        // Twice through the generator: the seeds of rounds that follow each other differ by one,
        // and are to share no numbers.
        let mut rng = Rng::new(Rng::new(self.seed.wrapping_add(round)).next_u64());
        let mut order: Vec<u32> = (0..self.of).collect();
        rng.shuffle(&mut order);
        let place =
            order.iter().position(|load| *load == self.own).expect("it is one of them") as u64;
        [place, 2 * u64::from(self.of) - 1 - place].map(|place| {
            let start = round * self.round_ns() + place * self.length_ns;
            (start, start + self.length_ns)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(of: u32, seed: u64) -> Vec<Slices> {
        (0..of).map(|own| Slices { length_ns: 400, of, own, seed }).collect()
    }

    proptest! {
        /// At each instant one load has its slice, in each round each has two, and the middle of
        /// each one's is the round's.
        #[test]
        fn loads_share_all_time_evenly(of in 1u32..5, seed: u64, rounds in 1u64..20) {
            let all = all(of, seed);
            let until = rounds * all[0].round_ns();
            let mut slices: Vec<(u64, u64)> =
                all.iter().flat_map(|s| s.slices_between(0, until)).collect();
            slices.sort_unstable();
            let expected: Vec<(u64, u64)> =
                (0..until / 400).map(|n| (n * 400, (n + 1) * 400)).collect();
            prop_assert_eq!(slices, expected);
            for own in &all {
                for pair in own.slices_between(0, until).chunks(2) {
                    let middle = (pair[0].0 + pair[1].1) / 2;
                    prop_assert_eq!(middle % own.round_ns(), own.round_ns() / 2);
                }
            }
        }

        #[test]
        fn next_is_the_first_that_is_not_over(of in 1u32..5, seed: u64, now in 0u64..20_000) {
            for own in all(of, seed) {
                let listed = own.slices_between(0, 40_000).into_iter().find(|(_, end)| *end > now);
                prop_assert_eq!(Some(own.next(now)), listed);
            }
        }
    }

    #[test]
    fn orders_differ_between_rounds_and_come_again() {
        let first = |seed| {
            let own = Slices { length_ns: 1, of: 2, own: 0, seed };
            (0..200).map(|round| own.next(round * 4).0 % 4).collect::<Vec<_>>()
        };
        assert_eq!(first(7), first(7));
        let ahead = first(7).iter().filter(|place| **place == 0).count();
        assert!((70..=130).contains(&ahead), "{ahead} of 200 rounds begin with the first");
    }
}
