//! Other programs on this machine, before a run: their names, and the wait until they are idle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dyno_archive::machine::CpuUse;
use dyno_observer::proc::{self, ProcessSnapshot};
use dyno_observer::{host, monotonic_ns};
use dyno_report::format::whole_percent;

use crate::exit::bad;

/// Share of this machine's CPUs below which the machine is quiet.
const QUIET_SHARE: f64 = 0.05;

/// Time for which the machine has to be quiet.
const QUIET_FOR: Duration = Duration::from_secs(3);

/// Share above which a run begins with a warning.
const WARNING_SHARE: f64 = 0.1;

/// Time between two readings of a wait, and of the one look without a wait. The kernel counts CPU
/// time in ticks of 10 ms.
const GLANCE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(300);

/// Largest number of programs to name, and the lowest CPU share of each.
const NAMED: usize = 3;
const WORTH_NAMING: f64 = 0.01;

/// The CPU time of this machine and of its programs so far.
#[derive(Clone, Debug, Default)]
struct Reading {
    at: Duration,
    cpus: Vec<CpuUse>,
    /// CPU time of dyno.
    own_ns: u64,
    programs: Vec<ProcessSnapshot>,
    /// Processes of dyno.
    ours: BTreeSet<u32>,
}

impl Reading {
    fn take() -> Reading {
        Reading {
            // Shares are over the time between two readings.
            at: Duration::from_nanos(monotonic_ns()),
            cpus: host::each_cpu(),
            own_ns: proc::own_cpu_ns(),
            programs: proc::other_processes(),
            ours: proc::own_tree(),
        }
    }
}

/// The part of this machine's CPUs that other programs used between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
struct ForeignUse {
    /// 0 to 1.
    share: f64,
    /// Names with their shares, the most first; empty: none is visible from here.
    programs: Vec<(String, f64)>,
}

impl ForeignUse {
    fn from_readings(first: &Reading, last: &Reading) -> ForeignUse {
        let sum = |pick: fn(&CpuUse) -> u64| {
            let earlier = |cpu: &CpuUse| first.cpus.iter().find(|of| of.cpu == cpu.cpu);
            last.cpus
                .iter()
                .filter_map(|cpu| Some(pick(&cpu.growth_since(earlier(cpu)?))))
                .sum::<u64>()
        };
        let busy_ns = sum(|cpu| cpu.busy_ns);
        let all_ns = (busy_ns + sum(|cpu| cpu.idle_ns) + sum(|cpu| cpu.steal_ns)).max(1);
        let own_ns = last.own_ns.saturating_sub(first.own_ns);
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for (program, ns) in
            proc::cpu_time_between(&first.programs, &last.programs, &last.ours, all_ns)
        {
            *by_name.entry(&program.name).or_default() += ns;
        }
        let all_ns = all_ns as f64;
        let shares = by_name.into_iter().map(|(name, ns)| (name.to_string(), ns as f64 / all_ns));
        let mut programs: Vec<(String, f64)> =
            shares.filter(|(_, share)| *share >= WORTH_NAMING).collect();
        programs.sort_by(|a, b| b.1.total_cmp(&a.1));
        programs.truncate(NAMED);
        ForeignUse { share: busy_ns.saturating_sub(own_ns) as f64 / all_ns, programs }
    }

    /// `61 % of this machine's CPUs (rustc 41 %, python3 20 %)`.
    fn in_words(&self) -> String {
        let each: Vec<String> = self
            .programs
            .iter()
            .map(|(name, share)| format!("{name} {}", whole_percent(*share)))
            .collect();
        let names =
            if each.is_empty() { "none is visible from here".into() } else { each.join(", ") };
        format!("{} of this machine's CPUs ({names})", whole_percent(self.share))
    }
}

/// A wait for a quiet machine. The caller supplies the times.
#[derive(Debug)]
struct QuietWait {
    limit: Duration,
    /// When the current quiet time began, counted from the beginning of the wait.
    quiet_since: Option<Duration>,
}

/// Knowledge after a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Wait,
    Quiet,
    /// The time is over.
    GiveUp,
}

impl QuietWait {
    const fn new(limit: Duration) -> QuietWait {
        QuietWait { limit, quiet_since: None }
    }

