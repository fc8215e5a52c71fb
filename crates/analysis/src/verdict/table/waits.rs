//! Cases: the waits of a step, as seen inside the server.

use dyno_archive::sample::{CallUse, ListenerUse, SocketsUse, StateTimes, ThreadState};

use super::limiter::Case;
use super::world::{JudgedWorld, MS, S};
use crate::verdict::{Confidence, Resource};

pub(super) const CASES: &[Case] = &[
    Case {
        resource: Resource::Gc,
        confidence: Confidence::High,
        says: "The garbage collector: it used 30 % of the server's CPU time, and the server used \
               100 % of its allowed CPU time.",
        evidence: r#"{"cpu_utilisation": 1.0}"#,
        trips: |w| {
            w.serve(S);
            w.collect(300 * MS + 1);
        },
        just_not: |w| {
            w.serve(S);
            w.collect(300 * MS);
        },
        otherwise: (Resource::ServerCpu, Confidence::High),
    },
    Case {
        resource: Resource::DelayedAck,
        confidence: Confidence::High,
        says: "each connection gets 25 responses per second, each in 1.5 writes. Half of them take \
               40 ms,",
        evidence: r#"{"rate_per_connection": 25.0, "writes_per_response": 1.5}"#,
        trips: |w| w.delay(8, 40, 15),
        just_not: |w| w.delay(8, 40, 14),
        otherwise: (Resource::Concurrency, Confidence::Medium),
    },
    Case {
        resource: Resource::DelayedAck,
        confidence: Confidence::Medium,
        says: "gets 25 responses per second. Half of them",
        evidence: r#"{"writes_per_response": null}"#,
        trips: |w| {
            w.delay(8, 40, 20);
            w.used().calls = None;
        },
        just_not: |w| {
            w.delay(8, 20, 20);
            w.used().calls = None;
        },
        otherwise: (Resource::Concurrency, Confidence::Medium),
    },
    Case {
        resource: Resource::DelayedAck,
        confidence: Confidence::Medium,
        says: "gets 25 responses per second. Half of them",
        evidence: r#"{"nodelay": 0.0}"#,
        trips: |w| {
            w.delay(8, 40, 20);
            w.set_nodelay(0);
            w.used().calls = None;
        },
        just_not: |w| {
            w.delay(8, 40, 20);
            w.set_nodelay(8);
            w.used().calls = None;
        },
        otherwise: (Resource::Concurrency, Confidence::Medium),
    },
    Case {
        resource: Resource::AcceptQueue,
        confidence: Confidence::Medium,
        says: "The server's accept queue: 1 connections found it full,",
        evidence: r#"{"listen_overflows": 1}"#,
        trips: |w| {
            w.plan.requests_per_connection = Some(1);
            w.used().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
        just_not: |w| w.used().network.as_mut().expect("a network").listen_overflows = Some(1),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    // The server closes each connection after a response.
    Case {
        resource: Resource::AcceptQueue,
        confidence: Confidence::Medium,
        says: "The server's accept queue: 1 connections found it full,",
        evidence: r#"{"listen_overflows": 1}"#,
        trips: |w| {
            w.record.connections.opened = 64 + 500;
            w.used().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
        just_not: |w| {
            w.record.connections.opened = 64 + 499;
            w.used().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Memory,
        confidence: Confidence::High,
        says: "Memory: 50 page faults per second read from a disk,",
        evidence: r#"{"major_faults_per_s": 50.0, "disk_share": 0.3}"#,
        trips: |w| {
            w.spend(1, ThreadState::Disk, 300);
            w.each_used().for_each(|u| u.threads[0].faults_major = Some(0));
            w.used().threads[0].faults_major = Some(50);
        },
        just_not: |w| {
            w.spend(1, ThreadState::Disk, 300);
            w.each_used().for_each(|u| u.threads[0].faults_major = Some(0));
            w.used().threads[0].faults_major = Some(49);
        },
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Disk,
        confidence: Confidence::High,
        says: "A disk: the server's serving thread waited for a disk for 50 % of its time. On \
               average, 1.0 requests",
        evidence: r#"{"threads": 1, "in_flight": 1.0}"#,
        trips: |w| w.spend(1, ThreadState::Disk, 500),
        just_not: |w| w.spend(1, ThreadState::Disk, 499),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        says: "A lock: the server's 8 serving threads waited for each other (futex) for 50 % of \
               their time. On average, 8.0 requests",
        evidence: r#"{"threads": 8, "in_flight": 8.0, "server_utilisation": 0.5}"#,
        trips: |w| {
            w.hold(8 * S);
            w.spend(8, ThreadState::Lock, 500);
        },
        // With fewer requests than threads some wait for work.
        just_not: |w| {
            w.hold(8 * S - 1);
            w.spend(8, ThreadState::Lock, 500);
        },
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    // One thread of eight has nothing to do, which explains an eighth of the time.
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        says: "A lock: the server's 8 serving threads waited for each other (futex) for 63 % of \
               their time. On average, 7.0 requests",
        evidence: r#"{"threads": 8, "in_flight": 7.0}"#,
        trips: |w| {
            w.hold(7 * S);
            w.spend(8, ThreadState::Lock, 626);
        },
        just_not: |w| {
            w.hold(7 * S);
            w.spend(8, ThreadState::Lock, 624);
        },
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        says: "They may instead wait for work",
        evidence: r#"{"threads": 8, "in_flight": 15.0}"#,
        trips: |w| {
            w.hold(15 * S);
            w.spend(8, ThreadState::Lock, 875);
        },
        just_not: |w| {
            w.hold(14 * S);
            w.spend(8, ThreadState::Lock, 875);
        },
        otherwise: (Resource::Lock, Confidence::High),
    },
    Case {
        resource: Resource::Workers,
        confidence: Confidence::High,
        says: "The server's workers: its 8 serving threads slept for 90 % of their time. On \
               average, 64 requests were at the server, and it used 50 % of its CPU. Use more \
               workers",
        evidence: r#"{"threads": 8, "futex_waits_per_response": null}"#,
        trips: |w| {
            w.hold(64 * S);
            w.spend(8, ThreadState::Sleep, 900);
            w.sleep_each();
        },
        just_not: |w| {
            w.hold(64 * S);
            w.spend(8, ThreadState::Sleep, 400);
            w.sleep_each();
        },
        otherwise: (Resource::Elsewhere, Confidence::Medium),
    },
    // Threads that sleep, but not for requests.
    Case {
        resource: Resource::Workers,
        confidence: Confidence::High,
        says: "its 8 serving threads slept",
        evidence: "{}",
        trips: |w| {
            w.hold(64 * S);
            w.spend(8, ThreadState::Sleep, 900);
            w.call("clock_nanosleep", CallUse { count: 500, ..CallUse::default() });
        },
        just_not: |w| {
            w.hold(64 * S);
            w.spend(8, ThreadState::Sleep, 900);
            w.call("clock_nanosleep", CallUse { count: 499, ..CallUse::default() });
        },
        otherwise: (Resource::Elsewhere, Confidence::Medium),
    },
    // It is not known for what they sleep.
    Case {
        resource: Resource::Workers,
        confidence: Confidence::Medium,
        says: "its 8 serving threads slept",
        evidence: "{}",
        trips: |w| {
            w.hold(64 * S);
            w.spend(8, ThreadState::Sleep, 900);
            w.used().calls = None;
        },
        just_not: |w| {
            w.hold(64 * S);
            w.spend(8, ThreadState::Sleep, 900);
            w.sleep_each();
        },
        otherwise: (Resource::Workers, Confidence::High),
    },
    // A lock has one holder, and each thread is that for a while.
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        says: "Several threads worked at a time, so the threads may instead wait for a pool.",
        evidence: "{}",
        trips: |w| {
            w.hold(8 * S);
            w.spend(8, ThreadState::Lock, 812);
        },
        just_not: |w| {
            w.hold(8 * S);
            w.spend(8, ThreadState::Lock, 813);
        },
        otherwise: (Resource::Lock, Confidence::High),
    },
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        says: "The same thread worked all the time, so the others may instead wait for this \
               worker.",
        evidence: "{}",
        trips: |w| {
            w.hold(8 * S);
            work_in_one(w, 700);
        },
        just_not: |w| {
            w.hold(8 * S);
            work_in_one(w, 699);
        },
        otherwise: (Resource::Lock, Confidence::High),
    },
    // Requests that sleep and wait for other threads, as those of a JVM do.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Low,
        says: "each waits for time to pass. The server's 8 serving threads slept for 90 %",
        evidence: r#"{"futex_waits_per_response": 3.0}"#,
        trips: |w| {
            w.hold(8 * S);
            w.spend(8, ThreadState::Lock, 900);
            w.call(
                "futex(wait)",
                CallUse { count: 3000, errors: Some(600), again: Some(100), ..CallUse::default() },
            );
        },
        just_not: |w| {
            w.hold(8 * S);
            w.spend(8, ThreadState::Lock, 900);
            w.call(
                "futex(wait)",
                CallUse { count: 3000, errors: Some(599), again: Some(100), ..CallUse::default() },
            );
        },
        otherwise: (Resource::Lock, Confidence::High),
    },
    // Connections that wait to be accepted are requests that wait.
    Case {
        resource: Resource::AcceptQueue,
        confidence: Confidence::Medium,
        says: "The server's accept queue: 5 connections waited in it, with 10 requests in flight, \
               while the server used 50 %",
        evidence: r#"{"listen_overflows": null, "queued": 5}"#,
        trips: |w| queue(w, 5),
        just_not: |w| queue(w, 4),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    // A fast disk leaves little to wait for.
    Case {
        resource: Resource::Memory,
        confidence: Confidence::Medium,
        says: "Memory: 1000 page faults per second read from a disk, 1.0 per response. Give",
        evidence: r#"{"major_faults_per_response": 1.0, "disk_share": null}"#,
        trips: |w| {
            w.each_used().for_each(|u| u.threads[0].faults_major = Some(0));
            w.used().threads[0].faults_major = Some(1000);
        },
        just_not: |w| {
            w.each_used().for_each(|u| u.threads[0].faults_major = Some(0));
            w.used().threads[0].faults_major = Some(999);
        },
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Elsewhere,
        confidence: Confidence::Medium,
        says: "The serving threads waited for peers (requests, or responses of back ends) for 90 % \
               of",
        evidence: "{}",
        trips: |w| {
            w.hold(64 * S);
            w.spend(8, ThreadState::Network, 900);
        },
        just_not: |w| {
            w.hold(64 * S - 1);
            w.spend(8, ThreadState::Network, 900);
        },
        otherwise: (Resource::Concurrency, Confidence::Low),
    },
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        says: "for 95 % of their time. On average, 8.0 requests were at the server, and it used 50 \
               % of its CPU. No thread seems to hold it",
        evidence: r#"{"threads": 8}"#,
        trips: |w| {
            w.hold(8 * S);
            w.spend(8, ThreadState::Lock, 950);
        },
        just_not: |w| {
            w.hold(8 * S);
            w.spend(8, ThreadState::Lock, 937);
        },
        otherwise: (Resource::Lock, Confidence::High),
    },
    // As `Thread.sleep` of a JVM waits, and condition variables with a time-out.
    Case {
        resource: Resource::Workers,
        confidence: Confidence::Medium,
        says: "The server's workers: its 8 serving threads slept for 90 % of their time",
        evidence: r#"{"threads": 8, "futex_waits_per_response": 1.0}"#,
        trips: |w| {
            w.hold(64 * S);
            w.spend(8, ThreadState::Lock, 900);
            w.call(
                "futex(wait)",
                CallUse { count: 1000, errors: Some(600), again: Some(100), ..CallUse::default() },
            );
        },
        just_not: |w| {
            w.hold(64 * S);
            w.spend(8, ThreadState::Lock, 900);
            w.call(
                "futex(wait)",
                CallUse { count: 1000, errors: Some(599), again: Some(100), ..CallUse::default() },
            );
        },
        otherwise: (Resource::Lock, Confidence::Medium),
    },
    // As many threads as requests: none waits for a thread.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        says: "Too few requests in flight: each waits for time to pass. The server's 8 serving \
               threads slept for 90 %",
        evidence: r#"{"threads": 8, "in_flight": 9.599}"#,
        trips: |w| {
            w.hold(9599 * MS);
            w.spend(8, ThreadState::Sleep, 900);
            w.sleep_each();
        },
        just_not: |w| {
            w.hold(9600 * MS);
            w.spend(8, ThreadState::Sleep, 900);
            w.sleep_each();
        },
        otherwise: (Resource::Workers, Confidence::High),
    },
];

/// Eight threads, of which one is at work for so many milliseconds of the second and the others for
/// ten; they wait for a lock otherwise.
fn work_in_one(w: &mut JudgedWorld, ms: u64) {
    w.spend(8, ThreadState::Lock, 990);
    let seen = w.used().threads[0].seen.as_mut().expect("it was seen");
    seen.states =
        StateTimes { running_ns: ms * MS, lock_ns: (1000 - ms) * MS, ..StateTimes::default() };
}

/// Ten requests in flight, each with a connection, of which so many wait to be accepted.
fn queue(w: &mut JudgedWorld, queued: u64) {
    w.hold(10 * S);
    w.plan.requests_per_connection = Some(1);
    let listeners = vec![ListenerUse { port: 80, queued, backlog: 8 }];
    w.used().sockets = Some(SocketsUse { listeners, ..SocketsUse::default() });
}
