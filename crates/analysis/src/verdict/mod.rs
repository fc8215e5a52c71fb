//! Verdicts: caveats (reasons to distrust a number) and limiters (what bound a step). They read
//! results and write sentences; no metric is computed here.

mod curve;
mod levels;
mod limiter;
mod load;
mod other_programs;
mod pauses;
mod polling;
mod resource;
mod room;
mod run;
mod server;
#[cfg(test)]
mod table;
mod thresholds;
mod waits;
mod warming;

use std::collections::BTreeSet;

use dyno_archive::start::PartStart;
use dyno_archive::trial::CheckResult;
use dyno_archive::{Facts, LoadRecord, Party};
use serde_json::json;

pub(crate) use curve::settle;
pub use limiter::{Limiter, limiter};
pub use resource::{Confidence, Resource};
pub use thresholds::GENERATOR_BUSY;
pub(crate) use thresholds::STEAL;

pub(crate) use levels::THROUGHPUT_LEVELS;
pub(crate) use load::MAX_LOST;
pub(crate) use run::{Peak, run};

use crate::caveat::{Caveat, Code, Severity, info};
use crate::duet::{self, DuetResult};
use crate::load::{Ceiling, LoadConfig, LoadResult};
use crate::machine::MachineResult;
use crate::number_format::percent;
use crate::server::{ServerUse, SplitBy};
use crate::trial::sort_by_severity;
use crate::turns::TurnsResult;
use crate::window_levels::Steadiness;

/// Inputs of the judgement of a load, besides its own record.
#[derive(Clone, Debug, Default)]
pub struct Context<'a> {
    /// Most that the generator reached on this machine; `None`: not known.
    pub ceiling: Option<Ceiling>,
    /// Resource use of the server; `None`: it was not monitored.
    pub server: Option<&'a ServerUse>,
    /// The server is a control, which is there to show where the generator ends.
    pub control: bool,
    /// No server should listen on its port.
    pub refuses: bool,
    /// Checks made while the load ran.
    pub checks: &'a [CheckResult],
}

impl Context<'_> {
    /// The server's CPU utilisation, if it needed all of its CPU.
    fn full_server(&self, load: &LoadResult) -> Option<f64> {
        self.server.filter(|server| polling::is_full(load, server))?.cpu_utilisation
    }

    /// The setting that chooses the generator's CPUs: a suite has no option for it, and its
    /// generator gets the CPUs that the servers leave.
    const fn cpus_setting(&self) -> &'static str {
        match self.server {
            Some(_) => "a smaller `cpuset` under `[limits]` leaves it the others",
            None => "`--cpus`",
        }
    }

    /// The setting for this number of generator threads.
    fn threads_setting(&self, threads: usize) -> String {
        match self.server {
            Some(_) => format!("`threads = {threads}` under `[load]`"),
            None => format!("`--threads {threads}`"),
        }
    }

    /// Severity of a generator without room.
    fn weight_of_room(&self, load: &LoadResult) -> Severity {
        match self.full_server(load) {
            _ if self.control => Severity::Info,
            Some(_) => Severity::Warning,
            None => Severity::Invalid,
        }
    }
}

/// The result of one load, judged.
#[must_use]
pub fn load(record: &LoadRecord, config: LoadConfig, context: &Context<'_>) -> LoadResult {
    let mut result = crate::load::result(record, config);
    result.ceiling.clone_from(&context.ceiling);
    result.caveats = load::caveats(&result, record, context);
    result.valid = is_valid(&result.caveats);
    result
}

/// A result with other caveats, and whether it may be used with these.
pub(crate) fn with_caveats(
    load: LoadResult,
    of: impl FnOnce(Vec<Caveat>) -> Vec<Caveat>,
) -> LoadResult {
    let caveats = of(load.caveats);
    LoadResult { valid: is_valid(&caveats), caveats, ..load }
}

/// Inputs of the judgement of a trial, besides its load and its server's resource use.
pub(crate) struct TrialContext<'a> {
    pub(crate) record: &'a LoadRecord,
    /// The server's party in the record's samples.
    pub(crate) party: Party,
    /// The server's part of its start; `None`: nothing is known of it.
    pub(crate) part: Option<&'a PartStart>,
    /// Checks made while the load ran.
    pub(crate) checks: &'a [CheckResult],
    pub(crate) facts: &'a Facts,
    pub(crate) machine: &'a MachineResult,
    /// `None`: the load had all the time.
    pub(crate) turns: Option<&'a TurnsResult>,
    /// Throughput of the other servers in each round of turns, as multiples of their means; `None`:
    /// not known.
    pub(crate) pace: Option<Vec<f64>>,
    /// Whether the load was alone, and other repeats of its cell took turns.
    pub(crate) is_out_of_turn: bool,
    /// `None`: no other server was loaded at the same time.
    pub(crate) duet: Option<&'a DuetResult>,
    /// `None`: too few intervals.
    pub(crate) steadiness: Option<&'a Steadiness>,
}

