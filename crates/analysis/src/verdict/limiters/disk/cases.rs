//! Test cases of the limiter `disk`.

use dyno_model::sample::ThreadState;

use crate::verdict::Confidence::{High, Medium};
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, high, medium, read_pages};
use crate::verdict::table::world::MS;

const CASES: &[LimiterCase] = &[
    // Lost CPU time prolongs neither waits for a disk nor sleeps.
    medium(
        |w| w.set_generator_threads(&[(300 * MS, 50 * MS + 1)]),
        |w| w.set_generator_threads(&[(300 * MS, 50 * MS)]),
    )
    .given(|w| w.set_thread_states(1, ThreadState::Disk, 500))
    .near_miss_is(Resource::Disk, High),
    // With free memory, all of the pages are read for the first time.
    medium(|w| read_pages(w, 50, Some(9999)), |w| read_pages(w, 50, Some(10_000)))
        .near_miss_is(Resource::Memory, Medium),
    high(
        |w| w.set_thread_states(1, ThreadState::Disk, 500),
        |w| w.set_thread_states(1, ThreadState::Disk, 499),
    ),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Disk, CASES);
}
