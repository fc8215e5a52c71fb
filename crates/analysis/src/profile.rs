//! Builds flame graphs from profiles. They show in which functions a server uses CPU time, and in
//! which functions its threads wait.

mod difference;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dyno_model::profile::{Frame, FrameKind, ProfileRecord, Stack, Stacks};
use dyno_model::run::Run;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cell::CellKey;
use crate::roles;
pub use difference::{FunctionChange, ProfileDifference, difference};

/// Minimum share of all samples for a part of a flame graph. A smaller part would be invisible.
const MIN_SHARE: f64 = 0.001;

/// Number of functions that are listed as the hottest.
const HOTTEST: usize = 15;

/// Profiles of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProfileResult {
    pub cell: CellKey,
    /// Numbers of the trials whose profiles are combined, counted from 1 in the order of the plan.
    pub trials: Vec<usize>,
    /// Reasons why other trials of the cell have no profile, as sentences.
    pub failures: Vec<String>,
    /// Time over which stacks were sampled.
    pub length_s: f64,
    /// Complete responses per second during that time; `None`: all profiles failed.
    pub throughput_rps: Option<f64>,
    /// CPU time of the server per response during that time; `None`: unknown.
    pub cpu_us_per_request: Option<f64>,
    /// Share of the server's CPU time that the samples cover. The rest was used by processes that
    /// ended early or were not yet monitored. `None`: unknown.
    pub sampled_share: Option<f64>,
    /// Reasons why JIT-compiled functions may have no names, as sentences.
    pub unnamed: Vec<String>,
    /// Stacks of running threads; `None`: no sample.
    pub running: Option<Flame>,
    /// Stacks of waiting threads, including the wait for a CPU; `None`: no sample.
    pub waiting: Option<Flame>,
}

/// Stacks combined into a tree, from the thread's role to the innermost function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Flame {
    pub samples: u64,
    /// Samples that were lost because the buffer was full.
    pub lost: u64,
    /// Time that all samples represent: CPU time, or waiting time of threads.
    pub seconds: f64,
    /// Time per complete response.
    pub us_per_request: Option<f64>,
    /// Share of the samples whose stack is complete down to the start of its thread: 0 to 1.
    pub whole_share: f64,
    /// Share of the samples in which all functions have names: 0 to 1. An address in a file is not
    /// a name.
    pub named_share: f64,
    pub functions: Vec<Function>,
    /// Nodes in depth-first order, each before its callees. Invisibly small nodes are omitted.
    pub nodes: Vec<Node>,
    /// For each node, how its time per response differs from another profile: −3 (much less) to 3
    /// (much more). 0: no significant difference. `None`: no other profile.
    pub levels: Option<Vec<i8>>,
    /// Functions with the most own samples, in descending order.
    pub hottest: Vec<HotFunction>,
    /// Shares of the samples by the origin of the innermost function: the kernel, a file, or code
    /// that was compiled just in time.
    pub by_origin: Vec<NamedShare>,
}

/// A function in a flame graph, or a role of threads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Function {
    pub name: String,
    /// The file with the function's code; `None`: no file.
    pub module: Option<String>,
    pub kind: FunctionKind,
}

impl Function {
    /// Returns the file with the function's code, or its origin.
    #[must_use]
    pub fn file(&self) -> &str {
        self.module.as_deref().unwrap_or(self.kind.name())
    }
}

/// Origin of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FunctionKind {
    /// Not a function, but a role of threads.
    Role,
    Kernel,
    Native,
    Jit,
    Inlined,
}

impl FunctionKind {
    /// Returns the origin of such functions, in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FunctionKind::Role => "threads",
            FunctionKind::Kernel => "kernel",
            FunctionKind::Native => "program",
            FunctionKind::Jit => "compiled just in time",
            FunctionKind::Inlined => "inlined",
        }
    }

    const fn from_frame_kind(kind: FrameKind) -> FunctionKind {
        match kind {
            FrameKind::Kernel => FunctionKind::Kernel,
            FrameKind::Native => FunctionKind::Native,
            FrameKind::Jit => FunctionKind::Jit,
            FrameKind::Inlined => FunctionKind::Inlined,
        }
    }
}

/// A function in one call path. In JSON, a node is a list of these four numbers in this order,
/// because there are thousands of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(into = "[u64; 4]")]
#[schemars(with = "[u64; 4]")]
pub struct Node {
    /// Index in `functions`.
    pub function: u32,
    pub depth: u32,
    /// Number of samples to the left of the node.
    pub start: u64,
    pub samples: u64,
}

