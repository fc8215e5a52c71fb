//! System calls of processes, and states of their threads over time, observed in the kernel.
//!
//! A small program runs at the kernel's tracepoints (`bpf/inside.bpf.c`, loaded by `program`) and
//! adds up; nothing is written per event. `calls` has the numbers of system calls, and `slices`
//! decides when to count them. Where no program is available, `events` counts calls.

mod calls;
mod events;
mod program;
mod slices;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dyno_archive::sample::{CallUse, CallsUse, PartyUse, SchedulerRecord, StateTimes, ThreadState};

use crate::clock::monotonic_ns;
use crate::kernel::{ProgramError, Refusal, check_support};
use crate::{proc, read};
use events::Events;
use program::{CallCounts, ObserverProgram, PARTIES};
use slices::{Price, SlicePlanner};

/// Selection of observations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservationChoice {
    /// States of threads, wake-ups, migrations, threads that end.
    pub states: bool,
    /// User and system time by the kernel's entries and exits.
    pub modes: bool,
    pub calls: CallCounting,
}

impl ObservationChoice {
    /// Whether threads are counted. Counting modes includes counting threads.
    fn threads(self) -> bool {
        self.states || self.modes
    }
}

/// How system calls are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallCounting {
    #[default]
    None,
    /// In slices, so that counting stays cheap.
    Sliced,
    Every,
}

const NOT_THERE: &str = "Use Linux 5.15 or later with CONFIG_DEBUG_INFO_BTF and \
                         CONFIG_FTRACE_SYSCALLS, as distributions build it. Containers may \
                         forbid bpf(2).";

/// Observer of any number of parties. Clones share it; dropping the last one detaches it.
#[derive(Clone)]
#[allow(missing_debug_implementations)] // Its maps have none.
pub struct ProcessObserver {
    looks: Arc<Mutex<Looks>>,
    wanted: ObservationChoice,
    /// Reason why no eBPF program is available, so that only calls are counted. `None`: one is
    /// available.
    refusal: Option<Refusal>,
}

/// The counting of calls, and the monitored parties.
enum Looks {
    Program(Box<ObserverProgram>),
    Events(Box<Events>),
}

impl Looks {
    fn place(&mut self) -> Option<u64> {
        match self {
            Looks::Program(program) => program.place(),
            Looks::Events(events) => events.place(),
        }
    }

    fn watch(&mut self, party: u64, pid: u32) -> Result<(), ProgramError> {
        match self {
            Looks::Program(program) => program.watch(party, pid),
            Looks::Events(events) => {
                events.watch(party, pid);
                Ok(())
            }
        }
    }

    fn is_watched(&self, pid: u32) -> bool {
        match self {
            Looks::Program(program) => program.watched_since(pid).is_some(),
            Looks::Events(events) => events.is_watched(pid),
        }
    }

    /// Whether a process is counted as a child of a watched one, without being watched itself.
    fn follows(&self, pid: u32) -> bool {
        match self {
            // The kernel's program adds children as they are born.
            Looks::Program(_) => false,
            Looks::Events(events) => {
                proc::Stat::read(pid).is_some_and(|stat| events.is_watched(stat.parent))
            }
        }
    }

    fn forget(&mut self, party: u64) {
        match self {
            Looks::Program(program) => program.forget(party),
            Looks::Events(events) => events.forget(party),
        }
    }

    /// Attaches or detaches the programs that run permanently. Counters are unaffected.
    fn attach(&mut self, on: bool) -> Result<(), ProgramError> {
        match self {
            Looks::Program(program) => program.attach(on),
            Looks::Events(_) => Ok(()),
        }
    }

    fn arm(&mut self, on: bool) -> Result<(), ProgramError> {
        match self {
            Looks::Program(program) => program.arm(on),
            Looks::Events(events) => events.arm(on),
        }
    }

    fn count(&mut self, on: bool) -> Result<(), ProgramError> {
        match self {
            Looks::Program(program) => program.count(on),
            Looks::Events(events) => events.count(on),
        }
    }

    const fn price(&self) -> Price {
        match self {
            Looks::Program(_) => Price::PROGRAM,
            Looks::Events(_) => Price::COUNTERS,
        }
    }

    fn calls(&mut self, party: u64) -> Result<CallCounts, ProgramError> {
        match self {
            Looks::Program(program) => program.calls(party),
            Looks::Events(events) => events.calls(party),
        }
    }
}

