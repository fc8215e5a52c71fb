//! Tests which trials a resumed run measures again, because the contract was not checked after
//! them.

use std::path::Path;

use dyno_archive::RunDir;
use dyno_model::start::{Failure, FailureKind};
use dyno_model::{Party, StartRecord, TrialRecord};

fn failed(start: &mut StartRecord, kind: FailureKind) {
    start.failure = Some(Failure { kind, message: String::new() });
}

/// Makes a start one whose checks after its last step were interrupted.
fn interrupt_checks(start: &mut StartRecord) {
    failed(start, FailureKind::Interrupted);
    let mut parts = start.parts.iter_mut();
    let part = parts.find(|part| part.party == Party::SUBJECT).unwrap();
    assert!(!part.checks_before.is_empty());
    part.checks_after.clear();
}

#[test]
fn interrupted_resume_leaves_trials_unchecked() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    let mut run = RunDir::open(&golden).unwrap().read().unwrap();
    assert_eq!(run.unchecked_trials(), [0; 0]);
    interrupt_checks(&mut run.starts[0]);
    let unchecked = run.unchecked_trials();
    assert!(!unchecked.is_empty());
    // The resumed start ended before its first trial, with and without its first checks.
    let number = run.starts.iter().map(|start| start.start + 1).max().unwrap();
    for has_parts in [true, false] {
        let mut next = StartRecord { start: number, ..run.starts[0].clone() };
        failed(&mut next, FailureKind::Interrupted);
        next.parts.retain(|_| has_parts);
        run.starts.push(next);
        assert_eq!(run.unchecked_trials(), unchecked, "{has_parts}");
        run.starts.pop();
    }
    // The check at the end of a later start is about another process.
    let checks = run.starts[1].subject().unwrap().checks_after.clone();
    let mut next = StartRecord { start: number, ..run.starts[0].clone() };
    (next.failure, next.ended_ns) = (None, Some(1));
    next.parts.iter_mut().for_each(|part| part.checks_after.clone_from(&checks));
    run.starts.push(next);
    assert_eq!(run.unchecked_trials(), unchecked);
    // The trials that it measured again have that check.
    run.trials.iter_mut().filter(|trial| unchecked.contains(&trial.trial)).for_each(|trial| {
        trial.start = number;
    });
    assert_eq!(run.unchecked_trials(), [0; 0]);
    for trial in &mut run.trials {
        trial.start = if trial.start == number { 0 } else { trial.start };
    }
    run.starts.pop();
    // A load under which a back end failed is repeated, also if there is no contract to check.
    let mut without_contract = run.clone();
    without_contract.starts[0].parts.iter_mut().for_each(|part| part.checks_before.clear());
    assert_eq!(without_contract.unchecked_trials(), [0; 0]);
    let last = unchecked.last().copied().unwrap();
    let of_last = |trial: &&mut TrialRecord| trial.trial == last;
    let load = &mut without_contract.trials.iter_mut().find(of_last).unwrap().load;
    load.server_failure = Some("lost a back end: back end store ended".into());
    assert_eq!(without_contract.unchecked_trials(), [last]);
    // A resumed start whose server fails is a result, so nothing is measured again.
    let mut next = StartRecord { start: number, ..run.starts[0].clone() };
    failed(&mut next, FailureKind::IncorrectResponses);
    run.starts.push(next);
    assert_eq!(run.unchecked_trials(), [0; 0]);
}
