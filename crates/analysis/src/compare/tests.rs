use dyno_model::StartRecord;
use dyno_model::plan::{Arrivals, Backend, Gaps, Launch, Segment, Step, Subject, Trial};

use super::order::Confounding;
use super::*;
use crate::fixture::{self, trial_record};
use crate::number_format::percent;
use crate::report::report;
use crate::series::{RepeatValue, Series};

mod differences;
mod failures;
mod gates;
mod limited;
mod repetitions;
mod skewed;

/// A run of servers, each with its responses per second, repeat by repeat; the last one is a
/// control.
fn run_with_servers(id: &str, servers: &[(&str, &[u64])]) -> Run {
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
    plan.launches = each.clone().map(|(block, arm)| Launch::with_arm(arm, block)).collect();
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

fn compare_runs(
    a: (&Run, Option<usize>),
    b: (&Run, Option<usize>),
    options: &ComparisonOptions,
) -> ComparisonResult {
    let (report_a, report_b) = (report(a.0), report(b.0));
    compare(
        Side { run: a.0, results: report_a.results(), arm: a.1 },
        Side { run: b.0, results: report_b.results(), arm: b.1 },
        options,
    )
}

fn throughput(comparison: &ComparisonResult) -> &ComparisonRow {
    comparison.rows.iter().find(|row| row.metric == "throughput_rps" && !row.control).unwrap()
}

/// Two pulses with the same ends: a suite with only the second numbers it as the first pass.
#[test]
fn passes_of_other_suite_have_counterparts() {
    let pulse = |peak: f64, pass: u32| {
        let segment = |rate: f64| Segment { from_rate: rate, to_rate: rate, duration_ns: 1 };
        let segments = [1000.0, peak, 1000.0].map(segment).to_vec();
        let arrivals = Arrivals::Shaped { segments, gaps: Gaps::Even };
        Step { pass, ..fixture::step(arrivals) }
    };
    let run_with_steps = |steps: Vec<Step>| {
        let mut run = run_with_servers("r", &[("x", &[200, 201]), NULL]);
        run.header.plan.load.steps = steps;
        run
    };
    let both = run_with_steps(vec![pulse(5000.0, 1), pulse(9000.0, 2), pulse(5000.0, 3)]);
    let second = run_with_steps(vec![pulse(9000.0, 1)]);
    let (report_both, report_second) = (report(&both), report(&second));
    let a = Side { run: &both, results: report_both.results(), arm: None };
    let b = Side { run: &second, results: report_second.results(), arm: None };
    let key = |step| CellKey { arm: 0, workload: 0, step };
    assert_eq!(
        [0, 1, 2].map(|step| counterpart(a, key(step), a, 0)),
        [0, 1, 2].map(|n| Some(key(n)))
    );
    assert_eq!([0, 1, 2].map(|step| counterpart(a, key(step), b, 0)), [None, Some(key(0)), None]);
}

#[test]
fn subjects_of_one_run_are_compared_in_pairs() {
    // The machine is slower in the middle blocks, which affects both subjects.
    let run = run_with_servers(
        "r",
        &[("x", &[200, 202, 101, 103, 200]), ("y", &[210, 213, 106, 107, 211]), NULL],
    );
    let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &ComparisonOptions::default());
    assert!(comparison.paired && comparison.notes.is_empty() && comparison.differences.is_empty());
    let row = throughput(&comparison);
    assert_eq!((&*row.subject_a, &*row.subject_b, row.verdict), ("x", "y", Verdict::Higher));
    let estimate = row.estimate.unwrap();
    assert!((estimate.ratio - 1.05).abs() < 0.005 && estimate.low > 1.03, "{estimate:?}");
    assert_eq!(row.sentence, "4.1–5.8 % higher");
    let [answer] = comparison.answers.as_slice() else { panic!("{:?}", comparison.answers) };
    assert!(answer.sentence.starts_with("4.1–5.8 % more throughput; "), "{}", answer.sentence);
    assert!(
        answer.sentence.contains("; median response time: no difference shown"),
        "{}",
        answer.sentence
    );
    let slower =
        Estimate { ratio: 1.1, low: 1.08, high: 1.12, ..Estimate::from_pairs(&[1.1; 5]).unwrap() };
    let times = comparison.rows.iter().filter(|row| row.metric == "response_p50_us");
    let answer = |verdict, estimate| {
        let rows: Vec<ComparisonRow> =
            times.clone().map(|row| ComparisonRow { verdict, estimate, ..row.clone() }).collect();
        verdict::answer(&rows, Some(0.02), &[])
    };
    assert_eq!(answer(Verdict::Higher, Some(slower)), "median response time 8.0–12 % longer");
    let faster = Estimate { ratio: 0.9, low: 0.88, high: 0.92, ..slower };
    assert_eq!(answer(Verdict::Lower, Some(faster)), "median response time 8.0–12 % shorter");
    assert_eq!(answer(Verdict::Same, Some(slower)), "median response time the same within 2 %");
    let missing =
        comparison.rows.iter().find(|row| row.metric == "server_cpu_us_per_request").unwrap();
    assert_eq!(missing.verdict, Verdict::Missing);
}