impl ProcessObserver {
    /// # Errors
    /// The kernel does not support it, or this user lacks the permission.
    pub fn load(wanted: ObservationChoice) -> Result<ProcessObserver, Refusal> {
        let program = check_support().and_then(|()| {
            ObserverProgram::load(wanted).map_err(|error| Refusal::from_error(&error, NOT_THERE))
        });
        let refusal = match program {
            Ok(program) => {
                let looks = Arc::new(Mutex::new(Looks::Program(Box::new(program))));
                return Ok(ProcessObserver { looks, wanted, refusal: None });
            }
            Err(refusal) => refusal,
        };
        // If calls are not requested or not allowed, the reason of the better method is reported.
        let events = Some(())
            .filter(|()| wanted.calls != CallCounting::None)
            .and_then(|()| Events::load().ok());
        let events = events.ok_or_else(|| refusal.clone())?;
        let wanted = ObservationChoice { states: false, modes: false, ..wanted };
        Ok(ProcessObserver {
            looks: Arc::new(Mutex::new(Looks::Events(Box::new(events)))),
            wanted,
            refusal: Some(refusal),
        })
    }

    /// Reason why only the number of calls is observable. `None`: everything is observable.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// Begins to monitor a process and the processes that it starts from then on.
    ///
    /// # Errors
    /// There is no room for another process group; as a sentence.
    pub fn watch(&self, pid: u32) -> Result<Watching, String> {
        let mut looks = self.lock();
        let party = looks
            .place()
            .ok_or_else(|| format!("at most {PARTIES} process groups can be monitored at once"))?;
        let begun = looks.watch(party, pid).and_then(|()| looks.calls(party));
        let base = match begun {
            Ok(base) => base,
            Err(error) => {
                looks.forget(party);
                return Err(format!("the process cannot be monitored: {}", error.message));
            }
        };
        drop(looks);
        Ok(Watching { inside: self.clone(), party, base, counted: Mutex::default() })
    }

    /// Attaches or detaches all programs in the kernel, so that their cost can be measured. Times
    /// of threads that are read afterwards count the detached time as the state before it.
    ///
    /// # Errors
    /// The kernel's refusal, as a sentence.
    pub fn attach(&self, on: bool) -> Result<(), String> {
        self.lock().attach(on).map_err(|error| error.message)
    }

    fn lock(&self) -> MutexGuard<'_, Looks> {
        lock(&self.looks)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A monitored party. Monitoring ends when this is dropped.
#[allow(missing_debug_implementations)] // Its maps have none.
pub struct Watching {
    inside: ProcessObserver,
    party: u64,
    /// Calls that the kernel had counted in this place before.
    base: CallCounts,
    /// Calls up to the end of the last slice.
    counted: Mutex<CallsUse>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.inside.lock().forget(self.party);
    }
}

impl Watching {
    /// The method of monitoring.
    #[must_use]
    pub fn inside(&self) -> &ProcessObserver {
        &self.inside
    }

    /// Adds processes that existed before, or that the kernel did not report. Returns whether one
    /// of them descends from none that is watched: its earlier calls and wake-ups are not counted.
    pub fn add(&self, pids: &[u32]) -> bool {
        let mut looks = self.inside.lock();
        let mut has_joined = false;
        for pid in pids {
            // /proc lists an exiting process until it is reaped. It makes no more calls.
            let is_exiting = || proc::Stat::read(*pid).is_none_or(|stat| stat.is_exiting);
            if !looks.is_watched(*pid) && !is_exiting() {
                has_joined |= !looks.follows(*pid);
                // A full table shows as unobserved threads.
                let _ = looks.watch(self.party, *pid);
            }
        }
        has_joined
    }

