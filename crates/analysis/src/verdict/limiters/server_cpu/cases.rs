//! Test cases of the limiter `server_cpu`.

use crate::verdict::Confidence::{High, Low, Medium};
use crate::verdict::Resource;
use crate::verdict::table::limiter::{
    LimiterCase, check_limiter_cases, high, medium, set_shared_cpus,
};
use crate::verdict::table::world::{MS, S, TrialWorld};

const CASES: &[LimiterCase] = &[
    high(
        |w| w.set_server_cpu(900 * MS),
        |w| {
            w.set_server_cpu(900 * MS - 1);
            w.server_counters().threads.clear();
        },
    )
    .near_miss_is(Resource::Unknown, Low),
    high(
        |w| w.set_seconds(&[(1000, 900 * MS), (1000, 900 * MS)]),
        |w| w.set_seconds(&[(1000, 700 * MS), (1000, 700 * MS)]),
    ),
    high(
        |w| {
            w.set_server_cpu(1500 * MS);
            w.allowed_cpus = 1.5;
        },
        |w| {
            w.set_server_cpu(800 * MS);
            w.allowed_cpus = 1.5;
        },
    )
    .near_miss_is(Resource::Concurrency, Medium),
    high(
        |w| w.set_server_threads(&[(900 * MS, 0), (100 * MS, 0)], 0),
        |w| w.set_server_threads(&[(450 * MS, 0), (400 * MS, 0)], 0),
    )
    .near_miss_is(Resource::Unknown, Low),
    // A faster back end would hardly help a server that uses most of the shared CPUs itself.
    medium(|w| set_shared_cpus(w, 460, 0.45), |w| set_shared_cpus(w, 450, 0.46))
        .near_miss_is(Resource::Backend, High),
    // Without calls, sleeps and its use without requests, a server may poll unseen.
    medium(|_| {}, |w| w.idle_cpus = Some(0.19))
        .given(|w| {
            w.set_server_cpu(S);
            w.set_in_flight_time(16 * S);
            w.set_voluntary_switches(0);
            w.server_counters().calls = None;
        })
        .near_miss_is(Resource::ServerCpu, High),
    // One thread never sleeps, another one does, and the server used a CPU before the load.
    medium(|w| w.idle_cpus = Some(0.2), |w| w.idle_cpus = Some(0.19))
        .given(|w| {
            fill_two_cpus(w);
            w.set_voluntary_switches(9);
        })
        .near_miss_is(Resource::ServerCpu, High),
    medium(|w| w.set_voluntary_switches(9), |w| w.set_voluntary_switches(10))
        .given(|w| {
            fill_two_cpus(w);
            w.idle_cpus = Some(1.0);
        })
        .near_miss_is(Resource::ServerCpu, High),
    // One thread never sleeps, and another one does. The use before the load is unknown.
    medium(|w| w.set_voluntary_switches(9), |w| w.set_voluntary_switches(10))
        .given(fill_two_cpus)
        .near_miss_is(Resource::ServerCpu, High),
];

/// Fills two CPUs with two threads that sleep once per response each.
fn fill_two_cpus(w: &mut TrialWorld) {
    w.allowed_cpus = 2.0;
    w.set_server_threads(&[(S, 0), (S, 0)], 0);
    w.set_in_flight_time(16 * S);
}

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::ServerCpu, CASES);
}
