//! Test cases of the limiter `concurrency`.

use dyno_model::sample::{CallUse, ThreadState};

use crate::verdict::Confidence::{High, Low, Medium};
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, high, low, medium};
use crate::verdict::table::world::{MS, S, TrialWorld};

const CASES: &[LimiterCase] = &[
    // A thread that is nearly full may be the limit.
    medium(|w| w.set_server_cpu(750 * MS), |w| w.set_server_cpu(750 * MS - 1))
        .given(|w| w.allowed_cpus = 2.0),
    // With more requests in flight, some may queue for a resource that serves one at a time.
    high(|w| w.set_in_flight_time(1500 * MS), |w| w.set_in_flight_time(1501 * MS))
        .near_miss_is(Resource::Concurrency, Medium),
    // The server's threads wait for a CPU for a quarter of the response times.
    medium(
        |w| w.set_server_threads(&[(500 * MS, 250 * MS)], 0),
        |w| w.set_server_threads(&[(500 * MS, 249 * MS)], 0),
    ),
    medium(|w| w.set_in_flight_time(32 * S - 1), |w| w.set_in_flight_time(32 * S))
        .near_miss_is(Resource::Concurrency, Low),
    low(|w| w.set_in_flight_time(32 * S), |w| w.set_in_flight_time(64 * S))
        .near_miss_is(Resource::Elsewhere, Medium),
    high(
        |_| {},
        |w| {
            w.set_rate(2000.0);
            w.interval().started = 2000;
        },
    )
    .near_miss_is(Resource::Unknown, Low),
    // Interrupts that are billed to no program may have filled the server's CPU.
    medium(|w| set_interrupts(w, 250 * MS), |w| set_interrupts(w, 250 * MS - 1)),
    // The server waited for CPUs, but would have had headroom even with that time.
    medium(
        |w| w.set_server_threads(&[(500 * MS, 101 * MS)], 300 * MS),
        |w| w.set_server_threads(&[(500 * MS, 100 * MS)], 300 * MS),
    ),
    medium(
        |w| {
            w.set_calls(
                "epoll_wait",
                CallUse {
                    count: 4000,
                    returned: Some(1000),
                    errors: Some(0),
                    ..CallUse::default()
                },
            );
        },
        |w| {
            w.set_calls(
                "epoll_wait",
                CallUse {
                    count: 3999,
                    returned: Some(1000),
                    errors: Some(0),
                    ..CallUse::default()
                },
            );
        },
    )
    .given(|w| w.set_server_cpu(S))
    .near_miss_is(Resource::ServerCpu, High),
    medium(
        |w| {
            w.set_calls(
                "recvfrom",
                CallUse {
                    count: 4000,
                    errors: Some(3000),
                    again: Some(3000),
                    ..CallUse::default()
                },
            );
        },
        |w| {
            w.set_calls(
                "recvfrom",
                CallUse {
                    count: 4000,
                    errors: Some(3000),
                    again: Some(2999),
                    ..CallUse::default()
                },
            );
        },
    )
    .given(|w| w.set_server_cpu(S))
    .near_miss_is(Resource::ServerCpu, High),
    // With one request in flight, a server that does not poll sleeps between two requests.
    medium(
        |w| {
            w.set_voluntary_switches(99);
            w.server_counters().calls = None;
        },
        |w| {
            w.set_voluntary_switches(100);
            w.server_counters().calls = None;
        },
    )
    .given(|w| w.set_server_cpu(S))
    .near_miss_is(Resource::ServerCpu, High),
    // With more requests in flight, a server that never sleeps may always have work.
    medium(|w| w.set_in_flight_time(1100 * MS), |w| w.set_in_flight_time(1101 * MS))
        .given(|w| {
            w.set_server_cpu(S);
            w.set_voluntary_switches(0);
        })
        .near_miss_is(Resource::ServerCpu, High),
    // A server that uses as much CPU time without requests polls, even if its calls are unknown.
    medium(|w| w.idle_cpus = Some(0.75), |w| w.idle_cpus = Some(0.74))
        .given(|w| {
            w.set_server_cpu(S);
            w.set_in_flight_time(16 * S);
        })
        .near_miss_is(Resource::ServerCpu, High),
    // One thread polls, and the server may use several CPUs.
    medium(|w| w.set_voluntary_switches(0), |_| {})
        .given(|w| {
            w.allowed_cpus = 2.0;
            w.set_server_cpu(S);
        })
        .near_miss_is(Resource::ServerThread, High),
    // Requests sleep and wait for other threads, as in a JVM.
    low(
        |w| {
            w.set_calls(
                "futex(wait)",
                CallUse { count: 3000, errors: Some(600), again: Some(100), ..CallUse::default() },
            );
        },
        |w| {
            w.set_calls(
                "futex(wait)",
                CallUse { count: 3000, errors: Some(599), again: Some(100), ..CallUse::default() },
            );
        },
    )
    .given(|w| {
        w.set_in_flight_time(8 * S);
        w.set_thread_states(8, ThreadState::Lock, 900);
    })
    .near_miss_is(Resource::Lock, High),
    // With fewer than 1.2 requests per thread, no request waits for a thread.
    medium(
        |w| {
            w.set_in_flight_time(9599 * MS);
            w.set_thread_states(8, ThreadState::Sleep, 900);
            w.sleep_once_per_response();
        },
        |w| {
            w.set_in_flight_time(9600 * MS);
            w.set_thread_states(8, ThreadState::Sleep, 900);
            w.sleep_once_per_response();
        },
    )
    .near_miss_is(Resource::Workers, High),
    // If on average fewer than half a thread waits, no requests queue.
    high(
        |w| set_waiting_time(w, ThreadState::Runnable, 124),
        |w| set_waiting_time(w, ThreadState::Runnable, 125),
    )
    .near_miss_is(Resource::Concurrency, Medium),
    high(
        |w| set_waiting_time(w, ThreadState::Sleep, 400),
        |w| {
            set_waiting_time(w, ThreadState::Sleep, 400);
            w.sleep_once_per_response();
        },
    )
    .near_miss_is(Resource::Concurrency, Medium),
    // Requests may queue for a service to which the server writes.
    high(
        |w| w.set_calls("write", CallUse { count: 1050, ..CallUse::default() }),
        |w| w.set_calls("write", CallUse { count: 1051, ..CallUse::default() }),
    )
    .given(|w| set_waiting_time(w, ThreadState::Network, 800))
    .near_miss_is(Resource::Concurrency, Medium),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Concurrency, CASES);
}

