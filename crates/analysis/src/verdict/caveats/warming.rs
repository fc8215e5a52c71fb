//! Derives caveats about servers that were still warming up in the measured window, or whose
//! warm-up ended early. Numbers from before steady state describe neither a cold nor a warm server.

#[cfg(test)]
mod cases;

use dyno_model::Phase;
use dyno_model::plan::{LoadModel, StillWarming};
use dyno_model::start::{WarmUp, WarmUpEnd};
use dyno_model::syscall::{Amount, returned_amount};
use serde_json::json;

use super::TrialInputs;
use crate::caveat::{Caveat, Code, Severity, info};
use crate::load::{IntervalResult, LoadResult};
use crate::machine::MachineResult;
use crate::number_format::percent;
use crate::server::{Call, CallRates, ServerUse};
use crate::stats::median;
use crate::steady_state::{self, WarmUpEvidence, WarmUpState};
use crate::verdict::conditions::{MAX_OTHERS_SHARE, OTHERS_SHARE};
use crate::verdict::thresholds::{JIT_SHARE, OTHERS_CPUS, SERVER_FULL, STEAL};

caveats! {
    /// The server got faster within the measured window, or its JIT compiler used more than 20 % of
    /// its CPU time.
    STILL_WARMING = "still_warming" in Levels {
        reason: "the server was still warming up",
        more: "window-and-warm-up.md#windows-that-are-still-warming",
        properties: [CausedByPrograms],
        rules: [Trial(unfinished_warm_up)],
    }

    /// The warm-up of this start reached its limit before the server was steady.
    WARMUP_LIMIT = "warmup_limit" in Levels {
        more: "window-and-warm-up.md#warm-up",
        properties: [FollowsRefusals],
        rules: [Trial(|t| warmup_limit(t.warm_up()?))],
    }

    /// The server's CPU time could not be read, so its throughput alone decided when it was warm.
    WARMUP_WITHOUT_CPU = "warmup_without_cpu" in Levels {
        more: "window-and-warm-up.md#warm-up",
        properties: [FollowsRefusals],
        rules: [Trial(|t| warmup_without_cpu(t.warm_up()?))],
    }
}

/// In windows of six or more intervals, a server is warming up if its throughput grows at least
/// this much. Growth is the median of the window's last third ÷ the median of its first third.
const MIN_GROWTH: f64 = 1.25;

/// In windows of three to five intervals, a server is warming up if its throughput grows at least
/// this much. The thirds are one or two intervals, so noise changes them more.
const MIN_GROWTH_OF_FEW: f64 = 1.5;

/// Minimum share of the growth, in logarithms, in each of the two steps between the thirds. A
/// growth in only one step is a change of the machine's speed.
const STEP_SHARE: f64 = 0.2;

/// The rate is constant if the rates of the window's thirds differ by at most this ratio.
const CONSTANT_RATE_RATIO: f64 = 1.1;

/// Minimum share of the growth in throughput, in logarithms, that the CPU time per request must
/// show too. The CPU time per request does not fall if a server only gets more time of a busy
/// machine.
const CPU_SHARE: f64 = 0.5;

/// Minimum idle system calls per response of a server that polls. A server that blocks makes about
/// one.
const POLLING_CALLS: f64 = 3.0;

/// Loads of other servers on this server's CPUs.
#[derive(Clone, Copy, Debug)]
enum OtherLoads<'a> {
    None,
    /// Other servers are loaded at the same time.
    Concurrent,
    /// Other servers are loaded in turns with this server. `round_s`: seconds of this server's
    /// turns in each round (two turns of each server). `pace`: throughput of the others in each
    /// round, as multiples of their means.
    InTurns {
        round_s: f64,
        pace: &'a [f64],
    },
}

/// The server was still warming up in the measured window.
pub(super) fn unfinished_warm_up(trial: &TrialInputs<'_>) -> Option<Caveat> {
    let TrialInputs { load, context, .. } = *trial;
    let server = trial.server?;
    let other_loads = match (context.duet, context.turns.zip(context.pace.as_deref())) {
        (Some(_), _) => OtherLoads::Concurrent,
        // Each server has two turns in a round.
        (None, Some((turns, pace))) => OtherLoads::InTurns { round_s: 2.0 * turns.slice_s, pace },
        (None, None) => OtherLoads::None,
    };
    let growth = growth_in_window(load, server, other_loads)
        .filter(|growth| !can_others_explain(*growth, load, server, context.machine));
    warming_caveat(server.role_share("jit"), growth, load.config.still_warming)
}

