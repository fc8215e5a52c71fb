//! Classifies the order in which a run starts its subjects.
//!
//! The order decides whether a drift of the machine biases the differences between subjects.

use dyno_model::plan::{Order, Plan};
use dyno_model::run::Run;

/// Whether a drift of the machine biases the differences between a run's subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// Only one subject takes part, so there are no differences.
    Single,
    /// Subjects run at the same time, so a drift affects all of them equally.
    Concurrent,
    /// Each pair of subjects has both orders equally often, so a steady drift cancels out. With an
    /// odd number of blocks, one of the orders has one more block.
    Balanced,
    /// The plan is balanced, but blocks were measured partly before and partly after a resumption.
    /// Pairs of subjects before and after it are not compared, and the order of the others may be
    /// unbalanced.
    Interrupted,
    /// Orders are random, and a pair of subjects has one order more often than the other.
    Unbalanced,
    /// All blocks have the suite's order, so a drift has the same sign in all blocks.
    Fixed,
}

impl Design {
    /// Classifies the order of starts in a plan.
    #[must_use]
    pub fn new(plan: &Plan) -> Design {
        let arms: Vec<usize> = (0..plan.arms.len()).filter(|arm| plan.takes_part(*arm)).collect();
        if arms.len() < 2 {
            return Design::Single;
        }
        if plan.sharing.slice_ns().is_some() || !plan.sharing.duet().is_empty() {
            return Design::Concurrent;
        }
        if plan.order == Order::Fixed {
            return Design::Fixed;
        }
        let orders = orders(plan);
        let mut pairs =
            arms.iter().enumerate().flat_map(|(i, a)| arms[..i].iter().map(move |b| (*a, *b)));
        match pairs.all(|(a, b)| is_balanced(&orders, a, b)) {
            true => Design::Balanced,
            false => Design::Unbalanced,
        }
    }

    /// Classifies the order of starts in a run, as it was measured.
    #[must_use]
    pub fn of_run(run: &Run) -> Design {
        match Design::new(&run.header.plan) {
            Design::Balanced if !run.interrupted_blocks().is_empty() => Design::Interrupted,
            planned => planned,
        }
    }

    /// Whether a drift of the machine biases the differences in all blocks.
    #[must_use]
    pub fn is_fixed(self) -> bool {
        self == Design::Fixed
    }
}

/// Returns the arms of each block, in the order of their starts.
fn orders(plan: &Plan) -> Vec<Vec<usize>> {
    let blocks = plan.launches.chunk_by(|a, b| a.block == b.block);
    blocks
        .map(|block| block.iter().flat_map(|launch| launch.arms.iter().copied()).collect())
        .collect()
}

/// Whether each of the two orders of two arms occurs in at least half of the blocks (rounded down).
fn is_balanced(orders: &[Vec<usize>], a: usize, b: usize) -> bool {
    let position = |order: &[usize], arm: usize| order.iter().position(|other| *other == arm);
    let orders_of_pair: Vec<bool> =
        orders.iter().filter_map(|order| Some(position(order, a)? < position(order, b)?)).collect();
    let before = orders_of_pair.iter().filter(|is_before| **is_before).count();
    before.min(orders_of_pair.len() - before) >= orders_of_pair.len() / 2
}

/// Returns the position of an arm among the arms that take part; `None`: the order is not fixed.
#[must_use]
pub(crate) fn fixed_position(plan: &Plan, arm: usize) -> Option<usize> {
    let is_fixed = Design::new(plan).is_fixed();
    is_fixed.then(|| (0..arm).filter(|other| plan.takes_part(*other)).count())
}

#[cfg(test)]
mod tests {
    use dyno_model::StartRecord;
    use dyno_model::plan::{ArmSharing, Launch, Subject};

    use super::*;
    use crate::fixture;

    fn plan(orders: &[[usize; 3]]) -> Plan {
        let named = |name: &str| Subject { name: name.into(), ..Subject::default() };
        let mut plan = fixture::plan(["a", "b", "c"].map(named).into());
        let blocks = (0u32..).zip(orders);
        plan.launches = blocks
            .flat_map(|(block, order)| order.map(|arm| Launch::with_arm(arm, block)))
            .collect();
        plan
    }

    #[test]
    fn design_depends_on_order_of_launches() {
        let mirrored = plan(&[[0, 1, 2], [2, 1, 0], [1, 0, 2]]);
        assert_eq!(Design::new(&mirrored), Design::Balanced);
        let drawn = plan(&[[0, 1, 2], [2, 0, 1], [1, 0, 2], [0, 2, 1], [0, 2, 1]]);
        assert_eq!(
            Design::new(&drawn),
            Design::Unbalanced,
            "the last block is not enough for 0 and 1"
        );
        assert_eq!(Design::new(&plan(&[[0, 1, 2]; 3])), Design::Unbalanced);
        let mut fixed = plan(&[[0, 1, 2]; 3]);
        fixed.order = Order::Fixed;
        assert_eq!(Design::new(&fixed), Design::Fixed);
        assert_eq!((fixed_position(&fixed, 2), fixed_position(&mirrored, 2)), (Some(2), None));
        let mut turns = fixed.clone();
        turns.sharing = ArmSharing::Turns { slice_ns: 1 };
        assert_eq!(Design::new(&turns), Design::Concurrent);
        fixed.subjects[0].skipped = Some("no".into());
        assert_eq!((Design::new(&fixed), fixed_position(&fixed, 2)), (Design::Fixed, Some(1)));
        fixed.subjects[1].skipped = Some("no".into());
        assert_eq!((Design::new(&fixed), fixed_position(&fixed, 2)), (Design::Single, None));
    }

    #[test]
    fn resumption_within_blocks_ends_balance() {
        let subjects = ["a", "b"].map(|name| Subject { name: name.into(), ..Subject::default() });
        let mut run = fixture::blocks_of(subjects.into(), 2, |_, _| 100);
        run.header.plan.launches[2..].reverse();
        run.starts =
            (0..4).map(|n| StartRecord { start: n, launch: n, ..StartRecord::default() }).collect();
        for (number, trial) in run.trials.iter_mut().enumerate() {
            trial.start = number;
        }
        assert_eq!(Design::of_run(&run), Design::Balanced);
        run.header.resumptions = vec![fixture::resumption(&run, 2, Vec::new())];
        assert_eq!(Design::of_run(&run), Design::Balanced, "between blocks");
        run.header.resumptions[0].from_start = 3;
        assert_eq!(Design::of_run(&run), Design::Interrupted);
    }
}
