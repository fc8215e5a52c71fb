//! Effects of excluded repeats and of controls on gates.

use super::*;
use dyno_model::interval::UnstoredBodies;

/// Outcome of a repeat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RepeatOutcome {
    Crashed,
    BackendEnded,
    Unchecked,
    MachineFailed,
    IncorrectResponses,
    NoResponses,
    FailedStart,
    HarnessFailed,
    GeneratorBusy,
    /// The generator did not send requests in time, and dropped them.
    GeneratorDropped,
    NoLocalPort,
    UnstoredBodies,
    Removed,
}

fn failed_start(launch: usize, kind: dyno_model::start::FailureKind) -> dyno_model::StartRecord {
    dyno_model::StartRecord {
        start: launch,
        launch,
        failure: Some(dyno_model::start::Failure { kind, message: "it ended".into() }),
        ..dyno_model::StartRecord::default()
    }
}

fn lose(load: &mut dyno_model::LoadRecord, outcome: dyno_model::Outcome) {
    load.books.failed += 50;
    load.books.started += 50;
    load.books.scheduled += 50;
    (0..50).for_each(|_| load.intervals[0].outcomes.count(outcome));
}

/// Gives this outcome to the first repeats of an arm.
pub(super) fn spoil(run: &mut Run, arm: usize, repeats: usize, outcome: RepeatOutcome) {
    use dyno_model::start::FailureKind;
    let is_of_arm = |trial: &usize| run.header.plan.trials[*trial].arm == arm;
    let spoilt: Vec<usize> =
        (0..run.header.plan.trials.len()).filter(is_of_arm).take(repeats).collect();
    match outcome {
        RepeatOutcome::Removed | RepeatOutcome::FailedStart | RepeatOutcome::HarnessFailed => {
            run.trials.retain(|trial| !spoilt.contains(&trial.trial));
            let kind = match outcome {
                RepeatOutcome::FailedStart => FailureKind::Crashed,
                RepeatOutcome::HarnessFailed => FailureKind::Harness,
                _ => return,
            };
            run.starts.extend(spoilt.iter().map(|launch| failed_start(*launch, kind)));
            return;
        }
        _ => {}
    }
    for trial in run.trials.iter_mut().filter(|trial| spoilt.contains(&trial.trial)) {
        if matches!(outcome, RepeatOutcome::Unchecked) {
            let launch = run.header.plan.trials[trial.trial].launch;
            let mut start = failed_start(launch, FailureKind::BackendFailed);
            (start.start, trial.start) = (1000 + launch, 1000 + launch);
            let mut part =
                dyno_model::start::PartStart::new(dyno_model::Party::SUBJECT, "x".into());
            part.checks_before = vec![fixture::check("status", true, "200")];
            start.parts = vec![part];
            run.starts.push(start);
            continue;
        }
        let load = &mut trial.load;
        match outcome {
            RepeatOutcome::Crashed => load.server_failure = Some("it ended".into()),
            RepeatOutcome::MachineFailed => {
                load.server_failure = Some("could not be measured: no memory was left".into());
                load.intervals[0].outcomes.count(dyno_model::Outcome::UnexpectedStatus);
            }
            // A server without its back end may respond incorrectly.
            RepeatOutcome::BackendEnded => {
                load.server_failure = Some("lost a back end: back end db ended".into());
                load.intervals[0].outcomes.count(dyno_model::Outcome::UnexpectedStatus);
            }
            RepeatOutcome::IncorrectResponses => {
                load.intervals[0].outcomes.count(dyno_model::Outcome::UnexpectedStatus);
            }
            RepeatOutcome::NoResponses => lose(load, dyno_model::Outcome::Timeout),
            RepeatOutcome::NoLocalPort => lose(load, dyno_model::Outcome::AddressExhausted),
            RepeatOutcome::UnstoredBodies => {
                let unstored_bodies = UnstoredBodies { unchecked: 9, unextracted: 0 };
                load.intervals[0].unstored_bodies = Some(unstored_bodies);
            }
            _ => {
                if matches!(outcome, RepeatOutcome::GeneratorDropped) {
                    load.books.dropped += 50;
                    load.books.scheduled += 50;
                }
                let run_ns = load.window_ns.1;
                let thread = dyno_model::sample::ThreadUse { tid: 1, run_ns, ..Default::default() };
                load.client.threads = vec![thread];
            }
        }
    }
}

