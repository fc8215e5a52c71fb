//! Computes the generator's own cost: CPU time, waits and delays. It shows whether the generator
//! was the limit.

use dyno_model::plan::DriverKind;
use dyno_model::sample::ThreadUse;
use dyno_model::{LoadRecord, Phase, Times};
use schemars::JsonSchema;
use serde::Serialize;

use super::headroom::polling_ns;
use super::sums::WindowSums;
use super::{GeneratorHeadroom, Percentiles};

/// The generator's own cost within the measured window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Client")]
pub struct GeneratorUse {
    pub cpu_user_s: f64,
    pub cpu_sys_s: f64,
    /// CPU time per complete response, including polling. `None`: no responses.
    pub cpu_us_per_exchange: Option<f64>,
    /// Share of one CPU that the busiest thread used, without polling.
    pub busiest_thread_utilisation: f64,
    /// Share of one CPU that each thread used, without polling, in the order of threads.
    pub thread_utilisation: Vec<f64>,
    /// CPU time spent polling instead of sleeping. It is a part of `cpu_user_s` and `cpu_sys_s`.
    #[serde(rename = "cpu_spun_s")]
    pub cpu_polling_s: f64,
    /// Mean number of CPUs used for polling: `cpu_spun_s` ÷ length of the window. `None`: the
    /// window has no length.
    #[serde(rename = "spun_share")]
    pub polling_cpus: Option<f64>,
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
    /// Computes the generator's cost. `sums`: sums over the same record.
    pub(super) fn new(record: &LoadRecord, sums: &WindowSums) -> GeneratorUse {
        let threads = &record.client.threads;
        let sum = |pick: fn(&ThreadUse) -> u64| threads.iter().map(pick).sum::<u64>() as f64 / 1e9;
        let run_s = sum(|t| t.run_ns);
        // The kernel estimates user and system time from samples. Both are scaled to the exact sum.
        let (user, sys) = (sum(|t| t.user_ns), sum(|t| t.sys_ns));
        let user_share = if user + sys > 0.0 { user / (user + sys) } else { 0.0 };
        let thread_utilisation = utilisation(record, sums.window_s);
        let measured = record.intervals.iter().filter(|i| i.phase == Phase::Measured);
        let cpu_polling_s = polling_ns(record) as f64 / 1e9;
        GeneratorUse {
            cpu_user_s: run_s * user_share,
            cpu_sys_s: run_s * (1.0 - user_share),
            cpu_us_per_exchange: (sums.responses > 0).then(|| run_s * 1e6 / sums.responses as f64),
            busiest_thread_utilisation: thread_utilisation.iter().copied().fold(0.0, f64::max),
            headroom: GeneratorHeadroom::new(record, &thread_utilisation, sums.window_s),
            thread_utilisation,
            cpu_polling_s,
            polling_cpus: (sums.window_s > 0.0).then(|| cpu_polling_s / sums.window_s),
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

    /// Returns the share of the generator's CPU time that was polling, 0 to 1. `None`: no CPU time.
    #[must_use]
    pub fn polling_share(&self) -> Option<f64> {
        let cpu_s = self.cpu_user_s + self.cpu_sys_s;
        // The time of polling is clock time, which includes waits for a CPU, so it may exceed the
        // CPU time.
        (cpu_s > 0.0).then(|| (self.cpu_polling_s / cpu_s).min(1.0))
    }
}

/// Returns the share of a CPU that each worker thread used for work: its CPU time without its
/// polling.
fn utilisation(record: &LoadRecord, window_s: f64) -> Vec<f64> {
    let measured = || record.intervals.iter().filter(|i| i.phase == Phase::Measured);
    let polling_ns = |worker: usize| -> u64 {
        measured()
            .filter_map(|i| i.workers.get(&(worker as u32)))
            .map(|worker_use| worker_use.spun_ns)
            .sum()
    };
    let work_s = |(worker, worker_use): (usize, &ThreadUse)| {
        worker_use.run_ns.saturating_sub(polling_ns(worker)) as f64 / 1e9
    };
    let share = |work_s: f64| if window_s > 0.0 { work_s / window_s } else { 0.0 };
    record.client.threads.iter().enumerate().map(work_s).map(share).collect()
}
