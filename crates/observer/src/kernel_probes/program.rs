//! The program in the kernel, `bpf/inside.bpf.c`: loads it, and reads and writes its maps. Both
//! files define the layouts of its values.

use std::collections::BTreeMap;

use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use aya::programs::BtfTracePoint;
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};
use dyno_archive::sample::{
    CallUse, EndedThreads, ModeTimes, SchedulerRecord, StateTimes, ThreadState,
};
use dyno_archive::syscall::amount;

use super::calls::{self, CALLS};
use super::{CallCounting, ObservationChoice};
use crate::clock::monotonic_ns;
use crate::kernel::{ProgramError, map};

/// Most parties that can be monitored at once.
pub(super) const PARTIES: u64 = 16;

static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/inside.bpf.o");

/// Programs that know which processes are watched: whatever they start, until it ends.
const PROCESSES: [(&str, &str); 2] =
    [("inside_fork", "sched_process_fork"), ("inside_exit", "sched_process_exit")];

/// Programs that keep account of threads, and the tracepoints at which they run.
const THREADS: [(&str, &str); 3] = [
    ("inside_switch", "sched_switch"),
    ("inside_wakeup", "sched_wakeup"),
    ("inside_migrate", "sched_migrate_task"),
];

/// Programs that distinguish user time from system time.
const MODES: [(&str, &str); 2] = [("inside_enter", "sys_enter"), ("inside_leave", "sys_exit")];

/// The program that counts system calls.
const COUNTS: (&str, &str) = ("inside_calls", "sys_exit");

const WORDS_OF_STATES: usize = ThreadState::ALL.len();
const WORDS_OF_SUMS: usize = WORDS_OF_STATES + 6;
const WORDS_OF_CALL: usize = 4;

/// `struct thread`.
type Thread = [u64; WORDS_OF_SUMS + 7];
/// `struct sums`.
type Sums = [u64; WORDS_OF_SUMS];
/// `struct party_calls`.
type PartyCalls = [u64; CALLS * WORDS_OF_CALL];
/// `struct name`: the party, and 16 bytes of a name.
type Name = [u64; 3];

/// Keys of `facts`.
const COUNTING: u32 = 0;
const LOST: u32 = 1;

/// The programs that run all the time, with their tracepoints.
fn always(wanted: ObservationChoice) -> impl Iterator<Item = (&'static str, &'static str)> {
    let these = |all: &'static [(&str, &str)], is: bool| all.iter().copied().filter(move |_| is);
    these(&PROCESSES, true)
        .chain(these(&THREADS, wanted.threads()))
        .chain(these(&MODES, wanted.modes))
}

/// The loaded program. Whatever it attached is detached when this is dropped, or when this process
/// ends, however it ends: the kernel holds it by our file descriptors alone.
#[allow(missing_debug_implementations)] // Maps of arrays have none.
pub(super) struct ObserverProgram {
    ebpf: Ebpf,
    watched: HashMap<MapData, u32, [u64; 2]>,
    threads: HashMap<MapData, u32, Thread>,
    ended: HashMap<MapData, Name, Sums>,
    calls: PerCpuArray<MapData, PartyCalls>,
    facts: Array<MapData, u64>,
    counts: Option<BtfTracePointLinkId>,
    /// Links of the programs that run all the time, with their names.
    always: Vec<(&'static str, BtfTracePointLinkId)>,
    wanted: ObservationChoice,
    /// Which places of parties are taken.
    places: [bool; PARTIES as usize],
}

impl ObserverProgram {
    /// Loads it, and attaches what is to run all the time.
    ///
    /// # Errors
    /// The kernel has no types (BTF) to show, does not let us, or lacks something; as it says.
    pub(super) fn load(wanted: ObservationChoice) -> Result<ObserverProgram, ProgramError> {
        let btf = Btf::from_sys_fs().map_err(ProgramError::new)?;
        let mut ebpf = EbpfLoader::new().btf(Some(&btf)).load(OBJECT).map_err(ProgramError::new)?;
        let mut waits =
            Array::<_, u64>::try_from(map(&mut ebpf, "waits")?).map_err(ProgramError::new)?;
        for (number, state) in calls::waits().enumerate() {
            waits.set(number as u32, state as u64, 0).map_err(ProgramError::new)?;
        }
        let counts = (wanted.calls != CallCounting::None).then_some(COUNTS);
        for (name, at) in always(wanted).chain(counts) {
            tracepoint(&mut ebpf, name)?.load(at, &btf).map_err(ProgramError::new)?;
        }
        let mut program = ObserverProgram {
            watched: HashMap::try_from(map(&mut ebpf, "watched")?).map_err(ProgramError::new)?,
            threads: HashMap::try_from(map(&mut ebpf, "threads")?).map_err(ProgramError::new)?,
            ended: HashMap::try_from(map(&mut ebpf, "ended")?).map_err(ProgramError::new)?,
            calls: PerCpuArray::try_from(map(&mut ebpf, "calls")?).map_err(ProgramError::new)?,
            facts: Array::try_from(map(&mut ebpf, "facts")?).map_err(ProgramError::new)?,
            ebpf,
            counts: None,
            always: Vec::new(),
            wanted,
            places: [false; PARTIES as usize],
        };
        program.attach(true)?;
        Ok(program)
    }

