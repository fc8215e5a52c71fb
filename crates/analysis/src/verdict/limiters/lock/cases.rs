//! Test cases of the limiter `lock`.

use dyno_model::sample::{CallUse, StateTimes, ThreadState};

use crate::verdict::Confidence::{High, Low, Medium};
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, high, medium, set_steal};
use crate::verdict::table::world::{MS, S, TrialWorld};

const CASES: &[LimiterCase] = &[
    // Lost CPU time prolongs waits for a lock whose holder waits for the CPU.
    high(|w| set_steal(w, 250 * MS - 1), |w| set_steal(w, 250 * MS))
        .given(|w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 875);
        })
        .near_miss_is(Resource::Unknown, Low),
    medium(
        |w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 500);
        },
        // With fewer requests than threads, some threads wait for work.
        |w| {
            w.set_in_flight_time(8 * S - 1);
            w.set_thread_states(8, ThreadState::Lock, 500);
        },
    )
    .near_miss_is(Resource::Concurrency, Medium),
    // One of eight threads has no request, which explains an eighth of the time.
    medium(
        |w| w.set_thread_states(8, ThreadState::Lock, 626),
        |w| w.set_thread_states(8, ThreadState::Lock, 624),
    )
    .given(|w| w.set_in_flight_time(7 * S))
    .near_miss_is(Resource::Concurrency, Medium),
    medium(
        |w| {
            w.set_in_flight_time(15 * S);
            w.set_thread_states(8, ThreadState::Lock, 875);
        },
        |w| {
            w.set_in_flight_time(14 * S);
            w.set_thread_states(8, ThreadState::Lock, 875);
        },
    )
    .near_miss_is(Resource::Lock, High),
    // Idle threads of an asynchronous runtime wait for work in futex, too. A server that writes
    // more than once per response may wait for a service.
    medium(
        |w| w.set_calls("write", CallUse { count: 1051, ..CallUse::default() }),
        |w| w.set_calls("write", CallUse { count: 1050, ..CallUse::default() }),
    )
    .given(|w| {
        w.set_in_flight_time(14 * S);
        w.set_thread_states(8, ThreadState::Lock, 875);
    })
    .near_miss_is(Resource::Lock, High),
    // A lock has one holder at a time, and each thread is the holder for a while.
    medium(
        |w| w.set_thread_states(8, ThreadState::Lock, 812),
        |w| w.set_thread_states(8, ThreadState::Lock, 813),
    )
    .given(|w| w.set_in_flight_time(8 * S))
    .near_miss_is(Resource::Lock, High),
    medium(|w| set_busy_thread(w, 700), |w| set_busy_thread(w, 699))
        .given(|w| w.set_in_flight_time(8 * S))
        .near_miss_is(Resource::Lock, High),
    // Threads that make no futex call wait within other calls, such as writes with O_DSYNC.
    medium(
        |w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 900);
            w.set_calls("futex(wait)", CallUse { count: 99, ..CallUse::default() });
        },
        |w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 900);
            w.set_calls("futex(wait)", CallUse { count: 99, ..CallUse::default() });
            w.set_calls("flock", CallUse { count: 1, ..CallUse::default() });
        },
    )
    .near_miss_is(Resource::Lock, High),
    medium(
        |w| w.set_thread_states(8, ThreadState::Lock, 950),
        |w| w.set_thread_states(8, ThreadState::Lock, 937),
    )
    .given(|w| w.set_in_flight_time(8 * S))
    .near_miss_is(Resource::Lock, High),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Lock, CASES);
}

/// Sets eight threads that wait for a lock. One thread works for `ms` of the second, the others for
/// 10 ms.
fn set_busy_thread(w: &mut TrialWorld, ms: u64) {
    w.set_thread_states(8, ThreadState::Lock, 990);
    let scheduler = w.server_counters().threads[0].seen.as_mut().expect("a scheduler record");
    scheduler.states =
        StateTimes { running_ns: ms * MS, lock_ns: (1000 - ms) * MS, ..StateTimes::default() };
}
