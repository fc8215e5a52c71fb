//! Cases: the generator's room.

use dyno_archive::interval::WorkerUse;
use dyno_archive::machine::{OtherUse, QuotaUse};
use dyno_archive::plan::Priority;

use super::Case;
use super::world::{CommandKind, JudgedWorld, MS, S};
use crate::caveat::{Code, Severity};

/// The generator may have been the limit.
pub(super) const BOUNDS: &[Case<JudgedWorld>] = &[
    // A quota held the generator back: the bound is one period of fifty.
    Case {
        code: Code::GeneratorThrottled,
        severity: Severity::Invalid,
        says: "The generator may have been the limit: the CPU quota of dyno's own control group, \
               0.50 CPUs, throttled it in 2.1 % of the quota's periods. Throughput is a lower \
               bound. Raise the quota of dyno's group",
        evidence: r#"{"throttled": 0.021, "quota_cpus": 0.5}"#,
        trips: |w| quota(w, 21),
        just_not: |w| quota(w, 20),
        otherwise: None,
    },
    Case {
        code: Code::GeneratorBusy,
        severity: Severity::Invalid,
        says: "its busiest thread was busy for 85 % of the time. Throughput is a lower bound. Give \
               the generator another CPU: `threads = 2` under `[load]`.",
        evidence: r#"{"busiest_thread_utilisation": 0.850000001, "need": 0.850000001}"#,
        trips: |w| w.generate(&[(850 * MS + 1, 0)]),
        just_not: |w| w.generate(&[(850 * MS, 0)]),
        otherwise: None,
    },
    Case {
        code: Code::GeneratorBusy,
        severity: Severity::Invalid,
        says: "Give the generator another CPU: `--threads 2`.",
        evidence: "{}",
        trips: |w| {
            w.generate(&[(850 * MS + 1, 0)]);
            w.command = CommandKind::Load;
        },
        just_not: |w| {
            w.generate(&[(850 * MS, 0)]);
            w.command = CommandKind::Load;
        },
        otherwise: None,
    },
    Case {
        code: Code::GeneratorBusy,
        severity: Severity::Invalid,
        says: "one of its threads was busy for 50 % of the time, and waited for a CPU for 35 %. \
               Throughput is a lower bound. Give the generator CPUs that no other program uses \
               (a smaller `cpuset` under `[limits]` leaves it the others)",
        evidence: r#"{"need": 0.850000001, "need_work": 0.5, "waiting": 0.350000001}"#,
        trips: |w| w.generate(&[(500 * MS, 350 * MS + 1)]),
        just_not: |w| w.generate(&[(500 * MS, 350 * MS)]),
        otherwise: None,
    },
    Case {
        code: Code::GeneratorBusy,
        severity: Severity::Invalid,
        says: "its threads used 85 % of a CPU that they share",
        evidence: r#"{"need": 0.850000001}"#,
        trips: |w| w.generate_on_one(&[(500 * MS, 0), (350 * MS + 1, 0)]),
        just_not: |w| w.generate_on_one(&[(500 * MS, 0), (350 * MS, 0)]),
        otherwise: None,
    },
    // Worker 0 and worker 2 are bound to the same CPU.
    Case {
        code: Code::GeneratorBusy,
        severity: Severity::Invalid,
        says: "its threads used 85 % of a CPU that they share",
        evidence: r#"{"need": 0.850000001}"#,
        trips: |w| {
            w.generate(&[(500 * MS, 0), (100 * MS, 0)]);
            third(w, 350 * MS + 1);
        },
        just_not: |w| {
            w.generate(&[(500 * MS, 0), (100 * MS, 0)]);
            third(w, 350 * MS);
        },
        otherwise: None,
    },
    // Three threads that may run on either of two CPUs.
    Case {
        code: Code::GeneratorBusy,
        severity: Severity::Invalid,
        says: "its threads used 85 % of a CPU that they share",
        evidence: r#"{"need": 0.8500000005}"#,
        trips: |w| {
            w.generate(&[(600 * MS, 0), (600 * MS, 0)]);
            third(w, 500 * MS + 1);
            w.machine().bound = false;
        },
        just_not: |w| {
            w.generate(&[(600 * MS, 0), (600 * MS, 0)]);
            third(w, 500 * MS);
            w.machine().bound = false;
        },
        otherwise: None,
    },
    // Polling does not count as work.
    Case {
        code: Code::GeneratorBusy,
        severity: Severity::Invalid,
        says: "its busiest thread was busy for 85 % of the time",
        evidence: "{}",
        trips: |w| {
            w.generate(&[(950 * MS + 1, 0)]);
            spin(w, 100 * MS);
        },
        just_not: |w| {
            w.generate(&[(950 * MS, 0)]);
            spin(w, 100 * MS);
        },
        otherwise: None,
    },
    // A server that used 95 % was the limit, and a control shows where the generator ends.
    Case {
        code: Code::GeneratorBusy,
        severity: Severity::Warning,
        says: "The generator may have been the limit too: its busiest thread was busy for 90 % of \
               the time. The server used 95 % of its CPU,",
        evidence: "{}",
        trips: |w| {
            w.generate(&[(900 * MS, 0)]);
            w.serve(950 * MS);
        },
        just_not: |w| {
            w.generate(&[(900 * MS, 0)]);
            w.serve(950 * MS - 1);
        },
        otherwise: Some(Severity::Invalid),
    },
    Case {
        code: Code::GeneratorBusy,
        severity: Severity::Info,
        says: "The generator was the limit: its busiest thread was busy for 90 % of the time. This",
        evidence: "{}",
        trips: |w| {
            w.generate(&[(900 * MS, 0)]);
            w.serve(950 * MS);
            w.control = true;
        },
        just_not: |w| {
            w.generate(&[(900 * MS, 0)]);
            w.serve(950 * MS);
        },
        otherwise: Some(Severity::Warning),
    },
    // `dyno load` does not know what the server used.
    Case {
        code: Code::GeneratorBusy,
        severity: Severity::Invalid,
        says: "busy for 90 %",
        evidence: "{}",
        trips: |w| {
            w.generate(&[(900 * MS, 0)]);
            w.serve(S);
            w.command = CommandKind::Load;
        },
        just_not: |w| {
            w.generate(&[(900 * MS, 0)]);
            w.serve(S);
        },
        otherwise: Some(Severity::Warning),
    },
    // CPUs are full, and the generator waits for them: the bound is a twentieth of the time.
    Case {
        code: Code::GeneratorCrowded,
        severity: Severity::Invalid,
        says: "its CPUs were busy for 95 % of the time, for 65 % with other programs, and its \
               threads waited for a CPU for 5.0 %. Throughput is a lower bound. Give the generator \
               CPUs that no other program uses (nginx 0.50 s) (a smaller `cpuset` under",
        evidence: r#"{"busy": 0.95, "others": 0.65, "waiting": 0.050000001}"#,
        trips: |w| crowd(w, 950 * MS, Some(50 * MS + 1)),
        just_not: |w| crowd(w, 950 * MS, Some(50 * MS)),
        otherwise: None,
    },
    Case {
        code: Code::GeneratorCrowded,
        severity: Severity::Invalid,
        says: "its CPUs were busy for 95 % of the time",
        evidence: "{}",
        trips: |w| crowd(w, 950 * MS, Some(60 * MS)),
        just_not: |w| crowd(w, 950 * MS - 1, Some(60 * MS)),
        otherwise: None,
    },
    // If the kernel does not report waits, the use by others decides.
    Case {
        code: Code::GeneratorCrowded,
        severity: Severity::Invalid,
        says: "for 5.0 % with other programs, and its threads waited for a CPU for 0 %",
        evidence: r#"{"waiting": null}"#,
        trips: |w| {
            crowd(w, 950 * MS, None);
            w.machine().own_ns = 900 * MS - 1;
        },
        just_not: |w| {
            crowd(w, 950 * MS, None);
            w.machine().own_ns = 900 * MS;
        },
        otherwise: None,
    },
    // Time that the hypervisor took counts as used, polling as free.
    Case {
        code: Code::GeneratorCrowded,
        severity: Severity::Invalid,
        says: "its CPUs were busy for 95 % of the time",
        evidence: r#"{"busy": 0.95}"#,
        trips: |w| {
            crowd(w, 600 * MS, Some(60 * MS));
            steal(w, 350 * MS);
        },
        just_not: |w| {
            crowd(w, 600 * MS, Some(60 * MS));
            steal(w, 350 * MS - 1);
        },
        otherwise: None,
    },
    Case {
        code: Code::GeneratorCrowded,
        severity: Severity::Invalid,
        says: "its CPUs were busy for 95 % of the time",
        evidence: r#"{"busy": 0.95}"#,
        trips: |w| {
            crowd(w, 980 * MS, Some(60 * MS));
            spin(w, 30 * MS);
        },
        just_not: |w| {
            crowd(w, 980 * MS, Some(60 * MS));
            spin(w, 30 * MS + 1);
        },
        otherwise: None,
    },
    // No caveat if the schedule was kept.
    Case {
        code: Code::GeneratorCrowded,
        severity: Severity::Invalid,
        says: "its CPUs were busy for 95 % of the time",
        evidence: "{}",
        trips: |w| {
            crowd(w, 950 * MS, Some(60 * MS));
            w.set_rate(1000.0);
            w.leave_in_flight(500);
            w.interval().started = 1500;
        },
        just_not: |w| {
            crowd(w, 950 * MS, Some(60 * MS));
            w.set_rate(1000.0);
        },
        otherwise: None,
    },
    // Half a second is just long enough for ticks.
    Case {
        code: Code::GeneratorCrowded,
        severity: Severity::Invalid,
        says: "its CPUs were busy for 95 % of the time",
        evidence: "{}",
        trips: |w| {
            crowd(w, 950 * MS, Some(60 * MS));
            w.machine().length_ns = S / 2;
        },
        just_not: |w| {
            crowd(w, 950 * MS, Some(60 * MS));
            w.machine().length_ns = S / 2 - 1;
        },
        otherwise: None,
    },
];

