//! Counts the system calls of processes and measures the states of their threads over time. Calls
//! and states show the work of a server for a request, and the reasons why its threads wait. A
//! party is a group of processes with common counters: a server, a back end or the generator.
//!
//! A small eBPF program (`bpf/inside.bpf.c`, loaded by `program`) runs at the kernel's tracepoints.
//! It only adds to counters, because writing a record per event would cost too much. `calls` names
//! the system calls, and `slices` decides when to count them. If eBPF is unavailable, `events`
//! counts calls with perf events.

mod calls;
mod events;
mod program;
mod slices;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dyno_model::sample::{CallUse, CallsUse, PartyUse, SchedulerRecord, StateTimes, ThreadState};
use events::Events;
use program::{CallCounts, ObserverProgram, PARTIES};
use slices::{CountingCost, SlicePlanner};

use crate::clock::monotonic_ns;
use crate::kernel::{ProgramError, Refusal, check_support};
use crate::{proc, read};

/// Selection of observations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservationChoice {
    /// States of threads, wake-ups, migrations, and totals of ended threads.
    pub states: bool,
    /// User and system time, measured at each entry to and exit from the kernel.
    pub modes: bool,
    pub calls: CallCounting,
}

impl ObservationChoice {
    /// Whether nothing is observed.
    pub(crate) fn is_empty(self) -> bool {
        self == ObservationChoice::default()
    }

    /// Whether threads are observed, which both states and modes need.
    fn includes_threads(self) -> bool {
        self.states || self.modes
    }
}

/// How system calls are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallCounting {
    #[default]
    None,
    /// In slices of time, so that counting stays cheap.
    Sliced,
    /// Every call, at any cost.
    Every,
}

const REQUIREMENTS: &str = "Use Linux 5.15 or later with CONFIG_DEBUG_INFO_BTF and \
                         CONFIG_FTRACE_SYSCALLS, as distributions build it. Containers may \
                         forbid bpf(2).";

/// Observer of any number of parties. Clones share the kernel's programs. Dropping the last clone
/// detaches them.
#[derive(Clone)]
#[allow(missing_debug_implementations)] // Its maps have none.
pub struct ProcessObserver {
    mechanism: Arc<Mutex<Mechanism>>,
    choice: ObservationChoice,
    /// Reason why no eBPF program is available. Only calls are counted then. `None`: a program is
    /// available.
    refusal: Option<Refusal>,
}

/// The mechanism of observation, with the monitored parties.
enum Mechanism {
    /// An eBPF program.
    Program(Box<ObserverProgram>),
    /// Perf events, which count only calls.
    Events(Box<Events>),
}

impl Mechanism {
    /// Reserves the number of a party. `None`: all numbers are in use.
    fn reserve_party(&mut self) -> Option<u64> {
        match self {
            Mechanism::Program(program) => program.reserve_party(),
            Mechanism::Events(events) => events.reserve_party(),
        }
    }

    fn watch(&mut self, party: u64, pid: u32) -> Result<(), ProgramError> {
        match self {
            Mechanism::Program(program) => program.watch(party, pid),
            Mechanism::Events(events) => {
                events.watch(party, pid);
                Ok(())
            }
        }
    }

    fn is_watched(&self, pid: u32) -> bool {
        match self {
            Mechanism::Program(program) => program.watched_since(pid).is_some(),
            Mechanism::Events(events) => events.is_watched(pid),
        }
    }

    /// Whether the counters of a watched parent already include the calls of this unwatched
    /// process.
    fn counts_as_child(&self, pid: u32) -> bool {
        match self {
            // The eBPF program watches child processes itself, and counts no unwatched process.
            Mechanism::Program(_) => false,
            Mechanism::Events(events) => {
                proc::Stat::read(pid).is_some_and(|stat| events.is_watched(stat.parent))
            }
        }
    }

    fn forget(&mut self, party: u64) {
        match self {
            Mechanism::Program(program) => program.forget(party),
            Mechanism::Events(events) => events.forget(party),
        }
    }

    /// Attaches or detaches the eBPF programs that run all the time. The counting of calls is
    /// unaffected.
    fn set_attached(&mut self, is_attached: bool) -> Result<(), ProgramError> {
        match self {
            Mechanism::Program(program) => program.set_attached(is_attached),
            Mechanism::Events(_) => Ok(()),
        }
    }

