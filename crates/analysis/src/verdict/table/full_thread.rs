//! Test cases: limiters of servers whose CPUs have time left, but not one of their threads.

use super::limiter::{Case, case};
use super::world::{MS, TrialWorld};
use crate::verdict::{Confidence, Resource};

pub(super) const CASES: &[Case] = &[
    // A full thread of the server, or a full back end, may be the limit as well.
    case(
        (Resource::Generator, Confidence::High),
        "The generator: its busiest thread was busy for 88 % of the time",
        |w| set_thread_and_generator(w, 900 * MS - 1),
        |w| set_thread_and_generator(w, 900 * MS),
    )
    .near_miss_is(Resource::Generator, Confidence::Medium),
    case(
        (Resource::Generator, Confidence::Low),
        "One thread of the server was busy for 95 % of the time, so it may be the limit.",
        |w| set_thread_and_generator(w, 950 * MS),
        |w| set_thread_and_generator(w, 950 * MS - 1),
    )
    .near_miss_is(Resource::Generator, Confidence::Medium),
    // A full thread may be the limit even if the server keeps up. A spinning thread is always full.
    case(
        (Resource::OfferedRate, Confidence::High),
        "The offered rate: the server kept up with 1000 requests per second",
        |w| set_rate_and_thread(w, 950 * MS - 1),
        |w| set_rate_and_thread(w, 950 * MS),
    )
    .near_miss_is(Resource::ServerThread, Confidence::Medium),
];

/// Sets the run time of one of the server's two threads, on two CPUs.
fn set_thread(w: &mut TrialWorld, run_ns: u64) {
    w.allowed_cpus = 2.0;
    w.set_server_threads(&[(run_ns, 0), (0, 0)], 0);
}

/// Also sets a busy generator.
fn set_thread_and_generator(w: &mut TrialWorld, run_ns: u64) {
    set_thread(w, run_ns);
    w.set_generator_threads(&[(880 * MS, 0)]);
}

/// Also sets an offered rate.
fn set_rate_and_thread(w: &mut TrialWorld, run_ns: u64) {
    set_thread(w, run_ns);
    w.set_rate(1000.0);
}