/// Other caveats about the generator's CPUs.
pub(super) const BESIDE: &[Case<JudgedWorld>] = &[
    Case {
        code: Code::GeneratorQuota,
        severity: Severity::Info,
        says: "has a quota of 0.50 CPUs, which throttled it in 2.0 % of the periods",
        evidence: r#"{"cpus": 0.5, "throttled": 0.02}"#,
        trips: |w| quota(w, 20),
        just_not: |w| quota(w, 21),
        otherwise: None,
    },
    Case {
        code: Code::GeneratorQuota,
        severity: Severity::Info,
        says: "throttled it in 0 % of the periods",
        evidence: r#"{"throttled": null}"#,
        trips: |w| {
            quota(w, 0);
            w.machine().quota.as_mut().expect("a quota").periods = 0;
        },
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::PriorityRefused,
        severity: Severity::Warning,
        says: "The kernel refused real-time priority for the generator",
        evidence: r#"{"asked": "realtime", "given": "normal"}"#,
        trips: |w| w.plan.priority = Priority::Realtime,
        just_not: |w| {
            w.plan.priority = Priority::Realtime;
            w.record.client.priority = Priority::Realtime;
        },
        otherwise: None,
    },
    Case {
        code: Code::Oversubscribed,
        severity: Severity::Warning,
        says: "The generator has 2 threads on 1 CPU. Each may wait for another, each time for up \
               to a time slice of the scheduler. Use no more threads than CPUs: `threads = 1`",
        evidence: r#"{"threads": 2, "cpus": 1}"#,
        trips: |w| w.generate_on_one(&[(300 * MS, 0), (300 * MS, 0)]),
        just_not: |w| w.generate(&[(300 * MS, 0), (300 * MS, 0)]),
        otherwise: None,
    },
    Case {
        code: Code::Oversubscribed,
        severity: Severity::Warning,
        says: "The generator has 3 threads on 2 CPUs.",
        evidence: "{}",
        trips: |w| {
            w.generate(&[(300 * MS, 0), (300 * MS, 0)]);
            third(w, 0);
        },
        just_not: |w| {
            w.generate(&[(300 * MS, 0); 3]);
            w.machine().cpus.clear();
        },
        otherwise: None,
    },
    // Refused if there was no room, unless the server used all of its CPU.
    Case {
        code: Code::Oversubscribed,
        severity: Severity::Invalid,
        says: "2 threads on 1 CPU.",
        evidence: "{}",
        trips: |w| w.generate_on_one(&[(500 * MS, 0), (350 * MS + 1, 0)]),
        just_not: |w| w.generate_on_one(&[(500 * MS, 0), (350 * MS, 0)]),
        otherwise: Some(Severity::Warning),
    },
    Case {
        code: Code::Oversubscribed,
        severity: Severity::Warning,
        says: "2 threads on 1 CPU.",
        evidence: "{}",
        trips: |w| {
            w.generate_on_one(&[(500 * MS, 0), (400 * MS, 0)]);
            w.serve(950 * MS);
        },
        just_not: |w| {
            w.generate_on_one(&[(500 * MS, 0), (400 * MS, 0)]);
            w.serve(950 * MS - 1);
        },
        otherwise: Some(Severity::Invalid),
    },
    Case {
        code: Code::SharedGenerator,
        severity: Severity::Info,
        says: "Another program used 5.0 % of the generator's CPUs (nginx 0.50 s, node 0.02 s). If \
               it is",
        evidence: r#"{"others": 0.050000001}"#,
        trips: |w| share(w, 50 * MS + 1),
        just_not: |w| share(w, 50 * MS),
        otherwise: None,
    },
];

