//! Loads the eBPF program `bpf/inside.bpf.c`, and reads and writes its maps. Layouts of values are
//! defined in both files and must agree.

use std::collections::BTreeMap;

use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use aya::programs::BtfTracePoint;
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};
use dyno_model::sample::{
    CallUse, EndedThreads, ModeTimes, SchedulerRecord, StateTimes, ThreadState,
};
use dyno_model::syscall::returned_amount;

use super::calls::{self, CALLS};
use super::{CallCounting, ObservationChoice};
use crate::clock::monotonic_ns;
use crate::kernel::{ProgramError, map};

/// Maximum number of parties that can be monitored concurrently.
pub(super) const PARTIES: u64 = 16;

static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/inside.bpf.o");

/// Programs that add child processes of watched ones and remove ended processes, each with its
/// tracepoint.
const PROCESS_PROGRAMS: [(&str, &str); 2] =
    [("inside_fork", "sched_process_fork"), ("inside_exit", "sched_process_exit")];

/// Programs that record the states of threads, each with its tracepoint.
const THREAD_PROGRAMS: [(&str, &str); 3] = [
    ("inside_switch", "sched_switch"),
    ("inside_wakeup", "sched_wakeup"),
    ("inside_migrate", "sched_migrate_task"),
];

/// Programs that distinguish user time from system time, each with its tracepoint.
const MODE_PROGRAMS: [(&str, &str); 2] =
    [("inside_enter", "sys_enter"), ("inside_leave", "sys_exit")];

/// The program that counts system calls, with its tracepoint.
const CALL_PROGRAM: (&str, &str) = ("inside_calls", "sys_exit");

/// Length of the times by thread state in the structures below, in words of 64 bits.
const STATE_WORDS: usize = ThreadState::ALL.len();

/// Length of [`Sums`], in words of 64 bits.
const SUM_WORDS: usize = STATE_WORDS + 6;

/// Length of the counters of one system call in [`PartyCalls`], in words of 64 bits.
const CALL_WORDS: usize = 4;

/// `struct thread`.
type Thread = [u64; SUM_WORDS + 7];
/// `struct sums`.
type Sums = [u64; SUM_WORDS];
/// `struct party_calls`.
type PartyCalls = [u64; CALLS * CALL_WORDS];
/// `struct name`: the party, and 16 bytes of a name.
type Name = [u64; 3];

/// Key of `facts`: whether system calls are counted.
const COUNTING: u32 = 0;

/// Key of `facts`: the number of threads for which a map had no room.
const LOST: u32 = 1;

/// Selects the programs that run permanently, each with its tracepoint.
fn permanent_programs(
    choice: ObservationChoice,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let selected = |programs: &'static [(&str, &str)], is_selected: bool| {
        programs.iter().copied().filter(move |_| is_selected)
    };
    selected(&PROCESS_PROGRAMS, true)
        .chain(selected(&THREAD_PROGRAMS, choice.includes_threads()))
        .chain(selected(&MODE_PROGRAMS, choice.modes))
}

/// The loaded program. Only file descriptors of this process refer to the program. The kernel
/// therefore detaches it when this value is dropped, or when this process ends for any reason.
#[allow(missing_debug_implementations)] // Maps of arrays have none.
pub(super) struct ObserverProgram {
    ebpf: Ebpf,
    watched: HashMap<MapData, u32, [u64; 2]>,
    threads: HashMap<MapData, u32, Thread>,
    ended: HashMap<MapData, Name, Sums>,
    calls: PerCpuArray<MapData, PartyCalls>,
    facts: Array<MapData, u64>,
    /// Link of the program that counts calls, while it is attached.
    call_link: Option<BtfTracePointLinkId>,
    /// Names and links of the permanent programs, while they are attached.
    permanent_links: Vec<(&'static str, BtfTracePointLinkId)>,
    choice: ObservationChoice,
    /// Whether each number of a party is in use.
    used_numbers: [bool; PARTIES as usize],
}

impl ObserverProgram {
    /// Loads the program, and attaches its permanent parts.
    ///
    /// # Errors
    /// The kernel has no type information (BTF), refuses the program, or lacks a feature.
    pub(super) fn load(choice: ObservationChoice) -> Result<ObserverProgram, ProgramError> {
        let btf = Btf::from_sys_fs().map_err(ProgramError::new)?;
        let mut ebpf = EbpfLoader::new().btf(Some(&btf)).load(OBJECT).map_err(ProgramError::new)?;
        let mut waits =
            Array::<_, u64>::try_from(map(&mut ebpf, "waits")?).map_err(ProgramError::new)?;
        for (number, state) in calls::wait_states().enumerate() {
            waits.set(number as u32, state as u64, 0).map_err(ProgramError::new)?;
        }
        let call_program = (choice.calls != CallCounting::None).then_some(CALL_PROGRAM);
        for (name, point) in permanent_programs(choice).chain(call_program) {
            tracepoint(&mut ebpf, name)?.load(point, &btf).map_err(ProgramError::new)?;
        }
        let mut program = ObserverProgram {
            watched: HashMap::try_from(map(&mut ebpf, "watched")?).map_err(ProgramError::new)?,
            threads: HashMap::try_from(map(&mut ebpf, "threads")?).map_err(ProgramError::new)?,
            ended: HashMap::try_from(map(&mut ebpf, "ended")?).map_err(ProgramError::new)?,
            calls: PerCpuArray::try_from(map(&mut ebpf, "calls")?).map_err(ProgramError::new)?,
            facts: Array::try_from(map(&mut ebpf, "facts")?).map_err(ProgramError::new)?,
            ebpf,
            call_link: None,
            permanent_links: Vec::new(),
            choice,
            used_numbers: [false; PARTIES as usize],
        };
        program.set_attached(true)?;
        Ok(program)
    }

