//! Test cases: the limiter of a step.

use std::collections::BTreeSet;

use dyno_archive::outcome::Outcome;
use dyno_archive::plan::Arrivals;

use super::world::{MS, S, TrialWorld};
use super::{backends, full_thread, missing_evidence, other_programs, polling, waits};
use crate::verdict::{Confidence, Limiter, Resource};

/// One bound of a rule, with a world on either side of it.
pub(super) struct Case {
    pub(super) resource: Resource,
    pub(super) confidence: Confidence,
    /// Part of the limiter's claim, with its numbers.
    pub(super) claim: &'static str,
    /// JSON object with a part of the limiter's evidence.
    pub(super) evidence: &'static str,
    /// Changes the default world, before `trigger` or `near_miss`.
    pub(super) given: fn(&mut TrialWorld),
    /// Changes the world so that it has this limiter, just past the bound.
    pub(super) trigger: fn(&mut TrialWorld),
    /// Changes the world so that it stays just within the bound.
    pub(super) near_miss: fn(&mut TrialWorld),
    /// The limiter and its confidence in the world of `near_miss`.
    pub(super) near_miss_verdict: (Resource, Confidence),
}

impl Case {
    /// Sets the change that both worlds have in common. It is made first.
    pub(super) const fn given(mut self, given: fn(&mut TrialWorld)) -> Case {
        self.given = given;
        self
    }

    /// Sets the expected part of the evidence, a JSON object.
    pub(super) const fn evidence(mut self, evidence: &'static str) -> Case {
        self.evidence = evidence;
        self
    }

    /// Sets the limiter and its confidence in the world of `near_miss`.
    pub(super) const fn near_miss_is(mut self, resource: Resource, confidence: Confidence) -> Case {
        self.near_miss_verdict = (resource, confidence);
        self
    }
}

/// Returns a case without expected evidence, whose near miss has the limiter of the default world.
pub(super) const fn case(
    (resource, confidence): (Resource, Confidence),
    claim: &'static str,
    trigger: fn(&mut TrialWorld),
    near_miss: fn(&mut TrialWorld),
) -> Case {
    Case {
        resource,
        confidence,
        claim,
        evidence: "{}",
        given: |_| {},
        trigger,
        near_miss,
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    }
}