/// Sets the CPU time of interrupts that the kernel bills to no program.
fn set_interrupts(w: &mut TrialWorld, interrupt_ns: u64) {
    let hosts = w.record.samples.iter_mut().map(|sample| sample.host.as_mut().expect("a machine"));
    hosts.zip([0, interrupt_ns]).for_each(|(host, ns)| host.interrupt_ns = Some(ns));
    w.last_sample().host.as_mut().expect("a machine").busy_ns += interrupt_ns;
}

/// A collector works without requests too.
#[test]
fn busy_collector_is_no_evidence_of_polling() {
    let mut world = TrialWorld { allowed_cpus: 4.0, ..TrialWorld::default() };
    world.set_rate(1000.0);
    world.set_in_flight_time(390 * MS);
    world.add_collector_thread(950 * MS);
    assert_eq!(world.limiter().resource, Resource::OfferedRate);
    assert!(!world.limiter().sentence.contains("polls"), "{}", world.limiter().sentence);
    world.set_server_cpu(950 * MS);
    assert!(world.limiter().sentence.contains("The server polls"), "{}", world.limiter().sentence);
}

/// Sets 16 requests in flight and four threads, each for `ms` of the second in this state.
fn set_waiting_time(w: &mut TrialWorld, state: ThreadState, ms: u64) {
    w.set_in_flight_time(16 * S);
    w.set_thread_states(4, state, ms);
}