    /// Prepares or removes the counting of calls. Takes some time.
    fn set_armed(&mut self, is_armed: bool) -> Result<(), ProgramError> {
        match self {
            Mechanism::Program(program) => program.set_armed(is_armed),
            Mechanism::Events(events) => events.set_armed(is_armed),
        }
    }

    /// Starts or stops the prepared counting of calls.
    fn set_counting(&mut self, is_counting: bool) -> Result<(), ProgramError> {
        match self {
            Mechanism::Program(program) => program.set_counting(is_counting),
            Mechanism::Events(events) => events.set_counting(is_counting),
        }
    }

    const fn cost(&self) -> CountingCost {
        match self {
            Mechanism::Program(_) => CountingCost::PROGRAM,
            Mechanism::Events(_) => CountingCost::PERF_EVENTS,
        }
    }

    /// Prepares for the calls of a new load.
    fn begin_load(&mut self, party: u64) {
        match self {
            // The program counts calls of all names.
            Mechanism::Program(_) => {}
            Mechanism::Events(events) => events.begin_load(party),
        }
    }

    fn calls(&mut self, party: u64) -> Result<CallCounts, ProgramError> {
        match self {
            Mechanism::Program(program) => program.calls(party),
            Mechanism::Events(events) => events.calls(party),
        }
    }

    /// Returns the number of threads of all parties for which the kernel had no room so far.
    fn lost_threads(&self) -> u64 {
        match self {
            Mechanism::Program(program) => program.lost_threads(),
            Mechanism::Events(_) => 0,
        }
    }
}

impl ProcessObserver {
    /// Loads the eBPF program. If it is unavailable and calls are requested, loads perf events.
    ///
    /// # Errors
    /// The kernel does not support the observer, or this user lacks the permission.
    pub fn load(choice: ObservationChoice) -> Result<ProcessObserver, Refusal> {
        let program = check_support().and_then(|()| {
            ObserverProgram::load(choice).map_err(|error| Refusal::from_error(&error, REQUIREMENTS))
        });
        let refusal = match program {
            Ok(program) => {
                let mechanism = Arc::new(Mutex::new(Mechanism::Program(Box::new(program))));
                return Ok(ProcessObserver { mechanism, choice, refusal: None });
            }
            Err(refusal) => refusal,
        };
        // If perf events are not requested or not allowed, the refusal of eBPF is reported, because
        // eBPF can observe more.
        if choice.calls == CallCounting::None {
            return Err(refusal);
        }
        let Ok(events) = Events::load() else { return Err(refusal) };
        let choice = ObservationChoice { states: false, modes: false, ..choice };
        Ok(ProcessObserver {
            mechanism: Arc::new(Mutex::new(Mechanism::Events(Box::new(events)))),
            choice,
            refusal: Some(refusal),
        })
    }

    /// Returns the reason why only the number of calls is observable. `None`: everything is
    /// observable.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// Begins to monitor a process and the processes that it starts from then on.
    ///
    /// # Errors
    /// Too many process groups are monitored already.
    pub fn watch(&self, pid: u32) -> Result<PartyMonitor, String> {
        let mut mechanism = self.lock();
        let party = mechanism
            .reserve_party()
            .ok_or_else(|| format!("at most {PARTIES} process groups can be monitored at once"))?;
        let lost_before = mechanism.lost_threads();
        let earlier_calls = mechanism.watch(party, pid).and_then(|()| mechanism.calls(party));
        let base = match earlier_calls {
            Ok(base) => base,
            Err(error) => {
                mechanism.forget(party);
                return Err(format!("the process cannot be monitored: {}", error.message));
            }
        };
        drop(mechanism);
        let calls = Mutex::default();
        Ok(PartyMonitor { observer: self.clone(), party, base, lost_before, calls })
    }

    /// Attaches or detaches the eBPF programs that run all the time, so that their cost can be
    /// measured. While they are detached, all time is added to the last known state of each thread.
    ///
    /// # Errors
    /// The kernel's refusal, as a sentence.
    pub fn set_attached(&self, is_attached: bool) -> Result<(), String> {
        self.lock().set_attached(is_attached).map_err(|error| error.message)
    }

