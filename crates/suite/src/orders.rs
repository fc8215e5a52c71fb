//! Determines the order in which each block (one pass over all arms) starts its arms. The orders
//! are balanced, so that a drift of the machine favours none of the arms (the compared
//! configurations).

use dyno_engine::rng::Rng;
use dyno_model::plan::{Launch, Order};

/// Returns the launches: each block starts every arm once.
///
/// Random orders come in pairs: an order drawn from the seed, and its mirror image in the next
/// block. After any number of blocks `n`, each pair of arms has thus been in each of its two orders
/// at least `⌊n/2⌋` times.
pub(crate) fn order_launches(arms: usize, repeats: u32, order: Order, seed: u64) -> Vec<Launch> {
    let mut orders = BalancedOrders::new(arms, seed);
    let block_launches = |block: u32| {
        let arms: Vec<usize> = match order {
            Order::Random => orders.next_order(),
            Order::Fixed => (0..arms).collect(),
        };
        arms.into_iter().map(move |arm| Launch::with_arm(arm, block))
    };
    (0..repeats).flat_map(block_launches).collect()
}

/// An endless supply of orders.
///
/// The orders of a set are the rows of a Williams design (Williams, "Experimental designs balanced
/// for the estimation of residual effects of treatments", 1949), whose arms are permuted at random
/// for each set. Over a whole set each arm directly follows each other arm equally often, so the
/// after-effects of a server affect all other arms equally.
struct BalancedOrders {
    arms: usize,
    rng: Rng,
    /// The unused orders of the current set.
    rows: Vec<Vec<usize>>,
    /// The order of the next block, if it is the second of a pair.
    mirror: Option<Vec<usize>>,
}

impl BalancedOrders {
    fn new(arms: usize, seed: u64) -> BalancedOrders {
        BalancedOrders { arms, rng: Rng::new(seed), rows: Vec::new(), mirror: None }
    }

    /// Returns the order of the next block.
    fn next_order(&mut self) -> Vec<usize> {
        if let Some(mirror) = self.mirror.take() {
            return mirror;
        }
        if self.rows.is_empty() {
            self.rows = self.draw_rows();
        }
        let mut order = self.rows.pop().unwrap_or_default();
        let mut mirror = order.clone();
        mirror.reverse();
        // Servers and generator may exchange CPUs from block to block. Without this random swap,
        // every row would be measured on one set of CPUs, and every mirror image on the other.
        if self.rng.chance(0.5) {
            std::mem::swap(&mut order, &mut mirror);
        }
        self.mirror = Some(mirror);
        order
    }

