//! Whether the generator had room: by CPU, not by thread. Threads that share one look idle, each by itself.

use dyno_archive::ground::Ground;
use dyno_archive::sample::ThreadUse;
use dyno_archive::{Phase, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{GENERATOR_BUSY, LoadResult};
use crate::caveat::{Caveat, Severity, percent};

/// How full the generator's CPUs must be, polling left out, to have no room.
const CPUS_FULL: f64 = 0.95;

/// Share of the window that a thread may wait for a CPU.
pub(super) const MOST_WAITING: f64 = 0.05;

/// Share of the periods of a quota in which it may hold the generator back: such a pause is up to a whole period long.
const MOST_THROTTLED: f64 = 0.02;

/// Share of the generator's CPUs from which on others there are worth telling.
const OTHERS_WORTH_TELLING: f64 = 0.05;

/// Shortest time over which ticks of 10 ms tell how full a CPU was.
const SHORTEST_S: f64 = 0.5;

/// Caveats that say that the generator may have been the limit. Where it cannot have been they are no reason to refuse.
pub const CODES: [&str; 4] = ["generator_busy", "generator_crowded", "generator_throttled", "oversubscribed"];

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
    pub(super) fn new(record: &TrialRecord, work: &[f64], window_s: f64) -> Room {
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
    fn named(&self) -> String {
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

fn spun_ns(record: &TrialRecord) -> u64 {
    let measured = record.intervals.iter().filter(|i| i.phase == Phase::Measured);
    measured.flat_map(|i| i.workers.values()).map(|used| used.spun_ns).sum()
}

/// Why the generator may have been the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Its own control group has a quota that held it back.
    Quota { cpus: f64, throttled: f64 },
    /// A thread worked nearly all of the time.
    Thread { work: f64 },
    /// A thread worked, or waited for a CPU, nearly all of the time.
    Waiting { work: f64, waiting: f64 },
    /// Threads of one CPU used nearly all of it together.
    Cpu { work: f64 },
    /// Its CPUs had no time left, and it waited for them.
    Crowded { busy: f64, others: f64, waiting: f64 },
}

impl Bound {
    /// The first reason that holds.
    #[must_use]
    pub fn of(result: &LoadResult) -> Option<Bound> {
        let (client, room) = (&result.client, &result.client.room);
        let work = client.busiest_thread_utilisation;
        if let Some(throttled) = room.throttled.filter(|share| *share > MOST_THROTTLED) {
            return Some(Bound::Quota { cpus: room.quota_cpus.unwrap_or(0.0), throttled });
        }
        if work > GENERATOR_BUSY {
            return Some(Bound::Thread { work });
        }
        if room.need > GENERATOR_BUSY {
            let waiting = room.need - room.need_work;
            return Some(if waiting > 0.0 {
                Bound::Waiting { work: room.need_work, waiting }
            } else {
                Bound::Cpu { work: room.need }
            });
        }
        crowded(result)
    }

    /// What it was, as the second half of a sentence about the generator.
    #[must_use]
    pub fn clause(self) -> String {
        match self {
            Bound::Quota { cpus, throttled } => format!(
                "the CPU quota of dyno's own control group, {cpus:.2} CPUs, held it back in {} of its periods",
                percent(throttled)
            ),
            Bound::Thread { work } => {
                format!("its busiest thread was busy for {} of the time", percent(work))
            }
            Bound::Waiting { work, waiting } => format!(
                "one of its threads was busy for {} of the time and waited {} of it for a CPU",
                percent(work),
                percent(waiting)
            ),
            Bound::Cpu { work } => {
                format!("its threads were busy for {} of a CPU that they share", percent(work))
            }
            Bound::Crowded { busy, others, waiting } => format!(
                "its CPUs were {} full, {} of that by others, and it waited {} of the time for them",
                percent(busy),
                percent(others),
                percent(waiting)
            ),
        }
    }

    const fn code(self) -> &'static str {
        match self {
            Bound::Quota { .. } => "generator_throttled",
            Bound::Thread { .. } | Bound::Waiting { .. } | Bound::Cpu { .. } => "generator_busy",
            Bound::Crowded { .. } => "generator_crowded",
        }
    }
}

/// Full CPUs are no harm to a schedule that was kept: late requests show in their response times, and have caveats.
fn crowded(result: &LoadResult) -> Option<Bound> {
    let room = &result.client.room;
    let busy = room.busy.filter(|busy| *busy >= CPUS_FULL)?;
    let others = room.others.unwrap_or(0.0);
    let has_waited = room.waiting.map_or(others > MOST_WAITING, |waiting| waiting > MOST_WAITING);
    let may_be_less = result.keeps_up() != Some(true);
    (has_waited && may_be_less).then_some(Bound::Crowded {
        busy,
        others,
        waiting: room.waiting.unwrap_or(0.0),
    })
}

/// The generator may have been the limit.
pub(super) fn bound(result: &LoadResult) -> Option<Caveat> {
    let bound = Bound::of(result)?;
    let room = &result.client.room;
    let mend = match bound {
        Bound::Quota { .. } => "Give dyno's group more, or run it outside of that group.".to_string(),
        Bound::Thread { .. } => {
            format!("Give it another CPU: `--threads {}`.", result.config.threads + 1)
        }
        Bound::Waiting { .. } | Bound::Cpu { .. } | Bound::Crowded { .. } => format!(
            "Give it CPUs that nobody else uses{} (`--cpus`), and no more threads than CPUs.",
            room.named()
        ),
    };
    let message = format!(
        "The generator may have been the limit: {}. Throughput is a lower bound of what the server can do. {mend}",
        bound.clause()
    );
    Some(Caveat::new(bound.code(), Severity::Invalid, message, evidence(result)))
}

fn evidence(result: &LoadResult) -> Value {
    let mut room = serde_json::to_value(&result.client.room).expect("numbers and names only");
    room["busiest_thread_utilisation"] = json!(result.client.busiest_thread_utilisation);
    room
}

/// More threads than CPUs: they take turns, and each waits for the others.
pub(super) fn oversubscribed(result: &LoadResult) -> Option<Caveat> {
    let cpus = result.client.room.cpus.as_ref()?.len();
    let threads = result.client.threads;
    (cpus > 0 && threads > cpus).then(|| {
        let message = format!(
            "{threads} threads of the generator share {cpus} CPU{}: they wait for each other, up to a time slice of the scheduler each time. Ask for no more threads than CPUs: `--threads {cpus}`.",
            if cpus == 1 { "" } else { "s" }
        );
        let severity = if Bound::of(result).is_some() { Severity::Invalid } else { Severity::Warning };
        Caveat::new("oversubscribed", severity, message, json!({"threads": threads, "cpus": cpus}))
    })
}

/// What else ran on the generator's CPUs: a server, more often than not.
pub(super) fn others(result: &LoadResult) -> Option<Caveat> {
    let room = &result.client.room;
    let share = room.others.filter(|share| *share > OTHERS_WORTH_TELLING)?;
    let message = format!(
        "Something else used {} of the generator's CPUs{}. If it is the server, each slows the other: `--cpus` sets the generator apart.",
        percent(share),
        room.named()
    );
    Some(Caveat::new("shared_generator", Severity::Info, message, evidence(result)))
}

/// A quota that has not held the generator back may do so at the next step.
pub(super) fn quota(result: &LoadResult) -> Option<Caveat> {
    let room = &result.client.room;
    let cpus = room.quota_cpus.filter(|_| room.throttled.is_none_or(|share| share <= MOST_THROTTLED))?;
    let message = format!(
        "dyno's own control group may use {cpus:.2} CPUs at most, and was held back in {} of the periods.",
        percent(room.throttled.unwrap_or(0.0))
    );
    Some(Caveat::new(
        "generator_quota",
        Severity::Info,
        message,
        json!({"cpus": cpus, "throttled": room.throttled}),
    ))
}

/// Who made the generator wait, for caveats about that.
pub(super) fn by_whom(result: &LoadResult) -> String {
    result.client.room.named()
}

#[cfg(test)]
mod tests {
    use dyno_archive::ground::{CpuUse, OtherUse, QuotaUse};

    use super::*;
    use crate::fixture;

    const S: u64 = 1_000_000_000;

    fn thread(run: f64, delay: f64) -> ThreadUse {
        let ns = |share: f64| (share * S as f64) as u64;
        ThreadUse { run_ns: ns(run), run_delay_ns: Some(ns(delay)), ..ThreadUse::default() }
    }

    fn cpu(cpu: u32, busy: f64) -> CpuUse {
        let busy_ns = (busy * S as f64) as u64;
        CpuUse { cpu, busy_ns, idle_ns: S - busy_ns, steal_ns: 0 }
    }

    /// A window of one second.
    fn ground(cpus: &[CpuUse], own: f64) -> Ground {
        Ground {
            length_ns: S,
            cpus: cpus.into(),
            bound: true,
            own_ns: (own * S as f64) as u64,
            quota: None,
            others: vec![OtherUse { pid: 7, name: "nginx".into(), run_ns: S / 2 }],
        }
    }

    fn loaded(threads: Vec<ThreadUse>, ground: Ground, rate: Option<f64>) -> LoadResult {
        let mut record = fixture::record(1000);
        record.client.threads = threads;
        record.client.ground = Some(ground);
        fixture::result(&record, rate)
    }

    fn codes(result: &LoadResult) -> Vec<(&'static str, Severity)> {
        let ours =
            |code: &&str| CODES.contains(code) || ["shared_generator", "generator_quota"].contains(code);
        result.caveats.iter().map(|c| (c.code, c.severity)).filter(|(code, _)| ours(code)).collect()
    }

    type Case = (&'static str, Vec<ThreadUse>, Ground, Option<f64>, Vec<(&'static str, Severity)>);

    fn judge(cases: Vec<Case>) {
        for (name, threads, ground, rate, wanted) in cases {
            let result = loaded(threads, ground, rate);
            let is_valid = wanted.iter().all(|(_, severity)| *severity != Severity::Invalid);
            assert_eq!(codes(&result), wanted, "{name}: {:#?}", result.client.room);
            assert_eq!(result.valid, is_valid, "{name}: {:#?}", result.caveats);
        }
    }

    #[test]
    fn threads_without_room_are_refused() {
        use Severity::{Invalid, Warning};
        judge(vec![
            ("idle", vec![thread(0.3, 0.0)], ground(&[cpu(1, 0.3)], 0.3), None, vec![]),
            (
                "a thread",
                vec![thread(0.86, 0.0)],
                ground(&[cpu(1, 0.86)], 0.86),
                None,
                vec![("generator_busy", Invalid)],
            ),
            ("a thread just not", vec![thread(0.84, 0.0)], ground(&[cpu(1, 0.84)], 0.84), None, vec![]),
            (
                "two threads on one CPU (H5)",
                vec![thread(0.5, 0.36), thread(0.5, 0.36)],
                ground(&[cpu(1, 1.0)], 1.0),
                None,
                vec![("generator_busy", Invalid), ("oversubscribed", Invalid)],
            ),
            (
                "two threads on one CPU that have room",
                vec![thread(0.2, 0.01), thread(0.2, 0.01)],
                ground(&[cpu(1, 0.4)], 0.4),
                None,
                vec![("oversubscribed", Warning)],
            ),
            (
                "a CPU full of two threads, whatever they waited",
                vec![thread(0.45, 0.0), thread(0.45, 0.0), thread(0.1, 0.0)],
                ground(&[cpu(1, 0.9)], 0.9),
                None,
                vec![("generator_busy", Invalid), ("oversubscribed", Invalid)],
            ),
            (
                "bound threads on CPUs of their own",
                vec![thread(0.5, 0.0), thread(0.5, 0.0)],
                ground(&[cpu(1, 0.5), cpu(2, 0.5)], 1.0),
                None,
                vec![],
            ),
        ]);
    }

    #[test]
    fn cpus_without_room_are_refused() {
        use Severity::{Info, Invalid};
        let quota = |throttled_periods| Ground {
            quota: Some(QuotaUse { cpus: 0.5, periods: 100, throttled_periods }),
            ..ground(&[cpu(1, 0.3)], 0.3)
        };
        judge(vec![
            (
                "a server on its CPU",
                vec![thread(0.45, 0.3)],
                ground(&[cpu(1, 0.99)], 0.45),
                None,
                vec![("generator_crowded", Invalid), ("shared_generator", Info)],
            ),
            (
                "the same where the schedule was kept",
                vec![thread(0.45, 0.3)],
                ground(&[cpu(1, 0.99)], 0.45),
                Some(1000.0),
                vec![("shared_generator", Info)],
            ),
            (
                "a server on its CPU that leaves room",
                vec![thread(0.45, 0.3)],
                ground(&[cpu(1, 0.93)], 0.45),
                None,
                vec![("shared_generator", Info)],
            ),
            ("a quota", vec![thread(0.3, 0.0)], quota(3), None, vec![("generator_throttled", Invalid)]),
            ("a quota that lets be", vec![thread(0.3, 0.0)], quota(2), None, vec![("generator_quota", Info)]),
        ]);
    }

    #[test]
    fn polling_is_room() {
        let mut record = fixture::record(1000);
        record.client.threads = vec![thread(0.98, 0.06)];
        record.client.ground = Some(ground(&[cpu(1, 1.0)], 0.98));
        let mut worker = dyno_archive::interval::WorkerUse { run_ns: S, spun_ns: S * 9 / 10 };
        record.intervals[0].workers.insert(0, worker);
        let result = fixture::result(&record, None);
        assert_eq!(codes(&result), [], "{:#?}", result.client.room);
        worker.spun_ns = S / 20;
        record.intervals[0].workers.insert(0, worker);
        assert_eq!(codes(&fixture::result(&record, None)), [("generator_busy", Severity::Invalid)]);
    }

    #[test]
    fn who_else_ran_is_told_by_name() {
        let result = loaded(vec![thread(0.45, 0.3)], ground(&[cpu(1, 0.99)], 0.45), None);
        for code in ["generator_crowded", "shared_generator"] {
            let caveat = result.caveats.iter().find(|c| c.code == code).unwrap();
            assert!(caveat.message.contains("nginx 0.50 s"), "{}", caveat.message);
        }
    }

    #[test]
    fn ticks_tell_nothing_of_a_moment() {
        let short = Ground { length_ns: S / 4, ..ground(&[cpu(1, 1.0)], 0.2) };
        let result = loaded(vec![thread(0.2, 0.3)], short, None);
        assert_eq!((result.client.room.busy, codes(&result)), (None, vec![]));
    }
}