    fn lock(&self) -> MutexGuard<'_, Mechanism> {
        lock(&self.mechanism)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Monitor of a party. Monitoring ends when the monitor is dropped.
#[allow(missing_debug_implementations)] // Its maps have none.
pub struct PartyMonitor {
    observer: ProcessObserver,
    /// Number of the party in the kernel's counters.
    party: u64,
    /// Calls that the kernel counted under this number for an earlier party.
    base: CallCounts,
    /// Threads that were lost before this party was monitored. These threads belong to earlier
    /// parties.
    lost_before: u64,
    /// Calls up to the end of the last slice.
    calls: Mutex<CallsUse>,
}

impl Drop for PartyMonitor {
    fn drop(&mut self) {
        self.observer.lock().forget(self.party);
    }
}

impl PartyMonitor {
    /// Returns the observer of this and of other parties.
    #[must_use]
    pub fn observer(&self) -> &ProcessObserver {
        &self.observer
    }

    /// Adds processes that existed before, or that the kernel did not report. Returns whether one
    /// of them has no monitored ancestor. The counters then lack its earlier calls and wake-ups.
    pub fn add(&self, pids: &[u32]) -> bool {
        let mut mechanism = self.observer.lock();
        let mut has_joined = false;
        for pid in pids {
            // An exiting process makes no more calls, but /proc lists it until it is reaped.
            let is_exiting = || proc::Stat::read(*pid).is_none_or(|stat| stat.is_exiting);
            if !mechanism.is_watched(*pid) && !is_exiting() {
                has_joined |= !mechanism.counts_as_child(*pid);
                // Fails if the kernel's table is full. The threads are then reported as unobserved.
                let _ = mechanism.watch(self.party, *pid);
            }
        }
        has_joined
    }

    /// Returns the living processes of the party, including processes whose parent has ended, which
    /// are not below the party's roots in `/proc`. Empty if only calls are counted.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        match &*self.observer.lock() {
            Mechanism::Program(program) => program.pids(self.party),
            Mechanism::Events(_) => Vec::new(),
        }
    }

    /// Fills in the observations of the party up to `now_ns` of the monotonic clock.
    pub(crate) fn fill(&self, used: &mut PartyUse, now_ns: u64) {
        if self.observer.choice.includes_threads() {
            self.fill_threads(used, now_ns);
        }
        if self.observer.choice.calls != CallCounting::None {
            used.calls = Some(lock(&self.calls).clone());
        }
    }

    fn fill_threads(&self, used: &mut PartyUse, now_ns: u64) {
        let mechanism = self.observer.lock();
        let Mechanism::Program(program) = &*mechanism else { return };
        // If threads were lost for lack of room, a missing record does not mean an unchanged state.
        // The sums of ended threads then lack an unknown part. The table stays full, so the party
        // will lose further threads.
        let is_complete = program.lost_threads() == self.lost_before;
        used.threads.retain_mut(|thread| {
            thread.seen = program.thread(thread.tid, now_ns);
            if thread.seen.is_some() || !is_complete {
                return true;
            }
            let Some(since) = program.watched_since(thread.pid) else { return true };
            // The kernel has no record of the thread. Either its state has not changed since the
            // start of monitoring, or it ended after /proc was read and is among the ended threads.
            let unchanged_ns = now_ns.saturating_sub(since);
            thread.seen = record_of_unchanged_thread(thread.pid, thread.tid, unchanged_ns);
            thread.seen.is_some()
        });
        // The counter is read again, because threads may have been lost while the sums were read.
        let ended = program.ended_threads(self.party);
        used.ended = (program.lost_threads() == self.lost_before).then_some(ended);
    }

    /// Adds the counts of a slice. `responses`: number of responses in the slice; `None`: unknown.
    ///
    /// Without `responses`, the counts are scaled up to the period that ends with the slice. Idle
    /// periods are counted completely, but busy periods only in slices. Without scaling, idle
    /// periods would weigh more.
    fn add_slice(
        &self,
        before: &CallCounts,
        now: &CallCounts,
        slice: SliceLength,
        responses: Option<u64>,
    ) {
        let mut calls = lock(&self.calls);
        calls.slices += 1;
        if let Some(responses) = responses {
            calls.counted_ns += slice.counted_ns;
            calls.responses = Some(responses + calls.responses.unwrap_or(0));
            calls.by_name = CallUse::all_since(&now.by_name, &self.base.by_name);
            return;
        }
        calls.counted_ns += slice.period_ns;
        let factor = slice.period_ns as f64 / slice.counted_ns.max(1) as f64;
        let in_slice = CallUse::all_since(&now.by_name, &before.by_name);
        let count: u64 = in_slice.values().map(|call| call.count).sum();
        let calls_per_s = count as f64 * 1e9 / slice.counted_ns.max(1) as f64;
        calls.slice_rates.add(calls_per_s as u64, slice.period_ns.saturating_sub(slice.counted_ns));
        for (name, growth) in in_slice {
            calls.by_name.entry(name).or_default().add(&growth.scale(factor));
        }
    }
}

