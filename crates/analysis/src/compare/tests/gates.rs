//! Effects of uncounted repeats and of controls on gates.

use super::*;

/// Outcome of a repeat.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Crashed,
    BackendEnded,
    WrongAnswers,
    NoAnswers,
    FailedStart,
    HarnessFailed,
    GeneratorBusy,
    Removed,
}

fn failed_start(
    launch: usize,
    kind: dyno_archive::start::FailureKind,
) -> dyno_archive::StartRecord {
    dyno_archive::StartRecord {
        start: launch,
        launch,
        failure: Some(dyno_archive::start::Failure { kind, message: "it ended".into() }),
        ..dyno_archive::StartRecord::default()
    }
}

/// Spoils the first repeats of an arm.
fn spoil(run: &mut Run, arm: usize, repeats: usize, fate: Fate) {
    use dyno_archive::start::FailureKind;
    let of_arm = |trial: &usize| run.header.plan.trials[*trial].arm == arm;
    let spoilt: Vec<usize> =
        (0..run.header.plan.trials.len()).filter(of_arm).take(repeats).collect();
    match fate {
        Fate::Removed | Fate::FailedStart | Fate::HarnessFailed => {
            run.trials.retain(|trial| !spoilt.contains(&trial.trial));
            let kind = match fate {
                Fate::FailedStart => FailureKind::Crashed,
                Fate::HarnessFailed => FailureKind::Harness,
                _ => return,
            };
            run.starts.extend(spoilt.iter().map(|launch| failed_start(*launch, kind)));
            return;
        }
        _ => {}
    }
    for trial in run.trials.iter_mut().filter(|trial| spoilt.contains(&trial.trial)) {
        let load = &mut trial.load;
        let lose = |load: &mut dyno_archive::LoadRecord, outcome| {
            load.books.failed += 50;
            load.books.started += 50;
            load.books.scheduled += 50;
            (0..50).for_each(|_| load.intervals[0].outcomes.count(outcome));
        };
        match fate {
            Fate::Crashed => load.server_failure = Some("it ended".into()),
            // A server without its back end may respond incorrectly.
            Fate::BackendEnded => {
                load.server_failure = Some("lost a back end: back end db ended".into());
                load.intervals[0].outcomes.count(dyno_archive::Outcome::UnexpectedStatus);
            }
            Fate::WrongAnswers => {
                load.intervals[0].outcomes.count(dyno_archive::Outcome::UnexpectedStatus);
            }
            Fate::NoAnswers => lose(load, dyno_archive::Outcome::Timeout),
            _ => {
                let run_ns = load.window_ns.1;
                let thread =
                    dyno_archive::sample::ThreadUse { tid: 1, run_ns, ..Default::default() };
                load.client.threads = vec![thread];
            }
        }
    }
}

const FATES: [(Fate, Cause); 8] = [
    (Fate::Crashed, Cause::ServerFailed),
    (Fate::BackendEnded, Cause::Measurement),
    (Fate::WrongAnswers, Cause::ServerFailed),
    (Fate::NoAnswers, Cause::Unanswered),
    (Fate::FailedStart, Cause::ServerFailed),
    (Fate::HarnessFailed, Cause::Measurement),
    (Fate::GeneratorBusy, Cause::Measurement),
    (Fate::Removed, Cause::NoRecord),
];

const FOURTEEN: &[u64] = &[200, 202, 201, 203, 200, 201, 202, 200, 203, 201, 202, 200, 201, 203];

fn throughput_gate() -> ComparisonOptions {
    ComparisonOptions {
        gates: Gate::parse("throughput<-20%").unwrap(),
        ..ComparisonOptions::default()
    }
}

