//! Test cases: caveats about the server's numbers.

use std::collections::BTreeMap;

use dyno_model::machine::CpuUse;
use dyno_model::probe::{Probe, RefusedProbe};
use dyno_model::profile::ProfileRecord;
use dyno_model::runtime::RuntimeReading;
use dyno_model::sample::{CgroupUse, Party, PartyUse};
use dyno_model::start::Startup;

use crate::caveat::Code;
use crate::verdict::table::run_world::RunWorld;
use crate::verdict::table::world::{CommandKind, MS, S, TrialWorld};
use crate::verdict::table::{Case, check_cases, info, run_world, warning};

const CASES: &[Case<TrialWorld>] = &[
    info(Code::SERVER_NOT_OBSERVED, |w| w.command = CommandKind::Load, |_| {}),
    info(
        Code::SERVER_NOT_OBSERVED,
        |w| w.record.samples.clear(),
        |w| w.server_counters().threads.clear(),
    ),
    info(Code::SERVER_NOT_OBSERVED, remove_counters, |w| {
        w.all_server_counters().for_each(|s| s.cgroup = None);
    }),
    info(
        Code::SYSCALLS_NOT_MEASURED,
        |w| w.all_server_counters().for_each(|s| s.calls = None),
        |w| w.record.samples.clear(),
    ),
    info(
        Code::SYSCALLS_NOT_MEASURED,
        |w| {
            w.all_server_counters().for_each(|s| s.calls = None);
            w.record.probes.refused = vec![refused_probe(Probe::Syscalls)];
        },
        // Another probe counted the calls.
        |w| {
            w.record.probes.attached = [Probe::Syscalls].into();
            w.record.probes.refused = vec![refused_probe(Probe::EverySyscall)];
        },
    ),
    // The probe stopped during the load.
    info(
        Code::SYSCALLS_NOT_MEASURED,
        |w| w.record.probes.refused = vec![refused_probe(Probe::EverySyscall)],
        |w| w.record.probes.attached = [Probe::EverySyscall].into(),
    ),
    info(
        Code::SYSCALLS_NOT_MEASURED,
        |w| {
            w.all_server_counters()
                .for_each(|s| s.calls.as_mut().expect("calls").responses = Some(0));
        },
        |_| {},
    )
    .given(|w| w.record.probes.attached = [Probe::Syscalls].into()),
    info(
        Code::RUNTIME_NOT_MEASURED,
        |w| w.record.runtime = readings(w, [&["7", "8"], &["7", "9"]]),
        |w| w.record.runtime = readings(w, [&["7", "8"], &["7", "8"]]),
    ),
    info(
        Code::RUNTIME_NOT_MEASURED,
        |w| w.record.runtime = readings(w, [&["7"], &["7"]])[1..].to_vec(),
        |w| w.record.runtime.clear(),
    ),
    info(
        Code::PROBE_REFUSED,
        |w| {
            w.record.probes.refused = [Probe::States, Probe::Modes].map(refused_probe).into();
        },
        |w| w.record.probes.attached = [Probe::States, Probe::Modes].into(),
    ),
    info(
        Code::NO_CGROUP,
        |w| w.all_server_counters().for_each(|s| s.cgroup = None),
        |w| w.record.samples[0].party_use_mut(Party::SUBJECT).cgroup = None,
    ),
    warning(
        Code::COUNTERS_UNREAD,
        // The group used half a second. The living thread used more than half of this time, so it
        // is the busiest thread. The bound for the caveat is 99 % of the time.
        |w| w.server_counters().threads[0].run_ns = 250 * MS + 1,
        |w| w.server_counters().threads[0].run_ns = 495 * MS,
    ),
    warning(
        Code::LEFT_GROUP,
        |w| w.server_counters().strays = Some(1),
        |w| w.server_counters().strays = Some(0),
    ),
    warning(Code::LEFT_GROUP, |w| set_strays_before_ready(w, 2), |w| set_strays_before_ready(w, 0)),
    // The processes hold a batch of memory and 5 % more than their group counted.
    warning(
        Code::LEFT_GROUP,
        |w| set_processes_memory(w, 5_365_424),
        |w| set_processes_memory(w, 5_365_000),
    ),
    info(
        Code::NOT_MEASURED,
        |w| w.all_server_counters().for_each(|s| cgroup(s).cpu_ns = None),
        |_| {},
    ),
    info(Code::NOT_MEASURED, |w| w.server_cgroup().throttled_ns = None, |_| {}),
    info(
        Code::NOT_MEASURED,
        |w| {
            w.server_cgroup().memory_peak_bytes = None;
            w.all_server_counters().for_each(|s| cgroup(s).memory_bytes = None);
        },
        |_| {},
    ),
    info(
        Code::NOT_MEASURED,
        |w| w.all_server_counters().for_each(|s| cgroup(s).memory_anon_bytes = None),
        |_| {},
    ),
    info(
        Code::NOT_MEASURED,
        |w| w.all_server_counters().for_each(|s| cgroup(s).memory_file_bytes = None),
        |_| {},
    ),
    info(Code::NOT_MEASURED, |w| w.all_server_counters().for_each(|s| s.rss_bytes = None), |_| {}),
    info(Code::NOT_MEASURED, |w| w.server_counters().threads[0].run_delay_ns = None, |_| {}),
    info(Code::NOT_MEASURED, |w| w.server_counters().threads[0].switches_voluntary = None, |_| {}),
    info(Code::NOT_MEASURED, |w| w.last_sample().host = None, |_| {}),
    info(
        Code::NOT_MEASURED,
        |w| {
            w.all_server_counters()
                .for_each(|s| (cgroup(s).memory_anon_bytes, s.rss_bytes) = (None, None));
        },
        |w| w.server_cgroup().memory_peak_bytes = None,
    ),
    // On one CPU the bound is a wait of a tenth of the window, for all threads together.
    warning(
        Code::MORE_THREADS_THAN_CPUS,
        |w| w.set_server_threads(&[(300 * MS, 60 * MS), (300 * MS, 40 * MS + 1)], 0),
        |w| w.set_server_threads(&[(300 * MS, 60 * MS), (300 * MS, 40 * MS)], 0),
    ),
    // A thread is busy if it ran or waited for a CPU for a quarter of the time.
    warning(
        Code::MORE_THREADS_THAN_CPUS,
        |w| w.set_server_threads(&[(300 * MS, 60 * MS), (190 * MS, 60 * MS)], 0),
        |w| w.set_server_threads(&[(300 * MS, 60 * MS), (190 * MS, 60 * MS - 1)], 0),
    ),
    // The same bound over two seconds.
    warning(
        Code::MORE_THREADS_THAN_CPUS,
        |w| {
            w.set_server_threads(&[(600 * MS, 100 * MS), (600 * MS, 100 * MS + 1)], 0);
            double_window(w);
        },
        |w| {
            w.set_server_threads(&[(600 * MS, 100 * MS), (600 * MS, 100 * MS)], 0);
            double_window(w);
        },
    ),
    // A quota of one and a half CPUs lets two threads run.
    warning(
        Code::MORE_THREADS_THAN_CPUS,
        |w| w.set_server_threads(&[(300 * MS, 200 * MS); 3], 0),
        |w| w.set_server_threads(&[(300 * MS, 200 * MS); 2], 0),
    )
    .given(|w| w.allowed_cpus = 1.5),
    // Two bounds are a tenth of the allowed CPU time: the wait, and the use by other programs.
    warning(
        Code::SERVER_STARVED,
        |w| w.set_server_threads(&[(500 * MS, 100 * MS + 1)], 300 * MS),
        |w| w.set_server_threads(&[(500 * MS, 100 * MS)], 300 * MS),
    ),
    warning(Code::SERVER_STARVED, |w| set_others(w, 250 * MS), |w| set_others(w, 250 * MS - 1)),
    // On the server's CPU, other programs used at most the CPU's busy time minus the server's time.
    warning(
        Code::SERVER_STARVED,
        |w| set_busy_server_cpu(w, 750 * MS),
        |w| set_busy_server_cpu(w, 750 * MS - 1),
    ),
    warning(
        Code::SERVER_STARVED,
        |w| w.set_server_threads(&[(500 * MS, 200 * MS)], 300 * MS),
        |w| {
            w.set_server_threads(&[(500 * MS, 200 * MS)], 300 * MS);
            w.last_sample().host = None;
        },
    ),
    // No caveat if the server fills its CPU, or its quota throttles it in more than a twentieth of
    // the periods.
    warning(
        Code::SERVER_STARVED,
        |w| w.set_server_threads(&[(950 * MS - 1, 200 * MS)], 300 * MS),
        |w| w.set_server_threads(&[(950 * MS, 200 * MS)], 300 * MS),
    ),
    warning(
        Code::SERVER_STARVED,
        |w| w.server_cgroup().throttled_periods = Some(50),
        |w| w.server_cgroup().throttled_periods = Some(51),
    )
    .given(|w| w.set_server_threads(&[(500 * MS, 200 * MS)], 300 * MS)),
    // No caveat if more threads than CPUs use three quarters of the CPU: they wait for each other.
    warning(
        Code::SERVER_STARVED,
        |w| {
            w.set_server_threads(&[(375 * MS, 100 * MS), (375 * MS - 1, 100 * MS)], 300 * MS);
        },
        |w| {
            w.set_server_threads(&[(375 * MS, 100 * MS), (375 * MS, 100 * MS)], 300 * MS);
        },
    ),
    info(
        Code::TICK_ACCOUNTING,
        |w| w.facts.tick_accounting = Some(true),
        |w| w.facts.tick_accounting = Some(false),
    ),
    info(
        Code::TICK_ACCOUNTING,
        |w| w.facts.tick_accounting = Some(true),
        |w| {
            w.facts.tick_accounting = Some(true);
            w.all_server_counters().for_each(|s| cgroup(s).cpu_ns = None);
        },
    ),
    info(
        Code::TICK_ACCOUNTING,
        |w| w.facts.tick_accounting = Some(true),
        |w| w.facts.tick_accounting = None,
    ),
];

