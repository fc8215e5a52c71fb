//! Sampled stacks of processes. CPU clocks sample running threads. All other threads are sampled at
//! intervals, so that the samples of a wait are proportional to its length. Nothing is done when a
//! thread begins or ends a wait.
//!
//! `program` copies stacks from memory, `unwind` finds their frames, `names` finds the functions.

mod names;
mod program;
mod unwind;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use blazesym::symbolize::Symbolizer;
use dyno_archive::limits::STACK_FRAMES;
use dyno_archive::profile::{Frame, Stack, Stacks};

use crate::clock::monotonic_ns;
use crate::kernel::{ProgramError, Refusal, check_support};
use crate::read;
use names::{FunctionNames, shorten};
use program::{Raw, SampledState, StackProgram};
use unwind::{Unwinder, UserStack};

/// CPU time between two samples of a CPU. A prime number of microseconds: it is not synchronous to
/// other periodic events.
const RUNNING_PERIOD_NS: u64 = 2_003_000;

/// Time between two samples of waiting threads. Prime, as above.
const WAITING_PERIOD: Duration = Duration::from_micros(19_997);

/// Samples of waiting threads between two searches for new processes.
const LOOKS_FOR_NEW: u64 = 5;

const NOT_THERE: &str = "Use Linux 5.18 or later with CONFIG_DEBUG_INFO_BTF and \
                         CONFIG_PERF_EVENTS, as distributions build it. Containers may forbid \
                         bpf(2) and perf_event_open(2).";

/// The eBPF program that samples stacks. It is unloaded when this is dropped.
#[allow(missing_debug_implementations)] // Its maps have none.
pub struct Sampling {
    program: StackProgram,
    unwinder: Unwinder,
    /// Names of processes.
    names: HashMap<u32, String>,
    seen: HashMap<SampledStack, u64>,
}

/// A stack, the key of a count of samples.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SampledStack {
    doing: SampledState,
    pid: u32,
    /// Whether it is the process's first thread.
    first: bool,
    thread: String,
    /// Addresses, the innermost first. Return addresses lie in the calling function.
    kernel: Vec<u64>,
    user: UserStack,
}

/// Sampled stacks, without names.
#[allow(missing_debug_implementations)] // It holds the files of the processes.
pub struct RawStacks {
    length_ns: u64,
    /// Number of samplings of waiting threads.
    looks: u64,
    /// Stacks that were dropped for lack of memory: of running threads, and of waiting ones.
    lost: [u64; 2],
    seen: HashMap<SampledStack, u64>,
    unwinder: Unwinder,
    names: HashMap<u32, String>,
}

/// Sampled stacks, with the names of their functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    pub length_ns: u64,
    pub frames: Vec<Frame>,
    pub running: Stacks,
    pub waiting: Stacks,
}

/// Returns why stacks are unavailable here. `None`: they are available.
#[must_use]
pub fn refusal() -> Option<Refusal> {
    Sampling::load().err()
}

impl Sampling {
    /// # Errors
    /// The kernel does not support it, or this user lacks the permission.
    pub fn load() -> Result<Sampling, Refusal> {
        check_support()?;
        let program =
            StackProgram::load().map_err(|error| Refusal::from_error(&error, NOT_THERE))?;
        Ok(Sampling {
            program,
            unwinder: Unwinder::default(),
            names: HashMap::new(),
            seen: HashMap::new(),
        })
    }

    /// Reads the mappings and binaries of processes before the sampling, so that reading does not
    /// disturb it.
    pub fn know(&mut self, pids: &[u32]) {
        for pid in pids {
            self.unwinder.know(*pid);
            let name = || Some(shorten(read(format!("/proc/{pid}/comm"))?.trim_end()));
            if !self.names.contains_key(pid)
                && let Some(name) = name()
            {
                self.names.insert(*pid, name);
            }
        }
    }

