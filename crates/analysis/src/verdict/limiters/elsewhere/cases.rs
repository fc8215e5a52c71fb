//! Test cases of the limiter `elsewhere`.

use dyno_model::sample::ThreadState;

use crate::verdict::Confidence::Low;
use crate::verdict::Resource;
use crate::verdict::table::limiter::{
    LimiterCase, backend_use, check_limiter_cases, medium, set_steal,
};
use crate::verdict::table::world::{MS, S, TrialWorld};

const CASES: &[LimiterCase] = &[
    medium(|w| w.set_in_flight_time(64 * S), |w| w.set_in_flight_time(64 * S - 1))
        .near_miss_is(Resource::Concurrency, Low),
    // Requests that wait in the generator for a connection are not at the server.
    medium(
        |w| w.set_in_flight_time(100 * S),
        |w| {
            w.set_in_flight_time(100 * S);
            w.step.connections = 63;
        },
    )
    .near_miss_is(Resource::Concurrency, Low),
    // Server and generator have headroom below three quarters of their CPUs.
    medium(|w| w.set_server_cpu(750 * MS - 1), |w| w.set_server_cpu(750 * MS))
        .given(|w| w.set_in_flight_time(64 * S))
        .near_miss_is(Resource::Unknown, Low),
    medium(
        |w| w.set_generator_threads(&[(750 * MS - 1, 0)]),
        |w| w.set_generator_threads(&[(750 * MS, 0)]),
    )
    .given(|w| w.set_in_flight_time(64 * S))
    .near_miss_is(Resource::Unknown, Low),
    // `elsewhere` is excluded if server or generator may have lost CPU time to the hypervisor or to
    // other programs.
    medium(|w| set_steal(w, 250 * MS - 1), |w| set_steal(w, 250 * MS))
        .given(|w| w.set_in_flight_time(64 * S))
        .near_miss_is(Resource::Unknown, Low),
    medium(
        |w| w.set_generator_threads(&[(650 * MS, 99 * MS)]),
        |w| w.set_generator_threads(&[(650 * MS, 100 * MS)]),
    )
    .given(|w| w.set_in_flight_time(64 * S))
    .near_miss_is(Resource::Unknown, Low),
    medium(
        |w| w.set_server_threads(&[(500 * MS, 249 * MS)], 300 * MS),
        |w| w.set_server_threads(&[(500 * MS, 250 * MS)], 300 * MS),
    )
    .given(|w| w.set_in_flight_time(64 * S))
    .near_miss_is(Resource::OtherPrograms, Low),
    medium(
        |w| {
            w.set_in_flight_time(64 * S);
            w.set_thread_states(8, ThreadState::Network, 900);
        },
        |w| {
            w.set_in_flight_time(64 * S - 1);
            w.set_thread_states(8, ThreadState::Network, 900);
        },
    )
    .near_miss_is(Resource::Concurrency, Low),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Elsewhere, CASES);
}

/// The hint to monitor services is for suites that monitor none.
#[test]
fn unmonitored_resource_with_back_end_has_no_hint() {
    let mut world = TrialWorld::default();
    world.set_in_flight_time(64 * S);
    world.set_thread_states(8, ThreadState::Network, 900);
    assert!(world.limiter().sentence.contains("[[backends]]"), "{}", world.limiter().sentence);
    world.backends = vec![backend_use("db", 0.2, false)];
    let limiter = world.limiter();
    assert_eq!(limiter.resource, Resource::Elsewhere);
    assert!(!limiter.sentence.contains("[[backends]]"), "{}", limiter.sentence);
}
