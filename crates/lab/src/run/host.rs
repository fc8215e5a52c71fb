//! The machine as the walk of a plan uses it: it starts the parts of a launch, loads them, and
//! measures time. [`super::RealHost`] is the machine on which dyno runs. Tests use a simulated
//! machine with its own clock.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use dyno_contract::listener::Listener;
use dyno_launch::network::Network;
use dyno_launch::tool::CommandError;
use dyno_model::plan::{Plan, Workload};
use dyno_model::profile::ProfileRecord;
use dyno_model::start::{Canary, Failure, NewFiles, PartStart, StopRecord};
use dyno_model::trial::CheckResult;
use dyno_model::{LoadRecord, Party, Protocol, StartRecord, TrialRecord};
use dyno_observer::cgroup::OomKills;

use super::RunEvent;
use crate::drops::DropWatch;
use crate::load::LoadSpec;

/// A machine that can execute a plan. Its clock is the clock of all records.
pub trait Host {
    type Part: Part;

    /// Returns the time on the machine's monotonic clock, nanoseconds.
    fn now_ns(&self) -> u64;

    /// Waits while no load runs.
    fn rest(&self, length: Duration);

    /// Whether a subject was built on the machine and can be started.
    fn has_built(&self, subject: usize) -> bool;

    /// Begins to watch for packets that the machine drops.
    fn watch_drops(&self) -> DropWatch;

    /// Creates the network of a launch.
    ///
    /// # Errors
    /// The machine cannot isolate the network.
    fn network(&self, launch: usize) -> io::Result<Network>;

    /// Measures a fixed piece of work on a CPU. `None`: no thread can be bound to the CPU.
    fn canary(&self, cpu: u32) -> Option<Canary>;

    /// Binds the calling thread, and all threads that it starts, to these CPUs.
    ///
    /// # Errors
    /// The machine does not have the CPUs.
    fn bind(&self, cpus: &[u32]) -> io::Result<()>;

    /// Checks that the files of a part are those of the plan. Returns the files that are new.
    ///
    /// # Errors
    /// A file has changed since the run was planned.
    fn check_files(&self, launch: usize, party: Party) -> Result<Option<NewFiles>, Failure>;

