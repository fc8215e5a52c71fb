//! Cases: what a step's limiter is where others took CPU time from the server or the generator.

use dyno_archive::machine::OtherUse;
use dyno_archive::sample::ThreadState;

use super::limiter::Case;
use super::world::{JudgedWorld, MS, S};
use crate::verdict::{Confidence, Resource};

pub(super) const CASES: &[Case] = &[
    // A CPU that others took prolongs neither a wait for a disk nor a sleep.
    Case {
        resource: Resource::Disk,
        confidence: Confidence::Medium,
        says: "A disk: the server's serving thread waited for a disk for 50 % of its time",
        evidence: "{}",
        trips: |w| {
            w.spend(1, ThreadState::Disk, 500);
            w.generate(&[(300 * MS, 50 * MS + 1)]);
        },
        just_not: |w| {
            w.spend(1, ThreadState::Disk, 500);
            w.generate(&[(300 * MS, 50 * MS)]);
        },
        otherwise: (Resource::Disk, Confidence::High),
    },
    Case {
        resource: Resource::Workers,
        confidence: Confidence::Medium,
        says: "its 8 serving threads slept for 90 % of their time",
        evidence: "{}",
        trips: |w| {
            w.hold(64 * S);
            w.spend(8, ThreadState::Sleep, 900);
            w.sleep_each();
            w.generate(&[(300 * MS, 50 * MS + 1)]);
        },
        just_not: |w| {
            w.hold(64 * S);
            w.spend(8, ThreadState::Sleep, 900);
            w.sleep_each();
            w.generate(&[(300 * MS, 50 * MS)]);
        },
        otherwise: (Resource::Workers, Confidence::High),
    },
    // It prolongs the wait for a lock whose holder waits for that CPU.
    Case {
        resource: Resource::Lock,
        confidence: Confidence::High,
        says: "A lock",
        evidence: "{}",
        trips: |w| {
            w.hold(8 * S);
            w.spend(8, ThreadState::Lock, 875);
            steal(w, 250 * MS - 1);
        },
        just_not: |w| {
            w.hold(8 * S);
            w.spend(8, ThreadState::Lock, 875);
            steal(w, 250 * MS);
        },
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    // Others took the CPUs: the generator had no part in it.
    Case {
        resource: Resource::OtherPrograms,
        confidence: Confidence::Medium,
        says: "Other programs (names not visible from here): they used 70 % of the generator's \
               CPUs, and the generator waited for them. The server used 1.0 % of its CPU.",
        evidence: r#"{"generator_cpus_used_by_others": 0.7, "others_cpu_s": 1.4}"#,
        trips: |w| {
            w.generate(&[(280 * MS, 600 * MS)]);
            crowd(w, 700 * MS);
            w.serve_by(&[(10 * MS, 0)], 1400 * MS);
        },
        // The server itself is what used the generator's CPUs.
        just_not: |w| {
            w.generate(&[(280 * MS, 600 * MS)]);
            crowd(w, 700 * MS);
            w.serve_by(&[(10 * MS, 0)], 0);
        },
        otherwise: (Resource::Generator, Confidence::High),
    },
    // No such verdict if their CPUs were taken: by the hypervisor, or by others from the generator
    // or the server.
    Case {
        resource: Resource::Elsewhere,
        confidence: Confidence::Medium,
        says: "the server used 50 % of its CPU.",
        evidence: "{}",
        trips: |w| {
            w.hold(64 * S);
            steal(w, 250 * MS - 1);
        },
        just_not: |w| {
            w.hold(64 * S);
            steal(w, 250 * MS);
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
            w.generate(&[(650 * MS, 99 * MS)]);
        },
        just_not: |w| {
            w.hold(64 * S);
            w.generate(&[(650 * MS, 100 * MS)]);
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
            w.serve_by(&[(500 * MS, 249 * MS)], 300 * MS);
        },
        just_not: |w| {
            w.hold(64 * S);
            w.serve_by(&[(500 * MS, 250 * MS)], 300 * MS);
        },
        otherwise: (Resource::OtherPrograms, Confidence::Low),
    },
    Case {
        resource: Resource::Unknown,
        confidence: Confidence::Low,
        says: "Neither is full. The hypervisor gave 6.2",
        evidence: r#"{"generator_starved": false}"#,
        // With the stolen time the server would have had no room.
        trips: |w| steal(w, 250 * MS),
        just_not: |w| steal(w, 250 * MS - 1),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::Unknown,
        confidence: Confidence::Low,
        says: "Neither is full. The generator waited for a CPU that another",
        evidence: r#"{"generator_starved": true, "steal_share": 0.0}"#,
        trips: |w| w.generate(&[(650 * MS, 100 * MS)]),
        just_not: |w| w.generate(&[(650 * MS, 99 * MS)]),
        otherwise: (Resource::Concurrency, Confidence::Medium),
    },
    // Nor has the generator room with what was taken.
    Case {
        resource: Resource::Unknown,
        confidence: Confidence::Low,
        says: "Neither is full. The hypervisor gave 5.2",
        evidence: "{}",
        trips: |w| {
            w.generate(&[(560 * MS, 0)]);
            w.serve(100 * MS);
            steal(w, 210 * MS);
        },
        just_not: |w| {
            w.generate(&[(560 * MS, 0)]);
            w.serve(100 * MS);
            steal(w, 180 * MS);
        },
        otherwise: (Resource::Concurrency, Confidence::Medium),
    },
    // Other programs used CPUs that the server waited for: it would have filled its own, or not.
    Case {
        resource: Resource::OtherPrograms,
        confidence: Confidence::Low,
        says: "Other programs (names not visible from here): they used 0.30 s of this machine's \
               CPUs, and the server's threads waited 0.25 s for CPUs in 1.00 s.",
        evidence: r#"{"run_delay_s": 0.25, "programs": []}"#,
        trips: |w| w.serve_by(&[(500 * MS, 250 * MS)], 300 * MS),
        just_not: |w| w.serve_by(&[(500 * MS, 250 * MS)], 0),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    // Their waits are unknown: all that others used may have been the server's.
    Case {
        resource: Resource::Unknown,
        confidence: Confidence::Low,
        says: "Neither is full.",
        evidence: "{}",
        trips: |w| serve_unread(w, 250 * MS),
        just_not: |w| serve_unread(w, 249 * MS),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    // With all that its threads waited for CPUs the server would have had room.
    Case {
        resource: Resource::Concurrency,
        confidence: Confidence::Medium,
        says: "Too few requests in flight",
        evidence: "{}",
        trips: |w| w.serve_by(&[(500 * MS, 101 * MS)], 300 * MS),
        just_not: |w| w.serve_by(&[(500 * MS, 100 * MS)], 300 * MS),
        otherwise: (Resource::Concurrency, Confidence::High),
    },
    Case {
        resource: Resource::OtherPrograms,
        confidence: Confidence::Medium,
        says: "Other programs (rustc, python3): they used 0.40 s of this machine's CPUs",
        evidence: r#"{"programs": ["rustc", "python3"]}"#,
        trips: |w| {
            w.serve_by(&[(600 * MS, 310 * MS)], 400 * MS);
            w.machine().everywhere = Some(programs());
        },
        just_not: |w| w.serve_by(&[(600 * MS, 290 * MS)], 400 * MS),
        otherwise: (Resource::OtherPrograms, Confidence::Low),
    },
    // The generator waited for what other programs used.
    Case {
        resource: Resource::OtherPrograms,
        confidence: Confidence::Low,
        says: "they used 0.30 s of this machine's CPUs, and the generator waited for CPUs.",
        evidence: r#"{"generator_starved": true}"#,
        trips: |w| {
            w.generate(&[(650 * MS, 100 * MS)]);
            w.serve_by(&[(500 * MS, 0)], 300 * MS);
        },
        // It is not known what used them.
        just_not: |w| {
            w.generate(&[(650 * MS, 100 * MS)]);
            w.serve_by(&[(500 * MS, 0)], 0);
        },
        otherwise: (Resource::Unknown, Confidence::Low),
    },
    // Other programs had a part of the generator's CPUs: without them it may have had room.
    Case {
        resource: Resource::Generator,
        confidence: Confidence::Low,
        says: "The generator: one of its threads was busy for 60 % of the time, and waited for a \
               CPU for 30 %, while the server used 1.0 % of its allowed CPU time. This is a guess.",
        evidence: r#"{"generator_utilisation": 0.6}"#,
        trips: |w| {
            w.generate(&[(600 * MS, 300 * MS)]);
            crowd(w, 300 * MS);
            w.serve_by(&[(10 * MS, 0)], 300 * MS);
        },
        just_not: |w| {
            w.generate(&[(600 * MS, 300 * MS)]);
            crowd(w, 300 * MS);
            w.serve_by(&[(10 * MS, 0)], 0);
        },
        otherwise: (Resource::Generator, Confidence::High),
    },
];

/// Sets how much of four CPU seconds the hypervisor took.
/// A thread works half of the time, and how long it waited for CPUs was not read.
fn serve_unread(w: &mut JudgedWorld, others_ns: u64) {
    w.serve_by(&[(500 * MS, 0)], others_ns);
    for used in w.each_used() {
        used.threads.iter_mut().for_each(|thread| thread.run_delay_ns = None);
    }
}

fn steal(w: &mut JudgedWorld, steal_ns: u64) {
    let host = w.sample().host.as_mut().expect("a machine");
    host.steal_ns = steal_ns;
    host.idle_ns = 4 * S - host.busy_ns - steal_ns;
}

/// Programs that used CPU time, the most first; one of them twice.
fn programs() -> Vec<OtherUse> {
    let of = |pid, name: &str| OtherUse { pid, name: name.into(), run_ns: 200 * MS };
    vec![of(77, "rustc"), of(78, "rustc"), of(79, "python3")]
}

/// Other programs use so much of the generator's CPU.
fn crowd(w: &mut JudgedWorld, others_ns: u64) {
    let cpu = &mut w.machine().cpus[0];
    cpu.busy_ns += others_ns;
    cpu.idle_ns = cpu.idle_ns.saturating_sub(others_ns);
}