/// Returns the record of a thread that has been in its current state for `ns`. `None`: the thread
/// has ended.
fn record_of_unchanged_thread(pid: u32, tid: u32, ns: u64) -> Option<SchedulerRecord> {
    let folder = format!("/proc/{pid}/task/{tid}");
    let stat = proc::Stat::parse(&read(format!("{folder}/stat")).unwrap_or_default())?;
    if stat.is_dead() {
        return None;
    }
    let call = || -> Option<usize> {
        read(format!("{folder}/syscall"))?.split_ascii_whitespace().next()?.parse().ok()
    };
    let state = match stat.state {
        'R' => ThreadState::Running,
        'D' => ThreadState::Disk,
        _ => call().and_then(|call| calls::wait_states().nth(call)).unwrap_or(ThreadState::Other),
    };
    let mut states = StateTimes::default();
    states.add(state, ns);
    Some(SchedulerRecord { states, ..SchedulerRecord::default() })
}

/// Pause between the preparation of counting and the counting. The preparation occupies this CPU,
/// so a generator on it would still be late when counting begins.
const SETTLING_TIME: Duration = Duration::from_millis(1);

/// Returns the number of complete responses of a load so far, by the load's index. `None`:
/// responses are not counted.
type ResponseCount<'a> = dyn Fn(usize) -> Option<u64> + 'a;

/// Length of a slice, and of the period from the end of the slice before it to its own end.
#[derive(Clone, Copy, Debug)]
struct SliceLength {
    counted_ns: u64,
    period_ns: u64,
}

/// The beginning or the end of a slice. Time and responses are read together, so that both
/// quantities of a ratio cover the same time.
struct SliceEdge {
    at_ns: u64,
    /// Number of responses of each load so far. `None`: responses are not counted.
    responses: Vec<Option<u64>>,
}

/// Counter of the system calls and the responses of parties over the same periods. The kernel has
/// one switch for all monitored processes, so all parties of concurrent loads share their slices.
#[allow(missing_debug_implementations)] // Maps in the kernel have none.
pub struct CallCounter {
    observer: ProcessObserver,
    /// Monitored parties, each with the index of its load.
    monitors: Vec<(usize, Arc<PartyMonitor>)>,
    slices: SlicePlanner,
    /// Calls per second on the busiest CPU in the last slice.
    rate: Option<f64>,
    /// Calls of each party up to the end of the last slice.
    calls: Vec<CallCounts>,
    /// End of the last slice, nanoseconds of the monotonic clock. `None`: no slice has ended.
    ended_ns: Option<u64>,
}

impl CallCounter {
    /// Creates a counter for the parties of concurrent loads, grouped by load. `None`: calls are
    /// not requested, or there are no parties.
    #[must_use]
    pub fn new(loads: Vec<Vec<Arc<PartyMonitor>>>) -> Option<CallCounter> {
        let indexed = loads.into_iter().enumerate();
        let monitors: Vec<(usize, Arc<PartyMonitor>)> = indexed
            .flat_map(|(load, parties)| parties.into_iter().map(move |party| (load, party)))
            .collect();
        let observer = monitors.first()?.1.observer.clone();
        if observer.choice.calls == CallCounting::None {
            return None;
        }
        for (_, monitor) in &monitors {
            observer.lock().begin_load(monitor.party);
        }
        let counts_every_call = observer.choice.calls == CallCounting::Every;
        let slices = SlicePlanner::new(counts_every_call, observer.lock().cost());
        let mut counter = CallCounter {
            observer,
            monitors,
            slices,
            rate: None,
            calls: Vec::new(),
            ended_ns: None,
        };
        // Earlier calls are subtracted from the first slice.
        counter.calls = counter.read().ok()?;
        Some(counter)
    }

