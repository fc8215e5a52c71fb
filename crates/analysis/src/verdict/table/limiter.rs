//! Cases: what limited a step.

use std::collections::BTreeSet;

use dyno_archive::outcome::Outcome;
use dyno_archive::plan::Arrivals;

use super::world::{JudgedWorld, MS, S};
use super::{missing_in, other_programs, polling, waits};
use crate::backend::BackendUse;
use crate::server::ServerUse;
use crate::verdict::{Confidence, Limiter, Resource};

/// One bound of a rule, with a world on either side of it.
pub(super) struct Case {
    pub(super) resource: Resource,
    pub(super) confidence: Confidence,
    /// Part of its sentence, with the numbers.
    pub(super) says: &'static str,
    pub(super) evidence: &'static str,
    pub(super) trips: fn(&mut JudgedWorld),
    pub(super) just_not: fn(&mut JudgedWorld),
    /// The verdict in the world of `just_not`.
    pub(super) otherwise: (Resource, Confidence),
}

const CASES: &[Case] = &[
    Case {
        resource: Resource::Failure,
        confidence: Confidence::High,
        says: "The server failed during this step: it left.",
        evidence: "{}",
        trips: |w| w.record.server_failure = Some("it left".into()),
        just_not: |_| {},
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Failure,
        confidence: Confidence::High,
        says: "No request got a correct response. Most ended as reset, 1.0 per second.",
        evidence: "{}",
        trips: |w| {
            *w = JudgedWorld::with_answers(0);
            w.end(1, Outcome::Reset);
        },
        just_not: |w| w.end(1, Outcome::Reset),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    // A server that does other work than what was asked for is limited by nothing that is known.
    Case {
        resource: Resource::Failure,
        confidence: Confidence::High,
        says: "1 responses had an unexpected status and 0 an unexpected body",
        evidence: r#"{"unexpected_status": 1}"#,
        trips: |w| w.end(1, Outcome::UnexpectedStatus),
        just_not: |w| w.end(1, Outcome::ClosedEarly),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::DroppedPackets,
        confidence: Confidence::High,
        says: "The machine dropped packets while this step ran: 1 by connection tracking, with 64 \
               of 64 table entries in use.",
        evidence: r#"{"tracking": 1, "tracking_entries": 64, "tracking_most": 64}"#,
        trips: |w| {
            *w = JudgedWorld::with_answers(0);
            w.end(1, Outcome::ConnectTimeout);
            w.track(64, 1);
        },
        just_not: |w| {
            *w = JudgedWorld::with_answers(0);
            w.end(1, Outcome::ConnectTimeout);
            w.track(64, 0);
        },
        otherwise: (Resource::Failure, Confidence::High),
    },
    // A process that ended did so itself.
    Case {
        resource: Resource::DroppedPackets,
        confidence: Confidence::High,
        says: "The machine dropped packets while this step ran: 9 by connection tracking",
        evidence: r#"{"tracking": 9}"#,
        trips: |w| w.track(64, 9),
        just_not: |w| {
            w.track(64, 9);
            w.record.server_failure = Some("crashed: it left".into());
        },
        otherwise: (Resource::Failure, Confidence::High),
    },
    Case {
        resource: Resource::Refusal,
        confidence: Confidence::High,
        says: "All connections were refused, 1.0 per second. This is expected: no server listens \
               there.",
        evidence: r#"{"refused": 1}"#,
        trips: |w| {
            *w = JudgedWorld::with_answers(0);
            w.refuses = true;
            w.end(1, Outcome::ConnectRefused);
        },
        just_not: |w| {
            *w = JudgedWorld::with_answers(0);
            w.refuses = true;
            w.end(1, Outcome::ConnectReset);
        },
        otherwise: (Resource::Failure, Confidence::High),
    },
    Case {
        resource: Resource::Generator,
        confidence: Confidence::High,
        says: "The generator: its busiest thread was busy for 85 % of the time, while the server \
               used 50 % of its allowed CPU time.",
        evidence: r#"{"generator_utilisation": 0.850000001, "generator_need": 0.850000001, "server_utilisation": 0.5}"#,
        trips: |w| w.generate(&[(850 * MS + 1, 0)]),
        just_not: |w| w.generate(&[(850 * MS, 0)]),
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    // With a busy server the generator is the likely limit; with a full one it is not.
    Case {
        resource: Resource::Generator,
        confidence: Confidence::High,
        says: "while the server used 90 % of its allowed CPU time.",
        evidence: "{}",
        trips: |w| {
            w.generate(&[(900 * MS, 0)]);
            w.serve(900 * MS - 1);
        },
        just_not: |w| {
            w.generate(&[(900 * MS, 0)]);
            w.serve(900 * MS);
        },
        otherwise: (Resource::Generator, Confidence::Medium),
    },
    Case {
        resource: Resource::Generator,
        confidence: Confidence::Medium,
        says: "while the server used 95 % of its allowed CPU time. This is likely, not certain.",
        evidence: r#"{"server_utilisation": 0.949999999}"#,
        trips: |w| {
            w.generate(&[(900 * MS, 0)]);
            w.serve(950 * MS - 1);
        },
        just_not: |w| {
            w.generate(&[(900 * MS, 0)]);
            w.serve(950 * MS);
        },
        otherwise: (Resource::ServerCpu, Confidence::High),
    },
    Case {
        resource: Resource::Generator,
        confidence: Confidence::Medium,
        says: " of the time.",
        evidence: r#"{"server_utilisation": null}"#,
        trips: |w| {
            w.generate(&[(900 * MS, 0)]);
            w.record.samples.clear();
        },
        just_not: |w| w.record.samples.clear(),
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::Jit,
        confidence: Confidence::High,
        says: "The JIT compiler: it used 20 % of the server's CPU time, and the server used 100 % \
               of its allowed CPU time.",
        evidence: r#"{"jit_share": 0.200000001, "cpu_utilisation": 1.0}"#,
        trips: |w| {
            w.serve(S);
            w.compile(200 * MS + 1);
        },
        just_not: |w| {
            w.serve(S);
            w.compile(200 * MS);
        },
        otherwise: (Resource::ServerCpu, Confidence::High),
    },
    Case {
        resource: Resource::Jit,
        confidence: Confidence::High,
        says: "and the server used 90 % of its allowed CPU time.",
        evidence: "{}",
        trips: |w| {
            w.serve(900 * MS);
            w.compile(300 * MS);
        },
        just_not: |w| {
            w.serve(900 * MS - 1);
            w.compile(300 * MS);
        },
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::CpuQuota,
        confidence: Confidence::High,
        says: "The server's CPU quota: it was throttled in 51 of 1000 periods (5.1 %).",
        evidence: r#"{"throttled_periods": 51, "periods": 1000, "throttled_s": 1.6}"#,
        trips: |w| throttle(w, 51),
        just_not: |w| throttle(w, 50),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::OfferedRate,
        confidence: Confidence::High,
        says: "The offered rate: the server kept up with 1000 requests per second in 1.0 s of the \
               window and used 50 % of its CPU.",
        evidence: r#"{"offered": 1000.0, "seconds": 0.996999424}"#,
        trips: |w| w.set_rate(1000.0),
        just_not: |w| {
            w.set_rate(1000.0);
            w.interval().started = 1500;
        },
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::OfferedRate,
        confidence: Confidence::High,
        says: "and used 95 % of its CPU.",
        evidence: "{}",
        trips: |w| {
            w.set_rate(1000.0);
            w.serve(950 * MS - 1);
        },
        just_not: |w| {
            w.set_rate(1000.0);
            w.serve(950 * MS);
        },
        otherwise: (Resource::ServerCpu, Confidence::High),
    },
    Case {
        resource: Resource::OfferedRate,
        confidence: Confidence::High,
        says: "kept up with 1000 requests per second on average in 1.0 s of the window.",
        evidence: "{}",
        trips: |w| {
            w.step.arrivals = trace();
            w.record.samples.clear();
        },
        just_not: |w| w.record.samples.clear(),
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::ServerCpu,
        confidence: Confidence::High,
        says: "The server's CPU: it used 90 % of the one CPU it may use.",
        evidence: r#"{"cpu_utilisation": 0.9}"#,
        trips: |w| w.serve(900 * MS),
        just_not: |w| {
            w.serve(900 * MS - 1);
            w.used().threads.clear();
        },
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::ServerCpu,
        confidence: Confidence::High,
        says: "it used 90 % of the one CPU it may use.",
        evidence: "{}",
        trips: |w| w.set_seconds(&[(1000, 900 * MS), (1000, 900 * MS)]),
        just_not: |w| w.set_seconds(&[(1000, 700 * MS), (1000, 700 * MS)]),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::ServerCpu,
        confidence: Confidence::High,
        says: "it used 100 % of the 1.5 CPUs it may use.",
        evidence: r#"{"cpu_utilisation": 1.0}"#,
        trips: |w| {
            w.serve(1500 * MS);
            w.allowed_cpus = 1.5;
        },
        just_not: |w| {
            w.serve(800 * MS);
            w.allowed_cpus = 1.5;
        },
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::ServerThread,
        confidence: Confidence::High,
        says: "One thread of the server: it was busy for 90 % of the time, while the whole server \
               used 50 % of its CPU.",
        evidence: r#"{"busiest_thread_utilisation": 0.9, "cpu_utilisation": 0.5}"#,
        trips: |w| {
            w.allowed_cpus = 2.0;
            w.serve_by(&[(900 * MS, 0), (100 * MS, 0)], 0);
        },
        just_not: |w| {
            w.allowed_cpus = 2.0;
            w.serve_by(&[(900 * MS - 1, 0), (100 * MS, 0)], 0);
        },
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::ServerThread,
        confidence: Confidence::High,
        says: "while the whole server used 90 % of its CPU.",
        evidence: "{}",
        trips: |w| {
            w.serve(900 * MS);
            w.group().cpu_ns = Some(900 * MS - 1);
        },
        just_not: |w| w.serve(900 * MS),
        otherwise: (Resource::ServerCpu, Confidence::High),
    },
    Case {
        resource: Resource::Elsewhere,
        confidence: Confidence::Medium,
        says: "Something else: on average 64 requests were in flight, and the server used 50 % of \
               its CPU. The server waits for a lock, a disk, a database, or a limit of its own on \
               threads or connections. Use `--observe states` to see which. This is likely, not \
               certain.",
        evidence: r#"{"in_flight": 64.0, "server_utilisation": 0.5, "generator_utilisation": 0.3}"#,
        trips: |w| w.hold(64 * S),
        just_not: |w| w.hold(64 * S - 1),
        otherwise: (Resource::Concurrency, Confidence::Low),
    },
    Case {
        resource: Resource::Backend,
        confidence: Confidence::High,
        says: "The back end db: it used 90 % of its allowed CPU time, while the server used 50 %.",
        evidence: r#"{"backend": "db", "backend_utilisation": 0.9, "server_utilisation": 0.5}"#,
        trips: |w| {
            w.hold(64 * S);
            w.backends = vec![backend_use("cache", 0.2, false), backend_use("db", 0.9, false)];
        },
        just_not: |w| {
            w.hold(64 * S);
            w.backends = vec![backend_use("db", 0.899, false)];
        },
        otherwise: (Resource::Elsewhere, Confidence::Medium),
    },
    Case {
        resource: Resource::Backend,
        confidence: Confidence::High,
        says: "The CPUs that the server and its back end db share: together they used 95 % of \
               them, the server 50 % and db 45 %.",
        evidence: r#"{"together": 0.95}"#,
        trips: |w| w.backends = vec![backend_use("db", 0.45, true)],
        just_not: |w| w.backends = vec![backend_use("db", 0.45, false)],
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Backend,
        confidence: Confidence::High,
        says: "together they used 90 % of them",
        evidence: "{}",
        trips: |w| w.backends = vec![backend_use("db", 0.4, true)],
        just_not: |w| w.backends = vec![backend_use("db", 0.39, true)],
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    // A back end that stands in a queue for its CPUs may not use more of them.
    Case {
        resource: Resource::Backend,
        confidence: Confidence::Medium,
        says: "The CPUs of the back end db: it used 65 % of them, and waited for them for 25 %, \
               while others used them.",
        evidence: r#"{"backend": "db", "backend_utilisation": 0.65, "backend_waiting": 0.25}"#,
        trips: |w| {
            w.hold(64 * S);
            w.backends = vec![waiting("db", 0.65, 0.5)];
        },
        just_not: |w| {
            w.hold(64 * S);
            w.backends = vec![waiting("db", 0.65, 0.499)];
        },
        otherwise: (Resource::Elsewhere, Confidence::Medium),
    },
    Case {
        resource: Resource::Backend,
        confidence: Confidence::Medium,
        says: "waited for them for 11 %",
        evidence: "{}",
        trips: |w| w.backends = vec![waiting("db", 0.85, 0.22)],
        just_not: |w| w.backends = vec![waiting("db", 0.85, 0.2)],
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    // Requests that wait in the generator for a connection do not wait for the server.
    Case {
        resource: Resource::Elsewhere,
        confidence: Confidence::Medium,
        says: "Something else: on average 64 requests were in flight",
        evidence: r#"{"in_flight": 100.0}"#,
        trips: |w| w.hold(100 * S),
        just_not: |w| {
            w.hold(100 * S);
            w.step.connections = 63;
        },
        otherwise: (Resource::Concurrency, Confidence::Low),
    },
    // Both sides have room up to three quarters of their CPU.
    Case {
        resource: Resource::Elsewhere,
        confidence: Confidence::Medium,
        says: "the server used 75 % of its CPU.",
        evidence: "{}",
        trips: |w| {
            w.hold(64 * S);
            w.serve(750 * MS - 1);
        },
        just_not: |w| {
            w.hold(64 * S);
            w.serve(750 * MS);
        },
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::Elsewhere,
        confidence: Confidence::Medium,
        says: "the server used 50 % of its CPU.",
        evidence: "{}",
        trips: |w| {
            w.hold(64 * S);
            w.generate(&[(750 * MS - 1, 0)]);
        },
        just_not: |w| {
            w.hold(64 * S);
            w.generate(&[(750 * MS, 0)]);
        },
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::High,
        says: "Too few requests in flight: 32 on average, each for a round trip of 1000 µs. The \
               server used 50 % of its CPU.",
        evidence: r#"{"in_flight": 31.999999999}"#,
        trips: |w| w.hold(32 * S - 1),
        just_not: |w| w.hold(32 * S),
        otherwise: (Resource::Concurrency, Confidence::Low),
    },
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Low,
        says: "32 on average, each for a round trip of 1000 µs. The server used 50 % of its CPU. \
               This is a guess.",
        evidence: r#"{"in_flight": 32.0}"#,
        trips: |w| w.hold(32 * S),
        just_not: |w| w.hold(64 * S),
        otherwise: (Resource::Elsewhere, Confidence::Medium),
    },
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::High,
        says: "in flight: 1 on average, each",
        evidence: "{}",
        trips: |_| {},
        just_not: |w| {
            w.set_rate(2000.0);
            w.interval().started = 2000;
        },
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::ServerCpu,
        confidence: Confidence::High,
        says: "it used 100 % of the one CPU it may use, 90 % of that in one thread.",
        evidence: r#"{"busiest_thread_utilisation": 0.9}"#,
        trips: |w| w.serve_by(&[(900 * MS, 0), (100 * MS, 0)], 0),
        just_not: |w| w.serve_by(&[(450 * MS, 0), (400 * MS, 0)], 0),
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::Unknown,
        confidence: Confidence::Low,
        says: "Unknown: the server used 80 % of its CPU, and the generator's busiest thread 30 % \
               of a CPU. Neither is full.",
        evidence: r#"{"server_utilisation": 0.8, "generator_utilisation": 0.3, "server_run_delay_s": 0.0}"#,
        trips: |w| w.serve(800 * MS),
        just_not: |w| w.serve(700 * MS),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Link,
        confidence: Confidence::Medium,
        says: "A network link: eth0 carried 90 % of its capacity (1000 Mbit/s), while the server \
               used 50 % of its CPU. This is likely",
        evidence: r#"{"link": "eth0", "link_utilisation": 0.9, "link_bits_per_s": 1e9, "server_utilisation": 0.5}"#,
        trips: |w| w.carry(112_500_000),
        just_not: |w| w.carry(112_499_999),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    // A server that is busy as well may be why no more is carried.
    Case {
        resource: Resource::Link,
        confidence: Confidence::Medium,
        says: "A network link",
        evidence: "{}",
        trips: |w| {
            w.serve(750 * MS - 1);
            w.carry(S);
        },
        just_not: |w| {
            w.serve(750 * MS);
            w.carry(S);
        },
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::Unknown,
        confidence: Confidence::Low,
        says: "Unknown: the server's CPU could not be observed.",
        evidence: r#"{"server_utilisation": null}"#,
        trips: |w| w.record.samples.clear(),
        just_not: |_| {},
        otherwise: (Resource::Concurrency, Confidence::High),
    },
];

fn all() -> impl Iterator<Item = &'static Case> {
    [CASES, other_programs::CASES, polling::CASES, waits::CASES].into_iter().flatten()
}

/// A back end that used this part of its CPU.
fn backend_use(name: &str, utilisation: f64, shares_cpus: bool) -> BackendUse {
    let server = ServerUse { cpu_utilisation: Some(utilisation), ..ServerUse::default() };
    BackendUse { name: name.into(), cpu_share: None, shares_cpus, server }
}

/// A back end on two CPUs for a second, whose threads waited for so many seconds.
fn waiting(name: &str, utilisation: f64, waited_s: f64) -> BackendUse {
    let mut all = backend_use(name, utilisation, false);
    (all.server.cpu_allowed_s, all.server.run_delay_s) = (Some(2.0), Some(waited_s));
    all
}

fn limiter_of(change: fn(&mut JudgedWorld)) -> Limiter {
    let mut world = JudgedWorld::default();
    change(&mut world);
    world.limiter()
}

fn fault_of(case: &Case) -> Option<String> {
    let limiter = limiter_of(case.trips);
    let untripped = limiter_of(case.just_not);
    if (limiter.resource, limiter.confidence) != (case.resource, case.confidence) {
        Some(format!("it is {limiter:#?}"))
    } else if !limiter.sentence.contains(case.says) {
        Some(format!("it says {:?} and not {:?}", limiter.sentence, case.says))
    } else if (untripped.resource, untripped.confidence) != case.otherwise {
        Some(format!("just short of its bound it is {untripped:#?}"))
    } else {
        missing_in(&limiter.evidence, case.evidence)
    }
}

#[test]
fn each_rule_of_limits_trips_at_its_bound() {
    let fault = |(number, case): (usize, &Case)| {
        fault_of(case).map(|fault| format!("case {number}, {:?}: {fault}", case.resource))
    };
    let faults: Vec<String> = all().enumerate().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn every_limit_has_a_case() {
    let covered: BTreeSet<Resource> = all().map(|case| case.resource).collect();
    assert_eq!(covered, Resource::ALL.into());
}

/// The quota held the server back in this many of 1,000 periods.
fn throttle(w: &mut JudgedWorld, periods: u64) {
    w.group().throttled_periods = Some(periods);
    w.group().throttled_ns = Some(1600 * MS);
}

fn trace() -> Arrivals {
    Arrivals::Trace { file: "t".into(), count: 1000, sha256: String::new() }
}
