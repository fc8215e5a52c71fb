//! Test cases of the limiter `unknown`.

use dyno_model::sample::OtherPartiesUse;

use crate::verdict::Confidence::Medium;
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, low, set_steal};
use crate::verdict::table::world::{MS, TrialWorld};

const CASES: &[LimiterCase] = &[
    low(|w| w.set_server_cpu(800 * MS), |w| w.set_server_cpu(700 * MS)),
    low(|w| w.record.samples.clear(), |_| {}),
    low(
        // The server's use and the stolen time together leave no headroom.
        |w| set_steal(w, 250 * MS),
        |w| set_steal(w, 250 * MS - 1),
    ),
    low(
        |w| w.set_generator_threads(&[(650 * MS, 100 * MS)]),
        |w| w.set_generator_threads(&[(650 * MS, 99 * MS)]),
    )
    .near_miss_is(Resource::Concurrency, Medium),
    // The generator's need and the stolen time together leave no headroom.
    low(|w| set_steal(w, 210 * MS), |w| set_steal(w, 180 * MS))
        .given(|w| {
            w.set_generator_threads(&[(560 * MS, 0)]);
            w.set_server_cpu(100 * MS);
        })
        .near_miss_is(Resource::Concurrency, Medium),
    // The threads' waits are unknown, so the server may have lost all CPU time that other programs
    // used.
    low(|w| set_unknown_waits(w, 250 * MS), |w| set_unknown_waits(w, 249 * MS))
        .near_miss_is(Resource::Concurrency, Medium),
    // It is unknown whether other programs used the CPUs for which the server waited.
    low(|w| set_unknown_others(w, 250 * MS), |w| set_unknown_others(w, 249 * MS))
        .near_miss_is(Resource::Concurrency, Medium),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Unknown, CASES);
}

/// Sets a server thread that works half of the time, with an unknown wait for CPUs.
fn set_unknown_waits(w: &mut TrialWorld, others_ns: u64) {
    w.set_server_threads(&[(500 * MS, 0)], others_ns);
    for used in w.all_server_counters() {
        used.threads.iter_mut().for_each(|thread| thread.run_delay_ns = None);
    }
}

/// Sets a server thread that works half of the time and waits for a CPU, while the CPU time of
/// other programs is unknown.
fn set_unknown_others(w: &mut TrialWorld, waited_ns: u64) {
    w.set_server_threads(&[(500 * MS, waited_ns)], 300 * MS);
    w.last_sample().co_runners = Some(OtherPartiesUse::default());
}
