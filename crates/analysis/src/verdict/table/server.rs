//! Test cases: caveats about the numbers of a server.

use std::collections::BTreeMap;

use dyno_archive::host::HostUse;
use dyno_archive::load::TcpCounters;
use dyno_archive::machine::{CpuUse, HeatUse, OtherUse};
use dyno_archive::probe::{Probe, RefusedProbe};
use dyno_archive::runtime::RuntimeReading;
use dyno_archive::sample::{CgroupUse, NetworkUse, Party, PartyUse};

use super::world::{MS, S, TrialWorld, equal_times};
use super::{Case, case};
use crate::caveat::{Code, Severity};
use crate::duet::DuetResult;
use crate::turns::TurnsResult;

/// A load that ran at the same time as other loads: `loads` ran, and one more was planned.
fn duet(loads: u32, is_usual: bool) -> Option<DuetResult> {
    Some(DuetResult {
        loads,
        planned: loads.max(1) + 1,
        concurrent_subjects: Vec::new(),
        is_usual,
        began_ns: 0,
        cpus: None,
        rounds: Vec::new(),
    })
}

/// Sets a duet on one CPU: how much of it its servers used, and the context switches of 1,000
/// requests.
fn set_idle_duet(w: &mut TrialWorld, cpus: f64, switches: u64) {
    w.duet = duet(2, true).map(|duet| DuetResult { cpus: Some(cpus), ..duet });
    w.set_voluntary_switches(switches);
}

/// Turns of two servers. `idle_share`: CPU time that the server used in the other server's turns,
/// as a share of the CPU time in its own turns.
fn turns_with_idle_use(idle_share: f64) -> Option<TurnsResult> {
    Some(TurnsResult {
        slice_s: 0.4,
        began_ns: 0,
        idle_cpus: Some(idle_share / 2.0),
        idle_share: Some(idle_share),
        carried_share: Some(idle_share),
        throughput_rps: None,
        rounds: Vec::new(),
    })
}

/// Turns of this length, in seconds. The server is idle in the other server's turns.
pub(super) fn turns_of_length(slice_s: f64) -> Option<TurnsResult> {
    turns_with_idle_use(0.0).map(|turns| TurnsResult { slice_s, ..turns })
}

fn other_program(pid: u32, name: &str, ms: u64) -> OtherUse {
    OtherUse { pid, name: name.into(), run_ns: ms * MS }
}

fn network(w: &mut TrialWorld) -> &mut NetworkUse {
    w.server_counters().network.as_mut().expect("a network")
}

