//! Caveats about servers that were still warming up.

use dyno_archive::Phase;
use dyno_archive::plan::{LoadModel, StillWarming};
use dyno_archive::start::{PartStart, WarmUp, WarmUpEnd};
use dyno_archive::syscall::{Amount, amount};
use serde_json::json;

use super::server::OTHERS;
use super::thresholds::{JIT_SHARE, SERVER_FULL, STEAL};
use crate::caveat::{Caveat, Code, Severity, info};
use crate::load::{IntervalResult, LoadResult};
use crate::number_format::percent;
use crate::server::{Call, CallRates, ServerUse};
use crate::stats::median;
use crate::steady_state::{self, WarmUpEvidence, WarmUpState};

/// Growth (median of the window's last third ÷ that of its first) from which on a server counts as
/// warming up, in windows of six intervals or more.
const GROWTH: f64 = 1.25;

/// The same for three to five intervals, whose thirds are one or two intervals: noise moves those
/// further.
const GROWTH_OF_FEW: f64 = 1.5;

/// Least share of the growth, in logarithms, in each of the two steps between the thirds. If all of
/// it is in one of them, the machine changed its speed.
const EACH_STEP: f64 = 0.2;

/// Largest ratio between the rates of a window's thirds that counts as one rate.
const ONE_RATE: f64 = 1.1;

/// Least share of the growth in throughput, in logarithms, that must show in the CPU time per
/// request. A server that only gets more of a busy machine does the same work per request as
/// before.
const IN_CPU: f64 = 0.5;

/// System calls that return nothing, per response, from which on a server polls. One that blocks
/// makes about one.
const POLLS: f64 = 3.0;

/// Other loads on a server's CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AlsoLoaded<'a> {
    None,
    /// Others at the same time.
    AtOnce,
    /// Others in turn. `round_s`: the own time in each round. `pace`: what the others did in each
    /// round, as multiples of their means.
    InTurns {
        round_s: f64,
        pace: &'a [f64],
    },
}

/// Reasons to distrust a step because of how warm its server was.
#[must_use]
pub(crate) fn caveats(
    load: &LoadResult,
    server: &ServerUse,
    part: Option<&PartStart>,
    company: AlsoLoaded<'_>,
) -> Vec<Caveat> {
    let growth = growth_in_window(load, server, company);
    let of_step = still_warming(server.role_share("jit"), growth, load.config.still_warming);
    let of_start =
        part.and_then(|part| part.warmup.as_ref()).map(start_caveats).unwrap_or_default();
    of_step.into_iter().chain(of_start).collect()
}

fn still_warming(
    jit_share: Option<f64>,
    growth: Option<f64>,
    means: StillWarming,
) -> Option<Caveat> {
    let jit = jit_share.filter(|share| *share > JIT_SHARE);
    let seen = match (jit, growth) {
        (None, None) => return None,
        (Some(jit), None) => format!("its compiler (JIT) used {} of its CPU time", percent(jit)),
        (None, Some(growth)) => format!("it became {growth:.2} times as fast"),
        (Some(jit), Some(growth)) => format!(
            "it became {growth:.2} times as fast, and its compiler (JIT) used {} of its CPU time",
            percent(jit)
        ),
    };
    let evidence = json!({"jit_share": jit_share, "growth": growth});
    if means == StillWarming::Measured {
        let message = format!(
            "The server warmed up: within the measured window {seen}. The load measures this stage \
             on purpose (`warmup = \"measured\"` under `[load]`). The numbers of a warm server \
             differ."
        );
        return Some(Caveat::new(Code::StillWarming, Severity::Info, message, evidence));
    }
    let message = format!(
        "The server was still warming up: within the measured window {seen}. These numbers are \
         from before steady state. Warm it up until it is steady (`warmup = \"auto\"` under \
         `[load]`, with a higher `warmup_limit` if that was reached), or for a longer time."
    );
    Some(Caveat::new(Code::StillWarming, Severity::Invalid, message, evidence))
}

