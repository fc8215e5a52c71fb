use dyno_archive::StartRecord;
use dyno_archive::plan::{Arrivals, Backend, Gaps, Launch, Segment, Subject, Trial};

use super::order::Confounding;
use super::*;
use crate::fixture::{self, trial_record};
use crate::number_format::percent;
use crate::report::report;
use crate::series::{RepeatValue, Series};

mod gates;

/// A run of servers, each with its responses per second, repeat by repeat; the last one is a
/// control.
fn run_of(id: &str, servers: &[(&str, &[u64])]) -> Run {
    let last = servers.len() - 1;
    let subject = |(index, (name, _)): (usize, &(&str, &[u64]))| Subject {
        name: (*name).into(),
        title: (*name).into(),
        control: index == last,
        ..Subject::default()
    };
    let mut plan = fixture::plan(servers.iter().enumerate().map(subject).collect());
    plan.load.steps = vec![fixture::step(Arrivals::Closed)];
    let blocks = servers[0].1.len() as u32;
    let each = (0..blocks).flat_map(|block| (0..servers.len()).map(move |arm| (block, arm)));
    plan.launches = each.clone().map(|(block, arm)| Launch::alone(arm, block)).collect();
    let trials = each.enumerate().map(|(launch, (block, arm))| {
        plan.trials.push(Trial { launch, arm, workload: 0, step: 0, seed: 0 });
        trial_record(launch, fixture::record(servers[arm].1[block as usize]))
    });
    let trials = trials.collect();
    let mut run = fixture::run(plan, Vec::new(), trials);
    run.header.id = id.into();
    run.header.started = id.into();
    run
}

const NULL: (&str, &[u64]) = ("null", &[900, 910, 905, 902, 908]);

fn compared(
    a: (&Run, Option<usize>),
    b: (&Run, Option<usize>),
    asked: &ComparisonOptions,
) -> ComparisonResult {
    let (of_a, of_b) = (report(a.0), report(b.0));
    compare(
        Side { run: a.0, report: &of_a, arm: a.1 },
        Side { run: b.0, report: &of_b, arm: b.1 },
        asked,
    )
}

fn throughput(compared: &ComparisonResult) -> &ComparisonRow {
    compared.rows.iter().find(|row| row.metric == "throughput_rps" && !row.control).unwrap()
}

/// Two pulses with the same ends: an older archive has both as first passes.
#[test]
fn passes_of_an_older_archive_have_counterparts() {
    let pulse = |peak: f64, pass: u32| {
        let segment = |rate: f64| Segment { from_rate: rate, to_rate: rate, duration_ns: 1 };
        let segments = [1000.0, peak, 1000.0].map(segment).to_vec();
        let arrivals = Arrivals::Shaped { segments, gaps: Gaps::Even };
        Step { pass, ..fixture::step(arrivals) }
    };
    let with = |steps: Vec<Step>| {
        let mut run = run_of("r", &[("x", &[200, 201]), NULL]);
        run.header.plan.load.steps = steps;
        run
    };
    let older = with(vec![pulse(5000.0, 1), pulse(9000.0, 1), pulse(5000.0, 2)]);
    let newer = with(vec![pulse(5000.0, 1), pulse(9000.0, 2), pulse(5000.0, 3)]);
    let (of_older, of_newer) = (report(&older), report(&newer));
    let side = |run, report| Side { run, report, arm: None };
    let (a, b) = (side(&older, &of_older), side(&newer, &of_newer));
    for step in 0..3 {
        let key = CellKey { arm: 0, workload: 0, step };
        assert_eq!(counterpart(a, key, b, 0), Some(key));
    }
    let fewer = with(vec![pulse(9000.0, 1)]);
    let of_fewer = report(&fewer);
    let key = CellKey { arm: 0, workload: 0, step: 0 };
    assert_eq!(counterpart(a, key, side(&fewer, &of_fewer), 0), None);
}

