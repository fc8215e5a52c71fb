//! Samples the call stacks of processes, for profiles of running and of waiting threads.
//!
//! CPU clocks sample running threads. All other threads are sampled at fixed intervals, so that the
//! number of samples of a wait is proportional to its length. Beginnings and ends of waits are not
//! traced, so a thread that waits often costs no more than one that rarely waits.
//!
//! `program` copies stacks from memory, `unwind` finds their frames, `names` finds the functions.

mod names;
mod program;
mod unwind;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use blazesym::symbolize::Symbolizer;
use dyno_model::limits::STACK_FRAMES;
use dyno_model::profile::{Frame, Stack, Stacks};
use names::{FunctionNames, shorten};
use program::{RawStack, SampledState, StackProgram};
use unwind::{Unwinder, UserStack};

use crate::clock::monotonic_ns;
use crate::kernel::{ProgramError, Refusal, check_support};
use crate::read;

/// CPU time between two samples of a CPU. It is a prime number of microseconds, so that samples do
/// not coincide with other periodic events.
const RUNNING_PERIOD_NS: u64 = 2_003_000;

/// Time between two samples of waiting threads. As in [`RUNNING_PERIOD_NS`], it is a prime number
/// of microseconds.
const WAITING_PERIOD: Duration = Duration::from_micros(19_997);

/// Rounds of sampling the waiting threads between two searches for new processes.
const ROUNDS_PER_SEARCH: u64 = 5;

const REQUIREMENTS: &str = "Use Linux 5.18 or later with CONFIG_DEBUG_INFO_BTF and \
                         CONFIG_PERF_EVENTS, as distributions build it. Containers may forbid \
                         bpf(2) and perf_event_open(2).";

/// The eBPF program that samples stacks. The kernel unloads it when this value is dropped.
#[allow(missing_debug_implementations)] // Its maps have none.
pub struct Sampling {
    program: StackProgram,
    unwinder: Unwinder,
    /// Names of processes.
    names: HashMap<u32, String>,
    /// Number of samples of each stack.
    samples: HashMap<SampledStack, u64>,
}

/// A stack, the key of a count of samples.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SampledStack {
    state: SampledState,
    pid: u32,
    /// Whether the thread is the first one of its process.
    first: bool,
    thread: String,
    /// Addresses, the innermost first. Each lies within its function's code.
    kernel: Vec<u64>,
    user: UserStack,
}

/// Sampled stacks, without names.
#[allow(missing_debug_implementations)] // It contains the files of the processes.
pub struct UnnamedStacks {
    length_ns: u64,
    /// Rounds of sampling the waiting threads.
    waiting_rounds: u64,
    /// Stacks that were dropped for lack of memory: of running threads, and of waiting ones.
    lost: [u64; 2],
    samples: HashMap<SampledStack, u64>,
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

/// Returns why stacks cannot be sampled on this machine. `None`: stacks are available.
#[must_use]
pub fn refusal() -> Option<Refusal> {
    Sampling::load().err()
}

impl Sampling {
    /// Loads the program that samples stacks.
    ///
    /// # Errors
    /// The kernel does not support the program, or this user lacks the permission.
    pub fn load() -> Result<Sampling, Refusal> {
        check_support()?;
        let program =
            StackProgram::load().map_err(|error| Refusal::from_error(&error, REQUIREMENTS))?;
        Ok(Sampling {
            program,
            unwinder: Unwinder::default(),
            names: HashMap::new(),
            samples: HashMap::new(),
        })
    }