/// Returns the caveat of a server with this share of its JIT compiler, and this growth.
fn warming_caveat(
    jit_share: Option<f64>,
    growth: Option<f64>,
    setting: StillWarming,
) -> Option<Caveat> {
    let jit = jit_share.filter(|share| *share > JIT_SHARE);
    let observation = match (jit, growth) {
        (None, None) => return None,
        (Some(jit), None) => format!("its compiler (JIT) used {} of its CPU time", percent(jit)),
        (None, Some(growth)) => format!("it became {growth:.2} times as fast"),
        (Some(jit), Some(growth)) => format!(
            "it became {growth:.2} times as fast, and its compiler (JIT) used {} of its CPU time",
            percent(jit)
        ),
    };
    let evidence = json!({"jit_share": jit_share, "growth": growth});
    if setting == StillWarming::Measured {
        let message = format!(
            "The server warmed up: within the measured window {observation}. The load measures \
             this stage on purpose (`warmup = \"measured\"` under `[load]`). The numbers of a warm \
             server differ."
        );
        return Some(Caveat::new(Code::STILL_WARMING, Severity::Info, message, evidence));
    }
    let message = format!(
        "The server was still warming up: within the measured window {observation}. These numbers \
         are from before steady state. Warm the server up until it is steady (`warmup = \"auto\"` \
         under `[load]`), or for a longer time. If the warm-up reached `warmup_limit`, raise that \
         limit."
    );
    Some(Caveat::new(Code::STILL_WARMING, Severity::Invalid, message, evidence))
}

/// Returns the factor by which the server became faster within the measured window. `None`: the
/// server did not become faster, or the growth may be noise.
fn growth_in_window(
    load: &LoadResult,
    server: &ServerUse,
    other_loads: OtherLoads<'_>,
) -> Option<f64> {
    // When the hypervisor stops taking CPU time, every server becomes faster.
    if server.steal_share.is_some_and(|share| share > STEAL) {
        return None;
    }
    let window: Vec<_> = load.intervals.iter().filter(|i| i.phase == Phase::Measured).collect();
    let used: Vec<Option<f64>> =
        window.iter().map(|i| server.cpus_at_middle((i.start_s, i.end_s))).collect();
    if !cpu_shows_work(server, &used) {
        return None;
    }
    let throughput: Vec<f64> = window.iter().map(|i| i.throughput_rps).collect();
    let responses_per_cpu_s: Option<Vec<f64>> = window
        .iter()
        .map(|i| Some(i.throughput_rps / server.cpus_at_middle((i.start_s, i.end_s))?))
        .collect();
    let grow = |measure| growth(&throughput, responses_per_cpu_s.as_deref(), measure);
    match other_loads {
        // Throughput rises when the servers that run at the same time become slower.
        OtherLoads::Concurrent => grow(GrowthMeasure::CpuTime),
        OtherLoads::None => grow(growth_measure(load, &throughput)?),
        OtherLoads::InTurns { round_s, pace } => {
            let own_growth = grow(growth_measure(load, &throughput)?)?;
            let opens_s = window.first()?.start_s;
            // The throughput of the others in the round of an interval. The small addition makes up
            // for rounding in the times.
            let others_pace =
                |i: &&IntervalResult| pace.get(((i.start_s - opens_s) / round_s + 1e-6) as usize);
            let multiples: Option<Vec<f64>> =
                window.iter().map(|i| Some(i.throughput_rps / others_pace(i)?)).collect();
            multiples.map_or(Some(own_growth), |multiples| relative_growth(own_growth, &multiples))
        }
    }
}

/// Share of a CPU that a program has at least while one other program uses the CPU, too: the kernel
/// divides a CPU equally between two programs.
const MIN_SHARE_OF_CPU: f64 = 0.5;

