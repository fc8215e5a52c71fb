//! Derives caveats (reasons to distrust a number) and limiters (the resource that limited a step)
//! from results. Both show users which numbers to trust. The rules here only read metrics, which
//! other modules compute, and write sentences.

mod conditions;
mod connections;
mod curve;
mod headroom;
mod levels;
pub(crate) mod limiters;
mod load;
mod pauses;
mod polling;
mod refusals;
mod run;
mod server;
#[cfg(test)]
mod table;
mod thread_ends;
pub(crate) mod thresholds;
mod waits;
mod warming;
mod window_length;

use std::collections::BTreeSet;

use dyno_archive::start::PartStart;
use dyno_archive::trial::CheckResult;
use dyno_archive::{Facts, LoadRecord, Party};
use serde_json::json;

pub(crate) use curve::revise_limiters;
pub use limiters::{Confidence, Limiter, Resource, limiter};
pub use thresholds::GENERATOR_BUSY;
use thresholds::OTHERS_CPUS;

pub(crate) use conditions::may_have_contended;
pub(crate) use levels::THROUGHPUT_LEVELS;
pub(crate) use load::MAX_LOST;
pub(crate) use run::{Peak, run};

use crate::caveat::{Caveat, Code, Severity, info};
use crate::duet::{self, DuetResult};
use crate::faults::sort_by_severity;
use crate::load::{Ceiling, LoadConfig, LoadResult};
use crate::machine::MachineResult;
use crate::number_format::percent;
use crate::server::{ServerUse, SplitBy};
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
    result.caveats = load::caveats(&result, record, context);
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

/// Returns all caveats of a trial, including the caveats of its load, the most severe first.
/// `server`: as in [`Context`].
pub(crate) fn trial(
    load: &LoadResult,
    server: Option<&ServerUse>,
    inputs: &TrialContext<'_>,
) -> Vec<Caveat> {
    let mut caveats = load.caveats.clone();
    caveats.extend(waived_checks(load, inputs));
    caveats.extend(inputs.is_out_of_turn.then(out_of_turn));
    caveats.extend(inputs.lacks_final_check.then(unchecked));
    caveats.extend(warming::failures_of_start(inputs.part, inputs.workload));
    // The load's caveats say that the server was not monitored.
    let Some(server) = server else { return adjust_for_duet(inputs, None, caveats) };
    caveats.extend(server::caveats(load, server, inputs.record, inputs.party));
    let other_loads = match (inputs.duet, inputs.turns.zip(inputs.pace.as_deref())) {
        (Some(_), _) => warming::OtherLoads::Concurrent,
        (None, Some((turns, pace))) => {
            // Each server has two turns in a round.
            warming::OtherLoads::InTurns { round_s: 2.0 * turns.slice_s, pace }
        }
        (None, None) => warming::OtherLoads::None,
    };
    caveats.extend(warming::caveats(load, server, inputs.part, inputs.machine, other_loads));
    let levels =
        inputs.steadiness.map(|steadiness| levels::caveats(load, server, steadiness, &caveats));
    caveats.extend(levels.into_iter().flatten());
    caveats.extend(tick_accounting(server, inputs.facts));
    caveats.extend(many_writes(load, server));
    caveats.extend(contamination(inputs.machine));
    caveats.extend(thermal_throttling(inputs.machine));
    if inputs.turns.is_some() {
        // A turn begins with requests of the turn before it, so the windows' edges are not known.
        caveats.retain(|caveat| !window_length::is_about_edges(caveat));
    }
    caveats.extend(inputs.turns.and_then(cpu_use_in_others_turns));
    caveats.extend(inputs.turns.and_then(|turns| requests_longer_than_turns(load, turns)));
    let mut caveats = adjust_for_duet(inputs, Some(server), caveats);
    if has_refusals(&load.caveats) {
        caveats.retain(|caveat| !refusals::is_consequence(caveat));
        caveats.extend(refusals::warmup_responses(inputs.part));
    }
    sort_by_severity(&mut caveats);
    caveats
}

