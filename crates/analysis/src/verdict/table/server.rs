//! Cases: the numbers about a server.

use std::collections::BTreeMap;

use dyno_archive::load::TcpCounters;
use dyno_archive::machine::{HeatUse, OtherUse};
use dyno_archive::probe::{Probe, RefusedProbe};
use dyno_archive::runtime::RuntimeReading;
use dyno_archive::sample::{CgroupUse, HostUse, NetworkUse, Party, PartyUse};

use super::Case;
use super::world::{JudgedWorld, MS, S};
use crate::caveat::{Code, Severity};
use crate::duet::DuetResult;
use crate::turns::TurnsResult;

/// A load that ran at the same time as others, three of them planned.
fn duet(loads: u32, is_usual: bool) -> Option<DuetResult> {
    Some(DuetResult {
        loads,
        planned: loads.max(1) + 1,
        beside: Vec::new(),
        is_usual,
        began_ns: 0,
        cpus: None,
        rounds: Vec::new(),
    })
}

/// A duet whose servers used so many CPUs of the one that they have, with so many context switches
/// for 1,000 requests.
fn idle_duet(w: &mut JudgedWorld, cpus: f64, switches: u64) {
    w.duet = duet(2, true).map(|duet| DuetResult { cpus: Some(cpus), ..duet });
    w.sleep_times(switches);
}

