//! Test cases: caveats about repeats and comparisons.

use dyno_model::start::NewFiles;

use crate::caveat::Code;
use crate::caveat::Severity::Info;
use crate::cell::Shape;
use crate::duet::DuetResult;
use crate::peak::OpenStep;
use crate::verdict::table::changes::{turns_of_length, turns_with_idle_use};
use crate::verdict::table::run_world::RunWorld;
use crate::verdict::table::world::TrialWorld;
use crate::verdict::table::{Case, check_cases, invalid, run_world, warning};

const CASES: &[Case<TrialWorld>] = &[
    warning(
        Code::BUSY_IN_OTHERS_TURNS,
        |w| w.turns = turns_with_idle_use(0.02),
        |w| w.turns = turns_with_idle_use(0.019),
    ),
    invalid(Code::OUT_OF_TURN, |w| w.is_out_of_turn = true, |w| w.turns = turns_with_idle_use(0.0)),
    invalid(Code::CONCURRENT_LOADS, |w| w.duet = duet(1, false), |w| w.duet = duet(2, true))
        .near_miss_still(Info),
    invalid(Code::CONCURRENT_LOADS, |w| w.duet = duet(2, false), |w| w.duet = duet(2, true))
        .near_miss_still(Info),
    // The bounds are 0.2 context switches per request, and CPUs that are idle for a tenth of the
    // time.
    invalid(Code::IDLE_DUET, |w| set_idle_duet(w, 0.89, 200), |w| set_idle_duet(w, 0.9, 200)),
    invalid(Code::IDLE_DUET, |w| set_idle_duet(w, 0.5, 200), |w| set_idle_duet(w, 0.5, 199)),
    // The CPU time of another server of the duet is unknown.
    invalid(
        Code::IDLE_DUET,
        |w| {
            set_idle_duet(w, 0.5, 200);
            w.duet.as_mut().expect("a duet").cpus = None;
        },
        |w| {
            set_idle_duet(w, 0.5, 199);
            w.duet.as_mut().expect("a duet").cpus = None;
        },
    ),
    // Each response takes 1 ms in the default world.
    warning(
        Code::LONGER_THAN_TURNS,
        |w| w.turns = turns_of_length(0.0499),
        |w| w.turns = turns_of_length(0.0502),
    ),
];