    /// Samples stacks until `wait` returns true. `pids` returns the present processes. `edge` is
    /// called when the sampling begins and ends. `wait` sleeps.
    ///
    /// # Errors
    /// The kernel does not sample stacks; as a sentence.
    pub fn run(
        mut self,
        pids: &dyn Fn() -> Vec<u32>,
        edge: &mut dyn FnMut(),
        wait: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<RawStacks, String> {
        let (length_ns, looks) = self.take(pids, edge, wait).map_err(|error| error.message)?;
        self.collect();
        let Sampling { program, unwinder, names, seen } = self;
        Ok(RawStacks { length_ns, looks, lost: program.lost_stacks(), seen, unwinder, names })
    }

    /// Returns the length of the sampling, and the number of samplings of waiting threads.
    fn take(
        &mut self,
        pids: &dyn Fn() -> Vec<u32>,
        edge: &mut dyn FnMut(),
        wait: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<(u64, u64), ProgramError> {
        self.watch(&pids())?;
        self.program.tick(&online(), RUNNING_PERIOD_NS)?;
        edge();
        let from_ns = monotonic_ns();
        let mut looks = 0;
        while !wait(WAITING_PERIOD) {
            let Sampling { program, unwinder, seen, .. } = self;
            program.take_waiting(&mut |raw| {
                *seen.entry(SampledStack::new(raw, unwinder)).or_default() += 1;
            })?;
            looks += 1;
            if looks % LOOKS_FOR_NEW == 0 {
                self.watch(&pids())?;
            }
        }
        self.program.stop()?;
        // Read when the clocks stop, so that the samples belong to this time.
        let length_ns = monotonic_ns() - from_ns;
        edge();
        Ok((length_ns, looks))
    }

    fn watch(&mut self, pids: &[u32]) -> Result<(), ProgramError> {
        self.know(pids);
        pids.iter().try_for_each(|pid| self.program.watch(*pid))
    }

    fn collect(&mut self) {
        let Sampling { program, unwinder, seen, .. } = self;
        program.each(&mut |raw| *seen.entry(SampledStack::new(raw, unwinder)).or_default() += 1);
    }
}

impl RawStacks {
    /// Looks up the names of all functions. The processes must still be there.
    #[must_use]
    pub fn resolve_names(self) -> Sampled {
        let (frames, [running, waiting]) = name_functions(&self);
        let [lost_running, lost_waiting] = self.lost;
        Sampled {
            length_ns: self.length_ns,
            frames,
            running: Stacks { period_ns: RUNNING_PERIOD_NS, lost: lost_running, stacks: running },
            waiting: Stacks {
                period_ns: self.length_ns / self.looks.max(1),
                lost: lost_waiting,
                stacks: waiting,
            },
        }
    }
}

impl SampledStack {
    fn new(raw: &Raw<'_>, unwinder: &mut Unwinder) -> SampledStack {
        // The innermost is the current address; all others are return addresses.
        let in_call = |(depth, address): (usize, u64)| address - u64::from(depth > 0);
        let name: Vec<u8> = raw.name.iter().copied().take_while(|byte| *byte != 0).collect();
        SampledStack {
            doing: raw.doing,
            pid: raw.pid,
            first: raw.tid == raw.pid,
            thread: shorten(&String::from_utf8_lossy(&name)),
            kernel: raw.kernel().enumerate().map(in_call).collect(),
            user: unwinder.walk(raw),
        }
    }
}

fn online() -> Vec<u32> {
    aya::util::online_cpus().unwrap_or_else(|_| vec![0])
}

/// Names all functions. Returns each name once, the stacks of running threads, and those of waiting
/// threads.
fn name_functions(taken: &RawStacks) -> (Vec<Frame>, [Vec<Stack>; 2]) {
    let RawStacks { seen, unwinder, names: processes, .. } = taken;
    let symbolizer = Symbolizer::new();
    let kernel: BTreeSet<u64> = seen.keys().flat_map(|seen| seen.kernel.iter().copied()).collect();
    let kernel = names::kernel_names(&symbolizer, &kernel);
    let mut users: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for seen in seen.keys() {
        users.entry(seen.pid).or_default().extend(&seen.user.addresses);
    }
    let users: HashMap<u32, FunctionNames> = users
        .iter()
        .map(|(pid, all)| (*pid, names::process_names(&symbolizer, *pid, all, unwinder)))
        .collect();
    let mut frames = Frames::default();
    // Stacks of other addresses may be of the same functions.
    let mut merged: BTreeMap<(bool, Stack), u64> = BTreeMap::new();
    for (seen, samples) in seen {
        let addresses = |all: &[u64], names: &FunctionNames| -> Vec<Frame> {
            all.iter().rev().filter_map(|address| names.get(address)).flatten().cloned().collect()
        };
        let user = addresses(&seen.user.addresses, &users[&seen.pid]);
        let all = [user, addresses(&seen.kernel, &kernel)].concat();
        let left_out = all.len().saturating_sub(STACK_FRAMES);
        let stack = Stack {
            thread: seen.thread.clone(),
            process: processes.get(&seen.pid).cloned().unwrap_or_default(),
            first: seen.first,
            runnable: seen.doing == SampledState::Runnable,
            whole: seen.user.whole && left_out == 0,
            frames: all.into_iter().skip(left_out).map(|frame| frames.place(frame)).collect(),
            samples: 0,
        };
        *merged.entry((seen.doing == SampledState::Running, stack)).or_default() += samples;
    }
    let of = |wanted: bool| {
        let of = merged.iter().filter(|((running, _), _)| *running == wanted);
        of.map(|((_, stack), samples)| Stack { samples: *samples, ..stack.clone() }).collect()
    };
    let stacks = [of(true), of(false)];
    (frames.all, stacks)
}

/// Frames, each once, in the order in which they came.
#[derive(Default)]
struct Frames {
    all: Vec<Frame>,
    places: HashMap<Frame, u32>,
}

impl Frames {
    fn place(&mut self, frame: Frame) -> u32 {
        let next = self.all.len() as u32;
        *self.places.entry(frame).or_insert_with_key(|frame| {
            self.all.push(frame.clone());
            next
        })
    }
}
