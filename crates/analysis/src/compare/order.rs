//! Describes the effect of a fixed order of starts on a comparison.
//!
//! If every block starts its arms in the same order, a drift of the machine cannot be distinguished
//! from a difference between the arms.

use dyno_model::plan::Plan;

use super::{RunDifference, Side};
use crate::design::{Design, fixed_position};

/// Whether a fixed order of starts may be the cause of a difference between two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confounding {
    /// Neither side has a fixed order.
    None,
    /// The order is fixed, and both arms have the same position in it: a drift within the runs
    /// affects both.
    SamePosition,
    /// The arms have different positions, so a drift within a run biases each difference.
    Position,
}

/// Returns how a fixed order affects the comparison of these pairs of arms.
pub(super) fn confounding(a: Side<'_>, b: Side<'_>, arms: &[(usize, usize)]) -> Confounding {
    let (plan_a, plan_b) = (&a.run.header.plan, &b.run.header.plan);
    if !Design::new(plan_a).is_fixed() && !Design::new(plan_b).is_fixed() {
        return Confounding::None;
    }
    // Controls are compared only if the user named them.
    let is_compared = |arm: usize| a.arm.is_some() || !plan_a.subject_of(arm).control;
    let mut compared = arms.iter().filter(|(arm_a, _)| is_compared(*arm_a));
    match compared
        .all(|(arm_a, arm_b)| fixed_position(plan_a, *arm_a) == fixed_position(plan_b, *arm_b))
    {
        true => Confounding::SamePosition,
        false => Confounding::Position,
    }
}

/// Returns differences between arms of one run that may be the cause of a result.
pub(super) fn arm_differences(plan: &Plan) -> Vec<RunDifference> {
    let order =
        if Design::new(plan).is_fixed() { Confounding::Position } else { Confounding::None };
    order.difference().into_iter().collect()
}

impl Confounding {
    /// Returns the position in the order as a difference between the sides; `None`: both sides have
    /// the same position.
    pub(super) fn difference(self) -> Option<RunDifference> {
        let name = "their position in the fixed order of server starts".into();
        (self == Confounding::Position).then_some(RunDifference { name, a: None, b: None })
    }

