//! Cases: servers that were not warm.

use dyno_archive::plan::{Arrivals, Gaps, Segment, StillWarming};
use dyno_archive::start::{WarmUpEnd, WarmUpSlice};

use super::Case;
use super::server::turns_of;
use super::world::{JudgedWorld, MS, S};
use crate::caveat::{Code, Severity};
use crate::fixture::warm_up;

/// Caveats about the window, and about the warm-up before it.
pub(super) const CASES: &[Case<JudgedWorld>] = &[
    // The bound: a compiler uses a fifth of the CPU time.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "within the measured window its compiler (JIT) used 20 % of its CPU time.",
        evidence: r#"{"jit_share": 0.200000002, "growth": null}"#,
        trips: |w| w.compile(100 * MS + 1),
        just_not: |w| w.compile(100 * MS),
        otherwise: None,
    },
    // Where warming is measured, the caveat is information only.
    Case {
        code: Code::StillWarming,
        severity: Severity::Info,
        says: "within the measured window its compiler (JIT) used 20 % of its CPU time. The load \
               measures",
        evidence: r#"{"jit_share": 0.200000002, "growth": null}"#,
        trips: |w| {
            w.plan.still_warming = StillWarming::Measured;
            w.compile(100 * MS + 1);
        },
        just_not: |w| {
            w.plan.still_warming = StillWarming::Measured;
            w.compile(100 * MS);
        },
        otherwise: None,
    },
    // The bounds: 1.5 times as fast over three to five intervals, 1.25 times over six.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "within the measured window it became 1.50 times as fast.",
        evidence: r#"{"growth": 1.5}"#,
        trips: |w| grow(w, &[1000, 1250, 1500]),
        just_not: |w| grow(w, &[1000, 1250, 1499]),
        otherwise: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 1.50 times as fast.",
        evidence: r#"{"growth": 1.5}"#,
        trips: |w| grow(w, &[1000, 1250, 1250, 1500, 1500]),
        just_not: |w| grow(w, &[1000, 1250, 1250, 1499, 1499]),
        otherwise: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 1.25 times as fast.",
        evidence: r#"{"growth": 1.25}"#,
        trips: |w| grow(w, &[1000, 1000, 1100, 1100, 1250, 1250]),
        just_not: |w| grow(w, &[1000, 1000, 1100, 1100, 1249, 1249]),
        otherwise: None,
    },
    // In turns, where the others did the same, the machine got faster.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 1.25 times as fast.",
        evidence: r#"{"growth": 1.25}"#,
        trips: |w| grow_in_turns(w, &[1.0; 6]),
        just_not: |w| grow_in_turns(w, &[0.9, 0.9, 0.91, 0.91, 0.91, 0.91]),
        otherwise: None,
    },
    // Twice as fast: each step must have a fifth of that in logarithms, a factor of 1.149.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 2.00 times as fast.",
        evidence: r#"{"growth": 2.0}"#,
        trips: |w| grow(w, &[1000, 1149, 2000]),
        just_not: |w| grow(w, &[1000, 1148, 2000]),
        otherwise: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 2.00 times as fast.",
        evidence: r#"{"growth": 2.0}"#,
        trips: |w| grow(w, &[1000, 1741, 2000]),
        just_not: |w| grow(w, &[1000, 1742, 2000]),
        otherwise: None,
    },
    // 32 times as fast: a fifth of that in logarithms is a factor of 2.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 32.00 times as fast.",
        evidence: r#"{"growth": 32.0}"#,
        trips: |w| grow(w, &[100, 200, 3200]),
        just_not: |w| grow(w, &[100, 199, 3200]),
        otherwise: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 32.00 times as fast.",
        evidence: r#"{"growth": 32.0}"#,
        trips: |w| grow(w, &[100, 1600, 3200]),
        just_not: |w| grow(w, &[100, 1601, 3200]),
        otherwise: None,
    },
    // 1.6 times as fast: half of that in logarithms, a factor of 1.265, must show in the CPU time
    // per request.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 1.60 times as fast.",
        evidence: r#"{"growth": 1.6}"#,
        trips: |w| w.set_seconds(&[(1000, 500 * MS), (1250, 600 * MS), (1600, 632 * MS)]),
        just_not: |w| w.set_seconds(&[(1000, 500 * MS), (1250, 600 * MS), (1600, 633 * MS)]),
        otherwise: None,
    },
    // At an offered rate only the CPU time per request is judged.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 1.50 times as fast.",
        evidence: r#"{"growth": 1.5}"#,
        trips: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1000, 500 * MS), (1000, 400 * MS)]);
            w.set_rate(1000.0);
        },
        just_not: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1000, 500 * MS), (1000, 401 * MS)]);
            w.set_rate(1000.0);
        },
        otherwise: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 1.60 times as fast.",
        evidence: "{}",
        trips: |w| grow(w, &[1000, 1250, 1600]),
        just_not: |w| {
            w.set_seconds(&[(1000, 500 * MS), (1250, 625 * MS), (1600, 800 * MS)]);
            w.set_rate(1000.0);
        },
        otherwise: None,
    },
    // If an interval's CPU time is not known, throughput alone is judged.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 1.60 times as fast.",
        evidence: r#"{"growth": 1.6}"#,
        trips: |w| w.set_seconds(&[(1000, 0), (1250, 600 * MS), (1600, 900 * MS)]),
        just_not: |w| w.set_seconds(&[(1000, 500 * MS), (1250, 600 * MS), (1600, 900 * MS)]),
        otherwise: None,
    },
    // An interval's CPU time is that between the two samples around its middle; a sample right at
    // the middle is the earlier one.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 1.50 times as fast.",
        evidence: r#"{"growth": 1.5}"#,
        trips: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1000, 500 * MS), (1000, 400 * MS), (1000, 0)]);
            sample_later(w);
        },
        just_not: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1000, 500 * MS), (1000, 401 * MS), (1000, 0)]);
            sample_later(w);
        },
        otherwise: None,
    },
    // If the rate changes by more than a tenth, nothing can be judged.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "times as fast.",
        evidence: "{}",
        trips: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1050, 450 * MS), (1100, 300 * MS)]);
            w.step.arrivals = shaped();
        },
        just_not: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1050, 450 * MS), (1101, 300 * MS)]);
            w.step.arrivals = shaped();
        },
        otherwise: None,
    },
    // Nor can throughput if connections are opened within the window.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "times as fast.",
        evidence: "{}",
        trips: |w| {
            grow(w, &[1000, 1250, 1600]);
            w.plan.warmup_ns = S;
            w.plan.ramp_connections_ns = Some(S);
        },
        just_not: |w| {
            grow(w, &[1000, 1250, 1600]);
            w.plan.warmup_ns = S;
            w.plan.ramp_connections_ns = Some(S + 1);
        },
        otherwise: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "times as fast.",
        evidence: "{}",
        trips: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1050, 450 * MS), (1100, 300 * MS)]);
            w.plan.ramp_connections_ns = Some(S);
        },
        just_not: |w| {
            w.set_seconds(&[(1000, 600 * MS), (1050, 450 * MS), (1101, 300 * MS)]);
            w.plan.ramp_connections_ns = Some(S);
        },
        otherwise: None,
    },
    // A machine that gets back what the hypervisor took makes every server faster.
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "times as fast.",
        evidence: "{}",
        trips: |w| {
            grow(w, &[1000, 1250, 1600]);
            steal(w, 240 * MS);
        },
        just_not: |w| {
            grow(w, &[1000, 1250, 1600]);
            steal(w, 240 * MS + 1);
        },
        otherwise: None,
    },
    Case {
        code: Code::StillWarming,
        severity: Severity::Invalid,
        says: "it became 1.50 times as fast, and its compiler (JIT) used 27 % of its CPU time.",
        evidence: r#"{"growth": 1.5}"#,
        trips: |w| {
            grow(w, &[1000, 1250, 1500]);
            w.compile(400 * MS);
        },
        just_not: |w| {
            grow(w, &[1000, 1000, 1000]);
            w.compile(300 * MS);
        },
        otherwise: None,
    },
    Case {
        code: Code::WarmupLimit,
        severity: Severity::Warning,
        says: "ended after 60.1 s, before the server was steady: its compiler (JIT) still used 50 \
               % of its CPU time.",
        evidence: r#"{"took_s": 60.1}"#,
        trips: |w| w.start = warm_up(WarmUpEnd::Limit, 30 * MS, Some(60 * MS)),
        just_not: |w| w.start = warm_up(WarmUpEnd::Steady, 30 * MS, Some(60 * MS)),
        otherwise: None,
    },
    Case {
        code: Code::WarmupLimit,
        severity: Severity::Warning,
        says: "before the server was steady: no slice of it had a response.",
        evidence: r#"{"took_s": 60.1}"#,
        trips: |w| w.start = warm_up(WarmUpEnd::Unanswered, 0, Some(MS)),
        just_not: |w| w.start = warm_up(WarmUpEnd::CutShort, 0, Some(MS)),
        otherwise: None,
    },
    Case {
        code: Code::WarmupLimit,
        severity: Severity::Warning,
        says: "throughput still grew, by a factor of 1.96",
        evidence: "{}",
        trips: |w| limit(w, |slice, round| slice.answers = 1000 + 200 * round),
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::WarmupLimit,
        severity: Severity::Warning,
        says: "CPU time per request still fell, by a factor of 1.63",
        evidence: "{}",
        trips: |w| limit(w, |slice, round| slice.cpu_ns = Some((20 - round) * 5 * MS)),
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::WarmupLimit,
        severity: Severity::Warning,
        says: "the last slices had no response.",
        evidence: "{}",
        trips: |w| limit(w, |slice, _| slice.answers = 0),
        just_not: |_| {},
        otherwise: None,
    },
    Case {
        code: Code::WarmupLimit,
        severity: Severity::Warning,
        says: "there were too few slices to decide.",
        evidence: "{}",
        trips: |w| {
            w.start = warm_up(WarmUpEnd::Limit, 0, Some(MS));
            slices(w).truncate(7);
        },
        just_not: |_| {},
        otherwise: None,
    },
    // The bound: CPU time is known for half of eight rounds.
    Case {
        code: Code::WarmupWithoutCpu,
        severity: Severity::Info,
        says: "more than half of the last rounds",
        evidence: "{}",
        trips: |w| {
            slices(w).truncate(8);
            forget(w, 5);
        },
        just_not: |w| {
            slices(w).truncate(8);
            forget(w, 4);
        },
        otherwise: None,
    },
    Case {
        code: Code::WarmupWithoutCpu,
        severity: Severity::Info,
        says: "more than half of the last rounds",
        evidence: "{}",
        trips: |w| {
            slices(w).truncate(1);
            forget(w, 1);
        },
        just_not: |w| slices(w).clear(),
        otherwise: None,
    },
    Case {
        code: Code::WarmupWithoutCpu,
        severity: Severity::Info,
        says: "The throughput alone decided that the server was warm",
        evidence: "{}",
        trips: |w| forget(w, 10),
        just_not: |w| w.start.parts.clear(),
        otherwise: None,
    },
];

