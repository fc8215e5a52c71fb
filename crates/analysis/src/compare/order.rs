//! Comparisons of arms that every block started in the same order.

use dyno_archive::plan::Plan;

use super::{RunDifference, Side};
use crate::design::{Design, fixed_place};

/// Whether a fixed order of starts may be why two sides differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confounding {
    /// Neither side has a fixed order.
    None,
    /// The order is fixed, and both arms have the same place in it: a drift within the runs is
    /// part of both.
    SamePlace,
    /// The arms have different places, so a drift within a run is part of each difference.
    Place,
}

/// `arms`: the compared arms.
pub(super) fn confounding(a: Side<'_>, b: Side<'_>, arms: &[(usize, usize)]) -> Confounding {
    let (plan_a, plan_b) = (&a.run.header.plan, &b.run.header.plan);
    if !Design::new(plan_a).is_fixed() && !Design::new(plan_b).is_fixed() {
        return Confounding::None;
    }
    // Controls are no part of what is asked, unless they are named.
    let is_asked = |arm: usize| a.arm.is_some() || !plan_a.subject_of(arm).control;
    let mut asked = arms.iter().filter(|(of_a, _)| is_asked(*of_a));
    match asked.all(|(of_a, of_b)| fixed_place(plan_a, *of_a) == fixed_place(plan_b, *of_b)) {
        true => Confounding::SamePlace,
        false => Confounding::Place,
    }
}

/// Returns the other differences between arms of one run.
pub(super) fn arm_hedges(plan: &Plan) -> Vec<RunDifference> {
    let order = if Design::new(plan).is_fixed() { Confounding::Place } else { Confounding::None };
    order.difference().into_iter().collect()
}

impl Confounding {
    /// The place as something in which the sides differ.
    pub(super) fn difference(self) -> Option<RunDifference> {
        let what = "their place in the fixed order of starts".into();
        (self == Confounding::Place).then_some(RunDifference { what, a: None, b: None })
    }

