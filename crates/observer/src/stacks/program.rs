//! The program in the kernel, `bpf/stacks.bpf.c`: loads it, attaches it and reads its stacks. Both
//! files define the layouts of its values.

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
const STACK: usize = 32 * 1024;
/// `struct stack`.
const RECORD: usize = 8 + 8 + 16 + 3 * 8 + 2 * 8 + KERNEL_FRAMES * 8 + STACK;

/// Records that `stacks` has room for.
const ROOM: usize = 32 * 1024 * 1024 / RECORD;

/// Keys of `counts`: of running threads, and of the others.
const LOST: [u32; 2] = [1, 3];

/// State of a thread when its stack was taken: `kind` of `struct stack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SampledState {
    Running,
    /// Nothing, for want of a CPU.
    Runnable,
    Waiting,
}

/// A stack as it lay in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<'a> {
    pub(super) doing: SampledState,
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// Name of the thread, 15 bytes at most and then NUL.
    pub(super) name: &'a [u8],
    /// Registers as the thread left user space.
    pub(super) ip: u64,
    pub(super) sp: u64,
    pub(super) bp: u64,
    /// Addresses in the kernel, the innermost first; none of a thread that ran in user space.
    kernel: &'a [u8],
    /// Memory from `sp` on, upwards.
    pub(super) user: &'a [u8],
}

impl<'a> Raw<'a> {
    /// `None`: it is no such record.
    fn parse(record: &'a [u8]) -> Option<Raw<'a>> {
        let record: &[u8; RECORD] = record.try_into().ok()?;
        let word =
            |at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes"));
        let doing = match word(0) {
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
        Some(Raw {
            doing,
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

    /// A word of the user stack; `None`: it was not copied.
    pub(super) fn read(&self, at: u64) -> Option<u64> {
        let from = usize::try_from(at.checked_sub(self.sp)?).ok()?;
        let word = self.user.get(from..from.checked_add(8)?)?;
        Some(u64::from_ne_bytes(word.try_into().expect("eight bytes")))
    }
}

/// The loaded program. Whatever it attached is detached when this is dropped, or when this process
/// ends, however it ends.
#[allow(missing_debug_implementations)] // Its maps have none.
pub(super) struct StackProgram {
    ebpf: Ebpf,
    watched: HashMap<MapData, u32, u64>,
    stacks: RingBuf<MapData>,
    counts: Array<MapData, u64>,
    clocks: Vec<PerfEventLinkId>,
}

impl StackProgram {
    /// # Errors
    /// The kernel has no types (BTF) to show, does not let us, or lacks something; as it says.
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

    /// Has stacks of this process taken, and of no thread that it starts as a process of its own.
    pub(super) fn watch(&mut self, pid: u32) -> Result<(), ProgramError> {
        self.watched.insert(pid, 0, 0).map_err(ProgramError::new)
    }

    /// Takes the stack of whatever runs on these CPUs each time that so much of their time has
    /// passed.
    pub(super) fn tick(&mut self, cpus: &[u32], period_ns: u64) -> Result<(), ProgramError> {
        let program = running(&mut self.ebpf)?;
        for cpu in cpus {
            let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
            let scope = PerfEventScope::AllProcessesOneCpu { cpu: *cpu };
            let clock = program.attach(clock, scope, SamplePolicy::Period(period_ns), false);
            self.clocks.push(clock.map_err(ProgramError::new)?);
        }
        Ok(())
    }

    /// Takes no more stacks.
    pub(super) fn stop(&mut self) -> Result<(), ProgramError> {
        let program = running(&mut self.ebpf)?;
        self.clocks.drain(..).try_for_each(|clock| program.detach(clock)).map_err(ProgramError::new)
    }

    /// Takes the stacks of all threads that do not run just now, and hands over what was taken
    /// whenever there are many.
    pub(super) fn take_waiting(
        &mut self,
        take: &mut dyn FnMut(&Raw<'_>),
    ) -> Result<(), ProgramError> {
        let program = waiting(&mut self.ebpf)?;
        let link = program.attach().map_err(ProgramError::new)?;
        let link = program.take_link(link).map_err(ProgramError::new)?;
        let mut threads = link.into_file().map_err(ProgramError::new)?;
        // Reading makes the kernel go through them. There is a byte for each, and room for some 900
        // in between.
        let mut marks = [0; 256];
        while threads.read(&mut marks).map_err(ProgramError::new)? > 0 {
            self.each(take);
        }
        self.each(take);
        Ok(())
    }

    /// Hands over the stacks that were taken.
    pub(super) fn each(&mut self, take: &mut dyn FnMut(&Raw<'_>)) {
        // No more than there is room for: where they come faster than they are taken, this ends all
        // the same.
        for _ in 0..ROOM {
            let Some(record) = self.stacks.next() else { return };
            if let Some(raw) = Raw::parse(&record) {
                take(&raw);
            }
        }
    }

    /// Stacks for which there was no room: of running threads, and of others.
    pub(super) fn lost_stacks(&self) -> [u64; 2] {
        LOST.map(|key| self.counts.get(&key, 0).unwrap_or(0))
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
    fn record_is_read_as_the_kernel_lays_it_out() {
        let mut record = vec![0u8; RECORD];
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
        let raw = Raw::parse(&record).unwrap();
        assert_eq!((raw.doing, raw.pid, raw.tid), (SampledState::Waiting, 7, 9));
        assert!(raw.name.starts_with(b"worker\0"));
        assert_eq!((raw.ip, raw.sp, raw.bp), (0x1111, 0x7000, 0x7100));
        assert_eq!(raw.kernel().collect::<Vec<_>>(), [0xffff_0001, 0xffff_0002]);
        let words = [0x6ff8, 0x7000, 0x7008, 0x7009, 0x7010].map(|at| raw.read(at));
        assert_eq!(words, [None, Some(41), Some(42), None, None]);
        assert!(Raw::parse(&record[1..]).is_none(), "a record of another size");
        record[0] = 9;
        assert!(Raw::parse(&record).is_none(), "nothing that a thread does");
    }
}
