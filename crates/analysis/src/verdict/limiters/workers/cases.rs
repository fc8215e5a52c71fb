//! Test cases of the limiter `workers`.

use dyno_model::sample::{CallUse, ThreadState};

use crate::verdict::Confidence::{High, Medium};
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, high, medium};
use crate::verdict::table::world::{MS, S, TrialWorld};

const CASES: &[LimiterCase] = &[
    medium(
        |w| w.set_generator_threads(&[(300 * MS, 50 * MS + 1)]),
        |w| w.set_generator_threads(&[(300 * MS, 50 * MS)]),
    )
    .given(|w| {
        w.set_in_flight_time(64 * S);
        w.set_thread_states(8, ThreadState::Sleep, 900);
        w.sleep_once_per_response();
    })
    .near_miss_is(Resource::Workers, High),
    high(
        |w| {
            w.set_thread_states(8, ThreadState::Sleep, 900);
            w.sleep_once_per_response();
        },
        |w| {
            w.set_thread_states(8, ThreadState::Sleep, 400);
            w.sleep_once_per_response();
        },
    )
    .given(|w| w.set_in_flight_time(64 * S))
    .near_miss_is(Resource::Elsewhere, Medium),
    // Threads that sleep less often than once per two responses do not sleep in requests.
    high(
        |w| w.set_calls("clock_nanosleep", CallUse { count: 500, ..CallUse::default() }),
        |w| w.set_calls("clock_nanosleep", CallUse { count: 499, ..CallUse::default() }),
    )
    .given(|w| {
        w.set_in_flight_time(64 * S);
        w.set_thread_states(8, ThreadState::Sleep, 900);
    })
    .near_miss_is(Resource::Elsewhere, Medium),
    // Without counted calls it is unknown whether the threads sleep in requests.
    medium(|w| w.server_counters().calls = None, TrialWorld::sleep_once_per_response)
        .given(|w| {
            w.set_in_flight_time(64 * S);
            w.set_thread_states(8, ThreadState::Sleep, 900);
        })
        .near_miss_is(Resource::Workers, High),
    // `Thread.sleep` of a JVM and condition variables with a time-out wait in futex calls that end
    // by time-out.
    medium(
        |w| {
            w.set_calls(
                "futex(wait)",
                CallUse { count: 1000, errors: Some(600), again: Some(100), ..CallUse::default() },
            );
        },
        |w| {
            w.set_calls(
                "futex(wait)",
                CallUse { count: 1000, errors: Some(599), again: Some(100), ..CallUse::default() },
            );
        },
    )
    .given(|w| {
        w.set_in_flight_time(64 * S);
        w.set_thread_states(8, ThreadState::Lock, 900);
    })
    .near_miss_is(Resource::Lock, Medium),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Workers, CASES);
}
