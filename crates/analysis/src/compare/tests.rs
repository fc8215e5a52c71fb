use dyno_archive::plan::{Arrivals, Backend, Launch, Subject, Trial};

use super::order::Confounding;
use super::*;
use crate::fixture::{self, trial_record};
use crate::report::report;
use crate::series::{Point, Series};
use crate::words::percent;

/// A run of servers, each with its answers per second, repeat by repeat; the last one is a control.
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
    run
}

const NULL: (&str, &[u64]) = ("null", &[900, 910, 905, 902, 908]);

fn compared(a: (&Run, Option<usize>), b: (&Run, Option<usize>), asked: &Asked) -> Compared {
    let (of_a, of_b) = (report(a.0), report(b.0));
    compare(Side { run: a.0, report: &of_a, arm: a.1 }, Side { run: b.0, report: &of_b, arm: b.1 }, asked)
}

fn throughput(compared: &Compared) -> &Row {
    compared.rows.iter().find(|row| row.metric == "throughput_rps" && !row.control).unwrap()
}

#[test]
fn two_subjects_of_a_run_are_compared_in_pairs() {
    // A machine that slows down in the middle slows both.
    let run = run_of("r", &[("x", &[200, 202, 101, 103, 200]), ("y", &[210, 213, 106, 107, 211]), NULL]);
    let compared = compared((&run, Some(0)), (&run, Some(1)), &Asked::default());
    assert!(compared.paired && compared.notes.is_empty() && compared.differences.is_empty());
    let row = throughput(&compared);
    assert_eq!((&*row.subject_a, &*row.subject_b, row.verdict), ("x", "y", Verdict::Higher));
    let estimate = row.estimate.unwrap();
    assert!((estimate.ratio - 1.05).abs() < 0.005 && estimate.low > 1.03, "{estimate:?}");
    assert_eq!(row.sentence, "4.1–5.8 % higher");
    let [answer] = compared.answers.as_slice() else { panic!("{:?}", compared.answers) };
    assert!(answer.sentence.starts_with("4.1–5.8 % more throughput; "), "{}", answer.sentence);
    assert!(answer.sentence.contains("; median response time: no difference shown"), "{}", answer.sentence);
    let slower = Estimate { ratio: 1.1, low: 1.08, high: 1.12, ..Estimate::of_pairs(&[1.1; 5]).unwrap() };
    let times = compared.rows.iter().filter(|row| row.metric == "response_p50_us");
    let told = |verdict, estimate| {
        let rows: Vec<Row> = times.clone().map(|row| Row { verdict, estimate, ..row.clone() }).collect();
        verdict::answer(&rows, Some(0.02))
    };
    assert_eq!(told(Verdict::Higher, Some(slower)), "median response time 8.0–12 % longer");
    let faster = Estimate { ratio: 0.9, low: 0.88, high: 0.92, ..slower };
    assert_eq!(told(Verdict::Lower, Some(faster)), "median response time 8.0–12 % shorter");
    assert_eq!(told(Verdict::Same, Some(slower)), "median response time the same within 2.0 %");
    let missing = compared.rows.iter().find(|row| row.metric == "server_cpu_us_per_request").unwrap();
    assert_eq!(missing.verdict, Verdict::Missing);
}