/// Whether other programs may explain the growth of a server, because they used less and less CPU
/// time within the window.
///
/// A server or generator that shares a CPU with other programs gets at least `1 − fall` of the CPU
/// at first, and never less than half. In the end it gets the whole CPU. The other programs may
/// explain the growth if the growth times the first share is below [`min_growth`].
///
/// If the use of other programs is known only for the whole window, all of it may have been in the
/// first third. If nothing is known about other programs, the growth is the server's.
fn can_others_explain(
    growth: f64,
    load: &LoadResult,
    server: &ServerUse,
    machine: &MachineResult,
) -> bool {
    let window: Vec<_> = load.intervals.iter().filter(|i| i.phase == Phase::Measured).collect();
    let by_interval: Option<Vec<f64>> = window
        .iter()
        .map(|i| server.interval_at_middle((i.start_s, i.end_s))?.others_cpu)
        .collect();
    let mean = || {
        let by_counters = server.others_cpu_s.map(|s| s / server.window_s);
        by_counters.or(machine.others_cpus()).filter(|cpus| *cpus >= OTHERS_CPUS)
    };
    // Programs on other CPUs take nothing from the server or from the generator.
    let is_small = |share: Option<f64>, limit: f64| share.is_some_and(|share| share < limit);
    let server_share = server.others_on_its_cpus_s.zip(server.cpu_allowed_s).map(|(s, of)| s / of);
    if is_small(server_share, OTHERS_SHARE)
        && is_small(load.client.headroom.others, MAX_OTHERS_SHARE)
    {
        return false;
    }
    let fall = match by_interval.as_deref().and_then(medians_of_thirds) {
        Some([first, _, last]) => first - last,
        None => mean().map_or(0.0, |cpus| 3.0 * cpus),
    };
    fall >= OTHERS_CPUS && growth * (1.0 - fall).max(MIN_SHARE_OF_CPU) < min_growth(window.len())
}

/// Returns how much more a server's throughput grows than that of the servers that take turns with
/// it. Growth of all servers is caused by the machine. `multiples`: the server's throughput as a
/// multiple of the others' throughput.
fn relative_growth(own_growth: f64, multiples: &[f64]) -> Option<f64> {
    growth_over_thirds(multiples).map(|growth| own_growth.min(growth))
}

/// Whether the CPU time of a server shows the cost of its requests. A server that polls uses all of
/// its CPU at any load, so its CPU time per request falls as throughput rises.
///
/// - A server whose CPU is not always full does not poll.
/// - If system calls were counted, many idle calls show polling.
/// - Otherwise the server may poll. This matters only if other programs used the machine too: when
///   they stop, throughput rises although the server works as before.
fn cpu_shows_work(server: &ServerUse, used: &[Option<f64>]) -> bool {
    let allowed = server.cpu_allowed_s.map(|allowed_s| allowed_s / server.window_s);
    let is_full = |used: &Option<f64>| {
        used.zip(allowed).is_some_and(|(used, allowed)| used >= SERVER_FULL * allowed)
    };
    if used.is_empty() || !used.iter().all(is_full) {
        return true;
    }
    match server.calls.as_ref().and_then(idle_calls) {
        Some(idle) => idle < POLLING_CALLS,
        None => {
            let others = server.others_cpu_s.zip(server.cpu_allowed_s);
            !others.is_some_and(|(others_s, allowed_s)| others_s >= OTHERS_SHARE * allowed_s)
        }
    }
}

/// Returns the idle system calls per response: waits that returned no event, and calls that failed
/// with EAGAIN. `None`: return values were not recorded.
fn idle_calls(calls: &CallRates) -> Option<f64> {
    let idle = |(name, call): (&String, &Call)| {
        let is_wait = returned_amount(name) == Some(Amount::Events);
        let empty = call.returned_mean.filter(|_| is_wait).map(|events| (1.0 - events).max(0.0));
        let again = call.again.map(|again| again as f64 / call.count.max(1) as f64);
        let share = empty.unwrap_or(0.0) + again.unwrap_or(0.0);
        (empty.is_some() || again.is_some()).then_some(share * call.per_response)
    };
    calls.by_name.iter().filter_map(idle).reduce(|a, b| a + b)
}

/// Returns the numbers that can show growth of this load's server. `None`: the rate changes over
/// the window. The CPU time per request of any server depends on the rate, so a warm server could
/// seem to be warming up.
fn growth_measure(load: &LoadResult, throughput: &[f64]) -> Option<GrowthMeasure> {
    if is_ramped(load) {
        return is_constant(throughput).then_some(GrowthMeasure::CpuTime);
    }
    if load.config.model == LoadModel::Closed {
        return Some(GrowthMeasure::ThroughputAndCpuTime);
    }
    has_constant_rate(load).then_some(GrowthMeasure::CpuTime)
}