#[test]
fn two_subjects_of_a_run_are_compared_in_pairs() {
    // A machine that slows down in the middle slows both.
    let run =
        run_of("r", &[("x", &[200, 202, 101, 103, 200]), ("y", &[210, 213, 106, 107, 211]), NULL]);
    let compared = compared((&run, Some(0)), (&run, Some(1)), &ComparisonOptions::default());
    assert!(compared.paired && compared.notes.is_empty() && compared.differences.is_empty());
    let row = throughput(&compared);
    assert_eq!((&*row.subject_a, &*row.subject_b, row.verdict), ("x", "y", Verdict::Higher));
    let estimate = row.estimate.unwrap();
    assert!((estimate.ratio - 1.05).abs() < 0.005 && estimate.low > 1.03, "{estimate:?}");
    assert_eq!(row.sentence, "4.1–5.8 % higher");
    let [answer] = compared.answers.as_slice() else { panic!("{:?}", compared.answers) };
    assert!(answer.sentence.starts_with("4.1–5.8 % more throughput; "), "{}", answer.sentence);
    assert!(
        answer.sentence.contains("; median response time: no difference shown"),
        "{}",
        answer.sentence
    );
    let slower =
        Estimate { ratio: 1.1, low: 1.08, high: 1.12, ..Estimate::from_pairs(&[1.1; 5]).unwrap() };
    let times = compared.rows.iter().filter(|row| row.metric == "response_p50_us");
    let answer = |verdict, estimate| {
        let rows: Vec<ComparisonRow> =
            times.clone().map(|row| ComparisonRow { verdict, estimate, ..row.clone() }).collect();
        verdict::answer(&rows, Some(0.02))
    };
    assert_eq!(answer(Verdict::Higher, Some(slower)), "median response time 8.0–12 % longer");
    let faster = Estimate { ratio: 0.9, low: 0.88, high: 0.92, ..slower };
    assert_eq!(answer(Verdict::Lower, Some(faster)), "median response time 8.0–12 % shorter");
    assert_eq!(answer(Verdict::Same, Some(slower)), "median response time the same within 2.0 %");
    let missing =
        compared.rows.iter().find(|row| row.metric == "server_cpu_us_per_request").unwrap();
    assert_eq!(missing.verdict, Verdict::Missing);
}