#[test]
fn repeats_of_two_runs_are_no_pairs_and_the_drift_between_them_is_told() {
    let before = run_of("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let after = run_of("s", &[("x", &[190, 192, 191, 193, 190]), NULL]);
    let of = |a: &Run, b: &Run| compared((a, None), (b, None), &Asked::default());
    let seen = of(&before, &after);
    assert!(
        !seen.paired && seen.notes.len() == 1 && seen.notes[0].contains("different times"),
        "{:?}",
        seen.notes
    );
    assert_eq!(throughput(&seen).verdict, Verdict::Lower);
    assert!(seen.rows.iter().any(|row| row.control));
    // The control got slower, too.
    let slower = run_of("s", &[("x", &[190, 192, 191, 193, 190]), ("null", &[850, 855, 857, 851, 852])]);
    let seen = of(&before, &slower);
    let told = "The machine changed between the runs: the control null differs as well (Throughput: ";
    assert!(seen.notes[1].starts_with(told), "{:?}", seen.notes);
    // Then a gate is not missed: what changed may be the machine.
    let asked = Asked { gates: Gate::parse("throughput<-2%").unwrap(), ..Asked::default() };
    let gate = |a: &Run, b: &Run| compared((a, None), (b, None), &asked).gates.remove(0).state;
    assert_eq!(gate(&before, &after), GateState::Missed);
    assert_eq!(gate(&before, &slower), GateState::Undecided);
}

#[test]
fn what_was_not_shown_says_what_would_have_been() {
    let noisy = run_of("r", &[("x", &[200, 180, 220, 190, 210]), ("y", &[195, 215, 185, 212, 200]), NULL]);
    let row = throughput(&compared((&noisy, Some(0)), (&noisy, Some(1)), &Asked::default())).clone();
    assert_eq!(row.verdict, Verdict::NotShown);
    let would = percent(row.estimate.unwrap().detectable.unwrap() - 1.0);
    assert_eq!(row.sentence, format!("no difference shown, one of {would} would have been"));
    let same =
        run_of("r", &[("x", &[2000, 2010, 2005, 1999, 2001]), ("y", &[2001, 2012, 2003, 2000, 2002]), NULL]);
    let asked = Asked { same_within: Some(0.02), ..Asked::default() };
    let row = throughput(&compared((&same, Some(0)), (&same, Some(1)), &asked)).clone();
    assert_eq!((row.verdict, &*row.sentence), (Verdict::Same, "the same within 2.0 %"));
    let few = run_of("r", &[("x", &[200, 202]), ("y", &[300, 302]), ("null", &[900, 900])]);
    let row = throughput(&compared((&few, Some(0)), (&few, Some(1)), &Asked::default())).clone();
    assert_eq!((row.verdict, row.estimate), (Verdict::TooFew, None));
    assert_eq!(row.sentence, "too few repeats, 2 and 2: a verdict takes 5 of each");
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
        let seen = compared((&a, None), (&b, None), &Asked::default());
        let shown = |d: &Difference| format!("{} {:?} {:?}", d.what, d.a, d.b);
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
fn runs_that_differ_in_more_than_they_say_are_told_so_on_every_line() {
    let before = run_of("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let mut after = run_of("s", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let plan = &mut after.header.plan;
    plan.load.duration_ns += 1;
    plan.subjects[0].version = Some("2".into());
    plan.arms[0].conditions.env.insert("TOKEN".into(), "hunter2".into());
    plan.arms[0].conditions.limits.cpus = Some(0.5);
    plan.workloads[0].requests[0].path = "/other?key=hunter2".into();
    plan.backends = vec![Backend { name: "db".into(), version: Some("16".into()), ..Backend::default() }];
    plan.arms[0].backends = vec![0];
    after.header.facts.kernel = Some("6.2".into());
    after.header.facts.memory_bytes = Some(1_000_000);
    let mut known = before.clone();
    known.header.facts.memory_bytes = Some(1_009_000);
    let seen = compared((&known, None), (&after, None), &Asked::default());
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
    assert!(seen.rows.iter().all(|row| row.sentence.contains(", though they differ in machine.kernel, ")));
    let gated = Asked { gates: Gate::parse("throughput<-2%").unwrap(), ..Asked::default() };
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
    assert_eq!(compared((&before, None), (&other, None), &Asked::default()).differences, []);
}

#[test]
fn a_gate_is_missed_only_by_what_is_no_chance() {
    let asked = |gate: &str| Asked { gates: Gate::parse(gate).unwrap(), ..Asked::default() };
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
    assert_eq!(texts, ["server_cpu_us_per_request>+3%", "response_p99_us>+10%", "throughput_rps<-2.5%"]);
    for (text, wanted) in [
        ("p99", "is no gate"),
        ("p99>10", "is no gate"),
        ("p99>-10%", "the other way"),
        ("p99>0%", "the other way"),
        ("p99<-10%", "would fail what got better: of p99 the lower is the better"),
        ("throughput>+5%", "would fail what got better: of throughput the higher"),
        ("throughput<-100%", "can never be missed"),
        ("p99>+0.00000000000001%", "the smallest share is 0.001 %"),
        ("throughput<-1e-15%", "the smallest share is 0.001 %"),
        ("pages>+5%", "there is no metric \"pages\""),
        ("error_share>+5%", "there is no metric"),
        ("", "is no gate"),
    ] {
        let error = Gate::parse(text).unwrap_err();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn a_control_is_asked_though_sides_are_named() {
    let before = run_of("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let slower = run_of("s", &[("x", &[190, 192, 191, 193, 190]), ("null", &[850, 855, 857, 851, 852])]);
    let asked = Asked { gates: Gate::parse("throughput<-2%").unwrap(), ..Asked::default() };
    let seen = compared((&before, Some(0)), (&slower, Some(0)), &asked);
    assert!(seen.rows.iter().any(|row| row.control), "{:?}", seen.rows);
    assert!(seen.notes[1].contains("the control null differs as well"), "{:?}", seen.notes);
    assert_eq!(seen.gates[0].state, GateState::Undecided);
    // Beside a control that is asked about another one is none.
    let seen = compared((&before, Some(1)), (&slower, Some(0)), &asked);
    let rows: Vec<(&str, &str, bool)> =
        seen.rows.iter().map(|row| (&*row.subject_a, &*row.subject_b, row.control)).collect();
    assert!(rows.contains(&("null", "x", false)) && rows.contains(&("null", "null", true)), "{rows:?}");
    assert_eq!(seen.gates.len(), 1);
    // Named itself, it is what is asked about.
    let seen = compared((&before, Some(1)), (&slower, Some(1)), &asked);
    assert!(seen.rows.iter().all(|row| !row.control) && seen.gates[0].state == GateState::Missed);
    // A control whose small difference may be chance is no sign of another machine.
    let near = run_of("s", &[("x", &[120, 122, 121, 123, 120]), ("null", &[904, 914, 909, 906, 912])]);
    let asked = Asked { same_within: Some(0.02), ..asked };
    let seen = compared((&before, None), (&near, None), &asked);
    assert_eq!((seen.notes.len(), seen.gates[0].state), (1, GateState::Missed), "{:?}", seen.notes);
}

#[test]
fn a_server_that_broke_passes_no_gate() {
    let before = run_of("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let asked = Asked { gates: Gate::parse("throughput<-2%").unwrap(), ..Asked::default() };
    let gate = |b: &Run| {
        let seen = compared((&before, None), (b, None), &asked);
        let row = seen.rows.iter().find(|row| row.metric == "throughput_rps" && !row.control).cloned();
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
        (Some(GateState::Missed), true, Some(Lack::NoRepeat { a: 5, b: 0 }))
    );
    assert_eq!(row.sentence, "not compared: B has no valid repeat");
    // What never was loaded, for nothing that is known of the server, is no worse.
    let mut none = run_of("s", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    none.trials.retain(|trial| trial.trial % 2 == 1);
    let (state, row) = gate(&none);
    assert_eq!((state, row.unwrap().b_broke), (Some(GateState::Undecided), false));
}

/// Requests that get no answer are no wrong answers: a machine that stalls loses them, too.
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
    let asked = Asked { gates: Gate::parse("throughput<-2%").unwrap(), ..Asked::default() };
    let gate = |b: &Run| compared((&before, None), (b, None), &asked).gates.remove(0);
    let all = gate(&lossy(5, false));
    assert_eq!(all.state, GateState::Missed, "{all:?}");
    // 2 of 252 ways, and Holm's factor of two: the ratio of the only pair that is left is not
    // tested.
    assert!(all.sentence.contains("that is significant (p 0.008, Fisher's exact test)"), "{all:?}");
    assert_eq!(gate(&lossy(3, false)).state, GateState::Undecided, "three of five may be chance");
    assert_eq!(gate(&lossy(5, true)).state, GateState::Missed, "a slower machine loses no requests");
}

#[test]
fn a_server_that_seldom_comes_up_passes_no_gate() {
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
    let asked = Asked { gates: Gate::parse("throughput<-2%").unwrap(), ..Asked::default() };
    let gate = compared((&before, None), (&after, None), &asked).gates.remove(0);
    assert_eq!(gate.state, GateState::Missed, "{gate:?}");
}

#[test]
fn with_few_pairs_and_a_look_after_each_nothing_would_have_been_found() {
    let mut run = run_of("r", &[("x", &[200, 180, 220, 190, 210]), ("y", &[195, 215, 185, 212, 200]), NULL]);
    run.header.plan.stop =
        Some(dyno_archive::plan::Stop { metrics: vec!["throughput_rps".into()], same_within: None });
    let seen = compared((&run, Some(0)), (&run, Some(1)), &Asked::default());
    let row = throughput(&seen);
    assert_eq!(row.estimate.unwrap().detectable, None);
    assert_eq!(row.sentence, "no difference shown: with so few repeats none could have been");
}

#[test]
fn why_there_is_no_ratio_is_told() {
    let of = |points: &[Point]| -> Series { (1..).zip(points.iter().copied()).collect() };
    let known = of(&[Point::Known(1.0); 6]);
    let lack = |b: &[Point]| Lack::of(&known, &of(b), true);
    let six = |last: Point| [Point::Known(1.0), last, last, last, last, last];
    assert_eq!(lack(&six(Point::Beyond)), Lack::Unanswered { a: 0, b: 5 });
    assert_eq!(lack(&six(Point::Missing)), Lack::NotMeasured { a: 0, b: 5 });
    assert_eq!(lack(&six(Point::Known(0.0))), Lack::Zero { a: 0, b: 5 });
    assert_eq!(lack(&[]), Lack::NoRepeat { a: 6, b: 0 });
    assert_eq!(lack(&[Point::Known(2.0); 4]), Lack::TooFew { a: 6, b: 4, pairs: Some(4) });
    let late: Series = (4..).zip([Point::Known(1.0); 6]).collect();
    let few = Lack::of(&known, &late, true);
    assert!(few.sentence().starts_with("too few pairs of repeats, 3 of 6 and 6"), "{}", few.sentence());
}

#[test]
fn parts_of_a_run_that_differ_are_told() {
    let before = run_of("r", &[("x", &[200, 202, 201, 203, 200]), ("y", &[200, 202, 201, 203, 200]), NULL]);
    let mut after = before.clone();
    after.header.id = "s".into();
    let differences =
        vec![dyno_archive::Difference { what: "kernel".into(), before: "6.1".into(), now: "6.8".into() }];
    after.header.resumptions = vec![fixture::resumption(&after, 2, differences)];
    let seen = compared((&before, None), (&after, None), &Asked::default());
    let names: Vec<&str> = seen.differences.iter().map(|d| &*d.what).collect();
    assert_eq!(names, ["parts of B: kernel"]);
    let seen = compared((&after, Some(0)), (&after, Some(1)), &Asked::default());
    assert_eq!(seen.differences[0].what, "parts of the run: kernel");
}

/// Forty gates over servers that are alike are missed no more often than one of them may be.
#[test]
fn gates_raise_no_more_false_alarms_than_they_say() {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut noise = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
    let run = run_of("r", &[("x", &[200; 5]), ("y", &[200; 5]), NULL]);
    let seen = compared((&run, Some(0)), (&run, Some(1)), &Asked::default());
    let row = throughput(&seen).clone();
    let gates = Gate::parse("throughput<-0.1%").unwrap();
    let mut alarms = 0;
    for _ in 0..1000 {
        let of_noise = |_| {
            let ratios: Vec<f64> = (0..5).map(|_| (0.05 * noise()).exp()).collect();
            Row { estimate: Estimate::of_pairs(&ratios), ..row.clone() }
        };
        let rows: Vec<Row> = (0..40).map(of_noise).collect();
        alarms += usize::from(
            gate::judge(&gates, (&rows, &seen.repeats), Confounding::None, &[])
                .iter()
                .any(|g| g.state == GateState::Missed),
        );
    }
    // Half of all chance differences are of the gate's direction.
    assert!((10..=50).contains(&alarms), "{alarms} of 1000");
}

/// What becomes of a repeat.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Crashed,
    WrongAnswers,
    NoAnswers,
    FailedStart,
    HarnessFailed,
    GeneratorBusy,
    Removed,
}

fn failed_start(launch: usize, kind: dyno_archive::start::FailureKind) -> dyno_archive::StartRecord {
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
    let spoilt: Vec<usize> = (0..run.header.plan.trials.len()).filter(of_arm).take(repeats).collect();
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
            Fate::WrongAnswers => {
                load.intervals[0].outcomes.count(dyno_archive::Outcome::UnexpectedStatus);
            }
            Fate::NoAnswers => lose(load, dyno_archive::Outcome::Timeout),
            _ => {
                let run_ns = load.window_ns.1;
                let thread = dyno_archive::sample::ThreadUse { tid: 1, run_ns, ..Default::default() };
                load.client.threads = vec![thread];
            }
        }
    }
}

const FATES: [(Fate, Cause); 7] = [
    (Fate::Crashed, Cause::ServerFailed),
    (Fate::WrongAnswers, Cause::ServerFailed),
    (Fate::NoAnswers, Cause::Unanswered),
    (Fate::FailedStart, Cause::ServerFailed),
    (Fate::HarnessFailed, Cause::Measurement),
    (Fate::GeneratorBusy, Cause::Measurement),
    (Fate::Removed, Cause::NoRecord),
];

const FOURTEEN: &[u64] = &[200, 202, 201, 203, 200, 201, 202, 200, 203, 201, 202, 200, 201, 203];

fn throughput_gate() -> Asked {
    Asked { gates: Gate::parse("throughput<-20%").unwrap(), ..Asked::default() }
}

/// A repeat that does not count is reported with its cause, and no gate is held on those that
/// remain, whichever side it is of and
/// however the sides are paired.
#[test]
fn gate_with_uncounted_repeats_is_not_held() {
    let whole = run_of("r", &[("x", FOURTEEN), ("y", FOURTEEN), ("null", FOURTEEN)]);
    let held = compared((&whole, Some(0)), (&whole, Some(1)), &throughput_gate());
    assert_eq!((held.gates[0].state, held.outcome()), (GateState::Held, Outcome::Passed));
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
                assert_eq!((spoilt.planned, spoilt.counted, intact.counted), (14, 13, 14), "{fate:?}");
                let [why] = &spoilt.not_counted[..] else { panic!("{spoilt:?}") };
                assert_eq!((why.cause, &why.repeats[..]), (cause, &[1][..]), "{why:?}");
                let name = if is_b { "B" } else { "A" };
                let said = format!("1 of 14 repeats of {name} do not count ({}: 1)", why.reason);
                assert!(cell.sentence.as_ref().unwrap().starts_with(&said), "{cell:?}");
                assert!(seen.gates[0].sentence.contains(&said), "{:?}", seen.gates);
                assert!(seen.answers[0].sentence.ends_with("do not count"), "{:?}", seen.answers);
                assert_eq!(seen.gates[0].state, GateState::Undecided, "{fate:?} {:?}", seen.gates);
                assert_eq!((seen.undecided, seen.passed, seen.outcome()), (1, true, Outcome::Undecided));
                let has_note = seen.notes.iter().any(|note| note.contains("has no record of 1 planned"));
                assert_eq!(has_note, fate == Fate::Removed, "{:?}", seen.notes);
            }
        }
    }
}

/// At most one request in a hundred fails, so that all repeats count.
#[test]
fn requests_that_fail_are_told_and_miss_gates() {
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
        sentence.contains("more repeats of B have failed requests: 14 of 14, of A 0 of 14"),
        "{sentence}"
    );
    let told = format!("14 of {} requests of B failed, in 14 of 14 repeats", b.requests);
    assert!(sentence.contains(&told), "{sentence}");
    // Those that both lose, or that A loses, miss no gate, and are told.
    for arms in [&[0][..], &[0, 1]] {
        let (state, sentence, _) = losing(arms);
        assert_eq!(state, GateState::Held, "{sentence}");
        assert!(sentence.contains("requests of A failed, in 14 of 14 repeats"), "{sentence}");
    }
}