const OUTCOMES: [(RepeatOutcome, Cause); 13] = [
    (RepeatOutcome::Unchecked, Cause::Measurement),
    (RepeatOutcome::Crashed, Cause::ServerFailed),
    (RepeatOutcome::BackendEnded, Cause::Measurement),
    (RepeatOutcome::MachineFailed, Cause::Measurement),
    (RepeatOutcome::IncorrectResponses, Cause::ServerFailed),
    (RepeatOutcome::NoResponses, Cause::Unanswered),
    (RepeatOutcome::FailedStart, Cause::ServerFailed),
    (RepeatOutcome::HarnessFailed, Cause::Measurement),
    (RepeatOutcome::GeneratorBusy, Cause::Measurement),
    (RepeatOutcome::GeneratorDropped, Cause::Measurement),
    (RepeatOutcome::NoLocalPort, Cause::Measurement),
    (RepeatOutcome::UnstoredBodies, Cause::Measurement),
    (RepeatOutcome::Removed, Cause::NoRecord),
];

pub(super) const FOURTEEN: &[u64] =
    &[200, 202, 201, 203, 200, 201, 202, 200, 203, 201, 202, 200, 201, 203];

fn throughput_gate() -> ComparisonOptions {
    ComparisonOptions {
        gates: Gate::parse("throughput<-20%").unwrap(),
        ..ComparisonOptions::default()
    }
}

/// An excluded repeat is reported with its cause, and leaves the gate undecided. This holds for
/// either side, in comparisons of one run and of two runs.
#[test]
fn gate_with_excluded_repeats_is_not_held() {
    let complete_run =
        run_with_servers("r", &[("x", FOURTEEN), ("y", FOURTEEN), ("null", FOURTEEN)]);
    let complete_comparison =
        compare_runs((&complete_run, Some(0)), (&complete_run, Some(1)), &throughput_gate());
    assert_eq!(
        (complete_comparison.gates[0].state, complete_comparison.outcome()),
        (GateState::Held, GateOutcome::Passed)
    );
    assert!(
        complete_comparison.repeats.iter().all(|cell| cell.sentence.is_none()),
        "{:?}",
        complete_comparison.repeats
    );
    for (outcome, cause) in OUTCOMES {
        for is_b in [false, true] {
            let mut one_run = complete_run.clone();
            spoil(&mut one_run, usize::from(is_b), 1, outcome);
            let mut other = complete_run.clone();
            other.header.id = "s".into();
            spoil(&mut other, 0, 1, outcome);
            let two_runs = if is_b { (&complete_run, &other) } else { (&other, &complete_run) };
            for comparison in [
                compare_runs((&one_run, Some(0)), (&one_run, Some(1)), &throughput_gate()),
                compare_runs((two_runs.0, Some(0)), (two_runs.1, Some(0)), &throughput_gate()),
            ] {
                let cell = &comparison.repeats[0];
                let (spoilt, intact) = if is_b { (&cell.b, &cell.a) } else { (&cell.a, &cell.b) };
                assert_eq!(
                    (spoilt.planned, spoilt.counted, intact.counted),
                    (14, 13, 14),
                    "{outcome:?}"
                );
                let [why] = &spoilt.not_counted[..] else { panic!("{spoilt:?}") };
                assert_eq!((why.cause, &why.repeats[..]), (cause, &[1][..]), "{why:?}");
                let name = if is_b { "B" } else { "A" };
                let text = format!("1 of 14 repeats of {name} are excluded ({}: 1)", why.reason);
                assert!(cell.sentence.as_ref().unwrap().starts_with(&text), "{cell:?}");
                assert!(comparison.gates[0].sentence.contains(&text), "{:?}", comparison.gates);
                assert!(
                    comparison.answers[0].sentence.ends_with("are excluded"),
                    "{:?}",
                    comparison.answers
                );
                assert_eq!(
                    comparison.gates[0].state,
                    GateState::Undecided,
                    "{outcome:?} {:?}",
                    comparison.gates
                );
                assert_eq!(
                    (comparison.undecided, comparison.passed, comparison.outcome()),
                    (1, true, GateOutcome::Undecided)
                );
                let has_note = comparison.notes.iter().any(|note| note.contains("lacks 1 planned"));
                assert_eq!(has_note, outcome == RepeatOutcome::Removed, "{:?}", comparison.notes);
            }
        }
    }
}