    /// Returns the note on the order of starts; `None`: the order was not fixed.
    pub(super) const fn note(self) -> Option<&'static str> {
        match self {
            Confounding::None => None,
            Confounding::SamePosition => Some(
                "The servers were started in a fixed order. If the machine's speed changed during \
                 a run, the numbers of this run are biased. The intervals do not account for this \
                 bias.",
            ),
            Confounding::Position => Some(
                "The servers were started in a fixed order, in which A and B have different \
                 positions. If the machine's speed changed during a run, each difference is \
                 biased. The cause of a difference is therefore unknown, and gates are undecided \
                 unless the server of B failed. Use `order = \"random\"` under `[suite]`.",
            ),
        }
    }

    /// Returns why a ratio cannot decide a gate; `None`: the ratio can decide.
    pub(super) const fn gate_note(self) -> Option<&'static str> {
        match self {
            Confounding::None | Confounding::SamePosition => None,
            Confounding::Position => Some(
                "the servers were started in a fixed order, so a change of the machine's speed may \
                 cause or hide the difference. Use `order = \"random\"` under `[suite]`.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::{Order, Subject};
    use dyno_model::run::Run;

    use super::*;
    use crate::compare::{ComparisonOptions, ComparisonResult, Gate, GateState, compare};
    use crate::fixture;
    use crate::report::report;
    use crate::stats::draws::Normal;

    /// Returns a run of equally fast servers on a machine that becomes 3 % slower with each start.
    fn drifting_run(order: Order, names: &[&str]) -> Run {
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

    fn compare_runs(
        a: (&Run, Option<usize>),
        b: (&Run, Option<usize>),
        gates: &str,
    ) -> ComparisonResult {
        let (report_a, report_b) = (report(a.0), report(b.0));
        let options = ComparisonOptions {
            gates: Gate::parse(gates).unwrap(),
            ..ComparisonOptions::default()
        };
        compare(
            Side { run: a.0, results: report_a.results(), arm: a.1 },
            Side { run: b.0, results: report_b.results(), arm: b.1 },
            &options,
        )
    }

    #[test]
    fn fixed_order_decides_no_gate() {
        let run = drifting_run(Order::Fixed, &["a", "b"]);
        for gate in ["throughput<-1%", "throughput<-20%"] {
            let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), gate);
            assert_eq!(
                (comparison.passed, comparison.undecided),
                (true, 1),
                "{:?}",
                comparison.gates
            );
            assert!(
                comparison.gates[0].sentence.contains("servers were started in a fixed order"),
                "{:?}",
                comparison.gates
            );
            assert!(
                comparison.answers[0]
                    .sentence
                    .contains("their position in the fixed order of server starts")
            );
            assert!(
                comparison.notes.iter().any(|note| note.contains("therefore unknown")),
                "{:?}",
                comparison.notes
            );
            assert!(comparison.differences.is_empty());
        }
        let run = drifting_run(Order::Random, &["a", "b"]);
        let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), "throughput<-1%");
        assert_eq!(comparison.gates[0].state, GateState::Missed);
        assert!(
            comparison.notes.is_empty() && !comparison.answers[0].sentence.contains("order"),
            "{comparison:?}"
        );
    }

    #[test]
    fn same_fixed_position_in_two_runs_decides_gate() {
        let run = drifting_run(Order::Fixed, &["a", "b"]);
        let mut later = run.clone();
        later.header.id = "later".into();
        later.header.started = "later".into();
        let comparison = compare_runs((&run, Some(1)), (&later, Some(1)), "throughput<-50%");
        assert_eq!(comparison.gates[0].state, GateState::Held, "{:?}", comparison.gates);
        assert!(
            comparison.notes.iter().any(|note| note.contains("numbers of this run are biased"))
        );
        let comparison = compare_runs((&run, Some(0)), (&later, Some(1)), "throughput<-50%");
        assert_eq!(comparison.gates[0].state, GateState::Undecided);
        // Another subject before it moves it to another position.
        let longer = drifting_run(Order::Fixed, &["new", "a", "b"]);
        let comparison = compare_runs((&run, Some(1)), (&longer, Some(2)), "throughput<-50%");
        assert_eq!(comparison.gates[0].state, GateState::Undecided);
    }

    /// Equal servers that differ only by drift are neither ranked nor explained.
    #[test]
    fn fixed_order_ranks_no_subject() {
        let fixed = report(&drifting_run(Order::Fixed, &["a", "b", "c"]));
        assert!(fixed.overview.iter().all(|row| (row.places, row.tie_group) == (None, None)));
        assert!(
            fixed.ties.is_empty()
                && fixed.comparisons.iter().all(|comparison| comparison.tie == Some(true))
        );
        let message = |report: &crate::report::Report, code| {
            report
                .caveats
                .iter()
                .find(|caveat| caveat.code == code)
                .map(|caveat| caveat.message.clone())
        };
        assert!(
            message(&fixed, crate::Code::FIXED_ORDER).unwrap().contains("Use `order = \"random\"`")
        );
        let trend = message(&fixed, crate::Code::TREND).unwrap();
        assert!(
            trend.contains("This trend therefore affects comparisons and medians over repeats"),
            "{trend}"
        );
        let drawn = report(&drifting_run(Order::Random, &["a", "b", "c"]));
        assert!(drawn.overview.iter().all(|row| row.places.is_some()));
        assert_eq!(message(&drawn, crate::Code::FIXED_ORDER), None);
        let alone = report(&drifting_run(Order::Fixed, &["a"]));
        assert_eq!(message(&alone, crate::Code::FIXED_ORDER), None);
        assert!(alone.overview[0].places.is_some());
    }
}
