//! Tests of every caveat and every limiter at its bound: a world that trips the rule, and one just
//! short of the bound that does not. Worlds are records as archives have them, judged by all
//! rules, so that a moved bound or a wrong number shows here.

mod generator;
mod levels;
mod limiter;
mod load;
mod other_programs;
mod pauses;
mod polling;
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
use world::JudgedWorld;

/// A world that can be judged. In the default one nothing is wrong.
trait Judged: Default {
    fn caveats(&self) -> Vec<Caveat>;
}

/// One bound of a rule, with a world on either side of it.
struct Case<W> {
    code: Code,
    severity: Severity,
    /// Part of the caveat's message, with its numbers.
    says: &'static str,
    /// JSON object of values that its evidence must have; it may have more.
    evidence: &'static str,
    trips: fn(&mut W),
    just_not: fn(&mut W),
    /// Severity of the code in the world of `just_not`; `None`: it has no such caveat.
    otherwise: Option<Severity>,
}

fn caveats_of<W: Judged>(change: fn(&mut W)) -> Vec<Caveat> {
    let mut world = W::default();
    change(&mut world);
    let caveats = world.caveats();
    assert!(
        caveats.is_sorted_by_key(|c| std::cmp::Reverse(c.severity)),
        "the most severe first: {caveats:#?}"
    );
    caveats
}

fn severities(caveats: &[Caveat], code: Code) -> Vec<Severity> {
    caveats.iter().filter(|c| c.code == code).map(|c| c.severity).collect()
}

/// Judges all cases before it fails, so that moving a bound shows all that it changes.
fn judge<W: Judged>(cases: &[Case<W>]) {
    let fault = |(number, case): (usize, &Case<W>)| {
        let name = format!("case {number}, {} as {:?}", case.code, case.severity);
        fault_of(case).map(|fault| format!("{name}: {fault}"))
    };
    let faults: Vec<String> = cases.iter().enumerate().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

fn fault_of<W: Judged>(case: &Case<W>) -> Option<String> {
    let caveats = caveats_of(case.trips);
    let Some(tripped) = caveats.iter().find(|c| c.code == case.code) else {
        return Some(format!("it does not trip: {caveats:#?}"));
    };
    let untripped = caveats_of(case.just_not);
    let otherwise: Vec<Severity> = case.otherwise.into_iter().collect();
    if severities(&caveats, case.code) != [case.severity] {
        Some(format!("it trips otherwise: {tripped:#?}"))
    } else if !tripped.message.contains(case.says) {
        Some(format!("it says {:?} and not {:?}", tripped.message, case.says))
    } else if case.severity == Severity::Invalid
        && (case.code.reason().is_none() || is_valid(&caveats))
    {
        Some("it does not refuse, or without a reason".into())
    } else if severities(&untripped, case.code) != otherwise {
        Some(format!("what should just not trip gives {untripped:#?}"))
    } else {
        missing_in(&tripped.evidence, case.evidence)
    }
}

/// The first wanted key whose value differs in the evidence, numbers up to rounding; `None`: all
/// are there.
fn missing_in(evidence: &Value, wanted: &str) -> Option<String> {
    let wanted: Value = serde_json::from_str(wanted).expect("JSON");
    let is_there =
        |(key, value): &(&String, &Value)| match (evidence[*key].as_f64(), value.as_f64()) {
            (Some(is), Some(wanted)) => (is - wanted).abs() <= 1e-9 * wanted.abs(),
            _ => evidence[*key] == **value,
        };
    let (key, value) =
        wanted.as_object().expect("an object").iter().find(|entry| !is_there(entry))?;
    Some(format!("{key} is not {value} in {evidence}"))
}

#[test]
fn each_rule_of_a_load_trips_at_its_bound() {
    judge(load::CASES);
    judge(times::PACE);
    judge(times::CASES);
}

#[test]
fn each_rule_of_the_generator_trips_at_its_bound() {
    judge(generator::BOUNDS);
    judge(generator::BESIDE);
}

#[test]
fn each_rule_of_a_server_trips_at_its_bound() {
    judge(server::CASES);
}

#[test]
fn each_rule_of_warming_trips_at_its_bound() {
    judge(warming::CASES);
}

#[test]
fn each_rule_of_levels_trips_at_its_bound() {
    judge(levels::CASES);
}

#[test]
fn each_rule_of_a_run_trips_at_its_bound() {
    judge(run::CASES);
}

/// Code and severity of every case.
fn covered() -> Vec<(Code, Severity)> {
    fn codes<W>(cases: &'static [Case<W>]) -> impl Iterator<Item = (Code, Severity)> {
        cases.iter().map(|case| (case.code, case.severity))
    }
    let of_trials = [
        load::CASES,
        pauses::STOPPED,
        pauses::STALLED,
        pauses::EARLY,
        times::PACE,
        times::CASES,
        generator::BOUNDS,
        generator::BESIDE,
        server::CASES,
        warming::CASES,
        levels::CASES,
    ];
    of_trials.into_iter().flat_map(codes).chain(codes(run::CASES)).collect()
}

#[test]
fn every_code_has_a_case_and_refuses_for_the_reason_that_it_gives() {
    let covered = covered();
    let codes: BTreeSet<Code> = covered.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, Code::ALL.iter().copied().collect());
    for code in Code::ALL {
        let refuses = covered.contains(&(*code, Severity::Invalid));
        assert_eq!(refuses, code.reason().is_some(), "{code}");
    }
}

#[test]
fn of_a_world_in_which_nothing_is_wrong_nothing_bad_is_said() {
    let world = JudgedWorld::default();
    assert_eq!(world.caveats(), []);
    let load = world.result();
    assert!(load.valid && load.caveats.is_empty(), "{:#?}", load.caveats);
    assert_eq!(run::RunWorld::default().caveats(), []);
}