/// At most one request in a hundred fails, so that all repeats are valid.
#[test]
fn failed_requests_are_reported_and_miss_gates() {
    let complete_run =
        run_with_servers("r", &[("x", FOURTEEN), ("y", FOURTEEN), ("null", FOURTEEN)]);
    let losing = |arms: &[usize]| {
        let mut run = complete_run.clone();
        for trial in run.trials.iter_mut().filter(|trial| arms.contains(&(trial.trial % 3))) {
            let load = &mut trial.load;
            load.books.failed += 1;
            load.books.started += 1;
            load.books.scheduled += 1;
            load.intervals[0].outcomes.count(dyno_model::Outcome::Timeout);
        }
        let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &throughput_gate());
        assert!(
            comparison.repeats[0].are_all_counted_for(&crate::metric::THROUGHPUT),
            "{:?}",
            comparison.repeats
        );
        (
            comparison.gates[0].state,
            comparison.gates[0].sentence.clone(),
            comparison.repeats[0].b.clone(),
        )
    };
    let (state, sentence, b) = losing(&[1]);
    assert_eq!((state, b.with_failures, b.failed_requests), (GateState::Missed, 14, 14));
    assert!(b.requests > 14 * 100, "{b:?}");
    assert!(
        sentence.contains("requests of B failed, in 14 of 14 repeats, compared with 0 of "),
        "{sentence}"
    );
    let expected = format!("14 of {} requests of B failed, in 14 of 14 repeats", b.requests);
    assert!(sentence.contains(&expected), "{sentence}");
    // Requests that both sides lose, or that A loses, are reported and miss no gate.
    for arms in [&[0][..], &[0, 1]] {
        let (state, sentence, _) = losing(arms);
        assert_eq!(state, GateState::Held, "{sentence}");
        assert!(sentence.contains("requests of A failed, in 14 of 14 repeats"), "{sentence}");
    }
}

const FIVE: &[u64] = &[200, 202, 201, 203, 200];

/// One failed request in each start is too little for any one of many tests. Five starts with
/// failures next to five without are enough.
#[test]
fn failures_in_each_start_miss_gates_of_many_servers() {
    let servers: Vec<(&str, &[u64])> =
        ["a", "b", "c", "d", "e", "f", "g", "null"].map(|name| (name, FIVE)).into();
    let before = run_with_servers("r", &servers);
    let mut after = run_with_servers("s", &servers);
    for trial in after.trials.iter_mut().filter(|trial| trial.trial % 8 != 7) {
        let load = &mut trial.load;
        load.books.failed += 1;
        load.books.started += 1;
        load.books.scheduled += 1;
        load.intervals[0].outcomes.count(dyno_model::Outcome::Timeout);
    }
    let options = ComparisonOptions {
        gates: Gate::parse("throughput<-50%, memory>+500%, p99>+500%").unwrap(),
        ..ComparisonOptions::default()
    };
    let comparison = compare_runs((&before, None), (&after, None), &options);
    assert!(comparison.gates.len() >= 7 && !comparison.passed, "{:?}", comparison.gates);
    for gate in &comparison.gates {
        assert_eq!(gate.state, GateState::Missed, "{gate:?}");
        let expected = "5 of 5 starts of B have failures, compared with 0 of 5 of A";
        assert!(gate.sentence.contains(expected), "{gate:?}");
    }
    let starts = &comparison.starts[0];
    assert_eq!((starts.a.with_failures, starts.b.with_failures, starts.b.broken), (0, 5, 0));
    // Failures that only A has miss no gate.
    let reversed = compare_runs((&after, None), (&before, None), &options);
    assert!(reversed.passed, "{:?}", reversed.gates);
}

