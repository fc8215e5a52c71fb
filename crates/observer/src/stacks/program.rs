//! Loads and attaches the eBPF program `bpf/stacks.bpf.c`, and reads the stacks that it copied.
//! Layouts of values are defined in both files and must agree.

use std::io::Read as _;

use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::perf_event::{
    PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::programs::{Iter, PerfEvent};
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};

use crate::kernel::{ProgramError, map};

static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/stacks.bpf.o");

const RUNNING: &str = "stacks_running";
const WAITING: &str = "stacks_waiting";

const KERNEL_FRAMES: usize = 64;
const STACK_BYTES: usize = 32 * 1024;
/// `struct stack`.
const RECORD_BYTES: usize = 8 + 8 + 16 + 3 * 8 + 2 * 8 + KERNEL_FRAMES * 8 + STACK_BYTES;

/// Maximum number of records in the ring buffer `stacks`, which has 32 MiB.
const MAX_RECORDS: usize = 32 * 1024 * 1024 / RECORD_BYTES;

/// Keys of the lost stacks in `counts`: of running threads, and of waiting ones.
const LOST_KEYS: [u32; 2] = [1, 3];

/// State of a thread when its stack was taken: `kind` of `struct stack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SampledState {
    Running,
    /// Ready to run, but without a CPU.
    Runnable,
    Waiting,
}

/// A stack as it was copied from memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawStack<'a> {
    pub(super) state: SampledState,
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// Name of the thread, 15 bytes at most and then NUL.
    pub(super) name: &'a [u8],
    /// Registers at the time when the thread left user space.
    pub(super) ip: u64,
    pub(super) sp: u64,
    pub(super) bp: u64,
    /// Addresses in the kernel, the innermost first; empty for a thread that ran in user space.
    kernel: &'a [u8],
    /// User stack memory, from `sp` upwards.
    pub(super) user: &'a [u8],
}

impl<'a> RawStack<'a> {
    /// Parses a record of the kernel. `None`: the record has another size or an unknown state.
    fn parse(record: &'a [u8]) -> Option<RawStack<'a>> {
        let record: &[u8; RECORD_BYTES] = record.try_into().ok()?;
        let word =
            |at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes"));
        let state = match word(0) {
            0 => SampledState::Running,
            1 => SampledState::Runnable,
            2 => SampledState::Waiting,
            _ => return None,
        };
        let half =
            |at: usize| u32::from_ne_bytes(record[at..at + 4].try_into().expect("four bytes"));
        let (ip, sp, bp) = (word(32), word(40), word(48));
        let (frames, bytes) = (word(56) as usize, word(64) as usize);
        let (kernel, user) = record[72..].split_at(KERNEL_FRAMES * 8);
        Some(RawStack {
            state,
            pid: half(8),
            tid: half(12),
            name: &record[16..32],
            ip,
            sp,
            bp,
            kernel: kernel.get(..frames * 8)?,
            user: user.get(..bytes)?,
        })
    }

    pub(super) fn kernel(&self) -> impl Iterator<Item = u64> {
        self.kernel
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
    }

    /// Reads a word of the user stack. `None`: the word was not copied.
    pub(super) fn read(&self, address: u64) -> Option<u64> {
        let from = usize::try_from(address.checked_sub(self.sp)?).ok()?;
        let word = self.user.get(from..from.checked_add(8)?)?;
        Some(u64::from_ne_bytes(word.try_into().expect("eight bytes")))
    }
}

/// The loaded program. The kernel detaches it when this value is dropped, or when this process ends
/// for any reason.
#[allow(missing_debug_implementations)] // Its maps have none.
pub(super) struct StackProgram {
    ebpf: Ebpf,
    watched: HashMap<MapData, u32, u64>,
    stacks: RingBuf<MapData>,
    counts: Array<MapData, u64>,
    clocks: Vec<PerfEventLinkId>,
}

impl StackProgram {
    /// Loads the program without attaching it.
    ///
    /// # Errors
    /// The kernel has no type information (BTF), refuses the program, or lacks a feature.
    pub(super) fn load() -> Result<StackProgram, ProgramError> {
        let btf = Btf::from_sys_fs().map_err(ProgramError::new)?;
        let mut ebpf = EbpfLoader::new().btf(Some(&btf)).load(OBJECT).map_err(ProgramError::new)?;
        running(&mut ebpf)?.load().map_err(ProgramError::new)?;
        waiting(&mut ebpf)?.load("task", &btf).map_err(ProgramError::new)?;
        Ok(StackProgram {
            watched: HashMap::try_from(map(&mut ebpf, "watched")?).map_err(ProgramError::new)?,
            stacks: RingBuf::try_from(map(&mut ebpf, "stacks")?).map_err(ProgramError::new)?,
            counts: Array::try_from(map(&mut ebpf, "counts")?).map_err(ProgramError::new)?,
            ebpf,
            clocks: Vec::new(),
        })
    }