/// A repeat that does not count is reported with its cause, and no gate is held on those that
/// remain, whichever side it is of and
/// however the sides are paired.
#[test]
fn gate_with_uncounted_repeats_is_not_held() {
    let whole = run_of("r", &[("x", FOURTEEN), ("y", FOURTEEN), ("null", FOURTEEN)]);
    let held = compared((&whole, Some(0)), (&whole, Some(1)), &throughput_gate());
    assert_eq!((held.gates[0].state, held.outcome()), (GateState::Held, GateOutcome::Passed));
    assert!(held.repeats.iter().all(|cell| cell.sentence.is_none()), "{:?}", held.repeats);
    for (fate, cause) in FATES {
        for is_b in [false, true] {
            let mut one_run = whole.clone();
            spoil(&mut one_run, usize::from(is_b), 1, fate);
            let mut other = whole.clone();
            other.header.id = "s".into();
            spoil(&mut other, 0, 1, fate);
            let two_runs = if is_b { (&whole, &other) } else { (&other, &whole) };
            for seen in [
                compared((&one_run, Some(0)), (&one_run, Some(1)), &throughput_gate()),
                compared((two_runs.0, Some(0)), (two_runs.1, Some(0)), &throughput_gate()),
            ] {
                let cell = &seen.repeats[0];
                let (spoilt, intact) = if is_b { (&cell.b, &cell.a) } else { (&cell.a, &cell.b) };
                assert_eq!(
                    (spoilt.planned, spoilt.counted, intact.counted),
                    (14, 13, 14),
                    "{fate:?}"
                );
                let [why] = &spoilt.not_counted[..] else { panic!("{spoilt:?}") };
                assert_eq!((why.cause, &why.repeats[..]), (cause, &[1][..]), "{why:?}");
                let name = if is_b { "B" } else { "A" };
                let said = format!("1 of 14 repeats of {name} do not count ({}: 1)", why.reason);
                assert!(cell.sentence.as_ref().unwrap().starts_with(&said), "{cell:?}");
                assert!(seen.gates[0].sentence.contains(&said), "{:?}", seen.gates);
                assert!(seen.answers[0].sentence.ends_with("do not count"), "{:?}", seen.answers);
                assert_eq!(seen.gates[0].state, GateState::Undecided, "{fate:?} {:?}", seen.gates);
                assert_eq!(
                    (seen.undecided, seen.passed, seen.outcome()),
                    (1, true, GateOutcome::Undecided)
                );
                let has_note = seen.notes.iter().any(|note| note.contains("lacks 1 planned"));
                assert_eq!(has_note, fate == Fate::Removed, "{:?}", seen.notes);
            }
        }
    }
}

