//! Checks each caveat and each limiter at its bound: one world triggers the rule, and a second one,
//! just short of the bound, does not. A world (`w` in the cases) is a record as in an archive. All
//! rules run on it, so that a moved bound or an incorrect number makes a test fail. The cases stand
//! next to their rules. Snapshots have the sentences and the evidence.

pub(super) mod changes;
pub(super) mod limiter;
pub(super) mod run_world;
pub(super) mod world;

use super::is_valid;
use crate::caveat::{Caveat, Code, Severity};
use crate::snapshot;
use world::TrialWorld;

/// A world from which rules derive caveats. The default world has none.
pub(super) trait CaveatSource: Default {
    fn caveats(&self) -> Vec<Caveat>;
}

/// One bound of a rule, with a world on either side of it.
pub(super) struct Case<W> {
    code: Code,
    severity: Severity,
    /// Changes the default world, before `trigger` or `near_miss`.
    given: fn(&mut W),
    /// Changes the world so that it has the caveat, just past the bound.
    trigger: fn(&mut W),
    /// Changes the world so that it stays just within the bound.
    near_miss: fn(&mut W),
    /// Severity of the code's caveat in the world of `near_miss`. `None`: that world has no such
    /// caveat.
    near_miss_severity: Option<Severity>,
}

impl<W> Case<W> {
    /// Returns a case whose near miss has no caveat of this code.
    pub(super) const fn new(
        code: Code,
        severity: Severity,
        trigger: fn(&mut W),
        near_miss: fn(&mut W),
    ) -> Case<W> {
        Case { code, severity, given: |_| {}, trigger, near_miss, near_miss_severity: None }
    }

    /// Sets the change that both worlds have in common. It is made first.
    pub(super) const fn given(mut self, given: fn(&mut W)) -> Case<W> {
        self.given = given;
        self
    }

    /// Sets the severity of the code's caveat in the world of `near_miss`.
    pub(super) const fn near_miss_still(mut self, severity: Severity) -> Case<W> {
        self.near_miss_severity = Some(severity);
        self
    }
}

/// Returns a case of a caveat about a trial that makes it invalid. The compiler infers the types of
/// closures only from this type, not from [`Case::new`].
pub(super) const fn invalid(
    code: Code,
    trigger: fn(&mut TrialWorld),
    near_miss: fn(&mut TrialWorld),
) -> Case<TrialWorld> {
    Case::new(code, Severity::Invalid, trigger, near_miss)
}

/// Returns a case of a warning about a trial.
pub(super) const fn warning(
    code: Code,
    trigger: fn(&mut TrialWorld),
    near_miss: fn(&mut TrialWorld),
) -> Case<TrialWorld> {
    Case::new(code, Severity::Warning, trigger, near_miss)
}

/// Returns a case of an information about a trial.
pub(super) const fn info(
    code: Code,
    trigger: fn(&mut TrialWorld),
    near_miss: fn(&mut TrialWorld),
) -> Case<TrialWorld> {
    Case::new(code, Severity::Info, trigger, near_miss)
}

fn caveats_after<W: CaveatSource>(changes: [fn(&mut W); 2]) -> Vec<Caveat> {
    let mut world = W::default();
    changes.into_iter().for_each(|change| change(&mut world));
    let caveats = world.caveats();
    assert!(
        caveats.is_sorted_by_key(|c| std::cmp::Reverse(c.severity)),
        "not sorted by severity: {caveats:#?}"
    );
    caveats
}

fn severities(caveats: &[Caveat], code: Code) -> Vec<Severity> {
    caveats.iter().filter(|c| c.code == code).map(|c| c.severity).collect()
}

/// Checks all cases, and panics with a list of the failed ones. Compares the caveats with the
/// snapshot of this name.
pub(super) fn check_cases<W: CaveatSource>(name: &str, cases: &[Case<W>]) {
    let named_fault = |(number, case): (usize, &Case<W>)| {
        let name = format!("case {number}, {} as {:?}", case.code, case.severity);
        find_fault(case).map(|fault| format!("{name}: {fault}"))
    };
    let faults: Vec<String> = cases.iter().enumerate().filter_map(named_fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    let texts: Vec<String> = cases.iter().map(caveat_text).collect();
    snapshot::check(name, &texts.join("\n"));
}

fn find_fault<W: CaveatSource>(case: &Case<W>) -> Option<String> {
    let caveats = caveats_after([case.given, case.trigger]);
    let near_miss = caveats_after([case.given, case.near_miss]);
    let near_miss_severities: Vec<Severity> = case.near_miss_severity.into_iter().collect();
    if severities(&caveats, case.code) != [case.severity] {
        Some(format!("the caveat is missing, or its severity differs: {caveats:#?}"))
    } else if case.severity == Severity::Invalid
        && (case.code.reason().is_none() || is_valid(&caveats))
    {
        Some("the world stays valid, or the code has no reason".into())
    } else if severities(&near_miss, case.code) != near_miss_severities {
        Some(format!("the near miss gives {near_miss:#?}"))
    } else {
        None
    }
}

/// Formats the caveat of a case for its snapshot.
fn caveat_text<W: CaveatSource>(case: &Case<W>) -> String {
    let caveats = caveats_after([case.given, case.trigger]);
    let caveat = caveats.iter().find(|c| c.code == case.code).expect("checked before");
    let title = case_title(caveat.code, caveat.severity);
    let evidence = snapshot::evidence_text(&caveat.evidence);
    format!("{title}\n{}\n{evidence}\n", caveat.message)
}

fn case_title(code: Code, severity: Severity) -> String {
    format!("## {code}, {severity:?}")
}

#[test]
fn each_code_has_case_and_reason_if_it_refuses() {
    let lines = snapshot::lines("caveats");
    for code in Code::all() {
        let has_case = |severity| lines.contains(&case_title(code, severity));
        let severities = [Severity::Info, Severity::Warning, Severity::Invalid];
        assert!(severities.into_iter().any(has_case), "{code} has no case");
        assert_eq!(has_case(Severity::Invalid), code.reason().is_some(), "{code}");
    }
}

#[test]
fn default_world_has_no_caveat() {
    let world = TrialWorld::default();
    assert_eq!(world.caveats(), []);
    let load = world.result();
    assert!(load.valid && load.caveats.is_empty(), "{:#?}", load.caveats);
    assert_eq!(run_world::RunWorld::default().caveats(), []);
}