/// A quota of half a CPU that held the generator back in this many of 1,000 periods.
fn quota(w: &mut JudgedWorld, throttled_periods: u64) {
    w.machine().quota = Some(QuotaUse { cpus: 0.5, periods: 1000, throttled_periods });
}

/// Adds a thread, so that there is one more than CPUs.
fn third(w: &mut JudgedWorld, run_ns: u64) {
    let mut thread = w.record.client.threads[0].clone();
    thread.run_ns = run_ns;
    w.record.client.threads.push(thread);
}

/// Sets how much of the first thread's time was polling.
fn spin(w: &mut JudgedWorld, spun_ns: u64) {
    w.interval().workers.insert(0, WorkerUse { run_ns: S, spun_ns });
}

/// One CPU that was busy for `busy_ns` (300 ms of it by the generator), and how long the generator
/// waited for it.
fn crowd(w: &mut JudgedWorld, busy_ns: u64, delay_ns: Option<u64>) {
    w.record.client.threads[0].run_delay_ns = delay_ns;
    let machine = w.machine();
    (machine.cpus[0].busy_ns, machine.cpus[0].idle_ns) = (busy_ns, S - busy_ns);
    machine.others = nginx();
}

/// Sets how much of the first CPU's time the hypervisor took.
fn steal(w: &mut JudgedWorld, steal_ns: u64) {
    let cpu = &mut w.machine().cpus[0];
    cpu.steal_ns = steal_ns;
    cpu.idle_ns -= steal_ns;
}

/// Sets how much others used of the one CPU.
fn share(w: &mut JudgedWorld, others_ns: u64) {
    crowd(w, 300 * MS + others_ns, Some(0));
    w.machine().others.push(OtherUse { pid: 8, name: "node".into(), run_ns: 20 * MS });
}

pub(super) fn nginx() -> Vec<OtherUse> {
    vec![OtherUse { pid: 7, name: "nginx".into(), run_ns: 500 * MS }]
}