/// At most one request in a hundred fails, so that all repeats count.
#[test]
fn failed_requests_are_reported_and_miss_gates() {
    let whole = run_of("r", &[("x", FOURTEEN), ("y", FOURTEEN), ("null", FOURTEEN)]);
    let losing = |arms: &[usize]| {
        let mut run = whole.clone();
        for trial in run.trials.iter_mut().filter(|trial| arms.contains(&(trial.trial % 3))) {
            let load = &mut trial.load;
            load.books.failed += 1;
            load.books.started += 1;
            load.books.scheduled += 1;
            load.intervals[0].outcomes.count(dyno_archive::Outcome::Timeout);
        }
        let seen = compared((&run, Some(0)), (&run, Some(1)), &throughput_gate());
        assert!(seen.repeats[0].are_all_counted(), "{:?}", seen.repeats);
        (seen.gates[0].state, seen.gates[0].sentence.clone(), seen.repeats[0].b.clone())
    };
    let (state, sentence, b) = losing(&[1]);
    assert_eq!((state, b.with_failures, b.failed_requests), (GateState::Missed, 14, 14));
    assert!(b.requests > 14 * 100, "{b:?}");
    assert!(
        sentence.contains("B have failed requests than of A: 14 of 14 compared with 0 of 14"),
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

/// Between two runs, the control became twice as fast, and the server did not: it became slower
/// than its machine. Only the records of the control show it.
#[test]
fn control_without_all_its_records_holds_no_gate() {
    let before = run_of("r", &[("x", FOURTEEN), ("null", FOURTEEN)]);
    let twice: Vec<u64> = FOURTEEN.iter().map(|n| n * 2).collect();
    let after = run_of("s", &[("x", FOURTEEN), ("null", &twice)]);
    let state = |removed: usize| {
        let mut after = after.clone();
        spoil(&mut after, 1, removed, Fate::Removed);
        let seen = compared((&before, Some(0)), (&after, Some(0)), &throughput_gate());
        (seen.gates[0].state, seen.gates[0].sentence.clone())
    };
    for removed in [0, 1, 9, 13, 14] {
        let (state, sentence) = state(removed);
        assert_eq!(state, GateState::Undecided, "{removed} removed: {sentence}");
    }
}

/// The test of failures is made however many repeats remain, and only of what the server did.
#[test]
fn failures_of_half_the_repeats_miss_any_gate() {
    for (fate, cause) in FATES {
        let mut run = run_of("r", &[("x", FOURTEEN), ("y", FOURTEEN), ("null", FOURTEEN)]);
        spoil(&mut run, 1, 7, fate);
        let seen = compared((&run, Some(0)), (&run, Some(1)), &throughput_gate());
        let is_failure = matches!(cause, Cause::ServerFailed | Cause::Unanswered);
        let wanted = if is_failure { GateState::Missed } else { GateState::Undecided };
        assert_eq!(seen.gates[0].state, wanted, "{fate:?}: {:?}", seen.gates);
        // 2 × C(14, 7) of C(28, 7) ways, as scipy.stats.fisher_exact has it for one direction.
        let p = seen.repeats[0].p_failed;
        assert_eq!(p.map(|p| (p * 1e5).round()), is_failure.then_some(580.0), "{fate:?}");
        // A server that fails less often has not become worse, and is not shown to be as good.
        let back = compared((&run, Some(1)), (&run, Some(0)), &throughput_gate());
        assert_eq!(back.gates[0].state, GateState::Undecided, "{fate:?}: {:?}", back.gates);
    }
}

/// Where the generator was the limit, or the others of a duet were gone, the server served.
#[test]
fn repeats_that_others_spoiled_are_no_failures_of_their_server() {
    let mut run = run_of("r", &[("x", FOURTEEN), ("y", FOURTEEN), ("null", FOURTEEN)]);
    spoil(&mut run, 0, 14, Fate::GeneratorBusy);
    spoil(&mut run, 1, 14, Fate::Crashed);
    let seen = compared((&run, Some(0)), (&run, Some(1)), &throughput_gate());
    let sentence = seen.repeats[0].sentence.clone().unwrap();
    assert!(sentence.contains("failed in 0 of 14 repeats of A and in 14 of 14 of B"), "{sentence}");
    assert!(seen.repeats[0].p_failed.unwrap() < 1e-6);
    assert_eq!(seen.gates[0].state, GateState::Missed, "{:?}", seen.gates);
}

#[test]
fn ratio_beyond_the_gate_misses_it_with_lost_repeats() {
    let slow: Vec<u64> = FOURTEEN.iter().map(|value| value / 2).collect();
    let mut run = run_of("r", &[("x", FOURTEEN), ("y", &slow), ("null", FOURTEEN)]);
    spoil(&mut run, 1, 2, Fate::GeneratorBusy);
    let seen = compared((&run, Some(0)), (&run, Some(1)), &throughput_gate());
    assert_eq!(seen.gates[0].state, GateState::Missed, "{:?}", seen.gates);
    assert!(
        seen.gates[0].sentence.contains("2 of 14 repeats of B do not count"),
        "{:?}",
        seen.gates
    );
}

/// A failure of the control in as many repeats is a failure of the machine.
#[test]
fn failures_of_the_control_excuse_as_many() {
    let before = run_of("r", &[("x", FOURTEEN), ("null", FOURTEEN)]);
    let gate = |of_server: usize, of_control: usize| {
        let mut after = before.clone();
        after.header.id = "s".into();
        spoil(&mut after, 0, of_server, Fate::NoAnswers);
        spoil(&mut after, 1, of_control, Fate::NoAnswers);
        compared((&before, None), (&after, None), &throughput_gate()).gates.remove(0).state
    };
    assert_eq!(gate(7, 0), GateState::Missed);
    assert_eq!(gate(7, 6), GateState::Undecided);
    assert_eq!(gate(12, 2), GateState::Missed);
}

#[test]
fn server_without_any_repeat_in_b_gets_a_gate() {
    let before = run_of("r", &[("x", FOURTEEN), ("null", FOURTEEN)]);
    let after = |change: fn(&mut Run)| {
        let mut after = before.clone();
        after.header.id = "s".into();
        after.trials.retain(|trial| trial.trial % 2 == 1);
        change(&mut after);
        after
    };
    for (change, wanted) in [
        (
            (|run| run.header.plan.subjects[0].build_failed = Some("cc: error".into()))
                as fn(&mut Run),
            GateState::Missed,
        ),
        (|run| run.header.plan.subjects[0].skipped = Some("no Java".into()), GateState::Undecided),
        (|_| {}, GateState::Undecided),
    ] {
        let seen = compared((&before, None), (&after(change), None), &throughput_gate());
        assert_eq!(
            seen.gates.iter().map(|gate| gate.state).collect::<Vec<_>>(),
            [wanted],
            "{:?}",
            seen.gates
        );
        // Repeats that A lacks are unknown, too.
        let back = compared((&after(change), None), (&before, None), &throughput_gate());
        assert_eq!(back.gates[0].state, GateState::Undecided, "{:?}", back.gates);
    }
}

/// One failure of a run that was interrupted after its first block is not most of its repeats.
#[test]
fn failure_in_few_of_the_planned_repeats_misses_no_gate() {
    let gate = |kept: usize| {
        let mut run = run_of("r", &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
        for trial in run.trials.iter_mut().filter(|trial| trial.trial % 3 == 1) {
            let [interval, ..] = trial.load.intervals.as_mut_slice() else { panic!("no interval") };
            interval.outcomes.count(dyno_archive::Outcome::UnexpectedStatus);
        }
        run.trials.truncate(3 * kept);
        compared((&run, Some(0)), (&run, Some(1)), &throughput_gate()).gates[0].state
    };
    assert_eq!(gate(1), GateState::Undecided);
    assert_eq!(gate(14), GateState::Missed);
}

/// A run that stopped early because its question was answered lacks nothing.
#[test]
fn early_stopped_run_is_complete() {
    let faster: Vec<u64> = FOURTEEN.iter().map(|value| value * 2).collect();
    let mut run = run_of("r", &[("x", FOURTEEN), ("y", &faster), NULL_OF_FOURTEEN]);
    run.header.plan.repeats = 20;
    run.header.plan.duet = [0, 1].into();
    run.header.plan.stop = Some(dyno_archive::plan::StopRule {
        metrics: vec!["throughput_rps".into()],
        same_within: None,
    });
    let first = run.header.plan.launches.len();
    for block in 14..20 {
        for arm in 0..3 {
            let launch = run.header.plan.launches.len();
            run.header.plan.launches.push(Launch::alone(arm, block));
            run.header.plan.trials.push(Trial { launch, arm, workload: 0, step: 0, seed: 0 });
        }
    }
    let of_duets = |run: &Run| report(run).duets[0].answers[0].sentence.clone();
    assert_eq!(report(&run).run.answered_after, Some(14));
    assert!(!of_duets(&run).contains("not count"), "{}", of_duets(&run));
    let seen = compared((&run, Some(0)), (&run, Some(1)), &throughput_gate());
    assert_eq!((seen.repeats[0].b.planned, seen.gates[0].state), (14, GateState::Held), "{seen:?}");
    // Without the stop rule the same archive is of an unfinished run.
    run.header.plan.stop = None;
    assert!(of_duets(&run).contains("not count"), "{}", of_duets(&run));
    let seen = compared((&run, Some(0)), (&run, Some(1)), &throughput_gate());
    assert_eq!(
        (seen.repeats[0].b.without_record(), seen.gates[0].state),
        (6, GateState::Undecided)
    );
    assert!(
        seen.notes.iter().any(|note| note.contains("lacks 6 planned repeats")),
        "{:?}",
        seen.notes
    );
    assert_eq!(first, 42);
}

const NULL_OF_FOURTEEN: (&str, &[u64]) = ("null", FOURTEEN);

#[test]
fn undecided_gates_pass_where_they_may() {
    let mut run = run_of("r", &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
    spoil(&mut run, 1, 1, Fate::Removed);
    let asked = ComparisonOptions { on_undecided: OnUndecided::Pass, ..throughput_gate() };
    assert_eq!(compared((&run, Some(0)), (&run, Some(1)), &asked).outcome(), GateOutcome::Passed);
    spoil(&mut run, 1, 7, Fate::Crashed);
    assert_eq!(compared((&run, Some(0)), (&run, Some(1)), &asked).outcome(), GateOutcome::Missed);
}

/// Rows of a server and a control whose values change by so much, in the metrics named.
fn changed_rows(
    gated: &str,
    own: f64,
    control: (&str, f64),
) -> (Vec<ComparisonRow>, Vec<CellRepeats>) {
    let before = run_of("r", &[("x", FOURTEEN), NULL_OF_FOURTEEN]);
    let mut after = before.clone();
    after.header.id = "s".into();
    let ComparisonResult { mut rows, repeats, .. } =
        compared((&before, None), (&after, None), &ComparisonOptions::default());
    let scaled = |change: f64| {
        let values = [1000.0, 1004.0, 998.0, 1002.0, 996.0, 1001.0];
        let after: Vec<f64> = values.iter().map(|value| value * (1.0 + change)).collect();
        Estimate::from_samples(&values, &after)
    };
    for row in &mut rows {
        let change = match row.control {
            true if row.metric == control.0 => control.1,
            false if row.metric == gated => own,
            _ => 0.0,
        };
        (row.estimate, row.lack) = (scaled(change), None);
        row.p_of_all = Some(if change == 0.0 { 1.0 } else { 0.0 });
        row.verdict = match change {
            change if change > 0.0 => Verdict::Higher,
            change if change < 0.0 => Verdict::Lower,
            _ => Verdict::NotShown,
        };
    }
    (rows, repeats)
}

/// A change of the machine within the margin is still a change of the machine.
#[test]
fn margin_does_not_hide_that_the_machine_changed() {
    let server: (&str, &[u64]) = ("x", &[2000, 2010, 2005, 1999, 2001]);
    let before = run_of("r", &[server, ("null", &[9000, 9010, 9005, 9002, 9008])]);
    let after = run_of("s", &[server, ("null", &[9700, 9710, 9705, 9702, 9708])]);
    for same_within in [None, Some(0.1)] {
        let gates = Gate::parse("throughput<-5%").unwrap();
        let seen = compared(
            (&before, None),
            (&after, None),
            &ComparisonOptions { gates, same_within, ..ComparisonOptions::default() },
        );
        assert_eq!(seen.gates[0].state, GateState::Undecided, "{:?}", seen.gates[0]);
        assert!(seen.notes[1].contains("the control null differs as well"), "{:?}", seen.notes);
    }
}

/// One of several controls that shows that the machine became faster is enough.
#[test]
fn any_control_of_another_step_may_leave_a_gate_undecided() {
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
    let judged = gate::judge(&gates, (&rows, &repeats), Confounding::None, &[]);
    assert_eq!(judged[0].state, GateState::Undecided, "{judged:?}");
    assert!(judged[0].sentence.contains("changed by +30 %"), "{judged:?}");
}

#[test]
fn what_b_was_not_to_measure_is_named_and_holds_no_gate() {
    let server: (&str, &[u64]) = ("x", &[2000, 2010, 2005, 1999, 2001]);
    let both = run_of("r", &[server, ("gone", &[500, 501, 502, 503, 504]), NULL]);
    let one = run_of("s", &[server, NULL]);
    let asked = || ComparisonOptions {
        gates: Gate::parse("throughput<-90%").unwrap(),
        ..ComparisonOptions::default()
    };
    let seen = compared((&both, None), (&one, None), &asked());
    let states: Vec<(&str, GateState)> =
        seen.gates.iter().map(|g| (&*g.subject_a, g.state)).collect();
    assert_eq!(states, [("x", GateState::Held), ("gone", GateState::Undecided)]);
    assert!(seen.gates[1].sentence.contains("B did not plan this step"), "{:?}", seen.gates[1]);
    assert_eq!(seen.outcome(), GateOutcome::Undecided);
    assert!(
        seen.notes.iter().any(|note| note.contains("A has servers that B does not have")),
        "{:?}",
        seen.notes
    );
    let turned = compared((&one, None), (&both, None), &asked());
    assert_eq!((turned.gates.len(), turned.outcome()), (1, GateOutcome::Passed));
    assert!(
        turned.notes.iter().any(|note| note.contains("They are not compared: gone")),
        "{:?}",
        turned.notes
    );
    // Without gates there is nothing to say of it but that.
    let seen = compared((&both, None), (&one, None), &ComparisonOptions::default());
    assert!(seen.rows.iter().all(|row| row.subject_a != "gone"));
    // The same holds for a step.
    let mut other = both.clone();
    other.header.id = "s".into();
    other.header.plan.load.steps[0].connections += 1;
    let seen = compared((&both, None), (&other, None), &asked());
    assert!(
        seen.gates.len() == 2 && seen.gates.iter().all(|gate| gate.state == GateState::Undecided)
    );
}

/// A repeat that was made up for alone has no turns next to the other's.
#[test]
fn repeats_that_make_no_pair_hold_no_gate() {
    let run = run_of("r", &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
    let ComparisonResult { mut rows, repeats, .. } =
        compared((&run, Some(0)), (&run, Some(1)), &ComparisonOptions::default());
    let gates = Gate::parse("throughput<-50%").unwrap();
    assert_eq!(
        gate::judge(&gates, (&rows, &repeats), Confounding::None, &[])[0].state,
        GateState::Held
    );
    rows.iter_mut().for_each(|row| row.pairs.truncate(12));
    let judged = gate::judge(&gates, (&rows, &repeats), Confounding::None, &[]);
    assert_eq!(judged[0].state, GateState::Undecided);
    assert!(judged[0].sentence.contains("over 12 pairs of 14 repeats"), "{judged:?}");
}

/// A change of the control excuses a change of the same metric, in the same direction, and of at
/// most its size.
#[test]
fn control_excuses_only_what_it_explains() {
    use GateState::{Held, Missed, Undecided};
    const CPU_KEY: &str = "server_cpu_us_per_request";
    for (gate, own, control, wanted, says) in [
        ("cpu_us_per_request>+20%", 1.64, (CPU_KEY, 0.09), Missed, "+164 %"),
        (
            "cpu_us_per_request>+20%",
            1.64,
            (CPU_KEY, 0.09),
            Missed,
            "null changed by +9.0 %, and the remaining change is +142 %",
        ),
        (
            "cpu_us_per_request>+20%",
            0.25,
            (CPU_KEY, 0.24),
            Undecided,
            "the remaining change is +0.8",
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
        // On a machine that became faster a server that did not has become slower.
        (
            "cpu_us_per_request>+3%",
            0.0,
            (CPU_KEY, -0.09),
            Undecided,
            "the remaining change is +9.9 %",
        ),
        ("cpu_us_per_request>+3%", 0.0, ("throughput_rps", 0.09), Held, ""),
    ] {
        let gates = Gate::parse(gate).unwrap();
        let (rows, repeats) = changed_rows(gates[0].metric.key, own, control);
        let [result] = &gate::judge(&gates, (&rows, &repeats), Confounding::None, &[])[..] else {
            panic!("{rows:?}")
        };
        let case = format!("{gate}, {own:+}, control {control:?}: {result:?}");
        assert_eq!(result.state, wanted, "{case}");
        assert!(result.sentence.contains(says), "{case}");
    }
}