/// Every reason to distrust a trial, its load's included, the most severe first. `server`: as in
/// [`Context`].
pub(crate) fn trial(
    load: &LoadResult,
    server: Option<&ServerUse>,
    inputs: &TrialContext<'_>,
) -> Vec<Caveat> {
    let mut all = load.caveats.clone();
    all.extend(checks_waived(load, inputs));
    all.extend(inputs.is_out_of_turn.then(out_of_turn));
    // The load's caveats say that the server was not monitored.
    let Some(server) = server else { return adjust_for_duet(inputs, None, all) };
    all.extend(server::caveats(server, inputs.record, inputs.party));
    let company = match (inputs.duet, inputs.turns.zip(inputs.pace.as_deref())) {
        (Some(_), _) => warming::AlsoLoaded::AtOnce,
        (None, Some((turns, pace))) => {
            warming::AlsoLoaded::InTurns { round_s: 2.0 * turns.slice_s, pace }
        }
        (None, None) => warming::AlsoLoaded::None,
    };
    all.extend(warming::caveats(load, server, inputs.part, company));
    let levels =
        inputs.steadiness.map(|steadiness| levels::caveats(load, server, steadiness, &all));
    all.extend(levels.into_iter().flatten());
    all.extend(tick_accounting(server, inputs.facts));
    all.extend(many_writes(load, server));
    all.extend(contaminated(inputs.machine));
    all.extend(thermal_throttling(inputs.machine));
    all.extend(inputs.turns.and_then(busy_in_others_turns));
    all.extend(inputs.turns.and_then(|turns| longer_than_turns(load, turns)));
    let mut all = adjust_for_duet(inputs, Some(server), all);
    sort_by_severity(&mut all);
    all
}

/// A trial whose companions failed, or that a resumed run measured alone.
fn out_of_turn() -> Caveat {
    let message = "This server was loaded alone. In other repeats of this step it was loaded in \
                   turns with other servers. Alone, its caches stay warm, so this repeat is not \
                   comparable. Run the suite again.";
    Caveat::new(Code::OutOfTurn, Severity::Invalid, message.into(), json!({}))
}

/// Adds the caveats of loads that ran at the same time, and drops the caveats of waiting.
fn adjust_for_duet(
    inputs: &TrialContext<'_>,
    server: Option<&ServerUse>,
    all: Vec<Caveat>,
) -> Vec<Caveat> {
    let Some(duet) = inputs.duet else { return all };
    let idle = server.and_then(|server| duet::idle_cpus_caveat(duet, server));
    duet::without_wait_caveats(all)
        .into_iter()
        .chain([duet::duet_caveat(duet)])
        .chain(idle)
        .collect()
}

/// Share of what a server uses in its own turns that it may use in all of others' without a word.
/// dyno's own checks cost a fast server a few thousandths.
const BUSY_AT_REST: f64 = 0.02;

/// A server that takes CPU time from the servers whose turn it is.
fn busy_in_others_turns(turns: &TurnsResult) -> Option<Caveat> {
    let share = turns.carried_share.filter(|share| *share >= BUSY_AT_REST)?;
    let message = format!(
        "In other servers' turns this server used {:.1} % of the CPU time of its own turns. The \
         other servers lacked that time, and part of this server's work is outside of its turns. \
         Load the subjects one after the other (`order = \"random\"`), or use longer turns \
         (`slice`).",
        share * 100.0
    );
    let evidence = json!({
        "carried_share": share, "idle_share": turns.idle_share, "idle_cpus": turns.idle_cpus,
    });
    Some(Caveat::new(Code::BusyInOthersTurns, Severity::Warning, message, evidence))
}

/// Share of a turn that a request may take on average without a word.
const LONG_IN_TURN: f64 = 0.02;

/// Requests that reach from their server's turn into another's.
fn longer_than_turns(load: &LoadResult, turns: &TurnsResult) -> Option<Caveat> {
    let service_s = load.service_time_us.mean? / 1e6;
    let share = service_s / turns.slice_s;
    (share >= LONG_IN_TURN).then(|| {
        let message = format!(
            "Requests took {:.1} ms on average, {:.1} % of a turn. About as many get their \
             response in another server's turn, and response times include that server's load. Use \
             longer turns (`slice`) or fewer connections.",
            service_s * 1e3,
            share * 100.0
        );
        let evidence = json!({"service_time_mean_s": service_s, "slice_s": turns.slice_s});
        Caveat::new(Code::LongerThanTurns, Severity::Warning, message, evidence)
    })
}

