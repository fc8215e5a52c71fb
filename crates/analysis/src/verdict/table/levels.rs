//! Test cases: caveats about windows with several levels.

use dyno_archive::interval::WorkerUse;
use dyno_archive::plan::{Arrivals, Gaps, Segment, StillWarming};

use super::world::{CommandKind, MS, S, TrialWorld, equal_times};
use super::{Case, case};
use crate::caveat::{Code, Severity};

/// Sets five seconds per rate (responses per second). The server uses half of a CPU.
fn set_rates<const N: usize>(w: &mut TrialWorld, rates: [u64; N]) {
    let seconds = rates.into_iter().flat_map(|rate| [(rate, 500 * MS); 5]);
    w.set_seconds(&seconds.collect::<Vec<_>>());
}

/// Sets five seconds per CPU time (milliseconds per second), with 400 responses per second.
fn set_costs<const N: usize>(w: &mut TrialWorld, cpu_ms: [u64; N]) {
    let seconds = cpu_ms.into_iter().flat_map(|ms| [(400, ms * MS); 5]);
    w.set_seconds(&seconds.collect::<Vec<_>>());
}

/// Sets the same CPU times at an offered rate.
fn set_costs_at_rate<const N: usize>(w: &mut TrialWorld, cpu_ms: [u64; N]) {
    set_costs(w, cpu_ms);
    w.set_rate(400.0);
}

/// Sets the generator's CPU time in each of the first five seconds, and in each later second.
fn set_generator_ms(w: &mut TrialWorld, first_ms: u64, later_ms: u64) {
    for (second, interval) in w.record.intervals.iter_mut().enumerate() {
        let run_ms = if second < 5 { first_ms } else { later_ms };
        interval.workers.insert(0, WorkerUse { run_ns: run_ms * MS, spun_ns: 0 });
    }
}

/// Sets the response times at 400/s in the first five seconds and later, in tenths of a
/// millisecond.
fn set_response_times(w: &mut TrialWorld, first: u64, later: u64) {
    set_costs_at_rate(w, [200, 200, 200]);
    for (second, interval) in w.record.intervals.iter_mut().enumerate() {
        let tenths_ms = if second < 5 { first } else { later };
        interval.times.response = equal_times(400, tenths_ms * MS / 10);
    }
}

/// Sets an offered rate that rises over the window.
fn set_rising_rate(w: &mut TrialWorld) {
    let segments = vec![Segment { from_rate: 800.0, to_rate: 1100.0, duration_ns: 15 * S }];
    w.step.arrivals = Arrivals::Shaped { segments, gaps: Gaps::Even };
}

