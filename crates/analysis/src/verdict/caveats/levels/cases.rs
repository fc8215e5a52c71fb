//! Test cases: caveats about levels.

use dyno_model::interval::WorkerUse;
use dyno_model::plan::{Arrivals, Gaps, Segment, StillWarming};
use dyno_model::silence::Silence;

use crate::caveat::Code;
use crate::verdict::table::changes::set_levels;
use crate::verdict::table::world::{CommandKind, MS, S, TrialWorld, equal_times};
use crate::verdict::table::{Case, check_cases, info, warning};

const CASES: &[Case<TrialWorld>] = &[
    warning(
        Code::SLOWDOWN,
        |w| set_levels(w, [1000, 900, 900]),
        |w| set_levels(w, [1000, 960, 960]),
    ),
    // Throughput that rises.
    warning(
        Code::SPEEDUP,
        |w| set_levels(w, [900, 900, 1000]),
        |w| set_levels(w, [960, 960, 1000]),
    ),
    // A server whose cache fills: 400/s, then 1,900/s, at the same CPU time per request.
    warning(
        Code::SPEEDUP,
        |w| w.set_seconds(&[[(400, 100 * MS); 5].as_slice(), &[(1900, 475 * MS); 10]].concat()),
        |w| set_levels(w, [1900, 1900, 1900]),
    ),
    // Throughput that rises at the end.
    warning(
        Code::SPEEDUP,
        |w| {
            w.set_seconds(&[[(1000, 500 * MS); 17].as_slice(), &[(1600, 500 * MS); 3]].concat());
        },
        |w| {
            w.set_seconds(&[[(1000, 500 * MS); 18].as_slice(), &[(1600, 500 * MS); 2]].concat());
        },
    ),
    // A stall has its own caveat.
    warning(Code::SPEEDUP, |_| {}, |w| add_stall(w, 5 * S, 8 * S)).given(set_gap),
    // A stall that covers less than half of the level does not explain it.
    warning(Code::SPEEDUP, |w| add_stall(w, 5 * S, 6499 * MS), |w| add_stall(w, 5 * S, 6500 * MS))
        .given(set_gap),
    // CPU time per request changes too: the caveat about throughput includes it.
    warning(
        Code::SPEEDUP,
        |w| set_levels(w, [500, 1000, 1000]),
        |w| set_levels(w, [1000, 1000, 1000]),
    ),
    warning(
        Code::COST_LEVELS,
        |w| set_costs(w, [200, 300, 300]),
        |w| w.set_seconds(&[[(500, 500 * MS); 5].as_slice(), &[(1000, 500 * MS); 10]].concat()),
    ),
    // At a constant offered rate, throughput describes the server too.
    warning(Code::SLOWDOWN, |w| w.set_rate(1000.0), set_rising_rate)
        .given(|w| set_levels(w, [1000, 900, 900])),
    warning(Code::SPEEDUP, |w| w.set_rate(1000.0), set_rising_rate)
        .given(|w| set_levels(w, [900, 900, 1000])),
    // Connections that are opened in the window raise throughput.
    warning(
        Code::SPEEDUP,
        |w| (w.plan.warmup_ns, w.plan.ramp_connections_ns) = (S, Some(S)),
        |w| (w.plan.warmup_ns, w.plan.ramp_connections_ns) = (S, Some(S + 1)),
    )
    .given(|w| set_levels(w, [900, 900, 1000])),
    // The server becomes 1.3 times as fast. The machine is the cause if the generator's CPU time
    // per request falls by at least half of that in logarithms: a factor of 1.14.
    warning(Code::SPEEDUP, |w| set_generator_ms(w, 300, 343), |w| set_generator_ms(w, 300, 341))
        .given(|w| set_levels(w, [1000, 1300, 1300])),
    warning(Code::SLOWDOWN, |w| set_generator_ms(w, 343, 300), |w| set_generator_ms(w, 341, 300))
        .given(|w| set_levels(w, [1300, 1000, 1000])),
    // A change of the machine cannot explain a factor of 1.5.
    warning(
        Code::SPEEDUP,
        |w| {
            set_levels(w, [1000, 1500, 1500]);
            set_generator_ms(w, 300, 300);
        },
        |w| {
            set_levels(w, [1000, 1499, 1499]);
            set_generator_ms(w, 300, 300);
        },
    ),
    // If the load measures warming up, the rise is the result.
    info(
        Code::SPEEDUP,
        |w| {
            set_levels(w, [900, 900, 1000]);
            w.plan.still_warming = StillWarming::Measured;
        },
        |_| {},
    ),
    warning(
        Code::SPEEDUP,
        |w| set_levels(w, [1000, 1000, 1500]),
        |w| set_levels(w, [1000, 1250, 1500]),
    ),
    // `dyno load` reports levels too.
    warning(
        Code::SPEEDUP,
        |w| {
            set_levels(w, [900, 900, 1000]);
            w.command = CommandKind::Load;
        },
        |w| {
            set_levels(w, [960, 960, 1000]);
            w.command = CommandKind::Load;
        },
    ),
    warning(
        Code::CYCLIC,
        |w| set_levels(w, [1000, 900, 1000, 900]),
        |w| set_levels(w, [900, 900, 1000, 1000]),
    ),
    info(Code::LAST_LEVEL, |w| w.counts_from = Some(5 * S), |_| {})
        .given(|w| set_levels(w, [500, 1000, 1000])),
    warning(
        Code::SPEEDUP,
        |w| set_levels(w, [500, 1000, 1000]),
        |w| {
            set_levels(w, [500, 1000, 1000]);
            w.counts_from = Some(5 * S);
        },
    ),
    // Requests need more CPU time at the same rate.
    warning(
        Code::COST_LEVELS,
        |w| set_costs_at_rate(w, [180, 226, 276]),
        |w| set_costs_at_rate(w, [180, 222, 222]),
    ),
    warning(
        Code::COST_LEVELS,
        |w| set_costs_at_rate(w, [300, 200, 200]),
        // A gradual fall is a server that is still warming up.
        |w| set_costs_at_rate(w, [300, 250, 200]),
    ),
    warning(
        Code::COST_LEVELS,
        |w| set_costs_at_rate(w, [200, 400, 200]),
        // The costs of the few requests within a stall are no level.
        |w| {
            set_gap(w);
            add_stall(w, 5 * S, 8 * S);
        },
    ),
    warning(
        Code::COST_LEVELS,
        |w| set_costs_at_rate(w, [200, 300, 200, 300]),
        |w| set_costs_at_rate(w, [200, 240, 200, 240]),
    ),
    warning(
        Code::COST_LEVELS,
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
    warning(
        Code::RESPONSE_LEVELS,
        |w| set_response_times(w, 200, 50),
        |w| {
            set_response_times(w, 200, 50);
            w.step.arrivals = Arrivals::Closed;
        },
    ),
    warning(
        Code::RESPONSE_LEVELS,
        |w| set_response_times(w, 50, 102),
        |w| set_response_times(w, 50, 98),
    ),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_cases("caveats/levels", CASES);
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

/// Sets fifteen seconds at 1,000/s, with a gap of three seconds after the fifth.
fn set_gap(w: &mut TrialWorld) {
    let busy = |seconds| vec![(1000, 500 * MS); seconds];
    w.set_seconds(&[busy(5), vec![(1, MS); 3], busy(7)].concat());
}

/// Adds a time without a response, while requests were in flight.
fn add_stall(w: &mut TrialWorld, start_ns: u64, end_ns: u64) {
    let silence = Silence { start_ns, busy_ns: start_ns, end_ns, in_flight: 4, failures_ns: None };
    w.record.silences.get_or_insert_default().push(silence);
}

/// Sets an offered rate that rises over the window.
fn set_rising_rate(w: &mut TrialWorld) {
    let segments = vec![Segment { from_rate: 800.0, to_rate: 1100.0, duration_ns: 15 * S }];
    w.step.arrivals = Arrivals::Shaped { segments, gaps: Gaps::Even };
}