    /// Takes the share that other programs used from one instant to another of the wait.
    fn step(&mut self, from: Duration, to: Duration, share: f64) -> Progress {
        if share < QUIET_SHARE {
            self.quiet_since.get_or_insert(from);
        } else {
            self.quiet_since = None;
        }
        match self.quiet_since {
            Some(since) if to.saturating_sub(since) >= QUIET_FOR => Progress::Quiet,
            _ if to >= self.limit => Progress::GiveUp,
            _ => Progress::Wait,
        }
    }
}

/// The machine to observe: the real one, or one of a test.
trait Machine {
    fn read(&mut self) -> Reading;
    fn rest(&mut self, time: Duration);
    fn say(&mut self, text: &str);
}

struct RealMachine;

impl Machine for RealMachine {
    fn read(&mut self) -> Reading {
        Reading::take()
    }

    fn rest(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn say(&mut self, text: &str) {
        crate::terminal::say(text);
    }
}

/// Checks other programs before a run. With a limit it waits until they are idle. Without one it
/// warns of them.
///
/// # Errors
/// They were not idle in time, the user interrupted the wait, or the limit is too short.
pub fn settle(limit_ns: Option<u64>, is_interrupted: &dyn Fn() -> bool) -> anyhow::Result<()> {
    match limit_ns {
        Some(ns) => wait(&mut RealMachine, Duration::from_nanos(ns), is_interrupted),
        None => {
            warn(&mut RealMachine, "Steps may not be valid. Stop them, or use --wait-quiet 5m.");
            Ok(())
        }
    }
}

/// Warns of other programs before a calibration.
pub fn warn_before_calibration() {
    let advice =
        "The ceilings may be too low. Stop these programs, and run `dyno calibrate` again.";
    warn(&mut RealMachine, advice);
}

/// `advice`: the consequence, and what to do.
fn warn(machine: &mut dyn Machine, advice: &str) {
    let first = machine.read();
    machine.rest(LOOK);
    let seen = ForeignUse::from_readings(&first, &machine.read());
    if seen.share >= WARNING_SHARE {
        machine.say(&format!("warning: other programs use {}. {advice}", seen.in_words()));
    }
}

fn wait(
    machine: &mut dyn Machine,
    limit: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    if limit < QUIET_FOR {
        return Err(bad(format!(
            "--wait-quiet {limit:?}: must be at least {QUIET_FOR:?}, the time for which the \
             machine has to be quiet\nhint: use --wait-quiet 5m"
        )));
    }
    let mut wait = QuietWait::new(limit);
    let mut last = machine.read();
    let began = last.at;
    let mut has_said = false;
    // The latest use above the limit, for its names.
    let mut noisy = ForeignUse::default();
    loop {
        machine.rest(GLANCE);
        let next = machine.read();
        let seen = ForeignUse::from_readings(&last, &next);
        let (from, to) = (last.at.saturating_sub(began), next.at.saturating_sub(began));
        let progress = wait.step(from, to, seen.share);
        if seen.share >= QUIET_SHARE {
            noisy = seen;
        }
        match progress {
            Progress::Quiet => return Ok(()),
            Progress::GiveUp => anyhow::bail!(
                "other programs: used {} and were not idle for {QUIET_FOR:?} within \
                 {limit:?}\nhint: stop them, or run without --wait-quiet",
                noisy.in_words()
            ),
            Progress::Wait if is_interrupted() => {
                anyhow::bail!("interrupted while waiting for a quiet machine")
            }
            Progress::Wait if !has_said && noisy.share > 0.0 => {
                has_said = true;
                machine.say(&format!(
                    "waiting up to {limit:?} until other programs use less than {} for \
                     {QUIET_FOR:?}: they use {}",
                    whole_percent(QUIET_SHARE),
                    noisy.in_words()
                ));
            }
            Progress::Wait => {}
        }
        last = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of two CPUs in virtual time; `share`: what its program uses at each instant.
    struct Virtual<F> {
        now: Duration,
        busy: Duration,
        share: F,
        said: Vec<String>,
    }

    impl<F: Fn(Duration) -> f64> Virtual<F> {
        fn new(share: F) -> Virtual<F> {
            Virtual { now: Duration::ZERO, busy: Duration::ZERO, share, said: Vec::new() }
        }
    }

    const CPUS: u32 = 2;

    impl<F: Fn(Duration) -> f64> Machine for Virtual<F> {
        fn read(&mut self) -> Reading {
            let (all, busy) = ((self.now * CPUS).as_nanos() as u64, self.busy.as_nanos() as u64);
            let cpu = CpuUse { cpu: 0, busy_ns: busy, idle_ns: all - busy, steal_ns: 0 };
            let of = |pid, name: &str, run_ns| ProcessSnapshot {
                pid,
                name: name.into(),
                run_ns,
                ..ProcessSnapshot::default()
            };
            let programs = vec![of(8, "init", 9_000_000_000), of(7, "rustc", busy)];
            Reading { at: self.now, cpus: vec![cpu], programs, ..Reading::default() }
        }

        fn rest(&mut self, time: Duration) {
            self.busy += time.mul_f64((self.share)(self.now) * f64::from(CPUS));
            self.now += time;
        }

        fn say(&mut self, text: &str) {
            self.said.push(text.into());
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn waited(
        share: impl Fn(Duration) -> f64,
        limit: Duration,
    ) -> (Result<(), String>, Duration, Vec<String>) {
        let mut machine = Virtual::new(share);
        let result = wait(&mut machine, limit, &|| false).map_err(|error| format!("{error:#}"));
        (result, machine.now, machine.said)
    }

    #[test]
    fn quiet_machine_is_waited_for_three_seconds() {
        let (result, took, said) = waited(|_| 0.04, 300 * SECOND);
        assert_eq!((result, took), (Ok(()), 3 * SECOND));
        assert!(said.is_empty(), "{said:?}");
        // At the limit itself it is quiet.
        assert_eq!(waited(|_| 0.0, 3 * SECOND).0, Ok(()));
    }

    #[test]
    fn quiet_seconds_are_counted_from_the_last_noise() {
        // Busy for four seconds, and for a moment two seconds later.
        let noise = |now: Duration| {
            let ms = now.as_millis();
            if ms < 4000 || (6000..6500).contains(&ms) { 0.61 } else { 0.0 }
        };
        let (result, took, said) = waited(noise, 300 * SECOND);
        assert_eq!((result, took), (Ok(()), Duration::from_millis(9500)));
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("61 % of this machine's CPUs (rustc 61 %)"), "{said:?}");
    }

    #[test]
    fn busy_machine_is_given_up_with_names() {
        let (result, took, _) = waited(|_| 0.61, 300 * SECOND);
        let error = result.unwrap_err();
        assert!(error.contains("61 % of this machine's CPUs (rustc 61 %)"), "{error}");
        assert!(error.contains("within 300s") && error.contains("hint: stop them"), "{error}");
        assert_eq!(took, 300 * SECOND);
        // A quiet end that is too short has the names of the noise before it.
        let error =
            waited(|now| if now < 8 * SECOND { 0.5 } else { 0.0 }, 10 * SECOND).0.unwrap_err();
        assert!(error.contains("rustc"), "{error}");
        let error = waited(|_| 0.0, SECOND).0.unwrap_err();
        assert!(error.contains("must be at least 3s"), "{error}");
    }

    #[test]
    fn interrupt_ends_the_wait() {
        let mut machine = Virtual::new(|_| 0.5);
        let error = wait(&mut machine, 300 * SECOND, &|| true).unwrap_err();
        assert!(error.to_string().contains("interrupted") && machine.now < SECOND);
    }

    #[test]
    fn run_warns_of_busy_programs_alone() {
        for (share, is_warned) in [(0.09, false), (0.61, true)] {
            let mut machine = Virtual::new(|_| share);
            warn(&mut machine, "Stop them.");
            assert_eq!(machine.said.len(), usize::from(is_warned), "{share}");
            assert!(
                machine.said.iter().all(|text| text.contains("rustc 61 %")),
                "{:?}",
                machine.said
            );
        }
    }

    #[test]
    fn work_of_dyno_is_no_other_program() {
        let cpu = |busy_ns| vec![CpuUse { cpu: 0, busy_ns, idle_ns: 1000 - busy_ns, steal_ns: 0 }];
        let first = Reading { cpus: cpu(0), ..Reading::default() };
        let last = Reading { cpus: cpu(500), own_ns: 490, ..Reading::default() };
        let seen = ForeignUse::from_readings(&first, &last);
        assert!((seen.share - 10.0 / 500.0).abs() < 0.011, "{seen:?}");
        assert!(seen.in_words().contains("none is visible from here"));
    }
}