    /// Attaches or detaches the permanent programs. While they are detached, all time is added to
    /// the last known state of each thread.
    pub(super) fn set_attached(&mut self, is_attached: bool) -> Result<(), ProgramError> {
        for (name, link) in self.permanent_links.drain(..) {
            tracepoint(&mut self.ebpf, name)?.detach(link).map_err(ProgramError::new)?;
        }
        if !is_attached {
            return Ok(());
        }
        for (name, _) in permanent_programs(self.choice) {
            let link = tracepoint(&mut self.ebpf, name)?.attach().map_err(ProgramError::new)?;
            self.permanent_links.push((name, link));
        }
        Ok(())
    }

    /// Reserves the number of a party until the party is forgotten. `None`: all numbers are in use.
    pub(super) fn reserve_party(&mut self) -> Option<u64> {
        let party = self.used_numbers.iter().position(|is_used| !is_used)?;
        self.used_numbers[party] = true;
        Some(party as u64)
    }

    /// Begins to watch a process of a party, and the processes that it starts from now on.
    pub(super) fn watch(&mut self, party: u64, pid: u32) -> Result<(), ProgramError> {
        // The instant is recorded, because the states of the process's threads are known only from
        // then on.
        self.watched.insert(pid, [party, monotonic_ns()], 0).map_err(ProgramError::new)
    }

    /// Returns the instant at which the watching of a process began, nanoseconds of the monotonic
    /// clock. `None`: the process is not watched.
    pub(super) fn watched_since(&self, pid: u32) -> Option<u64> {
        self.watched.get(&pid, 0).ok().map(|[_, since_ns]| since_ns)
    }

    /// Returns the living processes of a party.
    pub(super) fn pids(&self, party: u64) -> Vec<u32> {
        let processes = self.watched.iter().flatten().filter(|(_, value)| value[0] == party);
        processes.map(|(pid, _)| pid).collect()
    }

    /// Removes a party's processes and threads, and frees its number. The counts of its system
    /// calls remain, and are subtracted for the next party with this number.
    pub(super) fn forget(&mut self, party: u64) {
        self.used_numbers[party as usize] = false;
        for pid in self.pids(party) {
            // Fails if the process has ended: the kernel's program has then removed it.
            let _ = self.watched.remove(&pid);
        }
        let threads = self.threads.iter().flatten().filter(|(_, thread)| thread[1] == party);
        let tids: Vec<u32> = threads.map(|(tid, _)| tid).collect();
        for tid in tids {
            let _ = self.threads.remove(&tid);
        }
        let names: Vec<Name> =
            self.ended.keys().flatten().filter(|name| name[0] == party).collect();
        for name in names {
            let _ = self.ended.remove(&name);
        }
    }

    /// Attaches or detaches the program that counts system calls. While it is detached, calls cost
    /// nothing extra. Takes some time.
    pub(super) fn set_armed(&mut self, is_armed: bool) -> Result<(), ProgramError> {
        let program = tracepoint(&mut self.ebpf, CALL_PROGRAM.0)?;
        match (is_armed, self.call_link.take()) {
            (true, None) => self.call_link = Some(program.attach().map_err(ProgramError::new)?),
            (false, Some(link)) => program.detach(link).map_err(ProgramError::new)?,
            (_, unchanged) => self.call_link = unchanged,
        }
        Ok(())
    }

    /// Starts or stops the counting of the attached program, without delay.
    pub(super) fn set_counting(&mut self, is_counting: bool) -> Result<(), ProgramError> {
        self.facts.set(COUNTING, u64::from(is_counting), 0).map_err(ProgramError::new)
    }

