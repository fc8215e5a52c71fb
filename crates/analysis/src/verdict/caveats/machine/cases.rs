//! Test cases: caveats about the machine.

use dyno_model::host::HostUse;
use dyno_model::machine::{HeatUse, OtherUse};
use dyno_model::outcome::Outcome;
use dyno_model::plan::Trial;

use crate::caveat::Code;
use crate::verdict::table::run_world::RunWorld;
use crate::verdict::table::world::{MS, S, TrialWorld};
use crate::verdict::table::{Case, check_cases, invalid, run_world, warning};

const CASES: &[Case<TrialWorld>] = &[
    invalid(
        Code::MACHINE_FAILED,
        |w| {
            let failure = "could not be measured: the machine ran out of memory";
            w.record.server_failure = Some(failure.into());
        },
        |w| w.record.server_failure = Some("crashed: it left".into()),
    ),
    warning(
        Code::CONTAMINATED,
        |w| {
            w.machine().everywhere =
                Some(vec![other_program(77, "cc1", 60), other_program(78, "ld", 40)]);
        },
        |w| {
            w.machine().everywhere =
                Some(vec![other_program(77, "cc1", 60), other_program(78, "ld", 39)]);
        },
    ),
    warning(
        Code::THERMAL_THROTTLING,
        |w| w.machine().heat = Some(HeatUse { throttled_ns: 20 * MS + 1, events: 1 }),
        |w| w.machine().heat = Some(HeatUse { throttled_ns: 20 * MS, events: 3 }),
    ),
    warning(Code::STEAL, |w| set_steal(w, 20 * MS + 1), |w| set_steal(w, 20 * MS)),
];

const RUN_CASES: &[Case<RunWorld>] = &[
    run_world::warning(
        Code::SHARED_CPUS,
        |w| w.run.header.plan.arms[0].conditions.placement.generator = vec![1],
        |_| {},
    ),
    run_world::info(Code::DONE_AGAIN, |w| w.run.contaminated.push(w.run.trials[0].clone()), |_| {})
        .given(|w| {
            w.run.header.plan.trials.push(Trial {
                launch: 0,
                arm: 0,
                workload: 0,
                step: 0,
                seed: 0,
            });
        }),
    run_world::warning(
        Code::DONE_AGAIN,
        |w| {
            let mut first = w.run.trials[0].clone();
            first.load.intervals[0].outcomes.count(Outcome::UnexpectedBody);
            first.load.intervals[0].outcomes.count(Outcome::Timeout);
            w.run.contaminated.push(first);
        },
        |_| {},
    )
    .given(|w| {
        w.run.header.plan.trials.push(Trial { launch: 0, arm: 0, workload: 0, step: 0, seed: 0 });
    }),
    run_world::warning(
        Code::MACHINE_CHANGED,
        |w| w.set_canaries([2000, 2300]),
        |w| w.set_canaries([2000, 2299]),
    ),
    // Repeats were measured partly before and partly after a resumption.
    run_world::warning(
        Code::MACHINE_CHANGED,
        |w| {
            w.add_late_server();
            w.set_canaries([2000, 2300]);
        },
        |w| w.set_canaries([2000, 2299]),
    ),
    run_world::warning(
        Code::SLOW_CLOCK,
        |w| w.run.header.facts.clock_source = Some("hpet".into()),
        |w| w.run.header.facts.clock_source = Some("tsc".into()),
    ),
    // The last of three starts took place on another machine.
    run_world::warning(
        Code::SLOW_CLOCK,
        |w| w.run.header.facts.clock_source = Some("hpet".into()),
        |w| {
            w.run.header.facts.clock_source = Some("hpet".into());
            // The first part has no start.
            w.run.header.resumptions[0].from_start = 0;
        },
    )
    .given(|w| w.resume(&[])),
    run_world::warning(
        Code::SLOW_CLOCK,
        |w| w.run.header.resumptions[0].facts.clock_source = Some("hpet".into()),
        |w| {
            w.run.header.resumptions[0].facts.clock_source = Some("hpet".into());
            // The second part has no start.
            w.run.header.resumptions[0].from_start = 3;
        },
    )
    .given(|w| w.resume(&[])),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_cases("caveats/machine", CASES);
    check_cases("caveats/machine_of_runs", RUN_CASES);
}

fn other_program(pid: u32, name: &str, ms: u64) -> OtherUse {
    OtherUse { pid, name: name.into(), run_ns: ms * MS }
}

/// Sets how much of one CPU second the hypervisor took.
fn set_steal(w: &mut TrialWorld, steal_ns: u64) {
    let busy_ns = 800 * MS;
    let idle_ns = S - busy_ns - steal_ns;
    w.last_sample().host = Some(HostUse { busy_ns, idle_ns, steal_ns, ..HostUse::default() });
}
