//! Derives caveats (reasons to distrust a number) and limiters (the resource that limited a step)
//! from results. Both show users which numbers to trust. The rules here only read metrics, which
//! other modules compute, and write sentences.

mod caveats;
mod conditions;
mod curve;
mod headroom;
pub(crate) mod limiters;
mod polling;
#[cfg(test)]
mod table;
pub(crate) mod thresholds;
mod waits;

use dyno_model::run::Run;
use dyno_model::start::PartStart;
use dyno_model::trial::CheckResult;
use dyno_model::{Facts, LoadRecord, Party};

pub(crate) use caveats::Peak;
use caveats::{LoadInputs, RunInputs, TrialInputs};
pub(crate) use conditions::may_have_contended;
pub(crate) use curve::revise_limiters;
pub use limiters::{Confidence, Limiter, Resource, limiter};
pub(crate) use polling::resting_arms;
pub use thresholds::GENERATOR_BUSY;
pub(crate) use thresholds::MAX_LOST;

use crate::caveat::{Caveat, Code, CodeProperty, Severity};
use crate::design::Design;
use crate::duet::{self, DuetResult};
use crate::faults::sort_by_severity;
use crate::load::{Ceiling, LoadConfig, LoadResult};
use crate::machine::MachineResult;
use crate::server::ServerUse;
use crate::server::group_memory::MemorySource;
use crate::turns::TurnsResult;
use crate::window_levels::Steadiness;

/// Inputs for the caveats of a load, besides its record.
#[derive(Clone, Debug, Default)]
pub struct Context<'a> {
    /// Highest throughput of the generator on this machine. `None`: unknown.
    pub ceiling: Option<Ceiling>,
    /// Resource use of the server. `None`: the server was not monitored.
    pub server: Option<&'a ServerUse>,
    /// Whether the server is a control, which shows the generator's maximum.
    pub control: bool,
    /// Whether refused connections are the expected result: no server should listen on the port.
    pub refuses: bool,
    /// Checks made while the load ran.
    pub checks: &'a [CheckResult],
}

impl Context<'_> {
    /// Returns the server's CPU utilisation if the server filled its CPU with work.
    fn full_server_utilisation(&self, load: &LoadResult) -> Option<f64> {
        self.server.filter(|server| polling::is_full(load, server))?.cpu_utilisation
    }

    /// Returns the setting that gives the generator separate CPUs. In a suite the generator gets
    /// the CPUs that the servers do not use, so the setting belongs to the servers.
    const fn cpus_setting(&self) -> &'static str {
        match self.server {
            Some(_) => "list fewer CPUs for the servers in `cpuset` under `[limits]`",
            None => "`--cpus`",
        }
    }

    /// Returns the setting for this number of generator threads.
    fn threads_setting(&self, threads: usize) -> String {
        match self.server {
            Some(_) => format!("`threads = {threads}` under `[load]`"),
            None => format!("`--threads {threads}`"),
        }
    }

    /// Whether the server is a control that is there to show the generator's maximum: one that only
    /// responds, or one that refuses all connections.
    const fn shows_generator_maximum(&self) -> bool {
        self.control || self.refuses
    }

    /// Returns the severity of a caveat about a generator that may have been the limit.
    fn generator_bound_severity(&self, load: &LoadResult) -> Severity {
        if self.shows_generator_maximum() {
            return Severity::Info;
        }
        match self.full_server_utilisation(load) {
            Some(_) => Severity::Warning,
            None => Severity::Invalid,
        }
    }
}

/// Returns the result of one load, with its caveats.
#[must_use]
pub fn load(record: &LoadRecord, config: LoadConfig, context: &Context<'_>) -> LoadResult {
    let mut result = crate::load::result(record, config);
    result.ceiling.clone_from(&context.ceiling);
    result.caveats = load_caveats(&result, record, context);
    result.valid = is_valid(&result.caveats);
    result
}

/// Replaces the caveats of a result, and updates whether it is valid.
pub(crate) fn with_caveats(
    load: LoadResult,
    change: impl FnOnce(Vec<Caveat>) -> Vec<Caveat>,
) -> LoadResult {
    let caveats = change(load.caveats);
    LoadResult { valid: is_valid(&caveats), caveats, ..load }
}