    /// Attaches or detaches the programs that run all the time. The detached time of threads counts
    /// as the state before it.
    pub(super) fn attach(&mut self, on: bool) -> Result<(), ProgramError> {
        for (name, link) in self.always.drain(..) {
            tracepoint(&mut self.ebpf, name)?.detach(link).map_err(ProgramError::new)?;
        }
        for (name, _) in always(self.wanted).filter(|_| on) {
            let link = tracepoint(&mut self.ebpf, name)?.attach().map_err(ProgramError::new)?;
            self.always.push((name, link));
        }
        Ok(())
    }

    /// Takes a place for a party, until it is forgotten; `None`: there is none.
    pub(super) fn place(&mut self) -> Option<u64> {
        let place = self.places.iter().position(|taken| !taken)?;
        self.places[place] = true;
        Some(place as u64)
    }

    /// Watches a process, and those that it starts from now on, as a party's.
    pub(super) fn watch(&mut self, party: u64, pid: u32) -> Result<(), ProgramError> {
        // Time is counted from now on; earlier time is not.
        self.watched.insert(pid, [party, monotonic_ns()], 0).map_err(ProgramError::new)
    }

    /// Since when a process is watched; `None`: it is not.
    pub(super) fn watched_since(&self, pid: u32) -> Option<u64> {
        self.watched.get(&pid, 0).ok().map(|[_, since]| since)
    }

    /// A party's living processes.
    pub(super) fn pids(&self, party: u64) -> Vec<u32> {
        self.watched.iter().flatten().filter(|(_, of)| of[0] == party).map(|(pid, _)| pid).collect()
    }

    /// Forgets a party's processes and threads, and frees its place. Its system calls stay counted:
    /// who comes next takes them as its base.
    pub(super) fn forget(&mut self, party: u64) {
        self.places[party as usize] = false;
        for pid in self.pids(party) {
            // One that has ended meanwhile took itself off.
            let _ = self.watched.remove(&pid);
        }
        let of_party = |thread: &Thread| thread[1] == party;
        let tids: Vec<u32> = self
            .threads
            .iter()
            .flatten()
            .filter(|(_, t)| of_party(t))
            .map(|(tid, _)| tid)
            .collect();
        for tid in tids {
            let _ = self.threads.remove(&tid);
        }
        let names: Vec<Name> =
            self.ended.keys().flatten().filter(|name| name[0] == party).collect();
        for name in names {
            let _ = self.ended.remove(&name);
        }
    }

    /// Attaches what counts system calls, or takes it off: while it is off, they cost nothing.
    /// Takes a while.
    pub(super) fn arm(&mut self, on: bool) -> Result<(), ProgramError> {
        let program = tracepoint(&mut self.ebpf, COUNTS.0)?;
        match (on, self.counts.take()) {
            (true, None) => self.counts = Some(program.attach().map_err(ProgramError::new)?),
            (false, Some(link)) => program.detach(link).map_err(ProgramError::new)?,
            (_, as_is) => self.counts = as_is,
        }
        Ok(())
    }

    /// Has what is attached count, or not. Takes no time.
    pub(super) fn count(&mut self, on: bool) -> Result<(), ProgramError> {
        self.facts.set(COUNTING, u64::from(on), 0).map_err(ProgramError::new)
    }

