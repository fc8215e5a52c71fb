//! Skewed ratios of runs that may stop early: their intervals are too narrow.

use dyno_model::plan::{Experiment, ExperimentKind, StopRule};

use super::*;
use crate::report::Report;

const CLAUSE: &str = "; the ratios of the repeats are skewed, and intervals assume symmetry, so \
                      their confidence is below 95 %";

const EVEN: [u64; 9] = [1000, 1010, 990, 1005, 995, 1008, 992, 1003, 997];

/// Returns a run of two servers that may stop early. In the last repeat, `y` has this number of
/// responses; in the others, 10 % more than `x`.
fn run(last: u64) -> Run {
    let mut y = EVEN.map(|responses| responses * 11 / 10 + responses % 7);
    y[8] = last;
    let mut run = run_with_servers("r", &[("x", &EVEN), ("y", &y), ("null", &EVEN)]);
    run.header.plan.stop =
        Some(StopRule { metrics: vec!["throughput_rps".into()], same_within: None });
    run
}

const SYMMETRIC: u64 = 1100;
const SKEWED: u64 = 1400;

fn compare_arms(run: &Run, gates: &str) -> ComparisonResult {
    let gates = if gates.is_empty() { Vec::new() } else { Gate::parse(gates).unwrap() };
    let options = ComparisonOptions { gates, ..ComparisonOptions::default() };
    compare_runs((run, Some(0)), (run, Some(1)), &options)
}

#[test]
fn skewed_ratios_are_in_sentence_of_row_and_answer() {
    for (last, is_skewed) in [(SKEWED, true), (SYMMETRIC, false)] {
        let compared = compare_arms(&run(last), "");
        let row = throughput(&compared);
        assert_eq!(row.estimate.unwrap().is_skewed, is_skewed, "{row:?}");
        assert_eq!(row.sentence.ends_with(CLAUSE), is_skewed, "{}", row.sentence);
        let answer = &compared.answers[0].sentence;
        let in_throughput = CLAUSE.replace("the repeats", "throughput");
        assert_eq!(answer.contains(&in_throughput), is_skewed, "{answer}");
        assert_eq!(answer.matches("skewed").count(), usize::from(is_skewed), "{answer}");
    }
    let mut planned = run(SKEWED);
    planned.header.plan.stop = None;
    let compared = compare_arms(&planned, "");
    assert!(!throughput(&compared).sentence.contains("skewed"), "Student's t, at the end");
}

#[test]
fn gate_on_skewed_ratios_is_not_held() {
    for (last, gate, state) in [
        (SYMMETRIC, "throughput<-5%", GateState::Held),
        // No pair is beyond the limit.
        (SKEWED, "throughput<-5%", GateState::Held),
        (700, "throughput<-29%", GateState::Undecided),
    ] {
        let compared = compare_arms(&run(last), gate);
        let gate = &compared.gates[0];
        assert_eq!(gate.state, state, "{}", gate.sentence);
        assert_eq!(gate.sentence.contains(CLAUSE), last != SYMMETRIC, "{}", gate.sentence);
    }
    // A regression still misses its gate.
    let run = run(SKEWED);
    let options = ComparisonOptions {
        gates: Gate::parse("throughput<-5%").unwrap(),
        ..ComparisonOptions::default()
    };
    let compared = compare_runs((&run, Some(1)), (&run, Some(0)), &options);
    let gate = &compared.gates[0];
    assert_eq!(gate.state, GateState::Missed, "{}", gate.sentence);
    assert!(gate.sentence.ends_with(CLAUSE), "{}", gate.sentence);
}

#[test]
fn skewed_ratios_of_experiment_are_described() {
    let mut run = run(SKEWED);
    let plan = &mut run.header.plan;
    let arms = vec!["x".into(), "y".into()];
    plan.experiment = Some(Experiment { kind: ExperimentKind::Dose, factor: None, arms });
    (plan.arms[0].level, plan.arms[1].level) = (Some(1.0), Some(2.0));
    plan.arms[1].conditions.limits.cpus = Some(2.0);
    let report: Report = report(&run);
    let experiment = report.experiment.unwrap();
    let effect = &experiment.effects[0];
    assert!(effect.rows[0].sentence.contains(CLAUSE), "{}", effect.rows[0].sentence);
    assert!(effect.answers[0].sentence.contains("of throughput are skewed"), "{effect:?}");
    let dose = experiment.doses.iter().find(|dose| dose.metric == "throughput_rps").unwrap();
    assert!(dose.doubling.unwrap().is_skewed, "{dose:?}");
}