/// Between two runs, the control became twice as fast, and the server did not: it became slower than
/// its machine. Without the records of the control nothing would tell.
#[test]
fn a_control_without_all_its_records_holds_no_gate() {
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
    assert!(seen.gates[0].sentence.contains("2 of 14 repeats of B do not count"), "{:?}", seen.gates);
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
            (|run| run.header.plan.subjects[0].build_failed = Some("cc: error".into())) as fn(&mut Run),
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
        // Of what A lacks nothing is known either.
        let back = compared((&after(change), None), (&before, None), &throughput_gate());
        assert_eq!(back.gates[0].state, GateState::Undecided, "{:?}", back.gates);
    }
}

/// A run that stopped early because its question was answered lacks nothing.
#[test]
fn early_stopped_run_is_complete() {
    let faster: Vec<u64> = FOURTEEN.iter().map(|value| value * 2).collect();
    let mut run = run_of("r", &[("x", FOURTEEN), ("y", &faster), NULL_OF_FOURTEEN]);
    run.header.plan.repeats = 20;
    run.header.plan.stop =
        Some(dyno_archive::plan::Stop { metrics: vec!["throughput_rps".into()], same_within: None });
    let first = run.header.plan.launches.len();
    for block in 14..20 {
        for arm in 0..3 {
            let launch = run.header.plan.launches.len();
            run.header.plan.launches.push(Launch::alone(arm, block));
            run.header.plan.trials.push(Trial { launch, arm, workload: 0, step: 0, seed: 0 });
        }
    }
    assert_eq!(report(&run).run.answered_after, Some(14));
    let seen = compared((&run, Some(0)), (&run, Some(1)), &throughput_gate());
    assert_eq!((seen.repeats[0].b.planned, seen.gates[0].state), (14, GateState::Held), "{seen:?}");
    // Without the stop rule the same archive is of an unfinished run.
    run.header.plan.stop = None;
    let seen = compared((&run, Some(0)), (&run, Some(1)), &throughput_gate());
    assert_eq!((seen.repeats[0].b.without_record(), seen.gates[0].state), (6, GateState::Undecided));
    assert!(
        seen.notes.iter().any(|note| note.contains("no record of 6 planned repeats")),
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
    let asked = Asked { on_undecided: OnUndecided::Pass, ..throughput_gate() };
    assert_eq!(compared((&run, Some(0)), (&run, Some(1)), &asked).outcome(), Outcome::Passed);
    spoil(&mut run, 1, 7, Fate::Crashed);
    assert_eq!(compared((&run, Some(0)), (&run, Some(1)), &asked).outcome(), Outcome::Missed);
}

/// Rows of a server and a control whose values change by so much, in the metrics named.
fn changed_rows(gated: &str, own: f64, control: (&str, f64)) -> (Vec<Row>, Vec<CellRepeats>) {
    let before = run_of("r", &[("x", FOURTEEN), NULL_OF_FOURTEEN]);
    let mut after = before.clone();
    after.header.id = "s".into();
    let Compared { mut rows, repeats, .. } = compared((&before, None), (&after, None), &Asked::default());
    let scaled = |change: f64| {
        let values = [1000.0, 1004.0, 998.0, 1002.0, 996.0, 1001.0];
        let after: Vec<f64> = values.iter().map(|value| value * (1.0 + change)).collect();
        Estimate::of_two(&values, &after)
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

/// What a margin calls the same is a change of the machine all the same.
#[test]
fn margin_does_not_hide_that_the_machine_changed() {
    let server: (&str, &[u64]) = ("x", &[2000, 2010, 2005, 1999, 2001]);
    let before = run_of("r", &[server, ("null", &[9000, 9010, 9005, 9002, 9008])]);
    let after = run_of("s", &[server, ("null", &[9700, 9710, 9705, 9702, 9708])]);
    for same_within in [None, Some(0.1)] {
        let gates = Gate::parse("throughput<-5%").unwrap();
        let seen =
            compared((&before, None), (&after, None), &Asked { gates, same_within, ..Asked::default() });
        assert_eq!(seen.gates[0].state, GateState::Undecided, "{:?}", seen.gates[0]);
        assert!(seen.notes[1].contains("the control null differs as well"), "{:?}", seen.notes);
    }
}

/// Of several controls one that shows that the machine became faster is enough.
#[test]
fn any_control_of_another_step_may_leave_a_gate_undecided() {
    let (mut rows, repeats) = changed_rows("throughput_rps", 0.0, ("throughput_rps", 0.30));
    let control = rows.iter().find(|row| row.control && row.metric == "throughput_rps").unwrap().clone();
    for row in rows.iter_mut().filter(|row| row.control) {
        row.workload = "another".into();
    }
    let values = [1000.0, 1004.0, 998.0, 1002.0, 996.0, 1001.0];
    let slower = Estimate::of_two(&values, &values.map(|value| value * 0.97));
    rows.push(Row { workload: "a third".into(), estimate: slower, ..control });
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
    let asked = || Asked { gates: Gate::parse("throughput<-90%").unwrap(), ..Asked::default() };
    let seen = compared((&both, None), (&one, None), &asked());
    let states: Vec<(&str, GateState)> = seen.gates.iter().map(|g| (&*g.subject_a, g.state)).collect();
    assert_eq!(states, [("x", GateState::Held), ("gone", GateState::Undecided)]);
    assert!(seen.gates[1].sentence.contains("B was not to measure it"), "{:?}", seen.gates[1]);
    assert_eq!(seen.outcome(), Outcome::Undecided);
    assert!(
        seen.notes.iter().any(|note| note.contains("A has servers that B does not have")),
        "{:?}",
        seen.notes
    );
    let turned = compared((&one, None), (&both, None), &asked());
    assert_eq!((turned.gates.len(), turned.outcome()), (1, Outcome::Passed));
    assert!(
        turned.notes.iter().any(|note| note.contains("They are not compared: gone")),
        "{:?}",
        turned.notes
    );
    // Without gates there is nothing to say of it but that.
    let seen = compared((&both, None), (&one, None), &Asked::default());
    assert!(seen.rows.iter().all(|row| row.subject_a != "gone"));
    // So it is with a step.
    let mut other = both.clone();
    other.header.id = "s".into();
    other.header.plan.load.steps[0].connections += 1;
    let seen = compared((&both, None), (&other, None), &asked());
    assert!(seen.gates.len() == 2 && seen.gates.iter().all(|gate| gate.state == GateState::Undecided));
}

/// A repeat that was made up for alone has no turns next to the other's.
#[test]
fn repeats_that_make_no_pair_hold_no_gate() {
    let run = run_of("r", &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
    let Compared { mut rows, repeats, .. } = compared((&run, Some(0)), (&run, Some(1)), &Asked::default());
    let gates = Gate::parse("throughput<-50%").unwrap();
    assert_eq!(gate::judge(&gates, (&rows, &repeats), Confounding::None, &[])[0].state, GateState::Held);
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
            "null changed by +9.0 %, and beyond that it is +142 %",
        ),
        ("cpu_us_per_request>+20%", 0.25, (CPU_KEY, 0.24), Undecided, "beyond that it is +0.8"),
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
        ("cpu_us_per_request>+3%", 0.0, (CPU_KEY, 0.09), Held, "+0 %"),
        // On a machine that became faster a server that did not has become slower.
        ("cpu_us_per_request>+3%", 0.0, (CPU_KEY, -0.09), Undecided, "beyond that it is +9.9 %"),
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