    /// Starts the part of the last entry of a start's record, waits until it is ready, and loads
    /// its data. `backends`: the back ends that run already.
    ///
    /// # Errors
    /// The part did not become ready. The record has what is known of its start.
    fn start_part(
        &self,
        start: &mut StartRecord,
        backends: &[Self::Part],
        network: &Network,
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Self::Part, Failure>;

    /// Checks the lifecycle promises of a start's subject in separate starts.
    ///
    /// # Errors
    /// A separate start failed, or the promises cannot be checked.
    fn check_lifecycle(
        &self,
        start: &StartRecord,
        backends: &[Self::Part],
        network: &Network,
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Vec<CheckResult>, Failure>;

    /// Inspects a subject that is ready and has no requests: its program, and its resource use.
    fn inspect(&self, record: &mut PartStart, launched: &mut Launched<'_, Self::Part>);

    /// Runs a load that is not a trial: of a warm-up, or of a search.
    ///
    /// # Errors
    /// A sentence: the load could not begin.
    fn load(
        &self,
        spec: &LoadSpec,
        launched: &mut Launched<'_, Self::Part>,
    ) -> Result<LoadRecord, String>;

    /// Measures the CPU time that the probes of a trial take from its server, and records it.
    fn measure_probe_price(
        &self,
        trial: usize,
        spec: &LoadSpec,
        record: &mut PartStart,
        launched: &Launched<'_, Self::Part>,
    );

    /// Runs the loads of trials at the same time, with samples of their servers, and with checks of
    /// their contracts.
    ///
    /// # Errors
    /// A sentence: a load could not begin, so none has begun.
    fn measure(
        &self,
        trials: &mut [TrialLoad<'_, Self::Part>],
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Vec<MeasuredTrial>, String>;

    /// Profiles a subject at the load of a trial.
    fn profile(
        &self,
        trial: usize,
        spec: &LoadSpec,
        launched: &Launched<'_, Self::Part>,
    ) -> ProfileRecord;

    /// Stops a part of a launch. `None`: the part had exited.
    fn stop(&self, launch: usize, part: Self::Part) -> Option<StopRecord>;

    /// Returns the processes and files of a start that could not be removed, as a sentence.
    fn remains(&self, start: usize) -> Option<String>;
}

/// A running part of a start: the subject, or one of its back ends.
pub trait Part {
    fn party(&self) -> Party;

    fn name(&self) -> &str;

    /// Returns the listener of a protocol. `None`: the part does not support the protocol.
    fn listener(&self, protocol: Protocol) -> Option<&Listener>;

    /// Returns the exit status of the first process, if the process has exited.
    fn exit_status(&mut self) -> Option<ExitStatus>;

    /// Waits a moment for the exit of the first process. The sockets of a process close before its
    /// exit is visible.
    fn wait_for_exit(&mut self) -> Option<ExitStatus>;

    /// Returns the processes that the kernel killed for lack of memory.
    fn oom_kills(&self) -> OomKills;

    /// Returns the last lines of the part's output.
    fn log_tail(&self) -> String;

    /// Runs the contract's checks at every listener. `None`: `is_ended` returned true. Stops at the
    /// first failure of a part that no longer responds.
    fn check(&self, is_ended: &dyn Fn() -> bool) -> Option<Vec<CheckResult>>;

    /// Checks whether the part is alive, at negligible cost.
    ///
    /// # Errors
    /// The required listeners do not respond.
    fn check_alive(&self, required: RequiredListeners) -> io::Result<()>;

    /// Returns the failure of a part that does not respond, or whose state is unknown. The message
    /// is the end of a sentence. If the user interrupted the test, the failure is the interrupt.
    /// `None`: the part responds, or is not tested at this depth.
    fn silence(&self, depth: CheckDepth) -> Option<Failure>;

    /// Returns a failure if another program listens at a port of the part.
    fn other_listener(&self) -> Option<Failure>;

    /// Resets the part's data.
    ///
    /// # Errors
    /// The command that resets the data did not succeed.
    fn reset(&self) -> Result<(), CommandError>;
}

/// The listeners of a part that have to respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredListeners {
    Any,
    All,
}

/// Cost of a check whether a back end is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDepth {
    /// Only checks of negligible cost.
    Cheap,
    /// Also the back end's readiness command, because there was a failure.
    Full,
}

/// All parts of a start.
#[derive(Debug)]
pub struct Launched<'a, P> {
    /// In the order in which they were started.
    pub backends: &'a mut [P],
    pub subject: &'a mut P,
}

impl<'a, P> Launched<'a, P> {
    /// Wraps the running parts, the subject last.
    pub(super) fn new(parts: &'a mut [P]) -> Self {
        let (subject, backends) = parts.split_last_mut().expect("a start should have a subject");
        Launched { backends, subject }
    }
}

impl<P: Part> Launched<'_, P> {
    /// Returns the subject's listener for a workload. `Err`: no such listener.
    pub(super) fn listener(&self, workload: &Workload) -> Result<&Listener, String> {
        listener(self.subject, workload)
    }
}

/// Returns a subject's listener for a workload. `Err`: no such listener.
fn listener<'a, P: Part>(subject: &'a P, workload: &Workload) -> Result<&'a Listener, String> {
    let protocol = workload.protocol;
    subject.listener(protocol).ok_or_else(|| {
        format!(
            "the subject no longer supports {protocol}\nhint: check whether its subject.toml \
             changed"
        )
    })
}

/// A trial with its load and its server.
#[derive(Debug)]
pub struct TrialLoad<'a, P> {
    pub trial: usize,
    pub spec: LoadSpec,
    pub launched: Launched<'a, P>,
}

impl<P> TrialLoad<'_, P> {
    /// Returns the trial's workload.
    pub(super) fn workload<'p>(&self, plan: &'p Plan) -> &'p Workload {
        &plan.workloads[plan.trials[self.trial].workload]
    }
}

/// The outcome of a trial.
#[derive(Debug)]
pub struct MeasuredTrial {
    pub load: LoadRecord,
    /// Checks of the contract that were made before and during the load.
    pub checks: Vec<CheckResult>,
}

impl MeasuredTrial {
    /// Returns the record for the archive.
    pub(super) fn into_record(self, trial: usize, start: usize) -> TrialRecord {
        TrialRecord { trial, start, load: self.load, checks: self.checks, ceiling: None }
    }
}
