//! Effects of failed requests and builds on gates, and failures that a control explains.

use super::gates::{FOURTEEN, NULL_OF_FOURTEEN, RepeatOutcome, spoil};
use super::*;

/// Correct responses in each repeat.
pub(super) const STEADY: &[u64] = &[
    10_000, 10_100, 10_050, 10_150, 10_000, 10_050, 10_100, 10_000, 10_150, 10_050, 10_100, 10_000,
    10_050, 10_150,
];

fn options() -> ComparisonOptions {
    ComparisonOptions {
        gates: Gate::parse("throughput<-20%").unwrap(),
        ..ComparisonOptions::default()
    }
}

/// Adds failed requests to each repeat of an arm, in the order of the repeats.
pub(super) fn fail_requests(run: &mut Run, arm: usize, failed: impl Fn(usize) -> u64) {
    let arms: Vec<usize> = run.header.plan.trials.iter().map(|trial| trial.arm).collect();
    let trials = run.trials.iter_mut().filter(|trial| arms[trial.trial] == arm);
    for (repeat, trial) in trials.enumerate() {
        let (load, failed) = (&mut trial.load, failed(repeat));
        load.books.failed += failed;
        load.books.started += failed;
        load.books.scheduled += failed;
        (0..failed).for_each(|_| load.intervals[0].outcomes.count(dyno_model::Outcome::Timeout));
    }
}

/// Compares a run without failures of the control with a second one. Arguments: failed requests in
/// each repeat of the server in A, of the server in B, and of the control in B.
fn gate(
    server_a: impl Fn(usize) -> u64,
    server_b: impl Fn(usize) -> u64,
    control_b: impl Fn(usize) -> u64,
) -> (GateState, String) {
    let mut before = run_with_servers("r", &[("x", STEADY), ("null", STEADY)]);
    let mut after = run_with_servers("s", &[("x", STEADY), ("null", STEADY)]);
    fail_requests(&mut before, 0, server_a);
    fail_requests(&mut after, 0, server_b);
    fail_requests(&mut after, 1, control_b);
    let result = compare_runs((&before, None), (&after, None), &options()).gates.remove(0);
    (result.state, result.sentence)
}

const NONE: fn(usize) -> u64 = |_| 0;

/// Each repeat of both sides has failed requests, so a count of such repeats shows no difference.
#[test]
fn larger_shares_of_failed_requests_miss_gate() {
    let (state, sentence) = gate(|_| 1, |_| 90, NONE);
    assert_eq!(state, GateState::Missed, "{sentence}");
    for expected in
        ["1260 of ", " of B failed, in 14 of 14 repeats, compared with 14 of ", "rank-sum test"]
    {
        assert!(sentence.contains(expected), "{sentence}");
    }
    // The share falls, or is the same.
    for (server_a, server_b) in [(90, 1), (90, 90), (1, 1)] {
        let (state, sentence) = gate(|_| server_a, |_| server_b, NONE);
        assert_eq!(state, GateState::Held, "{sentence}");
    }
}

/// Both sides fail one request in each repeat. B has fewer requests, so that its share is higher.
#[test]
fn one_failed_request_of_fewer_is_no_larger_share() {
    let slower: Vec<u64> = STEADY.iter().map(|responses| responses / 10 * 9).collect();
    let mut run = run_with_servers("r", &[("x", STEADY), ("y", &slower), NULL_OF_FOURTEEN]);
    fail_requests(&mut run, 0, |_| 1);
    fail_requests(&mut run, 1, |_| 1);
    let state = |run: &Run| compare_runs((run, Some(0)), (run, Some(1)), &options()).gates[0].state;
    assert_eq!(state(&run), GateState::Held);
    fail_requests(&mut run, 1, |_| 1);
    assert_eq!(state(&run), GateState::Missed);
}

/// Two of 14 repeats may fail a request by chance, and 8 of 14 are too many.
#[test]
fn failed_requests_in_few_repeats_miss_no_gate() {
    let in_first = |repeats: usize| move |repeat: usize| u64::from(repeat < repeats);
    let (state, sentence) = gate(NONE, in_first(2), NONE);
    assert_eq!(state, GateState::Held, "{sentence}");
    let (state, sentence) = gate(NONE, in_first(8), NONE);
    assert_eq!(state, GateState::Missed, "{sentence}");
}

