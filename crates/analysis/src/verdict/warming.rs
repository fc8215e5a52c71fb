//! Derives caveats about servers that were still warming up in the measured window, or whose
//! warm-up ended early. Numbers from before steady state describe neither a cold nor a warm server.

use dyno_archive::Phase;
use dyno_archive::plan::{LoadModel, StillWarming};
use dyno_archive::start::{PartStart, WarmUp, WarmUpEnd};
use dyno_archive::syscall::{Amount, amount};
use serde_json::json;

use super::server::OTHERS_SHARE;
use super::thresholds::{JIT_SHARE, SERVER_FULL, STEAL};
use crate::caveat::{Caveat, Code, Severity, info};
use crate::load::{IntervalResult, LoadResult};
use crate::number_format::percent;
use crate::server::{Call, CallRates, ServerUse};
use crate::stats::median;
use crate::steady_state::{self, WarmUpEvidence, WarmUpState};

/// Minimum growth of a server that counts as warming up, in windows of six or more intervals.
/// Growth is the median of the window's last third ÷ the median of its first third.
const MIN_GROWTH: f64 = 1.25;

/// Minimum growth of a server that counts as warming up, in windows of three to five intervals.
/// Their thirds are one or two intervals, so noise changes them more.
const MIN_GROWTH_OF_FEW: f64 = 1.5;

/// Minimum share of the growth, in logarithms, in each of the two steps between the thirds. A
/// growth in only one step is a change of the machine's speed.
const STEP_SHARE: f64 = 0.2;

/// Largest ratio between the rates of a window's thirds that counts as a constant rate.
const CONSTANT_RATE_RATIO: f64 = 1.1;

/// Minimum share of the growth in throughput, in logarithms, that the CPU time per request must
/// show too. A server that only gets more time of a busy machine does the same work per request.
const CPU_SHARE: f64 = 0.5;

/// Minimum idle system calls per response of a server that polls. A server that blocks makes about
/// one.
const POLLING_CALLS: f64 = 3.0;

/// Loads of other servers on this server's CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OtherLoads<'a> {
    None,
    /// Other servers are loaded at the same time.
    Concurrent,
    /// Other servers are loaded in turns with this one. `round_s`: seconds of this server's turns
    /// in each round. `pace`: throughput of the others in each round, as multiples of their means.
    InTurns {
        round_s: f64,
        pace: &'a [f64],
    },
}

/// Returns all caveats about the server's warm-up.
#[must_use]
pub(crate) fn caveats(
    load: &LoadResult,
    server: &ServerUse,
    part: Option<&PartStart>,
    other_loads: OtherLoads<'_>,
) -> Vec<Caveat> {
    let growth = growth_in_window(load, server, other_loads);
    let in_window = unfinished_warmup(server.role_share("jit"), growth, load.config.still_warming);
    let before_window =
        part.and_then(|part| part.warmup.as_ref()).map(start_caveats).unwrap_or_default();
    in_window.into_iter().chain(before_window).collect()
}

/// The server was still warming up in the measured window.
fn unfinished_warmup(
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
        return Some(Caveat::new(Code::StillWarming, Severity::Info, message, evidence));
    }
    let message = format!(
        "The server was still warming up: within the measured window {observation}. These numbers \
         are from before steady state. Warm the server up until it is steady (`warmup = \"auto\"` \
         under `[load]`), or for a longer time. If the warm-up reached `warmup_limit`, raise that \
         limit."
    );
    Some(Caveat::new(Code::StillWarming, Severity::Invalid, message, evidence))
}

/// Returns the factor by which the server became faster within the measured window. `None`: the
/// server did not become faster, or the growth may be noise.
fn growth_in_window(
    load: &LoadResult,
    server: &ServerUse,
    other_loads: OtherLoads<'_>,
) -> Option<f64> {
    // When the hypervisor gives CPU time back, every server becomes faster.
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
            // The small addition makes up for rounding in the times.
            let others_pace =
                |i: &&IntervalResult| pace.get(((i.start_s - opens_s) / round_s + 1e-6) as usize);
            let multiples: Option<Vec<f64>> =
                window.iter().map(|i| Some(i.throughput_rps / others_pace(i)?)).collect();
            multiples.map_or(Some(own_growth), |multiples| relative_growth(own_growth, &multiples))
        }
    }
}

/// Returns how much more a server grows than the servers that take turns with it. Growth that all
/// of them share is the machine's. `multiples`: its throughput as a multiple of theirs.
fn relative_growth(own_growth: f64, multiples: &[f64]) -> Option<f64> {
    growth_over_thirds(multiples).map(|growth| own_growth.min(growth))
}

