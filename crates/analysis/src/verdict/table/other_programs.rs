//! Test cases: limiters of steps in which other programs or virtual machines took CPU time from the
//! server or the generator.

use dyno_archive::machine::OtherUse;
use dyno_archive::sample::{OtherPartiesUse, ThreadState};

use super::backends::backend_use;
use super::limiter::{Case, case};
use super::world::{MS, S, TrialWorld};
use crate::verdict::{Confidence, Resource};

pub(super) const CASES: &[Case] = &[
    // Lost CPU time prolongs neither waits for a disk nor sleeps.
    case(
        (Resource::Disk, Confidence::Medium),
        "A disk: the server's serving thread waited for a disk for 50 % of its time",
        |w| w.set_generator_threads(&[(300 * MS, 50 * MS + 1)]),
        |w| w.set_generator_threads(&[(300 * MS, 50 * MS)]),
    )
    .given(|w| w.set_thread_states(1, ThreadState::Disk, 500))
    .near_miss_is(Resource::Disk, Confidence::High),
    case(
        (Resource::Workers, Confidence::Medium),
        "its 8 serving threads slept for 90 % of their time",
        |w| w.set_generator_threads(&[(300 * MS, 50 * MS + 1)]),
        |w| w.set_generator_threads(&[(300 * MS, 50 * MS)]),
    )
    .given(|w| {
        w.set_in_flight_time(64 * S);
        w.set_thread_states(8, ThreadState::Sleep, 900);
        w.sleep_once_per_response();
    })
    .near_miss_is(Resource::Workers, Confidence::High),
    // Lost CPU time prolongs waits for a lock whose holder waits for the CPU.
    case(
        (Resource::Lock, Confidence::High),
        "A lock",
        |w| set_steal(w, 250 * MS - 1),
        |w| set_steal(w, 250 * MS),
    )
    .given(|w| {
        w.set_in_flight_time(8 * S);
        w.set_thread_states(8, ThreadState::Lock, 875);
    })
    .near_miss_is(Resource::Unknown, Confidence::Low),
    // Other programs filled the generator's CPUs.
    case(
        (Resource::OtherPrograms, Confidence::Medium),
        "Other programs (names not visible from here): they used 70 % of the generator's CPUs, and \
         the generator waited for these CPUs. The server used 1.0 % of its CPU.",
        |w| w.set_server_threads(&[(10 * MS, 0)], 1400 * MS),
        // The server used the generator's CPUs.
        |w| w.set_server_threads(&[(10 * MS, 0)], 0),
    )
    .given(|w| {
        w.set_generator_threads(&[(280 * MS, 600 * MS)]);
        add_others(w, 700 * MS);
    })
    .evidence(r#"{"generator_cpus_used_by_others": 0.7, "others_cpu_s": 1.4}"#)
    .near_miss_is(Resource::Generator, Confidence::High),
    // A thread of the server is full, too.
    case(
        (Resource::OtherPrograms, Confidence::Low),
        "One thread of the server was busy for 90 % of the time, so it may be the limit.",
        |w| fill_generator_cpus(w, (280, 600), 900),
        |w| fill_generator_cpus(w, (280, 600), 899),
    )
    .near_miss_is(Resource::OtherPrograms, Confidence::Medium),
    // A back end is full, too.
    case(
        (Resource::OtherPrograms, Confidence::Low),
        "A back end may be the limit as well. The back end db: it used 95 % of its allowed",
        |w| w.backends = vec![backend_use("db", 0.95, false)],
        |w| w.backends = vec![backend_use("db", 0.5, false)],
    )
    .given(|w| fill_generator_cpus(w, (280, 600), 10))
    .near_miss_is(Resource::OtherPrograms, Confidence::Medium),
    // The generator slept for more than a quarter of the time. The server may serve one request at
    // a time, without using its CPU.
    case(
        (Resource::OtherPrograms, Confidence::Low),
        "The generator had nothing to do for 80 % of the time, because no response was ready.",
        |w| fill_generator_cpus(w, (100, 100), 10),
        |w| fill_generator_cpus(w, (150, 601), 10),
    )
    .near_miss_is(Resource::OtherPrograms, Confidence::Medium),
    // `elsewhere` is excluded if server or generator may have lost CPU time to the hypervisor or to
    // other programs.
    case(
        (Resource::Elsewhere, Confidence::Medium),
        "the server used only 50 % of its CPU.",
        |w| set_steal(w, 250 * MS - 1),
        |w| set_steal(w, 250 * MS),
    )
    .given(|w| w.set_in_flight_time(64 * S))
    .near_miss_is(Resource::Unknown, Confidence::Low),
    case(
        (Resource::Elsewhere, Confidence::Medium),
        "the server used only 50 % of its CPU.",
        |w| w.set_generator_threads(&[(650 * MS, 99 * MS)]),
        |w| w.set_generator_threads(&[(650 * MS, 100 * MS)]),
    )
    .given(|w| w.set_in_flight_time(64 * S))
    .near_miss_is(Resource::Unknown, Confidence::Low),
    case(
        (Resource::Elsewhere, Confidence::Medium),
        "the server used only 50 % of its CPU.",
        |w| w.set_server_threads(&[(500 * MS, 249 * MS)], 300 * MS),
        |w| w.set_server_threads(&[(500 * MS, 250 * MS)], 300 * MS),
    )
    .given(|w| w.set_in_flight_time(64 * S))
    .near_miss_is(Resource::OtherPrograms, Confidence::Low),
    case(
        (Resource::Unknown, Confidence::Low),
        "Neither CPU was full. The hypervisor gave 6.2",
        // The server's use and the stolen time together leave no headroom.
        |w| set_steal(w, 250 * MS),
        |w| set_steal(w, 250 * MS - 1),
    )
    .evidence(r#"{"generator_starved": false}"#),
    case(
        (Resource::Unknown, Confidence::Low),
        "Neither CPU was full. The generator waited for a CPU that another",
        |w| w.set_generator_threads(&[(650 * MS, 100 * MS)]),
        |w| w.set_generator_threads(&[(650 * MS, 99 * MS)]),
    )
    .evidence(r#"{"generator_starved": true, "steal_share": 0.0}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // The generator's need and the stolen time together leave no headroom.
    case(
        (Resource::Unknown, Confidence::Low),
        "Neither CPU was full. The hypervisor gave 5.2",
        |w| set_steal(w, 210 * MS),
        |w| set_steal(w, 180 * MS),
    )
    .given(|w| {
        w.set_generator_threads(&[(560 * MS, 0)]);
        w.set_server_cpu(100 * MS);
    })
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // Other programs used CPUs for which the server waited. With that time the server would not be
    // full.
    case(
        (Resource::OtherPrograms, Confidence::Low),
        "Other programs (names not visible from here): they used 0.30 s of this machine's CPU \
         time, and in the window of 1.00 s, the server's threads together waited for a CPU for \
         0.25 s.",
        |w| w.set_server_threads(&[(500 * MS, 250 * MS)], 300 * MS),
        |w| w.set_server_threads(&[(500 * MS, 250 * MS)], 0),
    )
    .evidence(r#"{"run_delay_s": 0.25, "programs": []}"#)
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // Threads of the kernel used the CPUs.
    case(
        (Resource::OtherPrograms, Confidence::Low),
        "they used 0.10 s of this machine's CPU time",
        |w| w.machine().kernel_threads_ns = Some(200 * MS - 1),
        |w| w.machine().kernel_threads_ns = Some(200 * MS + 1),
    )
    .given(|w| w.set_server_threads(&[(500 * MS, 250 * MS)], 300 * MS))
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // The threads' waits are unknown, so the server may have lost all CPU time that other programs
    // used.
    case(
        (Resource::Unknown, Confidence::Low),
        "Neither CPU was full.",
        |w| set_unknown_waits(w, 250 * MS),
        |w| set_unknown_waits(w, 249 * MS),
    )
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // It is unknown whether other programs used the CPUs for which the server waited.
    case(
        (Resource::Unknown, Confidence::Low),
        "Neither CPU was full.",
        |w| set_unknown_others(w, 250 * MS),
        |w| set_unknown_others(w, 249 * MS),
    )
    .near_miss_is(Resource::Concurrency, Confidence::Medium),
    // The server waited for CPUs, but would have had headroom even with that time.
    case(
        (Resource::Concurrency, Confidence::Medium),
        "Too few requests in flight",
        |w| w.set_server_threads(&[(500 * MS, 101 * MS)], 300 * MS),
        |w| w.set_server_threads(&[(500 * MS, 100 * MS)], 300 * MS),
    ),
    case(
        (Resource::OtherPrograms, Confidence::Medium),
        "Other programs (rustc, python3): they used 0.40 s of this machine's CPU time",
        |w| {
            w.set_server_threads(&[(600 * MS, 310 * MS)], 400 * MS);
            w.machine().everywhere = Some(programs());
        },
        |w| w.set_server_threads(&[(600 * MS, 290 * MS)], 400 * MS),
    )
    .evidence(r#"{"programs": ["rustc", "python3"]}"#)
    .near_miss_is(Resource::OtherPrograms, Confidence::Low),
    // The generator waited for CPUs that other programs used.
    case(
        (Resource::OtherPrograms, Confidence::Low),
        "they used 0.30 s of this machine's CPU time, and the generator waited for a CPU.",
        |w| w.set_server_threads(&[(500 * MS, 0)], 300 * MS),
        // No other program is known to have used the CPUs.
        |w| w.set_server_threads(&[(500 * MS, 0)], 0),
    )
    .given(|w| w.set_generator_threads(&[(650 * MS, 100 * MS)]))
    .evidence(r#"{"generator_starved": true}"#)
    .near_miss_is(Resource::Unknown, Confidence::Low),
    // Other programs used a part of the generator's CPUs. Without them the generator may have had
    // headroom.
    case(
        (Resource::Generator, Confidence::Low),
        "The generator: one of its threads was busy for 60 % of the time, and waited for a CPU for \
         another 30 %, while the server used 1.0 % of its allowed CPU time.",
        |w| w.set_server_threads(&[(10 * MS, 0)], 300 * MS),
        |w| w.set_server_threads(&[(10 * MS, 0)], 0),
    )
    .given(|w| {
        w.set_generator_threads(&[(600 * MS, 300 * MS)]);
        add_others(w, 300 * MS);
    })
    .evidence(r#"{"generator_utilisation": 0.6}"#)
    .near_miss_is(Resource::Generator, Confidence::High),
    // If the CPU time of other programs is unknown, they may have used the generator's CPUs.
    case(
        (Resource::Generator, Confidence::Low),
        "and waited for a CPU for another 30 %",
        |w| {
            add_others(w, 300 * MS);
            w.set_server_threads(&[(10 * MS, 0)], 300 * MS);
            w.last_sample().co_runners = Some(OtherPartiesUse::default());
        },
        |w| {
            w.set_server_threads(&[(10 * MS, 0)], 300 * MS);
            w.last_sample().co_runners = Some(OtherPartiesUse::default());
        },
    )
    .given(|w| w.set_generator_threads(&[(600 * MS, 300 * MS)]))
    .near_miss_is(Resource::Generator, Confidence::High),
];

/// Sets a server thread that works half of the time, with an unknown wait for CPUs.
fn set_unknown_waits(w: &mut TrialWorld, others_ns: u64) {
    w.set_server_threads(&[(500 * MS, 0)], others_ns);
    for used in w.all_server_counters() {
        used.threads.iter_mut().for_each(|thread| thread.run_delay_ns = None);
    }
}

/// Sets a server thread that works half of the time and waits for a CPU, while the CPU time of
/// other programs is unknown.
fn set_unknown_others(w: &mut TrialWorld, waited_ns: u64) {
    w.set_server_threads(&[(500 * MS, waited_ns)], 300 * MS);
    w.last_sample().co_runners = Some(OtherPartiesUse::default());
}

/// Sets how much of four CPU seconds the hypervisor took.
fn set_steal(w: &mut TrialWorld, steal_ns: u64) {
    let host = w.last_sample().host.as_mut().expect("a machine");
    host.steal_ns = steal_ns;
    host.idle_ns = 4 * S - host.busy_ns - steal_ns;
}

/// Programs by CPU time, the highest first. One name occurs twice.
fn programs() -> Vec<OtherUse> {
    let program = |pid, name: &str| OtherUse { pid, name: name.into(), run_ns: 200 * MS };
    vec![program(77, "rustc"), program(78, "rustc"), program(79, "python3")]
}

/// Lets other programs use the rest of the generator's CPU. `run`, `wait`: times of the generator's
/// thread, ms. `server`: time of the server's thread on two CPUs, ms.
fn fill_generator_cpus(w: &mut TrialWorld, (run, wait): (u64, u64), server: u64) {
    w.allowed_cpus = 2.0;
    w.set_generator_threads(&[(run * MS, wait * MS)]);
    add_others(w, S - run * MS);
    w.set_server_threads(&[(server * MS, 0)], 1400 * MS);
}

/// Adds CPU time of other programs on the generator's CPU.
fn add_others(w: &mut TrialWorld, others_ns: u64) {
    let cpu = &mut w.machine().cpus[0];
    cpu.busy_ns += others_ns;
    cpu.idle_ns = cpu.idle_ns.saturating_sub(others_ns);
}