impl From<Node> for [u64; 4] {
    fn from(node: Node) -> [u64; 4] {
        [node.function.into(), node.depth.into(), node.start, node.samples]
    }
}

/// Share of a function in the samples.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Hot")]
pub struct HotFunction {
    pub function: u32,
    /// Share of the samples in which the function is the innermost one: 0 to 1.
    pub own_share: f64,
    /// Share of the samples with the function anywhere in the stack.
    pub share: f64,
    /// Own time per complete response.
    pub own_us_per_request: Option<f64>,
}

/// Share of the samples with one origin of the innermost function: 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Share")]
pub struct NamedShare {
    pub name: String,
    pub share: f64,
}

/// State of the threads in a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    Running,
    Waiting,
}

impl SampleKind {
    /// Returns the name of the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SampleKind::Running => "running",
            SampleKind::Waiting => "waiting",
        }
    }

    /// Returns the stacks of threads in this state.
    #[must_use]
    pub const fn stacks(self, profile: &ProfileRecord) -> &Stacks {
        match self {
            SampleKind::Running => &profile.running,
            SampleKind::Waiting => &profile.waiting,
        }
    }
}

/// Combines the profiles of a run by cell.
#[must_use]
pub fn profiles(run: &Run) -> Vec<ProfileResult> {
    let plan = &run.header.plan;
    let mut cells: BTreeMap<CellKey, Vec<&ProfileRecord>> = BTreeMap::new();
    for profile in &run.profiles {
        cells.entry(CellKey::from_trial(&plan.trials[profile.trial])).or_default().push(profile);
    }
    cells.into_iter().map(|(cell, profiles)| result(cell, &profiles)).collect()
}

/// Combines the profiles of a cell.
fn result(cell: CellKey, profiles: &[&ProfileRecord]) -> ProfileResult {
    let failures: BTreeSet<&String> = profiles.iter().filter_map(|p| p.failure.as_ref()).collect();
    let valid: Vec<&ProfileRecord> =
        profiles.iter().copied().filter(|p| p.failure.is_none()).collect();
    let seconds = valid.iter().map(|p| p.length_ns).sum::<u64>() as f64 / 1e9;
    let responses: u64 = valid.iter().map(|p| p.responses).sum();
    let cpu_ns: Option<u64> = valid.iter().map(|p| p.cpu_ns).sum();
    let us_per_response = |ns: u64| (responses > 0).then(|| ns as f64 / 1e3 / responses as f64);
    let running = Flame::from_profiles(&valid, SampleKind::Running);
    let cpu_s = cpu_ns.filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e9);
    let unnamed: BTreeSet<&String> = valid.iter().filter_map(|p| p.unnamed.as_ref()).collect();
    ProfileResult {
        cell,
        trials: valid.iter().map(|p| p.trial + 1).collect(),
        failures: failures.into_iter().cloned().collect(),
        length_s: seconds,
        throughput_rps: (seconds > 0.0).then(|| responses as f64 / seconds),
        cpu_us_per_request: cpu_ns.and_then(us_per_response),
        sampled_share: cpu_s.map(|used| running.as_ref().map_or(0.0, |flame| flame.seconds) / used),
        unnamed: unnamed.into_iter().cloned().collect(),
        running,
        waiting: Flame::from_profiles(&valid, SampleKind::Waiting),
    }
}

/// A stack and the number of its samples. The first function is the role of its threads, the last
/// one the innermost function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub functions: Vec<Function>,
    pub samples: u64,
}

/// Returns the stacks of a profile as lists of functions. Equal lists are merged.
#[must_use]
pub fn lines(profile: &ProfileRecord, kind: SampleKind) -> Vec<Line> {
    let mut merged: BTreeMap<Vec<Function>, u64> = BTreeMap::new();
    for stack in &kind.stacks(profile).stacks {
        *merged.entry(functions(stack, &profile.frames)).or_default() += stack.samples;
    }
    merged.into_iter().map(|(functions, samples)| Line { functions, samples }).collect()
}

/// Returns the number of samples of all stacks.
#[must_use]
pub fn sample_count(lines: &[Line]) -> u64 {
    lines.iter().map(|line| line.samples).sum()
}