/// Inputs for the caveats of a trial, besides its load and its server's resource use.
pub(crate) struct TrialContext<'a> {
    pub(crate) record: &'a LoadRecord,
    /// The server's party in the record's samples.
    pub(crate) party: Party,
    /// Source of the server's memory. The record has no memory of the group if it is another one.
    pub(crate) memory: MemorySource,
    /// The server's part of its start. `None`: unknown.
    pub(crate) part: Option<&'a PartStart>,
    /// Index of the workload in the plan.
    pub(crate) workload: usize,
    /// Checks made while the load ran.
    pub(crate) checks: &'a [CheckResult],
    pub(crate) facts: &'a Facts,
    pub(crate) machine: &'a MachineResult,
    /// The turns in which servers were loaded. `None`: the server was loaded without turns.
    pub(crate) turns: Option<&'a TurnsResult>,
    /// Throughput of the other servers in each round (two turns of each server), as multiples of
    /// their means. `None`: unknown.
    pub(crate) pace: Option<Vec<f64>>,
    /// Whether this server was loaded alone, although it was loaded in turns with other servers in
    /// other repeats of this step.
    pub(crate) is_out_of_turn: bool,
    /// Whether the contract was checked before the load but not after it, for a reason outside of
    /// the server.
    pub(crate) lacks_final_check: bool,
    /// Servers that were loaded at the same time on the same CPUs. `None`: this server was alone on
    /// its CPUs, or was loaded in turns.
    pub(crate) duet: Option<&'a DuetResult>,
    /// Levels of the window. `None`: too few intervals.
    pub(crate) steadiness: Option<&'a Steadiness>,
}

/// Returns the caveats of a load, the most severe first.
fn load_caveats(result: &LoadResult, record: &LoadRecord, context: &Context<'_>) -> Vec<Caveat> {
    let mut caveats = caveats::load_caveats(&LoadInputs { result, record, context });
    remove_consequences_of_refusals(&mut caveats);
    sort_by_severity(&mut caveats);
    caveats
}

/// Returns all caveats of a trial, including the caveats of its load, the most severe first.
/// `server`: as in [`Context`].
pub(crate) fn trial(
    load: &LoadResult,
    server: Option<&ServerUse>,
    context: &TrialContext<'_>,
) -> Vec<Caveat> {
    let mut caveats = load.caveats.clone();
    caveats.extend(caveats::trial_caveats(&TrialInputs { load, server, context }));
    if context.turns.is_some() {
        // A turn begins with requests of the turn before it, so the windows' edges are not known.
        caveats.retain(|caveat| !caveats::is_about_edges(caveat));
    }
    if context.duet.is_some() {
        caveats = duet::without_wait_caveats(caveats);
    }
    remove_consequences_of_refusals(&mut caveats);
    sort_by_severity(&mut caveats);
    caveats
}

/// Removes caveats that only follow from connections that were refused as intended: responses and
/// connections are missing, and requests wait while dyno pauses before its next attempt to connect.
fn remove_consequences_of_refusals(caveats: &mut Vec<Caveat>) {
    if has_refusals(caveats) {
        caveats.retain(|caveat| !caveat.code.has(CodeProperty::FollowsRefusals));
    }
}

/// Returns all caveats of a whole run, the most severe first. `peaks` are sorted by workload.
pub(crate) fn run(run: &Run, peaks: &[Peak<'_>]) -> Vec<Caveat> {
    let design = Design::of_run(run);
    let mut caveats = caveats::run_caveats(&RunInputs { run, peaks, design });
    caveats.sort_by_key(|caveat| std::cmp::Reverse(caveat.severity));
    caveats
}

/// Whether a result with these caveats is valid.
#[must_use]
pub(crate) fn is_valid(caveats: &[Caveat]) -> bool {
    has_no_invalid_caveat(caveats) && !has_refusals(caveats)
}

/// Whether all connections of a load were refused as intended, so that the result has no responses.
#[must_use]
pub(crate) fn is_refused(caveats: &[Caveat]) -> bool {
    has_no_invalid_caveat(caveats) && has_refusals(caveats)
}

fn has_no_invalid_caveat(caveats: &[Caveat]) -> bool {
    caveats.iter().all(|caveat| caveat.severity < Severity::Invalid)
}

fn has_refusals(caveats: &[Caveat]) -> bool {
    caveats.iter().any(|caveat| caveat.code == Code::REFUSALS)
}
