//! Test cases: caveats about the generator's CPUs.

use dyno_archive::interval::WorkerUse;
use dyno_archive::machine::{CpuUse, OtherUse, QuotaUse};
use dyno_archive::plan::Priority;

use super::world::{CommandKind, MS, S, TrialWorld};
use super::{Case, case};
use crate::caveat::{Code, Severity};

/// Caveats that the generator may have been the limit.
pub(super) const GENERATOR_LIMITS: &[Case<TrialWorld>] = &[
    // The quota of dyno's group throttled the generator: the threshold is one period of fifty.
    case(
        (Code::GENERATOR_THROTTLED, Severity::Invalid),
        "The generator may have been the limit: the CPU quota of dyno's own control group (0.50 \
         CPUs) throttled the generator in 2.1 % of the quota's periods. Throughput is a lower \
         bound. Raise the quota of dyno's group",
        |w| set_quota(w, 21),
        |w| set_quota(w, 20),
    )
    .evidence(r#"{"throttled": 0.021, "quota_cpus": 0.5}"#),
    case(
        (Code::GENERATOR_BUSY, Severity::Invalid),
        "its busiest thread was busy for 85 % of the time. Throughput is a lower bound. Give the \
         generator another CPU: `threads = 2` under `[load]`.",
        |w| w.set_generator_threads(&[(850 * MS + 1, 0)]),
        |w| w.set_generator_threads(&[(850 * MS, 0)]),
    )
    .evidence(r#"{"busiest_thread_utilisation": 0.850000001, "need": 0.850000001}"#),
    case(
        (Code::GENERATOR_BUSY, Severity::Invalid),
        "Give the generator another CPU: `--threads 2`.",
        |w| {
            w.set_generator_threads(&[(850 * MS + 1, 0)]);
            w.command = CommandKind::Load;
        },
        |w| {
            w.set_generator_threads(&[(850 * MS, 0)]);
            w.command = CommandKind::Load;
        },
    ),
    case(
        (Code::GENERATOR_BUSY, Severity::Invalid),
        "one of its threads was busy for 50 % of the time, and waited for a CPU for another 35 %. \
         Throughput is a lower bound. Give the generator separate CPUs (list fewer CPUs for the \
         servers in `cpuset` under `[limits]`), with one thread on each.",
        |w| w.set_generator_threads(&[(500 * MS, 350 * MS + 1)]),
        |w| w.set_generator_threads(&[(500 * MS, 350 * MS)]),
    )
    .evidence(r#"{"need": 0.850000001, "need_work": 0.5, "waiting": 0.350000001}"#),
    case(
        (Code::GENERATOR_BUSY, Severity::Invalid),
        "its threads share a CPU and together used 85 % of it",
        |w| w.set_generator_on_one_cpu(&[(500 * MS, 0), (350 * MS + 1, 0)]),
        |w| w.set_generator_on_one_cpu(&[(500 * MS, 0), (350 * MS, 0)]),
    )
    .evidence(r#"{"need": 0.850000001}"#),
    // Worker 0 and worker 2 are pinned to the same CPU.
    case(
        (Code::GENERATOR_BUSY, Severity::Invalid),
        "its threads share a CPU and together used 85 % of it",
        |w| add_thread(w, 350 * MS + 1),
        |w| add_thread(w, 350 * MS),
    )
    .given(|w| w.set_generator_threads(&[(500 * MS, 0), (100 * MS, 0)]))
    .evidence(r#"{"need": 0.850000001}"#),
    // Three threads that may run on either of two CPUs.
    case(
        (Code::GENERATOR_BUSY, Severity::Invalid),
        "its threads share a CPU and together used 85 % of it",
        |w| {
            add_thread(w, 500 * MS + 1);
            w.machine().bound = false;
        },
        |w| {
            add_thread(w, 500 * MS);
            w.machine().bound = false;
        },
    )
    .given(|w| w.set_generator_threads(&[(600 * MS, 0), (600 * MS, 0)]))
    .evidence(r#"{"need": 0.8500000005}"#),
    // The kernel bills the interrupts of the generator's CPU to no program.
    case(
        (Code::GENERATOR_BUSY, Severity::Invalid),
        "its threads used 64 % of a CPU, and interrupts used another 21 %. Throughput is a lower \
         bound. Give the generator another CPU: `threads = 2` under `[load]`.",
        |w| set_generator_interrupts(w, 210 * MS + 1),
        |w| set_generator_interrupts(w, 210 * MS),
    )
    .evidence(r#"{"need": 0.850000001}"#),
    // One thread that may run on either of two CPUs, with interrupts on both.
    case(
        (Code::GENERATOR_BUSY, Severity::Invalid),
        "its threads used 64 % of a CPU, and interrupts used another 21 %",
        |w| set_interrupts_of_two_cpus(w, 420 * MS + 2),
        |w| set_interrupts_of_two_cpus(w, 420 * MS),
    )
    .evidence(r#"{"need": 0.850000001}"#),
    // Polling is not work.
    case(
        (Code::GENERATOR_BUSY, Severity::Invalid),
        "its busiest thread was busy for 85 % of the time",
        |w| {
            w.set_generator_threads(&[(950 * MS + 1, 0)]);
            set_polling(w, 100 * MS);
        },
        |w| {
            w.set_generator_threads(&[(950 * MS, 0)]);
            set_polling(w, 100 * MS);
        },
    ),
    // A server that used 95 % of its CPU was at its own limit.
    case(
        (Code::GENERATOR_BUSY, Severity::Warning),
        "The generator may have been the limit too: its busiest thread was busy for 90 % of the \
         time. The step is valid, because the server used 95 % of its CPU",
        |w| w.set_server_cpu(950 * MS),
        |w| w.set_server_cpu(950 * MS - 1),
    )
    .given(|w| w.set_generator_threads(&[(900 * MS, 0)]))
    .near_miss_still(Severity::Invalid),
    // The action depends on the reason: a quota has another action than a busy thread.
    case(
        (Code::GENERATOR_THROTTLED, Severity::Warning),
        "The step is valid, because the server used 95 % of its CPU and was at its own limit. \
         Raise the quota of dyno's group",
        |w| w.set_server_cpu(950 * MS),
        |w| w.set_server_cpu(950 * MS - 1),
    )
    .given(|w| set_quota(w, 21))
    .near_miss_still(Severity::Invalid),
    // A control shows the generator's limit on purpose.
    case(
        (Code::GENERATOR_BUSY, Severity::Info),
        "The generator was the limit: its busiest thread was busy for 90 % of the time. This",
        |w| w.control = true,
        |_| {},
    )
    .given(|w| {
        w.set_generator_threads(&[(900 * MS, 0)]);
        w.set_server_cpu(950 * MS);
    })
    .near_miss_still(Severity::Warning),
    // `dyno load` does not know the server's CPU use.
    case(
        (Code::GENERATOR_BUSY, Severity::Invalid),
        "busy for 90 %",
        |w| w.command = CommandKind::Load,
        |_| {},
    )
    .given(|w| {
        w.set_generator_threads(&[(900 * MS, 0)]);
        w.set_server_cpu(S);
    })
    .near_miss_still(Severity::Warning),
    // The CPUs are full, and the generator waits for them: the threshold is a twentieth of the
    // time.
    case(
        (Code::GENERATOR_CROWDED, Severity::Invalid),
        "its CPUs were 95 % busy (other programs 65 %, hypervisor 0 %), and its threads waited for \
         a CPU for 5.0 % of the time. Throughput is a lower bound. Stop the other programs (nginx \
         0.50 s), or give the generator separate CPUs (list fewer",
        |w| set_busy_cpu(w, 950 * MS, Some(50 * MS + 1)),
        |w| set_busy_cpu(w, 950 * MS, Some(50 * MS)),
    )
    .evidence(r#"{"busy": 0.95, "others": 0.65, "waiting": 0.050000001}"#),
    case(
        (Code::GENERATOR_CROWDED, Severity::Invalid),
        "its CPUs were 95 % busy",
        |w| set_busy_cpu(w, 950 * MS, Some(60 * MS)),
        |w| set_busy_cpu(w, 950 * MS - 1, Some(60 * MS)),
    ),
    // If the kernel does not report waits, the CPU use of other programs decides.
    case(
        (Code::GENERATOR_CROWDED, Severity::Invalid),
        "and its threads waited for a CPU for an unknown part of the time",
        |w| w.machine().own_ns = 900 * MS - 1,
        |w| w.machine().own_ns = 900 * MS,
    )
    .given(|w| set_busy_cpu(w, 950 * MS, None))
    .evidence(r#"{"waiting": null}"#),
    // Time that the hypervisor took is used time, and polling is unused time.
    case(
        (Code::GENERATOR_CROWDED, Severity::Invalid),
        "its CPUs were 95 % busy (other programs 30 %, hypervisor 35 %), and its threads waited \
         for a CPU for 6.0 % of the time. Throughput is a lower bound. The hypervisor took more \
         CPU time than other programs. Re-run on a dedicated host.",
        |w| set_steal(w, 350 * MS),
        |w| set_steal(w, 350 * MS - 1),
    )
    .given(|w| set_busy_cpu(w, 600 * MS, Some(60 * MS)))
    .evidence(r#"{"busy": 0.95, "others": 0.3, "stolen": 0.35}"#),
    case(
        (Code::GENERATOR_CROWDED, Severity::Invalid),
        "its CPUs were 95 % busy",
        |w| set_polling(w, 30 * MS),
        |w| set_polling(w, 30 * MS + 1),
    )
    .given(|w| set_busy_cpu(w, 980 * MS, Some(60 * MS)))
    .evidence(r#"{"busy": 0.95}"#),
    // No caveat if the load kept its schedule.
    case(
        (Code::GENERATOR_CROWDED, Severity::Invalid),
        "its CPUs were 95 % busy",
        |w| {
            w.leave_in_flight(500);
            w.interval().started = 1500;
        },
        |_| {},
    )
    .given(|w| {
        set_busy_cpu(w, 950 * MS, Some(60 * MS));
        w.set_rate(1000.0);
    }),
    // The kernel's counters of CPU time need at least half a second.
    case(
        (Code::GENERATOR_CROWDED, Severity::Invalid),
        "its CPUs were 95 % busy",
        |w| w.machine().length_ns = S / 2,
        |w| w.machine().length_ns = S / 2 - 1,
    )
    .given(|w| set_busy_cpu(w, 950 * MS, Some(60 * MS))),
];

/// Other caveats about the generator's CPUs.
pub(super) const OTHER_CASES: &[Case<TrialWorld>] = &[
    case(
        (Code::GENERATOR_QUOTA, Severity::Info),
        "has a quota of 0.50 CPUs, which throttled the generator in 2.0 % of the quota's periods",
        |w| set_quota(w, 20),
        |w| set_quota(w, 21),
    )
    .evidence(r#"{"cpus": 0.5, "throttled": 0.02}"#),
    case(
        (Code::GENERATOR_QUOTA, Severity::Info),
        "has a quota of 0.50 CPUs. A larger load may reach the quota.",
        |w| {
            set_quota(w, 0);
            w.machine().quota.as_mut().expect("a quota").periods = 0;
        },
        |_| {},
    )
    .evidence(r#"{"throttled": null}"#),
    case(
        (Code::PRIORITY_REFUSED, Severity::Warning),
        "The kernel refused real-time priority for the generator",
        |w| w.plan.priority = Priority::Realtime,
        |w| {
            w.plan.priority = Priority::Realtime;
            w.record.client.priority = Priority::Realtime;
        },
    )
    .evidence(r#"{"asked": "realtime", "given": "normal"}"#),
    case(
        (Code::OVERSUBSCRIBED, Severity::Warning),
        "The generator has 2 threads on 1 CPU. The threads delay each other by up to one scheduler \
         time slice. Use at most one thread per CPU: `threads = 1`",
        |w| w.set_generator_on_one_cpu(&[(300 * MS, 0), (300 * MS, 0)]),
        |w| w.set_generator_threads(&[(300 * MS, 0), (300 * MS, 0)]),
    )
    .evidence(r#"{"threads": 2, "cpus": 1}"#),
    case(
        (Code::OVERSUBSCRIBED, Severity::Warning),
        "The generator has 3 threads on 2 CPUs.",
        |w| {
            w.set_generator_threads(&[(300 * MS, 0), (300 * MS, 0)]);
            add_thread(w, 0);
        },
        |w| {
            w.set_generator_threads(&[(300 * MS, 0); 3]);
            w.machine().cpus.clear();
        },
    ),
    // The step is not valid if the generator had no headroom, except if the server used all of its
    // CPU.
    case(
        (Code::OVERSUBSCRIBED, Severity::Invalid),
        "2 threads on 1 CPU.",
        |w| w.set_generator_on_one_cpu(&[(500 * MS, 0), (350 * MS + 1, 0)]),
        |w| w.set_generator_on_one_cpu(&[(500 * MS, 0), (350 * MS, 0)]),
    )
    .near_miss_still(Severity::Warning),
    case(
        (Code::OVERSUBSCRIBED, Severity::Warning),
        "2 threads on 1 CPU.",
        |w| w.set_server_cpu(950 * MS),
        |w| w.set_server_cpu(950 * MS - 1),
    )
    .given(|w| w.set_generator_on_one_cpu(&[(500 * MS, 0), (400 * MS, 0)]))
    .near_miss_still(Severity::Invalid),
    case(
        (Code::SHARED_GENERATOR, Severity::Info),
        "Other programs (nginx 0.50 s, node 0.02 s) used 5.0 % of the generator's CPUs. If the \
         server is one of these programs",
        |w| set_others(w, 50 * MS + 1),
        |w| set_others(w, 50 * MS),
    )
    .evidence(r#"{"others": 0.050000001}"#),
];

/// Sets a quota of half a CPU that throttled the generator in this many of 1,000 periods.
fn set_quota(w: &mut TrialWorld, throttled_periods: u64) {
    w.machine().quota = Some(QuotaUse { cpus: 0.5, periods: 1000, throttled_periods });
}

/// Sets a generator thread that uses 64 % of its CPU, and interrupts on that CPU. Interrupts are
/// busy time that is billed to no program.
fn set_generator_interrupts(w: &mut TrialWorld, interrupt_ns: u64) {
    w.set_generator_threads(&[(640 * MS, 0)]);
    let cpu = &mut w.machine().cpus[0];
    cpu.interrupt_ns = Some(interrupt_ns);
    (cpu.busy_ns, cpu.idle_ns) = (cpu.busy_ns + interrupt_ns, cpu.idle_ns - interrupt_ns);
}

/// Sets the same thread, pinned to no CPU, and the interrupts of two CPUs together.
fn set_interrupts_of_two_cpus(w: &mut TrialWorld, interrupt_ns: u64) {
    set_generator_interrupts(w, interrupt_ns / 2);
    let machine = w.machine();
    machine.bound = false;
    let second = CpuUse { cpu: 9, busy_ns: interrupt_ns / 2, idle_ns: S, ..machine.cpus[0] };
    machine.cpus.push(second);
}

/// Adds a generator thread that is pinned to no CPU.
fn add_thread(w: &mut TrialWorld, run_ns: u64) {
    let mut thread = w.record.client.threads[0].clone();
    thread.run_ns = run_ns;
    w.record.client.threads.push(thread);
}

/// Sets how much of the first thread's time was polling.
fn set_polling(w: &mut TrialWorld, spun_ns: u64) {
    w.interval().workers.insert(0, WorkerUse { run_ns: S, spun_ns });
}

/// Sets how long the one CPU was busy (300 ms of it by the generator), and how long the generator
/// waited for it.
fn set_busy_cpu(w: &mut TrialWorld, busy_ns: u64, delay_ns: Option<u64>) {
    w.record.client.threads[0].run_delay_ns = delay_ns;
    let machine = w.machine();
    (machine.cpus[0].busy_ns, machine.cpus[0].idle_ns) = (busy_ns, S - busy_ns);
    machine.others = nginx();
}

/// Sets how much of the first CPU's time the hypervisor took.
fn set_steal(w: &mut TrialWorld, steal_ns: u64) {
    let cpu = &mut w.machine().cpus[0];
    cpu.steal_ns = steal_ns;
    cpu.idle_ns -= steal_ns;
}

/// Sets how much of the one CPU other programs used.
fn set_others(w: &mut TrialWorld, others_ns: u64) {
    set_busy_cpu(w, 300 * MS + others_ns, Some(0));
    w.machine().others.push(OtherUse { pid: 8, name: "node".into(), run_ns: 20 * MS });
}

/// A program that used the generator's CPUs.
pub(super) fn nginx() -> Vec<OtherUse> {
    vec![OtherUse { pid: 7, name: "nginx".into(), run_ns: 500 * MS }]
}
