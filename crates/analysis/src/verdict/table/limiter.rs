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
    /// Changes the default world so that it has this limiter, just past the bound.
    pub(super) trigger: fn(&mut TrialWorld),
    /// Changes the default world so that it stays just within the bound.
    pub(super) near_miss: fn(&mut TrialWorld),
    /// The limiter and its confidence in the world of `near_miss`.
    pub(super) near_miss_verdict: (Resource, Confidence),
}

const CASES: &[Case] = &[
    Case {
        resource: Resource::Failure,
        confidence: Confidence::High,
        claim: "The server failed during this step: it left.",
        evidence: "{}",
        trigger: |w| w.record.server_failure = Some("it left".into()),
        near_miss: |_| {},
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Failure,
        confidence: Confidence::High,
        claim: "No request got a correct response. The most frequent failure was reset (1.0 per \
                second).",
        evidence: "{}",
        trigger: |w| {
            *w = TrialWorld::with_responses(0);
            w.add_outcomes(1, Outcome::Reset);
        },
        near_miss: |w| w.add_outcomes(1, Outcome::Reset),
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    // An incorrect response is a failure of the server, and one failed request is not.
    Case {
        resource: Resource::Failure,
        confidence: Confidence::High,
        claim: "Incorrect responses: 1 with an unexpected status, 0 with an unexpected body",
        evidence: r#"{"unexpected_status": 1}"#,
        trigger: |w| w.add_outcomes(1, Outcome::UnexpectedStatus),
        near_miss: |w| w.add_outcomes(1, Outcome::ClosedEarly),
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::DroppedPackets,
        confidence: Confidence::High,
        claim: "The machine dropped packets while this step ran: 1 by connection tracking, with \
                   64 of 64 table entries in use.",
        evidence: r#"{"tracking": 1, "tracking_entries": 64, "tracking_most": 64}"#,
        trigger: |w| {
            *w = TrialWorld::with_responses(0);
            w.add_outcomes(1, Outcome::ConnectTimeout);
            w.set_tracking(64, Some(1));
        },
        near_miss: |w| {
            *w = TrialWorld::with_responses(0);
            w.add_outcomes(1, Outcome::ConnectTimeout);
            w.set_tracking(64, Some(0));
        },
        near_miss_verdict: (Resource::Failure, Confidence::High),
    },
    // Dropped packets cannot end a process.
    Case {
        resource: Resource::DroppedPackets,
        confidence: Confidence::High,
        claim: "The machine dropped packets while this step ran: 9 by connection tracking",
        evidence: r#"{"tracking": 9}"#,
        trigger: |w| w.set_tracking(64, Some(9)),
        near_miss: |w| {
            w.set_tracking(64, Some(9));
            w.record.server_failure = Some("crashed: it left".into());
        },
        near_miss_verdict: (Resource::Failure, Confidence::High),
    },
    Case {
        resource: Resource::Refusal,
        confidence: Confidence::High,
        claim: "All connections were refused (1.0 per second). This is expected: this subject is a \
                control, and no server listens on its port.",
        evidence: r#"{"refused": 1}"#,
        trigger: |w| {
            w.refuse_connections(1);
        },
        near_miss: |w| {
            w.refuse_connections(0);
            w.add_outcomes(1, Outcome::ConnectReset);
        },
        near_miss_verdict: (Resource::Failure, Confidence::High),
    },
    Case {
        resource: Resource::Generator,
        confidence: Confidence::High,
        claim: "The generator: its busiest thread was busy for 85 % of the time, while the \
                   server used 50 % of its allowed CPU time.",
        evidence: r#"{"generator_utilisation": 0.850000001, "generator_need": 0.850000001, "server_utilisation": 0.5}"#,
        trigger: |w| w.set_generator_threads(&[(850 * MS + 1, 0)]),
        near_miss: |w| w.set_generator_threads(&[(850 * MS, 0)]),
        near_miss_verdict: (Resource::Unknown, Confidence::Low),
    },
    // If the server is busy, the generator is only likely the limit. If the server is full, the
    // server is the limit.
    Case {
        resource: Resource::Generator,
        confidence: Confidence::High,
        claim: "while the server used 90 % of its allowed CPU time.",
        evidence: "{}",
        trigger: |w| {
            w.set_generator_threads(&[(900 * MS, 0)]);
            w.set_server_cpu(900 * MS - 1);
        },
        near_miss: |w| {
            w.set_generator_threads(&[(900 * MS, 0)]);
            w.set_server_cpu(900 * MS);
        },
        near_miss_verdict: (Resource::Generator, Confidence::Medium),
    },
    Case {
        resource: Resource::Generator,
        confidence: Confidence::Medium,
        claim: "while the server used 95 % of its allowed CPU time.",
        evidence: r#"{"server_utilisation": 0.949999999}"#,
        trigger: |w| {
            w.set_generator_threads(&[(900 * MS, 0)]);
            w.set_server_cpu(950 * MS - 1);
        },
        near_miss: |w| {
            w.set_generator_threads(&[(900 * MS, 0)]);
            w.set_server_cpu(950 * MS);
        },
        near_miss_verdict: (Resource::ServerCpu, Confidence::High),
    },
    Case {
        resource: Resource::Generator,
        confidence: Confidence::Medium,
        claim: " of the time.",
        evidence: r#"{"server_utilisation": null}"#,
        trigger: |w| {
            w.set_generator_threads(&[(900 * MS, 0)]);
            w.record.samples.clear();
        },
        near_miss: |w| w.record.samples.clear(),
        near_miss_verdict: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::Jit,
        confidence: Confidence::High,
        claim: "The JIT compiler: it used 20 % of the server's CPU time, and the server used \
                   100 % of its allowed CPU time.",
        evidence: r#"{"jit_share": 0.200000001, "cpu_utilisation": 1.0}"#,
        trigger: |w| {
            w.set_server_cpu(S);
            w.add_compiler_thread(200 * MS + 1);
        },
        near_miss: |w| {
            w.set_server_cpu(S);
            w.add_compiler_thread(200 * MS);
        },
        near_miss_verdict: (Resource::ServerCpu, Confidence::High),
    },
    Case {
        resource: Resource::Jit,
        confidence: Confidence::High,
        claim: "and the server used 90 % of its allowed CPU time.",
        evidence: "{}",
        trigger: |w| {
            w.set_server_cpu(900 * MS);
            w.add_compiler_thread(300 * MS);
        },
        near_miss: |w| {
            w.set_server_cpu(900 * MS - 1);
            w.add_compiler_thread(300 * MS);
        },
        near_miss_verdict: (Resource::Unknown, Confidence::Low),
    },
    // The quota of a busy server throttles it. Bursts of an idle server are throttled too.
    Case {
        resource: Resource::CpuQuota,
        confidence: Confidence::High,
        claim: "The server's CPU quota: the server was throttled in 51 of 1000 periods (5.1 %).",
        evidence: r#"{"throttled_periods": 51, "cpu_utilisation": 0.75}"#,
        trigger: |w| {
            w.set_server_cpu(750 * MS);
            set_throttled_periods(w, 51);
        },
        near_miss: |w| {
            w.set_server_cpu(750 * MS - 1);
            set_throttled_periods(w, 51);
        },
        near_miss_verdict: (Resource::CpuQuota, Confidence::Medium),
    },
    Case {
        resource: Resource::CpuQuota,
        confidence: Confidence::High,
        claim: "The server's CPU quota: the server was throttled in 500 of 1000 periods (50 %).",
        evidence: r#"{"throttled_periods": 500, "cpu_utilisation": 0.5}"#,
        trigger: |w| set_throttled_periods(w, 500),
        near_miss: |w| set_throttled_periods(w, 499),
        near_miss_verdict: (Resource::CpuQuota, Confidence::Medium),
    },
    Case {
        resource: Resource::CpuQuota,
        confidence: Confidence::Medium,
        claim: "The server's CPU quota: the server was throttled in 51 of 1000 periods (5.1 %). On \
                average the server used only 50 % of its CPU, so the quota may throttle only short \
                bursts",
        evidence: r#"{"throttled_periods": 51, "periods": 1000, "throttled_s": 1.6}"#,
        trigger: |w| set_throttled_periods(w, 51),
        near_miss: |w| set_throttled_periods(w, 50),
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    // A resource that is certainly full is the limit, although bursts are throttled.
    Case {
        resource: Resource::ServerThread,
        confidence: Confidence::High,
        claim: "while the whole server used 45 % of its CPU.",
        evidence: "{}",
        trigger: |w| {
            w.allowed_cpus = 2.0;
            w.set_server_cpu(900 * MS);
            set_throttled_periods(w, 499);
        },
        near_miss: |w| {
            w.allowed_cpus = 2.0;
            w.set_server_cpu(900 * MS);
            set_throttled_periods(w, 500);
        },
        near_miss_verdict: (Resource::CpuQuota, Confidence::High),
    },
    Case {
        resource: Resource::OfferedRate,
        confidence: Confidence::High,
        claim: "The offered rate: the server kept up with 1000 requests per second (over \
                   1.0 s of the window) and used 50 % of its CPU.",
        evidence: r#"{"offered": 1000.0, "seconds": 0.996999424}"#,
        trigger: |w| w.set_rate(1000.0),
        near_miss: |w| {
            w.set_rate(1000.0);
            w.interval().started = 1500;
        },
        near_miss_verdict: (Resource::Unknown, Confidence::Low),
    },
    // Failed requests are no backlog, but a server that fails them does not keep up.
    Case {
        resource: Resource::OfferedRate,
        confidence: Confidence::High,
        claim: "The offered rate: the server kept up with 1000 requests per second",
        evidence: "{}",
        trigger: |w| {
            w.set_rate(1000.0);
            w.add_outcomes(10, Outcome::Reset);
        },
        near_miss: |w| {
            w.set_rate(1000.0);
            w.interval().started = 1500;
            w.add_outcomes(500, Outcome::Reset);
        },
        near_miss_verdict: (Resource::Unknown, Confidence::Low),
    },
    // A server that keeps up is not limited by a quota, a compiler or a collector.
    Case {
        resource: Resource::OfferedRate,
        confidence: Confidence::High,
        claim: "and used 90 % of its CPU. The server was throttled in 130 of 1000 periods (13 %).",
        evidence: "{}",
        trigger: |w| {
            w.set_rate(1000.0);
            w.set_server_cpu(900 * MS);
            set_throttled_periods(w, 130);
        },
        near_miss: |w| {
            w.set_rate(1000.0);
            w.interval().started = 1500;
            w.set_server_cpu(900 * MS);
            set_throttled_periods(w, 130);
        },
        near_miss_verdict: (Resource::CpuQuota, Confidence::High),
    },
    Case {
        resource: Resource::OfferedRate,
        confidence: Confidence::High,
        claim: "and used 94 % of its CPU.",
        evidence: "{}",
        trigger: |w| {
            w.set_rate(1000.0);
            w.set_server_cpu(940 * MS);
            w.add_compiler_thread(300 * MS);
        },
        near_miss: |w| {
            w.set_rate(1000.0);
            w.set_server_cpu(950 * MS);
            w.add_compiler_thread(300 * MS);
        },
        near_miss_verdict: (Resource::Jit, Confidence::High),
    },
    Case {
        resource: Resource::OfferedRate,
        confidence: Confidence::High,
        claim: "and used 94 % of its CPU.",
        evidence: "{}",
        trigger: |w| {
            w.set_rate(1000.0);
            w.set_server_cpu(940 * MS);
            w.add_collector_thread(400 * MS);
        },
        near_miss: |w| {
            w.set_rate(1000.0);
            w.set_server_cpu(950 * MS);
            w.add_collector_thread(400 * MS);
            set_throttled_periods(w, 130);
        },
        near_miss_verdict: (Resource::Gc, Confidence::High),
    },
    Case {
        resource: Resource::OfferedRate,
        confidence: Confidence::High,
        claim: "and used 95 % of its CPU.",
        evidence: "{}",
        trigger: |w| {
            w.set_rate(1000.0);
            w.set_server_cpu(950 * MS - 1);
        },
        near_miss: |w| {
            w.set_rate(1000.0);
            w.set_server_cpu(950 * MS);
        },
        near_miss_verdict: (Resource::ServerCpu, Confidence::Medium),
    },
    Case {
        resource: Resource::OfferedRate,
        confidence: Confidence::High,
        claim: "kept up with 1000 requests per second on average (over 1.0 s of the window).",
        evidence: "{}",
        trigger: |w| {
            w.step.arrivals = trace_arrivals();
            w.record.samples.clear();
        },
        near_miss: |w| w.record.samples.clear(),
        near_miss_verdict: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::ServerCpu,
        confidence: Confidence::High,
        claim: "The server's CPU: the server used 90 % of the one CPU that it is allowed to use.",
        evidence: r#"{"cpu_utilisation": 0.9}"#,
        trigger: |w| w.set_server_cpu(900 * MS),
        near_miss: |w| {
            w.set_server_cpu(900 * MS - 1);
            w.server_counters().threads.clear();
        },
        near_miss_verdict: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::ServerCpu,
        confidence: Confidence::High,
        claim: "the server used 90 % of the one CPU that it is allowed to use.",
        evidence: "{}",
        trigger: |w| w.set_seconds(&[(1000, 900 * MS), (1000, 900 * MS)]),
        near_miss: |w| w.set_seconds(&[(1000, 700 * MS), (1000, 700 * MS)]),
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::ServerCpu,
        confidence: Confidence::High,
        claim: "the server used 100 % of the 1.5 CPUs that it is allowed to use.",
        evidence: r#"{"cpu_utilisation": 1.0}"#,
        trigger: |w| {
            w.set_server_cpu(1500 * MS);
            w.allowed_cpus = 1.5;
        },
        near_miss: |w| {
            w.set_server_cpu(800 * MS);
            w.allowed_cpus = 1.5;
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    Case {
        resource: Resource::ServerThread,
        confidence: Confidence::High,
        claim: "One thread of the server: it was busy for 90 % of the time, while the whole \
                   server used 50 % of its CPU.",
        evidence: r#"{"busiest_serving_utilisation": 0.9, "cpu_utilisation": 0.5}"#,
        trigger: |w| {
            w.allowed_cpus = 2.0;
            w.set_server_threads(&[(900 * MS, 0), (100 * MS, 0)], 0);
        },
        near_miss: |w| {
            w.allowed_cpus = 2.0;
            w.set_server_threads(&[(900 * MS - 1, 0), (100 * MS, 0)], 0);
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    // A thread of a compiler serves no request.
    Case {
        resource: Resource::ServerThread,
        confidence: Confidence::High,
        claim: "it was busy for 90 % of the time, while the whole server used 48 % of its CPU.",
        evidence: r#"{"busiest_serving_utilisation": 0.9}"#,
        trigger: |w| {
            w.allowed_cpus = 4.0;
            w.set_server_cpu(900 * MS);
            w.add_compiler_thread(S);
            w.server_cgroup().cpu_ns = Some(1900 * MS);
        },
        near_miss: |w| {
            w.allowed_cpus = 4.0;
            w.set_server_cpu(900 * MS - 1);
            w.add_compiler_thread(S);
            w.server_cgroup().cpu_ns = Some(1900 * MS - 1);
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    // A thread that is nearly full may be the limit.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        claim: "The server used 38 % of its CPU.",
        evidence: "{}",
        trigger: |w| {
            w.allowed_cpus = 2.0;
            w.set_server_cpu(750 * MS);
        },
        near_miss: |w| {
            w.allowed_cpus = 2.0;
            w.set_server_cpu(750 * MS - 1);
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::ServerThread,
        confidence: Confidence::High,
        claim: "while the whole server used 90 % of its CPU.",
        evidence: "{}",
        trigger: |w| {
            w.set_server_cpu(900 * MS);
            w.server_cgroup().cpu_ns = Some(900 * MS - 1);
        },
        near_miss: |w| w.set_server_cpu(900 * MS),
        near_miss_verdict: (Resource::ServerCpu, Confidence::High),
    },
    Case {
        resource: Resource::Elsewhere,
        confidence: Confidence::Medium,
        claim: "An unmonitored resource: on average 64 requests were in flight, but the server \
                used only 50 % of its CPU. The server waits for a lock, a disk or a database, or \
                has an internal limit on threads or connections. Use `--observe states` to see the \
                cause.",
        evidence: r#"{"in_flight": 64.0, "server_utilisation": 0.5, "generator_utilisation": 0.3}"#,
        trigger: |w| w.set_in_flight_time(64 * S),
        near_miss: |w| w.set_in_flight_time(64 * S - 1),
        near_miss_verdict: (Resource::Concurrency, Confidence::Low),
    },
    // Requests that wait in the generator for a connection are not at the server.
    Case {
        resource: Resource::Elsewhere,
        confidence: Confidence::Medium,
        claim: "An unmonitored resource: on average 64 requests were in flight",
        evidence: r#"{"in_flight": 100.0}"#,
        trigger: |w| w.set_in_flight_time(100 * S),
        near_miss: |w| {
            w.set_in_flight_time(100 * S);
            w.step.connections = 63;
        },
        near_miss_verdict: (Resource::Concurrency, Confidence::Low),
    },
    // Server and generator have headroom below three quarters of their CPUs.
    Case {
        resource: Resource::Elsewhere,
        confidence: Confidence::Medium,
        claim: "the server used only 75 % of its CPU.",
        evidence: "{}",
        trigger: |w| {
            w.set_in_flight_time(64 * S);
            w.set_server_cpu(750 * MS - 1);
        },
        near_miss: |w| {
            w.set_in_flight_time(64 * S);
            w.set_server_cpu(750 * MS);
        },
        near_miss_verdict: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::Elsewhere,
        confidence: Confidence::Medium,
        claim: "the server used only 50 % of its CPU.",
        evidence: "{}",
        trigger: |w| {
            w.set_in_flight_time(64 * S);
            w.set_generator_threads(&[(750 * MS - 1, 0)]);
        },
        near_miss: |w| {
            w.set_in_flight_time(64 * S);
            w.set_generator_threads(&[(750 * MS, 0)]);
        },
        near_miss_verdict: (Resource::Unknown, Confidence::Low),
    },
    // With more requests in flight, some may queue for a resource that serves one at a time.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::High,
        claim: "Too few requests in flight: 2 on average, and each",
        evidence: r#"{"in_flight": 1.5}"#,
        trigger: |w| w.set_in_flight_time(1500 * MS),
        near_miss: |w| w.set_in_flight_time(1501 * MS),
        near_miss_verdict: (Resource::Concurrency, Confidence::Medium),
    },
    // The server's threads wait for a CPU for a quarter of the response times.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        claim: "Too few requests in flight: 1 on average, and each",
        evidence: "{}",
        trigger: |w| w.set_server_threads(&[(500 * MS, 250 * MS)], 0),
        near_miss: |w| w.set_server_threads(&[(500 * MS, 249 * MS)], 0),
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        claim: "Too few requests in flight: 32 on average, and each takes 1000 µs. The server used \
                50 % of its CPU.",
        evidence: r#"{"in_flight": 31.999999999}"#,
        trigger: |w| w.set_in_flight_time(32 * S - 1),
        near_miss: |w| w.set_in_flight_time(32 * S),
        near_miss_verdict: (Resource::Concurrency, Confidence::Low),
    },
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Low,
        claim: "32 on average, and each takes 1000 µs. The server used 50 % of its CPU.",
        evidence: r#"{"in_flight": 32.0}"#,
        trigger: |w| w.set_in_flight_time(32 * S),
        near_miss: |w| w.set_in_flight_time(64 * S),
        near_miss_verdict: (Resource::Elsewhere, Confidence::Medium),
    },
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::High,
        claim: "in flight: 1 on average, and each",
        evidence: "{}",
        trigger: |_| {},
        near_miss: |w| {
            w.set_rate(2000.0);
            w.interval().started = 2000;
        },
        near_miss_verdict: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::ServerCpu,
        confidence: Confidence::High,
        claim: "the server used 100 % of the one CPU that it is allowed to use, 90 % of that in \
                one thread.",
        evidence: r#"{"busiest_thread_utilisation": 0.9}"#,
        trigger: |w| w.set_server_threads(&[(900 * MS, 0), (100 * MS, 0)], 0),
        near_miss: |w| w.set_server_threads(&[(450 * MS, 0), (400 * MS, 0)], 0),
        near_miss_verdict: (Resource::Unknown, Confidence::Low),
    },
    Case {
        resource: Resource::Unknown,
        confidence: Confidence::Low,
        claim: "Unknown: the server used 80 % of its CPU, and the generator's busiest thread used \
                30 % of a CPU. Neither CPU was full.",
        evidence: r#"{"server_utilisation": 0.8, "generator_utilisation": 0.3, "server_run_delay_s": 0.0}"#,
        trigger: |w| w.set_server_cpu(800 * MS),
        near_miss: |w| w.set_server_cpu(700 * MS),
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Link,
        confidence: Confidence::Medium,
        claim: "A network link: eth0 used 90 % of its capacity (1000 Mbit/s), while the server \
                used 50 % of its CPU.",
        evidence: r#"{"link": "eth0", "link_utilisation": 0.9, "link_bits_per_s": 1e9, "server_utilisation": 0.5}"#,
        trigger: |w| w.send_bytes(112_500_000),
        near_miss: |w| w.send_bytes(112_499_999),
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    // If the server is busy too, the link may not be the limit.
    Case {
        resource: Resource::Link,
        confidence: Confidence::Medium,
        claim: "A network link",
        evidence: "{}",
        trigger: |w| {
            w.set_server_cpu(750 * MS - 1);
            w.send_bytes(S);
        },
        near_miss: |w| {
            w.set_server_cpu(750 * MS);
            w.send_bytes(S);
        },
        near_miss_verdict: (Resource::Unknown, Confidence::Low),
    },
    // Interrupts that are billed to no program may have filled the server's CPU.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        claim: "The server used 50 % of its CPU. In the window of 1.00 s, interrupts used 0.25 s \
                of this machine's CPU time. This kernel counts that time for no program, so a \
                CPU of the server may have been full.",
        evidence: "{}",
        trigger: |w| set_interrupts(w, 250 * MS),
        near_miss: |w| set_interrupts(w, 250 * MS - 1),
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Unknown,
        confidence: Confidence::Low,
        claim: "Unknown: the server's CPU could not be observed.",
        evidence: r#"{"server_utilisation": null}"#,
        trigger: |w| w.record.samples.clear(),
        near_miss: |_| {},
        near_miss_verdict: (Resource::Concurrency, Confidence::High),
    },
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

fn limiter_after(change: fn(&mut TrialWorld)) -> Limiter {
    let mut world = TrialWorld::default();
    change(&mut world);
    world.limiter()
}

fn find_fault(case: &Case) -> Option<String> {
    let limiter = limiter_after(case.trigger);
    let near_miss = limiter_after(case.near_miss);
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
    assert_eq!(covered, Resource::ALL.into());
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