/// Whether connections are still being opened within the window.
pub(super) fn is_ramped(load: &LoadResult) -> bool {
    load.config.ramp_connections_s.is_some_and(|ramp| ramp > load.config.warmup_s)
}

/// Whether the offered rate is the same over the whole window.
pub(super) fn has_constant_rate(load: &LoadResult) -> bool {
    let measured = load.intervals.iter().filter(|i| i.phase == Phase::Measured);
    let arrivals: Vec<f64> = measured.map(IntervalResult::arrivals_rps).collect();
    load.config.rate.is_some() || is_constant(&arrivals)
}

/// Whether the thirds of a window have nearly the same rate.
fn is_constant(rates: &[f64]) -> bool {
    thirds(rates).is_some_and(|thirds| {
        let highest = thirds.into_iter().fold(0.0, f64::max);
        let lowest = thirds.into_iter().fold(f64::MAX, f64::min);
        highest <= lowest * CONSTANT_RATE_RATIO
    })
}

/// The numbers that show whether a server becomes faster.
#[derive(Clone, Copy, Debug)]
enum GrowthMeasure {
    ThroughputAndCpuTime,
    /// CPU time per request alone. Throughput follows the offered rate, the opening of connections,
    /// or other servers.
    CpuTime,
}

/// Returns the factor by which a server becomes faster over a window. `None`: the server does not
/// become faster. Both lists have a value per interval. `responses_per_cpu_s`: `None` if unknown.
fn growth(
    throughput: &[f64],
    responses_per_cpu_s: Option<&[f64]>,
    measure: GrowthMeasure,
) -> Option<f64> {
    match (measure, responses_per_cpu_s) {
        (GrowthMeasure::ThroughputAndCpuTime, None) => growth_over_thirds(throughput),
        (GrowthMeasure::ThroughputAndCpuTime, Some(responses_per_cpu_s)) => {
            let growth = growth_over_thirds(throughput)?;
            let [first, _, last] = thirds(responses_per_cpu_s)?;
            (last / first >= growth.powf(CPU_SHARE)).then_some(growth)
        }
        (GrowthMeasure::CpuTime, responses_per_cpu_s) => growth_over_thirds(responses_per_cpu_s?),
    }
}

/// Returns the growth from the first third to the last, if both steps between thirds show it.
fn growth_over_thirds(values: &[f64]) -> Option<f64> {
    let [first, middle, last] = thirds(values)?;
    let growth = last / first;
    let min_step = growth.powf(STEP_SHARE);
    (growth >= min_growth(values.len()) && middle / first >= min_step && last / middle >= min_step)
        .then_some(growth)
}

/// Returns the least growth that shows a server that warms up, for this number of intervals.
const fn min_growth(intervals: usize) -> f64 {
    if intervals < 6 { MIN_GROWTH_OF_FEW } else { MIN_GROWTH }
}

/// Returns the medians of the first, second and last third. `None`: fewer than three values, or a
/// median of 0.
fn thirds(values: &[f64]) -> Option<[f64; 3]> {
    medians_of_thirds(values).filter(|thirds| thirds.iter().all(|median| *median > 0.0))
}

/// Returns the medians of the first, second and last third. `None`: fewer than three values.
fn medians_of_thirds(values: &[f64]) -> Option<[f64; 3]> {
    let n = values.len();
    let third = |i: usize| median(&values[i * n / 3..(i + 1) * n / 3]);
    Some([third(0)?, third(1)?, third(2)?])
}

/// The warm-up ended before the server was steady.
fn warmup_limit(warmup: &WarmUp) -> Option<Caveat> {
    let seconds = warmup.took_ns as f64 / 1e9;
    let reason = match warmup.ended {
        WarmUpEnd::Steady | WarmUpEnd::CutShort => return None,
        WarmUpEnd::Unanswered => "no request got a response".to_string(),
        WarmUpEnd::Limit => unsteady_reason(steady_state::assess_warm_up(
            &steady_state::group_by_round(&warmup.slices),
        )),
    };
    let message = format!(
        "The warm-up before the first step ended after {seconds:.1} s, when the server was not \
         steady yet: {reason}. The numbers of the steps may therefore be from before steady state. \
         Raise `warmup_limit`, or find what keeps the server from being steady."
    );
    Some(Caveat::new(Code::WARMUP_LIMIT, Severity::Warning, message, json!({"took_s": seconds})))
}

