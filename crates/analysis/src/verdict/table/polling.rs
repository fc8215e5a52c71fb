//! Test cases: limiters of servers whose CPU is full because they poll.

use dyno_archive::sample::CallUse;

use super::limiter::{Case, case};
use super::world::{MS, S, TrialWorld};
use crate::verdict::{Confidence, Resource};

pub(super) const CASES: &[Case] = &[
    case(
        (Resource::Concurrency, Confidence::Medium),
        "the server used 100 % of its CPU. The server polls: part of its CPU time went into asking \
         for work when there was none. 3 system calls per response asked for work and found none.",
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
    .evidence(r#"{"cpu_utilisation": 1.0}"#)
    .near_miss_is(Resource::ServerCpu, Confidence::High),
    case(
        (Resource::Concurrency, Confidence::Medium),
        "there was none. 3 system calls per response",
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
    .evidence(r#"{"idle_polls_per_response": 3.0}"#)
    .near_miss_is(Resource::ServerCpu, Confidence::High),
    // A server that uses CPU time while no request is in flight polls: its full CPU is not the
    // limit.
    case(
        (Resource::OfferedRate, Confidence::High),
        "and used 100 % of its CPU. The server polls: part of its CPU time went into asking for \
         work when there was none. Only 0.39 requests were in flight on average, too few to keep \
         the server's CPU busy.",
        |w| w.set_in_flight_time(390 * MS),
        |w| w.set_in_flight_time(400 * MS),
    )
    .given(|w| {
        w.set_rate(1000.0);
        w.set_server_cpu(S);
    })
    // A server that spins fills its CPU at every rate.
    .near_miss_is(Resource::ServerCpu, Confidence::Medium),
    // The CPU of a server that reads until EAGAIN may be full of work.
    case(
        (Resource::OfferedRate, Confidence::High),
        "and used 100 % of its CPU. The server polls: ",
        |w| set_reads_at_rate(w, 39_000),
        |w| set_reads_at_rate(w, 20_000),
    )
    .near_miss_is(Resource::OfferedRate, Confidence::Medium),
    // With one request in flight, a server that does not poll sleeps between two requests.
    case(
        (Resource::Concurrency, Confidence::Medium),
        "there was none. The server's threads slept only 0.10 times per response. A server that \
         waits for each request sleeps about once per response.",
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
    .evidence(r#"{"voluntary_switches_per_response": 0.099, "idle_polls_per_response": null}"#)
    .near_miss_is(Resource::ServerCpu, Confidence::High),
    // With more requests in flight, a server that never sleeps may always have work.
    case(
        (Resource::Concurrency, Confidence::Medium),
        "The server's threads slept only 0.00 times per response",
        |w| w.set_in_flight_time(1100 * MS),
        |w| w.set_in_flight_time(1101 * MS),
    )
    .given(|w| {
        w.set_server_cpu(S);
        w.set_voluntary_switches(0);
    })
    .evidence(r#"{"in_flight": 1.1}"#)
    .near_miss_is(Resource::ServerCpu, Confidence::High),
    // A server that uses as much CPU time without requests polls, even if its calls are unknown.
    case(
        (Resource::Concurrency, Confidence::Medium),
        "The server polls: part of its CPU time went into asking for work when there was none. \
         Before the load, the server used 0.75 CPUs without any request.",
        |w| w.idle_cpus = Some(0.75),
        |w| w.idle_cpus = Some(0.74),
    )
    .given(|w| {
        w.set_server_cpu(S);
        w.set_in_flight_time(16 * S);
    })
    .near_miss_is(Resource::ServerCpu, Confidence::High),
    // Without calls, sleeps and its use without requests, a server may poll unseen.
    case(
        (Resource::ServerCpu, Confidence::Medium),
        "The server may poll (ask for work when there is none): its system calls were not counted, \
         and its use of CPU time without requests is unknown.",
        |_| {},
        |w| w.idle_cpus = Some(0.19),
    )
    .given(|w| {
        w.set_server_cpu(S);
        w.set_in_flight_time(16 * S);
        w.set_voluntary_switches(0);
        w.server_counters().calls = None;
    })
    .near_miss_is(Resource::ServerCpu, Confidence::High),
    // One thread polls, and the server may use several CPUs.
    case(
        (Resource::Concurrency, Confidence::Medium),
        "the server used 100 % of its CPU. The server polls:",
        |w| w.set_voluntary_switches(0),
        |_| {},
    )
    .given(|w| {
        w.allowed_cpus = 2.0;
        w.set_server_cpu(S);
    })
    .evidence(r#"{"cpu_utilisation": 0.5}"#)
    .near_miss_is(Resource::ServerThread, Confidence::High),
];

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

/// Sets 40,000 reads at a full CPU and an offered rate. `again`: reads that failed with EAGAIN.
fn set_reads_at_rate(w: &mut TrialWorld, again: u64) {
    w.set_rate(1000.0);
    w.set_server_cpu(S);
    let reads =
        CallUse { count: 40_000, errors: Some(again), again: Some(again), ..CallUse::default() };
    w.set_calls("recvfrom", reads);
}