#[test]
fn drift_between_two_runs_is_reported() {
    let before = run_with_servers("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let after = run_with_servers("s", &[("x", &[190, 192, 191, 193, 190]), NULL]);
    let compare_pair =
        |a: &Run, b: &Run| compare_runs((a, None), (b, None), &ComparisonOptions::default());
    let comparison = compare_pair(&before, &after);
    assert!(
        !comparison.paired
            && comparison.notes.len() == 1
            && comparison.notes[0].contains("different times"),
        "{:?}",
        comparison.notes
    );
    assert_eq!(throughput(&comparison).verdict, Verdict::Lower);
    assert!(comparison.rows.iter().any(|row| row.control));
    // The control got slower, too.
    let slower = run_with_servers(
        "s",
        &[("x", &[190, 192, 191, 193, 190]), ("null", &[850, 855, 857, 851, 852])],
    );
    let comparison = compare_pair(&before, &slower);
    let expected = "The machine changed between the runs: the control null is the same program in \
                    both runs, but its results differ (Throughput: ";
    assert!(comparison.notes[1].starts_with(expected), "{:?}", comparison.notes);
    // The gate is not missed, because the machine may have changed.
    let options = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let gate =
        |a: &Run, b: &Run| compare_runs((a, None), (b, None), &options).gates.remove(0).state;
    assert_eq!(gate(&before, &after), GateState::Missed);
    assert_eq!(gate(&before, &slower), GateState::Undecided);
}

#[test]
fn undetected_difference_states_detectable_size() {
    let noisy = run_with_servers(
        "r",
        &[("x", &[200, 180, 220, 190, 210]), ("y", &[195, 215, 185, 212, 200]), NULL],
    );
    let row = throughput(&compare_runs(
        (&noisy, Some(0)),
        (&noisy, Some(1)),
        &ComparisonOptions::default(),
    ))
    .clone();
    assert_eq!(row.verdict, Verdict::NotShown);
    let would = percent(row.estimate.unwrap().detectable.unwrap() - 1.0);
    assert_eq!(
        row.sentence,
        format!("no difference shown: a difference of {would} would have been found")
    );
    let same = run_with_servers(
        "r",
        &[("x", &[2000, 2010, 2005, 1999, 2001]), ("y", &[2001, 2012, 2003, 2000, 2002]), NULL],
    );
    let options = ComparisonOptions { same_within: Some(0.02), ..ComparisonOptions::default() };
    let row = throughput(&compare_runs((&same, Some(0)), (&same, Some(1)), &options)).clone();
    assert_eq!((row.verdict, &*row.sentence), (Verdict::Same, "the same within 2 %"));
    let few =
        run_with_servers("r", &[("x", &[200, 202]), ("y", &[300, 302]), ("null", &[900, 900])]);
    let row =
        throughput(&compare_runs((&few, Some(0)), (&few, Some(1)), &ComparisonOptions::default()))
            .clone();
    assert_eq!((row.verdict, row.estimate), (Verdict::TooFew, None));
    assert_eq!(row.sentence, "too few repeats (2 and 2): a verdict needs 5 of each side");
}

#[test]
fn gate_is_missed_only_by_significant_change() {
    let options = |gate: &str| ComparisonOptions {
        gates: Gate::parse(gate).unwrap(),
        ..ComparisonOptions::default()
    };
    let steady: &[u64] = &[2000, 2010, 2005, 1999, 2001];
    let worse: &[u64] = &[1900, 1912, 1903, 1900, 1902];
    let noisy: &[u64] = &[1500, 2400, 1700, 2200, 1600];
    for (servers, gate, expected) in [
        ((steady, worse), "throughput<-2%", GateState::Missed),
        ((steady, worse), "throughput<-10%", GateState::Held),
        ((steady, steady), "throughput<-2%", GateState::Held),
        ((worse, steady), "throughput<-2%", GateState::Held),
        ((steady, noisy), "throughput<-2%", GateState::Undecided),
        ((noisy, noisy), "throughput<-2%", GateState::Held),
        ((steady, worse), "memory>+1%", GateState::Undecided),
    ] {
        let run = run_with_servers("r", &[("x", servers.0), ("y", servers.1), NULL]);
        let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &options(gate));
        let [result] = comparison.gates.as_slice() else { panic!("{:?}", comparison.gates) };
        assert_eq!(result.state, expected, "{gate}: {result:?}");
        assert_eq!(comparison.passed, expected != GateState::Missed);
    }
}