    /// Returns a party's system calls so far.
    pub(super) fn calls(&self, party: u64) -> Result<CallCounts, ProgramError> {
        let party_calls = self.calls.get(&(party as u32), 0).map_err(ProgramError::new)?;
        let mut counts = CallCounts::default();
        for cpu_calls in party_calls.iter() {
            let mut on_cpu = 0;
            let calls = cpu_calls.chunks_exact(CALL_WORDS).enumerate();
            for (number, fields) in calls.filter(|(_, fields)| fields[0] > 0) {
                let name = calls::name(number);
                let call = counts.by_name.entry(name.into()).or_default();
                // Sums of returned addresses and descriptors have no meaning.
                let returned = Some(returned_amount(name).map_or(0, |_| fields[3]));
                call.add(&CallUse {
                    count: fields[0],
                    errors: Some(fields[1]),
                    again: Some(fields[2]),
                    returned,
                });
                on_cpu += fields[0];
            }
            counts.by_cpu.push(on_cpu);
        }
        Ok(counts)
    }

    /// Returns the state times of a thread up to `now_ns`. `None`: the kernel has no record of it
    /// yet.
    pub(super) fn thread(&self, tid: u32, now_ns: u64) -> Option<SchedulerRecord> {
        const TRIES: usize = 8;
        for _ in 0..TRIES {
            let thread = self.threads.get(&tid, 0).ok()?;
            let [
                writes_done,
                _,
                state,
                since_ns,
                in_kernel,
                mode_since_ns,
                sums @ ..,
                writes_begun,
            ] = &thread;
            // If the two numbers differ, the kernel was writing the record.
            if writes_done == writes_begun {
                let mut record = self.scheduler_record(sums);
                let state =
                    ThreadState::ALL.get(*state as usize).copied().unwrap_or(ThreadState::Other);
                // The sums end at the last change of state. The time since then is added here.
                record.states.add(state, now_ns.saturating_sub(*since_ns));
                if state == ThreadState::Running
                    && let Some(modes) = &mut record.modes
                {
                    let ns = now_ns.saturating_sub(*mode_since_ns);
                    if *in_kernel == 1 {
                        modes.sys_ns += ns;
                    } else {
                        modes.user_ns += ns;
                    }
                }
                return Some(record);
            }
        }
        None
    }

    /// Returns the totals of a party's ended threads, by name.
    pub(super) fn ended_threads(&self, party: u64) -> Vec<EndedThreads> {
        let party_entries = self.ended.iter().flatten().filter(|(name, _)| name[0] == party);
        let ended = |(name, sums): (Name, Sums)| EndedThreads {
            name: text(&name[1..]),
            threads: sums[SUM_WORDS - 1],
            run_ns: Some(sums[SUM_WORDS - 2]),
            seen: self.scheduler_record(&sums),
        };
        let mut totals: Vec<EndedThreads> = party_entries.map(ended).collect();
        totals.sort_by(|a, b| a.name.cmp(&b.name));
        totals
    }

    /// Returns the number of threads for which a map had no room: the map of living threads, or the
    /// map of the names of ended threads.
    pub(super) fn lost_threads(&self) -> u64 {
        self.facts.get(&LOST, 0).unwrap_or(0)
    }

    fn scheduler_record(&self, sums: &[u64]) -> SchedulerRecord {
        let mut states = StateTimes::default();
        ThreadState::ALL.iter().zip(sums).for_each(|(state, ns)| states.add(*state, *ns));
        let [wakeups, migrations, user_ns, sys_ns, ..] = sums[STATE_WORDS..] else {
            unreachable!("both callers pass parts of arrays of fixed length")
        };
        let modes = self.choice.modes.then_some(ModeTimes { user_ns, sys_ns });
        SchedulerRecord { states, wakeups, migrations, modes }
    }
}

/// System calls since the program was loaded.
#[derive(Clone, Debug, Default)]
pub(super) struct CallCounts {
    pub(super) by_name: BTreeMap<String, CallUse>,
    /// Number of all calls, by the CPU on which they were made.
    pub(super) by_cpu: Vec<u64>,
}

fn tracepoint<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, ProgramError> {
    ebpf.program_mut(name)
        .ok_or_else(|| ProgramError::missing_part(name))?
        .try_into()
        .map_err(ProgramError::new)
}

/// Converts words to the text before their first NUL.
fn text(fields: &[u64]) -> String {
    let bytes: Vec<u8> =
        fields.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
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
    fn text_ends_before_its_first_nul() {
        let fields = [u64::from_ne_bytes(*b"C2 Compi"), u64::from_ne_bytes(*b"lerThre\0")];
        assert_eq!(text(&fields), "C2 CompilerThre");
        assert_eq!(text(&[u64::from_ne_bytes(*b"ab\0cdefg"), 7]), "ab");
    }
}