/// Factor by which the server got faster within the measured window. `None`: it did not, beyond
/// noise.
fn growth_in_window(load: &LoadResult, server: &ServerUse, company: AlsoLoaded<'_>) -> Option<f64> {
    // A machine that gets back what the hypervisor took makes every server faster.
    if server.steal_share.is_some_and(|share| share > STEAL) {
        return None;
    }
    let window: Vec<_> = load.intervals.iter().filter(|i| i.phase == Phase::Measured).collect();
    let used: Vec<Option<f64>> =
        window.iter().map(|i| server.cpus_at_middle((i.start_s, i.end_s))).collect();
    if !shows_work(server, &used) {
        return None;
    }
    let throughput: Vec<f64> = window.iter().map(|i| i.throughput_rps).collect();
    let cheapness: Option<Vec<f64>> = window
        .iter()
        .map(|i| Some(i.throughput_rps / server.cpus_at_middle((i.start_s, i.end_s))?))
        .collect();
    match company {
        // Among others a server gets faster where they get slower.
        AlsoLoaded::AtOnce => growth(&throughput, cheapness.as_deref(), By::CpuAlone),
        AlsoLoaded::None => {
            growth(&throughput, cheapness.as_deref(), growth_measure(load, &throughput)?)
        }
        AlsoLoaded::InTurns { round_s, pace } => {
            let own =
                growth(&throughput, cheapness.as_deref(), growth_measure(load, &throughput)?)?;
            let opens_s = window.first()?.start_s;
            let others =
                |i: &&IntervalResult| pace.get(((i.start_s - opens_s) / round_s + 1e-6) as usize);
            let multiples: Option<Vec<f64>> =
                window.iter().map(|i| Some(i.throughput_rps / others(i)?)).collect();
            multiples.map_or(Some(own), |multiples| beyond_others(own, &multiples))
        }
    }
}

/// The growth of a server that is its own. Where all servers that take turns get faster together,
/// the machine does. `multiples`: its throughput as a multiple of the others'.
fn beyond_others(own: f64, multiples: &[f64]) -> Option<f64> {
    growth_over_thirds(multiples).map(|beyond| own.min(beyond))
}

/// Whether the CPU time of a server shows the cost of its requests. A server that polls uses all of
/// its CPU at any load, so that a request costs less the more of them come. It shows in system
/// calls that return nothing; where these were not counted, a server that is full all the time may
/// be such a one, which matters if others used the machine meanwhile.
fn shows_work(server: &ServerUse, used: &[Option<f64>]) -> bool {
    let allowed = server.cpu_allowed_s.map(|allowed_s| allowed_s / server.window_s);
    let is_full =
        |used: &Option<f64>| used.zip(allowed).is_some_and(|(used, all)| used >= SERVER_FULL * all);
    if used.is_empty() || !used.iter().all(is_full) {
        return true;
    }
    match server.calls.as_ref().and_then(idle_calls) {
        Some(idle) => idle < POLLS,
        None => {
            !server.others_cpu_s.zip(server.cpu_allowed_s).is_some_and(|(o, all)| o >= OTHERS * all)
        }
    }
}

/// System calls per response that returned nothing: waits without an event, and calls that are to
/// be tried again. `None`: what calls returned was not looked at.
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

/// Returns the numbers that can show growth of this load's server; `None`: no numbers can. On any
/// server CPU time per request depends on the rate. Where the rate changes over the window, a warm
/// server may look as if it were warming up.
fn growth_measure(load: &LoadResult, throughput: &[f64]) -> Option<By> {
    if is_ramped(load) {
        return is_one_rate(throughput).then_some(By::CpuAlone);
    }
    if load.config.model == LoadModel::Closed {
        return Some(By::Both);
    }
    has_one_rate(load).then_some(By::CpuAlone)
}

/// Whether connections are still being opened within the window.
pub(super) fn is_ramped(load: &LoadResult) -> bool {
    load.config.ramp_connections_s.is_some_and(|ramp| ramp > load.config.warmup_s)
}

/// Whether one rate is offered over all of the window.
pub(super) fn has_one_rate(load: &LoadResult) -> bool {
    let measured = load.intervals.iter().filter(|i| i.phase == Phase::Measured);
    let arrivals: Vec<f64> = measured.map(IntervalResult::arrivals_rps).collect();
    load.config.rate.is_some() || is_one_rate(&arrivals)
}

fn is_one_rate(rates: &[f64]) -> bool {
    thirds(rates).is_some_and(|thirds| {
        let most = thirds.into_iter().fold(0.0, f64::max);
        let least = thirds.into_iter().fold(f64::MAX, f64::min);
        most <= least * ONE_RATE
    })
}

/// The numbers that show whether a server gets faster.
#[derive(Clone, Copy, Debug)]
enum By {
    /// Throughput and CPU time per request.
    Both,
    /// CPU time per request. Throughput follows the offered rate, the opening of connections, or
    /// what others leave.
    CpuAlone,
}

/// Factor by which a server gets faster over a window; `None`: it does not. `throughput` and
/// `cheapness` (responses per CPU second, if known) are per interval.
fn growth(throughput: &[f64], cheapness: Option<&[f64]>, by: By) -> Option<f64> {
    match (by, cheapness) {
        (By::Both, None) => growth_over_thirds(throughput),
        (By::Both, Some(cheapness)) => {
            let growth = growth_over_thirds(throughput)?;
            let [first, _, last] = thirds(cheapness)?;
            (last / first >= growth.powf(IN_CPU)).then_some(growth)
        }
        (By::CpuAlone, cheapness) => growth_over_thirds(cheapness?),
    }
}