const RUN_CASES: &[Case<RunWorld>] = &[
    run_world::info(
        Code::SERVER_NOT_OBSERVED,
        |w| w.run.starts[1].parts.clear(),
        // A start that failed has no trials.
        |w| {
            w.run.starts[1].parts.clear();
            w.run.trials.remove(1);
        },
    ),
    run_world::info(
        Code::STARTED_FOR_PROFILES,
        |w| w.run.profiles = vec![ProfileRecord::default()],
        |w| {
            w.run.profiles = vec![ProfileRecord {
                failure: Some("it ended".into()),
                ..ProfileRecord::default()
            }];
        },
    ),
    run_world::warning(
        Code::LIMITS_NOT_SET,
        |w| w.add_limit(None, Some("no group")),
        |w| w.add_limit(Some("1073741824"), None),
    ),
    run_world::warning(Code::LIMITS_NOT_SET, |w| w.add_limit(None, None), |w| w.run.starts.clear()),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_cases("caveats/server", CASES);
    check_cases("caveats/server_of_runs", RUN_CASES);
}

fn refused_probe(probe: Probe) -> RefusedProbe {
    RefusedProbe { probe, reason: "permission denied".into(), hint: "Be root.".into() }
}

/// Readings of the runtime at both ends of the window. `sockets`: names of the processes' sockets.
fn readings(w: &TrialWorld, sockets: [&[&str]; 2]) -> Vec<RuntimeReading> {
    let (opens, closes) = w.record.window_ns;
    let reading = |(at_ns, sockets): (u64, &[&str])| RuntimeReading {
        at_ns: w.record.began_ns + at_ns,
        took_ns: 1,
        processes: sockets.len() as u32,
        sockets: sockets.iter().map(|name| (*name).to_string()).collect(),
        values: BTreeMap::from([("requests_total".into(), at_ns as f64)]),
    };
    [opens, closes].into_iter().zip(sockets).map(reading).collect()
}

