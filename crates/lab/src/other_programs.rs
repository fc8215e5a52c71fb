//! Measures the CPU use of other programs, and waits until they are idle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dyno_model::machine::CpuUse;
use dyno_observer::proc::{self, ProcessSnapshot};
use dyno_observer::{host, monotonic_ns};

/// The machine is quiet while other programs use less than this share of its CPUs.
pub const QUIET_SHARE: f64 = 0.05;

/// Time for which the machine has to be quiet.
pub const QUIET_FOR: Duration = Duration::from_secs(3);

/// A run begins with a warning if other programs use at least this share of the machine's CPUs. The
/// share is higher than [`QUIET_SHARE`], because a single short check includes bursts that end
/// before the first load.
const WARNING_SHARE: f64 = 0.1;

/// Time between two readings during a wait. The kernel counts CPU time in ticks of 10 ms.
const WAIT_INTERVAL: Duration = Duration::from_millis(500);

/// Time between the two readings of a single check.
const CHECK_INTERVAL: Duration = Duration::from_millis(300);

/// Maximum number of programs to name.
const MAX_NAMES: usize = 3;

/// Minimum CPU share of a program to name.
const MIN_NAMED_SHARE: f64 = 0.01;

/// The CPU time of this machine and of its programs so far.
#[derive(Clone, Debug, Default)]
struct Reading {
    /// Instant of the reading, on the monotonic clock.
    at: Duration,
    cpus: Vec<CpuUse>,
    /// CPU time of dyno.
    dyno_ns: u64,
    programs: Vec<ProcessSnapshot>,
    /// Processes of dyno.
    dyno_pids: BTreeSet<u32>,
}

impl Reading {
    fn take() -> Reading {
        Reading {
            at: Duration::from_nanos(monotonic_ns()),
            cpus: host::each_cpu(),
            dyno_ns: proc::own_cpu_ns(),
            programs: proc::other_processes(),
            dyno_pids: proc::own_tree(),
        }
    }
}

/// The share of this machine's CPUs that other programs used between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForeignUse {
    /// 0 to 1.
    pub share: f64,
    /// Names of programs with their shares, the highest first. Empty if no program is visible.
    pub programs: Vec<(String, f64)>,
}

impl ForeignUse {
    fn from_readings(first: &Reading, last: &Reading) -> ForeignUse {
        // The growth of one counter between the readings, over all CPUs.
        let sum = |pick: fn(&CpuUse) -> u64| {
            let earlier = |cpu: &CpuUse| first.cpus.iter().find(|other| other.cpu == cpu.cpu);
            last.cpus
                .iter()
                .filter_map(|cpu| Some(pick(&cpu.growth_since(earlier(cpu)?))))
                .sum::<u64>()
        };
        let busy_ns = sum(|cpu| cpu.busy_ns);
        // `busy_ns` includes the time of interrupts, which is a part of the total time. `billed_ns`
        // excludes the time of interrupts, because no program uses that time.
        let billed_ns = sum(CpuUse::billed_ns);
        let all_ns = (busy_ns + sum(|cpu| cpu.idle_ns) + sum(|cpu| cpu.steal_ns)).max(1);
        let dyno_ns = last.dyno_ns.saturating_sub(first.dyno_ns);
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for (program, ns) in
            proc::cpu_time_between(&first.programs, &last.programs, &last.dyno_pids, all_ns)
        {
            *by_name.entry(&program.name).or_default() += ns;
        }
        let all_ns = all_ns as f64;
        let shares = by_name.into_iter().map(|(name, ns)| (name.to_string(), ns as f64 / all_ns));
        let mut programs: Vec<(String, f64)> =
            shares.filter(|(_, share)| *share >= MIN_NAMED_SHARE).collect();
        programs.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        programs.truncate(MAX_NAMES);
        ForeignUse { share: billed_ns.saturating_sub(dyno_ns) as f64 / all_ns, programs }
    }
}

/// A wait for a quiet machine. The caller supplies the times.
#[derive(Debug)]
struct QuietWait {
    limit: Duration,
    /// Start of the current quiet time, counted from the beginning of the wait. `None`: the machine
    /// was not quiet at the last reading.
    quiet_since: Option<Duration>,
}

/// State of a wait after a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitState {
    Wait,
    Quiet,
    /// The time limit has passed.
    GiveUp,
}