const RUN_CASES: &[Case<RunWorld>] = &[
    run_world::warning(
        Code::NEW_FILES,
        |w| {
            for start in &mut w.run.starts[1..] {
                let first = "cache.json".into();
                start.parts[0].new_files = Some(NewFiles { count: 1, first });
            }
        },
        |_| {},
    ),
    run_world::info(Code::FEW_REPEATS, |w| w.run.header.plan.repeats = 4, |_| {}),
    run_world::info(Code::FEW_REPEATS, |w| w.run.header.plan.repeats = 3, |_| {}),
    run_world::info(Code::FEW_REPEATS, |w| w.run.header.plan.repeats = 2, |_| {}),
    run_world::info(Code::FEW_REPEATS, |w| w.run.header.plan.repeats = 1, |_| {}),
    run_world::info(Code::RESUMED, |w| w.run.starts[1].resumed = true, |_| {}),
    // The run is resumed before the third start. It is of the second repeat, and not in the near
    // miss.
    run_world::info(
        Code::RESUMED,
        |w| {
            w.resume(&[]);
            w.run.header.plan.launches[2].block = 1;
        },
        |w| w.resume(&[]),
    ),
    // The build of `late` failed before the resumption.
    run_world::info(Code::RESUMED, RunWorld::add_late_server, |_| {}),
    run_world::info(
        Code::RESUMED,
        |w| {
            w.resume(&[]);
            let names = ["a: API_KEY".into(), "a: BYPASS_CACHE".into()];
            w.run.header.resumptions[0].uncompared.extend(names);
        },
        |w| w.resume(&[]),
    ),
    run_world::warning(
        Code::MIXED,
        |w| {
            w.resume(&[("kernel", "6.1", "6.2"), ("dyno", "1", "2")]);
            // A second resumption had no trial left to run.
            w.resume(&[("kernel", "6.1", "6.3")]);
            w.run.header.resumptions[1].from_start = 3;
        },
        |w| {
            w.resume(&[("kernel", "6.1", "6.3")]);
            w.run.header.resumptions[0].from_start = 3;
        },
    ),
    run_world::info(
        Code::NOT_SERVED,
        |w| {
            w.omit_workload("it speaks no h2");
            w.omit_workload("because");
            w.omit_workload("it speaks no h2");
        },
        |_| {},
    ),
    run_world::warning(Code::FIXED_ORDER, |w| w.set_fixed_order(2), |w| w.set_fixed_order(1)),
    run_world::warning(
        Code::TREND,
        |w| {
            w.add_peaks(&[("a", 1.0)]);
            w.repeats = vec![100.0, 104.0, 108.0, 113.0, 117.0];
        },
        |_| {},
    )
    .given(|w| w.set_fixed_order(2)),
    // Throughput rises by 4 % per repeat. In the near miss noise is as large.
    run_world::warning(
        Code::TREND,
        |w| w.repeats = vec![100.0, 104.0, 108.0, 113.0, 117.0],
        |w| w.repeats = vec![100.0, 104.0, 98.0, 113.0, 107.0],
    )
    .given(|w| w.add_peaks(&[("a", 1.0)])),
    run_world::warning(Code::PEAK_LOWER_BOUND, |w| w.open = vec![open_step(3)], |_| {})
        .given(|w| w.add_peaks(&[("a", 8160.0), ("b", 100.0)])),
    // If other programs take the CPUs, the advice is not more CPUs for the generator.
    run_world::warning(
        Code::PEAK_LOWER_BOUND,
        |w| w.open = vec![OpenStep { reason: Some(Code::CONTAMINATED), ..open_step(2) }],
        |_| {},
    )
    .given(|w| w.add_peaks(&[("a", 81.6)])),
    run_world::warning(
        Code::PEAK_LOWER_BOUND,
        |w| {
            let disturbed = OpenStep { reason: Some(Code::CONTAMINATED), ..open_step(2) };
            w.open = vec![disturbed, open_step(3)];
        },
        |_| {},
    )
    .given(|w| w.add_peaks(&[("a", 81.6)])),
    run_world::warning(
        Code::PEAK_LOWER_BOUND,
        |w| w.open = vec![OpenStep { repeats: 0, reason: None, ..open_step(0) }],
        |_| {},
    )
    .given(|w| w.add_peaks(&[("a", 81.6)])),
    // A finished run has no trial left for `--resume`, so the advice is more repeats.
    run_world::warning(
        Code::PEAK_LOWER_BOUND,
        |w| {
            w.open = vec![OpenStep { repeats: 0, reason: None, ..open_step(0) }];
            let trials = &mut w.run.header.plan.trials;
            trials.truncate(w.run.trials.len());
        },
        |_| {},
    )
    .given(|w| w.add_peaks(&[("a", 81.6)])),
    // Peaks that are lower bounds are not compared.
    run_world::warning(
        Code::SAME_NUMBERS,
        |w| w.add_peaks(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]),
        |w| {
            w.add_peaks(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]);
            w.open = vec![open_step(1)];
        },
    ),
    // Four peaks within 3 % of the lowest.
    run_world::warning(
        Code::SAME_NUMBERS,
        |w| w.add_peaks(&[("d", 103.0), ("a", 100.0), ("b", 101.0), ("c", 102.0)]),
        |w| w.add_peaks(&[("d", 103.01), ("a", 100.0), ("b", 101.0), ("c", 102.0)]),
    ),
    run_world::warning(
        Code::SAME_NUMBERS,
        |w| {
            w.add_peaks(&[
                ("a", 90.0),
                ("b", 100.0),
                ("c", 100.0),
                ("d", 100.0),
                ("e", 100.0),
                ("f", 100.0),
            ]);
        },
        |w| w.add_peaks(&[("a", 90.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]),
    ),
    // Variants of one server are one server.
    run_world::warning(
        Code::SAME_NUMBERS,
        |w| {
            w.add_peaks(&[("a/x", 99.0), ("a/y", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]);
        },
        |w| {
            w.add_peaks(&[("a/x", 99.0), ("a/y", 100.0), ("a", 100.0), ("c", 100.0), ("d", 100.0)]);
        },
    ),
    // Peaks are compared within one workload.
    run_world::warning(
        Code::SAME_NUMBERS,
        |w| {
            w.add_peaks(&[("a", 1.0), ("b", 9.0)]);
            w.add_workload_peaks("v", &[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0)]);
        },
        |w| {
            w.add_peaks(&[("a", 100.0), ("b", 100.0)]);
            w.add_workload_peaks("v", &[("c", 100.0), ("d", 100.0)]);
        },
    ),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_cases("caveats/comparisons", CASES);
    check_cases("caveats/comparisons_of_runs", RUN_CASES);
}

/// A load that ran at the same time as other loads: `loads` ran, and one more was planned.
fn duet(loads: u32, is_usual: bool) -> Option<DuetResult> {
    Some(DuetResult {
        loads,
        planned: loads.max(1) + 1,
        concurrent_subjects: Vec::new(),
        is_usual,
        began_ns: 0,
        cpus: None,
        rounds: Vec::new(),
    })
}

/// Sets a duet on one CPU: how much of it its servers used, and the context switches of 1,000
/// requests.
fn set_idle_duet(w: &mut TrialWorld, cpus: f64, switches: u64) {
    w.duet = duet(2, true).map(|duet| DuetResult { cpus: Some(cpus), ..duet });
    w.set_voluntary_switches(switches);
}

/// A step of 16 connections. `refused`: number of its five repeats that are excluded.
fn open_step(refused: usize) -> OpenStep {
    let at =
        Shape { connections: 16, streams: 1, pipeline: 1, rate: None, schedule: None, pass: 1 };
    OpenStep { step: 1, at, refused, repeats: 5, reason: Some(Code::GENERATOR_BUSY) }
}