pub(super) const CASES: &[Case<TrialWorld>] = &[
    case(
        (Code::SLOWDOWN, Severity::Warning),
        "Throughput fell within the measured window to 0.90 times its highest level: 1000 \
         requests/s until 5.0 s after the load began, then 900 requests/s. The mean (933 \
         requests/s) is a mix of these levels.",
        |w| set_rates(w, [1000, 900, 900]),
        |w| set_rates(w, [1000, 960, 960]),
    )
    .evidence(r#"{"last_to_first": 0.9}"#),
    // Throughput that rises.
    case(
        (Code::SPEEDUP, Severity::Warning),
        "Throughput rose within the measured window to 1.11 times its lowest level: 900 requests/s \
         until 10.0 s after the load began, then 1000 requests/s. The mean (933 requests/s) is a \
         mix of these levels.",
        |w| set_rates(w, [900, 900, 1000]),
        |w| set_rates(w, [960, 960, 1000]),
    ),
    // A server whose cache fills: 400/s, then 1,900/s, at the same CPU time per request.
    case(
        (Code::SPEEDUP, Severity::Warning),
        "to 4.75 times its lowest level: 400 requests/s until 5.0 s after the load began, then \
         1900 requests/s. The mean (1400 requests/s) is a mix",
        |w| w.set_seconds(&[[(400, 100 * MS); 5].as_slice(), &[(1900, 475 * MS); 10]].concat()),
        |w| set_rates(w, [1900, 1900, 1900]),
    ),
    // Throughput that rises at the end.
    case(
        (Code::SPEEDUP, Severity::Warning),
        "1000 requests/s until 17.0 s after the load began, then 1600 requests/s",
        |w| {
            w.set_seconds(&[[(1000, 500 * MS); 17].as_slice(), &[(1600, 500 * MS); 3]].concat());
        },
        |w| {
            w.set_seconds(&[[(1000, 500 * MS); 18].as_slice(), &[(1600, 500 * MS); 2]].concat());
        },
    ),
    // CPU time per request changes too: the caveat about throughput includes it.
    case(
        (Code::SPEEDUP, Severity::Warning),
        "CPU time per request went from 1000 to 500 µs at the same time.",
        |w| set_rates(w, [500, 1000, 1000]),
        |w| set_rates(w, [1000, 1000, 1000]),
    ),
    case(
        (Code::COST_LEVELS, Severity::Warning),
        "",
        |w| set_costs(w, [200, 300, 300]),
        |w| w.set_seconds(&[[(500, 500 * MS); 5].as_slice(), &[(1000, 500 * MS); 10]].concat()),
    ),
    // At a constant offered rate, throughput describes the server too.
    case((Code::SLOWDOWN, Severity::Warning), "", |w| w.set_rate(1000.0), set_rising_rate)
        .given(|w| set_rates(w, [1000, 900, 900])),
    case((Code::SPEEDUP, Severity::Warning), "", |w| w.set_rate(1000.0), set_rising_rate)
        .given(|w| set_rates(w, [900, 900, 1000])),
    // Connections that are opened in the window raise throughput.
    case(
        (Code::SPEEDUP, Severity::Warning),
        "",
        |w| (w.plan.warmup_ns, w.plan.ramp_connections_ns) = (S, Some(S)),
        |w| (w.plan.warmup_ns, w.plan.ramp_connections_ns) = (S, Some(S + 1)),
    )
    .given(|w| set_rates(w, [900, 900, 1000])),
    // The server becomes 1.3 times as fast. The machine is the cause if the generator's CPU time
    // per request falls by at least half of that in logarithms: a factor of 1.14.
    case(
        (Code::SPEEDUP, Severity::Warning),
        "",
        |w| set_generator_ms(w, 300, 343),
        |w| set_generator_ms(w, 300, 341),
    )
    .given(|w| set_rates(w, [1000, 1300, 1300])),
    case(
        (Code::SLOWDOWN, Severity::Warning),
        "",
        |w| set_generator_ms(w, 343, 300),
        |w| set_generator_ms(w, 341, 300),
    )
    .given(|w| set_rates(w, [1300, 1000, 1000])),
    // A change of the machine cannot explain a factor of 1.5.
    case(
        (Code::SPEEDUP, Severity::Warning),
        "",
        |w| {
            set_rates(w, [1000, 1500, 1500]);
            set_generator_ms(w, 300, 300);
        },
        |w| {
            set_rates(w, [1000, 1499, 1499]);
            set_generator_ms(w, 300, 300);
        },
    ),
    // If the load measures warming up, the rise is the result.
    case(
        (Code::SPEEDUP, Severity::Info),
        "",
        |w| {
            set_rates(w, [900, 900, 1000]);
            w.plan.still_warming = StillWarming::Measured;
        },
        |_| {},
    ),
    // A server that is still warming up has only the caveat about that.
    case(
        (Code::STILL_WARMING, Severity::Invalid),
        "",
        |w| set_rates(w, [1000, 1250, 1500]),
        |w| set_rates(w, [1000, 1000, 1500]),
    ),
    case(
        (Code::SPEEDUP, Severity::Warning),
        "",
        |w| set_rates(w, [1000, 1000, 1500]),
        |w| set_rates(w, [1000, 1250, 1500]),
    ),
    // `dyno load` reports levels too.
    case(
        (Code::SPEEDUP, Severity::Warning),
        "",
        |w| {
            set_rates(w, [900, 900, 1000]);
            w.command = CommandKind::Load;
        },
        |w| {
            set_rates(w, [960, 960, 1000]);
            w.command = CommandKind::Load;
        },
    ),
    case(
        (Code::CYCLIC, Severity::Warning),
        "Throughput went up and down within the measured window: 1000 requests/s until 5.0 s after \
         the load began, 900 requests/s until 10.0 s, 1000 requests/s until 15.0 s, then 900 \
         requests/s. The mean (950 requests/s) is a mix",
        |w| set_rates(w, [1000, 900, 1000, 900]),
        |w| set_rates(w, [900, 900, 1000, 1000]),
    ),
    case(
        (Code::LAST_LEVEL, Severity::Info),
        "became 2.00 times as fast within the measured window",
        |w| w.counts_from = Some(5 * S),
        |_| {},
    )
    .given(|w| set_rates(w, [500, 1000, 1000]))
    .evidence(r#"{"last_to_first": 2.0}"#),
    case(
        (Code::SPEEDUP, Severity::Warning),
        "",
        |w| set_rates(w, [500, 1000, 1000]),
        |w| {
            set_rates(w, [500, 1000, 1000]);
            w.counts_from = Some(5 * S);
        },
    ),
    // Requests need more CPU time at the same rate.
    case(
        (Code::COST_LEVELS, Severity::Warning),
        "CPU time per request rose within the measured window to 1.53 times its lowest level: 450 \
         µs until 5.0 s after the load began, 565 µs until 10.0 s, then 690 µs. The mean (568 µs) \
         is a mix of these levels.",
        |w| set_costs_at_rate(w, [180, 226, 276]),
        |w| set_costs_at_rate(w, [180, 222, 222]),
    ),
    case(
        (Code::COST_LEVELS, Severity::Warning),
        "CPU time per request fell within the measured window to 0.67 times its highest level: 750 \
         µs until 5.0 s after the load began, then 500 µs.",
        |w| set_costs_at_rate(w, [300, 200, 200]),
        // A gradual fall is a server that is still warming up.
        |w| set_costs_at_rate(w, [300, 250, 200]),
    ),
    case(
        (Code::COST_LEVELS, Severity::Warning),
        "CPU time per request went up and down",
        |w| set_costs_at_rate(w, [200, 300, 200, 300]),
        |w| set_costs_at_rate(w, [200, 240, 200, 240]),
    ),
    case(
        (Code::COST_LEVELS, Severity::Warning),
        "",
        |w| {
            set_costs_at_rate(w, [200, 300, 300]);
            set_generator_ms(w, 100, 120);
        },
        |w| {
            set_costs_at_rate(w, [200, 290, 290]);
            set_generator_ms(w, 100, 121);
        },
    ),
    // Response times of an open loop. In a closed loop throughput shows the change.
    case(
        (Code::RESPONSE_LEVELS, Severity::Warning),
        "it was 20.0 ms until 5.0 s after the load began, then 5.00 ms. Percentiles of the whole \
         window mix both levels.",
        |w| set_response_times(w, 200, 50),
        |w| {
            set_response_times(w, 200, 50);
            w.step.arrivals = Arrivals::Closed;
        },
    ),
    case(
        (Code::RESPONSE_LEVELS, Severity::Warning),
        "",
        |w| set_response_times(w, 50, 102),
        |w| set_response_times(w, 50, 98),
    ),
];
