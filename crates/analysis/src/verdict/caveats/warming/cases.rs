//! Test cases: caveats about warm-up.

use dyno_model::plan::{Arrivals, Gaps, Segment, StillWarming};
use dyno_model::start::WarmUpEnd;

use crate::caveat::Code;
use crate::fixture::warm_up;
use crate::verdict::table::changes::{set_levels, set_warm_up, slices, turns_of_length};
use crate::verdict::table::world::{MS, S, TrialWorld};
use crate::verdict::table::{Case, check_cases, info, invalid, warning};

const CASES: &[Case<TrialWorld>] = &[
    // The bound is a compiler that uses a fifth of the CPU time.
    invalid(
        Code::STILL_WARMING,
        |w| w.add_compiler_thread(100 * MS + 1),
        |w| w.add_compiler_thread(100 * MS),
    ),
    // If the load measures warming up, the caveat is information only.
    info(
        Code::STILL_WARMING,
        |w| w.add_compiler_thread(100 * MS + 1),
        |w| w.add_compiler_thread(100 * MS),
    )
    .given(|w| w.plan.still_warming = StillWarming::Measured),
    // The bounds are 1.5 times as fast over three to five intervals, and 1.25 times over six.
    invalid(
        Code::STILL_WARMING,
        |w| set_rates(w, &[1000, 1250, 1500]),
        |w| set_rates(w, &[1000, 1250, 1499]),
    ),
    invalid(
        Code::STILL_WARMING,
        |w| set_rates(w, &[1000, 1250, 1250, 1500, 1500]),
        |w| set_rates(w, &[1000, 1250, 1250, 1499, 1499]),
    ),
    invalid(
        Code::STILL_WARMING,
        |w| set_rates(w, &[1000, 1000, 1100, 1100, 1250, 1250]),
        |w| set_rates(w, &[1000, 1000, 1100, 1100, 1249, 1249]),
    ),
    // If servers in turns became faster together, the machine became faster.
    invalid(
        Code::STILL_WARMING,
        |w| grow_in_turns(w, &[1.0; 6]),
        |w| grow_in_turns(w, &[0.9, 0.9, 0.91, 0.91, 0.91, 0.91]),
    ),
    // Twice as fast: each step must show a fifth of that in logarithms, a factor of 1.149.
    invalid(
        Code::STILL_WARMING,
        |w| set_rates(w, &[1000, 1149, 2000]),
        |w| set_rates(w, &[1000, 1148, 2000]),
    ),
    invalid(
        Code::STILL_WARMING,
        |w| set_rates(w, &[1000, 1741, 2000]),
        |w| set_rates(w, &[1000, 1742, 2000]),
    ),
    // 32 times as fast: a fifth of that in logarithms is a factor of 2.
    invalid(
        Code::STILL_WARMING,
        |w| set_rates(w, &[100, 200, 3200]),
        |w| set_rates(w, &[100, 199, 3200]),
    ),
    invalid(
        Code::STILL_WARMING,
        |w| set_rates(w, &[100, 1600, 3200]),
        |w| set_rates(w, &[100, 1601, 3200]),
    ),
    // 1.6 times as fast: half of that in logarithms, a factor of 1.265, must show in the CPU time
    // per request.
    invalid(
        Code::STILL_WARMING,
        |w| w.set_seconds(&[(1000, 500 * MS), (1250, 600 * MS), (1600, 632 * MS)]),
        |w| w.set_seconds(&[(1000, 500 * MS), (1250, 600 * MS), (1600, 633 * MS)]),
    ),
    // At an offered rate only the CPU time per request shows growth.
    invalid(
        Code::STILL_WARMING,
        |w| {
            w.set_seconds(&[(1000, 600 * MS), (1000, 500 * MS), (1000, 400 * MS)]);
            w.set_rate(1000.0);
        },
        |w| {
            w.set_seconds(&[(1000, 600 * MS), (1000, 500 * MS), (1000, 401 * MS)]);
            w.set_rate(1000.0);
        },
    ),
    invalid(
        Code::STILL_WARMING,
        |w| set_rates(w, &[1000, 1250, 1600]),
        |w| {
            w.set_seconds(&[(1000, 500 * MS), (1250, 625 * MS), (1600, 800 * MS)]);
            w.set_rate(1000.0);
        },
    ),
    // If an interval's CPU time is unknown, only throughput shows growth.
    invalid(
        Code::STILL_WARMING,
        |w| w.set_seconds(&[(1000, 0), (1250, 600 * MS), (1600, 900 * MS)]),
        |w| w.set_seconds(&[(1000, 500 * MS), (1250, 600 * MS), (1600, 900 * MS)]),
    ),
    // An interval's CPU time is that between the two samples around its middle. A sample exactly at
    // the middle is the earlier one.
    invalid(
        Code::STILL_WARMING,
        |w| {
            w.set_seconds(&[(1000, 600 * MS), (1000, 500 * MS), (1000, 400 * MS), (1000, 0)]);
            sample_later(w);
        },
        |w| {
            w.set_seconds(&[(1000, 600 * MS), (1000, 500 * MS), (1000, 401 * MS), (1000, 0)]);
            sample_later(w);
        },
    ),
    // If the rate changes by more than a tenth, no number shows growth.
    invalid(
        Code::STILL_WARMING,
        |w| {
            w.set_seconds(&[(1000, 600 * MS), (1050, 450 * MS), (1100, 300 * MS)]);
            w.step.arrivals = rising_rate();
        },
        |w| {
            w.set_seconds(&[(1000, 600 * MS), (1050, 450 * MS), (1101, 300 * MS)]);
            w.step.arrivals = rising_rate();
        },
    ),
    // Throughput does not show growth if connections are opened within the window.
    invalid(
        Code::STILL_WARMING,
        |w| w.plan.ramp_connections_ns = Some(S),
        |w| w.plan.ramp_connections_ns = Some(S + 1),
    )
    .given(|w| {
        set_rates(w, &[1000, 1250, 1600]);
        w.plan.warmup_ns = S;
    }),
    invalid(
        Code::STILL_WARMING,
        |w| {
            w.set_seconds(&[(1000, 600 * MS), (1050, 450 * MS), (1100, 300 * MS)]);
            w.plan.ramp_connections_ns = Some(S);
        },
        |w| {
            w.set_seconds(&[(1000, 600 * MS), (1050, 450 * MS), (1101, 300 * MS)]);
            w.plan.ramp_connections_ns = Some(S);
        },
    ),
    // When the hypervisor gives CPU time back, every server becomes faster.
    invalid(Code::STILL_WARMING, |w| set_steal(w, 240 * MS), |w| set_steal(w, 240 * MS + 1))
        .given(|w| set_rates(w, &[1000, 1250, 1600])),
    // Other programs used less and less of the server's CPU. The bound is a tenth of the CPU time
    // of the window: 0.3 s of three seconds.
    invalid(Code::STILL_WARMING, |w| set_others(w, &[299, 0, 0]), |w| set_others(w, &[301, 0, 0]))
        .given(|w| set_rates(w, &[1000, 1250, 1600])),
    // Other programs that use as much CPU time until the end explain no growth.
    invalid(
        Code::STILL_WARMING,
        |w| set_others(w, &[800, 800, 800]),
        |w| set_others(w, &[800, 800, 600]),
    )
    .given(|w| set_rates(w, &[1000, 1250, 1600])),
    // On a CPU that is shared with one other program, a program gets at least half of the time.
    // Growth of more than twice the bound therefore has another cause.
    invalid(
        Code::STILL_WARMING,
        |w| {
            set_rates(w, &[1000, 2000, 4000]);
            set_others(w, &[999, 100, 0]);
        },
        |w| {
            set_rates(w, &[1000, 1600, 2800]);
            set_others(w, &[999, 100, 0]);
        },
    ),
    // Only the use within the whole window is known: 0.3 CPU seconds of three seconds.
    invalid(
        Code::STILL_WARMING,
        |w| {
            set_others(w, &[0, 298, 0]);
            hide_middle_samples(w);
        },
        |w| {
            set_others(w, &[0, 302, 0]);
            hide_middle_samples(w);
        },
    )
    .given(|w| set_rates(w, &[1000, 1250, 1600])),
    invalid(
        Code::STILL_WARMING,
        |w| {
            set_rates(w, &[1000, 1250, 1500]);
            w.add_compiler_thread(400 * MS);
        },
        |w| {
            set_rates(w, &[1000, 1000, 1000]);
            w.add_compiler_thread(300 * MS);
        },
    ),
    warning(
        Code::WARMUP_LIMIT,
        |w| w.start = warm_up(WarmUpEnd::Limit, 30 * MS, Some(60 * MS)),
        |w| w.start = warm_up(WarmUpEnd::Steady, 30 * MS, Some(60 * MS)),
    ),
    warning(
        Code::WARMUP_LIMIT,
        |w| w.start = warm_up(WarmUpEnd::Unanswered, 0, Some(MS)),
        |w| w.start = warm_up(WarmUpEnd::CutShort, 0, Some(MS)),
    ),
    warning(
        Code::WARMUP_LIMIT,
        |w| set_warm_up(w, |slice, round| slice.responses = 1000 + 200 * round),
        |_| {},
    ),
    warning(
        Code::WARMUP_LIMIT,
        |w| set_warm_up(w, |slice, round| slice.cpu_ns = Some((20 - round) * 5 * MS)),
        |_| {},
    ),
    warning(Code::WARMUP_LIMIT, |w| set_warm_up(w, |slice, _| slice.responses = 0), |_| {}),
    warning(
        Code::WARMUP_LIMIT,
        |w| {
            w.start = warm_up(WarmUpEnd::Limit, 0, Some(MS));
            slices(w).truncate(7);
        },
        |_| {},
    ),
    // The bound is CPU time that is known for half of eight rounds.
    info(Code::WARMUP_WITHOUT_CPU, |w| clear_cpu_time(w, 5), |w| clear_cpu_time(w, 4))
        .given(|w| slices(w).truncate(8)),
    info(
        Code::WARMUP_WITHOUT_CPU,
        |w| {
            slices(w).truncate(1);
            clear_cpu_time(w, 1);
        },
        |w| slices(w).clear(),
    ),
    info(Code::WARMUP_WITHOUT_CPU, |w| clear_cpu_time(w, 10), |w| w.start.parts.clear()),
    // A server that is still warming up has only the caveat about that.
    invalid(
        Code::STILL_WARMING,
        |w| set_levels(w, [1000, 1250, 1500]),
        |w| set_levels(w, [1000, 1000, 1500]),
    ),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_cases("caveats/warming", CASES);
}