/// The contract was broken after the last step, so that all repeats are valid.
#[test]
fn contract_broken_after_last_step_misses_gates() {
    use dyno_model::start::FailureKind;
    let mut run = run_with_servers("r", &[("x", FIVE), ("y", FIVE), ("null", FIVE)]);
    let launches: Vec<usize> = (0..run.header.plan.trials.len())
        .filter(|trial| run.header.plan.trials[*trial].arm == 1)
        .map(|trial| run.header.plan.trials[trial].launch)
        .collect();
    run.starts.extend(
        launches.iter().map(|launch| failed_start(*launch, FailureKind::IncorrectResponses)),
    );
    let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &throughput_gate());
    assert!(
        comparison.repeats[0].are_all_counted_for(&crate::metric::THROUGHPUT),
        "{:?}",
        comparison.repeats
    );
    assert_eq!(comparison.gates[0].state, GateState::Missed, "{:?}", comparison.gates);
    let expected = "the server failed in 0 of 5 starts of A and in 5 of 5 starts of B \
                    (responded incorrectly: 5)";
    assert!(comparison.gates[0].sentence.contains(expected), "{:?}", comparison.gates);
    assert!(comparison.notes.iter().any(|note| note.contains(expected)), "{:?}", comparison.notes);
    // One start of five misses no gate, and is reported.
    let few = run.starts.iter().position(|start| start.failure.is_some()).unwrap();
    run.starts.truncate(few + 1);
    let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &throughput_gate());
    assert_eq!(comparison.gates[0].state, GateState::Held, "{:?}", comparison.gates);
    assert!(comparison.notes.iter().any(|note| note.contains("1 of 5 starts of B")));
}

/// The control became twice as fast between two runs, and the server did not. Only the repeats of
/// the control show that the server became slower relative to its machine.
#[test]
fn missing_control_repeats_leave_gate_undecided() {
    let before = run_with_servers("r", &[("x", FOURTEEN), ("null", FOURTEEN)]);
    let twice: Vec<u64> = FOURTEEN.iter().map(|n| n * 2).collect();
    let after = run_with_servers("s", &[("x", FOURTEEN), ("null", &twice)]);
    for outcome in [RepeatOutcome::Removed, RepeatOutcome::HarnessFailed, RepeatOutcome::Crashed] {
        for spoilt in [0, 1, 9, 10, 13, 14] {
            let mut after = after.clone();
            spoil(&mut after, 1, spoilt, outcome);
            let comparison =
                compare_runs((&before, Some(0)), (&after, Some(0)), &throughput_gate());
            let GateResult { state, sentence, .. } = &comparison.gates[0];
            assert_eq!(*state, GateState::Undecided, "{spoilt} {outcome:?}: {sentence}");
        }
    }
}

/// The test of failures includes failures of the server only.
#[test]
fn failures_of_half_repeats_miss_any_gate() {
    for (outcome, cause) in OUTCOMES {
        let mut run =
            run_with_servers("r", &[("x", FOURTEEN), ("y", FOURTEEN), ("null", FOURTEEN)]);
        spoil(&mut run, 1, 7, outcome);
        let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &throughput_gate());
        let is_failure = matches!(cause, Cause::ServerFailed | Cause::Unanswered);
        let expected = if is_failure { GateState::Missed } else { GateState::Undecided };
        assert_eq!(comparison.gates[0].state, expected, "{outcome:?}: {:?}", comparison.gates);
        // 2 × C(14, 7) of C(28, 7) ways, as scipy.stats.fisher_exact has it for one direction.
        let p = comparison.repeats[0].p_failed;
        assert_eq!(p.map(|p| (p * 1e5).round()), is_failure.then_some(580.0), "{outcome:?}");
        // A server that fails less often misses no gate, but a gate is not held without all
        // repeats.
        let reversed = compare_runs((&run, Some(1)), (&run, Some(0)), &throughput_gate());
        assert_eq!(
            reversed.gates[0].state,
            GateState::Undecided,
            "{outcome:?}: {:?}",
            reversed.gates
        );
    }
}

