//! The generator's own cost: CPU time, waits and delays.

use dyno_archive::plan::DriverKind;
use dyno_archive::sample::ThreadUse;
use dyno_archive::{LoadRecord, Phase, Times};
use schemars::JsonSchema;
use serde::Serialize;

use super::headroom::spun_ns;
use super::sums::WindowSums;
use super::{GeneratorHeadroom, Percentiles};

/// The generator's own cost within the measured window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Client")]
pub struct GeneratorUse {
    pub cpu_user_s: f64,
    pub cpu_sys_s: f64,
    /// CPU time per complete response, polling included; `None` without responses.
    pub cpu_us_per_exchange: Option<f64>,
    /// Share of one CPU that the busiest thread used, polling left out.
    pub busiest_thread_utilisation: f64,
    /// Share of one CPU that each thread used, polling left out, in the order of threads.
    pub thread_utilisation: Vec<f64>,
    /// CPU time spent polling instead of sleeping; it is part of `cpu_user_s` and `cpu_sys_s`.
    pub cpu_spun_s: f64,
    /// `cpu_spun_s` ÷ length of the window: in CPUs. `None`: the window has no length.
    pub spun_share: Option<f64>,
    pub loop_lag_us: Percentiles,
    pub wake_lag_us: Percentiles,
    pub rss_peak_bytes: Option<u64>,
    pub driver: DriverKind,
    pub threads: usize,
    /// Time that threads were runnable but waited for a CPU, summed; `None`: the kernel does not
    /// report it.
    pub run_delay_s: Option<f64>,
    /// Unused capacity of the generator's CPUs.
    #[serde(rename = "room")]
    pub headroom: GeneratorHeadroom,
}

impl GeneratorUse {
    pub(super) fn new(record: &LoadRecord, sums: &WindowSums) -> GeneratorUse {
        let threads = &record.client.threads;
        let sum = |pick: fn(&ThreadUse) -> u64| threads.iter().map(pick).sum::<u64>() as f64 / 1e9;
        let run_s = sum(|t| t.run_ns);
        // The kernel samples the split into user and system; it is scaled to the exact sum.
        let (user, sys) = (sum(|t| t.user_ns), sum(|t| t.sys_ns));
        let user_share = if user + sys > 0.0 { user / (user + sys) } else { 0.0 };
        let thread_utilisation = utilisation(record, sums.window_s);
        let measured = record.intervals.iter().filter(|i| i.phase == Phase::Measured);
        let cpu_spun_s = spun_ns(record) as f64 / 1e9;
        GeneratorUse {
            cpu_user_s: run_s * user_share,
            cpu_sys_s: run_s * (1.0 - user_share),
            cpu_us_per_exchange: (sums.responses > 0).then(|| run_s * 1e6 / sums.responses as f64),
            busiest_thread_utilisation: thread_utilisation.iter().copied().fold(0.0, f64::max),
            headroom: GeneratorHeadroom::new(record, &thread_utilisation, sums.window_s),
            thread_utilisation,
            cpu_spun_s,
            spun_share: (sums.window_s > 0.0).then(|| cpu_spun_s / sums.window_s),
            loop_lag_us: Percentiles::new(&Times::merge(measured.clone().map(|i| &i.loop_lag))),
            wake_lag_us: Percentiles::new(&Times::merge(measured.map(|i| &i.wake_lag))),
            rss_peak_bytes: record.client.rss_peak_bytes,
            driver: record.client.driver,
            threads: threads.len(),
            run_delay_s: threads
                .iter()
                .map(|t| t.run_delay_ns)
                .sum::<Option<u64>>()
                .map(|ns| ns as f64 / 1e9),
        }
    }
}

/// Returns the share of a CPU that each worker thread used for work: its CPU time without its
/// polling.
fn utilisation(record: &LoadRecord, window_s: f64) -> Vec<f64> {
    let measured = || record.intervals.iter().filter(|i| i.phase == Phase::Measured);
    let spun = |worker: usize| -> u64 {
        measured()
            .filter_map(|i| i.workers.get(&(worker as u32)))
            .map(|worker_use| worker_use.spun_ns)
            .sum()
    };
    let busy = |(worker, worker_use): (usize, &ThreadUse)| {
        worker_use.run_ns.saturating_sub(spun(worker)) as f64 / 1e9
    };
    let share = |busy_s: f64| if window_s > 0.0 { busy_s / window_s } else { 0.0 };
    record.client.threads.iter().enumerate().map(busy).map(share).collect()
}