    /// Living processes of the party, including those whose parent ended before it was observed.
    /// Empty if only calls are counted.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        match &*self.inside.lock() {
            Looks::Program(program) => program.pids(self.party),
            Looks::Events(_) => Vec::new(),
        }
    }

    /// Fills in the observations of the party up to `now_ns` of the monotonic clock.
    pub(crate) fn fill(&self, used: &mut PartyUse, now_ns: u64) {
        if self.inside.wanted.threads() {
            self.fill_threads(used, now_ns);
        }
        if self.inside.wanted.calls != CallCounting::None {
            used.calls = Some(lock(&self.counted).clone());
        }
    }

    fn fill_threads(&self, used: &mut PartyUse, now_ns: u64) {
        let looks = self.inside.lock();
        let Looks::Program(program) = &*looks else { return };
        // The states of a thread for which there was no room are unknown.
        let knows_all = program.lost_threads() == 0;
        used.threads.retain_mut(|thread| {
            thread.seen = program.thread(thread.tid, now_ns);
            let since = program.watched_since(thread.pid).filter(|_| knows_all);
            let Some(since) = since.filter(|_| thread.seen.is_none()) else { return true };
            // A thread without an account has not moved, or has ended since /proc was read: then it
            // is among the ended ones.
            let unmoved_ns = now_ns.saturating_sub(since);
            thread.seen = record_of_unmoved_thread(thread.pid, thread.tid, unmoved_ns);
            thread.seen.is_some()
        });
        used.ended = Some(program.ended_threads(self.party));
    }

    /// Adds the counts of a slice in which so many responses came. Without a count of responses,
    /// each slice stands for the stretch of time that it ends: idle times are counted from end to
    /// end and busy ones in slices, so idle times would otherwise weigh more.
    fn add_slice(
        &self,
        before: &CallCounts,
        now: &CallCounts,
        slice: Length,
        answers: Option<u64>,
    ) {
        let mut counted = lock(&self.counted);
        counted.slices += 1;
        if let Some(answers) = answers {
            counted.counted_ns += slice.counted_ns;
            counted.answers = Some(answers + counted.answers.unwrap_or(0));
            counted.by_name = CallUse::all_since(&now.by_name, &self.base.by_name);
            return;
        }
        counted.counted_ns += slice.stretch_ns;
        let times = slice.stretch_ns as f64 / slice.counted_ns.max(1) as f64;
        for (name, made) in CallUse::all_since(&now.by_name, &before.by_name) {
            counted.by_name.entry(name).or_default().add(&made.scale(times));
        }
    }
}

/// A thread in the same state since monitoring began. `None`: it has ended.
fn record_of_unmoved_thread(pid: u32, tid: u32, ns: u64) -> Option<SchedulerRecord> {
    let place = format!("/proc/{pid}/task/{tid}");
    let stat = proc::Stat::parse(&read(format!("{place}/stat")).unwrap_or_default())?;
    if stat.is_dead() {
        return None;
    }
    let number =
        || read(format!("{place}/syscall"))?.split_ascii_whitespace().next()?.parse::<usize>().ok();
    let state = match stat.state {
        'R' => ThreadState::Running,
        'D' => ThreadState::Disk,
        _ => number().and_then(|number| calls::waits().nth(number)).unwrap_or(ThreadState::Other),
    };
    let mut states = StateTimes::default();
    states.add(state, ns);
    Some(SchedulerRecord { states, ..SchedulerRecord::default() })
}

/// Pause between the attaching, which occupies this CPU, and the counting. Without it, a generator
/// on this CPU would still be late with its responses.
const SETTLES: Duration = Duration::from_millis(1);

/// Complete responses of a load so far, by its number; `None`: they are not counted.
type AnswersOf<'a> = dyn Fn(usize) -> Option<u64> + 'a;

/// The length of a slice, and of the stretch of time that it stands for: from the end of the slice
/// before it, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Length {
    counted_ns: u64,
    stretch_ns: u64,
}

/// Counter of the system calls of parties: calls and responses of the same stretches of time. The
/// kernel has one switch for all monitored processes, so concurrent counters share their slices.
#[allow(missing_debug_implementations)] // Maps in the kernel have none.
pub struct CallCounter {
    inside: ProcessObserver,
    /// Each with the number of its load, whose answers it gives.
    watched: Vec<(usize, Arc<Watching>)>,
    slices: SlicePlanner,
    /// Calls per second on the busiest CPU, in the last slice.
    rate: Option<f64>,
    /// Calls of each party, at the end of the last slice.
    counted: Vec<CallCounts>,
    /// The end of the last slice, nanoseconds of the monotonic clock; `None`: there was none.
    ended_ns: Option<u64>,
}

impl CallCounter {
    /// Creates a counter for the parties of concurrent loads, load by load. `None`: their calls are
    /// not to be counted, or there are no parties.
    #[must_use]
    pub fn new(of_loads: Vec<Vec<Arc<Watching>>>) -> Option<CallCounter> {
        let each = of_loads.into_iter().enumerate();
        let watched: Vec<(usize, Arc<Watching>)> = each
            .flat_map(|(load, parties)| parties.into_iter().map(move |party| (load, party)))
            .collect();
        let inside = watched.first()?.1.inside.clone();
        if inside.wanted.calls == CallCounting::None {
            return None;
        }
        let slices =
            SlicePlanner::new(inside.wanted.calls == CallCounting::Every, inside.lock().price());
        let mut counting = CallCounter {
            inside,
            watched,
            slices,
            rate: None,
            counted: Vec::new(),
            ended_ns: None,
        };
        // Earlier counts are not part of this.
        counting.counted = counting.read().ok()?;
        Some(counting)
    }

