//! Cases: what a step waited for, as what is seen inside the server tells.

use dyno_archive::sample::{CallUse, State};

use super::limiter::Case;
use super::world::{MS, S};
use crate::verdict::{Confidence, Resource};

pub(super) const CASES: &[Case] = &[
    Case {
        resource: Resource::Gc,
        confidence: Confidence::High,
        says: "The garbage collector: it used 30 % of the server's CPU time, and the server 100 % of what it may use.",
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
        says: "each connection gets 25 answers per second, each in 1.5 writes, half of them after 40 ms",
        evidence: r#"{"rate_per_connection": 25.0, "writes_per_response": 1.5}"#,
        trips: |w| w.delay(8, 40, 15),
        just_not: |w| w.delay(8, 40, 14),
        otherwise: (Resource::Concurrency, Confidence::Medium),
    },
    Case {
        resource: Resource::DelayedAck,
        confidence: Confidence::Medium,
        says: "gets 25 answers per second, half of them",
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
        says: "gets 25 answers per second, half of them",
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
        says: "The server's queue of connections: 1 found it full",
        evidence: r#"{"listen_overflows": 1}"#,
        trips: |w| {
            w.plan.requests_per_connection = Some(1);
            w.used().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
        just_not: |w| w.used().network.as_mut().expect("a network").listen_overflows = Some(1),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Memory,
        confidence: Confidence::High,
        says: "Memory: 50 page faults per second were served from a disk",
        evidence: r#"{"major_faults_per_s": 50.0, "disk_share": 0.3}"#,
        trips: |w| {
            w.spend(1, State::Disk, 300);
            w.each_used().for_each(|u| u.threads[0].faults_major = Some(0));
            w.used().threads[0].faults_major = Some(50);
        },
        just_not: |w| {
            w.spend(1, State::Disk, 300);
            w.each_used().for_each(|u| u.threads[0].faults_major = Some(0));
            w.used().threads[0].faults_major = Some(49);
        },
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Disk,
        confidence: Confidence::High,
        says: "A disk: the server's thread that serves was waiting for one for 50 % of its time, while 1.0 requests",
        evidence: r#"{"threads": 1, "in_flight": 1.0}"#,
        trips: |w| w.spend(1, State::Disk, 500),
        just_not: |w| w.spend(1, State::Disk, 499),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Lock,
        confidence: Confidence::High,
        says: "A lock: the server's 8 threads that serve were waiting for each other (futex) for 50 % of their time, while 8.0 requests",
        evidence: r#"{"threads": 8, "in_flight": 8.0, "server_utilisation": 0.5}"#,
        trips: |w| {
            w.hold(8 * S);
            w.spend(8, State::Lock, 500);
        },
        // With fewer requests than threads some wait for work.
        just_not: |w| {
            w.hold(8 * S - 1);
            w.spend(8, State::Lock, 500);
        },
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    // One thread of eight has nothing to do, which explains an eighth of the time.
    Case {
        resource: Resource::Lock,
        confidence: Confidence::High,
        says: "A lock: the server's 8 threads that serve were waiting for each other (futex) for 63 % of their time, while 7.0 requests",
        evidence: r#"{"threads": 8, "in_flight": 7.0}"#,
        trips: |w| {
            w.hold(7 * S);
            w.spend(8, State::Lock, 626);
        },
        just_not: |w| {
            w.hold(7 * S);
            w.spend(8, State::Lock, 624);
        },
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        says: "It may also be work that they wait for",
        evidence: r#"{"threads": 8, "in_flight": 9.0}"#,
        trips: |w| {
            w.hold(9 * S);
            w.spend(8, State::Lock, 500);
        },
        just_not: |w| {
            w.hold(8 * S);
            w.spend(8, State::Lock, 500);
        },
        otherwise: (Resource::Lock, Confidence::High),
    },
    Case {
        resource: Resource::Workers,
        confidence: Confidence::High,
        says: "The server's workers: its 8 threads that serve were asleep for 90 % of their time, while 64 requests were there on average and the server used 50 % of its CPU. More of them",
        evidence: r#"{"threads": 8, "futex_waits_per_response": null}"#,
        trips: |w| {
            w.hold(64 * S);
            w.spend(8, State::Sleep, 900);
        },
        just_not: |w| {
            w.hold(64 * S);
            w.spend(8, State::Sleep, 400);
        },
        otherwise: (Resource::Elsewhere, Confidence::Medium),
    },
    Case {
        resource: Resource::Elsewhere,
        confidence: Confidence::Medium,
        says: "The threads that serve waited 90 % of their time for peers: for requests, or for answers of services behind it.",
        evidence: "{}",
        trips: |w| {
            w.hold(64 * S);
            w.spend(8, State::Network, 900);
        },
        just_not: |w| {
            w.hold(64 * S - 1);
            w.spend(8, State::Network, 900);
        },
        otherwise: (Resource::Concurrency, Confidence::Low),
    },
    Case {
        resource: Resource::Lock,
        confidence: Confidence::Medium,
        says: "for 95 % of their time, while 8.0 requests were there on average and the server used 50 % of its CPU. No thread is seen that holds it",
        evidence: r#"{"threads": 8}"#,
        trips: |w| {
            w.hold(8 * S);
            w.spend(8, State::Lock, 950);
        },
        just_not: |w| {
            w.hold(8 * S);
            w.spend(8, State::Lock, 937);
        },
        otherwise: (Resource::Lock, Confidence::High),
    },
    // As `Thread.sleep` of a JVM waits, and condition variables with a time-out.
    Case {
        resource: Resource::Workers,
        confidence: Confidence::High,
        says: "The server's workers: its 8 threads that serve were asleep for 90 % of their time",
        evidence: r#"{"threads": 8, "futex_waits_per_response": 1.0}"#,
        trips: |w| {
            w.hold(64 * S);
            w.spend(8, State::Lock, 900);
            w.call(
                "futex(wait)",
                CallUse { count: 1000, errors: Some(600), again: Some(100), ..CallUse::default() },
            );
        },
        just_not: |w| {
            w.hold(64 * S);
            w.spend(8, State::Lock, 900);
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
        says: "Too few requests in flight: each waits for time to pass. The server's 8 threads that serve were asleep for 90 %",
        evidence: r#"{"threads": 8, "in_flight": 9.599}"#,
        trips: |w| {
            w.hold(9599 * MS);
            w.spend(8, State::Sleep, 900);
        },
        just_not: |w| {
            w.hold(9600 * MS);
            w.spend(8, State::Sleep, 900);
        },
        otherwise: (Resource::Workers, Confidence::High),
    },
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        says: "the server used 100 % of its CPU, but to poll: 3 calls per response asked for something to do and got nothing",
        evidence: r#"{"cpu_utilisation": 1.0}"#,
        trips: |w| {
            w.serve(S);
            w.call(
                "epoll_wait",
                CallUse { count: 4000, returned: Some(1000), errors: Some(0), ..CallUse::default() },
            );
        },
        just_not: |w| {
            w.serve(S);
            w.call(
                "epoll_wait",
                CallUse { count: 3999, returned: Some(1000), errors: Some(0), ..CallUse::default() },
            );
        },
        otherwise: (Resource::ServerCpu, Confidence::High),
    },
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        says: "but to poll: 3 calls per response",
        evidence: r#"{"idle_polls_per_response": 3.0}"#,
        trips: |w| {
            w.serve(S);
            w.call(
                "recvfrom",
                CallUse { count: 4000, errors: Some(3000), again: Some(3000), ..CallUse::default() },
            );
        },
        just_not: |w| {
            w.serve(S);
            w.call(
                "recvfrom",
                CallUse { count: 4000, errors: Some(3000), again: Some(2999), ..CallUse::default() },
            );
        },
        otherwise: (Resource::ServerCpu, Confidence::High),
    },
];