    /// Reads the mappings and binaries of processes. Called before the sampling, because the
    /// reading would disturb it.
    pub fn preload_processes(&mut self, pids: &[u32]) {
        for pid in pids {
            self.unwinder.load_process(*pid);
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
    /// The kernel does not sample stacks.
    pub fn run(
        mut self,
        pids: &dyn Fn() -> Vec<u32>,
        edge: &mut dyn FnMut(),
        wait: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<UnnamedStacks, String> {
        let (length_ns, waiting_rounds) =
            self.sample_until(pids, edge, wait).map_err(|error| error.message)?;
        self.collect();
        let Sampling { program, unwinder, names, samples } = self;
        Ok(UnnamedStacks {
            length_ns,
            waiting_rounds,
            lost: program.lost_stacks(),
            samples,
            unwinder,
            names,
        })
    }

    /// Returns the length of the sampling in nanoseconds, and the number of rounds of sampling the
    /// waiting threads.
    fn sample_until(
        &mut self,
        pids: &dyn Fn() -> Vec<u32>,
        edge: &mut dyn FnMut(),
        wait: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<(u64, u64), ProgramError> {
        self.watch(&pids())?;
        self.program.start_clocks(&online_cpus(), RUNNING_PERIOD_NS)?;
        edge();
        let from_ns = monotonic_ns();
        let mut waiting_rounds = 0;
        while !wait(WAITING_PERIOD) {
            let Sampling { program, unwinder, samples, .. } = self;
            program.sample_waiting(&mut |raw| {
                *samples.entry(SampledStack::new(raw, unwinder)).or_default() += 1;
            })?;
            waiting_rounds += 1;
            if waiting_rounds % ROUNDS_PER_SEARCH == 0 {
                self.watch(&pids())?;
            }
        }
        self.program.stop()?;
        // Read right after the clocks stop, so that all samples lie within this time.
        let length_ns = monotonic_ns() - from_ns;
        edge();
        Ok((length_ns, waiting_rounds))
    }

    fn watch(&mut self, pids: &[u32]) -> Result<(), ProgramError> {
        self.preload_processes(pids);
        pids.iter().try_for_each(|pid| self.program.watch(*pid))
    }

    fn collect(&mut self) {
        let Sampling { program, unwinder, samples, .. } = self;
        program.drain(&mut |raw| {
            *samples.entry(SampledStack::new(raw, unwinder)).or_default() += 1;
        });
    }
}

impl UnnamedStacks {
    /// Looks up the names of all functions. The processes must still exist.
    #[must_use]
    pub fn resolve_names(self) -> Sampled {
        let (frames, [running, waiting]) = name_functions(&self);
        let [lost_running, lost_waiting] = self.lost;
        Sampled {
            length_ns: self.length_ns,
            frames,
            running: Stacks { period_ns: RUNNING_PERIOD_NS, lost: lost_running, stacks: running },
            waiting: Stacks {
                period_ns: self.length_ns / self.waiting_rounds.max(1),
                lost: lost_waiting,
                stacks: waiting,
            },
        }
    }
}

impl SampledStack {
    fn new(raw: &RawStack<'_>, unwinder: &mut Unwinder) -> SampledStack {
        // All addresses except the innermost are return addresses. They point behind the call,
        // which may be the end of the function, so one byte is subtracted.
        let call_address = |(depth, address): (usize, u64)| address - u64::from(depth > 0);
        let name: Vec<u8> = raw.name.iter().copied().take_while(|byte| *byte != 0).collect();
        SampledStack {
            state: raw.state,
            pid: raw.pid,
            first: raw.tid == raw.pid,
            thread: shorten(&String::from_utf8_lossy(&name)),
            kernel: raw.kernel().enumerate().map(call_address).collect(),
            user: unwinder.unwind(raw),
        }
    }
}

fn online_cpus() -> Vec<u32> {
    aya::util::online_cpus().unwrap_or_else(|_| vec![0])
}

/// Names all functions. Returns each frame once, the stacks of running threads, and the stacks of
/// waiting threads.
fn name_functions(raw: &UnnamedStacks) -> (Vec<Frame>, [Vec<Stack>; 2]) {
    let UnnamedStacks { samples, unwinder, names: processes, .. } = raw;
    let symbolizer = Symbolizer::new();
    let kernel_addresses: BTreeSet<u64> =
        samples.keys().flat_map(|s| s.kernel.iter().copied()).collect();
    let kernel_functions = names::kernel_names(&symbolizer, &kernel_addresses);
    let mut user_addresses: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for sampled in samples.keys() {
        user_addresses.entry(sampled.pid).or_default().extend(&sampled.user.addresses);
    }
    let user_functions: HashMap<u32, FunctionNames> = user_addresses
        .iter()
        .map(|(pid, addresses)| {
            (*pid, names::process_names(&symbolizer, *pid, addresses, unwinder))
        })
        .collect();
    let mut frames = FrameTable::default();
    // Stacks with different addresses may consist of the same functions.
    let mut merged: BTreeMap<(bool, Stack), u64> = BTreeMap::new();
    for (sampled, count) in samples {
        let outermost_first = |addresses: &[u64], names: &FunctionNames| -> Vec<Frame> {
            let known = addresses.iter().rev().filter_map(|address| names.get(address));
            known.flatten().cloned().collect()
        };
        let user = outermost_first(&sampled.user.addresses, &user_functions[&sampled.pid]);
        let stack_frames = [user, outermost_first(&sampled.kernel, &kernel_functions)].concat();
        let excess = stack_frames.len().saturating_sub(STACK_FRAMES);
        let stack = Stack {
            thread: sampled.thread.clone(),
            process: processes.get(&sampled.pid).cloned().unwrap_or_default(),
            first: sampled.first,
            runnable: sampled.state == SampledState::Runnable,
            is_complete: sampled.user.is_complete && excess == 0,
            frames: stack_frames.into_iter().skip(excess).map(|f| frames.index(f)).collect(),
            samples: 0,
        };
        *merged.entry((sampled.state == SampledState::Running, stack)).or_default() += count;
    }
    let stacks_of = |running: bool| {
        let matching = merged.iter().filter(|((is_running, _), _)| *is_running == running);
        matching.map(|((_, stack), count)| Stack { samples: *count, ..stack.clone() }).collect()
    };
    let stacks = [stacks_of(true), stacks_of(false)];
    (frames.frames, stacks)
}

/// Frames, each once, in the order of their first use.
#[derive(Default)]
struct FrameTable {
    frames: Vec<Frame>,
    indices: HashMap<Frame, u32>,
}

impl FrameTable {
    /// Returns the index of a frame, which is added if it is new.
    fn index(&mut self, frame: Frame) -> u32 {
        let next = self.frames.len() as u32;
        *self.indices.entry(frame).or_insert_with_key(|frame| {
            self.frames.push(frame.clone());
            next
        })
    }
}