/// The caveat of a trial that ran alone instead of in turns: the other servers failed, or a resumed
/// run measured it alone.
fn out_of_turn() -> Caveat {
    let message = "This server was loaded alone. In other repeats of this step it was loaded in \
                   turns with other servers. Alone, its caches stay warm, so this repeat is not \
                   comparable. Run the suite again.";
    Caveat::new(Code::OutOfTurn, Severity::Invalid, message.into(), json!({}))
}

/// The caveat of a trial whose start ended before the final check of its contract.
fn unchecked() -> Caveat {
    let message = "The server's responses were not checked again after this step, because the run \
                   was interrupted, or a back end or the machine failed. It is unknown whether the \
                   responses were still correct. Use `dyno run --resume` to repeat the step. A \
                   step in which the server failed is kept as recorded.";
    Caveat::new(Code::Unchecked, Severity::Invalid, message.into(), json!({}))
}

/// Adds the caveats of servers that were loaded at the same time on the same CPUs (a duet). Removes
/// caveats about waiting, because the response times of these servers are not compared.
fn adjust_for_duet(
    inputs: &TrialContext<'_>,
    server: Option<&ServerUse>,
    caveats: Vec<Caveat>,
) -> Vec<Caveat> {
    let Some(duet) = inputs.duet else { return caveats };
    let idle = server.and_then(|server| duet::idle_cpus_caveat(duet, server));
    duet::without_wait_caveats(caveats)
        .into_iter()
        .chain([duet::duet_caveat(duet)])
        .chain(idle)
        .collect()
}

/// Minimum CPU time in other servers' turns for a caveat, as a share of the CPU time in the
/// server's own turns. It is above the few thousandths that dyno's checks cost a fast server.
const CARRIED_SHARE: f64 = 0.02;

/// A server used CPU time in the turns of other servers.
fn cpu_use_in_others_turns(turns: &TurnsResult) -> Option<Caveat> {
    let share = turns.carried_share.filter(|share| *share >= CARRIED_SHARE)?;
    let message = format!(
        "Servers were loaded in turns. This server also used CPU time while other servers were \
         loaded: {:.1} % of its CPU time in its own turns. Its throughput is therefore slightly \
         too high, and the other servers had less CPU time. Its CPU time per request includes the \
         time in other servers' turns. Load the subjects one after the other (`order = \
         \"random\"`), or use longer turns (`slice`).",
        share * 100.0
    );
    let evidence = json!({
        "carried_share": share, "idle_share": turns.idle_share, "idle_cpus": turns.idle_cpus,
    });
    Some(Caveat::new(Code::BusyInOthersTurns, Severity::Warning, message, evidence))
}

/// Minimum mean service time for a caveat, as a share of a turn.
const SERVICE_SHARE_OF_TURN: f64 = 0.02;

/// Many requests start in their server's turn and end in another server's turn.
fn requests_longer_than_turns(load: &LoadResult, turns: &TurnsResult) -> Option<Caveat> {
    let service_s = load.service_time_us.mean? / 1e6;
    let share = service_s / turns.slice_s;
    (share >= SERVICE_SHARE_OF_TURN).then(|| {
        let message = format!(
            "Servers were loaded in turns. Requests took {:.1} ms on average, which is {share:.1} \
             % of a turn. About {share:.1} % of the requests therefore got their response in \
             another server's turn, and that server's load affects their response times. Use \
             longer turns (`slice`) or fewer connections.",
            service_s * 1e3,
            share = share * 100.0
        );
        let evidence = json!({"service_time_mean_s": service_s, "slice_s": turns.slice_s});
        Caveat::new(Code::LongerThanTurns, Severity::Warning, message, evidence)
    })
}

