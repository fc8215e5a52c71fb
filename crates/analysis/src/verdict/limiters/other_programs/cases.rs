//! Test cases of the limiter `other_programs`.

use crate::verdict::Confidence::{High, Low, Medium};
use crate::verdict::Resource;
use crate::verdict::table::limiter::{
    LimiterCase, add_others, backend_use, check_limiter_cases, low, medium, programs,
};
use crate::verdict::table::world::{MS, S, TrialWorld};

const CASES: &[LimiterCase] = &[
    // Other programs filled the generator's CPUs.
    medium(
        |w| w.set_server_threads(&[(10 * MS, 0)], 1400 * MS),
        // The server used the generator's CPUs.
        |w| w.set_server_threads(&[(10 * MS, 0)], 0),
    )
    .given(|w| {
        w.set_generator_threads(&[(280 * MS, 600 * MS)]);
        add_others(w, 700 * MS);
    })
    .near_miss_is(Resource::Generator, High),
    // A thread of the server is full, too.
    low(|w| fill_generator_cpus(w, (280, 600), 900), |w| fill_generator_cpus(w, (280, 600), 899))
        .near_miss_is(Resource::OtherPrograms, Medium),
    // A back end is full, too.
    low(
        |w| w.backends = vec![backend_use("db", 0.95, false)],
        |w| w.backends = vec![backend_use("db", 0.5, false)],
    )
    .given(|w| fill_generator_cpus(w, (280, 600), 10))
    .near_miss_is(Resource::OtherPrograms, Medium),
    // The generator slept for more than a quarter of the time. The server may serve one request at
    // a time, without using its CPU.
    low(|w| fill_generator_cpus(w, (100, 100), 10), |w| fill_generator_cpus(w, (150, 601), 10))
        .near_miss_is(Resource::OtherPrograms, Medium),
    // Other programs used CPUs for which the server waited. With that time the server would not be
    // full.
    low(
        |w| w.set_server_threads(&[(500 * MS, 250 * MS)], 300 * MS),
        |w| w.set_server_threads(&[(500 * MS, 250 * MS)], 0),
    )
    .near_miss_is(Resource::Concurrency, Medium),
    // Threads of the kernel used the CPUs.
    low(
        |w| w.machine().kernel_threads_ns = Some(200 * MS - 1),
        |w| w.machine().kernel_threads_ns = Some(200 * MS + 1),
    )
    .given(|w| w.set_server_threads(&[(500 * MS, 250 * MS)], 300 * MS))
    .near_miss_is(Resource::Concurrency, Medium),
    medium(
        |w| {
            w.set_server_threads(&[(600 * MS, 310 * MS)], 400 * MS);
            w.machine().everywhere = Some(programs());
        },
        |w| w.set_server_threads(&[(600 * MS, 290 * MS)], 400 * MS),
    )
    .near_miss_is(Resource::OtherPrograms, Low),
    // The generator waited for CPUs that other programs used.
    low(
        |w| w.set_server_threads(&[(500 * MS, 0)], 300 * MS),
        // No other program is known to have used the CPUs.
        |w| w.set_server_threads(&[(500 * MS, 0)], 0),
    )
    .given(|w| w.set_generator_threads(&[(650 * MS, 100 * MS)]))
    .near_miss_is(Resource::Unknown, Low),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::OtherPrograms, CASES);
}

/// Lets other programs use the rest of the generator's CPU. `run`, `wait`: times of the generator's
/// thread, ms. `server`: time of the server's thread on two CPUs, ms.
fn fill_generator_cpus(w: &mut TrialWorld, (run, wait): (u64, u64), server: u64) {
    w.allowed_cpus = 2.0;
    w.set_generator_threads(&[(run * MS, wait * MS)]);
    add_others(w, S - run * MS);
    w.set_server_threads(&[(server * MS, 0)], 1400 * MS);
}