/// One second per rate (answers per second); the server uses half a CPU in each.
fn grow(w: &mut JudgedWorld, rates: &[u64]) {
    let seconds: Vec<(u64, u64)> = rates.iter().map(|rate| (*rate, 500 * MS)).collect();
    w.set_seconds(&seconds);
}

/// The same in rounds of a second, by a factor of 1.25, while the others had this pace.
fn grow_in_turns(w: &mut JudgedWorld, pace: &[f64]) {
    grow(w, &[1000, 1000, 1100, 1100, 1250, 1250]);
    w.turns = turns_of(0.5);
    w.pace = Some(pace.to_vec());
}

/// Moves the samples to the middle of each second, and the last second out of the window; the rate
/// is offered.
fn sample_later(w: &mut JudgedWorld) {
    w.set_rate(1000.0);
    w.record.intervals.truncate(3);
    w.record.window_ns = (0, 3 * S);
    w.record.samples.iter_mut().for_each(|sample| sample.at_ns += S / 2);
}

fn shaped() -> Arrivals {
    let segments = vec![Segment { from_rate: 1000.0, to_rate: 1100.0, duration_ns: 3 * S }];
    Arrivals::Shaped { segments, gaps: Gaps::Even }
}

/// Sets how much of the machine's twelve CPU seconds the hypervisor took.
fn steal(w: &mut JudgedWorld, steal_ns: u64) {
    let host = w.sample().host.as_mut().expect("a machine");
    host.steal_ns = steal_ns;
    host.idle_ns -= steal_ns;
}

fn slices(w: &mut JudgedWorld) -> &mut Vec<WarmUpSlice> {
    &mut w.start.parts[0].warmup.as_mut().expect("a warm-up").slices
}

/// Makes the CPU time of the first `n` slices unknown.
fn forget(w: &mut JudgedWorld, n: usize) {
    slices(w).iter_mut().take(n).for_each(|slice| slice.cpu_ns = None);
}

/// A warm-up that reached its limit, with each slice changed.
fn limit(w: &mut JudgedWorld, change: fn(&mut WarmUpSlice, u64)) {
    w.start = warm_up(WarmUpEnd::Limit, 0, Some(60 * MS));
    slices(w).iter_mut().zip(0..).for_each(|(slice, round)| change(slice, round));
}