const CASES: &[Case] = &[
    case(
        (Resource::Failure, Confidence::High),
        "The server failed during this step: it left.",
        |w| w.record.server_failure = Some("it left".into()),
        |_| {},
    ),
    case(
        (Resource::Failure, Confidence::High),
        "No request got a correct response. The most frequent failure was reset (1.0 per second).",
        |w| {
            *w = TrialWorld::with_responses(0);
            w.add_outcomes(1, Outcome::Reset);
        },
        |w| w.add_outcomes(1, Outcome::Reset),
    ),
    // An incorrect response is a failure of the server, and one failed request is not.
    case(
        (Resource::Failure, Confidence::High),
        "Incorrect responses: 1 with an unexpected status, 0 with an unexpected body",
        |w| w.add_outcomes(1, Outcome::UnexpectedStatus),
        |w| w.add_outcomes(1, Outcome::ClosedEarly),
    )
    .evidence(r#"{"unexpected_status": 1}"#),
    case(
        (Resource::DroppedPackets, Confidence::High),
        "The machine dropped packets while this step ran: 1 by connection tracking, with 64 of 64 \
         table entries in use.",
        |w| w.set_tracking(64, Some(1)),
        |w| w.set_tracking(64, Some(0)),
    )
    .given(|w| {
        *w = TrialWorld::with_responses(0);
        w.add_outcomes(1, Outcome::ConnectTimeout);
    })
    .evidence(r#"{"tracking": 1, "tracking_entries": 64, "tracking_most": 64}"#)
    .near_miss_is(Resource::Failure, Confidence::High),
    // Dropped packets cannot end a process.
    case(
        (Resource::DroppedPackets, Confidence::High),
        "The machine dropped packets while this step ran: 9 by connection tracking",
        |w| w.set_tracking(64, Some(9)),
        |w| {
            w.set_tracking(64, Some(9));
            w.record.server_failure = Some("crashed: it left".into());
        },
    )
    .evidence(r#"{"tracking": 9}"#)
    .near_miss_is(Resource::Failure, Confidence::High),
    case(
        (Resource::Refusal, Confidence::High),
        "All connections were refused (1.0 per second). This is expected: this subject is a \
         control, and no server listens on its port.",
        |w| {
            w.refuse_connections(1);
        },
        |w| {
            w.refuse_connections(0);
            w.add_outcomes(1, Outcome::ConnectReset);
        },
    )
    .evidence(r#"{"refused": 1}"#)
    .near_miss_is(Resource::Failure, Confidence::High),
    case(
        (Resource::Generator, Confidence::High),
        "The generator: its busiest thread was busy for 85 % of the time, while the server used 50 \
         % of its allowed CPU time.",
        |w| w.set_generator_threads(&[(850 * MS + 1, 0)]),
        |w| w.set_generator_threads(&[(850 * MS, 0)]),
    )
    .evidence(
        r#"{"generator_utilisation": 0.850000001, "generator_need": 0.850000001,
            "server_utilisation": 0.5}"#,
    )
    .near_miss_is(Resource::Unknown, Confidence::Low),
    // If the server is busy, the generator is only likely the limit. If the server is full, the
    // server is the limit.
    case(
        (Resource::Generator, Confidence::High),
        "while the server used 90 % of its allowed CPU time.",
        |w| w.set_server_cpu(900 * MS - 1),
        |w| w.set_server_cpu(900 * MS),
    )
    .given(|w| w.set_generator_threads(&[(900 * MS, 0)]))
    .near_miss_is(Resource::Generator, Confidence::Medium),
    case(
        (Resource::Generator, Confidence::Medium),
        "while the server used 95 % of its allowed CPU time.",
        |w| w.set_server_cpu(950 * MS - 1),
        |w| w.set_server_cpu(950 * MS),
    )
    .given(|w| w.set_generator_threads(&[(900 * MS, 0)]))
    .evidence(r#"{"server_utilisation": 0.949999999}"#)
    .near_miss_is(Resource::ServerCpu, Confidence::High),
    case(
        (Resource::Generator, Confidence::Medium),
        " of the time.",
        |w| {
            w.set_generator_threads(&[(900 * MS, 0)]);
            w.record.samples.clear();
        },
        |w| w.record.samples.clear(),
    )
    .evidence(r#"{"server_utilisation": null}"#)
    .near_miss_is(Resource::Unknown, Confidence::Low),
    case(
        (Resource::Jit, Confidence::High),
        "The JIT compiler: it used 20 % of the server's CPU time, and the server used 100 % of its \
         allowed CPU time.",
        |w| w.add_compiler_thread(200 * MS + 1),
        |w| w.add_compiler_thread(200 * MS),
    )
    .given(|w| w.set_server_cpu(S))
    .evidence(r#"{"jit_share": 0.200000001, "cpu_utilisation": 1.0}"#)
    .near_miss_is(Resource::ServerCpu, Confidence::High),
    case(
        (Resource::Jit, Confidence::High),
        "and the server used 90 % of its allowed CPU time.",
        |w| {
            w.set_server_cpu(900 * MS);
            w.add_compiler_thread(300 * MS);
        },
        |w| {
            w.set_server_cpu(900 * MS - 1);
            w.add_compiler_thread(300 * MS);
        },
    )
    .near_miss_is(Resource::Unknown, Confidence::Low),
    // The quota of a busy server throttles it. Bursts of an idle server are throttled too.
    case(
        (Resource::CpuQuota, Confidence::High),
        "The server's CPU quota: the server was throttled in 51 of 1000 periods (5.1 %).",
        |w| {
            w.set_server_cpu(750 * MS);
            set_throttled_periods(w, 51);
        },
        |w| {
            w.set_server_cpu(750 * MS - 1);
            set_throttled_periods(w, 51);
        },
    )
    .evidence(r#"{"throttled_periods": 51, "cpu_utilisation": 0.75}"#)
    .near_miss_is(Resource::CpuQuota, Confidence::Medium),
    case(
        (Resource::CpuQuota, Confidence::High),
        "The server's CPU quota: the server was throttled in 500 of 1000 periods (50 %).",
        |w| set_throttled_periods(w, 500),
        |w| set_throttled_periods(w, 499),
    )
    .evidence(r#"{"throttled_periods": 500, "cpu_utilisation": 0.5}"#)
    .near_miss_is(Resource::CpuQuota, Confidence::Medium),
    case(
        (Resource::CpuQuota, Confidence::Medium),
        "The server's CPU quota: the server was throttled in 51 of 1000 periods (5.1 %). On \
         average the server used only 50 % of its CPU, so the quota may throttle only short bursts",
        |w| set_throttled_periods(w, 51),
        |w| set_throttled_periods(w, 50),
    )
    .evidence(r#"{"throttled_periods": 51, "periods": 1000, "throttled_s": 1.6}"#),
    // A resource that is certainly full is the limit, although bursts are throttled.
    case(
        (Resource::ServerThread, Confidence::High),
        "while the whole server used 45 % of its CPU.",
        |w| set_throttled_periods(w, 499),
        |w| set_throttled_periods(w, 500),
    )
    .given(|w| {
        w.allowed_cpus = 2.0;
        w.set_server_cpu(900 * MS);
    })
    .near_miss_is(Resource::CpuQuota, Confidence::High),
    case(
        (Resource::OfferedRate, Confidence::High),
        "The offered rate: the server kept up with 1000 requests per second (over 1.0 s of the \
         window) and used 50 % of its CPU.",
        |w| w.set_rate(1000.0),
        |w| {
            w.set_rate(1000.0);
            w.interval().started = 1500;
        },
    )
    .evidence(r#"{"offered": 1000.0, "seconds": 0.996999424}"#)
    .near_miss_is(Resource::Unknown, Confidence::Low),
    // Failed requests are no backlog, but a server that fails them does not keep up.
    case(
        (Resource::OfferedRate, Confidence::High),
        "The offered rate: the server kept up with 1000 requests per second",
        |w| w.add_outcomes(10, Outcome::Reset),
        |w| {
            w.interval().started = 1500;
            w.add_outcomes(500, Outcome::Reset);
        },
    )
    .given(|w| w.set_rate(1000.0))
    .near_miss_is(Resource::Unknown, Confidence::Low),
    // A server that keeps up is not limited by a quota, a compiler or a collector.
    case(
        (Resource::OfferedRate, Confidence::High),
        "and used 90 % of its CPU. The server was throttled in 130 of 1000 periods (13 %).",
        |w| {
            w.set_server_cpu(900 * MS);
            set_throttled_periods(w, 130);
        },
        |w| {
            w.interval().started = 1500;
            w.set_server_cpu(900 * MS);
            set_throttled_periods(w, 130);
        },
    )
    .given(|w| w.set_rate(1000.0))
    .near_miss_is(Resource::CpuQuota, Confidence::High),
    case(
        (Resource::OfferedRate, Confidence::High),
        "and used 94 % of its CPU.",
        |w| {
            w.set_server_cpu(940 * MS);
            w.add_compiler_thread(300 * MS);
        },
        |w| {
            w.set_server_cpu(950 * MS);
            w.add_compiler_thread(300 * MS);
        },
    )
    .given(|w| w.set_rate(1000.0))
    .near_miss_is(Resource::Jit, Confidence::High),
    case(
        (Resource::OfferedRate, Confidence::High),
        "and used 94 % of its CPU.",
        |w| {
            w.set_server_cpu(940 * MS);
            w.add_collector_thread(400 * MS);
        },
        |w| {
            w.set_server_cpu(950 * MS);
            w.add_collector_thread(400 * MS);
            set_throttled_periods(w, 130);
        },
    )
    .given(|w| w.set_rate(1000.0))
    .near_miss_is(Resource::Gc, Confidence::High),
    case(
        (Resource::OfferedRate, Confidence::High),
        "and used 95 % of its CPU.",
        |w| w.set_server_cpu(950 * MS - 1),
        |w| w.set_server_cpu(950 * MS),
    )
    .given(|w| w.set_rate(1000.0))
    .near_miss_is(Resource::ServerCpu, Confidence::Medium),
    case(
        (Resource::OfferedRate, Confidence::High),
        "kept up with 1000 requests per second on average (over 1.0 s of the window).",
        |w| {
            w.step.arrivals = trace_arrivals();
            w.record.samples.clear();
        },
        |w| w.record.samples.clear(),
    )
    .near_miss_is(Resource::Unknown, Confidence::Low),
    case(
        (Resource::ServerCpu, Confidence::High),
        "The server's CPU: the server used 90 % of the one CPU that it is allowed to use.",
        |w| w.set_server_cpu(900 * MS),
        |w| {
            w.set_server_cpu(900 * MS - 1);
            w.server_counters().threads.clear();
        },
    )
    .evidence(r#"{"cpu_utilisation": 0.9}"#)
    .near_miss_is(Resource::Unknown, Confidence::Low),
    case(
        (Resource::ServerCpu, Confidence::High),
        "the server used 90 % of the one CPU that it is allowed to use.",
        |w| w.set_seconds(&[(1000, 900 * MS), (1000, 900 * MS)]),
        |w| w.set_seconds(&[(1000, 700 * MS), (1000, 700 * MS)]),
    ),
    case(
        (Resource::ServerCpu, Confidence::High),
        "the server used 100 % of the 1.5 CPUs that it is allowed to use.",
        |w| {
            w.set_server_cpu(1500 * MS);
            w.allowed_cpus = 1.5;
        },
        |w| {
            w.set_server_cpu(800 * MS);
            w.allowed_cpus = 1.5;
        },
    )
    .evidence(r#"{"cpu_utilisation": 1.0}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    case(
        (Resource::ServerThread, Confidence::High),
        "One thread of the server: it was busy for 90 % of the time, while the whole server used \
         50 % of its CPU.",
        |w| w.set_server_threads(&[(900 * MS, 0), (100 * MS, 0)], 0),
        |w| w.set_server_threads(&[(900 * MS - 1, 0), (100 * MS, 0)], 0),
    )
    .given(|w| w.allowed_cpus = 2.0)
    .evidence(r#"{"busiest_serving_utilisation": 0.9, "cpu_utilisation": 0.5}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // A thread of a compiler serves no request.
    case(
        (Resource::ServerThread, Confidence::High),
        "it was busy for 90 % of the time, while the whole server used 48 % of its CPU.",
        |w| {
            w.set_server_cpu(900 * MS);
            w.add_compiler_thread(S);
            w.server_cgroup().cpu_ns = Some(1900 * MS);
        },
        |w| {
            w.set_server_cpu(900 * MS - 1);
            w.add_compiler_thread(S);
            w.server_cgroup().cpu_ns = Some(1900 * MS - 1);
        },
    )
    .given(|w| w.allowed_cpus = 4.0)
    .evidence(r#"{"busiest_serving_utilisation": 0.9}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // A thread that is nearly full may be the limit.
    case(
        (Resource::Concurrency, Confidence::Medium),
        "The server used 38 % of its CPU.",
        |w| w.set_server_cpu(750 * MS),
        |w| w.set_server_cpu(750 * MS - 1),
    )
    .given(|w| w.allowed_cpus = 2.0),
    case(
        (Resource::ServerThread, Confidence::High),
        "while the whole server used 90 % of its CPU.",
        |w| w.server_cgroup().cpu_ns = Some(900 * MS - 1),
        |_| {},
    )
    .given(|w| w.set_server_cpu(900 * MS))
    .near_miss_is(Resource::ServerCpu, Confidence::High),
    case(
        (Resource::Elsewhere, Confidence::Medium),
        "An unmonitored resource: on average 64 requests were in flight, but the server used only \
         50 % of its CPU. The server waits for a lock, a disk or a database, or has an internal \
         limit on threads or connections. Use `--observe states` to see the cause.",
        |w| w.set_in_flight_time(64 * S),
        |w| w.set_in_flight_time(64 * S - 1),
    )
    .evidence(r#"{"in_flight": 64.0, "server_utilisation": 0.5, "generator_utilisation": 0.3}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Low),
    // Requests that wait in the generator for a connection are not at the server.
    case(
        (Resource::Elsewhere, Confidence::Medium),
        "An unmonitored resource: on average 64 requests were in flight",
        |w| w.set_in_flight_time(100 * S),
        |w| {
            w.set_in_flight_time(100 * S);
            w.step.connections = 63;
        },
    )
    .evidence(r#"{"in_flight": 100.0}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Low),
    // Server and generator have headroom below three quarters of their CPUs.
    case(
        (Resource::Elsewhere, Confidence::Medium),
        "the server used only 75 % of its CPU.",
        |w| w.set_server_cpu(750 * MS - 1),
        |w| w.set_server_cpu(750 * MS),
    )
    .given(|w| w.set_in_flight_time(64 * S))
    .near_miss_is(Resource::Unknown, Confidence::Low),
    case(
        (Resource::Elsewhere, Confidence::Medium),
        "the server used only 50 % of its CPU.",
        |w| w.set_generator_threads(&[(750 * MS - 1, 0)]),
        |w| w.set_generator_threads(&[(750 * MS, 0)]),
    )
    .given(|w| w.set_in_flight_time(64 * S))
    .near_miss_is(Resource::Unknown, Confidence::Low),
    // With more requests in flight, some may queue for a resource that serves one at a time.
    case(
        (Resource::Concurrency, Confidence::High),
        "Too few requests in flight: 2 on average, and each",
        |w| w.set_in_flight_time(1500 * MS),
        |w| w.set_in_flight_time(1501 * MS),
    )
    .evidence(r#"{"in_flight": 1.5}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // The server's threads wait for a CPU for a quarter of the response times.
    case(
        (Resource::Concurrency, Confidence::Medium),
        "Too few requests in flight: 1 on average, and each",
        |w| w.set_server_threads(&[(500 * MS, 250 * MS)], 0),
        |w| w.set_server_threads(&[(500 * MS, 249 * MS)], 0),
    ),
    case(
        (Resource::Concurrency, Confidence::Medium),
        "Too few requests in flight: 32 on average, and each takes 1000 µs. The server used 50 % \
         of its CPU.",
        |w| w.set_in_flight_time(32 * S - 1),
        |w| w.set_in_flight_time(32 * S),
    )
    .evidence(r#"{"in_flight": 31.999999999}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Low),
    case(
        (Resource::Concurrency, Confidence::Low),
        "32 on average, and each takes 1000 µs. The server used 50 % of its CPU.",
        |w| w.set_in_flight_time(32 * S),
        |w| w.set_in_flight_time(64 * S),
    )
    .evidence(r#"{"in_flight": 32.0}"#)
    .near_miss_is(Resource::Elsewhere, Confidence::Medium),
    case(
        (Resource::Concurrency, Confidence::High),
        "in flight: 1 on average, and each",
        |_| {},
        |w| {
            w.set_rate(2000.0);
            w.interval().started = 2000;
        },
    )
    .near_miss_is(Resource::Unknown, Confidence::Low),
    case(
        (Resource::ServerCpu, Confidence::High),
        "the server used 100 % of the one CPU that it is allowed to use, 90 % of that in one \
         thread.",
        |w| w.set_server_threads(&[(900 * MS, 0), (100 * MS, 0)], 0),
        |w| w.set_server_threads(&[(450 * MS, 0), (400 * MS, 0)], 0),
    )
    .evidence(r#"{"busiest_thread_utilisation": 0.9}"#)
    .near_miss_is(Resource::Unknown, Confidence::Low),
    case(
        (Resource::Unknown, Confidence::Low),
        "Unknown: the server used 80 % of its CPU, and the generator's busiest thread used 30 % of \
         a CPU. Neither CPU was full.",
        |w| w.set_server_cpu(800 * MS),
        |w| w.set_server_cpu(700 * MS),
    )
    .evidence(
        r#"{"server_utilisation": 0.8, "generator_utilisation": 0.3, "server_run_delay_s": 0.0}"#,
    ),
    case(
        (Resource::Link, Confidence::Medium),
        "A network link: eth0 used 90 % of its capacity (1000 Mbit/s), while the server used 50 % \
         of its CPU.",
        |w| w.send_bytes(112_500_000),
        |w| w.send_bytes(112_499_999),
    )
    .evidence(
        r#"{"link": "eth0", "link_utilisation": 0.9, "link_bits_per_s": 1e9,
            "server_utilisation": 0.5}"#,
    ),
    // If the server is busy too, the link may not be the limit.
    case(
        (Resource::Link, Confidence::Medium),
        "A network link",
        |w| {
            w.set_server_cpu(750 * MS - 1);
            w.send_bytes(S);
        },
        |w| {
            w.set_server_cpu(750 * MS);
            w.send_bytes(S);
        },
    )
    .near_miss_is(Resource::Unknown, Confidence::Low),
    // Interrupts that are billed to no program may have filled the server's CPU.
    case(
        (Resource::Concurrency, Confidence::Medium),
        "The server used 50 % of its CPU. In the window of 1.00 s, interrupts used 0.25 s of this \
         machine's CPU time. This kernel counts that time for no program, so a CPU of the server \
         may have been full.",
        |w| set_interrupts(w, 250 * MS),
        |w| set_interrupts(w, 250 * MS - 1),
    ),
    case(
        (Resource::Unknown, Confidence::Low),
        "Unknown: the server's CPU could not be observed.",
        |w| w.record.samples.clear(),
        |_| {},
    )
    .evidence(r#"{"server_utilisation": null}"#),
];

fn all_cases() -> impl Iterator<Item = &'static Case> {
    let lists = [
        CASES,
        backends::CASES,
        full_thread::CASES,
        other_programs::CASES,
        polling::CASES,
        waits::CASES,
    ];
    lists.into_iter().flatten()
}

fn limiter_after(changes: [fn(&mut TrialWorld); 2]) -> Limiter {
    let mut world = TrialWorld::default();
    changes.into_iter().for_each(|change| change(&mut world));
    world.limiter()
}

fn find_fault(case: &Case) -> Option<String> {
    let limiter = limiter_after([case.given, case.trigger]);
    let near_miss = limiter_after([case.given, case.near_miss]);
    if (limiter.resource, limiter.confidence) != (case.resource, case.confidence) {
        Some(format!("the limiter is {limiter:#?}"))
    } else if !limiter.claim().contains(case.claim) {
        Some(format!("the claim is {:?}, without {:?}", limiter.claim(), case.claim))
    } else if (near_miss.resource, near_miss.confidence) != case.near_miss_verdict {
        Some(format!("the near miss gives {near_miss:#?}"))
    } else {
        missing_evidence(&limiter.evidence, case.evidence)
    }
}

#[test]
fn each_limiter_rule_triggers_at_its_bound() {
    let named_fault = |(number, case): (usize, &Case)| {
        find_fault(case).map(|fault| format!("case {number}, {:?}: {fault}", case.resource))
    };
    let faults: Vec<String> = all_cases().enumerate().filter_map(named_fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn each_limiter_has_case() {
    let covered: BTreeSet<Resource> = all_cases().map(|case| case.resource).collect();
    assert_eq!(covered, Resource::ALL.iter().copied().collect());
}

/// Sets in how many of 1,000 periods the quota throttled the server.
fn set_throttled_periods(w: &mut TrialWorld, periods: u64) {
    w.server_cgroup().throttled_periods = Some(periods);
    w.server_cgroup().throttled_ns = Some(1600 * MS);
}

/// Sets the CPU time of interrupts that the kernel bills to no program.
fn set_interrupts(w: &mut TrialWorld, interrupt_ns: u64) {
    let hosts = w.record.samples.iter_mut().map(|sample| sample.host.as_mut().expect("a machine"));
    hosts.zip([0, interrupt_ns]).for_each(|(host, ns)| host.interrupt_ns = Some(ns));
    w.last_sample().host.as_mut().expect("a machine").busy_ns += interrupt_ns;
}

fn trace_arrivals() -> Arrivals {
    Arrivals::Trace { file: "t".into(), count: 1000, sha256: String::new() }
}