fn growth_over_thirds(values: &[f64]) -> Option<f64> {
    let [first, middle, last] = thirds(values)?;
    let growth = last / first;
    let needed = if values.len() < 6 { GROWTH_OF_FEW } else { GROWTH };
    let step = growth.powf(EACH_STEP);
    (growth >= needed && middle / first >= step && last / middle >= step).then_some(growth)
}

/// The medians of the first, second and last third. `None`: fewer than three values, or a median of
/// 0.
fn thirds(values: &[f64]) -> Option<[f64; 3]> {
    let n = values.len();
    let third = |i: usize| median(&values[i * n / 3..(i + 1) * n / 3]).filter(|m| *m > 0.0);
    Some([third(0)?, third(1)?, third(2)?])
}

fn start_caveats(warmup: &WarmUp) -> Vec<Caveat> {
    [limit_reached(warmup), without_cpu(warmup)].into_iter().flatten().collect()
}

fn limit_reached(warmup: &WarmUp) -> Option<Caveat> {
    let seconds = warmup.took_ns as f64 / 1e9;
    let seen = match warmup.ended {
        WarmUpEnd::Steady | WarmUpEnd::CutShort => return None,
        WarmUpEnd::Unanswered => "no slice of it had a response".to_string(),
        WarmUpEnd::Limit => not_steady(steady_state::state(&steady_state::rounds(&warmup.slices))),
    };
    let message = format!(
        "The warm-up of this start ended after {seconds:.1} s, before the server was steady: \
         {seen}. Its numbers may be from before steady state. Raise `warmup_limit`, or find what \
         keeps the server from being steady."
    );
    Some(Caveat::new(Code::WarmupLimit, Severity::Warning, message, json!({"took_s": seconds})))
}