/// A repeat that the generator made invalid is a repeat in which the server did not fail.
#[test]
fn disturbed_repeats_are_not_server_failures() {
    let mut run = run_with_servers("r", &[("x", FOURTEEN), ("y", FOURTEEN), ("null", FOURTEEN)]);
    spoil(&mut run, 0, 14, RepeatOutcome::GeneratorBusy);
    spoil(&mut run, 1, 14, RepeatOutcome::Crashed);
    let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &throughput_gate());
    let sentence = comparison.repeats[0].sentence.clone().unwrap();
    assert!(sentence.contains("failed in 0 of 14 repeats of A and in 14 of 14 of B"), "{sentence}");
    assert!(comparison.repeats[0].p_failed.unwrap() < 1e-6);
    assert_eq!(comparison.gates[0].state, GateState::Missed, "{:?}", comparison.gates);
}

#[test]
fn ratio_above_gate_misses_despite_lost_repeats() {
    let slow: Vec<u64> = FOURTEEN.iter().map(|value| value / 2).collect();
    let mut run = run_with_servers("r", &[("x", FOURTEEN), ("y", &slow), ("null", FOURTEEN)]);
    spoil(&mut run, 1, 2, RepeatOutcome::GeneratorBusy);
    let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &throughput_gate());
    assert_eq!(comparison.gates[0].state, GateState::Missed, "{:?}", comparison.gates);
    assert!(
        comparison.gates[0].sentence.contains("2 of 14 repeats of B are excluded"),
        "{:?}",
        comparison.gates
    );
}

/// Failures of the control are attributed to the machine.
#[test]
fn control_failures_excuse_as_many_server_failures() {
    let before = run_with_servers("r", &[("x", FOURTEEN), ("null", FOURTEEN)]);
    let gate = |server_failures: usize, control_failures: usize| {
        let mut after = before.clone();
        after.header.id = "s".into();
        spoil(&mut after, 0, server_failures, RepeatOutcome::NoResponses);
        spoil(&mut after, 1, control_failures, RepeatOutcome::NoResponses);
        compare_runs((&before, None), (&after, None), &throughput_gate()).gates.remove(0).state
    };
    assert_eq!(gate(7, 0), GateState::Missed);
    assert_eq!(gate(7, 6), GateState::Undecided);
    assert_eq!(gate(12, 2), GateState::Missed);
}

#[test]
fn server_without_repeats_in_b_has_gate_result() {
    let before = run_with_servers("r", &[("x", FOURTEEN), ("null", FOURTEEN)]);
    let after = |change: fn(&mut Run)| {
        let mut after = before.clone();
        after.header.id = "s".into();
        after.trials.retain(|trial| trial.trial % 2 == 1);
        change(&mut after);
        after
    };
    for (change, expected) in [
        (
            (|run| run.header.plan.subjects[0].build_failed = Some("cc: error".into()))
                as fn(&mut Run),
            GateState::Missed,
        ),
        (|run| run.header.plan.subjects[0].skipped = Some("no Java".into()), GateState::Undecided),
        (|_| {}, GateState::Undecided),
    ] {
        let comparison = compare_runs((&before, None), (&after(change), None), &throughput_gate());
        assert_eq!(
            comparison.gates.iter().map(|gate| gate.state).collect::<Vec<_>>(),
            [expected],
            "{:?}",
            comparison.gates
        );
        // Repeats that A lacks are unknown, too.
        let reversed = compare_runs((&after(change), None), (&before, None), &throughput_gate());
        assert_eq!(reversed.gates[0].state, GateState::Undecided, "{:?}", reversed.gates);
    }
}