    /// Counts until `wait`, which sleeps, returns true.
    ///
    /// # Errors
    /// The kernel stopped counting.
    pub fn run(
        &mut self,
        responses: &ResponseCount<'_>,
        wait: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<(), String> {
        let result = self.count_slices(responses, wait).map_err(|error| error.message);
        // Counting is switched off even after a failure.
        let mut mechanism = self.observer.lock();
        let stop = mechanism.set_counting(false).and_then(|()| mechanism.set_armed(false));
        result.and(stop.map_err(|error| error.message))
    }

    fn count_slices(
        &mut self,
        responses: &ResponseCount<'_>,
        wait: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<(), ProgramError> {
        let loads = self.monitors.iter().map(|(load, _)| load + 1).max().unwrap_or(0);
        let read_edge =
            || SliceEdge { at_ns: monotonic_ns(), responses: (0..loads).map(responses).collect() };
        // The end of the previous slice, if counting continues from there.
        let mut previous_end: Option<SliceEdge> = None;
        loop {
            let slice = self.slices.next(self.rate);
            let begin = match previous_end.take() {
                Some(edge) => edge,
                None => {
                    self.observer.lock().set_armed(true)?;
                    if wait(SETTLING_TIME) {
                        return Ok(());
                    }
                    self.observer.lock().set_counting(true)?;
                    read_edge()
                }
            };
            let has_ended = wait(slice.counted);
            let end = read_edge();
            let continues = slice.gap.is_zero() && !has_ended;
            if !continues {
                self.observer.lock().set_counting(false)?;
            }
            let growth = |(after, before): (&Option<u64>, Option<u64>)| Some((*after)? - before?);
            let in_slice: Vec<Option<u64>> =
                end.responses.iter().zip(begin.responses).map(growth).collect();
            let counted_ns = end.at_ns - begin.at_ns;
            let period_ns = end.at_ns - self.ended_ns.replace(end.at_ns).unwrap_or(begin.at_ns);
            let max_calls = self.add_slice(SliceLength { counted_ns, period_ns }, &in_slice)?;
            self.rate = Some(max_calls as f64 / (counted_ns as f64 / 1e9));
            if !continues {
                self.observer.lock().set_armed(false)?;
            }
            if has_ended || (!continues && wait(slice.gap)) {
                return Ok(());
            }
            previous_end = continues.then_some(end);
        }
    }

    /// Adds the calls of a slice to their parties. `responses`: number of each load's responses in
    /// the slice. Returns the number of calls on the CPU with the most.
    fn add_slice(
        &mut self,
        slice: SliceLength,
        responses: &[Option<u64>],
    ) -> Result<u64, ProgramError> {
        let now = self.read()?;
        for (((load, monitor), before), calls) in self.monitors.iter().zip(&self.calls).zip(&now) {
            monitor.add_slice(before, calls, slice, responses[*load]);
        }
        let before = std::mem::replace(&mut self.calls, now);
        Ok(max_calls_on_cpu(&before, &self.calls))
    }

    /// Calls of each party so far.
    fn read(&self) -> Result<Vec<CallCounts>, ProgramError> {
        let mut mechanism = self.observer.lock();
        self.monitors.iter().map(|(_, monitor)| mechanism.calls(monitor.party)).collect()
    }
}

/// Returns the highest number of calls that the parties together made on one CPU between two
/// readings.
fn max_calls_on_cpu(before: &[CallCounts], now: &[CallCounts]) -> u64 {
    let on_cpu = |parties: &[CallCounts], cpu: usize| {
        parties.iter().filter_map(|calls| calls.by_cpu.get(cpu)).sum::<u64>()
    };
    let cpus = now.iter().map(|calls| calls.by_cpu.len()).max().unwrap_or(0);
    (0..cpus).map(|cpu| on_cpu(now, cpu) - on_cpu(before, cpu)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;
    use dyno_model::sample::Party;

    /// Held by tests that observe this process. Each would also see the threads of the others.
    static OBSERVED: std::sync::Mutex<()> = std::sync::Mutex::new(());

    /// The eBPF program has room for 2,048 names of ended threads.
    #[test]
    fn ends_of_threads_are_unknown_without_room() {
        let _observed = OBSERVED.lock();
        let choice = ObservationChoice { states: true, ..ObservationChoice::default() };
        let Ok(observer) = ProcessObserver::load(choice) else {
            return crate::reasons::not_run("ends of threads: this user cannot load a program");
        };
        let ended_after = |monitor: &PartyMonitor, threads: usize| {
            for number in 0..threads {
                let builder = std::thread::Builder::new().name(format!("ended-{number}"));
                builder.spawn(|| ()).unwrap().join().unwrap();
            }
            let mut used = PartyUse::empty(Party::SUBJECT);
            monitor.fill(&mut used, monotonic_ns());
            used.ended
        };
        let monitor = observer.watch(std::process::id()).unwrap();
        assert!(ended_after(&monitor, 10).is_some());
        assert_eq!(ended_after(&monitor, 2100), None, "some names had no room");
        drop(monitor);
        let next = observer.watch(std::process::id()).unwrap();
        assert!(ended_after(&next, 10).is_some(), "the loss was the earlier party's");
    }

    /// Writes to a file and waits until its file system is on the disk.
    fn sync_repeatedly() {
        let mut file = tempfile::tempfile().unwrap();
        for _ in 0..5 {
            file.write_all(&[0; 100]).unwrap();
            rustix::fs::syncfs(&file).unwrap();
            file.sync_data().unwrap();
        }
    }

    /// The kernel marks neither waits for the thread that writes a file system back nor those for a
    /// commit of its journal (ext4, XFS) as waits for a disk.
    #[test]
    fn waits_of_syncs_count_as_disk() {
        let _observed = OBSERVED.lock();
        let choice = ObservationChoice { states: true, ..ObservationChoice::default() };
        let Ok(observer) = ProcessObserver::load(choice) else {
            return crate::reasons::not_run("waits of syncs: this user cannot load a program");
        };
        let monitor = observer.watch(std::process::id()).unwrap();
        let threads = [(); 4].map(|()| {
            let builder = std::thread::Builder::new().name("syncs".into());
            builder.spawn(sync_repeatedly).unwrap()
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut used = PartyUse::empty(Party::SUBJECT);
        monitor.fill(&mut used, monotonic_ns());
        let ended = used.ended.unwrap();
        let states = ended.iter().find(|threads| threads.name == "syncs").unwrap().seen.states;
        if states.disk_ns + states.lock_ns < states.running_ns {
            return crate::reasons::not_run("waits of syncs: temporary files are in memory");
        }
        assert!(states.disk_ns > states.lock_ns, "{states:?}");
    }

    /// A peek returns bytes that a later call returns again.
    #[test]
    fn peeked_bytes_are_not_read() {
        const BYTES: usize = 10_000;
        let _observed = OBSERVED.lock();
        let choice = ObservationChoice { calls: CallCounting::Every, ..Default::default() };
        let Some(observer) = ProcessObserver::load(choice).ok().filter(|o| o.refusal().is_none())
        else {
            return crate::reasons::not_run("bytes of a peek: this user cannot load a program");
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[1; BYTES]).unwrap();
        let monitor = observer.watch(std::process::id()).unwrap();
        let calls = || {
            let mut mechanism = observer.lock();
            let calls = mechanism.calls(monitor.party).unwrap();
            calls.by_name.get("recvfrom").cloned().unwrap_or_default()
        };
        let set_counting = |is_counting: bool| {
            let mut mechanism = observer.lock();
            mechanism.set_armed(is_counting).unwrap();
            mechanism.set_counting(is_counting).unwrap();
        };
        let before = calls();
        set_counting(true);
        let mut body = [0; BYTES];
        while receiver.peek(&mut body).unwrap() < BYTES {}
        (0..100).for_each(|_| assert_eq!(receiver.peek(&mut body).unwrap(), BYTES));
        receiver.read_exact(&mut body).unwrap();
        set_counting(false);
        let after = calls();
        assert!(after.count - before.count > 100);
        let read = after.returned.unwrap() - before.returned.unwrap_or(0);
        // Other tests of this process may read as well.
        assert!((BYTES as u64..50 * BYTES as u64).contains(&read), "{read}");
    }

    #[test]
    fn max_calls_on_cpu_sums_all_parties() {
        let calls =
            |by_cpu: &[u64]| CallCounts { by_cpu: by_cpu.to_vec(), ..CallCounts::default() };
        let before = [calls(&[10, 100]), calls(&[0, 5])];
        let now = [calls(&[15, 102]), calls(&[1, 9])];
        assert_eq!(max_calls_on_cpu(&before, &now), 6);
        assert_eq!(max_calls_on_cpu(&[], &[calls(&[3, 0])]), 3);
        assert_eq!(max_calls_on_cpu(&[], &[]), 0);
    }
}
