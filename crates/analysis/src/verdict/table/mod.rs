//! Tests each caveat and each limiter at its bound: one world triggers the rule, and a second one,
//! just short of the bound, does not. A world (`w` in the cases) is a record as in an archive. All
//! rules run on it, so that a moved bound or an incorrect number makes a test fail.

mod backends;
mod full_thread;
mod generator;
mod levels;
mod limiter;
mod load;
mod other_programs;
mod pauses;
mod polling;
mod responses;
mod run;
mod server;
mod times;
mod waits;
mod warming;
mod world;

use std::collections::BTreeSet;

use serde_json::Value;

use super::is_valid;
use crate::caveat::{Caveat, Code, Severity};
use world::TrialWorld;

/// A world from which rules derive caveats. The default world has none.
trait CaveatSource: Default {
    fn caveats(&self) -> Vec<Caveat>;
}

/// One bound of a rule, with a world on either side of it.
struct Case<W> {
    code: Code,
    severity: Severity,
    /// Part of the caveat's message, with its numbers.
    message: &'static str,
    /// JSON object with a part of the caveat's evidence.
    evidence: &'static str,
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
    /// Returns a case without expected evidence, whose near miss has no caveat of this code.
    const fn new(
        (code, severity): (Code, Severity),
        message: &'static str,
        trigger: fn(&mut W),
        near_miss: fn(&mut W),
    ) -> Case<W> {
        Case {
            code,
            severity,
            message,
            evidence: "{}",
            given: |_| {},
            trigger,
            near_miss,
            near_miss_severity: None,
        }
    }

    /// Sets the change that both worlds have in common. It is made first.
    const fn given(mut self, given: fn(&mut W)) -> Case<W> {
        self.given = given;
        self
    }

    /// Sets the expected part of the evidence, a JSON object.
    const fn evidence(mut self, evidence: &'static str) -> Case<W> {
        self.evidence = evidence;
        self
    }

    /// Sets the severity of the code's caveat in the world of `near_miss`.
    const fn near_miss_still(mut self, severity: Severity) -> Case<W> {
        self.near_miss_severity = Some(severity);
        self
    }
}

/// Returns a case about a trial. The compiler infers the types of closures only from this type, not
/// from [`Case::new`].
const fn case(
    code: (Code, Severity),
    message: &'static str,
    trigger: fn(&mut TrialWorld),
    near_miss: fn(&mut TrialWorld),
) -> Case<TrialWorld> {
    Case::new(code, message, trigger, near_miss)
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

/// Checks all cases, and panics with a list of the failed ones.
fn check_cases<W: CaveatSource>(cases: &[Case<W>]) {
    let named_fault = |(number, case): (usize, &Case<W>)| {
        let name = format!("case {number}, {} as {:?}", case.code, case.severity);
        find_fault(case).map(|fault| format!("{name}: {fault}"))
    };
    let faults: Vec<String> = cases.iter().enumerate().filter_map(named_fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

fn find_fault<W: CaveatSource>(case: &Case<W>) -> Option<String> {
    let caveats = caveats_after([case.given, case.trigger]);
    let Some(caveat) = caveats.iter().find(|c| c.code == case.code) else {
        return Some(format!("the caveat is missing: {caveats:#?}"));
    };
    let near_miss = caveats_after([case.given, case.near_miss]);
    let near_miss_severities: Vec<Severity> = case.near_miss_severity.into_iter().collect();
    if severities(&caveats, case.code) != [case.severity] {
        Some(format!("the severity differs: {caveats:#?}"))
    } else if !caveat.message.contains(case.message) {
        Some(format!("the message is {:?}, without {:?}", caveat.message, case.message))
    } else if case.severity == Severity::Invalid
        && (case.code.reason().is_none() || is_valid(&caveats))
    {
        Some("the world stays valid, or the code has no reason".into())
    } else if severities(&near_miss, case.code) != near_miss_severities {
        Some(format!("the near miss gives {near_miss:#?}"))
    } else {
        missing_evidence(&caveat.evidence, case.evidence)
    }
}

/// Describes the first expected key whose value differs in the evidence. `None`: all values are
/// equal, numbers up to rounding.
fn missing_evidence(evidence: &Value, expected: &str) -> Option<String> {
    let expected: Value = serde_json::from_str(expected).expect("JSON");
    let is_equal =
        |(key, value): &(&String, &Value)| match (evidence[*key].as_f64(), value.as_f64()) {
            (Some(actual), Some(expected)) => (actual - expected).abs() <= 1e-9 * expected.abs(),
            _ => evidence[*key] == **value,
        };
    let (key, value) =
        expected.as_object().expect("an object").iter().find(|entry| !is_equal(entry))?;
    Some(format!("{key} is not {value} in {evidence}"))
}

#[test]
fn each_load_rule_triggers_at_its_bound() {
    check_cases(load::CASES);
    check_cases(responses::CASES);
    check_cases(times::PACE);
    check_cases(times::CASES);
}

#[test]
fn each_generator_rule_triggers_at_its_bound() {
    check_cases(generator::GENERATOR_LIMITS);
    check_cases(generator::OTHER_CASES);
}

#[test]
fn each_server_rule_triggers_at_its_bound() {
    check_cases(server::CASES);
}

#[test]
fn each_warming_rule_triggers_at_its_bound() {
    check_cases(warming::CASES);
}

#[test]
fn each_level_rule_triggers_at_its_bound() {
    check_cases(levels::CASES);
}

#[test]
fn each_run_rule_triggers_at_its_bound() {
    check_cases(run::CASES);
}

/// Returns code and severity of each case.
fn covered_caveats() -> Vec<(Code, Severity)> {
    fn codes<W>(cases: &'static [Case<W>]) -> impl Iterator<Item = (Code, Severity)> {
        cases.iter().map(|case| (case.code, case.severity))
    }
    let trial_cases = [
        load::CASES,
        responses::CASES,
        pauses::GENERATOR_PAUSES,
        pauses::SERVER_STALLS,
        pauses::EARLY_RESPONSES,
        times::PACE,
        times::CASES,
        generator::GENERATOR_LIMITS,
        generator::OTHER_CASES,
        server::CASES,
        warming::CASES,
        levels::CASES,
    ];
    trial_cases.into_iter().flat_map(codes).chain(codes(run::CASES)).collect()
}

#[test]
fn each_code_has_case_and_reason_if_it_refuses() {
    let covered = covered_caveats();
    let names: BTreeSet<&str> = covered.iter().map(|(code, _)| code.name()).collect();
    assert_eq!(names, Code::all().map(Code::name).collect());
    for code in Code::all() {
        let refuses = covered.contains(&(code, Severity::Invalid));
        assert_eq!(refuses, code.reason().is_some(), "{code}");
    }
}

#[test]
fn default_world_has_no_caveat() {
    let world = TrialWorld::default();
    assert_eq!(world.caveats(), []);
    let load = world.result();
    assert!(load.valid && load.caveats.is_empty(), "{:#?}", load.caveats);
    assert_eq!(run::RunWorld::default().caveats(), []);
}