/// Sets the writes of 1,000 responses and their TCP segments.
fn set_writes(w: &mut TrialWorld, writes: u64, segments: u64) {
    let calls = w.server_counters().calls.as_mut().expect("calls");
    calls.by_name.get_mut("write").expect("writes").count = writes;
    w.record.tcp = Some(TcpCounters { data_segments_in: segments, ..TcpCounters::default() });
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

/// Caveats about missing counters, waits for CPUs, turns and the network.
pub(super) const CASES: &[Case<TrialWorld>] = &[
    case(
        (Code::SERVER_NOT_OBSERVED, Severity::Info),
        "no sample of the server was taken.",
        |w| w.record.samples.clear(),
        |w| w.server_counters().threads.clear(),
    ),
    case(
        (Code::SERVER_NOT_OBSERVED, Severity::Info),
        "no sample of the server was taken.",
        remove_counters,
        |w| w.all_server_counters().for_each(|s| s.cgroup = None),
    ),
    case(
        (Code::SYSCALLS_NOT_MEASURED, Severity::Info),
        "`--observe` did not include them",
        |w| w.all_server_counters().for_each(|s| s.calls = None),
        |w| w.record.samples.clear(),
    )
    .evidence(r#"{"refused": null}"#),
    case(
        (Code::SYSCALLS_NOT_MEASURED, Severity::Info),
        "were not counted: permission denied. Be root.",
        |w| {
            w.all_server_counters().for_each(|s| s.calls = None);
            w.record.probes.refused = vec![refused_probe(Probe::Syscalls)];
        },
        // Another probe counted the calls.
        |w| {
            w.record.probes.attached = [Probe::Syscalls].into();
            w.record.probes.refused = vec![refused_probe(Probe::EverySyscall)];
        },
    )
    .evidence(r#"{"refused": "permission denied"}"#),
    // The probe stopped during the load.
    case(
        (Code::SYSCALLS_NOT_MEASURED, Severity::Info),
        "System calls were counted for 1.0 s only: permission denied. Be root.",
        |w| w.record.probes.refused = vec![refused_probe(Probe::EverySyscall)],
        |w| w.record.probes.attached = [Probe::EverySyscall].into(),
    )
    .evidence(r#"{"refused": "permission denied"}"#),
    case(
        (Code::SYSCALLS_NOT_MEASURED, Severity::Info),
        "no response arrived while",
        |w| {
            w.all_server_counters()
                .for_each(|s| s.calls.as_mut().expect("calls").responses = Some(0));
        },
        |_| {},
    )
    .given(|w| w.record.probes.attached = [Probe::Syscalls].into())
    .evidence(r#"{"refused": null}"#),
    case(
        (Code::RUNTIME_NOT_MEASURED, Severity::Info),
        "ended or started in the measured window",
        |w| w.record.runtime = readings(w, [&["7", "8"], &["7", "9"]]),
        |w| w.record.runtime = readings(w, [&["7", "8"], &["7", "8"]]),
    ),
    case(
        (Code::RUNTIME_NOT_MEASURED, Severity::Info),
        "fewer than two readings",
        |w| w.record.runtime = readings(w, [&["7"], &["7"]])[1..].to_vec(),
        |w| w.record.runtime.clear(),
    ),
    case(
        (Code::PROBE_REFUSED, Severity::Info),
        "dyno could not record states, modes, because permission denied. Be root.",
        |w| {
            w.record.probes.refused = [Probe::States, Probe::Modes].map(refused_probe).into();
        },
        |w| w.record.probes.attached = [Probe::States, Probe::Modes].into(),
    )
    .evidence(r#"{"probes": ["states", "modes"], "why": "permission denied"}"#),
    case(
        (Code::NO_CGROUP, Severity::Info),
        "sum over the server's threads",
        |w| w.all_server_counters().for_each(|s| s.cgroup = None),
        |w| w.record.samples[0].party_use_mut(Party::SUBJECT).cgroup = None,
    ),
    case(
        (Code::COUNTERS_UNREAD, Severity::Warning),
        "ended before their counters were read. These threads and processes used 0.25 s of CPU \
         time. dyno sampled 0 threads and 0 processes that had ended by the last sample.",
        // The group used half a second. The living thread used more than half of this time, so it
        // is the busiest thread. The bound for the caveat is 99 % of the time.
        |w| w.server_counters().threads[0].run_ns = 250 * MS + 1,
        |w| w.server_counters().threads[0].run_ns = 495 * MS,
    )
    .evidence(
        r#"{"threads": 0, "processes": 0, "cpu_s": 0.249999999, "unknown": ["run delay",
            "context switches", "thread states"]}"#,
    ),
    case(
        (Code::LEFT_GROUP, Severity::Warning),
        "Processes of the server (1) left the control group in which it was started",
        |w| w.server_counters().strays = Some(1),
        |w| w.server_counters().strays = Some(0),
    )
    .evidence(r#"{"processes": 1}"#),
    case(
        (Code::NOT_MEASURED, Severity::Info),
        "so they are unknown: cpu_user_s and cpu_sys_s. `dyno doctor`",
        |w| w.all_server_counters().for_each(|s| cgroup(s).cpu_ns = None),
        |_| {},
    )
    .evidence(r#"{"missing": ["cpu_user_s and cpu_sys_s"]}"#),
    case(
        (Code::NOT_MEASURED, Severity::Info),
        "so they are unknown: throttled_s. `dyno doctor`",
        |w| w.server_cgroup().throttled_ns = None,
        |_| {},
    )
    .evidence(r#"{"missing": ["throttled_s"]}"#),
    case(
        (Code::NOT_MEASURED, Severity::Info),
        "so they are unknown: memory_peak_bytes. `dyno doctor`",
        |w| {
            w.server_cgroup().memory_peak_bytes = None;
            w.all_server_counters().for_each(|s| cgroup(s).memory_bytes = None);
        },
        |_| {},
    )
    .evidence(r#"{"missing": ["memory_peak_bytes"]}"#),
    case(
        (Code::NOT_MEASURED, Severity::Info),
        "so they are unknown: memory_anon_bytes. `dyno doctor`",
        |w| w.all_server_counters().for_each(|s| cgroup(s).memory_anon_bytes = None),
        |_| {},
    )
    .evidence(r#"{"missing": ["memory_anon_bytes"]}"#),
    case(
        (Code::NOT_MEASURED, Severity::Info),
        "so they are unknown: memory_file_bytes. `dyno doctor`",
        |w| w.all_server_counters().for_each(|s| cgroup(s).memory_file_bytes = None),
        |_| {},
    )
    .evidence(r#"{"missing": ["memory_file_bytes"]}"#),
    case(
        (Code::NOT_MEASURED, Severity::Info),
        "so they are unknown: rss_bytes. `dyno doctor`",
        |w| w.all_server_counters().for_each(|s| s.rss_bytes = None),
        |_| {},
    )
    .evidence(r#"{"missing": ["rss_bytes"]}"#),
    case(
        (Code::NOT_MEASURED, Severity::Info),
        "so they are unknown: run_delay_s. `dyno doctor`",
        |w| w.server_counters().threads[0].run_delay_ns = None,
        |_| {},
    )
    .evidence(r#"{"missing": ["run_delay_s"]}"#),
    case(
        (Code::NOT_MEASURED, Severity::Info),
        "so they are unknown: context switches. `dyno doctor`",
        |w| w.server_counters().threads[0].switches_voluntary = None,
        |_| {},
    )
    .evidence(r#"{"missing": ["context switches"]}"#),
    case(
        (Code::NOT_MEASURED, Severity::Info),
        "so they are unknown: steal_share. `dyno doctor`",
        |w| w.last_sample().host = None,
        |_| {},
    )
    .evidence(r#"{"missing": ["steal_share"]}"#),
    case(
        (Code::NOT_MEASURED, Severity::Info),
        "so they are unknown: memory_anon_bytes, rss_bytes. `dyno doctor`",
        |w| {
            w.all_server_counters()
                .for_each(|s| (cgroup(s).memory_anon_bytes, s.rss_bytes) = (None, None));
        },
        |w| w.server_cgroup().memory_peak_bytes = None,
    )
    .evidence(r#"{"missing": ["memory_anon_bytes", "rss_bytes"]}"#),
    // On one CPU the bound is a wait of a tenth of the window, for all threads together.
    case(
        (Code::MORE_THREADS_THAN_CPUS, Severity::Warning),
        "2 busy threads of the server took turns on one CPU. In the window of 1.00 s, the threads \
         together waited for a CPU for 0.10 s.",
        |w| w.set_server_threads(&[(300 * MS, 60 * MS), (300 * MS, 40 * MS + 1)], 0),
        |w| w.set_server_threads(&[(300 * MS, 60 * MS), (300 * MS, 40 * MS)], 0),
    )
    .evidence(r#"{"busy_threads": 2, "cpus": 1.0, "run_delay_s": 0.100000001}"#),
    // A thread is busy if it ran or waited for a CPU for a quarter of the time.
    case(
        (Code::MORE_THREADS_THAN_CPUS, Severity::Warning),
        "2 busy threads",
        |w| w.set_server_threads(&[(300 * MS, 60 * MS), (190 * MS, 60 * MS)], 0),
        |w| w.set_server_threads(&[(300 * MS, 60 * MS), (190 * MS, 60 * MS - 1)], 0),
    )
    .evidence(r#"{"busy_threads": 2}"#),
    // The same bound over two seconds.
    case(
        (Code::MORE_THREADS_THAN_CPUS, Severity::Warning),
        "took turns on one CPU. In the window of 2.00 s, the threads together waited for a CPU for \
         0.20 s.",
        |w| {
            w.set_server_threads(&[(600 * MS, 100 * MS), (600 * MS, 100 * MS + 1)], 0);
            double_window(w);
        },
        |w| {
            w.set_server_threads(&[(600 * MS, 100 * MS), (600 * MS, 100 * MS)], 0);
            double_window(w);
        },
    )
    .evidence(r#"{"busy_threads": 2, "cpus": 1.0}"#),
    // A quota of one and a half CPUs lets two threads run.
    case(
        (Code::MORE_THREADS_THAN_CPUS, Severity::Warning),
        "3 busy threads of the server took turns on 1.5 CPUs. In the window of 1.00 s, the threads \
         together waited for a CPU for 0.60 s",
        |w| w.set_server_threads(&[(300 * MS, 200 * MS); 3], 0),
        |w| w.set_server_threads(&[(300 * MS, 200 * MS); 2], 0),
    )
    .given(|w| w.allowed_cpus = 1.5)
    .evidence(r#"{"cpus": 1.5}"#),
    // Two bounds are a tenth of the allowed CPU time: the wait, and the use by other programs.
    case(
        (Code::SERVER_STARVED, Severity::Warning),
        "In the window of 1.00 s, the server's threads together waited for a CPU for 0.10 s. Other \
         programs used the server's CPUs for up to",
        |w| w.set_server_threads(&[(500 * MS, 100 * MS + 1)], 300 * MS),
        |w| w.set_server_threads(&[(500 * MS, 100 * MS)], 300 * MS),
    )
    .evidence(r#"{"run_delay_s": 0.100000001, "others_cpu_s": 0.3}"#),
    case(
        (Code::SERVER_STARVED, Severity::Warning),
        "used the server's CPUs for up to 0.25 s",
        |w| set_others(w, 250 * MS),
        |w| set_others(w, 250 * MS - 1),
    )
    .evidence(r#"{"others_cpu_s": 0.25}"#),
    // On the server's CPU, other programs used at most the CPU's busy time minus the server's time.
    case(
        (Code::SERVER_STARVED, Severity::Warning),
        "used the server's CPUs for up to 0.25 s",
        |w| set_busy_server_cpu(w, 750 * MS),
        |w| set_busy_server_cpu(w, 750 * MS - 1),
    )
    .evidence(r#"{"others_cpu_s": 1.2, "others_on_its_cpus_s": 0.25}"#),
    case(
        (Code::SERVER_STARVED, Severity::Warning),
        "waited for a CPU for 0.20 s",
        |w| w.set_server_threads(&[(500 * MS, 200 * MS)], 300 * MS),
        |w| {
            w.set_server_threads(&[(500 * MS, 200 * MS)], 300 * MS);
            w.last_sample().host = None;
        },
    ),
    // No caveat if the server fills its CPU, or its quota throttles it in more than a twentieth of
    // the periods.
    case(
        (Code::SERVER_STARVED, Severity::Warning),
        "waited for a CPU for 0.20 s",
        |w| w.set_server_threads(&[(950 * MS - 1, 200 * MS)], 300 * MS),
        |w| w.set_server_threads(&[(950 * MS, 200 * MS)], 300 * MS),
    ),
    case(
        (Code::SERVER_STARVED, Severity::Warning),
        "waited for a CPU for 0.20 s",
        |w| w.server_cgroup().throttled_periods = Some(50),
        |w| w.server_cgroup().throttled_periods = Some(51),
    )
    .given(|w| w.set_server_threads(&[(500 * MS, 200 * MS)], 300 * MS)),
    // No caveat if more threads than CPUs use three quarters of the CPU: they wait for each other.
    case(
        (Code::SERVER_STARVED, Severity::Warning),
        "waited for a CPU for 0.20 s",
        |w| {
            w.set_server_threads(&[(375 * MS, 100 * MS), (375 * MS - 1, 100 * MS)], 300 * MS);
        },
        |w| {
            w.set_server_threads(&[(375 * MS, 100 * MS), (375 * MS, 100 * MS)], 300 * MS);
        },
    ),
    case(
        (Code::CONTAMINATED, Severity::Warning),
        "Other programs used 0.10 CPUs of this machine while the step ran: cc1 (process 77) 0.06, \
         ld (process 78) 0.04.",
        |w| {
            w.machine().everywhere =
                Some(vec![other_program(77, "cc1", 60), other_program(78, "ld", 40)]);
        },
        |w| {
            w.machine().everywhere =
                Some(vec![other_program(77, "cc1", 60), other_program(78, "ld", 39)]);
        },
    )
    .evidence(r#"{"names": ["cc1", "ld"]}"#),
    case(
        (Code::THERMAL_THROTTLING, Severity::Warning),
        "slower for up to 2.0 % of the step.",
        |w| w.machine().heat = Some(HeatUse { throttled_ns: 20 * MS + 1, events: 1 }),
        |w| w.machine().heat = Some(HeatUse { throttled_ns: 20 * MS, events: 3 }),
    )
    .evidence(r#"{"share": 0.020000001}"#),
    case(
        (Code::BUSY_IN_OTHERS_TURNS, Severity::Warning),
        "This server also used CPU time while other servers were loaded: 2.0 % of its CPU time in \
         its own turns.",
        |w| w.turns = turns_with_idle_use(0.02),
        |w| w.turns = turns_with_idle_use(0.019),
    )
    .evidence(r#"{"carried_share": 0.02, "idle_share": 0.02, "idle_cpus": 0.01}"#),
    case(
        (Code::OUT_OF_TURN, Severity::Invalid),
        "loaded alone. In other repeats of this step it",
        |w| w.is_out_of_turn = true,
        |w| w.turns = turns_with_idle_use(0.0),
    ),
    case(
        (Code::CONCURRENT_LOADS, Severity::Invalid),
        "loaded alone. The plan was to load it at the same time as",
        |w| w.duet = duet(1, false),
        |w| w.duet = duet(2, true),
    )
    .evidence(r#"{"loads": 1}"#)
    .near_miss_still(Severity::Info),
    case(
        (Code::CONCURRENT_LOADS, Severity::Invalid),
        "2 of 3 servers were loaded at the same time",
        |w| w.duet = duet(2, false),
        |w| w.duet = duet(2, true),
    )
    .evidence(r#"{"loads": 2}"#)
    .near_miss_still(Severity::Info),
    // The bounds are 0.2 context switches per request, and CPUs that are idle for a tenth of the
    // time.
    case(
        (Code::IDLE_DUET, Severity::Invalid),
        "used 89 % of their CPUs. This server made 0.20 context switches per request",
        |w| set_idle_duet(w, 0.89, 200),
        |w| set_idle_duet(w, 0.9, 200),
    )
    .evidence(r#"{"used": 0.89, "switches": 0.2}"#),
    case(
        (Code::IDLE_DUET, Severity::Invalid),
        "used 50 % of their CPUs",
        |w| set_idle_duet(w, 0.5, 200),
        |w| set_idle_duet(w, 0.5, 199),
    )
    .evidence(r#"{"used": 0.5, "switches": 0.2}"#),
    // The CPU time of another server of the duet is unknown.
    case(
        (Code::IDLE_DUET, Severity::Invalid),
        "used an unknown part of their CPUs. This server made 0.20 context switches",
        |w| {
            set_idle_duet(w, 0.5, 200);
            w.duet.as_mut().expect("a duet").cpus = None;
        },
        |w| {
            set_idle_duet(w, 0.5, 199);
            w.duet.as_mut().expect("a duet").cpus = None;
        },
    )
    .evidence(r#"{"used": null, "switches": 0.2}"#),
    // Each response takes 1 ms in the default world.
    case(
        (Code::LONGER_THAN_TURNS, Severity::Warning),
        "2.0 % of a turn",
        |w| w.turns = turns_of_length(0.0499),
        |w| w.turns = turns_of_length(0.0502),
    ),
    case(
        (Code::ACCEPT_QUEUE_FULL, Severity::Warning),
        "1 connection found the accept queue full",
        |w| network(w).listen_overflows = Some(1),
        |w| network(w).listen_drops = Some(1),
    )
    .evidence(r#"{"listen_overflows": 1}"#),
    // A connection that finds the queue full is open after a second at the earliest. If all
    // connections open sooner, the full queue is that of another program.
    case(
        (Code::ACCEPT_QUEUE_FULL, Severity::Warning),
        "1 connection found the accept queue full",
        |w| set_overflow(w, S),
        |w| set_overflow(w, S / 2),
    )
    .evidence(r#"{"listen_overflows": 1}"#),
    case(
        (Code::ACCEPT_QUEUE_FULL, Severity::Warning),
        "1 connection found a full queue of half-open connections",
        |w| network(w).syn_queue_drops = Some(1),
        |w| network(w).syn_cookies = Some(1),
    )
    .evidence(r#"{"syn_queue_drops": 1}"#),
    case(
        (Code::RETRANSMISSIONS, Severity::Warning),
        "1 of 1000 TCP segments was retransmitted, 0 of them after a time-out",
        |w| network(w).segments_retransmitted = Some(1),
        |w| {
            (network(w).segments_retransmitted, network(w).segments_out) = (Some(1), Some(1001));
        },
    )
    .evidence(r#"{"retransmitted": 1, "segments_out": 1000, "timeouts": 0}"#),
    case(
        (Code::MANY_WRITES, Severity::Info),
        "makes 1.50 writes per response, and each write leaves as a separate segment (1.50 \
         segments per response).",
        |w| set_writes(w, 1500, 1500),
        |w| set_writes(w, 1500, 1499),
    )
    .evidence(r#"{"writes_per_response": 1.5, "segments_per_response": 1.5}"#),
    case(
        (Code::STEAL, Severity::Warning),
        "gave 2.0 % of this machine's CPU time to other virtual machines",
        |w| set_steal(w, 20 * MS + 1),
        |w| set_steal(w, 20 * MS),
    )
    .evidence(r#"{"share": 0.020000001}"#),
    case(
        (Code::TICK_ACCOUNTING, Severity::Info),
        "The split of CPU time into user and system time is an estimate",
        |w| w.facts.tick_accounting = Some(true),
        |w| w.facts.tick_accounting = Some(false),
    ),
    case(
        (Code::TICK_ACCOUNTING, Severity::Info),
        "The split of CPU time into user and system time is an estimate",
        |w| w.facts.tick_accounting = Some(true),
        |w| {
            w.facts.tick_accounting = Some(true);
            w.all_server_counters().for_each(|s| cgroup(s).cpu_ns = None);
        },
    ),
    case(
        (Code::TICK_ACCOUNTING, Severity::Info),
        "The split of CPU time into user and system time is an estimate",
        |w| w.facts.tick_accounting = Some(true),
        |w| w.facts.tick_accounting = None,
    ),
];

fn cgroup(used: &mut PartyUse) -> &mut CgroupUse {
    used.cgroup.as_mut().expect("a group")
}

/// Removes the server's counters from each sample.
fn remove_counters(w: &mut TrialWorld) {
    for used in w.all_server_counters() {
        used.cgroup = None;
        used.threads.clear();
    }
}

/// Sets how much of one CPU second the hypervisor took.
fn set_steal(w: &mut TrialWorld, steal_ns: u64) {
    let busy_ns = 800 * MS;
    let idle_ns = S - busy_ns - steal_ns;
    w.last_sample().host = Some(HostUse { busy_ns, idle_ns, steal_ns, ..HostUse::default() });
}

/// Doubles the length of the window.
fn double_window(w: &mut TrialWorld) {
    w.record.window_ns = (0, 2 * S);
    w.last_sample().at_ns = 2 * S;
}

/// Sets an overflow of an accept queue in the network namespace, and the longest time to connect.
fn set_overflow(w: &mut TrialWorld, connect_ns: u64) {
    network(w).listen_overflows = Some(1);
    w.interval().connect = equal_times(4, connect_ns);
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