/// CPUs that others may use together without a word.
const FOREIGN_CPUS: f64 = 0.1;

/// Processes that have nothing to do with the run.
fn contaminated(machine: &MachineResult) -> Option<Caveat> {
    let others = machine.others.as_ref()?;
    let cpus = machine.others_cpus()?;
    (cpus >= FOREIGN_CPUS).then(|| {
        let names: Vec<String> = others
            .iter()
            .take(3)
            .map(|o| format!("{} (process {}) {:.2}", o.name, o.pid, o.cpus))
            .collect();
        let more = if others.len() > 3 { ", and others" } else { "" };
        let message = format!(
            "Other programs used {cpus:.2} CPUs of this machine while the step ran: {}{more}. The \
             measurements include their effect. Stop them, and repeat the step.",
            names.join(", ")
        );
        let evidence =
            json!({"cpus": cpus, "names": others.iter().map(|o| &o.name).collect::<Vec<_>>()});
        Caveat::new(Code::Contaminated, Severity::Warning, message, evidence)
    })
}

/// Share of the time in which heat may hold a CPU back without a word.
const THROTTLED_FOR_HEAT: f64 = 0.02;

/// A CPU that was too hot.
fn thermal_throttling(machine: &MachineResult) -> Option<Caveat> {
    let share = machine.throttled_for_heat.filter(|share| *share > THROTTLED_FOR_HEAT)?;
    let message = format!(
        "Heat made a CPU of this machine slower for up to {} of the step. Let the machine cool, or \
         fix the clock below its turbo. Then repeat the step.",
        percent(share)
    );
    Some(Caveat::new(Code::ThermalThrottling, Severity::Warning, message, json!({"share": share})))
}

/// Answers that are written in parts, and leave in as many segments.
fn many_writes(load: &LoadResult, server: &ServerUse) -> Option<Caveat> {
    let writes = server.calls.as_ref()?.writes?.per_response;
    let segments = load.tcp.data_segments_per_response?;
    (writes >= waits::SEVERAL_WRITES && segments >= waits::SEVERAL_WRITES).then(|| {
        let message = format!(
            "The server makes {writes:.2} writes per response, and each leaves as a separate \
             segment ({segments:.2} segments per response). One write per response would cost both \
             sides less."
        );
        let evidence = json!({"writes_per_response": writes, "segments_per_response": segments});
        Caveat::new(Code::ManyWrites, Severity::Info, message, evidence)
    })
}

/// A server with a waived check is not comparable with servers that pass it: all its trials say so.
fn checks_waived(load: &LoadResult, inputs: &TrialContext<'_>) -> Option<Caveat> {
    let protocol = load.config.protocol;
    let of_start = inputs
        .part
        .into_iter()
        .flat_map(|part| part.checks_before.iter().chain(&part.checks_after));
    let is_broken =
        |c: &&CheckResult| c.waived && !c.ok && c.answered && c.counts_over().contains(&protocol);
    let waived = of_start.chain(inputs.checks).filter(is_broken);
    let names: BTreeSet<&str> = waived.map(|check| check.name.as_str()).collect();
    let first = names.first()?;
    let more = match names.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let message = format!(
        "The server fails the check {first:?}{more} of its contract, which its own file waives. \
         Its work is therefore not quite that of the other servers."
    );
    Some(Caveat::new(Code::ChecksWaived, Severity::Warning, message, json!({"waived": names})))
}

/// The kernel's tick is some milliseconds long: over short windows the split is coarse.
fn tick_accounting(server: &ServerUse, facts: &Facts) -> Option<Caveat> {
    let is_split = server.cpu_user_s.is_some() && server.cpu_split_by != Some(SplitBy::Entries);
    let message = "The kernel's tick samples the split of CPU time into user and system. The sum \
                   is exact.";
    (facts.tick_accounting == Some(true) && is_split).then(|| info(Code::TickAccounting, message))
}

/// Whether a result with these caveats may be used.
#[must_use]
pub(crate) fn is_valid(caveats: &[Caveat]) -> bool {
    nothing_is_wrong(caveats) && !is_refusal(caveats)
}

/// Whether a result says nothing about answers, and nothing is wrong: all was refused where all is
/// to be.
#[must_use]
pub(crate) fn is_refused(caveats: &[Caveat]) -> bool {
    nothing_is_wrong(caveats) && is_refusal(caveats)
}

fn nothing_is_wrong(caveats: &[Caveat]) -> bool {
    caveats.iter().all(|caveat| caveat.severity < Severity::Invalid)
}

fn is_refusal(caveats: &[Caveat]) -> bool {
    caveats.iter().any(|caveat| caveat.code == Code::Refusals)
}