    /// Counts until `wait` returns true. `answers`: complete responses of a load so far, `None` if
    /// they are not counted. `wait` sleeps.
    ///
    /// # Errors
    /// The kernel stopped counting; as a sentence.
    pub fn run(
        &mut self,
        answers: &AnswersOf<'_>,
        wait: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<(), String> {
        let counted = self.count(answers, wait).map_err(|error| error.message);
        // Also after a failure.
        let mut looks = self.inside.lock();
        let ended = looks.count(false).and_then(|()| looks.arm(false));
        counted.and(ended.map_err(|error| error.message))
    }

    fn count(
        &mut self,
        answers: &AnswersOf<'_>,
        wait: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<(), ProgramError> {
        let loads = self.watched.iter().map(|(load, _)| load + 1).max().unwrap_or(0);
        // Time and responses are read when counting begins and when it ends, so that both
        // quantities of a ratio cover the same time.
        let edge = || (monotonic_ns(), (0..loads).map(answers).collect::<Vec<Option<u64>>>());
        let mut began = None;
        loop {
            let slice = self.slices.next(self.rate);
            let (from_ns, before) = match began.take() {
                Some(edge) => edge,
                None => {
                    self.inside.lock().arm(true)?;
                    if wait(SETTLES) {
                        return Ok(());
                    }
                    self.inside.lock().count(true)?;
                    edge()
                }
            };
            let is_over = wait(slice.counted);
            let (to_ns, after) = edge();
            let goes_on = slice.gap.is_zero() && !is_over;
            if !goes_on {
                self.inside.lock().count(false)?;
            }
            let since = |(after, before): (&Option<u64>, Option<u64>)| Some((*after)? - before?);
            let came: Vec<Option<u64>> = after.iter().zip(before).map(since).collect();
            let stretch_ns = to_ns - self.ended_ns.replace(to_ns).unwrap_or(from_ns);
            let most = self.take(Length { counted_ns: to_ns - from_ns, stretch_ns }, &came)?;
            self.rate = Some(most as f64 / ((to_ns - from_ns) as f64 / 1e9));
            if !goes_on {
                self.inside.lock().arm(false)?;
            }
            if is_over || (!goes_on && wait(slice.gap)) {
                return Ok(());
            }
            // Continuous counting has no gaps between slices.
            began = goes_on.then_some((to_ns, after));
        }
    }

    /// Takes what a slice counted, and the responses that came of each load. Returns the most calls
    /// that were made on one CPU.
    fn take(&mut self, slice: Length, answers: &[Option<u64>]) -> Result<u64, ProgramError> {
        let now = self.read()?;
        for (((load, watching), before), counted) in
            self.watched.iter().zip(&self.counted).zip(&now)
        {
            watching.add_slice(before, counted, slice, answers[*load]);
        }
        let before = std::mem::replace(&mut self.counted, now);
        Ok(most_on_a_cpu(&before, &self.counted))
    }

    /// Calls of each party so far.
    fn read(&self) -> Result<Vec<CallCounts>, ProgramError> {
        let mut looks = self.inside.lock();
        self.watched.iter().map(|(_, watching)| looks.calls(watching.party)).collect()
    }
}

/// The most calls that parties together made on one CPU between two readings.
fn most_on_a_cpu(before: &[CallCounts], now: &[CallCounts]) -> u64 {
    let on_cpu = |parties: &[CallCounts], cpu: usize| {
        parties.iter().filter_map(|of| of.of_cpus.get(cpu)).sum::<u64>()
    };
    let cpus = now.iter().map(|of| of.of_cpus.len()).max().unwrap_or(0);
    (0..cpus).map(|cpu| on_cpu(now, cpu) - on_cpu(before, cpu)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_on_one_cpu_are_those_of_all_parties() {
        let of =
            |of_cpus: &[u64]| CallCounts { of_cpus: of_cpus.to_vec(), ..CallCounts::default() };
        let before = [of(&[10, 100]), of(&[0, 5])];
        let now = [of(&[15, 102]), of(&[1, 9])];
        assert_eq!(most_on_a_cpu(&before, &now), 6);
        assert_eq!(most_on_a_cpu(&[], &[of(&[3, 0])]), 3);
        assert_eq!(most_on_a_cpu(&[], &[]), 0);
    }
}
