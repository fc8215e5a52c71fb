//! Tests repeats that are included or known for only some metrics, and waived checks.

use dyno_model::sample::{CgroupUse, Party, PartyUse, Sample};
use dyno_model::trial::CheckResult;

use super::failures::fail_requests;
use super::gates::{FOURTEEN, NULL_OF_FOURTEEN, RepeatOutcome, changed_rows, spoil};
use super::*;
use crate::caveat::{Caveat, Code, Severity};
use crate::trial::TrialResult;

/// The generator limits the number of requests, not the server's CPU time for each of them.
#[test]
fn limited_repeats_are_used_for_cpu_time_only() {
    let mut run = run_with_servers("r", &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
    run.trials.iter_mut().for_each(|trial| {
        trial.load.samples = fixture::record_with_threads(&[(100, 0)]).samples;
    });
    spoil(&mut run, 1, 2, RepeatOutcome::GeneratorBusy);
    let options = ComparisonOptions {
        gates: Gate::parse("cpu_us_per_request>+50%,throughput<-50%").unwrap(),
        ..ComparisonOptions::default()
    };
    let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &options);
    let states: Vec<GateState> = comparison.gates.iter().map(|gate| gate.state).collect();
    assert_eq!(states, [GateState::Held, GateState::Undecided], "{:?}", comparison.gates);
    let counts = |key| {
        let row = comparison.rows.iter().find(|row| row.metric == key).unwrap();
        (row.a.values.len(), row.b.values.len(), row.pairs.len())
    };
    assert_eq!(counts("server_cpu_us_per_request"), (14, 14, 14));
    assert_eq!(counts("throughput_rps"), (14, 12, 12));
    let sentence = comparison.repeats[0].sentence.as_deref().unwrap();
    let expected = "2 of 14 repeats of B are excluded (the generator was the limit: 2), but \
                    used for CPU time per request";
    assert_eq!(sentence, expected);
    // A repeat is also excluded if other programs used the generator's CPUs.
    let mut disturbed = report(&run);
    let invalid = disturbed.trials.iter_mut().filter(|trial| !trial.valid);
    invalid.for_each(|trial| trial.limiter.resource = crate::verdict::Resource::OtherPrograms);
    let side = |arm| Side { run: &run, results: disturbed.results(), arm: Some(arm) };
    let comparison = compare(side(0), side(1), &options);
    assert!(comparison.gates.iter().all(|gate| gate.state == GateState::Undecided));
    // A repeat that is excluded for another reason is in no metric.
    spoil(&mut run, 1, 1, RepeatOutcome::IncorrectResponses);
    let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &options);
    assert_eq!(comparison.repeats[0].b.limited, 1);
    let sentence = comparison.repeats[0].sentence.as_deref().unwrap();
    assert!(sentence.contains("), but 1 of these is used for CPU time per request"), "{sentence}");
    assert!(comparison.gates.iter().all(|gate| gate.state != GateState::Held));
}