/// Processes that do not belong to the run used the machine's CPUs.
fn contamination(machine: &MachineResult) -> Option<Caveat> {
    let others = machine.others.as_ref()?;
    let cpus = machine.others_cpus()?;
    (cpus >= OTHERS_CPUS).then(|| {
        let examples: Vec<String> = others
            .iter()
            .take(3)
            .map(|other| format!("{} (process {}) {:.2}", other.name, other.pid, other.cpus))
            .collect();
        let more = if others.len() > 3 { ", and others" } else { "" };
        let message = format!(
            "Other programs used {cpus:.2} CPUs of this machine while the step ran: {}{more}. The \
             measurements include their effect. Stop these programs, and repeat the step.",
            examples.join(", ")
        );
        let names: Vec<&String> = others.iter().map(|other| &other.name).collect();
        let evidence = json!({"cpus": cpus, "names": names});
        Caveat::new(Code::Contaminated, Severity::Warning, message, evidence)
    })
}

/// Largest share of the time for which heat slows a CPU without a caveat.
const MAX_THERMAL_SHARE: f64 = 0.02;

/// A CPU was slowed because it was too hot.
fn thermal_throttling(machine: &MachineResult) -> Option<Caveat> {
    let share = machine.throttled_for_heat.filter(|share| *share > MAX_THERMAL_SHARE)?;
    let message = format!(
        "Heat made a CPU of this machine slower for up to {} of the step. Let the machine cool, or \
         fix its clock below the turbo frequency. Then repeat the step.",
        percent(share)
    );
    Some(Caveat::new(Code::ThermalThrottling, Severity::Warning, message, json!({"share": share})))
}

/// The server writes responses in parts, and each part leaves as a separate segment.
fn many_writes(load: &LoadResult, server: &ServerUse) -> Option<Caveat> {
    let writes = server.calls.as_ref()?.writes?.per_response;
    let segments = load.tcp.data_segments_per_response?;
    (writes >= waits::SEVERAL_WRITES && segments >= waits::SEVERAL_WRITES).then(|| {
        let message = format!(
            "The server makes {writes:.2} writes per response, and each write leaves as a separate \
             segment ({segments:.2} segments per response). One write per response would cost \
             server and generator less CPU time."
        );
        let evidence = json!({"writes_per_response": writes, "segments_per_response": segments});
        Caveat::new(Code::ManyWrites, Severity::Info, message, evidence)
    })
}

/// The server fails checks that the subject's file waives. Every trial of such a server has the
/// caveat, because it is not comparable with servers that pass the check.
fn waived_checks(load: &LoadResult, inputs: &TrialContext<'_>) -> Option<Caveat> {
    let protocol = load.config.protocol;
    let checks_of_start = inputs
        .part
        .into_iter()
        .flat_map(|part| part.checks_before.iter().chain(&part.checks_after));
    // A check may get no response because the server is overloaded. It then does not count as
    // broken.
    let is_broken = |c: &&CheckResult| {
        c.waived && !c.ok && c.has_response && c.counted_protocols().contains(&protocol)
    };
    let waived = checks_of_start.chain(inputs.checks).filter(is_broken);
    let names: BTreeSet<&str> = waived.map(|check| check.name.as_str()).collect();
    let first = names.first()?;
    let more = match names.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let message = format!(
        "The server fails the check {first:?}{more}, and its subject.toml allows that. The \
         server's work therefore differs from that of the other servers."
    );
    Some(Caveat::new(Code::ChecksWaived, Severity::Warning, message, json!({"waived": names})))
}

/// The kernel samples user and system time once per tick of some milliseconds, so the split is
/// coarse over short windows. A split by entries into the kernel is exact.
fn tick_accounting(server: &ServerUse, facts: &Facts) -> Option<Caveat> {
    let is_split = server.cpu_user_s.is_some() && server.cpu_split_by != Some(SplitBy::Entries);
    let message = "The split of CPU time into user and system time is an estimate from samples at \
                   each timer tick of the kernel. The sum of both is exact.";
    (facts.tick_accounting == Some(true) && is_split).then(|| info(Code::TickAccounting, message))
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
    caveats.iter().any(|caveat| caveat.code == Code::Refusals)
}