    /// A party's system calls that were counted.
    pub(super) fn calls(&self, party: u64) -> Result<CallCounts, ProgramError> {
        let of_cpus = self.calls.get(&(party as u32), 0).map_err(ProgramError::new)?;
        let mut counted = CallCounts::default();
        for of_cpu in of_cpus.iter() {
            let mut on_cpu = 0;
            for (number, of) in
                of_cpu.chunks_exact(WORDS_OF_CALL).enumerate().filter(|(_, of)| of[0] > 0)
            {
                let name = calls::name(number);
                let call = counted.by_name.entry(name.into()).or_default();
                // Sums of addresses and descriptors say nothing.
                let returned = Some(amount(name).map_or(0, |_| of[3]));
                call.add(&CallUse {
                    count: of[0],
                    errors: Some(of[1]),
                    again: Some(of[2]),
                    returned,
                });
                on_cpu += of[0];
            }
            counted.of_cpus.push(on_cpu);
        }
        Ok(counted)
    }

    /// State times of a thread up to `now`; `None`: it has not been seen yet.
    pub(super) fn thread(&self, tid: u32, now: u64) -> Option<SchedulerRecord> {
        const TRIES: usize = 8;
        for _ in 0..TRIES {
            let thread = self.threads.get(&tid, 0).ok()?;
            let [done, _, state, since, in_kernel, mode_since, sums @ .., begun] = &thread;
            // Else it was being written.
            if done == begun {
                let mut seen = self.scheduler_record(sums);
                let state =
                    ThreadState::ALL.get(*state as usize).copied().unwrap_or(ThreadState::Other);
                // The state since the last change counts up to now.
                seen.states.add(state, now.saturating_sub(*since));
                if let Some(modes) = seen.modes.as_mut().filter(|_| state == ThreadState::Running) {
                    let ns = now.saturating_sub(*mode_since);
                    *(if *in_kernel == 1 { &mut modes.sys_ns } else { &mut modes.user_ns }) += ns;
                }
                return Some(seen);
            }
        }
        None
    }

    /// A party's threads that have ended, by name.
    pub(super) fn ended_threads(&self, party: u64) -> Vec<EndedThreads> {
        let of_party = self.ended.iter().flatten().filter(|(name, _)| name[0] == party);
        let ended = |(name, sums): (Name, Sums)| EndedThreads {
            name: text(&name[1..]),
            threads: sums[WORDS_OF_SUMS - 1],
            run_ns: Some(sums[WORDS_OF_SUMS - 2]),
            seen: self.scheduler_record(&sums),
        };
        let mut all: Vec<EndedThreads> = of_party.map(ended).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Threads for which there was no room, or which shared no name with others for which there
    /// was.
    pub(super) fn lost_threads(&self) -> u64 {
        self.facts.get(&LOST, 0).unwrap_or(0)
    }

    fn scheduler_record(&self, sums: &[u64]) -> SchedulerRecord {
        let mut states = StateTimes::default();
        ThreadState::ALL.iter().zip(sums).for_each(|(state, ns)| states.add(*state, *ns));
        let [wakeups, migrations, user_ns, sys_ns, ..] = sums[WORDS_OF_STATES..] else {
            unreachable!("both are parts of arrays of a set length")
        };
        let modes = self.wanted.modes.then_some(ModeTimes { user_ns, sys_ns });
        SchedulerRecord { states, wakeups, migrations, modes }
    }
}

/// System calls since the program was loaded.
#[derive(Clone, Debug, Default)]
pub(super) struct CallCounts {
    pub(super) by_name: BTreeMap<String, CallUse>,
    /// All of them, by the CPU on which they were made.
    pub(super) of_cpus: Vec<u64>,
}

fn tracepoint<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, ProgramError> {
    ebpf.program_mut(name)
        .ok_or_else(|| ProgramError::missing_part(name))?
        .try_into()
        .map_err(ProgramError::new)
}

/// A text that ends with its first NUL.
fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_object_matches_source() {
        crate::kernel::tests::check_source(
            "inside.bpf",
            include_bytes!("../../bpf/inside.bpf.c"),
            OBJECT,
            include_str!("../../bpf/inside.bpf.sha256"),
        );
    }

    #[test]
    fn name_ends_with_its_first_nul() {
        let words = [u64::from_ne_bytes(*b"C2 Compi"), u64::from_ne_bytes(*b"lerThre\0")];
        assert_eq!(text(&words), "C2 CompilerThre");
        assert_eq!(text(&[u64::from_ne_bytes(*b"ab\0cdefg"), 7]), "ab");
    }
}
