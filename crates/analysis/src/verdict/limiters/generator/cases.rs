//! Test cases of the limiter `generator`.

use dyno_model::sample::OtherPartiesUse;

use crate::verdict::Confidence::{High, Low, Medium};
use crate::verdict::Resource;
use crate::verdict::table::limiter::{
    LimiterCase, add_others, check_limiter_cases, high, low, medium, set_thread,
};
use crate::verdict::table::world::{MS, TrialWorld};

const CASES: &[LimiterCase] = &[
    high(
        |w| w.set_generator_threads(&[(850 * MS + 1, 0)]),
        |w| w.set_generator_threads(&[(850 * MS, 0)]),
    )
    .near_miss_is(Resource::Unknown, Low),
    // The generator was stopped for many short times.
    medium(|w| w.set_stops(10, 60 * MS), |w| w.set_stops(10, 40 * MS))
        .near_miss_is(Resource::Concurrency, High),
    // If the server is busy, the generator is only likely the limit. If the server is full, the
    // server is the limit.
    high(|w| w.set_server_cpu(900 * MS - 1), |w| w.set_server_cpu(900 * MS))
        .given(|w| w.set_generator_threads(&[(900 * MS, 0)]))
        .near_miss_is(Resource::Generator, Medium),
    medium(|w| w.set_server_cpu(950 * MS - 1), |w| w.set_server_cpu(950 * MS))
        .given(|w| w.set_generator_threads(&[(900 * MS, 0)]))
        .near_miss_is(Resource::ServerCpu, High),
    medium(
        |w| {
            w.set_generator_threads(&[(900 * MS, 0)]);
            w.record.samples.clear();
        },
        |w| w.record.samples.clear(),
    )
    .near_miss_is(Resource::Unknown, Low),
    // A full thread of the server, or a full back end, may be the limit as well.
    high(|w| set_thread_and_generator(w, 900 * MS - 1), |w| set_thread_and_generator(w, 900 * MS))
        .near_miss_is(Resource::Generator, Medium),
    low(|w| set_thread_and_generator(w, 950 * MS), |w| set_thread_and_generator(w, 950 * MS - 1))
        .near_miss_is(Resource::Generator, Medium),
    // Other programs used a part of the generator's CPUs. Without them the generator may have had
    // headroom.
    low(
        |w| w.set_server_threads(&[(10 * MS, 0)], 300 * MS),
        |w| w.set_server_threads(&[(10 * MS, 0)], 0),
    )
    .given(|w| {
        w.set_generator_threads(&[(600 * MS, 300 * MS)]);
        add_others(w, 300 * MS);
    })
    .near_miss_is(Resource::Generator, High),
    // If the CPU time of other programs is unknown, they may have used the generator's CPUs.
    low(
        |w| {
            add_others(w, 300 * MS);
            w.set_server_threads(&[(10 * MS, 0)], 300 * MS);
            w.last_sample().co_runners = Some(OtherPartiesUse::default());
        },
        |w| {
            w.set_server_threads(&[(10 * MS, 0)], 300 * MS);
            w.last_sample().co_runners = Some(OtherPartiesUse::default());
        },
    )
    .given(|w| w.set_generator_threads(&[(600 * MS, 300 * MS)]))
    .near_miss_is(Resource::Generator, High),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Generator, CASES);
}

/// Also sets a busy generator.
fn set_thread_and_generator(w: &mut TrialWorld, run_ns: u64) {
    set_thread(w, run_ns);
    w.set_generator_threads(&[(880 * MS, 0)]);
}