/// Sets one second per rate (responses per second). The server uses half a CPU.
fn set_rates(w: &mut TrialWorld, rates: &[u64]) {
    let seconds: Vec<(u64, u64)> = rates.iter().map(|rate| (*rate, 500 * MS)).collect();
    w.set_seconds(&seconds);
}

/// Sets rates that grow by a factor of 1.25, in rounds of a second. `pace`: throughput of the other
/// servers in each round.
fn grow_in_turns(w: &mut TrialWorld, pace: &[f64]) {
    set_rates(w, &[1000, 1000, 1100, 1100, 1250, 1250]);
    w.turns = turns_of_length(0.5);
    w.pace = Some(pace.to_vec());
}

/// Moves the samples to the middle of each second, and the last second out of the window. The load
/// is at a rate.
fn sample_later(w: &mut TrialWorld) {
    w.set_rate(1000.0);
    w.record.intervals.truncate(3);
    w.record.window_ns = (0, 3 * S);
    w.record.samples.iter_mut().for_each(|sample| sample.at_ns += S / 2);
}

/// Arrivals at a rate that rises.
fn rising_rate() -> Arrivals {
    let segments = vec![Segment { from_rate: 1000.0, to_rate: 1100.0, duration_ns: 3 * S }];
    Arrivals::Shaped { segments, gaps: Gaps::Even }
}

/// Sets how much of the machine's twelve CPU seconds the hypervisor took.
fn set_steal(w: &mut TrialWorld, steal_ns: u64) {
    let host = w.last_sample().host.as_mut().expect("a machine");
    host.steal_ns = steal_ns;
    host.idle_ns -= steal_ns;
}

/// Sets the CPU time of other programs in each second, in ms.
fn set_others(w: &mut TrialWorld, others_ms: &[u64]) {
    let mut sum_ns = 0;
    for (sample, ms) in w.record.samples.iter_mut().skip(1).zip(others_ms) {
        sum_ns += ms * MS;
        sample.host.as_mut().expect("a machine").busy_ns += sum_ns;
    }
}

/// Removes the machine's counters between the edges of the window.
fn hide_middle_samples(w: &mut TrialWorld) {
    let last = w.record.samples.len() - 1;
    w.record.samples[1..last].iter_mut().for_each(|sample| sample.host = None);
}

/// Makes the CPU time of the first `n` slices unknown.
fn clear_cpu_time(w: &mut TrialWorld, n: usize) {
    slices(w).iter_mut().take(n).for_each(|slice| slice.cpu_ns = None);
}