#[test]
fn gate_parse_accepts_valid_text_and_rejects_invalid() {
    let gates = Gate::parse("cpu_us_per_request>+3%, p99>+10% ,throughput<-2.5%").unwrap();
    let texts: Vec<String> = gates.iter().map(Gate::text).collect();
    assert_eq!(
        texts,
        ["server_cpu_us_per_request>+3%", "response_p99_us>+10%", "throughput_rps<-2.5%"]
    );
    for (text, wanted) in [
        ("p99", "not a gate"),
        ("p99>10", "not a gate"),
        ("p99>-10%", "`>` needs a positive percentage"),
        ("p99>0%", "`>` needs a positive percentage"),
        (
            "p99<-10%",
            "would reject an improvement, because a lower p99 is better\nhint: write `p99>+10%`",
        ),
        ("throughput>+5%", "would reject an improvement, because a higher throughput is better"),
        ("throughput<-100%", "can never fail"),
        ("p99>+0.00000000000001%", "use at least 0.001 %"),
        ("throughput<-1e-15%", "use at least 0.001 %"),
        ("pages>+5%", "\"pages\": not a metric that can be compared"),
        ("error_share>+5%", "not a metric that can be compared"),
        ("", "not a gate"),
    ] {
        let error = Gate::parse(text).unwrap_err();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn control_is_compared_next_to_named_sides() {
    let before = run_with_servers("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let slower = run_with_servers(
        "s",
        &[("x", &[190, 192, 191, 193, 190]), ("null", &[850, 855, 857, 851, 852])],
    );
    let options = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let comparison = compare_runs((&before, Some(0)), (&slower, Some(0)), &options);
    assert!(comparison.rows.iter().any(|row| row.control), "{:?}", comparison.rows);
    assert!(
        comparison.notes[1].contains("the control null is the same program"),
        "{:?}",
        comparison.notes
    );
    assert_eq!(comparison.gates[0].state, GateState::Undecided);
    // If the compared arms include a control, another control is not one.
    let comparison = compare_runs((&before, Some(1)), (&slower, Some(0)), &options);
    let rows: Vec<(&str, &str, bool)> =
        comparison.rows.iter().map(|row| (&*row.subject_a, &*row.subject_b, row.control)).collect();
    assert!(
        rows.contains(&("null", "x", false)) && rows.contains(&("null", "null", true)),
        "{rows:?}"
    );
    assert_eq!(comparison.gates.len(), 1);
    // A control that is named as a side is a compared arm.
    let comparison = compare_runs((&before, Some(1)), (&slower, Some(1)), &options);
    assert!(
        comparison.rows.iter().all(|row| !row.control)
            && comparison.gates[0].state == GateState::Missed
    );
    // A small difference of a control may be chance, and does not show a change of the machine.
    let near = run_with_servers(
        "s",
        &[("x", &[120, 122, 121, 123, 120]), ("null", &[904, 914, 909, 906, 912])],
    );
    let options = ComparisonOptions { same_within: Some(0.02), ..options };
    let comparison = compare_runs((&before, None), (&near, None), &options);
    assert_eq!(
        (comparison.notes.len(), comparison.gates[0].state),
        (1, GateState::Missed),
        "{:?}",
        comparison.notes
    );
}

#[test]
fn broken_server_misses_gate() {
    let before = run_with_servers("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let options = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let gate = |b: &Run| {
        let comparison = compare_runs((&before, None), (b, None), &options);
        let row = comparison
            .rows
            .iter()
            .find(|row| row.metric == "throughput_rps" && !row.control)
            .cloned();
        (comparison.gates.first().map(|gate| gate.state), row)
    };
    let mut wrong = run_with_servers("s", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    for trial in wrong.trials.iter_mut().step_by(2) {
        let [interval, ..] = trial.load.intervals.as_mut_slice() else { panic!("no interval") };
        interval.outcomes.count(dyno_model::Outcome::UnexpectedStatus);
    }
    let (state, row) = gate(&wrong);
    let row = row.unwrap();
    assert_eq!(
        (state, row.b_broke, row.no_ratio_reason),
        (Some(GateState::Missed), true, Some(NoRatioReason::NoRepeat { a: 5, b: 0 }))
    );
    assert_eq!(row.sentence, "not compared: B has no valid repeat");
    // Missing trials without a known fault of the server do not miss the gate.
    let mut none = run_with_servers("s", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    none.trials.retain(|trial| trial.trial % 2 == 1);
    let (state, row) = gate(&none);
    assert_eq!((state, row.unwrap().b_broke), (Some(GateState::Undecided), false));
}

/// A stall of the machine can lose requests, too. Lost requests therefore need a significance test,
/// unlike incorrect responses.
#[test]
fn lost_requests_miss_gate_only_if_significant() {
    let steady: &[u64] = &[200, 202, 201, 203, 200];
    let before = run_with_servers("r", &[("x", steady), NULL]);
    let lossy = |repeats: usize, slow: bool| {
        let control: &[u64] = if slow { &[850, 855, 857, 851, 852] } else { NULL.1 };
        let mut run = run_with_servers("s", &[("x", steady), ("null", control)]);
        for trial in run.trials.iter_mut().step_by(2).take(repeats) {
            let load = &mut trial.load;
            load.books.failed += 50;
            load.books.started += 50;
            let [interval, ..] = load.intervals.as_mut_slice() else { panic!("no interval") };
            (0..50).for_each(|_| interval.outcomes.count(dyno_model::Outcome::Timeout));
        }
        run
    };
    let options = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let gate = |b: &Run| compare_runs((&before, None), (b, None), &options).gates.remove(0);
    let result = gate(&lossy(5, false));
    assert_eq!(result.state, GateState::Missed, "{result:?}");
    // One of the 252 divisions of ten repeats, doubled for both directions: p = 2/252. The test has
    // four fifths of the level, because the starts are tested as well. The ratio is not, because
    // only one pair of repeats is left.
    assert!(result.sentence.contains("(significant: p 0.010, Fisher's exact test)"), "{result:?}");
    assert_eq!(gate(&lossy(3, false)).state, GateState::Undecided, "three of five may be chance");
    assert_eq!(
        gate(&lossy(5, true)).state,
        GateState::Missed,
        "a slower machine loses no requests"
    );
}

#[test]
fn server_with_mostly_failed_starts_misses_gate() {
    let before = run_with_servers("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let mut after = before.clone();
    after.header.id = "s".into();
    // The server crashed at start-up in four blocks, so their trials are missing.
    after.trials.retain(|trial| trial.trial % 2 == 1 || trial.trial == 0);
    let failed = |launch: usize| dyno_model::StartRecord {
        start: launch,
        launch,
        failure: Some(dyno_model::start::Failure {
            kind: dyno_model::start::FailureKind::Crashed,
            message: "it ended".into(),
        }),
        ..dyno_model::StartRecord::default()
    };
    after.starts = [2, 4, 6, 8].map(failed).to_vec();
    let options = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let gate = compare_runs((&before, None), (&after, None), &options).gates.remove(0);
    assert_eq!(gate.state, GateState::Missed, "{gate:?}");
}

#[test]
fn few_pairs_with_stop_rule_detect_no_difference() {
    let mut run = run_with_servers(
        "r",
        &[("x", &[200, 180, 220, 190, 210]), ("y", &[195, 215, 185, 212, 200]), NULL],
    );
    run.header.plan.stop = Some(dyno_model::plan::StopRule {
        metrics: vec!["throughput_rps".into()],
        same_within: None,
    });
    let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &ComparisonOptions::default());
    let row = throughput(&comparison);
    assert_eq!(row.estimate.unwrap().detectable, None);
    assert_eq!(row.sentence, "no difference shown: too few repeats to find a difference");
}

#[test]
fn missing_ratio_is_reported_with_its_reason() {
    let series = |points: &[RepeatValue]| -> Series { (1..).zip(points.iter().copied()).collect() };
    let known = series(&[RepeatValue::Known(1.0); 6]);
    let no_ratio_reason = |b: &[RepeatValue]| NoRatioReason::from_series(&known, &series(b), true);
    let six = |last: RepeatValue| [RepeatValue::Known(1.0), last, last, last, last, last];
    assert_eq!(
        no_ratio_reason(&six(RepeatValue::Unanswered)),
        NoRatioReason::Unanswered { a: 0, b: 5 }
    );
    assert_eq!(
        no_ratio_reason(&six(RepeatValue::Missing)),
        NoRatioReason::NotMeasured { a: 0, b: 5 }
    );
    assert_eq!(no_ratio_reason(&six(RepeatValue::Known(0.0))), NoRatioReason::Zero { a: 0, b: 5 });
    assert_eq!(no_ratio_reason(&[]), NoRatioReason::NoRepeat { a: 6, b: 0 });
    assert_eq!(
        no_ratio_reason(&[RepeatValue::Known(2.0); 4]),
        NoRatioReason::TooFew { a: 6, b: 4, pairs: Some(4) }
    );
    let late: Series = (4..).zip([RepeatValue::Known(1.0); 6]).collect();
    let few = NoRatioReason::from_series(&known, &late, true);
    assert!(
        few.sentence().starts_with("too few pairs of repeats (only 3 pairs in 6 and 6 repeats)"),
        "{}",
        few.sentence()
    );
}

/// Forty gates over identical servers are missed in at most 5 % of all comparisons.
#[test]
fn forty_gates_keep_false_alarm_rate() {
    let mut state = 1u64;
    let mut uniform = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut noise = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
    let run = run_with_servers("r", &[("x", &[200; 5]), ("y", &[200; 5]), NULL]);
    let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &ComparisonOptions::default());
    let row = throughput(&comparison).clone();
    let gates = Gate::parse("throughput<-0.1%").unwrap();
    let mut alarms = 0;
    for _ in 0..1000 {
        let noise_row = |_| {
            let ratios: Vec<f64> = (0..5).map(|_| (0.05 * noise()).exp()).collect();
            ComparisonRow { estimate: Estimate::from_pairs(&ratios), ..row.clone() }
        };
        let rows: Vec<ComparisonRow> = (0..40).map(noise_row).collect();
        alarms += usize::from(
            gate::decide(&gates, (&rows, &comparison.repeats, &[]), Confounding::None, &[])
                .iter()
                .any(|g| g.state == GateState::Missed),
        );
    }
    // Half of all chance differences have the gate's direction, so about 2.5 % are expected.
    assert!((10..=50).contains(&alarms), "{alarms} of 1000");
}

/// A warm-up exists so that the first requests to a cold server are not measured. Its failures miss
/// no gate, and are reported.
#[test]
fn warmup_failures_are_noted_and_miss_no_gate() {
    use dyno_model::start::WarmUpEnd;
    let before = run_with_servers("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let warmed = |workload: usize| {
        let mut run = before.clone();
        run.header.id = "s".into();
        // The server is the first arm of two.
        let start = |launch: usize| {
            let mut start = fixture::warm_up(WarmUpEnd::Steady, 0, None);
            (start.start, start.launch) = (launch, launch);
            let warmup = start.parts[0].warmup.as_mut().unwrap();
            warmup.failures = [(workload, 491)].into();
            start
        };
        run.starts = [0, 2, 4, 6].map(start).to_vec();
        // In the last start, a request of a step's own warm-up failed.
        let last = &mut run.trials[8].load.intervals[0];
        last.carried.count(dyno_model::Outcome::UnexpectedStatus);
        run
    };
    let options = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let comparison = compare_runs((&before, None), (&warmed(0), None), &options);
    assert_eq!(comparison.gates[0].state, GateState::Held, "{:?}", comparison.gates);
    let expected = "x: warm-up requests failed in 0 of 5 starts of A and in 5 of 5 starts of B \
                    (1965 requests). Gates ignore these failures.";
    let is_noted = |note: &String| note.starts_with(expected);
    assert!(comparison.notes.iter().any(is_noted), "{:?}", comparison.notes);
    let starts = &comparison.starts[0];
    assert_eq!((starts.b.with_failures, starts.b.with_warmup_failures), (0, 5));
    let same = compare_runs((&before, None), (&before, None), &options);
    assert!(!same.notes.iter().any(|note| note.contains("warm-up")), "{:?}", same.notes);
}