fn cgroup(used: &mut PartyUse) -> &mut CgroupUse {
    used.cgroup.as_mut().expect("a group")
}

/// Sets the number of processes that were outside of the control group before the server was ready.
fn set_strays_before_ready(w: &mut TrialWorld, strays: u32) {
    w.start.parts[0].startup = Some(Startup {
        listening_ns: None,
        first_response_ns: None,
        ready_ns: MS,
        cpu_ns: None,
        strays,
    });
}

/// Sets the anonymous memory of the server's processes. Its group counted 3 MB.
fn set_processes_memory(w: &mut TrialWorld, bytes: u64) {
    let used = w.server_counters();
    (used.rss_anon_bytes, used.rss_shmem_bytes) = (Some(bytes), Some(0));
}

/// Removes the server's counters from each sample.
fn remove_counters(w: &mut TrialWorld) {
    for used in w.all_server_counters() {
        used.cgroup = None;
        used.threads.clear();
    }
}

/// Doubles the length of the window.
fn double_window(w: &mut TrialWorld) {
    w.record.window_ns = (0, 2 * S);
    w.last_sample().at_ns = 2 * S;
}

/// Sets the time for which the server's CPU was busy. Other programs used 1.2 s of all CPUs.
fn set_busy_server_cpu(w: &mut TrialWorld, busy_ns: u64) {
    set_others(w, 1200 * MS);
    w.cpu_ids = vec![0];
    w.machine().remaining_cpus = vec![CpuUse { busy_ns, ..CpuUse::default() }];
}

/// Sets a server that waits for its 2.5 CPUs, and the CPU time that other programs used.
fn set_others(w: &mut TrialWorld, others_ns: u64) {
    w.allowed_cpus = 2.5;
    w.set_server_threads(&[(500 * MS, 400 * MS)], others_ns);
    // With this value the sums are exact in floating point.
    let generator_ns = 250 * MS;
    w.last_sample().party_use_mut(Party::GENERATOR).threads[0].run_ns = generator_ns;
    w.last_sample().host.as_mut().expect("a machine").busy_ns = 500 * MS + generator_ns + others_ns;
}