    /// Adds a process to the sampled processes. Its child processes are not added.
    pub(super) fn watch(&mut self, pid: u32) -> Result<(), ProgramError> {
        self.watched.insert(pid, 0, 0).map_err(ProgramError::new)
    }

    /// Begins to sample the running threads of these CPUs, once per period of CPU time.
    pub(super) fn start_clocks(
        &mut self,
        cpus: &[u32],
        period_ns: u64,
    ) -> Result<(), ProgramError> {
        let program = running(&mut self.ebpf)?;
        for cpu in cpus {
            let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
            let scope = PerfEventScope::AllProcessesOneCpu { cpu: *cpu };
            let clock = program.attach(clock, scope, SamplePolicy::Period(period_ns), false);
            self.clocks.push(clock.map_err(ProgramError::new)?);
        }
        Ok(())
    }

    /// Stops sampling running threads.
    pub(super) fn stop(&mut self) -> Result<(), ProgramError> {
        let program = running(&mut self.ebpf)?;
        self.clocks.drain(..).try_for_each(|clock| program.detach(clock)).map_err(ProgramError::new)
    }

    /// Samples all threads that are not running now. Passes stacks to `consume` during the
    /// sampling, before the ring buffer is full.
    pub(super) fn sample_waiting(
        &mut self,
        consume: &mut dyn FnMut(&RawStack<'_>),
    ) -> Result<(), ProgramError> {
        let program = waiting(&mut self.ebpf)?;
        let link = program.attach().map_err(ProgramError::new)?;
        let link = program.take_link(link).map_err(ProgramError::new)?;
        let mut threads = link.into_file().map_err(ProgramError::new)?;
        // Reading makes the kernel iterate over the threads and write a byte per stack. The ring
        // buffer has room for about 900 stacks, so it is emptied after each 256.
        let mut marks = [0; 256];
        while threads.read(&mut marks).map_err(ProgramError::new)? > 0 {
            self.drain(consume);
        }
        self.drain(consume);
        Ok(())
    }

    /// Passes the copied stacks to `consume`.
    pub(super) fn drain(&mut self, consume: &mut dyn FnMut(&RawStack<'_>)) {
        // The loop is bounded, so that it ends even if stacks arrive faster than they are consumed.
        for _ in 0..MAX_RECORDS {
            let Some(record) = self.stacks.next() else { return };
            if let Some(raw) = RawStack::parse(&record) {
                consume(&raw);
            }
        }
    }

    /// Returns the number of stacks for which there was no room: of running threads, and of waiting
    /// ones.
    pub(super) fn lost_stacks(&self) -> [u64; 2] {
        LOST_KEYS.map(|key| self.counts.get(&key, 0).unwrap_or(0))
    }
}

fn running(ebpf: &mut Ebpf) -> Result<&mut PerfEvent, ProgramError> {
    ebpf.program_mut(RUNNING)
        .ok_or_else(|| ProgramError::missing_part(RUNNING))?
        .try_into()
        .map_err(ProgramError::new)
}

fn waiting(ebpf: &mut Ebpf) -> Result<&mut Iter, ProgramError> {
    ebpf.program_mut(WAITING)
        .ok_or_else(|| ProgramError::missing_part(WAITING))?
        .try_into()
        .map_err(ProgramError::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_object_matches_source() {
        crate::kernel::tests::check_source(
            "stacks.bpf",
            include_bytes!("../../bpf/stacks.bpf.c"),
            OBJECT,
            include_str!("../../bpf/stacks.bpf.sha256"),
        );
    }

    #[test]
    fn record_is_parsed_by_kernel_layout() {
        let mut record = vec![0u8; RECORD_BYTES];
        let mut put =
            |at: usize, word: u64| record[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        put(0, 2);
        put(8, 7 | 9 << 32);
        put(16, u64::from_ne_bytes(*b"worker\0\0"));
        put(32, 0x1111);
        put(40, 0x7000);
        put(48, 0x7100);
        put(56, 2);
        put(64, 16);
        put(72, 0xffff_0001);
        put(80, 0xffff_0002);
        put(72 + KERNEL_FRAMES * 8, 41);
        put(80 + KERNEL_FRAMES * 8, 42);
        let raw = RawStack::parse(&record).unwrap();
        assert_eq!((raw.state, raw.pid, raw.tid), (SampledState::Waiting, 7, 9));
        assert!(raw.name.starts_with(b"worker\0"));
        assert_eq!((raw.ip, raw.sp, raw.bp), (0x1111, 0x7000, 0x7100));
        assert_eq!(raw.kernel().collect::<Vec<_>>(), [0xffff_0001, 0xffff_0002]);
        let fields = [0x6ff8, 0x7000, 0x7008, 0x7009, 0x7010].map(|at| raw.read(at));
        assert_eq!(fields, [None, Some(41), Some(42), None, None]);
        assert!(RawStack::parse(&record[1..]).is_none(), "a record of another size");
        record[0] = 9;
        assert!(RawStack::parse(&record).is_none(), "an unknown state");
    }
}