/// Describes why a server was not steady at the limit.
fn unsteady_reason(state: WarmUpState) -> String {
    match state {
        WarmUpState::Faster(growth) => {
            format!("throughput still grew at the end, by a factor of {growth:.2}")
        }
        WarmUpState::Cheaper(growth) => {
            format!("CPU time per request still fell at the end, by a factor of {growth:.2}")
        }
        WarmUpState::Compiling(share) => {
            format!("its compiler (JIT) still used {} of its CPU time", percent(share))
        }
        WarmUpState::Unanswered => "no request at the end of the warm-up got a response".into(),
        WarmUpState::Early | WarmUpState::Steady => "the warm-up was too short to decide".into(),
    }
}

/// Throughput alone decided that the server was warm.
fn warmup_without_cpu(warmup: &WarmUp) -> Option<Caveat> {
    let evidence = steady_state::evidence(&steady_state::group_by_round(&warmup.slices));
    (evidence == WarmUpEvidence::Throughput && !warmup.slices.is_empty()).then(|| {
        info(
            Code::WARMUP_WITHOUT_CPU,
            "dyno used only the throughput to decide that the server was warm, because the \
             server's CPU time is unknown for more than half of the last part of the warm-up.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window, and whether it shows a server that is warming up.
    struct Case {
        name: &'static str,
        /// Throughput of each interval.
        rps: &'static [f64],
        /// CPUs used. `None`: unknown.
        cpus: Option<f64>,
        measure: GrowthMeasure,
        is_warming: bool,
    }

    /// Windows that were measured on a shared machine with two CPUs, and windows derived from them.
    const CASES: &[Case] = &[
        // Armeria after half a second of warm-up.
        Case {
            name: "cold JVM, one CPU full",
            rps: &[578.0, 1004.0, 1298.0],
            cpus: Some(0.96),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: true,
        },
        Case {
            name: "cold JVM, h2c",
            rps: &[24_580.0, 31_800.0, 43_020.0],
            cpus: Some(0.96),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: true,
        },
        Case {
            name: "cold JVM, CPU unknown",
            rps: &[578.0, 1004.0, 1298.0],
            cpus: None,
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: true,
        },
        Case {
            name: "slow warming over a longer window",
            rps: &[20e3, 21.5e3, 22.4e3, 23.6e3, 25.1e3, 26.9e3],
            cpus: Some(1.0),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: true,
        },
        Case {
            name: "just below the bound",
            rps: &[1000.0, 1200.0, 1490.0],
            cpus: Some(1.0),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: false,
        },
        Case {
            name: "at the bound",
            rps: &[1000.0, 1240.0, 1510.0],
            cpus: Some(1.0),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: true,
        },
        Case {
            name: "just below the bound over a longer window",
            rps: &[20e3, 20.5e3, 22e3, 22.5e3, 24.6e3, 25.1e3],
            cpus: Some(1.0),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: false,
        },
        Case {
            name: "two intervals are too few",
            rps: &[500.0, 5000.0],
            cpus: Some(1.0),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: false,
        },
        Case {
            name: "flat",
            rps: &[99_900.0, 99_100.0, 100_200.0],
            cpus: Some(1.0),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: false,
        },
        // nginx and fasthttp on a machine with other programs.
        Case {
            name: "noise in three intervals",
            rps: &[61e3, 101e3, 90e3],
            cpus: Some(1.0),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: false,
        },
        Case {
            name: "rising noise in three intervals",
            rps: &[70e3, 86e3, 101e3],
            cpus: Some(1.0),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: false,
        },
        Case {
            name: "noise in ten intervals",
            rps: &[85e3, 63e3, 86e3, 71e3, 99e3, 82e3, 64e3, 101e3, 78e3, 88e3],
            cpus: Some(1.0),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: false,
        },
        Case {
            name: "machine became faster",
            rps: &[45e3, 44e3, 46e3, 45e3, 90e3, 92e3, 89e3, 91e3, 90e3],
            cpus: Some(1.0),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: false,
        },
        Case {
            name: "slower",
            rps: &[1298.0, 1004.0, 578.0],
            cpus: Some(0.96),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: false,
        },
        Case {
            name: "pause at the start",
            rps: &[5e3, 60e3, 61e3, 60e3, 62e3, 60e3, 59e3],
            cpus: Some(1.0),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: false,
        },
        Case {
            name: "stalled throughout",
            rps: &[0.0, 0.0, 0.0],
            cpus: Some(0.1),
            measure: GrowthMeasure::ThroughputAndCpuTime,
            is_warming: false,
        },
        Case {
            name: "offered rate",
            rps: &[500.0, 1000.0, 1500.0],
            cpus: None,
            measure: GrowthMeasure::CpuTime,
            is_warming: false,
        },
    ];

    #[test]
    fn growth_finds_trends_but_not_noise() {
        for case in CASES {
            let responses_per_cpu_s: Option<Vec<f64>> =
                case.cpus.map(|cpus| case.rps.iter().map(|rps| rps / cpus).collect());
            let growth = growth(case.rps, responses_per_cpu_s.as_deref(), case.measure);
            assert_eq!(growth.is_some(), case.is_warming, "{}: {growth:?}", case.name);
        }
    }

    /// A server on one CPU for a second, with 1,000 responses. `waits`: its calls that wait for an
    /// event. `None`: calls were not counted.
    fn full_server(waits: Option<u64>, others_cpu_s: f64) -> ServerUse {
        let call = |count: u64| Call {
            count,
            per_response: count as f64 / 1000.0,
            errors: None,
            again: None,
            returned_mean: Some(1000.0 / count as f64),
        };
        let calls = |count: u64| CallRates {
            responses: 1000,
            by_name: [("epoll_wait".to_string(), call(count))].into(),
            ..CallRates::default()
        };
        ServerUse {
            window_s: 1.0,
            cpu_allowed_s: Some(1.0),
            others_cpu_s: Some(others_cpu_s),
            calls: waits.map(calls),
            ..ServerUse::default()
        }
    }

    #[test]
    fn full_cpu_of_polling_server_does_not_show_work() {
        let full = [Some(1.0), Some(0.99), Some(1.0)];
        let shows_work = |waits, others_s| cpu_shows_work(&full_server(waits, others_s), &full);
        assert!(!shows_work(Some(40_000), 0.0), "the server polls");
        assert!(shows_work(Some(1000), 0.8), "one wait per response is not polling");
        assert!(!shows_work(None, 0.8), "the server may poll, and other programs ran");
        assert!(shows_work(None, 0.0), "no other program ran");
        let partly = [Some(1.0), Some(0.5), Some(1.0)];
        assert!(cpu_shows_work(&full_server(Some(40_000), 0.8), &partly), "not always full");
        assert!(cpu_shows_work(&full_server(Some(40_000), 0.8), &[None, None, None]));
    }

    #[test]
    fn growth_shared_by_all_servers_in_turns_is_ignored() {
        let flat = [1000.0; 6];
        assert_eq!(relative_growth(2.0, &flat), None, "the same growth as the others");
        assert_eq!(relative_growth(2.0, &[1000.0, 1000.0, 1100.0, 1100.0, 1249.0, 1249.0]), None);
        let higher = [1000.0, 1000.0, 1200.0, 1200.0, 1500.0, 1500.0];
        assert_eq!(relative_growth(2.0, &higher), Some(1.5), "growth relative to the others");
        assert_eq!(relative_growth(1.3, &higher), Some(1.3), "at most its own growth");
    }

    #[test]
    fn growth_without_lower_cpu_time_per_request_is_ignored() {
        let rps = [578.0, 1004.0, 1298.0];
        assert!(
            growth(&rps, Some(&[1000.0, 1010.0, 990.0]), GrowthMeasure::ThroughputAndCpuTime)
                .is_none()
        );
        assert!(
            growth(&rps, Some(&[1000.0, 1300.0, 1490.0]), GrowthMeasure::ThroughputAndCpuTime)
                .is_none()
        );
        assert!(
            growth(&rps, Some(&[1000.0, 1300.0, 1510.0]), GrowthMeasure::ThroughputAndCpuTime)
                .is_some()
        );
        // At an offered rate only the CPU time shows growth.
        assert!(
            growth(&[1e3; 3], Some(&[3600.0, 9000.0, 34_800.0]), GrowthMeasure::CpuTime).is_some()
        );
        assert!(growth(&rps, Some(&[1000.0; 3]), GrowthMeasure::CpuTime).is_none());
    }
}
