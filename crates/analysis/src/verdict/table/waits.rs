//! Test cases: limiters from the waits of the server's threads.

use dyno_archive::host::PressureUse;
use dyno_archive::sample::{CallUse, ListenerUse, SocketsUse, StateTimes, ThreadState};

use super::limiter::Case;
use super::world::{MS, S, TrialWorld};
use crate::verdict::{Confidence, Resource};

pub(super) const CASES: &[Case] = &[
    Case {
        resource: Resource::Gc,
        confidence: Confidence::High,
        claim: "The garbage collector: it used 30 % of the server's CPU time, and the server \
                   used 100 % of its allowed CPU time.",
        evidence: r#"{"cpu_utilisation": 1.0}"#,
        trigger: |w| {
            w.set_server_cpu(S);
            w.add_collector_thread(300 * MS + 1);
        },
        near_miss: |w| {
            w.set_server_cpu(S);
            w.add_collector_thread(300 * MS);
        },
        near_miss_verdict: (Resource::ServerCpu, Confidence::High),
    },
    Case {
        resource: Resource::DelayedAck,
        confidence: Confidence::High,
        claim: "each connection gets 25 responses per second, each in 1.5 writes. Half of the \
                responses take 40 ms or more,",
        evidence: r#"{"rate_per_connection": 25.0, "writes_per_response": 1.5}"#,
        trigger: |w| w.delay_responses(8, 40, 15),
        near_miss: |w| w.delay_responses(8, 40, 14),
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    // If few acknowledgements are delayed, the server may instead wait for a query between two
    // writes of a response.
    Case {
        resource: Resource::DelayedAck,
        confidence: Confidence::High,
        claim: "each connection gets 25 responses per second",
        evidence: r#"{"delayed_acks_per_response": 0.5}"#,
        trigger: |w| {
            w.delay_responses(8, 40, 20);
            w.set_delayed_acks(100);
        },
        near_miss: |w| {
            w.delay_responses(8, 40, 20);
            w.set_delayed_acks(99);
        },
        near_miss_verdict: (Resource::DelayedAck, Confidence::Medium),
    },
    Case {
        resource: Resource::DelayedAck,
        confidence: Confidence::High,
        claim: "each in 2.4 writes",
        evidence: r#"{"segments_per_response": 2.0}"#,
        trigger: |w| w.delay_responses(8, 40, 24),
        near_miss: |w| w.delay_responses(8, 40, 25),
        near_miss_verdict: (Resource::DelayedAck, Confidence::Medium),
    },
    Case {
        resource: Resource::DelayedAck,
        confidence: Confidence::High,
        claim: "each connection gets 25 responses per second",
        evidence: "{}",
        trigger: |w| w.delay_responses(8, 40, 20),
        near_miss: |w| {
            w.delay_responses(8, 40, 20);
            w.sleep_once_per_response();
        },
        near_miss_verdict: (Resource::DelayedAck, Confidence::Medium),
    },
    // Without the results of calls, a response may wait for a timer. Calls without a name may
    // sleep.
    Case {
        resource: Resource::DelayedAck,
        confidence: Confidence::Medium,
        claim: "each connection gets 25 responses per second",
        evidence: "{}",
        trigger: |w| {
            w.delay_responses(8, 40, 20);
            w.set_calls("epoll_wait", CallUse { count: 400, errors: None, ..CallUse::default() });
        },
        near_miss: |w| {
            w.delay_responses(8, 40, 20);
            let calls = CallUse { count: 400, returned: Some(400), ..CallUse::default() };
            w.set_calls("epoll_wait", calls);
        },
        near_miss_verdict: (Resource::DelayedAck, Confidence::High),
    },
    // A delayed acknowledgement explains at least 38 of the 40 ms. A server that computes each
    // response for more than the other 2 ms may spend the time in another way.
    Case {
        resource: Resource::DelayedAck,
        confidence: Confidence::High,
        claim: "each connection gets 25 responses per second",
        evidence: "{}",
        trigger: |w| w.delay_responses(8, 40, 20),
        near_miss: |w| {
            w.delay_responses(8, 40, 20);
            w.allowed_cpus = 4.0;
            w.server_cgroup().cpu_ns = Some(200 * 3 * MS);
        },
        near_miss_verdict: (Resource::DelayedAck, Confidence::Medium),
    },
    Case {
        resource: Resource::DelayedAck,
        confidence: Confidence::Medium,
        claim: "gets 25 responses per second. Half of the responses",
        evidence: r#"{"writes_per_response": null}"#,
        trigger: |w| {
            w.delay_responses(8, 40, 20);
            w.server_counters().calls = None;
        },
        near_miss: |w| {
            w.delay_responses(8, 20, 20);
            w.server_counters().calls = None;
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    Case {
        resource: Resource::DelayedAck,
        confidence: Confidence::Medium,
        claim: "gets 25 responses per second. Half of the responses",
        evidence: r#"{"nodelay": 0.0}"#,
        trigger: |w| {
            w.delay_responses(8, 40, 20);
            w.set_nodelay(0);
            w.server_counters().calls = None;
        },
        near_miss: |w| {
            w.delay_responses(8, 40, 20);
            w.set_nodelay(8);
            w.server_counters().calls = None;
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    Case {
        resource: Resource::AcceptQueue,
        confidence: Confidence::Medium,
        claim: "The server's accept queue: 1 connection found the queue full,",
        evidence: r#"{"listen_overflows": 1}"#,
        trigger: |w| {
            w.plan.requests_per_connection = Some(1);
            w.server_counters().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
        near_miss: |w| {
            w.server_counters().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    // The server closes each connection after its response.
    Case {
        resource: Resource::AcceptQueue,
        confidence: Confidence::Medium,
        claim: "The server's accept queue: 1 connection found the queue full,",
        evidence: r#"{"listen_overflows": 1}"#,
        trigger: |w| {
            w.record.connections.opened = 64 + 500;
            w.server_counters().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
        near_miss: |w| {
            w.record.connections.opened = 64 + 499;
            w.server_counters().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Memory,
        confidence: Confidence::High,
        claim: "Memory: 50 page faults per second read from a disk, and the serving threads waited \
                for the disk for 30 % of their time. Give the server more memory.",
        evidence: r#"{"major_faults_per_s": 50.0, "disk_share": 0.3, "memory_pressure": 0.15}"#,
        trigger: |w| read_pages(w, 50, Some(150 * MS)),
        near_miss: |w| read_pages(w, 49, Some(150 * MS)),
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    // If the memory pressure is below half of the time of waits for the disk, most pages may be
    // read for the first time.
    Case {
        resource: Resource::Memory,
        confidence: Confidence::High,
        claim: "Memory: 50 page faults",
        evidence: "{}",
        trigger: |w| read_pages(w, 50, Some(150 * MS)),
        near_miss: |w| read_pages(w, 50, Some(150 * MS - 1)),
        near_miss_verdict: (Resource::Memory, Confidence::Medium),
    },
    Case {
        resource: Resource::Memory,
        confidence: Confidence::Medium,
        claim: "Memory: 50 page faults",
        evidence: r#"{"memory_pressure": null}"#,
        trigger: |w| read_pages(w, 50, None),
        near_miss: |w| read_pages(w, 49, None),
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    // With free memory, all of the pages are read for the first time.
    Case {
        resource: Resource::Disk,
        confidence: Confidence::Medium,
        claim: "A disk: 50 page faults per second read from a disk, and the serving threads waited \
                for the disk for 30 % of their time. No program waited for memory",
        evidence: r#"{"disk_share": 0.3, "memory_pressure": 9.999e-6}"#,
        trigger: |w| read_pages(w, 50, Some(9999)),
        near_miss: |w| read_pages(w, 50, Some(10_000)),
        near_miss_verdict: (Resource::Memory, Confidence::Medium),
    },
    Case {
        resource: Resource::Disk,
        confidence: Confidence::High,
        claim: "A disk: the server's serving thread waited for a disk for 50 % of its time. On \
                   average, 1.0 requests",
        evidence: r#"{"threads": 1, "in_flight": 1.0}"#,
        trigger: |w| w.set_thread_states(1, ThreadState::Disk, 500),
        near_miss: |w| w.set_thread_states(1, ThreadState::Disk, 499),
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        claim: "A lock: the server's 8 serving threads waited for each other (futex) for 50 % \
                   of their time. On average, 8.0 requests",
        evidence: r#"{"threads": 8, "in_flight": 8.0, "server_utilisation": 0.5}"#,
        trigger: |w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 500);
        },
        // With fewer requests than threads, some threads wait for work.
        near_miss: |w| {
            w.set_in_flight_time(8 * S - 1);
            w.set_thread_states(8, ThreadState::Lock, 500);
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    // One of eight threads has no request, which explains an eighth of the time.
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        claim: "A lock: the server's 8 serving threads waited for each other (futex) for 63 % \
                   of their time. On average, 7.0 requests",
        evidence: r#"{"threads": 8, "in_flight": 7.0}"#,
        trigger: |w| {
            w.set_in_flight_time(7 * S);
            w.set_thread_states(8, ThreadState::Lock, 626);
        },
        near_miss: |w| {
            w.set_in_flight_time(7 * S);
            w.set_thread_states(8, ThreadState::Lock, 624);
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        claim: "The threads may instead wait for work",
        evidence: r#"{"threads": 8, "in_flight": 15.0}"#,
        trigger: |w| {
            w.set_in_flight_time(15 * S);
            w.set_thread_states(8, ThreadState::Lock, 875);
        },
        near_miss: |w| {
            w.set_in_flight_time(14 * S);
            w.set_thread_states(8, ThreadState::Lock, 875);
        },
        near_miss_verdict: (Resource::Lock, Confidence::High),
    },
    // Idle threads of an asynchronous runtime wait for work in futex, too. A server that writes
    // more than once per response may wait for a service.
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        claim: "while requests wait for a service to which the server writes",
        evidence: "{}",
        trigger: |w| {
            w.set_in_flight_time(14 * S);
            w.set_thread_states(8, ThreadState::Lock, 875);
            w.set_calls("write", CallUse { count: 1051, ..CallUse::default() });
        },
        near_miss: |w| {
            w.set_in_flight_time(14 * S);
            w.set_thread_states(8, ThreadState::Lock, 875);
            w.set_calls("write", CallUse { count: 1050, ..CallUse::default() });
        },
        near_miss_verdict: (Resource::Lock, Confidence::High),
    },
    Case {
        resource: Resource::Workers,
        confidence: Confidence::High,
        claim: "The server's workers: its 8 serving threads slept for 90 % of their time. On \
                average, 64 requests were at the server, which used 50 % of its CPU. Use more \
                workers",
        evidence: r#"{"threads": 8, "futex_waits_per_response": null}"#,
        trigger: |w| {
            w.set_in_flight_time(64 * S);
            w.set_thread_states(8, ThreadState::Sleep, 900);
            w.sleep_once_per_response();
        },
        near_miss: |w| {
            w.set_in_flight_time(64 * S);
            w.set_thread_states(8, ThreadState::Sleep, 400);
            w.sleep_once_per_response();
        },
        near_miss_verdict: (Resource::Elsewhere, Confidence::Medium),
    },
    // Threads that sleep less often than once per two responses do not sleep in requests.
    Case {
        resource: Resource::Workers,
        confidence: Confidence::High,
        claim: "its 8 serving threads slept",
        evidence: "{}",
        trigger: |w| {
            w.set_in_flight_time(64 * S);
            w.set_thread_states(8, ThreadState::Sleep, 900);
            w.set_calls("clock_nanosleep", CallUse { count: 500, ..CallUse::default() });
        },
        near_miss: |w| {
            w.set_in_flight_time(64 * S);
            w.set_thread_states(8, ThreadState::Sleep, 900);
            w.set_calls("clock_nanosleep", CallUse { count: 499, ..CallUse::default() });
        },
        near_miss_verdict: (Resource::Elsewhere, Confidence::Medium),
    },
    // Without counted calls it is unknown whether the threads sleep in requests.
    Case {
        resource: Resource::Workers,
        confidence: Confidence::Medium,
        claim: "its 8 serving threads slept",
        evidence: "{}",
        trigger: |w| {
            w.set_in_flight_time(64 * S);
            w.set_thread_states(8, ThreadState::Sleep, 900);
            w.server_counters().calls = None;
        },
        near_miss: |w| {
            w.set_in_flight_time(64 * S);
            w.set_thread_states(8, ThreadState::Sleep, 900);
            w.sleep_once_per_response();
        },
        near_miss_verdict: (Resource::Workers, Confidence::High),
    },
    // A lock has one holder at a time, and each thread is the holder for a while.
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        claim: "Several threads worked at a time, so the threads may instead wait for a pool.",
        evidence: "{}",
        trigger: |w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 812);
        },
        near_miss: |w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 813);
        },
        near_miss_verdict: (Resource::Lock, Confidence::High),
    },
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        claim: "The same thread worked all the time, so the other threads may instead wait for \
                that thread.",
        evidence: "{}",
        trigger: |w| {
            w.set_in_flight_time(8 * S);
            set_busy_thread(w, 700);
        },
        near_miss: |w| {
            w.set_in_flight_time(8 * S);
            set_busy_thread(w, 699);
        },
        near_miss_verdict: (Resource::Lock, Confidence::High),
    },
    // Threads that make no futex call wait within other calls, such as writes with O_DSYNC.
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        claim: "8 serving threads waited for each other (in the kernel) for 90 % of their time.",
        evidence: r#"{"futex_waits_per_response": 0.099}"#,
        trigger: |w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 900);
            w.set_calls("futex(wait)", CallUse { count: 99, ..CallUse::default() });
        },
        near_miss: |w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 900);
            w.set_calls("futex(wait)", CallUse { count: 99, ..CallUse::default() });
            w.set_calls("flock", CallUse { count: 1, ..CallUse::default() });
        },
        near_miss_verdict: (Resource::Lock, Confidence::High),
    },
    // Requests sleep and wait for other threads, as in a JVM.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Low,
        claim: "each waits for a timer. The server's 8 serving threads slept for 90 %",
        evidence: r#"{"futex_waits_per_response": 3.0}"#,
        trigger: |w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 900);
            w.set_calls(
                "futex(wait)",
                CallUse { count: 3000, errors: Some(600), again: Some(100), ..CallUse::default() },
            );
        },
        near_miss: |w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 900);
            w.set_calls(
                "futex(wait)",
                CallUse { count: 3000, errors: Some(599), again: Some(100), ..CallUse::default() },
            );
        },
        near_miss_verdict: (Resource::Lock, Confidence::High),
    },
    // Connections in the accept queue are waiting requests.
    Case {
        resource: Resource::AcceptQueue,
        confidence: Confidence::Medium,
        claim: "The server's accept queue: 8 connections waited in the queue, with 16 requests in \
                flight, while the server used 50 %",
        evidence: r#"{"listen_overflows": null, "queued": 8}"#,
        trigger: |w| set_accept_queue(w, 16, 8),
        near_miss: |w| set_accept_queue(w, 17, 8),
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    // A queue that is not full belongs to a server that accepts when it is ready.
    Case {
        resource: Resource::AcceptQueue,
        confidence: Confidence::Medium,
        claim: "The server's accept queue: 8 connections waited in the queue, with 10 requests in \
                flight",
        evidence: r#"{"listen_overflows": null, "queued": 8}"#,
        trigger: |w| set_accept_queue(w, 10, 8),
        near_miss: |w| set_accept_queue(w, 10, 7),
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    // Waits for a fast disk are short, so page faults per response decide.
    Case {
        resource: Resource::Memory,
        confidence: Confidence::Medium,
        claim: "Memory: 1000 page faults per second read from a disk, 1.0 per response. Give",
        evidence: r#"{"major_faults_per_response": 1.0, "disk_share": null}"#,
        trigger: |w| {
            w.all_server_counters().for_each(|u| u.threads[0].faults_major = Some(0));
            w.server_counters().threads[0].faults_major = Some(1000);
        },
        near_miss: |w| {
            w.all_server_counters().for_each(|u| u.threads[0].faults_major = Some(0));
            w.server_counters().threads[0].faults_major = Some(999);
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Elsewhere,
        confidence: Confidence::Medium,
        claim: "For 90 % of their time, the threads that serve requests waited on the network, for \
                requests or for responses of back ends.",
        evidence: "{}",
        trigger: |w| {
            w.set_in_flight_time(64 * S);
            w.set_thread_states(8, ThreadState::Network, 900);
        },
        near_miss: |w| {
            w.set_in_flight_time(64 * S - 1);
            w.set_thread_states(8, ThreadState::Network, 900);
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::Low),
    },
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        claim: "for 95 % of their time. On average, 8.0 requests were at the server, which used 50 \
                % of its CPU. No thread seems to hold the lock",
        evidence: r#"{"threads": 8}"#,
        trigger: |w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 950);
        },
        near_miss: |w| {
            w.set_in_flight_time(8 * S);
            w.set_thread_states(8, ThreadState::Lock, 937);
        },
        near_miss_verdict: (Resource::Lock, Confidence::High),
    },
    // `Thread.sleep` of a JVM and condition variables with a time-out wait in futex calls that end
    // by time-out.
    Case {
        resource: Resource::Workers,
        confidence: Confidence::Medium,
        claim: "The server's workers: its 8 serving threads slept for 90 % of their time",
        evidence: r#"{"threads": 8, "futex_waits_per_response": 1.0}"#,
        trigger: |w| {
            w.set_in_flight_time(64 * S);
            w.set_thread_states(8, ThreadState::Lock, 900);
            w.set_calls(
                "futex(wait)",
                CallUse { count: 1000, errors: Some(600), again: Some(100), ..CallUse::default() },
            );
        },
        near_miss: |w| {
            w.set_in_flight_time(64 * S);
            w.set_thread_states(8, ThreadState::Lock, 900);
            w.set_calls(
                "futex(wait)",
                CallUse { count: 1000, errors: Some(599), again: Some(100), ..CallUse::default() },
            );
        },
        near_miss_verdict: (Resource::Lock, Confidence::Medium),
    },
    // With fewer than 1.2 requests per thread, no request waits for a thread.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        claim: "Too few requests in flight: each waits for a timer. The server's 8 serving threads \
                slept for 90 %",
        evidence: r#"{"threads": 8, "in_flight": 9.599}"#,
        trigger: |w| {
            w.set_in_flight_time(9599 * MS);
            w.set_thread_states(8, ThreadState::Sleep, 900);
            w.sleep_once_per_response();
        },
        near_miss: |w| {
            w.set_in_flight_time(9600 * MS);
            w.set_thread_states(8, ThreadState::Sleep, 900);
            w.sleep_once_per_response();
        },
        near_miss_verdict: (Resource::Workers, Confidence::High),
    },
    // If on average fewer than half a thread waits, no requests queue.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::High,
        claim: "Too few requests in flight: 16 on average, and each",
        evidence: "{}",
        trigger: |w| set_waiting_time(w, ThreadState::Runnable, 124),
        near_miss: |w| set_waiting_time(w, ThreadState::Runnable, 125),
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::High,
        claim: "Too few requests in flight: 16 on average, and each",
        evidence: "{}",
        trigger: |w| set_waiting_time(w, ThreadState::Sleep, 400),
        near_miss: |w| {
            set_waiting_time(w, ThreadState::Sleep, 400);
            w.sleep_once_per_response();
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    // Requests may queue for a service to which the server writes.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::High,
        claim: "Too few requests in flight: 16 on average, and each",
        evidence: "{}",
        trigger: |w| {
            set_waiting_time(w, ThreadState::Network, 800);
            w.set_calls("write", CallUse { count: 1050, ..CallUse::default() });
        },
        near_miss: |w| {
            set_waiting_time(w, ThreadState::Network, 800);
            w.set_calls("write", CallUse { count: 1051, ..CallUse::default() });
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
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