/// Describes why a server was not steady at the limit.
fn not_steady(state: WarmUpState) -> String {
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

fn without_cpu(warmup: &WarmUp) -> Option<Caveat> {
    let by = steady_state::evidence(&steady_state::rounds(&warmup.slices));
    (by == WarmUpEvidence::Throughput && !warmup.slices.is_empty()).then(|| {
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

    /// A window: its throughput by interval, and the CPUs used (`None`: not known).
    struct Case {
        name: &'static str,
        rps: &'static [f64],
        cpu: Option<f64>,
        by: By,
        warming: bool,
    }

    /// Windows measured on a shared machine with two CPUs, and some derived from them.
    const CASES: &[Case] = &[
        // Armeria after half a second of warm-up.
        Case {
            name: "cold JVM, one CPU full",
            rps: &[578.0, 1004.0, 1298.0],
            cpu: Some(0.96),
            by: By::Both,
            warming: true,
        },
        Case {
            name: "cold JVM, h2c",
            rps: &[24_580.0, 31_800.0, 43_020.0],
            cpu: Some(0.96),
            by: By::Both,
            warming: true,
        },
        Case {
            name: "cold JVM, CPU not known",
            rps: &[578.0, 1004.0, 1298.0],
            cpu: None,
            by: By::Both,
            warming: true,
        },
        Case {
            name: "slow warming over a longer window",
            rps: &[20e3, 21.5e3, 22.4e3, 23.6e3, 25.1e3, 26.9e3],
            cpu: Some(1.0),
            by: By::Both,
            warming: true,
        },
        Case {
            name: "just not enough",
            rps: &[1000.0, 1200.0, 1490.0],
            cpu: Some(1.0),
            by: By::Both,
            warming: false,
        },
        Case {
            name: "just enough",
            rps: &[1000.0, 1240.0, 1510.0],
            cpu: Some(1.0),
            by: By::Both,
            warming: true,
        },
        Case {
            name: "just not enough over a longer window",
            rps: &[20e3, 20.5e3, 22e3, 22.5e3, 24.6e3, 25.1e3],
            cpu: Some(1.0),
            by: By::Both,
            warming: false,
        },
        Case {
            name: "two intervals say nothing",
            rps: &[500.0, 5000.0],
            cpu: Some(1.0),
            by: By::Both,
            warming: false,
        },
        Case {
            name: "flat",
            rps: &[99_900.0, 99_100.0, 100_200.0],
            cpu: Some(1.0),
            by: By::Both,
            warming: false,
        },
        // nginx and fasthttp with noisy neighbours.
        Case {
            name: "noise of three",
            rps: &[61e3, 101e3, 90e3],
            cpu: Some(1.0),
            by: By::Both,
            warming: false,
        },
        Case {
            name: "rising noise of three",
            rps: &[70e3, 86e3, 101e3],
            cpu: Some(1.0),
            by: By::Both,
            warming: false,
        },
        Case {
            name: "noise of ten",
            rps: &[85e3, 63e3, 86e3, 71e3, 99e3, 82e3, 64e3, 101e3, 78e3, 88e3],
            cpu: Some(1.0),
            by: By::Both,
            warming: false,
        },
        Case {
            name: "the machine got its speed back",
            rps: &[45e3, 44e3, 46e3, 45e3, 90e3, 92e3, 89e3, 91e3, 90e3],
            cpu: Some(1.0),
            by: By::Both,
            warming: false,
        },
        Case {
            name: "got slower",
            rps: &[1298.0, 1004.0, 578.0],
            cpu: Some(0.96),
            by: By::Both,
            warming: false,
        },
        Case {
            name: "a pause in the beginning",
            rps: &[5e3, 60e3, 61e3, 60e3, 62e3, 60e3, 59e3],
            cpu: Some(1.0),
            by: By::Both,
            warming: false,
        },
        Case {
            name: "stalled throughout",
            rps: &[0.0, 0.0, 0.0],
            cpu: Some(0.1),
            by: By::Both,
            warming: false,
        },
        Case {
            name: "the rate is offered",
            rps: &[500.0, 1000.0, 1500.0],
            cpu: None,
            by: By::CpuAlone,
            warming: false,
        },
    ];

    #[test]
    fn trend_within_the_window_is_warming_up_and_noise_is_not() {
        for case in CASES {
            let cheapness: Option<Vec<f64>> =
                case.cpu.map(|cpu| case.rps.iter().map(|r| r / cpu).collect());
            let found = growth(case.rps, cheapness.as_deref(), case.by);
            assert_eq!(found.is_some(), case.warming, "{}: {found:?}", case.name);
        }
    }

    /// A server on one CPU for a second, of which so many calls were counted that wait for 1,000
    /// responses, and what others used.
    fn full_server(waits: Option<u64>, others_cpu_s: f64) -> ServerUse {
        let call = |count: u64| Call {
            count,
            per_response: count as f64 / 1000.0,
            errors: None,
            again: None,
            returned_mean: Some(1000.0 / count as f64),
        };
        let calls = |count: u64| CallRates {
            answers: 1000,
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
    fn cpu_of_a_polling_server_tells_nothing_of_its_work() {
        let full = [Some(1.0), Some(0.99), Some(1.0)];
        let is_used = |waits, others| shows_work(&full_server(waits, others), &full);
        assert!(!is_used(Some(40_000), 0.0), "polls");
        assert!(is_used(Some(1000), 0.8), "waits once per response, so that it works all the time");
        assert!(!is_used(None, 0.8), "may poll, and others were there");
        assert!(is_used(None, 0.0), "a full server that is alone gets faster by itself");
        let partly = [Some(1.0), Some(0.5), Some(1.0)];
        assert!(
            shows_work(&full_server(Some(40_000), 0.8), &partly),
            "it is not full all the time"
        );
        assert!(shows_work(&full_server(Some(40_000), 0.8), &[None, None, None]));
    }

    #[test]
    fn growth_that_all_who_take_turns_show_is_the_machines() {
        let flat = [1000.0; 6];
        assert_eq!(beyond_others(2.0, &flat), None, "as the others");
        assert_eq!(beyond_others(2.0, &[1000.0, 1000.0, 1100.0, 1100.0, 1249.0, 1249.0]), None);
        let beyond = [1000.0, 1000.0, 1200.0, 1200.0, 1500.0, 1500.0];
        assert_eq!(beyond_others(2.0, &beyond), Some(1.5), "what is beyond theirs");
        assert_eq!(beyond_others(1.3, &beyond), Some(1.3), "no more than its own");
    }

    #[test]
    fn more_throughput_for_the_same_cpu_time_each_is_the_machine_and_not_the_server() {
        let rps = [578.0, 1004.0, 1298.0];
        assert!(growth(&rps, Some(&[1000.0, 1010.0, 990.0]), By::Both).is_none());
        assert!(growth(&rps, Some(&[1000.0, 1300.0, 1490.0]), By::Both).is_none());
        assert!(growth(&rps, Some(&[1000.0, 1300.0, 1510.0]), By::Both).is_some());
        // At an offered rate only the CPU time shows growth.
        assert!(growth(&[1e3; 3], Some(&[3600.0, 9000.0, 34_800.0]), By::CpuAlone).is_some());
        assert!(growth(&rps, Some(&[1000.0; 3]), By::CpuAlone).is_none());
    }
}
