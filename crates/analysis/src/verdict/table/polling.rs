//! Cases: servers whose CPU is full because they poll.

use dyno_archive::sample::CallUse;

use super::limiter::Case;
use super::world::{MS, S};
use crate::verdict::{Confidence, Resource};

pub(super) const CASES: &[Case] = &[
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        says: "the server used 100 % of its CPU, but it polls: 3 calls per response asked for work \
               and found none",
        evidence: r#"{"cpu_utilisation": 1.0}"#,
        trips: |w| {
            w.serve(S);
            w.call(
                "epoll_wait",
                CallUse {
                    count: 4000,
                    returned: Some(1000),
                    errors: Some(0),
                    ..CallUse::default()
                },
            );
        },
        just_not: |w| {
            w.serve(S);
            w.call(
                "epoll_wait",
                CallUse {
                    count: 3999,
                    returned: Some(1000),
                    errors: Some(0),
                    ..CallUse::default()
                },
            );
        },
        otherwise: (Resource::ServerCpu, Confidence::High),
    },
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        says: "but it polls: 3 calls per response",
        evidence: r#"{"idle_polls_per_response": 3.0}"#,
        trips: |w| {
            w.serve(S);
            w.call(
                "recvfrom",
                CallUse {
                    count: 4000,
                    errors: Some(3000),
                    again: Some(3000),
                    ..CallUse::default()
                },
            );
        },
        just_not: |w| {
            w.serve(S);
            w.call(
                "recvfrom",
                CallUse {
                    count: 4000,
                    errors: Some(3000),
                    again: Some(2999),
                    ..CallUse::default()
                },
            );
        },
        otherwise: (Resource::ServerCpu, Confidence::High),
    },
    // A server that computes while no request is there polls: its full CPU is no limit.
    Case {
        resource: Resource::OfferedRate,
        confidence: Confidence::High,
        says: "and used 100 % of its CPU. It polls: it used CPU time although only 0.39 requests \
               were in flight on average.",
        evidence: "{}",
        trips: |w| {
            w.set_rate(1000.0);
            w.serve(S);
            w.hold(390 * MS);
        },
        just_not: |w| {
            w.set_rate(1000.0);
            w.serve(S);
            w.hold(400 * MS);
        },
        otherwise: (Resource::ServerCpu, Confidence::High),
    },
    // With one request in flight it has nothing to do until the next one comes.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        says: "but it polls: its threads slept 0.10 times per response, and a thread that waits \
               for each request sleeps once.",
        evidence: r#"{"voluntary_switches_per_response": 0.099, "idle_polls_per_response": null}"#,
        trips: |w| {
            w.serve(S);
            w.sleep_times(99);
            w.used().calls = None;
        },
        just_not: |w| {
            w.serve(S);
            w.sleep_times(100);
            w.used().calls = None;
        },
        otherwise: (Resource::ServerCpu, Confidence::High),
    },
    // With more in flight a server that never sleeps may always have one to answer.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        says: "its threads slept 0.00 times per response",
        evidence: r#"{"in_flight": 1.1}"#,
        trips: |w| {
            w.serve(S);
            w.sleep_times(0);
            w.hold(1100 * MS);
        },
        just_not: |w| {
            w.serve(S);
            w.sleep_times(0);
            w.hold(1101 * MS);
        },
        otherwise: (Resource::ServerCpu, Confidence::High),
    },
    // One thread that polls, of a server that may use several CPUs.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        says: "the server used 100 % of its CPU, but it polls:",
        evidence: r#"{"cpu_utilisation": 0.5}"#,
        trips: |w| {
            w.allowed_cpus = 2.0;
            w.serve(S);
            w.sleep_times(0);
        },
        just_not: |w| {
            w.allowed_cpus = 2.0;
            w.serve(S);
        },
        otherwise: (Resource::ServerThread, Confidence::High),
    },
];