/// Returns the functions of a stack: the role of its threads, the calls, and the wait for a CPU if
/// there was one.
fn functions(stack: &Stack, frames: &[Frame]) -> Vec<Function> {
    let role = roles::thread_role(&stack.thread, &stack.process, stack.first).replace('_', " ");
    let root = Function { name: role, module: None, kind: FunctionKind::Role };
    let cpu_wait = stack.runnable.then(|| Function {
        name: "waits for a CPU".into(),
        module: None,
        kind: FunctionKind::Kernel,
    });
    let calls = stack.frames.iter().map(|frame_index| function(&frames[*frame_index as usize]));
    std::iter::once(root).chain(calls).chain(cpu_wait).collect()
}

/// Returns the function of a frame. A frame without a name gets the name of its file.
fn function(frame: &Frame) -> Function {
    let unknown = || match &frame.module {
        Some(module) => format!("[{module}]"),
        None if frame.kind == FrameKind::Kernel => "[kernel]".into(),
        None => UNKNOWN.into(),
    };
    Function {
        name: frame.name.clone().unwrap_or_else(unknown),
        module: frame.module.clone(),
        kind: FunctionKind::from_frame_kind(frame.kind),
    }
}

/// Name of code that belongs to no file and has no symbol.
const UNKNOWN: &str = "[unknown]";

impl Flame {
    /// Combines profiles into one flame graph; `None`: the profiles have no sample.
    #[must_use]
    pub fn from_profiles(profiles: &[&ProfileRecord], kind: SampleKind) -> Option<Flame> {
        let samples: u64 = stacks(profiles, kind).map(|(_, stack)| stack.samples).sum();
        if samples == 0 {
            return None;
        }
        let share = |n: u64| n as f64 / samples as f64;
        let share_of = |is_selected: &dyn Fn(&ProfileRecord, &Stack) -> bool| -> f64 {
            let selected =
                stacks(profiles, kind).filter(|(profile, stack)| is_selected(profile, stack));
            share(selected.map(|(_, stack)| stack.samples).sum())
        };
        let ns = |p: &&ProfileRecord| {
            let stacks = kind.stacks(p);
            stacks.stacks.iter().map(|s| s.samples).sum::<u64>() as f64 * stacks.period_ns as f64
        };
        let seconds = profiles.iter().map(ns).sum::<f64>() / 1e9;
        let responses: u64 = profiles.iter().map(|p| p.responses).sum();
        let us_per_request = (responses > 0).then(|| seconds * 1e6 / responses as f64);
        let mut tree = Tree::default();
        for profile in profiles {
            lines(profile, kind).iter().for_each(|line| tree.add(line, |calls| &mut calls.samples));
        }
        Some(Flame {
            samples,
            lost: profiles.iter().map(|p| kind.stacks(p).lost).sum(),
            seconds,
            us_per_request,
            whole_share: share_of(&|_, stack| stack.is_complete),
            named_share: share_of(&|p, stack| {
                stack.frames.iter().all(|f| p.frames[*f as usize].is_named())
            }),
            nodes: tree.visible_calls(samples).map(|(node, _)| node).collect(),
            levels: None,
            hottest: tree.hottest(share, us_per_request),
            by_origin: tree.by_origin(share),
            functions: tree.functions,
        })
    }
}

/// Returns the stacks of several profiles, each with its profile.
fn stacks<'a>(
    profiles: &'a [&'a ProfileRecord],
    kind: SampleKind,
) -> impl Iterator<Item = (&'a ProfileRecord, &'a Stack)> {
    profiles.iter().flat_map(move |profile| {
        kind.stacks(profile).stacks.iter().map(move |stack| (*profile, stack))
    })
}

/// Call tree of all stacks.
#[derive(Default)]
struct Tree {
    functions: Vec<Function>,
    indices: HashMap<Function, u32>,
    root: Calls,
    /// Samples of each function, by its index in `functions`.
    sample_counts: BTreeMap<u32, SampleCounts>,
}

/// Samples of a function.
#[derive(Clone, Copy, Debug, Default)]
struct SampleCounts {
    /// Samples in which the function is the innermost one.
    own: u64,
    /// Samples with the function anywhere in the stack.
    total: u64,
}

/// A function in one call path, with its callees.
#[derive(Default)]
struct Calls {
    samples: u64,
    /// Samples in another profile.
    other_samples: u64,
    callees: BTreeMap<u32, Calls>,
}

