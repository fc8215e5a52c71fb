//! Compares the contract checks that were made on the two sides of a server.
//!
//! A server that is held to fewer checks may be faster because it does less, so a gate cannot be
//! held.

use std::collections::BTreeSet;

use dyno_model::trial::EXPECTATIONS;

use super::Side;
use crate::subject::CheckSummary;

/// Checks that were made on only one side of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OneSidedChecks {
    only_a: Vec<String>,
    only_b: Vec<String>,
    /// Whether both sides are the same server, perhaps at different revisions. Different servers
    /// may have different contracts by intent.
    is_same_server: bool,
}

impl OneSidedChecks {
    /// Compares the checks of an arm of `a` with those of its counterpart in `b`.
    pub(super) fn new(a: (Side<'_>, usize), b: (Side<'_>, usize)) -> OneSidedChecks {
        let server = |(side, arm): (Side<'_>, usize)| {
            let subject = side.run.header.plan.subject_of(arm);
            (subject.name.clone(), subject.variant.clone())
        };
        let is_same_server = server(a) == server(b);
        let (Some(of_a), Some(of_b)) = (checks_of(a), checks_of(b)) else {
            return OneSidedChecks::default();
        };
        OneSidedChecks {
            only_a: of_a.difference(&of_b).cloned().collect(),
            only_b: of_b.difference(&of_a).cloned().collect(),
            is_same_server,
        }
    }

    /// Returns a sentence on the checks that were made on only one side. `None`: no such check.
    /// `has_gates`: whether the comparison has gates.
    pub(super) fn note(&self, has_gates: bool) -> Option<String> {
        let made = |checks: &[String], on, not_on| {
            (!checks.is_empty())
                .then(|| format!("{} made on {on}, but not on {not_on}", in_words(checks)))
        };
        let sides = [made(&self.only_a, "A", "B"), made(&self.only_b, "B", "A")];
        let sides: Vec<String> = sides.into_iter().flatten().collect();
        if sides.is_empty() {
            return None;
        }
        let consequence = match has_gates && self.gate_note().is_some() {
            true => ", and its gates cannot be held",
            false => "",
        };
        Some(format!(
            "{}. The side without a check may respond incorrectly to its requests{consequence}. \
             Use the same contracts (`checks` in `subject.toml`) on both sides",
            sides.join(", and ")
        ))
    }

    /// Returns why a gate cannot be held. `None`: all checks of A were made on B, or B is another
    /// server.
    pub(super) fn gate_note(&self) -> Option<String> {
        (self.is_same_server && !self.only_a.is_empty())
            .then(|| format!("{} made on A, but not on B", in_words(&self.only_a)))
    }
}

/// Returns the names of the checks of an arm, without protocols, because a side may have other
/// protocols. `None`: the arm was never loaded, so its checks may be incomplete.
fn checks_of((side, arm): (Side<'_>, usize)) -> Option<BTreeSet<String>> {
    let is_loaded = side.results.trials.iter().any(|trial| trial.cell.arm == arm);
    let subject = side.results.subjects.get(arm).filter(|_| is_loaded)?;
    let name = |check: &CheckSummary| {
        let protocol = format!(" over {}", check.protocol);
        check.name.strip_suffix(&protocol).unwrap_or(&check.name).to_string()
    };
    // This check is made on both sides, but recorded only if it fails.
    Some(subject.checks.iter().map(name).filter(|name| name != EXPECTATIONS).collect())
}

/// Returns text such as `the checks "a" and "b" were`.
fn in_words(checks: &[String]) -> String {
    let quoted: Vec<String> = checks.iter().map(|check| format!("{check:?}")).collect();
    match &quoted[..] {
        [check] => format!("the check {check} was"),
        _ => format!("the checks {} were", quoted.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::Subject;
    use dyno_model::run::Run;

    use super::*;
    use crate::compare::{ComparisonOptions, ComparisonResult, Gate, GateState, compare};
    use crate::fixture;
    use crate::report::report;

    /// Returns a run of two arms with these checks.
    fn run_with_checks(names: [&str; 2], checks: [&[&str]; 2]) -> Run {
        let subject = |name: &str| Subject { name: name.into(), ..Subject::default() };
        let mut run = fixture::blocks_of(names.map(subject).to_vec(), 6, |_, block| {
            100_000 + u64::from(block)
        });
        let arms: Vec<usize> = run.header.plan.trials.iter().map(|trial| trial.arm).collect();
        for trial in &mut run.trials {
            let names = checks[arms[trial.trial]].iter();
            trial.checks = names.map(|name| fixture::check(name, true, "it")).collect();
        }
        run
    }

    fn compared(run: &Run) -> ComparisonResult {
        let run_report = report(run);
        let side = |arm| Side { run, results: run_report.results(), arm: Some(arm) };
        let gates = Gate::parse("throughput<-50%").unwrap();
        compare(side(0), side(1), &ComparisonOptions { gates, ..ComparisonOptions::default() })
    }

    #[test]
    fn dropped_check_has_note_and_undecides_gate() {
        let result = |a, b| compared(&run_with_checks(["x", "x"], [a, b]));
        let dropped = result(&["json", "missing"], &["json"]);
        let [gate] = &dropped.gates[..] else { panic!("{:?}", dropped.gates) };
        assert_eq!(gate.state, GateState::Undecided, "{}", gate.sentence);
        let reason = "the check \"missing\" was made on A, but not on B";
        assert!(gate.sentence.contains(reason), "{}", gate.sentence);
        let has_note = |result: &ComparisonResult| {
            result.notes.iter().any(|note| note.contains("The side without a check"))
        };
        let note = dropped.notes.iter().find(|note| note.contains(reason)).unwrap();
        assert!(note.contains("its gates cannot be held"), "{note}");
        let added = result(&["json"], &["json", "missing"]);
        assert_eq!((added.gates[0].state, has_note(&added)), (GateState::Held, true));
        // It is recorded only if it fails.
        let unexpected = result(&["json"], &["json", EXPECTATIONS]);
        assert_eq!((unexpected.gates[0].state, has_note(&unexpected)), (GateState::Held, false));
        let equal = result(&["json"], &["json"]);
        assert_eq!((equal.gates[0].state, has_note(&equal)), (GateState::Held, false));
    }

    #[test]
    fn other_checks_of_other_server_have_only_note() {
        let result = compared(&run_with_checks(["x", "y"], [&["json", "missing"], &["json"]]));
        assert_eq!(result.gates[0].state, GateState::Held, "{}", result.gates[0].sentence);
        let is_note = |note: &&String| note.contains("\"missing\" was made on A, but not on B");
        let note = result.notes.iter().find(is_note).unwrap();
        assert!(!note.contains("gates"), "{note}");
    }
}
