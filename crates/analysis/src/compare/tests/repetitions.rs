//! Requests that were sent again because the server closed an idle connection. A crash looks the
//! same, so they must not help a gate.

use super::failures::STEADY;
use super::gates::NULL_OF_FOURTEEN;
use super::*;

/// Returns a run of `x` and a control. In each repeat of `x`, this many requests were sent again.
fn run_with_repetitions(id: &str, responses: &[u64], repeated: u64) -> Run {
    let null = if responses.len() == NULL.1.len() { NULL } else { NULL_OF_FOURTEEN };
    let mut run = run_with_servers(id, &[("x", responses), null]);
    for trial in run.trials.iter_mut().step_by(2) {
        trial.load.connections.asked_again = repeated;
        trial.load.connections.asked_again_idle = repeated;
    }
    run
}

/// Compares two runs with these numbers of repeated requests in each repeat.
fn compare_repetitions(responses: &[u64], repeated_a: u64, repeated_b: u64) -> ComparisonResult {
    let options = ComparisonOptions {
        gates: Gate::parse("throughput<-20%").unwrap(),
        ..ComparisonOptions::default()
    };
    let a = run_with_repetitions("r", responses, repeated_a);
    let b = run_with_repetitions("s", responses, repeated_b);
    compare_runs((&a, None), (&b, None), &options)
}

const FIVE: &[u64] = &[200, 202, 201, 203, 200];

#[test]
fn server_with_frequent_repetitions_passes_no_gate() {
    let compared = compare_repetitions(FIVE, 0, 130);
    let gate = &compared.gates[0];
    assert_eq!(gate.state, GateState::Missed, "{}", gate.sentence);
    assert!(gate.sentence.contains("Fisher's exact test"), "{}", gate.sentence);
    let expected = "x: 0 requests of A and 650 requests of B were sent again, because the server";
    let is_noted = |note: &String| note.starts_with(expected);
    assert!(compared.notes.iter().any(is_noted), "{:?}", compared.notes);
    // The numbers of A are those of a server that crashes, so they are no baseline.
    let gate = &compare_repetitions(FIVE, 130, 0).gates[0];
    assert_eq!(gate.state, GateState::Undecided, "{}", gate.sentence);
}

/// All repeats are valid: at most 1 % of the requests were sent again.
#[test]
fn significantly_more_rare_repetitions_miss_gate() {
    for (a, b, expected) in [
        (0, 90, GateState::Missed),
        (1, 90, GateState::Missed),
        (90, 90, GateState::Held),
        (0, 0, GateState::Held),
    ] {
        let compared = compare_repetitions(STEADY, a, b);
        let gate = &compared.gates[0];
        assert_eq!(gate.state, expected, "{a} {b}: {}", gate.sentence);
        let is_noted = compared.notes.iter().any(|note| note.contains("were sent again"));
        assert_eq!(is_noted, a + b > 0, "{:?}", compared.notes);
    }
}