    /// Draws a set of rows, which together with their mirror images are balanced. A square of `n`
    /// rows is drawn for an odd number `n` of arms. For an even number, the first half of the
    /// square is enough, because its mirror images are the second half.
    fn draw_rows(&mut self) -> Vec<Vec<usize>> {
        let n = self.arms;
        let mut names: Vec<usize> = (0..n).collect();
        self.rng.shuffle(&mut names);
        // 0, 1, n − 1, 2, n − 2, …: neighbours differ by 1, −2, 3, −4, … modulo n. Over all rows
        // and mirror images, each arm therefore follows each other arm equally often.
        let zigzag = |position: usize| {
            if position % 2 == 1 { position / 2 + 1 } else { (n - position / 2) % n }
        };
        let row =
            |shift: usize| (0..n).map(|position| names[(zigzag(position) + shift) % n]).collect();
        let mut rows: Vec<Vec<usize>> =
            (0..if n.is_multiple_of(2) { n / 2 } else { n }).map(row).collect();
        self.rng.shuffle(&mut rows);
        rows
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use dyno_analysis::ranking::Ranking;
    use dyno_analysis::series::{RepeatValue, Series};
    use dyno_analysis::stats::{Looks, holm};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    /// Returns the orders of all blocks.
    fn orders(arms: usize, blocks: u32, seed: u64) -> Vec<Vec<usize>> {
        let launches = order_launches(arms, blocks, Order::Random, seed);
        launches
            .chunks(arms)
            .map(|block| block.iter().map(|launch| launch.arms[0]).collect())
            .collect()
    }

    fn position(order: &[usize], arm: usize) -> usize {
        order.iter().position(|other| *other == arm).unwrap()
    }

    /// Returns the number of orders in which arm `a` stands before arm `b`.
    fn count_before(orders: &[Vec<usize>], a: usize, b: usize) -> usize {
        orders.iter().filter(|order| position(order, a) < position(order, b)).count()
    }

    proptest! {
        #[test]
        fn each_pair_has_both_orders_equally_often(
            arms in 1usize..12,
            blocks in 1u32..24,
            seed in 0u64..u64::MAX,
        ) {
            let orders = orders(arms, blocks, seed);
            prop_assert_eq!(orders.len(), blocks as usize);
            for order in &orders {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert_eq!(sorted, (0..arms).collect::<Vec<_>>());
            }
            // A run may also end after any of its blocks.
            for n in 1..=orders.len() {
                for (a, b) in (0..arms).flat_map(|a| (0..a).map(move |b| (a, b))) {
                    let first = count_before(&orders[..n], a, b);
                    prop_assert!(first.min(n - first) >= n / 2, "{a} {b} in {n}: {first}");
                }
            }
        }
    }

    #[test]
    fn whole_set_has_each_successor_equally_often() {
        for arms in 2..=9usize {
            let blocks = if arms % 2 == 0 { arms } else { 2 * arms };
            let mut follows: BTreeMap<(usize, usize), usize> = BTreeMap::new();
            for order in orders(arms, blocks as u32, 7) {
                order.windows(2).for_each(|two| *follows.entry((two[0], two[1])).or_default() += 1);
            }
            let counts: BTreeSet<usize> = follows.values().copied().collect();
            assert_eq!(follows.len(), arms * (arms - 1), "{arms}");
            assert_eq!(counts, [blocks / arms].into(), "{arms}");
        }
    }

    #[test]
    fn different_seeds_draw_different_orders() {
        let drawn: BTreeSet<Vec<Vec<usize>>> = (0..100).map(|seed| orders(7, 5, seed)).collect();
        assert!(drawn.len() > 95, "{}", drawn.len());
        assert_eq!(orders(7, 5, 3), orders(7, 5, 3));
        let first_arms: BTreeSet<usize> = (0..100).map(|seed| orders(7, 1, seed)[0][0]).collect();
        assert_eq!(first_arms.len(), 7);
        let orders_of_two_arms: BTreeSet<Vec<usize>> =
            (0..20).map(|seed| orders(2, 1, seed).remove(0)).collect();
        assert_eq!(orders_of_two_arms.len(), 2);
    }

    #[test]
    fn fixed_order_is_order_of_suite() {
        let launches = order_launches(3, 2, Order::Fixed, 1);
        let arms: Vec<usize> = launches.iter().map(|launch| launch.arms[0]).collect();
        assert_eq!(arms, [0, 1, 2, 0, 1, 2]);
    }

    /// Drift of a machine from one start to the next.
    #[derive(Clone, Copy, Debug)]
    enum Drift {
        /// By the same step each time.
        Steady,
        /// By a step that shrinks: a machine that becomes hot.
        Levelling,
        /// By a step of either direction.
        Wandering,
    }

    /// Noise of a start, as a logarithm.
    const NOISE: f64 = 0.01;

    /// Returns an approximately normal number: the sum of twelve uniform numbers (Irwin and Hall).
    /// Its tails are accurate enough for this simulation.
    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
    }

    /// Returns the throughput of equal servers, arm by arm, on a machine that drifts from start to
    /// start. `size`: size of the drift, in multiples of the noise.
    fn equal_servers(orders: &[Vec<usize>], drift: Drift, size: f64, rng: &mut Rng) -> Vec<Series> {
        let arms = orders[0].len();
        let starts = (orders.len() * arms) as f64;
        let mut values: Vec<Vec<(u32, RepeatValue)>> = vec![Vec::new(); arms];
        let mut level = 0.0;
        for (start, (block, arm)) in (0u32..)
            .zip(orders)
            .flat_map(|(block, order)| order.iter().map(move |arm| (block, *arm)))
            .enumerate()
        {
            level += size
                * NOISE
                * match drift {
                    Drift::Steady => 1.0,
                    Drift::Levelling => (-3.0 * start as f64 / starts).exp(),
                    Drift::Wandering => normal(rng),
                };
            let rps = 10_000.0 * (NOISE * normal(rng) - level).exp();
            values[arm].push((block, RepeatValue::Known(rps)));
        }
        values.into_iter().map(|arm_values| arm_values.into_iter().collect()).collect()
    }