impl Tree {
    /// Adds a stack. `samples_of_call`: selects the counter that is increased.
    fn add(&mut self, line: &Line, samples_of_call: impl Fn(&mut Calls) -> &mut u64) {
        let indices: Vec<u32> =
            line.functions.iter().map(|function| self.function_index(function)).collect();
        let mut calls = &mut self.root;
        *samples_of_call(calls) += line.samples;
        for index in &indices {
            calls = calls.callees.entry(*index).or_default();
            *samples_of_call(calls) += line.samples;
        }
        // A recursive function is counted once per stack.
        for index in indices.iter().collect::<BTreeSet<_>>() {
            self.sample_counts.entry(*index).or_default().total += line.samples;
        }
        if let Some(innermost) = indices.last() {
            self.sample_counts.entry(*innermost).or_default().own += line.samples;
        }
    }

    /// Returns the index of a function, which is added if it is new.
    fn function_index(&mut self, function: &Function) -> u32 {
        if let Some(index) = self.indices.get(function) {
            return *index;
        }
        let index = self.functions.len() as u32;
        self.functions.push(function.clone());
        self.indices.insert(function.clone(), index);
        index
    }

    /// Returns the calls that are large enough to be visible, each with its samples in the other
    /// profile. `samples`: number of all samples.
    fn visible_calls(&self, samples: u64) -> impl Iterator<Item = (Node, u64)> {
        let mut nodes = Vec::new();
        let min_samples = (samples as f64 * MIN_SHARE).ceil() as u64;
        self.root.list(&self.functions, 0, 0, min_samples, &mut nodes);
        nodes.into_iter()
    }

    /// Returns the functions with the most own samples.
    fn hottest(&self, share: impl Fn(u64) -> f64, us_per_request: Option<f64>) -> Vec<HotFunction> {
        let mut functions: Vec<(u32, SampleCounts)> = self
            .sample_counts
            .iter()
            .filter(|(_, counts)| counts.own > 0)
            .map(|(index, counts)| (*index, *counts))
            .collect();
        functions.sort_by_key(|(index, counts)| {
            (std::cmp::Reverse(counts.own), &self.functions[*index as usize])
        });
        let hot_function = |(function, counts): (u32, SampleCounts)| HotFunction {
            function,
            own_share: share(counts.own),
            share: share(counts.total),
            own_us_per_request: us_per_request.map(|us| us * share(counts.own)),
        };
        functions.into_iter().take(HOTTEST).map(hot_function).collect()
    }

    /// Returns the shares of the samples by the origin of the innermost function, the largest
    /// first.
    fn by_origin(&self, share: impl Fn(u64) -> f64) -> Vec<NamedShare> {
        let mut origins: BTreeMap<String, u64> = BTreeMap::new();
        for (index, counts) in &self.sample_counts {
            *origins.entry(origin(&self.functions[*index as usize])).or_default() += counts.own;
        }
        let mut shares: Vec<NamedShare> = origins
            .into_iter()
            .filter(|(_, samples)| *samples > 0)
            .map(|(name, samples)| NamedShare { name, share: share(samples) })
            .collect();
        shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        shares
    }
}

/// Returns where the code of a function comes from: the kernel, a file or a just-in-time compiler.
fn origin(function: &Function) -> String {
    match (&function.module, function.kind) {
        (_, FunctionKind::Kernel) => "kernel".into(),
        (Some(module), _) => module.clone(),
        (None, _) => "compiled just in time".into(),
    }
}

impl Calls {
    /// Appends the visible callees in the order of their names, so that the graphs of two runs have
    /// the same order. `start`: number of samples to the left of the first callee.
    fn list(
        &self,
        functions: &[Function],
        depth: u32,
        start: u64,
        min_samples: u64,
        nodes: &mut Vec<(Node, u64)>,
    ) {
        let mut callees: Vec<(&u32, &Calls)> = self.callees.iter().collect();
        callees.sort_by_key(|(function, _)| &functions[**function as usize]);
        let mut position = start;
        for (function, calls) in callees {
            if calls.samples >= min_samples && calls.samples > 0 {
                let node =
                    Node { function: *function, depth, start: position, samples: calls.samples };
                nodes.push((node, calls.other_samples));
                calls.list(functions, depth + 1, position, min_samples, nodes);
            }
            position += calls.samples;
        }
    }
}