/// One failed repeat of an interrupted run is less than half of the planned repeats.
#[test]
fn failure_in_few_planned_repeats_misses_no_gate() {
    let gate = |recorded_blocks: usize| {
        let mut run = run_with_servers("r", &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
        for trial in run.trials.iter_mut().filter(|trial| trial.trial % 3 == 1) {
            let [interval, ..] = trial.load.intervals.as_mut_slice() else { panic!("no interval") };
            interval.outcomes.count(dyno_model::Outcome::UnexpectedStatus);
        }
        run.trials.truncate(3 * recorded_blocks);
        compare_runs((&run, Some(0)), (&run, Some(1)), &throughput_gate()).gates[0].state
    };
    assert_eq!(gate(1), GateState::Undecided);
    assert_eq!(gate(14), GateState::Missed);
}

/// A run that stopped early because its question was answered has no missing repeats.
#[test]
fn early_stopped_run_is_complete() {
    let faster: Vec<u64> = FOURTEEN.iter().map(|value| value * 2).collect();
    let mut run = run_with_servers("r", &[("x", FOURTEEN), ("y", &faster), NULL_OF_FOURTEEN]);
    run.header.plan.repeats = 20;
    run.header.plan.sharing = dyno_model::plan::ArmSharing::from_duet([0, 1].into());
    run.header.plan.stop = Some(dyno_model::plan::StopRule {
        metrics: vec!["throughput_rps".into()],
        same_within: None,
    });
    let first = run.header.plan.launches.len();
    for block in 14..20 {
        for arm in 0..3 {
            let launch = run.header.plan.launches.len();
            run.header.plan.launches.push(Launch::with_arm(arm, block));
            run.header.plan.trials.push(Trial { launch, arm, workload: 0, step: 0, seed: 0 });
        }
    }
    let duet_sentence = |run: &Run| report(run).duets[0].answers[0].sentence.clone();
    assert_eq!(report(&run).run.answered_after, Some(14));
    assert!(!duet_sentence(&run).contains("excluded"), "{}", duet_sentence(&run));
    let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &throughput_gate());
    assert_eq!(
        (comparison.repeats[0].b.planned, comparison.gates[0].state),
        (14, GateState::Held),
        "{comparison:?}"
    );
    // Without the stop rule the same archive belongs to an unfinished run.
    run.header.plan.stop = None;
    assert!(duet_sentence(&run).contains("excluded"), "{}", duet_sentence(&run));
    let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &throughput_gate());
    assert_eq!(
        (comparison.repeats[0].b.without_record(), comparison.gates[0].state),
        (6, GateState::Undecided)
    );
    assert!(
        comparison.notes.iter().any(|note| note.contains("lacks 6 planned repeats")),
        "{:?}",
        comparison.notes
    );
    assert_eq!(first, 42);
}

pub(super) const NULL_OF_FOURTEEN: (&str, &[u64]) = ("null", FOURTEEN);

