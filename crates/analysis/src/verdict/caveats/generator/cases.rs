//! Test cases: caveats about the generator.

use dyno_model::interval::{Interval, UnstoredBodies, WorkerUse};
use dyno_model::machine::{CpuUse, OtherUse, QuotaUse};
use dyno_model::outcome::Outcome;
use dyno_model::plan::Priority;
use dyno_model::{Phase, Sample};

use crate::caveat::Code;
use crate::caveat::Severity::{Invalid, Warning};
use crate::load::Ceiling;
use crate::verdict::table::changes::set_long_window;
use crate::verdict::table::world::{
    CommandKind, MS, S, TrialWorld, build_times, equal_times, sample_at,
};
use crate::verdict::table::{Case, check_cases, info, invalid, warning};

const CASES: &[Case<TrialWorld>] = &[
    info(Code::CEILING, |w| w.ceiling = ceiling(4000.0), |w| w.ceiling = ceiling(0.0)),
    info(
        Code::CEILING,
        |w| w.ceiling = ceiling(40_000.0),
        |w| {
            w.ceiling = ceiling(4000.0);
            w.set_rate(1000.0);
        },
    ),
    info(
        Code::CEILING,
        |w| {
            *w = TrialWorld::with_responses(1);
            w.ceiling = ceiling(1.0);
        },
        |w| {
            *w = TrialWorld::with_responses(0);
            w.ceiling = ceiling(1.0);
        },
    ),
    warning(
        Code::NO_LOCAL_PORT,
        |w| w.add_outcomes(1, Outcome::AddressExhausted),
        |w| w.add_outcomes(1, Outcome::ConnectFailed),
    ),
    // Few attempts to connect fail, because slots wait between attempts. Requests wait during that
    // time.
    invalid(
        Code::NO_LOCAL_PORT,
        |w| w.record.connections.established -= 1,
        |w| {
            w.add_outcomes(6, Outcome::Reset);
            w.record.connections.established -= 1;
        },
    )
    .given(|w| {
        w.add_outcomes(6, Outcome::AddressExhausted);
        w.leave_in_flight(9);
    })
    .near_miss_still(Warning),
    // If the server lost too many other requests, missing ports do not explain the errors.
    invalid(
        Code::NO_LOCAL_PORT,
        |w| w.add_outcomes(10, Outcome::Timeout),
        |w| w.add_outcomes(11, Outcome::Timeout),
    )
    .given(|w| w.add_outcomes(30, Outcome::AddressExhausted))
    .near_miss_still(Warning),
    // One of a hundred responses was not checked.
    invalid(Code::UNSTORED_BODIES, |w| set_unstored(w, 2, 0), |w| set_unstored(w, 1, 0))
        .given(|w| w.interval().checked = 99)
        .near_miss_still(Warning),
    warning(Code::UNSTORED_BODIES, |w| set_unstored(w, 1, 0), |w| set_unstored(w, 0, 0))
        .given(|w| w.interval().checked = 99),
    // One of a hundred visits ended early. Each of the 1,000 responses is a visit.
    invalid(Code::UNSTORED_BODIES, |w| set_unstored(w, 0, 11), |w| set_unstored(w, 0, 10))
        .near_miss_still(Warning),
    generator_pause(
        |w| w.record.intervals[3].loop_lag = equal_times(1, 101 * MS),
        |w| w.record.intervals[3].loop_lag = equal_times(1, 99 * MS),
    )
    .given(set_long_window),
    generator_pause(
        |w| w.record.intervals[9].wake_lag = equal_times(1, 101 * MS),
        |w| w.record.intervals[9].wake_lag = equal_times(1, 99 * MS),
    )
    .given(set_long_window),
    // A pause that began in the warm-up and reaches into the window.
    generator_pause(
        |w| w.record.intervals[0].wake_lag = equal_times(1, 160 * MS),
        |w| w.record.intervals[0].wake_lag = equal_times(1, 90 * MS),
    )
    .given(|w| {
        w.record.intervals.insert(0, Interval::new(Phase::Warmup, 0, 50 * MS));
        w.record.window_ns.0 = 50 * MS;
        w.record.samples[0] = sample_at(50 * MS, 0);
    }),
    // In a short window, pauses are accepted that are as long as the pauses of hypervisors.
    generator_pause(
        |w| w.interval().loop_lag = equal_times(1, 110 * MS),
        |w| w.interval().loop_lag = equal_times(1, 49 * MS),
    ),
    // The generator was stopped for 40 ms, again and again.
    invalid(
        Code::GENERATOR_STOPPED,
        |w| set_pauses(w, &[40, 40, 40]),
        |w| set_pauses(w, &[40, 40, 19]),
    ),
    invalid(Code::GENERATOR_STOPPED, |w| set_pauses(w, &[40; 100]), |w| set_pauses(w, &[19; 100])),
    // It was stopped for 15 ms, again and again.
    invalid(
        Code::GENERATOR_STOPPED,
        |w| w.set_stops(10, 50 * MS + 1),
        |w| w.set_stops(10, 50 * MS),
    ),
    // The hypervisor stopped a CPU. Steal time has a separate caveat.
    invalid(
        Code::GENERATOR_STOPPED,
        |w| {
            w.set_stops(10, 81 * MS);
            w.machine().cpus[0].steal_ns = 30 * MS;
        },
        |w| {
            w.set_stops(10, 80 * MS);
            w.machine().cpus[0].steal_ns = 30 * MS;
        },
    ),
    // Pauses of half of the threads are pauses of half of the generator.
    invalid(
        Code::GENERATOR_STOPPED,
        |w| {
            set_pauses(w, &[40; 6]);
            w.set_generator_threads(&[(3 * S, 0), (3 * S, 0)]);
        },
        |w| {
            set_pauses(w, &[40; 4]);
            w.set_generator_threads(&[(3 * S, 0), (3 * S, 0)]);
        },
    ),
    // Waits for a CPU of a busy machine have separate caveats.
    invalid(
        Code::GENERATOR_STOPPED,
        |w| w.set_generator_threads(&[(3 * S, 200 * MS)]),
        |w| w.set_generator_threads(&[(3 * S, 310 * MS)]),
    )
    .given(|w| set_pauses(w, &[40; 10])),
    // If the kernel reports no waits for a CPU, all pauses count.
    invalid(
        Code::GENERATOR_STOPPED,
        |w| {
            set_pauses(w, &[40; 10]);
            w.record.client.threads[0].run_delay_ns = None;
        },
        |w| {
            set_pauses(w, &[40; 2]);
            w.record.client.threads[0].run_delay_ns = None;
        },
    ),
    // Long iterations in which the generator works are no pauses, also if it sleeps between them.
    invalid(
        Code::GENERATOR_STOPPED,
        |w| set_long_iterations(w, 3000),
        |w| set_long_iterations(w, 4000),
    ),
    // The control thread reads the last counters late.
    generator_pause(
        |w| w.record.samples[1] = sample_at(S + 101 * MS, 500 * MS),
        |w| w.record.samples[1] = sample_at(S + 49 * MS, 500 * MS),
    ),
    // It read the counters of another load first.
    generator_pause(
        |w| w.record.samples[1] = sample_at(S + 400 * MS, 500 * MS),
        |w| {
            let sample = sample_at(S + 400 * MS, 500 * MS);
            w.record.samples[1] = Sample { delayed_ns: 390 * MS, ..sample };
        },
    ),
    generator_pause(
        |w| w.machine().suspended_ns = Some(120 * MS),
        |w| w.machine().suspended_ns = Some(2 * MS),
    ),
    // The bounds are a tenth of the median, and 100 µs.
    warning(
        Code::GENERATOR_LATE,
        |w| set_wake_lag(w, 200_000, 1_999 * 1000),
        |w| set_wake_lag(w, 200_000, 2_010 * 1000),
    ),
    warning(
        Code::GENERATOR_LATE,
        |w| set_wake_lag(w, 101_000, 500_000),
        |w| set_wake_lag(w, 99_900, 500_000),
    ),
    // With 1,000 wake-ups the p99 is unknown.
    warning(
        Code::GENERATOR_LATE,
        |w| set_few_wake_lags(w, 101_000),
        |w| set_few_wake_lags(w, 99_900),
    ),
    warning(
        Code::GENERATOR_STARVED,
        |w| w.set_generator_threads(&[(300 * MS, 50 * MS + 1)]),
        |w| w.set_generator_threads(&[(300 * MS, 50 * MS)]),
    ),
    // The same bound over two seconds.
    warning(
        Code::GENERATOR_STARVED,
        |w| w.set_generator_threads(&[(300 * MS, 100 * MS + 1)]),
        |w| w.set_generator_threads(&[(300 * MS, 100 * MS)]),
    )
    .given(|w| w.set_seconds(&[(1000, 500 * MS); 2])),
    // The wait is a mean over threads.
    warning(
        Code::GENERATOR_STARVED,
        |w| {
            w.set_generator_threads(&[(300 * MS, 160 * MS), (300 * MS, 80 * MS)]);
            w.machine().others = nginx();
        },
        |w| w.set_generator_threads(&[(300 * MS, 90 * MS), (300 * MS, 10 * MS)]),
    ),
    // The quota of dyno's group throttled the generator: the threshold is one period of fifty.
    invalid(Code::GENERATOR_THROTTLED, |w| set_quota(w, 21), |w| set_quota(w, 20)),
    invalid(
        Code::GENERATOR_BUSY,
        |w| w.set_generator_threads(&[(850 * MS + 1, 0)]),
        |w| w.set_generator_threads(&[(850 * MS, 0)]),
    ),
    invalid(
        Code::GENERATOR_BUSY,
        |w| {
            w.set_generator_threads(&[(850 * MS + 1, 0)]);
            w.command = CommandKind::Load;
        },
        |w| {
            w.set_generator_threads(&[(850 * MS, 0)]);
            w.command = CommandKind::Load;
        },
    ),
    invalid(
        Code::GENERATOR_BUSY,
        |w| w.set_generator_threads(&[(500 * MS, 350 * MS + 1)]),
        |w| w.set_generator_threads(&[(500 * MS, 350 * MS)]),
    ),
    invalid(
        Code::GENERATOR_BUSY,
        |w| w.set_generator_on_one_cpu(&[(500 * MS, 0), (350 * MS + 1, 0)]),
        |w| w.set_generator_on_one_cpu(&[(500 * MS, 0), (350 * MS, 0)]),
    ),
    // Worker 0 and worker 2 are pinned to the same CPU.
    invalid(Code::GENERATOR_BUSY, |w| add_thread(w, 350 * MS + 1), |w| add_thread(w, 350 * MS))
        .given(|w| w.set_generator_threads(&[(500 * MS, 0), (100 * MS, 0)])),
    // Three threads that may run on either of two CPUs.
    invalid(
        Code::GENERATOR_BUSY,
        |w| {
            add_thread(w, 500 * MS + 1);
            w.machine().bound = false;
        },
        |w| {
            add_thread(w, 500 * MS);
            w.machine().bound = false;
        },
    )
    .given(|w| w.set_generator_threads(&[(600 * MS, 0), (600 * MS, 0)])),
    // The kernel bills the interrupts of the generator's CPU to no program.
    invalid(
        Code::GENERATOR_BUSY,
        |w| set_generator_interrupts(w, 210 * MS + 1),
        |w| set_generator_interrupts(w, 210 * MS),
    ),
    // One thread that may run on either of two CPUs, with interrupts on both.
    invalid(
        Code::GENERATOR_BUSY,
        |w| set_interrupts_of_two_cpus(w, 420 * MS + 2),
        |w| set_interrupts_of_two_cpus(w, 420 * MS),
    ),
    // Polling is not work.
    invalid(
        Code::GENERATOR_BUSY,
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
    warning(
        Code::GENERATOR_BUSY,
        |w| w.set_server_cpu(950 * MS),
        |w| w.set_server_cpu(950 * MS - 1),
    )
    .given(|w| w.set_generator_threads(&[(900 * MS, 0)]))
    .near_miss_still(Invalid),
    // The action depends on the reason: a quota has another action than a busy thread.
    warning(
        Code::GENERATOR_THROTTLED,
        |w| w.set_server_cpu(950 * MS),
        |w| w.set_server_cpu(950 * MS - 1),
    )
    .given(|w| set_quota(w, 21))
    .near_miss_still(Invalid),
    // A control shows the generator's limit on purpose.
    info(Code::GENERATOR_BUSY, |w| w.control = true, |_| {})
        .given(|w| {
            w.set_generator_threads(&[(900 * MS, 0)]);
            w.set_server_cpu(950 * MS);
        })
        .near_miss_still(Warning),
    // `dyno load` does not know the server's CPU use.
    invalid(Code::GENERATOR_BUSY, |w| w.command = CommandKind::Load, |_| {})
        .given(|w| {
            w.set_generator_threads(&[(900 * MS, 0)]);
            w.set_server_cpu(S);
        })
        .near_miss_still(Warning),
    // The CPUs are full, and the generator waits for them: the threshold is a twentieth of the
    // time.
    invalid(
        Code::GENERATOR_CROWDED,
        |w| set_busy_cpu(w, 950 * MS, Some(50 * MS + 1)),
        |w| set_busy_cpu(w, 950 * MS, Some(50 * MS)),
    ),
    invalid(
        Code::GENERATOR_CROWDED,
        |w| set_busy_cpu(w, 950 * MS, Some(60 * MS)),
        |w| set_busy_cpu(w, 950 * MS - 1, Some(60 * MS)),
    ),
    // If the kernel does not report waits, the CPU use of other programs decides.
    invalid(
        Code::GENERATOR_CROWDED,
        |w| w.machine().own_ns = 900 * MS - 1,
        |w| w.machine().own_ns = 900 * MS,
    )
    .given(|w| set_busy_cpu(w, 950 * MS, None)),
    // Time that the hypervisor took is used time, and polling is unused time.
    invalid(Code::GENERATOR_CROWDED, |w| set_steal(w, 350 * MS), |w| set_steal(w, 350 * MS - 1))
        .given(|w| set_busy_cpu(w, 600 * MS, Some(60 * MS))),
    invalid(Code::GENERATOR_CROWDED, |w| set_polling(w, 30 * MS), |w| set_polling(w, 30 * MS + 1))
        .given(|w| set_busy_cpu(w, 980 * MS, Some(60 * MS))),
    // No caveat if the load kept its schedule.
    invalid(
        Code::GENERATOR_CROWDED,
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
    invalid(
        Code::GENERATOR_CROWDED,
        |w| w.machine().length_ns = S / 2,
        |w| w.machine().length_ns = S / 2 - 1,
    )
    .given(|w| set_busy_cpu(w, 950 * MS, Some(60 * MS))),
    info(Code::GENERATOR_QUOTA, |w| set_quota(w, 20), |w| set_quota(w, 21)),
    info(
        Code::GENERATOR_QUOTA,
        |w| {
            set_quota(w, 0);
            w.machine().quota.as_mut().expect("a quota").periods = 0;
        },
        |_| {},
    ),
    warning(
        Code::PRIORITY_REFUSED,
        |w| w.plan.priority = Priority::Realtime,
        |w| {
            w.plan.priority = Priority::Realtime;
            w.record.client.priority = Priority::Realtime;
        },
    ),
    warning(
        Code::OVERSUBSCRIBED,
        |w| w.set_generator_on_one_cpu(&[(300 * MS, 0), (300 * MS, 0)]),
        |w| w.set_generator_threads(&[(300 * MS, 0), (300 * MS, 0)]),
    ),
    warning(
        Code::OVERSUBSCRIBED,
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
    invalid(
        Code::OVERSUBSCRIBED,
        |w| w.set_generator_on_one_cpu(&[(500 * MS, 0), (350 * MS + 1, 0)]),
        |w| w.set_generator_on_one_cpu(&[(500 * MS, 0), (350 * MS, 0)]),
    )
    .near_miss_still(Warning),
    warning(
        Code::OVERSUBSCRIBED,
        |w| w.set_server_cpu(950 * MS),
        |w| w.set_server_cpu(950 * MS - 1),
    )
    .given(|w| w.set_generator_on_one_cpu(&[(500 * MS, 0), (400 * MS, 0)]))
    .near_miss_still(Invalid),
    info(Code::SHARED_GENERATOR, |w| set_others(w, 50 * MS + 1), |w| set_others(w, 50 * MS)),
];

fn set_unstored(w: &mut TrialWorld, unchecked: u64, unextracted: u64) {
    w.interval().unstored_bodies = Some(UnstoredBodies { unchecked, unextracted });
}

#[test]
fn each_rule_triggers_at_its_bound() {
    check_cases("caveats/generator", CASES);
}

fn ceiling(throughput_rps: f64) -> Option<Ceiling> {
    Some(Ceiling { throughput_rps, measured: "2026-01-02".into() })
}

const fn generator_pause(
    trigger: fn(&mut TrialWorld),
    near_miss: fn(&mut TrialWorld),
) -> Case<TrialWorld> {
    invalid(Code::GENERATOR_STOPPED, trigger, near_miss)
}

/// Sets a window of 10 s with these late wake-ups, in ms.
fn set_pauses(world: &mut TrialWorld, lags_ms: &[u64]) {
    set_long_window(world);
    let lags: Vec<(u64, u64)> = lags_ms.iter().map(|ms| (1, ms * MS)).collect();
    world.record.intervals[3].wake_lag = build_times(&lags);
}

/// Sets a window of 10 s with a hundred iterations of the event loop of 40 ms, and this CPU time of
/// the generator.
fn set_long_iterations(world: &mut TrialWorld, run_ms: u64) {
    set_long_window(world);
    world.record.intervals[3].loop_lag = build_times(&[(100, 40 * MS)]);
    world.set_generator_threads(&[(run_ms * MS, 0)]);
}

/// Sets the generator's wake lag, and the response time of 2,000 requests.
fn set_wake_lag(w: &mut TrialWorld, lag_ns: u64, response_ns: u64) {
    *w = TrialWorld::with_responses(2000);
    w.interval().wake_lag = equal_times(2000, lag_ns);
    w.interval().times.response = equal_times(2000, response_ns);
}

/// Sets the wake lag of 1,000 wake-ups, with a median response time of 1 ms.
fn set_few_wake_lags(w: &mut TrialWorld, lag_ns: u64) {
    *w = TrialWorld::with_responses(1000);
    w.interval().wake_lag = equal_times(1000, lag_ns);
    w.interval().times.response = equal_times(1000, 1_000_000);
}

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
fn nginx() -> Vec<OtherUse> {
    vec![OtherUse { pid: 7, name: "nginx".into(), run_ns: 500 * MS }]
}
