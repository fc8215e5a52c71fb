//! Test cases of the limiter `server_thread`.

use crate::verdict::Confidence::{High, Medium};
use crate::verdict::Resource;
use crate::verdict::table::limiter::{
    LimiterCase, check_limiter_cases, high, low, medium, set_throttled_periods,
};
use crate::verdict::table::world::{MS, S, TrialWorld};

const CASES: &[LimiterCase] = &[
    // A resource that is certainly full is the limit, although bursts are throttled.
    high(|w| set_throttled_periods(w, 499), |w| set_throttled_periods(w, 500))
        .given(|w| {
            w.allowed_cpus = 2.0;
            w.set_server_cpu(900 * MS);
        })
        .near_miss_is(Resource::CpuQuota, High),
    high(
        |w| w.set_server_threads(&[(900 * MS, 0), (100 * MS, 0)], 0),
        |w| w.set_server_threads(&[(900 * MS - 1, 0), (100 * MS, 0)], 0),
    )
    .given(|w| w.allowed_cpus = 2.0)
    .near_miss_is(Resource::Concurrency, Medium),
    // A thread of a compiler serves no request.
    high(
        |w| {
            w.set_server_cpu(900 * MS);
            w.add_compiler_thread(S);
            w.server_cgroup().cpu_ns = Some(1900 * MS);
        },
        |w| {
            w.set_server_cpu(900 * MS - 1);
            w.add_compiler_thread(S);
            w.server_cgroup().cpu_ns = Some(1900 * MS - 1);
        },
    )
    .given(|w| w.allowed_cpus = 4.0)
    .near_miss_is(Resource::Concurrency, Medium),
    high(|w| w.server_cgroup().cpu_ns = Some(900 * MS - 1), |_| {})
        .given(|w| w.set_server_cpu(900 * MS))
        .near_miss_is(Resource::ServerCpu, High),
    // The server used CPU time before the load, but less than a thread.
    medium(|w| w.idle_cpus = Some(0.2), |w| w.idle_cpus = Some(0.19))
        .given(fill_one_thread_of_two)
        .near_miss_is(Resource::ServerThread, High),
    // The full thread may be one that polls, next to the thread that serves.
    low(|w| w.idle_cpus = Some(0.9), |w| w.idle_cpus = Some(0.89))
        .given(fill_one_thread_of_two)
        .near_miss_is(Resource::ServerThread, Medium),
    low(|w| w.set_voluntary_switches(9), |w| w.set_voluntary_switches(10))
        .given(|w| {
            fill_one_thread_of_two(w);
            w.idle_cpus = Some(0.9);
        })
        .near_miss_is(Resource::ServerThread, High),
];

/// Fills one of four CPUs with a thread that never sleeps, and half of another one.
fn fill_one_thread_of_two(w: &mut TrialWorld) {
    w.allowed_cpus = 4.0;
    w.set_server_threads(&[(S, 0), (500 * MS, 0)], 0);
    w.set_voluntary_switches(0);
    w.set_in_flight_time(16 * S);
}

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::ServerThread, CASES);
}