/// Turns in whose rests the server used this share of half a CPU.
/// A server that uses so much in others' turns, who have as much time as it has.
fn resting(idle_share: f64) -> Option<TurnsResult> {
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

/// Turns of so many seconds, in which the server rests.
pub(super) fn turns_of(slice_s: f64) -> Option<TurnsResult> {
    resting(0.0).map(|turns| TurnsResult { slice_s, ..turns })
}

fn other(pid: u32, name: &str, ms: u64) -> OtherUse {
    OtherUse { pid, name: name.into(), run_ns: ms * MS }
}

fn network(w: &mut JudgedWorld) -> &mut NetworkUse {
    w.used().network.as_mut().expect("a network")
}

/// Sets the writes for the thousand answers and the segments that carried them.
fn written(w: &mut JudgedWorld, writes: u64, segments: u64) {
    let calls = w.used().calls.as_mut().expect("calls");
    calls.by_name.get_mut("write").expect("writes").count = writes;
    w.record.tcp = Some(TcpCounters { data_segments_in: segments, ..TcpCounters::default() });
}

fn refused(probe: Probe) -> RefusedProbe {
    RefusedProbe { probe, why: "this user may not".into(), hint: "Be root.".into() }
}

/// A reading at each end of the window, from processes that are known by these sockets.
fn readings(w: &JudgedWorld, sockets: [&[&str]; 2]) -> Vec<RuntimeReading> {
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

/// Caveats from missing counters, and from waiting for CPUs.
pub(super) const CASES: &[Case<JudgedWorld>] = &[
    Case {
        code: Code::ServerNotObserved,
        severity: Severity::Info,
        says: "no sample of it was taken.",
        evidence: "{}",
        trips: |w| w.record.samples.clear(),
        just_not: |w| w.used().threads.clear(),
        otherwise: None,
    },
    Case {
        code: Code::ServerNotObserved,
        severity: Severity::Info,
        says: "no sample of it was taken.",
        evidence: "{}",
        trips: |w| unwatch(w),
        just_not: |w| w.each_used().for_each(|s| s.cgroup = None),
        otherwise: None,
    },
    Case {
        code: Code::SyscallsNotMeasured,
        severity: Severity::Info,
        says: "`--observe` did not include them",
        evidence: r#"{"refused": null}"#,
        trips: |w| w.each_used().for_each(|s| s.calls = None),
        just_not: |w| w.record.samples.clear(),
        otherwise: None,
    },
    Case {
        code: Code::SyscallsNotMeasured,
        severity: Severity::Info,
        says: "were not counted: this user may not. Be root.",
        evidence: r#"{"refused": "this user may not"}"#,
        trips: |w| {
            w.each_used().for_each(|s| s.calls = None);
            w.record.probes.refused = vec![refused(Probe::Syscalls)];
        },
        // Counting ended before the load did, and there are calls to report.
        just_not: |w| w.record.probes.refused = vec![refused(Probe::Syscalls)],
        otherwise: None,
    },
    Case {
        code: Code::SyscallsNotMeasured,
        severity: Severity::Info,
        says: "no response arrived while",
        evidence: r#"{"refused": null}"#,
        trips: |w| {
            w.record.probes.attached = [Probe::Syscalls].into();
            w.each_used().for_each(|s| s.calls.as_mut().expect("calls").answers = Some(0));
        },
        just_not: |w| w.record.probes.attached = [Probe::Syscalls].into(),
        otherwise: None,
    },
    Case {
        code: Code::RuntimeNotMeasured,
        severity: Severity::Info,
        says: "ended or started in the measured window",
        evidence: "{}",
        trips: |w| w.record.runtime = readings(w, [&["7", "8"], &["7", "9"]]),
        just_not: |w| w.record.runtime = readings(w, [&["7", "8"], &["7", "8"]]),
        otherwise: None,
    },
    Case {
        code: Code::RuntimeNotMeasured,
        severity: Severity::Info,
        says: "fewer than two readings",
        evidence: "{}",
        trips: |w| w.record.runtime = readings(w, [&["7"], &["7"]])[1..].to_vec(),
        just_not: |w| w.record.runtime.clear(),
        otherwise: None,
    },
    Case {
        code: Code::ProbeRefused,
        severity: Severity::Info,
        says: "Not observed here: states, modes, because this user may not. Be root.",
        evidence: r#"{"probes": ["states", "modes"], "why": "this user may not"}"#,
        trips: |w| w.record.probes.refused = [Probe::States, Probe::Modes].map(refused).into(),
        just_not: |w| w.record.probes.attached = [Probe::States, Probe::Modes].into(),
        otherwise: None,
    },
    Case {
        code: Code::NoCgroup,
        severity: Severity::Info,
        says: "sum over its threads",
        evidence: "{}",
        trips: |w| w.each_used().for_each(|s| s.cgroup = None),
        just_not: |w| w.record.samples[0].party_use_mut(Party::SUBJECT).cgroup = None,
        otherwise: None,
    },
    Case {
        code: Code::CountersUnread,
        severity: Severity::Warning,
        says: "ended before their counters were read. They used 0.25 s of CPU time. Seen in a \
               sample and gone by the last one: 0 threads and 0 processes.",
        evidence: r#"{"threads": 0, "processes": 0, "cpu_s": 0.249999999, "unknown": ["run delay", "context switches", "thread states"]}"#,
        // The group used half a second; its living thread accounts for the greater part.
        trips: |w| w.used().threads[0].run_ns = 250 * MS + 1,
        just_not: |w| w.used().threads[0].run_ns = 495 * MS,
        otherwise: None,
    },
    Case {
        code: Code::LeftGroup,
        severity: Severity::Warning,
        says: "Processes of the server (1) left the control group in which it was started",
        evidence: r#"{"processes": 1}"#,
        trips: |w| w.used().strays = Some(1),
        just_not: |w| w.used().strays = Some(0),
        otherwise: None,
    },
    Case {
        code: Code::NotMeasured,
        severity: Severity::Info,
        says: "to this user: cpu_user_s and cpu_sys_s. `dyno doctor`",
        evidence: r#"{"missing": ["cpu_user_s and cpu_sys_s"]}"#,
        trips: |w| w.each_used().for_each(|s| group_of(s).cpu_ns = None),
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::NotMeasured,
        severity: Severity::Info,
        says: "to this user: throttled_s. `dyno doctor`",
        evidence: r#"{"missing": ["throttled_s"]}"#,
        trips: |w| w.group().throttled_ns = None,
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::NotMeasured,
        severity: Severity::Info,
        says: "to this user: memory_peak_bytes. `dyno doctor`",
        evidence: r#"{"missing": ["memory_peak_bytes"]}"#,
        trips: |w| {
            w.group().memory_peak_bytes = None;
            w.each_used().for_each(|s| group_of(s).memory_bytes = None);
        },
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::NotMeasured,
        severity: Severity::Info,
        says: "to this user: memory_anon_bytes. `dyno doctor`",
        evidence: r#"{"missing": ["memory_anon_bytes"]}"#,
        trips: |w| w.each_used().for_each(|s| group_of(s).memory_anon_bytes = None),
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::NotMeasured,
        severity: Severity::Info,
        says: "to this user: memory_file_bytes. `dyno doctor`",
        evidence: r#"{"missing": ["memory_file_bytes"]}"#,
        trips: |w| w.each_used().for_each(|s| group_of(s).memory_file_bytes = None),
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::NotMeasured,
        severity: Severity::Info,
        says: "to this user: rss_bytes. `dyno doctor`",
        evidence: r#"{"missing": ["rss_bytes"]}"#,
        trips: |w| w.each_used().for_each(|s| s.rss_bytes = None),
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::NotMeasured,
        severity: Severity::Info,
        says: "to this user: run_delay_s. `dyno doctor`",
        evidence: r#"{"missing": ["run_delay_s"]}"#,
        trips: |w| w.used().threads[0].run_delay_ns = None,
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::NotMeasured,
        severity: Severity::Info,
        says: "to this user: context switches. `dyno doctor`",
        evidence: r#"{"missing": ["context switches"]}"#,
        trips: |w| w.used().threads[0].switches_voluntary = None,
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::NotMeasured,
        severity: Severity::Info,
        says: "to this user: steal_share. `dyno doctor`",
        evidence: r#"{"missing": ["steal_share"]}"#,
        trips: |w| w.sample().host = None,
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::NotMeasured,
        severity: Severity::Info,
        says: "to this user: memory_anon_bytes, rss_bytes. `dyno doctor`",
        evidence: r#"{"missing": ["memory_anon_bytes", "rss_bytes"]}"#,
        trips: |w| {
            w.each_used().for_each(|s| (group_of(s).memory_anon_bytes, s.rss_bytes) = (None, None));
        },
        just_not: |w| w.group().memory_peak_bytes = None,
        otherwise: None,
    },
    // On one CPU: the bound is a wait of a tenth of the window, for all threads together.
    Case {
        code: Code::MoreThreadsThanCpus,
        severity: Severity::Warning,
        says: "2 busy threads of the server took turns on one CPU. They waited 0.10 s for a CPU in \
               1.00 s.",
        evidence: r#"{"busy_threads": 2, "cpus": 1.0, "run_delay_s": 0.100000001}"#,
        trips: |w| w.serve_by(&[(300 * MS, 60 * MS), (300 * MS, 40 * MS + 1)], 0),
        just_not: |w| w.serve_by(&[(300 * MS, 60 * MS), (300 * MS, 40 * MS)], 0),
        otherwise: None,
    },
    // A thread is busy if it ran or waited for a CPU for a quarter of the time.
    Case {
        code: Code::MoreThreadsThanCpus,
        severity: Severity::Warning,
        says: "2 busy threads",
        evidence: r#"{"busy_threads": 2}"#,
        trips: |w| w.serve_by(&[(300 * MS, 60 * MS), (190 * MS, 60 * MS)], 0),
        just_not: |w| w.serve_by(&[(300 * MS, 60 * MS), (190 * MS, 60 * MS - 1)], 0),
        otherwise: None,
    },
    // The same over two seconds.
    Case {
        code: Code::MoreThreadsThanCpus,
        severity: Severity::Warning,
        says: "took turns on one CPU. They waited 0.20 s for a CPU in 2.00 s.",
        evidence: r#"{"busy_threads": 2, "cpus": 1.0}"#,
        trips: |w| {
            w.serve_by(&[(600 * MS, 100 * MS), (600 * MS, 100 * MS + 1)], 0);
            double(w);
        },
        just_not: |w| {
            w.serve_by(&[(600 * MS, 100 * MS), (600 * MS, 100 * MS)], 0);
            double(w);
        },
        otherwise: None,
    },
    // A quota of one and a half CPUs lets two threads run.
    Case {
        code: Code::MoreThreadsThanCpus,
        severity: Severity::Warning,
        says: "3 busy threads of the server took turns on 1.5 CPUs. They waited 0.60 s",
        evidence: r#"{"cpus": 1.5}"#,
        trips: |w| {
            w.allowed_cpus = 1.5;
            w.serve_by(&[(300 * MS, 200 * MS); 3], 0);
        },
        just_not: |w| {
            w.allowed_cpus = 1.5;
            w.serve_by(&[(300 * MS, 200 * MS); 2], 0);
        },
        otherwise: None,
    },
    // Both bounds are a tenth of the allowed CPU time: the wait, and the use by others.
    Case {
        code: Code::ServerStarved,
        severity: Severity::Warning,
        says: "waited 0.10 s for a CPU in 1.00 s. Other programs used 0.30 s of this machine's",
        evidence: r#"{"run_delay_s": 0.100000001, "others_cpu_s": 0.3}"#,
        trips: |w| w.serve_by(&[(500 * MS, 100 * MS + 1)], 300 * MS),
        just_not: |w| w.serve_by(&[(500 * MS, 100 * MS)], 300 * MS),
        otherwise: None,
    },
    Case {
        code: Code::ServerStarved,
        severity: Severity::Warning,
        says: "Other programs used 0.25 s",
        evidence: r#"{"others_cpu_s": 0.25}"#,
        trips: |w| others_use(w, 250 * MS),
        just_not: |w| others_use(w, 250 * MS - 1),
        otherwise: None,
    },
    Case {
        code: Code::ServerStarved,
        severity: Severity::Warning,
        says: "waited 0.20 s",
        evidence: "{}",
        trips: |w| w.serve_by(&[(500 * MS, 200 * MS)], 300 * MS),
        just_not: |w| {
            w.serve_by(&[(500 * MS, 200 * MS)], 300 * MS);
            w.sample().host = None;
        },
        otherwise: None,
    },
    // No caveat if the server fills its CPU, or its quota holds it back in more than a twentieth of
    // the periods.
    Case {
        code: Code::ServerStarved,
        severity: Severity::Warning,
        says: "waited 0.20 s",
        evidence: "{}",
        trips: |w| w.serve_by(&[(950 * MS - 1, 200 * MS)], 300 * MS),
        just_not: |w| w.serve_by(&[(950 * MS, 200 * MS)], 300 * MS),
        otherwise: None,
    },
    Case {
        code: Code::ServerStarved,
        severity: Severity::Warning,
        says: "waited 0.20 s",
        evidence: "{}",
        trips: |w| {
            w.serve_by(&[(500 * MS, 200 * MS)], 300 * MS);
            w.group().throttled_periods = Some(50);
        },
        just_not: |w| {
            w.serve_by(&[(500 * MS, 200 * MS)], 300 * MS);
            w.group().throttled_periods = Some(51);
        },
        otherwise: None,
    },
    // No caveat if more threads than CPUs use three quarters of the CPU: they wait for each other.
    Case {
        code: Code::ServerStarved,
        severity: Severity::Warning,
        says: "waited 0.20 s",
        evidence: "{}",
        trips: |w| w.serve_by(&[(375 * MS, 100 * MS), (375 * MS - 1, 100 * MS)], 300 * MS),
        just_not: |w| w.serve_by(&[(375 * MS, 100 * MS), (375 * MS, 100 * MS)], 300 * MS),
        otherwise: None,
    },
    Case {
        code: Code::Contaminated,
        severity: Severity::Warning,
        says: "Other programs used 0.10 CPUs of this machine while the step ran: cc1 (process 77) \
               0.06, ld (process 78) 0.04.",
        evidence: r#"{"names": ["cc1", "ld"]}"#,
        trips: |w| w.machine().everywhere = Some(vec![other(77, "cc1", 60), other(78, "ld", 40)]),
        just_not: |w| {
            w.machine().everywhere = Some(vec![other(77, "cc1", 60), other(78, "ld", 39)]);
        },
        otherwise: None,
    },
    Case {
        code: Code::ThermalThrottling,
        severity: Severity::Warning,
        says: "slower for up to 2.0 % of the step.",
        evidence: r#"{"share": 0.020000001}"#,
        trips: |w| w.machine().heat = Some(HeatUse { throttled_ns: 20 * MS + 1, events: 1 }),
        just_not: |w| w.machine().heat = Some(HeatUse { throttled_ns: 20 * MS, events: 3 }),
        otherwise: None,
    },
    Case {
        code: Code::BusyInOthersTurns,
        severity: Severity::Warning,
        says: "In other servers' turns this server used 2.0 % of the CPU time of its own",
        evidence: r#"{"carried_share": 0.02, "idle_share": 0.02, "idle_cpus": 0.01}"#,
        trips: |w| w.turns = resting(0.02),
        just_not: |w| w.turns = resting(0.019),
        otherwise: None,
    },
    Case {
        code: Code::OutOfTurn,
        severity: Severity::Invalid,
        says: "loaded alone. In other repeats of this step it",
        evidence: "{}",
        trips: |w| w.is_out_of_turn = true,
        just_not: |w| w.turns = resting(0.0),
        otherwise: None,
    },
    Case {
        code: Code::AtOnce,
        severity: Severity::Invalid,
        says: "alone. 1 other",
        evidence: r#"{"loads": 1}"#,
        trips: |w| w.duet = duet(1, false),
        just_not: |w| w.duet = duet(2, true),
        otherwise: Some(Severity::Info),
    },
    Case {
        code: Code::AtOnce,
        severity: Severity::Invalid,
        says: "2 of 3 servers",
        evidence: r#"{"loads": 2}"#,
        trips: |w| w.duet = duet(2, false),
        just_not: |w| w.duet = duet(2, true),
        otherwise: Some(Severity::Info),
    },
    // A fifth of a context switch per request, on CPUs that are idle for a tenth of the time.
    Case {
        code: Code::IdleDuet,
        severity: Severity::Invalid,
        says: "used 89 % of their CPUs, and this one made 0.20 context switches per request",
        evidence: r#"{"used": 0.89, "switches": 0.2}"#,
        trips: |w| idle_duet(w, 0.89, 200),
        just_not: |w| idle_duet(w, 0.9, 200),
        otherwise: None,
    },
    Case {
        code: Code::IdleDuet,
        severity: Severity::Invalid,
        says: "used 50 % of their CPUs",
        evidence: r#"{"used": 0.5, "switches": 0.2}"#,
        trips: |w| idle_duet(w, 0.5, 200),
        just_not: |w| idle_duet(w, 0.5, 199),
        otherwise: None,
    },
    // Each answer takes the world's server 1 ms.
    Case {
        code: Code::LongerThanTurns,
        severity: Severity::Warning,
        says: "2.0 % of a turn",
        evidence: "{}",
        trips: |w| w.turns = turns_of(0.0499),
        just_not: |w| w.turns = turns_of(0.0502),
        otherwise: None,
    },
    Case {
        code: Code::AcceptQueueFull,
        severity: Severity::Warning,
        says: "1 connections found a full",
        evidence: r#"{"listen_overflows": 1}"#,
        trips: |w| network(w).listen_overflows = Some(1),
        just_not: |w| network(w).listen_drops = Some(1),
        otherwise: None,
    },
    Case {
        code: Code::AcceptQueueFull,
        severity: Severity::Warning,
        says: "1 connections found a full queue of half-open connections",
        evidence: r#"{"syn_queue_drops": 1}"#,
        trips: |w| network(w).syn_queue_drops = Some(1),
        just_not: |w| network(w).syn_cookies = Some(1),
        otherwise: None,
    },
    Case {
        code: Code::Retransmissions,
        severity: Severity::Warning,
        says: "1 of 1000 segments were retransmitted, 0 of them after a time-out",
        evidence: r#"{"retransmitted": 1, "segments_out": 1000, "timeouts": 0}"#,
        trips: |w| network(w).segments_retransmitted = Some(1),
        just_not: |w| {
            (network(w).segments_retransmitted, network(w).segments_out) = (Some(1), Some(1001));
        },
        otherwise: None,
    },
    Case {
        code: Code::ManyWrites,
        severity: Severity::Info,
        says: "makes 1.50 writes per response, and each leaves as a separate segment (1.50 \
               segments per response).",
        evidence: r#"{"writes_per_response": 1.5, "segments_per_response": 1.5}"#,
        trips: |w| written(w, 1500, 1500),
        just_not: |w| written(w, 1500, 1499),
        otherwise: None,
    },
    Case {
        code: Code::Steal,
        severity: Severity::Warning,
        says: "gave 2.0 % of this machine's CPU time to other virtual machines",
        evidence: r#"{"share": 0.020000001}"#,
        trips: |w| steal(w, 20 * MS + 1),
        just_not: |w| steal(w, 20 * MS),
        otherwise: None,
    },
    Case {
        code: Code::TickAccounting,
        severity: Severity::Info,
        says: "The kernel's tick samples the split",
        evidence: "{}",
        trips: |w| w.facts.tick_accounting = Some(true),
        just_not: |w| w.facts.tick_accounting = Some(false),
        otherwise: None,
    },
    Case {
        code: Code::TickAccounting,
        severity: Severity::Info,
        says: "The kernel's tick samples the split",
        evidence: "{}",
        trips: |w| w.facts.tick_accounting = Some(true),
        just_not: |w| {
            w.facts.tick_accounting = Some(true);
            w.each_used().for_each(|s| group_of(s).cpu_ns = None);
        },
        otherwise: None,
    },
    Case {
        code: Code::TickAccounting,
        severity: Severity::Info,
        says: "The kernel's tick samples the split",
        evidence: "{}",
        trips: |w| w.facts.tick_accounting = Some(true),
        just_not: |w| w.facts.tick_accounting = None,
        otherwise: None,
    },
];

fn group_of(used: &mut PartyUse) -> &mut CgroupUse {
    used.cgroup.as_mut().expect("a group")
}

/// Removes the server's counters from every sample.
fn unwatch(w: &mut JudgedWorld) {
    for used in w.each_used() {
        used.cgroup = None;
        used.threads.clear();
    }
}

/// Sets how much of one CPU second the hypervisor took.
fn steal(w: &mut JudgedWorld, steal_ns: u64) {
    let busy_ns = 800 * MS;
    let idle_ns = S - busy_ns - steal_ns;
    w.sample().host = Some(HostUse { busy_ns, idle_ns, steal_ns, ..HostUse::default() });
}

/// Doubles the window.
fn double(w: &mut JudgedWorld) {
    w.record.window_ns = (0, 2 * S);
    w.sample().at_ns = 2 * S;
}

/// A server that may use 2.5 CPUs and waits, and the CPU time that others used.
fn others_use(w: &mut JudgedWorld, others_ns: u64) {
    w.allowed_cpus = 2.5;
    w.serve_by(&[(500 * MS, 400 * MS)], others_ns);
    // Chosen so that floating-point sums are exact.
    let generator_ns = 250 * MS;
    w.sample().party_use_mut(Party::GENERATOR).threads[0].run_ns = generator_ns;
    w.sample().host.as_mut().expect("a machine").busy_ns = 500 * MS + generator_ns + others_ns;
}
