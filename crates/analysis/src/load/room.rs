//! The room that the generator had: by CPU, not by thread. Threads that share one look idle, each by itself.

use dyno_archive::ground::Ground;
use dyno_archive::sample::ThreadUse;
use dyno_archive::{LoadRecord, Phase};
use schemars::JsonSchema;
use serde::Serialize;

/// Shortest time over which ticks of 10 ms tell how full a CPU was.
const SHORTEST_S: f64 = 0.5;

/// The CPUs of the generator over the window, and what was left of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Room {
    /// Of one CPU, the most that a thread worked and waited for a CPU, or that the threads of one CPU worked together.
    /// Polling is left out. Near 1 there is nothing left.
    pub need: f64,
    /// What of it was work; the rest is waiting.
    pub need_work: f64,
    /// The most that one thread waited for a CPU, of the window; `None` where the kernel does not tell.
    pub waiting: Option<f64>,
    /// CPUs on which its threads might run; `None` where that is not recorded.
    pub cpus: Option<Vec<u32>>,
    /// Share of the time of those CPUs in which they were not free: used by anybody, or taken by the hypervisor. Polling is
    /// left out. `None` where the kernel does not tell, or the window is too short to.
    pub busy: Option<f64>,
    /// Share of their time that something other than dyno used.
    pub others: Option<f64>,
    /// Processes that were seen there, the most first.
    pub others_named: Vec<OtherProcess>,
    /// CPU time per time that dyno's own control group may use; `None`: no quota.
    pub quota_cpus: Option<f64>,
    /// Share of the quota's periods in which it held the generator back.
    pub throttled: Option<f64>,
}

/// A process that used CPUs of the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OtherProcess {
    pub pid: u32,
    pub name: String,
    /// CPU time over the whole load, in seconds.
    pub cpu_s: f64,
}

impl Room {
    /// `work`: of how much of a CPU each thread made use in the window, polling left out.
    pub(super) fn new(record: &LoadRecord, work: &[f64], window_s: f64) -> Room {
        let ground = record.client.ground.as_ref();
        let waits: Option<Vec<f64>> =
            record.client.threads.iter().map(|thread| waiting(thread, window_s)).collect();
        let waited = |k: usize| waits.as_ref().map_or(0.0, |waits| waits[k]);
        let of_thread = work.iter().enumerate().map(|(k, work)| (work + waited(k), *work));
        let of_cpu = work_by_cpu(ground, work).into_iter().map(|work| (work, work));
        let most = of_thread.chain(of_cpu).max_by(|a, b| a.0.total_cmp(&b.0));
        let (need, need_work) = most.unwrap_or((0.0, 0.0));
        let mut room = Room {
            need,
            need_work,
            waiting: waits.map(|waits| waits.into_iter().fold(0.0, f64::max)),
            ..Room::default()
        };
        if let Some(ground) = ground {
            room.look_around(ground, spun_ns(record));
        }
        room
    }

    fn look_around(&mut self, ground: &Ground, spun_ns: u64) {
        let sum = |pick: fn(&dyno_archive::ground::CpuUse) -> u64| ground.cpus.iter().map(pick).sum::<u64>();
        let (busy, idle, steal) = (sum(|c| c.busy_ns), sum(|c| c.idle_ns), sum(|c| c.steal_ns));
        let all = (busy + idle + steal) as f64;
        if ground.length_ns as f64 / 1e9 >= SHORTEST_S && all > 0.0 {
            self.busy = Some((busy + steal).saturating_sub(spun_ns) as f64 / all);
            self.others = Some(busy.saturating_sub(ground.own_ns) as f64 / all);
        }
        self.cpus = Some(ground.cpus.iter().map(|c| c.cpu).collect());
        let named = ground.others.iter().map(|o| OtherProcess {
            pid: o.pid,
            name: o.name.clone(),
            cpu_s: o.run_ns as f64 / 1e9,
        });
        self.others_named = named.collect();
        self.quota_cpus = ground.quota.map(|quota| quota.cpus);
        let periods = ground.quota.filter(|quota| quota.periods > 0);
        self.throttled = periods.map(|quota| quota.throttled_periods as f64 / quota.periods as f64);
    }

    /// ` (nginx 1.20 s, node 0.30 s)`, or nothing where nobody was seen.
    pub(crate) fn named(&self) -> String {
        let each: Vec<String> =
            self.others_named.iter().map(|o| format!("{} {:.2} s", o.name, o.cpu_s)).collect();
        if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) }
    }
}

fn waiting(thread: &ThreadUse, window_s: f64) -> Option<f64> {
    thread.run_delay_ns.filter(|_| window_s > 0.0).map(|ns| ns as f64 / 1e9 / window_s)
}

/// What the threads of each CPU worked together; where none is bound, what all worked per CPU.
fn work_by_cpu(ground: Option<&Ground>, work: &[f64]) -> Vec<f64> {
    let Some(ground) = ground.filter(|ground| !ground.cpus.is_empty()) else { return Vec::new() };
    let cpus = ground.cpus.len();
    if !ground.bound {
        return vec![work.iter().sum::<f64>() / cpus as f64];
    }
    (0..cpus).map(|cpu| work.iter().skip(cpu).step_by(cpus).sum()).collect()
}

fn spun_ns(record: &LoadRecord) -> u64 {
    let measured = record.intervals.iter().filter(|i| i.phase == Phase::Measured);
    measured.flat_map(|i| i.workers.values()).map(|used| used.spun_ns).sum()
}