impl QuietWait {
    const fn new(limit: Duration) -> QuietWait {
        QuietWait { limit, quiet_since: None }
    }

    /// Updates the wait with the share that other programs used between two instants.
    fn step(&mut self, from: Duration, to: Duration, share: f64) -> WaitState {
        if share < QUIET_SHARE {
            self.quiet_since.get_or_insert(from);
        } else {
            self.quiet_since = None;
        }
        match self.quiet_since {
            Some(since) if to.saturating_sub(since) >= QUIET_FOR => WaitState::Quiet,
            _ if to >= self.limit => WaitState::GiveUp,
            _ => WaitState::Wait,
        }
    }
}

/// The machine to observe: the real one, or a virtual one in tests.
trait ObservedMachine {
    fn read(&mut self) -> Reading;
    fn sleep(&mut self, time: Duration);
}

struct RealMachine;

impl ObservedMachine for RealMachine {
    fn read(&mut self) -> Reading {
        Reading::take()
    }

    fn sleep(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Why a wait for a quiet machine ended early.
#[derive(Clone, Debug, PartialEq)]
pub enum NotQuiet {
    /// With the latest use of at least [`QUIET_SHARE`].
    TimeLimit(ForeignUse),
    Interrupted,
}

/// Returns the use of other programs if it is worth a warning. Blocks for 300 ms.
#[must_use]
pub fn disturbing_use() -> Option<ForeignUse> {
    disturbing_use_of(&mut RealMachine)
}

fn disturbing_use_of(machine: &mut dyn ObservedMachine) -> Option<ForeignUse> {
    let first = machine.read();
    machine.sleep(CHECK_INTERVAL);
    let foreign_use = ForeignUse::from_readings(&first, &machine.read());
    (foreign_use.share >= WARNING_SHARE).then_some(foreign_use)
}

/// Waits until other programs are idle for [`QUIET_FOR`]. `on_noise` is called once, if they are
/// not.
///
/// # Errors
/// They were not idle within `limit`, or the user interrupted the wait.
pub fn wait_until_quiet(
    limit: Duration,
    is_interrupted: &dyn Fn() -> bool,
    on_noise: &mut dyn FnMut(&ForeignUse),
) -> Result<(), NotQuiet> {
    wait(&mut RealMachine, limit, is_interrupted, on_noise)
}

fn wait(
    machine: &mut dyn ObservedMachine,
    limit: Duration,
    is_interrupted: &dyn Fn() -> bool,
    on_noise: &mut dyn FnMut(&ForeignUse),
) -> Result<(), NotQuiet> {
    let mut wait = QuietWait::new(limit);
    let mut last = machine.read();
    let began = last.at;
    let mut is_reported = false;
    // The latest use of at least `QUIET_SHARE`, for messages.
    let mut latest_noise = ForeignUse::default();
    loop {
        machine.sleep(WAIT_INTERVAL);
        let next = machine.read();
        let foreign_use = ForeignUse::from_readings(&last, &next);
        let (from, to) = (last.at.saturating_sub(began), next.at.saturating_sub(began));
        let state = wait.step(from, to, foreign_use.share);
        if foreign_use.share >= QUIET_SHARE {
            latest_noise = foreign_use;
        }
        match state {
            WaitState::Quiet => return Ok(()),
            WaitState::GiveUp => return Err(NotQuiet::TimeLimit(latest_noise)),
            WaitState::Wait if is_interrupted() => return Err(NotQuiet::Interrupted),
            WaitState::Wait if !is_reported && latest_noise.share > 0.0 => {
                is_reported = true;
                on_noise(&latest_noise);
            }
            WaitState::Wait => {}
        }
        last = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with two CPUs in virtual time. `share`: CPU share of its program at each instant.
    struct VirtualMachine<F> {
        now: Duration,
        busy: Duration,
        share: F,
    }

    impl<F: Fn(Duration) -> f64> VirtualMachine<F> {
        fn new(share: F) -> VirtualMachine<F> {
            VirtualMachine { now: Duration::ZERO, busy: Duration::ZERO, share }
        }
    }

    const CPUS: u32 = 2;

    impl<F: Fn(Duration) -> f64> ObservedMachine for VirtualMachine<F> {
        fn read(&mut self) -> Reading {
            let (total, busy) = ((self.now * CPUS).as_nanos() as u64, self.busy.as_nanos() as u64);
            let (busy_ns, idle_ns) = (busy, total - busy);
            let cpu = CpuUse { cpu: 0, busy_ns, idle_ns, ..CpuUse::default() };
            let program = |pid, name: &str, run_ns| ProcessSnapshot {
                pid,
                name: name.into(),
                run_ns,
                ..ProcessSnapshot::default()
            };
            let programs = vec![program(8, "init", 9_000_000_000), program(7, "rustc", busy)];
            Reading { at: self.now, cpus: vec![cpu], programs, ..Reading::default() }
        }

        fn sleep(&mut self, time: Duration) {
            self.busy += time.mul_f64((self.share)(self.now) * f64::from(CPUS));
            self.now += time;
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the result of a wait, its length, and the noise that it reported.
    fn wait_with(
        share: impl Fn(Duration) -> f64,
        limit: Duration,
    ) -> (Result<(), NotQuiet>, Duration, Vec<ForeignUse>) {
        let (mut machine, mut noise) = (VirtualMachine::new(share), Vec::new());
        let result = wait(&mut machine, limit, &|| false, &mut |used| noise.push(used.clone()));
        (result, machine.now, noise)
    }

    /// The program of the virtual machine, with its share of the CPUs in percent.
    fn programs(used: &ForeignUse) -> Vec<(&str, f64)> {
        used.programs.iter().map(|(name, share)| (&**name, (share * 100.0).round())).collect()
    }

    #[test]
    fn wait_on_quiet_machine_takes_three_seconds() {
        assert_eq!(wait_with(|_| 0.04, 300 * SECOND), (Ok(()), 3 * SECOND, Vec::new()));
        // The quiet time may end exactly at the limit.
        assert_eq!(wait_with(|_| 0.0, 3 * SECOND).0, Ok(()));
    }

    #[test]
    fn quiet_time_starts_after_last_activity() {
        // Busy for four seconds, and again briefly two seconds later.
        let noise = |now: Duration| {
            let ms = now.as_millis();
            if ms < 4000 || (6000..6500).contains(&ms) { 0.61 } else { 0.0 }
        };
        let (result, elapsed, noise) = wait_with(noise, 300 * SECOND);
        assert_eq!((result, elapsed, noise.len()), (Ok(()), Duration::from_millis(9500), 1));
        assert_eq!(programs(&noise[0]), [("rustc", 61.0)]);
    }

    #[test]
    fn wait_on_busy_machine_fails_with_programs() {
        let (result, elapsed, _) = wait_with(|_| 0.61, 300 * SECOND);
        let Err(NotQuiet::TimeLimit(noise)) = result else { panic!("{result:?}") };
        assert_eq!((programs(&noise), elapsed), (vec![("rustc", 61.0)], 300 * SECOND));
        // If the quiet end is too short, the error has the earlier programs.
        let until_8_s = |now| if now < 8 * SECOND { 0.5 } else { 0.0 };
        let (result, ..) = wait_with(until_8_s, 10 * SECOND);
        let Err(NotQuiet::TimeLimit(noise)) = result else { panic!("{result:?}") };
        assert_eq!(programs(&noise), [("rustc", 50.0)]);
    }

    #[test]
    fn interrupt_ends_wait() {
        let mut machine = VirtualMachine::new(|_| 0.5);
        let result = wait(&mut machine, 300 * SECOND, &|| true, &mut |_| ());
        assert!(result == Err(NotQuiet::Interrupted) && machine.now < SECOND);
    }

    #[test]
    fn use_below_threshold_is_not_disturbing() {
        for (share, is_disturbing) in [(0.09, false), (0.61, true)] {
            let used = disturbing_use_of(&mut VirtualMachine::new(|_| share));
            assert_eq!(used.is_some(), is_disturbing, "{share}");
        }
    }

    #[test]
    fn work_of_dyno_is_not_foreign_use() {
        let cpu = |busy_ns| {
            let idle_ns = 1000 - busy_ns;
            vec![CpuUse { cpu: 0, busy_ns, idle_ns, ..CpuUse::default() }]
        };
        let first = Reading { cpus: cpu(0), ..Reading::default() };
        let last = Reading { cpus: cpu(500), dyno_ns: 490, ..Reading::default() };
        let foreign_use = ForeignUse::from_readings(&first, &last);
        assert!((foreign_use.share - 10.0 / 500.0).abs() < 1e-9, "{foreign_use:?}");
        assert!(foreign_use.programs.is_empty());
    }
}
