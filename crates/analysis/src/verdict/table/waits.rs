//! Test cases: limiters from the waits of the server's threads.

use dyno_archive::host::PressureUse;
use dyno_archive::sample::{CallUse, ListenerUse, SocketsUse, StateTimes, ThreadState};

use super::limiter::{Case, case};
use super::world::{MS, S, TrialWorld};
use crate::verdict::{Confidence, Resource};

pub(super) const CASES: &[Case] = &[
    case(
        (Resource::Gc, Confidence::High),
        "The garbage collector: it used 30 % of the server's CPU time, and the server used 100 % \
         of its allowed CPU time.",
        |w| w.add_collector_thread(300 * MS + 1),
        |w| w.add_collector_thread(300 * MS),
    )
    .given(|w| w.set_server_cpu(S))
    .evidence(r#"{"cpu_utilisation": 1.0}"#)
    .near_miss_is(Resource::ServerCpu, Confidence::High),
    case(
        (Resource::DelayedAck, Confidence::High),
        "each connection gets 25 responses per second, each in 1.5 writes. Half of the responses \
         take 40 ms or more,",
        |w| w.delay_responses(8, 40, 15),
        |w| w.delay_responses(8, 40, 14),
    )
    .evidence(r#"{"rate_per_connection": 25.0, "writes_per_response": 1.5}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // If few acknowledgements are delayed, the server may instead wait for a query between two
    // writes of a response.
    case(
        (Resource::DelayedAck, Confidence::High),
        "each connection gets 25 responses per second",
        |w| w.set_delayed_acks(100),
        |w| w.set_delayed_acks(99),
    )
    .given(|w| w.delay_responses(8, 40, 20))
    .evidence(r#"{"delayed_acks_per_response": 0.5}"#)
    .near_miss_is(Resource::DelayedAck, Confidence::Medium),
    case(
        (Resource::DelayedAck, Confidence::High),
        "each in 2.4 writes",
        |w| w.delay_responses(8, 40, 24),
        |w| w.delay_responses(8, 40, 25),
    )
    .evidence(r#"{"segments_per_response": 2.0}"#)
    .near_miss_is(Resource::DelayedAck, Confidence::Medium),
    case(
        (Resource::DelayedAck, Confidence::High),
        "each connection gets 25 responses per second",
        |w| w.delay_responses(8, 40, 20),
        |w| {
            w.delay_responses(8, 40, 20);
            w.sleep_once_per_response();
        },
    )
    .near_miss_is(Resource::DelayedAck, Confidence::Medium),
    // Without the results of calls, a response may wait for a timer. Calls without a name may
    // sleep.
    case(
        (Resource::DelayedAck, Confidence::Medium),
        "each connection gets 25 responses per second",
        |w| w.set_calls("epoll_wait", CallUse { count: 400, errors: None, ..CallUse::default() }),
        |w| {
            let calls = CallUse { count: 400, returned: Some(400), ..CallUse::default() };
            w.set_calls("epoll_wait", calls);
        },
    )
    .given(|w| w.delay_responses(8, 40, 20))
    .near_miss_is(Resource::DelayedAck, Confidence::High),
    // A delayed acknowledgement explains at least 38 of the 40 ms. A server that computes each
    // response for more than the other 2 ms may spend the time in another way.
    case(
        (Resource::DelayedAck, Confidence::High),
        "each connection gets 25 responses per second",
        |w| w.delay_responses(8, 40, 20),
        |w| {
            w.delay_responses(8, 40, 20);
            w.allowed_cpus = 4.0;
            w.server_cgroup().cpu_ns = Some(200 * 3 * MS);
        },
    )
    .near_miss_is(Resource::DelayedAck, Confidence::Medium),
    case(
        (Resource::DelayedAck, Confidence::Medium),
        "gets 25 responses per second. Half of the responses",
        |w| {
            w.delay_responses(8, 40, 20);
            w.server_counters().calls = None;
        },
        |w| {
            w.delay_responses(8, 20, 20);
            w.server_counters().calls = None;
        },
    )
    .evidence(r#"{"writes_per_response": null}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    case(
        (Resource::DelayedAck, Confidence::Medium),
        "gets 25 responses per second. Half of the responses",
        |w| {
            w.set_nodelay(0);
            w.server_counters().calls = None;
        },
        |w| {
            w.set_nodelay(8);
            w.server_counters().calls = None;
        },
    )
    .given(|w| w.delay_responses(8, 40, 20))
    .evidence(r#"{"nodelay": 0.0}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    case(
        (Resource::AcceptQueue, Confidence::Medium),
        "The server's accept queue: 1 connection found the queue full,",
        |w| {
            w.plan.requests_per_connection = Some(1);
            w.server_counters().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
        |w| {
            w.server_counters().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
    )
    .evidence(r#"{"listen_overflows": 1}"#),
    // The server closes each connection after its response.
    case(
        (Resource::AcceptQueue, Confidence::Medium),
        "The server's accept queue: 1 connection found the queue full,",
        |w| {
            w.record.connections.opened = 64 + 500;
            w.server_counters().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
        |w| {
            w.record.connections.opened = 64 + 499;
            w.server_counters().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
    )
    .evidence(r#"{"listen_overflows": 1}"#),
    case(
        (Resource::Memory, Confidence::High),
        "Memory: 50 page faults per second read from a disk, and the serving threads waited for \
         the disk for 30 % of their time. Give the server more memory.",
        |w| read_pages(w, 50, Some(150 * MS)),
        |w| read_pages(w, 49, Some(150 * MS)),
    )
    .evidence(r#"{"major_faults_per_s": 50.0, "disk_share": 0.3, "memory_pressure": 0.15}"#),
    // If the memory pressure is below half of the time of waits for the disk, most pages may be
    // read for the first time.
    case(
        (Resource::Memory, Confidence::High),
        "Memory: 50 page faults",
        |w| read_pages(w, 50, Some(150 * MS)),
        |w| read_pages(w, 50, Some(150 * MS - 1)),
    )
    .near_miss_is(Resource::Memory, Confidence::Medium),
    case(
        (Resource::Memory, Confidence::Medium),
        "Memory: 50 page faults",
        |w| read_pages(w, 50, None),
        |w| read_pages(w, 49, None),
    )
    .evidence(r#"{"memory_pressure": null}"#),
    // With free memory, all of the pages are read for the first time.
    case(
        (Resource::Disk, Confidence::Medium),
        "A disk: 50 page faults per second read from a disk, and the serving threads waited for \
         the disk for 30 % of their time. No program waited for memory",
        |w| read_pages(w, 50, Some(9999)),
        |w| read_pages(w, 50, Some(10_000)),
    )
    .evidence(r#"{"disk_share": 0.3, "memory_pressure": 9.999e-6}"#)
    .near_miss_is(Resource::Memory, Confidence::Medium),
    case(
        (Resource::Disk, Confidence::High),
        "A disk: the server's serving thread waited for a disk for 50 % of its time. On average, \
         1.0 requests",
        |w| w.set_thread_states(1, ThreadState::Disk, 500),
        |w| w.set_thread_states(1, ThreadState::Disk, 499),
    )
    .evidence(r#"{"threads": 1, "in_flight": 1.0}"#),
    case(
        (Resource::Lock, Confidence::Medium),
        "A lock: the server's 8 serving threads waited for each other (futex) for 50 % of their \
         time. On average, 8.0 requests",
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
    .evidence(r#"{"threads": 8, "in_flight": 8.0, "server_utilisation": 0.5}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // One of eight threads has no request, which explains an eighth of the time.
    case(
        (Resource::Lock, Confidence::Medium),
        "A lock: the server's 8 serving threads waited for each other (futex) for 63 % of their \
         time. On average, 7.0 requests",
        |w| w.set_thread_states(8, ThreadState::Lock, 626),
        |w| w.set_thread_states(8, ThreadState::Lock, 624),
    )
    .given(|w| w.set_in_flight_time(7 * S))
    .evidence(r#"{"threads": 8, "in_flight": 7.0}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    case(
        (Resource::Lock, Confidence::Medium),
        "The threads may instead wait for work",
        |w| {
            w.set_in_flight_time(15 * S);
            w.set_thread_states(8, ThreadState::Lock, 875);
        },
        |w| {
            w.set_in_flight_time(14 * S);
            w.set_thread_states(8, ThreadState::Lock, 875);
        },
    )
    .evidence(r#"{"threads": 8, "in_flight": 15.0}"#)
    .near_miss_is(Resource::Lock, Confidence::High),
    // Idle threads of an asynchronous runtime wait for work in futex, too. A server that writes
    // more than once per response may wait for a service.
    case(
        (Resource::Lock, Confidence::Medium),
        "while requests wait for a service to which the server writes",
        |w| w.set_calls("write", CallUse { count: 1051, ..CallUse::default() }),
        |w| w.set_calls("write", CallUse { count: 1050, ..CallUse::default() }),
    )
    .given(|w| {
        w.set_in_flight_time(14 * S);
        w.set_thread_states(8, ThreadState::Lock, 875);
    })
    .near_miss_is(Resource::Lock, Confidence::High),
    case(
        (Resource::Workers, Confidence::High),
        "The server's workers: its 8 serving threads slept for 90 % of their time. On average, 64 \
         requests were at the server, which used 50 % of its CPU. Use more workers",
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
    .evidence(r#"{"threads": 8, "futex_waits_per_response": null}"#)
    .near_miss_is(Resource::Elsewhere, Confidence::Medium),
    // Threads that sleep less often than once per two responses do not sleep in requests.
    case(
        (Resource::Workers, Confidence::High),
        "its 8 serving threads slept",
        |w| w.set_calls("clock_nanosleep", CallUse { count: 500, ..CallUse::default() }),
        |w| w.set_calls("clock_nanosleep", CallUse { count: 499, ..CallUse::default() }),
    )
    .given(|w| {
        w.set_in_flight_time(64 * S);
        w.set_thread_states(8, ThreadState::Sleep, 900);
    })
    .near_miss_is(Resource::Elsewhere, Confidence::Medium),
    // Without counted calls it is unknown whether the threads sleep in requests.
    case(
        (Resource::Workers, Confidence::Medium),
        "its 8 serving threads slept",
        |w| w.server_counters().calls = None,
        super::world::TrialWorld::sleep_once_per_response,
    )
    .given(|w| {
        w.set_in_flight_time(64 * S);
        w.set_thread_states(8, ThreadState::Sleep, 900);
    })
    .near_miss_is(Resource::Workers, Confidence::High),
    // A lock has one holder at a time, and each thread is the holder for a while.
    case(
        (Resource::Lock, Confidence::Medium),
        "Several threads worked at a time, so the threads may instead wait for a pool.",
        |w| w.set_thread_states(8, ThreadState::Lock, 812),
        |w| w.set_thread_states(8, ThreadState::Lock, 813),
    )
    .given(|w| w.set_in_flight_time(8 * S))
    .near_miss_is(Resource::Lock, Confidence::High),
    case(
        (Resource::Lock, Confidence::Medium),
        "The same thread worked all the time, so the other threads may instead wait for that \
         thread.",
        |w| set_busy_thread(w, 700),
        |w| set_busy_thread(w, 699),
    )
    .given(|w| w.set_in_flight_time(8 * S))
    .near_miss_is(Resource::Lock, Confidence::High),
    // Threads that make no futex call wait within other calls, such as writes with O_DSYNC.
    case(
        (Resource::Lock, Confidence::Medium),
        "8 serving threads waited for each other (in the kernel) for 90 % of their time.",
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
    .evidence(r#"{"futex_waits_per_response": 0.099}"#)
    .near_miss_is(Resource::Lock, Confidence::High),
    // Requests sleep and wait for other threads, as in a JVM.
    case(
        (Resource::Concurrency, Confidence::Low),
        "each waits for a timer. The server's 8 serving threads slept for 90 %",
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
    .evidence(r#"{"futex_waits_per_response": 3.0}"#)
    .near_miss_is(Resource::Lock, Confidence::High),
    // Connections in the accept queue are waiting requests.
    case(
        (Resource::AcceptQueue, Confidence::Medium),
        "The server's accept queue: 8 connections waited in the queue, with 16 requests in flight, \
         while the server used 50 %",
        |w| set_accept_queue(w, 16, 8),
        |w| set_accept_queue(w, 17, 8),
    )
    .evidence(r#"{"listen_overflows": null, "queued": 8}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // A queue that is not full belongs to a server that accepts when it is ready.
    case(
        (Resource::AcceptQueue, Confidence::Medium),
        "The server's accept queue: 8 connections waited in the queue, with 10 requests in flight",
        |w| set_accept_queue(w, 10, 8),
        |w| set_accept_queue(w, 10, 7),
    )
    .evidence(r#"{"listen_overflows": null, "queued": 8}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // Waits for a fast disk are short, so page faults per response decide.
    case(
        (Resource::Memory, Confidence::Medium),
        "Memory: 1000 page faults per second read from a disk, 1.0 per response. Give",
        |w| w.server_counters().threads[0].faults_major = Some(1000),
        |w| w.server_counters().threads[0].faults_major = Some(999),
    )
    .given(|w| w.all_server_counters().for_each(|u| u.threads[0].faults_major = Some(0)))
    .evidence(r#"{"major_faults_per_response": 1.0, "disk_share": null}"#),
    case(
        (Resource::Elsewhere, Confidence::Medium),
        "For 90 % of their time, the threads that serve requests waited on the network, for \
         requests or for responses of back ends.",
        |w| {
            w.set_in_flight_time(64 * S);
            w.set_thread_states(8, ThreadState::Network, 900);
        },
        |w| {
            w.set_in_flight_time(64 * S - 1);
            w.set_thread_states(8, ThreadState::Network, 900);
        },
    )
    .near_miss_is(Resource::Concurrency, Confidence::Low),
    case(
        (Resource::Lock, Confidence::Medium),
        "for 95 % of their time. On average, 8.0 requests were at the server, which used 50 % of \
         its CPU. No thread seems to hold the lock",
        |w| w.set_thread_states(8, ThreadState::Lock, 950),
        |w| w.set_thread_states(8, ThreadState::Lock, 937),
    )
    .given(|w| w.set_in_flight_time(8 * S))
    .evidence(r#"{"threads": 8}"#)
    .near_miss_is(Resource::Lock, Confidence::High),
    // `Thread.sleep` of a JVM and condition variables with a time-out wait in futex calls that end
    // by time-out.
    case(
        (Resource::Workers, Confidence::Medium),
        "The server's workers: its 8 serving threads slept for 90 % of their time",
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
    .evidence(r#"{"threads": 8, "futex_waits_per_response": 1.0}"#)
    .near_miss_is(Resource::Lock, Confidence::Medium),
    // With fewer than 1.2 requests per thread, no request waits for a thread.
    case(
        (Resource::Concurrency, Confidence::Medium),
        "Too few requests in flight: each waits for a timer. The server's 8 serving threads slept \
         for 90 %",
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
    .evidence(r#"{"threads": 8, "in_flight": 9.599}"#)
    .near_miss_is(Resource::Workers, Confidence::High),
    // If on average fewer than half a thread waits, no requests queue.
    case(
        (Resource::Concurrency, Confidence::High),
        "Too few requests in flight: 16 on average, and each",
        |w| set_waiting_time(w, ThreadState::Runnable, 124),
        |w| set_waiting_time(w, ThreadState::Runnable, 125),
    )
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    case(
        (Resource::Concurrency, Confidence::High),
        "Too few requests in flight: 16 on average, and each",
        |w| set_waiting_time(w, ThreadState::Sleep, 400),
        |w| {
            set_waiting_time(w, ThreadState::Sleep, 400);
            w.sleep_once_per_response();
        },
    )
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // Requests may queue for a service to which the server writes.
    case(
        (Resource::Concurrency, Confidence::High),
        "Too few requests in flight: 16 on average, and each",
        |w| w.set_calls("write", CallUse { count: 1050, ..CallUse::default() }),
        |w| w.set_calls("write", CallUse { count: 1051, ..CallUse::default() }),
    )
    .given(|w| set_waiting_time(w, ThreadState::Network, 800))
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
];

/// Sets 16 requests in flight and four threads, each for `ms` of the second in this state.
fn set_waiting_time(w: &mut TrialWorld, state: ThreadState, ms: u64) {
    w.set_in_flight_time(16 * S);
    w.set_thread_states(4, state, ms);
}

/// Sets eight threads that wait for a lock. One thread works for `ms` of the second, the others for
/// 10 ms.
fn set_busy_thread(w: &mut TrialWorld, ms: u64) {
    w.set_thread_states(8, ThreadState::Lock, 990);
    let scheduler = w.server_counters().threads[0].seen.as_mut().expect("a scheduler record");
    scheduler.states =
        StateTimes { running_ns: ms * MS, lock_ns: (1000 - ms) * MS, ..StateTimes::default() };
}

/// Sets the page faults that read from a disk, for 300 ms of the second, and the time in which a
/// program waited for memory; `None`: unknown.
fn read_pages(w: &mut TrialWorld, faults: u64, waited_ns: Option<u64>) {
    w.set_thread_states(1, ThreadState::Disk, 300);
    w.all_server_counters().for_each(|u| u.threads[0].faults_major = Some(0));
    w.server_counters().threads[0].faults_major = Some(faults);
    for (sample, ns) in w.record.samples.iter_mut().zip([Some(0), waited_ns]) {
        let pressure = PressureUse { memory_ns: ns, ..PressureUse::default() };
        sample.host.as_mut().expect("a machine").pressure = Some(pressure);
    }
}

/// Sets requests in flight with a connection each, and how many of these wait to be accepted. The
/// queue is full with eight connections.
fn set_accept_queue(w: &mut TrialWorld, in_flight: u64, queued: u64) {
    w.set_in_flight_time(in_flight * S);
    w.plan.requests_per_connection = Some(1);
    let listeners = vec![ListenerUse { port: 80, queued, backlog: 8 }];
    w.server_counters().sockets = Some(SocketsUse { listeners, ..SocketsUse::default() });
}