/// A control that fails one request in each repeat explains a hundredth of a percent.
#[test]
fn control_explains_no_more_than_its_failed_share() {
    for (server, control, expected) in [
        (90, 0, GateState::Missed),
        (90, 1, GateState::Missed),
        (90, 50, GateState::Missed),
        (90, 90, GateState::Held),
        (50, 90, GateState::Held),
    ] {
        let (state, sentence) = gate(NONE, |_| server, |_| control);
        assert_eq!(state, expected, "{server} {control}: {sentence}");
    }
    // One repeat of the control explains one repeat of the server.
    let (state, sentence) = gate(NONE, |_| 50, |repeat| if repeat == 3 { 90 } else { 0 });
    assert_eq!(state, GateState::Missed, "{sentence}");
    // Failures whose size varies alike in both are explained.
    let varied = |offset: usize| move |repeat: usize| 20 + 10 * ((repeat * 5 + offset) % 7) as u64;
    let (state, sentence) = gate(NONE, varied(0), varied(3));
    assert_eq!(state, GateState::Held, "{sentence}");
}

/// A control that fails equally on both sides did not change, so it explains nothing.
#[test]
fn control_that_always_fails_explains_nothing() {
    let mut before = run_with_servers("r", &[("x", STEADY), ("null", STEADY)]);
    let mut after = run_with_servers("s", &[("x", STEADY), ("null", STEADY)]);
    fail_requests(&mut before, 1, |_| 90);
    fail_requests(&mut after, 1, |_| 90);
    fail_requests(&mut after, 0, |_| 50);
    let comparison = compare_runs((&before, None), (&after, None), &options());
    assert_eq!(comparison.gates[0].state, GateState::Missed, "{:?}", comparison.gates);
}

/// A control that fails does not make a server end or respond incorrectly.
#[test]
fn control_failures_never_excuse_broken_repeats() {
    use RepeatOutcome::{Crashed, FailedStart, IncorrectResponses, NoResponses};
    for server in [Crashed, FailedStart, IncorrectResponses] {
        for (control, repeats) in [(server, 7), (server, 9), (NoResponses, 7), (NoResponses, 9)] {
            let before = run_with_servers("r", &[("x", FOURTEEN), NULL_OF_FOURTEEN]);
            let mut after = run_with_servers("s", &[("x", FOURTEEN), NULL_OF_FOURTEEN]);
            spoil(&mut after, 0, repeats, server);
            spoil(&mut after, 1, repeats, control);
            let comparison = compare_runs((&before, None), (&after, None), &options());
            let GateResult { state, sentence, .. } = &comparison.gates[0];
            assert_eq!(*state, GateState::Missed, "{server:?} {control:?}: {sentence}");
        }
    }
}

/// In 7 repeats a tenth of the server's requests get no response. The control explains that only if
/// it lost as many requests in the same repeats.
#[test]
fn unanswered_repeats_are_excused_by_size() {
    let in_first = |failed: u64| move |repeat: usize| if repeat < 7 { failed } else { 0 };
    for (control, expected) in [
        (0, GateState::Missed),
        (90, GateState::Missed),
        (500, GateState::Missed),
        (1_200, GateState::Undecided),
    ] {
        let (state, sentence) = gate(NONE, in_first(1_000), in_first(control));
        assert_eq!(state, expected, "{control}: {sentence}");
    }
    let (state, sentence) =
        gate(NONE, in_first(1_000), |repeat| if repeat < 7 { 0 } else { 1_200 });
    assert_eq!(state, GateState::Undecided, "a change of the control: {sentence}");
}

#[test]
fn server_that_neither_side_built_passes_no_gate() {
    let side = |id: &str, is_skipped: bool| {
        let mut run = run_with_servers(id, &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
        run.trials.retain(|trial| run.header.plan.trials[trial.trial].arm != 0);
        let subject = &mut run.header.plan.subjects[0];
        let reason = if is_skipped { &mut subject.skipped } else { &mut subject.build_failed };
        *reason = Some("cc: error".into());
        run
    };
    let states = |a: Run, b: Run| {
        let gates = compare_runs((&a, None), (&b, None), &options()).gates;
        gates.iter().map(|gate| gate.state).collect::<Vec<_>>()
    };
    let both = [GateState::Undecided, GateState::Held];
    assert_eq!(states(side("r", false), side("s", false)), both);
    assert_eq!(states(side("r", true), side("s", false)), both);
    assert_eq!(states(side("r", true), side("s", true)), [GateState::Held]);
}