    pub(super) const fn note(self) -> Option<&'static str> {
        match self {
            Confounding::None => None,
            Confounding::SamePlace => Some(
                "The order of starts was fixed. A drift of the machine within a run is part of its \
                 numbers, and no interval contains it.",
            ),
            Confounding::Place => Some(
                "The order of starts was fixed, and the sides have different places in it. A drift \
                 of the machine is part of each difference. No cause is named, and no ratio \
                 decides a gate. Use `order = \"random\"` under `[suite]`.",
            ),
        }
    }

    /// Why a gate is undecided that its ratio would decide; `None`: the ratio decides.
    pub(super) const fn gate_note(self) -> Option<&'static str> {
        match self {
            Confounding::None | Confounding::SamePlace => None,
            Confounding::Place => Some(
                "the order of starts was fixed, so a drift of the machine may cause or hide the \
                 change. Use `order = \"random\"` under `[suite]`.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use dyno_archive::plan::{Order, Subject};
    use dyno_archive::run::Run;

    use super::*;
    use crate::compare::{ComparisonOptions, ComparisonResult, Gate, GateState, compare};
    use crate::fixture;
    use crate::report::report;
    use crate::stats::draws::Normal;

    /// Servers of the same throughput on a machine that becomes 3 % slower with each start.
    fn drifting(order: Order, names: &[&str]) -> Run {
        let named = |name: &&str| Subject {
            name: (*name).into(),
            title: (*name).into(),
            ..Subject::default()
        };
        let starts = names.len() as f64;
        let mut run = fixture::blocks_of(names.iter().map(named).collect(), 6, |arm, block| {
            let start = f64::from(block) * starts + arm as f64;
            let noise = Normal(start as u64 + 1).values(1, 1.0, 0.003)[0];
            (100_000.0 * 0.97f64.powf(start) * noise) as u64
        });
        run.header.plan.order = order;
        run
    }

    fn compared(
        a: (&Run, Option<usize>),
        b: (&Run, Option<usize>),
        gates: &str,
    ) -> ComparisonResult {
        let (of_a, of_b) = (report(a.0), report(b.0));
        let asked = ComparisonOptions {
            gates: Gate::parse(gates).unwrap(),
            ..ComparisonOptions::default()
        };
        compare(
            Side { run: a.0, report: &of_a, arm: a.1 },
            Side { run: b.0, report: &of_b, arm: b.1 },
            &asked,
        )
    }

    #[test]
    fn fixed_order_decides_no_gate() {
        let run = drifting(Order::Fixed, &["a", "b"]);
        for gate in ["throughput<-1%", "throughput<-20%"] {
            let seen = compared((&run, Some(0)), (&run, Some(1)), gate);
            assert_eq!((seen.passed, seen.undecided), (true, 1), "{:?}", seen.gates);
            assert!(
                seen.gates[0].sentence.contains("order of starts was fixed"),
                "{:?}",
                seen.gates
            );
            assert!(seen.answers[0].sentence.contains("their place in the fixed order of starts"));
            assert!(
                seen.notes.iter().any(|note| note.contains("No cause is named")),
                "{:?}",
                seen.notes
            );
            // Nothing refuses the comparison.
            assert!(seen.differences.is_empty());
        }
        let run = drifting(Order::Random, &["a", "b"]);
        let seen = compared((&run, Some(0)), (&run, Some(1)), "throughput<-1%");
        assert_eq!(seen.gates[0].state, GateState::Missed);
        assert!(seen.notes.is_empty() && !seen.answers[0].sentence.contains("order"), "{seen:?}");
    }

    #[test]
    fn same_place_of_two_runs_decides_a_gate() {
        let run = drifting(Order::Fixed, &["a", "b"]);
        let mut later = run.clone();
        later.header.id = "later".into();
        later.header.started = "later".into();
        let seen = compared((&run, Some(1)), (&later, Some(1)), "throughput<-50%");
        assert_eq!(seen.gates[0].state, GateState::Held, "{:?}", seen.gates);
        assert!(seen.notes.iter().any(|note| note.contains("within a run is part of its numbers")));
        let seen = compared((&run, Some(0)), (&later, Some(1)), "throughput<-50%");
        assert_eq!(seen.gates[0].state, GateState::Undecided);
        // Another subject before it moves it to another place.
        let longer = drifting(Order::Fixed, &["new", "a", "b"]);
        let seen = compared((&run, Some(1)), (&longer, Some(2)), "throughput<-50%");
        assert_eq!(seen.gates[0].state, GateState::Undecided);
    }

    /// A report of the same run: equal servers that drift apart are neither ranked nor explained.
    #[test]
    fn fixed_order_ranks_no_subject() {
        let fixed = report(&drifting(Order::Fixed, &["a", "b", "c"]));
        assert!(fixed.overview.iter().all(|row| (row.places, row.tie_group) == (None, None)));
        assert!(fixed.ties.is_empty() && fixed.comparisons.iter().all(|comparison| comparison.tie));
        let said = |report: &crate::report::Report, code| {
            report
                .caveats
                .iter()
                .find(|caveat| caveat.code == code)
                .map(|caveat| caveat.message.clone())
        };
        assert!(
            said(&fixed, crate::Code::FixedOrder).unwrap().contains("Use `order = \"random\"`")
        );
        let trend = said(&fixed, crate::Code::Trend).unwrap();
        assert!(
            trend.contains("Comparisons and medians over repeats contain a part of this trend"),
            "{trend}"
        );
        let drawn = report(&drifting(Order::Random, &["a", "b", "c"]));
        assert!(drawn.overview.iter().all(|row| row.places.is_some()));
        assert_eq!(said(&drawn, crate::Code::FixedOrder), None);
        let alone = report(&drifting(Order::Fixed, &["a"]));
        assert_eq!(said(&alone, crate::Code::FixedOrder), None);
        assert!(alone.overview[0].places.is_some());
    }
}