#[test]
fn drift_between_two_runs_is_reported() {
    let before = run_of("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let after = run_of("s", &[("x", &[190, 192, 191, 193, 190]), NULL]);
    let of = |a: &Run, b: &Run| compared((a, None), (b, None), &ComparisonOptions::default());
    let seen = of(&before, &after);
    assert!(
        !seen.paired && seen.notes.len() == 1 && seen.notes[0].contains("different times"),
        "{:?}",
        seen.notes
    );
    assert_eq!(throughput(&seen).verdict, Verdict::Lower);
    assert!(seen.rows.iter().any(|row| row.control));
    // The control got slower, too.
    let slower =
        run_of("s", &[("x", &[190, 192, 191, 193, 190]), ("null", &[850, 855, 857, 851, 852])]);
    let seen = of(&before, &slower);
    let expected =
        "The machine changed between the runs: the control null differs as well (Throughput: ";
    assert!(seen.notes[1].starts_with(expected), "{:?}", seen.notes);
    // Then a gate is not missed: what changed may be the machine.
    let asked = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let gate = |a: &Run, b: &Run| compared((a, None), (b, None), &asked).gates.remove(0).state;
    assert_eq!(gate(&before, &after), GateState::Missed);
    assert_eq!(gate(&before, &slower), GateState::Undecided);
}

#[test]
fn what_was_not_shown_says_what_would_have_been() {
    let noisy =
        run_of("r", &[("x", &[200, 180, 220, 190, 210]), ("y", &[195, 215, 185, 212, 200]), NULL]);
    let row =
        throughput(&compared((&noisy, Some(0)), (&noisy, Some(1)), &ComparisonOptions::default()))
            .clone();
    assert_eq!(row.verdict, Verdict::NotShown);
    let would = percent(row.estimate.unwrap().detectable.unwrap() - 1.0);
    assert_eq!(row.sentence, format!("no difference shown: one of {would} would have been found"));
    let same = run_of(
        "r",
        &[("x", &[2000, 2010, 2005, 1999, 2001]), ("y", &[2001, 2012, 2003, 2000, 2002]), NULL],
    );
    let asked = ComparisonOptions { same_within: Some(0.02), ..ComparisonOptions::default() };
    let row = throughput(&compared((&same, Some(0)), (&same, Some(1)), &asked)).clone();
    assert_eq!((row.verdict, &*row.sentence), (Verdict::Same, "the same within 2.0 %"));
    let few = run_of("r", &[("x", &[200, 202]), ("y", &[300, 302]), ("null", &[900, 900])]);
    let row =
        throughput(&compared((&few, Some(0)), (&few, Some(1)), &ComparisonOptions::default()))
            .clone();
    assert_eq!((row.verdict, row.estimate), (Verdict::TooFew, None));
    assert_eq!(row.sentence, "too few repeats (2 and 2): a verdict needs 5 of each");
}

#[test]
fn runs_that_differ_in_tracking_say_so() {
    let of = |loopback_tracked| {
        let mut run = run_of("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
        run.header.facts.loopback_tracked = loopback_tracked;
        run
    };
    let differences = |a, b| {
        let (a, b) = (of(a), of(b));
        let seen = compared((&a, None), (&b, None), &ComparisonOptions::default());
        let shown = |d: &RunDifference| format!("{} {:?} {:?}", d.what, d.a, d.b);
        seen.differences.iter().map(shown).collect::<Vec<String>>()
    };
    let named = [r#"machine.loopback_tracked Some("false") Some("true")"#];
    assert_eq!(differences(Some(false), Some(true)), named);
    let named = [r#"machine.loopback_tracked Some("null") Some("true")"#];
    assert_eq!(differences(None, Some(true)), named, "it may be the cause of what differs");
    assert!(differences(Some(true), Some(true)).is_empty());
    assert!(differences(None, Some(false)).is_empty(), "an older archive does not know it");
}

#[test]
fn undeclared_differences_are_reported_on_every_line() {
    let before = run_of("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let mut after = run_of("s", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let plan = &mut after.header.plan;
    plan.load.duration_ns += 1;
    plan.subjects[0].version = Some("2".into());
    plan.arms[0].conditions.env.insert("TOKEN".into(), "hunter2".into());
    plan.arms[0].conditions.limits.cpus = Some(0.5);
    plan.workloads[0].requests[0].path = "/other?key=hunter2".into();
    plan.backends =
        vec![Backend { name: "db".into(), version: Some("16".into()), ..Backend::default() }];
    plan.arms[0].backends = vec![0];
    after.header.facts.kernel = Some("6.2".into());
    after.header.facts.memory_bytes = Some(1_000_000);
    let mut known = before.clone();
    known.header.facts.memory_bytes = Some(1_009_000);
    let seen = compared((&known, None), (&after, None), &ComparisonOptions::default());
    let names: Vec<&str> = seen.differences.iter().map(|d| &*d.what).collect();
    let wanted = [
        "machine.kernel",
        "load.duration_ns",
        "workload w.requests",
        "x: env.TOKEN",
        "x.backends.db",
        "x.limits.cpus",
    ];
    assert_eq!(names, wanted);
    assert_eq!(
        (seen.differences[0].a.as_deref(), seen.differences[0].b.as_deref()),
        (Some("null"), Some("6.2"))
    );
    assert!(!format!("{seen:?}").contains("hunter2"));
    assert!(
        seen.rows
            .iter()
            .all(|row| row.sentence.contains(", though they differ in machine.kernel, "))
    );
    let gated = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let gates = compared((&known, None), (&after, None), &gated).gates;
    assert!(!gates.is_empty());
    assert!(
        gates.iter().all(|gate| gate.sentence.matches("though they differ in").count() == 1),
        "{gates:?}"
    );
    // The subject itself is what two runs are compared for.
    let mut other = before.clone();
    other.header.id = "t".into();
    other.header.plan.subjects[0].version = Some("2".into());
    assert_eq!(
        compared((&before, None), (&other, None), &ComparisonOptions::default()).differences,
        []
    );
}

#[test]
fn gate_is_missed_only_by_what_is_no_chance() {
    let asked = |gate: &str| ComparisonOptions {
        gates: Gate::parse(gate).unwrap(),
        ..ComparisonOptions::default()
    };
    let steady: &[u64] = &[2000, 2010, 2005, 1999, 2001];
    let worse: &[u64] = &[1900, 1912, 1903, 1900, 1902];
    let noisy: &[u64] = &[1500, 2400, 1700, 2200, 1600];
    for (servers, gate, wanted) in [
        ((steady, worse), "throughput<-2%", GateState::Missed),
        ((steady, worse), "throughput<-10%", GateState::Held),
        ((steady, steady), "throughput<-2%", GateState::Held),
        ((worse, steady), "throughput<-2%", GateState::Held),
        ((steady, noisy), "throughput<-2%", GateState::Undecided),
        ((noisy, noisy), "throughput<-2%", GateState::Held),
        ((steady, worse), "memory>+1%", GateState::Undecided),
    ] {
        let run = run_of("r", &[("x", servers.0), ("y", servers.1), NULL]);
        let seen = compared((&run, Some(0)), (&run, Some(1)), &asked(gate));
        let [result] = seen.gates.as_slice() else { panic!("{:?}", seen.gates) };
        assert_eq!(result.state, wanted, "{gate}: {result:?}");
        assert_eq!(seen.passed, wanted != GateState::Missed);
    }
}

#[test]
fn gates_are_read_as_they_are_written() {
    let gates = Gate::parse("cpu_us_per_request>+3%, p99>+10% ,throughput<-2.5%").unwrap();
    let texts: Vec<String> = gates.iter().map(Gate::text).collect();
    assert_eq!(
        texts,
        ["server_cpu_us_per_request>+3%", "response_p99_us>+10%", "throughput_rps<-2.5%"]
    );
    for (text, wanted) in [
        ("p99", "not a gate"),
        ("p99>10", "not a gate"),
        ("p99>-10%", "the sign contradicts the direction"),
        ("p99>0%", "the sign contradicts the direction"),
        ("p99<-10%", "would fail an improvement: for p99, lower is better"),
        ("throughput>+5%", "would fail an improvement: for throughput, higher"),
        ("throughput<-100%", "can never be missed"),
        ("p99>+0.00000000000001%", "use at least 0.001 %"),
        ("throughput<-1e-15%", "use at least 0.001 %"),
        ("pages>+5%", "\"pages\": no such metric"),
        ("error_share>+5%", "no such metric"),
        ("", "not a gate"),
    ] {
        let error = Gate::parse(text).unwrap_err();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn control_is_asked_though_sides_are_named() {
    let before = run_of("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let slower =
        run_of("s", &[("x", &[190, 192, 191, 193, 190]), ("null", &[850, 855, 857, 851, 852])]);
    let asked = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let seen = compared((&before, Some(0)), (&slower, Some(0)), &asked);
    assert!(seen.rows.iter().any(|row| row.control), "{:?}", seen.rows);
    assert!(seen.notes[1].contains("the control null differs as well"), "{:?}", seen.notes);
    assert_eq!(seen.gates[0].state, GateState::Undecided);
    // If the compared arms include a control, another control is not one.
    let seen = compared((&before, Some(1)), (&slower, Some(0)), &asked);
    let rows: Vec<(&str, &str, bool)> =
        seen.rows.iter().map(|row| (&*row.subject_a, &*row.subject_b, row.control)).collect();
    assert!(
        rows.contains(&("null", "x", false)) && rows.contains(&("null", "null", true)),
        "{rows:?}"
    );
    assert_eq!(seen.gates.len(), 1);
    // Named itself, it is what is asked about.
    let seen = compared((&before, Some(1)), (&slower, Some(1)), &asked);
    assert!(seen.rows.iter().all(|row| !row.control) && seen.gates[0].state == GateState::Missed);
    // A control whose small difference may be chance is no sign of another machine.
    let near =
        run_of("s", &[("x", &[120, 122, 121, 123, 120]), ("null", &[904, 914, 909, 906, 912])]);
    let asked = ComparisonOptions { same_within: Some(0.02), ..asked };
    let seen = compared((&before, None), (&near, None), &asked);
    assert_eq!((seen.notes.len(), seen.gates[0].state), (1, GateState::Missed), "{:?}", seen.notes);
}

#[test]
fn server_that_broke_passes_no_gate() {
    let before = run_of("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let asked = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let gate = |b: &Run| {
        let seen = compared((&before, None), (b, None), &asked);
        let row =
            seen.rows.iter().find(|row| row.metric == "throughput_rps" && !row.control).cloned();
        (seen.gates.first().map(|gate| gate.state), row)
    };
    let mut wrong = run_of("s", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    for trial in wrong.trials.iter_mut().step_by(2) {
        let [interval, ..] = trial.load.intervals.as_mut_slice() else { panic!("no interval") };
        interval.outcomes.count(dyno_archive::Outcome::UnexpectedStatus);
    }
    let (state, row) = gate(&wrong);
    let row = row.unwrap();
    assert_eq!(
        (state, row.b_broke, row.lack),
        (Some(GateState::Missed), true, Some(NoRatioReason::NoRepeat { a: 5, b: 0 }))
    );
    assert_eq!(row.sentence, "not compared: B has no valid repeat");
    // Trials that were never loaded, for no known fault of the server, are no worse.
    let mut none = run_of("s", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    none.trials.retain(|trial| trial.trial % 2 == 1);
    let (state, row) = gate(&none);
    assert_eq!((state, row.unwrap().b_broke), (Some(GateState::Undecided), false));
}

/// Requests that get no response are no incorrect responses: a machine that stalls loses them, too.
#[test]
fn what_was_lost_is_tested_like_any_difference() {
    let steady: &[u64] = &[200, 202, 201, 203, 200];
    let before = run_of("r", &[("x", steady), NULL]);
    let lossy = |repeats: usize, slow: bool| {
        let control: &[u64] = if slow { &[850, 855, 857, 851, 852] } else { NULL.1 };
        let mut run = run_of("s", &[("x", steady), ("null", control)]);
        for trial in run.trials.iter_mut().step_by(2).take(repeats) {
            let load = &mut trial.load;
            load.books.failed += 50;
            load.books.started += 50;
            let [interval, ..] = load.intervals.as_mut_slice() else { panic!("no interval") };
            (0..50).for_each(|_| interval.outcomes.count(dyno_archive::Outcome::Timeout));
        }
        run
    };
    let asked = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let gate = |b: &Run| compared((&before, None), (b, None), &asked).gates.remove(0);
    let all = gate(&lossy(5, false));
    assert_eq!(all.state, GateState::Missed, "{all:?}");
    // 2 of 252 ways, and Holm's factor of two: the ratio of the only pair that is left is not
    // tested.
    assert!(
        all.sentence.contains("which is significant (p 0.008, Fisher's exact test)"),
        "{all:?}"
    );
    assert_eq!(gate(&lossy(3, false)).state, GateState::Undecided, "three of five may be chance");
    assert_eq!(
        gate(&lossy(5, true)).state,
        GateState::Missed,
        "a slower machine loses no requests"
    );
}

#[test]
fn server_that_seldom_comes_up_passes_no_gate() {
    let before = run_of("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let mut after = before.clone();
    after.header.id = "s".into();
    // Its trials of four blocks are missing, because it crashed as it was started.
    after.trials.retain(|trial| trial.trial % 2 == 1 || trial.trial == 0);
    let failed = |launch: usize| dyno_archive::StartRecord {
        start: launch,
        launch,
        failure: Some(dyno_archive::start::Failure {
            kind: dyno_archive::start::FailureKind::Crashed,
            message: "it ended".into(),
        }),
        ..dyno_archive::StartRecord::default()
    };
    after.starts = [2, 4, 6, 8].map(failed).to_vec();
    let asked = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let gate = compared((&before, None), (&after, None), &asked).gates.remove(0);
    assert_eq!(gate.state, GateState::Missed, "{gate:?}");
}

#[test]
fn with_few_pairs_and_a_look_after_each_nothing_would_have_been_found() {
    let mut run =
        run_of("r", &[("x", &[200, 180, 220, 190, 210]), ("y", &[195, 215, 185, 212, 200]), NULL]);
    run.header.plan.stop = Some(dyno_archive::plan::StopRule {
        metrics: vec!["throughput_rps".into()],
        same_within: None,
    });
    let seen = compared((&run, Some(0)), (&run, Some(1)), &ComparisonOptions::default());
    let row = throughput(&seen);
    assert_eq!(row.estimate.unwrap().detectable, None);
    assert_eq!(row.sentence, "no difference shown: too few repeats to find one");
}

#[test]
fn missing_ratio_is_reported_with_its_reason() {
    let of = |points: &[RepeatValue]| -> Series { (1..).zip(points.iter().copied()).collect() };
    let known = of(&[RepeatValue::Known(1.0); 6]);
    let lack = |b: &[RepeatValue]| NoRatioReason::from_series(&known, &of(b), true);
    let six = |last: RepeatValue| [RepeatValue::Known(1.0), last, last, last, last, last];
    assert_eq!(lack(&six(RepeatValue::Beyond)), NoRatioReason::Unanswered { a: 0, b: 5 });
    assert_eq!(lack(&six(RepeatValue::Missing)), NoRatioReason::NotMeasured { a: 0, b: 5 });
    assert_eq!(lack(&six(RepeatValue::Known(0.0))), NoRatioReason::Zero { a: 0, b: 5 });
    assert_eq!(lack(&[]), NoRatioReason::NoRepeat { a: 6, b: 0 });
    assert_eq!(
        lack(&[RepeatValue::Known(2.0); 4]),
        NoRatioReason::TooFew { a: 6, b: 4, pairs: Some(4) }
    );
    let late: Series = (4..).zip([RepeatValue::Known(1.0); 6]).collect();
    let few = NoRatioReason::from_series(&known, &late, true);
    assert!(
        few.sentence().starts_with("too few pairs of repeats (3, of 6 and 6 repeats)"),
        "{}",
        few.sentence()
    );
}

#[test]
fn differing_parts_of_a_run_are_reported() {
    let before =
        run_of("r", &[("x", &[200, 202, 201, 203, 200]), ("y", &[200, 202, 201, 203, 200]), NULL]);
    let mut after = before.clone();
    after.header.id = "s".into();
    let differences = vec![dyno_archive::ResumptionDifference {
        what: "kernel".into(),
        before: "6.1".into(),
        now: "6.8".into(),
    }];
    after.header.resumptions = vec![fixture::resumption(&after, 2, differences)];
    after.starts.push(StartRecord { start: 2, ..StartRecord::default() });
    let seen = compared((&before, None), (&after, None), &ComparisonOptions::default());
    let names: Vec<&str> = seen.differences.iter().map(|d| &*d.what).collect();
    assert_eq!(names, ["parts of B: kernel"]);
    let seen = compared((&after, Some(0)), (&after, Some(1)), &ComparisonOptions::default());
    assert_eq!(seen.differences[0].what, "parts of the run: kernel");
    // Resumed after its end: nothing was measured in other conditions.
    after.header.resumptions[0].from_start = 3;
    let seen = compared((&before, None), (&after, None), &ComparisonOptions::default());
    assert!(seen.differences.is_empty(), "{:?}", seen.differences);
}

/// Forty gates over servers that are alike are missed no more often than one of them may be.
#[test]
fn gates_raise_no_more_false_alarms_than_they_say() {
    let mut state = 1u64;
    let mut uniform = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut noise = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
    let run = run_of("r", &[("x", &[200; 5]), ("y", &[200; 5]), NULL]);
    let seen = compared((&run, Some(0)), (&run, Some(1)), &ComparisonOptions::default());
    let row = throughput(&seen).clone();
    let gates = Gate::parse("throughput<-0.1%").unwrap();
    let mut alarms = 0;
    for _ in 0..1000 {
        let of_noise = |_| {
            let ratios: Vec<f64> = (0..5).map(|_| (0.05 * noise()).exp()).collect();
            ComparisonRow { estimate: Estimate::from_pairs(&ratios), ..row.clone() }
        };
        let rows: Vec<ComparisonRow> = (0..40).map(of_noise).collect();
        alarms += usize::from(
            gate::judge(&gates, (&rows, &seen.repeats), Confounding::None, &[])
                .iter()
                .any(|g| g.state == GateState::Missed),
        );
    }
    // Half of all chance differences are of the gate's direction.
    assert!((10..=50).contains(&alarms), "{alarms} of 1000");
}