/// The generator limits all repeats, and a server fails two requests of each. CPU time includes
/// these repeats, so its gate includes their failed requests.
#[test]
fn failed_requests_of_limited_repeats_miss_cpu_gate() {
    let mut run = run_with_servers("r", &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
    let arms: Vec<usize> = run.header.plan.trials.iter().map(|trial| trial.arm).collect();
    for trial in &mut run.trials {
        let load = &mut trial.load;
        load.samples = fixture::record_with_threads(&[(100, 0)]).samples;
        if arms[trial.trial] == 1 {
            load.books.failed += 2;
            load.books.started += 2;
            load.books.scheduled += 2;
            (0..2).for_each(|_| load.intervals[0].outcomes.count(dyno_model::Outcome::Reset));
        }
    }
    spoil(&mut run, 0, 14, RepeatOutcome::GeneratorBusy);
    spoil(&mut run, 1, 14, RepeatOutcome::GeneratorBusy);
    let options = ComparisonOptions {
        gates: Gate::parse("cpu_us_per_request>+50%").unwrap(),
        ..ComparisonOptions::default()
    };
    let comparison = compare_runs((&run, Some(0)), (&run, Some(1)), &options);
    let GateResult { state, sentence, .. } = &comparison.gates[0];
    assert_eq!(*state, GateState::Missed, "{sentence}");
    assert!(sentence.contains("in 14 of 14 repeats, compared with 0 of "), "{sentence}");
    let starts = &comparison.starts[0];
    assert_eq!((starts.a.with_failures, starts.b.with_failures), (0, 14));
}

/// A resumed run keeps steps without a final check in which requests failed.
#[test]
fn failed_requests_of_unchecked_repeats_miss_gate() {
    let mut run = run_with_servers("r", &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
    let is_unchecked = |trial: &TrialResult| trial.cell.arm == 1 && trial.block > 7;
    fail_requests(&mut run, 1, |repeat| u64::from(repeat >= 7));
    let mut report = report(&run);
    for trial in report.trials.iter_mut().filter(|trial| is_unchecked(trial)) {
        add_caveat(trial, Code::UNCHECKED, Severity::Invalid);
    }
    let options = ComparisonOptions {
        gates: Gate::parse("throughput<-50%").unwrap(),
        ..ComparisonOptions::default()
    };
    let side = |arm| Side { run: &run, results: report.results(), arm: Some(arm) };
    let comparison = compare(side(0), side(1), &options);
    let b = &comparison.repeats[0].b;
    assert_eq!((b.counted, b.unchecked, b.with_failures), (7, 7, 7));
    assert_eq!(comparison.starts[0].b.with_failures, 7);
    let GateResult { state, sentence, .. } = &comparison.gates[0];
    assert_eq!(*state, GateState::Missed, "{sentence}");
    assert!(sentence.contains("in 7 of 14 repeats"), "{sentence}");
}

/// Five or fewer requests in a thousand find no local port, or are lost while the table of tracked
/// connections is full. The server did not fail them.
#[test]
fn losses_outside_of_server_miss_no_gate() {
    let gate_after = |outcome: dyno_model::Outcome, has_evictions: bool| {
        let mut run = run_with_servers("r", &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
        let arms: Vec<usize> = run.header.plan.trials.iter().map(|trial| trial.arm).collect();
        for trial in run.trials.iter_mut().filter(|trial| arms[trial.trial] == 1) {
            let load = &mut trial.load;
            load.books.failed += 1;
            load.books.started += 1;
            load.books.scheduled += 1;
            load.intervals[0].outcomes.count(outcome);
        }
        let mut report = report(&run);
        for trial in report.trials.iter_mut().filter(|t| has_evictions && t.cell.arm == 1) {
            trial.caveats.push(crate::caveat::Caveat::new(
                crate::Code::DROPPED_PACKETS,
                crate::caveat::Severity::Warning,
                "evicted".into(),
                serde_json::json!({}),
            ));
        }
        let options = ComparisonOptions {
            gates: Gate::parse("throughput<-20%").unwrap(),
            ..ComparisonOptions::default()
        };
        let side = |arm| Side { run: &run, results: report.results(), arm: Some(arm) };
        let comparison = compare(side(0), side(1), &options);
        let b = &comparison.repeats[0].b;
        assert_eq!(comparison.starts[0].b.with_failures, b.with_failures);
        let counts = (b.with_failures, b.with_doubtful_failures);
        (comparison.gates[0].state, counts, comparison.gates[0].sentence.clone())
    };
    use dyno_model::Outcome::{AddressExhausted, Timeout};
    let (state, counts, sentence) = gate_after(Timeout, false);
    assert_eq!((state, counts), (GateState::Missed, (14, 0)), "{sentence}");
    let (state, counts, sentence) = gate_after(AddressExhausted, false);
    assert_eq!((state, counts), (GateState::Held, (0, 0)), "{sentence}");
    let (state, counts, sentence) = gate_after(Timeout, true);
    assert_eq!((state, counts), (GateState::Undecided, (0, 14)), "{sentence}");
    let expected = "in 14 of 14 repeats, requests of B failed and the machine may have dropped";
    assert!(sentence.contains(expected), "{sentence}");
}

fn add_caveat(trial: &mut TrialResult, code: Code, severity: Severity) {
    trial.valid &= severity != Severity::Invalid;
    trial.caveats.push(Caveat::new(code, severity, String::new(), serde_json::json!({})));
}

/// A request of each start of both servers failed, and the cause is unknown for A.
#[test]
fn unknown_failures_of_a_leave_gate_undecided() {
    let mut run = run_with_servers("r", &[("x", FOURTEEN), ("y", FOURTEEN), NULL_OF_FOURTEEN]);
    fail_requests(&mut run, 0, |_| 1);
    fail_requests(&mut run, 1, |_| 1);
    for (code, severity) in
        [(Code::DROPPED_PACKETS, Severity::Warning), (Code::STILL_WARMING, Severity::Invalid)]
    {
        let mut report = report(&run);
        let trials = report.trials.iter_mut().filter(|trial| trial.cell.arm == 0);
        trials.for_each(|trial| add_caveat(trial, code, severity));
        let options = ComparisonOptions {
            gates: Gate::parse("throughput<-20%").unwrap(),
            ..ComparisonOptions::default()
        };
        let side = |arm| Side { run: &run, results: report.results(), arm: Some(arm) };
        let comparison = compare(side(0), side(1), &options);
        let GateResult { state, sentence, .. } = &comparison.gates[0];
        assert_eq!(*state, GateState::Undecided, "{code}: {sentence}");
        let ServerStarts { a, b, p_failed, .. } = &comparison.starts[0];
        assert_eq!((a.with_failures, a.with_doubtful_failures, b.with_failures), (0, 14, 14));
        assert_eq!(*p_failed, Some(1.0), "{code}");
    }
}

/// Returns the test of the starts of the arms 0 and 1, after a change of the trials' results.
/// Returned: failed and all starts of A, those of B, and whether the two are separated, or would
/// perhaps be without doubt.
fn start_test(
    run: &Run,
    change: impl Fn(&mut Vec<TrialResult>),
) -> ((usize, usize), (usize, usize), [bool; 2]) {
    let mut report = report(run);
    change(&mut report.trials);
    let side = |arm| Side { run, results: report.results(), arm: Some(arm) };
    let starts = [ServerStarts::new((side(0), 0), (side(1), 1))];
    let test = starts::tests(&starts)[0];
    let (a, b) = test.failures;
    ((a.failed, a.all), (b.failed, b.all), [test.is_separated(), test.is_in_doubt()])
}

/// Every start of B has a failed request. In the first start of A, the machine may have dropped the
/// packets of a failed request.
#[test]
fn doubtful_start_of_a_hides_no_failures_of_b() {
    let six: &[u64] = &[400; 6];
    let mut run = run_with_servers("r", &[("x", six), ("y", six), ("null", six)]);
    fail_requests(&mut run, 1, |_| 1);
    fail_requests(&mut run, 0, |repeat| u64::from(repeat == 0));
    assert_eq!(start_test(&run, |_| ()), ((1, 6), (6, 6), [false, false]));
    let doubt_a = |trials: &mut Vec<TrialResult>| {
        let of_a = trials.iter_mut().filter(|trial| trial.cell.arm == 0);
        of_a.for_each(|trial| add_caveat(trial, Code::DROPPED_PACKETS, Severity::Warning));
    };
    assert_eq!(start_test(&run, doubt_a), ((1, 6), (6, 6), [false, true]));
}

/// Every start of B has a failed request, and it is unknown whether the server failed it in the
/// first start.
#[test]
fn unknown_start_of_b_is_in_no_test() {
    let six: &[u64] = &[400; 6];
    let mut run = run_with_servers("r", &[("x", six), ("y", six), ("null", six)]);
    fail_requests(&mut run, 1, |_| 1);
    assert_eq!(start_test(&run, |_| ()), ((0, 6), (6, 6), [true, false]));
    let stop_first = |trials: &mut Vec<TrialResult>| {
        let is_first = |trial: &&mut TrialResult| trial.cell.arm == 1 && trial.block == 1;
        let first = trials.iter_mut().find(is_first).unwrap();
        add_caveat(first, Code::GENERATOR_STOPPED, Severity::Invalid);
    };
    assert_eq!(start_test(&run, stop_first), ((0, 6), (5, 5), [true, false]));
}

/// The server fails no request in one step of a start. In another step, the machine may have
/// dropped the packets of a failed request.
#[test]
fn start_with_unknown_step_favors_b() {
    let run = |arm: usize| {
        let mut run = run_with_servers("r", &[("x", &[400; 5]), ("y", &[400; 5]), NULL]);
        fail_requests(&mut run, 1 - arm, |_| 1);
        run
    };
    let add_step = |arm: usize| {
        move |trials: &mut Vec<TrialResult>| {
            let is_of_arm = |trial: &&TrialResult| trial.cell.arm == arm;
            let mut others: Vec<TrialResult> = trials.iter().filter(is_of_arm).cloned().collect();
            for trial in &mut others {
                trial.load.exchanges.failed += 1;
                add_caveat(trial, Code::DROPPED_PACKETS, Severity::Warning);
            }
            trials.extend(others);
        }
    };
    assert_eq!(start_test(&run(0), add_step(0)), ((5, 5), (5, 5), [false, true]));
    assert_eq!(start_test(&run(1), add_step(1)), ((5, 5), (0, 5), [false, false]));
}

/// In three of five repeats p99 is unknown, because they stalled. The other two are no sample of
/// the server.
#[test]
fn metric_missing_in_some_repeats_has_no_medians() {
    let run = run_with_servers("r", &[("x", &[400; 5]), ("y", &[400; 5]), NULL]);
    let mut changed = report(&run);
    for trial in &mut changed.trials {
        trial.load.response_time_us.p99 =
            (trial.cell.arm == 0 || trial.block > 3).then_some(2_000.0);
    }
    let side = |arm| Side { run: &run, results: changed.results(), arm: Some(arm) };
    let comparison = compare(side(0), side(1), &ComparisonOptions::default());
    let row = comparison.rows.iter().find(|row| row.metric == "response_p99_us").unwrap();
    assert_eq!((row.a.values.len(), row.a.median), (5, Some(2_000.0)));
    assert_eq!((row.b.values.len(), row.b.median, row.b.min), (2, None, None));
    assert_eq!((row.ratio_of_medians, row.verdict), (None, Verdict::Missing));
    let answer = &comparison.answers[0].sentence;
    assert!(answer.contains("response time at p99: not compared"), "{answer}");
}

/// A waived check leaves repeats valid, so only a note shows that one side breaks its contract.
#[test]
fn waived_check_of_either_side_has_note() {
    let mut run = run_with_servers("r", &[("x", &[400; 5]), ("y", &[400; 5]), NULL]);
    let mut notes_of = |broken: &[usize], is_waived: bool| {
        let arms: Vec<usize> = run.header.plan.trials.iter().map(|trial| trial.arm).collect();
        for trial in &mut run.trials {
            let failed = CheckResult { waived: is_waived, ..fixture::check("size", false, "5") };
            let is_broken = broken.contains(&arms[trial.trial]);
            trial.checks = if is_broken { vec![failed] } else { Vec::new() };
        }
        let notes = compare_runs((&run, Some(0)), (&run, Some(1)), &ComparisonOptions::default());
        notes
            .notes
            .into_iter()
            .filter(|note| note.contains("allows this failure"))
            .collect::<Vec<String>>()
    };
    let rest = "the check \"size\" for correct responses. The subject file of the server allows \
                this failure (`waive`).";
    assert_eq!(
        notes_of(&[1], true),
        [format!(
            "x and y: B, but not A, fails {rest} A and B may have done different work, so their \
             numbers may not be comparable."
        )]
    );
    assert_eq!(
        notes_of(&[0, 1], true),
        [format!(
            "x and y: A and B fail {rest} The numbers of both sides are for a server with this \
             defect."
        )]
    );
    assert!(notes_of(&[], true).is_empty() && notes_of(&[1], false).is_empty());
}

/// All repeats are valid, and the control's CPU time is unknown in one repeat.
#[test]
fn control_with_unknown_value_leaves_gate_undecided() {
    let run = |id: &str, known: Option<u64>| {
        let mut run = run_with_servers(id, &[("x", FOURTEEN), ("null", FOURTEEN)]);
        let unknown = run.trials.iter().rposition(|t| run.header.plan.trials[t.trial].arm == 1);
        for (index, trial) in run.trials.iter_mut().enumerate() {
            let cpu_ns = trial.load.books.completed * (100_000 + 100 * (index as u64 % 7));
            let growth = if Some(index) == unknown { known } else { Some(1) };
            let sample = |share: u64| {
                let cpu_ns = growth.map(|growth| growth * share * cpu_ns);
                let cgroup = Some(CgroupUse { cpu_ns, ..CgroupUse::default() });
                let used = PartyUse { cgroup, ..PartyUse::empty(Party::SUBJECT) };
                Sample { at_ns: share * 1_000_000_000, parties: vec![used], ..Sample::default() }
            };
            trial.load.samples = vec![sample(0), sample(1)];
        }
        run
    };
    let options = ComparisonOptions {
        gates: Gate::parse("cpu_us_per_request>+50%").unwrap(),
        ..ComparisonOptions::default()
    };
    let before = run("r", Some(1));
    let gate = |after: &Run| {
        let comparison = compare_runs((&before, Some(0)), (after, Some(0)), &options);
        let GateResult { state, sentence, .. } = &comparison.gates[0];
        (*state, sentence.clone())
    };
    let (state, sentence) = gate(&run("s", Some(1)));
    assert_eq!(state, GateState::Held, "{sentence}");
    let (state, sentence) = gate(&run("s", None));
    assert_eq!(state, GateState::Undecided, "{sentence}");
    assert!(sentence.contains("0 repeats of A and 1 repeat of B"), "{sentence}");
}

/// The CPU time of a control shows changes of the machine, and its memory does not.
#[test]
fn gate_on_memory_needs_no_memory_of_control() {
    for (gate, expected) in
        [("memory>+3%", GateState::Held), ("cpu_us_per_request>+3%", GateState::Undecided)]
    {
        let gates = Gate::parse(gate).unwrap();
        let metric = gates[0].metric.key;
        let (mut rows, repeats) = changed_rows(metric, 0.0, (metric, 0.0));
        for row in rows.iter_mut().filter(|row| row.control && row.metric == metric) {
            row.estimate = None;
            row.no_ratio_reason = Some(NoRatioReason::NotMeasured { a: 1, b: 0 });
        }
        let results = gate::decide(&gates, (&rows, &repeats, &[]), order::Confounding::None, &[]);
        assert_eq!(results[0].state, expected, "{:?}", results[0]);
    }
}