/// Whether the CPU time of a server shows the cost of its requests. A server that polls uses all of
/// its CPU at any load, so its CPU time per request falls as throughput rises. Idle system calls
/// show polling. If they were not counted, a server that is always full may poll. That matters if
/// other programs used the machine at the same time.
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
        let is_wait = amount(name) == Some(Amount::Events);
        let empty = call.returned_mean.filter(|_| is_wait).map(|events| (1.0 - events).max(0.0));
        let again = call.again.map(|again| again as f64 / call.count.max(1) as f64);
        let share = empty.unwrap_or(0.0) + again.unwrap_or(0.0);
        (empty.is_some() || again.is_some()).then_some(share * call.per_response)
    };
    calls.by_name.iter().filter_map(idle).reduce(|a, b| a + b)
}

/// Returns the numbers that can show growth of this load's server. `None`: the rate changes over
/// the window, so that even a warm server may look as if it were warming up. On any server the CPU
/// time per request depends on the rate.
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

fn growth_over_thirds(values: &[f64]) -> Option<f64> {
    let [first, middle, last] = thirds(values)?;
    let growth = last / first;
    let min_growth = if values.len() < 6 { MIN_GROWTH_OF_FEW } else { MIN_GROWTH };
    let min_step = growth.powf(STEP_SHARE);
    (growth >= min_growth && middle / first >= min_step && last / middle >= min_step)
        .then_some(growth)
}

/// Returns the medians of the first, second and last third. `None`: fewer than three values, or a
/// median of 0.
fn thirds(values: &[f64]) -> Option<[f64; 3]> {
    let n = values.len();
    let third = |i: usize| median(&values[i * n / 3..(i + 1) * n / 3]).filter(|m| *m > 0.0);
    Some([third(0)?, third(1)?, third(2)?])
}

/// Returns the caveats about the warm-up before the first step.
fn start_caveats(warmup: &WarmUp) -> Vec<Caveat> {
    [warmup_limit(warmup), warmup_without_cpu(warmup)].into_iter().flatten().collect()
}

/// Requests of a workload failed in the warm-up before the first step. All steps of the start with
/// this workload have the caveat, because any of them could be the first one without a warm-up.
pub(crate) fn failures_of_start(part: Option<&PartStart>, workload: usize) -> Option<Caveat> {
    let failed = part?.warmup.as_ref()?.failed_requests(workload);
    (failed > 0).then(|| {
        let message = format!(
            "Requests of the warm-up of this start without a correct response: {failed}. The \
             numbers of the start's steps do not include them. Use `warmup = \"0s\"` in the suite \
             to measure them."
        );
        let evidence = json!({"failed_in_start": failed});
        Caveat::new(Code::WarmupFailures, Severity::Warning, message, evidence)
    })
}

/// The warm-up ended before the server was steady.
fn warmup_limit(warmup: &WarmUp) -> Option<Caveat> {
    let seconds = warmup.took_ns as f64 / 1e9;
    let reason = match warmup.ended {
        WarmUpEnd::Steady | WarmUpEnd::CutShort => return None,
        WarmUpEnd::Unanswered => "no slice of it had a response".to_string(),
        WarmUpEnd::Limit => unsteady_reason(steady_state::judge_warm_up(
            &steady_state::group_by_round(&warmup.slices),
        )),
    };
    let message = format!(
        "The warm-up of this start ended after {seconds:.1} s, before the server was steady: \
         {reason}. Its numbers may be from before steady state. Raise `warmup_limit`, or find what \
         keeps the server from being steady."
    );
    Some(Caveat::new(Code::WarmupLimit, Severity::Warning, message, json!({"took_s": seconds})))
}

/// Describes why a server was not steady at the limit.
fn unsteady_reason(state: WarmUpState) -> String {
    match state {
        WarmUpState::Faster(growth) => {
            format!("throughput still grew, by a factor of {growth:.2} over the last slices")
        }
        WarmUpState::Cheaper(growth) => {
            format!(
                "CPU time per request still fell, by a factor of {growth:.2} over the last slices"
            )
        }
        WarmUpState::Compiling(share) => {
            format!("its compiler (JIT) still used {} of its CPU time", percent(share))
        }
        WarmUpState::Unanswered => "the last slices had no response".into(),
        WarmUpState::Early | WarmUpState::Steady => "there were too few slices to decide".into(),
    }
}

/// Throughput alone decided that the server was warm.
fn warmup_without_cpu(warmup: &WarmUp) -> Option<Caveat> {
    let evidence = steady_state::evidence(&steady_state::group_by_round(&warmup.slices));
    (evidence == WarmUpEvidence::Throughput && !warmup.slices.is_empty()).then(|| {
        info(
            Code::WarmupWithoutCpu,
            "The throughput alone decided that the server was warm. Its CPU time is unknown for \
             more than half of the last rounds.",
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