    /// Returns whether two equal servers are distinguished: by the ranking, or by comparisons of
    /// all pairs.
    fn is_false_alarm(servers: &[Series]) -> bool {
        let ranking = Ranking::new(servers, Looks::AtTheEnd);
        let count = servers.len();
        let is_ranked = ranking
            .places()
            .iter()
            .any(|places| places.is_none_or(|places| (places.best, places.worst) != (1, count)));
        let pairs = (0..count).flat_map(|a| (0..a).map(move |b| (a, b)));
        let pairs: Vec<_> = pairs.map(|(a, b)| servers[a].pairs_with(&servers[b])).collect();
        let chances: Vec<f64> =
            pairs.iter().map(|pair| pair.chance(Looks::AtTheEnd).unwrap()).collect();
        let mut adjusted = pairs.iter().zip(holm(&chances));
        is_ranked || adjusted.any(|(pair, p)| pair.are_apart(Some(p)))
    }

    /// Returns the share of simulated runs in which equal servers are distinguished.
    fn false_alarm_share(
        arms: usize,
        drift: Drift,
        size: f64,
        draw_orders: impl Fn(u64) -> Vec<Vec<usize>>,
    ) -> f64 {
        const SIMULATED_RUNS: u64 = 1000;
        let mut rng = Rng::new(arms as u64 * 1000 + size as u64);
        let is_alarm = |seed: &u64| {
            let orders = draw_orders(*seed);
            is_false_alarm(&equal_servers(&orders, drift, size, &mut rng))
        };
        (0..SIMULATED_RUNS).filter(is_alarm).count() as f64 / SIMULATED_RUNS as f64
    }

    const DRIFTS: [Drift; 3] = [Drift::Steady, Drift::Levelling, Drift::Wandering];

    /// Three standard errors of a share of 5 % over all simulated runs.
    const SAMPLING_ERROR: f64 = 0.021;

    #[test]
    fn balanced_orders_rarely_distinguish_equal_servers() {
        for (arms, blocks) in
            [2, 4, 7].into_iter().flat_map(|arms| [3, 4, 5, 6, 9].map(|n| (arms, n)))
        {
            let share = |drift, size| {
                false_alarm_share(arms, drift, size, |seed| orders(arms, blocks, seed))
            };
            let no_drift = share(Drift::Steady, 0.0);
            assert!(no_drift <= 0.05 + SAMPLING_ERROR, "{arms} arms, {blocks} blocks: {no_drift}");
            for (drift, size) in
                [2.0, 4.0].into_iter().flat_map(|size| DRIFTS.map(|drift| (drift, size)))
            {
                // Balanced orders cannot help here: random steps favour either arm equally often.
                // Three pairs that agree by more than 5 % each are enough for a difference.
                if matches!(drift, Drift::Wandering) && blocks < 5 {
                    continue;
                }
                let max_share =
                    if matches!(drift, Drift::Wandering) { 0.05 + SAMPLING_ERROR } else { 0.05 };
                let share = share(drift, size);
                assert!(
                    share <= max_share,
                    "{arms} arms, {blocks} blocks, {drift:?} {size}: {share}"
                );
            }
        }
    }

    /// The simulation detects the fault of other orders: independent random blocks, as in earlier
    /// plans, and a fixed order.
    #[test]
    fn unbalanced_orders_distinguish_equal_servers() {
        let drawn = |seed: u64| {
            let mut rng = Rng::new(seed);
            let order = |_| {
                let mut order: Vec<usize> = (0..4).collect();
                rng.shuffle(&mut order);
                order
            };
            (0..5).map(order).collect()
        };
        let fixed = |_: u64| vec![(0..4).collect::<Vec<usize>>(); 5];
        assert!(false_alarm_share(4, Drift::Steady, 4.0, drawn) > 0.08);
        assert!(false_alarm_share(4, Drift::Steady, 2.0, fixed) > 0.9);
    }
}