#[test]
fn on_undecided_pass_accepts_undecided_gates() {
    let mut run = run_with_servers("r", &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
    spoil(&mut run, 1, 1, RepeatOutcome::Removed);
    let options = ComparisonOptions { on_undecided: OnUndecided::Pass, ..throughput_gate() };
    assert_eq!(
        compare_runs((&run, Some(0)), (&run, Some(1)), &options).outcome(),
        GateOutcome::Passed
    );
    spoil(&mut run, 1, 7, RepeatOutcome::Crashed);
    assert_eq!(
        compare_runs((&run, Some(0)), (&run, Some(1)), &options).outcome(),
        GateOutcome::Missed
    );
}

/// Returns rows of a server and a control. `change` and `control.1` are their relative changes.
pub(super) fn changed_rows(
    gated: &str,
    change: f64,
    control: (&str, f64),
) -> (Vec<ComparisonRow>, Vec<CellRepeats>) {
    let before = run_with_servers("r", &[("x", FOURTEEN), NULL_OF_FOURTEEN]);
    let mut after = before.clone();
    after.header.id = "s".into();
    let ComparisonResult { mut rows, repeats, .. } =
        compare_runs((&before, None), (&after, None), &ComparisonOptions::default());
    let scaled = |change: f64| {
        let values = [1000.0, 1004.0, 998.0, 1002.0, 996.0, 1001.0];
        let after: Vec<f64> = values.iter().map(|value| value * (1.0 + change)).collect();
        Estimate::from_samples(&values, &after)
    };
    for row in &mut rows {
        let change = match row.control {
            true if row.metric == control.0 => control.1,
            false if row.metric == gated => change,
            _ => 0.0,
        };
        (row.estimate, row.no_ratio_reason) = (scaled(change), None);
        row.adjusted_p = Some(if change == 0.0 { 1.0 } else { 0.0 });
        row.verdict = match change {
            change if change > 0.0 => Verdict::Higher,
            change if change < 0.0 => Verdict::Lower,
            _ => Verdict::NotShown,
        };
    }
    (rows, repeats)
}

/// A significant change of the control is reported even if it is within `same_within`.
#[test]
fn margin_keeps_change_of_machine_visible() {
    let server: (&str, &[u64]) = ("x", &[2000, 2010, 2005, 1999, 2001]);
    let before = run_with_servers("r", &[server, ("null", &[9000, 9010, 9005, 9002, 9008])]);
    let after = run_with_servers("s", &[server, ("null", &[9700, 9710, 9705, 9702, 9708])]);
    for same_within in [None, Some(0.1)] {
        let gates = Gate::parse("throughput<-5%").unwrap();
        let comparison = compare_runs(
            (&before, None),
            (&after, None),
            &ComparisonOptions { gates, same_within, ..ComparisonOptions::default() },
        );
        assert_eq!(comparison.gates[0].state, GateState::Undecided, "{:?}", comparison.gates[0]);
        assert!(
            comparison.notes[1].contains("the control null is the same program"),
            "{:?}",
            comparison.notes
        );
    }
}

/// One control that shows a faster machine leaves the gate undecided.
#[test]
fn control_of_another_step_can_leave_gate_undecided() {
    let (mut rows, repeats) = changed_rows("throughput_rps", 0.0, ("throughput_rps", 0.30));
    let control =
        rows.iter().find(|row| row.control && row.metric == "throughput_rps").unwrap().clone();
    for row in rows.iter_mut().filter(|row| row.control) {
        row.workload = "another".into();
    }
    let values = [1000.0, 1004.0, 998.0, 1002.0, 996.0, 1001.0];
    let slower = Estimate::from_samples(&values, &values.map(|value| value * 0.97));
    rows.push(ComparisonRow { workload: "a third".into(), estimate: slower, ..control });
    let gates = Gate::parse("throughput<-5%").unwrap();
    let results = gate::decide(&gates, (&rows, &repeats, &[]), Confounding::None, &[]);
    assert_eq!(results[0].state, GateState::Undecided, "{results:?}");
    assert!(results[0].sentence.contains("changed by +30 %"), "{results:?}");
}

#[test]
fn unplanned_arm_in_b_leaves_gate_undecided() {
    let server: (&str, &[u64]) = ("x", &[2000, 2010, 2005, 1999, 2001]);
    let both = run_with_servers("r", &[server, ("gone", &[500, 501, 502, 503, 504]), NULL]);
    let one = run_with_servers("s", &[server, NULL]);
    let options = || ComparisonOptions {
        gates: Gate::parse("throughput<-90%").unwrap(),
        ..ComparisonOptions::default()
    };
    let comparison = compare_runs((&both, None), (&one, None), &options());
    let states: Vec<(&str, GateState)> =
        comparison.gates.iter().map(|g| (&*g.subject_a, g.state)).collect();
    assert_eq!(states, [("x", GateState::Held), ("gone", GateState::Undecided)]);
    assert!(
        comparison.gates[1].sentence.contains("the plan of B lacks this step"),
        "{:?}",
        comparison.gates[1]
    );
    assert_eq!(comparison.outcome(), GateOutcome::Undecided);
    assert!(
        comparison.notes.iter().any(|note| note.contains("Only A has these servers")),
        "{:?}",
        comparison.notes
    );
    let reversed = compare_runs((&one, None), (&both, None), &options());
    assert_eq!((reversed.gates.len(), reversed.outcome()), (1, GateOutcome::Passed));
    assert!(
        reversed
            .notes
            .iter()
            .any(|note| note.contains("Only B has these servers, so they are not compared: gone")),
        "{:?}",
        reversed.notes
    );
    // Without gates the unmatched subject has no rows.
    let comparison = compare_runs((&both, None), (&one, None), &ComparisonOptions::default());
    assert!(comparison.rows.iter().all(|row| row.subject_a != "gone"));
    // A step that B did not plan leaves its gate undecided, too.
    let mut other = both.clone();
    other.header.id = "s".into();
    other.header.plan.load.steps[0].connections += 1;
    let comparison = compare_runs((&both, None), (&other, None), &options());
    assert!(
        comparison.gates.len() == 2
            && comparison.gates.iter().all(|gate| gate.state == GateState::Undecided)
    );
}

/// A repeat that was re-run alone took no turns with the other subject.
#[test]
fn unpaired_repeats_leave_gate_undecided() {
    let run = run_with_servers("r", &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
    let ComparisonResult { mut rows, repeats, .. } =
        compare_runs((&run, Some(0)), (&run, Some(1)), &ComparisonOptions::default());
    let gates = Gate::parse("throughput<-50%").unwrap();
    assert_eq!(
        gate::decide(&gates, (&rows, &repeats, &[]), Confounding::None, &[])[0].state,
        GateState::Held
    );
    rows.iter_mut().for_each(|row| row.pairs.truncate(12));
    let results = gate::decide(&gates, (&rows, &repeats, &[]), Confounding::None, &[]);
    assert_eq!(results[0].state, GateState::Undecided);
    assert!(results[0].sentence.contains("in 12 of 14 pairs of repeats"), "{results:?}");
}

/// A change of the control excuses a change of the same metric, in the same direction, and of at
/// most its size.
#[test]
fn control_excuses_only_what_it_explains() {
    use GateState::{Held, Missed, Undecided};
    const CPU_KEY: &str = "server_cpu_us_per_request";
    for (gate, change, control, expected, expected_text) in [
        ("cpu_us_per_request>+20%", 1.64, (CPU_KEY, 0.09), Missed, "+164 %"),
        (
            "cpu_us_per_request>+20%",
            1.64,
            (CPU_KEY, 0.09),
            Missed,
            "null changed by +9.0 %, and relative to it the metric changed by +142 %",
        ),
        (
            "cpu_us_per_request>+20%",
            0.25,
            (CPU_KEY, 0.24),
            Undecided,
            "relative to it the metric changed by +0.8",
        ),
        ("cpu_us_per_request>+3%", 0.09, (CPU_KEY, 0.09), Undecided, "null changed by +9.0 %"),
        ("cpu_us_per_request>+3%", 0.09, (CPU_KEY, 0.30), Undecided, "null changed by +30 %"),
        ("cpu_us_per_request>+3%", 0.09, (CPU_KEY, -0.09), Missed, "significant"),
        ("cpu_us_per_request>+3%", 0.09, ("throughput_rps", -0.09), Missed, "significant"),
        ("cpu_us_per_request>+3%", 0.09, ("response_p99_us", 0.50), Missed, "significant"),
        ("throughput<-2%", -0.57, (CPU_KEY, 0.09), Missed, "significant"),
        ("throughput<-2%", -0.57, ("throughput_rps", -0.05), Missed, "null changed by −5.0 %"),
        ("throughput<-2%", -0.05, ("throughput_rps", -0.05), Undecided, "null changed by −5.0 %"),
        ("throughput<-2%", -0.05, ("throughput_rps", 0.05), Missed, "significant"),
        ("throughput<-2%", -0.05, ("response_p50_us", -0.05), Missed, "significant"),
        ("p99>+10%", 0.30, ("response_p50_us", 0.30), Missed, "significant"),
        ("p99>+10%", 0.30, ("response_p99_us", 0.30), Undecided, "null changed by +30 %"),
        ("memory>+3%", 0.09, ("server_memory_bytes", 0.09), Missed, "significant"),
        ("cpu_us_per_request>+3%", 0.0, (CPU_KEY, 0.09), Held, "by 0 %"),
        // The machine became faster and the server did not, so the server became slower.
        (
            "cpu_us_per_request>+3%",
            0.0,
            (CPU_KEY, -0.09),
            Undecided,
            "relative to it the metric changed by +9.9 %",
        ),
        ("cpu_us_per_request>+3%", 0.0, ("throughput_rps", 0.09), Held, ""),
    ] {
        let gates = Gate::parse(gate).unwrap();
        let (rows, repeats) = changed_rows(gates[0].metric.key, change, control);
        let [result] = &gate::decide(&gates, (&rows, &repeats, &[]), Confounding::None, &[])[..]
        else {
            panic!("{rows:?}")
        };
        let case = format!("{gate}, {change:+}, control {control:?}: {result:?}");
        assert_eq!(result.state, expected, "{case}");
        assert!(result.sentence.contains(expected_text), "{case}");
    }
}
