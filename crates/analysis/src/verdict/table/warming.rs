//! Test cases: caveats about servers that were still warming up.

use dyno_archive::plan::{Arrivals, Gaps, Segment, StillWarming};
use dyno_archive::start::{WarmUpEnd, WarmUpSlice};

use super::Case;
use super::server::turns_of_length;
use super::world::{MS, S, TrialWorld};
use crate::caveat::{Code, Severity};
use crate::fixture::warm_up;

/// Caveats about the window, and about the warm-up before it.
pub(super) const CASES: &[Case<TrialWorld>] = &[
    // The bound is a compiler that uses a fifth of the CPU time.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "within the measured window its compiler (JIT) used 20 % of its CPU time.",
        evidence: r#"{"jit_share": 0.200000002, "growth": null}"#,
        trigger: |w| w.add_compiler_thread(100 * MS + 1),
        near_miss: |w| w.add_compiler_thread(100 * MS),
        near_miss_severity: None,
    },
    // If the load measures warming up, the caveat is information only.
    Case {
        code: Code::StillWarming,
        severity: Severity::Info,
        message: "within the measured window its compiler (JIT) used 20 % of its CPU time. The \
                  load measures",
        evidence: r#"{"jit_share": 0.200000002, "growth": null}"#,
        trigger: |w| {
            w.plan.still_warming = StillWarming::Measured;
            w.add_compiler_thread(100 * MS + 1);
        },
        near_miss: |w| {
            w.plan.still_warming = StillWarming::Measured;
            w.add_compiler_thread(100 * MS);
        },
        near_miss_severity: None,
    },
    // The bounds are 1.5 times as fast over three to five intervals, and 1.25 times over six.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "within the measured window it became 1.50 times as fast.",
        evidence: r#"{"growth": 1.5}"#,
        trigger: |w| set_rates(w, &[1000, 1250, 1500]),
        near_miss: |w| set_rates(w, &[1000, 1250, 1499]),
        near_miss_severity: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 1.50 times as fast.",
        evidence: r#"{"growth": 1.5}"#,
        trigger: |w| set_rates(w, &[1000, 1250, 1250, 1500, 1500]),
        near_miss: |w| set_rates(w, &[1000, 1250, 1250, 1499, 1499]),
        near_miss_severity: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 1.25 times as fast.",
        evidence: r#"{"growth": 1.25}"#,
        trigger: |w| set_rates(w, &[1000, 1000, 1100, 1100, 1250, 1250]),
        near_miss: |w| set_rates(w, &[1000, 1000, 1100, 1100, 1249, 1249]),
        near_miss_severity: None,
    },
    // If servers in turns became faster together, the machine became faster.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 1.25 times as fast.",
        evidence: r#"{"growth": 1.25}"#,
        trigger: |w| grow_in_turns(w, &[1.0; 6]),
        near_miss: |w| grow_in_turns(w, &[0.9, 0.9, 0.91, 0.91, 0.91, 0.91]),
        near_miss_severity: None,
    },
    // Twice as fast: each step must show a fifth of that in logarithms, a factor of 1.149.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 2.00 times as fast.",
        evidence: r#"{"growth": 2.0}"#,
        trigger: |w| set_rates(w, &[1000, 1149, 2000]),
        near_miss: |w| set_rates(w, &[1000, 1148, 2000]),
        near_miss_severity: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 2.00 times as fast.",
        evidence: r#"{"growth": 2.0}"#,
        trigger: |w| set_rates(w, &[1000, 1741, 2000]),
        near_miss: |w| set_rates(w, &[1000, 1742, 2000]),
        near_miss_severity: None,
    },
    // 32 times as fast: a fifth of that in logarithms is a factor of 2.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 32.00 times as fast.",
        evidence: r#"{"growth": 32.0}"#,
        trigger: |w| set_rates(w, &[100, 200, 3200]),
        near_miss: |w| set_rates(w, &[100, 199, 3200]),
        near_miss_severity: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 32.00 times as fast.",
        evidence: r#"{"growth": 32.0}"#,
        trigger: |w| set_rates(w, &[100, 1600, 3200]),
        near_miss: |w| set_rates(w, &[100, 1601, 3200]),
        near_miss_severity: None,
    },
    // 1.6 times as fast: half of that in logarithms, a factor of 1.265, must show in the CPU time
    // per request.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 1.60 times as fast.",
        evidence: r#"{"growth": 1.6}"#,
        trigger: |w| w.set_seconds(&[(1000, 500 * MS), (1250, 600 * MS), (1600, 632 * MS)]),
        near_miss: |w| w.set_seconds(&[(1000, 500 * MS), (1250, 600 * MS), (1600, 633 * MS)]),
        near_miss_severity: None,
    },
    // At an offered rate only the CPU time per request shows growth.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 1.50 times as fast.",
        evidence: r#"{"growth": 1.5}"#,
        trigger: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1000, 500 * MS), (1000, 400 * MS)]);
            w.set_rate(1000.0);
        },
        near_miss: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1000, 500 * MS), (1000, 401 * MS)]);
            w.set_rate(1000.0);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 1.60 times as fast.",
        evidence: "{}",
        trigger: |w| set_rates(w, &[1000, 1250, 1600]),
        near_miss: |w| {
            w.set_seconds(&[(1000, 500 * MS), (1250, 625 * MS), (1600, 800 * MS)]);
            w.set_rate(1000.0);
        },
        near_miss_severity: None,
    },
    // If an interval's CPU time is unknown, only throughput shows growth.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 1.60 times as fast.",
        evidence: r#"{"growth": 1.6}"#,
        trigger: |w| w.set_seconds(&[(1000, 0), (1250, 600 * MS), (1600, 900 * MS)]),
        near_miss: |w| w.set_seconds(&[(1000, 500 * MS), (1250, 600 * MS), (1600, 900 * MS)]),
        near_miss_severity: None,
    },
    // An interval's CPU time is that between the two samples around its middle. A sample exactly at
    // the middle is the earlier one.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 1.50 times as fast.",
        evidence: r#"{"growth": 1.5}"#,
        trigger: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1000, 500 * MS), (1000, 400 * MS), (1000, 0)]);
            sample_later(w);
        },
        near_miss: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1000, 500 * MS), (1000, 401 * MS), (1000, 0)]);
            sample_later(w);
        },
        near_miss_severity: None,
    },
    // If the rate changes by more than a tenth, no number shows growth.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "times as fast.",
        evidence: "{}",
        trigger: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1050, 450 * MS), (1100, 300 * MS)]);
            w.step.arrivals = rising_rate();
        },
        near_miss: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1050, 450 * MS), (1101, 300 * MS)]);
            w.step.arrivals = rising_rate();
        },
        near_miss_severity: None,
    },
    // Throughput does not show growth if connections are opened within the window.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "times as fast.",
        evidence: "{}",
        trigger: |w| {
            set_rates(w, &[1000, 1250, 1600]);
            w.plan.warmup_ns = S;
            w.plan.ramp_connections_ns = Some(S);
        },
        near_miss: |w| {
            set_rates(w, &[1000, 1250, 1600]);
            w.plan.warmup_ns = S;
            w.plan.ramp_connections_ns = Some(S + 1);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "times as fast.",
        evidence: "{}",
        trigger: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1050, 450 * MS), (1100, 300 * MS)]);
            w.plan.ramp_connections_ns = Some(S);
        },
        near_miss: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1050, 450 * MS), (1101, 300 * MS)]);
            w.plan.ramp_connections_ns = Some(S);
        },
        near_miss_severity: None,
    },
    // When the hypervisor gives CPU time back, every server becomes faster.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "times as fast.",
        evidence: "{}",
        trigger: |w| {
            set_rates(w, &[1000, 1250, 1600]);
            set_steal(w, 240 * MS);
        },
        near_miss: |w| {
            set_rates(w, &[1000, 1250, 1600]);
            set_steal(w, 240 * MS + 1);
        },
        near_miss_severity: None,
    },
    // Other programs used less and less of the server's CPU. The bound is a tenth of the CPU time
    // of the window: 0.3 s of three seconds.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 1.60 times as fast.",
        evidence: r#"{"growth": 1.6}"#,
        trigger: |w| {
            set_rates(w, &[1000, 1250, 1600]);
            set_others(w, &[299, 0, 0]);
        },
        near_miss: |w| {
            set_rates(w, &[1000, 1250, 1600]);
            set_others(w, &[301, 0, 0]);
        },
        near_miss_severity: None,
    },
    // Other programs that use as much CPU time until the end explain no growth.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 1.60 times as fast.",
        evidence: r#"{"growth": 1.6}"#,
        trigger: |w| {
            set_rates(w, &[1000, 1250, 1600]);
            set_others(w, &[800, 800, 800]);
        },
        near_miss: |w| {
            set_rates(w, &[1000, 1250, 1600]);
            set_others(w, &[800, 800, 600]);
        },
        near_miss_severity: None,
    },
    // On a CPU that is shared with one other program, a program gets at least half of the time.
    // Growth of more than twice the bound therefore has another cause.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 4.00 times as fast.",
        evidence: r#"{"growth": 4.0}"#,
        trigger: |w| {
            set_rates(w, &[1000, 2000, 4000]);
            set_others(w, &[999, 100, 0]);
        },
        near_miss: |w| {
            set_rates(w, &[1000, 1600, 2800]);
            set_others(w, &[999, 100, 0]);
        },
        near_miss_severity: None,
    },
    // Only the use within the whole window is known: 0.3 CPU seconds of three seconds.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 1.60 times as fast.",
        evidence: "{}",
        trigger: |w| {
            set_rates(w, &[1000, 1250, 1600]);
            set_others(w, &[0, 298, 0]);
            hide_middle_samples(w);
        },
        near_miss: |w| {
            set_rates(w, &[1000, 1250, 1600]);
            set_others(w, &[0, 302, 0]);
            hide_middle_samples(w);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        message: "it became 1.50 times as fast, and its compiler (JIT) used 27 % of its CPU time.",
        evidence: r#"{"growth": 1.5}"#,
        trigger: |w| {
            set_rates(w, &[1000, 1250, 1500]);
            w.add_compiler_thread(400 * MS);
        },
        near_miss: |w| {
            set_rates(w, &[1000, 1000, 1000]);
            w.add_compiler_thread(300 * MS);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::WarmupFailures,
        severity: Severity::Warning,
        message: "In the warm-up before the first step, 107 requests got no correct response.",
        evidence: r#"{"failed_in_start": 107}"#,
        trigger: |w| {
            set_warm_up(w, |_, _| {});
            w.start.parts[0].warmup.as_mut().expect("a warm-up").failures = [(0, 107)].into();
        },
        // Another workload of the start failed.
        near_miss: |w| {
            set_warm_up(w, |_, _| {});
            w.start.parts[0].warmup.as_mut().expect("a warm-up").failures = [(1, 107)].into();
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::WarmupFailures,
        severity: Severity::Warning,
        message: "In the warm-up before the first step, 30 requests got no correct response.",
        evidence: r#"{"failed_in_start": 30}"#,
        // An older archive without the number of failures.
        trigger: |w| set_warm_up(w, |slice, _| slice.correct_responses = slice.responses - 3),
        near_miss: |w| set_warm_up(w, |_, _| {}),
        near_miss_severity: None,
    },
    Case {
        code: Code::WarmupLimit,
        severity: Severity::Warning,
        message: "ended after 60.1 s, when the server was not steady yet: its compiler (JIT) still \
                  used 50 % of its CPU time.",
        evidence: r#"{"took_s": 60.1}"#,
        trigger: |w| w.start = warm_up(WarmUpEnd::Limit, 30 * MS, Some(60 * MS)),
        near_miss: |w| w.start = warm_up(WarmUpEnd::Steady, 30 * MS, Some(60 * MS)),
        near_miss_severity: None,
    },
    Case {
        code: Code::WarmupLimit,
        severity: Severity::Warning,
        message: "when the server was not steady yet: no request got a response.",
        evidence: r#"{"took_s": 60.1}"#,
        trigger: |w| w.start = warm_up(WarmUpEnd::Unanswered, 0, Some(MS)),
        near_miss: |w| w.start = warm_up(WarmUpEnd::CutShort, 0, Some(MS)),
        near_miss_severity: None,
    },
    Case {
        code: Code::WarmupLimit,
        severity: Severity::Warning,
        message: "throughput still grew at the end, by a factor of 1.96",
        evidence: "{}",
        trigger: |w| set_warm_up(w, |slice, round| slice.responses = 1000 + 200 * round),
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::WarmupLimit,
        severity: Severity::Warning,
        message: "CPU time per request still fell at the end, by a factor of 1.63",
        evidence: "{}",
        trigger: |w| set_warm_up(w, |slice, round| slice.cpu_ns = Some((20 - round) * 5 * MS)),
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::WarmupLimit,
        severity: Severity::Warning,
        message: "no request at the end of the warm-up got a response.",
        evidence: "{}",
        trigger: |w| set_warm_up(w, |slice, _| slice.responses = 0),
        near_miss: |_| {},
        near_miss_severity: None,
    },
    Case {
        code: Code::WarmupLimit,
        severity: Severity::Warning,
        message: "the warm-up was too short to decide.",
        evidence: "{}",
        trigger: |w| {
            w.start = warm_up(WarmUpEnd::Limit, 0, Some(MS));
            slices(w).truncate(7);
        },
        near_miss: |_| {},
        near_miss_severity: None,
    },
    // The bound is CPU time that is known for half of eight rounds.
    Case {
        code: Code::WarmupWithoutCpu,
        severity: Severity::Info,
        message: "more than half of the last part",
        evidence: "{}",
        trigger: |w| {
            slices(w).truncate(8);
            clear_cpu_time(w, 5);
        },
        near_miss: |w| {
            slices(w).truncate(8);
            clear_cpu_time(w, 4);
        },
        near_miss_severity: None,
    },
    Case {
        code: Code::WarmupWithoutCpu,
        severity: Severity::Info,
        message: "more than half of the last part",
        evidence: "{}",
        trigger: |w| {
            slices(w).truncate(1);
            clear_cpu_time(w, 1);
        },
        near_miss: |w| slices(w).clear(),
        near_miss_severity: None,
    },
    Case {
        code: Code::WarmupWithoutCpu,
        severity: Severity::Info,
        message: "dyno used only the throughput to decide that the server was warm",
        evidence: "{}",
        trigger: |w| clear_cpu_time(w, 10),
        near_miss: |w| w.start.parts.clear(),
        near_miss_severity: None,
    },
];

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

fn slices(w: &mut TrialWorld) -> &mut Vec<WarmUpSlice> {
    &mut w.start.parts[0].warmup.as_mut().expect("a warm-up").slices
}

/// Makes the CPU time of the first `n` slices unknown.
fn clear_cpu_time(w: &mut TrialWorld, n: usize) {
    slices(w).iter_mut().take(n).for_each(|slice| slice.cpu_ns = None);
}

/// Sets a warm-up that reached its limit, and changes each slice.
fn set_warm_up(w: &mut TrialWorld, change: fn(&mut WarmUpSlice, u64)) {
    w.start = warm_up(WarmUpEnd::Limit, 0, Some(60 * MS));
    slices(w).iter_mut().zip(0..).for_each(|(slice, round)| change(slice, round));
}
